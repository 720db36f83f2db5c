"""Every function takes numbers in the columns of any library, and gives what lists of them give."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from public_names import public
from valid_calls import VALID

import dpinfer

NULLABLE = {"dtype_backend": "numpy_nullable"}


def of(library, function):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    return getattr(module, function)


KINDS = {
    "nullable": lambda numbers: pd.Series(numbers).convert_dtypes(**NULLABLE),
    "categorical": lambda numbers: pd.Series(numbers, dtype="category"),
    "polars": lambda numbers: of("polars", "Series")(numbers),
    "pyarrow": lambda numbers: of("pyarrow", "chunked_array")([numbers]),
    "xarray": lambda numbers: of("xarray", "DataArray")(numbers),
}

PAIRS = {"clamp", "bounds", "mean_bounds", "pair"}
NAMED = {"parent", "hierarchy", "shares"}
"""What is one thing of two parts, and what is labelled by other things than its positions."""


def columns():
    """Names of functions with their arguments that are columns of numbers."""
    for name, arguments in VALID.items():
        for argument, value in arguments.items():
            plain = isinstance(value, list) and len(value) > 1
            if plain and all(type(item) in (int, float) for item in value):
                yield name, argument


def numbers_of(result):
    """Numbers that say what a result is, as far as there are any."""
    if hasattr(result, "summary_frame"):
        result = result.summary_frame()
    if isinstance(result, pd.DataFrame):
        result = result.select_dtypes("number")
    try:
        return np.asarray(result, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return np.empty(0)


@cache
def wanted_of(name):
    return numbers_of(public(name)(**VALID[name]))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_numbers(kind):
    seen, compared = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpinfer.errors.DPInferWarning)
        for name, argument in columns():
            if argument in PAIRS | NAMED:
                continue
            function, arguments = public(name), VALID[name]
            column = KINDS[kind](list(arguments[argument]))
            wanted = wanted_of(name)
            found = numbers_of(function(**arguments | {argument: column}))
            np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=f"{name}: {argument}")
            seen.append(name)
            compared += wanted.size > 0
    assert len(seen) > 60
    assert compared > 40
