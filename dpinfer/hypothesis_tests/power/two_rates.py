"""Power of the test of two rates of events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import RNG, Alternative, FloatArray, check_array, check_scalar
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.hypothesis_tests.power._normal_limit import Moments
from dpinfer.hypothesis_tests.power._plan import is_alternative
from dpinfer.hypothesis_tests.power._two_counts import Method, TwoCounts
from dpinfer.hypothesis_tests.power._two_counts_plan import TwoCountsPower
from dpinfer.hypothesis_tests.power._two_poissons import TwoPoissons
from dpinfer.mechanisms._noisy_count import NoisyPoisson
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan
from dpinfer.planning.plan import Columns

_LARGEST_EVENTS = 1e10
"""Expected events of a sample up to which plans are made."""

_FEWEST_EVENTS = 1e-9
"""Expected events of the larger sample from which an exposure is looked for."""

_LARGEST = 1e100


@final
@dataclass(frozen=True)
class TwoRatesPower(TwoCountsPower):
    """Power and planning of the test of two rates of events.

    Parameters
    ----------
    %(mechanism_of_pair)s
    value : float, default 1
        The ratio of the first rate to the second under the null hypothesis, in [1e-6, 1e6].
    ratio : float, default 1
        Exposure of the second sample over that of the first, in [1e-6, 1e6].
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made: that the ratio of the rates differs from ``value``, exceeds
        it, or falls short of it.
    method : {"exact", "plug-in", "normal"}
        Which p-value the test uses; see :func:`dpinfer.poisson_2indep`. Powers for ``"exact"``,
        the default of both, take seconds where the others take 0.1 s, and a budget that reaches a
        power some 10 s. What would take much longer than that for one power is refused.
    nuisance_alpha : float, default 1e-4
        As for the test; used by ``"exact"`` only.
    %(replicates)s

    See Also
    --------
    dpinfer.poisson_2indep : the test.

    Notes
    -----
    Given the total M of the published counts T₁ and T₂ the test compares T₁ with a law that does
    not depend on the rates, and rejects where T₁ is beyond one or two critical values c(M). Where
    noise takes whole numbers the power is the sum of P(T₁ = t)·P(T₂ = M - t) over all such pairs,
    with Poisson counts of means exposure·rate; pairs of a probability of 1e-8 in all are left out.
    With continuous noise, more than 6.7e7 pairs, or more than 600 counts (both together) with
    ``"exact"``, it is simulated: ``power_frame`` has the Monte Carlo error. P-values are kept,
    so that further powers with the same noise come sooner.

    Examples
    --------
    How many person-years in each group show that a rate is 0.3 and not 0.2, with noise of ε = 1?

    >>> from dpinfer import Geometric
    >>> plan = TwoRatesPower(Geometric.from_epsilon, method="plug-in")
    >>> plan.power(200, 0.3, 0.2, budget=[0.1, 0.5, 2.0]).round(3)
    array([0.118, 0.443, 0.491])
    >>> round(plan.solve_power(rate1=0.3, rate2=0.2, alpha=0.05, power=0.8, budget=1.0), 1)
    406.2
    """

    mechanism: NoisePlan
    value: float = field(default=1.0, kw_only=True)
    ratio: float = field(default=1.0, kw_only=True)
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method = field(default="exact", kw_only=True)
    nuisance_alpha: float = field(default=1e-4, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    _logarithmic = TwoCountsPower._logarithmic | {"exposure1", "rate1", "rate2"}
    _own = ("exposure1", "rate1", "rate2")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            value=check_scalar(self.value, "value", ge=1e-6, le=1e6),
            ratio=check_scalar(self.ratio, "ratio", ge=1e-6, le=1e6),
        )

    def power(
        self,
        exposure1: ArrayLike,
        rate1: ArrayLike,
        rate2: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        exposure1 : float or array of float
            Exposure of the first sample, > 0: person-years, area, time.
        rate1, rate2 : float or array of float
            The true rates, events per unit of exposure, > 0.
        %(alpha_and_budget)s

        %(returns)s

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, more than 1e10 events are expected, or a law
            has more counts than the test can go through.
        """
        return self._evaluate(
            exposure1=exposure1, rate1=rate1, rate2=rate2, alpha=alpha, budget=budget
        )

    def solve_power(
        self,
        *,
        exposure1: float | None = None,
        rate1: float | None = None,
        rate2: float | None = None,
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
            ``exposure1``, ``alpha``, ``budget``: where the power is reached, and short of it by a
            relative 1e-6, with ``"exact"`` 1e-3 for ``budget``, it is not. With more exposure the
            power may fall below it again, by the little that whole counts make. ``rate1``: above
            ``value * rate2``, below it for the alternative ``"smaller"``; and ``rate2`` the other
            way round.

        %(raises_unsolved)s
        """
        return self._solve(
            exposure1=exposure1, rate1=rate1, rate2=rate2, alpha=alpha, power=power, budget=budget
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, gt=0, ge=1.0 / _LARGEST, le=_LARGEST)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        if name == "exposure1":
            larger = max(float(columns["rate1"]), self.ratio * float(columns["rate2"]))
            return _FEWEST_EVENTS / larger, _LARGEST_EVENTS / larger
        falls = (name == "rate1") == (self.alternative == "smaller")
        exposure, scale = float(columns["exposure1"]), self.value
        if name == "rate2":
            exposure, scale = exposure * self.ratio, 1.0 / scale
        null = scale * float(columns["rate2" if name == "rate1" else "rate1"])
        events = null * exposure
        far = min(_FEWEST_EVENTS, 1e-3 * events) if falls else _LARGEST_EVENTS
        return null, max(far / exposure, 1.0 / _LARGEST)

    def _has_effect(self, columns: Columns) -> bool:
        difference = float(columns["rate1"] - self.value * columns["rate2"])
        return is_alternative(self.alternative, difference)

    def _find(self, name: str, known: Columns, target: float) -> float:
        if name == "exposure1":  # a number of observations, though not a whole one
            self._check_effect(known, target)
        return super()._find(name, known, target)

    @property
    def _share(self) -> float:
        """Share of the events that the first sample has under the null hypothesis."""
        return self.value / (self.value + self.ratio)

    def _means(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """Return expected events of both samples."""
        exposure, rate1, rate2 = (np.asarray(columns[name]) for name in self._own)
        means = exposure * rate1, self.ratio * exposure * rate2
        for mean, name in zip(means, ("rate1", "ratio * rate2"), strict=True):
            check_array(mean, f"exposure1 * {name}", ge=SMALLEST_VALUE, le=1.01 * _LARGEST_EVENTS)
        return means

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        self._means(columns)
        check_array(law.variance, "the variance of mechanism", le=_LARGEST_EVENTS**2)
        return super()._reject(law, alpha, columns)

    def _counts(
        self, noises: tuple[NoiseLaw, NoiseLaw], alpha: float, arguments: tuple[float, ...]
    ) -> TwoCounts:
        columns = {n: np.asarray(x) for n, x in zip(self._own, arguments, strict=True)}
        first, second = (
            NoisyPoisson(rate=mean, noise=noise)
            for mean, noise in zip(self._means(columns), noises, strict=True)
        )
        known = self._known(noises)
        return TwoPoissons((first, second), *self._test, share=self._share, known=known)

    def _moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        mean1, mean2 = self._means(columns)
        v1, v2 = np.broadcast_to(law.variance, (2,))
        own, other = 1.0 - self._share, self._share
        noise = own**2 * v1 + other**2 * v2
        null = np.sqrt((mean1 + mean2) * own * other + noise)
        truth = np.sqrt(own**2 * mean1 + other**2 * mean2 + noise)
        return own * mean1 - other * mean2, null, truth

    @property
    def _largest(self) -> dict[str, float]:
        return {"exposure1": np.inf}
