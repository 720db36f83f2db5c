"""Least squares with one noisy column of 20 beside statsmodels, which takes it for exact.

Run with ``pytest tests/benchmarks/test_regression.py --benchmark-enable``; ``peak_mb`` is the peak
memory beside the data. Times are never asserted.
"""

import tracemalloc

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer.regression import noisy_ols

COLUMNS = 20


def data(size):
    rng = np.random.default_rng(1)
    exog = rng.normal(size=(size, COLUMNS))
    exog[:, 0] = 1.0
    return exog.sum(axis=1) + rng.normal(size=size), exog


def by_dpinfer(endog, exog, std=0.3, **options):
    fit = noisy_ols(endog, exog, noise={"x5": std}, **options)
    return fit.params, fit.bse


def by_statsmodels(endog, exog, cov_type="HC1"):
    fit = sm.OLS(endog, exog).fit(cov_type=cov_type)
    return fit.params, fit.bse


WAYS = {
    "dpinfer": by_dpinfer,
    "dpinfer, own sd in each row": lambda y, x: by_dpinfer(y, x, np.linspace(0.1, 0.4, len(y))),
    "dpinfer, HC3": lambda y, x: by_dpinfer(y, x, cov_type="HC3"),
    "statsmodels": by_statsmodels,
    "statsmodels, HC3": lambda y, x: by_statsmodels(y, x, "HC3"),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_noisy_column(benchmark, sized, way):
    problem = data(sized(1_000_000))
    benchmark.group = "one noisy column of 20"
    params, bse = benchmark.pedantic(lambda: WAYS[way](*problem), rounds=3)
    tracemalloc.start()
    WAYS[way](*problem)
    benchmark.extra_info["peak_mb"] = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert params.shape == bse.shape == (COLUMNS,)
