"""Files of the working folder: the plan, what parts send to each other, and estimates."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from hashlib import file_digest
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote
from uuid import uuid4
from zlib import crc32

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_magic, write_array
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    check_integer,
    check_items,
    is_foreign,
    one_line,
    require,
    show,
    show_some,
)
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.estimation._marginals_input import ReadMarginal
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.estimation.marginals import NoisyMarginal
from dpinfer.mechanisms.independent import IndependentNoise, as_noise, groups
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.releases.census.columns import narrowed
from dpinfer.releases.frames import KINDS, columns_of_law, kind_of, laws_of_rows, parameters
from dpinfer.releases.limits import Limit, TooLargeError, check_max_bytes
from dpinfer.releases.parquet import EXTRA, check_parquet, read_whole
from dpinfer.releases.tables import check_path

if TYPE_CHECKING:
    import pandas as pd


_PLAN = "plan.json"
_LOCK = "lock"
_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}")  # names of files that are not complete
_SUM = ".sha256"  # what follows the name of a file in that of the file with its checksum
_ROWS_NUMBERS = 1 << 22  # Numbers in a row group of a file of estimates
_EXPANSION = (
    300  # times its size that a file of estimates is at most, which may be nearly all zeros
)
_LABELS = "labels"
_NOISES = "dpinfer-noises"  # where files of estimates hold the laws of the noises they are from
_MOST_NOISES = 10_000
_LARGEST_LABEL = 2**63 - 1
_LONGEST_NAME = 200  # names of files have 255 bytes at most, some of which new files need


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
def replacing(path: Path, *, checked: bool = False, lasting: bool = True) -> Iterator[Path]:
    """Yield the path of a new file, which takes its place as a whole once it is on the disk.

    A ``checked`` one gets a file with its checksum after that. One that is not ``lasting`` is not
    waited for: it can be made anew if the machine fails, which its checksum tells.
    """
    new = _draft_of(path)
    with writable(path):
        try:
            yield new
            if lasting:
                _flush(new)
            digest = _digest(new) if checked else ""
            os.replace(new, path)
            if checked:
                with replacing(_sum_of(path), lasting=lasting) as said:
                    said.write_text(digest)
            elif lasting:
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
    """The working folder."""

    root: str  # its path

    def message(self, part: str) -> Path:
        """Return the file of what is known of the roots of a part from below."""
        return Path(self.root, "up", f"{file_name(part)}.npy")

    def answer(self, part: str) -> Path:
        """Return the file of what is known of the roots of a part in the end."""
        return Path(self.root, "down", f"{file_name(part)}.npy")

    def kept(self, part: str) -> Path:
        """Return the file of what was read of a part, there until its estimates are."""
        return Path(self.root, "kept", f"{file_name(part)}.npy")

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
            with writable(Path(self.root)):
                for path in Path(self.root, "kept").glob("*"):
                    path.unlink(missing_ok=True)
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
        for name in ("up", "down", "kept", "estimates"):
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


def _save(path: Path, said: Any, arrays: Mapping[str, Any]) -> None:
    """Write arrays one after another, without the copies that an archive makes."""
    sums = {name: _checksum(array) for name, array in arrays.items()}
    with path.open("wb") as file:
        for array in (json.dumps([said, sums]), *arrays.values()):
            write_array(file, np.asanyarray(array), allow_pickle=False)


def _load(path: Path) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read arrays with what was said of them, as they were written."""
    with path.open("rb") as file:
        size = path.stat().st_size
        said, sums = json.loads(_next(file, size).item())
        arrays = {name: _next(file, size) for name in sums}
    for name, array in arrays.items():
        if _checksum(array) != sums[name]:
            raise ValueError(f"{name} is not as it was written")
    return said, arrays


def _next(file: BinaryIO, size: int) -> NDArray[Any]:
    """Read an array, for which no more memory is taken than the file of that size holds."""
    read_magic(file)
    shape, by_columns, dtype = read_array_header_1_0(file)
    if prod(shape) * dtype.itemsize > size - file.tell():
        raise ValueError("an array in it is larger than the file")
    found = np.fromfile(file, dtype, prod(shape))
    return found.reshape(shape, order="F" if by_columns else "C")


def _checksum(array: Any) -> int:
    return crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def write_known(path: Path, labels: NDArray[Any], known: Mapping[str, FloatArray]) -> None:
    """Write what is known of some labelled tables."""
    with replacing(path, checked=True, lasting=False) as new:
        _save(new, None, {_LABELS: labels, **known})


def read_known(path: Path) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Read what is known of some labelled tables."""
    try:
        _, found = _load(path)
        return found.pop(_LABELS), found
    except _BROKEN as error:
        raise _damaged(path, one_line(error)) from error


def write_part(
    path: Path,
    hierarchy: Hierarchy,
    read: Sequence[ReadMarginal],
    zeros: NDArray[np.bool_] | None,
    found: Mapping[str, FloatArray],
) -> None:
    """Keep what was read of a part, unless the law of a noise is one that files cannot hold.

    What was ``found`` on the way up is kept with it.
    """
    arrays: dict[str, Any] = {
        _LABELS: plain_labels(hierarchy.labels),
        "parent": hierarchy.parent,
        "open": hierarchy.positions(hierarchy.not_exhausted),
    }
    if zeros is not None:
        arrays["zeros"] = zeros
    said = []
    for number, one in enumerate(read):
        kinds = []
        for at, (law, rows) in enumerate(groups(one.law, len(one.values))):
            if type(law) not in KINDS.values():
                return
            kinds.append(kind_of(law))
            arrays[f"rows-{number}-{at}"] = rows
            for name, value in parameters(law).items():
                arrays[f"{name}-{number}-{at}"] = value
        arrays[f"values-{number}"] = narrowed(one.values)
        arrays[f"variance-{number}"] = one.variance
        if one.unit is not None:
            arrays[f"unit-{number}"] = one.unit
        said.append({"names": one.names, "kept": one.kept, "kinds": kinds})
    with replacing(path, lasting=False) as new:
        _save(new, [said, list(found)], {**arrays, **found})


def read_part(
    path: Path,
) -> (
    tuple[Hierarchy, tuple[ReadMarginal, ...], NDArray[np.bool_] | None, Mapping[str, FloatArray]]
    | None
):
    """Read what was kept of a part; None if it is not there as it was written."""
    import pandas as pd

    try:
        (listed, names), arrays = _load(path)
        found = {name: arrays.pop(name) for name in names}
        units = pd.Index(arrays[_LABELS].tolist())
        hierarchy = Hierarchy._complete(
            arrays["parent"], units, np.empty(0, dtype=np.intp), units[arrays["open"]]
        )
        read = []
        for number, said in enumerate(listed):
            values = arrays[f"values-{number}"]
            laws = []
            for at, kind in enumerate(said["kinds"]):
                names = [field.name for field in fields(KINDS[kind])]  # type: ignore[arg-type]
                own = {name: arrays[f"{name}-{number}-{at}"][()] for name in names}
                laws.append((KINDS[kind](**own), arrays[f"rows-{number}-{at}"]))
            law = IndependentNoise.from_groups(laws, len(values))
            unit, variance = arrays.get(f"unit-{number}"), arrays[f"variance-{number}"]
            read.append(
                ReadMarginal(tuple(said["names"]), said["kept"], values, unit, law, None, variance)
            )
    except (DPInferError, *_BROKEN):
        return None  # so that it is read from where it came
    return hierarchy, tuple(read), arrays.get("zeros"), found


def _damaged(path: Path, reason: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"{path} is damaged: {reason}; stream_marginals with the same folder makes it again"
    )


def plain_labels(labels: pd.Index) -> NDArray[Any]:
    """Return labels as an array of str or int, which files can hold."""
    listed = labels.tolist()
    kinds = set(map(type, listed))
    if all(issubclass(kind, str) for kind in kinds) and _are_texts(listed):
        return np.array(listed, dtype=np.str_)
    if kinds == {int} and -_LARGEST_LABEL <= min(listed) <= max(listed) <= _LARGEST_LABEL:
        return np.array(listed, dtype=np.int64)
    raise InvalidParameterError(
        "the units of a part must have labels that are all str or all int, which files can hold, "
        f"got {show(listed[:4])}"
    )


def _are_texts(labels: Sequence[str]) -> bool:
    """Whether all are texts that files can hold: NumPy drops zeros at their end."""
    text = "".join(labels)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return "\0" not in text or not any(label.endswith("\0") for label in labels)


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
    number_there = arrow.field("element", arrow.float64(), nullable=False)  # faster to write
    fields = [arrow.field("unit", units.type)]
    for number, sizes in enumerate(widths):
        for name, size in zip(columns_of(number), sizes, strict=True):
            fields.append(arrow.field(name, arrow.list_(number_there, size), nullable=False))
    schema = arrow.schema(fields, {_NOISES: json.dumps(_noises_of(bound))})
    step = max(1, _ROWS_NUMBERS // max(1, sum(map(sum, widths))))
    with (
        replacing(path, checked=True, lasting=False) as new,
        parquet.ParquetWriter(
            new,
            schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
            write_batch_size=_ROWS_NUMBERS,  # a tenth less time than by 1024 numbers
        ) as writer,
    ):
        for start in range(0, len(labels), step):
            rows = slice(start, min(start + step, len(labels)))
            arrays = [units[rows.start : rows.stop]]
            for number in range(len(widths)):
                for numbers in chunk(number, rows):
                    flat = arrow.array(np.ascontiguousarray(numbers).reshape(-1))
                    kind = schema.field(len(arrays)).type
                    arrays.append(arrow.FixedSizeListArray.from_arrays(flat, type=kind))
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
            check_parquet(path, Limit.of(path, None, _EXPANSION), ["unit"])
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
        check_parquet(file, Limit.of(file, None, _EXPANSION), ["unit", *columns])
    dataset = arrow_dataset.dataset([str(file) for file in files])
    table = dataset.to_table(columns=["unit", *columns])
    arrays = []
    for name in columns:
        column = table.column(name).combine_chunks()
        arrays.append(column.flatten().to_numpy().reshape((len(column), column.type.list_size)))
    return table.column("unit").to_pylist(), arrays


# The parts that a tree of tables is cut into.


@dataclass(frozen=True)
class TreePart:
    """A part of a hierarchy with what was published of its units.

    Parameters
    ----------
    load : callable
        ``load()`` returns the Hierarchy of the units, labelled by str or by int, NoisyMarginals of
        them, and StructuralZeros or None. It is called where the part is worked on, so it should be
        picklable; once in most cases, and again where what it returned could not be kept in the
        folder, so it should always return the same.
    parent : str, optional
        The part above, of which the roots of this one are leaves; None for the top.
    version : str, default ""
        What tells other data from the same: estimates of another version are not taken up again.

    Examples
    --------
    >>> TreePart(print, "state", version="2020").parent
    'state'
    """

    load: Callable[[], Any]
    parent: str | None = None
    version: str = ""


def check_parts(parts: Any) -> dict[str, TreePart]:
    """Return parts, one of which is above all others."""
    if not isinstance(parts, Mapping) or not parts:
        raise InvalidParameterError(
            f"parts must be a mapping of names to one or more TreeParts, got {show(parts)}"
        )
    for name, one in parts.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameterError(f"parts must be named by str, got {show(name)}")
        if not isinstance(one, TreePart) or not callable(one.load):
            raise InvalidParameterError(
                f"parts must hold TreeParts with a function to load them, got {show(one)} for "
                f"{show(name)}"
            )
        if not isinstance(one.version, str):
            raise InvalidParameterError(f"version must be a str, got {show(one.version)}")
        if one.parent is not None and not (isinstance(one.parent, str) and one.parent in parts):
            raise InvalidParameterError(
                f"parent must name another of the parts, {show_some(parts)}, got "
                f"{show(one.parent)} for {show(name)}"
            )
    found = dict(parts)
    tops = [name for name, one in found.items() if one.parent is None]
    if len(tops) != 1:
        raise InvalidParameterError(
            f"one of the parts must be without parent, the top, got {len(tops)}: {show_some(tops)}"
        )
    reached = {name for names in depths_of(found) for name in names}
    if len(reached) < len(found):
        raise InvalidParameterError(
            "parent must lead from every part to the top, not so from "
            f"{show_some(name for name in found if name not in reached)}"
        )
    return found


def depths_of(parts: Mapping[str, TreePart]) -> list[list[str]]:
    """Return the names of the parts of each depth, from the top."""
    below: dict[str | None, list[str]] = {}
    for name, one in parts.items():
        below.setdefault(one.parent, []).append(name)
    found = [below.get(None, [])]
    while found[-1]:
        found.append([name for above in found[-1] for name in below.get(above, [])])
    return found[:-1]


# Parts of a tree of tables in Parquet files of a simple layout of our own.


_UNITS = "units.parquet"
_PARQUET_LABELS = {"unit", "values", "mechanism"}


def write_marginals_parquet(
    folder: str | Path,
    name: str,
    hierarchy: Hierarchy,
    marginals: Any,
    parent: str | None = None,
) -> None:
    """Write a part of a hierarchy with what was published of its units.

    Parameters
    ----------
    folder : str or Path
        The folder of all parts.
    name : str
        The part, whose files go to a folder of its own.
    hierarchy : Hierarchy
        Its units, with labels that are all str or all int.
    marginals : iterable of NoisyMarginal
        What was published of them, with values as arrays.
    parent : str, optional
        The part above; None for the top.

    Notes
    -----
    ``units.parquet`` has a row for each unit: ``unit``, the position of its ``parent`` or -1, and
    whether it is ``not_exhausted``. ``marginal-j.parquet`` has a row for each unit measured:
    ``unit``, its position, the list ``values`` of its cells in row-major order, the name of the
    law of their noise, ``mechanism``, and a column for each of its parameters; its attributes and
    their numbers of levels are in the metadata. ``part.json`` has the name and the parent of the
    part.
    """
    arrow, parquet = require("pyarrow", EXTRA), require("pyarrow.parquet", EXTRA)
    if not isinstance(hierarchy, Hierarchy) or hierarchy.labels is None:
        raise InvalidParameterError(
            f"hierarchy must be a Hierarchy with labels, got {show(hierarchy)}"
        )
    if not isinstance(name, str) or not name:
        raise InvalidParameterError(f"name must be a str, got {show(name)}")
    given = [marginals] if isinstance(marginals, NoisyMarginal) else marginals
    listed = check_items(given, "marginals", "NoisyMarginals")
    if parent is not None and not (isinstance(parent, str) and parent):
        raise InvalidParameterError(f"parent must be a str or None, got {show(parent)}")
    path = check_path(folder, "folder") / file_name(name)
    make_folder(path)
    opened = np.zeros(len(hierarchy), dtype=bool)
    opened[hierarchy.positions(hierarchy.not_exhausted)] = True
    units = {
        "unit": plain_labels(hierarchy.labels).tolist(),
        "parent": hierarchy.parent,
        "not_exhausted": opened,
    }
    with writable(path):
        (path / "part.json").unlink(missing_ok=True)  # what is there is a part no longer
    with replacing(path / _UNITS) as new:
        parquet.write_table(arrow.table(units), new)
    for number, one in enumerate(listed):
        if not isinstance(one, NoisyMarginal):
            raise InvalidParameterError(f"marginals must hold NoisyMarginals, got {show(one)}")
        with replacing(path / f"marginal-{number}.parquet") as new:
            parquet.write_table(_table(one, hierarchy), new, compression="none")
    with replacing(path / "part.json") as new:
        new.write_text(json.dumps({"name": name, "parent": parent, "marginals": len(listed)}))


def _table(one: NoisyMarginal, hierarchy: Hierarchy) -> Any:
    import pyarrow as arrow

    labelled = hasattr(one.values, "iloc") or is_foreign(one.values)  # labels would be lost
    values = np.asarray(None if labelled else one.values)
    if values.ndim < 1 or not len(values) or values.dtype.kind not in "iuf":
        raise InvalidParameterError(
            f"values must be arrays of numbers with a row for each unit, got {show(one.values)}"
        )
    units = (
        np.arange(len(hierarchy)) if one.units is None else hierarchy.positions(one.units, "units")
    )
    if len(units) != len(values):
        raise InvalidParameterError(
            f"values must have a row for each of {len(units)} units, got {len(values)}"
        )
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    law: Any = one.mechanism
    columns = columns_of_law(as_noise(law, len(values)), len(values))
    columns["mechanism"] = arrow.array(columns["mechanism"].tolist()).dictionary_encode()
    listed = arrow.FixedSizeListArray.from_arrays(flat, values[0].size)
    table = arrow.table({"unit": units, "values": listed, **columns})
    names = [one.attributes] if isinstance(one.attributes, str) else list(one.attributes)
    said = json.dumps({"attributes": names, "shape": values.shape[1:]})
    return table.replace_schema_metadata({"dpinfer": said})


_BROKEN = (
    OSError,
    ValueError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    RuntimeError,
    MemoryError,
)
"""What reading files of other content raises, besides Arrow's own errors."""


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say which file is damaged when it cannot be read."""
    arrow = require("pyarrow", EXTRA)
    try:
        yield
    except TooLargeError:
        raise
    except DPInferError as error:
        raise InvalidParameterError(f"{path} is damaged: {one_line(error)}") from error
    except (*_BROKEN, arrow.ArrowException) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InvalidParameterError(f"{path} is damaged: {one_line(reason)}") from error


@dataclass(frozen=True)
class ParquetPart:
    """A function that reads a part from its folder."""

    folder: str
    marginals: int
    max_bytes: int | None = None

    def __call__(self) -> tuple[Hierarchy, list[NoisyMarginal], None]:
        """Read the part."""
        with _readable(Path(self.folder, _UNITS)):
            hierarchy, labels = self._units()
        return hierarchy, [self._marginal(at, labels) for at in range(self.marginals)], None

    def _units(self) -> tuple[Hierarchy, Any]:
        import pandas as pd

        path = Path(self.folder, _UNITS)
        units = read_whole(path, Limit.of(path, self.max_bytes))
        labels = pd.Index(units.column("unit").to_pylist())
        parent = units.column("parent").to_numpy()
        above = pd.Series(labels.to_numpy(dtype=object)[parent], index=labels, dtype=object)
        above[parent < 0] = None
        opened = labels[units.column("not_exhausted").to_numpy()].tolist()
        return Hierarchy(above, not_exhausted=opened), labels

    def _marginal(self, number: int, labels: Any) -> NoisyMarginal:
        path = Path(self.folder, f"marginal-{number}.parquet")
        with _readable(path):
            return _read_marginal(path, labels, Limit.of(path, self.max_bytes))


def _read_marginal(path: Path, labels: Any, limit: Limit) -> NoisyMarginal:
    table = read_whole(path, limit)
    said = json.loads(table.schema.metadata[b"dpinfer"])
    flat = table.column("values").combine_chunks().flatten().to_numpy()
    kinds = table.column("mechanism").to_pandas()
    names = kinds.cat.categories[kinds.cat.codes.unique()]
    columns = {
        name: table.column(name).to_numpy()
        for name in table.column_names
        if name not in _PARQUET_LABELS
    }
    law = laws_of_rows(names[0] if len(names) == 1 else kinds.to_numpy(), columns, table.num_rows)
    units = table.column("unit").to_numpy()
    everywhere = units.size == len(labels) and bool((units == np.arange(units.size)).all())
    values = flat.reshape((-1, *said["shape"]))
    return NoisyMarginal(
        tuple(said["attributes"]), values, law, None if everywhere else labels[units]
    )


def read_marginals_parquet(
    folder: str | Path, *, max_bytes: int | None = None
) -> dict[str, TreePart]:
    """List the parts that :func:`write_marginals_parquet` has written to a folder.

    Parameters
    ----------
    folder : str or Path
        The folder of all parts.
    max_bytes : int, optional
        The most bytes that one file may take once it is decompressed and decoded. By default 256
        MB, or 100 times the size of the file where that is more.

    Returns
    -------
    dict of str to TreePart
        The parts; each is read when it is worked on. Their version is what ``part.json`` says, and
        the sizes of their files and the times at which these were written.
    """
    found: dict[str, TreePart] = {}
    most = check_max_bytes(max_bytes)
    for path in sorted(check_path(folder, "folder").glob("*/part.json")):
        with _readable(path):
            text = path.read_text(encoding="utf-8")
            said: Mapping[str, Any] = json.loads(text)
            files = sorted(path.parent.glob("*.parquet"))
            stamps = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
            number = check_integer(said["marginals"], "marginals", ge=0, le=len(files))
            load = ParquetPart(str(path.parent.absolute()), number, most)
            found[said["name"]] = TreePart(load, said["parent"], version=repr((text, stamps)))
    return check_parts(found)
