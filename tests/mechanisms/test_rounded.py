"""Rounded noise against exact arithmetic, sums over atoms, and coverage by enumeration."""

import pickle

import mpmath as mp
import numpy as np
import pytest

from dpinfer import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
    count_confint,
    ratio_confint,
    share_confint,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import IndependentNoise, Rounded, as_frozen
from dpinfer.privacy import guarantee_of

LAWS = [
    *(Laplace(scale=b) for b in (0.01, 0.2, 1 / 3, 1.0, 5.0, 1e6, 1e12)),
    *(Gaussian(sigma=s) for s in (0.02, 0.4, 0.499, 0.501, 1.0, 3.0, 1e4, 1e9)),
]


def exact_tail(law, x):
    if isinstance(law, Laplace):
        return mp.exp(-x / mp.mpf(law.scale)) / 2
    return mp.erfc(x / mp.mpf(law.sigma) / mp.sqrt(2)) / 2


def atoms(law, least=1e-18):
    reach = int(law.isf(least)) + 1
    k = np.arange(-reach, reach + 1.0)
    return k, law.pmf(k)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_probabilities_are_differences_of_the_cdf_to_twelve_digits(law):
    rounded, std = Rounded(law), float(law.std)
    for k in sorted({0, 1, 2, 7, *(int(f * std) for f in (0.5, 1, 3, 10, 30))}):
        with mp.workdps(60):
            upper, half = exact_tail(law, k + mp.mpf("0.5")), mp.mpf("0.5")
            lower = exact_tail(law, k - half) if k else 1 - upper
            log_pmf, log_tail = float(mp.log(lower - upper)), float(mp.log(upper))
        assert rounded.logpmf(k) == pytest.approx(log_pmf, rel=1e-12, abs=1e-12)
        assert rounded.logpmf(-k) == rounded.logpmf(k)
        assert rounded.logsf(k) == pytest.approx(log_tail, rel=1e-12)
        assert rounded.logcdf(-k - 1) == rounded.logsf(k)


@pytest.mark.parametrize(
    "law",
    [law for law in LAWS if 0.1 < law.std < 10] + [Tulap(scale=2.0, truncation=0.05)],
    ids=repr,
)
def test_moments_and_transforms_are_sums_over_atoms(law):
    rounded = Rounded(law)
    k, pmf = atoms(rounded, 1e-300)
    t = np.linspace(0.0, 9.0, 31)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-15)
    assert rounded.variance == pytest.approx(pmf @ k**2, rel=1e-12)
    assert rounded.cf(t) == pytest.approx(np.cos(np.outer(t, k)) @ pmf, abs=1e-14)
    if np.isfinite(rounded.isf(0.0)):
        return  # the least bound is at infinity
    # the moment generating function enters through sums: Chernoff's bound of a single noise
    bound = WeightedSum([1.0], rounded).chernoff(1e-3)
    s = np.geomspace(1e-3, 0.999 * min(float(rounded._abscissa), 600.0), 1000)
    with np.errstate(over="ignore"):
        sums = np.exp(rounded.logpmf(k) + np.outer(s, k)).sum(axis=1)
    grid = (np.log(sums) - np.log(1e-3)) / s
    assert bound == pytest.approx(grid.min(), rel=1e-4)


def test_rounded_laplace_and_gaussian_have_the_closed_variances():
    assert Rounded(Laplace(scale=1.0)).variance == pytest.approx(2.0763509006, abs=1e-10)
    found = Rounded(Gaussian(sigma=[0.3, 0.5, 1.0])).variance
    assert found == pytest.approx([0.0955824245, 0.3254127626, 1.0833333224], abs=1e-10)


def test_rounded_tulap_noise_without_truncation_is_geometric():
    rounded, geometric = Rounded(Tulap(scale=1.7)), Geometric(scale=1.7)
    k = np.arange(-60, 61)
    assert rounded.logpmf(k) == pytest.approx(geometric.logpmf(k), rel=1e-13)
    assert rounded.logsf(k) == pytest.approx(geometric.logsf(k), rel=1e-13)
    assert rounded.variance == pytest.approx(geometric.variance, rel=1e-14)


def test_quantiles_are_the_smallest_whole_numbers():
    rounded = Rounded(Laplace(scale=[0.3, 2.0, 40.0]))
    q = np.concatenate([np.geomspace(1e-200, 0.5, 60), 1.0 - np.geomspace(1e-12, 0.5, 60)])[:, None]
    found = rounded.isf(q)
    assert (rounded.sf(found) <= q * (1 + 1e-13)).all()
    assert (rounded.sf(found - 1) > q).all()


@pytest.mark.parametrize(
    ("weights", "laws"),
    [
        ([1, -1], [Laplace(scale=1 / 3)] * 2),
        ([1] * 5, [Laplace(scale=0.5)] * 5),
        ([1, 1, 1], [Gaussian(sigma=0.3), Gaussian(sigma=0.8), Laplace(scale=0.7)]),
        ([1, 2, 3], [Gaussian(sigma=0.3), Laplace(scale=2.0), Tulap(scale=1.0, truncation=0.1)]),
        ([0.1, 0.25], [Laplace(scale=1.0), Gaussian(sigma=1.0)]),
        ([1] * 12, [Tulap(scale=1.0, truncation=0.1)] * 12),
    ],
)
def test_sums_are_convolutions(weights, laws):
    laws = [Rounded(law) for law in laws]
    total = WeightedSum(weights, laws)
    places, pmf = np.zeros(1), np.ones(1)
    for weight, law in zip(weights, laws, strict=True):
        k, own = atoms(law)
        places, pmf = np.add.outer(places, weight * k).ravel(), np.outer(pmf, own).ravel()
        places, at = np.unique(places.round(6), return_inverse=True)
        pmf = np.bincount(at, pmf)
    beyond = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
    assert total.sf(places) == pytest.approx(beyond[1:], abs=2e-12)
    assert total.sf(places + 0.01) == pytest.approx(beyond[1:], abs=2e-12)
    if np.isfinite(largest := sum(law.isf(0.0) for law in laws)):
        assert total.sf(largest - 1.0) > 0.0
        assert (total.sf([largest, 1e9]) == 0.0).all()
    assert total.variance == pytest.approx(pmf @ places**2, rel=1e-10)
    assert total.is_integer == all(isinstance(weight, int) for weight in weights)


def test_dense_sums_of_truncated_rounded_noise_agree_with_draws():
    # 1e5 draws: the bound of 6 standard errors is passed by accident with a chance below 1e-8
    weights = 1.0 + np.arange(14) / 13 + np.sqrt(np.arange(14))
    laws = [Rounded(Tulap(scale=1.0, truncation=0.2))] * 10 + [Rounded(Laplace(scale=1.0))] * 4
    total = WeightedSum(weights, laws)
    x = total.isf([0.3, 0.05, 0.01])
    draws = IndependentNoise(laws).rvs((100_000, 14), rng=3) @ weights
    found = (draws[:, None] > x).mean(axis=0)
    assert found == pytest.approx(total.sf(x), abs=6 * 0.5 / np.sqrt(1e5))


def test_draws_follow_the_law():
    # each share is within 6 standard errors, but for a chance below 1e-8
    for law in (Laplace(scale=0.4), Gaussian(sigma=0.6), Tulap(scale=1.0, truncation=0.1)):
        rounded = Rounded(law)
        drawn = rounded.rvs(200_000, rng=5)
        assert drawn.dtype == np.int64
        k = np.arange(-4, 5)
        shares = (drawn[:, None] == k).mean(axis=0)
        slack = 6 * np.sqrt(rounded.pmf(k) / 200_000) + 1e-5
        assert (np.abs(shares - rounded.pmf(k)) < slack).all()


def test_laws_of_one_kind_are_joined_and_told_apart():
    laplace, gaussian = Rounded(Laplace(scale=1.0)), Rounded(Gaussian(sigma=1.0))
    assert laplace == Rounded(Laplace(scale=1.0))
    assert len({laplace, Rounded(Laplace(scale=1.0)), gaussian, Laplace(scale=1.0)}) == 3
    joint = IndependentNoise([laplace, Rounded(Laplace(scale=2.0)), gaussian])
    assert joint.take([1, 0]) == Rounded(Laplace(scale=[2.0, 1.0]))
    assert joint.is_integer
    assert pickle.loads(pickle.dumps(joint.take(1))) == Rounded(Laplace(scale=2.0))
    assert repr(laplace) == "Rounded(Laplace(scale=1.0))"
    assert as_frozen(laplace, loc=5).pmf(5) == laplace.pmf(0)
    assert guarantee_of(laplace, 2.0) == guarantee_of(Laplace(scale=1.0), 2.0)


@pytest.mark.parametrize("law", [Geometric(scale=1.0), DiscreteGaussian(sigma=2.0), 2.0])
def test_whole_numbers_are_not_rounded_again(law):
    with pytest.raises(InvalidParameterError, match="law must be Laplace, Gaussian or Tulap"):
        Rounded(law)


def test_scales_that_floats_cannot_round_are_refused():
    with pytest.raises(InvalidParameterError, match="scale of rounded noise must be <= 1e\\+15"):
        Rounded(Laplace(scale=[1.0, 1e16]))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_intervals_cover_rounded_counts(epsilon, alpha):
    law = Laplace.from_epsilon(epsilon)
    k, pmf = atoms(Rounded(law))
    held = count_confint(100 + k, mechanism=Rounded(law), alpha=alpha).contains(100)
    assert pmf @ held >= 1 - alpha - 1e-12
    # the intervals of the noise that was not rounded do not, at the scales and levels of old
    bare = pmf @ (np.abs(k) <= law.isf(alpha / 2))
    known = {(3.0, 0.1): 0.777, (2.0, 0.2): 0.632}.get((epsilon, alpha))
    assert known is None or bare == pytest.approx(known, abs=5e-4)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=3.0), Laplace(scale=60.0)])
def test_ratios_of_rounded_counts_are_covered(law):
    # by enumeration where few atoms matter, on a subset of the second noise
    noise = Rounded(law)
    k = np.unique(np.rint(noise.ppf((np.arange(60) + 0.5) / 60)))
    first, second = (x.ravel() for x in np.meshgrid(k, k))
    pmf = noise.pmf(first) * noise.pmf(second)
    found = ratio_confint(900 + first, 400 + second, mechanism=noise, alpha=0.3)
    assert pmf @ found.contains(900 / 400) / pmf.sum() >= 0.7
    whole = share_confint(100 + first[:5], 400, mechanism=(noise, noise))
    assert (np.asarray(whole.lower) < np.asarray(whole.upper)).all()
