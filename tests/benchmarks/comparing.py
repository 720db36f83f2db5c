"""What a comparison is: a part of the library, and what a user would do without it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SAME = "the same"
LOOSE = "an upper bound, some 10 % above, on its default grid"


@dataclass(frozen=True)
class Calls:
    """Ours and theirs on one problem, and whether their answers agree as they should."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    agree: Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Comparison:
    """One row of the report; times are compared for each unit of a size."""

    part: str
    function: str
    what: str
    peer: str
    gives: str
    unit: str
    size: int
    peer_size: int
    calls: Callable[[int, int], Calls]


def adding_to(rows):
    """Return a decorator that adds what a function makes to the comparisons in a list."""

    def comparison(part, function, what, peer, gives, unit, size, peer_size=None, **options):
        def add(calls):
            def made(ours, theirs):
                return calls(ours, theirs, **options)

            row = (part, function, what, peer, gives, unit, size, peer_size or size, made)
            rows.append(Comparison(*row))
            return calls

        return add

    return comparison


def close(ours, theirs, rtol=1e-6, atol=1e-6):
    return np.allclose(ours, theirs, rtol=rtol, atol=atol)
