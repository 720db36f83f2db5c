"""What plans of table tests share: solutions, monotonicity, replicates and bad arguments."""

import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import PlannedPower

from dpinfer import DPInferError, Exact, Gaussian, Laplace
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import chi2_contingency, chisquare, chisquare_fit

CELLS = ([0.5, 0.3, 0.2], [0.4, 0.35, 0.25])
TABLE = [[0.3, 0.2], [0.2, 0.3]]
ROWS = [[0.6, 0.4], [0.4, 0.6]]
GENOTYPES = [0.3, 0.4, 0.3]


def genotypes(theta):
    """Hardy-Weinberg proportions."""
    p = theta[0]
    return [p * p, 2.0 * p * (1.0 - p), (1.0 - p) ** 2]


KINDS = {
    "fit": (chisquare, {"value": CELLS[0], "truth": CELLS[1]}),
    "independence": (chi2_contingency, {"truth": TABLE}),
    "pearson": (chi2_contingency, {"truth": TABLE, "statistic": "pearson"}),
    "homogeneity": (chi2_contingency, {"truth": ROWS, "row_totals": True}),
    "composite": (chisquare_fit, {"model": genotypes, "start": 0.5, "truth": GENOTYPES}),
}


def _plan(kind, mechanism, **options):
    procedure, fixed = KINDS[kind]
    return PlannedPower(procedure, **fixed | {"mechanism": mechanism} | options)


@pytest.mark.thinned("kind", "unknown", every=3)
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("fit", "asymptotic"),
        ("independence", "asymptotic"),
        ("independence", "monte-carlo"),
        ("pearson", "asymptotic"),
        ("homogeneity", "asymptotic"),
        ("homogeneity", "monte-carlo"),
        ("composite", "asymptotic"),
    ],
)
@pytest.mark.parametrize("unknown", ["nobs", "effect", "alpha", "budget", "power"])
def test_solutions_reach_the_power(kind, method, unknown):
    plan = _plan(kind, Gaussian.from_rho, method=method, rng=5, reps=2000)
    arguments = {"nobs": 250, "effect": 1.2, "alpha": 0.05, "budget": 0.02}
    if unknown == "power":
        assert plan.solve(**arguments) == plan.power(**arguments)
        return
    del arguments[unknown]
    found = plan.solve(**arguments, power=0.8)
    assert type(found) is float
    below = found - 1.0 if unknown == "nobs" else found * (1.0 - 2e-3)
    reached = plan.power(**arguments, **{unknown: found})
    assert plan.power(**arguments, **{unknown: below}) < 0.8 + 0.03 * (method == "monte-carlo")
    assert reached >= 0.8 - 1e-9
    if unknown != "nobs":
        assert reached == pytest.approx(0.8, abs=1e-8 if method == "asymptotic" else 0.03)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("fit", "asymptotic"),
        pytest.param("fit", "monte-carlo", marks=pytest.mark.study),
        pytest.param("independence", "asymptotic", marks=pytest.mark.study),
        ("independence", "monte-carlo"),
        ("pearson", "asymptotic"),
        ("homogeneity", "monte-carlo"),
        ("composite", "asymptotic"),
    ],
)
def test_more_of_anything_has_more_power(kind, method):
    """Simulated powers may fall by what their replicates make: 6 standard errors of 2000."""
    plan = _plan(kind, Gaussian.from_rho, method=method, rng=5, reps=2000)
    slack = 0.0 if method == "asymptotic" else 6.0 * np.sqrt(0.5 / 2000)
    start = {"nobs": 250, "effect": 1.0, "alpha": 0.05, "budget": 0.02}
    for name, values in {
        "nobs": [100, 300, 1600],
        "effect": [0.0, 0.5, 1.5],
        "alpha": [0.001, 0.03, 0.5],
        "budget": [0.003, 0.05, 1.0],
    }.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            powers = plan.power(**{**start, name: values})
        assert (np.diff(powers) > -slack).all()
        assert powers[-1] > powers[0] + 0.1


@pytest.mark.parametrize("kind", ["fit", "independence", "pearson", "homogeneity", "composite"])
def test_one_plan_has_one_set_of_replicates(kind):
    options = {"method": "monte-carlo", "reps": 200 if kind == "pearson" else 500}
    plan, other = (_plan(kind, Laplace(scale=4.0), rng=rng, **options) for rng in (5, 6))
    first = plan.power(100)
    assert plan.power([100, 100]).tolist() == [first, first]
    assert other.power(100) != first
    with joblib.parallel_config(backend="threading"):
        shared = _plan(kind, Laplace(scale=4.0), rng=5, n_jobs=2, **options)
        assert shared.power(100) == first


def test_frames_of_all_combinations():
    plan = _plan("fit", Gaussian.from_rho, method="asymptotic")
    frame = plan.curve(nobs=[100, 200], effect=[0.5, 1.0, 1.5], budget=0.1)
    assert len(frame) == 6
    assert {"nobs", "effect", "alpha", "budget", "power", "mc_error", "method"} == set(frame)
    assert (frame["mc_error"] == 0.0).all()
    row = frame.iloc[3]
    assert row["power"] == plan.power(row["nobs"], row["effect"], row["alpha"], row["budget"])


@pytest.mark.thinned("kind", "method", every=2)
@pytest.mark.parametrize("kind", ["fit", "independence", "homogeneity", "composite"])
@pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
def test_powers_out_of_reach(kind, method):
    plan = _plan(kind, Laplace(scale=50.0), method=method, rng=1, reps=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidParameterError, match="power must be"):
            plan.solve(nobs=20, alpha=0.05, power=0.9)
        with pytest.raises(InvalidParameterError, match="power must be"):
            plan.solve(nobs=2000, alpha=0.5, power=0.1)


def test_too_few_replicates_for_a_level():
    plan = _plan("fit", Laplace(scale=5.0), reps=50)
    with pytest.raises(InvalidParameterError, match="reps must be >= 999"):
        plan.power(100, alpha=0.001)


def test_simulated_power_at_a_small_level_is_the_exact_one():
    """Six standard errors: a chance of 2e-9."""
    options = {"reps": 400_000, "rng": 1}
    plan = _plan("fit", Gaussian(sigma=4.0), method="monte-carlo", **options)
    row = plan.curve(nobs=600, effect=1.0, alpha=1e-4).iloc[0]
    exact = _plan("fit", Gaussian(sigma=4.0), method="exact").power(600, 1.0, 1e-4)
    assert row["mc_error"] < 0.02
    assert row["power"] == pytest.approx(exact, abs=6.0 * row["mc_error"])


def test_a_statistic_that_is_the_same_for_all_tables_never_rejects():
    """One observation of two equal cells: the statistic is 1, and so are all p-values."""
    plan = PlannedPower(
        chisquare,
        value=[0.5, 0.5],
        truth=[0.1, 0.9],
        mechanism=Exact(),
        method="monte-carlo",
        reps=99,
    )
    frame = plan.curve(nobs=1, effect=[0.0, 1.0], alpha=[0.05, 0.99])
    np.testing.assert_array_equal(frame["power"], 0.0)


WEIRD = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.text(max_size=3),
    st.complex_numbers(),
    st.lists(st.floats(), max_size=3),
    st.sampled_from([[0.5, 0.5], [[0.5, 0.1], [0.1, 0.3]], np.array([1, "a"], object), {}, b"1"]),
)


NAMES = ["value", "mechanism", "method", "reps", "rng", "n_jobs", "statistic", "other"]
OTHERS = {"homogeneity": "row_shares", "composite": "bounds", "independence": "nobs_mechanism"}


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    kind=st.sampled_from(["fit", "independence", "homogeneity", "composite"]),
    name=st.sampled_from(NAMES),
    weird=WEIRD,
)
def test_weird_plans_are_refused(kind, name, weird):
    options = {"method": "asymptotic", "reps": 100, "rng": 1}
    main = {"value": KINDS[kind][1]["truth"], "mechanism": Exact()}
    if name == "other" or (name, kind) == ("statistic", "composite"):
        name = OTHERS.get(kind, "statistic")
    (main if name in main else options)[name] = weird
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(expected counts|releases)")
        try:
            plan = _plan(kind, main["mechanism"], truth=main["value"], **options)
            answer = plan.power(nobs=200, effect=1.0, alpha=0.05)
        except DPInferError:
            return
    assert 0.0 <= answer <= 1.0


@settings(derandomize=True, deadline=None, max_examples=35)
@given(
    kind=st.sampled_from(["fit", "independence", "pearson", "homogeneity", "composite"]),
    name=st.sampled_from(["nobs", "effect", "alpha", "budget"]),
    weird=WEIRD,
    solve=st.booleans(),
)
def test_weird_arguments_are_refused(kind, name, weird, solve):
    plan = _plan(kind, Gaussian.from_rho, method="asymptotic")
    arguments = {"nobs": 100, "effect": 1.0, "alpha": 0.05, "budget": 0.1, name: weird}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(expected counts|releases)")
        try:
            answer = plan.solve(**arguments) if solve else plan.power(**arguments)
        except DPInferError:
            return
    if solve and weird is None:
        assert answer > 0.0
    else:
        assert np.all((answer >= 0.0) & (answer <= 1.0))
