"""Coverage and mean width of the intervals for proportions and rates.

Under whole-numbered noise both are sums over everything that can be published. Otherwise they are
simulated: a coverage may be off by 6 standard deviations, so that each check fails by accident
with probability below 1e-9, and all of them with probability below 1e-7.
"""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpinfer import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    poisson_confint,
    proportion_confint,
)

ALPHA = 0.05
REPS = 20_000
LAWS = {
    "Laplace": Laplace.from_epsilon,
    "geometric": Geometric.from_epsilon,
    "Gaussian": lambda epsilon: Gaussian(sigma=5.3 / epsilon),
    "discrete Gaussian": lambda epsilon: DiscreteGaussian(sigma=5.3 / epsilon),
}
EPSILONS = (0.005, 0.05, 0.2, 1.0)
SIZES = (1, 5, 50, 500)
PROPORTIONS = (0.0, 0.01, 0.2, 0.5, 1.0)
RATES = (0.0, 0.3, 5.0, 200.0)

every_law = pytest.mark.parametrize("law", LAWS)


def published(law, counts, chances, rng):
    """Return what can be published and its probabilities, or equally likely draws of it."""
    if not law.is_integer:
        drawn = rng.choice(counts, REPS, p=chances) + law.rvs(REPS, rng=rng)
        return drawn, np.full(REPS, 1.0 / REPS), 6.0 * np.sqrt(ALPHA * (1.0 - ALPHA) / REPS)
    reach = int(np.ceil(law.isf(1e-13)))
    noise = np.arange(-reach, reach + 1)
    chance = np.convolve(chances, law.pmf(noise))
    return np.arange(counts[0] - reach, counts[-1] + reach + 1.0), chance, 1e-9


def assert_covers(truth, values, chance, allowed, interval):
    intervals = interval(values)
    covered = chance[intervals.contains(truth)].sum() / chance.sum()
    assert covered >= 1.0 - ALPHA - allowed
    return float(chance @ intervals.width)


def check_proportion(law, n, p, rng):
    counts = np.arange(n + 1.0)
    values, chance, allowed = published(law, counts, stats.binom.pmf(counts, n, p), rng)

    def interval(method):
        return lambda y: proportion_confint(y, n, mechanism=law, alpha=ALPHA, method=method)

    exact = assert_covers(p, values, chance, allowed, interval("exact"))
    normal = interval("asymptotic")(values)
    return exact, float(chance @ normal.width), chance[normal.contains(p)].sum() / chance.sum()


def check_rate(law, rate, rng):
    counts = np.arange(stats.poisson.isf(1e-14, rate) + 1.0)
    chances = stats.poisson.pmf(counts, rate)
    values, chance, allowed = published(law, counts, chances / chances.sum(), rng)
    return assert_covers(
        rate, values, chance, allowed, lambda y: poisson_confint(y, mechanism=law, alpha=ALPHA)
    )


@pytest.mark.parametrize(
    ("name", "epsilon", "n", "p"),
    [
        ("geometric", 0.2, 5, 0.0),
        ("discrete Gaussian", 1.0, 50, 0.01),
        ("Laplace", 0.2, 50, 0.2),
        ("Gaussian", 0.05, 500, 0.5),
    ],
)
def test_exact_intervals_for_proportions_cover(name, epsilon, n, p):
    check_proportion(LAWS[name](epsilon), n, p, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("name", "epsilon", "rate"), [("geometric", 0.2, 0.3), ("Laplace", 1.0, 5.0)]
)
def test_exact_intervals_for_rates_cover(name, epsilon, rate):
    check_rate(LAWS[name](epsilon), rate, np.random.default_rng(2))


def test_normal_intervals_miss_rare_events():
    law = LAWS["geometric"](1.0)
    exact, normal, covered = check_proportion(law, 500, 0.01, np.random.default_rng(3))
    assert normal < exact
    assert covered < 0.93


def every_second(settings, law, epsilon, half):
    """Half of the settings; the others with the next law, with the next ε, and in the study."""
    return list(settings)[(list(LAWS).index(law) + EPSILONS.index(epsilon) + half) % 2 :: 2]


each_half = pytest.mark.parametrize(
    "half", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.study)]
)


@each_half
@every_law
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exact_intervals_for_proportions_cover_everywhere(law, epsilon, half):
    rng = np.random.default_rng(4)
    for n, p in every_second(product(SIZES, PROPORTIONS), law, epsilon, half):
        exact, normal, covered = check_proportion(LAWS[law](epsilon), n, p, rng)
        print(
            f"{law}, epsilon {epsilon:g}, n = {n}, p = {p:g}: mean width {exact:.3f}, "
            f"normal {normal:.3f} with coverage {covered:.3f}"
        )


@each_half
@every_law
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exact_intervals_for_rates_cover_everywhere(law, epsilon, half):
    rng = np.random.default_rng(5)
    for rate in every_second(RATES, law, epsilon, half):
        check_rate(LAWS[law](epsilon), rate, rng)
