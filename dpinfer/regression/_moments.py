"""The corrected normal equations, and what remains of each row in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpinfer._check import FloatArray, as_table, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._formula import Design


@dataclass(frozen=True)
class Moments:
    """Response, covariates and their errors, in coordinates in which Σ w x xᵀ is the identity.

    Normal equations square the condition number of the covariates; here they are well conditioned
    before the noise is taken off, whatever the units and the means of the columns.
    """

    response: FloatArray  # in units of its largest entry, shape (n,)
    covariates: FloatArray  # shape (n, p)
    errors: FloatArray  # covariance matrices, response first, shape (n, 1 + p, 1 + p)
    weights: FloatArray  # with mean 1
    to_units: FloatArray  # what (response, covariates) of the design were multiplied with
    noisy: NDArray[np.bool_]  # columns of the design matrix that have errors, shape (p,)

    @classmethod
    def of(cls, design: Design) -> Moments:
        endog, exog = design.endog, design.exog
        weights = design.weights / design.weights.mean()
        size = np.abs(exog).max(axis=0)
        triangle = linalg.qr(exog / size * np.sqrt(weights)[:, None], mode="economic")[1]
        inverse = linalg.solve_triangular(triangle, np.eye(len(size)))
        to_units = linalg.block_diag(1.0 / (np.abs(endog).max() or 1.0), inverse / size[:, None])
        covariance = design.error_covariance()
        return cls(
            endog * to_units[0, 0],
            exog @ to_units[1:, 1:],
            np.asarray(to_units.T @ covariance @ to_units),
            weights,
            to_units,
            np.asarray(np.diagonal(covariance, axis1=1, axis2=2)[:, 1:].any(axis=0)),
        )

    @cached_property
    def noise(self) -> FloatArray:
        """Σ w times the covariance matrices of the errors, shape (1 + p, 1 + p)."""
        return np.asarray(np.einsum("i,ijk->jk", self.weights, self.errors))

    @cached_property
    def cross(self) -> FloatArray:
        """Σ w x y: the coefficients of ordinary least squares, shape (p,)."""
        return np.asarray(self.covariates.T @ (self.weights * self.response))

    def noise_shares(self) -> tuple[float, FloatArray]:
        """Largest share of the noise in the variation of a combination of covariates, and which."""
        shares, vectors = linalg.eigh(self.noise[1:, 1:])
        return max(float(shares[-1]), 0.0), vectors[:, -1]


Method = Literal["moments", "fuller"]

_LARGEST_SHARE = 1.0 - 1e-9
_HOPELESS = 1e6
_CLEAR = 4.0


@dataclass(frozen=True)
class Solution:
    """Coefficients that solve corrected normal equations, in the coordinates of the moments."""

    moments: Moments
    factor: float  # of the covariances of the errors: 1 in the method of moments
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


# Covariance matrices of corrected coefficients: M-estimation, with the noise in each row.


Covariance = Literal["HC0", "HC1", "HC3", "cluster"]

_ROUNDING = 1e-9


def hc0(solution: Solution, groups: Any) -> FloatArray:
    """M⁻¹(Σ ψψᵀ)M⁻¹."""
    return _sandwich(solution, solution.scores)


def hc1(solution: Solution, groups: Any) -> FloatArray:
    """n/(n - p) times that."""
    rows, columns = solution.scores.shape
    return np.asarray(hc0(solution, groups) * (rows / (rows - columns)))


def hc3(solution: Solution, groups: Any) -> FloatArray:
    """Σ of the squared changes of β when a row is left out.

    Without row i the equations are (M - A)b = M β - (A β + ψ), so that b - β = -(M - A)⁻¹ψ.
    """
    x = solution.moments.covariates
    own = x[:, :, None] * x[:, None, :] - solution.factor * solution.moments.errors[:, 1:, 1:]
    left = solution.matrix - own * solution.moments.weights[:, None, None]
    if (np.linalg.eigvalsh(left)[:, 0] <= _ROUNDING).any():
        raise NotEstimableError(
            "cov_type='HC3' needs estimates without each of the rows, and some single row holds "
            "all variation of a covariate that is not noise: use cov_type='HC1'"
        )
    change = np.linalg.solve(left, solution.scores[:, :, None])[:, :, 0]
    return np.asarray(change.T @ change)


def cluster(solution: Solution, groups: Any) -> FloatArray:
    """HC1 with scores added up within groups."""
    rows, columns = solution.scores.shape
    count = int(groups.max()) + 1
    totals = np.zeros((count, columns))
    np.add.at(totals, groups, solution.scores)
    correction = count / (count - 1.0) * (rows - 1.0) / (rows - columns)
    return np.asarray(_sandwich(solution, totals) * correction)


COVARIANCES = {"HC0": hc0, "HC1": hc1, "HC3": hc3, "cluster": cluster}


def noise_covariance(solution: Solution, design: Design) -> FloatArray:
    """Covariance matrix due to the noise alone, the confidential values being fixed."""
    half = solution.solve(noise_of_scores(solution, design))
    covariance = solution.solve(half.T)
    covariance = (covariance + covariance.T) / 2.0
    size = np.sqrt(np.abs(np.diagonal(covariance)))
    size[size == 0] = 1.0
    if np.linalg.eigvalsh(covariance / size[:, None] / size)[0] < -_ROUNDING:
        raise NotEstimableError(
            "the rows are too few, or the noise too wide, to tell the variance due to the noise: "
            "use uncertainty='noise+sampling'"
        )
    return np.asarray(covariance)


def noise_of_scores(solution: Solution, design: Design) -> FloatArray:
    """Estimate without bias the covariance matrix that the noise gives to the sum of the scores.

    With x and q the confidential covariates and residual of a row, u and v their errors, and the
    covariances Σ of u, κ of u and v, τ of v, the row's score x q + x v + u q + u v - κ has the
    covariance x xᵀτ + q²Σ + q(xκᵀ + κxᵀ) + Στ + κκᵀ + C, C the fourth cumulants. The published
    row gives x xᵀ + Σ, q² + τ and x q + κ without bias.
    """
    x = solution.moments.covariates
    errors = solution.moments.errors[:, 1:, 1:]
    squares = np.square(solution.moments.weights)
    cross, variance, residual = solution.error_cross, solution.error_variance, solution.residuals
    mixed = x.T @ (cross * (squares * residual)[:, None])
    meat = (
        x.T @ (x * (squares * variance)[:, None])
        + np.einsum("i,ijk->jk", squares * (np.square(residual) - variance), errors)
        + mixed
        + mixed.T
        - cross.T @ (cross * squares[:, None])
        + _fourth(solution, design, squares)
    )
    return np.asarray(meat)


def check_groups(groups: Any, labels: Any, size: int) -> Any:
    """Return groups as numbers from 0, one for each row."""
    import pandas as pd

    groups = as_table(groups, "groups")
    own = getattr(groups, "index", None) if hasattr(groups, "to_numpy") else None
    if own is not None and labels is not None and not own.equals(labels):
        raise InvalidParameterError(
            "groups must have the labels of the data in the same order: reindex them first"
        )
    try:
        codes, found = pd.factorize(np.asarray(groups))
    except Exception as error:  # pandas says in its own ways what it cannot compare
        raise InvalidParameterError(
            f"groups must be labels, one for each row, got {show(groups)}"
        ) from error
    if codes.shape != (size,):
        raise InvalidParameterError(
            f"groups must have {size} entries, one for each row, got {len(codes)}"
        )
    if (codes < 0).any():
        raise InvalidParameterError("groups must not have missing values")
    if len(found) < 2:
        raise InvalidParameterError("groups must hold at least two different groups, got one")
    return codes


def _sandwich(solution: Solution, scores: FloatArray) -> FloatArray:
    each = solution.solve(scores.T)
    return np.asarray(each @ each.T)


def _fourth(solution: Solution, design: Design, squares: FloatArray) -> FloatArray:
    """Σ w² γ (a aᵀ) b², over sources of excess γ that covariates hold a times, the residual b."""
    loadings = solution.moments.to_units.T @ (design.loadings * design.errors.std[:, None, :])
    along = np.einsum("j,ijk->ik", solution.contrast, loadings)
    factor = squares[:, None] * design.errors.excess() * np.square(along)
    x = loadings[:, 1:]
    return np.asarray(np.einsum("ijk,ik,ilk->jl", x, factor, x))
