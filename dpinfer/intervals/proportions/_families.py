"""Laws of a count before noise was added, binomial or Poisson, each row with its parameter θ.

Both have a score of the form (k - mean)/θ', and P(X >= j) grows with θ by j·P(X = j)/θ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.binomial import binom_pmf, binom_radius
from dpinfer._numerics.poisson import poisson_pmf, poisson_radius
from dpinfer._validation import FloatArray

Rows = NDArray[np.intp]

_SMALL = 1e4
_NEAR = 4.0
"""SciPy's incomplete gamma function is off beyond 4.5 standard deviations of large counts."""


class CountFamily(ABC):
    """Laws of a count X >= 0 in m rows; the parameter θ of each row is an argument."""

    approximate: ClassVar[str]
    """Name of the approximate method by scores."""

    @property
    @abstractmethod
    def largest(self) -> FloatArray:
        """Largest value of θ."""

    @property
    @abstractmethod
    def last(self) -> FloatArray:
        """Largest count."""

    @property
    @abstractmethod
    def scale(self) -> FloatArray:
        """Expected count where θ is 1."""

    @property
    @abstractmethod
    def columns(self) -> list[FloatArray]:
        """What is known of the law of each row."""

    @abstractmethod
    def take(self, rows: Rows) -> Self:
        """Return the laws of some rows."""

    @abstractmethod
    def variance(self, theta: FloatArray) -> FloatArray:
        """Variance of X."""

    @abstractmethod
    def score_root(
        self, count: FloatArray, z: FloatArray, quantile: FloatArray, sign: int
    ) -> FloatArray:
        """θ at which ``count`` is z standard deviations of X and a quantile of the noise away.

        The larger root where ``sign`` is 1. Where there is none, ±inf, on the side of the count.
        """

    @abstractmethod
    def pmf(self, k: FloatArray, theta: FloatArray, log_lift: float = 0.0) -> FloatArray:
        """P(X = k) for whole numbers 0 <= k <= last, times e^log_lift."""

    @abstractmethod
    def ratio(self, k: FloatArray, theta: FloatArray) -> FloatArray:
        """P(X = k)/P(X = k - 1) for whole numbers k >= 1."""

    @abstractmethod
    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        """Distance from a count within which the probability falls by e^-log_ratio."""

    def has_head(self, j: FloatArray, theta: FloatArray) -> NDArray[np.bool_]:
        """Whether :meth:`head` is accurate, rather than a sum of all terms."""
        return np.ones(np.broadcast_shapes(j.shape, theta.shape), dtype=bool)

    @abstractmethod
    def head(self, j: FloatArray, theta: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
        """P(X >= j) (side 1) or P(X < j) (side -1) for 1 <= j <= last, and its derivative."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BinomialCounts(CountFamily):
    """Binomial counts of ``nobs`` trials, shape (m,); θ is the probability of success."""

    approximate: ClassVar[str] = "wilson"

    nobs: FloatArray

    @property
    def largest(self) -> FloatArray:
        """One."""
        return np.ones(self.nobs.shape)

    @property
    def last(self) -> FloatArray:
        """Number of trials."""
        return self.nobs

    @property
    def scale(self) -> FloatArray:
        """Number of trials."""
        return self.nobs

    @property
    def columns(self) -> list[FloatArray]:
        """Number of trials."""
        return [self.nobs]

    def take(self, rows: Rows) -> BinomialCounts:
        """Return the laws of some rows."""
        return BinomialCounts(nobs=self.nobs[rows])

    def variance(self, theta: FloatArray) -> FloatArray:
        """n·p·(1 - p)."""
        return np.asarray(self.nobs * theta * (1.0 - theta))

    def score_root(
        self, count: FloatArray, z: FloatArray, quantile: FloatArray, sign: int
    ) -> FloatArray:
        """Root of (count - n·p)² = z²·n·p·(1 - p) + quantile²."""
        p, share = count / self.nobs, np.square(z) / self.nobs
        inside = share * (p * (1.0 - p) + 0.25 * share) + (1.0 + share) * np.square(
            quantile / self.nobs
        )
        root = (p + 0.5 * share + sign * np.sqrt(np.maximum(inside, 0.0))) / (1.0 + share)
        return np.where(inside >= 0.0, root, np.copysign(np.inf, p))

    def pmf(self, k: FloatArray, theta: FloatArray, log_lift: float = 0.0) -> FloatArray:
        """P(X = k), times e^log_lift."""
        return binom_pmf(k, self.nobs, theta, log_lift)

    def ratio(self, k: FloatArray, theta: FloatArray) -> FloatArray:
        """P(X = k)/P(X = k - 1)."""
        return np.asarray((self.nobs + 1.0 - k) / k * (theta / (1.0 - theta)))

    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        """Distance from a count within which the probability falls by e^-log_ratio."""
        # Hoeffding's bound on the mass is the tighter one where p is near 1/2
        hoeffding = np.ceil(np.sqrt(0.5 * log_ratio * self.nobs)) + 1.0
        return np.minimum(binom_radius(centre, self.nobs, log_ratio), hoeffding)

    def head(self, j: FloatArray, theta: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
        """P(X >= j) or P(X < j), and its derivative."""
        slope = side * j * self.pmf(j, theta) / theta
        if side > 0:
            return np.asarray(special.betainc(j, self.nobs - j + 1.0, theta)), slope
        q = 1.0 - theta
        mirrored = special.betainc(self.nobs - j + 1.0, j, q)
        # what rounding 1 - θ has changed matters where θ is small
        return np.asarray(mirrored + slope * (theta - (1.0 - q))), slope


@dataclass(frozen=True, kw_only=True, eq=False)
class PoissonCounts(CountFamily):
    """Poisson counts in ``size`` rows; θ is the expected count."""

    approximate: ClassVar[str] = "score"

    size: int

    @property
    def largest(self) -> FloatArray:
        """Without bound."""
        return np.full(self.size, np.inf)

    @property
    def last(self) -> FloatArray:
        """Without bound."""
        return np.full(self.size, np.inf)

    @property
    def scale(self) -> FloatArray:
        """One."""
        return np.ones(self.size)

    @property
    def columns(self) -> list[FloatArray]:
        """Nothing."""
        return []

    def take(self, rows: Rows) -> PoissonCounts:
        """Return the laws of some rows."""
        return PoissonCounts(size=rows.size)

    def variance(self, theta: FloatArray) -> FloatArray:
        """Return the expected count."""
        return theta

    def score_root(
        self, count: FloatArray, z: FloatArray, quantile: FloatArray, sign: int
    ) -> FloatArray:
        """Root of (count - μ)² = z²·μ + quantile²."""
        square = np.square(z)
        inside = square * (count + 0.25 * square) + np.square(quantile)
        root = count + 0.5 * square + sign * np.sqrt(np.maximum(inside, 0.0))
        return np.where(inside >= 0.0, root, np.copysign(np.inf, count))

    def pmf(self, k: FloatArray, theta: FloatArray, log_lift: float = 0.0) -> FloatArray:
        """P(X = k), times e^log_lift."""
        return poisson_pmf(k, theta, log_lift)

    def ratio(self, k: FloatArray, theta: FloatArray) -> FloatArray:
        """P(X = k)/P(X = k - 1)."""
        return np.asarray(theta / k)

    def radius(self, centre: FloatArray, log_ratio: float) -> FloatArray:
        """Distance from a count within which the probability falls by e^-log_ratio."""
        return poisson_radius(centre, log_ratio)

    def has_head(self, j: FloatArray, theta: FloatArray) -> NDArray[np.bool_]:
        """Whether the incomplete gamma function is accurate: for large counts, near the mean."""
        near = np.abs(j - theta) < _NEAR * np.sqrt(theta)
        return np.asarray(near | (np.maximum(j, theta) < _SMALL))

    def head(self, j: FloatArray, theta: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
        """P(X >= j) or P(X < j), and its derivative."""
        tail = special.gammainc(j, theta) if side > 0 else special.gammaincc(j, theta)
        return np.asarray(tail), side * j * self.pmf(j, theta) / theta
