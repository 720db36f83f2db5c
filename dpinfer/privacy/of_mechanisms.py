"""The guarantee of a mechanism whose query has a given sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    NEIGHBOURS,
    FloatArray,
    Neighbours,
    check_array,
    check_broadcast,
    check_option,
    show,
)
from dpinfer._numerics.counts import deviance
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import (
    ExponentialMechanism,
    FiniteChannel,
    RandomizedResponse,
    UnaryEncoding,
)
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.samplers import Sampler
from dpinfer.mechanisms.selection import NoisyMax, SparseVector
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP

_WHOLE = 1e-9
"""Rounding error up to which a sensitivity counts as a whole number."""


@overload
def guarantee_of(
    mechanism: Any, sensitivity: ArrayLike = 1.0, neighbours: Neighbours | None = None
) -> Guarantee: ...


@overload
def guarantee_of(
    mechanism: Any,
    sensitivity: ArrayLike = 1.0,
    neighbours: Neighbours | None = None,
    *,
    kind: Literal["zcdp"],
) -> ZCDP: ...


def guarantee_of(
    mechanism: Any,
    sensitivity: ArrayLike = 1.0,
    neighbours: Neighbours | None = None,
    *,
    kind: Literal["zcdp"] | None = None,
) -> Guarantee:
    """Strongest named guarantee of a mechanism, or its smallest known ρ.

    Parameters
    ----------
    mechanism : law of noise, channel, ExponentialMechanism, NoisyMax or SparseVector
        What was used: a channel is a RandomizedResponse, a UnaryEncoding or a Channel. A law with
        an array of scales stands for a vector that is published whole. Sums of noises are refused,
        as they are not what was published.
    sensitivity : float or array of float, default 1
        The sensitivity of the query under ``neighbours``: of a vector, its L1 sensitivity for
        Laplace and geometric noise, and its L2 sensitivity for (discrete) Gaussian noise. An array
        is the largest change of each cell, and all cells may change together. That of integer noise
        is whole. Randomized response and mechanisms that select know theirs: leave it at 1.
    neighbours : {"add-remove", "replace"}, optional
        The relation for which the sensitivity holds. By default ``"add-remove"``, and for
        randomized response ``"replace"``, the only one it protects: the number of respondents is
        seen.
    kind : {"zcdp"}, optional
        Zero-concentrated differential privacy, from the law of the mechanism and not only from
        its ε: never above ``guarantee_of(...).to_zcdp()``, and refused where δ > 0.

    Returns
    -------
    PureDP, ApproxDP, GDP or ZCDP
        ε = Δ₁/b for Laplace and geometric noise, μ = Δ₂/σ for Gaussian, ρ = Δ₂²/(2σ²) for discrete
        Gaussian noise. Tulap noise has ε = ⌈Δ⌉/s, and δ > 0 if it is truncated.

    Notes
    -----
    Rounded noise has the guarantee of the noise that was rounded. With one sensitivity for cells of
    several scales the cell with the smallest scale may take up all of it, and decides. A
    mechanism that selects with ``monotonic=True`` is ε-DP for adding or removing a record, and
    2ε-DP for replacing one.

    As zCDP, with ε the privacy loss: Laplace ε + e^{-ε} - 1; geometric noise of scale s and a
    change of Δ the sum over j = 1, …, Δ of (1 + a - 2aʲ)/((1 + a)s) with a = e^{-1/s}; randomized
    response (p - q)ε with q = (1-p)/(k-1) for k <= 6 categories; the exponential mechanism
    r - 1 - ln r with r = ε/(e^ε - 1), at most ε²/8. Each is the Kullback-Leibler divergence of the
    worst pair, and the smallest possible ρ. For k > 6 it is the largest divergence per order, found
    numerically on a grid of orders; for (discrete) Gaussian noise it is Δ²/(2σ²), and for other
    mechanisms ε·tanh(ε/2).

    References
    ----------
    Dwork and Roth (2014), doi:10.1561/0400000042, Theorems 3.6 and 3.10. Dong, Roth and Su (2022),
    doi:10.1111/rssb.12454, Theorem 1. Canonne, Kamath and Steinke (2022), doi:10.29012/jpc.784,
    Theorem 4. Harrison and Manurangsi (2025), Exact zCDP characterizations for fundamental
    differentially private mechanisms, doi:10.4230/LIPIcs.FORC.2026.3. Cesar and Rogers (2021),
    arXiv:2004.07223 (ε²/8 of the exponential mechanism).

    Examples
    --------
    >>> from dpinfer import DiscreteGaussian, Gaussian, Laplace
    >>> guarantee_of(Laplace(scale=2.0), 3.0)
    PureDP(epsilon=1.5, neighbours='add-remove')
    >>> guarantee_of(Gaussian(sigma=2.0), neighbours="replace")
    GDP(mu=0.5, neighbours='replace')
    >>> guarantee_of(DiscreteGaussian(sigma=2.0), [1, 1])
    ZCDP(rho=0.25, neighbours='add-remove')
    >>> round(guarantee_of(Laplace(scale=1.0), kind="zcdp").rho, 6)
    0.367879
    """
    if kind is not None:
        check_option(kind, "kind", ("zcdp",))
    if neighbours is not None:
        check_option(neighbours, "neighbours", NEIGHBOURS)
    change = check_array(sensitivity, "sensitivity", ge=0, le=1e100)
    if isinstance(mechanism, Rounded):
        mechanism = mechanism.law
    for law, rule in _RULES.items():
        if isinstance(mechanism, law):
            with np.errstate(over="ignore"):  # what overflows is refused by the guarantee
                found = rule(mechanism, change, neighbours)
            if kind is None:
                return found
            general, own = found.to_zcdp(), _RHO_RULES.get(type(mechanism))
            if own is None:
                return general
            rho = own(mechanism, change, found.epsilon_at(0.0))
            return replace(general, rho=min(rho, general.rho))
    for law, reason in _NO_GUARANTEE.items():
        if isinstance(mechanism, law):
            raise InvalidParameterError(f"mechanism {show(mechanism)} has no guarantee: {reason}")
    raise InvalidParameterError(
        "mechanism must be a law of noise, a channel, an ExponentialMechanism, a NoisyMax or "
        f"a SparseVector, got {show(mechanism)}"
    )


def _laplace(law: Any, change: FloatArray, neighbours: Neighbours | None) -> PureDP:
    if law.is_integer:
        demand_whole(change, law)
    return PureDP(_ratio(change, law.scale, 1), neighbours=neighbours or "add-remove")


def _gaussian(law: Gaussian, change: FloatArray, neighbours: Neighbours | None) -> GDP:
    return GDP(_ratio(change, law.sigma, 2), neighbours=neighbours or "add-remove")


def _discrete(law: DiscreteGaussian, change: FloatArray, neighbours: Neighbours | None) -> ZCDP:
    # an L2 sensitivity of whole changes is the root of a whole number
    demand_whole(change if change.ndim else np.square(change), law)
    check_broadcast(sensitivity=change.shape, mechanism=law.shape)
    squared = np.square(change / (law.sigma if change.ndim else np.min(law.sigma)))
    return ZCDP(0.5 * float(np.sum(squared)), neighbours=neighbours or "add-remove")


def _tulap(law: Tulap, change: FloatArray, neighbours: Neighbours | None) -> ApproxDP | PureDP:
    if change.ndim or law.shape:
        raise InvalidParameterError(
            f"mechanism must have one scale, and sensitivity be one number, for Tulap noise, got "
            f"{law} and {change}: compose the guarantees of the cells"
        )
    relation = neighbours or "add-remove"
    steps, rate = float(np.ceil(change - _WHOLE)), 1.0 / float(law.scale)
    cut = float(law.truncation)
    if cut == 0:
        return PureDP(steps * rate, neighbours=relation)
    # q = 2δb/(1 - b + 2δb) with b = e^-ε, solved for δ (Awan and Slavković 2018)
    log_delta = np.log(0.5 * cut) - np.log1p(-cut) + rate + np.log(-np.expm1(-rate))
    if log_delta >= 0:
        raise InvalidParameterError(
            f"mechanism {law} has no guarantee: a change of 1 leads to values that were impossible"
        )
    single = ApproxDP(rate, np.exp(log_delta), neighbours=relation)
    return single.group(int(steps)) if steps else ApproxDP(0.0, 0.0, neighbours=relation)


def _response(channel: FiniteChannel, change: FloatArray, neighbours: Neighbours | None) -> PureDP:
    demand_default(change, type(channel).__name__)
    if neighbours == "add-remove":
        raise InvalidParameterError(
            'neighbours must be "replace" for randomized response, got "add-remove": every '
            "respondent gives an answer, so that the number of respondents is seen"
        )
    epsilon = channel.epsilon
    if np.isinf(epsilon):
        raise InvalidParameterError(
            f"mechanism {show(channel)} has no ε at δ = 0: some report is possible under one truth "
            "only; privacy_loss tells its ε at a δ > 0"
        )
    return PureDP(epsilon, neighbours="replace")


def _exponential(
    mechanism: ExponentialMechanism | NoisyMax | SparseVector,
    change: FloatArray,
    neighbours: Neighbours | None,
) -> PureDP:
    demand_default(change, type(mechanism).__name__)
    # a replacement is a removal and an addition, whose scores move in opposite directions
    twice = mechanism.monotonic and neighbours == "replace"
    return PureDP(mechanism.epsilon * (2 if twice else 1), neighbours=neighbours or "add-remove")


def _ratio(change: FloatArray, scale: Any, power: int) -> float:
    """Sensitivity in units of the noise: summed over cells that change together."""
    if change.ndim == 0:
        return float(change) / float(np.min(scale))
    check_broadcast(sensitivity=change.shape, mechanism=np.shape(scale))
    return float(np.linalg.norm((change / scale).ravel(), power))


def demand_whole(change: FloatArray, law: Any) -> FloatArray:
    """Return changes of whole numbers without their rounding errors, and refuse others."""
    whole = np.rint(change)
    if (bad := np.abs(change - whole) > _WHOLE * np.maximum(whole, 1.0)).any():
        raise InvalidParameterError(
            f"sensitivity must be that of a query with whole-number answers for {show(law)}, got "
            f"{change[bad][0]:g}: between whole numbers the releases of neighbouring data sets "
            "have no value in common; pass the changes of the cells for a vector, or use "
            "continuous noise"
        )
    return whole


def demand_default(change: FloatArray, name: str) -> None:
    """Refuse a sensitivity for a mechanism that knows its own."""
    if change.ndim or change != 1.0:
        raise InvalidParameterError(
            f"sensitivity must be left at 1 for {name}, which knows its own, got {show(change)}"
        )


_RULES: dict[type, Callable[..., Guarantee]] = {
    Laplace: _laplace,
    Geometric: _laplace,
    Gaussian: _gaussian,
    DiscreteGaussian: _discrete,
    Tulap: _tulap,
    FiniteChannel: _response,
    ExponentialMechanism: _exponential,
    NoisyMax: _exponential,
    SparseVector: _exponential,
}

_NO_GUARANTEE: dict[type, str] = {
    Exact: "it adds no noise",
    WeightedSum: "it is the noise of a function of published values, which costs nothing; take "
    "the mechanism of what was published",
    IndependentNoise: "its parts differ in kind; compose the guarantees of the parts",
}


# The smallest ρ of a mechanism: below what its ε alone would give.


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_MAX_STEPS = 10**6
_CLOSED_CATEGORIES = 6
_LOG_X = np.linspace(np.log(1e-6), np.log(600.0), 2001)
_ZOOMS = 5


def _rho_laplace(law: Laplace, change: FloatArray, epsilon: float) -> float:
    losses = np.atleast_1d(epsilon) if change.ndim == 0 else (change / law.scale).ravel()
    # ε + e^-ε - 1 is the integral of 1 - e^-t, without cancellation
    near = np.minimum(losses, 1.0)
    points = 0.5 * near[:, None] * (1.0 + _NODES)
    integral = 0.5 * near * (-np.expm1(-points) @ _WEIGHTS)
    return float(np.where(losses <= 1.0, integral, losses + np.expm1(-losses)).sum())


def _rho_geometric(law: Geometric, change: FloatArray, epsilon: float) -> float:
    scales = np.min(law.scale) if change.ndim == 0 else law.scale
    changes, steps = np.broadcast_arrays(np.rint(change), scales)
    if changes.sum() > _MAX_STEPS:
        return np.inf
    total = 0.0
    for one, scale in zip(changes.flat, steps.flat, strict=True):
        rate, j = 1.0 / scale, np.arange(1.0, one + 1.0)
        a = np.exp(-rate)
        # (1 + a - 2aʲ)/((1 + a)s) from (1 - aʲ) + a(1 - aʲ⁻¹), which are positive
        terms = -np.expm1(-j * rate) - a * np.expm1(-(j - 1.0) * rate)
        total += float(terms.sum() * rate / (1.0 + a))
    return total


def _rho_response(
    channel: RandomizedResponse | UnaryEncoding, change: FloatArray, epsilon: float
) -> float:
    # the probability of the loss -ε
    bits = isinstance(channel, UnaryEncoding)
    wrong = channel.q * (1.0 - channel.p if bits else 1.0)
    divergence = wrong * float(np.expm1(epsilon)) * epsilon
    if epsilon == 0 or (not bits and channel.categories <= _CLOSED_CATEGORIES):
        return divergence

    # the largest divergence per order, searched over x = (α - 1)ε
    def ratio(log_x: FloatArray) -> FloatArray:
        # the moment p^α q^(1-α) + q^α p^(1-α) + (k-2)q is 1 + q(e^ε(e^x - 1) + e^-x - 1)
        x = np.exp(log_x)
        moment = wrong * (np.exp(epsilon) * np.expm1(x) + np.expm1(-x))
        return np.asarray(np.log1p(moment) * epsilon * epsilon / (x * (x + epsilon)))

    points = _LOG_X
    for _ in range(_ZOOMS):
        best = int(np.argmax(ratio(points)))
        points = np.linspace(points[max(best - 1, 0)], points[min(best + 1, points.size - 1)], 41)
    return max(divergence, float(ratio(points).max()))


def _rho_exponential(mechanism: ExponentialMechanism, change: FloatArray, epsilon: float) -> float:
    # r - 1 - ln r with r = ε/(e^ε - 1), of which ln r is computed
    if epsilon >= 1.0:
        log_r = np.log(epsilon) - epsilon - np.log1p(-np.exp(-epsilon))
        return float(np.exp(log_r) - 1.0 - log_r)
    # u = r - 1 without cancellation; u - ln(1 + u) is (1 + u)·D(-u/(1 + u))
    square = epsilon * epsilon
    series = -0.5 * epsilon + square / 12.0 - square * square / 720.0
    u = series if epsilon < 0.01 else epsilon / np.expm1(epsilon) - 1.0
    return float((1.0 + u) * deviance(np.array(-u / (1.0 + u))))


_RHO_RULES: dict[type, Callable[..., float]] = {
    Laplace: _rho_laplace,
    Geometric: _rho_geometric,
    RandomizedResponse: _rho_response,
    UnaryEncoding: _rho_response,
    ExponentialMechanism: _rho_exponential,
}


class Drawn:
    """What carries its guarantee only where its noise came from a sampler made for releases."""

    sampler: Sampler
    nominal: Guarantee

    @property
    def simulated(self) -> bool:
        """Whether the noise is that of a simulation, in floating point: not to be published."""
        return self.sampler == "simulated"

    @property
    def guarantee(self) -> Guarantee | None:
        """What is guaranteed: ``nominal`` for a release, nothing (None) if simulated."""
        return None if self.simulated else self.nominal

    def _facts(self, spent: str) -> list[tuple[str, object]]:
        """Return the lines of a summary that say what was spent, or that nothing is guaranteed."""
        relation = ("Neighbours", self.nominal.neighbours)
        if self.simulated:
            return [
                ("Noise drawn by", "simulation: carries no guarantee, not for publication"),
                (f"Would be: {spent.lower()}", self.nominal.in_words()),
                relation,
            ]
        return [("Noise drawn by", "OpenDP"), (spent, self.nominal.in_words()), relation]
