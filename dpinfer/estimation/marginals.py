"""Combined estimates of the tables of all units of a hierarchy, in time linear in their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    check_array,
    check_integer,
    check_items,
    check_option,
    freeze,
    is_foreign,
    of_axes,
    show,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation._marginals_input import (
    Names,
    ReadMarginal,
    StructuralZeros,
    TableSchema,
    by_cell,
    check_zeros,
    joined,
    labelled,
    place_zeros,
    read_values,
    refuse_unreadable,
)
from dpinfer.estimation._table_fit import CellRows, MarginalsFit, problem
from dpinfer.estimation._tree.tables import CellTables, PlacedMarginal, chunk_rows, summed_to
from dpinfer.estimation.combined import (
    UNBIASED,
    LinearEstimate,
    estimates_frame,
    summary_table,
)
from dpinfer.estimation.consistency import (
    CHECKED,
    Overlap,
    OverlappingEstimate,
    disagreement_frame,
)
from dpinfer.estimation.functions import ByLabel, FunctionRows, Named, held_or_made, nested
from dpinfer.estimation.hierarchy import check_variance, own_values
from dpinfer.estimation.pivots import ManyErrors, ManyMethod
from dpinfer.estimation.targets import checked_weights
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, as_noise, groups
from dpinfer.mechanisms.law import NoiseLaw, refuse_dependent
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.queries.domain import SUMMED, Domain, check_domain
from dpinfer.queries.hierarchy import Hierarchy, Tree
from dpinfer.releases.coerce import noisy
from dpinfer.releases.noises import Noises
from dpinfer.releases.values import HELD, NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


# Estimates of linear functions of one table, and the intervals of cells.


@dataclass(frozen=True, kw_only=True, eq=False)
class TableContrast(Listed, Plotted):
    """Estimates of linear functions of a table; made by :meth:`MarginalsEstimate.unit_contrast`.

    Functions that take noisy values take them, where all values are in memory.

    Attributes
    ----------
    estimate : float, array of float, shape (k,), or Series
        The estimates.
    std_err : float, array of float, shape (k,), or Series
        Their standard errors due to the noise.
    labels : pandas.Index, optional
        Labels of the functions.
    """

    estimate: Any
    std_err: Any
    labels: pd.Index | None = None
    _errors: ManyErrors
    _weights: Callable[[], Any]
    _noises: Callable[[], Noises]

    def conf_int(self, alpha: float = 0.05, method: ManyMethod = "exact") -> Intervals:
        """Confidence intervals, as :meth:`MarginalsEstimate.conf_int`, one for each function."""
        estimate = np.asarray(self.estimate)
        number = np.arange(estimate.size).reshape(estimate.shape)
        return self._errors.intervals(estimate, number, alpha, method, self.labels)

    def summary_frame(self, alpha: float = 0.05, method: ManyMethod = "exact") -> pd.DataFrame:
        """Return ``estimate``, ``std_err``, ``ci_lower`` and ``ci_upper``, as :meth:`conf_int`."""
        return estimates_frame(self.conf_int(alpha, method), self.std_err)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.estimate), self.labels

    def _table(self, alpha: float = 0.05, method: ManyMethod = "exact") -> Table:
        intervals = self.conf_int(alpha, method)
        frame = estimates_frame(intervals, self.std_err)
        notes = (UNBIASED, *intervals.notes)
        title = "Linear functions of a table"
        return summary_table(title, intervals.facts, frame, index=self.labels, notes=notes)

    def __noisy__(self) -> NoisyValues:
        found = np.asarray(self.estimate, dtype=np.float64)
        if np.isnan(found).any():
            raise NotEstimableError("the values do not determine all functions of the table")
        return NoisyValues(
            np.array(np.atleast_1d(found)),
            self._noises(),
            shape=found.shape,
            labels=self.labels,
            weights=self._weights(),
        )


# Whether the values of tables agree as well as their noise says, and which agree least.


_WHOLE_LIMIT = 4_000_000
"""Values up to which two sums of squares could be equal, so that their rounding counts."""


def overlap(fit: MarginalsFit) -> Overlap:
    """Return Q = Σ (y - x̂)²/v of all values of the tables of a hierarchy."""
    # the law of the noise, once for all cells of a marginal in a unit
    stops = np.cumsum([len(one.values) for one in fit.read])
    parts = [
        (law, stop - len(one.values) + cells)
        for one, stop in zip(fit.read, stops, strict=True)
        for law, cells in groups(one.law, len(one.values))
    ]
    return Overlap(
        degrees=fit.degrees,
        mechanism=IndependentNoise.from_groups(parts, int(stops[-1])),
        size=fit.values,
        observed=lambda: _observed(fit),
        draw=lambda size, rng: _drawn(fit, size, rng),
    )


def _observed(fit: MarginalsFit) -> FloatArray:
    """Q of the published values.

    From few values, whole numbers that add up are taken off first, so that the size of the
    confidential values does not make for rounding errors.
    """
    tree = fit.hierarchy.tree
    if fit.values > _WHOLE_LIMIT:
        return np.asarray(_squares(fit, fit.placed, fit.solution.held).sum())
    whole = np.rint(fit.solution.held.at(slice(None)))
    if fit.zeros is not None:
        whole[_and_below(tree, fit.zeros)] = 0.0
    for families in reversed(tree.families):
        children = whole[families.children]
        whole[families.parents] = np.add.reduceat(children, families.starts, axis=0)
    changed = []
    for one, read in zip(fit.placed, fit.read, strict=True):
        part = summed_to(fit.axes, one.kept, fit.schema.matrix(read.names), whole)
        changed.append(replace(one, values=one.at(slice(None)) - part, row=None))
    solved = problem(fit.schema, fit.read, tuple(changed), fit.zeros).solve(tree)
    return np.asarray(_squares(fit, tuple(changed), solved.held).sum())


def _drawn(fit: MarginalsFit, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw so many replicates of Q, estimated at once, as tables on so many copies of the tree."""
    drawn = []
    for read in fit.read:
        rows, cells = len(read.values), read.values.shape[1:]
        drawn.append(np.moveaxis(read.law.rvs((size, *cells, rows), rng=rng), -1, 1))
    placed, solved, copy = fit.copies(drawn)
    return np.bincount(copy, _squares(fit, placed, solved.held), size).astype(np.float64)


def _and_below(tree: Tree, zeros: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return zeros with those that make children add up to them, shape (n, g)."""
    found = zeros.copy()
    for families in tree.families:
        above = np.repeat(found[families.parents], families.counts, axis=0)
        found[families.children] |= above
    return found


def _squares(
    fit: MarginalsFit, placed: tuple[PlacedMarginal, ...], tables: CellTables
) -> FloatArray:
    """Return the sum of squared residuals over variances of the values at each place."""
    found = np.zeros(placed[0].precision.size)
    for number, rows, residuals in _residuals(fit, placed, tables):
        inner = tuple(range(1, residuals.ndim))
        found[rows] += np.square(residuals).sum(axis=inner) * placed[number].precision[rows]
    return found


def _residuals(
    fit: MarginalsFit, placed: tuple[PlacedMarginal, ...], tables: CellTables
) -> Iterator[tuple[int, slice, FloatArray]]:
    """Yield the number of a marginal, some places, and its values there less estimates."""
    step = chunk_rows(fit.schema.domain.size)
    places = placed[0].precision.size
    for number, (one, read) in enumerate(zip(placed, fit.read, strict=True)):
        matrix = fit.schema.matrix(read.names)
        for start in range(0, places, step):
            rows = slice(start, min(start + step, places))
            if one.precision[rows].any():
                yield number, rows, one.at(rows) - tables.marginal(one.kept, matrix, rows)


def disagreements(fit: MarginalsFit, most: int) -> pd.DataFrame:
    """Return the values that differ most from the estimates."""
    most = check_integer(most, "most", ge=1)
    found: list[tuple[NDArray[Any], ...]] = []
    compared = 0
    for number, rows, residuals in _residuals(fit, fit.placed, fit.solution.held):
        one, names = fit.placed[number], fit.read[number].names
        precision = one.precision[rows, np.newaxis]
        # of a residual, in units of the noise; positive by theory, and 0 for a value that no other
        # bears on
        variance = fit.cell_variance(names, np.arange(rows.start, rows.stop))
        there = np.broadcast_to(precision > 0.0, variance.shape)
        own = 1.0 - np.multiply(precision, variance, out=np.ones(there.shape), where=there)
        checked = own > CHECKED
        scale = np.sqrt(np.divide(own, precision, out=np.ones(own.shape), where=checked))
        score = residuals / scale.reshape((*scale.shape, *(1,) * (residuals.ndim - 2)))
        score[~checked] = 0.0
        cells = score[0, 0].size
        compared += int(np.count_nonzero(checked)) * cells
        flat = np.where(np.repeat(checked.ravel(), cells), np.abs(score).ravel(), -1.0)
        top = np.arange(flat.size)
        if flat.size > most:
            top = np.argpartition(-flat, most - 1)[:most]
        top = top[flat[top] >= 0.0]
        place, cell = np.divmod(top, residuals[0].size)
        found.append(
            (
                score.ravel()[top],
                rows.start + place,
                np.full(top.size, number),
                cell,
                residuals.ravel()[top],
                one.at(rows).ravel()[top].astype(np.float64),
                scale.ravel()[top // cells],
            )
        )
        # the largest so far
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.argsort(-np.abs(columns[0]), kind="stable")[:most]
        found = [tuple(column[order] for column in columns)]
    empty, none = np.empty(0), np.empty(0, dtype=np.intp)
    worst = found[0] if found else (empty, none, none, none, empty, empty, empty)
    return _frame(fit, worst, compared)


def _frame(fit: MarginalsFit, worst: tuple[NDArray[Any], ...], compared: int) -> pd.DataFrame:
    import pandas as pd

    score, place, marginal, cell, residual, published, std_err = worst
    order, labels = fit.hierarchy.tree.order, fit.hierarchy.labels
    unit = place if order is None else order[place]
    units: Any = unit if labels is None else labels[unit]
    index = pd.Index(units, name="unit", tupleize_cols=False)
    names = [*fit.schema.domain.attributes, *fit.schema.groupings]
    parts = {name: np.full(unit.size, SUMMED, dtype=object) for name in names}
    for row, (number, at) in enumerate(zip(marginal, cell, strict=True)):
        for name, level in fit.schema.levels_at(fit.read[number].names, int(at)).items():
            parts[name][row] = level
    if names:
        index = pd.MultiIndex.from_arrays([index, *parts.values()], names=["unit", *names])
    pvalue, method = fit.laws.pvalues(marginal, place, cell, residual, std_err)
    return disagreement_frame(
        published,
        published - residual,
        residual,
        std_err,
        score,
        pvalue,
        index=index,
        method=method,
        compared=compared,
    )


# Combined estimates of the tables of a hierarchy as a value.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MarginalsEstimate(OverlappingEstimate, ByLabel, Listed, Plotted):
    """Best linear unbiased estimates of tables; made by :func:`dpinfer.combine_marginals`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.estimation import NoisyMarginal, combine_marginals
    >>> domain = dpi.Domain({"sex": ["F", "M"]})
    >>> total = NoisyMarginal((), [10.0], dpi.Exact())
    >>> by_sex = NoisyMarginal("sex", [[3.3, 5.1]], dpi.Laplace(scale=1.0))
    >>> fit = combine_marginals([total, by_sex], [-1], domain=domain)
    >>> fit.table(0), fit.marginal_bse("sex")
    (array([4.1, 5.9]), array([[1., 1.]]))
    >>> difference = fit.unit_contrast(0, [1.0, -1.0])
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
            estimates themselves, and read-only. NaN where the values do not determine it, if that
            was asked for with ``unestimable="nan"``, and NotEstimableError otherwise.
        """
        names, at = self._chosen(attributes, units)
        return self._labelled(self._estimates(names, at), names, at)

    def marginal_variance(self, attributes: Any = (), units: Any = None) -> Any:
        """Variances due to the noise of the estimates of a marginal, in the form of these.

        The arguments are those of :meth:`marginal`. Where it gives NaN, they are infinite. Those of
        an array share memory where they are equal, so they are read-only.

        Notes
        -----
        They are exact, from the stated noise alone, and 0 for what is known without noise. Where no
        attribute has groupings or zeros, a cell of the marginal that keeps A has the variance
        Π nₐ Σ w_B Π hₐ: nₐ of attributes not kept, and for each B ⊆ A the variance w_B of its
        coefficients with hₐ = 1 - 1/nₐ for a in B and 1/nₐ for others in A.
        """
        names, at = self._chosen(attributes, units)
        return self._labelled(self._fit.spread(self._variance(names, at), names), names, at)

    def marginal_bse(self, attributes: Any = (), units: Any = None) -> Any:
        """Return the square roots of :meth:`marginal_variance`, the standard errors."""
        names, at = self._chosen(attributes, units)
        return self._labelled(
            self._fit.spread(np.sqrt(self._variance(names, at)), names), names, at
        )

    def table(self, unit: Any) -> Any:
        """Estimates of all cells of one unit, given by label or position.

        An array with the shape of the domain; where units have labels, a Series by cell.
        """
        at = self.hierarchy.positions([unit], "unit")
        found = self._estimates(self.domain.attributes, at)[0]
        if self.hierarchy.labels is None:
            return found
        return attach_labels(freeze(found.ravel()), self.domain.cells())

    def unit_contrast(self, unit: Any, coefficients: Any, attributes: Any = None) -> TableContrast:
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

        Raises
        ------
        NotEstimableError
            If the values do not determine a function.

        See Also
        --------
        contrast : functions of cells of several units.
        """
        fit, schema, refuse = self._fit, self._schema, self._refuse
        names = self.domain.attributes if attributes is None else schema.check_names(attributes)
        at = self.hierarchy.positions([unit], "unit")
        shape = schema.shape(names)
        coefficients = of_axes(coefficients)
        if is_foreign(coefficients):
            coefficients = by_cell(coefficients, names, schema, "coefficients")
        if not (hasattr(coefficients, "iloc") or isinstance(coefficients, Mapping)):
            coefficients = check_array(coefficients, "coefficients")
            coefficients = coefficients.ravel() if coefficients.shape == shape else coefficients
        matrix = checked_weights(coefficients, schema.cells(names), prod(shape), "coefficients")
        rows = np.ascontiguousarray(schema.inward(matrix.reshape((-1, *shape)), names))
        place = int(self.hierarchy.tree.place_of(at)[0])
        estimate, variance = fit.contrast(names, place, rows)
        lost = np.isinf(variance)
        if lost.any():
            if refuse:
                raise NotEstimableError(
                    f"the values do not determine function {int(np.argmax(lost))} of the cells of "
                    f"{self.hierarchy.names(at)}"
                )
            estimate[lost] = np.nan
        several = matrix.ndim == 2
        labels = coefficients.index if several and hasattr(coefficients, "iloc") else None
        return TableContrast(
            estimate=attach_labels(estimate if several else estimate[0], labels),
            std_err=attach_labels(np.sqrt(variance if several else variance[0]), labels),
            labels=labels,
            _errors=fit.laws.functions(names, place, rows, np.sqrt(variance)),
            _weights=lambda: fit.weights(names, int(at[0]), rows),
            _noises=lambda: fit.noises,
        )

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
        method : {"exact", "envelope", "bound", "asymptotic"}
            ``"exact"``: quantiles of the laws of the errors, each once for all cells and units that
            have it, up to 2,000 laws and about four minutes. For more, and for tables with
            groupings or zeros, those of ``"envelope"``, at steps of whole-numbered noise that
            matter quantiles of single laws as far as time allows, and bounds where the envelope was
            not checked. The result then has that method and says for how many cells, and how wide.
            ``"envelope"``: half-widths from standard errors and fourth cumulants, mostly 1.00 to
            1.02 times exact ones. ``"bound"``: proved half-widths, by how large a part one noise
            can have in the variance of an error: 1.1 to 1.2 times exact ones for Laplace noise.
            ``"asymptotic"``: normal quantiles; the notes say what one of them covers. All are the
            same where all noise is Gaussian.

        Returns
        -------
        Intervals
            One interval a cell, in the form of :meth:`marginal`; where units have labels, labelled
            by unit and levels. Unpacks as ``lower, upper``. Its ``assurance`` is ``"exact"``,
            ``"checked"`` or ``"bound"``: that of the weakest of them.

        Notes
        -----
        All cells of a marginal of a unit have errors of one law, and so have units below and around
        which the same was published.

        The envelope is s·q with the standard error s and q the largest quantile of three laws of
        variance 1: the normal one, and of the same fourth cumulant κ = Σ w⁴κ₄/s⁴ equal Laplace
        noises, and one with a Gaussian rest. Every higher cumulant of a sum of Laplace and Gaussian
        noise lies between those of the last two. That quantiles do is not proved: of sums of
        Laplace, Gaussian, geometric and discrete Gaussian noise, at levels from .5 to .001, exact
        half-widths were larger by a part of 1e-4 at most, which is added. κ is found by one pass up
        the tree and one down; where that would take too many products of four weights, and for
        tables with groupings or zeros, an upper bound takes its place. Steps of whole-numbered
        noise of weight w matter by R, 1/π times the integral of abs(φ(t))/t from π/w to 128π/w: the
        envelope is of the level .984 alpha - 2R where R is at most .001 and alpha/20, and κ at most
        1.5; at alpha - 2R its coverage was short by .0008 at most. Elsewhere laws are found one by
        one; or half a step is added to the envelope of an error whose variance is larger by w²/12.

        Bounds are s·c. A noise of variance σ² and weight w has the share w²σ²/s² in the variance of
        an error; the largest is bounded, class by class, on the passes over the tree, or by v/σ²
        with the variance v of the estimate of a published value. For Laplace and Gaussian noise c
        is from the third absolute moments beyond a point of the largest such sum, of equal Laplace
        noises of that share, as errors are unimodal; for other noise by Chernoff's inequality. Both
        are proved. Below alpha = .001, as for many cells at a time, the envelope was not checked,
        and bounds take its place.
        """
        names, at = self._chosen(attributes, units)
        self._refuse_unknown(names, at)
        variance = self._variance(names, at)
        errors, number = self._fit.laws.cells(names, self._fit.places(at), variance)
        which = self._fit.spread(np.broadcast_to(number, variance.shape), names)
        estimate, labels = self._estimates(names, at), None
        if self.hierarchy.labels is not None:
            labels = joined(self.hierarchy, self._schema, names, at)
            estimate, which = estimate.ravel(), which.ravel()
        return errors.intervals(estimate, which, alpha, method, labels)

    def __noisy__(self) -> NoisyValues:
        names = self.domain.attributes
        variance = self._fit.cell_variance(names, self._fit.places(None))
        self._refuse_lost(np.isinf(variance), names, None)
        found, labels = np.array(self._estimates(names, None)), None
        if self.hierarchy.labels is not None:
            labels = joined(self.hierarchy, self._schema, names, None)
        rows, noises = CellRows(self._fit), self._fit.noises
        held = found.size * noises.size <= HELD
        return NoisyValues(
            found.ravel(),
            noises,
            shape=found.shape if labels is None else None,
            labels=labels,
            weights=rows.take(np.arange(found.size)) if held else rows,
        )

    def _named(self) -> tuple[pd.Index | None, int]:
        names = self.domain.attributes
        return joined(self.hierarchy, self._schema, names, None), len(self) * self.domain.size

    def _twice(self, groups: Any) -> tuple[int, int] | None:
        size, at = self.domain.size, groups.indices.astype(np.intp)
        rows = np.repeat(np.arange(groups.shape[0]), np.diff(groups.indptr))
        found = nested(rows * size + at % size, at // size, self.hierarchy.parent)
        return None if found is None else (int(at[found[0]]), int(at[found[1]]))

    def _linear(self, named: Named) -> LinearEstimate:
        fit, c, names = self._fit, named.coefficients, self.domain.attributes
        self._refuse_unknown(names, np.unique(c.indices // self.domain.size))
        known = np.asarray(self._estimates(names, None)).ravel()
        known = np.where(np.isfinite(known), known, 0.0)
        rows = FunctionRows(lambda at: fit.weights_of_cells(c[at]), c.shape[0], fit.noises)
        found = NoisyValues(c @ known, fit.noises, weights=held_or_made(rows))
        size = float((abs(c) @ np.abs(known)).max()) + fit.laws.magnitude
        return LinearEstimate.of(self, named, found, size)

    def disagreements(self, most: int = 10) -> pd.DataFrame:
        """Return the ``most`` values that differ most from the estimates.

        Returns
        -------
        DataFrame
            A row a value, labelled by unit and by the level of each attribute, ``"*"`` where its
            marginal sums over it, with the columns and ``attrs`` of
            :meth:`HierarchyEstimate.disagreements`; p-values are bounds for tables with groupings
            or zeros.
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

        The arguments are those of :meth:`conf_int`. The columns are ``estimate``, ``std_err``,
        ``ci_lower`` and ``ci_upper``, labelled by unit and levels; ``attrs`` holds ``alpha``,
        ``method``, ``uncertainty`` and ``simultaneous``.
        """
        return self._frame(attributes, units, alpha, method)[0]

    def _frame(
        self, attributes: Any, units: Any, alpha: float, method: ManyMethod
    ) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Return the frame and the notes of the intervals."""
        names, at = self._chosen(attributes, units)
        if at is not None:  # units may be an iterator
            units = at if self.hierarchy.labels is None else self.hierarchy.labels[at]
        std_err = self._fit.spread(np.sqrt(self._variance(names, at)), names)
        intervals = self.conf_int(names, units, alpha, method)
        found = estimates_frame(intervals, std_err)
        if self.hierarchy.labels is None:
            found.index = joined(self.hierarchy, self._schema, names, at)
        return found, intervals.notes

    def _table(
        self,
        attributes: Any = (),
        units: Any = None,
        alpha: float = 0.05,
        method: ManyMethod = "exact",
    ) -> Table:
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

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.hierarchy), self.hierarchy.labels

    def __repr__(self) -> str:
        return (
            f"MarginalsEstimate({len(self)} units, {self.domain.size} cells each, from "
            f"{self._fit.values} values)"
        )

    def _overlap(self) -> Overlap:
        return overlap(self._fit)

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

    def _labelled(self, found: FloatArray, names: Names, at: NDArray[np.intp] | None) -> Any:
        return labelled(found, self.hierarchy, self._schema, names, at)


_CELLS_LIMIT = 2**35  # cells up to which the tables of all units are formed (256 GiB of float64)


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Published values of one marginal, of some or all units of a hierarchy.

    Parameters
    ----------
    attributes : str or sequence of str
        Names of the attributes kept, or of groupings of them; ``()`` for the total.
    values : array of numbers, shape (m, levels of each attribute), DataFrame, Series or Release
        The values of m units, the axes in the order of ``attributes``. A DataFrame has a row for
        each unit and a column for each cell, under its level, or the tuple of its levels. A Series
        has the labels (unit, level, ...), or units alone for the total. A frame of polars or
        pyarrow has units, and in long form levels, in columns before those of values, the latter
        named after the attributes. A Release, or noisy values, have the labels of a Series, or the
        shape of an array. Arrays are not copied.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise of each cell: one for all units, or one for each of the m units.
        ``Exact()`` for what was published without noise. Left out where ``values`` carry their own.
    units : list or array, optional
        The units that the rows of an array belong to, each once: labels, or positions where units
        have no labels. By default all units in order. Units that are not there were not measured.

    Raises
    ------
    InvalidParameterError
        By :func:`combine_marginals`, which knows domain and hierarchy.

    Notes
    -----
    A value is a cell of the marginal plus noise of its own: y = Σ x + e, the sum over the levels of
    the attributes that are not kept, with e independent over cells, units and marginals.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> NoisyMarginal("sex", [[4, 6], [3, 5]], dpi.Laplace(scale=1.0))
    NoisyMarginal('sex', 2 units, Laplace(scale=1.0))
    """

    attributes: str | tuple[str, ...]
    values: Any
    mechanism: Mechanism | None = None
    units: Any = None

    def __repr__(self) -> str:
        rows = len(self.values) if hasattr(self.values, "__len__") else 0
        law = "" if self.mechanism is None else f", {show(self.mechanism)}"
        return f"NoisyMarginal({show(self.attributes)}, {rows} units{law})"


def combine_marginals(
    marginals: Any,
    hierarchy: Any,
    *,
    domain: Domain,
    groupings: Any = None,
    zeros: Any = None,
    unestimable: str = "raise",
) -> MarginalsEstimate:
    """Estimate the table of every unit of a hierarchy from noisy marginals of all units.

    Parameters
    ----------
    marginals : iterable of NoisyMarginal
        What was published: any marginals, each of any units. Values of a marginal that was
        published twice are two of them.
    hierarchy : Hierarchy, Series, mapping, or array of int, shape (n,)
        The hierarchy, or the parent of each unit, as :class:`~dpinfer.queries.Hierarchy` takes it.
        The tables of the children of a unit add up to its own, cell by cell.
    domain : Domain
        The attributes of the tables with their levels.
    groupings : mapping of str to (str, mapping), optional
        Coarser levels of attributes: the name under which marginals have them, the attribute, and
        the group of each of its levels.
    zeros : iterable of StructuralZeros, optional
        Cells that are known to be zero.
    unestimable : {"raise", "nan"}
        What to do where a marginal is asked for that the values do not determine in a unit: refuse,
        naming unit and marginal, or give NaN with an infinite standard error.

    Returns
    -------
    MarginalsEstimate
        Estimates of any marginal, cell or contrast of any unit with its variance.

    Raises
    ------
    IncompatibleReleaseError
        If values published without noise contradict one another.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The estimates are the best linear unbiased ones, those of generalised least squares on all
    values of all units, with exact variances. Along each attribute of n levels the tables are
    turned to the orthonormal basis of the mean, Σx/√n, and n - 1 deviations. There a marginal that
    keeps the attributes A says of a coefficient with deviations in the attributes B ⊆ A that
    y = x Π√nₐ + noise, the product over the attributes a outside of A, and nothing of others: all
    coefficients of a unit are measured independently, with the precision Σ Πnₐ/σ² over the
    marginals with A ⊇ B. Each of them is estimated as :func:`combine_hierarchy` does numbers; those
    with the same B share their weights. Attributes with groupings or structural zeros are not
    turned: their joint levels make a coefficient a vector on the tree, with a small matrix for each
    unit in place of a variance, which all coefficients with the same B share. Time and memory are
    linear in units times cells, and no matrix over cells is formed. No variance is estimated from
    the values, and nothing is rounded or clipped.

    References
    ----------
    Hay, M., Rastogi, V., Miklau, G. and Suciu, D. (2010). Boosting the accuracy of differentially
    private histograms through consistency. arXiv:0904.0942, Theorem 3, for numbers.

    Xiao, Y., He, G., Zhang, D. and Kifer, D. (2023). An optimal and scalable matrix mechanism for
    noisy marginals under convex loss functions. arXiv:2305.08175, Section 4, for the bases in
    which marginals are independent.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> domain = dpi.Domain({"sex": ["F", "M"], "adult": [False, True]})
    >>> noise = dpi.Gaussian(sigma=2.0)
    >>> total = NoisyMarginal((), [106.2, 60.9, 39.1], noise)
    >>> by_sex = NoisyMarginal("sex", [[50.2, 51.9], [28.1, 30.4], [20.8, 20.1]], noise)
    >>> fit = combine_marginals([total, by_sex], [-1, 0, 0], domain=domain)
    >>> fit.marginal("sex").round(3)
    array([[50.744, 52.411],
           [29.722, 32.056],
           [21.022, 20.356]])
    >>> fit.marginal_bse("sex")[:, 0].round(3)
    array([1.333, 1.333, 1.333])
    """
    tree = hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy(hierarchy)
    universe = check_domain(domain)
    universe.check_size()
    if len(tree.tree) * universe.size > _CELLS_LIMIT:
        raise InvalidParameterError(
            f"hierarchy and domain must have at most {_CELLS_LIMIT} cells in all, got "
            f"{len(tree)} units of {universe.size}: estimate parts of the hierarchy at a time"
        )
    known = check_zeros(zeros)
    schema = TableSchema.of(universe, groupings, [name for one in known for name in one.levels])
    single = isinstance(marginals, NoisyMarginal)
    given = [marginals] if single else check_items(marginals, "marginals", "NoisyMarginals")
    if not given:
        raise InvalidParameterError("marginals must hold at least one NoisyMarginal, got none")
    read = tuple(read_marginal(one, schema, tree) for one in given)
    refuse_dependent([one.law for one in read], "mechanism")
    _refuse_twice(read)
    fit = MarginalsFit.of(read, tree, schema, place_zeros(known, schema, tree))
    refuse = check_option(unestimable, "unestimable", ("raise", "nan")) == "raise"
    return MarginalsEstimate(_fit=fit, _refuse=refuse)


def read_marginal(one: object, schema: TableSchema, hierarchy: Hierarchy) -> ReadMarginal:
    """Check a NoisyMarginal, and bring it in the order of domain and hierarchy."""
    if not isinstance(one, NoisyMarginal):
        raise InvalidParameterError(f"marginals must hold NoisyMarginals, got {show(one)}")
    names = schema.check_names(one.attributes)
    noises = None
    if hasattr(one.values, "__noisy__"):
        x = own_values(noisy(one.values, mechanism=one.mechanism, name="values"), "NoisyMarginal")
        at, unit = read_values(_positions(x), names, one.units, schema, hierarchy)
        values, law = x.values[at], _law_of_units(x, at, names)
        noises = x._take(schema.inward(at, names).ravel()).own_noises()
    else:
        values, unit = read_values(one.values, names, one.units, schema, hierarchy)
        refuse_unreadable(values, names, unit, hierarchy)
        if one.mechanism is None:
            raise InvalidParameterError(
                f"mechanism of the marginal {show(names)} must be given, as values is plain "
                "numbers: the law of the noise in them, such as Laplace(scale=2.0)"
            )
        law = as_noise(one.mechanism, len(values))
        warn_of_rounding(values.T, law, "values")
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), (len(values),))
    check_variance(variance)
    inward = schema.inward(values, names)
    return ReadMarginal(names, schema.kept(names), inward, unit, law, noises, variance)


def _positions(x: NoisyValues) -> Any:
    """Return the positions of values in the form in which they were given."""
    number = np.arange(len(x))
    return number.reshape(x.shape) if x.labels is None else attach_labels(number, x.labels)


def _law_of_units(x: NoisyValues, at: NDArray[np.intp], names: Names) -> NoiseLaw:
    """Return the law of the noise of the cells of each unit, which must be one."""
    if not x.marginal.shape:
        return x.marginal
    rows = at.reshape((len(at), -1))
    kinds = x._kinds()[rows]
    if (kinds != kinds[:, :1]).any():
        raise InvalidParameterError(
            f"values of the marginal {show(names)} must have one law of noise in all cells of a "
            "unit: pass what has another one as a marginal of its own"
        )
    return x.marginal.take(rows[:, 0])


def _refuse_twice(read: Sequence[ReadMarginal]) -> None:
    """Refuse noises that are in two marginals."""
    known = [one.noises for one in read if one.noises is not None]
    for number, one in enumerate(known):
        for other in known[:number]:
            _, mine, theirs = one.joined(other)
            if np.intersect1d(mine, theirs).size:
                raise InvalidParameterError(
                    "marginals must hold each published value once, got one in two of them"
                )


__all__ = ["NoisyMarginal", "StructuralZeros", "combine_marginals"]
