"""Sets from two noises with densities: their ends, and what is in them, by convolution."""

import numpy as np
import pytest

from dpinfer.intervals import ratio_confint
from dpinfer.mechanisms import Gaussian, Laplace

LAPLACE, GAUSSIAN = Laplace(scale=np.sqrt(0.5)), Gaussian(sigma=1.0)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(150)
PAIRS = [(LAPLACE, LAPLACE), (LAPLACE, GAUSSIAN), (GAUSSIAN, LAPLACE), (GAUSSIAN, GAUSSIAN)]


def beyond(first, second, ratio, distance):
    """Return P(e1 - ratio*e2 > distance) by an integral over the error of larger weight."""
    if abs(ratio) < 1:
        first, second, ratio, distance = second, first, 1 / ratio, distance / abs(ratio)
    c = abs(ratio)
    parts = [0.0, distance, *(step * c + distance for step in (-12, -4, 4, 12)), -12, -4, 4, 12]
    edges = np.unique(np.clip([-60.0, *parts, 60.0], -60.0, 60.0))
    low, high = edges[:-1, np.newaxis], edges[1:, np.newaxis]
    z = low + (high - low) * (NODES + 1) / 2
    return np.sum((high - low) / 2 * WEIGHTS * first.pdf(z) * second.sf((distance - z) / c))


@pytest.mark.thinned("pair", "tail", every=3)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("tail", [0.45, 0.2, 0.025, 1e-5, 1e-12])
def test_ends_and_members_by_convolution(pair, tail):
    rng = np.random.default_rng(1)
    angle = rng.uniform(-np.pi, np.pi, 6)
    y = 10 ** rng.uniform(0.5, 2.3, 6) * np.array([np.cos(angle), np.sin(angle)])
    sets = ratio_confint(*y, mechanism=pair, alpha=2 * tail)
    assert "interval" in sets.kind
    for row, (a, b) in enumerate(y.T):
        for r in (sets.lower[row], sets.upper[row]):
            if np.isfinite(r):
                assert beyond(*pair, r, abs(a - r * b)) == pytest.approx(tail, rel=1e-7)
        for r in np.tan(rng.uniform(-1.5, 1.5, 3)):
            alone = ratio_confint(a, b, mechanism=pair, alpha=2 * tail)
            assert alone.contains(r) == (beyond(*pair, r, abs(a - r * b)) > tail)
