"""Laws of the errors of cells and contrasts of tables on a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.estimation._marginals_input import Names
from dpinfer.estimation._tree.axes import reflect
from dpinfer.estimation._tree.cumulants import Factors
from dpinfer.estimation._tree.parts import ScalarVariances
from dpinfer.estimation._tree.scalar import (
    Classes,
    Gains,
    Hashes,
    hashed,
    measurement_weights,
    mixed,
)
from dpinfer.estimation._tree.tables import MeasuredTables
from dpinfer.estimation.bounds import NoiseBound, are_checked, kurtosis
from dpinfer.estimation.pivots import ManyErrors, Moments, clean_weights, exact_pvalues
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import groups, integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.mechanisms.weighted_sum import WeightedSum, counted_sum
from dpinfer.queries.hierarchy import Places

_TINY = 1e-300
_SAME = 12  # decimals to which weights of a coefficient in cells are the same
_PATIENCE = 12.0  # by which the time is multiplied that exact laws of tables may take
_MOST_SUMS = 200_000_000  # products of four weights that are summed for fourth cumulants, at most


class TableLaws:
    """The laws of the errors of the tables of a hierarchy.

    ``whole`` makes the bound for all noises, where the estimates are also from values elsewhere.
    """

    def __init__(self, fit: Any, whole: Callable[[], NoiseBound] | None = None) -> None:
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
        return self.bound_from(self.fit.all_cell_variances([read.names for read in self.fit.read]))

    def bound_from(self, variances: Sequence[FloatArray]) -> NoiseBound:
        """Return that from the variances of cells, (n, r), of all marginals that were read."""
        return NoiseBound.of(self._noises(variances))

    @cached_property
    def bound_of_any(self) -> NoiseBound:
        """The bound on the tails of any linear function of the values."""
        if self.whole is not None:
            bound = self.whole()
            ones = tuple(np.ones(share.shape) for share in bound.shares)
            return NoiseBound(bound.laws, ones, bound.known)
        return NoiseBound.of(self._noises(None))

    def _noises(
        self, variances: Sequence[FloatArray] | None
    ) -> Iterator[tuple[NoiseLaw, int, FloatArray | None]]:
        """Yield laws of values with the largest variance of an estimate over its own, or 1."""
        for number, (one, read) in enumerate(zip(self.fit.placed, self.fit.read, strict=True)):
            at, share = np.flatnonzero(one.precision), np.zeros(len(read.values))
            largest: Any = 1.0
            if variances is not None:
                largest = variances[number][at].max(axis=1) * one.precision[at]
            share[at if one.row is None else one.row[at]] = largest
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

        errors = self._errors(
            std_err,
            lambda one: self.law(names, int(first[one]), rows),
            heaviest,
            CellMoments(self, names, first, std_err),
        )
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
        for number, at, row, patterns, factors in self._patterns(names, self._at(place), rows):
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

    def _at(self, place: int) -> FloatArray:
        target = np.zeros(len(self.fit.hierarchy.tree))
        target[place] = 1.0
        return target

    def _patterns(
        self, names: Names, target: FloatArray, rows: FloatArray
    ) -> Iterator[tuple[int, Places, Places, FloatArray, FloatArray]]:
        """Yield, for each marginal, the weights of its noisy values in c functions of another one.

        Its number, the places and rows of these values, and for each of p classes the part that
        cells have in the functions, shape (p, c, cells), and that rows have, shape (p, rows):
        weights are the sums of their products over the classes.
        """
        fit, axes = self.fit, self.fit.axes
        kept = fit.schema.kept(names)
        turned = rows * sqrt(axes.summed(kept))
        reflect(turned)
        handed = {
            mask: self._handed(at, target)
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
                    reflect(pattern)
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
        return self.weights_of(names, self._at(place), rows)

    def weights_of(self, names: Names, target: FloatArray, rows: FloatArray) -> Any:
        """Return the same for functions of the sum of marginals with these weights of places."""
        from scipy.sparse import csr_array

        found, columns = [np.empty((len(rows), 0))], [np.empty(0, dtype=np.intp)]
        starts = self.fit.starts
        for number, _, row, patterns, factors in self._patterns(names, target, rows):
            part = np.einsum("pn,pck->cnk", factors, patterns)
            found.append(part.reshape((len(rows), -1)))
            cells = np.arange(patterns.shape[2])
            columns.append((starts[number] + row[:, np.newaxis] * cells.size + cells).ravel())
        used = csr_array(clean_weights(np.concatenate(found, axis=1)))
        column = np.concatenate(columns)[used.indices]
        matrix = csr_array((used.data, column, used.indptr), shape=(len(rows), int(starts[-1])))
        matrix.sort_indices()
        return matrix

    def _handed(self, number: int, target: FloatArray) -> FloatArray:
        """Weights of what is measured of a coefficient of a class in a sum over places."""
        gains = self._gains[number]
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

    @cached_property
    def factors(self) -> Factors:
        """What noises are multiplied by on their way into errors."""
        return Factors.of(self.fit.hierarchy.tree, self._measured, self._gains)

    def of_noise(self, of: Callable[[NoiseLaw], FloatArray]) -> list[FloatArray]:
        """Return numbers of the laws of each marginal at all places, 0 where it has no noise."""
        out = []
        for one, read in zip(self.fit.placed, self.fit.read, strict=True):
            rows = np.zeros(len(read.values))
            for law, cells in groups(read.law, rows.size):
                rows[cells] = of(law)
            out.append(np.where(one.precision > 0.0, rows if one.row is None else rows[one.row], 0))
        return out

    def _errors(
        self,
        std_err: FloatArray,
        law: Callable[[int], WeightedSum] | None,
        heaviest: Callable[[], int] = lambda: 0,
        moments: Moments | None = None,
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
            moments=moments,
            patience=_PATIENCE,
        )


class CellMoments:
    """What is known of the errors of cells of a marginal at places."""

    def __init__(self, laws: TableLaws, names: Names, places: Places, std_err: FloatArray) -> None:
        self.laws, self.places, self.std_err = laws, places, std_err
        self.kept = laws.fit.schema.kept(names)

    @property
    def checked(self) -> bool:
        """Whether the envelope was compared with sums of such noise."""
        return all(
            are_checked(law for law, _ in groups(read.law, len(read.values)))
            for read in self.laws.fit.read
        )

    @cached_property
    def kurtosis(self) -> FloatArray:
        """Excess kurtosis; a bound on it where that would take too many sums."""
        factors = self.laws.factors
        if factors.quadruples(self.kept) * len(factors.tree) > _MOST_SUMS:
            # Σ w⁴κ₄ <= max(w²σ²·κ₄/σ⁴)·Σ w²σ²
            return self._shares(lambda law: np.asarray(law.variance) * np.maximum(kurtosis(law), 0))
        own = self.laws.of_noise(lambda law: np.square(law.variance) * kurtosis(law))
        found = factors.fourth_cumulant(self.kept, own)[self.places]
        return self._per_variance(found, 4)

    @cached_property
    def share(self) -> FloatArray:
        """Bounds on the largest share of one noise in the variance."""
        return np.minimum(self._shares(lambda law: np.asarray(law.variance)), 1.0)

    @cached_property
    def step(self) -> FloatArray:
        """Bounds on the largest weight of whole-numbered noise."""
        own = self.laws.of_noise(lambda law: np.asarray(float(law.is_integer)))
        return self.laws.factors.largest_weight(self.kept, own)[self.places]

    def _shares(self, of: Callable[[NoiseLaw], FloatArray]) -> FloatArray:
        """Return bounds on the largest squared weight times numbers of laws, over the variance."""
        own = self.laws.of_noise(lambda law: np.sqrt(of(law)))
        found = self.laws.factors.largest_weight(self.kept, own)[self.places]
        return self._per_variance(np.square(found), 2)

    def _per_variance(self, found: FloatArray, power: int) -> FloatArray:
        there = np.isfinite(self.std_err) & (self.std_err > 0.0)
        return np.divide(found, self.std_err**power, out=np.zeros(found.shape), where=there)


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
