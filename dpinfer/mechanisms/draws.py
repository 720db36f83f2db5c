"""Draws of noise, for simulation: in chunks, so that memory is bounded by the answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray

# Draws from a symmetric law on the whole numbers by a guide table over its quantile function.


BINS = 1 << 16
"""Number of equally likely bins of the quantile function: one random 16-bit word selects one."""

WORTHWHILE = 1 << 14
"""From so many draws on a table is used. It takes the time of a few times as many to make, once."""

_CHUNK = 1 << 16
_UNDECIDED = np.iinfo(np.int64).min
_SMALLEST = 2.0**-69
"""The smallest tail probability that a bin and 53 further bits tell apart."""


class SymmetricIntegerLaw(Protocol):
    """What a guide table has to know of a law."""

    def __hash__(self) -> int: ...

    def isf(self, q: float) -> Any:
        """Upper quantile."""

    def sf(self, x: NDArray[Any]) -> Any:
        """Tail probability."""


class GuideTable:
    """The value of the quantile function on each bin that it does not cut, and the tails.

    A draw whose bin lies within one atom of the law is a single look-up. In the few other bins 53
    more random bits and a search in the tails decide, so that the law is exact to double precision.
    """

    def __init__(self, law: SymmetricIntegerLaw) -> None:
        largest = int(law.isf(_SMALLEST))
        # negated: ascending, as a search needs it, with small numbers where the tail is small
        self._tails = -np.asarray(law.sf(np.arange(largest + 1.0)))
        edges = np.arange(BINS // 2 + 1) / BINS
        magnitude = np.searchsorted(self._tails, -edges, side="left")
        upper = np.where(magnitude[:-1] == magnitude[1:], magnitude[1:], _UNDECIDED)
        lower = np.where(upper == _UNDECIDED, _UNDECIDED, -upper)
        self._values = np.concatenate([lower, upper[::-1]])

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw an array of the given shape."""
        out = np.empty(prod(shape), dtype=np.int64)
        bins = np.empty(_CHUNK, dtype=np.intp)
        for start in range(0, out.size, _CHUNK):
            chunk = out[start : start + _CHUNK]
            # four 16-bit words to a 64-bit one
            words = rng.integers(0, 1 << 64, -(-chunk.size // 4), dtype=np.uint64).view(np.uint16)
            chosen = bins[: chunk.size]
            chosen[:] = words[: chunk.size]
            # "clip" skips the check of bounds: 16-bit indices are within them
            np.take(self._values, chosen, out=chunk, mode="clip")
            undecided = np.flatnonzero(chunk == _UNDECIDED)
            chunk[undecided] = self._decide(chosen[undecided], rng)
        return out.reshape(shape)

    def _decide(self, bins: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the quantile at a random point of each bin."""
        lower = bins < BINS // 2
        tail = np.where(lower, bins, BINS - 1 - bins) + (1.0 - rng.random(bins.size))
        magnitude = np.searchsorted(self._tails, -tail / BINS, side="left")
        return np.where(lower, -magnitude, magnitude)


@lru_cache(maxsize=16)
def guide_table(law: SymmetricIntegerLaw) -> GuideTable:
    """Return the table of a law, kept for the next draws from it."""
    return GuideTable(law)


# Draws that need no table.


_PART = 1 << 15
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


def laplace_draws(
    scale: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw Laplace noise: exponential noise with a random sign."""
    noise = rng.standard_exponential(shape)
    flat = noise.reshape(-1)
    for chunk in _chunks(flat.size):
        flat[chunk] *= _signs(flat[chunk].size, rng)
    noise *= scale
    return noise


def geometric_draws(
    scale: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw two-sided geometric noise: the whole part of exponential noise, with a random sign.

    The whole part of scale·E has P(k) proportional to a^k, a = exp(-1/scale). Of the two signed
    zeros one is drawn again.
    """
    scales = np.broadcast_to(scale, shape).reshape(-1) if np.ndim(scale) else scale
    out = np.empty(shape, dtype=np.int64)
    flat = out.reshape(-1)
    for chunk in _chunks(flat.size):
        part = scales[chunk] if scales.ndim else scales
        todo: slice | NDArray[np.intp] = slice(None)
        noise = rng.standard_exponential(flat[chunk].size)
        while noise.size:
            noise *= part[todo] if part.ndim else part
            np.floor(noise, out=noise)
            noise *= _signs(noise.size, rng)
            flat[chunk][todo] = noise
            again = np.flatnonzero((noise == 0) & np.signbit(noise))
            todo = again if isinstance(todo, slice) else todo[again]
            noise = rng.standard_exponential(again.size)
    return out


def discrete_gaussian_draws(
    sigma: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw discrete Gaussian noise by rejection from two-sided geometric noise.

    Canonne, Kamath and Steinke (2020), Algorithm 3, for any mixture of σ.
    """
    out = np.empty(shape, dtype=np.int64)
    flat, sigmas = out.reshape(-1), np.broadcast_to(sigma, shape).reshape(-1)
    for chunk in _chunks(flat.size):
        todo = np.arange(chunk.start, min(chunk.stop, flat.size))
        while todo.size:
            part = sigmas[todo]
            scale = np.floor(part) + 1.0
            noise = geometric_draws(scale, todo.shape, rng)
            excess = (np.abs(noise) - np.square(part) / scale) / part
            accepted = rng.random(todo.size) < np.exp(-0.5 * np.square(excess))
            flat[todo[accepted]] = noise[accepted]
            todo = todo[~accepted]
    return out


def rounded_normal_draws(
    sigma: float, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw discrete Gaussian noise of large σ: rounded normal noise, a tiny share of it rejected.

    A candidate k is to be kept with a probability that falls slowly with abs(k). Only a random
    share of the candidates, as large as the rejection probability at 9σ, is looked at, and
    rejected in proportion. Beyond 9σ, where normal noise falls with probability 2e-19, the
    rejection probability is that at 9σ.
    """
    out = np.empty(shape, dtype=np.int64)
    flat = out.reshape(-1)
    share = float(_rejection(np.asarray(9.0 * sigma), sigma))
    for chunk in _chunks(flat.size):
        noise = rng.standard_normal(flat[chunk].size)
        noise *= sigma
        flat[chunk] = np.rint(noise, out=noise)
    todo = np.arange(0)
    if flat.size:
        todo = rng.choice(flat.size, rng.binomial(flat.size, share), replace=False, shuffle=False)
    rejected = todo[rng.random(todo.size) * share < _rejection(flat[todo], sigma)]
    if rejected.size:
        flat[rejected] = rounded_normal_draws(sigma, rejected.shape, rng)
    return out


def _rejection(k: NDArray[np.generic], sigma: float) -> FloatArray:
    """1 - c·P(k)/P(rounded normal noise is k), with c so that it vanishes at k = 0.

    The ratio is that of exp(-k²/(2σ²)) to its mean over the unit interval around k.
    """
    nodes = 0.5 * _NODES
    weights = _WEIGHTS * np.exp(-0.5 * np.square(nodes / sigma))
    growth = np.cosh(np.asarray(k)[..., None] * nodes / np.square(sigma)) - 1.0
    mean = growth @ (weights / weights.sum())
    return np.asarray(mean / (1.0 + mean))


def _signs(size: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return independent random signs, one bit each."""
    words = rng.integers(0, 1 << 64, -(-size // 64), dtype=np.uint64)
    bits = np.unpackbits(words.view(np.uint8), count=size).view(np.int8)
    bits += bits
    return np.subtract(1, bits, out=bits)


def _chunks(size: int) -> Iterator[slice]:
    for start in range(0, size, _PART):
        yield slice(start, start + _PART)
