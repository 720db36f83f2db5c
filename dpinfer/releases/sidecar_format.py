"""The format of sidecars: its schema, and all that is wrong in one, with what would be right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from dpinfer._check import one_line, show
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import Domain
from dpinfer.releases.frames import (
    ROUNDED,
    canonical_kind,
    parameter_names,
    parameters_of_kind,
)

FORMAT_VERSION = 1
"""The version of sidecars that is written, and the largest that is read."""

Pointer = tuple[str | int, ...]
"""Where a part stands in a document: keys of objects and positions in arrays."""

EACH = 5
"""Items of an array that are listed, where more do not fit."""

PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
"""Types of Python by those of JSON."""

WORDS = {"integer": "a whole number", "boolean": "true or false", "null": "null"}

BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


class Complaint(NamedTuple):
    """What is wrong with a part of a sidecar, and a part that would be right."""

    at: Pointer
    message: str
    example: str | None = None


def complaints(content: Any, table: str) -> list[Complaint]:
    """Return all that is wrong with the sidecar of the table with that file name, each once."""
    version = content.get("format_version") if isinstance(content, Mapping) else None
    if type(version) is int and version > FORMAT_VERSION:
        words = (
            f"must be at most {FORMAT_VERSION}, the version that this dpinfer reads, got "
            f"{show(version)}: a newer dpinfer reads it"
        )
        return [Complaint(("format_version",), words)]
    found = list(_schema_complaints(content))
    broken = {complaint.at for complaint in found}
    if isinstance(content, Mapping):
        fit = (one for one in _fit_complaints(content, table, broken) if one.at not in broken)
        found += fit
    return list(dict.fromkeys(found))


# What the schema allows, in words.


@cache
def sidecar_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of sidecars."""
    text = resources.files("dpinfer.releases").joinpath("sidecar.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def resolved(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of the schema with what it refers to."""
    if "$ref" not in spec:
        return spec
    named = sidecar_schema()["$defs"][spec["$ref"].rpartition("/")[2]]
    return {**resolved(named), **{key: rule for key, rule in spec.items() if key != "$ref"}}


def allowed(spec: Mapping[str, Any]) -> str:
    """Say in words what a part of the schema allows."""
    spec = resolved(spec)
    if "anyOf" in spec:
        return _or([allowed(one) for one in spec["anyOf"]])
    if "const" in spec:
        return _json(spec["const"])
    if "enum" in spec:
        return f"one of {', '.join(map(_json, spec['enum']))}"
    kinds = [spec["type"]] if isinstance(spec["type"], str) else spec["type"]
    return _or([_allowed_kind(kind, spec) for kind in kinds])


def _or(words: list[str]) -> str:
    return " or ".join(([", ".join(words[:-1])] if len(words) > 1 else []) + words[-1:])


def _allowed_kind(kind: str, spec: Mapping[str, Any]) -> str:
    filled = " that is not empty" if "minLength" in spec or "minItems" in spec else ""
    if kind == "string":
        return f"a text{filled}"
    if kind == "array":
        unlike = "different items" if spec.get("uniqueItems") else "items"
        return f"a list of {unlike}{filled}, each {allowed(spec['items'])}"
    if kind == "object":
        if spec.get("required") == ["column"]:
            return '{"column": the name of a column}'
        return f"an object of {', '.join(spec['properties'])}"
    bounds = [f"{sign} {spec[rule]:g}" for rule, sign in BOUNDS.items() if rule in spec]
    return " ".join([WORDS.get(kind, "a number"), " and ".join(bounds)]).rstrip()


def example_at(at: Pointer) -> str | None:
    """Return a part that would be right where a pointer points, as it stands in a sidecar."""
    examples = _spec_at(at).get("examples")
    if not examples:
        return None
    named = at and isinstance(at[-1], str)
    return f"{_json(at[-1])}: {_json(examples[0])}" if named else _json(examples[0])


def _spec_at(at: Pointer) -> Mapping[str, Any]:
    """Return what the schema says about a part of a document, nothing where it says nothing."""
    spec: Mapping[str, Any] = sidecar_schema()
    for key in at:
        inner = spec.get("items") if isinstance(key, int) else spec.get("properties", {}).get(key)
        spec = resolved(inner or {})
    return spec


def _json(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), 200)


# What departs from the schema.


def _schema_complaints(content: Any) -> Iterator[Complaint]:
    for error in schema_validator().iter_errors(content):
        at, spec = tuple(error.absolute_path), _spec_at(tuple(error.absolute_path))
        if error.validator == "required":
            for name in error.validator_value:
                if name not in error.instance:
                    says = resolved(spec["properties"][name]).get("description", "")
                    words = f"must have {_json(name)}"
                    words += f": {says[0].lower()}{says[1:-1]}" if says else ""
                    yield Complaint(at, words, example_at((*at, name)))
        elif error.validator == "additionalProperties":
            known = list(spec["properties"])
            for name in error.instance:
                if name not in known:
                    words = f"must be one of {', '.join(known)}, got {_json(name)}"
                    [meant] = get_close_matches(name, known, 1) or [known[0]]
                    yield Complaint((*at, name), words, example_at((*at, meant)))
        elif error.validator == "uniqueItems":
            yield Complaint(at, "must not hold an item twice", example_at(at))
        else:
            words = f"must be {allowed(spec)}, got {_json(error.instance)}"
            yield Complaint(at, words, example_at(at))


def _mapping(content: Any, *path: str) -> Mapping[str, Any]:
    """Return an object within objects, empty where there is none."""
    for name in path:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content if isinstance(content, Mapping) else {}


def _fields(content: Mapping[str, Any]) -> list[tuple[int, str, Mapping[str, Any]]]:
    """Return the fields that have a name, with their positions."""
    fields = _mapping(content, "schema").get("fields")
    return [
        (position, part["name"], part)
        for position, part in enumerate(fields if isinstance(fields, list) else [])
        if isinstance(part, Mapping) and isinstance(part.get("name"), str)
    ]


# What does not fit together, in those parts that are what the schema allows.


def _fit_complaints(
    content: Mapping[str, Any], table: str, broken: set[Pointer]
) -> Iterator[Complaint]:
    def sound(*at: str | int) -> bool:
        return not any(one[: len(at)] == at for one in broken)

    if sound("path") and content.get("path", table) != table:
        words = f"describes the file {show(content['path'])}, not {show(table)}"
        yield Complaint(("path",), words, f'"path": {_json(table)}')
    fields = _fields(content)
    names: list[str] = []
    for position, name, _ in fields:
        if name in names:
            twice = ("schema", "fields", position, "name")
            yield Complaint(twice, f"the field {show(name)} is there twice")
        names.append(name)
    if fields and sound("schema", "fields") and not any("privacy" in part for *_, part in fields):
        privacy = f'"privacy": {_json(_spec_at(("schema", "fields", 0, "privacy"))["examples"][0])}'
        words = "one field, that of the noisy values, must have a `privacy` object"
        yield Complaint(("schema", "fields"), words, privacy)
    if names and sound("schema", "primaryKey"):
        for key in keys_of(content):
            if key not in names:
                words = f"{show(key)} is not among the fields{_listed(names)}"
                example = f'{{"name": {_json(key)}, "type": "string"}} among the fields'
                yield Complaint(("schema", "primaryKey"), words, example)
    for position, name, part in fields:
        place: Pointer = ("schema", "fields", position)
        levels = _mapping(part, "constraints").get("enum")
        if levels is not None and sound(*place, "constraints"):
            try:
                Domain({name: levels})
            except InvalidParameterError as error:
                listed = (*place, "constraints", "enum")
                yield Complaint(listed, str(error), example_at(listed))
        if "privacy" in part:
            at = (*place, "privacy")
            shared = sound(*at, "weights") and sound(*at, "covariance")
            yield from _privacy_complaints(_mapping(part, "privacy"), names, at, shared=shared)
    if isinstance(content.get("workload"), Mapping) and sound("workload"):
        yield from _query_complaints(content["workload"])


def _privacy_complaints(
    privacy: Mapping[str, Any], names: list[str], place: Pointer, *, shared: bool
) -> Iterator[Complaint]:
    kind = privacy.get("mechanism")
    try:
        known = parameters_of_kind(canonical_kind(kind)) if isinstance(kind, str) else None
    except InvalidParameterError:  # the schema complains
        known = None
    if "weights" in privacy or "covariance" in privacy:
        if shared and "mechanism" in privacy:
            yield from _shared_complaints(privacy, place)
        known = known if "weights" in privacy else None
    for parameter, required in (known or {}).items():
        if required and parameter not in privacy:
            words = f"{kind} noise must have a {parameter}"
            yield Complaint(place, words, example_at((*place, parameter)))
    for parameter in parameter_names() if known is not None else ():
        if parameter in privacy and parameter not in (*(known or {}), ROUNDED):
            has = ", ".join(one for one in known or {} if one != ROUNDED) or "nothing"
            words = f"must be left out: {kind} noise has {has}"
            yield Complaint((*place, parameter), words)
    for parameter, spec in privacy.items():
        yield from _column_complaints(spec, names, (*place, parameter))


def _shared_complaints(privacy: Mapping[str, Any], place: Pointer) -> Iterator[Complaint]:
    """Yield what does not fit together of values that share noises."""
    named = [
        name for name in ("mechanism", *parameter_names()) if isinstance(privacy.get(name), dict)
    ]
    if named:
        words = "must be no column where values share noises: it is one law"
        yield Complaint((*place, named[0]), words, example_at((*place, named[0])))
    if (weights := privacy.get("weights")) is not None:
        if len({len(weights[key]) for key in ("row", "noise", "weight")}) > 1:
            at = (*place, "weights")
            yield Complaint(at, "row, noise and weight must have the same length", example_at(at))
        if "covariance" in privacy:
            yield Complaint((*place, "covariance"), "must be left out beside weights")
    elif privacy["mechanism"] != "gaussian" or "sigma" in privacy:
        words = "must be that of gaussian noise, without a sigma"
        yield Complaint((*place, "covariance"), words, '"mechanism": "gaussian"')


def _query_complaints(queries: Mapping[str, Any]) -> Iterator[Complaint]:
    at: Pointer = ("workload",)
    if len({len(queries[key]) for key in ("row", "cell", "coefficient")}) > 1:
        yield Complaint(at, "row, cell and coefficient must have the same length", example_at(at))
    parts = {parts_of(label) for label in queries.get("labels", ())}
    if len(parts) > 1:
        words = "the labels of the cells must have the same number of parts"
        yield Complaint((*at, "labels"), words, example_at((*at, "labels")))
    elif "names" in queries and parts != {len(queries["names"])}:
        words = "must have a name, or null, for each part of the labels"
        yield Complaint((*at, "names"), words, example_at((*at, "names")))


def _column_complaints(spec: Any, names: list[str], at: Pointer) -> Iterator[Complaint]:
    """Yield references to columns that are not described."""
    if not isinstance(spec, Mapping):
        return
    column = spec.get("column")
    if isinstance(column, str) and column not in names:
        words = f"the column {show(column)} is not among the fields{_listed(names)}"
        yield Complaint(at, words, f'{{"name": {_json(column)}}} among the fields')
    for key, inner in spec.items():
        yield from _column_complaints(inner, names, (*at, key))


def _listed(names: list[str]) -> str:
    return f", {', '.join(map(show, names[:EACH]))}{', …' if len(names) > EACH else ''}"


def parts_of(label: Any) -> int:
    """Return how many parts the label of a cell has."""
    return len(label) if isinstance(label, list) else 1


def keys_of(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields that label the rows."""
    key = _mapping(content, "schema").get("primaryKey", ())
    return (key,) if isinstance(key, str) else tuple(key)


# The schema, in time proportional to the length of a document.


@cache
def schema_validator() -> Any:
    """Return what checks descriptors by the JSON Schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    keywords = {"uniqueItems": _unique_items, "items": _items}
    return extend(Draft202012Validator, keywords)(sidecar_schema())


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
