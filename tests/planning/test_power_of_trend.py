"""Power of the tests of a trend, against enumeration and the tests themselves."""

from itertools import product

import numpy as np
import pytest
from crossed import in_turn
from planned import ALTERNATIVES, PlannedPower
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import counts_trend, proportions_trend
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

LEVELS = np.array([0.01, 0.05, 0.3, 0.9])
NULL, OTHER = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def published(nobs, laws):
    """Tables of three cells, and their chances under the null hypothesis and the alternative."""
    reach = [0 if isinstance(law, Exact) else int(law.isf(1e-11)) for law in laws]
    tables, chances = [], []
    noises = list(product(*(range(-r, r + 1) for r in reach)))
    likely = [
        np.prod(
            [
                1.0 if isinstance(law, Exact) else float(law.pmf(e))
                for law, e in zip(laws, es, strict=True)
            ]
        )
        for es in noises
    ]
    for x, y in product(range(nobs + 1), repeat=2):
        if x + y > nobs:
            continue
        count = np.array([x, y, nobs - x - y])
        both = [stats.multinomial.pmf(count, nobs, shares) for shares in (NULL, OTHER)]
        tables.append(count + np.array(noises))
        chances.append(np.multiply.outer(np.array(likely), both))
    return np.concatenate(tables).astype(float), np.concatenate(chances)


@pytest.mark.parametrize(
    ("laws", "alternative", "method"),
    in_turn(
        [[Geometric(scale=0.2)] * 3, [Exact(), Geometric(scale=0.3), Exact()], [Exact()] * 3],
        ALTERNATIVES,
        ["exact", "asymptotic"],
        every=3,
    ),
)
def test_power_equals_enumeration(laws, method, alternative):
    mechanism = laws[0] if laws[0] == laws[1] else laws
    options = {"shares": NULL, "scores": [0, 1, 3], "method": method, "alternative": alternative}
    tables, chances = published(3, laws)
    # tables of one deviation have one p-value, by a test of one of them
    variance = np.array([0.0 if isinstance(law, Exact) else law.variance for law in laws])
    weights = variance if variance.any() else NULL
    scores = np.array([0, 1, 3]) - weights @ [0, 1, 3] / weights.sum()
    _, first, which = np.unique(
        np.round((tables - 3 * NULL) @ scores, 9), return_index=True, return_inverse=True
    )
    grouped = np.array([np.bincount(which, chance) for chance in chances.T])
    kept = grouped.max(axis=0) > 1e-13
    pvalue = np.array(
        [
            float(counts_trend(table, 3, mechanism=mechanism, **options).pvalue)
            for table in tables[first[kept]]
        ]
    )
    plan = PlannedPower(counts_trend, truth=OTHER, mechanism=mechanism, **options)
    for effect, chance in zip((0.0, 1.0), grouped[:, kept], strict=True):
        want = [chance[pvalue <= level].sum() for level in LEVELS]
        got = plan.power(3, effect, LEVELS)
        np.testing.assert_allclose(got, want, atol=1e-10)
        if method == "exact" and effect == 0.0:
            assert (got <= LEVELS * (1 + 1e-11)).all()


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_two_cells_without_noise_are_the_binomial_test(alternative):
    plan = PlannedPower(counts_trend, truth=[0.3, 0.7], mechanism=Exact(), alternative=alternative)
    count = np.arange(31)
    tails = {
        "larger": stats.binom.sf(count - 1, 30, 0.5),
        "smaller": stats.binom.cdf(count, 30, 0.5),
    }
    tails["two-sided"] = np.minimum(2 * np.minimum(tails["larger"], tails["smaller"]), 1.0)
    chance = stats.binom.pmf(count, 30, 0.7)
    want = [chance[tails[alternative] <= level].sum() for level in LEVELS]
    np.testing.assert_allclose(plan.power(30, 1.0, LEVELS), want, atol=1e-10)


@pytest.mark.thinned("law", "method", every=2)
@pytest.mark.parametrize("law", [Laplace(scale=4.0), Gaussian(sigma=5.0)], ids=repr)
@pytest.mark.parametrize("method", [None, "monte-carlo", "asymptotic"])
def test_power_is_how_often_the_test_rejects(law, method):
    rng, runs, nobs = np.random.default_rng(1), 40, 80
    null = (NULL + 0.4) / (NULL + 0.4).sum()
    counts = rng.multinomial(nobs, null + 0.6 * (OTHER - null), runs) + law.rvs((runs, 3), rng=rng)
    fixed = {"mechanism": law, "method": method, "shares": null}
    hits = sum(counts_trend(y, nobs, reps=999, rng=rng, **fixed).pvalue <= 0.1 for y in counts)
    plan = PlannedPower(counts_trend, truth=OTHER, rng=2, **fixed)
    # the test's own replicates blur its level by 1e-2
    blur = 0.02 if method == "monte-carlo" else 0.0
    error = plan.assert_rejects(hits, runs, blur=blur, nobs=nobs, effect=0.6, alpha=0.1)
    assert (error > 0) == (method == "monte-carlo")


def test_simulated_power_is_the_exact_one():
    for alternative in ALTERNATIVES:
        for effect in (0.0, 0.3):
            options = {"shares": NULL, "alternative": alternative}
            exact = PlannedPower(
                counts_trend, truth=OTHER, mechanism=Geometric(scale=3.0), **options
            ).power(100, effect)
            plan = PlannedPower(
                counts_trend,
                truth=OTHER,
                mechanism=Geometric(scale=3.0),
                method="monte-carlo",
                rng=3,
                reps=20_000,
                **options,
            )
            row = plan.curve(nobs=100, effect=effect).iloc[0]
            # 6 standard errors: 2e-9
            assert abs(row["power"] - exact) <= 6 * row["mc_error"]


def test_scores_without_a_spacing_are_simulated():
    plan = PlannedPower(
        counts_trend,
        truth=OTHER,
        mechanism=Laplace(scale=1.0),
        shares=NULL,
        scores=[0, 1, np.sqrt(2)],
        rng=4,
    )
    frame = plan.curve(nobs=50, effect=1.0)
    assert frame["mc_error"][0] > 0
    assert frame["method"][0] == "monte-carlo"
    with pytest.raises(InvalidParameterError, match="method must be"):
        PlannedPower(
            counts_trend,
            truth=OTHER,
            mechanism=Laplace(scale=1.0),
            scores=[0, 1, np.sqrt(2)],
            method="exact",
        ).power(50)


def test_the_normal_test_of_such_scores_is_simulated_as_it_is():
    """Six standard errors of both simulations: a chance of 2e-9."""
    law, nobs, size = Laplace(scale=1.0), 50, 150
    options = {"shares": NULL, "scores": [0, 1, np.sqrt(2)], "method": "asymptotic"}
    row = (
        PlannedPower(counts_trend, truth=OTHER, mechanism=law, rng=4, **options)
        .curve(nobs=nobs, effect=0.4)
        .iloc[0]
    )
    assert row["mc_error"] > 0
    rng = np.random.default_rng(5)
    counts = rng.multinomial(nobs, NULL + 0.4 * (OTHER - NULL), size) + law.rvs((size, 3), rng=rng)
    rejected = [counts_trend(y, nobs, mechanism=law, **options).pvalue <= 0.05 for y in counts]
    error = np.hypot(np.sqrt(row["power"] * (1 - row["power"]) / size), row["mc_error"])
    assert np.mean(rejected) == pytest.approx(row["power"], abs=6 * error)


@pytest.mark.parametrize(
    ("method", "alternative"), [(None, "two-sided"), ("asymptotic", "smaller")]
)
def test_solving_is_the_inverse_of_power(method, alternative):
    shares = (NULL, OTHER) if alternative == "two-sided" else (OTHER, NULL)
    plan = PlannedPower(
        counts_trend,
        truth=shares[1],
        mechanism=Laplace.from_epsilon,
        shares=shares[0],
        method=method,
        alternative=alternative,
    )
    known = {"nobs": 60, "effect": 0.5, "alpha": 0.05, "budget": 0.5}
    power = plan.power(**known)
    assert plan.solve(**known) == power
    for name, value in known.items():
        found = plan.solve(**{**known, name: None}, power=power)
        assert found == pytest.approx(value, rel=1e-6)


@pytest.mark.thinned("alternative", "method", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
def test_power_of_a_trend_of_proportions_is_how_often_the_test_rejects(method, alternative):
    rng, runs = np.random.default_rng(5), 100
    law, proportions = Geometric(scale=3.0), np.array([0.1, 0.25, 0.3, 0.35])
    if alternative == "smaller":
        proportions = proportions[::-1]
    trials = np.array([30, 60, 30, 45])
    plan = PlannedPower(
        proportions_trend,
        truth=proportions,
        mechanism=law,
        ratios=trials / 30,
        alternative=alternative,
        method=method,
        rng=6,
    )
    row = plan.curve(nobs=30, effect=1.0, alpha=0.1).iloc[0]
    power, error = row["power"], row["mc_error"]
    counts = rng.binomial(trials, proportions, (runs, 4)) + law.rvs((runs, 4), rng=rng)
    options = {"mechanism": law, "method": method, "alternative": alternative, "reps": 199}
    rejected = sum(proportions_trend(y, trials, rng=rng, **options).pvalue <= 0.1 for y in counts)
    # 6 standard errors: 2e-9; the test's own replicates blur its level by 2.1e-2
    bound = 6 * np.hypot(np.sqrt(power * (1 - power) / runs), error) + 0.045
    assert 0.2 < power < 0.95
    assert abs(rejected / runs - power) <= bound


def test_two_groups_without_noise_are_the_z_test():
    plan = PlannedPower(
        proportions_trend,
        truth=[0.2, 0.5],
        mechanism=Exact(),
        method="asymptotic",
        reps=50_000,
        rng=7,
    )
    x, y = np.meshgrid(np.arange(41), np.arange(41), indexing="ij")
    share = np.clip(x + y, 0.5, 79.5) / 80
    z = (y - x) / 40 / np.sqrt(share * (1 - share) * 2 / 40)
    chance = np.multiply.outer(stats.binom.pmf(x[:, 0], 40, 0.2), stats.binom.pmf(y[0], 40, 0.5))
    want = chance[np.abs(z) >= stats.norm.isf(0.025)].sum()
    frame = plan.curve(nobs=40, effect=1.0)
    row = frame.iloc[0]
    # 6 standard errors: 2e-9
    assert abs(row["power"] - want) <= 6 * row["mc_error"]
    assert frame.attrs["effect_size"] == pytest.approx(0.15 / np.sqrt(0.35 * 0.65))
    assert frame.attrs["largest_effect"] == pytest.approx(0.35 / 0.15)


@pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
def test_a_trend_of_proportions_is_solved_for(method):
    plan = PlannedPower(
        proportions_trend,
        truth=[0.2, 0.3, 0.4],
        mechanism=Laplace.from_epsilon,
        method=method,
        reps=499,
        rng=8,
    )
    known = {"nobs": 80, "effect": 1.0, "alpha": 0.05, "budget": 0.5}
    for name in known:
        found = plan.solve(**{**known, name: None}, power=0.7)
        row = plan.curve(**{**known, name: found}).iloc[0]
        # power and answer are of the same replicates: a step function
        assert 0.699 <= row["power"] <= 0.75


@pytest.mark.parametrize(
    ("test", "name", "options"),
    [
        (counts_trend, "truth", {"truth": [1.0]}),
        (counts_trend, "truth", {"truth": [0.0, 0.0]}),
        (counts_trend, "truth", {"truth": [1.0, np.nan]}),
        (counts_trend, "truth", {"truth": [2.0, 2.0]}),
        (counts_trend, "shares", {"shares": [1.0, 0.0]}),
        (counts_trend, "shares", {"shares": [1.0, 2.0, 3.0]}),
        (counts_trend, "scores", {"scores": [1.0, 1.0]}),
        (counts_trend, "scores", {"scores": [1.0, 2.0, 3.0]}),
        (counts_trend, "mechanism", {"mechanism": Laplace}),
        (counts_trend, "mechanism", {"mechanism": Laplace(scale=[1.0, 2.0, 3.0])}),
        (counts_trend, "method", {"method": "plug-in"}),
        (counts_trend, "alternative", {"alternative": "up"}),
        (counts_trend, "reps", {"reps": 0}),
        (proportions_trend, "truth", {"truth": [0.2, 0.2]}),
        (proportions_trend, "truth", {"truth": [0.2]}),
        (proportions_trend, "truth", {"truth": [0.2, 1.2]}),
        (proportions_trend, "ratios", {"ratios": [1.0, 0.0]}),
        (proportions_trend, "ratios", {"ratios": [1.0]}),
        (proportions_trend, "scores", {"scores": "ab"}),
        (proportions_trend, "method", {"method": "exact"}),
        (proportions_trend, "mechanism", {"mechanism": 3}),
    ],
)
def test_bad_plans_are_refused(test, name, options):
    with pytest.raises(InvalidParameterError, match=name):
        PlannedPower(
            test, **{"truth": [0.2, 0.5], "mechanism": Laplace(scale=1.0), **options}
        ).power()


def test_impossible_powers_are_refused():
    plan = PlannedPower(
        counts_trend, truth=OTHER, mechanism=Laplace(scale=1.0), shares=NULL, alternative="smaller"
    )
    with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
        plan.solve(effect=1.0, alpha=0.05, power=0.5)
    flat = PlannedPower(
        proportions_trend, truth=[0.2, 0.5, 0.2], mechanism=Laplace(scale=1.0), reps=99
    )
    with pytest.raises(InvalidParameterError, match="power must be at most alpha"):
        flat.solve(effect=1.0, alpha=0.05, power=0.5)
    with pytest.raises(InvalidParameterError, match="reps must be >= 999"):
        flat.power(20, 1.0, 0.001)
