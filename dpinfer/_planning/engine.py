"""Rows of the planner: a quantity at given numbers, and the number at which it is what is wanted.

A row says how one procedure is planned. Its fields are what is fixed; ``own`` names the numbers
that vary, which broadcast and can be solved for, beside ``alpha`` and ``budget``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any, ClassVar

import numpy as np

from dpinfer._check import Alternative, FloatArray, check_array, check_option, check_scalar, show
from dpinfer._planning.search import LARGEST_SIZE, Search
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.law import NoiseLaw

NoisePlan = NoiseLaw | Callable[[float], NoiseLaw]
"""A law of noise, or what makes one from a privacy budget, as ``Laplace.from_epsilon`` does."""


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


Columns = Mapping[str, FloatArray]
"""Numbers by their names: arrays of one shape (m,), or of shape () where all but one are known."""

BUDGETS = (1e-9, 1e9)
"""Range in which a budget is looked for."""

_LEVELS = (1e-12, 1.0 - 1e-12)
"""Range in which a level is looked for."""

_SIMULATED = 1e-4
"""Relative precision of what is solved for by simulated powers: replicates tell no more."""

_LEAST_ALPHA = 1e-300
"""Shares of smaller ones may be 0, whose quantiles are infinite."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Row(ABC):
    """How one procedure is planned; see the rows themselves."""

    procedure: Any
    mechanism: Any = None

    quantity: ClassVar[str]
    rises: ClassVar[bool]
    """Whether more of the quantity is wanted, so that it is to be reached from below."""

    wanted: ClassVar[tuple[float, float]]
    """What a wanted value lies between."""

    error: ClassVar[str]
    """Name of the column with the errors."""

    own: ClassVar[tuple[str, ...]] = ()
    given: ClassVar[tuple[str, ...]] = ()
    """Names of the numbers beside alpha and budget, and of those that are not solved for."""

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

    @abstractmethod
    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        """Return the quantity under one law and level, and its errors; they broadcast to (m,)."""

    def check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        """Return values of a number: one that falls short and the one that is farthest."""
        return BUDGETS if name == "budget" else _LEVELS

    def guess(self, name: str, known: Columns, target: float) -> float | None:
        """Return about what is looked for, where that saves time."""
        return None

    def ends(self, name: str, known: Columns) -> tuple[float, float]:
        """Return the ends between which a number is looked for from a guess."""
        return (1.0, LARGEST_SIZE) if name == self.size else self.range(name, known)

    def precision(self, name: str) -> float:
        return 1e-10

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
        if name == "alpha":
            return check_array(check_array(value, name, gt=0, lt=1), name, ge=_LEAST_ALPHA)
        if name == "budget" and name not in self.own:
            if not self.has_budget:
                raise InvalidParameterError(
                    "budget must be left out where mechanism is a law of noise: to plan a budget, "
                    "give a function that makes the law from it, such as Laplace.from_epsilon"
                )
            return check_array(value, name, gt=0)
        return self.check(name, value)

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
            ends = self.ends(name, known)
            return search.near(guess, *ends, whole=whole)
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


class WidthBySetting(WidthRow):
    """Width that is found for one value of each number at a time."""

    @abstractmethod
    def one(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        """Return the width for one value of each of the own numbers, and its error."""

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        """Return the widths and their errors, of which none is found twice."""
        rows = np.stack([columns[name] for name in self.own], axis=1)
        settings, inverse = np.unique(rows, axis=0, return_inverse=True)
        found = np.array([self.one(law, alpha, *setting) for setting in settings.tolist()])
        width, error = found[inverse.reshape(-1)].T
        return width, error


def is_alternative(alternative: Alternative, effect: float) -> bool:
    return (effect > 0.0 and alternative != "smaller") or (effect < 0.0 and alternative != "larger")


def check_method(method: Any, options: tuple[str, ...]) -> None:
    """Refuse what is no method of a plan; the limit is called "asymptotic"."""
    if isinstance(method, str) and method == "normal" and "asymptotic" in options:
        raise InvalidParameterError("method must be 'asymptotic' for the limit, got 'normal'")
    check_option(method, "method", options)
