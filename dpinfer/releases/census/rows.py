"""Noisy measurement files of the 2020 Census row by row, of any product and query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_items, check_option, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases._files.limits import check_max_bytes
from dpinfer.releases.census import layout
from dpinfer.releases.census.columns import MEASURED_COLUMNS, FileRows, read_rows
from dpinfer.releases.census.ranges import EVERYTHING, CodeRange
from dpinfer.releases.census.reading import check_prefix

ATTRIBUTES = {
    "pl94": layout.PL94_DOMAIN.attributes,
    "dhc": ("relgq", "sex", "age", "hispanic", "cenrace"),
}
"""The attributes of each product, in the order of ``query_shape``."""


@dataclass(frozen=True, eq=False)
class CensusRow:
    """The noisy values of one query in one unit.

    Attributes
    ----------
    level : str
        The level of the unit.
    unit : str
        Its code.
    query : str
        The query, without its ending.
    attributes : tuple of str
        The attributes of the product.
    values : array of int
        The values, with one axis for each attribute; 1 where the query sums over it.
    variance : float
        The variance of the noise of each value.
    """

    level: str
    unit: str
    query: str
    attributes: tuple[str, ...]
    values: NDArray[np.integer[Any]]
    variance: float

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.values.shape)
        return f"CensusRow({self.level} {self.unit}, {self.query!r}, {shape})"


def read_census_rows(
    root: str | Path,
    *,
    product: str = "dhc",
    states: Any = None,
    levels: Any = None,
    queries: Any = None,
    prefix: str | tuple[str, str] | None = None,
    max_bytes: int | None = None,
) -> Iterator[CensusRow]:
    """Read noisy measurement files of the 2020 Census row by row.

    Parameters
    ----------
    root : str or Path
        The folder that holds the levels, laid out as for :func:`read_census_measurements`; further
        folders below those of the states, such as of counties, are looked into.
    product : {"dhc", "pl94"}
        Demographic and housing characteristics of persons, or redistricting data of persons.
    states : str or iterable of str, optional
        Subtrees such as ``"044"``, or states such as ``"44"``. By default all.
    levels : str or iterable of str, optional
        The levels to read. By default all that are there.
    queries : str or iterable of str, optional
        The queries to read, such as ``"hispanic * sex"``; others are skipped. By default all.
    prefix : str or pair of str, optional
        Read only the units whose codes begin like this, or from the first to the last of a pair.
    max_bytes : int, optional
        The most bytes that the columns of one file may take once they are decoded. By default 256
        MB, or 100 times the size of the file where that is more.

    Returns
    -------
    iterator of CensusRow
        One row for each query of each unit, in the order of the files, read as they are asked for.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    IncompatibleReleaseError
        If a file is not as documented; the message names file, unit and query.

    Notes
    -----
    Queries of the demographic and housing characteristics keep groupings of attributes, such as
    ages in 38 groups, whose number of groups is the size of that axis. The order of the names in a
    query need not be that of the axes. Estimation over the detailed schema, of 1,227,744 cells,
    is not part of this package.

    The layout was taken from public code that reads these files. It was tested on generated files
    of this layout, not on a published file.
    """
    path = layout.check_root(root)
    attributes = ATTRIBUTES[check_option(product, "product", ATTRIBUTES)]
    chosen = layout.check_levels(levels, layout.levels_of(path))
    wanted = layout.check_subtrees(states, layout.census_subtrees(path))
    if (states is not None or prefix is not None) and levels is None:
        chosen = tuple(level for level in chosen if level != layout.NATION)
    names = _check_names(queries)
    most = check_max_bytes(max_bytes)
    return _rows(path, attributes, chosen, wanted, names, check_prefix(prefix), most)


def _rows(
    root: Path,
    attributes: tuple[str, ...],
    levels: tuple[str, ...],
    subtrees: tuple[str, ...],
    names: list[str] | None,
    among: CodeRange,
    max_bytes: int | None,
) -> Iterator[CensusRow]:
    for level in levels:
        parts = layout.parts_of(root, level, layout.MEASUREMENTS)
        for subtree in ("",) if level == layout.NATION else subtrees:
            for file in parts[subtree].files() if subtree in parts else ():
                for rows in read_rows(
                    file,
                    MEASURED_COLUMNS,
                    subtree=subtree,
                    among=EVERYTHING if level == layout.NATION else among,
                    queries=names,
                    max_bytes=max_bytes,
                ):
                    yield from _split(level, rows, attributes)


def _split(level: str, rows: FileRows, attributes: tuple[str, ...]) -> Iterator[CensusRow]:
    if not rows.name.endswith(layout.MEASURED) or len(rows.shape) != len(attributes):
        raise IncompatibleReleaseError(
            f"rows must have names of queries with {layout.MEASURED} after them, and a query_shape "
            f"of {len(attributes)} numbers, for {', '.join(attributes)}, got query "
            f"{show(rows.name)} of shape {list(rows.shape)} in unit {rows.codes[0].decode()!r} of "
            f"{rows.path}"
        )
    query = rows.name.removesuffix(layout.MEASURED)
    for code, values, variance in zip(rows.codes, rows.values, rows.variance, strict=True):
        own = values.reshape(rows.shape)
        own.flags.writeable = False
        unit = layout.NATION if level == layout.NATION else code.decode()
        yield CensusRow(level, unit, query, attributes, own, float(variance))


def _check_names(queries: Any) -> list[str] | None:
    if queries is None:
        return None
    listed = [queries] if isinstance(queries, str) else check_items(queries, "queries", "names")
    wrong = [name for name in listed if not _is_name(name)]
    if wrong or not listed:
        raise InvalidParameterError(
            f"queries must hold names of queries, got {show(wrong[0]) if wrong else 'none'}"
        )
    return [name.removesuffix(layout.MEASURED) + layout.MEASURED for name in listed]


def _is_name(name: object) -> bool:
    """Whether a name is text that a file can hold, without half of a character."""
    return isinstance(name, str) and name == name.encode("utf-8", errors="ignore").decode()
