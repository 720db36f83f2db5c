"""Sums and ratios of cells that are published only where the noisy value reaches a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    FloatArray,
    as_values,
    check_alpha,
    check_array,
    check_length,
    check_option,
    check_scalar,
    show,
)
from dpinfer._numerics.lattice import alike
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals._thresholded import Cells, counting, margin
from dpinfer.mechanisms.independent import Mechanism, groups, integer_cells
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.releases.coerce import missing_cells, noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import stack_labels

Target = Literal["cells", "published", "excess", "soft"]
TARGETS: tuple[Target, ...] = ("cells", "published", "excess", "soft")

_LAWS = (Laplace, Geometric, Gaussian, DiscreteGaussian)

_FEW = 10
"""Sums over fewer published cells are not close to normal."""


# What published values alone estimate without bias, whatever was not published.


class _Scores(NamedTuple):
    """Contributions of published values to an estimate, and to that of its variance."""

    value: FloatArray
    variance: FloatArray


def _memoryless(law: ParametricLaw, y: FloatArray, first: FloatArray, width: FloatArray) -> _Scores:
    """Apply r - (v/2)·(second difference or derivative of r) to a ramp r from the threshold on."""
    z = y - first
    if isinstance(law, Geometric):
        half = 0.5 * np.asarray(law.variance)

        def undo(r: Callable[[FloatArray], FloatArray]) -> FloatArray:
            return np.asarray(r(z) - half * (r(z - 1.0) - 2.0 * r(z) + r(z + 1.0)))

        value = undo(lambda x: _ramp(x, width, 1.0))
        return _Scores(value, value**2 - undo(lambda x: _ramp(x, width, 1.0) ** 2))
    half = 0.5 * np.asarray(law.variance)
    r, slope = _ramp(z, width, 0.0), np.clip(z / width, 0.0, 1.0)
    bend = np.where((z > 0) & (z < width), 1.0 / width, 0.0)
    value = r - half * bend
    return _Scores(value, value**2 - r**2 + 2.0 * half * (slope**2 + r * bend))


def _ramp(z: FloatArray, width: FloatArray, unit: float) -> FloatArray:
    """0 up to 0, z - (width - unit)/2 from ``width`` on; z(z + unit)/(2·width) between."""
    inside = np.clip(z, 0.0, width)
    bent = inside * (inside + unit) / (2.0 * width)
    return np.where(z < width, bent, z - 0.5 * (width - unit))


def _normal(law: ParametricLaw, y: FloatArray, first: FloatArray) -> _Scores:
    """Take y - t: its mean has a slope in y of 1 where published, so a variance of v·P at most."""
    return _Scores(y - first, np.broadcast_to(np.asarray(law.variance), y.shape))


# What is given: a list of cells, some of them unpublished, in groups.


class _List(NamedTuple):
    """Cells of a list, with a value that is not used where they are not published."""

    x: NoisyValues
    there: NDArray[np.bool_]
    first: FloatArray
    """The smallest value that is published."""
    last: FloatArray
    """The largest that is not."""


def _listed(
    values: Any, mechanism: Mechanism | None, threshold: Any, cells: Any, target: Target
) -> _List:
    import pandas as pd

    if hasattr(values, "__noisy__"):
        x = noisy(values, mechanism=mechanism, threshold=threshold)
        if cells is None:
            return _checked(x, np.ones(len(x), dtype=bool), target, given=False)
        bound = -np.inf if x.rule is None else x.rule.threshold
        if x.weights is not None or x.noises.law.shape or np.ndim(bound):
            raise InvalidParameterError(
                "cells must be left out for a release whose laws or thresholds differ by value: "
                "give a Series of all cells, NaN where unpublished, with mechanism= and threshold="
            )
        values, mechanism, threshold = pd.Series(x.values, x.labels), x.noises.law, bound
    table = as_values(values)
    if hasattr(table, "columns"):
        table = pd.Series(table.to_numpy().ravel(), stack_labels(table))
    if cells is not None:
        table = _reindexed(table, cells)
    held, lost = missing_cells(table)
    complete = isinstance(table, np.ma.MaskedArray) or not lost.any()
    if complete:
        x = noisy(table, mechanism=mechanism, threshold=threshold)
        return _checked(x, np.ones(len(x), dtype=bool), target, given=cells is not None)
    array = check_array(np.where(lost, 0.0, held), "values")
    bounds = np.full(1, -np.inf) if threshold is None else _plain(threshold)
    if bounds.size not in (1, array.size):
        raise InvalidParameterError(
            f"threshold must be a number or have one entry for each of the {array.size} cells, got "
            f"{bounds.size}"
        )
    bounds = np.broadcast_to(bounds.ravel(), array.size)
    if (bounds[lost] == -np.inf).any():
        raise InvalidParameterError(
            "threshold must be given for every cell that is NaN, the value that it did not reach"
        )
    fill = np.ceil(bounds)
    if lost.all() and not isinstance(mechanism, Mapping):  # no warning of rounding
        fill = np.where(_whole(mechanism, array.size), fill, fill + 0.5)
    array = np.where(lost, fill, array)
    given = pd.Series(array, table.index) if hasattr(table, "iloc") else array
    x = noisy(given, mechanism=mechanism, threshold=threshold)
    return _checked(x, ~lost, target, given=True)


def _plain(threshold: Any) -> FloatArray:
    table = as_values(threshold, "threshold")
    return check_array(table, "threshold", finite=False).ravel()


def _whole(mechanism: Any, size: int) -> Any:
    from dpinfer.mechanisms.independent import as_noise

    return integer_cells(as_noise(mechanism, size, selected=True), size)


def _reindexed(table: Any, cells: Any) -> Any:
    import pandas as pd

    if isinstance(cells, (int, np.integer)) and not isinstance(cells, bool):
        size = missing_cells(table)[0].size
        if cells != size:
            raise InvalidParameterError(
                f"cells must be the number of values, published and NaN, {size}, or the labels of "
                f"all cells, got {show(cells)}"
            )
        return table
    if not hasattr(table, "reindex") or not np.ndim(cells):
        raise InvalidParameterError(
            "cells must be the labels of all cells, for values with labels, or the number of "
            f"values where none is missing, got {show(cells)}"
        )
    index = cells if isinstance(cells, pd.Index) else pd.Index(list(cells), name=table.index.name)
    if not index.is_unique or not table.index.is_unique or not table.index.isin(index).all():
        raise InvalidParameterError(
            "cells must hold each label once, and those of all values: the list was made without "
            "looking at what was published"
        )
    return table.reindex(index)


def _checked(x: NoisyValues, there: NDArray[np.bool_], target: Target, *, given: bool) -> _List:
    rule = x.rule
    if rule is None or not np.isfinite(rule.threshold).any():
        raise InvalidParameterError(
            "threshold must be given, or carried by a release, for at least one cell: for values "
            "without one use linear_confint or linear_ratio_confint"
        )
    if (
        x.weights is not None
        or rule.after
        or np.greater(rule.before, 1).any()
        or (np.isfinite(rule.lowest) | np.isfinite(rule.highest)).any()
    ):
        raise InvalidParameterError(
            "values must be counts with a noise and a threshold only, got values that were "
            "clamped, rounded, or are about rounded counts"
        )
    if target == "cells" and not given:
        raise InvalidParameterError(
            "target='cells' needs the whole list, and values holds published cells only: which "
            "cells were not published? Give them as NaN, or the labels of all as cells=; or ask "
            "for target='published', or 'soft', which need no list"
        )
    for law, _ in groups(x._own_law(), len(x)):
        if not isinstance(law, _LAWS):
            raise InvalidParameterError(
                "mechanism must be Laplace, Geometric, Gaussian or DiscreteGaussian noise for "
                f"sums of values with a threshold, got {law!r}"
            )
    whole = integer_cells(x._own_law(), len(x))
    bound = np.broadcast_to(rule.threshold, len(x))
    first = np.where(whole, np.ceil(bound), bound)
    return _List(x, there, first, np.where(whole, first - 1.0, first))


def _totals(group: NDArray[np.intp], part: FloatArray, size: int) -> FloatArray:
    return np.bincount(group, part, size).astype(np.float64)


class _Groups(NamedTuple):
    number: NDArray[np.intp]
    size: int
    labels: Any

    def total(self, part: FloatArray) -> FloatArray:
        return _totals(self.number, part, self.size)


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


def _kinds_of(listed: _List, *columns: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    law = listed.x._own_law()
    own = [] if law.shape == () else [listed.x._kinds().astype(np.float64)]
    return alike([listed.first, *own, *columns])


def _law_at(listed: _List, at: int) -> ParametricLaw:
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


class _Asked(NamedTuple):
    """Sums of cells with weights, in groups."""

    listed: _List
    groups: _Groups
    weights: FloatArray
    upper: FloatArray
    width: float | None
    target: Target


def _of_cells(asked: _Asked, alpha: float) -> _Ends:
    low = _censored_end(asked, asked.weights, alpha / 2)
    high = -_censored_end(asked, -asked.weights, alpha / 2)
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


def _of_published(asked: _Asked, alpha: float) -> _Ends:
    if ((asked.weights != 1.0) & (asked.weights != 0.0)).any():
        raise InvalidParameterError(
            "weights must be 0 or 1 with target='published', which is a sum whose cells the noise "
            "chose: contrasts and means are for target='cells', contrasts for 'soft' too"
        )
    listed, q = asked.listed, alpha / 2
    used = np.flatnonzero(listed.there & (asked.weights > 0))
    y, group = listed.x.values[used], asked.groups.number[used]
    first, kind = _kinds_of(listed)
    combined = _combinations(group, kind[used], asked.groups.size)
    known = [Cells(_law_at(listed, int(at)), float(listed.first[at]), 1.0, 1) for at in first]
    reach, room = np.zeros(len(combined.kinds)), np.zeros(len(combined.kinds))
    fee = np.zeros(len(combined.kinds))
    start, loss = (np.zeros((len(combined.kinds), len(first))) for _ in range(2))
    for at, own in enumerate(combined.kinds):
        if not own:
            continue
        kinds = tuple(known[number]._replace(number=count) for number, count in own)
        found = counting(kinds, q)
        fee[at], room[at] = found.fee, found.margin
        numbers = [number for number, _ in own]
        start[at, numbers], loss[at, numbers] = found.start, found.loss
        reach[at] = margin(tuple(one._replace(first=-np.inf) for one in kinds), q)
    which = combined.which[group]
    far = y >= start[which, kind[used]]
    score = np.where(far, y - loss[which, kind[used]], -fee[which])
    total = _totals(group, y, asked.groups.size)
    low = _totals(group, score, asked.groups.size) - room[combined.which]
    near = int(np.count_nonzero(~far))
    notes = (
        "the sum is over the cells that the noise let pass: another release has others",
        f"{near} of {used.size} published cells are so near the threshold that they add nothing "
        "to the lower ends",
        "estimates are plain sums, too large where counts are near the threshold",
    )
    high = total + reach[combined.which]
    return _Ends(total, np.minimum(np.maximum(low, 0.0), high), high, "tilted", notes)


def _of_excess(asked: _Asked, alpha: float) -> _Ends:
    listed, hard = asked.listed, asked.target == "excess"
    x = listed.x
    value, variance = np.zeros(len(x)), np.zeros(len(x))
    for law, cells in groups(x._own_law(), len(x)):
        if hard and not isinstance(law, Geometric):
            raise InvalidParameterError(
                f"target='excess' is for Geometric noise, got {type(law).__name__}: no estimate "
                "from published values is unbiased for it; ask for target='soft'"
            )
        rows = cells[listed.there[cells] & np.isfinite(listed.first[cells])]
        if rows.size < np.count_nonzero(listed.there[cells]):
            raise InvalidParameterError(
                f"threshold must be finite for every cell with target={asked.target!r}"
            )
        own = cast("ParametricLaw", law.take(np.searchsorted(cells, rows)) if law.shape else law)
        if isinstance(law, (Gaussian, DiscreteGaussian)):
            if asked.width is not None:
                raise InvalidParameterError(
                    "width must be left out for Gaussian noise, which has a soft excess of its own"
                )
            found = _normal(own, x.values[rows], listed.first[rows])
        else:
            width = np.asarray(cast("Laplace | Geometric", own).scale)
            width = np.maximum(np.rint(width), 1.0) if law.is_integer else width
            if hard or asked.width is not None:
                width = np.asarray(1.0 if hard else asked.width)
            if law.is_integer and (width != np.rint(width)).any():
                raise InvalidParameterError(
                    f"width must be a whole number for Geometric noise, got {width:g}"
                )
            found = _memoryless(own, x.values[rows], listed.first[rows], width)
        value[rows], variance[rows] = found
    total = asked.groups.total(asked.weights * value)
    std = np.sqrt(np.maximum(asked.groups.total(asked.weights**2 * variance), 0.0))
    half = -special.ndtri(alpha / 2) * std
    published = asked.groups.total((listed.there & (asked.weights != 0)).astype(np.float64))
    few = int(np.count_nonzero(published < _FEW))
    notes: tuple[str, ...] = ("normal quantiles",)
    if few:
        notes = (*notes, f"{few} sums are of fewer than {_FEW} published cells, too few for them")
    return _Ends(total, total - half, total + half, "asymptotic", notes)


_OF_TARGET: dict[Target, Callable[[_Asked, float], _Ends]] = {
    "cells": _of_cells,
    "published": _of_published,
    "excess": _of_excess,
    "soft": _of_excess,
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
) -> _Asked:
    check_option(target, "target", TARGETS)
    listed = _listed(values, mechanism, threshold, cells, target)
    if upper is not None and target != "cells":
        raise InvalidParameterError(f"upper must be left out with target={target!r}")
    if width is not None and target != "soft":
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
    )


def _weighted(asked: _Asked, weights: Any, name: str) -> _Asked:
    x = asked.listed.x
    if isinstance(weights, str) and weights == "mean" and asked.target == "cells":
        sizes = np.bincount(asked.groups.number, minlength=asked.groups.size)
        return asked._replace(weights=1.0 / sizes[asked.groups.number])
    if isinstance(weights, str):
        raise InvalidParameterError(
            f"{name} must be numbers, or 'mean' with target='cells', got {weights!r} with "
            f"target={asked.target!r}"
        )
    c = checked_weights(weights, x.labels, len(x), name)
    if c.ndim != 1:
        raise InvalidParameterError(
            f"{name} must have one entry for each cell, got shape {c.shape}: give groups as by="
        )
    return asked._replace(weights=c)


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
    alpha: float = 0.05,
) -> Intervals:
    """Confidence intervals for sums of counts of which some did not reach the threshold.

    Parameters
    ----------
    values : array of float, shape (K,), Series, DataFrame or Release
        The published values, NaN where a cell was not published. Each has a noise of its own.
    target : {"cells", "published", "excess", "soft"}
        What is summed; there is no default, as the answers differ. ``"cells"``: the counts f of a
        fixed list of cells, published or not, which was made without looking at what was published.
        ``"published"``: the counts of the cells that were published, which the noise chose.
        ``"excess"``, for geometric noise: max(f - threshold, 0) over all cells there are, none of
        which has to be listed. ``"soft"``: the same with a bend in the place of the corner.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise, Laplace, Geometric, Gaussian or DiscreteGaussian: one for all cells,
        or one for each. A release brings its own, and its thresholds.
    threshold : float, array or Series, optional
        Cells were published if their *noisy* value was at least this: one for all cells, or one for
        each; -inf for cells that are published always.
    cells : list of labels, or int, optional
        The labels of all cells, for values that hold published ones only; or the number of values,
        where every cell of the list was published.
    weights : array, Series or mapping, or "mean", optional
        Weights of the cells: contrasts and trends. ``"mean"`` is one over the number of cells of
        the group. By default 1 each.
    by : str, list of str, or array of shape (K,), optional
        Levels of the labels, or the group of each cell: one sum for each group.
    upper : float, array or Series, optional
        Numbers that the counts are known not to exceed, for ``"cells"``.
    width : float, optional
        The width w of the bend, for ``"soft"`` under Laplace or geometric noise, chosen before
        looking at the values; by default the scale of the noise.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).

    Returns
    -------
    Intervals
        One interval for each group, labelled by it. They cover the noise only. The method is
        ``"censored"`` or ``"tilted"``, which are proved bounds at every number of cells, or
        ``"asymptotic"``, normal intervals about unbiased estimates of excesses.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed; if a list of published cells only is given for
        ``"cells"``; if values were clamped or rounded.

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
    and the starts depend on the number of published cells only. Near the threshold counts cannot
    be told from 0: under Laplace and geometric noise what is published of f ≤ t has the same law
    for all f.

    *excess*, *soft*: with r = 0 up to t, r(y) - (v/2)(r(y-1) - 2r(y) + r(y+1)) is unbiased for r(f)
    under geometric noise of variance v, and 0 where nothing is published; r(y) - (v/2)r''(y) is so
    under Laplace noise. The bend is r = z(z+1)/(2w), or z²/(2w), for z = f - t up to w, and
    z - (w-1)/2, or z - w/2, from there. The squares less those of r, treated alike, estimate the
    variance. Under Gaussian noise of standard deviation σ, y - t is unbiased for
    σ(zΦ(z) + φ(z)), z = (f-t)/σ, an excess that is up to 0.4σ softer than the corner, with a
    variance of at most σ² times the probability of publication.

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
    asked = _asked(values, target, mechanism, threshold, cells, upper, width, by)
    if weights is not None:
        asked = _weighted(asked, weights, "weights")
    return _intervals(asked, _OF_TARGET[target](asked, alpha), alpha)


def _intervals(asked: _Asked, ends: _Ends, alpha: float) -> Intervals:
    single = asked.groups.labels is None
    estimate, lower, upper = (part[0] if single else part for part in ends[:3])
    return Intervals(
        estimate=estimate,
        lower=lower,
        upper=upper,
        alpha=alpha,
        method=ends.method,
        uncertainty="noise",
        labels=asked.groups.labels,
        notes=ends.notes,
        assurance=None if ends.method == "asymptotic" else "bound",
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
    alpha: float = 0.05,
) -> Intervals:
    """Confidence intervals for ratios of sums of counts of which some did not reach the threshold.

    Parameters
    ----------
    values : array of float, shape (K,), Series, DataFrame or Release
        The published values, NaN where a cell was not published.
    numerator, denominator : array of float of shape (K,), Series or mapping
        The weights of the cells in either sum, at least 0; 0 or 1 for ``target="published"``.
    target, mechanism, threshold, cells, by, upper, width
        As for :func:`thresholded_sum_confint`.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).

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
    asked = _asked(values, target, mechanism, threshold, cells, upper, width, by)
    found = []
    for weights, name in ((numerator, "numerator"), (denominator, "denominator")):
        part = _weighted(asked, weights, name)
        if (part.weights < 0).any():
            raise InvalidParameterError(
                f"{name} must have weights of at least 0, got a negative one"
            )
        found.append(_OF_TARGET[target](part, alpha / 2))
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
    return _intervals(asked, _Ends(ratio, lower, ends, top.method, notes), alpha)
