"""The result of a hypothesis test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import Alternative, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.results.intervals import ERROR_COVERED, Uncertainty
from dpinfer.results.labels import attach_labels, labelled_frame
from dpinfer.results.null_distribution import NullDistribution
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
            array = np.broadcast_to(value, shape)
            if name == "pvalue":
                array = np.maximum(array, np.asarray(self.pvalue_error))
            object.__setattr__(self, name, attach_labels(freeze(array), self.labels))

    def summary_frame(self) -> pd.DataFrame:
        """Return statistics and p-values as a DataFrame.

        Returns
        -------
        DataFrame
            One row a test, with the columns ``statistic`` and ``pvalue``, and ``mc_error`` where
            the p-values were simulated. ``attrs`` holds ``alternative``, ``method`` and
            ``uncertainty``.
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
        """Return the test as a plain-text table that says which error it accounts for.

        Returns
        -------
        str
            :meth:`summary_frame` with the facts about the test, rounded for reading.
        """
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
