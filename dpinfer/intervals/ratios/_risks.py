"""Risks of the two groups of noisy 2 × 2 tables, and what the noise leaves possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_array, check_integer_array
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.intervals.ratios._arcs import RATIO, Arcs
from dpinfer.intervals.ratios._fieller import Ends, Standardised, one_exact
from dpinfer.intervals.ratios._general import ends_of_one, weighted_tail
from dpinfer.intervals.ratios._lattice import LatticePolygon, lattice_polygon
from dpinfer.intervals.ratios._sets import MOST_ROWS, continuous_bound, with_density
from dpinfer.intervals.ratios._support import (
    ChordSupport,
    SmoothSupport,
    chord_support,
    smooth_support,
)
from dpinfer.intervals.ratios._two_binomials import Sample, Transform, lower_limit
from dpinfer.intervals.ratios.linear_ratio import linear_ratio_confint
from dpinfer.intervals.ratios.ratio import as_sets, ratio_confint, share_confint
from dpinfer.mechanisms import Gaussian, NoiseLaw, groups
from dpinfer.mechanisms._fast_sum import fast_sum
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums

ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of an end, relative to its terms."""

FEW_TOTALS = 32
"""From more different row totals on, quantiles come from a table of all directions if it holds."""

SLACK = 0.05
"""Largest share of slack in a standard deviation with which a table takes the place of the law."""

MOST_TABLES = 500
"""Tables for which exact limits with sampling take at most a minute or so."""

SIZES_MISSED = 0.02
"""Share of the error probability of a limit that is left to limits of unknown row totals."""

MOST_LINEAR = 60
"""Tables for which sets of ratios of linear functions take at most a minute or so."""

NARROW = 20.0
"""Sums of whole-numbered noise of a larger standard deviation have no polygon."""


@dataclass(frozen=True)
class Risks:
    """Risks of two groups, shape (m, 2), with their variances.

    Parameters
    ----------
    estimate : array of float
        The estimated risks; they may lie outside [0, 1].
    noise, sampling : array of float
        Variances due to the noise, and due to sampling as a binomial proportion.
    """

    estimate: FloatArray
    noise: FloatArray
    sampling: FloatArray


@dataclass(frozen=True, eq=False)
class NoisyTotals:
    """Totals of the rows with noise of their own, shape (m, 2), and what estimates with them.

    Parameters
    ----------
    values : array of float
        The published totals.
    laws : list of list of NoiseLaw
        For each row the laws of its two cells and of its total.
    alone : bool
        Whether the second column of the tables is not published.
    """

    values: FloatArray
    laws: list[list[NoiseLaw]]
    alone: bool

    def weights(self, row: int) -> FloatArray:
        """Weights of both cells and the total in the estimates of the events and of the size."""
        if self.alone:
            return np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        variance = np.array([float(law.variance) for law in self.laws[row]])
        # least squares: each takes its share of the excess of the total over the sum
        share = variance / (variance.sum() or 1.0)
        excess = np.array([-1.0, -1.0, 1.0])
        own = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
        return np.asarray(own + np.outer([share[0], share[0] + share[1]], excess))

    def risks(self, counts: FloatArray) -> Risks:
        """Return the estimated risks."""
        values = np.concatenate([counts, self.values[..., np.newaxis]], axis=2)
        weights = np.array([self.weights(row) for row in (0, 1)])
        variance = np.array([[float(law.variance) for law in laws] for laws in self.laws])
        events, size = np.einsum("kfj,mkj->fmk", weights, values)
        safe = np.where(size > 0, size, 1.0)
        risk = np.where(size > 0, events / safe, 0.0)
        error = weights[:, 0] - risk[..., np.newaxis] * weights[:, 1]
        noise = (error**2 * variance).sum(axis=2) / safe**2
        inside = np.clip(risk, 0.0, 1.0)
        return Risks(risk, noise, inside * (1.0 - inside) / safe)

    def sets(self, counts: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return ends of the risks of both rows, (m, 2); inf and -inf where empty."""
        if not self.alone and len(counts) > MOST_LINEAR:
            raise InvalidParameterError(
                f"table must hold at most {MOST_LINEAR} tables for method='exact' with "
                f"row_totals_mechanism, which takes up to a second for each, got {len(counts)}: "
                "pass the first column alone, fewer tables at a time, or use method='normal'"
            )
        low, high = np.empty(self.values.shape), np.empty(self.values.shape)
        for row, laws in enumerate(self.laws):
            if self.alone:
                low[:, row], high[:, row] = ratio_confint(
                    counts[:, row, 0],
                    self.values[:, row],
                    mechanism=(laws[0], laws[2]),
                    alpha=alpha,
                ).restrict(lower=0.0, upper=1.0)
                continue
            events, size = self.weights(row)
            for number, cells in enumerate(counts[:, row]):
                values = [*cells, self.values[number, row]]
                low[number, row], high[number, row] = linear_ratio_confint(
                    values, events, size, mechanism=laws, alpha=alpha
                ).restrict(lower=0.0, upper=1.0)
        return low, high


def _weights(law: NoiseLaw) -> FloatArray:
    """Return the weight of the first cell in the estimate of a row's count, by known total.

    a and n - b estimate the same: they are weighted by the inverse of their variances, or nearly
    so where the noise takes whole numbers only.
    """
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), 4).reshape(2, 2)
    total = variance.sum(axis=1)
    best = np.where(total > 0, variance[:, 1] / np.where(total > 0, total, 1.0), 1.0)
    if not _all_whole(law):
        return np.asarray(best)
    # whole-numbered noise stays on a lattice: the best of one cell, both, or the other
    choices = np.array([0.5, 1.0, 0.0])
    squared = choices**2 * variance[:, :1] + (1.0 - choices) ** 2 * variance[:, 1:]
    return np.asarray(choices[np.argmin(squared, axis=1)])


def _all_whole(law: NoiseLaw) -> bool:
    return all(one.is_integer for one, _ in groups(law, 4))


def estimated_risks(counts: FloatArray, law: NoiseLaw, totals: FloatArray | None) -> Risks:
    """Return the estimated risks."""
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), 4).reshape(2, 2)
    events, others = counts[..., 0], counts[..., 1]
    if totals is not None:
        weight = _weights(law)
        size = totals
        risk = (weight * events + (1.0 - weight) * (totals - others)) / totals
        noise = (weight**2 * variance[:, 0] + (1.0 - weight) ** 2 * variance[:, 1]) / totals**2
    else:
        size = events + others
        safe = np.where(size > 0, size, 1.0)
        # a risk outside (0, 1) marks rows of which nothing can be said
        risk = np.where(size > 0, events / safe, 0.0)
        noise = ((1.0 - risk) ** 2 * variance[:, 0] + risk**2 * variance[:, 1]) / safe**2
    inside = np.clip(risk, 0.0, 1.0)
    return Risks(risk, noise, inside * (1.0 - inside) / np.where(size > 0, size, 1.0))


def exact_risks(
    counts: FloatArray, law: NoiseLaw, totals: FloatArray | None, risks: Risks, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends of the risks of both rows, (m, 2); inf and -inf where empty."""
    low, high = np.empty(risks.estimate.shape), np.empty(risks.estimate.shape)
    if totals is not None:
        weight = _weights(law)
        cells = np.zeros((2, 4))
        cells[0, :2], cells[1, 2:] = np.column_stack([weight, 1.0 - weight])
        reach = np.array([float(one.isf(alpha / 2)) for one in weighted_sums(cells, law)])
        # rounding must not take away an end that is attained
        half = reach / totals + ROUNDING * (np.abs(risks.estimate) + reach / totals)
        low = np.maximum(risks.estimate - half, 0.0)
        high = np.minimum(risks.estimate + half, 1.0)
        return np.where(low > high, np.inf, low), np.where(low > high, -np.inf, high)
    for row in range(2):
        laws = [law.take(2 * row + cell) if law.shape else law for cell in range(2)]
        sets = share_confint(
            counts[:, row, 0], counts[:, row, 1], mechanism=(laws[0], laws[1]), alpha=alpha
        ).restrict(lower=0.0, upper=1.0)
        low[:, row], high[:, row] = sets
    return low, high


def difference_reach(law: NoiseLaw, totals: FloatArray, tail: float) -> FloatArray:
    """Upper quantiles of the error of the difference of two risks with public row totals."""
    cells = _row_weights(law)
    pairs, which = np.unique(totals, axis=0, return_inverse=True)
    u = 1.0 / pairs
    if len(pairs) > FEW_TOTALS and (reach := _reach_of_many(law, cells, u, tail)) is not None:
        return reach[which.ravel()]
    _check_rows(len(pairs))
    # in units of the larger weight, so that no square leaves the range of floats
    unit = u.max(axis=1)
    sums = weighted_sums((u / unit[:, np.newaxis]) @ (cells * [[1.0], [-1.0]]), law)
    quantiles = {one: float(one.isf(tail)) for one in dict.fromkeys(sums)}
    return np.asarray((np.array([quantiles[one] for one in sums]) * unit)[which.ravel()])


def _reach_of_many(
    law: NoiseLaw, cells: FloatArray, u: FloatArray, tail: float
) -> FloatArray | None:
    """Quantiles of u₁·E₁ - u₂·E₂ from one table for all u, if there is one that is exact enough."""
    scale = np.sqrt(np.square(cells) @ np.broadcast_to(np.asarray(law.variance), 4))
    if not scale.all():
        return None
    if (found := _polygon(law, cells, scale, tail)) is not None:
        polygon, unit = found
        return polygon.reach(u / unit)
    if (smooth := _smooth(law, cells, tail)) is None:
        return None
    support, scale, slack = smooth
    if (slack > SLACK * scale).any():
        return None
    x, y = (u * scale).T
    return np.asarray(np.hypot(x, y) * support(np.arctan2(y, x)) + u @ slack)


def ratio_ends(
    risks: Risks, law: NoiseLaw, totals: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return ends of the ratio of two risks with public row totals; inf and -inf where empty.

    The estimates f of the counts have the errors E, and f₁ - r·f₂ has the law of E₁ - r·E₂ for the
    ratio r of the counts: Fieller's idea.
    """
    points = risks.estimate * totals
    arcs = Arcs.empty(points)
    arcs.fill(np.arange(len(points)), *_count_arcs(points, law, alpha / 2.0))
    sets = as_sets(arcs, RATIO, (len(points),), alpha, "exact", False, None).restrict(lower=0.0)
    lower, upper = sets
    with np.errstate(over="ignore"):
        return lower * (totals[:, 1] / totals[:, 0]), upper * (totals[:, 1] / totals[:, 0])


def _count_arcs(points: FloatArray, law: NoiseLaw, tail: float) -> Ends:
    """Return the directions (f₁, f₂) that the laws of the errors accept."""
    cells = _row_weights(law)
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), 4)
    scale = np.sqrt(np.square(cells) @ variance)
    if not scale.all():
        laws = weighted_sums(cells, law)
        reach = [float(one.isf(tail)) if s else 0.0 for one, s in zip(laws, scale, strict=True)]
        return one_exact(points, np.broadcast_to(np.array(reach), points.shape))
    if (found := _polygon(law, cells, scale, tail)) is not None:
        polygon, unit = found
        inside, left, right = polygon.ends(points * unit)
        return inside, left / unit, right / unit
    if (smooth := _smooth(law, cells, tail)) is not None:
        support, scale, slack = smooth
        wide, off = (np.broadcast_to(part, points.shape) for part in (scale, slack))
        return Standardised(points, wide, off, support).ends()
    _check_rows(len(points))
    log_tail = weighted_tail(cells[0], cells[1], law)
    pair = float(scale[0]), float(scale[1])
    ends = [ends_of_one((float(x), float(y)), pair, log_tail, tail) for x, y in points]
    inside, left, right = (np.array(part) for part in zip(*ends, strict=True))
    return inside, left, right


def _row_weights(law: NoiseLaw) -> FloatArray:
    """Return the weights of the four errors in the estimated counts, as if all were positive."""
    weight = _weights(law)
    cells = np.zeros((2, 4))
    cells[0, :2], cells[1, 2:] = np.column_stack([weight, 1.0 - weight])
    return cells


def _polygon(
    law: NoiseLaw, cells: FloatArray, scale: FloatArray, tail: float
) -> tuple[LatticePolygon, FloatArray] | None:
    """Return the polygon of errors on a lattice, in units that make them whole numbers."""
    if not _all_whole(law):
        return None
    unit = np.where((cells == 0.5).any(axis=1), 2.0, 1.0)
    if (scale * unit > NARROW).any():
        return None
    parts = [WeightedSum(k * w, law) for k, w in zip(unit, cells, strict=True)]
    return lattice_polygon(parts[0], parts[1], tail), unit


def _smooth(
    law: NoiseLaw, cells: FloatArray, tail: float
) -> tuple[SmoothSupport | ChordSupport, FloatArray, FloatArray] | None:
    """Return Q of standardised errors with densities, their scale, and how far off they are."""
    laws = [law.take(cell) if law.shape else law for cell in range(4)]
    dense = [with_density(one) for one in laws]
    known = tuple(one for one in dense if one is not None)
    if len(known) < 4:
        return None
    gaps = np.array([float(continuous_bound(one, 1)[1][0]) for one in laws])
    scale = np.sqrt(np.square(cells) @ [float(one.variance) for one in known])
    if all(isinstance(one, Gaussian) for one in known):
        return smooth_support("gaussian", "gaussian", tail), scale, cells @ gaps
    first, second = (tuple((w / s).tolist()) for w, s in zip(cells, scale, strict=True))
    return chord_support((first, second), known, tail), scale, cells @ gaps


def _check_rows(rows: int) -> None:
    if rows > MOST_ROWS:
        raise InvalidParameterError(
            f"row_totals must hold at most {MOST_ROWS} different pairs for noise of this kind, got "
            f"{rows}: pass fewer tables at a time, or use method='normal'"
        )


def sampling_ends(
    counts: FloatArray,
    law: NoiseLaw,
    totals: FloatArray | NoisyTotals | None,
    f: Transform,
    alpha: float,
) -> tuple[FloatArray, FloatArray]:
    """Return exact ends of f(p₁) - f(p₂) for the risks in the population; inf, -inf where empty."""
    if len(counts) > MOST_TABLES:
        raise InvalidParameterError(
            f"table must hold at most {MOST_TABLES} tables for method='exact' with sampling, which "
            f"takes some 0.1 s for each, got {len(counts)}: use method='normal', or fewer at a time"
        )
    noisy = totals if isinstance(totals, NoisyTotals) else None
    known = None if isinstance(totals, NoisyTotals) else totals
    if noisy:
        whole = np.array([[one.is_integer for one in laws[:2]] for laws in noisy.laws])
    else:
        whole = np.broadcast_to(integer_cells(law, 4), 4).reshape(2, 2)
    if ((counts != np.rint(counts)) & whole).any():
        raise InvalidParameterError("table must hold whole numbers where the noise does")
    if noisy:
        is_whole = np.array([laws[2].is_integer for laws in noisy.laws])
        if ((noisy.values != np.rint(noisy.values)) & is_whole).any():
            raise InvalidParameterError("row_totals must hold whole numbers where their noise does")
    elif known is not None:
        check_array(check_integer_array(known, "row_totals", ge=1), "row_totals", le=LARGEST_NOBS)
    limit = 0.5 * alpha
    lower, upper = np.empty(len(counts)), np.empty(len(counts))
    for number, table in enumerate(counts):
        if known is None:
            miss = SIZES_MISSED * limit
            rows = [
                _of_noisy_size(table[k], noisy, number, k, miss)
                if noisy
                else _of_unknown_size(table[k], law, k, whole[k], miss)
                for k in (0, 1)
            ]
            level = limit * (1.0 - SIZES_MISSED)
            if not all(rows):
                ends = f(np.array([0.0, 1.0]))
                lower[number], upper[number] = ends[0] - ends[1], ends[1] - ends[0]
                continue
        else:
            rows = [_of_known_size(table[k], law, k, known[number, k], whole[k]) for k in (0, 1)]
            level = limit
        lower[number] = lower_limit(rows[0], rows[1], f, level)
        upper[number] = -lower_limit(rows[1], rows[0], f, level)
    empty = lower > upper
    return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)


def _cell(law: NoiseLaw, row: int, column: int) -> NoiseLaw:
    return law.take(2 * row + column) if law.shape else law


def _of_known_size(
    cells: FloatArray, law: NoiseLaw, row: int, total: float, whole: NDArray[np.bool_]
) -> list[Sample]:
    """Return the count of a row, estimated from both of its cells."""
    weight, laws = float(_weights(law)[row]), [_cell(law, row, column) for column in (0, 1)]
    noise = fast_sum(np.array([weight, 1.0 - weight]), laws)
    if isinstance(noise, WeightedSum):
        # a law without a table is too slow for so many points: one of the cells has to do
        weight = float(laws[0].variance <= laws[1].variance)
        noise = laws[0] if weight else laws[1]
    weights = np.array([weight, 1.0 - weight])
    lattice = bool(whole[weights > 0].all()) and weight in (0.0, 0.5, 1.0)
    return [
        Sample(
            count=float(weights @ [cells[0], total - cells[1]]),
            most=float(total),
            least=float(total),
            size=float(total),
            noise=noise,
            unit=(0.5 if weight == 0.5 else 1.0) if lattice else 0.0,
        )
    ]


def _of_unknown_size(
    cells: FloatArray, law: NoiseLaw, row: int, whole: NDArray[np.bool_], miss: float
) -> list[Sample]:
    """Return the events for risks up to 1/2, the others beyond; their sum limits the size."""
    laws = [_cell(law, row, column) for column in (0, 1)]
    units = whole.astype(np.float64)
    halves = [(float(cells[k]), laws[k], float(units[k]), k == 1) for k in (0, 1)]
    # both rows miss, on both sides
    reach = float(fast_sum(np.ones(2), laws).isf(0.25 * miss))
    return _halves(halves, float(cells.sum()), reach)


def _of_noisy_size(
    cells: FloatArray, totals: NoisyTotals, number: int, row: int, miss: float
) -> list[Sample]:
    """Return the same from a row with a total that has noise of its own."""
    total, laws = float(totals.values[number, row]), totals.laws[row]
    halves = []
    for column in (0, 1):
        own, other = laws[column], laws[1 - column]
        half = (float(cells[column]), own, float(own.is_integer), column == 1)
        missing = totals.alone and column == 1
        if missing:
            half = (float(cells[0]), other, float(other.is_integer), False)
        # the total without the other cell counts the same, and the noise decides which is used
        rest = fast_sum(np.ones(2), [laws[2], other])
        better = missing or float(rest.variance) < float(own.variance)
        if better and not (totals.alone and column == 0) and not isinstance(rest, WeightedSum):
            lattice = other.is_integer and laws[2].is_integer
            half = (total - float(cells[1 - column]), rest, float(lattice), column == 1)
        halves.append(half)
    size = totals.weights(row)[1]
    reach = float(fast_sum(size, laws).isf(0.25 * miss))
    return _halves(halves, float(size @ [*cells, total]), reach)


def _halves(
    halves: list[tuple[float, NoiseLaw, float, bool]], total: float, reach: float
) -> list[Sample]:
    """Return the counts for risks up to 1/2 and beyond, with sizes within reach of the total.

    Nothing where the row may be all noise: nothing is then to be said of its risk.
    """
    if abs(total) + reach > LARGEST_NOBS:
        raise InvalidParameterError(
            f"table must have rows that sum to less than {LARGEST_NOBS:g} for method='exact' with "
            f"sampling, got {total:g}"
        )
    if reach >= total:
        return []
    # rounding must not take away a size that is attained
    off = ROUNDING * (total + reach)
    limits = [np.ceil(total - reach - off), np.floor(total + reach + off)]
    least, most = np.maximum(limits, 1.0)
    return [
        Sample(
            count=count,
            most=min(most, last),
            least=max(least, first),
            size=0.5 * (first + last),
            noise=noise,
            unit=unit,
            low=0.5 * half,
            high=0.5 * (half + 1),
            mirrored=mirrored,
        )
        for first, last in _size_ranges(reach, least, most)
        for half, (count, noise, unit, mirrored) in enumerate(halves)
    ]


def _size_ranges(reach: float, least: float, most: float) -> list[tuple[float, float]]:
    """Return the ranges with sizes from least to most, of a division that the noise decides on."""
    found, first = [], 1.0
    while first <= most:
        last = first + max(np.ceil(reach), np.ceil(0.1 * first)) - 1.0
        if last >= least:
            found.append((first, last))
        first = last + 1.0
    return found
