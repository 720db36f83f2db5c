"""Sets of parameters that a test accepts, by their outermost points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.roots import find_root

Excess = Callable[[FloatArray, NDArray[np.intp]], FloatArray]
"""``excess(x, rows)``: p-values of some rows at parameters, less the level; >= 0 is accepted."""

_BEYOND = np.array([1e-5, 1e-3, 0.01, 0.04, 0.15, 0.5])
"""How far beyond an end is looked once more, relative to its distance from what is inside."""

_EVERYWHERE = 33
"""Points at which something accepted is looked for where the estimate is not."""

_DOUBLINGS = 64

_SHORT = 0.75
"""Where the end is not as far as expected, that part of the way is looked at next."""


def outermost(
    excess: Excess,
    inside: FloatArray,
    limit: FloatArray,
    step: FloatArray,
    *,
    atol: FloatArray | float = 0.0,
    rtol: float = 1e-11,
    is_monotone: bool = False,
) -> FloatArray:
    """Outermost accepted parameter of each row, from one that is accepted towards a limit.

    ``step`` is about how far the end may be. The first point that is rejected is looked for around
    there and beyond in doubling steps, and the end in between. Unless the p-value ``is_monotone``,
    some points beyond are looked at, too, so that the hull of what is accepted is found where
    p-values jump.
    """
    everything = np.arange(inside.size)
    sign = np.where(limit >= inside, 1.0, -1.0)
    end = np.array(limit)
    open_ = np.flatnonzero((limit != inside) & ~(excess(limit, everything) >= 0.0))
    near, far = np.array(inside), np.array(limit)
    width, left = np.array(step), open_
    for doubling in range(_DOUBLINGS):
        if not left.size:
            break
        reach = np.minimum(width[left], np.abs(limit[left] - inside[left]))
        at = inside[left] + sign[left] * reach
        held = (excess(at, left) >= 0.0) & (at != limit[left])
        near[left] = np.where(held, at, near[left])
        far[left] = np.where(held, far[left], at)
        if doubling == 0 and not held.all():  # from the other side, too
            short = left[~held]
            at = inside[short] + sign[short] * _SHORT * reach[~held]
            is_near = excess(at, short) >= 0.0
            near[short] = np.where(is_near, at, near[short])
            far[short] = np.where(is_near, far[short], at)
        width[left] += step[left] * (1.0 - _SHORT) * 2.0**doubling
        left = left[held]
    end[open_] = _between(excess, near, far, open_, atol, rtol)
    if is_monotone or not open_.size:
        return end
    distance = np.maximum(np.abs(end - inside), step)[open_]
    beyond = _BEYOND[_BEYOND * distance.max() > np.min(atol)]
    points = end[open_] + sign[open_] * beyond[:, np.newaxis] * distance
    low, high = np.minimum(inside, limit)[open_], np.maximum(inside, limit)[open_]
    points = np.clip(points, low, high)
    rows = np.broadcast_to(open_, points.shape)
    accepted = (excess(points.ravel(), rows.ravel()) >= 0.0).reshape(points.shape)
    found = accepted.any(axis=0)
    last = accepted.shape[0] - 1 - np.argmax(accepted[::-1], axis=0)
    moved = np.flatnonzero(found & (last < accepted.shape[0] - 1))
    ended = np.flatnonzero(found & (last == accepted.shape[0] - 1))
    end[open_[ended]] = points[-1, ended]
    if moved.size:
        near[open_[moved]], far[open_[moved]] = (
            points[last[moved], moved],
            points[last[moved] + 1, moved],
        )
        end[open_[moved]] = _between(excess, near, far, open_[moved], atol, rtol)
    return end


def _between(
    excess: Excess,
    near: FloatArray,
    far: FloatArray,
    rows: NDArray[np.intp],
    atol: FloatArray | float,
    rtol: float,
) -> FloatArray:
    """Last accepted points between accepted and rejected ones."""
    if not rows.size:
        return np.empty(0)
    tolerance = np.broadcast_to(atol, near.shape)[rows]
    low, high = find_root(
        lambda x, index: excess(x, rows[index]),
        near[rows],
        far[rows],
        atol=float(tolerance.min()),
        rtol=rtol,
    )
    return np.where(near[rows] <= far[rows], low, high)


def accepted(
    excess: Excess, start: FloatArray, low: FloatArray, high: FloatArray, step: FloatArray
) -> FloatArray:
    """Return an accepted parameter of each row: the start, or what a search finds; NaN if none."""
    inside = np.clip(start, low, high)
    rows = np.flatnonzero(~(excess(inside, np.arange(start.size)) >= 0.0))
    if rows.size:
        away = (
            step[rows]
            * np.concatenate([[0.0], np.geomspace(1e-3, 64.0, _EVERYWHERE // 2)])[:, np.newaxis]
        )
        grid = np.concatenate([inside[rows] - away, inside[rows] + away, [low[rows], high[rows]]])
        grid = np.clip(grid, low[rows], high[rows])
        values = excess(grid.ravel(), np.broadcast_to(rows, grid.shape).ravel()).reshape(grid.shape)
        best = np.argmax(values, axis=0)[np.newaxis]
        top = np.take_along_axis(values, best, axis=0)[0]
        place = np.take_along_axis(grid, best, axis=0)[0]
        inside[rows] = np.where(top >= 0.0, place, np.nan)
    return inside
