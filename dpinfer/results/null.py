"""Null distributions of test statistics: one face for all, and those with known tails."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    Numbers,
    check_alpha,
    check_array,
    check_integer,
    check_integer_array,
    check_option,
    freeze,
    show,
)
from dpinfer._numerics.atoms import tied
from dpinfer._style import add_legend, series, styled_axes
from dpinfer.errors import InvalidParameterError
from dpinfer.results.presentation import Presented
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

Tail = Callable[[FloatArray], FloatArray]

_SUMMARY_LEVELS = (0.1, 0.05, 0.01)
_PLOT_LEVELS = (0.002, 0.02, 0.2, 0.9)
_PLOT_POINTS = 512
_CRITICAL_PRECISION = 1e-13
_MOST_STEPS = 2.0**40
_BESIDE = np.arange(-2.0, 3.0)
LARGEST_STATISTIC = 1e300
"""No law reaches it. An infinite statistic has its p-value: inf - inf would make NaN of tails."""

SIGNS: dict[Alternative, float] = {"two-sided": 1.0, "larger": 1.0, "smaller": -1.0}
"""On which side of zero the critical value of an alternative is."""


class NullDistribution(Presented):
    """The law of a test statistic when the null hypothesis is true.

    The alternative says which values speak against the null hypothesis: large ones
    (``"larger"``), small ones (``"smaller"``), or those far from zero (``"two-sided"``, for
    statistics centred at zero). A distribution may stand for the laws of several statistics at
    once, one law for each; arguments then broadcast against them.
    """

    @overload
    def pvalue(self, statistic: FloatArray, alternative: Alternative = ...) -> FloatArray: ...

    @overload
    def pvalue(self, statistic: ArrayLike, alternative: Alternative = ...) -> Numbers: ...

    @final
    @np.errstate(over="ignore")
    def pvalue(self, statistic: ArrayLike, alternative: Alternative = "two-sided") -> Numbers:
        """Probability of a value at least as extreme as the statistic.

        Parameters
        ----------
        statistic : float or array of float
            Observed values of the statistic.
        alternative : {"two-sided", "larger", "smaller"}
            P(S >= s) for ``"larger"``, P(S <= s) for ``"smaller"``, P(abs(S) >= abs(s)) for
            ``"two-sided"``.

        Returns
        -------
        float or array of float
            Probabilities in [0, 1], one for each statistic.
        """
        points = _points(statistic)
        return self._extreme(points, check_option(alternative, "alternative", ALTERNATIVES))[()]

    @final
    @np.errstate(over="ignore")
    def pvalue_error(self, statistic: ArrayLike) -> Numbers:
        """Absolute error of :meth:`pvalue` where that is what bounds it, and its least value.

        It is 0 where p-values are accurate relative to their size, however small. Elsewhere no
        p-value is given out below this error: one that is equal to it says "not above".
        """
        return np.asarray(self._pvalue_error(_points(statistic)))[()]

    @final
    @np.errstate(over="ignore")
    def critical_value(self, alpha: float, alternative: Alternative = "two-sided") -> Numbers:
        """Value from which on a test of level ``alpha``, in (0, 1), rejects.

        It is the smallest c (the largest for ``"smaller"``) whose p-value is at most ``alpha``, up
        to rounding: reject where the statistic is >= c (``"larger"``), <= c (``"smaller"``) or
        beyond c in absolute value (``"two-sided"``). Infinite where no value is extreme enough.
        """
        level = check_alpha(alpha)
        chosen = check_option(alternative, "alternative", ALTERNATIVES)
        return self._critical(level, chosen)[()]

    @final
    @np.errstate(over="ignore")
    def mc_error(self, statistic: ArrayLike, alternative: Alternative = "two-sided") -> Numbers:
        """Monte Carlo standard error of :meth:`pvalue`: √(p(1 - p)/R) for R replicates, or 0."""
        points = _points(statistic)
        chosen = check_option(alternative, "alternative", ALTERNATIVES)
        return self._mc_error(points, chosen)[()]

    @final
    @np.errstate(over="ignore")
    def mc_confint(
        self, statistic: ArrayLike, alternative: Alternative = "two-sided", alpha: float = 0.05
    ) -> tuple[Numbers, Numbers]:
        """Interval for the p-value that infinitely many replicates would give.

        It misses that p-value with probability ``alpha``, in (0, 1), at most. Both ends are
        :meth:`pvalue` where nothing was simulated.
        """
        points = _points(statistic)
        chosen = check_option(alternative, "alternative", ALTERNATIVES)
        low, high = self._mc_confint(points, chosen, check_alpha(alpha))
        return low[()], high[()]

    @abstractmethod
    def _take(self, rows: NDArray[np.intp], shape: tuple[int, ...]) -> NullDistribution:
        """Return the laws of some of the statistics, which had this shape."""

    @final
    def summary_frame(self) -> pd.DataFrame:
        """Return critical values, a column for each alternative and a row for each ``level``.

        Where there are several laws, a row for each level and ``law``.
        """
        import pandas as pd

        found = {
            side: np.array([self._critical(level, side) for level in _SUMMARY_LEVELS])
            for side in ALTERNATIVES
        }
        index = pd.Index(_SUMMARY_LEVELS, name="level")
        if found["larger"].ndim > 1:
            laws = range(found["larger"][0].size)
            index = pd.MultiIndex.from_product([index, laws], names=["level", "law"])
        return pd.DataFrame({side: np.ravel(c) for side, c in found.items()}, index=index)

    @final
    def _table(self) -> Table:
        laws = self._critical(_SUMMARY_LEVELS[0], "larger")
        facts = self._facts()
        if laws.ndim:
            facts = [*facts, ("Laws", f"{laws.shape[-1]}, one for each statistic")]
            return Table("Null distribution", facts)
        levels = [f"Critical value at level {level:g}" for level in _SUMMARY_LEVELS]
        return Table("Null distribution", facts, self.summary_frame(), index=levels)

    @final
    def plot(self, ax: Any = None, *, statistic: float | None = None) -> Any:
        """Draw the distribution function and mark an observed statistic.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.
        statistic : float, optional
            An observed value, drawn as a vertical line.

        Returns
        -------
        matplotlib.axes.Axes
            The axes drawn on; several laws are refused.
        """
        points = np.linspace(*self._plot_range(), _PLOT_POINTS)
        axes = styled_axes(ax)
        law = self._extreme(points, "smaller")
        axes.plot(points, law, drawstyle="steps-post", label="null distribution", **series(0))
        if statistic is not None:
            axes.axvline(statistic, label="observed", **series(1))
            add_legend(axes)
        axes.set_xlabel("statistic")
        axes.set_ylabel("distribution function under the null hypothesis")
        return axes

    def _plot_range(self) -> tuple[float, float]:
        """Return the outermost critical values that are finite."""
        for level in _PLOT_LEVELS:
            ends = [self._critical(level, side) for side in ("smaller", "larger")]
            if np.ndim(ends[0]):
                raise InvalidParameterError(
                    "plot draws one null distribution, and this one stands for several: repeat "
                    "the test for the row of interest and plot that"
                )
            if np.isfinite(ends).all():
                return float(min(ends)), float(max(ends))
        raise InvalidParameterError(
            "plot draws finite statistics, and nearly all of this law is at infinity"
        )

    @abstractmethod
    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray: ...

    @abstractmethod
    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray: ...

    @abstractmethod
    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray: ...

    @abstractmethod
    def _mc_confint(
        self, statistic: FloatArray, alternative: Alternative, alpha: float
    ) -> tuple[FloatArray, FloatArray]: ...

    def _pvalue_error(self, statistic: FloatArray) -> FloatArray:
        return np.zeros(statistic.shape)

    @abstractmethod
    def _facts(self) -> list[tuple[str, object]]: ...


@dataclass(frozen=True, eq=False)
class _KnownTails(NullDistribution):
    """A null distribution known through its tails, P(S >= s) and P(S <= s)."""

    larger: Tail
    smaller: Tail

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        if alternative == "larger":
            return np.asarray(self.larger(statistic))
        if alternative == "smaller":
            return np.asarray(self.smaller(statistic))
        size = np.abs(statistic)
        both = np.asarray(self.larger(size)) + np.asarray(self.smaller(-size))
        return np.where(size == 0, 1.0, np.minimum(both, 1.0))

    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray:
        sign = SIGNS[alternative]

        def rejects(c: FloatArray) -> Any:
            return self._extreme(sign * c, alternative) <= alpha

        shape = self._extreme(np.zeros(()), alternative).shape
        low, high = np.zeros(shape), np.ones(shape)
        while (short := ~rejects(high) & (high < LARGEST_STATISTIC)).any():
            low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
        step = 1.0
        while (beyond := rejects(low) & (low > -LARGEST_STATISTIC)).any():
            high, low = np.where(beyond, low, high), np.where(beyond, low - step, low)
            step *= 2.0
        while (wide := high - low > _CRITICAL_PRECISION * np.maximum(np.abs(high), 1e-3)).any():
            middle = 0.5 * (low + high)
            inside = rejects(middle)
            high = np.where(wide & inside, middle, high)
            low = np.where(wide & ~inside, middle, low)
        # adding 0.0 turns -0.0 into 0.0
        return sign * np.where(high < LARGEST_STATISTIC, high, np.inf) + 0.0

    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        return np.zeros(statistic.shape)

    def _mc_confint(
        self, statistic: FloatArray, alternative: Alternative, alpha: float
    ) -> tuple[FloatArray, FloatArray]:
        pvalue = self._extreme(statistic, alternative)
        return pvalue, pvalue

    def _take(self, rows: NDArray[np.intp], shape: tuple[int, ...]) -> NullDistribution:
        if not self._extreme(np.zeros(()), "larger").ndim:
            return self  # one law for all
        return _SomeLaws(self, np.asarray(np.unravel_index(rows, shape)), shape)


@final
@dataclass(frozen=True, eq=False)
class _SomeLaws(NullDistribution):
    """Some laws of a null distribution that stands for several, by their places among them."""

    whole: NullDistribution
    places: NDArray[np.intp]
    shape: tuple[int, ...]

    def _among(self, statistic: FloatArray) -> FloatArray:
        """Return statistics for all laws; those of the laws that were not chosen are 0."""
        lead = np.broadcast_shapes(statistic.shape, self.places.shape[1:])
        lead = lead[: len(lead) - self.places.ndim + 1]
        spread = np.zeros((*lead, *self.shape))
        spread[(..., *self.places)] = statistic
        return spread

    def _own(self, found: Any) -> FloatArray:
        return np.asarray(np.asarray(found)[(..., *self.places)])

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        return self._own(self.whole._extreme(self._among(statistic), alternative))

    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray:
        return self._own(self.whole._critical(alpha, alternative))

    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        return self._own(self.whole._mc_error(self._among(statistic), alternative))

    def _mc_confint(
        self, statistic: FloatArray, alternative: Alternative, alpha: float
    ) -> tuple[FloatArray, FloatArray]:
        low, high = self.whole._mc_confint(self._among(statistic), alternative, alpha)
        return self._own(low), self._own(high)

    def _pvalue_error(self, statistic: FloatArray) -> FloatArray:
        return self._own(self.whole._pvalue_error(self._among(statistic)))

    def _facts(self) -> list[tuple[str, object]]:
        return self.whole._facts()

    def _take(self, rows: NDArray[np.intp], shape: tuple[int, ...]) -> NullDistribution:
        places = self.places.reshape(len(self.shape), -1)[:, rows]
        return _SomeLaws(self.whole, places, self.shape)


@final
@dataclass(frozen=True, eq=False)
class ExactNull(_KnownTails):
    """A null distribution known through its two tails.

    Parameters
    ----------
    larger, smaller : callable
        P(S >= s) and P(S <= s), for float64 arrays. Both count an atom at s.
    error : callable, array of float or float, default 0
        Bound on the absolute error of both, by the statistic, where far tails are not accurate
        relative to their size: smaller probabilities are given out as this bound.
    atoms : array of float, shape (m,), or callable, optional
        All values that the statistic takes, if they are known: critical values are among them.
        A function gets an array of numbers and returns, along a new first axis, the values of the
        statistic that are around each, NaN where there are none.

    Examples
    --------
    The law of a fair die:

    >>> die = ExactNull(lambda s: (7 - np.clip(np.ceil(s), 1, 7)) / 6,
    ...                 lambda s: np.clip(np.floor(s), 0, 6) / 6)
    >>> die.pvalue(6, "larger").round(4)
    np.float64(0.1667)
    """

    error: Tail | FloatArray | float = 0.0
    atoms: FloatArray | Tail | None = None

    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray:
        found = super()._critical(alpha, alternative)
        if self.atoms is None:
            return found
        if callable(self.atoms):
            return self._nearest(self.atoms, found, alpha, alternative)
        sign = SIGNS[alternative]
        atoms = np.sort(np.abs(self.atoms) if alternative == "two-sided" else sign * self.atoms)
        place = np.searchsorted(atoms, sign * found)
        reached = sign * atoms[np.minimum(place, atoms.size - 1)] + 0.0
        return np.where(place < atoms.size, reached, sign * np.inf)

    def _nearest(
        self, atoms: Tail, found: FloatArray, alpha: float, alternative: Alternative
    ) -> FloatArray:
        """Return the least extreme value that is rejected, of those around a critical value."""
        inner = np.where(np.isfinite(found), found, 0.0)
        near = atoms(inner)
        if alternative == "two-sided":
            near = np.abs(np.concatenate([near, atoms(-inner)]))
        known = ~np.isnan(near)
        values = np.where(known, near, 0.0)
        rejected = known & (self._extreme(values, alternative) <= alpha)
        sign = SIGNS[alternative]
        least = sign * np.where(rejected, sign * values, np.inf).min(axis=0)
        return np.where(np.isfinite(found) & known.any(axis=0), least, found) + 0.0

    def _pvalue_error(self, statistic: FloatArray) -> FloatArray:
        error = self.error(statistic) if callable(self.error) else self.error
        return np.broadcast_to(
            np.minimum(error, 1.0), np.broadcast_shapes(np.shape(error), statistic.shape)
        )

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        tail = super()._extreme(statistic, alternative)
        if not callable(self.error) and not np.any(self.error):
            return tail
        return np.maximum(tail, self._pvalue_error(statistic))

    def _facts(self) -> list[tuple[str, object]]:
        return [("Kind", "exact")]


@final
@dataclass(frozen=True, eq=False)
class AsymptoticNull(_KnownTails):
    """A limiting null distribution: normal, or chi-squared.

    Parameters
    ----------
    larger, smaller : callable
        P(S >= s) and P(S <= s), for float64 arrays.
    name : str
        What the summary calls the law.

    See Also
    --------
    AsymptoticNull.normal, AsymptoticNull.chi2

    Examples
    --------
    >>> AsymptoticNull.normal().pvalue(1.96).round(4)
    np.float64(0.05)
    >>> AsymptoticNull.chi2(3).critical_value(0.05, "larger").round(4)
    np.float64(7.8147)
    """

    name: str

    @classmethod
    def normal(cls, std: ArrayLike = 1.0) -> Self:
        """Return the normal law with mean 0 and a standard deviation > 0, or one for each law."""
        scale = freeze(check_array(std, "std", gt=0))
        shown = f"normal, standard deviation {float(scale):.6g}" if scale.ndim == 0 else "normal"
        return cls(partial(_normal, -scale), partial(_normal, scale), shown)

    @classmethod
    def chi2(cls, df: int) -> Self:
        """Return the chi-squared law with ``df`` >= 1 degrees of freedom."""
        degrees = check_integer(df, "df", ge=1)
        return cls(
            partial(_chi2_upper, degrees),
            partial(_chi2_lower, degrees),
            f"chi-squared, {degrees} degrees of freedom",
        )

    def _facts(self) -> list[tuple[str, object]]:
        return [("Kind", "asymptotic"), ("Law", self.name)]


def around(
    z: FloatArray,
    *,
    unit: FloatArray,
    spread: FloatArray,
    centre: FloatArray | float = 0.0,
    least: FloatArray | float = -np.inf,
    most: FloatArray | float = np.inf,
) -> FloatArray:
    """Return the values (t - centre)/spread around z, for multiples t of a unit in [least, most].

    NaN where the unit is 0, which stands for no lattice, or where it is lost in rounding.
    """
    lattice = np.where(unit > 0, unit, 1.0)
    k = np.rint((centre + z * spread) / lattice)
    near = k + _BESIDE.reshape(-1, *(1,) * k.ndim)
    t = near * lattice
    known = (unit > 0) & (np.abs(near) < _MOST_STEPS) & (least <= t) & (t <= most)
    return np.where(known, (t - centre) / spread, np.nan)


def _points(statistic: ArrayLike) -> FloatArray:
    """Return the statistics, infinite ones drawn in."""
    points = check_array(statistic, "statistic", finite=False)
    return np.asarray(np.clip(points, -LARGEST_STATISTIC, LARGEST_STATISTIC))


def _normal(scale: FloatArray, s: FloatArray) -> FloatArray:
    return np.asarray(special.ndtr(s / scale))


def _chi2_upper(degrees: int, s: FloatArray) -> FloatArray:
    return np.asarray(special.chdtrc(degrees, np.maximum(s, 0.0)))


def _chi2_lower(degrees: int, s: FloatArray) -> FloatArray:
    return np.asarray(special.chdtr(degrees, np.maximum(s, 0.0)))


SORT_FROM = 8
"""With more statistics than this, sorting the replicates is faster than comparing each."""

Bounds = tuple[FloatArray | None, FloatArray | None]
"""From which value on, and up to which, replicates are extreme; None where they are not."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MonteCarloNull(NullDistribution):
    """A null distribution known through simulated replicates of the statistic.

    The replicates were counted against the observed statistics while they were drawn, and only a
    sample of them is kept. The p-value of an observed statistic comes from its count; critical
    values, and the p-values of other statistics, come from the sample.

    Parameters
    ----------
    sample : array of float, shape (m,) or (k, m)
        Replicates that were kept, in any order; a row for each of k laws.
    reps : int or array of int, shape (k,)
        Number of replicates among which those at least as extreme as each observed statistic were
        counted.
    statistic : array of float, shape () or (k,)
        The observed statistics.
    extreme : mapping of alternative to array of int
        How many of the ``reps`` replicates were at least as extreme as each observed statistic.
        The p-values for an alternative that is not there come from the sample.
    stopped : bool or array of bool, shape (k,), default False
        Whether the count ended at a replicate at least as extreme, because there were as many of
        these as had been asked for.

    Notes
    -----
    With b of R replicates at least as extreme, the p-value is (1 + b)/(R + 1). Where the
    simulation stopped at the b-th of them it is b/R: the sequential p-value of Besag and Clifford
    (1991), where R is random and b, or the largest R, was set beforehand. Either way
    P(p <= α) <= α under the null hypothesis, whatever was set (Davison and Hinkley 1997, §4.2.1).
    Its Monte Carlo standard error is √(p(1 - p)/R), and about p/√b relative to p small.

    :meth:`mc_confint` is the interval of Clopper and Pearson (1934) for the probability of a value
    at least as extreme. Where the simulation stopped it is its analogue for the negative binomial
    law of R: the upper end then looks at the R - 1 replicates before the last.

    References
    ----------
    Besag, J. and Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78, 301-304.
    doi:10.1093/biomet/78.2.301.
    Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits illustrated
    in the case of the binomial. Biometrika 26, 404-413. doi:10.1093/biomet/26.4.404.
    Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application.
    doi:10.1017/CBO9780511802843.

    Examples
    --------
    >>> null = MonteCarloNull(sample=np.arange(99.0), reps=99, statistic=95.0,
    ...                       extreme={"two-sided": 4, "larger": 4, "smaller": 96})
    >>> null.pvalue(95.0, "larger"), null.critical_value(0.05, "larger").round(6)
    (np.float64(0.05), np.float64(94.0))
    >>> low, high = null.mc_confint(95.0, "larger")
    >>> low.round(4), high.round(4)
    (np.float64(0.0111), np.float64(0.1002))
    """

    sample: FloatArray
    reps: Any
    statistic: FloatArray
    extreme: Mapping[Alternative, Any]
    stopped: Any = False

    def __post_init__(self) -> None:
        statistic = check_array(self.statistic, "statistic")
        shape = statistic.shape
        stopped = np.broadcast_to(np.asarray(self.stopped, dtype=bool), shape)
        sample = np.sort(check_array(self.sample, "sample"), axis=-1)
        reps = np.broadcast_to(check_integer_array(self.reps, "reps", ge=1), shape)
        if not stopped.all():  # a block is kept as a whole, whether or not a count ended in it
            check_array(reps[~stopped], "reps", ge=sample.shape[-1])
        if not isinstance(self.extreme, Mapping):
            raise InvalidParameterError(
                f"extreme must be a mapping of alternatives to counts, got {show(self.extreme)}"
            )
        counts = {name: _checked_counts(name, held, reps) for name, held in self.extreme.items()}
        for name, value in (
            ("sample", freeze(sample)),
            ("reps", freeze(reps)),
            ("statistic", freeze(statistic)),
            ("extreme", counts),
            ("stopped", freeze(stopped)),
        ):
            object.__setattr__(self, name, value)

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        exceedances, replicates, stopped = self._counts(statistic, alternative)
        added = np.where(stopped, 0.0, 1.0)
        return np.asarray((exceedances + added) / (replicates + added))

    def _counts(
        self, statistic: FloatArray, alternative: Alternative
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return exceedances, among how many replicates, and whether the last is one of them."""
        observed = self._observed(statistic, alternative)
        if observed.all():
            return self.extreme[alternative], self.reps, self.stopped
        sampled, kept = self._count(statistic, alternative), float(self.sample.shape[-1])
        if not observed.any():
            return sampled, np.asarray(kept), np.asarray(False)
        return (
            np.where(observed, self.extreme[alternative], sampled),
            np.where(observed, self.reps, kept),
            observed & self.stopped,
        )

    def _observed(self, statistic: FloatArray, alternative: Alternative) -> NDArray[np.bool_]:
        """Where the statistics are those for which the replicates were counted."""
        if alternative in self.extreme and statistic.shape == self.statistic.shape:
            return np.asarray(statistic == self.statistic)
        return np.zeros(statistic.shape, dtype=bool)

    def _count(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        """Count the kept replicates that are at least as extreme."""
        if self.sample.ndim == 1:
            return count_extreme(self.sample, statistic, alternative, ordered=True)
        points = np.broadcast_to(statistic, self.sample.shape[:-1])
        rows = zip(self.sample, points, strict=True)
        return np.array(
            [count_extreme(row, point, alternative, ordered=True) for row, point in rows]
        )

    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray:
        sign = SIGNS[alternative]
        size = np.abs(self.sample) if alternative == "two-sided" else sign * self.sample
        allowed = int(np.floor(alpha * (size.shape[-1] + 1.0) * (1.0 + 1e-12))) - 1
        if allowed < 0:
            return np.full(size.shape[:-1], sign * np.inf)
        if allowed >= size.shape[-1]:
            return np.full(size.shape[:-1], -sign * np.inf)
        last = np.sort(size, axis=-1)[..., -1 - allowed]
        return np.asarray(sign * beyond_ties(last))

    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        pvalue = self._extreme(statistic, alternative)
        _, replicates, _ = self._counts(statistic, alternative)
        return np.asarray(np.sqrt(pvalue * (1.0 - pvalue) / replicates))

    def _mc_confint(
        self, statistic: FloatArray, alternative: Alternative, alpha: float
    ) -> tuple[FloatArray, FloatArray]:
        exceedances, replicates, stopped = self._counts(statistic, alternative)
        return clopper_pearson(exceedances, replicates, 0.5 * alpha, stopped=stopped)

    def _take(self, rows: NDArray[np.intp], shape: tuple[int, ...]) -> MonteCarloNull:
        if self.statistic.shape != shape:
            return self
        sample = self.sample
        if sample.ndim > 1:
            sample = sample.reshape(-1, sample.shape[-1])[rows]
        return MonteCarloNull(
            sample=sample,
            reps=self.reps.ravel()[rows],
            statistic=self.statistic.ravel()[rows],
            extreme={side: np.ravel(counts)[rows] for side, counts in self.extreme.items()},
            stopped=self.stopped.ravel()[rows],
        )

    def _facts(self) -> list[tuple[str, object]]:
        fewest, most = int(self.reps.min()), int(self.reps.max())
        facts: list[tuple[str, object]] = [
            ("Kind", "Monte Carlo"),
            ("Replicates", most if fewest == most else f"{fewest} to {most}"),
            ("Replicates kept", self.sample.shape[-1]),
        ]
        if self.stopped.any():
            ended = f"{int(self.stopped.sum())} of {self.stopped.size}"
            facts.append(("Counts ended early, precise enough", ended))
        return facts


def _checked_counts(alternative: str, counts: Any, reps: FloatArray) -> FloatArray:
    """Return how many of so many replicates were at least as extreme."""
    check_option(alternative, "extreme", ALTERNATIVES)
    name = f"extreme[{alternative!r}]"
    array = check_integer_array(counts, name, ge=0)
    if array.shape not in ((), reps.shape):
        raise InvalidParameterError(f"{name} must have shape {reps.shape}, got {array.shape}")
    if (array > reps).any():
        raise InvalidParameterError(
            f"{name} must be at most reps = {show(reps)}, got {show(array)}"
        )
    return np.broadcast_to(array, reps.shape)


def count_extreme(
    replicates: FloatArray,
    statistic: FloatArray,
    alternative: Alternative,
    *,
    ordered: bool = False,
) -> FloatArray:
    """Count the replicates that are at least as extreme as each statistic, ties included.

    ``ordered`` says that the replicates are sorted.
    """
    if not ordered and statistic.size > SORT_FROM:
        replicates, ordered = np.sort(replicates), True
    return count_beyond(replicates, bounds_of(statistic, alternative), ordered)


def beyond_ties(replicate: FloatArray) -> FloatArray:
    """Return the smallest statistics that are clearly larger than replicates."""
    return tied(replicate, 2.0)


def bounds_of(statistic: FloatArray, alternative: Alternative) -> Bounds:
    """Return from which value on, and up to which, replicates are at least as extreme."""
    size = np.abs(statistic) if alternative == "two-sided" else SIGNS[alternative] * statistic
    reached = tied(size, -1.0)
    upper = None if alternative == "smaller" else reached
    return upper, None if alternative == "larger" else -reached


def count_beyond(replicates: FloatArray, bounds: Bounds, ordered: bool) -> FloatArray:
    """Count the replicates beyond either bound, for each statistic."""
    count: Any = 0.0
    for bound, beyond in zip(bounds, (np.greater_equal, np.less_equal), strict=True):
        if bound is None:
            continue
        if ordered and beyond is np.less_equal:
            count = count + np.searchsorted(replicates, bound, side="right")
        elif ordered:
            count = count + (replicates.size - np.searchsorted(replicates, bound, side="left"))
        else:
            found = [np.count_nonzero(beyond(replicates, point)) for point in bound.flat]
            count = count + np.reshape(np.array(found, dtype=np.float64), bound.shape)
    # near zero both sides count the same replicates
    return np.asarray(np.minimum(count, replicates.size))


def clopper_pearson(
    events: ArrayLike, trials: ArrayLike, error: ArrayLike, *, stopped: ArrayLike = False
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of Clopper and Pearson (1934), each missed with probability ``error``.

    They are the smallest p with P(X >= x; p) >= error and the largest p with P(X <= x; p) >= error,
    for X binomial; 0 and 1 where there are no trials. With ``stopped`` the last trial is the x-th
    event, for certain: the upper bound is about the trials before it.

    >>> lower, upper = clopper_pearson([0, 5], [10, 10], 0.025)
    >>> lower.round(4), upper.round(4)
    (array([0.    , 0.1871]), array([0.3085, 0.8129]))
    """
    happened = np.asarray(events, dtype=np.float64)
    others = np.asarray(trials, dtype=np.float64) - happened
    # a beta quantile has no parameter 0: the bound is 0 or 1 there
    low = special.betaincinv(np.maximum(happened, 1.0), others + 1.0, error)
    beyond = np.where(stopped, happened, happened + 1.0)
    high = special.betainccinv(beyond, np.maximum(others, 1.0), error)
    return np.where(happened > 0, low, 0.0), np.where(others > 0, high, 1.0)
