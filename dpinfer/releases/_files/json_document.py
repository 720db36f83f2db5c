"""JSON documents that know the line of each of their parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer._validation import show
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases._files.limits import Limit

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
    """Read a JSON file; refuse repeated keys, NaN and infinities, which JSON does not have.

    Raises
    ------
    IncompatibleReleaseError
        If the file cannot be read, is not UTF-8 or not JSON; the message names file and line.
    TooLargeError
        If it would take more memory than it may.
    """
    try:
        limit.check(path.stat().st_size)
        written = path.read_bytes()
        _check_form(path, written, limit)
        text = written.decode("utf-8-sig")
        content = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_whole_number,
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
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {show(key)} is there twice")
        content[key] = value
    return content


def _whole_number(digits: str) -> int:
    number = int(digits)
    if abs(number) >= BEYOND:
        raise ValueError(f"the number {show(digits)} is beyond the range of float64")
    return number


def _number(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError(f"the number {show(digits)} is beyond the range of float64")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
