"""Models of counts above a threshold against other routes to the same numbers."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize, special, stats

import dpinfer as dpi
from dpinfer.mechanisms import Exact

WIDE = dpi.DiscreteGaussian(sigma=18.23)
NAMES = ["const", "x"]


def drawn(size, law, *, alpha=0.05, seed=1, level=4.6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=size)
    rates = np.exp(level + 0.35 * x) * rng.gamma(1 / alpha, alpha, size)
    values = rng.poisson(rates).astype(float)
    return np.column_stack([np.ones(size), x]), values + law.rvs(size, rng=rng)


def mass(family, mean, alpha, most):
    """Return the mass of the counts 0, 1, ..., one row for each mean."""
    f = np.arange(most)
    if family == "negative-binomial":
        size = 1 / alpha
        return stats.nbinom.pmf(f, size, size / (size + mean[:, None]))
    tau = np.log1p(alpha)
    z = np.arange(-9, 9, 0.15)  # finer ones change nothing to 1e-12
    log = np.log(mean)[:, None] - tau / 2 + np.sqrt(tau) * z
    weights = stats.norm.pdf(z) * 0.15
    falls = special.gammaln(f + 1)[:, None]
    return np.array([np.exp(f[:, None] * x - np.exp(x) - falls) @ weights for x in log])


def brute(theta, family, universe, exog, y, law, threshold):
    pi = mass(family, np.exp(exog @ theta[:-1]), np.exp(theta[-1]), 700)
    f = np.arange(700)
    there = ~np.isnan(y)
    density = law.pmf if law.is_integer else law.pdf
    last = threshold - 1 if law.is_integer else threshold
    hidden = pi @ law.cdf(last - f)
    seen = (pi[there] * density(y[there, None] - f)).sum(axis=1)
    if universe == "known":
        return np.log(seen).sum() + np.log(hidden[~there]).sum()
    return np.log(seen).sum() - np.log1p(-hidden).sum()


def test_counts_without_noise_are_those_of_statsmodels():
    exog, y = drawn(300, Exact())
    theirs = sm.NegativeBinomial(y, exog).fit(method="newton", tol=1e-12, disp=0)
    ours = dpi.thresholded_glm(y, exog, universe="known", mechanism=Exact())
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(ours.tvalues, theirs.tvalues, rtol=1e-6)
    np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=1e-5)
    np.testing.assert_allclose(ours.conf_int().lower[:2], theirs.conf_int()[:2, 0], rtol=1e-6)
    np.testing.assert_allclose(ours.llf, theirs.llf, rtol=1e-10)


def test_covariances_of_groups_and_tests_are_those_of_statsmodels():
    exog, y = drawn(300, Exact())
    groups = np.repeat(np.arange(30), 10)
    y[groups < 10] += 10
    theirs = sm.NegativeBinomial(y, exog).fit(
        method="newton", tol=1e-12, disp=0, cov_type="cluster", cov_kwds={"groups": groups}
    )
    rule = {"universe": "known", "mechanism": Exact(), "cov_type": "cluster"}
    ours = dpi.thresholded_glm(y, exog, groups=groups, **rule)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-6)
    weights = [[0, 1, 0], [1, -1, 0]]
    np.testing.assert_allclose(
        ours.t_test(weights).pvalue, theirs.t_test(weights).pvalue, rtol=1e-5
    )
    hypotheses = "x1 = 0.3, const = 4.6"
    np.testing.assert_allclose(
        ours.wald_test(hypotheses).statistic,
        theirs.wald_test(hypotheses, scalar=True).statistic,
        rtol=1e-6,
    )
    table = pd.DataFrame({"views": y, "x": exog[:, 1], "place": groups})
    named = dpi.thresholded_glm("views ~ x", table, groups="place", **rule)
    np.testing.assert_allclose(named.bse, ours.bse, rtol=1e-9)
    with pytest.raises(dpi.errors.InvalidParameterError, match="groups must be given for"):
        dpi.thresholded_glm(y, exog, **rule)


def test_truncated_counts_without_noise_follow_the_formula():
    exog, y = drawn(300, Exact())
    kept = y >= 90
    exog, y = exog[kept], y[kept]

    def loss(theta):
        size = np.exp(-theta[2])
        law = stats.nbinom(size, size / (size + np.exp(exog @ theta[:2])))
        return -(law.logpmf(y) - law.logsf(89)).sum()

    found = dpi.thresholded_glm(y, exog, universe="unknown", mechanism=Exact(), threshold=90)
    best = optimize.minimize(loss, [4.6, 0.3, -3.0], method="BFGS", options={"gtol": 1e-5})
    np.testing.assert_allclose(found.llf, -best.fun, rtol=1e-9)
    np.testing.assert_allclose(found.params[:2], best.x[:2], rtol=1e-4)


@pytest.mark.parametrize(
    "family",
    ["negative-binomial", pytest.param("lognormal-poisson", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("universe", ["known", "unknown"])
@pytest.mark.parametrize("law", [WIDE, dpi.Geometric(scale=9.0), dpi.Laplace(scale=9.0)], ids=str)
def test_likelihood_is_the_sum_over_all_counts(family, universe, law):
    exog, y = drawn(40, law)
    published = y >= 90
    if universe == "known":
        y = np.where(published, y, np.nan)
    else:
        exog, y = exog[published], y[published]
    fit = dpi.thresholded_glm(
        y, exog, universe=universe, mechanism=law, threshold=90, family=family
    )
    theta = np.append(fit.params[:2], np.log(fit.params[2]))
    args = (family, universe, exog, y, law, 90)
    value = brute(theta, *args)
    np.testing.assert_allclose(fit.llf, value, rtol=1e-9)
    for move in np.eye(3) * 1e-3:  # at its maximum, with the curvature that bse says
        up, down = brute(theta + move, *args), brute(theta - move, *args)
        assert max(up, down) < value
        information = np.linalg.inv(np.asarray(fit.cov_params()))
        units = np.array([1.0, 1.0, fit.params[2]])
        curve = move @ (information * units * units[:, None]) @ move
        np.testing.assert_allclose(2 * value - up - down, curve, rtol=2e-3)


def test_a_formula_gives_what_arrays_give():
    exog, y = drawn(200, WIDE)
    table = pd.DataFrame({"views": np.where(y >= 90, y, np.nan), "x": exog[:, 1]})
    table["people"], table["bound"] = np.linspace(1.0, 3.0, 200), 90.0
    rule = {"universe": "known", "mechanism": WIDE}
    named = dpi.thresholded_glm("views ~ x", table, threshold="bound", exposure="people", **rule)
    plain = dpi.thresholded_glm(
        table["views"].to_numpy(), exog, threshold=90, exposure=table["people"].to_numpy(), **rule
    )
    np.testing.assert_array_equal(named.params, plain.params)
    assert list(named.params.index) == ["Intercept", "x", "alpha"]
    np.testing.assert_allclose(named.predict().sum(), named.total().estimate)
    np.testing.assert_allclose(
        named.predict(table, exposure=table["people"]), named.predict(), rtol=1e-12
    )
    assert named.summary_frame().attrs["guarantee"] == "model"
    assert "guarantee: model" in named.summary()


def test_a_release_holds_published_cells():
    exog, y = drawn(200, WIDE)
    seen = y >= 90
    release = dpi.Release(y[seen], mechanism=WIDE, threshold=90)
    fit = dpi.thresholded_glm(release, exog[seen], universe="unknown")
    again = dpi.thresholded_glm(
        y[seen], exog[seen], universe="unknown", mechanism=WIDE, threshold=90
    )
    np.testing.assert_array_equal(fit.params, again.params)


def test_two_regimes_in_one_series_have_their_own_laws():
    exog, y = drawn(100, WIDE)
    other = dpi.Geometric(scale=9.0)
    exog2, y2 = drawn(100, other, seed=2)
    both, values = np.vstack([exog, exog2]), np.append(y, y2)
    bounds = np.repeat([90.0, 60.0], 100)
    values[values < bounds] = np.nan
    fit = dpi.thresholded_glm(
        values, both, universe="known", mechanism=[WIDE] * 100 + [other] * 100, threshold=bounds
    )
    theta = np.append(fit.params[:2], np.log(fit.params[2]))
    parts = [
        brute(theta, "negative-binomial", "known", x, own, law, bound)
        for x, own, law, bound in (
            (exog, values[:100], WIDE, 90),
            (exog2, values[100:], other, 60),
        )
    ]
    np.testing.assert_allclose(fit.llf, sum(parts), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("universe", ["known", "unknown"])
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_intervals_cover_where_the_model_holds(universe, cov_type):
    # of 24 intervals, fewer than 18 cover with probability 1e-4 at 95 %, per parameter
    covered = np.zeros(2)
    for seed in range(24):
        exog, y = drawn(300, WIDE, seed=seed)
        seen = y >= 90
        own = (np.where(seen, y, np.nan), exog) if universe == "known" else (y[seen], exog[seen])
        fit = dpi.thresholded_glm(
            *own, universe=universe, mechanism=WIDE, threshold=90, cov_type=cov_type
        )
        covered += fit.conf_int().contains([4.6, 0.35, 0.05])[:2]
    assert (covered >= 18).all()


@pytest.mark.slow
def test_the_check_finds_a_wrong_law():
    rng = np.random.default_rng(3)
    x = rng.normal(size=4000)
    mixed = np.where(rng.random(4000) < 0.9, np.exp(4.3 + 0.3 * x), np.exp(6.5 - 0.3 * x))
    y = rng.poisson(mixed) + WIDE.rvs(4000, rng=rng)
    seen = y >= 90
    exog = np.column_stack([np.ones(4000), x])[seen]
    fit = dpi.thresholded_glm(
        y[seen], exog, universe="unknown", mechanism=WIDE, threshold=90, family="lognormal-poisson"
    )
    assert fit.threshold_test(130).pvalue < 1e-4
    assert fit.at_threshold(130).nobs == (y >= 130).sum()


@pytest.mark.slow
@pytest.mark.parametrize("universe", ["known", "unknown"])
def test_the_check_holds_its_level(universe):
    # of 24 tests at 5 %, more than 6 reject with probability 1e-4 where the model holds
    rejected = 0
    for seed in range(24):
        exog, y = drawn(300, WIDE, seed=500 + seed)
        seen = y >= 90
        own = (np.where(seen, y, np.nan), exog) if universe == "known" else (y[seen], exog[seen])
        fit = dpi.thresholded_glm(*own, universe=universe, mechanism=WIDE, threshold=90)
        rejected += fit.threshold_test(135).pvalue < 0.05
    assert rejected <= 6
    with pytest.raises(dpi.errors.NotEstimableError, match="at least 45 published cells at or"):
        fit.threshold_test(250)
    with pytest.raises(dpi.errors.NotEstimableError, match="at least 45 published cells below"):
        fit.threshold_test(91)


REFUSED = {
    "unpublished": (lambda y, x: (np.where(y >= 90, y, np.nan), x), "unknown", "published cells"),
    "complete": (lambda y, x: (y[y >= 90], x[y >= 90]), "known", "universe must be 'unknown'"),
    "few": (lambda y, x: (y[y >= 90][:3], x[y >= 90][:3]), "unknown", "at least 4 published"),
    "collinear": (lambda y, x: (np.where(y >= 90, y, np.nan), x[:, [0, 0]]), "known", "dependent"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_determine_a_model_is_refused(name):
    take, universe, message = REFUSED[name]
    exog, y = drawn(200, WIDE)
    endog, exog = take(y, exog)
    with pytest.raises(ValueError, match=message):
        dpi.thresholded_glm(endog, exog, universe=universe, mechanism=WIDE, threshold=90)


def test_counts_without_overdispersion_are_refused():
    y = np.tile([99.0, 100.0, 101.0, 100.0], 30)
    with pytest.raises(dpi.errors.NotEstimableError, match="overdispersion"):
        dpi.thresholded_glm(y, np.ones(120), universe="known", mechanism=Exact())


def test_dependent_errors_are_refused():
    x = dpi.noisy(np.arange(90.0, 96.0), mechanism=WIDE, weights=np.tri(6))
    with pytest.raises(dpi.errors.InvalidParameterError, match="independent errors"):
        dpi.thresholded_glm(x, np.ones(6), universe="known")


def test_impossible_values_are_refused():
    y = np.append(np.arange(10.0, 30.0), -3.0)
    with pytest.raises(dpi.errors.NotEstimableError, match="negative"):
        dpi.thresholded_glm(y, np.ones(21), universe="known", mechanism=Exact())
