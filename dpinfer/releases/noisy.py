"""Noisy values: numbers with their labels, the joint law of their noise, and how they came out.

Every public function makes them once of what it is given, checked and aligned (:func:`noisy`); all
that comes after takes them and checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    Locked,
    check_array,
    check_integer_array,
    check_length,
    check_reps,
    check_rng,
    check_scalar,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import (
    IndependentNoise,
    Mechanism,
    as_noise,
    groups,
    refuse_selected,
)
from dpinfer.mechanisms.law import NoiseLaw, Origin, ParametricLaw, marked
from dpinfer.mechanisms.laws import Exact
from dpinfer.results.labels import attach_labels, split_labels

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.mechanisms.weighted_sum import WeightedSum

Positions = NDArray[np.intp]
Bound = float | FloatArray
Part = tuple[Origin, Positions | None, int]
Found = TypeVar("Found")

LARGEST_VALUE = 1e100
"""Beyond it, squares of deviations overflow."""

_LARGEST_BIN = 2.0**52
_CANCELLED = 1e-13
"""What is left of weights that cancel, relative to them, is rounding."""

_BLOCK = 1 << 22
"""Noises that are drawn, or rows times noises that are looked at, at a time."""

_TWICE = 8
"""So many distinct values that are equal were not published twice."""


class Rows(Protocol):
    """The rows of a matrix of weights, made when they are asked for."""

    def take(self, positions: Positions) -> Any:
        """Return some rows (r, q), a sparse array."""
        ...

    def apply(self, noises: FloatArray) -> FloatArray:
        """Return the errors (m, r) that r draws of the noises (q, r) make."""
        ...

    def variance(self) -> FloatArray:
        """Return the variance of the error of each row, (m,)."""
        ...


@final
class Noises(Locked):
    """Independent noises of which it is known which they are: the base of noisy values.

    Values over the same noises are dependent through their weights, those over others are
    independent. What is derived from values, and every copy, keeps their noises.

    Parameters
    ----------
    law : NoiseLaw
        Their joint law, of shape () or (q,).
    size : int
        Their number q.
    parts : sequence of (Origin, array of int or None, int), optional
        Consecutive blocks of them: the published values that they are the noise of, the positions
        among these (None for all), and how many. By default they are the noise of new values.
    """

    law: NoiseLaw
    size: int
    _parts: tuple[Part, ...] | None

    def __init__(self, law: NoiseLaw, size: int, parts: Sequence[Part] | None = None) -> None:
        self.law, self.size = law, size
        self._parts = None if parts is None else tuple(parts)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_parts": self.parts}

    @property
    def parts(self) -> tuple[Part, ...]:
        """Which noises they are; new ones become so by being asked."""
        if self._parts is None:
            self._parts = ((_new_origin(), None, self.size),)
        return self._parts

    def are(self, other: Noises) -> bool:
        """Whether they are the same noises in the same order."""
        if self is other:
            return True
        return len(self.parts) == len(other.parts) and all(
            a == b and m == n and _same_positions(i, j)
            for (a, i, m), (b, j, n) in zip(self.parts, other.parts, strict=True)
        )

    def joined(self, other: Noises) -> tuple[Noises, Positions, Positions]:
        """Return the noises that are in either, and the places of both among them."""
        if self.are(other):
            all_ = np.arange(self.size)
            return self, all_, all_
        found: dict[Origin, list[tuple[int, int, Positions]]] = {}
        for side, noises in enumerate((self, other)):
            start = 0
            for origin, positions, size in noises.parts:
                at = np.arange(size) if positions is None else positions
                found.setdefault(origin, []).append((side, start, at))
                start += size
        if len({origin.digest for origin in found}) < len(found):
            raise InvalidParameterError(_READ_TWICE)
        places = np.empty(self.size, dtype=np.intp), np.empty(other.size, dtype=np.intp)
        laws: list[tuple[NoiseLaw, Positions]] = []
        parts: list[Part] = []
        width = 0
        for origin, held in found.items():
            every = np.concatenate([at for *_, at in held])
            distinct, first, number = np.unique(every, return_index=True, return_inverse=True)
            own: list[tuple[NoiseLaw, Positions]] = []
            stop = 0
            for side, start, at in held:
                noises = (self, other)[side]
                rows = np.arange(start, start + len(at))
                places[side][rows] = width + number[stop : stop + len(at)]
                law = noises.law.take(rows) if noises.law.shape else noises.law
                own += [(kind, stop + cells) for kind, cells in groups(law, len(at))]
                stop += len(at)
            joint = IndependentNoise.from_groups(own, stop)
            joint = joint.take(first) if joint.shape else joint
            laws += [(kind, width + cells) for kind, cells in groups(joint, len(distinct))]
            parts.append((origin, distinct, len(distinct)))
            width += len(distinct)
        return Noises(IndependentNoise.from_groups(laws, width), width, parts), *places


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Rule(Locked):
    """How noisy values were published: what of them is not plain truth plus noise.

    Parameters
    ----------
    threshold : float or array of float, shape (m,)
        The noisy value was published because it reached this; -inf where there is none.
    lowest, highest : float or array of float, shape (m,)
        The bounds into which the noisy value was moved, infinite where there are none.
    after : float
        The step to multiples of which the noisy value was rounded; 0 where it was not.
    before : float or array of float, shape (m,)
        The number to multiples of which the count was rounded up *before* the noise; 1 for none.
    """

    threshold: Bound = -np.inf
    lowest: Bound = -np.inf
    highest: Bound = np.inf
    after: float = 0.0
    before: Bound = 1.0

    def of(self, size: int) -> NDArray[np.bool_]:
        """Whether each of so many values has a rule, shape (m,)."""
        held = np.isfinite(self.threshold) | np.isfinite(self.lowest) | np.isfinite(self.highest)
        return np.array(np.broadcast_to(held | (self.after > 0) | np.greater(self.before, 1), size))

    def take(self, rows: Positions, size: int) -> Rule | None:
        """Return the rule of some of so many values, None where they have none."""
        if not self.of(size)[rows].any():
            return None
        names = ("threshold", "lowest", "highest", "before")
        held: dict[str, Any] = {name: getattr(self, name) for name in names}
        cut = {key: value[rows] for key, value in held.items() if isinstance(value, np.ndarray)}
        return replace(self, **cast("Any", cut))

    def kind(self) -> str:
        """Say what became of the values, for messages."""
        if np.isfinite(self.threshold).any():
            return "were selected by a threshold"
        if np.isfinite(self.lowest).any() or np.isfinite(self.highest).any():
            return "were clamped"
        if self.after > 0:
            return f"were rounded to multiples of {self.after:g}"
        return "are about counts that were rounded up before the noise"


@final
class NoisyValues:
    """Numbers with labels, the joint law of their noise, and how they were published.

    Made by :func:`noisy`. What is published of m confidential values f is f + W z, with q
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

    __slots__ = (
        "_found",
        "at",
        "labels",
        "name",
        "noises",
        "rule",
        "shape",
        "values",
        "weights",
    )

    values: FloatArray
    shape: tuple[int, ...]
    labels: pd.Index | None
    noises: Noises
    weights: Any
    at: Positions | None
    rule: Rule | None
    name: str
    _found: dict[str, Any]

    def __init__(
        self,
        values: FloatArray,
        noises: Noises,
        *,
        shape: tuple[int, ...] | None = None,
        labels: pd.Index | None = None,
        weights: Any = None,
        at: Positions | None = None,
        rule: Rule | None = None,
        name: str = "values",
    ) -> None:
        values.flags.writeable = False
        hold = object.__setattr__
        hold(self, "values", values)
        hold(self, "shape", values.shape if shape is None else shape)
        hold(self, "labels", labels)
        hold(self, "noises", noises)
        hold(self, "weights", weights)
        hold(self, "at", at)
        hold(self, "rule", rule)
        hold(self, "name", name)
        hold(self, "_found", {})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"NoisyValues are read-only: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"NoisyValues are read-only: {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "_found"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    def __noisy__(self) -> Self:
        return self

    def __len__(self) -> int:
        return self.values.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyValues):
            return NotImplemented
        return (
            self.shape == other.shape
            and np.array_equal(self.values, other.values)
            and _same_labels(self.labels, other.labels)
            and _same_rules(self.rule, other.rule)
            and _same_laws(self, other)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.values.tobytes()))

    def __repr__(self) -> str:
        law = f"{self.noises.law!r}"
        how = "" if self.weights is None else f"weighted sums of {self.noises.size} noises, "
        ruled = "" if self.rule is None else f", some of which {self.rule.kind()}"
        return f"NoisyValues({len(self)} values, {how}{law}{ruled})"

    # the law of the errors

    @property
    def marginal(self) -> NoiseLaw:
        """The law of the error of each value by itself, of shape () or (m,).

        It says nothing on how the errors depend: see :meth:`are_independent`.
        """
        if self.weights is None:
            return self._own_law()
        return self._once("marginal", lambda: IndependentNoise.from_groups(self.laws(), len(self)))

    def laws(self) -> list[tuple[NoiseLaw, Positions]]:
        """Return the laws of the errors, each with the positions of the values that have it.

        Returns
        -------
        list of (NoiseLaw, array of int)
            A law has shape (), or one entry for each of its positions.
        """
        if self.weights is None:
            return list(groups(self._own_law(), len(self)))
        return self._once("laws", self._laws_of_rows)

    def law_of(self, coefficients: ArrayLike) -> WeightedSum:
        """Return the law of the error of Σ cᵢyᵢ.

        Parameters
        ----------
        coefficients : array of float, shape (m,)
            The coefficients c.

        Raises
        ------
        InvalidParameterError
            If a value with a coefficient has a publishing rule, or the lengths do not fit.
        """
        from dpinfer.mechanisms.weighted_sum import WeightedSum

        c = self._coefficients(coefficients)
        if self.weights is None:
            return WeightedSum(c, self._own_law())
        row = _product(c[np.newaxis], self._rows(np.flatnonzero(c)), np.flatnonzero(c))
        return WeightedSum(row.data, _take(self.noises.law, row.indices))

    def linear(
        self, coefficients: Any, *, labels: pd.Index | None = None, name: str | None = None
    ) -> NoisyValues:
        """Return linear functions of the values, over the same noises.

        Parameters
        ----------
        coefficients : array of float or sparse array, shape (m,) or (k, m)
            The coefficients of one function, or of one a row.
        labels : pandas.Index, optional
            Labels of the functions.
        name : str, optional
            What messages call them.

        Raises
        ------
        InvalidParameterError
            If a value with a coefficient has a publishing rule.
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
            weights=_product(c, self._rows(used), used),
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
        """Return the covariance matrix of the errors of some of the values, by default all.

        Parameters
        ----------
        positions : array of int, shape (r,), optional
            Their positions.

        Returns
        -------
        array of float, shape (r, r)
            Their variances and covariances.
        """
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
        return len(np.unique(used)) == len(used)

    def draw(self, reps: int, *, rng: RNG = None) -> FloatArray:
        """Draw joint errors of the values.

        Parameters
        ----------
        reps : int
            The number of draws.
        rng : None, int or numpy.random.Generator, optional
            Source of randomness.

        Returns
        -------
        array of float, shape (reps, m)
            Errors: published minus confidential value, before any publishing rule.
        """
        reps, generator = check_reps(reps), check_rng(rng)
        if self.weights is None:
            drawn = self._own_law()._rvs((reps, len(self)), generator)
            return np.asarray(drawn, dtype=np.float64)
        out = np.empty((reps, len(self)))
        step = max(1, _BLOCK // max(self.noises.size, 1))
        for start in range(0, reps, step):
            part = out[start : start + step]
            z = self.noises.law._rvs((len(part), self.noises.size), generator)
            z = np.asarray(z, dtype=np.float64).T
            held = hasattr(self.weights, "indices")
            part[:] = (self.weights @ z if held else self.weights.apply(z)).T
        return out

    # other values

    def take(self, where: Any) -> NoisyValues:
        """Return some of the values, over the same noises, with their part of the rule.

        Choose values by what they are about, not by what was published of them: the noise of
        values chosen because they are large does not have its law any more.

        Parameters
        ----------
        where : mask of m booleans, positions, slice, or list of labels
            The values to keep.

        Raises
        ------
        InvalidParameterError
            If no value is named, or one is named twice.
        """
        from dpinfer.releases.release import positions_of

        rows = positions_of(where, len(self), self.labels)
        if not len(rows):
            raise InvalidParameterError("where must select at least one value, got none")
        if len(np.unique(rows)) < len(rows):
            raise InvalidParameterError("where must name each value once: its noise is one noise")
        return self._take(rows)

    def _take(self, rows: Positions) -> NoisyValues:
        own = self.weights is None
        return NoisyValues(
            self.values[rows],
            self.noises,
            labels=None if self.labels is None else self.labels[rows],
            weights=None if own else self._rows(rows),
            at=(rows if self.at is None else self.at[rows]) if own else None,
            rule=None if self.rule is None else self.rule.take(rows, len(self)),
            name=self.name,
        )

    def beside(self, other: NoisyValues) -> NoisyValues:
        """Return these values and others, one after the other, over the noises of both.

        Parameters
        ----------
        other : NoisyValues
            The other values; the same ones may be among them.

        Raises
        ------
        InvalidParameterError
            If both have noises of which it cannot be told whether they are the same: equal values
            of equal laws that came in twice.
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
        distinct = single and len(np.unique(joint.indices)) == joint.indices.size
        rule = None
        if self.rule is not None or other.rule is not None:
            rule = _stacked(self.rule, len(self), other.rule, len(other))
        return NoisyValues(
            np.concatenate([self.values, other.values]),
            noises,
            weights=None if distinct else joint,
            at=joint.indices.astype(np.intp) if distinct else None,
            rule=rule,
            name=self.name,
        )

    def aligned(self, other: NoisyValues) -> NoisyValues:
        """Return other values in the order of these, by their labels where both have some.

        Parameters
        ----------
        other : NoisyValues
            Values with the same labels, without labels, or a single number.

        Raises
        ------
        InvalidParameterError
            If the labels are others, or there are another number of values.
        """
        if self.labels is not None and other.labels is not None:
            if other.labels.equals(self.labels):
                return other
            rows = other.labels.get_indexer(self.labels)
            if len(self) != len(other) or (rows < 0).any():
                raise InvalidParameterError(
                    f"{other.name} must have the labels of {self.name}: reindex it first"
                )
            return other._take(np.asarray(rows, dtype=np.intp))
        if len(other) != len(self) and other.shape and self.shape:
            raise InvalidParameterError(
                f"arguments must have one length, or be scalars: {self.name} has {len(self)}, "
                f"{other.name} has {len(other)}"
            )
        return other

    # what functions ask for at the edge

    def need(
        self,
        *,
        independent: bool = False,
        unruled: bool = False,
        marginal: bool = False,
        whole: bool = False,
        who: str,
    ) -> Self:
        """Return the values, or say what a function cannot take of them and what can be done.

        Parameters
        ----------
        independent : bool, default False
            Whether their errors must be independent.
        unruled : bool, default False
            Whether none of them may have a publishing rule.
        marginal : bool, default False
            Whether the law of each error must be a law with a density or on whole numbers.
        whole : bool, default False
            Whether values without noise must be whole numbers, as those with whole noise are.
        who : str
            The function that asks.

        Raises
        ------
        InvalidParameterError
            If the values are not what is needed.
        """
        if unruled and self.rule is not None:
            raise InvalidParameterError(
                f"{who} does not take values that {self.rule.kind()}, got such a {self.name}: use "
                "count_confint, which has an interval for each of them, or a list that was fixed "
                "beforehand and published without the rule"
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
            _check_whole(self, exact=True)
        return self

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
        """Return a number for all values, or one for each, in their order.

        Parameters
        ----------
        value : float, array or Series
            The numbers; labels, if any, must be those of the values in the same order.
        name : str
            What messages call it.
        whole : bool, default False
            Whether they must be whole.
        ge, le, gt, lt : float, optional
            Bounds.
        finite : bool, default True
            Whether they must be finite.

        Returns
        -------
        array of float, shape () or (m,)
            For a single value with several settings, one for each of these.
        """
        if type(value) in (int, float) and abs(value) < LARGEST_VALUE:
            number = float(value)
            inside = (
                (ge is None or number >= ge)
                and (le is None or number <= le)
                and (gt is None or number > gt)
                and (lt is None or number < lt)
            )
            if inside and (not whole or number.is_integer()):
                return np.asarray(number)
        array, own = split_labels(value, name) if finite else _bounds(value, name)
        array = check_array(array, name, ge=ge, le=le, gt=gt, lt=lt, finite=finite)
        if whole:
            check_integer_array(array, name)
        if own is not None and self.labels is not None and not own.equals(self.labels):
            raise InvalidParameterError(
                f"{name} must have the labels of {self.name} in the same order: reindex it first"
            )
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

        Parameters
        ----------
        *settings : array of float, shape () or (m,)
            As :meth:`setting` returns them.

        Returns
        -------
        first : array of int, shape (g,)
            The position of the first value of each of g groups.
        member : array of int, shape (m,)
            The number of the group of each value.
        """
        size = np.broadcast_shapes((len(self),), *(setting.shape for setting in settings))[0]
        single = self.weights is None and self.noises.law.shape == ()
        columns: list[NDArray[Any]] = [] if single else [self._kinds()]
        columns += [setting for setting in settings if setting.size > 1]
        if not columns or size == 1:
            return np.zeros(1, dtype=np.intp), np.zeros(size, dtype=np.intp)
        if len(columns) == 1:
            held = np.broadcast_to(columns[0], size)
            _, first, member = np.unique(held, return_index=True, return_inverse=True)
        else:
            held = np.column_stack([np.broadcast_to(column, size) for column in columns])
            _, first, member = np.unique(held, axis=0, return_index=True, return_inverse=True)
        return first.astype(np.intp), np.reshape(member, -1).astype(np.intp)

    def answer(self, found: NDArray[Any], *settings: FloatArray) -> Any:
        """Return what was found for each value as the caller gave them: in shape, or with labels.

        Parameters
        ----------
        found : array
            One entry for each value, or for each setting of a single one.
        *settings : array of float
            The settings that it was found with.

        Returns
        -------
        number, array or Series
            A Series where the values have labels.
        """
        shape = self.shape
        if found.size != len(self) or (not shape and any(part.ndim for part in settings)):
            shape = np.broadcast_shapes(shape, *(setting.shape for setting in settings))
        elif self.labels is not None:
            shape = (len(self),)
        return attach_labels(found.reshape(shape), self.labels)

    # inside

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

    def _coefficients(self, coefficients: ArrayLike) -> FloatArray:
        c = check_array(coefficients, "coefficients", ndim=1)
        check_length(c, "coefficients", len(self), self.name)
        self._refuse_ruled(np.flatnonzero(c))
        return c

    def _refuse_ruled(self, used: Positions) -> None:
        if self.rule is not None and (rule := self.rule.take(used, len(self))) is not None:
            raise InvalidParameterError(
                f"{self.name} must not be summed where they {rule.kind()}, got a coefficient for "
                f"{self._named(int(used[rule.of(len(used)).argmax()]))}: no linear function of "
                "such values has a simple law; use count_confint for each, or a list that was "
                "fixed beforehand"
            )

    def _named(self, position: int) -> str:
        """Name a value in a message."""
        return f"the value {self.values[position]:g}{_where(position, self)}"


def noisy(
    values: Any,
    *,
    mechanism: Mechanism | Mapping[str, Any] | None = None,
    labels: Sequence[Any] | pd.Index | None = None,
    weights: Any = None,
    threshold: Any = None,
    clamp: Any = None,
    rounded: Any = None,
    binned: Any = None,
    name: str = "values",
    called: str = "mechanism",
) -> NoisyValues:
    """Return noisy values of whatever holds or gives them, checked.

    Parameters
    ----------
    values : float, array, Series, DataFrame, Release or estimate
        The published values. A Series or DataFrame gives their labels, as do the columns without
        numbers of a frame of polars or pyarrow. A release or a fit carries its own law.
    mechanism : NoiseLaw, sequence of NoiseLaw, or mapping
        The law of the noise: one for all values, or one for each. ``{"laplace": scales}`` names a
        law and gives its scales: a number, an array in the order of the values, or a Series, which
        is aligned with their labels. Left out where ``values`` carries its own.
    labels : sequence of length m, optional
        Labels of the values; by default their own.
    weights : array or sparse array, shape (m, q), optional
        The matrix W, known and not found from the values, where they are confidential values plus
        W z with q independent noises z of law ``mechanism``. For Gaussian noise with covariance
        matrix C it is the Cholesky factor of C, with ``Gaussian(sigma=1)``.
    threshold : float, array or Series, optional
        The values were published because they reached this.
    clamp : float or pair, optional
        The values were moved into these bounds: a lower bound, or ``(lower, upper)``.
    rounded : float or bool, optional
        The noisy values were rounded to multiples of this number; True is 1. With 1 the
        confidential values are taken to be whole numbers, so that the error is rounded noise.
    binned : int or array, optional
        The counts were rounded up to multiples of this *before* the noise.
    name, called : str
        What messages call the values and the law.

    Returns
    -------
    NoisyValues
        The values with their law and their publishing rule.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together: no law for
        plain numbers, or one for values that carry their own; NaN, infinite or absurd values;
        fractions under noise that takes whole numbers only; labels that are not distinct.
    IncompatibleReleaseError
        If a value is below its threshold or outside of its clamping bounds.

    Warns
    -----
    RoundedValuesWarning
        If all values under noise with a density are whole numbers.

    Notes
    -----
    Values made in two calls are taken to be independent, even if they are the same numbers: to
    compare values with a function of themselves, make them once and derive the other from them.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> from dpinfer.releases.noisy import noisy
    >>> x = noisy([120.5, 100.5], mechanism=Laplace(scale=2.0))
    >>> x.variance, x.law_of([1, -1]).variance.round(9)
    (array([8., 8.]), np.float64(16.0))
    >>> total = x.linear([1, 1])
    >>> x.beside(total).cov()
    array([[ 8.,  0.,  8.],
           [ 0.,  8.,  8.],
           [ 8.,  8., 16.]])
    """
    plain = threshold is None and clamp is None and rounded is None and binned is None
    if type(values) in (int, float) and plain and weights is None and labels is None:
        single = isinstance(mechanism, ParametricLaw) and mechanism.shape == ()
        if single and abs(values) <= LARGEST_VALUE:
            law = cast("ParametricLaw", mechanism)
            one = np.array((values,), dtype=np.float64)
            x = NoisyValues(one, Noises(law, 1), shape=(), name=name)
            if law._selected:
                refuse_selected([law], called)
            if law.is_integer is not float(values).is_integer():
                _check_fit(x)
            return x
    elif hasattr(values, "__noisy__") and not isinstance(values, type):
        stated = (
            (called, mechanism),
            ("labels", labels),
            ("weights", weights),
            ("threshold", threshold),
            ("clamp", clamp),
            ("rounded", rounded),
            ("binned", binned),
        )
        for what, given in stated:
            if given is not None:
                raise InvalidParameterError(
                    f"{what} must be left out where {name} carries "
                    + ("its own law" if what == called else "how it was published")
                )
        return cast("NoisyValues", values.__noisy__())
    if mechanism is None:
        raise InvalidParameterError(
            f"{called} must be given, as {name} is plain numbers: the law of the noise in them, "
            "such as Laplace(scale=2.0)"
        )
    array, own = _numbers(values, name)
    if labels is not None:
        from dpinfer.queries.domain import check_labels

        own = check_labels(labels, "labels", array.size, name)
    elif own is not None and not own.is_unique:
        from dpinfer.queries.domain import show_label

        raise InvalidParameterError(
            f"{name} must have distinct labels, got {show_label(own[own.duplicated()][0])} twice"
        )
    if weights is not None:
        if not plain:
            raise InvalidParameterError(
                f"weights must be left out where {name} were selected, clamped or rounded: what "
                "is known of such values is about noises of their own"
            )
        return _weighted(array, own, weights, mechanism, name, called)
    if isinstance(mechanism, Mapping) or hasattr(mechanism, "reindex"):
        mechanism = _laws_by_label(mechanism, own, array.size, name, called)
    noise = _as_law(mechanism, array.shape, array.size, called, selected=not plain)
    noises, matrix = _base(noise, array.size, called)
    x = NoisyValues(
        array.reshape(-1), noises, shape=array.shape, labels=own, weights=matrix, name=name
    )
    if not plain:
        return _ruled(x, threshold, clamp, rounded, binned)
    _check_fit(x)
    return x


def _numbers(values: Any, name: str) -> tuple[FloatArray, pd.Index | None]:
    """Return values as finite numbers of a sane size, and their labels, which messages name."""
    if type(values) is np.ndarray:
        return check_array(values, name, ge=-LARGEST_VALUE, le=LARGEST_VALUE), None
    if hasattr(values, "iloc") and not hasattr(values, "columns"):
        raw = values.to_numpy()
        if raw.dtype.kind == "f" and not (finite := np.isfinite(raw)).all():
            from dpinfer.queries.domain import show_label

            at = int(np.flatnonzero(~finite)[0])
            word = "not contain NaN" if np.isnan(raw[at]) else f"be finite, got {raw[at]}"
            raise InvalidParameterError(
                f"{name} must {word} at position {at} ({show_label(values.index[at])})"
            )
    return split_labels(values, name, ge=-LARGEST_VALUE, le=LARGEST_VALUE)


def _as_law(
    mechanism: Any, shape: tuple[int, ...], size: int, called: str, *, selected: bool = False
) -> NoiseLaw:
    """Return the joint law of so many noises, of shape () or (size,)."""
    if (
        isinstance(mechanism, ParametricLaw)
        and len(mechanism.shape) > 1
        and mechanism.shape == shape
    ):
        own = mechanism._parameters()
        flat = {key: np.broadcast_to(value, shape).ravel() for key, value in own.items()}
        mechanism = marked(mechanism._with(flat), mechanism._selected)
    law = as_noise(mechanism, size, name=called, dependence="used", selected=True)
    if not selected:
        refuse_selected([mechanism] if isinstance(mechanism, NoiseLaw) else mechanism, called)
    return marked(law, selected=False)


def _base(law: NoiseLaw, size: int, called: str) -> tuple[Noises, Any]:
    """Return the noises of a law, and weights where it is that of sums which know theirs."""
    if not law._shares:
        return Noises(law, size), None
    from dpinfer.mechanisms.weighted_sum import _Noises

    found = _Noises.of(law, size)
    parts: list[Part] = [(origin, positions, len(positions)) for origin, positions in found.origins]
    rest = found.matrix.shape[1] - sum(count for *_, count in parts)
    if rest:
        parts.append((_new_origin(), None, rest))
    return Noises(found.law, found.matrix.shape[1], parts), found.matrix.tocsr()


def _laws_by_label(
    mechanism: Any, labels: pd.Index | None, size: int, name: str, called: str
) -> Any:
    """Return the law whose parameters, or the laws, are given under the labels of the values."""
    from dpinfer.releases.frames import canonical_kind, laws_of_rows, parameters_of_kind

    if not isinstance(mechanism, Mapping):
        return _by_label(mechanism, labels, size, name, called).tolist()
    given = dict(mechanism)
    if "mechanism" in given:
        kind = given.pop("mechanism")
    elif len(given) == 1:
        [(kind, value)] = given.items()
        [first, *_] = parameters_of_kind(canonical_kind(kind)) or [None]
        given = {} if first is None else {first: value}
    else:
        raise InvalidParameterError(
            f"{called} must be a law, or name one law and its parameters, as in {{'laplace': "
            f"scales}}, got {show(mechanism)}"
        )
    columns: dict[str, Any] = {}
    for key, value in given.items():
        if hasattr(value, "reindex"):
            value = _by_label(value, labels, size, name, key)
        columns[key] = check_array(value, key)
        if columns[key].shape not in ((), (size,)):
            raise InvalidParameterError(
                f"{key} must be a number, or have one entry for each of the {size} values, got "
                f"shape {columns[key].shape}"
            )
    return laws_of_rows(kind, columns, size)


def _by_label(
    series: Any, labels: pd.Index | None, size: int, name: str, called: str
) -> NDArray[Any]:
    """Return a Series in the order of the values."""
    if labels is None:
        raise InvalidParameterError(
            f"{called} must be an array in the order of the values, as {name} has no labels, got a "
            "Series: pass its to_numpy()"
        )
    rows = labels.get_indexer(series.index) if series.index.is_unique else np.array([-1])
    if len(series) != size or (rows < 0).any():
        raise InvalidParameterError(f"{called} must have the labels of {name}, each once")
    return np.asarray(series.reindex(labels).to_numpy())


def _weighted(
    array: FloatArray, labels: Any, weights: Any, mechanism: Any, name: str, called: str
) -> NoisyValues:
    """Return values whose noise is a matrix times independent noises."""
    from scipy import sparse

    from dpinfer.mechanisms.weighted_sum import _check_magnitude

    dense = not sparse.issparse(weights)
    held = check_array(weights if dense else weights.tocsr().data, "weights", nonempty=False)
    _check_magnitude(np.ravel(held))
    matrix = sparse.csr_array(held if dense else weights)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.ndim != 2 or matrix.shape[0] != array.size:
        raise InvalidParameterError(
            f"weights must have {array.size} rows, one for each of the values, got shape "
            f"{matrix.shape}"
        )
    columns = matrix.shape[1]
    noises, inner = _base(_as_law(mechanism, (columns,), columns, called), columns, called)
    if inner is not None:
        matrix = _product(matrix, inner, np.arange(columns))
    return NoisyValues(
        array.reshape(-1), noises, shape=array.shape, labels=labels, weights=matrix, name=name
    )


def _ruled(x: NoisyValues, threshold: Any, clamp: Any, rounded: Any, binned: Any) -> NoisyValues:
    """Return the values with a publishing rule, which they have to fit."""
    if x.weights is not None:
        raise InvalidParameterError(
            f"{x.name} must be published values where they have a threshold, a clamp or bins, "
            "got estimates that combine several"
        )
    noises, rule = x.noises, Rule()
    if threshold is not None:
        rule = replace(rule, threshold=_bound(x, threshold, "threshold"))
    if clamp is not None:
        ends = clamp if isinstance(clamp, (tuple, list)) else (clamp, None)
        if len(ends) != 2:
            raise InvalidParameterError(
                f"clamp must be a lower bound or a pair (lower, upper), got {show(clamp)}"
            )
        lowest = _bound(x, -np.inf if ends[0] is None else ends[0], "clamp")
        highest = _bound(x, np.inf if ends[1] is None else ends[1], "clamp")
        if np.any(np.asarray(lowest) >= highest):
            raise InvalidParameterError(f"clamp must have lower < upper, got {show(clamp)}")
        rule = replace(rule, lowest=lowest, highest=highest)
    if binned is not None:
        held = x.setting(binned, "binned", whole=True, ge=1, le=_LARGEST_BIN)
        rule = replace(rule, before=_frozen(held))
    if rounded is not None and rounded is not False:
        step = 1.0 if rounded is True else check_scalar(rounded, "rounded", gt=0)
        off = np.abs(x.values - np.rint(x.values / step) * step) > 1e-9 * step
        if off.any():
            raise InvalidParameterError(
                f"{x.name} must be multiples of {step:g} where they were rounded to such, got "
                f"{x._named(int(off.argmax()))}"
            )
        if step == 1.0:
            parts = [(_rounded(law), cells) for law, cells in x.laws()]
            noises = Noises(IndependentNoise.from_groups(parts, len(x)), len(x), noises.parts)
        else:
            rule = replace(rule, after=step)
    found = NoisyValues(
        x.values,
        noises,
        shape=x.shape,
        labels=x.labels,
        rule=rule if rule.of(len(x)).any() else None,
        name=x.name,
    )
    if found.rule is not None:
        values = found.values
        _refuse_outside(found, values < rule.lowest, "below its clamping bound", rule.lowest)
        _refuse_outside(found, values > rule.highest, "above its clamping bound", rule.highest)
        below = values < rule.threshold
        _refuse_outside(found, below, "below the threshold of publication", rule.threshold)
    _check_fit(found, rounded=rounded is not None)
    return found


def _rounded(law: NoiseLaw) -> NoiseLaw:
    from dpinfer.mechanisms.rounded import Rounded

    return law if law.is_integer else Rounded(cast("Any", law))


def _check_fit(x: NoisyValues, *, rounded: bool = False) -> None:
    """Refuse, or warn of, values that noises of their own do not leave."""
    if x.weights is not None:
        return
    _check_whole(x)
    if rounded or (len(x) == 1 and x.values[0] != np.floor(x.values[0])):
        return
    from dpinfer.mechanisms.rounded import warn_of_rounding

    law, values = x._own_law(), x.values
    if x.rule is not None:
        free = np.flatnonzero((values != x.rule.lowest) & (values != x.rule.highest))
        law, values = _take(law, free), values[free]
    warn_of_rounding(values, law, x.name)


def _check_whole(x: NoisyValues, *, exact: bool = False) -> None:
    """Refuse fractions under whole-numbered noise, and without noise if asked; not at a clamp."""
    fraction = x.values != np.floor(x.values)
    if not fraction.any():
        return
    if x.rule is not None:
        fraction &= (x.values != x.rule.lowest) & (x.values != x.rule.highest)
    for law, cells in x.laws():
        if law.is_integer and (exact or not isinstance(law, Exact)) and fraction[cells].any():
            at = int(cells[fraction[cells]][0])
            raise InvalidParameterError(
                f"{x.name} must hold whole numbers where the noise takes whole numbers only, got "
                f"{x.values[at]}{_where(at, x)}: check that mechanism is the one that was used; a "
                "value that was scaled or fitted after the noise was added has another law"
            )


def _bound(x: NoisyValues, value: Any, name: str) -> Bound:
    return _frozen(x.setting(value, name, finite=False))


def _bounds(value: Any, name: str) -> tuple[FloatArray, pd.Index | None]:
    """Return numbers that may be infinite, and their labels."""
    from dpinfer._check import as_values

    value = as_values(value, name)
    if hasattr(value, "index") and hasattr(value, "to_numpy"):
        if hasattr(value, "columns"):
            from dpinfer.results.labels import stack_labels

            return check_array(value.to_numpy().ravel(), name, finite=False), stack_labels(value)
        return check_array(value.to_numpy(), name, finite=False), value.index
    return check_array(value, name, finite=False), None


def _frozen(array: FloatArray) -> Bound:
    if array.ndim == 0:
        return float(array)
    array = array.copy()
    array.flags.writeable = False
    return array


def _refuse_outside(x: NoisyValues, bad: NDArray[np.bool_], words: str, bound: Bound) -> None:
    if bad.any():
        at = int(bad.argmax())
        limit = np.broadcast_to(bound, len(x))[at]
        raise IncompatibleReleaseError(f"{x._named(at)} must not be {words} {limit:g}")


def _where(position: int, x: NoisyValues) -> str:
    """Say where a value stands."""
    if not x.shape:
        return ""
    if x.labels is None:
        return f" at position {position}"
    from dpinfer.queries.domain import show_label

    return f" in row {position} ({show_label(x.labels[position])})"


def _take(law: NoiseLaw, positions: Positions) -> NoiseLaw:
    return law.take(positions) if law.shape else law


def _product(coefficients: Any, rows: Any, used: Positions) -> Any:
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


def _stacked(first: Rule | None, m: int, second: Rule | None, n: int) -> Rule:
    one, other = first or Rule(), second or Rule()
    if one.after != other.after:
        raise InvalidParameterError("values rounded to different steps do not go together")

    def both(name: str) -> FloatArray:
        parts = zip((one, other), (m, n), strict=True)
        return np.concatenate([np.broadcast_to(getattr(rule, name), k) for rule, k in parts])

    names = ("threshold", "lowest", "highest", "before")
    return Rule(after=one.after, **{name: both(name) for name in names})


_READ_TWICE = (
    "the values are those of two releases or fits of equal values, whose dependence is not known: "
    "read once, make one Release of what was published, and fit that"
)


def _refuse_twice(one: NoisyValues, other: NoisyValues) -> None:
    """Refuse many equal values of one law that came in twice."""
    same = (
        one.weights is None
        and other.weights is None
        and len(one) == len(other) >= _TWICE
        and np.array_equal(one.values, other.values)
        and _same_labels(one.labels, other.labels)
        and _same_laws(one, other)
    )
    shared = {origin for origin, *_ in one.noises.parts}
    if same and shared.isdisjoint(origin for origin, *_ in other.noises.parts):
        noisy_ones = one.values[one.variance > 0]
        if len(np.unique(noisy_ones)) >= _TWICE:
            raise InvalidParameterError(_READ_TWICE)


def _same_laws(one: NoisyValues, other: NoisyValues) -> bool:
    laws, theirs = one.laws(), other.laws()
    if one.weights is not None or other.weights is not None:
        return np.array_equal(one.cov(), other.cov())
    return len(laws) == len(theirs) and all(
        np.array_equal(cells, own) and law == its
        for (law, cells), (its, own) in zip(laws, theirs, strict=True)
    )


def _same_rules(one: Rule | None, other: Rule | None) -> bool:
    if one is None or other is None:
        return one is other
    names = ("threshold", "lowest", "highest", "after", "before")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _same_labels(one: pd.Index | None, other: pd.Index | None) -> bool:
    return one is other if one is None or other is None else bool(one.equals(other))


def _same_positions(one: Positions | None, other: Positions | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _new_origin() -> Origin:
    """Return the origin of noises of values that are nobody else's, whatever their numbers."""
    origin = Origin(np.empty(0))
    origin.__dict__["digest"] = origin._token
    return origin
