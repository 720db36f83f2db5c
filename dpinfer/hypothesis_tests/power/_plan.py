"""What the plans share: the power at given arguments, and the argument that reaches a power."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer._numerics.roots import find_root
from dpinfer._validation import Alternative, FloatArray, check_array, check_scalar, require, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.independent import as_noise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NoisePlan = NoiseLaw | Callable[[float], NoiseLaw]
"""A law of noise, or what makes one from a privacy budget, as ``Laplace.from_epsilon`` does."""

Columns = Mapping[str, FloatArray]
"""The arguments of a plan by their names, arrays of one shape (m,)."""

LARGEST_NOBS = 1e12
"""Up to here a number of observations is looked for."""

_BUDGETS = (1e-9, 1e9)
"""Range in which a budget is looked for."""

_LEVELS = (1e-12, 1.0 - 1e-12)
"""Range in which a level is looked for."""

_WINDOW = 2048
"""Largest number of neighbours at which a sample size is tried as well."""

_FIRST_STEP = 2.0**-6
"""Share of a range at which the search for an argument begins."""

_PRECISION = 1e-10
"""Relative precision of what is solved for."""

_LEAST = 1e-12
"""Stands for an excess of 0, which would end a search; rounding errors are smaller."""


class Plan(ABC):
    """Power of a test, as a function of named arguments; see the plans themselves."""

    mechanism: NoisePlan

    _own: ClassVar[tuple[str, ...]]
    """Names of the arguments beside alpha and budget."""

    _logarithmic: ClassVar[frozenset[str]] = frozenset({"alpha", "budget"})
    """Names of those that are looked for on a logarithmic scale."""

    _size: ClassVar[str | None] = None
    """Name of the argument that counts observations, where there is one."""

    _integer_size: ClassVar[bool] = True
    _sawtooth: ClassVar[bool] = True
    """Whether neighbours of a sample size are tried, the power not being monotone in it."""

    @abstractmethod
    def _check(self, name: str, value: Any) -> FloatArray:
        """Return an argument of this plan, which is not alpha or budget, if it is valid."""

    @abstractmethod
    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        """Return probabilities of a rejection, shape (m,), and their Monte Carlo errors."""

    @abstractmethod
    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        """Return values of an effect with the smallest and the largest power."""

    def _has_effect(self, columns: Columns) -> bool:
        """Whether with more observations there would be more power."""
        return True

    def power_frame(self, **arguments: Any) -> pd.DataFrame:
        """Return the power for all combinations of the arguments as a DataFrame.

        Parameters
        ----------
        **arguments
            The arguments of ``power``; each is one value or an array of shape (m,).

        Returns
        -------
        DataFrame
            One row a combination, with a column for each argument, and the columns ``power`` and
            ``mc_error``, the Monte Carlo standard error, which is 0 where nothing was simulated.
        """
        import pandas as pd

        axes = self._axes(arguments)
        grid = np.array(list(product(*axes.values()))).T
        columns = dict(zip(axes, grid, strict=True))
        power, error = self._power(columns)
        return pd.DataFrame({**columns, "power": power, "mc_error": error})

    def plot(self, x: str, *, ax: Axes | None = None, **arguments: Any) -> Axes:
        """Draw the power against one argument; needs the extra ``[plot]``.

        Parameters
        ----------
        x : str
            The argument on the horizontal axis, of which several values are given.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        **arguments
            The arguments of ``power``. There is one line for each combination of the others.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the drawing.

        Raises
        ------
        InvalidParameterError
            If ``x`` is not one of the arguments.
        MissingExtraError
            If matplotlib is not installed.
        """
        pyplot = require("matplotlib.pyplot", "plot")
        if x not in arguments:
            raise InvalidParameterError(
                f"x must be one of the arguments, {', '.join(arguments)}, got {show(x)}"
            )
        frame = self.power_frame(**arguments)
        others = [name for name in arguments if name != x and np.size(arguments[name]) > 1]
        axes = pyplot.subplots()[1] if ax is None else ax
        for key, part in frame.groupby(others) if others else [((), frame)]:
            label = ", ".join(f"{name} = {v:g}" for name, v in zip(others, key, strict=True))
            axes.errorbar(part[x], part["power"], yerr=part["mc_error"], label=label or None)
        if others:
            axes.legend()
        axes.set_xlabel(x)
        axes.set_ylabel("power")
        return axes

    def _axes(self, arguments: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Check the arguments one by one; a level or a budget that is missing is filled in."""
        given = {"alpha": 0.05, **arguments}
        if not self._has_budget and given.get("budget") is None:
            given.pop("budget", None)
        axes = {}
        for name, value in given.items():
            axis = self._checked(name, value)
            if axis.ndim > 1:
                raise InvalidParameterError(
                    f"{name} must be a number or one-dimensional, got shape {axis.shape}"
                )
            axes[name] = np.atleast_1d(axis)
        if missing := [name for name in self._names if name not in axes]:
            raise InvalidParameterError(f"{missing[0]} must be given")
        return axes

    @property
    def _cells(self) -> tuple[int, ...]:
        """Shape of the published counts."""
        return ()

    @property
    def _has_budget(self) -> bool:
        return not isinstance(self.mechanism, NoiseLaw)

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self._own, "alpha", *(("budget",) if self._has_budget else ()))

    def _checked(self, name: str, value: Any) -> FloatArray:
        if name == "alpha":
            return check_array(value, "alpha", gt=0, lt=1)
        if name == "budget":
            if not self._has_budget:
                raise InvalidParameterError(
                    "budget must be None where mechanism is a law of noise: to plan a budget, give "
                    "a function that makes the law from it, such as Laplace.from_epsilon"
                )
            if value is None:
                raise InvalidParameterError(
                    "budget must be given where mechanism is a function of it, got None"
                )
            return check_array(value, "budget", gt=0)
        if name not in self._own:
            raise InvalidParameterError(
                f"arguments must be among {', '.join(self._names)}, got {show(name)}"
            )
        return self._check(name, value)

    def _law(self, budget: float) -> NoiseLaw:
        if isinstance(self.mechanism, NoiseLaw):
            return self.mechanism
        return check_law(self.mechanism(budget), self._cells, budget)

    def _broadcast(self, arguments: Mapping[str, Any]) -> tuple[Columns, tuple[int, ...]]:
        """Return the checked arguments in one shape (m,), and the shape of the answer."""
        given = {name: arguments[name] for name in self._names}
        if arguments.get("budget") is not None:
            given["budget"] = arguments["budget"]
        checked = {name: self._checked(name, value) for name, value in given.items()}
        try:
            shape = np.broadcast_shapes(*(array.shape for array in checked.values()))
        except ValueError:
            shapes = ", ".join(f"{name} has {array.shape}" for name, array in checked.items())
            raise InvalidParameterError(f"arguments must have one shape: {shapes}") from None
        columns = {name: np.broadcast_to(x, shape).reshape(-1) for name, x in checked.items()}
        return columns, shape

    def _evaluate(self, arguments: Mapping[str, Any]) -> Any:
        """Return the power in the shape to which the arguments broadcast."""
        columns, shape = self._broadcast(arguments)
        return self._power(columns)[0].reshape(shape)[()]

    def _power(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """Return powers and their errors, budget by budget and level by level."""
        size = columns["alpha"].size
        budgets = columns.get("budget", np.zeros(size))
        power, error = np.empty((2, size))
        for budget, alpha in np.unique(np.stack([budgets, columns["alpha"]], axis=1), axis=0):
            rows = (budgets == budget) & (columns["alpha"] == alpha)
            own = {name: columns[name][rows] for name in self._own}
            law = self._law(float(budget))
            power[rows], error[rows] = self._reject(law, float(alpha), own)
        return power, error

    def _solve(self, arguments: Mapping[str, Any]) -> float:
        """Return the one argument that is None."""
        names = (*self._names, "power")
        if not self._has_budget and arguments.get("budget") is not None:
            self._checked("budget", arguments["budget"])
        unknown = [name for name in names if arguments.get(name) is None]
        if len(unknown) != 1:
            raise InvalidParameterError(
                f"exactly one of {', '.join(names)} must be None, got "
                f"{', '.join(unknown) or 'none'} as None"
            )
        known = {
            name: np.asarray(check_scalar(self._checked(name, arguments[name]), name))
            for name in self._names
            if name != unknown[0]
        }
        if unknown[0] == "power":
            return float(self._evaluate(known))
        target = check_scalar(arguments["power"], "power", gt=0, lt=1)
        return self._find(unknown[0], known, target)

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return the value of an argument from which on the power is reached."""

        def powers(values: FloatArray) -> FloatArray:
            columns, _ = self._broadcast({**known, name: values})
            return self._power(columns)[0]

        if name == self._size:
            if target > known["alpha"] and not self._has_effect(known):
                raise InvalidParameterError(
                    f"power must be at most alpha where there is no effect in the direction of the "
                    f"alternative, got {target} for alpha = {known['alpha']:g}"
                )
            return self._smallest_size(powers, target)
        ends = {"budget": _BUDGETS, "alpha": _LEVELS}
        low, high = ends[name] if name in ends else self._range(name, known)
        return _first_reach(powers, target, name, low, high, logarithmic=name in self._logarithmic)

    def _smallest_size(self, powers: Callable[[FloatArray], FloatArray], target: float) -> float:
        """Return the size from which on all sizes that are tried reach the power."""
        high = 1.0
        while powers(np.array([high]))[0] < target:
            high *= 2.0
            if high > LARGEST_NOBS:
                reached = powers(np.array([LARGEST_NOBS]))[0]
                raise _unreachable(target, str(self._size), LARGEST_NOBS, reached)
        if not self._integer_size:
            return self._after_dips(powers, target, _bracket(powers, target, 0.5 * high, high))
        low = np.floor(0.5 * high)
        while high - low > 1.0:
            middle = np.floor(0.5 * (low + high))
            low, high = (low, middle) if powers(np.array([middle]))[0] >= target else (middle, high)
        return self._after_dips(powers, target, high)

    def _after_dips(
        self, powers: Callable[[FloatArray], FloatArray], target: float, size: float
    ) -> float:
        """Return the size after the last of its neighbours that fails, if one does."""
        if not self._sawtooth:
            return size
        reach = min(_WINDOW, np.ceil(8.0 * np.sqrt(size)))
        step = 1.0 if self._integer_size else size * 1e-3
        near = size + step * np.arange(-reach, reach + 1.0)
        near = near[near >= (1.0 if self._integer_size else step)]
        enough = target if self._integer_size else target - _LEAST
        fails = np.flatnonzero(powers(near) < enough)
        if not fails.size:
            return float(near[0])
        if fails[-1] == near.size - 1:
            return self._after_dips(powers, target, float(near[-1]) + step)
        last, following = near[fails[-1]], near[fails[-1] + 1]
        return float(following) if self._integer_size else _bracket(powers, target, last, following)


def is_alternative(alternative: Alternative, effect: float) -> bool:
    """Whether an effect lies in the direction in which a test looks."""
    return (effect > 0.0 and alternative != "smaller") or (effect < 0.0 and alternative != "larger")


def check_plan(mechanism: Any, cells: tuple[int, ...] = ()) -> NoisePlan:
    """Return a law, or what makes one; refuse what is neither."""
    if isinstance(mechanism, NoiseLaw) or (cells and isinstance(mechanism, (list, tuple))):
        return check_law(mechanism, cells)
    if isinstance(mechanism, type) or not callable(mechanism):
        raise InvalidParameterError(
            "mechanism must be a law of noise, such as Laplace(scale=2.0), or a function that "
            f"makes one from a budget, such as Laplace.from_epsilon, got {show(mechanism)}"
        )
    made: NoisePlan = mechanism
    return made


def check_law(mechanism: Any, cells: tuple[int, ...], budget: float | None = None) -> NoiseLaw:
    """Return a law of one noise, or of one for each cell."""
    if cells and isinstance(mechanism, (list, tuple)):
        return as_noise(mechanism, prod(cells))
    if not isinstance(mechanism, NoiseLaw):
        raise InvalidParameterError(
            f"mechanism must return a noise law, got {show(mechanism)} for the budget {budget:g}"
        )
    if mechanism.shape not in ((), cells):
        raise InvalidParameterError(
            f"mechanism must have scalar parameters{f' or shape {cells}' if cells else ''}, got "
            f"shape {mechanism.shape}"
        )
    return mechanism


def _first_reach(
    powers: Callable[[FloatArray], FloatArray],
    target: float,
    name: str,
    low: float,
    high: float,
    *,
    logarithmic: bool,
) -> float:
    """Return where between two ends, of small and of large power, the power is reached."""
    scale, back = (np.log, np.exp) if logarithmic else (np.positive, np.positive)
    start, span = float(scale(low)), float(scale(high) - scale(low))

    def at(share: FloatArray) -> FloatArray:
        return powers(np.asarray(back(start + span * share)))

    if (reached := at(np.zeros(1))[0]) >= target:
        raise InvalidParameterError(
            f"power must be larger than {reached:.6g}, which {name} = {low:.6g} has already, got "
            f"{target}"
        )
    # the far end may be costly, and is rarely needed
    end = _FIRST_STEP
    while at(np.array([end]))[0] < target and end < 1.0:
        end *= 2.0
    if (reached := at(np.array([end]))[0]) < target:
        raise _unreachable(target, name, high, reached)
    return float(back(start + span * _bracket(at, target, 0.0, end)))


def _bracket(
    powers: Callable[[FloatArray], FloatArray], target: float, low: float, high: float
) -> float:
    """Return the end, with enough power, of a small bracket; ``low`` may be the larger number."""
    span = high - low
    _, found = find_root(
        lambda share, _: shortfall(powers(low + span * share), target),
        np.zeros(1),
        np.ones(1),
        rtol=0.0,
        atol=_PRECISION,
    )
    return float(low + span * found[0])


def shortfall(power: FloatArray, target: float) -> FloatArray:
    """Return what lacks to a power; below 0 where it is just reached, for the start of a step."""
    return np.where(power >= target, np.minimum(target - power, -_LEAST), target - power)


def _unreachable(target: float, by: str, largest: float, reached: float) -> InvalidParameterError:
    return InvalidParameterError(
        f"power must be one that can be reached: it is {reached:.6g} at {by} = {largest:.6g}, got "
        f"{target}"
    )
