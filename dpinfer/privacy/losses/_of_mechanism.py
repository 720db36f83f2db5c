"""The law of the privacy loss of each mechanism at a sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray, check_broadcast, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
)
from dpinfer.privacy.losses._laws.discrete_gaussian import DiscreteGaussianLoss
from dpinfer.privacy.losses._laws.gaussian import GaussianLoss
from dpinfer.privacy.losses._laws.geometric import GeometricLoss
from dpinfer.privacy.losses._laws.laplace import LaplaceLoss
from dpinfer.privacy.losses._laws.law import LossLaw
from dpinfer.privacy.losses._laws.response import ResponseLoss

WHOLE = 1e-9
"""Rounding error up to which a sensitivity counts as a whole number."""

LARGEST_LOSS = 1e6
SMALLEST_LOSS = 1e-12
MOST_CELLS = 1000


def laws_of(mechanism: Any, change: FloatArray) -> list[LossLaw]:
    """Laws of the losses of the cells that a change reaches; none for a change of nothing."""
    for kind, rule in _RULES.items():
        if isinstance(mechanism, kind):
            return rule(mechanism, change)
    raise InvalidParameterError(
        "mechanism must be Laplace, Geometric, Gaussian, DiscreteGaussian or RandomizedResponse, "
        f"got {show(mechanism)}" + (": it adds no noise" if isinstance(mechanism, Exact) else "")
    )


def _laplace(law: Laplace, change: FloatArray) -> list[LossLaw]:
    pairs = _cells(law, law.scale, change, "L1")
    return [LaplaceLoss(_checked(step / scale, change, law)) for step, scale in pairs]


def _geometric(law: Geometric, change: FloatArray) -> list[LossLaw]:
    pairs = _cells(law, law.scale, _whole(change, law), "L1")
    return [_geometric_loss(1.0 / scale, int(step), law) for step, scale in pairs]


def _geometric_loss(rate: float, steps: int, law: Geometric) -> LossLaw:
    _checked(rate * steps, np.asarray(float(steps)), law)
    if steps == 1:
        return ResponseLoss(rate, float(special.expit(rate)))
    return GeometricLoss(rate, steps)


def _gaussian(law: Gaussian, change: FloatArray) -> list[LossLaw]:
    if change.ndim == 0:  # the cell with the least noise may take up all of the L2 sensitivity
        mu = float(change) / float(np.min(law.sigma))
    else:
        check_broadcast(sensitivity=change.shape, mechanism=law.shape)
        mu = float(np.linalg.norm((change / law.sigma).ravel()))
    return [GaussianLoss(_checked(mu, change, law) ** 2)] if mu else []


def _discrete(law: DiscreteGaussian, change: FloatArray) -> list[LossLaw]:
    pairs = _cells(law, law.sigma, _whole(change, law), "L2")
    for step, sigma in pairs:
        _checked(step / sigma, change, law)
        _checked(max(0.5 * (step / sigma) ** 2, SMALLEST_LOSS), change, law)
    return [DiscreteGaussianLoss(sigma, int(step)) for step, sigma in pairs]


def _response(channel: RandomizedResponse, change: FloatArray) -> list[LossLaw]:
    if change.ndim or change != 1.0:
        raise InvalidParameterError(
            "sensitivity must be left at 1 for RandomizedResponse, which knows its own, got "
            f"{show(change)}"
        )
    epsilon = channel.epsilon
    if epsilon < SMALLEST_LOSS:
        return []
    others = channel.categories - 2
    # the two probabilities as the channel has them, scaled so that they and the rest add up to 1
    flipped = float(np.exp(-epsilon))
    kept = 1.0 / (1.0 + (others + 1) * flipped)
    return [ResponseLoss(epsilon, kept, others * kept * flipped)]


def _cells(law: Any, scales: Any, change: FloatArray, norm: str) -> list[tuple[float, float]]:
    """Change and scale of each cell that changes."""
    if change.ndim == 0 and np.ndim(scales):
        raise InvalidParameterError(
            f"sensitivity must have one entry for each cell of {show(law)}, the largest change of "
            f"the cell, got the {norm} sensitivity {float(change)}: which cells it moves decides "
            "the law of the loss, and no worst choice is known"
        )
    shape = check_broadcast(sensitivity=change.shape, mechanism=np.shape(scales))
    steps = np.broadcast_to(change, shape).ravel()
    noise = np.broadcast_to(np.asarray(scales, dtype=np.float64), shape).ravel()
    moved = steps > 0
    return [(float(s), float(b)) for s, b in zip(steps[moved], noise[moved], strict=True)]


def _whole(change: FloatArray, law: Any) -> FloatArray:
    whole = np.rint(change)
    if (bad := np.abs(change - whole) > WHOLE * np.maximum(whole, 1.0)).any():
        raise InvalidParameterError(
            f"sensitivity must be a whole number for {show(law)}, got {change[bad][0]:g}: between "
            "whole numbers the releases of neighbouring data sets have no value in common; pass "
            "the changes of the cells for a vector, or use continuous noise"
        )
    return whole


def _checked(loss: float, change: FloatArray, law: Any) -> float:
    if not SMALLEST_LOSS <= loss <= LARGEST_LOSS:
        size = "large" if loss > 1.0 else "small"
        raise InvalidParameterError(
            f"sensitivity {show(change)} is too {size} for {show(law)}: the privacy loss must be "
            f"within [{SMALLEST_LOSS:g}, {LARGEST_LOSS:g}], got {loss:g}"
        )
    return loss


_RULES: dict[type, Callable[..., list[LossLaw]]] = {
    Laplace: _laplace,
    Geometric: _geometric,
    Gaussian: _gaussian,
    DiscreteGaussian: _discrete,
    RandomizedResponse: _response,
}
