"""Linear functions of values that were rounded, binned or clamped, with proved bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import Alternative, FloatArray
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
    """How far the middle of what may have been rounded is below what it became."""
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
        up, down = np.maximum(c, 0.0), np.maximum(-c, 0.0)
        under, over = (np.broadcast_to(reach, len(x)) for reach in x.rounding_reach())
        low, high = (_outward(up @ own + down @ other) for own, other in _both_ways(under, over))
        at_low, at_high = used & (x.values <= lowest), used & (x.values >= highest)
        clamped = np.column_stack([at_low, at_high])
        open_low = ((c > 0) @ clamped[:, 0]) | ((c < 0) @ clamped[:, 1])
        open_high = ((c > 0) @ clamped[:, 1]) | ((c < 0) @ clamped[:, 0])
        fewer, more = (np.where(used, reach, 0.0) for reach in rule.bin_reach())
        middle = 0.5 * (c @ (fewer - more))
        known = {
            "magnitude": magnitude,
            "low": np.where(open_low, np.inf, low),
            "high": np.where(open_high, np.inf, high),
            "centre": middle + 0.5 * (c @ (under - over)),
        }
        plain, binned = replace(x, rule=None), np.flatnonzero(fewer + more)
        if bins == "uniform" and len(binned):
            law = CentredUniform(width=before[binned])
            within = NoisyValues(np.zeros(len(binned)), Noises(law, len(binned)))
            joint = np.concatenate([weights, weights[..., binned]], axis=-1)
            values = plain.beside(within).linear(joint, labels=labels, name=x.name)
            known |= {"below": middle, "above": -middle}
            known |= {"step": np.zeros(len(c))}
        else:
            values = plain.linear(weights, labels=labels)
            below, above = (up @ own + down @ other for own, other in _both_ways(fewer, more))
            known |= {"below": below, "above": above}
            known |= {"step": _steps(c, before)}
        open_ends = int(np.count_nonzero(open_low | open_high))
        return cls(
            values=values,
            notes=_notes(rule, len(binned), bins, open_ends, clamped.any(axis=1).sum()),
            **known,
        )

    def about(self, found: Intervals) -> Intervals:
        """Return intervals for the confidential sums, of intervals of the sums as published."""
        low, high = self.ends(*(np.reshape(end, -1) for end in found._ends))
        shape = self.values.shape
        return found._of_ends(
            low.reshape(shape),
            high.reshape(shape),
            estimate=np.asarray(found.estimate) - self.centre.reshape(shape),
            notes=(*found.notes, *self.notes),
        )

    def ends(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ends for the confidential sums, of ends for the sums as published."""
        low, high = self._inward(low - self.low, high + self.high)
        return low - self.below, high + self.above

    def deviation(self, target: FloatArray, alternative: Alternative) -> FloatArray:
        """Return the errors nearest to 0, or most against the alternative, that leave a target.

        P-values at them are those of the :meth:`ends`: largest over what may have been rounded.
        """
        goal = np.broadcast_to(target, self.values.shape).reshape(-1)
        least, most = self._inward(goal - self.above, goal + self.below)
        low, high = self.values.values - self.low - most, self.values.values + self.high - least
        found = {"larger": low, "smaller": high, "two-sided": np.clip(0.0, low, high)}
        return np.asarray(found[alternative]).reshape(self.values.shape)

    def _inward(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Move ends to the multiples within them of which the sums before the noise are some."""
        step = np.where(self.step > 0, self.step, 1.0)
        low = np.where(self.step > 0, np.ceil(low / step) * step, low)
        return low, np.where(self.step > 0, np.floor(high / step) * step, high)


def _both_ways(
    below: FloatArray, above: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return what weights above 0, and below 0, make of room below and above."""
    return (below, above), (above, below)


def _outward(reach: FloatArray) -> FloatArray:
    """Return how far sums may be off, with room for its rounding unless it is exact."""
    return reach + np.where(2.0 * reach == np.rint(2.0 * reach), 0.0, ROUNDING * reach)


def _steps(c: FloatArray, before: FloatArray) -> FloatArray:
    """Return the largest whole numbers of which all Σ cᵢgᵢ are multiples, 0 for none."""
    sizes = np.abs(c) * before
    known = (c == np.rint(c)) & (sizes < _LARGEST_STEP) & ((before > 1) | (c == 0))
    whole = np.where(known, sizes, 0.0).astype(np.int64)
    found: FloatArray = np.gcd.reduce(whole, axis=1).astype(np.float64)
    return np.where(known.all(axis=1), found, 0.0)


def _notes(
    rule: Rule, binned: int, bins: BinAssumption, open_ends: int, clamped: Any
) -> tuple[str, ...]:
    uniform = (
        f"{binned} counts are taken to be uniform in their bins and independent, which nothing "
        "that was published shows: for bounds without that, bin_assumption='bounded'"
    )
    bounded = f"whatever the places of {binned} counts in their bins, which are bounded"
    remarks = (
        (rule.after > 0, after_in_words(rule)),
        (binned, uniform if bins == "uniform" else bounded),
        (
            open_ends,
            f"{open_ends} intervals have an open end, as {clamped} values are at a clamping bound, "
            "beyond which nothing is known of them",
        ),
    )
    return tuple(words for holds, words in remarks if holds)


def after_in_words(rule: Rule) -> str:
    """Say what was done about rounding after the noise."""
    way = "to the nearest" if rule.after_way == "nearest" else f"{rule.after_way} to"
    return f"ends moved outward for rounding {way} multiples of {rule.after:g} after the noise"
