"""What a forest plot shows: estimates with their intervals, one row each, in one or more layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.estimation import CombinedEstimate, HierarchyEstimate
from dpinfer.intervals import count_confint

if TYPE_CHECKING:
    import pandas as pd

NARROW = 0.03
"""Intervals of a smaller share of the axis than this are drawn around 0, where they are seen."""


@dataclass(frozen=True)
class Layer:
    """One estimate with its interval in each row; NaN where there is none.

    Where ``outside``, the interval is everything that is not between the ends.
    """

    name: str
    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    outside: NDArray[np.bool_]

    @classmethod
    def of(cls, name: str, frame: pd.DataFrame) -> Layer:
        """Read a layer from a summary frame of estimates or intervals."""
        estimate, lower, upper = (
            frame[column].to_numpy(dtype=np.float64, copy=True)
            for column in ("estimate", "ci_lower", "ci_upper")
        )
        outside = np.zeros(len(frame), dtype=bool)
        if "kind" in frame:
            outside |= frame["kind"].to_numpy() == "complement"
        empty = lower > upper
        lower[empty], upper[empty] = np.nan, np.nan
        return cls(name, estimate, lower, upper, outside)

    def first(self, rows: int) -> Layer:
        """Return the first rows."""
        return replace(
            self,
            estimate=self.estimate[:rows],
            lower=self.lower[:rows],
            upper=self.upper[:rows],
            outside=self.outside[:rows],
        )

    def minus(self, centre: FloatArray) -> Layer:
        """Return the layer as differences from a value in each row."""
        return replace(
            self,
            estimate=self.estimate - centre,
            lower=self.lower - centre,
            upper=self.upper - centre,
        )


@dataclass(frozen=True)
class Forest:
    """The rows of a forest plot, its layers from the widest to the narrowest, and their number."""

    labels: tuple[str, ...]
    layers: tuple[Layer, ...]
    rows: int
    """Number of estimates that there are, of which the first are shown."""

    centred: bool = False

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest finite number that is drawn; two different ones."""
        parts = [(layer.estimate, layer.lower, layer.upper) for layer in self.layers]
        numbers = np.concatenate([array for part in parts for array in part])
        numbers = numbers[np.isfinite(numbers)]
        low, high = (numbers.min(), numbers.max()) if numbers.size else (0.0, 1.0)
        if low == high:
            room = max(1.0, 1e-6 * abs(low))
            low, high = low - room, high + room
        return float(low), float(high)

    @property
    def narrow(self) -> bool:
        """Whether the intervals of the last layer are too short to be seen beside each other."""
        low, high = self.range
        width = self.layers[-1].upper - self.layers[-1].lower
        width = width[np.isfinite(width) & (width > 0)]
        return bool(width.size and np.median(width) < NARROW * (high - low))

    def around_estimates(self) -> Forest:
        """Return differences from the estimates of the last layer."""
        centre = self.layers[-1].estimate
        centre = np.where(np.isfinite(centre), centre, 0.0)
        layers = tuple(layer.minus(centre) for layer in self.layers)
        return replace(self, layers=layers, centred=True)


def published_layer(fit: Any, frame: pd.DataFrame) -> Layer | None:
    """Return the published values by themselves, with intervals at the level of a summary frame.

    Without intervals where no law is at hand: the exact one of a value that was merged from
    several.
    """
    if "published" not in frame:
        return None
    value = frame["published"].to_numpy(dtype=np.float64)
    lower, upper = np.full((2, len(frame)), np.nan)
    alpha, method = frame.attrs.get("alpha"), frame.attrs.get("method")
    if isinstance(fit, CombinedEstimate) and alpha is not None:
        there = np.isfinite(value)
        rows = fit.targets.published[there]
        law = fit.release.mechanism
        law = law.take(rows) if law.shape else law
        own = count_confint(fit.release.values[rows], law, alpha=alpha, method=method)
        lower[there], upper[there] = own
    elif isinstance(fit, HierarchyEstimate) and alpha is not None and method != "normal":
        half = fit.published_half_widths(alpha)
        lower, upper = value - half, value + half
    elif method == "normal" and alpha is not None:
        half = (
            -special.ndtri_exp(np.log(alpha) - np.log(2.0)) * frame["published_std_err"].to_numpy()
        )
        lower, upper = value - half, value + half
    return Layer("published", value, lower, upper, np.zeros(len(frame), dtype=bool))


def forest_of(fit: Any, frame: pd.DataFrame, labels: list[str], rows: int) -> Forest:
    """Return the forest of the first estimates in a summary frame of combined estimates."""
    shown = frame.iloc[: len(labels)]
    before = published_layer(fit, frame)
    layers = [Layer.of("combined", shown)]
    if before is not None:
        layers.insert(0, before.first(len(labels)))
    return Forest(tuple(labels), tuple(layers), rows)


def label_text(label: object) -> str:
    """Return the label of a row as it stands in a table; the parts of a tuple with commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
