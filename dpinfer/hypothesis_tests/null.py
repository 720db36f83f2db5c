"""One entry to the null distribution of any statistic of noisy counts under any null model."""

from __future__ import annotations

from typing import Any, Literal, get_args

from dpinfer._validation import ALTERNATIVES, RNG, Alternative, check_array, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._null.methods import asymptotic, exact, monte_carlo
from dpinfer.hypothesis_tests._null.problem import Statistic, StatisticName, checked_problem
from dpinfer.hypothesis_tests.models import Model
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.results.null_distribution import NullDistribution
from dpinfer.results.simulation import Simulation

Method = Literal["exact", "monte-carlo", "asymptotic"]


def null_distribution(
    model: Model,
    mechanism: Mechanism,
    statistic: StatisticName | Statistic = "pearson",
    *,
    observed: Any = None,
    alternative: Alternative | None = None,
    method: Method | None = None,
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> NullDistribution:
    """Null distribution of a statistic of noisy counts.

    Parameters
    ----------
    model : Binomial, Poisson, Multinomial or ProductMultinomial
        How the counts arise under the null hypothesis; see
        :mod:`dpinfer.hypothesis_tests.models`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    statistic : {"pearson", "projected", "z"} or callable
        ``"pearson"``: Σ (y - E)²/E with the published counts y and the expected counts E.
        ``"projected"``: the quadratic form of :func:`~dpinfer.hypothesis_tests.chisquare`, for
        a Multinomial. ``"z"``: (y - E)/√Var X, for one count. A function gets an array of
        published counts of shape (..., k), or (...) where the model is of one count, and returns
        finite values of shape (...).
    observed : float or array of float, shape (m,), optional
        Observed values of the statistic, against which a simulation counts all replicates: the
        p-values of others come from a sample of the replicates.
    alternative : {"two-sided", "larger", "smaller"}, optional
        The alternative for whose p-values ``precision`` is asked; by default ``"two-sided"`` for
        ``"z"`` and ``"larger"`` otherwise.
    method : {"exact", "monte-carlo", "asymptotic"}, optional
        By default exact where that is available at once (see Notes), otherwise Monte Carlo.
    reps : int, default 10_000
        Number of replicates of a simulation, the largest number with ``precision``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed.
    n_jobs : int or None, default 1
        Number of workers as joblib takes it; the answer does not depend on it.
    precision : float, optional
        Relative standard error, in (0, 1], of the p-values of ``observed`` at which a simulation
        stops.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    NullDistribution
        With ``pvalue``, ``critical_value``, ``mc_error``, ``mc_confint``, ``summary``, ``plot``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the method is not available.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Notes
    -----
    Exact: the z statistic of one count, with any noise; every statistic where the noise is
    whole-numbered and the published values that have to be looked at are at most 2²¹, with an
    absolute error of the tails below 1e-12; Pearson's statistic of a Multinomial with an error
    below 1e-8; where that is not reached, the error is added, so that p-values are too large rather
    than too small. By default it is exact where that accuracy is reached at ``observed`` and at the
    critical values of levels 0.5 to 0.01, unless a tail takes a list of all values of the
    statistic, which may be a second for each.

    Asymptotic: for ``"z"`` the normal law with the variance of the noise; for ``"projected"`` χ²
    with k - 1 degrees of freedom; for ``"pearson"`` the quadratic form in normal variables whose
    covariance is that of the published counts, a weighted sum of χ². The limits hold for large
    expected counts, and for noise that is not Gaussian only where it is small against sampling.

    A function of one's own has to be picklable for workers that are processes; joblib pickles
    lambdas, too. It shall not draw random numbers.

    References
    ----------
    Gaboardi, M., Lim, H., Rogers, R. and Vadhan, S. (2016). Differentially private chi-squared
    hypothesis testing: goodness of fit and independence testing. ICML. arXiv:1602.03090.

    Examples
    --------
    The range of three noisy counts:

    >>> import numpy as np
    >>> from dpinfer import Geometric
    >>> from dpinfer.hypothesis_tests.models import Multinomial
    >>> model = Multinomial(nobs=12, value=[0.25, 0.25, 0.5])
    >>> null = null_distribution(model, Geometric(scale=1.0), lambda y: np.ptp(y, axis=-1))
    >>> null.pvalue(9, "larger").round(6)
    np.float64(0.090944)
    """
    problem = checked_problem(model, mechanism, statistic)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    chosen = None if method is None else check_option(method, "method", get_args(Method))
    points = None if observed is None else check_array(observed, "observed")
    if points is not None and points.ndim > 1:
        raise InvalidParameterError(
            f"observed must be a number or one-dimensional, got shape {points.shape}"
        )
    if alternative is None:
        alternative = "two-sided" if problem.name == "z" else "larger"
    tested = check_option(alternative, "alternative", ALTERNATIVES)
    if chosen == "asymptotic":
        return asymptotic(problem)
    if chosen != "monte-carlo":
        null = exact(problem, points, wanted=chosen == "exact")
        if null is not None:
            return null
    if chosen == "exact":
        raise InvalidParameterError(
            "method must be 'monte-carlo' or 'asymptotic' where the noise is not whole-numbered or "
            "the published values are too many to be enumerated, got 'exact'"
        )
    return monte_carlo(problem, points, tested, simulation)
