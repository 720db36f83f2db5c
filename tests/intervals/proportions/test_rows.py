"""Rows that are alike have what each has alone, whatever its law and its numbers."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.intervals import poisson_confint, proportion_confint
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, WeightedSum, as_noise

COUNT = np.array([3.0, 9.0, 3.0, 9.0, 3.0])
TOTAL = WeightedSum([1.0, 1.0], Laplace(scale=1.0))


def assert_rows_as_alone(count, nobs, noise, rows):
    found = proportion_confint(count, nobs, mechanism=noise)
    nobs = np.broadcast_to(nobs, count.shape)
    for row in rows:
        alone = proportion_confint(count[row], nobs[row], mechanism=noise.take(row))
        np.testing.assert_allclose([*alone], [found.lower[row], found.upper[row]], rtol=1e-12)


@pytest.mark.parametrize("scale", [2.0, [2.0] * 5, [2.0, 2.0, 2.0, 1.0, 2.0]])
def test_rows_of_one_kind_have_one_count_and_one_law(scale):
    noise = Laplace(scale=scale)
    found = proportion_confint(COUNT, 20, mechanism=noise)
    for row, count in enumerate(COUNT):
        alone = proportion_confint(count, 20, mechanism=noise.take(row))
        assert tuple(alone) == (found.lower[row], found.upper[row])


def test_laws_without_parameters_serve_all_their_rows():
    laws = [TOTAL, Gaussian(sigma=1.0), TOTAL, TOTAL, Gaussian(sigma=1.0)]
    assert_rows_as_alone(COUNT, 20, as_noise(laws, 5), range(5))


RNG = np.random.default_rng(1)


@pytest.mark.thinned("count", "scales", every=2)
@pytest.mark.parametrize(
    ("count", "nobs"),
    [
        (RNG.integers(-5, 9, 300), 9),
        (RNG.integers(-5, 9, 300), RNG.integers(1, 4, 300)),
        (RNG.choice([0.5, -2.25, 1e100], 300), RNG.integers(1, 4, 300)),
        (RNG.choice([1.0, 1e12, -1e15], 300), RNG.choice([2.0, 1e9], 300)),
        (RNG.random(300), RNG.integers(1, 10**9, 300)),
        (np.zeros(300), 5),
    ],
    ids=range(6),
)
@pytest.mark.parametrize("scales", [1, 3, 300])
def test_which_rows_are_alike(count, nobs, scales):
    scale = np.random.default_rng(2).uniform(0.5, 9.0, scales)
    noise = Gaussian(sigma=scale[np.random.default_rng(3).integers(0, scales, 300)])
    assert_rows_as_alone(
        count.astype(float), np.asarray(nobs, dtype=float), noise, range(0, 300, 37)
    )


@pytest.mark.thinned("alpha", "method", "expected_counts", every=3)
@pytest.mark.parametrize("alpha", [0.05, 0.9, 1e-6, 1e-150])
@pytest.mark.parametrize("method", ["exact", "mid-p"])
@pytest.mark.parametrize("expected_counts", [False, True])
def test_own_sigma_of_discrete_gaussian_noise(expected_counts, method, alpha):
    """Masses added up have the tails of one law, which are found one by one."""
    rng = np.random.default_rng(4)
    count, nobs = rng.integers(-9, 400, 60), rng.integers(1, 400, 60)
    noise = DiscreteGaussian(sigma=rng.choice([0.3, 0.9, 2.0, 7.0, 30.0], 60))

    def ends(rows, law):
        settings = {"mechanism": law, "method": method, "alpha": alpha}
        if expected_counts:
            return poisson_confint(count[rows], **settings)
        return proportion_confint(count[rows], nobs[rows], **settings)

    together = ends(slice(None), noise)
    for sigma in np.unique(noise.sigma):
        rows = noise.sigma == sigma
        alone = ends(rows, DiscreteGaussian(sigma=float(sigma)))
        np.testing.assert_allclose(together.lower[rows], alone.lower, rtol=1e-11)
        np.testing.assert_allclose(together.upper[rows], alone.upper, rtol=1e-11)


def test_few_sigma_of_many_rows_of_discrete_gaussian_noise():
    """Where each σ has many rows, its tails are looked up: they are those of σ of its own."""
    rng = np.random.default_rng(5)
    count, nobs = rng.integers(-9, 400, 2100), rng.integers(1, 400, 2100)
    sigma = np.append(np.full(1100, 2.0), np.full(1000, 7.0))
    many = proportion_confint(count, nobs, mechanism=DiscreteGaussian(sigma=sigma))
    rows = np.arange(0, 2100, 70)
    few = proportion_confint(count[rows], nobs[rows], mechanism=DiscreteGaussian(sigma=sigma[rows]))
    np.testing.assert_allclose(many.lower[rows], few.lower, rtol=1e-11)
    np.testing.assert_allclose(many.upper[rows], few.upper, rtol=1e-11)


@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Geometric(scale=1.5)], ids=repr)
def test_tails_of_few_and_of_many_counts_are_right_side_by_side(noise):
    """Terms are added up where either outcome is as rare as 256, and integrated elsewhere."""
    nobs = np.array([30, 511, 512, 513, 515, 4000, 10**5, 300])
    count = np.array([9, 255, 256, 257, 258, 2100, 200, 290]) + (0.0 if noise.is_integer else 0.25)
    found = proportion_confint(count, nobs, mechanism=noise)
    for n, t, low, high in zip(nobs, count, found.lower, found.upper, strict=True):
        j = np.arange(n + 1.0)
        above = stats.binom.pmf(j, n, low) @ noise.sf(t - j - noise.is_integer)
        below = stats.binom.pmf(j, n, high) @ noise.cdf(t - j)
        np.testing.assert_allclose([above, below], 0.025, rtol=1e-10)
