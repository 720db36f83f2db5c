"""Tails of the statistic from its characteristic function.

The route for many cells, for three and more with continuous noise, and the last resort. It gives
up early where the accuracy that is wanted is out of reach.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.lattice import Lattice
from dpinfer.hypothesis_tests._quadratic.recurrence import recurrence
from dpinfer.hypothesis_tests._quadratic.support import support
from dpinfer.hypothesis_tests._quadratic.transform import Transform

TARGET = 1e-12
"""Absolute error at which no more nodes are added."""

_NEGLIGIBLE = 1e-14
_FIRST = 48
_GROWTH = 1.5
_KEPT = 0.8
"""Part of the nodes after which φ has to be negligible for it to have ended."""

_CHEAP, _BUDGET = 1e8, 2e9
"""Multiplications that are always spent on one law, and at most: 0.1 and 3 seconds or so."""

_FALL = 2.0
"""By how much errors fall at best with each block of nodes: this to the number of cells."""

_ENOUGH = 4e-9
"""Absolute error at which no more nodes are added once they are no longer cheap."""

_USELESS = 1e-8
"""Absolute error beyond which it does not matter what returns of φ contribute."""

_FADES = (1.0, 0.85, 0.7)
"""Ends of the fades, in terms of that of the nodes; two of them may agree by accident."""

_BASE_ERROR = 5e-13
_SLICE = 1 << 20


class Inversion:
    """P(Q >= q) by the trapezoidal rule for the integral of Gil-Pelaez.

    P(Q >= q) = 1/2 + (1/π) ∫_0^∞ Im[exp(-iqt) φ(t)] dt/t; with nodes at (j + 1/2)h it errs by the
    probability that abs(Q - q) exceeds 2π/h. For Q on a lattice of spacing δ, 1/t becomes
    (δ/2)/sin(δt/2), q the middle between two points of the lattice, and the integral ends at π/δ.

    Nodes are added until φ is negligible. Where it decays slowly, which is so for few cells, the
    integrand is faded out smoothly instead: that amounts to smoothing the law by a kernel all of
    whose moments vanish, and the difference between two fades tells the error.

    References
    ----------
    Gil-Pelaez, J. (1951). Note on the inversion theorem. Biometrika 38:481-482,
    doi:10.1093/biomet/38.3-4.481.
    Davies, R. B. (1973). Numerical inversion of a characteristic function. Biometrika 60:415-417,
    doi:10.1093/biomet/60.2.415.
    """

    def __init__(self, transform: Transform, lattice: Lattice | None) -> None:
        self._transform = transform
        self.low, self.high = support(transform)
        self._lattice, self._spacing = lattice, lattice.spacing if lattice is not None else 0.0
        span = 1.1 * (self.high - self.low)
        if lattice is None:
            self._step, self._most = 2.0 * np.pi / span, np.inf
        else:
            half = np.ceil(0.5 * span / self._spacing) + 1.0
            self._step, self._most = np.pi / (self._spacing * half), half
        self._t, self._phi = np.zeros(0), np.zeros(0, dtype=np.complex128)
        self._cost = 0.0
        self._missed: float | None = None
        self.usable = self._extend()

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._tails(q)[0]

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        if self._lattice is None:
            return 1.0 - self._tails(q)[0]
        beyond = self._lattice.origin + self._spacing * (self._lattice.last(q) + 1.0)
        return 1.0 - self._tails(beyond)[0]

    def error(self, q: FloatArray) -> FloatArray:
        """Estimate of the absolute error at q."""
        return self._tails(q)[1]

    def _tails(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper tails with their errors, adding nodes while that helps and is affordable."""
        points = np.ravel(q)
        inside = np.clip(points, self.low, self.high)
        while self.usable:
            value, error = self._evaluate(inside)
            error = np.where(points <= self.low, 0.0, error)
            aim = TARGET if self._cost <= _CHEAP else _ENOUGH
            # a law on a lattice can be followed through all returns, to the end of the period
            if np.all(error <= aim) and (not self._spacing or self._is_complete()):
                break
            unsettled = error[error > aim]
            least = float(unsettled.min()) if unsettled.size else aim
            if not self._is_promising(least) or not self._extend():
                break
        if not self.usable:
            return np.full(np.shape(q), np.nan), np.full(np.shape(q), np.inf)
        # the tails beyond the range are of no account
        value = np.where(points <= self.low, 1.0, np.clip(value, 0.0, 1.0))
        value = np.where(points > self.high, 0.0, value)
        missed = self._returns() if np.any(error <= _USELESS) else self._largest_return()
        error = np.where(points <= self.low, _BASE_ERROR, np.minimum(error + missed, 1.0))
        return value.reshape(np.shape(q)), error.reshape(np.shape(q))

    def _is_promising(self, error: float) -> bool:
        """Whether the nodes that are affordable might be enough."""
        size, cost, blocks = self._t.size, self._cost, 0
        least = np.log(error / _ENOUGH) / np.log(_FALL) / self._transform.cells.count.sum()
        while (block := self._block(size)).size:
            cost += self._transform.cost(block)
            if cost > _BUDGET:
                return False
            size, blocks = size + block.size, blocks + 1
            if cost <= _CHEAP or blocks >= least:
                return True
        # the end of the period of a lattice
        return True

    def _evaluate(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        t, point, kernel = self._t, q, 1.0 / self._t
        if self._lattice is not None:
            point = self._lattice.origin + self._spacing * (self._lattice.first(q) - 0.5)
            kernel = 0.5 * self._spacing / np.sin(0.5 * self._spacing * t)
        terms = self._phi * kernel * (self._step / np.pi)
        whole = self._has_ended()
        fades = [np.ones(t.size)] if whole else [_fade(t / (part * t[-1])) for part in _FADES]
        weighted = np.stack([terms * fade for fade in fades], axis=1)
        out = np.empty((q.size, len(fades)))
        rows = max(1, _SLICE // t.size)
        for start in range(0, q.size, rows):
            part = slice(start, start + rows)
            wave = np.exp(-1j * np.multiply.outer(point[part], t))
            out[part] = 0.5 + (wave @ weighted).imag
        return out[:, 0], _BASE_ERROR + 2.0 * np.abs(out[:, :1] - out).max(axis=1)

    def _has_ended(self) -> bool:
        """Whether φ has become negligible, or the nodes have come to the end of the period."""
        tail = np.abs(self._phi[int(_KEPT * self._t.size) :])
        return self._t.size == self._most or bool(np.all(tail <= _NEGLIGIBLE))

    def _is_complete(self) -> bool:
        """Whether φ is negligible up to the end of the period."""
        return self._has_ended() and self._returns() <= TARGET

    def _returns(self) -> float:
        """Estimate what returns of φ beyond the nodes contribute."""
        if self._t.size == self._most:
            return 0.0
        if self._missed is None:
            reach = np.pi / self._spacing if self._spacing else np.inf
            self._missed = recurrence(self._transform, self._width, float(self._t[-1]), reach)
        return self._missed

    def _largest_return(self) -> float:
        """Return what φ would contribute if it were 1 again just beyond the nodes."""
        return 2.0 * self._width / (np.pi * float(self._t[-1]))

    @property
    def _width(self) -> float:
        """Width of the peak at 0."""
        return self._step * float(np.abs(self._phi).sum())

    def _block(self, first: int) -> FloatArray:
        """Return the nodes that come after so many."""
        last = int(min(max(_FIRST, np.ceil(_GROWTH * first)), self._most))
        return np.asarray(self._step * (np.arange(float(first), last) + 0.5))

    def _extend(self) -> bool:
        """Add nodes, and tell whether that was possible."""
        t = self._block(self._t.size)
        cost = self._transform.cost(t)
        if self._cost + cost > _BUDGET:
            return False
        self._cost += cost
        self._t = np.append(self._t, t)
        self._phi = np.append(self._phi, self._transform(t))
        self._missed = None
        # a characteristic function cannot be larger than 1
        self.usable = bool(np.abs(self._phi).max() <= 1.0 + 1e-9)
        return self.usable


def _fade(u: FloatArray) -> FloatArray:
    """1 up to u = 1/2, 0 from u = 1 on, infinitely smooth between."""
    v = np.clip(2.0 * u - 1.0, 1e-9, 1.0 - 1e-9)
    with np.errstate(under="ignore"):
        return np.asarray(0.5 * special.erfc((2.0 * v - 1.0) / np.sqrt(v * (1.0 - v))))
