"""Design-based estimates from noisy counts, with both components of their variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from dpinfer._check import FloatArray, check_alpha, check_array, check_option, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals._survey_designs import (
    Design,
    DesignName,
    checked_design,
    invert_strata,
    invert_total,
)
from dpinfer.intervals.counts import linear_confint
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.coerce import noisy
from dpinfer.results.intervals import Intervals, Uncertainty
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


Quantity = Literal["total", "mean"]
SurveyMethod = Literal["exact", "convolution", "asymptotic"]

_APPROXIMATE = "the sampling error is taken as normal, with an estimated variance: approximate"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SurveyEstimate(Listed, Plotted):
    """Totals or means of a population, estimated from noisy counts in probability samples.

    Made by :func:`survey_total`, :func:`survey_mean`, :func:`stratified_total` and
    :func:`stratified_mean`.

    Parameters
    ----------
    quantity : {"total", "mean"}
        What is estimated.
    params : float, array or Series
        The estimates.
    variance_noise : float, array or Series
        Variance that the noise of the mechanism adds to each; known, not estimated.
    variance_sampling : float, array or Series
        Estimated variance due to sampling.
    count : array of float, shape (m,)
        The noisy counts.
    weights : array of float, shape (m,)
        What each noisy count is multiplied with.
    mechanism : NoiseLaw
        The law of their noise.
    design : Design
        The sampling design.
    labels : pandas.Index, optional
        One label for each estimate.
    strata : SurveyEstimate, optional
        For a stratified estimate, the part of each stratum: the estimate is their sum.
    notes : tuple of str
        What else the reader has to know.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> from dpinfer.intervals import survey_total
    >>> total = survey_total(120.3, mechanism=Laplace(scale=2.0), sample_size=1000,
    ...                      population_size=50_000)
    >>> total.conf_int()
    Intervals([5035, 7106], level 0.95, exact)
    >>> total.conf_int(method="convolution")
    Intervals([4978.26, 7051.74], level 0.95, convolution)
    >>> total.conf_int(uncertainty="noise")
    Intervals([5715.43, 6314.57], level 0.95, exact)
    """

    quantity: Quantity
    params: Any
    variance_noise: Any
    variance_sampling: Any
    count: FloatArray
    weights: FloatArray
    mechanism: NoiseLaw
    design: Design
    labels: pd.Index | None = None
    strata: SurveyEstimate | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("params", "variance_noise", "variance_sampling"):
            values = freeze(np.asarray(getattr(self, name), dtype=np.float64))
            object.__setattr__(self, name, attach_labels(values, self.labels))
        for name in ("count", "weights"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @property
    def bse(self) -> Any:
        """Standard errors: square roots of the sums of both variances."""
        return np.sqrt(self.variance_noise + self.variance_sampling)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.params), self.labels

    def conf_int(
        self,
        alpha: float = 0.05,
        *,
        uncertainty: Uncertainty = "noise+sampling",
        method: SurveyMethod | None = None,
    ) -> Intervals:
        """Confidence intervals for the totals or means.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        uncertainty : {"noise+sampling", "noise"}
            ``"noise+sampling"``: for the quantity in the population. ``"noise"``: for what the
            confidential sample would have given without noise.
        method : {"exact", "convolution", "asymptotic"}, optional
            For noise alone: ``"exact"`` (default), quantiles of the law of the noise, or
            ``"asymptotic"``. For both: ``"exact"`` (default), inversion of the exact laws of the
            noisy counts over all possible totals; ``"convolution"``, a normal sampling error plus
            noise of its exact law; ``"asymptotic"``, a normal quantile times ``bse``.

        Returns
        -------
        Intervals
            One for each estimate.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.

        Notes
        -----
        In a census ``"exact"`` and ``"convolution"`` are the intervals for noise alone. Without
        noise, ``"convolution"`` and ``"asymptotic"`` are the textbook interval, and ``"exact"`` the
        hypergeometric one (or, in Poisson sampling, that for the number of binomial trials). Exact
        intervals cover with probability 1 - α or more. The others lean on an estimated variance
        and on a normal law: where the expected count, or the number of those who do not count, is
        below about ten, their coverage falls below 1 - α.

        The exact interval of a sum over strata holds every sum of totals Kₕ that are not rejected
        together by the scores zₕ of their exact p-values: Σ cₕzₕ >= -z‖c‖ at either side, with cₕ
        the standard deviation of the estimate of Kₕ (Stouffer et al. 1949), within Fisher's region
        of the two-sided p-values, which misses with probability α/20. It holds its level whatever
        the shares of the strata, and it pays for not knowing them: with 40 counted of 200 in each
        stratum of 5,000 it is 1.03 times as long as the normal one for 10 strata under Gaussian
        noise of σ = 5, 1.2 times under Laplace noise of scale 2, and 1.3 times under noise on the
        whole numbers, of which each stratum takes half a unit; for 50 strata 1.1 to 1.7 times.

        References
        ----------
        Stouffer, S. A. et al. (1949). The American Soldier, volume 1. Princeton University Press.
        """
        alpha = check_alpha(alpha)
        covered = check_option(uncertainty, "uncertainty", _METHODS)
        table = _METHODS[covered]
        chosen = next(iter(table)) if method is None else check_option(method, "method", table)
        lower, upper = table[chosen](self, alpha)
        approximate = covered == "noise+sampling" and chosen != "exact"
        return Intervals(
            estimate=np.asarray(self.params),
            lower=np.reshape(lower, np.shape(self.params)),
            upper=np.reshape(upper, np.shape(self.params)),
            alpha=alpha,
            method=chosen,
            uncertainty=covered,
            labels=self.labels,
            notes=(*self.notes, _APPROXIMATE) if approximate else self.notes,
        )

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the estimates, their errors and intervals of level 1 - ``alpha`` as a DataFrame.

        The columns are ``estimate``, ``std_err``, ``sd_noise``, ``sd_sampling``, ``ci_lower`` and
        ``ci_upper``; the intervals cover noise and sampling.
        """
        import pandas as pd

        intervals = self.conf_int(alpha)
        columns = {
            "estimate": self.params,
            "std_err": self.bse,
            "sd_noise": np.sqrt(self.variance_noise),
            "sd_sampling": np.sqrt(self.variance_sampling),
            "ci_lower": intervals.lower,
            "ci_upper": intervals.upper,
        }
        flat = {name: np.ravel(values) for name, values in columns.items()}
        return pd.DataFrame(flat, index=self.labels)

    def _table(self, alpha: float = 0.05) -> Table:
        frame = self.summary_frame(alpha)
        return Table(
            f"Survey estimate of a {self.quantity}",
            [
                ("Design", self.design.name),
                ("Strata", "none" if self.strata is None else self.count.size),
                ("Level", f"{1 - alpha:.6g}"),
                ("Error covered", "noise and sampling"),
            ],
            frame,
            index=frame.index if self.labels is not None else None,
            notes=self.notes,
            alike=tuple(frame.columns),
        )

    def __repr__(self) -> str:
        size = np.size(self.params)
        shown = f"{float(self.params):.6g}" if np.ndim(self.params) == 0 else f"{size} estimates"
        return f"SurveyEstimate({self.quantity}, {shown})"

    def _around(self, half: FloatArray) -> tuple[FloatArray, FloatArray]:
        centre = np.atleast_1d(np.asarray(self.params))
        return centre - half, centre + half


Ends = tuple[FloatArray, FloatArray]


def _noise_exact(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Quantiles of the law of the noise."""
    count, weights, noise = estimate.count, estimate.weights, estimate.mechanism
    if estimate.strata is not None:
        lower, upper = linear_confint(count, weights, mechanism=noise, alpha=alpha)
        return np.atleast_1d(lower), np.atleast_1d(upper)
    # ends of counts first: they may be attained, and rounding is monotone
    half = np.asarray(noise.isf(alpha / 2))
    return weights * (count - half), weights * (count + half)


def _normal(estimate: SurveyEstimate, alpha: float, *, noise: bool = False) -> Ends:
    """Use normal quantiles times standard errors, or for the noise alone."""
    sd = np.sqrt(estimate.variance_noise) if noise else estimate.bse
    return estimate._around(-special.ndtri(alpha / 2) * np.atleast_1d(np.asarray(sd)))


def _convolution(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Quantiles of a normal sampling error plus the noise."""
    sd = np.sqrt(np.atleast_1d(np.asarray(estimate.variance_sampling)))
    if estimate.strata is not None:
        law = _with_normal(float(sd[0]), estimate.weights, estimate.mechanism)
        return estimate._around(np.asarray(law.isf(alpha / 2)))
    rows = enumerate(zip(sd, estimate.weights, strict=True))
    half = [
        float(_with_normal(s, np.array([w]), estimate.mechanism.take(i)).isf(alpha / 2))
        for i, (s, w) in rows
    ]
    return estimate._around(np.array(half))


def _with_normal(sd: float, weights: FloatArray, noise: NoiseLaw) -> WeightedSum:
    """Law of a normal error with standard deviation ``sd`` plus the weighted noises."""
    size = weights.size
    error = (Gaussian(sigma=1.0), np.array([size]))
    joint = IndependentNoise.from_groups([error, *groups(noise, size)], size + 1)
    return WeightedSum(np.append(weights, sd), joint)


def _exact(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Invert the law of the noisy count; in a census, that of the noise."""
    if estimate.count.size > 1 and estimate.strata is not None:
        if estimate.design.is_census.all():
            return _noise_exact(estimate, alpha)
        low, high = invert_strata(estimate.count, estimate.mechanism, estimate.design, alpha)
        whole = np.rint(estimate.design.expansion[0] / estimate.weights[0])
        return np.array([low / whole]), np.array([high / whole])
    lower, upper = _noise_exact(estimate, alpha)
    rows = np.flatnonzero(~estimate.design.is_census)
    if rows.size:
        design = estimate.design.take(rows)
        # the total that one unit of the estimate is, a whole number: a share k/N may be an end
        unit = np.rint(design.expansion / estimate.weights[rows])
        guesses = np.stack([ends[rows] * unit for ends in _normal(estimate, alpha)])
        noise = estimate.mechanism.take(rows)
        ends = invert_total(estimate.count[rows], noise, design, alpha, guesses)
        lower[rows], upper[rows] = (end / unit for end in ends)
    return lower, upper


_METHODS: dict[Uncertainty, dict[SurveyMethod, Callable[[SurveyEstimate, float], Ends]]] = {
    "noise+sampling": {"exact": _exact, "convolution": _convolution, "asymptotic": _normal},
    "noise": {"exact": _noise_exact, "asymptotic": partial(_normal, noise=True)},
}
"""Procedures by the error that they cover; the first one is the default."""


# Population totals and means from noisy counts in probability samples.


def survey_total(
    count: Any,
    *,
    mechanism: Mechanism | None = None,
    sample_size: Any = None,
    population_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate how many in the population have a property, from a noisy count in a sample.

    Parameters
    ----------
    count : float, array of shape (m,), Series, Release or estimate
        Noisy counts of the units in the sample that have the property, one for each of m
        properties, areas or times: each gives an estimate of its own.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all counts, or one for each. Left out where ``count`` carries
        its law.
    sample_size, population_size : int, array or Series
        Sizes n and N of the sample and of the population, for ``design="srs"``. Under
        ``design="poisson"`` there is no fixed sample size, and N, if given, bounds exact intervals.
    rate : float, array or Series
        Probability π in (0, 1] with which each unit is sampled, for ``design="poisson"``.
    design : {"srs", "poisson"}
        ``"srs"``: simple random sampling without replacement. ``"poisson"``: each unit is sampled
        independently of the others.

    Returns
    -------
    SurveyEstimate
        The estimates, the variance due to noise and that due to sampling; ``conf_int`` gives
        intervals for either source of error.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    stratified_total : the sum over strata.

    Notes
    -----
    With a noisy count y = x + e and noise variance v, the Horvitz-Thompson estimate is N·y/n, or
    y/π. Noise adds (N/n)²v, or v/π², to its variance. The part due to sampling is estimated
    without bias, as E[y(n - y)] = x(n - x) - v: by N²(1 - n/N)·s²/n with
    s² = (y(n - y) + v)/(n(n - 1)) for simple random sampling, by (1 - π)y/π² for Poisson sampling.
    Where that is negative, which noise may bring about, 0 takes its place and a note says so.

    References
    ----------
    Cochran, W. G. (1977). Sampling Techniques, 3rd edition, Theorems 2.2 and 3.2.
    Horvitz, D. G. and Thompson, D. J. (1952). A generalization of sampling without replacement
    from a finite universe. doi:10.1080/01621459.1952.10483446.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> total = survey_total([120.3, 34.8], mechanism=Laplace(scale=2.0), sample_size=1000,
    ...                      population_size=50_000)
    >>> total.params, total.bse.round(1)
    (array([6015., 1740.]), array([528.7, 320. ]))
    >>> np.sqrt(total.variance_noise).round(1), np.sqrt(total.variance_sampling).round(1)
    (array([141.4, 141.4]), array([509.5, 287. ]))
    """
    return _estimate(count, mechanism, "total", False, sample_size, population_size, rate, design)


def survey_mean(
    count: Any,
    *,
    mechanism: Mechanism | None = None,
    population_size: Any,
    sample_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate the share of the population that has a property, from a noisy count in a sample.

    It is :func:`survey_total` divided by the size of the population.

    Parameters
    ----------
    count, mechanism, population_size, sample_size, rate, design
        As for :func:`survey_total`; ``population_size`` is needed under both designs.

    Returns
    -------
    SurveyEstimate
        The shares, with the components of their variances.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> share = survey_mean(120.3, mechanism=Laplace(scale=2.0), sample_size=1000,
    ...                     population_size=50_000)
    >>> share.params, share.bse.round(5)
    (np.float64(0.1203), np.float64(0.01057))
    """
    return _estimate(count, mechanism, "mean", False, sample_size, population_size, rate, design)


def stratified_total(
    counts: Any,
    *,
    mechanism: Mechanism | None = None,
    sample_size: Any = None,
    population_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate a population total from the noisy counts in independently sampled strata.

    Parameters
    ----------
    counts : array of float, shape (H,), Series, Release or estimate
        The noisy count of each stratum; their errors must be independent.
    mechanism, sample_size, population_size, rate, design
        As for :func:`survey_total`, of each stratum: one for all, or one for each.

    Returns
    -------
    SurveyEstimate
        One estimate; its ``strata`` are those of the strata, with their variances.

    Notes
    -----
    The estimate is the sum of those of the strata, and so are its variances. Estimated sampling
    variances are added before negative ones become 0, so that the sum has less bias.
    ``conf_int(uncertainty="noise")`` is exact: it uses the law of the weighted sum of the noises.

    References
    ----------
    Cochran, W. G. (1977). Sampling Techniques, 3rd edition, Section 5.3.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> total = stratified_total([40.2, 74.9], mechanism=Laplace(scale=2.0), sample_size=[200, 500],
    ...                          population_size=[10_000, 4_000])
    >>> total.params.round(1), total.bse.round(1), total.strata.params
    (np.float64(2609.2), np.float64(321.4), array([2010. ,  599.2]))
    """
    return _estimate(counts, mechanism, "total", True, sample_size, population_size, rate, design)


def stratified_mean(
    counts: Any,
    *,
    mechanism: Mechanism | None = None,
    population_size: Any,
    sample_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate a population share from the noisy counts in independently sampled strata.

    It is :func:`stratified_total` divided by the size of the population, the sum of the sizes of
    the strata.

    Parameters
    ----------
    counts, mechanism, population_size, sample_size, rate, design
        As for :func:`stratified_total`; ``population_size`` is needed under both designs.

    Returns
    -------
    SurveyEstimate
        One share. Its ``strata`` are the parts that the strata have in it, which add up to it; for
        the shares within the strata use :func:`survey_mean`.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> share = stratified_mean([40.2, 74.9], mechanism=Laplace(scale=2.0), sample_size=[200, 500],
    ...                         population_size=[10_000, 4_000])
    >>> share.params.round(5), share.bse.round(5)
    (np.float64(0.18637), np.float64(0.02295))
    """
    return _estimate(counts, mechanism, "mean", True, sample_size, population_size, rate, design)


def _estimate(
    count: Any,
    mechanism: Mechanism | None,
    quantity: Quantity,
    stratified: bool,
    sample_size: Any,
    population_size: Any,
    rate: Any,
    design: DesignName,
) -> SurveyEstimate:
    """Horvitz-Thompson estimates of each count and, for strata, of their sum."""
    name = "counts" if stratified else "count"
    who = f"{'stratified' if stratified else 'survey'}_{quantity}"
    x = noisy(count, mechanism=mechanism, name=name)
    x.need(unruled=True, independent=stratified, who=who)
    shape = x.shape if x.labels is None else (len(x),)
    if len(shape) > 1 or (stratified and not shape):
        kind = "one-dimensional" if stratified else "a number or one-dimensional"
        raise InvalidParameterError(f"{name} must be {kind}, got shape {shape}")
    published, noise, labels = x.values, x.marginal, x.labels
    given = {"sample_size": sample_size, "population_size": population_size, "rate": rate}
    sampling = checked_design(design, x, given)
    weights = sampling.expansion
    if quantity == "mean":
        size = sampling.population_size
        if size is None:
            raise InvalidParameterError("population_size must be given for a mean, got None")
        weights = weights / (size.sum() if stratified else size)
    ratio = weights / sampling.expansion
    noise_variance = x.variance
    unbiased = np.square(ratio) * sampling.sampling_variance(published, noise_variance)
    cells = SurveyEstimate(
        quantity=quantity,
        params=check_array((weights * published).reshape(shape), "weighted count"),
        variance_noise=(np.square(weights) * noise_variance).reshape(shape),
        variance_sampling=np.maximum(unbiased, 0.0).reshape(shape),
        count=published,
        weights=weights,
        mechanism=noise,
        design=sampling,
        labels=labels,
        notes=_clipped(unbiased),
    )
    if not stratified:
        return cells
    total = unbiased.sum(keepdims=True)
    return SurveyEstimate(
        quantity=quantity,
        params=np.sum(cells.params),
        variance_noise=np.sum(cells.variance_noise),
        variance_sampling=max(float(total[0]), 0.0),
        count=published,
        weights=weights,
        mechanism=noise,
        design=sampling,
        strata=cells,
        notes=_clipped(total),
    )


def _clipped(unbiased: FloatArray) -> tuple[str, ...]:
    """Say where an unbiased estimate of a variance was negative."""
    negative = int(np.count_nonzero(unbiased < 0))
    if not negative:
        return ()
    return (
        f"{negative} of {unbiased.size} estimated sampling variances were negative because of the "
        "noise and are set to 0: intervals that rest on them are too short; use method='exact'",
    )
