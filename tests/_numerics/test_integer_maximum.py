"""Maxima over whole numbers against brute force."""

import numpy as np
import pytest

from dpinfer._numerics.roots import ENUMERATED, evaluated, largest_over_integers


def test_largest_over_integers_enumerates_short_ranges():
    rng = np.random.default_rng(3)
    values = rng.random((6, 500))  # as rough as can be
    low, high = np.array([0, 3, 10, 0, 499, 7]) * 1.0, np.array([499, 3, 30, 100, 499, 450]) * 1.0

    def tail(n, rows):
        return values[rows, n.astype(int)]

    expected = [values[i, int(low[i]) : int(high[i]) + 1].max() for i in range(6)]
    np.testing.assert_array_equal(largest_over_integers(tail, low, high), expected)


@pytest.mark.parametrize("peak", [0.0, 12_345.0, 999_999.0])
def test_largest_over_integers_zooms_into_long_ranges(peak):
    def tail(n, rows):
        return 1.0 / (1.0 + np.abs(n - peak) / 1e4)

    found = largest_over_integers(tail, np.zeros(1), np.array([1e6]))
    assert found[0] == 1.0
    assert ENUMERATED < 1e6


def test_the_work_is_known_before():
    high = np.array([0.0, 10.0, ENUMERATED - 1.0, ENUMERATED, 1e5, 1e7, 1e9])
    found = evaluated(np.zeros(high.size), high)
    for end, guess in zip(high, found, strict=True):
        tried = []

        def tail(n, rows, tried=tried, end=end):
            tried.extend(n)
            return 1.0 / (1.0 + np.abs(n - 0.3 * end))

        largest_over_integers(tail, np.zeros(1), np.array([end]))
        if end < ENUMERATED:
            assert len(tried) == guess
        else:
            assert 0.5 < len(tried) / guess < 2.0
