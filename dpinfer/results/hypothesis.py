"""The result of a hypothesis test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, check_alpha, check_array, check_option, freeze
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels, labelled_frame, split_labels
from dpinfer.results.null import NullDistribution
from dpinfer.results.presentation import Plotted, Rows
from dpinfer.results.tables import Table, printed_pvalue

if TYPE_CHECKING:
    import pandas as pd


_MOST_SHOWN = 100
"""So many intervals are made for a summary."""


_MOST_SHOWN = 100
"""So many intervals are made for a summary, unless they take long."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HypothesisResult(Rows, Plotted):
    """A test statistic with its p-value, or several of them, and the effect that is tested.

    Unpacks as ``statistic, pvalue``. :meth:`conf_int` inverts the test.

    Parameters
    ----------
    name : str
        What was tested, the title of the summary.
    statistic, pvalue : float or array of float
        The observed statistics and their p-values, of one shape. Held as pandas Series where
        there are ``labels``.
    alternative : {"two-sided", "larger", "smaller"}
        Which values of the statistic speak against the null hypothesis.
    method : str
        How the null distribution was found, by the name of the ``method=`` argument that chose it.
    null_distribution : NullDistribution
        The law of the statistic under the null hypothesis.
    uncertainty : {"noise", "noise+sampling"}
        The source of error that the p-value accounts for.
    nobs : float or array of float, optional
        Number of observations behind each statistic; None where none is involved.
    mc_error : float or array of float
        Monte Carlo standard error of ``pvalue``; 0 where nothing was simulated.
    pvalue_error : float or array of float, optional
        Absolute error of ``pvalue`` where that is what bounds it; 0 where it is accurate relative
        to its size. By default that of ``null_distribution``. No smaller ``pvalue`` is held: one
        that is equal to it stands for "not above", and is printed as "< 1e-12".
    labels : pandas.Index, optional
        One label for each statistic.
    notes : tuple of str
        What else the reader has to know, one remark each.
    decided : bool, default True
        Whether the test decides. Where its conditions fail it does not: ``pvalue`` is then 1, which
        rejects nothing, and ``notes`` says why.
    effect : str, optional
        What the hypothesis is about, such as ``"proportion"`` or ``"odds ratio"``; None where the
        test looks for departures of any kind, which no one number describes.
    estimate : float or array of float, optional
        The estimate of it, for each test; may be outside of the possible values, as unbiased
        estimates are.
    inversion : callable, optional
        Makes the intervals of :meth:`conf_int` from ``alpha``.

    Examples
    --------
    >>> from dpinfer import Laplace, proportions_ztest
    >>> result = proportions_ztest(34.21, 100, 0.255, mechanism=Laplace(scale=2.0))
    >>> result
    HypothesisResult('Test of one proportion', statistic=1.99834, pvalue=0.0922426)
    >>> result.uncertainty
    'noise+sampling'
    >>> result.effect, result.estimate.round(4)
    ('proportion', np.float64(0.3421))
    >>> result.conf_int()
    Intervals([0.241137, 0.454698], level 0.95, exact)
    """

    name: str
    statistic: Any
    pvalue: Any
    alternative: Alternative
    method: str
    null_distribution: NullDistribution
    uncertainty: Uncertainty
    nobs: Any = None
    mc_error: Any = 0.0
    pvalue_error: Any = None
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()
    decided: bool = True
    effect: str | None = None
    estimate: Any = None
    inversion: Callable[[float], Intervals] | None = None
    _made: dict[float, Intervals] = field(default_factory=dict, init=False)

    _drawing: ClassVar[str] = "plot_null"
    _by_row: ClassVar[tuple[str, ...]] = (
        "statistic",
        "pvalue",
        "mc_error",
        "pvalue_error",
        "nobs",
        "estimate",
    )

    def __post_init__(self) -> None:
        shape = np.shape(self.statistic) if self.labels is None else (len(self.labels),)
        own = self.__dict__  # what is frozen is written where it is held
        if self.pvalue_error is None:
            own["pvalue_error"] = self.null_distribution.pvalue_error(np.asarray(self.statistic))
        for name in ("statistic", "pvalue_error", "pvalue", "mc_error"):
            array = np.asarray(own[name], dtype=np.float64)
            if array.shape not in ((), shape):
                raise InvalidParameterError(
                    f"{name} must have shape {shape}, one entry a test, got {array.shape}"
                )
            if array.ndim and array.size and not any(array.strides):
                array = array.reshape(-1)[0]  # one number for all tests takes the room of one
            if name == "pvalue_error":
                error = array
            if name == "pvalue":
                array = np.maximum(array, error)
            if shape:
                array = np.broadcast_to(array if name == "pvalue" else freeze(array), shape)
            own[name] = attach_labels(array, self.labels) if shape else array[()]
        if self.estimate is not None:
            found = np.asarray(self.estimate, dtype=np.float64)
            labels = self.labels if found.shape == shape else None
            own["estimate"] = attach_labels(freeze(found), labels) if found.shape else found[()]

    def conf_int(self, alpha: float = 0.05) -> Intervals:
        """Return the values of the effect that the test does not reject at a level.

        The interval inverts this very test, by the same method, for the same alternative and the
        same sources of error: it holds the value of the null hypothesis exactly where the p-value
        is not below ``alpha``. One-sided alternatives have one-sided intervals. Where p-values
        jump, what is not rejected may have gaps; the interval is then the smallest that holds all
        of it, and a note says so. It is computed on the first call for each ``alpha``.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        Intervals
            One for each test, with its labels; ``estimate`` is that of the effect.

        Raises
        ------
        InvalidParameterError
            If ``alpha`` is outside (0, 1), or no interval inverts the test: chi-squared tests look
            for departures of any kind, and the difference of two proportions of unknown numbers of
            trials has these beside it. :func:`~dpinfer.intervals.risk_difference_confint` takes
            these, as ``row_totals`` with ``uncertainty="noise+sampling"``.
        """
        level = check_alpha(alpha)
        if self.inversion is None:
            raise InvalidParameterError(
                f"{self.name}: no interval inverts it, as no one number, free of others that "
                "are unknown, says how far the counts are from what was tested: test contrasts "
                "with linear_ztest, compare two groups of known size with proportions_2indep, or "
                "groups of unknown size with risk_difference_confint, risk_ratio_confint or "
                "odds_ratio_confint and uncertainty='noise+sampling'"
            )
        if level not in self._made:
            self._made[level] = self.inversion(level)
        return self._made[level]

    def summary_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """Return the columns ``statistic`` and ``pvalue``, a row for each test.

        And ``mc_error`` where p-values were simulated, ``estimate`` where there is one for each
        test, and with ``alpha`` the ends of :meth:`conf_int`, ``ci_lower`` and ``ci_upper``.
        ``attrs`` holds ``alternative``, ``method`` and ``uncertainty``.
        """
        columns = {"statistic": self.statistic, "pvalue": self.pvalue}
        if np.any(self.mc_error):
            columns["mc_error"] = self.mc_error
        if self.estimate is not None and np.shape(self.estimate) == np.shape(self.statistic):
            columns["estimate"] = self.estimate
            if alpha is not None:
                columns["ci_lower"], columns["ci_upper"] = self.conf_int(alpha)
        return labelled_frame(
            columns,
            self.labels,
            alternative=self.alternative,
            method=self.method,
            uncertainty=self.uncertainty,
        )

    def _table(self, alpha: float = 0.05) -> Table:
        most = getattr(self.inversion, "most_shown", _MOST_SHOWN)
        is_quick = self.inversion is not None and np.size(self.statistic) <= most
        is_shown = is_quick or alpha in self._made
        frame = self.summary_frame(alpha if is_shown else None)
        facts: list[tuple[str, object]] = [
            ("Method", self.method),
            ("Alternative", self.alternative),
            ("Tests", len(frame)),
            ("Error covered", ERROR_COVERED[self.uncertainty]),
        ]
        if self.nobs is not None:
            sizes = np.unique(self.nobs)
            whole = bool(sizes[0] == np.floor(sizes[0])) and sizes[0] < 1e15
            size = f"{sizes[0]:.0f}" if whole else f"about {sizes[0]:.6g}"
            shown = size if sizes.size == 1 else "by row"
            facts.insert(2, ("Observations", shown))
        notes = self.notes
        if self.effect is not None:
            facts.insert(0, ("Effect", self.effect))
        if "ci_lower" in frame:
            notes = tuple(dict.fromkeys((*notes, *self.conf_int(alpha).notes)))
        elif self.effect is not None:
            notes = (*notes, "conf_int() makes the intervals")
        return Table(
            self.name,
            facts,
            frame,
            index=self.labels,
            notes=notes,
            alike=("estimate", "ci_lower", "ci_upper"),
            bounds={"pvalue": np.ravel(self.pvalue_error)},
            level=1 - alpha,
        )

    def _take(self, rows: NDArray[np.intp]) -> Self:
        null = self.null_distribution._take(rows, np.shape(self.statistic))
        made = self.inversion
        if made is not None and np.shape(self.estimate) == np.shape(self.statistic):
            made = partial(_intervals_of, made, rows)
        return replace(super()._take(rows), null_distribution=null, inversion=made)

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``statistic, pvalue``."""
        return iter((self.statistic, self.pvalue))

    def __repr__(self) -> str:
        if np.size(self.statistic) > 1:
            return f"HypothesisResult({self.name!r}, {np.size(self.statistic)} tests)"
        statistic = np.ravel(self.statistic)[0]
        pvalue = printed_pvalue(np.ravel(self.pvalue)[0], np.ravel(self.pvalue_error)[0], 6)
        equal = " " if pvalue.startswith("<") else "="
        return f"HypothesisResult({self.name!r}, statistic={statistic:.6g}, pvalue{equal}{pvalue})"


def _intervals_of(
    inversion: Callable[[float], Intervals], rows: NDArray[np.intp], alpha: float
) -> Intervals:
    return inversion(alpha)._take(rows)


Adjustment = Literal[
    "bonferroni",
    "sidak",
    "holm-sidak",
    "holm",
    "simes-hochberg",
    "hommel",
    "fdr_bh",
    "fdr_by",
    "fdr_tsbh",
    "fdr_tsbky",
]

_ANY = {"bonferroni", "holm", "fdr_by"}
RATES: dict[Adjustment, str] = {
    name: ("false discovery rate" if name.startswith("fdr") else "family-wise error rate")
    + (", independent tests" if name not in _ANY else "")
    for name in get_args(Adjustment)
}
"""What each adjustment controls, and for which tests."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AdjustedTests(Rows, Plotted):
    """P-values of several tests, adjusted for their number. Made by :func:`adjust_pvalues`.

    Attributes
    ----------
    pvalue : array of float, shape (m,), or Series
        The p-values of the single tests.
    pvalue_adjusted : array of float, shape (m,), or Series
        The adjusted p-values: reject where they are at most ``alpha``.
    reject : array of bool, shape (m,), or Series
        Which null hypotheses are rejected.
    alpha : float
        The error rate that is controlled.
    method : str
        The adjustment.
    tests : HypothesisResult or None
        The tests, where they were given.
    labels : Index or None
        One label for each test.
    """

    pvalue: Any
    pvalue_adjusted: Any
    reject: Any
    alpha: float
    method: Adjustment
    tests: HypothesisResult | None = None
    labels: pd.Index | None = None

    _by_row: ClassVar[tuple[str, ...]] = ("pvalue", "pvalue_adjusted", "reject", "tests")
    _drawing: ClassVar[str] = "plot_adjusted"

    def __post_init__(self) -> None:
        for name in ("pvalue", "pvalue_adjusted", "reject"):
            array = freeze(np.asarray(getattr(self, name)))
            object.__setattr__(self, name, attach_labels(array, self.labels))

    def summary_frame(self) -> pd.DataFrame:
        """Return ``pvalue``, ``pvalue_adjusted`` and ``reject``, a row for each test.

        The column ``statistic`` is before them where the tests are known.
        """
        columns = {} if self.tests is None else {"statistic": self.tests.statistic}
        for name in ("pvalue", "pvalue_adjusted", "reject"):
            columns[name] = getattr(self, name)
        return labelled_frame(columns, self.labels)

    def _table(self) -> Table:
        frame = self.summary_frame()
        bounds = {}
        if self.tests is not None:
            error = np.ravel(self.tests.pvalue_error)
            # of what is known as a bound, the adjustment is one too
            at_bound = (error > 0) & (np.ravel(self.tests.pvalue) <= error)
            adjusted = np.where(at_bound, np.ravel(self.pvalue_adjusted), 0.0)
            bounds = {"pvalue": error, "pvalue_adjusted": adjusted}
        return Table(
            "Many tests" if self.tests is None else f"{self.tests.name}, many at once",
            [
                ("Adjustment", self.method),
                ("Level", f"{self.alpha:g}"),
                ("Tests", len(frame)),
                ("Rejected", int(frame["reject"].sum())),
                ("Controls", RATES[self.method]),
            ],
            frame,
            index=self.labels,
            bounds=bounds,
        )

    def __repr__(self) -> str:
        rejected, size = int(np.sum(self.reject)), np.size(self.reject)
        return f"AdjustedTests({size} tests, {rejected} rejected, {self.method})"


def adjust_pvalues(
    tests: Any, *, alpha: float = 0.05, method: Adjustment = "holm"
) -> AdjustedTests:
    """Adjust p-values for the number of tests.

    Parameters
    ----------
    tests : HypothesisResult, array of float, shape (m,), or Series
        Several tests, or their p-values in [0, 1].
    alpha : float, default 0.05
        The error rate to control, in (0, 1).
    method : str, default "holm"
        The adjustment, by its name in statsmodels: ``"bonferroni"``, ``"sidak"``,
        ``"holm-sidak"``, ``"holm"``, ``"simes-hochberg"``, ``"hommel"``, ``"fdr_bh"``,
        ``"fdr_by"``, ``"fdr_tsbh"``, ``"fdr_tsbky"``. The summary says which error rate it
        controls.

    Returns
    -------
    AdjustedTests
        Adjusted p-values and rejections, with the labels of the tests.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Warns
    -----
    ApproximationWarning
        If p-values were simulated with so few replicates that the smallest they can be,
        1/(R + 1), is not significant among so many tests.

    See Also
    --------
    statsmodels.stats.multitest.multipletests

    Notes
    -----
    Adjustments for independent tests hold where rows have their own noise and their own sample.
    Rows that share respondents or noise are dependent: take ``"holm"`` or ``"fdr_by"`` for them.

    Examples
    --------
    >>> from dpinfer import Geometric, counts_2indep
    >>> tests = counts_2indep([530, 118, 70], [460, 121, 10], mechanism=Geometric(scale=10.0))
    >>> adjusted = adjust_pvalues(tests)
    >>> adjusted.reject
    array([ True, False,  True])
    """
    from statsmodels.stats.multitest import multipletests

    level = check_alpha(alpha)
    chosen = check_option(method, "method", RATES)
    result = tests if isinstance(tests, HypothesisResult) else None
    found, labels = split_labels(tests if result is None else result.pvalue, "pvalues")
    pvalues = check_array(found.ravel(), "pvalues", ge=0, le=1)
    if result is not None:
        _warn_if_coarse(result, pvalues, level)
    with np.errstate(divide="ignore"):  # log(1 - p) where p = 1, which statsmodels means
        reject, adjusted = multipletests(pvalues, alpha=level, method=chosen)[:2]
    return AdjustedTests(
        pvalue=pvalues,
        pvalue_adjusted=adjusted,
        reject=reject,
        alpha=level,
        method=chosen,
        tests=result,
        labels=labels,
    )


def _warn_if_coarse(tests: HypothesisResult, pvalues: Any, alpha: float) -> None:
    """Warn where simulated p-values cannot be small enough."""
    error = np.ravel(tests.mc_error)
    if not error.any():
        return
    # se² = p(1-p)/R
    with np.errstate(divide="ignore", invalid="ignore"):
        reps = np.nanmin(np.where(error > 0, pvalues * (1.0 - pvalues) / error**2, np.nan))
    if 1.0 / (reps + 1.0) > alpha / pvalues.size:
        warnings.warn(
            f"{reps:.0f} replicates give no p-value below {1.0 / (reps + 1.0):.1g}, and "
            f"{pvalues.size} tests ask for {alpha / pvalues.size:.1g}: use more reps or an exact "
            "method",
            ApproximationWarning,
            stacklevel=3,
        )
