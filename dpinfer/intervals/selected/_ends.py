"""Ends of intervals for values that were published because they reached a threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._numerics.whole import smallest_whole
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published_law import PublishedRows
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    NoiseLaw,
    Rounded,
    Tulap,
)
from dpinfer.mechanisms._law import ParametricLaw

_DEEP = 447.0
"""Depth below the threshold, in standard deviations of Gaussian noise, at which the logarithm of
the tail is -1e5: deeper, ratios of tails have a rounding error above 1e-11."""

_MONOTONE = (Laplace, Geometric, Gaussian, DiscreteGaussian, Tulap)
"""Laws under which the conditional tails are monotone in the confidential value."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedValues:
    """Values that reached their thresholds, under noise of one kind.

    Parameters
    ----------
    noise : ParametricLaw
        A law of one kind, with scalar parameters or one for each value.
    y, threshold : array of float, shape (n,)
        The published values and their finite thresholds, not above them.
    """

    noise: ParametricLaw
    y: FloatArray
    threshold: FloatArray

    @classmethod
    def of(cls, noise: NoiseLaw, y: FloatArray, threshold: FloatArray) -> SelectedValues:
        """Refuse laws under which the answer need not be an interval."""
        rounded = isinstance(noise, Rounded) and not isinstance(noise.law, Tulap)
        if not (rounded or isinstance(noise, _MONOTONE)):
            listed = ", ".join(kind.__name__ for kind in _MONOTONE)
            raise InvalidParameterError(
                f"mechanism must be one of {listed}, or rounded Laplace or Gaussian noise, for "
                f"values with a threshold, got {type(noise).__name__}: under other laws the "
                "values that are compatible with what was published need not form an interval"
            )
        return cls(noise=cast("ParametricLaw", noise), y=y, threshold=threshold)

    @property
    def is_whole(self) -> bool:
        """Whether the confidential values are whole numbers: Tulap noise is for counts too."""
        return self.noise.is_integer or isinstance(self.noise, Tulap)

    def distinct(self) -> tuple[SelectedValues, NDArray[np.intp]]:
        """Return values that differ by more than a shift, and the number of each value's kind.

        They are shifted so that the confidential values are near zero.
        """
        base = self.base
        columns = [self.y - base, self.threshold - base]
        if self.noise.shape:
            columns += [np.asarray(x) for x in self.noise._parameters().values()]
        first, kind = _distinct_rows(columns)
        return (
            replace(
                self,
                noise=self.noise.take(first),
                y=columns[0][first],
                threshold=columns[1][first],
            ),
            kind,
        )

    @property
    def base(self) -> FloatArray:
        """Points near the values by which a shift leaves whole numbers whole."""
        return np.rint(self.y) if self.is_whole else self.y

    def lower(self, q: float) -> FloatArray:
        """Infimum of the f with P(Y >= y | Y >= threshold; f) > q."""
        return self._solve("larger", q, -np.inf)

    def upper(self, q: float) -> FloatArray:
        """Supremum of the f with P(Y <= y | Y >= threshold; f) > q; -inf where there is none."""
        deepest = self._floor if _is_gaussian(self.noise) else -np.inf
        return self._solve("smaller", q, deepest)

    def _solve(self, side: str, q: float, beyond: FloatArray | float) -> FloatArray:
        """Solve tail(f) = q where there is a solution above the floor; elsewhere ``beyond``."""
        grows = side == "larger"
        everything = np.arange(self.y.size)
        at_floor = self.tail(side, self._floor, everything)
        solved = np.flatnonzero(at_floor < q if grows else at_floor > q)
        ends = np.array(np.broadcast_to(beyond, self.y.shape))
        if solved.size:
            solve = self._whole_ends if self.is_whole else self._real_ends
            ends[solved] = solve(side, q, solved)
        return ends

    def _whole_ends(self, side: str, q: float, rows: NDArray[np.intp]) -> FloatArray:
        """Find the last whole number whose tail exceeds q."""
        half = self.noise.take(rows)._isf(np.asarray(q))
        if side == "larger":
            guess = np.ceil(self.y[rows] - half)
            return smallest_whole(guess, lambda f: self.tail("larger", f, rows) > q)
        guess = np.floor(self.y[rows] + half) + 1.0
        above = smallest_whole(guess, lambda f: self.tail("smaller", f, rows) <= q)
        return np.asarray(above - 1.0)

    def _real_ends(self, side: str, q: float, rows: NDArray[np.intp]) -> FloatArray:
        """Find the root, in standard deviations from y, and give the outer end of its bracket."""
        grows = side == "larger"
        law = self.noise.take(rows)
        std = np.broadcast_to(law.std, rows.shape)
        sign = 1.0 if grows else -1.0

        def excess(z: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            row = rows[index]
            with np.errstate(divide="ignore"):
                log_tail = np.log(self.tail(side, self.y[row] + z * std[index], row))
            return np.asarray(sign * (np.log(q) - log_tail))

        # publication makes large values likelier, so that the ends are below the ordinary ones;
        # they are above those of another level where the threshold makes no difference
        high = np.broadcast_to(-sign * law.isf(q) / std, rows.shape)
        near = np.broadcast_to(-sign * law.isf(q / 2 if grows else (1 + q) / 2) / std, rows.shape)
        floor = (self._floor - self.y)[rows] / std
        holds = (near > floor) & (excess(near, np.arange(rows.size)) >= 0)
        low = np.where(holds, near, floor)
        low, high = find_root(excess, low, high, rtol=1e-14, atol=1e-14, expand=True)
        return np.asarray(self.y[rows] + std * (low if grows else high))

    def tail(self, side: str, target: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """Probability of a published value as large, or as small, if the f are ``target``."""
        law = PublishedRows(
            target=target,
            noise=self.noise.take(rows),
            threshold=self.threshold[rows],
            lowest=np.full(rows.size, -np.inf),
            highest=np.full(rows.size, np.inf),
        )
        tail: Callable[[FloatArray], FloatArray] = getattr(law, side)
        return tail(self.y[rows])

    @property
    def _floor(self) -> FloatArray:
        """Below it the tails are constant, or the threshold out of reach, or rounding matters."""
        floor = self.threshold - _depth(self.noise)
        return np.floor(floor) if self.is_whole else floor


def _depth(noise: ParametricLaw) -> FloatArray:
    """Distance from the threshold to the floor.

    Laplace and geometric noise have no memory: where all published values are in their tail, the
    conditional law does not depend on the confidential value. So has Tulap noise, for shifts by
    whole numbers, up to the ends of its support.
    """
    if _is_gaussian(noise):
        return _DEEP * np.asarray(next(iter(noise._parameters().values())))
    if isinstance(noise, Tulap):
        bound = np.asarray(noise.isf(0.0))
        return np.where(np.isfinite(bound), bound + 1.0, 1.0)
    # of rounded Laplace noise, only what is beyond 1/2 has no memory
    return np.asarray(float(isinstance(noise, Rounded)))


def _is_gaussian(noise: ParametricLaw) -> bool:
    law = noise.law if isinstance(noise, Rounded) else noise
    return isinstance(law, (Gaussian, DiscreteGaussian))


def _distinct_rows(columns: list[FloatArray]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of one row of each kind, and for each row the number of its kind."""
    size = columns[0].size
    first, kind = np.zeros(1, dtype=np.intp), np.zeros(size, dtype=np.intp)
    for column in columns:
        values, place = np.unique(np.broadcast_to(column, size), return_inverse=True)
        if values.size > 1:
            _, first, kind = np.unique(
                kind * values.size + place, return_index=True, return_inverse=True
            )
    return first, kind
