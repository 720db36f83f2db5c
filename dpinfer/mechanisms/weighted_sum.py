"""The law of a weighted sum of independent noises, and tables of it for very many points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cached_property, partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import FloatArray, Numbers, check_array, check_moments
from dpinfer._numerics.atoms import AtomTails, added
from dpinfer._numerics.inversion import HalfLineTable, SaddleGrid
from dpinfer._numerics.lattice import slices
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._sums.choice import choose_route, lattice_table
from dpinfer.mechanisms._sums.lattice import AtomTable
from dpinfer.mechanisms._sums.series import FourierSum
from dpinfer.mechanisms._sums.terms import Route, collect, kinds
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, as_noise, groups
from dpinfer.mechanisms.law import INTEGER_RANGE, NoiseLaw, Origin, Share, are_dependent
from dpinfer.mechanisms.laws import Exact, Gaussian, Laplace

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix


SMALLEST_WEIGHT = 1e-100
LARGEST_WEIGHT = 1e100
SHARED_DIGITS = 12
DRAWS = 1 << 22

_FEW_TERMS = 4  # whole-numbered terms of different weights whose atoms are listed soon
_MOST_WEIGHTS = 100_000_000
_CANCELLED = 1e-13
"""What is left of weights that cancel, relative to them, is rounding."""


@final
class WeightedSum(NoiseLaw):
    """Exact law of ``sum(weights * noise)`` for independent noises, possibly of mixed kinds.

    This is the noise of any linear function of published values: a total of cells, a difference
    of two regions, an estimate that combines overlapping tables.

    Parameters
    ----------
    weights : array of float, shape (m,)
        The weight of each noise. Zero weights drop out and signs do not matter, the noises being
        symmetric. Weights that are not zero lie between 1e-100 and 1e100 in size.
    mechanism : NoiseLaw or sequence of NoiseLaw
        One law for all noises, or one for each.

    Attributes
    ----------
    error_bound : float
        Bound on the absolute error of ``cdf`` and ``sf``.

    Raises
    ------
    InvalidParameterError
        If a weight is NaN, infinite or out of range, or the mechanism does not fit the weights.

    Notes
    -----
    Terms with the same law and the same absolute weight are counted, not repeated. Errors of
    estimates from one release, such as those of :meth:`dpinfer.estimation.CombinedEstimate.noise`,
    know of which noises they are made: their sums have the law that follows from these. All other
    terms are independent. The way to the law follows from the terms:

    - a single term, two of one Laplace or geometric law, or Gaussian terms only: closed
      form;
    - Laplace and Gaussian terms: P(S > x) = (1/2πi)∫ exp(K(s) - sx) ds/s, with K the cumulant
      generating function, along a hyperbola through the saddle point;
    - Tulap noise and one other noise: the steps of its density, up to 2¹⁶ of them, each times the
      mean of the other tail over an interval, in closed form;
    - whole-numbered terms whose weights have a common spacing: the law on that lattice, by
      discrete Fourier transforms of exponentially tilted laws (or the hyperbola again, where all
      weights are equal and the scales large);
    - the same on a very fine lattice: its finite Fourier series, of which few terms matter once
      many different weights are in the sum;
    - a few different lattices, or lattices and a part with a density: one part is enumerated,
      P(S > x) = Σ_a P(A = a)·P(B > x - a);
    - anything else: the Fourier series of the distribution function.

    The terms of a series that matter are found by bounds on the characteristic function over whole
    runs of terms, so that a series may be very long.

    ``error_bound`` is below 1e-10 with one exception: more whole-numbered terms than can be
    enumerated, without a common spacing, have a law of dense atoms whose characteristic function
    does not decay. Probabilities are then the middle of a rigorous bracket, ``error_bound`` is its
    half-width (1e-12 to 1e-6 with dozens of different weights, up to 1e-4 with few; more where few
    atoms hold most of the probability), and ``isf`` and ``ppf`` take the conservative end. Far
    tails are accurate to about 10 digits, relatively, by the closed forms, contour integrals and
    lattices of up to 8 million points; elsewhere they are accurate down to about 1e-16, or
    ``error_bound`` where a series is summed, and reported from above beyond.

    A point within rounding of an atom counts as that atom.

    Examples
    --------
    >>> from dpinfer.mechanisms import Gaussian, Geometric, Laplace
    >>> total = WeightedSum(np.ones(3), Laplace(scale=2.0))
    >>> total.isf(0.025).round(9)
    np.float64(9.937192)
    >>> change = WeightedSum([1, -1], [Geometric(scale=2.0), Gaussian(sigma=3.0)])
    >>> change.variance.round(9), change.sf([0.0, 5.0]).round(9)
    (np.float64(16.835396178), array([0.5       , 0.10372245]))
    >>> change.pdf(0.0).round(6), total.stats("k").round(6)
    (np.float64(0.103517), np.float64(1.0))
    """

    _rest: tuple[tuple[FloatArray, NoiseLaw], ...] = ()
    """Noises in the sum beside those of its shares, with their weights."""

    _table: _Table | None = None
    """Of a sum that :func:`fast_sum` made, for its distribution function."""

    def __init__(self, weights: ArrayLike, mechanism: Mechanism) -> None:
        checked = check_array(weights, "weights", ndim=1, nonempty=False)
        _check_magnitude(checked)
        law = as_noise(mechanism, len(checked), dependence="used")
        self._set(checked, law, _Noises.of(law, len(checked)) if law._shares else None)

    @classmethod
    def of_shares(cls, shares: Sequence[Share]) -> Self:
        """Law of a sum of noises of which it is known which they are."""
        total = cls.__new__(cls)
        sizes = [len(share.weights) for share in shares]
        stops = np.cumsum([0, *sizes])
        parts = [
            (law, start + cells)
            for share, start in zip(shares, stops[:-1], strict=True)
            for law, cells in groups(share.law, len(share.weights))
        ]
        weights = np.concatenate([share.weights for share in shares]) if shares else np.empty(0)
        law = IndependentNoise.from_groups(parts, len(weights)) if shares else Exact()
        _check_magnitude(weights)
        total._set(weights, law, None)
        total._shares = tuple(part for share in shares for part in share.with_variance())
        return total

    def _set(self, weights: FloatArray, law: NoiseLaw, noises: _Noises | None) -> None:
        if noises is not None:
            weights, law = noises.weights_of(weights[np.newaxis])[0], noises.law
            _check_magnitude(weights)
            self._shares = noises.shares(weights)
            self._rest = noises.rest(weights)
        try:
            self._terms = collect(weights, groups(law, len(weights)))
        except InvalidParameterError as error:
            raise InvalidParameterError(
                f"weights must keep the noise within the range of its law: {error}"
            ) from error

    @property
    def is_integer(self) -> bool:
        """Whether the sum takes whole numbers only."""
        return all(
            block.law.is_integer and bool((block.weights == np.floor(block.weights)).all())
            for block in self._terms.blocks
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the law: ``()``, it is the law of one number."""
        return ()

    def take(self, index: Any) -> WeightedSum:
        """Return this law, which serves every cell."""
        return self

    @property
    def error_bound(self) -> float:
        """Bound on the absolute error of ``cdf`` and ``sf``."""
        return self._route.error_bound

    @property
    def _floor(self) -> float:
        return max(self._route.floor, self._table.floor if self._table else 0.0)

    @property
    def _has_density(self) -> bool:
        return len(self._terms.continuous) > 0

    def pdf(self, x: ArrayLike) -> Numbers:
        """Density at ``x``, per unit of the sum; refused for sums of whole numbers.

        The error is that of :meth:`logpdf`.
        """
        return np.exp(self.logpdf(x))

    def logpdf(self, x: ArrayLike) -> Numbers:
        """Logarithm of the density at ``x``; -inf outside the support.

        It is accurate to about 1e-11 by a closed form or a contour integral, and to ``error_bound``
        times the highest density of the continuous part where whole numbers are in the sum.

        Raises
        ------
        InvalidParameterError
            If all noises are whole numbers, or the way to the law is a Fourier series of its
            distribution function, which does not give the density with a known error.
        """
        points = self._argument(x, "x")
        if not self._has_density:
            raise InvalidParameterError(
                "pdf must be of a law with a density, and this sum takes multiples of the weights "
                "only: use pmf"
            )
        return self._at_size(points, self._route.log_density, "pdf")

    def pmf(self, k: ArrayLike) -> Numbers:
        """Probability of exactly ``k``; refused where a noise has a density.

        The error is that of :meth:`logpmf`.
        """
        return np.exp(self.logpmf(k))

    def logpmf(self, k: ArrayLike) -> Numbers:
        """Logarithm of the probability of exactly ``k``; -inf where that is no value of the sum.

        A point within rounding of an atom counts as that atom. Probabilities are accurate to twice
        ``error_bound``; those of one noise, of two, or on a lattice of up to four million points,
        which are not a difference of tails, to about 1e-9 of themselves.

        Raises
        ------
        InvalidParameterError
            If a noise of the sum has a density, so that every value has probability 0, or the law
            is known within a bracket only, which does not tell where its atoms are.
        """
        points = self._argument(k, "k")
        if self._has_density:
            raise InvalidParameterError(
                "pmf must be of a law of atoms, and this sum has a density, as one of its noises "
                "has: use pdf"
            )
        return self._at_size(points, self._route.log_mass, "pmf")

    def _at_size(
        self, x: FloatArray, log: Callable[[FloatArray], FloatArray | None], name: str
    ) -> Numbers:
        """Logarithms at finite sizes, the law being symmetric."""
        out, inside = np.full(x.shape, -np.inf), np.isfinite(x)
        found = log(np.abs(x[inside])) if inside.any() else np.empty(0)
        if found is None:
            raise InvalidParameterError(
                f"{name} must be of a law that is not known by its {self._route.name} only, got "
                f"{self!r}: use differences of cdf"
            )
        out[inside] = found
        return out[()]

    def stats(self, moments: str = "mv") -> Any:
        """Return mean, variance, skewness and excess kurtosis, as the letters m, v, s, k ask.

        A tuple in this order, or a number for one letter. Fourth cumulants add up: the excess
        kurtosis is Σ w⁴·Var(e)²·kurtosis(e) in units of the squared variance of the sum; mean and
        skewness are 0, the law being symmetric. Of a sum without noise, skewness and kurtosis are
        refused.
        """
        letters = check_moments(moments)
        if not len(self._terms) and {"s", "k"} & set(letters):
            raise InvalidParameterError(
                "moments must be of 'mv' for a sum without noise, which has no shape, got "
                f"{moments!r}"
            )
        known = {
            "m": lambda: 0.0,
            "v": lambda: self._terms.variance,
            "s": lambda: 0.0,
            "k": lambda: self._terms.kurtosis,
        }
        found = tuple(np.float64(known[letter]()) for letter in letters)
        return found[0] if len(found) == 1 else found

    def chernoff(self, q: ArrayLike) -> Numbers:
        """Smallest t at which Chernoff's bound certifies P(sum >= t) <= ``q``, ``q`` in (0, 1).

        It is the minimum over s > 0 of (log E[exp(s·sum)] - log q)/s, never below ``isf(q)``.
        """
        checked = check_array(q, "q", gt=0, lt=1)
        if not len(self._terms):
            return np.zeros(checked.shape)[()]
        return self._grid.chernoff(checked)[()]

    def _log_chernoff(self, x: float) -> float:
        """Chernoff's bound on log P(sum >= ``x``), for x > 0."""
        return float(self._grid.log_chernoff(np.asarray(x)))

    def _log_at_most(self, x: float, degree: int) -> float:
        """Bound log P(sum >= ``x``), x > 0, by a series of some degree, where the law takes long.

        It is exact where that is cheap.
        """
        if len(self._terms.integer) <= _FEW_TERMS:
            return float(self.logcdf(-x))
        if degree not in self._brackets:
            self._brackets[degree] = FourierSum(self._terms, degree)
        return float(self._brackets[degree].log_at_most(np.array([x]))[0])

    @cached_property
    def _brackets(self) -> dict[int, FourierSum]:
        return {}

    def __repr__(self) -> str:
        shown = " + ".join(
            f"{int(block.counts.sum())} × {type(block.law).__name__}"
            for block in self._terms.blocks
        )
        return f"WeightedSum({shown or 'no noise'}; by {self._route.name})"

    @cached_property
    def _route(self) -> Route:
        return choose_route(self._terms)

    @cached_property
    def _untabulated(self) -> WeightedSum:
        self._route  # noqa: B018 both have the same one, with all that it keeps
        law = copy(self)
        law._table = None
        return law

    @property
    def _grid(self) -> SaddleGrid:
        return self._terms.grid

    def _variance(self) -> FloatArray:
        return np.asarray(self._terms.variance)

    def _cdf(self, x: FloatArray) -> FloatArray:
        # P(S <= x) = P(S >= -x): the law is symmetric
        return self._table.at_least(-x) if self._table else self._route.tail(-x, closed=True)

    def _sf(self, x: FloatArray) -> FloatArray:
        return self._route.tail(x)

    def _logcdf(self, x: FloatArray) -> FloatArray:
        if self._table is None or not self._table.rough:
            return self._route.logtail(-x, closed=True)
        tail = self._table.at_least(-x)
        out, far = np.log(np.maximum(tail, _ACCURATE)), tail < _ACCURATE
        if far.any():
            out[far] = np.minimum(out[far], self._grid.log_chernoff(-x[far]))
        return out

    def _logsf(self, x: FloatArray) -> FloatArray:
        return self._route.logtail(x)

    def _ppf(self, q: FloatArray) -> FloatArray:
        # cdf(x) >= q  <=>  P(S >= -x) >= q, and -x is the largest such point
        return -self._route.isf(q, strict=True)

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._route.isf(q)

    def _cf(self, t: FloatArray) -> FloatArray:
        return self._terms.cf(t, negligible=0.0)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        out = np.zeros(shape)
        for block in self._terms.blocks:
            which = np.repeat(np.arange(len(block)), block.counts.astype(np.intp))
            for columns in slices(len(which), DRAWS // max(out.size, 1)):
                part = block.take(which[columns])
                out += part.law._rvs((*shape, len(part)), rng) @ part.weights
        # sums wider than any one law on the whole numbers may leave the range of int64
        whole = self.is_integer and float(self.std) <= INTEGER_RANGE["le"]
        return out.astype(np.int64) if whole else out


def counted_sum(
    weights: FloatArray, counts: FloatArray, parts: Iterable[tuple[NoiseLaw, NDArray[np.intp]]]
) -> WeightedSum:
    """Return the law of the sum of terms of these weights, each so many times, by law."""
    _check_magnitude(weights)
    found = WeightedSum(np.empty(0), Exact())
    found._terms = collect(np.where(counts > 0, weights, 0.0), parts, counts)
    return found


def weighted_sums(
    weights: ArrayLike | csr_array | csr_matrix, mechanism: Mechanism
) -> list[WeightedSum]:
    """Laws of the weighted sums ``weights @ noise``, one for each row of the weights.

    Parameters
    ----------
    weights : array of float or scipy.sparse array, shape (k, m)
        The weights of each sum in a row.
    mechanism : NoiseLaw or sequence of NoiseLaw
        One law for all noises, or one for each of the m columns.

    Returns
    -------
    list of WeightedSum
        One law for each row. Rows with the same absolute weights of the same laws, up to the
        twelfth digit, share one object and with it all that it computes.

    Raises
    ------
    InvalidParameterError
        As for :class:`WeightedSum`.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> first, second = weighted_sums([[1, -1, 0], [0, 1, 1]], Laplace(scale=1.0))
    >>> first is second
    True
    """
    row, column, value, (rows, columns) = _entries(weights)
    _check_magnitude(value)
    law = as_noise(mechanism, columns, dependence="used")
    if are_dependent([law]):
        dense = np.zeros((rows, columns))
        dense[row, column] = value
        return weighted_sums(*on_noises(dense, law))
    kind = kinds(groups(law, columns), columns)[column]
    size = _rounded(np.abs(value))
    order = np.lexsort((size, kind, row))
    ends = np.searchsorted(row[order], np.arange(rows + 1))
    signature = np.column_stack([kind[order].astype(np.float64), size[order]])
    found: dict[bytes, WeightedSum] = {}
    out = []
    for start, stop in pairwise(ends):
        key = signature[start:stop].tobytes()
        if key not in found:
            used = order[start:stop]
            found[key] = WeightedSum(value[used], law._take(column[used]))
        out.append(found[key])
    return out


class _Noises(NamedTuple):
    """Errors as linear functions of independent noises, each of which is there once.

    The q noises are those of each origin, and then others of which it is not known which they are.
    """

    matrix: csr_array
    """Weights of the noises (q) in the errors (m), shape (m, q)."""

    law: NoiseLaw
    origins: tuple[tuple[Origin, NDArray[np.intp]], ...]
    """The positions of the noises among those of their origin."""

    @classmethod
    def of(cls, law: NoiseLaw, size: int) -> _Noises:
        """Take errors apart."""
        known: dict[Origin, list[_Part]] = {}
        other: list[_Part] = []
        for own, cells in groups(law, size):
            if isinstance(own, WeightedSum) and own._shares:
                for share in own._shares:
                    part = _Part.repeated(cells, share.positions, share.weights, share.law)
                    known.setdefault(share.origin, []).append(part)
                for weights, rest in own._rest:
                    other.append(_Part.repeated(cells, np.arange(len(weights)), weights, rest))
            else:
                at = np.arange(len(cells))
                other.append(_Part(cells, at, np.ones(len(cells)), at, own))
        return cls._joined(known, other, size)

    @classmethod
    def _joined(cls, known: dict[Origin, list[_Part]], other: list[_Part], size: int) -> _Noises:
        from scipy import sparse

        rows, columns, weights = [], [], []
        laws: list[tuple[NoiseLaw, NDArray[np.intp]]] = []
        origins = []
        width = 0
        for origin, parts in [*known.items(), *((None, [part]) for part in other)]:
            positions = np.concatenate([part.positions for part in parts])
            distinct, first, column = np.unique(positions, return_index=True, return_inverse=True)
            stops = np.cumsum([len(part.positions) for part in parts])
            starts = stops - [len(part.positions) for part in parts]
            for part, start in zip(parts, starts, strict=True):
                rows.append(part.rows)
                columns.append(width + column[start + part.noise])
                weights.append(part.weights)
            own = [
                (law, start + cells)
                for part, start in zip(parts, starts, strict=True)
                for law, cells in groups(part.law, len(part.positions))
            ]
            joint = IndependentNoise.from_groups(own, len(positions))._take(first)
            laws += [(law, width + cells) for law, cells in groups(joint, len(distinct))]
            if origin is not None:
                origins.append((origin, distinct))
            width += len(distinct)
        entries = np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))
        matrix = sparse.csr_array(entries, shape=(size, width))
        return cls(matrix, IndependentNoise.from_groups(laws, width), tuple(origins))

    def weights_of(self, rows: FloatArray) -> FloatArray:
        """Weights of the noises in sums of the errors, (k, q): 0 where they cancel to rounding."""
        if len(rows) * self.matrix.shape[1] > _MOST_WEIGHTS:
            raise InvalidParameterError(
                f"weights must have fewer rows: {len(rows)} sums of dependent errors, of "
                f"{self.matrix.shape[1]} noises each, would not fit into memory"
            )
        found = np.asarray((self.matrix.T @ rows.T).T)
        size = np.asarray((abs(self.matrix).T @ np.abs(rows).T).T)
        return np.where(np.abs(found) > _CANCELLED * size, found, 0.0)

    def shares(self, weights: FloatArray) -> tuple[Share, ...]:
        """Return the part of each origin in a sum with these weights of the noises, (q,)."""
        found, start = [], 0
        there = (weights != 0) & (np.broadcast_to(self.law.variance, weights.shape) > 0)
        for origin, positions in self.origins:
            used = np.flatnonzero(there[start : start + len(positions)])
            if len(used):
                law = self.law._take(start + used)
                found.append(Share(origin, positions[used], weights[start + used], law))
            start += len(positions)
        return tuple(found)

    def rest(self, weights: FloatArray) -> tuple[tuple[FloatArray, NoiseLaw], ...]:
        start = sum(len(positions) for _, positions in self.origins)
        used = start + np.flatnonzero(weights[start:])
        return ((weights[used], self.law._take(used)),) if len(used) else ()


class _Part(NamedTuple):
    """Noises (n) that bear on errors: entry by entry the error, which of the noises, its weight."""

    rows: NDArray[np.intp]
    noise: NDArray[np.intp]
    weights: FloatArray
    positions: NDArray[np.intp]
    law: NoiseLaw

    @classmethod
    def repeated(
        cls,
        cells: NDArray[np.intp],
        positions: NDArray[np.intp],
        weights: FloatArray,
        law: NoiseLaw,
    ) -> _Part:
        n, times = len(positions), len(cells)
        rows, noise = np.repeat(cells, n), np.tile(np.arange(n), times)
        return cls(rows, noise, np.tile(weights, times), positions, law)


def on_noises(weights: FloatArray, law: NoiseLaw) -> tuple[FloatArray, NoiseLaw]:
    """Return weights (k, q) on independent noises, and their law, for weights (k, m) on errors.

    They are what was given where the errors are independent.
    """
    if not are_dependent([law]):
        return weights, law
    noises = _Noises.of(law, weights.shape[1])
    return noises.weights_of(weights), noises.law


def _entries(
    weights: Any,
) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray, tuple[int, int]]:
    """Rows, columns and values of the entries that are not zero, and the shape."""
    if hasattr(weights, "tocoo"):
        entries = weights.tocoo()
        value = check_array(entries.data, "weights", ndim=1, nonempty=False)
        row, column = entries.row.astype(np.intp), entries.col.astype(np.intp)
        used = value != 0
        return row[used], column[used], value[used], entries.shape
    dense = check_array(weights, "weights", ndim=2, nonempty=False)
    row, column = np.nonzero(dense)
    return row, column, dense[row, column], dense.shape


def _rounded(size: FloatArray) -> FloatArray:
    unit = 10.0 ** (np.floor(np.log10(size)) - (SHARED_DIGITS - 1))
    return np.asarray(np.rint(size / unit) * unit)


def _check_magnitude(weights: FloatArray) -> None:
    """Refuse weights whose squares or reciprocals leave the range of floats."""
    size = np.abs(weights)
    bad = (size > 0) & ((size < SMALLEST_WEIGHT) | (size > LARGEST_WEIGHT))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise InvalidParameterError(
            f"weights must be 0 or between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g} in size, "
            f"got {weights[at]} at position {at}: rescale them"
        )


# Weighted sums of noises whose tails are needed at very many points: tabulated once.


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


class _Table(NamedTuple):
    """P(S >= x) at very many points, accurate relatively down to a floor.

    Where a table is ``rough``, its logarithm is Chernoff's bound where it is no longer accurate.
    """

    at_least: Callable[[FloatArray], FloatArray]
    floor: float = 0.0
    rough: bool = False


def fast_sum(weights: FloatArray, laws: list[NoiseLaw]) -> NoiseLaw:
    """Law of Σ wᵢeᵢ for laws with scalar parameters, made for evaluation at many points.

    Where there are several terms the distribution function of a :class:`WeightedSum` is taken from
    a table: of the logarithm of the tail for Laplace and Gaussian noise (to 1e-12), of all atoms
    for whole-numbered noise if they are not too many, otherwise of its lattice (to 1e-12). Other
    sums are what they were.
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
        log_tail = HalfLineTable(total._logsf, finest)
        total._table = _Table(partial(_smooth_tail, log_tail, float(total.std)))
    elif all(law.is_integer for _, law in terms):
        reach = [float(law.isf(_NEGLIGIBLE)) for _, law in terms]
        if np.prod([2.0 * r + 1.0 for r in reach]) <= _MOST_ATOMS:
            total._table = _Table(_Atoms(terms, reach), _TABLES)
        elif (route := lattice_table(total._terms)) is not None:
            rough = isinstance(route, AtomTable)
            total._table = _Table(partial(route.tail, closed=True), _TABLES, rough)
    return total


def untabulated(law: NoiseLaw) -> NoiseLaw:
    """Return the law without its table: slower, and accurate in far tails."""
    if not isinstance(law, WeightedSum) or law._table is None:
        return law
    return law._untabulated


def is_quick(law: NoiseLaw) -> bool:
    """Whether very many tails of a law take little time: in closed form, or from a table."""
    return not isinstance(law, WeightedSum) or law._table is not None


def spacing_of(law: NoiseLaw) -> float:
    """Distance of neighbouring values of a law that is not certain; 0 where there is no lattice."""
    return law._route.spacing if isinstance(law, WeightedSum) else float(law.is_integer)


def _smooth_tail(log_tail: HalfLineTable, std: float, x: FloatArray) -> FloatArray:
    # beyond, the tail is zero in float64
    tail = np.exp(log_tail(np.minimum(np.abs(x), 2000.0 * std)))
    return np.where(x < 0, 1.0 - tail, tail)


class _Atoms:
    def __init__(self, terms: list[tuple[float, NoiseLaw]], reach: list[float]) -> None:
        self._terms = terms
        self._reach = reach

    @cached_property
    def _law(self) -> AtomTails:
        places = [np.arange(-reach, reach + 1.0) for reach in self._reach]
        chances = [
            law._cdf(-np.abs(k)) - law._cdf(-np.abs(k) - 1.0)
            for (_, law), k in zip(self._terms, places, strict=True)
        ]
        weights = [weight for weight, _ in self._terms]
        if min(weights) == max(weights):  # sums of which many are equal
            total = sum(self._reach)
            places = [np.arange(-total, total + 1.0)]
            chances = [reduce(np.convolve, chances)]
        atoms = np.zeros(1), np.ones(1)
        for weight, k, chance in zip(weights, places, chances, strict=False):
            atoms = added(atoms, (weight * k, chance))
        return AtomTails.of(*atoms)

    def __call__(self, x: FloatArray) -> FloatArray:
        return self._law.upper(x - _SLACK * max(weight for weight, _ in self._terms))
