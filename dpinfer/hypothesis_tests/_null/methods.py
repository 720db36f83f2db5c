"""Null distributions of statistics of noisy counts: exact, asymptotic, simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.weighted_chi2 import RankOne, WeightedChi2
from dpinfer._validation import Alternative, FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._blocks import draws_in_block
from dpinfer.hypothesis_tests._null.enumeration import LISTED_ERROR, enumerate_published
from dpinfer.hypothesis_tests._null.problem import Problem, spread
from dpinfer.hypothesis_tests._quadratic.law import ACCEPTED_ERROR, QuadraticLaw
from dpinfer.hypothesis_tests.models import Binomial, Model, Multinomial
from dpinfer.hypothesis_tests.proportions._one_count import counts_around
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.mechanisms.noisy_poisson import NoisyPoisson
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

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
        count = _standardised(problem)
        near = counts_around(count.law, count.centre, count.spread)
        return ExactNull(count.larger, count.smaller, error=problem.noise._floor, atoms=near)
    if (lattice := enumerate_published(problem.model, problem.noise)) is not None:
        atoms = lattice.atoms(problem.evaluate, problem.model.shape)
        return ExactNull(atoms.upper, atoms.lower, error=LISTED_ERROR, atoms=atoms.values)
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
        return AsymptoticNull.normal(np.sqrt(1.0 + noise.variance / np.square(spread(model))))
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

    def __call__(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(np.sum([part(s) for part in self.parts], axis=0))


@dataclass(frozen=True)
class _StandardisedCount:
    """Tails of z = (T - centre)/spread; the rounding of a computed count loses no atom."""

    law: NoisyCount
    centre: FloatArray
    spread: FloatArray

    def larger(self, z: FloatArray) -> FloatArray:
        """P(Z >= z)."""
        count, slack = self._count(z)
        return self.law.upper(count, slack)

    def smaller(self, z: FloatArray) -> FloatArray:
        """P(Z <= z)."""
        count, slack = self._count(z)
        return self.law.lower(count, slack)

    def _count(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        count = self.centre + z * self.spread
        slack = _ROUNDING * (np.abs(count) + 2.0 * self.centre + 1.0)
        return count, np.minimum(slack, 0.25)


def _standardised(problem: Problem) -> _StandardisedCount:
    """Return the law of z by a sum over the counts."""
    model, noise = problem.model, problem.noise
    law: NoisyCount
    if isinstance(model, Binomial):
        nobs, value = np.asarray(float(model.nobs)), np.asarray(model.value)
        law = NoisyBinomial(nobs=nobs, value=value, noise=noise)
    else:
        law = NoisyPoisson(rate=model.expected, noise=noise)
    return _StandardisedCount(law, model.expected, spread(model))


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
    return bool(np.all(law.error(points) <= ACCEPTED_ERROR)) and not law.is_listed


def _usual(problem: Problem, points: FloatArray | None) -> FloatArray:
    """Return critical values of the limiting law, and the given points."""
    limit = asymptotic(problem)
    critical = [limit.critical_value(level, "larger") for level in _LEVELS]
    return np.append(critical, np.zeros(0) if points is None else points)
