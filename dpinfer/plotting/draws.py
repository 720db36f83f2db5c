"""Draws from posteriors: whether chains have mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dpinfer._check import FloatArray, check_integer, show
from dpinfer._style import REFERENCE, add_legend, plain, series, styled_axes
from dpinfer.errors import InvalidParameterError
from dpinfer.posterior.result import Draws
from dpinfer.results.labels import find_rows
from dpinfer.results.tables import label_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
