"""How the precision of a measurement follows from its share of the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpinfer._check import FloatArray, Neighbours, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.samplers import NoiseSource
from dpinfer.privacy.guarantees import GDP, ZCDP, Guarantee, PureDP
from dpinfer.privacy.ledger import BudgetLedger
from dpinfer.queries.sensitivity import l1_sensitivity, l2_sensitivity
from dpinfer.queries.workload import Workload


@dataclass(frozen=True)
class Family:
    """Noises of one kind under one kind of budget.

    With the share s of a budget, a measurement of sensitivity Δ has the rate u = s·budget/Δ^order,
    which adds up over measurements like the budget does, and the precision (one over the variance
    of its noise) ``precision(u)``, with derivative ``slope(u)``.
    """

    order: int
    size: Callable[[Any], float]
    precision: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]
    law: Callable[[float], NoiseLaw]

    @property
    def linear(self) -> bool:
        """Whether precisions are proportional to rates, and sums of variances convex in shares."""
        return self.order == 2

    def law_of(self, unit: float, share: float) -> NoiseLaw | None:
        """Return the noise of a share of the budget; None where nothing is spent."""
        return self.law(float(share * unit)) if share > 0 else None

    def unit(self, budget: Guarantee, sensitivity: float) -> float:
        """Return the rate of a measurement that has the whole budget."""
        with np.errstate(all="ignore"):
            unit = self.size(budget) / np.float64(sensitivity) ** self.order
        if not 1e-60 <= unit <= 1e60:
            raise InvalidParameterError(
                f"budget must be between 1e-60 and 1e60 for a sensitivity of 1, got {budget} for "
                f"a sensitivity of {sensitivity:g}"
            )
        return float(unit)


LARGEST_RATE = 700.0
"""Beyond it the variance of geometric noise would underflow."""


def _epsilon(budget: Any) -> float:
    return float(budget.epsilon)


def _rho(budget: Any) -> float:
    return float(budget.rho)


def _double(u: FloatArray) -> FloatArray:
    return 2.0 * u


def _two(u: FloatArray) -> FloatArray:
    return np.full_like(u, 2.0)


_FAMILIES: dict[tuple[type, type], Family] = {
    (PureDP, Laplace): Family(
        1, _epsilon, lambda u: 0.5 * np.square(u), lambda u: u, lambda u: Laplace(scale=1.0 / u)
    ),
    (PureDP, Geometric): Family(
        1,
        _epsilon,
        lambda u: 2.0 * np.square(np.sinh(0.5 * np.minimum(u, LARGEST_RATE))),
        lambda u: np.sinh(np.minimum(u, LARGEST_RATE)),
        lambda u: Geometric(scale=1.0 / u),
    ),
    (ZCDP, Gaussian): Family(2, _rho, _double, _two, lambda u: Gaussian(sigma=np.sqrt(0.5 / u))),
    (ZCDP, DiscreteGaussian): Family(
        2, _rho, _double, _two, lambda u: DiscreteGaussian(sigma=np.sqrt(0.5 / u))
    ),
    (GDP, Gaussian): Family(
        2,
        lambda budget: float(budget.mu * budget.mu),
        lambda u: u,
        np.ones_like,
        lambda u: Gaussian(sigma=np.sqrt(1.0 / u)),
    ),
}
"""The first of each kind of budget is its default."""


def find_family(budget: object, mechanism: object) -> tuple[Guarantee, Family]:
    """Return the budget, checked, and the family of a mechanism class under it."""
    kinds = [mechanism for kind, mechanism in _FAMILIES if isinstance(budget, kind)]
    if not isinstance(budget, Guarantee) or not kinds:
        raise InvalidParameterError(
            "budget must be a PureDP, ZCDP or GDP guarantee, which adds up over measurements in "
            f"shares, got {show(budget)}; for (ε, δ) plan in ZCDP and convert the total"
        )
    if not any(getattr(budget, name, 0.0) > 0 for name in ("epsilon", "rho", "mu")):
        raise InvalidParameterError(f"budget must be > 0, got {show(budget)}")
    kind = kinds[0] if mechanism is None else next((k for k in kinds if k is mechanism), None)
    if kind is None:
        names = " or ".join(name.__name__ for name in kinds)
        raise InvalidParameterError(
            f"mechanism must be the class {names} under a {type(budget).__name__} budget, got "
            f"{show(mechanism)}"
        )
    return budget, _FAMILIES[type(budget), kind]


# Measures of the error of what was published, and how far one record can move them.


Measure = Literal["signed", "l1", "squared"]


@dataclass(frozen=True)
class ErrorMeasure:
    """What is published about the k errors: truth minus published.

    ``reduce(errors, clip)`` gives it; ``factor(clip)`` is how far it moves, at most, where one
    value moves by one. A vector of errors keeps its shape, other measures are one number.
    """

    title: str
    vector: bool
    reduce: Callable[[FloatArray, float], FloatArray]
    factor: Callable[[float], float]

    def sensitivity(
        self, workload: Workload | None, size: int, neighbours: Neighbours, clip: float, order: int
    ) -> float:
        """Return the sensitivity: that in the L2 norm where ``order`` is 2 and it is a vector."""
        norm = order if self.vector else 1
        if workload is None:
            # a record is counted in one of the values, and may change from one to another
            moved = 2 if neighbours == "replace" and size > 1 else 1
            return self.factor(clip) * (1.0 if moved == 1 else 2.0 ** (1.0 / norm))
        return self.factor(clip) * (l1_sensitivity, l2_sensitivity)[norm - 1](workload, neighbours)


def enter(
    ledger: object, name: str, source: NoiseSource, guarantee: Guarantee, **mechanism: Any
) -> None:
    """Enter an expense into a ledger, if there is one; it may refuse, before noise is drawn."""
    if ledger is None:
        return
    if not isinstance(ledger, BudgetLedger):
        raise InvalidParameterError(f"ledger must be a BudgetLedger, got {show(ledger)}")
    called = f"{name} (simulated)" if source.simulated else name
    ledger.record(called, None if mechanism else guarantee, **mechanism)


def check_workload(workload: Any, size: int, measure: Measure) -> Workload | None:
    if workload is None:
        return None
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if len(queries) != size:
        raise InvalidParameterError(
            f"workload must have a row for each of the {size} values, got {len(queries)}"
        )
    if measure == "squared" and not queries.is_integer:
        raise InvalidParameterError(
            "workload must have whole-number coefficients for measure='squared', whose sensitivity "
            "is that of steps of one"
        )
    return queries


def _squared(errors: FloatArray, clip: float) -> FloatArray:
    return np.asarray(np.square(np.minimum(np.abs(errors), clip)).sum())


def _squared_factor(clip: float) -> float:
    """Return max over e of g(e + 1) - g(e), with g(e) = min(|e|, C)².

    g grows fastest just below C: C² - (C - 1)² for C >= 1, and from 0 to C² for smaller C.
    """
    return 2.0 * clip - 1.0 if clip >= 1.0 else clip * clip


MEASURES: dict[Measure, ErrorMeasure] = {
    "signed": ErrorMeasure("Signed error", True, lambda errors, _: errors, lambda _: 1.0),
    "l1": ErrorMeasure(
        "L1 error", False, lambda errors, _: np.asarray(np.abs(errors).sum()), lambda _: 1.0
    ),
    "squared": ErrorMeasure("Clipped squared error", False, _squared, _squared_factor),
}
