"""Tables in CSV and Parquet files: read by the types that a sidecar states, and checked."""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib.util
import io
import os
import re
import stat
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, require, show, show_some, step_and_way
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.frames import (
    INTEGER_KINDS,
    KINDS,
    canonical_kind,
    parameter_names,
    parameters_of_kind,
)
from dpinfer.releases.limits import MOST_TEXT, Limit, Problem, TextTable, decompressed
from dpinfer.releases.parquet import EXTRA, parquet_as_text, read_parquet, write_parquet
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
        words = "must be a finite number"
        cells = self.table.columns[self.sidecar.value]
        if any(DECIMAL_COMMA.fullmatch(cell) for cell in cells[~finite] if cell):
            words += " without commas, its decimals after a point"
        yield from self._cells(self.sidecar.value, ~finite, words)
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
        steps = self._steps("rounding", 0.0)
        whole = np.isin(kinds, np.array(INTEGER_KINDS, dtype=object)) & ~(steps > 0)
        fraction = np.isfinite(values) & (values != np.floor(values)) & whole
        fraction &= (values != lower) & (values != upper)
        fraction &= "weights" not in self.sidecar.privacy  # of whole noises
        yield from self._cells(value, fraction, "must be a whole number under integer noise")

    def _steps(self, name: str, none: float) -> Any:
        return self._numbers(step_and_way(self.sidecar.step(name), name, "up")[0], none)

    def _rule_problems(self) -> Iterator[Problem]:
        value = self.sidecar.value
        values = self._floats(value)
        threshold = self._numbers(self.sidecar.privacy.get("threshold"), -np.inf)
        bins, steps = self._steps("bin_size", 1.0), self._steps("rounding", 0.0)
        units = np.where(steps > 0, steps, 1.0)
        known = np.where(np.isfinite(values), values, 0.0)
        off = np.abs(known - np.rint(known / units) * units) > 1e-9 * units
        lower, upper = self._bounds()
        for bad, words in (
            (values < threshold, "must not be below its threshold"),
            (values < lower, "must not be below its clamping bound"),
            (values > upper, "must not be above its clamping bound"),
            (~((bins >= 1) & (bins == np.floor(bins))), "must have a bin_size that is whole, >= 1"),
            (off & (steps > 0), "must be a multiple of the step to which it was rounded"),
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

    like = re.compile(NUMBER).match
    found = np.array([cell is not None and like(cell) is not None for cell in cells], dtype=bool)
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


LONGEST_LINE = 2**20
"""Bytes of the first line, and of any other line of a table that is looked at row by row."""

CHUNK = 2**20

MOST_LISTED = 100
"""Rows with another number of cells that are listed; the rest is counted."""

ROWS = 2**16
"""Rows that are read or written at a time."""

COMMA, LINE_FEED, QUOTE = b',\n"'

BEFORE_QUOTES = np.isin(np.arange(256), list(b',\n\r"'))
"""Which bytes may stand before a quote that opens."""


def read_csv(path: Path, types: Mapping[str, str], limit: Limit) -> pd.DataFrame:
    """Read columns of a CSV file, labels as categories in the order in which they come."""
    names = _names(path, limit)
    if any(names.count(name) != 1 for name in types):
        raise KeyError("each column must be there once")
    if importlib.util.find_spec("pyarrow") is not None:
        try:
            return _collected(_arrow_parts(path, types, limit), types, limit)
        except (ValueError, LookupError, NotImplementedError) as error:
            if isinstance(error, DPInferError):
                raise
            # what Arrow does not take is taken, or named, below
    try:
        return _collected(_parts(path, types, names, limit, watched=True), types, limit)
    except _UnevenError:
        for line, row in _rows(path, limit):
            if len(row) != len(names):
                words = f"must have {len(names)} cells, got {len(row)}"
                raise IncompatibleReleaseError(f"line {line}: {words}") from None
        return _collected(_parts(path, types, names, limit, watched=False), types, limit)


Part = FloatArray | tuple[NDArray[Any], list[str]]
"""Some rows of a column: numbers, or places in a list of texts, -1 where a cell is empty."""


def _arrow_parts(path: Path, types: Mapping[str, str], limit: Limit) -> Iterator[list[Part]]:
    """Yield columns by parts, as Arrow reads them; it refuses rows with too few or many cells."""
    pa, csv_ = require("pyarrow", EXTRA), require("pyarrow.csv", EXTRA)
    text, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    with decompressed(path, limit) as stream:
        reader = csv_.open_csv(
            pa.PythonFile(_WithoutNul(stream), "r"),
            csv_.ReadOptions(use_threads=False, block_size=CHUNK),
            csv_.ParseOptions(newlines_in_values=True),
            csv_.ConvertOptions(
                column_types={n: number if t == "value" else text for n, t in types.items()},
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        for batch in reader:
            yield [
                _floats_of(column)
                if kind == "value"
                else (column.indices.fill_null(-1).to_numpy(), column.dictionary.to_pylist())
                for column, kind in zip(batch.columns, types.values(), strict=True)
            ]


def _floats_of(column: Any) -> FloatArray:
    """Return the numbers of an Arrow array, NaN where there is none; a cell may not say "nan"."""
    numbers: FloatArray = column.to_numpy(zero_copy_only=False)
    if np.count_nonzero(np.isnan(numbers)) != column.null_count:
        raise ValueError("a cell that is no number")
    return numbers


class _WithoutNul(io.RawIOBase):
    """Reads a stream, and stops where it holds a byte of 0, which no text has."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._stream.readinto(buffer) or 0
        if b"\0" in bytes(memoryview(buffer)[:size]):
            raise ValueError("line contains NUL")
        return size


def _parts(
    path: Path, types: Mapping[str, str], names: list[str], limit: Limit, *, watched: bool
) -> Iterator[list[Part]]:
    """Yield columns by parts, as pandas reads them."""
    import pandas as pd

    # before version 3.1 the last digits are read exactly only if that is asked for
    early = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    options: dict[str, Any] = {"float_precision": "round_trip"} if early else {}
    places = {name: names.index(name) for name in types}
    with decompressed(path, limit) as stream:
        source = io.BufferedReader(_Even(stream, len(names)) if watched else stream, CHUNK)
        for frame in pd.read_csv(
            source,
            header=0,
            names=range(len(names)),
            usecols=list(places.values()),
            index_col=False,
            # categories would be numbers where they look like such
            dtype={at: float if types[name] == "value" else object for name, at in places.items()},
            keep_default_na=False,
            na_values=[""],
            chunksize=ROWS,
            **options,
        ):
            columns = {name: frame[at].to_numpy() for name, at in places.items()}
            yield [
                part if types[name] == "value" else pd.factorize(part)
                for name, part in columns.items()
            ]


def _collected(
    blocks: Iterator[list[Part]], types: Mapping[str, str], limit: Limit
) -> pd.DataFrame:
    import pandas as pd

    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in types}
    texts: dict[str, dict[str, int]] = {name: {} for name in types}
    size = 0
    for block in blocks:
        for name, part in zip(types, block, strict=True):
            if isinstance(part, tuple):
                codes, distinct = part
                known = texts[name]
                size += sum(len(text) for text in distinct if text not in known)
                numbers = [known.setdefault(text, len(known)) for text in distinct]
                parts[name].append(np.array([*numbers, -1], dtype=np.int32)[codes])
            else:
                parts[name].append(part)
            size += parts[name][-1].nbytes
        limit.check(size)
    columns: dict[str, Any] = {}
    for name, own in parts.items():
        columns[name] = np.concatenate(own)
        if types[name] != "value":
            labels = pd.Index([PARSERS[types[name]](text) for text in texts[name]])
            numbers, distinct = pd.factorize(labels)  # 1 and 01 are one number
            codes = np.append(numbers, -1)[columns[name]]
            columns[name] = pd.Categorical.from_codes(codes, distinct)
    return pd.DataFrame(columns)


class _UnevenError(OSError):
    """Not all lines of a table are plainly rows of as many cells as the first has."""


class _Even(io.RawIOBase):
    """Reads a stream, and stops where a line does not plainly have so many cells.

    Parsers fill short rows and cut long ones in silence.
    """

    def __init__(self, stream: io.RawIOBase, width: int) -> None:
        self._stream, self._width = stream, width
        self._place = self._open = 0
        self._last = LINE_FEED

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._stream.readinto(buffer) or 0
        text = np.frombuffer(buffer, dtype=np.uint8, count=size)
        places = np.flatnonzero((text == COMMA) | (text == LINE_FEED) | (text == QUOTE))
        marks = text[places]
        quotes = marks == QUOTE
        plain = bool(text.all()) if size else self._place in (0, self._width - 1)
        if self._open or quotes.any():
            within = (np.cumsum(quotes, dtype=np.uint8) + np.uint8(self._open)) & 1 == 1
            before = np.append(np.uint8(self._last), text)[places[quotes & within]]
            plain &= bool(BEFORE_QUOTES[before].all())
            marks = marks[~(quotes | within)]
            self._open = int(within[-1]) if len(within) else self._open
        ends = marks == LINE_FEED
        last = ends[self._width - 1 - self._place :: self._width]
        if not (plain and last.all() and np.count_nonzero(ends) == len(last)):
            raise _UnevenError
        self._place = (self._place + len(ends)) % self._width
        self._last = int(text[-1]) if size else self._last
        return size


DECIMAL_COMMA = re.compile(r"\s*[-+]?[\d.,]*\d,\d[\d.,]*\s*")
"""A number with decimals after a comma, or with commas between thousands."""

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def _other_separator(names: list[str]) -> str:
    """Return what separates the cells of a header that is one cell, "," where nothing does."""
    found = [mark for mark in SEPARATORS if len(names) == 1 and mark in names[0]]
    return found[0] if found else ","


def _not_commas(path: Path, mark: str) -> Problem:
    return Problem(
        path.name,
        f"must have commas between cells, and points in decimals, got {SEPARATORS[mark]}: write it "
        f"anew, as by pandas.read_csv({path.name!r}, sep={mark!r}, decimal=',', "
        "dtype={...: str for codes}).to_csv(..., index=False)",
        1,
    )


def csv_as_text(path: Path, limit: Limit) -> TextTable:
    """Return the first rows of a CSV file as text."""
    _check_utf8(path, limit)
    names = _names(path, limit)
    if not names:
        raise csv.Error("Empty CSV file")
    problems: list[Problem] = []
    mark = _other_separator(names)
    if mark != ",":  # the rest is checked as it will be when written anew
        problems.append(_not_commas(path, mark))
        names = _names(path, limit, mark)
    lines, rows, others = array("q"), [], 0
    for line, row in _rows(path, limit, MOST_TEXT, mark):
        if len(row) == len(names):
            lines.append(line)
            rows.append([cell or None for cell in row])
        else:
            others += 1
            if others <= MOST_LISTED:
                words = f"must have {len(names)} cells, got {len(row)}"
                problems.append(Problem(path.name, words, line))
    if others > MOST_LISTED:
        words = f"must have {len(names)} cells, in {others - MOST_LISTED} more rows"
        problems.append(Problem(path.name, words))
    cells = np.array(rows, dtype=object).reshape(len(rows), len(names))
    columns = {name: cells[:, k] for k, name in enumerate(names)}
    if len(columns) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        problems.append(Problem(path.name, "the column is there twice", 1, f"column {repeated}"))
    return TextTable(columns, np.array(lines, dtype=np.int64), problems)


def _rows(
    path: Path, limit: Limit, most: float = np.inf, mark: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows below the header with the lines where they begin, up to so many bytes."""
    seen = 0

    def lines(text: io.TextIOWrapper) -> Iterator[str]:
        nonlocal seen
        while seen <= most and (line := text.readline(LONGEST_LINE + 1)):
            if len(line) > LONGEST_LINE or "\0" in line:
                raise csv.Error("line contains NUL" if "\0" in line else "a line is too long")
            seen += len(line)
            yield line

    with decompressed(path, limit) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
        reader = csv.reader(lines(text), delimiter=mark)
        begins, header = 1, True
        for row in reader:
            if row and not header and seen <= most:
                yield begins, row
            header &= not row
            begins = reader.line_num + 1


def _names(path: Path, limit: Limit, mark: str = ",") -> list[str]:
    with decompressed(path, limit) as stream:
        beginning = io.BytesIO(io.BufferedReader(stream).read(LONGEST_LINE))
    text = io.TextIOWrapper(beginning, encoding="utf-8-sig", newline="")
    return next((row for row in csv.reader(text, delimiter=mark) if row), [])


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


BROKEN = (OSError, LookupError, ValueError, csv.Error)
"""What reading a file that is not a table of this kind raises."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def check_table_path(path: object, *, there: bool = True) -> Path:
    """Return the path of a table of a known format, which must exist or be in a folder."""
    table = check_path(path, "path")
    if not table.name.endswith(SUFFIXES):
        raise InvalidParameterError(f"path must end in {', '.join(SUFFIXES)}, got {table}")
    if table.suffix == ".parquet":
        require("pyarrow", EXTRA)
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
    try:
        return FORMATS[path.suffix].columns(path, types, limit)
    except DPInferError:
        raise
    except BROKEN as error:
        raise IncompatibleReleaseError(str(error)) from error


def read_text(path: Path, limit: Limit) -> TextTable:
    """Read all columns of a table as text."""
    form = FORMATS[path.suffix]
    try:
        return form.text(path, limit)
    except DPInferError:
        raise
    except BROKEN as error:
        reason = " ".join(str(error).split())
        raise IncompatibleReleaseError(f"{path.name} must be {form.name}: {reason}") from error


def write_table(frame: pd.DataFrame, path: Path, facts: Mapping[str, str] | None = None) -> None:
    """Write a frame to ``path`` in the format that its name asks for.

    ``facts``: what the metadata of the schema says, where the format has any.
    """
    FORMATS[path.suffix].write(frame, path, facts)


def _write_csv(frame: pd.DataFrame, path: Path, _: Mapping[str, str] | None) -> None:
    """Write texts in quotes, numbers so that they are read as they are, and missing cells empty."""
    with path.open("wb") as file:
        packed = path.suffix == ".gz"
        stream: Any = gzip.GzipFile("", "wb", 6, file, mtime=0) if packed else file
        stream.write((",".join(map(_quoted, frame.columns)) + "\n").encode())
        for start in range(0, len(frame), ROWS):
            part = frame.iloc[start : start + ROWS]
            cells = [_cells(part.iloc[:, position]) for position in range(part.shape[1])]
            stream.write(("\n".join(map(",".join, zip(*cells, strict=True))) + "\n").encode())
        if packed:
            stream.close()


def _cells(column: pd.Series) -> list[str]:
    """Return cells as they stand in a CSV file: what is there often is turned into text once."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    if distinct.dtype.kind in "iuf":
        texts = [text.removesuffix(".0") for text in map(repr, distinct.tolist())]
    elif distinct.dtype.kind == "b":
        texts = ["true" if value else "false" for value in distinct]
    else:
        texts = [_quoted(value) for value in distinct]
    cells: list[str] = np.array([*texts, ""], dtype=object)[codes].tolist()
    return cells


def _quoted(text: object) -> str:
    return '"' + str(text).replace('"', '""') + '"'


class Format(NamedTuple):
    """How tables of a format are read and written: columns by their types, all as text."""

    name: str
    columns: Callable[[Path, Mapping[str, str], Limit], pd.DataFrame]
    text: Callable[[Path, Limit], TextTable]
    write: Callable[[pd.DataFrame, Path, Mapping[str, str] | None], None]


_CSV = Format("a CSV file in UTF-8", read_csv, csv_as_text, _write_csv)

FORMATS = {
    ".csv": _CSV,
    ".gz": _CSV,
    ".parquet": Format("a Parquet file", read_parquet, parquet_as_text, write_parquet),
}
"""Formats by the ending of the name."""
