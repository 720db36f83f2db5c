"""What the curves of all guarantees share."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpinfer._validation import FloatArray


class Curve(ABC):
    """The largest power of a test at each level: concave, increasing, from 0 or more up to 1.

    Arguments are one-dimensional arrays that were checked: levels and powers in (0, 1), ε > 0.
    """

    @property
    def at_zero(self) -> float:
        """Return the power at level 0."""
        return 0.0

    @abstractmethod
    def power(self, alpha: FloatArray) -> FloatArray:
        """Return the largest power at each level."""

    @abstractmethod
    def level(self, power: FloatArray) -> FloatArray:
        """Return the smallest level at which each power is possible."""

    def log_level(self, power: FloatArray) -> FloatArray:
        """Return the logarithm of that level, also where no float holds the level itself."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.level(power)))

    @abstractmethod
    def crossing(self, epsilon: FloatArray) -> FloatArray:
        """Return the largest power β that is e^ε times its level or more, 0 if there is none."""
