"""Directions that published pairs leave possible, and the sets of numbers that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray


@dataclass(frozen=True)
class Arcs:
    """Directions (f₁, f₂) that n published pairs leave possible, up to their sign.

    Parameters
    ----------
    published : array of float, shape (n, 2)
        The pairs.
    everything : array of bool, shape (n,)
        Whether all directions are possible.
    left, right : array of float, shape (n, 2)
        Where not, the two ends: the directions between them around that of the published pair
        are possible. Ends of any length, less than half a turn apart.
    """

    published: FloatArray
    everything: NDArray[np.bool_]
    left: FloatArray
    right: FloatArray

    @classmethod
    def empty(cls, published: FloatArray) -> Arcs:
        """Return arcs to be filled."""
        size = len(published)
        ends = (np.zeros((size, 2)), np.zeros((size, 2)))
        return cls(published, np.zeros(size, dtype=bool), *ends)

    def fill(
        self,
        rows: NDArray[np.intp],
        everything: NDArray[np.bool_],
        left: FloatArray,
        right: FloatArray,
    ) -> None:
        """Enter the answers for some rows."""
        self.everything[rows] = everything
        self.left[rows], self.right[rows] = left, right


Map = tuple[tuple[float, float], tuple[float, float]]
"""((a, b), (c, d)): the number (a·f₁ + b·f₂)/(c·f₁ + d·f₂)."""

RATIO: Map = ((1.0, 0.0), (0.0, 1.0))
SHARE: Map = ((1.0, 0.0), (1.0, 1.0))
CHANGE: Map = ((1.0, -1.0), (0.0, 1.0))


def number_sets(
    arcs: Arcs, form: Map
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.str_]]:
    """Return estimates, lower and upper ends and kinds of the sets of numbers behind directions.

    A number is infinite in one direction, the pole. An arc without it is an interval, an arc
    around it is the complement of one, and an arc that ends there is a ray.
    """
    estimate, _ = _number(arcs.published, form)
    first, beside_first = _number(arcs.left, form)
    second, beside_second = _number(arcs.right, form)
    lower, upper = np.minimum(first, second), np.maximum(first, second)
    around = beside_first * beside_second < 0
    # ends are attained under whole-numbered noise: rounding must not move them inward
    outward = np.maximum(_rounding(arcs.left, form), _rounding(arcs.right, form))
    outward = np.where(around, -outward, outward)
    lower, upper = lower - outward, upper + outward
    kind = np.where(around, "complement", "interval").astype("<U10")
    ray = (beside_first == 0) ^ (beside_second == 0)
    finite = np.where(beside_first == 0, second, first)
    # a ray goes from its end past the estimate
    up = estimate > finite
    lower = np.where(ray, np.where(up, finite, -np.inf), lower)
    upper = np.where(ray, np.where(up, np.inf, finite), upper)
    none = (beside_first == 0) & (beside_second == 0) & ~arcs.everything
    kind = np.where(none, "empty", kind)
    lower, upper = np.where(none, np.inf, lower), np.where(none, -np.inf, upper)
    kind = np.where(arcs.everything, "line", kind)
    lower = np.where(arcs.everything, -np.inf, lower)
    upper = np.where(arcs.everything, np.inf, upper)
    return estimate, lower, upper, kind


def _number(direction: FloatArray, form: Map) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of directions, and the signs of their denominators.

    Infinite with the sign of the numerator where the denominator is 0, and 0 where both are.
    """
    (a, b), (c, d) = form
    x, y = direction.T
    top = np.asarray(a * x + b * y if b else x)
    bottom = np.asarray(c * x + d * y if c else y)
    with np.errstate(over="ignore"):
        number = top / np.where(bottom == 0, 1.0, bottom)
    infinite = np.where(top == 0, 0.0, np.copysign(np.inf, top))
    return np.where(bottom == 0, infinite, number), np.sign(bottom)


def _rounding(direction: FloatArray, form: Map) -> FloatArray:
    """Bound the rounding error of the number of a direction; a ratio is that of its truth, too."""
    if form == RATIO:
        return np.zeros(len(direction))
    terms = np.abs(direction) @ np.abs(np.transpose(form))
    number, _ = _number(direction, form)
    bottom = np.abs(direction @ np.asarray(form[1]))
    known = (bottom > 0) & np.isfinite(number) & (number != 0)
    size = terms[:, 0] + np.where(known, np.abs(number), 0.0) * terms[:, 1]
    return np.where(known, 4.0 * np.finfo(float).eps * size / np.where(known, bottom, 1.0), 0.0)
