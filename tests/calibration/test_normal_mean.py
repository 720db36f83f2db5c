"""Coverage of the private intervals for a normal mean, at small samples as at large ones.

A simulated coverage may be off by 6 standard deviations of a binomial proportion: each check fails
by accident with probability below 2e-9.
"""

from bisect import bisect_left
from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpinfer.intervals import normal_mean_confint

SIGMA = 2.0
KNOWN = {"std": SIGMA, "mean_bounds": (-200.0, 200.0)}
UNKNOWN = {"std_bounds": (0.01, 1000.0), "mean_bounds": (-1e4, 1e4)}
FREE = {"delta": 1e-6}


def simulate(nobs, mean, alpha, reps, seed, **kwargs):
    """Coverage, median width over that without privacy, and share of intervals without a range."""
    rng = np.random.default_rng(seed)
    hits, widths, lost = 0, np.empty(reps), 0
    for i in range(reps):
        sample = rng.normal(mean, SIGMA, nobs)
        interval = normal_mean_confint(sample, alpha=alpha, rng=rng, **kwargs)
        hits += bool(interval.contains(mean))
        widths[i] = interval.width
        lost += not np.isfinite(interval.half_width_noise)
    usual = 2 * stats.norm.isf(alpha / 2) * SIGMA / np.sqrt(nobs)
    return hits / reps, np.median(widths) / usual, lost / reps


def allowance(alpha, reps):
    return 6 * np.sqrt(alpha * (1 - alpha) / reps)


@pytest.mark.parametrize(
    ("nobs", "epsilon", "kwargs", "widest"),
    [
        (500, 1.0, KNOWN, 2.5),
        (500, 1.0, FREE | {"std": SIGMA}, 2.5),
        (5000, 1.0, UNKNOWN, 15.0),
        (5000, 1.0, FREE, 15.0),
    ],
)
def test_coverage(nobs, epsilon, kwargs, widest):
    reps, alpha = 150, 0.2
    # 5.0 is the end of a bin: the hardest place for the histogram
    coverage, width, lost = simulate(nobs, 5.0, alpha, reps, 1, epsilon=epsilon, **kwargs)
    assert coverage >= 1 - alpha - allowance(alpha, reps)
    assert lost == 0
    assert 1 <= width <= widest


def test_the_known_case_wastes_little():
    # misses: nine tenths of alpha, less the bound on failures that are far rarer than that
    reps, alpha = 1500, 0.2
    coverage, _, lost = simulate(1000, 5.0, alpha, reps, 2, epsilon=1.0, **KNOWN)
    assert lost == 0
    assert coverage <= 1 - 0.85 * alpha + allowance(alpha, reps)


GRID = list(product([20, 100, 300, 1000, 5000, 20_000], [0.1, 0.5, 1.0, 5.0]))


@pytest.mark.parametrize(
    ("nobs", "epsilon", "means", "reps"),
    [
        # every third has all sizes and all ε, though not together
        *(pytest.param(*case, (5.0,), 240, marks=pytest.mark.slow) for case in GRID[::3]),
        *(pytest.param(*case, (0.0, 5.0, 199.7), 1000, marks=pytest.mark.study) for case in GRID),
    ],
)
@pytest.mark.parametrize("name", ["known", "known, unbounded", "unknown", "unknown, unbounded"])
def test_coverage_on_a_grid(name, nobs, epsilon, means, reps):
    kwargs = {
        "known": KNOWN,
        "known, unbounded": FREE | {"std": SIGMA},
        "unknown": UNKNOWN,
        "unknown, unbounded": FREE,
    }[name]
    alpha = 0.1
    for mean in means:
        coverage, width, lost = simulate(nobs, mean, alpha, reps, 3, epsilon=epsilon, **kwargs)
        assert coverage >= 1 - alpha - allowance(alpha, reps)
        print(
            f"{name} n={nobs} eps={epsilon} mean={mean}: "
            f"coverage {coverage:.4f} width {width:.2f} lost {lost:.3f}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "tail-bound"])
def test_smallest_samples_with_a_range_cover(method):
    # just enough observations: the failure of the histogram takes its full share of alpha
    alpha, reps = 0.1, 1200

    def has_a_range(n):
        return bool(
            normal_mean_confint(np.zeros(n), epsilon=1, alpha=alpha, rng=0, **KNOWN).epsilon
        )

    nobs = bisect_left(range(2000), True, lo=10, key=has_a_range)
    coverage, _, _ = simulate(nobs, 5.0, alpha, reps, 4, epsilon=1.0, method=method, **KNOWN)
    assert coverage >= 1 - alpha - allowance(alpha, reps)
