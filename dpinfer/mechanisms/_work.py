"""How much work the laws of noise are, in units of about 0.1 µs: the time of a closed form."""

from __future__ import annotations

from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._sums.contour import ContourSum, LatticeContour
from dpinfer.mechanisms._sums.convolved import ConvolvedSum, SteppedSum
from dpinfer.mechanisms._sums.fourier import FourierSum
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.weighted_sum import WeightedSum

MOST_WORK = 1 << 26
"""Of one call, some five seconds."""

_CONTOUR = 700.0
_ATOM = 0.35
_TERM = 0.3


def work_at_a_point(law: NoiseLaw) -> float:
    """About how much work the tail of a law is at each of many points."""
    if isinstance(law, IndependentNoise):
        return max(work_at_a_point(part) for part, _ in groups(law, law.shape[0]))
    if not isinstance(law, WeightedSum):
        return 1.0
    route = law._route
    if isinstance(route, ConvolvedSum):
        used = route._relevant(0.0, 9.0 * float(law.std))
        return _ATOM * float(used.stop - used.start)
    if isinstance(route, SteppedSum):
        return _ATOM * float(route._cells.size)
    if isinstance(route, FourierSum):
        return _TERM * float(route._series._frequency.size)
    return _CONTOUR if isinstance(route, (ContourSum, LatticeContour)) else 2.0
