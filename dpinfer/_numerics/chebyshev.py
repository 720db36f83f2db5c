"""Piecewise Chebyshev interpolation of an expensive smooth function on a half-line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpinfer._validation import FloatArray

DEGREE = 24


class HalfLineTable:
    """A function on x >= 0, smooth at relative scales, tabulated on panels of doubling width.

    Panels are filled when they are first needed. The function should be smooth on (0, inf), with
    nothing happening at scales below ``finest`` around 0.
    """

    def __init__(self, function: Callable[[FloatArray], FloatArray], finest: float) -> None:
        self._function = function
        self._finest = finest
        self._nodes = np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)
        # values at the nodes to Chebyshev coefficients
        self._transform = np.linalg.inv(np.polynomial.chebyshev.chebvander(self._nodes, DEGREE - 1))
        self._panels = np.zeros((0, DEGREE))

    def __call__(self, x: FloatArray) -> FloatArray:
        """Evaluate at x >= 0."""
        _, exponent = np.frexp(x / self._finest)
        panel = np.maximum(exponent, 0)
        self._fill(int(panel.max(initial=-1)) + 1)
        left = np.where(panel > 0, np.ldexp(self._finest, panel - 1), 0.0)
        right = np.ldexp(self._finest, panel)
        y = (2.0 * x - (left + right)) / (right - left)
        return self._clenshaw(panel, y)

    def _fill(self, count: int) -> None:
        while len(self._panels) < count:
            panel = len(self._panels)
            right = np.ldexp(self._finest, panel)
            left = 0.5 * right if panel else 0.0
            x = 0.5 * (left + right) + 0.5 * (right - left) * self._nodes
            row = self._transform @ self._function(x)
            self._panels = np.vstack([self._panels, row])

    def _clenshaw(self, panel: FloatArray, y: FloatArray) -> FloatArray:
        out = np.empty(y.shape)
        for number in np.unique(panel):
            at = panel == number
            out[at] = np.polynomial.chebyshev.chebval(y[at], self._panels[number])
        return out
