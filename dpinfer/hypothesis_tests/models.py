"""Null models: how the counts arise, before noise is added to them.

They refuse parameters outside what is allowed with :class:`~dpinfer.errors.InvalidParameterError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    Locked,
    check_array,
    check_integer,
    check_integer_array,
    check_length,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, common_shape
from dpinfer.mechanisms.independent import Dependence, as_noise
from dpinfer.mechanisms.law import NoiseLaw, refuse_dependent, refuse_same
from dpinfer.mechanisms.laws import Exact
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.labels import split_labels
from dpinfer.results.simulation import BLOCK

if TYPE_CHECKING:
    from dpinfer.mechanisms.channels import RandomizedResponse, UnaryEncoding

Counts = NDArray[np.int64]

_LARGEST_RATE = 1e15
"""Up to here the generator of Poisson counts works, and counts differ by more than rounding."""

_SMALLEST_MARGIN = 1e-150
"""Probabilities of rows and columns whose product is still a float64."""

_ROUNDING = 1e-9
"""Relative error allowed to sums that are known, of probabilities or of counts."""

_NO_NOISE = 1e-12
"""Share of the variance of cells below which that of their sum is rounding."""


class NullModel(ABC):
    """How counts arise under the null hypothesis; see the models themselves.

    A model of one count has the shape ``()``, and a model of k cells the shape ``(k,)``.
    """

    @property
    @abstractmethod
    def expected(self) -> FloatArray:
        """Expected counts, in the shape of the model."""

    @property
    @abstractmethod
    def totals(self) -> tuple[FloatArray, ...]:
        """Groups of cells whose counts have a fixed total, as the probabilities within each."""

    @property
    @final
    def shape(self) -> tuple[int, ...]:
        """``()`` for one count, ``(k,)`` for k cells."""
        return self.expected.shape

    @final
    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw independent counts.

        Parameters
        ----------
        size : int
            How many times.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of float, shape (size,) or (size, k)
            The counts.
        """
        return self._draw(size, rng).astype(np.float64)

    @abstractmethod
    def _draw(self, size: int, rng: np.random.Generator) -> Counts: ...


@final
@dataclass(frozen=True)
class Binomial(Locked, NullModel):
    """One count of successes in independent trials.

    Parameters
    ----------
    nobs : int
        Number of trials, >= 1.
    value : float
        Probability of success, in (0, 1).

    Examples
    --------
    >>> Binomial(nobs=100, value=0.25).expected
    array(25.)
    """

    nobs: int
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "nobs", _number(self.nobs))
        object.__setattr__(self, "value", check_scalar(self.value, "value", ge=1e-300, lt=1))

    @property
    def expected(self) -> FloatArray:
        """Expected count."""
        return np.asarray(self.nobs * self.value)

    @property
    def totals(self) -> tuple[FloatArray, ...]:
        """The probability of success: the failures are not published."""
        return (np.asarray(self.value),)

    def _draw(self, size: int, rng: np.random.Generator) -> Counts:
        return rng.binomial(self.nobs, self.value, size)


@final
@dataclass(frozen=True, eq=False)
class Poisson(Locked, NullModel):
    """One Poisson count, or k independent ones.

    Parameters
    ----------
    rate : float or array of float, shape (k,)
        Expected counts, > 0 and <= 1e15.

    Examples
    --------
    >>> Poisson(rate=[2.0, 5.5]).expected
    array([2. , 5.5])
    """

    rate: FloatArray

    def __post_init__(self) -> None:
        rate = check_array(self.rate, "rate", ge=1e-300, le=_LARGEST_RATE)
        if rate.ndim > 1:
            raise InvalidParameterError(
                f"rate must be a number or one-dimensional, got shape {rate.shape}"
            )
        object.__setattr__(self, "rate", freeze(rate))

    @property
    def expected(self) -> FloatArray:
        """Expected counts."""
        return self.rate

    @property
    def totals(self) -> tuple[FloatArray, ...]:
        """No total is fixed."""
        return ()

    def _draw(self, size: int, rng: np.random.Generator) -> Counts:
        return rng.poisson(self.rate, (size, *self.rate.shape))


class _OneTotal(Locked, NullModel):
    """Cells with probabilities ``value`` whose counts add up to ``nobs``."""

    nobs: int
    value: FloatArray

    @property
    @final
    def expected(self) -> FloatArray:
        """Expected counts, row by row."""
        return np.asarray(self.nobs * self.value)

    @property
    @final
    def totals(self) -> tuple[FloatArray, ...]:
        """One total is fixed, that of all cells."""
        return (self.value,)

    def _draw(self, size: int, rng: np.random.Generator) -> Counts:
        return rng.multinomial(self.nobs, self.value, size)


@final
@dataclass(frozen=True, eq=False)
class Multinomial(_OneTotal):
    """Counts of observations that each fall into one of k cells.

    Parameters
    ----------
    nobs : int
        Number of observations, >= 1.
    value : array of float, shape (k,)
        Probabilities of the cells, > 0, that add up to 1; k >= 2.

    Examples
    --------
    >>> Multinomial(nobs=40, value=[0.25, 0.75]).expected
    array([10., 30.])
    """

    nobs: int
    value: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "nobs", _number(self.nobs))
        value = check_array(self.value, "value", ge=1e-300, ndim=1)
        object.__setattr__(self, "value", freeze(_shares(value)))


@final
@dataclass(frozen=True, eq=False)
class ProductMultinomial(Locked, NullModel):
    """Independent multinomial rows with known totals, as in a test of homogeneity.

    The cells are those of the table row by row: k = r·c of them.

    Parameters
    ----------
    nobs : array of int, shape (r,)
        Number of observations in each row, >= 1.
    value : array of float, shape (c,) or (r, c)
        Probabilities of the columns, > 0, that add up to 1: the same for all rows, or row by row.

    Examples
    --------
    >>> ProductMultinomial(nobs=[10, 20], value=[0.5, 0.5]).expected
    array([ 5.,  5., 10., 10.])
    """

    nobs: FloatArray
    value: FloatArray

    def __post_init__(self) -> None:
        nobs = check_integer_array(self.nobs, "nobs", ge=1)
        check_array(nobs, "nobs", le=LARGEST_NOBS, ndim=1)
        value = check_array(self.value, "value", ge=1e-300)
        if value.ndim == 1:
            value = np.tile(value, (nobs.size, 1))
        check_array(value, "value", ndim=2)
        check_length(value, "value", nobs.size, "the rows in nobs")
        object.__setattr__(self, "nobs", freeze(nobs))
        object.__setattr__(self, "value", freeze(_shares(value)))

    @property
    def expected(self) -> FloatArray:
        """Expected counts, row by row."""
        return np.asarray(self.nobs[:, np.newaxis] * self.value).reshape(-1)

    @property
    def totals(self) -> tuple[FloatArray, ...]:
        """The total of each row is fixed."""
        return tuple(self.value)

    def _draw(self, size: int, rng: np.random.Generator) -> Counts:
        counts = rng.multinomial(self.nobs.astype(np.int64), self.value, (size, self.nobs.size))
        return counts.reshape(size, -1)


@final
@dataclass(frozen=True, eq=False)
class Independence(_OneTotal):
    """A table of two attributes that are independent, as in a test of independence.

    The cells are those of the table row by row: k = r·c of them.

    Parameters
    ----------
    nobs : int
        Number of observations, >= 1.
    rows : array of float, shape (r,)
        Probabilities of the rows, > 0, that add up to 1; r >= 2.
    columns : array of float, shape (c,)
        Probabilities of the columns, likewise.

    Examples
    --------
    >>> Independence(nobs=40, rows=[0.25, 0.75], columns=[0.5, 0.5]).expected
    array([ 5.,  5., 15., 15.])
    """

    nobs: int
    rows: FloatArray
    columns: FloatArray
    value: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nobs", _number(self.nobs))
        for name in ("rows", "columns"):
            shares = check_array(getattr(self, name), name, ge=_SMALLEST_MARGIN, ndim=1)
            object.__setattr__(self, name, freeze(_shares(shares, name)))
        value = np.outer(self.rows, self.columns).reshape(-1)
        object.__setattr__(self, "value", freeze(value))


Model = Binomial | Poisson | Multinomial | ProductMultinomial
"""The models whose statistics have one law; the margins of an Independence are to be estimated."""


def _number(nobs: int) -> int:
    return check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS))


def _shares(value: FloatArray, name: str = "value") -> FloatArray:
    """Return probabilities that add up to 1 along the last axis."""
    if value.shape[-1] < 2:
        raise InvalidParameterError(f"{name} must have at least 2 cells, got {value.shape[-1]}")
    total = value.sum(axis=-1, keepdims=True)
    if (np.abs(total - 1.0) > _ROUNDING).any():
        wrong = total[np.abs(total - 1.0) > _ROUNDING].flat[0]
        raise InvalidParameterError(
            f"{name} must add up to 1, got {wrong:.15g}: divide counts by their total"
        )
    return np.asarray(value / total)


# Checks of what was published with noise: the laws of two samples, and totals.


def check_total(x: NoisyValues, total: float, name: str = "nobs") -> None:
    """Refuse values whose sum has no noise and is not what it is known to be."""
    everything = x if x.weights is None else x.linear(np.ones((1, len(x))))
    if everything.variance.sum() <= _NO_NOISE * x.variance.sum():
        check_sums(x.values.sum(), total, x.name, name, np.abs(x.values).sum())


def check_sums(found: Any, wanted: Any, name: str, other: str, size: Any = 0.0) -> None:
    """Refuse sums without noise that are not what they are known to be."""
    if np.any(np.abs(found - wanted) > _ROUNDING * np.maximum(np.abs(wanted), size)):
        raise InvalidParameterError(
            f"{name} must add up to {other} where there is no noise, got {found} instead of "
            f"{wanted}"
        )


def law_pair(
    mechanism: Any, size: int, name: str, *, dependence: Dependence = "refused"
) -> tuple[Any, Any]:
    """Return the laws of both samples, from one for both or a pair."""
    if isinstance(mechanism, (list, tuple)):
        if len(mechanism) != 2:
            raise InvalidParameterError(
                f"{name} must be one noise law for both samples, or a pair, got {len(mechanism)}"
            )
        one, other = (as_noise(law, size, name=name, dependence=dependence) for law in mechanism)
        if dependence == "refused":
            refuse_dependent([one, other], name)
        return one, other
    law = as_noise(mechanism, size, name=name)
    refuse_same([law, law], name)
    return law, law


_CELLS = 1 << 16
"""Cells drawn at a time: few enough to stay in the cache."""


def draws_in_block(cells: int) -> int:
    """Return the number of tables of so many cells that are drawn at a time."""
    return min(BLOCK, max(1, _CELLS // cells))


def joint_errors(x: NoisyValues) -> tuple[NoiseLaw, NoisyValues | None]:
    """Return the law of errors that are independent; else of their noises, with the values."""
    return (x.marginal, None) if x.are_independent() else (x.noises.law, x)


def are_apart(one: NoisyValues, other: NoisyValues) -> bool:
    """Whether no noise with variance has a part in both, value by value; one may serve all."""
    both = one.beside(other)
    if both.weights is None:
        return True
    size = max(len(one), len(other))
    rows = (
        both._rows(np.broadcast_to(np.arange(len(x)), size) + start)
        for x, start in ((one, 0), (other, len(one)))
    )
    first, second = (abs(held) for held in rows)
    return not (first.multiply(second).tocsr() @ both._noise_variance()).any()


def two_samples(
    first: Any, second: Any, mechanism: Any, names: tuple[str, str], who: str
) -> tuple[NoisyValues, NoisyValues]:
    """Return the counts of two samples, whose errors are independent row by row.

    A tuple is a pair of laws; one law serves both that do not carry their own.
    """
    if isinstance(mechanism, tuple):
        if len(mechanism) != 2:
            raise InvalidParameterError(
                f"mechanism must be one noise law for both samples, or a pair, got {len(mechanism)}"
            )
        laws = list(mechanism)
    else:
        carried = [hasattr(x, "__noisy__") for x in (first, second)]
        laws = [None if own and not all(carried) else mechanism for own in carried]
    x, y = (
        noisy(count, mechanism=law, name=name).need(unruled=True, whole=True, who=who)
        for count, law, name in zip((first, second), laws, names, strict=True)
    )
    y = x.aligned(y)
    if not are_apart(x, y):
        raise InvalidParameterError(
            f"{who} needs independent errors, got {names[0]} and {names[1]} that share noises: "
            "test a contrast of them with linear_ztest, or make an interval for their ratio or "
            "share, which know how they depend"
        )
    return x, y


def reports_noise(
    channel: RandomizedResponse | UnaryEncoding, count: Any, nobs: Any, name: str, nobs_name: str
) -> Exact:
    """Return that reports have no noise of their own, once they have been checked."""
    if channel.slope <= 1e-15:
        raise InvalidParameterError(
            f"mechanism must favour the truth, got {show(channel)}: its reports say nothing about "
            "the answers"
        )
    counts = check_integer_array(split_labels(count, name)[0], name, ge=0)
    trials = split_labels(nobs, nobs_name)[0]
    common_shape(**{name: counts, nobs_name: trials})
    if (counts > trials).any():
        raise InvalidParameterError(f"{name} must be at most {nobs_name}: it counts reports")
    return Exact()
