import numpy as np
import pytest

from dpinfer import share_confint
from dpinfer.intervals.ratios import _lattice, _sets
from dpinfer.intervals.ratios._lattice import ends_of_few, lattice_polygon
from dpinfer.intervals.ratios._level import Level
from dpinfer.mechanisms import DiscreteGaussian, Geometric, Laplace, Rounded

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


@pytest.mark.parametrize(
    "pair",
    [
        *PAIRS,
        (Geometric(scale=0.3), Geometric(scale=0.3)),
        (Geometric(scale=9.0), DiscreteGaussian(sigma=7.0)),
        (DiscreteGaussian(sigma=0.4), DiscreteGaussian(sigma=9.0)),
        (Rounded(Laplace(scale=5.0)), Geometric(scale=4.0)),
    ],
)
@pytest.mark.parametrize("tail", [0.2, 0.025, 1e-4])
def test_few_points_have_the_ends_of_the_whole_polygon(pair, tail):
    rng = np.random.default_rng(4)
    polygon, bracket = lattice_polygon(*pair, tail), _sets._bracket(*pair, tail)
    scale = np.array([float(law.std) for law in pair])
    for size in (1, 1, 1, 2, 4) * 5:
        y = np.rint(rng.normal(size=(size, 2)) * scale * rng.choice([1, 3, 10, 100]))
        inside, left, right = ends_of_few(y, *pair, tail, bracket)
        wanted, first, second = polygon.ends(y)
        np.testing.assert_array_equal(inside, wanted)
        np.testing.assert_array_equal(left[~inside], first[~inside])
        np.testing.assert_array_equal(right[~inside], second[~inside])


def test_the_share_of_one_pair_takes_few_directions(monkeypatch):
    asked, exceeds = [], Level._exceeds

    def counted(self, p, q, x):
        asked.append(p.size)
        return exceeds(self, p, q, x)

    monkeypatch.setattr(Level, "_exceeds", counted)
    found = share_confint(10, 97, mechanism=Geometric(scale=20.1))
    lower, upper = float(found.lower), float(found.upper)
    assert sum(asked) < 5000  # of 90,000 for all of the polygon
    noise, k = Geometric(scale=20.1), np.arange(-1000.0, 1001.0)

    def tail(share):
        """P of (1 - s)*e1 - s*e2 at least as far out as (1 - s)*a - s*b is for a = 10, b = 97."""
        at = (abs(10 - 107 * share) - 1e-9 - abs(share) * k) / (1 - share)
        return noise.pmf(k) @ noise.sf(np.ceil(at) - 1)

    assert tail(lower - 1e-7) <= 0.025 < tail(lower + 1e-7)
    assert tail(upper + 1e-7) <= 0.025 < tail(upper - 1e-7)
