"""Width of the interval for a population total from a sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_integer, check_integer_array
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.intervals.surveys import SurveyMethod, survey_total
from dpinfer.intervals.widths._plan import MOST_ERROR, WidthPlan
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns
from dpinfer.results.intervals import Uncertainty


@final
@dataclass(frozen=True)
class SurveyWidth(WidthPlan):
    """Width of the interval for a population total; the sample size or budget for a wanted width.

    Parameters
    ----------
    mechanism : NoiseLaw or callable
        The law of the noise in the count of the sample, or a function that makes it from a privacy
        budget, such as :meth:`Laplace.from_epsilon`. With a function ``budget`` is one of the
        arguments.
    population_size : int
        Size N of the population, from which a simple random sample is drawn.
    uncertainty : {"noise+sampling", "noise"}
        What the interval covers.
    method : {"exact", "convolution", "normal"}, optional
        How the interval is made; see :meth:`SurveyEstimate.conf_int`, also for the default.

    See Also
    --------
    dpinfer.survey_total : the estimate and its interval.

    Notes
    -----
    The width depends on the published count. What is planned is the width where the published
    count is that of a sample of n units with a share p, n·p, rounded to a whole number where the
    noise takes whole numbers only. For Gaussian noise of standard deviation σ, which adds σ² to
    the estimate of n²p(1 - p), its square is 4z²(N²(1 - n/N)·s²/n + (N/n)²σ²) with s² =
    (n²p(1 - p) + σ²)/(n(n - 1)).

    Rounding makes the width a saw-tooth in n, as does the law of whole-numbered noise. The size
    that is solved for reaches the width, and the size that is smaller by one does not.

    Examples
    --------
    A population of 50,000, in which about a fifth has a property: which sample tells how many to
    ± 1000 at ε = 0.1, and which ε does it with a sample of 2000?

    >>> from dpinfer import Laplace
    >>> plan = SurveyWidth(Laplace.from_epsilon, 50_000)
    >>> plan.solve_width(width=2000, proportion=0.2, alpha=0.05, budget=0.1)
    2323.0
    >>> round(plan.solve_width(width=2000, proportion=0.2, alpha=0.05, sample_size=2000), 4)
    0.1368
    >>> plan.width(2000, 0.2, budget=[0.05, 0.1, 1.0]).round(0)
    array([3377., 2224., 1722.])
    """

    mechanism: NoisePlan
    population_size: int
    uncertainty: Uncertainty = field(default="noise+sampling", kw_only=True)
    method: SurveyMethod | None = field(default=None, kw_only=True)

    _size = "sample_size"
    _own = ("sample_size", "proportion")
    _given = ("proportion",)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        size = check_integer(self.population_size, "population_size", ge=1, le=int(LARGEST_NOBS))
        self._set(population_size=size)
        # the interval checks what the plan has in common with it
        self._at(Exact(), 0.05, {"sample_size": np.array([size]), "proportion": np.zeros(1)})

    def width(
        self,
        sample_size: ArrayLike,
        proportion: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Return the width where the published count is ``sample_size`` times ``proportion``.

        Parameters
        ----------
        sample_size : int or array of int
            Size n of the sample, at least 2 unless N = 1, and at most N.
        proportion : float or array of float
            Share p of the sample that has the property, in [0, 1].
        %(alpha_and_budget)s

        Returns
        -------
        float or array of float
            Upper end less lower end of the interval for the total, in the shape to which the
            arguments broadcast.

        %(raises)s
        """
        return self._evaluate(
            sample_size=sample_size, proportion=proportion, alpha=alpha, budget=budget
        )

    def solve_width(
        self,
        *,
        proportion: float,
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
        return self._solve(
            sample_size=sample_size, proportion=proportion, alpha=alpha, width=width, budget=budget
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "proportion":
            return check_array(value, name, ge=0, le=1)
        size = self.population_size
        return check_integer_array(value, name, ge=min(2, size), le=size)

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        count = columns["sample_size"] * columns["proportion"]
        estimate = survey_total(
            np.rint(count) if law.is_integer else count,
            mechanism=law,
            sample_size=columns["sample_size"],
            population_size=self.population_size,
        )
        intervals = estimate.conf_int(alpha, uncertainty=self.uncertainty, method=self.method)
        return np.asarray(intervals.width), 0.0

    def _find(self, name: str, known: Columns, target: float) -> float:
        if name != self._size:
            return super()._find(name, known, target)
        size = float(self.population_size)
        search = self._search(name, known, target)
        guess = self._rough_size(known, target)
        return search.near(guess, min(2.0, size), size, integer=True)

    def _rough_size(self, known: Columns, target: float) -> float:
        """Root of (target/2)² = z²·((1/n - 1/N)·p(1 - p) + v/n²)·N²."""
        size, share = float(self.population_size), float(known["proportion"])
        law = self._law_at(known)
        noise = min(float(law.std), MOST_ERROR)
        error = self._rough_error(known, target, size)  # of the estimated share
        spread = share * (1.0 - share)
        linear = spread / (error**2 + spread / size)
        return min(max(linear + noise / error, 1.0), size)
