"""Whether the values of tables agree as well as their noise says, and which agree least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_integer
from dpinfer.estimation.consistency import CHECKED, disagreement_frame
from dpinfer.estimation.tables._cells import CellTables, summed_to
from dpinfer.estimation.tables._fit import MarginalsFit, problem
from dpinfer.estimation.tables._measured import PlacedMarginal, chunk_rows
from dpinfer.mechanisms import IndependentNoise, NoiseLaw
from dpinfer.mechanisms.independent import groups
from dpinfer.queries._tree import Tree
from dpinfer.queries.domain import SUMMED

if TYPE_CHECKING:
    import pandas as pd

_WHOLE_LIMIT = 4_000_000
"""Values up to which two sums of squares could be equal, so that their rounding counts."""


@dataclass(frozen=True, eq=False)
class TableDisagreement:
    """The statistic Q = Σ (y - x̂)²/v of all values of the tables of a hierarchy."""

    fit: MarginalsFit

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""
        return self.fit.degrees

    @cached_property
    def mechanism(self) -> NoiseLaw:
        """The law of the noise, once for all cells of a marginal in a unit."""
        read = self.fit.read
        stops = np.cumsum([len(one.values) for one in read])
        parts = [
            (law, stop - len(one.values) + cells)
            for one, stop in zip(read, stops, strict=True)
            for law, cells in groups(one.law, len(one.values))
        ]
        return IndependentNoise.from_groups(parts, int(stops[-1]))

    @property
    def size(self) -> int:
        """Number of values."""
        return self.fit.values

    def observed(self) -> FloatArray:
        """Q of the published values.

        From few values, whole numbers that add up are taken off first, so that the size of the
        confidential values does not make for rounding errors.
        """
        fit, tree = self.fit, self.fit.hierarchy.tree
        if self.size > _WHOLE_LIMIT:
            return np.asarray(_squares(fit, fit.placed, fit.solution.tables).sum())
        axes = fit.axes
        whole = np.rint(fit.solution.tables.at(slice(None)))
        if fit.zeros is not None:
            whole[_and_below(tree, fit.zeros)] = 0.0
        for families in reversed(tree.families):
            children = whole[families.children]
            whole[families.parents] = np.add.reduceat(children, families.starts, axis=0)
        changed = []
        for one, read in zip(fit.placed, fit.read, strict=True):
            part = summed_to(axes, one.kept, fit.schema.matrix(read.names), whole)
            less = one.at(slice(None)) - part
            changed.append(replace(one, values=less, row=None))
        solved = problem(fit.schema, fit.read, tuple(changed), fit.zeros).solve(tree)
        return np.asarray(_squares(fit, tuple(changed), solved.tables).sum())

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw that many replicates of Q: the confidential values drop out.

        They are estimated at once, as tables on so many copies of the tree.
        """
        fit, tree = self.fit, self.fit.hierarchy.tree
        places = len(tree)
        shift = np.repeat(np.arange(size) * places, places)
        parent = np.tile(tree.parent, size)
        forest = Tree.of(np.where(parent < 0, -1, parent + shift))
        number = np.arange(size * places) if forest.order is None else forest.order
        copy, place = np.divmod(number, places)
        drawn = []
        for one, read in zip(fit.placed, fit.read, strict=True):
            rows, cells = len(read.values), read.values.shape[1:]
            noise = np.moveaxis(read.law.rvs((size, *cells, rows), rng=rng), -1, 1)
            row = place if one.row is None else one.row[place]
            drawn.append(
                PlacedMarginal(
                    one.kept,
                    noise.reshape((size * rows, *cells)),
                    copy * rows + row,
                    one.precision[place],
                    one.exact[place],
                )
            )
        zeros = None if fit.zeros is None else fit.zeros[place]
        solved = problem(fit.schema, fit.read, tuple(drawn), zeros).solve(forest)
        return np.bincount(copy, _squares(fit, tuple(drawn), solved.tables), size).astype(
            np.float64
        )


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


@dataclass(frozen=True, eq=False)
class _Worst:
    """Residuals of values with the largest scores."""

    z: FloatArray
    place: NDArray[np.intp]
    marginal: NDArray[np.intp]
    cell: NDArray[np.intp]
    residual: FloatArray
    published: FloatArray
    std_err: FloatArray

    def most(self, other: _Worst, most: int) -> _Worst:
        """Return the largest of two."""
        joined = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in self.__dataclass_fields__
        }
        order = np.argsort(-np.abs(joined["z"]), kind="stable")[:most]
        return _Worst(**{name: column[order] for name, column in joined.items()})


def disagreements(fit: MarginalsFit, most: int) -> pd.DataFrame:
    """Return the values that differ most from the estimates."""
    most = check_integer(most, "most", ge=1)
    empty, none = np.empty(0), np.empty(0, dtype=np.intp)
    worst = _Worst(empty, none, none, none, empty, empty, empty)
    compared = 0
    for number, rows, residuals in _residuals(fit, fit.placed, fit.solution.tables):
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
        found = _Worst(
            z=score.ravel()[top],
            place=rows.start + place,
            marginal=np.full(top.size, number),
            cell=cell,
            residual=residuals.ravel()[top],
            published=one.at(rows).ravel()[top].astype(np.float64),
            std_err=scale.ravel()[top // cells],
        )
        worst = worst.most(found, most)
    return _frame(fit, worst, compared)


def _frame(fit: MarginalsFit, worst: _Worst, compared: int) -> pd.DataFrame:
    import pandas as pd

    order, labels = fit.hierarchy.tree.order, fit.hierarchy.labels
    unit = worst.place if order is None else order[worst.place]
    units: Any = unit if labels is None else labels[unit]
    index = pd.Index(units, name="unit", tupleize_cols=False)
    names = [*fit.schema.domain.attributes, *fit.schema.groupings]
    parts = {name: np.full(unit.size, SUMMED, dtype=object) for name in names}
    for row, (number, cell) in enumerate(zip(worst.marginal, worst.cell, strict=True)):
        for name, level in fit.schema.levels_at(fit.read[number].names, int(cell)).items():
            parts[name][row] = level
    if names:
        index = pd.MultiIndex.from_arrays([index, *parts.values()], names=["unit", *names])
    pvalue, method = fit.laws.pvalues(
        worst.marginal, worst.place, worst.cell, worst.residual, worst.std_err
    )
    return disagreement_frame(
        worst.published,
        worst.published - worst.residual,
        worst.residual,
        worst.std_err,
        worst.z,
        pvalue,
        index=index,
        method=method,
        compared=compared,
    )
