"""Sampling designs: what a count in the sample says about the population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, check_array, check_integer_array, check_option
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_radius
from dpinfer._numerics.lattice import smallest_whole
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.releases.values import NoisyValues

# The law of a count in a simple random sample, published with noise.


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHypergeometric(NoisyCount):
    """Law of T = X + e, X the count among ``nobs`` of ``population`` of which ``total`` count.

    The generating function of X has real roots only, so that X, and X under any exponential
    tilt, is a sum of at most n independent trials: its spread around any count is at most that
    of a binomial one, which is what the windows of the sums rest on.
    """

    nobs: FloatArray
    total: FloatArray
    population: FloatArray

    @property
    def parameters(self) -> dict[str, FloatArray]:
        return {"nobs": self.nobs, "total": self.total, "population": self.population}

    @property
    def _mode(self) -> FloatArray:
        mode = np.floor((self.nobs + 1.0) * (self.total + 1.0) / (self.population + 2.0))
        return np.asarray(np.clip(mode, self._first, self._last))

    @property
    def _first(self) -> FloatArray:
        return np.asarray(np.maximum(self.nobs - (self.population - self.total), 0.0))

    @property
    def _last(self) -> FloatArray:
        return np.asarray(np.minimum(self.nobs, self.total))

    def _pmf_at(self, k: FloatArray) -> FloatArray:
        # Loader (2000): a ratio of binomial probabilities, whatever their common p
        p = self.nobs / self.population
        rest = self.population - self.total
        inside = np.clip(k, self._first, self._last)
        pmf = binom_pmf(inside, self.total, p) * binom_pmf(self.nobs - inside, rest, p)
        return np.where(k == inside, pmf / binom_pmf(self.nobs, self.population, p), 0.0)

    def _ratio(self, k: FloatArray) -> FloatArray:
        room = self.population - self.total - self.nobs + k + 1.0
        rises = (self.total - k) * (self.nobs - k)
        with np.errstate(divide="ignore"):  # infinite where X cannot be k
            return np.asarray(rises / ((k + 1.0) * np.maximum(room, 0.0)))

    def _radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        return binom_radius(centre, self.nobs, log_ratio)

    def _draw_counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        good, bad = int(self.total), int(self.population - self.total)
        return rng.hypergeometric(good, bad, int(self.nobs), size).astype(np.float64)

    def _counts(self, rows: NDArray[np.intp]) -> None:
        return None


DesignName = Literal["srs", "poisson"]
DESIGNS: tuple[DesignName, ...] = ("srs", "poisson")

_SMALLEST_RATE = 1e-15

_LARGEST_QUICK = 1e7
"""Populations in which logarithms of factorials give probabilities to 1e-7 of them."""


def log_choose(n: FloatArray, k: FloatArray) -> FloatArray:
    """Logarithm of the number of ways to choose k of n; -inf where there is none."""
    ways = special.gammaln(n + 1.0) - special.gammaln(np.maximum(k, 0.0) + 1.0)
    possible = (k >= 0) & (k <= n)
    return np.where(possible, ways - special.gammaln(np.maximum(n - k, 0.0) + 1.0), -np.inf)


@dataclass(frozen=True, kw_only=True)
class SimpleRandomSampling:
    """Samples of ``sample_size`` units, drawn without replacement, all with one probability.

    One sample for each of m rows; the parameters have the shape (m,).
    """

    name: ClassVar[str] = "simple random sampling"

    sample_size: FloatArray
    population_size: FloatArray

    @property
    def expansion(self) -> FloatArray:
        """What one sampled unit stands for, the Horvitz-Thompson weight: N/n."""
        return np.asarray(self.population_size / self.sample_size)

    @property
    def is_census(self) -> NDArray[np.bool_]:
        """Whether everybody is in the sample."""
        return np.asarray(self.sample_size == self.population_size)

    def sampling_variance(self, count: FloatArray, noise_variance: FloatArray) -> FloatArray:
        """Unbiased estimate, possibly negative: N²(1 - n/N)s²/n, s² = (y(n - y) + v)/(n(n - 1))."""
        n = self.sample_size
        spread = (count * (n - count) + noise_variance) / (n * np.maximum(n - 1.0, 1.0))
        left = (self.population_size - n) / n
        return np.asarray(self.population_size * left * spread)

    @property
    def middle(self) -> FloatArray:
        """Total at which the count varies most."""
        return np.asarray(np.floor(0.5 * self.population_size))

    def count_variance(self, total: FloatArray) -> FloatArray:
        """Variance of the count without noise, n·p(1 - p)·(N - n)/(N - 1) with p = K/N."""
        size = self.population_size
        share = total / size
        left = (size - self.sample_size) / np.maximum(size - 1.0, 1.0)
        return np.asarray(self.sample_size * share * (1.0 - share) * left)

    def pmf(self, x: FloatArray, total: FloatArray) -> FloatArray:
        """Probabilities of counts under one design; not for a census."""
        n, size = self.sample_size, self.population_size
        if size > _LARGEST_QUICK:
            return self.law(total, Exact())._pmf_at(x)
        rest = size - total
        ways = log_choose(total, x) + log_choose(rest, n - x)
        return np.asarray(np.exp(ways - log_choose(size, n)))

    def law(self, total: FloatArray, noise: NoiseLaw) -> NoisyCount:
        """Law of the noisy count where ``total`` in the population count; not for a census."""
        return NoisyHypergeometric(
            nobs=self.sample_size, total=total, population=self.population_size, noise=noise
        )

    def take(self, rows: Any) -> SimpleRandomSampling:
        return SimpleRandomSampling(
            sample_size=self.sample_size[rows], population_size=self.population_size[rows]
        )


@dataclass(frozen=True, kw_only=True)
class PoissonSampling:
    """Samples in which each unit is with probability ``rate``, independently of the others.

    Methods are those of :class:`SimpleRandomSampling`.
    """

    name: ClassVar[str] = "Poisson sampling"

    rate: FloatArray
    population_size: FloatArray | None

    @property
    def expansion(self) -> FloatArray:
        return np.asarray(1.0 / self.rate)

    @property
    def is_census(self) -> NDArray[np.bool_]:
        return np.asarray(self.rate == 1.0)

    def sampling_variance(self, count: FloatArray, noise_variance: FloatArray) -> FloatArray:
        """(1 - π)y/π²."""
        return np.asarray((1.0 - self.rate) * count / np.square(self.rate))

    @property
    def middle(self) -> FloatArray:
        return np.full(self.rate.shape, LARGEST_NOBS)

    def count_variance(self, total: FloatArray) -> FloatArray:
        """K·π(1 - π)."""
        return np.asarray(total * self.rate * (1.0 - self.rate))

    def pmf(self, x: FloatArray, total: FloatArray) -> FloatArray:
        if total.max() > _LARGEST_QUICK:
            inside = np.minimum(x, total)
            return np.where(x <= total, binom_pmf(inside, total, self.rate), 0.0)
        chance = x * np.log(self.rate) + np.maximum(total - x, 0.0) * np.log1p(-self.rate)
        return np.asarray(np.exp(log_choose(total, x) + chance))

    def law(self, total: FloatArray, noise: NoiseLaw) -> NoisyCount:
        return NoisyBinomial(nobs=total, value=self.rate, noise=noise)

    def take(self, rows: Any) -> PoissonSampling:
        size = self.population_size
        return PoissonSampling(
            rate=self.rate[rows], population_size=None if size is None else size[rows]
        )


Design = SimpleRandomSampling | PoissonSampling


_ARGUMENTS: dict[DesignName, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "srs": (("sample_size", "population_size"), ("rate",)),
    "poisson": (("rate",), ("sample_size",)),
}
"""Arguments that each design needs, and those that it does not take."""


def checked_design(design: DesignName, x: NoisyValues, given: dict[str, Any]) -> Design:
    """Return the design that the arguments describe, with one entry for each of the counts."""
    option = check_option(design, "design", _ARGUMENTS)
    needed, refused = _ARGUMENTS[option]
    for name in (*needed, *refused):
        if (given[name] is None) == (name in needed):
            must = "must be given" if name in needed else "must not be given"
            raise InvalidParameterError(f"{name} {must} for design={option!r}")

    def one_each(name: str) -> FloatArray:
        array = x.setting(given[name], name)
        if array.size not in (1, len(x)):
            raise InvalidParameterError(
                f"{name} must be a number or have one entry for each of the {len(x)} counts, got "
                f"shape {array.shape}"
            )
        return np.broadcast_to(array, len(x))

    size = None
    if given["population_size"] is not None:
        size = check_array(one_each("population_size"), "population_size", le=LARGEST_NOBS)
        size = check_integer_array(size, "population_size", ge=1)
    if option == "poisson":
        chance = check_array(one_each("rate"), "rate", ge=_SMALLEST_RATE, le=1)
        return PoissonSampling(rate=chance, population_size=size)
    assert size is not None  # srs needs it
    sample = check_integer_array(one_each("sample_size"), "sample_size", ge=1)
    if (bad := sample > size).any():
        raise InvalidParameterError(
            f"sample_size must be <= population_size, got {sample[bad][0]:g} of {size[bad][0]:g}"
        )
    if ((sample == 1) & (size > 1)).any():
        raise InvalidParameterError(
            "sample_size must be >= 2 unless everybody is sampled: one unit does not show how "
            "units differ"
        )
    return SimpleRandomSampling(sample_size=sample, population_size=size)


# Exact intervals for a population total: inversion over the whole numbers.


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
    """Possible totals of the strata, in cells of neighbours; arrays of shape (strata, cells)."""

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
