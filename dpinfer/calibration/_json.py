"""Certificates as JSON."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any


def as_json(content: dict[str, Any]) -> str:
    """Return strict JSON that starts with the version: what is no finite number is null."""
    from dpinfer import __version__

    document = {"dpinfer": __version__, **_finite(content)}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value
