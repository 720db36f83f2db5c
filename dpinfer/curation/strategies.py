"""What to measure so that the queries that are wanted come out best: strategies compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer._check import Locked, check_items, check_option, show
from dpinfer.curation.release_plans import ReleasePlan, optimal_shares, plan_release
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.queries.workload import Workload
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


Objective = Literal["mean", "largest"]
_OBJECTIVES: tuple[Objective, ...] = ("mean", "largest")
_COLUMNS = {"mean": "mean_variance", "largest": "largest_variance"}

_MOST_CELLS = 256
"""Cells up to which the strategies that are known are compared unasked: it takes seconds."""

_MOST_TARGETS = 2000
"""Targets up to which they are themselves a strategy, unasked."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StrategyComparison(Locked, Listed, Plotted):
    """Variances of queries from several strategies; made by ``compare_strategies``.

    Attributes
    ----------
    best : str
        The name of the strategy that is best by the objective.
    workload : Workload
        What it measures, m queries.
    mechanism : NoiseLaw
        Their noise, of shape (m,).
    plans : mapping of str to ReleasePlan
        The plan of each strategy: its noise and the variance of each target.
    measured : mapping of str to tuple of Workload
        What each measures, in groups of one noise each.
    targets : int
        Number of queries that are wanted.
    objective : {"mean", "largest"}
        What is best: the smallest mean or the smallest largest variance.
    budget : Guarantee
        The guarantee of each strategy.
    """

    best: str
    plans: Mapping[str, ReleasePlan]
    measured: Mapping[str, tuple[Workload, ...]]
    targets: int
    objective: Objective
    budget: Guarantee

    _drawing: ClassVar[str] = "plot_spending"

    @property
    def _used(self) -> list[tuple[Workload, NoiseLaw]]:
        plan = self.plans[self.best]
        groups = zip(self.measured[self.best], plan.mechanism, strict=True)
        return [(group, law) for group, law in groups if law is not None]

    @property
    def workload(self) -> Workload:
        """What the best strategy measures."""
        parts = [group for group, _ in self._used]
        return parts[0] if len(parts) == 1 else Workload.vstack(parts)

    @property
    def mechanism(self) -> NoiseLaw:
        """The noise of what the best strategy measures, of shape (m,)."""
        ends = np.cumsum([0, *(len(group) for group, _ in self._used)])
        laws = [(law, np.arange(ends[at], ends[at + 1])) for at, (_, law) in enumerate(self._used)]
        return IndependentNoise.from_groups(laws, int(ends[-1]))

    def summary_frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each strategy, the best first.

        Columns are ``queries``, those that it measures, ``mean_variance`` and
        ``largest_variance``, of the targets, and ``ratio``: the objective over that of the best.
        """
        import pandas as pd

        rows = {}
        for name, plan in self.plans.items():
            used = zip(self.measured[name], plan.mechanism, strict=True)
            variance = np.asarray(plan.variance)
            rows[name] = {
                "queries": sum(len(group) for group, law in used if law is not None),
                "mean_variance": variance.mean(),
                "largest_variance": variance.max(),
            }
        frame = pd.DataFrame.from_dict(rows, orient="index")
        column = _COLUMNS[self.objective]
        frame = frame.sort_values(column, kind="stable")
        frame["ratio"] = frame[column] / frame[column].iloc[0]
        return frame

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.plans), self.summary_frame().index

    def _table(self) -> Table:
        frame = self.summary_frame()
        return Table(
            "Strategies compared",
            [
                ("Budget", self.budget),
                ("Targets", self.targets),
                ("Best by", f"{self.objective} variance"),
            ],
            frame,
            index=frame.index,
            notes=("of the strategies in the table: others may be better",),
        )

    def __repr__(self) -> str:
        return f"StrategyComparison({len(self.plans)} strategies, best: {self.best!r})"


def compare_strategies(
    target: Any,
    *,
    budget: Guarantee,
    strategies: Mapping[str, Any] | None = None,
    objective: Objective = "mean",
    mechanism: type[NoiseLaw] | None = None,
) -> StrategyComparison:
    """Compare what could be measured to answer queries: the cells, trees, wavelets, others.

    Parameters
    ----------
    target : Workload or matrix, shape (k, n)
        The queries that are wanted.
    budget : PureDP, ZCDP or GDP
        What may be spent, with its neighbour relation.
    strategies : mapping of str to Workload, matrix, or list of these, optional
        What could be measured. A list is of groups, which get the shares of the budget that are
        best for the sum of the variances (:func:`optimal_shares`). By default, for at most 256
        cells in order: the cells, the targets themselves if there are at most 2,000, the binary
        tree with and without root, the tree with the best shares for its levels, running totals,
        the square root of their matrix, and the Haar wavelet where n is a power of two.
    objective : {"mean", "largest"}, default "mean"
        What is to be smallest: the mean or the largest variance of the targets.
    mechanism : type, optional
        The class of the noise, as for :func:`plan_release`.

    Returns
    -------
    StrategyComparison
        The strategies with their variances, and what the best measures with which noise: to be
        published as ``Release.draw(counts, workload=found.workload, mechanism=found.mechanism)``
        and answered by ``combine(release, target=target)``.

    Raises
    ------
    NotEstimableError
        If a strategy that was given does not determine a target.
    InvalidParameterError
        If an argument is outside what is allowed, or there are more than 256 cells and no
        strategies.

    Notes
    -----
    Each is answered by least squares (the matrix mechanism of Li et al. 2015): with the strategy S
    and noise of variance v that its sensitivity asks for, the targets T have the variances
    v·diag(T (SᵀS)⁻¹Tᵀ), which depend on no data. No strategy is best for all: under Laplace noise
    the cells beat the tree without root for the prefixes of 64 cells, by 65 to 77.8 in the mean,
    and lose at 128, by 129 to 113.4; for ranges they still win at 256. With the best shares for its
    levels, most of which then get nothing, the tree wins at 64 already, by 34.4. Under Gaussian
    noise, whose L2 sensitivity grows with the root of the levels only, trees win from a few cells
    on. How far the best in the table is from the best of all strategies is not said: for 8 prefixes
    under Gaussian noise it has 2.51, where a search over all has found 2.23.

    References
    ----------
    Li, C., Miklau, G., Hay, M., McGregor, A. and Rastogi, V. (2015). The matrix mechanism:
    optimizing linear counting queries under differential privacy. The VLDB Journal 24, 757-781.
    doi:10.1007/s00778-015-0398-x.

    Examples
    --------
    >>> from dpinfer import Workload
    >>> from dpinfer.privacy import GDP
    >>> found = compare_strategies(Workload.ranges(8), budget=GDP(1.0))
    >>> found.best
    'tree, best levels'
    >>> found.summary_frame()["mean_variance"].round(3).head(4).to_dict()
    {'tree, best levels': 2.45, 'wavelet': 2.597, 'tree without root': 2.873, 'square root': 2.958}
    """
    wanted = target if isinstance(target, Workload) else Workload(target)
    chosen = check_option(objective, "objective", _OBJECTIVES)
    if strategies is None:
        measured, given = _known(wanted), False
    else:
        if not isinstance(strategies, Mapping) or not strategies:
            raise InvalidParameterError(
                "strategies must be a mapping of names to workloads, at least one, got "
                f"{show(strategies)}"
            )
        measured = {str(name): _groups(one, str(name)) for name, one in strategies.items()}
        given = True
    plans: dict[str, ReleasePlan] = {}
    for name, groups in measured.items():
        plan = plan_release if len(groups) == 1 else optimal_shares
        try:
            plans[name] = plan(list(groups), budget=budget, target=wanted, mechanism=mechanism)
        except NotEstimableError:
            if given:
                raise
    variances = {name: np.asarray(plan.variance) for name, plan in plans.items()}
    over = {
        name: float(one.mean() if chosen == "mean" else one.max())
        for name, one in variances.items()
    }
    best = min(over, key=lambda name: over[name])
    return StrategyComparison(
        best=best,
        plans=plans,
        measured={name: measured[name] for name in plans},
        targets=len(wanted),
        objective=chosen,
        budget=budget,
    )


def _known(target: Workload) -> dict[str, tuple[Workload, ...]]:
    """Return the strategies that are known for so many cells in order."""
    size = target.shape[1]
    if size > _MOST_CELLS:
        raise InvalidParameterError(
            f"strategies must be given for more than {_MOST_CELLS} cells, got {size}: such as "
            "{'cells': Workload.identity(n), 'tree': Workload.tree(n)}"
        )
    tree = Workload.tree(size)
    found: dict[str, tuple[Workload, ...]] = {
        "cells": (Workload.identity(size),),
        "tree": (tree,),
        "tree without root": (Workload.tree(size, root=False),),
    }
    if len(target) <= _MOST_TARGETS:
        found["targets"] = (Workload(target.matrix),)
    if size > 1:
        level = _levels(tree)
        parts = (tree.take(level == number) for number in range(int(level.max()) + 1))
        found["tree, best levels"] = tuple(parts)
    found["prefixes"] = (Workload.prefixes(size),)
    found["square root"] = (Workload.square_root(size),)
    if not size & (size - 1):
        found["wavelet"] = (Workload.haar(size),)
    return found


def _levels(tree: Workload) -> Any:
    """Return how many other nodes each node of a tree is in, and for cells the most of them."""
    inside = tree.matrix @ tree.matrix.T
    width = inside.diagonal()
    shared = inside.tocoo()
    within = (shared.data == width[shared.row]) & (width[shared.col] > width[shared.row])
    level = np.bincount(shared.row[within], minlength=len(tree))
    return np.where(width == 1, level.max(), level)


def _groups(given: Any, name: str) -> tuple[Workload, ...]:
    several = isinstance(given, (list, tuple)) and all(
        isinstance(one, Workload) or np.ndim(one) == 2 for one in given
    )
    if not several:
        return (given if isinstance(given, Workload) else Workload(given),)
    groups = check_items(given, f"strategy {show(name)}", "workloads")
    if not groups:
        raise InvalidParameterError(
            f"strategies must measure something, got nothing for {show(name)}"
        )
    return tuple(one if isinstance(one, Workload) else Workload(one) for one in groups)
