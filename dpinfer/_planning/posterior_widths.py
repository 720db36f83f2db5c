"""Widths of credible intervals under the prior predictive law of the published count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, check_option, check_scalar, show
from dpinfer._planning.engine import Columns, WidthRow
from dpinfer._planning.expected_widths import mean, noises, poisson_counts, uniforms
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals._windows import bound
from dpinfer.intervals.posterior import KINDS, CountPosterior, Kind, count_posterior
from dpinfer.mechanisms import Laplace
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.priors.counts import (
    CountPrior,
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)

_SMALLEST_MEAN, _LARGEST_MEAN = 1e-6, 1e12
"""Range in which an expected count is looked for."""

_SATURATED = 1e3
"""Beyond so many times the variance of the noise, a Poisson prior tells hardly anything."""

_ANY_BUDGET = 1.0

_LEFT_OUT = 1e-12
"""Probability of noises, and of counts under a prior, that are left out on each side."""

_IN_A_UNIT = 32
"""Points for each count, or each standard deviation of the noise if that is less."""

_MOST_POINTS = 1 << 15
"""Number of published counts from which on not all are gone through."""

_MOST_TERMS = 1 << 24
"""Number of published counts times that of the entries of a table up to which all are tried."""

_DRAWS = 1 << 12
"""Number of draws otherwise."""

_IN_A_PERIOD, _FEW, _WIDE = 512, 16, 1e3
"""Points between two whole numbers; few suffice under noise as wide as this."""

_FAR = 2.0**45
"""Ends of the support that are nowhere near."""

_MOST_TABULATED = 1 << 20

_SMALLEST_DISPERSION = 1e-12
"""Below it, a negative binomial law is Poisson."""

_LEAST_SHARE = 1 / 64
"""Least share of the draws that have to be on the support."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PosteriorWidth(WidthRow):
    """Expected width of the credible interval for a count.

    ``prior`` is what is believed of the count, by default flat, or a function that makes it from
    the expected count, such as :class:`PoissonPrior` itself: only then is ``mean`` one of the
    numbers. The largest ``mean`` is solved for; beyond 1000 times the variance of the noise, where
    the width is nearly that of a flat prior, it is not looked for. The width depends on the
    published count. What is planned is its expectation under the prior predictive law: the count is
    drawn from the prior, and noise is added. A flat prior on a support with one end or none is no
    law to draw from; the width is then that far from the end, where it is the same for all counts.
    Near to it intervals are narrower.

    Under whole-numbered noise the expectation is the sum over the published counts, of which some
    1e-12 in probability are left out on each side; under other noise it is that over equally spaced
    values, 32 for each count or more. Where these would be more than 32,768 in all, or the noise is
    bounded, published counts are made from 4096 points of a Sobol sequence. The ``error`` of a
    curve is the difference from the rule with half as many points, 0 for the sum. The width is that
    between the ends: one less than the number of counts in the interval.
    """

    prior: Any = None
    kind: Kind = "hdi"
    lower: float | None = 0.0
    upper: float | None = None
    _support: tuple[float, float] = field(init=False, repr=False)

    own = {"mean": {"ge": 0.0, "le": _LARGEST_MEAN}}  # noqa: RUF012
    logarithmic = WidthRow.logarithmic | {"mean"}

    def prepare(self) -> None:
        check_option(self.kind, "kind", KINDS)
        prior = FlatPrior() if self.prior is None else self.prior
        if isinstance(prior, CountPrior):
            self.set(own={})
            _check_single(prior)
        elif not callable(prior):
            raise InvalidParameterError(
                "prior must be a prior, such as PoissonPrior(5.0), or a function that makes one "
                f"from an expected count, such as PoissonPrior, got {show(prior)}"
            )
        # the posterior checks what the plan has in common with it
        support = count_posterior(
            0.0, mechanism=Laplace(scale=1.0), lower=self.lower, upper=self.upper
        )
        self.set(prior=prior, _support=(support.lower, support.upper))

    def numbers(self, arguments: Any) -> dict[str, Any]:
        if not self.own and arguments.get("mean") is not None:
            raise InvalidParameterError(
                "mean must be left out where prior is not a function of it: to plan for several "
                "expected counts, give a function such as PoissonPrior, got "
                f"{show(arguments['mean'])}"
            )
        left = {name: value for name, value in arguments.items() if self.own or name != "mean"}
        return super().numbers(left)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name != "mean":
            return super().range(name, known)
        # from the widest interval on
        widest = _SATURATED * (1.0 + float(self.law_at(known).variance))
        return min(widest, _LARGEST_MEAN), _SMALLEST_MEAN

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        prior = self._made(*own) if own else self.prior
        return Predictive(prior, law, *self._support).expected_width(alpha, self.kind)

    def _made(self, expected: float) -> CountPrior:
        try:
            prior = self.prior(expected)
        except TypeError as error:
            raise InvalidParameterError(
                "prior must be a function of an expected count, such as PoissonPrior, got "
                f"{show(self.prior)}: {error}"
            ) from error
        if not isinstance(prior, CountPrior):
            raise InvalidParameterError(
                f"prior must return a prior, got {show(prior)} for the mean {expected:g}"
            )
        return _check_single(prior)

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        """Return a budget with as wide a central interval of the noise.

        Far below it, where the noise is wide, posteriors under a flat prior may be out of reach.
        """
        if name != "budget":
            return None
        level = 0.5 * float(known["alpha"])
        return self.budget_of(lambda law: 2.0 * float(law.isf(level)), target, _ANY_BUDGET)


def _check_single(prior: CountPrior) -> CountPrior:
    names = {PoissonPrior: ("rate",), NegativeBinomialPrior: ("mean", "dispersion")}
    for name in names.get(type(prior), ()):
        check_scalar(getattr(prior, name), f"the {name} of prior")
    return prior


@dataclass(frozen=True)
class Predictive:
    """The law of a published count under a prior whose parameters are single numbers."""

    prior: CountPrior
    law: NoiseLaw
    lower: float
    upper: float

    def expected_width(self, alpha: float, kind: Kind) -> tuple[float, float]:
        if float(self.law.variance) == 0.0:
            return 0.0, 0.0
        if isinstance(self.prior, FlatPrior) and np.isinf(self.upper - self.lower):
            far = replace(self, lower=-_FAR, upper=_FAR)
            return far._weighted(self._period, alpha, kind)
        if isinstance(self.prior, FunctionPrior):
            return self._tabulated.expected_width(alpha, kind)
        points = self._grid
        if points is not None:
            return self._weighted(points, alpha, kind)
        count, used = self._drawn
        published = count + noises(self.law, uniforms(_DRAWS, 3)[:, 2])
        return mean(np.asarray(self._posterior(published).interval(alpha, kind).width), used)

    def _posterior(self, count: FloatArray) -> CountPosterior:
        lower, upper = (None if np.isinf(end) else end for end in (self.lower, self.upper))
        return count_posterior(
            count, mechanism=self.law, prior=self.prior, lower=lower, upper=upper
        )

    def _weighted(self, points: FloatArray, alpha: float, kind: Kind) -> tuple[float, float]:
        posterior = self._posterior(points)
        widths = np.asarray(posterior.interval(alpha, kind).width)
        log_weight = np.asarray(posterior.log_marginal)
        weight = np.exp(log_weight - log_weight.max())
        # rounding must not take it beyond the widths
        found = float(np.clip(weight @ widths / weight.sum(), widths.min(), widths.max()))
        if self.law.is_integer:
            return found, 0.0
        coarse = float(weight[::2] @ widths[::2] / weight[::2].sum())
        return found, abs(found - coarse)

    @property
    def _period(self) -> FloatArray:
        """Published values whose intervals have all widths that there are under a flat prior."""
        if self.law.is_integer:
            return np.zeros(1)
        number = _IN_A_PERIOD if float(self.law.std) < _WIDE else _FEW
        return (np.arange(number) + 0.5) / number - 0.5

    @cached_property
    def _drawn(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        return drawn_counts(self.prior, uniforms(_DRAWS, 3)[:, :2], self.lower, self.upper)

    @property
    def _grid(self) -> FloatArray | None:
        """Equally spaced published values, if few enough suffice."""
        if np.isfinite(bound(self.law)):  # noise may not bridge the gaps of a table
            return None
        if self.lower > 0 or np.isfinite(self.upper):
            _ = self._drawn  # refused where hardly any is on the support
        low, high = outermost_counts(self.prior, self.lower, self.upper)
        reach = np.ceil(float(self.law.isf(_LEFT_OUT)))
        step = 1.0 if self.law.is_integer else min(1.0, float(self.law.std)) / _IN_A_UNIT
        first, last = low - reach, high + reach
        most = _MOST_POINTS
        if isinstance(self.prior, TablePrior):
            most = min(most, _MOST_TERMS // np.size(self.prior.pmf))
        if not last - first < step * most:
            return None
        points = np.arange(first, last + step, step)
        return points if self.law.is_integer else points + 0.5 * step

    @property
    def _tabulated(self) -> Predictive:
        assert isinstance(self.prior, FunctionPrior)
        if not self.upper - self.lower < _MOST_TABULATED:
            raise InvalidParameterError(
                "lower and upper must be given for a prior that is a function, and less than "
                f"{_MOST_TABULATED} apart, got {self.lower:g} and {self.upper:g}"
            )
        values = self.prior.values(self.lower + np.arange(self.upper - self.lower + 1.0))
        if not np.isfinite(values).any():
            raise InvalidParameterError("prior must give some count of the support a probability")
        return replace(self, prior=TablePrior(np.exp(values - values.max()), int(self.lower)))


def drawn_counts(
    prior: CountPrior, draws: FloatArray, lower: float, upper: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return counts made from uniform variables, shape (m, 2), and whether each is to be used.

    Those that are not on the support are not; the others have the law on the support.
    """
    if isinstance(prior, FlatPrior):
        counts = lower + np.floor(draws[:, 0] * (upper - lower + 1.0))
        return counts, np.ones(counts.shape, dtype=bool)
    if isinstance(prior, TablePrior):
        possible, pmf = _on_support(prior, lower, upper)
        places = np.searchsorted(np.cumsum(pmf), draws[:, 0] * pmf.sum())
        counts = possible[np.minimum(places, possible.size - 1)]
        return counts, np.ones(counts.shape, dtype=bool)
    mean, dispersion = _moments(prior)
    counts = poisson_counts(_rates(mean, dispersion, draws[:, 0]), draws[:, 1])
    inside = (counts >= lower) & (counts <= upper)
    if inside.mean() < _LEAST_SHARE:
        raise InvalidParameterError(
            f"prior must give lower..upper a probability of at least {_LEAST_SHARE:.1g}, got "
            f"about {inside.mean():.1g} for {lower:g} to {upper:g}"
        )
    return np.where(inside, counts, counts[inside][0]), inside


def outermost_counts(prior: CountPrior, lower: float, upper: float) -> tuple[float, float]:
    if isinstance(prior, FlatPrior):
        return lower, upper
    if isinstance(prior, TablePrior):
        possible, _ = _on_support(prior, lower, upper)
        return float(possible[0]), float(possible[-1])
    mean, dispersion = _moments(prior)
    ends = np.array([_LEFT_OUT, 1.0 - _LEFT_OUT])
    low, high = poisson_counts(_rates(mean, dispersion, ends), ends)
    return max(float(low), lower), min(float(high), upper)


def _on_support(prior: TablePrior, lower: float, upper: float) -> tuple[FloatArray, FloatArray]:
    pmf = np.asarray(prior.pmf)
    counts = prior.first + np.arange(pmf.size, dtype=np.float64)
    kept = (pmf > 0.0) & (counts >= lower) & (counts <= upper)
    if not kept.any():
        raise InvalidParameterError(
            f"prior must give lower..upper a probability, got none for {lower:g} to {upper:g}"
        )
    return counts[kept], pmf[kept]


def _moments(prior: CountPrior) -> tuple[float, float]:
    if isinstance(prior, PoissonPrior):
        return float(prior.rate), 0.0
    assert isinstance(prior, NegativeBinomialPrior)
    return float(prior.mean), float(prior.dispersion)


def _rates(mean: float, dispersion: float, q: FloatArray) -> FloatArray:
    if dispersion < _SMALLEST_DISPERSION:
        return np.full(q.shape, mean)
    return np.asarray(mean * dispersion * special.gammaincinv(1.0 / dispersion, q))
