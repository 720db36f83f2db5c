"""Certificates in files, each written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from dpinfer._validation import show
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.collection import Certificates
from dpinfer.calibration.grid import LibraryCertificates
from dpinfer.errors import InvalidParameterError

AnyCertificates = Certificate | Certificates | LibraryCertificates

WRITERS: dict[str, Callable[[AnyCertificates], str]] = {
    ".json": lambda found: found.to_json(),
    ".csv": lambda found: str(found.summary_frame().to_csv(index=False)),
}


def check_certificates_path(path: str | Path) -> Path:
    """Refuse a file that could not be written, before any work is done.

    Parameters
    ----------
    path : str or Path
        The file, which ends in .json or .csv.

    Returns
    -------
    Path
        The same.

    Raises
    ------
    InvalidParameterError
        If the ending is another, the folder does not exist, or there is a folder of that name.

    Examples
    --------
    >>> check_certificates_path("certificates.json").suffix
    '.json'
    """
    if not isinstance(path, str | Path):
        raise InvalidParameterError(f"path must be a str or a Path, got {show(path)}")
    place = Path(path)
    if place.suffix not in WRITERS:
        raise InvalidParameterError(
            f"output must end in one of {', '.join(WRITERS)}, got {show(place.name)}"
        )
    if not os.path.isdir(place.parent):  # which, unlike pathlib, copes with any name
        raise InvalidParameterError(f"output must be in an existing folder, got {place}")
    if os.path.isdir(place):
        raise InvalidParameterError(f"output must be a file, got the directory {place}")
    return place


def write_certificates(found: AnyCertificates, path: str | Path) -> None:
    """Write certificates as JSON or CSV, all of the file or nothing.

    Parameters
    ----------
    found : Certificate, Certificates or LibraryCertificates
        What is to be written.
    path : str or Path
        The file: one that ends in .json has ``found.to_json()``, one that ends in .csv has
        ``found.summary_frame()``.

    Raises
    ------
    InvalidParameterError
        If the file cannot be written, or ``found`` is something else.

    Examples
    --------
    >>> from dpinfer.calibration import certify_library
    >>> write_certificates(certify_library("small"), "certificates.csv")  # doctest: +SKIP
    """
    place = check_certificates_path(path)
    if not isinstance(found, AnyCertificates):
        raise InvalidParameterError(f"found must be certificates, got {show(found)}")
    text = WRITERS[place.suffix](found)
    try:
        with TemporaryDirectory(prefix=".dpinfer-", dir=place.parent) as folder:
            draft = Path(folder) / place.name
            draft.write_text(text, encoding="utf-8")
            os.replace(draft, place)
    except (OSError, ValueError) as error:  # the latter: a name that no file can have
        raise InvalidParameterError(f"output must be writable, got {place}: {error}") from error
