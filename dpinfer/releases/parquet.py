"""What the pages of a Parquet file hold, found from their headers before anything is decoded.

A page of a few bytes can stand for two thousand million values, and what the footer says of sizes
need not be true. The headers of the pages are what a reader goes by: they say how many values it
will make of them, and how many bytes it will decompress.

Reference: Apache Parquet format 2.10, ``parquet.thrift``.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dpinfer._check import require
from dpinfer.releases.limits import MOST_TEXT, Limit, Problem, TextTable

if TYPE_CHECKING:
    import pandas as pd

EXTRA = "parquet"
"""The extra that installs what reads and writes Parquet files."""

# Structures in Thrift's compact protocol, of which only what is asked for is kept.


Wanted = Mapping[int, Any]
"""The fields of a structure by their numbers: the kind of each, or what is wanted inside."""

MOST_ITEMS = 10**6
"""Items of a list at most, which is also what Arrow takes."""

DEEPEST = 16

TRUE, FALSE, BYTE, I16, I32, I64, THRIFT_DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class ThriftReader:
    """Reads bytes from the beginning.

    What goes on after the end of the bytes raises IndexError, what is no structure ValueError.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self, wanted: Wanted, depth: int = 0) -> dict[int, Any]:
        """Return fields of a structure by their numbers: those that are wanted and there.

        A field of another kind than it should have is passed over, as by readers made by Thrift.
        """
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind, want = head & 15, wanted.get(number)
            if isinstance(want, Mapping) and kind == STRUCT:
                fields[number] = self.struct(want, depth + 1)
            elif want == kind:
                fields[number] = self._whole()
            elif kind not in (TRUE, FALSE):
                self._pass(kind, depth)
        return fields

    def _pass(self, kind: int, depth: int) -> None:
        if kind in (TRUE, FALSE, BYTE):  # in a list, as others have no bytes of their own
            self._skip(1)
        elif kind in (I16, I32, I64):
            self._whole()
        elif kind == THRIFT_DOUBLE:
            self._skip(8)
        elif kind == BINARY:
            self._skip(self._natural())
        elif kind == STRUCT:
            self.struct({}, depth + 1)
        elif kind in (LIST, SET):
            if depth > DEEPEST:
                raise ValueError("nested too deeply")
            inner, size = self._list()
            for _ in range(size):
                self._pass(inner, depth + 1)
        else:
            raise ValueError("a kind of field that is not used in Parquet files")

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        size = self._natural() if head >> 4 == 15 else head >> 4
        if size > MOST_ITEMS:
            raise ValueError(f"a list of {size} items")
        return head & 15, size

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError("the data end")

    def _natural(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _whole(self) -> int:
        """Return a signed number: 0, -1, 1, -2, ... are written as 0, 1, 2, 3, ..."""
        number = self._natural()
        return (number >> 1) ^ -(number & 1)


# What the end of a Parquet file says of its columns, as Arrow reads it.


LONGEST = 2**24
"""Bytes of the end of a file at most: it stands for a hundred thousand pieces of columns."""


class BrokenParquetError(OSError):
    """What a Parquet file says of itself cannot be read."""


def read_footer(path: Path) -> Any:
    """Return what the end of a file says, an Arrow ``FileMetaData``."""
    pa, parquet = require("pyarrow", EXTRA), require("pyarrow.parquet", EXTRA)
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        last = file.read(8)
    length = int.from_bytes(last[:4], "little")
    if len(last) < 8 or last[4:] != b"PAR1" or length > size - 8:
        raise BrokenParquetError("no Parquet file ends like this")
    if length > LONGEST:
        raise BrokenParquetError(f"the end of the file has {length} bytes, more than {LONGEST}")
    try:
        return parquet.read_metadata(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BrokenParquetError(f"the end of the file cannot be read: {error}") from error


WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
"""Bytes of a value of each physical type."""

DECIMAL = 32
"""Bytes of a decimal number at most, however short it is in the file."""

LEVELS = 4
"""Bytes of the definition and repetition levels of a value, and of a place in a dictionary."""

DATA, INDEX, DICTIONARY, DATA_V2 = range(4)

DELTA_LENGTH, DELTA_BYTE_ARRAY = 6, 7
"""Encodings of texts of which Arrow makes no dictionary; in the second each text is given by how it
differs from the one before."""

LONGEST_HEADER = 2**24

PADDING = 100
"""Bytes after its end that readers take to belong to a column, for the sake of an old writer."""

_HELD = {1: I32, 2: I32}
_HEADER: Wanted = {1: I32, 2: I32, 3: I32, 5: _HELD, 7: _HELD, 8: {1: I32, 4: I32}}


def check_pages(
    path: Path,
    footer: Any,
    limit: Limit,
    columns: Collection[str] | None = None,
    row_groups: Iterable[int] | None = None,
) -> tuple[list[str], int | None]:
    """Refuse a Parquet file whose columns, by default all, take too many bytes once decoded.

    Return how the others must then be read, for no more memory than was counted: the columns of
    texts to be read as dictionaries, as plain texts may take far more; and how many rows at a time,
    None for all. Texts that are given by their differences are not read as dictionaries, and each
    may be as long as its page.
    """
    try:
        leaves = [footer.schema.column(at) for at in range(footer.num_columns)]
        tallies = {
            at: _Tally(leaf)
            for at, leaf in enumerate(leaves)
            if columns is None or _within(leaf.path, columns)
        }
    except UnicodeDecodeError as error:
        raise BrokenParquetError(f"the names of columns must be UTF-8 text: {error}") from error
    total = 0
    with path.open("rb") as file:
        for number in range(footer.num_row_groups) if row_groups is None else row_groups:
            group = footer.row_group(number)
            rows = _natural(group.num_rows, 2**63)
            if group.num_columns != len(leaves):
                raise BrokenParquetError(f"a row group must have {len(leaves)} columns")
            for at, own in tallies.items():
                total -= own.size
                for size in own.add(_pages(file, group.column(at)), rows):
                    limit.check(total + size)
                total += own.size
    widest = sum(one.widest for one in tallies.values() if one.delta)
    dictionaries = [one.path for one in tallies.values() if one.text and not one.delta]
    return dictionaries, max(1, limit.most // widest) if widest else None


def _within(path: str, columns: Collection[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)


class _Tally:
    """The bytes that a column needs, with texts as entries of a dictionary."""

    def __init__(self, column: Any) -> None:
        self.path = column.path
        self.text = column.physical_type == "BYTE_ARRAY"
        self.delta = False
        self.size = self.widest = 0
        width = LEVELS if self.text else WIDTHS.get(column.physical_type, max(column.length, 0))
        if "DECIMAL" in (column.logical_type.type, column.converted_type):
            width = max(width, DECIMAL)
        self._width = width + (LEVELS if column.max_definition_level else 0)

    def add(self, pages: Iterator[tuple[int, int, int]], rows: int) -> Iterator[int]:
        """Take in the pages of a row group; yield the bytes needed after each of them."""
        left = rows  # memory for each row is reserved, whatever the pages hold
        self.size += rows * self._width
        yield self.size
        for values, size, encoding in pages:
            left -= values
            self.size += self._width * -min(left, 0)
            left = max(left, 0)
            if self.text:
                self.delta |= encoding in (DELTA_LENGTH, DELTA_BYTE_ARRAY)
                self.size += size
                self.widest = max(self.widest, size)
            yield self.size + size


def _pages(file: BinaryIO, chunk: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the values, the bytes and the encoding of the pages that a reader would read."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
        at = chunk.dictionary_page_offset
    at = _natural(at, 2**63)
    end = at + _natural(chunk.total_compressed_size, 2**63) + PADDING
    left = _natural(chunk.num_values, 2**63)
    while left > 0 and at < end:
        length, header = _header(file, at)
        kind, size, compressed = (_natural(header.get(field)) for field in (1, 2, 3))
        inner = {DATA: 5, DICTIONARY: 7, DATA_V2: 8}.get(kind)
        said = {} if inner is None else header.get(inner)
        if said is None:
            raise BrokenParquetError("the header of a page does not say what is in it")
        values = _natural(said.get(1, 0))
        encoding = _natural(said.get(4 if kind == DATA_V2 else 2, 0))
        if kind in (DATA, DATA_V2):
            left -= values
            yield values, size, encoding
        else:  # of a dictionary also the places of its entries are listed
            yield 0, size + 16 * values, 0
        at += length + compressed


def _header(file: BinaryIO, at: int) -> tuple[int, dict[int, Any]]:
    """Return the length of the header of a page, and what it says by the numbers of its fields."""
    for most in (2**12, LONGEST_HEADER):
        try:
            file.seek(at)
            reader = ThriftReader(file.read(most))
            header = reader.struct(_HEADER)
        except IndexError:  # the header goes on
            continue
        except (OSError, ValueError, OverflowError):
            break
        return reader.at, header
    raise BrokenParquetError("the header of a page cannot be read")


def _natural(value: int | None, end: int = 2**31) -> int:
    """Return a whole number of 32 bits, or up to another end: others are not taken by readers."""
    if value is None or not 0 <= value < end:
        raise BrokenParquetError("a header has a number that files cannot have")
    return value


# Tables in Parquet files.


MOST_ROWS = 2**16
"""Rows that are read at a time, where not all are."""

ROWS_AS_TEXT = 2**12
"""Rows that are turned into text at a time."""


@contextmanager
def opened_parquet(
    path: Path,
    limit: Limit,
    columns: Collection[str] | None = None,
    footer: Any = None,
    row_groups: Collection[int] | None = None,
) -> Iterator[tuple[Any, int | None]]:
    """Open a Parquet file whose columns, by default all, take no more memory than they may.

    Yields the file with the rows to read at a time, None for all. Texts are read as dictionaries if
    that can be, so that a long one that is there often is held once.
    ``row_groups`` are those that will be read, by default all; ``footer`` is that of the file if it
    has been read before.
    """
    parquet = require("pyarrow.parquet", EXTRA)
    limit.check(path.stat().st_size)
    footer = read_footer(path) if footer is None else footer
    dictionaries, rows = check_pages(path, footer, limit, columns, row_groups)
    with parquet.ParquetFile(path, read_dictionary=dictionaries) as file:
        yield file, rows


def read_whole(path: Path, limit: Limit) -> Any:
    """Return a Parquet file as an Arrow table, in which texts are dictionaries."""
    with opened_parquet(path, limit) as (file, rows):
        return _read(file, rows, limit)


def check_parquet(path: Path, limit: Limit, columns: Collection[str] | None) -> None:
    """Refuse a Parquet file whose columns, by default all, take more memory than they may."""
    with opened_parquet(path, limit, columns):
        pass


def read_parquet(path: Path, types: Mapping[str, str], limit: Limit) -> pd.DataFrame:
    """Read columns of a Parquet file, labels as categories."""
    import pyarrow as pa

    kinds = {
        "string": pa.dictionary(pa.int32(), pa.string()),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "value": pa.float64(),
    }
    with opened_parquet(path, limit, types) as (file, rows):
        held = file.schema_arrow.names
        if missing := [name for name in types if name not in held]:
            raise KeyError(missing[0])
        if any(held.count(name) > 1 for name in types):
            raise KeyError("a column is there twice")
        table = _read(file, rows, limit, list(types))
    columns = []
    for name, kind in types.items():
        column = _cast(table.column(name), kinds[kind])
        if kind != "value":
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            column = column.unify_dictionaries()
        columns.append(column)
    del table
    return pa.table(columns, names=list(types)).to_pandas(split_blocks=True, self_destruct=True)


def write_parquet(frame: pd.DataFrame, path: Path, facts: Mapping[str, str] | None) -> None:
    """Write a frame, with what the metadata of the schema says."""
    pa, parquet = require("pyarrow", EXTRA), require("pyarrow.parquet", EXTRA)
    columns = []
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        plain = column.dtype == np.float64 and not np.isnan(column.to_numpy()).any()
        # numbers of which none is missing are not copied
        columns.append(pa.array(column.to_numpy() if plain else column, from_pandas=not plain))
    table = pa.table(columns, names=frame.columns.tolist())
    # readers are told of plain texts, not of how they are held
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    told = base64.b64encode(pa.schema(fields, facts).serialize().to_pybytes())
    with parquet.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({**(facts or {}), "ARROW:schema": told})


def parquet_as_text(path: Path, limit: Limit) -> TextTable:
    """Return the first rows of a Parquet file as text."""
    import pyarrow as pa

    schema = read_footer(path).schema.to_arrow_schema()
    kinds = {field.name: field.type for field in schema}
    flat = [name for name, kind in kinds.items() if not pa.types.is_nested(kind)]
    parts: dict[str, list[Any]] = {name: [] for name in flat}
    rows = size = 0
    with opened_parquet(path, limit, flat) as (file, most):
        each = ROWS_AS_TEXT if most is None else min(ROWS_AS_TEXT, most)
        for batch in file.iter_batches(each, columns=flat, use_threads=False):
            size += _plain_size(batch)
            limit.check(size)
            for name in kinds.keys() & set(batch.schema.names):
                parts[name].append(_as_objects(batch.column(batch.schema.names.index(name))))
            rows += batch.num_rows
            if size > MOST_TEXT:
                break
    empty = np.empty(0, dtype=object)
    columns = {
        name: np.concatenate([empty, *parts[name]])
        if name in parts
        else np.full(rows, f"a {kind}", dtype=object)  # nested types have no text
        for name, kind in kinds.items()
    }
    problems = [
        Problem(path.name, "the column is there twice", None, f"column {name}")
        for name in kinds
        if schema.names.count(name) > 1
    ]
    return TextTable(columns, np.arange(1, rows + 1), problems)


def _read(file: Any, rows: int | None, limit: Limit, columns: list[str] | None = None) -> Any:
    import pyarrow as pa

    if rows is None:
        table = file.read(columns=columns)
        limit.check(_plain_size(table))
        return table
    found, size = [], 0
    for batch in file.iter_batches(min(rows, MOST_ROWS), columns=columns, use_threads=False):
        found.append(batch)
        size += _plain_size(batch)
        limit.check(size)
    schema = found[0].schema if found else file.schema_arrow
    return pa.Table.from_batches(found, schema)


def _plain_size(table: Any) -> int:
    """Return the bytes of a table or batch, with texts as often as they are there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for column in table.columns:
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            size += chunk.nbytes
            if pa.types.is_dictionary(chunk.type):
                lengths = pc.binary_length(chunk.dictionary)
                size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return int(size)


def _cast(column: Any, kind: Any) -> Any:
    """Return a column in another type; what is in a dictionary is turned once."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.cast(kind)
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    chunks = []
    for chunk in column.chunks:
        values = chunk.dictionary.cast(inner)
        chunks.append(
            pa.DictionaryArray.from_arrays(chunk.indices.cast(kind.index_type), values)
            if pa.types.is_dictionary(kind)
            else values.take(chunk.indices)
        )
    return pa.chunked_array(chunks, kind)


def _as_objects(column: Any) -> Any:
    """Return the cells of a column as text, None where they are empty."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).to_numpy(zero_copy_only=False)
    texts = column.dictionary.cast(pa.string()).to_numpy(zero_copy_only=False)
    indices = column.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return np.array([*texts, None], dtype=object)[indices]
