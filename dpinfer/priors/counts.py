"""What is believed of a confidential count before its noisy value is seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, Locked, check_array, check_flag, check_integer, freeze, show
from dpinfer.errors import InvalidParameterError
from dpinfer.results.labels import split_labels

LARGEST_COUNT = 2.0**52
"""Beyond it, whole numbers and their halves are no longer told apart by float64."""

_SMALLEST_MEAN = 1e-100
_LARGEST_MEAN = 1e15
LARGEST_DISPERSION = 1e6


class Prior(ABC):
    """A prior for confidential counts; see the priors themselves."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The prior in words, as it stands in summaries."""


class CountPrior(Prior):
    """A prior of single counts, independent of each other."""


@dataclass(frozen=True)
class FlatPrior(CountPrior):
    """All whole numbers of the support are equally likely.

    On a support without ends it is improper; the posterior is proper all the same.

    Examples
    --------
    >>> FlatPrior().description
    'flat'
    """

    @property
    def description(self) -> str:
        """The prior in words."""
        return "flat"


@dataclass(frozen=True, eq=False)
class PoissonPrior(CountPrior):
    """Counts are Poisson.

    Parameters
    ----------
    rate : float, array or Series
        Expected count, 0 or within [1e-100, 1e15]: one for all counts, or one for each.
    empirical : bool, default False
        Whether the rate was estimated from the published counts themselves.

    Raises
    ------
    InvalidParameterError
        If a rate is outside what is allowed.

    Examples
    --------
    >>> PoissonPrior(4.5).description
    'Poisson, mean 4.5'
    """

    rate: Any
    empirical: bool = False

    def __post_init__(self) -> None:
        check_mean(self.rate, "rate")
        check_flag(self.empirical, "empirical")

    @property
    def description(self) -> str:
        """The prior in words."""
        return f"Poisson, mean {shown(self.rate)}"


@dataclass(frozen=True, eq=False)
class NegativeBinomialPrior(CountPrior):
    """Counts are negative binomial: Poisson with rates that vary like a gamma variable.

    Parameters
    ----------
    mean : float, array or Series
        Expected count μ, 0 or within [1e-100, 1e15]: one for all counts, or one for each.
    dispersion : float, array or Series
        The φ in [0, 1e6] of the variance μ + φμ², that of NB2 regression; 0 is Poisson.
    empirical : bool, default False
        Whether the parameters were estimated from the published counts themselves.

    Raises
    ------
    InvalidParameterError
        If a parameter is outside what is allowed.

    Examples
    --------
    >>> NegativeBinomialPrior(4.5, 0.5).description
    'negative binomial, mean 4.5, dispersion 0.5'
    """

    mean: Any
    dispersion: Any
    empirical: bool = False

    def __post_init__(self) -> None:
        check_mean(self.mean, "mean")
        dispersion, _ = split_labels(self.dispersion, "dispersion")
        check_array(dispersion, "dispersion", ge=0, le=LARGEST_DISPERSION)
        check_flag(self.empirical, "empirical")

    @property
    def description(self) -> str:
        """The prior in words."""
        mean, dispersion = shown(self.mean), shown(self.dispersion)
        return f"negative binomial, mean {mean}, dispersion {dispersion}"


@dataclass(frozen=True, eq=False)
class TablePrior(Locked, CountPrior):
    """Probabilities of consecutive whole numbers, the same for all counts.

    Parameters
    ----------
    pmf : array of float, shape (m,)
        Probabilities of ``first``, ``first + 1``, …, or weights that are proportional to them.
    first : int, default 0
        The count of the first one.

    Raises
    ------
    InvalidParameterError
        If a weight is negative or not finite, or none is positive.

    Examples
    --------
    >>> TablePrior([1, 0, 3], first=5).pmf
    array([0.25, 0.  , 0.75])
    """

    pmf: ArrayLike
    first: int = 0

    def __post_init__(self) -> None:
        weights = check_array(self.pmf, "pmf", ge=0, ndim=1)
        if not weights.any():
            raise InvalidParameterError("pmf must have a positive entry, got zeros only")
        weights = weights / weights.max()
        most = int(LARGEST_COUNT) - weights.size
        first = check_integer(self.first, "first", ge=-most, le=most)
        object.__setattr__(self, "pmf", freeze(weights / weights.sum()))
        object.__setattr__(self, "first", first)

    @property
    def description(self) -> str:
        """The prior in words."""
        size = np.size(self.pmf)
        return f"table of {size} probabilities, from {self.first} on"


@dataclass(frozen=True)
class FunctionPrior(CountPrior):
    """A prior by a function, the same for all counts, on the support of the posterior.

    Parameters
    ----------
    logpmf : callable
        Takes an array of whole numbers (float64) and returns the logarithms of their
        probabilities, up to a constant; -inf where a count is impossible.

    Raises
    ------
    InvalidParameterError
        If it is not callable.

    Examples
    --------
    >>> FunctionPrior(lambda k: -2 * np.log1p(k)).description
    'function of the count'
    """

    logpmf: Callable[[FloatArray], ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.logpmf):
            raise InvalidParameterError(
                f"logpmf must be a function of an array of counts, got {show(self.logpmf)}"
            )

    @property
    def description(self) -> str:
        """The prior in words."""
        return "function of the count"

    def values(self, k: FloatArray) -> FloatArray:
        """Evaluate the function at whole numbers; NaN, +inf or another shape are an error."""
        values = check_array(self.logpmf(k), "logpmf(k)", finite=False, lt=np.inf)
        if values.shape != k.shape:
            raise InvalidParameterError(
                f"logpmf must return one value for each count, got shape {values.shape} for "
                f"{k.shape}"
            )
        return values


def check_mean(value: Any, name: str) -> None:
    """Refuse means that are neither 0 nor within what can be computed."""
    mean, _ = split_labels(value, name)
    check_array(mean, name, ge=0, le=_LARGEST_MEAN)
    if ((mean > 0) & (mean < _SMALLEST_MEAN)).any():
        raise InvalidParameterError(
            f"{name} must be 0 or within [{_SMALLEST_MEAN:g}, {_LARGEST_MEAN:g}], got "
            f"{mean[mean > 0].min():g}"
        )


def shown(value: Any) -> str:
    """Return a number as text, or the range of many."""
    array, _ = split_labels(value, "value")
    low, high = float(array.min()), float(array.max())
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
