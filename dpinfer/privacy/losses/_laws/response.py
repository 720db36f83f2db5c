"""Randomized response: the loss is ε, -ε, or 0 where neither answer is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import ComplexArray, LossLaw


@dataclass(frozen=True)
class ResponseLoss(LossLaw):
    """The loss of one truth against another: ε with probability p, -ε with r, 0 otherwise.

    ``epsilon`` is ln(p/r) and ``kept`` the probability p; the others have p + r + rest = 1.
    """

    epsilon: float
    kept: float
    rest: float = 0.0

    @property
    def flipped(self) -> float:
        """The probability r = p·e^-ε of the loss -ε."""
        return self.kept * float(np.exp(-self.epsilon))

    @property
    def mean(self) -> float:
        """E[L] = ε(p - r)."""
        return -self.epsilon * self.kept * float(np.expm1(-self.epsilon))

    @property
    def variance(self) -> float:
        """Var[L] = ε²(p + r) - E[L]²."""
        return self.epsilon**2 * (self.kept + self.flipped) - self.mean**2

    @property
    def largest(self) -> float:
        """The loss ε of an answer kept."""
        return self.epsilon

    @property
    def log_top(self) -> float:
        """P(L = ε) = p."""
        return float(np.log(self.kept))

    @property
    def lattice(self) -> tuple[float, float]:
        """Steps of ε, or of 2ε where 0 does not occur."""
        return self.epsilon, self.epsilon * (1.0 if self.rest > 0 else 2.0)

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Ln M(z), from M(z) - 1 = 4√(pr)·sinh(zε/2)·sinh((z+1)ε/2) where it is small."""
        e = self.epsilon
        if self._from_top(z.real.flat[0]):
            low = np.exp(-e * z) * (self.rest / self.kept) + np.exp(-e * (2.0 * z + 1.0))
            return np.asarray(z * e + np.log(self.kept) + special.log1p(low))
        base = 4.0 * self.kept * np.exp(-0.5 * e)
        excess = base * np.sinh(0.5 * z * e) * np.sinh(0.5 * (z + 1.0) * e)
        return np.asarray(special.log1p(excess))

    def noise(self, theta: float) -> float:
        """One rounding where the logarithm is taken of what is not near 1."""
        return 1.0 if self._from_top(theta) else self.epsilon

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """From abs(M)² = 1 - 2·Σ pᵢpⱼ(1 - cos(t(lᵢ-lⱼ))) over pairs of atoms, neighbours only."""
        mass = self.tilted_atoms(theta)[1]
        adjacent = float(np.sum(mass[1:] * mass[:-1]))
        # 1 - cos x = 2sin²(x/2)
        drop = 4.0 * adjacent * np.square(np.sin(0.5 * t * self.lattice[1]))
        with np.errstate(divide="ignore"):
            return np.asarray(0.5 * np.log1p(-np.minimum(drop, 1.0)))

    def tilted_atoms(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """Two atoms, or three."""
        e = self.epsilon
        high, low = self.kept, self.kept * np.exp(-e * (2.0 * theta + 1.0))
        if self.rest > 0:
            middle = self.rest * np.exp(-e * theta)
            values, mass = np.array([-e, 0.0, e]), np.array([low, middle, high])
        else:
            values, mass = np.array([-e, e]), np.array([low, high])
        return values, mass / mass.sum()

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw how many losses are ε and how many are -ε."""
        r = self.flipped
        counts = rng.multinomial(count, [self.kept, r, max(1.0 - self.kept - r, 0.0)], size)
        if self.rest == 0:  # what rounding left over belongs to the flips
            return np.asarray((2 * counts[:, 0] - count) * self.epsilon)
        return np.asarray((counts[:, 0] - counts[:, 1]) * self.epsilon)

    def _from_top(self, theta: float) -> bool:
        return (theta + 0.5) * self.epsilon > 1.0
