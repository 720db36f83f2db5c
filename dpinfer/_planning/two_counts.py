"""Plans of the tests of two proportions, of two rates and of paired proportions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_option,
    check_scalar,
)
from dpinfer._planning.critical_counts import (
    DifferingPairs,
    Known,
    Method,
    TwoBinomials,
    TwoCounts,
    TwoPoissons,
)
from dpinfer._planning.engine import LARGEST_SIZE, Bounds, Columns, check_method, is_alternative
from dpinfer._planning.replicates import Moments, PowerWithLimit
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyPoisson
from dpinfer.mechanisms.law import NoiseLaw

_PRECISION, _COARSE = 1e-6, 1e-3
"""Relative precision of what is solved for, and where each step may take seconds."""

_NEXT_BUDGET, _MOST_BUDGETS, _NO_NOISE = 1.25, 40, 1e-6
"""Steps of budgets that are tried where the largest is not enough, and variance at their end."""

_GUESSES = {"alpha": 0.05, "budget": 1.0}
"""Where to begin to look for them if the limit does not tell."""

_EDGE = 1e-9
_ROUNDING = 1e-12

_LARGEST_NOBS, _LARGEST_EVENTS = 1e9, 1e10
"""Numbers of pairs, and expected events of a sample, up to which plans are made."""

_FEWEST_EVENTS = 1e-9
"""Expected events of the larger sample from which an exposure is looked for."""

_LARGEST = 1e100
_RATIOS: Bounds = {"ge": 1e-6, "le": 1e6}
_SHARE: Bounds = {"ge": SMALLEST_VALUE, "lt": 1.0}
_RATE: Bounds = {"gt": 0.0, "ge": 1.0 / _LARGEST, "le": _LARGEST}


@lru_cache(maxsize=1)
def _known(
    noises: tuple[NoiseLaw, NoiseLaw], share: float, nuisance_alpha: float, side: Alternative
) -> Known:
    """Return the p-values that are known with such noise; the last noise is remembered."""
    return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class _TwoCountsPower(PowerWithLimit):
    """Power of a test of two noisy counts, whose own numbers are a size and two rates."""

    method: Method = "exact"
    nuisance_alpha: float = 1e-4

    shape = (2,)

    def prepare(self) -> None:
        super().prepare()
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_method(self.method, ("exact", "plug-in", "asymptotic"))
        given = check_scalar(self.nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5)
        self.set(nuisance_alpha=given)
        for name in ("value", "ratio"):
            if hasattr(self, name):
                self.set(**{name: check_scalar(getattr(self, name), name, **_RATIOS)})

    @abstractmethod
    def _counts(self, noises: tuple[NoiseLaw, NoiseLaw], *own: float) -> TwoCounts:
        """Return the counts and their test, given the own numbers."""

    @property
    def _test(self) -> tuple[Alternative, Method, float]:
        return self.alternative, self.method, self.nuisance_alpha

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        noises = (law.take(0), law.take(1)) if law.shape else (law, law)
        return self._counts(noises, *own).reject(alpha, self.simulation())

    def has_effect(self, known: Columns) -> bool:
        first, second = (float(known[name]) for name in list(self.own)[1:])
        return is_alternative(self.alternative, first - getattr(self, "value", 1.0) * second)

    def _against(self, name: str) -> tuple[str | None, bool]:
        """Return the other of the two rates, if this is one, and whether this one falls."""
        _, first, second = self.own
        falls = (name == first) == (self.alternative == "smaller")
        return {first: second, second: first}.get(name), falls

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        other, falls = self._against(name)
        if other is None:
            return super().range(name, known)
        value = float(known[other])
        return value, min(_EDGE, 0.5 * value) if falls else 1.0 - _EDGE

    def precision(self, name: str) -> float:
        return _COARSE if name == "budget" and self.method == "exact" else _PRECISION

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        if name == self.size:
            return self.limit(name, known, target)
        if name not in _GUESSES:
            return None
        if name == "budget" and self.method == "exact":  # each of its powers may take seconds
            found = self.found_by(name, known, target, method="plug-in", rng=0)
        else:
            found = self.limit(name, known, target)
        guess = found or _GUESSES[name]
        search, largest = self.search(name, known, target), self.ends(name, known)[1]
        if search.lack_at(largest) <= 0.0:
            return guess
        for _ in range(_MOST_BUDGETS if name == "budget" else 0):
            # a little noise may help, as it makes steps of p-values finer
            if search.lack_at(guess) <= 0.0:
                return guess
            if np.max(self.law(guess).variance) < _NO_NOISE:
                break
            guess *= _NEXT_BUDGET
        raise search.unreachable(largest)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TwoProportionsPower(_TwoCountsPower):
    """Power of the test of two proportions, :func:`dpinfer.proportions_2indep`.

    - ``nobs1``: number of trials of the first sample, whole, at least 1; it is known: simulate a
      noisy one. The second sample has ``ratio * nobs1`` trials, rounded, but 1 at least.
    - ``prop1``, ``prop2``: the true proportions, in (0, 1). ``prop1`` is solved for above
      ``prop2``, below it for the alternative ``"smaller"``; and ``prop2`` the other way round.
    - ``ratio``: in [1e-6, 1e6], by default 1.
    - ``alternative``; ``method``: ``"exact"``, ``"plug-in"`` or ``"asymptotic"``, and
      ``nuisance_alpha``: as for the test. A power for ``"exact"``, the default of both, takes some
      10 s with 100 trials or more, where the others take 0.1 s, and what is solved for about as
      long as several powers.
    - ``reps``, ``rng``, ``n_jobs``: of replicates, where powers are simulated.

    The null distribution depends on the published counts T₁ and T₂ by their total M only, so that
    the test rejects where T₁ is beyond one or two critical values c(M). Where noise takes whole
    numbers the power is the sum of P(T₁ = t)·P(T₂ = M - t) over all such pairs; pairs of a
    probability of 1e-8 in all are left out. With continuous noise, more than 6.7e7 pairs, or more
    than 200 counts (both together) with ``"exact"``, it is simulated. The p-values of ``"exact"``
    are upper bounds, up to max(``nuisance_alpha``/2, 2e-5) above the maximum: pairs as near as that
    to the level may be counted on either side.

    A level or budget that is solved for has a relative precision of 1e-6, the budget of ``"exact"``
    of 1e-3. A size reaches the power, and the one before does not; the power may fall below it
    again, by the little that rounding to whole counts makes.
    """

    ratio: float = 1.0

    size = "nobs1"
    own = {"nobs1": {"ge": 1.0}, "prop1": _SHARE, "prop2": _SHARE}  # noqa: RUF012

    def prepare(self) -> None:
        super().prepare()
        largest = LARGEST_SIZE / max(self.ratio, 1.0)
        self.set(own={**self.own, "nobs1": {"ge": 1.0, "le": largest}})

    def _nobs(self, nobs1: Any) -> tuple[Any, Any]:
        return nobs1, np.maximum(np.rint(self.ratio * nobs1), 1.0)

    def _counts(self, noises: tuple[NoiseLaw, NoiseLaw], *own: float) -> TwoCounts:
        first, second = (
            NoisyBinomial(nobs=np.asarray(n), value=np.asarray(p), noise=noise)
            for n, p, noise in zip(self._nobs(own[0]), own[1:], noises, strict=True)
        )
        return TwoBinomials((first, second), *self._test)

    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        nobs1, p1, p2 = (columns[name] for name in self.own)
        nobs1, nobs2 = self._nobs(nobs1)
        v1, v2 = np.broadcast_to(law.variance, (2,))
        noise = v1 / np.square(nobs1) + v2 / np.square(nobs2)
        pooled = (nobs1 * p1 + nobs2 * p2) / (nobs1 + nobs2)
        null = np.sqrt(pooled * (1.0 - pooled) * (1.0 / nobs1 + 1.0 / nobs2) + noise)
        truth = np.sqrt(p1 * (1.0 - p1) / nobs1 + p2 * (1.0 - p2) / nobs2 + noise)
        return p1 - p2, null, truth


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class McNemarPower(_TwoCountsPower):
    """Power of McNemar's test of paired proportions, :func:`dpinfer.mcnemar`.

    - ``nobs``: number of pairs, those included whose answers agree, whole, in [1, 1e9].
    - ``prop12``, ``prop21``: the true proportions of pairs of the two kinds that differ, ``table[0,
      1]`` and ``table[1, 0]``; each in (0, 1), together at most 1. ``prop12`` is solved for above
      ``prop21``, below it for the alternative ``"smaller"``; and ``prop21`` the other way round.
    - ``alternative``; ``method``: ``"exact"``, ``"plug-in"`` or ``"asymptotic"``, and
      ``nuisance_alpha``: as for the test.
    - ``reps``, ``rng``, ``n_jobs``: of replicates, where powers are simulated.

    The noise is that of the two counts of pairs that differ, of which the test rejects, given their
    published total M, those beyond a critical count c(M). Where the noise takes whole numbers the
    power is the sum of the probabilities of all published pairs of counts that are rejected, but
    for a probability of some 1e-12 that is left out. With continuous noise, more than 4 million
    pairs of counts, or more than 600 totals with ``"exact"``, it is simulated; where that would
    take more than some 15 s, as ``"exact"`` with a million pairs or noise of scale 1,000, it is
    refused: use another method.

    A size that is solved for reaches the power, and the one before does not; the power may fall
    below it again, by the little that rounding to whole counts makes. A budget reaches it, and less
    by a relative 1e-6, with ``"exact"`` 1e-3, does not; with counts this few, more noise may do
    again.
    """

    size = "nobs"
    own = {  # noqa: RUF012
        "nobs": {"ge": 1.0, "le": _LARGEST_NOBS},
        "prop12": _SHARE,
        "prop21": _SHARE,
    }

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        near, far = super().range(name, known)
        other, falls = self._against(name)
        if other is None:
            return near, far
        most = 1.0 - float(known[other])
        return min(near, most), max(far if falls else most, SMALLEST_VALUE)

    def _counts(self, noises: tuple[NoiseLaw, NoiseLaw], *own: float) -> TwoCounts:
        nobs, prop12, prop21 = own
        if prop12 + prop21 > 1.0 + _ROUNDING:
            raise InvalidParameterError(
                f"prop12 + prop21 must be at most 1, the proportion of all pairs, got "
                f"{prop12 + prop21:.6g}"
            )
        first, second = (
            NoisyBinomial(nobs=np.asarray(nobs), value=np.asarray(p), noise=noise)
            for p, noise in zip((prop12, min(prop21, 1.0 - prop12)), noises, strict=True)
        )
        known = _known(noises, 0.5, self.nuisance_alpha, self.alternative)
        return DifferingPairs((first, second), *self._test, share=0.5, known=known)

    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        nobs, p12, p21 = (columns[name] for name in self.own)
        noise = float(np.broadcast_to(law.variance, (2,)).sum())
        both, difference = p12 + p21, p12 - p21
        null = np.sqrt(nobs * both + noise)
        truth = np.sqrt(np.maximum(nobs * (both - np.square(difference)) + noise, 1e-9 * null**2))
        return nobs * difference, null, truth


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TwoRatesPower(_TwoCountsPower):
    """Power of the test of two rates of events, :func:`dpinfer.poisson_2indep`.

    - ``exposure1``: exposure of the first sample, > 0: person-years, area, time. The second has
      ``ratio`` times as much.
    - ``rate1``, ``rate2``: the true rates, events per unit of exposure, > 0. ``rate1`` is solved
      for above ``value * rate2``, below it for the alternative ``"smaller"``; and ``rate2`` the
      other way round.
    - ``value``: the ratio of the first rate to the second under the null hypothesis, in [1e-6,
      1e6], by default 1; ``ratio``: likewise.
    - ``alternative``; ``method``: ``"exact"``, ``"plug-in"`` or ``"asymptotic"``, and
      ``nuisance_alpha``: as for the test. Powers for ``"exact"``, the default of both, take seconds
      where the others take 0.1 s, and a budget that reaches a power some 10 s. What would take much
      longer than that for one power is refused.
    - ``reps``, ``rng``, ``n_jobs``: of replicates, where powers are simulated.

    Given the total M of the published counts T₁ and T₂ the test rejects where T₁ is beyond one or
    two critical values c(M). Where noise takes whole numbers the power is the sum of P(T₁ =
    t)·P(T₂ = M - t) over all such pairs, with Poisson counts of means exposure·rate; pairs of a
    probability of 1e-8 in all are left out. With continuous noise, more than 6.7e7 pairs, or more
    than 600 counts (both together) with ``"exact"``, it is simulated. P-values are kept, so that
    further powers with the same noise come sooner.

    An exposure, level or budget that is solved for reaches the power, and short of it by a relative
    1e-6, the budget of ``"exact"`` by 1e-3, it is not reached. With more exposure the power may
    fall below it again, by the little that whole counts make.
    """

    value: float = 1.0
    ratio: float = 1.0

    size = "exposure1"
    whole = False
    own = {"exposure1": _RATE, "rate1": _RATE, "rate2": _RATE}  # noqa: RUF012
    logarithmic = _TwoCountsPower.logarithmic | frozenset(own)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name == "exposure1":
            larger = max(float(known["rate1"]), self.ratio * float(known["rate2"]))
            return _FEWEST_EVENTS / larger, _LARGEST_EVENTS / larger
        other, falls = self._against(name)
        if other is None:
            return super().range(name, known)
        exposure, scale = float(known["exposure1"]), self.value
        if name == "rate2":
            exposure, scale = exposure * self.ratio, 1.0 / scale
        null = scale * float(known[other])
        far = min(_FEWEST_EVENTS, 1e-3 * null * exposure) if falls else _LARGEST_EVENTS
        return null, max(far / exposure, 1.0 / _LARGEST)

    @property
    def _share(self) -> float:
        return self.value / (self.value + self.ratio)

    def _means(self, *own: Any) -> tuple[FloatArray, FloatArray]:
        exposure, rate1, rate2 = (np.asarray(x) for x in own)
        means = exposure * rate1, self.ratio * exposure * rate2
        for mean, name in zip(means, ("rate1", "ratio * rate2"), strict=True):
            check_array(mean, f"exposure1 * {name}", ge=SMALLEST_VALUE, le=1.01 * _LARGEST_EVENTS)
        return means

    def _counts(self, noises: tuple[NoiseLaw, NoiseLaw], *own: float) -> TwoCounts:
        for noise in noises:
            check_array(noise.variance, "the variance of mechanism", le=_LARGEST_EVENTS**2)
        first, second = (
            NoisyPoisson(rate=mean, noise=noise)
            for mean, noise in zip(self._means(*own), noises, strict=True)
        )
        known = _known(noises, self._share, self.nuisance_alpha, self.alternative)
        return TwoPoissons((first, second), *self._test, share=self._share, known=known)

    def moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        mean1, mean2 = self._means(*(columns[name] for name in self.own))
        v1, v2 = np.broadcast_to(law.variance, (2,))
        own, other = 1.0 - self._share, self._share
        noise = own**2 * v1 + other**2 * v2
        null = np.sqrt((mean1 + mean2) * own * other + noise)
        truth = np.sqrt(own**2 * mean1 + other**2 * mean2 + noise)
        return own * mean1 - other * mean2, null, truth
