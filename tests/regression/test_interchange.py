"""Frames and series of polars and pyarrow give what those of pandas give, names and labels too."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from other_frames import arrow, polars

from dpinfer import Gaussian, Laplace
from dpinfer.errors import InvalidParameterError
from dpinfer.regression import noisy_ols


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    size = 60
    people = rng.gamma(4.0, 25.0, size)
    return pd.DataFrame(
        {
            "visits": 10.0 + 0.5 * people + rng.normal(0.0, 5.0, size),
            "people": people + Laplace(scale=5.0).rvs(size, rng=rng),
            "age": rng.integers(20, 70, size),
            "region": rng.choice(["north", "south", "west"], size),
            "sd": rng.uniform(4.0, 9.0, size),
            "weight": rng.uniform(1.0, 2.0, size),
        }
    )


def assert_same(fit, wanted):
    pd.testing.assert_frame_equal(fit.summary_frame(), wanted.summary_frame())
    pd.testing.assert_frame_equal(fit.cov_params(), wanted.cov_params())
    pd.testing.assert_series_equal(fit.resid, wanted.resid)
    assert fit.summary() == wanted.summary()


FORMULAS = [
    ("visits ~ people + region", {"noise": {"people": Laplace(scale=5.0)}}),
    ("visits ~ people*region + age", {"noise": {"people": "sd"}, "weights": "weight"}),
    (
        "visits ~ people + age",
        {"noise": {"people": 4.0, "visits": 2.0}, "cov_type": "cluster", "groups": "region"},
    ),
    ("I(visits / people) ~ age", {"noise": {"people": 1.0}, "nonlinear": "delta"}),
]


@pytest.mark.parametrize(("formula", "options"), FORMULAS)
def test_formulas(foreign, table, formula, options):
    fit, wanted = (noisy_ols(formula, data, **options) for data in (foreign(table), table))
    assert_same(fit, wanted)
    new = table.iloc[:4]
    pd.testing.assert_series_equal(fit.predict(foreign(new)), wanted.predict(new))


def test_columns_as_arguments(foreign, table):
    data = foreign(table)
    formula = "visits ~ people + age"

    def fitted(frame):
        common = {"noise": {"people": frame["sd"]}, "weights": frame["weight"]}
        groups = {"cov_type": "cluster", "groups": frame["region"]}
        return noisy_ols(formula, frame, **common, **groups)

    assert_same(fitted(data), fitted(table))
    wanted = fitted(table)
    categories = pa.chunked_array([table["region"].to_list()]).dictionary_encode()
    for groups in (categories, categories.combine_chunks()):
        options = {"noise": {"people": "sd"}, "weights": "weight", "cov_type": "cluster"}
        assert_same(noisy_ols(formula, data, groups=groups, **options), wanted)


def test_matrices(foreign, table):
    response, columns = table[["visits"]], table[["age", "people"]].assign(const=1.0)
    noise = {"people": Gaussian(sigma=3.0), "visits": 2.0, ("people", "visits"): 1.0}
    wanted = noisy_ols(response, columns, noise=noise)
    fit = noisy_ols(foreign(response), foreign(columns), noise=noise)
    assert_same(fit, wanted)
    new = columns.iloc[:5]
    pd.testing.assert_series_equal(fit.predict(foreign(new)), wanted.predict(new))
    with pytest.raises(InvalidParameterError, match="exog must have the columns"):
        fit.predict(foreign(new[["people", "age", "const"]]))


def test_series_have_their_names(table):
    noise = {"people": 3.0, "visits": 2.0}
    wanted = noisy_ols(table["visits"], table["people"], noise=noise)
    data = polars(table)
    assert_same(noisy_ols(data["visits"], data["people"], noise=noise), wanted)
    noise = {"x1": 3.0, "y": 2.0}  # an array of pyarrow has none
    wanted = noisy_ols(table["visits"].rename(None), table["people"].rename(None), noise=noise)
    data = arrow(table)
    assert_same(noisy_ols(data["visits"], data["people"], noise=noise), wanted)


def test_labels_are_those_of_the_argument_that_has_some(foreign, table):
    named = table.set_index(pd.Index([f"block {row}" for row in range(len(table))]))
    formula, noise = "visits ~ people", {"people": "sd"}
    wanted = noisy_ols(formula, named, noise=noise, weights="weight")
    assert_same(
        noisy_ols(formula, named, noise=noise, weights=foreign(table)["weight"]),
        wanted,
    )
    response, columns = named["visits"], named[["people", "age"]]
    noise = {"people": 3.0}
    wanted = noisy_ols(response, columns, noise=noise)
    other, plain = foreign(table), columns.to_numpy()
    assert_same(noisy_ols(response, other.select(["people", "age"]), noise=noise), wanted)
    fit = noisy_ols(foreign(table[["visits"]]), columns, noise=noise)
    assert_same(fit, wanted)
    # a response with a name, and a matrix without
    wanted = noisy_ols(table["visits"], plain, noise={"x1": 3.0})
    assert_same(noisy_ols(foreign(table[["visits"]]), plain, noise={"x1": 3.0}), wanted)


def test_labels_in_the_metadata_of_pyarrow_are_labels(table):
    named = table.set_index(pd.Index(range(7, 7 + len(table)), name="block"))
    data = pa.Table.from_pandas(named)
    columns, noise = named[["people", "age"]], {"people": 3.0}
    wanted = noisy_ols(named["visits"], columns, noise=noise)
    assert_same(noisy_ols(named["visits"], data.select(["people", "age"]), noise=noise), wanted)
    with pytest.raises(InvalidParameterError, match="exog must have the labels of endog"):
        noisy_ols(table["visits"], data.select(["people", "age"]), noise=noise)


def test_hypotheses(foreign, table):
    data = table[["visits", "people", "age"]]
    fit = noisy_ols("visits ~ people + age", data, noise={"people": 4.0})
    weights = pd.DataFrame({"Intercept": [0.0, 0.0], "people": [1.0, 0.0], "age": [0.0, 1.0]})
    for test in (fit.t_test, fit.wald_test):
        wanted, found = test(weights), test(foreign(weights))
        np.testing.assert_allclose(found.pvalue, wanted.pvalue, rtol=1e-14)


def test_missing_values_and_queries_that_hold_no_table(foreign, table):
    holes = table.assign(people=table["people"].where(table["people"] > 60.0))
    with pytest.raises(InvalidParameterError, match="must not"):
        noisy_ols("visits ~ people", foreign(holes), noise={"people": 1.0})
    with pytest.raises(InvalidParameterError, match="exog must be"):
        noisy_ols("visits ~ people", [["people", 1.0]], noise={"people": 1.0})
    pl = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(InvalidParameterError, match="exog must be a table that has been computed"):
        noisy_ols("visits ~ people", pl.DataFrame({"a": [1]}).lazy(), noise={"people": 1.0})
