"""Weighted sums that are nearly always 0, or have many lattices, against listed atoms."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, WeightedSum
from dpinfer.mechanisms import laws as _theta

Q = np.array([0.4, 0.1, 0.025, 0.005, 1e-3])

NEARLY_CONSTANT = (
    ([1.0, np.sqrt(2.0)], [0.1, 0.1]),
    ([4.453860430208233, np.sqrt(2.0)], [0.1319463665473863, 0.11212814977606829]),
    ([1.0, np.sqrt(2.0), 3.0], [0.1, 0.1, 0.1]),
    ([1.0, 1.0], [0.08, 0.08]),
    ([np.sqrt(2.0)] * 3, [0.08] * 3),
    ([1.0, 1.0, 1.0, np.sqrt(2.0), np.sqrt(2.0)], [0.08, 0.08, 0.08, 0.06, 0.06]),
    ([1.0, 1.7, np.sqrt(2.2)], [0.12, 0.2, 0.3]),
)


def atoms_of(weights, masses, cut):
    """Places and probabilities of a sum, those below ``cut`` left out."""
    places, probabilities = np.zeros(1), np.ones(1)
    for weight, mass in zip(weights, masses, strict=True):
        k = np.arange(-(len(mass) // 2), len(mass) // 2 + 1)
        places = np.add.outer(places, weight * k).ravel()
        probabilities = np.multiply.outer(probabilities, mass).ravel()
        kept = probabilities > cut
        places, probabilities = places[kept], probabilities[kept]
    return places, probabilities


def gaussian_masses(sigma, reach):
    mass = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / sigma))
    return mass / mass.sum()


def geometric_masses(scale, reach):
    return np.tanh(0.5 / scale) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)


def tail(atoms, x):
    places, probabilities = atoms
    return np.array([probabilities[places > point].sum() for point in x])


@pytest.mark.parametrize(("weights", "sigmas"), NEARLY_CONSTANT)
def test_sums_that_are_nearly_always_zero(weights, sigmas):
    law = WeightedSum(weights, DiscreteGaussian(sigma=np.array(sigmas)))
    atoms = atoms_of(weights, [gaussian_masses(sigma, 4) for sigma in sigmas], 0.0)
    between = np.array([0.1, 0.6, 1.2])
    # on one lattice far tails are accurate relatively (with fewer digits between the peaks of a
    # sparse one, where no tilt makes all points likely), elsewhere absolutely
    atol = 1e-300 if len(set(weights)) == 1 else 1e-15
    np.testing.assert_allclose(law.sf(between), tail(atoms, between), rtol=1e-7, atol=atol)
    quantiles = law.isf(Q)
    assert (tail(atoms, quantiles + 1e-9) <= Q).all()
    assert (tail(atoms, quantiles - 1e-9) > Q).all()
    # an interval of that half-width is never inside out
    assert (quantiles >= 0).all()
    assert (law.chernoff(Q) >= quantiles).all()


def test_cumulants_of_the_narrowest_discrete_gaussians():
    for sigma, s in ((0.03, 300.0), (0.03, 900.0), (0.05, 250.0), (0.1, 60.0)):
        with mpmath.workdps(40):
            spread = mpmath.mpf(sigma)
            terms = [mpmath.exp(k * s - k**2 / (2 * spread**2)) for k in range(-9, 10)]
            masses = [mpmath.exp(-(k**2) / (2 * spread**2)) for k in range(-9, 10)]
            expected = float(mpmath.log(mpmath.fsum(terms)) - mpmath.log(mpmath.fsum(masses)))
        found = _theta.cumulant(np.array([s + 0j]), np.array([sigma]))[0].real
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_eight_lattices_are_listed():
    rng = np.random.default_rng(5)
    weights = np.exp(rng.normal(0.0, 0.7, 8))
    scales, sigmas = rng.uniform(0.2, 0.3, 4), rng.uniform(0.35, 0.45, 4)
    law = WeightedSum(
        weights,
        [
            *(Geometric(scale=scale) for scale in scales),
            *(DiscreteGaussian(sigma=s) for s in sigmas),
        ],
    )
    masses = [geometric_masses(s, 9) for s in scales] + [gaussian_masses(s, 6) for s in sigmas]
    atoms = atoms_of(weights, masses, 1e-11)
    missing = 1.0 - atoms[1].sum()
    assert missing < 1e-6
    assert law.error_bound < 1e-10
    x = law.std * rng.uniform(-4.0, 4.0, 100)
    assert np.abs(law.sf(x) - tail(atoms, x)).max() <= missing + law.error_bound
    # quantiles are atoms, not points just below them
    quantiles = law.isf(Q)
    assert (tail(atoms, quantiles * (1 + 1e-14)) <= Q).all()
    assert (tail(atoms, quantiles - 1e-11) > Q - missing).all()
    assert (law.cdf(law.ppf(Q)) >= Q).all()


def test_median_of_smooth_sums_is_zero():
    rng = np.random.default_rng(6)
    for _ in range(4):
        count = rng.integers(2, 5)
        law = WeightedSum(np.ones(count), Laplace(scale=np.exp(rng.normal(0.0, 1.5, count))))
        # beside other quantiles, as rounding at 0 depends on what else is asked for
        assert abs(law.isf([0.5, 0.3, 0.01])[0]) < 1e-12 * law.std
        assert abs(law.isf(0.5)) < 1e-12 * law.std


@pytest.mark.parametrize("scale", [0.0014, 0.002, 0.0029, 0.005, 0.02])
def test_geometric_noise_that_is_nearly_always_zero_leaves_gaussian_noise(scale):
    x = np.array([0.0, 3.0, 300.0])
    total = WeightedSum([1.0, 30.0], [Geometric(scale=scale), Gaussian(sigma=1.0)])
    np.testing.assert_allclose(total.sf(x), stats.norm.sf(x / 30.0), rtol=1e-11)
    # there the terms underflow, and the tail is given from above, by a bound of Chernoff
    far = stats.norm.logsf(50.0)
    assert far * (1.0 + 1e-12) <= total.logsf(1500.0) <= far * 0.98


@pytest.mark.parametrize(
    ("spacings", "counts", "law"),
    [
        ((10_000, 10_001), (3, 3), Geometric(scale=2.0)),
        ((100_000, 314_159), (3, 2), DiscreteGaussian(sigma=2.0)),
    ],
    ids=repr,
)
def test_few_atoms_on_a_fine_lattice_against_all_pairs(spacings, counts, law):
    """Tails at atoms, which rounding must not lose, by whole numbers."""
    weights = np.repeat(np.array(spacings) / spacings[0], counts)
    total = WeightedSum(weights, law)
    reach = int(law.isf(1e-22)) + 2
    one = law.pmf(np.arange(-reach, reach + 1))
    parts = [np.ones(1), np.ones(1)]
    for at, count in enumerate(counts):
        for _ in range(count):
            parts[at] = np.convolve(parts[at], one)
    k = [np.arange(part.size) - part.size // 2 for part in parts]
    places = np.add.outer(spacings[0] * k[0], spacings[1] * k[1])
    masses = np.multiply.outer(*parts)
    for a, b in [(0, 0), (1, 0), (2, 3), (-1, 4), (5, 1), (1, -1)]:
        place, x = a * spacings[0] + b * spacings[1], a + b * spacings[1] / spacings[0]
        assert total.cdf(x) == pytest.approx(masses[places <= place].sum(), abs=1e-14)
        assert total.sf(x) == pytest.approx(masses[places > place].sum(), abs=1e-14)
