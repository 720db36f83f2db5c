"""Priors by the ratio of each probability to the next, from which windows are climbed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.binomial import bernstein_radius, deviance, stirling_error
from dpinfer._validation import FloatArray


class Ladder(ABC):
    """A prior of whole numbers given by π(k + 1)/π(k), with parameters of shape () or (n,)."""

    @property
    @abstractmethod
    def shared(self) -> bool:
        """Whether one prior serves all rows."""

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the priors of some rows."""

    @property
    @abstractmethod
    def concave(self) -> NDArray[np.bool_]:
        """Whether the prior is log-concave."""

    @abstractmethod
    def step(self, k: FloatArray) -> FloatArray:
        """π(k + 1)/π(k)."""

    @abstractmethod
    def limit_step(self, k: FloatArray) -> FloatArray:
        """Return the step, or where that is increasing, its limit at infinity."""

    @abstractmethod
    def mode(self, near: FloatArray) -> FloatArray:
        """Return a most probable count, the one next to ``near`` of several."""

    @abstractmethod
    def logpmf(self, k: FloatArray) -> FloatArray:
        """Logarithm of π(k); 0 where the prior is flat and without an end."""

    @abstractmethod
    def radius(self, drop: FloatArray) -> FloatArray:
        """Distance from the mode beyond which all probability is about e^-drop of the peak."""

    @abstractmethod
    def upper_end(self, log_mass: FloatArray) -> FloatArray:
        """Return a count that is exceeded with at most this (log) probability."""


@dataclass(frozen=True)
class Flat(Ladder):
    """The same probability for each whole number."""

    shared = True

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the prior of any rows: the same."""
        return self

    @property
    def concave(self) -> NDArray[np.bool_]:
        """Whether the prior is log-concave: yes."""
        return np.ones((), dtype=bool)

    def step(self, k: FloatArray) -> FloatArray:
        """π(k + 1)/π(k) = 1."""
        return np.ones(())

    limit_step = step

    def mode(self, near: FloatArray) -> FloatArray:
        """Every count is most probable."""
        return near

    def logpmf(self, k: FloatArray) -> FloatArray:
        """Logarithm of 1, to be divided by the number of counts."""
        return np.zeros_like(k)

    def radius(self, drop: FloatArray) -> FloatArray:
        """Return inf: it never falls."""
        return np.full((), np.inf)

    def upper_end(self, log_mass: FloatArray) -> FloatArray:
        """Return inf: it has none."""
        return np.full((), np.inf)


@dataclass(frozen=True)
class Panjer(Ladder):
    """Negative binomial with a mean and a dispersion φ, variance mean + φ·mean²; Poisson at φ = 0.

    π(k + 1)/π(k) = mean·(1 + φk)/((1 + φ·mean)(k + 1)), log-concave where φ <= 1.
    """

    mean: FloatArray
    dispersion: FloatArray

    @property
    def shared(self) -> bool:
        """Whether one prior serves all rows."""
        return self.mean.ndim == self.dispersion.ndim == 0

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the priors of some rows."""
        mean, dispersion = (
            value if value.ndim == 0 else value[rows] for value in (self.mean, self.dispersion)
        )
        return type(self)(mean, dispersion)

    @property
    def concave(self) -> NDArray[np.bool_]:
        """Whether the prior is log-concave."""
        return np.asarray(self.dispersion <= 1.0)

    @property
    def _ratio(self) -> FloatArray:
        return np.asarray(self.mean / (1.0 + self.dispersion * self.mean))

    def step(self, k: FloatArray) -> FloatArray:
        """π(k + 1)/π(k)."""
        if not self.dispersion.any():
            return np.asarray(self.mean / (k + 1.0))
        return np.asarray(self._ratio * (1.0 + self.dispersion * k) / (k + 1.0))

    def limit_step(self, k: FloatArray) -> FloatArray:
        """Return the step, or its limit, from which it differs by the factor (k + 1/φ)/(k + 1)."""
        if self.concave.all():
            return self.step(k)
        return np.where(self.concave, self.step(k), self._ratio * self.dispersion)

    def mode(self, near: FloatArray) -> FloatArray:
        """Return a most probable count."""
        return np.floor(np.maximum((1.0 - self.dispersion) * self.mean, 0.0))

    def logpmf(self, k: FloatArray) -> FloatArray:
        """Logarithm of π(k), by Loader's form for Poisson."""
        mean = np.maximum(self.mean, np.finfo(np.float64).tiny)
        inner = np.maximum(k, 1.0)
        poisson = (
            -stirling_error(inner)
            - mean * deviance((inner - mean) / mean)
            - 0.5 * np.log(2.0 * np.pi * inner)
        )
        poisson = np.where(k == 0, -self.mean, poisson)
        if not self.dispersion.any():
            return poisson
        size = 1.0 / np.where(self.dispersion > 0, self.dispersion, 1.0)
        odds = mean / size
        negative = (
            -special.betaln(k + 1.0, size)
            - np.log(k + size)
            # odds themselves may be too small for float64
            + k * (np.log(mean) - np.log(size) - np.log1p(odds))
            - size * np.log1p(odds)
        )
        return np.where(self.dispersion > 0, negative, poisson)

    def radius(self, drop: FloatArray) -> FloatArray:
        """Distance at which Bernstein's bound has fallen, wider by the variance per unit mean."""
        spread = 1.0 + self.dispersion * self.mean
        return spread * bernstein_radius(self.mean / spread + 1.0, float(drop))

    def upper_end(self, log_mass: FloatArray) -> FloatArray:
        """Bound the probability above by a geometric series: for φ > 1 only, inf elsewhere."""
        excess = self.dispersion * self.mean
        with np.errstate(divide="ignore"):
            log_ratio = -np.log1p(1.0 / np.maximum(excess, 1e-300))  # of the geometric series
        log_first = -np.log1p(excess) / np.maximum(self.dispersion, 1.0)
        steps = (log_first + np.log1p(excess) - log_mass) / -log_ratio
        return np.where(self.concave, np.inf, np.maximum(np.ceil(steps), 0.0))
