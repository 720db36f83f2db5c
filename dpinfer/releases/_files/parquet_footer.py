"""What the end of a Parquet file says of its columns, and where they are.

Arrow reads the same, but takes the whole process down where some of it does not fit together.

Reference: Apache Parquet format 2.10, ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpinfer.releases._files.thrift import BINARY, I32, I64, ThriftReader

LONGEST = 2**24
"""Bytes of the end of a file at most: it stands for a hundred thousand pieces of columns."""

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)

REQUIRED, DECIMAL = 0, 5

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
    """Return the bytes that describe the file."""
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
    """Yield the columns of values; an element of the schema is followed by those that are in it."""
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
            decimal = element.get(6) == DECIMAL or 5 in element.get(10, {})
            yield Leaf(path, element[1], _natural(element.get(2, 0)), inside, decimal)


def _group(said: dict[int, Any], columns: int) -> RowGroup:
    chunks = tuple(_chunk(chunk[3]) for chunk in said[1])
    if len(chunks) != columns:
        raise ValueError(f"a row group must have {columns} columns, got {len(chunks)}")
    return RowGroup(_natural(said[3]), chunks)


def _chunk(said: dict[int, Any]) -> Chunk:
    start = _natural(said[9])
    if 0 < said.get(11, 0) < start:  # pages of a dictionary come first
        start = said[11]
    known = said.get(12, {})
    return Chunk(_natural(said[5]), start, _natural(said[7]), known.get(6), known.get(5))


def _natural(value: int) -> int:
    if not 0 <= value < 2**63:
        raise ValueError("a number that files cannot have")
    return value
