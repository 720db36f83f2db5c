"""Choice of the route to the law of a weighted sum: the first that takes the terms."""

from __future__ import annotations

from collections.abc import Callable

from dpinfer.mechanisms._sums.contour import ContourSum
from dpinfer.mechanisms._sums.fourier import FourierSum, short_series
from dpinfer.mechanisms._sums.route import Route, SingleTerm
from dpinfer.mechanisms._sums.split import (
    fine_lattice,
    large_lattice_and_smooth,
    lattice,
    lattice_and_smooth,
    several_lattices,
    single_term,
    tulap_and_another,
    two_integers,
)
from dpinfer.mechanisms._sums.terms import Terms
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.laplace import Laplace


def choose_route(terms: Terms) -> Route:
    """Return the first route that takes the terms."""
    return next(route for candidate in ROUTES if (route := candidate(terms)) is not None)


def _point_mass(terms: Terms) -> Route | None:
    """No terms: always zero."""
    return None if len(terms) else SingleTerm(Exact(), 1.0)


def _smooth(terms: Terms) -> Route | None:
    """Laplace and Gaussian noises only."""
    return ContourSum(terms) if terms.consist_of(Laplace, Gaussian) else None


ROUTES: tuple[Callable[[Terms], Route | None], ...] = (
    _point_mass,
    single_term,
    tulap_and_another,
    _smooth,
    two_integers,
    lattice,
    lattice_and_smooth,
    short_series,
    fine_lattice,
    large_lattice_and_smooth,
    several_lattices,
    FourierSum,
)
