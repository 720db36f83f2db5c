"""The joint law of the noises of a table: independent, possibly of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_index, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import (
    NoiseLaw,
    ParametricLaw,
    Share,
    are_dependent,
    marked,
    refuse_dependent,
    refuse_same,
)

Mechanism = NoiseLaw | Sequence[NoiseLaw]
"""What a ``mechanism=`` argument takes: one law, an array-valued law, or a law for each cell."""

Dependence = Literal["refused", "used", "irrelevant"]
"""What a function makes of errors that share a noise: ``"irrelevant"`` where each is by itself."""


def _each(hook: str) -> Any:
    """Apply a hook of each law to the part of the argument that belongs to its cells."""

    def answer(self: IndependentNoise, argument: FloatArray) -> FloatArray:
        points = np.broadcast_to(argument, np.broadcast_shapes(argument.shape, self.shape))
        out = np.empty(points.shape)
        for law, cells in self._groups:
            out[..., cells] = getattr(law, hook)(points[..., cells])
        return out

    return answer


@final
class IndependentNoise(NoiseLaw):
    """Independent noises of different kinds, one for each cell of a vector.

    Parameters
    ----------
    laws : sequence of NoiseLaw
        The laws of consecutive cells, concatenated: a law with scalar parameters stands for one
        cell, a law with a parameter array of length n for n cells.

    Raises
    ------
    InvalidParameterError
        If ``laws`` is empty or holds anything but laws with scalar or one-dimensional parameters,
        or laws of estimates that share published values, whose errors are dependent.

    Examples
    --------
    >>> from dpinfer.mechanisms import Exact, Geometric, Laplace
    >>> noise = IndependentNoise([Laplace(scale=2.0), Exact(), Laplace(scale=[1.0, 3.0])])
    >>> noise.variance
    array([ 8.,  0.,  2., 18.])
    >>> noise.take(3)
    Laplace(scale=3.0)
    """

    def __init__(self, laws: Sequence[NoiseLaw]) -> None:
        self._join(laws)
        refuse_dependent(laws, "laws")

    def _join(self, laws: Sequence[NoiseLaw]) -> None:
        if not isinstance(laws, Sequence) or not len(laws):
            raise InvalidParameterError(
                f"laws must hold at least one noise law, in a list, got {show(laws)}"
            )
        kinds: dict[Any, list[tuple[NoiseLaw, NDArray[np.intp]]]] = {}
        stop = 0
        for law in laws:
            if not isinstance(law, NoiseLaw) or len(law.shape) > 1:
                raise InvalidParameterError(
                    "laws must hold noise laws with scalar or one-dimensional parameters, "
                    f"got {show(law)}"
                )
            size = law.shape[0] if law.shape else 1
            for part, cells in groups(law, size):
                kind = part._kind if isinstance(part, ParametricLaw) else id(part)
                kinds.setdefault(kind, []).append((part, cells + stop))
            stop += size
        self._size = stop
        self._groups = tuple(_as_one(same) for same in kinds.values())

    @classmethod
    def from_groups(
        cls, parts: Iterable[tuple[NoiseLaw, NDArray[np.integer[Any]]]], size: int
    ) -> NoiseLaw:
        """Joint law of ``size`` cells, from laws and the numbers of the cells that each rules.

        Each cell is in one part, whose law has scalar parameters or one for each of its cells.
        Where a single law rules all cells in order, it is that law.
        """
        held = [(law, np.asarray(cells, dtype=np.intp)) for law, cells in parts if len(cells)]
        if len(held) == 1 and (held[0][1] == np.arange(size)).all():
            return held[0][0]
        joint = cls.__new__(cls)
        joint._size = size
        joint._groups = tuple(held)
        return joint

    @property
    def is_integer(self) -> bool:
        """Whether every noise takes whole numbers only."""
        return all(law.is_integer for law, _ in self._groups)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(m,)`` for m cells."""
        return (self._size,)

    def take(self, index: Any) -> NoiseLaw:
        """Return the law of the selected cells, simplified where they are of one kind.

        The cells are an int, a slice, a mask or an array of int, whose order it keeps.
        """
        check_index(index, self.shape)
        return self._take(index)

    def _take(self, index: Any) -> NoiseLaw:
        chosen = np.arange(self._size)[index]
        if chosen.ndim > 1:
            raise InvalidParameterError(
                f"index must be one-dimensional, got one that selects shape {chosen.shape}"
            )
        if chosen.ndim == 0:
            law, cells = next(group for group in self._groups if (group[1] == chosen).any())
            return marked(law._take(int(np.flatnonzero(cells == chosen)[0])), self._selected)
        parts = []
        for law, cells in self._groups:
            place = np.full(self._size, -1)
            place[cells] = np.arange(len(cells))
            held = np.flatnonzero(place[chosen] >= 0)
            parts.append((law._take(place[chosen[held]]), held))
        return marked(IndependentNoise.from_groups(parts, len(chosen)), self._selected)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(cells)} × {type(law).__name__}" for law, cells in self._groups)
        return f"IndependentNoise({kinds})"

    @property
    def _shares(self) -> tuple[Share, ...]:  # type: ignore[override]
        held = ((law, cells) for law, cells in self._groups if law._shares)
        return tuple(share for law, cells in held for _ in cells for share in law._shares)

    def _of_cells(self, values: Callable[[NoiseLaw], FloatArray | float]) -> FloatArray:
        out = np.empty(self._size)
        for law, cells in self._groups:
            out[cells] = values(law)
        return out

    @property
    def _floor(self) -> FloatArray:
        return self._of_cells(lambda law: law._floor)

    def _variance(self) -> FloatArray:
        return self._of_cells(lambda law: law._variance())

    _cdf, _sf = _each("_cdf"), _each("_sf")
    _logcdf, _logsf = _each("_logcdf"), _each("_logsf")
    _ppf, _isf, _cf = _each("_ppf"), _each("_isf"), _each("_cf")

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        out = np.empty(shape, dtype=np.int64 if self.is_integer else np.float64)
        for law, cells in self._groups:
            out[..., cells] = law._rvs((*shape[:-1], len(cells)), rng)
        return out


def as_noise(
    mechanism: Mechanism,
    size: int,
    *,
    name: str = "mechanism",
    dependence: Dependence = "refused",
    selected: bool = False,
) -> NoiseLaw:
    """Return one law from what a ``mechanism=`` argument takes.

    Parameters
    ----------
    mechanism : NoiseLaw or sequence of NoiseLaw
        One law for all values, or one for each.
    size : int
        The number of values.
    name : str
        What messages call the argument.
    dependence : {"refused", "used", "irrelevant"}
        What is made of errors of estimates that share published values.
    selected : bool
        Whether the noise of values with a threshold or clamp is taken.

    Returns
    -------
    NoiseLaw
        A law of shape ``()`` or ``(size,)``.

    Raises
    ------
    InvalidParameterError
        If it is not a law, or has another number of laws than there are values; if errors are
        dependent, or the values selected, where they must not be.
    """
    parts = [mechanism] if isinstance(mechanism, NoiseLaw) else mechanism
    if isinstance(mechanism, NoiseLaw):
        law: NoiseLaw = mechanism
        if law._shares and law.shape == () and size > 1 and dependence != "irrelevant":
            refuse_same([law, law], name)
    elif isinstance(mechanism, (list, tuple)):
        joint = IndependentNoise.__new__(IndependentNoise)
        joint._join(mechanism)
        law = joint
        if dependence == "used" and are_dependent(mechanism):
            refuse_same(mechanism, name)
    else:
        raise InvalidParameterError(
            f"{name} must be a noise law such as Laplace(scale=2.0), or a sequence with one law "
            f"for each value, got {show(mechanism)}"
        )
    if dependence == "refused":
        refuse_dependent(parts, name)
    if law.shape not in ((), (size,)):
        raise InvalidParameterError(
            f"{name} must have one law for all values or one for each of the {size} values, "
            f"got parameters of shape {law.shape}"
        )
    if not selected:
        refuse_selected(parts, name)
    return law


def refuse_selected(laws: Iterable[NoiseLaw], name: str = "mechanism") -> None:
    """Refuse the noise of values with a threshold or a clamp."""
    if any(law._selected for law in laws):
        raise InvalidParameterError(
            f"{name} must not be that of a release with a threshold, a clamp or bins, which "
            "decide what is published beside the noise: count_confint has an interval for each "
            "value of it; values without a rule have their law in release.select(~release.has_rule)"
        )


def join(parts: Sequence[tuple[ParametricLaw, int]]) -> ParametricLaw:
    """Join laws of one kind, each for so many cells, to one: scalar where all are the same."""
    first = parts[0][0]
    if first.shape == () and all(law == first for law, _ in parts):
        return first
    columns = {
        name: np.concatenate([np.broadcast_to(law._parameters()[name], n) for law, n in parts])
        for name in first._parameters()
    }
    return first._with(columns)


def _as_one(parts: list[tuple[NoiseLaw, NDArray[np.intp]]]) -> tuple[NoiseLaw, NDArray[np.intp]]:
    cells = np.concatenate([own for _, own in parts])
    parametric = [(law, len(own)) for law, own in parts if isinstance(law, ParametricLaw)]
    return (join(parametric) if parametric else parts[0][0]), cells


def groups(law: NoiseLaw, size: int) -> Iterator[tuple[NoiseLaw, NDArray[np.intp]]]:
    """Yield each kind of law in a noise vector with the cells it rules.

    Parameters
    ----------
    law : NoiseLaw
        The law of the vector, of shape ``()`` or ``(size,)``.
    size : int
        The number of cells.

    Yields
    ------
    NoiseLaw, array of int
        A law of one kind, of shape ``()`` or with one entry for each of its cells; their numbers.
    """
    if isinstance(law, IndependentNoise):
        yield from law._groups
    else:
        yield law, np.arange(size)


def integer_cells(law: NoiseLaw, size: int) -> NDArray[np.bool_]:
    """Tell for each of ``size`` cells whether its noise takes whole numbers only."""
    integer = np.empty(size, dtype=bool)
    for kind, cells in groups(law, size):
        integer[cells] = kind.is_integer
    return integer
