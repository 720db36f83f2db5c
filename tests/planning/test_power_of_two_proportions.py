"""Power of the test of two proportions against enumeration, simulation and the normal formula."""

import numpy as np
import pytest
from crossed import in_turn
from planned import ALTERNATIVES, PlannedPower
from scipy import stats
from statsmodels.stats.proportion import power_proportions_2indep

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import proportions_2indep
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

METHODS = ("plug-in", "asymptotic")


def published(nobs, proportion, law):
    """Published counts and their probabilities: a convolution with the noise."""
    reach = 0 if law == Exact() else int(law.isf(1e-11))
    noise = law.pmf(np.arange(-reach, reach + 1)) if reach else np.ones(1)
    chances = np.convolve(stats.binom.pmf(np.arange(nobs + 1), nobs, proportion), noise)
    return np.arange(-reach, nobs + reach + 1.0), chances


def enumerated(nobs, proportions, laws, alternative, method, levels):
    """Probability of the rejected ones among all pairs of published counts, level by level."""
    (k1, chance1), (k2, chance2) = map(published, nobs, proportions, laws)
    first, second = (axis.ravel() for axis in np.meshgrid(k1, k2, indexing="ij"))
    chance = np.outer(chance1, chance2).ravel()
    likely = chance > 1e-12
    first, second, chance = first[likely], second[likely], chance[likely]
    options = {"mechanism": laws, "alternative": alternative, "method": method}
    pvalue = proportions_2indep(first, nobs[0], second, nobs[1], **options).pvalue
    return np.array([chance[pvalue <= level].sum() for level in levels])


LAWS = [
    (Geometric(scale=0.8), Geometric(scale=0.8)),
    (DiscreteGaussian(sigma=1.5), Geometric(scale=0.5)),
    (Exact(), Exact()),
]


@pytest.mark.parametrize(
    ("laws", "alternative", "method"), in_turn(LAWS, ALTERNATIVES, METHODS, every=2)
)
def test_sum_equals_enumeration(laws, method, alternative):
    levels = np.array([0.01, 0.05, 0.3, 0.5, 0.9])
    for nobs, proportions in (((8, 8), (0.6, 0.2)), ((1, 7), (0.9, 0.5))):
        ratio = nobs[1] / nobs[0]
        plan = PlannedPower(
            proportions_2indep, mechanism=laws, ratio=ratio, alternative=alternative, method=method
        )
        want = enumerated(nobs, proportions, laws, alternative, method, levels)
        np.testing.assert_allclose(plan.power(nobs[0], *proportions, levels), want, atol=2e-8)


def test_guaranteed_version_equals_enumeration():
    noise, nobs, proportions = Geometric(scale=0.15), (2, 1), (0.9, 0.1)
    plan = PlannedPower(proportions_2indep, mechanism=noise, ratio=0.5, method="exact")
    laws, levels = (noise, noise), np.array([0.2, 0.4])
    want = enumerated(nobs, proportions, laws, "two-sided", "exact", levels)
    np.testing.assert_allclose(plan.power(2, *proportions, levels), want, atol=2e-8)
    # no p-value of that version is as small as the part of the level that it sets aside
    assert plan.power(2, *proportions, alpha=1e-4) == 0.0


def test_guaranteed_version_holds_its_level_and_has_less_power():
    noise = Geometric(scale=0.2)
    exact, plug_in = (
        PlannedPower(proportions_2indep, mechanism=noise, method=m) for m in ("exact", "plug-in")
    )
    assert exact.power(5, 0.3, 0.3) <= 0.05
    assert exact.power(5, 0.9, 0.1) < plug_in.power(5, 0.9, 0.1)


LAPLACE, GAUSSIAN, WHOLE = Laplace(scale=2.0), Gaussian(sigma=2.0), Geometric(scale=2.0)


@pytest.mark.parametrize(
    ("nobs", "value", "laws", "alternative", "method", "alpha", "runs"),
    [
        *(
            ((60, 90), (0.45, 0.35), (law, law), side, "asymptotic", 0.1, 20_000)
            for law in (LAPLACE, GAUSSIAN)
            for side in ALTERNATIVES
        ),
        ((60, 90), (0.45, 0.3), (LAPLACE, LAPLACE), "two-sided", "plug-in", 0.05, 250),
        ((6, 5), (0.3, 0.5), (Laplace(scale=0.05),) * 2, "smaller", "plug-in", 0.3, 250),
        pytest.param(
            *((5, 5), (0.3, 0.5), (Laplace(scale=0.1),) * 2, "two-sided", "plug-in", 0.1, 250),
            marks=pytest.mark.study,
        ),
        ((40, 80), (0.02, 0.01), (Gaussian(sigma=3.0), WHOLE), "larger", "plug-in", 0.6, 250),
        ((300, 9), (0.9, 0.7), (GAUSSIAN, Gaussian(sigma=1.0)), "two-sided", "plug-in", 0.95, 250),
        ((60, 90), (0.5, 0.3), (WHOLE, WHOLE), "larger", "plug-in", 0.05, 2000),
        ((60, 90), (0.5, 0.3), (WHOLE, WHOLE), "larger", "asymptotic", 0.05, 2000),
    ],
)
def test_power_is_how_often_the_test_rejects(nobs, value, laws, alternative, method, alpha, runs):
    """Simulated, where only replicates near to a critical value have a p-value, or a sum."""
    rng = np.random.default_rng(7)
    first, second = (
        rng.binomial(n, p, runs) + law.rvs(runs, rng=rng)
        for n, p, law in zip(nobs, value, laws, strict=True)
    )
    fixed = {"mechanism": laws, "alternative": alternative, "method": method}
    hits = np.sum(proportions_2indep(first, nobs[0], second, nobs[1], **fixed).pvalue <= alpha)
    plan = PlannedPower(proportions_2indep, ratio=nobs[1] / nobs[0], rng=1, reps=3000, **fixed)
    numbers = {"nobs1": nobs[0], "prop1": value[0], "prop2": value[1], "alpha": alpha}
    error = plan.assert_rejects(hits, runs, **numbers)
    assert (error == 0.0) == (laws == (WHOLE, WHOLE))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_without_noise_and_many_trials_it_is_the_normal_formula(alternative):
    plan = PlannedPower(
        proportions_2indep, mechanism=Exact(), ratio=1.5, alternative=alternative, method="plug-in"
    )
    sign = -1 if alternative == "smaller" else 1
    want = power_proportions_2indep(
        sign * 0.02, 0.3, 8000, ratio=1.5, alternative=alternative
    ).power
    # the formula is the limit for many trials
    assert plan.power(8000, 0.3 + sign * 0.02, 0.3) == pytest.approx(want, abs=2e-3)
    weak = PlannedPower(
        proportions_2indep,
        mechanism=Geometric(scale=1e-3),
        ratio=1.5,
        alternative=alternative,
        method="plug-in",
    )
    assert weak.power(50, 0.5, 0.4) == pytest.approx(plan.power(50, 0.5, 0.4), abs=1e-8)


def test_solving_is_the_inverse_of_power():
    plan = PlannedPower(proportions_2indep, mechanism=Geometric.from_epsilon, method="asymptotic")
    known = {"nobs1": 200, "prop1": 0.45, "prop2": 0.3, "alpha": 0.05, "budget": 0.5}
    power = plan.power(**known)
    assert plan.solve(**{**known, "nobs1": None}, power=0.8) > 100
    assert plan.solve(**known) == power
    for name in ("prop1", "prop2", "alpha", "budget"):
        found = plan.solve(**{**known, name: None}, power=power)
        reached = plan.power(**{**known, name: found})
        assert reached >= power - 1e-9
        near = 0.999 if name in ("alpha", "budget") else 0.999999
        closer = {"prop1": found * near, "prop2": found / near}.get(name, found * near)
        assert plan.power(**{**known, name: closer}) < power


@pytest.mark.parametrize("method", METHODS)
def test_number_of_trials_that_reaches_the_power(method):
    plan = PlannedPower(
        proportions_2indep, mechanism=Geometric.from_epsilon, ratio=0.5, method=method
    )
    known = {"prop1": 0.5, "prop2": 0.3, "alpha": 0.05, "budget": 0.5}
    nobs = plan.solve(**known, power=0.7)
    assert nobs == int(nobs)
    assert plan.power(nobs - 1, **known) < 0.7 <= plan.power(nobs, **known)


def test_smaller_is_the_mirror_of_larger():
    noise = (Geometric(scale=1.0), Geometric(scale=2.0))
    larger = PlannedPower(
        proportions_2indep, mechanism=noise, ratio=1.5, alternative="larger", method="plug-in"
    )
    smaller = PlannedPower(
        proportions_2indep, mechanism=noise, ratio=1.5, alternative="smaller", method="plug-in"
    )
    # one minus the proportions, and mirrored noise
    assert smaller.power(40, 0.3, 0.6) == pytest.approx(larger.power(40, 0.7, 0.4), abs=1e-8)
    found = smaller.solve(nobs1=40, prop2=0.6, alpha=0.05, power=0.8)
    assert found < 0.6
    mirrored = larger.solve(nobs1=40, prop2=0.4, alpha=0.05, power=0.8)
    assert found == pytest.approx(1.0 - mirrored, abs=1e-6)


def test_impossible_powers_are_refused():
    plan = PlannedPower(proportions_2indep, mechanism=Geometric(scale=1.0), method="asymptotic")
    with pytest.raises(InvalidParameterError, match="power must be"):
        plan.solve(nobs1=2, prop2=0.5, alpha=0.01, power=0.9)
    with pytest.raises(InvalidParameterError, match="power must be"):
        plan.solve(nobs1=2000, prop2=0.5, alpha=0.05, power=0.01)


def test_no_number_of_trials_shows_what_is_not_there():
    for alternative, other in (("two-sided", 0.3), ("larger", 0.4), ("smaller", 0.2)):
        plan = PlannedPower(
            proportions_2indep,
            mechanism=Geometric(scale=1.0),
            alternative=alternative,
            method="plug-in",
        )
        with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
            plan.solve(prop1=0.3, prop2=other, alpha=0.05, power=0.8)


def test_a_budget_may_make_a_pair_of_laws():
    def pair(budget):
        return Geometric.from_epsilon(budget), Geometric.from_epsilon(2 * budget)

    known = {"nobs1": 40, "prop1": 0.5, "prop2": 0.3}
    power = PlannedPower(proportions_2indep, mechanism=pair, method="plug-in").power(
        **known, budget=0.7
    )
    assert power == PlannedPower(proportions_2indep, mechanism=pair(0.7), method="plug-in").power(
        **known
    )


def test_a_plan_repeats_its_replicates_whatever_else_is_asked():
    plan = PlannedPower(
        proportions_2indep, mechanism=Laplace(scale=1.0), method="asymptotic", rng=5, reps=500
    )
    same = PlannedPower(
        proportions_2indep, mechanism=Laplace(scale=1.0), method="asymptotic", rng=5, reps=500
    )
    power = plan.power(40, 0.5, 0.3)
    assert power == plan.power(40, 0.5, 0.3) == same.power(40, 0.5, 0.3)


def test_shapes_and_frame():
    plan = PlannedPower(proportions_2indep, mechanism=Geometric.from_epsilon, method="asymptotic")
    power = plan.power([20, 40], 0.5, 0.3, budget=[[0.5], [1.0]])
    assert power.shape == (2, 2)
    assert np.ndim(plan.power(20, 0.5, 0.3, budget=1)) == 0
    frame = plan.curve(nobs1=[20, 40], prop1=0.5, prop2=0.3, budget=[0.5, 1.0])
    assert set(frame) == {"nobs1", "prop1", "prop2", "budget", "alpha", "power", "mc_error"}
    np.testing.assert_array_equal(frame["power"], power.T.ravel())
    assert (frame["mc_error"] == 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"ratio": 0},
        {"ratio": np.nan},
        {"ratio": [1, 2]},
        {"alternative": "both"},
        {"method": "monte-carlo"},
        {"nuisance_alpha": 0.5},
        {"reps": 0},
        {"rng": "seed"},
        {"n_jobs": 0},
        {"mechanism": 3.0},
        {"mechanism": Laplace},
        {"mechanism": (Laplace(scale=1.0),)},
        {"mechanism": Laplace(scale=[1.0, 2.0, 3.0])},
    ],
)
def test_bad_plans_are_refused(options):
    with pytest.raises((DPInferError, TypeError), match=next(iter(options))):
        PlannedPower(proportions_2indep, **{"mechanism": Laplace(scale=1.0), **options}).power()
