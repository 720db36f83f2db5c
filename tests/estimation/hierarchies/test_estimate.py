"""What the estimates of a hierarchy offer beyond their values."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import combine, combine_hierarchy
from dpinfer.mechanisms import Gaussian, Laplace

PARENT = [-1, 0, 0]
VALUES = [20.0, 6.0, 8.0]


@pytest.fixture
def fit():
    return combine_hierarchy(VALUES, PARENT, mechanism=Laplace(scale=2.0))


def test_functions_are_those_of_least_squares(fit):
    rows = np.array([[0.0, 1.0, -1.0], [1.0, 1.0, 1.0]])
    found = fit.contrast(rows)
    # the units as sums of the two leaves
    units = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    other = combine(VALUES, workload=units, mechanism=Laplace(scale=2.0), target=rows @ units)
    assert len(found) == 2
    assert repr(found) == "LinearEstimate(2 functions of 3 noises)"
    np.testing.assert_allclose(found.params, other.params, rtol=1e-12)
    np.testing.assert_allclose(found.cov_params(), other.cov_params(), rtol=1e-12, atol=1e-12)
    # dependent estimates: simultaneous intervals by simulation, from the same draws
    options = {"simultaneous": True, "reps": 999, "rng": 4}
    np.testing.assert_allclose(
        np.asarray(found.conf_int(0.1, **options)),
        np.asarray(other.conf_int(0.1, **options)),
        rtol=1e-9,
    )


def test_an_only_child_is_its_parent():
    # chains of one child each share everything with the child
    parent = [-1, 0, 1, 2]
    values = np.array([5.0, 9.0, 6.0, 8.0])
    sigma = np.array([1.0, 2.0, 1.0, 4.0])
    found = combine_hierarchy(values, parent, mechanism=Gaussian(sigma=sigma))
    precision = 1 / sigma**2
    np.testing.assert_allclose(found.params, (values @ precision) / precision.sum(), rtol=1e-13)
    np.testing.assert_allclose(found.variance, 1 / precision.sum(), rtol=1e-13)


def test_only_children_beside_children_that_share_unevenly():
    # the first child of the root knows almost nothing, the others have one child each
    parent = [-1, 0, 0, 1, 2]
    laws = [Gaussian(sigma=sigma) for sigma in (1.0, 1e9, 1.0, 1e9, 2.0)]
    values = [50.0, 10.0, 30.0, 12.0, 33.0]
    found = combine_hierarchy(values, parent, mechanism=laws)
    units = np.array([[1.0, 1], [1, 0], [0, 1], [1, 0], [0, 1]])
    other = combine(values, workload=units, mechanism=laws, target=units)
    np.testing.assert_allclose(found.params, other.params, rtol=1e-9)
    np.testing.assert_allclose(found.bse, other.bse, rtol=1e-9)


def test_covariances_of_too_many_units_are_refused():
    parent = np.append(-1, np.zeros(5001, dtype=int))
    fit = combine_hierarchy(np.zeros(5002), parent, mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match=r"units must be at most 5000 .* got 5002"):
        fit.cov_params()
    assert fit.cov_params([0, 1]).shape == (2, 2)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda fit: fit.weights(), "units must be fewer got 3"),
        (
            lambda fit: fit.conf_int(simultaneous=True),
            "units must be fewer, or method 'asymptotic'",
        ),
    ],
)
def test_weights_that_do_not_fit_into_memory_are_refused(fit, use, message, monkeypatch):
    monkeypatch.setattr("dpinfer.estimation._tree.scalar_fit._WEIGHTS_LIMIT", 8)
    with pytest.raises(InvalidParameterError, match=message):
        use(fit)
    assert fit.weights([1, 2]).shape == (2, 3)


def test_summaries_name_units_and_errors(fit):
    text = str(fit)
    assert text == fit.summary()
    for part in ("noise (inference on the confidential values)", "0.95, exact", "not rounded"):
        assert part in text
    named = combine_hierarchy(
        pd.Series({"all": 20.0, "n": 6.0, "s": 8.0}),
        pd.Series({"all": None, "n": "all", "s": "all"}),
        mechanism=Laplace(scale=2.0),
    )
    assert [line.split()[0] for line in named.summary().splitlines()[-6:-3]] == ["all", "n", "s"]
    functions = named.contrast(pd.DataFrame({"n": [1.0], "s": [-1.0]}, index=["gap"]))
    frame = functions.summary_frame(0.1)
    assert frame.columns.tolist() == ["estimate", "std_err", "ci_lower", "ci_upper"]
    assert frame.loc["gap", "std_err"] == pytest.approx(functions.bse["gap"])
    assert functions.cov_params().loc["gap", "gap"] == pytest.approx(functions.bse["gap"] ** 2)
    assert functions.noise().variance == pytest.approx(functions.bse["gap"] ** 2)


@pytest.mark.parametrize(
    ("law", "method", "copies"),
    [(Gaussian(sigma=2.0), "exact", 15), (Laplace(scale=2.0), "bound", 18)],
)
def test_intervals_of_all_units_take_few_copies_of_the_values(law, method, copies):
    parent = np.concatenate([[-1], np.zeros(1000, int), np.repeat(np.arange(1, 1001), 100)])
    values = np.random.default_rng(1).normal(size=parent.size)
    tracemalloc.start()
    try:
        found = combine_hierarchy(values, parent, mechanism=law).conf_int(method=method)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(found.upper).all()
    assert peak < copies * values.nbytes
