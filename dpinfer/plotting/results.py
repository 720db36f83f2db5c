"""Results: null laws, forest plots of estimates with their intervals, widths, and draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    as_pandas,
    as_table,
    check_alpha,
    check_flag,
    check_integer,
    check_items,
    check_length,
    check_option,
    check_scalar,
    is_foreign,
    one_line,
    show,
    with_index,
)
from dpinfer._style import COLOURS, REFERENCE, add_legend, marker, plain, series, styled_axes
from dpinfer.curation.error_estimates import ErrorEstimate
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation.hierarchy import HierarchyEstimate
from dpinfer.intervals.posterior import CountPosterior
from dpinfer.posterior.result import Draws
from dpinfer.reporting.forest import Forest, Layer, layers_of
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.intervals import ERROR_COVERED
from dpinfer.results.labels import find_rows
from dpinfer.results.null import NullDistribution
from dpinfer.results.tables import format_numbers, label_text, printed_pvalue

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


# The law of a test statistic under the null hypothesis, with what was observed.


_TAILS = (0.001, 0.01, 0.05, 0.25, 0.5)
"""The drawing reaches out to the first of these tail probabilities at which it can."""


def plot_null(
    test: Any,
    statistic: float | None = None,
    *,
    alternative: Alternative | None = None,
    alpha: float | None = None,
    bins: int = 60,
    ax: Axes | None = None,
) -> Axes:
    """Draw the null distribution of a statistic, and where the observed one stands in it.

    Parameters
    ----------
    test : HypothesisResult or NullDistribution
        The test, of one statistic; or a null distribution.
    statistic : float, optional
        The observed statistic; by default that of the test.
    alternative : {"two-sided", "larger", "smaller"}, optional
        Which values are as extreme; by default that of the test, or ``"two-sided"``.
    alpha : float, optional
        A level in (0, 1), whose critical value is drawn as well.
    bins : int, default 60
        About how many bars to draw, from 5 to 1000.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing. The area of a bar is the probability that the statistic falls
        into it; filled bars are the values at least as extreme as the observed one.

    Raises
    ------
    InvalidParameterError
        If there are several statistics or laws, or an argument is not allowed.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from dpinfer import Laplace, proportions_ztest
    >>> from dpinfer.plotting import plot_null
    >>> test = proportions_ztest(34.21, 100, 0.255, mechanism=Laplace(scale=2.0))
    >>> axes = plot_null(test)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['observed, 1.998', 'less extreme', 'as extreme, p = 0.0922']
    """
    null, found, side = _parts(test, alternative)
    observed = found if statistic is None else check_scalar(statistic, "statistic")
    about = check_integer(bins, "bins", ge=5, le=1000)
    level = None if alpha is None else check_alpha(alpha)
    edges = _edges(*_range(null, observed), observed, side, about)
    heights = _probabilities(null, edges, observed, side) / np.diff(edges)
    axes = styled_axes(ax)
    middle = 0.5 * edges[:-1] + 0.5 * edges[1:]
    extreme = np.zeros(middle.shape, dtype=bool)
    what = ""
    if observed is not None:
        signs = {"larger": middle >= observed, "smaller": middle <= observed}
        extreme = signs.get(side, np.abs(middle) >= abs(observed))
        pvalue = float(null.pvalue(observed, side))
        printed = printed_pvalue(pvalue, float(null.pvalue_error(observed)), 3)
        what = f"as extreme, p {printed if printed.startswith('<') else f'= {printed}'}"
    for chosen, colour, label in (
        (~extreme, "white", "less extreme"),
        (extreme, COLOURS[1], what),
    ):
        if not chosen.any():
            continue
        axes.bar(
            edges[:-1][chosen],
            heights[chosen],
            np.diff(edges)[chosen],
            align="edge",
            color=colour,
            edgecolor=COLOURS[0],
            linewidth=0.6,
            label=label,
        )
    if observed is not None:
        axes.axvline(observed, label=f"observed, {observed:.4g}", **series(0))
    if level is not None and np.isfinite(critical := float(null.critical_value(level, side))):
        ends = {critical, -critical} if side == "two-sided" else {critical}
        for place, end in enumerate(sorted(ends)):
            name = None if place else f"critical at level {level:g}"
            axes.axvline(end, label=name, **series(2))
    axes.set_xlabel("statistic")
    axes.set_ylabel("probability density under the null hypothesis")
    axes.grid(visible=False, axis="x")
    add_legend(axes)
    return axes


def _parts(test: Any, alternative: Any) -> tuple[NullDistribution, float | None, Alternative]:
    """Return the law, the observed statistic and the alternative."""
    if isinstance(test, HypothesisResult):
        if np.size(test.statistic) != 1:
            raise InvalidParameterError(
                f"test must be of one statistic, got {np.size(test.statistic)}: repeat it for the "
                "row of interest"
            )
        side = test.alternative if alternative is None else alternative
        observed: float | None = float(np.ravel(test.statistic)[0])
        null = test.null_distribution
    elif isinstance(test, NullDistribution):
        null, observed = test, None
        side = "two-sided" if alternative is None else alternative
    else:
        raise InvalidParameterError(
            f"test must be a HypothesisResult or a NullDistribution, got {show(test)}"
        )
    if np.ndim(null.critical_value(0.5, "larger")):
        raise InvalidParameterError(
            "test must have one null distribution, got several: repeat it for the row of interest"
        )
    return null, observed, check_option(side, "alternative", ALTERNATIVES)


def _range(null: NullDistribution, observed: float | None) -> tuple[float, float]:
    """Return between what the law is drawn: nearly all of it, and the observed statistic."""
    for tail in _TAILS:
        ends = [float(null.critical_value(tail, side)) for side in ("smaller", "larger")]
        if np.isfinite(ends).all():
            break
    else:
        raise InvalidParameterError("test must have a null distribution that is not at infinity")
    if observed is not None and np.isfinite(observed):
        ends.append(observed)
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _edges(
    low: float, high: float, observed: float | None, side: Alternative, bins: int
) -> FloatArray:
    """Return the ends of bars of one width, with the observed statistic (and minus it) among them.

    A bar is then as extreme as the observed statistic, or it is not.
    """
    width = (high - low) / bins
    if observed is None or not np.isfinite(observed):
        return np.linspace(low, high, bins + 1)
    anchor, start = observed, observed
    if side == "two-sided":
        anchor, start = abs(observed), -abs(observed)
        if anchor > 0:  # whole bars between the two, of nearly the width asked for
            width = (
                2.0 * anchor / max(round(2.0 * anchor / width), 1) if 2 * anchor > width else width
            )
    inside = max(round((anchor - start) / width), 1) if anchor > start else 0
    middle = np.linspace(start, anchor, inside + 1)
    below = start - width * np.arange(max(np.ceil((start - low) / width), 1), 0, -1)
    above = anchor + width * np.arange(1, max(np.ceil((high - anchor) / width), 1) + 1)
    return np.concatenate([below, middle, above])


def _probabilities(
    null: NullDistribution, edges: FloatArray, observed: float | None, side: Alternative
) -> FloatArray:
    """Return the probability of each bar, [a, b) but for the lower side.

    An observed statistic there belongs to the bar below it, with which it is counted.
    """
    beyond = np.asarray(null.pvalue(edges, "larger"))
    if observed is not None and side != "larger":
        end = -abs(observed) if side == "two-sided" else observed
        # a Monte Carlo p-value has a 1 added, for which the difference to the next is cut off at 0
        at = np.isclose(edges, end, rtol=0.0, atol=1e-9 * (edges[-1] - edges[0]))
        beyond = np.where(at, 1.0 - np.asarray(null.pvalue(edges, "smaller")), beyond)
    return np.asarray(np.maximum(beyond[:-1] - beyond[1:], 0.0))


def check_numbers(values: Any, name: str, *, ge: float | None = None) -> FloatArray:
    """Return a column as an array, where it holds numbers; NaN is one that is missing."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{name} must hold numbers, got {show(values)}") from error
    if array.ndim != 1 or not array.size:
        raise InvalidParameterError(f"{name} must be one-dimensional, got {show(values)}")
    if ge is not None and (array < ge).any():
        raise InvalidParameterError(f"{name} must be >= {ge:g}, got {array[array < ge][0]:g}")
    return array


def check_words(value: object, name: str) -> str:
    """Return a text that can be drawn, which other values do not become by themselves."""
    if not isinstance(value, str):
        raise InvalidParameterError(f"{name} must be a string, got {show(value)}")
    return "\n".join(map(one_line, value.split("\n")))


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
    results : estimate, Release, Intervals, ConfidenceSets, DataFrame or mapping of str to such
        What to draw: a :class:`dpinfer.estimation.CombinedEstimate` or another estimate that has
        ``summary_frame(alpha, method)``, whose published values are drawn beside the combined
        ones; a release or :class:`~dpinfer.NoisyValues`, with the intervals of
        :func:`~dpinfer.count_confint`; posteriors; a result of an interval function; a frame from
        ``summary_frame``, where it is one of polars or pyarrow with the labels in columns; or
        several of them by name, of the same values, which are drawn side by side.
    alpha, method : optional
        The level and the way of the intervals of an estimate or of noisy values. Intervals have
        theirs already.
    centred : bool, optional
        Whether to draw differences from the estimates (the last ones, where there are several),
        which then stand beside the labels.
        By default where most intervals are shorter than 3 % of the axis.
    most : int, default 40
        The largest number of rows to draw; the first ones are drawn. At most 400.
    unit : str
        The unit of the values, for the axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, as high as it needs.

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
    lines = [f"{what} ({unit})", *covered(attrs)]
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
        frames = {str(name): frame_of(part, alpha, method) for name, part in results.items()}
        if not frames:
            raise InvalidParameterError("results must hold at least one result, got none")
        last = list(frames.values())[-1]
        if any(not frame.index.equals(last.index) for frame in frames.values()):
            raise IncompatibleReleaseError(
                "results must be of the same values, under the same labels, got "
                f"{', '.join(f'{len(frame)} of {name}' for name, frame in frames.items())}"
            )
        layers = tuple(Layer.of(name, frame.iloc[:most]) for name, frame in frames.items())
        alike = [frame.attrs for frame in frames.values()]
        attrs = {
            key: value
            for key, value in alike[0].items()
            if all(other.get(key) == value for other in alike)
        }
        source: Any = None
    else:
        last, source = frame_of(results, alpha, method), results
        layers, attrs = layers_of(results, last, most), last.attrs
    targets = getattr(source, "targets", None)
    named = last.index if targets is None else targets
    labels = tuple(label_text(named[row]) for row in range(min(most, len(last))))
    return Forest(labels, layers, len(last)), attrs


def frame_of(result: Any, alpha: float | None, method: str | None) -> pd.DataFrame:
    """Return estimates and intervals as a frame, at a level where there is a choice."""
    options: dict[str, Any] = {"alpha": alpha, "method": method}
    given = {name: value for name, value in options.items() if value is not None}
    frame = result
    if hasattr(result, "__noisy__") and not hasattr(result, "conf_int"):
        from dpinfer.intervals.counts import count_confint

        frame = count_confint(result, **given).summary_frame()
    elif hasattr(result, "summary_frame"):
        try:
            frame = result.summary_frame(**given)
        except TypeError as error:
            raise InvalidParameterError(
                f"{' and '.join(given) or 'results'} must fit what is drawn, got "
                f"{', '.join(map(show, given.values())) or show(result)} for {show(result)}: "
                "intervals have their level already"
            ) from error
    elif given:
        raise InvalidParameterError(
            f"{' and '.join(given)} must be None for a table of intervals, which have their level"
        )
    if is_foreign(frame):
        frame = _labelled(as_pandas(frame, "results"))
    if isinstance(result, CountPosterior):
        frame = frame.rename(columns={"mean": "estimate"})
    if isinstance(result, ErrorEstimate):
        frame = _of_errors(result, frame)
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


def _of_errors(found: ErrorEstimate, frame: Any) -> Any:
    """Return the values that an error estimate leads to, else the measure of the errors."""
    ends = {
        f"{'value' if found.measure == 'signed' else 'error'}_{end}": f"ci_{end}"
        for end in ("lower", "upper")
    }
    estimate = frame["error"]
    if found.measure == "signed":
        estimate = estimate + frame["published"]
    return frame.assign(estimate=estimate).rename(columns=ends)


def _labelled(frame: Any) -> Any:
    """Move columns of labels into the index, for a frame of a library that knows no index."""
    if not hasattr(frame, "columns"):
        return frame
    marks = [name for name in _MARKS if name in frame]
    return with_index(frame.drop(columns=marks)).assign(
        **{name: frame[name].to_numpy() for name in marks}
    )


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


def covered(attrs: dict[Any, Any]) -> list[str]:
    """Return lines that say what the intervals are, as far as it is known."""
    if "alpha" not in attrs:
        return []
    lines = [f"{100 * (1 - attrs['alpha']):.6g} % intervals"]
    if "method" in attrs:
        lines[0] += f", {attrs['method']}"
    if attrs.get("uncertainty") in ERROR_COVERED:
        lines.append(f"error covered: {ERROR_COVERED[attrs['uncertainty']]}")
    return lines


# Widths of intervals in a hierarchy, level by level.


_SPREAD = (5.0, 50.0, 95.0)
"""Percentiles of the widths of a level that are drawn."""


def plot_level_widths(
    std_errors: Any,
    levels: Sequence[Any] | None = None,
    *,
    alpha: float = 0.05,
    unit: str = "units of the published values",
    ax: Axes | None = None,
) -> Axes:
    """Draw how wide the intervals of units are at each level of a hierarchy.

    Parameters
    ----------
    std_errors : HierarchyEstimate, or mapping of str to array of float, shape (n,)
        The estimates of the n units, whose published values are drawn beside the combined ones;
        or standard errors of the units by name, such as before and after combining. Units of an
        infinite or missing standard error are left out.
    levels : sequence, shape (n,), optional
        The name of the level of each unit; by default the depths of the hierarchy. The levels
        stand in the order of their depth, or of their first unit.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    unit : str
        The unit of the values, for the axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing: the median width of each level, with bars from the 5th to the
        95th percentile of its units, on a logarithmic scale. A level of width 0 is named exact.

    Raises
    ------
    InvalidParameterError
        If the standard errors are not numbers >= 0, or not one for each level given.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    Widths are those of normal intervals, 2·z·(standard error). They depend on the noise alone, not
    on the published values.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.plotting import plot_level_widths
    >>> fit = dpi.combine_hierarchy([20.1, 6.3, 7.9, 5.2], [-1, 0, 0, 0],
    ...                             mechanism=dpi.Gaussian(sigma=2.0))
    >>> axes = plot_level_widths(fit, ["country", "region", "region", "region"])
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['country', 'region']
    """
    level = check_alpha(alpha)
    unit = check_words(unit, "unit")
    errors, places, names = _read(std_errors, levels)
    factor = -2.0 * float(special.ndtri_exp(np.log(level) - np.log(2.0)))
    axes = styled_axes(ax)
    exact = np.ones(len(names), dtype=bool)
    for position, (name, values) in enumerate(errors.items()):
        spread = np.full((3, len(names)), np.nan)
        for place in range(len(names)):
            here = values[places == place]
            here = here[np.isfinite(here)]
            if (here > 0).any():
                spread[:, place] = np.percentile(factor * here[here > 0], _SPREAD)
                exact[place] = False
        across = np.arange(len(names)) + 0.16 * (position - 0.5 * (len(errors) - 1))
        look = {**series(position), **marker(position), "linestyle": "none"}
        low, middle, high = spread
        bars = [middle - low, high - middle]
        axes.errorbar(across, middle, yerr=bars, label=plain(name), capsize=3, **look)
    shown = [
        f"{name}\n(exact)" if is_so else name for name, is_so in zip(names, exact, strict=True)
    ]
    axes.set_xticks(range(len(names)), shown)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_yscale("log")
    for formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatter("{x:g}")
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("level (median of its units, bars from the 5th to the 95th percentile)")
    axes.set_ylabel(f"width of the {100 * (1 - level):.6g} % interval, normal\n({unit})")
    add_legend(axes)
    return axes


def _read(
    std_errors: Any, levels: Any
) -> tuple[dict[str, FloatArray], NDArray[np.intp], list[str]]:
    """Return standard errors by name, the place of each unit's level, and the levels' names."""
    depth = None
    if isinstance(std_errors, HierarchyEstimate):
        frame = std_errors.summary_frame(method="bound")  # the fastest
        errors = {
            "published": frame["published_std_err"].to_numpy(),
            "combined": frame["std_err"].to_numpy(),
        }
        depth = np.asarray(std_errors.hierarchy.depth)
        if levels is None:
            levels = [f"level {at}" for at in depth]
    elif isinstance(std_errors, Mapping) and std_errors and levels is not None:
        errors = {
            str(name): check_numbers(values, f"std_errors of {name}", ge=0)
            for name, values in std_errors.items()
        }
    else:
        raise InvalidParameterError(
            "std_errors must be a HierarchyEstimate, or a mapping of names to standard errors with "
            f"the levels of the units, got {show(std_errors)} and levels = {show(levels)}"
        )
    named = check_items(as_table(levels, "levels"), "levels", "names of levels")
    listed = [plain(name, 40) for name in named]
    for name, values in errors.items():
        check_length(values, f"std_errors of {name}", len(listed), "levels")
    if depth is not None:
        order = np.argsort(depth, kind="stable")
        names = list(dict.fromkeys(listed[at] for at in order))
    else:
        names = list(dict.fromkeys(listed))
    places = {name: place for place, name in enumerate(names)}
    return errors, np.array([places[name] for name in listed]), names


# Draws from posteriors: whether chains have mixed.

_MOST_CHAINS = 25
_MOST_POINTS = 2_000


def plot_trace(posterior: Any, row: Any = 0, *, ax: Axes | None = None) -> Axes:
    """Draw the course of each chain for one number.

    Parameters
    ----------
    posterior : TablePosterior or FunctionPosterior
        The draws.
    row : label or int, default 0
        The cell, or the function: its label, or its position where there are none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A line for each chain, of the first 25, with 2,000 of its draws at most; chains that have
        mixed lie over each other, and wander nowhere.

    Raises
    ------
    InvalidParameterError
        If ``posterior`` is none, or has no such row.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> law = dpi.Geometric(scale=1.0)
    >>> found = dpi.table_posterior([3, 9], mechanism=law, draws=50, sampler="chain", rng=1)
    >>> axes = dpi.plotting.plot_trace(found, 1)
    >>> len(axes.get_lines()), axes.get_ylabel()
    (4, '1')
    """
    drawn, name = _of_row(posterior, row)
    axes = styled_axes(ax)
    step = -(-drawn.shape[1] // _MOST_POINTS)
    at = np.arange(0, drawn.shape[1], step)
    for place, chain in enumerate(drawn[:_MOST_CHAINS]):
        look = series(place) | {"linewidth": 0.8}
        axes.plot(at, chain[at], label=f"chain {place + 1}", **look)
    axes.set_xlabel("draw" if step == 1 else f"draw, every {step}th")
    axes.set_ylabel(name)
    add_legend(axes)
    return axes


def plot_ranks(posterior: Any, row: Any = 0, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Draw how the ranks of the draws of each chain among all draws are spread.

    Parameters
    ----------
    posterior : TablePosterior or FunctionPosterior
        The draws.
    row : label or int, default 0
        The cell, or the function: its label, or its position where there are none.
    bins : int, default 20
        The number of bins of the ranks, from 2 to 200.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A stair for each chain, of the first 25: the share of its draws in each bin, times the
        number of bins. All are near 1 where chains have mixed (Vehtari et al. 2021).

    Raises
    ------
    InvalidParameterError
        If ``posterior`` is none, or has no such row.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> found = dpi.table_posterior([3, 9], mechanism=dpi.Geometric(scale=1.0), draws=50, rng=1)
    >>> dpi.plotting.plot_ranks(found, bins=5).get_ylabel()
    'share of draws, times bins'
    """
    number = check_integer(bins, "bins", ge=2, le=200)
    drawn, name = _of_row(posterior, row)
    # ties share their ranks evenly: those of whole numbers would else fall into few bins
    low, high = (stats.rankdata(drawn, method=one).reshape(drawn.shape) for one in ("min", "max"))
    edges = np.linspace(0.0, drawn.size, number + 1)
    axes = styled_axes(ax)
    for place in range(min(len(drawn), _MOST_CHAINS)):
        first, last = low[place] - 1.0, high[place]
        below = np.clip((edges[:, None] - first) / (last - first), 0.0, 1.0)
        heights = np.diff(below.mean(axis=1)) * number
        axes.step(edges, np.append(heights, heights[-1]), where="post", **series(place))
        axes.get_lines()[-1].set_label(f"chain {place + 1}")
    axes.axhline(1.0, color=REFERENCE, linewidth=1.0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(f"rank among all draws of {name}")
    axes.set_ylabel("share of draws, times bins")
    add_legend(axes)
    return axes


def _of_row(posterior: Any, row: Any) -> tuple[FloatArray, str]:
    """Return the draws of a row (chains, draws), and its name."""
    if not isinstance(posterior, Draws):
        raise InvalidParameterError(
            f"posterior must be a TablePosterior or a FunctionPosterior, got {show(posterior)}"
        )
    size, labels = posterior._rows()
    if isinstance(row, int) and abs(row) > size:
        raise InvalidParameterError(f"row must be within the {size} rows, got {show(row)}")
    at = find_rows(row, (size,), labels if isinstance(row, (str, tuple)) else None)
    if at.ndim:
        raise InvalidParameterError(f"row must be one label or one position, got {show(row)}")
    drawn = posterior.draws.reshape(*posterior.draws.shape[:2], -1)[:, :, int(at)]
    return drawn.astype(np.float64), plain(at if labels is None else label_text(labels[int(at)]))
