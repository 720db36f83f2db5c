"""Laplace noise, moved by t scales: atoms at ±t, and a density between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import ComplexArray, LossLaw

BLOCK = 1 << 22


@dataclass(frozen=True)
class LaplaceLoss(LossLaw):
    """The loss of Laplace noise against the same moved by ``shift`` = t scales.

    P(L = t) = 1/2, P(L = -t) = e^-t/2, and the density e^((u-t)/2)/4 between. With w = z + 1/2,

        M(z) = e^(-t/2)·(cosh(wt) + sinh(wt)/(2w)).
    """

    shift: float

    @property
    def mean(self) -> float:
        """E[L] = t - 1 + e^-t."""
        t = self.shift
        # the series where it would cancel
        return t + np.expm1(-t) if t > 1e-3 else t * t * (0.5 - t * (1.0 - 0.25 * t) / 6.0)

    @property
    def variance(self) -> float:
        """Var[L] = E[L²] - E[L]²."""
        t = self.shift
        if t < 1e-2:
            # E[L²] = Σ_{n>=2} (-t)^n·(2n-4)/n!, but t² for n = 2
            second = t * t * float(np.polyval([-1 / 504, 1 / 90, -1 / 20, 1 / 6, -1 / 3, 1.0], t))
        else:
            edge = 0.5 * t * t * (1.0 + np.exp(-t))
            inner = 0.5 * (t * t - 4.0 * t + 8.0) - 0.5 * np.exp(-t) * (t * t + 4.0 * t + 8.0)
            second = edge + inner
        return float(second - self.mean**2)

    @property
    def largest(self) -> float:
        """The loss of an output on the far side, t."""
        return self.shift

    @property
    def log_top(self) -> float:
        """P(L = t) = 1/2."""
        return -float(np.log(2.0))

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Ln M(z), from M(z) - 1 where it is small and from its largest term elsewhere."""
        t = self.shift
        if self._from_top(z.real.flat[0]):
            w = z + 0.5
            fade = np.expm1(-2.0 * t * w)
            return np.asarray(z * t - np.log(2.0) + np.log(1.0 + (fade + 1.0) - fade / (2.0 * w)))
        return np.asarray(special.log1p(self._excess(z)))

    def noise(self, theta: float) -> float:
        """One rounding where the logarithm is taken of what is not near 1."""
        return 1.0 if self._from_top(theta) else self.shift

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """Leave the atoms, which do not decay; the density does as 1/t."""
        atoms, density = self.shares(t, theta)
        return np.asarray(np.log(np.minimum(atoms + density, 1.0)))

    def shares(self, t: FloatArray, theta: float) -> tuple[FloatArray, FloatArray]:
        """Bounds on the shares of M(θ) that the atoms and the density hold at height t."""
        w = theta + 0.5
        flip = np.exp(-2.0 * w * self.shift)
        atoms = 0.5 * (1.0 + flip)
        density = np.minimum(-0.25 * np.expm1(-2.0 * w * self.shift) / w, 0.25 * (1.0 + flip) / t)
        total = atoms - 0.25 * np.expm1(-2.0 * w * self.shift) / w
        return np.asarray(atoms / total), np.asarray(density / total)

    def log_atomic(self, z: ComplexArray) -> ComplexArray:
        """Ln of the atoms' part of M: (e^(zt) + e^(-(z+1)t))/2."""
        flip = np.exp(-self.shift * (2.0 * z + 1.0))
        return np.asarray(z * self.shift - np.log(2.0) + np.log1p(flip))

    def density_ratio(self, z: ComplexArray) -> ComplexArray:
        """Return the density's part of M over that of the atoms: tanh(wt)/(2w)."""
        w = z + 0.5
        flip = np.expm1(-2.0 * self.shift * w)
        return np.asarray(-flip / (2.0 + flip) / (2.0 * w))

    def tilted_atoms(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """List the two atoms, whose masses do not add up to 1."""
        log_mass = self.log_atomic(np.array([complex(theta)])).real
        rest = self.cgf(np.array([complex(theta)])).real
        share = float(np.exp(log_mass - rest)[0])
        low = float(special.expit(-self.shift * (2.0 * theta + 1.0)))
        values = np.array([-self.shift, self.shift])
        return values, share * np.array([low, 1.0 - low])

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw how many losses fall on the atoms, and the others one by one."""
        t = self.shift
        low, high = 0.5 * np.exp(-t), 0.5
        counts = rng.multinomial(count, [low, high, max(1.0 - low - high, 0.0)], size)
        total = (counts[:, 1] - counts[:, 0]) * t
        inner = counts[:, 2]
        ends = np.concatenate([[0], np.cumsum(inner)])
        start = 0
        while start < size:
            stop = max(int(np.searchsorted(ends, ends[start] + BLOCK, "right")) - 1, start + 1)
            u = rng.random(ends[stop] - ends[start])
            # the density e^(u/2) on (-t, t), inverted
            draws = t + 2.0 * np.log1p(u * np.expm1(-t))
            index = np.repeat(np.arange(start, stop), inner[start:stop])
            total[start:stop] += np.bincount(index - start, draws, stop - start)
            start = stop
        return np.asarray(total)

    def _from_top(self, theta: float) -> bool:
        return (theta + 0.5) * self.shift > 1.0

    def _excess(self, z: ComplexArray) -> ComplexArray:
        """M(z) - 1 without cancellation between the atoms' parts."""
        t, w = self.shift, z + 0.5
        atoms = 2.0 * np.sinh(0.5 * z * t) * np.sinh(0.5 * (z + 1.0) * t)
        density = 0.5 * (np.sinh(w * t) / w - 2.0 * np.sinh(0.5 * t))
        return np.asarray(np.exp(-0.5 * t) * (atoms + density))
