"""Tables in CSV and Parquet files, read with the types that the sidecar states."""

from __future__ import annotations

import csv
import gzip
import io
import os
import stat
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer._validation import show
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.problems import Problem

if TYPE_CHECKING:
    import pandas as pd

BROKEN = (OSError, EOFError, KeyError, UnicodeDecodeError, csv.Error, zlib.error)
"""What reading a file that is not a table of this kind raises, besides Arrow's own errors."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")


class UnreadableTableError(DPInferError):
    """A table does not have the columns and types that were asked for; the reason is its cause."""


@dataclass(frozen=True)
class TextTable:
    """The columns of a table as text, for finding what is wrong with it.

    ``columns`` holds object arrays of strings with None in empty cells, ``lines`` the line of
    each row, ``problems`` the rows that are not rows of the table.
    """

    columns: Mapping[str, Any]
    lines: Any
    problems: list[Problem]


def check_table_path(path: object) -> Path:
    """Return the path of a table that exists and has a known format."""
    table = check_path(path, "path")
    check_suffix(table)
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


def check_suffix(path: Path) -> None:
    """Refuse a file whose name does not end as that of a known format."""
    if not path.name.endswith(SUFFIXES):
        raise InvalidParameterError(f"path must end in {', '.join(SUFFIXES)}, got {path}")


def read_columns(path: Path, types: Mapping[str, str]) -> pd.DataFrame:
    """Read columns of a table, each by its type.

    ``"string"``, ``"integer"``, ``"number"`` and ``"boolean"`` are labels and become categorical;
    ``"value"`` is a column of numbers.

    Raises
    ------
    UnreadableTableError
        If the file does not hold such columns.
    """
    import pyarrow as pa

    wanted = {name: _arrow_type(kind) for name, kind in types.items()}
    reader = _read_parquet if path.suffix == ".parquet" else _read_csv
    try:
        table = reader(path, wanted)
        for position, (name, kind) in enumerate(types.items()):
            if kind != "value":
                labels = table.column(name)
                labels = (
                    labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
                )
                table = table.set_column(position, name, labels.unify_dictionaries())
        return table.to_pandas(split_blocks=True, self_destruct=True)
    except (*BROKEN, pa.ArrowException) as error:
        raise UnreadableTableError(str(error)) from error


def read_text(path: Path) -> TextTable:
    """Read all columns of a table as text.

    Raises
    ------
    IncompatibleReleaseError
        If the file cannot be read as a table at all.
    """
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            return _parquet_as_text(path)
        return _csv_as_text(path)
    except (*BROKEN, pa.ArrowException) as error:
        kind = "a Parquet file" if path.suffix == ".parquet" else "a CSV file in UTF-8"
        reason = " ".join(str(error).split())
        raise IncompatibleReleaseError(f"{path.name} must be {kind}: {reason}") from error


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame to ``path`` in the format that its name asks for."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    table = pa.Table.from_pandas(frame, preserve_index=False)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
        return
    compression = "gzip" if path.suffix == ".gz" else None
    options = arrow_csv.WriteOptions(quoting_style="needed")
    with pa.output_stream(str(path), compression=compression) as stream:
        arrow_csv.write_csv(_plain_columns(table), stream, options)


def _plain_columns(table: Any) -> Any:
    """Write categories as the values that they stand for."""
    import pyarrow as pa

    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(position).cast(field.type.value_type)
            table = table.set_column(position, field.name, plain)
    return table


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    return {
        "string": pa.dictionary(pa.int32(), pa.string()),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "value": pa.float64(),
    }[kind]


def _open_bytes(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _csv_names(path: Path) -> list[str]:
    """Return the names in the header of a CSV file."""
    with _open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        return next((row for row in csv.reader(text) if row), [])


def _check_utf8(path: Path) -> None:
    """Refuse bytes that are not UTF-8, by their line."""
    with _open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise IncompatibleReleaseError(
                    f"{path.name}, line {number}: must be UTF-8 text: {error.reason}"
                ) from error


def _read_csv(path: Path, types: Mapping[str, Any]) -> Any:
    from pyarrow import csv as arrow_csv

    names = _csv_names(path)
    if any(names.count(name) > 1 for name in types):
        raise KeyError("a column is there twice")
    return arrow_csv.read_csv(
        path,
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _read_parquet(path: Path, types: Mapping[str, Any]) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    held = parquet.read_schema(path).names
    if missing := [name for name in types if name not in held]:
        raise KeyError(missing[0])
    table = parquet.read_table(path, columns=list(types), partitioning=None)
    return table.cast(pa.schema(list(types.items())))


def _parquet_as_text(path: Path) -> TextTable:
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(path, partitioning=None)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns[name] = column.cast(pa.string()).to_numpy()
        except pa.ArrowException:  # nested types have no text
            columns[name] = np.full(len(column), f"a {column.type}", dtype=object)
    return TextTable(columns, np.arange(1, table.num_rows + 1), [])


def _csv_as_text(path: Path) -> TextTable:
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    bad: list[Any] = []

    def skip(row: Any) -> str:
        bad.append(row)
        return "skip"

    _check_utf8(path)
    names = _csv_names(path)
    table = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    lines = np.setdiff1d(np.arange(2, table.num_rows + len(bad) + 2), [row.number for row in bad])
    problems = [
        Problem(
            path.name,
            f"must have {row.expected_columns} cells, got {row.actual_columns}",
            row.number,
        )
        for row in bad
    ]
    columns = {name: table.column(k).to_numpy() for k, name in enumerate(names)}
    if len(columns) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        problems.append(Problem(path.name, "the column is there twice", 1, f"column {repeated}"))
    return TextTable(columns, lines, problems)
