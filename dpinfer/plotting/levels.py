"""Widths of intervals in a hierarchy, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._interchange import as_table
from dpinfer._style import add_legend, marker, plain, series, styled_axes
from dpinfer._validation import FloatArray, check_alpha, check_items, check_length, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import HierarchyEstimate
from dpinfer.plotting._numbers import check_numbers
from dpinfer.plotting._words import check_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
