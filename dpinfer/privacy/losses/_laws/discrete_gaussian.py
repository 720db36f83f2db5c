"""Discrete Gaussian noise, moved by whole steps: the loss is linear in the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.mechanisms import _theta
from dpinfer.mechanisms.discrete_gaussian import DiscreteGaussian
from dpinfer.privacy.losses._laws.law import ComplexArray, LossLaw

BLOCK = 1 << 22
MOST_SIGMA = 250.0
DEVIATIONS = 9.5
"""Beyond so many standard deviations there is less than 1e-20 of the mass."""


@dataclass(frozen=True)
class DiscreteGaussianLoss(LossLaw):
    """The loss of discrete Gaussian noise X of ``sigma`` against the same moved by ``steps`` = Δ.

    L = Δ²/(2σ²) - ΔX/σ².
    """

    sigma: float
    steps: int

    @property
    def _step(self) -> float:
        return self.steps / self.sigma / self.sigma

    @property
    def mean(self) -> float:
        """E[L] = Δ²/(2σ²)."""
        return 0.5 * self.steps * self._step

    @property
    def variance(self) -> float:
        """Var[L] = Δ²·Var[X]/σ⁴."""
        return self._step**2 * float(_theta.variance(np.asarray(self.sigma)))

    @property
    def lattice(self) -> tuple[float, float]:
        """Steps of Δ/σ² from the mean."""
        return self.mean, self._step

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """zΔ²/(2σ²) + ln E[e^(sX)] at s = zΔ/σ²."""
        with np.errstate(over="ignore", invalid="ignore"):  # in the form for large σ, if not used
            noise = _theta.cumulant(z * self._step, np.asarray(self.sigma))
        return np.asarray(z * self.mean + noise)

    def noise(self, theta: float) -> float:
        """Half a square of σs is formed, and a sum of images close to 1 or not."""
        return 1.0 if self.sigma < 1.0 else 0.0

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """Exactly: Jacobi's triple product has factors abs(1 + qe^(±s)) that all fall in t."""
        at = self.cgf(np.asarray(theta + 1j * t, dtype=np.complex128)).real
        return np.asarray(at - self.cgf(np.array([complex(theta)])).real[0])

    def tilted_atoms(self, theta: float) -> tuple[FloatArray, FloatArray] | None:
        """List the values around the mode of the tilted law, where they are not many."""
        if self.sigma > MOST_SIGMA:
            return None
        # e^(θl) moves the centre of -x by θΔ
        radius = np.ceil(DEVIATIONS * self.sigma) + 1.0
        centre = theta * self.steps
        x = np.arange(np.rint(centre) - radius, np.rint(centre) + radius + 1.0)
        mass = np.exp(-0.5 * np.square((x - centre) / self.sigma))
        return self.mean + self._step * x, mass / mass.sum()

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw the noise, in blocks, and add it up."""
        noise = DiscreteGaussian(sigma=self.sigma)
        total = np.zeros(size)
        rows = max(BLOCK // max(size, 1), 1)
        for start in range(0, count, rows):
            total += noise.rvs((min(rows, count - start), size), rng=rng).sum(axis=0)
        return count * self.mean - self._step * total
