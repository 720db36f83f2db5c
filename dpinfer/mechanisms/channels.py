"""Randomized response and the exponential mechanism: answers that are drawn, not added to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_flag,
    check_integer,
    check_integer_array,
    check_rng,
    check_scalar,
    check_shape,
)
from dpinfer.errors import InvalidParameterError

MAX_CATEGORIES = 10_000
"""Categories up to which the channel matrix fits into memory."""

MAX_COUNT = 1e14
"""Largest count that is drawn from: the sums of reports stay whole numbers of int64."""


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """A channel that keeps the true category with probability p, else reports one of the others.

    Parameters
    ----------
    p : float
        The probability, in [1/k, 1), that the true category is reported; each of the k-1 others
        is reported with probability (1-p)/(k-1).
    categories : int, default 2
        The number k >= 2 of categories.

    Raises
    ------
    InvalidParameterError
        If ``p`` or ``categories`` is out of range.

    See Also
    --------
    dpinfer.estimation.response_counts, dpinfer.estimation.response_proportions : what the reports
        say about the truth.

    Notes
    -----
    It is ε-differentially private for each respondent with ε = ln(p(k-1)/(1-p)). At p = 1/k, which
    is ε = 0, the reports say nothing and nothing can be estimated from them.

    References
    ----------
    Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive answer
    bias. Journal of the American Statistical Association 60(309), 63-69.
    doi:10.1080/01621459.1965.10480775.

    Kairouz, P., Bonawitz, K. and Ramage, D. (2016). Discrete distribution estimation under local
    privacy. Proceedings of Machine Learning Research 48, 2436-2444. arXiv:1602.07387.

    Examples
    --------
    >>> channel = RandomizedResponse.from_epsilon(np.log(3.0))
    >>> round(channel.p, 12)
    0.75
    >>> channel.channel
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    p: float
    categories: int = 2

    def __post_init__(self) -> None:
        categories = check_integer(self.categories, "categories", ge=2, le=MAX_CATEGORIES)
        p = check_scalar(self.p, "p", gt=0, lt=1)
        # a p that was computed as 1/k may fall short of it by a rounding error
        if p * categories < 1 - 1e-15:
            raise InvalidParameterError(
                f"p must be at least 1/categories = {1 / categories:g}, got {p}: below it the true "
                "category is the one that is reported least"
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "categories", categories)

    @classmethod
    def from_epsilon(cls, epsilon: float, *, categories: int = 2) -> Self:
        """Channel that is ε-differentially private for each respondent.

        It has p = e^ε/(e^ε + k - 1), for 0 < ε up to about 36, where 1-p is no longer resolved.
        """
        budget = check_scalar(epsilon, "epsilon", gt=0)
        others = check_integer(categories, "categories", ge=2, le=MAX_CATEGORIES) - 1
        p = 1.0 / (1.0 + others * np.exp(-budget))
        if p >= 1:
            raise InvalidParameterError(
                f"epsilon must be smaller, got {budget}: every answer would be reported unchanged"
            )
        return cls(p=float(p), categories=categories)

    @property
    def epsilon(self) -> float:
        """The privacy loss ε = ln(p(k-1)/(1-p)) of each respondent."""
        return max(float(np.log(self.p * (self.categories - 1) / (1.0 - self.p))), 0.0)

    @property
    def channel(self) -> FloatArray:
        """Probability of each report (column) given each true category (row), shape (k, k)."""
        others = self.categories - 1
        matrix = np.full((self.categories, self.categories), (1.0 - self.p) / others)
        np.fill_diagonal(matrix, self.p)
        return matrix

    def randomize(self, answers: ArrayLike, *, rng: RNG = None) -> np.int64 | NDArray[np.int64]:
        """Pass true categories through the channel, for simulation.

        It is not hardened against floating-point or timing attacks: to *collect* confidential
        answers, use a vetted mechanism library.

        Parameters
        ----------
        answers : int or array of int
            True categories, coded 0 to k-1; the reported ones have the same shape.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.
        """
        truth = check_integer_array(answers, "answers", ge=0)
        if (truth >= self.categories).any():
            raise InvalidParameterError(
                f"answers must be coded 0 to {self.categories - 1}, got {truth.max():g}"
            )
        generator = check_rng(rng)
        changed = generator.random(truth.shape) >= self.p
        shift = generator.integers(1, self.categories, truth.shape) * changed
        return ((truth.astype(np.int64) + shift) % self.categories)[()]

    def randomize_counts(self, counts: ArrayLike, *, rng: RNG = None) -> NDArray[np.int64]:
        """Pass the counts of true categories through the channel, for simulation.

        Parameters
        ----------
        counts : array of int, shape (k,)
            The number of respondents in each true category, at most 1e14. Those of the reports of
            each category have the same shape.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.
        """
        truth = check_array(self.check_counts(counts), "counts", le=MAX_COUNT).astype(np.int64)
        reports = check_rng(rng).multinomial(truth, self.channel)
        return np.asarray(reports.sum(axis=0), dtype=np.int64)

    def check_counts(self, counts: ArrayLike) -> FloatArray:
        """Return ``counts`` as an array of k whole numbers >= 0, one for each category."""
        array = check_integer_array(counts, "counts", ge=0)
        if array.shape != (self.categories,):
            raise InvalidParameterError(
                f"counts must have one entry for each of the {self.categories} categories, "
                f"got shape {array.shape}"
            )
        return array


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
            The scores of k options along the last axis; -inf forbids an option, but not every one.

        Returns
        -------
        array of float, shape (..., k)
            Log probabilities, finite where the probability itself underflows; -inf where forbidden.
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
        """Probability of each option, for ``scores`` as :meth:`log_probabilities` takes them."""
        return np.asarray(np.exp(self.log_probabilities(scores)))

    def rvs(
        self,
        scores: ArrayLike,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: RNG = None,
    ) -> np.intp | NDArray[np.intp]:
        """Draw choices, for simulation: not hardened against floating-point or timing attacks.

        Parameters
        ----------
        scores : array of float, shape (k,)
            The scores of k options; -inf forbids an option, but not every one.
        size : int or tuple of int, optional
            The shape of the answer; by default one choice.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        int or array of int
            Positions of the chosen options, 0 to k-1.
        """
        options = check_array(scores, "scores", ndim=1, finite=False)
        cumulative = np.cumsum(self.probabilities(options))
        shape = () if size is None else check_shape(size)
        # the product may round up to the total: look no further than the first entry to reach it
        last = np.searchsorted(cumulative, cumulative[-1])
        points = check_rng(rng).random(shape) * cumulative[-1]
        return np.asarray(np.minimum(np.searchsorted(cumulative, points, side="right"), last))[()]
