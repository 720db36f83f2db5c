"""Rows that are alike, and the laws of those that stand for them."""

import numpy as np
import pytest

from dpinfer.intervals.proportions._families import BinomialCounts
from dpinfer.intervals.proportions._rows import NoisyRows
from dpinfer.intervals.proportions.one_sample import proportion_confint
from dpinfer.mechanisms import Gaussian, Laplace, WeightedSum, as_noise

COUNT = np.array([3.0, 9.0, 3.0, 9.0, 3.0])


def kinds(noise):
    rows = NoisyRows(count=COUNT, family=BinomialCounts(nobs=np.full(5, 20.0)), noise=noise)
    return rows.kinds


def test_equal_parameters_are_one_law():
    """Written out for each row, they take no more work than one law for all."""
    (law, examples, cells, kind) = kinds(Laplace(scale=np.full(5, 2.0)))[0]
    assert law == Laplace(scale=2.0)
    np.testing.assert_array_equal(COUNT[examples][kind], COUNT[cells])
    assert examples.size == 2


@pytest.mark.parametrize("scale", [2.0, [2.0, 2.0, 2.0, 1.0, 2.0]])
def test_rows_of_one_kind_have_one_count_and_one_law(scale):
    noise = Laplace(scale=scale)
    found = proportion_confint(COUNT, 20, mechanism=noise)
    for row, count in enumerate(COUNT):
        alone = proportion_confint(count, 20, mechanism=noise.take(row))
        assert tuple(alone) == (found.lower[row], found.upper[row])


def test_laws_without_parameters_serve_all_their_rows():
    total = WeightedSum([1.0, 1.0], Laplace(scale=1.0))
    found = kinds(as_noise([total, Gaussian(sigma=1.0), total, total, Gaussian(sigma=1.0)], 5))
    assert sum(examples.size for _, examples, _, _ in found) < COUNT.size
