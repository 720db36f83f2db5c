"""Integrals over a vertical line in the plane of tilts, by the trapezoid rule, with their errors.

On Re z = θ the integrand is the transform of the payoff times M(z)e^(-zε); at the θ of
:meth:`Total.saddle` it is nearly real and positive where it matters, so that the smallest tails
keep their relative accuracy. The trapezoid rule of step 2π/R returns the tail of the law wrapped
around with period R, which errs upwards, and by less than rounding for the R of
:meth:`Total.reach`. What is left are the nodes beyond the last one, and a bound of abs(M) there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import ComplexArray
from dpinfer.privacy.losses._payoffs import continuous_payoffs, lattice_payoffs
from dpinfer.privacy.losses._remainder import Bound, left_over
from dpinfer.privacy.losses._total import Total

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
    """Nodes that are not negligible."""
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
