"""Uniform noise on (-1/2, 1/2): a part of the Tulap law, which is not published on its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import ContinuousLaw
from dpinfer.mechanisms._sums.route import Route


@dataclass(frozen=True, kw_only=True, eq=False)
class CentredUniform(ContinuousLaw):
    """Uniform on (-width/2, width/2)."""

    width: float | FloatArray = 1.0

    def __post_init__(self) -> None:
        self._set("width", self.width, gt=0)

    def _variance(self) -> FloatArray:
        return np.asarray(np.square(self.width) / 12.0)

    def _logpdf(self, x: FloatArray) -> FloatArray:
        return np.where(np.abs(x) < 0.5 * np.asarray(self.width), -np.log(self.width), -np.inf)

    def _sf(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.clip(0.5 - x / np.asarray(self.width), 0.0, 1.0))

    def _logsf(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._sf(x)))

    def _isf(self, q: FloatArray) -> FloatArray:
        return np.asarray((0.5 - q) * self.width)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.sinc(np.asarray(self.width) * t / (2.0 * np.pi)))

    @property
    def _abscissa(self) -> FloatArray:
        return np.full(self.shape, np.inf)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        # log(sinh(z)/z), even in z, without overflow
        z = 0.5 * np.asarray(self.width) * s
        z = np.where(z.real < 0, -z, z)
        safe = np.where(z == 0, 1.0, z)
        small = np.abs(z) < 1e-4
        large = safe + np.log(-np.expm1(-2.0 * safe) / (2.0 * safe))
        return np.where(small, np.square(z) / 6.0, large)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return (rng.random(shape) - 0.5) * self.width


class UniformSum(Route):
    """A sum of a few independent uniform noises, by inclusion and exclusion.

    P(S > x) = Σ over subsets of (-1)^size·(reach - x - (widths in the subset))₊ⁿ/(n!·Π widths).
    """

    name = "closed form"
    MOST = 8
    WORST = 1e3
    """Largest ratio of a term to the sum."""

    def __init__(self, widths: FloatArray) -> None:
        self._half = 0.5 * float(widths.sum())
        self._power = len(widths)
        subsets = np.array(list(product((0.0, 1.0), repeat=len(widths))))
        self._shifts = subsets @ widths
        self._signs = np.where(subsets.sum(axis=1) % 2 == 0, 1.0, -1.0)
        self._scale = math.factorial(len(widths)) * float(np.prod(widths))
        self.floor = self.error_bound = 1e-16 * self._condition(widths) * len(subsets)

    @classmethod
    def takes(cls, widths: FloatArray) -> bool:
        """Whether the sum is short, and free of cancellation."""
        return len(widths) <= cls.MOST and cls._condition(widths) <= cls.WORST

    @staticmethod
    def _condition(widths: FloatArray) -> float:
        share = np.asarray(widths) / np.sum(widths)
        return float(1.0 / (math.factorial(len(widths)) * np.prod(share)))

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x) at finite x >= 0; there are no atoms."""
        base = np.maximum((self._half - x)[:, None] - self._shifts, 0.0)
        with np.errstate(divide="ignore"):
            tail = np.maximum(base**self._power @ self._signs, 0.0) / self._scale
            return np.asarray(np.log(tail))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Point x with P(S > x) = q."""

        def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            return np.exp(self.upper(x, closed=False)) - q[index]

        return find_root(excess, np.full(q.shape, -1e-300), np.full(q.shape, self._half))[1]
