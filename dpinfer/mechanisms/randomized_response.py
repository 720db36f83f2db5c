"""Randomized response: every respondent keeps or changes the own answer at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_array,
    check_integer,
    check_integer_array,
    check_rng,
    check_scalar,
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
    dpinfer.response_counts, dpinfer.response_proportions : what the reports say about the truth.

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

        Parameters
        ----------
        epsilon : float
            The budget ε > 0; at most about 36, where 1-p is no longer resolved.
        categories : int, default 2
            The number k >= 2 of categories.

        Returns
        -------
        RandomizedResponse
            The channel with p = e^ε/(e^ε + k - 1).
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
        matrix = np.full((self.categories, self.categories), self._other)
        np.fill_diagonal(matrix, self.p)
        return matrix

    def randomize(self, answers: ArrayLike, *, rng: RNG = None) -> Any:
        """Pass true categories through the channel, for simulation.

        It is not hardened against floating-point or timing attacks: to *collect* confidential
        answers, use a vetted mechanism library.

        Parameters
        ----------
        answers : int or array of int
            True categories, coded 0 to k-1.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        int or array of int
            The reported categories, of the same shape.
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
            The number of respondents in each true category, at most 1e14.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        array of int, shape (k,)
            The number of reports of each category.
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

    @property
    def _other(self) -> float:
        """The probability r of each category other than the true one."""
        return (1.0 - self.p) / (self.categories - 1)
