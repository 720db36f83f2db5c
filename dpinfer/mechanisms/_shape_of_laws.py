"""Entropy and kurtosis of noise laws, where they are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.discrete_gaussian import DiscreteGaussian
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.laplace import Laplace

NORMAL_SIGMA = 4.0
"""From here on the moments of a discrete Gaussian are those of the normal law: they differ by
about exp(-2π²σ²) < 1e-137 of themselves, by Poisson's summation formula."""


def entropy_of(law: NoiseLaw) -> FloatArray:
    """Return the entropy of a law in nats."""
    return _known(law, ENTROPIES, "entropy")


def excess_kurtosis_of(law: NoiseLaw) -> FloatArray:
    """Return the kurtosis of a law less that of the normal one."""
    return _known(law, KURTOSES, "kurtosis")


def _known(law: NoiseLaw, table: dict[type, Callable[[Any], Any]], name: str) -> FloatArray:
    if type(law) not in table:
        kinds = ", ".join(kind.__name__ for kind in table)
        raise InvalidParameterError(
            f"law must be one of {kinds} to have a known {name}, got {show(law)}"
        )
    return np.asarray(table[type(law)](law), dtype=np.float64)


def _geometric_entropy(law: Geometric) -> FloatArray:
    # -log P(0) + E|k|/b with P(0) = tanh(1/(2b)) and E|k| = 1/sinh(1/b)
    rate = 1.0 / np.asarray(law.scale)
    with np.errstate(over="ignore"):
        return np.asarray(-np.log(np.tanh(0.5 * rate)) + rate / np.sinh(rate))


def _geometric_kurtosis(law: Geometric) -> FloatArray:
    # E k⁴ / (E k²)² - 3 = 3 + 1/variance: the cosine in the cumulants of two geometric laws
    with np.errstate(divide="ignore"):
        return np.asarray(3.0 + 1.0 / np.asarray(law.variance))


def _gaussian_entropy(law: Gaussian) -> FloatArray:
    return np.asarray(0.5 * np.log(2.0 * np.pi * np.e) + np.log(np.asarray(law.sigma)))


def _discrete_gaussian_entropy(law: DiscreteGaussian) -> FloatArray:
    # log P(k) = log P(0) - k²/(2σ²)
    sigma = np.asarray(law.sigma)
    with np.errstate(under="ignore"):
        spread = np.sqrt(np.asarray(law.variance)) / sigma
    return np.asarray(-np.asarray(law.logpmf(np.zeros(law.shape))) + 0.5 * np.square(spread))


def _discrete_gaussian_kurtosis(law: DiscreteGaussian) -> FloatArray:
    sigma = np.asarray(law.sigma)
    narrow = np.atleast_1d(np.minimum(sigma, NORMAL_SIGMA))[..., np.newaxis]
    k = np.arange(1.0, 40.0 * NORMAL_SIGMA)
    # relative to P(1), so that nothing vanishes for narrow noise: mass = exp(-(k² - 1)/(2σ²))
    with np.errstate(under="ignore", over="ignore"):
        mass = np.exp(-0.5 * (np.square(k) - 1.0) / np.square(narrow))
        first = 2.0 * np.exp(-0.5 / np.square(narrow[..., 0]))
    second, fourth = (mass @ k**2), (mass @ k**4)
    whole = 1.0 + first * mass.sum(axis=-1)
    with np.errstate(divide="ignore", over="ignore"):
        excess = fourth * whole / (first * np.square(second)) - 3.0
    return np.where(sigma >= NORMAL_SIGMA, 0.0, excess.reshape(sigma.shape))


ENTROPIES: dict[type, Callable[[Any], Any]] = {
    Laplace: lambda law: 1.0 + np.log(2.0) + np.log(np.asarray(law.scale)),
    Gaussian: _gaussian_entropy,
    Geometric: _geometric_entropy,
    DiscreteGaussian: _discrete_gaussian_entropy,
    Exact: lambda law: 0.0,
}

KURTOSES: dict[type, Callable[[Any], Any]] = {
    Laplace: lambda law: np.full(law.shape, 3.0),
    Gaussian: lambda law: np.zeros(law.shape),
    Geometric: _geometric_kurtosis,
    DiscreteGaussian: _discrete_gaussian_kurtosis,
}
