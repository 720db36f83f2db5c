"""Settings in which rejection rates are found, and how they are counted."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from dpinfer import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.mechanisms import NoiseLaw

ALTERNATIVES = ("two-sided", "larger", "smaller")
LEVELS = np.array([0.01, 0.05, 0.1])
SIGMA = np.sqrt(2 * np.log(1.25e6))
"""Standard deviation of Gaussian noise for ε = 1 and δ = 1e-6."""

LAWS: dict[str, Callable[[float], NoiseLaw]] = {
    "laplace": lambda epsilon: Laplace(scale=1 / epsilon),
    "geometric": lambda epsilon: Geometric(scale=1 / epsilon),
    "gaussian": lambda epsilon: Gaussian(sigma=SIGMA / epsilon),
    "discrete gaussian": lambda epsilon: DiscreteGaussian(sigma=SIGMA / epsilon),
}
NO_LAW = "randomized response"


@dataclass(frozen=True)
class Setting:
    """A null hypothesis, up to what a test makes of it, and the noise."""

    nobs: int
    epsilon: float
    skewed: bool
    law: str

    @property
    def noise(self):
        return LAWS[self.law](self.epsilon)

    @property
    def share(self):
        return 0.05 if self.skewed else 0.5

    @property
    def cells(self):
        return np.array([0.7, 0.2, 0.08, 0.02] if self.skewed else [0.25] * 4)

    def noisy(self, counts, rng):
        return counts + self.noise.rvs(np.shape(counts), rng=rng)


def settings(law):
    for nobs, epsilon, skewed in product((50, 500, 5000), (0.05, 0.2, 1.0), (False, True)):
        yield Setting(nobs, epsilon, skewed, law)


def shares(*pvalues):
    """Rates for each alternative, shape (a, 3); of p-values that were computed up to rounding."""
    return np.array([[np.mean(p <= level * (1 + 1e-12)) for level in LEVELS] for p in pvalues])


def beyond(pvalue, distance, releases=None):
    """Rates of a test whose p-value falls with a distance: where it does, by bisection."""
    order = np.argsort(-distance)
    looked_at = (distance if releases is None else releases)[order]
    found = []
    for level in LEVELS:
        low, high = 0, order.size  # the first `low` are rejected
        while low < high:
            middle = (low + high) // 2
            rejected = pvalue(looked_at[middle]) <= level * (1 + 1e-12)
            low, high = (middle + 1, high) if rejected else (low, middle)
        found.append(low / order.size)
    return np.array([found])


def on_all_sides(pvalue, deviations, releases=None):
    """Rates for the three alternatives; ``pvalue(release, alternative=...)``."""
    points = deviations if releases is None else releases
    sides = {"two-sided": np.abs(deviations), "larger": deviations, "smaller": -deviations}
    found = [beyond(partial(pvalue, alternative=a), sides[a], points) for a in ALTERNATIVES]
    return np.concatenate(found)


def on_each_side(test, *columns, **options):
    """P-values for each alternative, all from one simulation where the test makes one."""
    if options["method"] != "monte-carlo":
        return [test(*columns, alternative=a, **options).pvalue for a in ALTERNATIVES]
    result = test(*columns, **options)
    return [result.null_distribution.pvalue(result.statistic, a) for a in ALTERNATIVES]


def pvalue_of(test, *args, **options):
    return test(*args, **options).pvalue
