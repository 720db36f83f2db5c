"""Moments, covariances and correlations: those of numpy without noise, and by simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import correlation_confint, covariance_confint, moments

RNG = np.random.default_rng(12)
X = RNG.negative_binomial(3, 0.1, 600)
Y = X + RNG.poisson(20, 600)


def plain(x):
    return [x.mean(), x.std(ddof=1), stats.skew(x), stats.kurtosis(x, fisher=False)]


def test_without_noise_they_are_those_of_numpy():
    found = moments(X, mechanism=dpi.Exact())
    np.testing.assert_allclose(found.estimate, plain(X), rtol=1e-9)
    np.testing.assert_allclose(found.width, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.plug_in, plain(X), rtol=1e-12)
    found = covariance_confint((X, Y), mechanism=dpi.Exact())
    want = np.cov(X, Y)
    np.testing.assert_allclose(found.estimate, want[np.triu_indices(2)], rtol=1e-12)
    r = correlation_confint((X, Y), mechanism=dpi.Exact())
    assert r.estimate[0, 1] == pytest.approx(np.corrcoef(X, Y)[0, 1], rel=1e-12)
    # with sampling, the variance of Pearson's r for any law, by the jackknife
    sampled = correlation_confint((X, Y), mechanism=dpi.Exact(), uncertainty="noise+sampling")
    keep = ~np.eye(600, dtype=bool)
    jack = [np.corrcoef(X[k], Y[k])[0, 1] for k in keep]
    se = np.sqrt(599 / 600 * np.sum((jack - np.mean(jack)) ** 2))
    assert sampled.width.iloc[0] / 2 / stats.norm.isf(0.025) == pytest.approx(se, rel=0.03)


LAWS = [
    dpi.Geometric(scale=8.0),
    pytest.param(dpi.Gaussian(sigma=10.0), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_noise_makes_no_bias(law):
    """40 releases: means within 6 standard errors, and standard errors right to a half."""
    rng = np.random.default_rng(4)
    shape = (40, 600)
    xs, ys = (f + law.rvs(shape, rng=rng) for f in (X, Y))
    found = [moments(x, mechanism=law) for x in xs]
    estimate = np.array([one.estimate for one in found])
    error = estimate.std(axis=0) / np.sqrt(40)
    assert (np.abs(estimate.mean(axis=0) - plain(X)) < 6.0 * error).all()
    half = np.array([0.5 * one.width for one in found]).mean(axis=0) / stats.norm.isf(0.025)
    np.testing.assert_allclose(half, estimate.std(axis=0), rtol=0.5)
    assert (np.mean([one.plug_in for one in found], axis=0)[1] - plain(X)[1]) > 4.5 * error[1]
    pairs = [covariance_confint((x, y), mechanism=law) for x, y in zip(xs, ys, strict=True)]
    estimate = np.array([one.estimate for one in pairs])
    error = estimate.std(axis=0) / np.sqrt(40)
    want = np.cov(X, Y)[np.triu_indices(2)]
    assert (np.abs(estimate.mean(axis=0) - want) < 6.0 * error).all()
    half = np.array([0.5 * one.width for one in pairs]).mean(axis=0) / stats.norm.isf(0.025)
    np.testing.assert_allclose(half, estimate.std(axis=0), rtol=0.5)


def test_correlations_cover():
    """Of 80 at level 0.95, 61 by chance in 1 of 10⁹ at most if they covered in 0.95."""
    law = dpi.Gaussian(sigma=15.0)
    rng = np.random.default_rng(5)
    r = np.corrcoef(X, Y)[0, 1]
    held = naive = 0
    for _ in range(80):
        pair = X + law.rvs(600, rng=rng), Y + law.rvs(600, rng=rng)
        found = correlation_confint(pair, mechanism=law)
        held += bool(found.contains(r).iloc[0])
        naive += found.plug_in.iloc[0] > r - 0.05
    assert held > 61
    assert naive == 0


def test_units_do_not_matter():
    law, other = dpi.Laplace(scale=6.0), dpi.Laplace(scale=6000.0)
    y, z = X + law.rvs(600, rng=1), Y + law.rvs(600, rng=2)
    one = correlation_confint((y, z), mechanism=law)
    two = correlation_confint((1000 * y + 7, z), mechanism=(other, law))
    np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-9)
    swapped = correlation_confint((z, y), mechanism=law)
    np.testing.assert_allclose(np.asarray(one), np.asarray(swapped), rtol=1e-9)
    first, second = moments(y, mechanism=law), moments(1000 * y + 7, mechanism=other)
    np.testing.assert_allclose(first.upper.iloc[2:], second.upper.iloc[2:], rtol=1e-6)
    np.testing.assert_allclose(1000 * first.lower.iloc[1], second.lower.iloc[1], rtol=1e-9)


def test_labels_are_aligned():
    index = pd.Index(range(600), name="area")
    first, second = pd.Series(X, index), pd.Series(Y, index)
    found = covariance_confint((first, second.iloc[::-1]), mechanism=dpi.Geometric(scale=1.0))
    same = covariance_confint((X, Y), mechanism=dpi.Geometric(scale=1.0))
    np.testing.assert_allclose(found.estimate, same.estimate)
    assert found.labels.tolist() == [(0, 0), (0, 1), (1, 1)]


def test_what_is_refused():
    law = dpi.Gaussian(sigma=100.0)
    y, z = X + law.rvs(600, rng=1), Y + law.rvs(600, rng=2)
    for call in (
        lambda: moments(y, mechanism=law),
        lambda: correlation_confint((y, z), mechanism=law),
    ):
        with pytest.raises(NotEstimableError, match="of its variance is not noise"):
            call()
    assert len(covariance_confint((y, z), mechanism=law)) == 3
    with pytest.raises(NotEstimableError, match="of 50 areas or more"):
        covariance_confint((X[:40], Y[:40]), mechanism=dpi.Geometric(scale=1.0))
    shared = dpi.noisy(X, mechanism=dpi.Geometric(scale=1.0))
    with pytest.raises(InvalidParameterError, match="must have independent noises"):
        covariance_confint((shared, shared.linear(np.eye(600))))
    with pytest.raises(InvalidParameterError, match="columns must be a tuple"):
        correlation_confint([X, Y], mechanism=law)


def test_tables_of_several_columns_are_no_column():
    table = pd.DataFrame(np.arange(2000.0).reshape(1000, 2))
    with pytest.raises(InvalidParameterError, match="must be one column"):
        moments(table, mechanism=dpi.Geometric(scale=1.0))
