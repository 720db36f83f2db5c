"""How large a file may become when it is read, so that a small one cannot fill the memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpinfer._validation import check_integer
from dpinfer.errors import IncompatibleReleaseError

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
