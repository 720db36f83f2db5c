"""Score sets of coefficients: against the formula written out, and where they do not end."""

import numpy as np
import pytest
from scipy import stats

from dpinfer import Gaussian, Laplace
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import noisy_ols


def table(n, sd, seed=0, law=Laplace):
    """Return a response and a design matrix whose column x1 is noisy, and the law of its noise."""
    rng = np.random.default_rng(seed)
    w, z = rng.normal(size=n), rng.normal(size=n)
    noise = law(scale=sd / np.sqrt(2.0)) if law is Laplace else law(sigma=sd)
    y = 1.0 + z + 0.5 * w + rng.normal(size=n)
    return y, np.column_stack([np.ones(n), z + noise.rvs(n, rng=rng), w]), noise


def ratio(y, exog, variance, fourth, response, slope):
    """Return the squared score at a slope over its larger variance, term by term."""
    n, p = exog.shape
    clean = np.delete(exog, 1, axis=1)
    hat = clean @ np.linalg.solve(clean.T @ clean, clean.T)
    leverage = np.diagonal(hat)
    x, r = exog[:, 1] - hat @ exog[:, 1], y - hat @ y
    residual = r - slope * x
    score = (x * residual).sum() + slope * variance * (1.0 - leverage).sum()
    scores = x * residual / (1.0 - leverage) + slope * variance
    first = n / (n - p) * (scores**2).sum()
    second = (x**2).sum() * (residual**2).sum() / (n - p)
    second += n * slope**2 * (fourth - 2.0 * variance**2)
    return score**2 / max(first, second)


@pytest.mark.parametrize("law", [Laplace, Gaussian])
def test_at_the_ends_the_score_is_t_standard_errors(law):
    y, exog, noise = table(200, 0.4, law=law)
    variance, fourth = 0.16, 0.16**2 * (6.0 if law is Laplace else 3.0)
    fit = noisy_ols(y, exog, noise={"x1": noise, "y": 0.3})
    for alpha in (0.01, 0.3):
        lower, upper = map(np.asarray, fit.conf_int(alpha, method="score"))
        reach = stats.t.isf(alpha / 2.0, 197) ** 2
        for end in (lower[1], upper[1]):
            found = ratio(y, exog, variance, fourth, 0.3, end)
            assert found == pytest.approx(reach, rel=1e-9)
        assert (lower < fit.params).all()
        assert (upper > fit.params).all()
    t = np.sqrt(ratio(y, exog, variance, fourth, 0.3, 0.0))
    assert fit.pvalues[1] == pytest.approx(2.0 * stats.t.sf(t, 197), rel=1e-9)
    other = noisy_ols(y * 1e3, exog * [1.0, 1e-2, 1e4], noise={"x1": 0.0 + 0.4e-2, "y": 300.0})
    same = noisy_ols(y, exog, noise={"x1": 0.4, "y": 0.3})
    np.testing.assert_allclose(
        np.asarray(other.conf_int()),
        np.asarray(same.conf_int()) * [[1e3], [1e5], [1e-1]],
        rtol=1e-9,
    )
    np.testing.assert_allclose(other.pvalues, same.pvalues, rtol=1e-8)


def test_they_come_to_the_usual_intervals_for_many_rows():
    y, exog, noise = table(200_000, 0.5)
    fit = noisy_ols(y, exog, noise={"x1": noise})
    np.testing.assert_allclose(fit.conf_int(), fit.conf_int(method="wald"), atol=3e-4)
    assert fit.conf_int().method == "moments, score sets"
    assert fit.conf_int(method="wald").method == "moments, HC1"
    exact = noisy_ols(y[:50], exog[:50], noise={"x1": 0.0})
    assert exact.conf_int().method == "moments, HC3"


def test_they_do_not_end_where_the_covariate_may_be_all_noise():
    y, exog, noise = table(30, 1.0, seed=0)
    fit = noisy_ols(y, exog, noise={"x1": noise})
    ends = fit.conf_int()
    assert np.isinf(np.asarray(ends)).all(axis=1)[1]
    assert any("not bound" in note for note in ends.notes)
    assert np.isfinite(fit.conf_int(method="wald")).all()
    fit.summary()


@pytest.mark.parametrize(
    "change",
    [
        {"method": "fuller"},
        {"uncertainty": "noise"},
        {"cov_type": "cluster", "groups": np.arange(60) % 9},
        {"noise": {"y": 1.0}},
    ],
)
def test_where_there_are_none(change):
    y, exog, noise = table(60, 0.3)
    fit = noisy_ols(y, exog, **({"noise": {"x1": noise}} | change))
    with pytest.raises(InvalidParameterError, match="method must be 'wald' here"):
        fit.conf_int(method="score")
    np.testing.assert_array_equal(fit.conf_int(), fit.conf_int(method="wald"))


def test_the_default_covariance_leaves_out_rows_where_they_are_few():
    y, exog, noise = table(249, 0.3)
    assert noisy_ols(y, exog, noise={"x1": noise}).cov_type == "HC3"
    y, exog, noise = table(250, 0.3)
    assert noisy_ols(y, exog, noise={"x1": noise}).cov_type == "HC1"
    exog[:, 2] = np.arange(250) == 7
    fit = noisy_ols(y[:60], exog[:60], noise={"x1": noise})
    assert fit.cov_type == "HC1"
    assert any("leaves it out" in note for note in fit.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "sd"), [(30, 1.26), (100, 0.9)])
def test_they_hold_where_usual_intervals_do_not(n, sd):
    # 200 sets of 95 %, of which 96 % or more covered in other simulations: below 174 with chance
    # 1e-7
    covered = tables = 0
    for seed in range(400):
        y, exog, noise = table(n, sd, seed)
        try:
            fit = noisy_ols(y, exog, noise={"x1": noise}, cov_type="HC1")
        except NotEstimableError:
            continue
        lower, upper = map(np.asarray, fit.conf_int())
        covered += lower[1] <= 1.0 <= upper[1]
        tables += 1
        if tables == 200:
            break
    assert covered >= 174
