"""Sampling designs: what a count in the sample says about the population."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._numerics.binomial import binom_pmf
from dpinfer._validation import FloatArray, check_array, check_integer_array, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, unlabelled
from dpinfer.intervals.surveys._hypergeometric import NoisyHypergeometric
from dpinfer.mechanisms import Exact, NoiseLaw
from dpinfer.mechanisms._noisy_count import NoisyCount
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial

if TYPE_CHECKING:
    import pandas as pd

DesignName = Literal["srs", "poisson"]
DESIGNS: tuple[DesignName, ...] = ("srs", "poisson")

_SMALLEST_RATE = 1e-15

_LARGEST_QUICK = 1e7
"""Populations in which logarithms of factorials give probabilities to 1e-7 of them."""


def log_choose(n: FloatArray, k: FloatArray) -> FloatArray:
    """Logarithm of the number of ways to choose k of n; -inf where there is none."""
    ways = special.gammaln(n + 1.0) - special.gammaln(np.maximum(k, 0.0) + 1.0)
    possible = (k >= 0) & (k <= n)
    return np.where(possible, ways - special.gammaln(np.maximum(n - k, 0.0) + 1.0), -np.inf)


@dataclass(frozen=True, kw_only=True)
class Design(ABC):
    """A sampling design, one sample for each of m rows; its parameters have the shape (m,)."""

    population_size: FloatArray | None

    @property
    @abstractmethod
    def name(self) -> str:
        """What summaries call the design."""

    @property
    @abstractmethod
    def expansion(self) -> FloatArray:
        """What one sampled unit stands for: the Horvitz-Thompson weight."""

    @property
    @abstractmethod
    def is_census(self) -> NDArray[np.bool_]:
        """Whether everybody is in the sample, as an array of bool."""

    @abstractmethod
    def sampling_variance(self, count: FloatArray, noise_variance: FloatArray) -> FloatArray:
        """Unbiased estimate, possibly negative, of the sampling variance of the total."""

    @property
    @abstractmethod
    def middle(self) -> FloatArray:
        """Total at which the count varies most."""

    @abstractmethod
    def count_variance(self, total: FloatArray) -> FloatArray:
        """Variance of the count without noise, for totals of shape (…, m)."""

    @abstractmethod
    def pmf(self, x: FloatArray, total: FloatArray) -> FloatArray:
        """Probabilities of counts under one design; not for a census."""

    @abstractmethod
    def law(self, total: FloatArray, noise: NoiseLaw) -> NoisyCount:
        """Law of the noisy count where ``total`` in the population count; not for a census."""

    @abstractmethod
    def take(self, rows: Any) -> Self:
        """Return the design of some of the rows."""


@dataclass(frozen=True, kw_only=True)
class SimpleRandomSampling(Design):
    """Samples of ``sample_size`` units, drawn without replacement, all with one probability."""

    sample_size: FloatArray
    population_size: FloatArray

    @property
    def name(self) -> str:
        """What summaries call the design."""
        return "simple random sampling"

    @property
    def expansion(self) -> FloatArray:
        """N/n."""
        return np.asarray(self.population_size / self.sample_size)

    @property
    def is_census(self) -> NDArray[np.bool_]:
        """Whether n = N."""
        return np.asarray(self.sample_size == self.population_size)

    def sampling_variance(self, count: FloatArray, noise_variance: FloatArray) -> FloatArray:
        """N²(1 - n/N)s²/n with s² = (y(n - y) + v)/(n(n - 1))."""
        n = self.sample_size
        spread = (count * (n - count) + noise_variance) / (n * np.maximum(n - 1.0, 1.0))
        left = (self.population_size - n) / n
        return np.asarray(self.population_size * left * spread)

    @property
    def middle(self) -> FloatArray:
        """N/2."""
        return np.asarray(np.floor(0.5 * self.population_size))

    def count_variance(self, total: FloatArray) -> FloatArray:
        """n·p(1 - p)·(N - n)/(N - 1) with p = K/N."""
        size = self.population_size
        share = total / size
        left = (size - self.sample_size) / np.maximum(size - 1.0, 1.0)
        return np.asarray(self.sample_size * share * (1.0 - share) * left)

    def pmf(self, x: FloatArray, total: FloatArray) -> FloatArray:
        """Hypergeometric probabilities."""
        n, size = self.sample_size, self.population_size
        if size > _LARGEST_QUICK:
            return self.law(total, Exact())._pmf_at(x)
        rest = size - total
        ways = log_choose(total, x) + log_choose(rest, n - x)
        return np.asarray(np.exp(ways - log_choose(size, n)))

    def law(self, total: FloatArray, noise: NoiseLaw) -> NoisyCount:
        """Hypergeometric count and noise."""
        return NoisyHypergeometric(
            nobs=self.sample_size, total=total, population=self.population_size, noise=noise
        )

    def take(self, rows: Any) -> Self:
        """Return the design of some of the rows."""
        return replace(
            self,
            sample_size=self.sample_size[rows],
            population_size=self.population_size[rows],
        )


@dataclass(frozen=True, kw_only=True)
class PoissonSampling(Design):
    """Samples in which each unit is with probability ``rate``, independently of the others."""

    rate: FloatArray

    @property
    def name(self) -> str:
        """What summaries call the design."""
        return "Poisson sampling"

    @property
    def expansion(self) -> FloatArray:
        """1/π."""
        return np.asarray(1.0 / self.rate)

    @property
    def is_census(self) -> NDArray[np.bool_]:
        """Whether π = 1."""
        return np.asarray(self.rate == 1.0)

    def sampling_variance(self, count: FloatArray, noise_variance: FloatArray) -> FloatArray:
        """(1 - π)y/π²."""
        return np.asarray((1.0 - self.rate) * count / np.square(self.rate))

    @property
    def middle(self) -> FloatArray:
        """Without end."""
        return np.full(self.rate.shape, LARGEST_NOBS)

    def count_variance(self, total: FloatArray) -> FloatArray:
        """K·π(1 - π)."""
        return np.asarray(total * self.rate * (1.0 - self.rate))

    def pmf(self, x: FloatArray, total: FloatArray) -> FloatArray:
        """Binomial probabilities."""
        if total.max() > _LARGEST_QUICK:
            inside = np.minimum(x, total)
            return np.where(x <= total, binom_pmf(inside, total, self.rate), 0.0)
        chance = x * np.log(self.rate) + np.maximum(total - x, 0.0) * np.log1p(-self.rate)
        return np.asarray(np.exp(log_choose(total, x) + chance))

    def law(self, total: FloatArray, noise: NoiseLaw) -> NoisyCount:
        """Binomial count and noise."""
        return NoisyBinomial(nobs=total, value=self.rate, noise=noise)

    def take(self, rows: Any) -> Self:
        """Return the design of some of the rows."""
        size = self.population_size
        return replace(
            self,
            rate=self.rate[rows],
            population_size=None if size is None else size[rows],
        )


def checked_design(
    design: DesignName,
    count: FloatArray,
    labels: pd.Index | None,
    *,
    sample_size: Any,
    population_size: Any,
    rate: Any,
) -> Design:
    """Return the design that the arguments describe, with one entry for each of the counts."""
    option = check_option(design, "design", _ARGUMENTS)
    given = {"sample_size": sample_size, "population_size": population_size, "rate": rate}
    needed, refused = _ARGUMENTS[option]
    for name in needed:
        if given[name] is None:
            raise InvalidParameterError(f"{name} must be given for design={option!r}")
    for name in refused:
        if given[name] is not None:
            raise InvalidParameterError(f"{name} must not be given for design={option!r}")

    def one_each(name: str) -> FloatArray:
        array = unlabelled(given[name], name, labels, "count")
        if array.shape not in ((), count.shape):
            raise InvalidParameterError(
                f"{name} must be a number or have one entry for each of the {count.size} counts, "
                f"got shape {array.shape}"
            )
        return np.broadcast_to(array, count.shape).reshape(-1)

    size = None if population_size is None else _checked_size(one_each("population_size"))
    if option == "poisson":
        chance = check_array(one_each("rate"), "rate", ge=_SMALLEST_RATE, le=1)
        return PoissonSampling(rate=chance, population_size=size)
    assert size is not None  # srs needs it
    sample = check_integer_array(one_each("sample_size"), "sample_size", ge=1)
    if (bad := sample > size).any():
        raise InvalidParameterError(
            f"sample_size must be <= population_size, got {sample[bad][0]:g} of {size[bad][0]:g}"
        )
    if ((sample == 1) & (size > 1)).any():
        raise InvalidParameterError(
            "sample_size must be >= 2 unless everybody is sampled: one unit does not show how "
            "units differ"
        )
    return SimpleRandomSampling(sample_size=sample, population_size=size)


_ARGUMENTS: dict[DesignName, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "srs": (("sample_size", "population_size"), ("rate",)),
    "poisson": (("rate",), ("sample_size",)),
}
"""Arguments that each design needs, and those that it does not take."""


def _checked_size(size: FloatArray) -> FloatArray:
    check_array(size, "population_size", le=LARGEST_NOBS)
    return check_integer_array(size, "population_size", ge=1)
