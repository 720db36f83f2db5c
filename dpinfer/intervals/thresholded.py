"""Sums and ratios of cells that are published only where the noisy value reaches a threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_alpha,
    check_flag,
    check_length,
    check_option,
    check_scalar,
    show,
)
from dpinfer._numerics.lattice import alike
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals._thresholded import TILTS, WIDTHS, Cells, Soft, counting, lowest, margin
from dpinfer.mechanisms.independent import Mechanism, groups, integer_cells
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.releases.coerce import ListedCells, listed_cells
from dpinfer.releases.noises import Rule
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Assurance, Intervals

Target = Literal["cells", "published", "excess", "soft", "soft-total", "soft-count"]
TARGETS: tuple[Target, ...] = (
    "cells",
    "published",
    "excess",
    "soft",
    "soft-total",
    "soft-count",
)

Method = Literal["bound", "asymptotic"]

_SIDES = {"two-sided": 2, "larger": 1, "smaller": 1}

_LAWS = (Laplace, Geometric, Gaussian, DiscreteGaussian)

_FEW = 10
"""Sums over fewer published cells are not close to normal."""


# What is given: a list of cells, some of them unpublished, in groups.


def _listed(
    values: Any, mechanism: Mechanism | None, threshold: Any, cells: Any, target: Target
) -> ListedCells:
    listed = listed_cells(values, mechanism, threshold, cells)
    x, rule = listed.x, listed.x.rule
    if rule is None or not np.isfinite(rule.threshold).any():
        raise InvalidParameterError(
            "threshold must be given, or carried by a release, for at least one cell: for values "
            "without one use linear_confint or linear_ratio_confint"
        )
    _refuse_processed(x, rule)
    if target == "cells" and not listed.given:
        raise InvalidParameterError(
            "target='cells' needs the whole list, and values holds published cells only: which "
            "cells were not published? Give them as NaN, or the labels of all as cells=; or ask "
            "for target='published', or 'soft', which need no list"
        )
    for law, _ in groups(x._own_law(), len(x)):
        if not isinstance(law, _LAWS):
            raise InvalidParameterError(
                "mechanism must be Laplace, Geometric, Gaussian or DiscreteGaussian noise for "
                f"sums of values with a threshold, got {law!r}: their bounds rest on moments given "
                "publication, which are known for these; single values with it have count_confint"
            )
    return listed


def _refuse_processed(x: NoisyValues, rule: Rule) -> None:
    if rule.after > 0:
        whole = bool(np.all(integer_cells(x._own_law(), len(x))))
        half = rule.after // 2 if whole else rule.after / 2
        raise InvalidParameterError(
            f"values must not be rounded to multiples of {rule.after:g} after the noise, as the "
            f"noisy value may be {half:g} to either side; where the threshold applies to the "
            f"rounded value, lower ends are those of values - {half:g} with threshold - {half:g} "
            f"and alternative='larger', upper ends those of values + {half:g} with "
            "alternative='smaller', at half of alpha each"
        )
    if x.weights is not None or np.greater(rule.before, 1).any():
        raise InvalidParameterError(
            "values must each have a noise of their own, about the counts themselves, got weighted "
            "sums of noises or counts that were rounded before the noise: use single published "
            "values with count_confint, which knows of bins"
        )
    clamped = np.isfinite(rule.lowest) & np.greater_equal(rule.lowest, rule.threshold)
    if clamped.any() or np.isfinite(rule.highest).any():
        raise InvalidParameterError(
            "values must not be clamped above the threshold, got clamping bounds that published "
            "values may sit at: beyond them a value says no more than a bound, and their sum none; "
            "use count_confint for single values (clamping below the threshold changes nothing)"
        )


class _Groups(NamedTuple):
    number: NDArray[np.intp]
    size: int
    labels: Any

    def total(self, part: FloatArray) -> FloatArray:
        return np.bincount(self.number, part, self.size).astype(np.float64)


def _grouped(x: NoisyValues, by: Any) -> _Groups:
    import pandas as pd

    if by is None:
        return _Groups(np.zeros(len(x), dtype=np.intp), 1, None)
    levels = [by] if isinstance(by, str) else by
    own = x.labels
    named = isinstance(levels, (list, tuple)) and own is not None and len(levels) > 0
    if own is not None and named and all(level in own.names for level in levels):
        rest = [name for name in own.names if name not in levels]
        index = own.droplevel(rest) if rest else own
        if isinstance(index, pd.MultiIndex):
            index = index.reorder_levels(list(levels))
    else:
        try:
            index = pd.Index(by)
            index.factorize()
        except (TypeError, ValueError) as error:  # no row of labels
            names = "none" if own is None else show(list(own.names))
            raise InvalidParameterError(
                f"by must be levels of the labels ({names} here), or a group for each of the "
                f"{len(x)} cells, got {show(by)}"
            ) from error
        check_length(index, "by", len(x), "the cells")
        if hasattr(by, "iloc") and own is not None and not by.index.equals(own):
            raise InvalidParameterError("by must have the labels of the values, in their order")
    number, labels = index.factorize()
    if (number < 0).any():
        raise InvalidParameterError("by must name a group for each cell, got a missing one")
    return _Groups(number.astype(np.intp), len(labels), labels)


class _Sorted(NamedTuple):
    """Groups with the kinds of their cells, each combination of kinds once."""

    which: NDArray[np.intp]
    """The combination of each group."""
    kinds: list[list[tuple[int, int]]]
    """Of each combination, the kinds and their numbers."""


def _combinations(group: NDArray[np.intp], kind: NDArray[np.intp], size: int) -> _Sorted:
    order = np.lexsort((kind, group))
    ends = np.searchsorted(group[order], np.arange(size + 1))
    kind = kind[order]
    found: dict[bytes, int] = {}
    which = np.empty(size, dtype=np.intp)
    for at in range(size):
        which[at] = found.setdefault(kind[ends[at] : ends[at + 1]].tobytes(), len(found))
    kinds = []
    for key in found:
        own, count = np.unique(np.frombuffer(key, dtype=np.intp), return_counts=True)
        kinds.append([(int(k), int(n)) for k, n in zip(own, count, strict=True)])
    return _Sorted(which, kinds)


def _kinds_of(
    listed: ListedCells, *columns: FloatArray
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    law = listed.x._own_law()
    own = [] if law.shape == () else [listed.x._kinds().astype(np.float64)]
    return alike([listed.first, *own, *columns])


def _law_at(listed: ListedCells, at: int) -> ParametricLaw:
    law = listed.x._own_law()
    for kind, cells in groups(law, len(listed.x)) if law.shape else [(law, np.array([at]))]:
        place = np.flatnonzero(cells == at)
        if place.size:
            return cast("ParametricLaw", kind.take(int(place[0])))
    raise AssertionError


class _Ends(NamedTuple):
    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    method: str
    notes: tuple[str, ...]
    assurance: Assurance | None = "bound"


class _Asked(NamedTuple):
    """Sums of cells with weights, in groups."""

    listed: ListedCells
    groups: _Groups
    weights: FloatArray
    upper: FloatArray
    width: float | None
    target: Target
    method: Method


def _of_cells(asked: _Asked, q: float) -> _Ends:
    low = _censored_end(asked, asked.weights, q)
    high = -_censored_end(asked, -asked.weights, q)
    c, there, top = asked.weights, asked.listed.there, asked.upper
    with np.errstate(invalid="ignore"):
        ends = np.where(c == 0, 0.0, c * top)
    low = np.maximum(low, asked.groups.total(np.where(c < 0, ends, 0.0)))
    high = np.minimum(high, asked.groups.total(np.where(c > 0, ends, 0.0)))
    middle = np.where(there, asked.listed.x.values, 0.5 * np.minimum(asked.listed.last, top))
    unseen = int(np.count_nonzero(~there & (c != 0)))
    note = f"{unseen} unpublished cells count as anything from 0 to what the threshold lets pass"
    return _Ends(asked.groups.total(c * middle), low, high, "censored", (note,))


def _censored_end(asked: _Asked, c: FloatArray, q: float) -> FloatArray:
    """Lower end of the sum of c·f: 0 for what is not published where c > 0, the most where c < 0.

    There the error is at most |c| times the noise. Of a cell whose count is known to be below the
    threshold, that bound serves.
    """
    listed = asked.listed
    known = (c < 0) & (asked.upper <= listed.last)
    bound = np.where(c < 0, listed.last, 0.0)
    part = np.where(listed.there, listed.x.values, np.where(np.isfinite(bound), bound, 0.0))
    part = np.where(known, asked.upper, part)
    used = np.flatnonzero((c != 0) & ~known)
    ends = asked.groups.total(np.where(c == 0, 0.0, c * part))
    if not used.size:
        return ends
    first, kind = _kinds_of(listed, c)
    combined = _combinations(asked.groups.number[used], kind[used], asked.groups.size)
    margins = np.zeros(len(combined.kinds))
    laws: dict[int, Cells] = {}
    for at, own in enumerate(combined.kinds):
        kinds = []
        for number, count in own:
            if number not in laws:
                cell = int(first[number])
                bound_at, weight = float(listed.first[cell]), float(c[cell])
                dropped = weight > 0 and np.isfinite(bound_at)
                law = _law_at(listed, cell)
                laws[number] = Cells(law, bound_at if dropped else -np.inf, abs(weight), 1, dropped)
            kinds.append(laws[number]._replace(number=count))
        margins[at] = margin(_merged(kinds), q) if kinds else 0.0
    return np.asarray(ends - margins[combined.which])


def _merged(kinds: list[Cells]) -> tuple[Cells, ...]:
    """Return kinds in one order, each once."""
    found: dict[Cells, int] = {}
    for kind in kinds:
        plain = kind._replace(number=0)
        found[plain] = found.get(plain, 0) + kind.number
    return tuple(kind._replace(number=count) for kind, count in found.items())


def _of_published(asked: _Asked, q: float) -> _Ends:
    c = np.where(asked.listed.there, asked.weights, 0.0)
    low, near = _published_end(asked, c, q)
    high, _ = _published_end(asked, -c, q)
    least, most = (asked.groups.total(np.where(sign * c > 0, sign, 0.0)) for sign in (-1, 1))
    low = np.where(least == 0, np.minimum(np.maximum(low, 0.0), -high), low)
    high = np.where(most == 0, np.maximum(np.minimum(-high, 0.0), low), -high)
    notes = (
        "the sum is over the cells that the noise let pass: another release has others",
        f"{near} of {np.count_nonzero(c)} published cells are so near the threshold that they add "
        "nothing to the lower ends",
        "estimates are plain sums, too large where counts are near the threshold",
    )
    return _Ends(asked.groups.total(c * asked.listed.x.values), low, high, "tilted", notes)


def _published_end(asked: _Asked, c: FloatArray, q: float) -> tuple[FloatArray, int]:
    """Lower ends of sums of c·f given what was published, and how many cells add nothing to them.

    Where no c is above 0 they are exact quantiles, else tilted.
    """
    listed, sets = asked.listed, asked.groups
    used = np.flatnonzero(c)
    y, group, weight = listed.x.values[used], sets.number[used], c[used]
    first, kind = _kinds_of(listed, c)
    combined = _combinations(group, kind[used], sets.size)
    known = [
        Cells(_law_at(listed, int(at)), float(listed.first[at]), float(c[at]), 1) for at in first
    ]
    room = np.zeros(len(combined.kinds))
    start, loss, fee = (np.zeros((room.size, len(first))) for _ in range(3))
    for at, own in enumerate(combined.kinds):
        kinds = tuple(known[number]._replace(number=count) for number, count in own)
        numbers = [number for number, _ in own]
        if any(one.weight > 0 for one in kinds):
            found = counting(kinds, q)
            room[at] = found.margin
            start[at, numbers], loss[at, numbers] = found.start, found.loss
            fee[at, numbers] = found.fee
        elif kinds:
            start[at, numbers] = -np.inf
            plain = [one._replace(first=-np.inf, weight=-one.weight) for one in kinds]
            room[at] = margin(_merged(plain), q)
    place = combined.which[group], kind[used]
    far = y >= start[place]
    score = np.where(far, y - loss[place], -fee[place])
    low = np.bincount(group, weight * score, sets.size) - room[combined.which]
    return low, int(np.count_nonzero(~far))


def _of_excess(asked: _Asked, q: float) -> _Ends:
    c, sets, there = asked.weights, asked.groups, asked.listed.there
    parts = _soft_parts(asked)
    value, variance = np.zeros(len(there)), np.zeros(len(there))
    for cells, soft in parts:
        shown = np.flatnonzero(there[cells])
        rows = cells[shown]
        value[rows], variance[rows] = soft.take(shown).scores(asked.listed.x.values[rows])
    total = sets.total(c * value)
    if asked.method == "asymptotic":
        half = -special.ndtri(q) * np.sqrt(np.maximum(sets.total(c**2 * variance), 0.0))
        few = int(np.count_nonzero(sets.total((there & (c != 0)).astype(np.float64)) < _FEW))
        notes: tuple[str, ...] = ("normal quantiles, for sums of many published cells",)
        if few:
            notes = (
                *notes,
                f"{few} sums are of fewer than {_FEW} published cells: 95 % intervals for them "
                "covered from 0 (where none is published) to 85 % (where one is) in simulations",
            )
        return _Ends(total, total - half, total + half, "asymptotic", notes, None)
    top = _largest_tilts(asked, parts)
    low, high = _soft_end(asked, parts, c, top, q), -_soft_end(asked, parts, -c, top, q)
    for sign, clip in ((-1, np.maximum), (1, np.minimum)):  # the functions are of 0 or more
        none = sets.total((sign * c > 0).astype(np.float64)) == 0
        low, high = (np.where(none, clip(end, 0.0), end) for end in (low, high))
    notes = ("over all cells, whether they are listed or not",)
    laws = groups(asked.listed.x._own_law(), len(there))
    if not any(isinstance(law, (Gaussian, DiscreteGaussian)) for law, _ in laws):
        return _Ends(total, low, high, "tilted", notes)
    notes = (*notes, "moments under Gaussian noise are bounded on a grid, without proof between")
    return _Ends(total, low, high, "tilted", notes, "checked")


def _soft_parts(asked: _Asked) -> list[tuple[NDArray[np.intp], Soft]]:
    """Return the cells of each law, with what is summed of them."""
    listed, target, parts = asked.listed, asked.target, []
    if not np.isfinite(listed.first).all():
        raise InvalidParameterError(f"threshold must be finite for every cell with {target=}")
    for law, cells in groups(listed.x._own_law(), len(listed.x)):
        width: Any = 1.0
        if target == "excess" and not isinstance(law, Geometric):
            raise InvalidParameterError(
                f"target='excess' is for Geometric noise, got {type(law).__name__}: no estimate "
                "from published values is unbiased for it; ask for target='soft'"
            )
        if isinstance(law, (Gaussian, DiscreteGaussian)):
            if target != "soft":
                raise InvalidParameterError(
                    f"target={target!r} is for Laplace and Geometric noise, got "
                    f"{type(law).__name__}: under it nothing that is 0 up to the threshold has an "
                    "unbiased estimate from published values; ask for 'soft', or for 'cells'"
                )
            if asked.width is not None:
                raise InvalidParameterError(
                    "width must be left out for Gaussian noise, which has a soft excess of its own"
                )
        elif asked.width is not None:
            width = asked.width
            if law.is_integer and width != np.rint(width):
                raise InvalidParameterError(
                    f"width must be a whole number for Geometric noise, got {width:g}"
                )
        elif target != "excess":
            width = WIDTHS[target] * np.asarray(cast("Laplace | Geometric", law).scale)
            width = np.maximum(np.rint(width), 1.0) if law.is_integer else width
        width = np.broadcast_to(width, cells.size)
        parts.append((cells, Soft(cast("ParametricLaw", law), listed.first[cells], width, target)))
    return parts


def _largest_tilts(asked: _Asked, parts: list[tuple[NDArray[np.intp], Soft]]) -> FloatArray:
    """Return the largest tilt of each group, by what is known of all cells beforehand."""
    own, number = np.empty(len(asked.listed.x)), asked.groups.number
    for cells, soft in parts:
        own[cells] = soft.most()
    used = asked.weights != 0
    size = np.abs(asked.weights[used])
    least, most = np.full(asked.groups.size, np.inf), np.zeros(asked.groups.size)
    np.minimum.at(least, number[used], own[used] / size)
    np.maximum.at(most, number[used], own[used] / size)
    if not asked.listed.given and (most > least * (1.0 + 1e-9)).any():
        raise InvalidParameterError(
            f"values must hold the whole list with target={asked.target!r}, NaN where unpublished, "
            "where noises, thresholds or sizes of weights differ within a sum: what cells that are "
            "not listed may add depends on theirs; where all were published, give their number as "
            "cells=, else ask for method='asymptotic'"
        )
    return np.where(np.isfinite(least), least, 1.0)


def _soft_end(
    asked: _Asked,
    parts: list[tuple[NDArray[np.intp], Soft]],
    c: FloatArray,
    top: FloatArray,
    q: float,
) -> FloatArray:
    listed, sets = asked.listed, asked.groups
    tilts = top * 0.5 ** np.arange(TILTS)[:, None]
    sums = np.zeros(tilts.shape)
    for cells, soft in parts:
        shown = np.flatnonzero(listed.there[cells] & (c[cells] != 0))
        rows, soft_shown = cells[shown], soft.take(shown)
        for at, tilt in enumerate(tilts):
            own = tilt[sets.number[rows]] * c[rows]
            found = soft_shown.log_factors(listed.x.values[rows], own)
            sums[at] += np.bincount(sets.number[rows], found, sets.size)
    return lowest(sums, tilts, q)


_OF_TARGET: dict[Target, Callable[[_Asked, float], _Ends]] = {
    "cells": _of_cells,
    "published": _of_published,
    "excess": _of_excess,
    "soft": _of_excess,
    "soft-total": _of_excess,
    "soft-count": _of_excess,
}


def _asked(
    values: Any,
    target: Target,
    mechanism: Mechanism | None,
    threshold: Any,
    cells: Any,
    upper: Any,
    width: float | None,
    by: Any,
    method: Method,
) -> _Asked:
    check_option(target, "target", TARGETS)
    near = check_option(method, "method", ("bound", "asymptotic")) == "asymptotic"
    if near and target in ("cells", "published"):
        raise InvalidParameterError(
            f"method must be 'bound' with target={target!r}, got 'asymptotic', which is for "
            "unbiased estimates of excesses"
        )
    listed = _listed(values, mechanism, threshold, cells, target)
    if upper is not None and target != "cells":
        raise InvalidParameterError(f"upper must be left out with target={target!r}")
    if width is not None and not target.startswith("soft"):
        raise InvalidParameterError(f"width must be left out with target={target!r}")
    x = listed.x
    most = np.inf if upper is None else x.setting(upper, "upper", ge=0, finite=False)
    return _Asked(
        listed=listed,
        groups=_grouped(x, by),
        weights=np.ones(len(x)),
        upper=np.broadcast_to(most, len(x)),
        width=None if width is None else check_scalar(width, "width", gt=0, le=1e100),
        target=target,
        method=method,
    )


def _weighted(asked: _Asked, weights: Any, name: str) -> _Asked:
    x = asked.listed.x
    if isinstance(weights, str):
        check_option(weights, name, ("mean", "slope"))
        return asked._replace(weights=_named_weights(asked, weights, name))
    c = checked_weights(weights, x.labels, len(x), name)
    if c.ndim != 1:
        raise InvalidParameterError(
            f"{name} must have one entry for each cell, got shape {c.shape}: give groups as by="
        )
    return asked._replace(weights=c)


def _named_weights(asked: _Asked, which: str, name: str) -> FloatArray:
    """Return weights of means and slopes, over all cells of the list or over the published ones.

    What holds given that the cells were published holds for weights that depend on which they are.
    """
    listed, sets, target = asked.listed, asked.groups, asked.target
    if not listed.given and (which == "slope" or target != "published"):
        raise InvalidParameterError(
            f"{name}={which!r} needs the whole list, and values holds published cells only: give "
            "the others as NaN, or the labels of all as cells=; where all were published, their "
            "number as cells="
        )
    used = listed.there if target == "published" else np.ones(len(listed.x), dtype=bool)
    one = used.astype(np.float64)
    number = sets.total(one)[sets.number]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(used, one / number, 0.0)
        if which == "mean":
            return mean
        order = np.argsort(sets.number, kind="stable")
        ordered = sets.number[order]
        day = np.empty(len(order))
        day[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        day -= sets.total(day * mean)[sets.number]
        square = sets.total(np.where(used, day**2, 0.0))[sets.number]
        return np.where(used & (square > 0), day / square, 0.0)


def _tail(alpha: float, alternative: Alternative, sets: int) -> float:
    """Error probability of an end of each of several intervals, which share no noise."""
    sides = _SIDES[alternative]
    if sides == 1 and alpha >= 0.5:
        raise InvalidParameterError(
            f"alpha must be less than 0.5 for one-sided intervals, got {alpha:g}"
        )
    return sidak(alpha, max(sets, 1)) / sides


def thresholded_sum_confint(
    values: Any,
    *,
    target: Target,
    mechanism: Mechanism | None = None,
    threshold: Any = None,
    cells: Any = None,
    weights: Any = None,
    by: Any = None,
    upper: Any = None,
    width: float | None = None,
    method: Method = "bound",
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for sums of counts of which some did not reach the threshold.

    Parameters
    ----------
    values : array of float, shape (K,), Series, DataFrame or Release
        The published values, NaN where a cell was not published. Each has a noise of its own.
    target : {"cells", "published", "excess", "soft", "soft-total", "soft-count"}
        What is summed; there is no default, as the answers differ. ``"cells"``: the counts f of a
        fixed list of cells, published or not, which was made without looking at what was published.
        ``"published"``: the counts of the cells that were published, which the noise chose.
        ``"excess"``, for geometric noise: max(f - threshold, 0) over all cells there are, none of
        which has to be listed. ``"soft"``: the same with a bend in the place of the corner.
        ``"soft-total"`` and ``"soft-count"``, for geometric and Laplace noise: the counts
        themselves, and the number of cells, from threshold + width on; those between in part.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise, Laplace, Geometric, Gaussian or DiscreteGaussian: one for all cells,
        or one for each. A release brings its own, and its thresholds.
    threshold : float, array or Series, optional
        Cells were published if their *noisy* value was at least this: one for all cells, or one for
        each; -inf for cells that are published always.
    cells : list of labels, or int, optional
        The labels of all cells, for values that hold published ones only; or the number of values,
        where every cell of the list was published.
    weights : array, Series or mapping, "mean" or "slope", optional
        Weights of the cells, for contrasts. ``"mean"`` is one over the number of cells of the
        group, ``"slope"`` the least-squares slope per step over its cells in their order, which
        are a step apart, such as days; both over the published ones for ``"published"``, and for
        the others over the whole list, which has to be given. By default 1 each.
    by : str, list of str, or array of shape (K,), optional
        Levels of the labels, or the group of each cell: one sum for each group.
    upper : float, array or Series, optional
        Numbers that the counts are known not to exceed, for ``"cells"``.
    width : float, optional
        The width w of the bend, for ``"soft"`` and its like under Laplace or geometric noise,
        chosen before looking at the values; by default the scale of the noise, and 4 scales for
        ``"soft-total"`` and ``"soft-count"``.
    method : {"bound", "asymptotic"}
        ``"bound"`` covers at every number of cells. ``"asymptotic"``, for excesses: normal
        quantiles, a quarter to a half as wide, for sums of many published cells; with fewer than
        ten they undercover, and with none they have no width.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    alternative : {"two-sided", "larger", "smaller"}
        Both ends, or one at the full ``alpha``, which is then below 1/2: ``"larger"`` has a lower
        end only, ``"smaller"`` an upper end only.
    simultaneous : bool, default False
        Whether all groups shall be covered together with probability 1 - ``alpha``.

    Returns
    -------
    Intervals
        One interval for each group, labelled by it. They cover the noise only. The method is
        ``"censored"`` or ``"tilted"``, which are bounds at every number of cells, or
        ``"asymptotic"``, normal intervals about unbiased estimates of excesses.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed; if a list of published cells only is given for
        ``"cells"``, or for excesses where noises, thresholds or sizes of weights differ within a
        sum, by which the tilts are chosen; if values were clamped or rounded.

    See Also
    --------
    dpinfer.count_confint : an interval for each published cell.
    dpinfer.linear_confint : sums of cells without a threshold.

    Notes
    -----
    Counts are at least 0, and whole under whole-numbered noise. With t the threshold and t' the
    largest value that is not published (t - 1 for whole numbers),

    *cells*: the upper end is Σ y over published cells, plus t' for each other one, plus the
    quantile q of the sum of **all** noises, as an unpublished f = y - e is at most t' - e. The
    lower end counts unpublished cells as 0, so that the error of a cell is D = e where f + e ≥ t
    and -f elsewhere. For every cut c, D ≤ max(e, -c) if f ≥ c, and D is stochastically at most
    e·1(e ≥ t - c) if f < c. So the error of the sum is stochastically at most a sum of k errors of
    the first kind and n - k of the second for some k, and the margin is the largest quantile over
    k, by exact convolutions (those of noise with a density are rounded upward, by 1 to 3 %). No
    margin below q serves, as counts far above t show; this one is q, or within a few per cent, for
    thresholds of 4 standard deviations or more, and grows where thresholds are low. With many
    different weights the convolutions are too many: then D ≤ e + δ in increasing convex order, with
    δ the largest mean of D, so that the mean of the worst α/2 of the sum of all noises, plus Σ δ,
    is a margin: 1.2 times q. The width does not shrink with more cells, as what is below the
    threshold is only bounded. The estimate is in the middle of what unpublished counts may be.
    Contrasts treat each end of each cell by the sign of its weight.

    *published*: given publication y - f is stochastically larger than the noise, so the upper end
    is Σ y plus the quantile of the sum of the noises of published cells. For the lower end
    S = Σ s(y), with s(y) = y - ℓ from a start on and -ε below it, where E exp(λ(s(Y) - f)) ≤ 1
    given publication for **every** f ≥ 0; by Markov's inequality S - log(2/α)/λ is a lower end. λ
    and the starts depend on the number and weights of published cells only. A cell of weight c < 0
    has s(y) = y + log M(a)/a with a = λ·abs(c), M the moments of the noise, so that contrasts take
    one λ for both parts. Near the threshold counts cannot be told from 0: under Laplace and
    geometric noise what is published of f ≤ t has the same law for all f.

    *excess*, *soft*: with r = 0 up to t, r(y) - (v/2)(r(y-1) - 2r(y) + r(y+1)) is unbiased for r(f)
    under geometric noise of variance v, and 0 where nothing is published; r(y) - (v/2)r''(y) is so
    under Laplace noise. The bend is r = z(z+1)/(2w), or z²/(2w), for z = f - t up to w, and
    z - (w-1)/2, or z - w/2, from there. Under Gaussian noise, y - t is unbiased for E(f + e - t)₊ =
    σ(zΦ(z) + φ(z)), z = (f-t)/σ, an excess that is up to 0.4σ softer than the corner.
    What makes r unbiased makes u = exp(κr) - 1 so, which is 0 up to t too. So a published cell has
    a factor of mean exp(κ·r(f)), an unpublished one the factor 1, and the product of all is
    exp(κ·R) in the mean, R the sum over all cells: by Markov's inequality on its mean over ten κ,
    each half of the one before, the first of which keeps factors positive, R is bounded from below,
    and with -κ from above. For lower ends large κ have a wider bend, which is below r. Under
    Gaussian noise the factor is exp(κ(y - t) - b·abs(κ)), with the least b for which its mean is
    at most exp(κ·E(f + e - t)₊), on a grid of f - t.
    Asymptotic intervals take the squares less those of r, treated alike, as variance, and under
    Gaussian noise σ² for each published cell, which is as much or more in the mean.
    The soft count is r = 3u² - 2u³ with u = z/w between 0 and 1, and the soft total f times that.
    Under Gaussian noise the mean of what is published is analytic in f, so that no such r, 0 up to
    t, has an unbiased estimate.

    References
    ----------
    Howard, S. R., Ramdas, A., McAuliffe, J. and Sekhon, J. (2020). Time-uniform Chernoff bounds
    via nonnegative supermartingales. doi:10.1214/18-PS321.
    Rockafellar, R. T. and Uryasev, S. (2000). Optimization of conditional value-at-risk.
    doi:10.21314/JOR.2000.038.
    Shaked, M. and Shanthikumar, J. G. (2007). Stochastic Orders. doi:10.1007/978-0-387-34675-5.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpinfer import DiscreteGaussian
    >>> days = pd.MultiIndex.from_product([["DE", "FR"], range(3)], names=["country", "day"])
    >>> views = pd.Series([412, 390, None, 133, None, 101], index=days)
    >>> law = {"mechanism": DiscreteGaussian(sigma=18.23), "threshold": 90}
    >>> weeks = thresholded_sum_confint(views, target="cells", by="country", **law)
    >>> weeks.lower.tolist(), weeks.upper.tolist()
    ([740.0, 172.0], [953.0, 385.0])
    >>> thresholded_sum_confint(views, target="published", by="country", **law).upper.tolist()
    [853.0, 285.0]
    >>> thresholded_sum_confint(views, target="cells", weights=[-1, 1, 0, 0, 0, 0], **law)
    Intervals([-73, 29], level 0.95, censored)
    """
    alpha = check_alpha(alpha)
    asked = _asked(values, target, mechanism, threshold, cells, upper, width, by, method)
    if weights is not None:
        asked = _weighted(asked, weights, "weights")
    side = check_option(alternative, "alternative", ALTERNATIVES)
    together = check_flag(simultaneous, "simultaneous")
    q = _tail(alpha, side, asked.groups.size if together else 1)
    return _intervals(asked, _OF_TARGET[target](asked, q), alpha, side, together)


def _intervals(
    asked: _Asked, ends: _Ends, alpha: float, alternative: Alternative, together: bool
) -> Intervals:
    single = asked.groups.labels is None
    estimate, lower, upper = (part[0] if single else part for part in ends[:3])
    return Intervals(
        estimate=estimate,
        lower=np.full_like(lower, -np.inf) if alternative == "smaller" else lower,
        upper=np.full_like(upper, np.inf) if alternative == "larger" else upper,
        alpha=alpha,
        method=ends.method,
        uncertainty="noise",
        simultaneous=together,
        labels=asked.groups.labels,
        notes=ends.notes,
        assurance=ends.assurance,
    )


def thresholded_ratio_confint(
    values: Any,
    numerator: Any,
    denominator: Any,
    *,
    target: Target,
    mechanism: Mechanism | None = None,
    threshold: Any = None,
    cells: Any = None,
    by: Any = None,
    upper: Any = None,
    width: float | None = None,
    method: Method = "bound",
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for ratios of sums of counts of which some did not reach the threshold.

    Parameters
    ----------
    values : array of float, shape (K,), Series, DataFrame or Release
        The published values, NaN where a cell was not published.
    numerator, denominator : array of float of shape (K,), Series or mapping
        The weights of the cells in either sum, at least 0.
    target, mechanism, threshold, cells, by, upper, width, method
        As for :func:`thresholded_sum_confint`.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    alternative : {"two-sided", "larger", "smaller"}
        Both ends, or one at the full ``alpha``, which is then below 1/2: ``"larger"`` has a lower
        end only, ``"smaller"`` an upper end only.
    simultaneous : bool, default False
        Whether all groups shall be covered together with probability 1 - ``alpha``.

    Returns
    -------
    Intervals
        One interval for each group, from L₁/U₂ to U₁/L₂, by intervals for both sums at the level
        1 - α/2, which hold together with probability 1 - α whether they share cells or not. The
        upper end is infinite where the denominator may be 0, and the notes say of how many.

    Raises
    ------
    InvalidParameterError
        As of :func:`thresholded_sum_confint`, or if a weight is negative.

    See Also
    --------
    dpinfer.linear_ratio_confint : ratios of sums of cells without a threshold.

    Notes
    -----
    Where one day of a comparison was not published, the answer has one side: its sum is bounded
    from above only.

    Examples
    --------
    >>> from dpinfer import DiscreteGaussian
    >>> views = [412, 390, 301, 133, None, 101]
    >>> law = {"mechanism": DiscreteGaussian(sigma=18.23), "threshold": 90}
    >>> found = thresholded_ratio_confint(
    ...     views, [0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0], target="cells", **law
    ... )
    >>> found.lower.round(3), found.upper.round(3)
    (np.float64(0.139), np.float64(0.382))
    """
    alpha = check_alpha(alpha)
    asked = _asked(values, target, mechanism, threshold, cells, upper, width, by, method)
    side = check_option(alternative, "alternative", ALTERNATIVES)
    together = check_flag(simultaneous, "simultaneous")
    q = _tail(alpha, side, asked.groups.size if together else 1) / 2
    found = []
    for weights, name in ((numerator, "numerator"), (denominator, "denominator")):
        part = _weighted(asked, weights, name)
        if (part.weights < 0).any():
            raise InvalidParameterError(
                f"{name} must have weights of at least 0, got a negative one"
            )
        found.append(_OF_TARGET[target](part, q))
    top, bottom = found
    low, most = np.maximum(top.lower, 0.0), np.maximum(top.upper, 0.0)
    least, high = np.maximum(bottom.lower, 0.0), np.maximum(bottom.upper, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lower = np.where(high > 0, low / high, 0.0)
        ends = np.where(least > 0, most / least, np.inf)
        ratio = np.where(top.estimate == 0, 0.0, top.estimate / bottom.estimate)
    endless = int(np.count_nonzero(np.isinf(ends)))
    notes = tuple(dict.fromkeys((*top.notes, *bottom.notes)))
    if endless:
        notes = (*notes, f"{endless} ratios have no upper end: denominators may be 0")
    ends_of = top._replace(estimate=ratio, lower=lower, upper=ends, notes=notes)
    return _intervals(asked, ends_of, alpha, side, together)
