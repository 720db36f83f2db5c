"""Tails of a sum of privacy losses, each kind by the way that suits it.

The hyperbola of Laplace losses opens to the left, where e^(zx) decays for values x above ε, and its
error is bounded along the edges of a strip; those of sums and of χ² open to the right, and end
where terms are negligible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray
from dpinfer._numerics.atoms import SAME, Atoms, added
from dpinfer._numerics.lattice import GIVEN, Lattice
from dpinfer._numerics.line import (
    DENSITY,
    FEW_NODES,
    ROUNDING,
    TAILS,
    Bound,
    Nodes,
    Payoffs,
    Tails,
    atom_above,
    common_lattice,
    continuous_line,
    lattice_circle,
    lattice_groups,
    lattice_masses,
    lattice_tails,
    left_over,
    on_circle,
    step_payoffs,
    unlisted,
)
from dpinfer._numerics.parts import (
    FAR_DROPPED,
    MOST_ATOMS,
    UNDERFLOW,
    Ladder,
    Part,
    Parts,
    Stretch,
    Total,
    binomial_window,
    number_of_atoms,
    tilted_atoms,
)
from dpinfer.privacy._loss_laws import GaussianLoss, LaplaceLoss
from dpinfer.privacy.guarantees import GDP


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
"""Terms with a smaller share, at the tilt and far out, are dropped."""

DROPPED_MASS = 1e-18
"""Bound on what each of them comes to, as it grows by e^12 at most in between."""

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
    level = np.array([total.real_cgf(theta) - theta * epsilon])
    ends = np.array([0.0, atom, atom]) if inclusive else np.zeros(3)
    if not terms.x.size:
        return Tails(ends[:, None], (dropped + 1e-14 * ends)[:, None], level)
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
    trust = 50.0 + 4.0 * total.noise(theta) + 4.0 * theta * epsilon
    errors = (
        ROUNDING * trust * sizes
        + 2.0 * np.exp(-40.0) * edges  # which are found with a coarse step
        + dropped * np.array([1.0 / (1.0 + theta), 1.0, 1.0])
        + left * 1e-16
    )
    return Tails((values + ends)[:, None], (errors + 1e-14 * ends)[:, None], level)


def away_from_poles(
    total: Total, count: int, epsilon: FloatArray, theta: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Tilts beside which ``count`` poles do little harm, and for which ε there are such.

    Single terms grow by about e^(k/(8w²)), w = θ + 1/2, along the path, and another tilt than that
    of the saddle point makes all of them larger: the sum of both exponents is made small.
    """
    tilts = theta * np.geomspace(1.0, max(np.sqrt(count) / theta, 1.0), 12)
    log_m = np.array([total.real_cgf(tilt) for tilt in tilts])
    lost = log_m + 0.5 * count / np.square(2.0 * tilts + 1.0) - np.multiply.outer(epsilon, tilts)
    best = np.argmin(lost, axis=1)
    least = log_m[0] - theta * epsilon + MOST_LOST
    return tilts[best], lost[np.arange(epsilon.size), best] <= least


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
        at, share = added((at, share), (law.shift * (count - 2.0 * number), mass))
        low = np.add.outer(low, number).ravel()
        high = np.add.outer(high, count - number).ravel()
        # far out the factors z/w and (z+1)/w are 1, and at the tilt they may be small
        grown = low * np.log(w / theta) + high * np.log(w / (theta + 1.0))
        kept = share * np.exp(np.clip(grown, 0.0, 600.0)) > NEGLIGIBLE
        at, share, low, high = at[kept], share[kept], low[kept], high[kept]
    x = at - epsilon
    same = np.abs(x) <= SAME * np.maximum(np.abs(at), abs(epsilon))
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
    values = along * speed * TAILS.at(z)
    values[:, 0] *= 0.5
    size = np.exp(exponent.real) @ terms.share * np.abs(speed * TAILS.at(z))
    return values.real.sum(axis=1) * step / np.pi, size.sum(axis=1) * step / np.pi


def _rational(z: ComplexArray, theta: float, terms: _Terms) -> ComplexArray:
    """Ln of the rational factors at z over those at θ, shape (nodes, terms)."""
    w = theta + 0.5
    low = special.log1p(-0.5 / (z + 0.5)) - np.log1p(-0.5 / w)
    high = special.log1p(0.5 / (z + 0.5)) - np.log1p(0.5 / w)
    return np.asarray(np.multiply.outer(low, terms.low) + np.multiply.outer(high, terms.high))


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
"""Relative errors of SciPy's functions and of sums of positive terms, estimated."""


class Inversion:
    """Tails of a sum of losses at any ε.

    - Gaussian losses alone: in closed form.
    - A single lattice: sums over the circle of its transform.
    - A lattice or a Gaussian beside laws of few values: mixed over those values.
    - Laplace losses, alone or beside laws of few values: along a hyperbola. Where its poles are
      too near, mixed over the other laws' values if few are near, else over their own atoms.
    - Laplace losses beside a lattice: mixed over their atoms, and the rest along a line.
    - What remains: along a line, whose end is bounded.

    An ε within rounding of the largest loss counts as that loss. What is found at one tilt is kept,
    and serves all ε in its stretch.
    """

    def __init__(self, parts: Parts) -> None:
        self.total = Total(parts)
        self._plan = plan = _plan(parts)
        alone = plan.lattice is not None and not plan.listed and not plan.laplace
        self.alone = plan.lattice if alone else None
        self._ladder = Ladder(self.total, self.alone.width if self.alone else 0.0)
        self.guess = self._ladder.guess
        # masses of k losses are k-th powers of rounded ones
        self._listing = 4.0 * ROUNDING * _number(plan.laplace + plan.listed)
        self._kept: dict[tuple[str, Hashable], Any] = {}

    def tails(self, epsilon: FloatArray, *, inclusive: bool = False) -> Tails:
        """δ(ε), P(L > ε) and e^ε·Q(L > ε) at a vector of ε; with ``inclusive``, of L >= ε.

        The values of a law are rounded as its parameters are, as if ε were a little different.
        """
        values, errors = np.zeros((3, epsilon.size)), np.zeros((3, epsilon.size))
        below = np.flatnonzero(epsilon < 0)
        above = np.flatnonzero(epsilon >= 0)
        if above.size:
            found = self.leveled(epsilon[above], inclusive=inclusive)
            size = np.exp(found.level)
            values[:, above], errors[:, above] = size * found.values, size * found.errors
        if below.size:
            # P against Q and Q against P have the same law
            found = self.leveled(-epsilon[below], inclusive=not inclusive)
            delta, probability, scaled = np.exp(found.level) * found.values
            flip = np.exp(epsilon[below])
            values[:, below] = flip * np.stack([delta, -scaled, 1.0 - probability])
            values[0, below] -= np.expm1(epsilon[below])
            values[1, below] += 1.0
            errors[:, below] = flip * np.exp(found.level) * found.errors[[0, 2, 1]] + ROUNDING
        return Tails(values, errors, np.zeros(epsilon.size))

    def leveled(self, epsilon: FloatArray, *, inclusive: bool, deep: bool = False) -> Tails:
        """Tails at ε >= 0 in units of their levels, ``deep``: where they are below floats too."""
        total, found = self.total, Tails.none(epsilon.size)
        if len(total.parts) == 1 and isinstance(total.parts[0][0], GaussianLoss):
            law = total.parts[0][0]
            log_sf = special.log_ndtr(0.5 * law.mu - epsilon / law.mu)
            level = np.where(log_sf < UNDERFLOW + 70.0, log_sf, 0.0)
            found = _gaussian_tails(law, epsilon[:, None], -level[:, None], level)
        else:
            top = np.abs(epsilon - total.largest) <= SAME * epsilon
            if inclusive:
                found.values[1:, top], found.errors[1:, top] = 1.0, SUMMATION
                found.level[top] = sum(count * law.log_top for law, count in total.parts)
            inner = np.flatnonzero((epsilon < total.largest) & ~top)
            if inner.size:
                where = epsilon[inner]
                if self.alone is not None:
                    where = atom_above(self.alone, where, inclusive)[0]
                for name, stretch, at in self._ladder.stretches(where, deep=deep):
                    at = inner[at]
                    found.put(at, self._at_tilt(name, stretch, epsilon[at], inclusive))
        moved = PARAMETERS * (epsilon + total.mean + 10.0 * float(np.sqrt(total.variance)))
        found.errors[0] += moved * found.values[2]
        return found

    def _at_tilt(
        self, name: Hashable, stretch: Stretch, epsilon: FloatArray, inclusive: bool
    ) -> Tails:
        plan, theta = self._plan, stretch.theta
        if not plan.separate or (plan.laplace and self._faded(theta)):
            nodes = self._keep("line", name, lambda: self._line(stretch, TAILS))
            values, errors = nodes(epsilon)
            return Tails(values, errors, stretch.level(epsilon))
        if not plan.laplace:
            return self._listed(name, stretch, epsilon, inclusive)
        found, left = Tails.none(epsilon.size), np.ones(epsilon.size, dtype=bool)
        if not plan.base:
            poles = _number(plan.laplace)
            tilts, far = away_from_poles(self.total, poles, epsilon, theta)
            for i in np.flatnonzero(far):
                e, tilt = float(epsilon[i]), float(tilts[i])
                one = hyperbola(self.total, plan.laplace, plan.listed, e, tilt, inclusive)
                found.put(slice(i, i + 1), one)
            left = ~far
        if left.any():
            some = self._mixed(stretch, epsilon[left], inclusive)
            if some is None:
                some = self._listed(name, stretch, epsilon[left], inclusive)
                nodes = self._keep("densities", name, lambda: self._densities(stretch))
                some = some.more(*nodes(epsilon[left]))
            found.put(left, some)
        return found

    def _line(self, stretch: Stretch, payoffs: Payoffs) -> Nodes:
        def part(z: ComplexArray) -> tuple[ComplexArray, FloatArray]:
            log_ratio, noise = self.total.noisy_cgf(z)
            return np.exp(log_ratio - stretch.log_m), noise

        bound = left_over(self.total.parts, stretch.theta)
        return continuous_line(self.total, part, bound, stretch, payoffs)

    def _faded(self, theta: float) -> bool:
        """Whether next to nothing of the tilted law is on the atoms of all Laplace losses."""
        at = np.ones(1)
        log_share = sum(k * np.log(law.shares(at, theta)[0]) for law, k in self._plan.laplace)
        return bool(log_share < np.log(ATOMS_MATTER if self._plan.base else FADED))

    def _keep(self, kind: str, name: Hashable, make: Callable[[], Any]) -> Any:
        if (kind, name) not in self._kept:
            self._kept[kind, name] = make()
        return self._kept[kind, name]

    def _listed(
        self, name: Hashable, stretch: Stretch, epsilon: FloatArray, inclusive: bool
    ) -> Tails:
        """Tails of the base, mixed over the values that are listed."""
        plan, everything = self._plan, self._plan.laplace + self._plan.listed
        theta, level, narrow, shifts = self._list(name, stretch, epsilon)
        if plan.lattice is not None:
            nodes = self._keep("circle", name, lambda: self._circle(stretch, lattice_tails))
            found = on_circle(nodes, plan.lattice, shifts, stretch, epsilon, inclusive).at(level)
            return found.more(np.zeros(1), self._listing * found.values)
        values, x, log_mass = self._untilted(everything, shifts, theta, epsilon)
        if plan.base:
            base_law = plan.base[0][0]
            assert isinstance(base_law, GaussianLoss)
            found = _gaussian_tails(base_law, x, log_mass, level)
            return found.more(np.zeros(1), self._listing * found.values)
        x[np.abs(x) <= SAME * np.maximum(np.abs(values), epsilon[:, None])] = 0.0
        terms = np.exp(log_mass) * step_payoffs(-x, inclusive)
        tails = terms.sum(axis=-1)
        if not narrow:
            return Tails(tails, (SUMMATION + self._listing) * tails, level)
        trust = (
            self._listing / ROUNDING
            + 50.0
            + 4.0 * self.total.noise(theta)
            + 4.0 * theta * np.abs(values)
        )
        return Tails(tails, ROUNDING * (terms @ trust) + unlisted(theta), level)

    def _circle(self, stretch: Stretch, payoffs: Callable[[float], Payoffs]) -> Nodes:
        assert self._plan.lattice is not None
        there = payoffs(self._plan.lattice.width)
        return lattice_circle(
            Total(self._plan.base), self._plan.lattice, self.total, stretch, there
        )

    @property
    def has(self) -> tuple[bool, bool]:
        """Whether the law has atoms only, and whether it has a density only, that can be found."""
        laws = {type(law) for law, _ in self.total.parts}
        plan, smooth = self._plan, GaussianLoss in laws
        atoms = plan.separate and not smooth and LaplaceLoss not in laws
        return atoms, smooth and not (plan.separate and plan.laplace)

    def local(self, x: FloatArray) -> FloatArray:
        """P(L = x), or the density of L at x, for laws that have one of them only."""
        size, found = np.abs(x), np.zeros(x.size)
        for name, stretch, at in self._ladder.stretches(size):
            found[at] = self._local(name, stretch, size[at])
        # Q against P has the same law
        return np.asarray(np.maximum(found, 0.0) * np.exp(np.minimum(x, 0.0)))

    def _local(self, name: Hashable, stretch: Stretch, x: FloatArray) -> FloatArray:
        plan = self._plan
        if not plan.separate:
            nodes = self._keep("density", name, lambda: self._line(stretch, DENSITY))
            return np.asarray(np.exp(stretch.level(x)) * nodes(x)[0][0])
        theta, level, _, shifts = self._list(name, stretch, x)
        scale = np.exp(level)
        _, away, log_mass = self._untilted(plan.listed, shifts, theta, x)
        if plan.lattice is not None:
            nodes = self._keep("masses", name, lambda: self._circle(stretch, lattice_masses))
            place = plan.lattice.place(away, GIVEN)
            rows, columns = np.nonzero(place == np.rint(place))
            some = nodes(away[rows, columns])[0][0] * shifts[1][columns]
            return np.asarray(scale * np.bincount(rows, some, x.size))
        if plan.base:
            mu = plan.base[0][0].variance ** 0.5
            each = log_mass - 0.5 * np.square(away / mu - 0.5 * mu)
            return np.asarray(scale * np.exp(each).sum(axis=-1) / (mu * np.sqrt(2.0 * np.pi)))
        same = np.abs(away) <= GIVEN * self.total.largest
        return np.asarray(scale * np.exp(np.where(same, log_mass, -np.inf)).sum(axis=-1))

    def _list(
        self, name: Hashable, stretch: Stretch, epsilon: FloatArray
    ) -> tuple[float, FloatArray, bool, Atoms]:
        """Tilt and levels of a list, whether values are left out of it, values and masses."""
        theta, plan = stretch.theta, self._plan
        narrow = bool(plan.base or plan.laplace)
        if not narrow and stretch.low < stretch.high:
            # enough to keep masses from underflow, and small enough to lose nothing by rounding
            theta = min(theta, MOST_TILT / self.total.largest)
        level = self.total.real_cgf(theta) - theta * epsilon
        listed = plan.laplace + plan.listed
        shifts = self._keep("listed", name, lambda: tilted_atoms(listed, theta, window=narrow))
        return theta, level, narrow, shifts

    def _untilted(
        self, parts: Parts, shifts: Atoms, theta: float, epsilon: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values, how far each ε is above them, and logarithms of their masses over the level."""
        values, mass = shifts
        x = epsilon[:, None] - values
        others = self.total.real_cgf(theta) - Total(parts).real_cgf(theta)
        with np.errstate(divide="ignore"):
            return values, x, np.log(mass) + theta * x - others

    def _mixed(self, stretch: Stretch, epsilon: FloatArray, inclusive: bool) -> Tails | None:
        """Tails of the Laplace losses, mixed over the values of the others if few are near."""
        others = self._plan.base + self._plan.listed
        if not others or number_of_atoms(others) > MOST_EXPONENTIALS:
            return None
        shifts = tilted_atoms(others, stretch.theta)
        _, x, log_mass = self._untilted(others, shifts, stretch.theta, epsilon)
        if (np.abs(x) <= self._laplace.total.largest).sum() > MOST_MIXED * epsilon.size:
            return None
        found = self._laplace.tails(x.ravel(), inclusive=inclusive)
        errors = found.errors + (SUMMATION + 4.0 * ROUNDING * _number(others)) * found.values
        # where a mass is beyond floats, the tails that go with it are zero
        shape, mass = (3, *x.shape), np.exp(np.minimum(log_mass, 700.0))
        values, errors = ((v.reshape(shape) * mass).sum(axis=-1) for v in (found.values, errors))
        return Tails(values, errors + unlisted(stretch.theta), stretch.level(epsilon))

    @cached_property
    def _laplace(self) -> Inversion:
        return Inversion(self._plan.laplace)

    def _densities(self, stretch: Stretch) -> Nodes:
        """Nodes of what has a density of a Laplace loss in it."""
        plan = self._plan
        others = Total(
            [(law, k) for law, k in self.total.parts if not isinstance(law, LaplaceLoss)]
        )

        def part(z: ComplexArray) -> tuple[ComplexArray, FloatArray]:
            log_atoms, noise = others.noisy_cgf(z)
            noise += Total(plan.laplace).noisy_cgf(z)[1]
            log_atoms -= stretch.log_m
            log_more = np.zeros_like(z)
            for law, count in plan.laplace:
                log_atoms += count * law.log_atomic(z)
                log_more += count * special.log1p(law.density_ratio(z))
            # where one factor may be beyond floats and the product is not, apart
            if log_more.real.max() > LARGE:
                return np.exp(log_atoms + log_more) - np.exp(log_atoms), noise
            return np.exp(log_atoms) * special.expm1(log_more), noise

        bound = left_over(others.parts, stretch.theta)
        bound = without_atoms(plan.laplace, stretch.theta, bound)
        return continuous_line(self.total, part, bound, stretch, TAILS)


@dataclass(frozen=True)
class _Plan:
    """How a sum is taken apart: a base, laws of few values, and Laplace losses among those."""

    base: Parts = ()
    lattice: Lattice | None = None
    listed: Parts = ()
    laplace: tuple[tuple[LaplaceLoss, int], ...] = ()
    separate: bool = True


def _plan(parts: Parts) -> _Plan:
    gaussian = tuple(p for p in parts if isinstance(p[0], GaussianLoss))
    if gaussian and len(parts) > 1 and _smooth(gaussian[0][0], Total(parts)):
        return _Plan(separate=False)
    laplace = tuple((law, k) for law, k in parts if isinstance(law, LaplaceLoss))
    groups = lattice_groups(tuple(p for p in parts if p[0].lattice is not None))
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
    most = MOST_ATOMS if base else MOST_EXPONENTIALS
    if number_of_atoms(beside) > most:
        return _Plan(separate=False)
    lattice = None if gaussian or not base else common_lattice(base, FEW_NODES)
    return _Plan(base, lattice, listed, laplace)


def _smooth(law: object, total: Total) -> bool:
    assert isinstance(law, GaussianLoss)
    return law.squared > 1e-4 * total.variance


def _number(parts: Iterable[tuple[Part, int]]) -> int:
    return sum(count for _, count in parts)


def _gaussian_tails(
    law: GaussianLoss, epsilon: FloatArray, log_mass: FloatArray, level: FloatArray
) -> Tails:
    """Tails of a normal loss, mixed over shifts: δ(-ε) = 1 - e^-ε + e^-ε·δ(ε)."""
    mu = law.mu
    size = np.abs(epsilon)
    delta = GDP(mu).delta_at(size)
    delta = np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
    above = special.log_ndtr(0.5 * mu - epsilon / mu) + log_mass
    scaled = epsilon + special.log_ndtr(-0.5 * mu - epsilon / mu) + log_mass
    # where a mass is beyond floats, δ is zero
    terms = np.stack([delta * np.exp(np.minimum(log_mass, 700.0)), np.exp(above), np.exp(scaled)])
    values = terms.sum(axis=-1)
    return Tails(values, CLOSED_FORM * values, level)
