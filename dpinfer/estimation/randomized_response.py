"""What randomized answers say about the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    FloatArray,
    check_alpha,
    check_array,
    check_integer,
    check_integer_array,
    check_option,
    freeze,
    show,
    show_some,
)
from dpinfer._numerics.counts import binom_window
from dpinfer._numerics.lattice import masses, smallest_whole
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.estimation.combined import Estimates, Shown, covariance_frame
from dpinfer.mechanisms import Channel, RandomizedResponse, UnaryEncoding
from dpinfer.mechanisms.channels import MatrixChannel, check_counts
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels, split_labels

if TYPE_CHECKING:
    import pandas as pd


ResponseMethod = Literal["exact", "minimal", "score", "asymptotic"]
METHODS: tuple[ResponseMethod, ...] = ("exact", "minimal", "score", "asymptotic")
Estimator = Literal["weighted", "plain", "likelihood"]
ESTIMATORS: tuple[Estimator, ...] = ("weighted", "plain", "likelihood")
CELLS = 512  # intervals into which the counts of true reports are divided at most
MOST_REPORTS = 2000  # different numbers of reports up to which exact intervals take seconds
MOST_MINIMAL = 5000  # respondents up to which all laws are listed
MOST_CATEGORIES = 10_000  # whose covariances fit into memory
MOST_PROGRAMME = 200_000  # entries of a matrix of which linear programmes are solved
_TIES = 1.0 + 1e-9
_EDGE = 1e-9  # shares below are at the boundary

Kept = RandomizedResponse | UnaryEncoding
"""Channels whose reports say of each category whether it is the truth."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResponseEstimate(Estimates):
    """Estimate of the categories' counts or proportions before randomization.

    Made by :func:`response_counts` and :func:`response_proportions`.

    Attributes
    ----------
    params : array of float, shape (k,), or Series
        The estimates. They may be negative, because they are not clipped, but for
        ``method="likelihood"``.
    covariance : array of float, shape (k, k)
        Their estimated covariance.
    nobs : float
        The number of respondents.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the answers of the respondents are fixed and only the randomization varies.
        ``"noise+sampling"``: the respondents are a random sample of a population as well.
    reports : array of float, shape (m,)
        The number of reports of each kind; of unary encoding those with a 1 for each category.
    mechanism : Channel, RandomizedResponse or UnaryEncoding
        The channel.
    of_counts : bool
        Whether the estimates are of counts, not of proportions.
    labels : Index or None
        The labels of the categories.
    method : {"weighted", "plain", "likelihood"}
        How the estimates were made.
    """

    params: Any
    covariance: FloatArray
    nobs: float
    uncertainty: Uncertainty
    reports: FloatArray
    mechanism: Channel | Kept
    of_counts: bool
    labels: pd.Index | None = None
    method: Estimator = "weighted"

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

        Where the estimates add up to the number of respondents, as all do but those of unary
        encoding and of plain inverses, its rows add up to zero.
        """
        return covariance_frame(self.covariance, self.labels)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.params), self.labels

    def conf_int(self, alpha: float = 0.05, method: ResponseMethod = "exact") -> Intervals:
        """Return confidence intervals, one for each category.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level of each interval, in (0, 1).
        method : {"exact", "minimal", "score", "asymptotic"}
            ``"exact"``: inversion of the exact law of the number of reports; covers with
            probability 1 - α or more. ``"minimal"``: inversion of the smallest sets of reports
            that have probability 1 - α, which covers as well and is mostly narrower; for
            ``"noise"`` and at most 5,000 respondents. ``"score"``: with the normal law and the
            variance at each hypothetical value. ``"asymptotic"``: estimate ± z·bse, not clipped.

        Returns
        -------
        Intervals
            One for each category. But for the asymptotic ones they are within [0, 1], or hold
            whole numbers of respondents; where the reports contradict every possible value they
            are empty.

        Notes
        -----
        Whatever the number of categories of randomized response or unary encoding, the reports C
        of one of them have a law with one parameter. Where the respondents are a sample,
        C ~ Binomial(n, q + (p - q)π), so that the interval is that of Clopper and Pearson (1934),
        transformed and intersected with [0, 1]. Where they are fixed, t of them with this answer,
        C is the sum of a Binomial(t, p) and a Binomial(n - t, q) count; it grows with t
        stochastically. The interval holds every t with P(C >= c; t) > α/2 and P(C <= c; t) > α/2;
        the minimal one is from the first to the last t with P(f(C) <= f(c); t) > α, f the
        probabilities of C, which are found to within 1e-12.

        Reports of other channels depend on all categories together. Their exact intervals hold
        every value of a category for which some values of the others give all numbers of reports
        expectations within Clopper and Pearson's interval of level 1 - α/m each. That is for a
        sample, and holds for fixed respondents as well, whose counts vary less (Hoeffding 1956,
        Theorem 4; next to 0 and n by Markov's inequality). Such intervals are wide: they hold
        together for all categories, and each misses more rarely than α.

        Beyond 512 values of X that matter, these are taken in groups that bound the tail: the ends
        are then up to 2 % of the width farther out. The normal interval covers less where few
        answer so: of a proportion of 0 with probability .40 at n = 10 and p = .95, of .02 with .929
        at n = 50 and p = .9, where it is to be .95 (by enumeration); the score interval of counts
        .929 at n = 20, k = 4 and ε = 1.

        References
        ----------
        Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits
        illustrated in the case of the binomial. Biometrika 26(4), 404-413. doi:10.2307/2331986.

        Hoeffding, W. (1956). On the distribution of the number of successes in independent trials.
        Annals of Mathematical Statistics 27(3), 713-721. doi:10.1214/aoms/1177728178.
        """
        method = check_option(method, "method", METHODS)
        alpha = check_alpha(alpha)
        note: tuple[str, ...] = ()
        unit = 1.0 if self.of_counts else self.nobs
        if method == "asymptotic":
            lower, upper = self._normal_ends(alpha)
            note = ("Normal quantiles and an estimated variance: approximate.",)
        elif isinstance(self.mechanism, Channel):
            if method != "exact":
                raise InvalidParameterError(
                    f"method must be 'exact' or 'asymptotic' for a channel by its matrix, got "
                    f"{method!r}: no number of reports depends on one category alone"
                )
            lower, upper = self._projected_ends(alpha)
        elif method == "score":
            lower, upper = self._score_ends(self.mechanism, alpha)
            note = ("Normal quantiles and the variance at each hypothetical value: approximate.",)
        elif self.uncertainty == "noise+sampling":
            if method == "minimal":
                raise InvalidParameterError(
                    "method must be 'exact', 'score' or 'asymptotic' for a sample of a population, "
                    "got 'minimal', which is for counts of respondents"
                )
            lower, upper = self._population_ends(self.mechanism, alpha)
        else:
            ends = self._minimal_ends if method == "minimal" else self._respondents_ends
            lower, upper = (end / unit for end in ends(self.mechanism, alpha))
        empty = lower > upper
        return Intervals(
            estimate=np.asarray(self.params),
            lower=np.where(empty, np.inf, lower),
            upper=np.where(empty, -np.inf, upper),
            alpha=alpha,
            method=method,
            uncertainty=self.uncertainty,
            labels=self.labels,
            notes=note,
        )

    def _normal_ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        estimate = np.asarray(self.params)
        unit = self.nobs if self.of_counts else 1.0
        if self.method == "likelihood" and estimate.min() < _EDGE * unit:
            raise InvalidParameterError(
                "method must be 'exact' where the likelihood is largest at a boundary, got "
                "'asymptotic': estimates of zero are not normal; or estimate with "
                "method='weighted', which is not clipped"
            )
        half = -special.ndtri(alpha / 2) * np.asarray(self.bse)
        return estimate - half, estimate + half

    def _score_ends(self, channel: Kept, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Where (C - E)² is z²·Var, at the count t or the share of reports."""
        n, p, q = self.nobs, channel.p, channel.q
        z = float(special.ndtri(alpha / 2)) ** 2
        if self.uncertainty == "noise":
            # of t: (C - nq - t(p - q))² against z²·(n·q(1-q) + t·(p(1-p) - q(1-q)))
            gain, centre = channel.slope, self.reports - n * q
            base, rise = n * q * (1.0 - q), channel.slope * (1.0 - p - q)
            mean, rest = gain * centre + 0.5 * z * rise, centre**2 - z * base
            half = np.sqrt(np.maximum(mean**2 - gain**2 * rest, 0.0))
            low, high = ((mean + side * half) / gain**2 for side in (-1.0, 1.0))
            low, high = np.ceil(np.maximum(low, 0.0)), np.floor(np.minimum(high, n))
            return (low, high) if self.of_counts else (low / n, high / n)
        share = self.reports / n
        middle = (share + 0.5 * z / n) / (1.0 + z / n)
        half = np.sqrt(z * (share * (1.0 - share) / n + 0.25 * z / n**2)) / (1.0 + z / n)
        low, high = ((middle + side * half - q) / channel.slope for side in (-1.0, 1.0))
        return np.maximum(low, 0.0), np.minimum(high, 1.0)

    def _minimal_ends(self, channel: Kept, alpha: float) -> tuple[FloatArray, FloatArray]:
        n = int(self.nobs)
        if n > MOST_MINIMAL:
            raise InvalidParameterError(
                f"method must not be 'minimal' with more than {MOST_MINIMAL} respondents, got {n}: "
                "use 'exact'"
            )
        reports, which = np.unique(self.reports.astype(np.int64), return_inverse=True)
        lower, upper = np.full(reports.size, np.inf), np.full(reports.size, -np.inf)
        size = 1 << int(np.ceil(np.log2(n + 1.0)))
        turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size) - 1.0
        kept, false = (np.log(1.0 + rate * turn + 1e-300) for rate in (channel.p, channel.q))
        rows = max((1 << 22) // size, 1)
        for start in range(0, n + 1, rows):
            t = np.arange(start, min(start + rows, n + 1.0))
            cf = np.exp(np.multiply.outer(t, kept) + np.multiply.outer(n - t, false))
            pmf = np.maximum(masses(cf, size)[:, : n + 1], 0.0)
            for i, c in enumerate(reports):
                rarer = pmf <= _TIES * pmf[:, c : c + 1]
                held = t[np.where(rarer, pmf, 0.0).sum(axis=1) > alpha]
                if held.size:
                    lower[i], upper[i] = min(lower[i], held[0]), max(upper[i], held[-1])
        return lower[which], upper[which]

    def _projected_ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        from scipy import optimize

        assert isinstance(self.mechanism, Channel)
        matrix = self.mechanism.matrix
        if matrix.size > MOST_PROGRAMME:
            raise InvalidParameterError(
                f"method must be 'asymptotic' for a matrix with more than {MOST_PROGRAMME} "
                f"entries, got shape {matrix.shape}: a linear programme for each end takes too long"
            )
        n, level = self.nobs, alpha / matrix.shape[1]
        low, high = _clopper_pearson(self.reports, n, level)
        if self.uncertainty == "noise":
            # where Hoeffding's theorem says nothing, by Markov's inequality
            low = np.where(self.reports == 1, np.minimum(low, 0.5 * level / n), low)
            high = np.where(self.reports == n - 1, np.maximum(high, 1.0 - 0.5 * level / n), high)
        bounds = {
            "A_ub": np.vstack([matrix.T, -matrix.T]),
            "b_ub": np.concatenate([high, -low]),
            "A_eq": np.ones((1, matrix.shape[0])),
            "b_eq": [1.0],
        }
        lower, upper = np.full(matrix.shape[0], np.inf), np.full(matrix.shape[0], -np.inf)
        for i in range(matrix.shape[0]):
            ends = []
            for side in (1.0, -1.0):
                target = np.zeros(matrix.shape[0])
                target[i] = side
                found = optimize.linprog(target, **bounds, bounds=(0.0, 1.0), method="highs")
                if found.status == 2:  # no shares at all give these reports
                    return lower, upper
                if found.status != 0:
                    raise ConvergenceError(f"the linear programme failed: {found.message}")
                # solved to 1e-7
                ends.append(side * float(found.fun) - side * 1e-7)
            lower[i], upper[i] = max(ends[0], 0.0), min(ends[1], 1.0)
        if self.uncertainty == "noise":  # whole numbers of respondents
            lower, upper = np.ceil(lower * self.nobs - 1e-6), np.floor(upper * self.nobs + 1e-6)
            if not self.of_counts:
                lower, upper = lower / self.nobs, upper / self.nobs
        return lower, upper

    def _population_ends(self, channel: Kept, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Clopper and Pearson's ends for the share of reports, as proportions of answers."""
        low, high = _clopper_pearson(self.reports, self.nobs, alpha)
        false, gain = channel.q, channel.slope
        return np.maximum((low - false) / gain, 0.0), np.minimum((high - false) / gain, 1.0)

    def _respondents_ends(self, channel: Kept, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest number of respondents that the reports do not contradict."""
        n, p, r = self.nobs, channel.p, channel.q
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
        by_matrix = isinstance(self.mechanism, Channel)
        note = _LIKELY if self.method == "likelihood" else _UNBIASED
        if self.method == "weighted" and self.reports.size > np.size(self.params):
            note = _WEIGHTED
        return Shown(
            "Reports through a channel" if by_matrix else "Randomized response",
            facts,
            self.labels,
            method=self.method if by_matrix or self.method == "likelihood" else None,
            note=note,
        )

    def __repr__(self) -> str:
        return f"ResponseEstimate({len(self.covariance)} categories, {self.nobs:.15g} respondents)"


_UNBIASED = "The estimates are unbiased and not clipped."
_WEIGHTED = "The estimates are not clipped, and unbiased for many respondents."
_LIKELY = "The estimates are the most likely shares, none of which is negative: biased."


def response_counts(
    counts: Any,
    *,
    mechanism: Channel | RandomizedResponse | UnaryEncoding,
    nobs: int | None = None,
    method: Estimator = "weighted",
) -> ResponseEstimate:
    """Estimate the counts of the true categories among the respondents.

    Parameters
    ----------
    counts : array of int, shape (m,), or Series
        The number of reports of each kind: of each category, of each column of a channel, or, for
        unary encoding, of those with a 1 for a category, at most 10,000 of its categories. A Series
        is matched with the names of the reports, where a channel has names.
    mechanism : Channel, RandomizedResponse or UnaryEncoding
        The channel through which the answers went.
    nobs : int, optional
        The number n of respondents: needed for unary encoding, whose ones do not add up to it, and
        the sum of ``counts`` otherwise.
    method : {"weighted", "plain", "likelihood"}
        How a channel with more reports than truths is inverted. ``"weighted"``: by least squares
        with the weights of the likelihood, which is as precise. ``"plain"``: by the
        pseudo-inverse, whose weights are fixed: exactly unbiased. ``"likelihood"``: the most
        likely shares on the simplex, for reports of one kind each; not unbiased.

    Returns
    -------
    ResponseEstimate
        Counts with the covariance that the randomization gives them; the respondents' true
        answers are fixed (``"noise"``).

    Raises
    ------
    InvalidParameterError
        If ``counts`` is not whole numbers >= 0, one for each report, or all of them are zero.
    NotEstimableError
        If some truths are not told apart by the reports; they are named.

    Notes
    -----
    The reports C of n respondents have E[C] = Pᵀt for true counts t and the matrix P of the
    channel, and Cov[C] = Σ_j t_j·(diag(P_j) - P_j·P_jᵀ). Any left inverse G of Pᵀ gives unbiased
    counts G·C and the covariance G·Cov[C]·Gᵀ, in which these are put for t; it is that at the most
    likely shares where it would have a negative variance otherwise. With as many reports as truths
    there is one G. The weighted one is (P·W·Pᵀ)⁻¹·P·W with W = diag(1/Pᵀt'), t' the most likely
    counts with half a respondent more in each category: unbiased for large n, with the variances
    of the likelihood, and adding up to n.

    For randomized response and unary encoding it is (C - n·q)/(p - q), with a variance
    (t·p(1-p) + (n-t)·q(1-q))/(p-q)². Counts of unary encoding need not add up to n: the bits of a
    report are independent.

    Where the most likely shares are all positive, and there are as many reports as truths, they
    are the unbiased ones. Otherwise they are not these clipped and rescaled.

    References
    ----------
    Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive answer
    bias. Journal of the American Statistical Association 60(309), 63-69.
    doi:10.1080/01621459.1965.10480775.

    Wang, T., Blocki, J., Li, N. and Jha, S. (2017). Locally differentially private protocols for
    frequency estimation. 26th USENIX Security Symposium, 729-745.

    Examples
    --------
    >>> estimate = response_counts([45, 55], mechanism=RandomizedResponse(p=0.75))
    >>> estimate.params, estimate.bse.round(4)
    (array([40., 60.]), array([8.6603, 8.6603]))

    The 1,000 reports of an optimised unary encoding had 300 ones for the first category:

    >>> channel = UnaryEncoding.optimised(1.0, categories=500)
    >>> estimate = response_counts([300], nobs=1000, mechanism=channel)
    >>> estimate.params.round(1), estimate.bse.round(1)
    (array([134.4]), array([61.8]))
    """
    return _estimate(counts, mechanism, nobs, method, "noise", of_counts=True)


def response_proportions(
    counts: Any,
    *,
    mechanism: Channel | RandomizedResponse | UnaryEncoding,
    nobs: int | None = None,
    uncertainty: Uncertainty = "noise+sampling",
    method: Estimator = "weighted",
) -> ResponseEstimate:
    """Estimate the proportions of the true categories.

    Parameters
    ----------
    counts, mechanism, nobs
        As for :func:`response_counts`.
    uncertainty : {"noise+sampling", "noise"}, default "noise+sampling"
        Whether the proportions are those of the population from which the respondents are a
        simple random sample, or those among the respondents themselves.
    method : {"weighted", "plain", "likelihood"}
        As for :func:`response_counts`.

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
    With the observed shares c the estimate is G·c, and for randomized response and unary encoding
    (c-q)/(p-q). Under ``"noise+sampling"`` the reports are multinomial, which gives the covariance
    G·(diag(c) - c·cᵀ)·Gᵀ/n; of unary encoding the variances are c(1-c)/(n·(p-q)²) and the
    covariances those of the answers, -π_i·π_j/n. Under ``"noise"`` it is that of the counts over
    n², which is never larger.

    References
    ----------
    Kairouz, P., Bonawitz, K. and Ramage, D. (2016). Discrete distribution estimation under local
    privacy. Proceedings of Machine Learning Research 48, 2436-2444. arXiv:1602.07387.

    Examples
    --------
    >>> estimate = response_proportions([45, 55], mechanism=RandomizedResponse(p=0.75))
    >>> estimate.params, estimate.bse.round(4)
    (array([0.4, 0.6]), array([0.0995, 0.0995]))
    >>> from dpinfer.mechanisms import Channel
    >>> channel = Channel([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    >>> estimate = response_proportions([230, 310, 230, 230], mechanism=channel)
    >>> estimate.params.round(6), estimate.bse.round(4)
    (array([0.2, 0.3, 0.5]), array([0.0337, 0.0542, 0.0367]))
    """
    option = check_option(uncertainty, "uncertainty", ERROR_COVERED)
    return _estimate(counts, mechanism, nobs, method, option, of_counts=False)


def _estimate(
    counts: Any, mechanism: Any, nobs: Any, method: Any, uncertainty: Any, *, of_counts: bool
) -> ResponseEstimate:
    how = check_option(method, "method", ESTIMATORS)
    reports, labels, n = _reports(counts, mechanism, nobs)
    sampled = uncertainty == "noise+sampling"
    if isinstance(mechanism, UnaryEncoding):
        if how == "likelihood":
            raise InvalidParameterError(
                "method must be 'weighted' or 'plain' for unary encoding, got 'likelihood': counts "
                "of ones do not tell which of them are of one report"
            )
        truth, covariance = _of_bits(reports, mechanism, n, sampled)
    elif isinstance(mechanism, RandomizedResponse) and how != "likelihood":
        gain = _gain(mechanism)
        # q = (1 - gain)/k: the same as (C - n·q)/(p - q), without cancellation where p is near 1/k
        even = n / mechanism.categories
        truth = even + (reports - even) / gain
        matrix = mechanism.matrix
        spread = (
            (reports[:, None] * reports / n) if sampled else matrix.T @ (truth[:, None] * matrix)
        )
        covariance = (np.diag(reports) - spread) / gain**2
    else:
        truth, covariance = _inverted(reports, mechanism, n, how, sampled)
    unit = 1.0 if of_counts else n
    return ResponseEstimate(
        params=truth / unit,
        covariance=covariance / unit**2,
        nobs=n,
        uncertainty=uncertainty,
        reports=reports,
        mechanism=mechanism,
        of_counts=of_counts,
        labels=labels,
        method=how,
    )


def _of_bits(
    ones: FloatArray, channel: UnaryEncoding, n: float, sampled: bool
) -> tuple[FloatArray, FloatArray]:
    p, q, gain = channel.p, channel.q, _gain(channel)
    truth = (ones - n * q) / gain
    if sampled:
        covariance = -truth[:, None] * truth / n
        variance = ones * (1.0 - ones / n) / gain**2
    else:
        covariance = np.zeros((ones.size, ones.size))
        # t·p(1-p) + (n-t)·q(1-q) at the estimate, which is never negative so
        variance = (ones * (1.0 - p - q) + n * p * q) / gain**2
    np.fill_diagonal(covariance, np.maximum(variance, 0.0))
    return truth, covariance


def _inverted(
    reports: FloatArray, channel: MatrixChannel, n: float, method: Estimator, sampled: bool
) -> tuple[FloatArray, FloatArray]:
    """Estimated counts by a left inverse of the transposed matrix, and their covariance."""
    matrix = channel.matrix
    _demand_rank(matrix, channel)
    share = reports / n
    square = matrix.shape[0] == matrix.shape[1]
    likely = None
    if method == "likelihood" or (method == "weighted" and not square):
        likely = most_likely(matrix, share)
    if method == "plain" or likely is None:
        inverse = np.linalg.inv(matrix.T) if square else np.linalg.pinv(matrix.T)
    else:
        # weights of fitted shares, so that the estimates add up to n
        fitted = (n * likely + 0.5) / (n + 0.5 * likely.size) @ matrix
        half = matrix / np.where(fitted > 0, fitted, 1.0)
        inverse = np.linalg.solve(half @ matrix.T, half)
    truth = inverse @ share if method != "likelihood" or likely is None else likely

    def covariance(of: FloatArray) -> FloatArray:
        seen = share if method != "likelihood" else of @ matrix
        spread = np.outer(seen, seen) if sampled else matrix.T @ (of[:, None] * matrix)
        middle = np.diag(seen if sampled else of @ matrix) - spread
        return np.asarray(inverse @ middle @ inverse.T)

    found = covariance(truth)
    if (np.diagonal(found) < 0).any():
        found = covariance(likely if likely is not None else most_likely(matrix, share))
    np.fill_diagonal(found, np.maximum(np.diagonal(found), 0.0))
    return n * truth, n * found


def _demand_rank(matrix: FloatArray, channel: MatrixChannel) -> None:
    _, sizes, right = np.linalg.svd(matrix.T, full_matrices=True)
    rank = int(np.count_nonzero(sizes > 1e-12 * sizes[0]))
    if rank < matrix.shape[0]:
        mixed = np.flatnonzero(np.abs(right[rank:]).max(axis=0) > 1e-9)
        names = channel.truths if isinstance(channel, Channel) else range(matrix.shape[0])
        raise NotEstimableError(
            f"mechanism must tell the truths apart: shares of {show_some(names[i] for i in mixed)} "
            "can be exchanged for one another without a change in the reports"
        )


MOST_ROUNDS = 2000
_GAP = 1e-13


def most_likely(matrix: FloatArray, share: FloatArray) -> FloatArray:
    """Shares t of truths with the largest likelihood Σ_j c_j·ln (Pᵀt)_j of reports' shares c.

    By expectation and maximisation, and Newton's method on the truths that are left. With
    g = P·(c/Pᵀt) no shares have a log likelihood, per report, above that of t by max(g) - 1.
    """
    seen = share > 0
    rows, c = matrix[:, seen], share[seen]

    def gains(t: FloatArray) -> FloatArray:
        return np.asarray(rows @ (c / (t @ rows)))

    t = np.full(matrix.shape[0], 1.0 / matrix.shape[0])
    for _ in range(MOST_ROUNDS):
        for _ in range(20):
            t = t * gains(t)
            t /= t.sum()
        t = _newton(rows, c, t)
        if gains(t).max() - 1.0 <= _GAP:
            return t
    raise ConvergenceError(
        f"the likelihood is still {gains(t).max() - 1.0:.1e} from its maximum after {MOST_ROUNDS} "
        "rounds: the channel hardly tells some truths apart"
    )


def _newton(rows: FloatArray, c: FloatArray, t: FloatArray) -> FloatArray:
    """Take Newton's steps on the truths with a share, and drop those whose share falls to zero.

    What is dropped wrongly comes back with a little share, as its gain is above 1.
    """
    start, value = t, float(c @ np.log(t @ rows))
    on = t > 1e-12 * t.max()
    for _ in range(50):
        t = np.where(on, t, 0.0)
        fit = t @ rows
        half = rows[on] / fit
        gain = half @ c - 1.0
        step = np.linalg.lstsq((half * c) @ half.T, gain, rcond=None)[0]
        size = 1.0
        if (falling := step < 0).any():
            size = min(1.0, float((t[on][falling] / -step[falling]).min()))
        moved = np.zeros(t.size)
        moved[on] = np.maximum(t[on] + size * step, 0.0)
        if size < 1.0:
            moved[moved <= 1e-14 * moved.max()] = 0.0
        t, on = moved / moved.sum(), moved > 0
        if size == 1.0 and np.abs(step).max() <= 1e-15:
            break
    fit = t @ rows
    if not (fit > 0).all() or float(c @ np.log(fit)) < value - 1e-15:
        return start
    lost = (t == 0) & (rows @ (c / fit) > 1.0)
    return np.where(lost, 1e-3 * start, t) / float(np.where(lost, 1e-3 * start, t).sum())


def _reports(counts: Any, mechanism: Any, nobs: Any) -> tuple[FloatArray, pd.Index | None, float]:
    """Return the reports, the labels of the truths, and the number of respondents."""
    if not isinstance(mechanism, Channel | RandomizedResponse | UnaryEncoding):
        raise InvalidParameterError(
            "mechanism must be a RandomizedResponse, UnaryEncoding or Channel, got "
            f"{show(mechanism)}"
        )
    values, labels = split_labels(counts, "counts")
    if isinstance(mechanism, UnaryEncoding):
        return _ones(values, mechanism, nobs), labels, float(nobs)
    if isinstance(mechanism, Channel):
        reports = check_counts(values, mechanism.matrix.shape[1], "reports of the channel")
        reports, labels = _matched(reports, labels, mechanism)
    else:
        reports = check_counts(values, mechanism.categories, "categories")
    check_array(reports.sum(), "the sum of counts", gt=0)
    total = float(reports.sum())
    if nobs is not None and check_integer(nobs, "nobs", ge=1) != total:
        raise InvalidParameterError(
            f"nobs must be the sum of counts, {total:.15g}, got {show(nobs)}: each respondent "
            "gives one report"
        )
    return reports, labels, total


def _ones(values: FloatArray, channel: UnaryEncoding, nobs: Any) -> FloatArray:
    if nobs is None:
        raise InvalidParameterError(
            "nobs must be given for unary encoding: the ones do not add up to the number of "
            "respondents"
        )
    n = check_integer(nobs, "nobs", ge=1, le=10**15)
    ones = check_integer_array(values, "counts", ge=0, le=n)
    most = min(channel.categories, MOST_CATEGORIES)
    if ones.ndim != 1 or ones.size > most:
        raise InvalidParameterError(
            f"counts must have one entry for each of at most {most} categories, got shape "
            f"{ones.shape}"
        )
    return ones


def _matched(
    reports: FloatArray, labels: pd.Index | None, channel: Channel
) -> tuple[FloatArray, pd.Index | None]:
    """Return reports in the order of the channel's names, and the names of its truths."""
    import pandas as pd

    named = channel.reports != tuple(range(len(channel.reports)))
    if labels is not None and named:
        at = {name: i for i, name in enumerate(labels)}
        if at.keys() != set(channel.reports):
            raise InvalidParameterError(
                f"counts must be labelled by the reports {show_some(channel.reports)}, got "
                f"{show_some(labels)}"
            )
        reports = reports[[at[name] for name in channel.reports]]
    if channel.truths == tuple(range(len(channel.truths))) and labels is None:
        return reports, None
    return reports, pd.Index(channel.truths, tupleize_cols=False)


def _clopper_pearson(c: FloatArray, n: float, alpha: float) -> tuple[FloatArray, FloatArray]:
    some, few = np.maximum(c, 1.0), np.minimum(c, n - 1.0)
    low = np.where(c > 0, special.betaincinv(some, n - some + 1.0, alpha / 2), 0.0)
    high = np.where(c < n, special.betaincinv(few + 1.0, n - few, 1.0 - alpha / 2), 1.0)
    return low, high


def _sum_tail(c: FloatArray, t: FloatArray, n: float, first: float, second: float) -> FloatArray:
    """P(X + Y >= c) for X ~ Binomial(t, first) and Y ~ Binomial(n - t, second).

    Exact where X has at most ``CELLS`` values that matter. Otherwise they are taken in that many
    groups, with the largest of each in its place: a bound at most 1/25 of a standard deviation off.
    """
    low, high = binom_window(t, np.asarray(first))
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


def _gain(channel: Kept) -> float:
    """Return the slope p - q of the expected report in the truth."""
    if channel.slope <= 1e-15:
        raise NotEstimableError(
            f"mechanism must favour the truth, got {show(channel)}: every category is reported "
            "equally often whatever the answers were, and nothing can be estimated"
        )
    return channel.slope
