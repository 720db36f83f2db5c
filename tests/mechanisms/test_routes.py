"""Parts of sums answer all that a law is asked for, and say about how much work that is."""

import numpy as np
import pytest
from scipy.special import logsumexp

from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
    WeightedSum,
)
from dpinfer.mechanisms._noisy_count import work_at_a_point
from dpinfer.mechanisms._sums.terms import log_mgf
from dpinfer.mechanisms.weighted_sum import fast_sum

Q = np.array([0.499, 0.2, 1e-3, 1e-9])


@pytest.mark.parametrize("scale", [0.4, 4.2, 131.5])
def test_the_median_of_two_tulap_noises_is_zero(scale):
    total = WeightedSum([1.5, 1.25], [Tulap(scale=scale), Tulap(scale=3.6)])
    assert total._route.__class__.__name__ == "PiecewiseSum"
    np.testing.assert_allclose([total.isf(0.5), total.ppf(0.5)], 0.0, atol=1e-12 * scale)


def test_three_noises_that_are_all_but_uniform():
    # Tulap noise of a tiny scale is uniform on [-1/2, 1/2], but for e^-100 of it
    total = WeightedSum([2.0, 2.0, 2.0], Tulap(scale=0.01))
    x = np.array([0.0, 0.2, 0.499, 0.5, 0.8, 1.3, 1.49, 1.7])
    near, far = 0.5 - 0.75 * x + x**3 / 3.0, np.maximum(1.5 - x, 0.0) ** 3 / 6.0
    np.testing.assert_allclose(total.sf(2.0 * x), np.where(x < 0.5, near, far), 1e-9, 1e-15)
    np.testing.assert_allclose(total.isf(Q[2:]), 3.0 - 2.0 * np.cbrt(6.0 * Q[2:]), rtol=1e-9)


@pytest.mark.parametrize("law", [Laplace(scale=np.arange(1.0, 21.0)), Gaussian(sigma=[1.0] * 20)])
@pytest.mark.parametrize("s", [0.0, 0.04 + 0.3j, 5j, 1e9j, 1e20j, 1e100j])
def test_moments_of_many_terms_are_those_of_each(law, s):
    counts = np.where(np.arange(20) < 15, 1.0, 7.0)
    point = np.array([[s]], dtype=complex) * (1e-60 if isinstance(law, Gaussian) else 1.0)
    found = log_mgf(law, point, counts)
    expected = law._cgf(point) @ counts
    assert found.real == pytest.approx(expected.real, rel=1e-12, abs=1e-14)
    turns = (found.imag - expected.imag) / (2.0 * np.pi)  # any branch of the logarithm
    assert turns == pytest.approx(np.round(turns), abs=1e-9)


@pytest.mark.parametrize(
    ("weights", "law"),
    [
        (np.ones(5), Geometric(scale=3.0)),
        (np.ones(4), DiscreteGaussian(sigma=2.0)),
        (np.array([1.0, 2.0, 5.0]), Geometric(scale=1.0)),
        (np.ones(3), Geometric(scale=1e5)),
    ],
    ids=repr,
)
def test_far_quantiles_are_the_first_atoms_beyond_them(weights, law):
    total = WeightedSum(weights, law)
    q = 10.0 ** -np.array([280.0, 150.0, 60.0, 15.0, 3.0])
    x = total.isf(q)
    assert np.all(total.logsf(x) <= np.log(q) + 1e-9)
    assert np.all(total.logsf(x - 1.0) > np.log(q) - 1e-9)


def test_empty_and_single_draws():
    for law in (DiscreteGaussian(sigma=1e6), Geometric(scale=2.0), Laplace(scale=[])):
        assert law.rvs((0,), rng=1).shape == (0,)
    assert WeightedSum([1.0, 2.0], Geometric(scale=2.0)).rvs((0, 2), rng=1).shape == (0, 2)


def test_work_grows_with_what_is_summed_at_a_point():
    assert work_at_a_point(Laplace(scale=2.0)) == 1.0
    assert work_at_a_point(Exact()) == 1.0
    single = WeightedSum([2.0], Laplace(scale=2.0))
    contour = WeightedSum([1.0, 0.3], Laplace(scale=2.0))
    assert 1.0 < work_at_a_point(single) < work_at_a_point(contour)
    few, many = (
        WeightedSum([1.0, np.sqrt(2.0)], [Geometric(scale=scale), Gaussian(sigma=1.0)])
        for scale in (2.0, 40.0)
    )
    # as many terms as there are atoms of the whole-numbered part within reach
    assert work_at_a_point(many) / work_at_a_point(few) == pytest.approx(20.0, rel=0.3)


def test_work_of_a_wide_lattice_with_narrow_noise():
    wide = WeightedSum(np.ones(40), [Geometric(scale=2e3)] * 39 + [Laplace(scale=2.0)])
    assert wide._route.__class__.__name__ == "SteppedSum"
    narrower = WeightedSum(np.ones(40), [Geometric(scale=2e3)] * 39 + [Laplace(scale=0.5)])
    assert work_at_a_point(wide) == pytest.approx(4.0 * work_at_a_point(narrower), rel=0.2)


def test_work_of_a_series_is_that_of_its_terms():
    weights = np.sqrt(np.array([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0]))
    total = WeightedSum(weights, Geometric(scale=3.0))
    assert total._route.__class__.__name__ == "FourierSum"
    assert work_at_a_point(total) == pytest.approx(0.3 * total._route._series._frequency.size)


def test_work_of_several_kinds_is_that_of_the_dearest():
    dear = WeightedSum([1.0, 0.3], Laplace(scale=2.0))
    mixed = IndependentNoise([Laplace(scale=1.0), dear, Geometric(scale=1.0)])
    assert work_at_a_point(mixed) == work_at_a_point(dear)
    # a table takes the place of the integral
    tabulated = fast_sum(np.array([1.0, 0.3]), [Laplace(scale=2.0)] * 2)
    assert work_at_a_point(tabulated) < work_at_a_point(dear)


def test_far_tails_of_lattices_too_wide_to_list_are_bounded_from_above():
    law = Geometric(scale=2.0)
    total = WeightedSum([1000.0, 0.5, 0.25], law)
    k = np.arange(-200.0, 201.0)
    small = (0.5 * k[:, None] + 0.25 * k).ravel()
    logs = (law.logpmf(k)[:, None] + law.logpmf(k)).ravel()
    for deviations in (30.0, 100.0, 1000.0):
        x = deviations * float(total.std)
        exact = logsumexp(logs + law.logsf(np.floor((x - small) / 1000.0)))
        assert exact <= total.logsf(x) < exact + 10.0
    q = np.array([1e-20, 1e-40, 1e-300])
    far = total.isf(q)
    assert (np.diff(far) > 0).all()
    for one, x in zip(q, far, strict=True):
        exact = logsumexp(logs + law.logsf(np.floor((x - small) / 1000.0)))
        assert np.log(one) - 10.0 < exact <= np.log(one)
