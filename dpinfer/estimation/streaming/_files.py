"""Files of the working folder: the plan, what parts send to each other, and estimates."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, one_line, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.releases._files.limits import Limit
from dpinfer.releases._files.parquet_table import check_parquet
from dpinfer.releases._laws import KINDS, kind_of, laws_of_rows, parameters

if TYPE_CHECKING:
    import pandas as pd

_PLAN = "plan.json"

_LOCK = "lock"

_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}")
"""Names of files that are not complete."""

_SUM = ".sha256"
"""What follows the name of a file in that of the file with its checksum."""

_ROWS_NUMBERS = 1 << 22
"""Numbers in a row group of a file of estimates."""

_LABELS = "labels"

_NOISES = "dpinfer-noises"
"""Where files of estimates hold the laws of the noises they are from."""

_MOST_NOISES = 10_000

_LARGEST_LABEL = 2**63 - 1

_LONGEST_NAME = 200
"""Names of files have 255 bytes at most, some of which new files need."""


def file_name(part: str) -> str:
    """Return the name of a part as the name of a file, different for different parts."""
    try:
        name = quote(part, safe=" ").replace(".", "%2E")
    except UnicodeEncodeError:  # half a character
        name = ""
    if not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidParameterError(
            f"the name of a part must be at most {_LONGEST_NAME} bytes of text, got {show(part)}"
        )
    return name


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Say which place of the folder cannot be written, and why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise InvalidParameterError(
            f"folder must be one that can be written, got {show(str(path))}: {reason}; make room, "
            "or pass another folder, and call again"
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder that may be there already."""
    with writable(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def replacing(path: Path, *, checked: bool = False) -> Iterator[Path]:
    """Yield the path of a new file, which takes its place as a whole once it is on the disk.

    A ``checked`` one gets a file with its checksum after that.
    """
    new = _draft_of(path)
    with writable(path):
        try:
            yield new
            _flush(new)
            digest = _digest(new) if checked else ""
            os.replace(new, path)
            if checked:
                with replacing(_sum_of(path)) as said:
                    said.write_text(digest)
            else:
                _flush(path.parent)
        finally:
            new.unlink(missing_ok=True)


def is_whole(path: Path) -> bool:
    """Whether a file is there as it was written, by its checksum."""
    with writable(path):
        try:
            return _sum_of(path).read_text() == _digest(path)
        except (FileNotFoundError, UnicodeDecodeError):
            return False


def _sum_of(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}")


def _flush(path: Path) -> None:
    """Wait until a file, or what is in a folder, is on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # folders cannot be opened there
    place = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _lock(file: int) -> None:
    """Lock an open file until it is closed, by whatever end of the process."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@dataclass(frozen=True)
class Folder:
    """The working folder.

    Parameters
    ----------
    root : str
        Its path.
    """

    root: str

    def message(self, part: str) -> Path:
        """Return the file of what is known of the roots of a part from below."""
        return Path(self.root, "up", f"{file_name(part)}.npz")

    def answer(self, part: str) -> Path:
        """Return the file of what is known of the roots of a part in the end."""
        return Path(self.root, "down", f"{file_name(part)}.npz")

    def estimates(self, part: str) -> Path:
        """Return the file of the estimates of a part."""
        return Path(self.root, "estimates", f"{file_name(part)}.parquet")

    @contextmanager
    def claimed(self, fingerprint: str) -> Iterator[None]:
        """Make the folder that of a plan, or see that it is, and keep other runs out of it."""
        root = Path(self.root)
        self._refuse_other_files()
        make_folder(root)
        with writable(root / _LOCK):
            file = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                _lock(file)
            except (BlockingIOError, PermissionError) as error:
                raise InvalidParameterError(
                    f"folder must be that of one run at a time, and another one works in "
                    f"{show(self.root)}: wait for it, or pass another folder"
                ) from error
            except OSError as error:
                raise InvalidParameterError(
                    "folder must be on a disk that can lock files, got "
                    f"{show(self.root)}: {error.strerror}"
                ) from error
            self._tidy()
            self._claim(fingerprint)
            yield
            self._tidy()
        finally:
            os.close(file)

    def _tidy(self) -> None:
        """Remove what runs and workers that died have left half written."""
        with writable(Path(self.root)):
            for path in [*Path(self.root).glob(".*"), *Path(self.root).glob("*/.*")]:
                if _DRAFT.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    def _claim(self, fingerprint: str) -> None:
        path = Path(self.root, _PLAN)
        if path.exists():
            if _fingerprint_of(path) != fingerprint:
                raise InvalidParameterError(
                    f"folder must be empty or hold the same plan, but {show(self.root)} holds "
                    "another one: parts, domain, groupings, zeros or marginals_wanted differ; "
                    "pass another folder, or remove this one"
                )
        else:
            self._refuse_other_files()
            with replacing(path) as new:
                new.write_text(json.dumps({"fingerprint": fingerprint}))
        for name in ("up", "down", "estimates"):
            make_folder(Path(self.root, name))

    def _refuse_other_files(self) -> None:
        """Refuse a folder without a plan in which there is anything that no run leaves."""
        root = Path(self.root)
        with writable(root):
            held = [path.name for path in root.iterdir()] if root.is_dir() else []
        others = [name for name in held if name != _LOCK and not _DRAFT.fullmatch(name)]
        if others and _PLAN not in held:
            raise InvalidParameterError(
                f"folder must be empty or hold the same plan, but {show(self.root)} holds other"
                f" files, such as {show(others[0])}: pass another folder"
            )


def _fingerprint_of(path: Path) -> object:
    try:
        return json.loads(path.read_text())["fingerprint"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidParameterError(
            f"folder must hold the plan of its files, but {show(str(path))} is damaged: pass "
            "another folder"
        ) from error


def write_known(path: Path, labels: NDArray[Any], known: Mapping[str, FloatArray]) -> None:
    """Write what is known of some labelled tables."""
    arrays: dict[str, Any] = {_LABELS: labels, **known}
    with replacing(path, checked=True) as new, new.open("wb") as file:
        np.savez(file, **arrays)


def read_known(path: Path) -> tuple[NDArray[Any], dict[str, FloatArray]]:
    """Read what is known of some labelled tables."""
    try:
        _refuse_compressed(path)
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        return found.pop(_LABELS), found
    except (OSError, ValueError, KeyError, EOFError, MemoryError, BadZipFile) as error:
        raise _damaged(path, one_line(error)) from error


def _damaged(path: Path, reason: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"{path} is damaged: {reason}; stream_marginals with the same folder makes it again"
    )


def _refuse_compressed(path: Path) -> None:
    """Refuse what no plan has written, of which a small file may become a large one."""
    with ZipFile(path) as archive:
        if any(one.compress_type != ZIP_STORED for one in archive.infolist()):
            raise ValueError("it is compressed")


def plain_labels(labels: pd.Index) -> NDArray[Any]:
    """Return labels as an array of str or int, which files can hold."""
    listed = labels.tolist()
    if all(isinstance(label, str) for label in listed) and _are_texts(listed):
        return np.array(listed, dtype=np.str_)
    if all(type(label) is int and -_LARGEST_LABEL <= label <= _LARGEST_LABEL for label in listed):
        return np.array(listed, dtype=np.int64)
    raise InvalidParameterError(
        "the units of a part must have labels that are all str or all int, which files can hold, "
        f"got {show(listed[:4])}"
    )


def _are_texts(labels: Sequence[str]) -> bool:
    """Whether all are texts that files can hold: NumPy drops zeros at their end."""
    try:
        "".join(labels).encode()
    except UnicodeEncodeError:  # half a character
        return False
    return not any(label.endswith("\0") for label in labels)


def columns_of(number: int) -> tuple[str, str]:
    """Return the columns that hold estimates and variances of a marginal that was wanted."""
    return f"estimate-{number}", f"variance-{number}"


def write_estimates(
    path: Path,
    labels: NDArray[Any],
    widths: Sequence[tuple[int, int]],
    chunk: Callable[[int, slice], tuple[FloatArray, FloatArray]],
    bound: NoiseBound,
) -> None:
    """Write estimates and variances, some rows at a time, and the noises they are from.

    ``chunk`` gives those of a marginal for some rows, of as many numbers a row as ``widths`` says.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    units = arrow.array(labels.tolist(), arrow.string() if labels.dtype.kind == "U" else None)
    fields = [arrow.field("unit", units.type)]
    for number, sizes in enumerate(widths):
        for name, size in zip(columns_of(number), sizes, strict=True):
            fields.append(arrow.field(name, arrow.list_(arrow.float64(), size)))
    schema = arrow.schema(fields, {_NOISES: json.dumps(_noises_of(bound))})
    step = max(1, _ROWS_NUMBERS // max(1, sum(map(sum, widths))))
    with (
        replacing(path, checked=True) as new,
        parquet.ParquetWriter(new, schema, compression="none", use_dictionary=False) as writer,
    ):
        for start in range(0, len(labels), step):
            rows = slice(start, min(start + step, len(labels)))
            arrays = [units[rows.start : rows.stop]]
            for number, sizes in enumerate(widths):
                for numbers, size in zip(chunk(number, rows), sizes, strict=True):
                    flat = arrow.array(np.ascontiguousarray(numbers).reshape(-1))
                    arrays.append(arrow.FixedSizeListArray.from_arrays(flat, size))
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _noises_of(bound: NoiseBound) -> list[dict[str, Any]] | None:
    """Return the noises of a bound as files hold them; None where they cannot."""
    found = []
    for law, share in zip(bound.laws, bound.shares, strict=True):
        if type(law) not in KINDS.values() or share.size > _MOST_NOISES:
            return None
        columns = {
            name: np.broadcast_to(value, share.shape).tolist()
            for name, value in parameters(law).items()
        }
        found.append({"kind": kind_of(law), "share": share.tolist(), **columns})
    return found if bound.known else None


def read_bound(folder: Folder) -> NoiseBound:
    """Read the bound on the tails of errors from the noises of all parts."""
    from pyarrow import parquet

    bounds = []
    for path in sorted(Path(folder.root, "estimates").glob("*.parquet")):
        try:
            check_parquet(path, Limit.of(path, None), ["unit"])
            said = json.loads(parquet.read_schema(path).metadata[_NOISES.encode()])
            for one in said or ():
                columns = {name: np.array(found) for name, found in one.items() if name != "kind"}
                share = columns.pop("share")
                law = laws_of_rows(one["kind"], columns, share.size)
                bounds.append(NoiseBound((law,), (np.clip(share, 1e-12, 1.0),)))
            bounds.append(NoiseBound((), (), said is not None))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, one_line(error)) from error
    return NoiseBound.joined(bounds)


def read_estimates(
    files: Sequence[Path], columns: Sequence[str]
) -> tuple[list[Any], list[FloatArray]]:
    """Read the units of files of estimates, and columns of them, shape (units, numbers) each."""
    from pyarrow import dataset as arrow_dataset

    for file in files:
        if not is_whole(file):
            raise _damaged(file, "it is not there or not as it was written")
        check_parquet(file, Limit.of(file, None), ["unit", *columns])
    dataset = arrow_dataset.dataset([str(file) for file in files])
    table = dataset.to_table(columns=["unit", *columns])
    arrays = []
    for name in columns:
        column = table.column(name).combine_chunks()
        arrays.append(column.flatten().to_numpy().reshape((len(column), column.type.list_size)))
    return table.column("unit").to_pylist(), arrays
