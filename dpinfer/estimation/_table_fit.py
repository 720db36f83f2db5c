"""The estimates of the tables of a hierarchy, held as coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation._marginals_input import Names, ReadMarginal, TableSchema
from dpinfer.estimation._tree.axes import Axes, reflect
from dpinfer.estimation._tree.parts import ScalarVariances, TableProblem, TableSolution
from dpinfer.estimation._tree.scalar import (
    Classes,
    Gains,
    Hashes,
    hashed,
    measurement_weights,
    mixed,
)
from dpinfer.estimation._tree.tables import (
    MeasuredTables,
    PlacedMarginal,
    blocked,
    chunk_rows,
    summed_to,
)
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.estimation.consistency import is_gaussian
from dpinfer.estimation.pivots import ManyErrors, clean_weights, exact_pvalues
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import IndependentNoise, groups, integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.mechanisms.weighted_sum import WeightedSum, counted_sum
from dpinfer.queries.hierarchy import Hierarchy, Places, Tree
from dpinfer.releases.noises import Noises, Part, new_origin

# Laws of the errors of cells and contrasts of tables on a tree.


_TINY = 1e-300
_BLOCK = 1 << 22  # Numbers of copies of tables, or of weights, that are worked on at a time
_PLACES = 1 << 14  # of which variances are held at a time
_MOST_WORK = 1 << 31  # weights that are found noise by noise, at most
_SAME = 12  # decimals to which weights of a coefficient in cells are the same


class TableLaws:
    """The laws of the errors of the tables of a hierarchy.

    ``whole`` makes the bound for all noises, where the estimates are also from values elsewhere.
    """

    def __init__(self, fit: MarginalsFit, whole: Callable[[], NoiseBound] | None = None) -> None:
        self.fit, self.whole = fit, whole

    @cached_property
    def single(self) -> bool:
        """Whether single laws can be found: tables have no block, and all values are here."""
        return self.whole is None and all(
            isinstance(one, ScalarVariances) for one in self.fit.solution.variances
        )

    @cached_property
    def classes(self) -> Classes:
        """Which places have equal laws."""
        fit = self.fit
        own: Hashes = np.zeros(len(fit.hierarchy.tree), dtype=np.uint64)
        for number, (one, read) in enumerate(zip(fit.placed, fit.read, strict=True)):
            rows = len(read.values)
            kind = mixed(hashed(kinds(groups(read.law, rows), rows)) + np.uint64(number + 1))
            found = kind if one.row is None else kind[one.row]
            own += np.where((one.precision > 0.0) | one.exact, mixed(found), np.uint64(0))
        return Classes.of(fit.hierarchy.tree, own)

    @cached_property
    def bound(self) -> NoiseBound:
        """The bound on the tails of all estimates."""
        return self.bound_of_these if self.whole is None else self.whole()

    @property
    def bound_of_these(self) -> NoiseBound:
        """The same for the noises of the values that are here."""
        return NoiseBound.of(self._noises(shared=True))

    @cached_property
    def bound_of_any(self) -> NoiseBound:
        """The bound on the tails of any linear function of the values."""
        if self.whole is not None:
            bound = self.whole()
            ones = tuple(np.ones(share.shape) for share in bound.shares)
            return NoiseBound(bound.laws, ones, bound.known)
        return NoiseBound.of(self._noises(shared=False))

    def _noises(self, *, shared: bool) -> Iterator[tuple[NoiseLaw, int, FloatArray | None]]:
        """Yield laws of values with the largest variance of an estimated value over its own."""
        fit = self.fit
        shares = [np.zeros(len(read.values)) for read in fit.read]
        for start in range(0, len(fit.hierarchy.tree), _PLACES):
            some = slice(start, start + _PLACES)
            places = np.flatnonzero(np.any([one.precision[some] for one in fit.placed], axis=0))
            places += start
            found = fit.cell_variances([read.names for read in fit.read], places)
            for one, share, variance in zip(fit.placed, shares, found, strict=True):
                own = one.precision[places]
                at = places[own > 0.0]
                largest = (variance.max(axis=1) * own)[own > 0.0] if shared else 1.0
                share[at if one.row is None else one.row[at]] = largest
        for read, share in zip(fit.read, shares, strict=True):
            yield read.law, len(read.values), share

    @property
    def terms(self) -> int:
        """Largest number of terms of a law: cells have as many weights as axes can agree."""
        return sum(
            len(one.values) << min(one.kept.bit_count(), 20)
            for one in self.fit.read
            if not isinstance(one.law, Exact)
        )

    @cached_property
    def integer(self) -> bool:
        """Whether some noise takes whole numbers."""
        return any(integer_cells(one.law, len(one.values)).any() for one in self.fit.read)

    @cached_property
    def magnitude(self) -> float:
        """Size of the values."""
        return max(float(np.abs(one.values).max(initial=0.0)) for one in self.fit.read)

    def cells(
        self, names: Names, places: Places, variance: FloatArray
    ) -> tuple[ManyErrors, NDArray[np.intp]]:
        """Return the laws of the cells of a marginal, and the number of that of each.

        ``variance`` is that of the cells, shape (k, r), as are the numbers.
        """
        if not self.single:
            return self._errors(np.sqrt(variance.ravel()), None), np.arange(variance.size).reshape(
                variance.shape
            )
        used, number = np.unique(self.classes.whole[places], return_inverse=True)
        first = self.classes.first[used]
        shape = tuple(len(self.fit.schema.levels_of(name)) for name in names)
        target = np.zeros((1, *shape))
        target[(0, *(0 for _ in shape))] = 1.0
        rows = np.ascontiguousarray(self.fit.schema.inward(target, names))
        at = np.zeros(used.size, dtype=np.intp)
        at[number] = np.arange(places.size)
        std_err = np.sqrt(variance[at, 0])

        def heaviest() -> int:
            share = np.zeros(used.size)
            for one, read in zip(self.fit.placed, self.fit.read, strict=True):
                if set(read.names) == set(names):
                    share = np.maximum(share, np.square(std_err) * one.precision[first])
            return int(np.argmax(share))

        errors = self._errors(std_err, lambda one: self.law(names, int(first[one]), rows), heaviest)
        return errors, number[:, np.newaxis]

    def functions(
        self, names: Names, place: int, rows: FloatArray, std_err: FloatArray
    ) -> ManyErrors:
        """Return the laws of functions of a marginal, shape (k, r, ...), of one place."""
        if not self.single:
            return replace(self._errors(std_err, None), largest=np.inf)
        errors = self._errors(std_err, lambda one: self.law(names, place, rows[[one]]))
        return replace(errors, largest=np.inf)

    def pvalues(
        self,
        marginal: NDArray[np.intp],
        place: Places,
        cell: Places,
        error: FloatArray,
        std_err: FloatArray,
    ) -> tuple[FloatArray, str]:
        """Return the p-values of values less their estimates, and by which method they are."""
        fit = self.fit

        def law(at: int) -> WeightedSum:
            read = fit.read[marginal[at]]
            rows = np.zeros((1, *read.values.shape[1:]))
            rows.reshape(-1)[cell[at]] = 1.0
            return self.law(read.names, int(place[at]), rows, int(marginal[at]))

        return exact_pvalues(
            error,
            std_err,
            law=law if self.single else None,
            terms=self.terms,
            gaussian=fit.is_gaussian,
            bound=lambda: self.bound_of_any,
        )

    def law(
        self, names: Names, place: int, rows: FloatArray, less: int | None = None
    ) -> WeightedSum:
        """Return the law of the error of a function, shape (1, 1, ...), of a marginal.

        Or of the value of the cell that it is, of the marginal of number ``less``, less that.
        """
        weights, counts, laws = [], [], []
        for number, at, row, patterns, factors in self._patterns(names, place, rows):
            read, own = self.fit.read[number], less == number
            if not at.size or not (len(patterns) or own):
                continue
            columns = patterns[:, 0] if len(patterns) else np.zeros((1, read.values[0].size))
            factor = factors if len(patterns) else np.zeros((1, at.size))
            size = max(float(np.abs(columns).max()), _TINY)
            alike, cell, times = np.unique(
                np.round(columns / size, _SAME) * size,
                axis=1,
                return_inverse=True,
                return_counts=True,
            )
            found = factor.T @ alike  # a row a place, a column a pattern
            many = np.broadcast_to(times.astype(np.float64), found.shape).copy()
            if own:
                pattern_of = int(np.ravel(cell)[int(np.argmax(rows.ravel()))])
                here = int(np.searchsorted(at, place))
                found = -found
                many[here, pattern_of] -= 1.0
                weights.append(found[[here], pattern_of] + 1.0)
                counts.append(np.ones(1))
                laws.append((read.law, row[[here]]))
            weights.append(found.ravel())
            counts.append(many.ravel())
            laws.append((read.law, np.repeat(row, alike.shape[1])))
        return _joined(weights, counts, laws)

    def _patterns(
        self, names: Names, place: int, rows: FloatArray
    ) -> Iterator[tuple[int, Places, Places, FloatArray, FloatArray]]:
        """Yield, for each marginal, the weights of its noisy values in c functions of another one.

        Its number, the places and rows of these values, and for each of p classes the part that
        cells have in the functions, shape (p, c, cells), and that rows have, shape (p, rows):
        weights are the sums of their products over the classes.
        """
        fit, axes = self.fit, self.fit.axes
        kept = fit.schema.kept(names)
        turned = rows * sqrt(axes.summed(kept))
        for axis in range(len(axes.sizes)):
            if kept >> axis & 1:
                reflect(turned, 2 + axis)
        handed = {
            mask: self._handed(at, place)
            for at, mask in enumerate(axes.classes)
            if not mask & ~kept and np.any(turned[axes.corners[at]])
        }
        for number, one in enumerate(fit.placed):
            at = np.flatnonzero(one.precision > 0.0)
            patterns, factors = [], []
            for mask, weight in handed.items():
                if not mask & ~one.kept:
                    corner = axes.corners[axes.classes.index(mask)]
                    pattern = np.zeros((len(rows), 1, *axes.shape(one.kept)))
                    pattern[corner] = turned[corner]
                    for axis in range(len(axes.sizes)):
                        if one.kept >> axis & 1:
                            reflect(pattern, 2 + axis)
                    patterns.append(pattern.reshape((len(rows), -1)))
                    share = self._measured.variance(mask)[at] * one.precision[at]
                    factors.append(weight[at] * share * sqrt(axes.summed(one.kept)))
            cells = prod(axes.shape(one.kept))
            yield (
                number,
                at,
                at if one.row is None else one.row[at],
                np.reshape(patterns, (len(patterns), len(rows), cells)),
                np.reshape(factors, (len(factors), at.size)),
            )

    def weights(self, names: Names, place: int, rows: FloatArray) -> Any:
        """Return the weights of all values in functions of a marginal, shape (c, 1, ...)."""
        from scipy.sparse import csr_array

        found, columns = [np.empty((len(rows), 0))], [np.empty(0, dtype=np.intp)]
        starts = self.fit.starts
        for number, _, row, patterns, factors in self._patterns(names, place, rows):
            part = np.einsum("pn,pck->cnk", factors, patterns)
            found.append(part.reshape((len(rows), -1)))
            cells = np.arange(patterns.shape[2])
            columns.append((starts[number] + row[:, np.newaxis] * cells.size + cells).ravel())
        used = csr_array(clean_weights(np.concatenate(found, axis=1)))
        column = np.concatenate(columns)[used.indices]
        matrix = csr_array((used.data, column, used.indptr), shape=(len(rows), int(starts[-1])))
        matrix.sort_indices()
        return matrix

    def _handed(self, number: int, place: int) -> FloatArray:
        """Weights of what is measured of a coefficient of a class in its estimate at a place."""
        gains = self._gains[number]
        target = np.zeros(len(self.fit.hierarchy.tree))
        target[place] = 1.0
        with np.errstate(invalid="ignore"):
            found = measurement_weights(gains, target)
        return np.where(np.isfinite(gains.measured), found, 0.0)

    @cached_property
    def _measured(self) -> MeasuredTables:
        return MeasuredTables(self.fit.axes, self.fit.placed)

    @cached_property
    def _gains(self) -> tuple[Gains, ...]:
        tree, measured = self.fit.hierarchy.tree, self._measured
        return tuple(Gains.of(tree, measured.variance(mask)) for mask in self.fit.axes.classes)

    def _errors(
        self,
        std_err: FloatArray,
        law: Callable[[int], WeightedSum] | None,
        heaviest: Callable[[], int] = lambda: 0,
    ) -> ManyErrors:
        return ManyErrors(
            std_errors=std_err,
            law=law,
            terms=self.terms,
            gaussian=self.fit.is_gaussian,
            integer=self.integer,
            bound=lambda: self.bound,
            magnitude=self.magnitude,
            heaviest=heaviest,
        )


def _joined(
    weights: list[FloatArray],
    counts: list[FloatArray],
    laws: list[tuple[NoiseLaw, Places]],
) -> WeightedSum:
    """Return the law of a sum of terms of vectors of noises, by position in these."""
    parts, start = [], 0
    for law, at in laws:
        taken = law.take(at) if law.shape else law
        parts += [(one, start + cells) for one, cells in groups(taken, at.size)]
        start += at.size
    found = np.concatenate([np.empty(0), *weights])
    return counted_sum(clean_weights(found), np.concatenate([np.empty(0), *counts]), parts)


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

    def contrast(self, names: Names, place: int, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return estimates and variances of functions of a marginal, shape (k, r, ...); (k,)."""
        kept = self.schema.kept(names)
        turned = rows * np.sqrt(self.axes.summed(kept))
        for axis in range(len(self.axes.sizes)):
            if kept >> axis & 1:
                reflect(turned, 2 + axis)
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
