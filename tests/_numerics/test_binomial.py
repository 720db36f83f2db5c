"""The binomial pmf against 50-digit arithmetic and exact fractions."""

from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest

from dpinfer._numerics.counts import LOG_NEGLIGIBLE, binom_pmf, binom_radius

PROPORTIONS = [1e-9, 0.01, 0.255, 0.5, 0.9, 1 - 1e-9]


def pmf(k, n, p):
    return binom_pmf(np.asarray(k, dtype=float), np.asarray(float(n)), np.asarray(p))


def reference(k, n, p):
    with mp.workdps(60):
        q, p = 1 - mp.mpf(p), mp.mpf(p)
        log_choose = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
        return mp.exp(log_choose + k * mp.log(p) + (n - k) * mp.log(q))


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 40])
@pytest.mark.parametrize("p", PROPORTIONS)
def test_equals_exact_fractions(n, p):
    exact_p = Fraction(p)
    exact = [comb(n, k) * exact_p**k * (1 - exact_p) ** (n - k) for k in range(n + 1)]
    got = pmf(np.arange(n + 1), n, p)
    kept = [k for k in range(n + 1) if exact[k] > Fraction(1, 10**290)]
    np.testing.assert_allclose(got[kept], [float(exact[k]) for k in kept], rtol=5e-13)


@pytest.mark.parametrize("n", [10**3, 10**6, 10**8, 10**9, 10**12])
@pytest.mark.parametrize("p", PROPORTIONS)
def test_keeps_its_digits_for_large_n(n, p):
    sd = np.sqrt(n * p * (1 - p))
    near = np.unique(np.clip(np.round(n * p + sd * np.arange(-5, 6)), 0, n))
    far = np.unique(np.clip(np.round(n * p + sd * np.array([-35, -20, 20, 35])), 0, n))
    for points, tolerance in ((near, 2e-14), (far, 5e-13)):
        expected = [reference(int(k), n, p) for k in points]
        for got, want in zip(pmf(points, n, p), expected, strict=True):
            if want > 1e-300:
                assert abs(mp.mpf(float(got)) / want - 1) < tolerance


@pytest.mark.parametrize("n", [1, 7, 100, 10**5])
def test_adds_up_to_one(n):
    assert abs(pmf(np.arange(n + 1), n, 0.3).sum() - 1) < 1e-13


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("p", [1e-6, 0.03, 0.5, 0.99])
def test_radius_holds_all_that_matters(n, p):
    mode = np.floor((n + 1) * p)
    radius = binom_radius(np.asarray(mode), np.asarray(float(n)), LOG_NEGLIGIBLE)
    beyond = np.array([mode - radius, mode + radius])
    beyond = beyond[(beyond >= 0) & (beyond <= n)]
    assert (pmf(beyond, n, p) <= np.exp(-LOG_NEGLIGIBLE) * float(pmf(mode, n, p))).all()
    assert radius <= 12 * np.sqrt(n * p * (1 - p)) + 50
