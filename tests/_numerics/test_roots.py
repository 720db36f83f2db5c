import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer._numerics.roots import find_root
from dpinfer.errors import ConvergenceError


def cubic(target):
    return lambda x, index: target[index] - x**3


def test_many_smooth_roots_to_full_accuracy():
    target = np.logspace(-9, 9, 10_000)
    low, high = find_root(cubic(target), np.zeros(10_000), np.full(10_000, 1e4), rtol=1e-15)
    assert np.max(np.abs(0.5 * (low + high) / np.cbrt(target) - 1.0)) < 1e-14
    assert np.all(low**3 <= target * (1 + 1e-13))


def test_few_evaluations_for_a_smooth_function():
    calls = []

    def excess(x, index):
        calls.append(len(x))
        return np.log(0.025) + x

    find_root(lambda x, i: -excess(x, i), np.zeros(1), np.full(1, 50.0))
    assert len(calls) < 10


def test_few_evaluations_where_one_end_comes_to_lie_on_the_root():
    calls = []

    def excess(x, index):
        calls.append(len(x))
        return np.exp(-x) - 1e-5

    low, high = find_root(excess, np.zeros(1), np.full(1, 50.0))
    assert abs(low[0] - 5.0 * np.log(10.0)) < 1e-12 * low[0]
    assert high[0] - low[0] <= 1e-13 * low[0]
    assert len(calls) < 20


def test_a_jump_is_bracketed():
    low, high = find_root(
        lambda x, index: np.where(x < np.pi, 1.0, -1.0), np.zeros(3), np.full(3, 100.0)
    )
    assert np.all((low < np.pi) & (high >= np.pi))
    assert np.all(high - low <= 1e-12)


def test_an_exact_zero_closes_the_bracket():
    low, high = find_root(lambda x, index: 2.0 - x, np.array([2.0, 0.0]), np.array([5.0, 2.0]))
    assert np.array_equal(low, [2.0, 2.0])
    assert np.array_equal(high, [2.0, 2.0])


def test_brackets_expand_both_ways():
    target = np.array([-1e6, -3.0, 0.5, 2e7])
    low, high = find_root(
        lambda x, index: target[index] - x, np.zeros(4), np.ones(4), expand=True, rtol=1e-14
    )
    assert np.allclose(low, target, rtol=1e-12)
    assert np.allclose(high, target, rtol=1e-12)


def test_no_sign_change_is_an_error():
    with pytest.raises(ConvergenceError, match="no sign change between 0"):
        find_root(lambda x, index: np.ones_like(x), np.zeros(1), np.ones(1))


def test_nothing_to_solve():
    low, high = find_root(lambda x, index: x, np.zeros(0), np.zeros(0))
    assert low.size == high.size == 0


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.floats(-8, 8),
    st.floats(0.1, 9.0),
    st.sampled_from([np.sinh, np.cbrt, np.arctan, lambda z: np.floor(8 * z)]),
)
def test_any_monotone_function(log_root, stretch, shape):
    root = 10.0**log_root

    def excess(x, index):
        return -shape(stretch * (np.minimum(x / root, 20.0 / stretch) - 1.0))

    low, high = find_root(excess, np.zeros(1), np.full(1, 10.0 * root))
    assert excess(low, 0) >= 0 >= excess(high, 0)
    assert high - low <= 1e-12 * root + 1e-300 or excess(high, 0) == 0


def test_functions_without_a_root_are_refused():
    with pytest.raises(ConvergenceError, match="no sign change between"):
        find_root(lambda x, index: np.ones_like(x), np.zeros(1), np.ones(1), expand=True)
    with pytest.raises(ConvergenceError, match="no sign change between"):
        find_root(lambda x, index: -np.ones_like(x), np.zeros(1), np.ones(1), expand=True)


def test_an_endless_search_is_given_up(monkeypatch):
    monkeypatch.setattr("dpinfer._numerics.roots.MAX_STEPS", 3)
    with pytest.raises(ConvergenceError, match="still open after 3 steps"):
        find_root(cubic(np.array([2.0])), np.zeros(1), np.array([1e9]))
