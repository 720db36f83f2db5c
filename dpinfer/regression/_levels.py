"""Levels that move as a random walk, seen through noise of known laws, by a filter on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import fft, signal

from dpinfer._check import FloatArray
from dpinfer.regression._integrated import mixture_moments, mixture_quantiles

_LOG_2PI = np.log(2.0 * np.pi)


class NormalMixture(NamedTuple):
    """Mixtures of k normal laws, for each of m days."""

    weights: FloatArray
    means: FloatArray
    stds: FloatArray

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations."""
        return mixture_moments(*self)

    def ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return quantiles that leave α/2 on either side."""
        stds = np.maximum(self.stds, 1e-300)
        low, high = (
            mixture_quantiles(q, self.weights, self.means, stds)
            for q in (0.5 * alpha, 1.0 - 0.5 * alpha)
        )
        return low, high

    def below(self, value: float) -> FloatArray:
        """Return P(X < value) of each."""
        from scipy import special

        stds = np.maximum(self.stds, 1e-300)
        return np.asarray(self.weights @ special.ndtr((value - self.means) / stds))


class GridLaw(NamedTuple):
    """Masses at points of a grid, (m, g), for each of m days."""

    points: FloatArray
    mass: FloatArray
    whole: bool
    """Whether the level is a whole number: ends are rounded outwards."""
    scale: Callable[[FloatArray], FloatArray] | None = None
    """What the level is of a point, such as exp."""

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations."""
        x = self._at(self.points)
        mean = self.mass @ x
        return mean, np.sqrt(np.maximum(self.mass @ np.square(x) - mean**2, 0.0))

    def ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return quantiles that leave at most α/2 on either side."""
        step = self.points[1] - self.points[0]
        edges = np.append(self.points - 0.5 * step, self.points[-1] + 0.5 * step)
        lower, upper = np.empty(len(self.mass)), np.empty(len(self.mass))
        for row, mass in enumerate(self.mass):
            below = np.append(0.0, np.cumsum(mass))
            above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
            lower[row] = np.interp(0.5 * alpha, below, edges)
            upper[row] = -np.interp(0.5 * alpha, above[::-1], -edges[::-1])
        if self.whole:
            lower, upper = np.floor(lower + 0.5), np.ceil(upper - 0.5)
        return self._at(lower), self._at(upper)

    def below(self, value: float) -> FloatArray:
        """Return P(X < value) of each, half of the mass at the value itself."""
        return np.asarray(self.mass @ (0.5 * (1.0 + np.sign(value - self._at(self.points)))))

    def _at(self, x: FloatArray) -> FloatArray:
        return x if self.scale is None else self.scale(x)


@dataclass(frozen=True)
class GridFilter:
    """Days of what was published, as likelihoods (T, G) of the points of a grid with one step.

    Between days the level moves by normal steps of variance q, on the grid, but for ``shift``, a
    day at which it starts anew.
    """

    log_emission: FloatArray
    step: float
    shift: int | None = None

    @cached_property
    def _emission(self) -> tuple[FloatArray, float]:
        most = self.log_emission.max(axis=1, keepdims=True)
        return np.exp(self.log_emission - most), float(most.sum())

    @cached_property
    def _length(self) -> int:
        return int(fft.next_fast_len(2 * self.log_emission.shape[1], real=True))

    def _kernels(self, q: FloatArray) -> FloatArray:
        """Return transforms of steps with variances q, (k, frequencies)."""
        size = self.log_emission.shape[1]
        j = np.minimum(np.arange(self._length), self._length - np.arange(self._length))
        away = (j * self.step) ** 2
        with np.errstate(divide="ignore", over="ignore"):
            rate = np.where(q > 0, 0.5 / np.maximum(q, 1e-300), np.inf)[:, np.newaxis]
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.where((j < size) & ((j == 0) | np.isfinite(rate)), away * rate, np.inf)
        steps[:, 0] = 0.0
        steps = np.exp(-steps)
        return np.asarray(fft.rfft(steps / steps.sum(axis=1, keepdims=True), axis=1))

    def _moved(self, mass: FloatArray, kernels: FloatArray) -> FloatArray:
        """Return laws, (k, g), after one step each."""
        spread = fft.irfft(fft.rfft(mass, self._length, axis=1) * kernels, self._length, axis=1)
        return np.asarray(np.maximum(spread[:, : mass.shape[1]], 0.0))

    def log_likelihood(self, q: FloatArray) -> FloatArray:
        """Return log-likelihoods at variances q; flat starts count as in diffuse Kalman filters."""
        kernels = self._kernels(q)
        total, _ = self._forward(kernels, None)
        return total

    def _forward(
        self, kernels: FloatArray, kept: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        emission, most = self._emission
        anew = 1 if self.shift is None else 2
        total = np.full(len(kernels), most + anew * (np.log(self.step) - 0.5 * _LOG_2PI))
        mass = np.ones((len(kernels), emission.shape[1]))
        for day, seen in enumerate(emission):
            if day == self.shift:
                mass = np.ones_like(mass)
            elif day:
                mass = self._moved(mass, kernels)
            mass = mass * seen
            size = mass.sum(axis=1)
            with np.errstate(divide="ignore"):
                total += np.log(size)
            mass /= np.where(size > 0, size, 1.0)[:, np.newaxis]
            if kept is not None:
                kept[day] = mass[0]
        return total, kept

    def smoothed(self, q: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return laws of the level at each day, (T, G), and that of the shift, mixed over q."""
        emission, _ = self._emission
        days, size = emission.shape
        mixed, shift = np.zeros((days, size)), None
        for one, weight in zip(q, weights, strict=True):
            kernels = self._kernels(np.array([one]))
            before = np.empty((days, size))
            self._forward(kernels, before)
            after = np.ones((1, size))
            for day in range(days - 1, -1, -1):
                law = before[day] * after[0]
                mixed[day] += weight * law / law.sum()
                after = after * emission[day]
                if day == self.shift:
                    law = self._moved(before[day - 1 : day], kernels)[0]
                    found = signal.fftconvolve(after[0] / after.sum(), law[::-1])
                    found = np.maximum(found, 0.0)
                    shift = (0.0 if shift is None else shift) + weight * found / found.sum()
                    after = np.ones((1, size))
                else:
                    after = self._moved(after / after.max(), kernels)
        return mixed, shift
