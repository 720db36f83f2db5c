"""What was measured of each unit: one number with one variance, from any number of values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.queries import Hierarchy

_CONTRADICTION = 1e-9
"""Relative difference up to which values without noise agree."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Values of units, merged by inverse variance.

    Parameters
    ----------
    unit : array of int, shape (m,), or None
        The unit that each value measures; None where value i measures unit i.
    weight : array of float, shape (m,), or None
        Weight of each value in the merged value of its unit; None where each is alone.
    units : int
        The number n of units.
    """

    unit: NDArray[np.intp] | None
    weight: FloatArray | None
    units: int

    @classmethod
    def of(
        cls, unit: NDArray[np.intp] | None, variance: FloatArray, units: int
    ) -> tuple[Measured, FloatArray]:
        """Merge values of these units, shape (m,), with these variances, shape (m,).

        Also returns the variance of the merged values, shape (n,), infinite for units that are not
        measured; where value i measures unit i, it is the array ``variance`` itself.
        """
        if unit is None:
            return cls(None, None, units), variance
        counts = np.bincount(unit, minlength=units)
        merged = np.full(units, np.inf)
        if counts.max() <= 1:
            merged[unit] = variance
            return cls(unit, None, units), merged
        exact = variance == 0.0
        exacts = np.bincount(unit[exact], minlength=units)
        precision = np.where(exact, np.inf, 1.0 / np.where(exact, 1.0, variance))
        total = np.bincount(unit, np.where(exact, 0.0, precision), units)
        weight = np.where(
            exacts[unit] > 0,
            exact / np.maximum(exacts, 1)[unit],
            np.where(exact, 0.0, precision) / np.where(total > 0.0, total, 1.0)[unit],
        )
        measured = total > 0.0
        merged[measured] = 1.0 / total[measured]
        merged[exacts > 0] = 0.0
        return cls(unit, weight, units), merged

    def merged(self, values: FloatArray) -> FloatArray:
        """Return the merged values, shape (..., n), of values, shape (..., m); 0 without any."""
        if self.unit is None:
            return values
        out = np.zeros((*values.shape[:-1], self.units))
        if self.weight is None:
            out[..., self.unit] = values
            return out
        order = np.argsort(self.unit, kind="stable")
        sorted_units = self.unit[order]
        starts = np.flatnonzero(np.diff(sorted_units, prepend=-1))
        weighted = (values * self.weight)[..., order]
        out[..., sorted_units[starts]] = np.add.reduceat(weighted, starts, axis=-1)
        return out

    def on_values(self, weights: FloatArray) -> FloatArray:
        """Return weights of the values, shape (..., m), from those of merged ones, (..., n)."""
        if self.unit is None:
            return weights
        own = weights[..., self.unit]
        return own if self.weight is None else own * self.weight

    def refuse_contradiction(
        self, values: FloatArray, variance: FloatArray, hierarchy: Hierarchy
    ) -> None:
        """Refuse values of one unit that have no noise and differ."""
        if self.unit is None or self.weight is None:
            return
        own = self.merged(values)[self.unit]
        apart = np.abs(values - own) > _CONTRADICTION * np.maximum(np.abs(own), 1.0)
        wrong = np.unique(self.unit[apart & (variance == 0.0)])
        if wrong.size:
            raise IncompatibleReleaseError(
                "values published without noise must agree, but those of the same unit differ for "
                f"{hierarchy.names(wrong)}"
            )
