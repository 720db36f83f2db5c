"""Power of the goodness-of-fit test against statsmodels, enumeration and simulation."""

from itertools import product

import numpy as np
import pytest
from planned import PlannedPower
from scipy import special, stats
from statsmodels.stats.power import GofChisquarePower

from dpinfer import Exact, Gaussian, Geometric, Laplace, WeightedSum
from dpinfer.errors import ApproximationWarning, ConvergenceError, InvalidParameterError
from dpinfer.hypothesis_tests import chisquare

NULL = np.array([0.5, 0.3, 0.2])
OTHER = np.array([0.4, 0.35, 0.25])


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("distance", [1.0, 3.0, 4.5])
def test_without_noise_the_limit_is_that_of_statsmodels(statistic, distance):
    """At many observations the covariance at the alternative is that at the null hypothesis."""
    plan = PlannedPower(
        chisquare,
        value=NULL,
        truth=OTHER,
        mechanism=Exact(),
        statistic=statistic,
        method="asymptotic",
    )
    nobs = 10**11
    effect = distance / np.sqrt(nobs * (np.square(OTHER - NULL) / NULL).sum())
    peer = GofChisquarePower().power(distance / np.sqrt(nobs), nobs, 0.05, n_bins=3)
    assert plan.power(nobs, effect) == pytest.approx(peer, abs=2e-5)


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-9])
def test_asymptotic_power_at_the_null_hypothesis_is_the_level(statistic, alpha):
    plan = PlannedPower(
        chisquare,
        value=NULL,
        truth=OTHER,
        mechanism=Gaussian(sigma=20.0),
        statistic=statistic,
        method="asymptotic",
    )
    assert plan.power(500, 0.0, alpha) == pytest.approx(alpha, rel=1e-9)


def test_asymptotic_power_is_that_of_normal_tables():
    """Six standard errors of 200,000 draws: a chance of 2e-9 each."""
    sigma, nobs, effect, size = np.array([5.0, 9.0, 2.0]), 400, 1.3, 200_000
    value = NULL + effect * (OTHER - NULL)
    covariance = nobs * (np.diag(value) - np.outer(value, value)) + np.diag(sigma**2)
    rng = np.random.default_rng(3)
    tables = rng.multivariate_normal(nobs * value, covariance, size)
    at_null = nobs * (np.diag(NULL) - np.outer(NULL, NULL)) + np.diag(sigma**2)
    deviations = tables - nobs * NULL
    pearson = (np.square(deviations) / (nobs * NULL)).sum(axis=1)
    # min over c of (d - c)ᵀ Σ⁻¹ (d - c)
    inverse = np.linalg.inv(at_null)
    ones = inverse.sum(axis=0)
    reduced = inverse - np.outer(ones, ones) / ones.sum()
    projected = np.einsum("ij,jk,ik->i", deviations, reduced, deviations)
    null_tables = rng.multivariate_normal(nobs * NULL, at_null, size) - nobs * NULL
    null_pearson = (np.square(null_tables) / (nobs * NULL)).sum(axis=1)
    critical = {"pearson": np.quantile(null_pearson, 0.95), "projected": special.chdtri(2.0, 0.05)}
    for statistic, drawn in {"pearson": pearson, "projected": projected}.items():
        plan = PlannedPower(
            chisquare,
            value=NULL,
            truth=OTHER,
            mechanism=Gaussian(sigma=sigma),
            statistic=statistic,
            method="asymptotic",
        )
        power = plan.power(nobs, effect)
        error = np.sqrt(power * (1.0 - power) / size)
        if statistic == "pearson":  # what the error of the critical value does, at most
            error = np.hypot(error, 3.0 * np.sqrt(0.05 * 0.95 / size))
        assert np.mean(drawn >= critical[statistic]) == pytest.approx(power, abs=6.0 * error)


def _brute_force(nobs, value, effect, noise, alpha):
    """Sum over all tables and all noise near 0, which holds all but 1e-14 of the probability."""
    null, other = value
    truth = null + effect * (other - null)
    reach = np.arange(-12.0, 13.0) if noise is not None else np.zeros(1)
    chance = np.ones(1) if noise is None else noise.pmf(reach)
    added = np.array(list(product(reach, repeat=3)))
    added_chance = np.prod(list(product(chance, repeat=3)), axis=1)
    counts = np.array([c for c in product(range(nobs + 1), repeat=3) if sum(c) == nobs])
    tables = counts[:, np.newaxis] + added
    statistic = (np.square(tables - nobs * null) / (nobs * null)).sum(axis=-1).ravel()
    place = np.unique(statistic.round(9), return_inverse=True)[1]
    laws = [
        np.bincount(place, np.outer(stats.multinomial(nobs, p).pmf(counts), added_chance).ravel())
        for p in (null, truth)
    ]
    at_null, at_truth = (law[::-1].cumsum()[::-1] for law in laws)
    return at_truth[at_null <= alpha].max(initial=0.0)


@pytest.mark.thinned("epsilon", "alpha", every=2)
@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize("epsilon", [3.0, None])
def test_exact_power_is_that_of_enumeration(epsilon, alpha):
    noise = None if epsilon is None else Geometric.from_epsilon(epsilon)
    nobs = 6 if epsilon else 14
    value = (np.array([0.5, 0.25, 0.25]), np.array([0.2, 0.7, 0.1]))
    plan = PlannedPower(
        chisquare,
        **dict(zip(("value", "truth", "mechanism"), value, strict=False)),
        mechanism=noise or Exact(),
        method="exact",
    )
    for effect in (0.0, 0.6, 1.0):
        expected = _brute_force(nobs, value, effect, noise, alpha)
        assert plan.power(nobs, effect, alpha) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "noise", [Gaussian(sigma=[4.0, 8.0, 2.0]), Geometric.from_epsilon(0.3), Exact()], ids=repr
)
def test_simulated_power_is_exact_within_its_error(noise):
    """Six standard errors: a chance of 2e-9 each."""
    exact = PlannedPower(chisquare, value=NULL, truth=OTHER, mechanism=noise, method="exact")
    simulated = PlannedPower(
        chisquare,
        value=NULL,
        truth=OTHER,
        mechanism=noise,
        method="monte-carlo",
        rng=2,
        reps=40_000,
    )
    settings = {"nobs": 120, "effect": [0.0, 1.5], "alpha": 0.1}
    found, wanted = simulated.curve(**settings), exact.curve(**settings)
    assert (found["method"] == "monte-carlo").all()
    assert (wanted["method"] == "exact").all()
    assert (np.abs(found["power"] - wanted["power"]) <= 6.0 * found["mc_error"]).all()


def test_simulated_projected_power_is_near_the_limit_at_many_observations():
    """Six standard errors, and 0.01 for what the limit leaves out."""
    arguments = {"statistic": "projected", "rng": 1}
    simulated = PlannedPower(
        chisquare, value=NULL, truth=OTHER, mechanism=Gaussian(sigma=30.0), **arguments
    )
    limit = PlannedPower(
        chisquare,
        value=NULL,
        truth=OTHER,
        mechanism=Gaussian(sigma=30.0),
        method="asymptotic",
        **arguments,
    )
    frame = simulated.curve(nobs=3000, effect=[0.3, 0.6])
    wanted = limit.power(3000, [0.3, 0.6])
    assert (np.abs(frame["power"] - wanted) <= 6.0 * frame["mc_error"] + 0.01).all()


@pytest.mark.parametrize(
    ("noise", "nobs", "method"),
    [
        (Gaussian(sigma=3.0), 80, "exact"),
        (Geometric(scale=3.0), 80, "exact"),
        (Exact(), 5000, "monte-carlo"),
        (Laplace(scale=3.0), 80, "monte-carlo"),
    ],
    ids=repr,
)
def test_the_default_is_exact_where_that_is_quick(noise, nobs, method):
    frame = PlannedPower(chisquare, value=NULL, truth=OTHER, mechanism=noise, rng=1).curve(
        nobs=nobs, effect=1.0
    )
    assert frame["method"].tolist() == [method]
    assert (frame["mc_error"].item() > 0.0) == (method == "monte-carlo")


def test_whole_numbers_of_observations_are_solved_for_exactly():
    """Powers of whole-numbered tables are no monotone functions of their number."""
    plan = PlannedPower(
        chisquare, value=[0.5, 0.5], truth=[0.3, 0.7], mechanism=Geometric(scale=2.0)
    )
    nobs = plan.solve(effect=1.0, alpha=0.05, power=0.8)
    assert plan.power(nobs) >= 0.8 > plan.power(nobs - 1)
    assert plan.power(nobs + 40) > 0.8


def test_exact_solutions_reach_the_power():
    plan = PlannedPower(chisquare, value=NULL, truth=[0.3, 0.3, 0.4], mechanism=Gaussian(sigma=4.0))
    nobs = plan.solve(effect=1.0, alpha=0.05, power=0.5)
    assert plan.power(nobs) >= 0.5 > plan.power(nobs - 1)
    effect = plan.solve(nobs=40, alpha=0.05, power=0.3)
    assert plan.power(40, effect) == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize("k", [2, 40])
def test_cells_that_lose_all_probability(k):
    null = np.full(k, 1.0 / k)
    other = null.copy()
    other[0], other[1] = 0.0, 2.0 / k
    plan = PlannedPower(chisquare, value=null, truth=other, mechanism=Gaussian(sigma=2.0))
    frame = plan.curve(nobs=20 * k)
    assert frame.attrs["largest_effect"] == pytest.approx(1.0)
    assert frame.attrs["effect_size"] == pytest.approx(np.sqrt(2.0 / k))
    assert 0.05 < frame["power"].item() <= 1.0


def test_an_exact_power_that_cannot_be_had_says_so():
    plan = PlannedPower(
        chisquare, value=NULL, truth=OTHER, mechanism=Gaussian(sigma=4.0), method="exact"
    )
    with pytest.raises(ConvergenceError, match="use method="):
        plan.power(120, alpha=1e-11)


@pytest.mark.parametrize("method", [None, "monte-carlo", "asymptotic"])
def test_noise_beyond_all_bounds(method):
    with pytest.raises(InvalidParameterError, match="variance"):
        PlannedPower(
            chisquare, value=NULL, truth=OTHER, mechanism=Laplace(scale=1e80), method=method
        ).power(100)


def test_an_exact_power_without_a_route_is_refused_and_one_by_default_simulated():
    law = WeightedSum([1.0, 1.5], Laplace(scale=1.0))  # no characteristic function, not whole
    with pytest.raises(ConvergenceError, match="use method="):
        PlannedPower(chisquare, value=NULL, truth=OTHER, mechanism=law, method="exact").power(100)
    # quick, but too inaccurate at this level: replicates are what is missing then
    with pytest.raises(InvalidParameterError, match=r"reps must be >= 99999999999 to simulate"):
        PlannedPower(chisquare, value=NULL, truth=OTHER, mechanism=Gaussian(sigma=4.0)).power(
            120, alpha=1e-11
        )


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_a_table_that_is_certain_is_rejected_or_not(statistic):
    """All observations in one cell: both statistics are n, as (n/2)²/(n/2) twice."""
    plan = PlannedPower(
        chisquare,
        value=[0.5, 0.5],
        truth=[1, 0],
        mechanism=Exact(),
        statistic=statistic,
        method="asymptotic",
    )
    # at levels whose critical value, of χ² with one degree of freedom, is just below and above 50
    below, above = stats.chi2.sf([49.9, 50.1], df=1)
    np.testing.assert_array_equal(plan.power(50, 1.0, [below, above]), [1.0, 0.0])


@pytest.mark.parametrize(
    ("value", "other", "options", "message"),
    [
        (NULL, NULL, {}, "truth must differ from value"),
        (
            NULL,
            OTHER,
            {"statistic": "projected", "method": "exact"},
            "method must be 'monte-carlo'",
        ),
        (
            np.full(1025, 1 / 1025),
            np.arange(1025) / (512 * 1025),
            {"statistic": "projected", "method": "asymptotic"},
            "value must have at most 1024 cells",
        ),
    ],
)
def test_bad_plans_are_refused(value, other, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        PlannedPower(chisquare, value=value, truth=other, mechanism=Exact(), **options).power()


def test_doubts_about_the_limit():
    plan = PlannedPower(
        chisquare, value=NULL, truth=OTHER, mechanism=Laplace(scale=2.0), method="asymptotic"
    )
    with pytest.warns(ApproximationWarning, match="not Gaussian") as caught:
        plan.power(1000)
    assert caught[0].filename == PlannedPower.power.__code__.co_filename
    with pytest.warns(ApproximationWarning, match="expected counts as small as 4"):
        PlannedPower(
            chisquare, value=NULL, truth=OTHER, mechanism=Exact(), method="asymptotic"
        ).power([20, 500])
