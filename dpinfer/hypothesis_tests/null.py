"""One entry to the null distribution of any statistic of noisy counts under any null model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    ComplexArray,
    FloatArray,
    check_array,
    check_option,
    show,
)
from dpinfer._numerics.atoms import AtomTails
from dpinfer._numerics.chi2 import RankOne, WeightedChi2
from dpinfer._numerics.counts import binom_pmf, poisson_pmf, poisson_radius
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._noisy_tables import NoisyTable, projected
from dpinfer.hypothesis_tests._one_count import OneCount
from dpinfer.hypothesis_tests._quadratic.law import QuadraticLaw
from dpinfer.hypothesis_tests.models import (
    Binomial,
    Model,
    Multinomial,
    Poisson,
    ProductMultinomial,
    draws_in_block,
)
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.law import IntegerLaw, NoiseLaw
from dpinfer.results.null import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

# The exact law of any statistic of a few whole-numbered cells: all published values in turn.


_LARGEST = 1 << 21
"""Most published values to enumerate."""

_BLOCK = 1 << 16
"""Published values at which the statistic is computed at a time."""

_LEFT_OUT = 1e-16
"""Probability of all noises, and of all Poisson counts, that are too large to be enumerated."""

LISTED_ERROR = 1e-12
"""Bound on the absolute error of the tails: what is left out, and rounding."""


@dataclass(frozen=True)
class Lattice:
    """The published values that can be, and their probabilities."""

    first: FloatArray  # the smallest in each cell, shape (k,)
    pmf: FloatArray  # of the values from there on, one axis for each cell

    def atoms(
        self, statistic: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]
    ) -> AtomTails:
        """Return the law of a statistic of counts of that shape, () or (k,)."""
        values = np.empty(self.pmf.size)
        for start in range(0, values.size, _BLOCK):
            places = np.arange(start, min(start + _BLOCK, values.size))
            cells = np.stack(np.unravel_index(places, self.pmf.shape), axis=-1) + self.first
            values[places] = statistic(cells if shape else cells[:, 0])
        return AtomTails.of(values, self.pmf.reshape(-1))


def enumerate_published(model: Model, noise: NoiseLaw) -> Lattice | None:
    """Return all published values with their probabilities, if they are few enough.

    What is left out has a probability below 2e-16.
    """
    cells = max(1, prod(model.shape))
    first, length = _ranges(model)
    kernels: list[FloatArray] = []
    size = 1
    for i in range(cells):
        law = noise.take(i) if noise.shape else noise
        if (kernel := _noise_pmf(law, _LEFT_OUT / cells)) is None:
            return None
        size *= int(length[i]) + kernel.size - 1
        if size > _LARGEST:  # before the noise of more cells is listed
            return None
        kernels.append(kernel)
    pmf = _count_pmf(model, first, length)
    for kernel in kernels:  # each product moves the axis of a cell to the end: a full turn in all
        pmf = np.tensordot(pmf, _bands(kernel, pmf.shape[0]), axes=(0, 0))
    return Lattice(first - [kernel.size // 2 for kernel in kernels], pmf)


def _noise_pmf(law: NoiseLaw, left_out: float) -> FloatArray | None:
    """Return P(e = -r), …, P(e = r), unless there is no such law or r is too large."""
    if not isinstance(law, IntegerLaw):
        return None
    reach = float(law.isf(0.5 * left_out))
    return np.asarray(law.pmf(np.arange(-reach, reach + 1.0))) if reach < _LARGEST else None


def _ranges(model: Model) -> tuple[FloatArray, FloatArray]:
    """Return the smallest count in each cell, and how many counts to look at from there on."""
    expected = np.atleast_1d(model.expected)
    if isinstance(model, Poisson):
        radius = poisson_radius(expected, -np.log(_LEFT_OUT / expected.size))
        low = np.maximum(np.floor(expected - radius), 0.0)
        return low, np.ceil(expected + radius) - low + 1.0
    if isinstance(model, ProductMultinomial):
        return np.zeros(expected.size), np.repeat(model.nobs, model.value.shape[1]) + 1.0
    return np.zeros(expected.size), np.full(expected.size, model.nobs + 1.0)


def _count_pmf(model: Model, first: FloatArray, length: FloatArray) -> FloatArray:
    """Return the probabilities of the counts, one axis for each cell."""
    if isinstance(model, Binomial):
        counts = np.arange(length[0])
        return binom_pmf(counts, np.asarray(float(model.nobs)), np.asarray(model.value))
    if isinstance(model, Multinomial):
        return _multinomial_pmf(model.nobs, model.value)
    if isinstance(model, ProductMultinomial):
        rows = zip(model.nobs, model.value, strict=True)
        return _outer([_multinomial_pmf(int(n), row) for n, row in rows])
    rates = np.atleast_1d(model.expected)
    return _outer(
        [
            poisson_pmf(low + np.arange(n), rate)
            for rate, low, n in zip(rates, first, length, strict=True)
        ]
    )


def _multinomial_pmf(nobs: int, value: FloatArray) -> FloatArray:
    """Return multinomial probabilities in a cube with a side of nobs + 1 for each cell."""
    counts = np.indices((nobs + 1,) * value.size)
    logs = np.tensordot(np.log(value), counts, axes=1) - special.gammaln(counts + 1.0).sum(axis=0)
    logs = np.where(counts.sum(axis=0) == nobs, logs, -np.inf)
    pmf = np.exp(logs - logs.max())
    return np.asarray(pmf / pmf.sum())


def _outer(parts: list[FloatArray]) -> FloatArray:
    """Return the joint probabilities of independent parts."""
    return reduce(np.multiply.outer, parts)


def _bands(kernel: FloatArray, length: int) -> FloatArray:
    """Return the matrix whose i-th row is the kernel, i places to the right."""
    bands = np.zeros((length, length + kernel.size - 1))
    for row in range(length):
        bands[row, row : row + kernel.size] = kernel
    return bands


Statistic = Callable[[FloatArray], Any]
"""Maps published counts, shape (..., k), or (...) where there is one, to statistics, (...)."""

StatisticName = Literal["pearson", "projected", "z"]


@dataclass(frozen=True)
class Problem:
    """A null model, the law of the noise, and a statistic, by name or the user's own."""

    model: Model
    noise: NoiseLaw
    name: StatisticName | None
    own: Statistic | None = None

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw replicates of the statistic."""
        counts = self.model.draw(size, rng)
        counts += self.noise.rvs(counts.shape, rng=rng)
        return self.evaluate(counts)

    def evaluate(self, counts: FloatArray) -> FloatArray:
        """Compute the statistic, which may be the user's own, and check what comes back."""
        wanted = counts.shape[: counts.ndim - len(self.model.shape)]
        values = check_array(self._computed(counts), "statistic")
        if values.shape != wanted:
            raise InvalidParameterError(
                f"statistic must map counts of shape {counts.shape} to shape {wanted}, got "
                f"{values.shape}: let it work along the last axis"
            )
        return values

    def _computed(self, counts: FloatArray) -> Any:
        if self.own is not None:
            return self.own(counts)
        model, deviations = self.model, counts - self.model.expected
        if self.name == "z":
            return np.asarray(deviations / spread(model))
        if self.name == "projected":
            assert isinstance(model, Multinomial)
            return projected(NoisyTable(model.nobs, model.expected, self.noise))(deviations)
        squares, weights = np.square(deviations), 1.0 / model.expected
        return np.asarray(squares @ weights if weights.ndim else squares * weights)


def checked_problem(model: Model, mechanism: Mechanism, statistic: Any) -> Problem:
    """Check the three parts against each other."""
    if not isinstance(model, get_args(Model)):
        raise InvalidParameterError(
            "model must be a Binomial, Poisson, Multinomial or ProductMultinomial of "
            f"dpinfer.hypothesis_tests.models, got {show(model)}"
        )
    noise = as_noise(mechanism, max(1, prod(model.shape)))
    if not model.shape and noise.shape:
        noise = noise.take(0)
    if callable(statistic):
        return Problem(model, noise, None, statistic)
    name = check_option(statistic, "statistic", get_args(StatisticName))
    wanted = {"projected": "the model is a Multinomial", "z": "the model is of one count"}
    if {"projected": not isinstance(model, Multinomial), "z": bool(model.shape)}.get(name):
        raise InvalidParameterError(
            f"statistic must be 'pearson' or a function unless {wanted[name]}, got '{name}'"
        )
    return Problem(model, noise, name)


def spread(model: Model) -> FloatArray:
    """Return the standard deviation of one count, without the noise."""
    failure = 1.0 - model.value if isinstance(model, Binomial) else 1.0
    return np.asarray(np.sqrt(model.expected * failure))


_LEVELS = (0.5, 0.1, 0.05, 0.01)
"""Where an exact law has to be accurate to be preferred to a simulation."""

_ROUNDING = 1e-14
"""Relative error of a count that was computed from a statistic."""


def exact(problem: Problem, points: FloatArray | None, *, wanted: bool) -> NullDistribution | None:
    """Return the exact law if it is available.

    Unless it is wanted, it has to be quick, and accurate at the usual critical values and at given
    points.
    """
    if problem.name == "z":
        return _one_count(problem).null()
    if (lattice := enumerate_published(problem.model, problem.noise)) is not None:
        atoms = lattice.atoms(problem.evaluate, problem.model.shape)
        return ExactNull(atoms.at_least, atoms.at_most, error=LISTED_ERROR, atoms=atoms.values)
    law = _quadratic(problem)
    if law is None or not (wanted or _is_good(law, _usual(problem, points))):
        return None
    return ExactNull(law.upper, law.lower, error=law.error)


def monte_carlo(
    problem: Problem, observed: FloatArray | None, alternative: Alternative, simulation: Simulation
) -> NullDistribution:
    """Return the simulated law."""
    if observed is None and simulation.precision is not None:
        raise InvalidParameterError(
            "observed must be given with precision: it is its p-value that has to be precise"
        )
    points = np.zeros(()) if observed is None else observed
    block = draws_in_block(problem.model.expected.size)
    return simulate_null([problem], points, simulation, alternative=alternative, block=block)


def asymptotic(problem: Problem) -> NullDistribution:
    """Return the law in the limit of large counts, with the variance of the noise in it."""
    model, noise = problem.model, problem.noise
    if problem.name == "z":
        return _one_count(problem).limit()
    if problem.name == "projected":
        return AsymptoticNull.chi2(model.expected.size - 1)
    if problem.name is None:
        raise InvalidParameterError(
            "method must be 'exact' or 'monte-carlo' for a statistic of one's own, got 'asymptotic'"
        )
    law = _normal_form(model, noise)
    return AsymptoticNull(law.upper, law.lower, "weighted sum of chi-squared variables")


def _normal_form(model: Model, noise: NoiseLaw) -> WeightedChi2:
    """Law of Pearson's statistic of normal variables with the covariance of published counts.

    In units of √E the covariance is diag(1 + V/E), less p·pᵀ within each fixed total: p the
    square roots of the probabilities there.
    """
    diagonal = np.atleast_1d(1.0 + noise.variance / model.expected)
    totals = [np.atleast_1d(share) for share in model.totals] or [np.zeros(diagonal.size)]
    ends = np.cumsum([share.size for share in totals])[:-1]
    parts = [
        RankOne(cells, share) for cells, share in zip(np.split(diagonal, ends), totals, strict=True)
    ]
    return WeightedChi2(_LogDeterminants(tuple(parts)), max(part.largest for part in parts))


@dataclass(frozen=True)
class _LogDeterminants:
    """Log-determinant of a block-diagonal matrix."""

    parts: tuple[RankOne, ...]

    def __call__(self, s: ComplexArray) -> ComplexArray:
        return np.asarray(np.sum([part(s) for part in self.parts], axis=0))


def _one_count(problem: Problem) -> OneCount:
    """Return the law of z by a sum over the counts."""
    model, noise = problem.model, problem.noise
    if isinstance(model, Binomial):
        return OneCount.of_trials(np.asarray(float(model.nobs)), np.asarray(model.value), noise)
    return OneCount.of_events(np.asarray(model.expected), noise)


def _quadratic(problem: Problem) -> QuadraticLaw | None:
    """Return the law of Pearson's statistic of one table, if there is a way to it."""
    model = problem.model
    if problem.name != "pearson" or not isinstance(model, Multinomial):
        return None
    expected = model.expected
    law = QuadraticLaw(model.nobs, model.value, expected, 1.0 / expected, problem.noise)
    return law if law.is_available else None


def _is_good(law: QuadraticLaw, points: FloatArray) -> bool:
    """Whether tails are accurate at some points, and quick."""
    return bool(law.is_accurate(points).all()) and not law.is_listed


def _usual(problem: Problem, points: FloatArray | None) -> FloatArray:
    """Return critical values of the limiting law, and the given points."""
    limit = asymptotic(problem)
    critical = [limit.critical_value(level, "larger") for level in _LEVELS]
    return np.append(critical, np.zeros(0) if points is None else points)


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
