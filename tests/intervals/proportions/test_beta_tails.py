"""Binomial tails relative to their first term."""

import numpy as np
import pytest

from dpinfer.intervals.proportions._beta_tails import COARSE, FINE, tail_ratio


def by_sum(j, rest, odds):
    """Σ_i P(X = j + i)/P(X = j), with 64-bit mantissas."""
    i = np.arange(min(int(rest), 100_000), dtype=np.longdouble)
    return float(1 + np.sum(np.cumprod((rest - i) / (j + 1 + i) * np.longdouble(odds))))


@pytest.mark.parametrize("n", [1, 2, 5, 40, 500, 20_000, 10**6])
@pytest.mark.parametrize("deviations", [0.0, 0.3, 2.0, 6.0])
def test_agrees_with_the_sum(n, deviations):
    """From the middle of the law outwards, for small and large shares."""
    share = np.array([1e-6, 1e-3, 0.03, 0.3, 0.5, 0.7, 0.97, 0.999])
    j = np.unique(np.clip(np.round(share * n), 1, n))
    mean = np.minimum(j / n, 1.0 - 0.5 / n)
    p = mean / (1.0 + deviations * np.sqrt((1.0 - mean) / j))
    odds = p / (1.0 - p)
    expected = [by_sum(*row) for row in zip(j, n - j, odds, strict=True)]
    np.testing.assert_allclose(tail_ratio(j, n - j, odds, FINE), expected, rtol=5e-13)
    np.testing.assert_allclose(tail_ratio(j, n - j, odds, COARSE), expected, rtol=3e-5)


def test_all_trials_are_one_term():
    j = np.array([1.0, 7.0, 1e6])
    np.testing.assert_allclose(
        tail_ratio(j, np.zeros(3), np.array([0.2, 5.0, 1e9]), FINE), 1.0, rtol=2e-13
    )


def test_extreme_odds():
    """Where nothing follows the first term, and where the last one is nearly all there is."""
    tiny = tail_ratio(np.array([3.0]), np.array([1e5]), np.array([1e-170]), FINE)
    np.testing.assert_allclose(tiny, 1.0, rtol=1e-13)
    # j = n - 1: P(X >= j)/P(X = j) = 1 + odds/n
    one_more = tail_ratio(np.array([4.0]), np.array([1.0]), np.array([1e3]), FINE)
    np.testing.assert_allclose(one_more, 1.0 + 1e3 / 5.0, rtol=1e-12)
