"""The characteristic function of the statistic given the total of the counts."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray
from dpinfer.hypothesis_tests._quadratic.terms import Cells, Prepared

_LOSS = 38.0
"""Logarithm of the relative size below which terms are left out."""

_LARGEST = 3e7
"""Complex numbers held at a time for all cells."""

_RESERVE = 1.3
_PER_ANGLE = 10.0
"""Cost of preparing a cell at one θ and point, in multiplications."""

_ALIASED = 31.0
"""The same for totals that the trapezoidal rule takes for n."""

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
        half = 0.5 * _ALIASED
        self.circle = int(np.ceil(half + np.sqrt(half**2 + 2.0 * _ALIASED * nobs))) | 1
        self._widening = 1.0
        self._prepared: tuple[int, FloatArray, list[Prepared]] | None = None

    def cost(self, t: FloatArray) -> float:
        """Multiplications that the values at increasing t take; inf where memory is short."""
        last, half = float(t[-1]), self.nodes(float(t[-1]))
        widest, angles = 2.0 * np.pi * half / self.circle, 2.0 * half + 1.0
        evaluated = [cell for factor in self.cells.factors for cell in factor.evaluated]
        if angles * sum(cell.fewest_points for cell in evaluated) > _LARGEST:
            return np.inf
        values, held = 0.0, 0.0
        for cell in evaluated:
            points = cell.points.size / cell.stride(last, widest)
            values += points * (angles + cell.noise.cost)
            held += cell.points.size * angles
            if held > _LARGEST:
                return np.inf
        return t.size * values + (0.0 if self._is_prepared(half) else _PER_ANGLE * held)

    def _is_prepared(self, half: int) -> bool:
        return self._prepared is not None and self._prepared[0] >= half

    def nodes(self, t: float) -> int:
        """Return how many nodes of the trapezoidal rule matter on each side of 0, up to t."""
        if t > self._peak_alone:
            return self.circle // 2
        cells = self.cells
        variance, s = cells.noise_variance, 1j * cells.weight * t
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
    def _peak_alone(self) -> float:
        """Up to which t there is no peak but that around θ = 0.

        exp(it·a·y²) with whole y is a sum of waves of θ where t·a/π is a simple fraction.
        """
        whole = np.array([part.is_integer for part in self.cells.parts])[self.cells.kind]
        return np.pi / (12.0 * float(self.cells.weight[whole].max())) if whole.any() else np.inf

    @cached_property
    def scale(self) -> float:
        """The sum at t = 0, where it is the probability of the total."""
        # there the product is exp(n(cos θ - 1)) in size
        widest = np.arccos(max(-1.0, 1.0 - _LOSS / self.cells.nobs))
        half = min(int(widest * self.circle / (2.0 * np.pi)) + 1, self.circle // 2)
        return float(self._product(np.zeros(1), half).sum().real)

    def _product(self, t: FloatArray, half: int) -> ComplexArray:
        """Product over the cells, shape (θ, t)."""
        if self._prepared is None or self._prepared[0] < half:
            # some more, so that larger t find them prepared
            most = min(int(_RESERVE * half) + 4, self.circle // 2)
            theta = 2.0 * np.pi * np.arange(-most, most + 1) / self.circle
            self._prepared = most, theta, [factor.prepare(theta) for factor in self.cells.factors]
        most, theta, joint = self._prepared
        used = slice(most - half, most + half + 1)
        theta = theta[used]
        out = np.ones((theta.size, t.size), dtype=np.complex128)
        with np.errstate(under="ignore"):
            for factor, own in zip(self.cells.factors, joint, strict=True):
                factor.multiply(out, t, theta, [array[used] for array in own])
        # the expectations add up to the total, but for rounding
        shift = float(self.cells.count @ self.cells.rate) - self.cells.nobs
        out *= np.exp(1j * theta * shift)[:, None]
        return out
