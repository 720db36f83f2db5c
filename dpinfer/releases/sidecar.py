"""The JSON file beside a table that says how its numbers were protected."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import Way, check_option, show, step_and_way
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.laws import Gaussian, Laplace
from dpinfer.queries.domain import Domain, is_summed
from dpinfer.queries.workload import Codes, Workload
from dpinfer.releases.frames import (
    ROUNDED,
    columns_of_law,
    kind_of,
    parameter_names,
    parameters,
)
from dpinfer.releases.limits import Limit, Problem
from dpinfer.releases.noises import Bound
from dpinfer.releases.sidecar_format import (
    FORMAT_VERSION,
    Pointer,
    complaints,
    keys_of,
    parts_of,
)

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
    descriptor: dict[str, Any] = {"format_version": FORMAT_VERSION}
    descriptor |= {} if release.name is None else {"name": release.name}
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
            kind = {"mechanism": kind_of(law)}
            return kind | {name: one for name, one in parameters(law).items() if name != ROUNDED}
        columns = columns_of_law(law, len(release))
        columns.pop(ROUNDED, None)
        kinds = columns.pop("mechanism")
        several = (kinds != kinds[0]).any()
        stated = {"mechanism": self.add_free("mechanism", "string", kinds) if several else kinds[0]}
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
        if release.rounding is not None:
            rule["rounding"] = self._step("rounding", *release.rounding)
        if np.greater(release.bin_size, 1).any():
            rule["bin_size"] = self._step("bin_size", release.bin_size, release.bin_rounding)
        return rule

    def _step(self, name: str, step: Bound, way: Way) -> Any:
        stated = self._bound(name, step)
        return stated if way == USUAL_WAY[name] else {"step": stated, "way": way}

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
        "unit": release.unit,
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


JSON_EXPANSION = 10
"""How many times its own size a large sidecar may take; numbers in JSON take less."""

SMALL = 2**20
"""What any sidecar may take."""

CELL_BYTES = 16
"""What a cell takes at least where estimates are made of it: a value and a variance."""

USUAL_WAY: dict[str, Way] = {"rounding": "nearest", "bin_size": "up"}
"""Which way values were rounded where a sidecar states a step only."""

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
        own = {"mechanism", *parameter_names()} - {ROUNDED}
        return {name: stated for name, stated in self.privacy.items() if name in own}

    @property
    def clamp(self) -> tuple[Any, Any] | None:
        """The clamping bounds, None for one that is not there."""
        bounds = self.privacy.get("clamp")
        return None if bounds is None else (bounds.get("lower"), bounds.get("upper"))

    def step(self, name: str) -> Any:
        """Return the step of ``rounding`` or ``bin_size``, in a pair with an unusual way."""
        stated = self.privacy.get(name)
        if isinstance(stated, Mapping) and "step" in stated:
            return stated["step"], stated["way"]
        return stated

    @property
    def rule(self) -> tuple[Any, ...]:
        """The parts of the publishing rule: numbers, columns and None."""
        steps = [step_and_way(self.step(name), name, way)[0] for name, way in USUAL_WAY.items()]
        return self.privacy.get("threshold"), *steps, *(self.clamp or ())

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
    found = [
        Problem(
            path.name,
            one.message,
            document.line(one.at),
            "/".join(map(str, one.at)) or "the document",
            one.example,
        )
        for one in complaints(document.content, table)
    ]
    problems = sorted(found, key=lambda problem: problem.line or 0)
    if not problems:
        fields = document.content["schema"]["fields"]
        shared = [part.get("privacy", {}).get("weights", {}).get("noises", 0) for part in fields]
        cells = document.content.get("workload", {}).get("cells", 0)
        limit.check(CELL_BYTES * int(max(cells, *shared)))
    return document.content, problems


def parse_sidecar(content: Mapping[str, Any], field: str | None) -> Sidecar:
    """Return the part of a valid descriptor that concerns one noisy field."""
    fields = {part["name"]: part for part in content["schema"]["fields"]}
    noisy = [name for name, part in fields.items() if "privacy" in part]
    if field is None and len(noisy) > 1:
        raise InvalidParameterError(
            f"field must be one of the noisy fields {', '.join(noisy)}, got None"
        )
    value = noisy[0] if field is None else check_option(field, "field", noisy)
    keys = keys_of(content)
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


def _cells(queries: Mapping[str, Any]) -> pd.Index | None:
    import pandas as pd

    labels = queries.get("labels")
    if not labels:
        return None
    names = queries.get("names", [None] * parts_of(labels[0]))
    if isinstance(labels[0], list):
        return pd.MultiIndex.from_tuples([tuple(label) for label in labels], names=names)
    return pd.Index(labels, name=names[0])
