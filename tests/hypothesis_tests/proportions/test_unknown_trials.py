"""Proportions with a noisy number of trials, rates and paired proportions: guaranteed levels."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from crossed import in_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import contingency_tables, rates

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import mcnemar, poisson_2indep, poisson_ztest, proportions_ztest
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    WeightedSum,
)

ALTERNATIVES = ("two-sided", "larger", "smaller")

LEVELS = (0.01, 0.05, 0.1)
THEIRS = {"larger": "greater", "smaller": "less", "two-sided": "two-sided"}


@cache
def outcomes(n, p, noise, other, is_total):
    """All published pairs (count, nobs), and their probabilities; the rest is returned too."""
    reach1, reach2 = (0 if law == Exact() else int(law.isf(1e-11)) for law in (noise, other))
    x = np.arange(n + 1)
    e1, e2 = np.arange(-reach1, reach1 + 1), np.arange(-reach2, reach2 + 1)
    x, e1, e2 = (axis.ravel() for axis in np.meshgrid(x, e1, e2, indexing="ij"))
    chance = stats.binom.pmf(x, n, p) * noise.pmf(e1) * other.pmf(e2)
    nobs = n + e2 + (e1 if is_total else 0)
    pairs, where = np.unique(np.stack([x + e1, nobs]), axis=1, return_inverse=True)
    chances = np.bincount(where.ravel(), chance)
    return pairs[0], pairs[1], chances, 1.0 - chances.sum()


@pytest.mark.parametrize(
    ("trials", "laws", "is_total", "alternative"),
    in_turn(
        [(0, 0.3), (9, 0.3), (16, 0.05)],
        [
            (Geometric(scale=0.5), Geometric(scale=0.5)),
            (Geometric(scale=1.0), DiscreteGaussian(sigma=1.0)),
            (Exact(), Geometric(scale=1.0)),
        ],
        [False, True],
        ALTERNATIVES,
        every=2,
    ),
    ids=str,
)
def test_exact_never_exceeds_its_level(trials, laws, is_total, alternative):
    (n, p), (noise, other) = trials, laws
    count, nobs, chances, missing = outcomes(n, p, noise, other, is_total)
    _, pvalues = proportions_ztest(
        count,
        nobs,
        p,
        mechanism=noise,
        nobs_mechanism=other,
        nobs_is_total=is_total,
        alternative=alternative,
    )
    for level in LEVELS:
        assert chances[pvalues <= level].sum() + missing <= level * (1 + 1e-10)


def test_level_holds_where_narrow_noise_leaves_one_number_of_trials():
    # P(noise = 0) is above 1 - β, so that the confidence set is the published number alone
    noise, beta, n, p = Geometric(scale=0.33), 0.1, 1, 0.05
    assert noise.sf(0) < beta / 2 < 1.1 * noise.sf(0)
    count, nobs, chances, missing = outcomes(n, p, Exact(), noise, False)
    for alternative in ALTERNATIVES:
        _, pvalues = proportions_ztest(
            count,
            nobs,
            p,
            mechanism=Exact(),
            nobs_mechanism=noise,
            alternative=alternative,
            nuisance_alpha=beta,
        )
        for level in pvalues:
            assert chances[pvalues <= level + 1e-12].sum() - missing <= level + 1e-10


@pytest.mark.study  # tests/calibration looks at some of these settings at every slow run
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("n", [50, 500, 5000])
@pytest.mark.parametrize("p", [0.5, 0.02])
def test_guaranteed_level_by_simulation(n, p, epsilon):
    runs = 1000
    noise, rng = Geometric.from_epsilon(epsilon), np.random.default_rng(n)
    count = rng.binomial(n, p, runs)
    rest = n - count + noise.rvs(runs, rng=rng)
    count = count + noise.rvs(runs, rng=rng)
    options = {"mechanism": noise, "nobs_mechanism": noise, "nobs_is_total": True}
    _, pvalues = proportions_ztest(count, count + rest, p, **options)
    for level in LEVELS:
        # 6 standard errors: 1e-9
        assert np.mean(pvalues <= level) <= level + 6 * np.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("is_total", [False, True])
def test_plug_in_equals_enumeration(is_total, alternative):
    n, p, noise, other = 11, 0.35, Geometric(scale=1.5), Geometric(scale=0.7)
    x, e1, e2 = np.arange(n + 1), np.arange(-60, 61), np.arange(-40, 41)
    x, e1, e2 = np.meshgrid(x, e1, e2, indexing="ij")
    chance = stats.binom.pmf(x, n, p) * noise.pmf(e1) * other.pmf(e2)
    t = x + e1 - p * (n + e2 + (e1 if is_total else 0))
    for count in (1, 6, 9, 14):
        seen = count - p * n
        extreme = {
            "larger": t >= seen - 1e-9,
            "smaller": t <= seen + 1e-9,
            "two-sided": np.abs(t) >= abs(seen) - 1e-9,
        }[alternative]
        _, pvalue = proportions_ztest(
            count,
            n,
            p,
            mechanism=noise,
            nobs_mechanism=other,
            nobs_is_total=is_total,
            alternative=alternative,
            method="plug-in",
        )
        assert pvalue == pytest.approx(chance[extreme].sum(), rel=1e-11)


def plug_in_tail(t, total, p, noise, other, is_total):
    """The tail that sets the order: normal by its variance, Laplace where noise is geometric."""
    weights = (1 - p if is_total else 1.0), p
    variance = p * (1 - p) * np.maximum(total, 1)
    if noise == other:
        variance = variance + sum(
            w**2 * law.variance for w, law in zip(weights, (noise, other), strict=True)
        )
        return stats.norm.sf(t / np.sqrt(variance))
    (scale,) = (
        w * law.scale
        for w, law in zip(weights, (noise, other), strict=True)
        if isinstance(law, Geometric)
    )
    spread = np.sqrt(variance)
    shape = {"K": scale / spread, "scale": spread}
    return 0.5 * (stats.exponnorm.sf(t, **shape) + stats.exponnorm.cdf(-t, **shape))


@pytest.mark.thinned("noise", "is_total", "alternative", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize(
    ("noise", "other"),
    [
        (DiscreteGaussian(sigma=1.2), DiscreteGaussian(sigma=1.2)),
        (Geometric(scale=1.5), Exact()),
        (Exact(), Geometric(scale=1.5)),
    ],
    ids=repr,
)
def test_exact_is_the_largest_chance_of_such_a_plug_in_tail(noise, other, is_total, alternative):
    beta, p = 1e-3, 0.2716
    law = WeightedSum([1.0, 1.0], (noise, other)) if is_total else other
    if law == Exact():
        return
    reach = law.isf(beta / 2)
    for count, nobs in [(31, 80), (12, 70), (9, 11)]:
        sign = {"larger": 1.0, "smaller": -1.0, "two-sided": np.sign(count - p * nobs)}[alternative]
        found = proportions_ztest(
            count,
            nobs,
            p,
            mechanism=noise,
            nobs_mechanism=other,
            nobs_is_total=is_total,
            alternative=alternative,
            nuisance_alpha=beta,
        )
        assert found.null_distribution.pvalue(found.statistic, alternative) == found.pvalue
        observed = sign * (count - p * nobs)
        level = plug_in_tail(abs(observed), nobs, p, noise, other, is_total)
        largest = 0.0
        for n in range(max(int(np.ceil(nobs - reach)), 0), int(np.floor(nobs + reach)) + 1):
            ours, totals, chances, _ = outcomes(n, p, noise, other, is_total)
            t = ours - p * totals
            t = np.abs(t) if alternative == "two-sided" else sign * t
            tail = plug_in_tail(np.abs(t), totals, p, noise, other, is_total)
            if observed >= 0:
                chosen = (t >= 0) & (tail <= level * (1 + 1e-9))
            else:
                chosen = (t >= 0) | (tail >= level * (1 - 1e-9))
            largest = max(largest, chances[chosen].sum())
        assert found.pvalue == pytest.approx(min(largest + beta, 1.0), abs=1e-9)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=3.0)], ids=repr)
def test_continuous_noise_is_integrated(law):
    """By simulation at every plausible number of pairs that differ."""
    rng = np.random.default_rng(5)
    first, second = mcnemar([24.3, 9.6], mechanism=law), mcnemar([9.6, 24.3], mechanism=law)
    assert first.pvalue == pytest.approx(second.pvalue, rel=1e-10)
    e = law.rvs((2, 200_000), rng=rng)
    largest = 0.0
    for m in range(int(33.9 - 12), int(33.9 + 12) + 1, 3):
        x = rng.binomial(m, 0.5, e.shape[1])
        pair = np.array([x, m - x]) + e
        t, total = 0.5 * np.abs(pair[0] - pair[1]), pair.sum(axis=0)
        if isinstance(law, Gaussian):
            tail = stats.norm.sf(t / np.sqrt(0.25 * np.maximum(total, 1) + 4.5))
            level = stats.norm.sf(7.35 / np.sqrt(0.25 * 33.9 + 4.5))
        else:
            tail, level = (two_laplace(*pair) for pair in ((t, total), (7.35, 33.9)))
        largest = max(largest, np.mean(tail <= level))
    # the standard deviation of a share is 5.5e-4: five of them; chances of 24 are alike
    assert first.pvalue == pytest.approx(largest + 1e-4, abs=3e-3)


def two_laplace(t, total, scale=1.0):
    """P(N + L + L' > t) for two Laplace variables of one scale, by the derivative in it."""
    spread = 0.5 * np.sqrt(np.maximum(total, 1.0))

    def one(b):
        shape = {"K": b / spread, "scale": spread}
        return b * b * 0.5 * (stats.exponnorm.sf(t, **shape) + stats.exponnorm.cdf(-t, **shape))

    return (one(scale * 1.001) - one(scale * 0.999)) / (1.001**2 - 0.999**2) / scale**2


@pytest.mark.parametrize("method", ["exact", "plug-in", "asymptotic"])
def test_known_trials_are_the_limit_of_noisy_ones(method):
    known = {"exact": "exact", "plug-in": "exact", "asymptotic": "asymptotic"}[method]
    for noise in (Geometric(scale=2.0), Laplace(scale=2.0), Exact()):
        for alternative in ALTERNATIVES:
            options = {"mechanism": noise, "alternative": alternative}
            noisy = proportions_ztest(
                34, 100, 0.255, **options, nobs_mechanism=Exact(), method=method
            )
            exact = proportions_ztest(34, 100, 0.255, **options, method=known)
            assert noisy.pvalue == pytest.approx(exact.pvalue, rel=1e-11)
            assert noisy.statistic == pytest.approx(exact.statistic, rel=1e-13)


def test_rows_are_independent_of_each_other_and_keep_labels():
    laws = [Laplace(scale=2.0), Geometric(scale=2.0), Laplace(scale=9.0)]
    count = pd.Series([34.0, 20.0, 30.5], index=list("abc"))
    nobs, value = np.array([100.0, 60.0, 110.0]), np.array([0.25, 0.25, 0.3])
    other = Geometric(scale=2.0)
    for method in ("exact", "plug-in", "monte-carlo", "asymptotic"):
        options = {"method": method, "nobs_mechanism": other, "reps": 2000, "rng": 1}
        together = proportions_ztest(count, nobs, value, mechanism=laws, **options)
        assert list(together.pvalue.index) == list("abc")
        for i, label in enumerate("abc"):
            alone = proportions_ztest(count[label], nobs[i], value[i], mechanism=laws[i], **options)
            error = 6 * (together.mc_error[label] + alone.mc_error)  # beyond 6 se: 1e-9
            assert together.pvalue[label] == pytest.approx(alone.pvalue, rel=1e-10, abs=error)


@pytest.mark.parametrize("law", [Laplace(scale=3.0), Geometric(scale=3.0), Gaussian(sigma=3.0)])
def test_monte_carlo_and_exact_laws_agree(law):
    options = {"mechanism": law, "nobs_mechanism": law, "nobs_is_total": True}
    plug_in = proportions_ztest(34, 100, 0.25, **options, method="plug-in").pvalue
    simulated = proportions_ztest(
        34, 100, 0.25, **options, method="monte-carlo", reps=200_000, rng=7
    )
    # 6 standard errors: 2e-9
    assert abs(simulated.pvalue - plug_in) < 6 * simulated.mc_error
    pickle.loads(pickle.dumps(simulated))
    early = proportions_ztest(
        34, 100, 0.25, **options, method="monte-carlo", reps=10**6, rng=7, precision=0.05
    )
    assert abs(early.pvalue - plug_in) < 6 * early.mc_error


@pytest.mark.parametrize(
    "law",
    [Geometric(scale=3e3), pytest.param(DiscreteGaussian(sigma=1e4), marks=pytest.mark.slow)],
    ids=repr,
)
def test_mcnemar_with_noise_much_wider_than_the_counts(law):
    first, second = 4000, -2500
    total = WeightedSum([1.0, 1.0], law)
    noise = WeightedSum([0.5, 0.5], law)
    reach = float(total.isf(0.5e-4))
    best = 0.0
    for m in np.unique(np.rint(np.linspace(0.0, first + second + reach, 25))):
        k = np.arange(*stats.binom.ppf([1e-13, 1.0 - 1e-13], m, 0.5), 1.0)
        k = np.append(k, k[-1] + 1.0) if k.size else np.zeros(1)
        tail = noise.cdf(k - 0.5 * m - 0.5 * (first - second))
        best = max(best, float(stats.binom.pmf(k, m, 0.5) @ tail))
    got = float(mcnemar((first, second), mechanism=law, alternative="larger").pvalue)
    # never below the p-value at any number of pairs, which changes little from one to the next
    assert best + 1e-4 - 1e-10 <= got <= best + 1e-4 + 1e-6


@pytest.mark.parametrize(
    "call",
    [
        lambda: mcnemar((12, 5), mechanism=Geometric(scale=1e10)),
        lambda: mcnemar((12, 5), mechanism=(Geometric(scale=1e6), Geometric(scale=2.0))),
        lambda: proportions_ztest(
            3e11, 10**12, 0.3, mechanism=Laplace(scale=1e3), nobs_mechanism=Laplace(scale=2.0)
        ),
    ],
)
def test_too_much_work_is_refused_at_once(call):
    with pytest.raises(InvalidParameterError, match="use method='plug-in' or method='asymptotic'"):
        call()


def test_sums_over_too_many_counts_are_refused_at_once():
    count, summed = 3e11 + np.arange(20.0), WeightedSum([1.0, 1.0], Laplace(scale=2.0))
    with pytest.raises(
        InvalidParameterError, match="Use method='monte-carlo' or method='asymptotic'"
    ):
        proportions_ztest(count, 10**12, 0.3, mechanism=summed)


class TestRates:
    @pytest.mark.parametrize("alternative", ["larger", "smaller"])
    def test_one_rate_is_the_exact_test_of_statsmodels(self, alternative):
        for count in (0, 11, 20, 31):
            expected = rates.test_poisson(
                count, 12.5, value=1.6, method="exact-c", alternative=alternative
            ).pvalue
            got = poisson_ztest(count, 12.5, 1.6, mechanism=Exact(), alternative=alternative)
            assert got.pvalue == pytest.approx(expected, rel=1e-11)

    @pytest.mark.parametrize("alternative", ALTERNATIVES)
    def test_one_rate_equals_enumeration(self, alternative):
        noise, rate = Geometric(scale=2.0), 6.5
        k, e = np.meshgrid(np.arange(80), np.arange(-90, 91), indexing="ij")
        chance = stats.poisson.pmf(k, rate) * noise.pmf(e)
        for count in (-4, 2, 9, 20):
            extreme = {
                "larger": k + e >= count,
                "smaller": k + e <= count,
                "two-sided": np.abs(k + e - rate) >= abs(count - rate),
            }[alternative]
            for method, rel in (("exact", 1e-11), ("monte-carlo", 0.2)):
                got = poisson_ztest(
                    count,
                    1.0,
                    rate,
                    mechanism=noise,
                    alternative=alternative,
                    method=method,
                    rng=1,
                    reps=200_000,
                )
                # relative error of the simulation at most 0.04 where p >= 0.003
                assert got.pvalue == pytest.approx(chance[extreme].sum(), rel=rel)

    @pytest.mark.parametrize("alternative", ALTERNATIVES)
    @pytest.mark.parametrize("method", ["exact", "plug-in"])
    def test_two_rates_without_noise_are_the_conditional_test(self, alternative, method):
        arguments = (60, 51_477.5, 30, 54_308.7)
        got = poisson_2indep(
            *arguments, mechanism=Exact(), alternative=alternative, method=method
        ).pvalue
        if alternative == "two-sided":
            n, w = 90, arguments[1] / (arguments[1] + arguments[3])
            k = np.arange(n + 1)
            extreme = np.abs(k - n * w) >= abs(60 - n * w) - 1e-9
            expected = stats.binom.pmf(k, n, w)[extreme].sum()
        else:
            expected = rates.test_poisson_2indep(
                *arguments, method="exact-cond", alternative=alternative
            ).pvalue
        assert got == pytest.approx(expected, rel=1e-10)

    def test_two_rates_asymptotic_is_the_score_test_of_statsmodels(self):
        got = poisson_2indep(60, 51_477.5, 30, 54_308.7, mechanism=Exact(), method="asymptotic")
        theirs = rates.test_poisson_2indep(60, 51_477.5, 30, 54_308.7, method="score")
        assert got.pvalue == pytest.approx(theirs.pvalue, rel=1e-10)
        assert got.statistic == pytest.approx(theirs.statistic, rel=1e-10)

    def test_swapping_the_groups_inverts_the_ratio(self):
        law1, law2 = Laplace(scale=2.0), Laplace(scale=5.0)
        one = poisson_2indep(
            60.3, 3.0, 29.8, 2.5, mechanism=(law1, law2), value=1.5, alternative="larger"
        )
        two = poisson_2indep(
            29.8, 2.5, 60.3, 3.0, mechanism=(law2, law1), value=1 / 1.5, alternative="smaller"
        )
        assert one.pvalue == pytest.approx(two.pvalue, rel=1e-9)
        assert one.statistic == pytest.approx(-two.statistic, rel=1e-12)

    @pytest.mark.parametrize("rate", [0.5, 4.0, pytest.param(12.0, marks=pytest.mark.slow)])
    def test_two_rates_never_exceed_their_level(self, rate):
        noise = Geometric(scale=0.7)
        top = int(stats.poisson.isf(1e-11, 2 * rate))
        k1, k2 = np.arange(-12, top + 13), np.arange(-12, top + 13)
        published = [
            np.convolve(stats.poisson.pmf(np.arange(top + 1), mean), noise.pmf(np.arange(-12, 13)))
            for mean in (rate, 2 * rate)
        ]
        chances = np.outer(*published).ravel()
        count1, count2 = (axis.ravel() for axis in np.meshgrid(k1, k2, indexing="ij"))
        matter = chances > 1e-10
        _, pvalues = poisson_2indep(count1[matter], 1.0, count2[matter], 2.0, mechanism=noise)
        missing = 1.0 - chances[matter].sum()
        for level in LEVELS:
            assert chances[matter][pvalues <= level].sum() + missing <= level * (1 + 1e-10)


class TestMcNemar:
    TABLE = ((101, 121), (59, 33))

    def test_without_noise_is_the_exact_test_of_statsmodels(self):
        expected = contingency_tables.mcnemar(self.TABLE, exact=True).pvalue
        for noise in (Exact(), Geometric(scale=1e-3)):
            got = mcnemar(self.TABLE, mechanism=noise, method="plug-in").pvalue
            assert got == pytest.approx(expected, rel=1e-9)
        assert mcnemar(self.TABLE, mechanism=Exact()).pvalue == pytest.approx(expected, rel=1e-10)

    def test_asymptotic_is_the_square_root_of_the_chi_squared_test(self):
        theirs = contingency_tables.mcnemar(self.TABLE, exact=False, correction=False)
        got = mcnemar(self.TABLE, mechanism=Exact(), method="asymptotic")
        assert got.statistic**2 == pytest.approx(theirs.statistic, rel=1e-12)
        assert got.pvalue == pytest.approx(theirs.pvalue, rel=1e-10)

    def test_only_the_pairs_that_differ_matter(self):
        noise = Geometric(scale=2.0)
        pair = mcnemar((121, 59), mechanism=noise)
        table = mcnemar(pd.DataFrame(self.TABLE), mechanism=noise)
        turned = mcnemar((59, 121), mechanism=noise, alternative="two-sided")
        assert pair.pvalue == table.pvalue == pytest.approx(turned.pvalue, rel=1e-11)
        assert pair.statistic == -turned.statistic

    def test_two_laws(self):
        laws = (Laplace(scale=1.0), Gaussian(sigma=9.0))
        forth = mcnemar((50.0, 30.0), mechanism=laws, alternative="larger")
        back = mcnemar((30.0, 50.0), mechanism=laws[::-1], alternative="smaller")
        assert forth.pvalue == pytest.approx(back.pvalue, rel=1e-9)


def test_randomized_response_tests_the_reports():
    channel = RandomizedResponse(p=0.75)
    for alternative in ("larger", "smaller"):
        got = proportions_ztest(61, 200, 0.25, mechanism=channel, alternative=alternative).pvalue
        theirs = stats.binomtest(
            61, 200, 0.75 * 0.25 + 0.25 * 0.75, alternative=THEIRS[alternative]
        )
        assert got == pytest.approx(theirs.pvalue, rel=1e-11)


GOOD = {
    "count": 34,
    "nobs": 100,
    "value": 0.25,
    "mechanism": Geometric(scale=2.0),
    "nobs_mechanism": Geometric(scale=2.0),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nobs": 100.5}, "nobs must hold whole numbers where the noise"),
        ({"nobs": 1e13}, "nobs must be <= 1e"),
        ({"nobs": np.nan}, "nobs must not contain NaN"),
        ({"nobs": [1, 2], "count": [1, 2, 3]}, "one length"),
        ({"nobs_mechanism": 3.0}, "nobs_mechanism must be a noise law"),
        ({"nobs_mechanism": None, "nobs_is_total": True}, "nobs_mechanism must be given"),
        ({"nobs_is_total": 1}, "nobs_is_total must be True or False"),
        ({"nuisance_alpha": 0}, "nuisance_alpha must be > 0"),
        ({"nuisance_alpha": 0.7}, "nuisance_alpha must be < 0.5"),
        ({"method": "normal"}, "the limit is 'asymptotic'"),
        ({"nobs_mechanism": None, "method": "plug-in"}, "method must be one of"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"precision": 2}, "precision must be <= 1"),
        ({"mechanism": RandomizedResponse(p=0.6), "count": 134}, "count must be at most nobs"),
        (
            {"nobs": 1e12, "nobs_mechanism": Geometric(scale=1e9), "method": "exact"},
            "too large for the exact test",
        ),
    ],
)
def test_bad_arguments_say_what_is_wrong(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        proportions_ztest(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: poisson_ztest(3, 0, 1, mechanism=Exact()), "exposure must be > 0"),
        (lambda: poisson_ztest(3, 1, -1, mechanism=Exact()), "value must be > 0"),
        (lambda: poisson_ztest(3, 1e200, 1e200, mechanism=Exact()), "exposure . value must be"),
        (lambda: poisson_2indep(3, 1, 4, 0, mechanism=Exact()), "exposure2 must be > 0"),
        (lambda: poisson_2indep(3.5, 1, 4, 1, mechanism=Exact()), "count1 must hold whole"),
        (lambda: poisson_2indep(3, 1, 4.5, 1, mechanism=Exact()), "count2 must hold whole"),
        (lambda: poisson_2indep(3, 1, 4, 1, mechanism=(Exact(),) * 3), "or a pair, got 3"),
        (lambda: mcnemar([1, 2, 3], mechanism=Exact()), "table must have the shape"),
        (lambda: mcnemar([1.5, 2], mechanism=Exact()), "table must hold whole numbers"),
        (lambda: mcnemar([1, np.nan], mechanism=Exact()), "table must not contain NaN"),
    ],
)
def test_bad_arguments_of_the_others(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


anything = st.one_of(
    st.none(),
    st.text(max_size=2),
    st.complex_numbers(),
    st.floats(),
    st.integers(-100, 1000),
    st.lists(st.one_of(st.floats(-50, 200), st.integers(-5, 200), st.none()), max_size=3),
)
LAWS = st.sampled_from([Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=3.0), Exact()])
METHODS = st.sampled_from(["exact", "plug-in", "monte-carlo", "asymptotic"])


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    a=anything, b=anything, c=anything, d=anything, law=LAWS, method=METHODS, is_total=st.booleans()
)
def test_only_our_own_errors_escape(a, b, c, d, law, method, is_total):
    options = {"method": method, "reps": 50, "rng": 1}
    calls = [
        lambda: proportions_ztest(
            a, b, 0.3, mechanism=law, nobs_mechanism=law, nobs_is_total=is_total, **options
        ),
        lambda: poisson_2indep(a, 1.0, b, 2.0, mechanism=law, **options),
        lambda: poisson_2indep(a, c, b, d, mechanism=law, **options),
        lambda: poisson_ztest(a, b, c, mechanism=law, **options),
        lambda: mcnemar(a, mechanism=law, **options),
    ]
    for call in calls:
        try:
            statistic, pvalue = call()
        except DPInferError:
            continue
        assert np.isfinite(statistic).all()
        assert ((pvalue >= 0) & (pvalue <= 1)).all()
