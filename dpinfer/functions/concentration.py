"""Concentration of counts in few cells: shares of the largest, and Lorenz curves, with bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_integer,
    check_reps,
    check_rng,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.functions.segregation import PROVED, IndexIntervals, upper_point
from dpinfer.functions.unbiased import areas_of, known_total, only_noise, within_areas
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import noisy
from dpinfer.releases.noises import Positions
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Uncertainty
from dpinfer.results.labels import check_order, split_labels

CELLS = "share of cells"
_OF_LARGEST = (
    "which cells would be the largest of a population is not identified by a sample without a "
    "model of how cells differ"
)
_TOO_LARGE = "estimates are too large on average: noise makes large cells look larger"
_TOO_LOW = "estimates are too low on average: noise looks like inequality"


def top_share_confint(
    values: Any,
    k: int,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    chosen: Any = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 999,
    rng: RNG = None,
) -> IndexIntervals:
    """Confidence intervals for the share that the k largest cells hold, proved.

    Parameters
    ----------
    values : array, Series, DataFrame, Release or estimate
        The published counts by cell, with independent noises. Each row of a two-dimensional array
        is an area of its own.
    k : int
        How many cells, from 1 to one less than there are.
    total : float, array or Series, optional
        The total N >= 1 of each area, where it is known exactly: published without noise.
    by : list, mapping, Series or str, optional
        Which cells are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise, any symmetric one; left out where ``values`` carries its own.
    chosen : array of bool, optional
        For each cell, whether it is thought to be one of the k largest, as found from *other*
        data. At most k in an area. It can raise the lower ends, which are valid whether it is
        right or not.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: which cells
        would be the largest of a population is not identified by a sample without a model.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    reps : int, default 999
        How many errors are drawn, at least 8/alpha - 1. The intervals hold their level with any.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IndexIntervals
        One interval an area, within k/m and 1 for m cells.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or errors share noises.

    Notes
    -----
    The sum S of the k largest is the maximum over sets of k cells, so that it is convex in the
    counts, and that of noisy counts, Ŝ, is too large on average. With the true set A fixed,
    S <= Ŝ - Σ(A) eᵢ; and S >= Ŝ - M, M the sum of the k largest errors; and for a set fixed
    beforehand S is at least its sum. The points of these errors at α/2, or α/4 with ``chosen``,
    are order statistics of draws. A known total first moves the counts so that they add up to it,
    yᵢ + (vᵢ/Σv)(N - Σy), which makes the errors smaller. Without one the total has an interval
    too, and every point is at half its level. Where cells have noises of several laws, the upper
    end is by the k largest of the errors as well, as it is not known which are in A.

    References
    ----------
    Boyd, S. and Vandenberghe, L. (2004). Convex Optimization, section 3.2.3. Cambridge.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=2.0)
    >>> dpi.functions.top_share_confint([90, 40, 22, 18, 5], 2, total=175, mechanism=noise, rng=1)
    IndexIntervals([0.689143, 0.778286], level 0.95, bound)
    """
    only_noise(uncertainty, "top_share_confint", _OF_LARGEST)
    alpha, reps = check_alpha(alpha), check_reps(reps)
    problem = _problem(values, total, by, mechanism, alpha, reps, check_rng(rng))
    fewest = min(map(len, problem.cells))
    count = check_integer(k, "k", ge=1, le=max(fewest - 1, 1))
    if fewest < 2:
        raise InvalidParameterError("values must have two cells or more in each area, got one")
    mask = None if chosen is None else _chosen(chosen, problem, count)
    sides = 2 if mask is None else 4
    x = problem.x
    found, unknown = np.empty((4, len(problem.cells))), 0
    for area, cells in enumerate(problem.cells):
        y, draws = problem.area(area)
        plug_in = _largest(np.maximum(x.values[cells], 0.0), count)
        whole = np.maximum(x.values[cells], 0.0).sum()
        level = alpha * draws.part
        top = _largest(y, count)
        lower = top - draws.largest(count, level / 2 if mask is None else level / 4)
        if mask is not None:
            own = np.flatnonzero(mask[cells])
            lower = max(lower, y[own].sum() - draws.of(own, level / sides))
        upper = top + draws.fixed(count, level / 2)
        least, most = draws.total(y, level / 2)
        floor = count / len(cells)
        plain = _share(plug_in, whole, floor)
        ends = _share(lower, most, floor), _share(upper, least, 1.0)
        held = np.clip([_share(top, y.sum(), plain), *ends], floor, 1.0)
        unknown += most <= 0.0
        found[:, area] = *held, plain
    return IndexIntervals(
        estimate=found[0].reshape(problem.shape),
        lower=found[1].reshape(problem.shape),
        upper=found[2].reshape(problem.shape),
        plug_in=found[3].reshape(problem.shape),
        alpha=alpha,
        method="bound",
        uncertainty="noise",
        labels=problem.labels,
        assurance="bound",
        guarantee=PROVED,
        notes=(_TOO_LARGE, *_unknown(unknown, len(problem.cells))),
    )


def lorenz_bands(
    values: Any,
    *,
    total: Any = None,
    by: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 999,
    rng: RNG = None,
) -> IndexIntervals:
    """Simultaneous confidence bands for the Lorenz curve of confidential counts, proved.

    Parameters
    ----------
    values, total, by, mechanism, uncertainty
        As for :func:`top_share_confint`; at least two cells, as many in each area.
    alpha : float, default 0.05
        One minus the confidence level of each whole band, in (0, 1).
    reps : int, default 999
        How many errors are drawn, at least 8/alpha - 1. The band holds its level with any number.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IndexIntervals
        For j = 1 ... m of the m cells of an area an interval for the share that the j smallest
        hold, all together; of one area under the labels j/m, of several in rows. :func:`plot_lorenz
        <dpinfer.plotting.plot_lorenz>` draws it.

    Raises
    ------
    InvalidParameterError
        As for :func:`top_share_confint`.

    Notes
    -----
    The curve is about cells: how equal their counts are. The bounds are those of
    :func:`top_share_confint` for all k at once: S(k) <= Ŝ(k) + q·√(k(1 - k/m)), or q·√k without a
    known total, with q the order statistic of the largest of the errors in these units, summed in
    the true order of the cells, whose law is that in any order; and S(k) >= Ŝ(k) - μ(k) - q·s(k),
    with means and standard deviations of the sums of the k largest errors from other draws. As the
    true curve is convex, its upper band is lowered to the largest convex curve below it, and the
    lower one rises with j: both cover as often.

    The curve of noisy counts is too low on average: noise looks like inequality. Where noise is
    larger than the differences between cells, the band reaches up to the diagonal.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=2.0)
    >>> band = dpi.functions.lorenz_bands([90, 40, 22, 18, 5], total=175, mechanism=noise, rng=1)
    >>> band.lower.round(2).to_numpy(), band.upper.round(2).to_numpy()
    (array([0.  , 0.08, 0.21, 0.45, 1.  ]), array([0.08, 0.19, 0.32, 0.54, 1.  ]))
    """
    only_noise(uncertainty, "lorenz_bands", _OF_LARGEST)
    alpha, reps = check_alpha(alpha), check_reps(reps)
    problem = _problem(values, total, by, mechanism, alpha, reps, check_rng(rng))
    sizes = {len(cells) for cells in problem.cells}
    if len(sizes) != 1 or min(sizes) < 2:
        raise InvalidParameterError(
            "values must have as many cells in each area, two or more, got "
            f"{', '.join(map(str, sorted(sizes)))}: call once for each area"
        )
    (size,) = sizes
    diagonal = np.arange(1.0, size + 1.0) / size
    found, unknown = np.empty((4, len(problem.cells), size)), 0
    for area, cells in enumerate(problem.cells):
        y, draws = problem.area(area)
        clipped = np.sort(np.maximum(problem.x.values[cells], 0.0))
        top = np.sort(y)[::-1].cumsum()[:-1]
        level = alpha * draws.part
        above, below = draws.together(level / 2)
        least, most = draws.total(y, level / 2)
        # of the j = m - k smallest
        ends = np.ones((3, size))
        unknown += most <= 0.0
        plain = clipped.cumsum() / clipped.sum() if clipped[-1] > 0.0 else diagonal
        for row, one, whole, otherwise in (
            (0, top, float(y.sum()), 1.0 - plain[-2::-1]),
            (1, top + above, least, 1.0),
            (2, top - below, most, 0.0),
        ):
            shares = one / whole if whole > 0.0 else np.broadcast_to(otherwise, size - 1)
            ends[row, :-1] = 1.0 - shares[::-1]
        middle, lower, upper = np.clip(ends, 0.0, diagonal)
        found[:3, area] = middle, np.maximum.accumulate(lower), _convex(upper)
        found[3, area] = plain
    labels = None
    if problem.labels is not None or problem.shape == ():
        import pandas as pd

        labels = pd.Index(diagonal, name=CELLS)
        if problem.labels is not None:
            labels = within_areas(problem.labels, len(problem.labels), labels)
    shape = (*problem.shape, size) if labels is None else (len(labels),)
    return IndexIntervals(
        estimate=found[0].reshape(shape),
        lower=found[1].reshape(shape),
        upper=found[2].reshape(shape),
        plug_in=found[3].reshape(shape),
        alpha=alpha,
        method="bound",
        uncertainty="noise",
        simultaneous=True,
        labels=labels,
        assurance="bound",
        guarantee=PROVED,
        notes=(_TOO_LOW, *_unknown(unknown, len(problem.cells))),
    )


class _Draws:
    """Draws of the errors of the cells of an area, (reps, m)."""

    def __init__(self, errors: FloatArray, pilot: FloatArray, known: bool, exchangeable: bool):
        self.errors, self.pilot, self.known = errors, pilot, known
        self.exchangeable = exchangeable
        self.part = 1.0 if known else 0.5
        self.sums: FloatArray | None = None
        self.points: dict[Any, Any] = {}

    def _once(self, key: Any, find: Any) -> Any:
        if key not in self.points:
            self.points[key] = find()
        return self.points[key]

    def largest(self, k: int, tail: float) -> float:
        """Return the upper point of the sum of the k largest errors."""
        return float(
            self._once(("largest", k, tail), lambda: upper_point(_largest(self.errors, k), tail))
        )

    def fixed(self, k: int, tail: float) -> float:
        """Return one for the sum of the errors of k cells, whichever they are, with sign turned."""

        def find() -> float:
            if self.exchangeable:
                return self.of(np.arange(k), tail)
            return upper_point(_largest(-self.errors, k), tail)

        return float(self._once(("fixed", k, tail), find))

    def of(self, cells: Positions, tail: float) -> float:
        """Return one for the sum of the errors of these cells, whose law is symmetric."""
        if not len(cells):
            return 0.0
        return upper_point(np.abs(self.errors[:, cells].sum(axis=1)), 2.0 * tail)

    def total(self, y: FloatArray, tail: float) -> tuple[float, float]:
        whole = float(y.sum())
        if self.known:
            return whole, whole
        reach = self._once(
            ("total", tail), lambda: upper_point(np.abs(self.errors.sum(axis=1)), 2.0 * tail)
        )
        return whole - reach, whole + reach

    def together(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return how far S(k) is above and below that of noisy counts, for k = 1 ... m - 1."""

        def find() -> tuple[FloatArray, FloatArray]:
            size = self.errors.shape[1]
            k = np.arange(1.0, size)
            sums = [
                np.sort(one, axis=1)[:, ::-1].cumsum(axis=1)[:, :-1]
                for one in (self.errors, self.pilot)
            ]
            mean, spread = sums[1].mean(axis=0), sums[1].std(axis=0)
            spread = np.where(spread > 0.0, spread, 1.0)
            q = upper_point(((sums[0] - mean) / spread).max(axis=1), tail)
            below = mean + q * spread
            if not self.exchangeable:
                turned = np.sort(-self.errors, axis=1)[:, ::-1].cumsum(axis=1)[:, :-1]
                q = upper_point(((turned - mean) / spread).max(axis=1), tail)
                return mean + q * spread, below
            unit = np.sqrt(k * (1.0 - k / size) if self.known else k)
            walk = -self.errors.cumsum(axis=1)[:, :-1] / unit
            return upper_point(walk.max(axis=1), tail) * unit, below

        found: tuple[FloatArray, FloatArray] = self._once(("together", tail), find)
        return found


class _Problem(NamedTuple):
    x: NoisyValues
    cells: list[Positions]
    shape: tuple[int, ...]
    labels: Any
    total: FloatArray | None
    reps: int
    rng: np.random.Generator
    alike: bool
    shared: dict[int, _Draws]

    def area(self, area: int) -> tuple[FloatArray, _Draws]:
        """Return the counts, made to add up to a known total, and draws of their errors."""
        cells = self.cells[area]
        y, variance = self.x.values[cells], self.x.variance[cells]
        share = variance / variance.sum() if variance.any() else np.full(len(cells), 1 / len(cells))
        if self.total is not None:
            y = y + share * (self.total[area] - y.sum())
        if self.alike and len(cells) in self.shared:
            return y, self.shared[len(cells)]
        drawn = []
        for _ in range(2):
            errors = self.x._take(cells).draw(self.reps, rng=self.rng)
            if self.total is not None:
                errors = errors - share * errors.sum(axis=1, keepdims=True)
            drawn.append(errors)
        self.shared[len(cells)] = _Draws(drawn[0], drawn[1], self.total is not None, self.alike)
        return y, self.shared[len(cells)]


def _problem(
    values: Any,
    total: Any,
    by: Any,
    mechanism: Any,
    alpha: float,
    reps: int,
    rng: np.random.Generator,
) -> _Problem:
    if reps + 1 < 8.0 / alpha:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(8.0 / alpha) - 1:.6g} for alpha = {alpha:g}, got {reps}"
        )
    x = noisy(values, mechanism=mechanism)
    x.need(unruled=True, independent=True, who="the share of the largest cells")
    cells, shape, labels = areas_of(x, by)
    whole = None if total is None else known_total(total, shape, labels)
    if not x.variance.any():
        sums = np.array([x.values[own].sum() for own in cells])
        if whole is not None and (whole != sums).any():
            at = int((whole != sums).argmax())
            raise InvalidParameterError(
                f"total must be the sum of counts without noise, {sums[at]:g}, got {whole[at]:g}"
            )
        if (sums <= 0.0).any() or (x.values < 0.0).any():
            raise InvalidParameterError(
                "values must be >= 0, and above 0 in some cell of each area, where they have no "
                "noise, as shares of a total of 0 mean nothing"
            )
        whole = sums
    alike = x.weights is None and x.marginal.shape == ()
    return _Problem(x, cells, shape, labels, whole, reps, rng, alike, {})


def _chosen(chosen: Any, problem: _Problem, k: int) -> NDArray[np.bool_]:
    if getattr(chosen, "dtype", None) == np.bool_:
        chosen = chosen * 1.0
    elif isinstance(chosen, (list, tuple)) and all(type(one) is bool for one in chosen):
        chosen = [float(one) for one in chosen]
    given, own = split_labels(chosen, "chosen")
    x = problem.x
    check_order(own, x.labels, "chosen", "the cells")
    laid_out = given.ndim == 1 or x.labels is not None or given.shape == x.shape
    if given.size != len(x) or not laid_out or not np.isin(given, (0.0, 1.0)).all():
        raise InvalidParameterError(
            f"chosen must be True or False for each of the {len(x)} cells, got shape {given.shape}"
        )
    mask: NDArray[np.bool_] = given.ravel() == 1.0
    most = max(int(mask[cells].sum()) for cells in problem.cells)
    if most > k:
        raise InvalidParameterError(
            f"chosen must name at most k={k} cells in each area, got {most} in one"
        )
    return mask


def _largest(counts: FloatArray, k: int) -> Any:
    """Return the sum of the k largest in the last axis."""
    size = counts.shape[-1]
    return np.partition(counts, size - k, axis=-1)[..., size - k :].sum(axis=-1)


def _share(part: float, whole: float, otherwise: float) -> float:
    return part / whole if whole > 0.0 else otherwise


def _unknown(lost: int, size: int) -> tuple[str, ...]:
    if not lost:
        return ()
    return (f"in {lost} of {size} areas the counts are below what noise is: every share is left",)


def _convex(upper: FloatArray) -> FloatArray:
    """Return the largest convex curve through 0 below one, by pooling its slopes."""
    slopes: list[list[float]] = []
    for rise in np.diff(upper, prepend=0.0):
        slopes.append([float(rise), 1.0])
        while len(slopes) > 1 and slopes[-2][0] > slopes[-1][0]:
            slope, run = slopes.pop()
            last = slopes[-1]
            last[0] = (last[0] * last[1] + slope * run) / (last[1] + run)
            last[1] += run
    return np.concatenate([np.full(int(run), slope) for slope, run in slopes]).cumsum()
