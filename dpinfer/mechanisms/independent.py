"""The joint law of the noises of a table: independent, possibly of different kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._law import NoiseLaw

Mechanism = NoiseLaw | Sequence[NoiseLaw]
"""What a ``mechanism=`` argument takes: one law, an array-valued law, or a law for each cell."""


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
        If ``laws`` is empty or holds anything but laws with scalar or one-dimensional parameters.

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
        if not laws:
            raise InvalidParameterError("laws must hold at least one noise law, got none")
        parts: dict[Any, tuple[NoiseLaw, list[NDArray[np.intp]]]] = {}
        stop = 0
        for law in laws:
            if not isinstance(law, NoiseLaw) or len(law.shape) > 1:
                raise InvalidParameterError(
                    "laws must hold noise laws with scalar or one-dimensional parameters, "
                    f"got {law!r}"
                )
            for law_part, cells in groups(law, law.shape[0] if law.shape else 1):
                key = law_part if law_part.shape == () else (id(law), stop)
                parts.setdefault(key, (law_part, []))[1].append(cells + stop)
            stop += law.shape[0] if law.shape else 1
        self._size = stop
        self._groups = tuple((law, np.concatenate(cells)) for law, cells in parts.values())

    @property
    def is_integer(self) -> bool:
        """Whether every noise takes whole numbers only."""
        return all(law.is_integer for law, _ in self._groups)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(m,)`` for m cells."""
        return (self._size,)

    def take(self, index: Any) -> NoiseLaw:
        """Return the law of the selected cells, simplified where they are of one kind."""
        chosen = np.arange(self._size)[index]
        if chosen.ndim == 0:
            law, cells = next(group for group in self._groups if (group[1] == chosen).any())
            return law.take(int(np.flatnonzero(cells == chosen)[0]))
        return IndependentNoise([self.take(int(cell)) for cell in chosen])

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(cells)} × {type(law).__name__}" for law, cells in self._groups)
        return f"IndependentNoise({kinds})"

    def _groups_of(self) -> tuple[tuple[NoiseLaw, NDArray[np.intp]], ...]:
        return self._groups

    def _gather(
        self, hook: Callable[[NoiseLaw, Any], FloatArray], *arguments: FloatArray
    ) -> FloatArray:
        (argument,) = (
            np.broadcast_arrays(*arguments, np.empty(self._size))[:1] if arguments else (None,)
        )
        shape = (self._size,) if argument is None else argument.shape
        out = np.empty(shape)
        for law, cells in self._groups:
            out[..., cells] = hook(law, None if argument is None else argument[..., cells])
        return out

    def _variance(self) -> FloatArray:
        return self._gather(lambda law, _: law._variance())

    def _cdf(self, x: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._cdf(part), x)

    def _sf(self, x: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._sf(part), x)

    def _logcdf(self, x: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._logcdf(part), x)

    def _logsf(self, x: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._logsf(part), x)

    def _ppf(self, q: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._ppf(part), q)

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._isf(part), q)

    def _cf(self, t: FloatArray) -> FloatArray:
        return self._gather(lambda law, part: law._cf(part), t)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        out = np.empty(shape, dtype=np.int64 if self.is_integer else np.float64)
        for law, cells in self._groups:
            out[..., cells] = law._rvs((*shape[:-1], len(cells)), rng)
        return out


def as_noise(mechanism: Mechanism, size: int, *, name: str = "mechanism") -> NoiseLaw:
    """Return a law of shape ``()`` or ``(size,)`` from what a ``mechanism=`` argument takes."""
    if isinstance(mechanism, NoiseLaw):
        law: NoiseLaw = mechanism
    elif isinstance(mechanism, (list, tuple)):
        law = IndependentNoise(mechanism)
    else:
        raise InvalidParameterError(
            f"{name} must be a noise law such as Laplace(scale=2.0), or a sequence with one law "
            f"for each value, got {mechanism!r}"
        )
    if law.shape not in ((), (size,)):
        raise InvalidParameterError(
            f"{name} must have one law for all values or one for each of the {size} values, "
            f"got parameters of shape {law.shape}"
        )
    return law


def groups(law: NoiseLaw, size: int) -> Iterator[tuple[NoiseLaw, NDArray[np.intp]]]:
    """Yield each kind of law in a noise vector of ``size`` cells with the cells it rules."""
    if isinstance(law, IndependentNoise):
        yield from law._groups_of()
    else:
        yield law, np.arange(size)
