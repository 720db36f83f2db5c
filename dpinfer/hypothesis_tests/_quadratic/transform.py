"""The characteristic function of the statistic given the total of the counts."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray
from dpinfer.hypothesis_tests._quadratic.terms import Cells

_LOSS = 38.0
"""Logarithm of the relative size below which terms are left out."""

_ELEMENTS = 1 << 18
"""Complex numbers in a block."""


class Transform:
    """φ(t) = E[exp(itQ)] for Q = Σ a(X + e - c)², X multinomial with a known total n.

    Multinomial counts are Poisson counts given their total, so that φ(t) is the coefficient of
    that total: (1/2π) ∫ Π φᵢ(t, θ) dθ over the circle, with φᵢ the characteristic function of a
    cell at t and of its count at θ, divided by the same at t = 0. The trapezoidal rule with M
    nodes errs by the probability of totals that differ from n by multiples of M. For small t the
    integrand is a narrow peak around θ = 0, outside of which nodes are left out.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        nobs = float(cells.nobs)
        # P(total = n ± M)/P(total = n) < exp(-M²/(2n + M))
        self.circle = int(np.ceil(_LOSS + np.sqrt(_LOSS**2 + 2.0 * _LOSS * nobs))) | 1
        self._widening = 1.0
        self._prepared: tuple[int, FloatArray, list[list[ComplexArray]]] | None = None

    @property
    def size(self) -> int:
        """Points of all cells together: the cost of one value at one θ."""
        return sum(factor.size for factor in self.cells.factors)

    def nodes(self, t: float) -> int:
        """Number of nodes of the trapezoidal rule on each side of 0 that matter up to t."""
        cells = self.cells
        variance = np.array([part.variance for part in cells.parts])[cells.kind]
        s = 1j * cells.weight * t
        for number, part in enumerate(cells.parts):
            r = part.pmf.size // 2
            own = float(part.pmf @ np.square(np.arange(-r, r + 1.0)))
            variance = np.where(cells.kind == number, variance + own, variance)
        bend = cells.rate * (1.0 - 2.0 * s * variance) / (1.0 - 2.0 * s * (cells.rate + variance))
        curvature = float(cells.count @ bend.real)
        width = self._widening * np.sqrt(2.0 * _LOSS / curvature)
        return int(min(np.ceil(width * self.circle / (2.0 * np.pi)) + 1, self.circle // 2))

    def __call__(self, t: FloatArray) -> ComplexArray:
        """Evaluate at increasing t > 0."""
        out = np.empty(t.shape, dtype=np.complex128)
        start = 0
        while start < t.size:
            half = self.nodes(float(t[start]))
            stop = start + max(1, min(_ELEMENTS // (2 * half + 1), 64))
            block = t[start:stop]
            out[start:stop] = self._block(block)
            start = stop
        return out

    def _block(self, t: FloatArray) -> ComplexArray:
        while True:
            half = self.nodes(float(t[-1]))
            product = self._product(t, half)
            if 2 * half + 1 >= self.circle:
                break
            edge = np.abs(product[[0, 1, -2, -1]]).max() * half
            if edge <= 1e-15 * self.scale:
                break
            self._widening *= 1.5
        return np.asarray(product.sum(axis=0) / self.scale)

    @cached_property
    def scale(self) -> float:
        """The sum at t = 0, where it is the probability of the total."""
        return float(self._product(np.zeros(1), self.nodes(0.0)).sum().real)

    def _product(self, t: FloatArray, half: int) -> ComplexArray:
        """Product over the cells, shape (θ, t)."""
        if self._prepared is None or self._prepared[0] != half:
            theta = 2.0 * np.pi * np.arange(-half, half + 1) / self.circle
            joint = [list(factor.prepare(theta)) for factor in self.cells.factors]
            self._prepared = half, theta, joint
        half, theta, joint = self._prepared
        out = np.ones((theta.size, t.size), dtype=np.complex128)
        with np.errstate(under="ignore"):
            for factor, own in zip(self.cells.factors, joint, strict=True):
                out *= factor.evaluate(t, own)
        # the expectations add up to the total, but for rounding
        shift = float(self.cells.count @ self.cells.rate) - self.cells.nobs
        return out * np.exp(1j * theta * shift)[:, None]
