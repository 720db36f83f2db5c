"""What taking part can do to the expected utility of a person."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import check_array, check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.semantics._protection import guarantee_for, pure_epsilon
from dpinfer.privacy.semantics.trade_off import TradeOff


def utility_bounds(
    protection: Any,
    expected: ArrayLike,
    *,
    lower: float = 0.0,
    upper: float = np.inf,
    sensitivity: float = 1.0,
    group: int = 1,
) -> tuple[Any, Any]:
    """Bounds on the expected utility of a person who takes part, given that without them.

    The utility is any function of what is released, and so of all that follows from it.

    Parameters
    ----------
    protection : Guarantee, mechanism or PrivacyLoss
        What protects the data. A statement is about the neighbours of the guarantee: data sets that
        differ by one record more or less, or by one that is replaced; for a mechanism, about those
        for which the sensitivity holds.
    expected : float or array of float
        The expected utility of the release on a neighbouring data set, without the record or, for
        ``neighbours="replace"``, with another in its place; within [``lower``, ``upper``].
    lower, upper : float, default 0 and infinity
        The smallest and the largest utility that any release can have. ``lower`` is finite.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records that take part, or do not, together.

    Returns
    -------
    lower, upper : float or array of float
        The bounds, of the shape of ``expected``.

    Raises
    ------
    InvalidParameterError
        If ``expected`` is outside its range, or ``upper`` is infinite and the guarantee implies no
        ε-DP: a small probability may then carry any utility.

    Notes
    -----
    A utility scaled to [0, 1] is a test, its expectations a level and a power: the bounds are the
    largest power at the level ``expected``, and the smallest level of which ``expected`` is the
    power. Both are attained by some utility where the curve of powers is. Without ``upper``, ε-DP
    gives the factors e^{-ε} and e^ε for what is above ``lower``.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Section 2.3.1.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import ApproxDP, PureDP
    >>> low, high = utility_bounds(PureDP(0.1), 50.0)
    >>> round(float(low), 6), round(float(high), 6)
    (45.241871, 55.258546)
    >>> low, high = utility_bounds(ApproxDP(0.1, 1e-3), 50.0, upper=100.0)
    >>> round(float(low), 6), round(float(high), 6)
    (45.151387, 54.848613)
    """
    least = check_scalar(lower, "lower")
    most = check_scalar(upper, "upper", finite=False)
    if not most > least:
        raise InvalidParameterError(f"upper must be > lower = {least}, got {most}")
    utility = check_array(expected, "expected", ge=least, le=most)
    above = utility - least
    if np.isinf(most):
        epsilon = pure_epsilon(guarantee_for(protection, sensitivity, group))
        with np.errstate(over="ignore", invalid="ignore"):
            high = np.where(above > 0, above * np.exp(epsilon), 0.0)
        return (least + above * np.exp(-epsilon))[()], (least + high)[()]
    curve = TradeOff(protection, sensitivity, group)
    share = np.minimum(above / (most - least), 1.0)
    low, high = np.asarray(curve.level(share)), np.asarray(curve.power(share))
    return (least + (most - least) * low)[()], (least + (most - least) * high)[()]
