"""Functions of estimates by their labels: sums, contrasts, ratios and shares, with exact laws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    as_table,
    check_alpha,
    check_array,
    check_flag,
    check_option,
    show,
    show_some,
)
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.bounds import LEVELS, NoiseBound, are_checked, envelope, kurtosis
from dpinfer.estimation.fieller import (
    RATIO,
    Arcs,
    as_sets,
    joint_arcs,
    one_exact,
    tail_of,
)
from dpinfer.estimation.pivots import FEW, SECONDS, clean_weights
from dpinfer.estimation.ratio_sets import exact_arcs
from dpinfer.estimation.targets import checked_weights
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.laws import Exact, Gaussian
from dpinfer.releases.by_label import groups_of, levels_of, places_of
from dpinfer.releases.noises import Noises, Positions
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ConfidenceSets
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted, Selection
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

_HELD = 10_000_000  # weights of functions that are held; those of more are made when needed
_BLOCK = 20_000_000  # weights that are looked at together
_SET_SECONDS = {"listed": (0.5, 0.0), "whole": (0.2, 1e-3), "smooth": (0.06, 6e-4)}
"""That the exact set of one ratio takes, about, on one core, and more for each term of an error."""

_FEW_TERMS = 4  # whole-numbered terms up to which the atoms of errors are listed

_GRID = 33  # angles between which the end of a set is looked for
_WHOLE_KURTOSIS, _COARSE = 1.5, 0.005
"""Where steps of whole-numbered noise matter more, the envelope was checked up to a kurtosis."""


# The weights of functions on the noises, and what is known of their laws without these.


@dataclass(frozen=True, eq=False)
class FunctionRows:
    """The weights of k functions on q noises, made some at a time when they are asked for."""

    make: Callable[[Positions], FloatArray]  # the weights of some functions, (r, q)
    size: int
    noises: Noises

    def dense(self, positions: Positions) -> FloatArray:
        """Return some rows, an array."""
        return clean_weights(self.make(positions))

    def take(self, positions: Positions) -> Any:
        """Return some rows, a sparse array."""
        from scipy.sparse import csr_array, vstack

        return vstack([csr_array(block) for _, block in self._blocks(positions)], format="csr")

    def apply(self, noises: FloatArray) -> FloatArray:
        """Return the errors that noises make."""
        every = np.arange(self.size)
        return np.concatenate([block @ noises for _, block in self._blocks(every)])

    def variance(self) -> FloatArray:
        """Return the variance of each error."""
        own = np.broadcast_to(np.asarray(self.noises.law.variance), self.noises.size)
        every = np.arange(self.size)
        return np.concatenate([np.square(block) @ own for _, block in self._blocks(every)])

    def _blocks(self, positions: Positions) -> Iterator[tuple[Positions, FloatArray]]:
        step = max(1, _BLOCK // max(self.noises.size, 1))
        for start in range(0, max(1, len(positions)), step):
            at = positions[start : start + step]
            yield at, self.dense(at)


def held_or_made(rows: FunctionRows) -> Any:
    """Return the weights themselves where they are few, and what makes them otherwise."""
    few = rows.size * rows.noises.size <= _HELD
    return rows.take(np.arange(rows.size)) if few else rows


class NoisePowers:
    """Variances and fourth cumulants of q noises, and which take whole numbers only."""

    def __init__(self, noises: Noises) -> None:
        size = noises.size
        self.variance = np.array(np.broadcast_to(np.asarray(noises.law.variance), size))
        self.fourth, self.whole = np.zeros(size), np.zeros(size)
        laws = []
        for law, cells in groups(noises.law, size):
            laws.append(law)
            self.whole[cells] = law.is_integer and not isinstance(law, Exact)
            self.fourth[cells] = np.square(law.variance) * kurtosis(law)
        self.checked = are_checked(laws)
        self.gaussian = all(isinstance(law, (Gaussian, Exact)) for law in laws)
        self.whole[self.variance == 0.0] = 0.0
        self.integer = bool(self.whole.any())
        self.bound = NoiseBound.of([(noises.law, size, None)])


class FunctionMoments:
    """What is known of the errors of functions without their laws."""

    def __init__(self, x: NoisyValues, powers: NoisePowers) -> None:
        self.checked = powers.checked
        blocks = []
        for rows in row_blocks(x, np.arange(len(x))):
            square = rows.power(2)
            own = square.multiply(powers.variance[np.newaxis]).tocsr()
            blocks.append(
                [
                    np.asarray(own.sum(axis=1)),
                    square.power(2) @ powers.fourth,
                    _largest(own),
                    _largest(abs(rows).multiply(powers.whole[np.newaxis]).tocsr()),
                ]
            )
        variance, fourth, largest, step = (
            np.concatenate(part) for part in zip(*blocks, strict=True)
        )
        there = np.where(variance > 0.0, variance, 1.0)
        self.kurtosis: FloatArray = fourth / np.square(there)
        self.heaviest = int(np.argmax(largest / there))
        self.share: FloatArray | None = np.minimum(largest / there, 1.0)
        self.step: FloatArray = step


def row_blocks(x: NoisyValues, positions: Positions) -> Iterator[Any]:
    """Yield the weights of some values, sparse, some at a time."""
    held = x.weights is None or hasattr(x.weights, "indices")
    step = len(positions) if held else max(1, _BLOCK // max(x.noises.size, 1))
    for start in range(0, len(positions), max(step, 1)):
        yield x._rows(positions[start : start + step])


def _largest(rows: Any) -> FloatArray:
    return np.asarray(rows.max(axis=1).toarray()).ravel()


# Functions of estimates, named by their labels.


class Named(NamedTuple):
    """Linear functions of estimates: their coefficients, and what they are called."""

    coefficients: Any  # (k, n), sparse
    labels: pd.Index | None
    shape: tuple[int, ...]
    aligned: bool = True  # whether the labels are those of functions, or of what they are made of

    def _take(self, rows: Positions) -> Named:
        """Return some functions, or one under no label."""
        labels = None if self.labels is None or not rows.ndim else self.labels[rows]
        return Named(self.coefficients[rows.ravel()], labels, rows.shape, self.aligned)


class ByLabel(ABC):
    """Functions of estimates that are named by their labels."""

    @abstractmethod
    def _named(self) -> tuple[pd.Index | None, int]:
        """Return the labels of the estimates, None for positions, and their number."""

    @abstractmethod
    def _linear(self, named: Named) -> Any:
        """Return the estimate of linear functions."""

    @abstractmethod
    def _twice(self, groups: Any) -> tuple[int, int] | None:
        """Return two estimates of one group that count the same, where there are some."""

    def _groups(self, by: Any) -> tuple[Any, pd.Index | None]:
        """Read groups of estimates, none of which counts anything twice."""
        labels, size = self._named()
        groups, index = groups_of(labels, size, by)
        if (pair := self._twice(groups)) is not None:
            one, other = pair if labels is None else map(show, labels[list(pair)])
            raise InvalidParameterError(
                f"by must not put estimates into one group that count the same, got {one} and "
                f"{other}: give lists of labels without totals, or weights to contrast"
            )
        return groups, index

    def sum(self, by: Any) -> Any:
        """Estimate sums of estimates: unions of units, totals of cells.

        Parameters
        ----------
        by : list, mapping, Series or str
            A list of labels, for their sum; a mapping or Series of labels to groups, such as blocks
            to districts, for all groups at once, where estimates that are not named, or have no
            group, are left out; a mapping of groups, which may overlap, to lists of labels; or
            levels of the labels, for a sum for each label there; or a list of levels, and Series
            whose index is named after one, for each combination, such as district and sex. Where
            estimates have no labels, positions stand for them.

        Returns
        -------
        LinearEstimate
            The sums with the exact laws of their errors, and how these depend.

        Raises
        ------
        InvalidParameterError
            If a label is not one of the estimates, or estimates of one group count the same, as a
            total and its parts do.
        NotEstimableError
            If the values do not determine a sum.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> import pandas as pd
        >>> counts = pd.Series({"a": 12.3, "b": 30.1, "c": 8.4, "d": 41.7})
        >>> fit = dpi.combine(counts, mechanism=dpi.Laplace(scale=1.0))
        >>> fit.sum(["a", "b"]).params.round(1), fit.sum(["a", "b"]).conf_int()
        (np.float64(42.4), Intervals([38.287, 46.513], level 0.95, exact))
        >>> district = pd.Series({"a": 1, "b": 1, "c": 2, "d": 2}, name="district")
        >>> fit.sum(district).params
        district
        1    42.4
        2    50.1
        dtype: float64
        """
        if by is None:
            raise InvalidParameterError("by must be given: a list of labels, or groups of them")
        coefficients, index = self._groups(by)
        return self._linear(Named(coefficients, index, () if index is None else (len(index),)))

    def contrast(self, weights: Any) -> Any:
        """Estimate linear functions of estimates: differences, weighted means and the like.

        Parameters
        ----------
        weights : mapping, Series, DataFrame, or array of float, shape (n,) or (k, n)
            The weight of each estimate under its label, of those that have one; a row, or a
            DataFrame's row, for each of k functions, or a mapping of their names to mappings. Dense
            and sparse arrays go by position.

        Returns
        -------
        LinearEstimate
            The functions with the exact laws of their errors, and how these depend.

        Raises
        ------
        InvalidParameterError
            If a label is not one of the estimates, or the shape does not fit.
        NotEstimableError
            If the values do not determine a function.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> import pandas as pd
        >>> counts = pd.Series({"a": 12.3, "b": 30.1, "c": 8.4})
        >>> fit = dpi.combine(counts, mechanism=dpi.Laplace(scale=1.0))
        >>> fit.contrast({"b": 1, "a": -1}).conf_int()
        Intervals([13.687, 21.913], level 0.95, exact)
        >>> two = {"b - a": {"b": 1, "a": -1}, "b - c": {"b": 1, "c": -1}}
        >>> fit.contrast(two).conf_int(simultaneous=True, rng=1).lower.round(1)
        b - a    13.0
        b - c    16.9
        dtype: float64
        """
        return self._linear(self._weighted(weights, "weights"))

    def ratio(self, numerator: Any, denominator: Any) -> RatioEstimate:
        """Estimate ratios of estimates, or of linear functions of them.

        Parameters
        ----------
        numerator, denominator : label, list of labels, mapping, DataFrame or LinearEstimate
            An estimate by its label; several, for a ratio each; a linear function or several, as
            :meth:`contrast` takes them; or sums and contrasts of this fit, or some of them, as
            ``fit.sum("country")["FR"]``. One serves all of the
            other. Functions with labels are matched by these; where those of one side are levels
            of those of the other, as districts of (district, sex), each is used as often as needed.

        Returns
        -------
        RatioEstimate
            The ratios; its ``conf_int`` has Fieller's sets with the exact law of the errors.

        Raises
        ------
        InvalidParameterError
            If a label is not one of the estimates, or both sides do not fit together.
        NotEstimableError
            If the values do not determine a numerator or a denominator.

        See Also
        --------
        dpinfer.ratio_confint : ratios of published values with noise of their own.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> import pandas as pd
        >>> counts = pd.Series({"a": 12.3, "b": 30.1, "c": 8.4})
        >>> fit = dpi.combine(counts, mechanism=dpi.Laplace(scale=1.0))
        >>> fit.ratio("b", "a").conf_int()
        ConfidenceSets([1.93002, 3.26956], level 0.95, exact)
        >>> fit.ratio(["b", "c"], "a").params.round(3)
        b    2.447
        c    0.683
        dtype: float64
        """
        return self._ratio(self._function(numerator, "numerator"), denominator, "denominator")

    def share(self, part: Any = None, of: Any = None, *, by: Any = None) -> RatioEstimate:
        """Estimate shares of estimates in others of which they are parts.

        Parameters
        ----------
        part : as ``numerator`` of :meth:`ratio`, optional
            The parts; with ``by``, labels, by default all that are in a group.
        of : as ``denominator`` of :meth:`ratio`, optional
            The totals, such as ``fit.sum(labels)``, or the unit above.
        by : optional
            In place of ``of``, groups as for :meth:`sum`: each part is a share of its group.

        Returns
        -------
        RatioEstimate
            The shares. Those of counts are between 0 and 1: ``restrict(lower=0, upper=1)`` of the
            sets leaves out what is not.

        Raises
        ------
        InvalidParameterError
            If not just one of ``of`` and ``by`` is given, or as :meth:`ratio`.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> import pandas as pd
        >>> counts = pd.Series({"a": 12.3, "b": 30.1, "c": 8.4, "d": 41.7})
        >>> fit = dpi.combine(counts, mechanism=dpi.Laplace(scale=1.0))
        >>> fit.share("a", of=fit.sum(["a", "b"])).conf_int()
        ConfidenceSets([0.234216, 0.341295], level 0.95, exact)
        >>> fit.share(by={"a": 1, "b": 1, "c": 2, "d": 2}).params.round(3)
        a    0.290
        b    0.710
        c    0.168
        d    0.832
        dtype: float64
        """
        if (of is None) == (by is None):
            raise InvalidParameterError("of or by must be given, and not both")
        if by is None:
            if part is None:
                raise InvalidParameterError("part must be given: labels, or a sum of them")
            return self._ratio(self._function(part, "part"), of, "of")
        labels, size = self._named()
        totals, _ = self._groups(by)
        owner = np.full(size, -1)
        owner[totals.indices] = np.repeat(np.arange(totals.shape[0]), np.diff(totals.indptr))
        if len(np.unique(totals.indices)) < totals.nnz:
            raise InvalidParameterError("by must put each estimate into one group at most")
        at = np.flatnonzero(owner >= 0)
        if part is not None:
            single = not isinstance(part, list) and not hasattr(part, "__array__")
            at = places_of(labels, size, [part] if single else part, "part")
            if (owner[at] < 0).any():
                raise InvalidParameterError(
                    "part must be of estimates that by puts into a group, got position "
                    f"{int(at[owner[at] < 0][0])}, which has none"
                )
        names = None if labels is None else labels[at]
        parts = Named(_units(at, size), names, (len(at),), False)
        return RatioEstimate._of(self, parts, Named(totals, None, (totals.shape[0],)), owner[at])

    def _ratio(self, top: Named, below: Any, name: str) -> RatioEstimate:
        bottom = self._function(below, name)
        return RatioEstimate._of(self, top, bottom, _matched(top, bottom, name))

    def _function(self, given: Any, name: str) -> Named:
        """Read functions that are named by label, by weights, or that were estimated before."""
        if isinstance(given, Selection):
            whole: Any = given.whole
            every = self._all() if whole is self else self._function(whole, name)
            return every._take(given.rows)
        own = getattr(given, "_named_of", None)
        if own is not None:
            source, named = own
            if source is not self:
                raise InvalidParameterError(
                    f"{name} must be of this fit, got functions of another one: ratio_confint "
                    "takes those of several"
                )
            return named  # type: ignore[no-any-return]
        labels, size = self._named()
        table = as_table(given, name)
        if isinstance(table, Mapping) or hasattr(table, "columns"):
            return self._weighted(table, name)
        if hasattr(table, "reindex") and hasattr(table, "iloc"):
            return self._weighted(table, name)
        several = isinstance(table, list) or (hasattr(table, "dtype") and np.ndim(table) == 1)
        at = places_of(labels, size, table if several else [table], name)
        names = None if labels is None else labels[at]
        shape = (len(at),) if several else ()
        return Named(_units(at, size), names if several else None, shape, False)

    def _all(self) -> Named:
        labels, size = self._named()
        return Named(_units(np.arange(size), size), labels, (size,), False)

    def _weighted(self, weights: Any, name: str) -> Named:
        """Read weights of estimates, of one function or one in each row."""
        from scipy.sparse import csr_array, issparse, vstack

        labels, size = self._named()
        if issparse(weights):
            if weights.ndim != 2 or weights.shape[1] != size or not weights.shape[0]:
                raise InvalidParameterError(
                    f"{name} must have a row for each function and {size} columns, got shape "
                    f"{weights.shape}"
                )
            check_array(weights.tocsr().data, name, nonempty=False)
            return Named(csr_array(weights), None, (weights.shape[0],))
        table = as_table(weights, name)
        if isinstance(table, Mapping) and len(table):
            many = [isinstance(one, Mapping) or hasattr(one, "iloc") for one in table.values()]
            if all(many):
                import pandas as pd

                each = [self._weighted(one, f"{name} {show(key)}") for key, one in table.items()]
                if any(one.shape for one in each):
                    raise InvalidParameterError(f"{name} must hold one function for each name")
                stacked = vstack([one.coefficients for one in each], format="csr")
                index = pd.Index(list(table), tupleize_cols=True)
                return Named(csr_array(stacked), index, (len(index),))
        wide = hasattr(table, "columns")
        labelled = wide or hasattr(table, "iloc") or isinstance(table, Mapping)
        if labelled and (labels is not None or isinstance(table, Mapping)):
            if isinstance(table, Mapping):
                keys, data = list(table), list(table.values())
            else:
                keys, data = table.columns if wide else table.index, table.to_numpy()
            if labels is None and not wide and not all(isinstance(key, int) for key in keys):
                checked_weights(weights, labels, size, name)  # says what is wrong
            at = places_of(labels, size, keys, name)
            matrix = np.atleast_2d(check_array(data, name, ge=-1e100, le=1e100))
            rows, columns = np.nonzero(matrix)
            entries = matrix[rows, columns], (rows, at[columns])
            found = csr_array(entries, shape=(len(matrix), size))
        else:
            array = checked_weights(weights, labels, size, name)
            found, wide = csr_array(np.atleast_2d(array)), array.ndim == 2
        index = table.index if wide and hasattr(table, "iloc") else None
        return Named(found, index, (found.shape[0],) if wide else ())


def nested(group: Positions, unit: Positions, parent: Positions) -> tuple[int, int] | None:
    """Return the entries of a unit and one above it in the same group, where there are some.

    ``group`` and ``unit`` name the entries, ``parent`` the unit above each unit, -1 for none.
    """
    marked = np.zeros(parent.size, dtype=bool)
    marked[unit] = True
    at, above = np.arange(unit.size), parent[unit]
    while (there := above >= 0).any():
        at, above = at[there], above[there]
        some = np.flatnonzero(marked[above])
        if some.size:
            codes, wanted = (
                group[one] * parent.size + two
                for one, two in ((slice(None), unit), (at[some], above[some]))
            )
            found = np.flatnonzero(np.isin(wanted, codes))
            if found.size:
                return int(at[some[found[0]]]), int(np.argmax(codes == wanted[found[0]]))
        above = parent[above]
    return None


def _units(at: Positions, size: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(at)), at, np.arange(len(at) + 1)), shape=(len(at), size))


def _matched(top: Named, bottom: Named, name: str) -> Positions:
    """Return which denominator each numerator has; or the other way round, one for all."""
    k, m = top.coefficients.shape[0], bottom.coefficients.shape[0]
    if not bottom.shape or not top.shape:
        return np.zeros(k, dtype=np.intp) if not bottom.shape else np.arange(m)
    if top.labels is None or bottom.labels is None or not (top.aligned and bottom.aligned):
        one, other = (top, bottom) if top.aligned else (bottom, top)
        if not (one.aligned and one.labels is not None and other.labels is not None) or k == m:
            if k != m:
                raise InvalidParameterError(
                    f"{name} must be one, or as many as those above them, {k}, got {m}"
                )
            return np.arange(m)
    if top.labels is not None and bottom.labels is not None:
        parts, frame = bottom.labels.names, levels_of(top.labels, k)
        if bottom.labels.nlevels == top.labels.nlevels:
            keys = top.labels
        elif all(part in frame.columns for part in parts):
            import pandas as pd

            kept = frame[list(parts)]
            keys = pd.MultiIndex.from_frame(kept) if len(parts) > 1 else pd.Index(kept[parts[0]])
        else:
            keys = None
        if keys is not None and bottom.labels.is_unique:
            at = np.asarray(bottom.labels.get_indexer(keys), dtype=np.intp)
            if (at >= 0).all():
                return at
    raise InvalidParameterError(
        f"{name} must have the labels of what is above them, or levels of these, got "
        f"{show_some(bottom.labels if bottom.labels is not None else [])}: give sums of the same "
        "groups, or one for all"
    )


# Ratios of linear functions of one fit.


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RatioEstimate(Listed, Plotted):
    """Ratios of linear functions of one fit; made by its ``ratio`` and ``share``.

    Attributes
    ----------
    params : float, array of float, shape (k,), or Series
        The ratios of the estimates; infinite, or NaN, where a denominator is 0. They are not
        unbiased, as no estimate of a ratio is.
    labels : pandas.Index or None
        Labels of the ratios.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Laplace(scale=2.0)
    >>> fit = dpi.combine([60.4, 39.8, 98.1], workload=[[1, 0], [0, 1], [1, 1]], mechanism=noise)
    >>> fit.share(0, of=2)
    RatioEstimate(1 ratios)
    >>> fit.share(0, of=2).conf_int()
    ConfidenceSets([0.562525, 0.64641], level 0.95, exact)
    """

    labels: pd.Index | None
    _noisy: NoisyValues  # numerators, and then denominators
    _first: Positions
    _second: Positions
    _same: NDArray[np.bool_]  # ratios of a function to itself
    _shape: tuple[int, ...]

    @classmethod
    def _of(cls, fit: ByLabel, top: Named, bottom: Named, which: Positions) -> RatioEstimate:
        from scipy.sparse import vstack

        # one above all, or one below all, is there once
        rows = top.coefficients.shape[0]
        first = np.arange(rows) if len(which) == rows else np.zeros(len(which), dtype=np.intp)
        both = vstack([top.coefficients, bottom.coefficients], format="csr")
        apart = top.coefficients[first] - bottom.coefficients[which]
        every = Named(both, None, (both.shape[0],))
        x = fit._linear(every).__noisy__()
        labels = top.labels
        if labels is None or len(labels) != len(which):
            labels = bottom.labels if bottom.shape and bottom.labels is not None else None
        shape = top.shape or bottom.shape
        return cls(
            labels=labels if shape else None,
            _noisy=x,
            _first=first,
            _second=rows + which,
            _same=np.asarray(abs(apart).sum(axis=1)).ravel() == 0,
            _shape=(len(which),) if shape else (),
        )

    @property
    def params(self) -> Any:
        """The ratios of the estimates."""
        top, bottom = self._noisy.values[self._first], self._noisy.values[self._second]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = top / bottom
        found.flags.writeable = False
        return attach_labels(found.reshape(self._shape), self.labels)

    def conf_int(
        self,
        alpha: float = 0.05,
        method: str = "exact",
        *,
        alternative: Alternative = "two-sided",
        simultaneous: bool = False,
    ) -> ConfidenceSets:
        """Return confidence sets for the ratios of the confidential values.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1), and at least 1e-50 for each set.
        method : {"exact", "envelope", "asymptotic"}
            ``"exact"``: by the law of e₁ - r·e₂ for the errors e₁ and e₂, found anew for each r
            looked at, unless each error is that of one value. Tails of many whole-numbered noises
            are bounded from above by Vaaler's bracket: sets hold their level, and cover a little
            more, near α/1000 at α = 0.05 and a larger part of a small α. Where all that would
            take more than about 20 seconds, the sets are those of ``"envelope"``, and say so.
            ``"envelope"``: its half-width is that of :meth:`HierarchyEstimate.conf_int`, by the
            standard error and the kurtosis of e₁ - r·e₂: checked, and not proved; for noise or
            levels for which it was not checked, Chernoff's bound, which is proved.
            ``"asymptotic"``: Fieller's formula, which takes the noise as Gaussian, for which it is
            exact.
        alternative : {"two-sided", "larger", "smaller"}
            As for :func:`dpinfer.ratio_confint`.
        simultaneous : bool, default False
            Whether the k sets shall cover all ratios together with probability 1 - ``alpha``: each
            has α/k.

        Returns
        -------
        ConfidenceSets
            One set for each ratio: an interval, the complement of one, or every number.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.

        Notes
        -----
        The set holds every r at which abs(y₁ - r·y₂) is at most the quantile at α/2 of e₁ - r·e₂;
        see :func:`dpinfer.ratio_confint`. The envelope needs five moments of each pair of errors,
        Σ w₁ⁱw₂ʲκ₄ with i + j = 4, and three of second order, for all r at once. The ratio of a
        function to itself is 1, whatever the noise.
        """
        alpha = check_alpha(alpha)
        chosen = check_option(method, "method", ("exact", "envelope", "asymptotic"))
        side = check_option(alternative, "alternative", ALTERNATIVES)
        together = check_flag(simultaneous, "simultaneous")
        tail = tail_of(alpha / max(len(self), 1) if together else alpha, side)
        notes: tuple[str, ...] = ()
        x, powers = self._noisy, self._powers
        if chosen == "exact" and powers.gaussian:
            arcs, _ = self._many(tail, normal=True)
        elif chosen == "exact" and (single := self._single()) is not None:
            pairs = np.column_stack([x.values[self._first], x.values[self._second]])
            arcs = exact_arcs(pairs, *single, tail)
        elif chosen == "exact" and len(self) * self._seconds <= SECONDS:
            arcs = joint_arcs(x, self._first, self._second, tail, "exact")
        else:
            if chosen == "exact":
                fewer = ": those of fewer ratios at a time are exact"
                notes = (
                    "sets by the laws themselves would take about "
                    f"{len(self) * self._seconds:.0f} seconds"
                    f"{fewer if self._seconds <= SECONDS else ''}",
                )
            arcs, said = self._many(tail, normal=chosen == "asymptotic")
            chosen = "envelope" if chosen == "exact" else chosen
            notes += said
        same = np.flatnonzero(self._same)
        one = np.ones((same.size, 2))
        arcs.fill(same, np.zeros(same.size, dtype=bool), one, one)
        sets = as_sets(arcs, RATIO, self._shape, alpha, chosen, side, together, self.labels)
        return replace(sets, notes=(*sets.notes, *notes)) if notes else sets

    def summary_frame(self, alpha: float = 0.05, method: str = "exact") -> pd.DataFrame:
        """Return the ratios and their sets, a row for each, as ConfidenceSets has them."""
        return self.conf_int(alpha, method).summary_frame()

    def _table(self, alpha: float = 0.05, method: str = "exact") -> Table:
        return self.conf_int(alpha, method)._table()

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self._second), self.labels

    def __repr__(self) -> str:
        return f"RatioEstimate({len(self)} ratios)"

    @cached_property
    def _powers(self) -> NoisePowers:
        return NoisePowers(self._noisy.noises)

    @cached_property
    def _seconds(self) -> float:
        """About how long the set of one ratio takes."""
        at = np.unique(np.concatenate([self._first[:FEW], self._second[:FEW]]))
        rows = next(row_blocks(self._noisy, at))
        terms = max(len(np.unique(np.abs(row.data))) for row in (rows[[i]] for i in range(len(at))))
        whole = "listed" if terms <= _FEW_TERMS else "whole"
        least, each = _SET_SECONDS[whole if self._powers.integer else "smooth"]
        return least + each * terms

    def _single(self) -> tuple[Any, Any] | None:
        """Return the laws of both errors where each is one noise of its own in each pair."""
        weights = self._noisy.weights
        if weights is None or not hasattr(weights, "indices"):
            return None
        if not (np.diff(weights.indptr) == 1).all() or not (np.abs(weights.data) == 1.0).all():
            return None
        first, second = weights.indices[self._first], weights.indices[self._second]
        if (first == second).any():
            return None
        law = self._noisy.noises.law
        return (law.take(first), law.take(second)) if law.shape else (law, law)

    def _many(self, tail: float, *, normal: bool) -> tuple[Arcs, tuple[str, ...]]:
        """Find all sets at once, from moments of the errors."""
        second, fourth, step = self._moments()
        x, powers, level = self._noisy, self._powers, 2.0 * tail
        arcs = Arcs.empty(np.column_stack([x.values[self._first], x.values[self._second]]))
        if normal:
            fourth, step = np.zeros_like(fourth), np.zeros_like(step)
        widths, notes = Widths.of(powers, level, normal=normal)
        noisy = (second[:, 0] > 0.0) & (second[:, 2] > 0.0)
        at = np.flatnonzero(~noisy)
        if at.size:
            std = np.sqrt(second[at][:, [0, 2]])
            one = np.where(std > 0.0, std, 1.0)
            size = widths(fourth[at][:, [0, 4]] / one**4, step[at] / one)
            arcs.fill(at, *one_exact(arcs.published[at], size * std))
        at = np.flatnonzero(noisy)
        if at.size:
            ends = moment_ends(arcs.published[at], second[at], fourth[at], step[at], widths)
            arcs.fill(at, *ends)
        return arcs, notes

    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return Σ w₁ⁱw₂ʲ times variances, (k, 3), fourth cumulants, (k, 5), and steps, (k, 2)."""
        x, powers, blocks = self._noisy, self._powers, []
        held = x.weights is None or hasattr(x.weights, "indices")
        step = max(1, _BLOCK // (4 * max(x.noises.size, 1))) if not held else len(self)
        for start in range(0, len(self), max(step, 1)):
            used, which = np.unique(self._second[start : start + step], return_inverse=True)
            first = x._rows(self._first[start : start + step])
            other = x._rows(used)[which]
            squares = first.power(2), first.multiply(other).tocsr(), other.power(2)
            products = [squares[i].multiply(squares[j]) for i, j in _FOURTH]
            whole = powers.whole[np.newaxis]
            blocks.append(
                (
                    np.column_stack([one @ powers.variance for one in squares]),
                    np.column_stack([one.tocsr() @ powers.fourth for one in products]),
                    np.column_stack(
                        [_largest(abs(one).multiply(whole).tocsr()) for one in (first, other)]
                    ),
                )
            )
        second, fourth, steps = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return second, fourth, steps


_FOURTH = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2))
"""Products of w₁², w₁w₂ and w₂² that are w₁⁴, w₁³w₂, w₁²w₂², w₁w₂³ and w₂⁴."""


class Widths(NamedTuple):
    """Half-widths in standard deviations, of errors of which kurtosis and steps are known."""

    level: float
    normal: bool
    chernoff: float  # infinite where it is not needed
    checked: bool

    @classmethod
    def of(cls, powers: NoisePowers, level: float, *, normal: bool) -> tuple[Self, tuple[str, ...]]:
        """Return them, and what is to be said of them."""
        normal = normal or powers.gaussian
        checked = powers.checked and LEVELS[0] <= level <= LEVELS[1]
        needed = not normal and (powers.integer or not checked)
        found = cls(level, normal, powers.bound.chernoff(level) if needed else np.inf, checked)
        if normal:
            return found, ()
        if not checked:
            return found, (
                f"half-widths are {found.chernoff:.4g} standard errors, by Chernoff's inequality",
            )
        steps = (
            ", and by Chernoff's inequality where whole-numbered noise has few steps"
            if powers.integer
            else ""
        )
        return found, (
            "half-widths are by an envelope of exact laws of the same excess kurtosis, which is "
            f"checked and not proved{steps}",
        )

    def __call__(self, excess: FloatArray, step: FloatArray) -> FloatArray:
        """Return the half-widths of errors of this excess kurtosis and largest whole weight."""
        if self.normal:
            return np.full(excess.shape, -special.ndtri(0.5 * self.level))
        if not self.checked:
            return np.full(excess.shape, self.chernoff)
        size = envelope(self.level, np.maximum(excess, 0.0))
        found = size * np.hypot(1.0, step / np.sqrt(12.0)) + 0.5 * step
        coarse = (excess > _WHOLE_KURTOSIS) & (0.5 * step > _COARSE * size)
        return np.asarray(np.where(coarse, self.chernoff, found))


def moment_ends(
    points: FloatArray,
    second: FloatArray,
    fourth: FloatArray,
    step: FloatArray,
    widths: Widths,
) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """Return the ends for pairs of correlated errors, from their moments.

    With the errors made uncorrelated, of variance 1, the point is at distance ρ in some direction,
    and what is at an angle δ to it is rejected where ρ cos δ exceeds the half-width there. The
    first accepted angles on both sides are the ends; where the point's own direction is accepted,
    everything counts as accepted.
    """
    first = np.sqrt(second[:, 0])
    slope = second[:, 1] / first
    rest = np.sqrt(np.maximum(second[:, 2] - np.square(slope), 1e-24 * second[:, 2]))
    x = points[:, 0] / first
    y = (points[:, 1] - slope * x) / rest
    size, angle = np.hypot(x, y), np.arctan2(y, x)

    def reach(delta: FloatArray, at: Positions) -> FloatArray:
        """Half-width in a direction u, which is v = L⁻ᵀu for the errors as they are."""
        turned = angle[at] + delta
        v2 = np.sin(turned) / rest[at]
        v1 = (np.cos(turned) - slope[at] * v2) / first[at]
        powers = np.stack([v1**4, 4 * v1**3 * v2, 6 * v1**2 * v2**2, 4 * v1 * v2**3, v2**4])
        steps = np.abs(v1) * step[at, 0] + np.abs(v2) * step[at, 1]
        return widths(np.einsum("ij,ji->j", powers, fourth[at]), steps)

    every = np.arange(len(points))
    inside = size <= reach(np.zeros(len(points)), every)
    out = np.flatnonzero(~inside)
    ends = [np.zeros(points.shape), np.zeros(points.shape)]
    for end, sign in zip(ends, (1.0, -1.0), strict=True):

        def excess(turn: FloatArray, index: Positions, sign: float = sign) -> FloatArray:
            at = out[index]
            return np.asarray(size[at] * np.cos(turn) - reach(sign * turn, at))

        turn = _first_accepted(excess, out.size)
        # the direction of the end is across from the one rejected last
        along = angle[out] + sign * (turn - 0.5 * np.pi)
        cos, sin = np.cos(along), np.sin(along)
        end[out] = np.column_stack([first[out] * cos, slope[out] * cos + rest[out] * sin])
    return inside, ends[0], ends[1]


def _first_accepted(excess: Callable[[FloatArray, Positions], FloatArray], size: int) -> FloatArray:
    """Return the first angle from 0 to π/2 at which each excess is negative, from above."""
    low, high, left = np.zeros(size), np.full(size, 0.5 * np.pi), np.arange(size)
    for before, after in pairwise(0.5 * np.pi * np.arange(_GRID) / (_GRID - 1)):
        accepted = excess(np.full(left.size, after), left) <= 0.0
        low[left[accepted]], high[left[accepted]] = before, after
        left = left[~accepted]

    def bracketed(turn: FloatArray, index: Positions) -> FloatArray:
        # the ends are known, whatever rounding makes of them
        found = np.where(turn >= high[index], -1.0, excess(turn, index))
        return np.where(turn <= low[index], 1.0, found)

    return find_root(bracketed, low, high, atol=1e-14)[1]
