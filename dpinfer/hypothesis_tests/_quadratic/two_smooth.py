"""The law of a statistic of two cells with Laplace or Gaussian noise, by quadrature.

Tried first for two such cells, whose characteristic function decays too slowly to be inverted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.binomial_count import BinomialCount
from dpinfer.hypothesis_tests._quadratic.noise_parts import NEGLIGIBLE
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.laplace import Laplace

_ERROR = 1e-12

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

_TURN = 1.0
"""Longest panel, as an angle,"""

_STEP = 4.0
"""and in units of the scales of the noises."""

_BUDGET = 5e6
"""Nodes at most for one tail: a second or so."""

_PANELS = 1 << 12
"""Panels evaluated at a time."""


@dataclass(frozen=True)
class _Panels:
    """Intervals of angles φ, each with the count to which it belongs."""

    count: FloatArray
    start: FloatArray
    width: FloatArray
    pieces: FloatArray


class TwoSmoothCells:
    """P(Q <= q) as a sum over the counts, of integrals over the noise of the first cell.

    With y - c = √(q/a)·sin φ in the first cell the other one's deviation has to be below
    √(q/a)·cos φ in size: an integrand without singularities between the kinks of the noise. It is
    integrated by Gauss's rule on panels that are short against the scales of the noise.

    Parameters
    ----------
    nobs : int
        Number of observations.
    share, centre, weight : array of float, shape (2,)
        Probabilities p, c and a of the cells.
    laws : list of Laplace or Gaussian
        Their noises.
    """

    def __init__(
        self,
        nobs: int,
        share: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        laws: list[Laplace | Gaussian],
    ) -> None:
        self._laws = laws
        self._weight = weight
        self._scale = [float(law.scale if isinstance(law, Laplace) else law.sigma) for law in laws]
        self._reach = [float(law.isf(NEGLIGIBLE)) for law in laws]
        count = BinomialCount(nobs, float(share[0]))
        first, last = count.ends
        x = np.arange(first, last + 1.0)
        self._pmf = count.pmf
        # how far the deviations are from the noise
        self._shift = np.stack([x - centre[0], nobs - x - centre[1]])

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return 1.0 - self.lower(q)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        inside = [self._inside(x) for x in np.ravel(q)]
        return np.asarray(np.clip(inside, 0.0, 1.0).reshape(np.shape(q)))

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error; inf where the integrals take too long."""
        nodes = [self._panels(x).pieces.sum() * _NODES.size for x in np.ravel(q)]
        return np.where(np.array(nodes) <= _BUDGET, _ERROR, np.inf).reshape(np.shape(q))

    def _panels(self, q: float) -> _Panels:
        """Intervals between kinks, and the number of panels that each of them takes."""
        if q <= 0.0:
            return _Panels(*np.zeros((4, 0)))
        (r1, r2), (b1, b2) = np.sqrt(q / self._weight), self._scale
        one, two = self._shift
        edges = self._edges(r1, r2)
        start, end = edges[:-1], edges[1:]
        count, width = np.broadcast_to(np.arange(float(one.size)), start.shape), end - start
        # derivatives of both arguments, in units of the scales; the second noise matters where
        # the other deviation may be on either side of its bound
        middle = 0.5 * (start + end)
        steepest = np.maximum(np.cos(start), np.cos(end)) * r1 / b1
        turning = np.maximum(np.abs(np.sin(start)), np.abs(np.sin(end))) * r2 / b2
        open_ = np.abs(r2 * np.cos(middle) - np.abs(two)) <= self._reach[1]
        speed = np.maximum(steepest, np.where(open_, turning, 0.0))
        pieces = np.ceil(width * np.maximum(speed / _STEP, 1.0 / _TURN))
        kept = width > 0.0
        return _Panels(count[kept], start[kept], width[kept], pieces[kept])

    def _edges(self, r1: float, r2: float) -> FloatArray:
        """Angles between which the integrand is smooth, upwards; shape (edges, counts)."""
        one, two = self._shift
        far1, far2 = self._reach
        low, high = (np.arcsin(np.clip((one + s * far1) / r1, -1.0, 1.0)) for s in (-1.0, 1.0))
        # nothing where the other deviation is too large, come what may
        widest, kink, safe = (
            np.arccos(np.clip((np.abs(two) + s * far2) / r2, 0.0, 1.0)) for s in (-1.0, 0.0, 1.0)
        )
        low, high = np.maximum(low, -widest), np.minimum(high, widest)
        own = np.arcsin(np.clip(one / r1, -1.0, 1.0))
        inner = np.stack([low, -kink, -safe, np.zeros(one.size), own, safe, kink, high])
        impossible = np.abs(two) - far2 > r2
        inner = np.clip(inner, low, np.maximum(low, np.where(impossible, low, high)))
        return np.sort(inner, axis=0)

    def _inside(self, q: float) -> float:
        """P(Q <= q)."""
        panels = self._panels(q)
        total = 0.0
        number = panels.pieces.astype(np.intp)
        ends = np.cumsum(number)
        whole = int(ends[-1]) if ends.size else 0
        for begin in range(0, whole, _PANELS):
            piece = np.arange(begin, min(begin + _PANELS, whole))
            at = np.searchsorted(ends, piece, side="right")
            width = panels.width[at] / number[at]
            start = panels.start[at] + width * (piece - (ends[at] - number[at]))
            angle = start + width * 0.5 * (1.0 + _NODES[:, np.newaxis])
            count = panels.count[at].astype(np.intp)
            values = self._integrand(q, angle, count) * self._pmf[count]
            total += float(_WEIGHTS @ values @ (0.5 * width))
        return total

    def _integrand(self, q: float, angle: FloatArray, count: NDArray[np.intp]) -> FloatArray:
        """Density at an angle, of noises that leave the statistic below q."""
        r1, r2 = np.sqrt(q / self._weight)
        one, two = self._shift[:, count]
        rise = r1 * np.cos(angle)
        half = r2 * np.cos(angle)
        density = np.exp(self._laws[0]._logpdf(r1 * np.sin(angle) - one))
        between = self._laws[1]._cdf(half - two) - self._laws[1]._cdf(-half - two)
        return np.asarray(density * rise * between)
