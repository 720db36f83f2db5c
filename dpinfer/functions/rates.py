"""Age-standardised rates, their ratios, and standardised mortality ratios from noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from dpinfer._check import FloatArray, check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation.fieller import RATIO, as_sets
from dpinfer.estimation.ratio_sets import normal_arcs
from dpinfer.functions._worst import check_level, noise_within, weights_within, worst_quantiles
from dpinfer.functions.segregation import PROVED, IndexIntervals
from dpinfer.functions.unbiased import area_table, refuse_shared
from dpinfer.intervals.counts import linear_confint
from dpinfer.intervals.proportions import poisson_confint
from dpinfer.intervals.ratios import ratio_confint
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import noisy_pair
from dpinfer.releases.values import NoisyValues, same_labels
from dpinfer.results.intervals import UNCERTAINTIES, ConfidenceSets, Uncertainty
from dpinfer.results.labels import split_labels

if TYPE_CHECKING:
    import pandas as pd

Laws = Mechanism | tuple[Mechanism | None, Mechanism | None] | None
Method = Literal["bound", "asymptotic"]

METHODS: tuple[Method, ...] = ("bound", "asymptotic")
ASYMPTOTIC = "asymptotic"

_FEWEST_STD = 5.0
"""Standard deviations of the noise that a denominator is away from 0 at least, to be linearised."""

_OF_BOX = 0.1
"""Part of alpha that is spent on where denominators and errors are."""

_MOST_BOXED = 2
"""Ages of which the range over all rates, with sampling, is narrower than Chernoff's bound."""

_MOST_SETS = 30
"""Weighted sums, and ratios of two, whose own laws are found."""


def standardized_rate_confint(
    events: Any,
    population: Any,
    weights: Any,
    *,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
    method: Method = "bound",
    per: float = 1.0,
    alpha: float = 0.05,
) -> IndexIntervals:
    """Confidence intervals for directly standardised rates Σ wₖ dₖ/nₖ of areas.

    Parameters
    ----------
    events, population : array, Series, DataFrame, Release or estimate
        The published counts of events d and of persons n by age group, or other strata. Each row
        of two-dimensional arrays is an area of its own. A population known exactly has the
        law ``Exact()``.
    weights : array or Series
        The standard population, >= 0 and on any scale: one number for each age group, or for each
        count; weights of an area are divided by their sum. A Series may be by a level of the
        labels of the counts, as age is.
    by : list, mapping, Series or str, optional
        Which counts are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw or pair
        The law of the noise of both, or that of the events and that of the population; left out
        where they carry their own.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the rate of the confidential counts. ``"noise+sampling"``: the rate Σ wₖ λₖ
        behind them, of which dₖ is Poisson with mean λₖnₖ.
    method : {"bound", "asymptotic"}
        ``"bound"`` is proved. ``"asymptotic"`` takes the error of the estimate for normal, and
        refuses denominators below five standard deviations of their noise.
    per : float, default 1
        The unit of rates: 100_000 for rates per 100,000.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1), and at least 1e-50.

    Returns
    -------
    IndexIntervals
        One interval an area. Where a denominator may be 0, as far as its noise says, there
        is no upper end; where one is published as 0 or less, the estimate is infinite.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    NotEstimableError
        If no area has an interval.

    See Also
    --------
    dpinfer.poisson_confint : the rate of one count.
    smr_confint : indirect standardisation.

    Notes
    -----
    With published y = d + e and z = n + u, and cₖ = wₖ/nₖ, it holds without any approximation that

        Σ wₖyₖ/zₖ - Σ wₖdₖ/nₖ = Σ cₖ(eₖ - rₖuₖ) + Σ cₖ(rₖuₖ² - eₖuₖ)/zₖ,   rₖ = dₖ/nₖ.

    ``"bound"`` spends α/10 on bounds of all errors, which say where nₖ and rₖ are. The first sum is
    one of noises with weights within these bounds, whose quantile is bounded by its value at the
    largest; the second, which is smaller the larger denominators are next to their noise, is
    bounded term by term. Confidential counts are taken to be >= 0. Whole-numbered noise makes the
    bound wider, by at most half a count for each, or the factor 1.4 of Chernoff's bound, by which
    it is with more than 400 areas and noise that is not Gaussian. With an exact population and up
    to 30 areas the quantile is that of the sum itself, and the interval exact. With sampling the
    same holds with yₖ - λₖnₖ in the place of eₖ: exact intervals of all means λₖnₖ together are the
    bounds, and the largest of these means enter Chernoff's bound for Poisson events and noise.
    It is 1.5 to 2.5 times as wide as the asymptotic one: no sum of Poisson counts with unequal
    weights has an exact interval, and that of Fay and Feuer is not proved to hold its level.

    ``"asymptotic"`` has the variance Σ (wₖ/zₖ)²v(yₖ) + (wₖyₖ/zₖ²)²v(zₖ), and with sampling
    Σ (wₖ/zₖ)²yₖ more. The estimate is Σ wₖ(yₖ/zₖ)(1 - v(zₖ)/zₖ²): plugging in is too large.

    References
    ----------
    Fay, M. P. and Feuer, E. J. (1997). Confidence intervals for directly standardized rates: a
    method based on the gamma distribution. Statistics in Medicine 16(7), 791-801.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> deaths, persons = [3.1, 8.4, 22.9, 57.2, 121.8], [3000, 2800, 2000, 1500, 800]
    >>> laws = dpi.Laplace(scale=2.0), dpi.Exact()
    >>> dpi.functions.standardized_rate_confint(
    ...     deaths, persons, [0.3, 0.25, 0.2, 0.15, 0.1], mechanism=laws, per=100_000
    ... )
    IndexIntervals([2298.28, 2560.72], level 0.95, exact)
    """
    alpha = check_level(alpha)
    way = check_option(method, "method", METHODS)
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    unit = check_scalar(per, "per", gt=0, ge=1e-100, le=1e100)
    rates = _Rates.of(events, population, weights, by, mechanism)
    estimate, lower, upper = unit * np.stack(rates.intervals(alpha, way, about))
    open_ = np.flatnonzero(~np.isfinite(upper))
    if open_.size == len(upper):
        raise NotEstimableError(
            "population must be away from 0 by what its noise can be, which no area has in all "
            "its ages: merge ages, or give exact populations"
        )
    exact = way == "bound" and about == "noise" and rates.exact
    said = (f"{open_.size} of {len(upper)} areas have no upper end: a population may be 0 there",)
    return IndexIntervals(
        estimate=estimate.reshape(rates.shape),
        lower=lower.reshape(rates.shape),
        upper=upper.reshape(rates.shape),
        plug_in=unit * rates.plug_in.reshape(rates.shape),
        alpha=alpha,
        method="exact" if exact else way,
        uncertainty=about,
        labels=rates.labels,
        assurance=None if way == "asymptotic" else "exact" if exact else "bound",
        guarantee=ASYMPTOTIC if way == "asymptotic" else "exact" if exact else PROVED,
        notes=said if open_.size else (),
    )


def standardized_rate_ratio_confint(
    events: Any,
    population: Any,
    other_events: Any,
    other_population: Any,
    weights: Any,
    *,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
    method: Method = "bound",
    alpha: float = 0.05,
) -> ConfidenceSets:
    """Confidence sets for ratios of the standardised rates of two populations.

    Parameters
    ----------
    events, population, other_events, other_population : array, Series, DataFrame or Release
        The counts of both, as for :func:`standardized_rate_confint`; the ratio is that of the first
        to the other.
    weights, by, mechanism, uncertainty, method, alpha
        As for :func:`standardized_rate_confint`; in a pair of laws that of the events of both is
        the first.

    Returns
    -------
    ConfidenceSets
        One set an area; its ``notes`` have the guarantee.

    Raises
    ------
    InvalidParameterError
        As for :func:`standardized_rate_confint`, or if the two are not of the same areas.
    NotEstimableError
        As for :func:`standardized_rate_confint`.

    Notes
    -----
    With exact populations, at most 30 areas and noise only, ``"bound"`` gives the exact sets of
    :func:`dpinfer.ratio_confint` for two weighted sums. Otherwise its sets hold all ratios of rates
    within the intervals of both at 1 - α/2. ``"asymptotic"`` is Fieller's formula with the
    variances of both.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> north, south = [12.2, 40.1, 95.3], [8.7, 31.9, 60.4]
    >>> dpi.functions.standardized_rate_ratio_confint(
    ...     north, [3000, 2000, 1000], south, [2900, 2100, 900], [0.5, 0.3, 0.2],
    ...     mechanism=(dpi.Laplace(scale=1.0), dpi.Exact()),
    ... )
    ConfidenceSets([1.31717, 1.47205], level 0.95, exact)
    """
    alpha = check_level(alpha)
    way = check_option(method, "method", METHODS)
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    first = _Rates.of(events, population, weights, by, mechanism)
    second = _Rates.of(
        other_events, other_population, weights, by, mechanism, ("other_events", "other_population")
    )
    if first.shape != second.shape or not same_labels(first.labels, second.labels):
        raise InvalidParameterError(
            f"other_events must be of the same areas as events, got {first.shape} and "
            f"{second.shape}: reindex one like the other"
        )
    shape, labels = first.shape, first.labels
    if way == "asymptotic":
        for one, other in product((first.y, first.z), (second.y, second.z)):
            refuse_shared(one, other)
        parts = [one.asymptotic(about) for one in (first, second)]
        pairs, scales = (np.column_stack([part[at] for part in parts]) for at in (0, 1))
        arcs = normal_arcs(pairs, scales, 0.5 * alpha)
        found = as_sets(arcs, RATIO, shape, alpha, way, "two-sided", False, labels)
        return replace(found, uncertainty=about, notes=(f"guarantee: {ASYMPTOTIC}",))
    if about == "noise" and first.exact and second.exact:
        tops = [one.y.linear(one.by_person) for one in (first, second)]
        tops = [replace(top, shape=shape, labels=labels) for top in tops]
        return replace(ratio_confint(*tops, alpha=alpha), notes=("guarantee: exact",))
    # an end of the other rate at 0 or below leaves ratios without bounds
    ends = [one.intervals(0.5 * alpha, way, about) for one in (first, second)]
    (top, low, high), (bottom, least, most) = ends
    away = least > 0.0
    under, over = np.where(away, least, 1.0), np.where(away, most, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(bottom != 0.0, top / bottom, np.copysign(np.inf, top))
    lower = np.where(low >= 0.0, low / over, low / under)
    upper = np.where(high >= 0.0, high / under, high / over)
    return ConfidenceSets(
        estimate=estimate.reshape(shape),
        lower=np.where(away, lower, -np.inf).reshape(shape),
        upper=np.where(away, upper, np.inf).reshape(shape),
        kind=np.where(away, "interval", "line").reshape(shape),
        alpha=alpha,
        method=way,
        uncertainty=about,
        labels=labels,
        notes=(f"guarantee: {PROVED}",),
    )


def smr_confint(
    events: Any,
    population: Any,
    rates: Any,
    *,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
) -> ConfidenceSets:
    """Confidence sets for standardised mortality ratios Σ dₖ / Σ ρₖnₖ, observed to expected.

    Parameters
    ----------
    events, population : array, Series, DataFrame, Release or estimate
        The published counts, as for :func:`standardized_rate_confint`.
    rates : array or Series
        The reference rates ρ >= 0, known exactly, as the ``weights`` of that function; they are not
        rescaled.
    by, mechanism, uncertainty, alpha
        As for :func:`standardized_rate_confint`.

    Returns
    -------
    ConfidenceSets
        One set an area; its ``notes`` have the guarantee.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    Observed and expected events are linear functions of the counts: with noise only the sets
    are those of :func:`dpinfer.ratio_confint`, exact at any noise, for up to 30 areas; beyond, and
    with sampling, the ratios of all numbers of events and of expected events within intervals that
    hold together. Observed events are then Poisson with mean θ·Σ ρₖnₖ; an exact population gives
    the exact intervals of :func:`dpinfer.poisson_confint`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> laws = dpi.Laplace(scale=2.0), dpi.Laplace(scale=10.0)
    >>> deaths, persons = [12.2, 40.1, 95.3], [3002.3, 1989.5, 1012.4]
    >>> dpi.functions.smr_confint(deaths, persons, [0.004, 0.02, 0.08], mechanism=laws)
    ConfidenceSets([1.03474, 1.18893], level 0.95, exact)
    """
    alpha = check_level(alpha)
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    found = _Rates.of(events, population, rates, by, mechanism, name="rates", rescale=False)
    shape, labels = found.shape, found.labels
    table = found.share.copy()
    table.data = np.ones_like(table.data)
    events_of, expected = found.y.linear(table), found.z.linear(found.share)
    exact = not expected.variance.any()
    if (expected.values <= 0.0).any() and exact:
        raise InvalidParameterError("rates must give each area expected events > 0, got 0 or less")
    if about == "noise" and len(found) <= _MOST_SETS:
        pair = [replace(one, shape=shape, labels=labels) for one in (events_of, expected)]
        return replace(ratio_confint(*pair, alpha=alpha), notes=("guarantee: exact",))
    half = 0.0 if exact else 0.5 * alpha
    reach = np.zeros(len(found)) if exact else noise_within(expected, 0.5 * half)
    if about == "noise":
        width = noise_within(events_of, 0.5 * (alpha - half))
        low, high = events_of.values - width, events_of.values + width
    else:
        low, high = poisson_means(events_of, alpha - half)
    least, most = np.maximum(expected.values - reach, 0.0), expected.values + reach
    low = np.maximum(np.where(np.isfinite(low), low, 0.0), 0.0)
    there = (least > 0.0) & (most > 0.0)
    empty = (high < low) | (most <= 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(expected.values != 0.0, events_of.values / expected.values, 0.0)
        upper = np.where(there, np.maximum(high, 0.0) / least, np.inf)
        lower = np.where(most > 0.0, low / most, np.inf)
    return ConfidenceSets(
        estimate=estimate.reshape(shape),
        lower=np.where(empty, np.inf, lower).reshape(shape),
        upper=np.where(empty, -np.inf, upper).reshape(shape),
        kind=np.where(empty, "empty", "interval").reshape(shape),
        alpha=alpha,
        method="exact" if exact and about == "noise+sampling" else "bound",
        uncertainty=about,
        labels=labels,
        notes=(f"guarantee: {'exact' if exact and about == 'noise+sampling' else PROVED}",),
    )


def poisson_means(x: NoisyValues, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return intervals for the means of Poisson counts; (inf, -inf) where there is none.

    Of many weighted sums of noises, which have as many laws, those of Garwood for all counts within
    bounds of the noise.
    """
    if x.weights is None or len(x) <= _MOST_SETS:
        found = poisson_confint(replace(x, shape=None, labels=None), alpha=alpha)
        return np.asarray(found.lower), np.asarray(found.upper)
    reach = noise_within(x, 0.25 * alpha)
    low, high = np.maximum(x.values - reach, 0.0), x.values + reach
    lower = np.where(low > 0.0, special.gammaincinv(np.maximum(low, 1e-300), 0.25 * alpha), 0.0)
    upper = special.gammainccinv(np.maximum(high, 0.0) + 1.0, 0.25 * alpha)
    return np.where(high < 0.0, np.inf, lower), np.where(high < 0.0, -np.inf, upper)


def check_counts(x: NoisyValues, y: NoisyValues, who: str) -> None:
    """Refuse pairs of columns that no function of this kind takes."""
    for one in (x, y):
        one.need(unruled=True, who=who)
    if len(x) != len(y):
        raise InvalidParameterError(
            f"{y.name} must have an entry for each of the {len(x)} of {x.name}, got {len(y)}"
        )


@dataclass(frozen=True, eq=False)
class _Rates:
    """Events y and persons z of ages of areas, and the shares w of the ages in the standard."""

    y: NoisyValues
    z: NoisyValues
    share: sparse.csr_array  # (areas, cells)
    shape: tuple[int, ...]
    labels: pd.Index | None

    @classmethod
    def of(
        cls,
        events: Any,
        population: Any,
        weights: Any,
        by: Any,
        mechanism: Laws,
        names: tuple[str, str] = ("events", "population"),
        *,
        name: str = "weights",
        rescale: bool = True,
    ) -> _Rates:
        y, z = noisy_pair(events, population, mechanism, names)
        check_counts(y, z, "standardisation")
        table, shape, labels = area_table(y, by)
        share = table.multiply(_by_age(weights, name, y, table)[np.newaxis]).tocsr()
        sums = np.asarray(share.sum(axis=1)).ravel()
        if not (sums > 0.0).all():
            raise InvalidParameterError(
                f"{name} must not be 0 in all ages of an area, as in area {int(np.argmin(sums))}"
            )
        if rescale:
            share = share.multiply(1.0 / sums[:, np.newaxis]).tocsr()
        bad = (z.values <= 0.0) & (z.variance == 0.0) & (share.sum(axis=0) > 0.0)
        if rescale and bad.any():
            raise InvalidParameterError(
                f"{names[1]} must be > 0 where it has no noise, got "
                f"{z.values[int(np.argmax(bad))]:g} at position {int(np.argmax(bad))}"
            )
        return cls(y, z, share, shape, labels)

    def __len__(self) -> int:
        return int(self.share.shape[0])

    @cached_property
    def _safe(self) -> FloatArray:
        """Denominators to divide by; 1 where there is none."""
        return np.where(self.z.values > 0.0, self.z.values, 1.0)

    @cached_property
    def exact(self) -> bool:
        """Whether rates are known weighted sums, few enough to find the laws of all."""
        return not self.z.variance.any() and len(self) <= _MOST_SETS

    @cached_property
    def by_person(self) -> Any:
        """What events are multiplied with, (areas, cells)."""
        return self.share.multiply(1.0 / self._safe[np.newaxis]).tocsr()

    @cached_property
    def plug_in(self) -> FloatArray:
        clipped = np.maximum(self.y.values, 0.0) / np.maximum(self.z.values, 1.0)
        return np.asarray(self.share @ clipped)

    @cached_property
    def rows(self) -> tuple[Any, Any, Any]:
        """Weights of the errors of events and persons on all noises, and these."""
        joint = self.y.beside(self.z)
        at = np.arange(len(self.y))
        return joint._rows(at), joint._rows(len(at) + at), joint.noises

    @cached_property
    def estimate(self) -> FloatArray:
        """The estimates without the bias of second order."""
        y, z = self.y.values, self._safe
        noise = self.z.variance
        first, second, noises = self.rows
        own = np.broadcast_to(np.asarray(noises.law.variance), noises.size)
        shared = np.asarray(first.multiply(second).tocsr() @ own)
        # denominators that their noise drowns are not corrected: no row of theirs is reported
        fine = np.square(z) >= _FEWEST_STD**2 * noise
        shift = np.where(fine, (shared - y / z * noise) / np.square(z), 0.0)
        return np.asarray(self.share @ (y / z + shift))

    def intervals(
        self, alpha: float, method: Method, uncertainty: Uncertainty
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return estimates and ends, infinite upper ones where denominators may be 0."""
        if method == "asymptotic":
            estimate, std = self.asymptotic(uncertainty)
            half = -special.ndtri(0.5 * alpha) * std
            return estimate, estimate - half, estimate + half
        of = self._of_sampling if uncertainty == "noise+sampling" else self._of_noise
        lower, upper = of(alpha)
        estimate = np.clip(self.estimate, lower, upper)
        none = self.share @ (self.z.values <= 0.0).astype(np.float64) > 0.0
        return np.where(none, np.inf, estimate), lower, upper

    def asymptotic(self, uncertainty: Uncertainty) -> tuple[FloatArray, FloatArray]:
        """Return estimates and their standard errors, refused where they mean nothing."""
        y, z, noise = self.y.values, self.z.values, self.z.std
        used = self.share.sum(axis=0) > 0.0
        if (short := used & (z < _FEWEST_STD * noise)).any():
            at = int(np.argmax(short))
            raise NotEstimableError(
                f"{self.z.name} must be at least {_FEWEST_STD:g} standard deviations of its noise "
                f"for method='asymptotic', got {z[at]:g} with {noise[at]:.4g} at position {at}: "
                "merge ages, or use method='bound'"
            )
        z = self._safe
        first, second, noises = self.rows
        c = self.by_person
        own = np.broadcast_to(np.asarray(noises.law.variance), noises.size)
        errors = (c @ first - c.multiply(y / z).tocsr() @ second).tocsr()
        variance = np.asarray(errors.power(2) @ own)
        if uncertainty == "noise+sampling":
            variance = variance + c.power(2) @ y
        if (variance < 0.0).any():
            raise NotEstimableError(
                "events must have sums above 0 with sampling, as their variance is their mean: "
                "merge areas, or use method='bound'"
            )
        return self.estimate, np.sqrt(variance)

    def _of_noise(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        y = self.y.values
        if self.exact:
            plain = replace(self.y, shape=None, labels=None)
            found = linear_confint(plain, self.by_person.toarray(), alpha=alpha)
            return np.asarray(found.lower), np.asarray(found.upper)
        box = _OF_BOX * alpha if self.z.variance.any() else 0.0
        a, b = np.zeros(len(y)), np.zeros(len(y))
        if box:
            tail = 0.5 * box / self._errors_of_one()
            a, b = noise_within(self.y, tail), noise_within(self.z, tail)
        lower, upper = self._of_errors(alpha - box, (y - a, y + a), b)
        # published counts can be so far below 0 that no rate is left
        empty = upper < 0.0
        return np.where(empty, 0.0, lower), np.where(empty, 0.0, upper)

    def _of_errors(
        self,
        alpha: float,
        events: tuple[FloatArray, FloatArray],
        b: FloatArray,
        *,
        sampled: bool = False,
    ) -> tuple[FloatArray, FloatArray]:
        """Return ends for events, or their means, within bounds and denominators within b."""
        y, z, share = self.y.values, self.z.values, self.share
        a = np.maximum(events[1] - y, y - events[0])
        uncertain = self.z.variance > 0.0
        low, high = z - b, z + b
        there = (low > 0.0) | (share.sum(axis=0) == 0.0)
        low, safe = np.where(there, low, 1.0), np.where(there, z, 1.0)
        high = np.where(there, high, 1.0)
        least, most = np.maximum(events[0], 0.0) / high, np.maximum(events[1], 0.0) / low
        inner, outer = share.multiply(1.0 / high).tocsr(), share.multiply(1.0 / low).tocsr()
        first, second, noises = self.rows
        both = sparse.vstack([first, -second], format="csr")
        known = np.where(uncertain, 1.0, 0.0)
        lows = sparse.hstack([inner, inner.multiply(known * least)], format="csr")
        highs = sparse.hstack([outer, outer.multiply(known * most)], format="csr")
        sizes = weights_within(lows, highs, both)
        below, above = (
            worst_quantiles(
                sizes,
                noises,
                0.5 * alpha,
                poisson=(sign * outer, np.maximum(events[1], 0.0)) if sampled else None,
            )
            for sign in (1.0, -1.0)
        )
        above = above + outer @ (a * b / safe)
        below = below + outer @ ((most * np.square(b) + a * b) / safe)
        centre = share @ (y / safe)
        known_areas = share @ (~there).astype(np.float64) == 0.0
        # no rate is beyond those of all least and all largest
        lower = np.maximum(centre - below, share @ least if sampled else 0.0)
        upper = np.minimum(centre + above, share @ most if sampled else np.inf)
        return np.where(known_areas, lower, 0.0), np.where(known_areas, upper, np.inf)

    def _of_sampling(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return ends for the rates behind Poisson events.

        Of one age or two, those over a box of means and denominators are narrower.
        """
        most = self._ages_of_one()
        uncertain = bool(self.z.variance.any())
        box = alpha if most <= _MOST_BOXED else _OF_BOX * alpha
        each = box / (most * (2 if uncertain else 1))
        b = noise_within(self.z, 0.5 * each) if uncertain else np.zeros(len(self.z))
        least, largest = poisson_means(self.y, each)
        least, largest = np.where(np.isfinite(least), least, 0.0), np.maximum(largest, 0.0)
        if most > _MOST_BOXED:
            return self._of_errors(alpha - box, (least, largest), b, sampled=True)
        low, high = self.z.values - b, self.z.values + b
        there = low > 0.0
        lower = self.share @ (np.maximum(least, 0.0) / np.where(high > 0.0, high, np.inf))
        upper = self.share @ (largest / np.where(there, low, 1.0))
        known = self.share @ (~there).astype(np.float64) == 0.0
        return np.asarray(lower), np.where(known, upper, np.inf)

    def _ages_of_one(self) -> int:
        return int(np.diff(self.share.indptr).max())

    def _errors_of_one(self) -> int:
        """Most errors that one rate is of."""
        noisy_ones = (self.y.variance > 0.0).astype(np.float64) + (self.z.variance > 0.0)
        counted = (self.share != 0.0).astype(np.float64) @ noisy_ones
        return max(int(np.max(counted)), 1)


def _by_age(weights: Any, name: str, x: NoisyValues, table: sparse.csr_array) -> FloatArray:
    """Return a weight for each count, of weights of each or of each age."""
    given, own = split_labels(weights, name, ge=0, le=1e100)
    if given.ndim > 1 and given.shape == x.shape:
        given = given.ravel()
    if given.ndim != 1:
        raise InvalidParameterError(f"{name} must be one-dimensional, got shape {given.shape}")
    if own is not None and x.labels is not None and not own.equals(x.labels):
        named = own.name is not None and own.name in x.labels.names
        of_levels = [
            own.get_indexer(x.labels.get_level_values(level))
            for level in range(x.labels.nlevels)
            if own.is_unique and (not named or x.labels.names[level] == own.name)
        ]
        of_levels = [rows for rows in of_levels if rows.min() >= 0]
        if len(of_levels) > 1:
            raise InvalidParameterError(
                f"{name} must be named after the level of the labels that it is for, as it has the "
                f"labels of {len(of_levels)} of them, got the name {show(own.name)}"
            )
        if of_levels:
            return np.asarray(given[of_levels[0]])
        raise InvalidParameterError(
            f"{name} must have the labels of {x.name}, or of one of their levels, each once"
        )
    if given.size == len(x):
        return given
    sizes: NDArray[np.intp] = np.diff(table.indptr)
    if (sizes != given.size).any() or (own is not None and x.labels is not None):
        raise InvalidParameterError(
            f"{name} must have one entry for each age, or for each of the {len(x)} counts, got "
            f"{given.size} where areas have {int(sizes.min())} to {int(sizes.max())} ages"
        )
    found = np.zeros(len(x))
    found[table.indices] = np.tile(given, table.shape[0])
    return found
