"""Combined estimates of the tables of a hierarchy as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, freeze
from dpinfer.errors import NotEstimableError
from dpinfer.estimation.consistency import OverlappingEstimate
from dpinfer.estimation.pivots import ManyMethod
from dpinfer.estimation.summaries import UNBIASED, estimates_frame, summary_table
from dpinfer.estimation.tables._checks import TableDisagreement, disagreements
from dpinfer.estimation.tables._fit import MarginalsFit
from dpinfer.estimation.tables._labels import joined, labelled
from dpinfer.estimation.tables._schema import Names, TableSchema
from dpinfer.estimation.tables.contrast import TableContrast, contrast_of
from dpinfer.queries import Domain, Hierarchy
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MarginalsEstimate(OverlappingEstimate):
    """Best linear unbiased estimates of tables; made by :func:`dpinfer.combine_marginals`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.estimation.tables.marginals import NoisyMarginal, combine_marginals
    >>> domain = dpi.Domain({"sex": ["F", "M"]})
    >>> total = NoisyMarginal((), [10.0], dpi.Exact())
    >>> by_sex = NoisyMarginal("sex", [[3.3, 5.1]], dpi.Laplace(scale=1.0))
    >>> fit = combine_marginals([total, by_sex], [-1], domain=domain)
    >>> fit.table(0), fit.marginal_bse("sex")
    (array([4.1, 5.9]), array([[1., 1.]]))
    >>> difference = fit.contrast(0, [1.0, -1.0])
    >>> round(float(difference.estimate), 6), round(float(difference.std_err), 6)
    (-1.8, 2.0)
    """

    _fit: MarginalsFit
    _refuse: bool

    @property
    def hierarchy(self) -> Hierarchy:
        """The n units."""
        return self._fit.hierarchy

    @property
    def domain(self) -> Domain:
        """The attributes of their tables."""
        return self._schema.domain

    def marginal(self, attributes: Any = (), units: Any = None) -> Any:
        """Estimates of a marginal.

        Parameters
        ----------
        attributes : str or sequence of str, default ()
            The attributes to keep; none of them for the total.
        units : list or array, optional
            Labels of units, or positions where units have no labels; by default all.

        Returns
        -------
        array of float, shape (k, levels of each attribute), DataFrame or Series
            A row for each of the k units. A DataFrame with a column for each cell where units have
            labels, for the total a Series. An array of all cells of all units is that of the
            estimates themselves, and read-only.

        Raises
        ------
        NotEstimableError
            If the values do not determine the marginal in a unit, unless the estimates were asked
            for with ``unestimable="nan"``; then it is NaN there.
        """
        names, at = self._chosen(attributes, units)
        return self._labelled(self._estimates(names, at), names, at)

    def marginal_variance(self, attributes: Any = (), units: Any = None) -> Any:
        """Return variances due to the noise of the estimates of a marginal.

        Parameters
        ----------
        attributes, units
            As for :meth:`marginal`.

        Returns
        -------
        array of float, shape (k, levels of each attribute), DataFrame or Series
            In the form of :meth:`marginal`. Those of an array share memory where they are equal,
            so they are read-only.

        Raises
        ------
        NotEstimableError
            As :meth:`marginal`; with ``unestimable="nan"`` they are infinite instead.

        Notes
        -----
        They are exact, from the stated noise alone, and 0 for what is known without noise. Where no
        attribute has groupings or zeros, a cell of the marginal that keeps A has the variance
        Π nₐ Σ w_B Π hₐ: nₐ of attributes not kept, and for each B ⊆ A the variance w_B of its
        coefficients with hₐ = 1 - 1/nₐ for a in B and 1/nₐ for others in A.
        """
        names, at = self._chosen(attributes, units)
        return self._labelled(self._spread(self._variance(names, at), names), names, at)

    def marginal_bse(self, attributes: Any = (), units: Any = None) -> Any:
        """Return standard errors due to the noise of the estimates of a marginal.

        Parameters
        ----------
        attributes, units
            As for :meth:`marginal`.

        Returns
        -------
        array of float, shape (k, levels of each attribute), DataFrame or Series
            The square roots of :meth:`marginal_variance`, in the same form.

        Raises
        ------
        NotEstimableError
            As :meth:`marginal`; with ``unestimable="nan"`` they are infinite instead.
        """
        names, at = self._chosen(attributes, units)
        return self._labelled(self._spread(np.sqrt(self._variance(names, at)), names), names, at)

    def table(self, unit: Any) -> Any:
        """Estimates of all cells of one unit.

        Parameters
        ----------
        unit : label or int
            The label of the unit, or its position where units have no labels.

        Returns
        -------
        array of float, shape of the domain, or Series
            A Series labelled by cell where units have labels.
        """
        at = self.hierarchy.positions([unit], "unit")
        found = self._estimates(self.domain.attributes, at)[0]
        if self.hierarchy.labels is None:
            return found
        return attach_labels(freeze(found.ravel()), self.domain.cells())

    def contrast(self, unit: Any, coefficients: Any, attributes: Any = None) -> TableContrast:
        """Estimate linear functions of the cells of one unit, such as a difference of two.

        Parameters
        ----------
        unit : label or int
            The label of the unit, or its position where units have no labels.
        coefficients : array of float, shape (cells,) or (k, cells), Series, DataFrame or mapping
            Coefficients of the cells in row-major order, or under their labels, which then need
            not name all; a row for each of k functions. An array may also have the shape of the
            table.
        attributes : str or sequence of str, optional
            The attributes of the marginal to whose cells they belong; by default all.

        Returns
        -------
        TableContrast
            Estimates with standard errors and intervals.

        Raises
        ------
        NotEstimableError
            If the values do not determine a function.
        """
        every = self.domain.attributes
        names = every if attributes is None else self._schema.check_names(attributes)
        return contrast_of(self._fit, unit, coefficients, names, refuse=self._refuse)

    def conf_int(
        self,
        attributes: Any = (),
        units: Any = None,
        alpha: float = 0.05,
        method: ManyMethod = "exact",
    ) -> Intervals:
        """Confidence intervals for the cells of a marginal.

        Parameters
        ----------
        attributes, units
            As for :meth:`marginal`.
        alpha : float, default 0.05
            One minus the confidence level of each interval.
        method : {"exact", "bound", "normal"}
            ``"exact"``: quantiles of the laws of the errors, each once for all cells and units that
            have it; where that would take more than about 20 seconds, and for tables with groupings
            or zeros, bounds instead. The result then has the method ``"bound"`` and says for how
            many cells, and how wide. ``"bound"``: half-widths that hold for all cells, by how large
            a part one noise can have in the variance of an error. ``"normal"``: normal quantiles;
            the notes say what one of them covers. All are the same where all noise is Gaussian.

        Returns
        -------
        Intervals
            One interval a cell, in the form of :meth:`marginal`; where units have labels, labelled
            by unit and levels. Unpacks as ``lower, upper``.

        Raises
        ------
        NotEstimableError
            If the values do not determine the marginal in a unit.

        Notes
        -----
        Bounds are s·c with the standard error s. A noise of variance σ² in a value whose estimate
        has the variance v has a share of at most h = v/σ² in the variance of any error. Chernoff's
        inequality follows for any noise, and is proved. Where h times the excess kurtosis is at
        most 3 everywhere (Laplace, Gaussian, geometric, discrete Gaussian noise; α >= .001), c is
        the largest quantile of equal Laplace noises and of one with a Gaussian rest, up to that
        kurtosis, plus half a step of the heaviest whole-numbered noise: an envelope that held for
        all laws it was compared with, and that is not proved.
        """
        names, at = self._chosen(attributes, units)
        self._refuse_unknown(names, at)
        variance = self._variance(names, at)
        errors, number = self._fit.laws.cells(names, self._fit.places(at), variance)
        which = self._spread(np.broadcast_to(number, variance.shape), names)
        estimate, labels = self._estimates(names, at), None
        if self.hierarchy.labels is not None:
            labels = joined(self.hierarchy, self._schema, names, at)
            estimate, which = estimate.ravel(), which.ravel()
        return errors.intervals(estimate, which, alpha, method, labels)

    def disagreements(self, most: int = 10) -> pd.DataFrame:
        """Return the values that differ most from the estimates, in their standard errors.

        Parameters
        ----------
        most : int, default 10
            How many.

        Returns
        -------
        DataFrame
            A row a value, labelled by unit and by the level of each attribute, ``"*"`` where its
            marginal sums over it: ``published``, ``estimate``, ``residual``, the ``std_err`` of
            the residual, ``z``, the largest first, and the two-sided ``pvalue`` by the law of the
            residual; values that no other bears on are left out. ``attrs["values"]`` is the number
            of values compared, by which to judge a p-value that was sought out;
            ``attrs["method"]`` is "exact", or "bound" where some of the p-values are upper bounds:
            beyond about 20 seconds, and for tables with groupings or zeros.
        """
        return disagreements(self._fit, most)

    def summary_frame(
        self,
        attributes: Any = (),
        units: Any = None,
        alpha: float = 0.05,
        method: ManyMethod = "exact",
    ) -> pd.DataFrame:
        """Return estimates, standard errors and intervals as a DataFrame, a row for each cell.

        Parameters
        ----------
        attributes, units, alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``ci_lower`` and ``ci_upper``, labelled by unit and
            levels. ``attrs`` holds ``alpha``, ``method``, ``uncertainty`` and ``simultaneous``.
        """
        return self._frame(attributes, units, alpha, method)[0]

    def _frame(
        self, attributes: Any, units: Any, alpha: float, method: ManyMethod
    ) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Return the frame and the notes of the intervals."""
        names, at = self._chosen(attributes, units)
        if at is not None:  # units may be an iterator
            units = at if self.hierarchy.labels is None else self.hierarchy.labels[at]
        std_err = self._spread(np.sqrt(self._variance(names, at)), names)
        intervals = self.conf_int(names, units, alpha, method)
        found = estimates_frame(intervals, std_err)
        if self.hierarchy.labels is None:
            found.index = joined(self.hierarchy, self._schema, names, at)
        return found, intervals.notes

    def summary(
        self,
        attributes: Any = (),
        units: Any = None,
        alpha: float = 0.05,
        method: ManyMethod = "exact",
    ) -> str:
        """Return :meth:`summary_frame` as a plain-text table.

        Parameters
        ----------
        attributes, units, alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        str
            The table, which says which error the intervals cover.
        """
        frame, notes = self._frame(attributes, units, alpha, method)
        facts = [
            ("Method", "best linear unbiased"),
            ("Intervals", f"{1 - alpha:.6g}, {frame.attrs['method']}"),
            ("Units", len(self)),
            ("Cells in a table", self.domain.size),
            ("Published values", self._fit.values),
            ("Error covered", ERROR_COVERED["noise"]),
        ]
        title = "Combined estimates of the tables of a hierarchy"
        return summary_table(title, facts, frame, index=frame.index, notes=(UNBIASED, *notes))

    def __len__(self) -> int:
        return len(self.hierarchy)

    def __repr__(self) -> str:
        return (
            f"MarginalsEstimate({len(self)} units, {self.domain.size} cells each, from "
            f"{self._fit.values} values)"
        )

    def __str__(self) -> str:
        return self.summary()

    def _overlap(self) -> TableDisagreement:
        return TableDisagreement(self._fit)

    @property
    def _schema(self) -> TableSchema:
        return self._fit.schema

    def _chosen(self, attributes: Any, units: Any) -> tuple[Names, NDArray[np.intp] | None]:
        """Return the names of attributes, and the positions of units; None for all of them."""
        names = self._schema.check_names(attributes)
        return names, None if units is None else self.hierarchy.positions(units)

    def _variance(self, names: Names, at: NDArray[np.intp] | None) -> FloatArray:
        """Return the variances of the cells of a marginal, shape (k, r)."""
        variance = self._fit.cell_variance(names, self._fit.places(at))
        if self._refuse:
            self._refuse_lost(np.isinf(variance), names, at)
        return variance

    def _estimates(self, names: Names, at: NDArray[np.intp] | None) -> FloatArray:
        """Return estimates of a marginal, shape (k, levels of each attribute)."""
        found = self._fit.marginal(names, None if at is None else self._fit.places(at))
        if not self._fit.known(names):
            lost = np.isinf(self._variance(names, at))
            if lost.any():
                found = found.copy()
                found[lost] = np.nan
        return self._schema.outward(found, names)

    def _refuse_unknown(self, names: Names, at: NDArray[np.intp] | None) -> None:
        if not self._fit.known(names):
            self._refuse_lost(np.isinf(self._variance(names, at)), names, at)

    def _refuse_lost(
        self, lost: NDArray[np.bool_], names: Names, at: NDArray[np.intp] | None
    ) -> None:
        units = np.flatnonzero(lost.any(axis=1))
        if units.size:
            units = units if at is None else at[units]
            what = f"the marginal {names!r}" if names else "the total"
            raise NotEstimableError(
                f"the values do not determine {what} of {self.hierarchy.names(units)}: it takes "
                "marginals with these attributes in the unit, or in all its children, or in its "
                "parent and all other children of that"
            )

    def _spread(self, numbers: NDArray[Any], names: Names) -> NDArray[Any]:
        """Return numbers, shape (k, r), for each cell of a marginal."""
        axes = self._fit.axes
        shape = axes.shape(self._schema.kept(names))
        wide = numbers.reshape((*numbers.shape, *(1,) * len(shape)))
        return self._schema.outward(np.broadcast_to(wide, (*numbers.shape, *shape)), names)

    def _labelled(self, found: FloatArray, names: Names, at: NDArray[np.intp] | None) -> Any:
        return labelled(found, self.hierarchy, self._schema, names, at)
