"""How far the answers to a workload can move when one record changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import (
    NEIGHBOURS,
    Neighbours,
    check_integer,
    check_option,
    check_scalar,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.queries._columns import column_norms, largest_distance
from dpinfer.queries.workload import Workload


def l1_sensitivity(workload: Workload | ArrayLike, neighbours: Neighbours = "add-remove") -> float:
    """L1 sensitivity of a workload: the largest ‖A x - A x'‖₁ over neighbouring histograms.

    Parameters
    ----------
    workload : Workload or matrix, shape (m, n)
        The queries.
    neighbours : {"add-remove", "replace"}
        ``"add-remove"``: one record more or less. ``"replace"``: one record changes its cell.

    Returns
    -------
    float
        The sensitivity, in units of the answers. With a single cell it is 0 under ``"replace"``.

    Raises
    ------
    InvalidParameterError
        If ``neighbours`` is unknown, or the matrix or the sensitivity is not finite.

    Notes
    -----
    Under add-remove it is the largest ‖aⱼ‖₁ over the columns aⱼ of A (Dwork and Roth 2014,
    Definition 3.1, doi:10.1561/0400000042); under replace the largest ‖aᵢ - aⱼ‖₁ over pairs.
    Pairs of distinct columns are visited in falling order of the bound ‖aᵢ‖ + ‖aⱼ‖, queries that
    are the same for every cell left out, until no bound exceeds the best distance. For workloads
    of marginals the bound is attained and the cost is linear in the number of entries; in the
    worst case it is quadratic in the number of distinct columns.

    Examples
    --------
    >>> l1_sensitivity([[1, 0], [0, 1], [1, 1]])
    2.0
    >>> l1_sensitivity([[1, 0], [0, 1], [1, 1]], neighbours="replace")
    2.0
    """
    return _sensitivity(workload, neighbours, 1)


def l2_sensitivity(workload: Workload | ArrayLike, neighbours: Neighbours = "add-remove") -> float:
    """L2 sensitivity of a workload: the largest ‖A x - A x'‖₂ over neighbouring histograms.

    Parameters
    ----------
    workload : Workload or matrix, shape (m, n)
        The queries.
    neighbours : {"add-remove", "replace"}
        ``"add-remove"``: one record more or less. ``"replace"``: one record changes its cell.

    Returns
    -------
    float
        The sensitivity, in units of the answers. With a single cell it is 0 under ``"replace"``.

    Raises
    ------
    InvalidParameterError
        If ``neighbours`` is unknown, or the matrix or the sensitivity is not finite.

    Notes
    -----
    As :func:`l1_sensitivity`, with Euclidean norms (Dwork and Roth 2014, Definition 3.8).

    Examples
    --------
    >>> round(l2_sensitivity([[1, 0], [0, 1], [1, 1]]), 12)
    1.414213562373
    """
    return _sensitivity(workload, neighbours, 2)


def clipped_mean_sensitivity(lower: float, upper: float, n: int) -> float:
    """Sensitivity of the mean of n records clipped to [lower, upper], when one is replaced.

    Parameters
    ----------
    lower, upper : float
        The clipping bounds, in units of the record.
    n : int
        The number of records, which is public, so that neighbours replace a record.

    Returns
    -------
    float
        (upper - lower) / n.

    Raises
    ------
    InvalidParameterError
        If a bound is infinite: one record could then move the mean by any amount.

    Examples
    --------
    >>> clipped_mean_sensitivity(0, 100, n=50)
    2.0
    """
    size = check_integer(n, "n", ge=1, le=2**63)
    low = check_scalar(lower, "lower", finite=False)
    high = check_scalar(upper, "upper", finite=False)
    if np.isinf(low) or np.isinf(high):
        raise InvalidParameterError(
            f"lower and upper must be finite, got {low} and {high}: the mean of unclipped records "
            "has infinite sensitivity, so no finite noise makes it private; clip the records"
        )
    if low >= high:
        raise InvalidParameterError(f"upper must be > lower = {low}, got {high}")
    width = high - low
    if np.isinf(width):
        raise InvalidParameterError(
            f"upper - lower must be at most 1.8e308, the range of float64, got {low} and {high}"
        )
    return width / size


def _sensitivity(workload: Any, neighbours: Neighbours, order: int) -> float:
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if queries.is_identity:
        several = queries.shape[1] > 1
        return 1.0 if relation == "add-remove" else 2.0 ** (1 / order) if several else 0.0
    with np.errstate(over="ignore"):
        if relation == "add-remove":
            found = float(column_norms(queries.matrix, order).max())
        else:
            found = largest_distance(queries.matrix, order)
    if np.isinf(found):
        raise InvalidParameterError(
            "workload must have a sensitivity of at most 1.8e308, the range of float64: rescale it"
        )
    return found
