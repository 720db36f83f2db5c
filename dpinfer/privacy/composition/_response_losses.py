"""The sum of k privacy losses of randomized response: (k - 2i)ε with i lies, i binomial."""

from __future__ import annotations

import numpy as np
from scipy import special

from dpinfer._numerics.binomial import bernstein_radius, binom_pmf
from dpinfer._validation import FloatArray

_LOG_NEGLIGIBLE = 80.0
"""Terms below e^-80 of the largest probability are left out: the smallest factor is about e^-40."""

_SMALL = 0.05
"""Below this ε a lie is so close to probability 1/2 that its difference from 1/2 matters."""

_LARGE = 50.0
"""Above this ε no lie is expected, among however many answers."""


def losses_delta(at: FloatArray, epsilon: float, count: int) -> FloatArray:
    """δ at each ε: Σ P(i)·(1 - e^(ε - loss)) over the losses above ε."""
    if epsilon == 0:
        return np.zeros(at.shape)
    with np.errstate(over="ignore"):
        last = np.ceil(0.5 * (count - at / epsilon)) - 1.0
    return np.array(
        [_excess(np.array(end), point, epsilon, count) for end, point in zip(last, at, strict=True)]
    )


def losses_epsilon(delta: FloatArray, epsilon: float, count: int) -> FloatArray:
    """ε at each δ in [0, 1), at least 0."""
    return np.array([_solve(chance, epsilon, count) for chance in delta])


def _solve(delta: float, epsilon: float, count: int) -> float:
    """Find the pair of neighbouring losses with ε between them, and ε there in closed form."""
    if epsilon == 0 or losses_delta(np.zeros(1), epsilon, count)[0] <= delta:
        return 0.0
    # δ at the loss of i lies is at most the given one for i = low, and above it for i = high
    low, high = 0, count // 2 + 1
    while high - low > 1:
        middle = (low + high) // 2
        at = (count - 2 * middle) * epsilon
        below = _excess(np.array(middle - 1.0), at, epsilon, count) <= delta
        low, high = (middle, high) if below else (low, middle)
    at = (count - 2 * low) * epsilon
    least = _excess(np.array(low - 1.0), at, epsilon, count)
    # with s = loss - ε, δ = least + (1 - e^-s)·slope
    lies, pmf = _terms(low, epsilon, count)
    slope = (pmf * np.exp(-2.0 * (low - lies) * epsilon)).sum()
    return float(at + np.log1p(-min((delta - least) / slope, 1.0)))


def _excess(last: FloatArray, at: float, epsilon: float, count: int) -> float:
    """Sum of P(i)·(1 - e^(at - loss)) over at most ``last`` lies."""
    if last < 0:
        return 0.0
    lies, pmf = _terms(float(last), epsilon, count)
    return float((pmf * -np.expm1(np.minimum(at - (count - 2.0 * lies) * epsilon, 0.0))).sum())


def _terms(last: float, epsilon: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Numbers of lies up to ``last`` that matter, and their probabilities."""
    lie = float(special.expit(-epsilon))
    centre = min(last, count * lie)
    radius = float(bernstein_radius(np.array(count * lie * (1.0 - lie) + 1.0), _LOG_NEGLIGIBLE))
    lies = np.arange(max(np.floor(centre - radius), 0.0), min(last, centre + radius) + 1.0)
    trials = np.array(float(count))
    if epsilon > _LARGE:
        # few lies, each of tiny probability: ratios of neighbouring probabilities
        ratios = np.log((count - lies[1:] + 1.0) / lies[1:]) - epsilon
        log_pmf = np.concatenate([[0.0], np.cumsum(ratios)]) - count * np.log1p(np.exp(-epsilon))
        return lies, np.exp(log_pmf)
    if epsilon >= _SMALL:
        return lies, binom_pmf(lies, trials, np.array(lie))
    # i - k·P(lie) = (i - k/2) + k·tanh(ε/2)/2, without rounding the probability of a lie
    excess = (lies - 0.5 * count) + 0.5 * count * np.tanh(0.5 * epsilon)
    return lies, binom_pmf(lies, trials, np.array(lie), excess=excess)
