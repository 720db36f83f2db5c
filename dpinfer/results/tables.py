"""Plain-text tables in the style of statsmodels summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

MAX_ROWS = 60
"""A body longer than this shows only its first and last rows."""

_ROUNDING = 1e-12
"""Numbers this small, relative to the largest beside them, are zero but for rounding."""

_ORDERS = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of characters that a line does not have."""

_WIDTH = 72
_GAP = 2


def render_table(
    title: str,
    header: Sequence[tuple[str, object]] = (),
    columns: Mapping[str, Any] | None = None,
    *,
    index: Any = None,
    notes: Sequence[str] = (),
    alike: Sequence[str] = (),
) -> str:
    """Return a plain-text table: title, pairs of facts, a body of columns, notes.

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
    body = _cells(columns, index, alike) if columns else []
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
        lines.append("Notes:")
        for note in notes:
            lines += wrap(note, width, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(map(_without_orders, lines))


def _without_orders(line: str) -> str:
    """Return a line in which control characters, which are orders to a terminal, are escaped."""
    if line.isprintable():
        return line
    return "".join(
        letter.encode("unicode_escape").decode() if category(letter) in _ORDERS else letter
        for letter in line
    )


def format_numbers(numbers: NDArray[Any], unit: NDArray[Any] | None = None) -> list[str]:
    """Return numbers as strings with as many decimals as all of ``unit`` needs, the same in each.

    By default ``unit`` is the numbers themselves.
    """
    if numbers.dtype.kind in "biu":
        return [str(number) for number in numbers]
    scale = numbers if unit is None else unit
    size = np.abs(scale[np.isfinite(scale) & (scale != 0)], dtype=np.float64)
    largest = size.max(initial=0.0) if size.size else 1.0
    smallest = size[size > _ROUNDING * largest].min(initial=largest)
    if largest >= 1e12 or largest < 1e-3:
        return [f"{number:.4e}" for number in numbers]
    decimals = int(np.clip(3 - np.floor(np.log10(largest)), 2, 6))
    decimals = max(decimals, int(np.clip(-np.floor(np.log10(smallest)), 0, 4)))
    # adding 0.0 turns -0.0 into 0.0
    return [f"{number:.{decimals}f}" for number in np.round(numbers, decimals) + 0.0]


def printed_pvalue(pvalue: float, error: float, digits: int) -> str:
    """Return a p-value with so many digits, as a bound where it is no larger than its error."""
    return f"< {error:.1g}" if 0.0 < pvalue <= error else f"{pvalue:.{digits}g}"


def printed_pvalues(pvalue: NDArray[Any], error: Any) -> NDArray[Any]:
    """Return p-values as a column to print, with bounds where they are no larger than errors."""
    errors = np.broadcast_to(np.asarray(error, dtype=np.float64), pvalue.shape)
    bounded = (errors > 0) & (pvalue <= errors)
    if not bounded.any():
        return pvalue
    known = iter(format_numbers(pvalue[~bounded]))
    return np.array(
        [
            f"< {least:.1g}" if at_bound else next(known)
            for least, at_bound in zip(errors, bounded, strict=True)
        ]
    )


def _cells(columns: Mapping[str, Any], index: Any, alike: Sequence[str]) -> list[list[str]]:
    """Return the body as rows of strings, the names of the columns first."""
    length = len(next(iter(columns.values())))
    shown, gap = np.arange(length), None
    if length > MAX_ROWS:
        gap = MAX_ROWS // 2
        shown = np.r_[:gap, length - gap : length]
    taken = {name: np.asarray(values)[shown] for name, values in columns.items()}
    shared = np.concatenate([taken[name] for name in alike if name in taken] or [np.empty(0)])
    printed = [
        [name, *_column(values, shared if name in alike else values)]
        for name, values in taken.items()
    ]
    if index is not None:
        names = [name for name in getattr(index, "names", ()) if name is not None]
        printed.insert(0, [_label(tuple(names)), *(_label(index[int(row)]) for row in shown)])
    rows = [list(row) for row in zip(*printed, strict=True)]
    if gap is not None:
        rows.insert(gap + 1, ["..."] * len(printed))
    return rows


def _column(values: NDArray[Any], unit: NDArray[Any]) -> list[str]:
    """Return the entries of a column as strings, numbers with the decimals that ``unit`` needs."""
    if values.dtype.kind in "iuf":
        return format_numbers(values, unit)
    return [str(value) for value in values]


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
