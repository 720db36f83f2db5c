"""A vectorised root finder with guaranteed brackets, for many monotone equations at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
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

    Parameters
    ----------
    function : callable
        ``function(x, index)`` evaluates equation ``index[j]`` at ``x[j]``. Each equation is
        non-increasing in x; only equations still open are evaluated.
    lower, upper : ndarray, shape (n,)
        Brackets with function >= 0 at ``lower`` and <= 0 at ``upper``.
    rtol, atol : float
        A bracket is closed when it is narrower than ``atol + rtol*abs(x)`` or the function is 0
        at one end.
    expand : bool
        Move an end outwards, doubling the width each time, until the signs are as required.

    Returns
    -------
    lower, upper : ndarray, shape (n,)
        The final brackets. Where the root was hit exactly, both ends are that root.

    Raises
    ------
    ConvergenceError
        If the signs at the ends are wrong and expanding does not help.
    """
    a, b = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    everything = np.arange(a.size)
    fa, fb = function(a, everything), function(b, everything)
    if expand:
        _expand(function, a, b, fa, fb)
    if (wrong := ~((fa >= 0) & (fb <= 0))).any():
        at = int(np.flatnonzero(wrong)[0])
        raise ConvergenceError(f"no sign change between {a[at]} and {b[at]}")
    _collapse(a, b, fa, fb)
    c, fc = a.copy(), fa.copy()
    share = np.full(a.size, 0.5)
    for _ in range(MAX_STEPS):
        width = np.abs(b - a)
        floor = atol + rtol * np.minimum(np.abs(a), np.abs(b))
        open_ = np.flatnonzero((width > floor) & (width > 4e-16 * np.maximum(abs(a), abs(b))))
        if not open_.size:
            return np.minimum(a, b), np.maximum(a, b)
        # one end may be on the root already: step over it, so that the other comes near
        least = np.minimum(0.5 * floor[open_] / width[open_], 0.5)
        step = np.clip(share[open_], least, 1.0 - least)
        x = a[open_] + step * (b[open_] - a[open_])
        fx = function(x, open_)
        same = (fx > 0) == (fa[open_] > 0)
        c[open_] = np.where(same, a[open_], b[open_])
        fc[open_] = np.where(same, fa[open_], fb[open_])
        b[open_] = np.where(same, b[open_], a[open_])
        fb[open_] = np.where(same, fb[open_], fa[open_])
        a[open_], fa[open_] = x, fx
        _collapse(a, b, fa, fb)
        share[open_] = _next_share(*(v[open_] for v in (a, b, c, fa, fb, fc)))
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


def _collapse(a: FloatArray, b: FloatArray, fa: FloatArray, fb: FloatArray) -> None:
    """Close, in place, the brackets that have a root at one end."""
    b[:] = np.where(fa == 0, a, b)
    a[:] = np.where((fb == 0) & (fa != 0), b, a)


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
