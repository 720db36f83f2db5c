"""Tables in CSV files, plain or compressed by gzip."""

from __future__ import annotations

import codecs
import csv
import io
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases._files.compressed import decompressed
from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.text_table import MOST_TEXT, TextTable
from dpinfer.releases.problems import Problem

LONGEST_HEADER = 2**20
"""Bytes of the first line, which is all that Arrow takes."""

CHUNK = 2**20

MOST_LISTED = 100
"""Rows with another number of cells that are listed; the rest is counted."""


def read_csv(path: Path, types: Mapping[str, Any], limit: Limit) -> Any:
    """Return columns of a CSV file as an Arrow table."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = _names(path, limit)
    if any(names.count(name) > 1 for name in types):
        raise KeyError("a column is there twice")
    found: list[Any] = []
    size = 0
    with decompressed(path, limit) as source:
        batches = arrow_csv.open_csv(
            source,
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=_conversion(types),
        )
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            limit.check(size)
    return pa.Table.from_batches(found, batches.schema)


def csv_as_text(path: Path, limit: Limit) -> TextTable:
    """Return the first rows of a CSV file as text."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    bad = array("q")  # lines, of which there may be as many as the file has
    problems: list[Problem] = []

    def skip(row: Any) -> str:
        bad.append(row.number)
        if len(bad) <= MOST_LISTED:
            words = f"must have {row.expected_columns} cells, got {row.actual_columns}"
            problems.append(Problem(path.name, words, row.number))
        return "skip"

    _check_utf8(path, limit)
    names = _names(path, limit)
    found: list[Any] = []
    size = 0
    with decompressed(path, limit) as source:
        batches = arrow_csv.open_csv(
            source,
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=_conversion(dict.fromkeys(names, pa.string()), all_columns=True),
        )
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size > MOST_TEXT:
                break
    table = pa.Table.from_batches(found, batches.schema)
    whole = np.ones(table.num_rows + len(bad), dtype=bool)
    skipped = np.frombuffer(bad, dtype=np.int64) - 2
    whole[skipped[skipped < len(whole)]] = False
    lines = np.flatnonzero(whole)[: table.num_rows] + 2
    if len(bad) > MOST_LISTED:
        words = f"must have {len(names)} cells, in {len(bad) - MOST_LISTED} more rows"
        problems.append(Problem(path.name, words))
    columns = {name: table.column(k).to_numpy() for k, name in enumerate(names)}
    if len(columns) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        problems.append(Problem(path.name, "the column is there twice", 1, f"column {repeated}"))
    return TextTable(columns, lines, problems)


def _conversion(types: Mapping[str, Any], *, all_columns: bool = False) -> Any:
    from pyarrow import csv as arrow_csv

    return arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=None if all_columns else list(types),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _names(path: Path, limit: Limit) -> list[str]:
    """Return the names in the header of a CSV file."""
    with decompressed(path, limit) as stream:
        beginning = io.BytesIO(io.BufferedReader(stream).read(LONGEST_HEADER))
    text = io.TextIOWrapper(beginning, encoding="utf-8-sig", newline="")
    return next((row for row in csv.reader(text) if row), [])


def _check_utf8(path: Path, limit: Limit) -> None:
    """Refuse bytes that are not UTF-8, by their line."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with decompressed(path, limit) as stream:
        while True:
            chunk = stream.read(CHUNK)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise IncompatibleReleaseError(
                    f"{path.name}, line {line}: must be UTF-8 text: {error.reason}"
                ) from error
            if not chunk:
                return
            line += chunk.count(b"\n")
