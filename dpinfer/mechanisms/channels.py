"""Channels and the exponential mechanism: answers that are drawn, not added to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    Locked,
    as_table,
    check_array,
    check_flag,
    check_integer,
    check_integer_array,
    check_items,
    check_length,
    check_rng,
    check_scalar,
    check_shape,
    freeze,
    show,
    show_some,
)
from dpinfer._numerics.two_laws import TwoLaws
from dpinfer.errors import InvalidParameterError

MAX_CATEGORIES = 10_000
"""Categories up to which the matrix of randomized response fits into memory."""

MAX_ENTRIES = 10**7
"""Entries of a matrix that is given."""

MAX_COUNT = 1e14
"""Largest count that is drawn from: the sums of reports stay whole numbers of int64."""

MAX_DRAWN = 10**8
"""Bits that are drawn at once."""

_SUM = 1e-12
"""How far the rows of a matrix may be from 1."""


def check_counts(counts: ArrayLike, size: int, of: str) -> FloatArray:
    """Return ``counts`` as an array of whole numbers >= 0, one for each of ``size``."""
    array = check_integer_array(counts, "counts", ge=0)
    if array.shape != (size,):
        raise InvalidParameterError(
            f"counts must have one entry for each of the {size} {of}, got shape {array.shape}"
        )
    return array


class FiniteChannel(ABC):
    """A law of reports for each of k truths, ``categories``; neighbours differ in the truth."""

    categories: int

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The smallest ε >= 0 with which each respondent is protected, infinite if none is."""

    @abstractmethod
    def _two_laws(self) -> Iterator[TwoLaws]:
        """Yield the laws of neighbouring truths, those of pairs that are alike only once."""

    @abstractmethod
    def _draw(self, truth: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]: ...

    @abstractmethod
    def _draw_counts(
        self, truth: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]: ...

    def randomize(self, answers: ArrayLike, *, rng: RNG = None) -> Any:
        """Pass true categories through the channel, for simulation.

        It is not hardened against floating-point or timing attacks: to *collect* confidential
        answers, use a vetted mechanism library.

        Parameters
        ----------
        answers : int or array of int
            True categories, coded 0 to k-1. The reports have the same shape; of unary encoding
            they are 0 and 1, along a last axis of k.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.
        """
        truth = check_integer_array(answers, "answers", ge=0)
        if (truth >= self.categories).any():
            raise InvalidParameterError(
                f"answers must be coded 0 to {self.categories - 1}, got {truth.max():g}"
            )
        return self._draw(truth.astype(np.int64), check_rng(rng))[()]

    def randomize_counts(self, counts: ArrayLike, *, rng: RNG = None) -> NDArray[np.int64]:
        """Pass the counts of true categories through the channel, for simulation.

        Parameters
        ----------
        counts : array of int, shape (k,)
            The number of respondents in each true category, at most 1e14. Those of each report
            are returned; of unary encoding those with a 1 for each category.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.
        """
        array = check_counts(counts, self.categories, "categories")
        truth = check_array(array, "counts", le=MAX_COUNT).astype(np.int64)
        return self._draw_counts(truth, check_rng(rng))

    def delta_at(self, epsilon: ArrayLike) -> Any:
        """Smallest δ at ε >= 0, in the shape of ``epsilon``.

        It is the largest Σ_j (P_j - e^ε·Q_j)₊ over the neighbouring truths with the laws P, Q of
        their reports.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        found = np.zeros(at.size)
        for laws in self._two_laws():
            found = np.maximum(found, laws.delta(at.ravel()))
        return found.reshape(at.shape)[()]

    def divergence(self, order: ArrayLike) -> Any:
        """Largest Rényi divergence of neighbouring truths, in the shape of ``order``.

        It is ln(Σ_j P_j^λ·Q_j^(1-λ))/(λ-1) for an order λ > 1, at 1 that of Kullback and Leibler,
        and at infinity ε; infinite where a report is possible under one truth only.
        """
        orders = check_array(order, "order", ge=1, finite=False)
        found = np.zeros(orders.size)
        for laws in self._two_laws():
            found = np.maximum(found, [laws.divergence(float(one)) for one in orders.flat])
        return found.reshape(orders.shape)[()]


class MatrixChannel(FiniteChannel):
    """A channel whose reports are so few that its matrix fits into memory."""

    @property
    @abstractmethod
    def matrix(self) -> FloatArray:
        """Probability of each report (column) given each truth (row), shape (k, m)."""

    def _draw_counts(self, truth: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        matrix = self.matrix
        reports = rng.multinomial(truth, matrix / matrix.sum(axis=1, keepdims=True))
        return np.asarray(reports.sum(axis=0), dtype=np.int64)


class Channel(Locked, MatrixChannel):
    """Any channel with finitely many truths and reports, by its matrix.

    Parameters
    ----------
    matrix : array of float, shape (k, m), or DataFrame
        The probability of each report (column) given each truth (row), within [0, 1]; rows add up
        to 1 within 1e-12. k and m are at least 1, and k·m at most 10⁷. A DataFrame gives the names
        of truths and reports.
    truths, reports : sequence, optional
        Names of the rows and columns; by default 0, 1, ...
    pairs : sequence of pairs of truths, optional
        Which truths are neighbours, in both orders; by default all of them. What is said of
        privacy holds for these only.

    Raises
    ------
    InvalidParameterError
        If the matrix is none of probabilities, or names do not fit it.

    See Also
    --------
    dpinfer.estimation.response_counts, dpinfer.estimation.response_proportions : what the reports
        say about the truth.
    dpinfer.privacy.privacy_loss, dpinfer.privacy.TradeOff : what they tell of a respondent.

    Notes
    -----
    ε is the largest ln(C[i, j]/C[i', j]) over neighbours i, i' and reports j: infinite where a
    report is possible under one of them only. Then δ(ε), :meth:`delta_at`, does not fall below
    the probability of such reports.

    References
    ----------
    Kifer et al. (2022), Bayesian and frequentist semantics for common variations of differential
    privacy, arXiv:2209.03310, Examples 4.7 and 5.6.

    Examples
    --------
    >>> channel = Channel([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    >>> channel.epsilon, channel.delta_at([0.0, 1.0]).round(7)
    (inf, array([0.6      , 0.4281718]))
    """

    def __init__(
        self,
        matrix: Any,
        *,
        truths: Iterable[Hashable] | None = None,
        reports: Iterable[Hashable] | None = None,
        pairs: Iterable[tuple[Hashable, Hashable]] | None = None,
    ) -> None:
        table = as_table(matrix, "matrix")
        named = hasattr(table, "columns") and hasattr(table, "iloc")
        array = check_array(
            table.to_numpy() if named else table, "matrix", ge=0, le=1 + _SUM, ndim=2
        )
        if array.size > MAX_ENTRIES:
            raise InvalidParameterError(
                f"matrix must have at most {MAX_ENTRIES} entries, got shape {array.shape}"
            )
        off = np.abs(array.sum(axis=1) - 1.0)
        if (off > _SUM).any():
            row = int(np.argmax(off))
            raise InvalidParameterError(
                f"matrix must have rows that add up to 1, got {array[row].sum():.15g} in row {row}"
            )
        rows = list(table.index) if named and truths is None else truths
        columns = list(table.columns) if named and reports is None else reports
        self.categories = array.shape[0]
        self._matrix = freeze(array)
        self._truths = _names(rows, "truths", array.shape[0])
        self._reports = _names(columns, "reports", array.shape[1])
        self._pairs = None if pairs is None else self._checked(pairs)

    def _checked(self, pairs: Any) -> tuple[tuple[Hashable, Hashable], ...]:
        found = []
        for pair in check_items(pairs, "pairs", "pairs of truths"):
            one = check_items(pair, "pairs", "pairs of truths")
            if len(one) != 2 or any(_place(truth, self.truths) is None for truth in one):
                raise InvalidParameterError(
                    f"pairs must hold pairs of truths among {show_some(self.truths)}, got "
                    f"{show(pair)}"
                )
            found.append((one[0], one[1]))
        return tuple(found)

    @classmethod
    def name_and_shame(cls, delta: float, *, truths: int = 2) -> Self:
        """Channel that shows a record with probability δ within [0, 1], and else says nothing.

        It is (0, δ)-differentially private, and for no ε with a smaller δ: of n records somebody's
        is shown with probability 1 - (1-δ)ⁿ. ``truths`` is the number of values, 2 to 3,000, that
        a record can have; the report -1 says nothing. Smith and Ullman, Privacy in statistics and
        machine learning, Example 2.3.
        """
        shown = check_scalar(delta, "delta", ge=0, le=1)
        size = check_integer(truths, "truths", ge=2, le=3000)
        silent = np.full((size, 1), 1.0 - shown)
        matrix = np.hstack([silent, shown * np.eye(size)])
        return cls(matrix, reports=range(-1, size))

    @classmethod
    def released_sample(cls, size: int, population: int, *, truths: int = 2) -> Self:
        """Channel of one record where ``size`` of ``population`` records are drawn and published.

        The loss is infinite with probability size/population, and else 0, whatever is known of the
        other records: the same as :meth:`name_and_shame`. Kifer et al. (2022), Example 4.7.
        """
        total = check_integer(population, "population", ge=1, le=10**15)
        drawn = check_integer(size, "size", ge=0, le=total)
        return cls.name_and_shame(drawn / total, truths=truths)

    @classmethod
    def mixture(cls, channels: Iterable[MatrixChannel], weights: ArrayLike) -> Self:
        """Channel that uses one of several, chosen with given probabilities, and shows which.

        Parameters
        ----------
        channels : sequence of Channel or RandomizedResponse
            Channels of the same truths.
        weights : array of float
            The probability of each, adding up to 1 within 1e-12.

        Returns
        -------
        Channel
            Its reports are pairs: which channel, and what it reports. Neighbours are those of the
            first channel.
        """
        parts = check_items(channels, "channels", "channels")
        if not parts or not all(isinstance(one, MatrixChannel) for one in parts):
            raise InvalidParameterError(
                f"channels must hold channels with a matrix, got {show(channels)}"
            )
        shares = check_array(weights, "weights", ge=0, ndim=1)
        if shares.size != len(parts) or abs(shares.sum() - 1.0) > _SUM:
            raise InvalidParameterError(
                f"weights must be {len(parts)} probabilities that add up to 1, got {show(weights)}"
            )
        sizes = {one.categories for one in parts}
        if len(sizes) > 1:
            raise InvalidParameterError(
                f"channels must have the same truths, got {show_some(sorted(sizes))} of them"
            )
        matrices = [one.matrix for one in parts]
        reports = [(i, j) for i, one in enumerate(matrices) for j in range(one.shape[1])]
        first = parts[0] if isinstance(parts[0], Channel) else None
        return cls(
            np.hstack([share * one for share, one in zip(shares, matrices, strict=True)]),
            truths=None if first is None else first.truths,
            reports=reports,
            pairs=None if first is None else first.pairs,
        )

    @property
    def matrix(self) -> FloatArray:
        """Probability of each report (column) given each truth (row), shape (k, m)."""
        return self._matrix

    @property
    def truths(self) -> tuple[Hashable, ...]:
        """Names of the rows."""
        return self._truths

    @property
    def reports(self) -> tuple[Hashable, ...]:
        """Names of the columns."""
        return self._reports

    @property
    def pairs(self) -> tuple[tuple[Hashable, Hashable], ...] | None:
        """Pairs of truths that are neighbours; None for all."""
        return self._pairs

    @property
    def epsilon(self) -> float:
        """The largest ln(C[i, j]/C[i', j]) of neighbours i, i'; infinite if one is 0 alone."""
        if self.pairs is not None:
            return max([laws.largest for laws in self._two_laws()] + [0.0])
        low, high = self.matrix.min(axis=0), self.matrix.max(axis=0)
        some = high > 0
        with np.errstate(divide="ignore"):
            return max(float((np.log(high[some]) - np.log(low[some])).max()), 0.0)

    def _places(self) -> list[tuple[int, int]]:
        """Return the ordered pairs of neighbouring truths, by their places."""
        if self.pairs is None:
            return list(permutations(range(self.categories), 2))
        places = [tuple(self.truths.index(truth) for truth in pair) for pair in self.pairs]
        return list(dict.fromkeys((i, j) for a, b in places for i, j in ((a, b), (b, a))))

    def _two_laws(self) -> Iterator[TwoLaws]:
        for i, j in self._places():
            yield TwoLaws.of(self.matrix[i], self.matrix[j])

    def _draw(self, truth: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        flat, points = truth.ravel(), rng.random(truth.size)
        found = np.empty(truth.size, dtype=np.int64)
        for value in np.unique(flat):
            cumulative = np.cumsum(self.matrix[value])
            at = flat == value
            # the product may round up to the total: look no further than the first to reach it
            last = np.searchsorted(cumulative, cumulative[-1])
            place = np.searchsorted(cumulative, points[at] * cumulative[-1], side="right")
            found[at] = np.minimum(place, last)
        return found.reshape(truth.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Channel)
            and np.array_equal(self.matrix, other.matrix)
            and (self.truths, self.reports) == (other.truths, other.reports)
            and self.pairs == other.pairs
        )

    def __hash__(self) -> int:
        return hash((self.matrix.tobytes(), self.truths, self.reports))

    def __repr__(self) -> str:
        return f"Channel({len(self.truths)} truths, {len(self.reports)} reports)"


def _names(names: Any, name: str, size: int) -> tuple[Hashable, ...]:
    if names is None:
        return tuple(range(size))
    found = check_items(names, name, "names")
    check_length(found, name, size, "the rows" if name == "truths" else "the columns")
    try:
        different = len(set(found))
    except TypeError:
        raise InvalidParameterError(f"{name} must be names that can be hashed") from None
    if different < size:
        raise InvalidParameterError(f"{name} must be different names, got {show_some(found)}")
    return tuple(found)


def _place(name: Any, names: tuple[Hashable, ...]) -> int | None:
    return names.index(name) if isinstance(name, Hashable) and name in names else None


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(MatrixChannel):
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
    >>> channel.matrix
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
    def matrix(self) -> FloatArray:
        """Probability of each report (column) given each true category (row), shape (k, k)."""
        matrix = np.full((self.categories, self.categories), self.q)
        np.fill_diagonal(matrix, self.p)
        return matrix

    @property
    def q(self) -> float:
        """The probability (1-p)/(k-1) of the report of each category that is not the true one."""
        return (1.0 - self.p) / (self.categories - 1)

    @property
    def slope(self) -> float:
        """The difference p - q: what the share of reports rises by with that of the truth."""
        # without cancellation, where p is near 1/k
        return (self.categories * self.p - 1.0) / (self.categories - 1)

    def _two_laws(self) -> Iterator[TwoLaws]:
        law = np.array([self.p, self.q, (self.categories - 2) * self.q])
        yield TwoLaws.of(law, law[[1, 0, 2]])

    def _draw(self, truth: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        changed = rng.random(truth.shape) >= self.p
        shift = rng.integers(1, self.categories, truth.shape) * changed
        return np.asarray((truth + shift) % self.categories)


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(FiniteChannel):
    """A channel that reports one bit for each category, each of them randomized by itself.

    The bit of the true category is 1 with probability p, that of each other one with probability
    q. Telemetry of browsers and telephones is of this kind.

    Parameters
    ----------
    p, q : float
        The probabilities, 0 < q <= p < 1.
    categories : int
        The number k >= 2 of categories, up to 10⁹: the matrix of 2ᵏ reports is never formed.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    See Also
    --------
    dpinfer.estimation.response_counts, dpinfer.estimation.response_proportions : what the reports
        say about the truth.

    Notes
    -----
    It is ε-differentially private for each respondent with ε = ln(p(1-q)/((1-p)q)), as two truths
    differ in two bits. Against randomized response of k categories it pays off from about
    k = 3e^ε + 2 on, where a category is rare. For a common one, with a share near 1/2,
    :meth:`symmetric` has a smaller variance than :meth:`optimised`.

    References
    ----------
    Wang, T., Blocki, J., Li, N. and Jha, S. (2017). Locally differentially private protocols for
    frequency estimation. 26th USENIX Security Symposium, 729-745.

    Erlingsson, Ú., Pihur, V. and Korolova, A. (2014). RAPPOR: randomized aggregatable
    privacy-preserving ordinal response. doi:10.1145/2660267.2660348.

    Examples
    --------
    >>> channel = UnaryEncoding.optimised(1.0, categories=1024)
    >>> round(channel.p, 6), round(channel.q, 6), round(channel.epsilon, 12)
    (0.5, 0.268941, 1.0)
    """

    p: float
    q: float
    categories: int

    def __post_init__(self) -> None:
        p = check_scalar(self.p, "p", gt=0, lt=1)
        q = check_scalar(self.q, "q", gt=0, lt=1)
        if q > p:
            raise InvalidParameterError(
                f"q must be at most p = {p:g}, got {q:g}: above it a 1 speaks against its category"
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "q", q)
        size = check_integer(self.categories, "categories", ge=2, le=10**9)
        object.__setattr__(self, "categories", size)

    @classmethod
    def symmetric(cls, epsilon: float, *, categories: int) -> Self:
        """Channel with p = e^(ε/2)/(1 + e^(ε/2)) and q = 1 - p, for 0 < ε up to about 70."""
        budget = check_scalar(epsilon, "epsilon", gt=0, le=70)
        return cls(
            p=float(special.expit(0.5 * budget)),
            q=float(special.expit(-0.5 * budget)),
            categories=categories,
        )

    @classmethod
    def optimised(cls, epsilon: float, *, categories: int) -> Self:
        """Channel with p = 1/2 and q = 1/(e^ε + 1), best for rare categories; ε up to 700."""
        budget = check_scalar(epsilon, "epsilon", gt=0, le=700)
        return cls(p=0.5, q=float(special.expit(-budget)), categories=categories)

    @classmethod
    def rappor(cls, f: float, p: float, q: float, *, categories: int) -> Self:
        """Both rounds of RAPPOR together, as one report sees them.

        Parameters
        ----------
        f : float
            The share, within [0, 1), of the bits that the first, permanent round replaces by coins.
        p, q : float
            The probabilities, within (0, 1) and with q > p, that the second, instantaneous round
            reports a 1 for a bit that is 0, and for one that is 1 after the first round.
        categories : int
            The number of bits, each that of one category: Bloom filters are not decoded.

        Returns
        -------
        UnaryEncoding
            The two channels of each bit, one after the other. Its ε protects one report. The
            lasting guarantee, of all reports together, is that of the first round,
            ``UnaryEncoding(p=1 - f/2, q=f/2, categories=k)``.
        """
        share = check_scalar(f, "f", ge=0, lt=1)
        zero, one = check_scalar(p, "p", gt=0, lt=1), check_scalar(q, "q", gt=0, lt=1)
        if one <= zero:
            raise InvalidParameterError(f"q must be above p = {zero:g}, got {one:g}")
        coin = 0.5 * share
        return cls(
            p=(1.0 - coin) * one + coin * zero,
            q=coin * one + (1.0 - coin) * zero,
            categories=categories,
        )

    @property
    def epsilon(self) -> float:
        """The privacy loss ε = ln(p(1-q)/((1-p)q)) of each respondent."""
        return float(special.logit(self.p) - special.logit(self.q))

    @property
    def slope(self) -> float:
        """The difference p - q: what the share of ones rises by with that of the truth."""
        return self.p - self.q

    def _two_laws(self) -> Iterator[TwoLaws]:
        # the bits of the two truths, of which two that are equal say nothing
        p, q = self.p, self.q
        law = np.array([p * (1.0 - q), q * (1.0 - p), p * q + (1.0 - p) * (1.0 - q)])
        yield TwoLaws.of(law, law[[1, 0, 2]])

    def _draw(self, truth: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        if truth.size * self.categories > MAX_DRAWN:
            raise InvalidParameterError(
                f"answers must have at most {MAX_DRAWN} bits in all, got {truth.size} of "
                f"{self.categories}: use randomize_counts"
            )
        own = np.arange(self.categories) == truth[..., None]
        bits = rng.random((*truth.shape, self.categories)) < np.where(own, self.p, self.q)
        return np.asarray(bits, dtype=np.int64)

    def _draw_counts(self, truth: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        kept = rng.binomial(truth, self.p)
        return np.asarray(kept + rng.binomial(truth.sum() - truth, self.q), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism:
    """Choose an option with probability proportional to exp(ε·score/(2Δ)).

    Parameters
    ----------
    epsilon : float
        The budget ε >= 0; with 0 all options are equally likely.
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
        object.__setattr__(self, "epsilon", check_scalar(self.epsilon, "epsilon", ge=0))
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
