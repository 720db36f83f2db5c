"""Errors that rows share, and what they add to the covariance of sums of corrected scores.

With x and q the covariates and the residual of a row, u and η their errors, and the covariances
Σᵢⱼ of uᵢ and uⱼ, κᵢⱼ of uᵢ and ηⱼ, τᵢⱼ of ηᵢ and ηⱼ, the corrected scores of two rows have the
covariance xᵢxⱼᵀτᵢⱼ + qᵢqⱼΣᵢⱼ + qⱼxᵢκⱼᵢᵀ + qᵢκᵢⱼxⱼᵀ + Σᵢⱼτᵢⱼ + κᵢⱼκⱼᵢᵀ + Cᵢⱼ, C fourth cumulants.
The published rows give xᵢxⱼᵀ + Σᵢⱼ, qᵢqⱼ + τᵢⱼ and xᵢqⱼ + κᵢⱼ without bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpinfer._check import FloatArray

_DENSE = 0.1
_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Between:
    """Errors of m noisy columns of n rows as sums of s independent noises of variance 1.

    Regression on the k columns without noise takes its part of them, which is most where many rows
    share an error: sums over pairs of rows are those of deviations, by the projection 1 - FFᵀ.
    """

    columns: list[Any]  # √w times what they hold of the noises, m of shape (n, s)
    excess: FloatArray  # kurtosis of the noises, shape (s,)
    weights: FloatArray  # w of the rows, shape (n,)
    basis: FloatArray  # F, shape (n, k)
    rest: FloatArray  # one less the leverage of the columns without noise, shape (n,)

    @classmethod
    def of(
        cls,
        columns: list[Any],
        excess: FloatArray,
        weights: FloatArray,
        basis: FloatArray,
        rest: FloatArray,
    ) -> Between:
        """Scale columns, and hold them in the form that is quick to multiply."""
        root = np.sqrt(weights)[:, np.newaxis]
        full = sum(x.nnz for x in columns) > _DENSE * sum(x.shape[0] * x.shape[1] for x in columns)
        held = [x.multiply(root).toarray() if full else x.multiply(root).tocsr() for x in columns]
        return cls(held, excess, weights, basis * root, rest)

    def held(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return Σ w over rows of values, (n, p), times what Σ slopes·columns holds, (p, s)."""
        scaled = values * np.sqrt(self.weights)[:, np.newaxis]
        parts = [a * (x.T @ scaled).T for a, x in zip(slopes, self.columns, strict=True)]
        return np.asarray(np.add.reduce(parts))

    @cached_property
    def _beside_basis(self) -> FloatArray:
        """Covariances of columns a and c of the errors, times F, shape (m, m, n, k)."""
        inner = [x.T @ self.basis for x in self.columns]
        return np.array([[np.asarray(x @ part) for part in inner] for x in self.columns])

    @cached_property
    def _in_basis(self) -> FloatArray:
        return np.asarray(np.swapaxes(self.basis, 0, 1) @ self._beside_basis)

    @cached_property
    def _alone(self) -> FloatArray:
        size = len(self.columns)
        out = np.empty((len(self.weights), size, size))
        for i, one in enumerate(self.columns):
            for j, other in enumerate(self.columns):
                out[:, i, j] = np.asarray(_times(one, other).sum(axis=1)).ravel()
        return out

    @cached_property
    def shift(self) -> FloatArray:
        """What sharing takes from the covariance matrices of rows, in deviations, (n, m, m)."""
        return np.asarray(self.own - self._alone / self.weights[:, np.newaxis, np.newaxis])

    @cached_property
    def own(self) -> FloatArray:
        """Covariance matrices of deviations over 1 - h, of rows if unshared, (n, m, m)."""
        out = self._alone.copy()
        both = self._beside_basis + np.swapaxes(self._beside_basis, 0, 1)
        out -= np.einsum("nk,acnk->nac", self.basis, both)
        out += np.einsum("nk,ackl,nl->nac", self.basis, self._in_basis, self.basis, optimize=True)
        scale = np.where(self.rest > 0.0, self.rest, np.inf) * self.weights
        return np.asarray(out / scale[:, np.newaxis, np.newaxis])

    @cached_property
    def products(self) -> FloatArray:
        """Σ over i ≠ j of wᵢwⱼ Cov(eᵢᵃ, eⱼᶜ) Cov(eᵢᵈ, eⱼᵇ), shape (m, m, m, m) of (a, c, d, b)."""
        from scipy import sparse

        size, rows = len(self.columns), len(self.weights)
        total = np.zeros((size**2, size**2))
        step = max(1, _ENTRIES // (rows * size**2))
        for start in range(0, rows, step):
            part = slice(start, start + step)
            blocks = [one[part] @ other.T for one in self.columns for other in self.columns]
            if isinstance(blocks[0], np.ndarray):
                flat: Any = np.stack([x.ravel() for x in blocks])
                total += flat @ flat.T
            else:
                flat = sparse.vstack([x.reshape(1, -1) for x in blocks]).tocsr()
                total += (flat @ flat.T).toarray()
        out = total.reshape((size,) * 4)
        beside, inner = self._beside_basis, self._in_basis
        out = out - np.einsum("cank,bdnk->acdb", beside, beside, optimize=True)
        out -= np.einsum("dbnk,acnk->acdb", beside, beside, optimize=True)
        out += np.einsum("ackl,bdlk->acdb", inner, inner, optimize=True)
        lone = np.square(self.weights) * self.rest
        return np.asarray(
            out - np.einsum("n,nac,ndb->acdb", lone, self.own, self.own, optimize=True)
        )

    def cumulants(self, *, within: bool) -> FloatArray:
        """Fourth cumulants of wᵢeᵢᵃeᵢᶜ and wⱼeⱼᵈeⱼᵇ, summed over rows, of one row if ``within``."""
        size = len(self.columns)
        total = np.zeros((size**2, size**2))
        if self.excess.any():
            pairs = [_times(one, other) for one in self.columns for other in self.columns]
            shared = [x.T @ self.basis for x in self.columns]
            sums = np.stack([np.asarray(x.sum(axis=0)).ravel() for x in pairs])
            sums -= np.stack([(x * y).sum(axis=1) for x in shared for y in shared])
            total += (sums * self.excess) @ sums.T
            lone = np.square(self.rest)
            for i, one in enumerate(pairs if not within else []):
                for j, other in enumerate(pairs):
                    total[i, j] -= lone @ np.asarray(_times(one, other) @ self.excess).ravel()
        return total.reshape((size,) * 4)


def _times(one: Any, other: Any) -> Any:
    return one * other if isinstance(one, np.ndarray) else one.multiply(other).tocsr()
