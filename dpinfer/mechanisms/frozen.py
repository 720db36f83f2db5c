"""Noise laws with the methods of a frozen distribution of ``scipy.stats``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    FloatArray,
    Numbers,
    check_array,
    check_broadcast,
    check_moments,
    check_shape,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw, NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.weighted_sum import WeightedSum

NORMAL_SIGMA = 4.0
"""From here on the moments of a discrete Gaussian are those of the normal law: they differ by
about exp(-2π²σ²) < 1e-137 of themselves, by Poisson's summation formula."""


def _known(law: NoiseLaw, table: dict[type, Callable[[Any], Any]], name: str) -> FloatArray:
    if type(law) not in table:
        kinds = ", ".join(kind.__name__ for kind in table)
        raise InvalidParameterError(
            f"law must be one of {kinds} to have a known {name}, got {show(law)}"
        )
    return np.asarray(table[type(law)](law), dtype=np.float64)


def _geometric_entropy(law: Geometric) -> FloatArray:
    # -log P(0) + E|k|/b with P(0) = tanh(1/(2b)) and E|k| = 1/sinh(1/b)
    rate = 1.0 / np.asarray(law.scale)
    with np.errstate(over="ignore"):
        return np.asarray(-np.log(np.tanh(0.5 * rate)) + rate / np.sinh(rate))


def _discrete_gaussian_entropy(law: DiscreteGaussian) -> FloatArray:
    # log P(k) = log P(0) - k²/(2σ²)
    sigma = np.asarray(law.sigma)
    with np.errstate(under="ignore"):
        spread = np.sqrt(np.asarray(law.variance)) / sigma
    return np.asarray(-np.asarray(law.logpmf(np.zeros(law.shape))) + 0.5 * np.square(spread))


def _discrete_gaussian_kurtosis(law: DiscreteGaussian) -> FloatArray:
    sigma = np.asarray(law.sigma)
    narrow = np.atleast_1d(np.minimum(sigma, NORMAL_SIGMA))[..., np.newaxis]
    k = np.arange(1.0, 40.0 * NORMAL_SIGMA)
    # relative to P(1), so that nothing vanishes for narrow noise: mass = exp(-(k² - 1)/(2σ²))
    with np.errstate(under="ignore", over="ignore"):
        mass = np.exp(-0.5 * (np.square(k) - 1.0) / np.square(narrow))
        first = 2.0 * np.exp(-0.5 / np.square(narrow[..., 0]))
    second, fourth = (mass @ k**2), (mass @ k**4)
    whole = 1.0 + first * mass.sum(axis=-1)
    with np.errstate(divide="ignore", over="ignore"):
        excess = fourth * whole / (first * np.square(second)) - 3.0
    return np.where(sigma >= NORMAL_SIGMA, 0.0, excess.reshape(sigma.shape))


ENTROPIES: dict[type, Callable[[Any], Any]] = {
    Laplace: lambda law: 1.0 + np.log(2.0) + np.log(law.scale),
    Gaussian: lambda law: 0.5 * np.log(2.0 * np.pi * np.e) + np.log(law.sigma),
    Geometric: _geometric_entropy,
    DiscreteGaussian: _discrete_gaussian_entropy,
    Exact: lambda law: 0.0,
}

KURTOSES: dict[type, Callable[[Any], Any]] = {
    Laplace: lambda law: np.full(law.shape, 3.0),
    Gaussian: lambda law: np.zeros(law.shape),
    # E k⁴ / (E k²)² - 3: the cosine in the cumulants of two geometric laws
    Geometric: np.errstate(divide="ignore")(lambda law: 3.0 + 1.0 / law.variance),
    DiscreteGaussian: _discrete_gaussian_kurtosis,
}
"""Kurtosis less that of the normal law."""

LARGEST_WHOLE = 2.0**53
"""Up to here floats tell whole numbers apart, and what is added to them stays within int64."""


def as_frozen(law: NoiseLaw, *, loc: ArrayLike = 0.0) -> FrozenNoise:
    """Return a noise law with the methods of a frozen distribution of ``scipy.stats``.

    Parameters
    ----------
    law : NoiseLaw
        The law of the noise.
    loc : float or array of float
        What the noise is added to; it broadcasts with the parameters of the law.

    Returns
    -------
    FrozenNoise
        The law of ``loc + noise``: a ``FrozenDensity`` with ``pdf`` where it has a density, a
        ``FrozenMass`` with ``pmf`` where it is one on whole numbers, or a sum of multiples of them.

    Raises
    ------
    InvalidParameterError
        If ``law`` is not a noise law, or ``loc`` is not finite or does not broadcast with it.

    Examples
    --------
    >>> from scipy import stats
    >>> from dpinfer import Laplace
    >>> mine, theirs = as_frozen(Laplace(scale=2.0)), stats.laplace(scale=2.0)
    >>> mine.interval(0.9)[1].round(6), theirs.interval(0.9)[1].round(6)
    (np.float64(4.60517), np.float64(4.60517))
    """
    if not isinstance(law, NoiseLaw):
        raise InvalidParameterError(f"law must be a NoiseLaw, got {show(law)}")
    origin = check_array(loc, "loc")
    check_broadcast(parameters=law.shape, loc=origin.shape)
    origin.flags.writeable = False
    if isinstance(law, WeightedSum):
        return (FrozenDensity if law._has_density else FrozenMass)(law, origin)
    if isinstance(law, ContinuousLaw):
        return FrozenDensity(law, origin)
    if isinstance(law, IntegerLaw):
        return FrozenMass(law, origin)
    return FrozenNoise(law, origin)


@dataclass(frozen=True, eq=False)
class FrozenNoise:
    """A noise law with the methods of a frozen distribution of ``scipy.stats``.

    Made by :func:`as_frozen`. It has the names and the arguments that functions written for
    ``scipy.stats`` expect; the law itself has ``rng=`` and properties instead.

    Parameters
    ----------
    law : NoiseLaw
        The law of the noise.
    loc : array of float64
        What the noise is added to.

    Notes
    -----
    Unlike in scipy, an argument that is NaN or no probability is refused instead of answered by
    NaN. Tails are those of the law: ``sf`` and ``isf`` stay accurate down to 1e-300.

    Examples
    --------
    >>> from dpinfer import Gaussian
    >>> law = as_frozen(Gaussian(sigma=3.0), loc=10.0)
    >>> law.mean(), law.std(), law.cdf(10.0)
    (np.float64(10.0), np.float64(3.0), np.float64(0.5))
    """

    law: NoiseLaw
    loc: FloatArray

    def cdf(self, x: ArrayLike) -> Numbers:
        """Probability of at most ``x``."""
        return self.law.cdf(self._centred(x))

    def sf(self, x: ArrayLike) -> Numbers:
        """Probability of more than ``x``."""
        return self.law.sf(self._centred(x))

    def logcdf(self, x: ArrayLike) -> Numbers:
        """Logarithm of :meth:`cdf`."""
        return self.law.logcdf(self._centred(x))

    def logsf(self, x: ArrayLike) -> Numbers:
        """Logarithm of :meth:`sf`."""
        return self.law.logsf(self._centred(x))

    def ppf(self, q: ArrayLike) -> Numbers:
        """Quantile of the probability ``q``."""
        return self._moved(self.law.ppf(q))

    def isf(self, q: ArrayLike) -> Numbers:
        """Upper quantile of the probability ``q``."""
        return self._moved(self.law.isf(q))

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Any:
        """Draw independent values, for simulation.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape of the answer, to which the parameters and ``loc`` must broadcast; by default
            theirs.
        random_state : None, int, Generator or RandomState, optional
            Source of randomness, as in scipy.

        Returns
        -------
        number or array
            The draws; whole numbers are int64 where ``loc`` holds whole numbers, too, up to 2⁵³.
        """
        own = np.broadcast_shapes(self.law.shape, self.loc.shape)
        shape = own if size is None else check_shape(size)
        if check_broadcast(law=own, size=shape) != shape:
            raise InvalidParameterError(
                f"size must be a shape to which the parameters and loc, of shape {own}, broadcast, "
                f"got {shape}"
            )
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        drawn = self.law.rvs(shape, rng=random_state)
        whole = np.issubdtype(np.asarray(drawn).dtype, np.integer) and bool(
            ((self.loc == np.floor(self.loc)) & (np.abs(self.loc) <= LARGEST_WHOLE)).all()
        )
        return drawn + self.loc.astype(np.int64) if whole else self._moved(drawn)

    def mean(self) -> Numbers:
        """Mean: ``loc``, as the noise is symmetric about zero."""
        return (self.loc + np.zeros(self.law.shape))[()]

    def median(self) -> Numbers:
        """Median: ``loc``."""
        return self.mean()

    def var(self) -> Numbers:
        """Variance."""
        return (np.asarray(self.law.variance) + np.zeros(self.loc.shape))[()]

    def std(self) -> Numbers:
        """Return the standard deviation."""
        return np.sqrt(self.var())

    def stats(self, moments: str = "mv") -> Any:
        """Return mean, variance, skewness and excess kurtosis, as the letters m, v, s, k ask.

        A tuple in this order, or an array for one letter.
        """
        letters = check_moments(moments)
        zero = np.zeros_like(self.mean())
        known: dict[str, Callable[[], Any]] = {
            "m": self.mean,
            "v": self.var,
            "s": lambda: zero,
            "k": lambda: self._kurtosis() + zero,
        }
        found = tuple(np.asarray(known[letter]()) for letter in letters)
        return found[0] if len(found) == 1 else found

    def _kurtosis(self) -> FloatArray:
        if isinstance(self.law, WeightedSum):
            return np.asarray(self.law.stats("k"))
        return _known(self.law, KURTOSES, "kurtosis")

    def interval(self, confidence: ArrayLike) -> tuple[Numbers, Numbers]:
        """Return the ends of the central interval with a probability of ``confidence``."""
        tail = 0.5 * (1.0 - check_array(confidence, "confidence", ge=0, le=1))
        return self.ppf(tail), self.isf(tail)

    def support(self) -> tuple[Numbers, Numbers]:
        """Return the lowest and the highest possible value."""
        return self.ppf(0.0), self.isf(0.0)

    def entropy(self) -> Numbers:
        """Return the entropy in nats, differential for a density; refused where it is not known.

        It is in closed form, which Tulap noise, sums and mixed laws do not have.
        """
        return (_known(self.law, ENTROPIES, "entropy") + np.zeros(self.loc.shape))[()]

    @np.errstate(over="ignore")
    def _moved(self, noise: Any) -> Numbers:
        check_broadcast(law=np.shape(noise), loc=self.loc.shape)
        found: Numbers = noise + self.loc[()]
        return found

    @np.errstate(over="ignore")
    def _centred(self, x: ArrayLike) -> Any:
        """Return values of the law as values of the noise."""
        points = check_array(x, "x", finite=False, nonempty=False)
        check_broadcast(x=points.shape, loc=self.loc.shape)
        return points - self.loc


class FrozenDensity(FrozenNoise):
    """A :class:`FrozenNoise` with a density.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> as_frozen(Laplace(scale=2.0)).pdf(0.0)
    np.float64(0.25)
    """

    law: ContinuousLaw | WeightedSum

    def pdf(self, x: ArrayLike) -> Numbers:
        """Density at ``x``."""
        return self.law.pdf(self._centred(x))

    def logpdf(self, x: ArrayLike) -> Numbers:
        """Logarithm of the density at ``x``."""
        return self.law.logpdf(self._centred(x))


class FrozenMass(FrozenNoise):
    """A :class:`FrozenNoise` on whole numbers, or on sums of multiples of them.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> as_frozen(Geometric(scale=1.0), loc=5).pmf([4, 5, 6]).round(4)
    array([0.17  , 0.4621, 0.17  ])
    """

    law: IntegerLaw | WeightedSum

    def pmf(self, k: ArrayLike) -> Numbers:
        """Probability of ``k``."""
        return self.law.pmf(self._centred(k))

    def logpmf(self, k: ArrayLike) -> Numbers:
        """Logarithm of the probability of ``k``."""
        return self.law.logpmf(self._centred(k))
