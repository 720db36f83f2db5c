"""What a forest plot shows: estimates with their intervals, one row each, in one or more layers."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, one_line
from dpinfer._style import COLOURS, GRID, INK, REFERENCE
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.hierarchy import HierarchyEstimate
from dpinfer.intervals.counts import half_width, tail_of

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
        layers = tuple(
            replace(
                layer,
                estimate=layer.estimate - centre,
                lower=layer.lower - centre,
                upper=layer.upper - centre,
            )
            for layer in self.layers
        )
        return replace(self, layers=layers, centred=True)


def published_layer(fit: Any, frame: pd.DataFrame) -> Layer | None:
    """Return the published values by themselves, with intervals at the level of a summary frame.

    Without intervals where no law is at hand: the exact one of a value that was merged from
    several.
    """
    if "published" not in frame:
        return None
    value = frame["published"].to_numpy(dtype=np.float64)
    half = np.full(len(frame), np.nan)
    alpha, method = frame.attrs.get("alpha"), frame.attrs.get("method")
    if isinstance(fit, CombinedEstimate) and alpha is not None:
        there = np.isfinite(value)
        rows = fit.targets.published[there]
        law = fit.release.__noisy__().marginal
        law = law.take(rows) if law.shape else law
        noisy = int(np.count_nonzero(fit.release.variance[rows]))
        tests = max(1, noisy) if method == "tail-bound" else 1
        half[there] = half_width(law, tail_of(alpha, str(method), tests), str(method))
    elif method == "asymptotic" and alpha is not None:
        quantile = -special.ndtri_exp(np.log(alpha) - np.log(2.0))
        half = quantile * frame["published_std_err"].to_numpy()
    elif isinstance(fit, HierarchyEstimate) and alpha is not None:
        half = fit.published_half_widths(alpha)
    return Layer("published", value, value - half, value + half, np.zeros(len(frame), dtype=bool))


def layers_of(fit: Any, frame: pd.DataFrame, rows: int) -> tuple[Layer, ...]:
    """Return the first estimates of a summary frame, after the published ones if there are any."""
    before = published_layer(fit, frame)
    if before is None:
        return (Layer.of("estimate", frame.iloc[:rows]),)
    parts = (before.estimate, before.lower, before.upper, before.outside)
    first = Layer(before.name, *(part[:rows] for part in parts))  # type: ignore[arg-type]
    return first, Layer.of("combined", frame.iloc[:rows])


_ROW, _HEAD, _FOOT = 42, 28, 56
_MARGIN = 4.0
"""Free space to both sides, in percent of the width."""

_LONGEST = 46
"""Letters of a label that a telephone has room for."""

_TICKS = 7


def forest_svg(
    forest: Forest, description: str, axis: Sequence[str], beside: Sequence[str] = ()
) -> str:
    """Return the drawing: places across are percentages, so that letters keep their size.

    ``axis`` are the lines below the numbers, ``beside`` what stands after each label. The label
    of a row stands above its intervals. What was published is open and dashed, what was combined
    is filled and solid, so that they are told apart without colours.
    """
    low, high = forest.range
    across = _Across(low, high)
    height = _HEAD + _ROW * len(forest.labels) + _FOOT
    lines = [
        f'<svg class="forest" role="img" aria-label="{html.escape(description)}" width="100%" '
        f'height="{height}" xmlns="http://www.w3.org/2000/svg" font-size="12" fill="{INK}">',
        *_legend(forest.layers),
        *_axis(across, forest.centred, height - _FOOT, axis),
    ]
    for row, label in enumerate(forest.labels):
        top = _HEAD + _ROW * row
        lines.append(_label(label, beside[row] if beside else "", top + 13))
        for place, layer in enumerate(forest.layers):
            step = 28 if len(forest.layers) == 1 else 24 + 9 * place
            combined = place == len(forest.layers) - 1
            lines += _interval(across, layer, row, top + step, combined)
    return "\n".join([*lines, "</svg>"])


class _Across:
    """Turns numbers into places across the drawing."""

    def __init__(self, low: float, high: float) -> None:
        # halves, as the difference of the largest numbers overflows
        self.low, self.half = low, 0.5 * high - 0.5 * low
        self.ticks = _ticks(low, high)

    def __call__(self, number: float) -> str:
        share = (0.5 * number - 0.5 * self.low) / self.half
        return f"{_MARGIN + (100 - 2 * _MARGIN) * min(max(share, 0.0), 1.0):.2f}%"


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers within a range."""
    span = high / _TICKS - low / _TICKS
    power = 10.0 ** np.floor(np.log10(span)) if span > 1e-300 else 0.0
    if not power or not np.isfinite(span / power):
        return [low, high]
    step = power * next(s for s in (1.0, 2.0, 5.0, 10.0) if s * power >= span * (1 - 1e-9))
    first, last = np.ceil(low / step), np.floor(high / step)
    return [float(step * at) for at in np.arange(first, last + 0.5)] or [low, high]


def _legend(layers: tuple[Layer, ...]) -> Iterator[str]:
    x = 4
    for place, layer in enumerate(layers):
        combined = place == len(layers) - 1
        yield _stroke(f"{x}", f"{x + 26}", 10, combined)
        yield _point(f"{x + 13}", 10, combined)
        yield f'<text x="{x + 33}" y="14">{html.escape(layer.name)}</text>'
        x += 120


def _axis(across: _Across, centred: bool, bottom: int, lines: Sequence[str]) -> Iterator[str]:
    for tick in across.ticks:
        at = across(tick)
        zero = centred and tick == 0
        colour = REFERENCE if zero else GRID
        yield f'<line x1="{at}" x2="{at}" y1="{_HEAD}" y2="{bottom}" stroke="{colour}"/>'
        yield f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{_number(tick)}</text>'
    yield f'<line x1="0" x2="100%" y1="{bottom}" y2="{bottom}" stroke="{INK}"/>'
    for place, line in enumerate(lines):
        y = bottom + 34 + 16 * place
        yield f'<text x="50%" y="{y}" text-anchor="middle">{html.escape(line)}</text>'


def _label(label: str, beside: str, y: int) -> str:
    whole = one_line(label, 200)
    room = _LONGEST - len(beside)
    short = whole if len(whole) <= room else whole[: room - 1] + "…"
    title = f"<title>{html.escape(whole)}</title>" if short != whole else ""
    value = f' <tspan font-weight="600">{html.escape(beside)}</tspan>' if beside else ""
    # a white outline keeps the lines behind the letters away from them
    outline = 'stroke="#fff" stroke-width="3" paint-order="stroke"'
    return f'<text x="0" y="{y}" {outline}>{title}{html.escape(short)}{value}</text>'


def _interval(across: _Across, layer: Layer, row: int, y: int, combined: bool) -> Iterator[str]:
    lower, upper, estimate = layer.lower[row], layer.upper[row], layer.estimate[row]
    if np.isfinite([lower, upper]).all():
        yield _stroke(across(lower), across(upper), y, combined)
    if np.isfinite(estimate):
        yield _point(across(estimate), y, combined)


def _stroke(start: str, end: str, y: int, combined: bool) -> str:
    look = (
        f'stroke="{COLOURS[0]}" stroke-width="3"'
        if combined
        else f'stroke="{COLOURS[1]}" stroke-width="2" stroke-dasharray="5 2"'
    )
    return f'<line x1="{start}" x2="{end}" y1="{y}" y2="{y}" {look}/>'


def _point(x: str, y: int, combined: bool) -> str:
    fill, stroke = (COLOURS[0], COLOURS[0]) if combined else ("#ffffff", COLOURS[1])
    return f'<circle cx="{x}" cy="{y}" r="3.5" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'


def _number(value: float) -> str:
    return f"{value + 0.0:.6g}".replace("-", "\N{MINUS SIGN}")
