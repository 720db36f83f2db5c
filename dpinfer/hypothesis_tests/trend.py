"""Tests of a trend over ordered cells and over ordered groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import lgamma
from typing import Any, Literal

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_integer,
    check_length,
    check_option,
)
from dpinfer._numerics.counts import binom_pmf
from dpinfer._numerics.lattice import common_spacing
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.hypothesis_tests._answers import Found, answer, in_the_limit, simulated
from dpinfer.hypothesis_tests.models import check_total, draws_in_block, joint_errors
from dpinfer.mechanisms._noisy_count import MOST_WORK, work_at_a_point
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import fast_sum, spacing_of, untabulated
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null import (
    LARGEST_STATISTIC,
    ExactNull,
    around,
)
from dpinfer.results.simulation import Simulation

# The law of a sum of scores of multinomial counts published with noise.


LONGEST = 1 << 22
"""Largest number of values of the sum."""

_LOG_NEGLIGIBLE = 46.0
"""The probability left out on either side is below exp(-46) = 1e-20."""

_FAR = 1e-4
"""Smaller tails are computed anew, where they are to be accurate relative to their size."""

_TILTS, _ROUNDS = 128, 3
"""Tilts among which the best one is looked for, and how often, more and more finely."""

_ROUNDING = 64 * np.finfo(float).eps

_POINTS_IN_BLOCK = 1 << 20

_ENUMERATED = 1 << 17
"""Number of ways to fill the cells up to which they are gone through one by one."""

_WORK_FOR_EACH = 1 << 17
"""Work that each of many points may take, some 10 ms."""


@dataclass(frozen=True, eq=False)
class NoisyScores:
    """Law of T = Σ sᵢ(yᵢ - n pᵢ), y = X + e, with X ~ multinomial(n, p) and noise e."""

    nobs: int
    shares: FloatArray  # p, shape (k,)
    scores: FloatArray  # s, not all equal
    noise: NoiseLaw  # of shape () or (k,); of what errors are made of where these are given
    errors: NoisyValues | None = None  # where they depend on one another

    @classmethod
    def of(
        cls,
        nobs: int,
        shares: FloatArray,
        scores: FloatArray,
        noise: NoiseLaw,
        errors: NoisyValues | None = None,
    ) -> NoisyScores:
        """Law for scores that are shifted first, so that the variance of the noise is least.

        A shift changes nothing in the counts, whose total is known. The best one for errors of
        covariance C has C1 for weights.
        """
        if errors is not None:
            weights = errors.cov() @ np.ones(scores.size)
            negligible = weights.sum() <= _ROUNDING * errors.variance.sum()
            weights = shares if negligible else weights
        else:
            variance = np.broadcast_to(noise.variance, scores.shape)
            weights = variance if variance.any() else shares
        # the lowest score first: equally spaced scores stay so in float64, however far from zero
        above = scores - scores.min()
        return cls(nobs, shares, above - above @ weights / weights.sum(), noise, errors)

    def deviation(self, counts: FloatArray) -> FloatArray:
        """T for published counts of shape (..., k)."""
        return np.asarray((counts - self.nobs * self.shares) @ self.scores)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of Σ sᵢXᵢ."""
        centred = self.scores - self.shares @ self.scores
        return float(np.sqrt(self.nobs * (self.shares @ np.square(centred))))

    @cached_property
    def noise_std(self) -> float:
        """Standard deviation of Σ sᵢeᵢ."""
        if self.errors is not None:
            return float(np.sqrt(np.maximum(self.scores @ self.errors.cov() @ self.scores, 0.0)))
        return float(np.sqrt(np.sum(np.square(self.scores) * self.noise.variance)))

    @property
    def default_method(self) -> Literal["exact", "monte-carlo"]:
        """Whether the exact law is available, and not too much work."""
        affordable = self._grid is not None and self.work <= MOST_WORK
        return "exact" if affordable else "monte-carlo"

    def slack(self, t: FloatArray) -> FloatArray:
        """Return the rounding error of a computed deviation."""
        size = np.abs(self.scores) @ (self.nobs * self.shares)
        return np.asarray(_ROUNDING * (np.abs(t) + size))

    def upper(self, t: FloatArray) -> FloatArray:
        """P(T >= t)."""
        return self._tail(t, 1.0)

    def lower(self, t: FloatArray) -> FloatArray:
        """P(T <= t)."""
        return self._tail(-t, -1.0)

    def far_upper(self, t: FloatArray) -> FloatArray:
        """P(T >= t), accurate relative to its size however small, or down to ``error``."""
        return self._refined(self.upper(t), t, 1.0)

    def far_lower(self, t: FloatArray) -> FloatArray:
        """P(T <= t), likewise."""
        return self._refined(self.lower(t), -t, -1.0)

    def around(self, z: FloatArray) -> FloatArray:
        """Return the values of T/spread around given ones, where they are on a lattice."""
        unit, centre = 0.0, 0.0
        if self._grid is not None and self._is_whole and self.noise_std > 0:
            # a common divisor of the weights of all noises divides those of the counts, too
            unit = self._unit * spacing_of(self._noise_sum)
            centre = self._grid[0] * self.nobs * float(self.shares @ self._grid[1])
        return around(z, unit=np.asarray(unit), centre=centre, spread=np.asarray(self.spread))

    @cached_property
    def error(self) -> float:
        """Absolute error of these tails; 0 where it is relative."""
        return float(untabulated(self._noise_sum)._floor)

    def _refined(self, tail: FloatArray, t: FloatArray, sign: float) -> FloatArray:
        out = tail.reshape(-1).copy()
        for place in np.flatnonzero(out < _FAR):
            out[place] = self._far(float(t.flat[place]), sign)
        return out.reshape(tail.shape)

    def _far(self, t: float, sign: float) -> float:
        """P(sign·T >= t) from the law of U under shares p·exp(θs), to which t is not far.

        P(U = u) = P'(U = u)·exp(K(θ) - θu) with K(θ) = log E[exp(θU)]; P' has its centre where the
        terms P(U = u)·P(noise >= t - u) are largest, so that rounding errors of the transform stay
        small beside their sum.
        """
        scores = sign * self.scores
        centred = scores - self.shares @ scores
        noise, slack = untabulated(self._noise_sum), float(self.slack(np.asarray(t)))

        def log_noise(u: FloatArray) -> FloatArray:
            return noise._logcdf((u - t + slack) / self._unit)

        theta = np.zeros(1)
        if self._compositions > _ENUMERATED:
            theta = np.append(0.0, np.geomspace(1e-6, 1e3, _TILTS)) / np.ptp(scores)
        for _ in range(_ROUNDS if theta.size > 1 else 0):
            exponents = np.multiply.outer(theta, centred)
            weights = self.shares * np.exp(exponents - exponents.max(axis=1, keepdims=True))
            mean = self.nobs * (weights @ centred) / weights.sum(axis=1)
            log_mgf = self.nobs * (np.log(weights.sum(axis=1)) + exponents.max(axis=1))
            best = int(np.argmax(log_mgf - theta * mean + log_noise(mean)))
            ends = theta[max(best - 1, 0)], theta[min(best + 1, theta.size - 1)]
            theta = np.append(theta[best], np.linspace(*ends, _TILTS))
        exponent = theta[0] * centred
        weights = self.shares * np.exp(exponent - exponent.max())
        log_mgf = self.nobs * (np.log(weights.sum()) + exponent.max())
        tilted = replace(self, shares=weights / weights.sum(), scores=scores)
        values, chances = tilted._sum
        values = values + self.nobs * (tilted.shares @ centred)
        with np.errstate(divide="ignore"):
            terms = np.log(chances) + log_mgf - theta[0] * values + log_noise(values)
        return float(np.exp(min(np.logaddexp.reduce(terms), 0.0)))

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw T in units of ``spread``."""
        if self.errors is None:
            counts = self.noise._rvs((size, self.scores.size), rng).astype(np.float64)
        else:
            counts = self.errors.draw(size, rng=rng)
        counts += rng.multinomial(self.nobs, self.shares, size)
        return self.deviation(counts) / self.spread

    def _tail(self, t: FloatArray, sign: float) -> FloatArray:
        """P(sign·T >= t) = Σ_u P(U = u)·P(noise >= t - sign·u); the noise is symmetric."""
        self._check_work(t.size)
        values, chances = self._sum
        slack = self.slack(t).reshape(-1, 1)
        points = np.reshape(t, (-1, 1))
        tail = np.empty(points.size)
        step = max(1, _POINTS_IN_BLOCK // values.size)
        for start in range(0, points.size, step):
            rows = slice(start, start + step)
            distance = sign * values - points[rows] + slack[rows]
            tail[rows] = self._noise_sum._cdf(distance / self._unit) @ chances
        return np.clip(tail, 0.0, 1.0).reshape(t.shape)

    def _check_work(self, points: int) -> None:
        """Refuse sums over more values than can be gone through."""
        if self._grid is None:
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' where the scores have no common "
                f"spacing, or their sum has more than {LONGEST} values, got 'exact'"
            )
        if points * self.work > max(2.0 * MOST_WORK, _WORK_FOR_EACH * points):
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' where the sum of the scores and that "
                "of their noise have so many values, got 'exact', which would take some "
                f"{1e-7 * points * self.work:.2g} s"
            )

    @cached_property
    def work(self) -> float:
        """About how much work a tail is."""
        assert self._grid is not None
        length = 2.0 * self._grid[2] + 2.0
        return min(length, self._compositions) * work_at_a_point(self._noise_sum)

    @cached_property
    def _noise_sum(self) -> NoiseLaw:
        """Law of Σ sᵢeᵢ in the unit of the noise."""
        if self.errors is not None:
            return self.errors.law_of(self.scores)
        cells = range(self.scores.size)
        weights = np.rint(self.scores / self._unit) if self._is_whole else self.scores
        return fast_sum(
            weights, [self.noise.take(i) if self.noise.shape else self.noise for i in cells]
        )

    @property
    def _is_whole(self) -> bool:
        """Whether Σ sᵢeᵢ is on a known lattice: the shift of the scores is their mean."""
        single = self.noise.shape == () and self.errors is None
        return bool(self._grid and single and self.noise.is_integer)

    @property
    def _unit(self) -> float:
        """Number of which the shifted scores are whole multiples, where there is one."""
        return self._grid[0] / self.scores.size if self._grid and self._is_whole else 1.0

    @property
    def _compositions(self) -> float:
        """In how many ways the observations fall into the cells."""
        cells, n = self.scores.size, self.nobs
        return float(np.exp(min(lgamma(n + cells) - lgamma(n + 1) - lgamma(cells), 700.0)))

    @cached_property
    def _grid(self) -> tuple[float, FloatArray, float] | None:
        """Spacing h of the scores, the whole numbers (s - min s)/h, and the reach of their sum.

        None where the scores have no common spacing, or the sum too many values.
        """
        above = self.scores - self.scores.min()
        found = common_spacing(above[above > 0], smallest=float(above.max()) / LONGEST)
        if found is None:
            return None
        steps = np.zeros(above.size)
        steps[above > 0] = found[1]
        variance = self.nobs * (self.shares @ np.square(steps - self.shares @ steps))
        # Bernstein: P(deviation > R) <= exp(-R²/2/(variance + b R/3)) for scores within b
        third = steps.max() * _LOG_NEGLIGIBLE / 3.0
        reach = third + np.sqrt(third**2 + 2.0 * _LOG_NEGLIGIBLE * variance)
        reach = np.ceil(min(reach, self.nobs * steps.max())) + 1.0
        return None if 2.0 * reach + 2.0 > LONGEST else (found[0], steps, float(reach))

    @cached_property
    def _sum(self) -> tuple[FloatArray, FloatArray]:
        """Values of Σ sᵢXᵢ less its mean, and their probabilities."""
        assert self._grid is not None
        return self._enumerated() if self._compositions <= _ENUMERATED else self._transformed()

    def _enumerated(self) -> tuple[FloatArray, FloatArray]:
        """All that the counts can be, one cell after the other, each binomial given the last."""
        assert self._grid is not None
        spacing, steps, _ = self._grid
        total, left, chances = np.zeros(1), np.full(1, float(self.nobs)), np.ones(1)
        order = np.argsort(self.shares, kind="stable")  # of what is left, none has nearly all
        shares, steps = self.shares[order], steps[order]
        share_left = np.cumsum(shares[::-1])[::-1]
        for share, rest, step in zip(shares[:-1], share_left, steps, strict=False):
            sizes = left.astype(np.intp) + 1
            count = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            total, left, chances = (np.repeat(x, sizes) for x in (total, left, chances))
            chances = chances * binom_pmf(count.astype(np.float64), left, np.asarray(share / rest))
            total, left = total + step * count, left - count
        found, place = np.unique(total + steps[-1] * left, return_inverse=True)
        mean = float(shares @ steps)
        return spacing * (found - self.nobs * mean), np.bincount(place, chances).astype(np.float64)

    def _transformed(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities of equally spaced values by the discrete Fourier transform."""
        from scipy import fft

        assert self._grid is not None
        spacing, steps, reach = self._grid
        mean = float(self.shares @ steps)
        first = np.floor(self.nobs * mean - reach)
        length = fft.next_fast_len(int(2.0 * reach) + 2)
        angle = 2.0 * np.pi * fft.fftfreq(length)
        # E[exp(iθ(s - mean))] - 1, whose first-order terms cancel
        less_one = np.zeros(length, dtype=np.complex128)
        for share, step in zip(self.shares, steps, strict=True):
            x = angle * (step - mean)
            less_one += share * (1j * np.sin(x) - 2.0 * np.square(np.sin(0.5 * x)))
        gone = less_one == -1.0
        less_one[gone] = 0.0
        shift = 1j * angle * (first - self.nobs * mean)
        power = np.where(gone, 0.0, np.exp(self.nobs * np.log1p(less_one) - shift))
        chances = np.maximum(fft.fft(power).real / length, 0.0)
        values = spacing * (first - self.nobs * mean + np.arange(length))
        return values, chances


# The z statistic of a trend of proportions over groups, and its null distributions.


Method = Literal["monte-carlo", "asymptotic"]


@dataclass(frozen=True, eq=False)
class TrendOfProportions:
    """Centred scores of groups, and the law of what was published of them."""

    trials: FloatArray
    centred: FloatArray
    noise: NoiseLaw

    @classmethod
    def of(cls, trials: FloatArray, scores: FloatArray, noise: NoiseLaw) -> TrendOfProportions:
        """Centre the scores of groups of so many trials."""
        return cls(trials, scores - (trials @ scores) / trials.sum(), noise)

    def share(self, counts: FloatArray) -> FloatArray:
        """Estimate the common proportion, half a success away from 0 and 1."""
        total = self.trials.sum()
        return np.asarray(np.clip(counts.sum(axis=-1), 0.5, total - 0.5) / total)

    def statistic(self, counts: FloatArray) -> FloatArray:
        """Z statistics of counts of shape (..., k)."""
        share = self.share(counts)
        squares = np.square(self.centred)
        sampling = share * (1.0 - share) * (self.trials @ squares)
        noise = float(np.sum(squares * self.noise.variance))
        return np.asarray(counts @ self.centred / np.sqrt(sampling + noise))


@dataclass(frozen=True, eq=False)
class DrawTrend:
    """Draws z statistics at a common proportion, or one for each group."""

    model: TrendOfProportions
    share: float | FloatArray

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        return self.model.statistic(self.counts(size, rng))

    def counts(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many rows of published counts."""
        shape = (size, self.model.trials.size)
        counts = self.model.noise._rvs(shape, rng).astype(np.float64)
        counts += rng.binomial(self.model.trials.astype(np.int64), self.share, shape)
        return counts


def _monte_carlo(
    model: TrendOfProportions, counts: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    draw, z = DrawTrend(model, float(model.share(counts))), model.statistic(counts)
    return simulated([draw], z, alternative, simulation, draws_in_block(counts.size))


def _asymptotic(
    model: TrendOfProportions, counts: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    return in_the_limit(model.statistic(counts), alternative)


PROPORTIONS: dict[
    Method, Callable[[TrendOfProportions, FloatArray, Alternative, Simulation], Found]
] = {"monte-carlo": _monte_carlo, "asymptotic": _asymptotic}


CountsMethod = Literal["exact", "monte-carlo", "asymptotic"]

_LARGEST_SCORE = 1e50

_SMALLEST_SPREAD = 1e-50
"""Of scores, and of their sum relative to them; squares of less could be 0."""


def counts_trend(
    count: Any,
    nobs: int,
    scores: Any = None,
    *,
    mechanism: Mechanism | None = None,
    shares: Any = None,
    alternative: Alternative = "two-sided",
    method: CountsMethod | None = None,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test for a trend over the ordered cells of a noisy table.

    Parameters
    ----------
    count : array of float, shape (k,), Series, Release or fit
        The published counts of k >= 2 ordered cells, noise included. The errors of a combined
        estimate depend on one another: that of the sum of scores is a weighted sum of its noises.
    nobs : int
        The public number of observations >= 1, in all cells together.
    scores : array of float, shape (k,), or Series, optional
        The places of the cells on the scale on which a trend is looked for; by default 0, 1, ….
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all cells, or one for each; left out where ``count`` carries
        its law.
    shares : array of float, shape (k,), or Series, optional
        What the counts are proportional to under the null hypothesis, > 0: exposure, person-years.
        By default all cells are equally likely.
    alternative : {"two-sided", "larger", "smaller"}
        Whether there is a trend, an upward or a downward one.
    method : {"exact", "monte-carlo", "asymptotic"}, optional
        ``"exact"``: the law of the scores' sum and of the noise, available and the default where
        the scores are whole multiples of one number, unless it takes many seconds.
        ``"monte-carlo"`` simulates, ``"asymptotic"`` is the limit, with the variance of the noise
        in it.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

    Returns
    -------
    HypothesisResult
        Statistic z = Σ sᵢ(yᵢ - n pᵢ)/√(n Var s) and p-value, which accounts for sampling and noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, all scores are equal, counts whose sum has no
        noise do not add up to ``nobs``, or ``"exact"`` is asked
        for scores without a common spacing, or with more than 4 million values of their sum, or
        would take many seconds.

    See Also
    --------
    dpinfer.linear_ztest : a trend among the confidential counts themselves; noise only.
    proportions_trend : a trend of proportions over groups.

    Notes
    -----
    The scores are shifted first so that Σ vᵢsᵢ = 0, with v the variances of the noise, or C1 for
    errors with a covariance C: the counts of known total n have the same sum whatever the shift,
    and the variance of the noise is least.

    Under the null hypothesis the counts are multinomial(n, p), so that Σ sᵢXᵢ is the sum of n
    independent scores. Its probabilities are the Fourier coefficients of (Σ pᵢ exp(iθsᵢ))ⁿ, or
    those of all tables where there are at most 131,072; they are summed against the tail of
    Σ sᵢeᵢ. Small p-values are computed anew under shares p·exp(θs) that make the counts probable:
    their error is below 1e-8 of their size. Where the tail of Σ sᵢeᵢ itself has an absolute error
    only, ``pvalue_error`` says so. The exact and the simulated test keep every level.
    ``"asymptotic"`` errs where the noise dominates: with four cells, n = 50 to 5,000 and Laplace or
    geometric noise of ε = 0.05 to 1 it rejects up to 2.0 and 5.9 % at levels 1 and 5 %, and no more
    than 10 % at 10 %.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> counts_trend([18, 25, 33, 41], 120, mechanism=Geometric(scale=3.0))
    HypothesisResult('Test of a trend over cells', statistic=3.14351, pvalue=0.015107)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    x, places = _checked(count, scores, mechanism, "counts_trend")
    total = check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS))
    check_total(x, total)
    share = np.ones(len(x))
    if shares is not None:
        share = _for_each(x, shares, "shares", gt=0, le=1e100)
    share = share / share.sum()
    law = NoisyScores.of(total, share, places, *joint_errors(x))
    if not law.spread > _SMALLEST_SPREAD * np.ptp(places):
        raise InvalidParameterError(
            "shares must not be so unequal that all observations have one score: leave out cells "
            "that none can fall into"
        )
    chosen = check_option(law.default_method if method is None else method, "method", _COUNTS)
    deviation = law.deviation(x.values)
    found = _COUNTS[chosen](law, deviation, alternative, simulation)
    name = "Test of a trend over cells"
    return answer(name, deviation / law.spread, found, alternative, chosen, nobs=total)


def proportions_trend(
    count: Any,
    nobs: Any,
    scores: Any = None,
    *,
    mechanism: Mechanism | None = None,
    alternative: Alternative = "two-sided",
    method: Method = "monte-carlo",
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test for a trend of proportions over ordered groups (Cochran and Armitage).

    Parameters
    ----------
    count : array of float, shape (k,), Series, Release or fit
        The published counts of successes in k >= 2 ordered groups, with independent errors.
    nobs : array of int, shape (k,), or Series
        The public numbers of trials >= 1.
    scores, mechanism, alternative
        As for :func:`counts_trend`.
    method : {"monte-carlo", "asymptotic"}
        ``"monte-carlo"`` simulates at the estimated common proportion, ``"asymptotic"`` is the
        limit.
    reps, rng, n_jobs, precision, progress
        Of the simulation: number of replicates, seed, workers, relative standard error of the
        p-value at which to stop, progress bar. See
        :func:`~dpinfer.hypothesis_tests.null_distribution`.

    Returns
    -------
    HypothesisResult
        Statistic z and p-value, which accounts for sampling and noise.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the scores are equal.

    See Also
    --------
    counts_trend : a trend over the cells of one table.

    Notes
    -----
    With the centred scores cᵢ = sᵢ - Σ nⱼsⱼ/Σ nⱼ the statistic is z = Σ cᵢyᵢ/σ with σ²
    = p(1-p)·Σ nᵢcᵢ² + Σ cᵢ²vᵢ, where p = Σ yᵢ/Σ nᵢ is kept half a success away from 0 and 1, and v
    are the variances of the noise. Σ cᵢyᵢ has mean 0 whatever the common proportion; its spread
    depends on it. The simulation takes the estimate of p for the truth and estimates it anew in
    each replicate, so that the level holds as n grows: with four groups of 50 to 5,000, proportion
    0.02 to 0.5 and geometric noise of scale 1 to 20 it rejected 4.2 to 5.65 % of 4,000 tests at
    level 5 %, with a standard error of 0.34 %. ``"asymptotic"`` errs where the noise dominates:
    with such groups and Laplace or geometric noise of ε = 0.05 to 1 it rejects up to 2.0, 5.9 and
    10.6 % at levels 1, 5 and 10 %.

    References
    ----------
    Armitage, P. (1955). Tests for linear trends in proportions and frequencies. Biometrics 11,
    375-386. doi:10.2307/3001775.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> proportions_trend([11.2, 18.9, 30.4], [100, 100, 100], mechanism=Laplace(scale=2.0),
    ...                   method="asymptotic")
    HypothesisResult('Test of a trend of proportions', statistic=2.76554, pvalue=0.00568283)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", PROPORTIONS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    x, places = _checked(count, scores, mechanism, "proportions_trend")
    x.need(independent=True, who="proportions_trend")
    trials = _for_each(x, nobs, "nobs", whole=True, ge=1, le=LARGEST_NOBS / len(x))
    model = TrendOfProportions.of(trials, places, x.marginal)
    found = PROPORTIONS[method](model, x.values, alternative, simulation)
    name, z = "Test of a trend of proportions", model.statistic(x.values)
    return answer(name, z, found, alternative, method, nobs=trials.sum())


def _checked(count: Any, scores: Any, mechanism: Any, who: str) -> tuple[NoisyValues, FloatArray]:
    """Check what both tests take."""
    x = noisy(count, mechanism=mechanism, name="count").need(unruled=True, whole=True, who=who)
    if len(x.shape) != 1 or len(x) < 2:
        raise InvalidParameterError(
            f"count must be one-dimensional with at least 2 cells, got shape {x.shape}"
        )
    places = None if scores is None else _for_each(x, scores, "scores")
    return x, checked_scores(places, len(x), "the cells of count")


def _for_each(x: NoisyValues, value: Any, name: str, **bounds: Any) -> FloatArray:
    """Return one number for each cell."""
    found = x.setting(value, name, **bounds)
    if found.shape != (len(x),):
        raise InvalidParameterError(
            f"{name} must have {len(x)} entries, one for each of the cells of count, got shape "
            f"{found.shape}"
        )
    return found


def checked_scores(scores: Any, cells: int, what: str) -> FloatArray:
    """Return the places of the cells, by default 0, 1, …."""
    if scores is None:
        return np.arange(cells, dtype=np.float64)
    places = check_array(scores, "scores", ndim=1, ge=-_LARGEST_SCORE, le=_LARGEST_SCORE)
    check_length(places, "scores", cells, what)
    if np.ptp(places) <= max(1e-9 * np.abs(places).max(), _SMALLEST_SPREAD):
        raise InvalidParameterError(
            f"scores must differ, by more than {_SMALLEST_SPREAD:g}: equal scores have no trend"
        )
    return places


def _exact(
    law: NoisyScores, deviation: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    null = ExactNull(
        partial(_scaled, law.far_upper, law.spread),
        partial(_scaled, law.far_lower, law.spread),
        error=law.error,
        atoms=law.around,
    )
    if alternative == "larger":
        return law.far_upper(deviation), null
    if alternative == "smaller":
        return law.far_lower(deviation), null
    size = np.abs(deviation)
    both = np.minimum(law.far_upper(size) + law.far_lower(-size), 1.0)
    return np.where(size <= law.slack(size), 1.0, both), null


def _scaled(tail: Callable[[FloatArray], FloatArray], spread: float, z: FloatArray) -> FloatArray:
    """Tail at a z statistic (no closure, so that results can be pickled)."""
    return tail(np.clip(z * spread, -LARGEST_STATISTIC, LARGEST_STATISTIC))


def _counts_monte_carlo(
    law: NoisyScores, deviation: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    block = draws_in_block(law.scores.size)
    return simulated([law.draw], deviation / law.spread, alternative, simulation, block)


def _counts_asymptotic(
    law: NoisyScores, deviation: FloatArray, alternative: Alternative, simulation: Simulation
) -> Found:
    scale = np.hypot(1.0, law.noise_std / law.spread)
    return in_the_limit(deviation / law.spread, alternative, scale)


_COUNTS: dict[CountsMethod, Callable[[NoisyScores, FloatArray, Alternative, Simulation], Found]] = {
    "exact": _exact,
    "monte-carlo": _counts_monte_carlo,
    "asymptotic": _counts_asymptotic,
}
