"""Pictures of results, with the extra ``[plot]``: one look, legible in grey."""

from dpinfer.plotting.budgets import plot_allocation, plot_ledger
from dpinfer.plotting.certificates import plot_certificates
from dpinfer.plotting.coverage import plot_coverage
from dpinfer.plotting.forest import plot_forest
from dpinfer.plotting.levels import plot_level_widths
from dpinfer.plotting.nulls import plot_null
from dpinfer.plotting.protection import plot_delta, plot_pbdp, plot_trade_off

__all__ = [
    "plot_allocation",
    "plot_certificates",
    "plot_coverage",
    "plot_delta",
    "plot_forest",
    "plot_ledger",
    "plot_level_widths",
    "plot_null",
    "plot_pbdp",
    "plot_trade_off",
]
