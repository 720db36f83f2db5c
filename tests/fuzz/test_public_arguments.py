"""Hostile values in every argument of every public callable: one clear error, or a sound answer."""

import inspect
import signal
import sys
import warnings
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from itertools import count, cycle, islice
from tempfile import mkdtemp

import numpy as np
import pandas as pd
import pytest
from public_names import documented, public, public_names
from valid_below import BELOW, CALLS_BELOW, MADE_BELOW
from valid_calls import SEX, VALID, top_part
from valid_methods import METHODS

import dpinfer
from dpinfer import DPInferError

SECONDS = 20
"""Of processor time that one call may take at most; refusals take milliseconds."""

HOSTILE = {
    "NaN": np.nan,
    "infinity": np.inf,
    "minus infinity": -np.inf,
    "minus one": -1,
    "zero": 0,
    "one": 1,
    "half": 0.5,
    "minus half": -0.5,
    "beyond float": 10**400,
    "minus beyond float": -(10**400),
    "digits beyond text": 10**5000,
    "beyond int64": 2**63,
    "large": 10**15,
    "huge": 1e300,
    "tiny": 1e-300,
    "smallest": 5e-324,
    "below one": 1 - 1e-9,
    "complex": 1 + 2j,
    "text": "1",
    "no text": "",
    "zero byte": "a\0b",
    "half a character": "\ud800",
    "bytes": b"1",
    "nothing": None,
    "true": True,
    "false": False,
    "decimal NaN": Decimal("NaN"),
    "span": timedelta(1),
    "NumPy span": np.timedelta64(1, "s"),
    "missing": pd.NA,
    "object": object(),
    "class": float,
    "function": print,
    "empty": [],
    "empty array": np.empty((0, 3)),
    "object array": np.array([1, None, "a"], dtype=object),
    "array of NaN": np.full(3, np.nan),
    "seven": np.arange(1.0, 8.0),
    "negative": [-1.0, -5.0, -7.0],
    "zeros": [0.0, 0.0, 0.0],
    "ragged": [[1, 2], [3]],
    "deep": np.ones((2, 2, 2, 2)),
    "texts": ["a", "b"],
    "dict": {"a": 1},
    "set": {1.0, 2.0},
    "series of nothing": pd.Series([], dtype=float),
    "frame of text": pd.DataFrame({"a": ["x", "y"]}),
    "endless": float("1e400"),
}

RESULTS = set(
    """
    AdjustedTests Amplification AmplifiedCurve AmplifiedDP AssociationFit BoundedIntervals
    BudgetSplit
    ClippedEstimate
    CombinedEstimate ComposedDP ConfidenceSets CorrectedEstimate CountPosterior CredibleIntervals
    DifferenceAudit ErrorEstimate FrozenDensity FrozenMass FrozenNoise
    FunctionEstimate FunctionPosterior GeneralizationBound HierarchyEstimate HypothesisResult
    IdentifiedBounds
    IndexIntervals Intervals LedgerEntry LinearEstimate LocalLevel LoglinearFit MarginalsEstimate
    MembershipAudit MomentsRegression MultiplicativeWeightsRelease NoisyGLM NoisyRegression
    NoisyValues PairLoss PooledEstimate PosteriorBounds PrivacyLoss PrivateMeanInterval Problem
    ProcessingError QuantileSets Ranking RatioEstimate ReconstructionAudit ReleasePlan RenyiCurve
    RepeatedDP ReplicateIntervals ResponseEstimate SampleAdjustment SecretPosterior Selection
    SizeStudy SmallAreaEstimates SmoothSensitivity SpendingComparison StrategyComparison
    StreamedMarginals SurveyEstimate SurvivalCurve TableContrast
    TablePosterior
    ThresholdedRegression Usefulness
    """.split()  # noqa: SIM905
)
"""Made by the library; what they are made of has been checked before."""

PROTOCOLS = {"NoiseLaw", "Guarantee"}

FUNCTIONS = {"logpmf", "load", "model", "statistic"}
FUNCTIONS |= {"unbiased.function", "function_confint.function"}
FUNCTIONS |= {"replicate.function", "replicate_confint.function"} | {
    f"dpinfer.calibration.{name}"
    for name in (
        "certify_interval.beside",
        "certify_interval.interval",
        "certify_interval.target",
        "certify_test.beside",
        "certify_test.test",
    )
}
"""Arguments that may be functions of the caller, whose own errors pass through."""

NEED_FILES = {"census_parts", "read_marginals_parquet"}

NEED_OBJECTS = {
    f"dpinfer.releases.adapters.{name}"
    for name in ("from_dp_event", "from_smartnoise", "smartnoise_laws")
}
if find_spec("geopandas") is None:
    NEED_OBJECTS.add("dpinfer.plotting.plot_map")
"""What takes an object of another library, which is not there."""

USES = {
    "NoisyMarginal": lambda one: dpinfer.combine_marginals([one], [-1, 0], domain=SEX),
    "StructuralZeros": lambda one: dpinfer.combine_marginals(
        top_part()[1], top_part()[0], domain=SEX, zeros=one
    ),
    "dpinfer.releases.census.read_census_rows": list,
    "TreePart": lambda one: dpinfer.estimation.stream_marginals(
        {"top": one}, mkdtemp(), domain=SEX
    ),
}
"""What is only checked where it is used."""

CALLS = {name: (public(name), arguments) for name, arguments in VALID.items()} | METHODS | BELOW
ARGUMENTS = [(name, argument) for name, (_, arguments) in CALLS.items() for argument in arguments]


def as_it_is(result):
    """Return the result."""
    return result


@contextmanager
def limited(seconds):
    """Raise when the block takes more processor time, which other programs do not lengthen."""

    def stop(*_):
        raise AssertionError(f"took more than {seconds} seconds of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def has_nan(value, depth=0):
    """Whether a number in a result is NaN: fields of its class and items of its containers."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, (np.ndarray, pd.Series, pd.Index)):
        return value.dtype.kind == "f" and bool(np.isnan(np.asarray(value)).any())
    if isinstance(value, pd.DataFrame):
        return any(has_nan(column) for _, column in value.items())
    if isinstance(value, (tuple, list)):
        return depth < 3 and any(has_nan(item, depth + 1) for item in value[:100])
    if is_dataclass(value) and not isinstance(value, type):
        shown = [one.name for one in fields(value) if one.name[0] != "_" and one.name != "name"]
        return depth < 2 and any(has_nan(getattr(value, name), depth + 1) for name in shown)
    return False


def complaint(name, argument, kind):
    """Return what is wrong with the outcome of a call with one hostile argument, or None."""
    call, arguments = CALLS[name]
    try:
        with warnings.catch_warnings(), limited(SECONDS):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", dpinfer.DPInferWarning)
            result = USES.get(name, as_it_is)(call(**arguments | {argument: HOSTILE[kind]}))
            if kind != "digits beyond text":  # which Python itself does not write
                repr(result)
    except DPInferError as error:
        message = str(error)
        sound = "\n" not in message and 10 < len(message) < 1500
        return None if sound else f"{kind}: the message {message!r}"
    except Exception as error:
        return f"{kind}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        forget_pictures()
    if has_nan(result):
        return f"{kind}: the result {result!r} has NaN"
    return None


def complaints(name, argument, kinds):
    """Return what is wrong with the outcomes of several hostile values."""
    if not FUNCTIONS.isdisjoint((argument, f"{name}.{argument}")):
        kinds = [kind for kind in kinds if not callable(HOSTILE[kind])]
    found = [complaint(name, argument, kind) for kind in kinds]
    return [words for words in found if words is not None]


def forget_pictures():
    """Close all figures, of which a program may have opened only a few."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_public_callable_has_a_valid_call():
    below = {name.rpartition(".")[2] for name in [*BELOW, *MADE_BELOW]} - set(VALID)
    offered = {name for name in public_names() if name in documented() and name not in below}
    kinds = {name: public(name) for name in offered if callable(public(name))}
    raised = {n for n, o in kinds.items() if inspect.isclass(o) and issubclass(o, BaseException)}
    assert set(kinds) - raised - RESULTS - PROTOCOLS == set(VALID)


@pytest.mark.parametrize("module", CALLS_BELOW)
def test_every_public_function_below_has_a_valid_call(module):
    there = import_module(module)
    made = {name for name in there.__all__ if callable(getattr(there, name))}
    kept = {name for name in made if f"{module}.{name}" not in MADE_BELOW}
    assert kept == set(CALLS_BELOW[module])


@pytest.mark.parametrize("name", [*VALID, *BELOW])
def test_every_argument_of_a_valid_call_is_there(name):
    call, arguments = CALLS[name]
    wanted = {
        name
        for name, one in inspect.signature(call).parameters.items()
        if one.kind != one.VAR_KEYWORD
    }
    assert wanted == set(arguments)


@pytest.mark.filterwarnings("ignore::dpinfer.DPInferWarning")
@pytest.mark.parametrize("name", [name for name in CALLS if name not in NEED_FILES | NEED_OBJECTS])
def test_valid_calls_are_answered(name):
    call, arguments = CALLS[name]
    assert not has_nan(call(**arguments))
    forget_pictures()


@pytest.mark.parametrize("name", CALLS)
def test_some_hostile_values(name):
    """Two values for each argument, other ones for the next; all of them in the tests below."""
    found = {
        argument: complaints(name, argument, islice(cycle(HOSTILE), start, start + 2))
        for start, argument in zip(count(5 * len(name) + 2, 2), CALLS[name][1], strict=False)
    }
    assert not {argument: words for argument, words in found.items() if words}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(0, marks=pytest.mark.slow),
        *(pytest.param(part, marks=pytest.mark.study) for part in range(1, 8)),
    ],
)
@pytest.mark.parametrize("name", CALLS)
def test_all_hostile_values(name, part):
    """Every eighth value for an argument and the next ones for the next; the rest in the study."""
    found = {
        argument: complaints(name, argument, islice(HOSTILE, start % 8, None, 8))
        for start, argument in zip(count(len(name) + part), CALLS[name][1], strict=False)
    }
    assert not {argument: words for argument, words in found.items() if words}
