"""Power of the test of fit with estimated parameters against formulas and the test itself."""

import numpy as np
import pytest
from planned import PlannedPower, quiet
from scipy import optimize
from statsmodels.stats.power import GofChisquarePower

from dpinfer import Exact, Gaussian, Geometric, Laplace, chisquare_fit
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.hypothesis_tests import chi2_contingency

EVENTS = np.array([0.30, 0.25, 0.20, 0.15, 0.10])


def genotypes(theta):
    """Hardy-Weinberg proportions."""
    p = theta[0]
    return [p * p, 2.0 * p * (1.0 - p), (1.0 - p) ** 2]


def events(theta):
    """Numbers of events, four and more together."""
    rate = theta[0]
    none = np.exp(-rate)
    first = [none, none * rate, none * rate**2 / 2.0, none * rate**3 / 6.0]
    return [*first, 1.0 - sum(first)]


def table(theta):
    """Probabilities of an independent 2 x 2 table."""
    row, column = theta
    left = 1.0 - column
    return [row * column, row * left, (1.0 - row) * column, (1.0 - row) * left]


def test_parameters_are_those_of_the_largest_likelihood():
    plan = PlannedPower(
        chisquare_fit,
        model=events,
        start=1.0,
        truth=EVENTS,
        mechanism=Exact(),
        bounds=[(0.05, 5.0)],
        reps=30,
    )
    best = optimize.minimize_scalar(
        lambda rate: -EVENTS @ np.log(events([rate])), bounds=(0.5, 3.0), options={"xatol": 1e-10}
    )
    facts = plan.curve(nobs=100, effect=0.0).attrs
    assert facts["params"] == pytest.approx([best.x], abs=1e-6)
    null = events(facts["params"])
    assert facts["effect_size"] == pytest.approx(np.sqrt((np.square(EVENTS - null) / null).sum()))


def test_limit_without_noise_and_close_to_the_null_hypothesis_is_that_of_statsmodels():
    plan = PlannedPower(
        chisquare_fit, model=events, start=1.0, truth=EVENTS, mechanism=Exact(), method="asymptotic"
    )
    distance = 0.2 * plan.curve(nobs=3000).attrs["effect_size"]
    # 3 degrees of freedom are those of 4 cells
    peer = GofChisquarePower().power(distance, 3000, 0.05, n_bins=4)
    # the noncentrality is Pearson's statistic at the fit to the truth: the same in first order
    assert plan.power(3000, 0.2) == pytest.approx(peer, abs=2e-3)
    assert plan.power(3000, 0.0, 0.01) == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize(
    "known", [pytest.param(None, marks=pytest.mark.slow), Gaussian(sigma=20.0), Exact()]
)
def test_limit_of_independence_as_a_model_is_that_of_independence(known):
    cells = np.array([[0.35, 0.15], [0.20, 0.30]])
    sigma = np.array([[10.0, 11.0], [9.0, 10.0]])  # unequal: both take the fitted margins then
    options = {"nobs_mechanism": known, "method": "asymptotic"}
    noise = Gaussian(sigma=sigma.ravel())
    plan = PlannedPower(
        chisquare_fit,
        model=table,
        start=[0.4, 0.4],
        truth=cells.ravel(),
        mechanism=noise,
        **options,
    )
    peer = PlannedPower(chi2_contingency, truth=cells, mechanism=Gaussian(sigma=sigma), **options)
    powers = [each.power(300, 0.7) for each in (plan, peer)]
    np.testing.assert_allclose(*powers, rtol=1e-6)


@pytest.mark.parametrize("known", [None, pytest.param(Laplace(scale=5.0), marks=pytest.mark.slow)])
def test_simulation_of_independence_as_a_model_is_that_of_independence(known):
    """Six standard errors of both."""
    cells = np.array([[0.35, 0.15], [0.20, 0.30]])
    options = {"nobs_mechanism": known, "rng": 1, "reps": 1000}
    plan = PlannedPower(
        chisquare_fit,
        model=table,
        start=[0.4, 0.4],
        truth=cells.ravel(),
        mechanism=Laplace(scale=5.0),
        **options,
    )
    peer = PlannedPower(chi2_contingency, truth=cells, mechanism=Laplace(scale=5.0), **options)
    frames = [each.curve(nobs=200, effect=0.7) for each in (plan, peer)]
    gap = frames[0]["power"].item() - frames[1]["power"].item()
    assert abs(gap) <= 6.0 * np.hypot(*(frame["mc_error"].item() for frame in frames))


@pytest.mark.parametrize(
    ("model", "start", "value", "nobs", "noise", "known"),
    [
        (genotypes, 0.5, [0.4, 0.4, 0.2], 300, Gaussian(sigma=8.0), None),
        (genotypes, 0.5, [0.4, 0.4, 0.2], 60, Laplace(scale=3.0), Exact()),  # often not decided
        pytest.param(
            *(events, 1.5, EVENTS, 300, Geometric(scale=8.0), Geometric(scale=8.0)),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_power_is_how_often_the_test_rejects(model, start, value, nobs, noise, known):
    size, alpha, hits = 50, 0.2, 0
    rng = np.random.default_rng(8)
    fixed = {"mechanism": noise, "bounds": [(0.01, 0.99) if model is genotypes else (0.05, 5.0)]}
    for cells in rng.multinomial(nobs, value, size):
        options = {"reps": 49, "rng": rng, **fixed}
        if known is not None:
            options |= {"nobs": nobs + float(known.rvs(rng=rng)), "nobs_mechanism": known}
        noisy = cells + noise.rvs(cells.shape, rng=rng)
        hits += quiet(chisquare_fit, noisy, model, start, **options).pvalue <= alpha
    fixed |= {"model": model, "start": start, "truth": value, "nobs_mechanism": known}
    plan = PlannedPower(chisquare_fit, rng=1, reps=700, **fixed)
    plan.assert_rejects(hits, size, nobs=nobs, effect=1.0, alpha=alpha)


def test_power_at_the_null_hypothesis_is_the_level():
    """Six standard errors, which include that of the critical value."""
    plan = PlannedPower(
        chisquare_fit,
        model=genotypes,
        start=0.5,
        truth=[0.4, 0.4, 0.2],
        mechanism=Laplace(scale=4.0),
        rng=4,
        reps=1000,
    )
    frame = plan.curve(nobs=1500, effect=0.0, alpha=[0.02, 0.1])
    assert (np.abs(frame["power"] - frame["alpha"]) <= 6.0 * frame["mc_error"]).all()


def test_a_number_of_observations_that_reaches_the_power():
    plan = PlannedPower(
        chisquare_fit,
        model=genotypes,
        start=0.5,
        truth=[0.4, 0.4, 0.2],
        mechanism=Gaussian.from_rho,
        rng=4,
        reps=200,
    )
    known = {"effect": 1.0, "alpha": 0.05, "budget": 0.05}
    nobs = plan.solve(**known, power=0.7)
    assert plan.power(nobs - 1, **known) < 0.7 <= plan.power(nobs, **known)


def test_doubts_about_the_limit():
    plan = PlannedPower(
        chisquare_fit,
        model=genotypes,
        start=0.5,
        truth=[0.4, 0.4, 0.2],
        mechanism=Laplace(scale=1.0),
        method="asymptotic",
    )
    with pytest.warns(ApproximationWarning, match="not Gaussian") as caught:
        plan.power(1000)
    assert caught[0].filename == PlannedPower.power.__code__.co_filename


@pytest.mark.parametrize(
    ("model", "start", "value", "message"),
    [
        (genotypes, 0.5, [0.25, 0.5, 0.25], "must not be a value of model"),
        (genotypes, 0.5, [0.25, 0.75], "at least 3 cells"),
        (genotypes, 0.5, [0.25, 0.25, 0.25, 0.25], "model must return 4"),
        (genotypes, 0.5, [0.5, 0.6, 0.1], "add up to 1"),
        (genotypes, np.nan, [0.4, 0.4, 0.2], "start"),
        ("model", 0.5, [0.4, 0.4, 0.2], "model must be a function"),
    ],
)
def test_bad_plans_are_refused(model, start, value, message):
    with pytest.raises(InvalidParameterError, match=message):
        PlannedPower(
            chisquare_fit, model=model, start=start, truth=value, mechanism=Exact()
        ).power()
