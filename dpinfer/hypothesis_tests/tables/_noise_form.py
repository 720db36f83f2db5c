"""The quadratic form in the deviations of noisy counts, minimised when parameters are estimated.

Arrays of cells have the shape of a table with one more axis, the innermost, for m tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer._validation import FloatArray

_DEPENDENT = 1e-10
"""Ratio of singular values below which columns are taken to depend on the others."""


@dataclass(frozen=True)
class NoiseForm:
    """The form dᵀ(diag(s·μ + V) - g·V Vᵀ)⁻¹d in deviations d from expected counts μ.

    With w = 1/(s·μ + V) it is Σ w d² + γ·(Σ w V d)², where γ = g/(1 - g Σ w V²).

    The covariance of the counts is n(diag(p) - p pᵀ) + diag(V). Its part n p pᵀ is missing here:
    the form is minimised over multiples of p, too, and its minimum does not depend on that part.

    Parameters
    ----------
    variance : array of float, the shape of a table
        Variance V of the noise.
    shared : float
        The factor g.
    slack : float
        1 - g ΣV, which would cancel.
    inflation : float
        The factor s: sampling variance in units of the expected count.
    """

    variance: FloatArray
    shared: float
    slack: float
    inflation: float = 1.0

    @classmethod
    def published(cls, variance: FloatArray, nobs_variance: float) -> NoiseForm:
        """Return the form for tables whose number of observations N was published with noise.

        ``nobs_variance`` is the variance of that noise: 0 where N is public, infinite where it is
        not published. N tells something about the noise of the table, which :meth:`adjust`
        removes: z = y - g·V·(Σy - N) with g = 1/(ΣV + var N) has noise of covariance
        diag(V) - g·V Vᵀ, which is uncorrelated with Σy - N.
        """
        total = float(variance.sum())
        if total == 0.0 or np.isinf(nobs_variance):
            return cls(variance, 0.0, 1.0)
        shared = 1.0 / (total + nobs_variance)
        return cls(variance, shared, nobs_variance * shared)

    @cached_property
    def is_even(self) -> bool:
        """Whether V is the same in all cells."""
        return bool((self.variance == self.variance.flat[0]).all())

    @property
    def noise(self) -> FloatArray:
        """V, with an axis for the tables."""
        return self.variance[..., np.newaxis]

    def adjust(self, tables: FloatArray, nobs: FloatArray) -> FloatArray:
        """Remove from tables the noise that their published totals tell."""
        if self.shared == 0.0:
            return tables
        return tables - self.shared * self.noise * (total(tables) - nobs)

    def diagonal(self, expected: FloatArray) -> FloatArray:
        """Return w, in the shape of ``expected``."""
        scaled = expected if self.inflation == 1.0 else expected * self.inflation
        weights = scaled + self.noise
        return np.divide(1.0, weights, out=weights)

    def weights(self, expected: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return w, in the shape of ``expected``, and γ, shape (m,)."""
        weights = self.diagonal(expected)
        if self.shared == 0.0:
            return weights, np.zeros(expected.shape[-1])
        reduced = self.inflation * self.dot_noise(weights, expected)
        return weights, self.shared / (self.slack + self.shared * reduced)

    def dot_noise(self, *factors: FloatArray) -> FloatArray:
        """Return the sum over the cells of each table of V and other factors, shape (m,)."""
        if self.is_even:
            return self.variance.flat[0] * dot(*factors)
        return dot(self.variance, *factors)

    def value(self, deviations: FloatArray, weights: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the form, shape (m,)."""
        weighted = weights * deviations
        form = dot(weighted, deviations)
        if self.shared > 0.0:
            form += factor * np.square(self.dot_noise(weighted))
        return form

    def residual_covariance(self, tangents: FloatArray, expected: FloatArray) -> FloatArray:
        """Return the covariance, shape (k, k), of deviations from a fit, by linearising the fit.

        Parameters
        ----------
        tangents : array of float, shape (k, q)
            Derivatives of the k expected counts with respect to the parameters, the scale of all
            of them among these.
        expected : array of float
            Expected counts in the shape of a table.
        """
        weights, gamma = self.weights(expected[..., np.newaxis])
        weights = weights.ravel()
        direction = np.sqrt(gamma) * weights * self.variance.ravel()
        fitted = fitted_part(tangents, weights, direction[np.newaxis])
        return self.covariance_of(np.eye(expected.size) - fitted, expected)

    def covariance_of(self, left: FloatArray, expected: FloatArray) -> FloatArray:
        """Return the covariance of a linear function, shape (q, k), of adjusted tables."""
        noise, cells = self.variance.ravel(), expected.ravel()
        told = left @ noise
        factor = left - self.shared * told[:, np.newaxis]
        sampled = np.diag(cells + noise) - np.outer(cells, cells) / cells.sum()
        # the noise of the published total adds g² var N = g·(1 - g ΣV) in one direction
        from_total = self.shared * self.slack * np.outer(told, told)
        return np.asarray(factor @ sampled @ factor.T + from_total)


def fitted_part(tangents: FloatArray, weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return A(AᵀPA)⁺AᵀP, what a generalised least-squares fit takes out of deviations.

    The precision P = diag(w) + Σ u uᵀ is that of a form, with its directions u in rows: its
    inverse could not be factored where noise is much wider than counts. A, the tangents, may have
    dependent columns.
    """
    root = np.vstack([np.diag(np.sqrt(weights)), directions])
    return np.asarray(tangents @ np.linalg.pinv(root @ tangents, rcond=_DEPENDENT) @ root)


def total(cells: FloatArray) -> FloatArray:
    """Return the sum over the cells of each table, shape (m,)."""
    return np.asarray(cells.sum(axis=tuple(range(cells.ndim - 1))))


def dot(*factors: FloatArray) -> FloatArray:
    """Return the sum over the cells of each table of a product, shape (m,), without the product.

    Factors but the last may be the same for all tables. There is no BLAS in it, whose rounding
    depends on its number of threads.
    """
    ndim = factors[-1].ndim
    flat = [x.reshape(-1) if x.ndim < ndim else x.reshape(-1, x.shape[-1]) for x in factors]
    names = ",".join("k" if x.ndim == 1 else "km" for x in flat)
    return np.asarray(np.einsum(f"{names}->m", *flat))
