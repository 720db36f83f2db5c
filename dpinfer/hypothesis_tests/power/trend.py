"""Power of the tests of a trend over ordered cells and over ordered groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_length,
    check_option,
    freeze,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.power import _trend_counts, _trend_proportions
from dpinfer.hypothesis_tests.power._tables import checked_seed
from dpinfer.hypothesis_tests.power._trend_counts import Method, TrendOfCounts
from dpinfer.hypothesis_tests.power._trend_plan import TrendPlan
from dpinfer.hypothesis_tests.power._trend_proportions import TrendOfGroups
from dpinfer.hypothesis_tests.trend import Method as ProportionsMethod
from dpinfer.hypothesis_tests.trend import TrendOfProportions, checked_scores
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.search import LARGEST_SIZE

_LEAST = 1e-15
"""Share of a cell that stands for 0: laws of counts are for shares above it."""

_LARGEST_RATIO = 1e6
_SAME = 1e-12


@final
@dataclass(frozen=True, eq=False)
class TrendPower(TrendPlan):
    """Power and planning of the test of a trend over ordered cells.

    Parameters
    ----------
    alternative_shares : array of float, shape (k,)
        What the expected counts of k >= 2 cells are proportional to under the alternative, at
        which ``effect`` is 1; >= 0, not all 0.
    %(mechanism_of_cells)s
    shares : array of float, shape (k,), optional
        What they are proportional to under the null hypothesis, > 0; by default they are equal.
    scores : array of float, shape (k,), optional
        The places of the cells; by default 0, 1, ….
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    method : {"exact", "monte-carlo", "normal"}, optional
        Which null distribution the test uses; see :func:`dpinfer.counts_trend`. By default exact
        where that is the default of the test, and a tail of its law takes less than some 0.4 s.
    %(replicates)s

    See Also
    --------
    dpinfer.counts_trend : the test.

    Notes
    -----
    The cells have the probabilities q = p + effect·(a - p), with p and a the shares under the null
    hypothesis and under the alternative. Under both the deviation T = Σ sᵢ(yᵢ - n pᵢ) has a law of
    the same kind: that of a sum of scores of a multinomial table, moved by n Σ sᵢ(qᵢ - pᵢ), and of
    the noise Σ sᵢeᵢ. The power is the probability, at q, beyond one or two critical values found at
    p; at ``effect=0`` it is the size of the test. For ``"normal"`` it is exact as well where that
    is quick, simulated elsewhere, as for ``"monte-carlo"``: ``power_frame`` has the error.

    Examples
    --------
    How many observations show an increase over four cells, under noise of ε = 0.2?

    >>> from dpinfer import Geometric
    >>> plan = TrendPower([0.19, 0.23, 0.27, 0.31], Geometric.from_epsilon)
    >>> plan.power(nobs=[200, 400], budget=0.2).round(4)
    array([0.4222, 0.8319])
    >>> plan.solve_power(effect=1.0, alpha=0.05, power=0.8, budget=0.2)
    374.0
    """

    alternative_shares: Any
    mechanism: NoisePlan
    shares: Any = field(default=None, kw_only=True)
    scores: Any = field(default=None, kw_only=True)
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method | None = field(default=None, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        other = _checked_shares(self.alternative_shares, "alternative_shares")
        null = np.full(other.size, 1.0 / other.size)
        if self.shares is not None:
            check_array(self.shares, "shares", gt=0)
            null = _checked_shares(self.shares, "shares")
            check_length(null, "shares", other.size, "alternative_shares")
        if np.allclose(null, other, rtol=_SAME, atol=0.0):
            raise InvalidParameterError("alternative_shares must differ from shares, got the same")
        check_option(self.alternative, "alternative", ALTERNATIVES)
        if self.method is not None:
            check_option(self.method, "method", _trend_counts.METHODS)
        self._set(
            alternative_shares=freeze(other),
            shares=freeze(null),
            scores=freeze(checked_scores(self.scores, other.size, "alternative_shares")),
            mechanism=check_plan(self.mechanism, other.shape),
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.shares.size,)

    @property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        return self.shares, self.alternative_shares - self.shares

    @property
    def _slope(self) -> FloatArray:
        return np.asarray(self._line[1] * (self.scores - self.scores.mean()))

    def _value(self, effect: float) -> FloatArray:
        value = np.maximum(super()._value(effect), _LEAST)
        return np.asarray(value / value.sum())

    def _moments_of(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[float, float, float]:
        trend = self._trend(law, nobs, value)
        return (trend.shift, *trend.spreads)

    def _probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        trend = self._trend(law, nobs, value)
        method = self.method or ("exact" if trend.is_quick else "monte-carlo")
        return _trend_counts.METHODS[method](trend, alpha, self._simulation())

    def _trend(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TrendOfCounts:
        return TrendOfCounts.of(nobs, (self.shares, value), self.scores, law, self.alternative)


@final
@dataclass(frozen=True, eq=False)
class ProportionsTrendPower(TrendPlan):
    """Power and planning of the test of a trend of proportions over ordered groups.

    Parameters
    ----------
    proportions : array of float, shape (k,)
        The proportions of k >= 2 groups under the alternative, at which ``effect`` is 1; in
        [0, 1], not all equal.
    %(mechanism_of_cells)s
    ratios : array of float, shape (k,), optional
        Numbers of trials in units of ``nobs``, in [1e-6, 1e6]; by default all 1. A group has
        ratio·nobs trials, rounded, but 1 at least.
    scores : array of float, shape (k,), optional
        The places of the groups; by default 0, 1, ….
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    method : {"monte-carlo", "normal"}
        Which null distribution the test uses; see :func:`dpinfer.proportions_trend`.
    %(replicates)s

    See Also
    --------
    dpinfer.proportions_trend : the test.

    Notes
    -----
    The proportions are p̄ + effect·(proportions - p̄), where p̄ is the mean of ``proportions`` with
    the weights ``ratios``; ``nobs`` is the number of trials in each group of ratio 1. Cohen's
    effect size of the table of groups and outcomes is ``effect`` times ``effect_size``.

    All powers are simulated: ``power_frame`` has their Monte Carlo errors. The critical value of
    ``"monte-carlo"`` depends on the estimated common proportion. It is simulated at 7 proportions,
    up to 4 standard deviations to both sides of the mean, and interpolated. The test itself has
    the further randomness of its own replicates, which is left out.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> plan = ProportionsTrendPower([0.10, 0.15, 0.20], Geometric.from_epsilon, rng=1)
    >>> plan.power(nobs=[100, 200], budget=0.5).round(2)
    array([0.34, 0.7 ])
    >>> plan.power_frame(nobs=200, effect=1.0, budget=0.5)["mc_error"].round(3).item()
    0.008
    """

    proportions: Any
    mechanism: NoisePlan
    ratios: Any = field(default=None, kw_only=True)
    scores: Any = field(default=None, kw_only=True)
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: ProportionsMethod = field(default="monte-carlo", kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        values = check_array(self.proportions, "proportions", ndim=1, ge=0, le=1)
        if values.size < 2 or np.ptp(values) <= _SAME * values.max():
            raise InvalidParameterError(
                f"proportions must be those of at least 2 groups and differ, got {values.size} "
                "with no difference"
            )
        ratios = np.ones(values.size)
        if self.ratios is not None:
            limit = _LARGEST_RATIO
            ratios = check_array(self.ratios, "ratios", ndim=1, ge=1.0 / limit, le=limit)
            check_length(ratios, "ratios", values.size, "the groups of proportions")
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_option(self.method, "method", _trend_proportions.METHODS)
        places = checked_scores(self.scores, values.size, "the groups of proportions")
        self._set(
            proportions=freeze(values),
            ratios=freeze(ratios),
            scores=freeze(places),
            mechanism=check_plan(self.mechanism, values.shape),
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )

    @property
    def largest_effect(self) -> float:
        """The largest effect, at which a proportion is 0 or 1."""
        null, step = self._line
        room = np.where(step < 0.0, null, 1.0 - null)[step != 0.0]
        return float((room / np.abs(step[step != 0.0])).min())

    @property
    def effect_size(self) -> float:
        """Cohen's w of the alternative."""
        null, step = self._line
        weights = self.ratios / self.ratios.sum()
        return float(np.sqrt(weights @ (np.square(step) / (null * (1.0 - null)))))

    @property
    def _cells(self) -> tuple[int, ...]:
        return (self.proportions.size,)

    @cached_property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        common = float(self.ratios @ self.proportions / self.ratios.sum())
        return np.full(self.proportions.size, common), self.proportions - common

    @property
    def _slope(self) -> FloatArray:
        centred = self.scores - self.ratios @ self.scores / self.ratios.sum()
        return np.asarray(self.ratios * self._line[1] * centred)

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            largest = LARGEST_SIZE / max(float(self.ratios.max()), 1.0)
            return check_integer_array(value, name, ge=1, le=largest)
        return super()._check(name, value)

    def _value(self, effect: float) -> FloatArray:
        null, step = self._line
        return np.asarray(np.clip(null + effect * step, 0.0, 1.0))

    def _moments_of(
        self, law: NoiseLaw, nobs: int, value: FloatArray
    ) -> tuple[float, float, float]:
        return self._trend(law, nobs, value).moments

    def _probability(
        self, law: NoiseLaw, alpha: float, nobs: int, value: FloatArray
    ) -> tuple[float, float]:
        trend = self._trend(law, nobs, value)
        return _trend_proportions.METHODS[self.method](trend, alpha, self._simulation)

    def _trend(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TrendOfGroups:
        trials = np.maximum(np.rint(self.ratios * nobs), 1.0)
        model = TrendOfProportions.of(trials, self.scores, law)
        return TrendOfGroups(model, value, self.alternative)


def _checked_shares(shares: Any, name: str) -> FloatArray:
    """Return probabilities that are proportional to something."""
    array = check_array(shares, name, ndim=1, ge=0, le=1e100)
    if array.size < 2 or not array.any():
        raise InvalidParameterError(
            f"{name} must be those of at least 2 cells and not all 0, got {array.size} cells"
        )
    return np.asarray(array / array.sum())
