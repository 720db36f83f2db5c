"""The cells of the statistic: equal ones counted, similar ones interpolated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from dpinfer._check import FloatArray
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import IntegerLaw, NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap

# What the law of a quadratic statistic needs to know about the noise of one cell.


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
    """Noise as a sum of a whole number and a continuous part, either of which may be missing."""

    pmf: FloatArray  # probabilities of the whole numbers -r to r, shape (2r + 1,)
    kernel: Kernel  # average of exp(s (d + u)²) over the continuous part u
    variance: float
    fourth: float  # fourth moment
    reach: float  # what the noise exceeds with negligible probability
    cost: float  # what the kernel takes at one point, in multiplications of complex numbers

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


# One term a·(X + e - c)² of the statistic, with X Poisson.


_LOG_NEGLIGIBLE = 39.0
"""Poisson probabilities below exp(-39) of the largest are left out."""

_LOG_ALIASED = 40.0
"""Size of frequencies that are left out, relative to the largest, as a logarithm."""

_NEGLIGIBLE = 1e-16
"""So are sums of a count and noise, relative to the likeliest of them."""

_LONGEST = 3e7
"""Products of probabilities that it is worth to look at for that."""

_NARROWEST, _LARGE_RATE = 16.0, 100.0
"""In how many standard deviations of a Poisson count the likely ones lie at least, where its
expectation is large."""


@dataclass(frozen=True)
class Cell:
    """The term of one cell."""

    rate: float  # expectation λ >= 0 of X
    centre: float  # c
    weight: float  # a > 0
    noise: NoiseParts  # the law of e

    @property
    def fewest_points(self) -> float:
        """Lower bound on the number of points, which are not listed for it."""
        return _NARROWEST * sqrt(self.rate) if self.rate >= _LARGE_RATE else 0.0

    @cached_property
    def _counts(self) -> tuple[int, FloatArray]:
        """First count and Poisson probabilities from there on, in units of their sum."""
        if self.rate == 0.0:
            return 0, np.ones(1)
        radius = np.sqrt(2.0 * _LOG_NEGLIGIBLE * self.rate) + 2.0
        low = max(0, int(self.rate - radius))
        high = int(self.rate + radius + 0.5 * _LOG_NEGLIGIBLE)
        steps = np.log(self.rate / np.arange(low + 1.0, high + 1.0))
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        pmf = np.exp(logs - logs.max())
        return low, pmf / pmf.sum()

    @cached_property
    def _window(self) -> slice:
        """Which of the values of X + the whole part of e are likely enough to matter."""
        counts, noise = self._counts[1], self.noise.pmf
        if counts.size * noise.size > _LONGEST:
            return slice(0, counts.size + noise.size - 1)
        chance = np.convolve(counts, noise)
        likely = np.flatnonzero(chance > _NEGLIGIBLE * chance.max())
        return slice(int(likely[0]), int(likely[-1]) + 1)

    @cached_property
    def points(self) -> FloatArray:
        """The values of X + the whole-numbered part of e, less c; shape (m,)."""
        first = self._counts[0] - self.noise.pmf.size // 2
        return np.arange(self._window.start, self._window.stop) + (first - self.centre)

    def joint(self, theta: FloatArray) -> ComplexArray:
        """E[exp(iθ(X - λ)); X + whole part = y] at the points y, shape (θ, m).

        The θ are equally spaced.
        """
        low, pmf = self._counts
        count = np.arange(low, low + pmf.size)
        waves = _waves(theta, np.asarray(count - self.rate, dtype=np.float64))
        waves *= pmf
        spread = self.noise.pmf
        if spread.size > 1:
            length = fft.next_fast_len(pmf.size + spread.size - 1)
            transform = fft.fft(waves, length)
            transform *= fft.fft(spread, length)
            waves = np.asarray(fft.ifft(transform, overwrite_x=True), dtype=np.complex128)
        return np.ascontiguousarray(waves[:, self._window])

    def characteristic(
        self, t: FloatArray, joint: ComplexArray, widest: float = np.pi
    ) -> ComplexArray:
        """E[exp(iθ(X - λ) + it·a·(X + e - c)²)], shape (θ, t), from :meth:`joint`.

        ``widest`` is the largest abs(θ). Where the terms vary so slowly that every m-th of them
        tells the sum, the others are left out.
        """
        chosen = slice(None, None, self.stride(float(np.max(t)), widest))
        s = np.asarray(1j * self.weight * t, dtype=np.complex128)
        wave = self.noise.kernel(s, self.points[chosen, None])
        value = joint[:, chosen] @ wave
        return np.asarray(value if chosen.step == 1 else chosen.step * value, dtype=np.complex128)

    def stride(self, t: float, widest: float) -> int:
        """Return the largest m for which the sum over every m-th point is m times too small.

        By Poisson summation, it is where the frequencies of the terms stay below 2π/m: those of θ,
        of a Poisson count, and of the wave exp(it·a·d²), 2t·a·d at a distance d.
        """
        if self.rate == 0.0:
            return 1
        turn = 2.0 * t * self.weight
        count = np.sqrt(2.0 * _LOG_ALIASED / self.rate) * np.hypot(1.0, turn * self.rate)
        shift = turn * (self.noise.reach + abs(self.rate - self.centre))
        return max(1, min(int(2.0 * np.pi / (widest + count + shift)), self.points.size // 8))


def _waves(theta: FloatArray, x: FloatArray) -> ComplexArray:
    """exp(iθx) at equally spaced θ, shape (θ, x): products of few of them, for speed.

    That amounts to rounding θ, which is the same in all cells and does not matter.
    """
    rows = min(int(np.sqrt(theta.size)) + 1, theta.size)
    first = np.exp(1j * np.multiply.outer(theta[:rows], x))
    jumps = np.exp(1j * np.multiply.outer(theta[::rows] - theta[0], x))
    return np.asarray((jumps[:, None] * first).reshape(-1, x.size)[: theta.size])


Prepared = Sequence[ComplexArray]

_DEGREE = 22
"""Chebyshev nodes of a panel in which expectations differ by a factor of four at most."""

_PANEL = 4.0
_ROUNDING = 1e-13
_CELLS = 128

_INTERPOLATION_ERROR = 2e-11
"""Estimated error up to which cells are interpolated; it is some thirty times the true one."""

_MOST_LISTED = 1.5e7
"""Values of all different noises together beyond which no way is short enough."""

_LOG_REACH = 37.0
"""A count as far from its expectation has probability exp(-37) at most."""


@dataclass(frozen=True)
class Cells:
    """Distinct cells with their numbers."""

    rate: FloatArray  # the expectation of each, shape (d,)
    centre: FloatArray
    weight: FloatArray
    parts: tuple[NoiseParts, ...]  # the different noises
    kind: NDArray[np.intp]  # which noise each has, shape (d,)
    count: FloatArray  # how many cells are like it, shape (d,)
    nobs: int  # the total of all counts

    @classmethod
    def collect(
        cls, nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
    ) -> Cells | None:
        """Sort cells into distinct ones; None where a noise is not known, or there are too many."""
        kind, laws = _kinds(noise, value.size)
        known: list[NoiseParts] = []
        listed = 0
        for law in laws:
            if (part := noise_parts(law)) is None:
                return None
            known.append(part)
            listed += part.pmf.size
            if listed > _MOST_LISTED:
                return None
        rows = np.column_stack([kind, nobs * (value / value.sum()), centre, weight])
        distinct, count = np.unique(rows, axis=0, return_counts=True)
        number, rate, middle, factor = distinct.T
        return cls(
            rate, middle, factor, tuple(known), number.astype(np.intp), count.astype(float), nobs
        )

    def __len__(self) -> int:
        return self.rate.size

    @property
    def is_integer(self) -> bool:
        """Whether no noise has a continuous part."""
        return all(part.is_integer for part in self.parts)

    @property
    def noise_variance(self) -> FloatArray:
        """Variance of the noise of each cell, shape (d,)."""
        return np.array([part.variance for part in self.parts])[self.kind]

    @property
    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and mean square of each term, and what it exceeds with negligible probability."""
        rate, shift = self.rate, self.rate - self.centre
        v = self.noise_variance
        fourth = np.array([part.fourth for part in self.parts])[self.kind]
        reach = np.array([part.reach for part in self.parts])[self.kind]
        both = rate + v
        # the central moments of a Poisson count are λ, λ and λ + 3λ²
        square = np.square(shift)
        mean_fourth = np.square(square) + 6.0 * square * both + 4.0 * shift * rate
        mean_fourth += rate + 3.0 * np.square(rate) + 6.0 * rate * v + fourth
        farthest = np.sqrt(2.0 * _LOG_REACH * rate) + 0.5 * _LOG_REACH * (rate > 0.0)
        most = np.abs(shift) + np.hypot(np.minimum(farthest, self.nobs), reach)
        weight = self.weight
        return weight * (square + both), np.square(weight) * mean_fourth, weight * np.square(most)

    @cached_property
    def each(self) -> tuple[Cell, ...]:
        """The distinct cells."""
        return tuple(
            Cell(float(rate), float(centre), float(weight), self.parts[kind])
            for rate, centre, weight, kind in zip(
                self.rate, self.centre, self.weight, self.kind, strict=True
            )
        )

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """What the product over the cells is made of."""
        out: list[Factor] = []
        for panel in self._panels():
            smooth = panel.size > _DEGREE and self._is_smooth(panel)
            out.extend([self._interpolated(panel)] if smooth else self._single(panel))
        # a factor that is interpolated looks at the product of those before it
        return tuple(sorted(out, key=lambda factor: isinstance(factor, Interpolated)))

    def _panels(self) -> Iterator[NDArray[np.intp]]:
        """Yield cells with the same noise and rates within a factor of four."""
        for kind in range(len(self.parts)):
            own = np.flatnonzero(self.kind == kind)
            own = own[np.argsort(self.rate[own])]
            while own.size:
                near = self.rate[own] <= _PANEL * self.rate[own[0]]
                yield own[near]
                own = own[~near]

    def _is_smooth(self, panel: NDArray[np.intp]) -> bool:
        """Whether centres are the expectations and weights inverse to them, as for Pearson's."""
        rate, product = self.rate[panel], self.rate[panel] * self.weight[panel]
        centred = np.abs(self.centre[panel] - rate) <= _ROUNDING * rate
        return bool(centred.all() and np.ptp(product) <= _ROUNDING * product[0])

    def _single(self, panel: NDArray[np.intp]) -> list[Single]:
        return [Single(self.each[i], float(self.count[i])) for i in panel]

    def _interpolated(self, panel: NDArray[np.intp]) -> Interpolated:
        first, rate = self.each[panel[0]], self.rate[panel]
        low, high = np.sqrt(rate[0]), np.sqrt(rate[-1])
        angle = np.pi * (np.arange(_DEGREE) + 0.5) / _DEGREE
        nodes = np.square(0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle))
        place = (2.0 * np.sqrt(rate) - low - high) / (high - low)
        cells = [
            Cell(float(x), float(x), first.rate * first.weight / float(x), first.noise)
            for x in nodes
        ]
        return Interpolated(
            tuple(cells), _lagrange(place, np.cos(angle)), tuple(self._single(panel))
        )


class Factor(ABC):
    """Part of the product of characteristic functions over the cells."""

    @abstractmethod
    def prepare(self, theta: FloatArray) -> Prepared:
        """Return what does not depend on t, with θ along the first axis of each array."""

    @abstractmethod
    def multiply(
        self, product: ComplexArray, t: FloatArray, theta: FloatArray, joint: Prepared
    ) -> None:
        """Multiply a product over other cells, shape (θ, t), by that over these, in place."""

    @property
    @abstractmethod
    def evaluated(self) -> tuple[Cell, ...]:
        """The cells that are evaluated."""


@dataclass(frozen=True)
class Single(Factor):
    """So many cells that are all alike."""

    cell: Cell
    count: float

    def prepare(self, theta: FloatArray) -> Prepared:
        return [self.cell.joint(theta)]

    def multiply(
        self, product: ComplexArray, t: FloatArray, theta: FloatArray, joint: Prepared
    ) -> None:
        value = self.cell.characteristic(t, joint[0], float(theta[-1]))
        product *= value if self.count == 1.0 else _integer_power(value, int(self.count))

    @property
    def evaluated(self) -> tuple[Cell, ...]:
        return (self.cell,)


@dataclass(frozen=True)
class Interpolated(Factor):
    """Cells that differ in their expectation only, by interpolation in its square root."""

    cells: tuple[Cell, ...]
    matrix: FloatArray
    singles: tuple[Single, ...]

    def prepare(self, theta: FloatArray) -> Prepared:
        return [cell.joint(theta) for cell in self.cells]

    def multiply(
        self, product: ComplexArray, t: FloatArray, theta: FloatArray, joint: Prepared
    ) -> None:
        nodes = np.stack(
            [
                cell.characteristic(t, own, float(theta[-1]))
                for cell, own in zip(self.cells, joint, strict=True)
            ]
        )
        if self._error(nodes, product) > _INTERPOLATION_ERROR:
            for single in self.singles:
                single.multiply(product, t, theta, single.prepare(theta))
            return
        flat = nodes.reshape(len(nodes), -1).view(np.float64)
        count = np.array([single.count for single in self.singles])
        for start in range(0, len(self.matrix), _CELLS):
            rows = slice(start, start + _CELLS)
            values = (self.matrix[rows] @ flat).view(np.complex128)
            if np.any(count[rows] > 1.0):
                values **= count[rows, None]
            product *= np.prod(values, axis=0).reshape(product.shape)

    def _error(self, nodes: ComplexArray, product: ComplexArray) -> float:
        """Error of the product, by the size of the last two coefficients of the interpolants."""
        flat = nodes.reshape(len(nodes), -1)
        last = np.abs(_last_coefficients(len(nodes)) @ flat).max(axis=0)
        count = sum(single.count for single in self.singles)
        largest = np.abs(flat).max(axis=0)
        return float(np.max(count * last * largest ** (count - 1.0) * np.abs(product).ravel()))

    @property
    def evaluated(self) -> tuple[Cell, ...]:
        return self.cells


def _last_coefficients(degree: int) -> FloatArray:
    """Map values at Chebyshev nodes to the last two coefficients, shape (2, degree)."""
    angle = np.pi * (np.arange(degree) + 0.5) / degree
    return np.asarray(2.0 / degree * np.cos(np.multiply.outer([degree - 2, degree - 1], angle)))


def _integer_power(value: ComplexArray, exponent: int) -> ComplexArray:
    """Repeated squaring, which is faster than the complex power."""
    out = np.ones_like(value)
    while exponent:
        if exponent & 1:
            out *= value
        exponent >>= 1
        value = np.square(value)
    return out


def _kinds(noise: NoiseLaw, size: int) -> tuple[NDArray[np.intp], list[NoiseLaw]]:
    """Return the number of the noise of each cell, and the different noises."""
    number = np.zeros(size, dtype=np.intp)
    laws: list[NoiseLaw] = []
    for law, cells in groups(noise, size):
        if not isinstance(law, ParametricLaw) or law.shape == ():
            number[cells] = len(laws)
            laws.append(law)
            continue
        columns = [np.broadcast_to(v, law.shape) for v in law._parameters().values()]
        _, first, inverse = np.unique(
            np.column_stack(columns), axis=0, return_index=True, return_inverse=True
        )
        number[cells] = len(laws) + inverse.ravel()
        laws.extend(law.take(int(i)) for i in first)
    return number, laws


def _lagrange(x: FloatArray, nodes: FloatArray) -> FloatArray:
    """Values at x of the Lagrange polynomials of Chebyshev nodes, shape (x, nodes)."""
    degree = nodes.size
    vandermonde = np.polynomial.chebyshev.chebvander
    at_nodes = vandermonde(nodes, degree - 1)
    # discrete orthogonality: the inverse is the transpose, up to a factor
    inverse = at_nodes.T * (2.0 / degree)
    inverse[0] *= 0.5
    return np.asarray(vandermonde(x, degree - 1) @ inverse)


# The characteristic function of the statistic given the total of the counts.


_LOSS = 38.0
"""Logarithm of the relative size below which terms are left out."""

_LARGEST = 3e7
"""Complex numbers held at a time for all cells."""

_RESERVE = 1.3
_PER_ANGLE = 10.0
"""Cost of preparing a cell at one θ and point, in multiplications."""

_ALIASED = 31.0
"""The same for totals that the trapezoidal rule takes for n."""

_ELEMENTS = 1 << 18
"""Complex numbers in a block."""


class Transform:
    """φ(t) = E[exp(itQ)] for Q = Σ a(X + e - c)², X multinomial with a known total n.

    Multinomial counts are Poisson counts given their total, so that φ(t) is the coefficient of
    that total: (1/2π) ∫ Π φᵢ(t, θ) dθ over the circle, with φᵢ the characteristic function of a
    cell at t and of its count at θ, divided by the same at t = 0. The trapezoidal rule with M
    nodes errs by the probability of totals that differ from n by multiples of M. For small t the
    integrand is a narrow peak around θ = 0, outside of which nodes are left out.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        nobs = float(cells.nobs)
        # P(total = n ± M)/P(total = n) < exp(-M²/(2n + M))
        half = 0.5 * _ALIASED
        self.circle = int(np.ceil(half + np.sqrt(half**2 + 2.0 * _ALIASED * nobs))) | 1
        self._widening = 1.0
        self._prepared: tuple[int, FloatArray, list[Prepared]] | None = None

    def cost(self, t: FloatArray) -> float:
        """Multiplications that the values at increasing t take; inf where memory is short."""
        last, half = float(t[-1]), self.nodes(float(t[-1]))
        widest, angles = 2.0 * np.pi * half / self.circle, 2.0 * half + 1.0
        evaluated = [cell for factor in self.cells.factors for cell in factor.evaluated]
        if angles * sum(cell.fewest_points for cell in evaluated) > _LARGEST:
            return np.inf
        values, held = 0.0, 0.0
        for cell in evaluated:
            points = cell.points.size / cell.stride(last, widest)
            values += points * (angles + cell.noise.cost)
            held += cell.points.size * angles
            if held > _LARGEST:
                return np.inf
        return t.size * values + (0.0 if self._is_prepared(half) else _PER_ANGLE * held)

    def _is_prepared(self, half: int) -> bool:
        return self._prepared is not None and self._prepared[0] >= half

    def nodes(self, t: float) -> int:
        """Return how many nodes of the trapezoidal rule matter on each side of 0, up to t."""
        if t > self._peak_alone:
            return self.circle // 2
        cells = self.cells
        variance, s = cells.noise_variance, 1j * cells.weight * t
        bend = cells.rate * (1.0 - 2.0 * s * variance) / (1.0 - 2.0 * s * (cells.rate + variance))
        curvature = float(cells.count @ bend.real)
        width = self._widening * np.sqrt(2.0 * _LOSS / curvature)
        return int(min(np.ceil(width * self.circle / (2.0 * np.pi)) + 1, self.circle // 2))

    def __call__(self, t: FloatArray) -> ComplexArray:
        """Evaluate at increasing t > 0."""
        out = np.empty(t.shape, dtype=np.complex128)
        start = 0
        while start < t.size:
            half = self.nodes(float(t[start]))
            stop = start + max(1, min(_ELEMENTS // (2 * half + 1), 64))
            block = t[start:stop]
            out[start:stop] = self._block(block)
            start = stop
        return out

    def _block(self, t: FloatArray) -> ComplexArray:
        while True:
            half = self.nodes(float(t[-1]))
            product = self._product(t, half)
            if 2 * half + 1 >= self.circle:
                break
            edge = np.abs(product[[0, 1, -2, -1]]).max() * half
            if edge <= 1e-15 * self.scale:
                break
            self._widening *= 1.5
        return np.asarray(product.sum(axis=0) / self.scale)

    @cached_property
    def _peak_alone(self) -> float:
        """Up to which t there is no peak but that around θ = 0.

        exp(it·a·y²) with whole y is a sum of waves of θ where t·a/π is a simple fraction.
        """
        whole = np.array([part.is_integer for part in self.cells.parts])[self.cells.kind]
        return np.pi / (12.0 * float(self.cells.weight[whole].max())) if whole.any() else np.inf

    @cached_property
    def scale(self) -> float:
        """The sum at t = 0, where it is the probability of the total."""
        # there the product is exp(n(cos θ - 1)) in size
        widest = np.arccos(max(-1.0, 1.0 - _LOSS / self.cells.nobs))
        half = min(int(widest * self.circle / (2.0 * np.pi)) + 1, self.circle // 2)
        return float(self._product(np.zeros(1), half).sum().real)

    def _product(self, t: FloatArray, half: int) -> ComplexArray:
        """Product over the cells, shape (θ, t)."""
        if self._prepared is None or self._prepared[0] < half:
            # some more, so that larger t find them prepared
            most = min(int(_RESERVE * half) + 4, self.circle // 2)
            theta = 2.0 * np.pi * np.arange(-most, most + 1) / self.circle
            self._prepared = most, theta, [factor.prepare(theta) for factor in self.cells.factors]
        most, theta, joint = self._prepared
        used = slice(most - half, most + half + 1)
        theta = theta[used]
        out = np.ones((theta.size, t.size), dtype=np.complex128)
        with np.errstate(under="ignore"):
            for factor, own in zip(self.cells.factors, joint, strict=True):
                factor.multiply(out, t, theta, [array[used] for array in own])
        # the expectations add up to the total, but for rounding
        shift = float(self.cells.count @ self.cells.rate) - self.cells.nobs
        out *= np.exp(1j * theta * shift)[:, None]
        return out
