"""The result of a hypothesis test."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dpinfer._check import Alternative, check_alpha, check_array, check_option, freeze
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.results.intervals import ERROR_COVERED, Uncertainty
from dpinfer.results.labels import attach_labels, labelled_frame, split_labels
from dpinfer.results.null import NullDistribution
from dpinfer.results.tables import printed_pvalue, printed_pvalues, render_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HypothesisResult:
    """A test statistic with its p-value, or several of them.

    Unpacks as ``statistic, pvalue``.

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

    Examples
    --------
    >>> from dpinfer import Laplace, proportions_ztest
    >>> result = proportions_ztest(34.21, 100, 0.255, mechanism=Laplace(scale=2.0))
    >>> result
    HypothesisResult('Test of one proportion', statistic=1.99834, pvalue=0.0922426)
    >>> result.uncertainty
    'noise+sampling'
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

    def __post_init__(self) -> None:
        shape = np.shape(self.statistic) if self.labels is None else (len(self.labels),)
        if self.pvalue_error is None:
            error = self.null_distribution.pvalue_error(np.asarray(self.statistic))
            object.__setattr__(self, "pvalue_error", error)
        for name in ("statistic", "pvalue_error", "pvalue", "mc_error"):
            if np.shape(value := getattr(self, name)) not in ((), shape):
                raise InvalidParameterError(
                    f"{name} must have shape {shape}, one entry a test, got {np.shape(value)}"
                )
            array = np.broadcast_to(value, shape) if shape else np.asarray(value, dtype=np.float64)
            if name == "pvalue":
                array = np.maximum(array, np.asarray(self.pvalue_error))
            held = array[()] if shape == () else attach_labels(freeze(array), self.labels)
            object.__setattr__(self, name, held)

    def summary_frame(self) -> pd.DataFrame:
        """Return the columns ``statistic`` and ``pvalue``, a row for each test.

        And ``mc_error`` where p-values were simulated. ``attrs`` holds ``alternative``, ``method``
        and ``uncertainty``.
        """
        columns = {"statistic": self.statistic, "pvalue": self.pvalue}
        if np.any(self.mc_error):
            columns["mc_error"] = self.mc_error
        return labelled_frame(
            columns,
            self.labels,
            alternative=self.alternative,
            method=self.method,
            uncertainty=self.uncertainty,
        )

    def summary(self) -> str:
        """Return :meth:`summary_frame` as a plain-text table that says which error is covered."""
        frame = self.summary_frame()
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
        return render_table(
            self.name,
            facts,
            {
                name: printed_pvalues(frame[name].to_numpy(), self.pvalue_error)
                if name == "pvalue"
                else frame[name].to_numpy()
                for name in frame.columns
            },
            index=frame.index if self.labels is not None else None,
            notes=self.notes,
        )

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

    def __str__(self) -> str:
        return self.summary()


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
class AdjustedTests:
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

    def summary(self) -> str:
        """Return :meth:`summary_frame` as a plain-text table that says what is controlled."""
        frame = self.summary_frame()
        return render_table(
            "Many tests" if self.tests is None else f"{self.tests.name}, many at once",
            [
                ("Adjustment", self.method),
                ("Level", f"{self.alpha:g}"),
                ("Tests", len(frame)),
                ("Rejected", int(frame["reject"].sum())),
                ("Controls", RATES[self.method]),
            ],
            {name: self._column(name, frame[name].to_numpy()) for name in frame.columns},
            index=frame.index if self.labels is not None else None,
        )

    def _column(self, name: str, values: Any) -> Any:
        """Return what is printed of a column; p-values as bounds where they are no more."""
        if self.tests is None or not name.startswith("pvalue"):
            return values
        error = np.ravel(self.tests.pvalue_error)
        if name == "pvalue_adjusted":  # of what is known as a bound, the adjustment is one too
            at_bound = np.ravel(self.tests.pvalue) <= error
            error = np.where((error > 0) & at_bound, values, 0.0)
        return printed_pvalues(values, error)

    def __repr__(self) -> str:
        rejected, size = int(np.sum(self.reject)), np.size(self.reject)
        return f"AdjustedTests({size} tests, {rejected} rejected, {self.method})"

    def __str__(self) -> str:
        return self.summary()


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
