"""Noisy values: numbers with their labels, the joint law of their noise, and how they came out.

Every public function makes them once of what it is given (:func:`dpinfer.noisy`); all that
comes after takes them and checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_integer_array,
    check_length,
    check_reps,
    check_rng,
    rounding_reach,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import (
    IndependentNoise,
    groups,
)
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw, Share, in_short
from dpinfer.mechanisms.laws import Exact
from dpinfer.releases.noises import READ_TWICE, Noises, Part, Positions, Rule, positions_of, stacked
from dpinfer.results.labels import (
    attach_labels,
    check_order,
    find_rows,
    labelled_frame,
    split_labels,
)
from dpinfer.results.presentation import Indexed, Plotted, Presented
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.mechanisms.weighted_sum import WeightedSum

Found = TypeVar("Found")

LARGEST_VALUE = 1e100
"""Beyond it, squares of deviations overflow."""

HELD = 1_000_000
"""Weights of at most so many are held; of more, rows are made when they are asked for."""

_CANCELLED = 1e-13
"""What is left of weights that cancel, relative to them, is rounding."""

_BLOCK = 1 << 22
"""Noises that are drawn, or rows times noises that are looked at, at a time."""

_TWICE = 8
"""So many distinct values that are equal were not published twice."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NoisyValues(Presented, Indexed, Plotted):
    """Numbers with labels, the joint law of their noise, and how they were published.

    Made by :func:`dpinfer.noisy`. What is published of m confidential values f is f + W z, with q
    independent noises z; a release, a combined estimate and plain numbers with ``mechanism=`` are
    or give such values.

    Attributes
    ----------
    values : array of float64, shape (m,)
        The published values, read-only.
    shape : tuple of int
        The shape in which they were given: ``()`` for a number, ``(m,)``, or that of an array.
    labels : pandas.Index or None
        Their labels; the pairs (row, column) for a DataFrame.
    noises : Noises
        The noises z: their law, and which they are.
    weights : None, sparse array of shape (m, q), or Rows
        The matrix W; None where each value has one noise of its own.
    at : array of int, shape (m,), or None
        Which noise that is; None for all of them in order.
    rule : Rule or None
        How the values were published; None for values as they were drawn.
    name : str
        What messages call the values.
    """

    values: FloatArray
    noises: Noises
    _: KW_ONLY
    shape: Any = None
    labels: pd.Index | None = None
    weights: Any = None
    at: Positions | None = None
    rule: Rule | None = None
    name: str = "values"
    _found: dict[str, Any] = field(default_factory=dict, init=False)
    """What was computed of the law, which is computed once."""

    def __post_init__(self) -> None:
        self.values.flags.writeable = False
        if self.shape is None:
            object.__setattr__(self, "shape", self.values.shape)

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    def __noisy__(self) -> Self:
        return self

    def __len__(self) -> int:
        return self.values.size

    def __getitem__(self, which: Any) -> NoisyValues:
        """Return some values, named as rows of :class:`~dpinfer.Intervals` are."""
        rows = find_rows(which, self.shape, self.labels)
        found = self._take(rows.ravel())
        return found if rows.ndim else replace(found, shape=(), labels=None)

    def summary_frame(self) -> pd.DataFrame:
        """Return the columns ``value`` and ``noise_std``, a row for each value."""
        return labelled_frame({"value": self.values, "noise_std": self.std}, self.labels)

    def _table(self) -> Table:
        law = in_short(self.noises.law)
        facts: list[tuple[str, object]] = [("Values", len(self)), ("Noise", law)]
        if self.weights is not None:
            facts.append(("Noises that they share", self.noises.size))
        if self.rule is not None:
            facts.append(("Some of them", self.rule.kind()))
        columns = {"value": self.values, "noise_std": self.std}
        return Table("Noisy values", facts, columns, index=self.labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyValues):
            return NotImplemented
        return (
            self.shape == other.shape
            and np.array_equal(self.values, other.values)
            and same_labels(self.labels, other.labels)
            and (self.rule or Rule()).is_same(other.rule or Rule())
            and _same_laws(self, other)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.values.tobytes()))

    def __repr__(self) -> str:
        law = f"{self.noises.law!r}"
        how = "" if self.weights is None else f"weighted sums of {self.noises.size} noises, "
        ruled = "" if self.rule is None else f", some of which {self.rule.kind()}"
        return f"NoisyValues({len(self)} values, {how}{law}{ruled})"

    @property
    def marginal(self) -> NoiseLaw:
        """The law of the error of each value by itself, of shape () or (m,)."""
        if self.weights is None:
            return self._own_law()
        return self._once("marginal", lambda: IndependentNoise.from_groups(self.laws(), len(self)))

    def laws(self) -> list[tuple[NoiseLaw, Positions]]:
        """Return the laws of the errors, each with the positions of the values that have it.

        A law has shape (), or one entry for each of its positions.
        """
        if self.weights is None:
            return list(groups(self._own_law(), len(self)))
        return self._once("laws", self._laws_of_rows)

    def law_of(self, coefficients: ArrayLike) -> WeightedSum:
        """Return the law of the error of Σ cᵢyᵢ, for values without a publishing rule."""
        c = check_array(coefficients, "coefficients", ndim=1)
        check_length(c, "coefficients", len(self), self.name)
        used = np.flatnonzero(c)
        self._refuse_ruled(used)
        return self._law_of(c[used], used)

    def linear(
        self, coefficients: Any, *, labels: pd.Index | None = None, name: str | None = None
    ) -> NoisyValues:
        """Return linear functions of the values over the same noises: c of shape (m,) or (k, m).

        Refused where a value with a coefficient has a publishing rule.
        """
        from scipy import sparse

        if sparse.issparse(coefficients):
            c = coefficients.tocsr()
            used = np.unique(c.indices)
            self._refuse_ruled(used)
            shape: tuple[int, ...] = (c.shape[0],)
        else:
            c = np.asarray(coefficients, dtype=np.float64)
            shape = c.shape[:-1]
            c = np.atleast_2d(c)
            used = np.flatnonzero((c != 0).any(axis=0))
            self._refuse_ruled(used)
        with np.errstate(over="ignore", invalid="ignore"):
            values = check_array(np.atleast_1d(c @ self.values), "weights @ values")
        return NoisyValues(
            values,
            self.noises,
            shape=shape,
            labels=labels,
            weights=product(c, self._rows(used), used),
            name=self.name if name is None else name,
        )

    @property
    def variance(self) -> FloatArray:
        """Variance of the error of each value, shape (m,)."""
        return self._once("variance", self._variance)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the error of each value, shape (m,)."""
        return np.sqrt(self.variance)

    def cov(self, positions: Positions | None = None) -> FloatArray:
        """Return the covariance matrix of the errors of some of the values, by default all."""
        at = np.arange(len(self)) if positions is None else positions
        if self.weights is None:
            return np.diag(self.variance[at])
        rows = self._rows(at)
        scaled = rows.multiply(np.sqrt(self._noise_variance())[np.newaxis]).tocsr()
        return np.asarray((scaled @ scaled.T).toarray())

    def are_independent(self) -> bool:
        """Whether no noise, other than one that is always 0, has a part in two of the values.

        Of weights that are not held it is not known, so that the answer is False.
        """
        if self.weights is None or len(self) == 1:
            return True
        if not hasattr(self.weights, "indices"):
            return False
        used = self.weights.indices[self._noise_variance()[self.weights.indices] > 0]
        return not (np.bincount(used) > 1).any()

    def draw(self, reps: int, *, rng: RNG = None) -> FloatArray:
        """Draw joint errors, shape (reps, m): published minus confidential, before any rule."""
        reps, generator = check_reps(reps), check_rng(rng)
        if self.weights is None:
            drawn = self._own_law()._rvs((reps, len(self)), generator)
            return np.asarray(drawn, dtype=np.float64)
        out = np.empty((reps, len(self)))
        matrix = self.weights if hasattr(self.weights, "indices") else None
        if matrix is not None and 10 * matrix.nnz > len(self) * self.noises.size:
            matrix = matrix.toarray()
        step = max(1, _BLOCK // max(self.noises.size, 1))
        for start in range(0, reps, step):
            part = out[start : start + step]
            z = self.noises.law._rvs((len(part), self.noises.size), generator)
            z = np.asarray(z, dtype=np.float64).T
            part[:] = (self.weights.apply(z) if matrix is None else matrix @ z).T
        return out

    def take(self, where: Any) -> NoisyValues:
        """Return some of the values, over the same noises, with their part of the rule.

        ``where`` is a mask of m booleans, positions, a slice or a list of labels. Choose values by
        what they are about, not by what was published of them: the noise of values chosen because
        they are large does not have its law any more.
        """
        return self._take(self._rows_of(where))

    def _rows_of(self, where: Any) -> Positions:
        rows = positions_of(where, len(self), self.labels)
        if not len(rows):
            raise InvalidParameterError("where must select at least one value, got none")
        if len(np.unique(rows)) < len(rows):
            raise InvalidParameterError("where must name each value once: its noise is one noise")
        return rows

    def _take(self, rows: Positions) -> NoisyValues:
        own = self.weights is None
        return replace(
            self,
            values=self.values[rows],
            shape=None,
            labels=None if self.labels is None else self.labels[rows],
            weights=None if own else self._rows(rows),
            at=(rows if self.at is None else self.at[rows]) if own else None,
            rule=None if self.rule is None else self.rule.take(rows, len(self)),
        )

    def relabelled(self, labels: pd.Index | None) -> NoisyValues:
        """Return the same values under other labels, or none."""
        return replace(self, shape=self.shape if labels is None else None, labels=labels)

    def own_noises(self) -> Noises:
        """Return the noises of values that each have one of their own, in their order."""
        if self.at is None:
            return self.noises
        starts = np.cumsum([0, *(size for *_, size in self.noises.parts)])
        number = np.searchsorted(starts, self.at, side="right") - 1
        cuts = np.flatnonzero(np.diff(number)) + 1
        parts: list[Part] = []
        for at, which in zip(np.split(self.at, cuts), np.split(number, cuts), strict=True):
            origin, positions, _ = self.noises.parts[which[0]]
            place = at - starts[which[0]]
            parts.append((origin, place if positions is None else positions[place], len(at)))
        return Noises(self._own_law(), len(self), parts)

    def beside(self, other: NoisyValues) -> NoisyValues:
        """Return these values and others, one after the other, over the noises of both.

        Refused where it cannot be told whether noises are the same: equal values that came in
        twice.
        """
        noises, own, theirs = self.noises.joined(other.noises)
        if noises is not self.noises:
            _refuse_twice(self, other)
        rows = [
            _placed(value._rows(np.arange(len(value))), places, noises.size)
            for value, places in ((self, own), (other, theirs))
        ]
        from scipy import sparse

        joint = sparse.vstack(rows, format="csr")
        single = bool((np.diff(joint.indptr) == 1).all() and (joint.data == 1.0).all())
        distinct = single and not (np.bincount(joint.indices) > 1).any()
        rule = None
        if self.rule is not None or other.rule is not None:
            rule = stacked(self.rule, len(self), other.rule, len(other))
        return NoisyValues(
            np.concatenate([self.values, other.values]),
            noises,
            weights=None if distinct else joint,
            at=joint.indices.astype(np.intp) if distinct else None,
            rule=rule,
            name=self.name,
        )

    def apart_from(self, other: NoisyValues) -> bool:
        """Whether the values and others have no noise in common.

        Refused where that cannot be told: equal values of equal laws came in twice.
        """
        mine, theirs = ({origin for origin, *_ in x.noises.parts} for x in (self, other))
        if not mine.isdisjoint(theirs):
            return False
        if not {origin.digest for origin in mine}.isdisjoint(origin.digest for origin in theirs):
            raise InvalidParameterError(READ_TWICE)
        _refuse_twice(self, other)
        return True

    def aligned(self, other: NoisyValues, names: tuple[str, str] | None = None) -> NoisyValues:
        """Return other values in the order of these, by their labels where both have some.

        Refused where the labels are others, or there are another number of values, but one.
        """
        if self.labels is not None and other.labels is not None:
            if other.labels.equals(self.labels):
                return other
            rows = other.labels.get_indexer(self.labels)
            if len(self) != len(other) or (rows < 0).any():
                mine, theirs = names or (self.name, other.name)
                raise InvalidParameterError(
                    f"{theirs} must have the labels of {mine}, {show_some(self.labels)}, got "
                    f"{show_some(other.labels)}: reindex it first, or compare values of one "
                    "release by weights, as with linear_confint"
                )
            return other._take(np.asarray(rows, dtype=np.intp))
        if len(other) != len(self) and other.shape and self.shape:
            raise InvalidParameterError(
                f"arguments must have one length, or be scalars: {self.name} has {len(self)}, "
                f"{other.name} has {len(other)}"
            )
        return other

    def need(
        self,
        *,
        independent: bool = False,
        unruled: bool = False,
        marginal: bool = False,
        whole: bool = False,
        who: str,
    ) -> Self:
        """Return the values, or say what the function ``who`` cannot take and what can be done.

        ``independent``: no noise in two errors; ``unruled``: no publishing rule; ``marginal``:
        errors with a density or on whole numbers; ``whole``: whole numbers also where there is no
        noise.
        """
        if unruled and self.rule is not None:
            raise InvalidParameterError(
                f"{who} does not take values that {self.rule.kind()}, as {self.name} were: use "
                "count_confint, which has an interval for each of them, linear_confint and "
                "linear_ztest for linear functions of those without a threshold, or a list that "
                "was fixed beforehand and published without the rule"
            )
        if independent and not self.are_independent():
            raise InvalidParameterError(
                f"{who} needs independent errors, got {self.name} that share noises: use "
                "linear_confint, linear_ztest, counts_2indep, ratio_confint or share_confint, "
                "which know how they depend"
            )
        if marginal:
            for law, cells in self.laws():
                if not isinstance(law, ParametricLaw):
                    raise InvalidParameterError(
                        f"{who} needs noise of a known density or mass, got "
                        f"{self._named(int(cells[0]))} whose error is {law!r}"
                    )
        if whole and self.weights is None:
            check_whole(self, exact=True)
        return self

    def column(self, *settings: FloatArray) -> FloatArray:
        """Return the values in the shape, () or (m,), that they have together with settings."""
        if len(self.shape) > 1 and self.labels is None:
            raise InvalidParameterError(
                f"{self.name} must be a number or one-dimensional, got shape {self.shape}"
            )
        values = self.values if self.shape else self.values.reshape(())
        if not any(map(attrgetter("ndim"), settings)):
            return values
        return np.asarray(np.broadcast_arrays(values, *settings)[0])

    def setting(
        self,
        value: Any,
        name: str,
        *,
        whole: bool = False,
        ge: float | None = None,
        le: float | None = None,
        gt: float | None = None,
        lt: float | None = None,
        finite: bool = True,
    ) -> FloatArray:
        """Return a number for all values, or one for each in their order, as an array () or (m,).

        It is within the bounds, and finite and whole where asked; labels must be those of the
        values. For a single value there may be several settings.
        """
        if type(value) in (int, float) and abs(value) < LARGEST_VALUE:
            number = float(value)
            above = (ge is None or number >= ge) and (gt is None or number > gt)
            below = (le is None or number <= le) and (lt is None or number < lt)
            if above and below and (not whole or number.is_integer()):
                return np.asarray(number)
        array, own = split_labels(value, name, ge=ge, le=le, gt=gt, lt=lt, finite=finite)
        if whole:
            check_integer_array(array, name)
        check_order(own, self.labels, name, self.name)
        if array.ndim > 1 and array.shape == self.shape:
            array = array.ravel()
        if array.ndim > 1:
            raise InvalidParameterError(
                f"{name} must be a number or one-dimensional, got shape {array.shape}"
            )
        broadcast = len(self) == 1 and self.labels is None and len(self.shape) < 2
        if array.ndim and array.size not in (1, len(self)) and not broadcast:
            raise InvalidParameterError(
                f"{name} must be a number, or have one entry for each of the {len(self)} values "
                f"of {self.name}, got {array.size}"
            )
        return array

    def key(self, *settings: FloatArray) -> tuple[Positions, Positions]:
        """Tell which values have one law and one of each setting.

        Returns the position of the first value of each of g groups, (g,), and the group of each,
        (m,).
        """
        size = np.broadcast_shapes((len(self),), *(setting.shape for setting in settings))[0]
        single = self.weights is None and self.noises.law.shape == ()
        columns: list[NDArray[Any]] = [] if single else [self._kinds()]
        columns += [setting for setting in settings if setting.size > 1]
        if not columns or size == 1:
            return np.zeros(1, dtype=np.intp), np.zeros(size, dtype=np.intp)
        held, axis = np.broadcast_to(columns[0], size), None
        if len(columns) > 1:
            held, axis = np.column_stack([np.broadcast_to(one, size) for one in columns]), 0
        _, first, member = np.unique(held, axis=axis, return_index=True, return_inverse=True)
        return first.astype(np.intp), np.reshape(member, -1).astype(np.intp)

    def answer(self, found: NDArray[Any], *settings: FloatArray) -> Any:
        """Return what was found for each value, or each setting, in the shape and labels given."""
        shape = self.shape
        if found.size != len(self) or (not shape and any(part.ndim for part in settings)):
            shape = np.broadcast_shapes(shape, *(setting.shape for setting in settings))
        elif self.labels is not None:
            shape = (len(self),)
        return attach_labels(found.reshape(shape), self.labels)

    @property
    def is_selected(self) -> bool:
        """Whether some of the values have a threshold or a clamping bound."""
        rule = self.rule
        return rule is not None and bool(
            np.isfinite(rule.threshold).any()
            or (np.isfinite(rule.lowest) | np.isfinite(rule.highest)).any()
        )

    def rounding_reach(self) -> tuple[FloatArray, FloatArray]:
        """Return how far the noisy values may be below, and above, what they were rounded to."""
        rule = self.rule or Rule()
        whole = np.zeros(len(self), dtype=bool)
        for law, cells in self.laws() if rule.after > 0 else ():
            whole[cells] = law.is_integer and not isinstance(law, Exact)
        return rounding_reach(rule.after, rule.after_way, whole, self.values)

    def shaped(self, found: FloatArray) -> FloatArray:
        """Return what was found for each value in the shape of the values, which are unlabelled."""
        return found if self.labels is not None or not found.ndim else found.reshape(self.shape)

    def _once(self, name: str, find: Callable[[], Found]) -> Found:
        if name not in self._found:
            self._found[name] = find()
        return cast("Found", self._found[name])

    def _own_law(self) -> NoiseLaw:
        law = self.noises.law
        if self.at is None or not law.shape:
            return law
        return self._once("own law", lambda: law.take(self.at))

    def _noise_variance(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self.noises.law.variance), self.noises.size)

    def _variance(self) -> FloatArray:
        if self.weights is None:
            found = np.array(np.broadcast_to(self._own_law().variance, len(self)))
        elif hasattr(self.weights, "indices"):
            found = np.asarray(self.weights.power(2) @ self._noise_variance())
        else:
            found = np.array(self.weights.variance())
        found.flags.writeable = False
        return found

    def _rows(self, positions: Positions) -> Any:
        """Return rows of the matrix of weights, (r, q), as a sparse array."""
        if self.weights is None:
            from scipy import sparse

            column = positions if self.at is None else self.at[positions]
            size = len(positions)
            entries = np.ones(size), column, np.arange(size + 1)
            return sparse.csr_array(entries, shape=(size, self.noises.size))
        if hasattr(self.weights, "indices"):
            return self.weights[positions]
        return self.weights.take(positions)

    def _laws_of_rows(self) -> list[tuple[NoiseLaw, Positions]]:
        """Find the law of each row of weights; that of one noise with weight 1 is its own."""
        from dpinfer.mechanisms.weighted_sum import weighted_sums

        law = self.noises.law
        found: dict[int, tuple[NoiseLaw, list[int]]] = {}
        single: list[tuple[int, int]] = []
        step = len(self) if hasattr(self.weights, "indices") else max(1, _BLOCK // self.noises.size)
        for start in range(0, len(self), step):
            rows = self._rows(np.arange(start, min(start + step, len(self))))
            count = np.diff(rows.indptr)
            unit = np.zeros(len(count), dtype=bool)
            unit[count == 1] = np.abs(rows.data[rows.indptr[:-1][count == 1]]) == 1.0
            single += [
                (start + int(k), int(rows.indices[rows.indptr[k]])) for k in unit.nonzero()[0]
            ]
            sums = np.flatnonzero(~unit)
            for k, one in zip(sums, weighted_sums(rows[sums], law), strict=True):
                found.setdefault(id(one), (one, []))[1].append(start + int(k))
        laws: list[tuple[NoiseLaw, Positions]] = []
        if single:
            at, column = np.array(single, dtype=np.intp).T
            laws += [(kind, at[cells]) for kind, cells in groups(_take(law, column), len(at))]
        return laws + [
            (one if one.variance > 0 else Exact(), np.array(at, dtype=np.intp))
            for one, at in found.values()
        ]

    def _kinds(self) -> Positions:
        from dpinfer.mechanisms._sums.terms import kinds

        return self._once("kinds", lambda: kinds(self.laws(), len(self)))

    def _law_of(self, c: FloatArray, used: Positions) -> WeightedSum:
        """Return the law of Σ cᵢ times the errors of some values, which knows its noises."""
        from dpinfer.mechanisms.weighted_sum import WeightedSum

        if self.weights is None:
            column = used if self.at is None else self.at[used]
        else:
            row = product(c[np.newaxis], self._rows(used), np.arange(len(used)))
            c, column = row.data, row.indices.astype(np.intp)
        order = np.argsort(column, kind="stable")
        c, column = c[order], column[order]
        parts, start = [], 0
        for origin, positions, size in self.noises.parts:
            first, last = np.searchsorted(column, (start, start + size))
            at = column[first:last] - start
            if len(at):
                law = _take(self.noises.law, column[first:last])
                parts.append(
                    Share(origin, at if positions is None else positions[at], c[first:last], law)
                )
            start += size
        return WeightedSum.of_shares(parts)

    def _refuse_ruled(self, used: Positions) -> None:
        if self.rule is not None and (rule := self.rule.take(used, len(self))) is not None:
            raise InvalidParameterError(
                f"{self.name} must not be summed where they {rule.kind()}, got a coefficient for "
                f"{self._named(int(used[rule.of(len(used)).argmax()]))}: no linear function of "
                "such values has a simple law; use intervals.thresholded_sum_confint for sums of "
                "cells with a threshold, linear_confint and linear_ztest for those of rounded, "
                "binned and clamped values, or count_confint for each. Values of a list fixed "
                "beforehand that the rule could not have changed, such as counts far above the "
                "threshold, are plain numbers with the law of their noise as mechanism"
            )

    def _named(self, position: int) -> str:
        """Name a value in a message."""
        return f"the value {self.values[position]:g}{row_name(position, self)}"


def check_whole(
    x: NoisyValues, *, exact: bool = False, error: type[ValueError] = InvalidParameterError
) -> None:
    """Refuse fractions under whole-numbered noise, and without noise if asked; not at a clamp."""
    if not x.shape and x.weights is None and not x.marginal.is_integer:
        return
    fraction = x.values != np.floor(x.values)
    if not fraction.any():
        return
    if x.rule is not None:
        fraction &= (x.values != x.rule.lowest) & (x.values != x.rule.highest)
    for law, cells in x.laws():
        if law.is_integer and (exact or not isinstance(law, Exact)) and fraction[cells].any():
            at = int(cells[fraction[cells]][0])
            raise error(
                f"{x.name} must hold whole numbers where the noise takes whole numbers only, got "
                f"{x.values[at]}{row_name(at, x)}: check that mechanism is the one that was used; "
                "a value that was scaled or fitted after the noise was added has another law"
            )


def row_name(position: int, x: NoisyValues) -> str:
    """Say where a value stands."""
    if not x.shape:
        return ""
    if x.labels is None:
        return f" at position {position}"
    return f" in row {position} ({show(x.labels[position])})"


def _take(law: NoiseLaw, positions: Positions) -> NoiseLaw:
    return law.take(positions) if law.shape else law


def product(coefficients: Any, rows: Any, used: Positions) -> Any:
    """Return C W without what cancels; ``rows`` are those of W that C has coefficients for."""
    from scipy import sparse

    c = sparse.csr_array(coefficients[:, used])
    found = (c @ rows).tocsr()
    size = (abs(c) @ abs(rows)).tocsr()
    found = found.multiply((abs(found) - _CANCELLED * size) > 0).tocsr()
    found.eliminate_zeros()
    return found


def _placed(rows: Any, places: Positions, size: int) -> Any:
    """Return weights of noises as those of more noises, of which they have these places."""
    from scipy import sparse

    entries = rows.data, places[rows.indices], rows.indptr
    return sparse.csr_array(entries, shape=(rows.shape[0], size))


def _refuse_twice(one: NoisyValues, other: NoisyValues) -> None:
    """Refuse many equal values of one law that came in twice."""
    same = (
        one.weights is None
        and other.weights is None
        and len(one) == len(other) >= _TWICE
        and np.array_equal(one.values, other.values)
        and same_labels(one.labels, other.labels)
        and _same_laws(one, other)
    )
    shared = {origin for origin, *_ in one.noises.parts}
    if same and shared.isdisjoint(origin for origin, *_ in other.noises.parts):
        noisy_ones = one.values[one.variance > 0]
        if len(np.unique(noisy_ones)) >= _TWICE:
            raise InvalidParameterError(READ_TWICE)


def _same_laws(one: NoisyValues, other: NoisyValues) -> bool:
    laws, theirs = one.laws(), other.laws()
    if one.weights is not None or other.weights is not None:
        return np.array_equal(one.cov(), other.cov())
    return len(laws) == len(theirs) and all(
        np.array_equal(cells, own) and law == its
        for (law, cells), (its, own) in zip(laws, theirs, strict=True)
    )


def same_labels(one: pd.Index | None, other: pd.Index | None) -> bool:
    """Whether two arguments have the same labels, or neither has any."""
    return one is other if one is None or other is None else bool(one.equals(other))
