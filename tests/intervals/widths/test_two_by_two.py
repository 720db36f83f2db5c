from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import odds_ratio_confint, risk_difference_confint, risk_ratio_confint
from dpinfer.intervals.widths import TwoByTwoWidth
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

CONFINTS = {
    "risk ratio": risk_ratio_confint,
    "odds ratio": odds_ratio_confint,
    "risk difference": risk_difference_confint,
}
KINDS = [
    {"method": "exact"},
    {"method": "exact", "known_totals": True},
    {"method": "normal"},
    {"method": "normal", "uncertainty": "noise+sampling"},
    {"method": "normal", "uncertainty": "noise+sampling", "known_totals": True},
]
SETTING = {"nobs1": 80, "prop1": 0.4, "prop2": 0.25}


def widths_of(measure, tables, law, kind, alpha=0.05):
    """Widths of the actual intervals, on the scale that is the default."""
    arguments = {"alpha": alpha, **kind}
    if arguments.pop("known_totals", False):
        arguments["row_totals"] = [80, 120]
    intervals = CONFINTS[measure](tables, mechanism=law, **arguments)
    if measure == "risk difference":
        return intervals.width
    lower, upper = intervals
    with np.errstate(divide="ignore"):
        return np.where(intervals.empty, 0.0, np.log(upper / lower))


def simulated(law, kind, reps, rng):
    """Published tables of groups of 80 and 120."""
    sizes = np.array([80, 120])
    if kind.get("uncertainty") == "noise+sampling":
        events = rng.binomial(sizes, [0.4, 0.25], (reps, 2))
    else:
        events = np.broadcast_to([32, 30], (reps, 2))
    tables = np.stack([events, sizes - events], axis=2)
    return tables + law.rvs(tables.shape, rng=rng)


@pytest.mark.parametrize("measure", CONFINTS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=1.5), Gaussian(sigma=9.0)])
def test_width_is_the_average_of_simulated_intervals(measure, kind, law):
    rng = np.random.default_rng(31)
    reps = 2000
    widths = widths_of(measure, simulated(law, kind, reps, rng), law, kind)
    plan = TwoByTwoWidth(law, measure=measure, ratio=1.5, **kind)
    frame = plan.width_frame(**SETTING)
    planned, error = frame["width"][0], frame["error"][0]
    # 6 standard deviations of the simulation: 2e-9 for each of 45 cases
    if measure == "risk difference":
        allowed = 6.0 * widths.std() / np.sqrt(reps) + 3.0 * error + 1e-12
        assert widths.mean() == pytest.approx(planned, abs=allowed)
    else:
        spread = 3.0 / np.sqrt(reps)
        low, high = np.quantile(widths, [0.5 - spread, 0.5 + spread], method="inverted_cdf")
        assert low * (1.0 - 1e-12) <= planned + 3.0 * error
        assert planned - 3.0 * error <= high * (1.0 + 1e-12)


@pytest.mark.parametrize("measure", CONFINTS)
def test_width_is_that_of_an_enumeration_of_noises(measure):
    law = Geometric(scale=0.4)
    noise = np.arange(-9, 10)
    tables = np.array([[32, 48], [30, 90]]) + np.array(
        list(product(noise, repeat=4)), dtype=float
    ).reshape(-1, 2, 2)
    weights = np.prod(np.array(list(product(law.pmf(noise), repeat=4))), axis=1)
    widths = widths_of(measure, tables, law, {"method": "normal"})
    plan = TwoByTwoWidth(law, measure=measure, ratio=1.5, method="normal")
    if measure == "risk difference":
        assert plan.width(**SETTING) == pytest.approx(weights @ widths, rel=1e-5)
        return
    order = np.argsort(widths)
    middle = np.searchsorted(np.cumsum(weights[order]), [0.499, 0.501])
    low, high = widths[order][middle]
    assert low * (1.0 - 1e-12) <= plan.width(**SETTING) <= high * (1.0 + 1e-12)


@pytest.mark.parametrize("measure", CONFINTS)
def test_width_is_that_of_an_enumeration_of_samples(measure):
    first, second = np.meshgrid(np.arange(81.0), np.arange(121.0), indexing="ij")
    tables = np.stack([first, 80 - first, second, 120 - second], axis=2).reshape(-1, 2, 2)
    weights = np.multiply.outer(
        stats.binom.pmf(np.arange(81), 80, 0.4), stats.binom.pmf(np.arange(121), 120, 0.25)
    ).ravel()
    kind = {"method": "normal", "uncertainty": "noise+sampling"}
    widths = widths_of(measure, tables, Exact(), kind)
    plan = TwoByTwoWidth(Exact(), measure=measure, ratio=1.5, **kind)
    if measure == "risk difference":
        assert plan.width(**SETTING) == pytest.approx(weights @ widths, rel=1e-5)
        return
    order = np.argsort(widths)
    middle = np.searchsorted(np.cumsum(weights[order]), [0.499, 0.501])
    low, high = widths[order][middle]
    assert low * (1.0 - 1e-12) <= plan.width(**SETTING) <= high * (1.0 + 1e-12)


def test_known_totals_have_a_closed_form():
    # the difference is linear in the noise, a and n - b having the same weight
    plan = TwoByTwoWidth(
        Gaussian(sigma=2.0), measure="risk difference", ratio=1.5, known_totals=True
    )
    t = stats.norm.isf(0.05) * 2.0 * np.sqrt(0.5)
    expected = 2 * t * np.hypot(1 / 80, 1 / 120)
    assert plan.width(**SETTING, alpha=0.1) == pytest.approx(expected, rel=1e-9)


def test_scales_are_of_the_same_median():
    law = Gaussian(sigma=0.01)
    log, plain = (TwoByTwoWidth(law, scale=scale).width(**SETTING) for scale in ("log", "plain"))
    assert plain == pytest.approx(1.6 * log, rel=1e-3)


def test_half_of_the_intervals_without_a_bound_make_an_infinite_width():
    plan = TwoByTwoWidth(Laplace.from_epsilon)
    frame = plan.width_frame(**SETTING, budget=[1e-3, 1.0])
    np.testing.assert_array_equal(np.isinf(frame["width"]), [True, False])
    assert np.isfinite(frame["error"]).all()
    difference = TwoByTwoWidth(Laplace.from_epsilon, measure="risk difference")
    assert difference.width(**SETTING, budget=1e-6) == pytest.approx(2.0, abs=0.1)


def test_each_cell_has_its_own_law():
    laws = [Gaussian(sigma=3.0), Exact(), Exact(), Gaussian(sigma=3.0)]
    one, other = TwoByTwoWidth(laws).width(**SETTING), TwoByTwoWidth(laws[0]).width(**SETTING)
    assert 0.0 < one < other


@pytest.mark.parametrize(
    ("measure", "kind"),
    [
        ("risk ratio", KINDS[0]),
        ("odds ratio", KINDS[2]),
        ("risk ratio", KINDS[4]),
        ("risk difference", KINDS[3]),
    ],
    ids=str,
)
def test_solutions_reach_the_width(measure, kind):
    plan = TwoByTwoWidth(Laplace.from_epsilon, measure=measure, **kind)
    risks = {"prop1": 0.4, "prop2": 0.25}
    wanted = plan.width(300, **risks, budget=0.5)
    known = {**risks, "alpha": 0.05, "budget": 0.5}
    size = plan.solve_width(width=wanted, **known)
    assert size == pytest.approx(300, abs=6)
    assert plan.width(size, **known) <= wanted
    assert plan.width(size - 1, **known) > wanted
    known = {**risks, "alpha": 0.05, "nobs1": 300}
    budget = plan.solve_width(width=wanted, **known)
    assert budget == pytest.approx(0.5, rel=1e-3)
    assert plan.width(**known, budget=budget) <= wanted
    alpha = plan.solve_width(width=wanted, **risks, nobs1=300, budget=0.5)
    assert alpha == pytest.approx(0.05, rel=1e-3)
    assert plan.solve_width(**known, budget=0.5) == wanted


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({}, "exactly one of nobs1, prop1, prop2, alpha, width must be None"),
        ({"width": 0.1, "prop1": 0.0}, "prop1 must be >= 1e-09"),
        ({"width": 0.1, "prop2": 1.0}, "prop2 must be < 1"),
        ({"width": 0.1, "prop2": None}, "prop2 must hold real numbers"),
        ({"width": 0.0}, "width must be > 0"),
        ({"nobs1": 1.5}, "nobs1 must hold whole"),
        ({"nobs1": 10, "budget": 1.0}, "budget must be None"),
    ],
)
def test_what_cannot_be_solved_is_refused(known, message):
    plan = TwoByTwoWidth(Laplace(scale=2.0))
    with pytest.raises(InvalidParameterError, match=message):
        plan.solve_width(**{"prop1": 0.3, "prop2": 0.2, "alpha": 0.05} | known)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"mechanism": "laplace"}, "mechanism must be a law of noise"),
        ({"mechanism": [Exact()] * 3}, "mechanism must have one law"),
        ({"measure": "risk-ratio"}, "measure must be one of 'risk ratio'"),
        ({"scale": "linear"}, "scale must be one of 'log', 'plain'"),
        ({"measure": "risk difference", "scale": "log"}, "scale must be 'plain'"),
        ({"ratio": 0.0}, "ratio must be >= 1e-06"),
        ({"known_totals": 1}, "known_totals must be True or False"),
        ({"method": "score"}, "method must be one of 'exact', 'normal'"),
        ({"uncertainty": "noise+sampling"}, "method must be 'normal'"),
    ],
)
def test_bad_plans_are_refused(parts, message):
    with pytest.raises(InvalidParameterError, match=message):
        TwoByTwoWidth(**{"mechanism": Laplace(scale=2.0)} | parts)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.floats(0.0, 1.0) | st.just("x")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    made=st.sampled_from([Laplace.from_epsilon, Gaussian(sigma=2.0), Geometric.from_epsilon]),
    kind=st.sampled_from(KINDS),
    nobs1=numbers | st.integers(1, 10**12),
    prop1=numbers,
    prop2=st.sampled_from([0.3, 1e-9, 0.0, np.nan]),
    alpha=st.sampled_from([0.1, 1e-9, None]),
    width=numbers,
    budget=numbers,
)
def test_any_arguments_give_a_number_or_a_clear_error(made, kind, width, **known):
    plan = TwoByTwoWidth(made, **kind, measure="odds ratio")
    for call in (lambda: plan.width(**known), lambda: plan.solve_width(width=width, **known)):
        try:
            found = call()
        except DPInferError:
            continue
        assert found >= 0.0
