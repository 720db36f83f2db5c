"""What noise in covariates does to ordinary least squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.regression._design import Design
from dpinfer.regression._moments import Moments


def reliability(design: Design, noisy: NDArray[np.bool_]) -> FloatArray:
    """Share of each column's variation, given those without noise, that is not noise."""
    root = np.sqrt(design.weights)[:, None]
    share = np.ones(len(noisy))
    clean, columns = design.exog[:, ~noisy] * root, design.exog[:, noisy] * root
    if clean.size:
        clean = clean / np.abs(clean).max(axis=0)
        columns = columns - clean @ np.linalg.lstsq(clean, columns)[0]
    variance = np.diagonal(design.error_covariance(), axis1=1, axis2=2)[:, 1:][:, noisy]
    share[noisy] = 1.0 - (design.weights @ variance) / np.square(columns).sum(axis=0)
    return share


def attenuation(moments: Moments) -> FloatArray:
    """Return the matrix (XᵀWX)⁻¹(XᵀWX - noise) in units of the data."""
    to_units = moments.to_units[1:, 1:]
    lost = np.linalg.solve(to_units.T, (to_units @ moments.noise[1:, 1:]).T).T
    return np.asarray(np.eye(len(lost)) - lost)
