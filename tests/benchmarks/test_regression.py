"""Least squares with one noisy column of 20 beside statsmodels, which takes it for exact.

Run with ``pytest tests/benchmarks/test_regression.py --benchmark-enable``; ``peak_mb`` is the peak
memory beside the data. Times are never asserted.
"""

import tracemalloc

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer import Laplace
from dpinfer.regression import noisy_glm, noisy_ols

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


def counts(size):
    rng = np.random.default_rng(1)
    exog = rng.normal(size=(size, 10))
    exog[:, 0] = 1.0
    return rng.poisson(np.exp(0.1 * exog.sum(axis=1))), exog


COUNT_WAYS = {
    "dpinfer": lambda y, x: noisy_glm(y, x, family="poisson", noise={"x5": Laplace(scale=0.3)}),
    "statsmodels": lambda y, x: sm.GLM(y, x, sm.families.Poisson()).fit(cov_type="HC0"),
}


@pytest.mark.parametrize("way", COUNT_WAYS)
def test_poisson_regression(benchmark, sized, way):
    problem = counts(sized(100_000))
    benchmark.group = "Poisson regression, one noisy column of 10"
    fit = benchmark.pedantic(lambda: COUNT_WAYS[way](*problem), rounds=3)
    assert fit.params.shape == fit.bse.shape == (10,)
