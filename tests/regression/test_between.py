"""Errors that rows share, as of one combined table."""

from dataclasses import replace

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer import Gaussian, Laplace, Release, noisy
from dpinfer.errors import InvalidParameterError
from dpinfer.regression import noisy_glm, noisy_ols

SIZE = 60
BLOCKS = np.kron(np.eye(SIZE // 5), 0.2 * np.eye(5) + 0.3 * np.ones((5, 5)))
WEIGHTS = np.linalg.cholesky(BLOCKS)


def drawn(seed, size=SIZE):
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=size) + np.repeat(rng.normal(size=size // 5), 5)
    return z, 1.0 + 2.0 * z + rng.normal(size=size), rng


def shared(values, weights, law, rng):
    """Return noisy values with errors that are weighted sums of noises of variance 1."""
    noises = Release(law.rvs(weights.shape[1], rng=rng), mechanism=law)
    errors = noisy(noises).linear(weights / law.std)
    start = noisy(Release(values, mechanism=dpi.Exact()))
    return start.beside(errors).linear(np.hstack([np.eye(len(values))] * 2))


@pytest.mark.parametrize("uncertainty", ["noise+sampling", "noise"])
def test_unrelated_rows_are_a_special_case(uncertainty):
    z, y, rng = drawn(1)
    std = np.linspace(0.2, 0.6, SIZE)
    exog = np.column_stack([np.ones(SIZE), z + std * rng.normal(size=SIZE)])
    weights = rng.uniform(0.5, 2.0, SIZE)
    options = {"uncertainty": uncertainty, "weights": weights}
    plain = noisy_ols(y, exog, noise={"x1": std, "y": 0.2}, **options)
    found = noisy_ols(y, exog, noise={"x1": np.diag(std**2), "y": 0.2}, **options)
    np.testing.assert_allclose(found.params, plain.params, rtol=1e-10)
    # pairs of rows have 1 - h of the products of unequal variances, by rows on average
    np.testing.assert_allclose(found.bse, plain.bse, rtol=2e-3)
    np.testing.assert_allclose(found.conf_int(), plain.conf_int(), rtol=2e-3)


def test_noisy_values_bring_what_their_covariance_matrix_says():
    z, y, rng = drawn(2)
    x = shared(z, WEIGHTS, Gaussian(sigma=2.0), rng)
    np.testing.assert_allclose(x.cov(), BLOCKS, atol=1e-12)
    exog = np.column_stack([np.ones(SIZE), x.values])
    found = noisy_ols("y ~ x", {"y": y, "x": x})
    for noise in ({"x1": BLOCKS}, {"x1": x}):
        stated = noisy_ols(y, exog, noise=noise)
        np.testing.assert_allclose(stated.bse, found.bse, rtol=1e-9)
        np.testing.assert_allclose(stated.conf_int(), found.conf_int(), rtol=1e-8)
    alone = noisy_ols(y, exog, noise={"x1": x.std})
    assert found.bse["x"] > 1.05 * alone.bse[1]


@pytest.mark.parametrize("law", [Gaussian(sigma=1.0), Laplace(scale=1.0)])
def test_the_variance_of_the_score_written_out(law):
    """The estimate's mean over noises is the exact variance of the corrected score."""
    size, slope, repeats = 40, 2.0, 25
    rng = np.random.default_rng(3)
    weights = 0.2 * rng.normal(size=(size, 8))
    cov = weights @ weights.T
    z = 3.0 * rng.normal(size=size)
    y = 1.0 + slope * z + rng.normal(size=size)
    away = np.eye(size) - 1.0 / size
    # S = x'A(y - xβ) + β tr(AV) at the confidential fit: linear and quadratic in the noises
    beta = (z @ away @ y) / (z @ away @ z)
    residual = away @ (y - beta * z)
    linear = weights.T @ (residual - beta * away @ z)
    quadratic = -beta * weights.T @ away @ weights
    excess = 3.0 if isinstance(law, Laplace) else 0.0
    exact = linear @ linear + 2.0 * np.square(quadratic).sum()
    exact += excess * np.square(np.diagonal(quadratic)).sum()
    found, scores, base = [], [], shared(z, weights, law, rng)
    for _ in range(repeats):
        errors = weights @ law.rvs(8, rng=rng) / law.std
        x = replace(base, values=z + errors)
        moment = x.values @ away @ x.values - np.trace(away @ cov)
        exog = {"c": np.ones(size), "x": x}
        fit = noisy_ols(y, exog, uncertainty="noise", weights=np.full(size, 2.0))
        at = x.values @ away @ (y - beta * x.values) + beta * np.trace(away @ cov)
        scores.append(at)
        found.append(fit.bse["x"] ** 2 * moment**2)
    # the estimate is taken at the corrected coefficient: of 1/n, and six standard errors
    error = 6.0 * np.std(found) / np.sqrt(repeats)
    assert abs(np.mean(found) - exact) < error + 0.1 * exact
    assert error < 0.5 * exact
    assert abs(np.mean(scores)) < 6.0 * np.sqrt(exact / repeats)


def test_an_error_of_all_rows_moves_only_the_constant():
    z, y, rng = drawn(4)
    exog = np.column_stack([np.ones(SIZE), z + 0.3 * rng.normal(size=SIZE)])
    own = 0.09 * np.eye(SIZE)
    fit = noisy_ols(y, exog, noise={"x1": own})
    moved = noisy_ols(y, exog, noise={"x1": own + 25.0})
    np.testing.assert_allclose(moved.params, fit.params, rtol=1e-9)
    assert moved.bse[1] == pytest.approx(fit.bse[1], rel=1e-6)
    assert moved.bse[0] == pytest.approx(np.hypot(fit.bse[0], 5.0 * fit.params[1]), rel=1e-6)


def test_a_combined_table_is_a_covariate():
    rng = np.random.default_rng(5)
    truth = rng.poisson(60.0, 40).astype(float)
    matrix = np.vstack([np.eye(40), np.kron(np.eye(10), np.ones(4)), np.ones((1, 40))])
    law = Laplace(scale=4.0)
    published = noisy(Release(matrix @ truth + law.rvs(51, rng=rng), mechanism=law))
    people = published.linear(np.linalg.pinv(matrix))
    y = 5.0 + 0.5 * truth + rng.normal(size=40)
    fit = noisy_ols("y ~ people", {"y": y, "people": people})
    assert abs(fit.params["people"] - 0.5) < 6.0 * fit.bse["people"]
    reverse = noisy_ols(people, {"const": np.ones(40), "x": y})
    assert reverse.bse["x"] > 0.0
    assert np.isfinite(fit.conf_int(method="wald")).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "fuller"}, "independent from row to row with method='fuller'"),
        ({"absorb": np.repeat(np.arange(12), 5)}, "with absorb"),
        ({"instrument": {"x1": np.arange(60.0)}}, "with instrument"),
        ({"missing": "drop"}, "missing must be 'raise'"),
        ({"noise": {"x1": -BLOCKS}}, "positive semi-definite"),
        ({"noise": {"x1": np.ones((60, 3))}}, "symmetric"),
        ({"noise": {"x9": noisy(Release([1.0], mechanism=Laplace(scale=1.0)))}}, "columns of"),
        ({"noise": {"x1": noisy(Release([1.0], mechanism=Laplace(scale=1.0)))}}, "those of the"),
    ],
)
def test_refusals(change, words):
    z, y, _ = drawn(6)
    given = {"noise": {"x1": BLOCKS}} | change
    with pytest.raises(InvalidParameterError, match=words):
        noisy_ols(y, np.column_stack([np.ones(SIZE), z]), **given)


def test_other_models_refuse_rows_that_share_errors():
    z, y, rng = drawn(7)
    x = shared(z, WEIGHTS, Laplace(scale=1.0), rng)
    with pytest.raises(InvalidParameterError, match="noisy_ols, which takes their covariances"):
        noisy_glm("y ~ x", {"y": y, "x": x}, family="gaussian")
    with pytest.raises(InvalidParameterError, match="squares or products"):
        noisy_ols("y ~ x + I(x**2)", {"y": y, "x": x})
    absorbed = np.repeat(np.arange(12), 5)
    with pytest.raises(InvalidParameterError, match="with absorb"):
        noisy_ols("y ~ x", {"y": y, "x": x}, absorb=absorbed, groups=absorbed, cov_type="cluster")


@pytest.mark.slow
@pytest.mark.parametrize("law", [Gaussian(sigma=1.0), Laplace(scale=1.0)])
def test_intervals_cover(law):
    # 120 tables of .95: at most 96 by accident once in 1e8 or less
    covered, weights = 0, np.kron(np.eye(20), WEIGHTS[:5, :5])
    base = shared(np.zeros(100), weights, law, np.random.default_rng(8))
    for seed in range(120):
        z, y, rng = drawn(seed + 100, 100)
        errors = weights @ law.rvs(100, rng=rng) / law.std
        exog = {"const": np.ones(100), "x": replace(base, values=z + errors)}
        lower, upper = map(np.asarray, noisy_ols(y, exog).conf_int())
        covered += lower[1] <= 2.0 <= upper[1]
    assert covered > 96
