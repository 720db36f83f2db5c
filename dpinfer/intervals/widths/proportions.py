"""Expected width of the interval for a proportion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, check_array, check_integer_array, check_option
from dpinfer.intervals.proportions.one_sample import Method, proportion_confint
from dpinfer.intervals.widths._expected import ExpectedWidth
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns
from dpinfer.planning.search import LARGEST_SIZE

_SMALLEST = 1e-300
"""Smallest proportion that is planned for."""


@final
@dataclass(frozen=True)
class ProportionWidth(ExpectedWidth):
    """Expected width of the interval for a proportion; the sample size or budget for one wanted.

    Parameters
    ----------
    mechanism : NoiseLaw or callable
        The law of the noise in the count, or a function that makes it from a privacy budget, such
        as :meth:`Laplace.from_epsilon`. With a function ``budget`` is one of the arguments.
    method : {"exact", "mid-p", "wilson", "normal"}
        How the interval is made; see :func:`dpinfer.proportion_confint`.

    Notes
    -----
    The width depends on the published count T = X + e. What is planned is its expectation at a
    true proportion p, where X ~ Binomial(n, p) and e is the noise. Under whole-numbered noise it
    is the sum over the values of T, of which some 1e-11 in probability are left out, or over
    equally spaced ones of them where they are many. Under other noise it is a sum over equally
    spaced values of X and a double exponential rule for e. :meth:`width_frame` has an estimate of
    the error, the difference from the rule with half as many points.

    The number of trials is known, and the law of the noise is that of a single count.

    See Also
    --------
    dpinfer.proportion_confint : the interval.
    dpinfer.ProportionPower : the size of a sample for a test.

    Examples
    --------
    How many trials make the interval for a proportion of about 0.3 ten points wide, and which
    budget does it with 500?

    >>> from dpinfer import Laplace
    >>> plan = ProportionWidth(Laplace.from_epsilon)
    >>> plan.solve_width(width=0.1, proportion=0.3, alpha=0.05, budget=0.1)
    755.0
    >>> round(plan.solve_width(width=0.1, proportion=0.3, alpha=0.05, nobs=500), 4)
    0.188
    >>> plan.width(500, 0.3, budget=[0.05, 0.5, 5.0]).round(4)
    array([0.249 , 0.0831, 0.0801])
    """

    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)

    _size = "nobs"
    _own = ("nobs", "proportion")

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.method, "method", get_args(Method))

    def width(
        self,
        nobs: ArrayLike,
        proportion: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Return the expected width.

        Parameters
        ----------
        nobs : int or array of int
            Number of trials.
        proportion : float or array of float
            The true proportion, in (0, 1). At 1/2 the intervals are widest, or nearly so.
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0, where ``mechanism`` is a function of it.

        Returns
        -------
        float or array of float
            Upper end less lower end on the average, in the shape to which the arguments broadcast.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.
        """
        return self._evaluate(
            {"nobs": nobs, "proportion": proportion, "alpha": alpha, "budget": budget}
        )

    def solve_width(
        self,
        *,
        proportion: float,
        nobs: float | None = None,
        alpha: float | None = None,
        width: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        proportion, nobs, alpha, budget
            As for :meth:`width`, as single numbers; ``proportion`` has to be given.
        width : float
            The expected width that is wanted, > 0.

        Returns
        -------
        float
            ``width``; or the smallest ``nobs``, ``alpha`` or ``budget`` that makes the interval
            as narrow.

        Raises
        ------
        InvalidParameterError
            If not exactly one argument is None, or if the width cannot be reached.
        """
        return self._solve(
            {
                "nobs": nobs,
                "proportion": self._checked("proportion", proportion),
                "alpha": alpha,
                "width": width,
                "budget": budget,
            }
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_array(check_integer_array(value, "nobs", ge=1), "nobs", le=LARGEST_SIZE)
        return check_array(value, name, ge=_SMALLEST, lt=1)

    def _truth(self, law: NoiseLaw, setting: dict[str, float]) -> tuple[NoisyCount, float]:
        nobs, value = setting["nobs"], setting["proportion"]
        truth = NoisyBinomial(nobs=np.asarray(nobs), value=np.asarray(value), noise=law)
        return truth, nobs * value * (1.0 - value)

    def _widths(
        self, count: FloatArray, law: NoiseLaw, alpha: float, setting: dict[str, float]
    ) -> FloatArray:
        interval = proportion_confint(
            count, setting["nobs"], mechanism=law, alpha=alpha, method=self.method
        )
        return np.asarray(interval.width)

    def _unit_variance(self, columns: Columns) -> float:
        value = float(columns["proportion"])
        return value * (1.0 - value)
