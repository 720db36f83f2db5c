"""Equality of two noisy proportions against enumeration, peers and brute-force maximisation."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from crossed import in_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats import proportion

from dpinfer import noisy
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import mcnemar, poisson_2indep, proportions_2indep
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

ALTERNATIVES = ("two-sided", "larger", "smaller")

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


def pooled(n1, n2, count1, count2):
    """The proportion at which a plug-in p-value is computed."""
    total = n1 + n2
    return np.clip((count1 + count2) / total, 0.5 / total, 1.0 - 0.5 / total)


@pytest.mark.parametrize(
    ("sizes", "first", "alternative"),
    in_turn([(12, 12), (9, 14), (1, 30)], LAWS, ALTERNATIVES),
    ids=str,
)
def test_the_law_of_the_difference_equals_enumeration(sizes, first, alternative):
    n1, n2 = sizes
    if isinstance(first, Tulap) and (n1 != n2 or alternative != "larger"):
        pytest.skip("the law that is compared with takes long")
    counts = [(-3, 4), (5, 3), (11, 13)]
    for second in (first, LAWS[1], LAWS[0]):
        for count1, count2 in counts:
            if Exact() in (first, second):
                count1, count2 = (min(max(c, 0), n) for c, n in ((count1, n1), (count2, n2)))
            found = proportions_2indep(
                count1, n1, count2, n2, mechanism=(first, second), alternative=alternative,
                method="plug-in",
            ).pvalue  # fmt: skip
            p, d = pooled(n1, n2, count1, count2), count1 / n1 - count2 / n2
            want = enumerated(n1, n2, (first, second), p, d, alternative)
            assert found == pytest.approx(min(want, 1.0), rel=1e-9, abs=1e-11)


@pytest.mark.thinned("law", "alternative", every=2)
@pytest.mark.parametrize("law", [DiscreteGaussian(sigma=300.0), Geometric(scale=60.0)], ids=repr)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_wide_noise_on_the_whole_numbers(law, alternative):
    for count1, count2 in ((5, 70), (-200, 203), (9, 14), (300, -270)):
        found = proportions_2indep(
            count1, 9, count2, 14, mechanism=law, alternative=alternative, method="plug-in"
        ).pvalue
        p, d = pooled(9, 14, count1, count2), count1 / 9 - count2 / 14
        want = enumerated(9, 14, (law, law), p, d, alternative)
        assert found == pytest.approx(min(want, 1.0), rel=1e-10, abs=1e-11)


def test_very_wide_noise_is_kept_apart_from_the_counts():
    law = DiscreteGaussian(sigma=5618.0)
    tracemalloc.start()
    try:
        found = proportions_2indep(30, 100, 60, 110, mechanism=law, alternative="larger")
        assert tracemalloc.get_traced_memory()[1] < 3e7  # tables of the counts alone
    finally:
        tracemalloc.stop()
    # with all counts listed, for every p looked at
    assert found.pvalue == pytest.approx(0.5014075498683874, abs=1e-9)


def test_plug_in_rows_are_what_they_are_alone():
    rng = np.random.default_rng(2)
    c1, c2 = rng.integers(-2, 43, 9), rng.integers(-2, 58, 9)
    c1[4], c2[4] = c1[3] + 8, c2[3] + 11  # the difference of the row before
    for laws in ((LAWS[0], LAWS[0]), (LAWS[1], LAWS[3]), (LAWS[1], LAWS[2])):
        for alternative in ALTERNATIVES:
            options = {"mechanism": laws, "alternative": alternative, "method": "plug-in"}
            alone = [proportions_2indep(c1[i], 40, c2[i], 55, **options).pvalue for i in range(9)]
            together = proportions_2indep(c1, 40, c2, 55, **options).pvalue
            np.testing.assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize(
    ("n1", "n2", "noise", "alternative"),
    [
        pytest.param(*case, side, marks=[] if side == quick else [pytest.mark.slow])
        for *case, quick in [
            (4, 5, Geometric(scale=0.4), "larger"),
            (10, 10, Exact(), "smaller"),
            (3, 3, DiscreteGaussian(sigma=0.8), "two-sided"),
        ]
        for side in ALTERNATIVES
    ],
    ids=repr,
)
def test_exact_never_exceeds_its_level(n1, n2, noise, alternative):
    reach = 0 if noise == Exact() else int(noise.isf(1e-6))
    k1, k2 = np.arange(-reach, n1 + reach + 1), np.arange(-reach, n2 + reach + 1)
    count1, count2 = (axis.ravel() for axis in np.meshgrid(k1, k2, indexing="ij"))
    kernel = noise.pmf(np.arange(-reach, reach + 1))
    grid = np.linspace(0.0, 1.0, 101)
    first, second = (
        [np.convolve(stats.binom.pmf(np.arange(n + 1), n, p), kernel) for p in grid]
        for n in (n1, n2)
    )
    laws = np.array([np.outer(*pair).ravel() for pair in zip(first, second, strict=True)])
    likely = laws.max(axis=0) > 1e-6  # the others count as rejected
    _, pvalues = proportions_2indep(
        count1[likely], n1, count2[likely], n2, mechanism=noise, alternative=alternative
    )
    for chances in laws[:, likely]:
        for level in LEVELS:
            size = chances[pvalues <= level].sum() + 1.0 - chances.sum()
            assert size <= level * (1 + 1e-10)


@pytest.mark.study  # tests/calibration looks at some of these settings at every slow run
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("n", [50, 500, 5000])
@pytest.mark.parametrize("p", [0.5, 0.02])
def test_guaranteed_level_by_simulation(n, p, epsilon):
    runs = 1000
    noise, rng = Geometric.from_epsilon(epsilon), np.random.default_rng(n)
    count1 = rng.binomial(n, p, runs) + noise.rvs(runs, rng=rng)
    count2 = rng.binomial(n + 7, p, runs) + noise.rvs(runs, rng=rng)
    _, pvalues = proportions_2indep(count1, n, count2, n + 7, mechanism=noise)
    for level in LEVELS:
        # 6 standard errors: 1e-9
        assert np.mean(pvalues <= level) <= level + 6 * np.sqrt(level * (1 - level) / runs)


def plug_in_tail(n1, n2, noise, d, total):
    """P(N + noise >= d) for a normal variable with the variance at the pooled estimate."""
    m = np.clip(total, 0.5, n1 + n2 - 0.5)
    variance = np.maximum(m * (1.0 - m / (n1 + n2)), 1.0) / (n1 * n2)
    if not hasattr(noise, "scale"):
        own = 0.0 if noise == Exact() else noise.variance
        return stats.norm.sf(d / np.sqrt(variance + own * (1 / n1**2 + 1 / n2**2)))
    # the density of two Laplace variables, of different scales, on a fine grid
    b1, b2 = noise.scale / n1, noise.scale / n2
    x = np.linspace(-40.0, 40.0, 2001) * max(b1, b2)
    density = b1 * np.exp(-np.abs(x) / b1) - b2 * np.exp(-np.abs(x) / b2)
    density /= 2.0 * (b1**2 - b2**2)
    tails = [special.ndtr((x - t) / s) @ density for t, s in zip(d, np.sqrt(variance), strict=True)]
    return np.array(tails) * (x[1] - x[0])


@pytest.mark.thinned("alternative", "n1", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    ("n1", "n2", "noise"),
    [
        (15, 24, Exact()),
        (10, 14, Geometric(scale=0.8)),
        (8, 8, DiscreteGaussian(sigma=1.5)),
    ],
    ids=repr,
)
def test_exact_is_a_brute_force_maximum_over_the_plug_in_order(n1, n2, noise, alternative):
    reach, beta = 0 if noise == Exact() else int(noise.isf(1e-9)), 1e-3
    k1, k2 = np.arange(-reach, n1 + reach + 1.0), np.arange(-reach, n2 + reach + 1.0)
    first, second = (axis.ravel() for axis in np.meshgrid(k1, k2, indexing="ij"))
    d, total = first / n1 - second / n2, first + second
    key = plug_in_tail(n1, n2, noise, np.abs(d), total)
    if alternative != "two-sided":
        key = np.where(d > 0 if alternative == "larger" else d < 0, key, 1.0 - key)
    kernel = np.ones(1) if reach == 0 else noise.pmf(np.arange(-reach, reach + 1.0))
    grid = np.sin(np.linspace(1e-3, np.pi / 2 - 1e-3, 400)) ** 2
    rows = [np.convolve(stats.binom.pmf(np.arange(n1 + 1), n1, p), kernel) for p in grid]
    others = [np.convolve(stats.binom.pmf(np.arange(n2 + 1), n2, p), kernel) for p in grid]
    chances = np.array([np.outer(*pair).ravel() for pair in zip(rows, others, strict=True)])
    for c1, c2 in ((5, 3), (1, 7), (8, 8), (3, 11), (0, 1)):
        own = key[(first == c1) & (second == c2)]
        # ties on the wrong side of 1/2 are at d = 0, where the tail is 1/2 whatever the total
        found = chances[:, key <= own * (1 + 1e-6)].sum(axis=1)
        sums = np.stack(
            [chances[:, total >= c1 + c2].sum(axis=1), chances[:, total <= c1 + c2].sum(axis=1)]
        )
        inside = (sums > beta / 2).all(axis=0)
        pvalue = proportions_2indep(
            c1, n1, c2, n2, mechanism=noise, alternative=alternative, nuisance_alpha=beta
        ).pvalue
        # the maximum is certified to β/2; that of the grid, and its ends, are a little less
        assert found[inside].max() + beta - 1e-6 <= min(pvalue, 1.0) + (pvalue == 1.0) * beta
        assert pvalue <= found[inside].max() + 2 * beta + 2e-3


@pytest.mark.thinned("noise", "alternative", every=2)
@pytest.mark.parametrize("noise", [Laplace(scale=1.5), Gaussian(sigma=2.0)], ids=repr)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_exact_with_continuous_noise_is_a_chance_of_the_plug_in_order(noise, alternative):
    n1, n2, c1, c2, reps = 30, 45, 15.3, 12.2, 4_000
    d, sign = c1 / n1 - c2 / n2, -1.0 if alternative == "smaller" else 1.0
    own = plug_in_tail(n1, n2, noise, np.array([d]), np.array([c1 + c2]))[0]
    pvalue = proportions_2indep(c1, n1, c2, n2, mechanism=noise, alternative=alternative).pvalue
    rng, found = np.random.default_rng(5), []
    for p in (0.3, 0.37, 0.44):  # all of them in the confidence set
        y1 = rng.binomial(n1, p, reps) + noise.rvs(reps, rng=rng)
        y2 = rng.binomial(n2, p, reps) + noise.rvs(reps, rng=rng)
        drawn = y1 / n1 - y2 / n2
        key = plug_in_tail(n1, n2, noise, np.abs(drawn), y1 + y2)
        if alternative != "two-sided":
            key = np.where(sign * drawn > 0, key, 1.0 - key)
        found.append(np.mean(key <= (own if alternative != "smaller" else 1.0 - own)))
    # 6 standard errors of each: 6e-9; the chance hardly depends on p
    slack = 6.0 * np.sqrt(pvalue * (1.0 - pvalue) / reps)
    assert max(found) - slack <= pvalue <= max(found) + slack + 0.01


def test_exact_has_the_power_of_the_plug_in_order():
    """Ordered by the difference, these are .304 and .067."""
    noise, n = Geometric(scale=1.0), 20
    kernel = noise.pmf(np.arange(-12, 13))
    counts = np.arange(-12, n + 13)
    laws = [np.convolve(stats.binom.pmf(np.arange(n + 1), n, p), kernel) for p in (0.05, 0.35)]
    first, second = (axis.ravel() for axis in np.meshgrid(counts, counts, indexing="ij"))
    chance = np.outer(*laws).ravel()
    likely = (chance > 1e-4) & (second > first)
    pvalues = proportions_2indep(first[likely], n, second[likely], n, mechanism=noise).pvalue
    assert chance[likely][pvalues <= 0.05].sum() > 0.43
    assert chance[likely][pvalues <= 0.01].sum() > 0.17


class TestWithoutNoise:
    def test_normal_is_the_z_test_of_statsmodels(self):
        for alternative in ALTERNATIVES:
            statistic, pvalue = proportions_2indep(
                61, 200, 42, 210, mechanism=Exact(), method="asymptotic", alternative=alternative
            )
            theirs = proportion.proportions_ztest([61, 42], [200, 210], alternative=alternative)
            assert (statistic, pvalue) == pytest.approx(theirs, rel=1e-12)

    def test_no_successes_at_all(self):
        for method in ("exact", "plug-in", "asymptotic", "monte-carlo"):
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
            c1, n1, c2, n2, **options, nobs_is_total=is_total, method="asymptotic"
        )
        assert normal.pvalue == pytest.approx(simulated.pvalue, rel=0.1)


def test_results_can_be_pickled():
    for method in ("exact", "plug-in", "monte-carlo", "asymptotic"):
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
    for method in ("exact", "plug-in", "asymptotic"):
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
    for method in ("exact", "plug-in", "asymptotic"):
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
        ({"mechanism": (Exact(),) * 3}, "mechanism must be one noise law for both samples, or a"),
        ({"nobs_mechanism": Exact(), "method": "exact"}, "method must be 'monte-carlo' or"),
        ({"nobs_mechanism": Exact(), "method": "plug-in"}, "method must be 'monte-carlo' or"),
        ({"nobs_is_total": True}, "nobs_mechanism must be given"),
        ({"method": "limit"}, "method must be one of"),
        ({"alternative": "bigger"}, "alternative must be one of"),
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


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    c1=anything,
    n1=st.one_of(st.integers(1, 300), anything),
    c2=anything,
    n2=st.one_of(st.integers(1, 300), anything),
    law=st.sampled_from(LAWS),
    method=st.sampled_from(["exact", "plug-in", "monte-carlo", "asymptotic"]),
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


@settings(derandomize=True, deadline=None, max_examples=5)
@given(
    n1=st.integers(1, 400),
    n2=st.integers(1, 400),
    share1=st.floats(-0.3, 1.3),
    share2=st.floats(-0.3, 1.3),
    scale=st.floats(0.05, 15.0),
    kind=st.sampled_from([Laplace, Geometric]),
    alternative=st.sampled_from(ALTERNATIVES),
)
def test_exact_falls_towards_the_alternative(n1, n2, share1, share2, scale, kind, alternative):
    """Given the total, whose law is the same under the null hypothesis."""
    count1, count2 = round(share1 * n1), round(share2 * n2)
    sides = {"larger": 1, "smaller": -1, "two-sided": 1 if count1 * n2 > count2 * n1 else -1}
    step = sides[alternative]
    nearer, further = (
        proportions_2indep(
            count1 + moved,
            n1,
            count2 - moved,
            n2,
            mechanism=kind(scale=scale),
            alternative=alternative,
        ).pvalue
        for moved in (0, step)
    )
    assert 1e-4 <= further <= nearer + 5e-5 <= 1 + 5e-5


PUBLISHED = noisy([61, 42, 200, 210], mechanism=Geometric(scale=2.0))


def test_releases_know_the_law_of_counts_and_numbers():
    plain = proportions_2indep(61, 200, 42, 210, mechanism=Geometric(scale=2.0), method="plug-in")
    one, other = PUBLISHED.take([0]), PUBLISHED.take([1])
    found = proportions_2indep(one, 200, other, 210, method="plug-in")
    assert (found.statistic.item(), found.pvalue.item()) == tuple(plain)
    options = {"mechanism": Geometric(scale=2.0), "reps": 500, "rng": 1}
    apart = proportions_2indep(61, 200, 42, 210, nobs_mechanism=Geometric(scale=2.0), **options)
    known = (PUBLISHED.take([place]) for place in (0, 2, 1, 3))
    found = proportions_2indep(*known, reps=500, rng=1)
    assert (found.statistic.item(), found.pvalue.item()) == tuple(apart)


def test_totals_over_the_same_noises_are_known_to_be_totals():
    rest = noisy([139, 168], mechanism=Geometric(scale=2.0))
    both = PUBLISHED.take([0, 1]).beside(rest)
    totals = [both.linear(row) for row in ([1, 0, 1, 0], [0, 1, 0, 1])]
    one, other = both.take([0]), both.take([1])
    found = proportions_2indep(one, totals[0], other, totals[1], reps=500, rng=1)
    stated = {"nobs_mechanism": Geometric(scale=2.0), "nobs_is_total": True, "reps": 500, "rng": 1}
    plain = proportions_2indep(61, 200, 42, 210, mechanism=Geometric(scale=2.0), **stated)
    assert found.statistic.item() == pytest.approx(plain.statistic, rel=1e-12)
    # the same replicates, one law drawn as a sum and the other as itself: 6 standard errors
    assert abs(found.pvalue.item() - plain.pvalue) < 6 * np.sqrt(2) * max(plain.mc_error, 0.002)


COMBINED = noisy([61.2, 42.1], mechanism=Laplace(scale=2.0), weights=[[1.0, 0.2], [0.2, 1.0]])
DEPENDENT = COMBINED.take([0]), COMBINED.take([1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: proportions_2indep(DEPENDENT[0], 200, DEPENDENT[1], 210),
        lambda: poisson_2indep(DEPENDENT[0], 5.0, DEPENDENT[1], 6.0),
        lambda: mcnemar(COMBINED),
        lambda: proportions_2indep(PUBLISHED.take([0]), 200, PUBLISHED.take([0]), 210),
        lambda: proportions_2indep(*(PUBLISHED.take([place]) for place in (0, 2, 1, 2))),
    ],
)
def test_dependent_errors_are_refused_with_what_to_do(call):
    with pytest.raises(InvalidParameterError, match=r"needs independent errors.*linear_ztest"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: proportions_2indep(x, 200, 40.5, 210, mechanism=Laplace(scale=2.0)),
        lambda x: poisson_2indep(40.5, 5.0, x, 6.0, mechanism=Laplace(scale=2.0)),
        lambda x: mcnemar(x),
    ],
)
def test_selected_counts_are_refused(call):
    x = noisy([61.5, 30.2], mechanism=Laplace(scale=2.0), threshold=10)
    with pytest.raises(InvalidParameterError, match="does not take values that were selected"):
        call(x)


def test_rows_that_share_noise_are_tested_one_by_one():
    x = noisy([61.2, 42.1], mechanism=Laplace(scale=2.0), weights=[[1.0, 0.2], [0.2, 1.0]])
    other = [50.5, 39.5]
    rows = proportions_2indep(x, 200, other, 210, mechanism=Laplace(scale=2.0), method="asymptotic")
    assert rows.pvalue.shape == (2,)
