"""Widths that are known: of the noise, and where published values are the true ones."""

import numpy as np
import pytest
from planned import Planned
from scipy import integrate, optimize, stats

from dpinfer import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
    clipped_mean_confint,
    combine,
    count_confint,
    linear_confint,
    linear_ratio_confint,
    ratio_confint,
    share_confint,
    survey_total,
    unpublished_bound,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import stratified_total

LAWS = [
    Laplace(scale=3.0),
    Geometric(scale=3.0),
    Gaussian(sigma=3.0),
    DiscreteGaussian(sigma=3.0),
    Tulap.from_epsilon(0.5),
]


METHODS = ["exact", "tail-bound", "asymptotic"]


def test_laplace_has_a_closed_form():
    plan = Planned(count_confint, mechanism=Laplace.from_epsilon)
    alpha, budget = np.array([[0.01], [0.05], [0.3]]), np.array([0.1, 1.0, 20.0])
    widths = plan.width(alpha=alpha, budget=budget)
    np.testing.assert_allclose(widths, 2.0 / budget * np.log(1.0 / alpha), rtol=1e-13)
    for a, b, w in zip(alpha.repeat(3), np.tile(budget, 3), widths.ravel(), strict=True):
        assert plan.solve(alpha=a, width=w) == pytest.approx(b, rel=1e-8)
        assert plan.solve(budget=b, width=w, alpha=None) == pytest.approx(a, rel=1e-8)
        assert plan.solve(alpha=a, budget=b) == pytest.approx(w, rel=1e-13)


def test_the_union_bound_has_a_closed_form():
    plan = Planned(count_confint, mechanism=Laplace.from_epsilon, method="tail-bound", cells=50)
    assert plan.width(alpha=0.05, budget=0.5) == pytest.approx(4.0 * np.log(1000.0), rel=1e-13)
    budget = plan.solve(alpha=0.05, width=10.0)
    assert budget == pytest.approx(0.2 * np.log(1000.0), rel=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cells", [1, 7])
def test_width_is_that_of_the_interval(law, method, cells):
    interval = count_confint(
        np.full(cells, 1000.0), mechanism=law, alpha=0.1, method=method, simultaneous=cells > 1
    )
    width = Planned(count_confint, mechanism=law, method=method, cells=cells).width(alpha=0.1)
    assert isinstance(width, float)
    np.testing.assert_allclose(interval.width, width, rtol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_width_of_a_linear_function_is_that_of_its_interval(law, method):
    weights = np.array([1.0, -2.0, 0.0, 3.0])
    interval = linear_confint(np.zeros(4), weights, mechanism=law, alpha=0.1, method=method)
    width = Planned(linear_confint, weights=weights, mechanism=law, method=method).width(alpha=0.1)
    assert width == pytest.approx(float(interval.width), rel=1e-12)


def test_one_value_is_a_linear_function():
    alpha = [0.01, 0.1]
    one = Planned(linear_confint, weights=[1.0], mechanism=Geometric.from_epsilon).width(
        alpha=alpha, budget=0.3
    )
    np.testing.assert_allclose(
        one, Planned(count_confint, mechanism=Geometric.from_epsilon).width(alpha=alpha, budget=0.3)
    )


@pytest.mark.parametrize("simultaneous", [False, True])
def test_combined_estimates_are_linear_functions(simultaneous):
    known = {"simultaneous": simultaneous, "reps": 500, "rng": 3}
    matrix = [[1, 0], [0, 1], [1, 1]]

    def estimate(budget):
        law = Laplace.from_epsilon(budget)
        return combine([10.0, 20.0, 31.0], workload=matrix, mechanism=law)

    plan = Planned(
        linear_confint, weights=estimate(1.0).weights, mechanism=Laplace.from_epsilon, **known
    )
    for budget in (0.2, 3.0):
        widths = estimate(budget).conf_int(simultaneous=simultaneous, reps=2000, rng=5).width
        # the quantile of the largest of two errors, by 500 draws, has an error of some 5 per cent;
        # 6 of them: 2e-9
        rel = 0.35 if simultaneous else 1e-6
        assert plan.width(budget=budget) == pytest.approx(np.max(widths), rel=rel)


@pytest.mark.parametrize("law", [Laplace(scale=3.0), Geometric(scale=3.0)])
def test_values_within_their_bounds_have_the_width_of_a_count(law):
    inside = count_confint([40.0, 70.0], mechanism=law, clamp=(0, 100), alpha=0.1)
    np.testing.assert_allclose(
        inside.width, Planned(count_confint, mechanism=law).width(alpha=0.1), rtol=1e-9
    )


def test_each_value_has_its_own_law():
    laws = [Gaussian(sigma=3.0), Gaussian(sigma=4.0), Exact()]
    width = Planned(linear_confint, weights=[1.0, 1.0, 5.0], mechanism=laws).width(alpha=0.05)
    assert width == pytest.approx(2 * 1.959963984540054 * 5.0, rel=1e-9)


PAIRS = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 2.0, -2.0]])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_width_of_several_functions_is_that_of_the_widest(method, simultaneous):
    kind = {"method": method, "simultaneous": simultaneous}
    plan = Planned(linear_confint, weights=PAIRS, mechanism=LAWS[0], rng=5, **kind)
    interval = linear_confint(np.zeros(3), PAIRS, mechanism=LAWS[0], rng=6, **kind)
    frame = plan.curve(alpha=0.05)
    assert (frame["error"] > 0.0).all() == (interval.mc_error > 0.0)
    # 6 standard deviations of two simulations, 2e-9
    allowed = 6.0 * np.sqrt(2.0) * frame["error"][0] + 1e-12
    assert frame["width"][0] == pytest.approx(interval.width.max(), abs=allowed)
    assert plan.width() == frame["width"][0]


def test_simulated_width_has_the_error_that_it_says():
    plan = Planned(linear_confint, weights=PAIRS, mechanism=Laplace(scale=2.0), simultaneous=True)
    frame = plan.curve(alpha=0.05)
    precise = linear_confint(
        np.zeros(3), PAIRS, mechanism=Laplace(scale=2.0), simultaneous=True, reps=400_000, rng=3
    )
    # 6 standard deviations of one simulation and the other, 1e-9
    allowed = 6.0 * frame["error"][0] * np.sqrt(1.0 + 1.0 / 40.0)
    assert frame["width"][0] == pytest.approx(precise.width.max(), abs=allowed)


def test_simultaneous_normal_functions_have_the_law_of_their_range():
    from scipy import stats

    pairs = [[1, -1, 0], [1, 0, -1], [0, 1, -1]]
    plan = Planned(
        linear_confint,
        weights=pairs,
        mechanism=Gaussian(sigma=1.0),
        simultaneous=True,
        reps=100_000,
    )
    frame = plan.curve(alpha=[0.05, 0.2])
    # the largest of all differences is the studentised range; 6 standard deviations, 2e-9
    exact = 2.0 * stats.studentized_range.isf([0.05, 0.2], 3, np.inf)
    assert (np.abs(frame["width"] - exact) < 6.0 * frame["error"]).all()


def test_levels_are_those_that_replicates_can_tell():
    plan = Planned(
        linear_confint, weights=PAIRS, mechanism=Laplace(scale=1.0), simultaneous=True, reps=99
    )
    with pytest.raises(InvalidParameterError, match=r"smaller than .* alpha = 0.01"):
        plan.solve(width=1000.0, alpha=None)
    apart = Planned(
        linear_confint, weights=np.eye(2), mechanism=Laplace(scale=1.0), simultaneous=True, reps=99
    )
    assert apart.solve(width=40.0, alpha=None) < 1e-6


def test_budgets_can_be_split():
    whole, third = Laplace.from_epsilon, lambda budget: Laplace.from_epsilon(budget / 3.0)
    budgets = [
        Planned(linear_confint, weights=[1.0, -1.0], mechanism=made).solve(width=30.0, alpha=0.05)
        for made in (whole, third)
    ]
    assert budgets[1] == pytest.approx(3.0 * budgets[0], rel=1e-8)


@pytest.mark.parametrize(("width", "alpha"), [(40.0, 0.05), (3.0, 0.01), (0.01, 0.3)])
def test_budgets_are_found_to_the_stated_precision(width, alpha):
    # 2b ln(1/alpha) with b = 1/budget
    budget = Planned(count_confint, mechanism=Laplace.from_epsilon).solve(width=width, alpha=alpha)
    assert budget == pytest.approx(2.0 * np.log(1.0 / alpha) / width, rel=1.1e-10)


UNPUBLISHED_LAWS = [
    Laplace(scale=7.0),
    Gaussian(sigma=9.0),
    Geometric(scale=5.0),
    DiscreteGaussian(sigma=4.0),
]


def test_laplace_noise_has_a_closed_form():
    plan = Planned(unpublished_bound, mechanism=Laplace.from_epsilon, threshold=90.0, lower=10.0)
    expected = 80.0 + np.log(1.0 / (2.0 * 0.05)) / np.array([0.1, 1.0])
    np.testing.assert_allclose(plan.width(budget=[0.1, 1.0]), expected, rtol=1e-12)
    budget = plan.solve(alpha=0.05, width=100.0)
    assert budget == pytest.approx(np.log(10.0) / 20.0, rel=1e-8)


@pytest.mark.parametrize("law", UNPUBLISHED_LAWS, ids=str)
def test_a_count_at_the_bound_goes_unpublished_at_most_so_often(law):
    bound = Planned(unpublished_bound, mechanism=law, threshold=60.0).width(alpha=0.1)
    # P(f + e < τ) passes α at the bound
    if law.is_integer:
        below = [1.0 - law.sf(60.0 - 1.0 - f) for f in (bound, bound + 1.0)]
    else:
        below = [law.cdf(60.0 - f) for f in (bound - 1e-6, bound + 1e-6)]
    assert below[0] > 0.1 >= below[1]


@pytest.mark.parametrize("law", UNPUBLISHED_LAWS, ids=str)
def test_width_is_that_of_the_interval_of_unpublished(law):
    alone = unpublished_bound(mechanism=law, threshold=50.0, alpha=0.1, lower=-3.0)
    assert (
        Planned(unpublished_bound, mechanism=law, threshold=50.0, lower=-3.0).width(alpha=0.1)
        == alone.width
    )
    together = unpublished_bound(
        mechanism=law, threshold=[50.0] * 4, alpha=0.1, lower=0.0, simultaneous=True
    )
    assert (
        Planned(unpublished_bound, mechanism=law, threshold=50.0, cells=4).width(alpha=0.1)
        == together.width[0]
    )


MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho]


def test_far_above_the_threshold_it_is_that_of_the_noise():
    plan = Planned(count_confint, mechanism=Laplace.from_epsilon, threshold=100.0)
    assert plan.width(count=10_000, budget=0.5) == pytest.approx(4.0 * np.log(20.0), rel=1e-9)
    budget = plan.solve(count=10_000, alpha=0.05, width=20.0)
    assert budget == pytest.approx(0.1 * np.log(20.0), rel=1e-8)


def test_naive_intervals_have_the_width_of_the_noise():
    plan = Planned(
        count_confint, mechanism=Gaussian.from_rho, threshold=100.0, method="naive", lower=None
    )
    expected = 2.0 * stats.norm.isf(0.05) / np.sqrt(2.0 * 0.03)
    assert plan.width(count=101.0, alpha=0.1, budget=0.03) == pytest.approx(expected, rel=1e-9)
    budget = plan.solve(count=101.0, alpha=0.1, width=expected)
    assert budget == pytest.approx(0.03, rel=1e-7)


@pytest.mark.parametrize(
    ("law", "noise"),
    [(Laplace(scale=7.0), stats.laplace(scale=7.0)), (Gaussian(sigma=7.0), stats.norm(scale=7.0))],
    ids=["Laplace", "Gaussian"],
)
@pytest.mark.parametrize("count", [103.0, 110.0, 150.0])
def test_ends_are_roots_of_the_conditional_law(law, noise, count):
    threshold = 100.0

    def upper_tail(f):
        return noise.sf(count - f) / noise.sf(threshold - f)

    def end(level):
        if upper_tail(0.0) > level:
            return 0.0
        return optimize.brentq(lambda f: upper_tail(f) - level, 0.0, 300.0, xtol=1e-10)

    width = Planned(count_confint, mechanism=law, threshold=threshold).width(count=count, alpha=0.1)
    assert width == pytest.approx(end(0.95) - end(0.05), rel=1e-7)


@pytest.mark.parametrize("law", [made(0.1) for made in MAKERS], ids=repr)
@pytest.mark.parametrize("method", ["exact", "naive"])
@pytest.mark.parametrize("lower", [None, 0.0, 90.0])
def test_width_is_that_of_the_interval_of_thresholded(law, method, lower):
    count = np.array([101.0, 120.0, 400.0])
    options = {"method": method, "lower": lower}
    interval = count_confint(count, mechanism=law, threshold=100, **options)
    width = Planned(count_confint, mechanism=law, threshold=100, **options).width(count=count)
    np.testing.assert_array_equal(width, interval.width)


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize(
    ("method", "count"),
    [
        ("exact", 105),
        pytest.param("exact", 160, marks=pytest.mark.slow),
        pytest.param("naive", 105, marks=pytest.mark.slow),
        ("naive", 160),
    ],
)
def test_from_the_budget_on_intervals_are_as_narrow(made, method, count):
    plan = Planned(count_confint, mechanism=made, threshold=100, method=method)
    budget = plan.solve(count=count, alpha=0.1, width=20)
    assert plan.width(count=count, alpha=0.1, budget=budget * (1.0 - 1e-6)) > 20.0
    assert (
        plan.width(count=count, alpha=0.1, budget=budget * np.geomspace(1.0, 1e4, 16)) <= 20.0
    ).all()
    alpha = plan.solve(count=count, width=20, budget=budget, alpha=None)
    assert alpha <= 0.1 * (1.0 + 1e-6)
    assert plan.width(count=count, alpha=alpha, budget=budget) <= 20.0 * (1.0 + 1e-9)
    assert plan.solve(count=count, alpha=0.1, budget=budget) == plan.width(
        count=count, alpha=0.1, budget=budget
    )


def test_empty_intervals_are_not_taken_for_narrow_ones():
    plan = Planned(count_confint, mechanism=Laplace.from_epsilon, threshold=100)
    # P(Y <= 110 | Y >= 100) = 1 - exp(-10·budget) for every value up to 100
    last = -np.log1p(-0.025) / 10.0
    below, above = plan.width(count=110, budget=[last * 0.999, last * 1.001])
    assert below == 0.0
    assert above > 99.0
    # the width has its maximum, 197, near 0.0083
    budget = plan.solve(count=110, alpha=0.05, width=plan.width(count=110, budget=0.03))
    assert budget == pytest.approx(0.03, rel=1e-6)
    budget = plan.solve(count=110, alpha=0.05, width=300.0)
    assert budget == pytest.approx(last, rel=1e-6)
    assert plan.width(count=110, budget=budget) > 99.0
    with pytest.raises(InvalidParameterError, match="the interval becomes empty before"):
        plan.solve(count=110, budget=0.001, width=10.0, alpha=None)


RATIO_MAKERS = [Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho]


RATIO_METHODS = ["exact", "asymptotic"]


@pytest.mark.parametrize("method", RATIO_METHODS)
def test_gaussian_noise_has_the_width_of_fieller(method):
    first, second, sigma = 60.0, 120.0, 7.0
    # (first - r·second)² = z²σ²(1 + r²)
    cut = np.square(stats.norm.isf(0.05) * sigma)
    low, high = np.sort(np.roots([second**2 - cut, -2 * first * second, first**2 - cut]))
    width = Planned(ratio_confint, mechanism=Gaussian(sigma=sigma), method=method).width(
        numerator=first, denominator=second, alpha=0.1
    )
    assert width == pytest.approx(high - low, rel=1e-7)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=2.0)])
@pytest.mark.parametrize("method", RATIO_METHODS)
def test_width_is_that_of_the_set_and_infinite_where_it_is_not_bounded(law, method):
    first, second = np.array([60.0, 60.0, 3.0, 0.0]), np.array([120.0, 1.0, 1.0, -50.0])
    sets = ratio_confint(first, second, mechanism=law, method=method)
    widths = Planned(ratio_confint, mechanism=law, method=method).width(
        numerator=first, denominator=second
    )
    np.testing.assert_array_equal(widths, sets.width)
    np.testing.assert_array_equal(np.isinf(widths), [False, True, True, False])


TABLE = [60.0, 90.0, 30.0]


LINEAR_RATIO_METHODS = ["exact", "asymptotic"]


SHARES = ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [1, 1, 1])
PARTS = {"numerator": SHARES[0], "denominator": SHARES[1]}


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_gaussian_noise_has_the_width_of_fieller_of_linear_ratio(method):
    sigma = 5.0
    a, b = np.array([1.0, 0.0, -0.5]), np.array([1.0, 2.0, 1.0])
    x, y = a @ TABLE, b @ TABLE
    # (x - r·y)² = z²σ²·|a - r·b|²
    cut = np.square(stats.norm.isf(0.05) * sigma)
    low, high = np.sort(
        np.roots([y**2 - cut * b @ b, -2.0 * (x * y - cut * a @ b), x**2 - cut * a @ a])
    )
    width = Planned(
        linear_ratio_confint,
        values=TABLE,
        numerator=a,
        denominator=b,
        mechanism=Gaussian(sigma=sigma),
        method=method,
    ).width(alpha=0.1)
    assert width == pytest.approx(high - low, rel=1e-7)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=2.0), Geometric(scale=2.0)])
def test_two_values_alone_have_the_width_of_a_ratio(law):
    plan = Planned(
        linear_ratio_confint,
        values=[60.0, 120.0],
        numerator=[1, 0],
        denominator=[0, 1],
        mechanism=law,
    )
    assert plan.width() == pytest.approx(
        Planned(ratio_confint, mechanism=law).width(numerator=60, denominator=120), rel=1e-6
    )


def test_a_part_and_the_sum_have_the_width_of_a_share():
    law = Laplace(scale=2.0)
    plan = Planned(
        linear_ratio_confint,
        values=[60.0, 120.0],
        numerator=[1, 0],
        denominator=[1, 1],
        mechanism=law,
    )
    share = share_confint(60.0, 120.0, mechanism=law)
    assert plan.width() == pytest.approx(float(share.width), rel=1e-7)


@pytest.mark.thinned("together", "method", every=2)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_of_several_ratios_the_widest_counts(method, together):
    laws = [Laplace(scale=2.0), Laplace(scale=3.0), Laplace(scale=1.0)]
    known = {"method": method, "simultaneous": together}
    plan = Planned(linear_ratio_confint, values=TABLE, **PARTS, mechanism=laws, **known)
    each = linear_ratio_confint(TABLE, *SHARES, mechanism=laws, alpha=0.1, **known)
    assert plan.width(alpha=0.1) == np.max(each.width)
    assert not together or plan.width(alpha=0.1) > Planned(
        linear_ratio_confint, values=TABLE, **PARTS, mechanism=laws, method=method
    ).width(alpha=0.1)


@pytest.mark.parametrize("law", [Laplace(scale=1.5), Gaussian(sigma=2.0)], ids=str)
def test_simulated_sets_are_about_as_wide(law):
    rng, reps = np.random.default_rng(8), 6
    plan = Planned(
        linear_ratio_confint,
        values=TABLE,
        numerator=[1, 0, 0],
        denominator=[1, 1, 1],
        mechanism=law,
    )
    widths = [
        float(linear_ratio_confint(y, [1, 0, 0], [1, 1, 1], mechanism=law).width)
        for y in TABLE + law.rvs((reps, 3), rng=rng)
    ]
    # the width is nearly linear in the noise: 6 standard errors, chance 2e-9, and the curvature
    slack = 6.0 * np.std(widths) / np.sqrt(reps) + 2.0 * np.var(widths) / plan.width()
    assert np.mean(widths) == pytest.approx(plan.width(), abs=slack)


def test_a_larger_table_is_as_good_as_less_noise():
    # sets depend on values in units of the noise only
    narrow = Planned(linear_ratio_confint, values=TABLE, **PARTS, mechanism=Laplace(scale=1.0))
    wide = Planned(linear_ratio_confint, values=TABLE, **PARTS, mechanism=Laplace(scale=4.0))
    assert wide.width(size=4.0) == pytest.approx(narrow.width(), rel=1e-9)


def test_whole_numbered_noise_has_whole_values():
    law = Geometric(scale=2.0)
    plan = Planned(
        linear_ratio_confint,
        values=[0.25, 0.75],
        numerator=[1, 0],
        denominator=[1, 1],
        mechanism=law,
        method="asymptotic",
    )
    rounded = linear_ratio_confint([2, 8], [1, 0], [1, 1], mechanism=law, method="asymptotic")
    assert plan.width(size=10.0) == rounded.width


def test_levels_are_found_that_normal_sets_do_not_have():
    """Tails of Laplace noise are wider than those of normal noise, whose sets serve as a guess."""
    law = Laplace(scale=0.1)
    plan, rough = (
        Planned(
            linear_ratio_confint,
            values=TABLE,
            numerator=[1, 0, 0],
            denominator=[1, 1, 1],
            mechanism=law,
            method=m,
        )
        for m in LINEAR_RATIO_METHODS
    )
    assert rough.width(alpha=1e-12) < 0.012 < plan.width(alpha=1e-12)
    with pytest.raises(InvalidParameterError, match="width must be smaller than"):
        rough.solve(width=0.012, alpha=None)
    assert plan.width(alpha=plan.solve(width=0.012, alpha=None)) == pytest.approx(0.012, rel=1e-7)


def test_widths_are_infinite_where_a_set_is_not_bounded():
    plan = Planned(
        linear_ratio_confint,
        values=TABLE,
        numerator=[1, 0, 0],
        denominator=[1, -1, 1],
        mechanism=Laplace.from_epsilon,
        method="asymptotic",
    )
    np.testing.assert_array_equal(np.isinf(plan.width(budget=[0.1, 10.0])), [True, True])
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve(width=0.1, alpha=0.05)


BOUNDS = (-20.0, 80.0)


def laplace(budget):
    return Laplace.from_epsilon(budget, sensitivity=100.0)


def gaussian(budget):
    return Gaussian.from_rho(budget, sensitivity=100.0)


SETTINGS = [{"uncertainty": "noise"}, {"std": 15.0}, {}]


def test_noise_alone_has_a_closed_form():
    plan = Planned(
        clipped_mean_confint, mechanism=laplace, bounds=BOUNDS, uncertainty="noise", noise_in="sum"
    )
    nobs, budget = np.array([[10], [500], [10**6]]), np.array([0.01, 1.0])
    expected = np.minimum(2.0 * 100.0 / (nobs * budget) * np.log(20.0), 100.0)
    np.testing.assert_allclose(plan.width(nobs=nobs, budget=budget), expected, rtol=1e-12)
    n = plan.solve(width=3.0, alpha=0.05, budget=0.5)
    assert n == np.ceil(400.0 * np.log(20.0) / 3.0)
    assert type(n) is float
    solved = plan.solve(width=3.0, alpha=0.05, nobs=700)
    assert solved == pytest.approx(200.0 * np.log(20.0) / 2100.0, rel=1e-8)


@pytest.mark.parametrize(("noise_in", "sigma"), [("mean", 0.6), ("sum", 0.6 * 400)])
def test_gaussian_noise_and_a_known_deviation_add(noise_in, sigma):
    plan = Planned(
        clipped_mean_confint,
        mechanism=Gaussian(sigma=sigma),
        bounds=BOUNDS,
        std=15.0,
        noise_in=noise_in,
    )
    half = stats.norm.isf(0.05) * np.hypot(0.6, 15.0 / 20.0)
    assert plan.width(nobs=400, alpha=0.1) == pytest.approx(2.0 * half, rel=1e-9)


def test_without_noise_it_is_the_width_of_hoeffding():
    width = Planned(clipped_mean_confint, mechanism=Exact(), bounds=BOUNDS).width(
        nobs=2000, alpha=0.1
    )
    exact = 2.0 * 100.0 * np.sqrt(np.log(20.0) / 4000.0)
    # the bound is taken at the far end of a step
    assert exact <= width < exact * 1.001


def test_gaussian_noise_and_hoeffding_by_quadrature():
    half = 0.5 * Planned(clipped_mean_confint, mechanism=Gaussian(sigma=0.8), bounds=BOUNDS).width(
        nobs=2000, alpha=0.1
    )
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


@pytest.mark.thinned("law", "options", every=3)
@pytest.mark.parametrize("law", [Laplace(scale=90.0), Geometric(scale=90.0), Gaussian(sigma=90.0)])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_width_is_that_of_the_interval_at_the_middle(law, options):
    for nobs in (1, 60, 900):
        # noise in the mean has a law of its own
        for noise_in, noise in (("sum", WeightedSum([1.0 / nobs], law)), ("mean", law)):
            interval = clipped_mean_confint(30.0, nobs, bounds=BOUNDS, mechanism=noise, **options)
            width = Planned(
                clipped_mean_confint, mechanism=law, bounds=BOUNDS, noise_in=noise_in, **options
            ).width(nobs=nobs)
            assert isinstance(width, float)
            assert width == pytest.approx(float(interval.width), rel=1e-9)


def test_noise_in_the_mean_limits_what_a_sample_can_do():
    plan, z = (
        Planned(clipped_mean_confint, mechanism=Gaussian(sigma=1.0), bounds=BOUNDS, std=20.0),
        stats.norm.isf(0.025),
    )
    with pytest.raises(InvalidParameterError, match="width must be one that can be reached"):
        plan.solve(width=1.99 * z, alpha=0.05)
    # z²·(1 + 400/n) = 2²
    n = plan.solve(width=4.0, alpha=0.05)
    assert n == np.ceil(400.0 / (np.square(2.0 / z) - 1.0))


POPULATION = 20_000


def gaussian_width(n, share, alpha, sigma, population=POPULATION):
    """Cochran (1977), Theorems 2.2 and 3.2, and the noise."""
    spread = (n * n * share * (1 - share) + sigma**2) / (n * (n - 1))
    variance = population * (population - n) / n * spread + (population / n * sigma) ** 2
    return 2.0 * stats.norm.isf(alpha / 2) * np.sqrt(variance)


@pytest.mark.parametrize("method", ["convolution", "asymptotic"])
def test_gaussian_noise_has_a_closed_form(method):
    plan = Planned(
        survey_total, mechanism=Gaussian(sigma=15.0), population_size=POPULATION, method=method
    )
    n, share = np.array([[50], [800], [20_000]]), np.array([0.0, 0.013, 0.4])
    expected = gaussian_width(n, share, 0.1, 15.0)
    np.testing.assert_allclose(
        plan.width(sample_size=n, proportion=share, alpha=0.1), expected, rtol=1e-9
    )


def test_noise_alone_has_a_closed_form_of_survey():
    plan = Planned(
        survey_total,
        mechanism=Laplace.from_epsilon,
        population_size=POPULATION,
        uncertainty="noise",
    )
    width = plan.width(sample_size=500, proportion=[0.1, 0.9], budget=0.2)
    np.testing.assert_allclose(width, 2.0 * 40.0 * 5.0 * np.log(20.0), rtol=1e-12)
    n = plan.solve(width=1000.0, proportion=0.3, alpha=0.05, budget=0.2)
    assert n == np.ceil(2.0 * POPULATION * 5.0 * np.log(20.0) / 1000.0)


def test_without_noise_the_exact_one_is_hypergeometric():
    n, population = 40, 300
    total = np.arange(population + 1)
    law = stats.hypergeom(population, total, n)
    stays = (law.sf(11) > 0.05) & (law.cdf(12) > 0.05)
    plan = Planned(survey_total, mechanism=Exact(), population_size=population, method="exact")
    assert plan.width(sample_size=n, proportion=0.3, alpha=0.1) == np.ptp(total[stays])


@pytest.mark.thinned("law", "method", every=3)
@pytest.mark.parametrize("law", [Laplace(scale=8.0), Geometric(scale=8.0), Gaussian(sigma=8.0)])
@pytest.mark.parametrize("method", ["convolution", "asymptotic", "exact"])
def test_width_is_that_of_the_interval_of_survey(law, method):
    n, share = np.array([100, 101, 3001]), 0.213
    # 21.3, 21.513 and 639.213
    count = [21, 22, 639] if law.is_integer else n * share
    total = survey_total(count, mechanism=law, sample_size=n, population_size=POPULATION)
    width = Planned(survey_total, mechanism=law, population_size=POPULATION, method=method).width(
        sample_size=n, proportion=share
    )
    np.testing.assert_array_equal(width, total.conf_int(method=method).width)
    assert isinstance(
        Planned(survey_total, mechanism=law, population_size=POPULATION, method=method).width(
            sample_size=100, proportion=share
        ),
        float,
    )


def test_sizes_are_those_of_the_closed_form():
    plan = Planned(
        survey_total,
        mechanism=Gaussian(sigma=30.0),
        population_size=POPULATION,
        method="asymptotic",
    )
    sizes = np.arange(2, POPULATION + 1)
    for share in (0.0, 0.02, 0.5):
        for width in (400.0, 3000.0, 30_000.0):
            enough = gaussian_width(sizes, share, 0.05, 30.0) <= width
            n = plan.solve(proportion=share, alpha=0.05, width=width)
            assert n == sizes[enough.argmax()]
            assert type(n) is float


@pytest.mark.parametrize("population", [1, 2, 3])
def test_small_populations(population):
    plan = Planned(
        survey_total,
        mechanism=Gaussian(sigma=1.0),
        population_size=population,
        method="convolution",
    )
    wide = plan.solve(proportion=0.5, alpha=0.05, width=1e6)
    assert wide == min(2, population)
    census = 2.0 * stats.norm.isf(0.025)
    assert plan.width(sample_size=population, proportion=0.5) == pytest.approx(census, rel=1e-9)
    everybody = plan.solve(proportion=0.5, alpha=0.05, width=census * (1 + 1e-9))
    assert everybody == population


SIZES, STRATA_SHARES = [10_000, 4_000], [0.2, 0.15]


@pytest.mark.parametrize("method", ["convolution", "asymptotic"])
@pytest.mark.parametrize("design", ["srs", "poisson"])
def test_gaussian_noise_has_a_closed_form_of_strata(method, design):
    sigma, size, share = np.array([5.0, 9.0]), np.array(SIZES), np.array(STRATA_SHARES)
    laws = [Gaussian(sigma=float(s)) for s in sigma]
    n = np.array([300.0, 600.0])
    if design == "srs":
        # Cochran (1977), Theorem 5.3
        spread = (n * n * share * (1 - share) + sigma**2) / (n * (n - 1))
        variance = size * (size - n) / n * spread
    else:
        variance = (1 - n / size) * n * share * (size / n) ** 2
    variance = variance + (size / n * sigma) ** 2
    plan = Planned(
        stratified_total,
        mechanism=laws,
        population_size=SIZES,
        proportion=STRATA_SHARES,
        allocation=[1, 2],
        design=design,
        method=method,
    )
    expected = 2.0 * stats.norm.isf(0.05) * np.sqrt(variance.sum())
    assert plan.width(sample_size=900, alpha=0.1) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", [Laplace(scale=8.0), Geometric(scale=8.0), Gaussian(sigma=8.0)])
def test_one_stratum_is_one_sample(law):
    plan, one = (
        Planned(stratified_total, mechanism=law, population_size=[20_000], proportion=0.213),
        Planned(survey_total, mechanism=law, population_size=20_000),
    )
    np.testing.assert_allclose(
        plan.width(sample_size=[100, 3001]),
        one.width(sample_size=[100, 3001], proportion=0.213),
        rtol=1e-9,
    )
    count = 200 if law.is_integer else 0.2 * 1000
    total = survey_total(count, mechanism=law, rate=0.1, design="poisson")
    poisson = Planned(
        stratified_total, mechanism=law, population_size=[10_000], proportion=0.2, design="poisson"
    ).width(sample_size=1000)
    assert poisson == pytest.approx(float(total.conf_int().width), rel=1e-9)


@pytest.mark.thinned("design", "law", every=2)
@pytest.mark.parametrize("design", ["srs", "poisson"])
@pytest.mark.parametrize("law", [Laplace(scale=4.0), Geometric(scale=4.0)], ids=str)
def test_simulated_surveys_have_intervals_as_wide(design, law):
    rng, reps, n = np.random.default_rng(3), 15, np.array([500, 200])
    size, share = np.array(SIZES), np.array(STRATA_SHARES)
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
    plan = Planned(
        stratified_total,
        mechanism=law,
        population_size=SIZES,
        proportion=STRATA_SHARES,
        design=design,
        method="convolution",
    )
    assert plan.width(sample_size=700) == pytest.approx(np.mean(widths), abs=slack)


def test_noise_alone_does_not_depend_on_the_counts():
    law = Gaussian(sigma=3.0)
    plan = Planned(
        stratified_total,
        mechanism=law,
        population_size=SIZES,
        proportion=STRATA_SHARES,
        allocation=[1, 1],
        uncertainty="noise",
    )
    expected = 2.0 * stats.norm.isf(0.025) * 3.0 * np.hypot(10_000 / 300, 4_000 / 300)
    assert plan.width(sample_size=600) == pytest.approx(expected, rel=1e-9)


def test_samples_are_of_two_units_at_least_and_of_all_at_most():
    plan = Planned(
        stratified_total,
        mechanism=Exact(),
        population_size=[1, 50, 10_000],
        proportion=0.5,
        method="asymptotic",
    )
    few = stratified_total(
        [0, 1, 1], mechanism=Exact(), sample_size=[1, 2, 2], population_size=[1, 50, 10_000]
    )
    assert plan.width(sample_size=1) == pytest.approx(
        float(few.conf_int(method="asymptotic").width), rel=1e-12
    )
    assert plan.width(sample_size=10_051) == 0.0


def test_the_default_is_that_of_the_interval():
    law = Geometric(scale=4.0)
    total = stratified_total(
        [20, 15], mechanism=law, sample_size=[100, 100], population_size=[1_000, 4_000]
    )
    plan = Planned(
        stratified_total,
        mechanism=law,
        population_size=[1_000, 4_000],
        proportion=[0.2, 0.15],
        allocation=[1, 1],
    )
    assert plan.width(sample_size=200) == float(total.conf_int().width)
    assert total.conf_int().method == "exact"
