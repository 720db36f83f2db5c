"""The law of published values: monotone in the confidential value, and what is out of reach."""

import numpy as np
import pytest

from dpinfer import Release
from dpinfer.estimation.published import PublishedRows
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap

NOISES = [
    Laplace(scale=3.0),
    Geometric(scale=3.0),
    Gaussian(sigma=4.0),
    DiscreteGaussian(sigma=4.0),
    Tulap(scale=3.0),
    Tulap(scale=3.0, truncation=0.01),
]


def rows(noise, target, threshold, low=-np.inf, high=np.inf):
    target = np.asarray(target, dtype=float)
    bounds = (np.full(target.shape, float(x)) for x in (threshold, low, high))
    named = dict(zip(("threshold", "lowest", "highest"), bounds, strict=True))
    return PublishedRows(target=target, noise=noise, **named)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("gap", [0, 1, 4, 20])
def test_tails_are_monotone(noise, gap):
    # intervals rely on it; over whole numbers, for which Tulap noise is made
    law = rows(noise, np.arange(-100, 200), 50)
    y = np.full(300, 50.0 + gap)
    assert (np.diff(law.larger(y)) >= -1e-11).all()
    assert (np.diff(law.smaller(y)) <= 1e-11).all()
    assert (law.larger(y) + law.smaller(y) >= 1 - 1e-12).all()


def test_out_of_reach_counts_as_far_too_low():
    noise = Tulap(scale=2.0, truncation=0.1)
    law = rows(noise, [-1000.0, 50.0], 50)
    y = np.full(2, 51.0)
    assert law.larger(y)[0] == 0
    assert law.smaller(y)[0] == 1
    assert 0 < law.larger(y)[1] < 1


def test_read_from_a_release():
    release = Release([7.0, 9.0], mechanism=Laplace(scale=1.0), threshold=[5, -np.inf], clamp=0)
    law = PublishedRows.of(release, np.asarray(6.0))
    np.testing.assert_array_equal(law.threshold, [5, -np.inf])
    np.testing.assert_array_equal(law.lowest, [0, 0])
    np.testing.assert_array_equal(law.highest, [np.inf, np.inf])
    np.testing.assert_allclose(law.spread, np.sqrt(2))
