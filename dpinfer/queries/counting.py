"""Integer noise goes with integer-valued queries only."""

from __future__ import annotations

import numpy as np

from dpinfer.errors import IncompatibleReleaseError
from dpinfer.mechanisms import Exact, NoiseLaw, Rounded, groups
from dpinfer.queries.domain import show_label
from dpinfer.queries.workload import Workload


def check_counting(workload: Workload, mechanism: NoiseLaw) -> None:
    """Refuse integer noise on queries whose answers need not be whole numbers.

    Parameters
    ----------
    workload : Workload
        The queries, m of them.
    mechanism : NoiseLaw
        The noise, one law for all queries or one for each.

    Raises
    ------
    IncompatibleReleaseError
        If a query with a fractional coefficient carries integer noise.

    Notes
    -----
    If neighbouring databases have answers that differ by less than one, adding whole numbers to
    them gives outputs with disjoint supports: the output says which database it was, at any scale
    of the noise. The geometric mechanism of Ghosh, Roughgarden and Sundararajan (2012,
    doi:10.1137/09076828X) and the discrete Gaussian of Canonne, Kamath and Steinke (2020,
    doi:10.48550/arXiv.2004.00010) are defined for integer-valued queries.
    """
    if workload.is_integer or not mechanism_has_integers(mechanism):
        return
    fractional = ~workload.integer_rows()
    for law, cells in groups(mechanism, len(workload)):
        if law.is_integer and not isinstance(law, Exact) and (bad := fractional[cells]).any():
            row = int(cells[np.flatnonzero(bad)[0]])
            label = "" if workload.labels is None else f" ({show_label(workload.labels[row])})"
            if isinstance(law, Rounded):
                raise IncompatibleReleaseError(
                    "Rounded noise must be that of integer-valued queries, got a query with "
                    f"fractional coefficients in row {row}{label}: the error of a rounded fraction "
                    "depends on the fraction; give the law before rounding, and widen intervals by "
                    "1/2 on either side"
                )
            raise IncompatibleReleaseError(
                f"{type(law).__name__} noise must be added to integer-valued queries, got a "
                f"query with fractional coefficients in row {row}{label}: neighbouring databases "
                "would give outputs with disjoint supports, which is not private; use continuous "
                "noise or whole coefficients"
            )


def mechanism_has_integers(mechanism: NoiseLaw) -> bool:
    """Whether some of the noises take whole numbers only."""
    size = mechanism.shape[0] if mechanism.shape else 1
    return any(law.is_integer for law, _ in groups(mechanism, size))
