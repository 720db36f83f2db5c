"""Rows with missing values: refused, or left out as if they had not been given."""

import numpy as np
import pandas as pd
import pytest

from dpinfer import Laplace, Release
from dpinfer.errors import InvalidParameterError
from dpinfer.regression import noisy_ols

RNG = np.random.default_rng(5)
N = 60
TABLE = pd.DataFrame(
    {
        "y": RNG.normal(size=N),
        "x": RNG.normal(10.0, 3.0, N),
        "x z": RNG.normal(size=N),
        "std": RNG.uniform(0.2, 0.5, N),
        "w": RNG.uniform(1.0, 2.0, N),
        "other": np.nan,
    },
    index=[f"r{i}" for i in range(N)],
)
HOLES = {"y": 3, "x": 7, "x z": 11, "std": 20, "w": 31}
FULL = TABLE.drop(index=[f"r{at}" for at in HOLES.values()])
for column, row in HOLES.items():
    TABLE.iloc[row, TABLE.columns.get_loc(column)] = np.nan
HOW = {"noise": {"x": "std"}, "weights": "w"}


def check(fit, other):
    assert fit.nobs == other.nobs == N - len(HOLES)
    np.testing.assert_array_equal(fit.params, other.params)
    np.testing.assert_array_equal(fit.cov_params(), other.cov_params())


def test_formula():
    formula = "y ~ x + Q('x z')"
    fit = noisy_ols(formula, TABLE, **HOW, missing="drop")
    check(fit, noisy_ols(formula, FULL, **HOW))
    assert list(fit.resid.index) == list(FULL.index)
    with pytest.raises(InvalidParameterError, match=r"missing='drop'|NaN"):
        noisy_ols(formula, TABLE, **HOW)
    # what the formula does not name may be missing, and rows are those of the columns it names
    assert noisy_ols("y ~ x", TABLE, noise={"x": 0.3}, missing="drop").nobs == N - 2


def test_arrays_laws_and_groups():
    def fit(table, **how):
        scales = np.where(np.isnan(table["std"]), 1.0, table["std"])
        groups = np.arange(N)[TABLE.index.isin(table.index)] // 4
        return noisy_ols(
            table["y"].to_numpy(),
            np.column_stack([np.ones(len(table)), table["x"], table["x z"]]),
            noise={"x1": Laplace(scale=scales)},
            weights=np.where(np.isnan(table["std"]), np.nan, table["w"]),
            groups=groups,
            cov_type="cluster",
            **how,
        )

    check(fit(TABLE, missing="drop"), fit(FULL))
    with pytest.raises(InvalidParameterError, match="NaN"):
        fit(TABLE)


def test_columns_that_carry_their_law():
    law = Laplace(scale=0.5)
    x = np.arange(6.0)
    data = {"x": Release(x, mechanism=law), "y": [1.0, 2.2, np.nan, 3.9, 5.1, 6.2]}
    fit = noisy_ols("y ~ x", data, missing="drop")
    kept = [0, 1, 3, 4, 5]
    known = {"x": Release(x[kept], mechanism=law), "y": np.array(data["y"])[kept]}
    np.testing.assert_allclose(fit.params, noisy_ols("y ~ x", known).params, rtol=1e-12)


def test_refusals():
    with pytest.raises(InvalidParameterError, match="missing must be"):
        noisy_ols("y ~ x", FULL, noise={"x": 0.3}, missing="none")
    nothing = FULL.assign(x=np.nan)
    with pytest.raises(InvalidParameterError, match="without missing values"):
        noisy_ols("y ~ x", nothing, noise={"x": 0.3}, missing="drop")
