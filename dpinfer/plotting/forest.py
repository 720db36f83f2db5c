"""Forest plots: estimates with their intervals, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._interchange import as_pandas, is_foreign, with_index
from dpinfer._style import REFERENCE, add_legend, marker, plain, series, styled_axes
from dpinfer._validation import check_flag, check_integer, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.plotting._numbers import check_numbers
from dpinfer.plotting._words import check_words
from dpinfer.reporting.forest import Forest, Layer, label_text, published_layer
from dpinfer.results.intervals import ERROR_COVERED
from dpinfer.results.tables import format_numbers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_NUMBERS = {"estimate", "ci_lower", "ci_upper", "published", "published_std_err"}
_MARKS = ("kind", "empty")
"""Columns of intervals that hold no numbers and no labels."""

_ROW = 0.34
"""Height of a row in inches."""


def plot_forest(
    results: Any,
    *,
    alpha: float | None = None,
    method: str | None = None,
    centred: bool | None = None,
    most: int = 40,
    unit: str = "units of the published values",
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates with their intervals, one row each, before and after combining.

    Parameters
    ----------
    results : estimate, Intervals, ConfidenceSets, DataFrame or mapping of str to such
        What to draw: a :class:`dpinfer.CombinedEstimate` or another estimate that has
        ``summary_frame(alpha, method)``, whose published values are drawn beside the combined
        ones; a result of an interval function; a frame from ``summary_frame``, where it is one of
        polars or pyarrow with the labels in columns; or several of them by name, of the same
        values, which are drawn side by side.
    alpha, method : optional
        Passed to the ``summary_frame`` of an estimate. Intervals have theirs already.
    centred : bool, optional
        Whether to draw differences from the estimates (the last ones, where there are several),
        which then stand beside the labels.
        By default where most intervals are shorter than 3 % of the axis.
    most : int, default 40
        The largest number of rows to draw; the first ones are drawn. At most 400.
    unit : str
        The unit of the values, for the axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, whose height follows the number of rows.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing, the first row at the top. What was published is dashed and
        open, what was combined solid and filled. An end at infinity leaves the axes; an empty
        interval has no line.

    Raises
    ------
    InvalidParameterError
        If ``results`` is none of these, or has its level already.
    IncompatibleReleaseError
        If several results are not of the same values.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    The intervals of published values are those of each value by itself, at the level and by the
    method of the others. For a value of a hierarchy there are only normal ones.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.plotting import plot_forest
    >>> noise = dpi.Laplace(scale=1.0)
    >>> fit = dpi.combine([4.2, 4.9, 10.3], workload=[[1, 0], [0, 1], [1, 1]], mechanism=noise)
    >>> axes = plot_forest(fit, alpha=0.1)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['published', 'combined']
    >>> print(axes.get_xlabel())
    value (units of the published values)
    90 % intervals, exact
    error covered: noise (inference on the confidential values)
    """
    shown = check_integer(most, "most", ge=1, le=400)
    unit = check_words(unit, "unit")
    forest, attrs = _forest(results, alpha, method, shown)
    labels = [plain(label) for label in forest.labels]
    if forest.narrow if centred is None else check_flag(centred, "centred"):
        values = format_numbers(forest.layers[-1].estimate)
        labels = [f"{label}   {value}" for label, value in zip(labels, values, strict=True)]
        forest = forest.around_estimates()
    rows = len(forest.labels)
    width = 5.0 + 0.07 * max(map(len, labels))
    axes = styled_axes(ax, size=(width, 1.6 + _ROW * max(rows, 2)))
    for place, layer in enumerate(forest.layers):
        _draw(axes, forest, layer, place)
    if forest.centred:
        axes.axvline(0.0, color=REFERENCE, linewidth=1.0, zorder=0.5)
    axes.set_yticks(range(rows), labels)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    what = "difference from the estimate" if forest.centred else "value"
    lines = [f"{what} ({unit})", *_covered(attrs)]
    if rows < forest.rows:
        lines.append(f"the first {rows} of {forest.rows} rows")
    axes.set_xlabel("\n".join(lines))
    add_legend(axes, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return axes


def _forest(
    results: Any, alpha: float | None, method: str | None, most: int
) -> tuple[Forest, dict[Any, Any]]:
    """Return what is drawn, and the level and method of the intervals."""
    if isinstance(results, Mapping):
        frames = {str(name): _frame(part, alpha, method) for name, part in results.items()}
        if not frames:
            raise InvalidParameterError("results must hold at least one result, got none")
        last = list(frames.values())[-1]
        if any(not frame.index.equals(last.index) for frame in frames.values()):
            raise IncompatibleReleaseError(
                "results must be of the same values, under the same labels, got "
                f"{', '.join(f'{len(frame)} of {name}' for name, frame in frames.items())}"
            )
        layers = [Layer.of(name, frame.iloc[:most]) for name, frame in frames.items()]
        alike = [frame.attrs for frame in frames.values()]
        attrs = {
            key: value
            for key, value in alike[0].items()
            if all(other.get(key) == value for other in alike)
        }
        source: Any = None
    else:
        last, source = _frame(results, alpha, method), results
        before = published_layer(results, last)
        layers = [Layer.of("estimate" if before is None else "combined", last.iloc[:most])]
        if before is not None:
            layers.insert(0, before.first(most))
        attrs = last.attrs
    rows = min(most, len(last))
    return Forest(tuple(_labels(source, last, rows)), tuple(layers), len(last)), attrs


def _frame(result: Any, alpha: float | None, method: str | None) -> pd.DataFrame:
    """Return estimates and intervals as a frame, at a level where there is a choice."""
    options = {"alpha": alpha, "method": method}
    given = {name: value for name, value in options.items() if value is not None}
    frame = result
    if hasattr(result, "summary_frame"):
        try:
            frame = result.summary_frame(**given)
        except TypeError as error:
            raise InvalidParameterError(
                f"{' and '.join(given) or 'results'} must fit what is drawn, got {given or result}"
                f" for {show(result)}: intervals have their level already"
            ) from error
    elif given:
        raise InvalidParameterError(
            f"{' and '.join(given)} must be None for a table of intervals, which have their level"
        )
    if is_foreign(frame):
        frame = _labelled(as_pandas(frame, "results"))
    if not hasattr(frame, "columns") or not {"estimate", "ci_lower", "ci_upper"} <= set(frame):
        raise InvalidParameterError(
            "results must be an estimate, intervals or a summary frame with the columns estimate, "
            f"ci_lower and ci_upper, got {show(result)}"
        )
    if not len(frame):
        raise InvalidParameterError("results must hold at least one estimate, got none")
    for column in _NUMBERS & set(frame):
        check_numbers(frame[column], f"{column} of results")
    return frame


def _labelled(frame: Any) -> Any:
    """Move columns of labels into the index, for a frame of a library that knows no index."""
    if not hasattr(frame, "columns"):
        return frame
    marks = [name for name in _MARKS if name in frame]
    return with_index(frame.drop(columns=marks)).assign(
        **{name: frame[name].to_numpy() for name in marks}
    )


def _labels(source: Any, frame: pd.DataFrame, rows: int) -> list[str]:
    targets = getattr(source, "targets", None)
    named = frame.index if targets is None else targets
    return [label_text(named[row]) for row in range(rows)]


def _draw(axes: Axes, forest: Forest, layer: Layer, place: int) -> None:
    """Draw a layer, the layers of a row one below the other."""
    count = len(forest.layers)
    rows = np.arange(len(forest.labels)) + 0.28 * (place - 0.5 * (count - 1))
    last = place == count - 1
    look = series(count - 1 - place)  # the last is the darkest and solid
    points = marker(count - 1 - place)
    points["markerfacecolor"] = look["color"] if last else "white"
    inside = np.isfinite(layer.estimate)
    at = layer.estimate[inside], rows[inside]
    axes.plot(*at, **{**look, **points, "linestyle": "none"}, zorder=3)
    axes.plot([], [], **look, **points, label=plain(layer.name))  # the line and point of the legend
    low, high = forest.range
    beyond = high - low
    for row, start, end, outside in zip(rows, layer.lower, layer.upper, layer.outside, strict=True):
        if np.isnan(start) or np.isnan(end):
            continue
        pieces = [(-np.inf, start), (end, np.inf)] if outside else [(start, end)]
        for left, right in pieces:
            ends = np.clip([left, right], low - beyond, high + beyond)
            axes.plot(ends, [row, row], **look, solid_capstyle="butt")
    axes.set_xlim(low - 0.04 * beyond, high + 0.04 * beyond)


def _covered(attrs: dict[Any, Any]) -> list[str]:
    """Return lines that say what the intervals are, as far as it is known."""
    if "alpha" not in attrs:
        return []
    lines = [f"{100 * (1 - attrs['alpha']):.6g} % intervals"]
    if "method" in attrs:
        lines[0] += f", {attrs['method']}"
    if attrs.get("uncertainty") in ERROR_COVERED:
        lines.append(f"error covered: {ERROR_COVERED[attrs['uncertainty']]}")
    return lines
