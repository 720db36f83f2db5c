"""Exact intervals for a population total: inversion over the whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.whole import smallest_whole
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.intervals.surveys.designs import Design
from dpinfer.mechanisms import NoiseLaw


def invert_total(
    count: FloatArray, noise: NoiseLaw, design: Design, alpha: float, guesses: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest population total that the count does not contradict.

    A total K stays where P(T >= y; K) and P(T <= y; K) both exceed α/2; the noisy count T grows
    with K stochastically, so that these totals are neighbours. Where none stays, the ends are
    ``(inf, -inf)``.

    Parameters
    ----------
    count : array of float, shape (m,)
        The noisy counts y.
    noise, design
        Law of the noise and sampling design, of m rows; no row is a census.
    alpha : float
        One minus the confidence level.
    guesses : array of float, shape (2, m)
        Where to begin to look for the ends.
    """
    size = design.population_size
    largest = np.full(count.shape, LARGEST_NOBS) if size is None else size
    if size is None and (far := count * design.expansion > LARGEST_NOBS / 4).any():
        raise InvalidParameterError(
            f"count must be smaller for method='exact' without population_size, got "
            f"{count[far][0]}: totals beyond {LARGEST_NOBS:.2g} are not told apart"
        )

    def tail(total: FloatArray, side: str) -> FloatArray:
        law = design.law(np.clip(total, 0.0, largest), noise)
        return law.upper(count) if side == "upper" else law.lower(count)

    def reaches(total: FloatArray) -> NDArray[np.bool_]:
        return (total > largest) | ((total >= 0) & (tail(total, "upper") > alpha / 2))

    def exceeds(total: FloatArray) -> NDArray[np.bool_]:
        return (total > largest) | ((total >= 0) & (tail(total, "lower") <= alpha / 2))

    start = np.clip(np.rint(guesses), 0.0, largest)
    lower = smallest_whole(start[0], reaches)
    upper = smallest_whole(start[1], exceeds) - 1.0
    empty = lower > upper
    return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)
