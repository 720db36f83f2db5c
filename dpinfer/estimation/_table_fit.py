"""The estimates of the tables of a hierarchy, held as coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation._marginals_input import Names, ReadMarginal, TableSchema
from dpinfer.estimation._table_laws import TableLaws
from dpinfer.estimation._tree.axes import Axes, reflect
from dpinfer.estimation._tree.parts import TableProblem, TableSolution
from dpinfer.estimation._tree.tables import (
    MeasuredTables,
    PlacedMarginal,
    blocked,
    chunk_rows,
    summed_to,
)
from dpinfer.estimation.consistency import is_gaussian
from dpinfer.estimation.pivots import clean_weights
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.queries.hierarchy import Hierarchy, Places, Tree
from dpinfer.releases.noises import Noises, Part, new_origin

_BLOCK = 1 << 22  # Numbers of copies of tables, or of weights, that are worked on at a time
_PLACES = 1 << 14  # of which variances are found at a time
_MOST_WORK = 1 << 31  # weights that are found noise by noise, at most

_ROUNDING = 1e-12
"""Size of a part of a contrast, relative to the contrast, below which it is rounding."""

CONTRADICTIONS = (
    "the exact values of a unit contradict one another for",
    "exact values contradict one another in or just below",
)
"""What messages say of exact values within a unit, and of those of a unit and others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalsFit:
    """Estimates of the tables of all units of a hierarchy."""

    hierarchy: Hierarchy  # the units
    schema: TableSchema  # the attributes of their tables
    read: tuple[ReadMarginal, ...]  # what was published
    placed: tuple[PlacedMarginal, ...]  # the same at the n places of the tree
    zeros: NDArray[np.bool_] | None  # (n, g): levels of the block that are 0
    solution: TableSolution  # the estimates

    @classmethod
    def of(
        cls,
        read: tuple[ReadMarginal, ...],
        hierarchy: Hierarchy,
        schema: TableSchema,
        zeros: NDArray[np.bool_] | None,
    ) -> MarginalsFit:
        """Combine marginals."""
        placed = tuple(one.placed(hierarchy) for one in read)
        solution = problem(schema, read, placed, zeros).solve(hierarchy.tree)
        within, across = CONTRADICTIONS
        refuse_contradictions(solution.inside, hierarchy, within)
        refuse_contradictions(solution.between, hierarchy, across)
        return cls(
            hierarchy=hierarchy,
            schema=schema,
            read=read,
            placed=placed,
            zeros=zeros,
            solution=solution,
        )

    @property
    def axes(self) -> Axes:
        """The transformed axes of the tables."""
        return self.schema.axes

    @property
    def values(self) -> int:
        """Number of published values."""
        return sum(one.values.size for one in self.read)

    @property
    def is_gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return all(is_gaussian(one.law, len(one.values)) for one in self.read)

    @cached_property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""
        if self.solution.degrees is not None:
            return self.solution.degrees
        # the trace of what maps values to residuals is the dimension of these
        left = 0.0
        for one, read in zip(self.placed, self.read, strict=True):
            at = np.flatnonzero(one.precision > 0.0)
            variance = self.cell_variance(read.names, at) * one.precision[at, np.newaxis]
            left += prod(self.axes.shape(one.kept)) * float((1.0 - variance).sum())
        return round(left)

    @cached_property
    def laws(self) -> TableLaws:
        """The laws of the errors."""
        return TableLaws(self)

    def places(self, units: Places | None) -> Places:
        """Return the places of units, by default all."""
        return self.hierarchy.tree.place_of(
            np.arange(len(self.hierarchy)) if units is None else units
        )

    @cached_property
    def starts(self) -> Places:
        """Where the noises of each marginal begin among those of all, and where they end."""
        return np.cumsum([0, *(one.values.size for one in self.read)])

    @cached_property
    def noises(self) -> Noises:
        """The noises of all values, one marginal after the other, in the order of cells inside."""
        self.refuse_part()
        laws: list[tuple[NoiseLaw, Places]] = []
        parts: list[Part] = []
        for one, start in zip(self.read, self.starts, strict=False):
            rows, law, size = len(one.values), one.law, one.values.size
            law = law.take(np.repeat(np.arange(rows), size // rows)) if law.shape else law
            laws += [(kind, start + cells) for kind, cells in groups(law, size)]
            parts += [(new_origin(), None, size)] if one.noises is None else one.noises.parts
        size = int(self.starts[-1])
        return Noises(IndependentNoise.from_groups(laws, size), size, parts)

    def refuse_part(self) -> None:
        """Refuse estimates that are also from values elsewhere, whose noises are not here."""
        if self.laws.whole is not None:
            raise InvalidParameterError(
                "the estimates of one part are from the values of all parts, whose noises are not "
                "in memory: use conf_int, or combine the hierarchy with combine_marginals"
            )

    def weights(self, names: Names, unit: int, rows: FloatArray) -> Any:
        """Return the weights of all values in functions of a marginal, shape (k, r, ...)."""
        if self.laws.single:
            place = int(self.places(np.array([unit]))[0])
            return self.laws.weights(names, place, rows)
        from scipy.sparse import csr_array

        inner = blocked(self.schema.matrix(names).T, rows)
        shape = self.axes.shape(self.axes.set_of(self.axes.names))
        every = np.broadcast_to(inner, (*inner.shape[:2], *shape))
        cells = self.schema.outward(every, self.schema.domain.attributes).reshape((len(rows), -1))
        at = unit * cells.shape[1] + np.arange(cells.shape[1])
        return csr_array(cells) @ CellRows(self).take(at)

    def weights_of_cells(self, coefficients: Any) -> FloatArray:
        """Return the weights of all values in functions of cells of all units, shape (k, q).

        Units with the same coefficients are taken together: one pass over the tree for all.
        """
        from scipy.sparse import csr_array

        if not self.laws.single:
            used = np.unique(coefficients.indices)
            return np.asarray((coefficients[:, used] @ CellRows(self).take(used)).toarray())
        names, size = self.schema.domain.attributes, self.schema.domain.size
        shape, tree = self.schema.shape(names), len(self.hierarchy.tree)
        targets: dict[bytes, tuple[FloatArray, list[int], list[FloatArray]]] = {}
        for number in range(coefficients.shape[0]):
            row = coefficients[[number]]
            unit, cell = np.divmod(row.indices, size)
            different, at = np.unique(unit, return_inverse=True)
            table = csr_array((row.data, (at, cell)), shape=(different.size, size)).toarray()
            patterns, which = np.unique(table, axis=0, return_inverse=True)
            for one, pattern in enumerate(patterns):
                target = np.zeros(tree)
                target[self.places(different[np.ravel(which) == one])] = 1.0
                _, numbers, rows = targets.setdefault(target.tobytes(), (target, [], []))
                numbers.append(number)
                rows.append(pattern)
        out = np.zeros((coefficients.shape[0], int(self.starts[-1])))
        for target, numbers, rows in targets.values():
            inner = self.schema.inward(np.reshape(rows, (-1, *shape)), names)
            found = self.laws.weights_of(names, target, np.ascontiguousarray(inner))
            np.add.at(out, numbers, found.toarray())
        return out

    def copies(
        self, values: Sequence[FloatArray]
    ) -> tuple[tuple[PlacedMarginal, ...], TableSolution, Places]:
        """Estimate from other values, shape (r, m, ...) for each marginal, r copies of the tree.

        Returned are these values at the places of the copies, the estimates, and the copy of each
        place; a place of the tree is number copy times places plus place.
        """
        tree, size = self.hierarchy.tree, len(values[0])
        places = len(tree)
        shift = np.repeat(np.arange(size) * places, places)
        parent = np.tile(tree.parent, size)
        forest = Tree.of(np.where(parent < 0, -1, parent + shift))
        number = np.arange(size * places) if forest.order is None else forest.order
        copy, place = np.divmod(number, places)
        placed = []
        for one, found in zip(self.placed, values, strict=True):
            row = place if one.row is None else one.row[place]
            placed.append(
                PlacedMarginal(
                    one.kept,
                    found.reshape((-1, *found.shape[2:])),
                    copy * found.shape[1] + row,
                    one.precision[place],
                    one.exact[place],
                )
            )
        zeros = None if self.zeros is None else self.zeros[place]
        solved = problem(self.schema, self.read, tuple(placed), zeros).solve(forest)
        return tuple(placed), solved, copy

    def spread(self, numbers: NDArray[Any], names: Names) -> NDArray[Any]:
        """Return numbers, shape (k, r), for each cell of a marginal."""
        shape = self.axes.shape(self.schema.kept(names))
        wide = numbers.reshape((*numbers.shape, *(1,) * len(shape)))
        return self.schema.outward(np.broadcast_to(wide, (*numbers.shape, *shape)), names)

    def marginal(self, names: Names, places: Places | None) -> FloatArray:
        """Return the marginals of some places, or of all units, shape (k, r, ...).

        Those of all units may be the tables themselves.
        """
        kept, matrix = self.schema.kept(names), self.schema.matrix(names)
        tables = self.solution.held
        if places is None:
            return tables.numbered(kept, matrix, len(self.hierarchy))
        out = np.empty((places.size, len(matrix), *self.axes.shape(kept)))
        step = chunk_rows(self.schema.domain.size)
        for start in range(0, places.size, step):
            rows = slice(start, min(start + step, places.size))
            out[rows] = tables.marginal(kept, matrix, places[rows])
        return out

    def known(self, names: Names) -> bool:
        """Tell whether the values determine these marginals in all units."""
        kept = self.schema.kept(names)
        pairs = zip(self.axes.classes, self.solution.variances, strict=True)
        return all(variances.known for mask, variances in pairs if not mask & ~kept)

    def cell_variance(self, names: Names, places: Places) -> FloatArray:
        """Return the variances of each cell of these marginals, shape (k, r)."""
        (found,) = self.cell_variances([names], places)
        return found

    def cell_variances(self, wanted: Sequence[Names], places: Places) -> list[FloatArray]:
        """Return those of several marginals, for which each class is asked once."""
        weights = [self.axes.cell_weights(self.schema.kept(names)) for names in wanted]
        matrices = [self.schema.matrix(names) for names in wanted]
        different = {matrix.tobytes(): matrix for matrix in matrices}
        found = [np.zeros((places.size, len(matrix))) for matrix in matrices]
        for at, variances in enumerate(self.solution.variances):
            used = [own[at] > 0.0 for own in weights]
            needed = {one.tobytes() for one, own in zip(matrices, used, strict=True) if own}
            asked = {key: one for key, one in different.items() if key in needed}
            if not asked:
                continue
            every = variances.variance(np.concatenate(list(asked.values())), places)
            stops = np.cumsum([len(one) for one in asked.values()])
            parts = dict(zip(asked, np.split(every, stops[:-1], axis=1), strict=True))
            for own, matrix, total in zip(weights, matrices, found, strict=True):
                if own[at] > 0.0:
                    total += own[at] * parts[matrix.tobytes()]
        return [np.maximum(one, 0.0, out=one) for one in found]  # rounding, if all is exact

    def all_cell_variances(self, wanted: Sequence[Names]) -> list[FloatArray]:
        """Return those of several marginals at all places, found some places at a time."""
        size = len(self.hierarchy.tree)
        cuts = [np.arange(start, min(start + _PLACES, size)) for start in range(0, size, _PLACES)]
        parts = [self.cell_variances(wanted, places) for places in cuts]
        return [np.concatenate(found) for found in zip(*parts, strict=True)]

    def contrast(self, names: Names, place: int, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return estimates and variances of functions of a marginal, shape (k, r, ...); (k,)."""
        kept = self.schema.kept(names)
        turned = rows * np.sqrt(self.axes.summed(kept))
        reflect(turned)
        turned = blocked(self.schema.matrix(names).T, turned)
        size = np.sqrt(np.square(turned).sum(axis=tuple(range(1, turned.ndim))))
        table = self.solution.tables.coefficients(slice(place, place + 1))
        estimate, variance = np.zeros(len(rows)), np.zeros(len(rows))
        for mask, corner, variances in zip(
            self.axes.classes, self.axes.corners, self.solution.variances, strict=True
        ):
            if mask & ~kept:
                continue
            part = turned[corner].reshape((*turned.shape[:2], -1))
            function, column = np.nonzero(
                np.sqrt(np.square(part).sum(axis=1)) > _ROUNDING * size[:, np.newaxis]
            )
            if function.size:
                used = part[function, :, column]
                known = table[corner].reshape((self.schema.levels, -1))[:, column].T
                found = variances.variance(used, np.array([place]))[0]
                np.add.at(estimate, function, (used * known).sum(axis=1))
                np.add.at(variance, function, found)
        return estimate, np.maximum(variance, 0.0)  # rounding, where all is known exactly


@dataclass(frozen=True, eq=False)
class CellRows:
    """The weights of all cells of all units on the values, made when they are asked for."""

    fit: MarginalsFit

    def take(self, positions: Places) -> Any:
        """Return some rows, a sparse array: one pass down the tree for the cells of a unit."""
        from scipy.sparse import vstack

        fit, names = self.fit, self.fit.schema.domain.attributes
        if not fit.laws.single:
            return self._by_noise(positions)
        shape = fit.schema.shape(names)
        unit, cell = np.divmod(positions, prod(shape))
        rows, order = [], []
        for one in np.unique(unit):
            at = np.flatnonzero(unit == one)
            target = np.zeros((at.size, prod(shape)))
            target[np.arange(at.size), cell[at]] = 1.0
            inner = fit.schema.inward(target.reshape((-1, *shape)), names)
            place = int(fit.places(np.array([one]))[0])
            rows.append(fit.laws.weights(names, place, np.ascontiguousarray(inner)))
            order.append(at)
        return vstack(rows, format="csr")[np.argsort(np.concatenate(order))]

    def _by_noise(self, positions: Places) -> Any:
        """Find the weights of the noises one by one, where the coefficients are vectors."""
        from scipy.sparse import csr_array

        size, cells = self.fit.noises.size, len(self.fit.hierarchy) * self.fit.schema.domain.size
        variance = np.broadcast_to(np.asarray(self.fit.noises.law.variance), size)
        noisy = np.flatnonzero(variance > 0.0)
        if noisy.size * cells > _MOST_WORK:
            raise InvalidParameterError(
                f"values must be fewer than {size} of {cells} cells for the laws of single cells "
                "of tables with groupings or zeros: use conf_int or contrast, which have bounds"
            )
        out = np.zeros((positions.size, size))
        step = max(1, _BLOCK // max(size, cells))
        for start in range(0, noisy.size, step):
            at = noisy[start : start + step]
            one = np.zeros((size, at.size))
            one[at, np.arange(at.size)] = 1.0
            out[:, at] = self.apply(one)[positions]
        return csr_array(clean_weights(out))

    def apply(self, noises: FloatArray) -> FloatArray:
        """Return the errors of all cells that r draws of the noises, shape (q, r), make."""
        fit, names = self.fit, self.fit.schema.domain.attributes
        kept, matrix = fit.schema.kept(names), fit.schema.matrix(names)
        places, tree = fit.places(None), len(fit.hierarchy.tree)
        out = np.empty((places.size * fit.schema.domain.size, noises.shape[1]))
        step = max(1, _BLOCK // (tree * fit.schema.domain.size))
        for start in range(0, noises.shape[1], step):
            part = noises[:, start : start + step].T
            values = [
                np.ascontiguousarray(part[:, first:last]).reshape((-1, *one.values.shape))
                for one, first, last in zip(fit.read, fit.starts, fit.starts[1:], strict=False)
            ]
            tables = fit.copies(values)[1].held
            for copy in range(len(part)):
                found = summed_to(fit.axes, kept, matrix, tables.found[copy * tree + places])
                out[:, start + copy] = fit.schema.outward(found, names).ravel()
        return out

    def variance(self) -> FloatArray:
        """Return the variance of the error of each cell."""
        fit, names = self.fit, self.fit.schema.domain.attributes
        return fit.spread(fit.cell_variance(names, fit.places(None)), names).ravel()


def problem(
    schema: TableSchema,
    read: tuple[ReadMarginal, ...],
    placed: tuple[PlacedMarginal, ...],
    zeros: NDArray[np.bool_] | None,
    *,
    block: bool = False,
) -> TableProblem:
    """Put marginals together that have the same levels of the block, which may have one only."""
    matrices: dict[bytes, FloatArray] = {}
    alike: dict[bytes, list[PlacedMarginal]] = {}
    for one, known in zip(placed, read, strict=True):
        matrix = schema.matrix(known.names)
        matrices[matrix.tobytes()] = matrix
        alike.setdefault(matrix.tobytes(), []).append(one)
    return TableProblem(
        axes=schema.axes,
        levels=schema.levels,
        measured=[MeasuredTables(schema.axes, tuple(found)) for found in alike.values()],
        matrices=list(matrices.values()),
        zeros=zeros,
        block=block or schema.levels > 1 or zeros is not None,
    )


def refuse_contradictions(places: Places, hierarchy: Hierarchy, what: str) -> None:
    """Refuse exact values that contradict one another."""
    if places.size:
        order = hierarchy.tree.order
        found = np.unique(places if order is None else order[places])
        units = found[found < len(hierarchy)]
        raise IncompatibleReleaseError(
            f"values published without noise must agree, but {what} {hierarchy.names(units)}"
        )
