"""Parts of a tree of tables in Parquet files of a simple layout of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer._interchange import is_foreign
from dpinfer._validation import check_integer, check_items, one_line, show
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.estimation.streaming._files import (
    file_name,
    make_folder,
    plain_labels,
    replacing,
    writable,
)
from dpinfer.estimation.streaming._tree import TreePart, check_parts
from dpinfer.estimation.tables.marginals import NoisyMarginal
from dpinfer.mechanisms.independent import as_noise
from dpinfer.queries import Hierarchy
from dpinfer.releases._files.limits import Limit, TooLargeError, check_max_bytes
from dpinfer.releases._files.parquet_table import read_whole
from dpinfer.releases._files.table import check_path
from dpinfer.releases._laws import columns_of_law, laws_of_rows

_UNITS = "units.parquet"

_LABELS = {"unit", "values", "mechanism"}


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

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the folder cannot be written, as when the
        disk is full.

    Notes
    -----
    ``units.parquet`` has a row for each unit: ``unit``, the position of its ``parent`` or -1, and
    whether it is ``not_exhausted``. ``marginal-j.parquet`` has a row for each unit measured:
    ``unit``, its position, the list ``values`` of its cells in row-major order, the name of the
    law of their noise, ``mechanism``, and a column for each of its parameters; its attributes and
    their numbers of levels are in the metadata. ``part.json`` has the name and the parent of the
    part.
    """
    import pyarrow as arrow
    from pyarrow import parquet

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
    columns = columns_of_law(as_noise(one.mechanism, len(values)), len(values))
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
)
"""What reading files of other content raises, besides Arrow's own errors."""


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say which file is damaged when it cannot be read."""
    from pyarrow import ArrowException

    try:
        yield
    except TooLargeError:
        raise
    except DPInferError as error:
        raise InvalidParameterError(f"{path} is damaged: {one_line(error)}") from error
    except (*_BROKEN, ArrowException) as error:
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
        name: table.column(name).to_numpy() for name in table.column_names if name not in _LABELS
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
