"""The mechanisms of two samples, from one law for both or a pair."""

from __future__ import annotations

from typing import Any

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
