"""Noise with geometric tails around published values."""

import numpy as np
import pytest

from dpinfer.intervals.proportions._edges import Edge, has_edge
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Tulap

VALUES = np.array([-3.0, 0.0, 2.0, 2.25, 2.5, 2.75, 7.125, -0.3])
COUNTS = np.arange(-5.0, 12.0)[:, np.newaxis]
LAWS = [kind(scale=scale) for kind in (Laplace, Geometric, Tulap) for scale in (0.1, 1.0, 30.0)]


def chance(edge, j):
    a = np.exp(-edge.rate)
    below = edge.near * a ** np.maximum(edge.k - j, 0.0)
    return np.where(j <= edge.k, below, 1.0 - edge.far * a ** np.maximum(j - edge.k - 1.0, 0.0))


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("mid", [False, True])
def test_is_the_chance_to_reach_a_value(noise, mid):
    t = np.floor(VALUES) if noise.is_integer else VALUES
    expected = noise.cdf(COUNTS - t)
    if mid:
        expected = 0.5 * (expected + noise.sf(t - COUNTS))
    edge = Edge.of(noise, t, mid=mid)
    np.testing.assert_allclose(chance(edge, COUNTS), expected, rtol=1e-12)
    assert (np.maximum(edge.near, edge.far) <= 0.5).all()


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_the_mirror_image_is_the_other_tail(noise):
    n = np.full(VALUES.size, 6.0)
    edge = Edge.of(noise, np.floor(VALUES), mid=False)
    np.testing.assert_allclose(
        chance(edge.mirrored(n), n - COUNTS), 1.0 - chance(edge, COUNTS), rtol=0, atol=1e-15
    )


def test_laws_of_rows():
    noise = Laplace(scale=np.linspace(0.5, 3.0, VALUES.size))
    np.testing.assert_allclose(
        chance(Edge.of(noise, VALUES, mid=False), COUNTS), noise.cdf(COUNTS - VALUES), rtol=1e-13
    )


def test_which_laws_have_edges():
    assert all(has_edge(noise) for noise in LAWS)
    others = [Exact(), Gaussian(sigma=1.0), DiscreteGaussian(sigma=1.0)]
    assert not any(has_edge(noise) for noise in [*others, Tulap(scale=1.0, truncation=0.01)])
