"""Curves of what a release protects: errors of an attacker's test, (ε, δ), and odds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._style import REFERENCE, add_legend, plain, series, styled_axes
from dpinfer._validation import FloatArray, check_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.privacy.losses import PrivacyLoss, privacy_loss
from dpinfer.privacy.sampling import SubsampledLoss
from dpinfer.privacy.semantics import TradeOff

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
    protections : guarantee, mechanism, PrivacyLoss, TradeOff, a sequence of them, or a mapping
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
        The axes with the curves, from :class:`dpinfer.privacy.semantics.TradeOff`. The diagonal is
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
    >>> from dpinfer.privacy.guarantees import GDP, PureDP
    >>> axes = plot_trade_off([PureDP(1.0), GDP(1.0)])
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['no information', 'PureDP(epsilon=1.0, add-remove)', 'GDP(mu=1.0, add-remove)']
    """
    curves = {
        name: one if isinstance(one, TradeOff) else TradeOff(one, sensitivity, group)
        for name, one in _named(protections).items()
    }
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
    protections : guarantee, mechanism, PrivacyLoss, SubsampledLoss, a sequence, or a mapping
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
    >>> from dpinfer.privacy.guarantees import ZCDP
    >>> axes = plot_delta({"Gaussian": Gaussian(sigma=5.0), "its zCDP": ZCDP(0.02)})
    >>> axes.get_yscale(), axes.get_xlabel()
    ('log', 'privacy loss ε')
    """
    curves = {name: _delta_of(one, sensitivity) for name, one in _named(protections).items()}
    reach = [_reach(inverse) for _, inverse in curves.values()]
    at = _grid(epsilon, reach)
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
    protections : guarantee, mechanism, PrivacyLoss, TradeOff, a sequence of them, or a mapping
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
        The axes with the curves of :func:`dpinfer.privacy.semantics.pbdp_delta`, on a logarithmic
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
    >>> from dpinfer.privacy.guarantees import GDP, ZCDP
    >>> axes = plot_pbdp([GDP(0.5), ZCDP(0.125)], [0.0, 0.5, 1.0])
    >>> [line.get_label() for line in axes.get_lines()]
    ['GDP(mu=0.5, add-remove)', 'ZCDP(rho=0.125, add-remove)']
    """
    curves = {
        name: one if isinstance(one, TradeOff) else TradeOff(one, sensitivity, group)
        for name, one in _named(protections).items()
    }
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
            name = re.sub(r"neighbours='([a-z-]+)'", r"\1", show(one, 200))
            found.setdefault(plain(name), one)
    if not found:
        raise InvalidParameterError("protections must hold at least one guarantee, got none")
    return found


def _delta_of(
    one: Any, sensitivity: float
) -> tuple[Callable[[FloatArray], Any], Callable[[float], Any]]:
    """Return δ as a function of ε, and its inverse."""
    if isinstance(one, Guarantee):
        return one.delta_at, one.epsilon_at
    if isinstance(one, SubsampledLoss):
        return lambda at: one.delta_bounds(at)[1], lambda delta: one.epsilon_bounds(delta)[1]
    if isinstance(one, TradeOff):
        raise InvalidParameterError(
            f"protections must be guarantees, mechanisms or losses, got {show(one)}: pass its "
            "protection"
        )
    loss = one if isinstance(one, PrivacyLoss) else privacy_loss(one, sensitivity)
    return loss.delta, loss.epsilon


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
