"""Intervals for proportions of a population, from counts published with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_alpha,
    check_array,
    check_flag,
    check_option,
    check_scalar,
)
from dpinfer._numerics.roots import ENUMERATED, find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.estimation.two_sided import GAPS, NoisyCounts
from dpinfer.estimation.unknown_trials import Rows, UnknownTrials
from dpinfer.intervals._count_tails import BinomialCounts, PoissonCounts
from dpinfer.intervals._one_count import EXACT, MID_P, SCORE, WALD, End, NoisyRows, ends
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import is_noisy, noisy
from dpinfer.results.intervals import Intervals

RatesMethod = Literal["exact", "mid-p", "score", "asymptotic", "inverted"]

LARGEST_COUNT = 1e15
"""Beyond it, neighbouring whole numbers run together in sums."""

Found = tuple[FloatArray, FloatArray, tuple[str, ...]]


def _by_tails(end: End, rows: NoisyRows, alpha: float, side: Alternative) -> Found:
    return *ends(partial(end, rows), rows.family.largest, alpha, side), ()


def _inverted(rows: NoisyRows, alpha: float, side: Alternative) -> Found:
    """Return what the test does not reject that is two-sided where the interval is."""
    if side != "two-sided":
        return _by_tails(EXACT, rows, alpha, side)
    nobs = rows.family.nobs if isinstance(rows.family, BinomialCounts) else None
    counts = NoisyCounts(count=rows.count, nobs=nobs, noise=rows.noise)
    lower, upper, gaps = counts.two_sided(alpha)
    scale = rows.family.scale
    return lower / scale, upper / scale, (GAPS,) if gaps.any() else ()


_RATES_ENDS: dict[RatesMethod, Callable[[NoisyRows, float, Alternative], Found]] = {
    "exact": partial(_by_tails, EXACT),
    "mid-p": partial(_by_tails, MID_P),
    "score": partial(_by_tails, SCORE),
    "asymptotic": partial(_by_tails, WALD),
    "inverted": _inverted,
}


def _each(alpha: float, tests: int, are_independent: bool) -> float:
    """Level of each of several intervals that hold together."""
    return sidak(alpha, tests) if are_independent else alpha / tests


def poisson_confint(
    count: Any,
    exposure: Any = 1.0,
    *,
    mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: RatesMethod = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for Poisson rates when the counts of events were published with noise.

    Parameters
    ----------
    count : float, array of shape (m,), Series, Release or estimate
        The published counts: the number of events plus noise, not clamped since.
    exposure : float, array of shape (m,) or Series, default 1
        The public exposure behind each count, > 0: person-years, area, time.
    mechanism, alpha, method, alternative, simultaneous
        As for :func:`proportion_confint`, with ``"score"`` in the place of its ``"wilson"``;
        ``"larger"`` gives intervals [lower, ∞), ``"smaller"`` [0, upper].

    Returns
    -------
    Intervals
        One interval for each rate, in events per unit of exposure, for noise and sampling. The
        estimate is count/exposure, which is unbiased and may be negative. An interval is marked as
        empty where no rate is compatible with the published count.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the exact tails are sums of too many terms.

    Notes
    -----
    With T = X + e, X ~ Poisson(μ), μ = exposure·rate, and e the noise, the exact interval is the
    set of μ with P(T >= t) >= α/2 and P(T <= t) >= α/2. Without noise its ends are quantiles of
    χ²/2 (Garwood 1936). ``"inverted"`` holds the rates that the two-sided :func:`poisson_ztest`
    does not reject. ``"score"`` solves (t - μ)² = z²(μ + v) with v the variance of the noise, and
    ``"asymptotic"`` is t ± z√(max(t, 0) + v). Both err where μ is small, and in the tails where
    Laplace or geometric noise dominates.

    References
    ----------
    Garwood, F. (1936). Fiducial limits for the Poisson distribution. Biometrika 28, 437-442.
    doi:10.1093/biomet/28.3-4.437.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> poisson_confint(31, 12.5, mechanism=Geometric.from_epsilon(0.5))
    Intervals([1.58474, 3.63122], level 0.95, exact)
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", _RATES_ENDS)
    side = check_option(alternative, "alternative", ALTERNATIVES)
    together = check_flag(simultaneous, "simultaneous")
    x = noisy(count, mechanism=mechanism, name="count")
    x.need(unruled=True, whole=True, who="poisson_confint")
    check_array(x.values, "count", le=LARGEST_COUNT)
    time = x.setting(exposure, "exposure", gt=0, ge=1e-100, le=1e100)
    published = x.column(time)
    t, unit = (np.broadcast_to(part, published.shape).reshape(-1) for part in (published, time))
    rows = NoisyRows(count=t, family=PoissonCounts(t.size), noise=x.marginal)
    each = _each(alpha, t.size, x.are_independent()) if together else alpha
    low, high, notes = _RATES_ENDS[method](rows, each, side)
    centre, lower, upper = ((part / unit).reshape(published.shape) for part in (t, low, high))
    return Intervals(
        estimate=centre,
        lower=lower,
        upper=upper,
        alpha=alpha,
        method=method,
        uncertainty="noise+sampling",
        simultaneous=together,
        labels=x.labels,
        notes=notes,
    )


# Intervals for a proportion where the number of trials is known only with noise.


_EDGE = 1e-12
"""Proportions nearer to 0 or 1 count as 0 or 1."""

_AWAY = np.array([0.0, 1.0, 2.0, 3.5, 7.0])
"""Where the search looks first, in standard errors of the estimate."""

_ACCURACY = 1e-11

_DENOMINATORS = np.arange(2.0, 13.0)
_TIES_WITHIN = 0.1
"""Fractions are looked at that are so near to an end, relative to its distance from the centre."""


def estimate(rows: UnknownTrials) -> FloatArray:
    """Ratio of what was published, to one trial at least."""
    return np.asarray(rows.count / np.maximum(rows.nobs, 1.0))


def exact_end(rows: UnknownTrials, probability: float, side: int) -> FloatArray:
    """Outermost proportion that the test against smaller (side 1) or larger ones accepts."""
    if not rows.confidence_set[2].max() < probability:
        raise InvalidParameterError(
            f"nuisance_alpha must be below {probability:g}, the error probability of one end of an "
            f"interval, got {rows.nuisance_alpha:g}"
        )
    return _Search(rows=rows, probability=probability, side=side).ends()


def asymptotic_end(rows: UnknownTrials, probability: float, side: int) -> FloatArray:
    """Return the ratio and a normal quantile of its approximate standard error."""
    half = special.ndtri(probability) * _standard_error(rows)
    return np.asarray(estimate(rows) + side * half)


def _standard_error(rows: UnknownTrials) -> FloatArray:
    centre = rows.under(np.clip(estimate(rows), 0.0, 1.0), np.arange(rows.count.size))
    n = np.maximum(rows.nobs, 1.0)
    return np.asarray(np.sqrt(n * centre.value * (1.0 - centre.value) + centre.variance) / n)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """Search for the outermost accepted proportions of all rows."""

    rows: UnknownTrials
    probability: float
    side: int

    def ends(self) -> FloatArray:
        """Return the ends; inf or -inf, beyond the other limit, where nothing is accepted."""
        # proportions from the outermost to the innermost, one column for each row
        centre, error = estimate(self.rows), np.maximum(_standard_error(self.rows), _EDGE)
        away = np.concatenate([-_AWAY[:0:-1], _AWAY])[:, np.newaxis]
        inside = np.clip(centre + away * error, _EDGE, 1.0 - _EDGE)
        edge = np.full((1, centre.size), _EDGE)
        grid = np.concatenate([edge, inside, 1.0 - edge])[:: self.side]
        accepted = np.stack([self._excess(p, np.arange(centre.size)) >= 0.0 for p in grid])
        first = np.argmax(accepted, axis=0)
        there = accepted.any(axis=0)
        end = np.where(there, 0.0 if self.side > 0 else 1.0, self.side * np.inf)
        rows = np.flatnonzero(there & (first > 0))
        if rows.size:
            outer, inner = grid[first[rows] - 1, rows], grid[first[rows], rows]
            end[rows] = self._ties(self._boundary(outer, inner, rows), rows)
        return end

    def _excess(self, p: FloatArray, rows: Rows) -> FloatArray:
        """P-value at proportions, minus what makes it too small."""
        test = self.rows.under(p, rows)
        alternative: Alternative = "larger" if self.side > 0 else "smaller"
        return test.largest(alternative, test.difference) - self.probability

    def _boundary(self, outer: FloatArray, inner: FloatArray, rows: Rows) -> FloatArray:
        """Where the p-value passes the probability, on the outer side of what is left open."""

        def excess(p: FloatArray, index: Rows) -> FloatArray:
            return -self.side * self._excess(p, rows[index])

        low, high = (outer, inner)[:: self.side]
        return find_root(excess, low, high, rtol=_ACCURACY, atol=_EDGE)[:: self.side][0]

    def _ties(self, end: FloatArray, rows: Rows) -> FloatArray:
        """Move ends out to fractions at which ties make the test accept."""
        if not (self.rows.noise.is_integer and self.rows.nobs_noise.is_integer):
            return end
        reach = _TIES_WITHIN * np.abs(estimate(self.rows)[rows] - end)
        for q in _DENOMINATORS:
            p = (np.floor(end * q) if self.side > 0 else np.ceil(end * q)) / q
            near = (np.abs(p - end) <= reach) & (p > 0.0) & (p < 1.0) & (p != end)
            at = np.flatnonzero(near)
            if at.size:
                accepted: NDArray[np.bool_] = self._excess(p[at], rows[at]) >= 0.0
                end[at[accepted]] = p[at[accepted]]
        return end


Method = Literal["exact", "mid-p", "wilson", "asymptotic", "inverted"]


def proportion_confint(
    count: Any,
    nobs: Any,
    *,
    mechanism: Mechanism | None = None,
    nobs_mechanism: Mechanism | None = None,
    nobs_is_total: bool = False,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    nuisance_alpha: float = 1e-4,
) -> Intervals:
    """Confidence intervals for proportions when the counts of successes were published with noise.

    Parameters
    ----------
    count : float, array of shape (m,), Series, Release or estimate
        The published counts: the number of successes plus noise, not clamped since. They may be
        negative or exceed ``nobs``.
    nobs : int, array of shape (m,), Series, Release or estimate
        The number of trials behind each count: public and >= 1, or published with noise.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each; left out where ``count`` carries
        it.
    nobs_mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise in ``nobs``, where that has noise and does not carry its law.
    nobs_is_total : bool, default False
        Whether ``count`` is a summand of ``nobs``, its noise included. ``nobs_mechanism`` is then
        the noise of the other summands; :class:`WeightedSum` adds up several. Where both carry
        their law this is known, and left out.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "mid-p", "wilson", "asymptotic", "inverted"}
        ``"exact"`` never covers less often than stated, at either end. ``"inverted"`` holds the
        proportions that the two-sided :func:`proportions_ztest` does not reject: it covers as often
        as stated in all, most often in less width. ``"mid-p"`` is narrower and does so on average
        only. ``"wilson"`` and ``"asymptotic"`` take the count as normal, with the variance
        of the noise in it, and are offered for comparison. Where ``nobs`` is noisy, ``"exact"`` or
        ``"asymptotic"``.
    alternative : {"two-sided", "larger", "smaller"}
        ``"larger"`` gives intervals [lower, 1], the proportions that the test against larger ones
        does not reject; ``"smaller"`` gives [0, upper]. (statsmodels has it the other way round.)
    simultaneous : bool, default False
        Whether the intervals shall cover all proportions together with probability 1 - ``alpha``.
        The counts then have to be independent; where their errors are not, or share a number of
        trials, each interval has the level of Bonferroni.
    nuisance_alpha : float, default 1e-4
        Probability in (0, 0.5) with which the confidence set for the true number of trials may
        miss it, below the error probability of each end. Used where ``nobs`` is noisy.

    Returns
    -------
    Intervals
        One interval for each proportion, for noise and sampling, with the labels of ``count``;
        unpacks as ``lower, upper``. The estimate is count/nobs, which is unbiased where ``nobs`` is
        known, and may lie outside [0, 1]; a noisy ``nobs`` counts as 1 at least. An interval is
        marked as empty where no proportion is compatible with the published count; empty intervals
        are part of the stated coverage.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, a count is not a whole number although the noise
        takes whole numbers only, or the exact tails are sums of too many terms.

    Notes
    -----
    With T = X + e, X ~ Binomial(n, p) and e the noise, P(T >= t; p) grows with p. The exact
    interval is the set of p with P(T >= t; p) >= α/2 and P(T <= t; p) >= α/2; without noise it is
    that of Clopper and Pearson (1934). ``"mid-p"`` counts half of P(T = t), and is the same for
    continuous noise. ``"wilson"`` solves (t/n - p)² = z²(p(1-p)/n + v/n²) for p, with v the
    variance of the noise and z the normal quantile (Wilson 1927 with v = 0), and ``"asymptotic"``
    is p̂ ± z√(p̂(1-p̂)/n + v/n²) with p̂ = t/n, taken into [0, 1] under the root. Both err where n·p
    is small, and in the tails where Laplace or geometric noise dominates. All are intersected with
    [0, 1], which keeps their coverage, and hold for counts that were published whatever their
    value.

    ``"inverted"``, with a two-sided alternative, holds the p with
    P(abs(T - n·p) >= abs(t - n·p); p) >= α. Whole-numbered counts make that p-value jump, so that a
    p may be rejected between two that are not: the interval is the smallest that holds all of them,
    and a note says if it may have gaps. Where the alternative is one-sided it is ``"exact"``.

    The work is done once for all rows that share ``count``, ``nobs`` and mechanism. For Laplace,
    geometric and Tulap noise (not truncated) and up to 1e8 trials, the tails have a closed form in
    tails of binomial laws with moved odds; a million ends of rows that all differ take about a
    second. Otherwise the tails are sums. For very many counts the ends are polynomials, checked
    between their nodes to 1e-12 standard deviations of the noisy count: under Gaussian noise with
    σ >= 1.4, one for many rows, in ``count`` and ``nobs``; under other continuous noise and one
    ``nobs``, between whole numbers.

    Where ``nobs`` is noisy, the exact interval is the smallest that holds the proportions which
    the guaranteed one-sided tests of :func:`proportions_ztest` at level α/2 do not reject. Their
    p-values are the largest over a confidence set for the number of trials, plus the probability
    to miss it (Berger and Boos 1994). The ends are searched numerically, on a grid that is refined
    where the p-value passes α/2, and among fractions with denominators up to 12, at which ties
    between outcomes make p-values jump. That takes up to seconds a row. ``"asymptotic"`` is
    count/nobs ± z√(n·p̂(1-p̂) + w²·v + p̂²·v')/n with n = nobs, v' the variance of its noise and
    w = 1, or 1 - p̂ where ``count`` is part of it.

    References
    ----------
    Berger, R. L. and Boos, D. D. (1994). P values maximized over a confidence set for the nuisance
    parameter. JASA 89, 1012-1016. doi:10.1080/01621459.1994.10476836.
    Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits illustrated
    in the case of the binomial. Biometrika 26, 404-413. doi:10.1093/biomet/26.4.404.
    Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference.
    JASA 22, 209-212. doi:10.1080/01621459.1927.10502953.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> noise = Geometric.from_epsilon(0.5)
    >>> lower, upper = proportion_confint([-3, 34], 100, mechanism=noise)
    >>> lower.round(4), upper.round(4)
    (array([0.    , 0.2334]), array([0.0432, 0.4569]))

    The number of trials published with noise too:

    >>> proportion_confint(34, 103, mechanism=noise, nobs_mechanism=noise)
    Intervals([0.224898, 0.449652], level 0.95, exact)
    """
    alpha = check_alpha(alpha)
    side = check_option(alternative, "alternative", ALTERNATIVES)
    together = check_flag(simultaneous, "simultaneous")
    check_scalar(nuisance_alpha, "nuisance_alpha", gt=0, lt=0.5)
    x = noisy(count, mechanism=mechanism, name="count")
    x.need(unruled=True, whole=True, who="proportion_confint")
    independent = x.are_independent()
    if is_noisy(nobs, nobs_mechanism, nobs_is_total):
        noisy_end = _NOISY_ENDS[check_option(method, "method", _NOISY_ENDS)]
        half = np.asarray(0.5)
        unknown = UnknownTrials.of(x, nobs, nobs_mechanism, nobs_is_total, half, nuisance_alpha)
        independent &= np.size(nobs) == unknown.nobs.size and not hasattr(nobs, "__noisy__")
        shape, centre, notes = unknown.shape, estimate(unknown), _notes(unknown, method)
        each = _each(alpha, centre.size, independent) if together else alpha
        lower, upper = ends(partial(noisy_end, unknown), np.ones(centre.size), each, side)
    else:
        known = check_option(method, "method", _ENDS)
        trials = x.setting(nobs, "nobs", whole=True, ge=1, le=LARGEST_NOBS)
        published = x.column(trials)
        shape = published.shape
        t, n = (np.broadcast_to(part, shape).reshape(-1) for part in (published, trials))
        rows = NoisyRows(count=t, family=BinomialCounts(n), noise=x.marginal)
        centre, each = t / n, _each(alpha, t.size, independent) if together else alpha
        lower, upper, notes = _ENDS[known](rows, each, side)
    return Intervals(
        estimate=centre.reshape(shape),
        lower=lower.reshape(shape),
        upper=upper.reshape(shape),
        alpha=alpha,
        method=method,
        uncertainty="noise+sampling",
        simultaneous=together,
        labels=x.labels,
        notes=notes,
    )


def _notes(rows: UnknownTrials, method: Method) -> tuple[str, ...]:
    """Say what an interval takes for granted about the number of trials."""
    if method != "exact":
        return ("intervals take the estimated number of trials as the true one",)
    notes = (
        f"intervals hold whatever the true number of trials; each end has {rows.nuisance_alpha:g} "
        "of the error probability for that",
        "ends are found by a numerical search",
    )
    low, high, _ = rows.confidence_set
    if (high - low < ENUMERATED).all():
        return notes
    return (*notes, "long ranges of the number of trials are looked at on a fine grid")


_ENDS: dict[Method, Callable[[NoisyRows, float, Alternative], Found]] = {
    "wilson" if name == "score" else name: found for name, found in _RATES_ENDS.items()
}
_NOISY_ENDS: dict[Method, Callable[[UnknownTrials, float, int], FloatArray]] = {
    "exact": exact_end,
    "asymptotic": asymptotic_end,
}
