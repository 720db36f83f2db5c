"""Where a privacy budget goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer._style import COLOURS, GRID, INK, PALE, REFERENCE, plain, styled_axes
from dpinfer._validation import check_integer, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.composition import BudgetAllocation, BudgetLedger
from dpinfer.privacy.guarantees import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTERS = {"epsilon": "ε", "rho": "ρ", "mu": "μ²"}
_ROW = 0.34


def plot_ledger(ledger: BudgetLedger, *, most: int = 40, ax: Axes | None = None) -> Axes:
    """Draw what each release took of a budget, and what is left of it.

    Parameters
    ----------
    ledger : BudgetLedger
        The ledger.
    most : int, default 40
        The largest number of releases with a bar of their own, at most 400; those after them
        share one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, whose height follows the number of bars.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with a bar for each release, the first at the top, in percent of the budget: of
        ε, ρ or μ², the quantity that adds up. Each begins where the one above it ends. Where the
        accounting does not add up releases one by one, all bars begin at 0 and show what a
        release would cost alone, above what they cost together.

    Raises
    ------
    InvalidParameterError
        If ``ledger`` is not a ledger.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from dpinfer.plotting import plot_ledger
    >>> from dpinfer.privacy.composition import BudgetLedger
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> ledger = BudgetLedger(PureDP(1.0))
    >>> cost = ledger.record("total", PureDP(0.5)), ledger.record("by age", PureDP(0.25))
    >>> axes = plot_ledger(ledger)
    >>> [float(bar.get_width()) for bar in axes.patches]
    [50.0, 25.0, 25.0]
    """
    if not isinstance(ledger, BudgetLedger):
        raise InvalidParameterError(f"ledger must be a BudgetLedger, got {show(ledger)}")
    shown = check_integer(most, "most", ge=1, le=400)
    name = next(name for name in ("rho", "mu", "epsilon") if hasattr(ledger.budget, name))
    frame = ledger.summary_frame()
    shares = 100.0 * frame["share"].to_numpy(dtype=np.float64)
    names = [
        f"{plain(label)}  {cost}" for label, cost in zip(frame.index, frame["cost"], strict=True)
    ]
    if len(shares) > shown:
        names = [*names[:shown], f"{len(shares) - shown} more releases"]
        shares = np.append(shares[:shown], shares[shown:].sum())
    spent = 100.0 * _share(ledger, name)
    if _adds_up(ledger):
        start = np.append(np.cumsum(shares) - shares, spent)
        bars, last = np.append(shares, max(100.0 - spent, 0.0)), "left"
    else:
        start = np.zeros(len(shares) + 1)
        bars, last = np.append(shares, spent), "all together"
    rows = np.arange(len(bars))
    axes = styled_axes(ax, size=(6.4, 1.3 + _ROW * len(bars)))
    fill = [COLOURS[0]] * len(shares) + [PALE if last == "left" else COLOURS[1]]
    axes.barh(rows, bars, left=start, height=0.62, color=fill, edgecolor=INK, linewidth=0.6)
    axes.axvline(100.0, color=REFERENCE, linewidth=1.2)
    axes.set_yticks(rows, [*names, last])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0.0, max(104.0, 1.04 * float((start + bars).max())))
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(
        f"share of the {_LETTERS[name]} of the budget, {_budget(ledger.budget)} (percent)"
    )
    return axes


def plot_allocation(allocation: BudgetAllocation, *, ax: Axes | None = None) -> Axes:
    """Draw how an allocation divides a budget among levels and queries.

    Parameters
    ----------
    allocation : BudgetAllocation
        The allocation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with a square for each query of each level, the darker the larger its share of
        the budget, which is written on it in percent. A query that is not measured has none.

    Raises
    ------
    InvalidParameterError
        If ``allocation`` is not an allocation, or measures nothing.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from dpinfer.plotting import plot_allocation
    >>> from dpinfer.privacy.composition import BudgetAllocation
    >>> axes = plot_allocation(BudgetAllocation.from_numerators(
    ...     Fraction(2), ["total", "age"], {"State": (Fraction(1, 2), [3, 1])}))
    >>> [text.get_text() for text in axes.texts]
    ['37.5', '12.5']
    """
    if not isinstance(allocation, BudgetAllocation):
        raise InvalidParameterError(
            f"allocation must be a BudgetAllocation, got {show(allocation)}"
        )
    table = allocation.table()
    if not table.size:
        raise InvalidParameterError("allocation must measure at least one query, got none")
    shares = np.array(
        [[100.0 * float(allocation.share(row, query)) for query in table] for row in table.index]
    )
    rows, columns = shares.shape
    axes = styled_axes(ax, size=(2.6 + 0.75 * columns, 2.0 + 0.42 * rows))
    drawn = np.ma.masked_equal(shares, 0.0)
    image = axes.imshow(drawn, cmap="Greys", vmin=0.0, vmax=shares.max(), aspect="auto")
    for row, column in zip(*np.nonzero(shares), strict=True):
        share = shares[row, column]
        axes.text(
            column,
            row,
            f"{share:.3g}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if share > 0.55 * shares.max() else INK,
        )
    axes.set_xticks(range(columns), [plain(name) for name in table], rotation=40, ha="right")
    axes.set_yticks(range(rows), [plain(name) for name in table.index])
    axes.grid(visible=False)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.9)
    bar.set_label(f"percent of ρ = {float(allocation.rho):.6g}")
    bar.outline.set_edgecolor(GRID)
    return axes


def _adds_up(ledger: BudgetLedger) -> bool:
    """Whether releases take their shares one after the other."""
    try:
        _ = ledger.remaining
    except InvalidParameterError:
        return False
    return True


def _share(ledger: BudgetLedger, name: str) -> float:
    """Return the share of the budget that all releases take together."""
    whole = float(getattr(ledger.budget, name))
    ratio = float(getattr(ledger.spent, name, 0.0)) / whole if whole else 0.0
    return ratio * ratio if name == "mu" else ratio


def _budget(budget: Guarantee) -> str:
    letters = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
    parts = {letter: getattr(budget, name, None) for name, letter in letters.items()}
    return ", ".join(f"{letter} = {value:.6g}" for letter, value in parts.items() if value)
