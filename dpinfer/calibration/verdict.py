"""The rule by which a simulated rate of errors is found to be as stated, or not."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._validation import MAX_REPS, FloatArray, check_alpha, check_scalar
from dpinfer.errors import InvalidParameterError

Verdict = Literal["holds", "fails", "undecided"]

SMALLEST_ERROR = 1e-12
"""Error probability of a verdict below which tails of binomial laws lose their digits."""

_ROUNDING = 1e-9
"""Relative difference between an exact rate and its limit that may be rounding."""

_DECIDING = 0.99
"""Probability with which the planned number of replicates decides."""


def largest_rate(alpha: float, margin: float) -> float:
    """Return the largest error probability with which a procedure still holds.

    Parameters
    ----------
    alpha : float
        The nominal error probability, in (0, 1).
    margin : float
        By which part of it the true one may exceed it, >= 0.

    Returns
    -------
    float
        α·(1 + margin).

    Raises
    ------
    InvalidParameterError
        If that is not below 1.
    """
    if (limit := alpha * (1.0 + margin)) >= 1.0:
        raise InvalidParameterError(
            f"margin must be below {1.0 / alpha - 1.0:g} for alpha = {alpha:g}, got {margin:g}"
        )
    return limit


def verdicts(events: ArrayLike, trials: ArrayLike, limit: float, error: float) -> NDArray[np.str_]:
    """Decide whether probabilities are at most ``limit``, from how often something happened.

    Parameters
    ----------
    events, trials : array of float, shape (k,)
        In how many of how many trials there was an error: an interval that missed, a true null
        hypothesis that was rejected.
    limit : float
        The largest probability that is allowed, in (0, 1).
    error : float
        Probability, at most, with which each verdict is wrong, in (0, 1/2).

    Returns
    -------
    array of str, shape (k,)
        ``"holds"``, ``"fails"`` or ``"undecided"``.

    Notes
    -----
    For x errors in n trials the verdict is "holds" where P(X <= x) <= error for X binomial with n
    trials and the probability ``limit``, and "fails" where P(X >= x) <= error: the bounds of
    Clopper and Pearson are on one side of the limit. A probability above the limit is found to
    hold with probability at most ``error``, and one up to the limit is found to fail with
    probability at most ``error``, whatever n is: no approximation is made.
    """
    x, n = np.broadcast_arrays(
        np.asarray(events, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    )
    decided = np.where(_at_most(x, n, limit) <= error, "holds", "undecided")
    return np.asarray(np.where(_at_least(x, n, limit) <= error, "fails", decided))


def exact_verdicts(rate: FloatArray, limit: float) -> NDArray[np.str_]:
    """Compare error probabilities that are known with the limit."""
    return np.asarray(np.where(rate <= limit * (1.0 + _ROUNDING), "holds", "fails"))


def replicates_to_decide(alpha: float, *, margin: float = 0.1, error: float = 1e-3) -> int:
    """Return how many replicates find a procedure to hold whose error probability is as stated.

    Parameters
    ----------
    alpha : float
        The nominal error probability, which is also the true one, in (0, 1).
    margin : float, default 0.1
        By which part of it the true one may exceed it, > 0.
    error : float, default 1e-3
        Probability, at most, with which the verdict is wrong, in [1e-12, 1/2).

    Returns
    -------
    int
        Number of replicates with which the verdict is "holds" with probability 0.99 or more.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or more than 1e9 replicates would be needed.

    Examples
    --------
    >>> replicates_to_decide(0.05), replicates_to_decide(0.05, margin=0.2)
    (58712, 15553)
    """
    alpha = check_alpha(alpha)
    limit = largest_rate(alpha, check_scalar(margin, "margin", gt=0))
    error = check_scalar(error, "error", ge=SMALLEST_ERROR, lt=0.5)
    spread = special.ndtri(1.0 - error) * np.sqrt(limit * (1.0 - limit))
    spread += special.ndtri(_DECIDING) * np.sqrt(alpha * (1.0 - alpha))
    apart = limit - alpha  # 0 where the margin is below rounding
    reps = np.square(spread / apart) if apart > 0 else np.inf  # by the normal law
    while reps <= MAX_REPS:
        number = float(np.ceil(reps))
        # the most errors with which the verdict is "holds"
        most = _largest_count(number, limit, error)
        if most >= 0.0 and _at_most(most, number, alpha) >= _DECIDING:
            return int(number)
        reps = number * 1.01
    raise InvalidParameterError(
        f"margin must be larger for alpha = {alpha:g}, got {margin:g}: more than {MAX_REPS} "
        "replicates would be needed"
    )


def _largest_count(trials: float, limit: float, error: float) -> float:
    """Return the largest x with P(X <= x) <= error, or -1, by bisection."""
    low, high = -1.0, np.ceil(trials * limit)
    while high - low > 1.0:
        middle = np.floor(0.5 * (low + high))
        if _at_most(middle, trials, limit) <= error:
            low = middle
        else:
            high = middle
    return float(low)


def _at_most(x: ArrayLike, n: ArrayLike, p: float) -> FloatArray:
    """P(X <= x) of a binomial variable, 0 <= x <= n; 1 where x = n."""
    above = np.asarray(n) - x
    tail = special.betaincc(np.asarray(x) + 1.0, np.maximum(above, 1.0), p)
    return np.where(above > 0.0, tail, 1.0)


def _at_least(x: ArrayLike, n: ArrayLike, p: float) -> FloatArray:
    """P(X >= x) of a binomial variable, 0 <= x <= n; 1 where x = 0."""
    count = np.asarray(x)
    tail = special.betainc(np.maximum(count, 1.0), np.asarray(n) - count + 1.0, p)
    return np.where(count > 0.0, tail, 1.0)
