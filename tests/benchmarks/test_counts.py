"""Tests of noisy counts beside the z test of the same rows, which leaves the noise's law out."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.hypothesis_tests import counts_2indep, counts_trend
from dpinfer.mechanisms import Gaussian, Geometric, Laplace

ROWS = 1_000_000
LAWS = [Gaussian(sigma=10.0), Geometric(scale=10.0), Laplace(scale=10.0)]


def published(rows=ROWS):
    """Two columns of whole counts."""
    return np.random.default_rng(1).integers(0, 1_000, (2, rows)).astype(np.float64)


def z_test(a, b, variance):
    """Today's practice: the normal law with the variance of the noise, without a loop."""
    return 2.0 * stats.norm.sf(np.abs(a - b) / np.sqrt(2.0 * variance))


@pytest.mark.benchmark(group="a million tests of two counts")
@pytest.mark.parametrize("noise", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_million_rows(benchmark, sized, noise, method):
    a, b = published(sized(ROWS))
    result = benchmark(counts_2indep, a, b, mechanism=noise, method=method)
    assert result.pvalue.shape == a.shape


@pytest.mark.benchmark(group="a million tests of two counts")
def test_million_rows_by_scipy(benchmark, sized):
    a, b = published(sized(ROWS))
    benchmark(z_test, a, b, Geometric(scale=10.0).variance)


@pytest.mark.benchmark(group="a trend over cells")
@pytest.mark.parametrize("nobs", [100, 10_000, 1_000_000])
def test_trend(benchmark, nobs):
    count = np.full(10, nobs // 10)
    benchmark(counts_trend, count, nobs, mechanism=Geometric(scale=10.0))
