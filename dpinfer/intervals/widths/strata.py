"""Width of the interval for a population total from several strata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_integer_array, check_option, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.intervals._survey_designs import DESIGNS, DesignName
from dpinfer.intervals.surveys import SurveyEstimate, SurveyMethod, stratified_total
from dpinfer.intervals.widths._plan import WidthBySetting
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns
from dpinfer.results.intervals import Uncertainty


@final
@dataclass(frozen=True, eq=False)
class StratifiedWidth(WidthBySetting):
    """Width of the interval for a total over strata; the sample size or budget for one wanted.

    Parameters
    ----------
    mechanism : NoiseLaw, sequence of NoiseLaw or callable
        The law of the noise in the count of each stratum: one for all, or one for each. Or a
        function that makes it from a privacy budget, such as :meth:`Laplace.from_epsilon`. With a
        function ``budget`` is one of the arguments.
    population_size : array of int, shape (H,)
        Sizes N of the strata; one stratum may be the whole population.
    proportion : float or array of float, shape (H,)
        Shares p of the strata that have the property, in [0, 1].
    allocation : array of float, shape (H,), optional
        Shares of the sample that are drawn from each stratum, or numbers in proportion to them; by
        default those of the population.
    design : {"srs", "poisson"}
        How each stratum is sampled; see :func:`dpinfer.intervals.stratified_total`.
    uncertainty : {"noise+sampling", "noise"}
        What the interval covers.
    method : {"exact", "convolution", "normal"}, optional
        How the interval is made; see :meth:`SurveyEstimate.conf_int`, also for the default. An
        exact width takes some tenths of a second, and to solve for an argument takes many widths:
        begin with ``"convolution"``, which plans a size that is a little too small.

    See Also
    --------
    dpinfer.intervals.stratified_total : the estimate and its interval.
    SurveyWidth : one simple random sample, also for exact intervals.

    Notes
    -----
    The width depends on the published counts. What is planned is the width where they are the
    expected ones, n·p in each stratum, rounded to whole numbers where the noise takes whole numbers
    only. The sample of a stratum, under ``design="srs"``, is its part of the sample size, rounded,
    but two units at least, and not more than there are. Under ``"poisson"`` its expected size is
    its part of the sample size, and not more than there are.

    Rounding makes the width a saw-tooth in n. The size that is solved for reaches the width, and
    the size that is smaller by one does not.

    The interval for the share in the population (:func:`dpinfer.intervals.stratified_mean`) is that
    for the total divided by the size of the population, and so is its width.

    Examples
    --------
    Two strata, and a sample of the same size from each: how large must it be to tell the total to
    ± 700 at ε = 0.5?

    >>> from dpinfer import Laplace
    >>> plan = StratifiedWidth(
    ...     Laplace.from_epsilon,
    ...     [10_000, 4_000],
    ...     [0.2, 0.15],
    ...     allocation=[1, 1],
    ...     method="convolution",
    ... )
    >>> plan.solve_width(width=1400, alpha=0.05, budget=0.5)
    362.0
    >>> plan.width(1200, budget=[0.1, 0.5, 5.0]).round(0)
    array([1222.,  686.,  656.])
    """

    mechanism: NoisePlan
    population_size: FloatArray
    proportion: FloatArray
    allocation: FloatArray | None = field(default=None, kw_only=True)
    design: DesignName = field(default="srs", kw_only=True)
    uncertainty: Uncertainty = field(default="noise+sampling", kw_only=True)
    method: SurveyMethod | None = field(default=None, kw_only=True)

    _size = "sample_size"
    _own = ("sample_size",)

    def __post_init__(self) -> None:
        size = check_integer_array(self.population_size, "population_size", ge=1)
        if size.ndim != 1:
            raise InvalidParameterError(
                f"population_size must have one entry for each stratum, got shape {size.shape}"
            )
        check_array(size, "population_size", le=LARGEST_NOBS / size.size)
        share = self._one_each(check_array(self.proportion, "proportion", ge=0, le=1), "proportion")
        parts = size
        if self.allocation is not None:
            given = check_array(self.allocation, "allocation", gt=0, le=LARGEST_NOBS)
            parts = self._one_each(given, "allocation")
        self._set(
            mechanism=check_plan(self.mechanism, size.shape),
            population_size=freeze(size),
            proportion=freeze(share),
            allocation=freeze(parts / parts.sum()),
            design=check_option(self.design, "design", DESIGNS),
        )
        # the interval checks what the plan has in common with it
        self._width_at(Exact(), 0.05, float(size.sum()))

    def width(
        self,
        sample_size: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Return the width where the published counts are the expected ones.

        Parameters
        ----------
        sample_size : int or array of int
            Size n of the sample from all strata together, at most that of the population.
        %(alpha_and_budget)s

        Returns
        -------
        float or array of float
            Upper end less lower end of the interval for the total, in the shape to which the
            arguments broadcast.

        %(raises)s
        """
        return self._evaluate(sample_size=sample_size, alpha=alpha, budget=budget)

    def solve_width(
        self,
        *,
        sample_size: float | None = None,
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
            ``width``; or the smallest ``alpha`` or ``budget``, or a ``sample_size``, that makes
            the interval as narrow; see the notes.

        %(raises_unsolved)s
        """
        return self._solve(sample_size=sample_size, alpha=alpha, width=width, budget=budget)

    @property
    def _cells(self) -> tuple[int, ...]:
        return self.population_size.shape

    def _one_each(self, values: FloatArray, name: str) -> FloatArray:
        """Return one value for each stratum."""
        shape = np.shape(self.population_size)
        if values.shape not in ((), shape):
            raise InvalidParameterError(
                f"{name} must be a number or have one entry for each of the {shape[0]} strata, got "
                f"shape {values.shape}"
            )
        return np.array(np.broadcast_to(values, shape))

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_integer_array(value, name, ge=1, le=float(self.population_size.sum()))

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        estimate = self._estimate(law, *own)
        intervals = estimate.conf_int(alpha, uncertainty=self.uncertainty, method=self.method)
        return float(intervals.width), 0.0

    def _estimate(self, law: NoiseLaw, sample_size: float) -> SurveyEstimate:
        """Return what the expected counts tell."""
        size = self.population_size
        assert self.allocation is not None
        drawn = np.minimum(self.allocation * sample_size, size)
        given: dict[str, Any] = {"rate": drawn / size}
        if self.design == "srs":
            drawn = np.clip(np.rint(drawn), np.minimum(size, 2.0), size)
            given = {"sample_size": drawn}
        count = drawn * self.proportion
        return stratified_total(
            np.where(integer_cells(law, count.size), np.rint(count), count),
            mechanism=law,
            population_size=size,
            design=self.design,
            **given,
        )

    def _find(self, name: str, known: Columns, target: float) -> float:
        if name != self._size:
            return super()._find(name, known, target)
        everybody = float(self.population_size.sum())
        return self._search(name, known, target).near(everybody, 1.0, everybody, integer=True)
