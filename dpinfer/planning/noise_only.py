"""Plans of the tests in which only the noise is random: of linear functions and of two tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_option,
    freeze,
)
from dpinfer._numerics.chi2 import WeightedChi2
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
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.planning.engine import Columns, NoisePlan, PowerRow, check_method
from dpinfer.planning.replicates import Beyond, ReplicatedPower, simulated_power, simulated_rate
from dpinfer.planning.table_laws import critical_value
from dpinfer.releases.coerce import noisy_pair

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
        """Law of the weighted sum of the noises, which has to be random."""
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
        """Return the laws of the noise of the differences."""
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
        """Power and Monte Carlo error at true differences; ``critical`` is None if simulated."""
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
    """Whether all differences are normal."""
    return all(isinstance(law, Gaussian) for law in problem.laws)
