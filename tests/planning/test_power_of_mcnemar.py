"""Power of McNemar's test, against enumeration and the test itself."""

import numpy as np
import pytest
from planned import ALTERNATIVES, PlannedPower
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import mcnemar
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

LEVELS = np.array([0.01, 0.05, 0.3, 0.9])
PAIRS = {
    "alike": (Geometric(scale=0.2), Geometric(scale=0.2)),
    "unlike": (Exact(), DiscreteGaussian(sigma=0.6)),
}


def published(nobs, prop12, prop21, pair):
    """All tables that matter, and their chances, term by term."""
    chances = {}
    reach = [0 if isinstance(law, Exact) else int(law.isf(1e-13)) for law in pair]
    chance1, chance2 = (
        np.ones(1) if isinstance(law, Exact) else law.pmf(np.arange(-r, r + 1))
        for law, r in zip(pair, reach, strict=True)
    )
    for x in range(nobs + 1):
        for y in range(nobs + 1 - x):
            rest = [prop12, prop21, 1 - prop12 - prop21]
            table = stats.multinomial.pmf([x, y, nobs - x - y], nobs, rest)
            for e in range(-reach[0], reach[0] + 1):
                for f in range(-reach[1], reach[1] + 1):
                    chance = table * float(chance1[e + reach[0]] * chance2[f + reach[1]])
                    key = (x + e, y + f)
                    chances[key] = chances.get(key, 0.0) + chance
    return chances


@pytest.fixture(scope="module")
def tables():
    return {
        name: (pair, published(3, 0.55, 0.15, pair), published(3, 0.3, 0.3, pair))
        for name, pair in PAIRS.items()
    }


@pytest.mark.parametrize(
    ("noise", "method", "alternative"),
    [
        ("alike", "exact", "two-sided"),
        ("unlike", "exact", "larger"),
        pytest.param("unlike", "exact", "smaller", marks=pytest.mark.study),  # mirrored below
        ("unlike", "plug-in", "two-sided"),
        ("alike", "plug-in", "larger"),
        ("alike", "asymptotic", "two-sided"),
        ("unlike", "asymptotic", "smaller"),
    ],
)
def test_power_equals_enumeration(tables, noise, method, alternative):
    pair, there, null = tables[noise]
    options = {"method": method, "alternative": alternative}
    likely = [table for table in there if there[table] + null[table] > 1e-12]
    # each p-value by a test of its own
    pvalue = np.array([float(mcnemar(t, mechanism=pair, **options).pvalue) for t in likely])
    plan = PlannedPower(mcnemar, mechanism=pair, **options)
    for chances, props in ((there, (0.55, 0.15)), (null, (0.3, 0.3))):
        chance = np.array([chances[table] for table in likely])
        want = [chance[pvalue <= level].sum() for level in LEVELS]
        got = plan.power(3, *props, LEVELS)
        np.testing.assert_allclose(got, want, atol=1e-10)
    if method == "exact":
        assert (got <= LEVELS).all()


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_without_noise_it_is_the_exact_binomial_test(alternative):
    nobs, prop12, prop21 = 12, 0.3, 0.1
    scipys = {"two-sided": "two-sided", "larger": "greater", "smaller": "less"}[alternative]
    want = np.zeros(LEVELS.size)
    for m in range(nobs + 1):
        there = stats.binom.pmf(m, nobs, prop12 + prop21)
        for x in range(m + 1):
            pvalue = stats.binomtest(x, m, 0.5, scipys).pvalue if m else 1.0
            chance = there * stats.binom.pmf(x, m, prop12 / (prop12 + prop21))
            want += chance * (pvalue <= LEVELS * (1 + 1e-12))
    got = PlannedPower(mcnemar, mechanism=Exact(), alternative=alternative).power(
        nobs, prop12, prop21, LEVELS
    )
    np.testing.assert_allclose(got, want, atol=1e-10)


def test_the_guaranteed_test_keeps_its_level():
    plan = PlannedPower(mcnemar, mechanism=Geometric(scale=1.0))
    for nobs, share in ((8, 0.5), (20, 0.05)):
        assert (plan.power(nobs, share, share, LEVELS) <= LEVELS).all()


@pytest.mark.parametrize(
    ("law", "method", "runs"),
    [
        pytest.param(Laplace(scale=0.8), "exact", 60, marks=pytest.mark.study),
        (Gaussian(sigma=1.5), "exact", 60),
        pytest.param(Gaussian(sigma=1.5), "plug-in", 60, marks=pytest.mark.study),
        (Gaussian(sigma=1.5), "asymptotic", 300),
        (Geometric(scale=1.0), "plug-in", 60),
        (Geometric(scale=1.0), "asymptotic", 300),
    ],
    ids=repr,
)
def test_power_is_how_often_the_test_rejects(law, method, runs):
    rng, props = np.random.default_rng(3), (0.35, 0.15)
    fixed = {"mechanism": law, "alternative": "larger", "method": method}
    counts = rng.multinomial(40, [*props, 1 - sum(props)], runs)[:, :2] + law.rvs(
        (runs, 2), rng=rng
    )
    hits = sum(mcnemar(t, **fixed).pvalue <= 0.1 for t in counts)
    plan = PlannedPower(mcnemar, rng=4, reps=2_000, **fixed)
    error = plan.assert_rejects(hits, runs, nobs=40, prop12=0.35, prop21=0.15, alpha=0.1)
    assert (error > 0) == isinstance(law, Laplace | Gaussian)


def test_smaller_is_the_mirror_of_larger():
    pair = (Geometric(scale=0.5), Geometric(scale=0.3))
    larger = PlannedPower(mcnemar, mechanism=pair, alternative="larger").power(9, 0.3, 0.1, LEVELS)
    smaller = PlannedPower(mcnemar, mechanism=pair[::-1], alternative="smaller").power(
        9, 0.1, 0.3, LEVELS
    )
    np.testing.assert_allclose(larger, smaller, rtol=1e-10)


@pytest.mark.thinned("method", "first", every=2)
@pytest.mark.parametrize("method", ["plug-in", "asymptotic"])
@pytest.mark.parametrize("first", [0, 1])
def test_solving_is_the_inverse_of_power(first, method):
    alternative = {"plug-in": "two-sided", "asymptotic": "smaller"}[method]
    plan = PlannedPower(
        mcnemar, mechanism=Geometric.from_epsilon, method=method, alternative=alternative
    )
    shares = (0.1, 0.25) if alternative == "smaller" else (0.25, 0.1)
    known = dict(
        zip(("nobs", "prop12", "prop21", "alpha", "budget"), (40, *shares, 0.05, 2.0), strict=True)
    )
    power = plan.power(**known)
    assert plan.solve(**known) == power
    for name, value in list(known.items())[first::2]:
        found = plan.solve(**{**known, name: None}, power=power)
        assert plan.power(**{**known, name: found}) >= power - 1e-11
        if name == "nobs":
            assert found <= value
            assert plan.power(**{**known, name: found - 1}) < power
        elif name in ("prop12", "prop21"):
            assert found == pytest.approx(value, rel=1e-5)
        else:  # the power has steps, and more noise may have more of it
            assert plan.power(**{**known, name: found * (1 - 1e-5)}) < power


def test_all_pairs_may_differ_and_no_more():
    plan = PlannedPower(mcnemar, mechanism=Geometric(scale=0.5))
    whole = plan.power(20, 0.7, 0.3)
    assert whole == pytest.approx(plan.power(20, 0.7, 0.3 - 1e-9), abs=1e-6)
    with pytest.raises(InvalidParameterError, match=r"prop12 \+ prop21 must be at most 1"):
        plan.power(20, 0.7, 0.4)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mechanism", {"mechanism": Laplace}),
        ("mechanism", {"mechanism": [Laplace(scale=1.0)] * 3}),
        ("mechanism", {"mechanism": None}),
        ("alternative", {"alternative": "both"}),
        ("method", {"method": "monte-carlo"}),
        ("nuisance_alpha", {"nuisance_alpha": 0.5}),
        ("reps", {"reps": 0}),
    ],
)
def test_bad_plans_are_refused(name, options):
    with pytest.raises(InvalidParameterError, match=name):
        PlannedPower(mcnemar, **{"mechanism": Laplace(scale=1.0), **options}).power()


def test_impossible_powers_are_refused():
    plan = PlannedPower(
        mcnemar, mechanism=Geometric(scale=1.0), method="asymptotic", alternative="larger"
    )
    with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
        plan.solve(prop12=0.1, prop21=0.2, alpha=0.05, power=0.5)
    with pytest.raises(InvalidParameterError, match="power must be"):
        plan.solve(nobs=50, prop21=0.7, alpha=0.05, power=0.9)
    assert PlannedPower(mcnemar, mechanism=Geometric(scale=1.0)).power(50, 0.3, 0.1, 5e-5) == 0.0


def test_the_guaranteed_test_is_solved_for():
    plan = PlannedPower(mcnemar, mechanism=Geometric.from_epsilon)
    known = {"nobs": 14, "prop12": 0.5, "prop21": 0.05, "alpha": 0.05, "budget": 3.0}
    power = plan.power(**known)
    for name in ("nobs", "prop12", "budget"):
        found = plan.solve(**{**known, name: None}, power=power)
        assert plan.power(**{**known, name: found}) >= power - 1e-11
        # the power has steps; and more noise may have more of it
        short = found - 1 if name == "nobs" else found * (1 - 3e-3)
        assert plan.power(**{**known, name: short}) < power


def test_a_little_noise_may_help():
    """Where counts are few, noise makes the steps of p-values finer."""
    plan = PlannedPower(mcnemar, mechanism=Geometric.from_epsilon, method="plug-in")
    known = {"nobs": 40, "prop12": 0.3, "prop21": 0.1, "alpha": 0.05}
    power = plan.power(**known, budget=2.0)
    assert power > plan.power(**known, budget=1e9) + 0.004
    found = plan.solve(**known, power=power - 1e-4)
    assert found < 2.5
    assert plan.power(**known, budget=found) >= power - 1e-4
    with pytest.raises(InvalidParameterError, match="can be reached"):
        plan.solve(**known, power=0.6)


def test_noise_that_no_budget_takes_away_is_no_search_without_end():
    plan = PlannedPower(
        mcnemar, mechanism=lambda budget: Geometric(scale=1.0 + 1.0 / budget), method="asymptotic"
    )
    known = {"nobs": 5, "prop12": 0.3, "prop21": 0.2, "alpha": 0.05}
    best = plan.power(**known, budget=1e9)
    with pytest.raises(InvalidParameterError, match=f"it is {best:.6g} at budget = 1e"):
        plan.solve(**known, power=0.9)


def test_both_counts_are_of_the_same_pairs():
    """Drawn by themselves they would differ less: by 5.0, not by 6.9 as a standard deviation."""
    known = {"nobs": 50, "prop12": 0.55, "prop21": 0.43, "alpha": 0.3}
    whole, drawn = (
        PlannedPower(mcnemar, mechanism=law, method="asymptotic", rng=9, reps=20_000).curve(**known)
        for law in (Geometric(scale=0.5), Gaussian(sigma=Geometric(scale=0.5).std))
    )
    # 6 standard errors: 2e-9; and 0.01 for the steps of whole noise
    gap = abs(whole["power"][0] - drawn["power"][0])
    assert gap <= 6 * drawn["mc_error"][0] + 0.01


def test_what_takes_long_is_refused_at_once():
    with pytest.raises(InvalidParameterError, match=r"use method='plug-in'"):
        PlannedPower(mcnemar, mechanism=Laplace(scale=1e6)).power(20, 0.3, 0.29)
