"""Two-sided geometric noise, moved by whole steps: the loss has Δ+1 values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._sampling import geometric_draws
from dpinfer.privacy.losses._laws.law import ComplexArray, LossLaw

MOST_ATOMS = 2000
"""Up to this many values they are listed."""

BLOCK = 1 << 22


@dataclass(frozen=True)
class GeometricLoss(LossLaw):
    """The loss of geometric noise of rate r = 1/s against the same moved by ``steps`` = Δ >= 2.

    With a = e^-r: P(L = rΔ) = 1/(1+a), P(L = -rΔ) = a^Δ/(1+a), and between the ends
    P(L = r(Δ-2x)) = (1-a)/(1+a)·a^x for 0 < x < Δ. With w = z + 1/2,

        M(z) = e^(-rΔ/2)/(1+a)·(2cosh(wrΔ) + (1-a)·sinh(wr(Δ-1))/sinh(wr)).
    """

    rate: float
    steps: int

    @property
    def mean(self) -> float:
        """E[L] = Σ l·P(l), in closed form."""
        r, m = self.rate, self.steps
        a = np.exp(-r)
        # E[L] = Σ_l l(P(l) - Q(l)) / 2 over pairs ±l
        if m <= MOST_ATOMS:
            values, mass = self._atoms(0.0)
            half = values > 0
            return float(np.sum(values[half] * mass[half] * -np.expm1(-values[half])))
        # E[|X-Δ|] - E[|X|] = Δ - 2a/(1-a²)·(1 - a^Δ)
        return float(r * (m + 2.0 * a / np.expm1(-2.0 * r) * -np.expm1(-r * m)))

    @property
    def variance(self) -> float:
        """Var[L], from the sum of the values, or of the inner ones in closed form."""
        r, m = self.rate, self.steps
        if m <= MOST_ATOMS:
            values, mass = self._atoms(0.0)
        else:
            x = np.arange(1.0, min(m, int(800.0 / r) + 2))
            a = np.exp(-r)
            ends = np.array([r * m, -r * m])
            values = np.concatenate([ends, r * (m - 2.0 * x)])
            mass = np.concatenate([[1.0, np.exp(-r * m)], (1.0 - a) * np.exp(-r * x)]) / (1.0 + a)
        return float(np.sum(np.square(values - self.mean) * mass))

    @property
    def largest(self) -> float:
        """The loss rΔ of an output on the far side."""
        return self.rate * self.steps

    @property
    def log_top(self) -> float:
        """P(L = rΔ) = 1/(1+a)."""
        return -float(np.log1p(np.exp(-self.rate)))

    @property
    def lattice(self) -> tuple[float, float]:
        """Steps of 2r below rΔ."""
        return self.largest, 2.0 * self.rate

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Ln M(z), from M(z) - 1 where it is small and from its largest term elsewhere."""
        r, m, a = self.rate, self.steps, np.exp(-self.rate)
        w = z + 0.5
        if self._from_top(z.real.flat[0]):
            fade = np.exp(-2.0 * r * w)
            inner = fade * np.expm1(-2.0 * r * (m - 1) * w) / np.expm1(-2.0 * r * w)
            low = np.exp(-2.0 * r * m * w) - np.expm1(-r) * inner
            return np.asarray(z * r * m - np.log1p(a) + special.log1p(low))
        tops = 4.0 * np.sinh(0.5 * z * r * m) * np.sinh(0.5 * (z + 1.0) * r * m)
        inner = np.sinh(r * (m - 1) * w) / np.sinh(r * w)
        inner -= np.sinh(0.5 * r * (m - 1)) / np.sinh(0.5 * r)
        excess = np.exp(-0.5 * r * m) / (1.0 + a) * (tops - np.expm1(-r) * inner)
        return np.asarray(special.log1p(excess))

    def noise(self, theta: float) -> float:
        """One rounding where the logarithm is taken of what is not near 1."""
        return 1.0 if self._from_top(theta) else self.largest

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """Take the better of two bounds: from pairs of atoms, or as for a density."""
        r, m, w = self.rate, self.steps, theta + 0.5
        # Σ pᵢpᵢ₊₁ over neighbours, the first ones only where they are many: see ResponseLoss
        x = np.arange(0.0, min(m, MOST_ATOMS) + 1.0)
        log_mass = -2.0 * w * r * x + np.where((x == 0) | (x == m), 0.0, np.log(-np.expm1(-r)))
        total = self.cgf(np.array([complex(theta)])).real[0] + np.log1p(np.exp(-r))
        mass = np.exp(log_mass + (theta * r * m - total))
        drop = 4.0 * float(np.sum(mass[1:] * mass[:-1])) * np.square(np.sin(r * t))
        ends = mass[0] * (1.0 + np.exp(-2.0 * w * r * m))
        # abs(sinh(wr)) >= abs(sin(tr)), and abs(sinh(x)) <= cosh(Re x)
        with np.errstate(divide="ignore"):
            spread = 0.5 * (1.0 + np.exp(-2.0 * w * r * (m - 1))) / np.abs(np.sin(r * t))
            inner = mass[0] * -np.expm1(-r) * np.exp(-w * r) * spread
            pairs = 0.5 * np.log1p(-np.minimum(drop, 1.0))
            return np.asarray(np.minimum(pairs, np.log(ends + inner)))

    def tilted_atoms(self, theta: float) -> tuple[FloatArray, FloatArray] | None:
        """List the values, where they are not many."""
        return self._atoms(theta) if self.steps <= MOST_ATOMS else None

    def _atoms(self, theta: float) -> tuple[FloatArray, FloatArray]:
        r, m = self.rate, self.steps
        x = np.arange(m, -1.0, -1.0)
        inner = np.where((x == 0) | (x == m), 1.0, -np.expm1(-r))
        mass = inner * np.exp(-(2.0 * theta + 1.0) * r * x)
        return r * (m - 2.0 * x), mass / mass.sum()

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw the noise, in blocks, and add its losses up."""
        total = np.zeros(size)
        scale, m = np.asarray(1.0 / self.rate), self.steps
        rows = max(BLOCK // max(size, 1), 1)
        for start in range(0, count, rows):
            draws = geometric_draws(scale, (min(rows, count - start), size), rng)
            total += np.sum(np.abs(draws - m) - np.abs(draws), axis=0)
        return total * self.rate

    def _from_top(self, theta: float) -> bool:
        return (theta + 0.5) * self.largest > 1.0
