"""Every function takes numbers in the columns of any library, and gives what lists of them give."""

import warnings
from functools import cache
from itertools import islice

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
    """Names of functions, each with its arguments that are columns of numbers."""
    for name, arguments in VALID.items():
        found = {
            argument: value
            for argument, value in arguments.items()
            if argument not in PAIRS | NAMED and isinstance(value, list) and len(value) > 1
            if all(type(item) in (int, float) for item in value)
        }
        if found:
            yield name, found


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


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.study)])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_numbers(kind, each):
    """Every third function, others for the next kind, or all."""
    seen, compared = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpinfer.errors.DPInferWarning)
        for name, given in islice(columns(), list(KINDS).index(kind) % each, None, each):
            columns_of_kind = {argument: KINDS[kind](value) for argument, value in given.items()}
            found = numbers_of(public(name)(**VALID[name] | columns_of_kind))
            np.testing.assert_allclose(found, wanted_of(name), rtol=1e-12, err_msg=name)
            seen.append(name)
            compared += found.size > 0
    assert len(seen) > 60 / each
    assert compared > 40 / each
