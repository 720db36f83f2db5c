"""Odd arguments of the functions that compose: clear errors only, and no NaN."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError
from dpinfer.mechanisms import Geometric, Laplace, RandomizedResponse
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BudgetAllocation,
    BudgetLedger,
    PureDP,
    RepeatedDP,
    amplify,
    compose,
    compose_advanced,
    compose_optimal,
    compose_parallel,
)

GUARANTEES = [
    PureDP(0.0),
    PureDP(1e-300),
    PureDP(1e100),
    PureDP(1.0, neighbours="replace"),
    ApproxDP(0.0, 0.0),
    ApproxDP(1.0, 1e-300),
    ApproxDP(700.0, 0.999),
    ZCDP(1e-300),
    ZCDP(1e100),
    GDP(1e-100),
    GDP(1e100),
    RDP(1.0 + 1e-12, 1e200),
    RDP([2.0, 1e100], [0.0, 1e-300]),
    RepeatedDP(1e-8, 0.0, 10**7),
    RepeatedDP(700.0, 1e-10, 3),
    amplify(PureDP(1.0), rate=1e-100),
]
ODD = [None, 1.0, "a", np.nan, [], PureDP]
NUMBERS = st.one_of(
    st.floats(), st.floats(0, 1), st.integers(-2, 10**12), st.sampled_from([None, "a", [], 1j])
)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(GUARANTEES + ODD), max_size=3), NUMBERS, NUMBERS)
def test_only_clear_errors(parts, first, second):
    ledger = BudgetLedger(ApproxDP(1.0, 1e-6), accounting="zcdp")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            lambda: compose(parts),
            lambda: compose(parts, delta=first),
            lambda: compose_parallel(parts),
            lambda: compose_advanced(parts, first),
            lambda: compose_advanced(parts, first, method="kairouz"),
            lambda: compose_optimal(parts[0] if parts else None, second),
            lambda: RepeatedDP(first, second, 3),
            lambda: RepeatedDP(1.0, first, second),
            lambda: BudgetLedger(parts[0] if parts else None),
            lambda: ledger.record("a", parts[0] if parts else None),
            lambda: ledger.record("b", mechanism=Laplace(scale=1.0), sensitivity=first),
            lambda: ledger.total("advanced", delta=first),
            lambda: ledger.totals(first),
            lambda: BudgetAllocation(first, second, parts),
            lambda: BudgetAllocation.from_numerators(first, parts, second),
        ):
            try:
                answer = call()
            except DPInferError:
                continue
            if hasattr(answer, "delta_at"):
                assert np.isfinite(answer.delta_at([0.0, 1.0, 700.0])).all()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_curves_are_finite_everywhere(guarantee):
    grid = np.array([0.0, 1e-300, 1e-8, 1.0, 700.0, 1e100])
    deltas = guarantee.delta_at(grid)
    assert ((deltas >= 0) & (deltas <= 1)).all()
    assert (np.diff(deltas) <= 1e-15).all()
    for delta in (1e-300, 1e-12, 0.5, 1 - 1e-16):
        try:
            epsilon = guarantee.epsilon_at(delta)
        except DPInferError as error:
            assert "no finite epsilon" in str(error)  # noqa: PT017 - each δ may or may not have one
            continue
        assert np.isfinite(epsilon)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_copies_are_equal(guarantee):
    for other in (pickle.loads(pickle.dumps(guarantee)), copy.deepcopy(guarantee)):
        assert other == guarantee
        assert hash(other) == hash(guarantee)
        assert repr(other) == repr(guarantee)


def test_extreme_compositions():
    for epsilon in (1e-8, 1e-3, 1.0, 700.0):
        for count in (1, 10, 10**6):
            repeated = compose_optimal(PureDP(epsilon), count)
            values = repeated.epsilon_at(np.array([1e-300, 1e-30, 1e-6]))
            assert np.isfinite(values).all()
            assert (values >= 0).all()
            assert (values <= count * epsilon * (1 + 1e-15)).all()
            deltas = repeated.delta_at(np.array([0.0, 1e-8, 1.0, 700.0]))
            assert ((deltas >= 0) & (deltas <= 1)).all()


def test_ledger_of_a_survey_and_a_table():
    ledger = BudgetLedger(PureDP(3.0, neighbours="replace"))
    ledger.record("survey", mechanism=RandomizedResponse.from_epsilon(1.0))
    ledger.record("table", mechanism=Geometric(scale=2.0), sensitivity=2)
    assert ledger.spent.epsilon == pytest.approx(2.0)
