from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from dpinfer.intervals.ratios._support import smooth_support
from dpinfer.mechanisms import Gaussian, Laplace

LAWS = {"laplace": Laplace(scale=np.sqrt(0.5)), "gaussian": Gaussian(sigma=1.0)}
KINDS = [("laplace", "laplace"), ("laplace", "gaussian"), ("gaussian", "laplace")]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("tail", [0.3, 0.025, 1e-5])
def test_quantiles_by_convolution(kinds, tail):
    first, second = (LAWS[kind] for kind in kinds)
    support = smooth_support(*kinds, tail)
    for phi in (0.05, 0.5, 0.8, 1.3, -0.4, 2.0, 8.0):
        x = float(support(np.array([phi]))[0])
        c, s = abs(np.cos(phi)), abs(np.sin(phi))
        parts = np.sort([0.0, x / c, -x / c, 4.0, -4.0])
        edges = np.concatenate([[-60.0], parts, [60.0]])
        total = sum(
            integrate.quad(
                lambda z, x=x, c=c, s=s: first.pdf(z) * second.sf((x - c * z) / s),
                low,
                high,
                epsabs=1e-14,
                limit=200,
            )[0]
            for low, high in pairwise(edges)
            if high > low
        )
        assert total == pytest.approx(tail, rel=1e-7)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("tail", [0.45, 0.2, 0.025, 1e-4, 1e-12])
def test_quantiles_are_a_norm(kinds, tail):
    # convex along the circle: Q(φ - h) + Q(φ + h) >= 2·cos(h)·Q(φ), so that tangents are two
    support = smooth_support(*kinds, tail)
    h = 0.01
    phi = np.linspace(0, np.pi, 4001)
    bend = support(phi - h) + support(phi + h) - 2 * np.cos(h) * support(phi)
    assert bend.min() > -1e-9 * support(phi).max()


@pytest.mark.parametrize("kinds", KINDS)
def test_slopes_by_differences(kinds):
    support = smooth_support(*kinds, 0.025)
    phi = np.linspace(-3, 3, 101)
    h = 1e-5
    differences = (support(phi + h) - support(phi - h)) / (2 * h)
    np.testing.assert_allclose(support.slope(phi), differences, atol=1e-8)
