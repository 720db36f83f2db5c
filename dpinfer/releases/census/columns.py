"""Rows of single Parquet files of noisy measurements and constraints, checked and as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, one_line, show, show_some
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.parquet_footer import BYTE_ARRAY, Footer
from dpinfer.releases._files.parquet_table import opened_parquet
from dpinfer.releases.census.ranges import EVERYTHING, CodeRange

if TYPE_CHECKING:
    import pyarrow as pa

MEASURED_COLUMNS = ("geocode", "query_name", "query_shape", "value", "variance")
CONSTRAINED_COLUMNS = ("geocode", "query_name", "query_shape", "value", "sign")

LISTS = ("query_shape", "value")

BATCH = 2**14
"""Rows that are taken out of a file at a time."""

LONGEST = 1000
"""Bytes of a code or a name at most; those of the Census Bureau have fewer than 100."""


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows of one query or constraint in one file.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        The query or constraint, as the file names it.
    sign : str
        How confidential values compare to those of a constraint; empty for measurements.
    shape : tuple of int
        The ``query_shape`` of all of these rows.
    codes : array of bytes, shape (m,)
        Codes of the units.
    values : array of int, shape (m, cells)
        Values in row-major order of the shape.
    variance : array of float, shape (m,)
        Variances of the noise; 0 for constraints.
    """

    path: Path
    name: str
    sign: str
    shape: tuple[int, ...]
    codes: NDArray[np.bytes_]
    values: NDArray[np.integer[Any]]
    variance: FloatArray


def read_rows(
    path: Path,
    columns: Sequence[str],
    *,
    subtree: str = "",
    among: CodeRange = EVERYTHING,
    queries: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> Iterator[FileRows]:
    """Read the rows of a file batch by batch, those of each query in a batch together.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of str
        The columns of measurements or of constraints.
    subtree : str, default ""
        How all codes in the file must begin.
    among : CodeRange, optional
        The codes of the rows that are wanted. Row groups are not read whose statistics say that
        they have none of them.
    queries : sequence of str, optional
        Names of the queries that are wanted.
    max_bytes : int, optional
        The most bytes that the columns may take once they are decoded.
    """
    with _reading(path):
        for batch in _batches(path, columns, among, queries, max_bytes):
            yield from _groups(path, batch, subtree)


def read_codes(
    path: Path, subtree: str = "", *, max_bytes: int | None = None
) -> NDArray[np.bytes_]:
    """Return the codes of the units in a file, each once, sorted."""
    with _reading(path):
        parts = [
            _codes(path, batch.column("geocode").unique(), subtree)
            for batch in _batches(path, ("geocode",), EVERYTHING, None, max_bytes)
        ]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype="S1")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what a broken file raises into an error that names it."""
    import pyarrow as pa

    try:
        yield
    except IncompatibleReleaseError:
        raise
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException) as error:
        raise IncompatibleReleaseError(
            f"{path} must be a Parquet file of the documented columns: {one_line(error)}"
        ) from error


def _batches(
    path: Path,
    columns: Sequence[str],
    among: CodeRange,
    queries: Sequence[str] | None,
    max_bytes: int | None,
) -> Iterator[pa.RecordBatch]:
    limit = Limit.of(path, max_bytes)
    footer = Footer.read(path)
    groups = _row_groups(footer, among)
    with opened_parquet(path, limit, columns, footer, groups) as (file, rows):
        missing = [name for name in columns if name not in file.schema_arrow.names]
        if missing:
            raise IncompatibleReleaseError(
                f"{path} must have the columns {', '.join(columns)}, missing are "
                f"{', '.join(missing)}"
            )
        for name in columns:
            _check_type(path, name, file.schema_arrow.field(name).type)
        if not groups:  # PyArrow before 19 fails where none is asked for
            return
        for batch in file.iter_batches(
            batch_size=BATCH if rows is None else min(BATCH, rows),
            row_groups=groups,
            columns=list(columns),
            use_threads=False,
        ):
            _refuse_long(path, batch)
            wanted = _wanted(batch, among, queries)
            if wanted is not None:
                batch = batch.filter(wanted)
            if batch.num_rows:
                yield batch


def _row_groups(footer: Footer, among: CodeRange) -> list[int]:
    """Return the row groups that may have codes of a range, by their statistics."""
    groups = range(len(footer.groups))
    names = [leaf.path for leaf in footer.leaves]
    if among.everything or "geocode" not in names:
        return list(groups)
    column = names.index("geocode")
    if footer.leaves[column].kind != BYTE_ARRAY:
        return list(groups)
    found = []
    for group in groups:
        known = footer.groups[group].chunks[column]
        if (
            known.least is None
            or known.largest is None
            or among.meets(known.least.decode("latin-1"), known.largest.decode("latin-1"))
        ):
            found.append(group)
    return found


def _check_type(path: Path, name: str, kind: Any) -> None:
    """Refuse a column of another type than the documented one, as far as the kind of type goes."""
    import pyarrow as pa

    lists = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    if name in LISTS and not (lists and pa.types.is_integer(kind.value_type)):
        raise IncompatibleReleaseError(
            f"{path} must have lists of whole numbers as {name}, got the type {kind}"
        )
    if name not in LISTS and (pa.types.is_nested(kind) or pa.types.is_null(kind)):
        raise IncompatibleReleaseError(
            f"{path} must have one text or number in each row as {name}, got the type {kind}"
        )


def _refuse_long(path: Path, batch: pa.RecordBatch) -> None:
    """Refuse texts of a length that would be held again for each of the rows that have them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            if longest > LONGEST:
                raise IncompatibleReleaseError(
                    f"{path} must have codes and names of at most {LONGEST} bytes, got {longest}"
                )


def _wanted(
    batch: pa.RecordBatch, among: CodeRange, queries: Sequence[str] | None
) -> pa.Array | None:
    """Return which rows are wanted; None for all, which then need not be copied."""
    import pyarrow as pa
    import pyarrow.compute as pc

    tests = []
    if not among.everything:
        tests.append(among.holds(batch.column("geocode").cast("string")))
    if queries is not None:
        names = batch.column("query_name").cast("string")
        tests.append(pc.is_in(names, pa.array(list(queries), "string")))
    if not tests:
        return None
    wanted = tests[0]
    for one in tests[1:]:
        wanted = pc.and_(wanted, one)
    # rows without a code are kept, and refused later
    wanted = wanted.fill_null(True)
    return None if wanted.true_count == len(wanted) else wanted


def _groups(path: Path, batch: pa.RecordBatch, subtree: str) -> Iterator[FileRows]:
    """Cut a batch into the rows of each query, and of each sign of a constraint."""
    import pyarrow.compute as pc

    keys = batch.column("query_name").cast("string")
    _refuse_nulls(path, batch)
    signs = "sign" in batch.schema.names
    if signs:
        keys = pc.binary_join_element_wise(keys, batch.column("sign").cast("string"), "\n")
    found = keys.dictionary_encode()
    group = found.indices.to_numpy()
    for number, key in enumerate(found.dictionary.to_pylist()):
        name, sign = key.rsplit("\n", 1) if signs else (key, "")
        rows = batch if len(found.dictionary) == 1 else batch.take(np.flatnonzero(group == number))
        codes = _codes(path, rows.column("geocode"), subtree)
        shape = _shape(path, name, rows, codes)
        values = _values(path, name, rows, codes, prod(shape))
        variance = _variance(path, name, rows, codes)
        yield FileRows(path, name, sign, shape, codes, values, variance)


def _refuse_nulls(path: Path, batch: pa.RecordBatch) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            facts = {each: batch.column(each)[row].as_py() for each in ("geocode", "query_name")}
            raise IncompatibleReleaseError(
                f"{path} must have no missing values in {name}, got one in unit "
                f"{show(facts['geocode'])}, query {show(facts['query_name'])}"
            )


def _codes(path: Path, column: pa.Array, subtree: str) -> NDArray[np.bytes_]:
    """Return codes as bytes; all must begin as those of the subtree do."""
    import pyarrow.compute as pc

    text = column.cast("string")
    good = pc.and_(pc.string_is_ascii(text), pc.starts_with(text, subtree))
    good = good.fill_null(False).to_numpy(zero_copy_only=False)
    if not good.all():
        wrong = text.take(np.flatnonzero(~good)).to_pylist()
        raise IncompatibleReleaseError(
            f"{path} must hold units whose codes begin with {show(subtree)}, got {show_some(wrong)}"
        )
    return np.asarray(text.to_numpy(zero_copy_only=False).astype("S"))


def _shape(
    path: Path, name: str, rows: pa.RecordBatch, codes: NDArray[np.bytes_]
) -> tuple[int, ...]:
    """Return the shape of a query, which must be the same in all rows."""
    import pyarrow.compute as pc

    column = rows.column("query_shape")
    first = tuple(column[0].as_py())
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    bad = lengths != len(first)
    if not bad.any():
        table = column.flatten().to_numpy(zero_copy_only=False).reshape(len(codes), len(first))
        bad = (table != np.array(first, dtype=object)).any(axis=1) if first else bad
    if bad.any() or not all(isinstance(size, int) and size > 0 for size in first):
        row = int(np.argmax(bad))
        raise IncompatibleReleaseError(
            f"{path} must have the same query_shape in all units for query {show(name)}, of whole "
            f"numbers above 0, got {show(column[row].as_py())} in unit {codes[row].decode()!r}, "
            f"and {show(list(first))} in unit {codes[0].decode()!r}"
        )
    return first


def _values(
    path: Path, name: str, rows: pa.RecordBatch, codes: NDArray[np.bytes_], cells: int
) -> NDArray[np.integer[Any]]:
    import pyarrow.compute as pc

    column = rows.column("value")
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if (lengths != cells).any():
        row = int(np.argmax(lengths != cells))
        raise IncompatibleReleaseError(
            f"{path} must have {cells} values in query {show(name)}, as its query_shape says, got "
            f"{lengths[row]} in unit {codes[row].decode()!r}"
        )
    flat = column.flatten()
    if flat.null_count:
        raise IncompatibleReleaseError(
            f"{path} must have whole numbers as values, got {flat.null_count} missing in query "
            f"{show(name)}, unit {codes[0].decode()!r} or after it"
        )
    values = flat.to_numpy(zero_copy_only=False)
    return np.asarray(values.reshape(len(codes), cells))


def _variance(path: Path, name: str, rows: pa.RecordBatch, codes: NDArray[np.bytes_]) -> FloatArray:
    if "variance" not in rows.schema.names:
        return np.zeros(len(codes))
    column = rows.column("variance").to_numpy(zero_copy_only=False)
    if column.dtype.kind not in "iuf":
        raise IncompatibleReleaseError(
            f"{path} must have numbers as variances, got the type {rows.column('variance').type}"
        )
    found: FloatArray = column.astype(np.float64)
    bad = ~((found >= 0.0) & np.isfinite(found))
    if bad.any():
        row = int(np.argmax(bad))
        raise IncompatibleReleaseError(
            f"{path} must have variances >= 0 and finite, got {found[row]:g} in query "
            f"{show(name)}, unit {codes[row].decode()!r}"
        )
    return found
