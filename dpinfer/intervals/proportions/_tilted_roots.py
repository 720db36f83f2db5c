"""Where tails that are known in closed form have a given probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.intervals.proportions._beta_tails import COARSE, FINE
from dpinfer.intervals.proportions._edges import Edge
from dpinfer.intervals.proportions._tilted import Expansion, TiltedTails

LARGEST_NOBS = 1e8
"""Up to here rounding costs no more than 1e-11 of a tail."""

_LARGEST_RATE = 400.0
"""A fall by e^-400 is as good as one to nothing; the odds remain finite."""

_FARTHEST = 250.0
"""Logits beyond it are not looked at."""

_BLOCK = 4096
"""Rows at a time, so that they stay in the cache."""

_STEPS = 12

_LONGEST_STEP = 3.0

_FIRST_ORDER = 0.5
"""Where corrections of Newton's step are larger than that, they are not made."""

_TOLERANCE = 1e-13
"""Error of the logarithm of a tail."""

_NEAR = 0.05


def tilted_roots(nobs: FloatArray, edge: Edge, probability: float, start: FloatArray) -> FloatArray:
    """Logits of p at which P(T >= t) has a given value.

    Parameters
    ----------
    nobs : array of float, shape (m,)
        Number of trials.
    edge : Edge
        The edges of the noise, in m rows.
    probability : float
        Value of the tail, at most 1/2.
    start : array of float, shape (m,)
        Logits near the roots.

    Returns
    -------
    array of float, shape (m,)
        The roots. NaN where they are not found to within 1e-11 of the tail, which is rare.
    """
    root = np.full(nobs.size, np.nan)
    with np.errstate(all="ignore"):
        beyond = np.flatnonzero(edge.k >= nobs)
        root[beyond] = _beyond_all(nobs[beyond], edge.take(beyond), probability)
        inside = np.flatnonzero((edge.k >= 0.0) & (edge.k < nobs) & (nobs <= LARGEST_NOBS))
        edge = edge._replace(rate=np.minimum(edge.rate, _LARGEST_RATE))
        for first in range(0, inside.size, _BLOCK):
            rows = inside[first : first + _BLOCK]
            tails = TiltedTails(nobs=nobs[rows], edge=edge.take(rows))
            root[rows] = _found(tails, probability, start[rows])
    return root


def _beyond_all(nobs: FloatArray, edge: Edge, probability: float) -> FloatArray:
    """Root of near·a^k·(q + p/a)^n, the tail where t is beyond all counts."""
    # q + p/a = exp(up), and a·exp(up) = exp(-down)
    log_ratio = np.log(probability / edge.near)
    up = (log_ratio + edge.k * edge.rate) / nobs
    down = ((nobs - edge.k) * edge.rate - log_ratio) / nobs
    return np.asarray(np.log(-np.expm1(-up)) - down - np.log(-np.expm1(-down)))


def _found(tails: TiltedTails, probability: float, logit: FloatArray) -> FloatArray:
    """Third-order steps for the logarithm of the tails, the first from a coarse evaluation."""
    root = np.full(logit.size, np.nan)
    rows = np.arange(logit.size)
    logit = logit + _step(tails.at(logit, COARSE), probability)[0]
    for _ in range(_STEPS):
        step, last = _step(tails.at(logit, FINE), probability)
        logit = logit + step
        root[rows[last]] = logit[last]
        open_ = np.flatnonzero(~last & (np.abs(logit) < _FARTHEST))
        if not open_.size:
            break
        tails, rows, logit = tails.take(open_), rows[open_], logit[open_]
    return root


def _step(at: Expansion, probability: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the steps towards the roots, and whether they reach them.

    For the logarithm f of the tail over its wanted value, and x = f/f', the root is
    -x·(1 + s + 2s² - r + …) away, with s = x·f''/(2f') and r = x²·f'''/(6f').
    """
    f = np.log(at.tail / probability)
    slope, bend, turn = (derivative / at.tail for derivative in at[1:4])
    x = f / slope
    s = 0.5 * x * (bend / slope - slope)
    r = np.square(x) * ((turn - 3.0 * slope * bend) / slope + 2.0 * np.square(slope)) / 6.0
    order = np.maximum(np.abs(s), np.sqrt(np.abs(r)))
    step = -x * np.where(order < _FIRST_ORDER, 1.0 + s + 2.0 * np.square(s) - r, 1.0)
    # the next term of the series is about the cube of this, relative to the step
    order = np.maximum(order, np.maximum(np.abs(f), np.abs(x)))
    last = (order < _NEAR) & (np.abs(f) * order**3 < _TOLERANCE)
    # beyond, errors of the rule count
    last &= np.abs(x) * at.gain < 1.0
    return np.clip(step, -_LONGEST_STEP, _LONGEST_STEP), last
