"""Releases in files: a CSV or Parquet table with a JSON sidecar."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpinfer._check import show
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.frames import labels_of_frame, published_in_frame, workload_of_frame
from dpinfer.releases.limits import Limit, Problem, TooLargeError, raise_first
from dpinfer.releases.release import Release
from dpinfer.releases.sidecar import Sidecar, default_sidecar, describe, load_sidecar, parse_sidecar
from dpinfer.releases.tables import (
    TableCheck,
    check_path,
    check_table_path,
    read_columns,
    read_text,
    write_table,
)


def read_release(
    path: str | Path,
    metadata: str | Path | None = None,
    *,
    field: str | None = None,
    max_bytes: int | None = None,
) -> Release:
    """Read a release from a table and its sidecar.

    Parameters
    ----------
    path : str or Path
        The table: ``.csv``, ``.csv.gz`` or ``.parquet``.
    metadata : str or Path, optional
        The sidecar; by default the file beside the table named as it with ``-metadata.json`` after.
    field : str, optional
        The noisy column to read, where the sidecar describes several.
    max_bytes : int, optional
        The most bytes that the decoded table, and the sidecar with the cells that it states, may
        take. By default 256 MB; more for large files, 100 times the size of the table and 10 times
        that of the sidecar: a small file cannot fill the memory.

    Returns
    -------
    Release
        The values in the order of the rows.

    Raises
    ------
    InvalidParameterError
        If there is no such file.
    IncompatibleReleaseError
        If the table or its sidecar is not in order, or too large; the message names the file, the
        line and the field of the first problem, and ``problems`` of the error holds all that
        :func:`validate_release` lists.

    Notes
    -----
    The sidecar is a table descriptor in the style of Frictionless Data whose noisy field has a
    ``privacy`` object; its JSON Schema is ``dpinfer/releases/sidecar.schema.json``, and
    ``dpinfer init`` writes one. The fields of
    its ``primaryKey`` label the rows; an empty cell there says that the row sums over the
    attribute. No other file than these two is opened, whatever they say.
    """
    table = check_table_path(path)
    limit = Limit.of(table, max_bytes)
    content, problems = load_sidecar(_sidecar_path(table, metadata), table.name, max_bytes)
    raise_first(problems)
    sidecar = parse_sidecar(content, field)
    try:
        return _release(table, sidecar, limit)
    except TooLargeError:
        raise
    except DPInferError as error:
        raise_first(list(TableCheck(table.name, read_text(table, limit), sidecar).problems()))
        raise IncompatibleReleaseError(f"{table.name}: {error}") from error


def validate_release(
    path: str | Path, metadata: str | Path | None = None, *, max_bytes: int | None = None
) -> list[Problem]:
    """List what is wrong with a release's table and its sidecar.

    Parameters
    ----------
    path : str or Path
        The table: ``.csv``, ``.csv.gz`` or ``.parquet``.
    metadata : str or Path, optional
        The sidecar; by default the table's name followed by ``-metadata.json``.
    max_bytes : int, optional
        The most bytes that the table and the sidecar may take, as for :func:`read_release`.

    Returns
    -------
    list of Problem
        All problems of the sidecar if there are any, else those of the table, each with its file,
        line and field; empty for a valid release. A problem after the first 16 MB of a table may be
        named without its line.

    Raises
    ------
    InvalidParameterError
        If there is no such file.
    IncompatibleReleaseError
        If the sidecar is not JSON.
    """
    table = check_table_path(path)
    limit = Limit.of(table, max_bytes)
    place = _sidecar_path(table, metadata)
    try:
        content, problems = load_sidecar(place, table.name, max_bytes)
    except TooLargeError as error:
        return [Problem(place.name, str(error).removeprefix(f"{place}: "))]
    if problems:
        return problems
    for part in content["schema"]["fields"]:
        if "privacy" in part:
            sidecar = parse_sidecar(content, part["name"])
            try:
                _release(table, sidecar, limit)
            except TooLargeError as error:
                problems.append(Problem(table.name, str(error).removeprefix(f"{table}: ")))
            except DPInferError as error:
                found = list(TableCheck(table.name, read_text(table, limit), sidecar).problems())
                problems += found or [Problem(table.name, str(error))]
    return list(dict.fromkeys(problems))


def write_release(
    release: Release, path: str | Path, *, field: str = "value", title: str | None = None
) -> None:
    """Write a release as a table and its sidecar, ``path`` followed by ``-metadata.json``.

    Both files are put in place when they are complete: neither is ever there half-written.

    Parameters
    ----------
    release : Release
        The release. Its labels must be strings, numbers or booleans, one type for each level.
    path : str or Path
        The table to write: ``.csv``, ``.csv.gz`` or ``.parquet``.
    field : str
        The name of the column of values.
    title : str, optional
        A title for the sidecar.

    Raises
    ------
    InvalidParameterError
        If the folder does not exist or the file name has another ending.
    IncompatibleReleaseError
        If the labels cannot be held by a file.

    Notes
    -----
    Texts are written as they are. A spreadsheet takes a cell of a CSV file that begins with ``=``,
    ``+``, ``-`` or ``@`` for a formula, even in quotes: where labels come from people whom you do
    not trust, import such columns as text, or use Parquet.
    """
    if not isinstance(release, Release):
        raise InvalidParameterError(f"release must be a Release, got {show(release)}")
    if title is not None and not isinstance(title, str):
        raise InvalidParameterError(f"title must be a string, got {show(title)}")
    table = check_table_path(path, there=False)
    sidecar = default_sidecar(table)
    try:
        frame, descriptor = describe(release, table.name, field, title)
        text = json.dumps(descriptor, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with TemporaryDirectory(prefix=f".{table.name}-", dir=table.parent) as folder:
            draft = Path(folder)
            write_table(frame, draft / table.name)
            (draft / sidecar.name).write_text(text, encoding="utf-8")
            os.replace(draft / table.name, table)
            os.replace(draft / sidecar.name, sidecar)
    except OSError as error:
        raise InvalidParameterError(f"path must be writable, got {table}: {error}") from error
    except UnicodeEncodeError as error:
        raise IncompatibleReleaseError(
            "labels, field, title and the name of the release must not hold one half of a "
            f"character to be written to a file, got {show(error.object[error.start])}"
        ) from error


def _sidecar_path(table: Path, metadata: str | Path | None) -> Path:
    path = default_sidecar(table) if metadata is None else check_path(metadata, "metadata")
    try:
        found = path.is_file()
    except OSError:  # such as a name that is too long
        found = False
    if not found:
        raise InvalidParameterError(
            f"metadata must be the JSON sidecar of {table.name}, there is no file {path}: write "
            "one, as by `dpinfer init`, or read the table yourself and use Release.from_frame"
        )
    return path


def _release(table: Path, sidecar: Sidecar, limit: Limit) -> Release:
    """Read the columns of a table that its sidecar names, and return what both say."""
    kind = sidecar.mechanism["mechanism"]
    texts = [kind["column"]] if isinstance(kind, dict) else []
    types = {name: "string" if name in texts else "value" for name in sidecar.columns}
    types |= {name: sidecar.types.get(name, "string") for name in sidecar.keys}
    frame = read_columns(table, types, limit)
    queries = sidecar.workload(len(frame))
    if queries is None:
        queries = workload_of_frame(frame, sidecar.keys or None, sidecar.domain)
    elif sidecar.keys:
        queries = queries.with_labels(labels_of_frame(frame, sidecar.keys))
    privacy = sidecar.privacy
    rounding = sidecar.step("rounding")
    rule = privacy.get("threshold"), sidecar.clamp, sidecar.step("bin_size") or 1, rounding
    shared = sidecar.shared(len(frame))
    law: Any = None if "covariance" in shared else sidecar.mechanism
    if "weights" in shared and rounding is not None:  # of the noises, not of the values
        law, rule = law | {"rounding": rounding}, (*rule[:3], None)
    published = published_in_frame(frame, sidecar.value, law, *rule) | shared
    stated: dict[str, Any] = {
        name: privacy.get(name) for name in ("neighbours", "sensitivity", "guarantee", "unit")
    }
    return Release(**published, workload=queries, name=sidecar.name, **stated)
