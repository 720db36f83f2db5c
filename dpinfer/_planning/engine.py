"""Rows of the planner: a quantity at given numbers, and the number at which it is what is wanted.

A row says how one procedure is planned. Its fields are what is fixed; ``own`` names the numbers
that vary, which broadcast and can be solved for, beside ``alpha`` and ``budget``.
"""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from dpinfer._check import (
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_option,
    check_scalar,
    show,
)
from dpinfer._numerics.roots import find_root
from dpinfer.errors import ApproximationWarning, ConvergenceError, InvalidParameterError
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.law import NoiseLaw

NoisePlan = NoiseLaw | Callable[[float], NoiseLaw]
"""A law of noise, or what makes one from a privacy budget, as ``Laplace.from_epsilon`` does."""

Columns = Mapping[str, FloatArray]
"""Numbers by their names: arrays of one shape (m,), or of shape () where all but one are known."""

Bounds = Mapping[str, Any]
"""What a number is between, as arguments of a check: ge, gt, le, lt."""

BUDGETS = (1e-9, 1e9)
_LEVELS = (1e-12, 1.0 - 1e-12)
"""Ranges in which a budget and a level are looked for."""

LARGEST_SIZE = 1e12
_SMALLEST_SIZE = 1e-9
"""Between these a number of observations is looked for, from 1 on where it is whole."""

SIZES: Bounds = {"ge": 1.0, "le": LARGEST_SIZE}

SIGNS: Mapping[Alternative, tuple[float, ...]] = {
    "two-sided": (1.0, -1.0),
    "larger": (1.0,),
    "smaller": (-1.0,),
}
"""Of the tails in which a test rejects: 1.0 for the upper one."""

_SIMULATED = 1e-4
"""Relative precision of what is solved for by simulated powers: replicates tell no more."""

_LEAST_ALPHA = 1e-300
"""Shares of smaller ones may be 0, whose quantiles are infinite."""

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


def check_plan(
    mechanism: Any, cells: tuple[int, ...] = (), *, name: str = "mechanism"
) -> NoisePlan:
    """Return a law, or what makes one; refuse what is neither."""
    if isinstance(mechanism, NoiseLaw) or (cells and isinstance(mechanism, (list, tuple))):
        return check_law(mechanism, cells, name=name)
    if isinstance(mechanism, type) or not callable(mechanism):
        raise InvalidParameterError(
            f"{name} must be a law of noise, such as Laplace(scale=2.0), or a function that "
            f"makes one from a budget, such as Laplace.from_epsilon, got {show(mechanism)}"
        )
    made: NoisePlan = mechanism
    return made


def check_law(
    mechanism: Any, cells: tuple[int, ...], budget: float | None = None, *, name: str = "mechanism"
) -> NoiseLaw:
    if cells and isinstance(mechanism, (list, tuple)):
        return as_noise(mechanism, prod(cells), name=name, selected=True)
    if not isinstance(mechanism, NoiseLaw):
        raise InvalidParameterError(
            f"{name} must return a noise law, got {show(mechanism)} for the budget {budget:g}"
        )
    if mechanism.shape not in ((), cells):
        raise InvalidParameterError(
            f"{name} must have scalar parameters{f' or shape {cells}' if cells else ''}, got "
            f"shape {mechanism.shape}"
        )
    return mechanism


def check_method(method: Any, options: tuple[str, ...]) -> None:
    """Refuse what is no method of a plan; the limit is called "asymptotic"."""
    if isinstance(method, str) and method == "normal" and "asymptotic" in options:
        raise InvalidParameterError("method must be 'asymptotic' for the limit, got 'normal'")
    check_option(method, "method", options)


def tail_level(alpha: float, alternative: Alternative) -> float:
    """Return the level of each tail."""
    return 0.5 * alpha if alternative == "two-sided" else alpha


def score(z: FloatArray, alternative: Alternative) -> FloatArray:
    """Return what is large where a test rejects."""
    return np.abs(z) if alternative == "two-sided" else np.asarray(SIGNS[alternative][0] * z)


def is_alternative(alternative: Alternative, effect: float) -> bool:
    return any(sign * effect > 0.0 for sign in SIGNS[alternative])


@dataclass
class Search:
    """What is wanted of a quantity, and the quantity as a function of the argument ``by``.

    It is reached from below where it ``rises``, as a power, and from above otherwise, as a width.
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

        def lack(share: FloatArray) -> FloatArray:
            return self.lack(np.asarray(back(start + span * share)))

        if lack(np.zeros(1))[0] <= 0.0:
            raise self.reached(low)
        # the far end may be costly, and is rarely needed
        end = _FIRST_STEP
        while (short := lack(np.array([end]))[0]) > 0.0 and end < 1.0:
            end *= 2.0
        if short > 0.0:
            raise self.unreachable(high)
        # an error of the logarithm is a relative one of the argument
        precision = _PRECISION / max(1.0, abs(span) * end if logarithmic else end)
        return float(back(start + span * _bracket(lack, 0.0, end, precision)))

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
            low = np.floor(0.5 * high)
            while high - low > 1.0:
                middle = float(np.floor(0.5 * (low + high)))
                low, high = (low, middle) if self.lack_at(middle) <= 0.0 else (middle, high)
        else:
            high = _bracket(self.lack, 0.5 * high, high)
        return self._after_dips(high, whole=whole) if dips else float(high)

    def near(self, guess: float, least: float, largest: float, *, whole: bool = False) -> float:
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
        _, found = find_root(
            lambda x, _: np.array([lack(float(up(x[0])))]),
            np.array([low]),
            np.array([high]),
            rtol=0.0 if whole else self.precision,
            atol=0.5 if whole else 0.0,
        )
        return float(up(found[0]))

    def lack(self, at: FloatArray) -> FloatArray:
        """Return what lacks to the target; below 0 where it is just reached, for a step's start."""
        sign = 1.0 if self.rises else -1.0
        missing = sign * (self.target - self.values(at))
        return np.where(missing <= 0.0, np.minimum(missing, -_LEAST), missing)

    def lack_at(self, at: float) -> float:
        return float(self.lack(np.array([at]))[0])

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Row(ABC):
    """How one procedure is planned; see the rows themselves.

    A row has to have ``at`` or, where each setting is found by itself, ``one``.
    """

    procedure: Any
    mechanism: Any = None

    quantity: ClassVar[str]
    rises: ClassVar[bool]
    """Whether more of the quantity is wanted, so that it is to be reached from below."""

    wanted: ClassVar[tuple[float, float]]
    """What a wanted value lies between."""

    error: ClassVar[str]
    """Name of the column with the errors."""

    own: ClassVar[Mapping[str, Bounds]] = {}
    given: ClassVar[tuple[str, ...]] = ()
    """The numbers beside alpha and budget, and the names of those that are not solved for."""

    optional: ClassVar[Mapping[str, float]] = {}
    """Numbers that may be left out, and what they then are."""

    logarithmic: ClassVar[frozenset[str]] = frozenset({"alpha", "budget"})
    """Names of those that are looked for on a logarithmic scale."""

    size: ClassVar[str | None] = None
    """Name of the number of observations, where there is one."""

    whole: ClassVar[bool] = True
    dips: ClassVar[bool] = False
    """Whether it is a whole number, and whether its neighbours are tried, too."""

    has_mechanism: ClassVar[bool] = True
    """False where the procedure makes its noise itself, from a budget that is one of ``own``."""

    def __post_init__(self) -> None:
        self.prepare()
        if self.has_mechanism:
            self.set(mechanism=self.checked_mechanism())
        elif self.mechanism is not None:
            raise InvalidParameterError(
                f"mechanism must be left out, as {self.procedure.__name__} makes its noise from "
                f"budget, got {show(self.mechanism)}"
            )

    def prepare(self) -> None:  # noqa: B027
        """Check the fields, and put them into their normal form."""

    def checked_mechanism(self) -> NoisePlan:
        return check_plan(self.mechanism, self.shape)

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        """Return the quantity under one law and level, and its errors; they broadcast to (m,)."""
        if not self.own:
            return self.one(law, alpha)
        rows = np.stack([columns[name] for name in self.own], axis=1)
        settings, inverse = np.unique(rows, axis=0, return_inverse=True)
        found = np.array([self.one(law, alpha, *setting) for setting in settings.tolist()])
        values, errors = found[inverse.reshape(-1)].T
        return values, errors

    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        """Return the quantity for one value of each of the own numbers, and its error."""
        raise NotImplementedError

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        """Return values of a number: one that falls short and the one that is farthest."""
        return BUDGETS if name == "budget" else _LEVELS

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        """Return about what is looked for, where that saves time."""
        return None

    def found_by(self, name: str, known: Columns, target: float, **changes: Any) -> float | None:
        """Return what a plan that costs less needs; None if it cannot have it."""
        try:
            return replace(self, **changes).find(name, known, target)
        except (InvalidParameterError, ConvergenceError):
            return None

    def ends(self, name: str, known: Columns) -> tuple[float, float]:
        """Return the ends between which a number is looked for from a guess."""
        if name == self.size and self.whole:
            return float(self.own[name]["ge"]), float(self.own[name]["le"])
        return self.range(name, known)

    def precision(self, name: str) -> float:
        return _PRECISION

    def doubts(self, columns: Columns) -> list[str]:
        return []

    def extra(self, columns: Columns, error: FloatArray) -> dict[str, Any]:
        return {}

    def facts(self) -> dict[str, Any]:
        """Return what else is known of the truth, for the attributes of the frame of a curve."""
        return {}

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def has_budget(self) -> bool:
        return self.has_mechanism and not isinstance(self.mechanism, NoiseLaw)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.own, "alpha", *(("budget",) if self.has_budget else ()))

    def law(self, budget: float) -> NoiseLaw:
        if not self.has_mechanism:
            return Exact()
        if isinstance(self.mechanism, NoiseLaw):
            return self.mechanism
        return check_law(self.mechanism(budget), self.shape, budget)

    def law_at(self, known: Columns) -> NoiseLaw:
        """Return the law where the budget, if there is one, is known."""
        return self.law(float(known["budget"]) if self.has_budget else 0.0)

    def set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def checked(self, name: str, value: Any) -> FloatArray:
        if name in self.own:
            is_whole = name == self.size and self.whole
            check = check_integer_array if is_whole else check_array
            return check(value, name, **self.own[name])
        if name == "alpha":
            return check_array(check_array(value, name, gt=0, lt=1), name, ge=_LEAST_ALPHA)
        if not self.has_budget:
            raise InvalidParameterError(
                "budget must be left out where mechanism is a law of noise: to plan a budget, "
                "give a function that makes the law from it, such as Laplace.from_epsilon"
            )
        return check_array(value, name, gt=0)

    def numbers(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given for each number, None where nothing is."""
        for name in arguments:
            if name not in self.names and not (name == "budget" and arguments[name] is None):
                if name == "budget":
                    self.checked(name, arguments[name])
                raise InvalidParameterError(
                    f"arguments of a plan of {self.procedure.__name__} must be among "
                    f"{', '.join(self.arguments())}, got {show(name)}"
                )
        return {name: arguments.get(name) for name in self.names}

    @classmethod
    def arguments(cls) -> list[str]:
        fixed = [x.name for x in fields(cls) if x.init and x.name != "procedure"]
        return [*cls.own, "alpha", "budget", *fixed]

    def columns(self, numbers: Mapping[str, Any]) -> tuple[Columns, tuple[int, ...]]:
        """Return checked numbers in one shape (m,), and the shape of the answer."""
        for name, value in numbers.items():
            if value is None:
                raise InvalidParameterError(f"{name} must be given, got None")
        checked = {name: self.checked(name, value) for name, value in numbers.items()}
        try:
            shape = np.broadcast_shapes(*(array.shape for array in checked.values()))
        except ValueError:
            shapes = ", ".join(f"{name} has {array.shape}" for name, array in checked.items())
            raise InvalidParameterError(f"arguments must have one shape: {shapes}") from None
        columns = {name: np.broadcast_to(x, shape).reshape(-1) for name, x in checked.items()}
        return columns, shape

    def evaluate(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """Return the quantity and its errors, budget by budget and level by level."""
        size = columns["alpha"].size
        budgets = columns["budget"] if self.has_budget else np.zeros(size)
        values, errors = np.empty((2, size))
        for budget, alpha in np.unique(np.stack([budgets, columns["alpha"]], axis=1), axis=0):
            rows = (budgets == budget) & (columns["alpha"] == alpha)
            own = {name: columns[name][rows] for name in self.own}
            values[rows], errors[rows] = self.at(self.law(float(budget)), float(alpha), own)
        return values, errors

    def solve(self, numbers: Mapping[str, Any], target: Any) -> float:
        """Return the one number that is None, or the quantity if that is."""
        for name in self.given:
            if numbers[name] is None:
                raise InvalidParameterError(f"{name} must be given: it is not solved for")
        unknown = [
            name for name, value in {**numbers, self.quantity: target}.items() if value is None
        ]
        if len(unknown) != 1:
            raise InvalidParameterError(
                f"exactly one of {', '.join((*numbers, self.quantity))} must be None, got "
                f"{', '.join(unknown) or 'none'} as None"
            )
        known = {
            name: np.asarray(check_scalar(self.checked(name, value), name))
            for name, value in numbers.items()
            if name != unknown[0]
        }
        if unknown[0] == self.quantity:
            columns, _ = self.columns(known)
            return float(self.evaluate(columns)[0][0])
        low, high = self.wanted
        return self.find(unknown[0], known, check_scalar(target, self.quantity, gt=low, lt=high))

    def find(self, name: str, known: Columns, target: float) -> float:
        """Return the value of a number from which on the target is reached."""
        search, whole = self.search(name, known, target), name == self.size and self.whole
        guess = self.guess(name, known, target)
        if guess is not None:
            return search.near(guess, *self.ends(name, known), whole=whole)
        if name == self.size:
            return search.size(whole=whole, dips=self.dips)
        return search.first(*self.range(name, known), logarithmic=name in self.logarithmic)

    def search(self, name: str, known: Columns, target: float) -> Search:
        """Return the quantity as a function of one number, and what is wanted of it."""

        def values(at: FloatArray) -> FloatArray:
            found, errors = self.evaluate(self.columns({**known, name: at})[0])
            if self.error == "mc_error" and errors.any():
                search.precision = max(search.precision, _SIMULATED)
            return found

        search = Search(self.quantity, target, self.rises, name, values, self.precision(name))
        return search

    def warn(self, columns: Columns) -> None:
        """Warn of doubts, three frames below the caller of a public function."""
        for doubt in self.doubts(columns):
            warnings.warn(doubt, ApproximationWarning, stacklevel=4)


class PowerRow(Row):
    """Power of a test: the probability that it rejects at a stated truth."""

    quantity = "power"
    rises = True
    wanted = (0.0, 1.0)
    error = "mc_error"

    def has_effect(self, known: Columns) -> bool:
        return True

    def find(self, name: str, known: Columns, target: float) -> float:
        """Refuse a power that no number of observations reaches; otherwise look for it."""
        if name == self.size and target > known["alpha"] and not self.has_effect(known):
            raise InvalidParameterError(
                f"power must be at most alpha where there is no effect in the direction of the "
                f"alternative, got {target} for alpha = {known['alpha']:g}"
            )
        return super().find(name, known, target)


class WidthRow(Row):
    """Width of an interval where the published values are as stated."""

    quantity = "width"
    rises = False
    wanted = (0.0, np.inf)
    error = "error"

    def budget_of(
        self, measure: Callable[[NoiseLaw], float], target: float, otherwise: float
    ) -> float:
        """Return the budget whose noise measures so much, or another where there is none."""

        def measures(budgets: FloatArray) -> FloatArray:
            return np.array([measure(self.law(budget)) for budget in budgets.tolist()])

        try:
            search = Search(self.quantity, target, self.rises, "budget", measures)
            return search.first(*BUDGETS, logarithmic=True)
        except InvalidParameterError:  # none in this range
            return otherwise
