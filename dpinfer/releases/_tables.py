"""Labelled tables of the same records, put one below the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_pandas
from dpinfer._validation import FloatArray, check_array, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import NoiseLaw
from dpinfer.queries import Domain, Workload
from dpinfer.queries.domain import check_domain, is_summed, refusing, show_label
from dpinfer.releases._laws import spread_laws
from dpinfer.results.labels import stack_labels

if TYPE_CHECKING:
    import pandas as pd


def rows_of_tables(
    tables: Any, mechanism: Any, domain: Domain | None
) -> tuple[FloatArray, Workload, NoiseLaw]:
    """Return the values, the queries and the noise of labelled tables."""
    if not isinstance(tables, (list, tuple)) or not tables:
        raise InvalidParameterError(
            f"tables must be a list of Series, DataFrames and numbers, got {show(tables)}"
        )
    parts = [_split(table, f"table {k}") for k, table in enumerate(tables)]
    if isinstance(mechanism, (list, tuple)) and len(mechanism) == len(parts):
        mechanism = [
            _published(law, mask) for law, (_, _, mask) in zip(mechanism, parts, strict=True)
        ]
    law = spread_laws(mechanism, [len(values) for values, _, _ in parts])
    values = np.concatenate([values for values, _, _ in parts])
    frames = [labels for _, labels, _ in parts]
    return values, workload_of_labels(frames, [len(v) for v, _, _ in parts], domain), law


def workload_of_labels(
    tables: Sequence[dict[str, Any]], sizes: Sequence[int], domain: Domain | None
) -> Workload:
    """Return the queries that labelled rows answer.

    Each table maps its attributes to the label of each of its rows; a row sums over an attribute
    that the table does not have or whose label says so.
    """
    given = domain is not None
    domain = _infer(tables) if domain is None else check_domain(domain)
    codes = np.full((sum(sizes), len(domain.attributes)), -1, dtype=np.int32)
    start = 0
    for labels, size in zip(tables, sizes, strict=True):
        domain.check_attributes(labels)
        for axis, attribute in enumerate(domain.attributes):
            if attribute in labels:
                codes[start : start + size, axis] = _codes(domain, attribute, labels[attribute])
        start += size
    _refuse_duplicates(domain, codes)
    if not given and not (codes < 0).any() and len(codes) < domain.size:
        return Workload.identity(len(codes), domain.label_rows(codes))
    return Workload.from_codes(domain, codes)


def is_single_column(frame: pd.DataFrame) -> bool:
    """Whether a DataFrame is a Series in all but type: one column that no attribute names."""
    return bool(frame.shape[1] == 1 and frame.columns.names == [None])


def _split(table: Any, name: str) -> tuple[FloatArray, dict[str, Any], NDArray[np.bool_]]:
    """Return the values of a table, its labels by attribute, and which cells it published."""
    import pandas as pd

    table = as_pandas(table, name, index="all but last")
    if isinstance(table, pd.DataFrame) and not is_single_column(table):
        labels = stack_labels(table)
        values = table.to_numpy().ravel()
        published = ~pd.isna(values)
        stacked = check_array(values[published], name)
        return stacked, _by_attribute(labels[published], name), published
    table = table.iloc[:, 0] if isinstance(table, pd.DataFrame) else table
    if isinstance(table, pd.Series):
        values = check_array(table.to_numpy(), name, ndim=1)
        if len(values) == 1 and table.index.names == [None]:
            return values, {}, np.ones(1, dtype=bool)
        return values, _by_attribute(table.index, name), np.ones(len(values), dtype=bool)
    total = check_array(table, name, ndim=0)
    return total.reshape(1), {}, np.ones(1, dtype=bool)


def _by_attribute(labels: pd.Index, name: str) -> dict[str, Any]:
    unnamed = [k for k, attribute in enumerate(labels.names) if attribute is None]
    if unnamed:
        raise InvalidParameterError(
            f"{name} must have its index levels and columns named after attributes, level "
            f"{unnamed[0]} has no name: use rename_axis"
        )
    if len(set(labels.names)) < len(labels.names):
        raise InvalidParameterError(f"{name} must name an attribute once, got {labels.names}")
    return {attribute: labels.get_level_values(attribute) for attribute in labels.names}


def _published(law: Any, mask: NDArray[np.bool_]) -> Any:
    """Keep the laws of the published cells where a law was given for every cell of the table."""
    if isinstance(law, NoiseLaw) and law.shape == mask.shape and not mask.all():
        return law.take(mask)
    return law


def _infer(tables: Sequence[dict[str, Any]]) -> Domain:
    """Domain of the attributes and levels that the tables show."""
    seen: dict[str, dict[Hashable, None]] = {}
    for labels in tables:
        for attribute, column in labels.items():
            levels = seen.setdefault(attribute, {})
            with refusing(column, f"labels of {attribute}"):
                levels |= dict.fromkeys(level for level in _shown(column) if not is_summed(level))
    for attribute, levels in seen.items():
        _refuse_mixed_types(attribute, list(levels))
    return Domain({attribute: list(levels) for attribute, levels in seen.items()})


def _refuse_mixed_types(attribute: str, levels: list[Hashable]) -> None:
    """Refuse 1 beside "1": the same level in tables that were read with different types."""
    written: dict[str, Hashable] = {}
    for level in levels:
        other = written.setdefault(str(level), level)
        if other is not level:
            raise InvalidParameterError(
                f"levels of {attribute} must be of one type, got {show_label(other)} and "
                f"{show_label(level)}: convert one of the tables"
            )


def _shown(column: Any) -> list[Hashable]:
    """Distinct labels in order of appearance, of the categories for a categorical."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        held = set(column.dropna().unique())
        return [level for level in column.dtype.categories if level in held]
    return list(pd.unique(column))


def _codes(domain: Domain, attribute: str, column: Any) -> NDArray[np.intp]:
    """Level numbers of a column of labels, -1 where it says "summed over"."""
    import pandas as pd

    with refusing(column, f"labels of {attribute}"):
        numbers, distinct = pd.factorize(column)
    known = np.full(len(distinct) + 1, -1, dtype=np.intp)
    shown = [position for position, level in enumerate(distinct) if not is_summed(level)]
    if shown:
        known[shown] = domain.codes(attribute, [distinct[k] for k in shown], of="label")
    return np.asarray(known[numbers])


def _refuse_duplicates(domain: Domain, codes: NDArray[np.int32]) -> None:
    import pandas as pd

    # rows are numbered with one more level an attribute, which stands for "summed over"
    sizes = [size + 1 for size in domain.shape]
    number = np.zeros(len(codes), dtype=np.int64 if prod(sizes) < 2**63 else object)
    for column, size in zip(codes.T, sizes, strict=True):
        number = number * size + (column + 1).astype(number.dtype)
    repeated = np.flatnonzero(pd.Series(number).duplicated())
    if len(repeated):
        label = show_label(domain.label_rows(codes[repeated[:1]])[0])
        raise IncompatibleReleaseError(
            f"labels must be distinct, {label} is published twice (again in row {repeated[0]}): "
            "give repeated measurements of one query as Release(values, workload=matrix, "
            "mechanism=...) with labels of your own"
        )
