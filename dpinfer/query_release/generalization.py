"""How accurate private answers are for the population, even to adaptively chosen queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.guarantees import Guarantee

_DELTAS = np.concatenate([np.geomspace(1e-300, 1e-16, 72), np.geomspace(1e-16, 0.1, 451)])


@dataclass(frozen=True, kw_only=True)
class GeneralizationBound:
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

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> from dpinfer.query_release import generalization_bound
    >>> bound = generalization_bound(PureDP(2.0, neighbours="replace"), alpha=0.01, beta=1e-4)
    >>> round(bound.alpha, 3), bound.is_vacuous
    (1.0, True)
    """

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
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> from dpinfer.query_release import usefulness
    >>> noise = Laplace.from_epsilon(0.05 / 10, sensitivity=1 / 100_000)
    >>> accuracy = usefulness(noise, queries=10, beta=1e-4)
    >>> guarantee = PureDP(0.05, neighbours="replace")
    >>> bound = generalization_bound(guarantee, alpha=accuracy.alpha, beta=accuracy.beta)
    >>> round(accuracy.alpha, 4), round(bound.privacy, 4), round(bound.alpha, 4)
    (0.023, 0.0513, 0.0763)
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
    """Return points (ε, δ) at which a guarantee holds."""
    own = getattr(guarantee, "delta", 0.0)
    deltas = np.concatenate([[own], _DELTAS[own < _DELTAS]])
    low, high = 0, len(deltas)
    # below some δ a guarantee may hold with no finite ε
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _holds(guarantee, deltas[middle]) else (middle + 1, high)
    if low == len(deltas):
        raise InvalidParameterError(f"guarantee must imply (ε, δ) with δ <= 0.1, got {guarantee}")
    return np.asarray(guarantee.epsilon_at(deltas[low:])), deltas[low:]


def _holds(guarantee: Guarantee, delta: float) -> bool:
    """Whether a guarantee holds with a finite ε at δ."""
    try:
        guarantee.epsilon_at(delta)
    except InvalidParameterError:
        return False
    return True
