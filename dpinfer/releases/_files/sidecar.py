"""The JSON file beside a table that says how its numbers were protected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import check_option, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.queries import Domain, Workload
from dpinfer.releases._files.json_document import JsonDocument, Pointer, load_json
from dpinfer.releases._files.limits import Limit
from dpinfer.releases._laws import canonical_kind, parameter_names, parameters_of_kind
from dpinfer.releases.problems import Problem

if TYPE_CHECKING:
    import pandas as pd

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

    Attributes
    ----------
    value : str
        Name of the column of noisy values.
    keys : tuple of str
        Names of the columns that label the rows.
    types : dict
        The Frictionless type of each described column that has one.
    privacy : dict
        The ``privacy`` object of the noisy field.
    domain : Domain or None
        The attributes with their levels, where every key lists its levels.
    queries : dict or None
        The ``workload`` object, where the labels do not say what was asked.
    name : str or None
        Name of the release.
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
        from scipy.sparse import coo_array

        shape = (rows, int(self.queries["cells"]))
        at = []
        for name, size in zip(("row", "cell"), shape, strict=True):
            numbers = self.queries[name]
            if (largest := max(numbers, default=0)) >= size:
                raise IncompatibleReleaseError(
                    f"the workload of the sidecar must be on {size} {name}s, got number {largest}"
                )
            at.append(np.array(numbers, dtype=np.int64))
        matrix = coo_array((self.queries["coefficient"], tuple(at)), shape=shape, dtype=float)
        attributes = self.queries.get("attributes")
        if attributes is not None:
            domain = Domain({part["name"]: part["levels"] for part in attributes})
            return Workload(matrix, domain=domain)
        return Workload(matrix, columns=_cells(self.queries))


def default_sidecar(path: Path) -> Path:
    """Return where the sidecar of a table is looked for."""
    return path.with_name(path.name + SUFFIX)


def load_sidecar(
    path: Path, table: str, max_bytes: int | None
) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return the content of the sidecar of the table with file name ``table``, and its problems.

    Raises
    ------
    IncompatibleReleaseError
        If it is not JSON.
    TooLargeError
        If it takes more memory than it may, or states more cells than fit there.
    """
    limit = Limit(path, max(SMALL, Limit.of(path, max_bytes, JSON_EXPANSION).most))
    document = load_json(path, limit)
    problems = list(_problems(document, path.name, table))
    if not problems and "workload" in document.content:
        limit.check(CELL_BYTES * int(document.content["workload"]["cells"]))
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


def _problems(document: JsonDocument, name: str, table: str) -> Iterator[Problem]:
    """Yield what is wrong with the sidecar ``name`` of a table."""
    found = list(_schema_problems(document)) or list(_reference_problems(document, table))
    for pointer, message in found:
        place = "/".join(str(part) for part in pointer) or "the document"
        yield Problem(name, message, document.line(pointer), place)


def _schema_problems(document: JsonDocument) -> Iterator[tuple[Pointer, str]]:
    """Yield where the descriptor departs from the JSON Schema."""
    errors = _validator().iter_errors(document.content)
    for error in sorted(errors, key=lambda error: document.line(tuple(error.absolute_path))):
        yield tuple(error.absolute_path), _shorten(error.message)


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
        if "enum" in part.get("constraints", {}):
            yield from _level_problems(part, ("schema", "fields", position, "constraints", "enum"))
        privacy = part.get("privacy", {})
        for parameter in _missing_parameters(privacy):
            message = f"{privacy['mechanism']} noise must have a {parameter}"
            yield ("schema", "fields", position, "privacy"), message
        for parameter, spec in privacy.items():
            yield from _column_problems(
                spec, names, ("schema", "fields", position, "privacy", parameter)
            )
    if (queries := content.get("workload")) is not None:
        yield from _query_problems(queries)


def _query_problems(queries: Mapping[str, Any]) -> Iterator[tuple[Pointer, str]]:
    """Yield lengths of the parts of the queries that do not agree."""
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
    """Return the labels of the cells that the queries are about."""
    import pandas as pd

    labels = queries.get("labels")
    if not labels:
        return None
    names = queries.get("names", [None] * _parts(labels[0]))
    if isinstance(labels[0], list):
        return pd.MultiIndex.from_tuples([tuple(label) for label in labels], names=names)
    return pd.Index(labels, name=names[0])


def _level_problems(part: Mapping[str, Any], pointer: Pointer) -> Iterator[tuple[Pointer, str]]:
    try:
        Domain({part["name"]: part["constraints"]["enum"]})
    except InvalidParameterError as error:
        yield pointer, str(error)


def _missing_parameters(privacy: Mapping[str, Any]) -> list[str]:
    """Return the parameters that the law of all rows needs and does not have."""
    if not isinstance(privacy.get("mechanism"), str):
        return []
    needed = parameters_of_kind(canonical_kind(privacy["mechanism"]))
    return [name for name, required in needed.items() if required and name not in privacy]


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
def _validator() -> Any:
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
    """Return the types of Python of plain values that fit a schema."""
    named = schema.get("type", [])
    named = [named] if isinstance(named, str) else named
    return {kind for name in named for kind in PLAIN.get(name, ())}


def _unique_items(_: Any, wanted: bool, items: Any, __: Any) -> Iterator[Exception]:
    """Refuse items that are there twice, in time proportional to their number."""
    from jsonschema import ValidationError

    if not wanted or not isinstance(items, list):
        return
    seen = {
        ("JSON", json.dumps(item, sort_keys=True)) if isinstance(item, (list, dict, bool)) else item
        for item in items
    }
    if len(seen) < len(items):
        yield ValidationError("must not hold an item twice")


def _shorten(message: str, most: int = 200) -> str:
    return message if len(message) <= most else f"{message[:most]} …"
