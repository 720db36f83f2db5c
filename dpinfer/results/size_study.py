"""Rejection rates of tests, with their Monte Carlo errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._style import REFERENCE, add_legend, marker, series, styled_axes
from dpinfer._validation import FloatArray, freeze
from dpinfer.results.binomial_bounds import clopper_pearson
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

_MISSED = 0.05
"""Probability with which an interval for a rejection rate misses it."""

_ROUNDING = 1e-9
"""Relative difference between an exact rate and its level that may be rounding."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SizeStudy:
    """Rejection rates of tests; made by :func:`dpinfer.size_study`.

    Parameters
    ----------
    tests : tuple of str
        Names of the t tests.
    alpha : array of float, shape (a,)
        The nominal levels.
    rate : array of float, shape (t, a)
        The rates at which the tests reject.
    reps : array of int, shape (t,)
        Number of simulated releases behind the rates of each test; 0 where they are exact.
    under_null : bool
        Whether the null hypothesis was true, so that the rates are to be compared with the levels.
        Otherwise they are the power.
    notes : tuple of str
        What else the reader has to know, one remark each.

    Examples
    --------
    >>> study = SizeStudy(tests=("z test",), alpha=np.array([0.05]), rate=np.array([[0.056]]),
    ...                   reps=np.array([10_000]))
    >>> study
    SizeStudy(1 test at 1 level, 10000 releases)
    >>> study.excess.round(2), study.mc_error.round(4)
    (array([[2.75]]), array([[0.0023]]))
    """

    tests: tuple[str, ...]
    alpha: FloatArray
    rate: FloatArray
    reps: NDArray[np.int64]
    under_null: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("alpha", "rate", "reps"):
            object.__setattr__(self, name, freeze(np.asarray(getattr(self, name))))

    @property
    def mc_error(self) -> FloatArray:
        """Monte Carlo standard errors of the rates, shape (t, a); 0 where they are exact."""
        return self._error(self.rate)

    @property
    def excess(self) -> FloatArray:
        """By how many standard errors the rates exceed the levels, shape (t, a).

        The standard errors are those of a test whose rate is the level, √(α(1 - α)/R). Where a
        rate is exact it is infinite, or 0 if the rate is the level.
        """
        above, error = self.rate - self.alpha, self._error(np.broadcast_to(self.alpha, self._shape))
        above = np.where(np.abs(above) > _ROUNDING * self.alpha, above, 0.0)
        exact = np.where(above == 0.0, 0.0, np.copysign(np.inf, above))
        return np.where(error > 0.0, above / np.where(error > 0.0, error, 1.0), exact)

    def confint(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of 95 % intervals for the rates; the rates where they are exact.

        Returns
        -------
        lower, upper : array of float, shape (t, a)
            The ends.

        Notes
        -----
        Intervals of Clopper and Pearson (1934, doi:10.1093/biomet/26.4.404).
        """
        reps = np.broadcast_to(self.reps[:, np.newaxis], self._shape)
        low, high = clopper_pearson(np.round(self.rate * reps), reps, 0.5 * _MISSED)
        simulated = reps > 0
        return np.where(simulated, low, self.rate), np.where(simulated, high, self.rate)

    def summary_frame(self) -> pd.DataFrame:
        """Return the rates as a DataFrame.

        Returns
        -------
        DataFrame
            One row for each test and level: ``test``, ``alpha``, ``rate``, ``mc_error``, the
            interval ``ci_lower`` and ``ci_upper``, ``reps`` and, under the null hypothesis,
            ``excess``. Exact rates have ``reps`` and ``mc_error`` 0.
        """
        import pandas as pd

        lower, upper = self.confint()
        levels = self.alpha.size
        columns: dict[str, Any] = {
            "test": np.repeat(np.array(self.tests, dtype=object), levels),
            "alpha": np.tile(self.alpha, len(self.tests)),
            "rate": self.rate.ravel(),
            "mc_error": self.mc_error.ravel(),
            "ci_lower": lower.ravel(),
            "ci_upper": upper.ravel(),
            "reps": np.repeat(self.reps, levels),
        }
        if self.under_null:
            columns["excess"] = self.excess.ravel()
        return pd.DataFrame(columns)

    def summary(self) -> str:
        """Return the rates as a plain-text table.

        Returns
        -------
        str
            A row for each test and level, rounded for reading.
        """
        frame = self.summary_frame()
        shown = {"alpha": [f"{level:g}" for level in frame["alpha"]]}
        names = ("rate", "mc_error", *(("excess",) if self.under_null else ()))
        columns = {**shown, **{name: frame[name].to_numpy() for name in names}}
        what = "Size of tests" if self.under_null else "Power of tests"
        facts: list[tuple[str, object]] = [
            ("Null hypothesis", "true" if self.under_null else "false"),
            ("Releases", f"{self.reps.max()}" if self.reps.any() else "none, the rates are exact"),
        ]
        notes = list(self.notes)
        if exact := [name for name, n in zip(self.tests, self.reps, strict=True) if n == 0]:
            notes.insert(0, f"exact rates: {'; '.join(exact)}")
        if self.under_null:
            notes.insert(0, "excess: rate above alpha, in standard errors")
        alike = ("rate", "mc_error")
        return render_table(what, facts, columns, index=frame["test"], notes=notes, alike=alike)

    def plot(self, ax: Any = None) -> Any:
        """Draw the rejection rates against the levels; needs the extra ``[plot]``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes drawn on. Bars are 95 % intervals, the diagonal is a rate equal to the level.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        axes = styled_axes(ax)
        order = np.argsort(self.alpha)
        levels = self.alpha[order]
        rows = zip(self.tests, self.rate, *self.confint(), strict=True)
        for place, (name, rate, low, high) in enumerate(rows):
            bars = np.maximum([rate - low, high - rate], 0.0)[:, order]
            look = {**series(place), **marker(place), "capsize": 2}
            axes.errorbar(levels, rate[order], yerr=bars, label=name, **look)
        ends = [0.0, float(levels[-1])]
        axes.plot(ends, ends, color=REFERENCE, linewidth=1.0, label="nominal level")
        axes.set_xlabel("nominal level α")
        axes.set_ylabel("rejection rate" if self.under_null else "power")
        add_legend(axes)
        return axes

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.rate.shape

    def _error(self, rate: FloatArray) -> FloatArray:
        """Return standard errors of relative frequencies with these expectations."""
        reps = self.reps[:, np.newaxis]
        return np.where(reps > 0, np.sqrt(rate * (1.0 - rate) / np.maximum(reps, 1)), 0.0)

    def __repr__(self) -> str:
        tests, levels = len(self.tests), self.alpha.size
        how = f"{self.reps.max()} releases" if self.reps.any() else "exact"
        return (
            f"SizeStudy({tests} test{'s' * (tests > 1)} at {levels} level{'s' * (levels > 1)}, "
            f"{how})"
        )

    def __str__(self) -> str:
        return self.summary()
