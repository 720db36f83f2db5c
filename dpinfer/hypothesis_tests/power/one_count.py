"""Power of the tests of one proportion and of one rate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_option,
    check_scalar,
)
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.hypothesis_tests._one_count import LARGEST_RATE, OneCount, collapse
from dpinfer.hypothesis_tests.power._critical import critical_distance
from dpinfer.hypothesis_tests.power._plan import PowerPlan, is_alternative
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns
from dpinfer.planning.search import LARGEST_SIZE

Method = Literal["exact", "normal"]
METHODS: tuple[Method, ...] = ("exact", "normal")


@dataclass(frozen=True)
class _OneCountPower(PowerPlan):
    """Power of a test of one count, by the law of the noisy count at the alternative."""

    value: float
    mechanism: NoisePlan
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method = field(default="exact", kw_only=True)

    def __post_init__(self) -> None:
        self._set(value=self._checked_value())
        check_plan(self.mechanism)
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_option(self.method, "method", METHODS)

    @abstractmethod
    def _checked_value(self) -> float:
        """Return the parameter under the null hypothesis, if it is valid."""

    @abstractmethod
    def _laws(self, law: NoiseLaw, columns: Columns) -> tuple[OneCount, NoisyCount]:
        """Return the test, and the law of the published count at the alternative."""

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        test, truth = self._laws(law, columns)
        distance = self._distance(test, alpha)
        power = np.zeros(next(iter(columns.values())).shape)
        if self.alternative != "smaller":
            point = np.broadcast_to(test.centre + distance, power.shape)
            power = power + truth.upper(point, test.slack(point))
        if self.alternative != "larger":
            point = np.broadcast_to(test.centre - distance, power.shape)
            power = power + truth.lower(point, test.slack(point))
        return np.minimum(power, 1.0), 0.0

    def _has_effect(self, columns: Columns) -> bool:
        return is_alternative(self.alternative, float(columns[self._own[1]]) - self.value)

    def _distance(self, test: OneCount, alpha: float) -> FloatArray:
        """Distance from the expected count from which on the test rejects."""
        if self.method == "exact":
            return critical_distance(test, alpha, self.alternative)
        z = test.null("normal").critical_value(alpha, self.alternative)
        return np.asarray((-z if self.alternative == "smaller" else z) * test.spread)


@final
@dataclass(frozen=True)
class ProportionPower(_OneCountPower):
    """Power and planning of the test of one proportion.

    Parameters
    ----------
    value : float
        The proportion under the null hypothesis, in (0, 1).
    %(mechanism)s
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    method : {"exact", "normal"}
        Which null distribution the test uses; see :func:`dpinfer.proportions_ztest`. The power is
        exact for both.

    See Also
    --------
    dpinfer.proportions_ztest : the test.

    Notes
    -----
    The test rejects where its p-value is at most α, which is a set of published counts T beyond
    one or two critical values. The power is the probability of that set where T = X + e, X ~
    Binomial(n, p) and e is the noise: sums of the kind that the p-value itself is. At p =
    ``value`` it is the size of the test.

    A number of trials is tried with its neighbours. With ``"exact"`` that takes a minute for
    numbers of some 100,000, and is refused for much larger ones: solve with ``"normal"``.

    The number of trials is known. To plan with a noisy number, or any other test, simulate it by
    :func:`dpinfer.calibration.size_study` with ``truth=``.

    Examples
    --------
    How many trials show that a proportion is 0.30, not 0.25, under noise of ε = 0.1?

    >>> from dpinfer import Laplace
    >>> plan = ProportionPower(0.25, Laplace.from_epsilon)
    >>> plan.solve_power(proportion=0.30, alpha=0.05, power=0.8, budget=0.1)
    1147.0
    >>> plan.power(1147, 0.30, budget=[0.05, 0.1, 1.0]).round(3)
    array([0.386, 0.8  , 0.967])
    """

    _size = "nobs"
    _own = ("nobs", "proportion")

    def power(
        self,
        nobs: ArrayLike,
        proportion: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        nobs : int or array of int
            Number of trials.
        proportion : float or array of float
            The true proportion, in (0, 1).
        %(alpha_and_budget)s

        %(returns)s

        %(raises)s
        """
        return self._evaluate(nobs=nobs, proportion=proportion, alpha=alpha, budget=budget)

    def solve_power(
        self,
        *,
        nobs: float | None = None,
        proportion: float | None = None,
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
            ``nobs``: the smallest number of trials from which on the power is reached, at all
            larger ones within 8·√n, at most 2,048; it is not monotone, for the count is a whole
            number. ``proportion``: above ``value``, below it for the alternative ``"smaller"``.
            ``alpha``, ``budget``: the smallest that reach the power.

        %(raises_unsolved)s
        """
        return self._solve(
            nobs=nobs, proportion=proportion, alpha=alpha, power=power, budget=budget
        )

    def _checked_value(self) -> float:
        return check_scalar(self.value, "value", ge=SMALLEST_VALUE, lt=1)

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_integer_array(value, name, ge=1, le=LARGEST_SIZE)
        return check_array(value, name, ge=SMALLEST_VALUE, lt=1)

    def _laws(self, law: NoiseLaw, columns: Columns) -> tuple[OneCount, NoisyCount]:
        nobs = collapse(columns["nobs"])
        test = OneCount.of_trials(np.zeros(nobs.shape), nobs, self.value, law)
        value = collapse(columns["proportion"])
        return test, NoisyBinomial(nobs=nobs, value=value, noise=law)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        edge = 1e-9
        return self.value, edge if self.alternative == "smaller" else 1.0 - edge


@final
@dataclass(frozen=True)
class PoissonPower(_OneCountPower):
    """Power and planning of the test of one rate of events.

    Parameters
    ----------
    value : float
        The rate under the null hypothesis, > 0.
    %(mechanism)s
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made.
    method : {"exact", "normal"}
        Which null distribution the test uses; see :func:`dpinfer.poisson_ztest`. The power is
        exact for both.

    See Also
    --------
    dpinfer.poisson_ztest : the test.

    Notes
    -----
    As for :class:`ProportionPower`, with a Poisson count of mean exposure·rate.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> plan = PoissonPower(2.0, Geometric(scale=10.0), alternative="larger")
    >>> plan.power(exposure=[50, 100, 200], rate=2.5).round(3)
    array([0.412, 0.792, 0.987])
    """

    _size = "exposure"
    _logarithmic = PowerPlan._logarithmic | {"rate"}
    _integer_size = False
    _own = ("exposure", "rate")

    def power(
        self,
        exposure: ArrayLike,
        rate: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        exposure : float or array of float
            Time, or whatever the rate is per, > 0.
        rate : float or array of float
            The true rate, > 0.
        %(alpha_and_budget)s

        %(returns)s

        %(raises)s
        """
        return self._evaluate(exposure=exposure, rate=rate, alpha=alpha, budget=budget)

    def solve_power(
        self,
        *,
        exposure: float | None = None,
        rate: float | None = None,
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
            ``exposure``: the smallest from which on the power is reached, as far as a grid of
            steps of 0.1 % shows. ``rate``: above ``value``, below it for the alternative
            ``"smaller"``. ``alpha``, ``budget``: the smallest that reach the power.

        %(raises_unsolved)s
        """
        return self._solve(exposure=exposure, rate=rate, alpha=alpha, power=power, budget=budget)

    def _checked_value(self) -> float:
        return check_scalar(self.value, "value", gt=0, le=LARGEST_RATE)

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, gt=0, le=LARGEST_RATE)

    def _laws(self, law: NoiseLaw, columns: Columns) -> tuple[OneCount, NoisyCount]:
        exposure = collapse(columns["exposure"])
        test = OneCount.of_events(np.zeros(exposure.shape), exposure, self.value, law)
        mean = collapse(columns["exposure"] * columns["rate"])
        check_array(mean, "exposure * rate", ge=SMALLEST_VALUE, le=LARGEST_RATE)
        return test, NoisyPoisson(rate=mean, noise=law)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        if self.alternative == "smaller":
            return self.value, max(1e-9 * self.value, SMALLEST_VALUE)
        return self.value, 0.5 * LARGEST_RATE / max(float(columns["exposure"]), 1.0)
