"""The terms of a weighted sum in normal form: scaled, grouped, with multiplicities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import ParametricLaw
from dpinfer.mechanisms._sums.factors import log_mgf, tilted_factors

CHUNK = 1 << 19
SAMPLE = 32
"""About so many points tell which factors of a product are the smallest."""

NEGLIGIBLE = 1e-20
"""Modulus below which a value of a characteristic function counts as zero."""


@dataclass(frozen=True)
class Block:
    """Terms of one kind: ``counts[j]`` independent noises of ``law.take(j)`` times ``weights[j]``.

    The law has parameters of shape ``(k,)``, the weights are > 0.
    """

    law: ParametricLaw
    weights: FloatArray
    counts: FloatArray

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, index: NDArray[np.intp] | slice) -> Block:
        """Return the selected terms."""
        return Block(self.law.take(index), self.weights[index], self.counts[index])

    def scaled(self, factor: float) -> Block:
        """Return the terms with every weight multiplied."""
        return Block(self.law, self.weights * factor, self.counts)

    def cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Sum of the terms' cumulant generating functions at the points ``s``."""
        columns = max(1, CHUNK // max(s.size, 1))
        total = np.zeros(s.shape, dtype=np.complex128)
        for start in range(0, len(self), columns):
            part = self.take(slice(start, start + columns))
            total += log_mgf(part.law, s[..., None] * part.weights, part.counts)
        return total


class Terms:
    """Independent noises times positive weights: what a weighted sum is a sum of."""

    def __init__(self, blocks: Iterable[Block], pair: Terms | None = None) -> None:
        self.blocks = tuple(block for block in blocks if len(block))
        self.pair = pair
        """The same noises as one or two terms, before any of them was taken apart."""

    @classmethod
    def join(cls, first: Terms, second: Terms) -> Terms:
        """Return the terms of both, which are independent of each other."""
        return cls((*first.blocks, *second.blocks))

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def integer(self) -> Terms:
        """The terms whose noise takes whole numbers."""
        return Terms(block for block in self.blocks if block.law.is_integer)

    @property
    def continuous(self) -> Terms:
        """The terms whose noise has a density."""
        return Terms(block for block in self.blocks if not block.law.is_integer)

    @property
    def weights(self) -> FloatArray:
        """All weights, block after block."""
        return np.concatenate([block.weights for block in self.blocks])

    @cached_property
    def variance(self) -> float:
        """Variance of the sum."""
        return float(
            sum(
                np.sum(block.counts * np.square(block.weights) * block.law._variance())
                for block in self.blocks
            )
        )

    @property
    def std(self) -> float:
        """Standard deviation of the sum."""
        return float(np.sqrt(self.variance))

    @property
    def supremum(self) -> float:
        """Least upper bound of the sum."""
        return float(
            sum(
                np.sum(block.counts * block.weights * block.law._isf(np.zeros(len(block))))
                for block in self.blocks
            )
        )

    @property
    def smallest_std(self) -> float:
        """Smallest standard deviation of a single term."""
        return float(
            min(np.min(block.weights * np.sqrt(block.law._variance())) for block in self.blocks)
        )

    @cached_property
    def abscissa(self) -> float:
        """Supremum of the s at which the moment generating function of the sum is finite."""
        return float(
            min(
                (np.min(block.law._abscissa / block.weights) for block in self.blocks),
                default=np.inf,
            )
        )

    def scaled(self, factor: float) -> Terms:
        """Return the terms with every weight multiplied."""
        return Terms(block.scaled(factor) for block in self.blocks)

    def consist_of(self, *kinds: type[ParametricLaw]) -> bool:
        """Whether all terms are of the given kinds."""
        return all(isinstance(block.law, kinds) for block in self.blocks)

    def singles(self) -> Iterator[Block]:
        """Yield each distinct term as a block of its own."""
        for block in self.blocks:
            for j in range(len(block)):
                yield block.take(slice(j, j + 1))

    def cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Cumulant generating function of the sum at complex points inside its strip."""
        total = np.zeros(s.shape, dtype=np.complex128)
        for block in self.blocks:
            total += block.cgf(s)
        return total

    def cf(self, t: FloatArray, negligible: float = NEGLIGIBLE) -> FloatArray:
        """Characteristic function at ``t``; values below ``negligible`` may be given as 0."""
        return self.product(
            t, lambda part, at: part.law._cf(at[:, None] * part.weights), negligible
        )

    def tilted_cf(self, t: FloatArray, theta: float) -> NDArray[np.complex128]:
        """Characteristic function of the law tilted by exp(theta x), relative to its mass."""

        def factors(part: Block, at: FloatArray) -> NDArray[np.complex128]:
            mean = np.asarray(theta * part.weights, dtype=np.complex128)
            return tilted_factors(part.law, mean + 1j * at[:, None] * part.weights, mean)

        return self.product(t, factors)

    def product(
        self,
        t: FloatArray,
        factors: Callable[[Block, FloatArray], NDArray[Any]],
        negligible: float = NEGLIGIBLE,
    ) -> NDArray[Any]:
        """Product over the terms, dropping points once they are negligible.

        Every factor has modulus at most 1, so a product that is negligible stays so: with many
        terms only few points survive the first handful, which are the smallest at some points.
        """
        flat = t.ravel()
        alive = np.arange(flat.size)
        values: NDArray[Any] = np.ones(flat.size)
        some = flat[:: 1 + flat.size // SAMPLE]
        for block in self.blocks:
            start, columns = 0, 2
            if len(block) > columns and some.size < flat.size:
                sizes = np.abs(factors(block, some)) + np.finfo(float).tiny
                block = block.take(np.argsort(block.counts * np.log(sizes).sum(axis=0)))
            while start < len(block) and alive.size:
                columns = min(4 * columns, max(1, CHUNK // alive.size))
                part = block.take(slice(start, start + columns))
                each, repeated = factors(part, flat[alive]), part.counts != 1
                each[:, repeated] **= part.counts[repeated]
                values = values * np.prod(each, axis=1)
                kept = np.abs(values) > negligible
                alive, values = alive[kept], values[kept]
                start += columns
        out = np.zeros(flat.size, dtype=values.dtype)
        out[alive] = values
        return out.reshape(t.shape)
