import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import count_confint, linear_confint
from dpinfer.mechanisms import Exact, Gaussian, Geometric, IndependentNoise, Laplace


def test_difference_of_two_laplace_counts():
    # P(e1 - e2 > t) = (2 + t/b) exp(-t/b) / 4
    half = linear_confint([120.0, 100.0], [1, -1], mechanism=Laplace(scale=2.0)).upper - 20
    assert (2 + half / 2) * np.exp(-half / 2) / 4 == pytest.approx(0.025, rel=1e-9)


def test_gaussian_sums_are_normal():
    interval = linear_confint([1.0, 2.0], [[3.0, 4.0], [1.0, 1.0]], mechanism=Gaussian(sigma=2.0))
    np.testing.assert_allclose(
        interval.upper - [11, 3], stats.norm.isf(0.025) * 2 * np.sqrt([25, 2]), rtol=1e-9
    )


def test_integer_sums_by_brute_force():
    noise = Geometric(scale=1.5)
    k = np.arange(-120, 121)
    pmf = noise.pmf(k)
    total = np.convolve(np.convolve(pmf, pmf), pmf)
    support = np.arange(-360, 361)
    half = linear_confint([1, 2, 3], [1, 1, -1], mechanism=noise, alpha=0.05).upper - 0
    assert total[support > half].sum() <= 0.025 < total[support > half - 1].sum()


def test_one_value_has_the_interval_of_its_own_noise():
    noise = [Laplace(scale=2.0), Geometric(scale=2.0), Exact()]
    for method in ("exact", "tail-bound", "asymptotic"):
        sums = linear_confint([5, 6, 7], np.diag([1.0, 1.0, 1.0]), mechanism=noise, method=method)
        counts = count_confint([5, 6, 7], mechanism=noise, method=method)
        np.testing.assert_allclose(np.asarray(sums), np.asarray(counts), rtol=1e-12)


def test_methods_are_ordered():
    weights = np.ones((1, 6))
    exact = linear_confint(np.zeros(6), weights, mechanism=Laplace(scale=1.0)).width
    bound = linear_confint(
        np.zeros(6), weights, mechanism=Laplace(scale=1.0), method="tail-bound"
    ).width
    assert exact < bound


def test_functions_of_different_values_have_the_level_of_sidak():
    noise = Laplace(scale=1.0)
    weights = [[1, 1, 0, 0], [0, 0, 1, 1]]
    joint = linear_confint(np.zeros(4), weights, mechanism=noise, alpha=0.1, simultaneous=True)
    each = linear_confint(np.zeros(4), weights, mechanism=noise, alpha=1 - np.sqrt(0.9))
    np.testing.assert_allclose(joint.upper, each.upper, rtol=1e-12)
    assert joint.mc_error == 0.0


def test_dependent_functions_are_simulated_and_say_so():
    weights = [[1, 1, 0], [0, 1, 1]]
    arguments = {"simultaneous": True, "reps": 5000, "rng": 7}
    joint = linear_confint([0.0, 0.0, 0.0], weights, mechanism=Laplace(scale=1.0), **arguments)
    again = linear_confint([0.0, 0.0, 0.0], weights, mechanism=Laplace(scale=1.0), **arguments)
    alone = linear_confint([0.0, 0.0, 0.0], weights, mechanism=Laplace(scale=1.0))
    assert joint.summary() == again.summary()
    assert joint.mc_error == pytest.approx(np.sqrt(0.05 * 0.95 / 5000))
    assert "5000 simulated errors" in joint.notes[0]
    assert (joint.width > alone.width).all()


PAIRS = (np.eye(6)[:, None] - np.eye(6)).reshape(-1, 6)
"""All differences of six values: each pair both ways, and each value less itself."""


def test_all_differences_have_the_quantile_of_the_studentised_range():
    joint = linear_confint(
        np.zeros(6), PAIRS, mechanism=Gaussian(sigma=3.0), simultaneous=True, reps=200_000, rng=1
    )
    # the largest of all differences of six normal values, in units of one standard deviation
    coverage = stats.studentized_range.cdf(joint.upper.max() / 3.0, 6, np.inf)
    # 6 standard deviations, as the rank of a beta variable is close to normal
    assert abs(coverage - 0.95) < 6 * joint.mc_error
    np.testing.assert_array_equal(joint.width[::7], np.zeros(6))


DEPENDENT = {
    "differences": PAIRS,
    "cells and margins": np.array(
        [[1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    ),
    "weights": np.array([[0.3, -1.7, 2.2, 0, 0, 1], [0, 1, 1, 0.1, 5, 0], [1, 1, 0, 0, 0, 0]]),
}


@pytest.mark.thinned("weights", "noise", every=2)
@pytest.mark.parametrize("weights", DEPENDENT.values(), ids=DEPENDENT)
@pytest.mark.parametrize(
    "noise",
    [
        Laplace(scale=2.0),
        Gaussian(sigma=2.0),
        Geometric(scale=0.7),
        Geometric(scale=20.0),
        IndependentNoise(
            [Laplace(scale=1.0), Geometric(scale=9.0), *[Gaussian(sigma=2.0)] * 3]
        ).take([0, 1, 2, 3, 4, 0]),
    ],
    ids=["laplace", "gaussian", "narrow", "wide", "mixed"],
)
def test_dependent_functions_are_covered_together(weights, noise):
    reps, alpha = 50_000, 0.1
    options = {"alpha": alpha, "simultaneous": True, "reps": reps, "rng": 3}
    joint = linear_confint(np.zeros(6), weights, mechanism=noise, **options)
    errors = np.abs(np.asarray(noise.rvs((reps, 6), rng=4)) @ weights.T)
    coverage = (errors <= joint.upper).all(axis=1).mean()
    # 6 sigma, of as many errors for the quantile as for the coverage: chance 1e-9 each
    allowed = 6 * np.sqrt(2) * joint.mc_error
    assert coverage >= 1 - alpha - allowed
    if not noise.is_integer:
        assert coverage <= 1 - alpha + allowed
    bound = linear_confint(np.zeros(6), weights, mechanism=noise, alpha=alpha, method="tail-bound")
    assert (bound.width >= joint.width).all()
    assert (errors <= bound.upper).all(axis=1).mean() >= 1 - alpha - allowed


def test_memory_is_bounded_where_there_are_many_values(monkeypatch):
    drawn = []
    original = Laplace._rvs

    def spy(law, shape, rng):
        drawn.append(np.prod(shape))
        return original(law, shape, rng)

    monkeypatch.setattr(Laplace, "_rvs", spy)
    monkeypatch.setattr("dpinfer.estimation.pivots._BLOCK_SIZE", 10_000)
    linear_confint(
        np.zeros(500),
        np.ones((2, 500)),
        mechanism=Laplace(scale=1.0),
        simultaneous=True,
        reps=100,
        rng=1,
    )
    assert drawn == [10_000] * 5


def test_labels_match_weights_to_values():
    values = pd.Series({"a": 10.0, "b": 4.0})
    one = linear_confint(values, pd.Series({"b": -1.0, "a": 1.0}), mechanism=Laplace(scale=1.0))
    assert one.estimate == 6.0
    frame = pd.DataFrame({"b": [1.0, -1.0], "a": [1.0, 1.0]}, index=["sum", "difference"])
    several = linear_confint(values, frame, mechanism=Laplace(scale=1.0))
    assert several.estimate.to_dict() == {"sum": 14.0, "difference": 6.0}


def test_values_that_no_weight_names_have_no_part():
    values = pd.Series({"a": 10.0, "b": 4.0, "c": 1.0})
    whole = linear_confint(values, [1.0, -1.0, 0.0], mechanism=Laplace(scale=1.0))
    for weights in ({"b": -1, "a": 1}, pd.Series({"b": -1.0, "a": 1.0})):
        part = linear_confint(values, weights, mechanism=Laplace(scale=1.0))
        np.testing.assert_array_equal(np.asarray(part), np.asarray(whole))
    rows = pd.DataFrame({"c": [2.0]}, index=["twice c"])
    assert linear_confint(values, rows, mechanism=Laplace(scale=1.0)).estimate.to_dict() == {
        "twice c": 2.0
    }


def test_weights_name_rows_of_a_table():
    table = pd.DataFrame({"F": [1.0, 2.0], "M": [3.0, 5.0]}, index=["young", "old"])
    gap = linear_confint(table, {("old", "M"): 1, ("old", "F"): -1}, mechanism=Laplace(scale=1.0))
    assert gap.estimate == 3.0


def test_order_of_the_values_does_not_matter():
    rng = np.random.default_rng(5)
    values, weights = rng.normal(size=5), rng.integers(-2, 3, (3, 5))
    noise = Laplace(scale=[1.0, 2.0, 3.0, 4.0, 5.0])
    order = rng.permutation(5)
    straight = linear_confint(values, weights, mechanism=noise)
    shuffled = linear_confint(values[order], weights[:, order], mechanism=noise.take(order))
    np.testing.assert_allclose(np.asarray(straight), np.asarray(shuffled), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [[1.0, 2.0]]}, "values must be one-dimensional"),
        ({"values": []}, "values must hold at least one value"),
        ({"weights": [1, 2, 3]}, "weights must have 2 entries"),
        ({"weights": [1, np.nan]}, "weights must not contain NaN"),
        ({"weights": [[[1, 2]]]}, "weights must have 2 entries"),
        ({"weights": {"a": 1}}, "weights must be an array, or a mapping of labels"),
        ({"values": pd.Series({"a": 1.0}), "weights": {}}, "weights must be an array, or a map"),
        ({"values": pd.Series({"a": 1.0}), "weights": {"b": 1}}, "labelled like the values"),
        ({"alpha": 2}, "alpha must be < 1"),
        ({"method": "bootstrap"}, "method must be one of"),
        ({"mechanism": Laplace(scale=[1.0, 2.0, 3.0])}, "mechanism must have one law"),
        ({"simultaneous": True, "weights": [[1, 1], [1, -1]], "reps": 5}, "reps must be >= 19"),
        (
            {"values": pd.Series({"a": 1.0, "b": 2.0}), "weights": pd.Series({"a": 1.0, "c": 2.0})},
            "weights must be labelled like the values",
        ),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    call = {"values": [1.0, 2.0], "weights": [1, 1], "mechanism": Laplace(scale=1.0)} | arguments
    with pytest.raises(InvalidParameterError, match=message):
        linear_confint(**call)


@pytest.mark.parametrize("method", ["exact", "tail-bound", "asymptotic"])
@pytest.mark.parametrize("together", [False, True])
def test_one_sided_intervals_have_one_end_at_the_full_level(method, together):
    weights, how = np.eye(2) * 2.0, {"method": method, "simultaneous": together}
    noise = Gaussian(sigma=3.0)
    two = linear_confint([30.0, 20.0], weights, mechanism=noise, alpha=0.1, **how)
    each = 1 - np.sqrt(0.95) if together else 0.05
    each = 0.025 if method == "tail-bound" else each
    for side, end in (("greater", "lower"), ("less", "upper")):
        one = linear_confint(
            [30.0, 20.0], weights, mechanism=noise, alpha=0.05, alternative=side, **how
        )
        other = {"lower": "upper", "upper": "lower"}[end]
        assert np.isinf(getattr(one, other)).all()
        reach = np.abs(getattr(one, end) - [60.0, 40.0])
        np.testing.assert_allclose(reach, 6.0 * -special.ndtri(each), rtol=1e-9)
        if not together and method != "tail-bound":
            np.testing.assert_array_equal(getattr(one, end), getattr(two, end))
    with pytest.raises(InvalidParameterError, match=r"alpha must be < 0.5"):
        linear_confint([30.0], [1.0], mechanism=noise, alpha=0.6, alternative="larger")


def test_one_sided_simultaneous_limits_of_dependent_functions_cover():
    pairs, noise = np.array([[1.0, -1, 0], [1, 0, -1], [0, 1, -1]]), Laplace(scale=2.0)
    found = linear_confint(
        np.zeros(3), pairs, mechanism=noise, alternative="larger", simultaneous=True, rng=5
    )
    errors = noise.rvs((100_000, 3), rng=6) @ pairs.T
    covered = (errors <= -np.asarray(found.lower)).all(axis=1).mean()
    # the simulation's mc_error is .0022, that of the check .0007: 5 of both; by accident 1e-6
    assert abs(covered - 0.95) < 0.0115
