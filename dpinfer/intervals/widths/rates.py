"""Expected width of the interval for a rate of events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_option
from dpinfer.intervals.proportions import LARGEST_COUNT, poisson_confint
from dpinfer.intervals.proportions import RatesMethod as Method
from dpinfer.intervals.widths._expected import ExpectedWidth
from dpinfer.mechanisms._noisy_count import NoisyCount, NoisyPoisson
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns

_SMALLEST = 1e-300
"""Smallest expected count that is planned for."""


@final
@dataclass(frozen=True)
class PoissonWidth(ExpectedWidth):
    """Expected width of the interval for a rate; the exposure or budget for one wanted.

    Parameters
    ----------
    %(mechanism)s
    method : {"exact", "mid-p", "score", "normal"}
        How the interval is made; see :func:`dpinfer.poisson_confint`.

    See Also
    --------
    dpinfer.poisson_confint : the interval.
    dpinfer.PoissonPower : the exposure for a test.

    Notes
    -----
    As for :class:`ProportionWidth`, with a Poisson count of mean exposure·rate.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> plan = PoissonWidth(Geometric.from_epsilon)
    >>> plan.width(exposure=[50, 100, 200], rate=2.0, budget=0.5).round(3)
    array([0.835, 0.575, 0.401])
    >>> round(plan.solve_width(width=0.5, rate=2.0, alpha=0.05, budget=0.5), 2)
    130.64
    """

    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)

    _size = "exposure"
    _integer_size = False
    _own = ("exposure", "rate")
    _given = ("rate",)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.method, "method", get_args(Method))

    def width(
        self,
        exposure: ArrayLike,
        rate: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Return the expected width.

        Parameters
        ----------
        exposure : float or array of float
            Time, or whatever the rate is per, > 0.
        rate : float or array of float
            The true rate, > 0.
        %(alpha_and_budget)s

        Returns
        -------
        float or array of float
            Upper end less lower end on the average, in events per unit of exposure, in the shape
            to which the arguments broadcast.

        %(raises)s
        """
        return self._evaluate(exposure=exposure, rate=rate, alpha=alpha, budget=budget)

    def solve_width(
        self,
        *,
        rate: float,
        exposure: float | None = None,
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
            ``width``; or the smallest ``exposure``, ``alpha`` or ``budget`` that makes the
            interval as narrow.

        %(raises_unsolved)s
        """
        return self._solve(exposure=exposure, rate=rate, alpha=alpha, width=width, budget=budget)

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, gt=0, le=LARGEST_COUNT)

    def _truth(self, law: NoiseLaw, setting: dict[str, float]) -> tuple[NoisyCount, float]:
        mean = np.asarray(setting["exposure"] * setting["rate"])
        check_array(mean, "exposure * rate", ge=_SMALLEST, le=LARGEST_COUNT)
        return NoisyPoisson(rate=mean, noise=law), float(mean)

    def _widths(
        self, count: FloatArray, law: NoiseLaw, alpha: float, setting: dict[str, float]
    ) -> FloatArray:
        interval = poisson_confint(
            count, setting["exposure"], mechanism=law, alpha=alpha, method=self.method
        )
        return np.asarray(interval.width)

    def _unit_variance(self, columns: Columns) -> float:
        return float(columns["rate"])
