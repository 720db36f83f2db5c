"""Width of the interval for a value that was published because it reached a threshold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.selected import thresholded_confint
from dpinfer.intervals.widths._plan import WidthPlan
from dpinfer.mechanisms import Laplace
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import Search
from dpinfer.results.intervals import Intervals

_LARGEST = 1e15
"""Largest threshold and count in size: beyond it, whole numbers are not told apart."""

_BUDGETS_TRIED = 91
"""Budgets at which the width is tried, five for each power of ten."""


@final
@dataclass(frozen=True)
class ThresholdedWidth(WidthPlan):
    """Width of the interval for a thresholded value, and the budget for a wanted width.

    Parameters
    ----------
    %(mechanism)s
    threshold : float
        Noisy values were published if they were at least this.
    method : {"conditional", "naive"}
        How the interval is made; see :func:`dpinfer.thresholded_confint`.
    lower : float or None, default 0
        Bound that the confidential values respect, if any.

    See Also
    --------
    dpinfer.thresholded_confint : the interval.
    CountWidth : the plan for values that are published without a threshold.

    Notes
    -----
    The width depends on the published value. What is planned is the width where the published
    value is the confidential one. It is infinite where the interval has no lower end, and 0 where
    the interval is empty, as it is for values that lie above the threshold by much less than the
    noise.

    Where the noise is wide the width is not monotone in the budget. The budget that is solved for
    is the one from which on, up to 1e9, all budgets make the interval as narrow; five budgets for
    each power of ten are tried. An empty interval is not an answer.

    Examples
    --------
    Which ε tells a count of 140 to ± 10 where values from 100 on are published, and how wide are
    the intervals at ε = 0.1?

    >>> from dpinfer import Laplace
    >>> plan = ThresholdedWidth(Laplace.from_epsilon, 100)
    >>> round(plan.solve_width(count=140, alpha=0.05, width=20), 4)
    0.2996
    >>> plan.width([107, 140, 190], budget=0.1).round(1)
    array([130.3,  62.5,  59.9])
    """

    mechanism: NoisePlan
    threshold: float
    method: Literal["conditional", "naive"] = field(default="conditional", kw_only=True)
    lower: float | None = field(default=0.0, kw_only=True)

    _own = ("count",)
    _given = ("count",)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        threshold = check_scalar(self.threshold, "threshold", ge=-_LARGEST, le=_LARGEST)
        self._set(threshold=threshold)
        if self.lower is not None:
            lower = check_scalar(self.lower, "lower", ge=-_LARGEST, le=_LARGEST)
            self._set(lower=lower)
        # the interval checks what the plan has in common with it
        self._intervals(Laplace(scale=1.0), 0.05, np.array([threshold]))

    def width(
        self, count: ArrayLike, alpha: ArrayLike = 0.05, budget: ArrayLike | None = None
    ) -> Any:
        """Return the width where the published value is the confidential one.

        Parameters
        ----------
        count : float or array of float
            The confidential value, at least the threshold.
        %(alpha_and_budget)s

        Returns
        -------
        float or array of float
            Upper end less lower end, in the shape to which the arguments broadcast; 0 where the
            interval is empty.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.
        IncompatibleReleaseError
            If ``count`` is a fraction and the noise takes whole numbers only.
        """
        return self._evaluate(count=count, alpha=alpha, budget=budget)

    def solve_width(
        self,
        *,
        count: float,
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
            ``width``; or the smallest ``alpha``, or the ``budget``, that makes the interval as
            narrow; see the notes.

        %(raises_unsolved)s
        IncompatibleReleaseError
            If ``count`` is a fraction and the noise takes whole numbers only.
        """
        return self._solve(count=count, alpha=alpha, width=width, budget=budget)

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, ge=self.threshold, le=_LARGEST)

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        return np.asarray(self._intervals(law, alpha, columns["count"]).width), 0.0

    def _intervals(self, law: NoiseLaw, alpha: float, count: FloatArray) -> Intervals:
        return thresholded_confint(
            count,
            mechanism=law,
            threshold=self.threshold,
            alpha=alpha,
            method=self.method,
            lower=self.lower,
        )

    def _find(self, name: str, known: Columns, target: float) -> float:
        if name == "budget":
            return self._last_step(self._search(name, known, target))
        found = super()._find(name, known, target)
        if self._intervals_at({**known, name: np.asarray(found)}).empty:
            raise InvalidParameterError(
                f"width must be one that can be reached: at {name} = {found:.6g} the interval "
                f"becomes empty before it is as narrow, got {target}"
            )
        return found

    def _last_step(self, search: Search) -> float:
        """Return the budget from which on the target is reached, looking from the large ones."""
        budgets = np.geomspace(*BUDGETS, _BUDGETS_TRIED).tolist()
        for low, high in reversed(list(pairwise(budgets))):
            if search.lack(np.array([low]))[0] > 0.0:
                return search.first(low, high, logarithmic=True)
        return search.first(*BUDGETS, logarithmic=True)

    def _search(self, name: str, known: Columns, target: float) -> Search:
        search = super()._search(name, known, target)
        return replace(search, values=partial(self._told, known)) if name == "budget" else search

    def _told(self, known: Columns, budgets: FloatArray) -> FloatArray:
        """Return widths in which an empty interval, which tells nothing, is the widest."""
        found = [self._intervals_at({**known, "budget": budget}) for budget in budgets]
        return np.array([np.inf if each.empty else float(each.width) for each in found])

    def _intervals_at(self, known: Columns) -> Intervals:
        """Return the interval for one count, level and budget."""
        law = self._law_at(known)
        return self._intervals(law, float(known["alpha"]), known["count"])
