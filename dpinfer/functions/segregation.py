"""Proved intervals for indices of segregation: dissimilarity, and the Gini index by way of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_reps,
    check_rng,
    check_scalar,
    freeze,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.functions._worst import noise_within
from dpinfer.functions.unbiased import (
    OF_CELLS,
    areas_of,
    known_total,
    only_noise,
    refuse_shared,
)
from dpinfer.intervals.ratios import share_confint
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import noisy, noisy_pair
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ConfidenceSets, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels, split_labels

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.releases.noises import Positions

PairMechanism = Mechanism | tuple[Mechanism | None, Mechanism | None] | None

PROVED = "proved, conservative"
_OF_SHARE = (
    "the share of a group in the population of a cell has the intervals of "
    "dpinfer.proportion_confint, to be divided by that in the whole"
)
_TOO_LARGE = "estimates are too large on average, more so the smaller the cells"
_OPEN = "a tenth of alpha is spent on each noisy total; exact totals make intervals narrower"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IndexIntervals(Intervals):
    """Confidence intervals for functions of many confidential counts, with plug-in values.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes, mc_error
        As for :class:`~dpinfer.results.Intervals`.
    assurance : {"exact", "checked", "bound"}, optional
        ``"bound"``: the intervals are proved, and cover more often than they say.
    plug_in : array of float
        The function of the published counts, clipped at 0, and their sums: biased, for comparison.
    guarantee : str
        What is known of the intervals: ``"proved, conservative"``, ``"approximate"`` and the like.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> black, white = [30, 5, 65], [20, 75, 5]
    >>> found = dpi.functions.dissimilarity_confint(
    ...     black, white, totals=(100, 100), mechanism=dpi.Geometric(scale=1.0), rng=1
    ... )
    >>> found.estimate, found.plug_in, found.guarantee
    (np.float64(0.7), np.float64(0.7), 'proved, conservative')
    """

    title: ClassVar[str] = "Confidence intervals for functions of counts"
    _by_row: ClassVar[tuple[str, ...]] = ("estimate", "lower", "upper", "plug_in")

    plug_in: Any
    guarantee: str

    def __post_init__(self) -> None:
        super().__post_init__()
        plug_in = freeze(check_array(self.plug_in, "plug_in"))
        object.__setattr__(self, "plug_in", attach_labels(plug_in, self.labels))

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says: the guarantee as well."""
        return [("Guarantee", self.guarantee), *super().facts]

    def summary_frame(self) -> pd.DataFrame:
        """Return the table of intervals with ``plug_in``, and ``guarantee`` in ``attrs``."""
        frame = super().summary_frame()
        frame["plug_in"] = np.ravel(self.plug_in)
        frame.attrs["guarantee"] = self.guarantee
        return frame


def dissimilarity_confint(
    group: Any,
    other: Any,
    *,
    totals: tuple[Any, Any] | None = None,
    by: Any = None,
    mechanism: PairMechanism = None,
    signs: Any = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 999,
    rng: RNG = None,
) -> IndexIntervals:
    """Confidence intervals for the index of dissimilarity D = ½Σ abs(bᵢ/B - wᵢ/W), proved.

    Parameters
    ----------
    group, other : array, Series, DataFrame, Release or estimate
        The published counts b and w of two groups by cell, with independent noises of any law. Each
        row of two-dimensional arrays is an area of its own.
    totals : pair of float, array, Series, Release, estimate or None, optional
        The sizes B >= 1 and W >= 1 of the groups in each area. Numbers are known exactly:
        published without noise, and not the sums of noisy counts. Totals published with noises of
        their own are given as they are, as ``dpinfer.noisy(total, mechanism=law)``. Left out, or
        None for a group, they are known as the sums of the published counts are.
    by : list, mapping, Series or str, optional
        Which cells are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw or pair
        The law of the noise of both groups, or of each; left out where they carry their own.
    signs : array of -1 and 1, optional
        For each cell, 1 where the group is thought to be over-represented, as found from *other*
        data: another year, or a coarser level. It can only raise the lower ends of the intervals,
        which are valid whether it is right or not.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: sampling looks like
        segregation by itself, by an amount that the counts do not tell.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    reps : int, default 999
        How many errors are drawn, at least 2/alpha - 1, and 10/alpha - 1 where a total is noisy.
        The intervals hold their level with any number; with more, they depend less on the draws.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IndexIntervals
        One interval an area, within [0, 1]. Estimates are D of the noisy counts, which is too
        large on average.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or errors share noises.

    See Also
    --------
    dpinfer.unbiased : D has an unbiased estimate under geometric noise, but a very imprecise one.

    Notes
    -----
    Let dᵢ = yᵢ/B - zᵢ/W be the noisy differences, δᵢ their errors and D̂ = ½Σ abs(dᵢ). By convexity
    E D̂ >= D. With the true signs sᵢ, D = ½Σ sᵢ(dᵢ - δᵢ) <= D̂ - ½Σ sᵢδᵢ, and as the errors are
    independent and symmetric the last sum has the law of ½Σ δᵢ; by the triangle inequality
    D >= D̂ - ½Σ abs(δᵢ); and for any signs fixed beforehand D >= ½Σ sᵢ(dᵢ - δᵢ). So with upper α/2
    points q₁ of ½Σ δᵢ and q₂ of ½Σ abs(δᵢ), D is within [D̂ - q₂, D̂ + q₁] with probability 1 - α or
    more, whatever the counts are; with signs, where the lower end is the larger of two, each point
    of the lower side is one at α/4.

    *Noisy totals.* In bᵢ/B - wᵢ/W the means of b and w over the m cells of an area cancel out, as
    shares of both groups add up to 1: D = ½Σ abs(β(bᵢ - b̄) - ω(wᵢ - w̄)) with β = 1/B and ω = 1/W.
    A tenth of α is spent on an interval for each noisy total. For all β and ω within, D is between
    the least value of this function of the noisy counts, less the upper point of the largest of
    ½Σ abs(β(eᵢ - ē) - ω(uᵢ - ū)), and its greatest value, which is at a corner, plus the largest
    upper point over k of the errors of k cells. Where cells have noises of several laws the upper
    end is that of the counts themselves, less their means no more.

    The points are order statistics of draws: as the true error and R draws have one law, it exceeds
    the k-th smallest with probability 1 - k/(R + 1) at most. Areas of one law share their draws, so
    that intervals of several areas are not independent of each other.

    The interval is wide where cells are small next to the noise: no narrow one is valid there. The
    index of a coarser level is never above that of a finer one: its lower end holds for both.

    References
    ----------
    Duncan, O. D. and Duncan, B. (1955). A methodological analysis of segregation indexes. American
    Sociological Review 20(2), 210-217.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> black, white = [30, 5, 65], [20, 75, 5]
    >>> noise = dpi.DiscreteGaussian(sigma=2.0)
    >>> found = dpi.functions.dissimilarity_confint(
    ...     black, white, totals=(100, 100), mechanism=noise, rng=1
    ... )
    >>> bool(found.lower < 0.7 < found.upper)
    True
    """
    only_noise(uncertainty, "dissimilarity_confint", OF_CELLS)
    alpha = check_alpha(alpha)
    reps = check_reps(reps)
    areas = _areas(group, other, totals, by, mechanism)
    sides = 1 if signs is None else 2
    fewest = 1.0 / _OF_TOTAL if areas.open_totals.any() else 2.0 * sides
    if reps + 1 < fewest / alpha:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(fewest / alpha) - 1:.6g} for alpha = {alpha:g}"
            f"{' with noisy totals' if fewest > 4 else ' with signs' if sides > 1 else ''}, got "
            f"{reps}"
        )
    pattern = None if signs is None else _signs(signs, areas.first)
    draws = _Draws(areas, reps, check_rng(rng))
    ends = _Ends(areas, draws, pattern, alpha)
    found = np.array([ends.of(area) for area in range(areas.size)]).T
    estimate, lower, upper = np.clip(found, 0.0, 1.0)
    return IndexIntervals(
        estimate=estimate.reshape(areas.shape),
        lower=lower.reshape(areas.shape),
        upper=upper.reshape(areas.shape),
        alpha=alpha,
        method="bound",
        uncertainty="noise",
        labels=areas.labels,
        assurance="bound",
        plug_in=areas.plug_in(_dissimilarity),
        guarantee=PROVED,
        notes=(_TOO_LARGE, *((_OPEN,) if areas.open_totals.any() else ())),
    )


def gini_confint(
    group: Any,
    other: Any,
    *,
    totals: tuple[Any, Any] | None = None,
    by: Any = None,
    mechanism: PairMechanism = None,
    signs: Any = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 999,
    rng: RNG = None,
) -> IndexIntervals:
    """Confidence intervals for the Gini index of segregation, proved and wide.

    Parameters
    ----------
    group, other, totals, by, mechanism, signs, uncertainty, alpha, reps, rng
        As for :func:`dissimilarity_confint`.

    Returns
    -------
    IndexIntervals
        One interval an area. Estimates are the plug-in values, which are too large on average.

    Raises
    ------
    InvalidParameterError
        As for :func:`dissimilarity_confint`.

    Notes
    -----
    G = ΣΣ abs(bᵢwⱼ - bⱼwᵢ)/(2BW) is twice the area between the diagonal and the segregation curve,
    which is convex and at most D below the diagonal: D <= G <= 1 - (1 - D)². The interval has
    these of the ends of that of D. It does not shrink to a point with the noise; without any it
    is G itself.

    References
    ----------
    Duncan, O. D. and Duncan, B. (1955). A methodological analysis of segregation indexes. American
    Sociological Review 20(2), 210-217.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> black, white = [30, 5, 65], [20, 75, 5]
    >>> noise = dpi.DiscreteGaussian(sigma=2.0)
    >>> found = dpi.functions.gini_confint(
    ...     black, white, totals=(100, 100), mechanism=noise, rng=1
    ... )
    >>> found.plug_in.round(4), bool(found.lower < 0.78 < found.upper)
    (np.float64(0.815), True)
    """
    only_noise(uncertainty, "gini_confint", OF_CELLS)
    areas = _areas(group, other, totals, by, mechanism)
    pair = replace(areas.first, name="group"), replace(areas.second, name="other")
    found = dissimilarity_confint(
        *pair, totals=totals, by=by, signs=signs, alpha=alpha, reps=reps, rng=rng
    )
    plug_in = areas.plug_in(_gini)
    lower, upper = found._ends
    exact = np.array([not areas.noise_in(cells) for cells in areas.cells]).reshape(areas.shape)
    return replace(
        found,
        estimate=plug_in,
        plug_in=plug_in,
        lower=np.where(exact, plug_in, lower),
        upper=np.where(exact, plug_in, 1.0 - np.square(1.0 - upper)),
        notes=(
            "estimates are plug-in values, which are biased; intervals are by way of D",
            *found.notes[1:],
        ),
    )


def location_quotient_confint(
    group: Any,
    rest: Any,
    *,
    totals: tuple[float, float],
    mechanism: PairMechanism = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    simultaneous: bool = False,
) -> ConfidenceSets:
    """Confidence sets for location quotients: shares of a group in cells over that in the whole.

    Parameters
    ----------
    group, rest : float, array, Series, DataFrame, Release or estimate
        The published counts x of the group and w of all others by cell, with independent noises of
        any law.
    totals : pair of float
        The sizes X >= 1 of the group and W >= 1 of all others in the whole area, known exactly.
    mechanism : NoiseLaw, sequence of NoiseLaw or pair
        The law of the noise of both, or of each; left out where they carry their own.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: that
        of the people behind the counts is a ratio of :func:`dpinfer.proportion_confint`.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    simultaneous : bool, default False
        Whether the level holds for all cells together.

    Returns
    -------
    ConfidenceSets
        One set a cell, within 0 and (X + W)/X. Of a small cell it can be all of that.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The quotient is [x/(x + w)]/[X/(X + W)]: the exact set of :func:`dpinfer.share_confint`, within
    0 and 1, times (X + W)/X.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> dpi.functions.location_quotient_confint(
    ...     [30, 5], [20, 75], totals=(100, 300), mechanism=dpi.Geometric(scale=1.0)
    ... ).lower.round(2)
    array([2.24, 0.1 ])
    """
    only_noise(uncertainty, "location_quotient_confint", _OF_SHARE)
    if not isinstance(totals, tuple) or len(totals) != 2:
        raise InvalidParameterError("totals must be a pair: those of group and of rest")
    own, other = (check_scalar(one, "totals", ge=1, le=1e15) for one in totals)
    shares = share_confint(
        group, rest, mechanism=mechanism, alpha=alpha, simultaneous=simultaneous
    ).restrict(lower=0, upper=1)
    factor = (own + other) / own
    return replace(
        shares,
        estimate=np.asarray(shares.estimate) * factor,
        lower=np.asarray(shares.lower) * factor,
        upper=np.asarray(shares.upper) * factor,
    )


@dataclass(frozen=True, eq=False)
class _Areas:
    """The counts of two groups, and which cells are of one area."""

    first: NoisyValues
    second: NoisyValues
    cells: list[Positions]
    shape: tuple[int, ...]
    labels: pd.Index | None
    sizes: FloatArray  # B and W, or what is published of them, shape (2, areas)
    totals: tuple[NoisyValues | None, NoisyValues | None]  # published with noises of their own
    open_totals: NDArray[np.bool_]  # whether B and W are noisy

    @property
    def size(self) -> int:
        return len(self.cells)

    def noise_in(self, cells: Positions) -> bool:
        return bool(self.first.variance[cells].any() or self.second.variance[cells].any())

    def plug_in(self, index: Callable[[FloatArray, FloatArray], float]) -> FloatArray:
        """Return the index of the counts clipped at 0; 0 where a group has none left."""
        found = np.zeros(self.size)
        for area, cells in enumerate(self.cells):
            b, w = (np.maximum(x.values[cells], 0.0) for x in (self.first, self.second))
            if b.sum() > 0.0 and w.sum() > 0.0:
                found[area] = index(b / b.sum(), w / w.sum())
        return found.reshape(self.shape)


def _dissimilarity(b: FloatArray, w: FloatArray) -> float:
    return 0.5 * float(np.abs(b - w).sum())


def _gini(b: FloatArray, w: FloatArray) -> float:
    """Return twice the area between the diagonal and the segregation curve."""
    order = np.argsort(b / np.where(b + w > 0.0, b + w, 1.0), kind="stable")
    below = np.concatenate([[0.0], np.cumsum(b[order])])
    return 1.0 - float(((below[1:] + below[:-1]) * w[order]).sum())


def _areas(group: Any, other: Any, totals: Any, by: Any, mechanism: PairMechanism) -> _Areas:
    first, second = noisy_pair(group, other, mechanism, ("group", "other"))
    for x in (first, second):
        x.need(unruled=True, independent=True, who="the index")
    if len(first) != len(second):
        raise InvalidParameterError(
            f"group and other must have as many cells, got {len(first)} and {len(second)}"
        )
    refuse_shared(first, second)
    cells, shape, labels = areas_of(first, by)
    if totals is None:
        totals = (None, None)
    if not isinstance(totals, tuple) or len(totals) != 2:
        raise InvalidParameterError("totals must be a pair: those of group and of other")
    sizes = np.empty((2, len(cells)))
    published: list[NoisyValues | None] = []
    for at, (one, x) in enumerate(zip(totals, (first, second), strict=True)):
        name = f"totals[{at}]"
        held = noisy(one, name=name) if hasattr(one, "__noisy__") else None
        if held is not None and not (held.variance.any() and x.variance.any()):
            one, held = _plain(held) if x.variance.any() else None, None
        published.append(held)
        if held is not None:
            sizes[at] = _published(held, name, (first, second), shape, labels)
        elif one is not None:
            sizes[at] = known_total(one, shape, labels, name)
        else:
            sizes[at] = [x.values[own].sum() for own in cells]
            if not x.variance.any():
                check_array(sizes[at], f"sums of {x.name}", gt=0)
    exact = [
        one is not None or not x.variance.any()
        for one, x in zip(totals, (first, second), strict=True)
    ]
    noisy_ones = np.array(
        [held is not None or not known for held, known in zip(published, exact, strict=True)]
    )
    return _Areas(
        first, second, cells, shape, labels, sizes, (published[0], published[1]), noisy_ones
    )


def _plain(x: NoisyValues) -> Any:
    if x.labels is None:
        return x.values.reshape(x.shape)
    import pandas as pd

    return pd.Series(x.values, x.labels)


def _published(
    total: NoisyValues,
    name: str,
    counts: tuple[NoisyValues, NoisyValues],
    shape: tuple[int, ...],
    labels: pd.Index | None,
) -> FloatArray:
    """Return totals published with noises of their own."""
    total.need(unruled=True, who="the index")
    for x in counts:
        refuse_shared(x, total)
    given = total.values if total.labels is None else _plain(total)
    return known_total(np.maximum(given, 1.0), shape, labels, name)


def _signs(signs: Any, x: NoisyValues) -> FloatArray:
    given, own = split_labels(signs, "signs")
    if own is not None and x.labels is not None and not own.equals(x.labels):
        raise InvalidParameterError("signs must have the labels of the cells in their order")
    if given.size != len(x) or not (np.abs(given) == 1.0).all():
        raise InvalidParameterError(
            f"signs must be -1 or 1 for each of the {len(x)} cells, got {given.size} numbers from "
            f"{given.min():g} to {given.max():g}"
        )
    return given.ravel()


_OF_TOTAL = 0.1
"""Part of alpha that is spent on where each noisy total is."""


class _Ends:
    """The estimate and both ends of the interval of an area."""

    def __init__(
        self, areas: _Areas, draws: _Draws, pattern: FloatArray | None, alpha: float
    ) -> None:
        self.areas, self.draws, self.pattern, self.alpha = areas, draws, pattern, alpha
        self.level = 0.5 * alpha * (1.0 - _OF_TOTAL * int(areas.open_totals.sum()))
        self.own_level = self.level / (1 if pattern is None else 2)
        self.errors: dict[int, _Errors] = {}
        self.reach = np.zeros((2, areas.size))
        self.own_sums = areas.open_totals.copy()
        for at, total in enumerate(areas.totals):
            if total is not None:
                self.own_sums[at] = False
                self.reach[at] = noise_within(total, 0.5 * _OF_TOTAL * alpha)

    def of(self, area: int) -> tuple[float, float, float]:
        cells = self.areas.cells[area]
        y, z = (x.values[cells] for x in (self.areas.first, self.areas.second))
        signs = None if self.pattern is None else self.pattern[cells]
        errors = self.draws.of(cells) if self.draws.noisy else []
        sizes = np.maximum(self.areas.sizes[:, area], 1e-300)
        if not self.areas.open_totals.any():
            return self._known(y, z, errors, 1.0 / sizes, signs)
        held = self._held(errors, len(cells))
        reach = np.where(self.own_sums, held.reach, self.reach[:, area])
        box = 1.0 / np.maximum([sizes + reach, sizes - reach], 1.0)
        return self._within(y, z, held, 1.0 / np.maximum(sizes, 1.0), box, signs)

    def _known(
        self, y: FloatArray, z: FloatArray, errors: Any, inverse: FloatArray, signs: Any
    ) -> tuple[float, float, float]:
        d = y * inverse[0] - z * inverse[1]
        plain = 0.5 * float(np.abs(d).sum())
        if not errors:
            return plain, plain, plain
        delta = errors[0] - (inverse[1] / inverse[0]) * errors[1]
        scale, ones = 0.5 * inverse[0], np.ones(len(y))
        sums = scale * (delta @ ones)
        sizes = scale * (np.abs(delta, out=delta) @ ones)
        lower = plain - upper_point(sizes, self.own_level)
        if signs is not None:
            along = 0.5 * float((signs * d).sum())
            lower = max(lower, along - upper_point(sums, self.own_level))
        return plain, lower, plain + upper_point(sums, self.level)

    def _within(
        self,
        y: FloatArray,
        z: FloatArray,
        errors: _Errors,
        inverse: FloatArray,
        box: FloatArray,
        signs: Any,
    ) -> tuple[float, float, float]:
        """Return them for all totals in a box, of which the corners are given as inverses.

        The corner where both are least is below the others: a function that is convex, and grows
        in proportion along each ray, is no larger there than where the ray leaves the box.
        """
        a, c = y - y.mean(), z - z.mean()
        corners = [(box[i, 0], box[j, 1]) for i, j in ((1, 1), (0, 1), (1, 0))]
        sizes, ones = np.zeros(len(errors.first)), np.ones(len(y))
        for b, w in corners:
            np.multiply(errors.second, -w / b, out=errors.spare)
            np.add(errors.first, errors.spare, out=errors.spare)
            np.maximum(sizes, 0.5 * b * (np.abs(errors.spare, out=errors.spare) @ ones), out=sizes)
        lower = _least_index(a, c, box) - upper_point(sizes, self.own_level)
        if signs is not None:
            along = -0.5 * _furthest(_parts(-(signs @ a), -(signs @ c)), box)
            sums = 0.5 * _furthest(_parts(errors.first @ signs, errors.second @ signs), box)
            lower = max(lower, float(along) - upper_point(sums, self.own_level))
        first, second = (y, z) if self.draws.shared is None else (a, c)
        upper = max(0.5 * float(np.abs(b * first - w * second).sum()) for b, w in corners)
        k = order_of(len(errors.first), self.level)
        upper += float(np.partition(_furthest(errors.sums, box), k, axis=1)[:, k].max())
        estimate = 0.5 * float(np.abs(inverse[0] * a - inverse[1] * c).sum())
        return estimate, min(lower, estimate), max(upper, estimate)

    def _held(self, errors: Any, size: int) -> _Errors:
        """Return errors less their means, and what is the same for all areas of a size.

        The sums are half of those of all errors; for errors of one law those of the first 1, 2 ...
        m/2 of them less their means, as those of the others have the same law.
        """
        if size in self.errors:
            return self.errors[size]
        totals = np.array([one.sum(axis=1) for one in errors])
        reach = [upper_point(np.abs(one), _OF_TOTAL * self.alpha) for one in totals]
        e, u = (one - one.mean(axis=1, keepdims=True) for one in errors)
        if self.draws.shared is None:
            sums = 0.5 * totals[:, np.newaxis]
        else:
            sums = np.array([one.T[: max(size // 2, 1)].cumsum(axis=0) for one in (e, u)])
        found = _Errors(e, u, np.empty_like(e), _parts(*sums), np.array(reach))
        if self.draws.shared is not None:
            self.errors[size] = found
        return found


class _Errors(NamedTuple):
    """Draws of the errors of an area's cells less their means, and of sums of them."""

    first: FloatArray  # shape (reps, cells)
    second: FloatArray
    spare: FloatArray
    sums: FloatArray  # in parts, shape (4, sums, reps)
    reach: FloatArray  # of the sums of all errors, for each group


def _parts(first: Any, second: Any) -> FloatArray:
    """Return the positive and the negative parts of numbers, and those of minus the others."""
    ends = (f(x, 0.0) for x in (first, -second) for f in (np.maximum, np.minimum))
    return np.array([*ends])


def _furthest(parts: FloatArray, box: FloatArray) -> FloatArray:
    """Return the largest β·first - ω·second for β and ω in a box, elementwise."""
    return np.asarray(np.tensordot(box[::-1].T.ravel(), parts, 1))


def _least_index(a: FloatArray, c: FloatArray, box: FloatArray) -> float:
    """Return the least ½Σ abs(βaᵢ - ωcᵢ) in a box.

    It is convex, and grows along each ray: its least value is where β or ω is least, at the
    weighted median of the points where a term is 0; at both, unless it falls from there along one.
    """
    least = box[0, 0] * a - box[0, 1] * c
    falls = np.sign(least) @ np.array([c, -a]).T > 0.0
    found = 0.5 * float(np.abs(least).sum())
    for one, other, at in ((a, c, 0), (c, a, 1)):
        if not falls[at]:
            continue
        used = other != 0.0
        weight = np.abs(other[used])
        zeros = one[used] * box[0, at] / other[used]
        order = np.argsort(zeros)
        share = np.cumsum(weight[order])
        median = zeros[order][int(np.searchsorted(share, 0.5 * share[-1]))]
        best = float(np.clip(median, box[0, 1 - at], box[1, 1 - at]))
        found = min(found, 0.5 * float(np.abs(one * box[0, at] - best * other).sum()))
    return found


class _Draws:
    """Draws of the errors of the cells of an area, shared by areas where there is one law."""

    def __init__(self, areas: _Areas, reps: int, rng: np.random.Generator) -> None:
        self.pair, self.reps, self.rng = (areas.first, areas.second), reps, rng
        self.noisy = any(x.variance.any() for x in self.pair)
        self.shared: list[FloatArray] | None = None
        if all(x.weights is None and x.marginal.shape == () for x in self.pair) and self.noisy:
            most = max(map(len, areas.cells))
            self.shared = [x._take(np.arange(most)).draw(reps, rng=rng) for x in self.pair]

    def of(self, cells: Positions) -> list[FloatArray]:
        """Return the errors of both groups, each (reps, cells)."""
        if self.shared is not None:
            return [drawn[:, : len(cells)] for drawn in self.shared]
        return [x._take(cells).draw(self.reps, rng=self.rng) for x in self.pair]


def upper_point(drawn: FloatArray, tail: float) -> float:
    """Return the order statistic that one more draw exceeds with this probability at most."""
    k = order_of(drawn.size, tail)
    return float(np.partition(drawn, k)[k])


def order_of(size: int, tail: float) -> int:
    """Return the position, from 0, of that order statistic among so many draws."""
    return int(np.ceil((1.0 - tail) * (size + 1) - 1e-9)) - 1
