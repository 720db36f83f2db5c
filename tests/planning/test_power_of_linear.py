"""Power of tests in which only the noise is random, against convolutions and closed forms."""

import numpy as np
import pytest
from planned import ALTERNATIVES, PlannedPower
from scipy import optimize, stats

from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import linear_ztest
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

METHODS = ("exact", "asymptotic")
LEVELS = np.array([0.01, 0.05, 0.3, 0.9])
SIGNS = {"two-sided": (1, -1), "larger": (1,), "smaller": (-1,)}


def spread_out(law, weight):
    """Chances of weight times whole-numbered noise, on a row of whole numbers around 0."""
    reach = int(law.isf(1e-13))
    chances = np.zeros(2 * reach * abs(weight) + 1)
    chances[:: abs(weight)] = law.pmf(np.arange(-reach, reach + 1))
    return chances


@pytest.mark.thinned("law", "method", "alternative", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", [Geometric(scale=2.0), DiscreteGaussian(sigma=1.5)], ids=repr)
def test_power_equals_a_convolution(law, method, alternative):
    options = {"alternative": alternative, "method": method}
    for weights in ([1], [1, -1], [2, 3]):
        chances = np.ones(1)
        for weight in weights:
            chances = np.convolve(chances, spread_out(law, weight))
        noise = np.arange(chances.size) - chances.size // 2
        likely = chances > 1e-14
        for shift in (0.0, 7.0, -4.5):
            # the values 0 deviate by that from these values under the null hypothesis
            null = -(noise[likely] + shift)
            rows, values = np.tile(weights, (null.size, 1)), np.zeros(len(weights))
            pvalue = linear_ztest(values, rows, null, mechanism=law, **options).pvalue
            want = [chances[likely][pvalue <= level].sum() for level in LEVELS]
            got = PlannedPower(linear_ztest, weights=weights, mechanism=law, **options).power(
                shift, LEVELS
            )
            np.testing.assert_allclose(got, want, atol=1e-10)


def test_power_by_arithmetic_on_few_values():
    a = np.exp(-0.5)

    def tail(k):
        return a**k / (1 + a)  # P(e >= k) for k >= 1

    plan = PlannedPower(
        linear_ztest, weights=[1], mechanism=Geometric.from_epsilon(0.5), alternative="larger"
    )
    level = tail(4) * 1.01  # rejects from 4 on
    assert plan.power(3, level) == pytest.approx(tail(1), rel=1e-12)
    assert plan.power(0, level) == pytest.approx(tail(4), rel=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_power_under_normal_noise_has_a_closed_form(alternative):
    plan = PlannedPower(
        linear_ztest, weights=[2.0, -1.0], mechanism=Gaussian(sigma=3.0), alternative=alternative
    )
    std, shift = 3.0 * np.sqrt(5.0), 8.0
    sides = SIGNS[alternative]
    want = sum(
        stats.norm.sf(stats.norm.isf(LEVELS / len(sides)) - sign * shift / std) for sign in sides
    )
    np.testing.assert_allclose(plan.power(shift, LEVELS), want, rtol=1e-11)
    normal = PlannedPower(
        linear_ztest,
        weights=[2.0, -1.0],
        mechanism=Gaussian(sigma=3.0),
        alternative=alternative,
        method="asymptotic",
    )
    np.testing.assert_allclose(normal.power(shift, LEVELS), want, rtol=1e-11)


def test_power_under_the_difference_of_two_laplace_noises():
    scale, alpha, shift = 2.0, 0.05, 9.0

    def upper(x):
        tail = (2.0 + abs(x) / scale) / 4.0 * np.exp(-abs(x) / scale)
        return tail if x >= 0 else 1.0 - tail

    critical = optimize.brentq(lambda x: upper(x) - 0.5 * alpha, 0.0, 100.0, xtol=1e-13)
    want = upper(critical - shift) + upper(critical + shift)
    plan = PlannedPower(linear_ztest, weights=[1, -1], mechanism=Laplace(scale=scale))
    assert plan.power(shift, alpha) == pytest.approx(want, rel=1e-9)


def test_one_noise_for_each_value():
    laws = [Laplace(scale=1.0), Gaussian(sigma=4.0)]
    runs, rng = 200_000, np.random.default_rng(2)
    null, shifted = (
        sum(w * law.rvs(runs, rng=rng) for w, law in zip((1.0, 0.5), laws, strict=True))
        for _ in range(2)
    )
    power = PlannedPower(
        linear_ztest, weights=[1.0, 0.5], mechanism=laws, alternative="larger"
    ).power(5.0, 0.1)
    # the critical value is simulated, too; 6 standard errors of both: 2e-9
    rate = np.mean(shifted + 5.0 >= np.quantile(null, 0.9))
    assert abs(rate - power) <= 6 * np.sqrt(power * (1 - power) / runs) + 6 * np.sqrt(0.4 / runs)
    alone = PlannedPower(linear_ztest, weights=[1.0], mechanism=laws[0]).power(5.0)
    assert PlannedPower(linear_ztest, weights=[1.0, 0.0], mechanism=laws).power(
        5.0
    ) == pytest.approx(alone, rel=1e-12)


@pytest.mark.thinned("alternative", "mechanism", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("mechanism", [Laplace.from_epsilon, Gaussian.from_rho])
def test_solving_is_the_inverse_of_power(mechanism, alternative):
    plan = PlannedPower(linear_ztest, weights=[1, -1], mechanism=mechanism, alternative=alternative)
    known = {"shift": -20.0 if alternative == "smaller" else 20.0, "alpha": 0.05, "budget": 0.1}
    power = plan.power(**known)
    assert plan.solve(**known) == power
    for name, value in known.items():
        found = plan.solve(**{**known, name: None}, power=power)
        assert found == pytest.approx(value, rel=1e-7)


def test_smallest_level_and_budget_where_the_power_has_steps():
    plan = PlannedPower(linear_ztest, weights=[1, -1], mechanism=Geometric.from_epsilon)
    for name, known in (
        ("budget", {"shift": 20, "alpha": 0.05}),
        ("alpha", {"shift": 20, "budget": 0.2}),
    ):
        found = plan.solve(**known, power=0.7)
        assert plan.power(**known, **{name: found}) >= 0.7
        assert plan.power(**known, **{name: found * (1 - 1e-6)}) < 0.7


def test_smaller_is_the_mirror_of_larger():
    larger = PlannedPower(
        linear_ztest, weights=[1, 2], mechanism=Geometric(scale=2.0), alternative="larger"
    )
    smaller = PlannedPower(
        linear_ztest, weights=[1, 2], mechanism=Geometric(scale=2.0), alternative="smaller"
    )
    shifts = np.array([-3.0, 0.0, 4.0, 11.0])
    np.testing.assert_allclose(smaller.power(-shifts), larger.power(shifts), rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"weights": [0.0, 0.0]},
        {"weights": [np.nan, 1.0]},
        {"weights": [[1.0, -1.0]]},
        {"weights": []},
        {"weights": "ab"},
        {"mechanism": Exact()},
        {"mechanism": 1.0},
        {"mechanism": Laplace},
        {"mechanism": [Laplace(scale=1.0)]},
        {"mechanism": Laplace(scale=[1.0, 2.0, 3.0])},
        {"alternative": "both"},
        {"method": "monte-carlo"},
    ],
    ids=repr,
)
def test_bad_plans_are_refused(options):
    with pytest.raises(InvalidParameterError, match=next(iter(options))):
        PlannedPower(
            linear_ztest, **{"weights": [1.0, -1.0], "mechanism": Laplace(scale=1.0), **options}
        ).power(1.0)


def test_impossible_powers_are_refused():
    plan = PlannedPower(linear_ztest, weights=[1, -1], mechanism=Laplace.from_epsilon)
    with pytest.raises(InvalidParameterError, match="power must be larger than"):
        plan.solve(alpha=0.05, budget=1.0, power=0.04)
    with pytest.raises(InvalidParameterError, match="power must"):
        plan.solve(shift=0.0, alpha=0.05, power=0.5)
    nothing = PlannedPower(linear_ztest, weights=[1, -1], mechanism=lambda budget: Exact())
    with pytest.raises(InvalidParameterError, match="mechanism must have noise"):
        nothing.power(1.0, budget=1.0)
