"""How the precision of a measurement follows from its share of the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, NoiseLaw
from dpinfer.privacy.guarantees import GDP, ZCDP, Guarantee, PureDP


@dataclass(frozen=True)
class Family:
    """Noises of one kind under one kind of budget.

    With the share s of a budget, a measurement of sensitivity Δ has the rate u = s·budget/Δ^order,
    which adds up over measurements like the budget does, and the precision (one over the variance
    of its noise) ``precision(u)``, with derivative ``slope(u)``. Where that is proportional to u,
    ``linear`` says so: sums of variances are then convex in the shares.
    """

    order: int
    linear: bool
    size: Callable[[Any], float]
    precision: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]
    law: Callable[[float], NoiseLaw]

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

_LAPLACE = Family(
    order=1,
    linear=False,
    size=lambda budget: budget.epsilon,
    precision=lambda u: 0.5 * np.square(u),
    slope=lambda u: u,
    law=lambda u: Laplace(scale=1.0 / u),
)

_GEOMETRIC = Family(
    order=1,
    linear=False,
    size=lambda budget: budget.epsilon,
    precision=lambda u: 2.0 * np.square(np.sinh(0.5 * np.minimum(u, LARGEST_RATE))),
    slope=lambda u: np.sinh(np.minimum(u, LARGEST_RATE)),
    law=lambda u: Geometric(scale=1.0 / u),
)

_GAUSSIAN_RHO = Family(
    order=2,
    linear=True,
    size=lambda budget: budget.rho,
    precision=lambda u: 2.0 * u,
    slope=lambda u: np.full_like(u, 2.0),
    law=lambda u: Gaussian(sigma=np.sqrt(0.5 / u)),
)

_DISCRETE_RHO = Family(
    order=2,
    linear=True,
    size=_GAUSSIAN_RHO.size,
    precision=_GAUSSIAN_RHO.precision,
    slope=_GAUSSIAN_RHO.slope,
    law=lambda u: DiscreteGaussian(sigma=np.sqrt(0.5 / u)),
)

_GAUSSIAN_MU = Family(
    order=2,
    linear=True,
    size=lambda budget: budget.mu * budget.mu,
    precision=lambda u: u,
    slope=np.ones_like,
    law=lambda u: Gaussian(sigma=np.sqrt(1.0 / u)),
)

_FAMILIES: dict[tuple[type, type], Family] = {
    (PureDP, Laplace): _LAPLACE,
    (PureDP, Geometric): _GEOMETRIC,
    (ZCDP, Gaussian): _GAUSSIAN_RHO,
    (ZCDP, DiscreteGaussian): _DISCRETE_RHO,
    (GDP, Gaussian): _GAUSSIAN_MU,
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
