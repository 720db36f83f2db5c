"""Rows of counts published with noise, and the ends of their intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import special

from dpinfer._validation import Alternative, FloatArray
from dpinfer.intervals.proportions._families import CountFamily, Rows
from dpinfer.intervals.proportions._inversion import tail_roots
from dpinfer.intervals.proportions._kernel import Kernel
from dpinfer.intervals.proportions._settings import alike
from dpinfer.mechanisms._law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.independent import groups

End = Callable[["NoisyRows", float, int], FloatArray]
"""``end(rows, probability, side)``: lower (side 1) or upper (side -1) ends, not yet restricted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyRows:
    """Counts published with noise, in m rows.

    Parameters
    ----------
    count : array of float, shape (m,)
        The published counts.
    family : CountFamily
        Law of the counts before noise was added.
    noise : NoiseLaw
        Law of the noise, of shape () or (m,).
    """

    count: FloatArray
    family: CountFamily
    noise: NoiseLaw

    @cached_property
    def kinds(self) -> list[tuple[NoiseLaw, Rows, Rows, Rows]]:
        """By kind of noise: its law, rows that stand for all, the rows it has, and theirs."""
        found = []
        for law, cells in groups(self.noise, self.count.size):
            columns = [self.count[cells], *(column[cells] for column in self.family.columns)]
            columns += _parameters(law)
            first, kind = alike(columns)
            found.append((_taken(law, first), cells[first], cells, kind))
        return found


def _parameters(law: NoiseLaw) -> list[FloatArray]:
    """Return what tells the laws of rows apart."""
    if law.shape == ():
        return []
    assert isinstance(law, ParametricLaw)  # laws of one kind differ by their parameters
    return [np.broadcast_to(value, law.shape) for value in law._parameters().values()]


def _taken(law: NoiseLaw, rows: Rows) -> NoiseLaw:
    """Law of some rows, one for all of them where they have the same."""
    chosen = law.take(rows)
    if chosen.shape == () or any((x != x[0]).any() for x in _parameters(chosen)):
        return chosen
    return chosen.take(0)


def _by_inversion(rows: NoisyRows, probability: float, side: int, *, mid: bool) -> FloatArray:
    """Parameter at which the tail beyond the published count has the probability."""
    end = np.empty(rows.count.size)
    for law, examples, cells, kind in rows.kinds:
        family, t = rows.family.take(examples), rows.count[examples]
        kernel = Kernel(law, probability, mid=mid)
        end[cells] = tail_roots(family, kernel, t, side, probability)[kind]
    return end


def _by_score(rows: NoisyRows, probability: float, side: int) -> FloatArray:
    """Parameter from which the count is a normal quantile of its standard deviations away."""
    z = np.asarray(-special.ndtri(probability))
    sign = -side if probability < 0.5 else side
    return rows.family.score_root(rows.count, z, z * np.asarray(rows.noise.std), sign)


def _by_normal(rows: NoisyRows, probability: float, side: int) -> FloatArray:
    """Return the estimate and a normal quantile of its estimated deviation."""
    family = rows.family
    estimate = rows.count / family.scale
    variance = family.variance(np.clip(estimate, 0.0, family.largest)) + rows.noise.variance
    half = special.ndtri(probability) * np.sqrt(variance) / family.scale
    return np.asarray(estimate + side * half)


EXACT: End = partial(_by_inversion, mid=False)
MID_P: End = partial(_by_inversion, mid=True)
SCORE: End = _by_score
NORMAL: End = _by_normal


def restricted(
    lower: FloatArray, upper: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intersect with 0, …, ``largest``; where nothing is left, the ends are inf and -inf."""
    empty = (lower > largest) | (upper < 0.0) | np.isposinf(lower)
    lower, upper = np.maximum(lower, 0.0), np.minimum(upper, largest)
    # rounding may exchange ends that coincide, as they do where alpha is almost 1
    low, high = np.minimum(lower, upper), np.maximum(lower, upper)
    return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)


def ends(
    end: Callable[[float, int], FloatArray],
    largest: FloatArray,
    alpha: float,
    alternative: Alternative,
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends of intervals that miss with probability ``alpha`` each.

    Parameters
    ----------
    end : callable
        ``end(probability, side)`` gives lower (side 1) or upper (side -1) ends.
    largest : array of float, shape (m,)
        The largest possible values.
    alpha : float
        Probability with which each interval may miss.
    alternative : str
        Which ends are wanted.
    """
    probability = 0.5 * alpha if alternative == "two-sided" else alpha
    lower, upper = np.zeros(largest.shape), largest
    if alternative != "smaller":
        lower = end(probability, 1)
    if alternative != "larger":
        upper = end(probability, -1)
    return restricted(lower, upper, largest)
