"""Coverage among published values: conditional intervals, and the naive ones beside them.

A simulated coverage may be off by 6 standard deviations of a binomial proportion: each check fails
by accident with probability below 2e-9.
"""

import numpy as np
import pytest

from dpinfer.intervals import count_confint
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap

THRESHOLD = 90
MECHANISMS = {
    "Laplace": Laplace(scale=10.0),
    "Geometric": Geometric(scale=10.0),
    "Gaussian": Gaussian(sigma=14.0),
    "DiscreteGaussian": DiscreteGaussian(sigma=14.0),
    "Tulap": Tulap(scale=10.0),
    "truncated Tulap": Tulap(scale=10.0, truncation=1e-3),
}
COUNTS = (40, 60, 70, 80, 90, 100, 120, 200)

NAIVE = {
    "Laplace": (0.0, 0.0, 0.6305, 0.8641, 0.95, 0.9694, 0.9743, 0.95),
    "Gaussian": (0.0, 0.0, 0.6735, 0.8947, 0.95, 0.9672, 0.9655, 0.95),
}
"""Coverage of the naive 95 % interval, given publication, by confidential count."""

every_mechanism = pytest.mark.parametrize("name", MECHANISMS)


def published_values(noise, f, reps, seed):
    """Draw noisy values that reach the threshold: the noise, given that it exceeds τ - f."""
    rng = np.random.default_rng(seed)
    if noise.is_integer:
        e = np.arange(THRESHOLD - f, max(THRESHOLD - f, 0) + int(noise.isf(1e-16)) + 1)
        mass = noise.pmf(e)
        return f + rng.choice(e, size=reps, p=mass / mass.sum())
    # P(e > x) at the noise is uniform between 0 and P(e > τ - f)
    return np.maximum(f + noise.isf(rng.uniform(size=reps) * noise.sf(THRESHOLD - f)), THRESHOLD)


@pytest.mark.thinned("name", "alternative", "alpha", every=3)
@every_mechanism
@pytest.mark.parametrize("alternative", ["two-sided", "larger", "smaller"])
@pytest.mark.parametrize("alpha", [0.2, 0.05])
def test_coverage_given_publication(name, alternative, alpha):
    noise, reps = MECHANISMS[name], 8_000
    exact = not noise.is_integer and "Tulap" not in name
    for f in COUNTS:
        if noise.sf(THRESHOLD - f) == 0:  # the noise does not reach so far
            continue
        y = published_values(noise, f, reps, seed=f)
        found = count_confint(
            y, mechanism=noise, threshold=THRESHOLD, alpha=alpha, alternative=alternative
        )
        coverage = found.contains(f).mean()
        slack = 6 * np.sqrt(alpha * (1 - alpha) / reps)
        assert coverage >= 1 - alpha - slack
        # under Laplace noise all f <= τ are in, or out of, an interval together
        if exact:
            assert coverage <= 1 - alpha + slack


@pytest.mark.parametrize("name", NAIVE)
def test_naive_coverage_given_publication(name):
    noise = MECHANISMS[name]
    half = float(noise.isf(0.025))
    for f, expected in zip(COUNTS, NAIVE[name], strict=True):
        # P(-half <= e <= half, e >= τ - f)/P(e >= τ - f)
        start = max(THRESHOLD - f, -half)
        reached = max(noise.sf(start) - noise.sf(half), 0.0)
        in_closed_form = reached / noise.sf(THRESHOLD - f)
        assert in_closed_form == pytest.approx(expected, abs=6e-5)
        y = published_values(noise, f, 20_000, seed=f)
        naive = count_confint(y, mechanism=noise, threshold=THRESHOLD, method="naive")
        slack = 6 * np.sqrt(max(expected * (1 - expected), 1e-5) / 20_000)
        assert abs(naive.contains(f).mean() - in_closed_form) <= slack


@every_mechanism
def test_coverage_of_clamped_values(name):
    noise, reps, alpha = MECHANISMS[name], 20_000, 0.1
    for f in (-30, 0, 5, 12, 50, 95, 130):
        y = np.clip(f + noise.rvs(reps, rng=abs(f)), 0, 100)
        exact = count_confint(y, mechanism=noise, clamp=(0, 100), alpha=alpha)
        slack = 6 * np.sqrt(alpha * (1 - alpha) / reps)
        assert exact.contains(f).mean() >= 1 - alpha - slack
        if f == -30:  # a confidential value that is not within the clamping bounds itself
            naive = count_confint(y, mechanism=noise, clamp=(0, 100), alpha=alpha, method="naive")
            assert naive.contains(f).mean() < 0.2
