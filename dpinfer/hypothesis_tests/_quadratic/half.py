"""All values that part of the statistic can take, up to a bound: one half of an enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi, prod

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.noise_parts import ComplexArray

_NEGLIGIBLE = 1e-21
"""Probability below which a value is left out."""

_TIE = 1e-12
"""Values this close to each other, in units of 1 + value, are one value."""

_KEPT = 1.6e7
"""Complex numbers that are kept, 16 bytes each."""


@dataclass(frozen=True)
class Term:
    """One term a(y - c)² with whole-numbered y.

    Parameters
    ----------
    square : array of float, shape (m,)
        The values at the points y.
    joint : complex array, shape (m, θ)
        E[exp(iθ(X - λ)); y], beginning with θ = 0.
    weight : float
        The factor a.
    """

    square: FloatArray
    joint: ComplexArray
    weight: float

    def below(self, bound: float) -> NDArray[np.intp]:
        """Return the places of the values up to a bound."""
        return np.flatnonzero(self.square <= bound)


@dataclass(frozen=True)
class _Step:
    """How sums come about as a term is added to them.

    ``before`` and ``place`` are the sum and the point of the term, in the order of the new sums;
    at each of ``starts`` begins a new value.
    """

    before: NDArray[np.intp]
    place: NDArray[np.intp]
    starts: NDArray[np.intp]


class Half:
    """The values of a sum of terms up to a bound, upwards, with their probabilities.

    Parameters
    ----------
    terms : sequence of Term
        Independent given θ; none gives the value 0.
    angles : int
        Number of θ.
    bound : float
        Largest value that is listed.
    """

    def __init__(self, terms: Sequence[Term], angles: int, bound: float) -> None:
        self._terms = terms
        self._angles = angles
        self.values: FloatArray = np.zeros(1)
        self._steps: list[_Step] = []
        chances = np.ones(1)
        for term in terms:
            place = term.below(bound)
            values = np.add.outer(self.values, term.square[place]).ravel()
            chances = np.multiply.outer(chances, term.joint[place, 0].real).ravel()
            kept = np.flatnonzero((values <= bound) & (chances > _NEGLIGIBLE))
            kept = kept[np.argsort(values[kept], kind="stable")]
            values = values[kept]
            gaps = np.diff(values, prepend=-np.inf)
            starts = np.flatnonzero(gaps > _TIE * (1.0 + values))
            before, own = np.divmod(kept, max(1, place.size))
            self._steps.append(_Step(before, place[own], starts))
            self.values = values[starts]
            chances = np.add.reduceat(chances[kept], starts) if starts.size else np.zeros(0)

    def chances(self, part: slice) -> ComplexArray:
        """E[exp(iθ(X - λ)); value] at some of the θ, shape (values, θ)."""
        if self.values.size * self._angles <= _KEPT:
            return self._everything[:, part]
        return self._computed(part)

    @cached_property
    def _everything(self) -> ComplexArray:
        return self._computed(slice(0, self._angles))

    def _computed(self, part: slice) -> ComplexArray:
        out = np.ones((1, part.stop - part.start), dtype=np.complex128)
        for term, step in zip(self._terms, self._steps, strict=True):
            out = out[step.before]
            out *= term.joint[step.place, part]
            if step.starts.size < step.before.size:
                out = np.add.reduceat(out, step.starts, axis=0)
        return out


def number_of_values(terms: Sequence[Term], bound: float) -> float:
    """Return about how many values there are up to a bound: the volume of an ellipsoid."""
    half = 0.5 * len(terms)
    ball = pi**half / special.gamma(half + 1.0)
    volume = ball * prod(np.sqrt(bound / term.weight) + 0.5 for term in terms)
    return float(min(volume, prod(float(term.below(bound).size) for term in terms)))
