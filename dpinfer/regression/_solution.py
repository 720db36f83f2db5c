"""The corrected normal equations, and what remains of each row in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import linalg

from dpinfer._validation import FloatArray
from dpinfer.errors import NotEstimableError
from dpinfer.regression._moments import Moments

Method = Literal["moments", "fuller"]

_LARGEST_SHARE = 1.0 - 1e-9
_HOPELESS = 1e6
_CLEAR = 4.0


@dataclass(frozen=True)
class Solution:
    """Coefficients that solve corrected normal equations, in the coordinates of the moments.

    Parameters
    ----------
    moments : Moments
        What the equations are about.
    factor : float
        What the covariances of the errors were multiplied with: 1 in the method of moments.
    notes : tuple of str
        Remarks for the summary.
    """

    moments: Moments
    factor: float
    notes: tuple[str, ...] = ()

    @cached_property
    def matrix(self) -> FloatArray:
        """Moments of the covariates less the errors, shape (p, p)."""
        noise = self.moments.noise[1:, 1:]
        return np.asarray(np.eye(len(noise)) - self.factor * noise)

    @cached_property
    def coefficients(self) -> FloatArray:
        """The solution β, shape (p,)."""
        return self.solve(self.moments.cross - self.factor * self.moments.noise[1:, 0])

    @cached_property
    def contrast(self) -> FloatArray:
        """(1, -β), whose product with (y, x) is a residual."""
        return np.concatenate([[1.0], -self.coefficients])

    @cached_property
    def residuals(self) -> FloatArray:
        """Published response less Xβ, shape (n,)."""
        return np.asarray(self.moments.response - self.moments.covariates @ self.coefficients)

    @cached_property
    def error_cross(self) -> FloatArray:
        """Covariance of the errors of covariates and residual, shape (n, p)."""
        return np.asarray(self.moments.errors[:, 1:] @ self.contrast)

    @cached_property
    def error_variance(self) -> FloatArray:
        """Variance of the errors of the residuals, shape (n,)."""
        return np.asarray(self.moments.errors @ self.contrast @ self.contrast)

    @cached_property
    def scores(self) -> FloatArray:
        """What each row adds to the normal equations at β, shape (n, p); the sum is 0."""
        own = self.moments.covariates * self.residuals[:, None] - self.factor * self.error_cross
        return np.asarray(own * self.moments.weights[:, None])

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve with :attr:`matrix`."""
        return np.asarray(linalg.solve(self.matrix, right, assume_a="pos"))

    def in_units(self, coefficients: FloatArray) -> FloatArray:
        """Bring coefficients, shape (p,) or (p, m), from the coordinates to units of the data."""
        to_units = self.moments.to_units
        return np.asarray(to_units[1:, 1:] @ coefficients / to_units[0, 0])


def solve_moments(moments: Moments, names: list[str]) -> Solution:
    """Take off all of the noise: the method of moments.

    ``names`` are those of the covariates, for the message.
    """
    share, direction = moments.noise_shares()
    if share > _LARGEST_SHARE:
        to_units = moments.to_units[1:, 1:]
        half = np.linalg.solve(to_units.T, moments.noise[1:, 1:])
        own = np.diagonal(np.linalg.solve(to_units.T, half.T))
        worst = int(np.argmax(np.abs(to_units @ direction) * np.sqrt(np.abs(own))))
        raise NotEstimableError(
            f"the noise drowns the covariates, {names[worst]!r} above all: it would explain "
            f"{share:.3g} times the variation of a combination of the noisy columns. Leave the "
            "column out, use rows with less noise, or method='fuller', whose intervals are then "
            "no more than indicative"
        )
    return Solution(moments, 1.0, _weakness(moments, direction))


def solve_fuller(moments: Moments, names: list[str]) -> Solution:
    """Fuller's modification: take off a little less, and never more than there is.

    With k noisy covariates and d rows beyond the covariates without noise, the noise is taken off
    min(1, λ - 1/d) - (k + 1)/d times, λ the smallest root of det(XᵀWX - λ·noise) = 0.
    """
    if not moments.noisy.any():
        return Solution(moments, 1.0)
    share, direction = moments.noise_shares()
    if share > _HOPELESS:
        raise NotEstimableError(
            f"the noise is {share:.1e} times what varies in the noisy covariates: nothing is left "
            "of a covariate. Leave it out, or check the units of its noise"
        )
    rows = len(moments.response) - np.count_nonzero(~moments.noisy)
    factor = min(1.0, 1.0 / share - 1.0 / rows) - (np.count_nonzero(moments.noisy) + 1.0) / rows
    if share <= rows / (rows + 1.0):
        return Solution(moments, factor, _weakness(moments, direction))
    note = (
        "the noise explains all variation of a combination of the noisy covariates: Fuller's "
        "modification holds the estimates back, and the intervals are no more than indicative"
    )
    return Solution(moments, factor, (note,))


SOLVERS = {"moments": solve_moments, "fuller": solve_fuller}


def _weakness(moments: Moments, direction: FloatArray) -> tuple[str, ...]:
    """Remark where the variation that is not noise is itself not clearly there."""
    noise = moments.errors[:, 1:, 1:] @ direction @ direction
    own = moments.weights * (np.square(moments.covariates @ direction) - noise)
    if not moments.noisy.any() or own.sum() >= _CLEAR * np.sqrt(np.square(own).sum()):
        return ()
    return (
        "the variation of the noisy covariates that is not noise is known to a quarter of itself "
        "at best: the intervals may cover too rarely",
    )
