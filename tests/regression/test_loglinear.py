"""Log-linear models of noisy tables: statsmodels without noise, sums by hand, sizes, refusals."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import StratifiedTable

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import cochran_mantel_haenszel, loglinear

INDEX = pd.MultiIndex.from_product([["f", "m"], [1, 2, 3]], names=["sex", "grade"])
COUNTS = pd.Series([31, 52, 18, 60, 48, 9], index=INDEX)
LAW = dpi.Geometric(scale=3.0)


@pytest.mark.parametrize("formula", ["sex + C(grade)", "sex * grade"])
def test_without_noise_it_is_statsmodels(formula):
    fit = loglinear(COUNTS, formula, mechanism=dpi.Exact())
    frame = COUNTS.rename("n").reset_index()
    theirs = smf.glm(f"n ~ {formula}", frame, family=sm.families.Poisson()).fit(tol=1e-14)
    np.testing.assert_allclose(fit.params, theirs.params, atol=1e-8)
    np.testing.assert_allclose(fit.bse, theirs.bse, rtol=1e-8)
    np.testing.assert_allclose(fit.conf_int(), theirs.conf_int(), atol=1e-8)
    np.testing.assert_allclose(fit.fittedvalues, theirs.fittedvalues, rtol=1e-8)
    assert fit.llf == pytest.approx(theirs.llf, abs=1e-9)
    ours = fit.wald_test("sex[T.m] = 0")
    assert float(ours.pvalue) == pytest.approx(
        float(theirs.wald_test("sex[T.m] = 0", scalar=True).pvalue), rel=1e-7
    )
    both = {"formula": "sex * C(grade)", "method": "asymptotic"}
    assert fit.test(statistic="lr", **both).statistic == pytest.approx(theirs.deviance)
    assert fit.test(**both).statistic == pytest.approx(theirs.pearson_chi2)
    whole = loglinear(COUNTS, "sex * C(grade)", mechanism=dpi.Exact())
    np.testing.assert_allclose(whole.fittedvalues, COUNTS, rtol=1e-9)


@pytest.mark.parametrize("law", [LAW, dpi.Laplace(scale=4.0)])
def test_the_likelihood_is_a_sum_over_counts(law):
    y = COUNTS + (0.0 if law.is_integer else 0.3)
    y.iloc[5] = -2.0 if law.is_integer else -1.7
    fit = loglinear(y, "sex + C(grade)", mechanism=law)
    design = fit.design.exog
    f = np.arange(400.0)
    gap = y.to_numpy()[:, None] - f
    noise = law.logpmf(gap) if law.is_integer else law.logpdf(gap)

    def lost(beta):
        mass = stats.poisson.logpmf(f, np.exp(design @ beta)[:, None])
        return -np.log(np.exp(mass + noise).sum(axis=1)).sum()

    found = optimize.minimize(lost, fit.params, method="BFGS", options={"gtol": 1e-7})
    assert fit.llf == pytest.approx(-lost(fit.params), rel=1e-10)
    np.testing.assert_allclose(fit.params, found.x, atol=2e-5)
    eye, step = np.eye(4) * 1e-4, 1e-4
    bend = [
        [lost(fit.params + a + b) - lost(fit.params + a - b) - lost(fit.params - a + b)
         + lost(fit.params - a - b) for b in eye] for a in eye
    ]  # fmt: skip
    information = np.array(bend) / (4 * step**2)
    np.testing.assert_allclose(fit.cov_params(), np.linalg.inv(information), rtol=1e-4, atol=1e-6)


def test_the_score_statistic_has_the_information_of_its_law():
    """The variance of the scores by a sum over all counts and noises."""
    fit = loglinear(COUNTS, "sex + C(grade)", mechanism=LAW)
    mu = np.asarray(fit.fittedvalues)
    f = np.arange(300.0)
    information = []
    for m in mu:
        y = np.arange(-90.0, 391.0)
        joint = stats.poisson.pmf(f, m) * LAW.pmf(y[:, None] - f)
        mean = joint @ f / joint.sum(axis=1)
        information.append((joint.sum(axis=1) * (mean - m) ** 2).sum())
    joint = stats.poisson.pmf(f, mu[:, None]) * LAW.pmf(COUNTS.to_numpy()[:, None] - f)
    u = joint @ f / joint.sum(axis=1) - mu
    full = loglinear(COUNTS, "sex * C(grade)", mechanism=LAW).design.exog
    score = full.T @ u
    value = score @ np.linalg.solve(full.T @ (np.array(information)[:, None] * full), score)
    found = fit.test("sex * C(grade)", method="asymptotic")
    assert found.statistic == pytest.approx(value, rel=1e-5)
    assert found.pvalue == pytest.approx(stats.chi2.sf(value, 2), rel=1e-4)


def test_simulated_nulls_are_repeatable_and_near_the_limit():
    fit = loglinear(COUNTS, "sex + C(grade)", mechanism=dpi.Geometric(scale=1.0))
    one, two = (fit.test("sex * C(grade)", reps=39, rng=3) for _ in range(2))
    assert one.pvalue == two.pvalue
    limit = fit.test("sex * C(grade)", method="asymptotic").pvalue
    assert one.pvalue < limit + 0.1
    assert one.mc_error > 0
    ratio = fit.test("sex * C(grade)", statistic="lr", method="asymptotic")
    assert ratio.statistic == pytest.approx(one.statistic, rel=0.15)


def test_strata_without_noise():
    levels = [["case", "control"], ["smoker", "not"], ["young", "old"]]
    index = pd.MultiIndex.from_product(levels, names=["status", "smoking", "age"])
    counts = pd.Series([40, 62, 31, 48, 25, 40, 60, 81], index=index)
    test = cochran_mantel_haenszel(counts, mechanism=dpi.Exact(), method="asymptotic")
    tables = [counts.to_numpy().reshape(2, 2, 2)[..., k] for k in range(2)]
    theirs = StratifiedTable(tables)
    above = sum(t[0, 0] - t[0].sum() * t[:, 0].sum() / t.sum() for t in tables)
    n = [t.sum() for t in tables]
    parts = [np.prod(t.sum(axis=0) * 1.0) * np.prod(t.sum(axis=1)) for t in tables]
    variance = sum(p / m**3 for p, m in zip(parts, n, strict=True))
    assert test.statistic == pytest.approx(above**2 / variance)
    hyper = sum(p / m**2 / (m - 1) for p, m in zip(parts, n, strict=True))
    assert theirs.test_null_odds().statistic == pytest.approx(above**2 / hyper)
    assert test.estimate == pytest.approx(theirs.oddsratio_pooled, rel=0.01)
    assert test.effect == "common odds ratio"
    low, high = test.conf_int()
    np.testing.assert_allclose([low, high], theirs.oddsratio_pooled_confint(), rtol=0.02)
    noisy = cochran_mantel_haenszel(counts, mechanism=LAW, method="asymptotic")
    assert noisy.conf_int().width > high - low


def test_tables_without_names_and_releases():
    table = pd.DataFrame({"ill": [41, 27], "well": [62, 118]}, index=["old", "young"])
    fit = loglinear(table, "row + column", mechanism=LAW)
    plain = loglinear(table.to_numpy(), "C(row) + C(column)", mechanism=LAW)
    np.testing.assert_allclose(sorted(fit.fittedvalues), sorted(plain.fittedvalues))
    release = dpi.Release(COUNTS, mechanism=LAW)
    released = loglinear(release, "sex + C(grade)")
    pd.testing.assert_series_equal(
        released.params, loglinear(COUNTS, "sex + C(grade)", mechanism=LAW).params
    )
    assert not released.notes
    assert (
        "smallest expected count"
        in loglinear(COUNTS // 9, "sex + C(grade)", mechanism=dpi.Geometric(scale=0.3)).notes[0]
    )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"formula": "n ~ sex"}, InvalidParameterError, "without ~"),
        ({"formula": "sex + age"}, InvalidParameterError, "formula must be one"),
        ({"formula": "sex + I(1.0 * (sex == 'm'))"}, NotEstimableError, "linearly dependent"),
        ({"table": -COUNTS, "mechanism": dpi.Exact()}, NotEstimableError, "cannot be counts"),
        ({"table": COUNTS * [1, 1, -1, 1, 1, -1]}, NotEstimableError, "estimated as 0"),
        (
            {"table": dpi.noisy(COUNTS, mechanism=LAW, threshold=5), "mechanism": None},
            InvalidParameterError,
            "loglinear does not take",
        ),
    ],
)
def test_refusals(change, error, message):
    with pytest.raises(error, match=message):
        loglinear(**({"table": COUNTS, "formula": "sex + C(grade)", "mechanism": LAW} | change))


def test_refusals_of_tests():
    fit = loglinear(COUNTS, "sex + C(grade)", mechanism=LAW)
    with pytest.raises(InvalidParameterError, match="larger model"):
        fit.test("sex")
    with pytest.raises(InvalidParameterError, match="larger model"):
        fit.test("sex + C(grade)")
    with pytest.raises(InvalidParameterError, match="three levels"):
        cochran_mantel_haenszel(COUNTS, mechanism=LAW)


@pytest.mark.slow
def test_size_of_the_score_test():
    """90 tables: p-values below 5 % and 50 % are within the 1e-7 quantiles of binomial laws.

    A table of which a row is no more than noise, here two, has no estimates.
    """
    rng, mean = np.random.default_rng(6), np.outer([30, 20, 14], [1, 0.8, 0.6]).ravel()
    index = pd.MultiIndex.from_product([range(3), range(3)], names=["a", "b"])
    pvalues, refused = [], 0
    for _ in range(90):
        counts = pd.Series(rng.poisson(mean) + LAW.rvs(9, rng=rng), index)
        try:
            fit = loglinear(counts, "C(a) + C(b)", mechanism=LAW)
        except NotEstimableError:
            refused += 1
            continue
        pvalues.append(fit.test("C(a) * C(b)", method="asymptotic").pvalue)
    for level in (0.05, 0.5):
        low, high = stats.binom.ppf([1e-7, 1 - 1e-7], len(pvalues), level)
        assert low <= np.sum(np.less(pvalues, level)) <= high
    assert refused < 6


def test_larger_models_have_independent_terms():
    index = pd.MultiIndex.from_product([["f", "m"], [1, 2, 3]], names=["sex", "grade"])
    counts = pd.Series([31, 52, 18, 60, 48, 9], index=index)
    fit = loglinear(counts, "sex + C(grade)", mechanism=dpi.Geometric(scale=2.0))
    with pytest.raises(InvalidParameterError, match="linearly independent"):
        fit.test("sex*C(grade) + I(grade*2)", method="asymptotic")


def test_the_odds_ratio_says_what_it_compares():
    names = ["status", "smoking", "age"]
    index = pd.MultiIndex.from_product(
        [["case", "control"], ["smoker", "not"], ["young", "old"]], names=names
    )
    counts = pd.Series([40, 62, 31, 48, 25, 40, 60, 81], index=index)
    law = dpi.Geometric(scale=2.0)
    one, other = (
        cochran_mantel_haenszel(some, mechanism=law, method="asymptotic")
        for some in (counts, counts.iloc[[2, 3, 0, 1, 4, 5, 6, 7]])
    )
    assert one.estimate * other.estimate == pytest.approx(1.0, abs=1e-6)
    assert "control to case, for not to smoker" in one.notes[-1]
    assert "control to case, for smoker to not" in other.notes[-1]
