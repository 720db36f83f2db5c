"""A plan: a quantity at given arguments, and the argument at which it reaches what is wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer._check import FloatArray, check_array, check_scalar, show
from dpinfer._style import add_legend, marker, series, styled_axes
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.documentation import fill
from dpinfer.planning.mechanisms import NoisePlan, check_law
from dpinfer.planning.search import Search

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Columns = Mapping[str, FloatArray]
"""The arguments of a plan by their names, arrays of one shape (m,)."""

BUDGETS = (1e-9, 1e9)
"""Range in which a budget is looked for."""

_LEVELS = (1e-12, 1.0 - 1e-12)
"""Range in which a level is looked for."""

_LEAST_ALPHA = 1e-300
"""Shares of smaller ones may be 0, whose quantiles are infinite."""


class Plan(ABC):
    """A quantity, such as a power, as a function of named arguments; see the plans themselves."""

    mechanism: NoisePlan

    _quantity: ClassVar[str]
    """Name of what is planned."""

    _rises: ClassVar[bool]
    """Whether more of it is wanted, so that it is to be reached from below."""

    _bounds: ClassVar[tuple[float, float]]
    """What a wanted value lies between."""

    _error: ClassVar[str]
    """Name of the column with the errors."""

    _own: ClassVar[tuple[str, ...]]
    """Names of the arguments beside alpha and budget."""

    _given: ClassVar[tuple[str, ...]] = ()
    """Names of those that have to be given, which are not solved for."""

    _logarithmic: ClassVar[frozenset[str]] = frozenset({"alpha", "budget"})
    """Names of those that are looked for on a logarithmic scale."""

    _size: ClassVar[str | None] = None
    """Name of the argument that counts observations, where there is one."""

    _integer_size: ClassVar[bool] = True
    _sawtooth: ClassVar[bool] = True
    """Whether neighbours of a sample size are tried, the quantity not being monotone in it."""

    _texts: ClassVar[Mapping[str, str]] = {}
    """What the docstrings of such plans share, by names; see :mod:`dpinfer.planning.documentation`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls._texts:
            fill(cls, cls._texts, cls._quantity)

    def _set(self, **fields: Any) -> None:
        """Set fields while a plan, which is frozen, is made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check(self, name: str, value: Any) -> FloatArray:
        """Return an argument of this plan, which is not alpha or budget, if it is valid."""
        return check_array(value, name)

    @abstractmethod
    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        """Return the quantity, shape (m,), under one law and level, and its errors."""

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        """Return values of an argument: one that falls short and the one that is farthest."""
        return BUDGETS if name == "budget" else _LEVELS

    def plot(self, x: str, *, ax: Axes | None = None, **arguments: Any) -> Axes:
        """Draw what is planned against one argument; needs the extra ``[plot]``.

        Parameters
        ----------
        x : str
            The argument on the horizontal axis, of which several values are given.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        **arguments
            The arguments of the plan. There is one line for each combination of the others.

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
        if x not in arguments:
            raise InvalidParameterError(
                f"x must be one of the arguments, {', '.join(arguments)}, got {show(x)}"
            )
        frame = self._drawn(arguments)
        others = [name for name in arguments if name != x and np.size(arguments[name]) > 1]
        axes = styled_axes(ax)
        lines = frame.groupby(others) if others else [((), frame)]
        for place, (key, part) in enumerate(lines):
            label = ", ".join(f"{name} = {v:g}" for name, v in zip(others, key, strict=True))
            error = part[self._error]
            look = {**series(place), **marker(place)}
            axes.errorbar(part[x], part[self._quantity], yerr=error, label=label or None, **look)
        add_legend(axes)
        axes.set_xlabel(x)
        axes.set_ylabel(self._quantity)
        return axes

    def _drawn(self, arguments: Mapping[str, Any]) -> pd.DataFrame:
        """Return what is to be drawn."""
        return self._frame(arguments)

    def _frame(self, arguments: Mapping[str, Any]) -> pd.DataFrame:
        """Return the quantity for all combinations of the arguments."""
        import pandas as pd

        axes = self._axes(arguments)
        grid = np.array(list(product(*axes.values()))).T
        columns = dict(zip(axes, grid, strict=True))
        values, error = self._values(columns)
        return pd.DataFrame({**columns, self._quantity: values, self._error: error})

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
            levels = check_array(value, "alpha", gt=0, lt=1)
            return check_array(levels, "alpha", ge=_LEAST_ALPHA)
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

    def _law_at(self, columns: Columns) -> NoiseLaw:
        """Return the law for one budget, where the arguments have one."""
        return self._law(float(columns["budget"]) if "budget" in columns else 0.0)

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

    def _evaluate(self, **arguments: Any) -> Any:
        """Return the quantity in the shape to which the arguments broadcast."""
        columns, shape = self._broadcast(arguments)
        return self._values(columns)[0].reshape(shape)[()]

    def _values(self, columns: Columns) -> tuple[FloatArray, FloatArray]:
        """Return the quantity and its errors, budget by budget and level by level."""
        size = columns["alpha"].size
        budgets = columns.get("budget", np.zeros(size))
        values, error = np.empty((2, size))
        for budget, alpha in np.unique(np.stack([budgets, columns["alpha"]], axis=1), axis=0):
            rows = (budgets == budget) & (columns["alpha"] == alpha)
            own = {name: columns[name][rows] for name in self._own}
            law = self._law(float(budget))
            values[rows], error[rows] = self._at(law, float(alpha), own)
        return values, error

    def _solve(self, **arguments: Any) -> float:
        """Return the one argument that is None."""
        for name in self._given:
            self._checked(name, arguments[name])
        names = (*self._names, self._quantity)
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
        if unknown[0] == self._quantity:
            return float(self._evaluate(**known))
        low, high = self._bounds
        target = check_scalar(arguments[self._quantity], self._quantity, gt=low, lt=high)
        return self._find(unknown[0], known, target)

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return the value of an argument from which on the target is reached."""
        search = self._search(name, known, target)
        if name == self._size:
            return search.smallest_size(integer=self._integer_size, sawtooth=self._sawtooth)
        low, high = self._range(name, known)
        return search.first(low, high, logarithmic=name in self._logarithmic)

    def _search(self, name: str, known: Columns, target: float) -> Search:
        """Return the quantity as a function of one argument, and what is wanted of it."""

        def values(at: FloatArray) -> FloatArray:
            columns, _ = self._broadcast({**known, name: at})
            return self._values(columns)[0]

        return Search(self._quantity, target, self._rises, name, values)
