"""Confidence intervals for any function of many counts, by the route that the function allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions.segregation import PROVED, IndexIntervals, upper_point
from dpinfer.functions.unbiased import (
    Exponential,
    areas_of,
    arguments,
    only_noise,
    refuse_shared,
    unbiased,
)
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.noises import Positions
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Uncertainty

Method = Literal["exact", "bound", "simulate", "delta"]
METHODS: tuple[Method, ...] = ("exact", "bound", "simulate", "delta")

_DRAWS: dict[Method, int] = {"exact": 1, "bound": 9999, "simulate": 400, "delta": 400}

_OF_ANY = (
    "what sampling does to a function depends on how its counts came about; rates, survival, life "
    "tables, moments, quantiles and distribution functions have it in functions of their own"
)

_MOST_POINTS = 2_000_000
"""Whole numbers in a joint region up to which a function is evaluated at all of them."""

_GUARANTEES = {"bound": PROVED, "simulate": "approximate", "delta": "asymptotic"}

_INNER = 25
"""Draws around each draw, for its own bias and standard error."""

_BLOCK = 1 << 21

_STEP = 6e-6
"""Of differences for slopes, next to the count: the cube root of the rounding of numbers."""

_BENT = 0.25
"""Standard errors that what is not linear in the noise may have at most, as a root mean square."""

_FEW, _NEAR = 10, 4.0
"""Of fewer counts than the first none may be below so many standard deviations."""

_PIVOTAL, _SPREAD, _BIAS = 1.05, 1.25, 1.0 / 3.0
"""Spread of the root up to which any bias is allowed; up to which, and with which, a small one."""


def function_confint(
    values: Any,
    function: Callable[..., Any] | Polynomial | Exponential,
    *,
    method: Method = "exact",
    by: Any = None,
    mechanism: Mechanism | tuple[Mechanism | None, ...] | None = None,
    monotone: Any = None,
    lower: float | None = 0.0,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int | None = None,
    rng: RNG = None,
) -> IndexIntervals:
    """Confidence intervals for a function of the confidential counts of each area.

    Parameters
    ----------
    values : float, array, Series, DataFrame, Release or estimate; or a tuple of them
        The published counts by cell. A tuple is one argument of ``function`` each, with independent
        noises; at most 5. Each row of two-dimensional arrays is an area of its own.
    function : callable, numpy Polynomial or functions.Exponential
        The function g. A callable takes one array for each argument, of shape (n, cells), and
        returns either n numbers, or (n, cells): a number for each cell, of which the sum is meant.
    method : {"exact", "bound", "simulate", "delta"}
        - ``"exact"``: for sums over cells, by :func:`dpinfer.unbiased`, under the laws that have
          unbiased estimates; by the normal law, for 30 counts or more.
        - ``"bound"``: the range of g over a joint confidence region, proved; of few cells, or of
          monotone functions.
        - ``"simulate"``: an approximate interval by simulation with its bias removed, refused
          where it cannot be trusted.
        - ``"delta"``: an asymptotic interval by the slopes of g, refused where it is not linear
          over what noise there is; of many cells, none of which outweighs the others.
    by : list, mapping, Series or str, optional
        Which cells are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw, or tuple of them
        The law of the noise; left out where ``values`` carries its own.
    monotone : 1, -1, or tuple of them, optional
        For ``"bound"``: whether g rises (1) or falls (-1) in the counts of each argument. It is
        not checked.
    lower : float or None, default 0
        The least possible confidential count; with None they are of any sign.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: what
        sampling does to any function of counts depends on how they came about.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1); at least 0.001 for ``"simulate"``.
    reps : int, optional
        How many errors are drawn: by default 9999 for ``"bound"``, which holds its level with any
        number >= 1/alpha - 1, and 400 for ``"simulate"`` and ``"delta"``, where at least 100.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IndexIntervals
        One interval an area, whose ``guarantee`` says what is known of it. Areas in which
        ``"simulate"`` or ``"delta"`` is refused have every number, and a note says how many.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the method has no interval for the function.
    NotEstimableError
        If the interval is refused in all areas.

    See Also
    --------
    dpinfer.functions.dissimilarity_confint : proved intervals of an index with many cells.

    Notes
    -----
    *Bound.* Counts are whole numbers. The region holds those f >= ``lower`` with
    Σ(yᵢ - fᵢ)²/vᵢ <= c, the order statistic of draws that one more draw exceeds with probability
    ``alpha`` at most; the interval has the least and the largest g(f) in it, by evaluation at all
    of them: up to 2,000,000, about four cells with noise of standard deviation 5. With ``monotone``
    the region is a box, max abs(yᵢ - fᵢ)/√vᵢ <= c, at two corners of which the ends are.

    *Delta.* The interval is g(f̂) ± z·√(sᵀΣs), with f̂ the published counts moved up to ``lower``,
    slopes s by central differences, and Σ the covariance of the errors, which combined estimates
    have between cells. With draws e of the errors, it is refused where the root mean square of
    g(f̂ + e) - g(f̂) - sᵀe is above a quarter of the standard error, as a bias of this size takes
    95 % to 94.3 %; and as below if fewer than 10 counts are noisy. Of 200 intervals of the 28 block
    groups below under σ 5, those of the variation all passed, and covered in 97 %; those of the
    dissimilarity passed in 32 %, and covered in 92 %; of Theil's index none passed, and of all
    three none under σ 15.

    *Simulation.* With f̂ the published counts moved up to ``lower``, ĝ = g(f̂), draws g* of the
    estimate at f̂, and 25 further draws around each of them that give its own bias b* and standard
    error s*, the interval is ĝ - b - s·q for quantiles q of the root (g* - ĝ - b*)/s*, b and s
    those of the draws g*. That the noise has been drawn twice shows whether it can be trusted: the
    root has spread 1 where bias and error do not depend on the counts. It is refused if the
    spread is above 1.25, or above 1.05 with a bias of more than s/3; if fewer than 10 counts are
    noisy and one is below 4 standard deviations; and where draws are alike. Shares of 95 %
    intervals that cover: of those by one level of draws, 2ĝ less the quantiles of g* (*basic*);
    and of these here, of which only a part passes (100 to 350 repeats, 20 for 209 cells; black and
    white persons of 7 tracts, 28 block groups and 209 blocks of Providence County, or cells of
    100):

    ======================================  =====  ======  ======
    function, cells, noise                  basic  passes  covers
    ======================================  =====  ======  ======
    dissimilarity, 28, σ 5                  0.93   0.99    0.95
    dissimilarity, 28, σ 15                 0.91   0.77    0.94
    dissimilarity, 28, σ 60                 0.77   0.02    1.00
    dissimilarity, 209, σ 1                 0.80   0.00    -
    dissimilarity, 209, σ 3                 0.30   0.00    -
    dissimilarity, 7, b 10                  0.90   1.00    0.94
    dissimilarity, 7, b 40                  0.95   0.97    0.98
    Theil, 28, σ 5                          0.94   0.66    0.97
    Theil, 28, σ 15                         0.89   0.37    0.97
    Gini, 28, σ 5                           0.94   1.00    0.95
    Gini, 28, σ 15                          0.87   0.92    0.93
    Gini, 28, σ 60                          0.82   0.00    -
    entropy, 28, b 10                       0.96   0.33    0.94
    entropy, 28, b 40                       0.94   0.00    -
    variation, 28, b 10                     0.91   0.88    0.93
    variation, 28, b 40                     0.83   0.01    0.00
    largest, 28, b 10                       0.97   0.70    0.97
    largest, 28, b 40                       0.81   0.15    0.80
    dissimilarity, 30 equal, s 7            0.26   0.00    -
    Gini, 30 equal, s 7                     0.27   0.00    -
    variation, 30 equal, s 7                0.31   0.00    -
    largest, 30 equal, s 7                  0.74   0.05    0.00
    roots, 28, s 2                          0.92   0.27    0.90
    roots, 209, s 2                         0.10   0.00    -
    zeros, 209, s 2                         0.15   0.00    -
    ratio, 1 of 3, s 2                      0.70   0.00    -
    ratio, 1 of 100, s 7                    0.97   1.00    0.96
    ======================================  =====  ======  ======

    Of all that pass 0.94 cover. Where few pass, those that do may not cover: what is small is the
    share of releases with an interval that is reported and wrong. The functions and counts are in
    ``tests/functions/simulated_coverage.py``.

    References
    ----------
    Beran, R. (1987). Prepivoting to reduce level error of confidence sets. Biometrika 74(3),
    457-468. doi:10.1093/biomet/74.3.457.
    Hall, P. (1992). The Bootstrap and Edgeworth Expansion. Springer.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import numpy as np
    >>> noise = dpi.Geometric(scale=1.0)
    >>> def coefficient(x):
    ...     return x.std(axis=-1) / np.maximum(x.mean(axis=-1), 1.0)
    >>> dpi.functions.function_confint(
    ...     [30, 5, 65], coefficient, method="bound", mechanism=noise, rng=1
    ... )
    IndexIntervals([0.652005, 0.8319], level 0.95, bound)
    """
    only_noise(uncertainty, "function_confint", _OF_ANY)
    way = check_option(method, "method", METHODS)
    alpha = check_alpha(alpha)
    floor = -np.inf if lower is None else check_scalar(lower, "lower")
    draws = _DRAWS[way] if reps is None else check_reps(reps)
    generator = check_rng(rng)
    parts, _ = arguments(values, mechanism)
    for one in parts:
        one.need(unruled=True, who="function_confint")
    for at, one in enumerate(parts):
        for other in parts[:at]:
            refuse_shared(other, one)
    if way == "exact":
        return _exact(function, parts, by, lower, alpha)
    if isinstance(function, (Polynomial, Exponential)):
        held = function

        def function(x: FloatArray) -> Any:
            return held(x)

    if not callable(function):
        raise InvalidParameterError(
            f"function must be a callable, a numpy Polynomial or functions.Exponential, got "
            f"{show(function)}"
        )
    cells, shape, labels = areas_of(parts[0], by)
    problem = _Problem(function, parts, floor, alpha, draws, generator)
    slopes = _slopes(monotone, len(parts))
    if way == "bound":
        problem.need_draws(1.0 / alpha - 1.0)
        found = [problem.projected(own, slopes) for own in cells]
    elif way == "delta":
        problem.need_draws(100.0)
        found = [problem.linearised(own) for own in cells]
    else:
        if alpha < 0.001:
            raise InvalidParameterError(
                f"alpha must be >= 0.001 for method='simulate', got {alpha:g}: use method='bound'"
            )
        problem.need_draws(max(100.0, 10.0 / alpha))
        found = [problem.simulated(own) for own in cells]
    return _intervals(found, way, alpha, shape, labels)


class _Found(NamedTuple):
    estimate: float
    lower: float
    upper: float
    plug_in: float
    why: str = ""


def _exact(
    function: Any, parts: list[NoisyValues], by: Any, lower: float | None, alpha: float
) -> IndexIntervals:
    def of_cells(*counts: FloatArray) -> Any:
        found = np.asarray(function(*(x[np.newaxis] for x in counts)))
        if found.shape != (1, *counts[0].shape):
            raise InvalidParameterError(
                "function must return a number for each cell for method='exact', of shape "
                f"{(1, *counts[0].shape)}, got {found.shape}: unbiased estimates are of sums over "
                "cells. Use method='bound' for few cells or monotone functions, or 'simulate'"
            )
        return found[0]

    known = isinstance(function, (Polynomial, Exponential)) or not callable(function)
    whole = None if lower is None else lower
    given: Any = parts[0] if len(parts) == 1 else tuple(parts)
    estimate = unbiased(function if known else of_cells, given, lower=whole).sum(by)  # type: ignore[arg-type]
    found = estimate.conf_int(alpha)
    return IndexIntervals(
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        alpha=alpha,
        method="exact",
        uncertainty="noise",
        labels=found.labels,
        notes=found.notes,
        plug_in=estimate.plug_in,
        guarantee="asymptotic, of an exactly unbiased estimate and variance",
    )


def _slopes(monotone: Any, size: int) -> FloatArray | None:
    if monotone is None:
        return None
    given = check_array(list(monotone) if isinstance(monotone, tuple) else monotone, "monotone")
    if given.shape not in ((), (size,)) or not (np.abs(given) == 1.0).all():
        raise InvalidParameterError(
            f"monotone must be 1 or -1, or a tuple with that of each of the {size} arguments, got "
            f"{show(monotone)}"
        )
    return np.broadcast_to(given, size)


def _intervals(
    found: Sequence[_Found], way: Method, alpha: float, shape: Any, labels: Any
) -> IndexIntervals:
    reasons = [one.why for one in found if one.why]
    if len(reasons) == len(found):
        raise NotEstimableError(
            f"function_confint refuses to {'linearise' if way == 'delta' else 'simulate'}: "
            f"{reasons[0]}. Use method='bound' for few cells or monotone functions, "
            "'exact' for sums over cells under geometric or Laplace noise, proved "
            "intervals such as dissimilarity_confint, or coarser cells"
        )
    notes: tuple[str, ...] = ()
    if reasons:
        notes = (
            f"{len(reasons)} of {len(found)} intervals are refused: every number is left there",
        )
    columns = np.array([one[:4] for one in found]).T.reshape(4, *shape)
    return IndexIntervals(
        estimate=columns[0],
        lower=columns[1],
        upper=columns[2],
        plug_in=columns[3],
        alpha=alpha,
        method=way,
        uncertainty="noise",
        labels=labels,
        notes=notes,
        assurance="bound" if way == "bound" else None,
        guarantee=_GUARANTEES[way],
    )


class _Problem:
    """A function of the cells of an area, and the errors that can be drawn."""

    def __init__(
        self,
        function: Callable[..., Any],
        parts: list[NoisyValues],
        floor: float,
        alpha: float,
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        self.function, self.parts, self.floor = function, parts, floor
        self.alpha, self.draws, self.rng = alpha, draws, rng
        self.alike = all(x.weights is None and x.marginal.shape == () for x in parts)
        self.points: dict[tuple[int, bool], float] = {}
        self.std = [x.std for x in parts]

    def need_draws(self, least: float) -> None:
        if self.draws < least:
            raise InvalidParameterError(
                f"reps must be >= {np.ceil(least):.6g} for alpha = {self.alpha:g}, got {self.draws}"
            )

    def value(self, counts: FloatArray) -> FloatArray:
        """Evaluate at points (n, arguments · cells)."""
        size = len(self.parts)
        each = np.split(counts, size, axis=1)
        found = np.asarray(self.function(*(one.copy() for one in each)))
        allowed = (len(counts),), each[0].shape
        if found.shape not in allowed or found.dtype.kind not in "buif":
            raise InvalidParameterError(
                f"function must return real numbers of shape {allowed[0]}, or {allowed[1]} for a "
                f"sum over cells, for arrays of shape {allowed[1]}, got {show(found)}: add up over "
                "the last axis"
            )
        found = found.astype(np.float64)
        if found.ndim == 2:
            found = found.sum(axis=1)
        if not (fine := np.isfinite(found) & (np.abs(found) < 1e150)).all():
            raise InvalidParameterError(
                "function must be finite and below 1e150 at every possible count, got "
                f"{found[~fine][0]} at {show(counts[~fine][0])}: define it there, or say with "
                "lower from where on counts are possible"
            )
        return found

    def errors(self, cells: Positions, draws: int) -> FloatArray:
        drawn = [x._take(cells).draw(draws, rng=self.rng) for x in self.parts]
        return np.concatenate(drawn, axis=1)

    def published(self, cells: Positions) -> tuple[FloatArray, FloatArray]:
        y = np.concatenate([x.values[cells] for x in self.parts])
        return y, np.concatenate([std[cells] for std in self.std])

    def projected(self, cells: Positions, slopes: FloatArray | None) -> _Found:
        """Return the range over a joint region."""
        y, std = self.published(cells)
        plug_in = float(self.value(np.maximum(y, self.floor)[np.newaxis])[0])
        if not std.any():
            return _Found(plug_in, plug_in, plug_in, plug_in)
        reach = self.region(cells, std, box=slopes is not None)
        if slopes is None:
            points = _whole_points(y, std, reach, self.floor)
            if not len(points):
                return _Found(plug_in, np.inf, -np.inf, plug_in)
            steps = range(0, len(points), max(1, _BLOCK // len(y)))
            values = [self.value(points[at : at + steps.step]) for at in steps]
            low, high = (float(end(map(end, values))) for end in (min, max))
        else:
            sign = np.repeat(slopes, len(cells))
            below, above = np.ceil(y - reach * std), np.floor(y + reach * std)
            below = np.where(std > 0.0, below, y)
            above = np.where(std > 0.0, above, y)
            below = np.maximum(below, np.ceil(self.floor))
            if (below > above).any():
                return _Found(plug_in, np.inf, -np.inf, plug_in)
            corners = np.stack([np.where(sign > 0, below, above), np.where(sign > 0, above, below)])
            low, high = map(float, self.value(corners))
            if low > high:
                raise InvalidParameterError(
                    f"monotone must say how the function goes, got {low:g} at the corner where it "
                    f"should be least and {high:g} where it should be largest"
                )
        return _Found(plug_in, low, high, plug_in)

    def region(self, cells: Positions, std: FloatArray, *, box: bool) -> float:
        """Return c: of the sum of squares of standardised errors, or of the largest of them."""
        key = len(cells), box
        if self.alike and key in self.points:
            return self.points[key]
        scale = np.where(std > 0.0, std, 1.0)
        size = np.empty(self.draws)
        step = max(1, _BLOCK // len(std))
        for start in range(0, self.draws, step):
            drawn = self.errors(cells, min(step, self.draws - start)) / scale
            own = np.abs(drawn).max(axis=1) if box else np.square(drawn).sum(axis=1)
            size[start : start + step] = own
        # ends on the boundary belong to the region, whatever rounding says
        self.points[key] = upper_point(size, self.alpha) * (1.0 + 1e-12)
        return self.points[key]

    def linearised(self, cells: Positions) -> _Found:
        """Return the interval by slopes."""
        y, std = self.published(cells)
        start = np.maximum(y, self.floor)
        plug_in = float(self.value(start[np.newaxis])[0])
        if not std.any():
            return _Found(plug_in, plug_in, plug_in, plug_in)
        if why := self.near_the_floor(start, std):
            return _Found(plug_in, -np.inf, np.inf, plug_in, why)
        slope = self.slopes(start, np.flatnonzero(std))
        variance = 0.0
        for x, own in zip(self.parts, np.split(slope, len(self.parts)), strict=True):
            if x.weights is None:
                variance += float(np.square(own) @ x.variance[cells])
            else:
                variance += float(own @ x.cov(cells) @ own)
        error = np.sqrt(max(variance, 0.0))
        step = max(1, _BLOCK // len(y))
        squares = 0.0
        for at in range(0, self.draws, step):
            drawn = self.errors(cells, min(step, self.draws - at))
            rest = self.value(np.maximum(start + drawn, self.floor)) - plug_in - drawn @ slope
            squares += float(np.square(rest).sum())
        if (bent := np.sqrt(squares / self.draws)) > _BENT * error or error == 0.0:
            why = f"what is not linear in the noise has size {bent:.2g}, the standard error is "
            return _Found(plug_in, -np.inf, np.inf, plug_in, f"{why}{error:.2g}")
        half = -float(special.ndtri(0.5 * self.alpha)) * error
        return _Found(plug_in, plug_in - half, plug_in + half, plug_in)

    def near_the_floor(self, start: FloatArray, std: FloatArray) -> str:
        """Say why few counts, one of them near the least, are refused."""
        noisy = np.count_nonzero(std)
        if noisy >= _FEW or not (start - self.floor < _NEAR * std).any():
            return ""
        return f"with {noisy} noisy counts none may be below {_NEAR:g} standard deviations"

    def slopes(self, start: FloatArray, noisy: Positions) -> FloatArray:
        """Return central differences in the noisy counts, one-sided where counts end."""
        found = np.zeros(len(start))
        for own in np.array_split(noisy, -(-len(noisy) * len(start) // _BLOCK)):
            row, points = np.arange(len(own)), np.tile(start, (2, len(own), 1))
            reach = _STEP * np.maximum(np.abs(start[own]), 1.0)
            points[0, row, own] += reach
            points[1, row, own] = np.maximum(points[1, row, own] - reach, self.floor)
            above, below = (self.value(each) for each in points)
            found[own] = (above - below) / (points[0, row, own] - points[1, row, own])
        return found

    def simulated(self, cells: Positions) -> _Found:
        """Return the interval by roots of two levels of draws."""
        y, std = self.published(cells)
        start = np.maximum(y, self.floor)
        plug_in = float(self.value(start[np.newaxis])[0])
        if not std.any():
            return _Found(plug_in, plug_in, plug_in, plug_in)

        def refused(why: str) -> _Found:
            return _Found(plug_in, -np.inf, np.inf, plug_in, why)

        if why := self.near_the_floor(start, std):
            return refused(why)
        first = np.maximum(start + self.errors(cells, self.draws), self.floor)
        estimates = self.value(first)
        bias, error = np.empty(self.draws), np.empty(self.draws)
        step = max(1, _BLOCK // (_INNER * len(y)))
        for at in range(0, self.draws, step):
            own = first[at : at + step]
            again = np.repeat(own, _INNER, axis=0)
            again = np.maximum(again + self.errors(cells, len(again)), self.floor)
            inner = self.value(again).reshape(-1, _INNER)
            bias[at : at + step] = inner.mean(axis=1) - estimates[at : at + step]
            error[at : at + step] = inner.std(axis=1, ddof=1)
        shift, spread = estimates.mean() - plug_in, estimates.std(ddof=1)
        if not (error > 1e-9 * spread).all() or not spread > 1e-12 * abs(plug_in):
            return refused("the function is constant over some of the draws")
        root = (estimates - plug_in - bias) / error
        scatter = root.std()
        if scatter > _SPREAD or (scatter > _PIVOTAL and abs(shift) > _BIAS * spread):
            return refused(
                f"bias of {shift / spread:.2g} standard errors and a root with spread "
                f"{scatter:.3g}: it would cover less often than it says"
            )
        wide = _by_order(root, self.alpha)
        centre = plug_in - shift
        return _Found(centre, centre - spread * wide[1], centre - spread * wide[0], plug_in)


def _by_order(root: FloatArray, alpha: float) -> tuple[float, float]:
    """Return lower and upper points of the root, no closer than those of the normal law."""
    low, high = np.quantile(root, [0.5 * alpha, 1.0 - 0.5 * alpha])
    z = -special.ndtri(0.5 * alpha)
    return min(float(low), -z), max(float(high), z)


def _whole_points(y: FloatArray, std: FloatArray, reach: float, floor: float) -> FloatArray:
    """Return all whole numbers f >= floor with Σ((y - f)/std)² <= reach, (n, cells)."""
    points, used = np.empty((1, 0)), np.zeros(1)
    for value, scale in zip(y, std, strict=True):
        if scale == 0.0:
            points = np.column_stack([points, np.full(len(points), value)])
            continue
        half = scale * np.sqrt(reach)
        first, last = max(np.ceil(value - half), np.ceil(floor)), np.floor(value + half)
        width = max(last - first + 1.0, 0.0)
        if width * len(points) > 5.0 * _MOST_POINTS:
            raise _too_many()
        line = first + np.arange(int(width))
        sums = used[:, np.newaxis] + np.square((value - line) / scale)
        row, column = np.nonzero(sums <= reach)
        if len(row) > _MOST_POINTS:
            raise _too_many()
        points, used = np.column_stack([points[row], line[column]]), sums[row, column]
    return points


def _too_many() -> InvalidParameterError:
    return InvalidParameterError(
        f"values must be few cells for method='bound', whose joint region has at most "
        f"{_MOST_POINTS:,} whole numbers, got more: say with monotone whether the function rises "
        "or falls in all counts, use method='exact' or 'simulate', or coarser cells"
    )
