"""How a release is laid out in a file: the columns of the table and the sidecar's content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import NoiseLaw
from dpinfer.queries import Domain, Workload
from dpinfer.queries._marginals import Codes
from dpinfer.queries.domain import is_summed
from dpinfer.releases._fields import Bound
from dpinfer.releases._laws import ROUNDED, columns_of_law, kind_of, parameters

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.releases.release import Release

LARGEST_INTEGER = 2.0**53
"""Whole numbers up to here are exact in float64 and are written without a decimal point."""


def describe(
    release: Release, file: str, field: str, title: str | None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table of a release and the descriptor of that table."""
    import pandas as pd

    if not isinstance(field, str) or not field:
        raise InvalidParameterError(f"field must be a non-empty string, got {show(field)}")
    layout = _Layout(field)
    layout.add_labels(release)
    layout.add_values(release.values, release.mechanism)
    privacy = layout.add_law(release) | _stated(release) | layout.add_rule(release)
    layout.fields[field]["privacy"] = privacy
    schema: dict[str, Any] = {"fields": list(layout.fields.values())}
    if layout.keys:
        schema["primaryKey"] = layout.keys
    descriptor: dict[str, Any] = {} if release.name is None else {"name": release.name}
    descriptor |= {} if title is None else {"title": title}
    descriptor |= {"path": file, "schema": schema}
    if not layout.labels_say_queries:
        descriptor["workload"] = _queries(release.workload)
    return pd.DataFrame(layout.columns), descriptor


class _Layout:
    """Columns of a table under construction, each with its description."""

    def __init__(self, field: str) -> None:
        self.columns: dict[str, Any] = {}
        self.fields: dict[str, dict[str, Any]] = {}
        self.keys: list[str] = []
        self.labels_say_queries = False
        self._field = field

    def add(self, name: str, kind: str, values: Any, **constraints: Any) -> None:
        self.columns[name] = values
        self.fields[name] = {"name": name, "type": kind}
        if constraints:
            self.fields[name]["constraints"] = constraints

    def add_free(self, name: str, kind: str, values: Any) -> dict[str, str]:
        """Add a column under the first free name like ``name``, and refer to it."""
        while name in self.columns:
            name = f"{name}_"
        self.add(name, kind, values)
        return {"column": name}

    def add_labels(self, release: Release) -> None:
        workload = release.workload
        if workload.domain is not None and workload.codes is not None:
            self._add_codes(workload.domain, workload.codes)
            self.labels_say_queries = True
        elif release.labels is not None:
            complete = self._add_index(release.labels)
            self.labels_say_queries = workload.is_identity and complete
        else:
            self.labels_say_queries = workload.is_identity
        self.keys = list(self.columns)
        if self._field in self.keys:
            raise IncompatibleReleaseError(
                f"field must differ from the names of the labels, got {show(self._field)}"
            )

    def _add_codes(self, domain: Domain, codes: Codes) -> None:
        import pandas as pd

        for axis, (name, levels) in enumerate(domain.levels.items()):
            kind = _type_of(levels, name)
            column = pd.Categorical.from_codes(codes[:, axis], categories=list(levels))
            self.add(name, kind, column, enum=list(levels))

    def _add_index(self, labels: pd.Index) -> bool:
        """Add the levels of an index; return whether none of them sums over an attribute."""
        import pandas as pd

        complete = True
        for level in range(labels.nlevels):
            name = labels.names[level]
            if name is None:
                name = "label" if labels.nlevels == 1 else f"label_{level + 1}"
            codes, distinct = pd.factorize(labels.get_level_values(level))
            shown = [value for value in distinct.tolist() if not is_summed(value)]
            kept = np.array([not is_summed(value) for value in distinct.tolist()] + [False])
            renumbered = np.where(kept, np.cumsum(kept) - 1, -1)[codes]
            complete &= bool((renumbered >= 0).all())
            column = pd.Categorical.from_codes(renumbered, categories=shown)
            self.add(str(name), _type_of(tuple(shown), str(name)), column)
        if len(self.columns) < labels.nlevels:
            raise IncompatibleReleaseError(
                f"labels must have levels of different names, got {list(labels.names)}"
            )
        return complete

    def add_values(self, values: FloatArray, law: NoiseLaw) -> None:
        # whole numbers under noise with a density are not what the law says: they stay numbers
        whole = law.is_integer and bool(
            ((values == np.floor(values)) & (np.abs(values) <= LARGEST_INTEGER)).all()
        )
        kind = "integer" if whole else "number"
        self.add(self._field, kind, values.astype(np.int64) if whole else values)

    def add_law(self, release: Release) -> dict[str, Any]:
        """Add columns for what differs between rows; return the law as the sidecar states it."""
        law = release.mechanism
        if law.shape == ():
            return {"mechanism": kind_of(law)} | parameters(law)
        columns = columns_of_law(law, len(release))
        kinds = columns.pop("mechanism")
        several = (kinds != kinds[0]).any()
        stated = {"mechanism": self.add_free("mechanism", "string", kinds) if several else kinds[0]}
        if (columns.get(ROUNDED, np.zeros(1)) == 1).all():
            stated[ROUNDED] = bool(columns.pop(ROUNDED)[0])
        for name, values in columns.items():
            stated[name] = self.add_free(name, "number", values)
        return stated

    def add_rule(self, release: Release) -> dict[str, Any]:
        """Add columns for bounds that differ between rows; return the publishing rule."""
        rule: dict[str, Any] = {}
        if (threshold := self._bound("threshold", release.threshold)) is not None:
            rule["threshold"] = threshold
        if release.clamp is not None:
            lower = self._bound("lower", release.clamp[0])
            upper = self._bound("upper", release.clamp[1])
            bounds = {"lower": lower, "upper": upper}
            stated = {key: bound for key, bound in bounds.items() if bound is not None}
            rule |= {"clamp": stated} if stated else {}
        if np.greater(release.bin_size, 1).any():
            rule["bin_size"] = self._bound("bin_size", release.bin_size)
        return rule

    def _bound(self, name: str, bound: Bound | None) -> Any:
        """Return a bound as the sidecar states it; infinite ones are left out."""
        if bound is None or isinstance(bound, float):
            return None if bound is None or np.isinf(bound) else bound
        return self.add_free(name, "number", np.where(np.isinf(bound), np.nan, bound))


def _stated(release: Release) -> dict[str, Any]:
    """Return the stated protection, as plain JSON."""
    parts = {
        "sensitivity": release.sensitivity,
        "neighbours": release.neighbours,
        "guarantee": release.guarantee,
    }
    return {
        key: dict(part) if isinstance(part, Mapping) else part
        for key, part in parts.items()
        if part is not None
    }


def _queries(workload: Workload) -> dict[str, Any]:
    """Return the coefficients of the queries, as plain JSON."""
    from scipy.sparse import coo_array

    matrix = coo_array(workload.matrix)
    stated = {
        "cells": workload.shape[1],
        "row": matrix.row.tolist(),
        "cell": matrix.col.tolist(),
        "coefficient": matrix.data.tolist(),
    }
    if workload.domain is not None:
        levels = workload.domain.levels.items()
        stated["attributes"] = [{"name": name, "levels": list(part)} for name, part in levels]
    elif workload.columns is not None:
        stated |= _cells(workload.columns)
    return stated


def _cells(cells: pd.Index) -> dict[str, Any]:
    """Return the labels of the cells, and their names if they have any, as plain JSON."""
    parts = [cells.get_level_values(level).tolist() for level in range(cells.nlevels)]
    for part in parts:
        _type_of(tuple(part), "the cells")
    labels = parts[0] if len(parts) == 1 else [list(label) for label in zip(*parts, strict=True)]
    names = [None if name is None else str(name) for name in cells.names]
    named = any(name is not None for name in names)
    return {"labels": labels} | ({"names": names} if named else {})


def _type_of(levels: tuple[Any, ...], name: str) -> str:
    """Return the Frictionless type of labels, which must be of one type."""
    if all(isinstance(level, bool) for level in levels):
        return "boolean"
    if any(isinstance(level, bool) for level in levels):
        kind = None
    elif all(isinstance(level, int) for level in levels):
        kind = "integer"
    elif all(isinstance(level, (int, float)) and np.isfinite(level) for level in levels):
        kind = "number"
    else:
        kind = "string" if all(isinstance(level, str) and level for level in levels) else None
    if kind is None:
        shown = ", ".join(repr(level) for level in levels[:4])
        raise IncompatibleReleaseError(
            f"labels of {name} must be all non-empty strings, all numbers or all booleans to be "
            f"written to a file, got {shown}"
        )
    return kind
