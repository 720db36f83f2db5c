"""Linear functions of values that were rounded, binned or clamped, with proved bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.estimation.pivots import ROUNDING
from dpinfer.mechanisms._sums.terms import CentredUniform
from dpinfer.releases.noises import Noises, Rule
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd

BinAssumption = Literal["bounded", "uniform"]
BIN_ASSUMPTIONS: tuple[BinAssumption, ...] = ("bounded", "uniform")

_LARGEST_STEP = 2.0**53


@dataclass(frozen=True, kw_only=True)
class RuledSums:
    """Sums Σ cᵢyᵢ of k sets of values, and how far they are from those of truth plus noise.

    Before the noise Σ cᵢgᵢ is within ``low`` below and ``high`` above Σ cᵢ(yᵢ - eᵢ), for counts g
    in their bins, and Σ cᵢfᵢ within ``below`` below and ``above`` above Σ cᵢgᵢ.
    """

    values: NoisyValues
    magnitude: FloatArray
    low: FloatArray
    high: FloatArray
    below: FloatArray
    above: FloatArray
    centre: FloatArray
    """How far the middle of the bins is from their upper ends."""
    step: FloatArray
    """Numbers of which Σ cᵢgᵢ is a multiple, 0 where none is known."""
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, x: NoisyValues, weights: FloatArray, bins: BinAssumption, labels: pd.Index | None
    ) -> RuledSums:
        """Refuse sums of values with a threshold; of others, know what their rule leaves."""
        rule, c = x.rule or Rule(), np.atleast_2d(weights)
        used = (c != 0).any(axis=0)
        threshold, lowest, highest, before = (
            np.broadcast_to(bound, len(x))
            for bound in (rule.threshold, rule.lowest, rule.highest, rule.before)
        )
        x._refuse_ruled(np.flatnonzero(used & np.isfinite(threshold)))
        magnitude = np.abs(c) @ np.abs(x.values)
        reach = 0.5 * rule.after * np.abs(c).sum(axis=1)
        reach = reach + np.where(2.0 * reach == np.rint(2.0 * reach), 0.0, ROUNDING * reach)
        at_low, at_high = used & (x.values <= lowest), used & (x.values >= highest)
        clamped = np.column_stack([at_low, at_high])
        open_low = ((c > 0) @ clamped[:, 0]) | ((c < 0) @ clamped[:, 1])
        open_high = ((c > 0) @ clamped[:, 1]) | ((c < 0) @ clamped[:, 0])
        wide = np.where(used, before - 1.0, 0.0)
        known = {
            "magnitude": magnitude,
            "low": np.where(open_low, np.inf, reach),
            "high": np.where(open_high, np.inf, reach),
            "centre": 0.5 * (c @ wide),
        }
        plain, binned = replace(x, rule=None), np.flatnonzero(wide)
        if bins == "uniform" and len(binned):
            law = CentredUniform(width=before[binned])
            within = NoisyValues(np.zeros(len(binned)), Noises(law, len(binned)))
            joint = np.concatenate([weights, weights[..., binned]], axis=-1)
            values = plain.beside(within).linear(joint, labels=labels, name=x.name)
            known |= {"below": known["centre"], "above": -known["centre"]}
            known |= {"step": np.zeros(len(c))}
        else:
            values = plain.linear(weights, labels=labels)
            known |= {"below": np.maximum(c, 0.0) @ wide, "above": np.maximum(-c, 0.0) @ wide}
            known |= {"step": _steps(c, before)}
        open_ends = int(np.count_nonzero(open_low | open_high))
        return cls(
            values=values,
            notes=_notes(rule.after, len(binned), bins, open_ends, clamped.any(axis=1).sum()),
            **known,
        )

    def about(self, found: Intervals) -> Intervals:
        """Return intervals for the confidential sums, of intervals of the sums as published."""
        low, high = (np.reshape(end, -1) for end in found._ends)
        low, high = low - self.low, high + self.high
        step = np.where(self.step > 0, self.step, 1.0)
        low = np.where(self.step > 0, np.ceil(low / step) * step, low) - self.below
        high = np.where(self.step > 0, np.floor(high / step) * step, high) + self.above
        shape = self.values.shape
        return found._of_ends(
            low.reshape(shape),
            high.reshape(shape),
            estimate=np.asarray(found.estimate) - self.centre.reshape(shape),
            notes=(*found.notes, *self.notes),
        )


def _steps(c: FloatArray, before: FloatArray) -> FloatArray:
    """Return the largest whole numbers of which all Σ cᵢgᵢ are multiples, 0 for none."""
    sizes = np.abs(c) * before
    known = (c == np.rint(c)) & (sizes < _LARGEST_STEP) & ((before > 1) | (c == 0))
    whole = np.where(known, sizes, 0.0).astype(np.int64)
    found: FloatArray = np.gcd.reduce(whole, axis=1).astype(np.float64)
    return np.where(known.all(axis=1), found, 0.0)


def _notes(
    after: float, binned: int, bins: BinAssumption, open_ends: int, clamped: Any
) -> tuple[str, ...]:
    uniform = (
        f"{binned} counts are taken to be uniform in their bins and independent, which nothing "
        "that was published shows: for bounds without that, bin_assumption='bounded'"
    )
    bounded = f"whatever the places of {binned} counts in their bins, which are bounded"
    remarks = (
        (
            after > 0,
            f"widened by {after / 2:g} for each unit of weight, for rounding after the noise",
        ),
        (binned, uniform if bins == "uniform" else bounded),
        (
            open_ends,
            f"{open_ends} intervals have an open end, as {clamped} values are at a clamping bound, "
            "beyond which nothing is known of them",
        ),
    )
    return tuple(words for holds, words in remarks if holds)
