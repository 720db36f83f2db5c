"""Coverage of intervals in simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import (
    as_pandas,
    check_array,
    check_integer,
    check_length,
    check_option,
    check_reps,
    check_scalar,
    show,
)
from dpinfer._style import COLOURS, REFERENCE, add_legend, marker, plain, series, styled_axes
from dpinfer.errors import InvalidParameterError
from dpinfer.plotting.results import check_numbers, check_words
from dpinfer.results.null import clopper_pearson

if TYPE_CHECKING:
    import pandas as pd
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
    dpinfer.calibration.size_study : the rates at which tests reject, whose result has a ``plot``.

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
    bars = dict.fromkeys(rows)
    if count is not None:
        for name, shares in rows.items():
            low, high = clopper_pearson(np.round(shares * count), count, 0.025)
            bars[name] = np.maximum([shares - low, high - shares], 0.0)[:, order]
    axes = styled_axes(ax)
    axes.axhline(level, color=REFERENCE, linewidth=1.0, label=f"nominal, {level:g}")
    for place, (name, shares) in enumerate(rows.items()):
        axes.errorbar(
            settings[order],
            shares[order],
            yerr=bars[name],
            label=plain(name),
            capsize=2,
            **series(place),
            **marker(place),
        )
    axes.set_xlabel("setting" if x_label is None else str(x_label))
    axes.set_ylabel("share of intervals that hold the truth")
    add_legend(axes)
    return axes


def plot_curve(frame: pd.DataFrame, *, x: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw what a plan says against one number; needs the extra ``[plot]``.

    Parameters
    ----------
    frame : DataFrame
        What :func:`dpinfer.plan.curve` answered.
    x : str, optional
        The number on the horizontal axis; by default the first of which there are several values.
        There is one line for each combination of the others.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the drawing, with bars of one error to each side.

    Raises
    ------
    InvalidParameterError
        If ``frame`` is no curve, or ``x`` is not one of its numbers.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import matplotlib; matplotlib.use("Agg")
    >>> frame = dpi.plan.curve(dpi.linear_ztest, weights=[1, -1], shift=[0, 10, 20],
    ...                        mechanism=dpi.Laplace.from_epsilon, budget=[0.1, 0.5])
    >>> axes = dpi.plotting.plot_curve(frame, x="shift")
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('shift', 'power')
    """
    about = getattr(frame, "attrs", {})
    if not {"x", "y", "error"} <= set(about):
        raise InvalidParameterError(
            f"frame must be what dpinfer.plan.curve answers, got {show(frame)}"
        )
    quantity, error = about["y"], about["error"]
    numbers = list(frame.columns[: frame.columns.get_loc(quantity)])
    x = (about["x"] or numbers)[0] if x is None else check_option(x, "x", numbers)
    others = [name for name in about["x"] if name != x]
    axes = styled_axes(ax)
    lines = frame.groupby(others) if others else [((), frame)]
    for place, (key, part) in enumerate(lines):
        label = ", ".join(f"{name} = {v:g}" for name, v in zip(others, key, strict=True))
        look = {**series(place), **marker(place)}
        axes.errorbar(part[x], part[quantity], yerr=part[error], label=label or None, **look)
    add_legend(axes)
    axes.set_xlabel(x)
    axes.set_ylabel(quantity)
    return axes


_ROW = 0.3
_NEEDED = {"procedure", "about", "kind", "nominal", "rate", "bound_lower", "bound_upper"}


def plot_certificates(certificates: Any, *, most: int = 60, ax: Axes | None = None) -> Axes:
    """Draw the error rates of certificates, in multiples of the nominal ones.

    Parameters
    ----------
    certificates : Certificate, Certificates or DataFrame
        What :mod:`dpinfer.calibration` found, or its ``summary_frame()``, also as read from a file.
    most : int, default 60
        The largest number of rates to draw; the first ones are drawn. At most 400.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, as high as it needs.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with a row for each rate: the share of intervals that miss, or of true null
        hypotheses that are rejected, divided by α, with its exact bounds. Open points are of the
        procedure that was looked at beside. Left of 1 is conservative; the axis is logarithmic,
        and a rate of 0 stands at its left end.

    Raises
    ------
    InvalidParameterError
        If what is given is no certificate.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from dpinfer.calibration import Certificate
    >>> from dpinfer.plotting import plot_certificates
    >>> found = Certificate(procedure="a test", kind="size", alpha=0.05, labels=("",),
    ...                     error_rate=np.array([0.0983]), reps=np.array([10_000]))
    >>> axes = plot_certificates(found)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['a test']
    """
    shown = check_integer(most, "most", ge=1, le=400)
    frame = as_pandas(getattr(certificates, "summary_frame", lambda: certificates)())
    if not hasattr(frame, "columns") or not set(frame) >= _NEEDED or not len(frame):
        raise InvalidParameterError(
            "certificates must be a Certificate, Certificates or their summary_frame(), got "
            f"{show(certificates)}"
        )
    rows = frame.iloc[:shown]
    texts = [name for name in ("about", "beside") if name in rows]
    rows = rows.assign(**{name: rows[name].astype(object).fillna("") for name in texts})

    def errors(name: str) -> Any:
        """Probabilities of errors from rates, which for intervals are coverages."""
        rate = check_numbers(rows[name], f"{name} of certificates")
        return np.where(rows["kind"] == "coverage", 1.0 - rate, rate)

    alpha = errors("nominal")
    ratio = errors("rate") / alpha
    ends = np.sort([errors(f"bound_{side}") / alpha for side in ("lower", "upper")], axis=0)
    beside = np.full(len(rows), np.nan)
    if "beside_rate" in rows:
        beside = errors("beside_rate") / alpha
    positive = np.concatenate([ratio, *ends, beside, [0.5, 2.0]])
    positive = positive[np.isfinite(positive) & (positive > 0)]
    low, high = positive.min() / 1.2, positive.max() * 1.2
    places = np.arange(len(rows))
    axes = styled_axes(ax, size=(6.4, 1.4 + _ROW * max(len(rows), 2)))
    axes.axvline(1.0, color=REFERENCE, linewidth=1.2, label="nominal")
    axes.hlines(places, np.maximum(ends[0], low), ends[1], color=COLOURS[0], linewidth=1.8)
    look = {"linestyle": "none", "color": COLOURS[0], **marker(0)}
    axes.plot(np.maximum(ratio, low), places, label="certified", **look)
    if np.isfinite(beside).any():
        look = {"linestyle": "none", "color": COLOURS[1], **marker(1), "markerfacecolor": "white"}
        names = ", ".join(dict.fromkeys(name for name in rows["beside"] if name))
        axes.plot(np.maximum(beside, low), places, label=plain(names), **look)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize=7)
    pairs = zip(rows.procedure, rows.about, strict=True)
    axes.set_yticks(places, [plain(f"{one}, {about}" if about else one) for one, about in pairs])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    cut = "" if len(rows) == len(frame) else f"\nthe first {len(rows)} of {len(frame)} rates"
    axes.set_xlabel(f"rate of errors, in multiples of the nominal α{cut}")
    add_legend(axes, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return axes


_CURVES = {"rate": "attack", "power": "attack", "expected": "theory", "baseline": "guessing"}


def plot_audit(
    audit: Any, *, x: Any = None, x_label: str = "noise", most: int = 40, ax: Axes | None = None
) -> Axes:
    """Draw how far attacks on a release get, beside the best that any attack can do.

    Parameters
    ----------
    audit : DifferenceAudit, or sequence of ReconstructionAudit or MembershipAudit
        What the audits of :mod:`dpinfer.curation` found; of several, those of one kind.
    x : array of float, shape (k,), optional
        The setting of each of k audits, such as the standard deviation of the noise; needed for a
        sequence.
    x_label : str, default "noise"
        What that is.
    most : int, default 40
        The largest number of groups to draw, the most exposed first. At most 400.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A row for each group, from the success of the best linear attack to the largest possible; or
        a line each for attack, theory, guessing and the largest possible.

    Raises
    ------
    InvalidParameterError
        If what is given is no audit, or ``x`` does not fit.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import matplotlib; matplotlib.use("Agg")
    >>> queries = [[1, 1, 1], [1, 1, 0]]
    >>> found = dpi.curation.audit_differences(queries, mechanism=dpi.Laplace(scale=2.0))
    >>> axes = dpi.plotting.plot_audit(found)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['0 + 1', '2']
    """
    shown = check_integer(most, "most", ge=1, le=400)
    if hasattr(audit, "summary_frame") and {"success", "most"} <= set(audit.summary_frame()):
        frame = audit.summary_frame().iloc[:shown]
        places = np.arange(len(frame))
        axes = styled_axes(ax, size=(6.4, 1.4 + _ROW * max(len(frame), 2)))
        axes.hlines(places, frame["success"], frame["most"], color=REFERENCE, linewidth=1.2)
        for place, (name, label) in enumerate({"success": "attack", "most": "most"}.items()):
            look = {"linestyle": "none", "color": COLOURS[place], **marker(place)}
            axes.plot(frame[name], places, label=label, **look)
        axes.set_yticks(places, [plain(str(name)) for name in frame.index])
        axes.set_ylim(max(len(frame), 1) - 0.5, -0.5)
        axes.set_xlim(0.48, 1.02)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("chance to tell whether one record is there")
        add_legend(axes, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        return axes
    found = list(audit) if isinstance(audit, (list, tuple)) else []
    if not found or len({type(one) for one in found}) > 1 or not hasattr(found[0], "expected"):
        raise InvalidParameterError(
            "audit must be a DifferenceAudit, or a list of ReconstructionAudit or of "
            f"MembershipAudit, got {show(audit)}"
        )
    if x is None:
        raise InvalidParameterError(
            f"x must be given for {len(found)} audits: the setting of each, such as the standard "
            "deviation of the noise"
        )
    at = check_array(x, "x", ndim=1)
    check_length(at, "x", len(found), "the audits")
    axes = styled_axes(ax)
    order = np.argsort(at)
    names = [name for name in _CURVES if hasattr(found[0], name)]
    for place, name in enumerate([*names, "most"]):
        values = np.array([getattr(one, name) for one in found])[order]
        if np.isfinite(values).any():
            look = {**series(place), **marker(place)}
            axes.plot(at[order], values, label=_CURVES.get(name, "most"), **look)
    axes.set_xlabel(plain(str(x_label)))
    axes.set_ylabel("share right" if "rate" in names else "power")
    axes.set_ylim(0.0, 1.02)
    add_legend(axes)
    return axes
