"""Structures in Thrift's compact protocol, of which only what is asked for is kept.

Reference: Apache Thrift, compact protocol encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Wanted = Mapping[int, Any]
"""The fields of a structure by their numbers: the kind of each, what is wanted of a structure, or
what is wanted of each of the structures in a list, as a list of it."""

MOST_ITEMS = 10**6
"""Items of a list at most, which is also what Arrow takes."""

DEEPEST = 16

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class ThriftReader:
    """Reads bytes from the beginning.

    What goes on after the end of the bytes raises IndexError, what is no structure ValueError.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self, wanted: Wanted, depth: int = 0) -> dict[int, Any]:
        """Return fields of a structure by their numbers: those that are wanted and there.

        A field of another kind than it should have is passed over, as by readers made by Thrift.
        """
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind, want = head & 15, wanted.get(number)
            if isinstance(want, Mapping) and kind == STRUCT:
                fields[number] = self.struct(want, depth + 1)
            elif isinstance(want, list) and kind == LIST:
                fields[number] = self._structs(want[0], depth + 1)
            elif want == BINARY == kind:
                size = self._natural()
                self._skip(size)
                fields[number] = self.data[self.at - size : self.at]
            elif want == kind:
                fields[number] = self._whole()
            elif kind not in (TRUE, FALSE):
                self._pass(kind, depth)
        return fields

    def _structs(self, wanted: Wanted, depth: int) -> list[dict[int, Any]]:
        kind, size = self._list()
        if kind != STRUCT:
            raise ValueError("a list of another kind than it should be")
        return [self.struct(wanted, depth) for _ in range(size)]

    def _pass(self, kind: int, depth: int) -> None:
        """Go past a field that is not wanted."""
        if kind in (TRUE, FALSE, BYTE):  # in a list, as others have no bytes of their own
            self._skip(1)
        elif kind in (I16, I32, I64):
            self._whole()
        elif kind == DOUBLE:
            self._skip(8)
        elif kind == BINARY:
            self._skip(self._natural())
        elif kind == STRUCT:
            self.struct({}, depth + 1)
        elif kind in (LIST, SET):
            if depth > DEEPEST:
                raise ValueError("nested too deeply")
            inner, size = self._list()
            for _ in range(size):
                self._pass(inner, depth + 1)
        else:
            raise ValueError("a kind of field that is not used in Parquet files")

    def _list(self) -> tuple[int, int]:
        """Return the kind and the number of the items of a list."""
        head = self._byte()
        size = self._natural() if head >> 4 == 15 else head >> 4
        if size > MOST_ITEMS:
            raise ValueError(f"a list of {size} items")
        return head & 15, size

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError("the data end")

    def _natural(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _whole(self) -> int:
        """Return a signed number: 0, -1, 1, -2, ... are written as 0, 1, 2, 3, ..."""
        number = self._natural()
        return (number >> 1) ^ -(number & 1)
