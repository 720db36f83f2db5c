"""What protects: a guarantee, a mechanism or a privacy loss, as a curve of powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import check_array, check_integer, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, ExponentialMechanism, Gaussian, RandomizedResponse, Tulap
from dpinfer.privacy.composition import RepeatedDP
from dpinfer.privacy.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_of,
)
from dpinfer.privacy.guarantees._divergence_curve import ConcentratedCurve, RenyiCurve
from dpinfer.privacy.guarantees._power_curve import Curve
from dpinfer.privacy.losses import PrivacyLoss, privacy_loss
from dpinfer.privacy.semantics._curves.gaussian import GaussianCurve
from dpinfer.privacy.semantics._curves.losses import LossCurve
from dpinfer.privacy.semantics._curves.piecewise import PiecewiseCurve
from dpinfer.privacy.semantics._curves.repeated import RepeatedCurve

MAX_GROUP = 10**9

_LEAST_BOUND = 1e-60
"""A smaller bound on a divergence moves no power by as much as a float can show."""

_BY_GUARANTEE = (Gaussian, Tulap, ExponentialMechanism, Exact)
"""Mechanisms whose named guarantee is exact, or the best that is known of them."""


def curve_of(protection: Any, sensitivity: ArrayLike = 1.0, group: int = 1) -> Curve:
    """Return the curve of the largest power, for groups of the given size."""
    known = resolve(protection, sensitivity, group)
    if isinstance(known, PrivacyLoss):
        return LossCurve(known)
    for kind, rule in _CURVES.items():
        if isinstance(known, kind):
            return rule(known)
    raise InvalidParameterError(f"no bound on the power is known for the guarantee {known}")


def resolve(protection: Any, sensitivity: ArrayLike = 1.0, group: int = 1) -> Any:
    """Return the guarantee or the privacy loss for groups of the given size."""
    size = check_integer(group, "group", ge=1, le=MAX_GROUP)
    change = check_array(sensitivity, "sensitivity", ge=0, le=1e100)
    if isinstance(protection, (Guarantee, PrivacyLoss)):
        if change.ndim or change != 1.0:
            raise InvalidParameterError(
                f"sensitivity must be left at 1 for {type(protection).__name__}, whose parameters "
                f"account for it already, got {show(sensitivity)}"
            )
        if isinstance(protection, Guarantee):
            return protection.group(size)
        if size > 1:
            raise InvalidParameterError(
                f"group must be 1 for a privacy loss, got {size}: make it from the mechanism with "
                "the sensitivity of the group"
            )
        return protection
    if isinstance(protection, _BY_GUARANTEE):
        return guarantee_of(protection, sensitivity).group(size)
    if isinstance(protection, RandomizedResponse):
        # every member of the group gives an answer of their own
        return privacy_loss(protection, sensitivity=sensitivity, compositions=size)
    return privacy_loss(protection, sensitivity=(size * change)[()])


def guarantee_for(protection: Any, sensitivity: ArrayLike = 1.0, group: int = 1) -> Guarantee:
    """Return the guarantee for groups, of a mechanism the strongest named one."""
    size = check_integer(group, "group", ge=1, le=MAX_GROUP)
    if isinstance(protection, Guarantee):
        found = resolve(protection, sensitivity, size)
    else:
        found = guarantee_of(protection, sensitivity).group(size)
    assert isinstance(found, Guarantee)
    return found


def pure_epsilon(guarantee: Guarantee) -> float:
    """Return the ε of a guarantee that implies ε-differential privacy, or refuse."""
    # an amplified guarantee is converted to no other, but its ε holds all the same
    if isinstance(guarantee, ApproxDP) and guarantee.delta == 0:
        return guarantee.epsilon
    return guarantee.to_pure_dp().epsilon


def _pure(guarantee: PureDP) -> Curve:
    return PiecewiseCurve(guarantee.epsilon, 0.0)


def _approximate(guarantee: ApproxDP) -> Curve:
    return PiecewiseCurve(guarantee.epsilon, guarantee.delta)


def _gaussian(guarantee: GDP) -> Curve:
    return GaussianCurve(guarantee.mu)


def _concentrated(guarantee: ZCDP) -> Curve:
    if guarantee.rho == 0:
        return PiecewiseCurve(0.0, 0.0)
    return ConcentratedCurve(max(guarantee.rho, _LEAST_BOUND))


def _renyi(guarantee: RDP) -> Curve:
    order, bound = guarantee.curve
    # a divergence of 0 at one order means that the laws are equal
    if (bound == 0).any():
        return PiecewiseCurve(0.0, 0.0)
    return RenyiCurve(np.asarray(order) - 1.0, np.maximum(bound, _LEAST_BOUND))


def _repeated(guarantee: RepeatedDP) -> Curve:
    return RepeatedCurve(guarantee.epsilon, guarantee.delta, guarantee.count)


_CURVES: dict[type, Callable[[Any], Curve]] = {
    PureDP: _pure,
    ApproxDP: _approximate,
    GDP: _gaussian,
    ZCDP: _concentrated,
    RDP: _renyi,
    RepeatedDP: _repeated,
}
