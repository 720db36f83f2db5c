"""What to choose: orders, tests that are rejected, and ways to spend a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import check_integer, show
from dpinfer._style import COLOURS, REFERENCE, add_legend, marker, plain, series, styled_axes
from dpinfer.curation.release_plans import ReleasePlan
from dpinfer.curation.spending import BudgetSplit, SpendingComparison
from dpinfer.curation.strategies import StrategyComparison
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.ranking import Ranking
from dpinfer.results.hypothesis import AdjustedTests
from dpinfer.results.tables import label_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ROW = 0.34
"""Height of a row in inches."""


def plot_ranking(ranking: Any, *, most: int = 40, ax: Axes | None = None) -> Axes:
    """Draw the intervals of ranks, the largest published value first.

    Parameters
    ----------
    ranking : Ranking
        What :func:`dpinfer.intervals.ranking` answered.
    most : int, default 40
        The largest number of values to draw, from 1 to 400.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A row for each value, from the least to the largest rank that it may have; filled where it
        may be the largest of all.

    Raises
    ------
    InvalidParameterError
        If ``ranking`` is none.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> counts = pd.Series({"a": 40.2, "b": 12.1, "c": 44.8})
    >>> axes = dpi.intervals.ranking(counts, mechanism=dpi.Laplace(scale=2.0)).plot()
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['c   44.8', 'a   40.2', 'b   12.1']
    """
    _check(ranking, "ranking", Ranking)
    frame = ranking.summary_frame()
    order = np.argsort(-frame["value"].to_numpy(), kind="stable")
    axes, rows = _rows(frame, order, most, ax, beside="value")
    at = np.arange(len(rows))
    axes.hlines(at, rows["lower"], rows["upper"], color=COLOURS[0], linewidth=2.0)
    best = rows["best"].to_numpy(dtype=bool)
    for place, (chosen, fill, label) in enumerate(
        ((best, COLOURS[0], "may be the largest"), (~best, "white", "is not the largest"))
    ):
        look = {"color": COLOURS[0], **marker(place), "markerfacecolor": fill, "linestyle": "none"}
        ends = rows[["lower", "upper"]].to_numpy()[chosen].T
        if chosen.any():
            axes.plot(ends.ravel(), np.tile(at[chosen], 2), label=label, **look)
    axes.locator_params(axis="x", integer=True)
    said = ["rank, 1 for the largest", f"{100 * (1 - ranking.alpha):.6g} % intervals"]
    return _finished(axes, [*said, *_left_out(frame, rows, "values")])


def plot_adjusted(tests: Any, *, most: int = 40, ax: Axes | None = None) -> Axes:
    """Draw p-values before and after they were adjusted, the smallest first.

    Parameters
    ----------
    tests : AdjustedTests
        What :func:`dpinfer.adjust_pvalues` answered.
    most : int, default 40
        The largest number of tests to draw, from 1 to 400.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A row for each test on a logarithmic axis, from the p-value, open, to the adjusted one,
        filled; what is left of the line is rejected. One below 1e-10 stands at the left end.

    Raises
    ------
    InvalidParameterError
        If ``tests`` are none.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> axes = dpi.adjust_pvalues([0.2, 0.001, 0.03]).plot()
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['1', '2', '0']
    """
    _check(tests, "tests", AdjustedTests)
    frame = tests.summary_frame()
    order = np.argsort(frame["pvalue"].to_numpy(), kind="stable")
    axes, rows = _rows(frame, order, most, ax)
    at = np.arange(len(rows))
    before, after = (
        np.maximum(rows[name].to_numpy(dtype=np.float64), _LEAST)
        for name in ("pvalue", "pvalue_adjusted")
    )
    axes.hlines(at, before, after, color=COLOURS[0], linewidth=1.2)
    look = {"color": COLOURS[0], **marker(0), "linestyle": "none"}
    axes.plot(before, at, label="p-value", **{**look, **marker(1), "markerfacecolor": "white"})
    axes.plot(after, at, label=f"adjusted, {tests.method}", **look)
    axes.axvline(tests.alpha, color=REFERENCE, linewidth=1.2, label=f"level {tests.alpha:g}")
    axes.set_xscale("log")
    axes.set_xlim(min(before.min(), tests.alpha) / 1.5, 1.4)
    return _finished(axes, ["p-value", *_left_out(frame, rows, "tests")])


_LEAST = 1e-10
"""Smaller p-values are all at the end of the axis."""


def plot_spending(spending: Any, *, most: int = 40, ax: Axes | None = None) -> Axes:
    """Draw what ways to spend a budget lead to.

    Parameters
    ----------
    spending : BudgetSplit, SpendingComparison, StrategyComparison or ReleasePlan
        What :func:`~dpinfer.curation.best_split`, :func:`~dpinfer.curation.compare_spending`,
        :func:`~dpinfer.curation.compare_strategies`, :func:`~dpinfer.curation.plan_release` or
        :func:`~dpinfer.curation.optimal_shares` answered.
    most : int, default 40
        The largest number of rows to draw, from 1 to 400.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Of a split, the width of the interval over the share of the release, with the best one. Of
        a comparison, a row for each supposed value with the expected width of each way, or for
        each strategy with its variances. Of a plan, a bar for the share of each measurement.

    Raises
    ------
    InvalidParameterError
        If ``spending`` is none of these.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.curation import best_split
    >>> axes = best_split(dpi.PureDP(1.0)).plot()
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('share of the budget for the release', 'width of the 95 % interval')
    """
    _check(spending, "spending", *_SPENDING)
    check_integer(most, "most", ge=1, le=400)
    for kind, draw in _SPENDING.items():
        if isinstance(spending, kind):
            axes: Axes = draw(spending, most, ax)
    return axes


def _split(split: BudgetSplit, most: int, ax: Axes | None) -> Axes:
    axes = styled_axes(ax)
    widths = np.where(np.isfinite(split.widths), split.widths, np.nan)
    axes.plot(split.shares, widths, label="width", **series(0))
    best = f"best: {split.release_share:.3g}, width {split.width:.4g}"
    look = {"color": COLOURS[1], **marker(1), "linestyle": "none"}
    axes.plot([split.release_share], [split.width], label=best, **look)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("share of the budget for the release")
    axes.set_ylabel(f"width of the {100 * (1 - split.alpha):.6g} % interval")
    add_legend(axes)
    return axes


def _comparison(found: SpendingComparison, most: int, ax: Axes | None) -> Axes:
    frame = found.summary_frame()
    named = found.labels is not None
    frame = frame if named else frame.set_axis([f"{truth:g}" for truth in frame["truth"]])
    axes, rows = _rows(frame, np.arange(len(frame)), most, ax, beside="truth" if named else "")
    _dots(axes, rows, ("undivided", "clamped", "error", "both"))
    axes.set_ylabel("supposed value")
    said = f"expected width of the {100 * (1 - found.alpha):.6g} % interval"
    return _finished(axes, [said, *_left_out(frame, rows, "values")])


def _strategies(found: StrategyComparison, most: int, ax: Axes | None) -> Axes:
    frame = found.summary_frame()
    axes, rows = _rows(frame, np.arange(len(frame)), most, ax)
    _dots(axes, rows, ("mean_variance", "largest_variance"))
    return _finished(axes, ["variance of the targets", *_left_out(frame, rows, "strategies")])


def _plan(plan: ReleasePlan, most: int, ax: Axes | None) -> Axes:
    frame = plan.shares.to_frame("share")
    axes, rows = _rows(frame, np.arange(len(frame)), most, ax)
    axes.barh(np.arange(len(rows)), rows["share"], height=0.6, color=COLOURS[0])
    axes.set_xlim(0.0, 1.0)
    said = [f"share of the budget, {plan.budget.in_words()}"]
    return _finished(axes, [*said, *_left_out(frame, rows, "measurements")])


_SPENDING: dict[type, Any] = {
    BudgetSplit: _split,
    SpendingComparison: _comparison,
    StrategyComparison: _strategies,
    ReleasePlan: _plan,
}


def _check(value: Any, name: str, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = [kind.__name__ for kind in kinds]
        raise InvalidParameterError(f"{name} must be {' or '.join(names)}, got {show(value)}")


def _rows(
    frame: pd.DataFrame, order: Any, most: int, ax: Axes | None, beside: str = ""
) -> tuple[Axes, pd.DataFrame]:
    """Return axes with the first rows in an order, named by labels and the numbers beside them."""
    rows = frame.iloc[order[: check_integer(most, "most", ge=1, le=400)]]
    names = [plain(label_text(label)) for label in rows.index]
    if beside:
        names = [f"{name}   {x:g}" for name, x in zip(names, rows[beside], strict=True)]
    axes = styled_axes(ax, size=(6.4, 1.6 + _ROW * max(len(rows), 2)))
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    return axes, rows


def _dots(axes: Axes, rows: pd.DataFrame, names: tuple[str, ...]) -> None:
    """Draw a point in each row for each of some columns, a little apart to be told apart."""
    for place, name in enumerate(names):
        at = np.arange(len(rows)) + 0.12 * (place - 0.5 * (len(names) - 1))
        numbers = rows[name].to_numpy(dtype=np.float64)
        look = {"color": COLOURS[place], **marker(place), "linestyle": "none"}
        axes.plot(numbers, at, label=name.replace("_", " "), **look)
    axes.set_xlim(left=0.0)


def _left_out(frame: pd.DataFrame, rows: pd.DataFrame, what: str) -> list[str]:
    cut = len(rows) < len(frame)
    return [f"the first {len(rows)} of {len(frame)} {what}"] if cut else []


def _finished(axes: Axes, said: list[str]) -> Axes:
    axes.set_xlabel("\n".join(said))
    add_legend(axes, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    return axes
