"""Tails in closed form, beside sums of many digits."""

import mpmath
import numpy as np
import pytest

from dpinfer.intervals.proportions._beta_tails import FINE
from dpinfer.intervals.proportions._edges import Edge
from dpinfer.intervals.proportions._tilted import TiltedTails
from dpinfer.mechanisms import Geometric, Laplace, Tulap


def probabilities(n, p):
    """All P(X = j) that matter, with 64-bit mantissas: products of ratios around the mode."""
    with mpmath.workdps(40):
        odds = mpmath.mpf(p) / (1 - mpmath.mpf(p))
        mode = min(int((n + 1) * p), n)
        log_peak = mode * mpmath.log(odds) + n * mpmath.log(1 - mpmath.mpf(p))
        peak = np.longdouble(str(mpmath.binomial(n, mode) * mpmath.exp(log_peak)))
        odds = np.longdouble(str(odds))
    reach = int(40 * np.sqrt(n * p * (1 - p))) + 100
    up = np.arange(mode, min(mode + reach, n), dtype=np.longdouble)
    down = np.arange(mode, max(mode - reach, 0), -1, dtype=np.longdouble)
    above = np.cumprod((n - up) / (up + 1) * odds)
    below = np.cumprod(down / ((n - down + 1) * odds))
    j = np.arange(mode - down.size, mode + up.size + 1, dtype=np.longdouble)
    return j, peak * np.concatenate([below[::-1], [np.longdouble(1)], above])


def by_sum(n, p, edge):
    """Tail and three derivatives in the logit: Σ_j P(X = j)·K(j)·h(j)."""
    k, rate, near, far = (np.longdouble(np.asarray(x).item()) for x in edge)
    j, pmf = probabilities(n, p)
    reached = near * np.exp(-rate * np.maximum(k - j, 0))
    reached = np.where(j <= k, reached, 1 - far * np.exp(-rate * np.maximum(j - k - 1, 0)))
    q = 1 - np.longdouble(p)
    d, v = j - n * np.longdouble(p), n * np.longdouble(p) * q
    moments = (1, d, d**2 - v, d**3 - 3 * v * d - v * (1 - 2 * np.longdouble(p)))
    return [float(np.sum(pmf * reached * h)) for h in moments]


def check(noise, n, p, t, rtol):
    edge = Edge.of(noise, np.array([t]), mid=False)
    at = TiltedTails(nobs=np.array([n + 0.0]), edge=edge).at(np.log([p / (1.0 - p)]), FINE)
    expected = by_sum(n, p, edge)
    np.testing.assert_allclose(at.tail, expected[0], rtol=rtol)
    # each derivative is a difference of terms as large as the gain times the one before
    size = max(at.gain.item(), abs(t - n * p), np.sqrt(n * p * (1.0 - p)), 1.0)
    for order in (1, 2, 3):
        assert abs(at[order].item() - expected[order]) <= 5.0 * rtol * size**order * expected[0]


KINDS = pytest.mark.parametrize("kind", [Laplace, Geometric, Tulap])


@KINDS
@pytest.mark.parametrize("scale", [0.01, 0.3, 2.0, 30.0, 1e4])
@pytest.mark.parametrize("n", [1, 5, 40, 500])
def test_tails_and_slopes(kind, scale, n):
    """Whole and broken values; p below t/n, where the tail is small."""
    for share in (0.0, 0.2, 0.5, 0.9):
        for p in (1e-6, 0.3 * share + 0.01, max(share - 0.05, 0.02)):
            whole = float(np.floor(share * n)) + 1.0
            t = whole if kind is Geometric else whole - 0.7
            check(kind(scale=scale), n, p, t, 2e-12)


@KINDS
@pytest.mark.parametrize("scale", [0.5, 1e3])
def test_a_million_trials(kind, scale):
    check(kind(scale=scale), 10**6, 0.001, 1100.0, 1e-11)
    check(kind(scale=scale), 10**6, 0.999, 999_080.0, 1e-11)
    check(kind(scale=scale), 10**6, 1e-6, 8.0, 1e-11)
