"""Widths of the intervals for counts and for linear functions of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_flag,
    check_integer,
    check_option,
    check_reps,
    check_rng,
    freeze,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import Method
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals.counts import HALF_WIDTHS, linear_confint
from dpinfer.intervals.widths._plan import WidthPlan
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import Columns

MOST_CELLS = 10**12
"""Largest number of intervals that hold together."""


class NoiseWidth(WidthPlan):
    """Width of an interval that covers the noise only, so that it depends on nothing else."""

    _own = ()

    def width(self, alpha: ArrayLike = 0.05, budget: ArrayLike | None = None) -> Any:
        """Width of the interval.

        Parameters
        ----------
        %(alpha_and_budget)s

        Returns
        -------
        float or array of float
            Upper end less lower end, in the shape to which the arguments broadcast.

        %(raises)s
        """
        return self._evaluate(alpha=alpha, budget=budget)

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
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``alpha`` or ``budget`` that makes the interval as narrow.

        %(raises_unsolved)s
        """
        return self._solve(alpha=alpha, width=width, budget=budget)


@final
@dataclass(frozen=True)
class CountWidth(NoiseWidth):
    """Width of the interval for a count, and the budget for a wanted width.

    Parameters
    ----------
    %(mechanism)s
    method : {"exact", "tail-bound", "normal"}
        How the interval is made; see :func:`dpinfer.count_confint`.
    cells : int, default 1
        Number of counts, with independent noises, that their intervals shall cover together with
        probability 1 - ``alpha``: all cells of a table, for ``simultaneous=True``.

    See Also
    --------
    dpinfer.count_confint : the interval.

    Notes
    -----
    The width is 2t with t the quantile of the noise, whatever the count is; for one count with
    Laplace noise it is 2b·ln(1/α). Restricting the interval to values that are possible
    (``integer=True``, ``lower=0``) can only make it narrower. The intervals for values that were
    clamped (:func:`dpinfer.clamped_confint`) have this width where the value is within its bounds;
    at a bound they have one end only.

    A budget buys one release of all the counts. Where it is split between several releases, the
    function has to say so: ``lambda budget: Laplace.from_epsilon(budget / 3)``.

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
        self._set(cells=check_integer(self.cells, "cells", ge=1, le=MOST_CELLS))

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        return 2.0 * HALF_WIDTHS[self.method](law, alpha, self.cells), 0.0


@final
@dataclass(frozen=True, eq=False)
class LinearWidth(NoiseWidth):
    """Width of the interval for a linear function of counts, and the budget for a wanted width.

    Parameters
    ----------
    weights : array of float, shape (m,) or (k, m)
        The weights of the function of m published values: ``[1, -1]`` for a difference, twelve
        ones for the total of twelve months. Or those of k functions, one a row.
    %(mechanism_of_values)s
    method : {"exact", "tail-bound", "normal"}
        How the interval is made; see :func:`dpinfer.linear_confint`.
    simultaneous : bool, default False
        Whether all functions shall be covered together with probability 1 - ``alpha``.
    reps : int, default 10_000
        Number of simulated errors for simultaneous exact intervals of dependent functions.
    rng : None, int or numpy.random.Generator, default 0
        What the seed is drawn from, once: the widths of one plan are of the same draws.

    See Also
    --------
    dpinfer.linear_confint : the interval.

    Notes
    -----
    The width is that of the law of Σ cᵢeᵢ, whatever the values are; of several functions it is the
    width of the widest interval. The intervals of :func:`dpinfer.combine` are planned by the
    ``weights`` of such an estimate from made-up values: these stay the same as long as the budget
    changes all noise by one factor. Under whole-numbered noise with weights that are not whole, the
    interval may be wider by its rounding, 1e-14 of the values.

    Where the interval needs a simulation, its width varies from one simulation to another.
    :meth:`width_frame` has an estimate of how much: the width at a level that is higher by
    ``mc_error``, the standard deviation of the coverage, differs by so much. The intervals that are
    made in the end, with draws of their own, differ from the planned ones by as much.

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

    All three differences of three counts together, ± 20:

    >>> pairs = [[1, -1, 0], [1, 0, -1], [0, 1, -1]]
    >>> plan = LinearWidth(pairs, Laplace.from_epsilon, simultaneous=True)
    >>> round(plan.solve_width(width=40, alpha=0.05), 4)
    0.2557
    """

    weights: FloatArray
    mechanism: NoisePlan
    method: Method = field(default="exact", kw_only=True)
    simultaneous: bool = field(default=False, kw_only=True)
    reps: int = field(default=10_000, kw_only=True)
    rng: RNG = field(default=0, kw_only=True)
    _seed: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights = check_array(self.weights, "weights")
        weights = freeze(checked_weights(weights, None, weights.shape[-1] if weights.ndim else 1))
        if not weights.any():
            raise InvalidParameterError("weights must not all be 0: the function is 0 for sure")
        check_option(self.method, "method", HALF_WIDTHS)
        self._set(
            weights=weights,
            mechanism=check_plan(self.mechanism, weights.shape[-1:]),
            simultaneous=check_flag(self.simultaneous, "simultaneous"),
            reps=check_reps(self.reps),
            _seed=tuple(check_rng(self.rng).integers(0, 1 << 32, size=8).tolist()),
        )

    @property
    def _cells(self) -> tuple[int, ...]:
        return self.weights.shape[-1:]

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        width, mc_error = self._widest(law, alpha)
        if mc_error == 0.0:
            return np.asarray(width), 0.0
        above, _ = self._widest(law, min(alpha + mc_error, 0.5 * (1.0 + alpha)))
        return np.asarray(width), width - above

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        low, high = super()._range(name, columns)
        if name == "alpha":
            law = self._law_at(columns)
            if self._widest(law, 0.5)[1] > 0.0:
                # a quantile beyond the largest of the replicates is not to be had
                low = max(low, (1.0 + 1e-9) / (self.reps + 1.0))
        return low, high

    def _widest(self, law: NoiseLaw, alpha: float) -> tuple[float, float]:
        """Return the width of the widest interval, and what its coverage varies by."""
        intervals = linear_confint(
            np.zeros(self._cells),
            self.weights,
            law,
            alpha=alpha,
            method=self.method,
            simultaneous=self.simultaneous,
            reps=self.reps,
            # the same draws each time, so that widths are comparable
            rng=np.random.default_rng(self._seed),
        )
        return float(np.max(intervals.width)), intervals.mc_error
