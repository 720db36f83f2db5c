"""Small areas: published examples, statsmodels, closed forms, coverage, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import fay_herriot

AVERAGES = np.array([0.400, 0.378, 0.356, 0.333, 0.311, 0.311, 0.289, 0.267, 0.244, 0.244])
AVERAGES = np.append(AVERAGES, [0.222] * 5 + [0.200, 0.178, 0.156])
D = 0.265389 * 0.734611 / 45
"""Batting averages of 18 players after 45 times at bat (Efron and Morris 1975)."""

VACCINATED = "4 123 6 306 3 231 62 13598 33 5069 180 1541 8 2545 505 88391 29 7499 17 1716"
VACCINATED += " 186 50634 5 2498 27 16913"
OTHERS = "11 139 29 303 11 220 248 12867 47 5808 372 1451 10 629 499 88391 45 7277 65 1665"
OTHERS += " 141 27338 3 2341 29 17854"
"""Cases and people in 13 trials of BCG (Colditz and others 1994)."""


def fitted(y, d, **more):
    """Return the fit with variances of sampling alone."""
    return fay_herriot(y, sampling_variance=d, mechanism=dpi.Exact(), **more)


def test_published_examples():
    fit = fitted(AVERAGES, D)
    spread = np.square(AVERAGES - AVERAGES.mean()).sum()
    for method in ("reml", "moments"):
        assert fit.variance(method) == pytest.approx(spread / 17 - D, rel=1e-6)
    assert fit.variance() == pytest.approx(0.00052115, rel=1e-5)
    assert 1 - 15 * D / spread == pytest.approx(0.21239, rel=1e-4)
    (a, n), (c, m) = (np.array(x.split(), float).reshape(-1, 2).T for x in (VACCINATED, OTHERS))
    y, d = np.log(a / n / (c / m)), 1 / a - 1 / n + 1 / c - 1 / m
    fit = fitted(y, d)
    theirs = combine_effects(y, d, method_re="iterated")
    assert fit.variance("moments") == pytest.approx(theirs.tau2, rel=1e-7)
    assert fit.variance("moments") == pytest.approx(0.3180685, rel=1e-6)
    assert fit.variance() == pytest.approx(0.3132433, rel=1e-6)
    assert theirs.mean_effect_re == pytest.approx(-0.714968, rel=1e-5)


def test_equal_variances_have_a_closed_form():
    fit = fitted(AVERAGES, D)
    spread = np.square(AVERAGES - AVERAGES.mean()).sum()
    shape, rate = 0.5 * 17 - 1, 0.5 * spread  # w = 1/(A + D) has a gamma law below 1/D
    law = stats.gamma(shape, scale=1 / rate)
    above = stats.gamma(shape + 1, scale=1 / rate)
    drawn = D * shape / rate * above.cdf(1 / D) / law.cdf(1 / D)
    np.testing.assert_allclose(fit.shrinkage, drawn, rtol=1e-9)
    centre = AVERAGES.mean()
    np.testing.assert_allclose(fit.estimate, centre + (1 - drawn) * (AVERAGES - centre), rtol=1e-9)
    w = law.ppf(law.cdf(1 / D) * (np.arange(200_000) + 0.5) / 200_000)
    b = D * w
    for k in (0, 9):
        means = centre + (1 - b) * (AVERAGES[k] - centre)
        stds = np.sqrt(D * (1 - b) + b**2 / (w * 18))
        low, high = np.asarray(fit.conf_int())[k]
        for end, q in ((low, 0.025), (high, 0.975)):
            assert stats.norm.cdf(end, means, stds).mean() == pytest.approx(q, abs=2e-6)


def test_noise_counts_as_variance_and_ends_are_the_limits():
    law = dpi.Laplace(scale=0.03)
    noisy = fay_herriot(AVERAGES, sampling_variance=D, mechanism=law)
    np.testing.assert_allclose(noisy.estimate, fitted(AVERAGES, D + law.variance).estimate)
    wide = fitted(1000 * AVERAGES, D)
    np.testing.assert_allclose(wide.estimate, 1000 * AVERAGES, rtol=1e-4)
    rest = AVERAGES - AVERAGES.mean()
    narrow = fitted(AVERAGES.mean() + 1e-4 * rest, D)
    assert narrow.variance() == 0
    assert narrow.variance("moments") == 0
    assert "areas hardly differ" in narrow.notes[-1]
    scaled = fitted(7 * AVERAGES, 49 * D)
    np.testing.assert_allclose(scaled.estimate, 7 * np.asarray(fitted(AVERAGES, D).estimate))


def test_totals_with_labels_and_covariates():
    labels = pd.Index([f"area {k}" for k in range(20)])
    people = pd.Series(np.arange(400.0, 800.0, 20.0), labels)
    counts = (0.2 * people + 7 * np.sin(np.arange(20))).round()
    x = pd.DataFrame({"const": 1.0, "x": np.cos(np.arange(20))}, index=labels)
    law = dpi.Geometric(scale=9.0)
    fit = fay_herriot(counts, x, sampling_variance=0, nobs=people, mechanism=law)
    assert fit.uncertainty == "noise"
    again = fay_herriot(
        counts / people, x, sampling_variance=law.variance / people**2, mechanism=dpi.Exact()
    )
    pd.testing.assert_series_equal(fit.estimate, again.estimate)
    assert list(fit.params.index) == ["const", "x"]
    exact = dpi.count_confint(counts, mechanism=law, method="exact")
    direct = fit.conf_int(method="direct")
    np.testing.assert_allclose(direct.lower * people, exact.lower)
    turned = fay_herriot(
        counts[::-1], x[::-1], sampling_variance=0, nobs=people[::-1], mechanism=law
    )
    pd.testing.assert_series_equal(turned.estimate[::-1], fit.estimate)
    frame = fit.summary_frame()
    np.testing.assert_allclose(frame["std_err"] ** 2, fit.mse())
    assert frame.attrs["guarantee"] == "model"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"endog": AVERAGES[:8]}, NotEstimableError, "at least 8"),
        ({"sampling_variance": -1.0}, InvalidParameterError, "sampling_variance must be"),
        ({"sampling_variance": 0.0}, InvalidParameterError, "not both be 0"),
        ({"nobs": 5.0}, InvalidParameterError, "nobs must be >= 10"),
        (
            {"nobs": dpi.noisy([5], mechanism=dpi.Geometric(scale=1.0))},
            InvalidParameterError,
            "exact",
        ),
        ({"exog": np.ones((18, 2))}, NotEstimableError, "linearly dependent"),
        ({"exog": np.ones((3, 2))}, InvalidParameterError, "exog must have 18"),
        (
            {"endog": dpi.noisy(AVERAGES, mechanism=dpi.Laplace(scale=1.0), threshold=0)}
            | {"mechanism": None},
            InvalidParameterError,
            "fay_herriot does not take",
        ),
        (
            {
                "endog": dpi.noisy(
                    AVERAGES, mechanism=dpi.Laplace(scale=1.0), weights=np.ones((18, 1))
                )
            }
            | {"mechanism": None},
            InvalidParameterError,
            "independent errors",
        ),
    ],
)
def test_refusals(change, error, message):
    call = {"endog": AVERAGES, "sampling_variance": D, "mechanism": dpi.Exact()}
    with pytest.raises(error, match=message):
        fay_herriot(**(call | change))


@pytest.mark.slow
def test_coverage():
    """50 tables of 15 areas: 750 areas, hardly dependent; 5.3 standard errors are .042."""
    rng, hits, naive = np.random.default_rng(5), [], []
    law = dpi.Laplace(scale=0.5)
    for _ in range(50):
        d = rng.uniform(0.3, 0.7, 15)
        x = np.column_stack([np.ones(15), rng.normal(size=15)])
        theta = x @ [1.0, 2.0] + rng.normal(size=15)
        y = theta + np.sqrt(d) * rng.normal(size=15) + law.rvs(15, rng=rng)
        fit = fay_herriot(y, x, sampling_variance=d, mechanism=law)
        hits.append(fit.conf_int().contains(theta))
        naive.append(fitted(y, d, exog=x).conf_int().contains(theta))
    assert 0.908 < np.mean(hits) < 0.985
    assert np.mean(naive) < 0.9


def test_formulas_are_those_of_statsmodels():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"y": rng.normal(size=20), "x": rng.normal(size=20), "g": list("ab") * 10})
    law = dpi.Laplace(scale=0.3)
    wide = 1.0
    fit = fay_herriot("y ~ np.exp(x / wide) + g", frame, sampling_variance=0.2, mechanism=law)
    exog = pd.DataFrame({"Intercept": 1.0, "g": frame["g"] == "b", "x": np.exp(frame["x"] / wide)})
    other = fay_herriot(frame["y"], exog.astype(float), sampling_variance=0.2, mechanism=law)
    np.testing.assert_allclose(fit.estimate, other.estimate, rtol=1e-10)
    assert list(fit.params.index) == ["Intercept", "g[T.b]", "np.exp(x / wide)"]
    for formula, data in (("x + g", frame), ("np.log(y) ~ x", frame), ("y ~ x", None)):
        with pytest.raises(InvalidParameterError, match="on its left"):
            fay_herriot(formula, data, sampling_variance=0.2, mechanism=law)
