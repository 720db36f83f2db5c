"""Arguments of the intervals for selected and clamped values, as a release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpinfer._interchange import as_table
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Mechanism
from dpinfer.releases import Release
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels


def as_release(
    count: Any, mechanism: Mechanism, *, threshold: Any = None, clamp: Any = None
) -> tuple[Release, tuple[int, ...], Any]:
    """Return values with their publishing rule, the shape in which they came, and their labels."""
    if isinstance(count, Release):
        raise InvalidParameterError(
            "count must be the published values, got a Release: use release_confint for it"
        )
    values, labels = split_labels(count, "count")
    if clamp is not None:
        ends = clamp if isinstance(clamp, (tuple, list)) else (clamp, None)
        clamp = tuple(_ravelled(end, "clamp", values.shape, labels) for end in ends)
    release = Release(
        values.ravel(),
        mechanism=mechanism,
        threshold=_ravelled(threshold, "threshold", values.shape, labels),
        clamp=clamp,
    )
    return release, values.shape, labels


def relabelled(intervals: Intervals, shape: tuple[int, ...], labels: Any) -> Intervals:
    """Return intervals in the shape of the values and under their labels."""
    return replace(
        intervals,
        estimate=np.reshape(intervals.estimate, shape),
        lower=np.reshape(intervals.lower, shape),
        upper=np.reshape(intervals.upper, shape),
        labels=labels,
    )


def _ravelled(bound: Any, name: str, shape: tuple[int, ...], labels: Any) -> Any:
    """Return a bound in the order of the values; its labels, if any, have to be theirs."""
    bound = as_table(bound, name)
    if hasattr(bound, "index") and hasattr(bound, "to_numpy"):
        if labels is not None and not bound.index.equals(labels):
            raise InvalidParameterError(
                f"{name} must have the labels of count in the same order: reindex it first"
            )
        bound = bound.to_numpy()
    nested = getattr(bound, "shape", ()) == shape and len(shape) > 1
    return bound.ravel() if nested else bound
