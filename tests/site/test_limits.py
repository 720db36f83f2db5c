"""The page of limits says what the library refuses, and does not have, and that is so."""

import inspect

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer import Geometric
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy import GDP, RDP, ZCDP, ApproxDP, PureDP

ADD_REMOVE = ZCDP(0.5)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (ZCDP(0.1).to_gdp, "implies no GDP: no formula"),
        (RDP(2.0, 0.3).to_gdp, "implies no GDP"),
        (RDP(2.0, 0.3).to_zcdp, "implies no zCDP"),
        (ApproxDP(1.0, 1e-6).to_zcdp, "implies no zCDP"),
        (ApproxDP(1.0, 1e-6).to_gdp, "implies no GDP"),
        (ApproxDP(1.0, 1e-6).to_pure_dp, "implies no ε-DP"),
    ],
)
def test_conversions_that_do_not_exist(convert, message):
    with pytest.raises(InvalidParameterError, match=message):
        convert()


def test_the_conversion_of_concentrated_privacy_is_valid_and_not_exact():
    rho, delta = 0.1, 1e-6
    gaussian = GDP(np.sqrt(2 * rho)).to_approx_dp(delta)
    assert gaussian.epsilon < ZCDP(rho).to_approx_dp(delta).epsilon


@pytest.mark.parametrize(
    "refused",
    [
        lambda: dpi.curation.compare_spending(PureDP(1.0), 5.0, mechanism=Geometric),
        lambda: dpi.amplify(PureDP(1.0), rate=0.1, scheme="cluster"),
        lambda: dpi.privacy.SmoothNoise.for_guarantee(PureDP(1.0)),
        lambda: dpi.curation.multiplicative_weights([3, 4], np.eye(2), guarantee=ADD_REMOVE),
    ],
    ids=["compare_spending", "amplify", "SmoothNoise", "multiplicative_weights"],
)
def test_what_is_refused(refused):
    with pytest.raises((InvalidParameterError, IncompatibleReleaseError)):
        refused()


def test_regression_where_the_noise_is_as_wide_as_a_covariate():
    rng = np.random.default_rng(1)
    exog = np.column_stack([np.ones(30), rng.normal(size=30)])
    with pytest.raises(DPInferError, match="drowns the covariates"):
        dpi.noisy_ols(rng.normal(size=30), exog, noise={"x1": 9.0})
    fit = dpi.noisy_ols(rng.normal(size=30), exog, noise={"x1": 9.0}, method="fuller")
    assert np.isfinite(fit.params).all()


def test_plans_of_widths_are_two_sided():
    for procedure in (dpi.proportion_confint, dpi.poisson_confint, dpi.ratio_confint):
        described = dpi.plan.describe(procedure)
        assert described.startswith("width of")
        assert "alternative" not in described
    for function in (dpi.proportion_confint, dpi.ratio_confint, dpi.count_confint):
        assert "alternative" in inspect.signature(function).parameters
