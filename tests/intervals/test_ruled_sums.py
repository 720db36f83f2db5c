"""Linear functions of rounded, binned and clamped values: coverage by enumeration, and by draws."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpinfer import (
    Gaussian,
    Geometric,
    Laplace,
    Release,
    count_confint,
    linear_confint,
    linear_ztest,
    noisy,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Rounded

NOISE = Geometric(scale=0.3)
REACH = np.arange(-4, 5)
"""The mass beyond is below 1e-6."""


MOVES = {"nearest": np.rint, "down": np.floor, "up": np.ceil, "toward zero": np.trunc}


def published(truth, errors, rule):
    """Round, add the errors, clamp and round again, as a producer would."""

    def rounded(x, name, way):
        given = rule.get(name)
        step, way = given if isinstance(given, tuple) else (given, way)
        return x if step is None else MOVES[way](x / step) * step

    y = np.clip(rounded(truth, "bin_size", "up") + errors, *rule.get("clamp", (-99, 99)))
    return rounded(y, "rounding", "nearest")


@pytest.mark.thinned("rule", "weights", every=2)
@pytest.mark.parametrize("weights", [(1, 1), (2, -1)])
@pytest.mark.parametrize(
    "rule",
    [
        {"bin_size": 3},
        {"bin_size": 4, "clamp": (0, 8)},
        {"rounding": 3},
        {"rounding": 2, "bin_size": 3, "clamp": (0, 6)},
        {"clamp": (0, 4)},
        {"rounding": (3, "down")},
        {"rounding": (2, "up"), "clamp": (0, 6)},
        {"bin_size": (3, "nearest"), "rounding": (2, "down")},
        {"rounding": (3, "toward zero")},
        {"bin_size": (3, "nearest"), "rounding": (2, "toward zero"), "clamp": (-2, 6)},
        {"bin_size": (4, "nearest")},
        {"bin_size": (4, "down")},
    ],
)
def test_every_truth_is_covered_around_edges_of_bins_and_clamps(rule, weights):
    """By enumeration of all errors, for truths in every place of two bins and beyond the clamp."""
    errors = np.array(list(product(REACH, REACH)))
    chance = NOISE.pmf(errors).prod(axis=1)
    truths = np.array(list(product((-2, 0, 2, 3, 6, 9), (1, 3))))
    y = np.concatenate([published(truth, errors, rule) for truth in truths])
    rows, number = np.unique(y, axis=0, return_inverse=True)
    ends = []
    for part in np.array_split(rows, len(rows) // 20 + 1):
        many = noisy(part.ravel(), mechanism=NOISE, **rule)
        found = linear_confint(many, np.kron(np.eye(len(part)), weights), alpha=0.1)
        ends.append(np.asarray(found))
        alone = linear_confint(noisy(part[0], mechanism=NOISE, **rule), weights, alpha=0.1)
        np.testing.assert_array_equal(np.ravel(alone), np.asarray(found)[0])
    low, high = np.concatenate(ends)[number.ravel()].reshape(len(truths), len(errors), 2).T
    goal = truths @ weights
    assert (chance @ (low > goal)).max() <= 0.05
    assert (chance @ (high < goal)).max() <= 0.05


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
    x = noisy([80.0, 40.0], mechanism=law, rounding=8)
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
    with pytest.raises(InvalidParameterError, match="rounding must be 1 or None where"):
        noisy([120.0], mechanism=noise, threshold=100.0, rounding=20)
    with pytest.raises(InvalidParameterError, match=r"clamp must be multiples of 1 .* got 0.7"):
        noisy([1.0], mechanism=noise, clamp=0.7, rounding=True)
    assert len(noisy([1.0], mechanism=noise, clamp=0, rounding=True)) == 1


RULES = [
    {"rounding": 3},
    {"rounding": (3, "down"), "clamp": (0, 6)},
    {"rounding": (2, "up")},
    {"rounding": (3, "toward zero")},
    {"bin_size": (4, "nearest")},
    {"bin_size": (3, "down"), "rounding": 2},
    {"bin_size": 3, "clamp": (0, 6)},
]


@pytest.mark.parametrize("rule", RULES)
def test_tests_hold_their_level_whatever_was_rounded(rule):
    """By enumeration: P(p <= alpha) for values and sums, at truths in all places of two bins."""
    chance = NOISE.pmf(REACH) / NOISE.pmf(REACH).sum()
    pairs = np.array(list(product(range(9), range(9, 18))))
    weights = np.zeros((81, 18))
    weights[np.arange(81), pairs[:, 0]], weights[np.arange(81), pairs[:, 1]] = 1, -2
    both = np.outer(chance, chance).ravel()
    for first, second in product((-1, 0, 2, 3, 4, 6), (1, 5)):
        y = [published(np.array(truth), REACH, rule) for truth in (first, second)]
        x = noisy(np.concatenate(y), mechanism=NOISE, **rule)
        for way in ("two-sided", "larger", "smaller"):
            each = linear_ztest(x, value=np.repeat([first, second], 9), alternative=way).pvalue
            sums = linear_ztest(x, weights, first - 2 * second, alternative=way).pvalue
            for alpha in (0.02, 0.1, 0.3):
                # the mass beyond REACH, below 1e-6, may be counted as rejecting
                assert chance @ (each[:9] <= alpha) <= alpha + 1e-6
                assert chance @ (each[9:] <= alpha) <= alpha + 1e-6
                assert both @ (sums <= alpha) <= alpha + 2e-6


@pytest.mark.thinned("rule", "alternative", every=3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("alternative", ["two-sided", "larger", "smaller"])
def test_tests_of_ruled_sums_invert_the_interval(rule, alternative):
    law = Laplace(scale=1.7)
    x = noisy([3.5, 6.0] if "rounding" not in rule else [0.0, 6.0], mechanism=law, **rule)
    ends = linear_confint(x, [2, -1], alpha=0.1, alternative=alternative)
    test = linear_ztest(x, [2, -1], -5.0, alternative=alternative)
    np.testing.assert_allclose(np.asarray(test.conf_int(0.1)), np.asarray(ends), rtol=1e-9)
    assert "largest over what may have been rounded" in test.notes[0]
    for value in (-30.0, -9.5, -5.5, -2.0, 0.5, 4.5, 14.0, 30.0):
        p = linear_ztest(x, [2, -1], value, alternative=alternative).pvalue
        if p > 0.1 + 1e-9:
            continue
        # what is rejected is outside of the interval
        assert not float(ends.lower) + 1e-9 < value < float(ends.upper) - 1e-9


def test_ways_of_rounding_are_known_to_a_release():
    law = Laplace(scale=2.0)
    release = Release([10.0, 25.0], mechanism=law, rounding=(5, "down"), bin_size=(4, "nearest"))
    assert (release.rounding, release.bin_size) == ((5.0, "down"), 4.0)
    assert release.bin_rounding == "nearest"
    plain = count_confint([10.5, 25.5], mechanism=law)
    down = count_confint(Release([10.0, 25.0], mechanism=law, rounding=(5, "down")))
    np.testing.assert_allclose(down.lower, plain.lower - 0.5, rtol=1e-13)
    np.testing.assert_allclose(down.upper, plain.upper + 4.5, rtol=1e-13)
    np.testing.assert_array_equal(down.estimate, [12.5, 27.5])
    assert Release([1.0, 2.0], mechanism=law, rounding=True).mechanism == Rounded(law)
    some = Release([1.0, 2.5], mechanism=law, rounding=[1, 0])
    assert some.rounding[0].tolist() == [1, 0]
    cut = count_confint(Release([10.0, 0.0, -5.0], mechanism=law, rounding=(5, "toward zero")))
    plain = count_confint([10.0, 0.0, -5.0], mechanism=law)
    np.testing.assert_allclose(plain.lower - cut.lower, [0, 5, 5], atol=1e-13)
    np.testing.assert_allclose(cut.upper - plain.upper, [5, 5, 0], atol=1e-13)
    np.testing.assert_array_equal(cut.estimate, [12.5, 0, -7.5])
    drawn = Release.draw([13, 26], mechanism=law, rounding=(5, "up"), bin_size=(10, "down"), rng=1)
    assert (drawn.values % 5 == 0).all()
    with pytest.raises(InvalidParameterError, match="one step for all values, or 1 and 0"):
        Release([5.0, 20.0], mechanism=law, rounding=[5, 10])
    with pytest.raises(InvalidParameterError, match="second part of bin_size must be one of"):
        Release([5.0, 20.0], mechanism=law, bin_size=(5, "sideways"))
    with pytest.raises(InvalidParameterError, match="must be one of 'nearest', 'down', 'up', got"):
        Release([5.0, 20.0], mechanism=law, bin_size=(5, "toward zero"))
    kept = Release([5.0, None], labels=("a", "b"), mechanism=law, missing="drop")
    assert kept.labels.to_list() == ["a"]
    other = noisy([5.0], mechanism=law, rounding=(5, "down"))
    with pytest.raises(InvalidParameterError, match="rounded in different ways"):
        noisy([5.0], mechanism=law, rounding=5).beside(other)
