"""Breaks of a level at a day that is not known beforehand, by the largest of likelihood ratios."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.errors import NotEstimableError
from dpinfer.releases.values import NoisyValues

_MARGIN = 3
"""Published days before a break, and from it on."""

_MOST_NODES = 24


class Ratios(NamedTuple):
    """Twice the log-likelihood that a shift adds, at each day, with the shift and its error."""

    ratio: FloatArray
    shift: FloatArray
    std: FloatArray
    weights: FloatArray
    """Of the standard deviations of the steps, (nodes, days)."""


def state_space(variance: FloatArray, y: FloatArray, trend: bool, shift: int | None) -> Any:
    """Return the model of a level, and a slope, that walk from diffuse starts; NaN is missing."""
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    size, walks = len(y), 2 if trend else 1
    states = walks + (shift is not None)
    filters = KalmanSmoother(k_endog=1, k_states=states, k_posdef=walks)
    filters.bind(y)
    design = np.zeros((1, states, size))
    design[0, 0] = 1.0
    if shift is not None:
        design[0, -1, shift:] = 1.0
    filters["design"] = design
    filters["transition"] = np.eye(states)
    if trend:
        filters["transition", 0, 1] = 1.0
    filters["selection"] = np.eye(states)[:, :walks]
    filters["obs_cov"] = variance.reshape(1, 1, size)
    filters.initialize_diffuse()
    return filters


@dataclass(frozen=True, eq=False)
class Breaks:
    """A series under the model without a break, and the days at which there may be one."""

    x: NoisyValues
    there: NDArray[np.bool_]
    nodes: FloatArray  # (k, r), standard deviations of steps
    weights: FloatArray

    @classmethod
    def of(
        cls, x: NoisyValues, there: NDArray[np.bool_], nodes: FloatArray, weights: FloatArray
    ) -> Breaks:
        """Take fewer nodes: every other one of a line, the heaviest ones of a plane."""
        kept = np.arange(0, len(nodes), 2)
        if nodes.shape[1] > 1:
            kept = np.sort(np.argsort(-weights, kind="stable")[:_MOST_NODES])
        return cls(x, there, nodes[kept], weights[kept] / weights[kept].sum())

    @cached_property
    def days(self) -> NDArray[np.intp]:
        """Days with enough published ones on both sides."""
        before: NDArray[np.intp] = np.cumsum(self.there) - self.there
        enough = (before >= _MARGIN) & (self.there.sum() - before >= _MARGIN)
        days = np.flatnonzero(enough)
        if not days.size:
            raise NotEstimableError(f"a break needs {_MARGIN} published days on either side")
        return days

    @cached_property
    def _unit(self) -> float:
        return float(np.sqrt(np.mean(self.x.variance)))

    @cached_property
    def observed(self) -> Ratios:
        """What the published series gives."""
        return self.ratios(np.where(self.there, self.x.values, np.nan))

    def ratios(self, y: FloatArray) -> Ratios:
        """Return likelihood ratios, each at its own standard deviations of steps.

        At given ones, the smoother has the score r and the information N of a shift at each day:
        the shift is r/N, and adds r²/(2N) to the logarithm of the likelihood.
        """
        unit, days = self._unit, self.days
        centre = np.nanmean(y)
        trend = self.nodes.shape[1] > 1
        filters = state_space(self.x.variance / unit**2, (y - centre) / unit, trend, None)
        base = np.empty(len(self.nodes))
        score, information = np.empty((2, len(self.nodes), len(days)))
        for at, root in enumerate(self.nodes / unit):
            filters["state_cov"] = np.diag(np.square(root))
            found = filters.smooth()
            base[at] = found.llf
            score[at] = found.scaled_smoothed_estimator[0, days - 1]
            information[at] = found.scaled_smoothed_estimator_cov[0, 0, days - 1]
        information = np.maximum(information, 1e-12)
        whole = base[:, np.newaxis] + np.square(score) / (2.0 * information)
        best = whole.argmax(axis=0), np.arange(len(days))
        likely = np.exp(whole - whole.max(axis=0)) / np.sqrt(information)
        return Ratios(
            2.0 * (whole[best] - base.max()),
            unit * score[best] / information[best],
            unit / np.sqrt(information[best]),
            likely / likely.sum(axis=0),
        )

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw the largest ratio of series without a break."""
        series = self._series(size, rng, self.weights)
        return np.array([self.ratios(y).ratio.max() for y in series])

    def draw_at(self, at: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw how far below the largest the ratio of the true day is, of those with a break."""
        series = self._series(size, rng, self.observed.weights[:, at])
        series[:, self.days[at] :] += self.observed.shift[at]
        found = [self.ratios(y).ratio for y in series]
        return np.array([ratio.max() - ratio[at] for ratio in found])

    def _series(self, size: int, rng: np.random.Generator, weights: FloatArray) -> FloatArray:
        """Draw series from 0 on, which ratios do not depend on, with the steps of some node."""
        days = len(self.there)
        roots = self.nodes[rng.choice(len(self.nodes), size, p=weights)]
        steps = rng.normal(size=(size, roots.shape[1], days)) * roots[..., np.newaxis]
        steps[..., 0] = 0.0
        moves = steps[:, 0]
        if roots.shape[1] > 1:
            moves[:, 1:] += np.cumsum(steps[:, 1], axis=1)[:, :-1]
        series = np.cumsum(moves, axis=1) + self.x.draw(size, rng=rng)
        series[:, ~self.there] = np.nan
        return np.asarray(series)
