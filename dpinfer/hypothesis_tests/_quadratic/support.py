"""The range of the statistic."""

from __future__ import annotations

import numpy as np

from dpinfer.hypothesis_tests._quadratic.transform import Transform

_SPREAD = 9.6
_DEVIATIONS = 10.0


def support(transform: Transform) -> tuple[float, float]:
    """Range outside of which the statistic lies with negligible probability.

    Below: exp(-x²/(2ΣE[Qᵢ²])) for a sum of independent terms >= 0. Above: ten standard deviations
    and the largest single term, which is what laws with heavier tails than the normal need.
    """
    cells = transform.cells
    first, second, largest = cells.moments
    mean = cells.count @ first
    spread = np.sqrt(cells.count @ second)
    deviation = np.sqrt(cells.count @ np.maximum(second - np.square(first), 0.0))
    low = max(0.0, float(mean - _SPREAD * spread))
    return low, float(mean + _DEVIATIONS * deviation + largest.max())
