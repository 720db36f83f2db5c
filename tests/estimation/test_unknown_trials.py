"""Counts out of a number of trials that is known with noise, against sums over all outcomes."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpinfer import proportions_ztest
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.unknown_trials import LARGEST_TRIALS, UnknownTrials
from dpinfer.mechanisms import Exact, Geometric, Laplace
from dpinfer.releases.coerce import noisy

SIDES = {
    "larger": lambda t, point: t >= point - 1e-9,
    "smaller": lambda t, point: t <= point + 1e-9,
    "two-sided": lambda t, point: np.abs(t) >= abs(point) - 1e-9,
}


def rows(count, nobs, value, mechanism, nobs_mechanism, *, is_total=False, nuisance_alpha=0.01):
    x = noisy(count, mechanism=mechanism, name="count")
    p = x.setting(value, "value", gt=0, lt=1)
    return UnknownTrials.of(x, nobs, nobs_mechanism, is_total, p, nuisance_alpha)


def noise_pmf(scale, reach=60):
    """Values and probabilities of two-sided geometric noise; one value for no noise."""
    if scale == 0.0:
        return np.zeros(1), np.ones(1)
    values, alpha = np.arange(-reach, reach + 1.0), np.exp(-1.0 / scale)
    return values, (1 - alpha) / (1 + alpha) * alpha ** np.abs(values)


def outcomes(n, value, scale, nobs_scale, is_total):
    """Every value of T for n trials, with its probability."""
    counts = np.arange(n + 1.0)
    own, other = noise_pmf(scale), noise_pmf(nobs_scale)
    grids = np.meshgrid(counts, own[0], other[0], indexing="ij")
    published = grids[0] + grids[1]
    total = n + grids[2] + (grids[1] if is_total else 0.0)
    weights = np.meshgrid(stats.binom.pmf(counts, n, value), own[1], other[1], indexing="ij")
    return published - value * total, weights[0] * weights[1] * weights[2]


def law(scale):
    return Geometric(scale=scale) if scale else Exact()


@pytest.mark.thinned("alternative", "is_total", "scales", every=2)
@pytest.mark.parametrize("alternative", list(SIDES))
@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize("scales", [(1.0, 0.7), (1.3, 0.0), (0.0, 1.0)])
def test_tails_are_sums_over_all_outcomes(alternative, is_total, scales):
    test = rows(7, 12, 0.3, law(scales[0]), law(scales[1]), is_total=is_total)
    assert test.difference == pytest.approx(7 - 0.3 * 12)
    for trials in (0, 5, 14):
        t, probability = outcomes(trials, 0.3, *scales, is_total)
        wanted = probability[SIDES[alternative](t, test.difference[0])].sum()
        found = test.tail(alternative, test.difference, np.array([float(trials)]), np.zeros(1, int))
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("is_total", [False, True])
def test_variance_is_that_of_the_noise_of_the_statistic(is_total):
    test = rows(7, 12, 0.3, Geometric(scale=1.0), Geometric(scale=0.7), is_total=is_total)
    t, probability = outcomes(0, 0.3, 1.0, 0.7, is_total)  # no trials: noise alone
    assert test.variance == pytest.approx((probability * np.square(t)).sum(), rel=1e-9)


@pytest.mark.parametrize("is_total", [False, True])
def test_the_confidence_set_misses_as_seldom_as_it_says(is_total):
    test = rows(7, 12, 0.3, Geometric(scale=1.0), Geometric(scale=0.7), is_total=is_total)
    low, high, missed = test.confidence_set
    # what nobs has too much, is 12 - n for n outside of the set
    own = noise_pmf(1.0) if is_total else noise_pmf(0.0)
    other = noise_pmf(0.7)
    error = (own[0][:, None] + other[0]).ravel()
    probability = (own[1][:, None] * other[1]).ravel()
    outside = probability[(12 - error < low) | (12 - error > high)].sum()
    assert missed == 0.01
    assert outside <= 0.01
    # the set is as small as it can be
    assert probability[np.abs(error) >= 12 - low[0]].sum() > 0.01
    assert high - 12 == 12 - low


def test_noise_that_is_hardly_ever_there_leaves_one_number_of_trials():
    narrow = Geometric(scale=0.1)
    low, high, missed = rows(7, 12, 0.3, Exact(), narrow).confidence_set
    values, probability = noise_pmf(0.1)
    assert (low, high) == (12, 12)
    assert missed == pytest.approx(probability[values != 0].sum(), rel=1e-9)
    low, high, missed = rows(7, 12, 0.3, narrow, Exact()).confidence_set
    assert (low, high, missed) == (12, 12, 0)


def test_the_number_of_trials_is_never_negative():
    test = rows(2, -3, 0.3, Geometric(scale=1.0), Geometric(scale=1.0))
    low, high, _ = test.confidence_set
    assert (test.trials, low) == (0, 0)
    assert high >= 0
    assert test.spread == pytest.approx(np.sqrt(0.3 * 0.7))  # of one trial at least


@pytest.mark.parametrize("alternative", list(SIDES))
def test_the_largest_tail_is_looked_for_in_the_whole_set(alternative):
    test = rows(7, 12, 0.3, Geometric(scale=1.0), Geometric(scale=0.7))
    low, high, missed = test.confidence_set
    tails = []
    for trials in np.arange(low[0], high[0] + 1):
        t, probability = outcomes(int(trials), 0.3, 1.0, 0.7, is_total=False)
        tails.append(probability[SIDES[alternative](t, test.difference[0])].sum())
    found = test.largest(alternative, test.difference)
    assert found == pytest.approx(min(max(tails) + missed[0], 1.0), rel=1e-9)
    z = test.statistic.reshape(test.shape)
    t, probability = outcomes(12, 0.3, 1.0, 0.7, is_total=False)
    plug_in = probability[SIDES[alternative](t, test.difference[0])].sum()
    assert test.plug_in_tail(alternative, z) == pytest.approx(plug_in, rel=1e-9)


def test_rows_of_several_laws_are_what_each_is_by_itself():
    count, nobs, value = [7.0, 3.0, 9.0, 5.0], [12.0, 8.0, 15.0, 12.0], [0.3, 0.4, 0.3, 0.3]
    own = [Geometric(scale=1.0)] * 2 + [Geometric(scale=2.0)] * 2
    other = Geometric(scale=[0.7, 0.7, 0.7, 0.9])
    test = rows(count, nobs, value, own, other)
    assert len(test.groups) == 4
    every, trials = np.arange(4), np.array([11.0, 7.0, 15.0, 13.0])
    single = [rows(count[i], nobs[i], value[i], own[i], other.take(i)) for i in range(4)]
    for alternative in SIDES:
        found = test.tail(alternative, test.difference, trials, every)
        each = [
            one.tail(alternative, one.difference, trials[[i]], np.zeros(1, int))[0]
            for i, one in enumerate(single)
        ]
        np.testing.assert_allclose(found, each, rtol=1e-12)
        some = np.array([3, 0])  # no row of some of the groups
        np.testing.assert_array_equal(
            test.tail(alternative, test.difference, trials[some], some), found[some]
        )
        largest = [one.largest(alternative, one.difference)[0] for one in single]
        np.testing.assert_allclose(test.largest(alternative, test.difference), largest, rtol=1e-12)
    np.testing.assert_allclose(test.variance, [one.variance[0] for one in single], rtol=1e-12)


@pytest.mark.parametrize("is_total", [False, True])
def test_proportions_of_many_rows_share_a_law_where_that_is_known(is_total):
    # without noise of nobs alone, and of count in nobs, the law of T is that of count
    value = np.array([0.2, 0.3, 0.4])
    test = rows(
        [7.0, 8.0, 9.0], [20.0] * 3, value, Geometric(scale=1.0), Exact(), is_total=is_total
    )
    found = test.tail("larger", test.difference, np.full(3, 20.0), np.arange(3))
    for p, point, tail in zip(value, test.difference, found, strict=True):
        t, probability = outcomes(20, p, 1.0, 0.0, is_total)
        assert tail == pytest.approx(probability[t >= point - 1e-9].sum(), rel=1e-9)


def test_rows_under_other_proportions():
    test = rows([7.0, 3.0], [12.0, 8.0], 0.3, Geometric(scale=[1.0, 2.0]), Geometric(scale=0.7))
    other = test.under(np.array([0.5, 0.6, 0.1]), np.array([1, 0, 1]))
    again = rows(
        [3.0, 7.0, 3.0],
        [8.0, 12.0, 8.0],
        [0.5, 0.6, 0.1],
        Geometric(scale=[2.0, 1.0, 2.0]),
        Geometric(scale=0.7),
    )
    assert other.shape == (3,)
    np.testing.assert_array_equal(
        other.largest("larger", other.difference), again.largest("larger", again.difference)
    )


def test_work_grows_with_the_noise_and_the_trials_and_is_bounded():
    narrow = rows(70, 200, 0.3, Laplace(scale=2.0), Laplace(scale=2.0))
    wide = rows(70, 200, 0.3, Laplace(scale=2.0), Laplace(scale=9.0))
    for alternative in SIDES:
        assert wide.work(alternative, is_guaranteed=True) > narrow.work(
            alternative, is_guaranteed=True
        )
        assert narrow.work(alternative, is_guaranteed=True) > narrow.work(
            alternative, is_guaranteed=False
        )
    assert narrow.work("two-sided", is_guaranteed=True) == 2 * narrow.work(
        "larger", is_guaranteed=True
    )
    huge = rows(7e10, 2e11, 0.3, Laplace(scale=1e6), Laplace(scale=1e6))
    with pytest.raises(InvalidParameterError, match="too large for the exact test"):
        huge.largest("larger", huge.difference)


COUNT = pd.Series({"a": 7.0, "b": 3.0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nobs": pd.Series({"c": 12.0, "a": 8.0})}, "nobs must have the labels of count"),
        ({"value": pd.Series({"b": 0.1, "a": 0.2})}, "value must have the labels of count"),
        ({"nobs": [1.0, 2.0, 3.0]}, "arguments must have one length"),
        ({"nobs": [[1.0, 2.0]]}, "nobs must be a number or one-dimensional"),
        ({"nobs": 2 * LARGEST_TRIALS}, "nobs must be <="),
        ({"value": 1.0}, "value must be < 1"),
        ({"value": 1e-305}, "value must be >= 1e-300"),
        ({"count": [7.5, 3.0]}, "count must hold whole numbers"),
        ({"nobs": 12.5}, "nobs must hold whole numbers"),
        ({"nuisance_alpha": 0.5}, "nuisance_alpha must be < 0.5"),
    ],
)
def test_bad_arguments(arguments, message):
    given = {
        "count": COUNT,
        "nobs": 12.0,
        "value": 0.3,
        "mechanism": Geometric(scale=1.0),
        "nobs_mechanism": Geometric(scale=1.0),
    }
    with pytest.raises(InvalidParameterError, match=message):
        proportions_ztest(**(given | arguments))


def test_numbers_of_trials_go_by_label():
    noise, trials = Geometric(scale=1.0), pd.Series({"a": 12.0, "b": 8.0})
    first, second = (
        proportions_ztest(COUNT, held, 0.3, mechanism=noise, nobs_mechanism=noise).pvalue
        for held in (trials, trials[::-1])
    )
    assert first.equals(second)


def test_a_total_with_continuous_noise_of_its_part_may_be_a_fraction():
    test = rows(COUNT, 12.5, 0.3, Laplace(scale=1.0), Geometric(scale=1.0), is_total=True)
    assert test.shape == (2,)
    assert test.labels.to_list() == ["a", "b"]
    np.testing.assert_array_equal(test.trials, [12.0, 12.0])
