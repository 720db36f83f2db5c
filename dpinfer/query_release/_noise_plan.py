"""Noise and number of updates of private multiplicative weights, and the accuracy they ensure.

All errors are in records: for counting queries one record moves an answer by at most 1. With n
records in N cells, every update is to find a query on which hypothesis and data differ by at least
n·γ, and then lowers the Kullback-Leibler divergence of the hypothesis from the data, which starts
at ln N or less, by at least 2γ²: so c updates suffice for γ = √(ln N/(2c)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer._validation import check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP

MOST_UPDATES = 10**8
_LEAST_BUDGET, _LARGEST_BUDGET = 1e-12, 1e15
_LEAST_BETA = 1e-280
_SHARES = np.linspace(0.005, 0.995, 199)


@dataclass(frozen=True)
class NoisePlan:
    """Parameters of one run.

    ``accuracy`` bounds the error of all answers, with the probability that was asked for.
    ``least`` is the smallest error that leads to an update, ``answer_bound`` bounds the noise of
    all noisy answers. ``threshold_scale``, ``query_scale`` and ``answer_scale`` are the scales of
    Laplace noise; offline, ``query_scale`` is 1/ε of the exponential mechanism. ``renewed`` says
    whether the noise of the threshold is drawn again after each update.
    """

    updates: int
    accuracy: float
    least: float
    answer_bound: float
    threshold: float
    threshold_scale: float
    query_scale: float
    answer_scale: float
    renewed: bool


@dataclass(frozen=True)
class Setting:
    """What a plan depends on.

    The budget is ``epsilon``, or where that is 0, ``rho``; ``beta`` is the probability to fail.
    """

    epsilon: float
    rho: float
    records: float
    cells: int
    queries: int
    beta: float

    def least(self, updates: int) -> float:
        """Return n·γ."""
        return self.records * float(np.sqrt(np.log(self.cells) / (2.0 * updates)))


def plan_noise(
    make: Callable[[Setting, int], NoisePlan], setting: Setting, updates: int | None
) -> NoisePlan:
    """Return the plan for a number of updates, or for the number that is most accurate."""
    if updates is not None:
        return make(setting, updates)
    grid = np.unique(np.geomspace(1, MOST_UPDATES, 160).round().astype(int))
    bounds = [make(setting, int(number)).accuracy for number in grid]
    best = int(np.argmin(bounds))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    near = np.unique(np.linspace(low, high, 60).round().astype(int))
    return min((make(setting, int(number)) for number in near), key=lambda plan: plan.accuracy)


def read_setting(
    guarantee: object, records: float, cells: int, queries: int, beta: float
) -> Setting:
    """Return the setting for a guarantee that composes over updates."""
    known = isinstance(guarantee, (PureDP, ZCDP, ApproxDP))
    if not known or not isinstance(guarantee, Guarantee):
        raise InvalidParameterError(
            f"guarantee must be PureDP, ZCDP or ApproxDP, got {show(guarantee)}"
        )
    if guarantee.neighbours != "replace":
        raise InvalidParameterError(
            f"guarantee must have neighbours='replace', got {guarantee}: multiplicative weights "
            "use the number of records, which is then known to everybody"
        )
    epsilon, rho = _budget_of(guarantee)
    if not _LEAST_BUDGET <= max(epsilon, rho) <= _LARGEST_BUDGET:
        raise InvalidParameterError(
            f"guarantee must leave a budget between {_LEAST_BUDGET:g} and {_LARGEST_BUDGET:g}, got "
            f"{guarantee}"
        )
    return Setting(epsilon, rho, records, cells, queries, beta)


def _budget_of(guarantee: Guarantee) -> tuple[float, float]:
    """Return ε of a pure budget, or ρ of a concentrated or approximate one; the other is 0."""
    if isinstance(guarantee, PureDP):
        return guarantee.epsilon, 0.0
    if isinstance(guarantee, ZCDP):
        return 0.0, guarantee.rho
    assert isinstance(guarantee, ApproxDP)
    if guarantee.delta == 0:
        return guarantee.epsilon, 0.0
    return 0.0, _rho_of(guarantee)


def offline_plan(setting: Setting, updates: int) -> NoisePlan:
    """Return the plan of rounds that choose the worst query and measure it.

    A round chooses a query at most w below the worst, and stops where its noisy error is within
    n·γ plus the bound on the noise; every error is then at most n·γ + 2·(bound on noise) + w.
    """
    answer = _quantile(0.5 * setting.beta, updates)
    choice = 2.0 * float(np.log(2.0 * setting.queries * updates / setting.beta))
    if setting.epsilon:
        each = setting.epsilon / updates
        measured = each * np.sqrt(2.0 * answer) / (np.sqrt(2.0 * answer) + np.sqrt(choice))
        chosen = each - measured
    else:
        # the choice is ε²/8-zCDP (Cesar and Rogers 2021), Laplace noise ε²/2-zCDP
        measured, chosen = (2.0 * answer) ** (1 / 3), (4.0 * choice) ** (1 / 3)
        size = np.sqrt(setting.rho / updates / (chosen**2 / 8.0 + measured**2 / 2.0))
        measured, chosen = size * measured, size * chosen
    least, bound = setting.least(updates), answer / measured
    return NoisePlan(
        updates=updates,
        accuracy=float(least + 2.0 * bound + choice / chosen),
        least=least,
        answer_bound=float(bound),
        threshold=float(least + bound),
        threshold_scale=0.0,
        query_scale=float(1.0 / chosen),
        answer_scale=float(1.0 / measured),
        renewed=False,
    )


def online_plan(setting: Setting, updates: int) -> NoisePlan:
    """Return the plan of the sparse vector technique with numeric answers.

    A query is answered from the hypothesis while abs(error) + noise stays below the threshold plus
    its own noise. Pure budgets keep the noise of the threshold (Lyu, Su and Li 2017, Algorithm 7);
    others run it once for each update, and add up in zCDP.
    """
    pure = setting.epsilon > 0
    third = setting.beta / 3.0
    answer = _quantile(third, updates)
    query = _quantile(third, setting.queries)
    threshold = _quantile(third, 1 if pure else updates)
    repeats = updates if pure else 1
    if pure:
        total = setting.epsilon
        measured, compared = total * _SHARES / updates, total * (1.0 - _SHARES)
    else:
        each = np.sqrt(2.0 * setting.rho / updates)
        measured, compared = each * np.sqrt(_SHARES), each * np.sqrt(1.0 - _SHARES)
    bound = answer / measured
    least = np.maximum(setting.least(updates), bound)
    # a/x + b/(e - x) is smallest for x in proportion to √a
    roots = np.sqrt(threshold), np.sqrt(2.0 * repeats * query)
    slack = sum(roots) ** 2 / compared
    best = int(np.argmin(least + 2.0 * slack))
    first = float(compared[best]) * roots[0] / sum(roots)
    second = float(compared[best]) - first
    return NoisePlan(
        updates=updates,
        accuracy=float(least[best] + 2.0 * slack[best]),
        least=float(least[best]),
        answer_bound=float(bound[best]),
        threshold=float(least[best] + slack[best]),
        threshold_scale=float(1.0 / first),
        query_scale=float(2.0 * repeats / second),
        answer_scale=1.0 / float(measured[best]),
        renewed=not pure,
    )


def check_failure(beta: object) -> float:
    """Return ``beta``, the probability to fail, which may still be divided among many draws."""
    return check_scalar(check_scalar(beta, "beta", gt=0, lt=1), "beta", ge=_LEAST_BETA)


def _quantile(beta: float, draws: int) -> float:
    """Bound on so many draws of Laplace noise of scale 1 together, with probability 1 - beta."""
    return float(-np.log(sidak(beta, draws)))


def _rho_of(budget: ApproxDP) -> float:
    """Return the largest ρ that implies (ε, δ), to nine digits; 0 where it is below 1e-12."""
    from scipy.optimize import brentq

    def excess(log_rho: float) -> float:
        return float(ZCDP(float(np.exp(log_rho))).epsilon_at(budget.delta)) - budget.epsilon

    low, high = np.log(_LEAST_BUDGET), np.log(_LARGEST_BUDGET)
    if excess(high) <= 0:
        return _LARGEST_BUDGET
    if excess(low) > 0:
        return 0.0
    return float(np.exp(brentq(excess, low, high, xtol=1e-10))) * (1.0 - 1e-9)
