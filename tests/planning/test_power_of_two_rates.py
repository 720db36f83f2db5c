"""Power of the test of two rates against enumeration, simulation and the formulas of others."""

import numpy as np
import pytest
from crossed import in_turn
from planned import ALTERNATIVES, PlannedPower
from scipy import stats
from statsmodels.stats.rates import power_poisson_ratio_2indep

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import poisson_2indep
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

METHODS = ("exact", "plug-in", "asymptotic")


def published(mean, law):
    """Published counts and their probabilities: a convolution with the noise."""
    reach = 0 if law == Exact() else int(law.isf(1e-11))
    noise = law.pmf(np.arange(-reach, reach + 1)) if reach else np.ones(1)
    last = int(stats.poisson.isf(1e-13, mean))
    chances = np.convolve(stats.poisson.pmf(np.arange(last + 1), mean), noise)
    return np.arange(-reach, last + reach + 1.0), chances


def enumerated(means, exposures, value, laws, alternative, method, levels):
    """Probability of the rejected ones among all pairs of published counts, level by level."""
    (k1, chance1), (k2, chance2) = map(published, means, laws)
    first, second = (axis.ravel() for axis in np.meshgrid(k1, k2, indexing="ij"))
    chance = np.outer(chance1, chance2).ravel()
    likely = chance > 1e-12
    first, second, chance = first[likely], second[likely], chance[likely]
    options = {"mechanism": laws, "value": value, "alternative": alternative, "method": method}
    pvalue = poisson_2indep(first, exposures[0], second, exposures[1], **options).pvalue
    return np.array([chance[pvalue <= level].sum() for level in levels])


LAWS = [
    (Geometric(scale=0.5), Geometric(scale=0.5)),
    (DiscreteGaussian(sigma=0.8), Geometric(scale=0.3)),
    (Exact(), Exact()),
]


@pytest.mark.parametrize(
    ("laws", "method", "alternative"), in_turn(LAWS, METHODS, ALTERNATIVES, every=2)
)
def test_sum_equals_enumeration(laws, method, alternative):
    levels = np.array([0.01, 0.2, 0.5, 0.9])
    exposure, rates, ratio, value = 2.0, (2.5, 1.5), 0.75, 1.5
    means = (exposure * rates[0], ratio * exposure * rates[1])
    exposures = (exposure, ratio * exposure)
    plan = PlannedPower(
        poisson_2indep,
        mechanism=laws,
        value=value,
        ratio=ratio,
        alternative=alternative,
        method=method,
    )
    want = enumerated(means, exposures, value, laws, alternative, method, levels)
    np.testing.assert_allclose(plan.power(exposure, *rates, levels), want, atol=1e-8)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_without_noise_it_is_the_conditional_test(alternative):
    """Against binomial tails at every pair of counts; one-sided they are those of scipy."""
    mean1, mean2, alpha = 12.0, 5.0, 0.05
    k = np.arange(80)
    chance = np.outer(stats.poisson.pmf(k, mean1), stats.poisson.pmf(k, mean2))
    first, second = np.meshgrid(k, k, indexing="ij")
    total = first + second
    share = 1.0 / 3.0
    distance = np.abs(first - share * total) - 1e-9
    pvalue = {
        "larger": stats.binom.sf(first - 1, total, share),
        "smaller": stats.binom.cdf(first, total, share),
        "two-sided": np.minimum(
            stats.binom.sf(np.ceil(share * total + distance) - 1, total, share)
            + stats.binom.cdf(np.floor(share * total - distance), total, share),
            1.0,
        ),
    }[alternative]
    plan = PlannedPower(poisson_2indep, mechanism=Exact(), ratio=2.0, alternative=alternative)
    wanted = chance[pvalue <= alpha].sum()
    assert plan.power(1.0, mean1, mean2 / 2.0, alpha) == pytest.approx(wanted, abs=1e-8)


def test_small_levels():
    """Without noise nothing is set aside for the total; with noise no p-value is that small."""
    assert PlannedPower(poisson_2indep, mechanism=Exact()).power(100.0, 2.0, 1.0, alpha=1e-5) > 0.5
    assert (
        PlannedPower(poisson_2indep, mechanism=Geometric(scale=1.0)).power(
            1.0, 9.0, 1.0, alpha=1e-4
        )
        == 0.0
    )


def test_guaranteed_version_holds_its_level():
    plan = PlannedPower(poisson_2indep, mechanism=Geometric(scale=0.5), ratio=2.0)
    levels = np.array([0.01, 0.05, 0.2])
    for exposure in (2.0, 5.0):
        assert (plan.power(exposure, 1.0, 1.0, levels) <= levels).all()


@pytest.mark.parametrize(
    ("means", "laws", "alternative", "method", "alpha", "share", "runs"),
    [
        ((40.0, 42.0), (Laplace(scale=2.0),) * 2, "two-sided", "plug-in", 0.1, 0.4, 3000),
        ((40.0, 42.0), (Gaussian(sigma=2.0),) * 2, "larger", "plug-in", 0.1, 0.4, 3000),
        ((9.0, 6.0), (Laplace(scale=0.5),) * 2, "two-sided", "exact", 0.1, 0.5, 60),
        pytest.param(
            *((1.0, 0.3), (Laplace(scale=0.1),) * 2, "larger", "exact", 0.3, 0.4, 50),
            marks=pytest.mark.study,
        ),
        ((4.0, 5.0), (Laplace(scale=0.05),) * 2, "smaller", "plug-in", 0.3, 0.5, 3000),
        ((9.0, 6.0), (Geometric(scale=0.4), Exact()), "larger", "plug-in", 0.1, 0.3, 3000),
        ((20.0, 9.0), (Geometric(scale=1.0),) * 2, "two-sided", "exact", 0.05, 0.5, 300),
        ((20.0, 9.0), (Geometric(scale=1.0),) * 2, "two-sided", "asymptotic", 0.05, 0.5, 3000),
        (
            (60.0, 90.0),
            (Gaussian(sigma=3.0), Geometric(scale=1.0)),
            "larger",
            "plug-in",
            0.6,
            0.3,
            400,
        ),
        (
            (900.0, 9.0),
            (Gaussian(sigma=5.0), Gaussian(sigma=1.0)),
            "two-sided",
            "plug-in",
            0.9,
            0.9,
            3000,
        ),
    ],
)
def test_power_is_how_often_the_test_rejects(means, laws, alternative, method, alpha, share, runs):
    """Simulated, where only replicates near to a critical value have a p-value, or a sum."""
    rng = np.random.default_rng(7)
    published = [
        rng.poisson(mean, runs) + (0.0 if law == Exact() else law.rvs(runs, rng=rng))
        for mean, law in zip(means, laws, strict=True)
    ]
    ratio = (1.0 - share) / share
    fixed = {"mechanism": laws, "alternative": alternative, "method": method}
    hits = np.sum(poisson_2indep(published[0], 1.0, published[1], ratio, **fixed).pvalue <= alpha)
    plan = PlannedPower(poisson_2indep, ratio=ratio, rng=1, reps=runs, **fixed)
    numbers = {"exposure1": 1.0, "rate1": means[0], "rate2": means[1] / ratio, "alpha": alpha}
    error = plan.assert_rejects(hits, runs, **numbers)
    assert (error == 0.0) == all(isinstance(law, Geometric | Exact) for law in laws)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_many_events_without_noise_are_near_the_formula_of_statsmodels(alternative):
    sign = -1 if alternative == "smaller" else 1
    rate1 = 1.0 + sign * 0.05
    want = power_poisson_ratio_2indep(
        rate1, 1.0, 5000, nobs_ratio=1.5, alternative=alternative, method_var="score", value=1.0
    ).power
    plan = PlannedPower(
        poisson_2indep, mechanism=Exact(), ratio=1.5, alternative=alternative, rng=1
    )
    # the formula takes the limit of many events on a logarithmic scale
    assert plan.power(5000, rate1, 1.0) == pytest.approx(want, abs=0.01)
    weak = PlannedPower(
        poisson_2indep, mechanism=Geometric(scale=1e-3), ratio=1.5, alternative=alternative, rng=1
    )
    assert weak.power(20, rate1, 0.5, 0.1) == pytest.approx(
        plan.power(20, rate1, 0.5, 0.1), abs=1e-8
    )


@pytest.mark.parametrize(
    ("method", "names"),
    [("exact", ("exposure1", "alpha")), ("plug-in", ("rate1", "rate2", "budget"))],
)
def test_solving_is_the_inverse_of_power(method, names):
    plan = PlannedPower(poisson_2indep, mechanism=Geometric.from_epsilon, method=method)
    known = {"exposure1": 4.0, "rate1": 3.0, "rate2": 1.0, "alpha": 0.1, "budget": 4.0}
    power = plan.power(**known)
    assert plan.solve(**known) == power
    for name in names:
        found = plan.solve(**{**known, name: None}, power=power)
        reached = plan.power(**{**known, name: found})
        assert reached >= power - 1e-9
        closer = found * (1.0 + 2e-6 if name == "rate2" else 1.0 - 2e-6)
        assert plan.power(**{**known, name: closer}) < power


def test_p_values_that_are_kept_are_those_of_the_plan():
    """Whatever was planned before with the same noise, or with another."""
    noise, means = Geometric(scale=1.0), (9.0, 5.0)
    plans = [
        PlannedPower(poisson_2indep, mechanism=law, method=method, ratio=ratio, alternative=side)
        for law in (noise, Geometric(scale=0.5))
        for method in ("plug-in", "asymptotic")
        for ratio, side in ((1.0, "two-sided"), (1.0, "larger"), (2.0, "larger"))
    ]
    there, back = ([p.power(1.0, *means, [0.05, 0.2]) for p in x] for x in (plans, plans[::-1]))
    np.testing.assert_array_equal(there, back[::-1])
    assert len({tuple(power) for power in there}) == len(plans)


def test_smaller_is_larger_of_the_samples_exchanged():
    noise = (Geometric(scale=1.0), Geometric(scale=2.0))
    options = {"method": "plug-in", "value": 0.8}
    smaller = PlannedPower(
        poisson_2indep, mechanism=noise, ratio=1.5, alternative="smaller", **options
    )
    options["value"] = 1.25
    larger = PlannedPower(
        poisson_2indep, mechanism=noise[::-1], ratio=1 / 1.5, alternative="larger", **options
    )
    want = larger.power(30.0, 1.5, 0.9)
    assert smaller.power(20.0, 0.9, 1.5) == pytest.approx(want, abs=1e-7)
    found = smaller.solve(exposure1=20.0, rate2=1.5, alpha=0.05, power=0.8)
    assert found < 0.8 * 1.5
    found = smaller.solve(exposure1=20.0, rate1=1.0, alpha=0.05, power=0.8)
    assert found > 1.0 / 0.8


def test_units_do_not_matter():
    plan = PlannedPower(poisson_2indep, mechanism=Geometric(scale=1.0), method="plug-in")
    power = plan.power(20.0, 2.0, 1.0)
    assert plan.power(2e7, 2e-6, 1e-6) == pytest.approx(power, abs=1e-12)
    small, large = (
        plan.solve(rate1=2.0 * unit, rate2=unit, alpha=0.05, power=0.8) for unit in (1e-6, 1e6)
    )
    assert small == pytest.approx(1e12 * large, rel=1e-5)


def test_impossible_powers_are_refused():
    plan = PlannedPower(poisson_2indep, mechanism=Geometric(scale=1.0), method="asymptotic")
    with pytest.raises(InvalidParameterError, match="power must be"):
        plan.solve(exposure1=2.0, rate2=1e-9, alpha=1e-9, power=1e-12)
    with pytest.raises(InvalidParameterError, match="power must be"):
        plan.solve(exposure1=2000.0, rate2=0.5, alpha=0.05, power=0.01)
    budget = PlannedPower(poisson_2indep, mechanism=Geometric.from_epsilon, method="plug-in")
    with pytest.raises(InvalidParameterError, match="power must be one that can be reached"):
        budget.solve(exposure1=20.0, rate1=1.3, rate2=1.0, alpha=0.05, power=0.9)


def test_no_exposure_shows_what_is_not_there():
    for alternative, other in (("two-sided", 0.6), ("larger", 0.7), ("smaller", 0.5)):
        plan = PlannedPower(
            poisson_2indep, mechanism=Geometric(scale=1.0), value=0.5, alternative=alternative
        )
        with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
            plan.solve(rate1=0.3, rate2=other, alpha=0.05, power=0.8)


def test_too_much_noise_is_refused():
    with pytest.raises(InvalidParameterError, match="variance of mechanism"):
        PlannedPower(poisson_2indep, mechanism=Laplace(scale=1e11)).power(1.0, 1.0, 1.0)


def test_too_many_events_are_refused():
    with pytest.raises(InvalidParameterError, match="exposure1 \\* rate1"):
        PlannedPower(poisson_2indep, mechanism=Exact()).power(1e12, 1.0, 1.0)


def test_a_plan_repeats_its_replicates_whatever_else_is_asked():
    plan = PlannedPower(
        poisson_2indep, mechanism=Laplace(scale=1.0), method="plug-in", rng=5, reps=500
    )
    same = PlannedPower(
        poisson_2indep, mechanism=Laplace(scale=1.0), method="plug-in", rng=5, reps=500
    )
    power = plan.power(40, 0.5, 0.3)
    assert power == plan.power(40, 0.5, 0.3) == same.power(40, 0.5, 0.3)


def test_shapes_and_frame():
    plan = PlannedPower(poisson_2indep, mechanism=Geometric.from_epsilon, method="asymptotic")
    power = plan.power([20, 40], 0.5, 0.3, budget=[[0.5], [1.0]])
    assert power.shape == (2, 2)
    assert np.ndim(plan.power(20, 0.5, 0.3, budget=1)) == 0
    frame = plan.curve(exposure1=[20, 40], rate1=0.5, rate2=0.3, budget=[0.5, 1.0])
    assert set(frame) == {"exposure1", "rate1", "rate2", "budget", "alpha", "power", "mc_error"}
    np.testing.assert_array_equal(frame["power"], power.T.ravel())


@pytest.mark.parametrize(
    "options",
    [
        {"value": 0},
        {"value": np.nan},
        {"ratio": 0},
        {"ratio": [1, 2]},
        {"alternative": "both"},
        {"method": "monte-carlo"},
        {"nuisance_alpha": 0.5},
        {"reps": 0},
        {"rng": "seed"},
        {"n_jobs": 0},
        {"mechanism": 3.0},
        {"mechanism": Laplace},
        {"mechanism": Laplace(scale=[1.0, 2.0, 3.0])},
    ],
)
def test_bad_plans_are_refused(options):
    with pytest.raises((DPInferError, TypeError), match=next(iter(options))):
        PlannedPower(poisson_2indep, **{"mechanism": Laplace(scale=1.0), **options}).power()
