"""Two tables: enumeration, simulation, χ² for Gaussian noise, fuzzing."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import counts_2indep, counts_paired
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Tulap

BEFORE, AFTER = np.array([12.0, 30.0, 7.0]), np.array([14.0, 27.0, 7.0])
REACH = 30


def enumerated(scale, z_of, observed):
    """P(statistic >= observed) over all differences of two geometric noises in three cells."""
    one = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / scale)
    chances = np.convolve(one / one.sum(), one / one.sum())
    values = np.arange(-2 * REACH, 2 * REACH + 1)
    a, b, c = np.meshgrid(values, values, values, indexing="ij", sparse=True)
    joint = chances[:, None, None] * chances[:, None] * chances
    return joint[z_of(a, b, c) >= observed].sum()


def test_largest_enumerated():
    for after in ([14, 27, 7], [12, 30, 7], [12, 30, 8], [2, 30, 7]):
        result = counts_paired(BEFORE, after, mechanism=Geometric(scale=1.0))
        largest = np.abs(BEFORE - after).max()
        expected = enumerated(
            1.0, lambda a, b, c: np.maximum(np.maximum(abs(a), abs(b)), abs(c)), largest
        )
        assert result.method == "exact"
        assert result.pvalue == pytest.approx(expected, abs=2e-12)


@pytest.mark.parametrize("after", [[14, 27, 7], [12, 30, 7], [2, 30, 7]], ids=str)
def test_lower_tail_of_the_largest_enumerated(after):
    result = counts_paired(BEFORE, after, mechanism=Geometric(scale=1.0))
    largest = np.abs(BEFORE - after).max()
    expected = enumerated(
        1.0, lambda a, b, c: -np.maximum(np.maximum(abs(a), abs(b)), abs(c)), -largest
    )
    found = result.null_distribution.pvalue(result.statistic, "smaller")
    assert found == pytest.approx(expected, abs=2e-12)


@pytest.mark.parametrize(
    "pair", [(Laplace(scale=3.0), Exact()), (Geometric(scale=[1.0, 2.0, 3.0]), Exact())], ids=repr
)
def test_lower_tail_is_the_product_over_the_cells(pair):
    """P(max <= t) from the distribution functions; whole differences carry their atoms."""
    law = pair[0]
    result = counts_paired(BEFORE, AFTER, mechanism=pair)
    for size in (0.0, 1.0, 3.0, 10.0):
        at = size / law.std
        inside = 1.0 - 2.0 * law.sf(law.std * np.max(at) * (1 + 1e-12))
        expected = np.prod(np.broadcast_to(inside, 3))
        found = result.null_distribution.pvalue(np.max(at), "smaller")
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-14)
    assert result.null_distribution.pvalue(-1.0, "smaller") == 0.0


def test_squares_enumerated():
    reps = 50_000
    result = counts_paired(
        BEFORE, AFTER, mechanism=Geometric(scale=1.0), statistic="chi2", reps=reps, rng=1
    )
    expected = enumerated(1.0, lambda a, b, c: a**2 + b**2 + c**2, 13)
    # within 6 standard errors, and the replicate that is counted: chance 2e-9
    error = 6 * np.sqrt(expected * (1 - expected) / reps) + 1 / (reps + 1)
    assert abs(result.pvalue - expected) <= error


def test_gaussian_squares_are_chi2():
    pair = (Gaussian(sigma=3.0), Gaussian(sigma=[4.0, 1.0, 2.0]))
    result = counts_paired(BEFORE, AFTER, mechanism=pair, statistic="chi2", method="asymptotic")
    q = np.sum((BEFORE - AFTER) ** 2 / (9 + np.array([16.0, 1.0, 4.0])))
    assert result.statistic == pytest.approx(q, rel=1e-12)
    assert result.pvalue == pytest.approx(stats.chi2.sf(q, 3), rel=1e-12)


def test_methods_agree_with_mixed_noise():
    pair = (Laplace(scale=2.0), Gaussian(sigma=[4.0, 1.0, 2.0]))
    exact = counts_paired(BEFORE, AFTER, mechanism=pair)
    simulated = counts_paired(
        BEFORE, AFTER, mechanism=pair, method="monte-carlo", reps=50_000, rng=3
    )
    p = float(exact.pvalue)
    # within 6 standard errors, and the replicate that is counted: chance 2e-9
    assert abs(simulated.pvalue - p) <= 6 * np.sqrt(p * (1 - p) / 50_000) + 1 / 50_001
    assert simulated.statistic == exact.statistic


@pytest.mark.parametrize("other", [Laplace(scale=2.0), Exact()])
def test_one_cell_is_the_test_of_two_counts(other):
    pair = (Laplace(scale=3.0), other)
    table = counts_paired([14.0], [10.0], mechanism=pair)
    single = counts_2indep([14.0], [10.0], mechanism=pair)
    assert table.pvalue == pytest.approx(single.pvalue[0], rel=1e-9)


@pytest.mark.parametrize("other", [Geometric(scale=2.0), DiscreteGaussian(sigma=20.0)])
@pytest.mark.parametrize("change", [100.0, 300.0, 700.0])
def test_far_tails_are_those_of_two_counts(other, change):
    # P(max of two >= t) = 2·p - p², which is 2·p here
    found = counts_paired([1000.0, 300.0], [1000.0 - change, 300.0], mechanism=other)
    one = counts_2indep(1000.0, 1000.0 - change, mechanism=other)
    assert found.pvalue == pytest.approx(2.0 * one.pvalue - one.pvalue**2, rel=1e-9)


def test_no_pvalue_below_its_error():
    found = counts_paired([1000.1, 300.2], [300.0, 300.3], mechanism=Tulap(scale=2.0))
    one = counts_2indep(1000.1, 300.0, mechanism=Tulap(scale=2.0))
    assert found.pvalue >= found.pvalue_error >= 2.0 * one.pvalue_error


def test_a_hundred_thousand_cells():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 100, 100_000)
    b = a + Geometric(scale=2.0).rvs(a.size, rng=rng) - Geometric(scale=2.0).rvs(a.size, rng=rng)
    # a p-value: below 1e-9 by accident with that chance
    assert 1e-9 < counts_paired(a, b, mechanism=Geometric(scale=2.0)).pvalue <= 1


@pytest.mark.parametrize(
    ("statistic", "method"),
    list(itertools.product(["max"], ["exact", "monte-carlo"]))
    + list(itertools.product(["chi2"], ["asymptotic", "monte-carlo"])),
)
def test_null_distribution_gives_the_pvalue(statistic, method):
    result = counts_paired(
        BEFORE, AFTER, mechanism=Geometric(scale=2.0), statistic=statistic, method=method, rng=1
    )
    for one in (result, pickle.loads(pickle.dumps(result))):
        found = one.null_distribution.pvalue(one.statistic, "larger")
        assert found == pytest.approx(float(result.pvalue), rel=1e-12)


def test_labels():
    a = pd.Series(BEFORE, index=list("abc"))
    noise = Laplace(scale=2.0)
    one = counts_paired(a, a + 1, mechanism=noise).pvalue
    assert counts_paired(a, (a + 1)[::-1], mechanism=noise).pvalue == one < 1
    with pytest.raises(InvalidParameterError, match="labels"):
        counts_paired(a, a.rename({"a": "z"}), mechanism=noise)


def test_what_is_refused():
    noise = Laplace(scale=2.0)
    for keywords in ({"statistic": "chi2", "method": "exact"}, {"method": "asymptotic"}):
        with pytest.raises(InvalidParameterError, match="method"):
            counts_paired(BEFORE, AFTER, mechanism=noise, **keywords)
    with pytest.raises(InvalidParameterError, match="noise"):
        counts_paired(BEFORE, AFTER, mechanism=Exact())


ODD = st.sampled_from(
    [
        None, True, "a", {}, [], [[]], [1], [1, 2], [1.5, 2], [1, 2, 3], [[1, 2], [3, 4]],
        float("nan"), float("inf"), [1, float("nan")], 1e300, [1e300, 1], 0, 5, 1j, [None, 1],
        object(), [1e100, -1e100],
    ]
)  # fmt: skip
WORDS = st.sampled_from(["max", "chi2", "exact", "asymptotic", "z", None, [], {}, 1, True])


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ODD, ODD, st.sampled_from([Laplace(scale=2.0), Geometric(scale=2.0)]), WORDS, WORDS)
def test_only_own_errors_escape(first, second, noise, statistic, method):
    for words in ({}, {"statistic": statistic}, {"statistic": statistic, "method": method}):
        try:
            result = counts_paired(first, second, mechanism=noise, reps=99, rng=1, **words)
        except DPInferError:
            continue
        assert np.isfinite(result.statistic)
        assert 0 <= result.pvalue <= 1
