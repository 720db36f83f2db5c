"""Tails of a sum of privacy losses, each kind by the way that suits it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpinfer._numerics.commensurate import common_spacing
from dpinfer._validation import FloatArray
from dpinfer.privacy.guarantees.gaussian import GDP
from dpinfer.privacy.losses._atoms import MOST_ATOMS, number_of_atoms, tilted_atoms
from dpinfer.privacy.losses._hyperbola import hyperbola
from dpinfer.privacy.losses._laws.gaussian import GaussianLoss
from dpinfer.privacy.losses._laws.laplace import LaplaceLoss
from dpinfer.privacy.losses._laws.law import ComplexArray
from dpinfer.privacy.losses._line import Tails, continuous_line, lattice_line, next_atom
from dpinfer.privacy.losses._payoffs import step_payoffs
from dpinfer.privacy.losses._remainder import left_over, without_atoms
from dpinfer.privacy.losses._total import Parts, Total

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

CLOSED_FORM = 1e-13
SUMMATION = 1e-13


class Inversion:
    """Tails of a sum of losses at any ε >= 0.

    - Gaussian losses alone: in closed form.
    - A single lattice: sums over the circle of its transform.
    - A lattice or a Gaussian beside laws of few values: mixed over those values.
    - Laplace losses, alone or beside laws of few values: along a hyperbola.
    - Laplace losses beside a lattice: mixed over their atoms, and the rest along a line.
    - What remains: along a line, whose end is bounded.

    An ε within rounding of the largest loss counts as that loss.
    """

    def __init__(self, parts: Parts) -> None:
        self.total = Total(parts)
        self._plan = _plan(parts)
        self._reach = sum(count * law.largest for law, count in parts)

    def tails(self, epsilon: float, *, inclusive: bool = False) -> Tails:
        """δ(ε), P(L > ε) and e^ε·Q(L > ε); with ``inclusive``, of L >= ε.

        The values of a law are rounded as its parameters are, as if ε were a little different.
        """
        tails = self._tails(epsilon, inclusive)
        total = self.total
        moved = PARAMETERS * (epsilon + total.mean + 10.0 * float(np.sqrt(total.variance)))
        return tails + Tails(np.zeros(3), np.array([moved * tails.values[2], 0.0, 0.0]))

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
        if plan.laplace and not plan.base:
            return hyperbola(self.total, plan.laplace, plan.listed, epsilon, theta, inclusive)
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
        if plan.lattice is None and not plan.base:
            # enough to keep masses from underflow, and small enough to lose nothing by rounding
            theta = min(theta, MOST_TILT / self._reach)
        everything = plan.laplace + plan.listed
        shifts = tilted_atoms(everything, theta, window=bool(plan.base))
        if plan.lattice is not None:
            base = Total(plan.base)
            return lattice_line(base, plan.lattice, shifts, self.total, epsilon, theta, inclusive)
        listed = Total(everything)
        values, mass = shifts
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass) - theta * values + listed.real_cgf(theta)
        if plan.base:
            base_law = plan.base[0][0]
            assert isinstance(base_law, GaussianLoss)
            return _gaussian_tails(base_law, epsilon - values, log_mass)
        x = values - epsilon
        x[np.abs(x) <= 4e-16 * (np.abs(values) + epsilon)] = 0.0
        tails = (np.exp(log_mass) * step_payoffs(x, inclusive)).sum(axis=1)
        return Tails(tails, SUMMATION * (np.abs(tails)))

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
    """Whether the transform decays soon enough by the Gaussian part alone."""
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
