"""Intervals for the values of a release by the law that its publishing rule gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, check_alpha, check_array, check_flag
from dpinfer._numerics.lattice import alike, smallest_whole
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.published import PublishedRows
from dpinfer.mechanisms.independent import Mechanism, as_noise, groups, integer_cells
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    relative_tail,
)
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.releases.noises import Rule
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels

# Ends of intervals for values that were published because they reached a threshold.


_DEEP = 447.0
"""Depth below the threshold, in standard deviations of Gaussian noise, at which the logarithm of
the tail is -1e5: deeper, ratios of tails have a rounding error above 1e-11."""

_MONOTONE = (Laplace, Geometric, Gaussian, DiscreteGaussian, Tulap)
"""Laws under which the conditional tails are monotone in the confidential value."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedValues:
    """Values that reached their thresholds, under noise of one kind."""

    noise: ParametricLaw
    y: FloatArray
    threshold: FloatArray

    @classmethod
    def of(cls, noise: NoiseLaw, y: FloatArray, threshold: FloatArray) -> SelectedValues:
        """Refuse laws under which the answer need not be an interval."""
        rounded = isinstance(noise, Rounded) and not isinstance(noise.law, Tulap)
        if not (rounded or isinstance(noise, _MONOTONE)):
            listed = ", ".join(kind.__name__ for kind in _MONOTONE)
            raise InvalidParameterError(
                f"mechanism must be one of {listed}, or rounded Laplace or Gaussian noise, for "
                f"values with a threshold, got {type(noise).__name__}: under other laws the "
                "values that are compatible with what was published need not form an interval"
            )
        return cls(noise=cast("ParametricLaw", noise), y=y, threshold=threshold)

    @property
    def is_whole(self) -> bool:
        """Whether the confidential values are whole numbers: Tulap noise is for counts too."""
        return self.noise.is_integer or isinstance(self.noise, Tulap)

    def distinct(self) -> tuple[SelectedValues, NDArray[np.intp]]:
        """Return values that differ by more than a shift, and the number of each value's kind.

        They are shifted so that the confidential values are near zero.
        """
        columns = [self.y - self.base, self.threshold - self.base]
        parameters = self.noise._parameters().values() if self.noise.shape else ()
        first, kind = alike([*columns, *(np.asarray(x) for x in parameters)])
        y, threshold = (column[first] for column in columns)
        return replace(self, noise=self.noise.take(first), y=y, threshold=threshold), kind

    @property
    def base(self) -> FloatArray:
        """Points near the values by which a shift leaves whole numbers whole."""
        return np.rint(self.y) if self.is_whole else self.y

    def lower(self, q: float) -> FloatArray:
        """Infimum of the f with P(Y >= y | Y >= threshold; f) > q."""
        return self._solve("larger", q, -np.inf)

    def upper(self, q: float) -> FloatArray:
        """Supremum of the f with P(Y <= y | Y >= threshold; f) > q; -inf where there is none."""
        deepest = self._floor if _is_gaussian(self.noise) else -np.inf
        return self._solve("smaller", q, deepest)

    def _solve(self, side: str, q: float, beyond: FloatArray | float) -> FloatArray:
        """Solve tail(f) = q where there is a solution above the floor; elsewhere ``beyond``."""
        grows = side == "larger"
        everything = np.arange(self.y.size)
        at_floor = self.tail(side, self._floor, everything)
        solved = np.flatnonzero(at_floor < q if grows else at_floor > q)
        ends = np.array(np.broadcast_to(beyond, self.y.shape))
        if solved.size:
            solve = self._whole_ends if self.is_whole else self._real_ends
            ends[solved] = solve(side, q, solved)
        return ends

    def _whole_ends(self, side: str, q: float, rows: NDArray[np.intp]) -> FloatArray:
        """Find the last whole number whose tail exceeds q."""
        half = self.noise.take(rows)._isf(np.asarray(q))
        if side == "larger":
            guess = np.ceil(self.y[rows] - half)
            return smallest_whole(guess, lambda f: self.tail("larger", f, rows) > q)
        guess = np.floor(self.y[rows] + half) + 1.0
        above = smallest_whole(guess, lambda f: self.tail("smaller", f, rows) <= q)
        return np.asarray(above - 1.0)

    def _real_ends(self, side: str, q: float, rows: NDArray[np.intp]) -> FloatArray:
        """Find the root, in standard deviations from y, and give the outer end of its bracket."""
        grows = side == "larger"
        law = self.noise.take(rows)
        std = np.broadcast_to(law.std, rows.shape)
        sign = 1.0 if grows else -1.0

        def excess(z: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            row = rows[index]
            with np.errstate(divide="ignore"):
                log_tail = np.log(self.tail(side, self.y[row] + z * std[index], row))
            return np.asarray(sign * (np.log(q) - log_tail))

        # publication makes large values likelier, so that the ends are below the ordinary ones;
        # they are above those of another level where the threshold makes no difference
        high = np.broadcast_to(-sign * law.isf(q) / std, rows.shape)
        near = np.broadcast_to(-sign * law.isf(q / 2 if grows else (1 + q) / 2) / std, rows.shape)
        floor = (self._floor - self.y)[rows] / std
        holds = (near > floor) & (excess(near, np.arange(rows.size)) >= 0)
        low = np.where(holds, near, floor)
        low, high = find_root(excess, low, high, rtol=1e-14, atol=1e-14, expand=True)
        return np.asarray(self.y[rows] + std * (low if grows else high))

    def tail(self, side: str, target: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """Probability of a published value as large, or as small, if the f are ``target``."""
        law = PublishedRows(
            target=target,
            noise=self.noise.take(rows),
            threshold=self.threshold[rows],
            lowest=np.full(rows.size, -np.inf),
            highest=np.full(rows.size, np.inf),
        )
        tail: Callable[[FloatArray], FloatArray] = getattr(law, side)
        return tail(self.y[rows])

    @property
    def _floor(self) -> FloatArray:
        """Below it the tails are constant, or the threshold out of reach, or rounding matters."""
        floor = self.threshold - _depth(self.noise)
        return np.floor(floor) if self.is_whole else floor


def _depth(noise: ParametricLaw) -> FloatArray:
    """Distance from the threshold to the floor.

    Laplace and geometric noise have no memory: where all published values are in their tail, the
    conditional law does not depend on the confidential value. So has Tulap noise, for shifts by
    whole numbers, up to the ends of its support.
    """
    if _is_gaussian(noise):
        return _DEEP * np.asarray(next(iter(noise._parameters().values())))
    if isinstance(noise, Tulap):
        bound = np.asarray(noise.isf(0.0))
        return np.where(np.isfinite(bound), bound + 1.0, 1.0)
    # of rounded Laplace noise, only what is beyond 1/2 has no memory
    return np.asarray(float(isinstance(noise, Rounded)))


def _is_gaussian(noise: ParametricLaw) -> bool:
    law = noise.law if isinstance(noise, Rounded) else noise
    return isinstance(law, (Gaussian, DiscreteGaussian))


# Point estimates from values that were published because they reached a threshold.


_TERMS = 60
"""Depth of the continued fraction, which is exact to rounding for arguments above 2."""


def most_likely(values: SelectedValues) -> FloatArray:
    """Maximise P(y - f)/P(e >= threshold - f) over f; the largest f where that is constant."""
    return _MAXIMA[type(values.noise)](values)


def median_unbiased(values: SelectedValues) -> FloatArray:
    """Confidential values under which as large and as small values have the same probability."""
    lower = values.lower(0.5)
    if not values.is_whole:
        return lower
    upper = values.upper(0.5)
    return np.asarray(np.where(np.isinf(upper), upper, 0.5 * (lower + upper)))


def _at_value(values: SelectedValues) -> FloatArray:
    """Laplace and geometric noise: the tail falls no faster than the density on either side."""
    return values.y


def _of_tulap(values: SelectedValues) -> FloatArray:
    """Tulap noise: the nearest whole number, or the smallest possible one.

    Going down from y, the likelihood falls, is constant, and where the noise has bounds rises
    again as the threshold gets out of reach.
    """
    noise, y, threshold = cast("Tulap", values.noise), values.y, values.threshold
    nearest = np.rint(y)
    lowest = np.ceil(y - noise.isf(0.0))
    rows = np.flatnonzero(np.isfinite(lowest))
    law = noise.take(rows)
    y, threshold, lowest, best = y[rows], threshold[rows], lowest[rows], nearest[rows]

    def log_likelihood(f: FloatArray) -> FloatArray:
        density, published = law.logpdf(y - f), law.logsf(threshold - f)
        possible = density > -np.inf
        return np.where(possible, density - np.where(possible, published, 0.0), -np.inf)

    nearest[rows] = np.where(log_likelihood(lowest) > log_likelihood(best), lowest, best)
    return np.asarray(nearest)


def _of_gaussian(values: SelectedValues) -> FloatArray:
    """Gaussian noise: f such that E[Y | Y >= threshold; f] = y.

    With z = (f - threshold)/σ that is z + φ(z)/Φ(z) = (y - threshold)/σ, whose left side grows
    from 0 as -1/z.
    """
    sigma = np.broadcast_to(np.asarray(values.noise._parameters()["sigma"]), values.y.shape)
    gap = (values.y - values.threshold) / sigma
    out = np.full(values.y.shape, -np.inf)
    rows = np.flatnonzero(gap > 0)
    if rows.size:
        wanted = gap[rows]

        def excess(z: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.asarray(wanted[index] - _mean_excess(z))

        low, high = find_root(excess, -1.0 / wanted, wanted, rtol=1e-14, atol=1e-14, expand=True)
        z = 0.5 * (low + high)
        near = values.y[rows] - sigma[rows] * _inverse_mills(np.maximum(z, -4.0))
        out[rows] = np.where(z > -4.0, near, values.threshold[rows] + sigma[rows] * z)
    return out


def _inverse_mills(z: FloatArray) -> FloatArray:
    """Return φ(z)/Φ(z)."""
    density = np.exp(-0.5 * np.square(np.maximum(z, 0.0)))
    below = special.erfcx(-np.minimum(z, 0.0) / np.sqrt(2.0))
    ratio = density / np.where(z > 0, 2.0 * special.ndtr(z), below)
    return np.asarray(np.sqrt(2.0 / np.pi) * ratio)


def _mean_excess(z: FloatArray) -> FloatArray:
    """Evaluate z + φ(z)/Φ(z); by Laplace's continued fraction 1/(t+2/(t+3/...)) at z = -t."""
    t = np.maximum(-z, 4.0)
    fraction = np.zeros_like(t)
    for k in range(_TERMS, 0, -1):
        fraction = k / (t + fraction)
    return np.where(z > -4.0, z + _inverse_mills(np.maximum(z, -4.0)), fraction)


def _of_discrete_gaussian(values: SelectedValues) -> FloatArray:
    """Discrete Gaussian noise: the first whole f above which the likelihood falls.

    It is log-concave in f, as that of every exponential family in its parameter.
    """
    sigma = np.broadcast_to(np.asarray(values.noise._parameters()["sigma"]), values.y.shape)
    first = np.ceil(values.threshold)
    out = np.full(values.y.shape, -np.inf)
    rows = np.flatnonzero(values.y > first)
    if not rows.size:
        return out
    noise, y, first, sigma = values.noise.take(rows), values.y[rows], first[rows], sigma[rows]

    def falls(f: FloatArray) -> NDArray[np.bool_]:
        """Whether the likelihood of f + 1 is no larger than that of f."""
        k = first - f
        # where P(e >= k) is far in the tail, its Gaussian factor cancels in part
        deep = np.maximum(k, 2.0)
        near = -(y - f - 0.5) / np.square(sigma) + noise.logcdf(1.0 - k) - noise.logcdf(-k)
        far = -(y - first) / np.square(sigma) + np.log(
            relative_tail(deep - 1.0, sigma) / relative_tail(deep, sigma)
        )
        return np.asarray(np.where(k >= 2.0, far, near) >= 0)

    out[rows] = smallest_whole(y, falls)
    return out


def _of_rounded(values: SelectedValues) -> FloatArray:
    """Return, under rounded noise, the whole number from which on the likelihood falls.

    Under Laplace noise that is the value or the number before: from there down both the
    probability and the tail fall by one factor, so that the likelihood is constant.
    """
    noise = cast("Rounded", values.noise)
    memoryless = isinstance(noise.law, Laplace)
    # under Gaussian noise, of the first number that is published it rises without end
    rows = np.flatnonzero(memoryless | (values.y > np.ceil(values.threshold)))
    law, y, threshold = noise.take(rows), values.y[rows], values.threshold[rows]

    def falls(f: FloatArray) -> NDArray[np.bool_]:
        rise = law._logpmf(y - f - 1.0) - law._logpmf(y - f)
        # by symmetry P(e >= x) = P(e <= -x)
        lift = law._logcdf(f + 1.0 - threshold) - law._logcdf(f - threshold)
        return np.asarray(rise <= lift)

    out = np.full(values.y.shape, -np.inf)
    out[rows] = np.where(falls(y - 1.0), y - 1.0, y) if memoryless else smallest_whole(y, falls)
    return out


_MAXIMA: dict[type, Callable[[SelectedValues], FloatArray]] = {
    Laplace: _at_value,
    Geometric: _at_value,
    Tulap: _of_tulap,
    Gaussian: _of_gaussian,
    DiscreteGaussian: _of_discrete_gaussian,
    Rounded: _of_rounded,
}


Estimator = Literal["maximum-likelihood", "median-unbiased"]

ESTIMATORS: dict[Estimator, Callable[[SelectedValues], FloatArray]] = {
    "maximum-likelihood": most_likely,
    "median-unbiased": median_unbiased,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedRows:
    """Noisy values, with the part of their publishing rule that matters for each."""

    noise: NoiseLaw
    rule: Rule
    values: FloatArray
    threshold: FloatArray
    at_low: NDArray[np.bool_]
    at_high: NDArray[np.bool_]

    @classmethod
    def of(cls, x: NoisyValues) -> SelectedRows:
        """Read the rule of values that have one."""
        law, y = PublishedRows.of(x, np.zeros(())), x.values
        at_low, at_high = y <= law.lowest, y >= law.highest
        whole = integer_cells(law.noise, len(y))
        return cls(
            noise=law.noise,
            rule=x.rule or Rule(),
            values=np.where(whole & at_low, np.floor(y), np.where(whole & at_high, np.ceil(y), y)),
            threshold=np.where(law.threshold <= law.lowest, -np.inf, law.threshold),
            at_low=at_low,
            at_high=at_high,
        )

    def estimate(self, estimator: Callable[[SelectedValues], FloatArray]) -> FloatArray:
        """Return point estimates: infinite at a clamping bound, unless only it is published."""
        out = self.values.copy()
        for selected, rows in self._selected():
            distinct, kind = selected.distinct()
            out[rows] = estimator(distinct)[kind] + selected.base
        out[self.at_low] = -np.inf
        out[self.at_high & (self.threshold < self.values)] = np.inf
        return out

    def follow_rule(self, ends: dict[str, FloatArray], q: float, sides: tuple[str, ...]) -> None:
        """Replace, in place, the ends to which the publishing rule makes a difference."""
        for selected, rows in self._selected():
            distinct, kind = selected.distinct()
            for side in sides:
                ends[side][rows] = getattr(distinct, side)(q)[kind] + selected.base
        ends["lower"][self.at_low] = -np.inf
        ends["upper"][self.at_high] = np.inf

    def notes(self, empty: int) -> tuple[str, ...]:
        """Say what the publishing rule made of the intervals, so many of which are empty."""
        clamped = int(np.count_nonzero(self.at_low | self.at_high))
        remarks = (
            (np.isfinite(self.threshold).any(), "conditional on reaching the threshold"),
            (clamped, f"{clamped} values at a clamping bound have intervals open on that side"),
            (
                empty,
                f"{empty} values are closer above their threshold than any confidential value "
                "makes likely: their intervals are empty",
            ),
        )
        return tuple(words for holds, words in remarks if holds)

    def _selected(self) -> Iterator[tuple[SelectedValues, NDArray[np.intp]]]:
        """Yield the values with a threshold, by kind of noise; without noise it says nothing."""
        for law, cells in groups(self.noise, len(self.values)):
            held = np.flatnonzero(np.isfinite(self.threshold[cells]))
            if held.size and not isinstance(law, Exact):
                rows = cells[held]
                values = SelectedValues.of(law.take(held), self.values[rows], self.threshold[rows])
                yield values, rows


# What it says about a count that it was not published.


def unpublished_bound(
    *,
    mechanism: Mechanism,
    threshold: Any,
    alpha: float = 0.05,
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    simultaneous: bool = False,
) -> Intervals:
    """Upper confidence bounds for counts that did not reach the threshold of publication.

    Parameters
    ----------
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise of the counts that were not published: one for all, or one for each.
    threshold : float, array, Series or DataFrame
        The thresholds that they did not reach: one for each count, or one for as many counts as
        ``mechanism`` has laws.
    alpha : float, default 0.05
        The error probability, in (0, 1).
    integer : bool, default False
        Whether the confidential values are whole numbers; the bounds are then rounded down.
    lower, upper : float, optional
        Bounds that the confidential values respect, such as ``lower=0`` for counts.
    simultaneous : bool, default False
        Whether all bounds shall hold together with probability 1 - ``alpha``.

    Returns
    -------
    Intervals
        Intervals from ``lower``, or -inf, to the bounds, with the labels of ``threshold``. The
        estimate, of maximum likelihood, is their lower end.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The bound is the largest f with P(f + e < τ) > α: a larger count is published with probability
    at least 1 - α. It does not depend on the data, so that this is no statement conditional on
    being unpublished: of the counts above the bound at most a share α goes unpublished, and about
    each of those the bound is wrong. It takes for granted that the count was considered for
    publication: a cell may also be absent because it is not part of the table. Clamping bounds on
    either side of the threshold change nothing.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> unpublished_bound(mechanism=Laplace(scale=10.0), threshold=90, lower=0)
    Intervals([0, 113.026], level 0.95, unpublished)
    """
    alpha = check_alpha(alpha)
    together = check_flag(simultaneous, "simultaneous")
    bounds, labels = split_labels(threshold, "threshold")
    check_array(bounds, "threshold", ge=-1e100, le=1e100)
    law, shape = _laws_of(mechanism, bounds)
    first = np.broadcast_to(bounds, shape)
    tests = max(1, int(np.count_nonzero(np.broadcast_to(law.variance, first.size))))
    reach = np.asarray(law.isf(sidak(alpha, tests) if together else alpha))
    reach = np.broadcast_to(reach, first.size).reshape(shape)
    # P(f + e < τ) = P(e > f - τ) by symmetry, and a whole f is kept where that is above α
    whole = integer_cells(law, first.size).reshape(shape)
    ends = np.where(whole, np.ceil(first) + reach - 1.0, first + reach)
    open_ = Intervals(
        estimate=np.full(shape, -np.inf),
        lower=np.full(shape, -np.inf),
        upper=ends,
        alpha=alpha,
        method="unpublished",
        uncertainty="noise",
        simultaneous=together,
        labels=labels,
    )
    bound = open_.restrict(lower=lower, upper=upper, integer=integer)
    return bound if lower is None else replace(bound, estimate=np.full(shape, float(lower)))


def _laws_of(mechanism: Mechanism, threshold: FloatArray) -> tuple[NoiseLaw, tuple[int, ...]]:
    """Return the law of the noise and the shape of the answer, which one of both may give."""
    if threshold.ndim:
        return as_noise(mechanism, threshold.size, selected=True), threshold.shape
    parts = mechanism if isinstance(mechanism, (list, tuple)) else ()
    shape = mechanism.shape if isinstance(mechanism, NoiseLaw) else (len(parts),)
    return as_noise(mechanism, prod(shape), selected=True), shape
