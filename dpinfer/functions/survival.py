"""Survival curves and life tables from noisy counts of deaths and withdrawals by interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import sparse, special

from dpinfer._check import (
    FloatArray,
    check_array,
    check_flag,
    check_length,
    check_option,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions._worst import (
    MOST_SUMS,
    check_level,
    chords,
    least_bound,
    noise_within,
    tilts,
    weights_within,
    worst_quantiles,
)
from dpinfer.functions.rates import ASYMPTOTIC, METHODS, Laws, Method, check_counts
from dpinfer.functions.segregation import PROVED, IndexIntervals
from dpinfer.functions.unbiased import area_table
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.releases.coerce import noisy_pair
from dpinfer.releases.noises import Noises
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import UNCERTAINTIES, Intervals, Uncertainty

if TYPE_CHECKING:
    import pandas as pd

Scale = Literal["log-log", "log"]

_SCALES: tuple[Scale, ...] = ("log-log", "log")

_FEWEST_STD = 5.0
"""Standard deviations of their noise that persons at risk are away from 0, to be linearised."""

_OF_BOX = 0.1
"""Part of alpha that is spent on where all counts are."""

_ENTRIES = 4_000_000
"""Weights of noises that are held at once."""

_NAMED = 3  # curves that a note names


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SurvivalCurve(IndexIntervals):
    """Survival curves of areas with their intervals; made by ``survival_confint``.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes, mc_error
        As for :class:`~dpinfer.results.Intervals`, a row for each time of each area.
    assurance, plug_in, guarantee
        As for :class:`IndexIntervals`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> deaths, censored = [30, 28, 40], [10, 12, 287]
    >>> curve = dpi.functions.survival_confint(
    ...     deaths, censored, mechanism=dpi.Geometric(scale=1.0), simultaneous=True
    ... )
    >>> curve.estimate.round(3)
    time
    1.0    0.926
    2.0    0.856
    3.0    0.751
    dtype: float64
    >>> curve.restricted_mean()
    Intervals([2.61593, 2.70091], level 0.95, bound, together)
    """

    title: ClassVar[str] = "Survival curves"
    _drawing: ClassVar[str] = "plot_survival"

    def restricted_mean(self, until: float | None = None) -> Intervals:
        """Return the mean time lived from 0 to a time, by area, from bands.

        Parameters
        ----------
        until : float, optional
            The time, one of those of all curves; by default the last one that all curves reach.

        Returns
        -------
        Intervals
            Σ wⱼ(Sⱼ₋₁ + Sⱼ)/2 over the intervals of width wⱼ, deaths being spread evenly in each,
            with the same sums of the ends of the bands, which hold together. To the end of life it
            is the expectation of life of a life table.

        Raises
        ------
        InvalidParameterError
            If the intervals do not hold together, or a curve does not reach the time.
        """
        if not self.simultaneous:
            raise InvalidParameterError(
                "restricted_mean needs bands: make the curve with simultaneous=True"
            )
        import pandas as pd

        index: Any = self.labels
        times = np.asarray(index.get_level_values(-1), dtype=np.float64)
        several = index.nlevels > 1
        owner, areas = pd.factorize(index.droplevel(-1)) if several else (np.zeros(len(times)), [0])
        reached = [times[owner == at] for at in range(len(areas))]
        end = min(each[-1] for each in reached)
        end = end if until is None else check_scalar(until, "until")
        if any(end not in each for each in reached):
            raise InvalidParameterError(
                f"until must be a time that all curves reach, got {end:g} where they end at "
                f"{min(each[-1] for each in reached):g}"
            )
        found = np.zeros((3, len(areas)))
        for at, each in enumerate(reached):
            for place, held in enumerate((self.estimate, *self._ends)):
                curve = np.concatenate([[1.0], np.asarray(held)[owner == at][each <= end]])
                width = np.diff(np.concatenate([[0.0], each[each <= end]]))
                found[place, at] = 0.5 * (width * (curve[1:] + curve[:-1])).sum()
        estimate, lower, upper = found if several else found[:, 0]
        return Intervals(
            estimate=estimate,
            lower=lower,
            upper=upper,
            alpha=self.alpha,
            method=self.method,
            uncertainty=self.uncertainty,
            labels=areas if several else None,
            simultaneous=True,
            assurance=self.assurance,
        )


def survival_confint(
    deaths: Any,
    censored: Any,
    *,
    times: Any = None,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
    method: Method = "bound",
    scale: Scale = "log-log",
    simultaneous: bool = False,
    alpha: float = 0.05,
) -> SurvivalCurve:
    """Survival curves from noisy counts of deaths and of withdrawals in intervals of time.

    Parameters
    ----------
    deaths, censored : array, Series, DataFrame, Release or estimate
        The published counts d of deaths and c of those who left alive in each interval, in the
        order of time; those who survived the last are among its c. Each row of
        two-dimensional arrays is an area of its own. If persons at risk were published as well,
        combine all first (:func:`dpinfer.combine`) and pass the deaths and withdrawals of the fit.
    times : array, optional
        The ends of the intervals, > 0 and increasing; by default 1, 2, ...
    by : list, mapping, Series or str, optional
        Which counts are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw or pair
        The law of the noise of both, or of each; left out where they carry their own.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the Kaplan-Meier curve of the confidential counts. ``"noise+sampling"``: the
        survival of the population from which the persons came, censoring being independent.
    method : {"bound", "asymptotic"}
        ``"bound"`` is proved. ``"asymptotic"`` takes errors on ``scale`` for normal.
    scale : {"log-log", "log"}
        The scale on which ``"asymptotic"`` works.
    simultaneous : bool, default False
        Whether the intervals of each curve hold together, as bands.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1), and at least 1e-50.

    Returns
    -------
    SurvivalCurve
        A row for each time of each area. A curve ends where so few persons are left at risk that
        nothing is known, which a note says.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    NotEstimableError
        If no curve has a first interval.

    Notes
    -----
    S_t = Π_{j<=t} (1 - dⱼ/nⱼ), with nⱼ = Σ_{i>=j} (dᵢ + cᵢ) at risk, whose noises u add up and are
    correlated. With eⱼ the noise of dⱼ, N = n + u and Ŝ the curve of the published counts, it holds
    without any approximation that

        log Ŝ_t/S_t = Σ_{j<=t} log(1 - Mⱼ(1 - uⱼ/Nⱼ)),   Mⱼ = (eⱼ - uⱼdⱼ/nⱼ)/(nⱼ - dⱼ).

    ``"bound"`` spends α/10 on bounds of the noises of dⱼ, nⱼ and nⱼ - dⱼ and of Mⱼ, all together.
    Σ Mⱼ is a sum of noises with weights within these bounds, and adds its largest quantile; the
    rest, uⱼMⱼ/Nⱼ and what the logarithm bends, is bounded term by term. With sampling, every dⱼ/nⱼ
    of the population is within Clopper and Pearson's limits over all counts within bounds of the
    noise, all together.

    ``"asymptotic"``: log S has the variance of the linear function above, to which Greenwood's sum
    of 1/(nⱼ - dⱼ) - 1/nⱼ is added for sampling, both corrected for noise to the second order, as is
    the estimate. It goes on while n and n - d are five standard deviations of their noise or more.

    References
    ----------
    Kaplan, E. L. and Meier, P. (1958). Nonparametric estimation from incomplete observations.
    Journal of the American Statistical Association 53(282), 457-481.
    Gill, R. D. and Johansen, S. (1990). A survey of product-integration with a view toward
    application in survival analysis. Annals of Statistics 18(4), 1501-1555.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> deaths, censored = [30, 28, 40, 35, 22], [10, 12, 9, 15, 246]
    >>> noise = dpi.DiscreteGaussian(sigma=1.0)
    >>> dpi.functions.survival_confint(deaths, censored, mechanism=noise).lower.round(3)
    time
    1.0    0.927
    2.0    0.860
    3.0    0.764
    4.0    0.678
    5.0    0.621
    dtype: float64
    """
    alpha = check_level(alpha)
    way = check_option(method, "method", METHODS)
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    axis = check_option(scale, "scale", _SCALES)
    together = check_flag(simultaneous, "simultaneous")
    life = _Lives.of(deaths, censored, by, mechanism)
    at = _times(times, life.d.shape[1])
    if way == "asymptotic":
        found, there = life.asymptotic(alpha, about, axis, together=together)
    elif about == "noise":
        found, there = life.of_noise(alpha, together=together)
    else:
        found, there = life.of_sampling(alpha)
    there = np.logical_and.accumulate(there, axis=1)
    if not there[:, 0].any():
        raise NotEstimableError(
            "deaths and censored must add up to more persons than their noise may be in the first "
            "interval, which they do in no area: add areas up"
        )
    if together or (about == "noise+sampling" and way == "bound"):
        # the curve goes down, so that bands may, too
        found[2] = np.minimum.accumulate(np.where(there, found[2], 1.0), axis=1)
        lower = np.where(there, found[1], 0.0)
        found[1] = np.maximum.accumulate(lower[:, ::-1], axis=1)[:, ::-1]
        # with little probability no curve is left within the band
        found[1] = np.minimum(found[1], found[2])
        found[0] = np.clip(found[0], found[1], found[2])
        together = True
    estimate, lower, upper, plug_in = (part[there] for part in (*found, life.plug_in))
    return SurvivalCurve(
        estimate=np.clip(estimate, 0.0, 1.0),
        lower=np.clip(lower, 0.0, 1.0),
        upper=np.clip(upper, 0.0, 1.0),
        plug_in=plug_in,
        alpha=alpha,
        method=way,
        uncertainty=about,
        simultaneous=together,
        labels=_labels(life, at, there),
        assurance="bound" if way == "bound" else None,
        guarantee=PROVED if way == "bound" else ASYMPTOTIC,
        notes=_ends_of(life, at, there),
    )


def _times(times: Any, size: int) -> FloatArray:
    if times is None:
        return np.arange(1.0, size + 1.0)
    at = check_array(times, "times", ndim=1, gt=0)
    check_length(at, "times", size, "the intervals")
    if (np.diff(at) <= 0.0).any():
        raise InvalidParameterError(f"times must increase, got {show(times)}")
    return at


def _labels(life: _Lives, at: FloatArray, there: Any) -> pd.Index:
    import pandas as pd

    area, place = np.nonzero(there)
    if not life.shape:
        return pd.Index(at[place], name="time")
    index = pd.RangeIndex(len(there), name="area") if life.labels is None else life.labels
    levels = [index.get_level_values(level).take(area) for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*levels, at[place]], names=[*index.names, "time"])


def _ends_of(life: _Lives, at: FloatArray, there: Any) -> tuple[str, ...]:
    """Say where curves end before their last time."""
    short = np.flatnonzero(~there.all(axis=1))
    if not short.size:
        return ()
    last = there.sum(axis=1)
    names = short if life.labels is None else life.labels[short]
    ends = [at[last[area] - 1] if last[area] else 0.0 for area in short[:_NAMED]]
    if not life.shape:
        return (f"the curve ends at time {ends[0]:g}: too few are at risk after it",)
    shown = ", ".join(f"{show(name)} at {end:g}" for name, end in zip(names, ends, strict=False))
    more = f" and {short.size - _NAMED} more" if short.size > _NAMED else ""
    return (f"curves end before their last time: {shown}{more}: too few are at risk after it",)


@dataclass(frozen=True, eq=False)
class _Lives:
    """Deaths, and persons at risk, of J intervals in each of k areas; arrays are (k, J)."""

    deaths: NoisyValues
    censored: NoisyValues
    cells: Any  # positions, (k, J)
    shape: tuple[int, ...]
    labels: pd.Index | None

    @classmethod
    def of(cls, deaths: Any, censored: Any, by: Any, mechanism: Laws) -> _Lives:
        x, y = noisy_pair(deaths, censored, mechanism, ("deaths", "censored"))
        check_counts(x, y, "survival_confint")
        table, shape, labels = area_table(x, by)
        sizes = np.diff(table.indptr)
        if (sizes != sizes[0]).any():
            raise InvalidParameterError(
                f"deaths must have as many intervals in each area, got {int(sizes.min())} to "
                f"{int(sizes.max())}: call survival_confint for each area"
            )
        cells = np.sort(table.indices.reshape(table.shape[0], -1), axis=1)
        return cls(x, y, cells, shape, labels)

    @cached_property
    def d(self) -> FloatArray:
        return np.asarray(self.deaths.values[self.cells])

    @cached_property
    def n(self) -> FloatArray:
        return self._from_here(self.d + self.censored.values[self.cells])

    @cached_property
    def p(self) -> FloatArray:
        """Those who did not die in an interval, of those at risk at its start."""
        return self.n - self.d

    def _from_here(self, counts: FloatArray) -> FloatArray:
        return np.asarray(np.cumsum(counts[:, ::-1], axis=1)[:, ::-1])

    @cached_property
    def rows(self) -> tuple[Any, Any, Noises]:
        """Weights of the errors of deaths and of all counts on the noises, by area and interval."""
        joint, at = self._joint, self.cells.ravel()
        return joint._rows(at), joint._rows(len(self.deaths) + at), joint.noises

    @cached_property
    def _joint(self) -> NoisyValues:
        return self.deaths.beside(self.censored)

    @cached_property
    def _alike(self) -> bool:
        """Whether each count has a noise of its own, those of either kind with one law."""
        return self._joint.weights is None and all(
            isinstance(x.marginal, ParametricLaw) and not x.marginal.shape
            for x in (self.deaths, self.censored)
        )

    @cached_property
    def noisy(self) -> bool:
        return bool(self.deaths.variance.any() or self.censored.variance.any())

    @cached_property
    def curve(self) -> FloatArray:
        """The curve of the published counts, 1 where it has ended."""
        return np.asarray(np.cumprod(np.where(self.n > 0.0, self.p / self._safe(self.n), 1.0), 1))

    @cached_property
    def plug_in(self) -> FloatArray:
        counts = np.maximum(self.d, 0.0), np.maximum(self.censored.values[self.cells], 0.0)
        n = self._from_here(counts[0] + counts[1])
        return np.asarray(np.cumprod(np.where(n > 0.0, 1.0 - counts[0] / self._safe(n), 1.0), 1))

    @staticmethod
    def _safe(values: FloatArray) -> FloatArray:
        return np.where(values > 0.0, values, 1.0)

    def of_noise(self, alpha: float, *, together: bool) -> tuple[FloatArray, Any]:
        size = self.d.shape[1]
        if not self.noisy:
            return np.stack([self.curve] * 3), self.n > 0.0
        tail = 0.5 * _OF_BOX * alpha / (4 * size)
        each = 0.5 * (1.0 - _OF_BOX) * alpha / (size if together else 1)
        low, high = self._box(tail)
        there = np.logical_and.accumulate((low[1] > 0.0) & (low[2] > 0.0), axis=1)
        # what comes after the end has no part in what comes before
        low, high = np.where(there, low, 1.0), np.where(there, high, 1.0)
        risk, left = (
            np.stack([1.0 / high[1], 1.0 / low[1]]),
            np.stack([1.0 / high[2], 1.0 / low[2]]),
        )
        hazard = np.stack(
            [
                np.maximum(low[0] * risk[0] * left[0], left[0] - risk[1]),
                np.minimum(high[0] * risk[1] * left[1], left[1] - risk[0]),
            ]
        )
        of_term = self._reach(risk, hazard, tail, sums=False)
        wanted = self._reach(risk, hazard, each, sums=True)
        shift = of_term * 0.5 * (high[1] - low[1]) / self._safe(self.n)
        bend = np.square(of_term + shift) / np.maximum(2.0 * (1.0 - of_term - shift), 1e-300)
        below = wanted + np.cumsum(shift, axis=1)
        above = below + np.cumsum(np.where(of_term + shift < 1.0, bend, np.inf), axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            lower = self.curve * np.exp(-below)
            upper = np.where(there, self.curve * np.exp(above), 1.0)
        estimate = np.clip(self._logs(there)[0], lower, upper)
        return np.stack([estimate, lower, upper]), there

    def of_sampling(self, alpha: float) -> tuple[FloatArray, Any]:
        size = self.d.shape[1]
        box = 0.5 * alpha if self.noisy else 0.0
        low, high = self._box(0.5 * box / (3 * size)) if box else (np.stack([self.d, self.n]),) * 2
        there = np.logical_and.accumulate(low[1] > 0.0, axis=1)
        tail = 0.5 * (alpha - box) / size
        fewest, most = np.where(there, low[1], 1.0), np.where(there, high[1], 1.0)
        least, largest = np.maximum(low[0], 0.0), np.maximum(high[0], 0.0)
        some, short = least > 0.0, largest < fewest
        least = np.minimum(np.where(some, least, 1.0), most)
        bottom = special.betaincinv(least, most - least + 1.0, tail)
        top = special.betainccinv(
            np.where(short, largest, 0.0) + 1.0, np.where(short, fewest - largest, 1.0), tail
        )
        upper = np.cumprod(1.0 - np.where(some, bottom, 0.0), axis=1)
        lower = np.cumprod(np.where(short, 1.0 - top, 0.0), axis=1)
        fine = there & (self.n > 0.0) & (self.p > 0.0)
        estimate = np.clip(np.where(fine, self._logs(fine)[0], self.curve), lower, upper)
        return np.stack([estimate, lower, upper]), there

    def asymptotic(
        self, alpha: float, uncertainty: Uncertainty, scale: Scale, *, together: bool
    ) -> tuple[FloatArray, Any]:
        far = [
            (count > 0.0) & (count >= _FEWEST_STD * np.sqrt(variance))
            for count, variance in zip((self.n, self.p), self._variances, strict=True)
        ]
        there = np.logical_and.accumulate(far[0] & far[1], axis=1)
        estimate, logs, variance, greenwood = self._logs(there)
        if uncertainty == "noise+sampling":
            variance = variance + np.maximum(greenwood, 0.0)
        size = self.d.shape[1] if together else 1
        half = -special.ndtri(0.5 * alpha / size) * np.sqrt(variance)
        below = (logs < 0.0) & (scale == "log-log")
        turned = np.exp(half / np.where(below, -logs, 1.0))
        with np.errstate(over="ignore"):
            lower = np.where(below, np.exp(logs * turned), np.exp(logs - half))
            upper = np.where(below, np.exp(logs / turned), np.exp(logs + half))
        return np.stack([estimate, lower, upper]), there

    def _box(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return where deaths, persons at risk and those left are, all up to the tail."""
        e = noise_within(self.deaths, tail)[self.cells]
        some = replace(self, cells=self.cells[:1]) if self._alike else self
        deaths, _, noises = some.rows
        few = self.d.size <= MOST_SUMS
        u, left = (
            worst_quantiles(abs(rows).tocsr(), noises, tail, few=few).reshape(some.d.shape)
            for rows in (some._sums, some._sums - deaths)
        )
        u, left = (np.broadcast_to(one, e.shape) for one in (u, left))
        middle, reach = np.stack([self.d, self.n, self.p]), np.stack([e, u, left])
        low, high = middle - reach, middle + reach
        low[0], high[0] = np.maximum(low[0], 0.0), np.maximum(high[0], 0.0)
        return low, high

    @cached_property
    def _sums(self) -> Any:
        """Weights of the errors of persons at risk on the noises."""
        deaths, censored, _ = self.rows
        k, size = self.d.shape
        later = sparse.kron(sparse.eye_array(k), np.triu(np.ones((size, size))), format="csr")
        return (later @ (deaths + censored)).tocsr()

    @cached_property
    def _variances(self) -> tuple[FloatArray, FloatArray]:
        """Variances of the errors of persons at risk and of those left."""
        if self._joint.weights is None:
            own, other = self._own_variances
            all_of = self._from_here(own + other)
            return all_of, all_of - own
        deaths, _, noises = self.rows
        own = np.broadcast_to(np.asarray(noises.law.variance), noises.size)
        parts = self._sums, (self._sums - deaths).tocsr()
        risk, left = ((rows.power(2) @ own).reshape(self.d.shape) for rows in parts)
        return risk, left

    @cached_property
    def _own_variances(self) -> tuple[FloatArray, FloatArray]:
        """Variances of the noises of deaths and of withdrawals, where each has its own."""
        return self.deaths.variance[self.cells], self.censored.variance[self.cells]

    def _variance_of(self, weights: tuple[FloatArray, FloatArray], *, sums: bool) -> FloatArray:
        """Variances of gⱼ(eⱼ - hⱼuⱼ), or of their sums, by the weights of ``_two``."""
        own, other = weights
        of_own, of_other = self._own_variances
        here = of_own * np.square(own) + of_other * np.square(other)
        later = self._from_here(of_own + of_other) - of_own - of_other
        if sums:
            here = np.cumsum(here, axis=1)
        return np.asarray(here + np.maximum(later, 0.0) * np.square(other))

    def _logs(self, there: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the curve and its log without bias, its variance, and Greenwood's sum."""
        n, p = np.where(there, self.n, 1.0), np.where(there, self.p, 1.0)
        of_n, of_p = (np.where(there, part, 0.0) for part in self._variances)
        of_n, of_p = of_n / np.square(n), of_p / np.square(p)
        logs = np.cumsum(np.log(p) - np.log(n) + 0.5 * (of_p - of_n), axis=1)
        greenwood = np.cumsum((1.0 - of_p) / p - (1.0 - of_n) / n, axis=1)
        risk, hazard = 1.0 / n, 1.0 / p - 1.0 / n
        variance = np.empty(n.shape)
        if self._joint.weights is None:
            variance = self._variance_of(_two(risk, hazard, sums=True), sums=True)
        else:
            deaths, censored, noises = self.rows
            own = np.broadcast_to(np.asarray(noises.law.variance), noises.size)
            for area in self._blocks():
                rows = self._rows_of(area, deaths, censored)
                errors = self._weights(risk[area], hazard[area], sums=True) @ rows
                variance[area] = (errors.power(2) @ own).reshape(-1, n.shape[1])
        with np.errstate(over="ignore"):
            return np.exp(logs - 0.5 * variance), logs, variance, greenwood

    def _reach(
        self, risk: FloatArray, hazard: FloatArray, tail: float, *, sums: bool
    ) -> FloatArray:
        """Bound the quantiles of gⱼ(eⱼ - hⱼuⱼ), or of their sums to each interval, by area.

        ``risk`` and ``hazard`` are the ends of 1/n and of 1/(n - d) - 1/n.
        """
        if self._alike and self.d.size > MOST_SUMS:
            low, high = (_two(risk[at], hazard[1 - at], sums=sums) for at in (0, 1))
            sizes = (np.maximum(abs(low[0]), abs(high[0])), np.maximum(abs(low[1]), abs(high[1])))
            return self._reach_of(sizes, tail, sums=sums)
        deaths, censored, noises = self.rows
        found: FloatArray = np.empty(self.d.shape)
        for area in self._blocks():
            low = self._weights(risk[0, area], hazard[1, area], sums=sums)
            high = self._weights(risk[1, area], hazard[0, area], sums=sums)
            sizes = weights_within(low, high, self._rows_of(area, deaths, censored))
            found[area] = worst_quantiles(sizes, noises, tail).reshape(-1, self.d.shape[1])
        return found

    def _reach_of(
        self, sizes: tuple[FloatArray, FloatArray], tail: float, *, sums: bool
    ) -> FloatArray:
        """Bound the same for noises of one law of deaths and of withdrawals.

        The weights of all later noises are alike, and those of earlier ones are of a triangle.
        """
        std = np.sqrt(self._variance_of(sizes, sums=sums))
        laws = self.deaths.marginal, self.censored.marginal
        if all(isinstance(law, Gaussian) for law in laws):
            return np.asarray(-special.ndtri(tail) * std)
        own, other = sizes
        later = np.arange(own.shape[1])[::-1]
        largest = np.maximum.accumulate(sizes, axis=2) if sums else np.stack(sizes)
        largest[0] = np.maximum(largest[0], np.where(later > 0, other, 0.0))
        with np.errstate(divide="ignore"):
            limits = [law._abscissa / w for law, w in zip(laws, largest, strict=True)]  # type: ignore[attr-defined]
        limit = np.minimum(*limits)
        furthest = tilts(std, limit, tail)[-1]
        of_own, of_other = (
            chords(law, float((w * furthest).max()))  # type: ignore[arg-type]
            for law, w in zip(laws, largest, strict=True)
        )

        def total(t: FloatArray) -> FloatArray:
            s = other * t
            found = of_other(s)
            after = later * (of_own(np.where(later > 0, s, 0.0)) + found)
            if not sums:
                return np.asarray(found + of_own(own * t) + after)
            for area in self._blocks():
                for at in range(t.shape[1]):
                    tilt = t[area, at, np.newaxis]
                    here = of_own(own[area, : at + 1] * tilt) + of_other(
                        other[area, : at + 1] * tilt
                    )
                    after[area, at] += here.sum(axis=1)
            return np.asarray(after)

        return least_bound(std, limit, tail, total)

    def _blocks(self) -> list[slice]:
        k, size = self.d.shape
        step = max(1, _ENTRIES // (2 * size * size))
        return [slice(start, min(start + step, k)) for start in range(0, k, step)]

    def _rows_of(self, area: slice, deaths: Any, censored: Any) -> Any:
        size = self.d.shape[1]
        cells = slice(area.start * size, area.stop * size)
        return sparse.vstack([deaths[cells], censored[cells]], format="csr")

    def _weights(self, risk: FloatArray, hazard: FloatArray, *, sums: bool) -> sparse.csr_array:
        """Return what errors of deaths, then of withdrawals, are multiplied with, a row each."""
        k, size = risk.shape
        t, i = np.arange(size)[:, np.newaxis], np.arange(size)
        if sums:
            up_to = np.cumsum(hazard, axis=1)
            withdrawals = -up_to[:, np.minimum(t, i)]
            own = (risk - up_to + hazard)[:, np.newaxis, :]
            dead = np.where(i <= t, own, withdrawals)
        else:
            withdrawals = np.where(i >= t, -hazard[:, :, np.newaxis], 0.0)
            dead = np.where(i == t, risk[:, np.newaxis, :], withdrawals)
        data = np.concatenate([dead, withdrawals], axis=2)
        column = np.concatenate([i, k * size + i]) + size * np.arange(k).reshape(k, 1, 1)
        starts = 2 * size * np.arange(k * size + 1)
        column = np.array(np.broadcast_to(column, data.shape)).ravel()
        found = sparse.csr_array((data.ravel(), column, starts), shape=(k * size, 2 * k * size))
        found.eliminate_zeros()
        return found


def _two(risk: FloatArray, hazard: FloatArray, *, sums: bool) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the noise of the deaths of an interval, and of its withdrawals.

    They are those in the term of the interval, or in the sum of the terms up to it or a later one;
    later noises have the weight of the withdrawals.
    """
    if not sums:
        return risk, -hazard
    up_to = np.cumsum(hazard, axis=1)
    return risk - up_to + hazard, -up_to
