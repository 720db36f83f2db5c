"""What is left of an integral along a vertical line beyond some height: certified bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.laplace import LaplaceLoss
from dpinfer.privacy.losses._laws.law import LossLaw

Bound = Callable[[FloatArray], FloatArray]
"""Upper bound on ∫ abs(M(θ+it)/M(θ))/t² dt over t > T, for heights T > 0."""

WINDOW_NODES = 400


def left_over(parts: Iterable[tuple[LossLaw, int]], theta: float, period: float = np.inf) -> Bound:
    """Bound for a sum of losses; with a ``period``, of the integral up to half of it only.

    Laws without revivals before the end are bounded by their size at T. The transform of a lattice
    comes back to 1 once in each of its own periods P, in windows of a small area W: those add up to
    W·Σ 1/((m-1/2)P)². One lattice law is bounded in that way, whichever is best.
    """
    fading: list[tuple[LossLaw, int]] = []
    reviving: list[tuple[LossLaw, int]] = []
    for law, count in parts:
        (fading if law.period >= period * (1.0 - 1e-9) else reviving).append((law, count))
    windows = [_Windows(law, count, theta) for law, count in reviving]

    def bound(t: FloatArray) -> FloatArray:
        best = 1.0 / t
        for window in windows:
            best = np.minimum(best, window(t))
        log_size = np.zeros(t.shape)
        for law, count in fading:
            log_size += count * np.minimum(law.log_decay(t, theta), 0.0)
        return np.asarray(best * np.exp(log_size))

    return bound


def without_atoms(laplace: Iterable[tuple[LaplaceLoss, int]], theta: float, rest: Bound) -> Bound:
    """Bound for Laplace losses less the term that has only atoms.

    With r the density's share over that of the atoms, Π(1 + rᵢ) - 1 is at most y·e^y, y = Σ rᵢ.
    """

    def bound(t: FloatArray) -> FloatArray:
        log_atoms, y, log_all = np.zeros(t.shape), np.zeros(t.shape), np.zeros(t.shape)
        for law, count in laplace:
            atoms, density = law.shares(t, theta)
            log_atoms += count * np.log(atoms)
            log_all += count * np.log(np.minimum(atoms + density, 1.0))
            y += count * density / atoms
        some = np.exp(np.minimum(y + log_atoms, 700.0)) * y
        return np.asarray(rest(t) * np.minimum(some, np.exp(log_all) + np.exp(log_atoms)))

    return bound


class _Windows:
    """∫ m(t)/t² over t > T for an even periodic m that falls up to half its period."""

    def __init__(self, law: LossLaw, count: int, theta: float) -> None:
        self.half = 0.5 * law.period
        self.law, self.count, self.theta = law, count, theta
        # m falls: its area is at most a sum of its values at the left ends
        t = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, WINDOW_NODES)]) * self.half
        m = np.concatenate([[1.0], self._size(t[1:-1])])
        self.area = 2.0 * float(np.sum(m * np.diff(t)))

    def __call__(self, t: FloatArray) -> FloatArray:
        number = np.maximum(np.floor(0.5 * t / self.half + 0.5), 1.0)
        later = self.area * special.polygamma(1, number - 0.5) / (2.0 * self.half) ** 2
        inside = t < self.half
        first = np.zeros(t.shape)
        first[inside] = self._size(t[inside]) * (1.0 / t[inside] - 1.0 / self.half)
        return np.asarray(first + later)

    def _size(self, t: FloatArray) -> FloatArray:
        log_size = np.minimum(self.law.log_decay(t, self.theta), 0.0)
        return np.asarray(np.exp(self.count * log_size))
