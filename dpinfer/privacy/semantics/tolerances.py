"""At which ε a stated rise of what an attacker believes cannot happen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._validation import NEIGHBOURS, Neighbours, check_array, check_broadcast, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.semantics.posterior_bounds import Counterfactual, steps


def epsilon_for_rise(
    rise: ArrayLike,
    *,
    baseline: ArrayLike | None = None,
    counterfactual: Counterfactual = "deleted",
    neighbours: Neighbours = "add-remove",
    group: int = 1,
) -> Any:
    """Largest ε at which taking part raises what any attacker believes by no more than a share.

    "I take part if the probability that somebody tells my answer from the results rises by at
    most 25 %": ``epsilon_for_rise(0.25)``, which is ½·ln 1.25.

    Parameters
    ----------
    rise : float or array of float
        The rise >= 0 that is tolerated, relative to the posterior probability in a world without
        the record: 0.25 for 25 %.
    baseline : float or array of float, optional
        A lower bound, within (0, 1), on that posterior probability. Not needed; with it a larger ε
        may do.
    counterfactual : {"deleted", "default", "draw"}
        The world without the record; see :func:`posterior_bounds`.
    neighbours : {"add-remove", "replace"}
        The relation of the guarantee.
    group : int, default 1
        The number of records that take part, or do not, together.

    Returns
    -------
    float or array of float
        The ε; infinite where the rise leads to a probability of 1 or more, which is no limit.

    Raises
    ------
    InvalidParameterError
        If ``rise`` is negative or ``baseline`` outside (0, 1).
    IncompatibleReleaseError
        If the record is deleted and ``neighbours`` is ``"replace"``.

    Notes
    -----
    The posterior rises by a factor of at most e^{cε}, so that ε = ln(1 + rise)/c, where c = 2 for a
    deleted record; see :func:`posterior_bounds`. At a baseline q the odds bound gives
    ε = (logit((1 + rise)·q) - logit(q))/2, which is more, and grows with q.

    Examples
    --------
    >>> round(float(epsilon_for_rise(0.25)), 6)
    0.111572
    >>> round(float(epsilon_for_rise(0.25, baseline=0.02)), 6)
    0.114129
    >>> epsilon_for_rise([0.1, 1.0], counterfactual="draw", neighbours="replace").round(6)
    array([0.09531 , 0.693147])
    """
    tolerated = check_array(rise, "rise", ge=0)
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    per_probability, per_odds = steps(counterfactual, relation, group)
    epsilon = np.log1p(tolerated) / per_probability
    if baseline is None:
        return epsilon[()]
    before = check_array(baseline, "baseline", gt=0, lt=1)
    check_broadcast(rise=tolerated.shape, baseline=before.shape)
    after = (1.0 + tolerated) * before
    with np.errstate(invalid="ignore", divide="ignore"):
        by_complement = (np.log1p(-before) - np.log1p(-after)) / per_probability
        by_odds = (special.logit(after) - special.logit(before)) / per_odds
    best = np.maximum(np.maximum(epsilon, by_complement), by_odds)
    return np.where(after < 1, best, np.inf)[()]


def epsilon_for_odds(
    limit: ArrayLike,
    baseline: ArrayLike,
    *,
    counterfactual: Counterfactual = "deleted",
    neighbours: Neighbours = "add-remove",
    group: int = 1,
) -> Any:
    """Largest ε at which the posterior odds stay within a limit.

    An insurer who would hold the odds of a disease at 1.1 without the record, and raises the
    premium in proportion to the odds above 1, cannot charge more than odds of 1.2 lead to if
    ε ≤ ``epsilon_for_odds(1.2, 1.1)``.

    Parameters
    ----------
    limit : float or array of float
        The odds that shall not be exceeded, > 0.
    baseline : float or array of float
        The posterior odds in the world without the record, > 0 and at most ``limit``.
    counterfactual : {"deleted", "default", "draw"}
        The world without the record; see :func:`posterior_bounds`.
    neighbours : {"add-remove", "replace"}
        The relation of the guarantee.
    group : int, default 1
        The number of records that take part, or do not, together.

    Returns
    -------
    float or array of float
        ε = ln(limit/baseline)/2 for a deleted record.

    Raises
    ------
    InvalidParameterError
        If an argument is not > 0, or ``baseline`` exceeds ``limit``.
    IncompatibleReleaseError
        If the record is deleted and ``neighbours`` is ``"replace"``.

    See Also
    --------
    posterior_bounds : the other way round, the largest odds at a given ε.

    Examples
    --------
    >>> round(float(epsilon_for_odds(1.2, 1.1)), 6)
    0.043506
    """
    most = check_array(limit, "limit", gt=0)
    before = check_array(baseline, "baseline", gt=0)
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    check_broadcast(limit=most.shape, baseline=before.shape)
    per_odds = steps(counterfactual, relation, group)[1]
    gap = np.log(most) - np.log(before)
    if (gap < 0).any():
        raise InvalidParameterError(
            "baseline must be at most limit: odds that are above it without the record cannot be "
            "kept within it by any epsilon"
        )
    return (gap / per_odds)[()]
