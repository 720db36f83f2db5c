"""Squares and products of noisy columns: expectations by sums over all values of the noise."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError

GEOMETRIC = dpi.Geometric(scale=0.9)
LAPLACE = dpi.Laplace(scale=0.8)
FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "logit": sm.families.Binomial(),
    "probit": sm.families.Binomial(sm.families.links.Probit()),
    "cloglog": sm.families.Binomial(sm.families.links.CLogLog()),
    "poisson": sm.families.Poisson(),
    "negative-binomial": sm.families.NegativeBinomial(alpha=0.6),
}
OWN = {
    "gaussian": {"family": "gaussian"},
    "poisson": {"family": "poisson"},
    "negative-binomial": {"family": "negative-binomial", "dispersion": 0.6},
} | {link: {"family": "binomial", "link": link} for link in ("logit", "probit", "cloglog")}
SQUARE = "r ~ z + I(z**2) + u"


def spread(law):
    """Return values of a noise and their probabilities, or nodes of a quadrature."""
    if isinstance(law, dpi.Laplace):
        nodes, weights = np.polynomial.laguerre.laggauss(32)
        both = float(law.scale) * np.concatenate([-nodes, nodes])
        chances = np.concatenate([weights, weights]) / 2.0
    elif isinstance(law, dpi.Gaussian):
        nodes, chances = np.polynomial.hermite_e.hermegauss(24)
        both, chances = float(law.sigma) * nodes, chances / chances.sum()
    else:
        both = np.arange(-60.0, 61.0)
        chances = law.pmf(both)
    keep = chances > 1e-13
    return both[keep], chances[keep]


def every(table, **laws):
    """Return a row for each value that may be published, with its probability as the weight."""
    table = table.assign(weight=1.0)
    for column, law in laws.items():
        values, chances = spread(law)
        at = np.repeat(np.arange(len(table)), len(values))
        size = len(table)
        table = table.iloc[at].reset_index(drop=True)
        table[column] += np.tile(values, size)
        table["weight"] *= np.tile(chances, size)
    return table[table["weight"] > 1e-13].reset_index(drop=True)


def drawn(kind, n=24, seed=1):
    rng = np.random.default_rng(seed)
    z, u = rng.poisson(6.0, n).astype(float), rng.poisson(3.0, n).astype(float)
    if kind == "gaussian":
        r = z - 0.1 * z**2 + 0.05 * z * u + rng.normal(size=n)
    elif kind in ("poisson", "negative-binomial"):
        r = rng.poisson(np.exp(1.5 - 0.08 * (z - 6.0) ** 2)).astype(float)
    else:
        r = 0.15 + 0.6 * np.exp(-((z - 6.0) ** 2) / 8.0) + rng.choice([0.0, 0.1], n)
    return pd.DataFrame({"r": r, "z": z, "u": u})


@pytest.mark.parametrize(
    ("kind", "formula", "law"),
    [
        *(
            pytest.param(kind, SQUARE, law, marks=[pytest.mark.study] * ((i + j) % 2))
            for i, kind in enumerate(FAMILIES)
            for j, law in enumerate((GEOMETRIC, LAPLACE))
        ),
        ("gaussian", SQUARE, dpi.Gaussian(sigma=1.1)),
        ("gaussian", SQUARE, dpi.DiscreteGaussian(sigma=1.2)),
    ],
)
def test_squares_have_the_confidential_fit_on_average(kind, formula, law):
    table = drawn(kind)
    noisy = every(table, z=law)
    fit = dpi.noisy_glm(formula, noisy, noise={"z": law}, weights="weight", **OWN[kind])
    peer = smf.glm(formula, table, family=FAMILIES[kind])
    confidential = peer.fit(tol=1e-13, tol_criterion="params")
    np.testing.assert_allclose(fit.params, confidential.params, atol=1e-5, rtol=1e-5)
    assert np.abs(fit.naive.params - fit.params).max() > 1e-3
    if kind == "gaussian":
        least = dpi.noisy_ols(formula, noisy, noise={"z": law}, weights="weight")
        np.testing.assert_allclose(least.params, fit.params, rtol=1e-9)


@pytest.mark.thinned("kind", "laws", every=2)
@pytest.mark.parametrize("kind", ["gaussian", "logit", "negative-binomial"])
@pytest.mark.parametrize("laws", [(GEOMETRIC, LAPLACE), (LAPLACE, LAPLACE)])
def test_products_of_noisy_columns_have_it_too(kind, laws):
    table, formula = drawn(kind, 14, 3), "r ~ z * u"
    noisy = every(table, z=laws[0], u=laws[1])
    noise = dict(zip("zu", laws, strict=True))
    fit = dpi.noisy_glm(formula, noisy, noise=noise, weights="weight", **OWN[kind])
    confidential = smf.glm(formula, table, family=FAMILIES[kind]).fit(
        tol=1e-13, tol_criterion="params"
    )
    np.testing.assert_allclose(fit.params, confidential.params, atol=1e-5, rtol=1e-5)


@pytest.mark.thinned("law", "kind", every=2)
@pytest.mark.parametrize("law", [GEOMETRIC, LAPLACE, dpi.Gaussian(sigma=0.9)])
@pytest.mark.parametrize("kind", ["gaussian", "logit"])
def test_the_variance_due_to_the_noise_is_that_of_the_scores_over_it(kind, law):
    if kind == "logit" and isinstance(law, dpi.Gaussian):
        return
    # with weights that are the roots of chances, sums of squared scores are expectations
    table = drawn(kind)
    noisy = every(table, z=law)
    noisy["root"] = np.sqrt(noisy["weight"])
    formula = "r ~ z + I(z**2)"
    fit = dpi.noisy_glm(formula, noisy, noise={"z": law}, weights="root", **OWN[kind])
    own = dpi.noisy_glm(
        formula, noisy, noise={"z": law}, weights="root", uncertainty="noise", **OWN[kind]
    )
    confidential = dpi.noisy_glm(formula, table, noise={"z": 0.0}, cov_type="HC0", **OWN[kind])
    assert confidential.params.shape == own.params.shape
    assert (own.bse < fit.bse).all()
    if kind == "gaussian":
        least = dpi.noisy_ols(formula, noisy, noise={"z": law}, weights="root", uncertainty="noise")
        np.testing.assert_allclose(least.bse, own.bse, rtol=1e-6)


def leave_one_out(formula, table, **options):
    fits = [
        dpi.noisy_ols(formula, table.drop(row), **options).params.to_numpy() for row in table.index
    ]
    return np.array(fits)


def test_hc3_is_what_leaving_out_rows_changes():
    table = drawn("gaussian", 14)
    options = {"noise": {"z": dpi.Geometric(scale=0.4), "r": 0.2}}
    formula = "r ~ z + I(z**2)"
    fit = dpi.noisy_ols(formula, table, **options)
    change = leave_one_out(formula, table, cov_type="HC0", **options) - fit.params.to_numpy()
    assert fit.cov_type == "HC3"
    np.testing.assert_allclose(fit.cov_params(), change.T @ change, rtol=1e-7)
    assert fit.scale >= 0.0
    assert (fit.reliability < 1.0).tolist() == [False, True, True]
    assert fit.conf_int().method == "moments, HC3"
    fit.summary()


def test_units_and_origin_do_not_matter():
    table = drawn("gaussian", 200)
    law = dpi.Laplace(scale=0.5)
    fit = dpi.noisy_ols("r ~ z + I(z**2)", table, noise={"z": law})
    moved = dpi.noisy_ols(
        "r ~ z + I(z**2)", table.assign(z=table["z"] * 1e3), noise={"z": dpi.Laplace(scale=500.0)}
    )
    np.testing.assert_allclose(moved.params * [1.0, 1e3, 1e6], fit.params, rtol=1e-8)
    np.testing.assert_allclose(moved.bse * [1.0, 1e3, 1e6], fit.bse, rtol=1e-8)
    centred = dpi.noisy_ols("r ~ I(z - 6) + I((z - 6)**2)", table, noise={"z": law})
    np.testing.assert_allclose(centred.params.iloc[2], fit.params.iloc[2], rtol=1e-8)


@pytest.mark.parametrize(
    ("formula", "change", "error", "message"),
    [
        (SQUARE, {"noise": {"z": dpi.Gaussian(sigma=0.4)}}, InvalidParameterError, "its square"),
        ("r ~ z * u", {"noise": {"z": LAPLACE, "u": LAPLACE}}, ConvergenceError, "product of two"),
        ("r ~ z + I(-(z**2))", {}, None, ""),
        ("r ~ z + I(z**3)", {}, InvalidParameterError, "degree two"),
        ("I(r + z) ~ z + I(z**2)", {"family": "gaussian"}, InvalidParameterError, "in both"),
    ],
)
def test_refusals_of_models_of_counts(formula, change, error, message):
    call = {"noise": {"z": dpi.Laplace(scale=0.3)}, "family": "poisson"} | change
    if error is None:
        dpi.noisy_glm(formula, drawn("poisson", 60), **call)
        return
    with pytest.raises(error, match=message):
        dpi.noisy_glm(formula, drawn("poisson", 60), **call)


def test_squares_that_open_upwards_have_no_mean():
    table = drawn("poisson", 80)
    table["r"] = np.round(np.exp(0.05 * (table["z"] - 6.0) ** 2))
    with pytest.raises(ConvergenceError, match="no mean over the noise"):
        dpi.noisy_glm(SQUARE, table, family="poisson", noise={"z": dpi.Laplace(scale=0.2)})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "fuller"}, InvalidParameterError, "method must be 'moments'"),
        ({"noise": {"z": 0.4}, "uncertainty": "noise"}, InvalidParameterError, "beyond the fourth"),
        ({"noise": {"z": 0.3, "u": 0.1, ("z", "u"): 0.0}}, InvalidParameterError, "covariances"),
        ({"noise": {"z": 9.0}}, NotEstimableError, "drowns"),
        ({"noise": {"z": 0.3, "r": 0.1, ("z", "r"): 0.01}}, InvalidParameterError, "covariances"),
    ],
)
def test_refusals_of_least_squares(change, error, message):
    with pytest.raises(error, match=message):
        dpi.noisy_ols(SQUARE, drawn("gaussian", 60), **({"noise": {"z": LAPLACE}} | change))


@pytest.mark.slow
def test_quadratic_regression_of_counts():
    # 35 tables: fewer than 23 of 35 intervals of 95 % cover with chance 6e-9;
    # the fourth moment of a Gaussian law gives a slope far off
    rng, law = np.random.default_rng(5), dpi.Geometric(scale=1.5)
    truth = np.array([3.0, 0.5, -0.08])
    found, wrong, hits = [], [], []
    for turn in range(35):
        z = rng.poisson(6.0, 4000)
        table = pd.DataFrame(
            {"z": z + law.rvs(4000, rng=rng), "r": truth @ [z**0, z, z**2] + rng.normal(size=4000)}
        )
        fit = dpi.noisy_ols("r ~ z + I(z**2)", table, noise={"z": law})
        lower, upper = map(np.asarray, fit.conf_int())
        hits.append((lower <= truth) & (truth <= upper))
        found.append(fit.params)
        if turn >= 12:
            continue
        wrong.append(
            dpi.noisy_ols(
                "r ~ z + I(z**2)", table, noise={"z": dpi.Gaussian(sigma=float(law.std))}
            ).params.iloc[1]
        )
    assert (np.abs(np.median(found, axis=0) - truth) < [0.4, 0.16, 0.02]).all()
    assert np.median(wrong) < 0.25
    assert (np.sum(hits, axis=0) >= 23).all()
