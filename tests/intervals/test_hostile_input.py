"""Bad and odd input to every interval: one clear error, or a result that can be trusted."""

import pickle
from fractions import Fraction
from functools import partial
from inspect import ismodule

import numpy as np
import pandas as pd
import pytest
from public_names import public

import dpinfer
from dpinfer import (
    DiscreteGaussian,
    DPInferError,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Release,
    Tulap,
    WeightedSum,
    intervals,
    plan,
)
from dpinfer.results import ConfidenceSets, Intervals

pytestmark = pytest.mark.filterwarnings("ignore::dpinfer.DPInferWarning")

NOISE = Geometric(scale=3.0)
THREE = [18, 25, 33]
TABLE = [[60, 45], [52, 70]]


def survey(name, *, method, **arguments):
    """Estimate from a survey, with an interval about it."""
    found = public(name)(**arguments)
    assert is_number(found.bse)
    return found.conf_int(method=method)


def posterior(*, count, mechanism, k=20.0, q=0.25, alpha=0.1, kind="hdi", prior=None, **support):
    """Everything that a posterior tells."""
    found = dpinfer.count_posterior(count, mechanism=mechanism, prior=prior, **support)
    for values in (found.pmf(k), found.cdf(k), found.sf(k), found.mean, found.std, found.mode):
        assert is_number(values)
    assert is_number(found.quantile(q))
    return found.interval(alpha, kind)


def with_prior(kind, *, count, mechanism, **parameters):
    """Posterior under a prior of some kind."""
    return posterior(count=count, mechanism=mechanism, prior=public(kind)(**parameters))


def with_empirical_prior(*, count, mechanism, family):
    """Posterior under a prior that the counts themselves give."""
    prior = dpinfer.intervals.empirical_prior(count, mechanism=mechanism, family=family)
    return posterior(count=count, mechanism=mechanism, prior=prior)


def width(name, /, **arguments):
    """Width that a plan tells, or the argument that reaches a width."""
    ask = plan.solve if "width" in arguments else plan.width
    return ask(public(name), **arguments)


SURVEY = {"sample_size": [100, 120, 140], "population_size": [1000, 2000, 3000]}
GOOD = {
    "proportion_confint": {"count": THREE, "nobs": [60, 70, 80], "nuisance_alpha": 1e-4},
    "poisson_confint": {"count": THREE, "exposure": [6.0, 7.0, 8.0]},
    "ratio_confint": {"numerator": THREE, "denominator": [60, 70, 80]},
    "share_confint": {"part": THREE, "rest": [60, 70, 80]},
    "relative_change_confint": {"new": THREE, "old": [60, 70, 80]},
    "linear_ratio_confint": {"values": THREE, "numerator": [1, 0, 0], "denominator": [1, 1, 1]},
    "risk_ratio_confint": {"table": TABLE},
    "odds_ratio_confint": {"table": TABLE},
    "risk_difference_confint": {"table": TABLE},
    "thresholded_confint": {"count": THREE, "threshold": 10, "clamp": 0},
    "clamped_confint": {"count": THREE, "clamp": 0},
    "release_confint": {"lower": 0, "upper": 100},
    "unpublished_bound": {"threshold": [10, 20, 30], "lower": 0},
    "winner_confint": {"values": THREE},
    "ranking": {"values": THREE},
    "survey_total": {"count": THREE} | SURVEY,
    "survey_mean": {"count": THREE} | SURVEY,
    "stratified_total": {"counts": THREE} | SURVEY,
    "stratified_mean": {"counts": THREE} | SURVEY,
    "clipped_mean_confint": {"mean": [1, 2, 3], "nobs": [60, 70, 80], "std": [1, 1, 2]},
    "normal_mean_confint": {
        "data": np.linspace(-2.0, 2.0, 200),
        "epsilon": 1.0,
        "delta": 0.0,
        "std": 1.0,
        "mean_bounds": (-9, 9),
        "split": [1, 2],
    },
    "count_posterior": {"count": THREE, "lower": 0, "upper": 90, "k": 20.0, "q": 0.25},
    "empirical_prior": {"count": THREE},
    "PoissonPrior": {"count": THREE, "rate": 20.0},
    "NegativeBinomialPrior": {"count": THREE, "mean": 20.0, "dispersion": 0.5},
    "TablePrior": {"count": THREE, "pmf": np.ones(90), "first": 0},
    "width: counts": {"cells": 3, "alpha": 0.1},
    "width: linear": {"weights": [1, 1, -1], "alpha": 0.1},
    "width: proportion": {"nobs": 60, "proportion": 0.3, "alpha": 0.1},
    "noisy trials": {"nobs": 60, "proportion": 0.3, "alpha": 0.1},
    "width: rate": {"exposure": 6.0, "rate": 3.0, "alpha": 0.1},
    "width: ratio": {"numerator": 30, "denominator": 90, "alpha": 0.1},
    "width: linear ratio": {
        "values": THREE,
        "numerator": [1, 0, 0],
        "denominator": [1, 1, 1],
        "alpha": 0.1,
        "size": 2.0,
    },
    "width: clipped mean": {"nobs": 60, "alpha": 0.1, "noise_in": "mean"},
    "width: survey": {
        "population_size": 900,
        "sample_size": 90,
        "proportion": 0.3,
        "uncertainty": "noise+sampling",
        "alpha": 0.1,
    },
    "width: strata": {
        "design": "srs",
        "uncertainty": "noise+sampling",
        "population_size": [900, 800, 700],
        "proportion": [0.3, 0.2, 0.1],
        "allocation": [1, 2, 3],
        "sample_size": 90,
        "alpha": 0.1,
    },
    "width: thresholded": {"threshold": 10, "count": 40, "alpha": 0.1},
    "width: unpublished": {"threshold": 10, "lower": 1, "cells": 3, "alpha": 0.1},
    "width: risk ratio": {
        "nobs1": 90,
        "prop1": 0.4,
        "prop2": 0.3,
        "ratio": 1.5,
        "scale": "log",
        "row_totals": False,
        "uncertainty": "noise",
        "alpha": 0.1,
    },
    "width: posterior": {"mean": 9.0, "lower": 0, "upper": 90, "alpha": 0.1, "kind": "hdi"},
    "width: normal mean": {
        "nobs": 900,
        "std": 2.0,
        "budget": 1.0,
        "known_std": True,
        "delta": 0.0,
        "mean_bounds": (-9, 9),
        "split": [1, 2],
        "alpha": 0.1,
    },
    "solve: ratio": {"numerator": 30, "denominator": 90, "width": 0.2},
}
"""Arguments with which each interval works, besides the mechanism."""

WIDTHS = {
    "counts": "count_confint",
    "linear": "linear_confint",
    "proportion": "proportion_confint",
    "rate": "poisson_confint",
    "ratio": "ratio_confint",
    "linear ratio": "linear_ratio_confint",
    "clipped mean": "clipped_mean_confint",
    "survey": "survey_total",
    "strata": "stratified_total",
    "thresholded": "count_confint",
    "unpublished": "unpublished_bound",
    "risk ratio": "risk_ratio_confint",
    "posterior": "count_posterior",
}
"""What is planned under each name."""

PARTS = {
    "clipped mean": {"bounds": (-9, 9)},
    "posterior": {"prior": dpinfer.priors.PoissonPrior},
}
SPECIAL = {
    "release_confint": lambda mechanism, **arguments: dpinfer.count_confint(
        Release(THREE, mechanism=mechanism, threshold=10), **arguments
    ),
    "clipped_mean_confint": partial(dpinfer.clipped_mean_confint, bounds=(-9, 9)),
    "normal_mean_confint": lambda mechanism, **arguments: dpinfer.normal_mean_confint(
        **{"rng": 1} | arguments
    ),
    "count_posterior": posterior,
    "empirical_prior": with_empirical_prior,
    "solve: ratio": partial(width, "ratio_confint", alpha=None),
    "noisy trials": partial(width, "proportion_confint", nobs_mechanism=NOISE),
}
SPECIAL |= dict.fromkeys(("thresholded_confint", "clamped_confint"), dpinfer.count_confint)
SPECIAL |= {name: partial(survey, name) for name in GOOD if name.startswith(("survey", "strat"))}
SPECIAL |= {
    name: partial(with_prior, name) for name in GOOD if name.endswith("ior") and name[0].isupper()
}
SPECIAL |= {
    f"width: {name}": partial(width, of, **PARTS.get(name, {})) for name, of in WIDTHS.items()
}
SPECIAL["winner_confint"] = intervals.winner_confint
SPECIAL["ranking"] = lambda **parts: intervals.ranking(**parts).best()["pvalue"]
SPECIAL["width: normal mean"] = lambda mechanism, **parts: width("normal_mean_confint", **parts)

RATIOS = ["ratio_confint", "share_confint", "relative_change_confint"]
RATIOS += ["risk_ratio_confint", "odds_ratio_confint", "risk_difference_confint"]
RATIOS += ["width: ratio", "width: risk ratio"]
EACH_METHOD = {
    "exact mid-p wilson asymptotic": ["proportion_confint"],
    "exact mid-p score asymptotic": ["poisson_confint"],
    "exact naive": [
        "thresholded_confint",
        "release_confint",
        "clamped_confint",
        "width: thresholded",
    ],
    "convolution exact asymptotic": ["survey_total", "survey_mean", "width: survey"],
    "convolution asymptotic": ["stratified_total", "stratified_mean", "width: strata"],
    "exact tail-bound": ["normal_mean_confint", "width: normal mean"],
    "tail-bound": ["width: clipped mean"],
    "adjusted conditional simultaneous": ["winner_confint"],
    "exact wilson asymptotic": ["width: proportion"],
    "exact score asymptotic": ["width: rate"],
    "exact tail-bound asymptotic": ["width: counts", "width: linear"],
    "exact asymptotic": RATIOS,
    "asymptotic": [
        "clipped_mean_confint",
        "noisy trials",
        "linear_ratio_confint",
        "solve: ratio",
        "width: linear ratio",
    ],
}
METHODS = {name: found.split() for found, names in EACH_METHOD.items() for name in names}
"""Methods of each, exact and asymptotic where nothing is said; exact would take long for two."""

NO_METHOD = {"count_posterior", "PoissonPrior", "NegativeBinomialPrior", "TablePrior"}
NO_METHOD |= {
    "ranking",
    "unpublished_bound",
    "empirical_prior",
    "width: posterior",
    "width: unpublished",
}
HAVE_METHOD = set(GOOD) - NO_METHOD
ELSEWHERE = {
    "Ranking",
    "CountPosterior",
    "CredibleIntervals",
    "PrivateMeanInterval",
    "SurveyEstimate",
}
ELSEWHERE |= {"ReplicateIntervals", "from_long", "replicate", "replicate_confint"}
ELSEWHERE |= {"thresholded_sum_confint", "thresholded_ratio_confint"}
ELSEWHERE |= {"BoundedIntervals", "bounded_confint", "table_confint"}
ELSEWHERE |= {"FlatPrior", "FunctionPrior", "count_confint", "linear_confint"}
SLOW_WITH_SUMS = {"width: proportion", "width: rate"}

NO_NUMBER = {
    "NaN": np.nan,
    "infinite": -np.inf,
    "empty": [],
    "complex": 1 + 2j,
    "text": "20",
    "texts": ["18", "25", "33"],
    "bool": True,
    "bools": [True, False, True],
    "object": object(),
    "objects": np.array([18, None, 33], dtype=object),
    "a NaN": [18.0, np.nan, 33.0],
    "an infinity": [18.0, np.inf, 33.0],
    "ragged": [[1, 2], [3]],
    "deep": np.ones((2, 2, 2, 2)),
    "masked": np.ma.masked_array(THREE, mask=[0, 1, 0]),
    "missing": pd.Series([18, None, 33], dtype="Int64"),
    "frame of text": pd.DataFrame({"a": ["x", "y"]}),
    "too large": 10**400,
    "set": {18.0, 25.0},
    "class": float,
}
"""None takes these as numbers."""

ODD = {
    "zero": 0,
    "minus zero": -0.0,
    "minus one": -1,
    "half": 0.5,
    "fraction": Fraction(1, 2),
    "one of one": [5.0],
    "two": [1, 2],
    "three": np.array(THREE, dtype=np.uint8),
    "negative": [-1, -5, -7],
    "zeros": [0, 0, 0],
    "square": np.zeros((2, 2)),
    "huge": 1e300,
    "large": [1e15, -1e15, 1e15],
    "out of reach": 1e99,
    "tiny": 1e-300,
    "below one": 1 - 2**-53,
    "nothing masked": np.ma.masked_array(THREE, mask=False),
    "labels": pd.Series(THREE, index=list("cab")),
    "doubled labels": pd.Series(THREE, index=list("aab")),
    "frame": pd.DataFrame(TABLE, index=list("ab"), columns=list("xy")),
    "law": NOISE,
}
"""Some are taken for some arguments, others are refused."""

LAWS = {
    "none": Exact(),
    "tiny": Laplace(scale=1e-100),
    "wide": Gaussian(sigma=1e4),
    "huge": Laplace(scale=1e100),
    "mixed": [NOISE, Laplace(scale=2.0), Exact()],
    "pair": (NOISE, DiscreteGaussian(sigma=2.0)),
    "in threes": Geometric(scale=[1.0, 2.0, 3.0]),
    "tulap": Tulap(scale=2.0),
    "sum": WeightedSum([1.0, 2.0], Laplace(scale=2.0)),
    "channel": RandomizedResponse(categories=2, p=0.75),
}
"""Mechanisms that some take and others refuse."""

NO_LAW = {
    "nothing": None,
    "text": "laplace",
    "number": 3.0,
    "class": Geometric,
    "empty": [],
    "a law missing": [NOISE, None, NOISE],
    "a channel among laws": [NOISE, NOISE, LAWS["channel"]],
    "seven laws": [NOISE] * 7,
    "seven scales": Geometric(scale=np.arange(1.0, 8.0)),
}

NO_OPTION = ["EXACT", "two_sided", "", 1, ["exact"], np.nan, b"exact", object()]
NO_FLAG = [None, 1, "yes", np.nan, [True]]
NO_BOUNDS = [np.nan, (1, 0), (0, 0), "ab", (0, np.nan), (0, 1, 2), 1, (1j, 2), [True, False]]
BAD_SETTINGS = {
    "alpha": [0, 1, -0.1, 1.5, np.nan, np.inf, "0.05", True, None, [], 1j],
    "alternative": NO_OPTION,
    "method": NO_OPTION,
    "estimate": NO_OPTION,
    "uncertainty": NO_OPTION,
    "kind": NO_OPTION,
    "family": NO_OPTION,
    "design": NO_OPTION,
    "measure": NO_OPTION,
    "scale": NO_OPTION,
    "noise_in": NO_OPTION,
    "known_std": NO_FLAG,
    "simultaneous": NO_FLAG,
    "nobs_is_total": NO_FLAG,
    "integer": NO_FLAG,
    "nuisance_alpha": [-1e-4, 1, 2, np.nan, "0", True, [0.1, 0.2], 1j],
    "lower": [np.nan, np.inf, "0", True, [], [1, 2], 1j],
    "upper": [np.nan, -np.inf, "0", True, [], [1, 2], 1j],
    "bounds": [None, *NO_BOUNDS],
    "mean_bounds": NO_BOUNDS,
    "std_bounds": NO_BOUNDS,
    "row_totals": ["a", np.nan, 1j, [], [1, 2, 3]],
    "nobs_mechanism": ["laplace", 3.0, [], [NOISE] * 7],
    "prior": ["flat", 1, dpinfer.priors.FlatPrior, object()],
    "rng": ["seed", -1, 1.5, True, np.random.RandomState(0), [1], np.random.Generator],
}
"""None takes these settings."""

ENDLESS = {"infinite"}
DEEP = {"deep"}
TAKEN = {
    "count_posterior": {"k": ENDLESS | {"an infinity"}},
    "thresholded_confint": {"threshold": ENDLESS, "clamp": ENDLESS},
    "clamped_confint": {"clamp": ENDLESS, "count": DEEP},
    "unpublished_bound": {"threshold": DEEP},
    "width: proportion": {"nobs": DEEP},
    "width: rate": {"exposure": DEEP, "rate": DEEP},
    "noisy trials": {"nobs": DEEP},
    "width: ratio": {"numerator": DEEP, "denominator": DEEP},
    "width: linear ratio": {"size": DEEP},
    "width: clipped mean": {"nobs": DEEP},
    "width: survey": {"proportion": DEEP},
    "width: strata": {"sample_size": DEEP},
    "width: risk ratio": {"nobs1": DEEP, "row_totals": {"bool"}},
    "width: posterior": {"mean": DEEP},
    "width: normal mean": {"std": DEEP, "budget": DEEP, "known_std": {"bool"}},
}
"""What is taken after all: infinity for no bound, and arrays of any shape."""

ARGUMENTS = [(name, argument) for name, arguments in GOOD.items() for argument in arguments]


def is_number(values):
    """Whether no value is NaN."""
    return not np.isnan(np.asarray(values, dtype=float)).any()


def assert_sound(result):
    """Assert that a result has no NaN and ordered ends, and survives pickling."""
    if not isinstance(result, (Intervals, ConfidenceSets)):
        assert is_number(result)
        assert (np.asarray(result) >= 0).all()
        return
    for values in (result.estimate, result.lower, result.upper, result.width):
        assert is_number(values)
    assert ((np.asarray(result.lower) <= result.upper) | result.empty).all()
    assert not (np.isposinf(result.lower) & ~np.asarray(result.empty)).any()
    assert (np.asarray(result.width) >= 0).all()
    assert len(result.summary()) > 10
    copied = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copied.lower, result.lower)


def run(name, **changes):
    """Call with good arguments, but for the changes."""
    call = SPECIAL.get(name, getattr(dpinfer, name, None))
    common = {"mechanism": NOISE}
    if name in HAVE_METHOD:
        common["method"] = METHODS.get(name, ["exact"])[0]
    if name == "empirical_prior":
        common["family"] = "poisson"
    return call(**common | GOOD[name] | changes)


def refused(name, **changes):
    """Whether the changes are refused, in a message of a readable length on one line."""
    try:
        assert_sound(run(name, **changes))
    except DPInferError as error:
        message = str(error)
    else:
        return False
    assert "\n" not in message
    assert 10 < len(message) < 700
    return True


def settings_of(name):
    """Names of the settings that an interval has, among those of the table."""
    parts = {"count_posterior": {"alpha", "kind", "lower", "upper", "prior"}}
    found = getattr(dpinfer, name, None)
    annotated = set(getattr(found, "__annotations__", ()))
    known = parts.get(name, annotated | set(GOOD[name]))
    plain = {"method"} if name in HAVE_METHOD else set()
    return sorted((known - {"method"} | plain) & set(BAD_SETTINGS))


def methods_of(name):
    """Good changes of method, or none."""
    methods = METHODS.get(name, ["exact", "asymptotic"]) if name in HAVE_METHOD else []
    return [{"method": method} for method in methods] or [{}]


def test_every_interval_is_covered():
    offered = {name for name in intervals.__all__ if not ismodule(getattr(intervals, name))}
    assert offered - ELSEWHERE <= set(GOOD)


@pytest.mark.parametrize("name", GOOD)
def test_good_input_is_taken(name):
    assert not [kind for kind in methods_of(name) if refused(name, **kind)]


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_what_is_no_number_is_refused(name, argument):
    taken = {kind for kind, value in NO_NUMBER.items() if not refused(name, **{argument: value})}
    assert taken == TAKEN.get(name, {}).get(argument, set())


def in_turn_or_all(name, place, each):
    """Methods for what stands at a place: one in turn at each third place, or each."""
    methods = methods_of(name)
    return methods if each else [] if place % 3 else [methods[place // 3 % len(methods)]]


EACH_OR_IN_TURN = pytest.mark.parametrize(
    "each", [False, pytest.param(True, marks=pytest.mark.study)], ids=["in turn", "each"]
)


@EACH_OR_IN_TURN
@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_odd_numbers_are_refused_or_answered(name, argument, each):
    """Every third value by one method in turn, or all by each."""
    for place, value in enumerate(ODD.values(), ARGUMENTS.index((name, argument))):
        for method in in_turn_or_all(name, place, each):
            refused(name, **{argument: value}, **method)


@EACH_OR_IN_TURN
@pytest.mark.parametrize("name", [name for name in GOOD if "normal" not in name])
def test_odd_mechanisms_are_refused_or_answered(name, each):
    """Every third value by one method in turn, or all by each."""
    for place, (kind, law) in enumerate(LAWS.items(), list(GOOD).index(name)):
        if kind == "sum" and name in SLOW_WITH_SUMS:
            continue
        for method in in_turn_or_all(name, place, each):
            refused(name, mechanism=law, **method)
    assert not [kind for kind, law in NO_LAW.items() if not refused(name, mechanism=law)]


@pytest.mark.parametrize(
    ("name", "argument"), [(name, setting) for name in GOOD for setting in settings_of(name)]
)
def test_bad_settings_are_refused(name, argument):
    taken = [value for value in BAD_SETTINGS[argument] if not refused(name, **{argument: value})]
    assert not taken
