"""Point estimates above a threshold: against optimisers, grids, moments and medians."""

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from dpinfer.intervals import count_confint
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap

WHOLE = [
    Geometric(scale=0.3),
    Geometric(scale=3.0),
    Geometric(scale=40.0),
    DiscreteGaussian(sigma=0.4),
    DiscreteGaussian(sigma=5.0),
]
THRESHOLD = 20


@pytest.mark.parametrize("gap", [1e-3, 0.1, 0.7, 2.0, 4.0, 15.0, 60.0])
def test_gaussian_likelihood(gap):
    sigma, y = 3.0, THRESHOLD + gap

    def minus(f):
        return -stats.norm.logpdf(y, f, sigma) + stats.norm.logsf(THRESHOLD, f, sigma)

    found = float(count_confint(y, mechanism=Gaussian(sigma=sigma), threshold=THRESHOLD).estimate)
    # E[Y | Y >= τ] = y, from the moments of a normal law that is cut off
    with mpmath.workdps(60):
        z = (mpmath.mpf(found) - THRESHOLD) / sigma
        mean = found + sigma * mpmath.npdf(z) / mpmath.ncdf(z)
        assert float(mean - THRESHOLD) == pytest.approx(gap, rel=1e-9)
    if gap >= 0.1:
        best = optimize.minimize_scalar(minus, bounds=(found - 50, y), options={"xatol": 1e-10})
        assert found == pytest.approx(best.x, abs=1e-4 * sigma)


LIKELIHOODS = [*WHOLE, Tulap(scale=3.0), Tulap(scale=3.0, truncation=1e-3)]


@pytest.mark.parametrize("noise", LIKELIHOODS, ids=repr)
def test_likelihood_over_whole_numbers(noise):
    shift = 0.0 if noise.is_integer else 0.3
    y = THRESHOLD + np.arange(2, 40, 3) + shift
    candidates = np.arange(-400, 61)
    density = noise.logpmf if noise.is_integer else noise.logpdf
    with np.errstate(invalid="ignore"):
        tail = noise.logsf(THRESHOLD - candidates - (0.5 if noise.is_integer else 0.0))
        likelihood = density(y[:, None] - candidates) - tail
    likelihood[np.isnan(likelihood)] = -np.inf
    found = count_confint(y, mechanism=noise, threshold=THRESHOLD).estimate
    at_found = likelihood[np.arange(y.size), np.searchsorted(candidates, found)]
    assert (found == np.rint(found)).all()
    np.testing.assert_allclose(at_found, likelihood.max(axis=1), rtol=1e-9, atol=1e-10)


def test_laplace_likelihood_has_its_peak_at_the_value():
    y, noise = THRESHOLD + 0.5, Laplace(scale=4.0)
    f = np.linspace(-100, 60, 3201)
    likelihood = noise.logpdf(y - f) - noise.logsf(THRESHOLD - f)
    assert f[likelihood.argmax()] == pytest.approx(y)
    assert count_confint(y, mechanism=noise, threshold=THRESHOLD).estimate == y


@pytest.mark.parametrize("noise", [DiscreteGaussian(sigma=1e4), Gaussian(sigma=1e4)], ids=repr)
def test_likelihood_far_below_the_threshold(noise):
    # where f is far below τ, Y - τ is nearly exponential with mean σ²/(τ - f), or geometric
    gap = 3.0
    found = float(count_confint(gap, mechanism=noise, threshold=0.0).estimate)
    rate = np.log1p(1 / gap) if noise.is_integer else 1 / gap
    assert found == pytest.approx(-rate * 1e8, rel=1e-6)


@pytest.mark.parametrize("noise", [Laplace(scale=4.0), Gaussian(sigma=5.0)], ids=repr)
@pytest.mark.parametrize("f", [15, 20, 24, 40])
def test_median_unbiased(noise, f):
    # the estimate increases with y, and equals f at the median of the published values
    median = f + noise.isf(0.5 * noise.sf(THRESHOLD - f))
    found = count_confint(
        median, mechanism=noise, threshold=THRESHOLD, estimate="median-unbiased"
    ).estimate
    if isinstance(noise, Laplace) and f <= THRESHOLD:  # the median is the same for all of them
        assert found <= THRESHOLD + 1e-6
    else:
        assert found == pytest.approx(f, abs=1e-9)


@pytest.mark.parametrize("noise", WHOLE, ids=repr)
def test_median_unbiased_whole(noise):
    y = np.arange(THRESHOLD, THRESHOLD + 30)
    found = count_confint(
        y, mechanism=noise, threshold=THRESHOLD, estimate="median-unbiased"
    ).estimate
    rule = {"mechanism": noise, "threshold": THRESHOLD, "alpha": 0.5}
    lower = count_confint(y, **rule, alternative="larger").lower
    upper = count_confint(y, **rule, alternative="smaller")
    middle = np.where(upper.empty, -np.inf, 0.5 * (lower + upper.upper))
    np.testing.assert_array_equal(found, middle)
    assert (np.diff(found[np.isfinite(found)]) >= 0).all()


def test_no_maximum():
    noise = [Gaussian(sigma=2.0), DiscreteGaussian(sigma=2.0), Laplace(scale=2.0)]
    free = count_confint([20.0, 20.0, 20.0], mechanism=noise, threshold=THRESHOLD)
    np.testing.assert_array_equal(free.estimate, [-np.inf, -np.inf, 20.0])
    assert any("infinite" in note for note in free.notes)
    bound = count_confint([20.0, 20.0, 20.0], mechanism=noise, threshold=THRESHOLD, lower=0)
    np.testing.assert_array_equal(bound.estimate, [0.0, 0.0, 20.0])
    assert any("moved" in note for note in bound.notes)
