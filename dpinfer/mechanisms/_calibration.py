"""Scales of the noise from privacy budgets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._validation import FloatArray, check_broadcast, check_parameter
from dpinfer.errors import ConvergenceError, InvalidParameterError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def pure_scale(epsilon: ArrayLike, sensitivity: ArrayLike) -> FloatArray:
    """Δ₁/ε."""
    budget = _positive(epsilon, "epsilon")
    change = _sensitivity(sensitivity, epsilon=budget)
    return change / budget


def zcdp_sigma(rho: ArrayLike, sensitivity: ArrayLike) -> FloatArray:
    """Δ₂/√(2ρ)."""
    budget = _positive(rho, "rho")
    change = _sensitivity(sensitivity, rho=budget)
    return np.asarray(change / np.sqrt(2.0 * budget))


def gdp_sigma(mu: ArrayLike, sensitivity: ArrayLike) -> FloatArray:
    """Δ₂/μ."""
    budget = _positive(mu, "mu")
    change = _sensitivity(sensitivity, mu=budget)
    return change / budget


def approximate_sigma(
    solve: Callable[[FloatArray, FloatArray], FloatArray],
    epsilon: ArrayLike,
    delta: ArrayLike,
    sensitivity: ArrayLike,
) -> FloatArray:
    """Δ₂ times the σ that ``solve`` finds for (ε, δ) and sensitivity 1."""
    budget = _positive(epsilon, "epsilon")
    leak = check_parameter(delta, "delta", gt=0, lt=1)
    change = _sensitivity(sensitivity, epsilon=budget, delta=leak)
    return change * solve(budget, leak)


def classical_sigma(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
    """√(2 ln(1.25/δ))/ε for sensitivity 1 (Dwork and Roth 2014, Theorem A.1): ε < 1 only."""
    if (epsilon >= 1).any():
        raise InvalidParameterError(
            "epsilon must be < 1 for the classical calibration, whose proof does not hold beyond, "
            f'got {epsilon[epsilon >= 1][0]}: use calibration="analytic"'
        )
    return np.asarray(np.sqrt(2.0 * np.log(1.25 / delta)) / epsilon)


def analytic_sigma(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
    """Smallest σ that is (ε, δ)-private at sensitivity 1 (Balle and Wang 2018, Theorem 8).

    With μ = 1/σ the curve log δ(log μ) is increasing and concave, so that Newton steps from the
    left approach the root from the left. The start is the μ at which the first term of the
    curve, Φ(μ/2 - ε/μ), alone equals δ.
    """
    epsilon, delta = np.broadcast_arrays(epsilon, delta)
    a = -special.ndtri(delta)
    root = np.sqrt(np.square(a) + 2.0 * epsilon)
    # the positive root of μ²/2 + aμ - ε = 0, without cancellation
    mu = np.where(a > 0, 2.0 * epsilon / (np.abs(a) + root), np.abs(a) + root)
    for _ in range(100):
        logdelta, slope = gaussian_logdelta(mu, epsilon)
        residual = np.log(delta) - logdelta
        step = np.maximum(residual / slope, -0.5)
        mu = mu * np.exp(step)
        # where δ is close to 1 the curve is so flat that rounding decides the last step
        if ((np.abs(step) < 1e-14) | (np.abs(residual) < 1e-14)).all():
            return np.asarray(1.0 / mu)
    raise ConvergenceError("the analytic calibration of the Gaussian did not converge")


def gaussian_logdelta(mu: FloatArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log δ(ε) of the μ-GDP curve and its derivative in log μ.

    δ = Φ(-a) - e^ε Φ(-b) with a = ε/μ - μ/2 and b = a + μ (Balle and Wang 2018, Theorem 8). As
    e^ε φ(b) = φ(a), this is φ(a)·(m(a) - m(b)) with Mills' ratio m; where a and b are close, the
    difference is the integral of -m'(x) = 1 - x·m(x) instead.
    """
    a = epsilon / mu - 0.5 * mu
    half = 0.5 * np.minimum(mu, 1.0)[..., None]
    x = a[..., None] + half * (1.0 + _NODES)
    integral = half[..., 0] * ((1.0 - x * _mills(x)) @ _WEIGHTS)
    difference = np.where(mu <= 1.0, integral, _mills(a) - _mills(a + mu))
    logphi = -0.5 * np.square(a) - 0.5 * np.log(2.0 * np.pi)
    return logphi + np.log(difference), mu / difference


def _positive(value: ArrayLike, name: str) -> FloatArray:
    """Check a budget or a sensitivity: not so small or large that a scale overflows."""
    return check_parameter(value, name, gt=0, ge=1e-100, le=1e100)


def _sensitivity(sensitivity: ArrayLike, **budgets: FloatArray) -> FloatArray:
    """Check a sensitivity and that it broadcasts with the budgets."""
    change = _positive(sensitivity, "sensitivity")
    shapes = {name: budget.shape for name, budget in budgets.items()}
    check_broadcast(sensitivity=change.shape, **shapes)
    return change


def _mills(x: FloatArray) -> FloatArray:
    """(1 - Φ(x))/φ(x)."""
    return np.asarray(np.sqrt(0.5 * np.pi) * special.erfcx(x / np.sqrt(2.0)))


CALIBRATIONS = {"analytic": analytic_sigma, "classical": classical_sigma}
"""How an (ε, δ) budget becomes the σ of a Gaussian at sensitivity 1."""
