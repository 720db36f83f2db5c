"""The common spacing of the values of a discrete statistic."""

from __future__ import annotations

import numpy as np

from dpinfer._numerics.commensurate import common_spacing
from dpinfer.hypothesis_tests._quadratic.terms import Cells

_FINEST = 1e-7
"""Smallest spacing looked for, in units of the largest weight."""


def statistic_lattice(cells: Cells) -> tuple[float, float] | None:
    """Spacing and one value of Σ a(y - c)² over whole y, or None where there is no spacing.

    a(y - c)² = a·c² + a·y(y - 1) + a(1 - 2c)·y, and y(y - 1) is even. Without noise the y add up
    to n, so that what is linear with one coefficient in all cells is constant.
    """
    if not cells.is_integer:
        return None
    linear = cells.weight * (1.0 - 2.0 * cells.centre)
    origin = float(cells.count @ (cells.weight * np.square(cells.centre)))
    if all(part.pmf.size == 1 for part in cells.parts):
        # the cell with the smallest coefficient, so that nothing cancels that matters
        common = linear[np.argmin(np.abs(linear))]
        origin += float(common * cells.nobs)
        rounding = 1e-12 * (np.abs(linear) + abs(common))
        linear = np.where(np.abs(linear - common) <= rounding, 0.0, linear - common)
    steps = np.abs(np.concatenate([2.0 * cells.weight, linear]))
    steps = steps[steps > 0.0]
    found = common_spacing(steps, smallest=_FINEST * float(cells.weight.max()))
    return None if found is None else (found[0], origin)
