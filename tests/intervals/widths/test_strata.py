import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import stratified_total, survey_total
from dpinfer.intervals.widths import StratifiedWidth, SurveyWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

SIZES, SHARES = [10_000, 4_000], [0.2, 0.15]


@pytest.mark.parametrize("method", ["convolution", "normal"])
@pytest.mark.parametrize("design", ["srs", "poisson"])
def test_gaussian_noise_has_a_closed_form(method, design):
    sigma, size, share = np.array([5.0, 9.0]), np.array(SIZES), np.array(SHARES)
    laws = [Gaussian(sigma=float(s)) for s in sigma]
    n = np.array([300.0, 600.0])
    if design == "srs":
        # Cochran (1977), Theorem 5.3
        spread = (n * n * share * (1 - share) + sigma**2) / (n * (n - 1))
        variance = size * (size - n) / n * spread
    else:
        variance = (1 - n / size) * n * share * (size / n) ** 2
    variance = variance + (size / n * sigma) ** 2
    plan = StratifiedWidth(laws, SIZES, SHARES, allocation=[1, 2], design=design, method=method)
    expected = 2.0 * stats.norm.isf(0.05) * np.sqrt(variance.sum())
    assert plan.width(900, 0.1) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", [Laplace(scale=8.0), Geometric(scale=8.0), Gaussian(sigma=8.0)])
def test_one_stratum_is_one_sample(law):
    plan, one = StratifiedWidth(law, [20_000], 0.213), SurveyWidth(law, 20_000)
    np.testing.assert_allclose(plan.width([100, 3001]), one.width([100, 3001], 0.213), rtol=1e-9)
    count = 200 if law.is_integer else 0.2 * 1000
    total = survey_total(count, mechanism=law, rate=0.1, design="poisson")
    poisson = StratifiedWidth(law, [10_000], 0.2, design="poisson").width(1000)
    assert poisson == pytest.approx(float(total.conf_int().width), rel=1e-9)


@pytest.mark.parametrize("design", ["srs", "poisson"])
@pytest.mark.parametrize("law", [Laplace(scale=4.0), Geometric(scale=4.0)], ids=str)
def test_simulated_surveys_have_intervals_as_wide(design, law):
    rng, reps, n = np.random.default_rng(3), 30, np.array([500, 200])
    size, share = np.array(SIZES), np.array(SHARES)
    members = np.rint(size * share).astype(int)
    widths = []
    for _ in range(reps):
        if design == "srs":
            count = rng.hypergeometric(members, size - members, n)
            given = {"sample_size": n}
        else:
            count, given = rng.binomial(members, n / size), {"rate": n / size}
        noisy = count + law.rvs(2, rng=rng)
        total = stratified_total(noisy, mechanism=law, population_size=size, design=design, **given)
        widths.append(float(total.conf_int(method="convolution").width))
    # 6 standard errors, chance 2e-9 each of 4, and the curvature of the width
    slack = 6.0 * np.std(widths) / np.sqrt(reps) + 2.0 * np.var(widths) / np.mean(widths)
    plan = StratifiedWidth(law, SIZES, SHARES, design=design, method="convolution")
    assert plan.width(700) == pytest.approx(np.mean(widths), abs=slack)


def test_noise_alone_does_not_depend_on_the_counts():
    law = Gaussian(sigma=3.0)
    plan = StratifiedWidth(law, SIZES, SHARES, allocation=[1, 1], uncertainty="noise")
    expected = 2.0 * stats.norm.isf(0.025) * 3.0 * np.hypot(10_000 / 300, 4_000 / 300)
    assert plan.width(600) == pytest.approx(expected, rel=1e-9)


def test_samples_are_of_two_units_at_least_and_of_all_at_most():
    plan = StratifiedWidth(Exact(), [1, 50, 10_000], 0.5, method="normal")
    few = stratified_total(
        [0, 1, 1], mechanism=Exact(), sample_size=[1, 2, 2], population_size=[1, 50, 10_000]
    )
    assert plan.width(1) == pytest.approx(float(few.conf_int(method="normal").width), rel=1e-12)
    assert plan.width(10_051) == 0.0


@pytest.mark.parametrize(
    ("made", "design"),
    [
        (Laplace.from_epsilon, "poisson"),
        (Geometric.from_epsilon, "srs"),
        (Gaussian.from_rho, "srs"),
    ],
)
def test_solved_arguments_reach_the_width_and_no_more(made, design):
    plan = StratifiedWidth(
        made, SIZES, SHARES, allocation=[1, 1], design=design, method="convolution"
    )
    n = plan.solve_width(width=1400.0, alpha=0.1, budget=0.4)
    assert plan.width(n, 0.1, 0.4) <= 1400.0 < plan.width(n - 1, 0.1, 0.4)
    budget = plan.solve_width(width=1400.0, alpha=0.1, sample_size=n)
    assert plan.width(n, 0.1, budget) <= 1400.0 < plan.width(n, 0.1, budget * (1.0 - 1e-6))
    alpha = plan.solve_width(width=1400.0, sample_size=n, budget=0.4)
    assert plan.width(n, alpha, 0.4) == pytest.approx(1400.0, rel=1e-6)


def test_the_default_is_that_of_the_interval():
    law = Geometric(scale=4.0)
    total = stratified_total(
        [20, 15], mechanism=law, sample_size=[100, 100], population_size=[1_000, 4_000]
    )
    plan = StratifiedWidth(law, [1_000, 4_000], [0.2, 0.15], allocation=[1, 1])
    assert plan.width(200) == float(total.conf_int().width)
    assert total.conf_int().method == "exact"


def test_frames_have_a_column_for_each_argument():
    frame = StratifiedWidth(Laplace.from_epsilon, SIZES, SHARES, method="normal").width_frame(
        sample_size=[500, 700], budget=[0.5, 1.0]
    )
    assert list(frame.columns) == ["alpha", "sample_size", "budget", "width", "error"]
    assert len(frame) == 4


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"population_size": 100}, "population_size must have one entry for each stratum"),
        ({"population_size": [0, 5]}, "population_size must be >= 1"),
        ({"proportion": [0.5, 1.5]}, "proportion must be <= 1"),
        ({"proportion": [0.5] * 3}, "proportion must be a number or have one entry"),
        ({"allocation": [1, 0]}, "allocation must be > 0"),
        ({"allocation": [1, 2, 3]}, "allocation must be a number or have one entry"),
        ({"design": "cluster"}, "design must be one of"),
        ({"uncertainty": "sampling"}, "uncertainty must be one of"),
        ({"method": "bootstrap"}, "method"),
        ({"mechanism": [Exact()] * 3}, "mechanism must have one law"),
    ],
)
def test_bad_plans_are_refused(parts, message):
    good = {"mechanism": Laplace(scale=2.0), "population_size": SIZES, "proportion": SHARES}
    with pytest.raises(InvalidParameterError, match=message):
        StratifiedWidth(**good | parts)


def test_what_cannot_be_reached_is_refused():
    plan = StratifiedWidth(Laplace.from_epsilon, SIZES, SHARES, method="convolution")
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve_width(width=1.0, alpha=0.05, budget=0.1)
    with pytest.raises(InvalidParameterError, match="sample_size must be <= 14000"):
        plan.width(20_000, budget=1.0)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.integers(1, 20_000) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Gaussian(sigma=2.0), Geometric.from_epsilon]),
    sizes=st.lists(st.integers(0, 10**6), min_size=1, max_size=3),
    design=st.sampled_from(["srs", "poisson"]),
    sample_size=numbers,
    alpha=numbers,
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, sizes, design, width, **known):
    try:
        plan = StratifiedWidth(made, sizes, 0.3, design=design, method="normal")
    except DPInferError:
        return
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert found >= 0.0
