"""Intervals for a proportion where the number of trials is known only with noise.

The exact interval is the smallest that holds all proportions which the guaranteed one-sided tests
do not reject. Their p-values are not quite monotone: where all noise is whole-numbered they jump
up at simple fractions, at which more outcomes tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import Alternative, FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.unknown_trials import Rows, UnknownTrials

_EDGE = 1e-12
"""Proportions nearer to 0 or 1 count as 0 or 1."""

_AWAY = np.array([0.0, 1.0, 2.0, 3.5, 7.0])
"""Where the search looks first, in standard errors of the estimate."""

_ACCURACY = 1e-11

_DENOMINATORS = np.arange(2.0, 13.0)
_TIES_WITHIN = 0.1
"""Fractions are looked at that are so near to an end, relative to its distance from the centre."""


def estimate(rows: UnknownTrials) -> FloatArray:
    """Ratio of what was published, to one trial at least."""
    return np.asarray(rows.count / np.maximum(rows.nobs, 1.0))


def exact_end(rows: UnknownTrials, probability: float, side: int) -> FloatArray:
    """Outermost proportion that the test against smaller (side 1) or larger ones accepts."""
    if not rows.confidence_set[2].max() < probability:
        raise InvalidParameterError(
            f"nuisance_alpha must be below {probability:g}, the error probability of one end of an "
            f"interval, got {rows.nuisance_alpha:g}"
        )
    return _Search(rows=rows, probability=probability, side=side).ends()


def normal_end(rows: UnknownTrials, probability: float, side: int) -> FloatArray:
    """Return the ratio and a normal quantile of its approximate standard error."""
    half = special.ndtri(probability) * _standard_error(rows)
    return np.asarray(estimate(rows) + side * half)


def _standard_error(rows: UnknownTrials) -> FloatArray:
    centre = rows.under(np.clip(estimate(rows), 0.0, 1.0), np.arange(rows.count.size))
    n = np.maximum(rows.nobs, 1.0)
    return np.asarray(np.sqrt(n * centre.value * (1.0 - centre.value) + centre.variance) / n)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """Search for the outermost accepted proportions of all rows."""

    rows: UnknownTrials
    probability: float
    side: int

    def ends(self) -> FloatArray:
        """Return the ends; inf or -inf, beyond the other limit, where nothing is accepted."""
        grid = self._grid()
        accepted = np.stack([self._excess(p, self._all) >= 0.0 for p in grid])
        first = np.argmax(accepted, axis=0)
        there = accepted.any(axis=0)
        end = np.where(there, 0.0 if self.side > 0 else 1.0, self.side * np.inf)
        rows = np.flatnonzero(there & (first > 0))
        if rows.size:
            outer, inner = grid[first[rows] - 1, rows], grid[first[rows], rows]
            end[rows] = self._ties(self._boundary(outer, inner, rows), rows)
        return end

    @property
    def _all(self) -> Rows:
        return np.arange(self.rows.count.size)

    def _excess(self, p: FloatArray, rows: Rows) -> FloatArray:
        """P-value at proportions, minus what makes it too small."""
        test = self.rows.under(p, rows)
        alternative: Alternative = "larger" if self.side > 0 else "smaller"
        return test.largest(alternative, test.difference) - self.probability

    def _grid(self) -> FloatArray:
        """Proportions from the outermost to the innermost, one column for each row."""
        centre, error = estimate(self.rows), np.maximum(_standard_error(self.rows), _EDGE)
        away = np.concatenate([-_AWAY[:0:-1], _AWAY])[:, np.newaxis]
        inside = np.clip(centre + away * error, _EDGE, 1.0 - _EDGE)
        edge = np.full((1, centre.size), _EDGE)
        grid = np.concatenate([edge, inside, 1.0 - edge])
        return grid if self.side > 0 else grid[::-1]

    def _boundary(self, outer: FloatArray, inner: FloatArray, rows: Rows) -> FloatArray:
        """Where the p-value passes the probability, on the outer side of what is left open."""

        def excess(p: FloatArray, index: Rows) -> FloatArray:
            return -self.side * self._excess(p, rows[index])

        low, high = (outer, inner) if self.side > 0 else (inner, outer)
        brackets = find_root(excess, low, high, rtol=_ACCURACY, atol=_EDGE)
        return brackets[0 if self.side > 0 else 1]

    def _ties(self, end: FloatArray, rows: Rows) -> FloatArray:
        """Move ends out to fractions at which ties make the test accept."""
        if not (self.rows.noise.is_integer and self.rows.nobs_noise.is_integer):
            return end
        reach = _TIES_WITHIN * np.abs(estimate(self.rows)[rows] - end)
        for q in _DENOMINATORS:
            p = (np.floor(end * q) if self.side > 0 else np.ceil(end * q)) / q
            near = (np.abs(p - end) <= reach) & (p > 0.0) & (p < 1.0) & (p != end)
            at = np.flatnonzero(near)
            if at.size:
                accepted: NDArray[np.bool_] = self._excess(p[at], rows[at]) >= 0.0
                end[at[accepted]] = p[at[accepted]]
        return end
