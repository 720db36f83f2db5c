"""Tests of a trend over ordered cells and over ordered groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import special

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
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.estimation.two_sided import GAPS
from dpinfer.hypothesis_tests._answers import Found, answer, in_the_limit, simulated
from dpinfer.hypothesis_tests._inversion import (
    SIMULATED,
    Effect,
    Rows,
    Search,
    repeated,
)
from dpinfer.hypothesis_tests._scores import NoisyScores
from dpinfer.hypothesis_tests.models import check_total, draws_in_block, joint_errors
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null import (
    LARGEST_STATISTIC,
    ExactNull,
)
from dpinfer.results.simulation import Simulation

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

    The effect is the slope θ where the cells have probabilities proportional to p·exp(θs): by
    exp(θ) a cell is more likely for each unit of score. Of all such laws the sum of the scores
    increases with θ. The interval holds the slopes that are not rejected with
    Σ sᵢ(yᵢ - n pᵢ(θ)) for the statistic; beyond a ratio of e²⁵ between the outermost cells ends
    are infinite.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> result = counts_trend([18, 25, 33, 41], 120, mechanism=Geometric(scale=3.0))
    >>> result
    HypothesisResult('Test of a trend over cells', statistic=3.14351, pvalue=0.015107)
    >>> result.estimate.round(3)
    np.float64(0.262)
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
    simulation, again = simulation.twice(chosen)
    found = _COUNTS[chosen](law, deviation, alternative, simulation)
    held = SlopeOverCells(
        values=x.values,
        nobs=total,
        shares=share,
        places=places,
        errors=joint_errors(x),
        alternative=alternative,
        method=chosen,
        simulation=again,
    )
    name = "Test of a trend over cells"
    return answer(
        name,
        deviation / law.spread,
        found,
        alternative,
        chosen,
        nobs=total,
        effect=held.effect(),
    )


_STEEPEST = 25.0
"""Slopes are finite up to this logarithm of the ratio of the outermost cells."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlopeOverCells:
    """The slopes θ that a test does not reject: cells have the probabilities p·exp(θ·score)."""

    values: FloatArray
    nobs: int
    shares: FloatArray
    places: FloatArray
    errors: tuple[NoiseLaw, NoisyValues | None]
    alternative: Alternative
    method: CountsMethod
    simulation: Simulation

    def law(self, slope: float) -> NoisyScores:
        """Law of the sum of the scores at a slope."""
        return NoisyScores.of(self.nobs, self._tilted(slope), self.places, *self.errors)

    def _tilted(self, slope: float) -> FloatArray:
        exponent = slope * self.places
        tilted = self.shares * np.exp(exponent - exponent.max())
        return np.asarray(tilted / tilted.sum())

    def pvalue(self, slope: FloatArray, rows: Rows) -> FloatArray:
        """P-values at slopes."""
        found = []
        for one in slope:
            law = self.law(float(one))
            how = law.deviation(self.values), self.alternative, repeated(self.simulation)
            found.append(float(_COUNTS[self.method](law, *how)[0]))
        return np.array(found)

    def effect(self) -> Effect:
        """Return the slope, with its estimate and what makes its interval."""
        limit = _STEEPEST / float(np.ptp(self.places))

        scores = self.law(0.0).scores  # shifted by the noise, whatever the slope

        def excess(slope: FloatArray, rows: Rows) -> FloatArray:
            means = [self.nobs * (self._tilted(float(one)) @ scores) for one in slope]
            return np.asarray(self.values @ scores - np.array(means))

        estimate = _zero_between(excess, limit)
        law = self.law(float(np.clip(estimate, -0.5 * limit, 0.5 * limit)))
        search = Search(
            pvalue=self.pvalue,
            start=np.array([estimate]),
            step=np.array([min(np.hypot(law.spread, law.noise_std) / law.spread**2, 0.2 * limit)]),
            low=-limit,
            high=limit,
            alternative=self.alternative,
            back=partial(_to_infinity, limit),
            is_monotone=self.method == "asymptotic",
            notes={"exact": (GAPS,), "monte-carlo": (SIMULATED,), "asymptotic": ()}[self.method],
            rtol=0.0,
            atol=1e-9 * limit,
        )
        return Effect(
            name="slope of the logarithm of the probability",
            estimate=np.asarray(estimate),
            null=0.0,
            ends=search,
            most_shown=1,
        )


def _zero_between(excess: Callable[[FloatArray, Rows], FloatArray], limit: float) -> float:
    """Where a decreasing function is 0, infinite if that is beyond ± a limit."""
    ends = np.array([-limit, limit])
    beyond = excess(ends, np.arange(2))
    if beyond[0] <= 0.0:
        return -np.inf
    if beyond[1] >= 0.0:
        return np.inf
    return float(find_root(excess, ends[:1], ends[1:], rtol=1e-12, atol=1e-12 * limit)[0][0])


def _to_infinity(limit: float, slope: FloatArray) -> FloatArray:
    return np.where(np.abs(slope) < limit, slope, np.sign(slope) * np.inf)


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

    The effect is the slope θ where the groups have the log-odds a + θs: exp(θ) is the odds ratio
    for each unit of score. The estimate is that of a logistic regression on the published counts.
    The interval holds the slopes that are not rejected with the score of θ for the statistic, at
    the a for which Σ yᵢ is expected; at θ = 0 that is the test. Beyond a ratio of the odds of e²⁵
    between the outermost groups ends are infinite.

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
    >>> proportions_trend([11.2, 18.9, 30.4], [100, 100, 100], mechanism=Laplace(scale=2.0),
    ...                   method="asymptotic").conf_int()
    Intervals([0.175248, 1.12627], level 0.95, asymptotic)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", PROPORTIONS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    x, places = _checked(count, scores, mechanism, "proportions_trend")
    x.need(independent=True, who="proportions_trend")
    trials = _for_each(x, nobs, "nobs", whole=True, ge=1, le=LARGEST_NOBS / len(x))
    model = TrendOfProportions.of(trials, places, x.marginal)
    simulation, again = simulation.twice(method)
    found = PROPORTIONS[method](model, x.values, alternative, simulation)
    name, z = "Test of a trend of proportions", model.statistic(x.values)
    held = SlopeOverGroups(
        values=x.values, model=model, alternative=alternative, method=method, simulation=again
    )
    nobs = trials.sum()
    return answer(name, z, found, alternative, method, nobs=nobs, effect=held.effect())


@dataclass(frozen=True, kw_only=True, eq=False)
class SlopeOverGroups:
    """The slopes θ that a test does not reject: groups have the log-odds a + θ·score.

    At each slope z is the score of θ by its standard deviation, at the a that explains the total.
    """

    values: FloatArray
    model: TrendOfProportions
    alternative: Alternative
    method: Method
    simulation: Simulation

    def proportions(self, slope: FloatArray, total: FloatArray) -> FloatArray:
        """Proportions of the groups, shape (m, k), at slopes and totals of successes."""
        trials = self.model.trials
        rise = slope[:, np.newaxis] * self.model.centred
        most = trials.sum()
        total = np.clip(total, 0.5, most - 0.5)
        middle = special.logit(total / most)

        def excess(level: FloatArray, rows: Rows) -> FloatArray:
            return np.asarray(
                total[rows] - special.expit(level[:, np.newaxis] + rise[rows]) @ trials
            )

        low, high = middle - rise.max(axis=1) - 1e-9, middle - rise.min(axis=1) + 1e-9
        level = find_root(excess, low, high, rtol=0.0, atol=1e-12 * (1.0 + np.abs(rise).max()))[0]
        return np.asarray(special.expit(level[:, np.newaxis] + rise))

    def score(self, slope: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of slopes, shape (m,), at counts of shape (m, k), and their variances."""
        share = self.proportions(slope, counts.sum(axis=1))
        weights = self.model.trials * share * (1.0 - share)
        mean = weights @ self.model.centred / weights.sum(axis=1)
        centred = self.model.centred - mean[:, np.newaxis]
        squares = np.square(centred)
        noise = (squares * self.model.noise.variance).sum(axis=1)
        found = (centred * (counts - self.model.trials * share)).sum(axis=1)
        return found, (weights * squares).sum(axis=1) + noise

    def statistic(self, slope: float, counts: FloatArray) -> FloatArray:
        """Z statistics of a slope, of counts of shape (m, k)."""
        score, variance = self.score(np.full(len(counts), slope), counts)
        return np.asarray(score / np.sqrt(variance))

    def pvalue(self, slope: FloatArray, rows: Rows) -> FloatArray:
        """P-values at slopes."""
        z = np.array([self.statistic(float(one), self.values[np.newaxis])[0] for one in slope])
        if self.method == "asymptotic":
            return in_the_limit(z, self.alternative)[0]
        found = []
        for one, known in zip(slope, z, strict=True):
            share = self.proportions(np.array([one]), self.values.sum(keepdims=True))[0]
            draw = partial(self.draw, float(one), DrawTrend(self.model, share))
            again, block = repeated(self.simulation), draws_in_block(self.values.size)
            found.append(float(simulated([draw], known, self.alternative, again, block)[0]))
        return np.array(found)

    def draw(self, slope: float, law: DrawTrend, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw z statistics of a slope."""
        return self.statistic(slope, law.counts(size, rng))

    def effect(self) -> Effect:
        """Return the slope, with its estimate and what makes its interval."""
        limit = _STEEPEST / float(np.ptp(self.model.centred))

        def excess(slope: FloatArray, rows: Rows) -> FloatArray:
            counts = np.broadcast_to(self.values, (slope.size, self.values.size))
            return self.score(slope, counts)[0]

        estimate = _zero_between(excess, limit)
        _, variance = self.score(np.array([np.clip(estimate, -0.2, 0.2)]), self.values[np.newaxis])
        share = self.model.share(self.values)
        squares = self.model.trials @ np.square(self.model.centred)
        spread = np.sqrt(variance) / (share * (1.0 - share) * squares)
        return Effect(
            name="slope of the log-odds",
            estimate=np.asarray(estimate),
            null=0.0,
            ends=Search(
                pvalue=self.pvalue,
                start=np.array([estimate]),
                step=np.minimum(spread, 0.2 * limit),
                low=-limit,
                high=limit,
                alternative=self.alternative,
                back=partial(_to_infinity, limit),
                is_monotone=self.method == "asymptotic",
                notes=(SIMULATED,) if self.method == "monte-carlo" else (),
                rtol=0.0,
                atol=(1e-9 if self.method == "asymptotic" else 1e-5) * limit,
            ),
            most_shown=100 if self.method == "asymptotic" else 1,
        )


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
