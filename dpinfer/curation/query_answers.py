"""Answers to many queries from one budget, by private multiplicative weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import (
    RNG,
    FloatArray,
    Locked,
    check_array,
    check_integer,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer.curation._measures import enter
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.mechanisms.laws import Laplace, analytic_sigma
from dpinfer.mechanisms.samplers import NoiseSource, Sampler, Simulation, noise_source
from dpinfer.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from dpinfer.privacy.ledger import BudgetLedger
from dpinfer.privacy.of_mechanisms import Drawn
from dpinfer.queries.workload import Workload
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels, split_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


MOST_UPDATES = 10**8
_LEAST_BUDGET, _LARGEST_BUDGET = 1e-12, 1e15
_LEAST_BETA = 1e-280
_SHARES = np.linspace(0.005, 0.995, 199)


@dataclass(frozen=True)
class NoiseSchedule:
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
    """What a schedule depends on.

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


def schedule_noise(
    make: Callable[[Setting, int], NoiseSchedule], setting: Setting, updates: int | None
) -> NoiseSchedule:
    """Return the schedule for a number of updates, or for the number that is most accurate."""
    if updates is not None:
        return make(setting, updates)
    grid = np.unique(np.geomspace(1, MOST_UPDATES, 160).round().astype(int))
    bounds = [make(setting, int(number)).accuracy for number in grid]
    best = int(np.argmin(bounds))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    near = np.unique(np.linspace(low, high, 60).round().astype(int))
    return min((make(setting, int(number)) for number in near), key=lambda one: one.accuracy)


def read_setting(
    guarantee: object, records: float, cells: int, queries: int, beta: float
) -> Setting:
    """Return the setting for a guarantee that composes over updates."""
    if not isinstance(guarantee, (PureDP, ZCDP, ApproxDP)):
        raise InvalidParameterError(
            f"guarantee must be PureDP, ZCDP or ApproxDP, got {show(guarantee)}"
        )
    if guarantee.neighbours != "replace":
        raise InvalidParameterError(
            f"guarantee must have neighbours='replace', got {guarantee}: multiplicative weights "
            "use the number of records, which is then known to everybody"
        )
    # ε of a pure budget, or ρ of a concentrated or approximate one
    epsilon, rho = 0.0, 0.0
    if isinstance(guarantee, ZCDP):
        rho = guarantee.rho
    elif isinstance(guarantee, PureDP) or guarantee.delta == 0:
        epsilon = guarantee.epsilon
    else:
        rho = _rho_of(guarantee)
    if not _LEAST_BUDGET <= max(epsilon, rho) <= _LARGEST_BUDGET:
        raise InvalidParameterError(
            f"guarantee must leave a budget between {_LEAST_BUDGET:g} and {_LARGEST_BUDGET:g}, got "
            f"{guarantee}"
        )
    return Setting(epsilon, rho, records, cells, queries, beta)


def offline_schedule(setting: Setting, updates: int) -> NoiseSchedule:
    """Return the schedule of rounds that choose the worst query and measure it.

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
    return NoiseSchedule(
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


def online_schedule(setting: Setting, updates: int) -> NoiseSchedule:
    """Return the schedule of the sparse vector technique with numeric answers.

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
    return NoiseSchedule(
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


@cache
def _rho_of(budget: ApproxDP) -> float:
    """Return the largest ρ that implies (ε, δ), to nine digits; 0 where it is below 1e-12."""
    from scipy.optimize import brentq

    def excess(log_rho: float) -> float:
        return float(ZCDP(float(np.exp(log_rho))).epsilon_at(budget.delta)) - budget.epsilon

    log_inverse = -np.log(budget.delta)
    # ε = ρ + 2·√(ρ·ln(1/δ)) implies less, and the Gaussian of the same ρ has no larger ε
    simple = budget.epsilon / (np.sqrt(log_inverse + budget.epsilon) + np.sqrt(log_inverse))
    sigma = float(analytic_sigma(np.array(budget.epsilon), np.array(budget.delta)))
    low = np.log(max(simple**2 * (1.0 - 1e-9), _LEAST_BUDGET))
    most = min(max(0.5 / sigma**2 * (1.0 + 1e-9), _LEAST_BUDGET), _LARGEST_BUDGET)
    high = np.log(most)
    if excess(high) <= 0:
        return most
    if excess(low) > 0:
        return 0.0
    return float(np.exp(brentq(excess, low, high, xtol=1e-10))) * (1.0 - 1e-9)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MultiplicativeWeightsRelease(Drawn, Locked, Listed, Plotted):
    """Answers to queries from one budget; made by ``multiplicative_weights``.

    Everything in it is public, unless it is ``simulated``: then it carries no ``guarantee``.

    Attributes
    ----------
    answers : array of float, shape (k,), or Series
        The answers, in records.
    measured : array of bool, shape (k,)
        Which of them are noisy answers of the data, rather than answers of the hypothesis.
    histogram : array of float, shape (n,), or Series
        The hypothesis in the end: a table with the number of records, from which any further query
        can be answered. The bound on the accuracy is for the k queries only.
    sampler : {"simulated", "opendp"}
        What drew the noise.
    nominal : Guarantee
        What was to be spent, whether or not all updates were used: the ``guarantee`` if the noise
        was drawn by OpenDP.
    updates, max_updates : int
        How often the hypothesis was corrected, and how often it could have been.
    accuracy : float
        Bound on the errors of all k answers together, in records.
    beta : float
        The probability that one of them exceeds it, at most.
    form : {"offline", "online"}
        How they were found.
    """

    answers: Any
    measured: Any
    histogram: Any
    sampler: Sampler
    nominal: Guarantee
    updates: int
    max_updates: int
    accuracy: float
    beta: float
    form: str
    labels: pd.Index | None

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.answers), self.labels

    def conf_int(self) -> Intervals:
        """Return answers ± accuracy: intervals that hold together with probability 1 - beta."""
        answers = np.asarray(self.answers)
        return Intervals(
            estimate=answers,
            lower=answers - self.accuracy,
            upper=answers + self.accuracy,
            alpha=self.beta,
            method="tail-bound",
            uncertainty="noise",
            simultaneous=True,
            labels=self.labels,
        )

    def summary_frame(self) -> pd.DataFrame:
        """Return the answers with their intervals, and whether they were measured."""
        frame = self.conf_int().summary_frame()
        frame["measured"] = np.asarray(self.measured)
        return frame

    def _table(self) -> Table:
        frame = self.summary_frame()
        total = float(np.sum(np.asarray(self.histogram)))
        vacuous = ("the bound is no smaller than the number of records: it says nothing",)
        return Table(
            "Private multiplicative weights",
            [
                ("Form", self.form),
                ("Queries", len(frame)),
                ("Updates", f"{self.updates} of {self.max_updates}"),
                ("Records", f"{total:.6g}"),
                ("Accuracy of all answers", f"{self.accuracy:.6g}"),
                ("With probability", f"{1 - self.beta:.6g}"),
                *self._facts("Spent"),
            ],
            {
                "estimate": frame["estimate"].to_numpy(),
                "from": np.where(frame["measured"], "data", "hypothesis"),
            },
            index=None if self.labels is None else frame.index,
            notes=vacuous if self.accuracy >= total else (),
        )

    def __repr__(self) -> str:
        return (
            f"MultiplicativeWeightsRelease({len(np.asarray(self.answers))} answers, "
            f"{self.updates} updates, accuracy {self.accuracy:.6g}, "
            f"{'simulated: no guarantee' if self.simulated else self.guarantee})"
        )


# The public hypothesis about the data: weights of the cells, learnt by multiplicative updates.


class Hypothesis:
    """A distribution over the cells of a histogram, uniform at first."""

    def __init__(self, cells: int) -> None:
        self._log_weights = np.zeros(cells)
        self.weights: FloatArray = np.full(cells, 1.0 / cells)

    def update(self, query: FloatArray, error: float) -> None:
        """Move towards the data along a query that is wrong by at least ``error``, in shares.

        With data minus hypothesis of sign s and size >= m, weights times exp(4·m·s·q) lower the
        divergence from the data by at least 4m·m - (4m)²/8 = 2m² (Hoeffding's lemma).
        """
        self._log_weights += 4.0 * error * query
        self._log_weights -= self._log_weights.max()
        weights = np.exp(self._log_weights)
        self.weights = weights / weights.sum()


class Run:
    """The confidential counts, the hypothesis about them, and how noisy answers correct it."""

    def __init__(
        self, counts: FloatArray, setting: Setting, schedule: NoiseSchedule, source: NoiseSource
    ) -> None:
        self.counts, self.schedule, self.source = counts, schedule, source
        self.records = setting.records
        self.hypothesis = Hypothesis(counts.size)
        self.updates = 0

    @property
    def histogram(self) -> FloatArray:
        """The hypothesis as a table with the number of records."""
        return self.records * self.hypothesis.weights

    def measure(self, true: Any) -> float:
        """Return a noisy answer of the data."""
        return float(self.source.add(true, Laplace(scale=self.schedule.answer_scale)))

    def learn(self, query: FloatArray, noisy_error: float) -> None:
        """Correct the hypothesis by the least error that the noisy one allows."""
        size = max(self.schedule.least, abs(noisy_error) - self.schedule.answer_bound)
        share = min(size / self.records, 1.0)
        self.hypothesis.update(query, float(np.copysign(share, noisy_error)))
        self.updates += 1


def query_row(matrix: Any, row: int) -> FloatArray:
    """Return one row of an array or a sparse array, as a vector."""
    chosen = matrix[[row]]
    return np.asarray(chosen if isinstance(chosen, np.ndarray) else chosen.toarray()).ravel()


MOST_CELLS = 2**26
MOST_QUERIES = 10**9

_STEPS = 2**20
"""Steps of a record in which errors are compared with the threshold, in whole numbers."""


class OnlineMultiplicativeWeights(Drawn):
    """Answer counting queries one by one, each perhaps chosen after the answers before it.

    For the curator: the object holds the confidential histogram. What its methods and attributes
    give is public, unless it is ``simulated``: then it carries no ``guarantee``.

    Parameters
    ----------
    histogram : array of whole numbers, shape (n,), or Series
        The confidential counts of n >= 2 cells.
    guarantee : PureDP, ZCDP or ApproxDP
        What may be spent in all, for ``neighbours="replace"``: the number of records is public.
    queries : int
        The number of queries that may be asked.
    beta : float, default 0.05
        The probability that the accuracy is missed, at most.
    max_updates : int, optional
        How often the hypothesis may be corrected; by default the number with the best accuracy.
    ledger : BudgetLedger, optional
        Where to enter the expense, before any query is answered.
    name : str
        What the expense is called there.
    sampler : {"simulated", "opendp"}, default "simulated"
        ``"simulated"``: draws in floating point, for studies. The result carries no guarantee, as
        such outputs can rule out one of two neighbouring truths. ``"opendp"``: exact draws of
        OpenDP, of the extra ``release``, from the randomness of the operating system, for
        queries that count each record as 0 or 1.
    rng : None, int or numpy.random.Generator, optional
        Source of the noise of a simulation; None for ``"opendp"``.

    Attributes
    ----------
    sampler : {"simulated", "opendp"}
        What draws the noise.
    nominal : Guarantee
        What is to be spent in all: the ``guarantee`` if the noise is drawn by OpenDP.
    beta : float
        The probability that an answer misses the accuracy, at most.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    IncompatibleReleaseError
        If the ledger has too little left.

    See Also
    --------
    multiplicative_weights : for queries that are known beforehand.

    Notes
    -----
    A hypothesis about the data, uniform at first, answers a query unless the sparse vector
    technique says that its error exceeds a threshold; then the data answer with Laplace noise,
    and the hypothesis is corrected by the multiplicative weights rule. Only corrections use up the
    budget, and c = ln N/(2γ²) of them suffice to be accurate to n·γ without noise. With
    probability 1 - β all draws of noise are within their quantiles, and then all answers are
    accurate to n·γ + 2·(bounds on the noises of threshold and comparisons).

    Under pure budgets ε₁ + ε₂ + ε₃ = ε goes into threshold (scale 1/ε₁), comparisons (2c/ε₂) and
    answers (c/ε₃), Algorithm 7 of Lyu, Su and Li (2017). Otherwise each correction renews
    the threshold and is (ε₁ + ε₂)²/2 + ε₃²/2 zero-concentrated, which adds up (Bun and
    Steinke 2016), and is converted to (ε, δ).

    References
    ----------
    Hardt, M. and Rothblum, G. N. (2010). A multiplicative weights mechanism for privacy-preserving
    data analysis. 51st IEEE Symposium on Foundations of Computer Science, 61-70.
    doi:10.1109/FOCS.2010.85.

    Lyu, M., Su, D. and Li, N. (2017). Understanding the sparse vector technique for differential
    privacy. Proceedings of the VLDB Endowment 10(6), 637-648. doi:10.14778/3055330.3055331.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> curator = OnlineMultiplicativeWeights([90_000, 5_000, 3_000, 2_000], queries=10, rng=1,
    ...                                       guarantee=PureDP(1.0, neighbours="replace"))
    >>> round(curator.accuracy), curator.max_updates
    (11493, 109)
    >>> abs(curator.answer([1, 1, 0, 0]) - 95_000) <= curator.accuracy
    True
    """

    def __init__(
        self,
        histogram: Any,
        *,
        guarantee: Guarantee,
        queries: int,
        beta: float = 0.05,
        max_updates: int | None = None,
        ledger: BudgetLedger | None = None,
        name: str = "multiplicative weights",
        sampler: Sampler = "simulated",
        rng: RNG = None,
    ) -> None:
        counts, self._columns = check_histogram(histogram)
        self._most = check_integer(queries, "queries", ge=1, le=MOST_QUERIES)
        self.beta = check_failure(beta)
        source = noise_source(sampler, rng)
        self._run = make_run(
            online_schedule, counts, guarantee, self._most, self.beta, max_updates, source
        )
        self.nominal, self.sampler = guarantee, source.sampler
        enter(ledger, name, source, guarantee)
        self._threshold = self._noisy_threshold()
        self._asked = 0

    @property
    def asked(self) -> int:
        """Number of queries answered so far."""
        return self._asked

    @property
    def updates(self) -> int:
        """How often the hypothesis was corrected so far."""
        return self._run.updates

    @property
    def accuracy(self) -> float:
        """Bound on the errors of all answers together, in records."""
        return self._run.schedule.accuracy + 8.0 / _STEPS

    @property
    def max_updates(self) -> int:
        """How often the hypothesis can be corrected."""
        return self._run.schedule.updates

    @property
    def histogram(self) -> Any:
        """The hypothesis so far: a table with the number of records."""
        return attach_labels(self._run.histogram, self._columns)

    def answer(self, query: Any) -> float:
        """Answer one counting query.

        Parameters
        ----------
        query : array of float, shape (n,)
            How much each record of a cell counts, between 0 and 1.

        Returns
        -------
        float
            The answer, in records.

        Raises
        ------
        IncompatibleReleaseError
            If all queries have been asked.
        """
        return self.answer_noting(query)[0]

    def answer_noting(self, query: Any) -> tuple[float, bool]:
        """Answer ``query`` as :meth:`answer` does, and say whether the data were looked at."""
        run, schedule = self._run, self._run.schedule
        values = check_array(query, "query", ndim=1, ge=0, le=1)
        if values.size != run.counts.size:
            raise InvalidParameterError(
                f"query must have {run.counts.size} entries, one for each cell, got {values.size}"
            )
        if self.asked >= self._most:
            raise IncompatibleReleaseError(
                f"queries must be at most {self._most}, as stated in the beginning: all have been "
                "asked"
            )
        if not self.simulated:
            check_whole(values, "query")
        self._asked += 1
        guess = run.records * float(values @ run.hypothesis.weights)
        if run.updates >= schedule.updates:
            return guess, False
        true = values @ run.counts
        error = abs(_steps(float(true)) - _steps(guess))
        if error + run.source.steps(schedule.query_scale * _STEPS) < self._threshold:
            return guess, False
        noisy = run.measure(true)
        if schedule.renewed:
            self._threshold = self._noisy_threshold()
        run.learn(values, noisy - guess)
        return noisy, True

    def __repr__(self) -> str:
        return (
            f"OnlineMultiplicativeWeights({self.asked} of {self._most} queries asked, "
            f"{self.updates} of {self.max_updates} updates, "
            f"{'simulated: no guarantee' if self.simulated else self.guarantee})"
        )

    def _noisy_threshold(self) -> int:
        # three steps more, so that rounding makes no error that is answered for a smaller one
        noise = self._run.source.steps(self._run.schedule.threshold_scale * _STEPS)
        return int(np.ceil(self._run.schedule.threshold * _STEPS)) + 3 + noise


def _steps(records: float) -> int:
    return round(records * _STEPS)


def make_run(
    schedule: Callable[[Setting, int], NoiseSchedule],
    counts: FloatArray,
    guarantee: Guarantee,
    queries: int,
    beta: float,
    max_updates: int | None,
    source: NoiseSource,
) -> Run:
    """Return a run with the noise of a schedule."""
    most = max_updates
    if most is not None:
        most = check_integer(most, "max_updates", ge=1, le=MOST_UPDATES)
    setting = read_setting(guarantee, float(counts.sum()), counts.size, queries, beta)
    return Run(counts, setting, schedule_noise(schedule, setting, most), source)


def check_whole(coefficients: FloatArray, name: str) -> None:
    """Refuse queries whose true answers are no whole numbers, computed exactly."""
    if not np.isin(coefficients, (0.0, 1.0)).all():
        raise InvalidParameterError(
            f"{name} must count each record as 0 or 1 for sampler='opendp': other sums are rounded"
        )


def check_histogram(histogram: Any) -> tuple[FloatArray, Any]:
    """Return whole, non-negative counts of at least two cells, and their labels."""
    counts, labels = split_labels(histogram, "histogram")
    if counts.ndim != 1 or not 2 <= counts.size <= MOST_CELLS:
        raise InvalidParameterError(
            f"histogram must be one-dimensional with 2 to {MOST_CELLS} cells, got shape "
            f"{counts.shape}"
        )
    if (counts < 0).any() or (counts != np.floor(counts)).any():
        raise InvalidParameterError("histogram must hold whole numbers >= 0")
    if not 0 < counts.max() <= 1e15 or counts.sum() > 1e15:
        raise InvalidParameterError("histogram must hold between 1 and 1e15 records")
    return counts, labels


Form = Literal["offline", "online"]
FORMS: tuple[Form, ...] = ("offline", "online")


def multiplicative_weights(
    histogram: Any,
    workload: Any,
    *,
    guarantee: Guarantee,
    form: Form = "offline",
    beta: float = 0.05,
    max_updates: int | None = None,
    ledger: BudgetLedger | None = None,
    name: str = "multiplicative weights",
    sampler: Sampler = "simulated",
    rng: RNG = None,
) -> MultiplicativeWeightsRelease:
    """Answer many counting queries from one budget, by private multiplicative weights.

    For the curator, who holds the confidential histogram. A public hypothesis about the data is
    corrected where it is furthest off, with noise, until it answers all queries.

    Parameters
    ----------
    histogram : array of whole numbers, shape (n,), or Series
        The confidential counts of n >= 2 cells. The number of records is public.
    workload : Workload or matrix, shape (k, n)
        The queries: how much each record of a cell counts, between 0 and 1.
    guarantee : PureDP, ZCDP or ApproxDP
        What may be spent in all, for ``neighbours="replace"``.
    form : {"offline", "online"}
        ``"offline"``: in every round the worst query is chosen by the exponential mechanism and
        measured. ``"online"``: the queries are taken in their order, each without a look at
        those that follow; see :class:`OnlineMultiplicativeWeights`.
    beta, max_updates, ledger, name, sampler, rng
        As for :class:`OnlineMultiplicativeWeights`; the expense is entered before any noise.

    Returns
    -------
    MultiplicativeWeightsRelease
        Answers with their guarantee, number of updates and accuracy, and the hypothesis.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    With n records in N cells, a correction where hypothesis and data differ by at least n·γ lowers
    the Kullback-Leibler divergence between them by 2γ², so that c = ln N/(2γ²) corrections suffice.
    Offline, a round is ε' + ε''-DP: ε' for the choice, which misses the worst query by at most
    (2/ε')·ln(2kc/β), and ε'' for a measurement with Laplace noise, at most w in all rounds with
    probability 1 - β/2. It ends when a measured error is below n·γ + w. All errors are then at
    most n·γ + 2w + (2/ε')·ln(2kc/β). Under ZCDP and ApproxDP budgets a round is
    ε'²/8 + ε''²/2 zero-concentrated. Shares of the budget, and c if it is not given, are those with
    the smallest bound.

    It rarely pays: independent noise on each answer, or one noisy histogram for all, is more
    accurate unless there are very many queries and very many cells for n and the budget. For
    β = 0.05, n from 10³ to 10⁸ and k queries that each count half of the N cells, the accuracy
    promised is better

    - than with independent noise from k = 0.9 to 2.0 times (nε)^(2/3) queries on under PureDP,
      and 21 to 52 times n·√ρ under ZCDP;
    - than from a noisy histogram from N = 2 to 12 times (nε)^(4/3) cells on, and 21 to 160 times
      n·√ρ;
    - than n, the error of no look at the data, from nε = 1,500 to 10,000 on, and n·√ρ = 170 to 540.

    With n = 10⁵ that is about 4,000 queries and 20 million cells for ε = 1, and 2.5 million of both
    for ρ = 0.5; compare :func:`usefulness` at the settings at hand. The whole budget counts as
    spent, even if fewer rounds were needed: their number is an outcome.

    References
    ----------
    Hardt, M., Ligett, K. and McSherry, F. (2012). A simple and practical algorithm for
    differentially private data release. arXiv:1012.4763.

    Cesar, M. and Rogers, R. (2021). Bounding, concentrating, and truncating: unifying privacy loss
    composition for data analytics. arXiv:2004.07223.

    Examples
    --------
    >>> import numpy as np
    >>> from dpinfer.privacy import ZCDP
    >>> counts = [90_000, 5_000, 3_000, 2_000]
    >>> queries = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    >>> release = multiplicative_weights(counts, queries, rng=1,
    ...                                  guarantee=ZCDP(0.5, neighbours="replace"))
    >>> bool(np.abs(release.answers - queries @ counts).max() <= release.accuracy)
    True
    """
    counts, columns = check_histogram(histogram)
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if queries.shape[1] != counts.size:
        raise InvalidParameterError(
            f"workload must have {counts.size} columns, one for each cell, got {queries.shape[1]}"
        )
    matrix = queries.matrix
    if matrix.min() < 0 or matrix.max() > 1:
        raise InvalidParameterError(
            f"workload must have coefficients between 0 and 1, got {show(queries)} with "
            f"{matrix.min():g} to {matrix.max():g}"
        )
    failure = check_failure(beta)
    source = noise_source(sampler, rng)
    if not source.simulated:
        check_whole(matrix if isinstance(matrix, np.ndarray) else matrix.data, "workload")
    if check_option(form, "form", FORMS) == "online":
        curator = OnlineMultiplicativeWeights(
            counts,
            guarantee=guarantee,
            queries=matrix.shape[0],
            beta=failure,
            max_updates=max_updates,
            ledger=ledger,
            name=name,
            sampler=sampler,
            rng=source.rng if isinstance(source, Simulation) else None,
        )
        rows = (query_row(matrix, row) for row in range(matrix.shape[0]))
        found = np.array([curator.answer_noting(row) for row in rows])
        answers, measured = found[:, 0], found[:, 1] > 0
        run, accuracy = curator._run, curator.accuracy
    else:
        run = make_run(
            offline_schedule, counts, guarantee, matrix.shape[0], failure, max_updates, source
        )
        enter(ledger, name, source, guarantee)
        answers, measured = _offline(run, matrix), np.zeros(matrix.shape[0], dtype=np.bool_)
        accuracy = run.schedule.accuracy + (not source.simulated)
    return MultiplicativeWeightsRelease(
        answers=attach_labels(freeze(answers), queries.labels),
        measured=freeze(measured),
        histogram=attach_labels(freeze(run.histogram), columns),
        sampler=source.sampler,
        nominal=guarantee,
        updates=run.updates,
        max_updates=run.schedule.updates,
        accuracy=accuracy,
        beta=failure,
        form=form,
        labels=queries.labels,
    )


def _offline(run: Run, matrix: Any) -> FloatArray:
    """Answer by rounds that choose the worst query and measure it, until it is good enough."""
    true = np.asarray(matrix @ run.counts)
    for _ in range(run.schedule.updates):
        answers = run.records * np.asarray(matrix @ run.hypothesis.weights)
        # exact scores are whole: a rounded answer makes the choice worse by 1 at most
        known = answers if run.source.simulated else np.rint(answers)
        worst = run.source.choose(np.abs(true - known), 1.0 / run.schedule.query_scale)
        error = run.measure(true[worst]) - float(answers[worst])
        if abs(error) <= run.schedule.threshold:
            break
        run.learn(query_row(matrix, worst), error)
    return run.records * np.asarray(matrix @ run.hypothesis.weights)
