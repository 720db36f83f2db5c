"""Exact bounds of a probability from how often something happened."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._validation import FloatArray


def clopper_pearson(
    events: ArrayLike, trials: ArrayLike, error: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of Clopper and Pearson for probabilities.

    Parameters
    ----------
    events, trials : array of float
        In how many of how many trials each event happened.
    error : float or array of float
        Probability, at most, with which each of the two bounds misses, in (0, 1).

    Returns
    -------
    lower, upper : array of float
        The bounds: the smallest p with P(X >= x; p) >= error and the largest p with
        P(X <= x; p) >= error, for X binomial; 0 and 1 where there are no trials.

    References
    ----------
    Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits illustrated
    in the case of the binomial. Biometrika 26, 404-413. doi:10.1093/biomet/26.4.404.

    Examples
    --------
    >>> lower, upper = clopper_pearson([0, 5], [10, 10], 0.025)
    >>> lower.round(4), upper.round(4)
    (array([0.    , 0.1871]), array([0.3085, 0.8129]))
    """
    happened = np.asarray(events, dtype=np.float64)
    others = np.asarray(trials, dtype=np.float64) - happened
    # a beta quantile has no parameter 0: the bound is 0 or 1 there
    low = special.betaincinv(np.maximum(happened, 1.0), others + 1.0, error)
    high = special.betainccinv(happened + 1.0, np.maximum(others, 1.0), error)
    return np.where(happened > 0, low, 0.0), np.where(others > 0, high, 1.0)
