"""What the law of a quadratic statistic needs to know about the noise of one cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import IntegerLaw, NoiseLaw
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.laplace import Laplace
from dpinfer.mechanisms.tulap import Tulap

ComplexArray = NDArray[np.complex128]
Kernel = Callable[[ComplexArray, FloatArray], ComplexArray]
"""E[exp(s (d + u)²)] of a continuous u, for Re s <= 0, shapes that broadcast."""

NEGLIGIBLE = 1e-17
"""Probability of the noise that is left out, each side."""

_LARGEST_REACH = 1 << 15
_EXP, _ERFCX, _ERF = 50.0, 300.0, 600.0
"""Costs of kernels, see below."""

_TAIL_UNITS = -np.log(NEGLIGIBLE)
_SMALLEST_SCALE = 1e-12
"""Continuous noise smaller than this is nothing at the precision of counts in floating point."""
_LARGEST_SCALE = 1e70
"""The fourth moment of continuous noise wider than this could overflow."""


@dataclass(frozen=True)
class NoiseParts:
    """Noise as a sum of a whole number and a continuous part, either of which may be missing.

    Parameters
    ----------
    pmf : array of float, shape (2r + 1,)
        Probabilities of the whole numbers -r to r.
    kernel : callable
        Average of exp(s (d + u)²) over the continuous part u.
    variance, fourth : float
        Second and fourth moment of the noise.
    reach : float
        What the noise exceeds with negligible probability.
    cost : float
        What the kernel takes at one point, in multiplications of complex numbers.
    """

    pmf: FloatArray
    kernel: Kernel
    variance: float
    fourth: float
    reach: float
    cost: float

    @property
    def is_integer(self) -> bool:
        """Whether there is no continuous part."""
        return self.kernel is point_kernel


def point_kernel(s: ComplexArray, d: FloatArray) -> ComplexArray:
    """Without a continuous part."""
    return np.asarray(np.exp(s * np.square(d)))


def _gaussian_kernel(variance: float, s: ComplexArray, d: FloatArray) -> ComplexArray:
    shrink = 1.0 / (1.0 - 2.0 * variance * s)
    return np.asarray(np.sqrt(shrink) * np.exp(s * shrink * np.square(d)))


def _laplace_kernel(scale: float, s: ComplexArray, d: FloatArray) -> ComplexArray:
    """Two half-lines, each a scaled complementary error function of a complex number.

    ∫_0^∞ exp(s(d+u)² - u/b) du = exp(s d²)·√π/(2κ)·erfcx(κd + 1/(2bκ)) with κ = √-s. Where the
    real part of the argument is negative, erfcx(z) = 2exp(z²) - erfcx(-z).
    """
    at_zero = s == 0
    root = np.sqrt(-np.where(at_zero, -1.0, s))
    tilt = 0.5 / (scale * root)
    wave = np.exp(s * np.square(d))
    # erfcx(z) = w(iz); |d| is on one side, -|d| on the other
    size = np.abs(d)
    near = wave * special.wofz(1j * (root * size + tilt))
    z = tilt - root * size
    flipped = z.real < 0
    far = wave * special.wofz(1j * np.where(flipped, -z, z))
    with np.errstate(under="ignore"):
        reflected = 2.0 * np.exp(np.where(flipped, np.square(tilt) - size / scale, 0.0)) - far
    far = np.where(flipped, reflected, far)
    value = np.sqrt(np.pi) / (4.0 * scale * root) * (near + far)
    return np.where(at_zero, 1.0, value)


def _uniform_kernel(s: ComplexArray, d: FloatArray) -> ComplexArray:
    """Over the unit interval around 0: a difference of two error functions."""
    at_zero = s == 0
    root = np.sqrt(-np.where(at_zero, -1.0, s))
    value = special.erf(root * (d + 0.5)) - special.erf(root * (d - 0.5))
    return np.where(at_zero, 1.0, 0.5 * np.sqrt(np.pi) / root * value)


def noise_parts(law: NoiseLaw) -> NoiseParts | None:
    """Return the parts of one noise with scalar parameters, or None where they are not known.

    Not known are weighted sums, truncated Tulap noise, whole-numbered noise so wide that it
    cannot be listed, and continuous noise so narrow that it is lost in the rounding of counts, or
    so wide that its moments overflow.
    """
    if isinstance(law, Exact):
        return NoiseParts(np.ones(1), point_kernel, 0.0, 0.0, 0.0, _EXP)
    if isinstance(law, IntegerLaw):
        return _whole(law, point_kernel, 0.0, 0.0, 0.0, _EXP)
    if isinstance(law, Tulap) and not law.truncation:
        return _whole(
            Geometric(scale=law.scale), _uniform_kernel, 1.0 / 12.0, 1.0 / 80.0, 0.5, _ERF
        )
    if isinstance(law, Gaussian) and _SMALLEST_SCALE < law.sigma <= _LARGEST_SCALE:
        variance = float(law.sigma) ** 2
        kernel = partial(_gaussian_kernel, variance)
        reach = float(law.isf(NEGLIGIBLE))
        return NoiseParts(np.ones(1), kernel, variance, 3.0 * variance**2, reach, _EXP)
    if isinstance(law, Laplace) and _SMALLEST_SCALE < law.scale <= _LARGEST_SCALE:
        b = float(law.scale)
        kernel = partial(_laplace_kernel, b)
        return NoiseParts(np.ones(1), kernel, 2.0 * b**2, 24.0 * b**4, _TAIL_UNITS * b, _ERFCX)
    return None


def _whole(
    law: IntegerLaw,
    kernel: Kernel,
    variance: float,
    fourth: float,
    reach: float,
    cost: float,
) -> NoiseParts | None:
    """Return the parts of listed whole-numbered noise, plus a continuous part."""
    last = float(law.isf(NEGLIGIBLE))
    if last > _LARGEST_REACH:
        return None
    whole = np.arange(-last, last + 1.0)
    pmf = law.pmf(whole)
    pmf /= pmf.sum()
    second, own = pmf @ np.square(whole), pmf @ whole**4
    return NoiseParts(
        pmf,
        kernel,
        float(second) + variance,
        float(own) + 6.0 * float(second) * variance + fourth,
        last + reach,
        cost,
    )
