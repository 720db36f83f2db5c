"""Ends of intervals from a noisy count: where a tail has a given probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.lattice import alike
from dpinfer.errors import ConvergenceError
from dpinfer.intervals._count_tails import (
    BinomialCounts,
    CountFamily,
    Kernel,
    NoisyTails,
    PoissonCounts,
)
from dpinfer.intervals._tilted import tilted_roots
from dpinfer.mechanisms._row_tails import Edge, Rows, has_edge
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian

# Ends of very many intervals of one setting, interpolated between whole numbers.


WORTH = 40
"""So many points in a piece are worth a polynomial."""

_NODES = 14

_PARTS = 4
"""Into so many parts a piece is cut where its polynomial is not accurate."""

_BLOCK = 1 << 14
"""Points evaluated at a time, so that their coefficients stay in the cache."""

Ends = Callable[[FloatArray], FloatArray]
Pieces = NDArray[np.intp]


def interpolated(ends: Ends, tolerance: Ends, x: FloatArray, low: float, high: float) -> FloatArray:
    """Values of a function at many points between ``low`` and ``high``.

    Where polynomials between whole numbers are not accurate enough, they are cut
    in parts; where there are too few points for that, the function is evaluated at each.
    """
    left, piece = np.unique(np.maximum(np.floor(x), low), return_inverse=True)
    right = np.minimum(np.floor(left) + 1.0, high)
    out = np.empty(x.size)
    rows = np.arange(x.size)
    while rows.size > WORTH * left.size:
        values, good = _polynomials(ends, tolerance, left, right, piece, x[rows])
        accurate = good[piece]
        out[rows[accurate]] = values[accurate]
        rows, piece = rows[~accurate], piece[~accurate]
        left, right, piece = _cut(left, right, piece, x[rows])
    if rows.size:
        out[rows] = ends(x[rows])
    return out


def _polynomials(
    ends: Ends,
    tolerance: Ends,
    left: FloatArray,
    right: FloatArray,
    piece: Pieces,
    x: FloatArray,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Values at points of known pieces, and which of the pieces are accurate."""
    nodes, checks = _chebyshev(_NODES), _between(_NODES)
    to_coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, _NODES - 1))
    coefficients = _at(ends, left, right, nodes) @ to_coefficients.T
    truth = _at(ends, left, right, checks)
    guess = np.stack([np.polynomial.chebyshev.chebval(y, coefficients.T) for y in checks], axis=1)
    y = np.clip((2.0 * x - (left + right)[piece]) / (right - left)[piece], -1.0, 1.0)
    wrong = np.abs(guess - truth) - tolerance(truth)
    return _clenshaw(coefficients, piece, y), np.asarray(np.max(wrong, axis=1) <= 0.0)


def _cut(
    left: FloatArray, right: FloatArray, piece: Pieces, x: FloatArray
) -> tuple[FloatArray, FloatArray, Pieces]:
    """Parts of the pieces that still have points, and the part of each point."""
    width = (right - left) / _PARTS
    part = np.clip(np.floor((x - left[piece]) / width[piece]), 0.0, _PARTS - 1.0).astype(np.intp)
    found, number = np.unique(piece * _PARTS + part, return_inverse=True)
    parent, place = np.divmod(found, _PARTS)
    start = left[parent] + place * width[parent]
    return start, start + width[parent], number


def _at(ends: Ends, left: FloatArray, right: FloatArray, nodes: FloatArray) -> FloatArray:
    """Values at points of each piece that are given on [-1, 1], one row a piece."""
    half = 0.5 * (right - left)[:, np.newaxis]
    x = left[:, np.newaxis] + half * (1.0 + nodes)
    return ends(x.ravel()).reshape(x.shape)


def _clenshaw(coefficients: FloatArray, piece: Pieces, y: FloatArray) -> FloatArray:
    """Evaluate at each point the polynomial of its piece."""
    out = np.empty(y.size)
    for start in range(0, y.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        own = coefficients.T[:, piece[part]]
        out[part] = np.polynomial.chebyshev.chebval(y[part], own, tensor=False)
    return out


# Ends of very many intervals with Gaussian noise, interpolated between numbers of trials and σ too.


_SMOOTH = 1.4
"""From this σ on Gaussian noise leaves no trace of the whole numbers: exp(-2π²σ²) is 2e-17."""

_TRIALS, _SIGMAS = 10, 12
"""Nodes of a patch in the directions of n and σ, which are for factors of two."""

_ANGLES, _WIDTH = (20, 16), (2.0, 6.0)
"""Nodes of a patch in the third, and its width in √n·angle, or √t, in which counts have the
standard deviation 1/2: for one σ, and for several, of which wider patches are worth it."""

_ROWS = 1 << 11
"""Points evaluated at a time, so that their polynomials stay in the cache."""

_EACH = 32
"""Fewer trials have patches of their own; those of an octave share theirs."""

EndsOf = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""A function of points, of numbers of trials, which are infinite for Poisson counts, and of σ."""


def over_trials(
    ends: EndsOf, tolerance: EndsOf, t: FloatArray, nobs: FloatArray, sigma: FloatArray
) -> FloatArray:
    """Return ends at points with 0 < t < nobs, NaN where no polynomial is worth it or accurate.

    They are functions of log n, of log σ, and of the angle arcsin √(t/n), in which counts of all
    shares vary alike, and of √t for Poisson counts: polynomials on patches, checked between the
    nodes. ``tolerance`` takes ends.
    """
    poisson = not np.isfinite(nobs).all()
    angle = np.sqrt(t) if poisson else np.arcsin(np.sqrt(t / nobs))
    octave = np.floor(np.log2(sigma)) if sigma.max(initial=0.0) > 2.0 * sigma.min() else 0.0 * sigma
    if not poisson:
        log = _EACH + np.floor(np.log2(nobs))
        octave += np.where(nobs < _EACH, nobs, log) * 4096.0
    out = np.full(t.size, np.nan)
    _, cell, size = np.unique(octave, return_inverse=True, return_counts=True)
    for rows in np.split(np.argsort(cell, kind="stable"), np.cumsum(size)[:-1]):
        out[rows] = _in_octave(ends, tolerance, angle[rows], nobs[rows], sigma[rows])
    return out


@dataclass(frozen=True)
class _Octave:
    """Polynomials in the logarithm of numbers between two, of which one is at most twice one."""

    first: float
    last: float
    size: int  # the most nodes there are
    whole: bool  # whether the nodes are whole numbers

    @classmethod
    def of(cls, numbers: FloatArray, size: int, *, whole: bool) -> _Octave:
        first, last = float(numbers.min()), float(numbers.max())
        return cls(first, last, 1 if first == last else size, whole)

    def at(self, y: FloatArray) -> FloatArray:
        """Return the numbers at points of [-1, 1], each once."""
        if self.size == 1:
            return np.array([self.first])
        found = self.first * (self.last / self.first) ** (0.5 * (1.0 + y))
        return np.unique(np.rint(found)) if self.whole else found

    @cached_property
    def nodes(self) -> FloatArray:
        return self.at(_chebyshev(self.size))

    def basis(self, numbers: FloatArray) -> FloatArray:
        if self.size == 1:
            return np.ones((numbers.size, 1))
        y = 2.0 * np.log(numbers / self.first) / np.log(self.last / self.first) - 1.0
        return np.polynomial.chebyshev.chebvander(y, self.nodes.size - 1)


def _in_octave(
    ends: EndsOf, tolerance: EndsOf, angle: FloatArray, nobs: FloatArray, sigma: FloatArray
) -> FloatArray:
    """Return ends for numbers of trials, and σ, within a factor of two; or infinitely many trials.

    The settings of a patch are all pairs of both.
    """
    trials, sigmas = (
        _Octave.of(nobs, _TRIALS, whole=True),
        _Octave.of(sigma, _SIGMAS, whole=False),
    )

    def pairs(n: FloatArray, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.repeat(n, s.size), np.tile(s, n.size)

    def basis(n: FloatArray, s: FloatArray) -> FloatArray:
        both = trials.basis(n)[:, :, np.newaxis] * sigmas.basis(s)[:, np.newaxis]
        return both.reshape((n.size, -1))

    def grid(function: EndsOf, y: FloatArray, n: FloatArray, s: FloatArray) -> FloatArray:
        at = (left[:, np.newaxis] + 0.5 * width * (1.0 + y))[:, np.newaxis]
        points = np.square(at) if poisson else n[:, np.newaxis] * np.square(np.sin(at))
        full = np.broadcast_arrays(points, n[:, np.newaxis], s[:, np.newaxis])
        return function(*(one.ravel() for one in full)).reshape(full[0].shape)

    poisson, most = np.isinf(trials.last), trials.last**0.5
    nodes = pairs(trials.nodes, sigmas.nodes)
    angles, wide = _ANGLES[sigmas.size > 1], _WIDTH[sigmas.size > 1]
    width = wide if poisson else 0.5 * np.pi / np.ceil(0.5 * np.pi * most / wide)
    place = np.floor(angle / width)
    order = np.argsort(place, kind="stable")
    found, start, size = np.unique(place[order], return_index=True, return_counts=True)
    worth = size > 2 * nodes[0].size * angles
    left, start, size = found[worth] * width, start[worth], size[worth]
    out = np.full(nobs.size, np.nan)
    if not left.size:
        return out
    y = _chebyshev(angles)
    to_coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(y, angles - 1))
    with np.errstate(invalid="ignore"):  # an end may be infinite: then nothing is accurate
        coefficients = np.linalg.solve(basis(*nodes), grid(ends, y, *nodes)) @ to_coefficients.T
    y = _between(angles)
    between = pairs(trials.at(_between(_TRIALS)), sigmas.at(_between(_SIGMAS)))
    truth = grid(ends, y, *between)
    at_y = np.polynomial.chebyshev.chebvander(y, angles - 1)
    with np.errstate(invalid="ignore"):
        wrong = np.abs(basis(*between) @ coefficients @ at_y.T - truth)
        wrong -= grid(lambda _, n, s: tolerance(truth.ravel(), n, s), y, *between)
    for patch in np.flatnonzero((wrong <= 0.0).all(axis=(1, 2))):
        stop = start[patch] + size[patch]
        for begin in range(start[patch], stop, _ROWS):
            rows = order[begin : min(begin + _ROWS, stop)]
            y = np.clip(2.0 * (angle[rows] - left[patch]) / width - 1.0, -1.0, 1.0)
            own = (basis(nobs[rows], sigma[rows]) @ coefficients[patch]).T
            out[rows] = np.polynomial.chebyshev.chebval(y, own, tensor=False)
    return out


def _chebyshev(size: int) -> FloatArray:
    return np.asarray(np.cos(np.pi * (np.arange(size) + 0.5) / size))


def _between(size: int) -> FloatArray:
    """Points between Chebyshev nodes, where the error of an interpolation is near its largest."""
    return np.asarray(np.cos(np.pi * np.array([1.0, size // 2, size - 1.0]) / size))


MAX_STEPS = 200

_QUADRATIC = 1e-7
"""Newton's method: from this distance in the probit of the tail, one step reaches the root."""

_LONGEST_STEP = 4.0
"""Largest step, in standard deviations of the noisy count."""

_PLAIN_STEPS = 40
"""Number of steps after which the bracket is halved instead."""

_CLOSED_FROM = 1e-290
"""Smaller probabilities are not precise enough as floats for closed forms."""

_UNBOUNDED = 1e300
"""Stands for infinity in brackets that are still open."""

_INTERPOLATED_FROM = 1 << 10
"""From so many rows on, an interpolation is tried."""

_TOLERANCE = 1e-12
"""Error of an interpolated end, in standard deviations of the noisy count."""

_TOGETHER = 1 << 17
"""Rows of one noise that are solved at a time."""


def tail_roots(
    family: CountFamily, kernel: Kernel, t: FloatArray, side: int, probability: float
) -> FloatArray:
    """Parameter at which P(T >= t) (side 1) or P(T <= t) (side -1) has a given value.

    The end of the range where the tail is larger than ``probability`` all over it, and, where it is
    smaller all over it, a number beyond the other end: inf for side 1 and -inf for side -1.
    """
    noise = kernel.noise
    one_law = noise.shape == () and all((x == x[0]).all() for x in family.columns)
    smooth = isinstance(noise, Gaussian)
    if noise.is_integer or not (one_law or smooth) or t.size < _INTERPOLATED_FROM:
        return _solved(family, kernel, t, side, probability)
    sigma = np.broadcast_to(noise.std, t.shape)
    low = side * np.broadcast_to(noise._isf(np.asarray(probability)), t.shape)
    inside = np.flatnonzero((t > low) & (t < low + family.last))

    def law(n: FloatArray) -> CountFamily:
        return BinomialCounts(n) if np.isfinite(n).all() else PoissonCounts(n.size)

    def ends(t: FloatArray, n: FloatArray, s: FloatArray) -> FloatArray:
        own = Kernel(Gaussian(sigma=s), probability, mid=kernel.mid) if noise.shape else kernel
        below = side * own.noise._isf(np.asarray(probability))
        return _solved(law(n), own, below + t, side, probability)

    def tolerance(root: FloatArray, n: FloatArray, s: FloatArray) -> FloatArray:
        spread = np.sqrt(law(n).law(root).variance + np.square(s)) / law(n).scale
        return np.asarray(_TOLERANCE * spread)

    root = np.full(t.size, np.nan)
    if smooth:
        inside = inside[sigma[inside] >= _SMOOTH]
        if inside.size:
            x, n = t[inside] - low[inside], family.last[inside]
            root[inside] = over_trials(ends, tolerance, x, n, sigma[inside])
    else:
        n, s = family.last[0], sigma[:1]
        root[inside] = interpolated(
            lambda x: _solved(law(np.full(x.shape, n)), kernel, x, side, probability),
            lambda root: tolerance(root.ravel(), np.full(root.size, n), s).reshape(root.shape),
            t[inside],
            float(low[0]),
            float(low[0] + n),
        )
    left = np.flatnonzero(np.isnan(root))
    if noise.shape and left.size:
        kernel = Kernel(noise.take(left), probability, mid=kernel.mid)
    root[left] = _solved(family.take(left), kernel, t[left], side, probability)
    return root


def _solved(
    family: CountFamily, kernel: Kernel, t: FloatArray, side: int, probability: float
) -> FloatArray:
    """Roots found row by row, so many at a time that they stay in the cache."""
    if t.size > _TOGETHER and kernel.noise.shape == ():
        parts = np.split(np.arange(t.size), range(_TOGETHER, t.size, _TOGETHER))
        return np.concatenate(
            [_solved(family.take(i), kernel, t[i], side, probability) for i in parts]
        )
    tails = NoisyTails(family=family, kernel=kernel, t=t, side=side, probability=probability)
    beyond = tails.lifted(0.5 + 0.5 * side)
    limits = [tails.without_spread(np.zeros(t.shape)), np.full(t.shape, beyond)]
    if np.isfinite(family.last).all():
        limits[1] = tails.without_spread(family.last)
    least, most = limits[::side]
    first, last = (np.zeros(t.shape), family.largest)[::side]
    wanted = tails.lifted(probability)
    root = np.where(least >= wanted, first, np.where(most == wanted, last, side * np.inf))
    rows = np.flatnonzero((least < wanted) & (most > wanted))
    if rows.size:
        root[rows] = _found(tails, rows, _start(tails, rows))
    return root


def _found(tails: NoisyTails, rows: Rows, start: FloatArray) -> FloatArray:
    """Roots that exist: from closed forms where there are such, and safe steps elsewhere."""
    root = np.full(rows.size, np.nan)
    noise = tails.kernel.noise
    shallow = tails.probability > _CLOSED_FROM
    if shallow and isinstance(tails.family, BinomialCounts) and has_edge(noise):
        t, nobs = tails.t[rows], tails.family.nobs[rows]
        # a lower tail is what is left of the upper one from the next value on
        if tails.side < 0 and noise.is_integer and not tails.kernel.mid:
            t = t + 1.0
        edge = Edge.of(noise.take(rows) if noise.shape else noise, t, mid=tails.kernel.mid)
        root = _by_tilting(tails, nobs, edge, start)
    left = np.flatnonzero(np.isnan(root))
    if left.size:
        root[left] = _newton(tails.smaller, rows[left], start[left])
    return root


def _by_tilting(tails: NoisyTails, nobs: FloatArray, edge: Edge, start: FloatArray) -> FloatArray:
    """Roots from closed forms, NaN where they fail; of the two tails the smaller one is solved."""
    less = min(tails.probability, 1.0 - tails.probability)
    if (tails.side > 0) == (tails.probability <= 0.5):
        return np.asarray(special.expit(tilted_roots(nobs, edge, less, special.logit(start))))
    mirrored = tilted_roots(nobs, edge.mirrored(nobs), less, -special.logit(start))
    return np.asarray(special.expit(-mirrored))


def _start(tails: NoisyTails, rows: Rows) -> FloatArray:
    """Approximate the count by a normal law, with the quantile of the noise beside it."""
    family, t, side = tails.family.take(rows), tails.t[rows], tails.side
    probability = np.asarray(min(tails.probability, 1.0 - tails.probability))
    z = -special.ndtri(probability)
    quantile = tails.kernel.noise._isf(probability)
    quantile = quantile[rows] if quantile.ndim else quantile
    towards = -side if tails.probability < 0.5 else side
    start = family.score_root(t - 0.5 * side * tails.kernel.noise.is_integer, z, quantile, towards)
    smallest = np.minimum(0.01 / family.scale, 0.5 * family.largest)
    return np.clip(start, smallest, family.largest - smallest)


def _newton(tails: NoisyTails, rows: Rows, theta: FloatArray) -> FloatArray:
    """Newton's method on the probit of the tails, within brackets that only shrink."""
    theta = theta.copy()
    low, high = np.zeros(rows.size), tails.family.largest[rows]
    goal, wanted = float(special.ndtri(tails.probability)), tails.lifted(tails.probability)
    open_ = np.arange(rows.size)
    for count in range(MAX_STEPS):
        now = theta[open_]
        tail, slope = tails.at(now, rows[open_])
        above = tails.side * (tail - wanted) > 0.0
        high[open_] = np.where(above, now, high[open_])
        low[open_] = np.where(above, low[open_], now)
        new, distance = _next(tails, rows[open_], now, tail, slope, goal)
        a, b = low[open_], np.minimum(high[open_], _UNBOUNDED)
        new = np.where(new > a, new, a + 0.1 * (now - a))
        new = np.where(new < b, new, b - 0.1 * (b - now))
        closed = (b - a <= 4e-16 * np.abs(now)) | (tail == wanted)
        # between the limits of the parameter and the next floats there is nothing to look for
        closed |= (new <= a) | (new >= b)
        if count >= _PLAIN_STEPS:
            inside = np.where(a > 0.0, 0.5 * (a + b), 0.01 * b)
            new = np.where((b < _UNBOUNDED) & (distance >= _QUADRATIC), inside, new)
        theta[open_] = np.where(closed, now, new)
        open_ = open_[~(closed | (distance < _QUADRATIC))]
        if not open_.size:
            return theta
    raise ConvergenceError(
        f"an end of an interval is still open after {MAX_STEPS} steps: if alpha is very close to 0 "
        f"or 1, move it away, else use method={tails.family.approximate!r} or 'asymptotic'"
    )


def _next(
    tails: NoisyTails,
    rows: Rows,
    theta: FloatArray,
    tail: FloatArray,
    slope: FloatArray,
    goal: float,
) -> tuple[FloatArray, FloatArray]:
    """Where Newton's method goes from θ, and how far the probit of the tail is from its goal."""
    family = tails.family.take(rows)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_tail = np.minimum(np.log(tail) - 2.0 * tails.kernel.log_lift, -1e-16)
        probit = special.ndtri_exp(log_tail)
        hazard = np.exp(-0.5 * np.square(probit) - log_tail) / np.sqrt(2.0 * np.pi)
        distance = probit - goal
        step = -distance * hazard * (tail / slope)
        # near 0 tails are like powers of θ
        factor = np.exp((np.log(tails.probability) - log_tail) * (tail / slope) / theta)
    noise = np.asarray(tails.kernel.noise.variance)
    noise = noise[rows] if noise.ndim else noise
    longest = _LONGEST_STEP * np.sqrt(family.law(theta).variance + noise + 1.0) / family.scale
    # where the slope has vanished, or is rounding, only its direction is known
    flat = ~np.isfinite(step) | (tails.side * slope <= 0.0)
    step = np.where(flat, np.copysign(np.inf, -tails.side * distance), step)
    new = theta + np.clip(step, -longest, longest)
    new = np.where((new <= 0.0) & (factor < 1.0) & ~flat, theta * factor, new)
    return new, np.where(flat, np.inf, np.abs(distance))


# Rows of counts published with noise, and the ends of their intervals.


End = Callable[["NoisyRows", float, int], FloatArray]
"""``end(rows, probability, side)``: lower (side 1) or upper (side -1) ends, not yet restricted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyRows:
    """Counts published with noise, in m rows."""

    count: FloatArray
    family: CountFamily
    noise: NoiseLaw

    @cached_property
    def kinds(self) -> list[tuple[NoiseLaw, Rows, Rows, Rows]]:
        """By kind of noise: its law, rows that stand for all, the rows it has, and theirs."""
        found = []
        for law, cells in _by_sigma(self.noise, self.count.size):
            columns = [self.count[cells], *(column[cells] for column in self.family.columns)]
            columns += _parameters(law)
            first, kind = alike(columns)
            found.append((_taken(law, first), cells[first], cells, kind))
        return found


def _by_sigma(noise: NoiseLaw, size: int) -> Iterator[tuple[NoiseLaw, Rows]]:
    """Yield kinds of noise, Gaussian noise of few σ one by one.

    Ends may then be interpolated, or under discrete noise tails be looked up.
    """
    for law, cells in groups(noise, size):
        if isinstance(law, Gaussian | DiscreteGaussian) and law.shape:
            found, code = np.unique(law.sigma, return_inverse=True)
            if found.size * _INTERPOLATED_FROM <= cells.size:
                for number, sigma in enumerate(found):
                    yield type(law)(sigma=float(sigma)), cells[code == number]
                continue
        yield law, cells


def _parameters(law: NoiseLaw) -> list[FloatArray]:
    """Return what tells the laws of rows apart."""
    if law.shape == ():
        return []
    assert isinstance(law, ParametricLaw)  # laws of one kind differ by their parameters
    return [np.broadcast_to(value, law.shape) for value in law._parameters().values()]


def _taken(law: NoiseLaw, rows: Rows) -> NoiseLaw:
    """Law of some rows, one for all of them where they have the same."""
    chosen = law.take(rows)
    if chosen.shape == () or any((x != x[0]).any() for x in _parameters(chosen)):
        return chosen
    return chosen.take(0)


def _by_inversion(rows: NoisyRows, probability: float, side: int, *, mid: bool) -> FloatArray:
    """Parameter at which the tail beyond the published count has the probability."""
    end = np.empty(rows.count.size)
    for law, examples, cells, kind in rows.kinds:
        family, t = rows.family.take(examples), rows.count[examples]
        kernel = Kernel(law, probability, mid=mid)
        end[cells] = tail_roots(family, kernel, t, side, probability)[kind]
    return end


def _by_score(rows: NoisyRows, probability: float, side: int) -> FloatArray:
    """Parameter from which the count is a normal quantile of its standard deviations away."""
    z = np.asarray(-special.ndtri(probability))
    sign = -side if probability < 0.5 else side
    return rows.family.score_root(rows.count, z, z * np.asarray(rows.noise.std), sign)


def _by_normal(rows: NoisyRows, probability: float, side: int) -> FloatArray:
    """Return the estimate and a normal quantile of its estimated deviation."""
    family = rows.family
    estimate = rows.count / family.scale
    variance = family.law(np.clip(estimate, 0.0, family.largest)).variance + rows.noise.variance
    half = special.ndtri(probability) * np.sqrt(variance) / family.scale
    return np.asarray(estimate + side * half)


EXACT: End = partial(_by_inversion, mid=False)
MID_P: End = partial(_by_inversion, mid=True)
SCORE: End = _by_score
WALD: End = _by_normal


def ends(
    end: Callable[[float, int], FloatArray],
    largest: FloatArray,
    alpha: float,
    alternative: Alternative,
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends, within 0, …, ``largest``; inf and -inf where nothing is left.

    ``end(probability, side)`` gives lower (side 1) or upper (side -1) ends that miss so often.
    """
    probability = 0.5 * alpha if alternative == "two-sided" else alpha
    lower = np.zeros(largest.shape) if alternative == "smaller" else end(probability, 1)
    upper = largest if alternative == "larger" else end(probability, -1)
    empty = (lower > largest) | (upper < 0.0) | np.isposinf(lower)
    lower, upper = np.maximum(lower, 0.0), np.minimum(upper, largest)
    # rounding may exchange ends that coincide, as they do where alpha is almost 1
    low, high = np.minimum(lower, upper), np.maximum(lower, upper)
    return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
