"""Width of the confidence set for a ratio."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_option
from dpinfer.intervals.ratios import LARGEST, METHODS, Method, ratio_confint
from dpinfer.intervals.widths._plan import WidthPlan
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns


@final
@dataclass(frozen=True)
class RatioWidth(WidthPlan):
    """Width of the set for a ratio of two noisy values, and the budget for a wanted width.

    Parameters
    ----------
    mechanism : NoiseLaw or callable
        The law of the noise in each of the two values, or a function that makes it from a privacy
        budget, such as :meth:`Laplace.from_epsilon`. With a function ``budget`` is one of the
        arguments.
    method : {"exact", "normal"}
        How the set is made; see :func:`dpinfer.ratio_confint`.

    See Also
    --------
    dpinfer.ratio_confint : the set.

    Notes
    -----
    The width depends on the published values. It is not finite with some probability, however
    small, so that it has no expectation. What is planned is the width where the published values
    are the confidential ones, their most probable values; it is infinite where that set is the
    complement of an interval, or every number.

    Examples
    --------
    Which ε tells a ratio of 60 to 120 to a tenth, ± 0.05?

    >>> from dpinfer import Laplace
    >>> plan = RatioWidth(Laplace.from_epsilon)
    >>> round(plan.solve_width(numerator=60, denominator=120, alpha=0.05, width=0.1), 4)
    0.5464
    >>> plan.width(60, 120, budget=[0.01, 0.1, 1.0]).round(3)
    array([  inf, 0.567, 0.055])
    """

    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)

    _own = ("numerator", "denominator")
    _given = ("numerator", "denominator")

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.method, "method", METHODS)

    def width(
        self,
        numerator: ArrayLike,
        denominator: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Return the width where the published values are the confidential ones.

        Parameters
        ----------
        numerator, denominator : float or array of float
            The two confidential values.
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0 of each of the values, where ``mechanism`` is a function of it.

        Returns
        -------
        float or array of float
            Upper end less lower end, in the shape to which the arguments broadcast; infinite where
            the set is not bounded.

        %(raises)s
        """
        return self._evaluate(
            numerator=numerator, denominator=denominator, alpha=alpha, budget=budget
        )

    def solve_width(
        self,
        *,
        numerator: float,
        denominator: float,
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
            ``width``; or the smallest ``alpha`` or ``budget`` that makes the set as narrow.

        %(raises_unsolved)s
        """
        return self._solve(
            numerator=numerator, denominator=denominator, alpha=alpha, width=width, budget=budget
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, ge=-LARGEST, le=LARGEST)

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        sets = ratio_confint(
            columns["numerator"],
            columns["denominator"],
            mechanism=law,
            alpha=alpha,
            method=self.method,
        )
        return np.asarray(sets.width), 0.0
