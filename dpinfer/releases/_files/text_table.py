"""A table of which every cell is text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpinfer.releases.problems import Problem

MOST_TEXT = 2**24
"""Bytes of a table that are looked at as text, of which objects take many times as much."""


@dataclass(frozen=True)
class TextTable:
    """The columns of a table as text, for finding what is wrong with it.

    ``columns`` holds object arrays of strings with None in empty cells, ``lines`` the line of
    each row, ``problems`` the rows that are not rows of the table. Of a long table only the first
    rows are here.
    """

    columns: Mapping[str, Any]
    lines: Any
    problems: list[Problem]
