"""Second noisy measurements as instruments: closed forms, statsmodels, simulation, refusals."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.sandbox.regression.gmm import IV2SLS

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import noisy_ols

LAW = dpi.Laplace(scale=0.7)
COLUMNS = ["const", "x", "u"]


def drawn(n, rng, law=LAW):
    x, u = rng.gamma(2.0, size=n), rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": x + law.rvs(n, rng=rng),
            "again": x + law.rvs(n, rng=rng),
            "u": u,
            "y": 1.0 + 2.0 * x - u + rng.normal(size=n) * (1.0 + 0.3 * x),
        }
    )


def written_out(table, weights, cov_type):
    """The estimate and its covariance as in the books, a row at a time."""
    one, y = np.ones(len(table)), table["y"].to_numpy()
    x = np.column_stack([one, table["x"], table["u"]])
    z = np.column_stack([one, table["again"], table["u"]])
    left = (z * weights[:, None]).T @ x
    beta = np.linalg.solve(left, z.T @ (weights * y))
    inverse = np.linalg.inv(left)
    scores = z * (weights * (y - x @ beta))[:, None]
    if cov_type == "HC3":
        changes = []
        for i in range(len(x)):
            rest = left - weights[i] * np.outer(z[i], x[i])
            right = z.T @ (weights * y) - weights[i] * z[i] * y[i]
            changes.append(np.linalg.solve(rest, right) - beta)
        return beta, np.transpose(changes) @ changes
    factor = {"HC0": 1.0, "HC1": len(x) / (len(x) - 3.0)}[cov_type]
    return beta, factor * inverse @ (scores.T @ scores) @ inverse.T


@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC3"])
def test_closed_form(cov_type):
    rng = np.random.default_rng(1)
    table = drawn(60, rng)
    weights = rng.uniform(0.5, 2.0, 60)
    beta, covariance = written_out(table, weights, cov_type)
    options = {"weights": weights, "cov_type": cov_type}
    fit = noisy_ols("y ~ x + u", table, noise={"x": LAW}, instrument={"x": "again"}, **options)
    np.testing.assert_allclose(fit.params, beta, rtol=1e-9)
    np.testing.assert_allclose(fit.cov_params(), covariance, rtol=1e-8)
    matrix = table.assign(const=1.0)[["const", "x", "u"]]
    arrays = noisy_ols(
        table["y"], matrix, noise={"x": LAW}, instrument={"x": table["again"]}, **options
    )
    np.testing.assert_allclose(arrays.params, beta, rtol=1e-9)
    carried = {
        "x": dpi.Release(table["x"], mechanism=LAW),
        "again": dpi.Release(table["again"], mechanism=LAW),
        "y": table["y"],
        "u": table["u"],
    }
    held = noisy_ols("y ~ x + u", carried, instrument={"x": "again"}, **options)
    np.testing.assert_allclose(held.params, beta, rtol=1e-9)
    assert "instrumental variables" in str(fit.summary())


def test_it_is_statsmodels():
    table = drawn(300, np.random.default_rng(2), dpi.Laplace(scale=1e-3))
    fit = noisy_ols("y ~ x + u", table, noise={"x": 0.0}, instrument={"x": "again"}, cov_type="HC0")
    exog, instruments = (table.assign(const=1.0)[["const", name, "u"]] for name in ("x", "again"))
    peer = IV2SLS(table["y"], exog, instruments).fit()
    np.testing.assert_allclose(fit.params, peer.params, rtol=1e-8)
    np.testing.assert_allclose(fit.resid, peer.resid, rtol=1e-8)
    # without noise in the second either, least squares
    same = noisy_ols(
        "y ~ x + u", table, noise={"x": 0.0}, instrument={"x": table["x"] * (1 + 1e-15)}
    )
    np.testing.assert_allclose(same.params, same.naive.params, rtol=1e-8)
    np.testing.assert_allclose(same.bse, same.naive.bse, rtol=1e-8)


def test_the_noise_of_other_columns_is_taken_off():
    """Means within six standard errors: a chance below 1e-8 to fail by accident."""
    rng, found = np.random.default_rng(3), []
    for _ in range(60):
        table = drawn(1000, rng).assign(const=1.0)
        table["u"] += rng.normal(size=1000) * 0.8
        fit = noisy_ols(
            table["y"], table[COLUMNS], noise={"x": LAW, "u": 0.8}, instrument={"x": table["again"]}
        )
        found.append(fit.params)
    found = np.array(found)
    error = found.mean(axis=0) - [1.0, 2.0, -1.0]
    assert (np.abs(error) < 6.0 * found.std(axis=0) / np.sqrt(60)).all()
    assert abs(fit.naive.params["u"] + 1.0) > 0.2


def test_consistent_beside_the_corrected_estimate():
    """Six standard errors, and 95 % sets that miss 5 % of 100: 20 or more once in 1e7."""
    rng, found, misses, spread = np.random.default_rng(4), [], 0, []
    for _ in range(100):
        table = drawn(200, rng).assign(const=1.0)
        call = {"endog": table["y"], "exog": table[COLUMNS], "noise": {"x": LAW}, "cov_type": "HC1"}
        fit = noisy_ols(**call, instrument={"x": table["again"]})
        found.append([fit.params["x"], noisy_ols(**call).params["x"]])
        spread.append(fit.bse["x"])
        misses += not fit.conf_int()["x"].contains(2.0)
    found = np.array(found)
    assert (np.abs(found.mean(axis=0) - 2.0) < 6.0 * found.std(axis=0) / np.sqrt(100)).all()
    assert misses < 20
    assert np.mean(spread) == pytest.approx(found[:, 0].std(), rel=0.45)


def test_rows_with_missing_measurements_are_left_out():
    table = drawn(80, np.random.default_rng(5))
    fit = noisy_ols("y ~ x + u", table.drop(3), noise={"x": LAW}, instrument={"x": "again"})
    table.loc[3, "again"] = np.nan
    for given in ("again", table["again"]):
        other = noisy_ols(
            "y ~ x + u", table, noise={"x": LAW}, instrument={"x": given}, missing="drop"
        )
        np.testing.assert_allclose(other.params, fit.params, rtol=1e-9)


def test_unrelated_instruments_bound_nothing():
    rng = np.random.default_rng(6)
    table = drawn(100, rng)
    fit = noisy_ols("y ~ x + u", table, noise={"x": LAW}, instrument={"x": rng.normal(size=100)})
    assert np.isinf(fit.conf_int()["x"].upper)
    assert any("shares with its covariate" in note for note in fit.notes)


TABLE = drawn(50, np.random.default_rng(7))
TWICE = dpi.noisy(
    np.tile(TABLE["x"], 2) + np.repeat([0.0, 0.1], 50),
    mechanism=LAW,
    weights=np.vstack([np.eye(50), 0.5 * np.eye(50)]),
)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"instrument": "again"}, InvalidParameterError, "must be a mapping"),
        ({"instrument": {"u": "again"}}, InvalidParameterError, "noisy covariates"),
        ({"instrument": {"y": "again"}}, InvalidParameterError, "as keys covariates"),
        ({"instrument": {"x": "none"}}, InvalidParameterError, "column of the data"),
        ({"instrument": {"x": "x"}}, InvalidParameterError, "published column itself"),
        ({"instrument": {"x": np.ones(50)}}, NotEstimableError, "do not vary"),
        ({"instrument": {"x": np.ones(49)}}, InvalidParameterError, "one entry for each"),
        ({"method": "fuller"}, InvalidParameterError, "instrument must be left out"),
        ({"uncertainty": "noise"}, InvalidParameterError, "instrument must be left out"),
        ({"nonlinear": "delta"}, InvalidParameterError, "instrument must be left out"),
        (
            {"noise": {"x": 0.5, "again": 0.5, ("x", "again"): 0.1}},
            InvalidParameterError,
            "independent of those of all columns",
        ),
        ({"endog": "y ~ x + I(x**2)"}, InvalidParameterError, "squares or products"),
        (
            {
                "exog": {"x": TWICE.take(range(50)), "y": TABLE["y"], "u": TABLE["u"]},
                "noise": None,
                "instrument": {"x": TWICE.take(range(50, 100))},
            },
            InvalidParameterError,
            "share noises",
        ),
    ],
)
def test_refusals(change, error, message):
    call = {"endog": "y ~ x + u", "exog": TABLE, "noise": {"x": LAW, "y": 0.1}}
    call |= {"instrument": {"x": "again"}} | change
    with pytest.raises(error, match=message):
        noisy_ols(call.pop("endog"), call.pop("exog"), **call)


@pytest.mark.parametrize("instrument", ["q", "y", "twice"])
def test_what_is_in_the_model_is_no_instrument(instrument):
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"p": rng.poisson(20, 200), "q": rng.poisson(20, 200)})
    table["y"] = 5 + 0.5 * table.p + rng.normal(size=200)
    table["twice"] = 2 * table.p + 1
    law = dpi.Geometric(scale=2.0)
    with pytest.raises(InvalidParameterError, match=r"not in the model|noise of its own"):
        noisy_ols("y ~ p + q", table, noise={"p": law, "q": law}, instrument={"p": instrument})
