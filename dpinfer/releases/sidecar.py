"""The JSON file beside a table that says how its numbers were protected."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import check_option, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.laws import Gaussian, Laplace
from dpinfer.queries.domain import Domain, is_summed
from dpinfer.queries.workload import Codes, Workload
from dpinfer.releases.frames import (
    ROUNDED,
    canonical_kind,
    columns_of_law,
    kind_of,
    parameter_names,
    parameters,
    parameters_of_kind,
)
from dpinfer.releases.limits import Limit, Problem
from dpinfer.releases.noises import Bound

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.releases.release import Release


# How a release is laid out in a file: the columns of the table and the sidecar's content.


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
    layout.add_values(release)
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

    def add_values(self, release: Release) -> None:
        # whole numbers under noise with a density are not what the law says: they stay numbers
        values, law = release.values, release.mechanism
        whole = (
            release.weights is None
            and law.is_integer
            and bool(((values == np.floor(values)) & (np.abs(values) <= LARGEST_INTEGER)).all())
        )
        kind = "integer" if whole else "number"
        self.add(self._field, kind, values.astype(np.int64) if whole else values)

    def add_law(self, release: Release) -> dict[str, Any]:
        """Add columns for what differs between rows; return the law as the sidecar states it."""
        law = release.mechanism
        if release.weights is not None:
            return _shared(release)
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
        if bound is None or isinstance(bound, float):
            return None if bound is None or np.isinf(bound) else bound
        return self.add_free(name, "number", np.where(np.isinf(bound), np.nan, bound))


def _shared(release: Release) -> dict[str, Any]:
    """Return the law of noises that values share, and how much of each is in each value."""
    law, weights = release.mechanism, release.weights
    if law.shape and isinstance(law, (Laplace, Gaussian)):
        # in units of their scales they have one law
        [(name, scale)] = law._parameters().items()
        law, weights = type(law)(**{name: 1.0}), weights * np.asarray(scale)[np.newaxis]
    if law.shape:
        raise IncompatibleReleaseError(
            "release must have noises of one law, where values share them, to be written to a "
            f"file, got {show(law)}: write the release that its values were made from"
        )
    matrix = weights.tocoo()
    return {
        "mechanism": kind_of(law),
        **parameters(law),
        "weights": {
            "noises": int(matrix.shape[1]),
            "row": matrix.row.tolist(),
            "noise": matrix.col.tolist(),
            "weight": matrix.data.tolist(),
        },
    }


def _stated(release: Release) -> dict[str, Any]:
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
        stated |= _descriptor_cells(workload.columns)
    return stated


def _descriptor_cells(cells: pd.Index) -> dict[str, Any]:
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


# JSON documents that know the line of each of their parts.


Pointer = tuple[str | int, ...]
"""Where a part stands in a document: keys of objects and positions in arrays."""

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""What JSON writes for one half of a surrogate pair, which UTF-8 does not have."""

DEEPEST = 16
"""Parts within more others than this are found by the line of one around them."""

MOST_PARTS = 2**20
"""Parts after so many others are found by the line of one around them as well."""

STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)

DEEPEST_OF_ALL = 64
"""Arrays and objects within more others are refused."""

PART_BYTES = 72
"""What an empty array or a number takes in memory, with its place in what it is in."""

CHUNK = 2**20

BEYOND = 2**1024
"""Whole numbers from here on have no float64."""


@dataclass(frozen=True)
class JsonDocument:
    """A parsed document with its text."""

    content: Any
    text: str = field(repr=False)

    def line(self, pointer: Pointer) -> int:
        """Return the line of a part, or of the nearest part around it that is there."""
        while pointer not in self._lines:
            pointer = pointer[:-1]
        return self._lines[pointer]

    @cached_property
    def _lines(self) -> dict[Pointer, int]:
        return locate_parts(self.text)


def load_json(path: Path, limit: Limit) -> JsonDocument:
    """Read a JSON file; refuse repeated keys, NaN and infinities, which JSON does not have."""
    try:
        limit.check(path.stat().st_size)
        written = path.read_bytes()
        _check_form(path, written, limit)
        text = written.decode("utf-8-sig")
        content = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_number,
            parse_float=_number,
        )
        if HALF_CHARACTER.search(text):
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except IncompatibleReleaseError:
        raise
    except OSError as error:
        raise IncompatibleReleaseError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise IncompatibleReleaseError(
            f"{path} must not hold one half of a character, got {show(error.object[error.start])}"
        ) from error
    except UnicodeDecodeError as error:
        raise IncompatibleReleaseError(f"{path} must be UTF-8 text: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise IncompatibleReleaseError(
            f"{path}, line {error.lineno}: not JSON: {error.msg}"
        ) from error
    except ValueError as error:  # from the two hooks, and numbers of too many digits
        raise IncompatibleReleaseError(f"{path}: not JSON: {error}") from error
    return JsonDocument(content, text)


def _check_form(path: Path, written: bytes, limit: Limit) -> None:
    """Refuse a JSON text that is nested too deeply or has too many parts, before it is parsed."""
    bare = np.frombuffer(STRING.sub(b"0", written), dtype=np.uint8)
    depth, parts = 0, 1
    for start in range(0, len(bare), CHUNK):
        part = bare[start : start + CHUNK]
        brackets = part & 0xDF  # which makes [ of { and ] of }
        opened = (brackets == ord("[")).astype(np.int32)
        deep = depth + np.cumsum(opened - (brackets == ord("]")))
        if deep.max() > DEEPEST_OF_ALL:
            raise IncompatibleReleaseError(
                f"{path} must not be nested more than {DEEPEST_OF_ALL} deep"
            )
        depth = int(deep[-1])
        parts += int(opened.sum()) + int(np.isin(part, [ord(","), ord(":")]).sum())
        limit.check(len(written) + PART_BYTES * parts)


def locate_parts(text: str) -> dict[Pointer, int]:
    """Return the lines of the parts of a valid JSON text; a member of an object is at its key."""
    lines: dict[Pointer, int] = {(): 1}
    opened: list[str] = []
    path: list[Any] = []  # the key or position within each open container
    key_next = False
    for token, line in _tokens(text):
        if len(lines) > MOST_PARTS:
            break
        if token == ",":
            key_next = opened[-1] == "{"
            path[-1] = "" if key_next else path[-1] + 1
        elif token in ("]", "}"):
            opened.pop()
            path.pop()
            key_next = False
        elif key_next:
            path[-1] = json.loads(token)
            if len(path) <= DEEPEST:
                lines[tuple(path)] = line
            key_next = False
        elif token != ":":
            if len(path) <= DEEPEST:
                lines.setdefault(tuple(path), line)
            if token in ("[", "{"):
                opened.append(token)
                key_next = token == "{"
                path.append("" if key_next else 0)
    return lines


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, seen = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        yield match.group(), line


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        again = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {show(again)} is there twice")
    return content


def _number(digits: str) -> int | float:
    """Return a whole number as an int and another as a float, within the range of float64."""
    number = int(digits) if digits.lstrip("-").isdecimal() else float(digits)
    if abs(number) >= BEYOND:
        raise ValueError(f"the number {show(digits)} is beyond the range of float64")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


EACH = 5
"""Items of an array that are listed, where more do not fit."""

JSON_EXPANSION = 10
"""How many times its own size a large sidecar may take; numbers in JSON take less."""

SMALL = 2**20
"""What any sidecar may take."""

CELL_BYTES = 16
"""What a cell takes at least where estimates are made of it: a value and a variance."""

PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
"""Types of Python by those of JSON."""

SUFFIX = "-metadata.json"
"""Ending of the sidecar's name after the table's name, as in the W3C's CSV on the Web."""


@dataclass(frozen=True)
class Sidecar:
    """A table descriptor that fits the schema, reduced to one noisy field.

    ``value``: name of the column of noisy values; ``keys``: names of the columns that label the
    rows; ``types``: the Frictionless type of each described column that has one; ``privacy``: the
    ``privacy`` object of the noisy field; ``domain``: the attributes with their levels, where every
    key lists its levels; ``queries``: the ``workload`` object, where the labels do not say what was
    asked; ``name``: name of the release.
    """

    value: str
    keys: tuple[str, ...]
    types: dict[str, str]
    privacy: dict[str, Any]
    domain: Domain | None
    queries: dict[str, Any] | None
    name: str | None

    @property
    def mechanism(self) -> dict[str, Any]:
        """The name of the noise law and its parameters."""
        return {k: v for k, v in self.privacy.items() if k in ("mechanism", *parameter_names())}

    @property
    def clamp(self) -> tuple[Any, Any] | None:
        """The clamping bounds, None for one that is not there."""
        bounds = self.privacy.get("clamp")
        return None if bounds is None else (bounds.get("lower"), bounds.get("upper"))

    @property
    def rule(self) -> tuple[Any, ...]:
        """The parts of the publishing rule: numbers, columns and None."""
        return self.privacy.get("threshold"), self.privacy.get("bin_size"), *(self.clamp or ())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns of the table that are used, each once."""
        specs = [*self.mechanism.values(), *self.rule]
        named = [spec["column"] for spec in specs if isinstance(spec, Mapping)]
        return tuple(dict.fromkeys([*self.keys, self.value, *named]))

    def workload(self, rows: int) -> Workload | None:
        """Return the queries of a release of ``rows`` values that the sidecar itself lists."""
        if self.queries is None:
            return None
        matrix = _matrix(self.queries, rows, "cell", "coefficient", "workload")
        attributes = self.queries.get("attributes")
        if attributes is not None:
            domain = Domain({part["name"]: part["levels"] for part in attributes})
            return Workload(matrix, domain=domain)
        return Workload(matrix, columns=_cells(self.queries))

    def shared(self, rows: int) -> dict[str, Any]:
        """Return how ``rows`` values share noises: weights or a covariance, if either is stated."""
        if (weights := self.privacy.get("weights")) is not None:
            return {"weights": _matrix(weights, rows, "noise", "weight", "weights")}
        covariance = self.privacy.get("covariance")
        return {} if covariance is None else {"covariance": covariance}


def _matrix(stated: Mapping[str, Any], rows: int, column: str, entry: str, name: str) -> Any:
    """Return a sparse matrix of which the entries are stated by row and column."""
    from scipy.sparse import coo_array

    shape = (rows, int(stated[f"{column}s"]))
    at = []
    for axis, size in zip(("row", column), shape, strict=True):
        numbers = stated[axis]
        if (largest := max(numbers, default=0)) >= size:
            raise IncompatibleReleaseError(
                f"the {name} of the sidecar must be on {size} {axis}s, got number {largest}"
            )
        at.append(np.array(numbers, dtype=np.int64))
    return coo_array((stated[entry], tuple(at)), shape=shape, dtype=float)


def default_sidecar(path: Path) -> Path:
    """Return where the sidecar of a table is looked for."""
    return path.with_name(path.name + SUFFIX)


def load_sidecar(
    path: Path, table: str, max_bytes: int | None
) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return the content of the sidecar of the table with file name ``table``, and its problems."""
    limit = Limit(path, max(SMALL, Limit.of(path, max_bytes, JSON_EXPANSION).most))
    document = load_json(path, limit)
    found = list(_schema_problems(document)) or list(_reference_problems(document, table))
    problems = [
        Problem(path.name, message, document.line(at), "/".join(map(str, at)) or "the document")
        for at, message in found
    ]
    if not problems:
        fields = document.content["schema"]["fields"]
        shared = [part.get("privacy", {}).get("weights", {}).get("noises", 0) for part in fields]
        cells = document.content.get("workload", {}).get("cells", 0)
        limit.check(CELL_BYTES * int(max(cells, *shared)))
    return document.content, problems


def parse_sidecar(content: Mapping[str, Any], field: str | None = None) -> Sidecar:
    """Return the part of a valid descriptor that concerns one noisy field."""
    fields = {part["name"]: part for part in content["schema"]["fields"]}
    noisy = [name for name, part in fields.items() if "privacy" in part]
    if field is None and len(noisy) > 1:
        raise InvalidParameterError(
            f"field must be one of the noisy fields {', '.join(noisy)}, got None"
        )
    value = noisy[0] if field is None else check_option(field, "field", noisy)
    keys = _keys(content)
    levels = {key: fields[key].get("constraints", {}).get("enum") for key in keys}
    listed = bool(keys) and all(values is not None for values in levels.values())
    return Sidecar(
        value=value,
        keys=keys,
        types={name: part["type"] for name, part in fields.items() if "type" in part},
        privacy=fields[value]["privacy"],
        domain=Domain(levels) if listed and "workload" not in content else None,
        queries=content.get("workload"),
        name=content.get("name"),
    )


def _schema_problems(document: JsonDocument) -> Iterator[tuple[Pointer, str]]:
    """Yield where the descriptor departs from the JSON Schema."""
    errors = schema_validator().iter_errors(document.content)
    for error in sorted(errors, key=lambda error: document.line(tuple(error.absolute_path))):
        message = error.message if len(error.message) <= 200 else f"{error.message[:200]} …"
        yield tuple(error.absolute_path), message


def _reference_problems(document: JsonDocument, table: str) -> Iterator[tuple[Pointer, str]]:
    """Yield where parts of the descriptor do not fit together."""
    content = document.content
    if content.get("path", table) != table:
        yield ("path",), f"describes the file {show(content['path'])}, not {show(table)}"
    names = [part["name"] for part in content["schema"]["fields"]]
    first = {name: position for position, name in reversed(list(enumerate(names)))}
    for position, name in enumerate(names):
        if first[name] < position:
            yield ("schema", "fields", position, "name"), f"the field {show(name)} is there twice"
    if not any("privacy" in part for part in content["schema"]["fields"]):
        yield ("schema", "fields"), "one field must have a `privacy` object"
    for key in _keys(content):
        if key not in names:
            yield ("schema", "primaryKey"), f"{show(key)} is not among the fields"
    for position, part in enumerate(content["schema"]["fields"]):
        place: Pointer = ("schema", "fields", position)
        if "enum" in part.get("constraints", {}):
            try:
                Domain({part["name"]: part["constraints"]["enum"]})
            except InvalidParameterError as error:
                yield (*place, "constraints", "enum"), str(error)
        privacy = part.get("privacy", {})
        kind = privacy.get("mechanism")
        needed = parameters_of_kind(canonical_kind(kind)) if isinstance(kind, str) else {}
        if "weights" in privacy or "covariance" in privacy:
            yield from _shared_problems(privacy, (*place, "privacy"))
            needed = needed if "weights" in privacy else {}
        for parameter, required in needed.items():
            if required and parameter not in privacy:
                yield (*place, "privacy"), f"{kind} noise must have a {parameter}"
        for parameter, spec in privacy.items():
            yield from _column_problems(spec, names, (*place, "privacy", parameter))
    if (queries := content.get("workload")) is not None:
        yield from _query_problems(queries)


def _shared_problems(privacy: Mapping[str, Any], place: Pointer) -> Iterator[tuple[Pointer, str]]:
    """Yield what does not fit together of values that share noises."""
    named = [
        name for name in ("mechanism", *parameter_names()) if isinstance(privacy.get(name), dict)
    ]
    if named:
        yield (*place, named[0]), "must be no column where values share noises: it is one law"
    if (weights := privacy.get("weights")) is not None:
        if len({len(weights[key]) for key in ("row", "noise", "weight")}) > 1:
            yield (*place, "weights"), "row, noise and weight must have the same length"
        if "covariance" in privacy:
            yield (*place, "covariance"), "must be left out beside weights"
    elif privacy["mechanism"] != "gaussian" or "sigma" in privacy:
        yield (*place, "covariance"), "must be that of gaussian noise, without a sigma"


def _query_problems(queries: Mapping[str, Any]) -> Iterator[tuple[Pointer, str]]:
    if len({len(queries[key]) for key in ("row", "cell", "coefficient")}) > 1:
        yield ("workload",), "row, cell and coefficient must have the same length"
    parts = {_parts(label) for label in queries.get("labels", ())}
    if len(parts) > 1:
        yield ("workload", "labels"), "the labels of the cells must have the same number of parts"
    elif "names" in queries and parts != {len(queries["names"])}:
        yield ("workload", "names"), "must have a name, or null, for each part of the labels"


def _parts(label: Any) -> int:
    return len(label) if isinstance(label, list) else 1


def _cells(queries: Mapping[str, Any]) -> pd.Index | None:
    import pandas as pd

    labels = queries.get("labels")
    if not labels:
        return None
    names = queries.get("names", [None] * _parts(labels[0]))
    if isinstance(labels[0], list):
        return pd.MultiIndex.from_tuples([tuple(label) for label in labels], names=names)
    return pd.Index(labels, name=names[0])


def _column_problems(
    spec: Any, names: list[str], pointer: Pointer
) -> Iterator[tuple[Pointer, str]]:
    """Yield references to columns that are not described."""
    if not isinstance(spec, Mapping):
        return
    if "column" in spec and spec["column"] not in names:
        yield pointer, f"the column {show(spec['column'])} is not among the fields"
    for key, inner in spec.items():
        yield from _column_problems(inner, names, (*pointer, key))


def _keys(content: Mapping[str, Any]) -> tuple[str, ...]:
    key = content["schema"].get("primaryKey", ())
    return (key,) if isinstance(key, str) else tuple(key)


@cache
def schema_validator() -> Any:
    """Return what checks descriptors by the JSON Schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    text = resources.files("dpinfer.releases").joinpath("sidecar.schema.json").read_text("utf-8")
    return extend(Draft202012Validator, {"uniqueItems": _unique_items, "items": _items})(
        json.loads(text)
    )


def _items(validator: Any, schema: Any, items: Any, parent: Any) -> Iterator[Exception]:
    """Refuse the first few items that do not fit; plain ones are not looked at one by one."""
    if not isinstance(items, list) or len(items) > parent.get("maxItems", len(items)):
        return
    found = 0
    for position in _doubtful(schema, items):
        errors = list(validator.descend(items[position], schema, path=position))
        yield from errors
        found += bool(errors)
        if found == EACH:
            return


def _doubtful(schema: Mapping[str, Any], items: list[Any]) -> Iterable[int]:
    """Return the positions of items of which simple rules do not show that they fit."""
    scalar = set(schema) <= {"type", "minimum", "description"}
    if (
        scalar
        and set(map(type, items)) <= _kinds(schema)
        and ("minimum" not in schema or min(items, default=0) >= schema["minimum"])
    ):
        return ()
    return (position for position, item in enumerate(items) if not _fits(schema, item))


def _fits(schema: Mapping[str, Any], item: Any) -> bool:
    """Whether an item fits a schema of simple rules."""
    if "anyOf" in schema:
        return any(_fits(one, item) for one in schema["anyOf"])
    if not set(schema) <= {"type", "minimum", "minItems", "items", "description"}:
        return False
    if type(item) is list and schema.get("type") == "array":
        inside = schema.get("items", {"type": []})
        return len(item) >= schema.get("minItems", 0) and all(_fits(inside, one) for one in item)
    plain = type(item) in _kinds(schema)
    whole = schema.get("type") == "integer" and type(item) is float and item.is_integer()
    return (plain or whole) and ("minimum" not in schema or item >= schema["minimum"])


def _kinds(schema: Mapping[str, Any]) -> set[type]:
    named = schema.get("type", [])
    named = [named] if isinstance(named, str) else named
    return {kind for name in named for kind in PLAIN.get(name, ())}


def _unique_items(_: Any, wanted: bool, items: Any, __: Any) -> Iterator[Exception]:
    """Refuse items that are there twice, in time proportional to their number."""
    from jsonschema import ValidationError

    if not wanted or not isinstance(items, list):
        return
    seen: set[Any] = (
        set(items)
        if set(map(type, items)) == {str}
        else {
            ("JSON", json.dumps(item, sort_keys=True))
            if isinstance(item, (list, dict, bool))
            else item
            for item in items
        }
    )
    if len(seen) < len(items):
        yield ValidationError("must not hold an item twice")
