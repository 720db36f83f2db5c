"""Plans of the tests of counts: of one count, linear functions, two tables, and trends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_length,
    check_option,
    check_scalar,
    freeze,
)
from dpinfer._numerics.chi2 import WeightedChi2
from dpinfer._numerics.roots import find_root
from dpinfer._planning.engine import (
    LARGEST_SIZE,
    SIGNS,
    SIZES,
    Bounds,
    Columns,
    NoisePlan,
    PowerRow,
    check_method,
    is_alternative,
    score,
    tail_level,
)
from dpinfer._planning.replicates import (
    EffectPower,
    Moments,
    PowerWithLimit,
    ReplicatedPower,
    critical_value,
    critical_values,
    power_and_error,
    reaches,
    simulated_power,
    simulated_rate,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.estimation.targets import checked_weights
from dpinfer.hypothesis_tests._noise_only import NoiseOnly
from dpinfer.hypothesis_tests._one_count import LARGEST_RATE, OneCount, collapse
from dpinfer.hypothesis_tests._scores import NoisyScores
from dpinfer.hypothesis_tests.counts import (
    STATISTICS,
    DrawTables,
    Method,
    Statistic,
    checked_method,
    differences,
    max_upper,
)
from dpinfer.hypothesis_tests.models import draws_in_block, law_pair
from dpinfer.hypothesis_tests.trend import DrawTrend, TrendOfProportions, checked_scores
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson, work_at_a_point
from dpinfer.mechanisms.independent import IndependentNoise, integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.coerce import noisy_pair
from dpinfer.results.simulation import Draw

_EDGE = 1e-9
"""How near to 0 and 1 proportions are looked for."""

_NARROW = 0.4
"""Width of a bracket in which there is at most one atom on each side of the expectation."""

_PRECISION = 1e-13

_TAILS = 60.0
"""About how many tails the search for a critical value takes."""

_MOST_WORK, _WORK_FOR_EACH = float(1 << 27), float(1 << 19)
"""Work of all of them, some 15 s, and that which each of many rows may take, some 50 ms."""

_LARGEST_SHIFT, _LARGEST_DIFFERENCE = 1e100, 1e15
"""Beyond the latter, neighbouring whole numbers run together."""

_MISSED = 1e-17
"""Chance of missing the largest shift or difference that is looked for."""

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of a deviation, as the test allows for it."""

_FLAT = 1e-12
"""Trends this small, relative to the terms of which they are the sum, are none but for rounding."""

_LEAST = 1e-15
"""Share of a cell that stands for 0: laws of counts are for shares above it."""

_LARGEST_RATIO = 1e6
_SAME = 1e-12

_QUICK = 1 << 22
"""Work of one tail, some 0.4 s, up to which a power is exact by default: it takes dozens."""

_KNOTS, _FARTHEST = 7, 4.0
"""Number of proportions with simulated critical values, and how far from the mean, in spreads."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _OneCountPower(PowerRow):
    """Power of a test of one count, by the law of the noisy count at the truth."""

    value: float
    alternative: Alternative = "two-sided"
    method: Literal["exact", "asymptotic"] = "exact"

    dips = True

    def prepare(self) -> None:
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_method(self.method, ("exact", "asymptotic"))
        self.set(value=check_scalar(self.value, "value", **list(self.own.values())[1]))

    @abstractmethod
    def _laws(
        self, law: NoiseLaw, size: FloatArray, own: FloatArray
    ) -> tuple[OneCount, NoisyCount]:
        """Return the test, and the law of the published count at the truth."""

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        test, truth = self._laws(law, *(columns[name] for name in self.own))
        if self.method == "exact":
            distance = critical_distance(test, alpha, self.alternative)
        else:
            z = test.limit().critical_value(alpha, self.alternative)
            distance = (-z if self.alternative == "smaller" else z) * test.spread
        power = np.zeros(next(iter(columns.values())).shape)
        for sign in SIGNS[self.alternative]:
            point = np.broadcast_to(test.centre + sign * distance, power.shape)
            tail = truth.upper if sign > 0.0 else truth.lower
            power = power + tail(point, test.slack(point))
        return np.minimum(power, 1.0), 0.0

    def has_effect(self, known: Columns) -> bool:
        return is_alternative(self.alternative, float(known[list(self.own)[1]]) - self.value)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionPower(_OneCountPower):
    """Power of the test of one proportion, :func:`dpinfer.proportions_ztest`.

    - ``nobs``: number n of trials, whole, at least 1. It is known: simulate a noisy one.
    - ``proportion``: the true proportion p, in (0, 1); solved for above ``value``, below it for the
      alternative ``"smaller"``.
    - ``value``: the proportion under the null hypothesis, in (0, 1).
    - ``alternative``, ``method``: ``"exact"`` or ``"asymptotic"``, as for the test.

    The test rejects where its p-value is at most α, a set of published counts T beyond one or two
    critical values. The power is the probability of that set where T = X + e, X ~ Binomial(n, p)
    and e is the noise, exact for both methods. At p = ``value`` it is the size of the test.

    A number of trials is tried with its neighbours. With ``"exact"`` that takes a minute for
    numbers of some 100,000, and is refused for much larger ones: solve with ``"asymptotic"``.
    """

    size = "nobs"
    own = {"nobs": SIZES, "proportion": {"ge": SMALLEST_VALUE, "lt": 1.0}}  # noqa: RUF012

    def _laws(
        self, law: NoiseLaw, size: FloatArray, own: FloatArray
    ) -> tuple[OneCount, NoisyCount]:
        nobs = collapse(size)
        test = OneCount.of_trials(nobs, np.asarray(self.value), law)
        return test, NoisyBinomial(nobs=nobs, value=collapse(own), noise=law)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name != "proportion":
            return super().range(name, known)
        return self.value, _EDGE if self.alternative == "smaller" else 1.0 - _EDGE


_RATES: Bounds = {"gt": 0.0, "le": LARGEST_RATE}


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PoissonPower(_OneCountPower):
    """Power of the test of one rate of events, :func:`dpinfer.poisson_ztest`.

    - ``exposure``: time, or whatever the rate is per, > 0; solved for as the smallest from which on
      the power is reached, as far as a grid of steps of 0.1 % shows.
    - ``rate``: the true rate, > 0; solved for above ``value``, below it for the alternative
      ``"smaller"``.
    - ``value``: the rate under the null hypothesis, > 0.
    - ``alternative``, ``method``: ``"exact"`` or ``"asymptotic"``, as for the test.

    As for a proportion, with a Poisson count of mean exposure·rate.
    """

    size = "exposure"
    whole = False
    own = {"exposure": _RATES, "rate": _RATES}  # noqa: RUF012
    logarithmic = PowerRow.logarithmic | {"rate"}

    def _laws(
        self, law: NoiseLaw, size: FloatArray, own: FloatArray
    ) -> tuple[OneCount, NoisyCount]:
        null = _expected(collapse(size), self.value, "exposure * value")
        truth = _expected(size, own, "exposure * rate")
        return OneCount.of_events(null, law), NoisyPoisson(rate=truth, noise=law)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name != "rate":
            return super().range(name, known)
        if self.alternative == "smaller":
            return self.value, max(_EDGE * self.value, SMALLEST_VALUE)
        return self.value, 0.5 * LARGEST_RATE / max(float(known["exposure"]), 1.0)


def _expected(exposure: FloatArray, rate: Any, name: str) -> FloatArray:
    with np.errstate(over="ignore", under="ignore"):
        expected = np.asarray(exposure * rate)
    check_array(expected, name, ge=SMALLEST_VALUE, le=LARGEST_RATE, finite=False)
    return collapse(expected)


def critical_distance(test: OneCount, alpha: float, alternative: Alternative) -> FloatArray:
    """Return the smallest distances, in counts, at which the exact test rejects.

    For the alternative ``"smaller"`` distances are counted downwards. Where the noise is
    whole-numbered they are those of whole numbers.
    """
    centre = np.atleast_1d(test.centre)
    _check_work(test, centre)
    rows = np.arange(centre.size)
    spread = np.sqrt(np.square(np.atleast_1d(test.spread)) + test.law.noise.variance)
    is_lattice = bool(integer_cells(test.law.noise, 1)[0])

    def margin(distance: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        part = _rows(test, index)
        tails = {"larger": part.larger, "smaller": part.smaller, "two-sided": part.further}
        away = -distance if alternative == "smaller" else distance
        tail = tails[alternative](np.broadcast_to(part.centre, distance.shape) + away)
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(tail), -1e6) - np.log(alpha))

    _, high = find_root(
        margin,
        np.zeros(rows.size) if alternative == "two-sided" else -spread,
        spread,
        rtol=0.0 if is_lattice else _PRECISION,
        atol=_NARROW if is_lattice else 0.0,
        expand=True,
    )
    if is_lattice:
        sides = {1.0: np.floor(centre + high) - centre, -1.0: centre - np.ceil(centre - high)}
        near = [sides[sign] for sign in SIGNS[alternative]]
        atoms = [np.where(margin(side, rows) <= 0.0, side, np.inf) for side in near]
        nearest = np.min(atoms, axis=0)
        high = np.where(np.isfinite(nearest), nearest, high)
    return high.reshape(test.centre.shape)


def _check_work(test: OneCount, centre: FloatArray) -> None:
    """Refuse to look for a critical value if its tails are sums of too many terms."""
    low, high = test.law._window(centre, "upper")
    work = _TAILS * float(np.sum(high - low + 1.0)) * work_at_a_point(test.law.noise)
    if work > max(_MOST_WORK, _WORK_FOR_EACH * centre.size):
        raise InvalidParameterError(
            f"{' and '.join(test.law.parameters)}, or the noise, must be smaller for the power of "
            f"the exact test, which would take some {1e-7 * work:.2g} s: use method='asymptotic'"
        )


def _rows(test: OneCount, index: NDArray[np.intp]) -> OneCount:
    if test.centre.ndim == 0:
        return test
    own = {name: x[index] if x.ndim else x for name, x in test.law.parameters.items()}
    law = replace(test.law, **own)  # type: ignore[arg-type]
    return replace(test, law=law, centre=test.centre[index], spread=test.spread[index])


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

    With c the upper α/2 quantile of the noise S = Σ cᵢeᵢ the two-sided test rejects beyond ±c, and
    its power is P(S > c - shift) + P(S > c + shift), by the law of S for both methods; one-sided
    tests reject beyond the upper α quantile. There is no number of observations: a small shift
    cannot be seen but with less noise. Under whole-numbered noise the power has a step where the
    critical value changes: at a budget that is solved for it may be more than was asked for.
    """

    weights: Any = None
    alternative: Alternative = "two-sided"
    method: Literal["exact", "asymptotic"] = "exact"

    own = {"shift": {"ge": -_LARGEST_SHIFT, "le": _LARGEST_SHIFT}}  # noqa: RUF012

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

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        noise = self._noise(law)
        level = np.asarray(tail_level(alpha, self.alternative))
        power = np.zeros(columns["shift"].shape)
        for sign in SIGNS[self.alternative]:
            shift = sign * columns["shift"]
            if self.method == "asymptotic":
                # the critical value itself is rejected: P(S >= x) = P(S <= -x)
                critical = float(noise.std) * -special.ndtri(level)
                power = power + noise._cdf(shift - critical)
                continue
            # P(S >= t) <= level exactly where t is beyond the upper quantile, itself not included
            critical = noise._isf(level)
            slack = _ROUNDING * (np.abs(critical) + np.abs(shift))
            whole = (critical == np.rint(critical)) & (shift == np.rint(shift))
            power = power + noise._sf(critical - shift + np.where(whole, 0.0, slack))
        return np.minimum(power, 1.0), 0.0

    def _noise(self, law: NoiseLaw) -> WeightedSum:
        noise = WeightedSum(self.weights, law)
        if float(noise.std) == 0.0:
            raise InvalidParameterError(
                "mechanism must have noise in a value that has a weight: without noise there is "
                "nothing to test, compare the values"
            )
        return noise

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
    squares has a noncentral χ² law where the noise is Gaussian, whatever the method. Under other
    noise it is simulated; the Monte Carlo error includes that of a simulated critical value. Only
    the noise is random: there is no number of observations.
    """

    difference: Any
    statistic: Statistic = "max"
    method: Method | None = None

    own = {"effect": {}}  # noqa: RUF012
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
        most = limit / float(np.abs(cells).max())
        self.set(difference=freeze(cells), own={"effect": {"ge": -most, "le": most}})

    def checked_mechanism(self) -> NoisePlan:
        if not isinstance(self.mechanism, (list, tuple)):
            return super().checked_mechanism()
        cells = range(self.difference.size)
        pair = law_pair(self.mechanism, len(cells), "mechanism")
        return IndependentNoise([x.take(i) if x.shape else x for x in pair for i in cells])

    @property
    def shape(self) -> tuple[int, ...]:
        return (np.size(self.difference),)

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
        return 0.0, min(farthest, self.own["effect"]["le"])

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
        shifts = [effect * self.difference for effect in columns["effect"].tolist()]
        found = [self._rejected(problem, alpha, critical, shift) for shift in shifts]
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
        draw = partial(reaches, truth, critical)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class _TrendPower(EffectPower, PowerWithLimit):
    """Power of a test of a trend, at the truth null + effect·(truth - null)."""

    scores: Any = None

    @abstractmethod
    def _moments_of(self, law: NoiseLaw, nobs: int, value: FloatArray) -> Moments:
        """Mean of the deviation, and its spread under the null hypothesis and at the truth."""

    def prepare(self) -> None:
        super().prepare()
        check_option(self.alternative, "alternative", ALTERNATIVES)
        self.set(scores=freeze(checked_scores(self.scores, self.shape[0], "the cells of truth")))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.truth)

    @property
    def sizes(self) -> FloatArray:
        """What a step of a cell counts in the trend."""
        return np.ones(self.shape)

    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        rows = zip(columns["nobs"].flat, columns["effect"].flat, strict=True)
        found = [self._moments_of(law, int(n), self.value_at(float(effect))) for n, effect in rows]
        mean, null, truth = np.array(found).T
        return mean, null, truth

    def has_effect(self, known: Columns) -> bool:
        centred = self.scores - self.sizes @ self.scores / self.sizes.sum()
        terms = self.sizes * self.line[1] * centred
        slope = float(known["effect"]) * float(terms.sum())
        is_flat = abs(slope) <= _FLAT * float(np.abs(terms).sum())
        return not is_flat and is_alternative(self.alternative, slope)

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        return self.limit(name, known, target)

    def _scored(self, draw: Draw) -> Draw:
        return partial(_scored, draw, self.alternative)


def _scored(
    draw: Draw, alternative: Alternative, size: int, rng: np.random.Generator
) -> FloatArray:
    return score(draw(size, rng), alternative)


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

    def value_at(self, effect: float) -> FloatArray:
        value = np.maximum(super().value_at(effect), _LEAST)
        return np.asarray(value / value.sum())

    def _laws(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[NoisyScores, NoisyScores, float]:
        """Return the laws of the deviation at p and, but for a shift, at q, and the shift."""
        null = NoisyScores.of(nobs, self.shares, self.scores, law)
        truth = NoisyScores(nobs, value, null.scores, law)
        return null, truth, float(nobs * ((value - self.shares) @ null.scores))

    def _moments_of(self, law: NoiseLaw, nobs: int, value: FloatArray) -> Moments:
        null, truth, shift = self._laws(law, nobs, value)
        return shift, _std(null), _std(truth)

    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        null, truth, shift = self._laws(law, nobs, value)
        quick = all(x.default_method == "exact" and x.work <= _QUICK for x in (null, truth))
        draw = self._scored(partial(_shifted, truth, shift, null.spread))
        method = self.method or ("exact" if quick else "monte-carlo")
        if method == "monte-carlo":
            drawn = self._scored(null.draw)
            return simulated_power(drawn, draw, alpha, value.size, self.simulation())

        def slack(critical: float) -> float:
            far = np.asarray(abs(critical) + abs(shift))
            return float(null.slack(far) + truth.slack(far))

        def tails(law: NoisyScores, point: FloatArray, moved: float = 0.0) -> FloatArray:
            beyond = np.zeros(point.shape)
            for sign in SIGNS[self.alternative]:
                beyond += law.upper(point - moved) if sign > 0.0 else law.lower(-point - moved)
            return np.minimum(beyond, 1.0)

        spread = _std(null)
        if self.method == "asymptotic":
            critical = -special.ndtri(tail_level(alpha, self.alternative)) * spread
            if not quick:
                beyond = partial(reaches, draw, critical / null.spread)
                return simulated_rate(beyond, self.simulation(), draws_in_block(value.size))
            critical -= 2.0 * slack(critical)  # the critical value itself is rejected
        else:
            low = 0.0 if self.alternative == "two-sided" else -spread
            critical = critical_value(partial(tails, null), alpha, 2.0 * spread, low)
        # tails include atoms within their slack, here on the wrong side
        return float(tails(truth, np.array([critical + 2.0 * slack(critical)]), shift)[0]), 0.0


def _std(law: NoisyScores) -> float:
    return float(np.hypot(law.spread, law.noise_std))


def _shifted(
    truth: NoisyScores, shift: float, unit: float, size: int, rng: np.random.Generator
) -> FloatArray:
    """Draw deviations in units of their spread under the null hypothesis."""
    return (truth.draw(size, rng) * truth.spread + shift) / unit


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
    estimated common proportion: it is simulated at 7 proportions, up to 4 standard deviations to
    both sides of the mean, and interpolated. The further randomness of the test's own replicates is
    left out.
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
        most = LARGEST_SIZE / max(float(ratios.max()), 1.0)
        self.set(
            truth=freeze(values),
            ratios=freeze(ratios),
            own={**self.own, "nobs": {"ge": 1.0, "le": most}},
        )
        super().prepare()

    @property
    def sizes(self) -> FloatArray:
        return np.asarray(self.ratios)

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

    def value_at(self, effect: float) -> FloatArray:
        null, step = self.line
        return np.asarray(np.clip(null + effect * step, 0.0, 1.0))

    def _model(self, law: NoiseLaw, nobs: int) -> TrendOfProportions:
        trials = np.maximum(np.rint(self.ratios * nobs), 1.0)
        return TrendOfProportions.of(trials, self.scores, law)

    def _moments_of(self, law: NoiseLaw, nobs: int, value: FloatArray) -> Moments:
        model = self._model(law, nobs)
        trials, squares = model.trials, np.square(model.centred)
        noise = float(np.sum(squares * law.variance))
        common = np.full(trials.size, float(model.share(trials * value)))
        null, truth = (
            float(np.sqrt((trials * p * (1.0 - p)) @ squares + noise)) for p in (common, value)
        )
        return float((trials * value) @ model.centred), null, max(truth, 1e-9 * null)

    def probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        model, block = self._model(law, nobs), draws_in_block(value.size)
        draw = DrawTrend(model, value)
        if self.method == "asymptotic":
            z = -float(special.ndtri(tail_level(alpha, self.alternative)))
            return simulated_rate(partial(reaches, self._scored(draw), z), self.simulation(), block)
        sampling = float(model.trials @ (value * (1.0 - value)))
        noise = float(np.broadcast_to(law.variance, value.shape).sum())
        steps = np.sqrt(sampling + noise) * np.linspace(-_FARTHEST, _FARTHEST, _KNOTS)
        knots = np.unique(model.share((model.trials @ value + steps)[:, np.newaxis]))
        nulls = [self._scored(DrawTrend(model, float(knot))) for knot in knots]
        critical = np.array([critical_values(x, alpha, self.simulation(), block) for x in nulls])
        rejected = (partial(_rejected, draw, self.alternative, knots, x) for x in critical.T)
        shares = [simulated_rate(draws, self.simulation(), block)[0] for draws in rejected]
        return power_and_error(np.array(shares), self.reps)


def _rejected(
    draw: DrawTrend,
    alternative: Alternative,
    knots: FloatArray,
    points: FloatArray,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw 1 where a test rejects, its critical value interpolated; 0 elsewhere."""
    counts = draw.counts(size, rng)
    critical = np.interp(draw.model.share(counts), knots, points)
    return (score(draw.model.statistic(counts), alternative) >= critical).astype(np.float64)


def _checked_shares(shares: Any, name: str) -> FloatArray:
    array = check_array(shares, name, ndim=1, ge=0, le=1e100)
    if array.size < 2 or not array.any():
        raise InvalidParameterError(
            f"{name} must be those of at least 2 cells and not all 0, got {array.size} cells"
        )
    return np.asarray(array / array.sum())
