"""The smallest ρ of a mechanism: below what its ε alone would give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._numerics.binomial import deviance
from dpinfer._validation import FloatArray, Neighbours, check_array
from dpinfer.mechanisms import ExponentialMechanism, Geometric, Laplace, RandomizedResponse
from dpinfer.privacy.guarantees.mechanisms import guarantee_of
from dpinfer.privacy.guarantees.zcdp import ZCDP

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_MAX_STEPS = 10**6
_CLOSED_CATEGORIES = 6
_LOG_X = np.linspace(np.log(1e-6), np.log(600.0), 2001)
_ZOOMS = 5


def zcdp_of(
    mechanism: Any, sensitivity: ArrayLike = 1.0, neighbours: Neighbours | None = None
) -> ZCDP:
    """Smallest known ρ of a mechanism, from its law and not only from its ε.

    Parameters
    ----------
    mechanism : NoiseLaw, RandomizedResponse or ExponentialMechanism
        What was used, as for :func:`guarantee_of`.
    sensitivity : float or array of float, default 1
        The sensitivity of the query, as for :func:`guarantee_of`.
    neighbours : {"add-remove", "replace"}, optional
        The relation for which the sensitivity holds, as for :func:`guarantee_of`.

    Returns
    -------
    ZCDP
        The guarantee ρ, never above that of ``guarantee_of(...).to_zcdp()``.

    Raises
    ------
    InvalidParameterError
        If the mechanism has no guarantee, or has δ > 0.

    Notes
    -----
    With ε the privacy loss: Laplace ε + e^{-ε} - 1; geometric noise of scale s and a change of Δ
    the sum over j = 1, …, Δ of (1 + a - 2aʲ)/((1 + a)s) with a = e^{-1/s}; randomized response
    (p - q)ε with q = (1-p)/(k-1) for k <= 6 categories; the exponential mechanism r - 1 - ln r with
    r = ε/(e^ε - 1), at most ε²/8. Each is the Kullback-Leibler divergence of the worst pair, and
    the smallest possible ρ. For k > 6 it is the largest divergence per order, found numerically on
    a grid of orders; for (discrete) Gaussian noise it is Δ²/(2σ²), and for other mechanisms
    ε·tanh(ε/2).

    References
    ----------
    Harrison, C. and Manurangsi, P. (2025). Exact zCDP characterizations for fundamental
    differentially private mechanisms. 7th Symposium on Foundations of Responsible Computing,
    3:1-3:18. doi:10.4230/LIPIcs.FORC.2026.3.

    Cesar, M. and Rogers, R. (2021). Bounding, concentrating, and truncating: unifying privacy loss
    composition for data analytics. Proceedings of Machine Learning Research 132, 421-457.
    arXiv:2004.07223 (ε²/8 of the exponential mechanism).

    Examples
    --------
    >>> from dpinfer import ExponentialMechanism, Laplace
    >>> round(zcdp_of(Laplace(scale=1.0)).rho, 6)
    0.367879
    >>> round(zcdp_of(ExponentialMechanism(epsilon=1.0)).rho, 6)
    0.123302
    """
    guarantee = guarantee_of(mechanism, sensitivity, neighbours)
    general = guarantee.to_zcdp()
    rule = _RULES.get(type(mechanism))
    if rule is None:
        return general
    change = check_array(sensitivity, "sensitivity")
    own = rule(mechanism, change, guarantee.epsilon_at(0.0))
    return ZCDP(min(own, general.rho), neighbours=general.neighbours)


def _laplace(law: Laplace, change: FloatArray, epsilon: float) -> float:
    losses = np.atleast_1d(epsilon) if change.ndim == 0 else (change / law.scale).ravel()
    # ε + e^-ε - 1 is the integral of 1 - e^-t, without cancellation
    near = np.minimum(losses, 1.0)
    points = 0.5 * near[:, None] * (1.0 + _NODES)
    integral = 0.5 * near * (-np.expm1(-points) @ _WEIGHTS)
    return float(np.where(losses <= 1.0, integral, losses + np.expm1(-losses)).sum())


def _geometric(law: Geometric, change: FloatArray, epsilon: float) -> float:
    scales = np.min(law.scale) if change.ndim == 0 else law.scale
    changes, steps = np.broadcast_arrays(np.rint(change), scales)
    if changes.sum() > _MAX_STEPS:
        return np.inf
    return sum(_geometric_cell(*cell) for cell in zip(changes.flat, steps.flat, strict=True))


def _geometric_cell(change: float, scale: float) -> float:
    """Sum of (1 + a - 2aʲ)/((1 + a)s) as that of (1 - aʲ) + a(1 - aʲ⁻¹), which are positive."""
    rate = 1.0 / scale
    j = np.arange(1.0, change + 1.0)
    a = np.exp(-rate)
    terms = -np.expm1(-j * rate) - a * np.expm1(-(j - 1.0) * rate)
    return float(terms.sum() * rate / (1.0 + a))


def _response(channel: RandomizedResponse, change: FloatArray, epsilon: float) -> float:
    others = channel.categories - 1
    wrong = (1.0 - channel.p) / others
    divergence = wrong * float(np.expm1(epsilon)) * epsilon
    if channel.categories <= _CLOSED_CATEGORIES:
        return divergence
    return max(divergence, _largest_response(wrong, epsilon))


def _largest_response(wrong: float, epsilon: float) -> float:
    """Largest divergence per order, searched over x = (α - 1)ε."""
    if epsilon == 0:
        return 0.0

    def ratio(log_x: FloatArray) -> FloatArray:
        # the moment p^α q^(1-α) + q^α p^(1-α) + (k-2)q is 1 + q(e^ε(e^x - 1) + e^-x - 1)
        x = np.exp(log_x)
        moment = wrong * (np.exp(epsilon) * np.expm1(x) + np.expm1(-x))
        return np.asarray(np.log1p(moment) * epsilon * epsilon / (x * (x + epsilon)))

    points = _LOG_X
    for _ in range(_ZOOMS):
        best = int(np.argmax(ratio(points)))
        points = np.linspace(points[max(best - 1, 0)], points[min(best + 1, points.size - 1)], 41)
    return float(ratio(points).max())


def _exponential(mechanism: ExponentialMechanism, change: FloatArray, epsilon: float) -> float:
    # r - 1 - ln r with r = ε/(e^ε - 1), of which ln r is computed
    if epsilon >= 1.0:
        log_r = np.log(epsilon) - epsilon - np.log1p(-np.exp(-epsilon))
        return float(np.exp(log_r) - 1.0 - log_r)
    # u = r - 1 without cancellation; u - ln(1 + u) is (1 + u)·D(-u/(1 + u))
    square = epsilon * epsilon
    series = -0.5 * epsilon + square / 12.0 - square * square / 720.0
    u = series if epsilon < 0.01 else epsilon / np.expm1(epsilon) - 1.0
    return float((1.0 + u) * deviance(np.array(-u / (1.0 + u))))


_RULES: dict[type, Callable[..., float]] = {
    Laplace: _laplace,
    Geometric: _geometric,
    RandomizedResponse: _response,
    ExponentialMechanism: _exponential,
}
