"""Budgets against totals, in the parameters of the budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpinfer.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpinfer.privacy.guarantees._guarantee import LETTERS

ROUNDING = 1e-12
"""Share of a budget by which a total may exceed it: rounding of the sums."""

_PARAMETERS: dict[type, tuple[str, ...]] = {
    PureDP: ("epsilon",),
    ApproxDP: ("epsilon", "delta"),
    ZCDP: ("rho",),
    GDP: ("mu",),
}


def covers(budget: Guarantee, total: Guarantee) -> bool:
    """Whether a total stays within the budget in every parameter that either has."""
    return all(
        getattr(total, name, 0.0) <= getattr(budget, name, 0.0) * (1.0 + ROUNDING)
        for name in LETTERS
    )


def nothing(budget: Guarantee) -> Guarantee:
    """Return the guarantee of no release at all, in the kind of the budget."""
    return _changed(budget, dict.fromkeys(_PARAMETERS[type(budget)], 0.0))


def remainder(budget: Guarantee, spent: Guarantee) -> Guarantee:
    """Return what is left of a budget, in its own kind."""
    if isinstance(budget, GDP) and isinstance(spent, GDP):
        # √(μ² - spent²)
        gap = max(budget.mu - spent.mu, 0.0) * (budget.mu + spent.mu)
        return _changed(budget, {"mu": float(np.sqrt(gap))})
    left = {
        name: max(getattr(budget, name) - getattr(spent, name, 0.0), 0.0)
        for name in _PARAMETERS[type(budget)]
    }
    return _changed(budget, left)


def share(budget: Guarantee, spent: Guarantee) -> float:
    """Share of a release in the budget, in the quantity that adds up: ε, ρ or μ²."""
    name = _PARAMETERS[type(budget)][0]
    whole = getattr(budget, name)
    ratio = float(getattr(spent, name)) / whole if whole else 0.0
    return ratio * ratio if name == "mu" else ratio


def _changed(budget: Guarantee, parameters: dict[str, Any]) -> Guarantee:
    return replace(budget, **parameters)
