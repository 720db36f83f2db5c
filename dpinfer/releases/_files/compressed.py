"""Files as streams of bytes that are decompressed on the way, and end where they become too large.

The ending of the name says how a file is compressed, as it does for pandas.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpinfer.releases._files.limits import Limit


def _only_member(path: Path) -> Any:
    """Return the one file that is in an archive."""
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    if len(names) != 1:
        raise OSError(f"an archive must hold one file, got {len(names)}")
    return archive.open(names[0])


def _zstandard(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd")


OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zip": _only_member,
    ".zst": _zstandard,
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
    import pyarrow as pa

    try:
        with OPENERS.get(path.suffix, _plain)(path) as stream:
            yield _Counted(stream, limit)
    except (*BROKEN, pa.ArrowException) as error:
        raise OSError(str(error)) from error


def _plain(path: Path) -> Any:
    return path.open("rb")


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
