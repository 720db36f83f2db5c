"""Ways to the tails of a law, and the first of them that is accurate at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from dpinfer._validation import FloatArray


class Tails(Protocol):
    """A way to the tails."""

    def upper(self, q: FloatArray) -> FloatArray: ...
    def lower(self, q: FloatArray) -> FloatArray: ...
    def error(self, q: FloatArray) -> FloatArray: ...


Maker = Callable[[], Tails | None]


class FirstAccurate:
    """At each point the first way that is accurate there, or else the best.

    Parameters
    ----------
    makers : sequence of callable
        Make the ways, in the order of preference; None where there is no such way.
    accepted : float
        Absolute error up to which a way is accurate.

    Attributes
    ----------
    made : list
        The ways that were needed so far.
    """

    def __init__(self, makers: Sequence[Maker], accepted: float) -> None:
        self._makers = list(makers)
        self.made: list[Tails] = []
        self._accepted = accepted

    @property
    def exists(self) -> bool:
        """Whether there is any way."""
        return next(self._ways(), None) is not None

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._best(q, lambda way, points: way.upper(points))[0]

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._best(q, lambda way, points: way.lower(points))[0]

    def error(self, q: FloatArray) -> FloatArray:
        """Absolute error of the way that is taken."""
        return self._best(q, lambda way, points: points)[1]

    def _best(
        self, q: FloatArray, tail: Callable[[Tails, FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Tails and their errors."""
        points = np.ravel(q)
        value, error = np.full(points.size, np.nan), np.full(points.size, np.inf)
        ways = self._ways()
        while (left := np.flatnonzero(error > self._accepted)).size:
            # only now, as it takes time to make a way
            if (way := next(ways, None)) is None:
                break
            own = way.error(points[left])
            better = own < error[left]
            chosen = left[better]
            if chosen.size:
                error[chosen] = own[better]
                value[chosen] = tail(way, points[chosen])
        return value.reshape(np.shape(q)), error.reshape(np.shape(q))

    def _ways(self) -> Iterator[Tails]:
        """Yield the ways; each is made when it is first needed."""
        yield from self.made
        while self._makers:
            way = self._makers.pop(0)()
            if way is not None:
                self.made.append(way)
                yield way
