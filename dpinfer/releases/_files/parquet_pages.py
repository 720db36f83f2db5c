"""What the pages of a Parquet file hold, found from their headers before anything is decoded.

A page of a few bytes can stand for two thousand million values, and what the footer says of sizes
need not be true. The headers of the pages are what a reader goes by: they say how many values it
will make of them, and how many bytes it will decompress.

Reference: Apache Parquet format 2.10, ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.parquet_footer import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    INT96,
    BrokenParquetError,
    Chunk,
    Footer,
    Leaf,
)
from dpinfer.releases._files.thrift import I32, ThriftReader, Wanted

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

    Parameters
    ----------
    dictionaries : list of str
        The columns of texts that must be read as dictionaries, as plain texts may take far more.
    rows : int or None
        Rows to read at a time, after which what was read so far must be counted; None for all.
        Texts that are given by their differences are not read as dictionaries, and each may be as
        long as its page.
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
    """Number of values, bytes before compression, and encoding of a page."""

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
