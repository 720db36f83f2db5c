"""Power of the tests: a curve by the laws beside a loop that simulates each point."""

import numpy as np
import pytest

from dpinfer import (
    Geometric,
    Laplace,
    linear_ztest,
    plan,
    poisson_ztest,
    proportions_2indep,
    proportions_ztest,
)

NOISES = [Laplace(scale=2.0), Geometric(scale=2.0)]
NOBS = np.arange(50, 1050, 10)
TRUTH, NULL, ALPHA = 0.30, 0.25, 0.05


def simulated_curve(noise, reps):
    """The share of rejections among simulated counts, point by point."""
    rng = np.random.default_rng(1)
    curve = []
    for nobs in NOBS:
        counts = rng.binomial(nobs, TRUTH, reps) + noise.rvs(reps, rng=rng)
        pvalue = proportions_ztest(counts, nobs, NULL, mechanism=noise).pvalue
        curve.append(np.mean(pvalue <= ALPHA))
    return np.array(curve)


def planned_power(nobs, noise):
    """The power by the law of the test."""
    truth = {"value": NULL, "proportion": TRUTH, "alpha": ALPHA}
    return plan.power(proportions_ztest, nobs=nobs, mechanism=noise, **truth)


def by_replicates(noise, reps):
    """One point of the curve by the loop of a tutorial: a test for each replicate."""
    rng = np.random.default_rng(1)
    rejected = 0
    for _ in range(reps):
        count = rng.binomial(NOBS[-1], TRUTH) + noise.rvs(rng=rng)
        rejected += proportions_ztest(count, NOBS[-1], NULL, mechanism=noise).pvalue <= ALPHA
    return rejected / reps


@pytest.mark.benchmark(group="power at 100 sample sizes")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_curve(benchmark, noise):
    power = benchmark(planned_power, NOBS, noise)
    # 6 standard errors of 1,000 replicates: 2e-9 each
    error = np.sqrt(power * (1 - power) / 1000)
    assert (np.abs(simulated_curve(noise, 1000) - power) <= 6 * error).all()


@pytest.mark.benchmark(group="power at 100 sample sizes")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_simulated_curve(benchmark, noise):
    benchmark.pedantic(simulated_curve, args=(noise, 1000), rounds=3)


@pytest.mark.benchmark(group="power at 1 sample size")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_point(benchmark, noise):
    benchmark(planned_power, NOBS[-1], noise)


@pytest.mark.benchmark(group="power at 1 sample size")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_point_by_replicates(benchmark, noise):
    benchmark.pedantic(by_replicates, args=(noise, 100), rounds=1)


@pytest.mark.benchmark(group="what reaches a power")
@pytest.mark.parametrize("unknown", ["nobs", "proportion", "alpha", "budget"])
def test_solve_proportion(benchmark, unknown):
    known = {"nobs": 1200, "proportion": TRUTH, "alpha": ALPHA, "budget": 0.1, "power": 0.8}
    noise = Geometric.from_epsilon
    asked = {**known, "value": NULL, "mechanism": noise, unknown: None}
    benchmark(plan.solve, proportions_ztest, **asked)


@pytest.mark.benchmark(group="what reaches a power")
def test_solve_exposure(benchmark):
    asked = {"value": 2.0, "mechanism": Laplace(scale=10.0), "rate": 2.5, "power": 0.8}
    benchmark(plan.solve, poisson_ztest, **asked)


@pytest.mark.benchmark(group="what reaches a power")
def test_solve_shift(benchmark):
    asked = {"weights": [1, -1], "mechanism": Geometric(scale=5.0), "power": 0.8}
    benchmark(plan.solve, linear_ztest, **asked)


@pytest.mark.benchmark(group="power, two proportions")
@pytest.mark.parametrize("method", ["plug-in", "asymptotic"])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_two_proportions(benchmark, noise, method):
    asked = {"nobs1": 200, "prop1": 0.45, "prop2": 0.3, "mechanism": noise, "method": method}
    benchmark.pedantic(plan.power, args=(proportions_2indep,), kwargs=asked | {"rng": 1}, rounds=3)


@pytest.mark.benchmark(group="power, two proportions")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_two_proportions_by_replicates(benchmark, noise):
    """A tenth of the replicates that the simulation above takes."""
    rng = np.random.default_rng(1)
    first = rng.binomial(200, 0.45, 1000) + noise.rvs(1000, rng=rng)
    second = rng.binomial(200, 0.3, 1000) + noise.rvs(1000, rng=rng)
    options = {"mechanism": noise, "method": "plug-in"}
    benchmark.pedantic(proportions_2indep, args=(first, 200, second, 200), kwargs=options, rounds=1)
