"""Power of the chi-squared test of goodness of fit with estimated parameters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final, get_args

import numpy as np

from dpinfer._check import RNG, FloatArray, check_option, freeze
from dpinfer.hypothesis_tests._fitted_tables import TableModel
from dpinfer.hypothesis_tests._noisy_tables import NoiseForm
from dpinfer.hypothesis_tests.goodness_of_fit import (
    ParametricMargins,
    ProbabilityModel,
    checked_model,
)
from dpinfer.hypothesis_tests.power._fitted_plan import (
    FittedTablePower,
    Method,
    check_differs,
    total_law,
)
from dpinfer.hypothesis_tests.power._tables import checked_probabilities, checked_seed
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan

if TYPE_CHECKING:
    from dpinfer.hypothesis_tests._noisy_tables import Statistic

_NOBS = 1e6
"""Observations of the table without noise to which the null hypothesis is fitted."""

_STEPS = 6
"""Steps from the true parameters in which the estimates from releases settle."""


@final
@dataclass(frozen=True, eq=False)
class CompositeFitPower(FittedTablePower):
    """Power and planning of the test of goodness of fit with estimated parameters.

    Parameters
    ----------
    model : callable
        ``model(theta)`` returns the probabilities of the k cells for parameters of shape (q,),
        with k >= q + 2. It has to be smooth.
    start : float or array of float, shape (q,)
        Parameters to start from.
    alternative_value : array of float, shape (k,)
        Probabilities >= 0 of the cells under the alternative, at which ``effect`` is 1.
    %(mechanism_of_cells)s
    nobs_mechanism : NoiseLaw, optional
        The law of the noise in the published number of observations; ``Exact()`` where that number
        is public. By default it is not published.
    bounds : sequence of (low, high), optional
        Smallest and largest value of each parameter; infinite ones are allowed.
    method : {"monte-carlo", "asymptotic"}
        ``"monte-carlo"`` simulates what the test does with releases; ``"asymptotic"`` is the limit
        of many observations.
    %(replicates)s

    Attributes
    ----------
    params : array of float, shape (q,)
        The parameters whose probabilities are nearest to the alternative: the maximum of its
        likelihood.

    See Also
    --------
    dpinfer.chisquare_fit : the test.

    Notes
    -----
    The null hypothesis is p₀ = model(params). At an ``effect`` the cells have the probabilities
    p₀ + effect·(alternative_value - p₀). Cohen's effect size w = √Σ(p - p₀)²/p₀ is ``effect`` times
    that of the alternative, ``effect_size``.

    The statistic is the projected one, the default of the test. Monte Carlo: releases at the
    alternative are fitted as the test fits them. One counts as rejected where its statistic reaches
    the critical value, and as not rejected where an estimated expected count is below 5, so that
    the test does not decide. The critical value is simulated at p₀, while the test simulates it
    anew at the parameters that it estimates. A power takes about 16·(2q + 1) calls of ``model``
    for each replicate.

    Asymptotic: noncentral χ² with k - 1 - q degrees of freedom, whose noncentrality is the
    statistic of the expected counts themselves.

    References
    ----------
    Kifer, D. and Rogers, R. (2017). A new class of private chi-square hypothesis tests. AISTATS,
    PMLR 54:991-1000. arXiv:1610.07662.

    Examples
    --------
    Are genotypes in Hardy-Weinberg proportions, where a tenth of the heterozygotes is missing?

    >>> from dpinfer import Gaussian
    >>> def genotypes(theta):
    ...     p = theta[0]
    ...     return [p * p, 2 * p * (1 - p), (1 - p) ** 2]
    >>> plan = CompositeFitPower(
    ...     genotypes, 0.5, [0.275, 0.45, 0.275], Gaussian.from_rho, method="asymptotic"
    ... )
    >>> plan.power(nobs=[500, 1000], budget=0.01).round(3)
    array([0.503, 0.84 ])
    >>> plan.solve_power(effect=1.0, alpha=0.05, power=0.8, budget=0.01)
    911.0
    """

    model: ProbabilityModel
    start: Any
    alternative_value: Any
    mechanism: NoisePlan
    nobs_mechanism: NoiseLaw | None = field(default=None, kw_only=True)
    bounds: Any = field(default=None, kw_only=True)
    method: Method = field(default="monte-carlo", kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=1, kw_only=True)
    params: FloatArray = field(init=False)

    statistic: Statistic = field(init=False, repr=False, default="projected")
    _null: ParametricMargins = field(init=False, repr=False)

    def __post_init__(self) -> None:
        other = checked_probabilities(self.alternative_value, "alternative_value", 1)
        check_option(self.method, "method", get_args(Method))
        cells, theta = checked_model(
            self.model, self.start, self.bounds, other.size, "alternative_value"
        )
        exact = NoiseForm.published(np.zeros(other.shape), np.inf)
        null = ParametricMargins(cells, exact, theta).converged(_NOBS * other, None)
        self._set(
            alternative_value=freeze(other),
            mechanism=check_plan(self.mechanism, other.shape),
            nobs_mechanism=total_law(self.nobs_mechanism),
            params=freeze(null.theta),
            _null=null,
            _seed=checked_seed(self.reps, self.rng, self.n_jobs),
        )
        check_differs(other, self._line[0], "a value of model")

    @cached_property
    def _line(self) -> tuple[FloatArray, FloatArray]:
        null = self._null.cells.checked(self.params)
        return null, self.alternative_value - null

    def _model(self, law: NoiseLaw, nobs: int) -> TableModel:
        return self._published(law, self._margins(law))

    def _model_at(self, law: NoiseLaw, nobs: int, value: FloatArray) -> TableModel:
        margins = self._margins(law).converged(nobs * value, nobs)
        return self._published(law, replace(margins, steps=_STEPS))

    def _margins(self, law: NoiseLaw) -> ParametricMargins:
        """Return the null hypothesis, to be fitted to tables with such noise."""
        form = NoiseForm.published(self._variance(law), self._total_spread)
        return replace(self._null, form=form)

    def _published(self, law: NoiseLaw, margins: ParametricMargins) -> TableModel:
        noise = self.nobs_mechanism if 0.0 < self._total_spread < np.inf else None
        return TableModel(self.alternative_value.shape, margins, law, noise)
