"""The exact law of a quadratic statistic of noisy multinomial counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, show
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._quadratic.enumeration import Enumeration
from dpinfer.hypothesis_tests._quadratic.routes import routes
from dpinfer.hypothesis_tests._quadratic.tails import FirstAccurate
from dpinfer.mechanisms._law import NoiseLaw

ACCEPTED_ERROR = 1e-8
"""Absolute error up to which a probability is given out as exact."""


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
    There are these routes: for two cells a direct sum or quadrature; for few cells with
    whole-numbered noise, a table of all values where they have a common spacing, or lists of the
    values of two halves; else the characteristic function is inverted. The first that is accurate
    and quick at a point is taken there. :meth:`error` tells the absolute error that is to be
    expected of a tail. Where it exceeds 1e-8, tails are given with that error added: p-values are
    then too large rather than too small.
    """

    nobs: int
    value: FloatArray
    centre: FloatArray
    weight: FloatArray
    noise: NoiseLaw

    @property
    def is_available(self) -> bool:
        """Whether there is a route for this kind of noise; it may still prove too inaccurate."""
        return self._tails.exists

    @property
    def is_listed(self) -> bool:
        """Whether values were listed for the tails asked for so far, which may take a second."""
        return any(isinstance(way, Enumeration) for way in self._tails.made)

    def upper(self, q: ArrayLike) -> Any:
        """P(Q >= q), atoms within rounding errors of q included."""
        tails, points = self._ways(), np.asarray(q, dtype=np.float64)
        return _on_the_safe_side(tails.upper(points), tails.error(points))[()]

    def lower(self, q: ArrayLike) -> Any:
        """P(Q <= q), atoms within rounding errors of q included."""
        tails, points = self._ways(), np.asarray(q, dtype=np.float64)
        return _on_the_safe_side(tails.lower(points), tails.error(points))[()]

    def error(self, q: ArrayLike) -> Any:
        """Absolute error to be expected of the tails at q; inf where there is no route."""
        return self._tails.error(np.asarray(q, dtype=np.float64))[()]

    def _ways(self) -> FirstAccurate:
        if not self._tails.exists:
            raise InvalidParameterError(
                f"noise must be of a kind and size whose exact law is available, got "
                f"{show(self.noise)}: use method='monte-carlo'"
            )
        return self._tails

    @cached_property
    def _tails(self) -> FirstAccurate:
        makers = routes(self.nobs, self.value, self.centre, self.weight, self.noise)
        return FirstAccurate(makers, ACCEPTED_ERROR)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _on_the_safe_side(tail: FloatArray, error: FloatArray) -> FloatArray:
    """Add errors that are not negligible; a tail of which nothing is known may be 1."""
    known = np.where(np.isfinite(error), tail, 1.0)
    return np.minimum(np.where(error > ACCEPTED_ERROR, known + error, known), 1.0)
