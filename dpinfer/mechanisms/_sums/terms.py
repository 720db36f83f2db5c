"""The terms of a weighted sum in normal form: scaled, grouped, with multiplicities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.inversion import SaddleGrid
from dpinfer._numerics.lattice import GIVEN, slices, snapped
from dpinfer._numerics.roots import find_root
from dpinfer.mechanisms.independent import join
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw, NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.tulap import Tulap

# What every route to the law of a weighted sum provides, and the route of a single term.


ATOM_RTOL = 2e-12
"""A point this close to an atom, relative to their number of spacings, counts as at it, too."""


class Tails(ABC):
    """The law of one symmetric sum S by its tails; subclasses answer for its upper half."""

    error_bound: float
    """Absolute bound on the error of every probability.

    Proved for what is left out, wraps around or is cut off; the share of rounding and quadrature,
    which is all of it where it is one number, is estimated.
    """

    floor: float = 0.0
    """Probability below which tails are not accurate relatively; 0 where all are."""

    spacing: float = 0.0
    """Distance of neighbouring lattice points; 0 for a law that is not on a lattice."""

    @abstractmethod
    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``, at finite x >= 0, one-dimensional."""

    def log_mass(self, x: FloatArray) -> FloatArray | None:
        """Log P(S = x) at finite x >= 0, of a law of atoms: a difference of tails.

        None where this way does not tell atoms.
        """
        closed, open_ = (np.minimum(self.upper(x, shut), 0.0) for shut in (True, False))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(closed > open_, closed + np.log(-np.expm1(open_ - closed)), -np.inf)

    def log_density(self, x: FloatArray) -> FloatArray | None:
        """Log density at finite x >= 0; None where this way does not give any."""
        return None

    @final
    def logtail(self, x: FloatArray, *, closed: bool = False) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``."""
        upper, negative = self._mirrored(x, closed)
        with np.errstate(divide="ignore"):
            return np.where(negative, np.log1p(-np.exp(upper)), upper)

    @final
    def tail(self, x: FloatArray, *, closed: bool = False) -> FloatArray:
        """P(S > x), or P(S >= x) if ``closed``."""
        upper, negative = self._mirrored(x, closed)
        return np.where(negative, -np.expm1(upper), np.exp(upper))

    def _mirrored(self, x: FloatArray, closed: bool) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Logarithm of the upper tail at abs(x), and where the tail asked for is 1 minus that."""
        negative = x < 0
        out = np.where(np.isinf(x), -np.inf, 0.0)
        for side, shut in ((negative, not closed), (~negative, closed)):
            wanted = side & np.isfinite(x)
            if wanted.any():
                out[wanted] = np.minimum(self.upper(np.abs(x[wanted]), shut), 0.0)
        return out, negative


class Route(Tails):
    """A way to compute the law of one symmetric sum S, its quantiles too."""

    name: ClassVar[str]

    rounding: ClassVar[float] = 0.0
    """Relative rounding error of tails that vary from call to call."""

    supremum: float = np.inf
    """Least upper bound of the sum."""

    @abstractmethod
    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``, for one-dimensional 0 < q <= 1/2."""

    @final
    def isf(self, q: FloatArray, *, strict: bool = False) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``."""
        # by the definitions: inf{x: P(S > x) <= 1} = -inf, sup{x: P(S >= x) >= 0} = inf
        highest, lowest = (np.inf, self.supremum) if strict else (self.supremum, np.inf)
        out = np.where(q > 0.5, -lowest, highest)
        upper = (q > 0) & (q <= 0.5)
        if upper.any():
            out[upper] = self.upper_isf(q[upper], strict)
        # P(S > x) <= q  <=>  P(S >= -x) >= 1 - q: the law is symmetric
        lower = (q > 0.5) & (q < 1)
        if lower.any():
            out[lower] = -self.upper_isf(1.0 - q[lower], not strict)
        return self._settled(out, q, strict) if self.spacing else out

    def _settled(self, x: FloatArray, q: FloatArray, strict: bool) -> FloatArray:
        """Move by one lattice point where rounding of q left the quantile beside its definition."""
        inner, h = np.isfinite(x), self.spacing
        if strict:
            # the last point with P(S >= x) >= q
            limit = q * (1.0 - self.rounding)
            x = np.where(inner & (self.tail(x, closed=True) < limit), x - h, x)
            return np.where(inner & (self.tail(x + h, closed=True) >= limit), x + h, x)
        limit = q * (1.0 + self.rounding)
        x = np.where(inner & (self.tail(x) > limit), x + h, x)
        return np.where(inner & (self.tail(x - h) <= limit), x - h, x)


def quantiles(
    log_tail: Callable[[FloatArray], FloatArray],
    q: FloatArray,
    bound: FloatArray,
    *,
    start: float = 0.0,
    tie: float = 0.0,
    rtol: float = 1e-13,
    atol: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Brackets of the points at which a tail falls to q: ``start`` where it is that small there.

    ``bound``: points at which the tail is at most q whatever rounding says; ``tie``: what an excess
    of 0 on a plateau counts as, below 0 for its left end.
    """
    logq = np.log(q)
    low, high = np.full((2, *q.shape), start)
    open_ = np.flatnonzero(log_tail(np.array([start]))[0] > logq)

    def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        above = log_tail(x) - logq[open_[index]]
        above = np.where(above == 0, tie, above)
        return np.where(x <= start, 1.0, np.where(x < bound[open_[index]], above, -1.0))

    ends = find_root(excess, low[open_], bound[open_], atol=atol, rtol=rtol)
    low[open_], high[open_] = ends
    return low, high


def lattice_floor(ratio: FloatArray, closed: bool, atol: float = GIVEN) -> FloatArray:
    """Largest k such that P(J > ratio), or P(J >= ratio) if ``closed``, is P(J > k).

    A ratio within rounding of a whole number counts as that number.
    """
    place = _snapped(ratio, atol)
    return np.ceil(place) - 1.0 if closed else np.floor(place)


def atom_at(ratio: FloatArray, atol: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Whole numbers near ratios, and whether they count as these numbers."""
    place = _snapped(ratio, atol)
    k = np.floor(place)
    return k, k == place


def _snapped(ratio: FloatArray, atol: float) -> FloatArray:
    return snapped(ratio, np.minimum(atol + ATOM_RTOL * ratio, 0.25))


_NEWTON = 12


class SingleTerm(Route):
    """One noise times one weight: the scaled law itself, in closed form."""

    name = "closed form"
    error_bound = 1e-15

    def __init__(self, law: ParametricLaw, weight: float, *, atol: float = GIVEN) -> None:
        self._law = law
        self._weight = weight
        self._atol = atol
        self.supremum = float(law._isf(np.zeros(()))) * weight
        self.spacing = weight if law.is_integer else 0.0

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        ratio = x / self._weight
        if not self._law.is_integer:
            return self._law._logsf(ratio)
        k = lattice_floor(ratio, closed, self._atol)
        last = k.max(initial=-1.0)
        if last + 2.0 >= k.size:
            return self._law._logsf(k)
        # more points than places: each place once
        return np.asarray(self._law._logsf(np.arange(-1.0, last + 1.0))[(k + 1.0).astype(np.intp)])

    def log_mass(self, x: FloatArray) -> FloatArray:
        assert isinstance(self._law, IntegerLaw)
        k, at_atom = atom_at(x / self._weight, self._atol)
        return np.where(at_atom, self._law._logpmf(k), -np.inf)

    def log_density(self, x: FloatArray) -> FloatArray:
        assert isinstance(self._law, ContinuousLaw)
        return np.asarray(self._law._logpdf(x / self._weight) - np.log(self._weight))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        if strict and self._law.is_integer:
            return -self._law._ppf(q) * self._weight
        return self._law._isf(q) * self._weight


class EqualPair(Route):
    """Two independent noises of one Laplace or geometric law times one weight.

    With y = x/scale, P(S >= x) = P(S >= 0)·exp(-y)·(1 + y/A) for x >= 0, whole where the noise is.
    """

    name = "closed form"
    error_bound = 1e-15

    def __init__(self, law: Laplace | Geometric, weight: float, *, atol: float = GIVEN) -> None:
        self._weight, self._atol, self._scale = weight, atol, float(law.scale)
        self.spacing = weight if law.is_integer else 0.0
        self._bend, self._half = 2.0, -np.log(2.0)
        if law.is_integer:
            a, step = np.exp(-1.0 / self._scale), -np.expm1(-1.0 / self._scale)
            self._bend = (1.0 + 2.0 * a * a / (1.0 + a)) / step / self._scale
            self._half = np.log1p(a + 2.0 * a * a) - 3.0 * np.log1p(a)
            self._atom = 2.0 * np.log(step / (1.0 + a)), 1.0 + 2.0 * a * a / step / (1.0 + a)

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        ratio = x / self._weight
        if self.spacing:
            ratio = lattice_floor(ratio, closed, self._atol) + 1.0
        return self._log_tail(ratio / self._scale)

    def _log_tail(self, y: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(y / self._bend) - y + self._half)

    def log_mass(self, x: FloatArray) -> FloatArray:
        k, at_atom = atom_at(x / self._weight, self._atol)
        log, start = self._atom
        return np.where(at_atom, np.log(k + start) - k / self._scale + log, -np.inf)

    def log_density(self, x: FloatArray) -> FloatArray:
        y = x / (self._weight * self._scale)
        return np.asarray(np.log1p(y) - y - np.log(4.0 * self._weight * self._scale))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        # the logarithm is concave in y: a step of Newton's ends beyond the root, and more come down
        y, log = np.ones(q.shape), np.log(q)
        for _ in range(_NEWTON):
            y += (self._log_tail(y) - log) / (1.0 - 1.0 / (y + self._bend))
        x = np.maximum(y, 0.0) * self._scale
        return self._weight * (np.maximum(np.ceil(x) - 1.0, 0.0) if self.spacing else x)


# Uniform noise on (-1/2, 1/2): a part of the Tulap law, which is not published on its own.


@dataclass(frozen=True, kw_only=True, eq=False)
class CentredUniform(ContinuousLaw):
    width: float | FloatArray = 1.0

    def __post_init__(self) -> None:
        self._set("width", self.width, gt=0)

    def _variance(self) -> FloatArray:
        return np.asarray(np.square(self.width) / 12.0)

    def _logpdf(self, x: FloatArray) -> FloatArray:
        return np.where(np.abs(x) < 0.5 * np.asarray(self.width), -np.log(self.width), -np.inf)

    def _sf(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.clip(0.5 - x / np.asarray(self.width), 0.0, 1.0))

    def _logsf(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._sf(x)))

    def _isf(self, q: FloatArray) -> FloatArray:
        return np.asarray((0.5 - q) * self.width)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.sinc(np.asarray(self.width) * t / (2.0 * np.pi)))

    @property
    def _abscissa(self) -> FloatArray:
        return np.full(self.shape, np.inf)

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        # log(sinh(z)/z), even in z, without overflow
        z = 0.5 * np.asarray(self.width) * s
        z = np.where(z.real < 0, -z, z)
        safe = np.where(z == 0, 1.0, z)
        small = np.abs(z) < 1e-4
        large = safe + np.log(-np.expm1(-2.0 * safe) / (2.0 * safe))
        return np.where(small, np.square(z) / 6.0, large)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return (rng.random(shape) - 0.5) * self.width


class UniformSum(Tails):
    """A sum of a few independent uniform noises, by inclusion and exclusion.

    P(S > x) = Σ over subsets of (-1)^size·(reach - x - (widths in the subset))₊ⁿ/(n!·Π widths).
    """

    MOST = 8
    WORST = 1e3
    """Largest ratio of a term to the sum."""

    def __init__(self, widths: FloatArray) -> None:
        self._half = 0.5 * float(widths.sum())
        self._power = len(widths)
        subsets = np.array(list(product((0.0, 1.0), repeat=len(widths))))
        self._shifts = subsets @ widths
        self._signs = np.where(subsets.sum(axis=1) % 2 == 0, 1.0, -1.0)
        self._scale = math.factorial(len(widths)) * float(np.prod(widths))
        self.floor = self.error_bound = 1e-16 * self._condition(widths) * len(subsets)

    @classmethod
    def takes(cls, widths: FloatArray) -> bool:
        """Whether the sum is short, and free of cancellation."""
        return len(widths) <= cls.MOST and cls._condition(widths) <= cls.WORST

    @staticmethod
    def _condition(widths: FloatArray) -> float:
        share = np.asarray(widths) / np.sum(widths)
        return float(1.0 / (math.factorial(len(widths)) * np.prod(share)))

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        return self._spline(x, self._power, 1.0 / self._scale)

    def log_density(self, x: FloatArray) -> FloatArray:
        return self._spline(x, self._power - 1, self._power / self._scale)

    def _spline(self, x: FloatArray, power: int, factor: float) -> FloatArray:
        base = (self._half - x)[:, None] - self._shifts
        powers = np.where(base > 0.0, np.abs(base) ** power, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(powers @ self._signs, 0.0) * factor))


# Moment generating functions as reciprocals of cheap factors, for the laws that have them.


def _factors_laplace(law: ParametricLaw, s: ComplexArray) -> ComplexArray:
    # 1/M(s) = 1 - b²s²
    z = law._parameters()["scale"] * s
    return np.asarray((1.0 - z) * (1.0 + z))


def _geometric(law: ParametricLaw, s: ComplexArray) -> ComplexArray:
    # 1/M(s) = 1 - sinh²(s/2)/sinh²(1/(2·scale))
    half = 0.5 / np.asarray(law._parameters()["scale"])
    ratio = np.sinh(0.5 * s) / np.sinh(half)
    return np.asarray((1.0 - ratio) * (1.0 + ratio))


RECIPROCALS: dict[type[ParametricLaw], Callable[[ParametricLaw, ComplexArray], ComplexArray]] = {
    Laplace: _factors_laplace,
    Geometric: _geometric,
}

GROUP = 8
SAFE = 1e30
"""Products of 8 factors below 1e30 do not overflow."""


def log_mgf(law: ParametricLaw, s: ComplexArray, counts: NDArray[np.float64]) -> ComplexArray:
    """Sum over the last axis of counts·log M(s), on any branch."""
    reciprocal = RECIPROCALS.get(type(law))
    if reciprocal is None:
        return np.asarray(law._cgf(s) @ counts)
    factors = reciprocal(law, s)
    repeated = np.flatnonzero(counts != 1)
    total = -_log(factors[..., repeated]) @ counts[repeated]
    single = factors[..., counts == 1]
    if not np.abs(single).max(initial=0.0) < SAFE:
        return np.asarray(total - _log(single).sum(axis=-1))
    for start in range(0, single.shape[-1], GROUP):
        total = total - _log(np.prod(single[..., start : start + GROUP], axis=-1))
    return np.asarray(total)


def _log(z: ComplexArray) -> ComplexArray:
    """NumPy's own takes twice as long, to be as exact near 1, where the factors are not."""
    out = np.empty_like(z)
    out.real = np.log(np.abs(z))
    np.arctan2(z.imag, z.real, out=out.imag)
    return out


def tilted_factors(law: ParametricLaw, s: ComplexArray, tilt: ComplexArray) -> ComplexArray:
    """M(s)/M(tilt), where the real part of ``s`` is ``tilt``."""
    reciprocal = RECIPROCALS.get(type(law))
    if reciprocal is None:
        return np.asarray(np.exp(law._cgf(s) - law._cgf(tilt)))
    return np.asarray(reciprocal(law, tilt) / reciprocal(law, s))


_NODES = 64
_WHOLE_RADIUS = 1.0
"""Whole-numbered noise repeats every 2πi, and so do the singularities."""

_NOTHING = 1e-20
"""Noise with a standard deviation below it counts as Gaussian: it is lost in rounding."""


def kurtosis_of(law: ParametricLaw) -> FloatArray:
    """Excess kurtosis by Cauchy's integral on a circle, of the cumulant generating function.

    The circle stays a factor of two or more inside the nearest singularity, so that the error of
    the trapezoidal rule is at most of the order 2^-64.
    """
    std = np.asarray(law.std)
    noisy = std > _NOTHING
    scale = np.where(noisy, std, 1.0)
    radius = np.minimum(0.5 / scale, law._abscissa / 3.0)
    if law.is_integer:
        radius = np.minimum(radius, _WHOLE_RADIUS)
    circle = np.exp(2j * np.pi * np.arange(_NODES) / _NODES)
    total = np.zeros(std.shape)
    for point in circle:
        total += (law._cgf(np.asarray(point * radius)) * point**-4).real
    return np.asarray(np.where(noisy, 24.0 * total / _NODES / (radius * scale) ** 4, 0.0))


CHUNK = 1 << 19
SAMPLE = 32
"""About so many points tell which factors of a product are the smallest."""

NEGLIGIBLE = 1e-20
"""Modulus below which a value of a characteristic function counts as zero."""


@dataclass(frozen=True)
class Block:
    """Terms of one kind: ``counts[j]`` independent noises of ``law.take(j)`` times ``weights[j]``.

    The law has parameters of shape ``(k,)``, the weights are > 0.
    """

    law: ParametricLaw
    weights: FloatArray
    counts: FloatArray

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def variance(self) -> float:
        return float(np.sum(self.counts * np.square(self.weights) * self.law._variance()))

    def take(self, index: NDArray[np.intp] | slice) -> Block:
        return Block(self.law._take(index), self.weights[index], self.counts[index])

    def scaled(self, factor: float) -> Block:
        return Block(self.law, self.weights * factor, self.counts)

    def cgf(self, s: ComplexArray) -> ComplexArray:
        total = np.zeros(s.shape, dtype=np.complex128)
        for columns in slices(len(self), CHUNK // max(s.size, 1)):
            part = self.take(columns)
            total += log_mgf(part.law, s[..., None] * part.weights, part.counts)
        return total


class Terms:
    """Independent noises times positive weights: what a weighted sum is a sum of."""

    def __init__(self, blocks: Iterable[Block], pair: Terms | None = None) -> None:
        self.blocks = tuple(block for block in blocks if len(block))
        self.pair = pair
        """The same noises as one or two terms, before any of them was taken apart."""

    @classmethod
    def join(cls, first: Terms, second: Terms) -> Terms:
        return cls((*first.blocks, *second.blocks))

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def integer(self) -> Terms:
        return Terms(block for block in self.blocks if block.law.is_integer)

    @property
    def continuous(self) -> Terms:
        return Terms(block for block in self.blocks if not block.law.is_integer)

    @property
    def weights(self) -> FloatArray:
        return np.concatenate([block.weights for block in self.blocks])

    @cached_property
    def variance(self) -> float:
        return float(sum(block.variance for block in self.blocks))

    @property
    def std(self) -> float:
        return float(np.sqrt(self.variance))

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis: fourth cumulants add up."""
        total = max(self.std, _NOTHING)
        return float(
            sum(
                np.sum(
                    block.counts
                    * (block.weights * np.sqrt(block.law._variance()) / total) ** 4
                    * kurtosis_of(block.law)
                )
                for block in self.blocks
            )
        )

    @property
    def supremum(self) -> float:
        return float(
            sum(
                np.sum(block.counts * block.weights * block.law._isf(np.zeros(len(block))))
                for block in self.blocks
            )
        )

    @property
    def smallest_std(self) -> float:
        return float(
            min(np.min(block.weights * np.sqrt(block.law._variance())) for block in self.blocks)
        )

    @cached_property
    def abscissa(self) -> float:
        """Supremum of the s at which the moment generating function of the sum is finite."""
        return float(
            min(
                (np.min(block.law._abscissa / block.weights) for block in self.blocks),
                default=np.inf,
            )
        )

    @cached_property
    def grid(self) -> SaddleGrid:
        return SaddleGrid(self.cgf, self.abscissa, self.std)

    def scaled(self, factor: float) -> Terms:
        return Terms(block.scaled(factor) for block in self.blocks)

    def consist_of(self, *kinds: type[ParametricLaw]) -> bool:
        return all(isinstance(block.law, kinds) for block in self.blocks)

    def singles(self) -> Iterator[Block]:
        for block in self.blocks:
            for j in range(len(block)):
                yield block.take(slice(j, j + 1))

    def cgf(self, s: ComplexArray) -> ComplexArray:
        total = np.zeros(s.shape, dtype=np.complex128)
        for block in self.blocks:
            total += block.cgf(s)
        return total

    def cf(self, t: FloatArray, negligible: float = NEGLIGIBLE) -> FloatArray:
        """Characteristic function at ``t``; values below ``negligible`` may be given as 0."""
        return self.product(
            t, lambda part, at: part.law._cf(at[:, None] * part.weights), negligible
        )

    def tilted_cf(self, t: FloatArray, theta: float) -> ComplexArray:
        """Characteristic function of the law tilted by exp(theta x), relative to its mass."""

        def factors(part: Block, at: FloatArray) -> ComplexArray:
            mean = np.asarray(theta * part.weights, dtype=np.complex128)
            return tilted_factors(part.law, mean + 1j * at[:, None] * part.weights, mean)

        return self.product(t, factors)

    def product(
        self,
        t: FloatArray,
        factors: Callable[[Block, FloatArray], NDArray[Any]],
        negligible: float = NEGLIGIBLE,
    ) -> NDArray[Any]:
        """Product over the terms, dropping points once they are negligible.

        Every factor has modulus at most 1, so a product that is negligible stays so: with many
        terms only few points survive the first handful, which are the smallest at some points.
        """
        flat = t.ravel()
        alive = np.arange(flat.size)
        values: NDArray[Any] = np.ones(flat.size)
        some = flat[:: 1 + flat.size // SAMPLE]
        for block in self.blocks:
            start, columns = 0, 2
            if len(block) > columns and some.size < flat.size:
                sizes = np.abs(factors(block, some)) + np.finfo(float).tiny
                block = block.take(np.argsort(block.counts * np.log(sizes).sum(axis=0)))
            while start < len(block) and alive.size:
                columns = min(4 * columns, max(1, CHUNK // alive.size))
                part = block.take(slice(start, start + columns))
                each, repeated = factors(part, flat[alive]), part.counts != 1
                each[:, repeated] **= part.counts[repeated]
                values = values * np.prod(each, axis=1)
                kept = np.abs(values) > negligible
                alive, values = alive[kept], values[kept]
                start += columns
        out = np.zeros(flat.size, dtype=values.dtype)
        out[alive] = values
        return out.reshape(t.shape)


# From weights and laws to the normal form of a weighted sum.


Parts = Iterable[tuple[NoiseLaw, NDArray[np.intp]]]
"""Laws and the cells that each rules."""

MERGE_RTOL = 1e-12


def collect(weights: FloatArray, parts: Parts, counts: FloatArray | None = None) -> Terms:
    """Bring the terms ``weights[cells] * law``, each so many times, to their normal form.

    Zero weights and exact values drop out, Gaussian noises become one, Laplace weights are absorbed
    in the scales, Tulap noises are taken apart, and equal terms are counted.
    """
    found: list[Block] = []
    for law, cells in parts:
        scaled = np.abs(weights[cells])
        used = np.flatnonzero(scaled > 0)
        if not used.size or isinstance(law, Exact):
            continue
        times = np.ones(cells.size) if counts is None else counts[cells]
        found.extend(_blocks_of(law, scaled, used, times))
    found = list(filter(len, map(_not_constant, found)))
    few = sum(float(block.counts.sum()) for block in found) <= 2.0
    apart = [part for block in found for part in EXPANSIONS.get(type(block.law), _as_it_is)(block)]
    by_kind: dict[Any, list[Block]] = {}
    for block in filter(len, map(_not_constant, apart)):
        by_kind.setdefault(block.law._kind, []).append(block)
    return Terms(
        (NORMAL_FORMS.get(kind, merge)(_concatenate(same)) for kind, same in by_kind.items()),
        pair=Terms(found) if few else None,
    )


def _not_constant(block: Block) -> Block:
    """Leave out terms that are 0 but for a chance that is no float."""
    return block.take(np.flatnonzero(np.broadcast_to(block.law._variance(), len(block)) > 0))


def merge(block: Block) -> Block:
    """Merge terms with the same law and the same weight, up to rounding of the weights."""
    columns = [np.broadcast_to(value, len(block)) for value in block.law._parameters().values()]
    return _merge_equal(block, columns)


def _merge_equal(block: Block, columns: list[FloatArray]) -> Block:
    """Merge terms with equal ``columns`` and with weights equal up to rounding."""
    order = np.lexsort((block.weights, *columns))
    fresh = np.zeros(len(block), dtype=bool)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= np.diff(column[order]) != 0
    ordered = block.weights[order]
    fresh[1:] |= np.diff(ordered) > MERGE_RTOL * ordered[1:]
    firsts = np.flatnonzero(fresh)
    counts = np.add.reduceat(block.counts[order], firsts)
    chosen = order[firsts]
    return Block(block.law._take(chosen), block.weights[chosen], counts)


def _merge_laplace(block: Block) -> Block:
    """Absorb the weights in the scales: a weighted Laplace noise is Laplace noise."""
    scales = block.law._parameters()["scale"] * block.weights
    merged = _merge_equal(Block(Laplace(scale=scales), scales, block.counts), [])
    return Block(merged.law, np.ones(len(merged)), merged.counts)


def _merge_gaussian(block: Block) -> Block:
    """Replace weighted Gaussian noises by their sum, which is Gaussian."""
    parts = block.law._parameters()["sigma"] * block.weights * np.sqrt(block.counts)
    largest = np.max(parts)
    sigma = largest * np.sqrt(np.sum(np.square(parts / largest)))
    return Block(Gaussian(sigma=np.array([sigma])), np.ones(1), np.ones(1))


NORMAL_FORMS: dict[type[ParametricLaw], Callable[[Block], Block]] = {
    Laplace: _merge_laplace,
    Gaussian: _merge_gaussian,
}


def _as_it_is(block: Block) -> list[Block]:
    return [block]


def _expand_tulap(block: Block) -> list[Block]:
    """Take untruncated Tulap noises apart: a whole number plus a uniform part."""
    cut = np.asarray(block.law._parameters()["truncation"]) > 0
    whole, kept = block.take(np.flatnonzero(~cut)), block.take(np.flatnonzero(cut))
    scale = whole.law._parameters()["scale"]
    uniform = CentredUniform(width=np.ones(len(whole)))
    return [
        kept,
        Block(Geometric(scale=scale), whole.weights, whole.counts),
        Block(uniform, whole.weights, whole.counts),
    ]


EXPANSIONS: dict[type[ParametricLaw], Callable[[Block], list[Block]]] = {Tulap: _expand_tulap}


def _blocks_of(
    law: NoiseLaw, weights: FloatArray, used: NDArray[np.intp], times: FloatArray
) -> list[Block]:
    """List the terms of one law, or of a sum that is itself a term, at the weights used."""
    if isinstance(law, ParametricLaw):
        return [Block(_stretch(law, used, len(weights)), weights[used], times[used])]
    inner: Terms = law._terms  # type: ignore[attr-defined]
    return [
        Block(block.law, block.weights * float(weights[j]), block.counts * times[j])
        for j in used
        for block in inner.blocks
    ]


def _stretch(law: ParametricLaw, used: NDArray[np.intp], size: int) -> ParametricLaw:
    return law._with(
        {name: np.broadcast_to(value, (size,))[used] for name, value in law._parameters().items()}
    )


def _concatenate(blocks: list[Block]) -> Block:
    return Block(
        join([(block.law, len(block)) for block in blocks]),
        np.concatenate([block.weights for block in blocks]),
        np.concatenate([block.counts for block in blocks]),
    )


def kinds(parts: Parts, size: int) -> NDArray[np.intp]:
    """Give the ``size`` cells numbers that are equal where their laws are."""
    out = np.zeros(size, dtype=np.intp)
    used = 0
    for law, cells in parts:
        number = np.zeros(len(cells), dtype=np.intp)
        values = law._parameters().values() if isinstance(law, ParametricLaw) else ()
        for value in values:
            if np.ndim(value):  # a tenth of the time of unique rows
                own = np.unique(value, return_inverse=True)[1].ravel()
                both = number * (own.max(initial=0) + 1) + own
                number = np.unique(both, return_inverse=True)[1].ravel()
        out[cells] = used + number
        used = int(out[cells].max(initial=used)) + 1
    return out


# Known decay of characteristic functions: what a truncated Fourier series leaves out.


Decay = tuple[FloatArray, FloatArray]
"""Log of a bound on the modulus of a factor at T and beyond, decreasing in T, and a bound on
∫ modulus(t) dt/(πt) from T on, relative to it."""


def left_out(terms: Terms, cutoff: FloatArray) -> FloatArray:
    """Bound on the sum of abs(φ(t))/(πn) over the nodes t > ``cutoff``; inf if none is known."""
    smooth = terms.continuous
    level, beyond = _smooth_left_out(smooth, cutoff)
    first = _first_return(terms.integer)
    if first is None:
        return beyond
    # up to the first return of the periodic factors, everything decreases
    turn, height = first
    level_at_turn, beyond_turn = _smooth_left_out(smooth, np.array([turn]))
    # the sum of a periodic factor over its nodes in one period is its period times P(0)
    returns = 2.0 * height * (2.0 / np.pi * level_at_turn + beyond_turn)
    periodic = np.abs(terms.integer.cf(cutoff)) + np.exp(-40.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = periodic * level * np.log(turn / cutoff) / np.pi
    return np.where(cutoff < turn, np.minimum(beyond, before + returns), beyond)


def _smooth_left_out(terms: Terms, cutoff: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound on the product of the factors with a density, and on its sum beyond the cutoff."""
    log_level = np.zeros(cutoff.shape)
    integral = np.full(cutoff.shape, np.inf)
    for block in terms.blocks:
        decay = DECAYS.get(type(block.law))
        if decay is not None:
            log_factor, own = decay(block, cutoff[:, None])
            log_level += log_factor @ block.counts
            integral = np.minimum(integral, own.min(axis=1))
    level = np.exp(log_level)
    return level, level * integral


def _first_return(terms: Terms) -> tuple[float, float] | None:
    """Half of the shortest period of the periodic factors, and P(0) of that noise."""
    if not len(terms) or not all(is_unimodal_periodic(block.law) for block in terms.blocks):
        return None
    widest = max((float(block.weights.max()), number) for number, block in enumerate(terms.blocks))
    block = terms.blocks[widest[1]]
    law = block.law._take(int(np.argmax(block.weights)))
    assert isinstance(law, IntegerLaw)
    return np.pi / widest[0], float(np.exp(law._logpmf(np.zeros(()))))


def _laplace(block: Block, cutoff: FloatArray) -> Decay:
    # 1/(1 + b²t²) <= (T/t)²·(1 + b²T²)/(b²T²) times its value at T
    square = np.square(block.law._parameters()["scale"] * block.weights * cutoff)
    return -np.log1p(square), (1.0 + square) / (2.0 * np.pi * square)


def _gaussian(block: Block, cutoff: FloatArray) -> Decay:
    square = np.square(block.law._parameters()["sigma"] * block.weights * cutoff)
    return -0.5 * square, 1.0 / (np.pi * square)


def _unimodal(block: Block, cutoff: FloatArray) -> Decay:
    # abs(φ(t)) <= (total variation of the density)/t
    assert isinstance(block.law, ContinuousLaw)
    variation = 2.0 * np.exp(block.law._logpdf(np.zeros(()))) / block.weights
    bound = variation / cutoff
    return np.minimum(np.log(bound), 0.0), np.where(bound < 1.0, 1.0 / np.pi, np.inf)


DECAYS: dict[type[ParametricLaw], Callable[[Block, FloatArray], Decay]] = {
    Laplace: _laplace,
    Gaussian: _gaussian,
    CentredUniform: _unimodal,
    Tulap: _unimodal,
}


def is_unimodal_periodic(law: ParametricLaw) -> bool:
    """Whether the characteristic function of a whole-numbered law falls from 0 to π, above 0."""
    if isinstance(law, Rounded):
        return isinstance(law.law, (Laplace, Gaussian))
    return isinstance(law, (Geometric, DiscreteGaussian))
