import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import survey_total
from dpinfer.intervals.widths import SurveyWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

POPULATION = 20_000


def gaussian_width(n, share, alpha, sigma, population=POPULATION):
    """Cochran (1977), Theorems 2.2 and 3.2, and the noise."""
    spread = (n * n * share * (1 - share) + sigma**2) / (n * (n - 1))
    variance = population * (population - n) / n * spread + (population / n * sigma) ** 2
    return 2.0 * stats.norm.isf(alpha / 2) * np.sqrt(variance)


@pytest.mark.parametrize("method", ["convolution", "normal"])
def test_gaussian_noise_has_a_closed_form(method):
    plan = SurveyWidth(Gaussian(sigma=15.0), POPULATION, method=method)
    n, share = np.array([[50], [800], [20_000]]), np.array([0.0, 0.013, 0.4])
    expected = gaussian_width(n, share, 0.1, 15.0)
    np.testing.assert_allclose(plan.width(n, share, 0.1), expected, rtol=1e-9)


def test_noise_alone_has_a_closed_form():
    plan = SurveyWidth(Laplace.from_epsilon, POPULATION, uncertainty="noise")
    width = plan.width(500, [0.1, 0.9], budget=0.2)
    np.testing.assert_allclose(width, 2.0 * 40.0 * 5.0 * np.log(20.0), rtol=1e-12)
    n = plan.solve_width(width=1000.0, proportion=0.3, alpha=0.05, budget=0.2)
    assert n == np.ceil(2.0 * POPULATION * 5.0 * np.log(20.0) / 1000.0)


def test_without_noise_the_exact_one_is_hypergeometric():
    n, population = 40, 300
    total = np.arange(population + 1)
    law = stats.hypergeom(population, total, n)
    stays = (law.sf(11) > 0.05) & (law.cdf(12) > 0.05)
    plan = SurveyWidth(Exact(), population, method="exact")
    assert plan.width(n, 0.3, 0.1) == np.ptp(total[stays])


@pytest.mark.parametrize("law", [Laplace(scale=8.0), Geometric(scale=8.0), Gaussian(sigma=8.0)])
@pytest.mark.parametrize("method", ["convolution", "normal", "exact"])
def test_width_is_that_of_the_interval(law, method):
    n, share = np.array([100, 101, 3001]), 0.213
    # 21.3, 21.513 and 639.213
    count = [21, 22, 639] if law.is_integer else n * share
    total = survey_total(count, mechanism=law, sample_size=n, population_size=POPULATION)
    width = SurveyWidth(law, POPULATION, method=method).width(n, share)
    np.testing.assert_array_equal(width, total.conf_int(method=method).width)
    assert isinstance(SurveyWidth(law, POPULATION, method=method).width(100, share), float)


@pytest.mark.parametrize("made", [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho])
@pytest.mark.parametrize("method", ["convolution", "normal"])
def test_solved_arguments_reach_the_width_and_no_more(made, method):
    plan, share = SurveyWidth(made, POPULATION, method=method), 0.3
    known = {"proportion": share, "width": 2000.0}
    n = plan.solve_width(alpha=0.1, budget=0.05, **known)
    assert plan.width(n, share, 0.1, 0.05) <= 2000.0 < plan.width(n - 1, share, 0.1, 0.05)
    budget = plan.solve_width(alpha=0.1, sample_size=n, **known)
    assert budget <= 0.05
    assert plan.width(n, share, 0.1, budget) == pytest.approx(2000.0, rel=1e-7)
    alpha = plan.solve_width(sample_size=n, budget=0.05, **known)
    assert alpha <= 0.1
    assert plan.width(n, share, alpha, 0.05) == pytest.approx(2000.0, rel=1e-7)


def test_sizes_are_those_of_the_closed_form():
    plan = SurveyWidth(Gaussian(sigma=30.0), POPULATION, method="normal")
    sizes = np.arange(2, POPULATION + 1)
    for share in (0.0, 0.02, 0.5):
        for width in (400.0, 3000.0, 30_000.0):
            enough = gaussian_width(sizes, share, 0.05, 30.0) <= width
            n = plan.solve_width(proportion=share, alpha=0.05, width=width)
            assert n == sizes[enough.argmax()]
            assert type(n) is float


@pytest.mark.parametrize("population", [1, 2, 3])
def test_small_populations(population):
    plan = SurveyWidth(Gaussian(sigma=1.0), population, method="convolution")
    wide = plan.solve_width(proportion=0.5, alpha=0.05, width=1e6)
    assert wide == min(2, population)
    census = 2.0 * stats.norm.isf(0.025)
    assert plan.width(population, 0.5) == pytest.approx(census, rel=1e-9)
    everybody = plan.solve_width(proportion=0.5, alpha=0.05, width=census * (1 + 1e-9))
    assert everybody == population


def test_frames_have_all_combinations():
    plan = SurveyWidth(Laplace.from_epsilon, POPULATION)
    frame = plan.width_frame(sample_size=[10, 20], proportion=0.1, budget=[1.0, 2.0])
    columns = ["alpha", "sample_size", "proportion", "budget", "width", "error"]
    assert list(frame.columns) == columns
    assert len(frame) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SurveyWidth(Laplace, 100), "mechanism must be a law of noise"),
        (lambda: SurveyWidth(Exact(), 0), "population_size must be >= 1"),
        (lambda: SurveyWidth(Exact(), 1.5), "population_size must be a whole number"),
        (lambda: SurveyWidth(Exact(), 10**20), "population_size must be <="),
        (lambda: SurveyWidth(Exact(), 100, method="wilson"), "method must be one of"),
        (lambda: SurveyWidth(Exact(), 100, uncertainty="sampling"), "uncertainty must be one of"),
        (
            lambda: SurveyWidth(Exact(), 100, uncertainty="noise", method="convolution"),
            "method must be one of 'exact', 'normal'",
        ),
        (lambda: SurveyWidth(Exact(), 100).width(1, 0.5), "sample_size must be >= 2"),
        (lambda: SurveyWidth(Exact(), 100).width(101, 0.5), "sample_size must be <= 100"),
        (lambda: SurveyWidth(Exact(), 100).width(10, 1.1), "proportion must be <= 1"),
        (
            lambda: SurveyWidth(Laplace(scale=9.0), 100).solve_width(
                proportion=0.5, alpha=0.05, width=1.0
            ),
            "width must be one that can be reached: it is 53.9",
        ),
        (
            lambda: SurveyWidth(Exact(), 100).solve_width(proportion=None, alpha=0.05, width=1.0),
            "proportion must hold real numbers",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


numbers = st.none() | st.floats() | st.floats(1e-3, 1.0) | st.integers(-2, 1000) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=80)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Geometric.from_epsilon, Gaussian(sigma=2.0)]),
    options=st.sampled_from([{}, {"method": "normal"}, {"uncertainty": "noise"}]),
    sample_size=numbers,
    share=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(
    made, options, sample_size, share, alpha, width, budget
):
    plan = SurveyWidth(made, 500, **options)
    known = {"sample_size": sample_size, "proportion": share, "alpha": alpha, "budget": budget}
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
