"""What absence says: the definition of the bound, by enumeration and by the noise's own law."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError
from dpinfer.intervals import unpublished_bound
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)


@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
@pytest.mark.parametrize("noise", [Laplace(scale=3.0), Gaussian(sigma=2.0), Tulap(scale=2.0)])
def test_the_bound_goes_unpublished_with_probability_alpha(noise, alpha):
    bound = unpublished_bound(mechanism=noise, threshold=50, alpha=alpha)
    assert noise.cdf(50 - float(bound.upper)) == pytest.approx(alpha, rel=1e-9)
    assert (bound.lower, bound.estimate) == (-np.inf, -np.inf)


@pytest.mark.parametrize("threshold", [50, 49.5])
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
@pytest.mark.parametrize("noise", [Geometric(scale=3.0), DiscreteGaussian(sigma=2.0), Exact()])
def test_whole_numbers_enumerated(noise, threshold, alpha):
    error = np.arange(-300, 301)
    mass = noise.pmf(error)
    unpublished = [f for f in range(200) if mass[f + error < threshold].sum() > alpha]
    bound = unpublished_bound(mechanism=noise, threshold=threshold, alpha=alpha, lower=0)
    assert float(bound.upper) == max(unpublished)
    assert (bound.lower, bound.estimate) == (0.0, 0.0)


def test_per_row_and_labels():
    noise = [Laplace(scale=2.0), Geometric(scale=5.0), Exact()]
    one = unpublished_bound(mechanism=noise, threshold=90)
    assert one.upper.shape == (3,)
    assert one.upper[2] == 89
    threshold = pd.Series([90.0, 80.0, 90.0], index=list("abc"))
    labelled = unpublished_bound(mechanism=noise, threshold=threshold)
    assert list(labelled.upper.index) == list("abc")
    assert (labelled.upper["a"], labelled.upper["b"]) == (one.upper[0], one.upper[1] - 10)
    array = unpublished_bound(mechanism=Laplace(scale=[2.0, 3.0]), threshold=90)
    assert array.upper.shape == (2,)
    square = unpublished_bound(mechanism=Laplace(scale=2.0), threshold=[[90.0, 80.0]])
    np.testing.assert_allclose(square.upper, [[one.upper[0], one.upper[0] - 10]])


def test_simultaneous_counts_noisy_cells_only():
    noise = [Laplace(scale=2.0), Laplace(scale=2.0), Exact()]
    both = unpublished_bound(mechanism=noise, threshold=90, simultaneous=True)
    each = unpublished_bound(mechanism=noise, threshold=90, alpha=1 - np.sqrt(0.95))
    np.testing.assert_allclose(both.upper, each.upper)


def test_other_laws_and_a_million_cells():
    noise = WeightedSum([1.0, 2.0], Laplace(scale=1.0))
    bound = float(unpublished_bound(mechanism=noise, threshold=10, integer=True).upper)
    assert bound == np.floor(10 + noise.isf(0.05))
    many = unpublished_bound(mechanism=Geometric(scale=3.0), threshold=np.full(1_000_000, 90.0))
    assert many.upper[-1] == unpublished_bound(mechanism=Geometric(scale=3.0), threshold=90).upper


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": np.nan},
        {"threshold": np.inf},
        {"threshold": []},
        {"threshold": "ninety"},
        {"mechanism": []},
        {"mechanism": 2.0},
        {"alpha": 1.0},
        {"integer": None},
        {"simultaneous": 1},
        {"lower": 5.0, "upper": 1.0},
        {"threshold": [1.0, 2.0], "mechanism": Laplace(scale=[1.0, 2.0, 3.0])},
    ],
)
def test_refused(change):
    with pytest.raises(DPInferError):
        unpublished_bound(**({"mechanism": Laplace(scale=2.0), "threshold": 90} | change))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    threshold=st.floats(-1e15, 1e15),
    scale=st.floats(1e-100, 1e15),
    alpha=st.floats(1e-300, 0.999),
    law=st.sampled_from([Laplace, Geometric, Tulap]),
)
def test_fuzz(threshold, scale, alpha, law):
    bound = unpublished_bound(mechanism=law(scale=scale), threshold=threshold, alpha=alpha)
    assert np.isfinite(bound.upper)
