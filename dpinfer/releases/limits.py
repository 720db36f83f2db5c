"""What a file may take, what is wrong with one, and its bytes, decompressed on the way.

The ending of the name says how a file is compressed, as it does for pandas.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpinfer._check import check_integer, one_line, require
from dpinfer.errors import IncompatibleReleaseError

# What is wrong with a published file: where, and what to do.


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a release's file or its sidecar.

    Attributes
    ----------
    file : str
        Name of the file.
    message : str
        What is wrong.
    line : int or None
        Line of the file, counted from 1 with the header of a table as line 1; for a Parquet file
        the number of the row, counted from 1.
    field : str or None
        The column of the table, or the place in the sidecar.
    example : str or None
        What would be right in the sidecar.

    Examples
    --------
    >>> print(Problem("counts.csv", "must be a finite number, got 'x'", 3, "column value"))
    counts.csv, line 3, column value: must be a finite number, got 'x'
    """

    file: str
    message: str
    line: int | None = None
    field: str | None = None
    example: str | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        field = "" if self.field is None else f", {self.field}"
        example = "" if self.example is None else f"; such as {self.example}"
        return one_line(f"{self.file}{line}{field}: {self.message}{example}", most=1000)


def raise_first(problems: Sequence[Problem]) -> None:
    """Raise the first problem, if there is one, with all of them beside it."""
    if problems:
        more = f" (and {len(problems) - 1} more, in problems)" if len(problems) > 1 else ""
        raise IncompatibleReleaseError(f"{problems[0]}{more}", problems=problems)


# How large a file may become when it is read, so that a small one cannot fill the memory.


FLOOR = 2**28
"""Bytes that any file may take: 256 MB."""

EXPANSION = 100
"""How many times its own size a larger file may take; noisy numbers cannot be packed like that."""


class TooLargeError(IncompatibleReleaseError):
    """A file takes more memory than it may."""


def check_max_bytes(max_bytes: object) -> int | None:
    """Return the limit that the caller sets, if there is one."""
    return None if max_bytes is None else check_integer(max_bytes, "max_bytes", ge=1)


@dataclass(frozen=True)
class Limit:
    """The most bytes that the content of a file may take when it is no longer compressed."""

    path: Path
    most: int

    @classmethod
    def of(cls, path: Path, max_bytes: int | None, expansion: int = EXPANSION) -> Limit:
        """Return the limit that the caller sets, or one that follows from the size of the file."""
        most = check_max_bytes(max_bytes)
        return cls(path, max(FLOOR, expansion * path.stat().st_size) if most is None else most)

    def check(self, size: int) -> None:
        """Refuse a content of ``size`` bytes, or of which so many have been seen, as too large."""
        if size > self.most:
            raise TooLargeError(
                f"{self.path}: this file of {self.path.stat().st_size} bytes takes {size} bytes or "
                f"more when it is read, and may take at most {self.most}: if you trust where it "
                "comes from, pass a larger max_bytes (--max-bytes on the command line)"
            )


def _only_member(path: Path) -> Any:
    """Return the one file that is in an archive."""
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    if len(names) != 1:
        raise OSError(f"an archive must hold one file, got {len(names)}")
    return archive.open(names[0])


OPENERS: dict[str, Callable[[Path], Any]] = {
    "": lambda path: path.open("rb"),
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zip": _only_member,
    ".zst": lambda path: require("pyarrow", "parquet").input_stream(str(path), compression="zstd"),
}

BROKEN = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,  # an archive with another way of compression
    RuntimeError,  # an archive with a password
    MemoryError,  # what is broken may ask for any number of bytes
)


@contextmanager
def decompressed(path: Path, limit: Limit) -> Iterator[io.RawIOBase]:
    """Open a file; only OSError is raised where it is broken, TooLargeError where it is too large.

    A file that is larger than it may be before it is decompressed is refused at once.
    """
    limit.check(path.stat().st_size)
    try:
        with OPENERS.get(path.suffix, OPENERS[""])(path) as stream:
            yield _Counted(stream, limit)
    except BROKEN as error:
        raise OSError(str(error)) from error


class _Counted(io.RawIOBase):
    """Reads a stream, and stops when it has given more bytes than its file may take."""

    def __init__(self, stream: Any, limit: Limit) -> None:
        self._stream = stream
        self._limit = limit
        self._seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._stream.read(len(buffer))
        buffer[: len(found)] = found
        self._seen += len(found)
        self._limit.check(self._seen)
        return len(found)


# A table of which every cell is text.


MOST_TEXT = 2**24
"""Bytes of a table that are looked at as text, of which objects take many times as much."""


@dataclass(frozen=True)
class TextTable:
    """The columns of a table as text, for finding what is wrong with it.

    ``columns`` holds object arrays of strings with None in empty cells, ``lines`` the line of
    each row, ``problems`` the rows that are not rows of the table. Of a long table only the first
    rows are here.
    """

    columns: Mapping[str, Any]
    lines: Any
    problems: list[Problem]
