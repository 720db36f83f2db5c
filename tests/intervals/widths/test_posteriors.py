import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import (
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
    count_posterior,
)
from dpinfer.intervals.widths import PosteriorWidth
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)

LAWS = [Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=3.0), Tulap.from_epsilon(0.5)]
KINDS = ["hdi", "equal-tailed"]
TABLE = [1.0, 2.0, 0.0, 0.0, 3.0, 1.0]
PRIORS = {
    "poisson": (PoissonPrior(8.0), stats.poisson(8.0)),
    "negative binomial": (NegativeBinomialPrior(8.0, 0.5), stats.nbinom(2.0, 0.2)),
    "table": (TablePrior(TABLE), stats.rv_discrete(values=(np.arange(6), np.array(TABLE) / 7))),
    "wide": (NegativeBinomialPrior(1e5, 2.0), stats.nbinom(0.5, 1.0 / (1.0 + 2e5))),
}


def width_of(counts, law, prior, kind, **support):
    """Widths of the actual intervals."""
    return count_posterior(counts, mechanism=law, prior=prior, **support).interval(0.1, kind).width


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_width_is_the_average_of_simulated_intervals(name, law, kind):
    prior, truth = PRIORS[name]
    rng = np.random.default_rng(3)
    reps = 2000
    widths = width_of(
        truth.rvs(size=reps, random_state=rng) + law.rvs(reps, rng=rng), law, prior, kind
    )
    frame = PosteriorWidth(law, prior, kind=kind).width_frame(alpha=0.1)
    # 6 standard deviations of the simulation: 2e-9 for each of 32 cases
    allowed = 6.0 * widths.std() / np.sqrt(reps) + 3.0 * frame["error"][0] + 1e-12
    assert widths.mean() == pytest.approx(frame["width"][0], abs=allowed)


@pytest.mark.parametrize("law", [Geometric(scale=1.5), DiscreteGaussian(sigma=2.0)], ids=repr)
@pytest.mark.parametrize("name", ["poisson", "negative binomial", "table"])
@pytest.mark.parametrize("kind", KINDS)
def test_width_is_that_of_an_enumeration(law, name, kind):
    prior, truth = PRIORS[name]
    count, noise = np.arange(120.0), np.arange(-60.0, 61.0)
    weights = np.multiply.outer(truth.pmf(count), law.pmf(noise)).ravel()
    widths = width_of(np.add.outer(count, noise).ravel(), law, prior, kind)
    plan = PosteriorWidth(law, prior, kind=kind)
    assert plan.width(0.1) == pytest.approx(weights @ widths, rel=1e-9)


@pytest.mark.parametrize("support", [{"lower": 5, "upper": 12}, {"lower": 10}, {"upper": 6}])
def test_the_prior_is_that_on_the_support(support):
    law, prior = Geometric(scale=1.5), PoissonPrior(8.0)
    count = np.arange(support.get("lower", 0.0), support.get("upper", 100.0) + 1.0)
    pmf = stats.poisson.pmf(count, 8.0)
    noise = np.arange(-60.0, 61.0)
    weights = np.multiply.outer(pmf / pmf.sum(), law.pmf(noise)).ravel()
    widths = width_of(np.add.outer(count, noise).ravel(), law, prior, "hdi", **support)
    plan = PosteriorWidth(law, prior, **support)
    assert plan.width(0.1) == pytest.approx(weights @ widths, rel=1e-9)
    # the same by points of a sequence
    simulated = PosteriorWidth(Tulap(scale=1.5), prior, **support).width_frame(alpha=0.1)
    exact = PosteriorWidth(Geometric(scale=1.5), prior, **support).width(0.1)
    assert simulated["width"][0] == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_flat_priors_without_ends_have_the_width_far_from_them(law, kind):
    rng = np.random.default_rng(8)
    widths = width_of(10**6 + law.rvs(4000, rng=rng), law, None, kind)
    width = PosteriorWidth(law, kind=kind).width(0.1)
    assert PosteriorWidth(law, FlatPrior(), kind=kind, lower=None, upper=7).width(0.1) == width
    # 6 standard deviations, 2e-9; a thousandth for the points between whole numbers
    allowed = 6.0 * widths.std() / np.sqrt(4000) + 2e-3
    assert width == pytest.approx(widths.mean(), abs=allowed)


def test_a_flat_prior_with_ends_is_a_table():
    law = Laplace(scale=2.0)
    flat = PosteriorWidth(law, upper=20).width(0.1)
    assert flat == pytest.approx(PosteriorWidth(law, TablePrior(np.ones(21))).width(0.1), rel=1e-9)
    assert flat < PosteriorWidth(law).width(0.1)


def test_a_function_is_a_table():
    law, pmf = Geometric(scale=2.0), 1.0 / np.square(1.0 + np.arange(50.0))
    function = PosteriorWidth(law, FunctionPrior(lambda k: -2.0 * np.log1p(k)), upper=49)
    table = PosteriorWidth(law, TablePrior(pmf))
    assert function.width(0.1) == pytest.approx(table.width(0.1), rel=1e-12)


def test_large_means_leave_what_the_noise_tells():
    plan, flat = PosteriorWidth(Geometric.from_epsilon, PoissonPrior), None
    widths = plan.width(0.1, 0.5, mean=[0.0, 1.0, 30.0, 1e5, 1e9, 1e12])
    flat = PosteriorWidth(Geometric.from_epsilon).width(0.1, 0.5)
    assert widths[0] == 0.0
    assert (np.diff(widths[:4]) > 0.0).all()
    np.testing.assert_allclose(widths[3:], flat, rtol=1e-3)


def test_tiny_parameters_are_those_of_no_count():
    plan = PosteriorWidth(LAWS[1], lambda mean: NegativeBinomialPrior(mean, 1e-300))
    assert plan.width(mean=1e-100) == 0.0


def test_counts_without_noise_have_no_width():
    assert PosteriorWidth(Exact()).width() == 0.0
    assert PosteriorWidth(Exact(), PoissonPrior).width(mean=[3.0, 5.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (Geometric.from_epsilon, "hdi"),
        (Geometric.from_epsilon, "equal-tailed"),
        (Gaussian.from_rho, "equal-tailed"),
    ],
)
def test_solutions_reach_the_width(made, kind):
    plan = PosteriorWidth(made, PoissonPrior, kind=kind)
    wanted = plan.width(0.05, 0.3, mean=6.0) + 0.01
    budget = plan.solve_width(width=wanted, alpha=0.05, mean=6.0)
    assert budget == pytest.approx(0.3, rel=0.1)
    assert plan.width(0.05, budget, mean=6.0) <= wanted
    alpha = plan.solve_width(width=wanted, budget=budget, mean=6.0)
    assert plan.width(alpha, budget, mean=6.0) <= wanted
    assert alpha <= 0.05 * (1.0 + 1e-6)
    mean = plan.solve_width(width=wanted, alpha=0.05, budget=0.3)
    assert plan.width(0.05, 0.3, mean=mean) <= wanted < plan.width(0.05, 0.3, mean=1.2 * mean)
    assert plan.solve_width(alpha=0.05, budget=0.3, mean=6.0) == wanted - 0.01
    flat = PosteriorWidth(made, kind=kind)
    assert flat.width(0.05, flat.solve_width(width=11.0, alpha=0.05)) <= 11.0


def test_widths_are_reached_that_no_budget_leaves_without_a_prior():
    """Two counts: by Bayes, published values near 1/2 leave both, and that is rare enough."""
    plan = PosteriorWidth(Laplace.from_epsilon, TablePrior([1.0, 2.0]), upper=1)
    budget = plan.solve_width(width=1e-10, alpha=0.05)
    reached, before = plan.width(0.05, [budget, 0.99 * budget])
    assert reached <= 1e-10 < before


def test_noise_with_ends_does_not_bridge_gaps_of_a_table():
    """Noise of less than 2.5 tells 0 from 5: no interval is wide, though noise without ends is."""
    law, prior = Tulap.from_epsilon(1.0, delta=0.1), TablePrior([1.0, 0, 0, 0, 0, 2.0])
    assert law.isf(0.0) < 2.5
    assert PosteriorWidth(law, prior).width(0.1) == 0.0
    assert PosteriorWidth(Tulap.from_epsilon(1.0), prior).width(0.1) > 0.0


def test_frames_and_drawings_are_of_widths():
    plan = PosteriorWidth(Laplace.from_epsilon, lambda mean: NegativeBinomialPrior(mean, 0.5))
    frame = plan.width_frame(mean=[2.0, 9.0], budget=[0.5, 1.0, 2.0])
    assert list(frame.columns) == ["alpha", "mean", "budget", "width", "error"]
    np.testing.assert_array_equal(
        frame["width"], plan.width(frame["alpha"], frame["budget"], frame["mean"])
    )
    assert (frame["error"] < 0.02).all()
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot

    axes = plan.plot("budget", budget=[0.5, 1.0, 2.0], mean=[2.0, 9.0])
    assert len(axes.containers) == 2
    pyplot.close("all")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PosteriorWidth("laplace"), "mechanism must be a law of noise"),
        (lambda: PosteriorWidth(LAWS[0], 3.0), "prior must be a prior"),
        (lambda: PosteriorWidth(LAWS[0], PoissonPrior([1.0, 2.0])), "the rate of prior must be"),
        (lambda: PosteriorWidth(LAWS[0], kind="map"), "kind must be one of"),
        (lambda: PosteriorWidth(LAWS[0], lower=3, upper=2), "lower must be <= upper"),
        (lambda: PosteriorWidth(LAWS[0]).width(0.0), "alpha must be > 0"),
        (lambda: PosteriorWidth(LAWS[0]).width(mean=3.0), "mean must be None"),
        (lambda: PosteriorWidth(LAWS[0], PoissonPrior).width(), "mean must hold real numbers"),
        (lambda: PosteriorWidth(LAWS[0], PoissonPrior).width(mean=-1), "mean must be >= 0"),
        (lambda: PosteriorWidth(LAWS[0], float).width(mean=1), "prior must return a prior"),
        (lambda: PosteriorWidth(LAWS[0], dict).width(mean=1), "prior must be a function of an exp"),
        (
            lambda: PosteriorWidth(
                LAWS[0], FunctionPrior(lambda k: np.full(k.shape, -np.inf)), upper=9
            ).width(),
            "prior must give some count of the support a probability",
        ),
        (lambda: PosteriorWidth(WeightedSum([1, 2], LAWS[0])).width(), "mechanism must have a den"),
        (
            lambda: PosteriorWidth(LAWS[0], PoissonPrior(3.0), lower=90).width(),
            "prior must give lower..upper",
        ),
        (
            lambda: PosteriorWidth(LAWS[0], TablePrior([1, 2]), lower=9).width(),
            "prior must give lower..upper",
        ),
        (
            lambda: PosteriorWidth(LAWS[0], FunctionPrior(lambda k: -k)).width(),
            "lower and upper must be given",
        ),
        (lambda: PosteriorWidth(LAWS[0]).solve_width(), "exactly one of alpha, width must be"),
        (
            lambda: PosteriorWidth(LAWS[0]).solve_width(width=3.0, mean=3.0),
            "mean must be None",
        ),
        (
            lambda: PosteriorWidth(Laplace.from_epsilon, PoissonPrior(3.0)).solve_width(
                width=40.0, alpha=0.05
            ),
            "width must be smaller than",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


numbers = st.none() | st.floats() | st.floats(1e-2, 1e2) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Gaussian(sigma=2.0), Tulap.from_epsilon]),
    prior=st.sampled_from(
        [
            None,
            PoissonPrior,
            lambda mean: NegativeBinomialPrior(mean, 2.0),
            lambda mean: NegativeBinomialPrior(mean, 1e-300),
            TablePrior(TABLE, first=-3),
        ]
    ),
    upper=st.sampled_from([None, 5, 1e9]),
    alpha=st.sampled_from([0.1, 1e-12, 0.999, None]),
    width=numbers,
    budget=numbers,
    mean=numbers | st.floats(1e-100, 1e12),
)
def test_any_arguments_give_a_number_or_a_clear_error(made, prior, upper, width, **known):
    plan = PosteriorWidth(made, prior, upper=upper)
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert np.isfinite(found)
        assert found >= 0.0
