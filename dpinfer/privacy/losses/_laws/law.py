"""What the inversion asks of the law of a privacy loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray

ComplexArray = NDArray[np.complex128]


class LossLaw(ABC):
    """The law of L = ln(P(X)/Q(X)), X from P, of a mechanism's two outputs P and Q.

    All laws here are symmetric: exchanging P and Q leaves the law as it is. They are frozen and
    compare by value, so that equal ones can be counted.
    """

    @property
    @abstractmethod
    def mean(self) -> float:
        """E[L], the Kullback-Leibler divergence."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Var[L]."""

    @property
    def largest(self) -> float:
        """Supremum of the loss; -``largest`` is its infimum."""
        return np.inf

    @property
    def log_top(self) -> float:
        """Ln P(L = largest)."""
        return -np.inf

    @property
    def lattice(self) -> tuple[float, float] | None:
        """An atom and the distance h of the atoms, if all values are atoms on a lattice."""
        return None

    @property
    def period(self) -> float:
        """The period 2π/h of the modulus of M along a vertical line."""
        return np.inf if self.lattice is None else 2.0 * np.pi / self.lattice[1]

    @abstractmethod
    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Return K(z) = ln E[e^(zL)] for Re z >= 0 on any branch: 2πi more or less does not matter.

        Its absolute error is a few units of rounding of itself, and of :meth:`noise`.
        """

    def noise(self, theta: float) -> float:
        """Absolute error of the function above on Re z = θ beyond its own size, in roundings."""
        return 0.0

    @abstractmethod
    def log_decay(self, t: FloatArray, theta: float) -> FloatArray:
        """Upper bound on ln abs(M(θ+it)/M(θ)), which falls in t up to half the period."""

    def tilted_atoms(self, theta: float) -> tuple[FloatArray, FloatArray] | None:
        """List atoms on a lattice (ascending) and their P(l)·e^(θl)/M(θ); None if they are many.

        Of infinitely many atoms, those that the tilted law does not all but never have.
        """
        return None

    @abstractmethod
    def rvs(self, count: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` sums of ``count`` independent losses."""


def slope(law: LossLaw, theta: float) -> float:
    """Return K'(θ) by a complex step, of which only the square is lost."""
    step = 1e-6 * min(theta, law.period)
    return float(law.cgf(np.array([complex(theta, step)]))[0].imag / step)
