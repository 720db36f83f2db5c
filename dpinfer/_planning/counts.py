"""Plans of the tests of counts: of linear functions, of two tables, and of trends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_length,
    check_option,
    freeze,
)
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._numerics.roots import find_root
from dpinfer._planning.engine import Columns, NoisePlan, PowerRow, check_method, is_alternative
from dpinfer._planning.replicates import (
    Beyond,
    Moments,
    PowerWithLimit,
    ReplicatedPower,
    counting_error,
    critical_values,
    simulated_power,
    simulated_rate,
)
from dpinfer._planning.search import LARGEST_SIZE
from dpinfer._planning.table_laws import critical_value
from dpinfer._planning.tables import EffectPower
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.targets import checked_weights
from dpinfer.hypothesis_tests.counts import (
    STATISTICS,
    DrawTables,
    Method,
    NoiseOnly,
    Statistic,
    checked_method,
    differences,
    max_upper,
)
from dpinfer.hypothesis_tests.models import draws_in_block, law_pair
from dpinfer.hypothesis_tests.trend import (
    DrawTrend,
    NoisyScores,
    TrendOfProportions,
    checked_scores,
)
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.coerce import noisy_pair
from dpinfer.results.null import SIGNS
from dpinfer.results.simulation import Draw, Simulation

_LARGEST_SHIFT, _LARGEST_DIFFERENCE = 1e100, 1e15
"""Beyond the latter, neighbouring whole numbers run together."""

_MISSED = 1e-17
"""Chance of missing the largest shift or difference that is looked for."""

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of a deviation, as the test allows for it."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class LinearPower(PowerRow):
    """Power of the test of a linear function, :func:`dpinfer.linear_ztest` or ``counts_2indep``.

    - ``shift``: the confidential value of the function less its value under the null hypothesis;
      solved for as the smallest in size, above 0, or below 0 for the alternative ``"smaller"``.
    - ``weights``: those of the function of m published values, shape (m,): ``[1]`` for one value,
      ``[1, -1]`` for the difference of two counts, the default for ``counts_2indep``. The noise
      may have a law for each value.
    - ``alternative``, ``method``: ``"exact"`` or ``"asymptotic"``, as for the test.

    The deviation of the published function from its value under the null hypothesis is S + shift,
    where S = Σ cᵢeᵢ is the noise. With c the upper α/2 quantile of S the two-sided test rejects
    beyond ±c, and its power is P(S > c - shift) + P(S > c + shift), by the law of S for both
    methods; one-sided tests reject on one side, beyond the upper α quantile. There is no number of
    observations: a small shift cannot be seen but with less noise. Under whole-numbered noise the
    power has a step where the critical value changes: at a budget that is solved for it may be more
    than was asked for.
    """

    weights: Any = None
    alternative: Alternative = "two-sided"
    method: Literal["exact", "asymptotic"] = "exact"

    own = ("shift",)

    def prepare(self) -> None:
        given = self.weights
        if given is None and self.procedure.__name__ == "counts_2indep":
            given = [1.0, -1.0]
        weights = check_array(given, "weights", ndim=1)
        weights = checked_weights(weights, None, weights.size).copy()
        if not weights.any():
            raise InvalidParameterError("weights must not all be 0: there is nothing to test")
        self.set(weights=freeze(weights))
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_method(self.method, ("exact", "asymptotic"))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.weights)

    def check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, ge=-_LARGEST_SHIFT, le=_LARGEST_SHIFT)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        noise = self._noise(law)
        level = np.asarray(0.5 * alpha if self.alternative == "two-sided" else alpha)
        signs = {"two-sided": [1.0, -1.0], "larger": [1.0], "smaller": [-1.0]}[self.alternative]
        power = sum(self._beyond(noise, level, sign * columns["shift"]) for sign in signs)
        return np.minimum(power, 1.0), 0.0

    def _noise(self, law: NoiseLaw) -> WeightedSum:
        noise = WeightedSum(self.weights, law)
        if float(noise.std) == 0.0:
            raise InvalidParameterError(
                "mechanism must have noise in a value that has a weight: without noise there is "
                "nothing to test, compare the values"
            )
        return noise

    def _beyond(self, noise: WeightedSum, level: FloatArray, shift: FloatArray) -> FloatArray:
        """Probability that S + shift is beyond the upper critical value."""
        if self.method == "asymptotic":
            # the critical value itself is rejected: P(S >= x) = P(S <= -x)
            critical = float(noise.std) * -special.ndtri(level)
            return noise._cdf(shift - critical)
        # P(S >= t) <= level exactly where t is beyond the upper quantile, itself not included
        critical = noise._isf(level)
        slack = _ROUNDING * (np.abs(critical) + np.abs(shift))
        whole = (critical == np.rint(critical)) & (shift == np.rint(shift))
        return noise._sf(critical - shift + np.where(whole, 0.0, slack))

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name != "shift":
            return super().range(name, known)
        noise = self._noise(self.law_at(known))
        # a shift of c + d is missed with the probability P(S > d) at most
        farthest = float(noise.isf(0.25 * float(known["alpha"])) + noise.isf(_MISSED))
        return 0.0, -farthest if self.alternative == "smaller" else farthest


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PairedCountsPower(ReplicatedPower):
    """Power of the test whether two tables are the same, :func:`dpinfer.counts_paired`.

    - ``effect``: the confidential differences as a multiple of ``difference``, by default 1.
    - ``difference``: the differences of the confidential counts of k cells, first table less
      second, shape (k,); not all 0.
    - ``mechanism``: one law for both tables, or a pair, each with scalar parameters or one for each
      cell; or a function that makes one for both.
    - ``statistic``: ``"max"`` or ``"chi2"``; ``method``: ``"exact"``, ``"monte-carlo"`` or
      ``"asymptotic"``, by default that of the test, exact for ``"max"`` and simulated for
      ``"chi2"``.
    - ``reps``, ``rng``, ``n_jobs``: of replicates, where powers or critical values are simulated.

    The published differences are dᵢ = effect·differenceᵢ + eᵢ. The largest, abs(dᵢ)/σᵢ, is not
    rejected up to a critical value c, and the exact power is 1 - Π P(abs(dᵢ) <= c·σᵢ). The sum of
    squares has a noncentral χ² law where the noise is Gaussian, and its power is that of this law,
    whatever the method. Under other noise it is simulated: the Monte Carlo error includes that of
    the critical value where this is simulated, too. Only the noise is random: there is no number of
    observations.
    """

    difference: Any
    statistic: Statistic = "max"
    method: Method | None = None

    own = ("effect",)
    optional = {"effect": 1.0}  # noqa: RUF012

    def prepare(self) -> None:
        super().prepare()
        limit = _LARGEST_DIFFERENCE
        cells = check_array(self.difference, "difference", ndim=1, ge=-limit, le=limit)
        if not cells.any():
            raise InvalidParameterError(
                "difference must have a cell that is not 0: it is the alternative"
            )
        checked_method(self.method, check_option(self.statistic, "statistic", STATISTICS))
        self.set(difference=freeze(cells))

    def checked_mechanism(self) -> NoisePlan:
        if not isinstance(self.mechanism, (list, tuple)):
            return super().checked_mechanism()
        cells = range(self.difference.size)
        pair = law_pair(self.mechanism, len(cells), "mechanism")
        return IndependentNoise([x.take(i) if x.shape else x for x in pair for i in cells])

    @property
    def shape(self) -> tuple[int, ...]:
        return (np.size(self.difference),)

    def check(self, name: str, value: Any) -> FloatArray:
        limit = _LARGEST_DIFFERENCE / float(np.abs(self.difference).max())
        return check_array(value, name, ge=-limit, le=limit)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name == "budget":
            return super().range(name, known)
        problem = self._noise(self.law_at(known))
        if name == "alpha":
            low, high = super().range(name, known)
            if self._critical(problem, 0.5) is None:
                low = (1.0 + 1e-9) / (self.reps + 1.0)  # replicates show no smaller level
            return low, high
        size, alpha = np.abs(self.difference), float(known["alpha"])
        critical = self._critical(problem, alpha)
        if critical is None:  # Markov: P(Σ z² >= k/α) <= α
            critical = float(np.sqrt(size.size / alpha))
        elif self.statistic == "chi2":
            critical = float(np.sqrt(critical))
        law = problem.laws[problem.which[int(size.argmax())]]
        missed = float(law._isf(np.asarray(_MISSED)))
        farthest = (critical * float(law.std) + missed) / float(size.max())
        return 0.0, min(farthest, _LARGEST_DIFFERENCE / float(size.max()))

    def _noise(self, law: NoiseLaw) -> NoiseOnly:
        nothing = np.zeros(self.difference.shape)
        cells = nothing.size
        pair: NoiseLaw | tuple[NoiseLaw, NoiseLaw] = law
        if law.shape == (2 * cells,):
            pair = law.take(np.arange(cells)), law.take(np.arange(cells, 2 * cells))
        tables = noisy_pair(nothing, nothing, pair, ("count1", "count2"))
        return differences(*tables, np.zeros(()))

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        problem = self._noise(law)
        critical = self._critical(problem, alpha)
        found = [
            self._rejected(problem, alpha, critical, effect * self.difference)
            for effect in columns["effect"].tolist()
        ]
        power, error = np.array(found).reshape(-1, 2).T
        return power, error

    def _critical(self, problem: NoiseOnly, alpha: float) -> float | None:
        """Return the critical value of the test, or None where it is simulated."""
        method = checked_method(self.method, self.statistic)
        if method == "exact":
            return critical_value(partial(max_upper, problem), alpha, 4.0)
        if self.statistic == "chi2" and (method == "asymptotic" or _is_gaussian(problem)):
            return float(special.chdtri(problem.which.size, alpha))
        return None

    def _rejected(
        self, problem: NoiseOnly, alpha: float, critical: float | None, shift: FloatArray
    ) -> tuple[float, float]:
        if critical is not None and (self.statistic == "max" or _is_gaussian(problem)):
            return _KNOWN[self.statistic](problem, critical, shift), 0.0
        truth = DrawTables(problem.laws, problem.which, self.statistic, shift / problem.spread)
        if critical is None:
            null = DrawTables(problem.laws, problem.which, self.statistic)
            return simulated_power(null, truth, alpha, shift.size, self.simulation())
        draw = Beyond(truth, critical)
        return simulated_rate(draw, self.simulation(), draws_in_block(shift.size))


def _max_power(problem: NoiseOnly, critical: float, shift: FloatArray) -> float:
    """1 - Π P(abs(e + shift) <= c·σ): the critical value is just above what is not rejected."""
    within = 0.0
    size = np.abs(shift)
    with np.errstate(divide="ignore"):
        for number, law in enumerate(problem.laws):
            own = size[problem.which == number]
            end = critical * float(law.std)
            # whole numbers exactly; other noise is at the critical value with probability 0
            is_whole = law.is_integer & (own == np.rint(own))
            reach = np.where(is_whole, np.floor(end), end)
            beyond = law._sf(reach - own) + law._sf(reach + own)
            within += float(np.log1p(-np.minimum(beyond, 1.0)).sum())
    return float(-np.expm1(within))


def _chi2_power(problem: NoiseOnly, critical: float, shift: FloatArray) -> float:
    """Tail of noncentral χ²; only the sum of the squared means matters."""
    means = np.zeros(shift.size)
    means[0] = float(np.linalg.norm(shift / problem.spread))
    law = WeightedChi2.from_eigenvalues(np.ones(shift.size), means)
    return float(law.upper(np.asarray(critical)))


_KNOWN: dict[Statistic, Callable[[NoiseOnly, float, FloatArray], float]] = {
    "max": _max_power,
    "chi2": _chi2_power,
}


def _is_gaussian(problem: NoiseOnly) -> bool:
    return all(isinstance(law, Gaussian) for law in problem.laws)


_FLAT = 1e-12
"""Trends this small, relative to the terms of which they are the sum, are none but for rounding."""

_LEAST = 1e-15
"""Share of a cell that stands for 0: laws of counts are for shares above it."""

_LARGEST_RATIO = 1e6
_SAME = 1e-12

_SMALLEST_LOG = -700.0
_CLOSE = 1e-12
"""Logarithms of p-values this close to that of the level are it."""

_QUICK = 1 << 22
"""Work of one tail, some 0.4 s, up to which a power is exact by default: it takes dozens."""

_KNOTS = 7
_FARTHEST = 4.0
"""Number of proportions with simulated critical values, and how far from the mean, in spreads."""

Source = Callable[[], Simulation]
"""What returns one and the same source of replicates each time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _TrendPower(EffectPower, PowerWithLimit):
    """Power of a test of a trend, at the truth null + effect·(truth - null)."""

    scores: Any = None

    @abstractmethod
    def _moments_of(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[float, float, float]:
        """Mean of the deviation, and its spread under the null hypothesis and at the truth."""

    @property
    @abstractmethod
    def _slope(self) -> FloatArray:
        """Terms of which the sum is the trend of the alternative."""

    def prepare(self) -> None:
        super().prepare()
        check_option(self.alternative, "alternative", ALTERNATIVES)
        self.set(scores=freeze(checked_scores(self.scores, self.shape[0], "the cells of truth")))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.truth)

    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        rows = zip(columns["nobs"].flat, columns["effect"].flat, strict=True)
        found = [self._moments_of(law, int(n), self.value_at(float(effect))) for n, effect in rows]
        mean, null, truth = np.array(found).T
        return mean, null, truth

    def has_effect(self, known: Columns) -> bool:
        slope = float(known["effect"]) * float(self._slope.sum())
        is_flat = abs(slope) <= _FLAT * float(np.abs(self._slope).sum())
        return not is_flat and is_alternative(self.alternative, slope)

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        return self.limit(name, known, target)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TrendPower(_TrendPower):
    """Power of the test of a trend over ordered cells, :func:`dpinfer.counts_trend`.

    - ``nobs``: number n of observations, whole, at least 1.
    - ``effect``: how far the truth is on the way from ``shares`` to ``truth``, by default 1; at
      most where a cell is empty.
    - ``truth``: what the expected counts of k >= 2 cells are proportional to, shape (k,), >= 0.
    - ``shares``: that under the null hypothesis, > 0; by default all are equal.
    - ``scores``: the places of the cells, by default 0, 1, ….
    - ``alternative``; ``method``: ``"exact"``, ``"monte-carlo"`` or ``"asymptotic"``, as for the
      test; by default exact where that is the default of the test, and a tail of its law takes less
      than some 0.4 s, simulated elsewhere.
    - ``reps``, ``rng``, ``n_jobs``: of replicates, where powers or critical values are simulated.

    The cells have the probabilities q = p + effect·(a - p), with p the shares under the null
    hypothesis and a the true ones. At p and at q the deviation T = Σ sᵢ(yᵢ - n pᵢ) has a law of the
    same kind: that of a sum of scores of a multinomial table, moved by n Σ sᵢ(qᵢ - pᵢ), and of the
    noise Σ sᵢeᵢ. The power is the probability, at q, beyond one or two critical values found at p;
    at ``effect=0`` it is the size of the test. For ``"asymptotic"`` it is exact as well where that
    is quick, simulated elsewhere, as for ``"monte-carlo"``.
    """

    shares: Any = None
    method: Literal["exact", "monte-carlo", "asymptotic"] | None = None

    def prepare(self) -> None:
        other = _checked_shares(self.truth, "truth")
        null = np.full(other.size, 1.0 / other.size)
        if self.shares is not None:
            check_array(self.shares, "shares", gt=0)
            null = _checked_shares(self.shares, "shares")
            check_length(null, "shares", other.size, "truth")
        if np.allclose(null, other, rtol=_SAME, atol=0.0):
            raise InvalidParameterError("truth must differ from shares, got the same")
        if self.method is not None:
            check_method(self.method, ("exact", "monte-carlo", "asymptotic"))
        self.set(truth=freeze(other), shares=freeze(null))
        super().prepare()

    @property
    def line(self) -> tuple[FloatArray, FloatArray]:
        return self.shares, self.truth - self.shares

    @property
    def _slope(self) -> FloatArray:
        return np.asarray(self.line[1] * (self.scores - self.scores.mean()))

    def value_at(self, effect: float) -> FloatArray:
        value = np.maximum(super().value_at(effect), _LEAST)
        return np.asarray(value / value.sum())

    def _moments_of(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[float, float, float]:
        trend = self._trend(law, nobs, value)
        return (trend.shift, *trend.spreads)

    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        trend = self._trend(law, nobs, value)
        method = self.method or ("exact" if trend.is_quick else "monte-carlo")
        by = {"exact": trend.exact, "monte-carlo": trend.monte_carlo}.get(method, trend.asymptotic)
        return by(alpha, self.simulation())

    def _trend(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TrendOfCounts:
        return TrendOfCounts.of(nobs, (self.shares, value), self.scores, law, self.alternative)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionsTrendPower(_TrendPower):
    """Power of the test of a trend of proportions over groups, :func:`dpinfer.proportions_trend`.

    - ``nobs``: number of trials in each group of ratio 1, whole, at least 1.
    - ``effect``: how far the truth is on the way from equal proportions to ``truth``, by default 1;
      at most where a proportion is 0 or 1.
    - ``truth``: the proportions of k >= 2 groups, shape (k,), in [0, 1], not all equal.
    - ``ratios``: numbers of trials in units of ``nobs``, shape (k,), in [1e-6, 1e6]; by default all
      1. A group has ratio·nobs trials, rounded, but 1 at least.
    - ``scores``: the places of the groups, by default 0, 1, ….
    - ``alternative``; ``method``: ``"monte-carlo"`` or ``"asymptotic"``, as for the test.
    - ``reps``, ``rng``, ``n_jobs``: of replicates.

    The proportions are p̄ + effect·(truth - p̄), where p̄ is the mean of ``truth`` with the weights
    ``ratios``. All powers are simulated. The critical value of ``"monte-carlo"`` depends on the
    estimated common proportion. It is simulated at 7 proportions, up to 4 standard deviations to
    both sides of the mean, and interpolated. The test itself has the further randomness of its own
    replicates, which is left out.
    """

    ratios: Any = None
    method: Literal["monte-carlo", "asymptotic"] = "monte-carlo"

    def prepare(self) -> None:
        values = check_array(self.truth, "truth", ndim=1, ge=0, le=1)
        if values.size < 2 or np.ptp(values) <= _SAME * values.max():
            raise InvalidParameterError(
                f"truth must be the proportions of at least 2 groups, which differ, got "
                f"{values.size} with no difference"
            )
        ratios = np.ones(values.size)
        if self.ratios is not None:
            limit = _LARGEST_RATIO
            ratios = check_array(self.ratios, "ratios", ndim=1, ge=1.0 / limit, le=limit)
            check_length(ratios, "ratios", values.size, "the groups of truth")
        check_method(self.method, ("monte-carlo", "asymptotic"))
        self.set(truth=freeze(values), ratios=freeze(ratios))
        super().prepare()

    @property
    def largest_effect(self) -> float:
        null, step = self.line
        room = np.where(step < 0.0, null, 1.0 - null)[step != 0.0]
        return float((room / np.abs(step[step != 0.0])).min())

    @property
    def effect_size(self) -> float:
        null, step = self.line
        weights = self.ratios / self.ratios.sum()
        return float(np.sqrt(weights @ (np.square(step) / (null * (1.0 - null)))))

    @cached_property
    def line(self) -> tuple[FloatArray, FloatArray]:
        common = float(self.ratios @ self.truth / self.ratios.sum())
        return np.full(self.truth.size, common), self.truth - common

    @property
    def _slope(self) -> FloatArray:
        centred = self.scores - self.ratios @ self.scores / self.ratios.sum()
        return np.asarray(self.ratios * self.line[1] * centred)

    def check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            largest = LARGEST_SIZE / max(float(self.ratios.max()), 1.0)
            return check_integer_array(value, name, ge=1, le=largest)
        return super().check(name, value)

    def value_at(self, effect: float) -> FloatArray:
        null, step = self.line
        return np.asarray(np.clip(null + effect * step, 0.0, 1.0))

    def _moments_of(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[float, float, float]:
        return self._trend(law, nobs, value).moments

    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        trend = self._trend(law, nobs, value)
        by = trend.monte_carlo if self.method == "monte-carlo" else trend.asymptotic
        return by(alpha, self.simulation)

    def _trend(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TrendOfGroups:
        trials = np.maximum(np.rint(self.ratios * nobs), 1.0)
        model = TrendOfProportions.of(trials, self.scores, law)
        return TrendOfGroups(model, value, self.alternative)


def _checked_shares(shares: Any, name: str) -> FloatArray:
    array = check_array(shares, name, ndim=1, ge=0, le=1e100)
    if array.size < 2 or not array.any():
        raise InvalidParameterError(
            f"{name} must be those of at least 2 cells and not all 0, got {array.size} cells"
        )
    return np.asarray(array / array.sum())


@dataclass(frozen=True, eq=False)
class TrendOfCounts:
    """The deviation of published counts from no trend, under the null hypothesis and in truth."""

    null: NoisyScores
    truth: NoisyScores
    alternative: Alternative

    @classmethod
    def of(
        cls,
        nobs: int,
        shares: tuple[FloatArray, FloatArray],
        scores: FloatArray,
        noise: NoiseLaw,
        alternative: Alternative,
    ) -> Self:
        null = NoisyScores.of(nobs, shares[0], scores, noise)
        return cls(null, NoisyScores(nobs, shares[1], null.scores, noise), alternative)

    @cached_property
    def shift(self) -> float:
        return float(self.null.nobs * ((self.truth.shares - self.null.shares) @ self.null.scores))

    @property
    def spreads(self) -> tuple[float, float]:
        null, truth = (np.hypot(law.spread, law.noise_std) for law in (self.null, self.truth))
        return float(null), float(truth)

    @property
    def is_quick(self) -> bool:
        return all(
            law.default_method == "exact" and law.work <= _QUICK for law in (self.null, self.truth)
        )

    def exact(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        return self._beyond(self._critical(alpha)), 0.0

    def asymptotic(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        two_sided = self.alternative == "two-sided"
        critical = -special.ndtri(0.5 * alpha if two_sided else alpha) * self.spreads[0]
        if self.is_quick:
            # the critical value itself is rejected
            return self._beyond(critical - 2.0 * self._slack(critical)), 0.0
        draw = Beyond(Scored(self._truth_draws, self.alternative), critical / self.null.spread)
        return simulated_rate(draw, simulation, draws_in_block(self.null.scores.size))

    def monte_carlo(self, alpha: float, simulation: Simulation) -> tuple[float, float]:
        """Power of the simulated test."""
        null = Scored(self.null.draw, self.alternative)
        truth = Scored(self._truth_draws, self.alternative)
        return simulated_power(null, truth, alpha, self.null.scores.size, simulation)

    @property
    def _truth_draws(self) -> ShiftedScores:
        return ShiftedScores(self.truth, self.shift, self.null.spread)

    def _critical(self, alpha: float) -> float:
        """Return a deviation just above the largest that the exact test does not reject."""

        def margin(t: FloatArray, _: NDArray[np.intp]) -> FloatArray:
            with np.errstate(divide="ignore"):
                gap = np.maximum(np.log(self._pvalue(t)), _SMALLEST_LOG) - np.log(alpha)
            return np.where(np.abs(gap) < _CLOSE, 0.0, gap)

        spread = self.spreads[0]
        low = 0.0 if self.alternative == "two-sided" else -spread
        _, high = find_root(margin, np.array([low]), np.array([2.0 * spread]), expand=True)
        return float(high[0])

    def _pvalue(self, t: FloatArray) -> FloatArray:
        """P-value of the exact test at a deviation; downwards for the alternative "smaller"."""
        tail = np.zeros(t.shape)
        if self.alternative != "smaller":
            tail = tail + self.null.upper(t)
        if self.alternative != "larger":
            tail = tail + self.null.lower(-t)
        return np.minimum(tail, 1.0)

    def _beyond(self, critical: float) -> float:
        """Probability in truth of a deviation beyond a critical one, itself not included."""
        # tails include atoms within their slack, here on the wrong side
        point = np.array([critical + 2.0 * self._slack(critical)])
        power = 0.0
        if self.alternative != "smaller":
            power += float(self.truth.upper(point - self.shift)[0])
        if self.alternative != "larger":
            power += float(self.truth.lower(-point - self.shift)[0])
        return min(power, 1.0)

    def _slack(self, critical: float) -> float:
        far = np.asarray(abs(critical) + abs(self.shift))
        return float(self.null.slack(far) + self.truth.slack(far))


@dataclass(frozen=True, eq=False)
class ShiftedScores:
    """Draws deviations in units of their spread under the null hypothesis."""

    truth: NoisyScores
    shift: float
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        return (self.truth.draw(size, rng) * self.truth.spread + self.shift) / self.spread


@dataclass(frozen=True, eq=False)
class TrendOfGroups:
    """Published counts of groups with their true proportions, and the test of a trend."""

    model: TrendOfProportions
    value: FloatArray
    alternative: Alternative

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Mean of Σ cᵢyᵢ, and its spread at the common proportion and at the true ones."""
        trials, centred = self.model.trials, self.model.centred
        noise = float(np.sum(np.square(centred) * self.model.noise.variance))
        common = np.full(trials.size, float(self.model.share(trials * self.value)))
        null, truth = (
            float(np.sqrt((trials * p * (1.0 - p)) @ np.square(centred) + noise))
            for p in (common, self.value)
        )
        return float((trials * self.value) @ centred), null, max(truth, 1e-9 * null)

    def asymptotic(self, alpha: float, source: Source) -> tuple[float, float]:
        critical = -float(special.ndtri(0.5 * alpha if self.alternative == "two-sided" else alpha))
        draw = Beyond(Scored(self._draw, self.alternative), critical)
        return simulated_rate(draw, source(), self._block)

    def monte_carlo(self, alpha: float, source: Source) -> tuple[float, float]:
        """Power of the test that simulates at the estimated common proportion.

        Critical values are simulated at some proportions, and interpolated.
        """
        knots = self._knots
        critical = np.array([self._critical(alpha, float(knot), source()) for knot in knots])
        power, less, more = (
            simulated_rate(
                _RejectedTrends(self._draw, self.alternative, knots, points), source(), self._block
            )[0]
            for points in critical.T
        )
        return power, float(np.hypot(counting_error(power, source().reps), 0.5 * (more - less)))

    @property
    def _draw(self) -> DrawTrend:
        return DrawTrend(self.model, self.value)

    @property
    def _block(self) -> int:
        return draws_in_block(self.value.size)

    @property
    def _knots(self) -> FloatArray:
        trials = self.model.trials
        sampling = float(trials @ (self.value * (1.0 - self.value)))
        noise = float(np.broadcast_to(self.model.noise.variance, trials.shape).sum())
        steps = np.sqrt(sampling + noise) * np.linspace(-_FARTHEST, _FARTHEST, _KNOTS)
        counts = (trials @ self.value + steps)[:, np.newaxis]
        return np.unique(self.model.share(counts))

    def _critical(self, alpha: float, share: float, simulation: Simulation) -> FloatArray:
        null = Scored(DrawTrend(self.model, share), self.alternative)
        return critical_values(null, alpha, simulation, self._block)


@dataclass(frozen=True, eq=False)
class _RejectedTrends:
    """Draws 1 where the test rejects, 0 elsewhere; can be pickled."""

    draw: DrawTrend
    alternative: Alternative
    knots: FloatArray
    critical: FloatArray

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        counts = self.draw.counts(size, rng)
        model = self.draw.model
        critical = np.interp(model.share(counts), self.knots, self.critical)
        reached = score(model.statistic(counts), self.alternative) >= critical
        return reached.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Scored:
    """Draws a statistic so that what is large is against the null hypothesis; can be pickled."""

    draw: Draw
    alternative: Alternative

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        return score(self.draw(size, rng), self.alternative)


def score(z: FloatArray, alternative: Alternative) -> FloatArray:
    """Return what is large where a test rejects."""
    return np.abs(z) if alternative == "two-sided" else np.asarray(SIGNS[alternative] * z)
