"""The Census Bureau's own least-squares estimates from the noisy measurements of 2020."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpinfer._validation import FloatArray, one_line, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases._files.compressed import decompressed
from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.table import check_path
from dpinfer.releases.adapters.scale_column import from_scale_column
from dpinfer.releases.release import Release

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("geocode", "query", "estimate", "std_dev", "query_description")


CHUNK = 2**14
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
    clip them at 0, as does ``count_confint(values, mechanism, integer=True, lower=0)`` on those of
    the release.

    The files state no covariances, while estimates of overlapping tables and units are correlated.
    Intervals of single estimates are right; sums and differences of estimates of this release, and
    anything else that takes its values for independent, are not.

    The layout is that of the description of the product; three published lines were read, no whole
    file.

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
    """Return the columns of a file as text."""
    import pandas as pd

    with decompressed(file, limit) as stream:
        if len(io.BufferedReader(stream).readline(LONGEST_HEADER + 1)) > LONGEST_HEADER:
            raise ValueError(f"the first line has more than {LONGEST_HEADER} bytes")
    parts, size = [], 0
    with decompressed(file, limit) as stream:
        for part in pd.read_csv(
            stream, sep="|", dtype=str, keep_default_na=False, quoting=3, chunksize=CHUNK
        ):
            size += int(part.memory_usage(deep=True).sum())
            limit.check(size)
            parts.append(part)
    return pd.concat(parts)
