"""Which ways there are to the tails of the statistic of given cells."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests._quadratic.binomial_count import BinomialCount
from dpinfer.hypothesis_tests._quadratic.enumeration import Enumeration, feasible
from dpinfer.hypothesis_tests._quadratic.inversion import Inversion
from dpinfer.hypothesis_tests._quadratic.lattice import Lattice, LatticeTable, table_cost
from dpinfer.hypothesis_tests._quadratic.noise_parts import noise_parts
from dpinfer.hypothesis_tests._quadratic.tails import Maker, Tails
from dpinfer.hypothesis_tests._quadratic.terms import Cells
from dpinfer.hypothesis_tests._quadratic.transform import Transform
from dpinfer.hypothesis_tests._quadratic.two_smooth import TwoSmoothCells
from dpinfer.hypothesis_tests._quadratic.two_whole import TwoWholeCells
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.laplace import Laplace

_FEW = 12
"""Up to so many cells φ decays so slowly that other routes are better, where there are any."""

_TOO_FEW = 3
"""Up to so many cells with whole-numbered noise, and no lattice, φ shows single atoms too large."""

_CHEAP, _LARGEST = 1e8, 2e9
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
        if table is not None and cost <= _CHEAP:
            yield table
        if feasible(cells, transform.circle):
            yield partial(Enumeration, cells, transform.circle)
        if table is not None and _CHEAP < cost <= _LARGEST:
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
