"""The division of a budget over measurements that serves the targets best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_rng
from dpinfer.errors import ConvergenceError, NotEstimableError
from dpinfer.mechanisms import DiscreteGaussian
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.queries import Domain
from dpinfer.spending._families import find_family
from dpinfer.spending._measurements import read_measurements
from dpinfer.spending.release_plan import ReleasePlan, check_weights, make_plan

if TYPE_CHECKING:
    from dpinfer.mechanisms import NoiseLaw

_FLOOR = 1e-10
"""Smallest share that a search gives to a measurement, or the square of it where precisions go with
the square of a share; at the end those that are not needed get none."""

_TOLERANCE, _FAILURE = 1e-6, 1e-3
"""Gaps, relative to the objective, at which a convex search ends, and counts as failed."""

_ROUNDS = 8
_FIXED_POINT_STEPS = 30
_RANDOM_STARTS = 8
_MOST_STARTS = 40
_BEST_STARTS = 6

Value = Callable[[FloatArray], tuple[float, FloatArray]]


def optimal_shares(
    measured: Any,
    *,
    budget: Guarantee,
    target: Any = None,
    domain: Domain | None = None,
    weights: Any = None,
    mechanism: type[NoiseLaw] | None = None,
    rng: RNG = 0,
) -> ReleasePlan:
    """Divide a budget over measurements so that a weighted sum of target variances is smallest.

    Parameters
    ----------
    measured, budget, target, domain, mechanism
        As for :func:`plan_release`.
    weights : array of float, optional
        The importance w >= 0 of each target in Σ w · variance. All cells of a target marginal have
        its weight. By default 1.
    rng : None, int or numpy.random.Generator, default 0
        Source of some of the places where a search that is not convex starts.

    Returns
    -------
    ReleasePlan
        The plan with the best shares. ``gap`` bounds how much better any other shares could be,
        where the sum is convex.

    Raises
    ------
    NotEstimableError
        If what is measured does not determine a target.
    ConvergenceError
        If the search ends with a gap above 1e-3 of the sum; it aims at 1e-6.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    Under ZCDP and GDP budgets precisions are proportional to shares, the sum of variances
    tr(W T M(s)⁻¹ Tᵀ) is convex, and SciPy's SLSQP with the exact gradient finds its minimum;
    max(-∇) - Σ s(-∇) bounds the distance to it. Where every target has a measurement of its own,
    the shares are proportional to √(wΔ²).

    Under PureDP budgets precisions grow with the square of the share. With measurements that do not
    overlap the sum is convex, and shares are proportional to ∛(wΔ²). In general it is not: of two
    measurements of one thing, it is best to leave one out. The search then starts in many places,
    and the best that it finds need not be the best there is; ``notes`` say so.

    For the discrete Gaussian the shares are those of the Gaussian, whose variance differs by less
    than 1e-7 of itself from σ = 1 on; the plan has its exact variances.

    References
    ----------
    Li, C., Miklau, G., Hay, M., McGregor, A. and Rastogi, V. (2015). The matrix mechanism.
    doi:10.1007/s00778-015-0398-x.

    Kraft, D. (1988). A software package for sequential quadratic programming. DFVLR-FB 88-28.

    Examples
    --------
    Three counts of different importance with Laplace noise:

    >>> import numpy as np
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> plan = optimal_shares([np.eye(3)[[0]], np.eye(3)[[1]], np.eye(3)[[2]]],
    ...                       budget=PureDP(1.0), weights=[1, 8, 27])
    >>> (6 * plan.shares.to_numpy()).round(5)
    array([1., 2., 3.])
    """
    whole, family = find_family(budget, mechanism)
    queries = read_measurements(measured, domain, target)
    change = queries.sensitivities(family.order, whole.neighbours)
    importance = check_weights(weights, queries)
    weight = importance * queries.cells
    free = np.flatnonzero(change > 0)
    unit = np.array([family.unit(whole, float(one)) for one in change[free]])

    objective = queries.objective(weight)

    def value(shares: FloatArray) -> tuple[float, FloatArray]:
        rate = shares * unit
        precision = np.full(len(change), np.inf)
        precision[free] = family.precision(rate)
        with np.errstate(over="ignore", invalid="ignore"):
            total, slope = objective(precision)
            return total, slope[free] * family.slope(rate) * unit

    problem = _Problem(value, len(free), family.linear)
    found, gap = problem.solve(check_rng(rng))
    shares = np.zeros(len(change))
    shares[free] = found
    notes = [] if family.linear else [_LOCAL]
    if mechanism is DiscreteGaussian:
        notes.append("shares are those that are best for Gaussian noise of the same sigma")
    return make_plan(queries, change, whole, family, shares, importance, gap, tuple(notes))


_LOCAL = (
    "the best of several searches: under pure differential privacy the sum of variances need not "
    "be convex in the shares"
)


@dataclass(frozen=True)
class _Problem:
    """A sum of variances and its gradient at positive shares of ``size`` measurements."""

    value: Value
    size: int
    convex: bool

    @property
    def floor(self) -> float:
        """Smallest share that a search gives to a measurement."""
        return _FLOOR if self.convex else np.sqrt(_FLOOR)

    def solve(self, rng: np.random.Generator) -> tuple[FloatArray, float | None]:
        """Return the best shares, and for a convex sum how far it can be from the smallest."""
        equal = np.full(self.size, 1.0 / max(self.size, 1))
        total, slope = self.value(equal)
        if not (np.isfinite(total) and np.isfinite(slope).all()):
            raise ConvergenceError(
                "the variances overflow: the queries, targets and weights differ by too many "
                "orders of magnitude; express them in other units"
            )
        if self.size <= 1 or total == 0:  # there is no choice, or nothing to be improved
            return equal, 0.0 if self.convex else None
        if self.convex:
            return self._certified(equal)
        starts = sorted((self._fixed_point(start) for start in self._starts(rng)), key=self._total)
        found = [self._drop(self._descend(start)) for start in starts[:_BEST_STARTS]]
        return min((self._polished(shares) for shares in found), key=self._total), None

    def _certified(self, shares: FloatArray) -> tuple[FloatArray, float]:
        """Return the shares and the gap of the convex problem.

        F(t) >= F(s) + ∇F(s)·(t - s) for all shares t, and so at least F(s) - ∇F(s)·s + min ∇F(s).
        """
        least = -np.inf
        for _ in range(_ROUNDS):
            shares = self._descend(self._fixed_point(shares))
            total, slope = self.value(shares)
            least = max(least, total - float(shares @ slope - slope.min()))
            if total - least <= _TOLERANCE * total:
                break
        shares = self._drop(shares)
        total = self._total(shares)
        if total - least > _FAILURE * total:
            raise ConvergenceError(
                f"the search for shares ended {(total - least) / total:.1e} of the sum above its "
                "bound: measure fewer queries, or give targets and weights of similar size"
            )
        return shares, max(0.0, total - least)

    def _total(self, shares: FloatArray) -> float:
        return self.value(shares)[0]

    def _fixed_point(self, shares: FloatArray) -> FloatArray:
        """Multiply shares by powers of the gradient until that stops to help.

        Shares proportional to s·(-∇)^(1/2), or (-∇)^(1/3) under Laplace noise, are where they
        stay; for measurements that do not overlap the first step leads there.
        """
        power = 1.0 / 2.0 if self.convex else 1.0 / 3.0
        total, slope = self.value(shares)
        for _ in range(_FIXED_POINT_STEPS):
            largest = -slope.min()
            if not largest > 0:
                return shares
            moved = self._floored(shares * (-slope / largest).clip(0.0) ** power)
            other, slope = self.value(moved)
            if not other < total:
                return shares
            small = total - other <= 1e-12 * total
            shares, total = moved, other
            if small:
                return shares
        return shares

    def _descend(self, shares: FloatArray) -> FloatArray:
        """Improve shares by sequential quadratic programming; never make them worse."""
        from scipy.optimize import minimize

        scale = self._total(shares)

        def scaled(at: FloatArray) -> tuple[float, FloatArray]:
            total, slope = self.value(np.maximum(at, 0.1 * self.floor))
            return total / scale, slope / scale

        with np.errstate(all="ignore"), warnings.catch_warnings():
            # SciPy before 1.16 warns where a step of its own ends a rounding outside the bounds
            warnings.simplefilter("ignore", RuntimeWarning)
            found = minimize(
                scaled,
                shares,
                jac=True,
                method="SLSQP",
                bounds=[(self.floor, 1.0)] * self.size,
                constraints={
                    "type": "eq",
                    "fun": lambda at: at.sum() - 1.0,
                    "jac": lambda at: np.ones(self.size),
                },
                options={"maxiter": 200, "ftol": 1e-14},
            )
        if not np.isfinite(found.x).all():
            return shares
        moved = self._floored(found.x)
        return moved if self._total(moved) < scale else shares

    def _drop(self, shares: FloatArray) -> FloatArray:
        """Give nothing to measurements at the floor, where what remains is no worse."""
        kept = shares > 10.0 * self.floor
        if kept.all() or not kept.any():
            return shares
        fewer = np.where(kept, shares, 0.0) / shares[kept].sum()
        try:
            no_worse = self._total(fewer) <= self._total(shares) * (1.0 + 1e-12)
        except NotEstimableError:
            return shares
        return fewer if no_worse else shares

    def _polished(self, shares: FloatArray) -> FloatArray:
        """Search once more among the measurements that were kept."""
        kept = np.flatnonzero(shares)
        if len(kept) < 2 or len(kept) == self.size:
            return shares

        def value(part: FloatArray) -> tuple[float, FloatArray]:
            full = np.zeros(self.size)
            full[kept] = part
            total, slope = self.value(full)
            return total, slope[kept]

        part = _Problem(value, len(kept), self.convex)
        best = np.zeros(self.size)
        best[kept] = part._descend(shares[kept])
        return best

    def _starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield equal shares, most for one measurement, and random shares."""
        yield np.full(self.size, 1.0 / self.size)
        for most in range(min(self.size, _MOST_STARTS)):
            yield self._floored(np.where(np.arange(self.size) == most, 1.0, 0.1 / self.size))
        for _ in range(_RANDOM_STARTS):
            yield self._floored(rng.dirichlet(np.ones(self.size)))

    def _floored(self, shares: FloatArray) -> FloatArray:
        """Return shares that add up to one, none below the floor."""
        raised = np.maximum(shares / shares.sum(), self.floor)
        return np.asarray(raised / raised.sum())
