"""Power of the test of two tables, against enumeration, closed forms and the test itself."""

import numpy as np
import pytest
from planned import PlannedPower
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import counts_paired, linear_ztest
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

LEVELS = np.array([0.01, 0.05, 0.3, 0.9])


def difference_of(first, second):
    """Whole numbers, and the chances that they are the difference of two noises."""
    reach = [int(law.isf(1e-14)) for law in (first, second)]
    chances = np.convolve(
        *(law.pmf(np.arange(-r, r + 1)) for law, r in zip((first, second), reach, strict=True))
    )
    return np.arange(chances.size) - sum(reach), chances


@pytest.mark.thinned("shift", "pair", every=3)
@pytest.mark.parametrize("shift", [0.0, 3.0, -1.5])
@pytest.mark.parametrize(
    "pair",
    [
        (Geometric(scale=0.8), Geometric(scale=0.8)),
        (Geometric(scale=1.0), DiscreteGaussian(sigma=1.5)),
        (Geometric(scale=[0.5, 1.0]), Geometric(scale=0.7)),
    ],
    ids=repr,
)
def test_power_of_the_largest_difference_equals_enumeration(pair, shift):
    first, second = ([law.take(i) if law.shape else law for i in range(2)] for law in pair)
    cells = [difference_of(a, b) for a, b in zip(first, second, strict=True)]
    std = [np.sqrt(float(a.variance + b.variance)) for a, b in zip(first, second, strict=True)]

    def largest(at):
        z = [np.abs(noise + move) / s for (noise, _), move, s in zip(cells, at, std, strict=True)]
        return np.maximum.outer(*z)

    chances = np.multiply.outer(cells[0][1], cells[1][1])
    null = np.sort(largest([0.0, 0.0]).ravel())
    order = np.argsort(largest([0.0, 0.0]).ravel())
    beyond = np.append(np.cumsum(chances.ravel()[order][::-1])[::-1], 0.0)
    difference = np.array([shift, -2.0 * shift])
    reached = largest(difference)
    pvalue = beyond[np.searchsorted(null, reached.ravel() - 1e-9)].reshape(reached.shape)
    want = [chances[pvalue <= level].sum() for level in LEVELS]
    direction = difference if shift else np.ones(2)
    got = PlannedPower(counts_paired, difference=direction, mechanism=pair).power(
        1.0 if shift else 0.0, LEVELS
    )
    np.testing.assert_allclose(got, want, atol=1e-10)
    if not shift:
        assert (got <= LEVELS + 1e-12).all()


def test_enumeration_agrees_with_the_test_at_its_steps():
    law, rng = Geometric(scale=2.0), np.random.default_rng(1)
    plan = PlannedPower(counts_paired, difference=[4.0, 0.0, -7.0], mechanism=law)
    for _ in range(20):
        noise = law.rvs((2, 3), rng=rng)
        pvalue = float(counts_paired(*noise, mechanism=law).pvalue)
        # just below its p-value a table is not rejected: the power jumps by its probability
        low, high = plan.power(1.0, [pvalue * (1 - 1e-9), min(pvalue * (1 + 1e-9), 1 - 1e-9)])
        assert high > low + 1e-4 or pvalue > 0.99


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=3.0)], ids=repr)
@pytest.mark.parametrize("statistic", ["max", "chi2"])
def test_one_cell_is_a_difference_of_two_counts(law, statistic):
    want = PlannedPower(linear_ztest, weights=[1, -1], mechanism=law).power([0.0, 6.0, -9.0])
    plan = PlannedPower(
        counts_paired, difference=[3.0], mechanism=law, statistic=statistic, reps=100_000, rng=3
    )
    frame = plan.curve(effect=[0.0, 2.0, -3.0])
    # 6 standard errors: 2e-9 each
    slack = 6 * frame["mc_error"] + 1e-10
    assert (np.abs(frame["power"] - want) <= slack).all()
    is_exact = statistic == "max" or isinstance(law, Gaussian)
    assert (frame["mc_error"] == 0.0).all() == is_exact


def test_squares_under_normal_noise_are_noncentral_chi2():
    difference, laws = np.array([5.0, -2.0, 0.5]), (Gaussian(sigma=[1.0, 2.0, 3.0]), Exact())
    centrality = np.square(difference / [1.0, 2.0, 3.0]).sum()
    want = stats.ncx2.sf(stats.chi2.isf(LEVELS, 3), 3, 0.25 * centrality)
    for method in (None, "asymptotic"):
        plan = PlannedPower(
            counts_paired, difference=difference, mechanism=laws, statistic="chi2", method=method
        )
        np.testing.assert_allclose(plan.power(0.5, LEVELS), want, rtol=1e-9)
    np.testing.assert_allclose(plan.power(0.0, LEVELS), LEVELS, rtol=1e-9)


def test_the_law_may_have_a_parameter_for_each_cell():
    scales = np.array([1.0, 4.0])
    one = PlannedPower(
        counts_paired, difference=[3.0, 9.0], mechanism=Laplace(scale=scales)
    ).power()
    pair = PlannedPower(
        counts_paired,
        difference=[3.0, 9.0],
        mechanism=(Laplace(scale=scales), Laplace(scale=scales)),
    ).power()
    assert one == pytest.approx(pair, rel=1e-12)


@pytest.mark.parametrize(
    ("statistic", "method"),
    [("max", None), ("max", "monte-carlo"), ("chi2", None), ("chi2", "asymptotic")],
)
def test_power_is_how_often_the_test_rejects(statistic, method):
    law, rng, runs = Geometric(scale=3.0), np.random.default_rng(4), 60
    difference = np.array([8.0, 0.0, -6.0, 3.0])
    plan = PlannedPower(
        counts_paired,
        difference=difference,
        mechanism=law,
        statistic=statistic,
        method=method,
        rng=5,
    )
    frame = plan.curve(effect=1.0, alpha=0.1)
    power, error = frame["power"][0], frame["mc_error"][0]
    noise = law.rvs((runs, 2, 4), rng=rng)
    options = {"mechanism": law, "statistic": statistic, "method": method, "reps": 999}
    rejected = sum(
        counts_paired(first + difference, second, rng=rng, **options).pvalue <= 0.1
        for first, second in noise
    )
    # 6 standard errors: 2e-9; the test's own replicates blur its level by 1e-2
    blur = 0.0 if method is None and statistic == "max" else 0.02
    bound = 6 * np.hypot(np.sqrt(power * (1 - power) / runs), error) + blur
    assert abs(rejected / runs - power) <= bound


@pytest.mark.thinned("statistic", "mechanism", every=2)
@pytest.mark.parametrize("statistic", ["max", "chi2"])
@pytest.mark.parametrize("mechanism", [Laplace.from_epsilon, Gaussian.from_rho], ids=repr)
def test_solving_is_the_inverse_of_power(statistic, mechanism):
    plan = PlannedPower(
        counts_paired,
        difference=[9.0, -3.0, 1.0],
        mechanism=mechanism,
        statistic=statistic,
        reps=999,
        rng=6,
    )
    known = {"effect": 1.5, "alpha": 0.05, "budget": 0.2}
    frame = plan.curve(**known)
    power = frame["power"][0]
    assert plan.solve(**known) == power
    for name, value in known.items():
        found = plan.solve(**{**known, name: None}, power=power)
        reached = plan.power(**{**known, name: found})
        if frame["mc_error"][0]:  # that of the replicates is a step function
            assert power <= reached <= power + 0.01
        else:
            assert found == pytest.approx(value, rel=1e-7)


def test_smallest_budget_where_the_power_has_steps():
    plan = PlannedPower(counts_paired, difference=[20] + 4 * [0], mechanism=Geometric.from_epsilon)
    found = plan.solve(effect=1, alpha=0.05, power=0.8)
    assert plan.power(budget=found) >= 0.8 > plan.power(budget=found * (1 - 1e-6))


def test_powers_of_one_plan_are_of_the_same_replicates():
    plan = PlannedPower(
        counts_paired, difference=[3.0, 4.0], mechanism=Laplace(scale=1.0), statistic="chi2", rng=7
    )
    powers = plan.power(np.linspace(0.0, 3.0, 9))
    np.testing.assert_array_equal(plan.power(np.linspace(0.0, 3.0, 9)), powers)
    assert (np.diff(powers) > 0).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("difference", {"difference": [0.0, 0.0]}),
        ("difference", {"difference": [np.nan, 1.0]}),
        ("difference", {"difference": [[1.0]]}),
        ("difference", {"difference": []}),
        ("difference", {"difference": "ab"}),
        ("mechanism", {"mechanism": Exact()}),
        ("mechanism", {"mechanism": Laplace}),
        ("mechanism", {"mechanism": (Laplace(scale=1.0), 3)}),
        ("mechanism", {"mechanism": [Laplace(scale=1.0)] * 3}),
        ("mechanism", {"mechanism": Laplace(scale=[1.0, 2.0, 3.0])}),
        ("statistic", {"statistic": "sum"}),
        ("method", {"method": "asymptotic"}),
        ("method", {"method": "exact", "statistic": "chi2"}),
        ("reps", {"reps": 0}),
        ("rng", {"rng": "x"}),
    ],
)
def test_bad_plans_are_refused(name, options):
    with pytest.raises((InvalidParameterError, TypeError), match=name):
        PlannedPower(
            counts_paired, **{"difference": [1.0, 2.0], "mechanism": Laplace(scale=1.0), **options}
        ).power()


def test_impossible_powers_are_refused():
    plan = PlannedPower(counts_paired, difference=[1.0, 2.0], mechanism=Laplace.from_epsilon)
    with pytest.raises(InvalidParameterError, match="power must be larger than"):
        plan.solve(alpha=0.05, budget=1.0, power=0.04)
    with pytest.raises(InvalidParameterError, match="mechanism must have noise"):
        PlannedPower(counts_paired, difference=[1.0], mechanism=lambda budget: Exact()).power(
            budget=1.0
        )
    few = PlannedPower(
        counts_paired, difference=[1.0], mechanism=Laplace(scale=1.0), statistic="chi2", reps=99
    )
    with pytest.raises(InvalidParameterError, match="reps must be >= 999"):
        few.power(1.0, 0.001)
