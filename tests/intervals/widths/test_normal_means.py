import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import normal_mean_confint
from dpinfer.intervals.widths import NormalMeanWidth

KNOWN = [
    {"mean_bounds": (0.0, 300.0)},
    {"mean_bounds": (0.0, 300.0), "method": "tail-bound"},
    {"mean_bounds": (0.0, 300.0), "split": (1.0, 3.0)},
    {"delta": 1e-6},
]
UNKNOWN = [
    {"mean_bounds": (0.0, 300.0), "std_bounds": (0.1, 100.0)},
    {"delta": 1e-6},
    {"delta": 1e-6, "std_bounds": (1.0, 1e4), "split": (1.0, 1.0, 2.0, 2.0)},
]


@pytest.mark.parametrize("parts", KNOWN, ids=str)
@pytest.mark.parametrize(("nobs", "epsilon"), [(900, 1.0), (3000, 2.0), (40, 1.0)])
def test_width_is_that_of_the_interval_where_the_variance_is_known(parts, nobs, epsilon):
    rng = np.random.default_rng(5)
    data = 150.0 + 15.0 * rng.standard_normal(nobs)
    interval = normal_mean_confint(data, epsilon=epsilon, std=15.0, rng=rng, **parts)
    width = NormalMeanWidth(**parts).width(nobs, 15.0, epsilon)
    assert width == pytest.approx(float(interval.width), rel=1e-12)


@pytest.mark.parametrize("parts", UNKNOWN, ids=str)
@pytest.mark.parametrize(("nobs", "std", "epsilon"), [(1201, 15.0, 3.0), (3000, 21.0, 2.0)])
def test_width_is_the_average_of_simulated_intervals(parts, nobs, std, epsilon):
    rng = np.random.default_rng(7)
    widths = [
        normal_mean_confint(rng.normal(150.0, std, nobs), epsilon=epsilon, rng=rng, **parts).width
        for _ in range(300)
    ]
    frame = NormalMeanWidth(known_std=False, **parts).width_frame(
        nobs=nobs, std=std, epsilon=epsilon
    )
    # 6 standard errors of both simulations, 2e-9 for each of 6 cases
    allowed = 6.0 * np.hypot(np.std(widths) / np.sqrt(300), frame["error"][0])
    assert np.mean(widths) == pytest.approx(frame["width"][0], abs=allowed)


def test_too_few_observations_have_the_bounds_as_interval():
    bounded, free = NormalMeanWidth(mean_bounds=(-5, 5)), NormalMeanWidth(delta=1e-9)
    assert bounded.width(10, 1.0, 0.1) == 10.0
    assert free.width(10, 1.0, 0.1) == np.inf


@pytest.mark.parametrize("known", [True, False])
def test_width_is_in_units_of_the_variable(known):
    plan = NormalMeanWidth(known_std=known, delta=1e-6)
    # bins of differences are powers of 2
    widths = plan.width(5000, [1.0, 8.0, 1024.0], 2.0)
    np.testing.assert_allclose(widths, widths[0] * np.array([1.0, 8.0, 1024.0]), rtol=1e-9)


def test_much_data_leave_the_normal_interval():
    widths = [
        NormalMeanWidth(known_std=known, delta=1e-6).width(10**12, 1.0, 1.0)
        for known in (True, False)
    ]
    # known: 0.95 + 0.1·0.05 of the level is left; unknown: a share of it goes to the noise
    assert widths[0] == pytest.approx(2 * 1.96e-6, rel=0.03)
    assert widths[0] < widths[1] < 1.2 * widths[0]


@pytest.mark.parametrize(
    ("known", "parts"), [(True, KNOWN[0]), (True, KNOWN[3]), (False, UNKNOWN[0])]
)
def test_solutions_reach_the_width(known, parts):
    plan = NormalMeanWidth(known_std=known, **parts)
    wanted = plan.width(4000, 15.0, 1.5)
    size = plan.solve_width(width=wanted, std=15.0, epsilon=1.5, alpha=0.05)
    assert size == pytest.approx(4000, abs=2)
    assert plan.width(size, 15.0, 1.5) <= wanted
    assert plan.width(size - 1, 15.0, 1.5) > wanted
    epsilon = plan.solve_width(width=wanted, std=15.0, nobs=4000, alpha=0.05)
    assert epsilon == pytest.approx(1.5, rel=1e-6)
    assert plan.width(4000, 15.0, epsilon) <= wanted
    alpha = plan.solve_width(width=wanted, std=15.0, nobs=4000, epsilon=1.5)
    assert alpha == pytest.approx(0.05, rel=1e-6)
    assert plan.solve_width(std=15.0, nobs=4000, epsilon=1.5, alpha=0.05) == wanted


def test_frames_and_drawings_are_of_widths():
    plan = NormalMeanWidth(mean_bounds=(-5, 5))
    frame = plan.width_frame(nobs=[500, 1000], std=1.0, epsilon=[1.0, 2.0])
    assert list(frame.columns) == ["alpha", "nobs", "std", "epsilon", "width", "error"]
    np.testing.assert_array_equal(
        frame["width"], plan.width(frame["nobs"], frame["std"], frame["epsilon"])
    )
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot

    axes = plan.plot("epsilon", nobs=[500, 1000], std=1.0, epsilon=[1.0, 2.0, 4.0])
    assert len(axes.containers) == 2
    pyplot.close("all")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "mean_bounds must be given and finite"),
        ({"known_std": False, "mean_bounds": (0, 1)}, "std_bounds must be given"),
        ({"known_std": 1}, "known_std must be True or False"),
        ({"mean_bounds": (1, 0)}, "mean_bounds must be two numbers"),
        ({"mean_bounds": "ab"}, "mean_bounds must hold real numbers"),
        ({"mean_bounds": (0, 1), "std_bounds": (1, 2)}, "std_bounds must not be given"),
        ({"delta": 1.0}, "delta must be < 1"),
        ({"delta": 0.1, "method": "normal"}, "method must be one of"),
        ({"delta": 0.1, "known_std": False, "method": "exact"}, "method must be 'tail-bound'"),
        ({"delta": 0.1, "split": (1, 2, 3)}, "split must have"),
    ],
)
def test_bad_plans_are_refused(parts, message):
    with pytest.raises(InvalidParameterError, match=message):
        NormalMeanWidth(**parts)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({}, "exactly one of nobs, std, epsilon, alpha, width must be None"),
        ({"width": 0.1, "std": 0.0}, "std must be >= 1e-40"),
        ({"width": 0.1, "std": None}, "std must hold real numbers"),
        ({"width": 0.1, "nobs": 1}, "nobs must be >= 2"),
        ({"width": 0.1, "nobs": 10.5}, "nobs must hold whole"),
        ({"nobs": 100, "epsilon": 0.0}, "epsilon must be >= 1e-10"),
        ({"width": -1.0, "nobs": 100}, "width must be > 0"),
        ({"width": 1e-9, "nobs": 100}, "width must be one that can be reached"),
        ({"width": 50.0, "nobs": 1000}, "width must be smaller than 10"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    with pytest.raises(InvalidParameterError, match=message):
        NormalMeanWidth(mean_bounds=(-5, 5)).solve_width(**{"std": 1.0, "alpha": 0.05} | known)


def test_a_standard_deviation_outside_its_bounds_is_refused():
    plan = NormalMeanWidth(known_std=False, mean_bounds=(-5, 5), std_bounds=(1, 2))
    with pytest.raises(InvalidParameterError, match="std must be <= 2"):
        plan.width(100, 3.0, 1.0)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    parts=st.sampled_from([KNOWN[0], KNOWN[3], UNKNOWN[0], UNKNOWN[1]]),
    nobs=numbers | st.integers(1, 10**12),
    std=numbers | st.sampled_from([1e-40, 1e-20, 1e40, 15.0]),
    epsilon=numbers | st.sampled_from([1e-10, 1e10]),
    alpha=st.sampled_from([0.1, 1e-12, 0.999, None]),
    width=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(parts, width, **known):
    plan = NormalMeanWidth(known_std=parts in KNOWN, **parts)
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert found >= 0.0
