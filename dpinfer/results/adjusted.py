"""Many tests at once: p-values adjusted for their number."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._validation import check_alpha, check_array, check_option, freeze
from dpinfer.errors import ApproximationWarning
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import attach_labels, labelled_frame, split_labels
from dpinfer.results.tables import printed_pvalues, render_table

if TYPE_CHECKING:
    import pandas as pd

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

RATES: dict[Adjustment, str] = {
    "bonferroni": "family-wise error rate",
    "sidak": "family-wise error rate, independent tests",
    "holm-sidak": "family-wise error rate, independent tests",
    "holm": "family-wise error rate",
    "simes-hochberg": "family-wise error rate, independent tests",
    "hommel": "family-wise error rate, independent tests",
    "fdr_bh": "false discovery rate, independent tests",
    "fdr_by": "false discovery rate",
    "fdr_tsbh": "false discovery rate, independent tests",
    "fdr_tsbky": "false discovery rate, independent tests",
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
        """Return the tests as a DataFrame.

        Returns
        -------
        DataFrame
            One row a test, with the columns ``statistic`` (where the tests are known), ``pvalue``,
            ``pvalue_adjusted`` and ``reject``.
        """
        columns = {} if self.tests is None else {"statistic": self.tests.statistic}
        for name in ("pvalue", "pvalue_adjusted", "reject"):
            columns[name] = getattr(self, name)
        return labelled_frame(columns, self.labels)

    def summary(self) -> str:
        """Return :meth:`summary_frame` as a plain-text table that says what is controlled.

        Returns
        -------
        str
            The table.
        """
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
