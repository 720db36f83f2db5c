"""One term a·(X + e - c)² of the statistic, with X Poisson."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy import fft

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray, NoiseParts

_LOG_NEGLIGIBLE = 39.0
"""Poisson probabilities below exp(-39) of the largest are left out."""

_LOG_ALIASED = 40.0
"""Size of frequencies that are left out, relative to the largest, as a logarithm."""

_NEGLIGIBLE = 1e-16
"""So are sums of a count and noise, relative to the likeliest of them."""

_LONGEST = 3e7
"""Products of probabilities that it is worth to look at for that."""

_NARROWEST, _LARGE_RATE = 16.0, 100.0
"""In how many standard deviations of a Poisson count the likely ones lie at least, where its
expectation is large."""


@dataclass(frozen=True)
class Cell:
    """The term of one cell.

    Parameters
    ----------
    rate : float
        Expectation λ >= 0 of X.
    centre, weight : float
        c and a > 0.
    noise : NoiseParts
        The law of e.
    """

    rate: float
    centre: float
    weight: float
    noise: NoiseParts

    @property
    def fewest_points(self) -> float:
        """Lower bound on the number of points, which are not listed for it."""
        return _NARROWEST * sqrt(self.rate) if self.rate >= _LARGE_RATE else 0.0

    @cached_property
    def _counts(self) -> tuple[int, FloatArray]:
        """First count and Poisson probabilities from there on, in units of their sum."""
        if self.rate == 0.0:
            return 0, np.ones(1)
        radius = np.sqrt(2.0 * _LOG_NEGLIGIBLE * self.rate) + 2.0
        low = max(0, int(self.rate - radius))
        high = int(self.rate + radius + 0.5 * _LOG_NEGLIGIBLE)
        steps = np.log(self.rate / np.arange(low + 1.0, high + 1.0))
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        pmf = np.exp(logs - logs.max())
        return low, pmf / pmf.sum()

    @cached_property
    def _window(self) -> slice:
        """Which of the values of X + the whole part of e are likely enough to matter."""
        counts, noise = self._counts[1], self.noise.pmf
        if counts.size * noise.size > _LONGEST:
            return slice(0, counts.size + noise.size - 1)
        chance = np.convolve(counts, noise)
        likely = np.flatnonzero(chance > _NEGLIGIBLE * chance.max())
        return slice(int(likely[0]), int(likely[-1]) + 1)

    @cached_property
    def points(self) -> FloatArray:
        """The values of X + the whole-numbered part of e, less c; shape (m,)."""
        first = self._counts[0] - self.noise.pmf.size // 2
        return np.arange(self._window.start, self._window.stop) + (first - self.centre)

    def joint(self, theta: FloatArray) -> ComplexArray:
        """E[exp(iθ(X - λ)); X + whole part = y] at the points y, shape (θ, m).

        The θ are equally spaced.
        """
        low, pmf = self._counts
        count = np.arange(low, low + pmf.size)
        waves = _waves(theta, np.asarray(count - self.rate, dtype=np.float64))
        waves *= pmf
        spread = self.noise.pmf
        if spread.size > 1:
            length = fft.next_fast_len(pmf.size + spread.size - 1)
            transform = fft.fft(waves, length)
            transform *= fft.fft(spread, length)
            waves = np.asarray(fft.ifft(transform, overwrite_x=True), dtype=np.complex128)
        return np.ascontiguousarray(waves[:, self._window])

    def characteristic(
        self, t: FloatArray, joint: ComplexArray, widest: float = np.pi
    ) -> ComplexArray:
        """E[exp(iθ(X - λ) + it·a·(X + e - c)²)], shape (θ, t), from :meth:`joint`.

        ``widest`` is the largest abs(θ). Where the terms vary so slowly that every m-th of them
        tells the sum, the others are left out.
        """
        chosen = slice(None, None, self.stride(float(np.max(t)), widest))
        s = np.asarray(1j * self.weight * t, dtype=np.complex128)
        wave = self.noise.kernel(s, self.points[chosen, None])
        value = joint[:, chosen] @ wave
        return np.asarray(value if chosen.step == 1 else chosen.step * value, dtype=np.complex128)

    def stride(self, t: float, widest: float) -> int:
        """Return the largest m for which the sum over every m-th point is m times too small.

        By Poisson summation, it is where the frequencies of the terms stay below 2π/m: those of θ,
        of a Poisson count, and of the wave exp(it·a·d²), 2t·a·d at a distance d.
        """
        if self.rate == 0.0:
            return 1
        turn = 2.0 * t * self.weight
        count = np.sqrt(2.0 * _LOG_ALIASED / self.rate) * np.hypot(1.0, turn * self.rate)
        shift = turn * (self.noise.reach + abs(self.rate - self.centre))
        return max(1, min(int(2.0 * np.pi / (widest + count + shift)), self.points.size // 8))


def _waves(theta: FloatArray, x: FloatArray) -> ComplexArray:
    """exp(iθx) at equally spaced θ, shape (θ, x): products of few of them, for speed.

    That amounts to rounding θ, which is the same in all cells and does not matter.
    """
    rows = min(int(np.sqrt(theta.size)) + 1, theta.size)
    first = np.exp(1j * np.multiply.outer(theta[:rows], x))
    jumps = np.exp(1j * np.multiply.outer(theta[::rows] - theta[0], x))
    return np.asarray((jumps[:, None] * first).reshape(-1, x.size)[: theta.size])
