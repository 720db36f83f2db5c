"""The exact law of any statistic of a few whole-numbered cells: all published values in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from scipy import special

from dpinfer._numerics.binomial import binom_pmf
from dpinfer._numerics.poisson import poisson_pmf, poisson_radius
from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.models import (
    Binomial,
    Model,
    Multinomial,
    Poisson,
    ProductMultinomial,
)
from dpinfer.mechanisms._law import IntegerLaw, NoiseLaw

_LARGEST = 1 << 21
"""Most published values to enumerate."""

_BLOCK = 1 << 16
"""Published values at which the statistic is computed at a time."""

_LEFT_OUT = 1e-16
"""Probability of all noises, and of all Poisson counts, that are too large to be enumerated."""

LISTED_ERROR = 1e-12
"""Bound on the absolute error of the tails: what is left out, and rounding."""

_TIE = 1e-10
"""Values of the statistic this close, relatively, are one but for rounding."""


@dataclass(frozen=True)
class Atoms:
    """A law with finitely many values.

    Parameters
    ----------
    values : array of float, shape (m,)
        The values, ascending.
    above, below : array of float, shape (m + 1,)
        Probability of the values from the i-th on, and of those before the i-th.
    """

    values: FloatArray
    above: FloatArray
    below: FloatArray

    @classmethod
    def of(cls, values: FloatArray, pmf: FloatArray) -> Atoms:
        """Return the law of values, in any order, with their probabilities."""
        order = np.argsort(values)
        chances = pmf[order]
        above = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
        return cls(values[order], np.minimum(above, 1.0), np.append(0.0, np.cumsum(chances)))

    def upper(self, s: FloatArray) -> FloatArray:
        """P(S >= s), values within rounding of s included."""
        reached = s - _TIE * (1.0 + np.abs(s))
        return np.asarray(self.above[np.searchsorted(self.values, reached, side="left")])

    def lower(self, s: FloatArray) -> FloatArray:
        """P(S <= s), values within rounding of s included."""
        reached = s + _TIE * (1.0 + np.abs(s))
        below = self.below[np.searchsorted(self.values, reached, side="right")]
        return np.minimum(below, 1.0)


@dataclass(frozen=True)
class Lattice:
    """The published values that can be, and their probabilities.

    Parameters
    ----------
    first : array of float, shape (k,)
        The smallest value in each cell.
    pmf : array of float, one axis for each cell
        Probabilities of the values from there on.
    """

    first: FloatArray
    pmf: FloatArray

    def atoms(self, statistic: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]) -> Atoms:
        """Return the law of a statistic of counts of that shape, () or (k,)."""
        values = np.empty(self.pmf.size)
        for start in range(0, values.size, _BLOCK):
            places = np.arange(start, min(start + _BLOCK, values.size))
            cells = np.stack(np.unravel_index(places, self.pmf.shape), axis=-1) + self.first
            values[places] = statistic(cells if shape else cells[:, 0])
        return Atoms.of(values, self.pmf.reshape(-1))


def enumerate_published(model: Model, noise: NoiseLaw) -> Lattice | None:
    """Return all published values with their probabilities, if they are few enough.

    What is left out has a probability below 2e-16.
    """
    cells = max(1, prod(model.shape))
    first, length = _ranges(model)
    kernels: list[FloatArray] = []
    size = 1
    for i in range(cells):
        law = noise.take(i) if noise.shape else noise
        if (kernel := _noise_pmf(law, _LEFT_OUT / cells)) is None:
            return None
        size *= int(length[i]) + kernel.size - 1
        if size > _LARGEST:  # before the noise of more cells is listed
            return None
        kernels.append(kernel)
    pmf = _count_pmf(model, first, length)
    for kernel in kernels:  # each product moves the axis of a cell to the end: a full turn in all
        pmf = np.tensordot(pmf, _bands(kernel, pmf.shape[0]), axes=(0, 0))
    return Lattice(first - [kernel.size // 2 for kernel in kernels], pmf)


def _noise_pmf(law: NoiseLaw, left_out: float) -> FloatArray | None:
    """Return P(e = -r), …, P(e = r), unless there is no such law or r is too large."""
    if not isinstance(law, IntegerLaw):
        return None
    reach = float(law.isf(0.5 * left_out))
    return np.asarray(law.pmf(np.arange(-reach, reach + 1.0))) if reach < _LARGEST else None


def _ranges(model: Model) -> tuple[FloatArray, FloatArray]:
    """Return the smallest count in each cell, and how many counts to look at from there on."""
    expected = np.atleast_1d(model.expected)
    if isinstance(model, Poisson):
        radius = poisson_radius(expected, -np.log(_LEFT_OUT / expected.size))
        low = np.maximum(np.floor(expected - radius), 0.0)
        return low, np.ceil(expected + radius) - low + 1.0
    if isinstance(model, ProductMultinomial):
        return np.zeros(expected.size), np.repeat(model.nobs, model.value.shape[1]) + 1.0
    return np.zeros(expected.size), np.full(expected.size, model.nobs + 1.0)


def _count_pmf(model: Model, first: FloatArray, length: FloatArray) -> FloatArray:
    """Return the probabilities of the counts, one axis for each cell."""
    if isinstance(model, Binomial):
        counts = np.arange(length[0])
        return binom_pmf(counts, np.asarray(float(model.nobs)), np.asarray(model.value))
    if isinstance(model, Multinomial):
        return _multinomial_pmf(model.nobs, model.value)
    if isinstance(model, ProductMultinomial):
        rows = zip(model.nobs, model.value, strict=True)
        return _outer([_multinomial_pmf(int(n), row) for n, row in rows])
    rates = np.atleast_1d(model.expected)
    return _outer(
        [
            poisson_pmf(low + np.arange(n), rate)
            for rate, low, n in zip(rates, first, length, strict=True)
        ]
    )


def _multinomial_pmf(nobs: int, value: FloatArray) -> FloatArray:
    """Return multinomial probabilities in a cube with a side of nobs + 1 for each cell."""
    counts = np.indices((nobs + 1,) * value.size)
    logs = np.tensordot(np.log(value), counts, axes=1) - special.gammaln(counts + 1.0).sum(axis=0)
    logs = np.where(counts.sum(axis=0) == nobs, logs, -np.inf)
    pmf = np.exp(logs - logs.max())
    return np.asarray(pmf / pmf.sum())


def _outer(parts: list[FloatArray]) -> FloatArray:
    """Return the joint probabilities of independent parts."""
    return reduce(np.multiply.outer, parts)


def _bands(kernel: FloatArray, length: int) -> FloatArray:
    """Return the matrix whose i-th row is the kernel, i places to the right."""
    bands = np.zeros((length, length + kernel.size - 1))
    for row in range(length):
        bands[row, row : row + kernel.size] = kernel
    return bands
