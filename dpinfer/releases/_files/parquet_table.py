"""Tables in Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.parquet_footer import Footer
from dpinfer.releases._files.parquet_pages import check_pages
from dpinfer.releases._files.text_table import MOST_TEXT, TextTable
from dpinfer.releases.problems import Problem

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
    """Return columns of a file, read as many rows at a time as may be."""
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
