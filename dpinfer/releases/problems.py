"""What is wrong with a published file: where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpinfer._validation import one_line
from dpinfer.errors import IncompatibleReleaseError


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a release's file or its sidecar.

    Attributes
    ----------
    file : str
        Name of the file.
    message : str
        What is wrong.
    line : int or None
        Line of the file, counted from 1 with the header of a table as line 1; for a Parquet file
        the number of the row, counted from 1.
    field : str or None
        The column of the table, or the place in the sidecar.

    Examples
    --------
    >>> print(Problem("counts.csv", "must be a finite number, got 'x'", 3, "column value"))
    counts.csv, line 3, column value: must be a finite number, got 'x'
    """

    file: str
    message: str
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        field = "" if self.field is None else f", {self.field}"
        return one_line(f"{self.file}{line}{field}: {self.message}", most=1000)


def raise_first(problems: Sequence[Problem]) -> None:
    """Raise the first problem, if there is one, and say how many more there are."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise IncompatibleReleaseError(f"{problems[0]}{more}")
