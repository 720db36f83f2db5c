"""The base of noisy values: which noises are in them, how they came out, which are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    Locked,
    Way,
    as_table,
    check_array,
    check_length,
    one_line,
    rounding_reach,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.law import NoiseLaw, Origin

if TYPE_CHECKING:
    import pandas as pd

Positions = NDArray[np.intp]
Bound = float | FloatArray
Part = tuple[Origin, Positions | None, int]

READ_TWICE = (
    "the values are those of two releases or fits of equal values, whose dependence is not known: "
    "read once, make one Release of what was published, and fit that"
)


_BOUNDS = ("threshold", "lowest", "highest", "before")
"""Parts of a rule that may be one for each value."""


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
            self._parts = ((new_origin(), None, self.size),)
        return self._parts

    def are(self, other: Noises) -> bool:
        """Whether they are the same noises in the same order."""
        if self is other:
            return True
        mine, theirs = self.parts, other.parts
        return [(a, m) for a, _, m in mine] == [(b, n) for b, _, n in theirs] and all(
            i is j or np.array_equal(cast("Any", i), cast("Any", j))
            for (_, i, _), (_, j, _) in zip(mine, theirs, strict=True)
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
            raise InvalidParameterError(READ_TWICE)
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
        The number to multiples of which the count was rounded *before* the noise; 1 for none.
    after_way, before_way : {"nearest", "down", "up", "toward zero"}
        Which way they were rounded; the last one of noisy values only.
    """

    threshold: Bound = -np.inf
    lowest: Bound = -np.inf
    highest: Bound = np.inf
    after: float = 0.0
    before: Bound = 1.0
    after_way: Way = "nearest"
    before_way: Way = "up"

    def of(self, size: int) -> NDArray[np.bool_]:
        """Whether each of so many values has a rule, shape (m,)."""
        held = np.isfinite(self.threshold) | np.isfinite(self.lowest) | np.isfinite(self.highest)
        return np.array(np.broadcast_to(held | (self.after > 0) | np.greater(self.before, 1), size))

    def is_same(self, other: Rule) -> bool:
        """Whether values were published in the same way."""
        names = (*_BOUNDS, "after", "after_way", "before_way")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def take(self, rows: Positions, size: int) -> Rule | None:
        """Return the rule of some of so many values, None where they have none."""
        if not self.of(size)[rows].any():
            return None
        held: dict[str, Any] = {name: getattr(self, name) for name in _BOUNDS}
        cut = {key: value[rows] for key, value in held.items() if isinstance(value, np.ndarray)}
        return replace(self, **cast("Any", cut))

    def bin_reach(self) -> tuple[FloatArray, FloatArray]:
        """Return how far counts may be below, and above, the multiples that they became."""
        return rounding_reach(self.before, self.before_way, True)

    def kind(self) -> str:
        """Say what became of the values, for messages."""
        if np.isfinite(self.threshold).any():
            return "were selected by a threshold"
        if np.isfinite(self.lowest).any() or np.isfinite(self.highest).any():
            return "were clamped"
        if self.after > 0:
            return f"were rounded to multiples of {self.after:g}"
        way = "to the nearest multiples" if self.before_way == "nearest" else self.before_way
        return f"are about counts that were rounded {way} before the noise"


def new_origin() -> Origin:
    """Return the origin of noises of values that are nobody else's, whatever their numbers."""
    origin = Origin(np.empty(0))
    origin.__dict__["digest"] = origin._token
    return origin


def stacked(first: Rule | None, m: int, second: Rule | None, n: int) -> Rule:
    """Return the rule of m values and then n others."""
    one, other = first or Rule(), second or Rule()
    for name, none in (("after", 0.0), ("before", 1.0)):
        different = {
            getattr(rule, f"{name}_way")
            for rule in (one, other)
            if np.not_equal(getattr(rule, name), none).any()
        }
        if len(different) > 1:
            raise InvalidParameterError("values rounded in different ways do not go together")
    if one.after != other.after:
        raise InvalidParameterError("values rounded to different steps do not go together")
    binned = one if np.greater(one.before, 1).any() else other

    def both(name: str) -> Any:
        parts = zip((one, other), (m, n), strict=True)
        return np.concatenate([np.broadcast_to(getattr(rule, name), k) for rule, k in parts])

    ways: Any = {"after_way": one.after_way, "before_way": binned.before_way}
    return Rule(after=one.after, **ways, **{name: both(name) for name in _BOUNDS})


def positions_of(
    where: Any, size: int, labels: pd.Index | None, name: str = "where"
) -> NDArray[np.intp]:
    """Return the positions of values chosen by a mask, by positions, by a slice or by labels."""
    where = as_table(where, name)
    if isinstance(where, slice):
        return np.arange(size)[where]
    if isinstance(where, (str, bytes)) or not hasattr(where, "__len__"):
        raise InvalidParameterError(
            f"{name} must be a mask, positions, a slice or a list of labels, got {show(where)}"
        )
    if _holds(where, "b", bool):
        _check_order(where, labels)
        check_length(where, name, size, "the values")
        if np.ndim(where) != 1:
            raise InvalidParameterError(
                f"{name} must be one-dimensional, got a mask of shape {np.shape(where)}"
            )
        return np.flatnonzero(where)
    if labels is None or _holds(where, "iu", int):
        positions = check_array(where, name, ndim=1, ge=-size, le=size - 1).astype(np.intp)
        return np.asarray(np.arange(size)[positions])
    chosen = list(where)
    try:
        found = np.asarray(labels.get_indexer(chosen), dtype=np.intp)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidParameterError(
            f"{name} must hold labels of the release, got {show(where)}: {one_line(error)}"
        ) from error
    if (found < 0).any():
        missing = chosen[int(np.flatnonzero(found < 0)[0])]
        raise InvalidParameterError(f"{name} must hold labels of the release, got {show(missing)}")
    return found


def _check_order(where: Any, labels: pd.Index | None) -> None:
    """Refuse a labelled mask in another order than that of the values."""
    import pandas as pd

    if labels is None or not isinstance(where, pd.Series) or where.index.equals(labels):
        return
    if not where.index.equals(pd.RangeIndex(len(where))):
        raise InvalidParameterError(
            "where must be labelled like the values and in their order, got a Series with another "
            "index: reindex it, or pass an array to go by position"
        )


def _holds(where: Any, kinds: str, plain: type) -> bool:
    """Whether a selection holds values of one kind only: of a NumPy kind or of a plain type."""
    if isinstance(where, np.ndarray):
        return where.dtype.kind in kinds
    return len(where) > 0 and all(
        isinstance(item, plain) or (isinstance(item, np.generic) and item.dtype.kind in kinds)
        for item in where
    )
