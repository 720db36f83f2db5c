"""Tables in CSV and Parquet files: read by the types that a sidecar states, and checked."""

from __future__ import annotations

import codecs
import csv
import io
import os
import stat
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, show, show_some
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.frames import (
    INTEGER_KINDS,
    KINDS,
    ROUNDED,
    canonical_kind,
    parameter_names,
    parameters_of_kind,
)
from dpinfer.releases.limits import MOST_TEXT, Limit, Problem, TextTable, decompressed
from dpinfer.releases.parquet import parquet_as_text, read_parquet
from dpinfer.releases.sidecar import Sidecar

if TYPE_CHECKING:
    import pandas as pd


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
        finite = np.isfinite(self._floats(self.sidecar.value))
        yield from self._cells(self.sidecar.value, ~finite, "must be a finite number")
        yield from self._law_problems()
        yield from self._rule_problems()
        yield from self._key_problems()

    def _law_problems(self) -> Iterator[Problem]:
        """Yield unknown names of laws, and parameters that the laws of their rows cannot have."""
        value = self.sidecar.value
        kinds, unknown = self._kinds()
        spec = self.sidecar.privacy["mechanism"]
        name = spec["column"] if isinstance(spec, dict) else value
        yield from self._cells(name, unknown, "must be the name of a noise law")
        for parameter in parameter_names():
            need = [kind for kind in KINDS if parameters_of_kind(kind).get(parameter)]
            needed = np.isin(kinds, np.array(need, dtype=object))
            spec = self.sidecar.mechanism.get(parameter)
            if spec is None and "covariance" not in self.sidecar.privacy:
                words = f"must have a law without a {parameter}, which the sidecar does not state"
                yield from self._cells(value, needed, words)
            elif isinstance(spec, dict):
                numbers = self._floats(spec["column"])
                bad = needed & ~((numbers > 0) & np.isfinite(numbers))
                yield from self._cells(spec["column"], bad, f"must be a {parameter} > 0")
        values = self._floats(value)
        lower, upper = self._bounds()
        rounded = self._numbers(self.sidecar.mechanism.get(ROUNDED), 0.0) == 1
        whole = np.isin(kinds, np.array(INTEGER_KINDS, dtype=object)) | rounded
        fraction = np.isfinite(values) & (values != np.floor(values)) & whole
        fraction &= (values != lower) & (values != upper)
        fraction &= "weights" not in self.sidecar.privacy  # of whole noises
        yield from self._cells(value, fraction, "must be a whole number under integer noise")

    def _rule_problems(self) -> Iterator[Problem]:
        value = self.sidecar.value
        values = self._floats(value)
        threshold = self._numbers(self.sidecar.privacy.get("threshold"), -np.inf)
        bins = self._numbers(self.sidecar.privacy.get("bin_size"), 1.0)
        lower, upper = self._bounds()
        for bad, words in (
            (values < threshold, "must not be below its threshold"),
            (values < lower, "must not be below its clamping bound"),
            (values > upper, "must not be above its clamping bound"),
            (~((bins >= 1) & (bins == np.floor(bins))), "must have a bin_size that is whole, >= 1"),
        ):
            yield from self._cells(value, np.broadcast_to(bad, values.shape), words)
        for spec in self.sidecar.rule:
            if isinstance(spec, dict):
                name = spec["column"]
                there = np.array([cell is not None for cell in self.table.columns[name]], bool)
                bad = np.isnan(self._floats(name)) & there
                yield from self._cells(name, bad, "must be a number or empty")

    def _key_problems(self) -> Iterator[Problem]:
        import pandas as pd

        domain = self.sidecar.domain
        for name in self.sidecar.keys:
            codes, distinct = pd.factorize(self.table.columns[name])
            kind = self.sidecar.types.get(name, "string")
            labels = [_or_none(PARSERS[kind], cell) for cell in distinct]
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
        known = [_or_none(canonical_kind, name) or "" for name in distinct]
        kinds = np.array([*known, ""], dtype=object)[codes]
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
            cell = None if single is None else single[row]
            shown = "an empty cell" if cell is None else show(cell)
            shown = "" if single is None else f", got {shown}"
            yield Problem(self.file, f"{words}{shown}", int(self.table.lines[row]), place)
        if len(rows) > EACH:
            yield Problem(self.file, f"{words}, in {len(rows) - EACH} more rows", None, place)


def _as_floats(cells: NDArray[Any]) -> FloatArray:
    """Return the numbers in cells, NaN where there is none; what looks like none is not tried."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    like = pc.match_substring_regex(pa.array(cells, pa.string()), NUMBER)
    found = like.fill_null(False).to_numpy(zero_copy_only=False)
    numbers = np.full(len(cells), np.nan)
    numbers[found] = pd.to_numeric(pd.Series(cells[found], dtype=object), errors="coerce")
    return numbers


def _or_none(read: Callable[[str], Any], cell: str) -> Any:
    """Return what a cell says, None where it cannot be read."""
    try:
        return read(cell)
    except (ValueError, KeyError):  # InvalidParameterError is a ValueError
        return None


# Tables in CSV files, plain or compressed by gzip.


LONGEST_HEADER = 2**20
"""Bytes of the first line, which is all that Arrow takes."""

CHUNK = 2**20

MOST_LISTED = 100
"""Rows with another number of cells that are listed; the rest is counted."""


def read_csv(path: Path, types: Mapping[str, Any], limit: Limit) -> Any:
    """Return columns of a CSV file as an Arrow table."""
    import pyarrow as pa

    names = _names(path, limit)
    if any(names.count(name) > 1 for name in types):
        raise KeyError("a column is there twice")
    found: list[Any] = []
    size = 0
    with _batches(path, limit, types, include_columns=list(types)) as batches:
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            limit.check(size)
        return pa.Table.from_batches(found, batches.schema)


def csv_as_text(path: Path, limit: Limit) -> TextTable:
    """Return the first rows of a CSV file as text."""
    import pyarrow as pa

    bad = array("q")  # lines, of which there may be as many as the file has
    problems: list[Problem] = []

    def skip(row: Any) -> str:
        bad.append(row.number)
        if len(bad) <= MOST_LISTED:
            words = f"must have {row.expected_columns} cells, got {row.actual_columns}"
            problems.append(Problem(path.name, words, row.number))
        return "skip"

    _check_utf8(path, limit)
    names = _names(path, limit)
    found: list[Any] = []
    size = 0
    with _batches(path, limit, dict.fromkeys(names, pa.string()), skip=skip) as batches:
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size > MOST_TEXT:
                break
        table = pa.Table.from_batches(found, batches.schema)
    whole = np.ones(table.num_rows + len(bad), dtype=bool)
    skipped = np.frombuffer(bad, dtype=np.int64) - 2
    whole[skipped[skipped < len(whole)]] = False
    lines = np.flatnonzero(whole)[: table.num_rows] + 2
    if len(bad) > MOST_LISTED:
        words = f"must have {len(names)} cells, in {len(bad) - MOST_LISTED} more rows"
        problems.append(Problem(path.name, words))
    columns = {name: table.column(k).to_numpy() for k, name in enumerate(names)}
    if len(columns) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        problems.append(Problem(path.name, "the column is there twice", 1, f"column {repeated}"))
    return TextTable(columns, lines, problems)


@contextmanager
def _batches(
    path: Path, limit: Limit, types: Mapping[str, Any], *, skip: Any = None, **columns: Any
) -> Iterator[Any]:
    """Open a CSV file to be read batch by batch; rows of another length may be skipped."""
    from pyarrow import csv as arrow_csv

    with decompressed(path, limit) as source:
        yield arrow_csv.open_csv(
            source,
            read_options=arrow_csv.ReadOptions(use_threads=skip is None),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                **columns,
            ),
        )


def _names(path: Path, limit: Limit) -> list[str]:
    with decompressed(path, limit) as stream:
        beginning = io.BytesIO(io.BufferedReader(stream).read(LONGEST_HEADER))
    text = io.TextIOWrapper(beginning, encoding="utf-8-sig", newline="")
    return next((row for row in csv.reader(text) if row), [])


def _check_utf8(path: Path, limit: Limit) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with decompressed(path, limit) as stream:
        while True:
            chunk = stream.read(CHUNK)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise IncompatibleReleaseError(
                    f"{path.name}, line {line}: must be UTF-8 text: {error.reason}"
                ) from error
            if not chunk:
                return
            line += chunk.count(b"\n")


# Tables in CSV and Parquet files, read with the types that the sidecar states.


BROKEN = (OSError, KeyError, UnicodeDecodeError, csv.Error)
"""What reading a file that is not a table of this kind raises, besides Arrow's own errors."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def check_table_path(path: object, *, there: bool = True) -> Path:
    """Return the path of a table of a known format, which must exist or be in a folder."""
    table = check_path(path, "path")
    if not table.name.endswith(SUFFIXES):
        raise InvalidParameterError(f"path must end in {', '.join(SUFFIXES)}, got {table}")
    if not there:
        if not table.parent.is_dir():
            raise InvalidParameterError(f"path must be in an existing folder, got {table}")
        return table
    try:
        mode = table.stat().st_mode
    except (OSError, ValueError) as error:  # such as a name that is too long
        raise InvalidParameterError(f"path must be an existing file, got {table}") from error
    if stat.S_ISDIR(mode):
        raise InvalidParameterError(f"path must be a file, got the directory {table}")
    if not stat.S_ISREG(mode):  # a pipe would never end
        raise InvalidParameterError(f"path must be a regular file, got {table}")
    return table


def check_path(path: object, name: str) -> Path:
    """Return a path given as a string or a Path."""
    if not isinstance(path, (str, Path)):
        raise InvalidParameterError(f"{name} must be a string or a Path, got {show(path)}")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:  # half a character
        encoded = b"\0"
    if b"\0" in encoded:
        raise InvalidParameterError(f"{name} must be a name that files can have, got {show(path)}")
    return Path(path)


def read_columns(path: Path, types: Mapping[str, str], limit: Limit) -> pd.DataFrame:
    """Read columns of a table, each by its type.

    ``"string"``, ``"integer"``, ``"number"`` and ``"boolean"`` are labels and become categorical;
    ``"value"`` is a column of numbers. A table without them raises IncompatibleReleaseError.
    """
    import pyarrow as pa

    arrow = {
        "string": pa.dictionary(pa.int32(), pa.string()),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "value": pa.float64(),
    }
    try:
        read = FORMATS[path.suffix].columns
        table = read(path, {name: arrow[kind] for name, kind in types.items()}, limit)
        for position, (name, kind) in enumerate(types.items()):
            if kind != "value":
                labels = table.column(name)
                if not pa.types.is_dictionary(labels.type):
                    labels = labels.dictionary_encode()
                table = table.set_column(position, name, labels.unify_dictionaries())
        return table.to_pandas(split_blocks=True, self_destruct=True)
    except (*BROKEN, pa.ArrowException) as error:
        raise IncompatibleReleaseError(str(error)) from error


def read_text(path: Path, limit: Limit) -> TextTable:
    """Read all columns of a table as text."""
    import pyarrow as pa

    form = FORMATS[path.suffix]
    try:
        return form.text(path, limit)
    except (*BROKEN, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise IncompatibleReleaseError(f"{path.name} must be {form.name}: {reason}") from error


def write_table(frame: pd.DataFrame, path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write a frame to ``path`` in the format that its name asks for.

    ``facts``: what the metadata of the schema says, where the format has any.
    """
    import pyarrow as pa

    columns = [_arrow_column(frame.iloc[:, position]) for position in range(frame.shape[1])]
    table = pa.table(columns, names=frame.columns.tolist(), metadata=facts)
    FORMATS[path.suffix].write(table, path)


def _arrow_column(column: pd.Series) -> Any:
    """Return a column as an Arrow array: numbers of which none is missing without a copy."""
    import pyarrow as pa

    is_whole = column.dtype == np.float64 and not np.isnan(column.to_numpy()).any()
    return pa.array(column.to_numpy() if is_whole else column, from_pandas=not is_whole)


def _write_parquet(table: Any, path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path)


def _write_csv(table: Any, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    for position, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):  # categories are written as what they stand for
            plain = table.column(position).cast(column.type.value_type)
            table = table.set_column(position, column.name, plain)
    options = arrow_csv.WriteOptions(quoting_style="needed")
    compression = "gzip" if path.suffix == ".gz" else None
    with pa.output_stream(str(path), compression=compression) as stream:
        arrow_csv.write_csv(table, stream, options)


class Format(NamedTuple):
    """How tables of a format are read and written: columns by their types, all as text."""

    name: str
    columns: Callable[[Path, Mapping[str, Any], Limit], Any]
    text: Callable[[Path, Limit], TextTable]
    write: Callable[[Any, Path], None]


_CSV = Format("a CSV file in UTF-8", read_csv, csv_as_text, _write_csv)

FORMATS = {
    ".csv": _CSV,
    ".gz": _CSV,
    ".parquet": Format("a Parquet file", read_parquet, parquet_as_text, _write_parquet),
}
"""Formats by the ending of the name."""
