"""Null distributions of the z statistic of one noisy count: exact, simulated, normal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray, check_array, check_integer_array
from dpinfer.estimation.published import (
    LARGEST_NOBS,
    SMALLEST_VALUE,
    check_published,
    checked_proportion,
    common_shape,
    unlabelled,
)
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import split_labels
from dpinfer.results.null import AsymptoticNull, ExactNull, NullDistribution, _KnownTails, around
from dpinfer.results.simulation import BLOCK, Simulation, simulate_null

if TYPE_CHECKING:
    import pandas as pd


Method = Literal["exact", "monte-carlo", "normal"]

_BLOCK = 4 * BLOCK
"""Replicates in a block: they are cheap, as the counts are drawn all at once."""

LARGEST_RATE = 1e15
"""Beyond it, neighbouring whole numbers run together in sums."""

_SEARCH = 120
"""Most steps of a search by thirds or halves."""

_ROUNDING = 1e-14
"""Relative error of a count that was computed from nobs·value."""


@dataclass(frozen=True, kw_only=True)
class OneCount:
    """Noisy counts, shape () or (m,), and their law under the null hypothesis.

    Parameters
    ----------
    count : array of float
        The published counts.
    law : NoisyCount
        Their law.
    centre, spread : array of float
        Mean and standard deviation of the counts before noise was added.
    labels : pandas.Index or None
        One label for each count.
    """

    count: FloatArray
    law: NoisyCount
    centre: FloatArray
    spread: FloatArray
    labels: pd.Index | None

    @classmethod
    def of_trials(cls, count: Any, nobs: Any, value: Any, mechanism: Mechanism) -> OneCount:
        """Check the arguments of the test of a proportion."""
        counts, labels = split_labels(count, "count")
        trials = check_integer_array(unlabelled(nobs, "nobs", labels, "count"), "nobs", ge=1)
        check_array(trials, "nobs", le=LARGEST_NOBS)
        proportion = checked_proportion(value, labels)
        counts, noise = with_noise(counts, mechanism, nobs=trials, value=proportion)
        n, p = collapse(trials), collapse(proportion)
        return cls(
            count=counts,
            law=NoisyBinomial(nobs=n, value=p, noise=noise),
            centre=np.asarray(n * p),
            spread=np.asarray(np.sqrt(n * p * (1.0 - p))),
            labels=labels,
        )

    @classmethod
    def of_events(cls, count: Any, exposure: Any, value: Any, mechanism: Mechanism) -> OneCount:
        """Check the arguments of the test of a rate."""
        counts, labels = split_labels(count, "count")
        time = check_array(unlabelled(exposure, "exposure", labels, "count"), "exposure", gt=0)
        rate = check_array(unlabelled(value, "value", labels, "count"), "value", gt=0)
        shape = common_shape(exposure=time, value=rate)
        with np.errstate(over="ignore", under="ignore"):
            expected = np.broadcast_to(time * rate, shape)
        check_array(expected, "exposure * value", ge=SMALLEST_VALUE, le=LARGEST_RATE, finite=False)
        counts, noise = with_noise(counts, mechanism, exposure=time, value=rate)
        centre = collapse(expected)
        law = NoisyPoisson(rate=centre, noise=noise)
        return cls(count=counts, law=law, centre=centre, spread=np.sqrt(centre), labels=labels)

    @cached_property
    def statistic(self) -> FloatArray:
        """Distance from the expected count, in standard deviations before noise was added."""
        return np.asarray((self.count - self.centre) / self.spread)

    def larger(self, count: FloatArray) -> FloatArray:
        """P(T >= count); the rounding of a computed count loses no atom."""
        return self.law.upper(count, self.slack(count))

    def smaller(self, count: FloatArray) -> FloatArray:
        """P(T <= count); the rounding of a computed count loses no atom."""
        return self.law.lower(count, self.slack(count))

    def further(self, count: FloatArray) -> FloatArray:
        """P(abs(T - E[T]) >= abs(count - E[T]))."""
        mirrored = (self.centre - count) + self.centre
        low, high = np.minimum(count, mirrored), np.maximum(count, mirrored)
        both = np.minimum(self.larger(high) + self.smaller(low), 1.0)
        return np.where(high - low <= 2.0 * self.slack(count), 1.0, both)

    def null(self, method: Literal["exact", "normal"]) -> NullDistribution:
        """Law of the z statistic, exact or in the limit of many counts."""
        if method == "normal":
            return AsymptoticNull.normal(
                np.sqrt(1.0 + self.law.noise.variance / np.square(self.spread))
            )
        return ExactNull(
            partial(_beyond, self.larger, self.centre, self.spread),
            partial(_beyond, self.smaller, self.centre, self.spread),
            error=self.law.noise._floor,
            atoms=counts_around(self.law, self.centre, self.spread),
        )

    def slack(self, count: FloatArray) -> FloatArray:
        """Error of a computed count, where whole numbers can still be told apart."""
        return np.minimum(_ROUNDING * (np.abs(count) + 2.0 * self.centre + 1.0), 0.25)


def counts_around(
    law: NoisyCount, centre: FloatArray, spread: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return the function that finds the z statistics of whole counts around given ones."""
    whole, noisy = np.asarray(law._is_integer), np.asarray(law.noise.std) > 0
    return partial(
        around,
        unit=np.where(whole, 1.0, 0.0),
        centre=centre,
        spread=spread,
        least=np.where(noisy, -np.inf, 0.0),
        most=np.where(noisy, np.inf, law._last),
    )


def _beyond(
    tail: Callable[[FloatArray], FloatArray], centre: FloatArray, spread: FloatArray, z: FloatArray
) -> FloatArray:
    """Tail of the count at the z statistic (no closure, so that results can be pickled)."""
    return tail(centre + z * spread)


def exact(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the counts themselves, which going through z would round."""
    tails: dict[Alternative, Callable[[FloatArray], FloatArray]] = {
        "two-sided": test.further,
        "larger": test.larger,
        "smaller": test.smaller,
    }
    return tails[alternative](test.count), test.null("exact")


@final
@dataclass(frozen=True, eq=False)
class UnbiasedNull(_KnownTails):
    """Law of the z statistic, whose two sides are weighed against each other.

    Parameters
    ----------
    larger, smaller : callable
        P(Z >= z) and P(Z <= z).
    both : callable
        The two-sided p-value at z, of either sign.
    """

    both: Callable[[FloatArray], FloatArray]

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        if alternative == "two-sided":
            return np.asarray(self.both(statistic))
        return super()._extreme(statistic, alternative)

    def _facts(self) -> list[tuple[str, object]]:
        return [("Kind", "exact, two-sided p-values unbiased")]


def unbiased(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values of the locally unbiased test; one-sided ones are those of the exact test."""
    pvalue, known = exact(test, alternative, simulation)
    assert isinstance(known, ExactNull)
    both = partial(_beyond, partial(_unbiased, test), test.centre, test.spread)
    null = UnbiasedNull(known.larger, known.smaller, both)
    return (_unbiased(test, test.count) if alternative == "two-sided" else pvalue), null


def _unbiased(test: OneCount, count: FloatArray) -> FloatArray:
    """P(g(T) <= g(count)), g(t) = E[(X - μ); T >= t] above its maximum, E[(μ - X); T <= t] below.

    E[X; T >= t] = μ·P(T' >= t - 1) with one trial less in T'.
    """
    law, mu = test.law, test.centre
    assert isinstance(law, NoisyBinomial)
    less = replace(law, nobs=law.nobs - 1.0)
    is_whole = bool(np.all(law.noise.is_integer))
    shape = np.broadcast_shapes(count.shape, np.shape(mu), law.noise.shape)
    t, centre = (np.broadcast_to(x, shape).astype(np.float64) for x in (count, mu))
    t = np.where(np.abs(t - np.rint(t)) <= test.slack(t), np.rint(t), t) if is_whole else t
    step = 1.0 if is_whole else 0.0

    def above(x: FloatArray) -> FloatArray:
        return np.asarray(less.upper(x - 1.0) - law.upper(x))

    def below(x: FloatArray) -> FloatArray:
        return np.asarray(law.lower(x) - less.lower(x - 1.0))

    def at(share: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        x = low + share * (high - low)
        return np.floor(x) if is_whole else x

    # the largest value of g, by shrinking an interval to its better two thirds
    reach = 4.0 * (np.sqrt(np.square(test.spread) + law.noise.variance) + 2.0)
    low, high = np.floor(centre - reach), np.ceil(centre + reach)
    for _ in range(_SEARCH):
        first = at(np.asarray(1.0 / 3.0), low, high)
        second = at(np.asarray(2.0 / 3.0), low, high)
        rises = above(first + step) < above(second + step)
        moves = high - low > 2.0 * step
        low, high = np.where(moves & rises, first, low), np.where(moves & ~rises, second, high)
    middle = np.where(is_whole & (above(low + 1.0) < above(high + 1.0)), high, low)
    # T = middle + 1 and more above, T = middle and less below, where T is whole
    is_above = t > middle
    own = np.where(is_above, above(t), below(t)) * (1.0 + _ROUNDING * 1e4)
    near = np.where(is_above, middle, middle + step)
    far = np.where(is_above, middle - reach, middle + reach)
    for _ in range(_SEARCH):
        short = np.where(is_above, below(far), above(far)) > own
        if not short.any():
            break
        far = np.where(short, middle + 2.0 * (far - middle), far)
    far = np.rint(far) if is_whole else far
    for _ in range(_SEARCH):
        x = 0.5 * (near + far)
        x = np.where(is_above, np.floor(x), np.ceil(x)) if is_whole else x
        reached = np.where(is_above, below(x), above(x)) <= own
        near, far = np.where(reached, near, x), np.where(reached, x, far)
    reached = np.where(is_above, below(near), above(near)) <= own
    far = np.where(reached, near, far)
    tail = np.where(is_above, law.upper(t) + law.lower(far), law.lower(t) + law.upper(far))
    return np.minimum(tail, 1.0)


def monte_carlo(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation; one simulation where all counts have one law."""
    rows = [test.law] if test.law.is_one_law else test.law.rows(test.count.size)
    statistic, centre, spread = (
        np.broadcast_to(x, test.count.shape) for x in (test.statistic, test.centre, test.spread)
    )
    draws = [DrawZ(law, float(centre.flat[i]), float(spread.flat[i])) for i, law in enumerate(rows)]
    null = simulate_null(
        draws, np.asarray(statistic), simulation, alternative=alternative, block=_BLOCK
    )
    return null.pvalue(test.statistic, alternative), null


def normal(
    test: OneCount, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values in the limit of many trials; the variance of the noise is part of it."""
    null = test.null("normal")
    return null.pvalue(test.statistic, alternative), null


NULLS: dict[
    Method,
    Callable[[OneCount, Alternative, Simulation], tuple[FloatArray, NullDistribution]],
] = {"exact": exact, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""


def run(
    name: str,
    test: OneCount,
    alternative: Alternative,
    method: Method | Literal["unbiased"],
    simulation: Simulation,
    nobs: Any = None,
) -> HypothesisResult:
    """Test and report."""
    pvalue_of = unbiased if method == "unbiased" else NULLS[method]
    pvalue, null = pvalue_of(test, alternative, simulation)
    return HypothesisResult(
        name=name,
        statistic=test.statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=nobs,
        mc_error=null.mc_error(test.statistic, alternative),
        labels=test.labels,
    )


@dataclass(frozen=True, eq=False)
class DrawZ:
    """Draws z statistics of a noisy count; an object, so that other processes can be sent it."""

    law: NoisyCount
    centre: float
    spread: float

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many."""
        z = self.law.draw(size, rng)
        z -= self.centre
        z /= self.spread
        return z


def with_noise(
    counts: FloatArray, mechanism: Mechanism, **others: FloatArray
) -> tuple[FloatArray, NoiseLaw]:
    """Return the counts in the shape of all arguments together, and their noise."""
    shape = common_shape(count=counts, **others)
    noise = as_noise(mechanism, shape[0] if shape else 1)
    counts = np.broadcast_to(counts, np.broadcast_shapes(shape, noise.shape))
    check_published(counts, "count", noise)
    return counts, noise


def collapse(array: FloatArray) -> FloatArray:
    """Return one number where all entries are the same: the rows then share a law."""
    first: NDArray[np.float64] = np.asarray(array.flat[0])
    return first if (array == first).all() else array
