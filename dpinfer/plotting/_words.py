"""Words of the caller that stand in a picture."""

from __future__ import annotations

from dpinfer._validation import show
from dpinfer.errors import InvalidParameterError


def check_words(value: object, name: str) -> str:
    """Return a text, which other values do not become by themselves."""
    if not isinstance(value, str):
        raise InvalidParameterError(f"{name} must be a string, got {show(value)}")
    return value
