"""Expected widths of credible intervals."""

import numpy as np
import pytest
from planned import Planned
from scipy import stats

from dpinfer import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap, count_posterior
from dpinfer.priors import FlatPrior, FunctionPrior, NegativeBinomialPrior, PoissonPrior, TablePrior

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


@pytest.mark.thinned("name", "law", "kind", every=2)
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
    frame = Planned(count_posterior, mechanism=law, prior=prior, kind=kind).curve(alpha=0.1)
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
    plan = Planned(count_posterior, mechanism=law, prior=prior, kind=kind)
    assert plan.width(alpha=0.1) == pytest.approx(weights @ widths, rel=1e-9)


@pytest.mark.parametrize("support", [{"lower": 5, "upper": 12}, {"lower": 10}, {"upper": 6}])
def test_the_prior_is_that_on_the_support(support):
    law, prior = Geometric(scale=1.5), PoissonPrior(8.0)
    count = np.arange(support.get("lower", 0.0), support.get("upper", 100.0) + 1.0)
    pmf = stats.poisson.pmf(count, 8.0)
    noise = np.arange(-60.0, 61.0)
    weights = np.multiply.outer(pmf / pmf.sum(), law.pmf(noise)).ravel()
    widths = width_of(np.add.outer(count, noise).ravel(), law, prior, "hdi", **support)
    plan = Planned(count_posterior, mechanism=law, prior=prior, **support)
    assert plan.width(alpha=0.1) == pytest.approx(weights @ widths, rel=1e-9)
    # the same by points of a sequence
    simulated = Planned(count_posterior, mechanism=Tulap(scale=1.5), prior=prior, **support).curve(
        alpha=0.1
    )
    exact = Planned(count_posterior, mechanism=Geometric(scale=1.5), prior=prior, **support).width(
        alpha=0.1
    )
    assert simulated["width"][0] == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_flat_priors_without_ends_have_the_width_far_from_them(law, kind):
    rng = np.random.default_rng(8)
    widths = width_of(10**6 + law.rvs(4000, rng=rng), law, None, kind)
    width = Planned(count_posterior, mechanism=law, kind=kind).width(alpha=0.1)
    assert (
        Planned(
            count_posterior, mechanism=law, prior=FlatPrior(), kind=kind, lower=None, upper=7
        ).width(alpha=0.1)
        == width
    )
    # 6 standard deviations, 2e-9; a thousandth for the points between whole numbers
    allowed = 6.0 * widths.std() / np.sqrt(4000) + 2e-3
    assert width == pytest.approx(widths.mean(), abs=allowed)


def test_a_flat_prior_with_ends_is_a_table():
    law = Laplace(scale=2.0)
    flat = Planned(count_posterior, mechanism=law, upper=20).width(alpha=0.1)
    assert flat == pytest.approx(
        Planned(count_posterior, mechanism=law, prior=TablePrior(np.ones(21))).width(alpha=0.1),
        rel=1e-9,
    )
    assert flat < Planned(count_posterior, mechanism=law).width(alpha=0.1)


def test_a_function_is_a_table():
    law, pmf = Geometric(scale=2.0), 1.0 / np.square(1.0 + np.arange(50.0))
    function = Planned(
        count_posterior, mechanism=law, prior=FunctionPrior(lambda k: -2.0 * np.log1p(k)), upper=49
    )
    table = Planned(count_posterior, mechanism=law, prior=TablePrior(pmf))
    assert function.width(alpha=0.1) == pytest.approx(table.width(alpha=0.1), rel=1e-12)


def test_large_means_leave_what_the_noise_tells():
    plan, flat = (
        Planned(count_posterior, mechanism=Geometric.from_epsilon, prior=PoissonPrior),
        None,
    )
    widths = plan.width(alpha=0.1, budget=0.5, mean=[0.0, 1.0, 30.0, 1e5, 1e9, 1e12])
    flat = Planned(count_posterior, mechanism=Geometric.from_epsilon).width(alpha=0.1, budget=0.5)
    assert widths[0] == 0.0
    assert (np.diff(widths[:4]) > 0.0).all()
    np.testing.assert_allclose(widths[3:], flat, rtol=1e-3)


def test_tiny_parameters_are_those_of_no_count():
    plan = Planned(
        count_posterior, mechanism=LAWS[1], prior=lambda mean: NegativeBinomialPrior(mean, 1e-300)
    )
    assert plan.width(mean=1e-100) == 0.0


def test_widths_are_reached_that_no_budget_leaves_without_a_prior():
    """Two counts: by Bayes, published values near 1/2 leave both, and that is rare enough."""
    plan = Planned(
        count_posterior, mechanism=Laplace.from_epsilon, prior=TablePrior([1.0, 2.0]), upper=1
    )
    budget = plan.solve(width=1e-10, alpha=0.05)
    reached, before = plan.width(alpha=0.05, budget=[budget, 0.99 * budget])
    assert reached <= 1e-10 < before


def test_noise_with_ends_does_not_bridge_gaps_of_a_table():
    """Noise of less than 2.5 tells 0 from 5: no interval is wide, though noise without ends is."""
    law, prior = Tulap.from_epsilon(1.0, delta=0.1), TablePrior([1.0, 0, 0, 0, 0, 2.0])
    assert law.isf(0.0) < 2.5
    assert Planned(count_posterior, mechanism=law, prior=prior).width(alpha=0.1) == 0.0
    assert (
        Planned(count_posterior, mechanism=Tulap.from_epsilon(1.0), prior=prior).width(alpha=0.1)
        > 0.0
    )
