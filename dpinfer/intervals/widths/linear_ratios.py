"""Width of the confidence sets for ratios of linear functions of one release."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_flag, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals.ratios import Method, linear_ratio_confint
from dpinfer.intervals.widths._plan import WidthBySetting
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns
from dpinfer.results.labels import split_labels

_SIZES = (1e-9, 1e12)
"""Range of the factors of the values."""


@final
@dataclass(frozen=True, eq=False)
class LinearRatioWidth(WidthBySetting):
    """Width of the set for a ratio of linear functions of one release; the budget for one wanted.

    Parameters
    ----------
    values : array of float, shape (m,), or Series
        The confidential values that are planned for: a table of an earlier year, or shares that
        are expected.
    numerator, denominator : array of float, shape (m,) or (k, m), Series, DataFrame or mapping
        The weights of the functions, or of k of each, as for
        :func:`dpinfer.linear_ratio_confint`.
    %(mechanism_of_values)s
    method : {"exact", "normal"}
        How the set is made; see :func:`dpinfer.linear_ratio_confint`.
    simultaneous : bool, default False
        Whether all ratios shall be covered together with probability 1 - ``alpha``.

    See Also
    --------
    dpinfer.linear_ratio_confint : the set.
    RatioWidth : two values with noise of their own, much faster.

    Notes
    -----
    The width depends on the published values. It is not finite with some probability, however
    small, so that it has no expectation. What is planned is the width where the published values
    are the confidential ones; it is infinite where that set is the complement of an interval, or
    every number. Of several ratios it is the width of the widest set.

    The argument ``size`` multiplies the values: where they are the shares of the cells in a table,
    it is the total of the table. Under noise that takes whole numbers only, the products are
    rounded to whole numbers. The width is then a saw-tooth in the size, and the set of such noise
    makes it one in the budget, too: the argument that is solved for reaches the width, and one that
    is smaller by little does not.

    A width takes as long as the sets themselves, up to a few seconds for each exact set under
    whole-numbered noise, and an argument that is solved for about ten times as long.

    The share of one part in the sum of two has the functions ``[1, 0]`` and ``[1, 1]``.

    Examples
    --------
    Which ε tells the share of the first cell among three to ± 0.05, and how large must the table
    be at ε = 0.1?

    >>> from dpinfer import Laplace
    >>> plan = LinearRatioWidth([60, 90, 30], [1, 0, 0], [1, 1, 1], Laplace.from_epsilon)
    >>> round(plan.solve_width(width=0.1, alpha=0.05), 4)
    0.2639
    >>> round(180 * plan.solve_width(width=0.1, alpha=0.05, budget=0.1, size=None), 1)
    475.0
    >>> plan.width(budget=[0.01, 0.1, 1.0]).round(4)
    array([   inf, 0.2749, 0.0262])
    """

    values: FloatArray
    numerator: FloatArray
    denominator: FloatArray
    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)
    simultaneous: bool = field(default=False, kw_only=True)

    _own = ("size",)
    _logarithmic = frozenset({"alpha", "budget", "size"})

    def __post_init__(self) -> None:
        values, labels = split_labels(self.values, "values")
        if values.ndim != 1:
            raise InvalidParameterError(f"values must be one-dimensional, got shape {values.shape}")
        self._set(
            values=freeze(values),
            mechanism=check_plan(self.mechanism, values.shape),
            simultaneous=check_flag(self.simultaneous, "simultaneous"),
        )
        for name in ("numerator", "denominator"):
            weights = checked_weights(getattr(self, name), labels, len(values), name)
            self._set(**{name: freeze(weights)})
        # the interval checks what the plan has in common with it
        self._width_at(Exact(), 0.05, 1.0)

    def width(
        self,
        alpha: ArrayLike = 0.05,
        budget: ArrayLike | None = None,
        size: ArrayLike = 1.0,
    ) -> Any:
        """Return the width where the published values are the confidential ones.

        Parameters
        ----------
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0 of the release, where ``mechanism`` is a function of it.
        size : float or array of float, default 1
            Factor of the values, in [1e-9, 1e12].

        Returns
        -------
        float or array of float
            Upper end less lower end of the widest set, in the shape to which the arguments
            broadcast; infinite where a set is not bounded.

        %(raises)s
        """
        return self._evaluate(size=size, alpha=alpha, budget=budget)

    def solve_width(
        self,
        *,
        alpha: float | None = None,
        width: float | None = None,
        budget: float | None = None,
        size: float | None = 1.0,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``alpha``, ``budget`` or ``size`` that makes the sets as
            narrow.

        %(raises_unsolved)s
        """
        return self._solve(size=size, alpha=alpha, width=width, budget=budget)

    @property
    def _cells(self) -> tuple[int, ...]:
        return self.values.shape

    def _axes(self, arguments: Any) -> dict[str, FloatArray]:
        return super()._axes({"size": 1.0, **arguments})

    def _check(self, name: str, value: Any) -> FloatArray:
        low, high = _SIZES
        return check_array(value, name, ge=low, le=high)

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        return _SIZES if name == "size" else super()._range(name, columns)

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        """Return the width of the widest set."""
        (size,) = own
        with np.errstate(over="ignore"):
            values = size * self.values
        sets = linear_ratio_confint(
            np.where(integer_cells(law, values.size), np.rint(values), values),
            self.numerator,
            self.denominator,
            mechanism=law,
            alpha=alpha,
            method=self.method,
            simultaneous=self.simultaneous,
        )
        return float(np.max(sets.width)), 0.0

    def _find(self, name: str, known: Columns, target: float) -> float:
        """Return an argument that reaches a width, for exact sets near that for normal ones."""
        found = None
        if self.method == "exact":
            found = self._find_near(replace(self, method="normal"), name, known, target)
        if found is None:
            search, ends = self._search(name, known, target), self._range(name, known)
            found = search.first(*ends, logarithmic=True)
        return found
