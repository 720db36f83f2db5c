"""What corrected scores do not cover is refused, with what can be done instead."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError

Z = np.arange(60.0) % 13
EXOG = np.column_stack([np.ones(60), Z])
COUNTS = np.round(np.exp(0.1 * Z)) + np.arange(60) % 3
SICK = (np.arange(60) * 7 % 13 < Z) * 1.0
LAW = dpi.Laplace(scale=1.0)
GAUSS = dpi.Gaussian(sigma=0.5)
NB = {"family": "negative-binomial"}
PROBIT = {"family": "binomial", "link": "probit", "endog": SICK}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"family": "gamma"}, InvalidParameterError, "family must be"),
        ({"noise": None}, InvalidParameterError, "noise must be given"),
        ({"noise": {"x1": 1.0}}, InvalidParameterError, "Laplace, Geometric"),
        ({"noise": {"x1": 1.0, "const": 1.0, ("x1", "const"): 0.1}}, InvalidParameterError, "cov"),
        ({"noise": {"x1": dpi.DiscreteGaussian(sigma=0.4)}}, InvalidParameterError, "sigma >= 1"),
        ({"noise": {"x1": dpi.Laplace(scale=9.0)}}, NotEstimableError, "drowns the covariates"),
        ({"endog": COUNTS - 2.0}, InvalidParameterError, "endog must be 0 or more"),
        ({"endog": COUNTS * 0.0}, NotEstimableError, "sums above 0"),
        ({"endog": COUNTS, "family": "binomial"}, InvalidParameterError, "from 0 to 1"),
        ({"endog": SICK, "family": "binomial", "exposure": 2.0}, InvalidParameterError, "counts"),
        ({"endog": (Z > 5) * 1.0, "family": "binomial"}, ConvergenceError, "separate"),
        ({"exposure": -1.0}, InvalidParameterError, "exposure must be"),
        ({"exposure": "people"}, InvalidParameterError, "exposure must be numbers"),
        ({"exposure_noise": LAW}, InvalidParameterError, "without exposure"),
        ({"response_noise": 1.0, "noise": {"y": 1.0}}, InvalidParameterError, "left out"),
        ({"cov_type": "HC3"}, InvalidParameterError, "cov_type must be"),
        ({"cov_type": "cluster"}, InvalidParameterError, "groups must be given"),
        ({"groups": Z, "cov_type": "cluster", "uncertainty": "noise"}, InvalidParameterError, "no"),
        ({"uncertainty": "all"}, InvalidParameterError, "uncertainty must be"),
        ({"link": "probit"}, InvalidParameterError, "link must be"),
        ({"dispersion": 1.0}, InvalidParameterError, "dispersion must be left out"),
        ({**NB, "dispersion": 0.0}, InvalidParameterError, "dispersion must be"),
        ({**NB, "noise": {"x1": GAUSS}}, InvalidParameterError, "Gaussian noise has"),
        ({**NB, "exposure": 3.0, "exposure_noise": LAW}, InvalidParameterError, "free of noise"),
        ({**NB, "uncertainty": "noise"}, InvalidParameterError, "dispersion must be given"),
        ({**NB}, NotEstimableError, "no more than Poisson"),
        ({**PROBIT, "noise": {"x1": GAUSS}}, InvalidParameterError, "Gaussian noise has"),
        ({**PROBIT, "noise": {"x1": 0.5}}, InvalidParameterError, "Laplace, Geometric"),
        ({"offset": "people"}, InvalidParameterError, "offset must be numbers"),
        ({"offset": 400.0}, InvalidParameterError, "offset must be <= 300"),
        ({"offset": [1.0, 2.0]}, InvalidParameterError, "offset must be a number"),
        ({"offset": dpi.Release(Z, mechanism=LAW)}, InvalidParameterError, "free of noise"),
        ({"exog": EXOG[:, [0, 0]]}, NotEstimableError, "linearly dependent"),
    ],
)
def test_refusals(change, error, message):
    call = {"endog": COUNTS, "exog": EXOG, "family": "poisson", "noise": {"x1": LAW}}
    with pytest.raises(error, match=message):
        dpi.noisy_glm(**(call | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"endog": 0.1 + 0.8 * SICK}, "0 and 1"),
        ({"response_noise": 0.1}, "0 and 1"),
        ({"uncertainty": "noise"}, "conditional scores rest"),
        ({"noise": {"x1": dpi.Gaussian(sigma=1.0), "const": LAW}}, "in all covariates or in none"),
    ],
)
def test_refusals_of_conditional_scores(change, message):
    call = {"endog": SICK, "exog": EXOG, "family": "binomial"}
    with pytest.raises(InvalidParameterError, match=message):
        dpi.noisy_glm(**(call | {"noise": {"x1": dpi.Gaussian(sigma=1.0)}} | change))


def test_formulas_are_linear_in_noisy_columns_that_are_not_in_the_response():
    table = pd.DataFrame({"n": COUNTS, "z": Z})
    with pytest.raises(InvalidParameterError, match="formula must be linear") as caught:
        dpi.noisy_glm("n ~ z + I(z**3)", table, family="poisson", noise={"z": LAW})
    assert "delta" not in str(caught.value)
    with pytest.raises(InvalidParameterError, match="in both"):
        dpi.noisy_glm("I(n - z) ~ z", table, family="gaussian", noise={"z": LAW})


def test_coefficients_beyond_the_moments_of_the_noise_are_refused():
    rng = np.random.default_rng(8)
    z = rng.normal(size=400)
    y = z + dpi.Laplace(scale=0.6).rvs(400, rng=rng)
    counts = rng.poisson(np.exp(1.0 + z))
    with pytest.raises((ConvergenceError, NotEstimableError)):
        dpi.noisy_glm(
            counts,
            np.column_stack([np.ones(400), y]),
            family="poisson",
            noise={"x1": dpi.Laplace(scale=0.6)},
        )


def test_formulas_arrays_and_releases_give_the_same():
    rng = np.random.default_rng(9)
    law = dpi.Geometric(scale=0.8)
    names = [f"area {i}" for i in range(60)]
    table = pd.DataFrame(
        {"n": COUNTS + rng.normal(size=60), "z": Z + law.rvs(60, rng=rng), "people": 50.0 + Z},
        index=names,
    )
    own = {"family": "poisson", "response_noise": 1.0}
    named = dpi.noisy_glm(
        "n ~ z", table, noise={"z": law}, exposure="people", exposure_noise=2.0, **own
    )
    plain = dpi.noisy_glm(
        table["n"].to_numpy(),
        np.column_stack([np.ones(60), table["z"]]),
        noise={"x1": law},
        exposure=table["people"].to_numpy(),
        exposure_noise=2.0,
        **own,
    )
    people = dpi.Release(table["people"], mechanism=dpi.Gaussian(sigma=2.0))
    released = dpi.noisy_glm(
        table["n"],
        {"const": np.ones(60), "z": dpi.Release(table["z"], mechanism=law)},
        exposure=people,
        **own,
    )
    np.testing.assert_allclose(named.params, plain.params, rtol=1e-10)
    np.testing.assert_allclose(released.params, plain.params, rtol=1e-10)
    assert list(named.params.index) == ["Intercept", "z"]
    assert list(named.fittedvalues.index) == names
    assert named.converged
    assert named.guarantee == "asymptotic"
    new = named.predict(table.iloc[:3], exposure=2.0)
    np.testing.assert_allclose(
        new, 2.0 * np.exp(named.params.iloc[0] + named.params.iloc[1] * table["z"].iloc[:3])
    )
    np.testing.assert_array_equal(named.roots[0], named.params)


def test_shift_and_scale_of_a_covariate_move_coefficients_as_they_should():
    table = pd.DataFrame({"sick": SICK, "z": Z})
    own = {"family": "binomial", "noise": {"z": dpi.Geometric(scale=0.7)}}
    first = dpi.noisy_glm("sick ~ z", table, **own)
    other = dpi.noisy_glm("sick ~ I((z - 3) / 10)", table, **own)
    slope = first.params.iloc[1]
    np.testing.assert_allclose(other.params, [first.params.iloc[0] + 3 * slope, 10 * slope])
    np.testing.assert_allclose(other.bse.iloc[1], 10 * first.bse.iloc[1])
