"""Widths that are known: those of the noise, and those where published values are the true ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_flag,
    check_integer,
    check_integer_array,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
    freeze,
)
from dpinfer._planning.engine import BUDGETS, SIZES, Bounds, Columns, Search, WidthRow
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.fieller import METHODS
from dpinfer.estimation.pivots import METHODS as COUNT_METHODS
from dpinfer.estimation.pivots import sidak
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals._survey_designs import DESIGNS, DesignName
from dpinfer.intervals.clipped_mean import clipped_mean_confint
from dpinfer.intervals.counts import (
    count_confint,
    half_width,
    linear_confint,
    tail_of,
)
from dpinfer.intervals.ratios import linear_ratio_confint, ratio_confint
from dpinfer.intervals.selected import unpublished_bound
from dpinfer.intervals.surveys import stratified_total, survey_total
from dpinfer.mechanisms import Exact, Laplace
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.releases.values import LARGEST_VALUE
from dpinfer.results.intervals import Intervals, Uncertainty
from dpinfer.results.labels import split_labels

_MOST_CELLS = 10**12
"""Largest number of intervals that hold together."""

_COUNT: Bounds = {"ge": -1e15, "le": 1e15}
"""Bounds of thresholds and counts: beyond, whole numbers are not told apart."""

_BOUND: Bounds = {"ge": -1e25, "le": 1e25}
"""Those of the bounds of a clipped variable: sums of the most values do not overflow."""

_FACTORS = (1e-9, 1e12)
"""Range of the factors of values."""

_VALUE: Bounds = {"ge": -LARGEST_VALUE, "le": LARGEST_VALUE}

_BUDGETS_TRIED = 91
"""Budgets at which a width that is not monotone is tried, five for each power of ten."""

COSTLY_PRECISION = 1e-8
"""Relative precision of what is solved for where widths are costly."""

MOST_ERROR = 1e60
"""Rough answers are for standard errors up to here: squares of what is beyond may overflow."""


def rough_error(known: Columns, target: float, unit: float) -> float:
    """Return the standard error, in some unit, of normal intervals that are as wide."""
    # from alpha near 1 the quantile is near 0
    z = max(-float(special.ndtri(0.5 * known["alpha"])), 1.0 / MOST_ERROR)
    return min(max(0.5 * target / (z * unit), 1.0 / MOST_ERROR), MOST_ERROR)


@dataclass(frozen=True, eq=False, kw_only=True)
class CountWidth(WidthRow):
    """Width 2t of the interval for a count, with t the quantile of the noise.

    It does not depend on the count; for one count with Laplace noise it is 2b·ln(1/α). ``cells``
    counts with independent noises have intervals that cover them together with probability
    1 - ``alpha``. Restricting an interval to possible values can only make it narrower. A budget
    buys one release of all the counts; where it is split between several releases, the function has
    to say so: ``lambda budget: Laplace.from_epsilon(budget / 3)``.
    """

    method: Any = "exact"
    cells: int = 1

    def prepare(self) -> None:
        method = check_option(self.method, "method", COUNT_METHODS)
        cells = check_integer(self.cells, "cells", ge=1, le=_MOST_CELLS)
        self.set(method=method, cells=cells)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        return 2.0 * half_width(law, tail_of(alpha, self.method, self.cells), self.method), 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearWidth(WidthRow):
    """Width of the interval for a linear function of values, of several that of the widest.

    It is that of the law of Σ cᵢeᵢ, whatever the values are. ``weights`` has shape (m,), or (k, m)
    for k functions. The intervals of :func:`dpinfer.combine` are planned by the ``weights`` of such
    an estimate from made-up values: these stay the same as long as the budget changes all noise by
    one factor. Under whole-numbered noise with weights that are not whole, the interval may be
    wider by its rounding, 1e-14 of the values.

    ``simultaneous`` exact intervals of dependent functions need a simulation, always of the same
    draws; the ``error`` of a curve is by how much narrower they are at a level that is higher by
    the standard deviation of the simulated coverage. Intervals made in the end, with draws of their
    own, differ by as much.
    """

    weights: Any
    method: Any = "exact"
    simultaneous: bool = False
    reps: int = 10_000
    rng: RNG = 0
    _seed: tuple[int, ...] = field(init=False, repr=False)

    def prepare(self) -> None:
        weights = check_array(self.weights, "weights")
        weights = freeze(checked_weights(weights, None, weights.shape[-1] if weights.ndim else 1))
        if not weights.any():
            raise InvalidParameterError("weights must not all be 0: the function is 0 for sure")
        method = check_option(self.method, "method", COUNT_METHODS)
        self.set(
            weights=weights,
            method=method,
            simultaneous=check_flag(self.simultaneous, "simultaneous"),
            reps=check_reps(self.reps),
            _seed=tuple(check_rng(self.rng).integers(0, 1 << 32, size=8).tolist()),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (np.shape(self.weights)[-1],)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        width, mc_error = self._widest(law, alpha)
        if mc_error == 0.0:
            return width, 0.0
        above, _ = self._widest(law, min(alpha + mc_error, 0.5 * (1.0 + alpha)))
        return width, width - above

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        low, high = super().range(name, known)
        if name == "alpha" and self._widest(self.law_at(known), 0.5)[1] > 0.0:
            # a quantile beyond the largest of the replicates is not to be had
            low = max(low, (1.0 + 1e-9) / (self.reps + 1.0))
        return low, high

    def _widest(self, law: NoiseLaw, alpha: float) -> tuple[float, float]:
        """Return the width of the widest interval, and what its coverage varies by."""
        intervals = linear_confint(
            np.zeros(self.shape),
            self.weights,
            mechanism=law,
            alpha=alpha,
            method=self.method,
            simultaneous=self.simultaneous,
            reps=self.reps,
            # the same draws each time, so that widths are comparable
            rng=np.random.default_rng(self._seed),
        )
        return float(np.max(intervals.width)), intervals.mc_error


@dataclass(frozen=True, eq=False, kw_only=True)
class UnpublishedWidth(WidthRow):
    """Width of the interval for a count that was not published: τ + t less ``lower``.

    t is the upper α-quantile of the noise; ``cells`` unpublished counts have bounds that hold
    together. The width does not depend on the data, and is at least about τ less ``lower`` for
    α < 1/2, whatever the budget.
    """

    threshold: float
    lower: float = 0.0
    cells: int = 1

    def prepare(self) -> None:
        self.set(
            threshold=check_scalar(self.threshold, "threshold", **_COUNT),
            lower=check_scalar(self.lower, "lower", **_COUNT),
            cells=check_integer(self.cells, "cells", ge=1, le=_MOST_CELLS),
        )

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        bound = unpublished_bound(
            mechanism=law,
            threshold=self.threshold,
            alpha=sidak(alpha, self.cells),
            lower=self.lower,
        )
        return bound.width, 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdedWidth(WidthRow):
    """Width of the interval for a value published because it reached a threshold.

    It depends on the published value; what is planned is the width where that is the confidential
    one, ``count``. It is infinite where the interval has no lower end, and 0 where the interval is
    empty, as it is for values that lie above the threshold by much less than the noise.

    Where the noise is wide the width is not monotone in the budget. The budget that is solved for
    is the one from which on, up to 1e9, all budgets make the interval as narrow; five budgets for
    each power of ten are tried. An empty interval is not an answer.
    """

    threshold: float
    method: Literal["exact", "naive"] = "exact"
    lower: float | None = 0.0

    own = {"count": {}}  # noqa: RUF012
    given = ("count",)

    def prepare(self) -> None:
        threshold = check_scalar(self.threshold, "threshold", **_COUNT)
        self.set(threshold=threshold, own={"count": {**_COUNT, "ge": threshold}})
        if self.lower is not None:
            self.set(lower=check_scalar(self.lower, "lower", **_COUNT))
        # the interval checks what the plan has in common with it
        self._intervals(Laplace(scale=1.0), 0.05, np.array([self.threshold]))

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        return self._intervals(law, alpha, columns["count"]).width, 0.0

    def find(self, name: str, known: Columns, target: float) -> float:
        if name == "budget":
            return self._last_step(known, target)
        found = super().find(name, known, target)
        if self._intervals_at({**known, name: np.asarray(found)}).empty:
            raise InvalidParameterError(
                f"width must be one that can be reached: at {name} = {found:.6g} the interval "
                f"becomes empty before it is as narrow, got {target}"
            )
        return found

    def _last_step(self, known: Columns, target: float) -> float:
        def told(budgets: FloatArray) -> FloatArray:
            # an empty interval, which tells nothing, is the widest
            found = [self._intervals_at({**known, "budget": budget}) for budget in budgets]
            return np.array([np.inf if each.empty else float(each.width) for each in found])

        search = Search(self.quantity, target, self.rises, "budget", told)
        for low, high in reversed(list(pairwise(np.geomspace(*BUDGETS, _BUDGETS_TRIED).tolist()))):
            if search.lack_at(low) > 0.0:
                return search.first(low, high, logarithmic=True)
        return search.first(*BUDGETS, logarithmic=True)

    def _intervals(self, law: NoiseLaw, alpha: float, count: FloatArray) -> Intervals:
        return count_confint(
            count,
            mechanism=law,
            threshold=self.threshold,
            alpha=alpha,
            method=self.method,
            lower=self.lower,
        )

    def _intervals_at(self, known: Mapping[str, Any]) -> Intervals:
        return self._intervals(self.law_at(known), float(known["alpha"]), known["count"])


@dataclass(frozen=True, eq=False, kw_only=True)
class RatioWidth(WidthRow):
    """Width of the confidence set for a ratio where the published values are the true ones.

    The width depends on the published values, and is not finite with some probability, however
    small, so that it has no expectation. It is infinite where the set is the complement of an
    interval, or every number. ``mechanism`` is the law of the noise in each of the two values.
    """

    method: Any = "exact"

    own = {"numerator": _VALUE, "denominator": _VALUE}  # noqa: RUF012
    given = ("numerator", "denominator")

    def prepare(self) -> None:
        check_option(self.method, "method", METHODS)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        sets = ratio_confint(
            columns["numerator"],
            columns["denominator"],
            mechanism=law,
            alpha=alpha,
            method=self.method,
        )
        return sets.width, 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearRatioWidth(WidthRow):
    """Width of the set for a ratio of linear functions, of several that of the widest.

    ``values`` are the confidential values that are planned for: a table of an earlier year, or
    shares that are expected; ``numerator`` and ``denominator`` are weights as for
    :func:`dpinfer.linear_ratio_confint`. The width is that where the published values are the
    confidential ones; it is infinite where that set is not bounded.

    ``size`` multiplies the values: where they are the shares of the cells in a table, it is the
    total of the table. Under noise that takes whole numbers only, the products are rounded. The
    width is then a saw-tooth in the size, and the set of such noise makes it one in the budget,
    too: the number that is solved for reaches the width, and one that is smaller by little does
    not. A width takes as long as the sets, up to a few seconds for each exact set under
    whole-numbered noise, and what is solved for about ten times as long. The share of one part in
    the sum of two has the functions ``[1, 0]`` and ``[1, 1]``.
    """

    values: Any
    numerator: Any
    denominator: Any
    method: Any = "exact"
    simultaneous: bool = False

    own = {"size": {"ge": _FACTORS[0], "le": _FACTORS[1]}}  # noqa: RUF012
    optional = {"size": 1.0}  # noqa: RUF012
    logarithmic = WidthRow.logarithmic | {"size"}

    def prepare(self) -> None:
        values, labels = split_labels(self.values, "values")
        if values.ndim != 1:
            raise InvalidParameterError(f"values must be one-dimensional, got shape {values.shape}")
        for name in ("numerator", "denominator"):
            weights = checked_weights(getattr(self, name), labels, len(values), name)
            self.set(**{name: freeze(weights)})
        self.set(
            values=freeze(values),
            method=check_option(self.method, "method", METHODS),
            simultaneous=check_flag(self.simultaneous, "simultaneous"),
        )
        # the interval checks what the plan has in common with it
        self.one(Exact(), 0.05, 1.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.values)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        return _FACTORS if name == "size" else super().range(name, known)

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        with np.errstate(over="ignore"):
            values = own[0] * self.values
        sets = linear_ratio_confint(
            np.where(integer_cells(law, values.size), np.rint(values), values),
            self.numerator,
            self.denominator,
            mechanism=law,
            alpha=alpha,
            method=self.method,
            simultaneous=self.simultaneous,
        )
        return float(np.max(sets.width)), 0.0

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        """Return what asymptotic sets need, which cost less."""
        if self.method != "exact":
            return None
        return self.found_by(name, known, target, method="asymptotic")

    def precision(self, name: str) -> float:
        return COSTLY_PRECISION


@dataclass(frozen=True, eq=False, kw_only=True)
class ClippedMeanWidth(WidthRow):
    """Width of the interval for a clipped mean where the published mean is amid the bounds.

    It is the largest one: 2t with t the half-width, or b - a where that is less. ``bounds`` are
    those of the clipping, a < b; ``std`` is the standard deviation of the clipped variable, where
    it is known. ``noise_in`` says whether ``mechanism`` is the law of the noise in the mean, or in
    the sum of the n values. Noise in the sum has one law whatever n is; in the mean it is n times
    smaller. To plan n, the sum is what is wanted: one value moves it by b - a at most, so that the
    function is, for example, ``lambda budget: Laplace.from_epsilon(budget, sensitivity=b - a)``.
    """

    bounds: tuple[float, float]
    std: float | None = None
    method: Any = None
    uncertainty: Uncertainty = "noise+sampling"
    noise_in: Literal["mean", "sum"] = "mean"

    own = {"nobs": SIZES}  # noqa: RUF012
    size = "nobs"

    def prepare(self) -> None:
        check_option(self.noise_in, "noise_in", ("mean", "sum"))
        bounds = check_array(self.bounds, "bounds", ndim=1, **_BOUND)
        std = None if self.std is None else check_scalar(self.std, "std")
        self.set(bounds=tuple(bounds.tolist()), std=std)
        # the interval checks what the plan has in common with it
        self._width(Exact(), 0.05, 1.0, self.bounds)

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        # the interval is in units of what the noise was added to
        unit = own[0] if self.noise_in == "sum" else 1.0
        half = 0.5 * unit * (self.bounds[1] - self.bounds[0])
        return self._width(law, alpha, own[0], (-half, half), unit) / unit, 0.0

    def _width(
        self, law: NoiseLaw, alpha: float, nobs: float, bounds: tuple[float, float], unit: float = 1
    ) -> float:
        interval = clipped_mean_confint(
            0.0,
            nobs,
            bounds=bounds,
            mechanism=law,
            std=None if self.std is None else unit * self.std,
            alpha=alpha,
            method=self.method,
            uncertainty=self.uncertainty,
        )
        return float(interval.width)


@dataclass(frozen=True, eq=False, kw_only=True)
class SurveyWidth(WidthRow):
    """Width of the interval for a population total, or share, from a simple random sample.

    What is planned is the width where the published count is that of a sample of n units with a
    share p, n·p, rounded to a whole number where the noise takes whole numbers only. For Gaussian
    noise of standard deviation σ, which adds σ² to the estimate of n²p(1 - p), its square for the
    total is 4z²(N²(1 - n/N)·s²/n + (N/n)²σ²) with s² = (n²p(1 - p) + σ²)/(n(n - 1)).

    Rounding makes the width a saw-tooth in n, as does the law of whole-numbered noise. The size
    that is solved for reaches the width, and the size that is smaller by one does not.
    """

    population_size: int
    uncertainty: Uncertainty = "noise+sampling"
    method: Any = None

    own = {"sample_size": {}, "proportion": {"ge": 0.0, "le": 1.0}}  # noqa: RUF012
    given = ("proportion",)
    size = "sample_size"

    def prepare(self) -> None:
        size = check_integer(self.population_size, "population_size", ge=1, le=int(LARGEST_NOBS))
        limits = {"ge": min(2, size), "le": size}
        self.set(population_size=size, own={**self.own, "sample_size": limits})
        # the interval checks what the plan has in common with it
        self.at(Exact(), 0.05, {"sample_size": np.array([size]), "proportion": np.zeros(1)})

    @property
    def _unit(self) -> float:
        return 1.0 if self.procedure.__name__ == "survey_total" else float(self.population_size)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        count = columns["sample_size"] * columns["proportion"]
        estimate = survey_total(
            np.rint(count) if law.is_integer else count,
            mechanism=law,
            sample_size=columns["sample_size"],
            population_size=self.population_size,
        )
        intervals = estimate.conf_int(alpha, uncertainty=self.uncertainty, method=self.method)
        return np.asarray(intervals.width) / self._unit, 0.0

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        """Root of (target/2)² = z²·((1/n - 1/N)·p(1 - p) + v/n²)·N²."""
        if name != self.size:
            return None
        size, share = float(self.population_size), float(known["proportion"])
        noise = min(float(self.law_at(known).std), MOST_ERROR)
        # of the estimated share
        error = rough_error(known, target * self._unit, size)
        spread = share * (1.0 - share)
        linear = spread / (error**2 + spread / size)
        return min(max(linear + noise / error, 1.0), size)


@dataclass(frozen=True, eq=False, kw_only=True)
class StratifiedWidth(WidthRow):
    """Width of the interval for a total, or a share, from samples of several strata.

    ``population_size`` are the sizes N of the strata, ``proportion`` the shares p of them that have
    the property, and ``allocation`` the shares of the sample that are drawn from each, or numbers
    in proportion to them; by default those of the population. What is planned is the width where
    the published counts are the expected ones, n·p in each stratum, rounded where the noise takes
    whole numbers only. The sample of a stratum, under ``design="srs"``, is its part of the sample
    size, rounded, but two units at least, and not more than there are. Under ``"poisson"`` its
    expected size is its part of the sample size, and not more than there are.

    Rounding makes the width a saw-tooth in n. The size that is solved for reaches the width, and
    the size that is smaller by one does not. An exact width takes some tenths of a second:
    ``"convolution"`` plans a size that is a little too small in a fraction of the time.
    """

    population_size: Any
    proportion: Any
    allocation: Any = None
    design: DesignName = "srs"
    uncertainty: Uncertainty = "noise+sampling"
    method: Any = None

    own = {"sample_size": SIZES}  # noqa: RUF012
    size = "sample_size"

    def prepare(self) -> None:
        size = check_integer_array(self.population_size, "population_size", ge=1)
        if size.ndim != 1:
            raise InvalidParameterError(
                f"population_size must have one entry for each stratum, got shape {size.shape}"
            )
        check_array(size, "population_size", le=LARGEST_NOBS / size.size)
        self.set(population_size=freeze(size))
        share = self._one_each(check_array(self.proportion, "proportion", ge=0, le=1), "proportion")
        parts = size
        if self.allocation is not None:
            given = check_array(self.allocation, "allocation", gt=0, le=LARGEST_NOBS)
            parts = self._one_each(given, "allocation")
        self.set(
            proportion=freeze(share),
            allocation=freeze(parts / parts.sum()),
            design=check_option(self.design, "design", DESIGNS),
            own={"sample_size": {"ge": 1.0, "le": self._everybody}},
        )
        # the interval checks what the plan has in common with it
        self.one(Exact(), 0.05, self._everybody)

    def _one_each(self, values: FloatArray, name: str) -> FloatArray:
        if values.shape not in ((), self.shape):
            raise InvalidParameterError(
                f"{name} must be a number or have one entry for each of the {self.shape[0]} "
                f"strata, got shape {values.shape}"
            )
        return np.array(np.broadcast_to(values, self.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.population_size)

    @property
    def _everybody(self) -> float:
        return float(self.population_size.sum())

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        return self._everybody if name == self.size else None

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        size = self.population_size
        drawn = np.minimum(self.allocation * own[0], size)
        given: dict[str, Any] = {"rate": drawn / size}
        if self.design == "srs":
            drawn = np.clip(np.rint(drawn), np.minimum(size, 2.0), size)
            given = {"sample_size": drawn}
        count = drawn * self.proportion
        estimate = stratified_total(
            np.where(integer_cells(law, count.size), np.rint(count), count),
            mechanism=law,
            population_size=size,
            design=self.design,
            **given,
        )
        intervals = estimate.conf_int(alpha, uncertainty=self.uncertainty, method=self.method)
        unit = 1.0 if self.procedure.__name__ == "stratified_total" else self._everybody
        return float(intervals.width) / unit, 0.0
