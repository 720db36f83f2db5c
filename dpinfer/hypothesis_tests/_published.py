"""Checks of what was published with noise: the laws of two samples, and totals."""

from __future__ import annotations

from typing import Any

from dpinfer._validation import check_flag
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import as_noise


def law_pair(mechanism: Any, size: int, name: str) -> tuple[Any, Any]:
    """Return the laws of both samples, from one for both or a pair."""
    if isinstance(mechanism, (list, tuple)):
        if len(mechanism) != 2:
            raise InvalidParameterError(
                f"{name} must be one noise law for both samples, or a pair, got {len(mechanism)}"
            )
        return as_noise(mechanism[0], size, name=name), as_noise(mechanism[1], size, name=name)
    law = as_noise(mechanism, size, name=name)
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
