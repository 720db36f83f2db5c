"""The Poisson probability function against high precision, and the window that holds its mass."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpinfer._numerics.counts import poisson_pmf, poisson_radius


@pytest.mark.parametrize("rate", [1e-200, 0.5, 30.0, 1e6, 1e12])
def test_pmf(rate):
    k = np.maximum(np.floor(rate + np.sqrt(rate) * np.linspace(-8, 8, 33)), 0.0)
    got = poisson_pmf(k, np.asarray(rate))
    with mp.workdps(40):
        for point, value in zip(k, got, strict=True):
            logged = -mp.mpf(rate) + point * mp.log(rate) - mp.loggamma(mp.mpf(point) + 1)
            assert abs(mp.mpf(float(value)) / mp.exp(logged) - 1) < 1e-12


@pytest.mark.parametrize("rate", [1e-3, 0.5, 30.0, 1e6, 1e12])
@pytest.mark.parametrize("log_ratio", [5.0, 40.0, 700.0])
def test_beyond_the_radius_there_is_less_than_said(rate, log_ratio):
    law, mode = stats.poisson(rate), np.floor(rate)
    radius = poisson_radius(np.asarray(mode), log_ratio)
    ends = mode + np.array([-1.0, 1.0]) * (radius + 1.0)
    ends = ends[ends >= 0]
    assert np.all(law.logpmf(ends) <= law.logpmf(mode) - log_ratio)
    # and not far more room than a normal law, or one step beyond another, would take
    assert radius <= 2.0 * np.sqrt(2.0 * log_ratio * (rate + 1.0)) + 2.0 * log_ratio + 2.0
