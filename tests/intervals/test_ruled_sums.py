"""Linear functions of rounded, binned and clamped values: coverage by enumeration, and by draws."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpinfer import Gaussian, Geometric, Laplace, Release, count_confint, linear_confint, noisy
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Rounded

NOISE = Geometric(scale=0.3)
REACH = np.arange(-4, 5)
"""The mass beyond is below 1e-6."""


@pytest.mark.parametrize("weights", [(1, 1), (2, -1)])
@pytest.mark.parametrize(
    "rule",
    [
        {"bin_size": 3},
        {"bin_size": 4, "clamp": (0, 8)},
        {"rounded": 3},
        {"rounded": 2, "bin_size": 3, "clamp": (0, 6)},
        {"clamp": (0, 4)},
    ],
)
def test_every_truth_is_covered_around_edges_of_bins_and_clamps(rule, weights):
    """By enumeration of all errors, for truths in every place of two bins and beyond the clamp."""
    errors = np.array(list(product(REACH, REACH)))
    chance = NOISE.pmf(errors).prod(axis=1)
    step, found = rule.get("rounded"), {}
    for truth in product((-2, 0, 2, 3, 6, 9), (1, 3)):
        size = rule.get("bin_size", 1)
        y = np.clip(np.ceil(np.array(truth) / size) * size + errors, *rule.get("clamp", (-99, 99)))
        y = np.rint(y / step) * step if step else y
        missed = np.zeros(2)
        for row, p in zip(map(tuple, y.tolist()), chance, strict=True):
            if row not in found:
                ends = linear_confint(noisy(row, mechanism=NOISE, **rule), weights, alpha=0.1)
                found[row] = float(ends.lower), float(ends.upper)
            low, high = found[row]
            missed += p * np.array([low > np.dot(weights, truth), high < np.dot(weights, truth)])
        assert missed.max() <= 0.05


def test_the_bounds_are_attained():
    """Without room in the place of counts in their bins the interval is that of the binned sum."""
    y = np.array([12.3, 19.1, 44.4])
    plain = linear_confint(y, [1, -2, 0.5], mechanism=Laplace(scale=3.0))
    wide = linear_confint(noisy(y, mechanism=Laplace(scale=3.0), bin_size=5), [1, -2, 0.5])
    np.testing.assert_allclose(wide.lower, plain.lower - 4 * 1.5, rtol=1e-13)
    np.testing.assert_allclose(wide.upper, plain.upper + 4 * 2, rtol=1e-13)
    assert wide.estimate == pytest.approx(plain.estimate - 2 * (1 - 2 + 0.5), abs=1e-12)
    assert "3 counts in their bins" in " ".join(wide.notes)


@pytest.mark.parametrize("law", [Laplace(scale=4.0), Geometric(scale=4.0), Gaussian(sigma=3.0)])
def test_one_value_has_the_interval_of_a_count(law):
    whole = law.is_integer
    y = [81.0, 40.0] if whole else [81.3, 40.2]
    x = noisy(y, mechanism=law, bin_size=8)
    np.testing.assert_array_equal(
        np.asarray(linear_confint(x, np.eye(2))), np.asarray(count_confint(x))
    )
    x = noisy([80.0, 40.0], mechanism=law, rounded=8)
    np.testing.assert_allclose(
        np.asarray(linear_confint(x, np.eye(2))), np.asarray(count_confint(x)), rtol=1e-13
    )
    x = noisy([0.0, 40.0, 60.0], mechanism=law, clamp=(0, 60))
    np.testing.assert_allclose(
        np.asarray(linear_confint(x, np.eye(3))), np.asarray(count_confint(x)), rtol=1e-13
    )


def test_sums_of_multiples_move_in_to_multiples():
    x = noisy([813.6, 410.2], mechanism=Laplace(scale=10.0), bin_size=[8, 12])
    plain = linear_confint([813.6, 410.2], [1, -1], mechanism=Laplace(scale=10.0))
    found = linear_confint(x, [1, -1])
    assert found.lower == np.ceil(plain.lower / 4) * 4 - 7
    assert found.upper == np.floor(plain.upper / 4) * 4 + 11


def test_open_ends_follow_the_sign_of_the_weight():
    x = noisy([0.0, 50.0, 20.0], mechanism=Rounded(Laplace(scale=2.0)), clamp=(0, 50))
    rows = [[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1], [1, 1, 0], [0, 0, 1]]
    found = linear_confint(x, rows)
    assert np.isinf(found.lower).tolist() == [True, False, False, True, True, False]
    assert np.isinf(found.upper).tolist() == [False, True, True, False, True, False]
    assert "5 intervals have an open end, as 2 values are at a clamping bound" in found.notes[0]


def test_uniform_bins_follow_the_law_of_their_sum():
    """One bin by the closed form of Laplace noise plus a uniform error; eight by draws."""
    b, w = 2.0, 8
    x = noisy([40.3], mechanism=Laplace(scale=b), bin_size=w)
    found = linear_confint(x, [1], bin_assumption="uniform", alpha=0.1)
    t = float(found.upper) - (40.3 - 3.5)
    # P(e + u > t) = ∫ P(e > t - u) du/w over |u| <= w/2
    u = np.linspace(-w / 2, w / 2, 400_001)
    tail = np.trapezoid(stats.laplace.sf(t - u, scale=b), u) / w
    assert tail == pytest.approx(0.05, abs=1e-8)
    assert "taken to be uniform" in found.notes[0]
    rng = np.random.default_rng(7)
    many = noisy(np.full(8, 40.3), mechanism=Laplace(scale=b), bin_size=w)
    ends = linear_confint(many, np.ones(8), bin_assumption="uniform", alpha=0.1)
    drawn = rng.laplace(scale=b, size=(200_000, 8)) + w * (rng.random((200_000, 8)) - 0.5)
    inside = np.abs(drawn.sum(axis=1)) <= float(ends.width) / 2
    # 0.9 within 6 standard errors of 0.00067: by accident with chance 2e-9
    assert inside.mean() == pytest.approx(0.9, abs=0.004)
    assert ends.width < linear_confint(many, np.ones(8), alpha=0.1).width


def test_sums_of_values_with_a_threshold_are_refused():
    release = Release([3.5, 9.5], mechanism=Laplace(scale=2.0), threshold=[3.0, -np.inf])
    with pytest.raises(InvalidParameterError, match="selected by a threshold"):
        linear_confint(release, [1, 1])
    assert np.isfinite(np.asarray(linear_confint(release, [0, 1]))).all()


def test_together_all_sums_of_binned_values_are_covered():
    x = noisy(np.full(3, 20.3), mechanism=Laplace(scale=2.0), bin_size=4)
    rows = [[1, 1, 0], [0, 1, 1], [1, 0, -1]]
    joint = linear_confint(x, rows, simultaneous=True, reps=2000, rng=1)
    plain = linear_confint(
        x.values, rows, mechanism=Laplace(scale=2.0), simultaneous=True, reps=2000, rng=1
    )
    assert (joint.lower[:2] + 6 >= plain.lower[:2]).all()
    assert joint.mc_error == plain.mc_error
    assert linear_confint(x, rows, method="tail-bound").simultaneous


def test_rounding_that_leaves_selection_open_is_refused():
    noise = Gaussian(sigma=10.0)
    with pytest.raises(InvalidParameterError, match="rounded must be 1 or None where"):
        noisy([120.0], mechanism=noise, threshold=100.0, rounded=20)
    with pytest.raises(InvalidParameterError, match=r"clamp must be multiples of 1 .* got 0.7"):
        noisy([1.0], mechanism=noise, clamp=0.7, rounded=True)
    assert len(noisy([1.0], mechanism=noise, clamp=0, rounded=True)) == 1
