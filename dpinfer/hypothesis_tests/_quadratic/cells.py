"""One term a·(X + e - c)² of the statistic, with X Poisson."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray, NoiseParts

_LOG_NEGLIGIBLE = 41.0
"""Poisson probabilities below exp(-41) of the largest are left out."""


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
    most : int
        The largest value of X that matters.
    """

    rate: float
    centre: float
    weight: float
    noise: NoiseParts
    most: int

    @cached_property
    def _counts(self) -> tuple[int, FloatArray]:
        """First count and Poisson probabilities from there on, in units of their sum."""
        if self.rate == 0.0:
            return 0, np.ones(1)
        radius = np.sqrt(2.0 * _LOG_NEGLIGIBLE * self.rate) + 2.0
        low = max(0, int(self.rate - radius))
        high = min(self.most, int(self.rate + radius + 0.5 * _LOG_NEGLIGIBLE))
        low = min(low, high)
        steps = np.log(self.rate / np.arange(low + 1.0, high + 1.0))
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        pmf = np.exp(logs - logs.max())
        return low, pmf / pmf.sum()

    @cached_property
    def points(self) -> FloatArray:
        """The values of X + the whole-numbered part of e, less c; shape (m,)."""
        low, pmf = self._counts
        reach = self.noise.pmf.size // 2
        return np.arange(low - reach, low + pmf.size + reach) - self.centre

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Mean and mean square of the term, and what it exceeds with negligible probability."""
        square = np.square(self.points)
        chance = self.joint(np.zeros(1)).real[:, 0]
        v, fourth = self.noise.variance, self.noise.fourth
        first = chance @ (square + v)
        second = chance @ (np.square(square) + 6.0 * v * square + fourth)
        likely = np.abs(self.points[chance > 1e-17])
        reach = likely.max(initial=0.0) + self.noise.reach
        return (
            float(self.weight * first),
            float(self.weight**2 * second),
            float(self.weight * reach**2),
        )

    def joint(self, theta: FloatArray) -> ComplexArray:
        """E[exp(iθ(X - λ)); X + whole part = y] at the points y, shape (m, θ)."""
        low, pmf = self._counts
        count = np.arange(low, low + pmf.size)
        waves = pmf[:, None] * np.exp(1j * np.multiply.outer(count - self.rate, theta))
        spread = self.noise.pmf
        if spread.size == 1:
            return waves
        size = pmf.size + spread.size - 1
        length = 1 << (size - 1).bit_length()
        transform = np.fft.fft(waves, length, axis=0)
        transform *= np.fft.fft(spread, length)[:, None]
        return np.asarray(np.fft.ifft(transform, axis=0)[:size])

    def characteristic(self, t: FloatArray, joint: ComplexArray) -> ComplexArray:
        """E[exp(iθ(X - λ) + it·a·(X + e - c)²)], shape (θ, t), from :meth:`joint`."""
        wave = self.noise.kernel(1j * self.weight * t, self.points[:, None])
        return np.asarray(joint.T @ wave)
