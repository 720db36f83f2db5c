"""The exponential mechanism: choose one of several options by their noisy merit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_array,
    check_flag,
    check_rng,
    check_scalar,
    check_shape,
)
from dpinfer.errors import InvalidParameterError


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism:
    """Choose an option with probability proportional to exp(ε·score/(2Δ)).

    Parameters
    ----------
    epsilon : float
        The budget ε > 0.
    sensitivity : float, default 1
        The largest change Δ > 0 of any one score between neighbouring databases.
    monotonic : bool, default False
        Whether one record more moves all the scores in the same direction, as with counts under
        add-remove neighbours. Then exp(ε·score/Δ) has the same privacy and is used.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    The choice is ε-differentially private. A score of -inf forbids an option; that is private only
    if the same options are forbidden for every database. Everything is computed from differences
    to the largest score, so that scores of any size neither overflow nor underflow.

    References
    ----------
    McSherry, F. and Talwar, K. (2007). Mechanism design via differential privacy. 48th IEEE
    Symposium on Foundations of Computer Science, 94-103. doi:10.1109/FOCS.2007.66, Theorem 6.

    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Definition 3.4.

    Examples
    --------
    >>> mechanism = ExponentialMechanism(epsilon=2.0)
    >>> mechanism.probabilities([10, 9, 7]).round(6)
    array([0.705385, 0.259496, 0.035119])
    >>> mechanism.log_probabilities([0, -1e4])
    array([     0., -10000.])
    """

    epsilon: float
    sensitivity: float = 1.0
    monotonic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_scalar(self.epsilon, "epsilon", gt=0))
        object.__setattr__(self, "sensitivity", check_scalar(self.sensitivity, "sensitivity", gt=0))
        object.__setattr__(self, "monotonic", check_flag(self.monotonic, "monotonic"))

    def log_probabilities(self, scores: ArrayLike) -> FloatArray:
        """Logarithm of the probability of each option.

        Parameters
        ----------
        scores : array of float, shape (..., k)
            The scores of k options along the last axis; -inf forbids an option.

        Returns
        -------
        array of float, shape (..., k)
            Log probabilities, finite where the probability itself underflows; -inf where forbidden.

        Raises
        ------
        InvalidParameterError
            If ``scores`` is empty, holds NaN or +inf, or forbids every option.
        """
        array = check_array(scores, "scores", finite=False)
        if array.ndim == 0 or array.shape[-1] == 0:
            raise InvalidParameterError("scores must be an array with one entry for each option")
        if np.isposinf(array).any():
            raise InvalidParameterError("scores must be finite, or -inf to forbid an option")
        best = array.max(axis=-1, keepdims=True)
        if np.isneginf(best).any():
            raise InvalidParameterError("scores must leave at least one option that is not -inf")
        # halves cannot overflow in the difference; one that overflows after it has probability zero
        with np.errstate(over="ignore"):
            utility = (0.5 * array - 0.5 * best) / self.sensitivity * self.epsilon
            if self.monotonic:
                utility *= 2.0
        return np.asarray(utility - np.log(np.exp(utility).sum(axis=-1, keepdims=True)))

    def probabilities(self, scores: ArrayLike) -> FloatArray:
        """Probability of each option.

        Parameters
        ----------
        scores : array of float, shape (..., k)
            The scores of k options along the last axis; -inf forbids an option.

        Returns
        -------
        array of float, shape (..., k)
            Probabilities that add up to 1 along the last axis.

        Raises
        ------
        InvalidParameterError
            If ``scores`` is empty, holds NaN or +inf, or forbids every option.
        """
        return np.asarray(np.exp(self.log_probabilities(scores)))

    def rvs(
        self,
        scores: ArrayLike,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: RNG = None,
    ) -> Any:
        """Draw choices, for simulation: not hardened against floating-point or timing attacks.

        Parameters
        ----------
        scores : array of float, shape (k,)
            The scores of k options; -inf forbids an option.
        size : int or tuple of int, optional
            The shape of the answer; by default one choice.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        int or array of int
            Positions of the chosen options, 0 to k-1.

        Raises
        ------
        InvalidParameterError
            If ``scores`` is not one-dimensional, is empty, holds NaN or +inf, or forbids every
            option.
        """
        options = check_array(scores, "scores", ndim=1, finite=False)
        cumulative = np.cumsum(self.probabilities(options))
        shape = () if size is None else check_shape(size)
        # the product may round up to the total: look no further than the first entry to reach it
        last = np.searchsorted(cumulative, cumulative[-1])
        points = check_rng(rng).random(shape) * cumulative[-1]
        return np.minimum(np.searchsorted(cumulative, points, side="right"), last)[()]
