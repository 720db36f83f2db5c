"""What randomized answers say about the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, check_alpha, check_array, check_option, freeze, show
from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_radius
from dpinfer._numerics.lattice import smallest_whole
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation.combined import Estimates, Shown, covariance_frame
from dpinfer.mechanisms import RandomizedResponse
from dpinfer.mechanisms.channels import check_counts
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels, split_labels

if TYPE_CHECKING:
    import pandas as pd


ResponseMethod = Literal["exact", "asymptotic"]
METHODS: tuple[ResponseMethod, ...] = ("exact", "asymptotic")
CELLS = 512  # intervals into which the counts of true reports are divided at most
MOST_REPORTS = 2000  # different numbers of reports up to which exact intervals take seconds


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResponseEstimate(Estimates):
    """Unbiased estimate of the categories' counts or proportions before randomization.

    Made by :func:`response_counts` and :func:`response_proportions`.

    Attributes
    ----------
    params : array of float, shape (k,), or Series
        The estimates. They may be negative, because they are not clipped.
    covariance : array of float, shape (k, k)
        Their estimated covariance.
    nobs : float
        The number of respondents.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the answers of the respondents are fixed and only the randomization varies.
        ``"noise+sampling"``: the respondents are a random sample of a population as well.
    reports : array of float, shape (k,)
        The number of reports of each category.
    mechanism : RandomizedResponse
        The channel.
    of_counts : bool
        Whether the estimates are of counts, not of proportions.
    labels : Index or None
        The labels of the categories.
    """

    params: Any
    covariance: FloatArray
    nobs: float
    uncertainty: Uncertainty
    reports: FloatArray
    mechanism: RandomizedResponse
    of_counts: bool
    labels: pd.Index | None = None

    def __post_init__(self) -> None:
        params = attach_labels(freeze(np.asarray(self.params)), self.labels)
        object.__setattr__(self, "params", params)
        for name in ("covariance", "reports"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @property
    def bse(self) -> Any:
        """Standard errors, shape (k,)."""
        return attach_labels(np.sqrt(np.diagonal(self.covariance)), self.labels)

    def cov_params(self) -> Any:
        """Return the estimated covariance (k × k) of the estimates.

        Its rows add up to zero, because the estimates add up to a number that is known.
        """
        return covariance_frame(self.covariance, self.labels)

    def conf_int(self, alpha: float = 0.05, method: ResponseMethod = "exact") -> Intervals:
        """Return confidence intervals, one for each category.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level of each interval, in (0, 1).
        method : {"exact", "asymptotic"}
            ``"exact"``: inversion of the exact law of the number of reports; covers with
            probability 1 - α or more. ``"asymptotic"``: estimate ± z·bse, not clipped.

        Returns
        -------
        Intervals
            One for each category. The exact ones are within [0, 1], or hold whole numbers of
            respondents; where the reports contradict every possible value they are empty.

        Notes
        -----
        Whatever the number of categories, the reports C of one of them have a law with one
        parameter. Where the respondents are a sample, C ~ Binomial(n, r + (p - r)π), so that the
        interval is that of Clopper and Pearson (1934), transformed and intersected with [0, 1].
        Where they are fixed, t of them with this answer, C is the sum of a Binomial(t, p) and a
        Binomial(n - t, r) count; it grows with t stochastically. The interval holds every t with
        P(C >= c; t) > α/2 and P(C <= c; t) > α/2.

        Beyond 512 values of X that matter, these are taken in groups that bound the tail: the ends
        are then up to 2 % of the width farther out. The normal interval covers less where few
        answer so: of a proportion of 0 with probability .40 at n = 10 and p = .95, of .02 with .929
        at n = 50 and p = .9, where it is to be .95 (by enumeration).

        References
        ----------
        Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits
        illustrated in the case of the binomial. Biometrika 26(4), 404-413. doi:10.2307/2331986.
        """
        method = check_option(method, "method", METHODS)
        alpha = check_alpha(alpha)
        estimate = np.asarray(self.params)
        if method == "asymptotic":
            note = "Normal quantiles and an estimated variance: approximate."
            half = -special.ndtri(alpha / 2) * np.asarray(self.bse)
            return Intervals(
                estimate=estimate,
                lower=estimate - half,
                upper=estimate + half,
                alpha=alpha,
                method=method,
                uncertainty=self.uncertainty,
                labels=self.labels,
                notes=(note,),
            )
        if self.uncertainty == "noise+sampling":
            lower, upper = self._population_ends(alpha)
        else:
            lower, upper = self._respondents_ends(alpha)
            if not self.of_counts:
                lower, upper = lower / self.nobs, upper / self.nobs
        empty = lower > upper
        return Intervals(
            estimate=estimate,
            lower=np.where(empty, np.inf, lower),
            upper=np.where(empty, -np.inf, upper),
            alpha=alpha,
            method=method,
            uncertainty=self.uncertainty,
            labels=self.labels,
        )

    def _population_ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Clopper and Pearson's ends for the share of reports, as proportions of answers."""
        c, n = self.reports, self.nobs
        some, few = np.maximum(c, 1.0), np.minimum(c, n - 1.0)
        low = np.where(c > 0, special.betaincinv(some, n - some + 1.0, alpha / 2), 0.0)
        high = np.where(c < n, special.betaincinv(few + 1.0, n - few, 1.0 - alpha / 2), 1.0)
        false, gain = self.mechanism.q, _gain(self.mechanism)
        return np.maximum((low - false) / gain, 0.0), np.minimum((high - false) / gain, 1.0)

    def _respondents_ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest number of respondents that the reports do not contradict."""
        n, p, r = self.nobs, self.mechanism.p, self.mechanism.q
        reports, at, which = np.unique(self.reports, return_index=True, return_inverse=True)
        if reports.size > MOST_REPORTS:
            raise InvalidParameterError(
                f"counts must have at most {MOST_REPORTS} different numbers for method='exact', "
                f"got {reports.size}: use method='asymptotic'"
            )

        def reaches(t: FloatArray) -> NDArray[np.bool_]:
            tail = _sum_tail(reports, np.clip(t, 0.0, n), n, p, r)
            return (t > n) | ((t >= 0) & (tail > alpha / 2))

        def exceeds(t: FloatArray) -> NDArray[np.bool_]:
            # the others' reports are counted: P(C <= c) = P(n - C >= n - c)
            tail = _sum_tail(n - reports, np.clip(t, 0.0, n), n, 1.0 - p, 1.0 - r)
            return (t > n) | ((t >= 0) & (tail <= alpha / 2))

        unit = 1.0 if self.of_counts else n
        centre = unit * np.asarray(self.params)[at]
        half = -special.ndtri(alpha / 2) * unit * np.asarray(self.bse)[at]
        low, high = (np.clip(np.rint(centre + side * half), 0.0, n) for side in (-1.0, 1.0))
        lower, upper = smallest_whole(low, reaches), smallest_whole(high, exceeds) - 1.0
        return lower[which], upper[which]

    def _shown(self) -> Shown:
        facts = [
            ("Respondents", f"{self.nobs:.15g}"),
            ("Error covered", ERROR_COVERED[self.uncertainty]),
        ]
        note = "The estimates are unbiased and not clipped."
        return Shown("Randomized response", facts, self.labels, method=None, note=note)

    def __repr__(self) -> str:
        return f"ResponseEstimate({len(self.covariance)} categories, {self.nobs:.15g} respondents)"


def response_counts(counts: Any, *, mechanism: RandomizedResponse) -> ResponseEstimate:
    """Unbiased counts of the true categories among the respondents.

    Parameters
    ----------
    counts : array of int, shape (k,), or Series
        The number of reports of each category.
    mechanism : RandomizedResponse
        The channel through which the answers went, with k categories.

    Returns
    -------
    ResponseEstimate
        Counts with the covariance that the randomization gives them; the respondents' true
        answers are fixed (``"noise"``).

    Raises
    ------
    InvalidParameterError
        If ``counts`` is not k whole numbers >= 0, or all of them are zero.
    NotEstimableError
        If p = 1/k: the reports say nothing about the answers.

    Notes
    -----
    The reports C of n respondents have E[C] = (p-r)·t + n·r for true counts t and
    r = (1-p)/(k-1), and Cov[C] = Σ_j t_j·(diag(P_j) - P_j·P_jᵀ) with the rows P_j of the
    channel. The latter is linear in t, so that the unbiased counts in place of t give an
    unbiased estimate of it.

    References
    ----------
    Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive answer
    bias. Journal of the American Statistical Association 60(309), 63-69.
    doi:10.1080/01621459.1965.10480775.

    Examples
    --------
    >>> estimate = response_counts([45, 55], mechanism=RandomizedResponse(p=0.75))
    >>> estimate.params, estimate.bse.round(4)
    (array([40., 60.]), array([8.6603, 8.6603]))
    """
    reports, labels = _reports(counts, mechanism)
    nobs = float(reports.sum())
    channel = mechanism.matrix
    gain = _gain(mechanism)
    # r = (1 - gain)/k: the same as (C - n·r)/(p - r), without cancellation where p is near 1/k
    even = nobs / mechanism.categories
    truth = even + (reports - even) / gain
    covariance = np.diag(reports) - channel.T @ (truth[:, None] * channel)
    return ResponseEstimate(
        params=truth,
        covariance=covariance / gain**2,
        nobs=nobs,
        uncertainty="noise",
        reports=reports,
        mechanism=mechanism,
        of_counts=True,
        labels=labels,
    )


def response_proportions(
    counts: Any, *, mechanism: RandomizedResponse, uncertainty: Uncertainty = "noise+sampling"
) -> ResponseEstimate:
    """Unbiased proportions of the true categories.

    Parameters
    ----------
    counts, mechanism
        As for :func:`response_counts`.
    uncertainty : {"noise+sampling", "noise"}, default "noise+sampling"
        Whether the proportions are those of the population from which the respondents are a
        simple random sample, or those among the respondents themselves.

    Returns
    -------
    ResponseEstimate
        Proportions and their covariance.

    Raises
    ------
    InvalidParameterError, NotEstimableError
        As :func:`response_counts`.

    Notes
    -----
    With the observed shares q the estimate is (q-r)/(p-r), r = (1-p)/(k-1). Under
    ``"noise+sampling"`` the reports are multinomial, which gives the covariance
    (diag(q) - q·qᵀ)/(n·(p-r)²); under ``"noise"`` it is that of the counts over n².

    References
    ----------
    Kairouz, P., Bonawitz, K. and Ramage, D. (2016). Discrete distribution estimation under local
    privacy. Proceedings of Machine Learning Research 48, 2436-2444. arXiv:1602.07387.

    Examples
    --------
    >>> estimate = response_proportions([45, 55], mechanism=RandomizedResponse(p=0.75))
    >>> estimate.params, estimate.bse.round(4)
    (array([0.4, 0.6]), array([0.0995, 0.0995]))
    """
    option = check_option(uncertainty, "uncertainty", ERROR_COVERED)
    fixed = response_counts(counts, mechanism=mechanism)
    nobs = fixed.nobs
    covariance = fixed.covariance / nobs**2
    if option == "noise+sampling":
        shares = _reports(counts, mechanism)[0] / nobs
        multinomial = np.diag(shares) - np.outer(shares, shares)
        covariance = multinomial / (nobs * _gain(mechanism) ** 2)
    return ResponseEstimate(
        params=np.asarray(fixed.params) / nobs,
        covariance=covariance,
        nobs=nobs,
        uncertainty=option,
        reports=fixed.reports,
        mechanism=mechanism,
        of_counts=False,
        labels=fixed.labels,
    )


def _reports(counts: Any, mechanism: Any) -> tuple[FloatArray, pd.Index | None]:
    if not isinstance(mechanism, RandomizedResponse):
        raise InvalidParameterError(
            f"mechanism must be a RandomizedResponse channel, got {show(mechanism)}"
        )
    values, labels = split_labels(counts, "counts")
    reports = check_counts(values, mechanism.categories, "categories")
    check_array(reports.sum(), "the sum of counts", gt=0)
    return reports, labels


def _sum_tail(c: FloatArray, t: FloatArray, n: float, first: float, second: float) -> FloatArray:
    """P(X + Y >= c) for X ~ Binomial(t, first) and Y ~ Binomial(n - t, second).

    Exact where X has at most ``CELLS`` values that matter. Otherwise they are taken in that many
    groups, with the largest of each in its place: a bound at most 1/25 of a standard deviation off.
    """
    mode = np.minimum(np.floor((t + 1.0) * first), t)
    radius = binom_radius(mode, t, LOG_NEGLIGIBLE)
    low, high = np.maximum(mode - radius, 0.0), np.minimum(mode + radius, t)
    step = np.maximum(np.ceil((high - low + 1.0) / CELLS), 1.0)
    last = low + step * np.arange(1.0, min(CELLS, float((high - low).max()) + 1.0) + 1.0)[:, None]
    last = np.minimum(last - 1.0, high)
    below = _at_most(last, t, first)
    share = np.diff(below, axis=0, prepend=np.zeros((1, c.size)))
    tail = (share * (1.0 - _at_most(c - last - 1.0, n - t, second))).sum(axis=0)
    return np.asarray(np.minimum(tail + (1.0 - below[-1]), 1.0))


def _at_most(k: FloatArray, n: FloatArray, p: float) -> FloatArray:
    """P(X <= k) for X ~ Binomial(n, p)."""
    inside = (k >= 0) & (k < n)
    first, rest = np.where(inside, k + 1.0, 1.0), np.where(inside, n - k, 1.0)
    # the smaller side is the one computed
    return np.where(inside, special.betaincc(first, rest, p), np.where(k < 0, 0.0, 1.0))


def _gain(mechanism: RandomizedResponse) -> float:
    """Return the slope p - r of the expected report in the truth."""
    k = mechanism.categories
    gain = (k * mechanism.p - 1.0) / (k - 1)
    if gain <= 1e-15:
        raise NotEstimableError(
            f"mechanism must favour the truth: with p = 1/{k} every category is reported equally "
            "often whatever the answers were, and nothing can be estimated"
        )
    return gain
