import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import clipped_mean_confint
from dpinfer.intervals.widths import ClippedMeanWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace, WeightedSum

BOUNDS = (-20.0, 80.0)


def laplace(budget):
    return Laplace.from_epsilon(budget, sensitivity=100.0)


def gaussian(budget):
    return Gaussian.from_rho(budget, sensitivity=100.0)


SETTINGS = [
    {"uncertainty": "noise"},
    {"std": 15.0},
    {},
]


def test_noise_alone_has_a_closed_form():
    plan = ClippedMeanWidth(laplace, BOUNDS, uncertainty="noise", noise_in="sum")
    nobs, budget = np.array([[10], [500], [10**6]]), np.array([0.01, 1.0])
    expected = np.minimum(2.0 * 100.0 / (nobs * budget) * np.log(20.0), 100.0)
    np.testing.assert_allclose(plan.width(nobs, budget=budget), expected, rtol=1e-12)
    n = plan.solve_width(width=3.0, alpha=0.05, budget=0.5)
    assert n == np.ceil(400.0 * np.log(20.0) / 3.0)
    assert type(n) is float
    solved = plan.solve_width(width=3.0, alpha=0.05, nobs=700)
    assert solved == pytest.approx(200.0 * np.log(20.0) / 2100.0, rel=1e-8)


@pytest.mark.parametrize(("noise_in", "sigma"), [("mean", 0.6), ("sum", 0.6 * 400)])
def test_gaussian_noise_and_a_known_deviation_add(noise_in, sigma):
    plan = ClippedMeanWidth(Gaussian(sigma=sigma), BOUNDS, std=15.0, noise_in=noise_in)
    half = stats.norm.isf(0.05) * np.hypot(0.6, 15.0 / 20.0)
    assert plan.width(400, 0.1) == pytest.approx(2.0 * half, rel=1e-9)


def test_without_noise_it_is_the_width_of_hoeffding():
    width = ClippedMeanWidth(Exact(), BOUNDS).width(2000, 0.1)
    exact = 2.0 * 100.0 * np.sqrt(np.log(20.0) / 4000.0)
    # the bound is taken at the far end of a step
    assert exact <= width < exact * 1.001


def test_gaussian_noise_and_hoeffding_by_quadrature():
    half = 0.5 * ClippedMeanWidth(Gaussian(sigma=0.8), BOUNDS).width(2000, 0.1)
    scale = 100.0 / np.sqrt(2000.0)
    # R has the density 4r/scale²·exp(-2(r/scale)²)
    beyond, _ = integrate.quad(
        lambda r: (
            4 * r / scale**2 * np.exp(-2 * (r / scale) ** 2) * stats.norm.sf(half - r, 0, 0.8)
        ),
        0.0,
        20.0 * scale,
    )
    assert 0.997 * 0.05 < beyond <= 0.05


@pytest.mark.parametrize("law", [Laplace(scale=90.0), Geometric(scale=90.0), Gaussian(sigma=90.0)])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_width_is_that_of_the_interval_at_the_middle(law, options):
    for nobs in (1, 60, 900):
        # noise in the mean has a law of its own
        for noise_in, noise in (("sum", WeightedSum([1.0 / nobs], law)), ("mean", law)):
            interval = clipped_mean_confint(30.0, nobs, bounds=BOUNDS, mechanism=noise, **options)
            width = ClippedMeanWidth(law, BOUNDS, noise_in=noise_in, **options).width(nobs)
            assert isinstance(width, float)
            assert width == pytest.approx(float(interval.width), rel=1e-9)


@pytest.mark.parametrize("made", [laplace, gaussian])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_solved_arguments_reach_the_width_and_no_more(made, options):
    plan = ClippedMeanWidth(made, BOUNDS, noise_in="sum", **options)
    n = plan.solve_width(width=8.0, alpha=0.1, budget=0.5)
    assert plan.width(n, 0.1, 0.5) <= 8.0 < plan.width(n - 1, 0.1, 0.5)
    budget = plan.solve_width(width=8.0, alpha=0.1, nobs=n)
    assert budget <= 0.5
    assert plan.width(n, 0.1, budget) == pytest.approx(8.0, rel=1e-8)
    alpha = plan.solve_width(width=8.0, nobs=n, budget=0.5)
    assert alpha <= 0.1
    assert plan.width(n, alpha, 0.5) == pytest.approx(8.0, rel=1e-8)
    assert plan.solve_width(nobs=n, alpha=alpha, budget=0.5) == plan.width(n, alpha, 0.5)


def test_noise_in_the_mean_limits_what_a_sample_can_do():
    plan, z = ClippedMeanWidth(Gaussian(sigma=1.0), BOUNDS, std=20.0), stats.norm.isf(0.025)
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve_width(width=1.99 * z, alpha=0.05)
    # z²·(1 + 400/n) = 2²
    n = plan.solve_width(width=4.0, alpha=0.05)
    assert n == np.ceil(400.0 / (np.square(2.0 / z) - 1.0))


def test_frames_have_all_combinations():
    frame = ClippedMeanWidth(laplace, BOUNDS, std=3).width_frame(nobs=[10, 20], budget=[1.0, 2.0])
    assert list(frame.columns) == ["alpha", "nobs", "budget", "width", "error"]
    assert len(frame) == 4
    assert (frame["error"] == 0.0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ClippedMeanWidth(Laplace, BOUNDS), "mechanism must be a law of noise"),
        (lambda: ClippedMeanWidth(laplace, (1.0, 1.0)), "bounds must be two numbers"),
        (lambda: ClippedMeanWidth(laplace, (0.0, np.nan)), "bounds must not contain NaN"),
        (lambda: ClippedMeanWidth(laplace, (0.0, 1e30)), "bounds must be <="),
        (lambda: ClippedMeanWidth(laplace, 3.0), "bounds must be one-dimensional"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS, std=51.0), "std must be <="),
        (lambda: ClippedMeanWidth(laplace, BOUNDS, std=[1.0, 2.0]), "std must be a number"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS, method="normal"), "method must be one of"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS, uncertainty="all"), "uncertainty must be one"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS, noise_in="total"), "noise_in must be one of"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS).width(0, budget=1.0), "nobs must be >= 1"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS).width(1.5, budget=1.0), "nobs must hold whole"),
        (lambda: ClippedMeanWidth(laplace, BOUNDS).width(1e13, budget=1.0), "nobs must be <="),
        (
            lambda: ClippedMeanWidth(laplace, BOUNDS).solve_width(alpha=0.1),
            "exactly one of nobs, alpha, budget, width must be None",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


numbers = st.none() | st.floats() | st.floats(1e-3, 1.0) | st.integers(-2, 10_000) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([laplace, Geometric.from_epsilon, Gaussian(sigma=2.0)]),
    options=st.sampled_from(SETTINGS),
    noise_in=st.sampled_from(["sum", "mean"]),
    nobs=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(
    made, options, noise_in, nobs, alpha, width, budget
):
    plan = ClippedMeanWidth(made, BOUNDS, noise_in=noise_in, **options)
    known = {"nobs": nobs, "alpha": alpha, "budget": budget}
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
