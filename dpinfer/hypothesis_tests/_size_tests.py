"""The tests that a size study looks at, by null model, each with its exact rates or its rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.roots import find_root
from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._blocks import draws_in_block
from dpinfer.hypothesis_tests._quadratic.law import ACCEPTED_ERROR, QuadraticLaw
from dpinfer.hypothesis_tests.models import (
    Binomial,
    Independence,
    Model,
    Multinomial,
    Poisson,
    ProductMultinomial,
)
from dpinfer.hypothesis_tests.null import null_distribution
from dpinfer.hypothesis_tests.power._critical import critical_distance
from dpinfer.hypothesis_tests.proportions._one_count import OneCount
from dpinfer.hypothesis_tests.tables._fitted_tables import TableModel
from dpinfer.hypothesis_tests.tables._margins import Margins, ProductMargins
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm
from dpinfer.hypothesis_tests.tables._noisy_table import (
    SMALL_EXPECTED,
    NoisyTable,
    SimulatedStatistic,
    projected,
)
from dpinfer.hypothesis_tests.tables._row_margins import RowMargins
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.mechanisms.noisy_poisson import NoisyPoisson
from dpinfer.results._rejections import Rule, largest_replicates
from dpinfer.results.monte_carlo_null import beyond_ties
from dpinfer.results.simulation import Simulation

StudyModel = Model | Independence

_PEARSON_IGNORANT = "Pearson's test, noise ignored"
_ZTEST_IGNORANT = "z test, noise ignored"

_PRECISION = 1e-10
"""Relative precision of exact critical values."""

_CRITICAL_REPS = 10
"""Tables behind simulated critical values, for each release: their error adds 5 % to that of the
rates."""


@dataclass(frozen=True)
class StudiedTest:
    """A test whose rates are known, or can be simulated by its rule."""

    name: str
    how: FloatArray | Rule


@dataclass(frozen=True)
class Question:
    """What is asked about the tests.

    Parameters
    ----------
    truth : Binomial, Poisson, Multinomial, ProductMultinomial or Independence
        What the counts are drawn from.
    noise : NoiseLaw
        The noise that is added to them, and that the tests know of.
    alpha : array of float, shape (a,)
        The levels.
    simulation : Simulation
        How releases are simulated.
    """

    truth: StudyModel
    noise: NoiseLaw
    alpha: FloatArray
    simulation: Simulation


def default_tests(model: StudyModel, question: Question) -> list[StudiedTest]:
    """Return the library's tests of a null model, and the one that ignores the noise."""
    if isinstance(model, Multinomial):
        return _goodness_of_fit(model, question)
    if isinstance(model, ProductMultinomial | Independence):
        return _contingency(model, question)
    if isinstance(model, Poisson) and model.shape:
        return _independent_counts(model, question)
    return _one_count(model, question)


def _one_count(model: Binomial | Poisson, question: Question) -> list[StudiedTest]:
    """Return tests of one count: all rates are sums over the counts."""
    noise, alpha = question.noise, question.alpha
    if isinstance(model, Binomial):
        name, test = "proportions_ztest", OneCount.of_trials(0, model.nobs, model.value, noise)
    else:
        name, test = "poisson_ztest", OneCount.of_events(0, 1.0, model.rate, noise)
    truth = _noisy_count(question.truth, noise)
    aware = np.array([float(critical_distance(test, level, "two-sided")) for level in alpha])
    ignorant = special.ndtri(1.0 - 0.5 * alpha) * test.spread
    return [
        StudiedTest(f"{name}, exact", _rate_beyond(test, truth, aware)),
        StudiedTest(_ZTEST_IGNORANT, _rate_beyond(test, truth, ignorant)),
    ]


def _noisy_count(truth: StudyModel, noise: NoiseLaw) -> NoisyCount:
    if isinstance(truth, Binomial):
        nobs, value = np.asarray(float(truth.nobs)), np.asarray(truth.value)
        return NoisyBinomial(nobs=nobs, value=value, noise=noise)
    return NoisyPoisson(rate=truth.expected, noise=noise)


def _rate_beyond(test: OneCount, truth: NoisyCount, distance: FloatArray) -> FloatArray:
    """Probability of a count at least so far from what the null hypothesis expects."""
    high, low = test.centre + distance, test.centre - distance
    tails = truth.upper(high, test.slack(high)) + truth.lower(low, test.slack(low))
    return np.minimum(tails, 1.0)


def _goodness_of_fit(model: Multinomial, question: Question) -> list[StudiedTest]:
    """Return tests of given probabilities, with exact rates where Pearson's law is known."""
    alpha, expected = question.alpha, model.expected
    null = QuadraticLaw(model.nobs, model.value, expected, 1.0 / expected, question.noise)
    truth = _truth_of(null, question.truth)
    critical = _critical(null, alpha, _limiting_critical(model, question))
    chi2 = special.chdtri(float(expected.size - 1), alpha)
    table = NoisyTable(model.nobs, expected, question.noise)
    if critical is None:
        simulated = Rule(
            partial(_pearson_statistic, expected), _simulated_critical(table, question)
        )
        by_pearson = StudiedTest("chisquare, pearson, monte-carlo", simulated)
    else:
        by_pearson = StudiedTest("chisquare, pearson, exact", _pearson(expected, truth, critical))
    return [
        by_pearson,
        StudiedTest("chisquare, projected, asymptotic", Rule(partial(_projected, table), chi2)),
        StudiedTest(_PEARSON_IGNORANT, _pearson(expected, truth, chi2)),
    ]


def _independent_counts(model: Poisson, question: Question) -> list[StudiedTest]:
    """Return tests of given rates."""
    limit = _limiting_critical(model, question)
    chi2 = special.chdtri(float(model.expected.size), question.alpha)
    statistic = partial(_pearson_statistic, model.expected)
    return [
        StudiedTest("Pearson's test, asymptotic", Rule(statistic, limit)),
        StudiedTest(_PEARSON_IGNORANT, Rule(statistic, chi2)),
    ]


def _truth_of(null: QuadraticLaw, truth: StudyModel) -> QuadraticLaw | None:
    """Return the law of the statistic where the counts have another law, if it is known."""
    if not isinstance(truth, Multinomial | Independence):
        return None
    if truth.nobs == null.nobs and np.array_equal(truth.value, null.value):
        return null
    return QuadraticLaw(truth.nobs, truth.value, null.centre, null.weight, null.noise)


def _pearson(
    expected: FloatArray, truth: QuadraticLaw | None, critical: FloatArray
) -> FloatArray | Rule:
    """Return the exact rates of a test by Pearson's statistic, or else its rule."""
    if truth is not None and (truth.error(critical) <= ACCEPTED_ERROR).all():
        return np.asarray(truth.upper(critical))
    return Rule(partial(_pearson_statistic, expected), critical)


def _limiting_critical(model: Multinomial | Poisson, question: Question) -> FloatArray:
    """Critical values of the weighted sum of chi-squared variables."""
    law = null_distribution(model, question.noise, "pearson", method="asymptotic")
    return np.array([law.critical_value(level, "larger") for level in question.alpha])


def _critical(law: QuadraticLaw, alpha: FloatArray, near: FloatArray) -> FloatArray | None:
    """Return exact critical values, if the law is accurate enough there."""
    if not (law.error(near) <= ACCEPTED_ERROR).all():
        return None

    def margin(q: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(law.upper(q)), -1e6) - np.log(alpha[index]))

    _, critical = find_root(margin, 0.5 * near, 1.5 * near, rtol=_PRECISION, expand=True)
    accurate = bool((law.error(critical) <= ACCEPTED_ERROR).all())
    return np.asarray(critical) if accurate else None


def _simulated_critical(table: NoisyTable, question: Question) -> FloatArray:
    """Values beyond which Monte Carlo p-values are at most the levels; inf where none is."""
    reps = _CRITICAL_REPS * question.simulation.reps
    # 1 + b of them may be as large, with (1 + b)/(reps + 1) <= alpha; 1e-9 is for rounding
    allowed = np.floor(question.alpha * (reps + 1) * (1.0 + 1e-9)).astype(np.intp)
    allowed = np.minimum(allowed, reps)
    keep = max(1, int(allowed.max()))
    draw = SimulatedStatistic(table, "pearson")
    simulation = replace(question.simulation, reps=reps)
    largest = largest_replicates(draw, keep, simulation, draws_in_block(table.expected.size))
    return np.where(allowed > 0, beyond_ties(largest[np.maximum(allowed, 1) - 1]), np.inf)


def _contingency(model: ProductMultinomial | Independence, question: Question) -> list[StudiedTest]:
    """Return tests whose margins are estimated from each release anew."""
    fitted = _table_model(model, question.noise)
    critical = special.chdtri(float(fitted.margins.dof), question.alpha)
    aware = partial(_fitted_projected, fitted, float(np.sum(model.nobs)))
    return [
        StudiedTest("chi2_contingency, projected, asymptotic", Rule(aware, critical)),
        StudiedTest(_PEARSON_IGNORANT, Rule(partial(_plain_pearson, fitted.shape), critical)),
    ]


def _table_model(model: ProductMultinomial | Independence, noise: NoiseLaw) -> TableModel:
    margins: Margins
    if isinstance(model, Independence):
        shape = (model.rows.size, model.columns.size)
        variance = np.broadcast_to(noise.variance, model.expected.shape).reshape(shape)
        margins = ProductMargins(NoiseForm.published(variance, 0.0))
    else:
        shape = (model.value.shape[0], model.value.shape[1])
        if shape[0] < 2 or (model.value != model.value[0]).any():
            raise InvalidParameterError(
                "model must have two rows or more with the same probabilities, the hypothesis of "
                "homogeneity; give another model as truth, or tests of your own"
            )
        variance = np.broadcast_to(noise.variance, model.expected.shape).reshape(shape)
        margins = RowMargins(variance, model.nobs)
    return TableModel(shape, margins, noise)


# Statistics of releases, shape (m, k): functions of the module, so that they can be pickled.


def _pearson_statistic(expected: FloatArray, releases: FloatArray) -> FloatArray:
    return np.asarray(np.square(releases - expected) @ (1.0 / expected))


def _projected(table: NoisyTable, releases: FloatArray) -> FloatArray:
    return projected(table)(releases - table.expected)


def _fitted_projected(model: TableModel, nobs: float, releases: FloatArray) -> FloatArray:
    """Statistic of each table; 0, which rejects nothing, where the test does not decide."""
    tables = np.ascontiguousarray(releases.T).reshape(*model.shape, len(releases))
    total = np.full(len(releases), nobs)
    decided = model.fit(tables, total).expected.min(axis=(0, 1)) >= SMALL_EXPECTED
    return np.where(decided, model.projected(tables, total), 0.0)


def _plain_pearson(shape: tuple[int, ...], releases: FloatArray) -> FloatArray:
    """Statistic of each table as if it had no noise; 0 where a margin is not positive."""
    tables = releases.reshape(-1, *shape)
    rows, columns = tables.sum(axis=2, keepdims=True), tables.sum(axis=1, keepdims=True)
    possible = (rows > 0.0).all(axis=(1, 2)) & (columns > 0.0).all(axis=(1, 2))
    positive = np.where(possible, rows.sum(axis=(1, 2)), 1.0)[:, np.newaxis, np.newaxis]
    expected = np.where(possible[:, np.newaxis, np.newaxis], rows * columns / positive, 1.0)
    statistic = (np.square(tables - expected) / expected).sum(axis=(1, 2))
    return np.where(possible, statistic, 0.0)
