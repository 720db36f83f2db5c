"""Composition: what several releases protect together, and ledgers of budgets."""

from dpinfer.privacy.composition.advanced import compose_advanced
from dpinfer.privacy.composition.allocation import BudgetAllocation
from dpinfer.privacy.composition.entries import LedgerEntry
from dpinfer.privacy.composition.ledger import BudgetLedger
from dpinfer.privacy.composition.parallel import compose_parallel
from dpinfer.privacy.composition.repeated import RepeatedDP, compose_optimal
from dpinfer.privacy.composition.sequential import compose

__all__ = [
    "BudgetAllocation",
    "BudgetLedger",
    "LedgerEntry",
    "RepeatedDP",
    "compose",
    "compose_advanced",
    "compose_optimal",
    "compose_parallel",
]
