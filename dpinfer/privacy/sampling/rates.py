"""How a sampling rate changes ε, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, check_array, check_broadcast

SMALLEST_RATE = 1e-100


def amplified_epsilon(epsilon: ArrayLike, rate: ArrayLike) -> Any:
    """ε for the population of what is ε-private on a secret sample: ln(1 + β(e^ε - 1)).

    Parameters
    ----------
    epsilon : float or array of float
        The ε >= 0 of all that is computed on the sample, together.
    rate : float or array of float
        The sampling rate β, within [1e-100, 1].

    Returns
    -------
    float or array of float
        The ε of the population, accurate relative to itself.

    Raises
    ------
    InvalidParameterError
        If an argument is out of range, or their shapes do not broadcast.

    See Also
    --------
    sample_epsilon : the inverse.
    amplify : the same for guarantees, with the checks that belong to it.

    Examples
    --------
    >>> round(amplified_epsilon(1.0, 0.05), 12)
    0.082422112879
    """
    loss, share = _arguments(epsilon, rate)
    near = np.log1p(share * np.expm1(np.minimum(loss, 700.0)))
    far = loss + np.log(share + (1.0 - share) * np.exp(-loss))
    return _plain(np.where(loss <= 700.0, near, far))


def sample_epsilon(epsilon: ArrayLike, rate: ArrayLike) -> Any:
    """ε that may be spent on a secret sample for ε of the population: ln(1 + (e^ε - 1)/β).

    Parameters
    ----------
    epsilon : float or array of float
        The ε >= 0 of the population.
    rate : float or array of float
        The sampling rate β, within [1e-100, 1].

    Returns
    -------
    float or array of float
        The ε of all that is computed on the sample, together; accurate relative to itself.

    Raises
    ------
    InvalidParameterError
        If an argument is out of range, or their shapes do not broadcast.

    Examples
    --------
    >>> round(sample_epsilon(amplified_epsilon(1.0, 0.05), 0.05), 12)
    1.0
    """
    loss, share = _arguments(epsilon, rate)
    near = np.log1p(np.expm1(np.minimum(loss, 1.0)) / share)
    far = loss - np.log(share) + np.log1p(-(1.0 - share) * np.exp(-np.maximum(loss, 1.0)))
    return _plain(np.where(loss <= 1.0, near, far))


def _arguments(epsilon: ArrayLike, rate: ArrayLike) -> tuple[FloatArray, FloatArray]:
    loss = check_array(epsilon, "epsilon", ge=0)
    share = check_array(rate, "rate", gt=0, ge=SMALLEST_RATE, le=1)
    check_broadcast(epsilon=loss.shape, rate=share.shape)
    return loss, share


def _plain(values: FloatArray) -> Any:
    return values if values.ndim else float(values)
