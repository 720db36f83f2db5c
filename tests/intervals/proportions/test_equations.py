"""Ends of intervals from closed forms, beside sums of many digits over all counts."""

import mpmath
import numpy as np
import pytest
from scipy import special

from dpinfer.intervals import proportion_confint
from dpinfer.mechanisms import Exact, Geometric, Laplace, Tulap

KINDS = pytest.mark.parametrize("kind", [Laplace, Geometric, Tulap])
METHODS = pytest.mark.parametrize("method", ["exact", "mid-p"])


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
    return j.astype(float), peak * np.concatenate([below[::-1], [np.longdouble(1)], above])


def by_sum(n, p, noise, t, side, method):
    """P(X + e >= t), or <= t for side -1; with half of the atom at t for mid-p."""
    j, pmf = probabilities(n, p)
    reached = noise.cdf(side * (j - t))
    if method == "mid-p":
        reached = 0.5 * (reached + noise.sf(side * (t - j)))
    return float(np.sum(pmf * reached))


def check(noise, n, t, alpha, method="exact", rtol=2e-11):
    """Return how many ends were found inside (0, 1), each of which satisfies its equation."""
    found = 0
    lower, upper = proportion_confint(t, n, mechanism=noise, alpha=alpha, method=method)
    for side, end in ((1, float(lower)), (-1, float(upper))):
        if 0.0 < end < 1.0:
            found += 1
            tail = by_sum(n, end, noise, t, side, method)
            # |d log P/dp| <= n/(1 - p), of which the end has half a rounding unit
            assert abs(tail / (alpha / 2) - 1.0) <= rtol + 2.3e-16 * n / (1.0 - end)
    return found


@pytest.mark.thinned("kind", "method", "scale", "n", every=2)
@KINDS
@METHODS
@pytest.mark.parametrize("scale", [0.01, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("n", [1, 5, 40, 500])
@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.study)])
def test_ends_satisfy_their_equations(kind, method, scale, n, each):
    """Whole and broken values, ends close to the estimate and far away.

    One level in turn, another at the next share and the next scale, or all.
    """
    noise = kind(scale=scale)
    for row, share in enumerate((-0.2, 0.0, 0.2, 0.5, 0.9, 1.1)):
        whole = float(np.floor(share * n)) + 1.0
        t = whole if kind is Geometric else whole - 0.7
        start = (row + (scale in (0.3, 30.0))) % each
        for alpha in (0.8, 0.05, 1e-6, 1e-12)[start::each]:
            check(noise, n, t, alpha, method)


@KINDS
@METHODS
@pytest.mark.parametrize("scale", [0.5, 1e3])
def test_a_million_trials(kind, method, scale):
    for t in (8.0, 1100.0, 400_000.0, 999_080.0):
        # the counts alone are spread over up to 500, and wide noise over 1e3
        assert check(kind(scale=scale), 10**6, t, 0.05, method, rtol=1e-10) or scale > t / 9


@pytest.mark.thinned("n", "alpha", every=3)
@pytest.mark.parametrize("n", [1, 2, 5, 40, 500, 20_000, 10**6])
@pytest.mark.parametrize("alpha", [0.9, 0.05, 1e-9, 1e-40])
def test_hardly_any_noise_leaves_the_quantiles_of_beta_laws(n, alpha):
    """Those of Clopper and Pearson, for small and large shares."""
    count = np.unique(np.round(np.array([0, 1e-6, 1e-3, 0.03, 0.3, 0.5, 0.7, 0.97, 1]) * n))
    count = np.unique(np.r_[count, 1, n - 1, n])
    lower = np.where(
        count > 0, special.betaincinv(np.maximum(count, 1), n - count + 1, alpha / 2), 0
    )
    upper = np.where(
        count < n, special.betainccinv(count + 1, np.maximum(n - count, 1), alpha / 2), 1
    )
    for noise in (Exact(), Geometric(scale=1e-3), Laplace(scale=1e-4)):
        shift = 0.5 if isinstance(noise, Laplace) else 0.0
        for side, wanted in (("larger", lower), ("smaller", upper)):
            # continuous noise that never leaves the half-open unit around its count
            t = count - shift if side == "larger" else count + shift
            found = proportion_confint(t, n, mechanism=noise, alpha=alpha / 2, alternative=side)
            end = found.lower if side == "larger" else found.upper
            keep = np.isfinite(wanted) & (wanted > 1e-300)
            np.testing.assert_allclose(end[keep], wanted[keep], rtol=1e-9)


def test_laws_of_rows():
    scale = np.linspace(0.5, 30.0, 40)
    t = np.linspace(-3.0, 45.0, 40)
    many = proportion_confint(t, 40, mechanism=Laplace(scale=scale), method="mid-p")
    for row in range(40):
        alone = proportion_confint(t[row], 40, mechanism=Laplace(scale=scale[row]), method="mid-p")
        np.testing.assert_allclose([*alone], [many.lower[row], many.upper[row]], rtol=1e-12)
        check(Laplace(scale=scale[row]), 40, t[row], 0.05, "mid-p")


def test_values_beyond_all_counts_have_an_explicit_end():
    n, t, scale, alpha = 12, 18.3, 4.0, 0.1
    p = proportion_confint(
        t, n, mechanism=Laplace(scale=scale), alpha=alpha, alternative="larger"
    ).lower
    tail = 0.5 * np.exp(-t / scale) * (1.0 + p * np.expm1(1.0 / scale)) ** n
    np.testing.assert_allclose(tail, alpha, rtol=1e-13)
