"""What a combined estimate is asked for: linear functions of the cells, with their labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, as_table, check_array, check_integer, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms.weighted_sum import LARGEST_WEIGHT
from dpinfer.queries.workload import Workload, lone_entries, stack_rows
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.design import Design, Matrix


_NAMED = 5  # an error names at most this many labels


@dataclass(frozen=True)
class Targets:
    """Targets T x (k × n) with labels, and the row that publishes each (-1 where none does).

    No matrix stands for the identity.
    """

    matrix: Matrix | None
    labels: pd.Index | None
    published: NDArray[np.intp]

    def __getitem__(self, position: int) -> Hashable:
        """Return the label of a target, or a name where it has none."""
        if self.labels is not None:
            return self.labels[position]  # type: ignore[no-any-return]
        row = self.published[position]
        return f"value {row}" if row >= 0 else f"target {position}"

    def __len__(self) -> int:
        return len(self.published)

    def position(self, label: Any) -> int:
        """Return where the target with a label is; without labels, check a position."""
        if self.labels is None:
            return check_integer(label, "target", ge=0, le=len(self) - 1)
        found = _find(label, self.labels)
        if found < 0:
            raise InvalidParameterError(
                f"target must be a label of the estimate, got {show(label)}"
            )
        return found

    def refuse(self, bad: NDArray[np.bool_]) -> None:
        """Raise an error that names the targets that are not estimable, if there are any."""
        positions = np.flatnonzero(bad)
        if not len(positions):
            return
        named = ", ".join(show(self[int(position)]) for position in positions[:_NAMED])
        more = f" and {len(positions) - _NAMED} more" if len(positions) > _NAMED else ""
        raise NotEstimableError(
            f"target must be determined by the published values, but these are not: {named}{more}; "
            "no linear combination of the published queries equals them"
        )


def all_targets(workload: Workload, design: Design | None) -> Targets:
    """Every published row, then every estimable cell that no row publishes."""
    rows, cells = workload.shape
    if design is None:
        return Targets(None, workload.labels, np.arange(rows))
    matrix = workload.matrix
    wanted = design.estimable_cells()
    wanted[_published_cells(matrix)] = False
    extra = np.flatnonzero(wanted)
    labels, published = workload.labels, np.arange(rows)
    if not len(extra):
        return Targets(matrix, labels, published)
    published = np.concatenate([published, np.full(len(extra), -1)])
    if labels is not None or workload.columns is not None:
        labels = _append(
            _or_numbered(labels, rows, "value"),
            _or_numbered(workload.columns, cells, "cell")[extra],
        )
    return Targets(stack_rows([matrix, _unit_rows(extra, cells, matrix)]), labels, published)


def find_targets(target: Any, workload: Workload) -> Targets:
    """Normalise what a ``target=`` argument takes."""
    target = _as_target(target, "target")
    if isinstance(target, Workload):
        return _unpublished(target.matrix, target.labels, workload)
    if isinstance(target, Mapping):
        if not target:
            raise InvalidParameterError("target must name at least one target, got none")
        rows = [_vector(value, str(name), workload) for name, value in target.items()]
        return _unpublished(np.stack(rows), _index(target), workload)
    if hasattr(target, "iloc"):
        if target.ndim == 1:
            return _unpublished(_vector(target, "vector", workload)[None, :], None, workload)
        if not len(target):
            raise InvalidParameterError("target must hold at least one target, got none")
        rows = [_vector(row, str(name), workload) for name, row in target.iterrows()]
        return _unpublished(np.stack(rows), target.index, workload)
    if hasattr(target, "tocsr"):
        return _unpublished(Workload(target).matrix, None, workload)
    labels = _as_labels(target, workload)
    if labels is not None:
        return _from_labels(labels, workload)
    vectors = check_array(target, "target")
    if vectors.ndim not in (1, 2):
        raise InvalidParameterError(
            f"target must be a vector or a matrix with a row for each target, got shape "
            f"{vectors.shape}"
        )
    return _unpublished(np.atleast_2d(vectors), None, workload)


def _as_target(target: Any, name: str) -> Any:
    """Return a table of another library as that of pandas; columns of labels alone as an Index."""
    table = as_table(target, name)
    only_labels = table is not target and hasattr(table, "columns") and not table.shape[1]
    return table.index if only_labels else table


def _unpublished(matrix: Matrix, labels: pd.Index | None, workload: Workload) -> Targets:
    """Targets given by a matrix, checked against the number of cells."""
    cells = workload.shape[1]
    if matrix.shape[1] != cells:
        raise InvalidParameterError(
            f"target must have {cells} columns, one for each cell of the workload, "
            f"got {matrix.shape[1]}"
        )
    return Targets(matrix, labels, np.full(matrix.shape[0], -1))


def _vector(value: Any, name: str, workload: Workload) -> FloatArray:
    """One target as a vector over the cells; labels of cells may stand for their positions."""
    cells = workload.shape[1]
    value = _as_target(value, f"target {name}")
    if isinstance(value, Mapping):
        columns = workload.columns
        if columns is None or not value:
            raise InvalidParameterError(
                f"target {name} must be a vector, or a mapping of the labels of cells to weights, "
                f"got {show(dict(value))} for cells labelled {_shown(columns)}"
            )
        value = _as_series(value)
    if hasattr(value, "iloc") and workload.columns is not None:
        where = workload.columns.get_indexer(value.index)
        if (where < 0).any():
            missing = value.index[int(np.flatnonzero(where < 0)[0])]
            raise InvalidParameterError(
                f"target {name} must be labelled with cells of the workload, got {show(missing)}; "
                "pass an array to go by position"
            )
        vector = np.zeros(cells)
        np.add.at(vector, where, check_array(value.to_numpy(), f"target {name}", ndim=1))
        return vector
    vector = check_array(value, f"target {name}", ndim=1)
    if len(vector) != cells:
        raise InvalidParameterError(
            f"target {name} must have {cells} entries, one for each cell of the workload, "
            f"got {len(vector)}"
        )
    return vector


def _as_labels(target: Any, workload: Workload) -> list[Hashable] | None:
    """Return labels as a list, or None where ``target`` holds numbers."""
    if isinstance(target, str) or (isinstance(target, tuple) and _known(target, workload)):
        return [target]
    vector = isinstance(target, np.ndarray) and target.ndim == 1 and target.dtype.kind in "OU"
    target = target.tolist() if vector else target
    listed = isinstance(target, Sequence) or hasattr(target, "to_list")
    items = list(target) if listed else []
    if not items or not all(isinstance(item, (str, tuple)) for item in items):
        return None
    # tuples are labels with several parts, or else the rows of a matrix
    texts = any(isinstance(item, str) for item in items)
    return items if texts or any(_known(item, workload) for item in items) else None


def _known(label: Hashable, workload: Workload) -> bool:
    """Whether a label names a published row or a cell."""
    return max(_find(label, workload.labels), _find(label, workload.columns)) >= 0


def _find(label: Hashable, index: pd.Index | None) -> int:
    """Position of a label in an index, -1 where it is not in it."""
    if index is None:
        return -1
    parts = len(label) if isinstance(label, tuple) else 1
    if index.nlevels != parts and index.nlevels > 1:
        return -1
    try:
        found = np.flatnonzero(index.isin([label]))
    except (TypeError, ValueError, NotImplementedError):  # such as an unhashable label
        return -1
    return int(found[0]) if len(found) else -1


def _from_labels(labels: list[Hashable], workload: Workload) -> Targets:
    """Targets named by the labels of published rows and of cells."""
    import pandas as pd

    rows = np.array([_find(label, workload.labels) for label in labels])
    cells = np.array([_find(label, workload.columns) for label in labels])
    for label, row, cell in zip(labels, rows, cells, strict=True):
        if row < 0 and cell < 0:
            raise InvalidParameterError(
                f"target {show(label)} must be the label of a published value or of a cell; "
                f"the values are labelled {_shown(workload.labels)}, "
                f"the cells {_shown(workload.columns)}"
            )
    matrix = workload.matrix
    chosen = matrix[np.maximum(rows, 0)]
    units = _unit_rows(np.maximum(cells, 0), workload.shape[1], matrix)
    for at in np.flatnonzero((rows >= 0) & (cells >= 0)):
        if abs(chosen[[at]] - units[[at]]).sum() > 0:
            raise InvalidParameterError(
                f"target {show(labels[at])} must have one meaning, but it is the label of a "
                "published value and of another cell; pass a vector of weights of the cells"
            )
    where = np.where(rows >= 0, np.arange(len(rows)), np.arange(len(rows)) + len(rows))
    names = pd.Index(labels, tupleize_cols=not any(isinstance(label, str) for label in labels))
    for index in (workload.labels, workload.columns):
        if index is not None and index.nlevels == names.nlevels:
            names = names.set_names(index.names)
            break
    return Targets(stack_rows([chosen, units])[where], names, rows)


def _shown(index: pd.Index | None) -> str:
    """Return the first labels of an index, for a message."""
    if index is None:
        return "not at all"
    named = ", ".join(show(label) for label in index[:_NAMED])
    return f"{named}, ..." if len(index) > _NAMED else named


def _published_cells(matrix: Matrix) -> NDArray[np.integer[Any]]:
    """Cells that a published row asks for by themselves."""
    if isinstance(matrix, np.ndarray):
        alone = (np.count_nonzero(matrix, axis=1) == 1) & (matrix.sum(axis=1) == 1)
        return np.asarray(np.abs(matrix[alone]).argmax(axis=1))
    at = lone_entries(matrix)
    return np.asarray(matrix.indices[at[matrix.data[at] == 1]])


def _unit_rows(cells: NDArray[np.intp], width: int, like: Matrix) -> Matrix:
    """Targets that are one cell each, dense or sparse like another matrix."""
    if isinstance(like, np.ndarray):
        return (cells[:, None] == np.arange(width)).astype(np.float64)
    from scipy.sparse import csr_array

    ends = np.arange(len(cells) + 1)
    return csr_array((np.ones(len(cells)), cells, ends), shape=(len(cells), width))


def _or_numbered(labels: pd.Index | None, length: int, kind: str) -> pd.Index:
    """Labels, or numbered ones where there are none."""
    import pandas as pd

    if labels is not None:
        return labels
    return pd.Index([f"{kind} {position}" for position in range(length)])


def _append(rows: pd.Index, cells: pd.Index) -> pd.Index:
    """Labels of rows and then of cells, which must be distinct."""
    import pandas as pd

    if rows.nlevels == cells.nlevels:
        labels = rows.append(cells)
    else:
        labels = pd.Index([*rows, *cells], tupleize_cols=False)
    if not labels.is_unique:
        repeated = labels[labels.duplicated()][0]
        raise InvalidParameterError(
            f"target must be given: the label {show(repeated)} stands for a published value and "
            "for another cell, so that not every value and cell can be estimated at once"
        )
    return labels


# Weights of linear functions of published values.


def noisy_vector(values: Any, mechanism: Any) -> NoisyValues:
    """Return the values of which linear functions are asked for."""
    x = noisy(values, mechanism=mechanism)
    if len(x.shape) != 1:
        hint = "" if x.shape else ": of one value, give a list of it; of one function, its weights"
        raise InvalidParameterError(f"values must be one-dimensional, got shape {x.shape}{hint}")
    return x


def checked_weights(
    weights: Any, labels: pd.Index | None, size: int, name: str = "weights"
) -> FloatArray:
    """Return weights (size,) or (k × size) in the order of the values, called ``name``."""
    weights = as_table(weights, name)
    if isinstance(weights, Mapping):
        if labels is None or not weights:
            raise InvalidParameterError(
                f"{name} must be an array, or a mapping of labels of the values to weights, got "
                f"{show(dict(weights))} for values {'without' if labels is None else 'with'} labels"
            )
        weights = _as_series(weights)
    if labels is not None and hasattr(weights, "iloc"):
        own = weights.columns if hasattr(weights, "columns") else weights.index
        if not _all_among(own, labels):
            raise InvalidParameterError(
                f"{name} must be labelled like the values, each label once; pass an array to go "
                "by position"
            )
        weights = weights.reindex(labels, axis=weights.ndim - 1, fill_value=0.0)
    matrix = check_array(weights, name, ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT)
    if matrix.ndim not in (1, 2) or matrix.shape[-1] != size:
        raise InvalidParameterError(
            f"{name} must have {size} entries in each row, one for each value, "
            f"got shape {matrix.shape}"
        )
    return matrix


def _all_among(own: pd.Index, labels: pd.Index) -> bool:
    """Whether all labels are among those of the values, each once."""
    try:
        return bool(own.is_unique and labels.is_unique and own.isin(labels).all())
    except (TypeError, ValueError):  # labels of another kind, such as text and numbers
        return False


def _as_series(weights: Mapping[Hashable, Any]) -> pd.Series:
    """Read a mapping of labels to weights."""
    import pandas as pd

    return pd.Series(list(weights.values()), index=pd.Index(list(weights)))


def _index(target: Mapping[Hashable, Any]) -> pd.Index:
    import pandas as pd

    return pd.Index(list(target), tupleize_cols=False)
