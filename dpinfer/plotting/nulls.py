"""The law of a test statistic under the null hypothesis, with what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._style import COLOURS, add_legend, series, styled_axes
from dpinfer._validation import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_alpha,
    check_integer,
    check_option,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results import HypothesisResult
from dpinfer.results.null_distribution import NullDistribution
from dpinfer.results.tables import printed_pvalue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    extreme = _extreme(edges, observed, side)
    for chosen, colour, label in (
        (~extreme, "white", "less extreme"),
        (extreme, COLOURS[1], _pvalue(null, observed, side)),
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
    if level is not None:
        _mark_critical(axes, null, level, side)
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


def _extreme(
    edges: FloatArray, observed: float | None, side: Alternative
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which bars are at least as extreme as what was observed."""
    middle = 0.5 * edges[:-1] + 0.5 * edges[1:]
    if observed is None:
        return np.zeros(middle.shape, dtype=bool)
    if side == "larger":
        return np.asarray(middle >= observed)
    if side == "smaller":
        return np.asarray(middle <= observed)
    return np.asarray(np.abs(middle) >= abs(observed))


def _pvalue(null: NullDistribution, observed: float | None, side: Alternative) -> str:
    if observed is None:
        return ""
    found = float(null.pvalue(observed, side))
    pvalue = printed_pvalue(found, float(null.pvalue_error(observed)), 3)
    return f"as extreme, p {pvalue if pvalue.startswith('<') else f'= {pvalue}'}"


def _mark_critical(axes: Axes, null: NullDistribution, level: float, side: Alternative) -> None:
    critical = float(null.critical_value(level, side))
    if not np.isfinite(critical):
        return
    ends = {critical, -critical} if side == "two-sided" else {critical}
    for place, end in enumerate(sorted(ends)):
        label = None if place else f"critical at level {level:g}"
        axes.axvline(end, label=label, **series(2))
