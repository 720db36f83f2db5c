"""The one look of all drawings: colours, dashes and markers that differ in grey as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer._check import one_line, require, show
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#10243e", "#c77f2b", "#75283b", "#2f8078", "#45569c")
"""Each stands out from white by a contrast of at least 3, and from the others in grey."""

DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), (0, (4, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v")

INK = "#222222"
"""Text and axes."""

REFERENCE = "#757575"
"""Lines to compare with: a nominal level, no effect, no information."""

PALE = "#d9dde3"
"""Areas in the background."""

GRID = "#e6e6e6"

SIZE = (6.4, 4.2)
"""Width and height of a figure in inches."""


def series(position: int) -> dict[str, Any]:
    """Return how the line at a position is drawn; after 25 lines the looks repeat."""
    # dashes move on by one more each time the colours have all been used
    turn, place = divmod(position, len(COLOURS))
    return {
        "color": COLOURS[place],
        "linestyle": DASHES[(place + turn) % len(DASHES)],
        "linewidth": 1.8,
    }


def marker(position: int) -> dict[str, Any]:
    """Return how the points at a position are drawn, to be added to :func:`series`."""
    turn, place = divmod(position, len(MARKERS))
    return {"marker": MARKERS[(place + turn) % len(MARKERS)], "markersize": 5.0}


def styled_axes(ax: Any = None, *, size: tuple[float, float] = SIZE) -> Axes:
    """Return axes to draw on, those given or new ones, in the look of all drawings."""
    pyplot = require("matplotlib.pyplot", "plot")
    if ax is not None and not isinstance(ax, pyplot.Axes):
        raise InvalidParameterError(f"ax must be matplotlib.axes.Axes or None, got {show(ax)}")
    axes = pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes  # type: ignore[no-any-return]


def plain(text: object, most: int = 60) -> str:
    """Return a text as matplotlib shows it letter by letter: no mathematics, in every legend."""
    shown = one_line(text, most).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def add_legend(axes: Axes, **options: Any) -> None:
    """Add a legend where there is more than one thing to tell apart."""
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(fontsize=9, framealpha=0.9, edgecolor=GRID, **options)
