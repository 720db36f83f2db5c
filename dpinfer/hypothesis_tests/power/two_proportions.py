"""Power of the test of two proportions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import (
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_scalar,
)
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.hypothesis_tests.power._plan import PowerPlan, is_alternative
from dpinfer.hypothesis_tests.power._two_binomials import TwoBinomials
from dpinfer.hypothesis_tests.power._two_counts import Method, TwoCounts
from dpinfer.hypothesis_tests.power._two_counts_plan import TwoCountsPower, normal_power
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan
from dpinfer.planning.plan import Columns
from dpinfer.planning.search import LARGEST_SIZE

_EDGE = 1e-9


class _TwoProportions(PowerPlan):
    """What the power and its normal limit share."""

    ratio: float
    alternative: Alternative

    _size = "nobs1"
    _sawtooth = False
    _own = ("nobs1", "prop1", "prop2")

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs1":
            largest = LARGEST_SIZE / max(self.ratio, 1.0)
            return check_array(check_integer_array(value, name, ge=1), name, le=largest)
        return check_array(value, name, ge=SMALLEST_VALUE, lt=1)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        other = float(columns["prop2" if name == "prop1" else "prop1"])
        falls = (name == "prop1") == (self.alternative == "smaller")
        return other, min(_EDGE, 0.5 * other) if falls else 1.0 - _EDGE

    def _has_effect(self, columns: Columns) -> bool:
        return is_alternative(self.alternative, float(columns["prop1"] - columns["prop2"]))

    def _other_nobs(self, nobs1: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(np.rint(self.ratio * nobs1), 1.0))


@final
@dataclass(frozen=True)
class TwoProportionsPower(TwoCountsPower, _TwoProportions):
    """Power and planning of the test of two proportions.

    Parameters
    ----------
    mechanism : NoiseLaw, (NoiseLaw, NoiseLaw) or callable
        The law of the noise: one for both counts, or a pair. Or a function that makes it from a
        privacy budget, such as :meth:`Laplace.from_epsilon`. With a function ``budget`` is one of
        the arguments.
    ratio : float, default 1
        Number of trials of the second sample over that of the first, in [1e-6, 1e6]: the second
        sample has ``ratio * nobs1`` trials, rounded, but 1 at least.
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made: that the first proportion differs from the second, exceeds
        it, or falls short of it.
    method : {"plug-in", "exact", "normal"}
        Which p-value the test uses; see :func:`dpinfer.proportions_2indep`, whose own default is
        ``"exact"``. That is planned for, too, but takes seconds where this takes 0.1 s.
    nuisance_alpha : float, default 1e-4
        As for the test; used by ``"exact"`` only.
    reps : int, default 10_000
        Number of replicates, where the power is simulated.
    rng : None, int or numpy.random.Generator
        What the seed is drawn from, once: the powers of one plan are of the same replicates.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.

    See Also
    --------
    dpinfer.proportions_2indep : the test.

    Notes
    -----
    The null distribution depends on the published counts T₁ and T₂ by their total only, through
    the estimated common proportion. So the test rejects where, given the total M, T₁ is beyond one
    or two critical values c(M). Where noise takes whole numbers the power is the sum of P(T₁ =
    t)·P(T₂ = M - t) over all such pairs; pairs of a probability of 1e-8 in all are left out. With
    continuous noise, more than 6.7e7 pairs, or more than 200 counts (both together) with
    ``"exact"``, it is simulated: ``power_frame`` has the Monte Carlo error. Replicates that are not
    near to the critical value need no p-value of their own.

    The p-values of ``"exact"`` are upper bounds, up to max(``nuisance_alpha``/2, 2e-5) above the
    maximum: pairs as near as that to the level may be counted on either side.

    The numbers of trials are known. To plan with noisy ones simulate the test.

    Examples
    --------
    How many patients in each group show that a share is 0.45, not 0.30, with noise of ε = 0.5?

    >>> from dpinfer import Geometric
    >>> plan = TwoProportionsPower(Geometric.from_epsilon)
    >>> plan.power(150, 0.45, 0.30, budget=[0.1, 0.5, 2.0]).round(3)
    array([0.141, 0.669, 0.746])
    >>> plan.solve_power(prop1=0.45, prop2=0.30, alpha=0.05, power=0.8, budget=0.5)
    195.0
    """

    mechanism: NoisePlan
    ratio: float = field(default=1.0, kw_only=True)
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method = field(default="plug-in", kw_only=True)
    nuisance_alpha: float = field(default=1e-4, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", check_scalar(self.ratio, "ratio", ge=1e-6, le=1e6))
        super().__post_init__()

    def power(
        self,
        nobs1: ArrayLike,
        prop1: ArrayLike,
        prop2: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        nobs1 : int or array of int
            Number of trials of the first sample.
        prop1, prop2 : float or array of float
            The true proportions, in (0, 1).
        alpha : float or array of float, default 0.05
            Level of the test, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0, where ``mechanism`` is a function of it.

        Returns
        -------
        float or array of float
            The power, in the shape to which the arguments broadcast.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or a law has more counts than the test can
            go through.
        """
        return self._evaluate(
            {"nobs1": nobs1, "prop1": prop1, "prop2": prop2, "alpha": alpha, "budget": budget}
        )

    def solve_power(
        self,
        *,
        nobs1: float | None = None,
        prop1: float | None = None,
        prop2: float | None = None,
        alpha: float | None = None,
        power: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        nobs1, prop1, prop2, alpha, budget
            As for :meth:`power`, as single numbers.
        power : float
            The power to be reached, in (0, 1).

        Returns
        -------
        float
            ``nobs1``: a whole number at which the power is reached and at the number before it is
            not; the power may fall below it again, by the little that rounding to whole counts
            makes. ``prop1``: above ``prop2``, below it for the alternative ``"smaller"``; and
            ``prop2`` the other way round. ``alpha``, ``budget``: the smallest that reach the
            power, to a relative precision of 1e-6, with ``"exact"`` 1e-3 for ``budget``.

        Raises
        ------
        InvalidParameterError
            If not exactly one argument is None, or if the power cannot be reached.
        """
        return self._solve(
            {
                "nobs1": nobs1,
                "prop1": prop1,
                "prop2": prop2,
                "alpha": alpha,
                "power": power,
                "budget": budget,
            }
        )

    def _counts(
        self, noises: tuple[NoiseLaw, NoiseLaw], alpha: float, arguments: tuple[float, ...]
    ) -> TwoCounts:
        nobs1, prop1, prop2 = arguments
        nobs = (nobs1, float(self._other_nobs(np.asarray(nobs1))))
        options = (self.alternative, self.method, self.nuisance_alpha)
        return TwoBinomials.of(nobs, (prop1, prop2), noises, *options)

    @property
    def _limit(self) -> PowerPlan:
        return _NormalLimit(self.mechanism, self.ratio, self.alternative)

    @property
    def _largest(self) -> dict[str, float]:
        return {"nobs1": LARGEST_SIZE / max(self.ratio, 1.0)}


@dataclass(frozen=True)
class _NormalLimit(_TwoProportions):
    """Power of the z test where the counts are normal: where to begin to look."""

    mechanism: NoisePlan
    ratio: float
    alternative: Alternative

    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        nobs1, p1, p2 = (columns[name] for name in self._own)
        nobs2 = self._other_nobs(nobs1)
        v1, v2 = np.broadcast_to(law.variance, (2,))
        noise = v1 / np.square(nobs1) + v2 / np.square(nobs2)
        pooled = (nobs1 * p1 + nobs2 * p2) / (nobs1 + nobs2)
        null = np.sqrt(pooled * (1.0 - pooled) * (1.0 / nobs1 + 1.0 / nobs2) + noise)
        truth = np.sqrt(p1 * (1.0 - p1) / nobs1 + p2 * (1.0 - p2) / nobs2 + noise)
        power = normal_power(self.alternative, alpha, p1 - p2, null, truth)
        return power, 0.0
