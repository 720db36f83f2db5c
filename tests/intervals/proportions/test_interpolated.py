"""Many counts with one law: ends between whole numbers by polynomials, as exact as those of few."""

import numpy as np
import pytest

from dpinfer.hypothesis_tests import proportions_ztest
from dpinfer.intervals import poisson_confint, proportion_confint
from dpinfer.mechanisms import Gaussian, Tulap, WeightedSum

LAWS = [
    Gaussian(sigma=3.0),
    Gaussian(sigma=0.02),  # of a count far narrower than the distance to the next
    Tulap(scale=1.0, truncation=0.01),  # kinks, and an end of its law
    WeightedSum([0.5, 0.25], Gaussian(sigma=1.0)),
]


@pytest.mark.thinned("law", "alpha", every=2)
@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("alpha", [0.3, 1e-6])
def test_many_have_the_ends_of_few(law, alpha):
    rng = np.random.default_rng(1)
    t = np.r_[np.arange(-2.0, 44.0), rng.uniform(-4.0, 44.0, 2_500)]
    for confint, size in ((proportion_confint, (40,)), (poisson_confint, ())):
        many = confint(t, *size, mechanism=law, alpha=alpha)
        few = confint(t[::13], *size, mechanism=law, alpha=alpha)
        np.testing.assert_array_equal(many.empty[::13], few.empty)
        there = ~few.empty
        for end in ("lower", "upper"):
            found, wanted = getattr(many, end)[::13][there], getattr(few, end)[there]
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.thinned("sigma", "trials", every=2)
@pytest.mark.parametrize("sigma", [1.5, 8.0])
@pytest.mark.parametrize(("trials", "method"), [((1, 40), "exact"), ((400, 430), "mid-p")])
def test_many_numbers_of_trials_have_the_ends_of_few(sigma, trials, method):
    rng = np.random.default_rng(3)
    nobs = rng.integers(*trials, 12_000)
    law = Gaussian(sigma=sigma)
    t = rng.binomial(nobs, rng.beta(0.5, 1.0, nobs.size)) + law.rvs(nobs.size, rng=rng)
    many = proportion_confint(t, nobs, mechanism=law, method=method)
    few = proportion_confint(t[::13], nobs[::13], mechanism=law, method=method)
    np.testing.assert_array_equal(many.empty[::13], few.empty)
    there = ~few.empty
    for end in ("lower", "upper"):
        found, wanted = getattr(many, end)[::13][there], getattr(few, end)[there]
        # the stated error, 1e-12 standard deviations of the noisy count, and that of its equation
        spread = np.sqrt(0.25 * nobs[::13] + law.variance)[there] / nobs[::13][there]
        assert (np.abs(found - wanted) <= 2e-12 * spread).all()


@pytest.mark.parametrize(("trials", "alpha"), [((400, 430), 1e-6), ((300, 301), 0.05)])
def test_many_sigmas_have_the_ends_of_few(trials, alpha):
    rng = np.random.default_rng(5)
    nobs = rng.integers(*trials, 30_000)
    sigma = rng.uniform(1.0, 4.0, nobs.size)
    t = rng.binomial(nobs, rng.beta(0.5, 1.0, nobs.size)) + sigma * rng.normal(size=nobs.size)
    many = proportion_confint(t, nobs, mechanism=Gaussian(sigma=sigma), alpha=alpha)
    some = slice(None, None, 30)  # too few for polynomials
    few = proportion_confint(
        t[some], nobs[some], mechanism=Gaussian(sigma=sigma[some]), alpha=alpha
    )
    np.testing.assert_array_equal(many.empty[some], few.empty)
    there = ~few.empty
    for end in ("lower", "upper"):
        found, wanted = getattr(many, end)[some][there], getattr(few, end)[there]
        variance = 0.25 * nobs[some] + np.square(sigma[some])
        spread = np.sqrt(variance)[there] / nobs[some][there]
        assert (np.abs(found - wanted) <= 2e-12 * spread).all()
        assert (found != wanted).any()  # some were interpolated


def test_many_rates_far_apart_and_several_sigmas():
    rng = np.random.default_rng(4)
    rate, sigma = rng.lognormal(4.0, 2.0, 6_000), rng.choice([0.5, 2.0, 6.0], 6_000)
    t = rng.poisson(rate) + sigma * rng.normal(size=rate.size)
    many = poisson_confint(t, mechanism=Gaussian(sigma=sigma))
    few = poisson_confint(t[:300], mechanism=Gaussian(sigma=sigma[:300]))
    np.testing.assert_array_equal(many.empty[:300], few.empty)
    there = ~few.empty
    for end in ("lower", "upper"):
        found, wanted = getattr(many, end)[:300][there], getattr(few, end)[there]
        spread = np.sqrt(wanted + np.square(sigma[:300][there]))
        assert (np.abs(found - wanted) <= 2e-12 * spread + 4e-16 * wanted).all()


def test_many_ends_satisfy_their_equations():
    t, noise = np.random.default_rng(2).uniform(2.0, 38.0, 3_000), Gaussian(sigma=0.3)
    found = proportion_confint(t, 40, mechanism=noise)
    for end, side in ((found.lower, "larger"), (found.upper, "smaller")):
        test = proportions_ztest(t, 40, end, mechanism=noise, alternative=side)
        np.testing.assert_allclose(test.pvalue, 0.025, rtol=1e-9)
