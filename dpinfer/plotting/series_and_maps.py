"""Estimates over time, as lines with bands or as steps, and over places, as maps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    check_integer,
    check_option,
    check_scalar,
    require,
    show,
    show_some,
)
from dpinfer._style import COLOURS, PALE, REFERENCE, add_legend, marker, plain, series, styled_axes
from dpinfer.errors import InvalidParameterError
from dpinfer.functions.concentration import CELLS
from dpinfer.functions.ecological import IdentifiedBounds
from dpinfer.functions.grouped import PERSONS
from dpinfer.functions.segregation import IndexIntervals
from dpinfer.functions.survival import SurvivalCurve
from dpinfer.plotting.results import check_words, covered, frame_of
from dpinfer.results.intervals import ERROR_COVERED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


_MOST_LINES = 12

_WIDE = 1.5
"""A step to the next label that leaves one out, in steps; months differ by less."""

_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")
"""Dates and months as ISO 8601 writes them, which is how tables hold them."""


def plot_series(
    results: Any,
    *,
    over: str | None = None,
    alpha: float | None = None,
    method: str | None = None,
    most: int = 5,
    unit: str = "units of the published values",
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates over an ordered label, such as weeks or years, as lines with bands.

    Parameters
    ----------
    results : estimate, Release, Intervals, DataFrame or mapping of str to such
        As for :func:`plot_forest`. Their labels, or one level of them, are numbers, dates, periods
        or ordered categories. Texts that are dates, "2024-01-31" or "2024-01", count as such.
    over : str, optional
        The level of the labels along the horizontal axis; by default the last one that has an
        order. There is a line for each combination of the others.
    alpha, method : optional
        As for :func:`plot_forest`.
    most : int, default 5
        The largest number of lines, at most 12; the first ones are drawn.
    unit : str
        The unit of the values, for the axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing. A band is the interval of each point by itself, unless the
        intervals are simultaneous, which the axis then says; an end at infinity leaves the axes.
        Where an interval is empty the band is interrupted, and where labels are missing from an
        even row, such as a week, line and band are.

    Raises
    ------
    InvalidParameterError
        If no level of the labels has an order, or one line has a label twice.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> weeks = pd.date_range("2024-01-01", periods=4, freq="W-MON", name="week")
    >>> views = pd.Series([120, 131, 118, 140], index=weeks)
    >>> intervals = dpi.count_confint(views, mechanism=dpi.Geometric(scale=4.0))
    >>> axes = dpi.plotting.plot_series(intervals)
    >>> print(axes.get_xlabel())
    week
    95 % intervals, exact
    error covered: noise (inference on the confidential values)
    """
    import pandas as pd

    unit = check_words(unit, "unit")
    shown = check_integer(most, "most", ge=1, le=_MOST_LINES)
    named = results if isinstance(results, Mapping) else {"": results}
    lines: dict[str, pd.DataFrame] = {}
    attrs: list[dict[Any, Any]] = []
    along: str | None = None
    for name, result in named.items():
        frame = frame_of(result, alpha, method)
        along, parts = _lines(frame, over)
        attrs.append(frame.attrs)
        for key, part in parts.items():
            lines[", ".join(filter(None, (str(name), key)))] = part
    if not lines:
        raise InvalidParameterError("results must hold at least one result, got none")
    axes = styled_axes(ax)
    for place, (name, part) in enumerate(list(lines.items())[:shown]):
        x = part.index.to_timestamp() if isinstance(part.index, pd.PeriodIndex) else part.index
        at = np.arange(len(x)) if x.dtype == "category" else x.to_numpy()
        low, high = (part[end].to_numpy(dtype=np.float64) for end in ("ci_lower", "ci_upper"))
        look = series(place)
        estimate = part["estimate"].to_numpy(dtype=np.float64)
        if x.dtype != "category":
            gaps = _gaps(at)
            at = np.insert(at, gaps, at[gaps])
            estimate, low, high = (np.insert(ends, gaps, np.nan) for ends in (estimate, low, high))
        axes.plot(at, estimate, label=plain(name) or None, **look)
        axes.plot(at, estimate, **{**look, **marker(place), "linestyle": "none"})
        _band(axes, at, low, high, str(look["color"]))
        if x.dtype == "category":
            axes.set_xticks(at, [plain(label, 20) for label in x])
    alike = dict(item for item in attrs[0].items() if all(item in a.items() for a in attrs))
    said = [plain(along or "label"), *covered(alike)]
    if alike.get("simultaneous"):
        said.append("all intervals hold together")
    if len(lines) > shown:
        said.append(f"the first {shown} of {len(lines)} lines")
    axes.set_xlabel("\n".join(said))
    axes.set_ylabel(f"value ({unit})")
    axes.tick_params(axis="x", rotation=30)
    add_legend(axes)
    return axes


def plot_lorenz(band: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the band of a Lorenz curve, beside the curve of the noisy counts and the diagonal.

    Parameters
    ----------
    band : IndexIntervals or IdentifiedBounds
        The band of one area, made by :func:`dpinfer.functions.lorenz_bands` or
        :func:`dpinfer.functions.grouped_lorenz_bands`, of which both estimated bounds are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing: share of the cells or persons, from the smallest or poorest, and
        share that they hold.

    Raises
    ------
    InvalidParameterError
        If ``band`` is something else, or of several areas.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> band = dpi.functions.lorenz_bands(
    ...     [90, 40, 22, 18, 5], total=175, mechanism=dpi.Geometric(scale=2.0), rng=1
    ... )
    >>> axes = dpi.plotting.plot_lorenz(band)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['95 % band', 'noisy counts', 'equality']
    """
    labels = getattr(band, "labels", None)
    grouped = isinstance(band, IdentifiedBounds)
    name = PERSONS if grouped else CELLS
    known = grouped or isinstance(band, IndexIntervals)
    if not known or labels is None or labels.names != [name]:
        raise InvalidParameterError(
            "band must be the Lorenz curve of one area, as functions.lorenz_bands and "
            "functions.grouped_lorenz_bands make it, got "
            f"{show(band)}: choose the area by its label"
        )
    x = np.append(0.0, labels.to_numpy())
    curves = (band.least, band.most) if grouped else (band.plug_in,)
    low, high, *noisy = (
        np.append(0.0, np.asarray(one)) for one in (band.lower, band.upper, *curves)
    )
    axes = styled_axes(ax)
    axes.fill_between(
        x,
        low,
        high,
        color=COLOURS[0],
        alpha=0.18,
        linewidth=0,
        label=f"{100 * (1 - band.alpha):.6g} % band",
    )
    for at, curve in enumerate(noisy):
        said = "bounds" if grouped else "noisy counts"
        axes.plot(x, curve, label=None if at else said, **series(0))
    axes.plot([0.0, 1.0], [0.0, 1.0], label="equality", color=REFERENCE, linestyle=":")
    axes.set_xlabel("\n".join([name, *covered(band.summary_frame().attrs)]))
    axes.set_ylabel("share that they hold")
    add_legend(axes)
    return axes


def _gaps(at: Any) -> NDArray[np.intp]:
    """Return before which places labels are missing: of an even row, most steps are the least."""
    steps = np.diff(at).astype(np.float64)
    wide = steps > _WIDE * steps.min(initial=np.inf)
    even = 2 * np.count_nonzero(wide) < wide.size
    return np.flatnonzero(wide & even) + 1


def _band(axes: Axes, at: Any, low: Any, high: Any, colour: str) -> None:
    """Draw a band that ends where an interval is empty, and leaves the axes at infinity."""
    there = low <= high
    ends = np.concatenate([low[there & np.isfinite(low)], high[there & np.isfinite(high)]])
    bottom, top = (ends.min(), ends.max()) if ends.size else (0.0, 1.0)
    room = top - bottom + 1.0
    low, high = np.clip(low, bottom - room, None), np.clip(high, None, top + room)
    axes.fill_between(at, low, high, where=there, color=colour, alpha=0.18, linewidth=0)
    alone = there & ~np.r_[False, there[:-1]] & ~np.r_[there[1:], False]
    axes.vlines(at[alone], low[alone], high[alone], color=colour, alpha=0.35, linewidth=3)
    if (np.isinf(low) | np.isinf(high)).any() or room > 1e300:
        axes.set_ylim(bottom, top)


def _lines(frame: pd.DataFrame, over: str | None) -> tuple[str | None, dict[str, pd.DataFrame]]:
    """Return the name of the ordered level, and the points of each line in its order."""
    index = frame.index
    found = [_ordered(index.get_level_values(level)) for level in range(index.nlevels)]
    ordered = {at: labels for at, labels in enumerate(found) if labels is not None}
    if over is not None:
        names = [name for name in index.names if name is not None]
        position = list(index.names).index(check_option(over, "over", names))
        if position not in ordered:
            raise InvalidParameterError(
                "over must be a level of numbers, dates, periods or ordered categories, got "
                f"{over!r}"
            )
    elif not ordered:
        raise InvalidParameterError(
            "results must have labels that are numbers, dates, periods or ordered categories, got "
            f"{show_some(index)}: draw others by plot_forest"
        )
    else:
        position = max(ordered)
    along = ordered[position]
    others = [level for level in range(index.nlevels) if level != position]
    keys = zip(*map(index.get_level_values, others), strict=True)
    kinds = [", ".join(map(str, key)) for key in keys]
    placed = frame.set_axis(along)
    lines = {}
    for kind in dict.fromkeys(kinds or [""]):
        part = placed if not kinds else placed[np.array([name == kind for name in kinds])]
        part = part[~part.index.isna()].sort_index()
        if not part.index.is_unique:
            twice = part.index[part.index.duplicated()][0]
            raise InvalidParameterError(
                f"results must have each label once in a line, got {show(twice)} twice"
            )
        lines[kind] = part
    return along.name, lines


def _ordered(labels: pd.Index) -> pd.Index | None:
    """Return the labels of a level, texts that are dates as dates, or None without an order."""
    import pandas as pd

    if labels.dtype == "category":
        return labels if labels.ordered else None
    if labels.dtype.kind in "iufMm" or hasattr(labels, "to_timestamp"):
        return labels
    if all(isinstance(label, str) and _DATE.fullmatch(label) for label in labels):
        dates = pd.to_datetime(labels, format="ISO8601", errors="coerce")
        return None if dates.hasnans else dates
    return None


def plot_survival(curve: Any, *, most: int = 5, ax: Axes | None = None) -> Axes:
    """Draw survival curves as steps, with their intervals or bands.

    Parameters
    ----------
    curve : SurvivalCurve
        The result of :func:`dpinfer.functions.survival_confint`.
    most : int, default 5
        The largest number of areas to draw, the first ones. At most 25.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing; a curve stops where nothing is known of what comes after.

    Raises
    ------
    InvalidParameterError
        If what is given is no survival curve.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import matplotlib; matplotlib.use("Agg")
    >>> found = dpi.functions.survival_confint([30, 28], [10, 380], mechanism=dpi.Exact())
    >>> dpi.plotting.plot_survival(found).get_ylabel()
    'share alive'
    """
    shown = check_integer(most, "most", ge=1, le=25)
    if not isinstance(curve, SurvivalCurve):
        raise InvalidParameterError(f"curve must be a SurvivalCurve, got {show(curve)}")
    frame = curve.summary_frame()
    several = frame.index.nlevels > 1
    levels = list(range(frame.index.nlevels - 1))
    parts = list(frame.groupby(level=levels, sort=False))[:shown] if several else [("", frame)]
    axes = styled_axes(ax)
    for place, (name, part) in enumerate(parts):
        look = series(place)
        at = np.r_[0.0, part.index.get_level_values(-1).to_numpy(dtype=np.float64)]
        middle, low, high = (
            np.r_[1.0, part[column].to_numpy()] for column in ("estimate", "ci_lower", "ci_upper")
        )
        key = name[0] if isinstance(name, tuple) and len(name) == 1 else name
        label = plain(str(key)) if several else None
        axes.step(at, middle, where="post", label=label, **look)
        axes.fill_between(at, low, high, step="post", color=look["color"], alpha=0.18, linewidth=0)
    axes.set_ylim(0.0, 1.02)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(
        f"time\n{100 * (1 - curve.alpha):g} % {'bands' if curve.simultaneous else 'intervals'}, "
        f"{curve.method}\nerror covered: {ERROR_COVERED[curve.uncertainty]}"
    )
    axes.set_ylabel("share alive")
    add_legend(axes)
    return axes


_MEASURES = {
    "estimate": "estimate",
    "width": "width of the interval",
    "relative": "half-width of the interval, relative to the estimate",
}


def plot_map(
    geometries: Any,
    results: Any,
    *,
    on: str | None = None,
    shown: str = "estimate",
    unclear: float = 0.5,
    alpha: float | None = None,
    method: str | None = None,
    unit: str = "units of the published values",
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates of places as a map; needs the extra ``[map]``.

    Parameters
    ----------
    geometries : GeoDataFrame
        The places of GeoPandas.
    results : estimate, Release, Intervals or DataFrame
        As for :func:`plot_forest`, with one label for each place, such as its GEOID.
    on : str, optional
        The column of ``geometries`` that holds the labels; by default its index.
    shown : {"estimate", "width", "relative"}
        What the colours are: estimates, widths of intervals, or half-widths relative to the
        absolute estimates.
    unclear : float, default 0.5
        Places are hatched where the half-width of the interval is more than this multiple, > 0, of
        the absolute estimate; infinity for no hatches.
    alpha, method : optional
        As for :func:`plot_forest`.
    unit : str
        The unit of the values, for the scale.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the map. Places without an estimate are pale, and the title says how many
        they are.

    Raises
    ------
    InvalidParameterError
        If ``geometries`` is no GeoDataFrame, a place stands there twice, or no label is there.
    MissingExtraError
        If GeoPandas or matplotlib is not installed.

    Notes
    -----
    Labels are compared as they are: a GEOID that was read as a number has lost its leading zero.
    Labels of results that are no place, such as a total, are not drawn.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import geopandas  # doctest: +SKIP
    >>> counties = geopandas.read_file("counties.zip")  # doctest: +SKIP
    >>> axes = dpi.plotting.plot_map(counties, fit, on="GEOID")  # doctest: +SKIP
    """
    measure = check_option(shown, "shown", _MEASURES)
    limit = check_scalar(unclear, "unclear", gt=0, finite=False)
    unit = check_words(unit, "unit")
    geopandas = require("geopandas", "map")
    if not isinstance(geometries, geopandas.GeoDataFrame):
        raise InvalidParameterError(f"geometries must be a GeoDataFrame, got {show(geometries)}")
    frame = frame_of(results, alpha, method)
    named = None if on is None else check_option(on, "on", list(geometries.columns))
    keys = list(geometries.index if named is None else geometries[named])
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidParameterError(
            f"geometries must hold each place once, got {show(twice)} twice"
        )
    if not frame.index.is_unique:
        raise InvalidParameterError("results must have each label once, got one several times")
    rows = frame.index.get_indexer(keys)
    if (rows < 0).all():
        raise InvalidParameterError(
            f"results must have the labels of the places, {show_some(keys)}, got "
            f"{show_some(frame.index)}"
        )
    low, high, estimate = (
        np.where(rows < 0, np.nan, frame[name].to_numpy(dtype=np.float64)[rows])
        for name in ("ci_lower", "ci_upper", "estimate")
    )
    width = np.where(low <= high, high - low, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(width == 0, 0.0, 0.5 * width / np.abs(estimate))
    values = {"estimate": estimate, "width": width, "relative": relative}[measure]
    axes = styled_axes(ax, size=(7.0, 5.5))
    known = np.isfinite(values)
    rough = known & (relative > limit)
    geometry = geometries.geometry
    look = {"ax": axes, "aspect": None, "edgecolor": "white", "linewidth": 0.4}
    if (~known).any():
        geometry[~known].plot(color=PALE, **look)
    if known.any():
        of = f" ({unit})" if measure != "relative" else ""
        of_ends = covered(frame.attrs) if measure != "estimate" or rough.any() else []
        scale = {"label": "\n".join([_MEASURES[measure] + of, *of_ends])}
        drawn = (
            geometries[["geometry"]].set_axis(range(len(keys)))[known].assign(shown=values[known])
        )
        drawn.plot("shown", cmap="cividis", legend=True, legend_kwds=scale, **look)
    if rough.any():
        outline = {**look, "edgecolor": REFERENCE, "facecolor": "none", "hatch": "////"}
        geometry[rough].plot(**outline)
    said = [f"{np.count_nonzero(~known)} of {len(keys)} places without an estimate"] * bool(
        (~known).any()
    )
    if rough.any():
        said.append(f"hatched: half-width above {limit:g} of the estimate")
    axes.set_title("; ".join(said), fontsize=9, color=COLOURS[0])
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("")
    axes.set_ylabel("")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return axes
