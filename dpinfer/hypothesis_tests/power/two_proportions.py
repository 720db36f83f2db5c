"""Power of the test of two proportions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_scalar,
)
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.hypothesis_tests.power._normal_limit import Moments
from dpinfer.hypothesis_tests.power._plan import is_alternative
from dpinfer.hypothesis_tests.power._two_binomials import TwoBinomials
from dpinfer.hypothesis_tests.power._two_counts import Method, TwoCounts
from dpinfer.hypothesis_tests.power._two_counts_plan import TwoCountsPower
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan
from dpinfer.planning.plan import Columns
from dpinfer.planning.search import LARGEST_SIZE

_EDGE = 1e-9


@final
@dataclass(frozen=True)
class TwoProportionsPower(TwoCountsPower):
    """Power and planning of the test of two proportions.

    Parameters
    ----------
    %(mechanism_of_pair)s
    ratio : float, default 1
        Number of trials of the second sample over that of the first, in [1e-6, 1e6]: the second
        sample has ``ratio * nobs1`` trials, rounded, but 1 at least.
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made: that the first proportion differs from the second, exceeds
        it, or falls short of it.
    method : {"exact", "plug-in", "normal"}
        Which p-value the test uses; see :func:`dpinfer.proportions_2indep`. A power for
        ``"exact"``, the default of both, takes some 10 s with 100 trials or more, where the others
        take 0.1 s, and what is solved for about as long as several powers.
    nuisance_alpha : float, default 1e-4
        As for the test; used by ``"exact"`` only.
    %(replicates)s

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
    >>> plan = TwoProportionsPower(Geometric.from_epsilon, method="plug-in")
    >>> plan.power(150, 0.45, 0.30, budget=[0.1, 0.5, 2.0]).round(3)
    array([0.141, 0.669, 0.746])
    >>> plan.solve_power(prop1=0.45, prop2=0.30, alpha=0.05, power=0.8, budget=0.5)
    195.0
    """

    mechanism: NoisePlan
    ratio: float = field(default=1.0, kw_only=True)
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method = field(default="exact", kw_only=True)
    nuisance_alpha: float = field(default=1e-4, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    _size = "nobs1"
    _sawtooth = False
    _own = ("nobs1", "prop1", "prop2")

    def __post_init__(self) -> None:
        self._set(ratio=check_scalar(self.ratio, "ratio", ge=1e-6, le=1e6))
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
        %(alpha_and_budget)s

        %(returns)s

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or a law has more counts than the test can
            go through.
        """
        return self._evaluate(nobs1=nobs1, prop1=prop1, prop2=prop2, alpha=alpha, budget=budget)

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
        %(arguments)s

        Returns
        -------
        float
            ``nobs1``: a whole number at which the power is reached and at the number before it is
            not; the power may fall below it again, by the little that rounding to whole counts
            makes. ``prop1``: above ``prop2``, below it for the alternative ``"smaller"``; and
            ``prop2`` the other way round. ``alpha``, ``budget``: the smallest that reach the
            power, to a relative precision of 1e-6, with ``"exact"`` 1e-3 for ``budget``.

        %(raises_unsolved)s
        """
        return self._solve(
            nobs1=nobs1, prop1=prop1, prop2=prop2, alpha=alpha, power=power, budget=budget
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs1":
            return check_integer_array(value, name, ge=1, le=self._largest[name])
        return check_array(value, name, ge=SMALLEST_VALUE, lt=1)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        other = float(columns["prop2" if name == "prop1" else "prop1"])
        falls = (name == "prop1") == (self.alternative == "smaller")
        return other, min(_EDGE, 0.5 * other) if falls else 1.0 - _EDGE

    def _has_effect(self, columns: Columns) -> bool:
        return is_alternative(self.alternative, float(columns["prop1"] - columns["prop2"]))

    def _other_nobs(self, nobs1: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(np.rint(self.ratio * nobs1), 1.0))

    def _counts(
        self, noises: tuple[NoiseLaw, NoiseLaw], alpha: float, arguments: tuple[float, ...]
    ) -> TwoCounts:
        nobs1, prop1, prop2 = arguments
        nobs = (nobs1, float(self._other_nobs(np.asarray(nobs1))))
        return TwoBinomials.of(nobs, (prop1, prop2), noises, *self._test)

    def _moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        nobs1, p1, p2 = (columns[name] for name in self._own)
        nobs2 = self._other_nobs(nobs1)
        v1, v2 = np.broadcast_to(law.variance, (2,))
        noise = v1 / np.square(nobs1) + v2 / np.square(nobs2)
        pooled = (nobs1 * p1 + nobs2 * p2) / (nobs1 + nobs2)
        null = np.sqrt(pooled * (1.0 - pooled) * (1.0 / nobs1 + 1.0 / nobs2) + noise)
        truth = np.sqrt(p1 * (1.0 - p1) / nobs1 + p2 * (1.0 - p2) / nobs2 + noise)
        return p1 - p2, null, truth

    @property
    def _largest(self) -> dict[str, float]:
        return {"nobs1": LARGEST_SIZE / max(self.ratio, 1.0)}
