"""What is wrong with the cells of a table, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.releases._files.sidecar import Sidecar
from dpinfer.releases._files.text_table import TextTable
from dpinfer.releases._laws import (
    INTEGER_KINDS,
    KINDS,
    ROUNDED,
    canonical_kind,
    parameter_names,
    parameters_of_kind,
)
from dpinfer.releases.problems import Problem

EACH = 5
"""Cells that are listed for one rule on one column; the rest is counted."""

PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": lambda cell: {"true": True, "1": True, "false": False, "0": False}[cell.lower()],
}
"""How a label of each type is read."""

NUMBER = r"^\s*[+-]?(\d[\d.]*|\.\d+|(?i:inf|infinity|nan))(?i:e[+-]?\d+)?\s*$"

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class TableCheck:
    """A table, read as text, beside the sidecar that it should fit."""

    file: str
    table: TextTable
    sidecar: Sidecar
    _read: dict[str, FloatArray] = field(default_factory=dict, init=False, repr=False)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the file's form, then of its columns, then of their cells."""
        yield from self.table.problems
        missing = [name for name in self.sidecar.columns if name not in self.table.columns]
        for name in missing:
            listed = show_some(self.table.columns, 20)
            yield Problem(self.file, f"the column is missing, there are: {listed}", 1, name)
        if missing:
            return
        if not len(self.table.lines):
            yield Problem(self.file, "must have at least one row of values, got none")
            return
        yield from self._value_problems()
        yield from self._law_problems()
        yield from self._rule_problems()
        yield from self._key_problems()

    def _value_problems(self) -> Iterator[Problem]:
        name = self.sidecar.value
        values = self._floats(name)
        yield from self._cells(name, ~np.isfinite(values), "must be a finite number")

    def _law_problems(self) -> Iterator[Problem]:
        """Yield unknown names of laws, and parameters that the laws of their rows cannot have."""
        kinds, unknown = self._kinds()
        spec = self.sidecar.privacy["mechanism"]
        name = spec["column"] if isinstance(spec, dict) else self.sidecar.value
        yield from self._cells(name, unknown, "must be the name of a noise law")
        for parameter in parameter_names():
            need = [kind for kind in KINDS if parameters_of_kind(kind).get(parameter)]
            needed = np.isin(kinds, np.array(need, dtype=object))
            yield from self._parameter_problems(parameter, needed)
        values = self._floats(self.sidecar.value)
        lower, upper = self._bounds()
        fraction = np.isfinite(values) & (values != np.floor(values))
        rounded = self._numbers(self.sidecar.mechanism.get(ROUNDED), 0.0) == 1
        fraction &= (
            (np.isin(kinds, np.array(INTEGER_KINDS, dtype=object)) | rounded)
            & (values != lower)
            & (values != upper)
        )
        yield from self._cells(
            self.sidecar.value, fraction, "must be a whole number under integer noise"
        )

    def _parameter_problems(self, parameter: str, needed: Mask) -> Iterator[Problem]:
        """Yield what is wrong with a parameter in the rows whose law needs it."""
        spec = self.sidecar.mechanism.get(parameter)
        if spec is None:
            words = f"must have a law without a {parameter}, which the sidecar does not state"
            yield from self._cells(self.sidecar.value, needed, words)
        elif isinstance(spec, dict):
            numbers = self._floats(spec["column"])
            bad = needed & ~((numbers > 0) & np.isfinite(numbers))
            yield from self._cells(spec["column"], bad, f"must be a {parameter} > 0")

    def _rule_problems(self) -> Iterator[Problem]:
        """Yield values that the publishing rule excludes."""
        values = self._floats(self.sidecar.value)
        threshold = self._numbers(self.sidecar.privacy.get("threshold"), -np.inf)
        lower, upper = self._bounds()
        for bad, words in (
            (values < threshold, "must not be below its threshold"),
            (values < lower, "must not be below its clamping bound"),
            (values > upper, "must not be above its clamping bound"),
        ):
            yield from self._cells(self.sidecar.value, bad, words)
        bins = self._numbers(self.sidecar.privacy.get("bin_size"), 1.0)
        wrong = np.broadcast_to(~((bins >= 1) & (bins == np.floor(bins))), values.shape)
        yield from self._cells(
            self.sidecar.value, wrong, "must have a bin_size that is whole, >= 1"
        )
        for spec in self.sidecar.rule:
            if isinstance(spec, dict):
                cells = self.table.columns[spec["column"]]
                bad = np.isnan(self._floats(spec["column"])) & ~_empty(cells)
                yield from self._cells(spec["column"], bad, "must be a number or empty")

    def _key_problems(self) -> Iterator[Problem]:
        """Yield labels of the wrong type, unlisted levels, and rows with the same labels."""
        import pandas as pd

        domain = self.sidecar.domain
        for name in self.sidecar.keys:
            codes, distinct = pd.factorize(self.table.columns[name])
            kind = self.sidecar.types.get(name, "string")
            labels = [_parse(cell, kind) for cell in distinct]
            bad = np.array([label is None for label in labels] + [False])
            yield from self._cells(name, bad[codes], f"must be of type {kind}")
            if domain is not None:
                levels = set(domain.levels[name])
                other = [label is not None and label not in levels for label in labels]
                words = f"must be one of the {len(levels)} levels that the sidecar lists"
                yield from self._cells(name, np.array([*other, False])[codes], words)
        if self.sidecar.keys:
            frame = pd.DataFrame({name: self.table.columns[name] for name in self.sidecar.keys})
            words = "must not repeat the labels of an earlier row"
            repeated = frame.duplicated().to_numpy()
            yield from self._cells(", ".join(self.sidecar.keys), repeated, words)

    def _kinds(self) -> tuple[NDArray[Any], Mask]:
        """Return the law of each row by name, "" where unknown, and which rows are unknown."""
        import pandas as pd

        spec = self.sidecar.privacy["mechanism"]
        size = len(self.table.lines)
        if not isinstance(spec, dict):
            return np.full(size, canonical_kind(spec), dtype=object), np.zeros(size, dtype=bool)
        codes, distinct = pd.factorize(self.table.columns[spec["column"]])
        kinds = np.array([*(_kind_or_empty(name) for name in distinct), ""], dtype=object)[codes]
        return kinds, kinds == ""

    def _floats(self, name: str) -> FloatArray:
        if name not in self._read:
            self._read[name] = _as_floats(self.table.columns[name])
        return self._read[name]

    def _numbers(self, spec: Any, missing: float) -> Any:
        """Return a number, or those of a column with ``missing`` in cells without one."""
        if not isinstance(spec, dict):
            return missing if spec is None else float(spec)
        floats = self._floats(spec["column"])
        return np.where(np.isnan(floats), missing, floats)

    def _bounds(self) -> tuple[Any, Any]:
        lower, upper = self.sidecar.clamp or (None, None)
        return self._numbers(lower, -np.inf), self._numbers(upper, np.inf)

    def _cells(self, name: str, bad: Mask, words: str) -> Iterator[Problem]:
        """Yield a problem for the first few bad cells of a column, and count the others."""
        rows = np.flatnonzero(bad)
        single = self.table.columns.get(name)
        place = f"column {name}" if single is not None else f"columns {name}"
        for row in rows[:EACH]:
            shown = "" if single is None else f", got {_show(single[row])}"
            yield Problem(self.file, f"{words}{shown}", int(self.table.lines[row]), place)
        if len(rows) > EACH:
            yield Problem(self.file, f"{words}, in {len(rows) - EACH} more rows", None, place)


def _as_floats(cells: NDArray[Any]) -> FloatArray:
    """Return the numbers in cells, NaN where there is none.

    What does not look like a number is not tried, which is slow.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    like = pc.match_substring_regex(pa.array(cells, pa.string()), NUMBER)
    found = like.fill_null(False).to_numpy(zero_copy_only=False)
    numbers = np.full(len(cells), np.nan)
    numbers[found] = pd.to_numeric(pd.Series(cells[found], dtype=object), errors="coerce")
    return numbers


def _empty(cells: NDArray[Any]) -> Mask:
    return np.array([cell is None for cell in cells], dtype=bool)


def _show(cell: str | None) -> str:
    return "an empty cell" if cell is None else show(cell)


def _kind_or_empty(name: str) -> str:
    try:
        return canonical_kind(name)
    except InvalidParameterError:
        return ""


def _parse(cell: str, kind: str) -> Any:
    """Return a label in its type, None where it does not have that type."""
    try:
        return PARSERS[kind](cell)
    except (ValueError, KeyError):
        return None
