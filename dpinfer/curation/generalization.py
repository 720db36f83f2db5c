"""(α, β)-usefulness: how far off the answers to several queries can be, together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_integer,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import weighted_sums
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.queries.workload import Workload
from dpinfer.results.presentation import Facts

Method = Literal["exact", "union", "monte-carlo"]
Simulator = Callable[[np.random.Generator], Any]

_METHODS: tuple[Method, ...] = ("exact", "union", "monte-carlo")
_BLOCK = 2**22


@dataclass(frozen=True, kw_only=True)
class Usefulness(Facts):
    """All answers are within α with probability at least 1 - β; made by ``usefulness``.

    It unpacks as ``alpha, beta``.

    Attributes
    ----------
    alpha : float
        Bound on the errors of all answers, in units of the answers.
    beta : float
        The probability that an error exceeds it: exactly, at most, or as simulated.
    queries : int
        The number of answers.
    method : {"exact", "union", "monte-carlo"}
        How it was found.
    mc_error : float
        Standard deviation of ``beta`` from one simulation to another; 0 for formulas.
    """

    _title: ClassVar[str] = "Accuracy of all answers"

    alpha: float
    beta: float
    queries: int
    method: Method
    mc_error: float = 0.0

    def __iter__(self) -> Iterator[float]:
        """Unpack as ``alpha, beta``."""
        return iter((self.alpha, self.beta))


def usefulness(
    mechanism: Mechanism | Simulator,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    queries: int | None = None,
    workload: Any = None,
    method: Method | None = None,
    reps: int = 10_000,
    rng: RNG = None,
) -> Usefulness:
    """(α, β)-usefulness of a mechanism: P(largest error of k answers <= α) >= 1 - β.

    Parameters
    ----------
    mechanism : NoiseLaw, sequence of NoiseLaw, or callable
        The noise of the answers, or with ``workload`` that of the cells. For any other mechanism, a
        function of a generator that runs it once and returns the errors of its answers, shape (k,).
    alpha, beta : float, optional
        One of the two; the other one is found. ``alpha`` >= 0 is in units of the answers, ``beta``
        a probability in (0, 1).
    queries : int, optional
        The number k of answers, each with noise of its own, where one law serves them all.
    workload : Workload or matrix, shape (k, n), optional
        Queries that are answered from n noisy cells.
    method : {"exact", "union", "monte-carlo"}, optional
        ``"exact"``: the law of the largest of independent errors; the default without a workload.
        ``"union"``: the sum of the probabilities that each answer is off, which bounds the
        probability that any is; the default with a workload. ``"monte-carlo"``: simulation; the
        only one for a function.
    reps : int, default 10_000
        Number of simulated runs.
    rng : None, int or numpy.random.Generator, optional
        Source of these.

    Returns
    -------
    Usefulness
        Both numbers; it unpacks as ``alpha, beta``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or not exactly one of ``alpha`` and ``beta`` is
        given.

    Notes
    -----
    For k answers with Laplace noise of scale b, α = b·ln(1/(1 - (1-β)^(1/k))) exactly, and
    b·ln(k/β) by the union bound. For whole-numbered noise α is the smallest whole number that will
    do, and ``beta`` what it attains, at most the one that was asked for. Simulated, α is the
    ⌈(1-β)(R+1)⌉-th smallest of R largest errors, and β is (1 + b)/(R + 1) with b runs beyond α:
    both hold for the average over simulations, for every R.

    References
    ----------
    Blum, A., Ligett, K. and Roth, A. (2013). A learning theory approach to noninteractive database
    privacy. Journal of the ACM 60(2), 12. doi:10.1145/2450142.2450148, Definition 2.

    Examples
    --------
    >>> from dpinfer import Geometric, Laplace
    >>> alpha, beta = usefulness(Laplace.from_epsilon(1.0), queries=3, beta=0.05)
    >>> round(alpha, 4), round(usefulness(Laplace(scale=1.0), queries=3, alpha=alpha).beta, 9)
    (4.0773, 0.05)
    >>> alpha, beta = usefulness(Geometric(scale=1.0), queries=3, beta=0.05)
    >>> alpha, round(beta, 6)
    (4.0, 0.029265)
    """
    bound = None if alpha is None else check_scalar(alpha, "alpha", ge=0)
    chance = None if beta is None else check_scalar(beta, "beta", gt=0, lt=1)
    if (bound is None) == (chance is None):
        raise InvalidParameterError(
            "exactly one of alpha and beta must be given, got "
            + ("none of them" if alpha is None else "both")
        )
    # a function to run, rather than a law or the class of one
    simulated = callable(mechanism) and not isinstance(mechanism, (NoiseLaw, type))
    default: Method = "monte-carlo" if simulated else "exact" if workload is None else "union"
    how = default if method is None else check_option(method, "method", _METHODS)
    if how == "exact" and workload is not None:
        raise InvalidParameterError(
            "method must be 'union' or 'monte-carlo' with a workload: answers from the same cells "
            "have dependent errors"
        )
    if simulated and (how != "monte-carlo" or workload is not None or queries is not None):
        raise InvalidParameterError(
            "method must be 'monte-carlo', and workload and queries be left out, for a mechanism "
            "that is a function of a generator"
        )
    if how == "monte-carlo":
        runs, rng = check_reps(reps), check_rng(rng)
        if simulated:
            run: Any = mechanism
            errors = [np.ravel(check_array(run(rng), "the errors")) for _ in range(runs)]
            size, largest = len(errors[0]), np.array([np.abs(one).max() for one in errors])
        else:
            matrix, law, size = _answers(mechanism, workload, queries)
            largest = _largest_errors(matrix, law, size, runs, rng)
        return _from_runs(size, np.sort(largest), bound, chance)
    matrix, law, size = _answers(mechanism, workload, queries)
    laws: list[NoiseLaw] = [law]
    counts = np.ones(law.shape[0]) if law.shape else np.array([float(size)])
    if matrix is not None:
        sums = weighted_sums(matrix, law)
        numbers = Counter(map(id, sums))
        laws = list({id(one): one for one in sums}.values())
        counts = np.array([float(numbers[id(one)]) for one in laws])
    found = _Errors(laws, counts, union=how == "union")
    if bound is None:
        assert chance is not None
        bound = found.smallest(chance)
    return Usefulness(alpha=bound, beta=found.beta(bound), queries=size, method=how)


@dataclass(frozen=True)
class _Errors:
    """Laws of the errors of the answers, and how many answers have each."""

    laws: list[NoiseLaw]
    counts: FloatArray
    union: bool

    def beta(self, alpha: float) -> float:
        """Probability that an error exceeds alpha, exactly or by the union bound."""
        tails: FloatArray = np.concatenate([np.ravel(law.sf(alpha)) for law in self.laws])
        each = np.minimum(2.0 * tails, 1.0)
        if self.union:
            return min(1.0, float(self.counts @ each))
        with np.errstate(divide="ignore"):
            return float(-np.expm1(self.counts @ np.log1p(-each)))

    def smallest(self, beta: float) -> float:
        """Return the smallest alpha whose beta is at most the one given."""
        size = int(self.counts.sum())
        share = beta / size if self.union else sidak(beta, size)
        if len(self.laws) == 1 and self.laws[0].shape == ():
            return max(0.0, float(self.laws[0].isf(0.5 * share)))
        low, high = (
            max(float(np.max(law.isf(0.5 * chance))) for law in self.laws)
            for chance in (beta, share)
        )
        low = max(0.0, low)
        if self.beta(low) <= beta:
            return low
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if self.beta(middle) <= beta else (middle, high)
        # probabilities jump at whole numbers only where noise takes them
        whole = float(np.rint(high))
        near = abs(whole - high) <= 1e-9 * max(1.0, high)
        return whole if near and self.beta(whole) <= beta else high


def _answers(mechanism: Any, workload: Any, queries: int | None) -> tuple[Any, NoiseLaw, int]:
    """Return the matrix of a workload, the law of the noise, and the number of answers."""
    if workload is not None:
        if queries is not None:
            raise InvalidParameterError("queries must be left out where a workload is given")
        asked = workload if isinstance(workload, Workload) else Workload(workload)
        return asked.matrix, as_noise(mechanism, asked.shape[1]), asked.shape[0]
    if queries is not None:
        size = check_integer(queries, "queries", ge=1, le=10**12)
    elif isinstance(mechanism, (list, tuple)):
        size = sum(law.shape[0] if getattr(law, "shape", ()) else 1 for law in mechanism)
    else:
        shape = mechanism.shape if isinstance(mechanism, NoiseLaw) else ()
        size = shape[0] if len(shape) == 1 else 1
    return None, as_noise(mechanism, size), size


def _largest_errors(
    matrix: Any, law: NoiseLaw, size: int, reps: int, rng: np.random.Generator
) -> FloatArray:
    """Return the largest error of all answers in each of ``reps`` runs."""
    width = size if matrix is None else matrix.shape[1]
    if width > 1e7:
        raise InvalidParameterError(
            f"queries must be at most 1e7 for simulation, got {show(width)}: use method='exact'"
        )
    block = max(1, _BLOCK // max(width, size))
    out = np.empty(reps)
    for start in range(0, reps, block):
        stop = min(start + block, reps)
        noise = law.rvs((stop - start, width), rng=rng)
        errors = noise if matrix is None else (matrix @ noise.T).T
        out[start:stop] = np.abs(errors).max(axis=1)
    return out


def _from_runs(
    size: int, largest: FloatArray, alpha: float | None, beta: float | None
) -> Usefulness:
    reps = len(largest)
    if alpha is None:
        assert beta is not None
        rank = int(np.ceil((1.0 - beta) * (reps + 1)))
        if rank > reps:
            raise InvalidParameterError(
                f"reps must be at least 1/beta - 1 = {1.0 / beta - 1.0:.7g}, got {reps}"
            )
        alpha, chance = float(largest[rank - 1]), beta
    else:
        beyond = reps - int(np.searchsorted(largest, alpha, side="right"))
        chance = (1 + beyond) / (reps + 1)
    return Usefulness(
        alpha=alpha,
        beta=chance,
        queries=size,
        method="monte-carlo",
        mc_error=float(np.sqrt(chance * (1.0 - chance) / reps)),
    )


# How accurate private answers are for the population, even to adaptively chosen queries.


_DELTAS = np.concatenate([np.geomspace(1e-300, 1e-16, 72), np.geomspace(1e-16, 0.1, 451)])


@dataclass(frozen=True, kw_only=True)
class GeneralizationBound(Facts):
    """Accuracy of answers for the population; made by ``generalization_bound``.

    Attributes
    ----------
    alpha : float
        Bound on the errors of all answers as estimates of the population, as shares of it: at most
        1, which says nothing.
    beta : float
        The probability that an error exceeds it, at most.
    sample_alpha, sample_beta : float
        The accuracy of the answers for the sample.
    privacy : float
        What the guarantee adds to the error: e^ε - 1.
    confidence : float
        What the level adds: (√sample_beta + √(2δ))²/beta.
    epsilon, delta : float
        The ε and δ of the guarantee that were used.
    """

    _title: ClassVar[str] = "Accuracy of answers for the population"

    alpha: float
    beta: float
    sample_alpha: float
    sample_beta: float
    privacy: float
    confidence: float
    epsilon: float
    delta: float

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound is no smaller than 1, the largest error that a share can have."""
        return self.alpha >= 1.0


def generalization_bound(
    guarantee: Guarantee, *, alpha: float, beta: float, failure: float = 0.05
) -> GeneralizationBound:
    """Bound the errors of private answers about the population behind a sample.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of all answers together, for ``neighbours="replace"``; (ε, δ) on its curve are
        chosen to make the bound small.
    alpha : float
        Accuracy of the answers for the sample, as shares of it: the errors of all answers are at
        most ``alpha``, but for the probability ``beta``. A bound in records is to be divided by
        their number.
    beta : float
        That probability, in [0, 1).
    failure : float, default 0.05
        The probability with which the bound may fail, in (0, 1); above ``beta`` to be of use.

    Returns
    -------
    GeneralizationBound
        The accuracy for the population.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The sample is drawn independently from the population, and answered are shares of records
    q(x) in [0, 1], chosen in whatever way from the answers before. Then for all c, d > 0 all
    answers are within α + (e^ε - 1) + c + 2d of the population, but for the probability
    β/c + δ/d. With the best c and d for a probability β' of failure this is
    α + (e^ε - 1) + (√β + √(2δ))²/β'. For answers that are not private no such bound holds: with k
    adaptive queries a sample can be off by the order of √(k/n).

    Because β/β' is added to the error, ``beta`` is to be much smaller than ``failure``.

    References
    ----------
    Jung, C., Ligett, K., Neel, S., Roth, A., Sharifi-Malvajerdi, S. and Shenfeld, M. (2020). A new
    analysis of differential privacy's generalization guarantees. doi:10.4230/LIPIcs.ITCS.2020.31.

    Bassily, R., Nissim, K., Smith, A., Steinke, T., Stemmer, U. and Ullman, J. (2016). Algorithmic
    stability for adaptive data analysis. doi:10.1145/2897518.2897566.

    Examples
    --------
    Ten adaptive answers about 100,000 people with Laplace noise, ε = 0.05 in all:

    >>> from dpinfer import Laplace
    >>> from dpinfer.privacy import PureDP
    >>> from dpinfer.curation import usefulness
    >>> noise = Laplace.from_epsilon(0.05 / 10, sensitivity=1 / 100_000)
    >>> accuracy = usefulness(noise, queries=10, beta=1e-4)
    >>> guarantee = PureDP(0.05, neighbours="replace")
    >>> bound = generalization_bound(guarantee, alpha=accuracy.alpha, beta=accuracy.beta)
    >>> round(accuracy.alpha, 4), round(bound.privacy, 4), round(bound.alpha, 4)
    (0.023, 0.0513, 0.0763)
    >>> generalization_bound(PureDP(2.0, neighbours="replace"), alpha=0.01, beta=1e-4).is_vacuous
    True
    """
    if not isinstance(guarantee, Guarantee):
        raise InvalidParameterError(
            f"guarantee must be a guarantee, such as PureDP(1.0, neighbours='replace'), got "
            f"{show(guarantee)}"
        )
    if guarantee.neighbours != "replace":
        raise InvalidParameterError(
            f"guarantee must have neighbours='replace', got {guarantee}: the argument exchanges a "
            "record for an independent one"
        )
    near = check_scalar(alpha, "alpha", ge=0, le=1)
    chance = check_scalar(beta, "beta", ge=0, lt=1)
    most = check_scalar(failure, "failure", gt=0, lt=1)
    epsilon, delta = _curve(guarantee)
    with np.errstate(over="ignore"):
        privacy = np.expm1(epsilon)
        confidence = np.square(np.sqrt(chance) + np.sqrt(2.0 * delta)) / most
    best = int(np.argmin(privacy + confidence))
    return GeneralizationBound(
        alpha=min(float(near + privacy[best] + confidence[best]), 1.0),
        beta=most,
        sample_alpha=near,
        sample_beta=chance,
        privacy=float(privacy[best]),
        confidence=float(confidence[best]),
        epsilon=float(epsilon[best]),
        delta=float(delta[best]),
    )


def _curve(guarantee: Guarantee) -> tuple[FloatArray, FloatArray]:
    own = getattr(guarantee, "delta", 0.0)
    deltas = np.concatenate([[own], _DELTAS[own < _DELTAS]])
    low, high = 0, len(deltas)
    while low < high:  # below some δ a guarantee may hold with no finite ε
        middle = (low + high) // 2
        try:
            guarantee.epsilon_at(deltas[middle])
        except InvalidParameterError:
            low = middle + 1
        else:
            high = middle
    if low == len(deltas):
        raise InvalidParameterError(f"guarantee must imply (ε, δ) with δ <= 0.1, got {guarantee}")
    return np.asarray(guarantee.epsilon_at(deltas[low:])), deltas[low:]
