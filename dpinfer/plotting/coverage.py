"""Coverage of intervals in simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._interchange import as_pandas
from dpinfer._style import REFERENCE, add_legend, marker, plain, series, styled_axes
from dpinfer._validation import check_array, check_length, check_reps, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.plotting._words import check_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_coverage(
    coverage: Any,
    *,
    nominal: float,
    reps: int | None = None,
    x: Any = None,
    x_label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often intervals held the truth against a setting, beside the nominal level.

    Parameters
    ----------
    coverage : DataFrame, or mapping of str to array of float, shape (m,)
        Shares of intervals that held the truth, in [0, 1], by method: the columns of a DataFrame,
        whose index holds the settings.
    nominal : float
        The level 1 - α that the intervals state, in (0, 1).
    reps : int, optional
        The number of simulated releases behind each share, from which come the bars: 95 %
        intervals of Clopper and Pearson. None for coverages that are known exactly.
    x : str or array of float, shape (m,), optional
        The settings, such as budgets ε, or the column of the DataFrame that holds them; by default
        its index.
    x_label : str, optional
        The name of the setting with its unit; by default the name of the index or column.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing.

    Raises
    ------
    InvalidParameterError
        If a share is outside [0, 1], or shares and settings differ in number.
    MissingExtraError
        If matplotlib is not installed.

    See Also
    --------
    dpinfer.size_study : the rates at which tests reject, whose result has a ``plot``.

    Examples
    --------
    >>> from dpinfer.plotting import plot_coverage
    >>> axes = plot_coverage({"exact": [0.951, 0.949], "noise ignored": [0.7, 0.9]},
    ...                      nominal=0.95, reps=10_000, x=[0.5, 2.0], x_label="privacy budget ε")
    >>> axes.get_ylabel()
    'share of intervals that hold the truth'
    """
    level = check_scalar(nominal, "nominal", gt=0, lt=1)
    count = None if reps is None else check_reps(reps)
    x_label = None if x_label is None else check_words(x_label, "x_label")
    coverage = as_pandas(coverage, "coverage")
    if hasattr(coverage, "columns") and hasattr(coverage, "index"):
        if isinstance(x, str) and x in coverage:
            coverage, x = coverage.set_index(x), None
        x = coverage.index.to_numpy() if x is None else x
        x_label = coverage.index.name if x_label is None else x_label
    elif not hasattr(coverage, "items") or x is None or not len(coverage):
        raise InvalidParameterError(
            "coverage must be a DataFrame, or a mapping of names to shares with their settings as "
            f"x, got {show(coverage)} and x = {show(x)}"
        )
    settings = check_array(x, "x", ndim=1)
    rows = {}
    for name, shares in coverage.items():
        rows[str(name)] = check_array(shares, f"coverage of {name}", ge=0, le=1, ndim=1)
        check_length(rows[str(name)], f"coverage of {name}", len(settings), "x")
    order = np.argsort(settings, kind="stable")
    axes = styled_axes(ax)
    axes.axhline(level, color=REFERENCE, linewidth=1.0, label=f"nominal, {level:g}")
    for place, (name, shares) in enumerate(rows.items()):
        axes.errorbar(
            settings[order],
            shares[order],
            yerr=None if count is None else _bars(shares[order], count),
            label=plain(name),
            capsize=2,
            **series(place),
            **marker(place),
        )
    axes.set_xlabel("setting" if x_label is None else str(x_label))
    axes.set_ylabel("share of intervals that hold the truth")
    add_legend(axes)
    return axes


def _bars(shares: Any, reps: int) -> Any:
    """Return how far intervals for the shares reach below and above them."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(np.round(shares * reps), reps, method="beta")
    return np.maximum([shares - low, high - shares], 0.0)
