"""Whether the values of a hierarchy agree as well as their noise says, and which agree least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer._validation import FloatArray, check_integer
from dpinfer.estimation.consistency import CHECKED, disagreement_frame
from dpinfer.estimation.pivots import exact_pvalues
from dpinfer.mechanisms import NoiseLaw
from dpinfer.mechanisms.weighted_sum import WeightedSum

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.hierarchies._fit import HierarchyFit


@dataclass(frozen=True)
class HierarchyDisagreement:
    """The statistic Q = Σ (y - x̂)²/v of the values of a hierarchy."""

    fit: HierarchyFit

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""
        noisy = self.fit.value_variance > 0.0
        unit = self.fit.value_units
        units = len(self.fit.hierarchy)
        # all noisy values of a unit but one; all where it was published without noise, too
        several = np.bincount(unit[noisy], minlength=units)
        exact = np.bincount(unit[~noisy], minlength=units) > 0
        extra = int(np.maximum(several - ~exact, 0).sum())
        return extra + sum(
            int(np.count_nonzero((variance > 0.0) & np.isfinite(variance)))
            for _, _, variance in self.fit.innovations(self.fit.values)
        )

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of the noise."""
        return self.fit.mechanism

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self.fit.values.size)

    def observed(self) -> FloatArray:
        """Q of the published values.

        Whole numbers that add up are taken off first, so that the size of the confidential values
        does not make for rounding errors.
        """
        return self.of(self.fit.values - self.fit.nearest_whole()[self.fit.value_units])

    def of(self, values: FloatArray) -> FloatArray:
        """Q for values, shape (..., m)."""
        residuals = values - self.fit.refit(values)[..., self.fit.value_units]
        variance = self.fit.value_variance
        precision = np.divide(1.0, variance, out=np.zeros(variance.shape), where=variance > 0.0)
        return np.asarray(np.square(residuals) @ precision)

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw that many replicates of Q: the confidential values drop out."""
        noise = self.fit.mechanism.rvs((size, self.size), rng=rng)
        return self.of(np.asarray(noise, dtype=np.float64))


def disagreements(fit: HierarchyFit, most: int) -> pd.DataFrame:
    """Return the values that differ most from the estimates."""
    import pandas as pd

    most = check_integer(most, "most", ge=1)
    unit, variance = fit.value_units, fit.value_variance
    residual = fit.values - fit.estimates[unit]
    # of a residual; positive by theory, and 0 for a value that no other bears on
    own = np.maximum(variance - fit.variance[unit], 0.0)
    checked = np.flatnonzero(own > CHECKED * variance)
    score = residual[checked] / np.sqrt(own[checked])
    order = np.argsort(-np.abs(score), kind="stable")[:most]
    rows, score = checked[order], score[order]
    labels = fit.hierarchy.labels
    std_err = np.sqrt(own[rows])

    def law(at: int) -> WeightedSum:
        (block,) = fit.weight_blocks(unit[rows[[at]]])
        weights = -block[0]
        weights[rows[at]] += 1.0
        return fit.noise(weights)

    pvalue, method = exact_pvalues(
        residual[rows],
        std_err,
        law=law,
        terms=fit.values.size,
        gaussian=fit.is_gaussian,
        bound=lambda: fit.bound_of_any,
    )
    return disagreement_frame(
        fit.values[rows],
        fit.estimates[unit[rows]],
        residual[rows],
        std_err,
        score,
        pvalue,
        index=pd.Index(unit[rows], name="unit") if labels is None else labels[unit[rows]],
        method=method,
        compared=int(checked.size),
    )


def parent_tests(fit: HierarchyFit) -> pd.DataFrame:
    """Return, for units with values and children, how the values differ from the children's sum."""
    import pandas as pd

    none = (np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))
    parts = [none, *fit.innovations(fit.values)]
    place, difference, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
    there = np.isfinite(variance) & (variance > 0.0)
    order = fit.hierarchy.tree.order
    place, difference, std_err = place[there], difference[there], np.sqrt(variance[there])
    unit = place if order is None else order[place]
    score = difference / std_err
    labels, laws = fit.hierarchy.labels, fit.laws
    pvalue, method = exact_pvalues(
        difference,
        std_err,
        law=lambda at: fit.noise(fit.innovation_weights(int(place[at]))),
        terms=fit.values.size,
        gaussian=fit.is_gaussian,
        bound=lambda: fit.bound_of_any,
        together=(lambda size: laws.difference_tails(place, size)) if laws.supported else None,
    )
    frame = pd.DataFrame(
        {
            "difference": difference,
            "std_err": std_err,
            "z": score,
            "pvalue": pvalue,
        },
        index=pd.Index(unit, name="unit") if labels is None else labels[unit],
    )
    frame.attrs = {"method": method}
    return frame.iloc[np.argsort(unit, kind="stable")]
