"""Checks of what was published with noise: the laws of two samples, and totals."""

from __future__ import annotations

from typing import Any

from dpinfer._validation import check_flag
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._shared import refuse_dependent, refuse_same
from dpinfer.mechanisms.independent import Dependence, as_noise


def law_pair(
    mechanism: Any, size: int, name: str, *, dependence: Dependence = "refused"
) -> tuple[Any, Any]:
    """Return the laws of both samples, from one for both or a pair."""
    if isinstance(mechanism, (list, tuple)):
        if len(mechanism) != 2:
            raise InvalidParameterError(
                f"{name} must be one noise law for both samples, or a pair, got {len(mechanism)}"
            )
        one, other = (as_noise(law, size, name=name, dependence=dependence) for law in mechanism)
        if dependence == "refused":
            refuse_dependent([one, other], name)
        return one, other
    law = as_noise(mechanism, size, name=name)
    refuse_same([law, law], name)
    return law, law


def checked_total(nobs_is_total: Any, nobs_mechanism: Any) -> bool:
    """Return whether the counts are summands of their numbers of trials; those have noise then."""
    is_total = check_flag(nobs_is_total, "nobs_is_total")
    if is_total and nobs_mechanism is None:
        raise InvalidParameterError(
            "nobs_mechanism must be given with nobs_is_total=True: the law of the noise of the "
            "other summands, Exact() where they have none"
        )
    return is_total
