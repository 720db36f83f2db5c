"""Sets from two noises on the whole numbers: what is in them, by all pairs of atoms."""

import numpy as np
import pytest

from dpinfer import share_confint
from dpinfer.intervals import ratio_confint
from dpinfer.mechanisms import DiscreteGaussian, Geometric, Laplace, Rounded

PAIRS = [
    (Geometric(scale=1.0), Geometric(scale=1.0)),
    (Geometric(scale=2.0), Geometric(scale=3.0)),
    (DiscreteGaussian(sigma=2.0), Geometric(scale=1.5)),
    (Geometric(scale=0.3), Geometric(scale=0.3)),
    (DiscreteGaussian(sigma=0.4), DiscreteGaussian(sigma=9.0)),
    (Geometric(scale=9.0), DiscreteGaussian(sigma=7.0)),
    (Rounded(Laplace(scale=5.0)), Geometric(scale=4.0)),
]


def published(pair, size, seed):
    rng = np.random.default_rng(seed)
    scale = np.array([float(law.std) for law in pair])
    return np.rint(rng.normal(size=(size, 2)) * scale * rng.choice([1, 3, 10, 100], (size, 1)))


def beyond(first, second, r, distance):
    """Return P(e1 - r*e2 >= distance) at distances just below and just above."""
    reach = np.ceil(50.0 * float(second.std) + 50.0)
    k = np.arange(-reach, reach + 1.0)
    slack = 1e-9 * (1 + abs(r))
    return [
        second.pmf(k) @ first.sf(np.ceil(distance + sign * slack + r * k) - 1) for sign in (-1, 1)
    ]


@pytest.mark.thinned("pair", "tail", every=3)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("tail", [0.2, 0.025, 1e-4])
def test_ends_and_members_by_all_atoms(pair, tail):
    """At an end the atoms from the published pair on are just too probable to leave it out."""
    y, rng = published(pair, 30, seed=1), np.random.default_rng(2)
    sets = ratio_confint(*y.T, mechanism=pair, alpha=2 * tail)
    for row, (a, b) in enumerate(y):
        for r in (sets.lower[row], sets.upper[row]):
            if np.isfinite(r):
                with_it, without = beyond(*pair, r, abs(a - r * b))
                assert with_it > tail * (1 - 1e-9)
                assert without <= tail * (1 + 1e-9)
    for a, b in y[:6]:
        alone = ratio_confint(a, b, mechanism=pair, alpha=2 * tail)
        for r in np.tan(rng.uniform(-1.5, 1.5, 5)):
            with_it, without = beyond(*pair, r, abs(a - r * b))
            if with_it == without:
                assert alone.contains(r) == (with_it > tail)


@pytest.mark.thinned("pair", "tail", every=3)
@pytest.mark.parametrize("pair", [*PAIRS, (Geometric(scale=5.0), Geometric(scale=3.0))], ids=str)
@pytest.mark.parametrize("tail", [0.2, 0.025, 1e-4])
def test_few_pairs_have_the_sets_that_they_have_among_many(pair, tail):
    """Few take the directions near their ends only, many search all of them in blocks."""
    y = published(pair, 600, seed=3)
    many = ratio_confint(*y.T, mechanism=pair, alpha=2 * tail)
    start = {0.2: 0, 0.025: 8, 1e-4: 16}[tail]
    for size in (1, 1, 2, 4):
        rows = slice(start, start := start + size)
        few = ratio_confint(*y[rows].T, mechanism=pair, alpha=2 * tail)
        for name in ("lower", "upper", "kind"):
            np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[rows])


def test_the_share_of_one_pair_with_wide_noise():
    noise, k = Geometric(scale=20.1), np.arange(-1000.0, 1001.0)
    found = share_confint(10, 97, mechanism=noise)
    lower, upper = float(found.lower), float(found.upper)

    def tail(share):
        """P of (1 - s)*e1 - s*e2 at least as far out as (1 - s)*a - s*b is for a = 10, b = 97."""
        at = (abs(10 - 107 * share) - 1e-9 - abs(share) * k) / (1 - share)
        return noise.pmf(k) @ noise.sf(np.ceil(at) - 1)

    assert tail(lower - 1e-7) <= 0.025 < tail(lower + 1e-7)
    assert tail(upper + 1e-7) <= 0.025 < tail(upper - 1e-7)
