import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import FlatPrior, NegativeBinomialPrior, PoissonPrior, TablePrior
from dpinfer.intervals.widths._draws import (
    binomial_counts,
    mean,
    median,
    noises,
    poisson_counts,
    uniforms,
)
from dpinfer.intervals.widths._prior_draws import drawn_counts, outermost_counts
from dpinfer.mechanisms import Gaussian, Geometric, IndependentNoise, Laplace

NUMBER = 1 << 12
FREE = (-np.inf, np.inf)


def test_each_variable_takes_the_middles_of_equal_steps():
    draws = uniforms(NUMBER, 5)
    middles = (np.arange(NUMBER) + 0.5) / NUMBER
    np.testing.assert_allclose(np.sort(draws, axis=0), np.repeat(middles[:, None], 5, axis=1))
    # pairs of variables do not depend on each other, nor do squares of them
    centred = draws - 0.5
    for power in (1, 2):
        moments = np.corrcoef(centred.T**power)
        np.testing.assert_allclose(moments, np.eye(5), atol=0.01)


def test_noises_have_their_law():
    draws = uniforms(NUMBER, 2)
    law = Laplace(scale=2.0)
    np.testing.assert_allclose(noises(law, draws), law.isf(draws))
    assert noises(law, draws).var() == pytest.approx(8.0, rel=0.01)
    several = IndependentNoise([Gaussian(sigma=3.0), Geometric(scale=1.0)])
    found = noises(several, draws).var(axis=0)
    np.testing.assert_allclose(found, several.variance, rtol=0.01)


def test_averages_and_their_errors():
    values = np.array([1.0, 2.0, 5.0, 8.0])
    assert mean(values) == (4.0, 2.5)
    assert mean(values, np.array([True, True, True, False])) == pytest.approx((8 / 3, 8 / 3 - 1.5))
    assert median(values) == (2.0, 2.0)
    assert median(np.array([1.0, 2.0, np.inf, np.inf])) == (2.0, np.inf)
    assert median(np.array([1.0, np.inf, np.inf, np.inf])) == (np.inf, np.inf)
    assert median(np.full(4, np.inf)) == (np.inf, 0.0)


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (PoissonPrior(0.3), stats.poisson(0.3)),
        (PoissonPrior(30.0), stats.poisson(30.0)),
        (NegativeBinomialPrior(5.0, 0.0), stats.poisson(5.0)),
        (NegativeBinomialPrior(5.0, 1e-3), stats.nbinom(1e3, 1 / 1.005)),
        (NegativeBinomialPrior(5.0, 4.0), stats.nbinom(0.25, 1 / 21.0)),
        (
            TablePrior([1.0, 0.0, 2.0, 1.0], first=3),
            stats.rv_discrete(values=([3, 5, 6], [0.25, 0.5, 0.25])),
        ),
    ],
    ids=lambda value: getattr(value, "description", ""),
)
def test_counts_have_the_law_of_the_prior(prior, law):
    counts, used = drawn_counts(prior, uniforms(NUMBER, 2), *FREE)
    assert used.all()
    k = np.arange(60)
    frequency = (counts[:, None] == k).mean(axis=0)
    np.testing.assert_allclose(frequency, law.pmf(k), atol=3e-3)
    low, high = outermost_counts(prior, *FREE)
    assert low <= counts.min() <= counts.max() <= high
    assert law.cdf(low - 1.0) <= 1e-12
    assert law.sf(high) <= 1.1e-12


def test_counts_are_those_on_the_support():
    counts, used = drawn_counts(PoissonPrior(8.0), uniforms(NUMBER, 2), 6.0, 9.0)
    k = np.arange(6, 10)
    pmf = stats.poisson.pmf(k, 8.0)
    frequency = (counts[used, None] == k).mean(axis=0)
    np.testing.assert_allclose(frequency, pmf / pmf.sum(), atol=0.01)
    table, used = drawn_counts(TablePrior([1.0, 2.0, 1.0]), uniforms(NUMBER, 2), 1.0, 9.0)
    assert used.all()
    np.testing.assert_allclose((table == 1).mean(), 2 / 3, atol=1e-3)
    flat, _ = drawn_counts(FlatPrior(), uniforms(NUMBER, 2), -2.0, 5.0)
    np.testing.assert_array_equal(np.unique(flat, return_counts=True)[1], np.full(8, NUMBER // 8))
    with pytest.raises(InvalidParameterError, match=r"prior must give lower\.\.upper"):
        drawn_counts(PoissonPrior(8.0), uniforms(NUMBER, 2), 40.0, np.inf)


@pytest.mark.parametrize("rate", [3.0, 9e4, 1.1e5, 3e6])
def test_poisson_counts_are_quantiles(rate):
    draws = uniforms(NUMBER, 2)[:, 1]
    counts = poisson_counts(np.full(NUMBER, rate), draws)
    np.testing.assert_allclose(counts, stats.poisson.ppf(draws, rate), atol=1.0)
    assert (counts != stats.poisson.ppf(draws, rate)).mean() < 0.05


@pytest.mark.parametrize(("nobs", "value"), [(9, 0.2), (10**6, 0.09), (10**6, 0.9), (10**7, 0.02)])
def test_binomial_counts_are_quantiles(nobs, value):
    draws = uniforms(NUMBER, 2)
    counts = binomial_counts(np.array([nobs, 5.0]), np.array([value, 0.5]), draws)
    exact = stats.binom.ppf(draws, [nobs, 5], [value, 0.5])
    np.testing.assert_allclose(counts, exact, atol=1.0)
    assert (counts != exact).mean() < 0.05
