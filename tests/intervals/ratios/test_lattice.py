import numpy as np
import pytest

from dpinfer.intervals.ratios import _lattice
from dpinfer.intervals.ratios._lattice import lattice_polygon
from dpinfer.mechanisms import DiscreteGaussian, Geometric

PAIRS = [
    (Geometric(scale=1.0), Geometric(scale=1.0)),
    (Geometric(scale=2.0), Geometric(scale=3.0)),
    (DiscreteGaussian(sigma=2.0), Geometric(scale=1.5)),
]


def enumerated_quantile(first, second, p, q, tail):
    """Smallest value x of p·e₁ + q·e₂ with P(p·e₁ + q·e₂ > x) <= tail, all atoms sorted."""
    k = np.arange(-70, 71)
    places = np.add.outer(p * k, q * k).ravel()
    chances = np.multiply.outer(first.pmf(k), second.pmf(k)).ravel()
    order = np.argsort(-places)
    places, beyond = places[order], np.cumsum(chances[order])
    # the first place at which the mass of it and all above exceeds the level
    return places[np.argmax(beyond > tail)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("tail", [0.025, 0.2])
def test_polygon_is_the_level_of_all_atoms(pair, tail):
    polygon = lattice_polygon(*pair, tail)
    angles = np.arctan2(polygon.directions[:, 1], polygon.directions[:, 0]) % (2 * np.pi)
    rng = np.random.default_rng(1)
    for phi in rng.uniform(0, 2 * np.pi, 60):
        u = np.array([np.cos(phi), np.sin(phi)])
        piece = np.searchsorted(angles, phi) - 1
        wanted = enumerated_quantile(*pair, *u, tail)
        assert u @ polygon.atoms[piece] == pytest.approx(wanted, rel=1e-9)
    np.testing.assert_array_equal(polygon.atoms, np.rint(polygon.atoms))


@pytest.mark.parametrize("scale", [5.0, 10.0])
def test_polygon_of_wider_noise(scale):
    noise = Geometric(scale=scale)
    polygon = lattice_polygon(noise, noise, 0.025)
    angles = np.arctan2(polygon.directions[:, 1], polygon.directions[:, 0]) % (2 * np.pi)
    k = np.arange(-40 * scale, 40 * scale + 1)
    rng = np.random.default_rng(2)
    for phi in rng.uniform(0, 0.5 * np.pi, 40):
        u = np.array([np.cos(phi), np.sin(phi)])
        x = u @ polygon.atoms[np.searchsorted(angles, phi) - 1]
        above = noise.sf((x + 1e-9 - u[1] * k) / u[0]) @ noise.pmf(k)
        at = noise.sf((x - 1e-9 - u[1] * k) / u[0]) @ noise.pmf(k)
        assert above <= 0.025 < at


def test_search_in_blocks_finds_what_a_full_search_finds(monkeypatch):
    noise = Geometric(scale=5.0), Geometric(scale=3.0)
    rng = np.random.default_rng(3)
    y = np.rint(rng.normal(size=(5000, 2)) * 20)
    fast = lattice_polygon(*noise, 0.025)
    assert len(fast.support) > _lattice.FEW
    inside, left, right = fast.ends(y)
    monkeypatch.setattr(_lattice, "FEW", 10**9)
    full = _lattice.LatticePolygon(fast.directions, fast.support, fast.atoms)
    wanted, first, second = full.ends(y)
    np.testing.assert_array_equal(inside, wanted)
    np.testing.assert_array_equal(left[~inside], first[~inside])
    np.testing.assert_array_equal(right[~inside], second[~inside])
    assert 0 < inside.mean() < 0.5
