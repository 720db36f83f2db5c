"""Intervals for any function: exact sums, proved ranges, simulation and when it is refused."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from people import NEEDS_DATA, people
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import Exponential, function_confint

LAW = dpi.Geometric(scale=1.5)


def variation(x):
    return x.std(axis=-1) / np.maximum(x.mean(axis=-1), 1.0)


def dissimilarity(b, w):
    b, w = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1.0) for x in (b, w))
    return 0.5 * np.abs(b - w).sum(axis=-1)


def test_exact_is_the_unbiased_estimate():
    rng = np.random.default_rng(1)
    table = rng.poisson(20, (3, 40)) + LAW.rvs((3, 40), rng=2)
    found = function_confint(table, np.sqrt, mechanism=LAW)
    own = dpi.unbiased(np.sqrt, table, mechanism=LAW).sum()
    np.testing.assert_allclose(found.estimate, own.params, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(found), np.asarray(own.conf_int()), rtol=1e-13)
    assert found.guarantee.startswith("asymptotic")
    pairs = function_confint((table, table + 1), lambda x, y: x * y, mechanism=(LAW, LAW))
    assert pairs.plug_in == pytest.approx((np.maximum(table, 0) * np.maximum(table + 1, 0)).sum(-1))
    by_rate = function_confint(table, Exponential(0.01), mechanism=LAW)
    assert by_rate.estimate.shape == (3,)
    with pytest.raises(InvalidParameterError, match="a number for each cell"):
        function_confint(table, variation, mechanism=LAW)


def test_the_range_over_a_joint_region_is_that_of_all_its_points():
    """For Gaussian noise c is a quantile of chi-square, here within 4 %, wrong by chance < 1e-8."""
    y, law = np.array([4.5, 2.0, 11.25]), dpi.Gaussian(sigma=1.5)
    common = {"method": "bound", "mechanism": law, "reps": 99999}
    c = stats.chi2(3).ppf(0.95) * 1.5**2
    for seed in (1, 2):
        found = function_confint(y, variation, rng=seed, **common)
        ends = []
        for factor in (0.96, 1.04):
            box = product(range(13), range(13), range(25))
            points = np.array([f for f in box if np.square(y - f).sum() <= factor * c], dtype=float)
            values = variation(points)
            ends.append((values.min(), values.max()))
        (high, low), (lowest, highest) = ends
        assert lowest <= found.lower <= high
        assert low <= found.upper <= highest
    assert found.guarantee == "proved, conservative"


def test_corners_for_monotone_functions():
    y = np.array([[9, 30, 2], [14, 5, 21]])
    found = function_confint(
        (y, y), lambda x, w: x.max(axis=-1) - w.min(axis=-1), method="bound", monotone=(1, -1),
        mechanism=(LAW, dpi.Geometric(scale=0.5)), rng=1, reps=999,
    )  # fmt: skip
    assert (found.lower < (y.max(-1) - y.min(-1))).all()
    assert (found.upper > (y.max(-1) - y.min(-1))).all()
    # the largest count, at level 1 - a, by the box of all counts alone
    one = function_confint([9, 30], lambda x: x.max(axis=-1), method="bound", monotone=1,
                           mechanism=LAW, rng=1, alpha=0.5)  # fmt: skip
    reach = one.upper - 30
    assert one.lower == 30 - reach
    # P(max of two <= reach) brackets 0.5
    inside = np.square(2 * LAW.cdf([reach - 1, reach]) - 1)
    assert inside[0] < 0.52
    assert inside[1] > 0.48
    with pytest.raises(InvalidParameterError, match="monotone must say how"):
        function_confint(y, lambda x: x.sum(axis=-1), method="bound", monotone=-1, mechanism=LAW)


@pytest.mark.parametrize("law", [dpi.Geometric(scale=1.0), dpi.Laplace(scale=1.0)], ids=repr)
def test_ranges_cover(law):
    """Of 200 at level 0.9, 160 or more: fewer by chance in 1 of 10⁵."""
    truth = np.array([[3.0, 8.0]])
    y = truth + law.rvs((200, 2), rng=3)
    found = function_confint(y, variation, method="bound", mechanism=law, alpha=0.1, rng=4)
    assert found.contains(variation(truth)[0]).sum() >= 160
    assert found.plug_in.shape == (200,)


@NEEDS_DATA
def test_the_failing_bootstrap_is_refused():
    """354 blocks, sigma 3: percentile intervals cover 0 %, basic ones 30 %, for the truth 0.82."""
    b, w = people("Block")[["black", "white"]].to_numpy().T
    law = dpi.DiscreteGaussian(sigma=3.0)
    noisy = tuple(f + law.rvs(len(f), rng=seed) for seed, f in enumerate((b, w)))
    with pytest.raises(NotEstimableError, match="refuses to simulate"):
        function_confint(
            noisy, dissimilarity, method="simulate", mechanism=(law, law), rng=1, reps=200
        )


def test_simulation_of_a_smooth_function_covers():
    """Of 60 at level 0.95, 48 or more: fewer by chance in 1 of 10⁶ if 93 % cover."""
    rng = np.random.default_rng(5)
    truth = rng.integers(40, 200, 12)
    y = truth + dpi.Geometric(scale=4.0).rvs((60, 12), rng=6)
    found = function_confint(
        y, variation, method="simulate", mechanism=dpi.Geometric(scale=4.0), rng=7, reps=200
    )
    assert found.contains(variation(truth)).sum() >= 48
    assert found.guarantee == "approximate"
    assert np.isfinite(found.lower).mean() > 0.9


def test_simulation_is_refused_in_some_areas_or_all():
    table = pd.DataFrame({"n": [40, 50, 60, 45], "s": [1, 0, 2, 1]}).T.rename_axis("area")
    values = pd.Series({(a, k): v for a in table.index for k, v in table.loc[a].items()})
    values.index.names = ["area", "cell"]
    call = {"method": "simulate", "mechanism": LAW, "rng": 1}
    found = function_confint(values, variation, by="area", **call)
    assert np.isfinite(found["n"].lower)
    assert found["s"].upper == np.inf
    assert "1 of 2" in found.notes[0]
    with pytest.raises(NotEstimableError, match="none may be below 4"):
        function_confint([1, 0, 2, 1], variation, **call)
    with pytest.raises(NotEstimableError, match="constant"):
        function_confint(np.full(20, 50), lambda x: (x > 1e6).sum(axis=-1), **call)


def test_slopes_have_the_errors_of_closed_forms():
    """Of sums of logarithms, of ratios, and of combined estimates, whose errors are correlated."""
    table = np.random.default_rng(5).integers(200, 900, (3, 12)) + 0.0
    common = {"method": "delta", "mechanism": LAW, "rng": 1}
    z, v = stats.norm.isf(0.025), LAW.variance
    found = function_confint(table, np.log, **common)
    se = np.sqrt(v * (1 / table**2).sum(axis=1))
    np.testing.assert_allclose(found.upper - found.estimate, z * se, rtol=1e-7)
    np.testing.assert_allclose(found.estimate, np.log(table).sum(axis=1), rtol=1e-13)
    assert found.guarantee == found.method.replace("delta", "asymptotic") == "asymptotic"
    pair = function_confint((table, table[::-1]), lambda a, b: a.sum(-1) / b.sum(-1), **common)
    a, b = table.sum(axis=1), table[::-1].sum(axis=1)
    se = a / b * np.sqrt(12 * v * (1 / a**2 + 1 / b**2))
    np.testing.assert_allclose(pair.estimate - pair.lower, z * se, rtol=1e-7)
    release = dpi.Release.from_tables(
        [pd.Series([300.0, 450.0, 610.0], pd.Index(["a", "b", "c"], name="k")), 1365.0],
        mechanism=[LAW, dpi.Geometric(scale=0.5)],
    )
    fit = dpi.combine(release)
    found = function_confint(
        fit, lambda x: x[:, 0] / x.sum(-1), by={"a": 0, "b": 0, "c": 0}, method="delta", rng=1
    )
    x = dpi.noisy(fit)
    f = x.values[:3]
    slope = np.array([1.0, 0.0, 0.0]) / f.sum() - f[0] / f.sum() ** 2
    se = np.sqrt(slope @ x.cov()[:3, :3] @ slope)
    assert np.ravel(found.width)[0] == pytest.approx(2 * z * se, rel=1e-6)


def test_slopes_are_refused_where_the_function_bends():
    """Next to kinks, near 0, for products of small counts; elsewhere the interval covers."""
    call = {"method": "delta", "mechanism": LAW, "rng": 1}
    for y, function, why in (
        ([3, 2, 40], np.sqrt, "standard deviations"),
        (np.full(12, 6), lambda x: (x[:, ::2] * x[:, 1::2] - 6 * x[:, ::2]).sum(-1), "not linear"),
        ([10, 10, 11], lambda x: x.max(axis=-1), "not linear"),
        ([10, 10, 11], lambda x: (x > 1e6).sum(axis=-1), "not linear"),
    ):
        with pytest.raises(NotEstimableError, match=why):
            function_confint(y, function, **call)
    truth = np.array([300, 420, 150, 510, 260, 340, 280, 190])
    y = truth + LAW.rvs((300, 8), rng=6)
    found = function_confint(y, variation, reps=100, **call)
    # 0.95 of 300, below 0.87 by chance in fewer than 1 of 10⁷
    assert np.mean((found.lower <= variation(truth)) & (variation(truth) <= found.upper)) > 0.87


def test_without_noise_all_are_the_value():
    y = np.array([3, 8, 1])
    for method in ("bound", "simulate", "delta"):
        found = function_confint(y, variation, method=method, mechanism=dpi.Exact())
        assert found.lower == found.upper == found.estimate == pytest.approx(variation(y))


def test_a_combined_estimate_is_taken():
    release = dpi.Release.from_tables(
        [pd.Series([30, 45, 61], pd.Index(["a", "b", "c"], name="k")), 140],
        mechanism=[LAW, dpi.Geometric(scale=0.5)],
    )
    cells = dpi.noisy(dpi.combine(release)).take(["a", "b", "c"])
    found = function_confint(cells, variation, method="bound", rng=1)
    plain = function_confint([30, 45, 61], variation, method="bound", mechanism=LAW, rng=1)
    assert found.width <= plain.width * 1.2


REFUSED = {
    "method": {"method": "taylor"},
    "function": {"function": 3},
    "shape": {"function": lambda x: x[:, :1], "method": "bound"},
    "infinite": {"function": lambda x: 1 / (x.sum(-1) * 0), "method": "bound"},
    "monotone": {"monotone": 2, "method": "bound"},
    "reps": {"reps": 10, "method": "bound"},
    "too many cells": {"values": np.full(30, 9), "method": "bound"},
    "a threshold": {"values": dpi.Release([3, 4], mechanism=LAW, threshold=0), "mechanism": None},
    "alpha": {"alpha": 1e-9, "method": "simulate"},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"values": [3, 8, 1], "function": variation, "mechanism": LAW} | REFUSED[name]
    with pytest.raises(InvalidParameterError):
        function_confint(**call)


def test_arguments_of_other_shapes_are_refused():
    one, other = np.array([[300.0, 500, 650], [200, 300, 400]]), np.ones((3, 2)) * 40
    with pytest.raises(InvalidParameterError, match="of one shape"):
        function_confint((one, other), lambda a, b: (a * b).sum(-1), mechanism=LAW)
