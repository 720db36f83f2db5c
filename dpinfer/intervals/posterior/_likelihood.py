"""What was published as a likelihood of the count: steps, density and reach of the noise."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    NoiseLaw,
    Rounded,
    Tulap,
)

_LARGEST_EXPONENT = 400.0
"""Steps are cut at e^±400: there they decide alone, and products with others are finite."""


def check_law(law: NoiseLaw) -> None:
    """Refuse a law whose density is not known in closed form."""
    known = (Laplace, Geometric, Gaussian, DiscreteGaussian, Tulap, Rounded, Exact)
    if not isinstance(law, known):
        raise InvalidParameterError(
            f"mechanism must have a density in closed form, got {type(law).__name__}: pass the "
            "published counts with their own Laplace, Geometric, Gaussian, DiscreteGaussian, "
            "Tulap or Rounded noise"
        )


def noise_step(law: NoiseLaw, x: FloatArray) -> FloatArray:
    """g(x - 1)/g(x) for the density or probability g of the noise: the count is one larger."""
    if isinstance(law, Exact):
        return np.ones_like(x)  # the support has one count only
    if isinstance(law, (Laplace, Geometric)):
        rate = np.minimum(1.0 / np.asarray(law.scale), _LARGEST_EXPONENT)
        exponent = 2.0 * x
        exponent -= 1.0
        np.clip(exponent, -1.0, 1.0, out=exponent)
        exponent *= rate
        return np.exp(exponent, out=exponent)
    if isinstance(law, (Gaussian, DiscreteGaussian)):
        exponent = x - 0.5
        exponent *= 1.0 / np.square(np.asarray(law.sigma))
    elif isinstance(law, Rounded):
        # where both are 0, beyond the ends of the support, either step will do
        with np.errstate(invalid="ignore"):
            exponent = np.nan_to_num(law._logpmf(x - 1.0) - law._logpmf(x), nan=0.0)
    else:
        assert isinstance(law, Tulap)
        exponent = (_interval(x) - _interval(x - 1.0)) / law.scale
    np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT, out=exponent)
    return np.exp(exponent, out=exponent)


def _interval(x: FloatArray) -> FloatArray:
    """Return the distance from 0 of the unit interval that holds x, the nearer of two at its ends.

    The density of Tulap noise jumps there. Neighbouring counts have to be treated alike.
    """
    return np.asarray(np.ceil(np.abs(x) - 0.5))


def log_density(law: NoiseLaw, x: FloatArray) -> FloatArray:
    """Logarithm of the density, or of the probability of a whole number."""
    if isinstance(law, (Geometric, DiscreteGaussian, Rounded, Exact)):
        return np.asarray(law.logpmf(x))
    assert isinstance(law, (Laplace, Gaussian, Tulap))
    if not isinstance(law, Tulap):
        return np.asarray(law.logpdf(x))
    inside = law.logpdf(np.minimum(_interval(x), np.abs(x)))
    return np.where(np.abs(x) <= bound(law), inside, -np.inf)


def reach(law: NoiseLaw, drop: FloatArray) -> FloatArray:
    """Distance from 0 beyond which the density is below e^-drop of its peak."""
    if isinstance(law, Rounded):
        return reach(law.law, drop) + 0.5
    if isinstance(law, (Gaussian, DiscreteGaussian)):
        return np.asarray(law.sigma * np.sqrt(2.0 * drop))
    if isinstance(law, (Laplace, Geometric)):
        return np.asarray(law.scale * drop)
    if isinstance(law, Tulap):
        return np.asarray(law.scale * drop + 1.0)
    return np.zeros_like(drop)


def bound(law: NoiseLaw) -> FloatArray:
    """End of the support of the noise."""
    if isinstance(law, Exact):
        return np.zeros(())
    return np.asarray(law.isf(0.0)) if isinstance(law, (Rounded, Tulap)) else np.full((), np.inf)
