"""Files of the 2020 Census: least-squares estimates read, noisy measurements generated."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import RNG, FloatArray, check_flag, check_rng, one_line, require, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.ledger import BudgetAllocation
from dpinfer.releases.adapters import from_scale_column
from dpinfer.releases.census import geography as layout
from dpinfer.releases.census.columns import Tables, constraint_table, measurement_table, schemas
from dpinfer.releases.census.geography import Outline, Truth
from dpinfer.releases.census.redistricting import PERSONS
from dpinfer.releases.limits import Limit, decompressed
from dpinfer.releases.parquet import EXTRA
from dpinfer.releases.release import Release
from dpinfer.releases.tables import check_path

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


# The Census Bureau's own least-squares estimates from the noisy measurements of 2020.


COLUMNS = ("geocode", "query", "estimate", "std_dev", "query_description")


LEAST_SQUARES_CHUNK = 2**14
"""Lines that are read at a time."""

LONGEST_HEADER = 2**12
"""Bytes of the first line at most."""


def read_census_least_squares(path: str | Path, *, max_bytes: int | None = None) -> Release:
    """Read the Census Bureau's least-squares estimates from the 2020 redistricting measurements.

    Parameters
    ----------
    path : str or Path
        A file of ``geocode|query|estimate|std_dev|query_description`` lines, or a folder of such
        files: all below it are read, as those of a county or of a state. They may be compressed:
        ``.gz``, ``.bz2``, ``.xz``, ``.zst``, or one in a ``.zip``.
    max_bytes : int, optional
        The most bytes that one file may take once it is decompressed and read. By default 256 MB,
        or 100 times the size of the file where that is more.

    Returns
    -------
    Release
        The estimates, labelled by ``geocode`` and ``query`` such as P0010001, with normal noise of
        the stated standard deviations; an estimate of standard deviation 0 is exact.

    Raises
    ------
    InvalidParameterError
        If ``path`` is not there.
    IncompatibleReleaseError
        If a file is not of this form, holds what is not a number or a negative standard deviation,
        or an estimate is there twice; the message names the file.

    Notes
    -----
    The Bureau's intervals take the normal quantile, round the ends inward to whole numbers, and
    clip them at 0, as does ``count_confint(release, integer=True, lower=0)`` on those of the
    release.

    The files state no covariances, while estimates of overlapping tables and units are correlated:
    intervals of single estimates are right; sums, differences, and all that takes the values for
    independent, are not. The layout is that of the description of the product; three published
    lines were read, no whole file.

    References
    ----------
    U.S. Census Bureau, DAS 2020 GLS Uncertainty Evaluation, data product description (public
    domain).
    """
    import pandas as pd

    frames = [_read(file, Limit.of(file, max_bytes)) for file in _files(path)]
    frame = pd.concat(frames, ignore_index=True)
    repeated = frame.duplicated(["geocode", "query"])
    if repeated.any():
        row = frame[repeated].iloc[0]
        raise IncompatibleReleaseError(
            f"each estimate must be there once, repeated is {row['query']} of {row['geocode']} in "
            f"{path}"
        )
    return from_scale_column(
        frame.set_index(["geocode", "query"]),
        "gaussian",
        value="estimate",
        scale="std_dev",
        given="std",
        name="census least squares",
    )


def _files(path: object) -> list[Path]:
    place = check_path(path, "path")
    if place.is_file():
        return [place]
    found = sorted(
        file for file in place.rglob("*") if file.is_file() and not file.name.startswith(("_", "."))
    )
    if not found:
        raise InvalidParameterError(
            f"path must be a file, or a folder with files below it, got {place}"
        )
    return found


def _read(file: Path, limit: Limit) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = _text(file, limit)
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise IncompatibleReleaseError(
            f"{file} must be a table of columns apart by |: {one_line(error)}"
        ) from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise IncompatibleReleaseError(f"{file} must not have lines longer than the first")
    missing = [name for name in COLUMNS[:4] if name not in frame.columns]
    if missing:
        raise IncompatibleReleaseError(
            f"{file} must have the columns {', '.join(COLUMNS)}, missing are {', '.join(missing)}"
        )
    if not len(frame):
        raise IncompatibleReleaseError(f"{file} must hold at least one estimate, got none")
    for name in ("estimate", "std_dev"):
        numbers = _numbers(frame[name])
        bad = ~np.isfinite(numbers) | ((numbers < 0) & (name == "std_dev"))
        if bad.any():
            row = frame.iloc[int(np.argmax(bad))]
            what = "numbers >= 0" if name == "std_dev" else "numbers"
            raise IncompatibleReleaseError(
                f"{file} must have {what} in {name}, got {show(row[name])} for {row['query']} of "
                f"{row['geocode']}"
            )
        frame[name] = numbers
    return frame


def _numbers(column: pd.Series) -> FloatArray:
    """Return the float nearest to each text, NaN where it is no number."""
    import pandas as pd

    numbers = np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    read = np.isfinite(numbers)
    # before version 3 pandas may be a rounding off
    numbers[read] = column[read].to_numpy(dtype=object).astype(np.float64)
    return numbers


def _text(file: Path, limit: Limit) -> pd.DataFrame:
    import pandas as pd

    with decompressed(file, limit) as stream:
        if len(io.BufferedReader(stream).readline(LONGEST_HEADER + 1)) > LONGEST_HEADER:
            raise ValueError(f"the first line has more than {LONGEST_HEADER} bytes")
    parts, size = [], 0
    with decompressed(file, limit) as stream:
        for part in pd.read_csv(
            stream,
            sep="|",
            dtype=str,
            keep_default_na=False,
            quoting=3,
            chunksize=LEAST_SQUARES_CHUNK,
        ):
            size += int(part.memory_usage(deep=True).sum())
            limit.check(size)
            parts.append(part)
    return pd.concat(parts)


# The published allocation of the budget of the 2020 redistricting data, at its exact ρ.


PL94_PERSONS_ALLOCATION = replace(PERSONS, rho=Fraction(542, 339) ** 2)
"""Shares of the production run for the redistricting data of persons in the United States.

From the public configuration of that run, U.S. Census Bureau (2021), DAS 2020 Redistricting
Production Code, public domain, whose budget (542/339)² is published as 2.56. They are those before
budget is moved on the spine, and were not compared with the variances in a published file.
"""


CHUNK = 1024
"""Blocks that are drawn and written at a time, in whole units of the level two above them."""

ROWS = 2**13
"""Rows of constraints in a row group, so that those of some units are read without the others."""

FILE = "part-00000.parquet"

FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": ["geocode", "query_name", "query_shape.list.element", "variance", "plb"],
    "column_encoding": {"value.list.element": "DELTA_BINARY_PACKED"},
    "write_statistics": ["geocode"],
}
"""Noisy counts of a query differ little, so that their differences take less room and time, to be
read too. Row groups are found by the statistics."""

_PLACES = layout.PL94_DOMAIN.shape


def write_census_measurements(
    root: str | Path,
    truth: Any,
    *,
    allocation: BudgetAllocation = PL94_PERSONS_ALLOCATION,
    rng: RNG = None,
    move_budget: bool = False,
) -> None:
    """Write noisy measurement files in the layout of the 2020 Census from true tables.

    Parameters
    ----------
    root : str or Path
        The folder to write to; it must be empty, or not be there.
    truth : pair, or object with ``codes`` and ``tables``
        The codes of the units of the lowest level, sorted, as :func:`spine_codes` makes them, and
        their true tables: an array of shape (units, 2016) or (units, 8, 2, 2, 63), or a function
        ``tables(start, stop)`` that returns those of some units, so that not all need be in memory.
    allocation : BudgetAllocation
        The budget and its shares, whose levels are those that are written. By default those of the
        production run.
    rng : None, int or numpy.random.Generator
        Seed or generator. The noise in a state does not depend on the other states.
    move_budget : bool, default False
        Whether the budget of a unit that is the only child of its parent is moved to the parent,
        which has the same table. It is then not measured itself, and variances differ within a
        level.

    Raises
    ------
    InvalidParameterError
        If ``root`` is not empty, codes are not sorted or of another length, a table has negative
        or fractional counts, or minors in nursing facilities.

    See Also
    --------
    read_census_measurements : Read such files.
    dpinfer.datasets.synthetic_population : A made-up population to write.

    Notes
    -----
    Each value is the sum of the true table over the attributes that its query does not keep, plus
    discrete Gaussian noise with σ² = 1/ρ, where ρ is the budget times the shares of level and
    query; ``variance`` is that of the noise, ``plb`` the share. Constraints state that no minors
    are in nursing facilities, the totals of the nation and of a state of one subtree, and bounds of
    the persons in each type of quarters: from the number of lowest units with such persons (0 for
    households) to 99,999 times it. They are without noise, and so outside of the guarantee, as they
    were in the Census. The layout was taken from public code that reads the published files.

    References
    ----------
    Abowd, J. M. and others (2022). The 2020 Census Disclosure Avoidance System TopDown Algorithm.
    Harvard Data Science Review, Special Issue 2. doi:10.1162/99608f92.529e3cb9.

    Canonne, C. L., Kamath, G. and Steinke, T. (2020). The discrete Gaussian for differential
    privacy. arXiv:2004.00010, Theorem 4.
    """
    require("pyarrow", EXTRA)
    folder = check_path(root, "root")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidParameterError(f"root must be an empty folder, or not be there, got {folder}")
    if not isinstance(allocation, BudgetAllocation):
        raise InvalidParameterError(
            f"allocation must be a BudgetAllocation, got {show(allocation)}"
        )
    _check_queries(allocation)
    move = check_flag(move_budget, "move_budget")
    known = Truth.of(truth, allocation)
    base = int(check_rng(rng).integers(2**63))
    nation = layout.NATION in allocation.levels
    subtrees = known.subtrees()
    only_child = move and nation and len(subtrees) == 1
    table, facilities = np.zeros((1, *_PLACES), np.int64), np.zeros((1, _PLACES[0]), np.int64)
    for code, start, stop in subtrees:
        outline = Outline.of(known.codes[start:stop], known.levels, move, only_child)
        own_rng = np.random.default_rng([base, 1 + int(code)])

        def place(level: str, kind: str, code: str = code) -> Path:
            return folder / f"{level}.parquet" / kind / f"State={code}"

        own, found, persons = _write_measurements(place, outline, known, start, allocation, own_rng)
        whole = sum(one[1:] == code[1:] for one, _, _ in subtrees) == 1
        for level, codes, first in zip(outline.levels, outline.codes, outline.starts, strict=True):
            totals = np.add.reduceat(persons, first) if whole and level == "State" else None
            stated = constraint_table(codes, np.add.reduceat(found, first, axis=0), totals)
            _write(place(level, layout.CONSTRAINTS), stated)
        table, facilities = table + own, facilities + found.sum(axis=0, keepdims=True)
    if nation:
        chain = 1 + outline.chains[0] if only_child else np.zeros(1, dtype=np.intp)
        unit = np.array([layout.NATION.encode()])
        own_rng = np.random.default_rng([base, 0])
        top = folder / f"{layout.NATION}.parquet"
        _write(
            top / layout.MEASUREMENTS,
            measurement_table(layout.NATION, unit, table, chain, allocation, known.levels, own_rng),
        )
        stated = constraint_table(unit, facilities, table.sum(axis=(1, 2, 3, 4)))
        _write(top / layout.CONSTRAINTS, stated)


def _write_measurements(
    place: Callable[[str, str], Path],
    outline: Outline,
    truth: Truth,
    offset: int,
    allocation: BudgetAllocation,
    rng: np.random.Generator,
) -> tuple[Tables, Tables, Tables]:
    """Write all levels of a subtree, whose units begin at an offset.

    Return its table, and of its lowest units whether they have facilities, and their persons.
    """
    from pyarrow.parquet import ParquetWriter

    levels = outline.levels
    cut = max(len(levels) - 3, 0)  # the level in whose units the lowest ones are taken together
    above = [np.zeros((len(outline.starts[at]), *_PLACES), np.int64) for at in range(cut)]
    total = np.zeros((1, *_PLACES), np.int64)
    facilities, persons = [], []
    with ExitStack() as stack:
        writers = []
        for level in levels:
            file = _new_file(place(level, layout.MEASUREMENTS))
            writers.append(stack.enter_context(ParquetWriter(file, schemas()[0], **FORMAT)))

        def write(at: int, units: NDArray[np.intp], tables: Tables) -> None:
            kept = ~outline.alone[at][units]
            if kept.any():
                codes, chains = outline.codes[at][units][kept], outline.chains[at][units][kept]
                writers[at].write_table(
                    measurement_table(
                        levels[at], codes, tables[kept], chains, allocation, levels, rng
                    )
                )

        for start, stop in _chunks(outline.starts[cut], len(outline.starts[-1])):
            tables = truth.read(offset + start, offset + stop)
            by_quarters = tables.sum(axis=(2, 3, 4))
            found = by_quarters > 0
            found[:, 0] = True  # households may be anywhere
            facilities.append(found)
            persons.append(by_quarters.sum(axis=1))
            sums, begun = tables, np.arange(start, stop)
            for at in range(len(levels) - 1, cut - 1, -1):
                units = np.arange(*np.searchsorted(outline.starts[at], [start, stop]))
                begins = outline.starts[at][units]
                if begins.size < begun.size:
                    sums = np.add.reduceat(sums, np.searchsorted(begun, begins), axis=0)
                    begun = begins
                write(at, units, sums)
            for at, table in enumerate(above):
                np.add.at(table, outline.ancestors(at, cut, units), sums)
            total += sums.sum(axis=0)
        for at, table in enumerate(above):
            for first in range(0, len(table), CHUNK):
                part = np.arange(first, min(first + CHUNK, len(table)))
                write(at, part, table[part])
    return total, np.concatenate(facilities).astype(np.int64), np.concatenate(persons)


def _chunks(starts: NDArray[np.intp], size: int) -> Iterator[tuple[int, int]]:
    """Cut units into runs of whole units of a level above, which have these starts."""
    ends = [*starts[1:].tolist(), size]
    start = 0
    for end, following in zip(ends, [*ends[1:], None], strict=True):
        if following is None or following - start > CHUNK:
            yield start, end
            start = end


def _new_file(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder / FILE


def _write(folder: Path, table: pa.Table) -> None:
    from pyarrow import parquet

    parquet.write_table(table, _new_file(folder), row_group_size=ROWS, **FORMAT)


def _check_queries(allocation: BudgetAllocation) -> None:
    for level, shares in allocation.queries.items():
        unknown = [name for name in shares if name not in layout.PL94_QUERIES]
        if unknown or level not in layout.LEVELS:
            raise InvalidParameterError(
                f"allocation must have levels among {', '.join(layout.LEVELS)} and queries among "
                f"{', '.join(layout.PL94_QUERIES)}, got {show(unknown or level)}"
            )
