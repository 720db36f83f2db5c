"""Score sets of generalised linear models: by hand, beside least squares, and how they cover."""

import numpy as np
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError


def poisson(n, noise, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    counts = rng.poisson(np.exp(0.5 + 0.4 * z)) * 1.0
    return counts, np.column_stack([np.ones(n), z + noise.rvs(n, rng=rng)])


def by_hand(counts, exog, variance, beta):
    """Return scores under Laplace noise in x1, (n, 2), and their derivatives, (n, 2, 2)."""
    rate, slope = np.exp(exog @ beta), beta[1]
    own, shift = 1.0 - variance * slope**2 / 2.0, np.array([0.0, variance * slope])
    scores = exog * (counts - rate * own)[:, None] + rate[:, None] * shift
    outer = exog[:, :, None] * exog[:, None, :]
    cross = exog[:, :, None] * shift
    change = -outer * own + cross + cross.transpose(0, 2, 1)
    change[:, 1, 1] += variance
    return scores, rate[:, None, None] * change


@pytest.mark.parametrize("groups", [None, np.arange(400) // 8])
def test_at_the_ends_the_linearised_score_is_t_standard_errors(groups):
    noise = dpi.Laplace(scale=0.5)
    counts, exog = poisson(400, noise)
    own = {} if groups is None else {"groups": groups, "cov_type": "cluster"}
    fit = dpi.noisy_glm(counts, exog, family="poisson", noise={"x1": noise}, **own)
    scores, change = by_hand(counts, exog, noise.variance, fit.params)
    np.testing.assert_allclose(scores.sum(axis=0), 0.0, atol=1e-6)
    inverse = np.linalg.inv(-change.sum(axis=0))
    df, factor = (398, 400 / 398) if groups is None else (49, 50 / 49 * 399 / 398)
    ends = np.asarray(fit.conf_int(0.1))
    for k in range(2):
        along = inverse[:, k] / inverse[k, k]
        at = scores @ inverse[k], change @ along @ inverse[k]
        for end in [*ends[k], 0.0]:
            own_scores = at[0] + (end - fit.params[k]) * at[1]
            if groups is not None:
                own_scores = np.bincount(groups, own_scores)
            t = abs(own_scores.sum()) / np.sqrt(factor * np.square(own_scores).sum())
            if end:
                assert t == pytest.approx(stats.t.isf(0.05, df), rel=1e-6)
            else:
                assert fit.pvalues[k] == pytest.approx(2.0 * stats.t.sf(t, df), rel=1e-5)


def test_linear_models_have_the_sets_of_least_squares():
    rng, noise = np.random.default_rng(1), dpi.Gaussian(sigma=3.0)
    z = rng.poisson(12.0, 2000) * 1.0
    y = 1.0 + 0.2 * z + rng.normal(size=2000)
    exog = np.column_stack([np.ones(2000), z + noise.rvs(2000, rng=rng)])
    fit = dpi.noisy_glm(y, exog, family="gaussian", noise={"x1": noise})
    same = dpi.noisy_ols(y, exog, noise={"x1": noise}, cov_type="HC1")
    width = np.asarray(same.conf_int(method="wald")) @ [-1.0, 1.0]
    gap = np.asarray(fit.conf_int()) - np.asarray(same.conf_int())
    assert (np.abs(gap) < 0.01 * width[:, None]).all()  # leverages of 1/n, and a smaller variance
    assert fit.conf_int().method == "corrected score, score sets"


def test_they_come_to_the_usual_intervals_for_many_rows():
    noise = dpi.Laplace(scale=0.5)
    counts, exog = poisson(200_000, noise)
    fit = dpi.noisy_glm(counts, exog, family="poisson", noise={"x1": noise})
    np.testing.assert_allclose(fit.conf_int(), fit.conf_int(method="wald"), atol=3e-4)


def test_where_the_rows_do_not_bound_a_coefficient_ends_are_infinite():
    noise = dpi.Laplace(scale=1.0)
    counts, exog = poisson(60, noise, seed=3)
    fit = dpi.noisy_glm(counts, exog, family="poisson", noise={"x1": noise})
    ends = fit.conf_int()
    assert np.isinf(np.asarray(ends)[1]).all()
    assert any("not bound" in note for note in ends.notes)
    assert np.isfinite(fit.conf_int(method="wald")).all()
    assert "-inf" in str(fit.summary())


def test_there_are_none_for_the_noise_alone_and_without_noise():
    noise = dpi.Laplace(scale=0.5)
    counts, exog = poisson(400, noise)
    own = {"endog": counts, "exog": exog, "family": "poisson"}
    alone = dpi.noisy_glm(noise={"x1": noise}, uncertainty="noise", **own)
    none = dpi.noisy_glm(noise={"x1": 0.0}, **own)
    for fit in (alone, none, none.naive):
        assert fit.conf_int().method == "corrected score, HC1"
        with pytest.raises(InvalidParameterError, match="method must be 'wald' here"):
            fit.conf_int(method="score")
    with pytest.raises(InvalidParameterError, match="method must be"):
        alone.conf_int(method="normal")


@pytest.mark.slow
def test_they_cover_where_usual_intervals_do_not():
    # of 95 %; 99 % was measured with other seeds: below 90 % of some 90 with chance 1e-7
    noise, covered, wald = dpi.Laplace(scale=10.8), [], []
    for seed in range(150):
        rng = np.random.default_rng([23, seed])
        z = np.round(rng.normal(0.0, 10.0, 100))
        counts = rng.poisson(np.exp(0.5 + 0.03 * z) * rng.gamma(2.0, 0.5, 100))
        exog = np.column_stack([np.ones(100), z + noise.rvs(100, rng=rng)])
        try:
            fit = dpi.noisy_glm(counts, exog, family="negative-binomial", noise={"x1": noise})
        except (ConvergenceError, NotEstimableError):
            continue
        for found, method in ((covered, "score"), (wald, "wald")):
            lower, upper = (x[1] for x in map(np.asarray, fit.conf_int(method=method)))
            found.append(lower <= 0.03 <= upper)
    assert len(covered) > 60
    assert np.mean(covered) > 0.9
    assert np.mean(wald) < np.mean(covered)
