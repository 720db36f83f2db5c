"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from dpinfer._check import show
from dpinfer.errors import InvalidParameterError


def check_output(path: Path, endings: Collection[str]) -> None:
    """Refuse a file that could not be written, before any work is done."""
    if path.suffix not in endings:
        raise InvalidParameterError(
            f"output must end in one of {', '.join(endings)}, got {show(path.name)}"
        )
    if not os.path.isdir(path.parent):  # which, unlike pathlib, copes with any name
        raise InvalidParameterError(f"output must be in an existing folder, got {path}")
    if os.path.isdir(path):
        raise InvalidParameterError(f"output must be a file, got the directory {path}")


def write_whole(
    files: Sequence[tuple[Path, Callable[[Path], object]]], name: str = "output"
) -> None:
    """Write all files beside their places first, and then move them there.

    A failure leaves what was there before; its message names the argument.
    """
    path = Path()
    try:
        with ExitStack() as folders:
            drafts = []
            for path, write in files:
                folder = TemporaryDirectory(prefix=".dpinfer-", dir=path.parent)
                draft = Path(folders.enter_context(folder)) / f"draft{path.suffix}"
                write(draft)
                drafts.append((draft, path))
            for draft, path in drafts:
                os.replace(draft, path)
    except (OSError, ValueError) as error:  # the latter: a name that no file can have
        raise InvalidParameterError(f"{name} must be writable, got {path}: {error}") from error
