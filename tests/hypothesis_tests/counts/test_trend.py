"""Trends: enumeration of multinomial tables and noise, statsmodels, level, fuzzing."""

import itertools
import pickle
from functools import partial
from math import factorial, prod

import numpy as np
import pandas as pd
import pytest
from crossed import in_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats.contingency_tables import Table

from dpinfer import combine, noisy
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import counts_trend, proportions_trend
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
    WeightedSum,
)

ALTERNATIVES = ["two-sided", "larger", "smaller"]
REACH = 45


def tables(nobs, shares):
    """All tables of so many observations, and their probabilities."""
    k = len(shares)
    for head in itertools.product(range(nobs + 1), repeat=k - 1):
        if sum(head) <= nobs:
            cells = (*head, nobs - sum(head))
            ways = factorial(nobs) / prod(factorial(c) for c in cells)
            yield cells, ways * prod(p**c for p, c in zip(shares, cells, strict=True))


def noisy_law(nobs, shares, weights, scale):
    """Law of Σ wᵢ(Xᵢ + eᵢ), whole weights, geometric noise: a table of values and chances."""
    noise = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / scale)
    noise /= noise.sum()
    chances = np.ones(1)
    for weight in weights:
        spread = np.zeros(2 * REACH * abs(weight) + 1)
        spread[:: max(abs(weight), 1)] += noise if weight else 0.0
        chances = np.convolve(chances, spread if weight else np.ones(1))
    centre = chances.size // 2
    law = {}
    for cells, chance in tables(nobs, shares):
        shift = int(np.dot(weights, cells))
        law[shift] = law.get(shift, 0.0) + chance
    low, high = min(law), max(law)
    total = np.zeros(chances.size + high - low)
    for shift, chance in law.items():
        total[shift - low : shift - low + chances.size] += chance * chances
    return np.arange(total.size) - centre + low, total


def enumerated(deviations, chances, t, alternative):
    tiny = 1e-9
    chosen = {
        "two-sided": abs(deviations) >= abs(t) - tiny,
        "larger": deviations >= t - tiny,
        "smaller": deviations <= t + tiny,
    }
    return chances[chosen[alternative]].sum()


# scores whose mean weighted by the variance of the noise is 0, so that they are not shifted
CASES = [
    (4, [1 / 3, 1 / 3, 1 / 3], [-1, 0, 1]),
    (5, [0.2, 0.5, 0.3], [-1, 0, 1]),
    (3, [0.1, 0.2, 0.3, 0.4], [-3, -1, 1, 3]),
    (1, [0.5, 0.5], [-1, 1]),
]


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("nobs", "shares", "scores"), CASES)
def test_counts_enumerated(alternative, nobs, shares, scores):
    values, chances = noisy_law(nobs, shares, scores, 1.0)
    deviations = values - nobs * np.dot(shares, scores)
    for first, last in [(0, 0), (-2, 3), (4, 1), (1, 1), (-6, 6)]:
        count = np.zeros(len(shares))
        count[0], count[-1] = first, last
        t = np.dot(scores, count) - nobs * np.dot(shares, scores)
        result = counts_trend(
            count,
            nobs,
            scores,
            mechanism=Geometric(scale=1.0),
            shares=shares,
            alternative=alternative,
        )
        assert result.method == "exact"
        expected = enumerated(deviations, chances, t, alternative)
        assert result.pvalue == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("case", "alternative"), in_turn(CASES, ALTERNATIVES))
def test_level_of_counts_is_exact(case, alternative):
    nobs, shares, scores = case
    values, chances = noisy_law(nobs, shares, scores, 1.0)
    keep = chances > 1e-12
    noise, k = Geometric(scale=1.0), len(shares)
    pvalue = np.empty(keep.sum())
    for row, value in enumerate(values[keep]):
        # any table with this sum of scores: the statistic depends on nothing else
        count = np.zeros(k)
        count[k // 2 :] = 0
        if scores == [-3, -1, 1, 3]:
            count[1] = -value
        elif scores == [-1, 1]:
            count[1] = value
        else:
            count[2] = value
        result = counts_trend(
            count, nobs, scores, mechanism=noise, shares=shares, alternative=alternative
        )
        pvalue[row] = result.pvalue
    for alpha in (0.01, 0.05, 0.1, 0.3):
        assert chances[keep][pvalue <= alpha].sum() <= alpha + 1e-11


@pytest.mark.thinned("noise", "alternative", every=3)
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Gaussian(sigma=3.0), Geometric(scale=2.0)])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_counts_against_plain_simulation(noise, alternative):
    reps, shares = 200_000, np.array([0.2, 0.3, 0.5])
    scores, nobs, count = np.array([0.0, 1.0, 3.0]), 40, np.array([5, 12, 25])
    rng = np.random.default_rng(8)
    draws = rng.multinomial(nobs, shares, reps) + noise.rvs((reps, 3), rng=rng)
    # the scores are centred first: their mean over the noise's variance is 4/3
    sums = (draws - nobs * shares) @ (scores - 4 / 3)
    t = (count - nobs * shares) @ (scores - 4 / 3)
    result = counts_trend(
        count, nobs, scores, mechanism=noise, shares=shares, alternative=alternative
    )
    p = float(result.pvalue)
    share = enumerated(sums, np.full(reps, 1 / reps), t, alternative)
    # within 6 standard errors: fails by accident with chance 2e-9
    assert abs(share - p) <= 6 * np.sqrt(p * (1 - p) / reps)


def test_scores_can_be_shifted_and_scaled():
    count, noise = [18, 25, 33, 41], Geometric(scale=3.0)
    plain = counts_trend(count, 120, mechanism=noise)
    tenths = counts_trend(count, 120, [5.1, 5.2, 5.3, 5.4], mechanism=noise)
    assert tenths.method == "exact"
    assert tenths.pvalue == pytest.approx(float(plain.pvalue), abs=1e-11)
    down = counts_trend(count, 120, [3, 2, 1, 0], mechanism=noise, alternative="smaller")
    up = counts_trend(count, 120, mechanism=noise, alternative="larger")
    assert down.pvalue == pytest.approx(float(up.pvalue), abs=1e-12)


def test_scores_far_from_zero_keep_their_spacing():
    near, far = (
        counts_trend([18, 25, 33], 76, scores, mechanism=Geometric(scale=3.0))
        for scores in ([0, 1, 2], [1900, 1901, 1902])
    )
    # the same scores after the shift, to the last bit
    assert far.pvalue == near.pvalue
    assert far.null_distribution.pvalue(np.inf) == 0.0


@pytest.mark.thinned("alternative", "nobs", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("nobs", "scale"), [(12, 3.0), (76, 0.5)])
def test_scores_with_few_sums_far_apart(nobs, scale, alternative):
    scores, count = np.array([-1.0, -5.0, -1000.0]), np.array([nobs // 2, nobs // 4, nobs // 4])
    centred = scores - scores.mean()
    cells = [(a, b, nobs - a - b) for a in range(nobs + 1) for b in range(nobs + 1 - a)]
    sums = np.array(cells) @ centred
    chances = stats.multinomial.pmf(cells, nobs, np.full(3, 1 / 3))
    t, law = count @ centred, WeightedSum(centred, Geometric(scale=scale))
    larger, smaller = chances @ law.cdf(sums - t), chances @ law.cdf(t - sums)
    size = abs(t)
    both = chances @ law.cdf(sums - size) + chances @ law.cdf(-size - sums)
    expected = {"larger": larger, "smaller": smaller, "two-sided": min(both, 1.0)}[alternative]
    result = counts_trend(
        count, nobs, scores, mechanism=Geometric(scale=scale), alternative=alternative
    )
    assert result.method == "exact"
    assert result.pvalue == pytest.approx(expected, abs=1e-11)


@pytest.mark.thinned("alternative", "nobs", every=2)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    ("nobs", "scores"),
    [(300, [0, 1, 7]), (60, [0, 1, 2, 5]), (40, [3, 0, 1]), (600, [0, 1, 7]), (100, [0, 1, 2, 5])],
)
def test_without_noise_it_is_a_sum_over_all_tables(nobs, scores, alternative):
    """The tables of the last two are so many that the law comes from a Fourier transform."""
    k = len(scores)
    share = np.arange(1.0, k + 1.0) / (k * (k + 1) / 2)
    cells = np.moveaxis(np.indices((nobs + 1,) * (k - 1)), 0, -1).reshape(-1, k - 1)
    cells = cells[cells.sum(axis=1) <= nobs]
    cells = np.column_stack([cells, nobs - cells.sum(axis=1)])
    assert (len(cells) > 1 << 17) == (nobs in (600, 100))
    chances = stats.multinomial.pmf(cells, nobs, share)
    sums = (cells - nobs * share) @ np.array(scores)
    spread = np.sqrt(nobs * (share @ np.square(scores) - (share @ scores) ** 2))
    for z in (-7.0, -2.5, -0.7, 0.0, 1.1, 3.0, 6.0):
        count = cells[np.argmin(np.abs(sums - z * spread))]
        t = (count - nobs * share) @ np.array(scores)
        found = counts_trend(
            count, nobs, scores, mechanism=Exact(), shares=share, alternative=alternative
        )
        assert found.method == "exact"
        expected = enumerated(sums, chances, t, alternative)
        assert found.pvalue == pytest.approx(min(expected, 1.0), rel=1e-9, abs=1e-18)


def test_too_much_work_is_refused_or_simulated():
    count, scores = [30_000, 40_000, 30_000], [0.0, 1.0, 1000.0]
    noise = [Geometric(scale=3.0), Laplace(scale=2.0), DiscreteGaussian(sigma=4.0)]
    assert counts_trend(count, 100_000, scores, mechanism=noise, rng=1).method == "monte-carlo"
    with pytest.raises(InvalidParameterError, match="which would take some"):
        counts_trend(count, 100_000, scores, mechanism=noise, method="exact")


def test_no_common_spacing():
    scores, noise = [0.0, 1.0, np.sqrt(2.0), np.pi], Laplace(scale=2.0)
    result = counts_trend([18, 25, 33, 41], 120, scores, mechanism=noise, rng=1)
    assert result.method == "monte-carlo"
    normal = counts_trend([18, 25, 33, 41], 120, scores, mechanism=noise, method="asymptotic")
    assert abs(float(result.pvalue) - float(normal.pvalue)) < 0.02
    with pytest.raises(InvalidParameterError, match="spacing"):
        counts_trend([18, 25, 33, 41], 120, scores, mechanism=noise, method="exact")


def test_a_million_observations():
    n, noise = 1_000_000, Geometric(scale=10.0)
    count = [249_000, 249_700, 250_300, 251_000]
    exact = counts_trend(count, n, mechanism=noise)
    assert exact.method == "exact"
    normal = counts_trend(count, n, mechanism=noise, method="asymptotic")
    assert exact.pvalue == pytest.approx(float(normal.pvalue), rel=1e-2)
    # without noise and with two cells it is a binomial tail
    half = counts_trend([499_000, 501_000], n, mechanism=Exact(), alternative="larger")
    assert half.pvalue == pytest.approx(stats.binom.sf(500_999, n, 0.5), abs=1e-11)


GROUPS, TRIALS = np.array([11, 19, 30, 34]), np.array([100, 90, 110, 100])


def test_without_noise_it_is_cochran_armitage():
    result = proportions_trend(GROUPS, TRIALS, mechanism=Exact(), method="asymptotic")
    found = Table(np.column_stack([TRIALS - GROUPS, GROUPS])).test_ordinal_association(
        row_scores=np.arange(4), col_scores=np.array([0, 1])
    )
    # statsmodels has the variance with N - 1 for N
    total = TRIALS.sum()
    assert result.statistic == pytest.approx(found.zscore * np.sqrt(total / (total - 1)), rel=1e-10)
    p = GROUPS.sum() / total
    centred = np.arange(4) - TRIALS @ np.arange(4) / total
    z = GROUPS @ centred / np.sqrt(p * (1 - p) * (TRIALS @ centred**2))
    assert result.statistic == pytest.approx(z, rel=1e-12)
    assert result.pvalue == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-12)


def test_proportions_simulated_at_the_estimate():
    noise, reps = Geometric(scale=3.0), 200_000
    result = proportions_trend(GROUPS, TRIALS, mechanism=noise, reps=reps, rng=1)
    rng = np.random.default_rng(2)
    share, total = GROUPS.sum() / TRIALS.sum(), TRIALS.sum()
    counts = rng.binomial(TRIALS, share, (reps, 4)) + noise.rvs((reps, 4), rng=rng)
    centred = np.arange(4) - TRIALS @ np.arange(4) / total
    p = np.clip(counts.sum(axis=1), 0.5, total - 0.5) / total
    spread = np.sqrt(p * (1 - p) * (TRIALS @ centred**2) + noise.variance * (centred @ centred))
    share = np.mean(np.abs(counts @ centred / spread) >= abs(float(result.statistic)))
    # two simulations, 6 standard errors of their difference, 5/R for rare counts: chance < 1e-8
    error = np.sqrt(2 * share * (1 - share) / reps)
    assert abs(float(result.pvalue) - share) <= 6 * error + 5 / reps


def test_nothing_random():
    result = proportions_trend([0, 0, 0], [10, 10, 10], mechanism=Exact(), rng=1)
    assert result.statistic == 0
    assert result.pvalue == 1


@pytest.mark.thinned("alternative", "method", every=3)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", ["exact", "monte-carlo", "asymptotic"])
def test_null_distribution_gives_the_pvalue(alternative, method):
    keywords = {"mechanism": DiscreteGaussian(sigma=2.0), "alternative": alternative, "rng": 1}
    results = [counts_trend([18, 25, 33, 41], 120, method=method, **keywords)]
    if method != "exact":
        results.append(proportions_trend(GROUPS, TRIALS, method=method, **keywords))
    for result in results:
        for one in (result, pickle.loads(pickle.dumps(result))):
            found = one.null_distribution.pvalue(one.statistic, alternative)
            assert found == pytest.approx(float(result.pvalue), abs=1e-13)


def test_labels():
    count = pd.Series([18.0, 25.0, 33.0], index=list("abc"))
    scores, noise = pd.Series([0.0, 1.0, 2.0], index=list("abc")), Laplace(scale=2.0)
    assert counts_trend(count, 80, scores, mechanism=noise).pvalue < 1
    trials = pd.Series([50, 50, 50], index=list("abc"))
    for wrong in (scores[::-1], scores.rename({"a": "z"})):
        with pytest.raises(InvalidParameterError, match="labels"):
            counts_trend(count, 80, wrong, mechanism=noise)
        with pytest.raises(InvalidParameterError, match="labels"):
            proportions_trend(count, trials, wrong, mechanism=noise, method="asymptotic")
    with pytest.raises(InvalidParameterError, match="labels"):
        proportions_trend(count, trials[::-1], mechanism=noise, method="asymptotic")


def simulated_level(nobs, epsilon, share, studies, reps, seed, alpha=0.05):
    """Share of rejections of proportions_trend at a true common proportion."""
    rng, noise = np.random.default_rng(seed), Geometric(scale=1.0 / epsilon)
    trials = np.full(4, nobs)
    rejected = 0
    for _ in range(studies):
        count = rng.binomial(trials, share) + noise.rvs(4, rng=rng)
        result = proportions_trend(count, trials, mechanism=noise, reps=reps, rng=rng)
        rejected += bool(result.pvalue <= alpha)
    return rejected / studies


def test_level_of_proportions():
    level = simulated_level(500, 1.0, 0.3, studies=100, reps=199, seed=11)
    # a share of 0.22: what is seen is a level of a third, of a wrong scale or tail
    assert 100 * level <= stats.binom.isf(1e-8, 100, 0.05)


@pytest.mark.study  # tests/calibration looks at some of these settings at every slow run
@pytest.mark.parametrize("nobs", [50, 500, 5000])
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0])
def test_level_of_proportions_over_sizes(nobs, epsilon):
    level = simulated_level(nobs, epsilon, 0.1, studies=4000, reps=199, seed=12)
    # 6 standard errors above 0.05: chance 2e-9 where the level holds
    assert level <= 0.05 + 6 * np.sqrt(0.05 * 0.95 / 4000)


ODD = st.sampled_from(
    [
        None, True, "a", "", {}, [], [[]], [1], [1, 2], [1.5, 2], [1, 2, 3], [[1, 2], [3, 4]],
        float("nan"), float("inf"), [1, float("nan")], [1, float("-inf")], 1e300, [1e300, 1],
        0, 5, 1j, [None, 1], ["a", "b"], object(), [1e100, -1e100], [0, 0], [-5, 1], [1e-300, 1],
        [1e50, 1e49],
    ]
)  # fmt: skip
WORDS = st.sampled_from(["exact", "asymptotic", "two-sided", "larger", "z", None, [], {}, 1, True])
NOISES = st.sampled_from([Laplace(scale=2.0), Geometric(scale=2.0), Exact()])


@settings(derandomize=True, deadline=None, max_examples=50)
@given(ODD, ODD, ODD, ODD, NOISES, WORDS, WORDS)
def test_only_own_errors_escape(count, nobs, scores, shares, noise, alternative, method):
    calls = []
    for words in ({}, {"alternative": alternative}, {"method": method}):
        few = {"mechanism": noise, "reps": 99, "rng": 1, **words}
        calls += [
            (counts_trend, (count, nobs, scores), {"shares": shares, **few}),
            (counts_trend, ([3, 4], 9, scores), {"shares": shares, **few}),
            (counts_trend, (count, 9), few),
            (proportions_trend, (count, nobs, scores), few),
            (proportions_trend, (count, [5, 7]), few),
            (proportions_trend, ([3, 4], [5, 7], scores), few),
        ]
    for test, arguments, keywords in calls:
        try:
            result = test(*arguments, **keywords)
        except DPInferError:
            continue
        assert np.isfinite(result.statistic)
        assert 0 <= result.pvalue <= 1


@pytest.mark.parametrize("law", [Laplace(scale=1.0), Laplace(scale=40.0), Gaussian(sigma=30.0)])
@pytest.mark.parametrize("alternative", ["larger", "smaller"])
def test_far_tails_of_transformed_laws_are_accurate(law, alternative):
    """Two cells are binomial: n = 200,000 has too many tables to list, but not for logarithms."""
    n, share = 200_000, 0.3
    k = np.arange(n * share - 6_000.0, n * share + 6_001.0)  # beyond, less than e^-100 of all
    log_pmf = stats.binom.logpmf(k, n, share)
    pair = WeightedSum([0.5, -0.5], law)  # scores are shifted to -1/2 and 1/2
    for excess in (500, 2_000, 5_000):
        sign = 1 if alternative == "larger" else -1
        second = np.rint(n * share + sign * excess)
        found = counts_trend(
            [n - second, second],
            n,
            mechanism=law,
            shares=[1 - share, share],
            alternative=alternative,
        )
        assert found.method == "exact"
        expected = special.logsumexp(log_pmf + pair.logcdf(sign * (k - second)))
        assert np.log(found.pvalue) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if excess == 5_000 and law != Laplace(scale=40.0):
            assert found.pvalue < 1e-100


def test_a_pvalue_at_the_error_of_the_noise_is_a_bound():
    found = counts_trend([9400, 10000, 10600], 30000, mechanism=Laplace(scale=1.0))
    assert found.pvalue == pytest.approx(2.145142413306798e-17, rel=1e-10)  # by a sum of logarithms
    assert found.pvalue_error == 0.0
    mixed = [Tulap(scale=2.0), Laplace(scale=2.0), Gaussian(sigma=2.0)]
    bounded = counts_trend([9000, 10000, 11000], 30000, mechanism=mixed)
    assert 0.0 < bounded.pvalue == bounded.pvalue_error < 1e-11
    assert "pvalue < " in repr(bounded)


COMBINED = np.array([[1.0, 0, 0, 0.4], [0, 1.0, 0, 0.4], [0, 0, 1.0, 0.4], [0, 0, 0.2, 1.0]])


class TestDependentErrors:
    """Errors that share noises, as those of a combined estimate do."""

    laws = IndependentNoise([Geometric(scale=3.0), *[Laplace(scale=2.0)] * 2, Gaussian(sigma=4.0)])
    x = noisy([18.3, 25.1, 33.7, 41.9], mechanism=laws, weights=COMBINED)

    @pytest.mark.parametrize("scores", [None, [0, 1, 3, 4]])
    def test_exact_and_simulated_law_agree(self, scores):
        exact = counts_trend(self.x, 120, scores)
        drawn = counts_trend(self.x, 120, scores, method="monte-carlo", reps=100_000, rng=1)
        assert exact.method == "exact"
        assert exact.statistic == pytest.approx(drawn.statistic, rel=1e-12)
        # 6 standard errors: 2e-9
        assert abs(exact.pvalue - drawn.pvalue) < 6 * drawn.mc_error

    def test_the_shift_makes_the_variance_of_the_noise_least(self):
        limit = counts_trend(self.x, 120, method="asymptotic")
        covariance, scores = self.x.cov(), np.arange(4.0)
        shift = scores @ covariance.sum(axis=1) / covariance.sum()
        best = scores - shift
        spread = np.sqrt(120 * 1.25)
        assert limit.statistic == pytest.approx(best @ (self.x.values - 30) / spread, rel=1e-12)
        scale = np.sqrt(1 + best @ covariance @ best / spread**2)
        pvalue = 2 * stats.norm.sf(abs(limit.statistic) / scale)
        assert limit.pvalue == pytest.approx(pvalue, rel=1e-9)

    def test_groups_need_independent_errors(self):
        with pytest.raises(InvalidParameterError, match="needs independent errors"):
            proportions_trend(self.x, [100] * 4)


def test_selected_counts_are_refused():
    x = noisy([18.5, 25.0, 33.0], mechanism=Laplace(scale=2.0), threshold=10)
    for call in (partial(counts_trend, nobs=80), partial(proportions_trend, nobs=[90] * 3)):
        with pytest.raises(InvalidParameterError, match="does not take values that were selected"):
            call(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: counts_trend([18, 25, 33], 120, mechanism=Exact()), "count must add up to nobs"),
        (lambda: counts_trend(cells_of_known_total(), 121), "must add up to nobs"),
        (
            lambda: counts_trend([8, 5, 3], 16, shares=[1, 1e-120, 1e-300], mechanism=LAW),
            "shares must not be so unequal",
        ),
        (
            lambda: counts_trend([8, 5, 3], 16, [0, 1e-300, 2e-300], mechanism=LAW),
            "scores must differ, by more than 1e-50",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


LAW = Geometric(scale=2.0)


def cells_of_known_total():
    """Estimates of three cells whose published total 120 has no noise."""
    workload = np.vstack([np.eye(3), np.ones(3)])
    return combine(
        np.array([35.0, 41, 46, 120]),
        workload=workload,
        mechanism=[LAW, LAW, LAW, Exact()],
        target=np.eye(3),
    )


def test_cells_of_a_known_total_are_tested():
    x = cells_of_known_total()
    exact = counts_trend(x, 120)
    drawn = counts_trend(x, 120, method="monte-carlo", reps=20_000, rng=1)
    assert exact.method == "exact"
    assert abs(exact.pvalue - drawn.pvalue) < 6 * drawn.mc_error  # by chance in 2e-9


def test_a_cell_that_holds_nearly_all():
    found = counts_trend([74, 0, 2], 76, shares=[1, 1e-40, 1e-90], mechanism=LAW)
    # nothing but noise: scores -1, 0, 1
    both = 2 * WeightedSum([-1.0, 1.0], LAW).sf(3.0)  # P(>= 4)
    assert found.pvalue == pytest.approx(both, rel=1e-9)
