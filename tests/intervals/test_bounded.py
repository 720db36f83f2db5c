"""Intervals for sums of counts that cannot be below zero."""

from itertools import product
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import bounded_confint

NOISE = Geometric(scale=2.0)
SMALL = Geometric(scale=0.8)


def blocks(values, weights, **how):
    """Lower and upper ends for each row of values, (n, k)."""
    ends = []
    for part in np.array_split(np.asarray(values, dtype=float), max(1, len(values) // 40)):
        rows = np.kron(np.eye(len(part)), np.asarray(weights, dtype=float))
        ends.append(np.asarray(bounded_confint(part.ravel(), rows, **how)))
    return np.concatenate(ends).T


def outcomes(law, size):
    """All errors of some counts but those of probability below 1e-6 each, and what they have."""
    errors = np.arange(-law.isf(1e-6), law.isf(1e-6) + 1)
    mass = law.pmf(errors)
    all_errors = np.array(list(product(errors, repeat=size)))
    return all_errors, np.prod(list(product(mass, repeat=size)), axis=1)


def check_coverage(law, tables, weights, **how):
    """Enumerate how often intervals are above and below the truth, each value looked at once."""
    errors, mass = outcomes(law, len(weights))
    tables = np.array(tables)
    values, place = np.unique(
        (errors + tables[:, np.newaxis]).reshape(-1, len(weights)), axis=0, return_inverse=True
    )
    ends = blocks(values, [weights], mechanism=law, **how)
    for truth, at in zip(tables @ weights, place.reshape(len(tables), -1), strict=True):
        lower, upper = ends[:, at]
        below, above = mass[truth < lower].sum(), mass[truth > upper].sum()
        assert below + above <= 0.05
        assert above <= 0.025
        assert truth == 0 or below <= 0.025


def test_one_count_by_hand():
    # P(e > 6) = 0.0188, P(e > 5) = 0.0310 and P(e > 4) = 0.0511
    found = bounded_confint([-8, 0, 5, 6, 40], np.eye(5), mechanism=NOISE)
    assert np.asarray(found).tolist() == [[0, 0], [0, 6], [0, 11], [1, 12], [34, 46]]
    np.testing.assert_array_equal(found.unbiased_lower, [-14, -6, -1, 0, 34])


@pytest.mark.parametrize(
    ("law", "truths", "least", "widths"),
    [
        (NOISE, [0, 1, 3, 8, 15, 30], 0.9624, [5.99, 6.93, 8.74, 11.56, 11.99, 12.00]),
        (
            DiscreteGaussian(sigma=5.0),
            [0, 1, 3, 8, 15, 30],
            0.9557,
            [9.97, 10.92, 12.76, 16.70, 19.50, 20.00],
        ),
    ],
)
def test_one_count_covers_every_truth_and_is_as_wide_as_summed_up(law, truths, least, widths):
    y = np.arange(-90, 151)
    lower, upper = blocks(y[:, np.newaxis], [[1]], mechanism=law)
    cover = [law.pmf(y - f)[(lower <= f) & (f <= upper)].sum() for f in range(61)]
    assert min(cover) == pytest.approx(least, abs=6e-5)
    found = [law.pmf(y - f) @ (upper - lower) for f in truths]
    np.testing.assert_allclose(found, widths, atol=6e-3)


@pytest.mark.parametrize(
    ("law", "rule", "least", "at_zero", "widths"),
    [
        (NOISE, "central", 0.9624, 0.9624, [6.00, 6.95, 8.80, 11.65, 11.99, 12.00]),
        (NOISE, "likelihood-ratio", 0.9624, 0.9690, [6.88, 7.45, 8.87, 10.89, 11.91, 12.00]),
        (
            DiscreteGaussian(sigma=5.0),
            "central",
            0.9646,
            0.9646,
            [10.00, 10.95, 12.83, 16.85, 19.59, 20.00],
        ),
        (
            DiscreteGaussian(sigma=5.0),
            "likelihood-ratio",
            0.9523,
            0.9557,
            [10.11, 10.97, 12.67, 16.21, 18.69, 19.98],
        ),
    ],
)
def test_other_rules_cover_every_truth_and_are_as_wide_as_summed_up(
    law, rule, least, at_zero, widths
):
    y = np.arange(-45, 81)
    lower, upper = blocks(y[:, np.newaxis], [[1]], mechanism=law, rule=rule)
    cover = [law.pmf(y - f)[(lower <= f) & (f <= upper)].sum() for f in range(36)]
    assert min(cover) == pytest.approx(least, abs=6e-5)
    assert cover[0] == pytest.approx(at_zero, abs=6e-5)
    size = np.where(lower <= upper, upper - lower, 0.0)
    found = [law.pmf(y - f) @ size for f in (0, 1, 3, 8, 15, 30)]
    np.testing.assert_allclose(found, widths, atol=6e-3)


@pytest.mark.parametrize("truth", [0, 4])
def test_the_likelihood_ratio_covers_whole_counts_under_gaussian_noise(truth):
    law = Gaussian(sigma=3.0)

    def ends(y):
        return np.asarray(bounded_confint([y], [1], mechanism=law, rule="likelihood-ratio"))

    # both ends rise with y: the values whose interval has the truth are between two edges
    y = truth + law.ppf((np.arange(12) + 0.5) / 12)
    lower, upper = blocks(y[:, np.newaxis], [[1]], mechanism=law, rule="likelihood-ratio")
    assert (lower <= upper).all()
    assert (np.diff([lower, upper]) >= 0).all()
    edges = []
    for side, misses in ((1, lambda y: ends(y)[0] > truth), (-1, lambda y: ends(y)[1] < truth)):
        near, away = truth, truth + side * 20.0
        for _ in range(14 if misses(away) else 0):
            middle = 0.5 * (near + away)
            near, away = (near, middle) if misses(middle) else (middle, away)
        edges.append(near if misses(away) else side * np.inf)
    assert law.cdf(edges[0] - truth) - law.cdf(edges[1] - truth) >= 0.95 - 0.001
    assert np.isinf(edges[1]) == (truth == 0)


def test_the_likelihood_ratio_under_laplace_noise_is_in_closed_form():
    b = 2.0
    u, t = b * np.log(1 / 0.1), b * np.log(1 / 0.05)
    y = np.array([-30.0, -0.3, 0.2, 4.3, 5.1, 9.1, 10.4, 11.9, 12.3, 40.7])
    found = bounded_confint(y, np.eye(10), mechanism=Laplace(scale=b), rule="likelihood-ratio")
    lower = np.select([y <= u, y <= 2 * u, y <= 2 * t], [0.0, y - u, y / 2], y - t)
    np.testing.assert_array_equal(found.lower, np.ceil(lower))
    np.testing.assert_array_equal(found.upper, np.floor(np.maximum(y, 0) + t))


@pytest.mark.thinned("law", "truth", every=2)
@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=3.0)], ids=repr)
@pytest.mark.parametrize("truth", [0.0, 0.5, 3.0, 20.0])
def test_one_value_under_noise_with_a_density(law, truth):
    chances = (np.arange(600) + 0.5) / 600
    y = truth + law.ppf(chances)
    lower, upper = blocks(y[:, np.newaxis], [[1]], mechanism=law, integer=False)
    # each of the points stands for a share 1/600, an end cuts two of them at most
    assert np.mean((lower <= truth) & (truth <= upper)) >= 0.95 - 2 / 600


@pytest.mark.thinned("method", "weights", "law", every=2)
@pytest.mark.parametrize("method", ["exact", "sparse"])
@pytest.mark.parametrize("weights", [[1, 1], [1, -1], [2, 3]], ids=str)
@pytest.mark.parametrize("law", [SMALL, DiscreteGaussian(sigma=1.1)], ids=repr)
def test_two_counts_are_covered_by_enumeration(law, weights, method):
    check_coverage(law, [(0, 0), (1, 0), (0, 2), (2, 3)], weights, method=method)


TABLES = [(0, 0, 0), (0, 0, 4), (1, 1, 1), (0, 3, 9)]


@pytest.mark.parametrize(
    ("weights", "tables"),
    [  # of the sum those without any count and with many, of the difference the others
        pytest.param([1, 1, 1], TABLES[::3], marks=pytest.mark.slow),
        pytest.param([1, 1, -1], TABLES[1:3], marks=pytest.mark.slow),
        pytest.param([1, 1, 1], TABLES[1:3], marks=pytest.mark.study),
        pytest.param([1, 1, -1], TABLES[::3], marks=pytest.mark.study),
    ],
    ids=str,
)
def test_three_counts_are_covered_by_enumeration(weights, tables):
    check_coverage(Geometric(scale=0.5), tables, weights, method="sparse")


def ends_under_a_total(law, weights, total, errors, counts, **how):
    """Ends for each error; they depend on the unbiased estimate only."""
    share = np.mean(np.asarray(weights, dtype=float))
    estimates = np.round((errors + counts) @ (np.asarray(weights) - share), 9)
    _, first, number = np.unique(estimates, return_index=True, return_inverse=True)
    found = [
        np.asarray(bounded_confint(errors[i] + counts, weights, mechanism=law, total=total, **how))
        for i in first
    ]
    return np.array(found)[number].T


@pytest.mark.thinned("counts", "weights", every=2)
@pytest.mark.parametrize("counts", [(0, 0, 5), (5, 0, 0), (0, 2, 3), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("weights", [[1, 0, 0], [1, -1, 0]], ids=str)
def test_counts_of_a_known_total_are_covered_by_enumeration(counts, weights):
    errors, mass = outcomes(Geometric(scale=0.5), 3)
    lower, upper = ends_under_a_total(Geometric(scale=0.5), weights, 5, errors, counts)
    truth = np.dot(counts, weights)
    assert mass[(truth < lower) | (truth > upper)].sum() <= 0.05
    assert lower.min() >= 5 * min(weights)
    assert upper.max() <= 5 * max(weights)


TWENTY = {"0": np.zeros(20), "one": np.r_[200, np.zeros(19)], "30": np.full(20, 30.0)}
"""Twenty counts, of which the last are for a study."""


@pytest.mark.parametrize(
    ("law", "counts", "method"),
    [  # each law with both methods, one for each of the first counts, and the others in a study
        pytest.param(
            law,
            TWENTY[name],
            method,
            id=f"{law!r}-{name}-{method}",
            marks=pytest.mark.slow
            if name != "30" and (row + column + turn) % 2
            else pytest.mark.study,
        )
        for row, law in enumerate([NOISE, Laplace(scale=2.0), Gaussian(sigma=5.0)])
        for column, name in enumerate(TWENTY)
        for turn, method in enumerate(["exact", "sparse"])
    ],
)
def test_sums_of_twenty_counts_are_covered_in_simulations(law, counts, method):
    reps = 300
    y = counts + law.rvs((reps, 20), rng=7)
    lower, upper = blocks(y, [np.ones(20)], mechanism=law, method=method)
    truth = counts.sum()
    # of 300 with a chance of 0.05 each, more than 37 are missed once in 1e7
    assert np.count_nonzero((lower > truth) | (truth > upper)) <= 37


@pytest.mark.parametrize(
    ("law", "size", "lower"),
    [  # 300 less twice the threshold of two standard deviations, less its quantile
        (NOISE, 10, 300 - 6 - 10),
        (NOISE, 50, 300 - 6 - 17),
        (NOISE, 500, 300 - 6 - 58),
        (DiscreteGaussian(sigma=5.0), 50, 300 - 10 - 14),
        (DiscreteGaussian(sigma=5.0), 500, 300 - 10 - 50),
    ],
)
def test_one_large_count_among_zeros_has_the_soft_lower_end(law, size, lower):
    y = np.r_[300, np.zeros(size - 1)]
    found = bounded_confint(y, np.ones(size), mechanism=law, method="sparse")
    assert found.lower == lower
    assert found.upper == found.unbiased_upper
    assert found.lower > found.unbiased_lower


def test_the_soft_quantile_is_that_of_all_outcomes():
    law, y = Geometric(scale=0.8), [40, 0, 0]
    found = bounded_confint(y, [1, 1, 1], mechanism=law, method="sparse", alpha=0.3)
    errors, mass = outcomes(law, 3)
    bounds = []
    for times in (1, 2):
        above = np.ceil(times * law.std)
        sums = np.maximum(errors - above, 0).sum(axis=1)
        quantile = min(q for q in range(50) if mass[sums > q].sum() <= 0.1 * 0.15)
        bounds.append(40 - above - quantile)
    linear = 40 - dpi.WeightedSum(np.ones(3), law).isf(0.8 * 0.15)
    assert found.lower == max(*bounds, linear)


def test_a_total_bounds_a_group_by_the_soft_bound_of_the_others():
    y, group = np.r_[300, np.zeros(49)], np.r_[np.zeros(10), np.ones(40)]
    noise = DiscreteGaussian(sigma=5.0)
    found = bounded_confint(y, group, mechanism=noise, method="sparse", total=300)
    assert found.upper == 300 - (300 - 10 - 8)  # the quantile of the ten others at 0.0025
    assert found.upper < found.unbiased_upper - 9
    assert found.lower == 0


def test_they_are_within_the_unbiased_interval_and_the_possible_values():
    rng = np.random.default_rng(5)
    y = rng.poisson(1.0, 30) + NOISE.rvs(30, rng=rng)
    rows = rng.integers(-1, 3, (50, 30))
    found = bounded_confint(y, rows, mechanism=NOISE)
    plain = dpi.linear_confint(y, rows, mechanism=NOISE)
    np.testing.assert_allclose(found.unbiased_lower, plain.lower, rtol=1e-12)
    np.testing.assert_allclose(found.unbiased_upper, plain.upper, rtol=1e-12)
    assert (found.width <= plain.width).all()
    positive = (rows >= 0).all(axis=1)
    assert (found.lower[~positive] == plain.lower[~positive]).all()


def test_the_estimate_under_a_total_is_that_of_combine():
    y, law = np.array([3, 9, 4, 1]), [Geometric(scale=s) for s in (1.0, 2.0, 3.0, 1.0)]
    release = dpi.Release([*y, 15], workload=[*np.eye(4), np.ones(4)], mechanism=[*law, Exact()])
    fit = dpi.combine(release, target=[[1.0, 1, 0, 0], [0, 0, 1, -1]])
    found = bounded_confint(y, [[1, 1, 0, 0], [0, 0, 1, -1]], mechanism=law, total=15)
    np.testing.assert_allclose(found.estimate, fit.params)
    expected = np.asarray(fit.conf_int())
    np.testing.assert_allclose(found.unbiased_lower, expected[:, 0])
    np.testing.assert_allclose(found.unbiased_upper, expected[:, 1])


def test_known_counts_leave_the_rest_of_the_total():
    law = [NOISE, NOISE, Exact(), NOISE]
    found = bounded_confint(
        [30, -2, 7, 50], np.eye(4), mechanism=law, total=20, zeros=[False, False, False, True]
    )
    assert np.asarray(found)[2:].tolist() == [[7, 7], [0, 0]]
    assert found.upper[0] == 13
    both = bounded_confint([30, -2, 7, 50], [1, 1, 0, 0], mechanism=law, total=20, zeros=[3])
    assert (both.lower, both.upper) == (13, 13)


def test_labels_are_kept():
    counts = pd.Series({"a": 4, "b": -3, "c": 0})
    rows = pd.DataFrame({"a": [1, 0], "b": [1, 1]}, index=["a + b", "b"])
    found = bounded_confint(counts, rows, mechanism=NOISE, zeros=["c"])
    assert found["b"].upper == 3
    frame = found.summary_frame()
    assert list(frame.columns[-2:]) == ["unbiased_lower", "unbiased_upper"]
    assert list(frame.index) == ["a + b", "b"]


def test_ends_are_values_that_the_function_can_take():
    found = bounded_confint([9, 8], [[2, 4], [0.5, 0.5]], mechanism=Laplace(scale=1.0))
    assert (np.asarray(found)[0] % 2 == 0).all()
    assert (np.asarray(found)[1] % 0.5 == 0).all()
    plain = bounded_confint([9, 8], [[2, 4]], mechanism=Laplace(scale=1.0), integer=False)
    np.testing.assert_allclose(plain.lower, plain.unbiased_lower)


@pytest.mark.parametrize(
    ("size", "coverage"),
    [(1, 0.975), (2, 0.938375), (5, 0.774441), (10, 0.446857), (50, 0.000027)],
)
def test_what_is_said_of_likelihood_ratios(size, coverage):
    # at zero the statistic is chi-bar-square with binomial weights
    inside = [stats.chi2.cdf(stats.chi2.isf(0.05, 1), j) if j else 1.0 for j in range(size + 1)]
    weights = [comb(size, j) / 2**size for j in range(size + 1)]
    assert np.dot(weights, inside) == pytest.approx(coverage, abs=6e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "likelihood-ratio"}, "44.7"),
        ({"method": "normal"}, "method must be one of"),
        ({"rule": "normal"}, "rule must be one of"),
        ({"rule": "likelihood-ratio"}, "single whole counts"),
        ({"rule": "likelihood-ratio", "weights": [1, 0, 0], "total": 9}, "without total"),
        ({"rule": "likelihood-ratio", "weights": [1, 0, 0], "integer": False}, "whole counts"),
        (
            {"rule": "likelihood-ratio", "weights": [1, 0, 0], "mechanism": Laplace(scale=1e9)},
            "noise of this scale",
        ),
        ({"alpha": 0.5}, "alpha must be < 0.5"),
        ({"total": -1}, "total must be >= 0"),
        ({"total": 10.5}, "total must be a whole number"),
        ({"total": 3, "zeros": [True, True, True]}, "and no others"),
        ({"zeros": [7]}, "zeros must be"),
        ({"mechanism": [Exact(), NOISE, NOISE], "values": [-1, 2, 3]}, "values without noise"),
        (
            {"mechanism": [Exact(), NOISE, NOISE], "values": [9, 2, 3], "total": 4},
            "total must be the sum",
        ),
    ],
)
def test_refusals(change, message):
    how = {"values": [4, 2, 3], "weights": [1, 1, 0], "mechanism": NOISE} | change
    with pytest.raises(InvalidParameterError, match=message):
        bounded_confint(how.pop("values"), how.pop("weights"), **how)


def test_values_of_other_kinds_are_refused():
    fit = dpi.combine_hierarchy([9, 4, 5], [-1, 0, 0], mechanism=NOISE)
    differences = dpi.Release([3, 4], workload=[[1, -1], [0, 1]], mechanism=NOISE)
    tables = dpi.Release([3, 4, 9], workload=[[1, 0], [0, 1], [1, 1]], mechanism=NOISE)
    cases = [
        (dpi.noisy([4, 5], mechanism=NOISE, threshold=3), {}, "selected by a threshold"),
        (dpi.noisy([4, 5], mechanism=NOISE, clamp=0), {}, "were clamped"),
        (fit.contrast([[1, 0, 0], [1, -1, 0]]), {}, "one independent noise each"),
        (differences, {}, "other queries"),
        (tables, {"total": 9}, "total must be left out"),
    ]
    for values, how, message in cases:
        with pytest.raises(InvalidParameterError, match=message):
            bounded_confint(values, np.ones(len(values)), **how)
