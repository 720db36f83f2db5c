"""Tables in CSV and Parquet files, read with the types that the sidecar states."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer._validation import show
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases._files.csv_table import csv_as_text, read_csv
from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.parquet_table import parquet_as_text, read_parquet
from dpinfer.releases._files.text_table import TextTable

if TYPE_CHECKING:
    import pandas as pd

BROKEN = (OSError, KeyError, UnicodeDecodeError, csv.Error)
"""What reading a file that is not a table of this kind raises, besides Arrow's own errors."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")


class UnreadableTableError(DPInferError):
    """A table does not have the columns and types that were asked for; the reason is its cause."""


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


def read_columns(path: Path, types: Mapping[str, str], limit: Limit) -> pd.DataFrame:
    """Read columns of a table, each by its type.

    ``"string"``, ``"integer"``, ``"number"`` and ``"boolean"`` are labels and become categorical;
    ``"value"`` is a column of numbers.

    Raises
    ------
    UnreadableTableError
        If the file does not hold such columns.
    TooLargeError
        If they would take more memory than they may.
    """
    import pyarrow as pa

    wanted = {name: _arrow_type(kind) for name, kind in types.items()}
    reader = read_parquet if path.suffix == ".parquet" else read_csv
    try:
        table = reader(path, wanted, limit)
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


def read_text(path: Path, limit: Limit) -> TextTable:
    """Read all columns of a table as text.

    Raises
    ------
    IncompatibleReleaseError
        If the file cannot be read as a table at all.
    """
    import pyarrow as pa

    reader = parquet_as_text if path.suffix == ".parquet" else csv_as_text
    try:
        return reader(path, limit)
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
