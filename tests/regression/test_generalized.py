"""Generalised linear models on noisy columns against other routes to the same numbers."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi

FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "binomial": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "probit": sm.families.Binomial(sm.families.links.Probit()),
    "cloglog": sm.families.Binomial(sm.families.links.CLogLog()),
    "negative-binomial": sm.families.NegativeBinomial(alpha=0.6),
}
MEANS = {
    "gaussian": lambda eta: eta,
    "binomial": lambda eta: 1.0 / (1.0 + np.exp(-eta)),
    "poisson": np.exp,
}


def model(name):
    """Return the arguments of a family, or of a link of the binomial one."""
    if name in ("probit", "cloglog"):
        return {"family": "binomial", "link": name}
    return {"family": name} | ({"dispersion": 0.6} if name == "negative-binomial" else {})


NONE = {"x1": 0.0}


def drawn(family, n=300, seed=0):
    """Return a response, a design matrix, and weights or exposures."""
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.normal(size=n), rng.normal(3.0, 2.0, n)])
    eta = exog @ [0.3, 0.4, -0.1]
    sizes = rng.integers(1, 6, n).astype(float)
    if family == "gaussian":
        return eta + rng.normal(size=n), exog, {"weights": sizes}
    offset = rng.normal(0.0, 0.3, n)
    if FAMILIES[family].__class__ is sm.families.Binomial:
        shares = rng.binomial(sizes.astype(int), MEANS["binomial"](eta)) / sizes
        return shares, exog, {"weights": sizes, "offset": offset}
    counts = rng.poisson(sizes * np.exp(eta) * rng.gamma(2.0, 0.5, n))
    return counts, exog, {"exposure": sizes, "offset": offset}


@pytest.mark.filterwarnings("ignore:cov_type not fully supported with var_weights")
@pytest.mark.parametrize("family", FAMILIES)
def test_without_noise_all_is_as_in_statsmodels(family):
    y, exog, own = drawn(family)
    theirs = {"var_weights" if key == "weights" else key: x for key, x in own.items()}
    peer = sm.GLM(y, exog, FAMILIES[family], **theirs)
    their = peer.fit(cov_type="HC0", tol=1e-13, tol_criterion="params")
    own |= model(family) | {"noise": NONE}
    ours = dpi.noisy_glm(y, exog, cov_type="HC0", use_t=False, **own)
    for fit in (ours, ours.naive):
        np.testing.assert_allclose(fit.params, their.params, rtol=1e-8)
        np.testing.assert_allclose(fit.bse, their.bse, rtol=1e-8)
        np.testing.assert_allclose(fit.cov_params(), their.cov_params(), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(fit.pvalues, their.pvalues, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(fit.conf_int(0.1)), their.conf_int(0.1), rtol=1e-7)
        np.testing.assert_allclose(fit.fittedvalues, their.fittedvalues, rtol=1e-8)
    both = their.wald_test("x1 = 0, x2 = 0", scalar=True)
    np.testing.assert_allclose(ours.wald_test("x1 = 0, x2 = 0").pvalue, both.pvalue, rtol=1e-6)
    same = their.t_test("x1 = x2")
    np.testing.assert_allclose(ours.t_test("x1 = x2").pvalue, same.pvalue, rtol=1e-6)
    groups = np.arange(len(y)) % 17
    clustered = peer.fit(
        cov_type="cluster", cov_kwds={"groups": groups}, tol=1e-13, tol_criterion="params"
    )
    ours = dpi.noisy_glm(y, exog, cov_type="cluster", groups=groups, **own)
    np.testing.assert_allclose(ours.bse, clustered.bse, rtol=1e-8)


def spread(law):
    """Return values and probabilities of a noise: all that matter, or nodes of a quadrature."""
    if isinstance(law, dpi.Gaussian):
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        nodes, weights = nodes[weights > 1e-14], weights[weights > 1e-14]
        return float(law.sigma) * nodes, weights / weights.sum()
    if isinstance(law, dpi.Laplace):
        nodes, weights = np.polynomial.laguerre.laggauss(60)
        nodes, weights = nodes[weights > 1e-14], weights[weights > 1e-14]
        both = float(law.scale) * np.concatenate([-nodes, nodes])
        return both, np.concatenate([weights, weights]) / weights.sum() / 2.0
    values = np.arange(-80.0, 81.0)
    weights = law.pmf(values)
    return values[weights > 1e-14], weights[weights > 1e-14]


def over_noise(law, z, *others):
    """Return every value that may be published for each z, with its probability as a weight."""
    values, chances = spread(law)
    y = (z[:, None] + values).ravel()
    return y, np.tile(chances, len(z)), [np.repeat(x, len(values)) for x in others]


LAWS = [dpi.Geometric(scale=1.3), dpi.Laplace(scale=1.4), dpi.Gaussian(sigma=1.5)]
EXACT = [
    *((family, law) for family in ("gaussian", "poisson") for law in LAWS),
    ("gaussian", dpi.DiscreteGaussian(sigma=1.5)),
    ("poisson", dpi.DiscreteGaussian(sigma=1.5)),
    *((f, law) for f in ("binomial", "probit", "cloglog") for law in LAWS[:2]),
    *(("negative-binomial", law) for law in LAWS[:2]),
]


@pytest.mark.parametrize(("family", "law"), EXACT)
def test_the_mean_of_the_scores_over_the_noise_is_the_confidential_score(family, law):
    # with each possible value weighted by its probability, sums over rows are expectations, whose
    # root is the confidential fit
    rng = np.random.default_rng(3)
    z, w = rng.poisson(9.0, 40).astype(float), rng.normal(size=40)
    r = {
        "gaussian": z + rng.normal(size=40),
        "poisson": rng.poisson(5.0, 40),
        "negative-binomial": rng.poisson(5.0, 40),
    }.get(family, (w > 0) * 0.6 + 0.2)
    y, chances, (repeated, response) = over_noise(law, z, w, r.astype(float))
    table = pd.DataFrame({"y": y, "w": repeated, "r": response})
    formula = "r ~ I(y / 5.0) + w + y:w"
    fit = dpi.noisy_glm(formula, table, **model(family), noise={"y": law}, weights=chances)
    confidential = smf.glm(
        formula, pd.DataFrame({"y": z, "w": w, "r": r}), family=FAMILIES[family]
    ).fit(tol=1e-13, tol_criterion="params")
    tolerance = 1e-6 if isinstance(law, (dpi.Laplace, dpi.DiscreteGaussian)) else 1e-9
    np.testing.assert_allclose(fit.params, confidential.params, atol=tolerance)
    assert np.abs(fit.naive.params - fit.params).max() > 1e-3


@pytest.mark.parametrize("law", LAWS[:2])
def test_the_dispersion_is_that_of_the_confidential_counts(law):
    # over all values that may be published the equation for the dispersion has the same mean
    rng = np.random.default_rng(12)
    z = rng.poisson(9.0, 60).astype(float)
    r = rng.poisson(rng.gamma(1.5, 4.0, 60) * np.exp(0.03 * z)).astype(float)
    own = {"family": "negative-binomial"}
    confidential = dpi.noisy_glm(r, np.column_stack([np.ones(60), z]), noise=NONE, **own)
    y, chances, (response,) = over_noise(law, z, r)
    exog = np.column_stack([np.ones(len(y)), y])
    fit = dpi.noisy_glm(response, exog, noise={"x1": law}, weights=chances, **own)
    np.testing.assert_allclose(fit.params, confidential.params, atol=1e-6)
    np.testing.assert_allclose(fit.dispersion, confidential.dispersion, rtol=1e-5)
    given = dpi.noisy_glm(
        response,
        exog,
        noise={"x1": law},
        weights=chances,
        dispersion=confidential.dispersion,
        uncertainty="noise",
        **own,
    )
    np.testing.assert_allclose(given.params, fit.params, atol=1e-5)
    # without noise its equation is that squared scores sum to the information of the model
    mean = confidential.fittedvalues
    information = mean / (1.0 + confidential.dispersion * mean)
    squared = (r - mean) ** 2 / (1.0 + confidential.dispersion * mean) ** 2
    np.testing.assert_allclose(squared.sum(), information.sum(), rtol=1e-8)
    assert "Dispersion" in str(fit.summary())


def test_corrections_of_several_noises_follow_one_another():
    rng = np.random.default_rng(4)
    first, second = dpi.Geometric(scale=0.8), dpi.Laplace(scale=0.7)
    z, w = rng.poisson(9.0, 30).astype(float), rng.normal(0.0, 3.0, 30)
    r = (rng.random(30) < 0.5) * 0.5 + 0.25
    y, chances, (w1, r1) = over_noise(first, z, w, r)
    v, more, (y2, c2, r2) = over_noise(second, w1, y, chances, r1)
    exog = np.column_stack([np.ones(len(v)), y2, v])
    keep = c2 * more > 1e-14
    fit = dpi.noisy_glm(
        r2[keep],
        exog[keep],
        family="binomial",
        noise={"x1": first, "x2": second},
        weights=(c2 * more)[keep],
    )
    plain = sm.GLM(r, np.column_stack([np.ones(30), z, w]), sm.families.Binomial())
    confidential = plain.fit(tol=1e-13, tol_criterion="params")
    np.testing.assert_allclose(fit.params, confidential.params, atol=1e-6)


@pytest.mark.parametrize("law", [dpi.Gaussian(sigma=0.7), dpi.DiscreteGaussian(sigma=1.2)])
def test_conditional_scores_have_the_mean_zero_at_the_coefficients(law):
    rng = np.random.default_rng(5)
    beta = np.array([-0.6, 0.3, 0.5])
    z, w = rng.integers(-4, 5, 40).astype(float), rng.normal(size=40)
    chance = MEANS["binomial"](beta[0] + beta[1] * z + beta[2] * w)
    y, weights, (repeated, one) = over_noise(law, z, w, chance)
    both = np.tile(np.column_stack([np.ones_like(y), y, repeated]), (2, 1))
    response = np.repeat([1.0, 0.0], len(y))
    weights = np.concatenate([weights * one, weights * (1.0 - one)])
    keep = weights > 1e-15
    fit = dpi.noisy_glm(
        response[keep], both[keep], family="binomial", noise={"x1": law}, weights=weights[keep]
    )
    assert fit.method == "conditional score"
    np.testing.assert_allclose(fit.params, beta, atol=1e-6)


def counts(rng, n, law, *, slope=0.4, unit=0.1):
    """Return noisy counts, exposures and covariates of a Poisson model, with what was published."""
    z = np.round(rng.normal(size=n) / unit)
    exposure = rng.uniform(2.0, 6.0, n)
    counts = rng.poisson(exposure * np.exp(1.0 + slope * unit * z))
    return {
        "endog": counts + rng.normal(0.0, 3.0, n),
        "exog": np.column_stack([np.ones(n), z + law.rvs(n, rng=rng)]),
        "exposure": exposure + rng.normal(0.0, 0.4, n),
        "exposure_noise": dpi.Gaussian(sigma=0.4),
        "response_noise": 3.0,
        "noise": {"x1": law},
        "family": "poisson",
    }


def test_intervals_of_poisson_coefficients_cover():
    # 120 intervals each, of 95 %: below 105 with chance 0.001 or less; the slope is that of tenths
    rng, law = np.random.default_rng(6), dpi.Geometric(scale=4.0)
    fits = [dpi.noisy_glm(**counts(rng, 500, law)) for _ in range(120)]
    ends = np.array([np.asarray(fit.conf_int()) for fit in fits])
    beta = np.array([1.0, 0.04])
    assert (((ends[..., 0] <= beta) & (beta <= ends[..., 1])).sum(axis=0) >= 105).all()
    estimates = np.array([fit.params for fit in fits])
    spread = estimates.std(axis=0) / np.sqrt(120)
    assert (np.abs(estimates.mean(axis=0) - beta) < 4.0 * spread).all()
    assert np.mean([fit.naive.params[1] for fit in fits]) < 0.033


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "law"),
    [
        ("binomial", dpi.Geometric(scale=3.0)),
        ("binomial", dpi.Laplace(scale=3.0)),
        ("poisson", dpi.Geometric(scale=1.5)),
        ("poisson", dpi.Gaussian(sigma=4.0)),
        ("gaussian", dpi.Geometric(scale=3.0)),
    ],
)
def test_intervals_for_the_noise_alone_cover_the_confidential_fit(family, law):
    # 50 intervals each, of 95 %: below 39 with chance 5e-6
    rng = np.random.default_rng(7)
    z = np.round(rng.normal(size=800) / 0.15)
    eta = -0.5 + 0.1 * z
    r = {
        "gaussian": lambda: eta + rng.normal(size=800),
        "binomial": lambda: (rng.random(800) < MEANS["binomial"](eta)) * 1.0,
        "poisson": lambda: rng.poisson(np.exp(eta)) * 1.0,
    }[family]()
    plain = sm.GLM(r, np.column_stack([np.ones(800), z]), FAMILIES[family]).fit()
    hits, wide = np.zeros(2), 0
    for turn in range(50):
        exog = np.column_stack([np.ones(800), z + law.rvs(800, rng=rng)])
        own = {"family": family, "noise": {"x1": law}, "response_noise": 0.5}
        noisy = r + rng.normal(0.0, 0.5, 800)
        fit = dpi.noisy_glm(noisy, exog, uncertainty="noise", **own)
        lower, upper = map(np.asarray, fit.conf_int())
        hits += (lower <= plain.params) & (plain.params <= upper)
        if turn < 20:
            wide += fit.bse[1] < dpi.noisy_glm(noisy, exog, **own).bse[1]
    assert (hits >= 39).all()
    assert wide > 17
