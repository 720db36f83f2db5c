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


def noise_by_hand(counts, exog, variance, beta):
    """Return what Laplace noise adds to the covariance of the scores: differences by x1."""

    def products(moved):
        x = exog + np.array([0.0, moved])
        own = x * (counts - np.exp(x @ beta))[:, None]
        return own.T @ own

    step = 1e-3
    bend = (products(step) - 2.0 * products(0.0) + products(-step)) / step**2
    scores, _ = by_hand(counts, exog, variance, beta)
    return scores.T @ scores - products(0.0) + variance / 2.0 * bend


def test_for_the_noise_alone_the_variance_of_the_score_is_that_of_the_noise():
    noise = dpi.Laplace(scale=0.5)
    counts, exog = poisson(400, noise)
    fit = dpi.noisy_glm(counts, exog, family="poisson", noise={"x1": noise}, uncertainty="noise")
    _, change = by_hand(counts, exog, noise.variance, fit.params)
    inverse = np.linalg.inv(-change.sum(axis=0))
    ends = np.asarray(fit.conf_int(0.1))
    for k, pull in enumerate(inverse):

        def alone(h, pull=pull, own=0.0):
            meat = noise_by_hand(counts, exog, noise.variance, fit.params + h * own)
            return meat @ pull

        own = inverse @ alone(0.0) / (pull @ alone(0.0))
        slopes = change @ own @ pull
        square = np.square(slopes - slopes.mean()).sum() * 400 / 398
        less, middle, more = (pull @ alone(h, own=own) for h in (-1e-4, 0.0, 1e-4))
        for end in [*ends[k], 0.0]:
            h = end - fit.params[k]
            t = abs(h) / np.sqrt(middle + h * (more - less) / 2e-4 + h**2 * square)
            if end:
                assert t == pytest.approx(stats.t.isf(0.05, 398), rel=1e-4)
            else:
                assert fit.pvalues[k] == pytest.approx(2.0 * stats.t.sf(t, 398), rel=1e-2)


def test_what_the_noise_does_not_move_is_known():
    """Rows without noise, with coefficients of their own."""
    rng, noise = np.random.default_rng(2), [dpi.Laplace(scale=0.5)] * 100 + [dpi.Exact()] * 100
    x, other = rng.integers(-3, 4, 200) * 1.0, np.repeat([0.0, 1.0], 100)
    counts = rng.poisson(np.exp(0.5 + 0.3 * x)) * 1.0
    x[:100] += dpi.Laplace(scale=0.5).rvs(100, rng=rng)
    data = {"counts": counts, "x": x, "first": 1.0 - other, "other": other}
    terms = "counts ~ 0 + first + other + x:first + x:other"
    fit = dpi.noisy_glm(terms, data, family="poisson", noise={"x": noise}, uncertainty="noise")
    exact = dpi.noisy_glm(
        counts[100:],
        np.column_stack([np.ones(100), x[100:]]),
        family="poisson",
        noise={"x1": 0.0},
    )
    ends = np.asarray(fit.conf_int())
    np.testing.assert_allclose(ends[[1, 3]], exact.params[:, None] * np.ones(2), atol=1e-6)
    assert (ends[[0, 2], 1] - ends[[0, 2], 0] > 0.1).all()


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_without_noise_nothing_is_in_doubt_for_the_noise_alone(family):
    """Rounding alone once refused half of such tables."""
    for seed in range(20):
        counts, exog = poisson(60, dpi.Laplace(scale=0.5), seed)
        own = {"family": family, "noise": {"x1": 0.0}, "uncertainty": "noise"}
        fit = dpi.noisy_glm(np.minimum(counts, 1.0), exog, **own)
        assert (fit.bse == 0.0).all()


@pytest.mark.parametrize("method", ["score", "wald"])
def test_noise_that_rounding_hides_still_has_intervals(method):
    """Standard errors of 0 would leave the estimate, which is off by what the noise did."""
    noise = dpi.Laplace(scale=1e-8)
    for seed in range(20):
        rng = np.random.default_rng([31, seed])
        counts, z = poisson(60, dpi.Laplace(scale=0.5), seed)
        own = {"family": "poisson", "uncertainty": "noise"}
        truth = dpi.noisy_glm(counts, z, noise={"x1": 0.0}, **own).params
        z[:, 1] += noise.rvs(60, rng=rng)
        fit = dpi.noisy_glm(counts, z, noise={"x1": noise}, **own)
        lower, upper = map(np.asarray, fit.conf_int(method=method))
        assert ((lower < truth) & (truth < upper)).all()
        assert (upper - lower < 1e-5).all()


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


@pytest.mark.parametrize("uncertainty", ["noise+sampling", "noise"])
def test_they_come_to_the_usual_intervals_for_many_rows(uncertainty):
    noise = dpi.Laplace(scale=0.5)
    counts, exog = poisson(200_000, noise)
    own = {"family": "poisson", "uncertainty": uncertainty}
    fit = dpi.noisy_glm(counts, exog, noise={"x1": noise}, **own)
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


def test_there_are_none_without_noise():
    counts, exog = poisson(400, dpi.Laplace(scale=0.5))
    none = dpi.noisy_glm(counts, exog, family="poisson", noise={"x1": 0.0})
    for fit in (none, none.naive):
        assert fit.conf_int().method == "corrected score, HC1"
        with pytest.raises(InvalidParameterError, match="method must be 'wald' here"):
            fit.conf_int(method="score")
    with pytest.raises(InvalidParameterError, match="method must be"):
        none.conf_int(method="normal")


@pytest.mark.slow
def test_they_cover_where_usual_intervals_do_not():
    # of 95 %; 99 % was measured with other seeds: at most 78 % of some 36 with chance 3e-9
    noise, covered, wald = dpi.Laplace(scale=10.8), [], []
    for seed in range(60):
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
    assert len(covered) > 24
    assert np.mean(covered) > 0.78
    assert np.mean(wald) < np.mean(covered)


@pytest.mark.slow
def test_for_the_noise_alone_they_cover_where_usual_intervals_do_not():
    # of 95 %; 98 % of slopes was measured with other seeds: at most 74 % of 30 with chance 1e-7
    noise, covered, wald = dpi.Gaussian(sigma=15.0), [], []
    for seed in range(42):
        rng = np.random.default_rng([29, seed])
        z = np.round(rng.normal(0.0, 10.0, 100))
        counts = rng.poisson(np.exp(0.5 + 0.03 * z)) * 1.0
        exog = np.column_stack([np.ones(100), z + noise.rvs(100, rng=rng)])
        own = {"family": "poisson", "uncertainty": "noise"}
        truth = dpi.noisy_glm(counts, np.column_stack([np.ones(100), z]), noise={"x1": 0.0}, **own)
        try:
            fit = dpi.noisy_glm(counts, exog, noise={"x1": noise}, **own)
        except (ConvergenceError, NotEstimableError):
            continue
        for found, method in ((covered, "score"), (wald, "wald")):
            lower, upper = map(np.asarray, fit.conf_int(method=method))
            found.append((lower <= truth.params) & (truth.params <= upper))
    assert len(covered) > 24
    assert (np.mean(covered, axis=0) > 0.74).all()
    assert (np.mean(wald, axis=0) < np.mean(covered, axis=0)).all()
