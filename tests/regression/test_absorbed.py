"""Effects of many groups: absorbed, or as indicators, with noise in a covariate."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

from dpinfer import Gaussian, Laplace
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import noisy_glm, noisy_ols


def table(sizes, seed=1, sd=0.0):
    """Return rows of groups, response and covariate with effects of the groups."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    n, effect = len(codes), rng.normal(size=len(sizes))[codes]
    x, z = rng.normal(size=n) + effect, rng.normal(size=n)
    y = 2.0 * x - z + 3.0 * effect + rng.normal(size=n)
    columns = {"y": y, "x": x + sd * rng.normal(size=n), "z": z, "w": rng.uniform(0.5, 2.0, n)}
    return pd.DataFrame(columns | {"g": [f"g{code}" for code in codes]})


SIZES = np.random.default_rng(2).integers(1, 5, 40)


@pytest.mark.thinned("weights", "cov_type", every=2)
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC3", "cluster"])
def test_without_noise_it_is_statsmodels_with_indicators(cov_type, weights):
    data = table(SIZES + (cov_type == "HC3"))
    fit = noisy_ols(
        "y ~ x + z", data, noise={"x": 0.0}, absorb="g", cov_type=cov_type, weights=weights
    )
    codes = pd.factorize(data["g"])[0]
    details = {"groups": codes} if cov_type == "cluster" else None
    given = 1.0 if weights is None else data["w"]
    model = smf.wls("y ~ x + z + C(g)", data, weights=given)
    peer = model.fit(cov_type=cov_type, cov_kwds=details, use_t=True)
    # statsmodels counts the nested groups of clusters as coefficients
    factor = peer.df_resid / (len(data) - 3) if cov_type == "cluster" else 1.0
    np.testing.assert_allclose(fit.params, peer.params[["x", "z"]], rtol=1e-8)
    np.testing.assert_allclose(fit.bse, peer.bse[["x", "z"]] * np.sqrt(factor), rtol=1e-8)
    if cov_type != "cluster":
        np.testing.assert_allclose(fit.pvalues, peer.pvalues[["x", "z"]], rtol=1e-8)
    np.testing.assert_allclose(fit.resid, peer.resid, atol=1e-9)
    np.testing.assert_allclose(fit.fittedvalues, peer.fittedvalues, atol=1e-9)
    assert fit.scale == pytest.approx(peer.scale)
    assert (fit.nobs, fit.df_resid) == (peer.nobs, peer.df_resid)
    np.testing.assert_allclose(fit.naive.bse, fit.bse, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, "w"])
def test_it_is_what_indicators_give(weights):
    data = table(SIZES + 2, sd=0.5)
    std = np.linspace(0.2, 0.7, len(data))
    options = {"noise": {"x": std, "y": 0.3}, "weights": weights, "cov_type": "HC1"}
    fit = noisy_ols("y ~ x + z", data, absorb="g", **options)
    other = noisy_ols("y ~ x + z + C(g)", data, **options)
    for one in ("params", "bse"):
        found = getattr(other, one)[["x", "z"]]
        np.testing.assert_allclose(getattr(fit, one), found, rtol=1e-8)
    arrays = noisy_ols(
        data["y"],
        data[["x", "z"]].assign(const=1.0),
        absorb=data["g"],
        **options | {"weights": None if weights is None else data["w"]},
    )
    np.testing.assert_allclose(arrays.params, fit.params, rtol=1e-12)
    assert list(fit.params.index) == ["x", "z"]
    assert fit.df_resid == len(data) - 42
    assert (fit.naive.params < fit.params)["x"]
    assert "cluster" not in fit.summary()


@pytest.mark.thinned("size", "equal", every=2)
@pytest.mark.parametrize("size", [2, 3, 5, 20])
@pytest.mark.parametrize("equal", [True, False])
def test_the_noise_of_deviations_is_taken_off(size, equal):
    # the corrected moments average to the confidential ones: over 50 noises, 6.5 standard errors
    rng = np.random.default_rng([size, equal])
    count = 300 // size
    codes = np.repeat(np.arange(count), size)
    n = len(codes)
    z = rng.normal(size=n) + codes / 100.0
    std = np.full(n, 0.5) if equal else rng.uniform(0.1, 0.9, n)
    within = z - (np.bincount(codes, z) / size)[codes]
    found = []
    for _ in range(50):
        x = z + std * rng.normal(size=n)
        fit = noisy_ols(z + 0.0 * x, x, noise={"x1": std}, absorb=codes, cov_type="HC0")
        total = np.square(x - (np.bincount(codes, x) / size)[codes]).sum()
        found.append(total * fit.reliability[0] - within @ within)
    assert abs(np.mean(found)) < 6.5 * np.std(found) / np.sqrt(50)
    lost = (1.0 - 1.0 / size) * np.square(std).sum()
    assert total * (1.0 - fit.reliability[0]) == pytest.approx(lost)


def test_default_intervals_cluster_by_many_groups():
    data = table(np.full(60, 3), sd=0.4)
    fit = noisy_ols("y ~ x", data, noise={"x": 0.4}, absorb="g")
    assert fit.cov_type == "cluster"
    assert fit.df_inference == 59
    assert fit.conf_int().method == "moments, score sets"
    few = noisy_ols("y ~ x", data[:90], noise={"x": 0.4}, absorb="g")
    assert few.cov_type == "HC3"
    # larger clusters, of whole groups
    coarse = np.repeat(np.arange(20), 9)
    wide = noisy_ols("y ~ x", data, noise={"x": 0.4}, absorb="g", groups=coarse)
    assert wide.df_inference == 19
    with pytest.raises(InvalidParameterError, match="hold absorbed groups whole"):
        noisy_ols("y ~ x", data, noise={"x": 0.4}, absorb="g", groups=np.arange(180) % 7)


def test_a_row_alone_in_its_group_has_no_part():
    data = table(np.r_[np.full(30, 3), 1, 1], sd=0.4)
    for cov_type in ("HC0", "HC3", "cluster"):
        fit = noisy_ols("y ~ x", data, noise={"x": 0.4}, absorb="g", cov_type=cov_type)
        without = noisy_ols("y ~ x", data[:90], noise={"x": 0.4}, absorb="g", cov_type=cov_type)
        np.testing.assert_allclose(fit.params, without.params, rtol=1e-12)
        assert fit.df_resid == without.df_resid
        if cov_type != "cluster":
            np.testing.assert_allclose(fit.bse, without.bse, rtol=1e-9)


def test_score_sets_of_clusters_written_out():
    data = table(np.full(60, 2), sd=0.3)
    law = Laplace(scale=0.3 / np.sqrt(2.0))
    fit = noisy_ols("y ~ x", data, noise={"x": law}, absorb="g")
    change = {column: np.diff(data[column].to_numpy().reshape(60, 2))[:, 0] for column in "yx"}
    for end in np.asarray(fit.conf_int()).ravel():
        residual, x = (change["y"] - end * change["x"]) / 2.0, change["x"] / 2.0
        scores = 2.0 * x * residual + end * 0.09
        first = (scores**2).sum() * 60.0 / 59.0
        second = (2.0 * x**2).sum() * (2.0 * residual**2).sum() / (120 - 61)
        second += end**2 * 0.09**2 * (120 * 0.5 + 3.0 * 120 * 0.25)
        ratio = scores.sum() ** 2 / max(first, second)
        assert ratio == pytest.approx(stats.t.isf(0.025, 59) ** 2, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        (np.full(60, 2), {}),
        (np.full(20, 8), {}),
        (np.tile([1, 2, 3, 10], 15), {"uncertainty": "noise"}),
    ],
)
def test_default_intervals_cover(sizes, options):
    # 120 tables of .95: at most 96 by accident once in 1e8 or less
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    law, n, covered = Laplace(scale=0.35), len(codes), 0
    z = rng.normal(size=n) + codes / 20.0
    for _ in range(120):
        if not options:
            z = rng.normal(size=n) + codes / 20.0
        errors = rng.normal(size=n) if not options else np.sin(np.arange(n))
        y = 2.0 * z + 3.0 * np.cos(codes) + errors
        x = z + law.rvs(n, rng=rng)
        truth = 2.0
        if options:
            truth = noisy_ols(y, z, noise={"x1": 0.0}, absorb=codes, cov_type="HC0").params[0]
        lower, upper = noisy_ols(y, x, noise={"x1": law}, absorb=codes, **options).conf_int()
        covered += lower[0] <= truth <= upper[0]
    assert covered > 96


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"method": "fuller"}, InvalidParameterError, "absorb must be left out with method"),
        ({"instrument": {"x": "z"}}, InvalidParameterError, "left out with instrument"),
        ({"absorb": "gg"}, InvalidParameterError, "'gg' must be a column"),
        ({"absorb": np.arange(5)}, InvalidParameterError, "absorb must have 60 entries"),
        ({"absorb": np.zeros(60)}, InvalidParameterError, "absorb must hold at least two"),
        ({"absorb": np.arange(60)}, NotEstimableError, "need more than 61 rows"),
        ({"endog": "y ~ I(x**2)"}, InvalidParameterError, "absorb must be left out where formulas"),
        ({"endog": "y ~ x + h"}, NotEstimableError, "'h' does not vary within"),
        ({"endog": "y ~ 1", "noise": {"y": 0.1}}, NotEstimableError, "no covariate but"),
    ],
)
def test_refusals(change, error, words):
    data = table(np.full(20, 3), sd=0.2)
    data["h"] = np.repeat(np.arange(20.0) ** 2, 3)
    given = {"endog": "y ~ x", "exog": data, "noise": {"x": 0.2}, "absorb": "g"} | change
    with pytest.raises(error, match=words):
        noisy_ols(**given)


def test_effects_of_groups_are_not_predicted():
    fit = noisy_ols("y ~ x", table(np.full(20, 3)), noise={"x": 0.2}, absorb="g")
    assert len(fit.predict()) == 60
    with pytest.raises(InvalidParameterError, match="exog must be left out with absorb"):
        fit.predict(table(np.full(20, 3)))


def test_many_groups_are_refused_where_they_bias():
    data = table(np.full(60, 3), sd=0.3)
    law = Gaussian(sigma=0.3)
    with pytest.raises(InvalidParameterError, match="few columns without noise"):
        noisy_glm("y ~ x + C(g)", data, family="gaussian", noise={"x": law})
    with pytest.raises(InvalidParameterError, match="few columns without noise"):
        noisy_ols("y ~ x + I(x**2) + C(g)", data, noise={"x": law})
