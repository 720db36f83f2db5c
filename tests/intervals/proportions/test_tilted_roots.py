"""Ends of intervals from closed forms: their equations, and the same ends from sums."""

import numpy as np
import pytest
from scipy import special

from dpinfer.hypothesis_tests import proportions_ztest
from dpinfer.intervals import proportion_confint
from dpinfer.mechanisms import Geometric, Laplace, Tulap, WeightedSum

KINDS = pytest.mark.parametrize("kind", [Laplace, Geometric, Tulap])


def published(kind, size, largest, seed, *, own_scales=True):
    """Rare and frequent outcomes, few and many trials, narrow and wide noise."""
    rng = np.random.default_rng(seed)
    noise = kind(scale=10.0 ** rng.uniform(-2, 4, size if own_scales else None))
    n = np.floor(largest ** rng.uniform(0, 1, size))
    count = rng.binomial(n.astype(int), special.expit(rng.normal(0, 4, size)))
    return noise, n, count + noise.rvs(size, rng=rng) + 0.0


def check(noise, t, n, end, side, probability, rtol):
    """One tail at each end; a proportion near 1 is a multiple of 1.1e-16, and may be the next."""
    inside = np.flatnonzero((end > 0.0) & (end < 1.0))
    t, n, p, noise = t[inside], n[inside], end[inside], noise.take(inside)
    alternative = "larger" if side > 0 else "smaller"
    tail = proportions_ztest(t, n, p, mechanism=noise, alternative=alternative).pvalue
    # |d log P/dp| <= n/(1 - p)
    rounding = 2.3e-16 * n / (1.0 - p)
    assert (np.abs(tail / probability - 1.0) <= rtol + rounding).all()


@KINDS
def test_ends_satisfy_their_equations(kind):
    """To 2e-11 of the tail: a hundred thousand rows in all."""
    noise, n, t = published(kind, 33_400, 3e3, seed=1)
    lower, upper = proportion_confint(t, n, mechanism=noise)
    check(noise, t, n, lower, 1, 0.025, 2e-11)
    check(noise, t, n, upper, -1, 0.025, 2e-11)


@pytest.mark.thinned("alpha", "own_scales", every=2)
@KINDS
@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("own_scales", [False, True])
def test_other_levels(kind, alpha, own_scales):
    noise, n, t = published(kind, 500, 3e4, seed=2, own_scales=own_scales)
    # whole values are kinks of continuous noise
    t[::3] = np.round(t[::3])
    for side, alternative in ((1, "larger"), (-1, "smaller")):
        lower, upper = proportion_confint(
            t, n, mechanism=noise, alpha=alpha, alternative=alternative
        )
        check(noise, t, n, lower if side > 0 else upper, side, alpha, 2e-11)


@pytest.mark.thinned("kind", "method", "alpha", every=3)
@KINDS
@pytest.mark.parametrize("method", ["exact", "mid-p"])
@pytest.mark.parametrize("alpha", [1e-4, 0.05, 0.8])
def test_sums_have_the_same_ends(kind, method, alpha):
    """The same law as a sum of one noise, which has no closed form."""
    noise, n, t = published(kind, 15, 1e4, seed=3)
    ours = proportion_confint(t, n, mechanism=noise, alpha=alpha, method=method)
    laws = [WeightedSum([1.0], noise.take(row)) for row in range(t.size)]
    summed = proportion_confint(t, n, mechanism=laws, alpha=alpha, method=method)
    there = ~summed.empty
    assert (ours.empty == summed.empty).all()
    np.testing.assert_allclose(ours.lower[there], summed.lower[there], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(ours.upper[there], summed.upper[there], rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("noise", [Laplace(scale=0.4), Laplace(scale=9.0), Tulap(scale=1.0)])
def test_an_end_at_the_limit_is_the_limit(noise):
    """At p = 0 and t = 0 the tail is 1/2 for every number of trials."""
    options = {"mechanism": noise, "alpha": 0.5}
    assert (proportion_confint([0.0], [7], alternative="smaller", **options).upper == 0.0).all()
    assert (proportion_confint([7.0], [7], alternative="larger", **options).lower == 1.0).all()


@KINDS
def test_few_and_very_many_trials_far_from_the_published_value(kind):
    noise, n, t = published(kind, 200, 1e7, seed=4)
    n[:2], t[:2] = (9.0, 1e9), (-1.0, 3.0)
    for alpha in (1e-8, 0.05, 0.7):
        lower, upper = proportion_confint(t, n, mechanism=noise, alpha=alpha)
        check(noise, t, n, lower, 1, alpha / 2, 1e-9)
        check(noise, t, n, upper, -1, alpha / 2, 1e-9)
