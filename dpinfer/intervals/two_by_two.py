"""Intervals for the risk ratio, the odds ratio and the risk difference of noisy 2 × 2 tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    as_values,
    check_alpha,
    check_array,
    check_flag,
    check_integer_array,
    check_option,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.fieller import (
    METHODS,
    RATIO,
    Arcs,
    ChordSupport,
    Ends,
    Method,
    SmoothSupport,
    Standardised,
    as_sets,
    chord_support,
    ends_one_by_one,
    one_exact,
    smooth_support,
    tail_of,
    weighted_tail,
)
from dpinfer.estimation.pivots import ROUNDING, sidak
from dpinfer.estimation.published import LARGEST_NOBS, unlabelled
from dpinfer.estimation.ratio_sets import (
    MOST_ROWS,
    LatticePolygon,
    continuous_bound,
    lattice_polygon,
    with_density,
)
from dpinfer.intervals._two_binomials import (
    Sample,
    Transform,
    lower_limit,
    of_known_size,
    of_noisy_size,
    of_unknown_size,
)
from dpinfer.intervals.ratios import linear_ratio_confint, ratio_confint, share_confint
from dpinfer.mechanisms.independent import Mechanism, as_noise, groups
from dpinfer.mechanisms.law import NoiseLaw, refuse_dependent
from dpinfer.mechanisms.laws import Exact, Gaussian
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import LARGEST_VALUE
from dpinfer.results.intervals import UNCERTAINTIES, Intervals, Uncertainty

if TYPE_CHECKING:
    import pandas as pd


# Risks of the two groups of noisy 2 × 2 tables, and what the noise leaves possible.


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


Sides = tuple[Alternative, Alternative]
"""What is asked of the risk of either row."""


@dataclass(frozen=True)
class Risks:
    """Risks of two groups, shape (m, 2), with their variances."""

    estimate: FloatArray
    noise: FloatArray
    sampling: FloatArray


@dataclass(frozen=True, eq=False)
class NoisyTotals:
    """Totals of the rows with noise of their own, shape (m, 2), and what estimates with them."""

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

    def samples(self, cells: FloatArray, number: int, row: int, miss: float) -> list[Sample]:
        """Return the counts of a row of a table."""
        total, size = float(self.values[number, row]), self.weights(row)[1]
        return of_noisy_size(cells, total, self.laws[row], size, self.alone, miss)

    def sets(self, counts: FloatArray, alpha: float, sides: Sides) -> tuple[FloatArray, FloatArray]:
        """Return ends of the risks of both rows, (m, 2); inf and -inf where empty."""
        if not self.alone and len(counts) > MOST_LINEAR:
            raise InvalidParameterError(
                f"table must hold at most {MOST_LINEAR} tables for method='exact' with "
                f"row_totals_mechanism, which takes up to a second for each, got {len(counts)}: "
                "pass the first column alone, fewer tables at a time, or use method='asymptotic'"
            )
        low, high = np.empty(self.values.shape), np.empty(self.values.shape)
        for row, laws in enumerate(self.laws):
            if self.alone:
                low[:, row], high[:, row] = ratio_confint(
                    counts[:, row, 0],
                    self.values[:, row],
                    mechanism=(laws[0], laws[2]),
                    alpha=alpha,
                    alternative=sides[row],
                ).restrict(lower=0.0, upper=1.0)
                continue
            events, size = self.weights(row)
            for number, cells in enumerate(counts[:, row]):
                values = [*cells, self.values[number, row]]
                low[number, row], high[number, row] = linear_ratio_confint(
                    values, events, size, mechanism=laws, alpha=alpha, alternative=sides[row]
                ).restrict(lower=0.0, upper=1.0)
        return low, high


def _or_empty(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return inf and -inf where nothing is left between the ends."""
    return np.where(low > high, np.inf, low), np.where(low > high, -np.inf, high)


def _cells(law: NoiseLaw, number: int = 4) -> list[NoiseLaw]:
    """Return the law of each cell, row by row."""
    return [law.take(cell) if law.shape else law for cell in range(number)]


def _variances(law: NoiseLaw) -> FloatArray:
    return np.broadcast_to(np.asarray(law.variance, dtype=np.float64), 4)


def _weights(law: NoiseLaw) -> FloatArray:
    """Return the weight of the first cell in the estimate of a row's count, by known total.

    a and n - b estimate the same: they are weighted by the inverse of their variances, or nearly
    so where the noise takes whole numbers only.
    """
    variance = _variances(law).reshape(2, 2)
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
    variance = _variances(law).reshape(2, 2)
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
    counts: FloatArray,
    law: NoiseLaw,
    totals: FloatArray | None,
    risks: Risks,
    alpha: float,
    sides: Sides,
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends of the risks of both rows, (m, 2); inf and -inf where empty."""
    low, high = np.empty(risks.estimate.shape), np.empty(risks.estimate.shape)
    if totals is not None:
        tail = tail_of(alpha, sides[0])
        reach = np.array([float(one.isf(tail)) for one in weighted_sums(_row_weights(law), law)])
        # rounding must not take away an end that is attained
        half = reach / totals + ROUNDING * (np.abs(risks.estimate) + reach / totals)
        return _or_empty(
            np.maximum(risks.estimate - half, 0.0), np.minimum(risks.estimate + half, 1.0)
        )
    laws = _cells(law)
    for row in range(2):
        low[:, row], high[:, row] = share_confint(
            counts[:, row, 0],
            counts[:, row, 1],
            mechanism=(laws[2 * row], laws[2 * row + 1]),
            alpha=alpha,
            alternative=sides[row],
        ).restrict(lower=0.0, upper=1.0)
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
    scale = np.sqrt(np.square(cells) @ _variances(law))
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
    risks: Risks, law: NoiseLaw, totals: FloatArray, tail: float, side: Alternative
) -> tuple[FloatArray, FloatArray]:
    """Return ends of the ratio of two risks with public row totals; inf and -inf where empty.

    The estimates f of the counts have the errors E, and f₁ - r·f₂ has the law of E₁ - r·E₂ for the
    ratio r of the counts: Fieller's idea.
    """
    points = risks.estimate * totals
    arcs = Arcs.empty(points)
    arcs.fill(np.arange(len(points)), *_count_arcs(points, law, tail))
    sets = as_sets(arcs, RATIO, (len(points),), 2.0 * tail, "exact", side, False, None)
    lower, upper = sets.restrict(lower=0.0)
    unit = totals[:, 1] / totals[:, 0]
    with np.errstate(over="ignore"):
        return lower * unit, upper * unit


def _count_arcs(points: FloatArray, law: NoiseLaw, tail: float) -> Ends:
    """Return the directions (f₁, f₂) that the laws of the errors accept."""
    cells = _row_weights(law)
    scale = np.sqrt(np.square(cells) @ _variances(law))
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
    return ends_one_by_one(points, scale, [log_tail] * len(points), tail)


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
    laws = _cells(law)
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
            f"{rows}: pass fewer tables at a time, or use method='asymptotic'"
        )


def sampling_ends(
    counts: FloatArray,
    law: NoiseLaw,
    totals: FloatArray | NoisyTotals | None,
    f: Transform,
    limit: float,
) -> tuple[FloatArray, FloatArray]:
    """Return limits of f(p₁) - f(p₂) for the risks in the population, of error ``limit`` each.

    They are inf and -inf where the interval is empty.
    """
    if len(counts) > MOST_TABLES:
        raise InvalidParameterError(
            f"table must hold at most {MOST_TABLES} tables for method='exact' with sampling, which "
            f"takes some 0.1 s for each, got {len(counts)}: take fewer, or method='asymptotic'"
        )
    noisy = totals if isinstance(totals, NoisyTotals) else None
    known = None if isinstance(totals, NoisyTotals) else totals
    own = noisy.laws if noisy else [_cells(law)[:2], _cells(law)[2:]]
    whole = np.array([[one.is_integer for one in laws[:2]] for laws in own])
    if ((counts != np.rint(counts)) & whole).any():
        raise InvalidParameterError("table must hold whole numbers where the noise does")
    if noisy:
        is_whole = np.array([laws[2].is_integer for laws in own])
        if ((noisy.values != np.rint(noisy.values)) & is_whole).any():
            raise InvalidParameterError("row_totals must hold whole numbers where their noise does")
    elif known is not None:
        check_array(check_integer_array(known, "row_totals", ge=1), "row_totals", le=LARGEST_NOBS)
    lower, upper = np.empty(len(counts)), np.empty(len(counts))
    missed = SIZES_MISSED if known is None else 0.0
    weights = np.zeros(2) if known is None else _weights(law)
    for number, table in enumerate(counts):
        rows = [
            of_known_size(table[k], own[k], float(weights[k]), known[number, k], whole[k])
            if known is not None
            else noisy.samples(table[k], number, k, missed * limit)
            if noisy
            else of_unknown_size(table[k], own[k], missed * limit)
            for k in (0, 1)
        ]
        if all(rows):
            lower[number] = lower_limit(rows[0], rows[1], f, limit * (1.0 - missed))
            upper[number] = -lower_limit(rows[1], rows[0], f, limit * (1.0 - missed))
        else:
            ends = f(np.array([0.0, 1.0]))
            lower[number], upper[number] = ends[0] - ends[1], ends[1] - ends[0]
    return _or_empty(lower, upper)


Measure = Literal["risk ratio", "odds ratio", "risk difference"]


def risk_ratio_confint(
    table: Any,
    *,
    mechanism: Mechanism | None = None,
    row_totals: Any = None,
    row_totals_mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    uncertainty: Uncertainty = "noise",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for the risk ratio of noisy 2 × 2 tables.

    Parameters
    ----------
    table : array of float, shape (2, 2) or (m, 2, 2), DataFrame, Release or estimate
        The published counts: a row for each group, the column of those with the event before that
        of those without. With ``row_totals_mechanism`` the first column may be all there is, in
        the shape (2, 1) or (m, 2, 1). A release or an estimate has the four values in that order,
        row by row, with independent errors.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all cells, or one for each, row by row. Left out where
        ``table`` carries its own.
    row_totals : array of float, shape (2,) or (m, 2), optional
        The totals of the rows where they are public, positive. They are taken as exact, and both
        cells of a row then bear on its risk.
    row_totals_mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise of ``row_totals`` where they were published with noise of their own,
        independent of that of the cells: one for both rows, or one for each. The totals may have
        any sign then. Sums of the noisy cells are no such totals: leave both arguments out.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1), and at least 1e-50 for each table.
    method : {"exact", "asymptotic"}
        ``"exact"``: by the law of the noise. From the sets of the two risks at the level √(1 - α)
        each, which is conservative; with public ``row_totals``, for ratios and differences of
        risks, from the law of the one linear statistic. ``"asymptotic"``: the delta method, on the
        logarithmic scale; approximate, and the whole possible range where an estimated risk is not
        inside (0, 1).
    alternative : {"two-sided", "larger", "smaller"}
        Both limits, or one at the full ``alpha``, which is then below 1/2: ``"larger"`` gives the
        lower limit only, ``"smaller"`` the upper one.
    uncertainty : {"noise", "noise+sampling"}
        Whether the interval is about the risks in the confidential table, or about those in a
        population of which each row is a binomial sample. For the latter ``row_totals`` are whole
        numbers, and at most 500 tables are taken at once by ``method="exact"``.
    simultaneous : bool, default False
        Whether the intervals shall cover the values of all tables together with probability
        1 - ``alpha``.

    Returns
    -------
    Intervals
        One for each table, within [0, inf].

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    odds_ratio_confint, risk_difference_confint

    Notes
    -----
    The risk of a row with counts a and b is p = a/(a + b); rows must not be empty. The rows have
    independent noise, so that exact sets for p₁ and p₂ of level √(1 - α), those of
    :func:`share_confint` within [0, 1], hold together with probability 1 - α, and with them what
    follows for p₁/p₂: [l₁/u₂, u₁/l₂].

    With public ``row_totals`` each risk is estimated without bias by w·a/n + (1 - w)·(1 - b/n), and
    p̂₁ - r·p̂₂ has the law of E₁ - r·E₂ at the ratio r of the risks. The exact set holds the r at
    which it is not extreme, as in :func:`ratio_confint`. Noises on the whole numbers of a standard
    deviation above 20, or with noises of other kinds, are replaced by noises with a density, and
    the most by which they differ is added.

    For risks in a population each of two exact one-sided limits errs with probability at most α/2
    whatever the risks. A lower limit is the least ratio among the pairs (p₁, p₂) with
    P(S >= s; p₁, p₂) > α/2, where S increases with the events of the first row and decreases with
    those of the second, so that the pairs on one curve decide (Buehler 1957). S is the approximate
    limit of Donner and Zou (2012) from Wilson's limits with the noise in them, and the risks are
    looked for within limits that miss with probability α/1000 (Berger and Boos 1994). Sums over
    cells and steps are rounded to the safe side, by about 1 % of the length. With public totals the
    interval is about as long as the asymptotic one, and without noise the smallest coverage found
    by enumeration is .952 for samples of 10 to 50 at 1 - α = .95, where that of the asymptotic one
    is .905. Without public totals a row's events (for risks up to 1/2, and the others beyond) have
    an unknown number of trials, within limits from the sum of the row that miss with probability
    α/100: with Laplace noise of scale 1 that makes the interval 1.3 times as long for rows of 200
    and 1.1 times for rows of 2,000. Where the sum of a row may be all noise, every value is
    possible. It takes some 0.1 s for a table, and up to a second without totals.

    With ``row_totals_mechanism`` the cells and the total N of a row are combined by least squares,
    â = a + v_a·(N - a - b)/v and n̂ = a + b + (v_a + v_b)·(N - a - b)/v, with v the sum of the three
    variances, and without a second column a and N are used as they are. For ``"noise"`` the sets
    of the risks are those of :func:`linear_ratio_confint` for â/n̂, or of :func:`ratio_confint` for
    a/N, at most 60 tables at once with both columns. With sampling, n̂ gives the limits of the
    number of trials, and N - b the events (N - a the others) where its noise is less or b missing.
    It takes up to a second for a table, and some five where the totals have noise of a scale of
    tens.

    The asymptotic interval is exp(log(p₁/p₂) ± z·√v), with v the sum over the rows of var(p)/p²,
    where the noise contributes ((1 - p)²v_a + p²v_b)/n² to var(p), and sampling p(1 - p)/n
    (Katz et al. 1978).

    References
    ----------
    Berger, R. L. and Boos, D. D. (1994). P values maximized over a confidence set for the nuisance
    parameter. JASA 89(427), 1012-1016. doi:10.1080/01621459.1994.10476836.
    Buehler, R. J. (1957). Confidence intervals for the product of two binomial parameters. JASA
    52(280), 482-493. doi:10.1080/01621459.1957.10501404.
    Donner, A. and Zou, G. Y. (2012). Closed-form confidence intervals for functions of the normal
    mean and standard deviation. doi:10.1177/0962280210383082.
    Katz, D., Baptista, J., Azen, S. P. and Pike, M. C. (1978). Obtaining confidence intervals for
    the risk ratio in cohort studies. Biometrics 34(3), 469-474. doi:10.2307/2530610.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> table = [[60.4, 139.8], [30.1, 169.7]]
    >>> risk_ratio_confint(table, mechanism=Laplace(scale=1.0))
    Intervals([1.7332, 2.34048], level 0.95, exact)
    >>> risk_ratio_confint(table, mechanism=Laplace(scale=1.0), row_totals=[200, 200],
    ...                    uncertainty="noise+sampling").upper.round(2)
    np.float64(3.05)
    """
    totals = row_totals, row_totals_mechanism
    how = alpha, method, alternative, uncertainty, simultaneous
    return _confint("risk ratio", table, mechanism, totals, how)


def odds_ratio_confint(
    table: Any,
    *,
    mechanism: Mechanism | None = None,
    row_totals: Any = None,
    row_totals_mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    uncertainty: Uncertainty = "noise",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for the odds ratio of noisy 2 × 2 tables.

    Parameters
    ----------
    table, mechanism, row_totals, row_totals_mechanism, alpha, method, alternative, uncertainty, \
simultaneous
        As for :func:`risk_ratio_confint`.

    Returns
    -------
    Intervals
        One for each table, within [0, inf].

    Notes
    -----
    The odds p/(1 - p) increase with the risk p, so that the exact interval follows from those of
    the two risks as in :func:`risk_ratio_confint`. The asymptotic interval has the variance
    Σ var(p)/(p(1 - p))² on the logarithmic scale, to which sampling contributes 1/(n·p(1 - p))
    (Woolf 1955).

    References
    ----------
    Woolf, B. (1955). On estimating the relation between blood group and disease. Annals of Human
    Genetics 19(4), 251-253. doi:10.1111/j.1469-1809.1955.tb01348.x.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> table = [[60.4, 139.8], [30.1, 169.7]]
    >>> odds_ratio_confint(table, mechanism=Laplace(scale=1.0))
    Intervals([2.02976, 2.95714], level 0.95, exact)
    """
    totals = row_totals, row_totals_mechanism
    how = alpha, method, alternative, uncertainty, simultaneous
    return _confint("odds ratio", table, mechanism, totals, how)


def risk_difference_confint(
    table: Any,
    *,
    mechanism: Mechanism | None = None,
    row_totals: Any = None,
    row_totals_mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: Method = "exact",
    alternative: Alternative = "two-sided",
    uncertainty: Uncertainty = "noise",
    simultaneous: bool = False,
) -> Intervals:
    """Confidence intervals for the difference of the two risks of noisy 2 × 2 tables.

    Parameters
    ----------
    table, mechanism, row_totals, row_totals_mechanism, alpha, method, alternative, uncertainty, \
simultaneous
        As for :func:`risk_ratio_confint`.

    Returns
    -------
    Intervals
        One for each table, within [-1, 1].

    Notes
    -----
    The exact interval is [l₁ - u₂, u₁ - l₂] for the sets of the two risks, as in
    :func:`risk_ratio_confint`; the asymptotic one is p₁ - p₂ ± z·√(Σ var(p)). With public
    ``row_totals`` the estimated difference has an error that is a weighted sum of the four noises,
    and the exact interval is the estimate give or take a quantile of its law. From 33 different
    pairs of totals on, that quantile is a bound at most 1.4e-4 of it too large for noise with a
    density, and at most the distance to such noise for wide noise on the whole numbers.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> table = [[60.4, 139.8], [30.1, 169.7]]
    >>> risk_difference_confint(table, mechanism=Laplace(scale=1.0))
    Intervals([0.121829, 0.180459], level 0.95, exact)
    """
    totals = row_totals, row_totals_mechanism
    how = alpha, method, alternative, uncertainty, simultaneous
    return _confint("risk difference", table, mechanism, totals, how)


def _confint(
    measure: Measure,
    table: Any,
    mechanism: Mechanism | None,
    known: tuple[Any, Mechanism | None],
    how: tuple[float, Method, Alternative, Uncertainty, bool],
) -> Intervals:
    """Return the intervals for one of the measures, with totals of rows and the law of these."""
    alpha, method, alternative, uncertainty, simultaneous = how
    row_totals, row_totals_mechanism = known
    alpha = check_alpha(alpha)
    method = check_option(method, "method", METHODS)
    side = check_option(alternative, "alternative", ALTERNATIVES)
    uncertainty = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    together = check_flag(simultaneous, "simultaneous")
    counts, single, rows, law = _tables(table, mechanism, row_totals_mechanism is not None)
    totals = noisy_totals = None
    if row_totals_mechanism is not None:
        counts, noisy_totals = _noisy_totals(
            row_totals, row_totals_mechanism, counts, law, single, rows
        )
    elif row_totals is not None:
        totals = _totals(row_totals, counts, single, rows, known=True)
    each = sidak(alpha, len(counts)) if together else alpha
    tail = tail_of(each, side)
    risks = noisy_totals.risks(counts) if noisy_totals else estimated_risks(counts, law, totals)
    notes: tuple[str, ...] = ()
    if method == "exact" and uncertainty == "noise+sampling":
        transform, back = _SCALES[measure]
        lower, upper = sampling_ends(counts, law, noisy_totals or totals, transform, tail)
        empty = lower > upper
        lower, upper = np.where(empty, np.inf, back(lower)), np.where(empty, -np.inf, back(upper))
    elif method == "exact" and totals is not None and measure == "risk difference":
        reach = difference_reach(law, totals, tail)
        # rounding must not take away an end that is attained
        reach = reach + ROUNDING * (np.abs(risks.estimate).sum(axis=1) + reach)
        centre = risks.estimate[:, 0] - risks.estimate[:, 1]
        lower, upper = _or_empty(np.maximum(centre - reach, -1.0), np.minimum(centre + reach, 1.0))
    elif method == "exact" and totals is not None and measure == "risk ratio":
        lower, upper = ratio_ends(risks, law, totals, tail, side)
    elif method == "exact":
        half, sides = sidak(each, 2), _SIDES[side]
        if noisy_totals:
            low, high = noisy_totals.sets(counts, half, sides)
        else:
            low, high = exact_risks(counts, law, totals, risks, half, sides)
        lower, upper = _combined(measure, low, high)
    else:
        lower, upper, notes = _by_delta_method(measure, risks, uncertainty, tail)
    least, most = (-1.0, 1.0) if measure == "risk difference" else (0.0, np.inf)
    if side == "larger":
        upper = np.where(lower > upper, upper, most)
    elif side == "smaller":
        lower = np.where(lower > upper, lower, least)
    first, second = np.clip(risks.estimate, 0.0, 1.0).T
    parts = [_VALUES[measure](first, second), lower, upper]
    estimate, lower, upper = (part[0] if single else part for part in parts)
    return Intervals(
        estimate=estimate,
        lower=lower,
        upper=upper,
        alpha=alpha,
        method=method,
        uncertainty=uncertainty,
        simultaneous=together,
        notes=notes,
    )


_SIDES: dict[Alternative, Sides] = {
    "two-sided": ("two-sided", "two-sided"),
    "larger": ("larger", "smaller"),
    "smaller": ("smaller", "larger"),
}
"""All measures increase with the first risk and decrease with the second."""


def _tables(
    table: Any, mechanism: Mechanism | None, short: bool
) -> tuple[FloatArray, bool, pd.Index | None, NoiseLaw]:
    """Return the tables in three axes, whether the first was missing, labels of rows, the law."""
    if hasattr(table, "__noisy__"):
        x = noisy(table, mechanism=mechanism, name="table")
        x.need(independent=True, unruled=True, who="an interval of a 2 × 2 table")
        if len(x) != 4:
            raise InvalidParameterError(f"table must have 4 values, row by row, got {len(x)}")
        return x.values.reshape(1, 2, 2), True, None, x.marginal
    table = as_values(table, "table")
    values = table.to_numpy() if hasattr(table, "iloc") else table
    counts = check_array(values, "table", ge=-LARGEST_VALUE, le=LARGEST_VALUE)
    allowed = ((2, 2), (2, 1)) if short else ((2, 2),)
    if counts.ndim not in (2, 3) or counts.shape[-2:] not in allowed:
        also = ", or (2, 1) or (m, 2, 1)" if short else ""
        raise InvalidParameterError(
            f"table must have the shape (2, 2) or (m, 2, 2){also}, got {counts.shape}"
        )
    flat = counts.reshape(-1, 2 * counts.shape[-1])
    x = noisy(flat[0], mechanism=mechanism, name="table")
    law = x.need(independent=True, who="an interval of a 2 × 2 table").marginal
    if len(flat) > 1:
        # all tables have the laws of the first
        cells = np.tile(np.arange(flat.shape[1]), len(flat))
        noisy(flat.ravel(), mechanism=law.take(cells) if law.shape else law, name="table")
    rows = table.index if hasattr(table, "iloc") else None
    return counts.reshape(-1, *counts.shape[-2:]), counts.ndim == 2, rows, law


def _noisy_totals(
    row_totals: Any,
    mechanism: Mechanism,
    counts: FloatArray,
    law: NoiseLaw,
    single: bool,
    rows: pd.Index | None,
) -> tuple[FloatArray, NoisyTotals]:
    """Return the tables with both columns, the second 0 where it is missing, and the totals."""
    if row_totals is None:
        raise InvalidParameterError("row_totals_mechanism must not be given without row_totals")
    own = as_noise(mechanism, 2, name="row_totals_mechanism")
    refuse_dependent([law, own], "mechanism and row_totals_mechanism")
    totals = _totals(row_totals, counts, single, rows, known=False)
    warn_of_rounding(totals, own, "row_totals")
    alone = counts.shape[2] == 1
    cells = _cells(law, 2 * counts.shape[2])
    if alone:
        counts = np.concatenate([counts, np.zeros_like(counts)], axis=2)
        cells = [cells[0], Exact(), cells[1], Exact()]
    laws = [[*cells[2 * k : 2 * k + 2], total] for k, total in enumerate(_cells(own, 2))]
    return counts, NoisyTotals(totals, laws, alone)


def _totals(
    row_totals: Any, counts: FloatArray, single: bool, rows: pd.Index | None, known: bool
) -> FloatArray:
    """Return the totals as (m, 2)."""
    own = unlabelled(row_totals, "row_totals", rows, "the rows of table")
    totals = check_array(own, "row_totals", ge=-LARGEST_VALUE, le=LARGEST_VALUE)
    if known:
        check_array(totals, "row_totals", gt=0)
    if totals.shape not in ((2,), (len(counts), 2)):
        wanted = "(2,)" if single else f"(2,) or ({len(counts)}, 2)"
        raise InvalidParameterError(f"row_totals must have the shape {wanted}, got {totals.shape}")
    return np.broadcast_to(totals, (len(counts), 2))


def _by_delta_method(
    measure: Measure, risks: Risks, uncertainty: Uncertainty, tail: float
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return the ends by the delta method, and what there is to say about them."""
    variance = risks.noise + (risks.sampling if uncertainty == "noise+sampling" else 0.0)
    z = float(-special.ndtri(tail))
    usable = np.all((risks.estimate > 0) & (risks.estimate < 1), axis=1)
    p = np.where(usable[:, None], risks.estimate, 0.5)
    spread = z * np.sqrt((variance * np.square(_SLOPES[measure](p))).sum(axis=1))
    estimate = _VALUES[measure](*p.T)
    notes = [f"approximate: the delta method, with {uncertainty} variances"]
    if not usable.all():
        notes.append(
            f"{np.count_nonzero(~usable)} tables have an estimated risk outside (0, 1): every "
            "value is possible"
        )
    if measure == "risk difference":
        lower, upper = np.maximum(estimate - spread, -1.0), np.minimum(estimate + spread, 1.0)
        least, most = -1.0, 1.0
    else:
        with np.errstate(over="ignore"):
            lower, upper = estimate * np.exp(-spread), estimate * np.exp(spread)
        least, most = 0.0, np.inf
    return np.where(usable, lower, least), np.where(usable, upper, most), tuple(notes)


def _quotient(top: FloatArray, bottom: FloatArray, of_zeros: float = 0.0) -> FloatArray:
    """Return quotients of numbers >= 0: inf where only the divisor is 0."""
    with np.errstate(over="ignore"):
        quotient = top / np.where(bottom > 0, bottom, 1.0)
    return np.where(bottom > 0, quotient, np.where(top > 0, np.inf, of_zeros))


def _odds_ratio(first: FloatArray, second: FloatArray, of_zeros: float = 0.0) -> FloatArray:
    """Return p₁(1 - p₂)/(p₂(1 - p₁))."""
    return _quotient(first * (1.0 - second), second * (1.0 - first), of_zeros)


def _difference(first: FloatArray, second: FloatArray, of_zeros: float = 0.0) -> FloatArray:
    return first - second


_VALUES: dict[Measure, Callable[..., FloatArray]] = {
    "risk ratio": _quotient,
    "odds ratio": _odds_ratio,
    "risk difference": _difference,
}
"""The measures, as functions of the two risks and of what to say of 0/0."""


def _log(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _logit(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


_SCALES: dict[Measure, tuple[Transform, Transform]] = {
    "risk ratio": (_log, np.exp),
    "odds ratio": (_logit, np.exp),
    "risk difference": (np.asarray, np.asarray),
}
"""Scales on which the measures are differences, and the way back."""

_SLOPES: dict[Measure, Callable[[FloatArray], FloatArray]] = {
    "risk ratio": lambda p: 1.0 / p,
    "odds ratio": lambda p: 1.0 / (p * (1.0 - p)),
    "risk difference": np.ones_like,
}
"""Derivatives by the first risk: of the logarithms of ratios, and of the difference."""


def _combined(measure: Measure, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the range of what increases with the first risk and decreases with the second.

    Empty where one of the ranges is, or where the second risk is 0 for certain.
    """
    value = _VALUES[measure]
    empty = np.any(low > high, axis=1)
    least, most = np.where(low > high, 0.0, low), np.where(low > high, 1.0, high)
    lower = value(least[:, 0], most[:, 1])
    upper = value(most[:, 0], least[:, 1], np.inf)
    empty = empty | np.isinf(lower)
    return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)
