"""The privacy loss of a mechanism, of its repeated use, and of several mechanisms together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_array,
    check_integer,
    check_items,
    check_rng,
    check_shape,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.losses._curves import largest_power, smallest_epsilon
from dpinfer.privacy.losses._inversion import Inversion
from dpinfer.privacy.losses._laws.gaussian import GaussianLoss
from dpinfer.privacy.losses._laws.law import LossLaw
from dpinfer.privacy.losses._of_mechanism import laws_of

MOST_COMPOSITIONS = 10**9
MOST_LOSS = 1e10


def privacy_loss(
    mechanism: Any, sensitivity: ArrayLike = 1.0, compositions: int = 1
) -> PrivacyLoss:
    """Law of the privacy loss of a mechanism, used once or several times.

    Parameters
    ----------
    mechanism : Laplace, Geometric, Gaussian, DiscreteGaussian or RandomizedResponse
        What is used.
    sensitivity : float or array of float, default 1
        How far the answer of the query can move between neighbours; a whole number for geometric
        and discrete Gaussian noise. Of a vector published with Gaussian noise, its L2 sensitivity.
        An array is the largest change of each cell, and all cells may change together. Randomized
        response knows its own: leave it at 1.
    compositions : int, default 1
        How often the mechanism is used, on answers that may depend on earlier releases.

    Returns
    -------
    PrivacyLoss
        The law of the loss. ``+`` composes it with others, ``* k`` with itself.

    Raises
    ------
    InvalidParameterError
        If the mechanism has no law here; if the sensitivity is negative, not whole where it must
        be, or one number for a vector of several scales; if ``compositions`` is not within
        [1, 10⁹].

    Examples
    --------
    >>> from dpinfer import DiscreteGaussian, Laplace
    >>> loss = privacy_loss(DiscreteGaussian(sigma=100.0), compositions=10_000)
    >>> round(loss.epsilon(1e-6), 6)
    4.886554
    >>> round((loss + privacy_loss(Laplace(scale=2.0))).epsilon(1e-6), 6)
    5.258831
    """
    change = check_array(sensitivity, "sensitivity", ge=0, le=1e100)
    count = check_integer(compositions, "compositions", ge=1, le=MOST_COMPOSITIONS)
    return PrivacyLoss((law, count) for law in laws_of(mechanism, change))


class PrivacyLoss:
    """The law of L = ln(P(X)/Q(X)), X from P: how much an output tells two neighbours apart.

    Made by :func:`privacy_loss`, added with ``+`` and repeated with ``* k``: losses of independent
    releases add up, and the law of the sum determines every (ε, δ) and every trade-off between
    errors that the releases offer together.

    Notes
    -----
    δ(ε) = E[(1 - e^(ε-L))₊]. All these mechanisms are symmetric: P against Q and Q against P have
    the same law, so that neither direction is worse.

    How the law of the sum is inverted depends on its parts. Gaussian losses add up to one, in
    closed form. Losses on a lattice (geometric, discrete Gaussian, randomized response) are summed
    over the circle of their transform, tilted to the ε asked for, so that δ keeps its relative
    accuracy down to 1e-300. Atoms of Laplace losses are listed and only what is smooth beside them
    is integrated: an integral over the whole transform does not converge. Lattices without a
    common step leave a remainder that is bounded, not computed. All of these errors, and those of
    rounding, are in the bounds of :meth:`delta_bounds` and :meth:`epsilon_bounds`.

    References
    ----------
    Sommer, D. M., Meiser, S. and Mohammadi, E. (2019). Privacy loss classes: the central limit
    theorem in differential privacy. Proceedings on Privacy Enhancing Technologies 2019(2),
    245-269. doi:10.2478/popets-2019-0029.

    Koskela, A., Jälkö, J. and Honkela, A. (2020). Computing tight differential privacy guarantees
    using FFT. AISTATS. arXiv:1906.03049.

    Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy. Journal of the Royal
    Statistical Society B 84(1), 3-37. doi:10.1111/rssb.12454, Proposition 2.12.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> loss = 10 * privacy_loss(Laplace(scale=10.0))
    >>> round(loss.delta(0.5), 9), round(loss.epsilon(1e-6), 9)
    (0.008938295, 0.998978089)
    >>> round(loss.power(0.05), 9)
    0.090473356
    """

    def __init__(self, parts: Iterable[tuple[LossLaw, int]]) -> None:
        counts: Counter[LossLaw] = Counter()
        squared = 0.0
        for part in check_items(parts, "parts", "pairs of a loss and how often it is composed"):
            if not (isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], LossLaw)):
                raise InvalidParameterError(
                    "parts must hold pairs of a loss and how often it is composed, which "
                    f"privacy_loss makes from a mechanism, got {show(part)}"
                )
            law, count = part
            if isinstance(law, GaussianLoss):
                squared += count * law.squared
            else:
                counts[law] += count
        if squared:
            counts[GaussianLoss(squared)] = 1
        self._parts = tuple(sorted(counts.items(), key=repr))
        for _, count in self._parts:
            check_integer(count, "compositions", le=MOST_COMPOSITIONS)
        if self.mean > MOST_LOSS:
            raise InvalidParameterError(
                f"compositions must keep the mean privacy loss below {MOST_LOSS:g}, got "
                f"{self.mean:g}: nothing is private there"
            )

    def __repr__(self) -> str:
        listed = " + ".join(f"{count} * {law}" for law, count in self._parts)
        return f"PrivacyLoss({listed or 0})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyLoss) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        return PrivacyLoss((*self._parts, *other._parts))

    def __mul__(self, count: int) -> PrivacyLoss:
        times = check_integer(count, "compositions", ge=1, le=MOST_COMPOSITIONS)
        return PrivacyLoss((law, times * k) for law, k in self._parts)

    __rmul__ = __mul__

    def delta(self, epsilon: ArrayLike) -> Any:
        """Smallest δ with which the releases are (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float or array of float
            The ε >= 0.

        Returns
        -------
        float or array of float
            δ(ε); :meth:`delta_bounds` brackets it.

        Raises
        ------
        InvalidParameterError
            If ``epsilon`` is negative or not finite.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        return _each(lambda e: self._delta(e)[0], at)

    def delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Certified bounds on :meth:`delta`.

        Parameters
        ----------
        epsilon : float or array of float
            The ε >= 0.

        Returns
        -------
        lower, upper : float or array of float
            Bounds that hold with the errors of truncation, of discretisation and of rounding.

        Raises
        ------
        InvalidParameterError
            If ``epsilon`` is negative or not finite.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        pairs = {float(e): self._delta(float(e)) for e in np.unique(at)}
        return (
            _each(lambda e: max(pairs[e][0] - pairs[e][1], 0.0), at),
            _each(lambda e: min(sum(pairs[e]), 1.0), at),
        )

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest ε with which the releases are (ε, δ)-differentially private.

        Parameters
        ----------
        delta : float or array of float
            The δ, within [0, 1).

        Returns
        -------
        float or array of float
            ε(δ); :meth:`epsilon_bounds` brackets it.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1), or 0 where the loss is unbounded.
        """
        return _each(lambda d: self._epsilon(d)[0], self._check_delta(delta))

    def epsilon_bounds(self, delta: ArrayLike) -> tuple[Any, Any]:
        """Certified bounds on :meth:`epsilon`.

        Parameters
        ----------
        delta : float or array of float
            The δ, within [0, 1).

        Returns
        -------
        lower, upper : float or array of float
            The ε at which the bounds of :meth:`delta_bounds` are below or above δ.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1), or 0 where the loss is unbounded.
        """
        at = self._check_delta(delta)
        return (
            _each(lambda d: self._epsilon_bound(d, -1), at),
            _each(lambda d: self._epsilon_bound(d, 1), at),
        )

    def power(self, alpha: ArrayLike) -> Any:
        """Largest power of a test of one neighbour against the other.

        Parameters
        ----------
        alpha : float or array of float
            The level, within [0, 1].

        Returns
        -------
        float or array of float
            The power of the likelihood-ratio test, which decides at random at its threshold.

        Raises
        ------
        InvalidParameterError
            If ``alpha`` is outside [0, 1].
        """
        level = check_array(alpha, "alpha", ge=0, le=1)
        if not self._parts:
            return level if level.ndim else float(level)
        return _each(lambda a: largest_power(self._inversion, a), level)

    def cdf(self, x: ArrayLike) -> Any:
        """P(L <= x).

        Parameters
        ----------
        x : float or array of float
            Values of the loss.

        Returns
        -------
        float or array of float
            The probabilities. Lattices without a common step have their smallest jumps smoothed,
            and at a relative distance d from a jump of Laplace losses errors are about 1e-16/d.

        Raises
        ------
        InvalidParameterError
            If ``x`` is not finite.
        """
        return _each(self._cdf, check_array(x, "x"))

    @property
    def mean(self) -> float:
        """E[L], the Kullback-Leibler divergence."""
        return float(sum(count * law.mean for law, count in self._parts))

    @property
    def variance(self) -> float:
        """Var[L]."""
        return float(sum(count * law.variance for law, count in self._parts))

    def rvs(self, size: int | tuple[int, ...] = (), *, rng: RNG = None) -> Any:
        """Draw losses of the releases together, for simulation.

        Parameters
        ----------
        size : int or tuple of int
            The shape of the result.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        float or array of float
            The losses. Discrete Gaussian noise, and geometric noise moved by more than 1, is drawn
            use by use: its time grows with ``compositions``.
        """
        shape = check_shape(size)
        generator = check_rng(rng)
        total = np.zeros(int(np.prod(shape, dtype=np.int64)))
        for law, count in self._parts:
            total += law.rvs(count, total.size, generator)
        return total.reshape(shape)[()]

    @cached_property
    def _inversion(self) -> Inversion:
        return Inversion(self._parts)

    @property
    def _largest(self) -> float:
        return sum(count * law.largest for law, count in self._parts)

    def _check_delta(self, delta: ArrayLike) -> FloatArray:
        at = check_array(delta, "delta", ge=0, lt=1)
        if (at == 0).any() and np.isinf(self._largest):
            raise InvalidParameterError(
                "delta must be > 0, got 0.0: the loss is unbounded, and no epsilon holds at delta "
                "= 0"
            )
        return at

    def _delta(self, epsilon: float) -> tuple[float, float]:
        """δ(ε) and a bound on its error."""
        if not self._parts:
            return 0.0, 0.0
        tails = self._inversion.tails(epsilon)
        return float(min(max(tails.values[0], 0.0), 1.0)), float(tails.errors[0])

    def _epsilon(self, delta: float) -> tuple[float, float]:
        """ε(δ), and roughly how far it may be off."""
        if not self._parts:
            return 0.0, 0.0
        if delta == 0:
            return self._largest, 0.0
        epsilon, tails = smallest_epsilon(self._inversion, delta)
        scaled = float(tails.values[2])
        error = float(tails.errors[0]) + 1e-15 * delta
        return epsilon, error / scaled if scaled > 0 else 1e-15 * epsilon

    def _epsilon_bound(self, delta: float, side: int) -> float:
        """Move ε(δ) until the bound of δ there is on the other side."""
        epsilon, slack = self._epsilon(delta)
        if not self._parts or delta == 0 or (epsilon == 0 and side < 0):
            return epsilon
        slack = max(2.0 * slack, 4e-16 * epsilon)
        while True:
            at = min(max(epsilon + side * slack, 0.0), self._largest)
            value, error = self._delta(at)
            certain = value + error <= delta if side > 0 else value - error >= delta
            if certain or at in (0.0, self._largest):
                return at
            slack *= 2.0

    def _cdf(self, x: float) -> float:
        if not self._parts:
            return float(x >= 0)
        if x >= 0:
            return float(min(max(1.0 - self._inversion.tails(x).values[1], 0.0), 1.0))
        # P(L <= x) = Q(L >= -x), as the law is symmetric
        scaled = self._inversion.tails(-x, inclusive=True).values[2]
        return float(min(max(np.exp(x) * scaled, 0.0), 1.0))


def _each(function: Callable[[float], float], values: FloatArray) -> Any:
    """Apply to each distinct value, and keep the shape."""
    if values.ndim == 0:
        return float(function(float(values)))
    distinct, inverse = np.unique(values, return_inverse=True)
    results = np.array([function(float(value)) for value in distinct])
    return results[inverse].reshape(values.shape)
