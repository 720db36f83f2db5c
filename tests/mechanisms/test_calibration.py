"""Scales from privacy budgets, against the guarantee that they have to give."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap


def exact_delta(sigma, epsilon):
    """δ(ε) of Gaussian noise at sensitivity 1, Balle and Wang (2018), Theorem 8, in 400 digits."""
    with mp.workdps(400):
        mu, eps = 1 / mp.mpf(float(sigma)), mp.mpf(float(epsilon))
        normal = [mp.erfc(-(sign * mu / 2 - eps / mu) / mp.sqrt(2)) / 2 for sign in (1, -1)]
        return normal[0] - mp.exp(eps) * normal[1]


@pytest.mark.thinned("epsilon", "delta", every=3)
@pytest.mark.parametrize("epsilon", [1e-8, 1e-4, 0.1, 1.0, 10.0, 100.0, 700.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-20, 1e-9, 1e-5, 0.1, 0.5, 0.9, 1 - 1e-10])
def test_the_analytic_sigma_spends_delta_exactly(epsilon, delta):
    sigma = Gaussian.from_epsilon_delta(epsilon, delta).sigma
    spent = exact_delta(sigma, epsilon)
    slope = float((spent - exact_delta(sigma * (1 + 1e-6), epsilon)) / (spent * mp.mpf(1e-6)))
    # an error of sigma is an error of delta times the slope of the curve, at least one rounding
    assert abs(float(spent / mp.mpf(delta) - 1)) < max(2e-14 * slope, 2e-14)


def test_the_analytic_sigma_is_vectorised():
    epsilon, delta = np.array([[0.01], [1.0], [30.0]]), np.array([1e-12, 1e-6, 0.3])
    law = Gaussian.from_epsilon_delta(epsilon, delta, sensitivity=2.0)
    assert law.shape == (3, 3)
    single = Gaussian.from_epsilon_delta(1.0, 1e-6, sensitivity=2.0)
    np.testing.assert_allclose(law.sigma[1, 1], single.sigma, rtol=1e-14)


def test_the_classical_sigma_is_the_textbook_one_and_wider():
    law = Gaussian.from_epsilon_delta(0.5, 1e-5, sensitivity=3.0, calibration="classical")
    assert law.sigma == pytest.approx(3.0 * np.sqrt(2 * np.log(1.25e5)) / 0.5, rel=1e-15)
    assert law.sigma > Gaussian.from_epsilon_delta(0.5, 1e-5, sensitivity=3.0).sigma
    assert float(exact_delta(law.sigma / 3.0, 0.5)) < 1e-5


@pytest.mark.parametrize("epsilon", [1.0, 4.0, [0.5, 1.5]])
def test_the_classical_sigma_is_refused_where_its_proof_fails(epsilon):
    with pytest.raises(InvalidParameterError, match="analytic"):
        Gaussian.from_epsilon_delta(epsilon, 1e-5, calibration="classical")


@pytest.mark.parametrize("family", [Gaussian, DiscreteGaussian])
def test_zcdp(family):
    law = family.from_rho([0.5, 0.125], sensitivity=[1.0, 3.0])
    np.testing.assert_allclose(law.sigma, [1.0, 6.0], rtol=1e-15)


@pytest.mark.parametrize("rho", [0.05, 0.5])
@pytest.mark.parametrize("order", [1.5, 2.0, 10.0])
def test_the_discrete_gaussian_keeps_its_renyi_divergence(rho, order):
    law = DiscreteGaussian.from_rho(rho)
    k = np.arange(-200.0, 201.0)
    divergence = np.log(np.exp(order * law.logpmf(k) + (1 - order) * law.logpmf(k - 1)).sum())
    assert divergence / (order - 1) <= order * rho * (1 + 1e-12)


def test_gdp():
    assert Gaussian.from_mu(0.25, sensitivity=2.0).sigma == 8.0
    # the best power of a level-α test between neighbours is Φ(Φ⁻¹(α) + μ)
    law = Gaussian.from_mu(0.7, sensitivity=2.0)
    power = law.sf(law.isf(0.05) - 2.0)
    assert power == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.05) + 0.7), rel=1e-13)


@pytest.mark.parametrize("family", [Laplace, Geometric])
def test_pure_dp(family):
    law = family.from_epsilon([0.5, 2.0], sensitivity=3.0)
    np.testing.assert_array_equal(law.scale, [6.0, 1.5])
    x = np.arange(-40.0, 41.0)[:, None]
    log = law.logpmf if law.is_integer else law.logpdf
    worst = np.abs(log(x) - log(x - 3.0)).max(axis=0)
    np.testing.assert_allclose(worst, [0.5, 2.0], rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.01, 0.4])
def test_tulap_spends_epsilon_and_delta_exactly(epsilon, delta):
    law = Tulap.from_epsilon(epsilon, delta=delta)
    # δ(ε) is the mass that f(x) has above e^ε·f(x-1): at neighbouring counts f(x) and f(x-1); the
    # density is constant between the points where x or x-1 crosses a step or an end of the support
    reach = min(law.isf(0.0), 40 / epsilon)
    steps = np.arange(-np.ceil(reach) - 2.5, np.ceil(reach) + 3.0)
    ends = np.array([-reach, reach, 1 - reach, 1 + reach])
    edges = np.unique(np.concatenate([steps, ends]))
    middle = 0.5 * (edges[:-1] + edges[1:])
    excess = law.pdf(middle) - np.exp(epsilon) * law.pdf(middle - 1.0)
    spent = (np.maximum(excess, 0.0) * np.diff(edges)).sum()
    assert spent == pytest.approx(delta, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        lambda value: Laplace.from_epsilon(value),
        lambda value: Laplace.from_epsilon(1.0, sensitivity=value),
        lambda value: Geometric.from_epsilon(value),
        lambda value: Tulap.from_epsilon(value),
        lambda value: Gaussian.from_rho(value),
        lambda value: Gaussian.from_mu(value),
        lambda value: Gaussian.from_epsilon_delta(value, 0.1),
        lambda value: Gaussian.from_epsilon_delta(1.0, value),
        lambda value: DiscreteGaussian.from_rho(1.0, sensitivity=value),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", [1.0, 0.0]])
def test_bad_budgets_are_refused(make, value):
    with pytest.raises(InvalidParameterError):
        make(value)


def test_other_bad_calls_are_refused():
    with pytest.raises(InvalidParameterError, match="calibration must be one of"):
        Gaussian.from_epsilon_delta(1.0, 0.1, calibration="best")
    with pytest.raises(InvalidParameterError, match="delta must be < 1"):
        Gaussian.from_epsilon_delta(1.0, 1.0)
    with pytest.raises(InvalidParameterError, match="delta must be >= 0"):
        Tulap.from_epsilon(1.0, delta=-0.1)
    with pytest.raises(InvalidParameterError, match="sensitivity and epsilon must broadcast"):
        Laplace.from_epsilon([1.0, 2.0], sensitivity=[1.0, 2.0, 3.0])


def test_a_calibration_that_does_not_converge_is_given_up(monkeypatch):
    flat = (np.zeros(()), np.ones(()))
    monkeypatch.setattr("dpinfer.mechanisms.laws.gaussian_logdelta", lambda *_: flat)
    with pytest.raises(ConvergenceError, match="analytic calibration"):
        Gaussian.from_epsilon_delta(1.0, 1e-6)
