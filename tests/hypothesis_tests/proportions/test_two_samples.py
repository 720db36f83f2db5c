"""Equality of two noisy proportions against enumeration, peers and brute-force maximisation."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats import proportion

from dpinfer._validation import ALTERNATIVES
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import proportions_2indep
from dpinfer.hypothesis_tests.proportions._difference import NoisyDifference
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Tulap,
    WeightedSum,
)

LEVELS = (0.01, 0.05, 0.1)
LAWS = [
    Laplace(scale=2.0),
    Geometric(scale=2.0),
    Gaussian(sigma=3.0),
    DiscreteGaussian(sigma=2.0),
    Exact(),
    Tulap(scale=1.0),
]


def enumerated(n1, n2, laws, p, d, alternative):
    """The tail of the difference: every pair of counts against the exact law of the noise."""
    noise = WeightedSum([1.0, -n1 / n2], list(laws))
    k1, k2 = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")
    chance = stats.binom.pmf(k1, n1, p) * stats.binom.pmf(k2, n2, p)
    place = k1 - k2 * n1 / n2  # in units of the first count
    tails = {
        "larger": lambda: noise.cdf(place - n1 * d),
        "smaller": lambda: noise.cdf(n1 * d - place),
        "two-sided": lambda: noise.cdf(place - n1 * abs(d)) + noise.cdf(-n1 * abs(d) - place),
    }
    return np.sum(chance * tails[alternative]())


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("first", LAWS, ids=repr)
@pytest.mark.parametrize(("n1", "n2"), [(12, 12), (9, 14), (1, 30)])
def test_the_law_of_the_difference_equals_enumeration(n1, n2, first, alternative):
    if isinstance(first, Tulap) and (n1 != n2 or alternative != "larger"):
        pytest.skip("the law that is compared with takes long")
    for second in (first, LAWS[1], LAWS[0]):
        law = NoisyDifference((n1, n2), (first, second))
        values = np.array([0.03, 0.4, 0.93])
        for count1, count2 in ((5, 3), (-3, 4), (11, 2)):
            d = count1 / n1 - count2 / n2
            got = law.tail(alternative, np.asarray(d), values)
            want = [enumerated(n1, n2, (first, second), p, d, alternative) for p in values]
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("law", [DiscreteGaussian(sigma=300.0), Geometric(scale=60.0)], ids=repr)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_wide_noise_on_the_whole_numbers(law, alternative):
    difference = NoisyDifference((9, 14), (law, law))
    values = np.array([0.1, 0.6])
    for d in (5 / 9 - 70 / 14, 0.0):
        got = difference.tail(alternative, np.asarray(d), values)
        want = [enumerated(9, 14, (law, law), p, d, alternative) for p in values]
        np.testing.assert_allclose(got, np.minimum(want, 1.0), rtol=1e-10, atol=1e-11)


def test_very_wide_noise_is_kept_apart_from_the_counts():
    law = DiscreteGaussian(sigma=5618.0)
    difference = NoisyDifference((100, 110), (law, law))
    low, high, reach = difference._window(0, np.array([0.3, 0.6]))
    assert (reach, high - low <= 100) == (0.0, True)  # by tables of the counts alone
    found = proportions_2indep(30, 100, 60, 110, mechanism=law, alternative="larger")
    # with all counts listed, for every p looked at
    assert found.pvalue == pytest.approx(0.5014075498683874, abs=1e-9)


def test_rows_with_different_values_and_differences():
    rng = np.random.default_rng(2)
    d, p = rng.normal(0, 0.1, 9), rng.uniform(0.1, 0.9, 9)
    for laws in ((LAWS[0], LAWS[0]), (LAWS[1], LAWS[3]), (LAWS[4], LAWS[2])):
        law = NoisyDifference((40, 55), laws)
        for alternative in ALTERNATIVES:
            alone = [law.tail(alternative, d[i : i + 1], p[i : i + 1])[0] for i in range(9)]
            np.testing.assert_allclose(law.tail(alternative, d, p), alone, rtol=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    ("n1", "n2", "noise"),
    [(6, 8, Geometric(scale=0.5)), (10, 10, Exact()), (5, 5, DiscreteGaussian(sigma=1.0))],
    ids=repr,
)
def test_exact_never_exceeds_its_level(n1, n2, noise, alternative):
    reach = 0 if noise == Exact() else int(noise.isf(1e-7))
    k1, k2 = np.arange(-reach, n1 + reach + 1), np.arange(-reach, n2 + reach + 1)
    count1, count2 = (axis.ravel() for axis in np.meshgrid(k1, k2, indexing="ij"))
    _, pvalues = proportions_2indep(
        count1, n1, count2, n2, mechanism=noise, alternative=alternative
    )
    kernel = noise.pmf(np.arange(-reach, reach + 1))
    for p in np.linspace(0.0, 1.0, 101):
        laws = [np.convolve(stats.binom.pmf(np.arange(n + 1), n, p), kernel) for n in (n1, n2)]
        chances = np.outer(*laws).ravel()
        for level in LEVELS:
            size = chances[pvalues <= level].sum() + 1.0 - chances.sum()
            assert size <= level * (1 + 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("n", [50, 500, 5000])
@pytest.mark.parametrize("p", [0.5, 0.02])
def test_guaranteed_level_by_simulation(n, p, epsilon):
    noise, rng, runs = Geometric.from_epsilon(epsilon), np.random.default_rng(n), 1000
    count1 = rng.binomial(n, p, runs) + noise.rvs(runs, rng=rng)
    count2 = rng.binomial(n + 7, p, runs) + noise.rvs(runs, rng=rng)
    _, pvalues = proportions_2indep(count1, n, count2, n + 7, mechanism=noise)
    for level in LEVELS:
        # 6 standard errors: 1e-9
        assert np.mean(pvalues <= level) <= level + 6 * np.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=1.5), Laplace(scale=1.5)], ids=repr)
def test_exact_is_a_brute_force_maximum(noise):
    n1, n2, count1, count2, beta = 30, 45, 15, 12, 1e-3
    total, d = WeightedSum([1.0, 1.0], noise), count1 / n1 - count2 / n2
    k = np.arange(n1 + n2 + 1)

    def upper(p):
        chances = stats.binom.pmf(k, n1 + n2, p)
        return np.sum(chances * total.cdf(k - count1 - count2)) - beta / 2

    def lower(p):
        chances = stats.binom.pmf(k, n1 + n2, p)
        return np.sum(chances * total.cdf(count1 + count2 - k)) - beta / 2

    low, high = (optimize.brentq(tail, 1e-9, 1 - 1e-9, xtol=1e-12) for tail in (upper, lower))
    grid = np.linspace(low, high, 801)
    largest = max(enumerated(n1, n2, (noise, noise), p, d, "two-sided") for p in grid[::40])
    result = proportions_2indep(count1, n1, count2, n2, mechanism=noise, nuisance_alpha=beta)
    # the maximum is certified to β/2; the interval, a little wider, may add as much
    assert largest + beta - 1e-9 <= result.pvalue <= largest + 2 * beta
    again = result.null_distribution.pvalue(result.statistic)
    assert again == pytest.approx(result.pvalue, rel=1e-9)


class TestWithoutNoise:
    def test_normal_is_the_z_test_of_statsmodels(self):
        for alternative in ALTERNATIVES:
            statistic, pvalue = proportions_2indep(
                61, 200, 42, 210, mechanism=Exact(), method="normal", alternative=alternative
            )
            theirs = proportion.proportions_ztest([61, 42], [200, 210], alternative=alternative)
            assert (statistic, pvalue) == pytest.approx(theirs, rel=1e-12)

    def test_no_successes_at_all(self):
        for method in ("exact", "plug-in", "normal", "monte-carlo"):
            _, pvalue = proportions_2indep(0, 20, 0, 20, mechanism=Exact(), method=method)
            assert pvalue == 1.0


@pytest.mark.parametrize("noise", LAWS[:4], ids=repr)
def test_monte_carlo_and_the_exact_law_agree(noise):
    arguments = {"count1": 61, "nobs1": 200, "count2": 45, "nobs2": 210, "mechanism": noise}
    exact = proportions_2indep(**arguments, method="plug-in").pvalue
    simulated = proportions_2indep(**arguments, method="monte-carlo", reps=200_000, rng=3)
    # 6 standard errors: 2e-9
    assert abs(simulated.pvalue - exact) < 6 * simulated.mc_error
    workers = proportions_2indep(**arguments, method="monte-carlo", reps=200_000, rng=3, n_jobs=2)
    assert workers.pvalue == simulated.pvalue


def test_noisy_numbers_of_trials():
    """The simulation and the normal limit, against a plain simulation of the same statistic."""
    n1, n2, c1, c2, noise = 300, 260, 95, 60, Laplace(scale=3.0)
    options = {"mechanism": noise, "nobs_mechanism": noise}
    rng, reps = np.random.default_rng(8), 400_000
    p = (c1 + c2) / (n1 + n2)
    e = noise.rvs((4, reps), rng=rng)
    for is_total in (False, True):
        y1, y2 = rng.binomial(n1, p, reps) + e[0], rng.binomial(n2, p, reps) + e[1]
        m1 = n1 + e[2] + (e[0] if is_total else 0)
        m2 = n2 + e[3] + (e[1] if is_total else 0)
        t = np.abs(y1 * m2 - y2 * m1)
        plain = np.mean(t >= abs(c1 * n2 - c2 * n1))
        simulated = proportions_2indep(
            c1, n1, c2, n2, **options, nobs_is_total=is_total, reps=400_000, rng=5
        )
        assert simulated.method == "monte-carlo"
        # 6 standard errors of the difference: 2e-9
        assert abs(simulated.pvalue - plain) < 6 * np.sqrt(2) * simulated.mc_error
        normal = proportions_2indep(
            c1, n1, c2, n2, **options, nobs_is_total=is_total, method="normal"
        )
        assert normal.pvalue == pytest.approx(simulated.pvalue, rel=0.1)


def test_results_can_be_pickled():
    for method in ("exact", "plug-in", "monte-carlo", "normal"):
        result = proportions_2indep(
            61, 200, 45, 210, mechanism=Laplace(scale=2.0), method=method, reps=1000, rng=1
        )
        again = pickle.loads(pickle.dumps(result))
        assert again.pvalue == result.pvalue
        again.null_distribution.pvalue(result.statistic)


def test_rows_share_nothing_but_work_and_keep_labels():
    laws = (Laplace(scale=[1.0, 2.0, 2.0]), Geometric(scale=2.0))
    count1 = pd.Series([10.5, 22.0, 31.0], index=list("abc"))
    count2, nobs1, nobs2 = np.array([12, 30, 20]), np.array([40, 60, 60]), np.array([40, 70, 70])
    for method in ("exact", "plug-in", "normal"):
        together = proportions_2indep(
            count1, nobs1, count2, nobs2, mechanism=laws, method=method
        ).pvalue
        for i, label in enumerate("abc"):
            pair = (laws[0].take(i), laws[1])
            alone = proportions_2indep(
                count1[label], nobs1[i], count2[i], nobs2[i], mechanism=pair, method=method
            )
            assert together[label] == pytest.approx(alone.pvalue, rel=1e-9)


def test_swapping_the_samples_turns_the_alternative_round():
    laws = (Laplace(scale=2.0), Geometric(scale=3.0))
    for method in ("exact", "plug-in", "normal"):
        one = proportions_2indep(
            30, 90, 20, 100, mechanism=laws, method=method, alternative="larger"
        )
        two = proportions_2indep(
            20, 100, 30, 90, mechanism=laws[::-1], method=method, alternative="smaller"
        )
        assert one.pvalue == pytest.approx(two.pvalue, rel=1e-9)


def test_randomized_response_compares_the_reports():
    channel = RandomizedResponse(p=0.8)
    reports = proportions_2indep(61, 200, 42, 210, mechanism=channel)
    counts = proportions_2indep(61, 200, 42, 210, mechanism=Exact())
    assert reports.pvalue == counts.pvalue
    with pytest.raises(InvalidParameterError, match="count2 must be at most nobs2"):
        proportions_2indep(61, 200, 342, 210, mechanism=channel)


GOOD = {"count1": 61, "nobs1": 200, "count2": 42, "nobs2": 210, "mechanism": Geometric(scale=2.0)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nobs1": 0}, "nobs1 must be >= 1"),
        ({"nobs2": 10.5}, "nobs2 must hold whole numbers"),
        ({"count1": 3.5}, "count1 must hold whole numbers"),
        ({"count2": np.nan}, "count2 must not contain NaN"),
        ({"count2": [1, 2], "nobs1": [10, 20, 30]}, "one length"),
        ({"mechanism": 2.0}, "mechanism must be a noise law"),
        ({"mechanism": [Exact()] * 3}, "mechanism must be one noise law for both samples, or a"),
        ({"nobs_mechanism": Exact(), "method": "exact"}, "method must be 'monte-carlo' or"),
        ({"nobs_mechanism": Exact(), "method": "plug-in"}, "method must be 'monte-carlo' or"),
        ({"nobs_is_total": True}, "nobs_mechanism must be given"),
        ({"method": "asymptotic"}, "method must be one of"),
        ({"alternative": "greater"}, "alternative must be one of"),
        ({"nuisance_alpha": 1}, "nuisance_alpha must be < 0.5"),
        ({"nobs1": 1e15, "nobs2": 1e15}, "too large for the exact law"),
        (
            {"nobs1": 10**6, "nobs2": 10**6, "mechanism": Geometric(scale=1e9)},
            "too large for the exact law",
        ),
        (
            {"count1": 5e7, "nobs1": 1e8, "nobs2": 1e8, "mechanism": Laplace(scale=1.0)},
            "too large for the",
        ),
    ],
)
def test_bad_arguments_say_what_is_wrong(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        proportions_2indep(**{**GOOD, **changes})


anything = st.one_of(
    st.none(),
    st.text(max_size=2),
    st.complex_numbers(),
    st.floats(),
    st.integers(-100, 1000),
    st.lists(st.one_of(st.floats(-50, 200), st.integers(-5, 200), st.none()), max_size=3),
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    c1=anything,
    n1=st.one_of(st.integers(1, 300), anything),
    c2=anything,
    n2=st.one_of(st.integers(1, 300), anything),
    law=st.sampled_from(LAWS),
    method=st.sampled_from(["exact", "plug-in", "monte-carlo", "normal"]),
    noisy=st.booleans(),
)
def test_only_our_own_errors_escape(c1, n1, c2, n2, law, method, noisy):
    other = law if noisy else None
    try:
        statistic, pvalue = proportions_2indep(
            c1, n1, c2, n2, mechanism=law, nobs_mechanism=other, method=method, reps=50, rng=1
        )
    except DPInferError:
        return
    assert np.isfinite(statistic).all()
    assert ((pvalue >= 0) & (pvalue <= 1)).all()


@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    n1=st.integers(1, 400),
    n2=st.integers(1, 400),
    share1=st.floats(-0.3, 1.3),
    share2=st.floats(-0.3, 1.3),
    scale=st.floats(0.05, 15.0),
    kind=st.sampled_from([Laplace, Geometric]),
    alternative=st.sampled_from(ALTERNATIVES),
)
def test_exact_is_never_below_plug_in(n1, n2, share1, share2, scale, kind, alternative):
    arguments = {
        "count1": round(share1 * n1),
        "nobs1": n1,
        "count2": round(share2 * n2),
        "nobs2": n2,
        "mechanism": kind(scale=scale),
        "alternative": alternative,
    }
    exact = proportions_2indep(**arguments).pvalue
    plug_in = proportions_2indep(**arguments, method="plug-in").pvalue
    assert 0 <= plug_in <= 1
    assert 1e-4 <= exact <= 1
    total = (arguments["count1"] + arguments["count2"]) / (n1 + n2)
    if 0.5 / (n1 + n2) <= total <= 1 - 0.5 / (n1 + n2):  # the estimate is in the confidence set
        assert exact >= plug_in - 1e-9
