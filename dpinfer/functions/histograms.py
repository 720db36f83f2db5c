"""Medians, quantiles and distribution functions of histograms with noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
    freeze,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.functions.segregation import PROVED, IndexIntervals, upper_point
from dpinfer.functions.unbiased import areas_of, known_total
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import UNCERTAINTIES, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels

if TYPE_CHECKING:
    import pandas as pd


_LEAST_SHARE = 1e-9
"""Of less, errors are no longer told apart from rounding."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuantileSets(Intervals):
    """Confidence sets of bins for a quantile of confidential histograms.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes, mc_error
        As for :class:`~dpinfer.results.Intervals`. The ends are those of the hull of the set: by
        the edges of the bins where they are given, by their positions 0, 1, ... otherwise.
    assurance : {"exact", "checked", "bound"}, optional
        As for :class:`~dpinfer.results.Intervals`.
    kept : array of str
        The positions of the bins in each set, as ``"10-12, 15"``: there may be gaps.
    bins : array of float
        How many bins are in each set.
    plug_in : array of float
        The position of the bin that has the quantile of the published counts, clipped at 0.
    guarantee : str
        What is known of the sets.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=2.0)
    >>> found = dpi.functions.histogram_quantile_confint([40, 31, 18, 35, 9, 4], mechanism=noise)
    >>> found.kept, found.bins
    (np.str_('1-2'), np.float64(2.0))
    """

    title: ClassVar[str] = "Confidence sets for quantiles of histograms"
    counted: ClassVar[str] = "Sets"
    _by_row: ClassVar[tuple[str, ...]] = ("estimate", "lower", "upper", "kept", "bins", "plug_in")

    kept: Any
    bins: Any
    plug_in: Any
    guarantee: str

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("bins", "plug_in"):
            held = freeze(check_array(getattr(self, name), name))
            object.__setattr__(self, name, attach_labels(held, self.labels))
        kept = freeze(np.asarray(self.kept, dtype=np.str_))
        object.__setattr__(self, "kept", attach_labels(kept, self.labels))

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says: the guarantee as well."""
        return [("Guarantee", self.guarantee), *super().facts]

    def summary_frame(self) -> pd.DataFrame:
        """Return the table of hulls with ``kept``, ``bins`` and ``plug_in``."""
        frame = super().summary_frame()
        for name in ("kept", "bins", "plug_in"):
            frame[name] = np.ravel(np.asarray(getattr(self, name)))
        frame.attrs["guarantee"] = self.guarantee
        return frame


def histogram_quantile_confint(
    counts: Any,
    p: float = 0.5,
    *,
    edges: Any = None,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
) -> QuantileSets:
    """Confidence sets for the median, or another quantile, of a confidential histogram.

    Parameters
    ----------
    counts : array, Series, Release or estimate
        The published counts of K >= 2 bins in their order. Each row of a two-dimensional array is
        a histogram of its own. A combined estimate brings in all that was published of the bins:
        coarser ones, and totals.
    p : float, default 0.5
        The share below, from 1e-9 to 1 - 1e-9: 0.5 for the median.
    edges : array of K + 1 floats, optional
        The edges of the bins, rising; the first and last may be infinite. With them the ends of
        the hull are edges, without them positions of bins.
    total : float, array or Series, optional
        The number N >= 1 of each histogram, where it is known exactly: published without noise.
    by : list, mapping, Series or str, optional
        Which bins are of one histogram, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise, any symmetric one; left out where ``counts`` carries its own.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the quantile of the persons who were counted. ``"noise+sampling"``: that of the
        population of which they are independent draws.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).

    Returns
    -------
    QuantileSets
        A set of bins for each histogram. Estimates are the first bins by which the estimated
        cumulative counts reach p, as a middle of edges or a position.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or histograms have fewer than two bins.

    Notes
    -----
    With cumulative counts Cₖ the bin m of the quantile has D(m-1) < 0 <= D(m), where
    Dₖ = Cₖ - pN = (1-p)Σ(i<=k) fᵢ - pΣ(i>k) fᵢ. Bin k is kept where D̂ₖ >= -q and D̂ₖ₋₁ < q, for
    upper α/2 points q of the exact laws of the two errors. Only m itself is ever tested, so that
    the set holds it with probability 1 - α or more, whatever the counts are; where no bin were
    left, the estimate is. A known total enters with its best weights:
    Ĉₖ = Σ(i<=k) yᵢ + wₖ(N - Σ yᵢ), wₖ = cov(Σ(i<=k) yᵢ, Σ yᵢ)/var(Σ yᵢ).

    With sampling the points of Cₖ - pN, binomial less its mean at the least favourable population,
    are added at half of the level: exact ones of a known N, Chernoff's for the largest N that the
    noise leaves otherwise.

    The set says in which *bin* the quantile is. Where in it is not known without an assumption on
    how values spread within bins. The bin by plug-in of clipped counts is often wrong: in half
    of the cases for 4,000 in 40 bins under noise of standard deviation 60, where the set has six.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.DiscreteGaussian(sigma=5.0)
    >>> ages = [40, 31, 18, 35, 9, 4]
    >>> found = dpi.functions.histogram_quantile_confint(
    ...     ages, edges=[0, 18, 30, 40, 50, 65, 120], mechanism=noise
    ... )
    >>> found
    QuantileSets([18, 40], level 0.95, exact)
    """
    alpha = check_alpha(alpha)
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    share = check_scalar(p, "p", ge=_LEAST_SHARE, le=1.0 - _LEAST_SHARE)
    x = noisy(counts, mechanism=mechanism, name="counts")
    x.need(unruled=True, who="histogram_quantile_confint")
    table = Histograms.of(x, by, total)
    size = table.size
    lines = None if edges is None else edges_of(edges, size)
    sampled = about == "noise+sampling"
    found, low, high = _contrasts(table, share, alpha, sampled=sampled)
    first, last = found + high >= 0.0, found - low < 0.0
    # the quantile is in the last bin or before, and in the first or after
    edge = np.ones((len(found), 1), dtype=bool)
    kept = np.hstack([first, edge]) & np.hstack([edge, last])
    reached = np.hstack([found >= 0.0, edge])
    estimate = reached.argmax(axis=1)
    kept[np.arange(len(kept)), estimate] |= ~kept.any(axis=1)
    start = kept.argmax(axis=1)
    end = size - 1 - kept[:, ::-1].argmax(axis=1)
    clipped = np.maximum(x.values[table.cells], 0.0).cumsum(axis=1)
    plug_in = (clipped >= share * clipped[:, -1:]).argmax(axis=1)
    hull = (end - start + 1) > kept.sum(axis=1)
    notes: tuple[str, ...] = ("the quantile is in one of the bins kept; where in it is not known",)
    if hull.any():
        notes += (f"{np.count_nonzero(hull)} of {len(hull)} sets have gaps: the hull is given",)
    ends = (estimate, start, end)
    if lines is not None:
        middle = 0.5 * lines[:-1] + 0.5 * lines[1:]
        inner = np.where(np.isfinite(lines[:-1]), lines[:-1], lines[1:])
        middle = np.where(np.isfinite(middle), middle, inner)
        ends = (middle[estimate], lines[start], lines[end + 1])
    reshaped = [np.asarray(one, dtype=np.float64).reshape(table.shape) for one in ends]
    return QuantileSets(
        estimate=reshaped[0],
        lower=reshaped[1],
        upper=reshaped[2],
        alpha=alpha,
        method="bound" if sampled else "exact",
        uncertainty=about,
        labels=table.labels,
        notes=notes,
        kept=np.array([_runs(one) for one in kept]).reshape(table.shape),
        bins=kept.sum(axis=1).reshape(table.shape).astype(np.float64),
        plug_in=plug_in.reshape(table.shape).astype(np.float64),
        guarantee=PROVED if sampled else "exact law of the noise, conservative",
    )


def cdf_bands(
    counts: Any,
    *,
    total: Any = None,
    by: Any = None,
    scale: str = "share",
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 9999,
    rng: RNG = None,
) -> IndexIntervals:
    """Simultaneous confidence bands for the distribution functions of confidential histograms.

    Parameters
    ----------
    counts, total, by
        As for :func:`histogram_quantile_confint`.
    scale : {"share", "count"}
        Whether the band is for the shares Fₖ = Cₖ/N, or for the cumulative counts Cₖ.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise, any symmetric one; left out where ``counts`` carries its own.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the shares of the persons who were counted. ``"noise+sampling"``: those of the
        population of which they are independent draws; not for counts.
    alpha : float, default 0.05
        One minus the confidence level of each whole band, in (0, 1).
    reps : int, default 9999
        How many errors are drawn, at least 1/alpha - 1, or 2/alpha - 1 with sampling. The band
        holds its level with any number.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IndexIntervals
        An interval for each bin, under the labels of the counts, all of a histogram together;
        they never fall from one bin to the next.

    Raises
    ------
    InvalidParameterError
        As for :func:`histogram_quantile_confint`.

    Notes
    -----
    The band is Ĉₖ ± q, q the order statistic of draws of maxₖ abs(error of Ĉₖ) that one more draw
    exceeds with probability ``alpha`` at most. For 40 bins of equal Gaussian noise q is 2.138
    standard deviations of the sum of all bins, and 1.272 with a total known exactly. As the true
    curve rises, the running maximum of the lower limits and the running minimum from the right of
    the upper ones cover as often.

    Shares of a total that is noisy itself are C/(C + R) of the counts up to a bin and beyond it,
    with q the order statistic of the largest error of all of these: the least and the largest
    share within reach. With sampling both take α/2, and the band is wider by √(ln(4/α)/(2N)) at
    either end: by the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant, for
    the least N within reach. Histograms of one law and size share their draws, so that bands of
    several are not independent of each other.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=2.0)
    >>> band = dpi.functions.cdf_bands([40, 31, 18, 35, 9, 4], total=137, mechanism=noise, rng=1)
    >>> band.lower.round(2), band.upper.round(2)
    (array([0.23, 0.46, 0.59, 0.84, 0.91, 1.  ]), array([0.35, 0.58, 0.71, 0.97, 1.  , 1.  ]))
    """
    unit = check_option(scale, "scale", ("share", "count"))
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    if about == "noise+sampling" and unit == "count":
        raise InvalidParameterError(
            "uncertainty must be 'noise' for scale='count', as the number of persons of the "
            "population is not known from a sample: use scale='share'"
        )
    table, found = distribution(
        counts, total, by, mechanism, alpha, reps, rng, about, shares=unit == "share",
        who="cdf_bands",
    )  # fmt: skip
    x = table.x
    names = x.labels
    if names is not None and table.is_part:
        names = names[table.cells.ravel()]
    placed = [table.placed(one) for one in found]
    return IndexIntervals(
        estimate=placed[0],
        lower=placed[1],
        upper=placed[2],
        plug_in=placed[3],
        alpha=check_alpha(alpha),
        method="bound",
        uncertainty=about,
        simultaneous=True,
        labels=names,
        assurance="bound",
        guarantee=PROVED,
        notes=("all intervals of a histogram hold together",) if len(table.cells) > 1 else (),
    )


def distribution(
    counts: Any,
    total: Any,
    by: Any,
    mechanism: Any,
    alpha: float,
    reps: int,
    rng: RNG,
    uncertainty: Uncertainty,
    *,
    shares: bool,
    who: str,
) -> tuple[Histograms, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Return cumulative counts or shares with their bands and plug-in values, (areas, bins)."""
    alpha, reps = check_alpha(alpha), check_reps(reps)
    sampled = uncertainty == "noise+sampling"
    level = 0.5 * alpha if sampled else alpha
    if reps + 1 < 1.0 / level:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(1.0 / level) - 1:.6g} for alpha = {alpha:g}, got {reps}"
        )
    x = noisy(counts, mechanism=mechanism, name="counts")
    x.need(unruled=True, who=who)
    table = Histograms.of(x, by, total)
    generator = check_rng(rng)
    known = table.total is not None
    both = shares and not known
    sums = first_sums = table.estimates()
    reach = np.empty((len(sums), 1))
    drawn = None
    for row in range(len(sums)):
        if drawn is None or not table.alike:
            errors = x._take(table.cells[row]).draw(reps, rng=generator).cumsum(axis=1)
            last = errors[:, -1:]
            if known:
                errors = errors - table.weight(row) * last
            size = np.abs(errors).max(axis=1)
            if both:
                size = np.maximum(size, np.abs(last - errors).max(axis=1))
            drawn = upper_point(size, level)
        reach[row] = drawn
    lower = np.maximum.accumulate(np.maximum(sums - reach, 0.0), axis=1)
    upper = np.minimum.accumulate((sums + reach)[:, ::-1], axis=1)[:, ::-1]
    if known:
        whole = np.asarray(table.total)[:, np.newaxis]
        upper = np.minimum(np.maximum(upper, 0.0), whole)
        lower = np.minimum(lower, whole)
        lower[:, -1:] = upper[:, -1:] = whole
    clipped = np.maximum(x.values[table.cells], 0.0).cumsum(axis=1)
    upper = np.maximum(upper, lower)
    if known:
        sums = np.clip(sums, lower, upper)
    if shares:
        if known:
            sums, lower, upper = sums / whole, lower / whole, upper / whole
        else:
            rest = sums[:, -1:] - sums
            top, least = np.maximum(rest + reach, 0.0), np.maximum(rest - reach, 0.0)
            lower = np.where(lower > 0.0, lower / np.where(lower > 0.0, lower + top, 1.0), 0.0)
            below = np.where(upper > 0.0, upper, 1.0)
            upper = np.where(upper > 0.0, below / (below + least), 0.0)
            lower = np.maximum.accumulate(lower, axis=1)
            upper = np.maximum(np.minimum.accumulate(upper[:, ::-1], axis=1)[:, ::-1], lower)
            lower[:, -1:] = upper[:, -1:] = 1.0
            sums = np.clip(sums / np.maximum(sums[:, -1:], 1.0), lower, upper)
        clipped = clipped / np.maximum(clipped[:, -1:], 1e-300)
    if sampled:
        fewest = np.maximum(whole if known else first_sums[:, -1:] - reach, 1.0)
        apart = np.sqrt(np.log(4.0 / alpha) / (2.0 * fewest))
        lower[:, :-1] = np.maximum(lower - apart, 0.0)[:, :-1]
        upper[:, :-1] = np.minimum(upper + apart, 1.0)[:, :-1]
    return table, (sums, lower, upper, clipped)


class Histograms(NamedTuple):
    """Bins of histograms of one size, in their order."""

    x: NoisyValues
    cells: NDArray[np.intp]  # (areas, bins)
    shape: tuple[int, ...]
    labels: pd.Index | None
    total: FloatArray | None  # (areas,)
    alike: bool
    weights: dict[int, FloatArray]

    @classmethod
    def of(cls, x: NoisyValues, by: Any, total: Any) -> Histograms:
        """Find the bins of each area, all of one number."""
        cells, shape, labels = areas_of(x, by)
        sizes = {len(one) for one in cells}
        if len(sizes) != 1 or min(sizes) < 2:
            raise InvalidParameterError(
                f"{x.name} must be histograms of one number of bins, two or more, got "
                f"{', '.join(map(str, sorted(sizes)))} of them: call once for each"
            )
        whole = None if total is None else known_total(total, shape, labels)
        alike = x.weights is None and x.marginal.shape == ()
        return cls(x, np.array(cells), shape, labels, whole, alike, {})

    @property
    def size(self) -> int:
        """How many bins there are."""
        return int(self.cells.shape[1])

    def weight(self, row: int) -> FloatArray:
        """Return cov(Σ(i<=k) yᵢ, Σ yᵢ)/var(Σ yᵢ), (bins,)."""
        row = 0 if self.alike else row
        if row not in self.weights:
            cells = self.cells[row]
            if self.x.weights is None:
                with_all = self.x.variance[cells].cumsum()
            else:
                with_all = self.x.cov(cells).sum(axis=1).cumsum()
            spread = with_all[-1]
            each = np.arange(1.0, self.size + 1.0) / self.size
            # a combined estimate that knows the total has errors that add up to 0
            scale = np.abs(self.x.variance[cells]).sum()
            known = spread <= 1e-12 * scale
            self.weights[row] = each if known else with_all / spread
        return self.weights[row]

    def estimates(self) -> FloatArray:
        """Return cumulative counts, (areas, bins)."""
        sums = self.x.values[self.cells].cumsum(axis=1)
        if self.total is None:
            return sums
        weight = np.stack([self.weight(row) for row in range(len(sums))])
        return np.asarray(sums + weight * (self.total[:, np.newaxis] - sums[:, -1:]))

    def placed(self, found: FloatArray) -> FloatArray:
        """Return what was found for each bin in the order of the values or histograms."""
        if self.is_part:
            return found.ravel()
        out = np.empty(len(self.x))
        out[self.cells] = found
        return out if self.x.labels is not None else out.reshape(self.x.shape)

    @property
    def is_part(self) -> bool:
        """Whether some values are in none, or in several."""
        return len(np.unique(self.cells)) < max(len(self.x), self.cells.size)


def _contrasts(
    table: Histograms, share: float, alpha: float, *, sampled: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return D̂ₖ for all k but the last, and the points below and above that their errors leave."""
    x, size = table.x, table.size
    sums = table.estimates()
    tail = 0.5 * alpha
    if sampled:
        tail *= 0.5 if table.total is not None else 0.25
    whole = sums[:, -1:] if table.total is None else table.total[:, np.newaxis]
    found = (sums - share * whole)[:, :-1]
    low, high = np.empty_like(found), np.empty_like(found)
    triangle = np.tri(size)[:-1]
    for row in range(1 if table.alike else len(found)):
        shift = np.full(size - 1, share) if table.total is None else table.weight(row)[:-1]
        cells = x._take(table.cells[row])
        errors = cells.linear(triangle - shift[:, np.newaxis])
        for law, at in errors.laws():
            # P(error > low) and P(error < -high) are at most this
            low[row, at] = law.isf(tail)
            high[row, at] = -np.asarray(law.ppf(tail))
    if table.alike:
        low[1:], high[1:] = low[0], high[0]
    if sampled:
        above, below = _of_sampling(table, share, 0.25 * alpha)
        low, high = low + above, high + below
    # ends may be on atoms of the errors, which rounding shall not cut off
    slack = 1e-9 * (1.0 + np.abs(found) + low)
    return found, low + slack, high + slack


def _of_sampling(table: Histograms, p: float, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return how far a binomial count is above and below its mean, up to the tail, (areas, 1).

    Of a noisy number of persons, half of the tail is spent on how many there are.
    """
    if table.total is not None:
        n = np.rint(table.total)
        above, below = stats.binom.isf(tail, n, p) - p * n, p * n - stats.binom.ppf(tail, n, p)
        return above[:, np.newaxis], below[:, np.newaxis]
    most = np.empty((len(table.cells), 1))
    for row, cells in enumerate(table.cells):
        x = table.x._take(cells)
        if row == 0 or not table.alike:
            reach = float(x.linear(np.ones((1, table.size))).marginal.isf(0.5 * tail))
        most[row] = max(float(x.values.sum()) + reach, 1.0)
    tilts = np.geomspace(0.25, 4.0, 60) * np.sqrt(-2.0 * np.log(tail) / (most * p * (1.0 - p)))
    tilts = np.minimum(tilts, 500.0)
    above, below = (
        (most * (np.log1p(p * np.expm1(t)) - p * t) - np.log(tail)) / np.abs(t)
        for t in (tilts, -tilts)
    )
    return above.min(axis=1, keepdims=True), below.min(axis=1, keepdims=True)


def edges_of(edges: Any, size: int) -> FloatArray:
    """Check the edges of so many bins."""
    lines = check_array(edges, "edges", finite=False, ndim=1)
    if len(lines) != size + 1 or not (lines[1:] > lines[:-1]).all():
        raise InvalidParameterError(
            f"edges must be {size + 1} rising numbers for {size} bins, got {len(lines)}"
        )
    return lines


def _runs(kept: NDArray[np.bool_]) -> str:
    at = np.flatnonzero(kept)
    runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
