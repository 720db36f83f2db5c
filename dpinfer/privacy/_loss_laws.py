"""The law of the privacy loss of each mechanism, as the inversion of their sums asks of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.lattice import slices
from dpinfer._numerics.parts import Part
from dpinfer.mechanisms import laws as _theta
from dpinfer.mechanisms.draws import geometric_draws
from dpinfer.mechanisms.laws import DiscreteGaussian


class LossLaw(Part):
    """The law of L = ln(P(X)/Q(X)), X from P, of a mechanism's two outputs P and Q.

    All laws here are symmetric: exchanging P and Q leaves the law as it is, and -``largest`` is the
    infimum of the loss. The mean is the Kullback-Leibler divergence.
    """

    @abstractmethod
    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` sums of ``count`` independent losses."""


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

    @cached_property
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
        if np.all(self.from_top(z.real.flat[0])):
            fade = np.exp(-2.0 * r * w)
            inner = fade * np.expm1(-2.0 * r * (m - 1) * w) / np.expm1(-2.0 * r * w)
            low = np.exp(-2.0 * r * m * w) - np.expm1(-r) * inner
            return np.asarray(z * r * m - np.log1p(a) + special.log1p(low))
        tops = 4.0 * np.sinh(0.5 * z * r * m) * np.sinh(0.5 * (z + 1.0) * r * m)
        inner = np.sinh(r * (m - 1) * w) / np.sinh(r * w)
        inner -= np.sinh(0.5 * r * (m - 1)) / np.sinh(0.5 * r)
        excess = np.exp(-0.5 * r * m) / (1.0 + a) * (tops - np.expm1(-r) * inner)
        return np.asarray(special.log1p(excess))

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
        return self._atoms(theta) if self.steps <= MOST_ATOMS else None

    def _atoms(self, theta: float) -> tuple[FloatArray, FloatArray]:
        r, m = self.rate, self.steps
        x = np.arange(m, -1.0, -1.0)
        inner = np.where((x == 0) | (x == m), 1.0, -np.expm1(-r))
        mass = inner * np.exp(-(2.0 * theta + 1.0) * r * x)
        return r * (m - 2.0 * x), mass / mass.sum()

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        total = np.zeros(size)
        scale, m = np.asarray(1.0 / self.rate), self.steps
        for part in slices(count, BLOCK // max(size, 1)):
            draws = geometric_draws(scale, (part.stop - part.start, size), rng)
            total += np.sum(np.abs(draws - m) - np.abs(draws), axis=0)
        return total * self.rate


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
        return self.shift

    @property
    def log_top(self) -> float:
        """P(L = t) = 1/2."""
        return -float(np.log(2.0))

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Ln M(z), from M(z) - 1 where it is small and from its largest term elsewhere."""
        t = self.shift
        if np.all(self.from_top(z.real.flat[0])):
            w = z + 0.5
            fade = np.expm1(-2.0 * t * w)
            return np.asarray(z * t - np.log(2.0) + np.log(1.0 + (fade + 1.0) - fade / (2.0 * w)))
        return np.asarray(special.log1p(self._excess(z)))

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

    def _excess(self, z: ComplexArray) -> ComplexArray:
        """M(z) - 1 without cancellation between the atoms' parts."""
        t, w = self.shift, z + 0.5
        atoms = 2.0 * np.sinh(0.5 * z * t) * np.sinh(0.5 * (z + 1.0) * t)
        density = 0.5 * (np.sinh(w * t) / w - 2.0 * np.sinh(0.5 * t))
        return np.asarray(np.exp(-0.5 * t) * (atoms + density))


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
        if np.all(self.from_top(z.real.flat[0])):
            low = np.exp(-e * z) * (self.rest / self.kept) + np.exp(-e * (2.0 * z + 1.0))
            return np.asarray(z * e + np.log(self.kept) + special.log1p(low))
        base = 4.0 * self.kept * np.exp(-0.5 * e)
        excess = base * np.sinh(0.5 * z * e) * np.sinh(0.5 * (z + 1.0) * e)
        return np.asarray(special.log1p(excess))

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """From abs(M)² = 1 - 2·Σ pᵢpⱼ(1 - cos(t(lᵢ-lⱼ))) over pairs of atoms, neighbours only."""
        mass = self.tilted_atoms(theta)[1]
        adjacent = float(np.sum(mass[1:] * mass[:-1]))
        # 1 - cos x = 2sin²(x/2)
        drop = 4.0 * adjacent * np.square(np.sin(0.5 * t * self.lattice[1]))
        with np.errstate(divide="ignore"):
            return np.asarray(0.5 * np.log1p(-np.minimum(drop, 1.0)))

    def tilted_atoms(self, theta: float) -> tuple[FloatArray, FloatArray]:
        e = self.epsilon
        high, low = self.kept, self.kept * np.exp(-e * (2.0 * theta + 1.0))
        if self.rest > 0:
            middle = self.rest * np.exp(-e * theta)
            values, mass = np.array([-e, 0.0, e]), np.array([low, middle, high])
        else:
            values, mass = np.array([-e, e]), np.array([low, high])
        return values, mass / mass.sum()

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        r = self.flipped
        counts = rng.multinomial(count, [self.kept, r, max(1.0 - self.kept - r, 0.0)], size)
        if self.rest == 0:  # what rounding left over belongs to the flips
            return np.asarray((2 * counts[:, 0] - count) * self.epsilon)
        return np.asarray((counts[:, 0] - counts[:, 1]) * self.epsilon)


# Discrete Gaussian noise, moved by whole steps: the loss is linear in the noise.


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

    @cached_property
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

    def noise(self, theta: float) -> Any:
        """Half a square of σs is formed, and a sum of images close to 1 or not."""
        return np.where(np.less(self.sigma, 1.5), 1.0, 0.0)

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
        noise = DiscreteGaussian(sigma=self.sigma)
        total = np.zeros(size)
        for part in slices(count, BLOCK // max(size, 1)):
            total += noise.rvs((part.stop - part.start, size), rng=rng).sum(axis=0)
        return count * self.mean - self._step * total


@dataclass(frozen=True)
class GaussianLoss(LossLaw):
    """The loss of N(0, 1) against N(μ, 1), by its ``squared`` distance μ², which adds."""

    squared: float

    @property
    def mu(self) -> float:
        """The distance μ."""
        return float(np.sqrt(self.squared))

    @property
    def mean(self) -> float:
        return 0.5 * self.squared

    @property
    def variance(self) -> float:
        return self.squared

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """μ²z(z+1)/2."""
        return np.asarray(0.5 * self.squared * z * (z + 1.0))

    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """-μ²t²/2, exactly."""
        return np.asarray(-0.5 * self.squared * np.square(t))

    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        total = count * self.squared
        return np.asarray(0.5 * total + np.sqrt(total) * rng.standard_normal(size))
