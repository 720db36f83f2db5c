"""Tails of the statistic from its characteristic function.

The route for many cells, for three and more with continuous noise, and the last resort. It gives
up early where the accuracy that is wanted is out of reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from math import pi, prod
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from dpinfer._check import FloatArray, show
from dpinfer._numerics.lattice import common_spacing
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._quadratic.cells import (
    Cell,
    Cells,
    ComplexArray,
    Transform,
    noise_parts,
)
from dpinfer.hypothesis_tests._quadratic.two_cells import (
    BinomialCount,
    TwoSmoothCells,
    TwoWholeCells,
)
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian, Laplace

# All values that part of the statistic can take, up to a bound: one half of an enumeration.


_HALF_NEGLIGIBLE = 1e-21
"""Probability below which a value is left out."""

_HALF_TIE = 1e-12
"""Values this close to each other, in units of 1 + value, are one value."""

_HALF_KEPT = 1.6e7
"""Complex numbers that are kept, 16 bytes each."""


@dataclass(frozen=True)
class Term:
    """One term a(y - c)² with whole-numbered y."""

    square: FloatArray  # the values at the points y, shape (m,)
    joint: ComplexArray  # E[exp(iθ(X - λ)); y], beginning with θ = 0, shape (m, θ)
    weight: float  # the factor a

    def below(self, bound: float) -> NDArray[np.intp]:
        """Return the places of the values up to a bound."""
        return np.flatnonzero(self.square <= bound)


@dataclass(frozen=True)
class _Step:
    """How sums come about as a term is added to them.

    ``before`` and ``place`` are the sum and the point of the term, in the order of the new sums;
    at each of ``starts`` begins a new value.
    """

    before: NDArray[np.intp]
    place: NDArray[np.intp]
    starts: NDArray[np.intp]


class Half:
    """The values of a sum of terms up to a bound, upwards, with their probabilities."""

    def __init__(self, terms: Sequence[Term], angles: int, bound: float) -> None:
        self._terms = terms
        self._angles = angles
        self.values: FloatArray = np.zeros(1)
        self._steps: list[_Step] = []
        chances = np.ones(1)
        for term in terms:
            place = term.below(bound)
            values = np.add.outer(self.values, term.square[place]).ravel()
            chances = np.multiply.outer(chances, term.joint[place, 0].real).ravel()
            kept = np.flatnonzero((values <= bound) & (chances > _HALF_NEGLIGIBLE))
            kept = kept[np.argsort(values[kept], kind="stable")]
            values = values[kept]
            gaps = np.diff(values, prepend=-np.inf)
            starts = np.flatnonzero(gaps > _HALF_TIE * (1.0 + values))
            before, own = np.divmod(kept, max(1, place.size))
            self._steps.append(_Step(before, place[own], starts))
            self.values = values[starts]
            chances = np.add.reduceat(chances[kept], starts) if starts.size else np.zeros(0)

    def chances(self, part: slice) -> ComplexArray:
        """E[exp(iθ(X - λ)); value] at some of the θ, shape (values, θ)."""
        if self.values.size * self._angles <= _HALF_KEPT:
            return self._everything[:, part]
        return self._computed(part)

    @cached_property
    def _everything(self) -> ComplexArray:
        return self._computed(slice(0, self._angles))

    def _computed(self, part: slice) -> ComplexArray:
        out = np.ones((1, part.stop - part.start), dtype=np.complex128)
        for term, step in zip(self._terms, self._steps, strict=True):
            out = out[step.before]
            out *= term.joint[step.place, part]
            if step.starts.size < step.before.size:
                out = np.add.reduceat(out, step.starts, axis=0)
        return out


def number_of_values(terms: Sequence[Term], bound: float) -> float:
    """Return about how many values there are up to a bound: the volume of an ellipsoid."""
    half = 0.5 * len(terms)
    ball = pi**half / special.gamma(half + 1.0)
    volume = ball * prod(np.sqrt(bound / term.weight) + 0.5 for term in terms)
    return float(min(volume, prod(float(term.below(bound).size) for term in terms)))


# The law of a statistic of few cells with whole-numbered noise, by listing its values.


_ENUMERATION_BUDGET = 2e7
"""Complex numbers handled at most for one tail: a second or so."""

_LARGEST = 1e7
"""Numbers held at a time, for the terms and for a list of values."""

_TIE = 1e-11
"""Values this close to each other, in units of 1 + value, are one value."""


_BLOCK = 1 << 21
"""Complex numbers in a block."""

_ENUMERATION_GROWTH = 1.3
"""By how much the lists go beyond what was asked for, where that is asked for repeatedly."""


class Enumeration:
    """P(Q <= q) from the values up to q of two halves of the statistic.

    The counts are Poisson counts given their total, which the trapezoidal rule fixes: for each θ
    the halves are independent, and a value of one half goes with the sum of all of the other one
    that are small enough.
    """

    def __init__(self, cells: Cells, circle: int) -> None:
        # the joint functions are conjugate at -θ: half of the nodes will do
        theta = 2.0 * np.pi * np.arange((circle + 1) // 2) / circle
        self._theta = theta
        self._factor = np.where(theta == 0.0, 1.0, 2.0)
        terms = {id(cell): _term(cell, theta) for cell in cells.each}
        self._parts = [[terms[id(cell)] for cell in half] for half in split(cells)]
        sums = [term.joint.sum(axis=0) for half in self._parts for term in half]
        self._total = float(prod(sums, start=self._factor).real.sum())
        self._bound = -np.inf
        self._halves: list[Half] = []

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return 1.0 - self._each(q, -1.0)

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._each(q, 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error; inf where the values up to q are too many."""
        affordable = [self._is_affordable(x) for x in np.ravel(q)]
        return np.where(affordable, _ERROR, np.inf).reshape(np.shape(q))

    def _is_affordable(self, q: float) -> bool:
        if q < 0.0:
            return True
        numbers = [number_of_values(part, q) for part in self._parts]
        return max(numbers) <= _LARGEST and sum(numbers) * self._theta.size <= _ENUMERATION_BUDGET

    def _each(self, q: FloatArray, side: float) -> FloatArray:
        """P(Q <= q), the values within rounding of q included (1) or not (-1)."""
        inside = [self._inside(x + side * _TIE * (1.0 + abs(x))) for x in np.ravel(q)]
        return np.clip(np.array(inside) / self._total, 0.0, 1.0).reshape(np.shape(q))

    def _inside(self, q: float) -> float:
        """Chance of the values up to q, in units of the chance of the total."""
        if q < 0.0:
            return 0.0
        listed, merged = self._up_to(q)
        chosen = listed.values[: np.searchsorted(listed.values, q, side="right")]
        place = np.searchsorted(merged.values, q - chosen, side="right")
        angles = max(1, _BLOCK // max(1, listed.values.size, merged.values.size))
        total = 0.0
        for start in range(0, self._theta.size, angles):
            part = slice(start, min(start + angles, self._theta.size))
            # the chance of the first values; nothing before them
            below = np.zeros((merged.values.size + 1, part.stop - part.start), dtype=np.complex128)
            np.cumsum(merged.chances(part), axis=0, out=below[1:])
            pairs = np.einsum("vt,vt->t", listed.chances(part)[: place.size], below[place])
            total += float(self._factor[part] @ pairs.real)
        return total

    def _up_to(self, q: float) -> list[Half]:
        """Both halves with their values up to q, and perhaps some more."""
        if q > self._bound:
            self._bound = q if not self._halves else _ENUMERATION_GROWTH * q
            self._halves = [Half(part, self._theta.size, self._bound) for part in self._parts]
        return self._halves


def feasible(cells: Cells, circle: int) -> bool:
    """Whether the terms can be listed; how many sums of them there are depends on q."""
    if not cells.is_integer or 0.5 * circle * sum(c.fewest_points for c in cells.each) > _LARGEST:
        return False
    points = sum(cell.points.size for cell in cells.each)
    return points * 0.5 * circle <= _LARGEST


def split(cells: Cells) -> tuple[list[Cell], list[Cell]]:
    """Split the cells into halves with about as many values, the larger one first."""
    everything = [
        cell for cell, n in zip(cells.each, cells.count, strict=True) for _ in range(int(n))
    ]
    everything.sort(key=lambda cell: cell.points.size, reverse=True)
    halves: tuple[list[Cell], list[Cell]] = ([], [])
    sizes = [0.0, 0.0]
    for cell in everything:
        smaller = int(sizes[1] < sizes[0])
        halves[smaller].append(cell)
        sizes[smaller] += np.log(cell.points.size)
    return halves if sizes[0] >= sizes[1] else (halves[1], halves[0])


def _term(cell: Cell, theta: FloatArray) -> Term:
    joint = np.ascontiguousarray(cell.joint(theta).T)
    return Term(cell.weight * np.square(cell.points), joint, cell.weight)


# Where the characteristic function of a discrete statistic may grow again.


_KINDS = 8
_PERIODS = 4
_FRACTIONS = np.unique([j / q for q in range(1, 7) for j in range(1, q + 1)])
"""Parts of a period at which sums of exp(iπx²·fraction) are largest: 1/√q for a denominator q."""

_RECURRENCE_FIRST = 12
_RECURRENCE_NEGLIGIBLE = 1e-14
_RECURRENCE_BUDGET = 5e8
"""Multiplications at most for each choice of cells."""

_RECURRENCE_LARGEST = 2e7
"""Complex numbers held at a time."""

_PER_ANGLE = 10.0
"""Cost of preparing a cell at one θ and point, in multiplications."""


def recurrence(transform: Transform, width: float, end: float, reach: float) -> float:
    """Estimate what returns of φ between ``end`` and ``reach`` contribute to a tail, at most.

    exp(it·a(y - c)²) with whole y has, but for a shift, the period π/a in t, and is next largest
    at simple fractions of it. There abs(φ) is bounded by its mean over the circle of θ, of more
    and more cells until that is negligible. A return as wide as the peak at 0, ``width`` =
    ∫ abs(φ) dt, contributes 2·width·abs(φ)/(πt). Cells with a continuous part have no such returns.
    """
    cells = transform.cells
    whole = np.array([part.is_integer for part in cells.parts])[cells.kind]
    if not whole.any():
        return 0.0
    order = _spread_out(cells, np.flatnonzero(whole))
    steps = np.add.outer(np.arange(_PERIODS), _FRACTIONS)
    t = np.unique(np.multiply.outer(steps, np.pi / cells.weight[order[:_KINDS]]))
    t = t[(t > end) & (t <= reach * (1.0 + 1e-9))]
    share = np.minimum(1.0, 2.0 * width / (np.pi * t))
    found, number, most_cells = share, min(_RECURRENCE_FIRST, order.size), order.size
    while found.size and found.max() > _RECURRENCE_NEGLIGIBLE:
        angles = _angles(cells, order[:number])
        work = angles * _points(cells, order[:number])
        most = int(_RECURRENCE_BUDGET / (work * number) - _PER_ANGLE)
        if most < 1 or work > _RECURRENCE_LARGEST:
            number = most_cells = number // 2  # never more again, or it would go on forever
            if number:
                continue
            break
        large = np.flatnonzero(found > _RECURRENCE_NEGLIGIBLE)
        t, share = t[large], share[large]
        size = _bound(transform, order[:number], t[:most], angles)
        # those at larger t that are too many to look at are taken to be as large as the largest
        found = share * np.append(size, np.full(t.size - size.size, size.max()))
        if number == most_cells or 2 * most < t.size:
            break
        number = min(4 * number, most_cells)
    return float(found.sum())


def _spread_out(cells: Cells, whole: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order cells so that the first of them are of all sizes."""
    order = whole[np.argsort(cells.weight[whole])]
    # multiples of the golden ratio, modulo 1, fill the interval evenly
    return order[np.argsort(np.arange(order.size) * 0.5 * (np.sqrt(5.0) - 1.0) % 1.0)]


def _angles(cells: Cells, chosen: NDArray[np.intp]) -> int:
    """Return how many nodes on the circle resolve a peak as narrow as the chosen counts make it."""
    return int(8.0 * np.sqrt(cells.count[chosen] @ cells.rate[chosen])) + 64


def _points(cells: Cells, chosen: NDArray[np.intp]) -> int:
    """Return the number of points of the widest of the chosen cells."""
    return max(int(cells.each[i].points.size) for i in chosen)


def _bound(
    transform: Transform, chosen: NDArray[np.intp], t: FloatArray, angles: int
) -> FloatArray:
    """Mean over the circle of the product over the chosen cells, in units of P(total)."""
    cells = transform.cells
    theta = 2.0 * np.pi * np.arange(angles) / angles
    product = np.ones((angles, t.size))
    with np.errstate(under="ignore"):
        for i in chosen:
            cell = cells.each[i]
            value = np.abs(cell.characteristic(t, cell.joint(theta)))
            product *= value ** cells.count[i]
    bound = product.mean(axis=0) * transform.circle / transform.scale
    return np.asarray(np.minimum(1.0, bound))


# Ways to the tails of a law, and the first of them that is accurate at a point.


class Tails(Protocol):
    """A way to the tails."""

    def upper(self, q: FloatArray) -> FloatArray: ...
    def lower(self, q: FloatArray) -> FloatArray: ...
    def error(self, q: FloatArray) -> FloatArray: ...


Maker = Callable[[], Tails | None]


class FirstAccurate:
    """At each point the first way that is accurate there, or else the best.

    made : list
        The ways that were needed so far.
    """

    def __init__(self, makers: Sequence[Maker], accepted: float) -> None:
        self._makers = list(makers)
        self.made: list[Tails] = []
        self._accepted = accepted

    @property
    def exists(self) -> bool:
        """Whether there is any way."""
        return next(self._ways(), None) is not None

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._best(q, lambda way, points: way.upper(points))[0]

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return self._best(q, lambda way, points: way.lower(points))[0]

    def error(self, q: FloatArray) -> FloatArray:
        """Absolute error of the way that is taken."""
        return self._best(q, lambda way, points: points)[1]

    def _best(
        self, q: FloatArray, tail: Callable[[Tails, FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Tails and their errors."""
        points = np.ravel(q)
        value, error = np.full(points.size, np.nan), np.full(points.size, np.inf)
        ways = self._ways()
        while (left := np.flatnonzero(error > self._accepted)).size:
            # only now, as it takes time to make a way
            if (way := next(ways, None)) is None:
                break
            own = way.error(points[left])
            better = own < error[left]
            chosen = left[better]
            if chosen.size:
                error[chosen] = own[better]
                value[chosen] = tail(way, points[chosen])
        return value.reshape(np.shape(q)), error.reshape(np.shape(q))

    def _ways(self) -> Iterator[Tails]:
        """Yield the ways; each is made when it is first needed."""
        yield from self.made
        while self._makers:
            way = self._makers.pop(0)()
            if way is not None:
                self.made.append(way)
                yield way


# The range of the statistic.


_SPREAD = 9.6
_DEVIATIONS = 10.0


def support(transform: Transform) -> tuple[float, float]:
    """Range outside of which the statistic lies with negligible probability.

    Below: exp(-x²/(2ΣE[Qᵢ²])) for a sum of independent terms >= 0. Above: ten standard deviations
    and the largest single term, which is what laws with heavier tails than the normal need.
    """
    cells = transform.cells
    first, second, largest = cells.moments
    mean = cells.count @ first
    spread = np.sqrt(cells.count @ second)
    deviation = np.sqrt(cells.count @ np.maximum(second - np.square(first), 0.0))
    low = max(0.0, float(mean - _SPREAD * spread))
    return low, float(mean + _DEVIATIONS * deviation + largest.max())


# Statistics whose values have a common spacing, and their whole law by Fourier transforms.


_FINEST = 1e-7
"""Smallest spacing looked for, in units of the largest weight."""

_SLACK = 1e-6
"""Values this close to a point of the lattice, in units of the spacing, are that point."""

_ERROR = 1e-13


@dataclass(frozen=True)
class Lattice:
    """The values origin + spacing·(whole numbers)."""

    spacing: float
    origin: float
    # the multiple for y in cell i is (a·y(y - 1) + linear·y)/spacing, shape (d,)
    linear: FloatArray

    @classmethod
    def of(cls, cells: Cells) -> Lattice | None:
        """Return the lattice of Σ a(y - c)² over whole y, or None where there is no spacing.

        a(y - c)² = a·c² + a·y(y - 1) + a(1 - 2c)·y, and y(y - 1) is even. Without noise the y add
        up to n, so that what is linear with one coefficient in all cells is constant.
        """
        if not cells.is_integer:
            return None
        linear = cells.weight * (1.0 - 2.0 * cells.centre)
        origin = float(cells.count @ (cells.weight * np.square(cells.centre)))
        if all(part.pmf.size == 1 for part in cells.parts):
            common = linear[np.argmin(np.abs(linear))]
            origin += float(common * cells.nobs)
            rounding = 1e-12 * (np.abs(linear) + abs(common))
            linear = np.where(np.abs(linear - common) <= rounding, 0.0, linear - common)
        steps = np.abs(np.concatenate([2.0 * cells.weight, linear]))
        finest = _FINEST * float(cells.weight.max())
        found = common_spacing(steps[steps > 0.0], smallest=finest)
        return None if found is None else cls(found[0], origin, linear)

    def first(self, q: FloatArray) -> FloatArray:
        """Return the multiple of the first value >= q."""
        return np.asarray(np.ceil((q - self.origin) / self.spacing - _SLACK))

    def last(self, q: FloatArray) -> FloatArray:
        """Return the multiple of the last value <= q."""
        return np.asarray(np.floor((q - self.origin) / self.spacing + _SLACK))


class LatticeTable:
    """P(Q >= q) from the probabilities of all values of a lattice.

    For each θ the laws of the terms, jointly with the total, are convolved by discrete Fourier
    transforms around a circle longer than the range of the statistic.
    """

    def __init__(self, transform: Transform, lattice: Lattice) -> None:
        self._lattice = lattice
        low, high = support(transform)
        self._start = int(lattice.first(np.asarray(low)))
        pmf = _probabilities(transform, lattice, self._start, _length(transform, lattice))
        self._last = int(lattice.last(np.asarray(high))) - self._start
        self._above = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._from(self._lattice.first(q))

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        return 1.0 - self._from(self._lattice.last(q) + 1.0)

    def error(self, q: FloatArray) -> FloatArray:
        """Bound on the absolute error: rounding, and what is left out."""
        return np.full(np.shape(q), _ERROR)

    def _from(self, multiple: FloatArray) -> FloatArray:
        place = np.clip(multiple - self._start, 0, self._above.size - 1)
        return np.asarray(np.clip(self._above[place.astype(np.intp)], 0.0, 1.0))


def table_cost(transform: Transform, lattice: Lattice) -> float:
    """Elementary operations that the table takes."""
    length = _length(transform, lattice)
    return float(0.5 * transform.circle * len(transform.cells) * length * np.log2(length))


def _length(transform: Transform, lattice: Lattice) -> int:
    low, high = support(transform)
    return int(fft.next_fast_len(int(min((high - low) / lattice.spacing, 1e12)) + 4))


def _probabilities(transform: Transform, lattice: Lattice, start: int, length: int) -> FloatArray:
    """Probabilities of consecutive values from a multiple on."""
    cells = transform.cells
    places = []
    for i, cell in enumerate(cells.each):
        y = np.rint(cell.points + cell.centre)
        multiple = (cell.weight * y * (y - 1.0) + lattice.linear[i] * y) / lattice.spacing
        places.append(np.rint(multiple).astype(np.int64) % length)
    total: ComplexArray = np.zeros(length, dtype=np.complex128)
    # the law at -θ is conjugate, so that half of the nodes do
    for node in range((transform.circle + 1) // 2):
        theta = np.array([2.0 * np.pi * node / transform.circle])
        product = np.ones(length, dtype=np.complex128)
        for i, place in enumerate(places):
            joint = cells.each[i].joint(theta)[0]
            law = np.bincount(place, joint.real, length) + 1j * np.bincount(
                place, joint.imag, length
            )
            value = fft.fft(law, overwrite_x=True)
            product *= value if cells.count[i] == 1.0 else value ** cells.count[i]
        total += product if node == 0 else 2.0 * product
    pmf = np.maximum(fft.ifft(total, overwrite_x=True).real, 0.0)
    return np.roll(pmf / pmf.sum(), -(start % length))


TARGET = 1e-12
"""Absolute error at which no more nodes are added."""

_NEGLIGIBLE = 1e-14
_FIRST = 48
_GROWTH = 1.5
_KEPT = 0.8
"""Part of the nodes after which φ has to be negligible for it to have ended."""

_CHEAP, _BUDGET = 1e8, 2e9
"""Multiplications that are always spent on one law, and at most: 0.1 and 3 seconds or so."""

_FALL = 2.0
"""By how much errors fall at best with each block of nodes: this to the number of cells."""

_ENOUGH = 4e-9
"""Absolute error at which no more nodes are added once they are no longer cheap."""

_USELESS = 1e-8
"""Absolute error beyond which it does not matter what returns of φ contribute."""

_FADES = (1.0, 0.85, 0.7)
"""Ends of the fades, in terms of that of the nodes; two of them may agree by accident."""

_BASE_ERROR = 5e-13
_SLICE = 1 << 20


class Inversion:
    """P(Q >= q) by the trapezoidal rule for the integral of Gil-Pelaez.

    P(Q >= q) = 1/2 + (1/π) ∫_0^∞ Im[exp(-iqt) φ(t)] dt/t; with nodes at (j + 1/2)h it errs by the
    probability that abs(Q - q) exceeds 2π/h. For Q on a lattice of spacing δ, 1/t becomes
    (δ/2)/sin(δt/2), q the middle between two points of the lattice, and the integral ends at π/δ.

    Nodes are added until φ is negligible. Where it decays slowly, which is so for few cells, the
    integrand is faded out smoothly instead: that amounts to smoothing the law by a kernel all of
    whose moments vanish, and the difference between two fades tells the error.

    References
    ----------
    Gil-Pelaez, J. (1951). Note on the inversion theorem. Biometrika 38:481-482,
    doi:10.1093/biomet/38.3-4.481.
    Davies, R. B. (1973). Numerical inversion of a characteristic function. Biometrika 60:415-417,
    doi:10.1093/biomet/60.2.415.
    """

    def __init__(self, transform: Transform, lattice: Lattice | None) -> None:
        self._transform = transform
        self.low, self.high = support(transform)
        self._lattice, self._spacing = lattice, lattice.spacing if lattice is not None else 0.0
        span = 1.1 * (self.high - self.low)
        if lattice is None:
            self._step, self._most = 2.0 * np.pi / span, np.inf
        else:
            half = np.ceil(0.5 * span / self._spacing) + 1.0
            self._step, self._most = np.pi / (self._spacing * half), half
        self._t, self._phi = np.zeros(0), np.zeros(0, dtype=np.complex128)
        self._cost = 0.0
        self._missed: float | None = None
        self.usable = self._extend()

    def upper(self, q: FloatArray) -> FloatArray:
        """P(Q >= q)."""
        return self._tails(q)[0]

    def lower(self, q: FloatArray) -> FloatArray:
        """P(Q <= q)."""
        if self._lattice is None:
            return 1.0 - self._tails(q)[0]
        beyond = self._lattice.origin + self._spacing * (self._lattice.last(q) + 1.0)
        return 1.0 - self._tails(beyond)[0]

    def error(self, q: FloatArray) -> FloatArray:
        """Estimate of the absolute error at q."""
        return self._tails(q)[1]

    def _tails(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper tails with their errors, adding nodes while that helps and is affordable."""
        points = np.ravel(q)
        inside = np.clip(points, self.low, self.high)
        while self.usable:
            value, error = self._evaluate(inside)
            error = np.where(points <= self.low, 0.0, error)
            aim = TARGET if self._cost <= _CHEAP else _ENOUGH
            # a law on a lattice can be followed through all returns, to the end of the period
            if np.all(error <= aim) and (not self._spacing or self._is_complete()):
                break
            unsettled = error[error > aim]
            least = float(unsettled.min()) if unsettled.size else aim
            if not self._is_promising(least) or not self._extend():
                break
        if not self.usable:
            return np.full(np.shape(q), np.nan), np.full(np.shape(q), np.inf)
        # the tails beyond the range are of no account
        value = np.where(points <= self.low, 1.0, np.clip(value, 0.0, 1.0))
        value = np.where(points > self.high, 0.0, value)
        missed = self._returns() if np.any(error <= _USELESS) else self._largest_return()
        error = np.where(points <= self.low, _BASE_ERROR, np.minimum(error + missed, 1.0))
        return value.reshape(np.shape(q)), error.reshape(np.shape(q))

    def _is_promising(self, error: float) -> bool:
        """Whether the nodes that are affordable might be enough."""
        size, cost, blocks = self._t.size, self._cost, 0
        least = np.log(error / _ENOUGH) / np.log(_FALL) / self._transform.cells.count.sum()
        while (block := self._block(size)).size:
            cost += self._transform.cost(block)
            if cost > _BUDGET:
                return False
            size, blocks = size + block.size, blocks + 1
            if cost <= _CHEAP or blocks >= least:
                return True
        # the end of the period of a lattice
        return True

    def _evaluate(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        t, point, kernel = self._t, q, 1.0 / self._t
        if self._lattice is not None:
            point = self._lattice.origin + self._spacing * (self._lattice.first(q) - 0.5)
            kernel = 0.5 * self._spacing / np.sin(0.5 * self._spacing * t)
        terms = self._phi * kernel * (self._step / np.pi)
        whole = self._has_ended()
        fades = [np.ones(t.size)] if whole else [_fade(t / (part * t[-1])) for part in _FADES]
        weighted = np.stack([terms * fade for fade in fades], axis=1)
        out = np.empty((q.size, len(fades)))
        rows = max(1, _SLICE // t.size)
        for start in range(0, q.size, rows):
            part = slice(start, start + rows)
            wave = np.exp(-1j * np.multiply.outer(point[part], t))
            out[part] = 0.5 + (wave @ weighted).imag
        return out[:, 0], _BASE_ERROR + 2.0 * np.abs(out[:, :1] - out).max(axis=1)

    def _has_ended(self) -> bool:
        """Whether φ has become negligible, or the nodes have come to the end of the period."""
        tail = np.abs(self._phi[int(_KEPT * self._t.size) :])
        return self._t.size == self._most or bool(np.all(tail <= _NEGLIGIBLE))

    def _is_complete(self) -> bool:
        """Whether φ is negligible up to the end of the period."""
        return self._has_ended() and self._returns() <= TARGET

    def _returns(self) -> float:
        """Estimate what returns of φ beyond the nodes contribute."""
        if self._t.size == self._most:
            return 0.0
        if self._missed is None:
            reach = np.pi / self._spacing if self._spacing else np.inf
            self._missed = recurrence(self._transform, self._width, float(self._t[-1]), reach)
        return self._missed

    def _largest_return(self) -> float:
        """Return what φ would contribute if it were 1 again just beyond the nodes."""
        return 2.0 * self._width / (np.pi * float(self._t[-1]))

    @property
    def _width(self) -> float:
        """Width of the peak at 0."""
        return self._step * float(np.abs(self._phi).sum())

    def _block(self, first: int) -> FloatArray:
        """Return the nodes that come after so many."""
        last = int(min(max(_FIRST, np.ceil(_GROWTH * first)), self._most))
        return np.asarray(self._step * (np.arange(float(first), last) + 0.5))

    def _extend(self) -> bool:
        """Add nodes, and tell whether that was possible."""
        t = self._block(self._t.size)
        cost = self._transform.cost(t)
        if self._cost + cost > _BUDGET:
            return False
        self._cost += cost
        self._t = np.append(self._t, t)
        self._phi = np.append(self._phi, self._transform(t))
        self._missed = None
        # a characteristic function cannot be larger than 1
        self.usable = bool(np.abs(self._phi).max() <= 1.0 + 1e-9)
        return self.usable


def _fade(u: FloatArray) -> FloatArray:
    """1 up to u = 1/2, 0 from u = 1 on, infinitely smooth between."""
    v = np.clip(2.0 * u - 1.0, 1e-9, 1.0 - 1e-9)
    with np.errstate(under="ignore"):
        return np.asarray(0.5 * special.erfc((2.0 * v - 1.0) / np.sqrt(v * (1.0 - v))))


# Which ways there are to the tails of the statistic of given cells.


_FEW = 12
"""Up to so many cells φ decays so slowly that other routes are better, where there are any."""

_TOO_FEW = 3
"""Up to so many cells with whole-numbered noise, and no lattice, φ shows single atoms too large."""

_ROUTES_CHEAP, _ROUTES_LARGEST = 1e8, 2e9
"""Cost of a table that is always made, and that is made where nothing else will do."""

_LONGEST = 1e6
"""Counts of two cells that are added up at most."""


def routes(
    nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
) -> list[Maker]:
    """Return the ways in the order in which to try them, none where a noise is not supported."""
    cells = Cells.collect(nobs, value, centre, weight, noise)
    if cells is None:
        return []
    two = partial(_two_cells, nobs, value, centre, weight, noise)
    return [*([two] if value.size == 2 else []), *_general(cells)]


def _general(cells: Cells) -> Iterator[Maker]:
    """Yield the ways for any number of cells."""
    transform = Transform(cells)
    lattice = Lattice.of(cells)
    if cells.count.sum() <= _FEW:
        table = None if lattice is None else partial(LatticeTable, transform, lattice)
        cost = np.inf if lattice is None else table_cost(transform, lattice)
        if table is not None and cost <= _ROUTES_CHEAP:
            yield table
        if feasible(cells, transform.circle):
            yield partial(Enumeration, cells, transform.circle)
        if table is not None and _ROUTES_CHEAP < cost <= _ROUTES_LARGEST:
            yield table
    if lattice is not None or not cells.is_integer or cells.count.sum() > _TOO_FEW:
        yield partial(_inverted, transform, lattice)


def _inverted(transform: Transform, lattice: Lattice | None) -> Inversion | None:
    """Return the inversion, unless even the first nodes take too much time or memory."""
    inversion = Inversion(transform, lattice)
    return inversion if inversion.usable else None


def _two_cells(
    nobs: int, value: FloatArray, centre: FloatArray, weight: FloatArray, noise: NoiseLaw
) -> Tails | None:
    """Return the direct sum or quadrature for two cells with noises of the same sort."""
    share = value / value.sum()
    first, last = BinomialCount(nobs, float(share[0])).ends
    if last - first > _LONGEST:
        return None
    laws = [noise.take(i) if noise.shape else noise for i in range(2)]
    smooth = [law for law in laws if isinstance(law, (Laplace, Gaussian))]
    if len(smooth) == 2:
        return TwoSmoothCells(nobs, share, centre, weight, smooth)
    whole = [part for law in laws if (part := noise_parts(law)) is not None and part.is_integer]
    return TwoWholeCells(nobs, share, centre, weight, laws, whole) if len(whole) == 2 else None


# The exact law of a quadratic statistic of noisy multinomial counts.


ACCEPTED_ERROR = 1e-8
"""Absolute error up to which a probability is given out as exact."""


@final
@dataclass(frozen=True, eq=False)
class QuadraticLaw:
    """Exact law of Q = Σ aᵢ(Xᵢ + eᵢ - cᵢ)² for multinomial X and independent noise e.

    There are these routes: for two cells a direct sum or quadrature; for few cells with
    whole-numbered noise, a table of all values where they have a common spacing, or lists of the
    values of two halves; else the characteristic function is inverted. The first that is accurate
    and quick at a point is taken there. :meth:`error` tells the absolute error that is to be
    expected of a tail. Where it exceeds 1e-8, tails are given with that error added: p-values are
    then too large rather than too small.
    """

    nobs: int  # number of observations n >= 1
    value: FloatArray  # probabilities of the cells, in units of their sum; 0 is allowed, shape (k,)
    # c, and a > 0. For Pearson's statistic of the null hypothesis p they are n·p and 1/(n·p),
    # whatever ``value`` is: at another ``value`` the law gives the power of the test, shape (k,)
    centre: FloatArray
    weight: FloatArray
    noise: NoiseLaw  # law of the noise, of shape () or (k,)

    @property
    def is_available(self) -> bool:
        """Whether there is a route for this kind of noise; it may still prove too inaccurate."""
        return self._tails.exists

    @property
    def is_listed(self) -> bool:
        """Whether values were listed for the tails asked for so far, which may take a second."""
        return any(isinstance(way, Enumeration) for way in self._tails.made)

    def upper(self, q: ArrayLike) -> Any:
        """P(Q >= q), atoms within rounding errors of q included."""
        tails, points = self._ways(), np.asarray(q, dtype=np.float64)
        return _on_the_safe_side(tails.upper(points), tails.error(points))[()]

    def lower(self, q: ArrayLike) -> Any:
        """P(Q <= q), atoms within rounding errors of q included."""
        tails, points = self._ways(), np.asarray(q, dtype=np.float64)
        return _on_the_safe_side(tails.lower(points), tails.error(points))[()]

    def error(self, q: ArrayLike) -> Any:
        """Absolute error to be expected of the tails at q; inf where there is no route."""
        return self._tails.error(np.asarray(q, dtype=np.float64))[()]

    def _ways(self) -> FirstAccurate:
        if not self._tails.exists:
            raise InvalidParameterError(
                f"noise must be of a kind and size whose exact law is available, got "
                f"{show(self.noise)}: use method='monte-carlo'"
            )
        return self._tails

    @cached_property
    def _tails(self) -> FirstAccurate:
        makers = routes(self.nobs, self.value, self.centre, self.weight, self.noise)
        return FirstAccurate(makers, ACCEPTED_ERROR)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _on_the_safe_side(tail: FloatArray, error: FloatArray) -> FloatArray:
    """Add errors that are not negligible; a tail of which nothing is known may be 1."""
    known = np.where(np.isfinite(error), tail, 1.0)
    return np.minimum(np.where(error > ACCEPTED_ERROR, known + error, known), 1.0)
