"""Null distributions of test statistics: one face for all, and those with known tails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._style import add_legend, series, styled_axes
from dpinfer._validation import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_alpha,
    check_array,
    check_integer,
    check_option,
    freeze,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results.tables import render_table

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


class NullDistribution(ABC):
    """The law of a test statistic when the null hypothesis is true.

    The alternative says which values speak against the null hypothesis: large ones
    (``"larger"``), small ones (``"smaller"``), or those far from zero (``"two-sided"``, for
    statistics centred at zero). A distribution may stand for the laws of several statistics at
    once, one law for each; arguments then broadcast against them.
    """

    @final
    @np.errstate(over="ignore")
    def pvalue(self, statistic: ArrayLike, alternative: Alternative = "two-sided") -> Any:
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
    def pvalue_error(self, statistic: ArrayLike) -> Any:
        """Absolute error of :meth:`pvalue` where that is what bounds it, and its least value.

        Parameters
        ----------
        statistic : float or array of float
            Observed values of the statistic.

        Returns
        -------
        float or array of float
            0 where p-values are accurate relative to their size, however small. Elsewhere no
            p-value is given out below this error: one that is equal to it says "not above".
        """
        return np.asarray(self._pvalue_error(_points(statistic)))[()]

    @final
    @np.errstate(over="ignore")
    def critical_value(self, alpha: float, alternative: Alternative = "two-sided") -> Any:
        """Value from which on a test of level ``alpha`` rejects.

        Parameters
        ----------
        alpha : float
            Level of the test, in (0, 1).
        alternative : {"two-sided", "larger", "smaller"}
            Which values speak against the null hypothesis.

        Returns
        -------
        float or array of float
            The smallest c (the largest for ``"smaller"``) whose p-value is at most ``alpha``, up
            to rounding: reject where the statistic is >= c (``"larger"``), <= c (``"smaller"``)
            or beyond c in absolute value (``"two-sided"``). Infinite where no value is extreme
            enough.
        """
        level = check_alpha(alpha)
        chosen = check_option(alternative, "alternative", ALTERNATIVES)
        return self._critical(level, chosen)[()]

    @final
    @np.errstate(over="ignore")
    def mc_error(self, statistic: ArrayLike, alternative: Alternative = "two-sided") -> Any:
        """Monte Carlo standard error of :meth:`pvalue`.

        Parameters
        ----------
        statistic, alternative
            As for :meth:`pvalue`.

        Returns
        -------
        float or array of float
            √(p(1 - p)/R) for R replicates; 0 where nothing was simulated.
        """
        points = _points(statistic)
        chosen = check_option(alternative, "alternative", ALTERNATIVES)
        return self._mc_error(points, chosen)[()]

    @final
    @np.errstate(over="ignore")
    def mc_confint(
        self, statistic: ArrayLike, alternative: Alternative = "two-sided", alpha: float = 0.05
    ) -> tuple[Any, Any]:
        """Interval for the p-value that infinitely many replicates would give.

        Parameters
        ----------
        statistic, alternative
            As for :meth:`pvalue`.
        alpha : float, default 0.05
            The interval misses that p-value with probability ``alpha`` at most, in (0, 1).

        Returns
        -------
        low, high : float or array of float
            The ends of the interval; both :meth:`pvalue` where nothing was simulated.
        """
        points = _points(statistic)
        chosen = check_option(alternative, "alternative", ALTERNATIVES)
        low, high = self._mc_confint(points, chosen, check_alpha(alpha))
        return low[()], high[()]

    @final
    def summary(self) -> str:
        """Return a plain-text table with the critical values at levels 0.1, 0.05 and 0.01.

        Returns
        -------
        str
            The table; without critical values where there are several laws.
        """
        critical: dict[str, FloatArray] = {
            alternative: np.array([self._critical(a, alternative) for a in _SUMMARY_LEVELS])
            for alternative in ALTERNATIVES
        }
        facts = self._facts()
        if critical["larger"].ndim > 1:
            facts = [*facts, ("Laws", f"{critical['larger'].shape[-1]}, one for each statistic")]
            return render_table("Null distribution", facts)
        levels = [f"Critical value at level {level:g}" for level in _SUMMARY_LEVELS]
        return render_table("Null distribution", facts, critical, index=levels)

    @final
    def plot(self, ax: Any = None, statistic: float | None = None) -> Any:
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
            The axes drawn on.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        InvalidParameterError
            If the distribution stands for several laws.
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

    def __str__(self) -> str:
        return self.summary()

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
    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        """Probability of a value at least as extreme."""

    @abstractmethod
    def _critical(self, alpha: float, alternative: Alternative) -> FloatArray:
        """Critical value of a test of level ``alpha``."""

    @abstractmethod
    def _mc_error(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        """Monte Carlo standard error of the p-value."""

    @abstractmethod
    def _mc_confint(
        self, statistic: FloatArray, alternative: Alternative, alpha: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the Monte Carlo interval of the p-value."""

    def _pvalue_error(self, statistic: FloatArray) -> FloatArray:
        """Absolute error of p-values that are not accurate relative to their size."""
        return np.zeros(statistic.shape)

    @abstractmethod
    def _facts(self) -> list[tuple[str, object]]:
        """Header of the summary."""


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
        """Bisection, which also finds the jumps of a law with atoms."""
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
        """Return the normal law with mean 0.

        Parameters
        ----------
        std : float or array of float, default 1
            Standard deviation > 0, in units of the statistic; an array stands for several laws.

        Returns
        -------
        AsymptoticNull
            The law.
        """
        scale = freeze(check_array(std, "std", gt=0))
        shown = f"normal, standard deviation {float(scale):.6g}" if scale.ndim == 0 else "normal"
        return cls(
            partial(_normal, -scale),
            partial(_normal, scale),
            shown,
        )

    @classmethod
    def chi2(cls, df: int) -> Self:
        """Return the chi-squared law.

        Parameters
        ----------
        df : int
            Degrees of freedom, >= 1.

        Returns
        -------
        AsymptoticNull
            The law.
        """
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


# Tails of the limiting laws: functions of the module, so that results can be pickled.


def _normal(scale: FloatArray, s: FloatArray) -> FloatArray:
    return np.asarray(special.ndtr(s / scale))


def _chi2_upper(degrees: int, s: FloatArray) -> FloatArray:
    return np.asarray(special.chdtrc(degrees, np.maximum(s, 0.0)))


def _chi2_lower(degrees: int, s: FloatArray) -> FloatArray:
    return np.asarray(special.chdtr(degrees, np.maximum(s, 0.0)))
