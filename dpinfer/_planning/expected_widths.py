"""Widths that depend on what is published: their expectations, or their medians.

Over one published count they are sums over points. Where the noise is whole-numbered the points are
the published counts themselves, or equally spaced ones of them. Otherwise they are sums of a count
X and of a noise e, the noise by the double exponential rule of Takahasi and Mori (1974,
doi:10.2977/prims/1195192451) on the scale of its probabilities. Where the law of T = X + e is
smooth, so are the ends of intervals as functions of T. They are then found at some knots only, and
a cubic spline serves in between.

Over several published numbers they are averages over equally probable draws, the same ones each
time, so that what is planned is comparable: points of the sequence of Sobol' (1967,
doi:10.1016/0041-5553(67)90144-9), which fill the unit cube more evenly than random ones; variables
are made of them by inversion.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, check_array, check_flag, check_option, check_scalar
from dpinfer._planning.engine import (
    LARGEST_SIZE,
    SIZES,
    Columns,
    WidthRow,
    check_law,
    check_plan,
)
from dpinfer._planning.widths import COSTLY_PRECISION, MOST_ERROR, rough_error
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.normal_mean import (
    LARGEST,
    SMALLEST_STD,
    HistogramMode,
    KnownStd,
    UnknownStd,
    checked_method,
    checked_plan,
    scale_bins,
)
from dpinfer.intervals.normal_mean import Plan as Steps
from dpinfer.intervals.proportions import (
    LARGEST_COUNT,
    Method,
    RatesMethod,
    poisson_confint,
    proportion_confint,
)
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.results.intervals import Intervals, Uncertainty

_LOG_NEGLIGIBLE = 25.0
"""Counts less probable than the mode by exp(-25) are left out."""

_LEFT_OUT = 1e-11
"""Probability of the noises that are left out on each side, where they are whole numbers."""

_MOST_POINTS = 1 << 13
"""Number of published counts from which on not all are gone through."""

_IN_A_SPREAD = 2.0
"""Number of counts for each standard deviation of X, where not all are gone through.

For a smooth law equally spaced counts are as good as all: the Fourier transform of a normal law at
2π·2 is 5e-35, and at 2π, for the rule with half as many points, 3e-9.
"""

_FARTHEST = 3.0
"""Where the double exponential rule ends: at a probability of 2e-14."""

_FEWEST_NOISES = 48
_SUMS = 4096
"""Least number of noises on each side of 0, and how many sums of counts and noises to have."""

_NARROW_NOISES = 8
"""Number of noises on each side where they hardly differ, compared with the counts."""

_KNOTS = 129

_LARGE_VARIANCE = 1e5
"""Quantiles of counts with a larger variance are found by a series, off by one count at most."""


Nodes = tuple[FloatArray, FloatArray, FloatArray]
"""Points t, weights w, which add up to 1, so that E g(T) is about Σ w·g(t), and the weights of a
rule with half as many points, by which the error is estimated."""


def expectation(
    law: NoisyCount, spread: float, function: Callable[[FloatArray], FloatArray]
) -> tuple[float, float]:
    """Return E g(T) and its error; ``spread`` is the standard deviation of the count X in T."""
    from scipy.interpolate import CubicSpline

    is_whole = law.noise.is_integer
    points, weights, coarse = (_whole if is_whole else _product)(law, spread)
    is_smooth = _step(spread) > 1.0 and (is_whole or _is_wide(law))
    if not is_smooth or points.size <= 2 * _KNOTS:
        values = function(points)
        found = float(weights @ values)
        return found, abs(found - float(coarse @ values))
    knots = _knots(points, np.sqrt(spread**2 + float(law.noise.variance)), whole=is_whole)
    known = function(knots)
    values = CubicSpline(knots, known)(points)
    rough = CubicSpline(knots[::2], known[::2])(points)
    found = float(weights @ values)
    return found, abs(found - float(coarse @ values)) + abs(found - float(weights @ rough))


def _whole(law: NoisyCount, spread: float) -> Nodes:
    low, high = law._support(_LOG_NEGLIGIBLE)
    reach = float(law.noise.isf(_LEFT_OUT))
    low, high = low - reach, high + reach
    step = max(_step(spread), np.ceil((high - low) / _MOST_POINTS))
    points = np.arange(low, high + step, step)
    if step == 1.0:
        weights = _normalised(-np.diff(law.upper(np.append(points, points[-1] + 1.0))))
        return points, weights, weights
    probability = law.upper(points) - law.upper(points + 1.0)
    return points, _normalised(probability), _normalised(_every_other(probability))


def _product(law: NoisyCount, spread: float) -> Nodes:
    low, high = law._support(_LOG_NEGLIGIBLE)
    step = _step(spread)
    counts = np.arange(low, high + step, step)
    counts = counts[counts <= float(law._last)]
    probability = law._pmf_at(counts)
    # an even number, so that 0 is in both rules
    each = max(_FEWEST_NOISES, 2 * (_SUMS // (4 * counts.size)))
    if step > 1.0 and not _is_wide(law):
        each = _NARROW_NOISES
    x = np.linspace(0.0, _FARTHEST, each + 1)
    # P(e > noise) and its derivative
    tail = 1.0 / (1.0 + np.exp(np.pi * np.sinh(x)))
    density = np.pi * np.cosh(x) * tail * (1.0 - tail)
    noise = np.asarray(law.noise.isf(tail))
    noise, density = np.append(-noise[:0:-1], noise), np.append(density[:0:-1], density)
    fewer = _every_other(probability) if step > 1.0 else probability
    pairs = [(probability, density), (fewer, _every_other(density))]
    fine, coarse = (_normalised(np.multiply.outer(p, w)).ravel() for p, w in pairs)
    return np.add.outer(counts, noise).ravel(), fine, coarse


def _is_wide(law: NoisyCount) -> bool:
    return float(law.noise.variance) >= 1.0


def _knots(points: FloatArray, std: float, *, whole: bool) -> FloatArray:
    """Return an odd number of knots from the first point to the last, dense in the middle."""
    low, high = float(points.min()), float(points.max())
    middle = 0.5 * (low + high)
    ends = np.arcsinh((high - middle) / std)
    knots = middle + std * np.sinh(np.linspace(-ends, ends, _KNOTS))
    knots[0], knots[-1] = low, high
    if whole:
        knots = np.unique(np.rint(knots))
        knots = knots if knots.size % 2 else np.delete(knots, 1)
    return np.asarray(knots)


def _step(spread: float) -> float:
    return max(1.0, float(np.floor(spread / _IN_A_SPREAD)))


def _every_other(weights: FloatArray) -> FloatArray:
    kept = np.zeros(weights.shape)
    kept[::2] = weights[::2]
    return kept


def _normalised(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=8)
def uniforms(number: int, variables: int) -> FloatArray:
    """Return draws of uniform variables, shape (number, variables); the number is a power of 2."""
    from scipy.stats import qmc

    points = qmc.Sobol(variables, scramble=False).random(number)
    # each coordinate takes all multiples of 1/number: their middles are symmetric about 1/2
    centred = np.asarray(points + 0.5 / number)
    centred.setflags(write=False)
    return centred


def noises(law: NoiseLaw, draws: FloatArray) -> FloatArray:
    if law.shape:
        return np.asarray(law.isf(draws))
    values, places = np.unique(draws, return_inverse=True)
    return np.asarray(law.isf(values))[places.reshape(draws.shape)]


def poisson_counts(rate: FloatArray, draws: FloatArray) -> FloatArray:
    from scipy import stats

    few = rate < _LARGE_VARIANCE
    many = _series(rate, np.sqrt(rate), np.ones(rate.shape), draws)
    return np.asarray(np.where(few, stats.poisson.ppf(draws, np.where(few, rate, 0.0)), many))


def binomial_counts(nobs: FloatArray, value: FloatArray, draws: FloatArray) -> FloatArray:
    from scipy import stats

    variance = nobs * value * (1.0 - value)
    few = variance < _LARGE_VARIANCE
    many = _series(nobs * value, np.sqrt(variance), 1.0 - 2.0 * value, draws)
    return np.asarray(np.where(few, stats.binom.ppf(draws, np.where(few, nobs, 0.0), value), many))


def _series(mean: FloatArray, std: FloatArray, asymmetry: FloatArray, q: FloatArray) -> FloatArray:
    """Quantiles of whole numbers by Cornish and Fisher (1938, doi:10.2307/1400905).

    ``asymmetry`` is the skewness times ``std``.
    """
    z = special.ndtri(q)
    return np.asarray(np.ceil(mean + z * std + asymmetry * (np.square(z) - 1.0) / 6.0 - 0.5))


def mean(values: FloatArray, used: NDArray[np.bool_] | None = None) -> tuple[float, float]:
    weight = np.ones(values.shape) if used is None else used.astype(np.float64)
    first, second = np.sum((weight * values).reshape(2, -1), axis=1)
    number, more = np.maximum(np.sum(weight.reshape(2, -1), axis=1), 1.0)
    found = (first + second) / (number + more)
    return float(found), float(abs(found - first / number))


def median(values: FloatArray) -> tuple[float, float]:
    """Return the least number that half of the values do not exceed, and about its error.

    The error is infinite where one half of the draws has an infinite median, and the other has not.
    """
    found = np.quantile(values, 0.5, method="inverted_cdf")
    first, second = np.quantile(values.reshape(2, -1), 0.5, axis=1, method="inverted_cdf")
    return float(found), 0.0 if first == second else float(0.5 * abs(first - second))


_LARGE_BUDGET = 100.0
"""Where a budget is looked for at first, if a rough answer does not tell."""

_SMALLEST = 1e-300
"""Smallest proportion and expected count that are planned for."""

_RATE = {"gt": 0.0, "le": LARGEST_COUNT}
_RISK = {"ge": 1e-9, "lt": 1.0}
_LEAST_COUNT, _LEAST_EXPOSURE = 1e-200, 1e-100
"""Smallest expected count and exposure where an exposure is looked for."""

_PAIRS, _EXACT_PAIRS = 1 << 13, 1 << 3
"""Published counts and numbers of trials of which normal intervals are made, and exact ones."""

_TABLES = {"exact": 1 << 11, "asymptotic": 1 << 13}
"""Number of published tables that are tried."""

_CELLS = 4

_RELEASES = 1 << 12
"""Number of releases of a normal mean that are simulated, if the standard deviation is unknown."""

_LOWEST, _HIGHEST = 64, 5
"""How far from that of the standard deviation bins of differences have a probability at all."""


class RoughWidth(WidthRow):
    """Width whose arguments are looked for near those of a rough normal interval.

    It has (target/2z)² = a/n + b·v/n², with v the variance of the noise, on the average over cells.
    Far from it, where the noise is very wide, exact intervals may be out of reach.
    """

    @abstractmethod
    def rough(self, known: Columns) -> tuple[float, float, float]:
        """Return a and b, and the width for a rough one of 1."""

    def noise_variance(self, law: NoiseLaw, known: Columns) -> float:
        return float(np.mean(law.variance))

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        if name == "alpha":
            return None
        sampling, noise, unit = self.rough(known)
        error = rough_error(known, target, unit)
        if name == self.size:
            variance = noise * self.noise_variance(self.law_at(known), known)
            linear = 0.5 * sampling / error**2
            std = min(float(np.sqrt(variance)), MOST_ERROR)
            return min(float(linear + np.hypot(linear, std / error)), LARGEST_SIZE)
        size = float(known[str(self.size)])
        variance = size * (size * error**2 - sampling) / noise
        return self.budget_of(lambda law: self.noise_variance(law, known), variance, _LARGE_BUDGET)


class ExpectedWidth(RoughWidth):
    """Expected width over the law of a noisy count at the truth."""

    @abstractmethod
    def truth(self, law: NoiseLaw, *own: float) -> tuple[NoisyCount, float]:
        """Return the law of the published count, and the variance of the count in it."""

    @abstractmethod
    def widths(self, count: FloatArray, law: NoiseLaw, alpha: float, size: float) -> FloatArray:
        """Return the widths of the intervals for published counts."""

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        truth, variance = self.truth(law, *own)
        spread = float(np.sqrt(variance))
        return expectation(truth, spread, lambda count: self.widths(count, law, alpha, own[0]))


@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionWidth(ExpectedWidth):
    """Expected width of the interval for a proportion.

    The width depends on the published count T = X + e. What is planned is its expectation at a true
    ``proportion`` p, where X ~ Binomial(n, p) and e is the noise. Under whole-numbered noise it is
    the sum over the values of T, of which some 1e-11 in probability are left out, or over equally
    spaced ones of them where they are many. Under other noise it is a sum over equally spaced
    values of X and a double exponential rule for e. The ``error`` of a curve is the difference from
    the rule with half as many points.

    Where the number of trials will be published with noise, ``nobs`` is the true one, and
    ``nobs_mechanism`` the law of the noise in it, or a function of the same ``budget``. With
    ``nobs_is_total`` the count is a summand of the number of trials, its noise included, and
    ``nobs_mechanism`` the noise of the other summands. The expectation is then over both published
    numbers, made from 8192 points of a Sobol sequence. Exact intervals, which may take a second
    each, are made of 8 such points only: what is averaged over them is by how much the exact
    interval is wider than the normal one, which hardly varies. The width is then a saw-tooth in n,
    by rounding: the number of trials that is solved for reaches the width, and the one that is
    smaller by one does not. The level of an exact interval is solved for above
    2·``nuisance_alpha`` only, below which there is none. To solve for an argument of exact
    intervals takes the time of some 60 of them or more: seconds for narrow Gaussian noise, a minute
    or more for other noise.
    """

    method: Any = "exact"
    nobs_mechanism: Any = None
    nobs_is_total: bool = False
    nuisance_alpha: float = 1e-4

    own = {"nobs": SIZES, "proportion": {"ge": _SMALLEST, "lt": 1.0}}  # noqa: RUF012
    given = ("proportion",)
    size = "nobs"

    def prepare(self) -> None:
        check_option(self.method, "method", get_args(Method))
        if self.nobs_mechanism is not None:
            check_plan(self.nobs_mechanism, name="nobs_mechanism")
        # the interval checks what the plan has in common with it
        proportion_confint(
            1.0,
            2,
            mechanism=Exact(),
            method=self.method,
            nobs_mechanism=None if self.nobs_mechanism is None else Exact(),
            nobs_is_total=self.nobs_is_total,
            nuisance_alpha=self.nuisance_alpha,
        )

    @property
    def has_budget(self) -> bool:
        made = self.nobs_mechanism
        return super().has_budget or not (made is None or isinstance(made, NoiseLaw))

    def law(self, budget: float) -> NoiseLaw:
        law, other = super().law(budget), self.nobs_mechanism
        if other is None:
            return law
        if not isinstance(other, NoiseLaw):
            other = check_law(other(budget), (), budget, name="nobs_mechanism")
        return IndependentNoise([law, other])

    @property
    def _is_costly(self) -> bool:
        return self.nobs_mechanism is not None and self.method == "exact"

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        low, high = super().range(name, known)
        if name == "alpha" and self._is_costly:
            # an end has to have more than the number of trials takes
            low = 2.0 * self.nuisance_alpha * (1.0 + 1e-9)
        return low, high

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        if self.nobs_mechanism is None:
            return super().one(law, alpha, *own)
        found, error = mean(self._pairs(_PAIRS, law, alpha, "asymptotic", *own))
        if self.method == "asymptotic":
            return found, error
        # normal intervals are a control variate: both differ by nearly the same for all pairs
        exact = self._pairs(_EXACT_PAIRS, law, alpha, "exact", *own)
        normal = self._pairs(_EXACT_PAIRS, law, alpha, "asymptotic", *own)
        more, more_error = mean(exact - normal)
        return max(found + more, 0.0), error + more_error

    def _pairs(
        self, number: int, law: NoiseLaw, alpha: float, method: Any, nobs: float, value: float
    ) -> FloatArray:
        draws, laws = uniforms(number, 3), (law.take(0), law.take(1))
        noise, nobs_noise = (noises(each, draws[:, i + 1]) for i, each in enumerate(laws))
        count = binomial_counts(np.asarray(nobs), np.asarray(value), draws[:, 0]) + noise
        intervals = proportion_confint(
            count,
            nobs + nobs_noise + (noise if self.nobs_is_total else 0.0),
            mechanism=laws[0],
            nobs_mechanism=laws[1],
            nobs_is_total=self.nobs_is_total,
            alpha=alpha,
            method=method,
            nuisance_alpha=self.nuisance_alpha,
        )
        return np.asarray(intervals.width)

    def truth(self, law: NoiseLaw, *own: float) -> tuple[NoisyCount, float]:
        nobs, value = own
        truth = NoisyBinomial(nobs=np.asarray(nobs), value=np.asarray(value), noise=law)
        return truth, nobs * value * (1.0 - value)

    def widths(self, count: FloatArray, law: NoiseLaw, alpha: float, size: float) -> FloatArray:
        interval = proportion_confint(count, size, mechanism=law, alpha=alpha, method=self.method)
        return np.asarray(interval.width)

    def rough(self, known: Columns) -> tuple[float, float, float]:
        value = float(known["proportion"])
        return value * (1.0 - value), 1.0, 1.0

    def noise_variance(self, law: NoiseLaw, known: Columns) -> float:
        """Variance of the noise of count - p·nobs."""
        if self.nobs_mechanism is None:
            return super().noise_variance(law, known)
        value = float(known["proportion"])
        weights = np.array([1.0 - value if self.nobs_is_total else 1.0, value])
        return float(np.square(weights) @ law.variance)

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        found = None
        if self._is_costly:
            found = self.found_by(name, known, target, method="asymptotic")
        return super().guess(name, known, target) if found is None else found

    def precision(self, name: str) -> float:
        return COSTLY_PRECISION if self._is_costly else super().precision(name)


@dataclass(frozen=True, eq=False, kw_only=True)
class PoissonWidth(ExpectedWidth):
    """Expected width of the interval for a rate of events.

    The published count is T = X + e with X ~ Poisson(``exposure`` · ``rate``); the expectation is
    found as that for a proportion is, by sums over the values of T, or over those of X and a double
    exponential rule for e. The ``error`` of a curve is the difference from half as many points.
    """

    method: Any = "exact"

    own = {"exposure": _RATE, "rate": _RATE}  # noqa: RUF012
    given = ("rate",)
    size = "exposure"
    whole = False

    def prepare(self) -> None:
        check_option(self.method, "method", get_args(RatesMethod))

    def ends(self, name: str, known: Columns) -> tuple[float, float]:
        if name != self.size:
            return super().ends(name, known)
        least = max(_LEAST_COUNT / float(known["rate"]), _LEAST_EXPOSURE)
        return min(least, LARGEST_SIZE), LARGEST_SIZE

    def truth(self, law: NoiseLaw, *own: float) -> tuple[NoisyCount, float]:
        count = np.asarray(own[0] * own[1])
        check_array(count, "exposure * rate", ge=_SMALLEST, le=LARGEST_COUNT)
        return NoisyPoisson(rate=count, noise=law), float(count)

    def widths(self, count: FloatArray, law: NoiseLaw, alpha: float, size: float) -> FloatArray:
        interval = poisson_confint(count, size, mechanism=law, alpha=alpha, method=self.method)
        return np.asarray(interval.width)

    def rough(self, known: Columns) -> tuple[float, float, float]:
        return float(known["rate"]), 1.0, 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoByTwoWidth(RoughWidth):
    """Width of the interval for a risk ratio, an odds ratio or a risk difference.

    The width depends on the published table. For the risk difference what is planned is its
    expectation. For ratios there is none: with some probability, however small, the interval has
    the end 0 or inf. What is planned for them is the *median* of the width: half of the releases
    have an interval that is not wider. It is infinite where half of them have one without a bound.
    ``scale="log"``, the default for ratios, has log(upper/lower) for the width, ``"plain"`` upper -
    lower. A ratio is known to a factor f either way where the width is 2·log(f).

    The first group has ``nobs1`` members and the risk ``prop1``, the second ``ratio * nobs1``
    members, rounded, but 1 at least; with ``row_totals=True`` their sizes are public.
    ``mechanism`` may be a list of four laws, one for each cell, row by row. The confidential table
    has nobs1·prop1 events in the first row, rounded, and likewise in the second, for the
    uncertainty ``"noise"``; for ``"noise+sampling"``, by ``"asymptotic"`` only, as exact intervals
    of so many tables would take minutes, they are binomial. Published tables are made from 8192
    points (2048 for the exact method) of a Sobol sequence in place of random numbers; the ``error``
    of a curve is the difference from the rule with half as many points.

    Rounding makes the width a saw-tooth in the size of the groups. The size that is solved for
    reaches the width, and the size that is smaller by one does not.
    """

    scale: Literal["log", "plain"] | None = None
    ratio: float = 1.0
    row_totals: bool = False
    method: Any = "exact"
    uncertainty: Uncertainty = "noise"

    own = {"nobs1": SIZES, "prop1": _RISK, "prop2": _RISK}  # noqa: RUF012
    given = ("prop1", "prop2")
    size = "nobs1"

    def prepare(self) -> None:
        scale = "plain" if self._is_difference else "log"
        if self.scale is not None:
            scale = check_option(self.scale, "scale", ("log", "plain"))
            if scale == "log" and self._is_difference:
                raise InvalidParameterError(
                    "scale must be 'plain' for the risk difference, which may be below 0, got 'log'"
                )
        ratio = check_scalar(self.ratio, "ratio", ge=1e-6, le=1e6)
        largest = float(np.floor(LARGEST_SIZE / max(ratio, 1.0)))
        self.set(
            own={**self.own, "nobs1": {"ge": 1.0, "le": largest}},
            scale=scale,
            ratio=ratio,
            row_totals=check_flag(self.row_totals, "row_totals"),
            method=check_option(self.method, "method", _TABLES),
            uncertainty=check_option(self.uncertainty, "uncertainty", get_args(Uncertainty)),
        )
        if (self.method, self.uncertainty) == ("exact", "noise+sampling"):
            raise InvalidParameterError(
                "method must be 'asymptotic' to plan for uncertainty 'noise+sampling', got "
                f"'exact': {_TABLES['exact']} such intervals would take minutes"
            )
        # the interval checks what the plan has in common with it
        self._intervals(np.ones((1, 2, 2)), np.full(2, 2.0), Exact(), 0.05)

    @property
    def _is_difference(self) -> bool:
        return bool(self.procedure.__name__ == "risk_difference_confint")

    @property
    def shape(self) -> tuple[int, ...]:
        return (_CELLS,)

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        sizes = np.array([own[0], max(np.rint(self.ratio * own[0]), 1.0)])
        tables = self._published(law, sizes, np.array(own[1:]))
        intervals = self._intervals(tables, sizes, law, alpha)
        if self.scale == "plain":
            widths = np.asarray(intervals.width)
        else:
            # 0 where an interval is empty
            some = ~np.asarray(intervals.empty) & (intervals.lower < intervals.upper)
            lower, upper = (np.where(some, end, 1.0) for end in intervals)
            with np.errstate(divide="ignore"):
                widths = np.asarray(np.log(upper) - np.log(lower))
        return mean(widths) if self._is_difference else median(widths)

    def _published(self, law: NoiseLaw, sizes: FloatArray, risks: FloatArray) -> FloatArray:
        number = _TABLES[self.method]
        if self.uncertainty == "noise":
            events = np.broadcast_to(np.rint(sizes * risks), (number, 2))
        else:
            events = _binomial_events(number, tuple(sizes.tolist()), tuple(risks.tolist()))
        tables = np.stack([events, sizes - events], axis=2)
        draws = uniforms(number, _CELLS + 2)[:, 2:]
        return np.asarray(tables + noises(law, draws).reshape(tables.shape))

    def _intervals(
        self, tables: FloatArray, sizes: FloatArray, law: NoiseLaw, alpha: float
    ) -> Intervals:
        intervals: Intervals = self.procedure(
            tables,
            mechanism=law,
            row_totals=sizes if self.row_totals else None,
            alpha=alpha,
            method=self.method,
            uncertainty=self.uncertainty,
        )
        return intervals

    def rough(self, known: Columns) -> tuple[float, float, float]:
        p = np.array([float(known["prop1"]), float(known["prop2"])])
        odds = p / (1.0 - p)
        slope, value = {
            "risk_ratio_confint": (1.0 / p, p[0] / p[1]),
            "odds_ratio_confint": (1.0 / (p * (1.0 - p)), odds[0] / odds[1]),
        }.get(self.procedure.__name__, (np.ones(2), 1.0))
        shares = np.array([1.0, self.ratio])
        noise = np.square(slope) * (np.square(1.0 - p) + np.square(p)) / shares**2
        sampling = np.square(slope) * p * (1.0 - p) / shares
        covered = float(sampling.sum()) if self.uncertainty == "noise+sampling" else 0.0
        unit = value if self.scale == "plain" else 1.0
        return covered, float(noise.sum()), float(unit)


@lru_cache(maxsize=8)
def _binomial_events(number: int, sizes: tuple[float, ...], risks: tuple[float, ...]) -> FloatArray:
    draws = uniforms(number, _CELLS + 2)[:, :2]
    events = binomial_counts(np.array(sizes), np.array(risks), draws)
    events.setflags(write=False)
    return events


@dataclass(frozen=True, eq=False, kw_only=True)
class NormalMeanWidth(WidthRow):
    """Expected width of the private interval for a normal mean.

    The mechanism is part of the interval: ``budget`` is its ε. ``std`` is the standard deviation of
    the population, which ``known_std`` says is given to the interval; the other arguments are those
    of the interval.

    Intervals are intersected with ``mean_bounds``. What is planned is the width where the noisy
    mean is in the middle of the bounds, and the widest. It is that of the bounds themselves,
    infinite without bounds, where n is too small for an interval. Releases in which a
    stability-based histogram shows no bin are left out: they have the bounds as interval, and are
    rarer than alpha/4.

    With a known standard deviation the width is then the same for all samples. Otherwise it depends
    on the bound on the standard deviation that the first histogram finds, and on the noisy
    variance. What is planned is the average over 4096 simulated releases, always from the same
    draws, and the ``error`` of a curve its standard error. The histogram and the sample variance
    are drawn independently of each other, and the sample variance as that of the unclipped sample.
    The size that is solved for reaches the width, and the size that is smaller by one does not.
    """

    known_std: bool = True
    mean_bounds: tuple[float, float] | None = None
    std_bounds: tuple[float, float] | None = None
    delta: float = 0.0
    method: Literal["exact", "tail-bound"] | None = None
    split: tuple[float, ...] | None = None

    own = {"nobs": SIZES, "std": {}, "budget": {"ge": 1e-10, "le": 1e10}}  # noqa: RUF012
    given = ("std",)
    size = "nobs"
    has_mechanism = False

    def prepare(self) -> None:
        check_flag(self.known_std, "known_std")
        self.set(method=checked_method(self.method, known=self.known_std))
        for name in ("mean_bounds", "std_bounds", "split"):
            if (value := getattr(self, name)) is not None:
                array = check_array(value, name, ndim=1, finite=False)
                self.set(**{name: tuple(array.tolist())})
        # the interval checks what the plan has in common with it
        self._steps(1000, LARGEST, 1.0, 0.05)
        low, high = self.std_bounds or (SMALLEST_STD, LARGEST)
        sizes = {"ge": 2.0 if self.known_std else 4.0, "le": LARGEST_SIZE}
        self.set(own={**self.own, "nobs": sizes, "std": {"ge": low, "le": high}})

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        if name != self.size:
            return None
        z = -float(special.ndtri(0.5 * known["alpha"]))
        root = min(2.0 * z * float(known["std"]) / target, np.sqrt(LARGEST_SIZE))
        return float(root**2)

    def _steps(self, nobs: int, std: float, epsilon: float, alpha: float) -> Steps:
        return checked_plan(
            nobs,
            epsilon,
            self.delta,
            std if self.known_std else None,
            self.mean_bounds,
            self.std_bounds,
            alpha,
            self.split,
        )

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        nobs, std, epsilon = own
        steps = self._steps(int(nobs), std, epsilon, alpha)
        bounds = steps.mean_bounds[1] - steps.mean_bounds[0]
        if steps.failure > steps.affordable(alpha):
            return bounds, 0.0
        if isinstance(steps, KnownStd):
            assert self.method is not None
            _, half = steps.half_widths(alpha, self.method)
            return min(2.0 * half * std, bounds), 0.0
        assert isinstance(steps, UnknownStd)
        # as failures are rare, some releases show a bin
        found, releases = np.unique(_bounds_found(steps, std), return_counts=True)
        each = [mean(np.minimum(_mean_widths(steps, float(b), std, alpha), bounds)) for b in found]
        widths, errors = np.array(each).T
        share = releases / releases.sum()
        expected = share @ widths
        variance = share @ np.square(widths - expected) / releases.sum()
        return float(expected), float(np.sqrt(variance) + share @ errors)


def _mean_widths(steps: UnknownStd, largest: float, std: float, alpha: float) -> FloatArray:
    variance = std**2 * _relative_variances(steps.nobs)
    _, noise = steps.noises(largest, alpha)
    noisy = variance + np.asarray(noise.isf(uniforms(_RELEASES, 2)[:, 1]))
    sampling, rest = steps.half_widths(largest, noisy, alpha)
    return 2.0 * (sampling + rest)


@lru_cache(maxsize=8)
def _relative_variances(nobs: int) -> FloatArray:
    from scipy import stats

    drawn = np.asarray(stats.chi2.ppf(uniforms(_RELEASES, 2)[:, 0], nobs - 1)) / (nobs - 1.0)
    drawn.setflags(write=False)
    return drawn


def _bounds_found(steps: UnknownStd, std: float) -> FloatArray:
    """Return the bounds on the standard deviation that releases find, without those of no bin."""
    centre = np.floor(np.log2(std))
    first, last = centre - _LOWEST, centre + _HIGHEST
    if steps.scale.delta == 0:
        first, last = scale_bins(steps.std_bounds)
    bins = np.arange(first, last + 1.0)
    found = _modes(steps.scale, steps.nobs // 2, std, float(first), float(last))
    return steps.largest_stds(bins[found])


@lru_cache(maxsize=8)
def _modes(
    histogram: HistogramMode, pairs: int, std: float, first: float, last: float
) -> NDArray[np.intp]:
    """Draw which of the bins (2^j, 2^(j+1)] of differences are shown with the largest count."""
    rng = np.random.default_rng(0)
    # the difference of a pair has the standard deviation √2·std
    below = special.erf(2.0 ** np.arange(first, last + 2.0) / (2.0 * std))
    probability = np.append(np.diff(below), 0.0)
    probability[-1] = max(1.0 - probability.sum(), 0.0)
    counts = rng.multinomial(pairs, probability, size=_RELEASES)[:, :-1]
    noisy = counts + histogram.noise.rvs(counts.shape, rng=rng)
    if histogram.delta > 0:
        noisy = np.where((counts > 0) & (noisy >= histogram.threshold), noisy, -np.inf)
    best = noisy.argmax(axis=1)
    return np.asarray(best[np.isfinite(noisy.max(axis=1))])
