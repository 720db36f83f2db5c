"""The exact law of a quadratic statistic of noisy multinomial counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray
from dpinfer.errors import ConvergenceError
from dpinfer.hypothesis_tests._quadratic.enumeration import Enumeration, affordable
from dpinfer.hypothesis_tests._quadratic.inversion import Inversion
from dpinfer.hypothesis_tests._quadratic.lattice import statistic_lattice
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform
from dpinfer.mechanisms._law import NoiseLaw

ACCEPTED_ERROR = 1e-8
"""Absolute error up to which a probability is given out as exact."""


class Tails(Protocol):
    """A way to the tails."""

    def upper(self, q: FloatArray) -> FloatArray: ...
    def lower(self, q: FloatArray) -> FloatArray: ...
    def error(self, q: FloatArray) -> FloatArray: ...


@final
@dataclass(frozen=True, eq=False)
class QuadraticLaw:
    """Exact law of Q = Σ aᵢ(Xᵢ + eᵢ - cᵢ)² for multinomial X and independent noise e.

    Parameters
    ----------
    nobs : int
        Number of observations n >= 1.
    value : array of float, shape (k,)
        Probabilities of the cells, in units of their sum; 0 is allowed.
    centre, weight : array of float, shape (k,)
        c, and a > 0. For Pearson's statistic of the null hypothesis p they are n·p and 1/(n·p),
        whatever ``value`` is: at another ``value`` the law gives the power of the test.
    noise : NoiseLaw
        Law of the noise, of shape () or (k,).

    Notes
    -----
    Three routes: values are listed where the noise is whole-numbered and cells are few; the
    characteristic function is inverted on the lattice of the values, where they have a common
    spacing; or by the integral of Gil-Pelaez. :meth:`error` tells the absolute error that is to
    be expected of a tail, and no tail is given out where it exceeds 1e-8.
    """

    nobs: int
    value: FloatArray
    centre: FloatArray
    weight: FloatArray
    noise: NoiseLaw

    @property
    def is_available(self) -> bool:
        """Whether there is a route for this kind of noise; it may still prove too inaccurate."""
        return self._tails is not None

    def upper(self, q: ArrayLike) -> Any:
        """P(Q >= q), atoms within rounding errors of q included."""
        points, tails = self._checked(q)
        return tails.upper(points)[()]

    def lower(self, q: ArrayLike) -> Any:
        """P(Q <= q), atoms within rounding errors of q included."""
        points, tails = self._checked(q)
        return tails.lower(points)[()]

    def error(self, q: ArrayLike) -> Any:
        """Absolute error to be expected of the tails at q; inf where there is no route."""
        points = np.asarray(q, dtype=np.float64)
        if self._tails is None:
            return np.full(points.shape, np.inf)[()]
        return self._tails.error(points)[()]

    def _checked(self, q: ArrayLike) -> tuple[FloatArray, Tails]:
        points = np.asarray(q, dtype=np.float64)
        worst = np.max(self.error(points), initial=0.0)
        if self._tails is None or worst > ACCEPTED_ERROR:
            raise ConvergenceError(
                f"the exact law is known with an error of {worst:.1g} only: simulate it"
            )
        return points, self._tails

    @cached_property
    def _tails(self) -> Tails | None:
        cells = Cells.collect(self.nobs, self.value, self.centre, self.weight, self.noise)
        if cells is None:
            return None
        transform = Transform(cells)
        if affordable(cells, transform):
            return Enumeration(cells, transform.circle)
        return Inversion(transform, statistic_lattice(cells))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
