"""Windows of posteriors by climbing down from a peak, one ratio at a time.

Weights relative to the peak are products of ratios π(k + 1)g(y - k - 1)/(π(k)g(y - k)). They need
no logarithms of gamma functions, and lose no digits however large the counts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.posterior._ladder import Ladder
from dpinfer.intervals.posterior._likelihood import log_density, noise_step, reach
from dpinfer.intervals.posterior._window import Window, running
from dpinfer.mechanisms import NoiseLaw

LOG_LEFT_OUT = 35.0
"""What is left out is below e^-35 = 7e-16 of the posterior."""

MOST_COLUMNS = 1 << 22
"""Of a window: 30 MB for a row."""

_CELLS = 1 << 15
"""Number of weights that are computed at a time; the arrays fit the cache."""


@dataclass(frozen=True)
class Rows:
    """Published counts with noise of one kind, and ladders as priors.

    Parameters
    ----------
    count : array, shape (n,)
        The published counts.
    law : NoiseLaw
        The noise, of shape () or (n,).
    prior : Ladder
        The priors, of shape () or (n,).
    lower, upper : array, shape (n,)
        Ends of the support.
    """

    count: FloatArray
    law: NoiseLaw
    prior: Ladder
    lower: FloatArray
    upper: FloatArray

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        return type(self)(
            self.count[rows],
            self.law.take(rows) if self.law.shape else self.law,
            self.prior.take(rows),
            self.lower[rows],
            self.upper[rows],
        )

    @property
    def width(self) -> FloatArray:
        """About how many columns the window of each row has."""
        drop = np.asarray(LOG_LEFT_OUT)
        radius = np.minimum(reach(self.law, drop), self.prior.radius(drop)) + 2.0
        return np.broadcast_to(
            np.minimum(2.0 * radius, self.upper - self.lower + 1.0), self.count.shape
        )

    def window(self) -> Window:
        """Return the posteriors of these rows."""
        concave = np.broadcast_to(self.prior.concave, self.count.shape)
        start = self._summit()
        lower, upper = self.lower, self.upper
        if not concave.all():
            start, lower, upper = self._edges(start, concave)
        up = self._climb(start, 1.0, upper, concave)
        down = self._climb(start, -1.0, lower, concave)
        mass = np.concatenate([*(part[::-1] for part in down[::-1]), np.ones((1, start.size)), *up])
        total = mass.sum(axis=0)
        mass /= total
        below = sum(map(len, down))
        return Window(
            first=start - below,
            mass=mass,
            log_total=lambda: np.log(total) + self._log_weight(start),
            summit=below if concave.all() else None,
        )

    def _log_weight(self, k: FloatArray) -> FloatArray:
        """Logarithm of prior times likelihood."""
        return np.asarray(self.prior.logpmf(k) + log_density(self.law, self.count - k))

    def _summit(self) -> FloatArray:
        """Smallest count at which the weights fall, between the peaks of prior and noise."""
        published = np.clip(np.rint(self.count), self.lower, self.upper)
        prior = np.clip(self.prior.mode(published), self.lower, self.upper)
        # the noise may peak on either side of the rounded count
        low = np.maximum(np.minimum(published, prior) - 1.0, self.lower)
        high = np.minimum(np.maximum(published, prior) + 1.0, self.upper)
        while (high > low).any():
            middle = np.floor(0.5 * (low + high))
            ratio = self.prior.limit_step(middle) * noise_step(self.law, self.count - middle)
            falls = (ratio <= 1.0) | (middle >= high)
            low, high = np.where(falls, low, middle + 1.0), np.where(falls, middle, high)
        return np.asarray(low)

    def _edges(
        self, summit: FloatArray, concave: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return starts and ends where the prior is log-convex: there may be a second peak at 0.

        The posterior is below e^-35 beyond the ends, as prior or noise are there by themselves:
        Σ π(k)g(y - k) over a set is at most the largest g there times the probability of the set.
        """
        at_summit, at_lower = self._log_weight(summit), self._log_weight(self.lower)
        start = np.where(~concave & (at_lower > at_summit), self.lower, summit)
        peak = log_density(self.law, np.zeros_like(start))
        drop = peak + LOG_LEFT_OUT - np.maximum(at_summit, at_lower)
        far = np.ceil(reach(self.law, np.maximum(drop, 0.0)))
        lower = np.maximum(self.lower, np.floor(self.count) - far)
        upper = np.minimum(self.upper, np.ceil(self.count) + far)
        upper = np.minimum(upper, np.maximum(self.prior.upper_end(-drop), start))
        return (
            start,
            np.where(concave, self.lower, np.minimum(lower, start)),
            np.where(concave, self.upper, np.maximum(upper, start)),
        )

    def _climb(
        self, start: FloatArray, sign: float, end: FloatArray, concave: NDArray[np.bool_]
    ) -> list[FloatArray]:
        """Weights of the counts beyond the start on one side, some columns at a time."""
        parts: list[FloatArray] = []
        columns = int(np.clip(_CELLS // start.size, 8, 4096))
        weight, k = np.ones(start.size), start
        while True:
            steps = k + sign * np.arange(columns)[:, None]
            ratio = self._ratio(steps, sign)
            k = k + sign * columns
            ended = sign * k >= sign * end
            if ended.any():
                ratio[sign * steps >= sign * end] = 0.0
            ratio[0] *= weight
            parts.append(running(np.multiply, ratio))
            weight = parts[-1][-1]
            # beyond the peak of log-concave weights, as far as here, they fall geometrically
            done = ended | (concave & (weight <= np.exp(-LOG_LEFT_OUT)))
            if done.all():
                return parts
            _check_columns(sum(map(len, parts)))

    def _ratio(self, k: FloatArray, sign: float) -> FloatArray:
        """Weight of the next count, up or down, relative to that of k."""
        if sign > 0:
            return self.prior.step(k) * noise_step(self.law, self.count - k)
        before = np.maximum(k - 1.0, self.lower)
        return 1.0 / (self.prior.step(before) * noise_step(self.law, self.count - before))


def _check_columns(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise InvalidParameterError(
            f"mechanism must have a scale at which a posterior spreads over at most {MOST_COLUMNS} "
            "counts, got one with more: use count_confint, or bounds or a prior that are narrower"
        )
