"""The common face of every additive noise law.

A law is written once, for arrays, as a handful of private hooks; the public methods here check
their arguments, give scalars back for scalars, and are never overridden.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, Self, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    ComplexArray,
    FloatArray,
    Locked,
    Numbers,
    check_array,
    check_broadcast,
    check_index,
    check_parameter,
    check_rng,
    check_shape,
    one_line,
)
from dpinfer._numerics.lattice import smallest_whole
from dpinfer.errors import InvalidParameterError

# Which noises a law is about: estimates from the same published values have dependent errors.


@final
class Origin:
    """The noises of one set of published values: not which law they have, but which they are.

    Copies, and what was pickled, are the same origin.
    """

    def __init__(self, values: FloatArray) -> None:
        self._values = values
        self._token = os.urandom(16)

    @cached_property
    def digest(self) -> bytes:
        """What equal values have in common, were they read twice."""
        return blake2b(np.ascontiguousarray(self._values).tobytes(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self._token == other._token

    def __hash__(self) -> int:
        return hash(self._token)

    def __getstate__(self) -> dict[str, Any]:
        return {"digest": self.digest, "_token": self._token}


class Share(NamedTuple):
    """The part that noises of one origin have in a sum: Σ weights · noise at the positions."""

    origin: Origin
    positions: NDArray[np.intp]
    weights: FloatArray
    law: NoiseLaw
    """The law of these noises, of shape () or one for each position."""

    def with_variance(self) -> tuple[Share, ...]:
        """Return the part of the noises that are not always 0, if there are any."""
        there = np.flatnonzero(np.broadcast_to(self.law.variance, self.weights.shape) > 0)
        if len(there) == len(self.weights):
            return (self,) if len(there) else ()
        law = self.law.take(there) if self.law.shape else self.law
        part = Share(self.origin, self.positions[there], self.weights[there], law)
        return (part,) if len(there) else ()


def are_dependent(laws: Sequence[NoiseLaw]) -> bool:
    """Whether two of the errors are known to share a noise; what may do so is refused."""
    shares = [share for law in laws for share in law._shares]
    if len(shares) < 2:
        return False
    found: dict[Origin, list[NDArray[np.intp]]] = {}
    for share in shares:
        found.setdefault(share.origin, []).append(share.positions)
    if len({origin.digest for origin in found} if len(found) > 1 else found) < len(found):
        raise InvalidParameterError(
            "mechanism must be laws of estimates whose dependence is known, got those of two fits "
            "of equal values: make one Release of what was published, and fit that"
        )
    return any(
        len(np.unique(np.concatenate(positions))) < sum(map(len, positions))
        for positions in found.values()
        if len(positions) > 1
    )


def refuse_dependent(laws: Sequence[NoiseLaw], name: str) -> None:
    """Refuse errors that share a noise, where they have to be independent."""
    if are_dependent(laws):
        raise InvalidParameterError(
            f"{name} must be laws of independent errors, got those of estimates that share "
            "published values: use linear_confint, linear_ztest, counts_2indep, ratio_confint or "
            "share_confint, which know how they depend"
        )


def refuse_same(laws: Sequence[NoiseLaw], name: str) -> None:
    """Refuse the error of one estimate as that of several values."""
    seen = set()
    for law in laws:
        key = tuple(
            (hash(share.origin), share.positions.tobytes(), share.weights.tobytes())
            for share in law._shares
        )
        if key and key in seen:
            raise InvalidParameterError(
                f"{name} must be the law of each value, got that of one estimate for several: "
                "take the law of each from the fit"
            )
        seen.add(key)


HALF_ULP = 2.0**-54
"""Rounding error of a probability above 1/2. A quantile counts an atom as reached whose cdf differs
from the given probability by no more than that, provided it is the only one."""

CONTINUOUS_RANGE = {"gt": 0.0, "ge": 1e-100, "le": 1e100}
"""Scales whose squares, and those of their reciprocals, are far from overflow."""

INTEGER_RANGE = {"gt": 0.0, "ge": 1e-100, "le": 1e15}
"""Scales at which floats still tell the whole numbers of the support apart."""


class NoiseLaw(ABC):
    """Law of additive noise, one law for each entry of its parameters.

    The face that all laws share; it is not made itself. Every law of the package is symmetric
    about zero.

    Notes
    -----
    Methods take a number or an array and answer in the shape to which it broadcasts with the
    parameters: a float where all are numbers. They raise
    :class:`~dpinfer.errors.InvalidParameterError` where the shapes do not fit together, or an
    argument is NaN or, for a probability, not within [0, 1]. Points ``x`` may be infinite.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> Laplace(scale=2.0).isf([0.05, 0.025]).round(4)
    array([4.6052, 5.9915])
    >>> Laplace(scale=[1.0, 2.0]).sf([[0.0], [3.0]]).round(4)
    array([[0.5   , 0.5   ],
           [0.0249, 0.1116]])
    """

    _selected: bool = False
    """Whether it is the noise of values of which a threshold or clamp left some, or moved some."""

    _shares: tuple[Share, ...] = ()
    """The noises of which it is known which they are."""

    @property
    @abstractmethod
    def is_integer(self) -> bool:
        """Whether the noise takes whole numbers only."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameters: ``()`` when there is one law for all cells."""

    @abstractmethod
    def take(self, index: Any) -> NoiseLaw:
        """Return the law of the selected cells; where one law serves all cells, that law."""

    def _take(self, index: Any) -> NoiseLaw:
        """Take as :meth:`take` does, at an index that was checked."""
        return self.take(index)

    @property
    def _floor(self) -> FloatArray | float:
        """Probability below which tails are not accurate relatively, shape (); 0: all are."""
        return 0.0

    @property
    @final
    @np.errstate(over="ignore")
    def variance(self) -> Numbers:
        """Variance of the noise, in squared units of the query; shape of the parameters."""
        return _unwrap(self._variance())

    @property
    @final
    @np.errstate(over="ignore")
    def std(self) -> Numbers:
        """Standard deviation of the noise, in units of the query; shape of the parameters."""
        return _unwrap(np.sqrt(self._variance()))

    @final
    @np.errstate(over="ignore")
    def cdf(self, x: ArrayLike) -> Numbers:
        """Probability that the noise is at most ``x``."""
        return _unwrap(self._cdf(self._argument(x, "x")))

    @final
    @np.errstate(over="ignore")
    def sf(self, x: ArrayLike) -> Numbers:
        """Probability that the noise exceeds ``x``, computed as a tail and never as 1 - cdf."""
        return _unwrap(self._sf(self._argument(x, "x")))

    @final
    @np.errstate(over="ignore")
    def logcdf(self, x: ArrayLike) -> Numbers:
        """Logarithm of :meth:`cdf`, finite far beyond the point where ``cdf`` underflows."""
        return _unwrap(self._logcdf(self._argument(x, "x")))

    @final
    @np.errstate(over="ignore")
    def logsf(self, x: ArrayLike) -> Numbers:
        """Logarithm of :meth:`sf`, finite far beyond the point where ``sf`` underflows."""
        return _unwrap(self._logsf(self._argument(x, "x")))

    @final
    @np.errstate(over="ignore")
    def ppf(self, q: ArrayLike) -> Numbers:
        """Quantile: the smallest ``x`` with ``cdf(x) >= q``; -inf at 0, the supremum at 1."""
        # adding 0.0 turns -0.0 into 0.0
        return _unwrap(self._ppf(self._probability(q)) + 0.0)

    @final
    @np.errstate(over="ignore")
    def isf(self, q: ArrayLike) -> Numbers:
        """Upper quantile: the smallest ``x`` with ``sf(x) <= q``; accurate for tiny ``q``."""
        return _unwrap(self._isf(self._probability(q)) + 0.0)

    @final
    @np.errstate(over="ignore")
    def cf(self, t: ArrayLike) -> Numbers:
        """Characteristic function E[exp(i t e)], which is real because the law is symmetric."""
        return _unwrap(self._cf(self._argument(t, "t", ge=-1e100, le=1e100)))

    @final
    def rvs(self, size: int | tuple[int, ...] | None = None, *, rng: RNG = None) -> Any:
        """Draw independent noise, for simulation.

        The draws are not hardened against floating-point or timing attacks: to *release*
        confidential data, use a vetted mechanism library such as OpenDP.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape of the answer, to which the parameters must broadcast; by default theirs.
        rng : None, int or numpy.random.Generator, optional
            Source of randomness; an int is a seed.

        Returns
        -------
        number or array
            The draws: int64 for laws on the whole numbers, float64 otherwise.
        """
        shape = self.shape if size is None else check_shape(size)
        if size is not None and check_broadcast(parameters=self.shape, size=shape) != shape:
            raise InvalidParameterError(
                f"size must be a shape to which the parameters of shape {self.shape} broadcast, "
                f"got {shape}"
            )
        return self._rvs(shape, check_rng(rng))[()]

    def _argument(self, value: ArrayLike, name: str, **bounds: Any) -> FloatArray:
        array = check_array(value, name, finite=False, nonempty=False, **bounds)
        check_broadcast(parameters=self.shape, **{name: array.shape})
        return array

    def _probability(self, q: ArrayLike) -> FloatArray:
        return self._argument(q, "q", ge=0, le=1)

    # What a law has to say, all on float64 arrays that broadcast against its parameters.

    @abstractmethod
    def _variance(self) -> FloatArray: ...

    @abstractmethod
    def _cdf(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _sf(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _logcdf(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _logsf(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _ppf(self, q: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _isf(self, q: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _cf(self, t: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]: ...


class ParametricLaw(Locked, NoiseLaw):
    """A law that is a frozen dataclass of parameters, each a float or a read-only array."""

    @property
    @abstractmethod
    def _abscissa(self) -> FloatArray:
        """Supremum of the real s at which E[exp(s e)] is finite; inf for sub-Gaussian tails."""

    @abstractmethod
    def _cgf(self, s: ComplexArray) -> ComplexArray:
        """Log E[exp(s e)] for complex s inside the strip abs(Re s) < abscissa, any branch."""

    @property
    @final
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameters: ``()`` when there is one law for all cells."""
        held: tuple[int, ...] | None = self.__dict__.get("_shape")
        if held is None:
            shapes = {getattr(value, "shape", ()) for value in self._parameters().values()}
            held = np.broadcast_shapes(*shapes) if len(shapes) != 1 else shapes.pop()
            object.__setattr__(self, "_shape", held)
        return held

    @final
    def take(self, index: Any) -> Self:
        """Return the law of the selected cells; where one law serves all cells, that law."""
        if self.shape:
            check_index(index, self.shape)
        return self._take(index)

    @final
    def _take(self, index: Any) -> Self:
        if not (shape := self.shape):
            return self
        own = self._parameters().items()
        chosen = {name: np.broadcast_to(value, shape)[index] for name, value in own}
        return marked(self._with(chosen), self._selected)

    @final
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ParametricLaw) or other._kind != self._kind:
            return NotImplemented
        theirs = other._parameters()
        return all(
            np.array_equal(value, theirs[name]) for name, value in self._parameters().items()
        )

    @final
    def __hash__(self) -> int:
        values = (np.asarray(value) for value in self._parameters().values())
        return hash((self._kind, *((value.shape, value.tobytes()) for value in values)))

    @property
    def _kind(self) -> Any:
        """What laws of one kind, which differ by their parameters only, have in common."""
        return type(self)

    def _with(self, parameters: dict[str, Any]) -> Self:
        """Return the law of the same kind with other parameters, which are within its range."""
        law = object.__new__(type(self))
        for name, value in parameters.items():
            law._store(name, np.asarray(value, dtype=np.float64).view())
        return law

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}  # type: ignore[attr-defined]

    def _set(self, name: str, value: ArrayLike, **bounds: float) -> None:
        """Hold a parameter, a scale where no bounds are given."""
        allowed = bounds or (INTEGER_RANGE if self.is_integer else CONTINUOUS_RANGE)
        if type(value) is float and not bounds and allowed["ge"] <= value <= allowed["le"]:
            object.__setattr__(self, name, value)  # the same as below, for loops over laws
            return
        self._store(name, check_parameter(value, name, nonempty=False, **allowed))  # a copy

    def _store(self, name: str, array: FloatArray) -> None:
        """Put a parameter on the frozen instance: a float, or a read-only array."""
        array.flags.writeable = False
        object.__setattr__(self, name, float(array) if array.ndim == 0 else array)


class ContinuousLaw(ParametricLaw):
    """A symmetric law with a density."""

    @property
    @final
    def is_integer(self) -> bool:
        """Whether the noise takes whole numbers only: no."""
        return False

    @final
    @np.errstate(over="ignore")
    def pdf(self, x: ArrayLike) -> Numbers:
        """Density at ``x``, per unit of the query."""
        return _unwrap(np.exp(self._logpdf(self._argument(x, "x"))))

    @final
    @np.errstate(over="ignore")
    def logpdf(self, x: ArrayLike) -> Numbers:
        """Logarithm of the density at ``x``; -inf outside the support."""
        return _unwrap(self._logpdf(self._argument(x, "x")))

    @abstractmethod
    def _logpdf(self, x: FloatArray) -> FloatArray: ...

    @final
    def _cdf(self, x: FloatArray) -> FloatArray:
        return self._sf(-x)

    @final
    def _logcdf(self, x: FloatArray) -> FloatArray:
        return self._logsf(-x)

    @final
    def _ppf(self, q: FloatArray) -> FloatArray:
        return -self._isf(q)


class IntegerLaw(ParametricLaw):
    """A symmetric law on the whole numbers; its hooks receive whole numbers (as float64)."""

    @property
    @final
    def is_integer(self) -> bool:
        """Whether the noise takes whole numbers only: yes."""
        return True

    @final
    @np.errstate(over="ignore")
    def pmf(self, k: ArrayLike) -> Numbers:
        """Probability of exactly ``k``; zero where ``k`` is not a whole number."""
        return _unwrap(np.exp(self._masked_logpmf(self._argument(k, "k"))))

    @final
    @np.errstate(over="ignore")
    def logpmf(self, k: ArrayLike) -> Numbers:
        """Logarithm of the probability of ``k``; -inf where ``k`` is not a whole number."""
        return _unwrap(self._masked_logpmf(self._argument(k, "k")))

    def _masked_logpmf(self, k: FloatArray) -> FloatArray:
        whole = np.isfinite(k) & (k == np.floor(k))
        return np.where(whole, self._logpmf(np.where(whole, k, 0.0)), -np.inf)

    @abstractmethod
    def _logpmf(self, k: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _tail(self, k: FloatArray) -> FloatArray:
        """P(noise > k) for whole numbers ``k``, infinities included."""

    @abstractmethod
    def _logtail(self, k: FloatArray) -> FloatArray:
        """Logarithm of P(noise > k) for whole numbers ``k``, infinities included."""

    @final
    def _sf(self, x: FloatArray) -> FloatArray:
        return self._tail(np.floor(x))

    @final
    def _logsf(self, x: FloatArray) -> FloatArray:
        return self._logtail(np.floor(x))

    @final
    def _cdf(self, x: FloatArray) -> FloatArray:
        # P(e <= k) = P(e >= -k) = P(e > -k - 1) by symmetry
        return self._tail(-np.floor(x) - 1.0)

    @final
    def _logcdf(self, x: FloatArray) -> FloatArray:
        return self._logtail(-np.floor(x) - 1.0)

    @final
    def _isf(self, q: FloatArray) -> FloatArray:
        # P(e > k) <= q for q < 1/2. Beyond, the mirror image of the smallest k with
        # P(e > k) < 1 - q: only small tails are compared, and 1 - q is exact.
        mirrored = q >= 0.5
        p = 1.0 - q
        k = self._upper_quantile(np.where(mirrored, np.nextafter(p, -1.0), q))
        if mirrored.any():
            tie = (self._tail(k) >= p - HALF_ULP) & (self._tail(k + 1.0) < p - HALF_ULP)
            return np.where(mirrored, -k - tie, k)
        return k

    @final
    def _ppf(self, q: FloatArray) -> FloatArray:
        upper = q > 0.5
        p = np.where(upper, 1.0 - q, np.nextafter(q, -1.0))
        k = self._upper_quantile(p)
        if upper.any():
            tie = (self._tail(k - 1.0) <= p + HALF_ULP) & (self._tail(k - 2.0) > p + HALF_ULP)
            return np.where(upper, k - tie, -k)
        return -k

    def _upper_quantile(self, q: FloatArray) -> FloatArray:
        """Smallest k with P(e > k) <= q, for q <= 1/2; inf for negative q."""
        guess = np.where(q >= 0, self._isf_start(np.maximum(q, 0.0)), np.inf)
        return smallest_whole(guess, lambda k: self._tail(k) <= q)

    @abstractmethod
    def _isf_start(self, q: FloatArray) -> FloatArray:
        """Whole number near the upper quantile for ``q`` <= 1/2; infinite where that is."""


def _unwrap(array: FloatArray) -> Numbers:
    return array[()]


Law = TypeVar("Law", bound=NoiseLaw)


def marked(law: Law, selected: bool) -> Law:
    """Return the law as that of values that a rule selected, or as that of any values."""
    if law._selected == selected:
        return law
    law = copy(law)
    object.__setattr__(law, "_selected", selected)
    return law


def in_short(law: NoiseLaw) -> str:
    """Return a law on one line: as one where it is the same for all values."""
    shown = law
    if isinstance(law, ParametricLaw) and all(
        np.unique(value).size == 1 for value in law._parameters().values()
    ):
        shown = law._take((0,) * len(law.shape))
    return one_line(repr(shown), 60)
