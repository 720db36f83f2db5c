"""Widths of the intervals for counts and for linear functions of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, check_array, check_integer, check_option, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import Method
from dpinfer.estimation.weights import checked_weights
from dpinfer.intervals.counts import HALF_WIDTHS
from dpinfer.intervals.linear import linear_confint
from dpinfer.intervals.widths._plan import WidthPlan
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns

_MOST_CELLS = 10**12
"""Largest number of intervals that hold together."""


class _NoiseWidth(WidthPlan):
    """Width of an interval that covers the noise only, so that it depends on nothing else."""

    _own = ()

    def width(self, alpha: ArrayLike = 0.05, budget: ArrayLike | None = None) -> Any:
        """Width of the interval.

        Parameters
        ----------
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).
        budget : float or array of float, optional
            Privacy budget > 0, where ``mechanism`` is a function of it.

        Returns
        -------
        float or array of float
            Upper end less lower end, in the shape to which the arguments broadcast.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.
        """
        return self._evaluate({"alpha": alpha, "budget": budget})

    def solve_width(
        self,
        *,
        alpha: float | None = None,
        width: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        alpha, budget
            As for :meth:`width`, as single numbers.
        width : float
            The width that is wanted, > 0.

        Returns
        -------
        float
            ``width``; or the smallest ``alpha`` or ``budget`` that makes the interval as narrow.

        Raises
        ------
        InvalidParameterError
            If not exactly one argument is None, or if the width cannot be reached.
        """
        return self._solve({"alpha": alpha, "width": width, "budget": budget})


@final
@dataclass(frozen=True)
class CountWidth(_NoiseWidth):
    """Width of the interval for a count, and the budget for a wanted width.

    Parameters
    ----------
    mechanism : NoiseLaw or callable
        The law of the noise in a count, or a function that makes it from a privacy budget, such as
        :meth:`Laplace.from_epsilon`. With a function ``budget`` is one of the arguments.
    method : {"exact", "tail-bound", "normal"}
        How the interval is made; see :func:`dpinfer.count_confint`.
    cells : int, default 1
        Number of counts, with independent noises, that their intervals shall cover together with
        probability 1 - ``alpha``: all cells of a table, for ``simultaneous=True``.

    Notes
    -----
    The width is 2t with t the quantile of the noise, whatever the count is; for one count with
    Laplace noise it is 2b·ln(1/α). Restricting the interval to values that are possible
    (``integer=True``, ``lower=0``) can only make it narrower.

    A budget buys one release of all the counts. Where it is split between several releases, the
    function has to say so: ``lambda budget: Laplace.from_epsilon(budget / 3)``.

    See Also
    --------
    dpinfer.count_confint : the interval.

    Examples
    --------
    Which ε makes the intervals for 50 counts ± 20 wide, all together?

    >>> from dpinfer import Laplace
    >>> plan = CountWidth(Laplace.from_epsilon, cells=50)
    >>> round(plan.solve_width(width=40, alpha=0.05), 4)
    0.3441
    >>> plan.width(budget=[0.1, 0.5, 1.0]).round(2)
    array([137.65,  27.53,  13.77])
    """

    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)
    cells: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.method, "method", HALF_WIDTHS)
        object.__setattr__(self, "cells", check_integer(self.cells, "cells", ge=1, le=_MOST_CELLS))

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        return 2.0 * HALF_WIDTHS[self.method](law, alpha, self.cells), 0.0


@final
@dataclass(frozen=True, eq=False)
class LinearWidth(_NoiseWidth):
    """Width of the interval for a linear function of counts, and the budget for a wanted width.

    Parameters
    ----------
    weights : array of float, shape (m,)
        The weights of the function of m published values: ``[1, -1]`` for a difference, twelve
        ones for the total of twelve months.
    mechanism : NoiseLaw, sequence of NoiseLaw or callable
        The law of the noise: one for all values, or one for each. Or a function that makes it from
        a privacy budget, such as :meth:`Laplace.from_epsilon`. With a function ``budget`` is one
        of the arguments.
    method : {"exact", "tail-bound", "normal"}
        How the interval is made; see :func:`dpinfer.linear_confint`.

    Notes
    -----
    The width is that of the law of Σ cᵢeᵢ, whatever the values are. Under whole-numbered noise
    with weights that are not whole, the interval may be wider by its rounding, 1e-14 of the values.

    See Also
    --------
    dpinfer.linear_confint : the interval.

    Examples
    --------
    The total of twelve noisy months, with an interval of ± 50:

    >>> from dpinfer import Laplace
    >>> import numpy as np
    >>> plan = LinearWidth(np.ones(12), Laplace.from_epsilon)
    >>> round(plan.solve_width(width=100, alpha=0.05), 4)
    0.1938
    >>> plan.width(budget=[0.1, 0.2]).round(2)
    array([193.78,  96.89])
    """

    weights: FloatArray
    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)

    def __post_init__(self) -> None:
        weights = check_array(self.weights, "weights", ndim=1)
        weights = freeze(checked_weights(weights, None, weights.size))
        if not weights.any():
            raise InvalidParameterError("weights must not all be 0: the function is 0 for sure")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "mechanism", check_plan(self.mechanism, self._cells))
        check_option(self.method, "method", HALF_WIDTHS)

    @property
    def _cells(self) -> tuple[int, ...]:
        return self.weights.shape

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        nothing = np.zeros(self._cells)
        interval = linear_confint(nothing, self.weights, law, alpha=alpha, method=self.method)
        return interval.width, 0.0
