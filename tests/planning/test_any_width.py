"""What holds for the planned width of every interval: what is solved for, refusals, curves."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer
from dpinfer import (
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    clipped_mean_confint,
    count_confint,
    count_posterior,
    linear_confint,
    linear_ratio_confint,
    normal_mean_confint,
    odds_ratio_confint,
    plan,
    poisson_confint,
    proportion_confint,
    ratio_confint,
    risk_difference_confint,
    risk_ratio_confint,
    survey_mean,
    survey_total,
    unpublished_bound,
)
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.intervals import stratified_mean, stratified_total
from dpinfer.mechanisms import WeightedSum
from dpinfer.priors import FunctionPrior, NegativeBinomialPrior, PoissonPrior, TablePrior

L, G, N = Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho
MADE = {"Laplace": L, "geometric": G, "Gaussian": N}
PAIRS = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 2.0, -2.0]])
PART = {"values": [60.0, 90.0, 30.0], "numerator": [1, 0, 0], "denominator": [1, 1, 1]}
STRATA = {"population_size": [10_000, 4_000], "proportion": [0.2, 0.15]}
CLIPPED = {"bounds": (-20.0, 80.0)}
RISKS = {"prop1": 0.4, "prop2": 0.25}


def clipped_laplace(budget):
    return Laplace.from_epsilon(budget, sensitivity=100.0)


def clipped_gaussian(budget):
    return Gaussian.from_rho(budget, sensitivity=100.0)


def solved():
    """Plans with the width that is wanted: what is None is solved for first, then all others."""
    for name, made in MADE.items():
        noise = {"mechanism": made}
        for method in ("exact", "mid-p"):
            kind = noise | {"proportion": 0.3, "method": method, "nobs": None, "budget": 0.5}
            yield f"proportion {method} {name}", proportion_confint, kind, 0.2
        for method in ("exact", "score"):
            kind = noise | {"rate": 2.0, "method": method, "exposure": None, "budget": 0.5}
            yield f"rate {method} {name}", poisson_confint, kind, 0.8
        for is_total in (False, True):
            kind = {"nobs_mechanism": made, "nobs_is_total": is_total, "method": "asymptotic"}
            kind |= noise | {"proportion": 0.3, "nobs": None, "budget": 0.3}
            yield f"noisy trials {is_total} {name}", proportion_confint, kind, 0.2
        for method in ("convolution", "asymptotic"):
            kind = noise | {"population_size": 20_000, "method": method, "proportion": 0.3}
            kind |= {"alpha": 0.1, "sample_size": None, "budget": 0.05}
            yield f"survey {method} {name}", survey_total, kind, 2000.0
        kind = noise | STRATA | {"allocation": [1, 1], "method": "convolution", "alpha": 0.1}
        kind |= {"sample_size": None, "budget": 0.4, "design": "poisson" if made is L else "srs"}
        yield f"strata {name}", stratified_total, kind, 1400.0
        kind = noise | {"weights": PAIRS, "simultaneous": True, "reps": 2000, "budget": None}
        yield f"differences together {name}", linear_confint, kind, 10.0
        kind = noise | {"threshold": 50, "alpha": 0.1, "budget": None}
        yield f"unpublished {name}", unpublished_bound, kind, 70.0
        for method in ("asymptotic", "exact")[: 2 if made is L else 1]:
            kind = noise | {"numerator": 60, "denominator": 120, "alpha": 0.1, "method": method}
            yield f"ratio {method} {name}", ratio_confint, kind | {"budget": None}, 0.2
    for method, made in (("asymptotic", L), ("exact", L), ("exact", N)):
        kind = PART | {"mechanism": made, "method": method, "alpha": 0.1, "budget": None}
        yield f"part {method} {made.__self__.__name__}", linear_ratio_confint, kind, 0.1
    for width in (4.0, 10.0, 11.0, 100.0):
        kind = {"mechanism": G, "cells": 4, "budget": None}
        yield f"counts {width}", count_confint, kind, width
        kind = {"mechanism": G, "weights": [1, 1], "budget": None}
        yield f"sum {width}", linear_confint, kind, width
    for made in (clipped_laplace, clipped_gaussian):
        for options in ({"uncertainty": "noise"}, {"std": 15.0}, {}):
            kind = CLIPPED | {"mechanism": made, "noise_in": "sum", "alpha": 0.1, **options}
            kind |= {"nobs": None, "budget": 0.5}
            yield f"clipped mean {made.__name__} {options}", clipped_mean_confint, kind, 8.0
    for procedure, kind in (
        (risk_ratio_confint, {"method": "exact"}),
        (odds_ratio_confint, {"method": "asymptotic"}),
        (
            risk_ratio_confint,
            {"method": "asymptotic", "uncertainty": "noise+sampling", "row_totals": True},
        ),
        (risk_difference_confint, {"method": "asymptotic", "uncertainty": "noise+sampling"}),
    ):
        kind = {**RISKS, **kind, "mechanism": L, "budget": 0.5}
        wanted = plan.width(procedure, nobs1=300, **kind)
        yield f"{procedure.__name__} {kind}"[:70], procedure, kind | {"nobs1": None}, wanted
    for known, kind in (
        (True, {"mean_bounds": (0, 300)}),
        (True, {"delta": 1e-6}),
        (False, {"mean_bounds": (0, 300), "std_bounds": (0.1, 100)}),
    ):
        kind |= {"known_std": known, "std": 15.0, "budget": 1.5}
        wanted = plan.width(normal_mean_confint, nobs=4000, **kind)
        yield f"normal mean {known} {kind}"[:60], normal_mean_confint, kind | {"nobs": None}, wanted


SOLVED = {name: case for name, *case in solved()}
# a sixth of those for three laws each, and half of the others when slow, the rest in a study
QUICK = [
    x
    for i, x in enumerate(SOLVED)
    if i % 6 == 0 or (not x.endswith(tuple(MADE)) and (i % 2 == 0 or not x.startswith("clipped")))
]
WHOLE = {"nobs", "nobs1", "sample_size"}


def in_parts():
    """A case, and which of what was given is solved for: one in turn, or both if not quick."""
    for i, x in enumerate(SOLVED):
        if x in QUICK:
            yield x, [1 + QUICK.index(x) % 2]
            yield pytest.param(x, [1, 2], marks=pytest.mark.study)
        else:
            kept = i % 2 == 0 or x.startswith("part asymptotic")  # each kind once or more
            yield pytest.param(x, [1, 2], marks=pytest.mark.slow if kept else pytest.mark.study)


@pytest.mark.parametrize(("name", "others"), list(in_parts()))
def test_what_is_solved_for_reaches_the_width_and_no_more(name, others):
    procedure, known, wanted = SOLVED[name]
    known = {"alpha": 0.05, **known}
    names = sorted({*(x for x in known if known[x] is None), "budget", "alpha"})
    # what was not given comes first, and is given then
    names.sort(key=lambda x: known[x] is not None)
    for name in names if len(names) < 3 else [names[0], *(names[i] for i in others)]:
        found = plan.solve(procedure, width=wanted, **known | {name: None})
        less = found - 1.0 if name in WHOLE else found * (1.0 - 1e-3)
        at, before = (plan.width(procedure, **known | {name: x}) for x in (found, less))
        assert at <= wanted * (1.0 + 1e-8) < before
        assert known[name] is None or found <= known[name] * (1.0 + 1e-6)
        known[name] = found if known[name] is None else known[name]
    assert plan.solve(procedure, **known) == plan.width(procedure, **known)


def test_numbers_of_observations_are_whole_floats():
    kind = {"mechanism": L, "budget": 0.5, "proportion": 0.3}
    n = plan.solve(proportion_confint, width=0.1, nobs=None, **kind)
    assert n == np.ceil(n)
    assert type(n) is float


@pytest.mark.parametrize(("total", "mean"), [(survey_total, survey_mean)])
def test_the_share_of_a_population_is_planned_as_its_total(total, mean):
    kind = {"mechanism": L, "budget": 0.1, "population_size": 50_000, "proportion": 0.2}
    assert plan.width(mean, sample_size=900, **kind) == pytest.approx(
        plan.width(total, sample_size=900, **kind) / 50_000, rel=1e-12
    )
    assert plan.solve(mean, width=0.04, **kind) == plan.solve(total, width=2000.0, **kind)
    kind = {"mechanism": L, "budget": 0.5, "method": "asymptotic", **STRATA}
    sizes = [plan.solve(f, width=w, **kind) for f, w in ((stratified_total, 1400.0),)]
    assert plan.solve(stratified_mean, width=0.1, **kind) == sizes[0]


CURVES = {
    count_confint: ({}, {"alpha": [0.05, 0.1], "budget": [0.5, 1.0, 2.0]}),
    unpublished_bound: ({"threshold": 50}, {"budget": [1.0, 2.0]}),
    ratio_confint: ({}, {"numerator": [3, 4], "denominator": 9, "budget": 3.0}),
    linear_ratio_confint: (PART, {"size": [1.0, 2.0], "budget": [0.5, 1.0]}),
    clipped_mean_confint: (CLIPPED | {"std": 3}, {"nobs": [10, 20], "budget": [1.0, 2.0]}),
    survey_total: (
        {"population_size": 20_000},
        {"sample_size": [10, 20], "proportion": 0.1, "budget": [1.0, 2.0]},
    ),
    stratified_total: (
        STRATA | {"method": "asymptotic"},
        {"sample_size": [500, 700], "budget": [0.5, 1.0]},
    ),
    proportion_confint: ({}, {"nobs": [9, 20], "proportion": [0.1, 0.5], "budget": 1.0}),
    count_posterior: ({"prior": PoissonPrior}, {"mean": [2.0, 9.0], "budget": [0.5, 1.0]}),
}


@pytest.mark.parametrize("procedure", CURVES, ids=lambda f: f.__name__)
def test_curves_hold_all_combinations(procedure):
    fixed, numbers = CURVES[procedure]
    frame = plan.curve(procedure, mechanism=L, **fixed, **numbers)
    assert set(frame.columns) == {*numbers, "alpha", "width", "error"}
    assert len(frame) == np.prod([np.size(x) for x in numbers.values()])
    assert (frame["error"] <= 2e-3 * frame["width"]).all()
    columns = {x: frame[x] for x in frame.columns.drop(["width", "error"])}
    widths = plan.width(procedure, mechanism=L, **fixed, **columns)
    np.testing.assert_array_equal(frame["width"], widths)


NO_NOISE = {
    count_confint: {},
    linear_confint: {"weights": [1.0, 2.0]},
    ratio_confint: {"numerator": [1.0, 0.0], "denominator": [2.0, 3.0]},
    linear_ratio_confint: PART,
    count_posterior: {"prior": PoissonPrior, "mean": [3.0, 5.0]},
}


@pytest.mark.parametrize("procedure", NO_NOISE, ids=lambda f: f.__name__)
def test_values_without_noise_have_no_width(procedure):
    assert np.all(plan.width(procedure, mechanism=Exact(), **NO_NOISE[procedure]) == 0.0)


LAW = Laplace(scale=2.0)
PROPORTION = {"mechanism": N, "method": "wilson", "proportion": 0.3}
NOISY = {"mechanism": LAW, "nobs_mechanism": Exact(), "nobs": 9, "proportion": 0.3}
RATE = {"mechanism": N, "method": "score", "rate": 2.0}
RATIO = {"mechanism": N, "numerator": 6.0, "denominator": 12.0}
SURVEY = {"mechanism": Exact(), "population_size": 100, "sample_size": 9, "proportion": 0.5}
SAMPLED = STRATA | {"mechanism": LAW, "sample_size": 900}
TABLE = RISKS | {"mechanism": LAW, "nobs1": 10}
MEAN = {"mean_bounds": (-5, 5), "std": 1.0}
NORMAL = {"nobs": 100, "std": 1.5, "budget": 1.0}
CLIP = CLIPPED | {"mechanism": LAW, "nobs": 9}
ABOVE = {"mechanism": L, "threshold": 9, "count": 9}

REFUSED = {
    count_confint: [
        ({}, "mechanism must be a law of noise"),
        ({"mechanism": Laplace}, "mechanism must be a law of noise"),
        ({"mechanism": 3.0}, "mechanism must be a law of noise"),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "mechanism must have scalar parameters"),
        ({"mechanism": LAW, "method": "wald"}, "method must be one of"),
        ({"mechanism": LAW, "cells": 0}, "cells must be >= 1"),
        ({"mechanism": LAW, "cells": 1.5}, "cells must be a whole number"),
        ({"mechanism": LAW, "alpha": 0.0}, "alpha must be > 0"),
        ({"mechanism": LAW, "budget": 1.0}, "budget must be left out"),
        ({"mechanism": L}, "budget must be given"),
        ({"mechanism": L, "budget": -1.0}, "budget must be > 0"),
        ({"mechanism": LAW, "width": None, "alpha": None}, "exactly one of alpha, width must be"),
        ({"mechanism": LAW, "alpha": None, "width": 0.0}, "width must be > 0"),
        ({"mechanism": LAW, "alpha": None, "width": np.inf}, "width must be finite"),
        ({"mechanism": LAW, "nobs": 3}, "must be among alpha, budget, mechanism, method, cells"),
        ({"mechanism": Exact(), "alpha": None, "width": 3.0}, "width must be smaller than 0"),
        ({"mechanism": Laplace, "threshold": 100, "count": 9}, "mechanism must be a law of noise"),
        (ABOVE | {"threshold": np.nan}, "threshold must not contain NaN"),
        (ABOVE | {"threshold": -np.inf}, "threshold must be finite"),
        (ABOVE | {"threshold": [1, 2]}, "threshold must be a number"),
        (ABOVE | {"method": "wald"}, "method must be one"),
        (ABOVE | {"lower": "x"}, "lower must hold real"),
        (ABOVE | {"count": 8, "budget": 1.0}, "count must be >= 9"),
        (
            ABOVE | {"method": "naive", "width": 1e13},
            "width must be smaller than 2.99573e.09, which budget = 1e-09 has already",
        ),
        (ABOVE | {"width": None, "alpha": None}, "exactly one of count, alpha, budget, width must"),
        (ABOVE | {"width": 1.0, "count": None}, "count must be given: it is not solved for"),
        (ABOVE | {"width": 10.0}, "width must be one that can be reached"),
        (
            {"mechanism": Geometric(scale=2.0), "threshold": 9, "count": 10.5},
            "count must hold whole numbers",
        ),
    ],
    linear_confint: [
        ({"mechanism": LAW}, "weights must be given"),
        ({"mechanism": LAW, "weights": []}, "weights must hold at least one value"),
        ({"mechanism": LAW, "weights": [[[1.0]]]}, "weights must have 1 entries in each row"),
        ({"mechanism": LAW, "weights": [1.0], "simultaneous": 1}, "simultaneous must be"),
        ({"mechanism": LAW, "weights": [1.0], "reps": 0}, "reps must be >= 1"),
        ({"mechanism": LAW, "weights": [1.0], "rng": -1}, "rng must be None"),
        ({"mechanism": LAW, "weights": [0.0, 0.0]}, "weights must not all be 0"),
        ({"mechanism": LAW, "weights": [1.0, np.nan]}, "weights must not contain NaN"),
        ({"mechanism": [LAW], "weights": [1.0, 2.0]}, "mechanism must have one law"),
    ],
    unpublished_bound: [
        ({"mechanism": L, "threshold": 50, "width": 40.0}, "width must be one that can be reached"),
        ({"mechanism": LAW, "threshold": np.nan}, "threshold must not contain NaN|threshold must"),
        ({"mechanism": LAW, "threshold": 5, "lower": None}, "lower must"),
        ({"mechanism": LAW, "threshold": 5, "cells": 0}, "cells must be >= 1"),
        ({"mechanism": "laplace", "threshold": 5}, "mechanism must be a law of noise"),
    ],
    ratio_confint: [
        (RATIO | {"width": 0.1, "budget": 1.0}, "exactly one of numerator, denominator, alpha, bu"),
        (RATIO | {"width": 0.1, "denominator": 0.0}, "width must be one .* reached: it is inf"),
        (RATIO | {"width": 0.1, "denominator": np.nan}, "denominator must not contain NaN"),
        (RATIO | {"width": 0.1, "numerator": None}, "numerator must be given"),
        (RATIO | {"width": 0.0}, "width must be > 0"),
        (RATIO | {"mechanism": "laplace"}, "mechanism must be a law of noise"),
        (RATIO | {"method": "fieller"}, "one of 'exact', 'asymptotic'"),
    ],
    linear_ratio_confint: [
        (PART | {"mechanism": LAW, "values": [[1, 2, 3]]}, "values must be one-dimensional"),
        (PART | {"mechanism": LAW, "values": [np.nan] * 3}, "values must not contain NaN"),
        (PART | {"mechanism": LAW, "numerator": [1, 0]}, "numerator must have 3 entries in each"),
        (
            PART | {"mechanism": LAW, "denominator": [[1, 1, 1]] * 2, "numerator": np.eye(3)},
            "numerator and denominator",
        ),
        (PART | {"mechanism": "laplace"}, "mechanism must be a law of noise"),
        (PART | {"mechanism": [Exact()] * 2}, "mechanism must have one law"),
        (
            PART | {"mechanism": LAW, "method": "fieller"},
            "one of 'exact', 'asymptotic'",
        ),
        (PART | {"mechanism": LAW, "simultaneous": 1}, "simultaneous must be True or False"),
        (PART | {"mechanism": L, "width": None}, "exactly one of size, alpha, budget, width must"),
        (
            PART | {"mechanism": L, "width": 0.1, "size": None},
            "exactly one of size, alpha, budget, width must be None",
        ),
        (PART | {"mechanism": L, "width": 0.1, "size": 0.0}, "size must be >= 1e-09"),
        (PART | {"mechanism": L, "width": 0.0}, "width must be > 0"),
        (PART | {"mechanism": L, "width": 0.1, "alpha": 2.0}, "alpha must be < 1"),
        (
            PART
            | {"mechanism": L, "width": 0.1, "denominator": [1, -1, 1], "method": "asymptotic"},
            "width must be one that can be reached",
        ),
    ],
    clipped_mean_confint: [
        (CLIP | {"mechanism": Laplace}, "mechanism must be a law of noise"),
        (CLIP | {"bounds": (1.0, 1.0)}, "bounds must be two numbers"),
        (CLIP | {"bounds": (0.0, np.nan)}, "bounds must not contain NaN"),
        (CLIP | {"bounds": (0.0, 1e30)}, "bounds must be <="),
        (CLIP | {"bounds": 3.0}, "bounds must be one-dimensional"),
        (CLIP | {"std": 51.0}, "std must be <="),
        (CLIP | {"std": [1.0, 2.0]}, "std must be a number"),
        (CLIP | {"method": "asymptotic"}, "method must be one of"),
        (CLIP | {"uncertainty": "all"}, "uncertainty must be one"),
        (CLIP | {"noise_in": "total"}, "noise_in must be one of"),
        (CLIP | {"nobs": 0}, "nobs must be >= 1"),
        (CLIP | {"nobs": 1.5}, "nobs must hold whole"),
        (CLIP | {"nobs": 1e13}, "nobs must be <="),
        (
            CLIP | {"mechanism": L, "width": None},
            "exactly one of nobs, alpha, budget, width must be None",
        ),
    ],
    survey_total: [
        (SURVEY | {"mechanism": Laplace}, "mechanism must be a law of noise"),
        (SURVEY | {"population_size": 0}, "population_size must be >= 1"),
        (SURVEY | {"population_size": 1.5}, "population_size must be a whole number"),
        (SURVEY | {"population_size": 10**20}, "population_size must be <="),
        (SURVEY | {"method": "wilson"}, "method must be one of"),
        (SURVEY | {"uncertainty": "sampling"}, "uncertainty must be one of"),
        (
            SURVEY | {"uncertainty": "noise", "method": "convolution"},
            "one of 'exact', 'asymptotic'",
        ),
        (SURVEY | {"sample_size": 1}, "sample_size must be >= 2"),
        (SURVEY | {"sample_size": 101}, "sample_size must be <= 100"),
        (SURVEY | {"proportion": 1.1}, "proportion must be <= 1"),
        (
            SURVEY | {"mechanism": Laplace(scale=9.0), "sample_size": None, "width": 1.0},
            "width must be one that can be reached: it is 53.9",
        ),
        (SURVEY | {"proportion": None, "width": 1.0}, "proportion must be given"),
    ],
    stratified_total: [
        (SAMPLED | {"population_size": 100}, "population_size must have one entry for each"),
        (SAMPLED | {"population_size": [0, 5]}, "population_size must be >= 1"),
        (SAMPLED | {"proportion": [0.5, 1.5]}, "proportion must be <= 1"),
        (SAMPLED | {"proportion": [0.5] * 3}, "proportion must be a number or have one entry"),
        (SAMPLED | {"allocation": [1, 0]}, "allocation must be > 0"),
        (SAMPLED | {"allocation": [1, 2, 3]}, "allocation must be a number or have one entry"),
        (SAMPLED | {"design": "cluster"}, "design must be one of"),
        (SAMPLED | {"uncertainty": "sampling"}, "uncertainty must be one of"),
        (SAMPLED | {"method": "bootstrap"}, "method"),
        (SAMPLED | {"mechanism": [Exact()] * 3}, "mechanism must have one law"),
        (SAMPLED | {"sample_size": 20_000}, "sample_size must be <= 14000"),
        (
            SAMPLED | {"method": "convolution", "sample_size": None, "width": 1.0},
            "width must be one that can be reached",
        ),
    ],
    proportion_confint: [
        (PROPORTION | {"width": 0.01, "nobs": 10}, "width must be one that can be reached"),
        (PROPORTION | {"width": 0.99999, "nobs": 10}, "width must be smaller than"),
        (PROPORTION | {"width": 1e-9, "budget": 1.0}, "width must be one that can be reached"),
        (PROPORTION | {"width": -0.1, "budget": 1.0}, "width must be > 0"),
        (PROPORTION | {"width": 1e-300, "nobs": 10.0}, "width must be one that can be reached"),
        (PROPORTION | {"width": 1e-300, "budget": 1.0}, "width must be one that can be reached"),
        (PROPORTION | {"width": 1e300, "nobs": 10.0}, "width must be smaller than"),
        (PROPORTION | {"width": 0.1}, "exactly one of nobs, proportion, alpha, budget, width must"),
        (PROPORTION | {"width": 0.1, "nobs": 1.5}, "nobs must hold whole numbers"),
        (PROPORTION | {"width": 0.1, "nobs": 10, "proportion": 1.0}, "proportion must be < 1"),
        (PROPORTION | {"width": 0.1, "nobs": 10, "proportion": 0.0}, "proportion must be >= 1e-3"),
        (PROPORTION | {"width": 0.1, "nobs": 10, "proportion": None}, "proportion must be given"),
        (PROPORTION | {"method": "score"}, "method must be one of 'exact', 'mid-p'"),
        (NOISY | {"nobs_mechanism": "laplace"}, "nobs_mechanism must be a law of noise"),
        (NOISY | {"nobs_mechanism": Laplace(scale=[1.0, 2.0])}, "nobs_mechanism must have scalar"),
        (NOISY | {"method": "wilson"}, "one of 'exact', 'asymptotic'"),
        (NOISY | {"nobs_is_total": 1}, "nobs_is_total must be True or False"),
        (
            NOISY | {"nobs_mechanism": None, "nobs_is_total": True},
            "nobs_mechanism must be given with nobs_is_total=True",
        ),
        (NOISY | {"nuisance_alpha": 0.5}, "nuisance_alpha must be < 0.5"),
        (NOISY | {"mechanism": N, "width": 0.1, "nobs": None}, "exactly one of nobs, proportion"),
        (NOISY | {"nobs_mechanism": LAW, "alpha": 1e-4}, "nuisance_alpha must be below 5e-05"),
        (
            NOISY | {"nobs_mechanism": lambda budget: budget, "budget": 1.0},
            "nobs_mechanism must return a noise law",
        ),
    ],
    poisson_confint: [
        (RATE | {"width": 1e-3, "exposure": 10.0}, "width must be one that can be reached"),
        (RATE | {"width": 1e-9, "budget": 1.0}, "width must be one that can be reached"),
        (RATE | {"width": 1e-300, "exposure": 10.0}, "width must be one that can be reached"),
        (RATE | {"width": 1e-300, "budget": 1.0}, "width must be one that can be reached"),
        (RATE | {"width": 1e300, "exposure": 10.0}, "width must be smaller than"),
        (RATE | {"width": 1e300, "budget": 1.0}, "width must be smaller than"),
        (RATE | {"width": 0.1}, "exactly one of exposure, rate, alpha, budget, width must be None"),
        (RATE | {"width": 0.1, "exposure": 0.0}, "exposure must be > 0"),
        (RATE | {"width": 0.1, "exposure": 10, "rate": 0.0}, "rate must be > 0"),
        (
            RATE | {"width": 0.1, "exposure": 1e10, "rate": 1e10},
            r"exposure \* rate must be <= 1e\+15",
        ),
        (RATE | {"mechanism": Laplace}, "mechanism must be a law of noise"),
        (RATE | {"method": "wilson"}, "method must be one of 'exact', 'mid-p'"),
    ],
    risk_ratio_confint: [
        (TABLE | {"width": None, "nobs1": None}, "exactly one of nobs1, prop1, prop2, alpha, wi"),
        (TABLE | {"nobs1": None, "width": 0.1, "prop1": 0.0}, "prop1 must be >= 1e-09"),
        (TABLE | {"nobs1": None, "width": 0.1, "prop2": 1.0}, "prop2 must be < 1"),
        (TABLE | {"width": 0.1, "prop2": None}, "prop2 must be given"),
        (TABLE | {"width": 0.0, "nobs1": None}, "width must be > 0"),
        (TABLE | {"nobs1": 1.5}, "nobs1 must hold whole"),
        (TABLE | {"budget": 1.0}, "budget must be left out"),
        (TABLE | {"mechanism": "laplace"}, "mechanism must be a law of noise"),
        (TABLE | {"mechanism": [Exact()] * 3}, "mechanism must have one law"),
        (TABLE | {"scale": "linear"}, "scale must be one of 'log', 'plain'"),
        (TABLE | {"ratio": 0.0}, "ratio must be >= 1e-06"),
        (TABLE | {"row_totals": 1}, "row_totals must be True or False"),
        (TABLE | {"method": "score"}, "one of 'exact', 'asymptotic'"),
        (TABLE | {"uncertainty": "noise+sampling"}, "method must be 'asymptotic'"),
    ],
    risk_difference_confint: [(TABLE | {"scale": "log"}, "scale must be 'plain'")],
    normal_mean_confint: [
        (NORMAL, "mean_bounds must be given and finite"),
        (NORMAL | {"known_std": False, "mean_bounds": (0, 1)}, "std_bounds must be given"),
        (NORMAL | {"known_std": 1}, "known_std must be True or False"),
        (NORMAL | {"mean_bounds": (1, 0)}, "mean_bounds must be two numbers"),
        (NORMAL | {"mean_bounds": "ab"}, "mean_bounds must hold real numbers"),
        (NORMAL | {"mean_bounds": (0, 1), "std_bounds": (1, 2)}, "std_bounds must not be given"),
        (NORMAL | {"delta": 1.0}, "delta must be < 1"),
        (NORMAL | {"delta": 0.1, "method": "asymptotic"}, "method must be one of"),
        (
            NORMAL | {"delta": 0.1, "known_std": False, "method": "exact"},
            "method must be 'tail-bound'",
        ),
        (NORMAL | {"delta": 0.1, "split": (1, 2, 3)}, "split must have"),
        (NORMAL | {"delta": 0.1, "mechanism": LAW}, "mechanism must be left out"),
        (
            NORMAL | {"known_std": False, "mean_bounds": (-5, 5), "std_bounds": (1, 2), "std": 3.0},
            "std must be <= 2",
        ),
        (MEAN | {"width": None}, "exactly one of nobs, std, budget, alpha, width must be None"),
        (MEAN | {"width": 0.1, "std": 0.0, "nobs": 9}, "std must be >= 1e-40"),
        (MEAN | {"width": 0.1, "std": None, "nobs": 9}, "std must be given"),
        (MEAN | {"width": 0.1, "nobs": 1}, "nobs must be >= 2"),
        (MEAN | {"width": 0.1, "nobs": 10.5}, "nobs must hold whole"),
        (MEAN | {"nobs": 100, "budget": 0.0}, "budget must be >= 1e-10"),
        (MEAN | {"width": -1.0, "nobs": 100}, "width must be > 0"),
        (MEAN | {"width": 1e-9, "nobs": 100}, "width must be one that can be reached"),
        (MEAN | {"width": 50.0, "nobs": 1000}, "width must be smaller than 10"),
    ],
    count_posterior: [
        ({"mechanism": "laplace"}, "mechanism must be a law of noise"),
        ({"mechanism": LAW, "prior": 3.0}, "prior must be a prior"),
        ({"mechanism": LAW, "prior": PoissonPrior([1.0, 2.0])}, "the rate of prior must be"),
        ({"mechanism": LAW, "kind": "map"}, "kind must be one of"),
        ({"mechanism": LAW, "lower": 3, "upper": 2}, "lower must be <= upper"),
        ({"mechanism": LAW, "alpha": 0.0}, "alpha must be > 0"),
        ({"mechanism": LAW, "mean": 3.0}, "mean must be left out"),
        ({"mechanism": LAW, "prior": PoissonPrior}, "mean must be given"),
        ({"mechanism": LAW, "prior": PoissonPrior, "mean": -1}, "mean must be >= 0"),
        ({"mechanism": LAW, "prior": float, "mean": 1}, "prior must return a prior"),
        ({"mechanism": LAW, "prior": dict, "mean": 1}, "prior must be a function of an exp"),
        (
            {"mechanism": LAW, "prior": FunctionPrior(lambda k: np.full(k.shape, -np.inf))}
            | {"upper": 9},
            "prior must give some count of the support a probability",
        ),
        ({"mechanism": WeightedSum([1, 2], LAW)}, "needs noise of a known den"),
        ({"mechanism": LAW, "prior": PoissonPrior(3.0), "lower": 90}, "prior must give lower..upp"),
        ({"mechanism": LAW, "prior": TablePrior([1, 2]), "lower": 9}, "prior must give lower..upp"),
        ({"mechanism": LAW, "prior": FunctionPrior(lambda k: -k)}, "lower and upper must be given"),
        ({"mechanism": LAW, "width": None, "alpha": None}, "exactly one of alpha, width must be"),
        ({"mechanism": L, "prior": PoissonPrior(3.0), "width": 40.0}, "width must be smaller than"),
    ],
}


@pytest.mark.parametrize(
    ("procedure", "arguments", "message"),
    [(f, *case) for f, cases in REFUSED.items() for case in cases],
    ids=lambda x: x if isinstance(x, str) else getattr(x, "__name__", ""),
)
def test_what_is_wrong_is_refused_by_name(procedure, arguments, message):
    ask = plan.solve if "width" in arguments else plan.width
    with pytest.raises((InvalidParameterError, IncompatibleReleaseError), match=message):
        ask(procedure, **arguments)


numbers = st.none() | st.floats() | st.floats(1e-3, 1e3) | st.floats(0.0, 1.0) | st.just("x")
laws = st.sampled_from([L, G, N, Gaussian(sigma=2.0), Geometric(scale=2.0), Tulap.from_epsilon])
ANY = {
    "counts": (count_confint, {"cells": 3}, ()),
    "contrast": (linear_confint, {"weights": [1.0, -1.0]}, ()),
    "contrasts": (
        linear_confint,
        {"weights": [[1, -1], [1, 1]], "simultaneous": True, "reps": 99},
        (),
    ),
    "unpublished": (unpublished_bound, {"threshold": 50.0}, ()),
    "above": (count_confint, {"threshold": 20}, ("count",)),
    "above, naive": (count_confint, {"threshold": 20, "method": "naive"}, ("count",)),
    "ratio": (ratio_confint, {"method": "asymptotic"}, ("numerator", "denominator")),
    "part": (linear_ratio_confint, PART | {"method": "asymptotic"}, ("size",)),
    "clipped mean": (clipped_mean_confint, CLIPPED | {"std": 9.0}, ("nobs",)),
    "clipped sum": (clipped_mean_confint, CLIPPED | {"noise_in": "sum"}, ("nobs",)),
    "survey": (survey_total, {"population_size": 500}, ("sample_size", "proportion")),
    "survey noise": (
        survey_total,
        {"population_size": 500, "uncertainty": "noise"},
        ("sample_size", "proportion"),
    ),
    "strata": (stratified_total, STRATA | {"method": "asymptotic"}, ("sample_size",)),
    "proportion": (proportion_confint, {"method": "wilson"}, ("nobs", "proportion")),
    "noisy trials": (
        proportion_confint,
        {"method": "asymptotic", "nobs_mechanism": L, "nobs_is_total": True},
        ("nobs", "proportion"),
    ),
    "rate": (poisson_confint, {"method": "score"}, ("exposure", "rate")),
    "table": (odds_ratio_confint, {"method": "asymptotic"}, ("nobs1", "prop1", "prop2")),
    "normal mean": (normal_mean_confint, {"mean_bounds": (0, 300)}, ("nobs", "std")),
    "normal mean and deviation": (
        normal_mean_confint,
        {"delta": 1e-6, "known_std": False},
        ("nobs", "std"),
    ),
    "flat": (count_posterior, {"upper": 1e9}, ()),
    "Poisson": (count_posterior, {"prior": PoissonPrior}, ("mean",)),
    "tiny": (
        count_posterior,
        {"prior": lambda mean: NegativeBinomialPrior(mean, 1e-300)},
        ("mean",),
    ),
}


@pytest.mark.parametrize("kind", ANY)
@settings(derandomize=True, deadline=None, max_examples=5)
@given(data=st.data())
def test_any_arguments_give_a_number_or_a_clear_error(kind, data):
    procedure, fixed, own = ANY[kind]
    has_noise = procedure is not normal_mean_confint
    fixed = fixed | ({"mechanism": data.draw(laws)} if has_noise else {})
    some = {"nobs": st.integers(-2, 10**12), "nobs1": st.integers(1, 10**12)}
    known = {x: data.draw(numbers | some.get(x, numbers), label=x) for x in (*own, "budget")}
    known["alpha"] = data.draw(numbers | st.sampled_from([0.1, 1e-12, 0.999]), label="alpha")
    width = data.draw(numbers, label="width")
    for ask in (plan.width, lambda f, **given: plan.solve(f, width=width, **given)):
        try:
            found = ask(procedure, **fixed, **known)
        except DPInferError:
            continue
        assert found >= 0.0


def test_labels_say_which_value_a_weight_is_for():
    values = pd.Series(PART["values"], index=list("abc"))
    named = {"values": values, "numerator": {"c": 1}, "denominator": {"a": 1, "c": 1}}
    placed = PART | {"numerator": [0, 0, 1], "denominator": [1, 0, 1]}
    assert plan.width(linear_ratio_confint, mechanism=LAW, **named) == plan.width(
        linear_ratio_confint, mechanism=LAW, **placed
    )


GONE = {
    "ClippedMeanWidth": "clipped_mean_confint",
    "CountWidth": "count_confint",
    "LinearRatioWidth": "linear_ratio_confint",
    "LinearWidth": "linear_confint",
    "NormalMeanWidth": "normal_mean_confint",
    "PoissonWidth": "poisson_confint",
    "PosteriorWidth": "count_posterior",
    "ProportionWidth": "proportion_confint",
    "RatioWidth": "ratio_confint",
    "StratifiedWidth": "intervals.stratified_total",
    "SurveyWidth": "survey_total",
    "ThresholdedWidth": "count_confint, threshold=",
    "TwoByTwoWidth": "risk_ratio_confint",
    "UnpublishedWidth": "unpublished_bound",
}


@pytest.mark.parametrize("name", GONE)
def test_names_that_are_gone_say_what_is_asked_now(name):
    words = rf"no more: write dpinfer\.plan\.width\(dpinfer\.{GONE[name]}"
    with pytest.raises(AttributeError, match=words):
        getattr(dpinfer, name)
