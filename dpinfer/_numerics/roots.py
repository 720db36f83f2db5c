"""Roots of many monotone equations at once, in brackets; maxima over whole numbers.

SciPy's root finder for arrays goes by the same method. It takes 3.5 times as long for a hundred
equations and 1.7 times for ten thousand (SciPy 1.17), and loading ``scipy.optimize`` takes longer
than a test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer._numerics.lattice import batches
from dpinfer.errors import ConvergenceError

MAX_EXPANSIONS = 200
MAX_STEPS = 200

Function = Callable[[FloatArray, NDArray[np.intp]], FloatArray]


def find_root(
    function: Function,
    lower: FloatArray,
    upper: FloatArray,
    *,
    rtol: float = 1e-13,
    atol: float = 0.0,
    expand: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Shrink brackets around the sign changes of many decreasing functions.

    Chandrupatla's method (1997, Advances in Engineering Software 28:145-149,
    doi:10.1016/S0965-9978(96)00051-8): inverse quadratic steps where they are safe, bisection
    elsewhere, so that jumps are bracketed as well as roots.

    ``function``: ``function(x, index)`` evaluates equation ``index[j]`` at ``x[j]``. Each equation
    is non-increasing in x; only equations still open are evaluated; ``lower``, ``upper`` (n,):
    brackets with function >= 0 at ``lower`` and <= 0 at ``upper``; ``rtol``, ``atol``: a bracket is
    closed when it is narrower than ``atol + rtol*abs(x)`` or the function is 0 at one end;
    ``expand``: move an end outwards, doubling the width each time, until the signs are as required.
    """
    a, b = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    everything = np.arange(a.size)
    fa, fb = function(a, everything), function(b, everything)
    if expand:
        _expand(function, a, b, fa, fb)
    if (wrong := ~((fa >= 0) & (fb <= 0))).any():
        at = int(np.flatnonzero(wrong)[0])
        raise ConvergenceError(f"no sign change between {a[at]} and {b[at]}")
    b = np.where(fa == 0, a, b)
    a = np.where((fb == 0) & (fa != 0), b, a)
    c, fc = a, fa
    share = np.full(a.size, 0.5)
    index: NDArray[np.intp] = everything
    ends = np.empty((2, a.size))
    for _ in range(MAX_STEPS):
        width, size_a, size_b = np.abs(b - a), np.abs(a), np.abs(b)
        floor = atol + rtol * np.minimum(size_a, size_b)
        open_ = (width > floor) & (width > 4e-16 * np.maximum(size_a, size_b))
        if not open_.size or not open_.all():
            ends[0, index], ends[1, index] = np.minimum(a, b), np.maximum(a, b)
            if not open_.any():
                return ends[0], ends[1]
            index = index[open_]
            a, b, c, fa, fb, fc, share, width, floor = (
                v[open_] for v in (a, b, c, fa, fb, fc, share, width, floor)
            )
        # one end may be on the root already: step over it, so that the other comes near
        least = np.minimum(0.5 * floor / width, 0.5)
        x = a + np.minimum(np.maximum(share, least), 1.0 - least) * (b - a)
        fx = function(x, index)
        same = (fx > 0) == (fa > 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        if not (fa.all() and fb.all()):  # a root at one end closes the bracket
            b = np.where(fa == 0, a, b)
            a = np.where((fb == 0) & (fa != 0), b, a)
        share = _next_share(a, b, c, fa, fb, fc)
    raise ConvergenceError(f"root finder still open after {MAX_STEPS} steps")


def _expand(
    function: Function, a: FloatArray, b: FloatArray, fa: FloatArray, fb: FloatArray
) -> None:
    """Move the ends apart, in place, until the function changes sign between them."""
    for end, value, other, sign in ((a, fa, b, -1.0), (b, fb, a, 1.0)):
        for _ in range(MAX_EXPANSIONS):
            bad = np.flatnonzero(sign * value > 0)
            if not bad.size:
                break
            width = np.maximum(np.abs(b[bad] - a[bad]), 1e-300)
            # the old end brackets the root from the other side
            other[bad] = end[bad]
            (fb if other is b else fa)[bad] = value[bad]
            end[bad] += sign * 2.0 * width
            value[bad] = function(end[bad], bad)


def _next_share(
    a: FloatArray, b: FloatArray, c: FloatArray, fa: FloatArray, fb: FloatArray, fc: FloatArray
) -> FloatArray:
    """Where to look next between a and b: inverse quadratic where that is safe, else half way."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
            fc - fb
        )
    return np.where(safe & np.isfinite(share), share, 0.5)


# The largest value of many functions of a whole number, each over a range of its own.


Tail = Callable[[FloatArray, NDArray[np.intp]], FloatArray]
"""``tail(nuisance, rows)``: the values of some rows, each at its own whole number."""

ENUMERATED = 4096
"""Largest number of whole numbers in a range that are all looked at."""

_GRID = 257
_ZOOM = 65
_POINTS = 1 << 16
"""Points of the grid in a longer range, of each refinement, and evaluated at a time."""


def largest_over_integers(tail: Tail, low: FloatArray, high: FloatArray) -> FloatArray:
    """Maximum of each row's tail over the whole numbers from ``low`` to ``high``.

    All of them are looked at where there are at most ``ENUMERATED``; otherwise a grid, even in
    the square root, and then the neighbourhood of its maximum, more and more finely.
    """
    out = np.empty(low.size)
    size = high - low + 1.0
    few = size <= ENUMERATED
    for chosen in batches(np.where(few, size, 0.0), _POINTS):
        steps = np.arange(size[chosen[-1]])
        grid = np.minimum(low[chosen, np.newaxis] + steps, high[chosen, np.newaxis])
        out[chosen] = _on_grid(tail, grid, chosen).max(axis=1)
    for row in np.flatnonzero(~few):
        out[row] = _zoomed(tail, low[row], high[row], row)
    return out


def evaluated(low: FloatArray, high: FloatArray) -> FloatArray:
    """About how many tails of each row the search for the maximum evaluates."""
    size = high - low + 1.0
    zooms = np.log(np.maximum(size / _GRID, 1.0)) / np.log(0.5 * _ZOOM) + 1.0
    return np.where(size <= ENUMERATED, size, _GRID + _ZOOM * np.ceil(zooms))


def _on_grid(tail: Tail, grid: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    repeated = np.repeat(rows, grid.shape[1])
    return tail(grid.ravel(), repeated).reshape(grid.shape)


def _zoomed(tail: Tail, low: float, high: float, row: np.intp) -> float:
    """Maximum over a long range, by a grid and refinements around its best point."""
    best, points = 0.0, _GRID
    rows = np.array([row])
    while True:
        grid = np.unique(np.rint(np.linspace(np.sqrt(low), np.sqrt(high), points) ** 2))
        values = _on_grid(tail, grid[np.newaxis], rows)[0]
        at = int(np.argmax(values))
        best = max(best, float(values[at]))
        finer = grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)]
        if grid.size == high - low + 1.0 or finer == (low, high):
            return best
        (low, high), points = finer, _ZOOM
