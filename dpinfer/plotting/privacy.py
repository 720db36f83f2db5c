"""Curves of what a release protects: errors of an attacker's test, (ε, δ), and odds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import FloatArray, check_array, check_integer, show
from dpinfer._style import (
    COLOURS,
    GRID,
    INK,
    PALE,
    REFERENCE,
    add_legend,
    plain,
    series,
    styled_axes,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.guarantees import LETTERS, Guarantee
from dpinfer.privacy.ledger import BudgetAllocation, BudgetLedger
from dpinfer.privacy.loss import PrivacyLoss, privacy_loss
from dpinfer.privacy.pairs import PairLoss
from dpinfer.privacy.sampling import SubsampledLoss
from dpinfer.privacy.trade_off import TradeOff

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_LEVELS = np.unique(np.concatenate([np.linspace(0.0, 1.0, 51), np.geomspace(1e-4, 0.1, 16)]))
_POINTS = 61
_SMALLEST = 1e-10
"""δ below which curves are not drawn by default."""

_NOTHING = 1e-300
"""What stands for 0 on a logarithmic scale."""

_CHANCES = (_SMALLEST, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5)


def plot_trade_off(
    protections: Any,
    *,
    sensitivity: float = 1.0,
    group: int = 1,
    ax: Axes | None = None,
) -> Axes:
    """Draw trade-off curves: the two errors of the best test between neighbouring data sets.

    Parameters
    ----------
    protections : guarantee, mechanism, PrivacyLoss, TradeOff, Scenario, sequence, or mapping
        What protects the data, in a mapping by the names for the legend.
    sensitivity : float, default 1
        Of mechanisms, the sensitivity of the query; a guarantee accounts for it already.
    group : int, default 1
        The number of records in which the data sets differ.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the curves, from :class:`dpinfer.privacy.TradeOff`. The diagonal is
        a release that tells nothing; the lower a curve, the more an attacker can tell.

    Raises
    ------
    InvalidParameterError
        If no bound is known for what is given.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from dpinfer.plotting import plot_trade_off
    >>> from dpinfer.privacy import GDP, PureDP
    >>> axes = plot_trade_off([PureDP(1.0), GDP(1.0)])
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['no information', 'PureDP(epsilon=1.0, add-remove)', 'GDP(mu=1.0, add-remove)']
    """
    curves = _trade_offs(protections, sensitivity, group)
    lines = {name: curve.type_two_error(_LEVELS) for name, curve in curves.items()}
    axes = styled_axes(ax, size=(5.2, 4.8))
    axes.plot([0.0, 1.0], [1.0, 0.0], color=REFERENCE, linewidth=1.0, label="no information")
    for place, (name, error) in enumerate(lines.items()):
        axes.plot(_LEVELS, error, label=name, **series(place))
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("level α of the test (probability of a false alarm)")
    axes.set_ylabel("smallest probability of a miss, 1 \N{MINUS SIGN} power")
    add_legend(axes, loc="upper right")
    return axes


def plot_delta(
    protections: Any,
    epsilon: Any = None,
    *,
    sensitivity: float = 1.0,
    ax: Axes | None = None,
) -> Axes:
    """Draw (ε, δ) curves: the smallest δ of differential privacy at every ε.

    Parameters
    ----------
    protections : guarantee, mechanism, PrivacyLoss, SubsampledLoss, Scenario, sequence, or mapping
        What protects the data, in a mapping by the names for the legend. A subsampled loss is
        drawn by its certified upper bound.
    epsilon : array of float, shape (m,), optional
        The ε >= 0 to draw; by default as far as one of the δ is above 1e-10.
    sensitivity : float, default 1
        Of mechanisms, the sensitivity of the query.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the curves, δ on a logarithmic scale. Where δ is 0 the line leaves
        the axes.

    Raises
    ------
    InvalidParameterError
        If something given has no (ε, δ) curve, or an ε is negative.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from dpinfer import Gaussian
    >>> from dpinfer.plotting import plot_delta
    >>> from dpinfer.privacy import ZCDP
    >>> axes = plot_delta({"Gaussian": Gaussian(sigma=5.0), "its zCDP": ZCDP(0.02)})
    >>> axes.get_yscale(), axes.get_xlabel()
    ('log', 'privacy loss ε')
    """
    curves = {name: _delta_of(one, sensitivity) for name, one in _named(protections).items()}
    at = _grid(epsilon, [_reach(inverse) for _, inverse in curves.values()])
    lines = {name: curve(at) for name, (curve, _) in curves.items()}
    return _log_lines(
        lines, at, "privacy loss ε", "δ of (ε, δ)-differential privacy (probability)", ax
    )


def plot_pbdp(
    protections: Any,
    epsilon: Any = None,
    *,
    sensitivity: float = 1.0,
    group: int = 1,
    ax: Axes | None = None,
) -> Axes:
    """Draw curves of probabilistically bounded privacy: how probable a change of the odds is.

    Parameters
    ----------
    protections : guarantee, mechanism, PrivacyLoss, TradeOff, Scenario, sequence, or mapping
        What protects the data, in a mapping by the names for the legend.
    epsilon : array of float, shape (m,), optional
        The logarithms ε >= 0 of the factors to draw; by default as far as one of the
        probabilities is above 1e-10.
    sensitivity : float, default 1
        Of mechanisms, the sensitivity of the query.
    group : int, default 1
        The number of records in which the data sets differ.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the curves of :func:`dpinfer.privacy.pbdp_delta`, on a logarithmic
        scale. Where the probability is 0 the line leaves the axes.

    Raises
    ------
    InvalidParameterError
        If no bound is known for what is given, or an ε is negative.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from dpinfer.plotting import plot_pbdp
    >>> from dpinfer.privacy import GDP, ZCDP
    >>> axes = plot_pbdp([GDP(0.5), ZCDP(0.125)], [0.0, 0.5, 1.0])
    >>> [line.get_label() for line in axes.get_lines()]
    ['GDP(mu=0.5, add-remove)', 'ZCDP(rho=0.125, add-remove)']
    """
    curves = _trade_offs(protections, sensitivity, group)
    at = _grid(epsilon, [_reach(curve.pbdp_epsilon) for curve in curves.values()])
    lines = {name: curve.pbdp_delta(at) for name, curve in curves.items()}
    return _log_lines(
        lines,
        at,
        "logarithm ε of the factor by which the odds change",
        "probability δ of such a change or a larger one",
        ax,
    )


def _named(protections: Any) -> dict[str, Any]:
    """Return what is drawn by the names of its lines."""
    if isinstance(protections, Mapping):
        found = {plain(name): one for name, one in protections.items()}
    else:
        several = protections if isinstance(protections, (list, tuple)) else [protections]
        found = {}
        for one in several:
            secret = getattr(one, "secret", "")
            name = secret or re.sub(r"neighbours='([a-z-]+)'", r"\1", show(one, 200))
            found.setdefault(plain(name), one)
    if not found:
        raise InvalidParameterError("protections must hold at least one guarantee, got none")
    # a scenario is drawn by the loss of the noise that was used
    return {name: getattr(one, "privacy_loss", one) for name, one in found.items()}


def _trade_offs(protections: Any, sensitivity: float, group: int) -> dict[str, TradeOff]:
    return {
        name: one if isinstance(one, TradeOff) else TradeOff(one, sensitivity, group)
        for name, one in _named(protections).items()
    }


def _delta_of(
    one: Any, sensitivity: float
) -> tuple[Callable[[FloatArray], Any], Callable[[float], Any]]:
    """Return δ as a function of ε, and its inverse."""
    if isinstance(one, TradeOff):
        raise InvalidParameterError(
            f"protections must be guarantees, mechanisms or losses, got {show(one)}: pass its "
            "protection"
        )
    known = isinstance(one, (Guarantee, PairLoss, PrivacyLoss, SubsampledLoss))
    loss = one if known else privacy_loss(one, sensitivity)
    return loss.delta_at, loss.epsilon_at


def _reach(inverse: Callable[[float], Any]) -> float:
    """Return the ε at the smallest probability that has a finite one."""
    for chance in _CHANCES:
        try:
            found = float(inverse(chance))
        except InvalidParameterError:  # no finite ε at so small a δ
            continue
        if np.isfinite(found):
            return found
    return 0.0


def _grid(epsilon: Any, reach: list[float]) -> FloatArray:
    """Return the ε at which curves are drawn, in their order."""
    if epsilon is None:
        # a corner, as at the ε of a pure guarantee, is drawn as one
        corners = [at * side for at in reach for side in (1.0 - 1e-9, 1.0 + 1e-9)]
        return np.unique([*np.linspace(0.0, max(reach) or 1.0, _POINTS), *corners])
    return np.sort(check_array(epsilon, "epsilon", ge=0, ndim=1))


def _log_lines(
    lines: Mapping[str, Any], at: FloatArray, x_label: str, y_label: str, ax: Axes | None
) -> Axes:
    axes = styled_axes(ax)
    for place, (name, values) in enumerate(lines.items()):
        heights = np.asarray(values, dtype=np.float64)
        axes.plot(at, np.maximum(heights, _NOTHING), label=name, **series(place))
    axes.set_yscale("log")
    drawn = np.concatenate([np.ravel(values) for values in lines.values()])
    lowest = float(drawn[drawn > 0].min(initial=1.0))
    axes.set_ylim(max(lowest, _SMALLEST) / 2, 1.5)
    axes.set_xlim(float(at[0]), float(at[-1]) if at[-1] > at[0] else float(at[0]) + 1.0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    add_legend(axes)
    return axes


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
    >>> from dpinfer.privacy import BudgetLedger
    >>> from dpinfer.privacy import PureDP
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
    whole = float(getattr(ledger.budget, name))
    ratio = float(getattr(ledger.spent, name, 0.0)) / whole if whole else 0.0
    spent = 100.0 * (ratio * ratio if name == "mu" else ratio)
    try:
        adds_up = ledger.remaining is not None  # releases take their shares one after the other
    except InvalidParameterError:
        adds_up = False
    if adds_up:
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
    parts = {letter: getattr(ledger.budget, own, None) for own, letter in LETTERS.items()}
    budget = ", ".join(f"{letter} = {value:.6g}" for letter, value in parts.items() if value)
    what = "μ²" if name == "mu" else LETTERS[name]
    axes.set_xlabel(f"share of the {what} of the budget, {budget} (percent)")
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
    >>> from dpinfer.privacy import BudgetAllocation
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
