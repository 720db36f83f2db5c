"""Covariance matrices of corrected coefficients: M-estimation, with the noise in each row."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dpinfer._interchange import as_table
from dpinfer._validation import FloatArray, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._design import Design
from dpinfer.regression._solution import Solution

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
