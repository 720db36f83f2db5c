"""The Census Bureau's own least-squares estimates from the noisy measurements of 2020."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpinfer._validation import one_line, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.adapters.scale_column import from_scale_column
from dpinfer.releases.release import Release

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("geocode", "query", "estimate", "std_dev", "query_description")


def read_census_least_squares(path: str | Path) -> Release:
    """Read the Census Bureau's least-squares estimates from the 2020 redistricting measurements.

    Parameters
    ----------
    path : str or Path
        A file of ``geocode|query|estimate|std_dev|query_description`` lines, or a folder of such
        files: all below it are read, as those of a county or of a state.

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

    frames = [_read(file) for file in _files(path)]
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
    if not isinstance(path, (str, Path)):
        raise InvalidParameterError(f"path must be a string or a Path, got {show(path)}")
    place = Path(path)
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


def _read(file: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_csv(file, sep="|", dtype=str, keep_default_na=False, quoting=3)
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
        numbers = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
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
