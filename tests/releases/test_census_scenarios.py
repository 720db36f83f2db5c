"""Scenarios: budgets in exact fractions, and the discrete noise by an independent route."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, special

from dpinfer import DiscreteGaussian, WeightedSum
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy import ZCDP, BudgetAllocation
from dpinfer.releases.census import (
    PERSONS,
    SCENARIOS,
    UNITS,
    WHOLE_RELEASE,
    AffectedQuery,
    Scenario,
    attributes,
    build_scenario,
)

ALPHA = np.array([0.01, 0.05, 0.10])

RHO = {
    "A": Fraction(37477407, 336118000),
    "B": Fraction(778077811, 840295000),
    "C": Fraction(3565936167303232, 3529616082688675),
    "D": Fraction(29724453955968, 29660639350325),
    "E": Fraction(9734824274397017, 7060954349365000),
    "F": Fraction(7080480828496236311, 11577140751218854000),
    "G": Fraction(1697723896578409073, 1653877250174122000),
    "H": Fraction(11875662400764959511, 11577140751218854000),
}


def level_sum(levels):
    """Budget of all queries of some levels, from the shares of the levels alone."""
    persons = sum(PERSONS.levels[level] for level in levels) * PERSONS.rho
    return persons + sum(UNITS.levels[level] for level in levels) * UNITS.rho


def attribute_sum(names, levels):
    """Budget of the queries about attributes in some levels, query by query."""
    return sum(
        PERSONS.query_rho(level, query)
        for level in levels
        for query in PERSONS.queries[level]
        if names & attributes(query)
    )


def shifted_sum(scenario, alpha):
    """Power by the law of the log likelihood ratio: a weighted sum of discrete Gaussians."""
    rho = np.array([float(item.rho) for item in scenario.queries])
    laws = [DiscreteGaussian(sigma=s) for s in 1 / np.sqrt(rho)]
    noise = WeightedSum(np.repeat(rho, 2), [law for law in laws for _ in range(2)])
    total = rho.sum()
    spread = float(noise.std)

    def power(level):
        cut = optimize.brentq(
            lambda t: float(noise.sf(t)) - level, -10 * spread, 10 * spread, xtol=1e-13
        )
        return float(noise.sf(cut - 2 * total))

    return np.array([power(level) for level in alpha]), noise.error_bound


def test_budgets_in_exact_fractions():
    assert {name: scenario.rho for name, scenario in SCENARIOS.items()} == RHO
    assert float(SCENARIOS["A"].rho) == pytest.approx(0.1115007437864, abs=5e-14)
    assert WHOLE_RELEASE.rho == Fraction("2.63")


def test_budgets_by_levels_and_attributes():
    block, tract = {"Block"}, {"Block", "Block_Group"}
    above_block = [level for level in PERSONS.levels if level not in block]
    above_tract = [level for level in PERSONS.levels if level not in tract]
    race, ethnicity, age = {"cenrace"}, {"hispanic"}, {"votingage"}
    everywhere = list(PERSONS.levels)
    assert SCENARIOS["A"].rho == level_sum(block)
    assert SCENARIOS["B"].rho == level_sum(tract)
    assert SCENARIOS["C"].rho == attribute_sum(race, everywhere)
    assert SCENARIOS["D"].rho == attribute_sum(ethnicity, everywhere)
    assert SCENARIOS["E"].rho == level_sum(tract) + attribute_sum(race, above_tract)
    assert SCENARIOS["F"].rho == level_sum(block) + attribute_sum(age, above_block)
    assert SCENARIOS["G"].rho == level_sum(block) + attribute_sum(age | race, above_block)
    assert SCENARIOS["H"].rho == level_sum(block) + attribute_sum(age | ethnicity, above_block)


@pytest.mark.parametrize(
    ("scenario", "gaussian", "bound"),
    [
        pytest.param(WHOLE_RELEASE, (0.49, 0.74, 0.84), (0.70, 0.95, 0.96), marks=pytest.mark.slow),
        (SCENARIOS["A"], (0.03, 0.12, 0.21), (0.04, 0.14, 0.24)),
    ],
    ids=["whole", "A"],
)
def test_the_published_tables_and_discrete_noise_by_a_weighted_sum(scenario, gaussian, bound):
    frame = scenario.power_frame()
    np.testing.assert_array_equal(frame["gaussian"].round(2), gaussian)
    np.testing.assert_array_equal(frame["zcdp"].round(2), bound)
    np.testing.assert_array_equal(frame["discrete-gaussian"].round(2), gaussian)
    np.testing.assert_array_equal(scenario.max_power(ALPHA), frame["gaussian"])
    expected, error = shifted_sum(scenario, ALPHA)
    np.testing.assert_allclose(frame["discrete-gaussian"], expected, atol=1e-8 + 20 * error)


@pytest.mark.parametrize(
    ("scenario", "cut"),
    [pytest.param(WHOLE_RELEASE, 2.0, marks=pytest.mark.slow), (SCENARIOS["A"], 0.3)],
    ids=["whole", "A"],
)
def test_discrete_noise_by_simulation(scenario, cut):
    draws = 40_000
    rng = np.random.default_rng(6)
    total = np.zeros(draws)
    for item in scenario.queries:
        law = DiscreteGaussian(sigma=float(item.rho) ** -0.5)
        total += float(item.rho) * law.rvs((2, draws), rng=rng).sum(axis=0)
    # the log likelihood ratio is ρ + total where the alternative holds, and -ρ + total where not
    rho = float(scenario.rho)
    level, power = np.mean(total - rho > cut), np.mean(total + rho > cut)
    error = np.sqrt(level * (1 - level)) * np.exp(cut) + np.sqrt(power * (1 - power))
    # six standard errors of both: 4e-9
    found = scenario.max_power(level, noise="discrete-gaussian")
    assert abs(power - found) < 6 * error / np.sqrt(draws)


def test_beliefs():
    scenario = SCENARIOS["A"]
    epsilon, rho = np.array([0.2, 0.6, 1.5]), float(scenario.rho)
    known = scenario.posterior_tail(
        epsilon, noise="zcdp", rest="known", about="any", method="tail-bound"
    )
    np.testing.assert_allclose(known, np.exp(-np.square(epsilon + rho) / (4 * rho)))
    arbitrary = scenario.posterior_tail(epsilon, noise="zcdp", method="tail-bound")
    np.testing.assert_allclose(arbitrary, np.exp(-np.square(epsilon - rho) / (4 * rho)))
    mu = np.sqrt(2 * rho)
    gaussian = scenario.posterior_tail(epsilon)
    level = special.ndtr(special.ndtri(gaussian) - mu)
    np.testing.assert_allclose(gaussian, np.exp(epsilon) * level, rtol=1e-9)
    frame = scenario.belief_frame(epsilon)
    np.testing.assert_array_equal(frame.to_numpy(), np.transpose([known, gaussian, arbitrary]))
    discrete = scenario.posterior_tail(epsilon[:1], noise="discrete-gaussian")
    assert discrete[0] == pytest.approx(gaussian[0], abs=2e-3)


def test_a_scenario_of_an_allocation_of_ones_own():
    budget = BudgetAllocation.from_numerators(
        Fraction(1), ["total", "age"], {"State": (Fraction(1, 2), [3, 1])}
    )
    scenario = build_scenario(
        lambda level, query: query == "age", allocations=[budget], secret="age"
    )
    assert scenario.rho == Fraction(1, 8)
    assert scenario.guarantee == ZCDP(0.125, neighbours="replace")
    assert scenario.frame().to_dict("list") == {
        "level": ["State"],
        "query": ["age"],
        "rho": [Fraction(1, 8)],
    }
    assert scenario.secret == "age"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_scenario("Block"), "affected must be a function"),
        (build_scenario, "affected must be given, or else levels"),
        (lambda: build_scenario(lambda *_: True, within=["US"]), "and not both"),
        (lambda: build_scenario(within=["CBG"]), "within must be one of 'US'"),
        (lambda: build_scenario(within="Block"), "within must be a sequence"),
        (lambda: build_scenario(about=["race"]), "about must be one of 'hhgq'"),
        (lambda: build_scenario(lambda _, q: "race" in attributes(q)), "attribute must be one of"),
        (lambda: build_scenario(lambda level, query: 1), "affected must answer True or False"),
        (lambda: build_scenario(lambda level, query: False), "affected must be true for at least"),
        (lambda: build_scenario(lambda level, query: True, allocations=[1]), "must hold BudgetAll"),
        (lambda: build_scenario(lambda level, query: True, allocations=5), "must be a sequence"),
        (lambda: Scenario(()), "queries must hold at least one"),
        (lambda: Scenario(("age",)), "queries must hold AffectedQuery, got"),
        (lambda: AffectedQuery("State", "age", 0.5), "rho must be a Fraction above 0, got 0.5"),
        (lambda: AffectedQuery("State", "age", Fraction(0)), "rho must be a Fraction above 0"),
        (lambda: SCENARIOS["A"].max_power(0.1, noise="none"), "noise must be one of"),
        (lambda: SCENARIOS["A"].max_power(2.0), "alpha must be <= 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_a_change_of_quarters_touches_their_grouping():
    quarters = build_scenario(about=["hhgq"])
    assert {item.query for item in quarters.queries} == {"hhgq", "hhinstlevels", "detailed"}
