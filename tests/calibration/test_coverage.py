"""Coverage of the intervals: in closed form where the law gives it, by simulation everywhere.

A simulated coverage may be off by 6 standard deviations of a binomial proportion: each check fails
by accident with probability below 2e-9.
"""

import numpy as np
import pytest

from dpinfer import NoisyValues, Release, noisy
from dpinfer.estimation import combine
from dpinfer.intervals import count_confint, linear_confint, share_confint
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
)

EPSILONS = (0.01, 0.1, 1.0, 10.0)
COUNTS = (0, 1, 5, 100, 10**6)
ALPHAS = (0.1, 0.05, 0.01)
MECHANISMS = {
    "Laplace": Laplace.from_epsilon,
    "Geometric": Geometric.from_epsilon,
    "Gaussian": lambda epsilon: Gaussian(sigma=1 / epsilon),
    "DiscreteGaussian": lambda epsilon: DiscreteGaussian(sigma=1 / epsilon),
    "Tulap": Tulap.from_epsilon,
    "truncated Tulap": lambda epsilon: Tulap.from_epsilon(epsilon, delta=1e-3),
}

# sums of like and of unlike terms, with whole and other weights
WEIGHTS = np.array([[1.0, 1, 1, 1], [1, -1, 0, 0], [0.5, 0.25, 2, -1], [1, np.sqrt(2), 0, 3]])

every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def assert_covers(hits, trials, nominal, *, exactly):
    """Compare a simulated coverage with the nominal one, within 6 standard deviations."""
    allowed = 6 * np.sqrt(nominal * (1 - nominal) / trials)
    coverage = np.asarray(hits) / trials
    assert (coverage >= nominal - allowed).all()
    if exactly:
        assert (coverage <= nominal + allowed).all()


@every_mechanism
@every_epsilon
@every_alpha
def test_coverage_in_closed_form(name, epsilon, alpha):
    noise = MECHANISMS[name](epsilon)
    half = count_confint(0.0, mechanism=noise, alpha=alpha).upper
    coverage = 1 - 2 * noise.sf(half)
    assert coverage >= 1 - alpha - 1e-12
    if not noise.is_integer:
        assert coverage == pytest.approx(1 - alpha, abs=1e-9)


@pytest.mark.parametrize("name", ["Geometric", "DiscreteGaussian"])
@every_epsilon
@pytest.mark.parametrize("truth", [0, 1, 5])
def test_restricted_intervals_cover_as_often(name, epsilon, truth):
    noise = MECHANISMS[name](epsilon)
    reach = int(noise.isf(1e-12))
    errors = np.arange(-reach, reach + 1)
    published = truth + errors
    for alpha in ALPHAS:
        free = count_confint(published, mechanism=noise, alpha=alpha)
        bound = count_confint(published, mechanism=noise, alpha=alpha, integer=True, lower=0)
        np.testing.assert_array_equal(free.contains(truth), bound.contains(truth))
        coverage = noise.pmf(errors)[bound.contains(truth)].sum()
        assert coverage >= 1 - alpha - 1e-11
        assert (bound.width <= free.width).all()


def assert_counts_covered(noise, truths, alphas, errors):
    """The same errors at every truth and level; their simulated coverage is near the nominal."""
    for truth in truths:
        for alpha in alphas:
            intervals = count_confint(truth + errors, mechanism=noise, alpha=alpha)
            hits = np.count_nonzero(intervals.contains(truth))
            assert_covers(hits, errors.size, 1 - alpha, exactly=not noise.is_integer)


@every_mechanism
def test_simulated_coverage(name):
    noise = MECHANISMS[name](1.0)
    assert_counts_covered(noise, (0, 10**6), (0.05,), noise.rvs(20_000, rng=1))


@pytest.mark.slow
@pytest.mark.thinned("name", "epsilon", every=2)
@every_mechanism
@every_epsilon
def test_simulated_coverage_study(name, epsilon):
    noise = MECHANISMS[name](epsilon)
    errors = noise.rvs(400_000, rng=EPSILONS.index(epsilon))
    assert_counts_covered(noise, COUNTS, ALPHAS, errors)


@every_mechanism
def test_simultaneous_coverage(name):
    noise, k = MECHANISMS[name](1.0), 10
    published = noise.rvs((20_000, k), rng=2)
    half = count_confint(np.zeros(k), mechanism=noise, alpha=0.1, simultaneous=True).upper
    hits = np.count_nonzero((np.abs(published) <= half).all(axis=1))
    assert_covers(hits, 20_000, 0.9, exactly=not noise.is_integer)


def assert_linear_functions_covered(noise, alphas, reps, seed, *, exactly):
    """The interval of each linear function of four values covers as often as it says."""
    errors = np.abs(np.asarray(noise.rvs((reps, 4), rng=seed)) @ WEIGHTS.T)
    for alpha in alphas:
        half = linear_confint(np.zeros(4), WEIGHTS, mechanism=noise, alpha=alpha).upper
        hits = np.count_nonzero(errors <= half + 1e-9, axis=0)
        assert_covers(hits, reps, 1 - alpha, exactly=exactly)


@every_mechanism
def test_linear_functions_cover(name):
    noise = MECHANISMS[name](1.0)
    assert_linear_functions_covered(noise, (0.05,), 20_000, 3, exactly=not noise.is_integer)


@pytest.mark.slow
@pytest.mark.thinned("name", "epsilon", every=2)
@every_mechanism
@every_epsilon
def test_linear_functions_cover_study(name, epsilon):
    noise = MECHANISMS[name](epsilon)
    assert_linear_functions_covered(noise, ALPHAS, 250_000, 4, exactly=not noise.is_integer)


def test_linear_functions_of_mixed_noises_cover():
    noise = IndependentNoise(
        [Laplace(scale=1.0), Geometric(scale=2.0), Gaussian(sigma=1.5), Tulap.from_epsilon(1.0)]
    )
    # every one of these sums has a continuous part, so its law is continuous
    assert_linear_functions_covered(noise, (0.05,), 50_000, 5, exactly=True)


@pytest.mark.parametrize("name", ["Laplace", "Geometric", "Gaussian"])
def test_combined_estimates_cover(name):
    noise = MECHANISMS[name](0.5)
    workload = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    fit = combine(np.zeros(5), workload=workload, mechanism=noise)
    errors = np.abs(fit.simulate_errors(50_000, rng=6))
    each = np.count_nonzero(errors <= fit.conf_int(alpha=0.1).upper - fit.params + 1e-9, axis=0)
    assert_covers(each, 50_000, 0.9, exactly=not noise.is_integer)
    joint = fit.conf_int(alpha=0.1, simultaneous=True, reps=50_000, rng=7)
    together = np.count_nonzero((errors <= joint.upper - fit.params + 1e-9).all(axis=1))
    # the quantile is simulated too: twice the variance
    allowed = 6 * np.sqrt(2 * 0.9 * 0.1 / 50_000)
    assert together / 50_000 >= 0.9 - allowed
    if not noise.is_integer:
        assert together / 50_000 <= 0.9 + allowed
    bound = fit.conf_int(alpha=0.1, method="tail-bound").upper - fit.params
    assert np.count_nonzero((errors <= bound).all(axis=1)) / 50_000 >= 0.9


QUERIES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
PARTS = [
    (Laplace(scale=6.0), Laplace(scale=1.0)),
    (Geometric(scale=6.0), Geometric(scale=1.0)),
    (Gaussian(sigma=6.0), Gaussian(sigma=1.0)),
]


@pytest.mark.parametrize(("cells", "total"), PARTS, ids=["Laplace", "Geometric", "Gaussian"])
def test_dependent_estimates_of_one_fit_are_covered(cells, total):
    """The share, the difference and the sum of two combined counts with an own noisy total."""
    reps, laws = 20_000, [cells, cells, total]
    drawn = np.column_stack([law.rvs(reps, rng=seed) for seed, law in enumerate(laws)])
    release = Release(np.array([60.0, 40.0, 100.0]) + drawn[0], workload=QUERIES, mechanism=laws)
    x = noisy(combine(release, target=np.eye(2)))
    errors = drawn @ np.asarray(x.weights.toarray()).T
    contrasts = {"share": [0.4, -0.6], "difference": [1.0, -1.0], "sum": [1.0, 1.0]}
    for contrast in contrasts.values():
        interval = linear_confint(x, contrast)
        hits = np.abs(errors @ contrast) <= 0.5 * float(interval.width) + 1e-9
        assert_covers(hits.sum(), reps, 0.95, exactly=not cells.is_integer)
    assert float(interval.width) < 0.5 * x.std.sum()  # the errors of the two nearly cancel
    # the set of the share itself holds .6 just where its own contrast is within the quantile
    some = errors[: 1 if cells.is_integer else 4]  # a second each, where the noise is whole
    for values, error in zip(np.array([60.0, 40.0]) + some, some, strict=True):
        joint = NoisyValues(values, x.noises, weights=x.weights)
        held = share_confint(joint.take([0]), joint.take([1])).contains(0.6)
        reach = 0.5 * float(linear_confint(x, [0.4, -0.6]).width)
        assert bool(held[0]) == (abs(error @ [0.4, -0.6]) <= reach + 1e-9)
