"""Draws of noise, for simulation: in chunks, so that memory is bounded by the answer."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.lattice import slices

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
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)


def laplace_draws(
    scale: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw Laplace noise: exponential noise with a random sign."""
    noise = rng.standard_exponential(shape)
    flat = noise.reshape(-1)
    for chunk in slices(flat.size, _PART):
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
    out, buffer = np.empty(shape, dtype=np.int64), np.empty(_PART)
    flat = out.reshape(-1)
    for chunk in slices(flat.size, _PART):
        part = scales[chunk] if scales.ndim else scales
        todo: slice | NDArray[np.intp] = slice(None)
        noise = rng.standard_exponential(out=buffer[: flat[chunk].size])
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
    """Draw discrete Gaussian noise, for any mixture of σ: rounded normal noise where σ is wide.

    Elsewhere by rejection from two-sided geometric noise: Canonne, Kamath and Steinke (2020),
    Algorithm 3.
    """
    sigmas = np.broadcast_to(sigma, shape).reshape(-1)
    narrow = np.flatnonzero(sigmas < _WIDE)
    if narrow.size == sigmas.size:
        flat = np.empty(sigmas.shape, dtype=np.int64)
    else:  # as if all were wide: where most are, nothing is copied
        flat = rounded_normal_draws(np.maximum(sigmas, _WIDE), sigmas.shape, rng)
    for chunk in slices(narrow.size, _PART):
        todo = narrow[chunk]
        while todo.size:
            part = sigmas[todo]
            scale = np.floor(part) + 1.0
            noise = geometric_draws(scale, todo.shape, rng)
            excess = (np.abs(noise) - np.square(part) / scale) / part
            accepted = rng.random(todo.size) < np.exp(-0.5 * np.square(excess))
            flat[todo[accepted]] = noise[accepted]
            todo = todo[~accepted]
    return flat.reshape(shape)


_WIDE = 2.0
_SHARE = (np.sinh(9.0 / 2.0 / _WIDE) / (9.0 / 2.0 / _WIDE) - 1.0) * _WIDE**2
"""Times 1/σ² it is no less than a rejection probability: sinh(u)/u - 1 at u = 9/(2σ)."""


def rounded_normal_draws(
    sigma: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw discrete Gaussian noise of large σ: rounded normal noise, a tiny share of it rejected.

    A candidate k is to be kept with a probability that falls slowly with abs(k). Only a random
    share of the candidates, no smaller than the rejection probability at 9σ, is looked at, and
    rejected in proportion. Beyond 9σ, where normal noise falls with probability 2e-19, the
    rejection probability is that share.
    """
    sigma = np.asarray(sigma)
    sigmas = np.broadcast_to(sigma, shape).reshape(-1) if sigma.ndim else sigma
    out, buffer = np.empty(shape, dtype=np.int64), np.empty(_PART)
    flat = out.reshape(-1)
    looked = [(np.arange(0), np.empty(0))]
    for chunk in slices(flat.size, _PART):
        part = sigmas[chunk] if sigma.ndim else sigma
        noise = rng.standard_normal(out=buffer[: flat[chunk].size])
        noise *= part
        flat[chunk] = np.rint(noise, out=noise)
        if sigma.ndim:
            chance = rng.random(out=noise)
            found = np.flatnonzero(chance * np.square(part) < _SHARE)
            looked.append((chunk.start + found, chance[found]))
    if sigma.ndim:
        todo, chance = (np.concatenate(parts) for parts in zip(*looked, strict=True))
        own = sigmas[todo]
    else:
        share = min(1.0, _SHARE / float(sigma) ** 2)
        size = rng.binomial(flat.size, share)
        todo = rng.choice(flat.size, size, replace=False, shuffle=False) if size else np.arange(0)
        chance, own = rng.random(todo.size) * share, sigma
    rejected = chance < _rejection(flat[todo], own)
    if rejected.any():
        todo, own = todo[rejected], own[rejected] if sigma.ndim else own
        flat[todo] = rounded_normal_draws(own, todo.shape, rng)
    return out


def _rejection(k: NDArray[np.generic], sigma: FloatArray) -> FloatArray:
    """1 - c·P(k)/P(rounded normal noise is k), with c so that it vanishes at k = 0.

    The ratio is that of exp(-k²/(2σ²)) to its mean over the unit interval around k.
    """
    nodes, sigma = 0.5 * _NODES, sigma[..., None]
    weights = _WEIGHTS * np.exp(-0.5 * np.square(nodes / sigma))
    growth = np.cosh(np.asarray(k)[..., None] * nodes / np.square(sigma)) - 1.0
    mean = (growth * weights).sum(axis=-1) / weights.sum(axis=-1)
    return np.asarray(mean / (1.0 + mean))


_FEW = 16
_SAMPLED = 256


def few_values(
    parameter: FloatArray, shape: tuple[int, ...]
) -> list[tuple[float, NDArray[np.intp]]] | None:
    """Return the values of a vector, last axis of many draws, with the cells of each, if few."""
    if parameter.ndim != 1 or shape[-1:] != parameter.shape or prod(shape) < WORTHWHILE:
        return None
    found = np.unique(parameter[:: max(1, parameter.size // _SAMPLED)])
    if found.size > _FEW:
        return None
    values = [(float(value), np.flatnonzero(parameter == value)) for value in found]
    return values if sum(cells.size for _, cells in values) == parameter.size else None


def _signs(size: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return independent random signs, one bit each."""
    words = rng.integers(0, 1 << 64, -(-size // 64), dtype=np.uint64)
    bits = np.unpackbits(words.view(np.uint8), count=size).view(np.int8)
    bits += bits
    return np.subtract(1, bits, out=bits)
