"""Complete marginal tables, each with one variance: least squares in closed form.

Where every marginal of a table is published whole and its cells have one variance, AᵀV⁻¹A has the
same eigenvectors whatever the variances: products of means and deviations of the attributes. The
estimates follow from sums along the axes, and each class of coefficients has one variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.axes import Assembly, Axes, reflect
from dpinfer.estimation.design import (
    PROBE_SEED,
    PROBES,
    Design,
    Matrix,
    Rows,
    Solver,
    as_dense,
    in_range,
)
from dpinfer.queries.workload import Workload

_ALIKE = 8 * np.finfo(float).eps
"""Precisions that differ by less, relative to their size, are one: they are sums of a few."""

_MOST_ATTRIBUTES = 16  # of which there are 2¹⁶ classes of coefficients
_NUMBERS = 8_000_000  # cells of tables that are transformed together


@dataclass(frozen=True, eq=False)
class _Margin:
    """One marginal, published whole, once or more often."""

    kept: int  # the attributes that it keeps, as bits in the order of the axes
    rows: NDArray[np.intp]  # the published values
    cell: NDArray[np.intp]  # the cell of the marginal that each answers
    each: FloatArray  # the precision of each value; 1 for values without noise
    precision: float  # that of a cell


@dataclass(frozen=True, eq=False)
class _Layer:
    """Marginals with noise, or those without."""

    axes: Axes
    margins: tuple[_Margin, ...]

    @cached_property
    def information(self) -> FloatArray:
        """The eigenvalue of AᵀWA in each class of coefficients."""
        classes = np.array(self.axes.classes)
        found = np.zeros(len(classes))
        for one in self.margins:
            found[classes & ~one.kept == 0] += one.precision * self.axes.summed(one.kept)
        return found

    @cached_property
    def _assembly(self) -> Assembly:
        return Assembly.of(self.axes, (one.kept for one in self.margins))

    def score(self, values: FloatArray) -> FloatArray:
        """Return the coefficients of AᵀWy for values (k × m)."""
        axes, out = self.axes, np.zeros((len(values), 1, *self.axes.sizes))
        if not self.margins:
            return out
        plan = self._assembly
        parts = {kept: np.zeros((len(values), 1, *axes.shape(kept))) for kept in plan.kept}
        for one in self.margins:
            part = parts[one.kept].reshape(len(values), -1)
            weighted = values[:, one.rows] * (one.each * sqrt(axes.summed(one.kept)))
            for line, own in zip(part, weighted, strict=True):
                line += np.bincount(one.cell, own, minlength=len(line))
        plan.run(list(parts.values()))
        out[axes.constant(plan.kept[0])] = parts[plan.kept[0]]
        return out

    def weigh(self, coefficients: FloatArray, out: FloatArray) -> None:
        """Add to weights (k × m) those of values in W A x for coefficients of x."""
        for one in self.margins:
            table = coefficients[self.axes.constant(one.kept)] * sqrt(self.axes.summed(one.kept))
            reflect(table)
            out[:, one.rows] += one.each * table.reshape(len(out), -1)[:, one.cell]


@dataclass(frozen=True, eq=False)
class MarginalSolver(Solver):
    """Best linear unbiased estimates from complete marginals, each with one variance.

    The cells x are estimated by Σ P_C AᵀV⁻¹y / λ_C over sets C of attributes, where P_C projects on
    the tables that have means of zero along the attributes in C and are constant along the others,
    and λ_C = Σ_{S ⊇ C} Π_{a ∉ S} n_a / v_S, over the marginals that keep S. Classes with λ_C = 0
    are not measured, and are estimated by 0. Values without noise determine their classes.
    """

    workload: Workload
    _axes: Axes
    _order: tuple[int, ...]  # the axes of the domain in the order of those of ``axes``
    _noisy: _Layer
    _exact: _Layer

    @classmethod
    def of(cls, workload: Workload, variance: FloatArray) -> MarginalSolver | None:
        """Return the solver if the workload and the variances are such."""
        domain, codes = workload.domain, workload.codes
        if domain is None or codes is None or len(domain.shape) > _MOST_ATTRIBUTES:
            return None
        axes = Axes.of(dict(zip(domain.attributes, domain.shape, strict=True)))
        order = tuple(domain.attributes.index(name) for name in axes.names)
        margins: tuple[list[_Margin], list[_Margin]] = ([], [])
        for kept, rows, cell in _margins(axes, codes[:, order]):
            cells = prod(axes.shape(kept))
            exact = variance[rows] == 0
            for layer, chosen in zip(margins, (~exact, exact), strict=True):
                if not chosen.any():
                    continue
                own = variance[rows[chosen]]
                each = 1.0 / own if layer is margins[0] else np.ones(len(own))
                precision = np.bincount(cell[chosen], each, minlength=cells)
                low, high = float(precision.min()), float(precision.max())
                if not low > 0 or high - low > _ALIKE * high:
                    return None
                layer.append(_Margin(kept, rows[chosen], cell[chosen], each, high))
        noisy, without = (_Layer(axes, tuple(layer)) for layer in margins)
        return cls(workload, axes, order, noisy, without)

    @cached_property
    def _shares(self) -> tuple[FloatArray, FloatArray]:
        """Factors of the classes: 1/λ with noise, and without, where that determines a class."""
        noisy, exact = self._noisy.information, self._exact.information
        known = exact > 0
        with_noise = np.where(known | (noisy == 0), 0.0, 1.0 / np.where(noisy > 0, noisy, 1.0))
        return with_noise, np.where(known, 1.0 / np.where(known, exact, 1.0), 0.0)

    @cached_property
    def design(self) -> Design:
        """The workload with the cells as coordinates, and random vectors that it does not tell."""
        measured = (self._noisy.information > 0) | (self._exact.information > 0)
        rank = int(np.array(self._axes.degrees())[measured].sum())
        matrix, size = self.workload.matrix, np.ones(self.workload.shape[1])
        if measured.all():
            return Design(matrix, None, size, None, _rank=rank)
        rng = np.random.default_rng(PROBE_SEED)
        tables = rng.standard_normal((PROBES, 1, *self._axes.sizes))
        self._multiply(tables, np.where(measured, 0.0, 1.0))
        null = self._cells(tables).T
        return Design(matrix, null, size * np.abs(null).max(), None, _rank=rank)

    @in_range
    def coefficients(self, values: FloatArray) -> FloatArray:
        """Return the best linear unbiased estimates of the cells."""
        rows = values[np.newaxis] if values.ndim == 1 else values.T
        found = np.empty((len(rows), self.workload.shape[1]))
        for part in self._blocks(len(rows)):
            tables = self._noisy.score(rows[part])
            self._multiply(tables, self._shares[0])
            if self._exact.margins:
                known = self._exact.score(rows[part])
                self._multiply(known, self._shares[1])
                tables += known
            found[part] = self._cells(tables)
        return found[0] if values.ndim == 1 else found.T

    @in_range
    def weights(self, target: Matrix) -> FloatArray:
        """Return the weights of the values in the best estimates of targets (k × n)."""
        out = np.zeros((target.shape[0], len(self.workload)))
        for part in self._blocks(len(out)):
            tables = self._coefficients_of(as_dense(target[part]))
            for layer, shares in zip((self._noisy, self._exact), self._shares, strict=True):
                own = tables.copy()
                self._multiply(own, shares)
                layer.weigh(own, out[part])
        return out

    @in_range
    def std_errors(self, target: Matrix, rows: Rows | None = None) -> FloatArray:
        """Return the standard errors of the best estimates of targets (k × n)."""
        scale, lengths = self._boxes(target)
        found = np.empty(len(scale))
        boxes = scale > 0
        if boxes.any():
            kind = np.zeros(int(boxes.sum()), dtype=np.int64)
            for own, size in zip(lengths[boxes].T, self._axes.sizes, strict=True):
                kind = kind * size + own - 1
            _, first, which = np.unique(kind, return_index=True, return_inverse=True)
            variance = self._box_weights(lengths[boxes][first]) @ self._shares[0]
            found[boxes] = scale[boxes] * np.sqrt(variance)[which]
        others = np.flatnonzero(~boxes)
        for part in self._blocks(len(others)):
            at = others[part]
            tables = self._coefficients_of(as_dense(target[at]))
            self._multiply(tables, np.sqrt(self._shares[0]))
            found[at] = np.sqrt(np.square(tables).reshape(len(at), -1).sum(axis=1))
        return found

    def _blocks(self, rows: int) -> Iterator[slice]:
        step = max(1, _NUMBERS // self.workload.shape[1])
        return (slice(start, min(start + step, rows)) for start in range(0, rows, step))

    def _multiply(self, tables: FloatArray, factors: FloatArray) -> None:
        self._axes.multiply(tables, [np.full(len(tables), one) for one in factors.tolist()])

    def _cells(self, tables: FloatArray) -> FloatArray:
        """Turn coefficients, in place, to cells (k × n) in the order of the domain."""
        reflect(tables)
        back = np.argsort(self._order) + 2
        return tables.transpose(0, 1, *back).reshape(len(tables), -1)

    def _coefficients_of(self, cells: FloatArray) -> FloatArray:
        """Return the coefficients of tables of cells (k × n) in the order of the domain."""
        shape = tuple(self._axes.sizes[at] for at in np.argsort(self._order))
        tables = cells.reshape((len(cells), 1, *shape))
        tables = np.array(tables.transpose(0, 1, *(2 + at for at in self._order)), order="C")
        reflect(tables)
        return tables

    def _boxes(self, target: Matrix) -> tuple[FloatArray, NDArray[np.intp]]:
        """Return the weight of cells in targets that weigh those of a box alike, 0 for others.

        And the numbers of levels that the box has of each axis.
        """
        from scipy.sparse import csr_array

        rows = csr_array(target)
        if not (rows.has_canonical_format and rows.data.all()):
            rows = csr_array(rows, copy=True)
            rows.sum_duplicates()
            rows.eliminate_zeros()
        filled = np.diff(rows.indptr)
        scale, lengths = np.zeros(rows.shape[0]), np.ones((rows.shape[0], len(self._order)), int)
        some = np.flatnonzero(filled)
        if not len(some):
            return scale, lengths
        starts = rows.indptr[some]
        sizes = np.array(self._axes.sizes)[np.argsort(self._order)].tolist()
        rest = rows.indices
        for axis in range(len(sizes) - 1, -1, -1):
            whole = rest // sizes[axis]
            level, rest = rest - whole * sizes[axis], whole
            span = np.maximum.reduceat(level, starts) - np.minimum.reduceat(level, starts) + 1
            lengths[some, self._order.index(axis)] = span
        first = rows.data[starts]
        one = np.logical_and.reduceat(rows.data == np.repeat(first, filled[some]), starts)
        box = one & (lengths[some].prod(axis=1) == filled[some])
        scale[some[box]] = np.abs(first[box])
        return scale, lengths

    def _box_weights(self, lengths: NDArray[np.intp]) -> FloatArray:
        """Return the squared length of the part in each class of indicators of boxes."""
        found = np.ones((len(lengths), len(self._axes.classes)))
        classes = np.array(self._axes.classes)
        for axis, size in enumerate(self._axes.sizes):
            own = lengths[:, axis : axis + 1]
            inside = classes >> axis & 1 == 1
            found *= np.where(inside, own * ((size - own) / size), own * (own / size))
        return found


def _margins(
    axes: Axes, codes: NDArray[np.int32]
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the attributes that some of the rows keep, these rows, and the cell of each."""
    kept = np.zeros(len(codes), dtype=np.int64)
    for axis, column in enumerate(codes.T):
        kept |= (column >= 0).astype(np.int64) << axis
    order = np.argsort(kept, kind="stable")
    cuts = np.flatnonzero(np.diff(kept[order])) + 1
    for rows in np.split(order, cuts):
        cell = np.zeros(len(rows), dtype=np.intp)
        mask = int(kept[rows[0]])
        for axis, size in enumerate(axes.sizes):
            if mask >> axis & 1:
                cell = cell * size + codes[rows, axis]
        yield mask, rows, cell
