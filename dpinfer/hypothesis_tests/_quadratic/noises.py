"""What the law of a quadratic statistic needs to know about the noise of one cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer.mechanisms.law import IntegerLaw, NoiseLaw
from dpinfer.mechanisms.laws import Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap

Kernel = Callable[[ComplexArray, FloatArray], ComplexArray]
"""E[exp(-z (d + u)²)] of a continuous u, for Re z >= 0 of shape (t,) and equally spaced d of shape
(m,), in the order of one and the other; shape (t, m)."""

NEGLIGIBLE = 1e-17
"""Probability of the noise that is left out, each side."""

_LARGEST_REACH = 1 << 15
WAVE, _EXP, _ERFCX, _ERF = 10.0, 50.0, 400.0, 400.0
"""Costs of kernels, see below."""

_TAIL_UNITS = -np.log(NEGLIGIBLE)
_SMALLEST_SCALE = 1e-12
"""Continuous noise smaller than this is nothing at the precision of counts in floating point."""
_LARGEST_SCALE = 1e70
"""The fourth moment of continuous noise wider than this could overflow."""

_MOST_NODES = 40
"""Nodes of Gauss's rule between neighbouring counts beyond which error functions are faster."""

_SERIES = ((2000.0, 5), (200.0, 8), (50.0, 14))
"""From which squared size of its argument on the scaled complementary error function is so many
terms of its asymptotic series, to 3e-14 relative at most."""


@dataclass(frozen=True)
class NoiseParts:
    """Noise as a sum of a whole number and a continuous part, either of which may be missing."""

    pmf: FloatArray  # probabilities of the whole numbers -r to r, shape (2r + 1,)
    kernel: Kernel  # average of exp(-z (d + u)²) over the continuous part u
    variance: float
    fourth: float  # fourth moment
    reach: float  # what the noise exceeds with negligible probability
    cost: float  # what the kernel takes at one point, in multiplications of complex numbers
    grain: float  # size of the characteristic function of the continuous part near 2π

    @property
    def is_integer(self) -> bool:
        """Whether there is no continuous part."""
        return self.kernel is point_kernel


def _is_even(z: NDArray[np.complexfloating[Any, Any]]) -> bool:
    """Whether points are equally spaced."""
    return z.size < 3 or bool(np.abs(np.diff(z, 2)).max() <= 1e-9 * abs(z[1] - z[0]))


def waves(z: NDArray[np.complexfloating[Any, Any]], x: FloatArray) -> ComplexArray:
    """exp(-zx), shape (z, x): for equally spaced z products of few of them, for speed.

    That amounts to rounding z, which does not matter.
    """
    rows = min(int(np.sqrt(z.size)) + 1, z.size) if _is_even(z) else z.size
    first = np.exp(np.multiply.outer(-z[:rows], x))
    if rows == z.size:
        return np.asarray(first)
    jumps = np.exp(np.multiply.outer(z[0] - z[::rows], x))
    return np.asarray((jumps[:, None] * first).reshape(-1, x.size)[: z.size])


def point_kernel(z: ComplexArray, d: FloatArray) -> ComplexArray:
    """Without a continuous part."""
    return waves(z, np.square(d))


def _gaussian_kernel(variance: float, z: ComplexArray, d: FloatArray) -> ComplexArray:
    shrink = 1.0 / (1.0 + 2.0 * variance * z)
    value = np.exp(np.multiply.outer(-z * shrink, np.square(d)))
    value *= np.sqrt(shrink)[:, None]
    return np.asarray(value)


def _laplace_kernel(scale: float, z: ComplexArray, d: FloatArray) -> ComplexArray:
    """Two half-lines, each a scaled complementary error function or the next one's and a bit.

    With R(d) = ∫_0^∞ exp(-z(d+u)² - u/b) du, the same L to the left, f = exp(-δ/b) and K = R + L,
    both (1 - f²)·L(d) less f times that before it, and K(d) - (1 - f²)·L(d) less f·K(d + δ), are
    integrals between neighbours. All factors are in [0, 1], which is stable.
    """
    from scipy.linalg import lapack

    width = float(d[1] - d[0]) if d.size > 1 else 0.0
    units = _between(z, d, partial(_laplace_rule, scale, width), 1.0 / scale)
    if units is None:
        return _two_half_lines(scale, z, d)
    value = np.zeros((z.size, d.size), dtype=np.complex128)
    value[:, :-1] = units[:, 0]
    value[:, 1:] += units[:, 1]
    last = -np.expm1(-2.0 * width / scale)
    value[:, [0, -1]] += last * (0.5 / scale) * _half_line(scale, z, np.array([-d[0], d[-1]]))
    # one way for L, and back for K
    pivots = np.append(np.ones(d.size - 1), last)
    factor = np.full(d.size - 1, -np.exp(-width / scale), dtype=np.complex128)
    return np.asarray(lapack.zpttrs(pivots, factor, value.T, overwrite_b=True)[0].T)


Rule = tuple[FloatArray, FloatArray]
"""Nodes u in [0, δ], and for each of the weights w factors of the integrand there."""


@lru_cache(maxsize=64)
def _gauss(order: int) -> Rule:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


@lru_cache(maxsize=256)
def _laplace_rule(scale: float, width: float, order: int) -> Rule:
    nodes, weights = _gauss(order)
    u, weights = 0.5 * width * (nodes + 1.0), 0.25 * width / scale * weights
    sides = np.stack([u, width - u])
    return u, weights * -np.exp(-sides / scale) * np.expm1(-2.0 * (width - sides) / scale)


def _uniform_rule(order: int) -> Rule:
    nodes, weights = _gauss(order)
    return 0.5 * (nodes + 1.0), 0.5 * weights[None, :]


def _between(
    z: ComplexArray, d: FloatArray, rule: Callable[[int], Rule], rate: float
) -> ComplexArray | None:
    """∫_0^δ exp(-z(d+u)²)·w(u) du by Gauss's rule, for weights w that vary as exp(-rate·u).

    For each weight over the intervals between the d, shape (t, w, m - 1); None where that takes too
    many nodes.
    """
    if d.size < 4 or not _is_even(z):
        return None
    turn = float(np.abs(z).max()) * 2.0 * float(np.abs(d).max()) + rate
    if (order := int(0.25 * turn * float(d[1] - d[0])) + 10) > _MOST_NODES:
        return None
    u, factors = rule(order)
    out = np.empty((z.size, len(factors), d.size - 1), dtype=np.complex128)
    value = _squared_waves(z[0], u, d[:-1])
    turns = _squared_waves(z[1] - z[0], u, d[:-1]) if z.size > 1 else value
    reals, found = value.view(np.float64), out.view(np.float64)
    for row in range(z.size):
        if row:
            value *= turns
        np.matmul(factors, reals, out=found[row])
    return out


def _squared_waves(z: complex, u: FloatArray, d: FloatArray) -> ComplexArray:
    """exp(-z(u + d)²) for equally spaced d, shape (u, d): d as a sum of two numbers, for speed."""
    few = int(np.sqrt(d.size)) + 1
    cross, squares = -2.0 * z * u[:, None, None], -z * np.square(d)
    first, jumps = np.exp(cross * d[:few]), np.exp(cross * (d[::few, None] - d[0]))
    product = (first * jumps).reshape(u.size, -1)[:, : d.size]
    return np.asarray(product * np.exp(squares) * np.exp(-z * np.square(u))[:, None])


def _half_line(scale: float, z: ComplexArray, d: FloatArray) -> ComplexArray:
    """∫_0^∞ exp(-z(d+u)² - u/b) du = exp(-z d²)·√π/(2κ)·erfcx(κd + 1/(2bκ)) with κ = √z.

    Where the real part of the argument is negative, erfcx(x) = 2exp(x²) - erfcx(-x).
    """
    z = z[:, None]
    at_zero = z == 0
    root = np.sqrt(np.where(at_zero, 1.0, z))
    tilt = 0.5 / (scale * root)
    x = tilt + root * d
    flipped = x.real < 0
    # erfcx(x) = w(ix)
    value = np.exp(-z * np.square(d)) * special.wofz(1j * np.where(flipped, -x, x))
    with np.errstate(under="ignore"):
        reflected = 2.0 * np.exp(np.where(flipped, np.square(tilt) + d / scale, 0.0)) - value
    value = 0.5 * np.sqrt(np.pi) / root * np.where(flipped, reflected, value)
    return np.where(at_zero, scale, value)


def _two_half_lines(scale: float, z: ComplexArray, d: FloatArray) -> ComplexArray:
    """E[exp(-z (d + u)²)] by error functions: far from 0 by their asymptotic series.

    With r, s = κ·abs(d) ± 1/(2bκ) the sum of both half-lines is √π/(2κ) times
    exp(-z d²)·(erfcx(r) - erfcx(s)) + 2exp(1/(4b²z) - abs(d)/b).
    """
    out = np.empty((z.size, d.size), dtype=np.complex128)
    root, size = np.sqrt(z)[:, None], np.abs(d)
    with np.errstate(divide="ignore", invalid="ignore"):
        tilt = 0.5 / (scale * root)
        # the smallest s of all z; too large a tilt makes its exponential overflow
        least = np.square(np.abs(root * size - tilt).min(axis=0))
        least[(root * size - tilt).real.min(axis=0) <= 0.0] = 0.0
    if not np.abs(tilt).max() < 10.0:
        least[:] = 0.0
    taken = np.zeros(d.size, dtype=bool)
    for bound, terms in _SERIES:
        chosen = np.flatnonzero((least >= bound) & ~taken)
        taken[chosen] = True
        if chosen.size:
            far: ComplexArray = np.asarray(root * size[chosen])
            value = _erfcx_series(far + tilt, terms)
            value -= _erfcx_series(far - tilt, terms)
            value *= waves(z, np.square(d[chosen]))
            value += 2.0 * np.exp(np.square(tilt)) * np.exp(-size[chosen] / scale)
            value *= 0.25 * np.sqrt(np.pi) / (scale * root)
            out[:, chosen] = value
    near = np.flatnonzero(~taken)
    out[:, near] = _half_line(scale, z, d[near])
    out[:, near] += _half_line(scale, z, -d[near])
    out[:, near] /= 2.0 * scale
    return out


def _erfcx_series(x: NDArray[np.complexfloating[Any, Any]], terms: int) -> ComplexArray:
    """erfcx(x) = Σ (-1)ⁿ(2n - 1)!!/(2x²)ⁿ/(x√π) for large x of positive real part."""
    inverse = 1.0 / x
    power = np.square(inverse)
    power *= -0.5
    odd = np.cumprod(np.append(1.0, np.arange(1.0, 2.0 * terms - 2.0, 2.0)))
    value = np.full_like(x, odd[-1])
    for factor in odd[-2::-1]:
        value *= power
        value += factor
    value *= inverse
    value /= np.sqrt(np.pi)
    return value


def _uniform_kernel(z: ComplexArray, d: FloatArray) -> ComplexArray:
    """Over the unit interval around 0: a difference of two error functions."""
    edges = np.append(d - 0.5, d[-1] + 0.5)
    if d.size > 1 and d[1] - d[0] == 1.0:
        units = _between(z, edges, _uniform_rule, 0.0)
        if units is not None:
            return units[:, 0]
    z = z[:, None]
    at_zero = z == 0
    root = np.sqrt(np.where(at_zero, 1.0, z))
    value = special.erf(root * (d + 0.5)) - special.erf(root * (d - 0.5))
    return np.where(at_zero, 1.0, 0.5 * np.sqrt(np.pi) / root * value)


def noise_parts(law: NoiseLaw) -> NoiseParts | None:
    """Return the parts of one noise with scalar parameters, or None where they are not known.

    Not known are weighted sums, truncated Tulap noise, whole-numbered noise so wide that it
    cannot be listed, and continuous noise so narrow that it is lost in the rounding of counts, or
    so wide that its moments overflow.
    """
    if isinstance(law, Exact):
        return NoiseParts(np.ones(1), point_kernel, 0.0, 0.0, 0.0, WAVE, 1.0)
    if isinstance(law, IntegerLaw):
        return _whole(law, point_kernel, 0.0, 0.0, 0.0, WAVE, 1.0)
    if isinstance(law, Tulap) and not law.truncation:
        return _whole(
            Geometric(scale=law.scale), _uniform_kernel, 1.0 / 12.0, 1.0 / 80.0, 0.5, _ERF, 0.13
        )
    if isinstance(law, Gaussian) and _SMALLEST_SCALE < law.sigma <= _LARGEST_SCALE:
        variance = float(law.sigma) ** 2
        kernel = partial(_gaussian_kernel, variance)
        reach = float(law.isf(NEGLIGIBLE))
        grain = float(np.exp(-0.5 * variance * (2.0 * np.pi) ** 2))
        return NoiseParts(np.ones(1), kernel, variance, 3.0 * variance**2, reach, _EXP, grain)
    if isinstance(law, Laplace) and _SMALLEST_SCALE < law.scale <= _LARGEST_SCALE:
        b = float(law.scale)
        kernel = partial(_laplace_kernel, b)
        grain, reach = 1.0 / (1.0 + (2.0 * np.pi * b) ** 2), _TAIL_UNITS * b
        return NoiseParts(np.ones(1), kernel, 2.0 * b**2, 24.0 * b**4, reach, _ERFCX, grain)
    return None


def _whole(
    law: IntegerLaw,
    kernel: Kernel,
    variance: float,
    fourth: float,
    reach: float,
    cost: float,
    grain: float,
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
        grain,
    )
