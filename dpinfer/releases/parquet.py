"""What the pages of a Parquet file hold, found from their headers before anything is decoded.

A page of a few bytes can stand for two thousand million values, and what the footer says of sizes
need not be true. The headers of the pages are what a reader goes by: they say how many values it
will make of them, and how many bytes it will decompress.

Reference: Apache Parquet format 2.10, ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dpinfer.releases.limits import MOST_TEXT, Limit, Problem, TextTable

# Structures in Thrift's compact protocol, of which only what is asked for is kept.


Wanted = Mapping[int, Any]
"""The fields of a structure by their numbers: the kind of each, what is wanted of a structure, or
what is wanted of each of the structures in a list, as a list of it."""

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
            elif isinstance(want, list) and kind == LIST:
                fields[number] = self._structs(want[0], depth + 1)
            elif want == BINARY == kind:
                size = self._natural()
                self._skip(size)
                fields[number] = self.data[self.at - size : self.at]
            elif want == kind:
                fields[number] = self._whole()
            elif kind not in (TRUE, FALSE):
                self._pass(kind, depth)
        return fields

    def _structs(self, wanted: Wanted, depth: int) -> list[dict[int, Any]]:
        kind, size = self._list()
        if kind != STRUCT:
            raise ValueError("a list of another kind than it should be")
        return [self.struct(wanted, depth) for _ in range(size)]

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


# What the end of a Parquet file says of its columns, and where they are.


LONGEST = 2**24
"""Bytes of the end of a file at most: it stands for a hundred thousand pieces of columns."""

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)

REQUIRED, FOOTER_DECIMAL = 0, 5

_ELEMENT = {1: I32, 2: I32, 3: I32, 4: BINARY, 5: I32, 6: I32, 10: {5: {}}}
_CHUNK = {3: {5: I64, 7: I64, 9: I64, 11: I64, 12: {5: BINARY, 6: BINARY}}}
_FOOTER = {2: [_ELEMENT], 4: [{1: [_CHUNK], 3: I64}]}


class BrokenParquetError(OSError):
    """What a Parquet file says of itself cannot be read."""


@dataclass(frozen=True)
class Leaf:
    """A column of values.

    ``path`` is its name after those of the columns that it is in, ``kind`` its physical type,
    ``length`` the bytes of a value of fixed length, ``nested`` whether values may be missing or
    several.
    """

    path: str
    kind: int
    length: int
    nested: bool
    decimal: bool


@dataclass(frozen=True)
class Chunk:
    """The values of a column in a row group, and the bytes of the least and the largest of them."""

    values: int
    start: int
    size: int
    least: bytes | None
    largest: bytes | None


@dataclass(frozen=True)
class RowGroup:
    """Rows with a piece of each column."""

    rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Footer:
    """The columns and the row groups of a file."""

    leaves: tuple[Leaf, ...]
    groups: tuple[RowGroup, ...]

    @classmethod
    def read(cls, path: Path) -> Footer:
        """Read the end of a file."""
        try:
            said = ThriftReader(_end(path)).struct(_FOOTER)
            leaves = tuple(_leaves(said[2]))
            groups = tuple(_group(group, len(leaves)) for group in said.get(4, []))
        except (LookupError, ValueError) as error:
            raise BrokenParquetError(f"the end of the file cannot be read: {error}") from error
        return cls(leaves, groups)


def _end(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        last = file.read(8)
        length = int.from_bytes(last[:4], "little")
        if len(last) < 8 or last[4:] != b"PAR1" or length > size - 8:
            raise ValueError("no Parquet file ends like this")
        if length > LONGEST:
            raise ValueError(f"it has {length} bytes, more than {LONGEST}")
        file.seek(size - 8 - length)
        return file.read(length)


def _leaves(elements: Sequence[dict[int, Any]]) -> Iterator[Leaf]:
    waiting = [(elements[0].get(5, 0), "", False)]  # columns to come, where they are in
    for element in elements[1:]:
        while waiting and waiting[-1][0] <= 0:
            waiting.pop()
        left, above, nested = waiting.pop()
        waiting.append((left - 1, above, nested))
        path = above + element[4].decode("utf-8", errors="replace")
        inside = nested or element.get(3, REQUIRED) != REQUIRED
        if element.get(5, 0):
            waiting.append((element[5], f"{path}.", inside))
        else:
            decimal = element.get(6) == FOOTER_DECIMAL or 5 in element.get(10, {})
            yield Leaf(path, element[1], _footer_natural(element.get(2, 0)), inside, decimal)


def _group(said: dict[int, Any], columns: int) -> RowGroup:
    chunks = tuple(_chunk(chunk[3]) for chunk in said[1])
    if len(chunks) != columns:
        raise ValueError(f"a row group must have {columns} columns, got {len(chunks)}")
    return RowGroup(_footer_natural(said[3]), chunks)


def _chunk(said: dict[int, Any]) -> Chunk:
    start = _footer_natural(said[9])
    if 0 < said.get(11, 0) < start:  # pages of a dictionary come first
        start = said[11]
    known = said.get(12, {})
    return Chunk(
        _footer_natural(said[5]), start, _footer_natural(said[7]), known.get(6), known.get(5)
    )


def _footer_natural(value: int) -> int:
    if not 0 <= value < 2**63:
        raise ValueError("a number that files cannot have")
    return value


WIDTHS = {BOOLEAN: 1, INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8}
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


@dataclass(frozen=True)
class Manner:
    """How to read a file so that no more memory is taken than was counted.

    ``dictionaries``: the columns of texts that must be read as dictionaries, as plain texts may
    take far more; ``rows``: rows to read at a time, after which what was read so far must be
    counted; None for all. Texts that are given by their differences are not read as dictionaries,
    and each may be as long as its page.
    """

    dictionaries: list[str]
    rows: int | None


def check_pages(
    path: Path,
    footer: Footer,
    limit: Limit,
    columns: Collection[str] | None = None,
    row_groups: Collection[int] | None = None,
) -> Manner:
    """Refuse a Parquet file whose columns, by default all, take too many bytes once decoded.

    Return how the others must then be read.
    """
    tallies = {
        at: _Tally(leaf) for at, leaf in enumerate(footer.leaves) if _wanted(leaf.path, columns)
    }
    total = 0
    with path.open("rb") as file:
        for number in range(len(footer.groups)) if row_groups is None else row_groups:
            group = footer.groups[number]
            for at, own in tallies.items():
                total -= own.size
                for size in own.add(_pages(file, group.chunks[at]), group.rows):
                    limit.check(total + size)
                total += own.size
    widest = sum(one.widest for one in tallies.values() if one.delta)
    return Manner(
        dictionaries=[one.leaf.path for one in tallies.values() if one.text and not one.delta],
        rows=max(1, limit.most // widest) if widest else None,
    )


def _wanted(path: str, columns: Collection[str] | None) -> bool:
    """Whether a leaf of the schema is one of the columns, or within one."""
    return columns is None or any(path == name or path.startswith(f"{name}.") for name in columns)


class _Tally:
    """The bytes that a column needs, with texts as entries of a dictionary."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.text = leaf.kind == BYTE_ARRAY
        self.delta = False
        self.size = self.widest = 0
        width = LEVELS if self.text else WIDTHS.get(leaf.kind, leaf.length)
        width = max(width, DECIMAL) if leaf.decimal else width
        self._width = width + (LEVELS if leaf.nested else 0)

    def add(self, pages: Iterator[_Page], rows: int) -> Iterator[int]:
        """Take in the pages of a row group; yield the bytes needed after each of them."""
        left = rows  # memory for each row is reserved, whatever the pages hold
        self.size += rows * self._width
        yield self.size
        for page in pages:
            left -= page.values
            self.size += self._width * -min(left, 0)
            left = max(left, 0)
            if self.text:
                self.delta |= page.encoding in (DELTA_LENGTH, DELTA_BYTE_ARRAY)
                self.size += page.size
                self.widest = max(self.widest, page.size)
            yield self.size + page.size


@dataclass(frozen=True)
class _Page:
    values: int
    size: int
    encoding: int


def _pages(file: BinaryIO, chunk: Chunk) -> Iterator[_Page]:
    """Yield the pages of a column in a row group that a reader would read."""
    at = chunk.start
    end = at + chunk.size + PADDING
    seen = 0
    while seen < chunk.values and at < end:
        length, header = _header(file, at)
        kind, size, compressed = (_natural(header.get(field)) for field in (1, 2, 3))
        inner = {DATA: 5, DICTIONARY: 7, DATA_V2: 8}.get(kind)
        said = {} if inner is None else header.get(inner)
        if said is None:
            raise BrokenParquetError("the header of a page does not say what is in it")
        values = _natural(said.get(1, 0))
        encoding = _natural(said.get(4 if kind == DATA_V2 else 2, 0))
        if kind in (DATA, DATA_V2):
            seen += values
            yield _Page(values, size, encoding)
        else:  # of a dictionary also the places of its entries are listed
            yield _Page(0, size + 16 * values, 0)
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


def _natural(value: int | None) -> int:
    """Return a number of 32 bits >= 0, which is all that readers take."""
    if value is None or not 0 <= value < 2**31:
        raise BrokenParquetError("the header of a page has a number that pages cannot have")
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
    footer: Footer | None = None,
    row_groups: Collection[int] | None = None,
) -> Iterator[tuple[Any, int | None]]:
    """Open a Parquet file whose columns, by default all, take no more memory than they may.

    Yields the file with the rows to read at a time, None for all. Texts are read as dictionaries if
    that can be, so that a long one that is there often is held once.
    ``row_groups`` are those that will be read, by default all; ``footer`` is that of the file if it
    has been read before.
    """
    from pyarrow import parquet

    limit.check(path.stat().st_size)
    footer = Footer.read(path) if footer is None else footer
    manner = check_pages(path, footer, limit, columns, row_groups)
    with parquet.ParquetFile(path, read_dictionary=manner.dictionaries) as file:
        yield file, manner.rows


def read_whole(path: Path, limit: Limit) -> Any:
    """Return a Parquet file as an Arrow table, in which texts are dictionaries."""
    with opened_parquet(path, limit) as (file, rows):
        return _read(file, rows, limit)


def check_parquet(path: Path, limit: Limit, columns: Collection[str] | None = None) -> None:
    """Refuse a Parquet file whose columns, by default all, take more memory than they may."""
    with opened_parquet(path, limit, columns):
        pass


def read_parquet(path: Path, types: Mapping[str, Any], limit: Limit) -> Any:
    """Return columns of a Parquet file as an Arrow table."""
    import pyarrow as pa

    with opened_parquet(path, limit, types) as (file, rows):
        held = file.schema_arrow.names
        if missing := [name for name in types if name not in held]:
            raise KeyError(missing[0])
        if any(held.count(name) > 1 for name in types):
            raise KeyError("a column is there twice")
        table = _read(file, rows, limit, list(types))
    columns = [_cast(table.column(name), kind) for name, kind in types.items()]
    return pa.table(columns, names=list(types))


def parquet_as_text(path: Path, limit: Limit) -> TextTable:
    """Return the first rows of a Parquet file as text."""
    import numpy as np
    import pyarrow as pa

    schema = _schema(path)
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


def _schema(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_schema(path)


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
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).to_numpy(zero_copy_only=False)
    texts = column.dictionary.cast(pa.string()).to_numpy(zero_copy_only=False)
    indices = column.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return np.array([*texts, None], dtype=object)[indices]
