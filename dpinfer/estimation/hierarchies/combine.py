"""Combined estimates of all units of a hierarchy, in time linear in their number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_length, check_option, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation.hierarchies._fit import HierarchyFit, in_tree
from dpinfer.estimation.hierarchies._measured import Measured
from dpinfer.estimation.hierarchies._passes import Gains
from dpinfer.estimation.hierarchies.estimate import HierarchyEstimate
from dpinfer.mechanisms import NoiseLaw
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.queries import Hierarchy
from dpinfer.results.labels import split_labels

_CONTRADICTION = 1e-9
"""Difference, relative to the size of the values, up to which exact values agree."""

_LARGEST = 1e100
_SMALLEST = 1e-100
"""Beyond these, sums and quotients of values and variances leave the range of float64."""


def combine_hierarchy(
    values: Any,
    parent: Any = None,
    *,
    mechanism: Mechanism,
    units: Any = None,
    not_exhausted: Any = (),
    unestimable: str = "raise",
) -> HierarchyEstimate:
    """Estimate every unit of a hierarchy from all noisy values of all units.

    Parameters
    ----------
    values : Series, or array of float, shape (m,)
        Published values. A Series has the labels of the units that its values measure: units may
        be missing, or be there several times. An array has a value for each unit, or for each of
        ``units``. A frame of polars or pyarrow has labels in the columns that hold no numbers.
    parent : Hierarchy, Series, mapping, or array of int, shape (n,)
        The hierarchy, or the parent of each unit, as :class:`~dpinfer.queries.Hierarchy` takes it.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each. ``Exact()`` for values that were
        published without noise.
    units : list or array, optional
        The unit that each value measures: labels, or positions where units have no labels.
    not_exhausted : label, iterable of labels, or True; default ()
        Units to which their children do not add up, because some are not here. For a ``parent``
        that is not a Hierarchy, which has its own.
    unestimable : {"raise", "nan"}
        What to do about units of which the values say nothing: refuse, naming them, or estimate
        the others and give these NaN with an infinite standard error.

    Returns
    -------
    HierarchyEstimate
        An estimate with its variance for every unit.

    Raises
    ------
    NotEstimableError
        If the values do not determine a unit, unless ``unestimable`` is "nan".
    IncompatibleReleaseError
        If values published without noise contradict one another.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The estimates are the best linear unbiased ones, those of generalised least squares on all
    values, with exact variances. Up: the estimates of the children of a unit, from what is
    measured below, add up to s with variance S. With the unit's own value m of variance v, they
    merge to s + k(m - s) with k = S/(S + v). Down: each child takes the share r = u/S of its
    parent's correction, u being its own variance; from w of the parent it then has the variance
    u(1 - r) + r² w. Both passes are linear in the number of units. No variance is estimated from
    the values, and nothing is rounded or clipped.

    References
    ----------
    Hay, M., Rastogi, V., Miklau, G. and Suciu, D. (2010). Boosting the accuracy of differentially
    private histograms through consistency. arXiv:0904.0942, Theorem 3, for equal variances and
    complete trees.

    Chou, K. C., Willsky, A. S. and Benveniste, A. (1994). Multiscale recursive estimation, data
    fusion, and regularization. doi:10.1109/9.280746, for the two passes.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import pandas as pd
    >>> parent = pd.Series({"state": None, "north": "state", "south": "state"})
    >>> published = pd.Series({"state": 106.3, "north": 60.9, "south": 39.3})
    >>> fit = dpi.combine_hierarchy(published, parent, mechanism=dpi.Laplace(scale=2.0))
    >>> fit.params
    state    104.266667
    north     62.933333
    south     41.333333
    dtype: float64
    >>> (fit.bse**2).round(6)
    state    5.333333
    north    5.333333
    south    5.333333
    dtype: float64
    """
    hierarchy = _as_hierarchy(parent, not_exhausted)
    array, unit = _placed_values(values, units, hierarchy)
    noise = as_noise(mechanism, array.size)
    warn_of_rounding(array, noise, "values")
    variance = _variances(noise, array.size)
    check_variance(variance)
    measured, merged = Measured.of(unit, variance, len(hierarchy))
    measured.refuse_contradiction(array, variance, hierarchy)
    gains = Gains.of(hierarchy.tree, in_tree(hierarchy, merged, np.inf), overwrite=True)
    fit = HierarchyFit(
        hierarchy=hierarchy, values=array, mechanism=noise, measured=measured, gains=gains
    )
    _refuse_contradiction(fit)
    found = HierarchyEstimate(_fit=fit)
    if check_option(unestimable, "unestimable", ("raise", "nan")) == "raise":
        found.refuse_unknown()
    return found


def _as_hierarchy(parent: Any, not_exhausted: Any) -> Hierarchy:
    if not isinstance(parent, Hierarchy):
        if parent is None:
            raise InvalidParameterError(
                "parent must be given: the parent of each unit, or a Hierarchy"
            )
        return Hierarchy(parent, not_exhausted=not_exhausted)
    if not (isinstance(not_exhausted, tuple) and not not_exhausted):
        raise InvalidParameterError(
            "not_exhausted must be left out where parent is a Hierarchy, which has its own, got "
            f"{show(not_exhausted)}"
        )
    return parent


def _placed_values(
    values: Any, units: Any, hierarchy: Hierarchy
) -> tuple[FloatArray, NDArray[np.intp] | None]:
    """Return the values, and the position of the unit of each; None where they are in order."""
    array, labels = split_labels(values, "values", ge=-_LARGEST, le=_LARGEST)
    if array.ndim != 1:
        raise InvalidParameterError(f"values must be one-dimensional, got shape {array.shape}")
    if units is None and labels is not None and hierarchy.labels is not None:
        if labels.equals(hierarchy.labels):
            return array, None
        units = labels
    if units is None:
        check_length(array, "values", len(hierarchy), "units in the hierarchy")
        return array, None
    at = hierarchy.positions(units, "values" if units is labels else "units")
    check_length(at, "units", array.size, "values")
    return array, at


def _variances(noise: NoiseLaw, size: int) -> FloatArray:
    """Return the variance of the noise of each value, in an array that may be written into."""
    # a law gives out a new array each time, or none that could be written into
    found = np.asarray(noise.variance, dtype=np.float64)
    return found if found.flags.writeable and found.shape else np.full(size, found)


def check_variance(variance: FloatArray) -> None:
    """Refuse variances of noise for which sums and quotients leave the range of float64."""
    if variance.min() >= _SMALLEST and variance.max() <= _LARGEST:
        return
    outside = (variance > 0.0) & ((variance < _SMALLEST) | (variance > _LARGEST))
    if outside.any():
        raise InvalidParameterError(
            f"mechanism must have variances of 0 or from {_SMALLEST:g} to {_LARGEST:g}, got "
            f"{variance[outside][0]:g}"
        )


def _refuse_contradiction(fit: HierarchyFit) -> None:
    """Refuse a unit and its children that are all known exactly and do not add up."""
    tree = fit.hierarchy.tree
    if all((merger.own + merger.total).min() > 0.0 for merger in fit.gains.mergers):
        return
    size = np.maximum(np.abs(fit.values).max(), 1.0)
    wrong = [
        places[(variance == 0.0) & (np.abs(difference) > _CONTRADICTION * size)]
        for places, difference, variance in fit.innovations(fit.values)
    ]
    found = np.concatenate(wrong)
    if found.size:
        raise IncompatibleReleaseError(
            "values published without noise must add up, but children do not add up to "
            f"{fit.hierarchy.names(found if tree.order is None else tree.order[found])}; name a "
            "unit whose children are not all here in not_exhausted"
        )
