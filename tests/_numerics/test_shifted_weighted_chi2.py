"""Weighted sums of noncentral χ² variables against scipy, mpmath, eigenvalues and simulation."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpinfer._numerics.chi2 import WeightedChi2


@pytest.mark.parametrize("k", [1, 2, 5, 60])
@pytest.mark.parametrize("noncentrality", [0.01, 3.0, 80.0])
def test_equal_weights_are_noncentral_chi_squared(k, noncentrality):
    means = np.sqrt(np.random.default_rng(k).dirichlet(np.ones(k)) * noncentrality)
    law = WeightedChi2.from_eigenvalues(np.ones(k), means)
    peer = stats.ncx2(k, noncentrality)
    q = peer.ppf([1e-6, 0.01, 0.3, 0.7, 0.99, 1.0 - 1e-6])
    np.testing.assert_allclose(law.upper(q), peer.sf(q), rtol=1e-9)
    np.testing.assert_allclose(law.lower(q), peer.cdf(q), rtol=1e-9)
    assert law.mean == pytest.approx(k + noncentrality, rel=1e-9)


@pytest.mark.parametrize("mean", [0.0, 0.3, -4.0, 25.0])
def test_one_square_against_mpmath(mean):
    law = WeightedChi2.from_eigenvalues(np.array([2.5]), np.array([mean]))
    for q in (0.01, 3.0, 40.0, 900.0):
        with mpmath.workdps(150):
            root, spread = mpmath.sqrt(q), mpmath.sqrt(mpmath.mpf(2.5))
            ends = [(mean - root) / spread, (-mean - root) / spread]
            upper = float(sum(mpmath.ncdf(end) for end in ends))
            lower = float(1 - sum(mpmath.ncdf(end) for end in ends))
        np.testing.assert_allclose(law.upper(np.array(q)), upper, rtol=1e-11)
        np.testing.assert_allclose(law.lower(np.array(q)), lower, rtol=1e-11)


@pytest.mark.parametrize("k", [2, 7, 300])
def test_rank_one_gives_what_eigenvalues_give(k):
    rng = np.random.default_rng(k)
    share = rng.dirichlet(np.ones(k))
    diagonal, mean = 1.0 + rng.uniform(0.1, 3.0, k), rng.normal(0.0, 2.0, k)
    vector = np.sqrt(share)
    law = WeightedChi2.shifted_rank_one(diagonal, vector, mean)
    values, vectors = np.linalg.eigh(np.diag(diagonal) - np.outer(vector, vector))
    plain = WeightedChi2.from_eigenvalues(values, vectors.T @ mean)
    assert law.mean == pytest.approx(values.sum() + mean @ mean, rel=1e-9)
    q = law.mean * np.array([0.3, 0.7, 1.0, 1.5, 4.0])
    np.testing.assert_allclose(law.log_upper(q), plain.log_upper(q), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(law.log_lower(q), plain.log_lower(q), rtol=1e-10, atol=1e-11)


def test_unequal_weights_against_simulation():
    """Six standard errors: a chance of 2e-9 for each of three points."""
    values, means = np.array([0.5, 2.0, 7.0]), np.array([3.0, -1.0, 0.5])
    law = WeightedChi2.from_eigenvalues(values, means)
    size = 200_000
    normal = np.random.default_rng(1).standard_normal((size, 3))
    drawn = np.square(normal * np.sqrt(values) + means).sum(axis=1)
    for q in (5.0, 20.0, 50.0):
        upper = float(law.upper(np.array(q)))
        assert np.mean(drawn >= q) == pytest.approx(
            upper, abs=6.0 * np.sqrt(upper * (1.0 - upper) / size)
        )


def test_no_mean_is_no_shift():
    values = np.array([1.0, 0.0, 4.0])
    q = np.array([0.1, 2.0, 30.0])
    shifted = WeightedChi2.from_eigenvalues(values, np.zeros(3))
    np.testing.assert_array_equal(
        shifted.log_upper(q), WeightedChi2.from_eigenvalues(values).log_upper(q)
    )


@pytest.mark.parametrize("shift", [1e8, 1e12])
def test_large_shifts_are_nearly_normal(shift):
    law = WeightedChi2.from_eigenvalues(np.ones(3), np.full(3, np.sqrt(shift / 3.0)))
    z = np.array([-3.0, -0.5, 0.2, 4.0])
    q = 3.0 + shift + z * np.sqrt(6.0 + 4.0 * shift)
    np.testing.assert_allclose(law.upper(q), stats.norm.sf(z), atol=20.0 / np.sqrt(shift))
    far = shift * np.array([1e-9, 0.5, 2.0, 1e6])
    np.testing.assert_array_equal(law.upper(far), [1.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(law.log_lower(far), [-np.inf, -np.inf, 0.0, 0.0])
