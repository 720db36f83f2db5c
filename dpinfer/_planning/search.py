"""Where an argument of a plan reaches what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer._check import FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError

LARGEST_SIZE = 1e12
"""Up to here a number of observations is looked for."""

_SMALLEST_SIZE = 1e-9
"""Down to here, where it need not be a whole number."""

_WINDOW = 2048
"""Largest number of neighbours at which a sample size is tried as well."""

_COSTLY, _FEW = 1e5, 129
"""Beyond this size, so many of these neighbours are tried."""

_AROUND = 0.02
"""How far around a guess to look first, as a logarithm; doubled each time."""

_FIRST_STEP = 2.0**-6
"""Share of a range at which the search for an argument begins."""

_PRECISION = 1e-10
"""Relative precision of what is solved for."""

_LEAST = 1e-12
"""Stands for an excess of 0, which would end a search; rounding errors are smaller."""


@dataclass
class Search:
    """What is wanted of a quantity, and the quantity as a function of one argument.

    Parameters
    ----------
    quantity : str
        Its name, for messages.
    target : float
        The value that is to be reached.
    rises : bool
        Whether it is reached from below, as a power is, or from above, as a width is.
    by : str
        The name of the argument.
    values : callable
        The quantity at an array of arguments.
    """

    quantity: str
    target: float
    rises: bool
    by: str
    values: Callable[[FloatArray], FloatArray]
    precision: float = _PRECISION
    """Relative precision of what is found from a guess; larger once a power was simulated."""

    def first(self, low: float, high: float, *, logarithmic: bool) -> float:
        """Return where between two ends, the first of which falls short, the target is reached."""
        scale, back = (np.log, np.exp) if logarithmic else (np.positive, np.positive)
        start, span = float(scale(low)), float(scale(high) - scale(low))

        def at(share: float) -> FloatArray:
            return np.asarray(back(start + span * np.array([share])))

        if self.lack(at(0.0))[0] <= 0.0:
            raise self.reached(low)
        # the far end may be costly, and is rarely needed
        end = _FIRST_STEP
        while (lack := self.lack(at(end))[0]) > 0.0 and end < 1.0:
            end *= 2.0
        if lack > 0.0:
            raise self.unreachable(high)
        # an error of the logarithm is a relative one of the argument
        precision = _PRECISION / max(1.0, abs(span) * end if logarithmic else end)
        share = _bracket(
            lambda x: self.lack(np.asarray(back(start + span * x))), 0.0, end, precision
        )
        return float(back(start + span * share))

    def size(self, *, whole: bool, dips: bool) -> float:
        """Return the size from which on all sizes that are tried reach the target.

        ``dips`` says that the quantity is not monotone, so that neighbours are tried, too.
        """
        high = 1.0
        while self.lack_at(high) > 0.0:
            high *= 2.0
            if high > LARGEST_SIZE:
                raise self.unreachable(LARGEST_SIZE)
        while not whole and self.lack_at(0.5 * high) <= 0.0:
            high *= 0.5
            if high < _SMALLEST_SIZE:
                raise self.reached(high)
        if whole:
            high = self._first_whole(np.floor(0.5 * high), high)
        else:
            high = _bracket(self.lack, 0.5 * high, high)
        return self._after_dips(high, whole=whole) if dips else float(high)

    def near(
        self,
        guess: float,
        least: float,
        largest: float,
        *,
        whole: bool = False,
    ) -> float:
        """Return where the target is reached and just before it is not, from a guess above 0.

        Arguments are looked for between ``least`` and ``largest``, few that are far from the
        answer are tried, and none twice. Whole numbers may start at one that is more than enough.
        """
        known: dict[float, float] = {}

        def lack(at: float) -> float:
            if at not in known:
                known[at] = self.lack_at(at)
            return known[at]

        up, down = (np.ceil, np.floor) if whole else (np.positive, np.positive)
        low = high = float(np.clip(up(guess), least, largest))
        step = _AROUND
        while lack(high) > 0.0:
            if high >= largest:
                raise self.unreachable(largest)
            low, high, step = high, min(float(up(high * np.exp(step))), largest), 2.0 * step
        while low == high or lack(low) <= 0.0:
            if low <= least:
                if whole:
                    return low
                raise self.reached(least)
            low, high, step = max(float(down(low * np.exp(-step))), least), low, 2.0 * step
        if whole:
            _, found = find_root(
                lambda x, _: np.array([lack(float(np.ceil(x[0])))]),
                np.array([low]),
                np.array([high]),
                rtol=0.0,
                atol=0.5,
            )
            return float(np.ceil(found[0]))
        _, found = find_root(
            lambda x, _: np.array([lack(float(x[0]))]),
            np.array([low]),
            np.array([high]),
            rtol=self.precision,
        )
        return float(found[0])

    def lack(self, at: FloatArray) -> FloatArray:
        """Return what lacks to the target; below 0 where it is just reached, for a step's start."""
        sign = 1.0 if self.rises else -1.0
        missing = sign * (self.target - self.values(at))
        return np.where(missing <= 0.0, np.minimum(missing, -_LEAST), missing)

    def lack_at(self, at: float) -> float:
        return float(self.lack(np.array([at]))[0])

    def _first_whole(self, low: float, high: float) -> float:
        """Bisect between a whole number that does not reach the target and one that does."""
        while high - low > 1.0:
            middle = float(np.floor(0.5 * (low + high)))
            low, high = (low, middle) if self.lack_at(middle) <= 0.0 else (middle, high)
        return high

    def _after_dips(self, size: float, *, whole: bool) -> float:
        """Return the size after the last of its neighbours that fails, if one does."""
        reach = min(_WINDOW, np.ceil(8.0 * np.sqrt(size)))
        step = 1.0 if whole else size * 1e-3
        # where powers are costly, teeth are small, and fewer neighbours tell
        tried = 2.0 * reach + 1.0 if size <= _COSTLY else _FEW
        near = size + step * np.unique(np.rint(np.linspace(-reach, reach, int(tried))))
        near = near[near >= (1.0 if whole else step)]
        fails = np.flatnonzero(self.lack(near) > (0.0 if whole else _LEAST))
        if not fails.size:
            return float(near[0])
        if fails[-1] == near.size - 1:
            return self._after_dips(float(near[-1]) + step, whole=whole)
        last, following = near[fails[-1]], near[fails[-1] + 1]
        return float(following) if whole else _bracket(self.lack, last, following)

    def reached(self, least: float) -> InvalidParameterError:
        reached = self.values(np.array([least]))[0]
        return InvalidParameterError(
            f"{self.quantity} must be {'larger' if self.rises else 'smaller'} than {reached:.6g}, "
            f"which {self.by} = {least:.6g} has already, got {self.target}"
        )

    def unreachable(self, largest: float) -> InvalidParameterError:
        reached = self.values(np.array([largest]))[0]
        return InvalidParameterError(
            f"{self.quantity} must be one that can be reached: it is {reached:.6g} at "
            f"{self.by} = {largest:.6g}, got {self.target}"
        )


def _bracket(
    lack: Callable[[FloatArray], FloatArray], low: float, high: float, precision: float = _PRECISION
) -> float:
    """Return the end that lacks nothing of a small bracket; ``low`` may be the larger number."""
    span = high - low
    _, found = find_root(
        lambda share, _: lack(low + span * share), np.zeros(1), np.ones(1), rtol=0.0, atol=precision
    )
    return float(low + span * found[0])
