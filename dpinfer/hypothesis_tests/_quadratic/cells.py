"""The cells of the statistic: equal ones counted, similar ones interpolated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.counts import poisson_pmf, poisson_radius
from dpinfer._numerics.lattice import by_squaring, slices
from dpinfer.hypothesis_tests._quadratic.noises import (
    NEGLIGIBLE,
    WAVE,
    NoiseParts,
    noise_parts,
    waves,
)
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw

TIE = 1e-11
"""A value this close to a point, in units of 1 + value, is that point: values of uneven cells are
so dense that atoms of 1e-8 are within 1e-10."""

# One term a·(X + e - c)² of the statistic, with X Poisson.


_LOG_NEGLIGIBLE = 39.0
"""Poisson probabilities below exp(-39) of the largest are left out."""

_LOG_ALIASED = 40.0
"""Size of frequencies that are left out, relative to the largest, as a logarithm."""

_NEGLIGIBLE = 1e-16
"""So are sums of a count and noise, relative to the likeliest of them."""

_DIRECT = 256
"""Counts up to which sums over the noise are products of matrices."""

_TURNS = 1 << 12
"""Angles at which the transform of the noise is looked up at least."""

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
        rate = np.asarray(self.rate)
        radius = poisson_radius(np.floor(rate), _LOG_NEGLIGIBLE)
        low, high = np.maximum(np.floor(rate) - radius, 0.0), np.floor(rate) + radius
        pmf = poisson_pmf(np.arange(low, high + 1.0), rate)
        return int(low), pmf / pmf.sum()

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
        joint = waves(-1j * theta, np.asarray(count - self.rate, dtype=np.float64))
        joint *= pmf
        return np.ascontiguousarray(_convolved(joint, self.noise.pmf)[:, self._window])

    def returns(self, period: FloatArray, denominator: FloatArray) -> FloatArray:
        """Bound the size at so many periods π/a of t, for whole-numbered noise.

        There exp(it·a(y - c)²) is a sum of as many waves of y as the denominator q says, 2π/q apart
        in frequency, of size 1/√q each. The noise makes all but the slowest of them small.
        """
        numerator = np.rint(period * denominator)
        odd = numerator * denominator % 2.0
        turn = (0.5 * odd - numerator * self.centre) % 1.0
        turn = 2.0 * np.pi / denominator * np.minimum(turn, 1.0 - turn)
        size = max(_TURNS, 2 * fft.next_fast_len(self.noise.pmf.size))
        place = turn / (2.0 * np.pi) * size
        # the larger one of two neighbours: the transform of the noise may have any sign
        known = np.abs(fft.rfft(self.noise.pmf, size))
        either = known[[np.floor(place).astype(np.intp), np.ceil(place).astype(np.intp)]]
        return np.asarray(either.max(axis=0) / np.sqrt(denominator))

    def averages(self, z: ComplexArray, d: FloatArray) -> ComplexArray:
        """E[exp(-za·(x + e - c)²)] by the differences d = x - c, one apart, shape (z, d)."""
        spread = self.noise.pmf
        if spread.size == 1:
            return self.noise.kernel(self.weight * z, d)
        reach = spread.size // 2
        around = np.arange(-reach, d.size + reach) + d[0]
        values = self.noise.kernel(self.weight * z, around)
        if d.size > _DIRECT:
            return _convolved(values, spread)[:, 2 * reach : 2 * reach + d.size]
        padded = np.pad(spread, d.size - 1)
        shifted = np.lib.stride_tricks.sliding_window_view(padded, around.size)[::-1].T
        return np.asarray(values.real @ shifted + 1j * (values.imag @ shifted))

    def counts(self, damping: float, nobs: int) -> tuple[int, FloatArray]:
        """Return the first count up to n that matters, and probabilities from there on.

        With a damping the terms of counts far from c matter less.
        """
        first, pmf = self._counts
        pmf = pmf[: max(1, nobs + 1 - first)]
        if damping > 0.0:
            d = np.arange(float(pmf.size)) + (first - self.centre)
            chance = pmf * self.averages(np.array([complex(damping)]), d)[0].real
            kept = np.flatnonzero(chance > NEGLIGIBLE * chance.max())
            if kept.size:
                first, pmf = first + int(kept[0]), pmf[kept[0] : kept[-1] + 1]
        return first, pmf

    def stride(self, z: complex, widest: float) -> int:
        """Return the largest m for which the sum over every m-th count is m times too small.

        By Poisson summation, it is where the frequencies of the terms stay below 2π/m: those of θ,
        up to ``widest``, and of a Poisson count times exp(-za·d²), twice abs(z)·a·d at a distance
        d, of which a damping leaves fewer counts. The count's own decay as exp(λ(cos ω - 1)), which
        is exp(-2λω²/π²) at most.
        """
        if self.rate < 0.5 * _LOG_ALIASED:
            return 1
        turn = 2.0 * self.weight * z
        width = 1.0 / self.rate + turn
        count = 0.5 * np.pi * np.sqrt(2.0 * _LOG_ALIASED / width.real) * abs(width)
        shift = abs(turn) * (self.noise.reach + abs(self.rate - self.centre))
        return max(1, int(2.0 * np.pi / (widest + count + shift)))


def _convolved(values: ComplexArray, pmf: FloatArray) -> ComplexArray:
    """Rows convolved with probabilities."""
    if pmf.size == 1:
        return values
    size = values.shape[1] + pmf.size - 1
    length = fft.next_fast_len(size)
    transform = fft.fft(values, length)
    transform *= fft.fft(pmf, length)
    return np.asarray(fft.ifft(transform, overwrite_x=True), dtype=np.complex128)[:, :size]


_DEGREE = 22
"""Chebyshev nodes of a panel in which expectations differ by a factor of four at most."""

_PANEL = 4.0
_ROUNDING = 1e-13
_CELLS = 128

_INTERPOLATION_ERROR = 2e-11
"""Estimated error up to which cells are interpolated, relative to the largest product."""

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
    def is_whole(self) -> NDArray[np.bool_]:
        """Which of the cells have no continuous part, shape (d,)."""
        return np.array([part.is_integer for part in self.parts])[self.kind]

    @cached_property
    def is_integer(self) -> bool:
        """Whether no noise has a continuous part."""
        return bool(self.is_whole.all())

    @cached_property
    def has_whole(self) -> bool:
        """Whether any has none."""
        return bool(self.is_whole.any())

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


Evaluated = Callable[["Cell"], ComplexArray]
"""Gives the characteristic functions of a cell, shape (t, θ)."""


@dataclass(frozen=True)
class Single:
    """So many cells that are all alike."""

    cell: Cell
    count: float

    def multiply(self, product: ComplexArray, evaluate: Evaluated, peak: float) -> None:
        """Multiply a product over other cells, shape (t, θ), by that over these, in place.

        ``peak`` is the size that products of all cells have elsewhere, if that is known, or 0.
        """
        value = evaluate(self.cell)
        product *= by_squaring(value, int(self.count), np.multiply)

    @property
    def evaluated(self) -> tuple[Cell, ...]:
        """The cells that are evaluated."""
        return (self.cell,)


@dataclass(frozen=True)
class Interpolated:
    """Cells that differ in their expectation only, by interpolation in its square root.

    Methods as of Single.
    """

    cells: tuple[Cell, ...]
    matrix: FloatArray
    singles: tuple[Single, ...]

    def multiply(self, product: ComplexArray, evaluate: Evaluated, peak: float) -> None:
        nodes = np.stack([evaluate(cell) for cell in self.cells])
        if self._error(nodes, product, peak) > _INTERPOLATION_ERROR:
            for single in self.singles:
                single.multiply(product, evaluate, peak)
            return
        flat = nodes.reshape(len(nodes), -1).view(np.float64)
        count = np.array([single.count for single in self.singles])
        for rows in slices(len(self.matrix), _CELLS):
            values = (self.matrix[rows] @ flat).view(np.complex128)
            if np.any(count[rows] > 1.0):
                values **= count[rows, None]
            product *= np.prod(values, axis=0).reshape(product.shape)

    def _error(self, nodes: ComplexArray, product: ComplexArray, peak: float) -> float:
        """Relative error, by the size of the last two coefficients of the interpolants.

        It is some thirty times the true one.
        """
        flat = nodes.reshape(len(nodes), -1)
        last = np.abs(_last_coefficients(len(nodes)) @ flat).max(axis=0)
        count = sum(single.count for single in self.singles)
        largest = np.abs(flat).max(axis=0)
        others = largest ** (count - 1.0) * np.abs(product).ravel()
        peak = max(peak, float(np.max(largest * others)))
        return float(np.max(count * last * others)) / peak if peak else 0.0

    @property
    def evaluated(self) -> tuple[Cell, ...]:
        return self.cells


Factor = Single | Interpolated
"""Part of the product of characteristic functions over the cells."""


def _last_coefficients(degree: int) -> FloatArray:
    """Map values at Chebyshev nodes to the last two coefficients, shape (2, degree)."""
    angle = np.pi * (np.arange(degree) + 0.5) / degree
    return np.asarray(2.0 / degree * np.cos(np.multiply.outer([degree - 2, degree - 1], angle)))


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

_LARGEST = 4e6
"""Nodes of the trapezoidal rule, and counts of a cell, at most."""

_ALIASED = 42.0
"""The same for totals that the trapezoidal rule takes for n: a damping makes more of them."""

_ELEMENTS = 1 << 18
"""Complex numbers in a block."""

_FEW_NODES = 8
"""Products, in units of the length of a Fourier transform, up to which they are faster."""

_WHOLE_CIRCLE = 3
"""How much narrower a peak may be that is not looked for, if tails of the noise may widen it."""

_FEW_CELLS = 16
"""Distinct cells up to which tails of the noise may show in the width of a peak."""

_FOURIER = 1.5
"""Cost of a Fourier transform of length m, in units of m·log₂(m)."""


def angles(nobs: int, loss: float) -> int:
    """Nodes M of the trapezoidal rule, with P(total = n ± M)/P(total = n) below exp(-loss).

    It is less than exp(-M²/(2n + M)).
    """
    return int(np.ceil(0.5 * loss + np.sqrt(0.25 * loss**2 + 2.0 * loss * nobs)))


class Transform:
    """φ(t) = E[exp(-(damping + it)Q)] for Q = Σ a(X + e - c)², X multinomial with a known total n.

    Multinomial counts are Poisson counts given their total, so that φ(t) is the coefficient of
    that total: (1/2π) ∫ Π φᵢ(t, θ) dθ over the circle, with φᵢ the characteristic function of a
    cell at t and of its count at θ, divided by the same for Q = 0. The trapezoidal rule with M
    nodes errs by the probability of totals that differ from n by multiples of M; at all nodes φᵢ
    is the discrete Fourier transform of the terms by the count. For small t the integrand is a
    narrow peak around θ = 0, outside of which nodes are left out.
    """

    def __init__(self, cells: Cells, damping: float = 0.0) -> None:
        self.cells = cells
        self.damping = damping
        least = angles(cells.nobs, _ALIASED)
        # a multiple of a power of two, so that every second, fourth, ... count may do
        self._unit = 1 << max(0, (least // 128).bit_length() - 1)
        self.circle = int(self._unit * fft.next_fast_len(-(-least // self._unit)))
        self._widening, self._peak = 1.0, 0.0
        self._known: dict[int, tuple[int, FloatArray]] = {}
        self._costs: dict[tuple[float, int], float] = {}

    def damped(self, damping: float) -> Transform:
        """Return the same with another damping."""
        return type(self)(self.cells, damping)

    def cost(self, t: FloatArray, chosen: Sequence[Cell] | None = None) -> float:
        """Multiplications that the values at increasing t take; inf where memory is short.

        Of chosen cells on the whole circle, where there are any.
        """
        if chosen is not None:
            return t.size * self._cost(float(t[-1]), chosen, self.circle // 2)
        at = float(t[-1]), self.nodes(float(t[-1]))
        if at not in self._costs:
            cells = [cell for factor in self.cells.factors for cell in factor.evaluated]
            self._costs[at] = self._cost(at[0], cells, at[1])
        return t.size * self._costs[at]

    def _cost(self, t: float, cells: Sequence[Cell], half: int) -> float:
        """Cost of one value up to a t, with so many nodes on each side of 0."""
        if max([float(self.circle)] + [cell.fewest_points for cell in cells]) > _LARGEST:
            return np.inf
        widest, values = 2.0 * np.pi * half / self.circle, 0.0
        for cell in cells:
            step, reach = self._stride(cell, t, widest), cell.noise.pmf.size - 1
            points, length = self._counts(cell)[1].size, self.circle / step
            if reach:
                points += reach
                spread = min(0.1 * (points - reach), 2.0 * _FOURIER * np.log2(points))
                values += points * (cell.noise.cost + spread)
            else:
                values += points / step * cell.noise.cost
            values += _FOURIER * length * np.log2(length) + WAVE * min(length, 2.0 * half)
        return values

    def typical(
        self, t: FloatArray, chosen: Sequence[Cell], number: FloatArray, own: NDArray[np.intp]
    ) -> FloatArray:
        """Return how large the values of the product over some cells are at some t, in any order.

        At each t one of the cells, ``own``, is left at its size for t = 0. What the sum over θ is
        on average where its terms have any phase; less than half of that of their sizes if these
        have a single peak.
        """
        count, product = np.arange(self.circle), np.ones((t.size, self.circle))
        with np.errstate(under="ignore"):
            for place, (cell, power) in enumerate(zip(chosen, number, strict=True)):
                size = np.abs(self._values(cell, t, count))
                turn = np.square(np.sin(np.pi / self.circle * count))
                size[own == place] = np.exp(-2.0 * cell.rate * turn)
                product *= size**power
        return np.asarray(np.linalg.norm(product, axis=1) / self.scale)

    def nodes(self, t: float) -> int:
        """Return how many nodes of the trapezoidal rule matter on each side of 0, up to t."""
        if t > self._peak_alone:
            return self.circle // 2
        cells = self.cells
        variance, turn = cells.noise_variance, 2.0 * cells.weight * complex(self.damping, t)
        bend = cells.rate * (1.0 + turn * variance) / (1.0 + turn * (cells.rate + variance))
        curvature = float(cells.count @ bend.real)
        width = self._widening * np.sqrt(2.0 * _LOSS / curvature)
        half = int(min(np.ceil(width * self.circle / (2.0 * np.pi)) + 1, self.circle // 2))
        # all of the circle takes little more than to find out how much of it is enough
        nearly = self._may_widen and _WHOLE_CIRCLE * half >= self.circle // 2
        return self.circle // 2 if nearly else half

    def __call__(self, t: FloatArray) -> ComplexArray:
        """Evaluate at increasing t > 0."""
        rows = min(_ELEMENTS // self.circle, 128)
        return np.concatenate([self._block(t[part]) for part in slices(t.size, rows)])

    def _block(self, t: FloatArray) -> ComplexArray:
        # one row tells whether the nodes are enough, where the noise may make their width wrong
        rows = [t[-1:], t] if t.size > 1 and self._may_widen else [t]
        while True:
            half = self.nodes(float(t[-1]))
            if half >= self.circle // 2:
                product = self._product(t, half)
                break
            product = self._product(rows[0], half)
            # at t = 0 the value is the largest itself
            size = self.scale * self.largest if t[-1] else abs(product[0].sum())
            if np.abs(product[:, [0, 1, -2, -1]]).max() * half > 1e-15 * size:
                self._widening *= 1.5
            elif len(rows) == 1:
                break
            else:
                del rows[0]
        return np.asarray(product.sum(axis=1) / self.scale)

    @cached_property
    def _may_widen(self) -> bool:
        """Whether a peak may be wider than it is for normal noise: few cells, and heavier tails."""
        heavy = [part.fourth > 3.01 * part.variance**2 for part in self.cells.parts]
        return len(self.cells) <= _FEW_CELLS and any(heavy)

    @cached_property
    def _peak_alone(self) -> float:
        """Up to which t there is no peak but that around θ = 0.

        exp(it·a·y²) with whole y is a sum of waves of θ where t·a/π is a simple fraction.
        """
        if not self.cells.has_whole:
            return np.inf
        return np.pi / (12.0 * float(self.cells.weight[self.cells.is_whole].max()))

    @cached_property
    def scale(self) -> float:
        """The sum for Q = 0: the probability of the total."""
        nobs = np.asarray(float(self.cells.nobs))
        return self.circle * float(poisson_pmf(nobs, nobs))

    @cached_property
    def largest(self) -> float:
        """The value at t = 0, which no other one exceeds in size."""
        return abs(float(self._block(np.zeros(1))[0].real)) if self.damping else 1.0

    def _product(self, t: FloatArray, half: int) -> ComplexArray:
        """Product over the cells, shape (t, θ)."""
        if half >= self.circle // 2:  # in the order of Fourier transforms
            count = np.roll(np.arange(-half, self.circle - half), -half)
        else:
            count = np.arange(-half, half + 1)
        out = np.ones((t.size, count.size), dtype=np.complex128)
        with np.errstate(under="ignore"):
            for factor in self.cells.factors:
                factor.multiply(out, lambda cell: self._values(cell, t, count), self._peak)
        if any(isinstance(factor, Interpolated) for factor in self.cells.factors):
            self._peak = max(self._peak, float(np.abs(out).max()))
        # the expectations add up to the total, but for rounding
        shift = float(self.cells.count @ self.cells.rate) - self.cells.nobs
        out *= self._turn(count * shift)
        return out

    def _values(self, cell: Cell, t: FloatArray, count: NDArray[np.intp]) -> ComplexArray:
        """E[exp(iθ(X - λ) - za·(X + e - c)²)] at some of the nodes θ, shape (t, θ)."""
        first, pmf = self._counts(cell)
        widest = 2.0 * np.pi / self.circle * float(np.abs(count).max())
        step = self._stride(cell, float(t[-1]), widest)
        z = np.asarray(self.damping + 1j * t, dtype=np.complex128)
        d = np.arange(float(pmf.size)) + (first - cell.centre)
        if cell.noise.pmf.size == 1:
            terms = cell.averages(z, d[::step])
        else:
            terms = cell.averages(z, d)[:, ::step]
        terms *= pmf[::step]
        length = self.circle // step
        if count.size * terms.shape[1] < _FEW_NODES * length:
            first_count = np.arange(0.0, step * terms.shape[1], step)
            value = terms @ self._turn(np.multiply.outer(first_count, count))
        else:
            if terms.shape[1] > length:  # around the circle
                rounds = -(-terms.shape[1] // length)
                terms = np.pad(terms, ((0, 0), (0, rounds * length - terms.shape[1])))
                terms = terms.reshape(z.size, rounds, length).sum(axis=1)
            value = fft.ifft(terms, length, norm="forward")
            if min(length, count.size) < self.circle:
                value = value[:, count % length]
        value *= step * self._turn(count * (first - cell.rate))
        return np.asarray(value, dtype=np.complex128)

    def _turn(self, steps: NDArray[np.floating[Any]]) -> ComplexArray:
        return np.asarray(np.exp(2j * np.pi / self.circle * steps))

    def _counts(self, cell: Cell) -> tuple[int, FloatArray]:
        if id(cell) not in self._known:
            self._known[id(cell)] = cell.counts(self.damping, self.cells.nobs)
        return self._known[id(cell)]

    def _stride(self, cell: Cell, t: float, widest: float) -> int:
        """Which of the counts, every so many of them, tell the sum."""
        most = min(cell.stride(complex(self.damping, t), widest), self._counts(cell)[1].size // 8)
        return min(self._unit, 1 << max(0, most.bit_length() - 1))
