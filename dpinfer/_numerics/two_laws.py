"""Two laws of one report: how much it tells them apart.

The loss of a report is L = ln(P/Q). A report is described by its masses under P and Q alone, and
only those of equal loss need be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer._check import FloatArray

SAME = 1e-13
"""Losses so close, relative to the largest, are one."""

_BLOCK = 1 << 21


@dataclass(frozen=True, eq=False)
class TwoLaws:
    """Masses of reports under P and under Q, the largest loss first.

    ``p_only`` and ``q_only`` are the masses of reports that the other law never gives.
    """

    p: FloatArray
    q: FloatArray
    p_only: float = 0.0
    q_only: float = 0.0

    @classmethod
    def of(cls, p: FloatArray, q: FloatArray) -> TwoLaws:
        both = (p > 0) & (q > 0)
        p_only, q_only = float(p[q == 0].sum()), float(q[p == 0].sum())
        return _merged(p[both], q[both], p_only, q_only)

    @cached_property
    def loss(self) -> FloatArray:
        """Losses that both laws have, falling."""
        return np.asarray(np.log(self.p) - np.log(self.q))

    @property
    def largest(self) -> float:
        if self.p_only > 0:
            return np.inf
        return float(self.loss[0]) if self.p.size else -np.inf

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Σ (P - e^ε·Q)₊ at a vector of ε of any sign."""
        found = np.full(epsilon.shape, self.p_only)
        rows = max(_BLOCK // max(self.p.size, 1), 1)
        for start in range(0, epsilon.size, rows):
            beyond = np.minimum(epsilon[start : start + rows, None] - self.loss, 0.0)
            found[start : start + rows] -= np.expm1(beyond) @ self.p
        return np.asarray(np.minimum(found, 1.0))

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence of P from Q, of an order in [1, ∞]."""
        if self.p_only > 0:
            return np.inf
        if np.isinf(order):
            return self.largest
        # with the loss of what Q alone gives the masses of both add up to 1
        if order == 1.0:
            gain = np.exp(-self.loss) - 1.0 + self.loss
            return max(float(self.p @ gain) + self.q_only, 0.0)
        exponent = (order - 1.0) * self.loss
        if exponent.max() < 1.0:
            return max(float(np.log1p(self.p @ np.expm1(exponent))) / (order - 1.0), 0.0)
        top = float(exponent.max())
        return float(top + np.log(self.p @ np.exp(exponent - top))) / (order - 1.0)


def _merged(p: FloatArray, q: FloatArray, p_only: float, q_only: float) -> TwoLaws:
    """Sort by the loss, and take reports of equal loss for one."""
    loss = np.log(p) - np.log(q)
    order = np.argsort(-loss, kind="stable")
    loss, p, q = loss[order], p[order], q[order]
    if loss.size:
        scale = SAME * max(float(np.abs(loss[[0, -1]]).max()), 1.0)
        first = np.flatnonzero(np.concatenate([[True], np.diff(loss) < -scale]))
        if first.size < loss.size:
            p, q = np.add.reduceat(p, first), np.add.reduceat(q, first)
    return TwoLaws(p, q, p_only, q_only)
