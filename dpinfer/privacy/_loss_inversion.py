"""Tails of a sum of privacy losses, each kind by the way that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.counts import binom_pmf, binom_radius
from dpinfer._numerics.lattice import common_spacing
from dpinfer.privacy._loss_laws import ComplexArray, GaussianLoss, LaplaceLoss, LossLaw, slope
from dpinfer.privacy.guarantees import GDP

# A sum of independent privacy losses, and the tilt at which its tail is best looked at.


Parts = tuple[tuple[LossLaw, int], ...]

TOTAL_NEGLIGIBLE = 40.0
"""e^-40 = 4e-18 of the leading term is below rounding."""

FLAT = 60.0


class Total:
    """The sum of ``count`` losses of each law."""

    def __init__(self, parts: Iterable[tuple[LossLaw, int]]) -> None:
        self.parts: Parts = tuple(parts)
        self.mean = float(sum(count * law.mean for law, count in self.parts))
        self.variance = float(sum(count * law.variance for law, count in self.parts))
        self.largest = float(sum(count * law.largest for law, count in self.parts))

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Return ln E[e^(zL)]."""
        total = np.zeros(z.shape, dtype=np.complex128)
        for law, count in self.parts:
            # part by part, as inf times a complex number is not a number
            part = law.cgf(z)
            total.real += count * part.real
            total.imag += count * part.imag
        return total

    def real_cgf(self, theta: float) -> float:
        """Return ln E[e^(θL)] at one real θ."""
        return float(self.cgf(np.array([complex(theta)]))[0].real)

    def slope(self, theta: float) -> float:
        """Return the mean of the law tilted by θ."""
        return float(sum(count * slope(law, theta) for law, count in self.parts))

    def noise(self, z: ComplexArray) -> FloatArray:
        """Absolute error of :meth:`cgf`, in roundings."""
        theta = float(z.real.flat[0])
        total = np.zeros(z.shape)
        for law, count in self.parts:
            total += 4.0 * count * (np.abs(law.cgf(z).real) + law.noise(theta))
        return total

    def saddle(self, epsilon: float, width: float = 0.0) -> float:
        """Where θ > 0 minimises K(θ) - θε plus the logarithm of the payoff's transform.

        That is 1/(θ(θ+1)), or on a lattice of the given width, with ε its first atom of interest,
        1/((1-e^(-θh))(1-e^(-(θ+1)h))). It falls from its pole at 0, so that θ > 0 always exists.
        """
        from scipy.optimize import brentq

        def excess(log_theta: float) -> float:
            theta = float(np.exp(log_theta))
            return self.slope(theta) - epsilon - _pull(theta, width) - _pull(theta + 1.0, width)

        distance = epsilon - self.mean
        variance = max(self.variance, 1e-300)
        # the root of vθ² - dθ - 1, the law taken as normal
        root = float(np.hypot(distance, 2.0 * np.sqrt(variance)))
        guess = 0.5 * (distance + root) / variance if distance > 0 else 2.0 / (root - distance)
        lower = upper = float(np.log(guess))
        step = 0.5
        if excess(lower) > 0:
            while excess(lower := lower - step) > 0:
                step *= 2.0
            upper = min(lower + step, upper)
        else:
            while excess(upper := upper + step) < 0:
                step *= 2.0
                if np.exp(upper) * width > FLAT:  # nothing is above the atom
                    return float(np.exp(upper))
            lower = max(upper - step, lower)
        return float(np.exp(brentq(excess, lower, upper, xtol=1e-3, rtol=1e-3)))

    def reach(self, theta: float, epsilon: float) -> float:
        """Period R such that a trapezoid rule of step 2π/R errs by less than rounding.

        The rule adds up the payoff e^(-θ(x+mR)) over all m with x + mR > 0, where x = L - ε. For
        m > 0 it is at most e^(-λ(x+mR)) for every λ in (0, θ], and for m < 0 at most e^(ν(x+mR))
        for every ν > 0, whose means under the tilted law are known.
        """
        here = self.real_cgf(theta)
        # a payoff of δ is smaller than one of a probability, by 1/(1+θ) or so
        small = TOTAL_NEGLIGIBLE + float(np.log1p(theta))
        spread = 1.0 / np.sqrt(max(self.variance, 1e-300))
        before = [theta, 0.5 * theta, 0.25 * theta, 0.125 * theta]
        above = [theta * f for f in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)] + [spread, 4.0 * spread]
        left = min((self.real_cgf(theta - x) - here + x * epsilon + small) / x for x in before)
        right = min((self.real_cgf(theta + x) - here - x * epsilon + small) / x for x in above)
        return float(max(left, right))


def _pull(theta: float, width: float) -> float:
    """h/(e^(θh) - 1), which is 1/θ for a width of 0."""
    x = theta * width
    return 1.0 / theta if x == 0 else width / float(np.expm1(min(x, 700.0)))


# Sums of losses with few values, listed: their values, and masses under a tilt.


MOST_ATOMS = 4096
MANY = 1 << 62
DROPPED = 45.0
"""Binomial terms below e^-45 of the largest are dropped: less than 1e-18 of the mass."""

FAR_DROPPED = 87.0
"""The same where terms grow by up to e^12 along the path of an integral."""

TRIMMED = 1e-22
RESPONSE = 2
"""A law of two values, whose repeated sums are binomial."""


def number_of_atoms(parts: Parts) -> int:
    """How many values a listed sum has, or more than there may be."""
    sizes = []
    for law, count in parts:
        atoms = law.tilted_atoms(0.0)
        if atoms is None:
            return MANY
        size = count * (len(atoms[0]) - 1) + 1
        if len(atoms[0]) == RESPONSE:
            size = min(size, 2 * _radius(0.5 * count, count, DROPPED) + 1)
        elif np.isinf(law.largest):
            size = int(len(atoms[0]) * np.sqrt(count)) + 1
        sizes.append(size)
    return prod(sizes)


def tilted_atoms(
    parts: Parts, theta: float, *, window: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Values l of the sum, and P(l)·e^(θl)/M(θ).

    With ``window``, values which the tilted law all but never has are left out.
    """
    values, mass = np.zeros(1), np.ones(1)
    for law, count in parts:
        at, share = repeated_atoms(law, count, theta, window=window)[:2]
        values = np.add.outer(values, at).ravel()
        mass = np.multiply.outer(mass, share).ravel()
    return values, mass


def repeated_atoms(
    law: LossLaw, count: int, theta: float, *, window: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Values and tilted masses of a sum of ``count`` losses."""
    atoms = law.tilted_atoms(theta)
    assert atoms is not None
    values, mass = atoms
    if len(values) == RESPONSE and window:
        lows, share = binomial_window(count, float(mass[0]), float(mass.sum()))
        return values[-1] * (count - 2.0 * lows), share
    if np.isinf(law.largest):
        mass, before = _trimmed_power(mass, count)
        # the first of the sums that were kept, from the middle of the values of one
        middle = 0.5 * (len(values) - 1)
        step = (values[-1] - values[0]) / (len(values) - 1)
        centre = count * (values[0] + step * middle)
        return centre + step * (before + np.arange(len(mass)) - count * middle), mass
    steps = count * (len(values) - 1)
    # from the middle outwards, so that opposite values are exactly opposite
    at = values[-1] * (2.0 * np.arange(steps + 1.0) - steps) / (len(values) - 1)
    return at, _power(mass, count)


def binomial_window(
    count: int, low: float, total: float, dropped: float = DROPPED
) -> tuple[FloatArray, FloatArray]:
    """How many of ``count`` are low, and how likely, for shares ``low`` and ``total`` - low."""
    p = low / total
    centre = float(np.floor((count + 1.0) * p))
    radius = _radius(min(centre, float(count)), count, dropped)
    lows = np.arange(max(centre - radius, 0.0), min(centre + radius, float(count)) + 1.0)
    if p < 1e-300:
        return np.zeros(1), np.array([total**count])
    mass = binom_pmf(lows, np.asarray(float(count)), np.asarray(p))
    return lows, mass * total**count


def _radius(centre: float, count: int, dropped: float) -> int:
    return int(binom_radius(np.asarray(centre), np.asarray(float(count)), dropped))


def _power(mass: FloatArray, count: int) -> FloatArray:
    """Convolve by squaring: sums of positive terms, which keep their relative accuracy."""
    result, square = np.ones(1), mass
    while count:
        if count & 1:
            result = np.convolve(result, square)
        count >>= 1
        if count:
            square = np.convolve(square, square)
    return result


def _trimmed_power(mass: FloatArray, count: int) -> tuple[FloatArray, int]:
    """Convolve by squaring, without what is negligible; and how many sums are gone before it."""
    result, first = np.ones(1), 0
    square, square_first = mass, 0
    while count:
        if count & 1:
            result, gone = _trimmed(np.convolve(result, square))
            first += square_first + gone
        count >>= 1
        if count:
            square, gone = _trimmed(np.convolve(square, square))
            square_first = 2 * square_first + gone
    return result, first


def _trimmed(mass: FloatArray) -> tuple[FloatArray, int]:
    kept = np.flatnonzero(mass > TRIMMED * mass.max())
    return mass[kept[0] : kept[-1] + 1], int(kept[0])


# What is left of an integral along a vertical line beyond some height: certified bounds.


Bound = Callable[[FloatArray], FloatArray]
"""Upper bound on ∫ abs(M(θ+it)/M(θ))/t² dt over t > T, for heights T > 0."""

WINDOW_NODES = 400


def left_over(parts: Iterable[tuple[LossLaw, int]], theta: float, period: float = np.inf) -> Bound:
    """Bound for a sum of losses; with a ``period``, of the integral up to half of it only.

    Laws without revivals before the end are bounded by their size at T. The transform of a lattice
    comes back to 1 once in each of its own periods P, in windows of a small area W: those add up to
    W·Σ 1/((m-1/2)P)². One lattice law is bounded in that way, whichever is best.
    """
    fading: list[tuple[LossLaw, int]] = []
    reviving: list[tuple[LossLaw, int]] = []
    for law, count in parts:
        (fading if law.period >= period * (1.0 - 1e-9) else reviving).append((law, count))
    windows = [_Windows(law, count, theta) for law, count in reviving]

    def bound(t: FloatArray) -> FloatArray:
        best = 1.0 / t
        for window in windows:
            best = np.minimum(best, window(t))
        log_size = np.zeros(t.shape)
        for law, count in fading:
            log_size += count * np.minimum(law.log_decay(t, theta), 0.0)
        return np.asarray(best * np.exp(log_size))

    return bound


def without_atoms(laplace: Iterable[tuple[LaplaceLoss, int]], theta: float, rest: Bound) -> Bound:
    """Bound for Laplace losses less the term that has only atoms.

    With r the density's share over that of the atoms, Π(1 + rᵢ) - 1 is at most y·e^y, y = Σ rᵢ.
    """

    def bound(t: FloatArray) -> FloatArray:
        log_atoms, y, log_all = np.zeros(t.shape), np.zeros(t.shape), np.zeros(t.shape)
        for law, count in laplace:
            atoms, density = law.shares(t, theta)
            log_atoms += count * np.log(atoms)
            log_all += count * np.log(np.minimum(atoms + density, 1.0))
            y += count * density / atoms
        some = np.exp(np.minimum(y + log_atoms, 700.0)) * y
        return np.asarray(rest(t) * np.minimum(some, np.exp(log_all) + np.exp(log_atoms)))

    return bound


class _Windows:
    """∫ m(t)/t² over t > T for an even periodic m that falls up to half its period."""

    def __init__(self, law: LossLaw, count: int, theta: float) -> None:
        self.half = 0.5 * law.period
        self.law, self.count, self.theta = law, count, theta
        # m falls: its area is at most a sum of its values at the left ends
        t = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, WINDOW_NODES)]) * self.half
        m = np.concatenate([[1.0], self._size(t[1:-1])])
        self.area = 2.0 * float(np.sum(m * np.diff(t)))

    def __call__(self, t: FloatArray) -> FloatArray:
        number = np.maximum(np.floor(0.5 * t / self.half + 0.5), 1.0)
        later = self.area * special.polygamma(1, number - 0.5) / (2.0 * self.half) ** 2
        inside = t < self.half
        first = np.zeros(t.shape)
        first[inside] = self._size(t[inside]) * (1.0 / t[inside] - 1.0 / self.half)
        return np.asarray(first + later)

    def _size(self, t: FloatArray) -> FloatArray:
        log_size = np.minimum(self.law.log_decay(t, self.theta), 0.0)
        return np.asarray(np.exp(self.count * log_size))


# Payoffs of a tail, and their transforms along a vertical line.


def continuous_payoffs(z: ComplexArray) -> ComplexArray:
    """Return the transforms ∫ e^(-zx)·payoff(x) dx over x = L - ε > 0, shape (3, n)."""
    return np.asarray(np.stack([1.0 / (z * (z + 1.0)), 1.0 / z, 1.0 / (z + 1.0)]))


def lattice_payoffs(z: ComplexArray, gap: FloatArray, step: float) -> ComplexArray:
    """Return the sums h·Σ e^(-z·jh)·payoff(g + jh) over j >= 0, shape (3, n, gaps)."""
    s = z[:, None]
    first = -np.expm1(-s * step)
    second = -np.expm1(-(s + 1.0) * step)
    # (1 - e^(-(z+1)h)) - e^-g(1 - e^(-zh)), as a sum of terms of one sign at real z
    both = -np.expm1(-gap) - np.exp(-s * step - gap) * np.expm1(gap - step)
    probability = np.broadcast_to(1.0 / first, both.shape)
    return np.asarray(
        step * np.stack([both / (first * second), probability, np.exp(-gap) / second])
    )


def step_payoffs(x: FloatArray, inclusive: bool) -> FloatArray:
    """Return the payoffs of the value x = L - ε themselves, shape (3, n)."""
    above = x >= 0 if inclusive else x > 0
    x = np.maximum(x, 0.0)
    return np.where(above, np.stack([-np.expm1(-x), np.ones_like(x), np.exp(-x)]), 0.0)


# Integrals over a vertical line in the plane of tilts, by the trapezoid rule, with their errors.


MOST_NODES = 1 << 17
MOST_HEIGHT = 1 << 21
MOST_CIRCLE = 1 << 18
CHEAP = 1 << 13
TIGHT, LOOSE = 1e-15, 1e-11
"""How much may be left, in units of the first node."""

LOG_SKIPPED = -50.0
SKIPPED = 1e-20
"""Bound on the sum of all nodes that are skipped, which have e^-50 each."""

FULL_CIRCLE = 1 << 9
BLOCK = 1 << 18
ROUNDING = 1.2e-16
WRAPPED = 3e-17
"""Bound on what the period wraps around on both sides, and on what a list leaves out."""


@dataclass(frozen=True)
class Tails:
    """δ(ε), P(L > ε) and e^ε·Q(L > ε), and bounds on the errors of each, shape (3,).

    Where abs(M) does not decay, the errors of the two probabilities are estimates.
    """

    values: FloatArray
    errors: FloatArray

    def __add__(self, other: Tails) -> Tails:
        return Tails(self.values + other.values, self.errors + other.errors)


def continuous_line(
    total: Total,
    part: Callable[[ComplexArray], ComplexArray],
    bound: Bound,
    epsilon: float,
    theta: float,
) -> Tails:
    """Tails of that part of the law which has the transform ``part``·M(θ)."""
    step = 2.0 * np.pi / total.reach(theta, epsilon)
    top = 1.0 / (theta * (theta + 1.0))
    windows = _windows(total, theta)
    density = min((2.0 * width / period for period, width in windows), default=1.0)
    most = int(min(MOST_NODES / density, MOST_HEIGHT))
    nodes = _enough(bound, top * step, step, most)
    sums, sizes = np.zeros(3), np.zeros(3)
    for start in range(0, nodes, BLOCK):
        n = _inside(np.arange(start, min(start + BLOCK, nodes)), step, windows)
        if not n.size:
            continue
        z = np.asarray(theta + 1j * step * n, dtype=np.complex128)
        terms = part(z) * np.exp(-1j * step * epsilon * n) * continuous_payoffs(z)
        terms[:, n == 0] *= 0.5
        sums += terms.real.sum(axis=1)
        trust = 8.0 + total.noise(z) + 2.0 * np.abs(z) * abs(epsilon)
        sizes += (np.abs(terms) * trust).sum(axis=1)
    last = (nodes - 0.5) * step
    cut = _cut(bound, last)
    scale = np.exp(total.real_cgf(theta) - theta * epsilon)
    few = (WRAPPED + SKIPPED) * _lost(theta)
    errors = (step * ROUNDING * sizes + cut) / np.pi + few
    return Tails(scale * step / np.pi * sums, scale * errors)


def lattice_line(
    base: Total,
    lattice: tuple[float, float],
    shifts: tuple[FloatArray, FloatArray],
    whole: Total,
    epsilon: float,
    theta: float,
    inclusive: bool,
) -> Tails:
    """Tails of a law on a lattice, mixed over shifts with their masses under the tilt.

    ``whole`` is the law of base and shifts together.
    """
    offset, width = lattice
    first, gap = next_atom(epsilon - shifts[0], offset, width, inclusive)
    nearest = float(gap.min())
    mass = shifts[1] * np.exp(-theta * (gap - nearest))
    half = max(int(np.ceil(0.5 * whole.reach(theta, epsilon + nearest) / width)), 1)
    step = np.pi / (half * width)
    bound = left_over(base.parts, theta, 2.0 * np.pi / width)
    # abs(1 - e^(-zh)) >= 2e^(-θh/2)·sin(th/2) >= 2th/π·e^(-θh/2), twice
    slack = 2.5 * float(np.exp(min((theta + 0.5) * width, 600.0))) * float(np.sum(mass))
    nodes = min(half + 1, MOST_CIRCLE)
    if nodes > FULL_CIRCLE:
        payoffs = lattice_payoffs(np.array([complex(theta)]), gap, width)[0, 0].real
        nodes = _enough(bound, float(payoffs @ mass) * step / slack, step, nodes)
    sums, sizes = np.zeros(3), np.zeros(3)
    rows = max(BLOCK // len(first), 1)
    log_m = base.real_cgf(theta)
    for start in range(0, nodes, rows):
        n = np.arange(start, min(start + rows, nodes))
        z = np.asarray(theta + 1j * step * n, dtype=np.complex128)
        phase = np.exp(-1j * np.multiply.outer(step * n, first))
        ratio = np.exp(base.cgf(z) - log_m)
        terms = ratio[:, None] * phase * mass * lattice_payoffs(z, gap, width)
        terms[:, (n == 0) | (n == half)] *= 0.5
        sums += terms.real.sum(axis=(1, 2))
        trust = 8.0 + base.noise(z) + 2.0 * np.abs(z) * np.max(np.abs(first))
        sizes += (np.abs(terms).sum(axis=2) * trust).sum(axis=1)
    cut = np.zeros(3)
    if nodes <= half:
        cut = slack * _cut(bound, (nodes - 0.5) * step)
    scale = np.exp(whole.real_cgf(theta) - theta * (epsilon + nearest))
    errors = (step * ROUNDING * sizes + cut) / np.pi + WRAPPED * _lost(theta)
    return Tails(scale * step / np.pi * sums, scale * errors)


def _windows(total: Total, theta: float) -> list[tuple[float, float]]:
    """Periods, and distances from their multiples beyond which abs(M) is negligible."""
    windows = []
    for law, count in total.parts:
        if np.isfinite(law.period):
            t = np.geomspace(1e-6, 1.0, 200) * 0.5 * law.period
            small = np.flatnonzero(count * law.log_decay(t[:-1], theta) < LOG_SKIPPED)
            if small.size:
                windows.append((law.period, float(t[small[0]])))
    return windows


def _inside(n: NDArray[np.int64], step: float, windows: list[tuple[float, float]]) -> NDArray[Any]:
    for period, width in windows:
        t = step * n
        n = n[np.abs(t - period * np.rint(t / period)) <= width]
    return n


def next_atom(
    epsilon: FloatArray, offset: float, width: float, inclusive: bool
) -> tuple[FloatArray, FloatArray]:
    """First atom above each ε, or at it if ``inclusive``, and how far above it is."""
    place = (epsilon - offset) / width
    nearest = np.rint(place)
    rounding = 1e-15 * (np.abs(epsilon) + abs(offset)) / width + 1e-15 * np.abs(place)
    same = np.abs(place - nearest) <= rounding
    index = np.where(same, nearest + (0.0 if inclusive else 1.0), np.floor(place) + 1.0)
    gap = np.where(same, 0.0 if inclusive else width, (index - place) * width)
    return epsilon + gap, gap


def _enough(bound: Bound, unit: float, step: float, most: int) -> int:
    """Return the fewest nodes after which too little is left to matter, or as many as may be.

    What falls like a power is followed less far than what falls like an exponential.
    """
    candidates = np.unique(np.geomspace(min(16, most), most, 60).astype(np.int64))
    left = bound(np.asarray((candidates - 0.5) * step, dtype=np.float64))
    tight = np.flatnonzero(left <= TIGHT * unit)
    if tight.size and candidates[tight[0]] <= CHEAP:
        return int(candidates[tight[0]])
    loose = np.flatnonzero(left <= LOOSE * unit)
    return max(int(candidates[loose[0]]), min(CHEAP, most)) if loose.size else int(most)


def _lost(theta: float) -> FloatArray:
    """Payoffs of what is left out, for δ and for the probabilities, relative to the tilt."""
    return np.array([1.0 / (1.0 + theta), 1.0, 1.0])


def _cut(bound: Bound, height: float) -> FloatArray:
    """Bound what is left beyond a height; for probabilities, whose payoff falls as 1/t, roughly."""
    left = float(bound(np.array([height]))[0])
    return np.array([left, 10.0 * height * left, 10.0 * height * left])


# Tails of Laplace losses, alone or beside laws of few values, along a hyperbola.


ANGLE = 0.625 * np.pi
"""Angle of the asymptotes with the real axis: half way between π/2 and 3π/4."""

STRIP = 0.1 * np.pi
"""Half the width of the strip of angles on whose edges the integrand is bounded."""

STEP = 2.0 * np.pi * STRIP / 40.0
"""Step of the trapezoid rule, whose error is e^-40 of the integral along the edges."""

MOST_LOST = 12.0
"""Terms that grow near a pole, and a tilt away from the saddle point, may cost a factor of e^12."""

DECAYED = 45.0
"""The path ends where e^(zx) is below e^-45, for the smallest x."""

HYPERBOLA_MOST_HEIGHT = 35.0
NEGLIGIBLE = 1e-38
DROPPED_MASS = 1e-18
"""Bound on what is made of each term below that share, which grows by e^12 at most."""

LARGEST_EXPONENT = 650.0
"""Exponents on the edges of the strip are cut there: the error bound is infinite for all that."""


@dataclass(frozen=True)
class _Terms:
    """Distances x = s - ε > 0, shares at the tilt, and numbers of factors z/w and (z+1)/w."""

    x: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray


def hyperbola(
    total: Total,
    laplace: tuple[tuple[LaplaceLoss, int], ...],
    listed: Parts,
    epsilon: float,
    theta: float,
    inclusive: bool,
) -> Tails:
    """Tails of the Laplace losses and the ``listed`` laws together."""
    terms, dropped, atom = _terms(laplace, listed, epsilon, theta)
    scale = float(np.exp(total.real_cgf(theta) - theta * epsilon))
    ends = np.array([0.0, atom, atom]) if inclusive else np.zeros(3)
    if not terms.x.size:
        return Tails(scale * ends, scale * (dropped + 1e-14 * ends))
    # not so wide that the integrand grows by much between the axis and the edges of the strip
    spread = (total.slope(theta * 1.001) - total.slope(theta)) / (0.001 * theta)
    spread += 1.0 / theta**2 + 1.0 / (theta + 1.0) ** 2
    axis = min(2.0 * theta, 6.0 / np.sqrt(max(spread, 1e-300)))
    last = DECAYED / (abs(np.cos(ANGLE)) * axis * float(terms.x.min()))
    height = min(np.arccosh(1.0 + last), HYPERBOLA_MOST_HEIGHT)
    values, sizes = _integral(terms, theta, axis, ANGLE, STEP, height)
    edges = sum(
        _integral(terms, theta, axis, ANGLE + side * STRIP, 8.0 * STEP, height)[1]
        for side in (-1.0, 1.0)
    )
    # what is left beyond the height falls like the payoff there
    far = theta + axis * np.exp(height)
    left = np.array([1.0 / far, 1e-16, 1e-16])
    at = np.array([complex(theta)])
    trust = 50.0 + 4.0 * float(total.noise(at)[0]) + 4.0 * theta * epsilon
    errors = (
        ROUNDING * trust * sizes
        + np.exp(-40.0) * edges
        + dropped * np.array([1.0 / (1.0 + theta), 1.0, 1.0])
        + left * 1e-16
    )
    return Tails(scale * (values + ends), scale * (errors + 1e-14 * ends))


def away_from_poles(total: Total, count: int, epsilon: float, theta: float) -> float | None:
    """Tilt beside which ``count`` poles do little harm, or None where there is none.

    Single terms grow by about e^(k/(8w²)), w = θ + 1/2, along the path, and another tilt than that
    of the saddle point makes all of them larger: the sum of both exponents is made small.
    """
    least = total.real_cgf(theta) - theta * epsilon
    tilts = theta * np.geomspace(1.0, max(np.sqrt(count) / theta, 1.0), 12)
    lost = [total.real_cgf(x) - x * epsilon - least + 0.5 * count / (2 * x + 1) ** 2 for x in tilts]
    best = int(np.argmin(lost))
    return float(tilts[best]) if lost[best] <= MOST_LOST else None


def _terms(
    laplace: Iterable[tuple[LaplaceLoss, int]], listed: Parts, epsilon: float, theta: float
) -> tuple[_Terms, float, float]:
    """Terms above ε, the shares of the dropped ones, and the mass of an atom at ε."""
    at, share = tilted_atoms(listed, theta)
    low, high = np.zeros(at.size), np.zeros(at.size)
    w = theta + 0.5
    for law, count in laplace:
        flip = theta * np.exp(-2.0 * w * law.shift)
        number, mass = binomial_window(count, flip / (theta + 1.0 + flip), 1.0, FAR_DROPPED)
        at = np.add.outer(at, law.shift * (count - 2.0 * number)).ravel()
        share = np.multiply.outer(share, mass).ravel()
        low = np.add.outer(low, number).ravel()
        high = np.add.outer(high, count - number).ravel()
        kept = share > NEGLIGIBLE
        at, share, low, high = at[kept], share[kept], low[kept], high[kept]
    x = at - epsilon
    same = np.abs(x) <= 4e-16 * (np.abs(at) + abs(epsilon))
    # the atom is what the rational factors leave of the share far out
    log_atom = np.log(w / theta) * low[same] + np.log(w / (theta + 1.0)) * high[same]
    atom = float(np.sum(share[same] * np.exp(log_atom)))
    above = (x > 0) & ~same
    terms = _Terms(x[above], share[above], low[above], high[above])
    return terms, DROPPED_MASS * max(share.size, 100), atom


def _integral(
    terms: _Terms, theta: float, axis: float, angle: float, step: float, height: float
) -> tuple[FloatArray, FloatArray]:
    """Integral along one hyperbola, and that of the absolute values."""
    u = step * np.arange(int(np.ceil(height / step)) + 1.0)
    centre = theta - axis * np.cos(ANGLE)
    z = centre + axis * np.cos(angle + 1j * u)
    speed = axis * np.sin(angle + 1j * u)  # -dz/du/i, upwards
    factors = _rational(z, theta, terms)
    exponent = np.multiply.outer(z - theta, terms.x)
    exponent += factors
    np.minimum(exponent.real, LARGEST_EXPONENT, out=exponent.real)
    along = np.exp(exponent) @ terms.share
    values = along * speed * continuous_payoffs(z)
    values[:, 0] *= 0.5
    size = np.exp(exponent.real) @ terms.share * np.abs(speed * continuous_payoffs(z))
    return values.real.sum(axis=1) * step / np.pi, size.sum(axis=1) * step / np.pi


def _rational(z: ComplexArray, theta: float, terms: _Terms) -> ComplexArray:
    """Ln of the rational factors at z over those at θ, shape (nodes, terms)."""
    w = theta + 0.5
    low = special.log1p(-0.5 / (z + 0.5)) - np.log1p(-0.5 / w)
    high = special.log1p(0.5 / (z + 0.5)) - np.log1p(0.5 / w)
    return np.asarray(np.multiply.outer(low, terms.low) + np.multiply.outer(high, terms.high))


FINEST = 64
"""Lattices whose steps are multiples of a common step, up to this one, are one lattice."""

FEW_ATOMS = 256
"""Up to here it is quickest to list all values."""

FADED = 1e-9
"""Atoms of Laplace losses with less mass than this are left to the line."""

ATOMS_MATTER = 1e-18
"""The same where a lattice stands beside them, which makes a line slow."""

MOST_EXPONENTIALS = 1 << 15
MOST_TILT = 300.0
"""The exponent of the largest mass in a list that is tilted."""

PARAMETERS = 4e-16
"""Relative error of the values of a law, from the rounding of its parameters."""

LARGE = 30.0
MOST_MIXED = 64
CLOSED_FORM = 1e-13
SUMMATION = 1e-13


class Inversion:
    """Tails of a sum of losses at any ε >= 0.

    - Gaussian losses alone: in closed form.
    - A single lattice: sums over the circle of its transform.
    - A lattice or a Gaussian beside laws of few values: mixed over those values.
    - Laplace losses, alone or beside laws of few values: along a hyperbola. Where its poles are
      too near, mixed over the other laws' values if few are near, else over their own atoms.
    - Laplace losses beside a lattice: mixed over their atoms, and the rest along a line.
    - What remains: along a line, whose end is bounded.

    An ε within rounding of the largest loss counts as that loss.
    """

    def __init__(self, parts: Parts) -> None:
        self.total = Total(parts)
        self._plan = _plan(parts)
        self._reach = sum(count * law.largest for law, count in parts)

    def tails(self, epsilon: float, *, inclusive: bool = False) -> Tails:
        """δ(ε), P(L > ε) and e^ε·Q(L > ε) at any real ε; with ``inclusive``, of L >= ε.

        The values of a law are rounded as its parameters are, as if ε were a little different.
        """
        if epsilon < 0:
            return self._mirrored(-epsilon, inclusive)
        tails = self._tails(epsilon, inclusive)
        total = self.total
        moved = PARAMETERS * (epsilon + total.mean + 10.0 * float(np.sqrt(total.variance)))
        return tails + Tails(np.zeros(3), np.array([moved * tails.values[2], 0.0, 0.0]))

    def _mirrored(self, epsilon: float, inclusive: bool) -> Tails:
        """Tails at -ε, as P against Q and Q against P have the same law."""
        other = self.tails(epsilon, inclusive=not inclusive)
        delta, above, scaled = other.values
        flip = float(np.exp(-epsilon))
        values = [flip * delta - np.expm1(-epsilon), 1.0 - flip * scaled, flip * (1.0 - above)]
        errors = other.errors[[0, 2, 1]]
        return Tails(np.array(values), flip * errors + ROUNDING)

    def _tails(self, epsilon: float, inclusive: bool) -> Tails:
        beyond = epsilon - self.total.largest
        near = abs(beyond) <= 4e-16 * epsilon
        if beyond > 0 and not near:
            return Tails(np.zeros(3), np.zeros(3))
        plan = self._plan
        if len(self.total.parts) == 1 and isinstance(self.total.parts[0][0], GaussianLoss):
            return _gaussian_tails(self.total.parts[0][0], np.array([epsilon]), np.zeros(1))
        if near:
            return self._at_largest(inclusive)
        theta = self._saddle(epsilon, inclusive)
        if not plan.separate:
            return self._along_line(epsilon, theta)
        if plan.laplace:
            poles = sum(count for _, count in plan.laplace)
            away = None if plan.base else away_from_poles(self.total, poles, epsilon, theta)
            if away is not None:
                return hyperbola(self.total, plan.laplace, plan.listed, epsilon, away, inclusive)
            mixed = self._mixed(epsilon, theta, inclusive)
            if mixed is not None:
                return mixed
        tails = self._listed(epsilon, theta, inclusive)
        return tails + self._densities(epsilon, theta) if plan.laplace else tails

    def _saddle(self, epsilon: float, inclusive: bool) -> float:
        plan = self._plan
        if plan.lattice is None or plan.listed or plan.laplace:
            return self.total.saddle(epsilon)
        first, _ = next_atom(np.array([epsilon]), *plan.lattice, inclusive)
        return self.total.saddle(float(first[0]), plan.lattice[1])

    def _at_largest(self, inclusive: bool) -> Tails:
        """Tails at the largest loss, which is an atom."""
        if not inclusive:
            return Tails(np.zeros(3), np.zeros(3))
        mass = float(np.exp(sum(count * law.log_top for law, count in self.total.parts)))
        return Tails(mass * np.array([0.0, 1.0, 1.0]), SUMMATION * mass * np.ones(3))

    def _along_line(self, epsilon: float, theta: float) -> Tails:
        log_m = self.total.real_cgf(theta)

        def part(z: ComplexArray) -> ComplexArray:
            return np.exp(self.total.cgf(z) - log_m)

        return continuous_line(self.total, part, left_over(self.total.parts, theta), epsilon, theta)

    def _listed(self, epsilon: float, theta: float, inclusive: bool) -> Tails:
        """Tails of the base, mixed over the values that are listed."""
        plan = self._plan
        narrow = bool(plan.base or plan.laplace)
        if not narrow:
            # enough to keep masses from underflow, and small enough to lose nothing by rounding
            theta = min(theta, MOST_TILT / self._reach)
        everything = plan.laplace + plan.listed
        shifts = tilted_atoms(everything, theta, window=narrow)
        if plan.lattice is not None:
            base = Total(plan.base)
            return lattice_line(base, plan.lattice, shifts, self.total, epsilon, theta, inclusive)
        values, log_mass = self._untilted(everything, shifts, theta)
        if plan.base:
            base_law = plan.base[0][0]
            assert isinstance(base_law, GaussianLoss)
            return _gaussian_tails(base_law, epsilon - values, log_mass)
        x = values - epsilon
        x[np.abs(x) <= 4e-16 * (np.abs(values) + epsilon)] = 0.0
        terms = np.exp(log_mass) * step_payoffs(x, inclusive)
        if not narrow:
            tails = terms.sum(axis=1)
            return Tails(tails, SUMMATION * np.abs(tails))
        at = np.array([complex(theta)])
        trust = 50.0 + 4.0 * self.total.noise(at)[0] + 4.0 * theta * np.abs(values)
        return Tails(terms.sum(axis=1), ROUNDING * (terms @ trust) + self._left(epsilon, theta))

    def _untilted(
        self, parts: Parts, shifts: tuple[FloatArray, FloatArray], theta: float
    ) -> tuple[FloatArray, FloatArray]:
        values, mass = shifts
        with np.errstate(divide="ignore"):
            return values, np.log(mass) - theta * values + Total(parts).real_cgf(theta)

    def _left(self, epsilon: float, theta: float) -> FloatArray:
        """Bound on the tails of what a list leaves out."""
        scale = np.exp(self.total.real_cgf(theta) - theta * epsilon)
        return np.asarray(scale * WRAPPED * _lost(theta))

    def _mixed(self, epsilon: float, theta: float, inclusive: bool) -> Tails | None:
        """Tails of the Laplace losses, mixed over the values of the others if few are near."""
        laplace = Inversion(self._plan.laplace)
        others = self._plan.base + self._plan.listed
        if not others or number_of_atoms(others) > MOST_EXPONENTIALS:
            return None
        values, log_mass = self._untilted(others, tilted_atoms(others, theta), theta)
        near = np.abs(epsilon - values) <= laplace.total.largest
        if near.sum() > MOST_MIXED:
            return None
        x = epsilon - values
        found = [laplace.tails(float(at), inclusive=inclusive) for at in x]
        mass = np.exp(log_mass)
        errors = np.stack([tails.errors + SUMMATION * tails.values for tails in found], axis=1)
        errors = errors @ mass + self._left(epsilon, theta)
        return Tails(np.stack([tails.values for tails in found], axis=1) @ mass, errors)

    def _densities(self, epsilon: float, theta: float) -> Tails:
        """Tails of what has a density of a Laplace loss in it."""
        plan, log_m = self._plan, self.total.real_cgf(theta)
        others = Total(
            [(law, k) for law, k in self.total.parts if not isinstance(law, LaplaceLoss)]
        )

        def part(z: ComplexArray) -> ComplexArray:
            log_atoms = others.cgf(z) - log_m
            log_more = np.zeros_like(z)
            for law, count in plan.laplace:
                log_atoms += count * law.log_atomic(z)
                log_more += count * special.log1p(law.density_ratio(z))
            # where one factor may be beyond floats and the product is not, apart
            if log_more.real.max() > LARGE:
                return np.asarray(np.exp(log_atoms + log_more) - np.exp(log_atoms))
            return np.asarray(np.exp(log_atoms) * special.expm1(log_more))

        bound = left_over(others.parts, theta)
        bound = without_atoms(plan.laplace, theta, bound)
        return continuous_line(self.total, part, bound, epsilon, theta)


@dataclass(frozen=True)
class _Plan:
    """How a sum is taken apart: a base, laws of few values, and Laplace losses among those."""

    base: Parts = ()
    lattice: tuple[float, float] | None = None
    listed: Parts = ()
    laplace: tuple[tuple[LaplaceLoss, int], ...] = ()
    separate: bool = True


def _plan(parts: Parts) -> _Plan:
    gaussian = tuple(p for p in parts if isinstance(p[0], GaussianLoss))
    laplace = tuple((law, k) for law, k in parts if isinstance(law, LaplaceLoss))
    groups = _lattice_groups(tuple(p for p in parts if p[0].lattice is not None))
    everything = tuple(p for p in parts if not isinstance(p[0], GaussianLoss))
    number = number_of_atoms(everything)
    unlimited = any(np.isinf(law.largest) for law, _ in everything)
    base: Parts = gaussian
    # few values are listed, and with Laplace losses beside them as many as may be; else the
    # group with most values is the base
    alone = number <= (MOST_EXPONENTIALS if laplace else 0 if unlimited else FEW_ATOMS)
    if not gaussian and groups and not alone:
        base = max(groups, key=number_of_atoms)
        groups.remove(base)
    listed = tuple(p for group in groups for p in group)
    beside = laplace + listed
    heavy = np.exp(sum(k * np.log(law.shares(np.ones(1), 0.0)[0]) for law, k in laplace))
    smooth = bool(gaussian) and _smooth(gaussian[0][0], Total(parts))
    fades = heavy < (ATOMS_MATTER if base else FADED)
    most = MOST_ATOMS if base else MOST_EXPONENTIALS
    if number_of_atoms(beside) > most or (beside and smooth) or (laplace and fades):
        return _Plan(separate=False)
    lattice = None if gaussian or not base else _common_lattice(base)
    return _Plan(base, lattice, listed, laplace)


def _smooth(law: object, total: Total) -> bool:
    assert isinstance(law, GaussianLoss)
    return law.squared > 1e-4 * total.variance


def _lattice_groups(parts: Parts) -> list[Parts]:
    """Group laws whose steps have a common multiple that is not much finer."""
    groups: list[Parts] = []
    for part in parts:
        for i, group in enumerate(groups):
            if _spacing((*group, part)) is not None:
                groups[i] = (*group, part)
                break
        else:
            groups.append((part,))
    return groups


def _spacing(parts: Parts) -> float | None:
    steps = np.array([law.lattice[1] for law, _ in parts if law.lattice is not None])
    common = common_spacing(steps, smallest=float(steps.min()) / FINEST, rtol=1e-15)
    return None if common is None else common[0]


def _common_lattice(parts: Parts) -> tuple[float, float]:
    step = _spacing(parts)
    assert step is not None
    offset = sum(k * law.lattice[0] for law, k in parts if law.lattice is not None)
    return float(offset), step


def _gaussian_tails(law: GaussianLoss, epsilon: FloatArray, log_mass: FloatArray) -> Tails:
    """Tails of a normal loss, mixed over shifts: δ(-ε) = 1 - e^-ε + e^-ε·δ(ε)."""
    mu = law.mu
    size = np.abs(epsilon)
    delta = np.atleast_1d(GDP(mu).delta_at(size))
    delta = np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
    above = special.ndtr(0.5 * mu - epsilon / mu)
    scaled = np.exp(epsilon + special.log_ndtr(-0.5 * mu - epsilon / mu))
    values = (np.exp(log_mass) * np.stack([delta, above, scaled])).sum(axis=1)
    return Tails(values, CLOSED_FORM * values)
