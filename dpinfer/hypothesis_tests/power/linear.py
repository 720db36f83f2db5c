"""Power of the tests of linear functions of confidential values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import ALTERNATIVES, Alternative, FloatArray, check_array, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.targets import checked_weights
from dpinfer.hypothesis_tests.power._plan import PowerPlan
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns

Method = Literal["exact", "normal"]
METHODS: tuple[Method, ...] = ("exact", "normal")

_LARGEST_SHIFT = 1e100

_MISSED = 1e-17
"""Chance of missing the largest shift that is looked for."""

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of a deviation, as the test allows for it."""


@final
@dataclass(frozen=True, eq=False)
class LinearPower(PowerPlan):
    """Power and planning of the tests of confidential values, in which only the noise is random.

    Parameters
    ----------
    weights : array of float, shape (m,)
        The weights of the linear function of m published values: ``[1]`` for one value,
        ``[1, -1]`` for the difference of two counts, as in :func:`dpinfer.counts_2indep`.
    %(mechanism_of_values)s
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    method : {"exact", "normal"}
        Which null distribution the test uses; see :func:`dpinfer.linear_ztest`. The power is by
        the law of the noise for both.

    See Also
    --------
    dpinfer.linear_ztest, dpinfer.counts_2indep : the tests.

    Notes
    -----
    The deviation of the published function from its value under the null hypothesis is S + shift,
    where S = Σ cᵢeᵢ is the noise. With c the upper α/2 quantile of S the two-sided test rejects
    beyond ±c, and its power is P(S > c - shift) + P(S > c + shift); one-sided tests reject on one
    side, beyond the upper α quantile. There is no number of observations: a small shift cannot be
    seen but with less noise.

    Examples
    --------
    Which budget shows that two counts differ, if they do by 20?

    >>> from dpinfer import Geometric
    >>> plan = LinearPower([1, -1], Geometric.from_epsilon)
    >>> plan.power(20, budget=[0.1, 0.2, 0.5]).round(3)
    array([0.125, 0.426, 0.994])
    >>> budget = plan.solve_power(shift=20, alpha=0.05, power=0.8)
    >>> round(budget, 4), plan.power(20, budget=budget).round(3)
    (0.2827, np.float64(0.814))

    The power is more than was asked for: it has a step where the critical value, a whole number,
    changes.
    """

    weights: FloatArray
    mechanism: NoisePlan
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method = field(default="exact", kw_only=True)

    _own = ("shift",)

    def __post_init__(self) -> None:
        weights = check_array(self.weights, "weights", ndim=1)
        weights = checked_weights(weights, None, weights.size).copy()
        if not weights.any():
            raise InvalidParameterError("weights must not all be 0: there is nothing to test")
        weights.flags.writeable = False
        self._set(weights=weights)
        self._set(mechanism=check_plan(self.mechanism, self._cells))
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_option(self.method, "method", METHODS)
        if isinstance(self.mechanism, NoiseLaw):
            _noise_of(self.weights, self.mechanism)

    def power(
        self,
        shift: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        shift : float or array of float
            The confidential value of the function less its value under the null hypothesis.
        %(alpha_and_budget)s

        %(returns)s

        %(raises)s
        """
        return self._evaluate(shift=shift, alpha=alpha, budget=budget)

    def solve_power(
        self,
        *,
        shift: float | None = None,
        alpha: float | None = None,
        power: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            ``shift``: the smallest in size that reaches the power, above 0, or below 0 for the
            alternative ``"smaller"``. ``alpha``, ``budget``: the smallest that reach the power.

        %(raises_unsolved)s
        """
        return self._solve(shift=shift, alpha=alpha, power=power, budget=budget)

    @property
    def _cells(self) -> tuple[int, ...]:
        return self.weights.shape

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, ge=-_LARGEST_SHIFT, le=_LARGEST_SHIFT)

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        noise = _noise_of(self.weights, law)
        two_sided = self.alternative == "two-sided"
        level = np.asarray(0.5 * alpha if two_sided else alpha)
        shift = columns["shift"]
        signs = {"two-sided": [1.0, -1.0], "larger": [1.0], "smaller": [-1.0]}[self.alternative]
        power = sum(self._beyond(noise, level, sign * shift) for sign in signs)
        return np.minimum(power, 1.0), 0.0

    def _beyond(self, noise: WeightedSum, level: FloatArray, shift: FloatArray) -> FloatArray:
        """Probability that S + shift is beyond the upper critical value."""
        if self.method == "normal":
            # the critical value itself is rejected: P(S >= x) = P(S <= -x)
            critical = float(noise.std) * -special.ndtri(level)
            return noise._cdf(shift - critical)
        # P(S >= t) <= level exactly where t is beyond the upper quantile, itself not included
        critical = noise._isf(level)
        slack = _ROUNDING * (np.abs(critical) + np.abs(shift))
        whole = (critical == np.rint(critical)) & (shift == np.rint(shift))
        return noise._sf(critical - shift + np.where(whole, 0.0, slack))

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        noise = _noise_of(self.weights, self._law_at(columns))
        # a shift of c + d is missed with the probability P(S > d) at most
        farthest = float(noise.isf(0.25 * float(columns["alpha"])) + noise.isf(_MISSED))
        return 0.0, -farthest if self.alternative == "smaller" else farthest


def _noise_of(weights: FloatArray, law: NoiseLaw) -> WeightedSum:
    """Law of the weighted sum of the noises, which has to be random."""
    noise = WeightedSum(weights, law)
    if float(noise.std) == 0.0:
        raise InvalidParameterError(
            "mechanism must have noise in a value that has a weight: without noise there is "
            "nothing to test, compare the values"
        )
    return noise
