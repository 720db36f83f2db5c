"""Rows of single Parquet files of noisy measurements and constraints, checked and as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dpinfer._check import FloatArray, one_line, show, show_some
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.mechanisms.laws import DiscreteGaussian
from dpinfer.privacy.ledger import BudgetAllocation
from dpinfer.releases.census import geography as layout
from dpinfer.releases.limits import Limit
from dpinfer.releases.parquet import opened_parquet, read_footer

if TYPE_CHECKING:
    import pyarrow as pa


# Rows of noisy measurements and constraints, drawn and laid out as Arrow tables.


LARGEST = 99999
"""Persons in a facility at most, as the constraints state it."""

Tables = NDArray[np.int64]


def schemas() -> tuple[pa.Schema, pa.Schema]:
    """Return the columns of measurements and of constraints."""
    import pyarrow as pa

    common = [
        ("geocode", pa.string()),
        ("query_name", pa.string()),
        ("query_shape", pa.list_(pa.int32())),
        ("value", pa.list_(pa.int32())),
    ]
    measured = [*common, ("variance", pa.float64()), ("plb", pa.float64())]
    return pa.schema(measured), pa.schema([*common, ("sign", pa.string())])


def measurement_table(
    level: str,
    codes: NDArray[np.bytes_],
    tables: Tables,
    chains: NDArray[np.intp],
    allocation: BudgetAllocation,
    levels: tuple[str, ...],
    rng: np.random.Generator,
) -> pa.Table:
    """Draw the noisy measurements of some units of a level; the rows of a unit are together.

    A unit with a chain has the budget of that many levels below it, too.
    """
    import pyarrow as pa

    below = [level, *(levels if level == layout.NATION else levels[levels.index(level) + 1 :])]
    parts, owners = [], []
    for chain in np.unique(chains):
        units = np.flatnonzero(chains == chain)
        shares = _shares(allocation, below[: chain + 1])
        if shares:
            parts.append(_drawn(codes[units], tables[units], shares, allocation.rho, rng))
            owners.append(np.repeat(units, len(shares)))
    if not parts:
        return schemas()[0].empty_table()
    table = pa.concat_tables(parts)
    if len(parts) > 1:
        table = table.take(np.argsort(np.concatenate(owners), kind="stable"))
    return table


def _shares(allocation: BudgetAllocation, levels: list[str]) -> dict[str, Fraction]:
    """Return the share of each query that the budget of these levels measures."""
    pairs = [(level, query) for level, query in allocation if level in levels]
    measured = {query for _, query in pairs}
    return {
        query: sum((allocation.share(*pair) for pair in pairs if pair[1] == query), Fraction(0))
        for query in layout.PL94_QUERIES
        if query in measured
    }


def _drawn(
    codes: NDArray[np.bytes_],
    tables: Tables,
    shares: dict[str, Fraction],
    rho: Fraction,
    rng: np.random.Generator,
) -> pa.Table:
    size = len(codes)
    values, variance = [], []
    for query, share in shares.items():
        law = DiscreteGaussian(sigma=float(1 / (rho * share)) ** 0.5)
        true = marginal(tables, query).reshape(size, -1)
        values.append((true + law.rvs(true.shape, rng=rng)).astype(np.int32))
        variance.append(float(law.variance))
    return _table(
        codes,
        [query + layout.MEASURED for query in shares],
        [layout.file_shape(layout.PL94_QUERIES[query]) for query in shares],
        values,
        {"variance": variance, "plb": [float(share) for share in shares.values()]},
    )


def marginal(tables: Tables, query: str) -> Tables:
    """Return what a query keeps of tables, shape (m, ...) in the shape that the files state."""
    attributes = layout.PL94_QUERIES[query]
    keep = {"hhgq" if name == "hhinstlevels" else name for name in attributes}
    summed = tuple(
        1 + at for at, name in enumerate(layout.PL94_DOMAIN.attributes) if name not in keep
    )
    found = tables.sum(axis=summed, keepdims=True) if summed else tables
    if "hhinstlevels" in attributes:
        starts = [layout.INSTITUTIONAL.index(name) for name in dict.fromkeys(layout.INSTITUTIONAL)]
        found = np.add.reduceat(found, starts, axis=1)
    return found


def constraint_table(
    codes: NDArray[np.bytes_], facilities: Tables, totals: Tables | None
) -> pa.Table:
    """Lay out the constraints of units: bounds of quarters, nursing facilities, and totals."""
    size = len(codes)
    least = facilities.copy()
    least[:, 0] = 0  # the number of housing units is no bound of the persons in households
    most = np.minimum(facilities * LARGEST, np.iinfo(np.int32).max)
    rows = {
        "hhgq_total_lb_con": (">=", ("hhgq",), least),
        "hhgq_total_ub_con": ("<=", ("hhgq",), most),
        "nurse_nva_0_con": ("=", (), np.zeros((size, 1))),
    }
    if totals is not None:
        rows["total_con"] = ("=", (), totals[:, None])
    return _table(
        codes,
        list(rows),
        [layout.file_shape(attributes) for _, attributes, _ in rows.values()],
        [values.astype(np.int32) for _, _, values in rows.values()],
        {"sign": [sign for sign, _, _ in rows.values()]},
    )


def _table(
    codes: NDArray[np.bytes_],
    names: list[str],
    shapes: list[tuple[int, ...]],
    values: list[NDArray[np.int32]],
    others: dict[str, list[float] | list[str]],
) -> pa.Table:
    """Lay out the rows of units, those of a unit together; the other columns are by name."""
    import pyarrow as pa

    size, count = len(codes), len(names)
    cells = np.tile([value.shape[1] for value in values], size)
    flat = np.concatenate(values, axis=1).reshape(-1)
    attributes = len(shapes[0])
    columns = {
        "geocode": pa.array(np.repeat(codes, count).astype(str)),
        "query_name": pa.array(names * size),
        "query_shape": pa.ListArray.from_arrays(
            np.arange(0, (size * count + 1) * attributes, attributes, dtype=np.int32),
            np.tile(np.array(shapes, dtype=np.int32).reshape(-1), size),
        ),
        "value": pa.ListArray.from_arrays(np.append(0, np.cumsum(cells)).astype(np.int32), flat),
    }
    columns |= {name: pa.array(own * size) for name, own in others.items()}
    schema = schemas()["sign" in others]
    return pa.table(columns).cast(schema)


# Ranges of codes: units that follow one another, with all below them.


@dataclass(frozen=True)
class CodeRange:
    """Units that follow one another in order of their codes, with all units below them.

    ``first``, ``last``: how the codes of the first and of the last of these units begin, of one
    length; empty for all units there are.
    """

    first: str = ""
    last: str = ""

    @property
    def everything(self) -> bool:
        """Whether all units are meant."""
        return not self.last

    @property
    def after(self) -> str:
        """What follows all codes that begin as the last one does."""
        return self.last[:-1] + chr(ord(self.last[-1]) + 1)

    def meets(self, lowest: str, highest: str) -> bool:
        """Return whether there can be units among codes from one to another."""
        return highest >= self.first and lowest < self.after

    def admits(self, subtree: str) -> bool:
        """Return whether there can be units in a subtree."""
        size = min(len(subtree), len(self.first))
        return self.first[:size] <= subtree[:size] <= self.last[:size]

    def holds(self, codes: pa.Array) -> pa.Array:
        """Return which codes are those of the units."""
        import pyarrow.compute as pc

        inside = pc.and_(pc.greater_equal(codes, self.first), pc.less(codes, self.after))
        # codes of units above the last ones may lie in between
        return pc.and_(inside, pc.greater_equal(pc.utf8_length(codes), len(self.first)))


EVERYTHING = CodeRange()
"""All units there are."""


MEASURED_COLUMNS = ("geocode", "query_name", "query_shape", "value", "variance")
CONSTRAINED_COLUMNS = ("geocode", "query_name", "query_shape", "value", "sign")

LISTS = ("query_shape", "value")

BATCH = 2**14
"""Rows that are taken out of a file at a time."""

LONGEST = 1000
"""Bytes of a code or a name at most; those of the Census Bureau have fewer than 100."""


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows (m) of one query or constraint in one file, all of one ``query_shape``.

    ``sign`` says how confidential values compare to those of a constraint, and is empty for
    measurements; ``values`` (m, cells) are in row-major order of the shape; ``variance`` is that of
    the noise, 0 for constraints.
    """

    path: Path
    name: str
    sign: str
    shape: tuple[int, ...]
    codes: NDArray[np.bytes_]
    values: NDArray[np.integer[Any]]
    variance: FloatArray


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the narrowest type that holds them and their negatives."""
    if values.dtype.kind in "iu" and values.size:
        largest = max(int(values.max()), -int(values.min()))
        for kind in (np.int8, np.int16, np.int32):
            if largest <= np.iinfo(kind).max:
                return np.ascontiguousarray(values, dtype=kind)
    return np.ascontiguousarray(values)


def read_rows(
    path: Path,
    columns: Sequence[str],
    *,
    subtree: str = "",
    among: CodeRange = EVERYTHING,
    queries: Sequence[str] | None = None,
    max_bytes: int | None = None,
    narrow: bool = False,
) -> Iterator[FileRows]:
    """Read the rows of a file batch by batch, those of each query in a batch together.

    All codes must begin as the ``subtree`` does; rows of codes ``among`` others and of some
    ``queries`` are read, and no row groups that have none of them by their statistics. With
    ``narrow`` the values of a batch are in as few bytes as they need.
    """
    with _reading(path):
        for batch in _batches(path, columns, among, queries, max_bytes):
            yield from _groups(path, batch, subtree, narrow)


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
    footer = read_footer(path)
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


def _row_groups(footer: Any, among: CodeRange) -> list[int]:
    """Return the row groups that may hold codes of a range, as far as their statistics tell."""
    groups = range(footer.num_row_groups)
    names = [footer.schema.column(at).path for at in range(footer.num_columns)]
    if among.everything or "geocode" not in names:
        return list(groups)
    column = names.index("geocode")
    found = []
    for group in groups:
        known = footer.row_group(group).column(column).statistics
        ends = (known.min, known.max) if known is not None and known.has_min_max else (None, None)
        if not all(isinstance(end, str) for end in ends) or among.meets(*ends):
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


def _groups(path: Path, batch: pa.RecordBatch, subtree: str, narrow: bool) -> Iterator[FileRows]:
    """Cut a batch into the rows of each query, and of each sign of a constraint."""
    import pyarrow.compute as pc

    keys = batch.column("query_name").cast("string")
    _refuse_nulls(path, batch)
    signs = "sign" in batch.schema.names
    if signs:
        keys = pc.binary_join_element_wise(keys, batch.column("sign").cast("string"), "\n")
    found = keys.dictionary_encode()
    group = found.indices.to_numpy()
    lists, facts = _Values(path, batch, narrow), batch.drop_columns(["value"])
    for number, key in enumerate(found.dictionary.to_pylist()):
        name, sign = key.rsplit("\n", 1) if signs else (key, "")
        own = np.flatnonzero(group == number)
        rows = facts.take(own)
        codes = _codes(path, rows.column("geocode"), subtree)
        shape = _shape(path, name, rows, codes)
        values = lists.take(own, prod(shape), name, codes)
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


class _Values:
    """The lists of values of a batch, from which those of some rows are taken."""

    def __init__(self, path: Path, batch: pa.RecordBatch, narrow: bool) -> None:
        import pyarrow.compute as pc

        column = batch.column("value")
        self._path = path
        self._lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        self._ends = np.cumsum(self._lengths)
        flat = column.flatten()
        if flat.null_count:
            at = int(np.argmax(flat.is_null().to_numpy(zero_copy_only=False)))
            row = int(np.searchsorted(self._ends, at, side="right"))
            query, unit = (batch.column(name)[row].as_py() for name in ("query_name", "geocode"))
            raise IncompatibleReleaseError(
                f"{path} must have whole numbers as values, got {flat.null_count} missing, the "
                f"first in query {show(query)} of unit {show(unit)}"
            )
        values = flat.to_numpy(zero_copy_only=False)
        self._flat = narrowed(values) if narrow else values

    def take(
        self, rows: NDArray[np.intp], cells: int, name: str, codes: NDArray[np.bytes_]
    ) -> NDArray[np.integer[Any]]:
        """Return the values of some rows, each of which must have as many as there are cells."""
        wrong = self._lengths[rows] != cells
        if wrong.any():
            row = int(np.argmax(wrong))
            raise IncompatibleReleaseError(
                f"{self._path} must have {cells} values in query {show(name)}, as its query_shape "
                f"says, got {self._lengths[rows[row]]} in unit {codes[row].decode()!r}"
            )
        # a quarter of the time that taking the lists themselves does
        found = sliding_window_view(self._flat, cells)[self._ends[rows] - cells]
        return np.asarray(found)


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
