"""Power of McNemar's test of paired proportions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import RNG, Alternative, FloatArray, check_array, check_integer_array
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.hypothesis_tests.power._normal_limit import Moments
from dpinfer.hypothesis_tests.power._paired_answers import DifferingPairs
from dpinfer.hypothesis_tests.power._plan import is_alternative
from dpinfer.hypothesis_tests.power._two_counts import Method, TwoCounts
from dpinfer.hypothesis_tests.power._two_counts_plan import TwoCountsPower
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan
from dpinfer.planning.plan import Columns

_LARGEST_NOBS = 1e9
"""Number of pairs up to which plans are made."""

_EDGE = 1e-9
_ROUNDING = 1e-12


@final
@dataclass(frozen=True)
class McNemarPower(TwoCountsPower):
    """Power and planning of McNemar's test of paired proportions.

    Parameters
    ----------
    mechanism : NoiseLaw, (NoiseLaw, NoiseLaw) or callable
        The law of the noise: one for both counts of pairs that differ, or a pair. Or a function
        that makes it from a privacy budget, such as :meth:`Laplace.from_epsilon`. With a function
        ``budget`` is one of the arguments.
    alternative : {"two-sided", "larger", "smaller"}
        Against what the test is made: that pairs of the first kind are not as probable as those of
        the second, more, or less.
    method : {"exact", "plug-in", "normal"}
        Which p-value the test uses; see :func:`dpinfer.mcnemar`.
    nuisance_alpha : float, default 1e-4
        As for the test; used by ``"exact"`` only.
    %(replicates)s

    See Also
    --------
    dpinfer.mcnemar : the test.

    Notes
    -----
    Of n pairs X₁₂ differ in one direction and X₂₁ in the other, a multinomial table with the
    probabilities p₁₂ and p₂₁. Given the total M of the published counts the test rejects where one
    of them is beyond a critical count c(M), which a few p-values find. Where the noise takes whole
    numbers the power is the sum of the probabilities of all published pairs of counts that are
    rejected, but for a probability of some 1e-12 that is left out. With continuous noise, more
    than 4 million pairs of counts, or more than 600 totals with ``"exact"``, it is simulated:
    ``power_frame`` has the Monte Carlo error. Replicates that are not near to the critical value
    need no p-value of their own. Where those that do would take more than some 15 s, as ``"exact"``
    with a million pairs or noise of scale 1,000, the power is refused at once or after the search
    for critical values: use another method.

    Examples
    --------
    How many pairs show that 15 % changed from no to yes and 5 % from yes to no?

    >>> from dpinfer import Geometric
    >>> plan = McNemarPower(Geometric.from_epsilon)
    >>> plan.power(150, 0.15, 0.05, budget=[1.0, 2.0]).round(3)
    array([0.739, 0.765])
    >>> quick = McNemarPower(Geometric.from_epsilon, method="plug-in")
    >>> quick.solve_power(prop12=0.15, prop21=0.05, alpha=0.05, power=0.8, budget=2.0)
    163.0
    """

    mechanism: NoisePlan
    alternative: Alternative = field(default="two-sided", kw_only=True)
    method: Method = field(default="exact", kw_only=True)
    nuisance_alpha: float = field(default=1e-4, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)

    _size = "nobs"
    _sawtooth = False
    _own = ("nobs", "prop12", "prop21")

    def power(
        self,
        nobs: ArrayLike,
        prop12: ArrayLike,
        prop21: ArrayLike,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
    ) -> Any:
        """Probability that the test rejects.

        Parameters
        ----------
        nobs : int or array of int
            Number of pairs, those included whose answers agree.
        prop12, prop21 : float or array of float
            The true proportions of pairs of the two kinds that differ, ``table[0, 1]`` and
            ``table[1, 0]``; each in (0, 1), together at most 1.
        %(alpha_and_budget)s

        %(returns)s

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or ``"exact"`` would take too long.
        """
        return self._evaluate(nobs=nobs, prop12=prop12, prop21=prop21, alpha=alpha, budget=budget)

    def solve_power(
        self,
        *,
        nobs: float | None = None,
        prop12: float | None = None,
        prop21: float | None = None,
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
            ``nobs``: a whole number at which the power is reached and at the number before it is
            not; the power may fall below it again, by the little that rounding to whole counts
            makes. ``prop12``: above ``prop21``, below it for the alternative ``"smaller"``; and
            ``prop21`` the other way round. ``alpha``: the smallest that reaches the power, to a
            relative precision of 1e-6. ``budget``: one that reaches it, and less by a relative
            1e-6, with ``"exact"`` 1e-3, does not; with counts this few, more noise may do again.

        %(raises_unsolved)s
        """
        return self._solve(
            nobs=nobs, prop12=prop12, prop21=prop21, alpha=alpha, power=power, budget=budget
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_integer_array(value, name, ge=1, le=_LARGEST_NOBS)
        return check_array(value, name, ge=SMALLEST_VALUE, lt=1)

    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        other = float(columns["prop21" if name == "prop12" else "prop12"])
        falls = (name == "prop12") == (self.alternative == "smaller")
        most = 1.0 - other
        far = min(_EDGE, 0.5 * other) if falls else most
        return min(other, most), max(far, SMALLEST_VALUE)

    def _has_effect(self, columns: Columns) -> bool:
        return is_alternative(self.alternative, float(columns["prop12"] - columns["prop21"]))

    def _counts(
        self, noises: tuple[NoiseLaw, NoiseLaw], alpha: float, arguments: tuple[float, ...]
    ) -> TwoCounts:
        nobs, prop12, prop21 = arguments
        if prop12 + prop21 > 1.0 + _ROUNDING:
            raise InvalidParameterError(
                f"prop12 + prop21 must be at most 1, the proportion of all pairs, got "
                f"{prop12 + prop21:.6g}"
            )
        value = prop12, min(prop21, 1.0 - prop12)
        return DifferingPairs.of(nobs, value, noises, *self._test, self._known(noises))

    def _moments(self, law: NoiseLaw, columns: Columns) -> Moments:
        nobs, p12, p21 = (columns[name] for name in self._own)
        noise = float(np.broadcast_to(law.variance, (2,)).sum())
        both, difference = p12 + p21, p12 - p21
        null = np.sqrt(nobs * both + noise)
        truth = np.sqrt(np.maximum(nobs * (both - np.square(difference)) + noise, 1e-9 * null**2))
        return nobs * difference, null, truth

    @property
    def _largest(self) -> dict[str, float]:
        return {"nobs": _LARGEST_NOBS}
