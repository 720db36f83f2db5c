"""The test of two rates of events, as one of two noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpinfer.hypothesis_tests.power._share_of_total import ShareOfTotal


@dataclass(frozen=True, eq=False)
class TwoPoissons(ShareOfTotal):
    """Numbers of events in two samples.

    Parameters
    ----------
    share : float
        Share of the events that the first count has under the null hypothesis.
    """

    share: float

    @property
    def _share(self) -> float:
        return self.share

    @cached_property
    def _moments(self) -> tuple[float, float]:
        total = sum(float(law.parameters["rate"]) for law in self.laws)
        return total, total
