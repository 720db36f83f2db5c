"""Reports in files, each written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from dpinfer._validation import show
from dpinfer.errors import InvalidParameterError
from dpinfer.releases._files.table import check_path
from dpinfer.reporting import page, tables
from dpinfer.reporting.analysis import Analysis

WRITERS: dict[str, Callable[[Analysis, Path], None]] = {
    ".html": page.write_html,
    ".csv": tables.write_csv,
    ".json": tables.write_json,
    ".parquet": tables.write_parquet,
}


def check_report_paths(paths: Sequence[Path]) -> None:
    """Refuse reports that could not be written, before any work is done."""
    for path in paths:
        check_path(path, "output")
        if path.suffix not in WRITERS:
            raise InvalidParameterError(
                f"output must end in one of {', '.join(WRITERS)}, got {show(path.name)}"
            )
        if not os.path.isdir(path.parent):  # which, unlike pathlib, copes with any name
            raise InvalidParameterError(f"output must be in an existing folder, got {path}")
        if os.path.isdir(path):
            raise InvalidParameterError(f"output must be a file, got the directory {path}")
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise InvalidParameterError("output must be another file each time it is given")


def write_reports(analysis: Analysis, paths: Sequence[Path]) -> None:
    """Write an analysis in the formats that the endings of the paths name.

    All files are written beside their places first and then moved there, so that a failure leaves
    what was there before.
    """
    check_report_paths(paths)
    with ExitStack() as folders:
        drafts = [_written(analysis, path, folders) for path in paths]
        for draft, path in zip(drafts, paths, strict=True):
            try:
                os.replace(draft, path)
            except OSError as error:
                raise _refused(path, error) from error


def _written(analysis: Analysis, path: Path, folders: ExitStack) -> Path:
    """Return a complete report in a folder of its own on the same disk."""
    try:
        folder = folders.enter_context(TemporaryDirectory(prefix=".dpinfer-", dir=path.parent))
        draft = Path(folder) / f"draft{path.suffix}"
        WRITERS[path.suffix](analysis, draft)
    except OSError as error:
        raise _refused(path, error) from error
    return draft


def _refused(path: Path, error: OSError) -> InvalidParameterError:
    return InvalidParameterError(f"output must be writable, got {path}: {error}")
