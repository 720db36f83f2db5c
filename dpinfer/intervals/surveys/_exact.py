"""Exact intervals for a population total: inversion over the whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.binomial import LOG_NEGLIGIBLE, binom_radius
from dpinfer._numerics.whole import smallest_whole
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.intervals.surveys.designs import Design
from dpinfer.mechanisms import NoiseLaw

_LIMITS_MISS = 0.002
"""Share of the error probability that is left to the limits of each stratum."""

_JOINT_MISS = 0.05
"""Share that is left to the totals being far from the estimates all together."""

_CAP_MISS = 0.005
"""Share that is left to scores beyond the cap."""

_CELLS, _FEWEST, _MOST = 40_000, 100, 800
"""Cells of totals in all strata together, and the fewest and most in one."""

_MARGIN = 1e-6
"""Relative margin of tails, for rounding."""

_SEARCH = {"maxfev": 200, "xatol": 1e-3, "fatol": 1e-3}
_STARTS = (-4.0, -30.0)
"""Logarithms of the multiplier of Fisher's sum with which searches begin."""


def invert_total(
    count: FloatArray, noise: NoiseLaw, design: Design, alpha: float, guesses: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest population total that the count does not contradict.

    A total K stays where P(T >= y; K) and P(T <= y; K) both exceed α/2; the noisy count T grows
    with K stochastically, so that these totals are neighbours. Where none stays, the ends are
    ``(inf, -inf)``.

    Parameters
    ----------
    count : array of float, shape (m,)
        The noisy counts y.
    noise, design
        Law of the noise and sampling design, of m rows; no row is a census.
    alpha : float
        One minus the confidence level.
    guesses : array of float, shape (2, m)
        Where to begin to look for the ends.
    """
    size = design.population_size
    largest = np.full(count.shape, LARGEST_NOBS) if size is None else size
    if size is None and (far := count * design.expansion > LARGEST_NOBS / 4).any():
        raise InvalidParameterError(
            f"count must be smaller for method='exact' without population_size, got "
            f"{count[far][0]}: totals beyond {LARGEST_NOBS:.2g} are not told apart"
        )

    def tail(total: FloatArray, side: str) -> FloatArray:
        law = design.law(np.clip(total, 0.0, largest), noise)
        return law.upper(count) if side == "upper" else law.lower(count)

    def reaches(total: FloatArray) -> NDArray[np.bool_]:
        return (total > largest) | ((total >= 0) & (tail(total, "upper") > alpha / 2))

    def exceeds(total: FloatArray) -> NDArray[np.bool_]:
        return (total > largest) | ((total >= 0) & (tail(total, "lower") <= alpha / 2))

    start = np.clip(np.rint(guesses), 0.0, largest)
    lower = smallest_whole(start[0], reaches)
    upper = smallest_whole(start[1], exceeds) - 1.0
    empty = lower > upper
    return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)


def invert_strata(
    count: FloatArray, noise: NoiseLaw, design: Design, alpha: float
) -> tuple[float, float]:
    """Limits of the sum of the totals of independently sampled strata; inf and -inf where empty.

    The one-sided p-values of the totals K of all strata are independent, so that their scores zₕ
    are at least standard normal ones, and Σ cₕzₕ < -z‖c‖ has at most the probability of that
    normal tail, whatever constants cₕ go with K (Stouffer et al. 1949). Here cₕ is the standard
    deviation of the estimate of Kₕ. The limit is the least ΣKₕ among the totals that are not
    rejected so, not by Fisher's sum of the logarithms of two-sided p-values, and not by the count
    of any one stratum; the latter two err with small probabilities. A bound below it is found by
    Lagrange multipliers: any of them give one.
    """
    each = _LIMITS_MISS * alpha / count.size
    low, high = _limits_of_each(count, noise, design, each)
    if (low > high).any():
        return np.inf, -np.inf
    # scores above the cap count as the cap, which errs only where a normal score exceeds it
    cap = float(-special.ndtri(0.5 * _CAP_MISS * alpha / count.size))
    missed = _LIMITS_MISS + _JOINT_MISS + _CAP_MISS
    z = float(-special.ndtri(0.5 * alpha * (1.0 - missed)))
    most = float(special.chdtri(2.0 * count.size, _JOINT_MISS * alpha))
    cells = _Cells(count, noise, design, low, high)
    lower = cells.least_sum(cells.first, cells.above, cap, z, most)
    upper = -cells.least_sum(-cells.last, cells.below, cap, z, most)
    if lower > upper:
        return np.inf, -np.inf
    rounding = 1e-9 * (1.0 + abs(lower) + abs(upper))
    return float(np.ceil(lower - rounding)), float(np.floor(upper + rounding))


def _limits_of_each(
    count: FloatArray, noise: NoiseLaw, design: Design, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest total of each stratum that its own count does not contradict."""
    half = np.broadcast_to(np.asarray(noise.isf(alpha / 2)), count.shape)
    low, high = np.ceil(count - half), np.floor(count + half)
    rows = np.flatnonzero(~design.is_census)
    if rows.size:
        part, law = design.take(rows), noise.take(rows)
        wide = np.sqrt(0.25 * np.abs(count[rows]) + 1.0 + law.variance)
        reach = -special.ndtri(alpha / 2) * wide
        guesses = np.stack([count[rows] - reach, count[rows] + reach]) * part.expansion
        low[rows], high[rows] = invert_total(count[rows], law, part, alpha, guesses)
    size = design.population_size
    return np.maximum(low, 0.0), high if size is None else np.minimum(high, size)


class _Cells:
    """Possible totals of the strata, in cells of neighbours; arrays of shape (strata, cells).

    Parameters
    ----------
    count, noise, design
        What was published, and how.
    low, high : array of float
        The least and the largest total of each stratum.
    """

    def __init__(
        self,
        count: FloatArray,
        noise: NoiseLaw,
        design: Design,
        low: FloatArray,
        high: FloatArray,
    ) -> None:
        number = int(np.clip(_CELLS // count.size, _FEWEST, _MOST))
        number = int(min(number, np.max(high - low) + 1.0))
        step = np.ceil((high - low + 1.0) / number)[:, np.newaxis]
        # cells beyond the last total repeat it
        self.first = np.minimum(low[:, np.newaxis] + step * np.arange(number), high[:, np.newaxis])
        self.last = np.minimum(self.first + step - 1.0, high[:, np.newaxis])
        strata = [(design.take([h]), noise.take(h), count[h]) for h in range(count.size)]
        firsts = [_tails(*one, k) for one, k in zip(strata, self.first, strict=True)]
        lasts = firsts
        if (step > 1).any():
            lasts = [_tails(*one, k) for one, k in zip(strata, self.last, strict=True)]
        # in a cell the tails are at most these, as the count grows with the total
        above = np.minimum(np.array([tails[0] for tails in lasts]) * (1.0 + _MARGIN), 1.0)
        below = np.minimum(np.array([tails[1] for tails in firsts]) * (1.0 + _MARGIN), 1.0)
        self.above, self.below = special.ndtri(above), special.ndtri(below)
        least = np.minimum(2.0 * np.minimum(above, below), 1.0)
        self.far = -2.0 * np.log(np.maximum(least, 1e-300))
        own = np.broadcast_to(np.asarray(noise.variance), count.shape)[:, np.newaxis]
        ends = [design.count_variance(part.T).T + own for part in (self.first, self.last)]
        between = np.minimum(np.maximum(design.middle[:, np.newaxis], self.first), self.last)
        scale = design.expansion[:, np.newaxis]
        self.smallest = scale * np.sqrt(np.minimum(*ends))
        self.largest = scale * np.sqrt(design.count_variance(between.T).T + own)

    def least_sum(
        self, value: FloatArray, score: FloatArray, cap: float, z: float, most: float
    ) -> float:
        """Bound below the least sum of values, one of each stratum, that are not rejected.

        As √V <= V/(2τ) + τ/2, every μ, τ and ν >= 0 give the bound
        Σ min(value - μ(cz + z·c²/(2τ)) + ν·far) - μzτ/2 - ν·most.
        """
        score = np.clip(score, -40.0, cap)
        moved = score * np.where(score > 0, self.largest, self.smallest)
        square = np.square(self.largest)
        at = np.argmin(np.abs(score), axis=1)[:, np.newaxis]
        scale = float(np.sqrt(np.take_along_axis(square, at, axis=1).sum())) or 1.0
        start = value / scale
        moved, square = moved / scale, square / scale**2

        def bound(parameters: FloatArray) -> float:
            mu, tau, nu = np.exp(np.clip(parameters, -30.0, 30.0))
            each = start - mu * (moved + z * square / (2.0 * tau)) + nu * self.far
            return float(each.min(axis=1).sum() - 0.5 * mu * z * tau - nu * most)

        from scipy import optimize

        best = float(start.min(axis=1).sum())
        for nu in _STARTS:
            at = np.array([0.0, 0.0, nu])
            found = optimize.minimize(
                lambda x: -bound(x), at, method="Nelder-Mead", options=_SEARCH
            )
            best = max(best, bound(found.x))
        return scale * best


def _tails(
    design: Design, noise: NoiseLaw, count: float, total: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """P(T >= count) and P(T <= count) in one stratum, for many totals in increasing order."""
    if design.is_census[0]:
        return noise._cdf(total - count), noise._cdf(count - total)
    ends = total[[0, -1]]
    mean = ends / design.expansion
    spread = binom_radius(mean, np.maximum(ends, 1.0), LOG_NEGLIGIBLE) + 1.0
    x = np.arange(max(np.floor(mean[0] - spread[0]), 0.0), np.ceil(mean[1] + spread[1]) + 1.0)
    pmf = design.pmf(x[:, np.newaxis], total)
    return noise._cdf(x - count) @ pmf, noise._cdf(count - x) @ pmf
