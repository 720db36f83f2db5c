"""The analyst's side of error estimates, with the tutorial's Example 4.2, questions 14 to 16."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpinfer import noisy
from dpinfer.curation import spend_on_error
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation import combine
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace
from dpinfer.privacy import PureDP, compose
from dpinfer.queries import Workload

UNIT = Laplace.from_epsilon(1.0)


def test_question_14_the_variance_after_rounding_up_depends_on_the_truth():
    # E max(f + e, 0) = f + e^-f/2 and E max(f + e, 0)² = f² + 2 - e^-f, for scale 1
    def variance(truth):
        return 2.0 - np.exp(-truth) * (1.0 + truth) - 0.25 * np.exp(-2.0 * truth)

    assert UNIT.variance == 2.0
    assert variance(0.0) == 0.75
    assert variance(7.0) == pytest.approx(1.9927047, abs=1e-7)
    assert variance(1000.0) == 2.0
    rng = np.random.default_rng(1)
    for truth in (0.0, 3.0, 7.0):
        draws = np.maximum(truth + UNIT.rvs(10**6, rng=rng), 0.0)
        # the standard error of the variance is at most 4.5e-3: more than six of them
        assert draws.var() == pytest.approx(variance(truth), abs=0.03)


def test_question_15_the_error_of_the_count_of_men():
    error = spend_on_error([3, 5], [0, 7], mechanism=UNIT, rng=42)
    assert error.sensitivity == 1.0
    assert error.nominal == PureDP(1.0)
    rng = np.random.default_rng(7)
    draws = np.array([spend_on_error(3, 0, mechanism=UNIT, rng=rng).estimate for _ in range(1000)])
    # (3 - 0) + Lap(1): six standard errors of a mean and of a share
    assert draws.mean() == pytest.approx(3.0, abs=6 * np.sqrt(2 / 1000))
    assert np.mean(draws > 3.0) == pytest.approx(0.5, abs=6 * 0.5 / np.sqrt(1000))


def test_question_16_interval_and_expenditure():
    error = spend_on_error(3, 0, mechanism=UNIT, release=PureDP(1.0), rng=42)
    lower, upper = error.conf_int(alpha=0.1)
    assert upper - error.estimate == pytest.approx(np.log(10), abs=1e-12)
    assert error.estimate - lower == pytest.approx(np.log(10), abs=1e-12)
    # published is 0: the same interval is one for the count of men
    value = error.value_conf_int(alpha=0.1)
    assert (value.lower, value.upper) == (lower, upper)
    # of a published 7 it is shifted by 7
    other = spend_on_error(5, 7, mechanism=UNIT, rng=42)
    shifted = other.value_conf_int(alpha=0.1)
    assert shifted.lower - other.conf_int(alpha=0.1).lower == pytest.approx(7.0)
    assert compose([PureDP(1.0), error.nominal]) == PureDP(2.0)
    assert "Would be: spent in all" in error.summary()


def test_signed_intervals_cover():
    rng = np.random.default_rng(11)
    truth = rng.integers(0, 6, 4000).astype(float)
    noisy = truth + UNIT.rvs(4000, rng=rng)
    error = spend_on_error(truth, np.maximum(noisy, 0.0).round(), mechanism=UNIT, rng=rng)
    # six standard errors of a share of 0.9 in 4,000 cells
    room = 6 * np.sqrt(0.09 / 4000)
    assert error.value_conf_int(alpha=0.1).contains(truth).mean() == pytest.approx(0.9, abs=room)
    both = error.corrected(noisy, mechanism=UNIT)
    assert both.conf_int(alpha=0.1).contains(truth).mean() == pytest.approx(0.9, abs=room)
    assert both.bse == pytest.approx(np.ones(4000))
    assert np.mean(both.params - truth) == pytest.approx(0.0, abs=6 / np.sqrt(4000))
    together = error.value_conf_int(alpha=0.1, simultaneous=True)
    assert together.simultaneous
    assert together.width[0] == pytest.approx(
        count_confint(np.zeros(4000), mechanism=UNIT, alpha=0.1, simultaneous=True).width[0]
    )


@pytest.mark.thinned("measure", "law", every=2)
@pytest.mark.parametrize("measure", ["l1", "squared"])
@pytest.mark.parametrize("law", [UNIT, Geometric(scale=3.0), Gaussian(sigma=2.0)])
def test_bounds_from_one_number_cover_all_values(measure, law):
    rng = np.random.default_rng(5)
    truth, published = np.array([3.0, 5.0, 9.0]), np.array([1.0, 6.0, 9.0])
    clip = 40.0 if measure == "squared" else None
    true_error = {"l1": 3.0, "squared": 5.0}[measure]
    hits, value_hits, reps = 0, 0, 300
    for _ in range(reps):
        error = spend_on_error(truth, published, mechanism=law, measure=measure, clip=clip, rng=rng)
        hits += error.conf_int(alpha=0.2).contains(true_error)
        value_hits += error.value_conf_int(alpha=0.2).contains(truth).all()
    # at least 0.8, less six standard errors
    least = 0.8 - 6 * np.sqrt(0.16 / reps)
    assert hits / reps >= least
    assert value_hits / reps >= least


def test_bounds_at_the_clip_and_below_zero():
    error = spend_on_error([50.0], [0.0], mechanism=UNIT, measure="squared", clip=2.0, rng=1)
    interval = error.value_conf_int()
    assert (interval.lower, interval.upper) == (-np.inf, np.inf)
    assert error.conf_int().upper <= 4.0
    assert error.value_conf_int(lower=0).lower == 0.0
    noise = [spend_on_error([5.0], [5.0], mechanism=UNIT, measure="l1", rng=s) for s in range(300)]
    negative = next(one for one in noise if one.estimate < -4.0)
    assert negative.value_conf_int(alpha=0.05).empty.all()
    assert negative.conf_int(alpha=0.05).empty
    one_sided = noise[0].value_conf_int(alpha=0.1).upper[0] - 5.0
    assert one_sided == pytest.approx(noise[0].estimate + UNIT.isf(0.1))
    normal = noise[0].value_conf_int(alpha=0.1, method="asymptotic").upper[0] - 5.0
    assert normal == pytest.approx(noise[0].estimate + stats.norm.isf(0.1) * np.sqrt(2))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Laplace(scale=1.0), Laplace(scale=2.0)),
        (Laplace(scale=1.0), Gaussian(sigma=3.0)),
        (Geometric(scale=2.0), Geometric(scale=3.0)),
        (Laplace(scale=[1.0, 2.0, 3.0]), Geometric(scale=2.0)),
        (Laplace(scale=2.0), Exact()),
    ],
)
def test_the_combination_is_that_of_least_squares(first, second):
    rng = np.random.default_rng(2)
    truth = np.array([3.0, 8.0, 20.0])
    error = spend_on_error(truth, [0.0, 9.0, 22.0], mechanism=first, rng=rng)
    noisy = truth + second.rvs((3,), rng=rng)
    both = error.corrected(noisy, mechanism=second)
    corrected = np.asarray(error.corrected().params)
    laws = [*(first.take(at) for at in range(3)), *(second.take(at) for at in range(3))]
    fit = combine(
        np.concatenate([corrected, noisy]),
        workload=Workload(np.vstack([np.eye(3), np.eye(3)])),
        mechanism=laws,
        target=np.eye(3),
    )
    np.testing.assert_allclose(both.params, fit.params, atol=1e-12)
    np.testing.assert_allclose(both.bse, fit.bse, atol=1e-12)
    for method in ("exact", "tail-bound", "asymptotic"):
        ours, theirs = both.conf_int(0.1, method), fit.conf_int(0.1, method)
        np.testing.assert_allclose(ours.upper, theirs.upper, rtol=1e-9)
        assert ours.simultaneous == theirs.simultaneous
    np.testing.assert_allclose(
        both.conf_int(0.1, simultaneous=True).upper,
        fit.conf_int(0.1, simultaneous=True).upper,
        rtol=1e-9,
    )


def test_the_corrected_value_owes_nothing_to_the_published_one():
    values = [
        spend_on_error(3.0, published, mechanism=UNIT, rng=3).corrected().params
        for published in (0.0, 100.0, -7.5)
    ]
    np.testing.assert_allclose(values, values[0], atol=1e-12)
    fit = spend_on_error(3.0, 0.0, mechanism=UNIT, rng=3).corrected()
    assert str(fit) == fit.summary()
    assert fit.weights == 0.0
    assert fit.bse == pytest.approx(np.sqrt(2))
    assert fit.conf_int(0.1).width == pytest.approx(2 * np.log(10))
    assert fit.conf_int(0.1, integer=True, lower=0).lower >= 0.0


def test_frames_and_summaries():
    index = pd.Index(["men", "women"])
    truth = pd.Series([3.0, 5.0], index=index)
    error = spend_on_error(truth, [0.0, 7.0], mechanism=UNIT, rng=1)
    frame = error.summary_frame(alpha=0.1)
    assert list(frame.columns) == [
        "published",
        "error",
        "std_err",
        "error_lower",
        "error_upper",
        "value_lower",
        "value_upper",
    ]
    np.testing.assert_allclose(frame["value_lower"], frame["published"] + frame["error_lower"])
    assert "men" in str(error)
    both = error.corrected(pd.Series([-3.0, 7.0], index=index), mechanism=UNIT)
    assert "both values" in both.summary()
    assert list(both.summary_frame()["published"]) == [0.0, 7.0]
    assert repr(both) == "CorrectedEstimate(2 values)"
    total = spend_on_error(truth, [0.0, 7.0], mechanism=UNIT, measure="squared", clip=3, rng=1)
    assert "Clipped at" in str(total)
    assert len(total.summary_frame()) == 1
    assert repr(total).startswith("ErrorEstimate(squared, 2 values")


def test_refusals():
    error = spend_on_error([3.0, 5.0], [0.0, 7.0], mechanism=UNIT, measure="l1", rng=1)
    with pytest.raises(IncompatibleReleaseError, match="signed"):
        error.corrected()
    with pytest.raises(InvalidParameterError, match="alpha"):
        error.value_conf_int(alpha=1.0)
    signed = spend_on_error(pd.Series({"a": 3.0}), [0.0], mechanism=UNIT, rng=1)
    for arguments, message in (
        (((1.0, 2.0), UNIT), "unprocessed must have the shape"),
        (((1.0,), None), "mechanism must be given"),
        ((pd.Series({"b": 3.0}), UNIT), "labels"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            signed.corrected(arguments[0], mechanism=arguments[1])
    with pytest.raises(InvalidParameterError, match="left out"):
        signed.corrected(mechanism=UNIT)
    with pytest.raises(InvalidParameterError, match="method"):
        signed.corrected().conf_int(method="bayes")
    with pytest.raises(InvalidParameterError, match="mechanism"):
        signed.corrected([1.0], mechanism="laplace")


def test_unprocessed_values_may_be_a_release_with_its_law():
    cells = noisy(pd.Series({"a": 1.0, "b": 6.0}), mechanism=UNIT)
    error = spend_on_error(pd.Series({"a": 3.0, "b": 5.0}), [0.0, 7.0], mechanism=UNIT, rng=1)
    fit = error.corrected(cells)
    same = error.corrected(pd.Series({"a": 1.0, "b": 6.0}), mechanism=UNIT)
    assert fit.params.equals(same.params)
    assert fit.bse.equals(same.bse)
    selected = noisy([1.0, 6.0], mechanism=UNIT, threshold=0.5)
    with pytest.raises(DPInferError, match="corrected"):
        error.corrected(selected)
    sums = cells.linear([[1, 1], [1, -1]])
    with pytest.raises(DPInferError, match="corrected"):
        error.corrected(sums)
