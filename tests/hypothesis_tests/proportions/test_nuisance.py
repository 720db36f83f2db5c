"""Maxima over a nuisance parameter against brute force."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.hypothesis_tests.proportions._nuisance import (
    ENUMERATED,
    certified_maximum,
    largest_over_integers,
)


@pytest.mark.parametrize("event", [range(7, 21), range(12, 15), [0, 5, 10, 15, 20], [3]])
@pytest.mark.parametrize(("low", "high"), [(0.1, 1.4), (0.6, 0.9), (0.3, 0.3)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_certified_maximum_bounds_the_chance_of_any_event(event, low, high, tolerance):
    """Events of Binomial(20, p), whatever their shape; the angle carries the information 4·20."""

    def chance(x):
        return stats.binom.pmf(np.array(event)[:, None], 20, np.sin(x) ** 2).sum(axis=0)

    found = certified_maximum(chance, low, high, 80.0, tolerance)
    largest = chance(np.linspace(low, high, 100_001)).max()
    assert largest - 1e-12 <= found <= largest + tolerance + 1e-9


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
