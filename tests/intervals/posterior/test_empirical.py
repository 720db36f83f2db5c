import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from dpinfer.errors import ConvergenceError, DPInferError, InvalidParameterError
from dpinfer.intervals import count_posterior, empirical_prior
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace
from dpinfer.priors import NegativeBinomialPrior, PoissonPrior


def drawn(mean, dispersion, size, seed):
    rng = np.random.default_rng(seed)
    rates = mean * (rng.gamma(1 / dispersion, dispersion, size) if dispersion else np.ones(size))
    return rng.poisson(rates).astype(float)


def log_likelihood(values, noise, logpmf):
    k = np.arange(600.0)
    density = noise.logpmf if noise.is_integer else noise.logpdf
    return special.logsumexp(logpmf(k) + density(values[:, None] - k), axis=1).sum()


@pytest.mark.thinned("noise", "mean", every=2)
@pytest.mark.parametrize(
    "noise", [Geometric(scale=2.0), Laplace(scale=2.0), Gaussian(sigma=6.0)], ids=repr
)
@pytest.mark.parametrize("mean", [0.3, 12.0])
def test_poisson_maximises_the_likelihood(noise, mean):
    values = drawn(mean, 0.0, 80, 3) + noise.rvs(80, rng=4)
    prior = empirical_prior(values, mechanism=noise)

    def loss(rate):
        return -log_likelihood(values, noise, lambda k: stats.poisson.logpmf(k, rate))

    best = optimize.minimize_scalar(loss, bounds=(1e-6, 60), method="bounded").fun
    assert loss(max(prior.rate, 1e-300)) <= best + 1e-9
    posterior = count_posterior(values, mechanism=noise, prior=prior)
    np.testing.assert_allclose(posterior.mean.mean(), prior.rate, rtol=1e-9)
    assert prior.empirical
    assert any("Empirical Bayes" in note for note in posterior.interval().notes)
    assert "Empirical Bayes" in posterior.summary()


def check_negative_binomial(prior, values, noise):
    """Compare with another optimiser, and return minus the largest logarithm of the likelihood."""

    def loss(point):
        mean, size = np.exp(point[0]), np.exp(-point[1])
        return -log_likelihood(
            values, noise, lambda k: stats.nbinom.logpmf(k, size, size / (size + mean))
        )

    start = np.log([prior.mean, prior.dispersion])
    best = optimize.minimize(loss, start + 0.1, method="Nelder-Mead", options={"fatol": 1e-9})
    assert loss(start) <= best.fun + 1e-7
    np.testing.assert_allclose(start, best.x, atol=1e-3)
    return loss(start)


@pytest.mark.thinned("noise", "dispersion", every=2)
@pytest.mark.parametrize("noise", [Geometric(scale=2.0), Laplace(scale=2.0)], ids=repr)
@pytest.mark.parametrize("dispersion", [0.3, 3.0])
def test_negative_binomial_maximises_the_likelihood(noise, dispersion):
    values = drawn(15.0, dispersion, 60, 5) + noise.rvs(60, rng=6)
    prior = empirical_prior(values, mechanism=noise, family="negative-binomial")
    check_negative_binomial(prior, values, noise)


def test_no_noise_gives_the_mean():
    values = drawn(9.0, 0.5, 200, 7)
    assert empirical_prior(values, mechanism=Exact()).rate == pytest.approx(values.mean(), rel=1e-9)
    fit = empirical_prior(values, mechanism=Exact(), family="negative-binomial")
    assert fit.mean == pytest.approx(values.mean(), rel=1e-4)


def test_nothing_but_noise_gives_zero():
    values = [0, -2, 0, 1, 0, -1]
    for family in ("poisson", "negative-binomial"):
        prior = empirical_prior(values, mechanism=Geometric(scale=1.0), family=family)
        np.testing.assert_array_equal(
            count_posterior(values, mechanism=Geometric(scale=1.0), prior=prior).mean, 0
        )


def test_a_single_large_count_speaks_for_rare_but_large_ones():
    # a Poisson rate would have to be that of all counts, and the best one is 0
    values, noise = np.array([-1.0] * 20 + [60.0]), Geometric(scale=5.0)
    assert empirical_prior(values, mechanism=noise).rate == 0
    fit = empirical_prior(values, mechanism=noise, family="negative-binomial")
    loss = check_negative_binomial(fit, values, noise)
    assert loss < -noise.logpmf(values).sum() - 1.0


def test_a_search_that_is_cut_off_is_said(monkeypatch):
    search = optimize.minimize

    def cut_off(*arguments, options, **rest):
        return search(*arguments, options=options | {"maxiter": 1}, **rest)

    monkeypatch.setattr(optimize, "minimize", cut_off)
    with pytest.raises(
        ConvergenceError, match=r"was not found: .*; use family='poisson', or a prior"
    ):
        empirical_prior(
            drawn(15.0, 3.0, 60, 5), mechanism=Geometric(scale=2.0), family="negative-binomial"
        )


def test_less_spread_than_poisson_gives_poisson():
    values = np.full(40, 10.0)
    fit = empirical_prior(values, mechanism=Geometric(scale=1.0), family="negative-binomial")
    poisson = empirical_prior(values, mechanism=Geometric(scale=1.0))
    assert fit.dispersion == 0
    assert fit.mean == pytest.approx(poisson.rate, rel=1e-4)


def test_posteriors_have_less_error_than_the_published_counts():
    truth = drawn(6.0, 0.5, 4000, 8)
    noise = Geometric(scale=6.0)
    values = pd.Series(truth + noise.rvs(4000, rng=9))
    prior = empirical_prior(values, mechanism=noise, family="negative-binomial")
    posterior = count_posterior(values, mechanism=noise, prior=prior)
    error = np.square(posterior.mean - truth).mean()
    # expected about 20 against 72, with standard errors near 1 and 2.5: far beyond 6 sigma
    assert error < 0.5 * np.square(values - truth).mean()
    np.testing.assert_allclose(error, np.square(posterior.std).mean(), rtol=0.2)


def test_many_rows_have_the_prior_they_came_from():
    truth = drawn(20.0, 0.25, 20_000, 10)
    noise = Geometric(scale=3.0)
    fit = empirical_prior(
        truth + noise.rvs(truth.size, rng=11), mechanism=noise, family="negative-binomial"
    )
    # standard errors about 0.08 and 0.004: 6 sigma
    assert abs(fit.mean - 20.0) < 0.5
    assert abs(fit.dispersion - 0.25) < 0.025


def test_refusals():
    with pytest.raises(InvalidParameterError, match="family must be"):
        empirical_prior([1, 2], mechanism=Geometric(scale=1.0), family="gamma")
    for count in ([1.4e308], [3.0, 2e14]):
        with pytest.raises(InvalidParameterError, match=r"count must be <= 1e\+1(00|4), got"):
            empirical_prior(count, mechanism=Laplace(scale=0.4))
    with pytest.raises(InvalidParameterError, match="count must hold at least one"):
        empirical_prior([], mechanism=Geometric(scale=1.0))


@given(
    count=st.lists(st.one_of(st.integers(-20, 60), st.floats()), max_size=4),
    law=st.sampled_from([Laplace(scale=0.4), Laplace(scale=8.0), Geometric(scale=2.0)]),
    family=st.sampled_from(["poisson", "negative-binomial"]),
)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_only_errors_of_the_package_escape(count, law, family):
    try:
        prior = empirical_prior(count, mechanism=law, family=family)
    except DPInferError:
        return
    assert isinstance(prior, PoissonPrior if family == "poisson" else NegativeBinomialPrior)
