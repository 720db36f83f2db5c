"""Counts out of a number of trials that is known only with noise.

The statistic is T = count - p·nobs for a proportion p. Given the true number n of trials it is
X - n·p + W with X ~ Binomial(n, p) and W the noise of ``count`` minus p times that of ``nobs``: n
is a nuisance parameter, and the published ``nobs`` gives a confidence set for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
)
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_radius
from dpinfer._numerics.roots import evaluated, largest_over_integers
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._noisy_count import MOST_WORK, NoisyBinomial, work_at_a_point
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import fast_sum
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.intp]

_ROUNDING = 1e-14  # relative error of a computed statistic
_WORK_FOR_EACH = 1 << 21  # work that each of many rows may take, some 0.2 s
LARGEST_TRIALS = 1e12  # beyond it, the rounding of the statistic would reach into its law


@dataclass(frozen=True, kw_only=True, eq=False)
class UnknownTrials:
    """Rows of noisy counts and noisy numbers of trials, all of shape (m,).

    ``nobs_noise`` is the noise that only ``nobs`` has; with ``is_total`` it has that of ``count``
    too. The confidence set misses with probability ``nuisance_alpha``; answers have ``shape``.
    """

    count: FloatArray
    nobs: FloatArray
    value: FloatArray
    noise: NoiseLaw
    nobs_noise: NoiseLaw
    is_total: bool
    nuisance_alpha: float
    shape: tuple[int, ...]
    labels: pd.Index | None

    @classmethod
    def of(
        cls,
        x: NoisyValues,
        nobs: Any,
        mechanism: Mechanism | None,
        is_total: bool,
        value: FloatArray,
        nuisance_alpha: float,
    ) -> UnknownTrials:
        """Return checked counts with their numbers of trials.

        Numbers that carry their law may share noise with the counts only as totals that the
        counts are summands of; for others ``is_total`` says so, and ``mechanism`` is the law of
        what the total has besides the count.
        """
        if is_total and not hasattr(nobs, "__noisy__"):
            total = x.setting(nobs, "nobs")
            size = max(len(x), total.size)
            own, other = x.marginal, as_noise(mechanism, size, name="nobs_mechanism")  # type: ignore[arg-type]
            if own.is_integer and other.is_integer:
                check_integer_array(total, "nobs")
        else:
            y = x.aligned(noisy(nobs, mechanism=mechanism, name="nobs", called="nobs_mechanism"))
            y.need(unruled=True, who="a test or an interval of a proportion")
            total = y.column()
            own, other, is_total = _joint(x, y)
        check_array(total, "nobs", ge=-LARGEST_TRIALS, le=LARGEST_TRIALS)
        count = x.column(total, value)
        shape = np.broadcast_shapes(count.shape, own.shape, other.shape)
        columns = [np.broadcast_to(held, shape or (1,)) for held in (count, total, value)]
        return cls(
            count=columns[0],
            nobs=columns[1],
            value=columns[2],
            noise=own,
            nobs_noise=other,
            is_total=is_total,
            nuisance_alpha=nuisance_alpha,
            shape=shape,
            labels=x.labels,
        )

    def under(self, value: FloatArray, rows: Rows) -> UnknownTrials:
        """Return some of the rows, each under another proportion."""
        found = UnknownTrials(
            count=self.count[rows],
            nobs=self.nobs[rows],
            value=value,
            noise=_per_row(self.noise)(rows),
            nobs_noise=_per_row(self.nobs_noise)(rows),
            is_total=self.is_total,
            nuisance_alpha=self.nuisance_alpha,
            shape=value.shape,
            labels=None,
        )
        if "confidence_set" in vars(self):  # it is the same under any proportion
            vars(found)["confidence_set"] = tuple(part[rows] for part in self.confidence_set)
        return found

    @cached_property
    def trials(self) -> FloatArray:
        """Estimated number of trials."""
        return np.clip(np.rint(self.nobs), 0.0, LARGEST_TRIALS)

    @cached_property
    def difference(self) -> FloatArray:
        """The statistic T."""
        return np.asarray(self.count - self.value * self.nobs)

    @cached_property
    def spread(self) -> FloatArray:
        """Estimated standard deviation of T before noise was added, of one trial at least."""
        return np.sqrt(np.maximum(self.trials, 1.0) * self.value * (1.0 - self.value))

    @cached_property
    def statistic(self) -> FloatArray:
        """T in standard deviations before noise was added."""
        return np.asarray(self.difference / self.spread)

    @cached_property
    def variance(self) -> FloatArray:
        """Variance of the noise of T."""
        weight = 1.0 - self.value if self.is_total else np.ones(self.value.shape)
        own, other = self.noise.variance, self.nobs_noise.variance
        return np.asarray(weight**2 * own + self.value**2 * other)

    @property
    def error(self) -> FloatArray:
        """Error of tails where that is an absolute one; 0 where it is relative."""
        out = np.empty(self.count.size)
        for noise, _, rows in self.groups:
            out[rows] = noise._floor
        return out

    @cached_property
    def confidence_set(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """First and last number of trials that is plausible, and the probability to miss it."""
        low, high, missed = np.empty((3, self.count.size))
        for _, total, rows in self.groups:
            reach = float(total._isf(np.asarray(0.5 * self.nuisance_alpha)))
            low[rows] = np.ceil(self.nobs[rows] - reach)
            high[rows] = np.floor(self.nobs[rows] + reach)
            # narrow noise on whole numbers: the set is nobs alone, and rarely misses
            missed[rows] = self.nuisance_alpha if reach > 0 else 2.0 * float(total.sf(0.0))
        low = np.clip(low, 0.0, LARGEST_TRIALS)
        return low, np.clip(high, low, LARGEST_TRIALS), missed

    def tail(
        self, alternative: Alternative, point: FloatArray, trials: FloatArray, rows: Rows
    ) -> FloatArray:
        """P(T >= point), P(T <= point) or P(abs(T) >= point) at numbers of trials, row by row."""
        out = np.empty(rows.size)
        for law, _, members in self.groups:
            belongs = np.zeros(self.count.size, dtype=bool)
            belongs[members] = True
            chosen = belongs[rows]
            here, n, t = rows[chosen], trials[chosen], point[rows[chosen]]
            if not here.size:
                continue
            p = (
                self.value[members[0]]
                if (self.value[members] == self.value[members[0]]).all()
                else self.value[here]
            )
            noisy = NoisyBinomial(nobs=n, value=np.asarray(p), noise=law)
            centre = n * p
            slack = np.minimum(_ROUNDING * (np.abs(t) + 2.0 * centre + 1.0), 0.25)
            out[chosen] = _TAILS[alternative](noisy, centre, t, slack)
        return out

    def plug_in_tail(self, alternative: Alternative, z: FloatArray) -> FloatArray:
        """Tail at a statistic, at the estimated number of trials."""
        point = np.broadcast_to(z, self.shape).reshape(-1) * self.spread
        rows = np.arange(self.count.size)
        return self.tail(alternative, point, self.trials, rows).reshape(self.shape)

    def largest(
        self, alternative: Alternative, point: FloatArray, rows: Rows | None = None
    ) -> FloatArray:
        """Tail of T at a point of each row, or of some, at its largest, plus the chance to miss."""
        chosen = np.arange(self.count.size) if rows is None else rows
        low, high, missed = (end[chosen] for end in self.confidence_set)
        self.check_work(float(self.work(alternative, is_guaranteed=True)[chosen].sum()))

        def tail(trials: FloatArray, places: Rows) -> FloatArray:
            return self.tail(alternative, point, trials, chosen[places])

        return np.minimum(largest_over_integers(tail, low, high) + missed, 1.0)

    def laws_of(self, row: int) -> tuple[NoiseLaw, NoiseLaw]:
        """Noise of ``count``, and the noise that only ``nobs`` has."""
        return _per_row(self.noise)(row), _per_row(self.nobs_noise)(row)

    def work(self, alternative: Alternative, is_guaranteed: bool) -> FloatArray:
        """About how much work the tail of each row is: at its largest, or at one number only."""
        low, high, _ = self.confidence_set
        if not is_guaranteed:
            low = high = self.trials
        radius = binom_radius(np.rint(high * self.value), high, LOG_NEGLIGIBLE)
        sides = 1 + (alternative == "two-sided")
        terms = sides * evaluated(low, high) * np.minimum(2.0 * radius, high + 1.0)
        for noise, _, rows in self.groups:
            terms[rows] *= work_at_a_point(noise)
        return np.asarray(terms)

    def check_work(self, work: float) -> None:
        """Refuse to go through more than can be gone through."""
        if work > max(MOST_WORK, _WORK_FOR_EACH * self.count.size):
            raise InvalidParameterError(
                "nobs, or the noise, is too large for the exact test, which would take some "
                f"{1e-7 * work:.2g} s: use method='plug-in' or method='asymptotic'"
            )

    @cached_property
    def groups(self) -> list[tuple[NoiseLaw, NoiseLaw, Rows]]:
        """Noise of T and of ``nobs``, with the rows that have them."""
        own_laws, other_laws = (_per_row(law) for law in (self.noise, self.nobs_noise))
        members: dict[tuple[float, NoiseLaw, NoiseLaw], list[int]] = {}
        for row in range(self.count.size):
            own, other = own_laws(row), other_laws(row)
            # without noise in nobs that count has not, T has the same noise whatever the value
            weight = float(self.value[row])
            members.setdefault((weight, own, other), []).append(row)
        found = []
        for (value, own, other), rows in members.items():
            weights = np.array([1.0 - value if self.is_total else 1.0, value])
            total = np.array([1.0 if self.is_total else 0.0, 1.0])
            laws = [own, other]
            found.append((fast_sum(weights, laws), fast_sum(total, laws), np.array(rows)))
        return found


def _joint(x: NoisyValues, y: NoisyValues) -> tuple[NoiseLaw, NoiseLaw, bool]:
    """Return the noise of counts, the noise that only their totals have, and if they are such."""
    size = max(len(x), len(y))
    both = x.beside(y)
    if both.weights is None:
        return x.marginal, y.marginal, False
    rows = [
        np.broadcast_to(np.arange(len(values)), size) + start
        for values, start in ((x, 0), (y, len(x)))
    ]
    own, all_ = (both._rows(positions) for positions in rows)
    counts = both._noise_variance() > 0

    def share(one: Any, other: Any) -> bool:
        return bool((abs(one).multiply(abs(other)).tocsr() @ counts.astype(float)).any())

    if not share(own, all_):
        return x.marginal, y.marginal, False
    from scipy import sparse

    signs, at = np.repeat([1.0, -1.0], size), np.concatenate(rows[::-1])
    place = np.tile(np.arange(size), 2)

    rest = both.linear(sparse.csr_array((signs, (place, at)), shape=(size, len(both))))
    if share(own, rest._rows(np.arange(size))):
        raise InvalidParameterError(
            "count must be a summand of nobs, or published with noise of its own, got estimates "
            "that share noise in another way: use share_confint or linear_ztest, which know how "
            "they depend"
        )
    return x.marginal, rest.marginal, True


def _further(
    law: NoisyBinomial, centre: FloatArray, t: FloatArray, slack: FloatArray
) -> FloatArray:
    size = np.abs(t)
    both = law.upper(centre + size, slack) + law.lower(centre - size, slack)
    return np.where(size <= slack, 1.0, np.minimum(both, 1.0))


_TAILS: dict[
    Alternative, Callable[[NoisyBinomial, FloatArray, FloatArray, FloatArray], FloatArray]
] = {
    "larger": lambda law, centre, t, slack: law.upper(t + centre, slack),
    "smaller": lambda law, centre, t, slack: law.lower(t + centre, slack),
    "two-sided": _further,
}


def _per_row(law: NoiseLaw) -> Callable[[Any], NoiseLaw]:
    """Return a function that gives the law of each row, or of several."""
    if law.shape == () and not isinstance(law, IndependentNoise):
        return lambda row: law
    return law.take
