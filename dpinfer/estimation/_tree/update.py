"""Gaussian vectors of which some functionals are unknown and some are known exactly.

A vector is known up to a flat part, along the range of the projector D, and noise of covariance U;
functionals in the range of the projector X have no noise. So U and D vanish on X, and U is taken
to vanish on D, where it does not matter. That is the limit of the covariance κD + U for κ → ∞, as
in the exact diffuse Kalman filter. Ranks are decided on the projectors only, never on variances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.queries.hierarchy import Places

RANK = 1e-9
"""Share of the square of a functional above which it is not in the null space of a projector."""


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What is known of n vectors of g levels: U, D and X, each of shape (n, g, g)."""

    finite: FloatArray
    unknown: FloatArray
    exact: FloatArray

    def __getitem__(self, rows: Places | NDArray[np.bool_] | slice) -> Beliefs:
        """Select vectors."""
        return Beliefs(self.finite[rows], self.unknown[rows], self.exact[rows])

    @classmethod
    def unmeasured(cls, active: NDArray[np.bool_]) -> Beliefs:
        """Know nothing but that inactive levels are 0, shape (n, g)."""
        unknown = diagonal(active.astype(float))
        return cls(np.zeros(unknown.shape), unknown, diagonal((~active).astype(float)))

    def plain(self) -> NDArray[np.bool_]:
        """Tell where nothing is unknown, and single levels are all that is exact, shape (n,)."""
        size = self.exact.shape[-1]
        levels = np.einsum("nii->ni", self.exact)
        away = np.abs(self.exact - diagonal(np.round(levels)))
        return np.asarray(
            (np.abs(self.unknown).reshape(-1, size * size).max(axis=1) < RANK)
            & (away.reshape(-1, size * size).max(axis=1) < RANK)
        )


@dataclass(frozen=True, eq=False)
class Update:
    """What measurements of rows do to n vectors."""

    beliefs: Beliefs  # Thereafter
    mix: FloatArray  # (n, g, g + r): the estimates thereafter, from those before and the r values
    checked: Places  # (c,): vectors of which an exact value was known before
    # (c, g + r): combination of the estimates before and the values that is then 0
    checks: FloatArray


def diagonal(entries: FloatArray) -> FloatArray:
    """Return diagonal matrices, shape (n, g, g), from their entries, shape (n, g)."""
    return np.asarray(entries[:, :, None] * np.eye(entries.shape[1]))


def outer(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return products of columns and rows, shape (n, g, h)."""
    return np.asarray(left[:, :, None] * right[:, None, :])


def absorb(
    before: Beliefs,
    rows: FloatArray,
    variance: FloatArray,
    zero: NDArray[np.bool_] | None = None,
) -> Update:
    """Take in values of rows, shape (r, g), one by one."""
    number, size = variance.shape[0], rows.shape[1]
    state = [before.finite.copy(), before.unknown.copy(), before.exact.copy()]
    mix = np.zeros((number, size, size + len(rows)))
    mix[:, :, :size] = np.eye(size)
    checks: list[tuple[Places, FloatArray]] = []
    for level in range(size if zero is not None and zero.any() else 0):
        own = np.where(zero[:, level], 0.0, np.inf) if zero is not None else variance[:, 0]
        _step(state, mix, checks, np.eye(size)[level], own, None)
    for exact in (True, False):
        for place, row in enumerate(rows):
            own = np.where((variance[:, place] == 0.0) == exact, variance[:, place], np.inf)
            _step(state, mix, checks, row, own, size + place)
    finite, unknown, known = state
    free = np.eye(size) - unknown - known
    finite = free @ finite @ free
    finite = 0.5 * (finite + finite.transpose(0, 2, 1))
    checked = np.concatenate([np.empty(0, dtype=np.intp), *(nodes for nodes, _ in checks)])
    found = np.concatenate([np.empty((0, size + len(rows))), *(check for _, check in checks)])
    return Update(Beliefs(finite, unknown, known), mix, checked, found)


def _step(
    state: list[FloatArray],
    mix: FloatArray,
    checks: list[tuple[Places, FloatArray]],
    row: FloatArray,
    variance: FloatArray,
    column: int | None,
) -> None:
    """Take in one value a'x, of variance v, of each vector, in place."""
    nodes = np.flatnonzero(np.isfinite(variance))
    if not nodes.size:
        return
    chosen = slice(None) if nodes.size == len(mix) else nodes
    weights, (finite, unknown, exact) = mix[chosen], (part[chosen] for part in state)
    variance, square = variance[chosen], row @ row
    flat, noise = unknown @ row, finite @ row
    flatness, total = flat @ row, noise @ row + variance
    diffuse = flatness > RANK * square
    gain = noise / np.where(total > 0.0, total, 1.0)[:, None]
    if diffuse.any():
        share = 1.0 / np.where(diffuse, flatness, np.inf)
        gain = np.where(diffuse[:, None], flat * share[:, None], gain)
        unknown -= outer(flat, flat * share[:, None])
    predicted = row @ weights
    sure = variance == 0.0
    if sure.any():
        new = row - exact @ row
        length = np.einsum("ni,ni->n", new, new)
        fresh = sure & (length > RANK * square)
        exact += outer(new, new / np.where(fresh, length, np.inf)[:, None])
        known = sure & ~fresh
        gain[known] = 0.0
        check = predicted[known]
        if column is not None:
            check[:, column] -= 1.0
        checks.append((nodes[known], check))
    weights -= outer(gain, predicted)
    if column is not None:
        weights[:, :, column] += gain
    finite -= outer(gain, noise)
    if diffuse.any():
        finite -= outer(noise - gain * total[:, None], gain)
    if isinstance(chosen, np.ndarray):
        mix[chosen] = weights
        for part, value in zip(state, (finite, unknown, exact), strict=True):
            part[chosen] = value


def range_projector(matrices: FloatArray) -> FloatArray:
    """Return projectors on the ranges of sums of projectors, shape (n, g, g)."""
    values, vectors = np.linalg.eigh(matrices)
    size, largest = matrices.shape[-1], values[:, -1:]
    noise = np.finfo(float).eps * np.maximum(largest, 1.0)
    kept = vectors * (values > size * (RANK + noise))[:, None, :]
    return np.asarray(kept @ kept.transpose(0, 2, 1))


def total_belief(finite: FloatArray, unknown: FloatArray, loose: FloatArray) -> Beliefs:
    """Return what is known of sums of vectors, from the sums of U, of D, and of I - X."""
    flat, moving = range_projector(unknown), range_projector(loose)
    free = moving - flat
    kept = free @ finite @ free
    return Beliefs(0.5 * (kept + kept.transpose(0, 2, 1)), flat, np.eye(flat.shape[-1]) - moving)


def total_inverse(
    finite: FloatArray, unknown: FloatArray, total: Beliefs
) -> tuple[FloatArray, FloatArray]:
    """Return T0 and T1 in the inverse T0 + T1/κ + ... of κ S1 + S0 outside of what is exact.

    S0 and S1 are the sums of U and of D, and ``total`` is what is known of the sum.
    """
    size = finite.shape[-1]
    fixed = total.unknown + total.exact
    rank = size - np.einsum("nii->n", fixed)
    scale = np.einsum("nii->n", total.finite) / np.maximum(rank, 1.0)
    scale = np.where((rank > 0.5) & (scale > 0.0), scale, 1.0)[:, None, None]
    inverse = np.linalg.inv(total.finite + scale * fixed) - fixed / scale
    still = np.eye(size) - total.unknown
    flat = np.linalg.inv(unknown + still) - still
    carried = np.eye(size) - inverse @ finite
    return inverse, carried @ flat @ carried.transpose(0, 2, 1)


def sums_of_others(matrices: FloatArray, counts: Places) -> FloatArray:
    """Return for each matrix the sum of the others of its family, without any subtraction.

    Families are neighbours, of these numbers of members.
    """
    found = np.zeros(matrices.shape)
    starts = np.cumsum(counts) - counts
    for count in np.unique(counts[counts > 1]):
        members = starts[counts == count][:, None] + np.arange(count)
        own = matrices[members]
        before = np.cumsum(own, axis=1)[:, :-1]
        after = np.cumsum(own[:, ::-1], axis=1)[:, -2::-1]
        others = np.zeros(own.shape)
        others[:, 1:] += before
        others[:, :-1] += after
        found[members] = others
    return found
