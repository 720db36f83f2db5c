"""Null models: their checks, and the counts they draw."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer import DPInferError
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import (
    Binomial,
    Independence,
    Multinomial,
    Poisson,
    ProductMultinomial,
)

MODELS = [
    Binomial(nobs=50, value=0.3),
    Poisson(rate=7.5),
    Poisson(rate=[0.5, 4.0]),
    Multinomial(nobs=30, value=[0.2, 0.3, 0.5]),
    ProductMultinomial(nobs=[10, 20], value=[0.2, 0.3, 0.5]),
    ProductMultinomial(nobs=[10, 20], value=[[0.5, 0.5], [0.1, 0.9]]),
    Independence(nobs=40, rows=[0.25, 0.75], columns=[0.2, 0.3, 0.5]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_draws_have_the_expected_counts(model):
    size = 20_000
    counts = model.draw(size, np.random.default_rng(1))
    assert counts.dtype == np.float64
    assert counts.shape == (size, *model.shape) == (size, *model.expected.shape)
    error = counts.std(axis=0) / np.sqrt(size)
    # 6 standard errors: 2e-9 for each cell
    assert (np.abs(counts.mean(axis=0) - model.expected) < 6 * error).all()


def test_cells_of_independence_are_products_row_by_row():
    model = MODELS[6]
    np.testing.assert_allclose(model.value, [0.05, 0.075, 0.125, 0.15, 0.225, 0.375], rtol=1e-15)
    (total,) = model.totals
    np.testing.assert_array_equal(total, model.value)
    assert (model.draw(100, np.random.default_rng(4)).sum(axis=1) == 40).all()


def test_totals_are_fixed():
    rng = np.random.default_rng(2)
    assert (MODELS[3].draw(100, rng).sum(axis=1) == 30).all()
    rows = MODELS[4].draw(100, rng).reshape(100, 2, 3)
    assert (rows.sum(axis=2) == [10, 20]).all()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_travel_to_workers(model):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.expected, model.expected)
    np.testing.assert_array_equal(
        copy.draw(5, np.random.default_rng(3)), model.draw(5, np.random.default_rng(3))
    )


def test_probabilities_are_rid_of_their_rounding():
    assert Multinomial(nobs=3, value=[0.1] * 10).value.sum() == pytest.approx(1.0, abs=1e-15)
    assert not MODELS[3].value.flags.writeable


@pytest.mark.parametrize(
    ("model", "parameters", "named"),
    [
        (Binomial, {"nobs": 0, "value": 0.5}, "nobs"),
        (Binomial, {"nobs": 2.5, "value": 0.5}, "nobs"),
        (Binomial, {"nobs": 2, "value": 1.0}, "value"),
        (Poisson, {"rate": 0.0}, "rate"),
        (Poisson, {"rate": [[1.0]]}, "rate"),
        (Poisson, {"rate": 1e16}, "rate"),
        (Multinomial, {"nobs": 5, "value": [0.5, 0.6]}, "add up to 1"),
        (Multinomial, {"nobs": 5, "value": [1.0]}, "2 cells"),
        (Multinomial, {"nobs": 5, "value": [0.0, 1.0]}, "value"),
        (ProductMultinomial, {"nobs": [5], "value": [[0.5, 0.5]] * 2}, "value"),
        (ProductMultinomial, {"nobs": [[5]], "value": [0.5, 0.5]}, "nobs"),
        (ProductMultinomial, {"nobs": [5, 0], "value": [0.5, 0.5]}, "nobs"),
        (ProductMultinomial, {"nobs": [5], "value": 0.5}, "value"),
        (Independence, {"nobs": 0, "rows": [0.5, 0.5], "columns": [0.5, 0.5]}, "nobs"),
        (
            Independence,
            {"nobs": 5, "rows": [1.0], "columns": [0.5, 0.5]},
            "rows must have at least",
        ),
        (Independence, {"nobs": 5, "rows": [0.5, 0.5], "columns": [0.5, 0.6]}, "columns must add"),
        (Independence, {"nobs": 5, "rows": [0.0, 1.0], "columns": [0.5, 0.5]}, "rows"),
        (Independence, {"nobs": 5, "rows": [[0.5, 0.5]], "columns": [0.5, 0.5]}, "rows"),
    ],
)
def test_bad_parameters(model, parameters, named):
    with pytest.raises(InvalidParameterError, match=named):
        model(**parameters)


ANYTHING = st.one_of(
    st.none(), st.text(max_size=3), st.complex_numbers(), st.floats(), st.integers(),
    st.lists(st.one_of(st.floats(), st.integers(-3, 3), st.none()), max_size=4),
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=200)
@given(first=ANYTHING, second=ANYTHING)
def test_bad_parameters_raise_nothing_else(first, second):
    for model in (Binomial, Multinomial, ProductMultinomial):
        try:
            drawn = model(nobs=first, value=second).draw(2, np.random.default_rng(1))
        except DPInferError:
            continue
        assert np.isfinite(drawn).all()


@settings(derandomize=True, deadline=None, max_examples=100)
@given(nobs=ANYTHING, rows=ANYTHING, columns=ANYTHING)
def test_bad_margins_raise_nothing_else(nobs, rows, columns):
    for arguments in ((nobs, rows, columns), (9, rows, [0.5, 0.5]), (9, [0.5, 0.5], columns)):
        try:
            model = Independence(*arguments)
        except DPInferError:
            continue
        assert np.isfinite(model.draw(2, np.random.default_rng(1))).all()
