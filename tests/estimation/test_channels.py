"""Estimates from reports through any channel, against enumeration and other routes."""

from itertools import product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation import response_counts, response_proportions
from dpinfer.hypothesis_tests import proportions_ztest
from dpinfer.mechanisms import Channel, RandomizedResponse, UnaryEncoding

MATRIX = np.array([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
CHANNEL = Channel(MATRIX)
REPORTS = [230, 310, 230, 230]  # expected from shares .2, .3, .5


def compositions(n, cells):
    """Return all ways in which n fall into so many cells."""
    return [c for c in product(range(n + 1), repeat=cells) if sum(c) == n]


def multinomial(counts, p):
    """Return the probability of counts."""
    ways = factorial(sum(counts)) / np.prod([factorial(c) for c in counts])
    return ways * np.prod(np.asarray(p) ** counts)


def reports_law(truth, matrix):
    """Return the law of the reports of respondents with fixed true counts."""
    law = {(0,) * matrix.shape[1]: 1.0}
    for i, count in enumerate(truth):
        for _ in range(count):
            after = {}
            for seen, chance in law.items():
                for j, p in enumerate(matrix[i]):
                    more = (*seen[:j], seen[j] + 1, *seen[j + 1 :])
                    after[more] = after.get(more, 0.0) + chance * p
            law = after
    return law


@pytest.mark.parametrize(
    ("method", "uncertainty", "bse"),
    [
        ("plain", "noise+sampling", [0.0337087, 0.0542975, 0.0367163]),
        ("weighted", "noise+sampling", [0.0336971, 0.0542052, 0.0366994]),
        ("likelihood", "noise+sampling", [0.0336971, 0.0542052, 0.0366994]),
        ("weighted", "noise", [0.0312329, 0.0522322, 0.0331188]),
    ],
)
def test_standard_errors_of_a_channel_with_more_reports_than_truths(method, uncertainty, bse):
    found = response_proportions(REPORTS, mechanism=CHANNEL, uncertainty=uncertainty, method=method)
    np.testing.assert_allclose(found.params, [0.2, 0.3, 0.5], atol=1e-9)
    # the doubled half respondents in the weights move the last digit
    np.testing.assert_allclose(found.bse, bse, atol=2e-7)
    fisher = np.linalg.inv((MATRIX / (np.array([0.2, 0.3, 0.5]) @ MATRIX)) @ MATRIX.T)
    fisher -= np.outer([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])
    if method != "plain" and uncertainty == "noise+sampling":
        np.testing.assert_allclose(found.cov_params(), fisher / 1000, atol=2e-8)


def test_the_plain_estimate_is_unbiased_and_so_are_its_covariances():
    truth = np.array([2, 1, 1])
    mean, second, covariance = 0.0, 0.0, 0.0
    for seen, chance in reports_law(truth, MATRIX).items():
        found = response_counts(seen, mechanism=CHANNEL, method="plain")
        mean += chance * found.params
        second += chance * np.outer(found.params, found.params)
        inverse = np.linalg.pinv(MATRIX.T)
        middle = np.diag(found.params @ MATRIX) - MATRIX.T @ np.diag(found.params) @ MATRIX
        covariance += chance * inverse @ middle @ inverse.T
    np.testing.assert_allclose(mean, truth, atol=1e-12)
    np.testing.assert_allclose(second - np.outer(mean, mean), covariance, atol=1e-11)


def test_the_weighted_estimate_adds_up_and_is_as_precise_as_the_likelihood():
    rng = np.random.default_rng(2)
    for _ in range(30):
        matrix = rng.dirichlet(np.ones(6), size=4)
        share = rng.dirichlet(np.ones(4))
        counts = rng.multinomial(500, share @ matrix)
        found = response_counts(counts, mechanism=Channel(matrix))
        assert found.params.sum() == pytest.approx(500, rel=1e-9)
        np.testing.assert_allclose(found.cov_params().sum(axis=0), 0.0, atol=1e-6)
        assert np.isfinite(found.bse).all()


def test_randomized_response_by_its_matrix():
    law = RandomizedResponse.from_epsilon(1.5, categories=4)
    counts = [40, 7, 12, 30]
    for uncertainty in ("noise", "noise+sampling"):
        theirs = response_proportions(counts, mechanism=law, uncertainty=uncertainty)
        ours = response_proportions(counts, mechanism=Channel(law.matrix), uncertainty=uncertainty)
        np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-11)
        np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), atol=1e-14)


def test_the_most_likely_shares_are_not_clipped_and_rescaled():
    law = RandomizedResponse(p=0.5, categories=4)
    likely = response_proportions([40, 30, 20, 10], mechanism=law, method="likelihood")
    np.testing.assert_allclose(likely.params, [11 / 18, 1 / 3, 1 / 18, 0], atol=1e-12)
    plain = response_proportions([40, 30, 20, 10], mechanism=law)
    np.testing.assert_allclose(plain.params, [0.7, 0.4, 0.1, -0.2], atol=1e-12)
    with pytest.raises(InvalidParameterError, match="likelihood is largest at a boundary"):
        likely.conf_int(method="asymptotic")
    assert "most likely" in likely.summary()


def test_the_most_likely_shares_against_an_optimiser():
    rng = np.random.default_rng(3)
    for _ in range(40):
        k, m = rng.integers(2, 5), rng.integers(5, 8)
        matrix = rng.dirichlet(0.7 * np.ones(m), size=k)
        counts = rng.multinomial(60, rng.dirichlet(0.5 * np.ones(k)) @ matrix)
        found = response_proportions(counts, mechanism=Channel(matrix), method="likelihood")
        share = counts / 60
        # no shares have a larger likelihood: all gains are at most 1
        gains = matrix[:, share > 0] @ (share / (found.params @ matrix))[share > 0]
        assert gains.max() <= 1 + 1e-12
        start = optimize.minimize(
            lambda t, c=share, P=matrix: -c @ np.log(np.maximum(t @ P, 1e-12)),
            np.full(k, 1 / k),
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
            options={"ftol": 1e-12, "maxiter": 500},
        )
        log_likelihood = share[share > 0] @ np.log((found.params @ matrix)[share > 0])
        assert log_likelihood >= -start.fun - 1e-9


TABLE = [
    # ε, k, f = 1/k: n times the variance of randomized response; SUE; OUE
    (1.0, [(2, 0.9207), (4, 1.8891), (16, 6.1717), (64, 22.484), (1024, 347.65)], 3.9177),
    (2.0, [(2, 0.1810), (4, 0.3083), (16, 0.6609), (64, 1.8515), (1024, 25.374)], 0.9207),
    (4.0, [(2, 0.0190), (4, 0.0290), (16, 0.0402), (64, 0.0587), (1024, 0.3934)], 0.1810),
]
OPTIMISED = {(1.0, 4): 3.9327, (1.0, 1024): 3.6837, (2.0, 4): 0.9741}
OPTIMISED |= {(2.0, 1024): 0.7250, (4.0, 4): 0.3260, (4.0, 1024): 0.0770}


def variance(channel, share, n=10**9):
    """Return n times the variance of a share, for reports as they are expected."""
    if isinstance(channel, UnaryEncoding):
        ones = round(n * (share * channel.p + (1 - share) * channel.q))
        found = response_proportions([ones], nobs=n, mechanism=channel, uncertainty="noise")
    else:
        others = n - round(n * share * channel.p + n * (1 - share) * channel.q)
        rest = [others // (channel.categories - 1)] * (channel.categories - 1)
        found = response_proportions([n - sum(rest), *rest], mechanism=channel, uncertainty="noise")
    return n * found.bse[0] ** 2


@pytest.mark.parametrize(("epsilon", "response", "symmetric"), TABLE)
def test_variances_of_randomized_response_and_unary_encoding(epsilon, response, symmetric):
    for k, expected in response[:4]:
        channel = RandomizedResponse.from_epsilon(epsilon, categories=k)
        assert variance(channel, 1 / k) == pytest.approx(expected, rel=6e-3 if k == 64 else 3e-3)
        bits = UnaryEncoding.symmetric(epsilon, categories=k)
        assert variance(bits, 1 / k) == pytest.approx(symmetric, abs=6e-5)
        assert variance(bits, 0.5) == pytest.approx(symmetric, abs=6e-5)
    for (at, k), expected in OPTIMISED.items():
        if at == epsilon:
            bits = UnaryEncoding.optimised(epsilon, categories=k)
            assert variance(bits, 1 / k) == pytest.approx(expected, abs=6e-5)
    # where a category is rare
    growth = np.exp(epsilon)
    assert variance(UnaryEncoding.optimised(epsilon, categories=9), 0.0) == pytest.approx(
        4 * growth / (growth - 1) ** 2, rel=1e-6
    )
    assert variance(UnaryEncoding.symmetric(epsilon, categories=9), 0.0) == pytest.approx(
        np.sqrt(growth) / (np.sqrt(growth) - 1) ** 2, rel=1e-6
    )


def test_bits_of_unary_encoding_by_enumeration():
    channel, truth = UnaryEncoding(p=0.6, q=0.2, categories=2), [0, 0, 1]
    mean, second, covariance = 0.0, 0.0, 0.0
    for bits in product([0, 1], repeat=6):
        table = np.array(bits).reshape(3, 2)
        ones = np.where(np.eye(2)[truth] == 1, 0.6, 0.2)
        chance = np.where(table == 1, ones, 1 - ones).prod()
        found = response_counts(table.sum(axis=0), nobs=3, mechanism=channel)
        mean += chance * found.params
        second += chance * np.outer(found.params, found.params)
        covariance += chance * found.cov_params()
    np.testing.assert_allclose(mean, [2, 1], atol=1e-12)
    np.testing.assert_allclose(second - np.outer(mean, mean), covariance, atol=1e-12)
    # and of a sample: one answer and its bits, n times
    share = np.array([0.3, 0.7])
    first = 0.2 + 0.4 * share
    found = response_proportions(
        np.round(10**6 * first), nobs=10**6, mechanism=channel
    ).cov_params()
    expected = np.diag(first * (1 - first)) / 0.16
    expected[[0, 1], [1, 0]] = -share.prod()
    np.testing.assert_allclose(1e6 * found, expected, rtol=1e-5)


def law_of(t, n, p, q):
    """Return the law of the reports of t true ones among n."""
    return np.convolve(
        stats.binom(t, p).pmf(np.arange(t + 1)), stats.binom(n - t, q).pmf(np.arange(n - t + 1))
    )


COVERAGE = [
    # channel, n, and for each method: least and mean coverage over all t, and mean width
    (RandomizedResponse(p=0.75), 50, {
        "exact": (0.951, 0.966, 21.1), "minimal": (0.951, 0.959, 20.2),
        "score": (0.951, 0.959, 20.2), "asymptotic": (0.951, 0.959, 20.2)}),
    (RandomizedResponse.from_epsilon(1.0, categories=4), 20, {
        "exact": (0.951, 0.972, 16.0), "minimal": (0.950, 0.963, 15.5),
        "score": (0.929, 0.951, 14.9), "asymptotic": (0.897, 0.946, 14.9)}),
    (RandomizedResponse.from_epsilon(1.0, categories=4), 50, {
        "exact": (0.953, 0.966, 31.6), "minimal": (0.951, 0.959, 30.6),
        "score": (0.936, 0.953, 29.8), "asymptotic": (0.930, 0.948, 29.6)}),
    (UnaryEncoding.optimised(1.0, categories=9), 50, {
        "exact": (0.953, 0.965, 37.9), "minimal": (0.950, 0.958, 36.9),
        "score": (0.935, 0.951, 36.0), "asymptotic": (0.930, 0.949, 36.0)}),
]  # fmt: skip


def intervals_of(channel, n, method, alpha=0.05):
    """Return the ends for every number of reports of one category."""
    if isinstance(channel, UnaryEncoding):
        tables = [([c], {"nobs": n}) for c in range(n + 1)]
    else:
        rest = [0] * (channel.categories - 2)
        tables = [([c, n - c, *rest], {}) for c in range(n + 1)]
    found = [
        response_counts(table, mechanism=channel, **more).conf_int(alpha, method)
        for table, more in tables
    ]
    return np.array([[one.lower[0], one.upper[0]] for one in found]).T


@pytest.mark.parametrize(("channel", "n", "expected"), COVERAGE)
def test_coverage_of_counts_over_every_truth(channel, n, expected):
    laws = np.array([law_of(t, n, channel.p, channel.q) for t in range(n + 1)])
    for method, (least, mean, width) in expected.items():
        lower, upper = intervals_of(channel, n, method)
        t = np.arange(n + 1.0)[:, None]
        covered = (laws * ((lower <= t) & (t <= upper))).sum(axis=1)
        assert covered.min() == pytest.approx(least, abs=6e-4)
        assert covered.mean() == pytest.approx(mean, abs=6e-4)
        if method != "asymptotic":
            size = np.where(lower > upper, 0.0, upper - lower)
            assert (laws @ size).mean() == pytest.approx(width, abs=0.06)
        if method in ("exact", "minimal"):
            assert covered.min() >= 0.95


def test_no_count_explains_some_reports():
    channel = RandomizedResponse.from_epsilon(1.0, categories=4)
    lower, upper = intervals_of(channel, 50, "exact")
    assert (lower > upper).sum() == 23


def test_score_intervals_of_shares_are_wilsons_and_exact_ones_clopper_and_pearsons():
    for channel in (RandomizedResponse(p=0.75), RandomizedResponse.from_epsilon(1.0, categories=4)):
        n, least = 50, {}
        rest = [0] * (channel.categories - 2)
        fits = [response_proportions([c, n - c, *rest], mechanism=channel) for c in range(n + 1)]
        share = np.linspace(0, 1, 2001)
        for method in ("exact", "score", "asymptotic"):
            found = [fit.conf_int(method=method) for fit in fits]
            lower, upper = np.array([[one.lower[0], one.upper[0]] for one in found]).T[:, :, None]
            pmf = stats.binom(n, channel.q + channel.slope * share).pmf(np.arange(n + 1)[:, None])
            least[method] = (pmf * ((lower <= share) & (share <= upper))).sum(axis=0).min()
        wanted = (0.953, 0.935, 0.912) if channel.categories == 2 else (0.953, 0.931, 0.902)
        assert tuple(least.values()) == pytest.approx(wanted, abs=6e-4)


@pytest.mark.parametrize("uncertainty", ["noise", "noise+sampling"])
def test_exact_intervals_of_any_channel_cover_together(uncertainty):
    n, alpha = 4, 0.3
    ends = {}
    for seen in compositions(n, 4):
        found = response_proportions(seen, mechanism=CHANNEL, uncertainty=uncertainty)
        ends[seen] = np.array(found.conf_int(alpha)).T
    for truth in [(4, 0, 0), (0, 4, 0), (0, 0, 4), (2, 1, 1), (1, 1, 2), (3, 1, 0)]:
        share = np.array(truth) / n
        if uncertainty == "noise":
            law = reports_law(truth, MATRIX)
        else:
            law = {seen: multinomial(seen, share @ MATRIX) for seen in compositions(n, 4)}
        covered = sum(
            chance
            for seen, chance in law.items()
            if ((ends[seen][0] <= share + 1e-12) & (share - 1e-12 <= ends[seen][1])).all()
        )
        assert covered >= 1 - alpha


def test_minimal_intervals_against_lists_of_laws():
    channel, n, alpha = RandomizedResponse(p=0.7, categories=3), 23, 0.1
    lower, upper = intervals_of(channel, n, "minimal", alpha)
    laws = [law_of(t, n, channel.p, channel.q) for t in range(n + 1)]
    for c in range(n + 1):
        kept = [t for t, f in enumerate(laws) if f[f <= f[c] * (1 + 1e-9)].sum() > alpha]
        assert (lower[c], upper[c]) == ((kept[0], kept[-1]) if kept else (np.inf, -np.inf))


@pytest.mark.parametrize(
    "channel",
    [
        RandomizedResponse.from_epsilon(1.0, categories=5),
        UnaryEncoding.optimised(1.0, categories=5),
    ],
)
def test_a_share_of_one_category_is_tested_by_its_reports(channel):
    share, n = 0.2, 60
    reports = round(n * (channel.q + 0.8 * channel.slope))
    found = proportions_ztest(reports, n, share, mechanism=channel, alternative="larger")
    law = stats.binom(n, channel.q + (channel.p - channel.q) * share)
    assert found.pvalue == pytest.approx(law.sf(reports - 1), rel=1e-10)
    # the interval holds what the tests do not reject
    counts = (
        [reports, n - reports, 0, 0, 0] if isinstance(channel, RandomizedResponse) else [reports]
    )
    lower = response_proportions(counts, nobs=n, mechanism=channel).conf_int(0.1).lower[0]
    edge = proportions_ztest(reports, n, lower, mechanism=channel, alternative="larger")
    assert edge.pvalue == pytest.approx(0.05, rel=1e-8)


def test_names_of_truths_and_reports():
    channel = Channel(MATRIX, truths=list("abc"), reports=list("stuv"))
    counts = pd.Series({"v": 230, "u": 230, "t": 310, "s": 230})
    found = response_counts(counts, mechanism=channel)
    assert found.params.index.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found.params, [200, 300, 500], atol=1e-6)
    assert "Reports through a channel" in found.summary()
    with pytest.raises(InvalidParameterError, match="counts must be labelled by the reports"):
        response_counts(counts.rename({"v": "w"}), mechanism=channel)


def test_what_cannot_be_told_apart_is_named():
    twins = Channel([[0.5, 0.5], [0.2, 0.8], [0.8, 0.2]], truths=["a", "b", "c"])
    with pytest.raises(NotEstimableError, match="tell the truths apart: shares of 'a', 'b', 'c'"):
        response_counts([3, 4], mechanism=twins)
    same = Channel([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], truths=["a", "b", "c"])
    with pytest.raises(NotEstimableError, match="shares of 'b', 'c' can be exchanged"):
        response_counts([3, 4, 5], mechanism=same)
    with pytest.raises(NotEstimableError, match="nothing can be estimated"):
        response_counts([3], nobs=9, mechanism=UnaryEncoding(p=0.5, q=0.5, categories=2))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: response_counts([1, 2], mechanism=CHANNEL), "each of the 4 reports"),
        (lambda: response_counts(REPORTS, mechanism=CHANNEL, nobs=7), "must be the sum of counts"),
        (
            lambda: response_counts([3], mechanism=UnaryEncoding(p=0.5, q=0.2, categories=2)),
            "nobs must be given for unary encoding",
        ),
        (
            lambda: response_counts(
                [3], nobs=2, mechanism=UnaryEncoding(p=0.5, q=0.2, categories=2)
            ),
            "counts must be <= 2",
        ),
        (
            lambda: response_counts(
                [3],
                nobs=9,
                mechanism=UnaryEncoding(p=0.5, q=0.2, categories=2),
                method="likelihood",
            ),
            "for unary encoding, got 'likelihood'",
        ),
        (lambda: response_counts(REPORTS, mechanism=CHANNEL, method="em"), "method must be one of"),
        (
            lambda: response_counts(REPORTS, mechanism=CHANNEL).conf_int(method="score"),
            "for a channel by its matrix",
        ),
        (
            lambda: response_proportions([3, 4], mechanism=RandomizedResponse(p=0.7)).conf_int(
                method="minimal"
            ),
            "for a sample of a population",
        ),
        (
            lambda: response_counts([3000, 4000], mechanism=RandomizedResponse(p=0.7)).conf_int(
                method="minimal"
            ),
            "more than 5000 respondents",
        ),
    ],
)
def test_bad_calls_are_refused(call, said):
    with pytest.raises(InvalidParameterError, match=said):
        call()
