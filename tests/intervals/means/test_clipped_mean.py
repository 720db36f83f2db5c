"""Intervals for clipped means: against quadrature, simulation and Hoeffding's bound itself.

Simulated frequencies may be off by 6 standard deviations: each check fails by accident with
probability below 2e-9.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import dpinfer as dpi
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import clipped_mean_confint, count_confint
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace, WeightedSum


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=3.0), Exact()])
def test_noise_alone_is_the_quantile_of_the_noise(law):
    intervals = clipped_mean_confint(
        [3.0, 40.0], 10, bounds=(0, 50), mechanism=law, uncertainty="noise"
    )
    expected = count_confint([3.0, 40.0], mechanism=law, lower=0, upper=50)
    np.testing.assert_allclose(np.asarray(intervals), np.asarray(expected))
    assert intervals.uncertainty == "noise"


def test_known_std_by_quadrature():
    law = Laplace(scale=0.8)
    intervals = clipped_mean_confint(50.0, 400, bounds=(0, 100), mechanism=law, std=20.0)

    def miss(t):
        return (
            integrate.quad(lambda x: law.sf(t - x) * stats.norm.pdf(x), -9, 9, points=[t])[0]
            - 0.025
        )

    half = optimize.brentq(miss, 0.1, 8.9)
    np.testing.assert_allclose(intervals, [50 - half, 50 + half], rtol=1e-7)
    assert "approximate" in intervals.notes[0]


def test_without_noise_it_is_the_textbook():
    known = clipped_mean_confint(50.0, 400, bounds=(0, 100), mechanism=Exact(), std=20.0)
    half = stats.norm.isf(0.025)
    np.testing.assert_allclose(known, [50 - half, 50 + half], rtol=1e-9)
    bounded = clipped_mean_confint(50.0, 400, bounds=(0, 100), mechanism=Exact())
    hoeffding = 100 * np.sqrt(np.log(2 / 0.05) / 800)
    assert hoeffding <= bounded.upper - 50 <= 1.001 * hoeffding


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=3.0), Geometric(scale=4.0)])
def test_tail_bound_by_quadrature(law):
    n, alpha = 300, 0.1
    found = clipped_mean_confint(50.0, n, bounds=(0, 100), mechanism=law, alpha=alpha).upper - 50

    def tail(t):
        """P(R + e > t), R with P(R > r) = exp(-2nr²/100²)."""

        def density(r):
            return 4 * n * r / 1e4 * np.exp(-2 * n * r**2 / 1e4)

        places = np.linspace(0, 40, 400_001)
        return integrate.trapezoid(density(places) * law.sf(t - places), places)

    assert tail(found) <= alpha / 2 + 1e-5
    assert tail(0.998 * found) > alpha / 2 or law.is_integer
    # better than a sum of two bounds, however alpha is shared
    shares = np.linspace(0.01, 0.99, 99) * alpha / 2
    sums = 100 * np.sqrt(np.log(1 / shares) / (2 * n)) + law.isf(alpha / 2 - shares)
    assert found < sums.min()


@pytest.mark.parametrize("p", [0.01, 0.5])
def test_tail_bound_covers_extreme_laws(p):
    # two-point laws at the bounds are those with the widest spread; exact by enumeration
    n, law, alpha = 40, Laplace(scale=0.05), 0.1
    half = clipped_mean_confint(0.5, n, bounds=(0, 1), mechanism=law, alpha=alpha).upper - 0.5
    x = np.arange(n + 1)
    error = x / n - p
    covered = law.cdf(half - error) - law.cdf(-half - error)
    assert stats.binom(n, p).pmf(x) @ covered >= 1 - alpha


def test_rows_labels_and_kinds():
    means = pd.Series({"a": 10.0, "b": 20.0, "c": 99.0})
    nobs = [50, 100, 50]
    laws = [Laplace(scale=1.0), Gaussian(sigma=2.0), WeightedSum([0.5], Laplace(scale=2.0))]
    for std in (None, [10.0, 20.0, 30.0]):
        rows = clipped_mean_confint(means, nobs, bounds=(0, 100), mechanism=laws, std=std)
        assert list(rows.lower.index) == ["a", "b", "c"]
        for i, (mean, n, law) in enumerate(zip(means, nobs, laws, strict=True)):
            one = clipped_mean_confint(
                mean,
                n,
                bounds=(0, 100),
                mechanism=law,
                std=None if std is None else std[i],
            )
            np.testing.assert_allclose(np.asarray(rows)[i], np.asarray(one), rtol=1e-12)
    assert rows.upper["c"] == 100
    several = clipped_mean_confint(50.0, [10, 1000], bounds=(0, 100), mechanism=Laplace(scale=1.0))
    assert several.width[0] > several.width[1]


def test_coverage_by_simulation():
    rng = np.random.default_rng(3)
    n, reps, law = 100, 20_000, Laplace(scale=0.1)
    clipped = np.clip(rng.normal(0, 1, (reps, n)), -1, 1)
    published = clipped.mean(axis=1) + law.rvs(reps, rng=rng)
    std = np.sqrt(
        integrate.quad(lambda x: x**2 * stats.norm.pdf(x), -1, 1)[0] + 2 * stats.norm.sf(1)
    )
    known = clipped_mean_confint(published, n, bounds=(-1, 1), mechanism=law, std=std)
    allowed = 6 * np.sqrt(0.05 * 0.95 / reps)
    assert known.contains(0).mean() == pytest.approx(0.95, abs=allowed)
    bounded = clipped_mean_confint(published, n, bounds=(-1, 1), mechanism=law)
    assert bounded.contains(0).mean() >= 0.95 - allowed


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"bounds": (1, 0)}, "smaller one first"),
        ({"bounds": (0, np.inf)}, "bounds must be finite"),
        ({"std": 0.6}, "std must be <= 0.5"),
        ({"nobs": 0}, "nobs must be >= 1"),
        ({"nobs": [1, 2, 3], "mean": [0.1, 0.2]}, "nobs must .* one entry for each"),
        ({"method": "normal"}, "method must be one of 'tail-bound'"),
        ({"uncertainty": "sampling"}, "uncertainty must be one of"),
        ({"mechanism": 3}, "mechanism must be a noise law"),
    ],
)
def test_refusals(kwargs, match):
    given = {"mean": 0.5, "nobs": 10, "bounds": (0, 1), "mechanism": Laplace(scale=0.1)} | kwargs
    with pytest.raises(InvalidParameterError, match=match):
        clipped_mean_confint(given.pop("mean"), given.pop("nobs"), **given)


junk = st.floats(allow_nan=True) | st.sampled_from([None, "x", [], [0.1, 0.2], 1j, 5, 0.5, 0, 1])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    mean=junk,
    nobs=junk | st.integers(1, 2**60),
    bounds=st.tuples(junk, junk) | st.sampled_from([(0, 1), (-5, 5)]),
    std=junk | st.none(),
    alpha=st.sampled_from([1e-300, 1e-12, 0.05, 0.999999]) | junk,
    scale=st.sampled_from([1e-90, 1e-3, 1.0, 1e90]),
    uncertainty=st.sampled_from(["noise", "noise+sampling"]),
)
def test_fuzz(mean, nobs, bounds, std, alpha, scale, uncertainty):
    try:
        intervals = clipped_mean_confint(
            mean,
            nobs,
            bounds=bounds,
            mechanism=Laplace(scale=scale),
            std=std,
            alpha=alpha,
            uncertainty=uncertainty,
        )
    except DPInferError:
        return
    assert not np.isnan(np.asarray(intervals)).any()


def test_a_release_and_a_fit_bring_their_laws():
    law = Laplace(scale=0.05)
    means = pd.Series([0.31, 0.52, 0.44], index=list("abc"))
    kind = {"bounds": (0, 1)}
    asked = clipped_mean_confint(means, 40, mechanism=law, **kind)
    found = clipped_mean_confint(dpi.Release(means, mechanism=law), 40, **kind)
    pd.testing.assert_frame_equal(found.summary_frame(), asked.summary_frame())
    # two releases of one mean, the variances of which are added up by the fit
    fit = dpi.combine([0.31, 0.33], workload=[[1], [1]], mechanism=law)
    own = clipped_mean_confint(dpi.noisy(fit).take([0]), 40, std=0.2, **kind)
    both = clipped_mean_confint(0.32, 40, std=0.2, mechanism=WeightedSum([0.5, 0.5], law), **kind)
    np.testing.assert_allclose(np.asarray(own).ravel(), np.asarray(both), rtol=1e-9)
    with pytest.raises(InvalidParameterError, match="clipped_mean_confint does not take values"):
        clipped_mean_confint(dpi.Release(means, mechanism=law, threshold=0.3), 40, **kind)
