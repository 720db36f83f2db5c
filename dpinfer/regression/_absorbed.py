"""Fixed effects of many groups, absorbed: deviations from the means of groups, in linear time.

Least squares with an indicator for each group is least squares on deviations from weighted means
(Frisch, Waugh and Lovell), with weights and residuals the same; of the noise of a row the
deviations hold the share 1 - h, h the row's part of the weight of its group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._formula import Design, checked_triangle


@dataclass(frozen=True)
class Absorbed:
    """Groups whose effects are taken out of response and covariates."""

    codes: NDArray[np.intp]  # of the rows, from 0, shape (n,)
    weights: FloatArray  # of the rows, shape (n,)
    totals: FloatArray  # of the weights of groups, shape (G,)
    endog: FloatArray  # the published response, shape (n,)

    def within(self, values: FloatArray) -> FloatArray:
        """Return deviations of columns from their weighted means in groups, shape (n, ...)."""
        if values.ndim == 2:
            return np.column_stack([self.within(column) for column in values.T])
        near = values - values.mean()
        return np.asarray(near - (self.sums(self.weights * near) / self.totals)[self.codes])

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums of groups, shape (G,)."""
        return np.asarray(np.bincount(self.codes, values, len(self.totals)), dtype=np.float64)

    def leverage(self, rows: slice) -> FloatArray:
        """Return the part of rows of the weight of their groups."""
        return np.asarray(self.weights[rows] / self.totals[self.codes[rows]])


def absorb(design: Design, codes: Any) -> Design:
    """Return the design of deviations from the means of groups; the constant is left out."""
    if design.curves:
        raise InvalidParameterError(
            "absorb must be left out where formulas have squares or products of noisy columns: "
            "give the groups as C(group), as long as they are few"
        )
    sums = np.asarray(np.bincount(codes, design.weights), dtype=np.float64)
    absorbed = Absorbed(codes, design.weights, sums, design.endog)
    noisy = np.isin(np.arange(design.exog.shape[1]) + 1, design.noisy)
    kept = (np.ptp(design.exog, axis=0) > 0) | noisy
    if not kept.any():
        raise NotEstimableError("the model has no covariate but the constant, which is absorbed")
    exog, names = design.exog[:, kept], [x for x, k in zip(design.names, kept, strict=True) if k]
    if len(exog) <= exog.shape[1] + len(sums):
        raise NotEstimableError(
            f"{exog.shape[1]} coefficients and {len(sums)} absorbed groups need more than "
            f"{exog.shape[1] + len(sums)} rows, got {len(exog)}"
        )
    within = absorbed.within(exog)
    size = np.abs(exog - exog.mean(axis=0)).max(axis=0)
    if (flat := np.abs(within).max(axis=0) <= _ROUNDING * size).any():
        raise NotEstimableError(
            f"{show(names[int(np.argmax(flat))])} does not vary within the absorbed groups: leave "
            "it out"
        )
    endog = absorbed.within(design.endog)
    places = np.concatenate([[0], np.cumsum(kept)])
    return replace(
        design,
        endog=endog,
        exog=within,
        names=names,
        triangle=checked_triangle(endog, within, design.weights),
        noisy=places[design.noisy],
        spec=None,
        absorbed=absorbed,
    )


def nested(absorbed: Absorbed, groups: Any) -> bool:
    """Whether all rows of an absorbed group are in one of the groups."""
    first = np.empty(len(absorbed.totals), dtype=np.intp)
    first[absorbed.codes] = groups
    return bool((first[absorbed.codes] == groups).all())


_ROUNDING = 1e-11
