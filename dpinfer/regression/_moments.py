"""Rows of a design in orthonormal coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpinfer._validation import FloatArray
from dpinfer.regression._design import Design


@dataclass(frozen=True)
class Moments:
    """Response, covariates and their errors, in coordinates in which Σ w x xᵀ is the identity.

    Normal equations square the condition number of the covariates; here they are well conditioned
    before the noise is taken off, whatever the units and the means of the columns.

    Parameters
    ----------
    response : array of float, shape (n,)
        Published response, in units of its largest entry.
    covariates : array of float, shape (n, p)
        Published covariates.
    errors : array of float, shape (n, 1 + p, 1 + p)
        Covariance matrices of the errors of response (first) and covariates.
    weights : array of float, shape (n,)
        Weights with mean 1.
    to_units : array of float, shape (1 + p, 1 + p)
        The matrix that (response, covariates) of the design were multiplied with.
    noisy : array of bool, shape (p,)
        Which columns of the design matrix have errors.
    """

    response: FloatArray
    covariates: FloatArray
    errors: FloatArray
    weights: FloatArray
    to_units: FloatArray
    noisy: NDArray[np.bool_]

    @classmethod
    def of(cls, design: Design) -> Moments:
        """Take the moments of a design."""
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
