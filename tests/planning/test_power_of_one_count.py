"""Power of the tests of one count against enumeration, simulation and scipy."""

import numpy as np
import pytest
from planned import ALTERNATIVES, PlannedPower
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import poisson_ztest, proportions_ztest
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

METHODS = ("exact", "asymptotic")
LEVELS = np.array([0.01, 0.05, 0.3, 0.9])
WHOLE = [Geometric(scale=0.3), Geometric(scale=4.0), DiscreteGaussian(sigma=2.0)]
CONTINUOUS = [Laplace(scale=2.0), Gaussian(sigma=3.0)]


def enumerated(counts, chances, law, pvalues):
    """Probabilities of the rejected ones among all published counts: a convolution by hand."""
    reach = int(law.isf(1e-13))
    noise = law.pmf(np.arange(-reach, reach + 1))
    published = np.arange(counts[0] - reach, counts[-1] + reach + 1.0)
    pvalue = pvalues(published)
    return [np.convolve(chances, noise)[pvalue <= level].sum() for level in LEVELS]


@pytest.mark.thinned("alternative", "method", "law", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", WHOLE, ids=repr)
def test_proportion_power_equals_enumeration(law, method, alternative):
    options = {"alternative": alternative, "method": method}
    for nobs, value, truth in ((1, 0.3, 0.8), (37, 0.25, 0.4), (150, 0.5, 0.5), (90, 0.07, 0.02)):
        k = np.arange(nobs + 1)

        def pvalues(count, nobs=nobs, value=value):
            return proportions_ztest(count, nobs, value, mechanism=law, **options).pvalue

        want = enumerated(k, stats.binom.pmf(k, nobs, truth), law, pvalues)
        plan = PlannedPower(proportions_ztest, value=value, mechanism=law, **options)
        np.testing.assert_allclose(plan.power(nobs, truth, LEVELS), want, atol=1e-11)


@pytest.mark.thinned("alternative", "method", "law", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", WHOLE, ids=repr)
def test_poisson_power_equals_enumeration(law, method, alternative):
    options = {"alternative": alternative, "method": method}
    for exposure, value, truth in ((0.7, 2.0, 3.1), (25.0, 1.3, 0.9), (60.0, 0.5, 0.5)):
        k = np.arange(stats.poisson.isf(1e-14, exposure * truth) + 1)

        def pvalues(count, exposure=exposure, value=value):
            return poisson_ztest(count, exposure, value, mechanism=law, **options).pvalue

        want = enumerated(k, stats.poisson.pmf(k, exposure * truth), law, pvalues)
        plan = PlannedPower(poisson_ztest, value=value, mechanism=law, **options)
        np.testing.assert_allclose(plan.power(exposure, truth, LEVELS), want, atol=1e-11)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", CONTINUOUS, ids=repr)
def test_power_is_the_share_of_simulated_rejections(law, method, alternative):
    runs, rng = 20_000, np.random.default_rng(11)
    options = {"mechanism": law, "alternative": alternative, "method": method}
    cases = [
        (rng.binomial(80, 0.35, runs), proportions_ztest, (80, 0.25), 0.35),
        (rng.poisson(30 * 1.4, runs), poisson_ztest, (30, 1.2), 1.4),
    ]
    for counts, test, (size, value), truth in cases:
        pvalue = test(counts + law.rvs(runs, rng=rng), size, value, **options).pvalue
        powers = PlannedPower(test, value=value, **options).power(size, truth, LEVELS)
        for level, power in zip(LEVELS, powers, strict=True):
            # 6 standard errors: 2e-9
            error = np.sqrt(power * (1 - power) / runs)
            assert abs(np.mean(pvalue <= level) - power) <= 6 * error + 6 / runs


def tails(law, centre, k, alternative):
    """P-values without noise, by scipy; equal distances from the centre count as equal."""
    distance = np.abs(k - centre)
    if alternative == "larger":
        return law.sf(k - 1)
    if alternative == "smaller":
        return law.cdf(k)
    low, high = np.floor(centre - distance + 1e-9), np.ceil(centre + distance - 1e-9)
    return np.where(distance < 1e-9, 1.0, law.cdf(low) + law.sf(high - 1))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=0.01)], ids=repr)
def test_without_noise_it_is_scipy(noise, alternative):
    k = np.arange(61)
    pvalue = tails(stats.binom(60, 0.25), 15.0, k, alternative)
    want = [stats.binom.pmf(k, 60, 0.4)[pvalue <= level].sum() for level in LEVELS]
    plan = PlannedPower(proportions_ztest, value=0.25, mechanism=noise, alternative=alternative)
    np.testing.assert_allclose(plan.power(60, 0.4, LEVELS), want, rtol=1e-10)
    k = np.arange(120)
    pvalue = tails(stats.poisson(20.0), 20.0, k, alternative)
    want = [stats.poisson.pmf(k, 27.0)[pvalue <= level].sum() for level in LEVELS]
    plan = PlannedPower(poisson_ztest, value=2.0, mechanism=noise, alternative=alternative)
    np.testing.assert_allclose(plan.power(10.0, 2.7, LEVELS), want, rtol=1e-10)


@pytest.mark.parametrize("law", [*WHOLE, *CONTINUOUS], ids=repr)
def test_the_exact_test_holds_its_level(law):
    nobs = np.arange(1, 60)
    levels = np.array([[0.01], [0.05], [0.3]])
    for alternative in ALTERNATIVES:
        plan = PlannedPower(proportions_ztest, value=0.3, mechanism=law, alternative=alternative)
        assert (plan.power(nobs, 0.3, levels) <= levels * (1 + 1e-9)).all()


@pytest.mark.thinned("law", "alternative", every=2)
@pytest.mark.parametrize("law", [Geometric.from_epsilon, Laplace.from_epsilon])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_smallest_number_of_trials(law, alternative):
    plan = PlannedPower(proportions_ztest, value=0.25, mechanism=law, alternative=alternative)
    truth = 0.12 if alternative == "smaller" else 0.4
    known = {"proportion": truth, "alpha": 0.05, "budget": 0.5}
    nobs = plan.solve(**known, power=0.8)
    assert nobs == int(nobs)
    assert plan.power(nobs - 1, **known) < 0.8
    assert (plan.power(np.arange(nobs, nobs + 60), **known) >= 0.8).all()


def test_smallest_exposure():
    plan = PlannedPower(poisson_ztest, value=2.0, mechanism=Laplace(scale=5.0))
    exposure = plan.solve(rate=2.5, alpha=0.05, power=0.8)
    assert plan.power(exposure, 2.5) == pytest.approx(0.8, abs=1e-8)
    assert plan.power(exposure * (1 - 1e-8), 2.5) < 0.8


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_solving_is_the_inverse_of_power(alternative):
    sign = -1 if alternative == "smaller" else 1
    for plan, known in (
        (
            PlannedPower(
                proportions_ztest,
                value=0.4,
                mechanism=Laplace.from_epsilon,
                alternative=alternative,
            ),
            {"nobs": 200, "proportion": 0.4 + 0.1 * sign, "alpha": 0.05, "budget": 0.5},
        ),
        (
            PlannedPower(
                poisson_ztest, value=0.4, mechanism=Laplace.from_epsilon, alternative=alternative
            ),
            {"exposure": 400.0, "rate": 0.4 + 0.1 * sign, "alpha": 0.05, "budget": 0.5},
        ),
    ):
        power = plan.power(**known)
        assert plan.solve(**known) == power
        for name in list(known)[1:]:
            found = plan.solve(**{**known, name: None}, power=power)
            # continuous noise: the power is continuous and has one solution
            assert found == pytest.approx(known[name], rel=1e-7)


def test_smallest_level_where_the_power_has_steps():
    plan = PlannedPower(proportions_ztest, value=0.25, mechanism=Geometric(scale=1.0))
    power = plan.power(60, 0.4, 0.05)
    found = plan.solve(nobs=60, proportion=0.4, power=power)
    assert plan.power(60, 0.4, found) >= power > plan.power(60, 0.4, found * (1 - 1e-6))


def test_more_budget_is_more_power():
    budgets = np.geomspace(0.01, 10, 12)
    for plan in (
        PlannedPower(proportions_ztest, value=0.25, mechanism=Laplace.from_epsilon).power(
            200, 0.35, budget=budgets
        ),
        PlannedPower(
            poisson_ztest, value=1.0, mechanism=Geometric.from_epsilon, alternative="larger"
        ).power(99, 1.3, budget=0.5),
    ):
        assert (np.diff(np.atleast_1d(plan)) > 0).all()


def test_large_sizes_are_the_normal_limit():
    nobs, value, truth = 10**8, 0.25, 0.2501
    want = stats.norm.sf(
        (stats.norm.isf(0.05) * np.sqrt(nobs * 0.1875) - nobs * (truth - value))
        / np.sqrt(nobs * truth * (1 - truth))
    )
    plan = PlannedPower(
        proportions_ztest, value=value, mechanism=Laplace(scale=1.0), alternative="larger"
    )
    assert plan.power(nobs, truth) == pytest.approx(want, abs=1e-4)


def test_impossible_powers_are_refused():
    plan = PlannedPower(proportions_ztest, value=0.25, mechanism=Laplace(scale=10.0))
    with pytest.raises(InvalidParameterError, match="power must be one that can be reached"):
        plan.solve(nobs=5, alpha=0.05, power=0.8)
    with pytest.raises(InvalidParameterError, match="power must be larger than"):
        plan.solve(nobs=500, alpha=0.05, power=0.01)
    for alternative, truth in (("two-sided", 0.25), ("larger", 0.2), ("smaller", 0.3)):
        plan = PlannedPower(
            proportions_ztest, value=0.25, mechanism=Laplace(scale=10.0), alternative=alternative
        )
        with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
            plan.solve(proportion=truth, alpha=0.05, power=0.5)


@pytest.mark.parametrize("test", [proportions_ztest, poisson_ztest])
@pytest.mark.parametrize(
    "options",
    [
        {"value": 0.0},
        {"value": np.nan},
        {"value": [0.1, 0.2]},
        {"mechanism": 1.0},
        {"mechanism": Laplace},
        {"mechanism": Laplace(scale=[1.0, 2.0])},
        {"alternative": "both"},
        {"method": "monte-carlo"},
    ],
    ids=repr,
)
def test_bad_plans_are_refused(test, options):
    with pytest.raises(InvalidParameterError, match=next(iter(options))):
        PlannedPower(test, **{"value": 0.3, "mechanism": Laplace(scale=1.0), **options}).power(
            9, 0.4
        )
