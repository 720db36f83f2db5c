"""What randomized answers say about the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, check_array, check_option, freeze, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation.normal import normal_intervals
from dpinfer.estimation.summaries import covariance_frame, estimates_frame, summary_table
from dpinfer.mechanisms import RandomizedResponse
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels, split_labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResponseEstimate:
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
    labels : Index or None
        The labels of the categories.
    """

    params: Any
    covariance: FloatArray
    nobs: float
    uncertainty: Uncertainty
    labels: pd.Index | None = None

    def __post_init__(self) -> None:
        params = attach_labels(freeze(np.asarray(self.params)), self.labels)
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "covariance", freeze(self.covariance))

    @property
    def bse(self) -> Any:
        """Standard errors, shape (k,)."""
        return attach_labels(np.sqrt(np.diagonal(self.covariance)), self.labels)

    def cov_params(self) -> Any:
        """Return the covariance of the estimates.

        Returns
        -------
        array of float, shape (k, k), or DataFrame
            Their estimated covariance; its rows add up to zero, because the estimates add up to a
            number that is known.
        """
        return covariance_frame(self.covariance, self.labels)

    def conf_int(self, alpha: float = 0.05) -> Intervals:
        """Return normal confidence intervals.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level of each interval, in (0, 1).

        Returns
        -------
        Intervals
            Estimate ± z·bse. They hold in the limit of many reports of each category, and are not
            clipped to the possible range; see :meth:`Intervals.restrict`.
        """
        estimate, std_err = np.asarray(self.params), np.asarray(self.bse)
        return normal_intervals(estimate, std_err, alpha, self.labels, uncertainty=self.uncertainty)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return estimates, standard errors and intervals, one row a category.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        DataFrame
            With the columns ``estimate``, ``std_err``, ``ci_lower`` and ``ci_upper``.
        """
        return estimates_frame(self.conf_int(alpha), self.bse)

    def summary(self, alpha: float = 0.05) -> str:
        """Return :meth:`summary_frame` as a plain-text table that says which error it covers.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        str
            The table.
        """
        frame = self.summary_frame(alpha)
        return summary_table(
            "Randomized response",
            [
                ("Respondents", f"{self.nobs:.15g}"),
                ("Intervals", f"{1 - alpha:.6g}, normal"),
                ("Error covered", ERROR_COVERED[self.uncertainty]),
            ],
            frame,
            index=frame.index if self.labels is not None else None,
            notes=["Unbiased; not clipped. Intervals hold in the limit of many reports."],
        )

    def __repr__(self) -> str:
        return f"ResponseEstimate({len(self.covariance)} categories, {self.nobs:.15g} respondents)"

    def __str__(self) -> str:
        return self.summary()


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
    channel = mechanism.channel
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
        labels=labels,
    )


def response_proportions(
    counts: Any, *, mechanism: RandomizedResponse, uncertainty: Uncertainty = "noise+sampling"
) -> ResponseEstimate:
    """Unbiased proportions of the true categories.

    Parameters
    ----------
    counts : array of int, shape (k,), or Series
        The number of reports of each category.
    mechanism : RandomizedResponse
        The channel through which the answers went, with k categories.
    uncertainty : {"noise+sampling", "noise"}, default "noise+sampling"
        Whether the proportions are those of the population from which the respondents are a
        simple random sample, or those among the respondents themselves.

    Returns
    -------
    ResponseEstimate
        Proportions and their covariance.

    Raises
    ------
    InvalidParameterError
        If ``counts`` is not k whole numbers >= 0, or all of them are zero.
    NotEstimableError
        If p = 1/k: the reports say nothing about the answers.

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
        labels=fixed.labels,
    )


def _reports(counts: Any, mechanism: Any) -> tuple[FloatArray, pd.Index | None]:
    if not isinstance(mechanism, RandomizedResponse):
        raise InvalidParameterError(
            f"mechanism must be a RandomizedResponse channel, got {show(mechanism)}"
        )
    values, labels = split_labels(counts, "counts")
    reports = mechanism.check_counts(values)
    check_array(reports.sum(), "the sum of counts", gt=0)
    return reports, labels


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
