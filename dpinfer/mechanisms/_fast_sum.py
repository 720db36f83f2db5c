"""Weighted sums of noises whose tails are needed at very many points: tabulated once."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._numerics.chebyshev import HalfLineTable
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._sums.convolved import AtomTable
from dpinfer.mechanisms._sums.route import Route
from dpinfer.mechanisms._sums.split import lattice_table
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.laplace import Laplace
from dpinfer.mechanisms.weighted_sum import WeightedSum

_MOST_ATOMS = 1 << 22
"""Number of atoms up to which the atoms of a sum are listed."""

_NEGLIGIBLE = 1e-18
"""Probability of the tail beyond which atoms are left out."""

_ACCURATE = 1e-10
"""Smaller tails are not accurate, relatively, in a table of atoms from a Fourier transform."""

_TABLES = 1e-12
"""Smaller probabilities are not accurate, relatively, in any table of whole-numbered noise."""

_SLACK = 1e-8
"""Points this far above an atom, in units of the largest weight, count as that atom."""


def fast_sum(weights: FloatArray, laws: list[NoiseLaw]) -> NoiseLaw:
    """Law of Σ wᵢeᵢ for laws with scalar parameters, made for evaluation at many points.

    A table takes the place of :class:`WeightedSum` where there are several terms: of the logarithm
    of the tail for Laplace and Gaussian noise (to 1e-12), of all atoms for whole-numbered noise if
    they are not too many, otherwise of its lattice (to 1e-12). Other sums are what they were.
    """
    terms = [
        (abs(float(weight)), law)
        for weight, law in zip(weights, laws, strict=True)
        if weight != 0 and not isinstance(law, Exact)
    ]
    if not terms:
        return Exact()
    if len(terms) == 1:
        weight, law = terms[0]
        if weight == 1.0:
            return law
        if isinstance(law, Laplace):
            return Laplace(scale=weight * float(law.scale))
    total = WeightedSum([weight for weight, _ in terms], [law for _, law in terms])
    kinds: set[type[NoiseLaw]] = {type(law) for _, law in terms}
    if kinds == {Gaussian}:
        return Gaussian(sigma=float(total.std))
    smooth: set[type[NoiseLaw]] = {Laplace, Gaussian}
    if kinds <= smooth:
        finest = min(weight * float(law.std) for weight, law in terms) / 8.0
        return _SmoothSum(total, finest)
    if all(law.is_integer for _, law in terms):
        reach = [float(law.isf(_NEGLIGIBLE)) for _, law in terms]
        if np.prod([2.0 * r + 1.0 for r in reach]) <= _MOST_ATOMS:
            return _AtomicSum(total, terms, reach)
        if (route := lattice_table(total._terms)) is not None:
            return _LatticeSum(total, route)
    return total


def untabulated(law: NoiseLaw) -> NoiseLaw:
    """Return the law without its table: slower, and accurate in far tails."""
    return law._law if isinstance(law, _Tabulated) else law


def spacing_of(law: NoiseLaw) -> float:
    """Distance of neighbouring values of a law that is not certain; 0 where there is no lattice."""
    law = untabulated(law)
    return law._route.spacing if isinstance(law, WeightedSum) else float(law.is_integer)


class _Tabulated(NoiseLaw):
    """A law with a table for its distribution function."""

    def __init__(self, law: WeightedSum) -> None:
        self._law = law

    @property
    def is_integer(self) -> bool:
        return self._law.is_integer

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def take(self, index: Any) -> NoiseLaw:
        return self

    @property
    def _floor(self) -> FloatArray | float:
        return max(_TABLES, float(self._law._floor))

    def _variance(self) -> FloatArray:
        return self._law._variance()

    def _sf(self, x: FloatArray) -> FloatArray:
        return self._law._sf(x)

    def _logcdf(self, x: FloatArray) -> FloatArray:
        return self._law._logcdf(x)

    def _logsf(self, x: FloatArray) -> FloatArray:
        return self._law._logsf(x)

    def _ppf(self, q: FloatArray) -> FloatArray:
        return self._law._ppf(q)

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._law._isf(q)

    def _cf(self, t: FloatArray) -> FloatArray:
        return self._law._cf(t)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return self._law._rvs(shape, rng)


@final
class _SmoothSum(_Tabulated):
    """A sum of Laplace and Gaussian noises: its tail is smooth on either side of zero."""

    def __init__(self, law: WeightedSum, finest: float) -> None:
        super().__init__(law)
        self._finest = finest

    @property
    def _floor(self) -> FloatArray | float:
        return self._law._floor

    @cached_property
    def _table(self) -> HalfLineTable:
        return HalfLineTable(self._law._logsf, self._finest)

    def _cdf(self, x: FloatArray) -> FloatArray:
        # beyond, the tail is zero in float64
        size = np.minimum(np.abs(x), 2000.0 * float(self._law.std))
        tail = np.exp(self._table(size))
        return np.where(x > 0, 1.0 - tail, tail)


@final
class _LatticeSum(_Tabulated):
    """A sum of whole-numbered noises on a lattice."""

    def __init__(self, law: WeightedSum, route: Route) -> None:
        super().__init__(law)
        self._route = route

    def _cdf(self, x: FloatArray) -> FloatArray:
        # by symmetry P(S <= x) = P(S >= -x)
        return self._route.tail(-x, closed=True)

    def _logcdf(self, x: FloatArray) -> FloatArray:
        """Logarithm of the tail; Chernoff's bound where a table of atoms is no longer accurate."""
        if not isinstance(self._route, AtomTable):
            return super()._logcdf(x)
        tail = self._cdf(x)
        out = np.log(np.maximum(tail, _ACCURATE))
        far = tail < _ACCURATE
        if far.any():
            out[far] = np.minimum(out[far], self._law._grid.log_chernoff(-x[far]))
        return out


@final
class _AtomicSum(_Tabulated):
    """A sum of a few whole-numbered noises, by its atoms."""

    def __init__(
        self, law: WeightedSum, terms: list[tuple[float, NoiseLaw]], reach: list[float]
    ) -> None:
        super().__init__(law)
        self._terms = terms
        self._reach = reach

    @cached_property
    def _atoms(self) -> tuple[FloatArray, FloatArray]:
        """Places of the atoms, upwards, and the probability of each place or beyond."""
        places, pmf = np.zeros(1), np.ones(1)
        for (weight, law), reach in zip(self._terms, self._reach, strict=True):
            k = np.arange(-reach, reach + 1.0)
            chances = law._cdf(-np.abs(k)) - law._cdf(-np.abs(k) - 1.0)
            places = (places[:, np.newaxis] + weight * k).ravel()
            pmf = (pmf[:, np.newaxis] * chances).ravel()
        order = np.argsort(places)
        beyond = np.cumsum(pmf[order][::-1])[::-1]
        return places[order], np.append(beyond, 0.0)

    def _cdf(self, x: FloatArray) -> FloatArray:
        # by symmetry P(S <= x) = P(S >= -x)
        places, beyond = self._atoms
        slack = _SLACK * max(weight for weight, _ in self._terms)
        return np.minimum(beyond[np.searchsorted(places, -x - slack)], 1.0)
