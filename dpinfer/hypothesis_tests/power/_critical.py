"""How far from its expectation a noisy count has to be for a test to reject."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._one_count import OneCount
from dpinfer.mechanisms._noisy_count import work_at_a_point
from dpinfer.mechanisms.independent import integer_cells

_NARROW = 0.4
"""Width of a bracket in which there is at most one atom on each side of the expectation."""

_PRECISION = 1e-13

_TAILS = 60.0
"""About how many tails the search for a critical value takes."""

_MOST_WORK, _WORK_FOR_EACH = float(1 << 27), float(1 << 19)
"""Work of all of them, some 15 s, and that which each of many rows may take, some 50 ms."""


def critical_distance(test: OneCount, alpha: float, alternative: Alternative) -> FloatArray:
    """Return the smallest distances, in counts, at which the exact test rejects.

    For the alternative ``"smaller"`` distances are counted downwards. Where the noise is
    whole-numbered they are those of whole numbers.
    """
    centre = np.atleast_1d(test.centre)
    _check_work(test, centre)
    rows = np.arange(centre.size)
    spread = np.sqrt(np.square(np.atleast_1d(test.spread)) + test.law.noise.variance)
    is_lattice = bool(integer_cells(test.law.noise, 1)[0])

    def margin(distance: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        part = _rows(test, index)
        tail = _tail(part, np.broadcast_to(part.centre, distance.shape), distance, alternative)
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(tail), -1e6) - np.log(alpha))

    _, high = find_root(
        margin,
        np.zeros(rows.size) if alternative == "two-sided" else -spread,
        spread,
        rtol=0.0 if is_lattice else _PRECISION,
        atol=_NARROW if is_lattice else 0.0,
        expand=True,
    )
    if not is_lattice:
        return high.reshape(test.centre.shape)
    above = np.floor(centre + high) - centre
    below = centre - np.ceil(centre - high)
    sides = {"larger": [above], "smaller": [below], "two-sided": [above, below]}[alternative]
    atoms = [np.where(margin(side, rows) <= 0.0, side, np.inf) for side in sides]
    nearest = np.min(atoms, axis=0)
    return np.where(np.isfinite(nearest), nearest, high).reshape(test.centre.shape)


def _check_work(test: OneCount, centre: FloatArray) -> None:
    """Refuse to look for a critical value if its tails are sums of too many terms."""
    low, high = test.law._window(centre, "upper")
    work = _TAILS * float(np.sum(high - low + 1.0)) * work_at_a_point(test.law.noise)
    if work > max(_MOST_WORK, _WORK_FOR_EACH * centre.size):
        raise InvalidParameterError(
            f"{' and '.join(test.law.parameters)}, or the noise, must be smaller for the power of "
            f"the exact test, which would take some {1e-7 * work:.2g} s: use method='normal'"
        )


def _tail(
    test: OneCount, centre: FloatArray, distance: FloatArray, alternative: Alternative
) -> FloatArray:
    """P-value at a distance."""
    if alternative == "larger":
        return test.larger(centre + distance)
    if alternative == "smaller":
        return test.smaller(centre - distance)
    return test.further(centre + distance)


def _rows(test: OneCount, index: NDArray[np.intp]) -> OneCount:
    """Return some rows of a test; all where they have one law."""
    if test.centre.ndim == 0:
        return test
    own: dict[str, Any] = {
        name: x[index] if x.ndim else x for name, x in test.law.parameters.items()
    }
    law = replace(test.law, **own)
    return replace(test, law=law, centre=test.centre[index], spread=test.spread[index])
