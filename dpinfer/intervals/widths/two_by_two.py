"""Width of the intervals for what is told of a noisy 2 × 2 table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    FloatArray,
    check_array,
    check_flag,
    check_integer_array,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.ratios import Method
from dpinfer.intervals.two_by_two import (
    Measure,
    odds_ratio_confint,
    risk_difference_confint,
    risk_ratio_confint,
)
from dpinfer.intervals.widths._draws import binomial_counts, mean, median, noises, uniforms
from dpinfer.intervals.widths._plan import MOST_ERROR, WidthBySetting, rough_size
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import LARGEST_SIZE
from dpinfer.results.intervals import Intervals, Uncertainty

Scale = Literal["log", "plain"]

_CELLS = 4
_SMALLEST = 1e-9
"""Smallest risk that is planned for."""

_TABLES: dict[Method, int] = {"exact": 1 << 11, "normal": 1 << 13}
"""Number of published tables that are tried."""

_CONFINTS: dict[Measure, Callable[..., Intervals]] = {
    "risk ratio": risk_ratio_confint,
    "odds ratio": odds_ratio_confint,
    "risk difference": risk_difference_confint,
}


@final
@dataclass(frozen=True)
class TwoByTwoWidth(WidthBySetting):
    """Width of the interval for a risk ratio, an odds ratio or a risk difference.

    Parameters
    ----------
    mechanism : NoiseLaw, sequence of NoiseLaw or callable
        The law of the noise: one for all cells, or one for each of the four, row by row. Or a
        function that makes it from a privacy budget, such as :meth:`Laplace.from_epsilon`. With a
        function ``budget`` is one of the arguments.
    measure : {"risk ratio", "odds ratio", "risk difference"}
        What the interval is for.
    scale : {"log", "plain"}, optional
        What the width is of: ``"log"``, the default for ratios, is log(upper/lower); ``"plain"``,
        that of the difference, is upper - lower. A ratio is known to a factor f either way where
        the width is 2·log(f).
    ratio : float, default 1
        Size of the second group over that of the first, in [1e-6, 1e6]: the second group has
        ``ratio * nobs1`` members, rounded, but 1 at least.
    known_totals : bool, default False
        Whether the sizes of the groups are public, so that they are given as ``row_totals``.
    method : {"exact", "normal"}
        How the interval is made; see :func:`dpinfer.risk_ratio_confint`.
    uncertainty : {"noise", "noise+sampling"}
        What the interval covers; noise and sampling by ``method="normal"`` only, as exact intervals
        of so many tables would take minutes.

    See Also
    --------
    dpinfer.risk_ratio_confint, dpinfer.odds_ratio_confint, dpinfer.risk_difference_confint
    dpinfer.TwoProportionsPower : the sizes for a test.

    Notes
    -----
    The width depends on the published table. For the risk difference what is planned is its
    expectation. For ratios there is none: with some probability, however small, the interval has
    the end 0 or inf. What is planned for them is the *median* of the width: half of the releases
    have an interval that is not wider. It is infinite where half of them have one without a bound.

    The confidential table has nobs1·prop1 events in the first row, rounded, and likewise in the
    second, for the uncertainty ``"noise"``; for ``"noise+sampling"`` they are binomial. Published
    tables are made from 8192 points (2048 for the exact method) of a Sobol sequence in place of
    random numbers. :meth:`width_frame` has an estimate of the error, the difference from the rule
    with half as many points.

    Rounding makes the width a saw-tooth in the size of the groups. The size that is solved for
    reaches the width, and the size that is smaller by one does not.

    References
    ----------
    Sobol', I. M. (1967). On the distribution of points in a cube and the approximate evaluation of
    integrals. doi:10.1016/0041-5553(67)90144-9.

    Examples
    --------
    Risks of about 0.3 and 0.15, 400 persons in each group: which ε tells the risk ratio to a factor
    of 1.2 either way, as far as the noise goes? And how many persons, with ε = 1?

    >>> import numpy as np
    >>> from dpinfer import Laplace
    >>> plan = TwoByTwoWidth(Laplace.from_epsilon)
    >>> wanted = 2 * np.log(1.2)
    >>> round(plan.solve_width(width=wanted, prop1=0.3, prop2=0.15, alpha=0.05, nobs1=400), 3)
    0.415
    >>> plan.solve_width(width=wanted, prop1=0.3, prop2=0.15, alpha=0.05, budget=1.0)
    165.0
    """

    mechanism: NoisePlan
    measure: Measure = field(default="risk ratio", kw_only=True)
    scale: Scale | None = field(default=None, kw_only=True)
    ratio: float = field(default=1.0, kw_only=True)
    known_totals: bool = field(default=False, kw_only=True)
    method: Method = field(default="exact", kw_only=True)
    uncertainty: Uncertainty = field(default="noise", kw_only=True)

    _size = "nobs1"
    _own = ("nobs1", "prop1", "prop2")
    _given = ("prop1", "prop2")

    def __post_init__(self) -> None:
        check_option(self.measure, "measure", _CONFINTS)
        scale = "plain" if self.measure == "risk difference" else "log"
        if self.scale is not None:
            scale = check_option(self.scale, "scale", get_args(Scale))
            if scale == "log" and self.measure == "risk difference":
                raise InvalidParameterError(
                    "scale must be 'plain' for the risk difference, which may be below 0, got 'log'"
                )
        self._set(
            mechanism=check_plan(self.mechanism, self._cells),
            scale=scale,
            ratio=check_scalar(self.ratio, "ratio", ge=1e-6, le=1e6),
            known_totals=check_flag(self.known_totals, "known_totals"),
        )
        if (self.method, self.uncertainty) == ("exact", "noise+sampling"):
            raise InvalidParameterError(
                "method must be 'normal' to plan for uncertainty 'noise+sampling', got 'exact': "
                f"{_TABLES['exact']} such intervals would take minutes"
            )
        # the interval checks what the plan has in common with it
        self._intervals(np.ones((1, 2, 2)), np.full(2, 2.0), Exact(), 0.05)

    def width(
        self,
        nobs1: ArrayLike,
        prop1: ArrayLike,
        prop2: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Return the expected width, or the median width for ratios.

        Parameters
        ----------
        nobs1 : int or array of int
            Size of the first group.
        prop1, prop2 : float or array of float
            The risks of the two groups, in (0, 1).
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0 of each of the cells, where ``mechanism`` is a function of it.

        Returns
        -------
        float or array of float
            The width on ``scale``, in the shape to which the arguments broadcast; infinite where
            half of the intervals are not bounded.

        %(raises)s
        """
        return self._evaluate(nobs1=nobs1, prop1=prop1, prop2=prop2, alpha=alpha, budget=budget)

    def solve_width(
        self,
        *,
        prop1: float,
        prop2: float,
        nobs1: float | None = None,
        alpha: float | None = None,
        width: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``alpha`` or ``budget``, or an ``nobs1``, that makes the
            interval as narrow; see the notes.

        %(raises_unsolved)s
        """
        return self._solve(
            nobs1=nobs1, prop1=prop1, prop2=prop2, alpha=alpha, width=width, budget=budget
        )

    @property
    def _cells(self) -> tuple[int, ...]:
        return (_CELLS,)

    @property
    def _largest(self) -> float:
        """Largest size of the first group."""
        return float(np.floor(LARGEST_SIZE / max(self.ratio, 1.0)))

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs1":
            return check_integer_array(value, name, ge=1, le=self._largest)
        return check_array(value, name, ge=_SMALLEST, lt=1)

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        nobs1, *risks = own
        sizes = self._sizes(nobs1)
        published = self._published(law, sizes, np.array(risks))
        average = mean if self.measure == "risk difference" else median
        return average(self._widths(self._intervals(published, sizes, law, alpha)))

    def _sizes(self, nobs1: float) -> FloatArray:
        """Return the sizes of the two groups."""
        return np.array([nobs1, max(np.rint(self.ratio * nobs1), 1.0)])

    def _published(self, law: NoiseLaw, sizes: FloatArray, risks: FloatArray) -> FloatArray:
        """Return tables that may be published, all with the same probability."""
        number = _TABLES[self.method]
        if self.uncertainty == "noise":
            events = np.broadcast_to(np.rint(sizes * risks), (number, 2))
        else:
            events = _binomial_events(number, tuple(sizes.tolist()), tuple(risks.tolist()))
        tables = np.stack([events, sizes - events], axis=2)
        draws = uniforms(number, _CELLS + 2)[:, 2:]
        return np.asarray(tables + noises(law, draws).reshape(tables.shape))

    def _intervals(
        self, tables: FloatArray, sizes: FloatArray, law: NoiseLaw, alpha: float
    ) -> Intervals:
        return _CONFINTS[self.measure](
            tables,
            mechanism=law,
            row_totals=sizes if self.known_totals else None,
            alpha=alpha,
            method=self.method,
            uncertainty=self.uncertainty,
        )

    def _widths(self, intervals: Intervals) -> FloatArray:
        """Return the widths on the scale that is wanted; 0 where an interval is empty."""
        if self.scale == "plain":
            return np.asarray(intervals.width)
        some = ~np.asarray(intervals.empty) & (intervals.lower < intervals.upper)
        lower, upper = (np.where(some, end, 1.0) for end in intervals)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(upper) - np.log(lower))

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return an argument that reaches a width, looked for near a rough answer.

        The rough answer has (target/2z)² = a/n + b·v/n², with v the variance of the noise.
        """
        if name == "alpha":
            return super()._find(name, known, target)
        search = self._search(name, known, target)
        sampling, noise, unit = self._rough_variances(known)
        error = self._rough_error(known, target, unit)
        if name == self._size:
            law = self._law_at(known)
            std = min(float(np.sqrt(noise * np.mean(law.variance))), MOST_ERROR)
            guess = rough_size(sampling, std, error)
            return search.near(guess, 1.0, self._largest, integer=True)
        size = float(known["nobs1"])
        variance = size * (size * error**2 - sampling) / noise
        return search.near(self._rough_budget_for(variance, known), *BUDGETS)

    def _rough_variances(self, known: Columns) -> tuple[float, float, float]:
        """Return a and b for groups of n and ratio·n, and the width for a rough one of 1."""
        p = np.array([float(known["prop1"]), float(known["prop2"])])
        slopes = {"risk ratio": 1.0 / p, "odds ratio": 1.0 / (p * (1.0 - p))}
        slope = np.square(slopes.get(self.measure, np.ones(2)))
        odds = p / (1.0 - p)
        values = {"risk ratio": p[0] / p[1], "odds ratio": odds[0] / odds[1]}
        shares = np.array([1.0, self.ratio])
        noise = slope * (np.square(1.0 - p) + np.square(p)) / shares**2
        sampling = slope * p * (1.0 - p) / shares
        covered = float(sampling.sum()) if self.uncertainty == "noise+sampling" else 0.0
        unit = values.get(self.measure, 1.0) if self.scale == "plain" else 1.0
        return covered, float(noise.sum()), float(unit)


@lru_cache(maxsize=8)
def _binomial_events(number: int, sizes: tuple[float, ...], risks: tuple[float, ...]) -> FloatArray:
    """Return draws of the events in the two groups, shape (number, 2)."""
    draws = uniforms(number, _CELLS + 2)[:, :2]
    events = binomial_counts(np.array(sizes), np.array(risks), draws)
    events.setflags(write=False)
    return events
