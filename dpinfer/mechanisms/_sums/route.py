"""What every route to the law of a weighted sum provides, and the route of a single term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import ParametricLaw

ATOM_ATOL = 1e-9
ATOM_RTOL = 2e-12
"""A point this close to an atom, in units of the spacing, counts as at the atom."""


class Route(ABC):
    """A way to compute the law of one symmetric sum S; subclasses answer for its upper half."""

    name: ClassVar[str]
    error_bound: float
    """Absolute bound on the error of every probability."""

    floor: float = 0.0
    """Probability below which tails are not accurate relatively; 0 where all are."""

    spacing: float = 0.0
    """Distance of neighbouring lattice points; 0 for a law that is not on a lattice."""

    rounding: ClassVar[float] = 0.0
    """Relative rounding error of tails that vary from call to call."""

    supremum: float = np.inf
    """Least upper bound of the sum."""

    @abstractmethod
    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``, at finite x >= 0, one-dimensional."""

    @abstractmethod
    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``, for one-dimensional 0 < q <= 1/2."""

    @final
    def logtail(self, x: FloatArray, *, closed: bool = False) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``."""
        upper, negative = self._mirrored(x, closed)
        with np.errstate(divide="ignore"):
            return np.where(negative, np.log1p(-np.exp(upper)), upper)

    @final
    def tail(self, x: FloatArray, *, closed: bool = False) -> FloatArray:
        """P(S > x), or P(S >= x) if ``closed``."""
        upper, negative = self._mirrored(x, closed)
        return np.where(negative, -np.expm1(upper), np.exp(upper))

    @final
    def isf(self, q: FloatArray, *, strict: bool = False) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``."""
        # by the definitions: inf{x: P(S > x) <= 1} = -inf, sup{x: P(S >= x) >= 0} = inf
        highest, lowest = (np.inf, self.supremum) if strict else (self.supremum, np.inf)
        out = np.where(q > 0.5, -lowest, highest)
        upper = (q > 0) & (q <= 0.5)
        if upper.any():
            out[upper] = self.upper_isf(q[upper], strict)
        # P(S > x) <= q  <=>  P(S >= -x) >= 1 - q: the law is symmetric
        lower = (q > 0.5) & (q < 1)
        if lower.any():
            out[lower] = -self.upper_isf(1.0 - q[lower], not strict)
        return self._settled(out, q, strict) if self.spacing else out

    def _settled(self, x: FloatArray, q: FloatArray, strict: bool) -> FloatArray:
        """Move by one lattice point where rounding of q left the quantile beside its definition."""
        inner, h = np.isfinite(x), self.spacing
        if strict:
            # the last point with P(S >= x) >= q
            limit = q * (1.0 - self.rounding)
            x = np.where(inner & (self.tail(x, closed=True) < limit), x - h, x)
            return np.where(inner & (self.tail(x + h, closed=True) >= limit), x + h, x)
        limit = q * (1.0 + self.rounding)
        x = np.where(inner & (self.tail(x) > limit), x + h, x)
        return np.where(inner & (self.tail(x - h) <= limit), x - h, x)

    def _mirrored(self, x: FloatArray, closed: bool) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Logarithm of the upper tail at abs(x), and where the tail asked for is 1 minus that."""
        negative = x < 0
        out = np.where(np.isinf(x), -np.inf, 0.0)
        for side, shut in ((negative, not closed), (~negative, closed)):
            wanted = side & np.isfinite(x)
            if wanted.any():
                out[wanted] = np.minimum(self.upper(np.abs(x[wanted]), shut), 0.0)
        return out, negative


def lattice_floor(ratio: FloatArray, closed: bool, atol: float = ATOM_ATOL) -> FloatArray:
    """Largest k such that P(J > ratio), or P(J >= ratio) if ``closed``, is P(J > k).

    A ratio within rounding of a whole number counts as that number.
    """
    nearest = np.rint(ratio)
    at_atom = np.abs(ratio - nearest) <= np.minimum(atol + ATOM_RTOL * nearest, 0.25)
    return np.where(at_atom, nearest - closed, np.floor(ratio))


class SingleTerm(Route):
    """One noise times one weight: the scaled law itself, in closed form."""

    name = "closed form"
    error_bound = 1e-15

    def __init__(self, law: ParametricLaw, weight: float, *, atol: float = ATOM_ATOL) -> None:
        self._law = law
        self._weight = weight
        self._atol = atol
        self.supremum = float(law._isf(np.zeros(()))) * weight
        self.spacing = weight if law.is_integer else 0.0

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``, at finite x >= 0."""
        ratio = x / self._weight
        if not self._law.is_integer:
            return self._law._logsf(ratio)
        k = lattice_floor(ratio, closed, self._atol)
        last = k.max(initial=-1.0)
        if last + 2.0 >= k.size:
            return self._law._logsf(k)
        # more points than places: each place once
        return np.asarray(self._law._logsf(np.arange(-1.0, last + 1.0))[(k + 1.0).astype(np.intp)])

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``."""
        if strict and self._law.is_integer:
            return -self._law._ppf(q) * self._weight
        return self._law._isf(q) * self._weight
