"""Bad and odd input to every test: one clear error, or a result that can be trusted."""

import pickle
import re
from fractions import Fraction
from inspect import ismodule
from itertools import product

import numpy as np
import pandas as pd
import pytest
from public_names import public

from dpinfer import (
    DiscreteGaussian,
    DPInferError,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
)
from dpinfer import hypothesis_tests as tests
from dpinfer.hypothesis_tests import Multinomial
from dpinfer.results import AdjustedTests, NullDistribution

ALTERNATIVES = ("two-sided", "larger", "smaller")

pytestmark = pytest.mark.filterwarnings("ignore::dpinfer.DPInferWarning")

NOISE = Geometric(scale=3.0)
THREE = [18, 25, 33]
TABLE = [[60, 45], [52, 70]]
HELD = Multinomial(10, [0.2, 0.3, 0.5])


def in_equilibrium(theta):
    """Genotypes AA, Aa and aa where the allele A has the share theta[0]."""
    p = theta[0]
    return np.array([p**2, 2 * p * (1 - p), (1 - p) ** 2])


GOOD = {
    "chi2_contingency": {"table": TABLE, "nobs": 227, "nobs_mechanism": NOISE, "row_totals": None},
    "chisquare": {"f_obs": THREE, "f_exp": [20.0, 25.0, 30.0], "ddof": 0, "nobs": 75},
    "chisquare_fit": {
        "f_obs": [41, 95, 64],
        "model": in_equilibrium,
        "start": [0.5],
        "nobs": 200,
        "bounds": [(0.01, 0.99)],
    },
    "counts_2indep": {"count1": THREE, "count2": [20, 30, 40], "value": 0.0},
    "counts_paired": {"count1": THREE, "count2": [20, 30, 40]},
    "counts_trend": {"count": THREE, "nobs": 76, "scores": [0, 1, 2], "shares": [1, 1, 1]},
    "linear_ztest": {"values": THREE, "weights": [1, 1, -1], "value": 0.0},
    "mcnemar": {"table": [[30, 12], [5, 40]]},
    "null_distribution": {"model": HELD, "observed": 1.5},
    "poisson_2indep": {
        "count1": THREE,
        "exposure1": [6.0, 7.0, 8.0],
        "count2": 20,
        "exposure2": 9.0,
        "value": 1.0,
    },
    "poisson_ztest": {"count": THREE, "exposure": [6.0, 7.0, 8.0], "value": 3.0},
    "proportions_2indep": {"count1": [4, 3, 2], "nobs1": [9, 8, 7], "count2": 3, "nobs2": 6},
    "proportions_trend": {"count": THREE, "nobs": [60, 70, 80], "scores": [0, 1, 2]},
    "proportions_ztest": {"count": THREE, "nobs": [60, 70, 80], "value": 0.3},
}
"""Arguments with which each test works, besides those below."""

SIMULATION = {"reps": 20, "rng": 1, "n_jobs": 1, "precision": None}

METHODS = ["monte-carlo", "exact", "normal", "asymptotic"]
"""Methods of some tests; the others refuse them, which is right too."""

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
    "span": np.timedelta64(3, "s"),
    "set": {18.0, 25.0},
    "class": float,
}
"""No test takes these as numbers."""

ODD = {
    "zero": 0,
    "minus zero": -0.0,
    "minus one": -1,
    "one": 1,
    "half": 0.5,
    "fraction": Fraction(1, 2),
    "0-d": np.array(20),
    "one of one": [5.0],
    "two": [1, 2],
    "three": np.array(THREE, dtype=np.uint8),
    "negative": [-1, -5, -7],
    "zeros": [0, 0, 0],
    "four": [1, 2, 3, 4],
    "row": np.ones((1, 3)),
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
    "doubled frame": pd.DataFrame(TABLE, index=list("aa"), columns=list("xx")),
    "law": NOISE,
}
"""Some tests take these for some arguments, others refuse them."""

LAWS = {
    "none": Exact(),
    "tiny": Laplace(scale=1e-100),
    "tiny whole": Geometric(scale=1e-100),
    "wide": Gaussian(sigma=1e4),
    "huge": Laplace(scale=1e100),
    "mixed": [NOISE, Laplace(scale=2.0), Gaussian(sigma=1.0)],
    "pair": (NOISE, DiscreteGaussian(sigma=2.0)),
    "channel": RandomizedResponse(categories=2, p=0.75),
    "in threes": Geometric(scale=[1.0, 2.0, 3.0]),
}
"""Mechanisms that some tests take and others refuse."""

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
    "useless channel": RandomizedResponse(categories=5, p=0.2),
}

LONG = [
    (name, "exact")
    for name in (
        "chisquare",
        "counts_trend",
        "null_distribution",
        "poisson_2indep",
        "proportions_2indep",
    )
]
"""Tests and methods that take seconds for such mechanisms."""

NO_OPTION = ["EXACT", "two_sided", "", 1, ["exact"], np.nan, b"exact", object()]
BAD_SETTINGS = {
    "alternative": NO_OPTION,
    "statistic": NO_OPTION,
    "small_expected": NO_OPTION,
    "adjust": NO_OPTION,
    "method": ["EXACT", "", 1, ["exact"], np.nan, b"exact", object()],
    "reps": [0, -1, 1.5, True, None, "10", np.nan, np.inf, 10**12, [10, 20]],
    "rng": ["seed", -1, 1.5, True, np.random.RandomState(0), [1], np.random.Generator],
    "n_jobs": [0, 1.5, True, "all", np.nan, [1]],
    "precision": [0, -0.1, np.nan, np.inf, "0.1", True, [0.1, 0.2], 1j],
    "progress": [None, 1, "yes", np.nan, [True]],
    "nobs_is_total": [None, 1, "yes", np.nan, [True]],
    "nuisance_alpha": [-1e-4, 1, 2, np.nan, "0", True, [0.1, 0.2], 1j],
    "alpha": [0, 1, -0.1, 1.5, np.nan, np.inf, "0.05", True, None, [0.05, 0.1], 1j],
}
"""No test takes these settings."""

NUMBERS = [
    (name, argument)
    for name, arguments in GOOD.items()
    for argument in arguments
    if argument not in ("nobs_mechanism", "model", "release")
]
SETTINGS = [
    (name, argument)
    for name in GOOD
    for argument in BAD_SETTINGS
    if argument in public(name).__annotations__
]


def run(name, **changes):
    """Call a test with its good arguments, but for the changes."""
    common = {"mechanism": NOISE, "method": METHODS[0]} | SIMULATION
    return public(name)(**common | GOOD[name] | changes)


def is_probability(value):
    """Whether all values are in [0, 1], none of them NaN."""
    p = np.asarray(value, dtype=float)
    return bool(((p >= 0) & (p <= 1)).all())


def assert_sound(result):
    """Assert that what a result says of any statistic is finite, and survives pickling."""
    if isinstance(result, AdjustedTests):
        assert is_probability(result.pvalue)
        assert is_probability(result.pvalue_adjusted)
    elif isinstance(result, NullDistribution):
        for alternative in ALTERNATIVES:
            for point in (0.0, 1.5, 1e300, np.inf, -np.inf):
                assert is_probability(result.pvalue(point, alternative))
    else:
        assert is_probability(result.pvalue)
        assert is_probability(result.mc_error)
        assert np.isfinite(np.asarray(result.statistic)).all()
        assert is_probability(result.null_distribution.pvalue(result.statistic, result.alternative))
        copied = pickle.loads(pickle.dumps(result))
        np.testing.assert_array_equal(copied.pvalue, result.pvalue)


def refused(name, **changes):
    """Whether the test refuses the changes, in a message of a readable length on one line."""
    try:
        assert_sound(run(name, **changes))
    except DPInferError as error:
        message = str(error)
    else:
        return False
    assert "\n" not in message
    assert 10 < len(message) < 700
    return True


def test_every_test_is_covered():
    offered = {name: getattr(tests, name) for name in tests.__all__}
    modules = {name: one.__module__ for name, one in offered.items() if not ismodule(one)}
    elsewhere = "power|size|models"
    assert set(GOOD) == {name for name in modules if not re.search(elsewhere, modules[name])}


@pytest.mark.parametrize("name", GOOD)
def test_good_input_is_taken(name):
    assert not refused(name)


@pytest.mark.parametrize(("name", "argument"), NUMBERS)
def test_what_is_no_number_is_refused(name, argument):
    taken = [kind for kind, value in NO_NUMBER.items() if not refused(name, **{argument: value})]
    assert not taken


@pytest.mark.parametrize(
    "steps",
    [
        (0,),
        pytest.param((1,), marks=pytest.mark.slow),
        pytest.param(range(2, len(METHODS)), marks=pytest.mark.study),
    ],
)
@pytest.mark.parametrize(("name", "argument"), NUMBERS)
def test_odd_numbers_are_refused_or_answered(name, argument, steps):
    """Each value by one method, in turn, by another one, and by all others."""
    for place, value in enumerate(ODD.values(), NUMBERS.index((name, argument))):
        for step in steps:
            method = METHODS[(place + step) % len(METHODS)]
            refused(name, **{argument: value}, method=method)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(*pair, marks=[pytest.mark.slow] * (pair in LONG))
        for pair in product(GOOD, METHODS)
    ],
)
def test_odd_mechanisms_are_refused_or_answered(name, method):
    # one pair of counts is enough where wide noise takes long
    alone = {"count1": 4, "nobs1": 9} if (name, method) == ("proportions_2indep", "exact") else {}
    for law in LAWS.values():
        refused(name, mechanism=law, method=method, **alone)
    assert not [kind for kind, law in NO_LAW.items() if not refused(name, mechanism=law)]


@pytest.mark.parametrize(("name", "argument"), SETTINGS)
def test_bad_settings_are_refused(name, argument):
    taken = [value for value in BAD_SETTINGS[argument] if not refused(name, **{argument: value})]
    assert not taken


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("chisquare", "f_obs", "f_exp"),
        ("counts_2indep", "count1", "count2"),
        ("counts_paired", "count1", "count2"),
        ("counts_trend", "count", "scores"),
        ("poisson_2indep", "count1", "exposure1"),
        ("poisson_ztest", "count", "exposure"),
        ("proportions_2indep", "count1", "nobs1"),
        ("proportions_trend", "count", "nobs"),
        ("proportions_ztest", "count", "nobs"),
    ],
)
@pytest.mark.parametrize("labels", ["cab", "abd", "aab"])
def test_labels_that_do_not_match_are_refused(name, first, second, labels):
    labelled = pd.Series(GOOD[name][first], index=list("abc"))
    assert not refused(name, **{first: labelled})
    other = pd.Series(GOOD[name][second], index=list(labels))
    # two columns of noisy values are aligned by their labels
    aligned = second == "count2" and labels == "cab"
    assert refused(name, **{first: labelled, second: other}) is not aligned


@pytest.mark.parametrize("argument", ["model", "statistic"])
@pytest.mark.parametrize("value", [None, "pearsn", 3.0, object(), [1, 2], np.nan])
def test_what_is_no_object_of_ours_is_refused(argument, value):
    assert refused("null_distribution", **{argument: value})
