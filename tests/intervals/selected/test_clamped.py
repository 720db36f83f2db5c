"""Clamped values: enumeration of coverage and of the law, alone and with a threshold."""

import numpy as np
import pandas as pd
import pytest

from dpinfer import Release
from dpinfer.errors import DPInferError, IncompatibleReleaseError
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import DiscreteGaussian, Exact, Geometric, Laplace, WeightedSum

RULES = [
    (-np.inf, (0, np.inf)),
    (-np.inf, (0, 20)),
    (-np.inf, (-np.inf, 20)),
    (-np.inf, (-0.5, 20.5)),
    (5, (0, 20)),
    (0, (0, 20)),
    (-3, (0, 20)),
    (4.5, (0, 20.5)),
    (20, (0, 20)),
    (5, (-np.inf, np.inf)),
]
SIDES = {"two-sided": (1, 1), "larger": (1, 0), "smaller": (0, 1)}
NOISES = [Geometric(scale=3.0), DiscreteGaussian(sigma=4.0)]


def published(noise, f, threshold, clamp):
    """Values that are published under f, in order, with their conditional probabilities."""
    error = np.arange(-400, 401)
    mass = np.exp(noise.logpmf(error))
    y = np.clip(f + error, *clamp)
    y, place = np.unique(y, return_inverse=True)
    mass = np.bincount(place, mass)
    shown = y >= threshold
    return y[shown], mass[shown] / mass[shown].sum()


@pytest.mark.thinned("alternative", "threshold", "noise", every=3)
@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize(("threshold", "clamp"), RULES)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_coverage_and_content_enumerated(noise, threshold, clamp, alternative):
    alpha = 0.1
    q = alpha / sum(SIDES[alternative])
    for f in [-30, -8, -1, 0, 3, 6, 12, 19, 20, 21, 28, 45]:
        y, mass = published(noise, f, threshold, clamp)
        y, mass = y[mass > 1e-250], mass[mass > 1e-250]
        found = count_confint(
            y,
            mechanism=noise,
            threshold=threshold,
            clamp=clamp,
            alpha=alpha,
            alternative=alternative,
        )
        inside = found.contains(f)
        assert mass[inside].sum() >= 1 - alpha - 1e-12
        kept = np.ones(y.size, dtype=bool)
        if SIDES[alternative][0]:
            kept &= mass[::-1].cumsum()[::-1] > q
        if SIDES[alternative][1]:
            kept &= mass.cumsum() > q
        np.testing.assert_array_equal(inside, kept, err_msg=f"{f}")


def test_clamped_only():
    noise = Laplace(scale=2.0)
    y = np.array([0.0, 7.0, 20.0])
    found = count_confint(y, mechanism=noise, clamp=(0, 20))
    plain = count_confint(y, mechanism=noise)
    np.testing.assert_array_equal(found.lower, [-np.inf, *plain.lower[1:]])
    np.testing.assert_array_equal(found.upper, [*plain.upper[:2], np.inf])
    np.testing.assert_array_equal(found.estimate, [-np.inf, 7.0, np.inf])
    bounded = count_confint(y, mechanism=noise, clamp=(0, 20), lower=0, upper=100)
    np.testing.assert_array_equal(bounded.estimate, [0.0, 7.0, 100.0])
    naive = count_confint(y, mechanism=noise, clamp=(0, 20), method="naive")
    np.testing.assert_array_equal(naive, plain)


@pytest.mark.parametrize("f", [-4.0, 0.0, 1.0, 5.0])
def test_the_full_alpha_at_a_bound_would_not_do(f):
    # P(miss) of intervals that use alpha at the bound and alpha/2 within, in closed form
    noise, alpha = Laplace(scale=2.0), 0.1
    exact = count_confint(0.0, mechanism=noise, clamp=0, alpha=alpha).upper
    full = noise.isf(alpha)
    half = noise.isf(alpha / 2)
    assert exact == pytest.approx(half)
    at_bound = noise.cdf(-f)
    above = alpha / 2  # y > f + half misses f from above
    assert (at_bound if f > exact else 0.0) + above <= alpha + 1e-12
    between = 0.5 * (full + half)
    assert noise.cdf(-between) + above > alpha


def test_bounds_per_row_and_labels():
    y = pd.Series([0.0, 4.0, 9.0], index=list("abc"))
    noise = [Laplace(scale=1.0), Geometric(scale=2.0), Exact()]
    low = pd.Series([0.0, 0.0, 9.0], index=list("abc"))
    found = count_confint(y, mechanism=noise, clamp=(low, [np.inf, 4.0, np.inf]))
    assert list(found.lower.index) == list("abc")
    np.testing.assert_array_equal(np.isinf(found.lower), [True, False, True])
    np.testing.assert_array_equal(np.isinf(found.upper), [False, True, False])
    assert found.upper["c"] == 9.0


def test_any_law_may_be_clamped():
    noise = WeightedSum([1.0, 2.0], Laplace(scale=1.0))
    found = count_confint([0.0, 3.0], mechanism=noise, clamp=0)
    half = float(noise.isf(0.025))
    np.testing.assert_allclose(found.upper, [half, 3.0 + half])


@pytest.mark.parametrize("clamp", [(5, 0), (0, 1, 2), "low", np.nan, [0, [1, 2]]])
def test_refused(clamp):
    with pytest.raises(DPInferError):
        count_confint([0.0, 3.0, 1.0], mechanism=Laplace(scale=1.0), clamp=clamp)


def test_outside_the_bounds_refused():
    with pytest.raises(IncompatibleReleaseError, match="clamping bound"):
        count_confint(-1.0, mechanism=Laplace(scale=1.0), clamp=0)


@pytest.mark.parametrize("method", ["exact", "naive"])
def test_release(method):
    values = pd.Series([530.0, 97.0, 600.0], index=list("abc"))
    noise = [Laplace(scale=10.0), Geometric(scale=4.0), Laplace(scale=1.0)]
    release = Release(values, mechanism=noise, threshold=90, clamp=(0, 600))
    found = count_confint(release, method=method, alpha=0.1, lower=0)
    same = count_confint(
        values, mechanism=noise, threshold=90, clamp=(0, 600), method=method, alpha=0.1, lower=0
    )
    np.testing.assert_array_equal(found, same)
    np.testing.assert_array_equal(found.estimate, same.estimate)
    assert list(found.lower.index) == list("abc")
    plain = count_confint(Release(values, mechanism=noise), simultaneous=True)
    np.testing.assert_array_equal(plain, count_confint(values, mechanism=noise, simultaneous=True))


def test_a_law_is_needed():
    with pytest.raises(DPInferError, match="mechanism must be given"):
        count_confint([1.0, 2.0])
