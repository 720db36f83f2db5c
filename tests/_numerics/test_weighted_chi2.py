"""Weighted sums of χ² variables against scipy, mpmath, Imhof's integral and eigenvalues."""

import pickle
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from dpinfer._numerics.chi2 import RankOne, WeightedChi2
from dpinfer.errors import ConvergenceError


def imhof(values, q):
    """P(Σ λ χ²₁ > q) by the real integral of Imhof (1961, equation 3.2)."""

    def integrand(u):
        angle = 0.5 * np.sum(np.arctan(values * u)) - 0.5 * q * u
        size = np.prod((1.0 + np.square(values * u)) ** 0.25)
        return np.sin(angle) / (u * size)

    edges = np.arange(0.0, 400.0, 0.5) / values.max()
    parts = [integrate.quad(integrand, *pair, epsabs=1e-13)[0] for pair in pairwise(edges)]
    return 0.5 + sum(parts) / np.pi


@pytest.mark.parametrize("k", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 40.0])
def test_equal_weights_are_chi_squared(k, scale):
    law = WeightedChi2.from_eigenvalues(np.full(k, scale))
    q = special.chdtri(k, np.array([1e-290, 1e-100, 1e-20, 1e-5, 0.05, 0.5, 0.9, 0.999]))
    np.testing.assert_allclose(law.upper(scale * q), special.chdtrc(k, q), rtol=1e-12)
    small = special.gammaincinv(0.5 * k, [1e-60, 1e-20, 1e-3, 0.4]) * 2.0
    np.testing.assert_allclose(law.lower(scale * small), special.chdtr(k, small), rtol=1e-11)
    assert law.mean == pytest.approx(k * scale, rel=1e-9)


def test_two_weights_against_mpmath():
    """Weights 1, 1, 3: the first two make an exponential variable, so that there is a formula."""
    law = WeightedChi2.from_eigenvalues(np.array([1.0, 1.0, 3.0]))
    for q in (0.01, 1.0, 7.0, 40.0, 600.0):
        with mpmath.workdps(30):
            end = mpmath.sqrt(mpmath.mpf(q) / 3)
            # √(2/π) ∫_0^end exp(-x²/2)·exp(-(q - 3x²)/2) dx, and P(3·χ²₁ > q)
            inner = mpmath.exp(-mpmath.mpf(q) / 2) * mpmath.erfi(end) / mpmath.sqrt(2)
            expected = float(inner + mpmath.erfc(end / mpmath.sqrt(2)))
        np.testing.assert_allclose(law.upper(np.array(q)), expected, rtol=1e-13)


@pytest.mark.parametrize("k", [3, 8])
def test_imhof(k):
    values = np.random.default_rng(k).uniform(0.3, 4.0, k)
    law = WeightedChi2.from_eigenvalues(values)
    for q in np.array([0.5, 1.0, 2.0]) * values.sum():
        # the real integral decays slowly for few terms
        assert law.upper(q) == pytest.approx(imhof(values, q), abs=1e-5 if k == 3 else 1e-10)


@pytest.mark.parametrize("k", [2, 4, 100, 1000])
def test_determinant_lemma_gives_what_eigenvalues_give(k):
    share = np.random.default_rng(k).dirichlet(np.ones(k))
    diagonal = 1.0 + 8.0 / (50.0 * k * share)
    law = WeightedChi2.rank_one(diagonal, share)
    root = np.sqrt(share)
    values = np.linalg.eigvalsh(np.diag(diagonal) - np.outer(root, root))
    plain = WeightedChi2.from_eigenvalues(values)
    assert law.largest == pytest.approx(values[-1], rel=1e-12)
    q = values.sum() * np.array([0.05, 0.5, 0.9, 1.0, 1.2, 3.0, 20.0])
    np.testing.assert_allclose(law.log_upper(q), plain.log_upper(q), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(law.log_lower(q), plain.log_lower(q), rtol=1e-11, atol=1e-12)


def test_without_noise_a_degree_of_freedom_is_lost():
    share = np.array([0.1, 0.2, 0.7])
    law = WeightedChi2.rank_one(np.ones(3), share)
    q = np.array([0.1, 2.0, 50.0, 1000.0])
    np.testing.assert_allclose(law.upper(q), special.chdtrc(2, q), rtol=1e-12)


def _noncentral(s):
    return 1.7 * s / (1.0 - 2.0 * s)


def test_noncentral():
    """Against the mixture of central laws, with a shift δ² = 1.7."""
    law = WeightedChi2(RankOne(np.ones(4), np.zeros(4)), 1.0, _noncentral)
    for q in (0.5, 4.0, 60.0):
        terms = [
            np.exp(-0.85) * 0.85**j / special.factorial(j) * special.chdtrc(4 + 2 * j, q)
            for j in range(80)
        ]
        np.testing.assert_allclose(law.upper(np.array(q)), sum(terms), rtol=1e-12)


def test_ends_and_shapes():
    law = WeightedChi2.from_eigenvalues(np.array([1.0, 2.0, 0.0]))
    points = np.array([[-1.0, 0.0], [np.inf, 1e300]])
    np.testing.assert_array_equal(law.upper(points), [[1, 1], [0, 0]])
    np.testing.assert_array_equal(law.lower(points), [[0, 0], [1, 1]])
    assert law.upper(np.array(3.0)).shape == ()
    copy = pickle.loads(pickle.dumps(law))
    assert copy.upper(np.array(3.0)) == law.upper(np.array(3.0))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    values=st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=8),
    ratio=st.floats(1e-6, 1e3),
)
def test_tails_add_up(values, ratio):
    law = WeightedChi2.from_eigenvalues(np.array(values))
    q = np.array([1.0, 1.1]) * ratio * sum(values)
    upper, lower = law.upper(q), law.lower(q)
    np.testing.assert_allclose(upper + lower, 1.0, rtol=1e-12)
    assert upper[0] >= upper[1]
    assert np.all((upper >= 0) & (lower >= 0))


def test_an_integral_that_does_not_converge_is_given_up(monkeypatch):
    monkeypatch.setattr("dpinfer._numerics.inversion.NODES", 8)
    monkeypatch.setattr("dpinfer._numerics.inversion.MAX_NODES", 8)
    with pytest.raises(ConvergenceError, match="not converged after 8 nodes"):
        WeightedChi2.from_eigenvalues(np.array([1.0, 2.0, 3.0])).upper(np.array([4.0]))


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_eigenvalue_of_a_matrix_less_a_vector(seed):
    rng = np.random.default_rng(seed)
    diagonal, vector = rng.uniform(0.1, 2.0, 6), rng.uniform(0.0, 0.1, 6)
    matrix = np.diag(diagonal) - np.outer(vector, vector)
    expected = np.linalg.eigvalsh(matrix)[-1]
    assert RankOne(diagonal, vector**2).largest == pytest.approx(expected, rel=1e-12)


def test_the_largest_eigenvalue_may_be_zero():
    assert RankOne(np.ones(1), np.ones(1)).largest == pytest.approx(0.0, abs=1e-17)
