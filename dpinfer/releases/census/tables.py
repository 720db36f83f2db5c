"""Rows of noisy measurements and constraints, drawn and laid out as Arrow tables."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpinfer.mechanisms import DiscreteGaussian
from dpinfer.privacy.composition import BudgetAllocation
from dpinfer.releases.census import layout

if TYPE_CHECKING:
    import pyarrow as pa

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
