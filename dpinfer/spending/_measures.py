"""Measures of the error of what was published, and how far one record can move them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpinfer._validation import FloatArray, Neighbours
from dpinfer.errors import InvalidParameterError
from dpinfer.queries import Workload, l1_sensitivity, l2_sensitivity

Measure = Literal["signed", "l1", "squared"]


@dataclass(frozen=True)
class ErrorMeasure:
    """What is published about the k errors: truth minus published.

    ``reduce(errors, clip)`` gives it; ``factor(clip)`` is how far it moves, at most, where one
    value moves by one. A vector of errors keeps its shape, other measures are one number.
    """

    title: str
    vector: bool
    reduce: Callable[[FloatArray, float], FloatArray]
    factor: Callable[[float], float]

    def sensitivity(
        self, workload: Workload | None, size: int, neighbours: Neighbours, clip: float, order: int
    ) -> float:
        """Return the sensitivity: that in the L2 norm where ``order`` is 2 and it is a vector."""
        norm = order if self.vector else 1
        if workload is None:
            # a record is counted in one of the values, and may change from one to another
            moved = 2 if neighbours == "replace" and size > 1 else 1
            return self.factor(clip) * (1.0 if moved == 1 else 2.0 ** (1.0 / norm))
        return self.factor(clip) * (l1_sensitivity, l2_sensitivity)[norm - 1](workload, neighbours)


def check_workload(workload: Any, size: int, measure: Measure) -> Workload | None:
    """Return the queries that the values answer, one for each, if they are given."""
    if workload is None:
        return None
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if len(queries) != size:
        raise InvalidParameterError(
            f"workload must have a row for each of the {size} values, got {len(queries)}"
        )
    if measure == "squared" and not queries.is_integer:
        raise InvalidParameterError(
            "workload must have whole-number coefficients for measure='squared', whose sensitivity "
            "is that of steps of one"
        )
    return queries


def _squared(errors: FloatArray, clip: float) -> FloatArray:
    return np.asarray(np.square(np.minimum(np.abs(errors), clip)).sum())


def _squared_factor(clip: float) -> float:
    """Return max over e of g(e + 1) - g(e), with g(e) = min(|e|, C)².

    g grows fastest just below C: C² - (C - 1)² for C >= 1, and from 0 to C² for smaller C.
    """
    return 2.0 * clip - 1.0 if clip >= 1.0 else clip * clip


MEASURES: dict[Measure, ErrorMeasure] = {
    "signed": ErrorMeasure("Signed error", True, lambda errors, _: errors, lambda _: 1.0),
    "l1": ErrorMeasure(
        "L1 error", False, lambda errors, _: np.asarray(np.abs(errors).sum()), lambda _: 1.0
    ),
    "squared": ErrorMeasure("Clipped squared error", False, _squared, _squared_factor),
}
