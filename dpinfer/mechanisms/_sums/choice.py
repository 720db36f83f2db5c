"""Which way to the law of a weighted sum its terms take, and sums that are split in two.

The terms alone decide, as each way states its error in advance. That of a quadratic statistic is
known at a point only, when its way is made, and losses on Poisson samples join what several say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.atoms import Atoms, added, weightiest
from dpinfer._numerics.lattice import GIVEN, common_spacing
from dpinfer.mechanisms._sums.contour import ContourSum, LatticeContour
from dpinfer.mechanisms._sums.lattice import (
    AtomTable,
    ConvolvedSum,
    LatticeSum,
    LatticeTable,
    PiecewiseSum,
    SteppedSum,
)
from dpinfer.mechanisms._sums.series import FourierSum, lattice_series, short_series
from dpinfer.mechanisms._sums.terms import (
    Block,
    CentredUniform,
    EqualPair,
    Route,
    SingleTerm,
    Tails,
    Terms,
    UniformSum,
)
from dpinfer.mechanisms.law import IntegerLaw, ParametricLaw
from dpinfer.mechanisms.laws import Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap

SPAN = 60.0
"""A lattice law with negligible mass left out is about this many standard deviations wide."""

MAX_LATTICE = 1 << 22
MAX_FOUND_LATTICE = 1 << 19
"""Larger ones, found among weights that are not multiples of the smallest, tend to be accidents."""

MAX_FINE_LATTICE = 1 << 28
"""Beyond, the weights are hardly known to a small part of the spacing."""

MAX_RATIO = 64
"""Weights of at most so many spacings are in simple ratios."""

SMALL_LATTICE = 1 << 14
FEW_ATOMS = 1 << 14
MAX_ATOMS = 1 << 18
MAX_HALF = 1 << 17
MAX_TABLE = 1 << 21
MAX_CLASSES = 12
TIGHT = 1e-12
"""Tolerance, in lattice spacings, for atoms inside a convolution: dense atoms must not merge."""

ROUNDING = 1e-15
"""Rounding error of a difference of points, as a share of the width of the law."""

LOG_LOSS = 40.0

LOG_STEPS = 160.0
"""Steps of a density of which e^-160 is left out are as many as this many scales. Where those are
too many to list, ``LOG_LOSS`` takes its place."""

MOST_STEPS = float(1 << 16)
SMALLEST_STEP = 1e-3
"""Of a listed density, in standard deviations of the other noise: a smaller one costs digits."""


@dataclass(frozen=True)
class LatticeTerms:
    terms: Terms
    spacing: float

    @property
    def points(self) -> float:
        """About how many lattice points carry the law."""
        return 1.0 + _width(self.terms) / self.spacing

    @property
    def alone(self) -> bool:
        return len(self.terms) == 1 and float(self.terms.blocks[0].counts[0]) == 1.0

    def route(self, atol: float = GIVEN) -> Route | None:
        if (few := closed_form(self.terms, atol) or two_integers(self.terms)) is not None:
            return few
        cheap = LatticeContour.takes(self.terms, self.spacing) and self.points > SMALL_LATTICE
        if cheap or self.points > MAX_LATTICE:
            if LatticeContour.serves(self.terms, self.spacing):
                return LatticeContour(self.terms, self.spacing, atol=atol)
            if self.points > MAX_LATTICE:
                return None
        return LatticeSum(self.terms, self.spacing, atol=atol)

    def table(self, atol: float) -> Tails | None:
        """Return the law of the part for very many points, where far tails need no accuracy."""
        found = closed_form(self.terms, atol)
        if found is None and self.points <= MAX_LATTICE:
            return LatticeTable(self.terms, self.spacing, atol=atol)
        return found or self.route(atol)

    def atoms(self, loss: float) -> tuple[Atoms, float]:
        """Atoms, and a bound on the mass left out: 2·exp(-loss) at most for a single term."""
        if not self.alone:
            *atoms, missing = LatticeSum(self.terms, self.spacing).atoms()
            return (atoms[0], atoms[1]), missing
        law = self.terms.blocks[0].law._take(0)
        assert isinstance(law, IntegerLaw)
        reach = float(law._isf(np.array(np.exp(-loss))))
        k = np.arange(-reach, reach + 1.0)
        return (k * self.spacing, np.exp(law._logpmf(k))), 2.0 * float(np.exp(-loss))


def closed_form(terms: Terms, atol: float = GIVEN) -> Route | None:
    if len(terms) != 1:
        return None
    block = terms.blocks[0]
    law, count, weight = block.law._take(0), block.counts[0], float(block.weights[0])
    if count == 2 and isinstance(law, Laplace | Geometric):
        return EqualPair(law, weight, atol=atol)
    return SingleTerm(law, weight, atol=atol) if count == 1 else None


def one_lattice(terms: Terms, *, largest: float | None = None) -> LatticeTerms | None:
    """Whole-numbered terms on one lattice of at most so many points, if there is such a one."""
    ratios = terms.weights / terms.weights.min()
    if largest is None:
        largest = MAX_LATTICE if (ratios == np.rint(ratios)).all() else MAX_FOUND_LATTICE
    found = common_spacing(terms.weights, smallest=_width(terms) / largest)
    return None if found is None else LatticeTerms(terms, found[0])


def lattice(terms: Terms) -> Route | None:
    """Whole-numbered noises with commensurate weights."""
    if len(terms.continuous):
        return None
    found = one_lattice(terms) or _simple_lattice(terms)
    return None if found is None else found.route()


def fine_lattice(terms: Terms) -> Route | None:
    """Take whole-numbered noises on a lattice of very many points, where the law is dense."""
    found = None if len(terms.continuous) else one_lattice(terms, largest=MAX_FINE_LATTICE)
    return None if found is None else lattice_series(terms, found.spacing)


def _simple_lattice(terms: Terms) -> LatticeTerms | None:
    """Weights in simple ratios are on a lattice however many points that has."""
    found = common_spacing(terms.weights, smallest=terms.weights.max() / MAX_RATIO)
    return None if found is None else LatticeTerms(terms, found[0])


def lattice_table(terms: Terms) -> Tails | None:
    """Take whole-numbered noises on one lattice, for very many points."""
    # whole weights have a common spacing for certain
    whole = bool((terms.weights == np.rint(terms.weights)).all())
    found = one_lattice(terms, largest=MAX_LATTICE if whole else None) or _simple_lattice(terms)
    if found is None:
        return None
    if found.points > SMALL_LATTICE and LatticeContour.serves(terms, found.spacing):
        return LatticeContour(terms, found.spacing, tabulated=True)
    if found.points > MAX_LATTICE:
        return None
    law = LatticeSum(terms, found.spacing, tabulated=True)
    if LatticeContour.takes(terms, found.spacing):
        return law
    *atoms, missing = law.atoms()
    return AtomTable((atoms[0], atoms[1]), missing, tolerance=1e-6 * found.spacing)


def tulap_and_another(terms: Terms) -> Route | None:
    """Take Tulap noise, and no more than one noise beside it, as it is."""
    parts = [] if terms.pair is None else list(terms.pair.singles())
    if len(parts) == 1 and parts[0].counts[0] == 2.0:
        parts = [Block(part.law, part.weights, np.ones(1)) for part in (parts[0], parts[0])]
    # listed in steps: the one with the larger weight, where both are such
    parts.sort(key=lambda part: (isinstance(part.law, Tulap), part.weights[0]), reverse=True)
    if not parts or not isinstance(listed := parts[0].law._take(0), Tulap):
        return None
    if len(parts) == 1:
        return closed_form(Terms(parts))
    a, b = (float(part.weights[0]) for part in parts)
    other = parts[1].law._take(0)
    if isinstance(other, IntegerLaw):
        lattice = LatticeTerms(Terms(parts[1:]), b)
        rest = SingleTerm(listed, a)
        return _convolved(terms, [lattice], rest) if lattice.points <= FEW_ATOMS else None
    excess = _EXCESS.get(type(other))
    depth = LOG_STEPS if LOG_STEPS * float(listed.scale) <= FEW_ATOMS else LOG_LOSS
    last = min(float(listed._bound), depth * float(listed.scale))
    bounds = [last, *([float(other._bound)] if isinstance(other, Tulap) else [])]
    narrow = a < SMALLEST_STEP * b * float(np.sqrt(other._variance()))
    if excess is None or narrow or any(MOST_STEPS < bound < np.inf for bound in bounds):
        return None
    edges, densities = listed._pieces(last)
    missing = 2.0 * float(listed._sf(edges[-1]))
    route = PiecewiseSum(
        edges, densities, missing, (a, b), partial(excess, other), other._sf, terms.grid
    )
    route.supremum = terms.supremum
    return route


def _laplace_excess(law: ParametricLaw, y: FloatArray) -> FloatArray:
    scale = law._parameters()["scale"]
    return np.asarray(0.5 * scale * np.exp(-y / scale))


def _gaussian_excess(law: ParametricLaw, y: FloatArray) -> FloatArray:
    """E[max(Z - y, 0)] = σ·φ(z)·(1 - z·P(Z > y)/φ(z)) with z = y/σ >= 0."""
    sigma = law._parameters()["sigma"]
    z = y / sigma
    left = 1.0 - z * np.sqrt(0.5 * np.pi) * special.erfcx(z * np.sqrt(0.5))
    return np.asarray(sigma * np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi) * left)


_EXCESS: dict[type[ParametricLaw], Callable[[Any, FloatArray], FloatArray]] = {
    Tulap: Tulap._expected_excess,
    Laplace: _laplace_excess,
    Gaussian: _gaussian_excess,
}


def smooth_route(terms: Terms) -> Tails | None:
    """Take a law with a density, whose tail is cheap at very many points."""
    if (alone := closed_form(terms)) is not None:
        return alone
    if terms.consist_of(CentredUniform):
        (block,) = terms.blocks
        widths = np.repeat(block.weights, block.counts.astype(np.intp))
        return UniformSum(widths) if UniformSum.takes(widths) else None
    return ContourSum(terms, tabulated=True) if terms.consist_of(Laplace, Gaussian) else None


def lattice_and_smooth(terms: Terms, most: int = FEW_ATOMS) -> Route | None:
    """Take a whole-numbered part, enumerated, plus a part with a density."""
    whole, smooth = terms.integer, terms.continuous
    if not len(smooth) or not len(whole):
        return None
    rest, classes = smooth_route(smooth), lattices(whole)
    if rest is None or classes is None:
        return None
    if np.prod([part.points for part in classes]) <= most:
        return _convolved(terms, classes, rest)
    return _stepped(terms, classes, smooth, rest)


def large_lattice_and_smooth(terms: Terms) -> Route | None:
    """Take the same with many more atoms, where nothing cheaper is accurate."""
    return lattice_and_smooth(terms, MAX_ATOMS)


def _stepped(terms: Terms, classes: list[LatticeTerms], smooth: Terms, rest: Tails) -> Route | None:
    """Take a wide lattice and a narrow density."""
    reach = smooth.grid.tilted_range(0.0, LOG_LOSS)[1]
    narrow = 20.0 * smooth.std < terms.std and reach < MAX_ATOMS * classes[0].spacing
    wide = classes[0].route(TIGHT) if narrow and len(classes) == 1 else None
    return None if wide is None else SteppedSum(rest, reach, wide, terms.grid)


def several_lattices(terms: Terms, most: int = FEW_ATOMS) -> Route | None:
    """Whole-numbered noises on a few lattices that have no common refinement, or a fine one."""
    classes = None if len(terms.continuous) else lattices(terms)
    if classes is None or len(classes) < 2:
        return None
    classes.sort(key=lambda part: part.points)
    points = [part.points for part in classes]
    if np.prod(points[:-1]) <= most:
        # differences of a point and an atom have the rounding errors of both
        rounding = ROUNDING * _width(terms) / classes[-1].spacing
        rest = classes[-1].table(max(TIGHT, rounding))
        return None if rest is None else _convolved(terms, classes[:-1], rest)
    return None


def many_lattices(terms: Terms) -> Route | None:
    """Take the same with many more atoms, where nothing cheaper is accurate."""
    if (found := several_lattices(terms, MAX_ATOMS)) is not None:
        return found
    classes = None if len(terms.continuous) else lattices(terms)
    if classes is None:
        return None
    classes.sort(key=lambda part: part.points)
    points = [part.points for part in classes]
    # meet in the middle: a sorted table of half of the parts
    for number in range(1, len(classes) - 1):
        if np.prod(points[:number]) <= MAX_HALF and np.prod(points[number:]) <= MAX_TABLE:
            atoms, missing = _enumerate(classes[number:], LOG_LOSS)
            table = AtomTable(atoms, missing, tolerance=TIGHT * terms.std)
            return _convolved(terms, classes[:number], table)
    return None


def lattices(terms: Terms) -> list[LatticeTerms] | None:
    """Sort terms into parts with a lattice each; None where there are too many parts."""
    classes: list[LatticeTerms] = []
    for block in terms.singles():
        term = Terms([block])
        for number, part in enumerate(classes):
            joint = one_lattice(Terms.join(part.terms, term))
            if joint is not None:
                classes[number] = joint
                break
        else:
            classes.append(LatticeTerms(term, float(block.weights[0])))
        if len(classes) > MAX_CLASSES:
            return None
    return classes


def two_integers(terms: Terms) -> Route | None:
    """Take two whole-numbered noises: all terms positive, so every tail is accurate."""
    parts = [LatticeTerms(Terms([block]), float(block.weights[0])) for block in terms.singles()]
    if len(terms.continuous) or len(parts) != 2 or not all(part.alone for part in parts):
        return None
    narrow, wide = sorted(parts, key=lambda part: part.points)
    joint = one_lattice(terms)
    rest = wide.route(GIVEN if joint else TIGHT)
    if rest is None or narrow.points > SMALL_LATTICE:
        return None
    return _convolved(terms, [narrow], rest, joint.spacing if joint else 0.0)


def _convolved(
    terms: Terms, classes: list[LatticeTerms], rest: Tails, spacing: float = 0.0
) -> Route:
    # one part in closed form can be listed down to the smallest floats
    (narrow, *others) = classes
    deep = narrow.alone and not others and narrow.points < SMALL_LATTICE
    atoms, missing = _enumerate(classes, 740.0 if deep else LOG_LOSS)
    part = Terms([block for lattice in classes for block in lattice.terms.blocks])
    reach = part.grid.tilted_range(0.0, LOG_LOSS)[1]
    return ConvolvedSum(atoms, missing, reach, rest, terms.grid, spacing)


def _enumerate(classes: list[LatticeTerms], loss: float) -> tuple[Atoms, float]:
    """Atoms of the sum of the parts, and a bound on the mass left out."""
    atoms, missing = classes[0].atoms(loss)
    for part in classes[1:]:
        more, lost = part.atoms(loss)
        places, masses = added(atoms, more)
        kept, dropped = weightiest(masses, float(np.exp(-loss)))
        kept = kept[np.argsort(places[kept])]
        atoms = places[kept], masses[kept]
        missing += lost + dropped
    return atoms, missing


def _width(terms: Terms) -> float:
    """Of the law: many standard deviations, and a step to each side where it is nearly always 0."""
    return max(SPAN * terms.std, 2.0 * float(terms.weights.max()))


# Choice of the route to the law of a weighted sum: the first that takes the terms.


def choose_route(terms: Terms) -> Route:
    return next(route for candidate in ROUTES if (route := candidate(terms)) is not None)


def _point_mass(terms: Terms) -> Route | None:
    return None if len(terms) else SingleTerm(Exact(), 1.0)


def _smooth(terms: Terms) -> Route | None:
    return ContourSum(terms) if terms.consist_of(Laplace, Gaussian) else None


ROUTES: tuple[Callable[[Terms], Route | None], ...] = (
    _point_mass,
    closed_form,
    tulap_and_another,
    _smooth,
    two_integers,
    lattice,
    lattice_and_smooth,
    short_series,
    several_lattices,
    fine_lattice,
    large_lattice_and_smooth,
    many_lattices,
    FourierSum,
)
