"""Errors of values that were rounded or clamped: formulas, sums over all outcomes, refusals."""

from math import fsum

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.curation import processing_error
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, Rounded, Tulap

LAPLACE = dpi.Laplace(scale=1.0)
WHOLE = [
    dpi.Geometric(scale=1.7),
    dpi.DiscreteGaussian(sigma=2.2),
    dpi.DiscreteGaussian(sigma=0.4),
    Rounded(dpi.Laplace(scale=1.1)),
]
WAYS = [
    (2.0, 0.0, None, None),
    (2.0, 0.0, 5.0, None),
    (-3.0, 0.0, 4.0, None),
    (11.0, None, 4.5, None),
    (2.25, None, 7.0, 2.0),
    (4.0, 0.0, 9.0, 3.0),
    (9.0, 0.0, 6.5, 1.0),
    (1.0, -1.0, None, 2.0),
]


def test_published_example():
    """Example 2.11 and question 14 of the tutorial, by the closed forms."""
    found = processing_error([0, 1, 3, 7, 1000], mechanism=LAPLACE, lower=0)
    f = np.array([0.0, 1.0, 3.0, 7.0, 1000.0])
    np.testing.assert_allclose(found.bias, 0.5 * np.exp(-f), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(found.mse, 2.0 - (1.0 + f) * np.exp(-f), rtol=1e-14)
    np.testing.assert_allclose(
        found.variance, [0.75, 1.2304073, 1.8002320, 1.9927047, 2.0], atol=5e-8
    )
    assert list(found.summary_frame().columns) == [
        "truth",
        "bias",
        "variance",
        "mse",
        "mae",
        "noise",
    ]


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (dpi.Laplace(scale=10.0), (3.7041, 89.9733, 103.6936)),
        (dpi.Geometric(scale=1.0), (np.exp(-4) / (1 - np.exp(-2)), 1.6679667, None)),
        (dpi.Gaussian(sigma=2.0), (None, 3.5534949, None)),
        (dpi.DiscreteGaussian(sigma=2.0), (None, 3.5863503, None)),
        (Rounded(LAPLACE), (None, 1.8807780, None)),
    ],
)
def test_laws_at_three(law, expected):
    found = processing_error(3, mechanism=law, lower=0)
    for value, wanted in zip((found.bias, found.variance, found.mse), expected, strict=True):
        if wanted is not None:
            assert abs(value - wanted) < 5e-5 if wanted > 2 else abs(value - wanted) < 5e-8


def test_rounding_of_noise_with_a_density():
    for sigma, variance in ((0.3, 0.0955824245), (0.5, 0.3254127626), (1.0, 1.0833333224)):
        found = processing_error(0, mechanism=dpi.Gaussian(sigma=sigma), rounding=1)
        assert abs(found.variance - variance) < 1e-10
    found = processing_error(0.3, mechanism=dpi.Laplace(scale=0.5), rounding=1)
    assert abs(found.bias + 0.0291299628) < 1e-10
    both = processing_error([0, 3], mechanism=LAPLACE, lower=0, rounding=1)
    rounded = processing_error([0, 3], mechanism=Rounded(LAPLACE), lower=0)
    np.testing.assert_allclose(both.variance, rounded.variance, rtol=1e-14)
    np.testing.assert_allclose(both.bias, rounded.bias, rtol=1e-13)


@pytest.mark.parametrize(("f", "lower", "upper", "step"), WAYS)
@pytest.mark.parametrize("law", WHOLE, ids=repr)
def test_sums_over_all_outcomes(law, f, lower, upper, step):
    k = np.arange(-400.0, 401.0)
    p, y = law.pmf(k), f + k
    y = y if step is None else step * np.rint(y / step)
    y = np.clip(y, lower, upper)
    mean = float(p @ y)
    found = processing_error(f, mechanism=law, lower=lower, upper=upper, rounding=step)
    assert found.bias == pytest.approx(mean - f, rel=1e-12, abs=1e-13)
    assert found.variance == pytest.approx(float(p @ (y - mean) ** 2), rel=1e-11, abs=1e-13)
    assert found.mae == pytest.approx(float(p @ np.abs(y - f)), rel=1e-12)


@pytest.mark.parametrize(("f", "lower", "upper", "step"), WAYS)
@pytest.mark.parametrize(
    "law", [dpi.Laplace(scale=2.0), dpi.Gaussian(sigma=1.3), Tulap(scale=1.2)], ids=repr
)
def test_integrals_over_all_outcomes(law, f, lower, upper, step):
    low = -np.inf if lower is None else lower
    high = np.inf if upper is None else upper
    # all points at which the density or the outcome leaps, and some between
    cuts = {-90.0, 90.0, 0.0, *(np.arange(-89.5, 90.0))}
    cuts |= {end - f for end in (low, high) if abs(end) < np.inf}
    if step is not None:
        cuts |= {step * (j + 0.5) - f for j in range(-30, 30)}
    points = np.array(sorted(cuts))[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 0.5 * np.diff(points, axis=0)
    x = points[:-1] + half * (1.0 + nodes)
    mass = law.pdf(x) * half * weights
    y = f + x
    y = np.clip(y if step is None else step * np.rint(y / step), low, high)
    mean = fsum((mass * y).ravel())
    moments = [mean, fsum((mass * (y - mean) ** 2).ravel())]
    found = processing_error(f, mechanism=law, lower=lower, upper=upper, rounding=step)
    assert found.bias == pytest.approx(moments[0] - f, rel=1e-11, abs=1e-12)
    assert found.variance == pytest.approx(moments[1], rel=1e-11, abs=1e-12)
    assert found.mae == pytest.approx(fsum((mass * np.abs(y - f)).ravel()), rel=1e-11)


def test_truths_and_scales_broadcast():
    law = dpi.Laplace(scale=np.array([1.0, 2.0, 1.0]))
    found = processing_error([[0.0], [3.0]], mechanism=law, lower=0)
    assert found.variance.shape == (2, 3)
    one = processing_error(3.0, mechanism=dpi.Laplace(scale=2.0), lower=0)
    assert found.variance[1, 1] == one.variance
    exact = processing_error([-1.0, 2.4], mechanism=Exact(), lower=0, rounding=1)
    np.testing.assert_array_equal(exact.bias, [1.0, 2.0 - 2.4])
    np.testing.assert_array_equal(exact.variance, [0.0, 0.0])


def test_a_truth_far_outside_keeps_its_digits():
    found = processing_error(-30.0, mechanism=LAPLACE, lower=0)
    assert found.variance == pytest.approx(np.exp(-30) - 0.25 * np.exp(-60), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lower": 2.0, "upper": 1.0}, "lower must be below upper = 1.0, got 2.0"),
        ({"rounding": 0}, "rounding must be > 0"),
        ({"rounding": 1e-9}, "mechanism must be at most"),
        ({"lower": 0, "mechanism": dpi.WeightedSum([1, 1], LAPLACE)}, "mechanism must be Laplace"),
        ({"lower": 0, "truth": np.nan}, "truth"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        processing_error(**{"truth": 3.0, "mechanism": LAPLACE} | options)


def test_mean_size_of_the_noise_alone():
    laws = [LAPLACE, dpi.Gaussian(sigma=2.0), dpi.Geometric(scale=2.0), Tulap(scale=1.2)]
    sizes = [processing_error(5.0, mechanism=law).mae for law in laws]
    x = np.arange(-0.5, 60.0)
    tulap = 2.0 * fsum(Tulap(scale=1.2).sf(0.5 * (x[1:] + x[:-1])[1:] + 0.0))
    a = np.exp(-0.5)
    expected = [1.0, 2.0 * np.sqrt(2.0 / np.pi), 2.0 * a / (1.0 - a * a)]
    np.testing.assert_allclose(sizes[:3], expected, rtol=1e-14)
    first = 0.5 * (0.5 + Tulap(scale=1.2).sf(0.5))
    np.testing.assert_allclose(sizes[3], first + tulap, rtol=1e-13)
    plain = processing_error(5.0, mechanism=LAPLACE)
    assert plain.bias == 0
    assert plain.variance == pytest.approx(2.0, rel=1e-14)


@pytest.mark.parametrize("law", [WHOLE[0], WHOLE[1], LAPLACE], ids=repr)
@pytest.mark.parametrize("rounding", [None, 1.0, 2.0])
def test_large_truths_lose_no_digits(law, rounding):
    """A truth of 2^60 is as far from whole numbers, and from zero, as one of 1,024 is not."""
    near, far = (
        processing_error(f, mechanism=law, lower=0, rounding=rounding) for f in (1024.0, 2.0**60)
    )
    for name in ("bias", "variance", "mae", "mse"):
        assert getattr(far, name) == pytest.approx(getattr(near, name), rel=1e-12, abs=1e-12)


def test_truths_beyond_all_measure_are_at_the_end():
    for law in (WHOLE[1], LAPLACE):
        for rounding in (None, 1.0):
            found = processing_error(1e200, mechanism=law, lower=0, upper=5, rounding=rounding)
            assert (found.bias, found.variance, found.mae) == (-1e200, 0.0, 1e200)
