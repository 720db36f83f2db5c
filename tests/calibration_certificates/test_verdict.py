"""The rule of the verdict: its error probability, by enumeration of the binomial law."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer import DPInferError
from dpinfer.calibration import Certificate, replicates_to_decide
from dpinfer.errors import InvalidParameterError
from dpinfer.results.null import clopper_pearson

TRIALS = (1, 2, 19, 200, 1500)
LIMITS = (0.011, 0.06, 0.5)
ERRORS = (1e-3, 0.05)


def verdicts(events, trials, limit, error):
    """Verdicts on rates of so many errors in so many trials."""
    found = np.atleast_1d(events)
    reps = np.broadcast_to(trials, found.shape)
    return Certificate(
        procedure="p",
        kind="size",
        alpha=limit,
        labels=("",) * found.size,
        error_rate=found / np.maximum(reps, 1),
        reps=reps.astype(int),
        margin=0.0,
        error=error * found.size,
    ).verdicts


@pytest.mark.thinned("trials", "limit", "error", every=2)
@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("error", ERRORS)
def test_error_probability_by_enumeration(trials, limit, error):
    x = np.arange(trials + 1)
    found = verdicts(x, trials, limit, error)
    for rate in np.r_[limit, limit * np.linspace(0.05, 1, 20), np.linspace(limit, 1, 20)]:
        chance = stats.binom.pmf(x, trials, rate)
        wrongly = "fails" if rate <= limit else "holds"
        assert chance[found == wrongly].sum() <= error * (1 + 1e-9)
    # at the limit itself neither is said more often than that
    chance = stats.binom.pmf(x, trials, limit)
    assert max(chance[found == "fails"].sum(), chance[found == "holds"].sum()) <= error * (1 + 1e-9)


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("error", ERRORS)
def test_as_many_verdicts_as_that_allows(trials, limit, error):
    """One count more on either side would exceed the error probability."""
    x = np.arange(trials + 1)
    found = verdicts(x, trials, limit, error)
    first_open, last_open = np.flatnonzero(found == "undecided")[[0, -1]]
    assert stats.binom.cdf(first_open, trials, limit) > error
    assert stats.binom.sf(last_open - 1, trials, limit) > error
    assert (np.sort(np.unique(found)) == np.unique(found)).all()
    order = {"holds": 0, "undecided": 1, "fails": 2}
    assert (np.diff([order[name] for name in found]) >= 0).all()


@pytest.mark.parametrize("error", ERRORS)
def test_the_verdict_is_that_of_the_bounds(error):
    trials = np.repeat([10, 500, 3000], 11)
    x = np.concatenate([np.linspace(0, n, 11).astype(int) for n in (10, 500, 3000)])
    for limit in (0.0501, 0.3, 0.71):
        low, high = clopper_pearson(x, trials, error)
        by_bounds = np.where(high <= limit, "holds", np.where(low > limit, "fails", "undecided"))
        np.testing.assert_array_equal(verdicts(x, trials, limit, error), by_bounds)


def test_bounds_of_clopper_and_pearson_solve_the_binomial_tails():
    x, n = np.array([0, 1, 7, 40, 40]), np.array([40, 40, 40, 40, 0])
    x[-1] = 0
    low, high = clopper_pearson(x, n, 0.01)
    np.testing.assert_allclose(stats.binom.sf(x[1:4] - 1, n[1:4], low[1:4]), 0.01, rtol=1e-9)
    np.testing.assert_allclose(stats.binom.cdf(x[:3], n[:3], high[:3]), 0.01, rtol=1e-9)
    assert low[0] == 0.0
    assert high[3] == 1.0
    assert (low[-1], high[-1]) == (0.0, 1.0)


@pytest.mark.thinned("alpha", "margin", "error", every=2)
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("margin", [0.05, 0.3])
@pytest.mark.parametrize("error", [1e-9, 1e-3])
def test_planned_replicates_decide(alpha, margin, error):
    reps = replicates_to_decide(alpha, margin=margin, error=error)
    x = np.arange(int(stats.binom.isf(1e-12, reps, alpha)) + 1)
    found = verdicts(x, reps, alpha * (1.0 + margin), error)
    assert stats.binom.pmf(x, reps, alpha)[found == "holds"].sum() >= 0.99
    fewer = int(0.9 * reps)
    found = verdicts(x, fewer, alpha * (1.0 + margin), error)
    assert stats.binom.pmf(x, fewer, alpha)[found == "holds"].sum() < 0.99


def test_exact_rates_are_compared_as_they_are():
    rates = np.array([0.05, 0.05 * (1 + 1e-12), 0.0501, 0.0])
    known = {"kind": "size", "alpha": 0.05, "labels": tuple("abcd"), "margin": 0.0}
    found = Certificate(
        procedure="p", **known, error_rate=rates, reps=np.zeros(4, int), exact=True
    ).verdicts
    assert found.tolist() == ["holds", "holds", "fails", "holds"]


def test_nothing_published_is_undecided():
    assert verdicts([0.0], [0.0], 0.05, 0.01).tolist() == ["undecided"]


@given(
    alpha=st.one_of(st.floats(allow_nan=True), st.none(), st.text()),
    margin=st.floats(allow_nan=True),
    error=st.floats(allow_nan=True),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_planning_refuses_or_answers(alpha, margin, error):
    with contextlib.suppress(DPInferError):
        assert replicates_to_decide(alpha, margin=margin, error=error) >= 1


def test_margins_that_leave_nothing_to_decide():
    with pytest.raises(InvalidParameterError, match=r"margin must be below 1 for alpha = 0\.5"):
        replicates_to_decide(0.5, margin=1.0)
    with pytest.raises(InvalidParameterError, match="margin must be larger"):
        replicates_to_decide(0.05, margin=1e-6)
