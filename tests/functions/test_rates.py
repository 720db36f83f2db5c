"""Standardised rates: the figures of their definition, exact laws, and coverage by simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import (
    smr_confint,
    standardized_rate_confint,
    standardized_rate_ratio_confint,
)

W = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
D = np.array([3, 8, 20, 60, 120])
N = np.array([3000, 2800, 2000, 1500, 800])
RATE = (W * D / N).sum()
EXACT = dpi.Exact()


def test_without_noise_it_is_the_rate():
    found = standardized_rate_confint(D, N, 7 * W, mechanism=EXACT, per=100_000)
    np.testing.assert_allclose(
        [found.estimate, found.lower, found.upper, found.plug_in], 2401.428571428, rtol=1e-9
    )
    assert found.guarantee == "exact"
    smr = smr_confint(D, N, D / N / 2, mechanism=EXACT)
    np.testing.assert_allclose([smr.lower, smr.upper], 2.0, rtol=1e-12)


def test_exact_populations_have_the_law_of_a_weighted_sum():
    """The same by WeightedSum; and by the normal law in closed form."""
    laplace = dpi.Laplace(scale=2.0)
    found = standardized_rate_confint(D + 0.25, N, W, mechanism=(laplace, EXACT))
    half = dpi.WeightedSum(W / N, laplace).isf(0.025)
    np.testing.assert_allclose(found.upper - found.estimate, half, rtol=1e-9)
    many = np.tile(D + 0.25, (31, 1)), np.tile(N, (31, 1))
    wide = standardized_rate_confint(*many, W, mechanism=(laplace, EXACT))
    np.testing.assert_allclose(wide.upper - wide.estimate, half, rtol=1e-6)
    gauss = standardized_rate_confint(D + 0.25, N, W, mechanism=(dpi.Gaussian(sigma=3.0), EXACT))
    normal = stats.norm.isf(0.025) * 3.0 * np.sqrt(((W / N) ** 2).sum())
    assert gauss.upper - gauss.estimate == pytest.approx(normal, rel=1e-9)


def test_the_estimate_is_corrected_and_the_asymptotic_interval_covers():
    """20,000 areas: the mean within 4.5 standard errors, and 0.95 within 4.5 of a coverage."""
    rng = np.random.default_rng(7)
    y, z = D + rng.normal(0, 3, (20_000, 5)), N + rng.normal(0, 40, (20_000, 5))
    laws = dpi.Gaussian(sigma=3.0), dpi.Gaussian(sigma=40.0)
    found = standardized_rate_confint(y, z, W, mechanism=laws, method="asymptotic", per=100_000)
    error = found.estimate.std() / np.sqrt(20_000)
    assert abs(found.estimate.mean() - 1e5 * RATE) < 4.5 * error
    assert found.plug_in.mean() - 1e5 * RATE > 8 * error
    assert found.contains(1e5 * RATE).mean() == pytest.approx(0.951, abs=0.007)


PAIRS = {
    "Gaussian": (dpi.Gaussian(sigma=3.0), dpi.Gaussian(sigma=40.0)),
    "geometric": (dpi.Geometric(scale=2.0), dpi.Geometric(scale=10.0)),
    "mixed": (dpi.Laplace(scale=2.0), dpi.DiscreteGaussian(sigma=20.0)),
}


@pytest.mark.parametrize("case", PAIRS)
def test_bounds_cover(case):
    """Of 500 at level 0.8, 355 by chance in 1 of 10⁷ at most if they covered in just 0.8."""
    laws = PAIRS[case]
    y, z = (
        f + law.rvs((500, 5), rng=3 + k)
        for k, (f, law) in enumerate(zip((D, N), laws, strict=True))
    )
    found = standardized_rate_confint(y, z, W, mechanism=laws, alpha=0.2)
    assert found.contains(RATE).sum() >= 355
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert found.guarantee == "proved, conservative"
    deaths = np.random.default_rng(9).poisson(D, (500, 5)) + laws[0].rvs((500, 5), rng=11)
    for method in ("bound", "asymptotic"):
        sampled = standardized_rate_confint(
            deaths, z, W, mechanism=laws, alpha=0.2, uncertainty="noise+sampling", method=method
        )
        assert sampled.contains(RATE).sum() >= 355
    smr = smr_confint(deaths, z, D / N, mechanism=laws, alpha=0.2, uncertainty="noise+sampling")
    assert smr.contains(1.0).sum() >= 355
    ratio = standardized_rate_ratio_confint(
        deaths[:250], z[:250], deaths[250:], z[250:], W, mechanism=laws, alpha=0.2,
        uncertainty="noise+sampling",
    )  # fmt: skip
    assert ratio.contains(1.0).sum() >= 165


def test_bounds_are_sharp_with_large_populations():
    laws = dpi.Gaussian(sigma=3.0), dpi.Gaussian(sigma=3.0)
    args = 1000 * D, 1000 * N, W
    wide = standardized_rate_confint(*args, mechanism=laws)
    short = standardized_rate_confint(*args, mechanism=laws, method="asymptotic")
    assert 1.0 < float(wide.width / short.width) < 1.04


@pytest.mark.parametrize(
    "law",
    [dpi.Laplace(scale=2.0), dpi.Geometric(scale=0.7), dpi.DiscreteGaussian(sigma=1.5)],
    ids=repr,
)
def test_quantiles_of_uncertain_weights_are_bounds(law):
    """No weights within bounds have a larger quantile, by the law of each sum."""
    from dpinfer.functions._worst import weights_within, worst_quantiles

    rng = np.random.default_rng(4)
    low = rng.normal(size=(1, 3))
    high = low + rng.uniform(0, 0.4, (1, 3))
    noises = dpi.noisy(np.arange(3) + 0.5 * (not law.is_integer), mechanism=law).noises
    arrays = (sparse.csr_array(one) for one in (low, high))
    sizes = weights_within(*arrays, sparse.eye_array(3, format="csr"))
    for tail in (0.1, 0.01):
        bound = worst_quantiles(sizes, noises, tail)[0]
        for _ in range(4):
            chosen = low + rng.uniform(0, 1, low.shape) * (high - low)
            assert dpi.WeightedSum(chosen[0], law).isf(tail) <= bound


def test_errors_that_share_noises_are_known_to():
    """The standard error for any joint law, by numerical derivatives."""
    rng = np.random.default_rng(8)
    shared = rng.normal(size=(10, 4)) * np.r_[np.full(5, 2.0), np.full(5, 9.0)][:, np.newaxis]
    x = dpi.noisy(np.r_[D, N] + 0.5, weights=shared, mechanism=dpi.Gaussian(sigma=1.0))
    found = standardized_rate_confint(
        x.take(range(5)), x.take(range(5, 10)), W, method="asymptotic"
    )

    def rate(values):
        return (W * values[:5] / values[5:]).sum()

    steps = 1e-3 * np.eye(10)
    slope = np.array([(rate(x.values + s) - rate(x.values - s)) / 2e-3 for s in steps])
    se = np.sqrt(slope @ x.cov() @ slope)
    assert found.width / 2 / stats.norm.isf(0.025) == pytest.approx(se, rel=1e-6)
    proved = standardized_rate_confint(x.take(range(5)), x.take(range(5, 10)), W)
    assert float(found.width) < float(proved.width) < 2.0 * float(found.width)


def test_smr_is_a_ratio_of_linear_functions():
    law, reference = dpi.Laplace(scale=3.0), np.array([0.001, 0.003, 0.01, 0.04, 0.15])
    y, z = D + 0.5, N + 0.5
    found = smr_confint(y, z, reference, mechanism=law)
    same = dpi.linear_ratio_confint(
        np.r_[y, z], np.r_[np.ones(5), np.zeros(5)], np.r_[np.zeros(5), reference], mechanism=law
    )
    np.testing.assert_allclose([found.lower, found.upper], [same.lower, same.upper], rtol=1e-9)
    many = smr_confint(np.tile(y, (31, 1)), np.tile(z, (31, 1)), reference, mechanism=law)
    assert (many.lower <= same.lower).all()
    assert (many.upper >= same.upper).all()
    sampled = smr_confint(
        D, N, reference, mechanism=(dpi.Exact(), EXACT), uncertainty="noise+sampling"
    )
    expected = (reference * N).sum()
    ends = stats.chi2.ppf([0.025, 0.975], [2 * D.sum(), 2 * D.sum() + 2]) / 2 / expected
    np.testing.assert_allclose([sampled.lower, sampled.upper], ends, rtol=1e-8)


def test_ratios():
    """With exact populations those of two weighted sums; otherwise swapping them inverts."""
    law = dpi.Laplace(scale=2.0)
    other = np.array([5, 9, 28, 70, 150]) + 0.5
    found = standardized_rate_ratio_confint(D + 0.5, N, other, N, W, mechanism=(law, EXACT))
    same = dpi.linear_ratio_confint(
        np.r_[D + 0.5, other], np.r_[W / N, 0 * W], np.r_[0 * W, W / N], mechanism=law
    )
    np.testing.assert_allclose([found.lower, found.upper], [same.lower, same.upper], rtol=1e-9)
    for method in ("bound", "asymptotic"):
        how = {"mechanism": law, "method": method}
        one = standardized_rate_ratio_confint(D + 0.5, N + 0.5, other, N + 0.5, W, **how)
        two = standardized_rate_ratio_confint(other, N + 0.5, D + 0.5, N + 0.5, W, **how)
        np.testing.assert_allclose([one.lower, one.upper], [1 / two.upper, 1 / two.lower])
        assert one.contains(same.estimate)


def test_labels():
    ages = ["0-19", "20-39", "40-59", "60-79", "80+"]
    deaths = pd.DataFrame([D, 2 * D], index=["A", "B"], columns=ages).rename_axis("area")
    deaths = deaths.rename_axis(columns="age")
    people = pd.DataFrame([N, 3 * N], index=deaths.index, columns=deaths.columns)
    noise = dpi.Geometric(scale=1.0)
    found = standardized_rate_confint(
        deaths, people, pd.Series(W, ages), by="area", mechanism=noise
    )
    plain = standardized_rate_confint(deaths.to_numpy(), people.to_numpy(), W, mechanism=noise)
    assert found.labels.tolist() == ["A", "B"]
    np.testing.assert_allclose(found.upper, plain.upper)


def test_what_is_refused():
    law = dpi.Gaussian(sigma=3.0)
    small = N.copy()
    small[4] = 12
    with pytest.raises(NotEstimableError, match="population must be at least 5 standard"):
        standardized_rate_confint(D, small, W, mechanism=law, method="asymptotic")
    small[4] = 5
    with pytest.raises(NotEstimableError, match="away from 0 by what its noise can be"):
        standardized_rate_confint(D + 0.5, small + 0.5, W, mechanism=law)
    both = standardized_rate_confint(
        np.tile(D + 0.5, (2, 1)), np.stack([N, small]) + 0.5, W, mechanism=law
    )
    assert np.isinf(both.upper).tolist() == [False, True]
    assert both.lower[1] == 0.0
    assert "1 of 2 areas have no upper end" in both.notes[0]
    with pytest.raises(InvalidParameterError, match="weights must not be 0 in all ages"):
        standardized_rate_confint(D, N, 0 * W, mechanism=EXACT)
    with pytest.raises(InvalidParameterError, match="population must be > 0 where it has no noise"):
        standardized_rate_confint(D, 0 * N, W, mechanism=EXACT)
    with pytest.raises(InvalidParameterError, match="weights must have one entry for each age"):
        standardized_rate_confint(D, N, W[:3], mechanism=EXACT)


@pytest.mark.parametrize("by_name", [True, False])
def test_weights_by_age_are_those_of_their_level(by_name):
    areas, ages = pd.Index([1, 2], name="area"), pd.Index([1, 2, 3], name="age")
    index = pd.MultiIndex.from_product([areas, ages])
    deaths = pd.Series([10.0, 50, 200, 20, 40, 300], index)
    persons = pd.Series([3000.0, 2000, 1000] * 2, index)
    laws = (dpi.Laplace(scale=2.0), dpi.Exact())
    weights = pd.Series([0.6, 0.3, 0.1], index=ages if by_name else [1, 2, 3])
    if not by_name:  # areas 1 and 2 are among these labels too
        with pytest.raises(InvalidParameterError, match="named after the level"):
            standardized_rate_confint(deaths, persons, weights, by="area", mechanism=laws)
        return
    found = standardized_rate_confint(deaths, persons, weights, by="area", mechanism=laws)
    wanted = (deaths / persons).to_numpy().reshape(2, 3) @ [0.6, 0.3, 0.1]
    np.testing.assert_allclose(found.estimate, wanted)


def test_two_populations_with_shared_noise_are_not_compared_by_their_variances():
    both = dpi.noisy([100.0, 90.0], weights=[[1.0], [-1.0]], mechanism=dpi.Gaussian(sigma=10.0))
    given = (both[[0]], [1000.0], both[[1]], [1000.0], [1.0])
    laws = (None, dpi.Exact())
    with pytest.raises(InvalidParameterError, match="share"):
        standardized_rate_ratio_confint(*given, mechanism=laws, method="asymptotic")
    assert standardized_rate_ratio_confint(*given, mechanism=laws).lower > 0
