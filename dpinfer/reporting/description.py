"""A sidecar for a published table: proposed from its columns, asked for, checked and written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import join as quoted
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpinfer._check import NEIGHBOURS, WAYS, check_scalar, looks_like_label, show, show_some
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases.files import validate_release
from dpinfer.releases.frames import (
    BUDGET_NAMES,
    BUDGETS,
    KINDS,
    ROUNDED,
    canonical_kind,
    parameters_of_kind,
)
from dpinfer.releases.limits import Limit, Problem, TextTable
from dpinfer.releases.sidecar import USUAL_WAY, default_sidecar
from dpinfer.releases.sidecar_format import FORMAT_VERSION
from dpinfer.releases.tables import check_table_path, read_text
from dpinfer.results.files import write_whole

WHOLE = re.compile(r"0|-?[1-9]\d*")
"""Whole numbers; codes such as 01001 are texts."""

NOISY = re.compile(r"noisy|noised|dp|private|protected|perturbed")
COUNTED = re.compile(r"value|count|counts|views|total|estimate|number|population|pop|cases|n")

SIZES = {"scale": re.compile(r"(noise_?)?scale"), "sigma": re.compile(r"(noise_?)?sigma")}

THRESHOLD = re.compile(r"threshold")

LETTERS = {"epsilon": "ε", "rho": "ρ", "mu": "μ", "scale": "scale", "sigma": "σ"}


@dataclass(frozen=True)
class Columns:
    """The columns of a table, read as text, with what they may be."""

    table: Path
    text: TextTable
    numbers: Mapping[str, Any] = field(repr=False)
    """The numbers of the columns in which every cell is a number or empty, NaN where empty."""

    @classmethod
    def of(cls, path: Path, max_bytes: int | None = None) -> Columns:
        """Read a table."""
        text = read_text(path, Limit.of(path, max_bytes))
        if text.problems:
            raise IncompatibleReleaseError(str(text.problems[0]))
        if not len(text.lines):
            raise IncompatibleReleaseError(f"{path.name} must have at least one row of values")
        found = {name: _numbers(cells) for name, cells in text.columns.items()}
        return cls(path, text, {name: cells for name, cells in found.items() if cells is not None})

    def is_whole(self, name: str) -> bool:
        """Whether a column holds whole numbers, written without a leading zero."""
        return all(cell is None or WHOLE.fullmatch(cell) for cell in self.text.columns[name])

    def whole_values(self, name: str) -> bool:
        """Whether all numbers of a column are whole, however they are written."""
        numbers = self.numbers[name]
        return bool((numbers == np.floor(numbers)).all())

    def kinds(self, name: str) -> set[str] | None:
        """Return the laws that a column names, None where it names anything else."""
        try:
            return {canonical_kind(cell) for cell in set(self.text.columns[name])}
        except InvalidParameterError:
            return None

    def propose(self, value: str | None) -> dict[str, Any]:
        """Return what names and contents of the columns say, beside a value that is known."""
        found: dict[str, Any] = {}
        laws = [name for name in self.text.columns if self.kinds(name)]
        if laws:
            found["mechanism"] = {"column": laws[0]}
        sizes: list[str] = []
        for name, numbers in self.numbers.items():
            if (numbers[~np.isnan(numbers)] > 0).all():
                rules = {**SIZES, "threshold": THRESHOLD}
                for entry, words in rules.items():
                    search = words.search if entry == "threshold" else words.fullmatch
                    if entry not in found and search(name.lower()):
                        found[entry] = {"column": name}
                        sizes.append(name)
        values = [name for name in self.numbers if name not in (*laws, *sizes)]
        if value is None and values:
            value = max(reversed(values), key=self._likeness)
        found |= {} if value is None else {"value": value}
        return {**found, "labels": self._labels({*laws, *sizes, value})}

    def _likeness(self, name: str) -> tuple[bool, bool, bool]:
        """Order columns by how much they look like noisy values."""
        words = re.split(r"[^a-z]+", name.lower())
        complete = not np.isnan(self.numbers[name]).any() and not looks_like_label(name)
        return (
            complete,
            any(NOISY.fullmatch(word) for word in words),
            any(COUNTED.fullmatch(word) for word in words),
        )

    def _labels(self, taken: set[str | None]) -> list[str]:
        """Return the columns that tell the rows apart: texts, and whole numbers where needed."""
        free = [name for name in self.text.columns if name not in taken]
        chosen = [name for name in free if name not in self.numbers or looks_like_label(name)]
        for name in free:
            if name not in chosen and self.is_whole(name) and not self._tell_apart(chosen):
                chosen.append(name)
        return [name for name in free if name in chosen]

    def _tell_apart(self, names: list[str]) -> bool:
        rows = zip(*(self.text.columns[name] for name in names), strict=True)
        return bool(names) and len(set(rows)) == len(self.text.lines)


def _numbers(cells: Any) -> Any:
    """Return the numbers of a column, None where a cell is none or no cell is one."""
    found = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        try:
            found[row] = float(cell)
        except ValueError:
            return None
        if not np.isfinite(found[row]) or "_" in cell:
            return None
    return None if np.isnan(found).all() else found


# What is asked, and how an answer is read.


@dataclass
class Answers:
    """What is known of a table: from its columns, from options, and from questions."""

    columns: Columns
    known: dict[str, Any]

    def take(self, entry: str, text: str) -> None:
        """Read an answer, or say what is wrong with it."""
        self.known[entry] = READERS[entry](self.columns, text)

    @property
    def kinds(self) -> set[str]:
        """The laws of the rows."""
        named = self.known.get("mechanism", "")
        if isinstance(named, dict):
            return self.columns.kinds(named["column"]) or set()
        return {named} if named else set()

    def unknown(self) -> list[str]:
        """Return what has to be known and is not, each with the options that say it."""
        wanted = [] if "value" in self.known else ["--value COLUMN, the column of noisy values"]
        if not self.kinds:
            return [*wanted, f"--mechanism, one of {', '.join(KINDS)} or a column that names it"]
        for kind in sorted(self.kinds):
            options = self.options_of(kind)
            if options and not any(entry in self.known for entry in options):
                budgets = [entry for entry in options if entry in BUDGET_NAMES]
                sizes = [f"--{entry}" for entry in options if entry not in BUDGET_NAMES]
                given = [f"--{entry} with --sensitivity" for entry in budgets]
                others = [self.known[one] for one in SIZES if isinstance(self.known.get(one), dict)]
                hint = ""
                if sizes and others:
                    hint = f", as {sizes[0]} {others[0]['column']} if that column holds it"
                wanted.append(f"what fixes {kind} noise: {' or '.join(given + sizes)}{hint}")
        budget = next((one for one in BUDGET_NAMES if one in self.known), None)
        if budget and "sensitivity" not in self.known:
            wanted.append(f"--sensitivity, with --{budget}: how far one unit moves all values")
        if self.may_be_rounded and ROUNDED not in self.known:
            wanted.append(
                "--rounding yes, if the noisy values were rounded to whole numbers, a step, or no: "
                f"they are whole, which {' and '.join(sorted(self.kinds))} noise by itself does "
                "not leave"
            )
        return wanted

    @property
    def may_be_rounded(self) -> bool:
        """Whether whole values have noise that by itself leaves none."""
        value = self.known.get("value")
        return (
            value is not None
            and self.columns.whole_values(value)
            and any(ROUNDED in parameters_of_kind(kind) for kind in self.kinds)
        )

    def fill(self) -> None:
        """Take what the columns say for what is not known."""
        proposed = self.columns.propose(self.known.get("value"))
        for entry in ("value", "labels", "mechanism", "threshold"):
            if entry in proposed:
                self.known.setdefault(entry, proposed[entry])
        for kind in sorted(self.kinds):
            options = self.options_of(kind)
            if not any(entry in self.known for entry in options):
                self.known |= {one: proposed[one] for one in options if one in proposed}

    def options_of(self, kind: str) -> list[str]:
        """Return the entries of which one fixes the noise of a law."""
        own = [name for name, required in parameters_of_kind(kind).items() if required]
        return [*BUDGETS.get(kind, {}), *own]

    def ask(self, answer: Callable[[str], str], say: Callable[[str], None]) -> None:
        """Ask for what is not known yet, again where an answer cannot be read."""
        columns, proposed = self.columns, self.columns.propose(self.known.get("value"))

        def put(entry: str, question: str, default: str = "", *, needed: str = "") -> None:
            while entry not in self.known:
                text = answer(f"{question}{f' [{default}]' if default else ''}: ").strip()
                if not (text or default or needed):
                    return
                if not (text or default):
                    say(f"  {needed}: Ctrl-C ends without writing anything")
                    continue
                try:
                    self.take(entry, text or default)
                except InvalidParameterError as error:
                    say(f"  {error}")

        say(f"Columns: {show_some(columns.text.columns, 30)}")
        put(
            "value",
            "Which column holds the noisy values",
            proposed.get("value", ""),
            needed="the column is needed, as no interval is without values",
        )
        labels = ",".join(columns.propose(self.known["value"])["labels"])
        put("labels", "Which columns label the rows, with commas between", labels)
        named = proposed.get("mechanism", {}).get("column", "")
        put(
            "mechanism",
            f"Which noise: {', '.join(KINDS)}, or a column that names it",
            named,
            needed="the law of the noise is needed, as every interval comes from it; the publisher "
            "knows it",
        )
        for kind in sorted(self.kinds):
            options = self.options_of(kind)
            while options and not any(entry in self.known for entry in options):
                for entry in options:
                    if any(other in self.known for other in options):
                        break
                    column = proposed.get(entry, {}).get("column", "")
                    budget = entry in BUDGET_NAMES
                    which = f"{LETTERS[entry]} of all values together" if budget else LETTERS[entry]
                    words = f"{which} of {kind} noise, empty if not known"
                    put(entry, words if budget else f"{words}, or a column", column)
                if not any(entry in self.known for entry in options):
                    say(f"  one of {', '.join(options)} is needed: how large the noise is")
        budget = any(entry in self.known for entry in BUDGET_NAMES)
        if budget:
            put(
                "sensitivity",
                "How far one unit can move all values together, such as 1",
                needed="it is needed, as the size of the noise is that over the budget",
            )
        if self.may_be_rounded:
            put(
                ROUNDED,
                "The values are whole: were they rounded after the noise, yes, no or a step",
                needed="yes, no or a step is needed, as rounding is an error of its own",
            )
        least = np.nanmin(columns.numbers[self.known["value"]])
        column = proposed.get("threshold", {}).get("column", "")
        words = f"Threshold below which nothing was published (the least value is {least:g})"
        put("threshold", f"{words}, empty if none", column)
        words = "Bin size, to a multiple of which counts were rounded up before the noise"
        put("bin_size", f"{words}, empty if they were not")
        put("unit", "What is protected, such as person or user-day, empty if not known")
        put("neighbours", f"Neighbours, {' or '.join(NEIGHBOURS)}, empty if not known")

    def command(self) -> str:
        """Return the options that say the same as all that is known."""
        words = ["dpinfer", "init", str(self.columns.table)]
        for entry, value in self.known.items():
            words += [f"--{entry.replace('_', '-')}", option_text(value)]
        return quoted(words)

    def descriptor(self) -> dict[str, Any]:
        """Return the sidecar."""
        known, privacy = self.known, {"mechanism": self.known["mechanism"]}
        for kind in sorted(self.kinds):
            for budget, build in BUDGETS.get(kind, {}).items():
                if budget in known:
                    size = next(iter(parameters_of_kind(kind)))
                    law = build(known[budget], sensitivity=known["sensitivity"])
                    privacy[size] = float(np.asarray(getattr(law, size)))
        said = ["scale", "sigma", ROUNDED, "bin_size", "sensitivity", "neighbours", "unit"]
        privacy |= {
            entry: known[entry]
            for entry in [*said, "threshold", "clamp"]
            if known.get(entry) is not None and known[entry] is not False
        }
        value, labels = known["value"], known.get("labels", [])
        fields: list[dict[str, Any]] = [
            {"name": name, "type": "integer" if self.columns.is_whole(name) else "string"}
            for name in labels
        ]
        kind = "integer" if self.columns.is_whole(value) else "number"
        fields.append({"name": value, "type": kind, "privacy": privacy})
        used = list(_columns_in(privacy))
        fields += [{"name": name} for name in dict.fromkeys(used) if name not in (value, *labels)]
        schema: dict[str, Any] = {"fields": fields}
        if labels:
            schema["primaryKey"] = labels
        stated = {entry: known[entry] for entry in ("name", "title") if known.get(entry)}
        table = self.columns.table.name
        return {"format_version": FORMAT_VERSION, **stated, "path": table, "schema": schema}


def _column(columns: Columns, text: str, *, numbers: bool = False, name: str = "") -> str:
    listed = columns.numbers if numbers else columns.text.columns
    if text in listed:
        return text
    what = "column of numbers" if numbers else "column"
    raise InvalidParameterError(
        f"{name} must be a {what} of {columns.table.name}, {show_some(listed, 30)}, got "
        f"{show(text)}"
    )


def _labels(columns: Columns, text: str) -> list[str]:
    if text in columns.text.columns:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [_column(columns, name, name="labels") for name in names]


def _mechanism(columns: Columns, text: str) -> Any:
    if text in columns.text.columns:
        if columns.kinds(text) is None:
            raise InvalidParameterError(f"mechanism must be named in every cell of {show(text)}")
        return {"column": text}
    return canonical_kind(text)


def _number(name: str, columns: Columns, text: str, **bounds: Any) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidParameterError(f"{name} must be a number, got {show(text)}") from None
    return check_scalar(number, name, **bounds)


def _size(name: str, columns: Columns, text: str, **bounds: Any) -> Any:
    """Read a number, or the name of a column of numbers."""
    if text in columns.numbers:
        return {"column": text}
    try:
        float(text)
    except ValueError:
        _column(columns, text, numbers=True, name=f"{name}, if it is no number,")
    return _number(name, columns, text, **bounds)


def _step(name: str, columns: Columns, text: str, **bounds: Any) -> Any:
    """Read a step, or the name of its column, and after a comma the way of rounding."""
    step, _, way = (part.strip() for part in text.partition(","))
    size = _size(name, columns, step, **bounds)
    if way in ("", USUAL_WAY[name]):
        return size
    if way not in WAYS[name]:
        raise InvalidParameterError(
            f"{name} must be a step, with {', '.join(WAYS[name])} after a comma, got {show(text)}"
        )
    return {"step": size, "way": way}


def _rounding(columns: Columns, text: str) -> Any:
    said = text.lower()
    if said in ("yes", "y", "no", "n"):
        return 1.0 if said.startswith("y") else False
    try:
        return _step(ROUNDED, columns, text, gt=0)
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"rounding must be yes, no or a step, got {show(text)}: {error}"
        ) from None


def _clamp(columns: Columns, text: str) -> dict[str, Any]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not any(parts):
        raise InvalidParameterError(
            f"clamp must be a lower bound, or lower,upper with one left out, got {show(text)}"
        )
    ends = zip(("lower", "upper"), parts, strict=False)
    return {end: _size("clamp", columns, part) for end, part in ends if part}


def option_text(value: Any) -> str:
    """Return what is known of an entry as the text of an option."""
    if isinstance(value, dict) and "column" in value:
        return str(value["column"])
    if isinstance(value, dict) and "step" in value:
        return f"{option_text(value['step'])},{value['way']}"
    if isinstance(value, dict):
        ends = [option_text(value[end]) if end in value else "" for end in ("lower", "upper")]
        return ",".join(ends).removesuffix(",")
    if isinstance(value, list):
        return ",".join(value)
    if value is False:
        return "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _columns_in(stated: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns that an object of the sidecar names, at any depth."""
    for key, part in stated.items():
        if isinstance(part, Mapping):
            yield from _columns_in(part)
        elif key == "column":
            yield part


def _neighbours(columns: Columns, text: str) -> str:
    if text not in NEIGHBOURS:
        raise InvalidParameterError(
            f"neighbours must be {' or '.join(NEIGHBOURS)}, got {show(text)}"
        )
    return text


READERS: dict[str, Callable[[Columns, str], Any]] = {
    "value": partial(_column, numbers=True, name="value"),
    "labels": _labels,
    "mechanism": _mechanism,
    **{entry: partial(_number, entry, gt=0) for entry in (*BUDGET_NAMES, "sensitivity")},
    **{entry: partial(_size, entry, gt=0) for entry in SIZES},
    "bin_size": partial(_step, "bin_size", ge=1),
    "threshold": partial(_size, "threshold"),
    ROUNDED: _rounding,
    "clamp": _clamp,
    "neighbours": _neighbours,
    **{entry: lambda columns, text: text for entry in ("unit", "name", "title")},
}
"""How the text of an option or an answer is read."""


def check_new(table: Path, metadata: Path | None, *, force: bool) -> tuple[Path, Path]:
    """Return the table and the place of its sidecar, which must not be there yet without force."""
    path = check_table_path(table)
    place = default_sidecar(path) if metadata is None else metadata
    if os.path.exists(place) and not force:  # which, unlike pathlib, copes with any name
        raise InvalidParameterError(
            f"metadata must not be there already, got {place}: look at it with dpinfer validate, "
            "or write it anew with --force"
        )
    return path, place


def write_description(
    table: Path, place: Path, descriptor: Mapping[str, Any], max_bytes: int | None
) -> list[Problem]:
    """Write a sidecar where it is in order with its table, else return what is wrong."""
    text = json.dumps(descriptor, indent=2, ensure_ascii=False) + "\n"
    with TemporaryDirectory() as folder:
        draft = Path(folder) / place.name
        draft.write_text(text, encoding="utf-8")
        problems = validate_release(table, draft, max_bytes=max_bytes)
    if not problems:
        write_whole([(place, lambda path: path.write_text(text, encoding="utf-8"))])
    return problems
