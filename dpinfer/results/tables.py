"""Plain-text tables in the style of statsmodels summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_ROWS = 60
"""A body longer than this shows only its first and last rows."""

_WIDTH = 72
_GAP = 2


def render_table(
    title: str,
    header: Sequence[tuple[str, object]] = (),
    columns: Mapping[str, Any] | None = None,
    *,
    index: Any = None,
    notes: Sequence[str] = (),
) -> str:
    """Return a plain-text table: title, pairs of facts, a body of columns, notes.

    Parameters
    ----------
    title : str
        Centred on the first line.
    header : sequence of (str, object)
        Facts about the whole result, printed as ``name: value``, two on a line where they fit.
    columns : mapping of str to sequence, optional
        The body, column by column, all of one length. Numbers are formatted by column; strings
        are printed as they are. A body of more than 60 rows shows its first and last 30.
    index : sequence, optional
        A label for each row of the body; the parts of a tuple are joined with commas.
    notes : sequence of str
        Remarks below the table, one on a line.

    Returns
    -------
    str
        The table, without a trailing newline and without a timestamp.

    Examples
    --------
    >>> print(render_table("Counts", [("Method", "exact"), ("Values", 2)],
    ...                    {"estimate": [3.5, 12], "lower": [1, 9.25]}, index=["a", "b"]))
                                     Counts
    ========================================================================
    Method:                      exact    Values:                          2
    ========================================================================
                                                             estimate  lower
    ------------------------------------------------------------------------
    a                                                            3.50  1.000
    b                                                           12.00  9.250
    ========================================================================
    """
    body = _cells(columns, index) if columns else []
    widths = [max(map(len, cells)) for cells in zip(*body, strict=True)]
    width = max(_WIDTH, len(title), sum(widths) + _GAP * (len(widths) - 1))
    lines = [title.center(width).rstrip(), "=" * width]
    if header:
        lines += [*_facts(header, width), "=" * width]
    if body:
        widths[0] += width - sum(widths) - _GAP * (len(widths) - 1)
        names, *rows = (_join(row, widths, index is not None) for row in body)
        lines += [names, "-" * width, *rows, "=" * width]
    if notes:
        lines += ["Notes:", *(f"  {note}" for note in notes)]
    return "\n".join(lines)


def format_numbers(values: NDArray[Any]) -> list[str]:
    """Return numbers as strings with as many decimals as the column needs, the same in each."""
    numbers = np.asarray(values)
    if numbers.dtype.kind in "biu":
        return [str(number) for number in numbers]
    size = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)], dtype=np.float64)
    largest, smallest = (size.max(), size.min()) if size.size else (1.0, 1.0)
    if largest >= 1e12 or largest < 1e-3:
        return [f"{number:.4e}" for number in numbers]
    decimals = int(np.clip(3 - np.floor(np.log10(largest)), 2, 6))
    decimals = max(decimals, int(np.clip(-np.floor(np.log10(smallest)), 0, 4)))
    return [f"{number:.{decimals}f}" for number in numbers]


def _cells(columns: Mapping[str, Any], index: Any) -> list[list[str]]:
    """Return the body as rows of strings, the names of the columns first."""
    length = len(next(iter(columns.values())))
    shown, gap = np.arange(length), None
    if length > MAX_ROWS:
        gap = MAX_ROWS // 2
        shown = np.r_[:gap, length - gap : length]
    printed = [[name, *_column(values, shown)] for name, values in columns.items()]
    if index is not None:
        printed.insert(0, ["", *(_label(index[int(row)]) for row in shown)])
    rows = [list(row) for row in zip(*printed, strict=True)]
    if gap is not None:
        rows.insert(gap + 1, ["..."] * len(printed))
    return rows


def _column(values: Any, shown: NDArray[np.intp]) -> list[str]:
    """Return the shown entries of a column as strings."""
    array = np.asarray(values)[shown]
    if array.dtype.kind in "iuf":
        return format_numbers(array)
    return [str(value) for value in array]


def _label(label: object) -> str:
    """Return a row label as a string; the parts of a tuple are joined with commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _join(row: Sequence[str], widths: Sequence[int], labelled: bool) -> str:
    """Return a row of cells as a line: labels to the left, everything else to the right."""
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    if labelled:
        cells[0] = row[0].ljust(widths[0])
    return (" " * _GAP).join(cells).rstrip()


def _facts(header: Sequence[tuple[str, object]], width: int) -> Iterator[str]:
    """Yield the facts as lines, two on a line where both fit in half of it."""
    half = (width - 4) // 2
    waiting: str | None = None
    for name, value in header:
        fact = _fact(name, str(value), half)
        if len(fact) > half:
            if waiting is not None:
                yield waiting
                waiting = None
            yield _fact(name, str(value), width)
        elif waiting is None:
            waiting = fact
        else:
            yield f"{waiting}    {fact}"
            waiting = None
    if waiting is not None:
        yield waiting


def _fact(name: str, value: str, width: int) -> str:
    """Return one fact, its value pushed to the right."""
    return f"{name}: " + value.rjust(width - len(name) - 2)
