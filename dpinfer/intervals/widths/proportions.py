"""Expected width of the interval for a proportion."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_integer_array, check_option
from dpinfer.intervals.proportions import Method, proportion_confint
from dpinfer.intervals.widths._expected import ExpectedWidth
from dpinfer.intervals.widths._noisy_trials import NoisyTrials
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_law, check_plan
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
    %(mechanism)s
    method : {"exact", "mid-p", "wilson", "normal"}
        How the interval is made; see :func:`dpinfer.proportion_confint`. Where the number of trials
        is noisy, "exact" or "normal".
    nobs_mechanism : NoiseLaw or callable, optional
        The law of the noise in the number of trials, where it will be published with noise; or a
        function that makes it from the same ``budget``.
    nobs_is_total : bool, default False
        Whether the count is a summand of the number of trials, its noise included.
        ``nobs_mechanism`` is then the noise of the other summands.
    nuisance_alpha : float, default 1e-4
        As for :func:`dpinfer.proportion_confint`; used where the number of trials is noisy.

    See Also
    --------
    dpinfer.proportion_confint : the interval.
    dpinfer.ProportionPower : the size of a sample for a test.

    Notes
    -----
    The width depends on the published count T = X + e. What is planned is its expectation at a
    true proportion p, where X ~ Binomial(n, p) and e is the noise. Under whole-numbered noise it
    is the sum over the values of T, of which some 1e-11 in probability are left out, or over
    equally spaced ones of them where they are many. Under other noise it is a sum over equally
    spaced values of X and a double exponential rule for e. :meth:`width_frame` has an estimate of
    the error, the difference from the rule with half as many points.

    Where the number of trials is noisy, the expectation is over both published numbers, made from
    8192 points of a Sobol sequence in place of random numbers. Exact intervals, which may take a
    second each, are made of 8 such points only: what is averaged over them is by how much the exact
    interval is wider than the normal one, which hardly varies. The error is again the difference
    from half as many points. The width is then a saw-tooth in n, by rounding: the number of trials
    that is solved for reaches the width, and the one that is smaller by one does not. The level of
    an exact interval is solved for above 2·``nuisance_alpha`` only, below which there is none. To
    solve for an argument of exact intervals takes the time of some 60 of them or more: seconds for
    narrow Gaussian noise, a minute or more for other noise.

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

    The number of those without the property is published with noise as well, so that their total
    is all that is known of the number of trials:

    >>> noise = Laplace.from_epsilon
    >>> plan = ProportionWidth(noise, method="normal", nobs_mechanism=noise, nobs_is_total=True)
    >>> plan.solve_width(width=0.1, proportion=0.3, alpha=0.05, budget=0.1)
    614.0
    """

    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)
    nobs_mechanism: NoisePlan | None = field(default=None, kw_only=True)
    nobs_is_total: bool = field(default=False, kw_only=True)
    nuisance_alpha: float = field(default=1e-4, kw_only=True)

    _size = "nobs"
    _own = ("nobs", "proportion")
    _given = ("proportion",)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.method, "method", get_args(Method))
        if self.nobs_mechanism is not None:
            check_plan(self.nobs_mechanism, name="nobs_mechanism")
        # the interval checks what the plan has in common with it
        proportion_confint(
            1.0,
            2,
            mechanism=Exact(),
            method=self.method,
            nobs_mechanism=None if self.nobs_mechanism is None else Exact(),
            nobs_is_total=self.nobs_is_total,
            nuisance_alpha=self.nuisance_alpha,
        )

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
            Number of trials, the true one where a noisy one will be published.
        proportion : float or array of float
            The true proportion, in (0, 1). At 1/2 the intervals are widest, or nearly so.
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0, where a mechanism is a function of it.

        Returns
        -------
        float or array of float
            Upper end less lower end on the average, in the shape to which the arguments broadcast.

        %(raises)s
        """
        return self._evaluate(nobs=nobs, proportion=proportion, alpha=alpha, budget=budget)

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
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``nobs``, ``alpha`` or ``budget`` that makes the interval
            as narrow; see the notes.

        %(raises_unsolved)s
        """
        return self._solve(
            nobs=nobs, proportion=proportion, alpha=alpha, width=width, budget=budget
        )

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_integer_array(value, name, ge=1, le=LARGEST_SIZE)
        return check_array(value, name, ge=_SMALLEST, lt=1)

    @property
    def _has_budget(self) -> bool:
        planned = (self.mechanism, self.nobs_mechanism)
        return any(made is not None and not isinstance(made, NoiseLaw) for made in planned)

    def _law(self, budget: float) -> NoiseLaw:
        """Return the law of the noise, or the joint one of both noises."""
        law = super()._law(budget)
        if self.nobs_mechanism is None:
            return law
        other = self.nobs_mechanism
        if not isinstance(other, NoiseLaw):
            other = check_law(other(budget), (), budget, name="nobs_mechanism")
        return IndependentNoise([law, other])

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        if name == self._size:
            return 1.0, LARGEST_SIZE
        low, high = super()._range(name, columns)
        if name == "alpha" and self.nobs_mechanism is not None and self.method == "exact":
            # an end has to have more than the number of trials takes
            low = 2.0 * self.nuisance_alpha * (1.0 + 1e-9)
        return low, high

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        if self.nobs_mechanism is None:
            return super()._width_at(law, alpha, *own)
        trials = NoisyTrials(
            noise=law.take(0),
            nobs_noise=law.take(1),
            is_total=self.nobs_is_total,
            method=self.method,
            nuisance_alpha=self.nuisance_alpha,
        )
        nobs, value = own
        return trials.expected_width(nobs, value, alpha)

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

    def _noise_variance(self, law: NoiseLaw, known: Columns) -> float:
        """Variance of the noise of count - p·nobs."""
        if self.nobs_mechanism is None:
            return super()._noise_variance(law, known)
        value = float(known["proportion"])
        weights = np.array([1.0 - value if self.nobs_is_total else 1.0, value])
        return float(np.square(weights) @ law.variance)

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return an argument that reaches a width, for costly intervals near that for others."""
        found = None
        if self.nobs_mechanism is not None and self.method == "exact":
            found = self._find_near(replace(self, method="normal"), name, known, target)
        return super()._find(name, known, target) if found is None else found

    def _unit_variance(self, columns: Columns) -> float:
        value = float(columns["proportion"])
        return value * (1.0 - value)
