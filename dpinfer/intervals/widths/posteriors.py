"""Expected width of the credible interval for a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.posterior import KINDS, Kind, count_posterior
from dpinfer.intervals.priors import CountPrior, FlatPrior, NegativeBinomialPrior, PoissonPrior
from dpinfer.intervals.widths._plan import WidthBySetting
from dpinfer.intervals.widths._predictive import Predictive
from dpinfer.mechanisms import Laplace
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import Search

_SMALLEST_MEAN, _LARGEST_MEAN = 1e-6, 1e12
"""Range in which an expected count is looked for."""

_SATURATED = 1e3
"""Beyond so many times the variance of the noise, a Poisson prior tells hardly anything."""

_ANY_BUDGET = 1.0


@final
@dataclass(frozen=True, eq=False)
class PosteriorWidth(WidthBySetting):
    """Expected width of the credible interval for a count; the budget for a wanted width.

    Parameters
    ----------
    %(mechanism)s
    prior : CountPrior or callable, optional
        What is believed of the count, as for :func:`dpinfer.count_posterior`; by default flat. Or a
        function that makes it from the expected count, such as :class:`PoissonPrior` itself. With a
        function ``mean`` is one of the arguments.
    kind : {"hdi", "equal-tailed"}
        Which interval; see :meth:`CountPosterior.interval`.
    lower, upper : float or None
        Ends of the support, by default the whole numbers from 0 on.

    See Also
    --------
    dpinfer.count_posterior : the posterior.
    CountWidth : the plan for intervals that need no prior.

    Notes
    -----
    The width depends on the published count. What is planned is its expectation under the prior
    predictive law: the count is drawn from the prior, and noise is added. A flat prior on a support
    with one end or none is no law to draw from; the width is then that far from the end, where it
    is the same for all counts. Near to it intervals are narrower.

    Under whole-numbered noise the expectation is the sum over the published counts, of which some
    1e-12 in probability are left out on each side; under other noise it is that over equally spaced
    values, 32 for each count or more. Where these would be more than 32,768 in all, or the noise is
    bounded, published counts are made from 4096 points of a Sobol sequence. :meth:`width_frame` has
    an estimate of the error, the difference from the rule with half as many points, 0 for the sum.

    The width is that between the ends: one less than the number of counts in the interval.

    Examples
    --------
    Counts are about 5: which ε tells them to ± 2?

    >>> from dpinfer import Geometric
    >>> from dpinfer.intervals import PoissonPrior
    >>> plan = PosteriorWidth(Geometric.from_epsilon, PoissonPrior)
    >>> round(plan.solve_width(mean=5.0, width=4.0, alpha=0.05), 3)
    1.029
    >>> plan.width(mean=[1, 5, 1000], budget=0.5).round(2)
    array([ 2.56,  6.1 , 11.03])
    """

    mechanism: NoisePlan
    prior: CountPrior | Callable[[float], CountPrior] | None = None
    kind: Kind = field(default="hdi", kw_only=True)
    lower: float | None = field(default=0.0, kw_only=True)
    upper: float | None = field(default=None, kw_only=True)
    _support: tuple[float, float] = field(init=False, repr=False)

    _own = ()
    _logarithmic = frozenset({"alpha", "budget", "mean"})

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.kind, "kind", KINDS)
        prior = FlatPrior() if self.prior is None else self.prior
        if isinstance(prior, CountPrior):
            _check_single(prior)
        elif callable(prior):
            # the expected count is an argument of this plan
            self._set(_own=("mean",))
        else:
            raise InvalidParameterError(
                "prior must be a prior, such as PoissonPrior(5.0), or a function that makes one "
                f"from an expected count, such as PoissonPrior, got {show(prior)}"
            )
        self._set(prior=prior)
        # the posterior checks what the plan has in common with it
        support = count_posterior(
            0.0, mechanism=Laplace(scale=1.0), lower=self.lower, upper=self.upper
        )
        self._set(_support=(support.lower, support.upper))

    def width(
        self,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
        mean: ArrayLike | None = None,
    ) -> Any:
        """Return the expected width.

        Parameters
        ----------
        alpha : float or array of float, default 0.05
            One minus the posterior probability, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0, where ``mechanism`` is a function of it.
        mean : float or array of float, optional
            Expected count, >= 0, where ``prior`` is a function of it.

        Returns
        -------
        float or array of float
            Upper end less lower end on the average, in the shape to which the arguments broadcast.

        %(raises)s
        """
        self._check_mean(mean)
        return self._evaluate(alpha=alpha, budget=budget, mean=mean)

    def solve_width(
        self,
        *,
        alpha: float | None = None,
        width: float | None = None,
        budget: float | None = None,
        mean: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``alpha`` or ``budget`` that makes the interval as narrow, or
            the largest ``mean`` at which it is; beyond 1000 times the variance of the noise, where
            the width is nearly that of a flat prior, it is not looked for.

        %(raises_unsolved)s
        """
        self._check_mean(mean)
        return self._solve(alpha=alpha, width=width, budget=budget, mean=mean)

    def _check_mean(self, mean: Any) -> None:
        if mean is not None and not self._own:
            raise InvalidParameterError(
                "mean must be None where prior is not a function of it: to plan for several "
                f"expected counts, give a function such as PoissonPrior, got {show(mean)}"
            )

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, ge=0, le=_LARGEST_MEAN)

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        if name != "mean":
            return super()._range(name, columns)
        law = self._law_at(columns)
        # from the widest interval on
        return min(_SATURATED * (1.0 + float(law.variance)), _LARGEST_MEAN), _SMALLEST_MEAN

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        if self._own:
            return super()._at(law, alpha, columns)
        width, error = self._width_at(law, alpha)
        return np.asarray(width), error

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        return Predictive(self._prior(*own), law, *self._support).expected_width(alpha, self.kind)

    def _prior(self, mean: float = 0.0) -> CountPrior:
        """Return the prior with an expected count."""
        if isinstance(self.prior, CountPrior):
            return self.prior
        assert self.prior is not None
        try:
            prior = self.prior(mean)
        except TypeError as error:
            raise InvalidParameterError(
                "prior must be a function of an expected count, such as PoissonPrior, got "
                f"{show(self.prior)}: {error}"
            ) from error
        if not isinstance(prior, CountPrior):
            raise InvalidParameterError(
                f"prior must return a prior, got {show(prior)} for the mean {mean:g}"
            )
        return _check_single(prior)

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return an argument that reaches a width; budgets are looked for near a rough answer.

        Far below it, where the noise is wide, posteriors under a flat prior may be out of reach.
        """
        if name != "budget":
            return super()._find(name, known, target)
        level = 0.5 * float(known["alpha"])

        def flat(budgets: FloatArray) -> FloatArray:
            return np.array([2.0 * float(self._law(float(b)).isf(level)) for b in budgets])

        try:
            rough = Search("width", target, False, name, flat).first(*BUDGETS, logarithmic=True)
        except InvalidParameterError:  # none in this range has that width
            rough = _ANY_BUDGET
        return self._search(name, known, target).near(rough, *BUDGETS)


def _check_single(prior: CountPrior) -> CountPrior:
    """Return a prior if its parameters are single numbers."""
    names = {PoissonPrior: ("rate",), NegativeBinomialPrior: ("mean", "dispersion")}
    for name in names.get(type(prior), ()):
        check_scalar(getattr(prior, name), f"the {name} of prior")
    return prior
