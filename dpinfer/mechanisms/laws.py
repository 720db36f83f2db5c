"""Laws of one parameter: Gaussian, discrete Gaussian, geometric and Laplace noise, and none."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray, check_broadcast, check_option, check_parameter
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms.draws import (
    WORTHWHILE,
    discrete_gaussian_draws,
    few_values,
    geometric_draws,
    guide_table,
    laplace_draws,
    rounded_normal_draws,
)
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw, ParametricLaw

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _budgets(sensitivity: ArrayLike, **budgets: ArrayLike) -> list[FloatArray]:
    """Return a sensitivity and budgets as arrays that broadcast; δ is below 1."""
    found = {
        name: check_parameter(value, name, gt=0, lt=1)
        if name == "delta"
        else check_parameter(value, name, gt=0, ge=1e-100, le=1e100)
        for name, value in (*budgets.items(), ("sensitivity", sensitivity))
    }
    shapes = {name: array.shape for name, array in found.items()}
    change = found.pop("sensitivity")
    check_broadcast(sensitivity=shapes.pop("sensitivity"), **shapes)
    return [change, *found.values()]


def classical_sigma(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
    """√(2 ln(1.25/δ))/ε for sensitivity 1 (Dwork and Roth 2014, Theorem A.1): ε < 1 only."""
    if (epsilon >= 1).any():
        raise InvalidParameterError(
            "epsilon must be < 1 for the classical calibration, whose proof does not hold beyond, "
            f'got {epsilon[epsilon >= 1][0]}: use calibration="analytic"'
        )
    return np.asarray(np.sqrt(2.0 * np.log(1.25 / delta)) / epsilon)


def analytic_sigma(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
    """Smallest σ that is (ε, δ)-private at sensitivity 1 (Balle and Wang 2018, Theorem 8).

    With μ = 1/σ the curve log δ(log μ) is increasing and concave, so that Newton steps from the
    left approach the root from the left. The start is the μ at which the first term of the
    curve, Φ(μ/2 - ε/μ), alone equals δ.
    """
    epsilon, delta = np.broadcast_arrays(epsilon, delta)
    a = -special.ndtri(delta)
    root = np.sqrt(np.square(a) + 2.0 * epsilon)
    # the positive root of μ²/2 + aμ - ε = 0, without cancellation
    mu = np.where(a > 0, 2.0 * epsilon / (np.abs(a) + root), np.abs(a) + root)
    for _ in range(100):
        logdelta, slope = gaussian_logdelta(mu, epsilon)
        residual = np.log(delta) - logdelta
        step = np.maximum(residual / slope, -0.5)
        mu = mu * np.exp(step)
        # where δ is close to 1 the curve is so flat that rounding decides the last step
        if ((np.abs(step) < 1e-14) | (np.abs(residual) < 1e-14)).all():
            return np.asarray(1.0 / mu)
    raise ConvergenceError("the analytic calibration of the Gaussian did not converge")


def gaussian_logdelta(mu: FloatArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log δ(ε) of the μ-GDP curve and its derivative in log μ.

    δ = Φ(-a) - e^ε Φ(-b) with a = ε/μ - μ/2 and b = a + μ (Balle and Wang 2018, Theorem 8). As
    e^ε φ(b) = φ(a), this is φ(a)·(m(a) - m(b)) with Mills' ratio m; where a and b are close, the
    difference is the integral of -m'(x) = 1 - x·m(x) instead.
    """
    a = epsilon / mu - 0.5 * mu
    half = 0.5 * np.minimum(mu, 1.0)[..., None]
    x = a[..., None] + half * (1.0 + _NODES)
    integral = half[..., 0] * ((1.0 - x * _mills(x)) @ _WEIGHTS)
    difference = np.where(mu <= 1.0, integral, _mills(a) - _mills(a + mu))
    logphi = -0.5 * np.square(a) - 0.5 * np.log(2.0 * np.pi)
    return logphi + np.log(difference), mu / difference


def _mills(x: FloatArray) -> FloatArray:
    """(1 - Φ(x))/φ(x)."""
    return np.asarray(np.sqrt(0.5 * np.pi) * special.erfcx(x / np.sqrt(2.0)))


CALIBRATIONS = {"analytic": analytic_sigma, "classical": classical_sigma}
"""How an (ε, δ) budget becomes the σ of a Gaussian at sensitivity 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _LawOfSigma(ParametricLaw):
    sigma: float | FloatArray

    def __post_init__(self) -> None:
        self._set("sigma", self.sigma)

    @classmethod
    def from_rho(cls, rho: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query ρ-zCDP: σ² = Δ₂²/(2ρ).

        Parameters
        ----------
        rho, sensitivity : float or array of float
            The budget ρ > 0; the L2 sensitivity Δ₂ > 0 of the query, whole if the noise is.
        """
        change, budget = _budgets(sensitivity, rho=rho)
        return cls(sigma=change / np.sqrt(2.0 * budget))

    @property
    def _abscissa(self) -> FloatArray:
        return np.full(self.shape, np.inf)


@dataclass(frozen=True, kw_only=True, eq=False)
class _LawOfScale(ParametricLaw):
    scale: float | FloatArray

    def __post_init__(self) -> None:
        self._set("scale", self.scale)

    @classmethod
    def from_epsilon(cls, epsilon: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query ε-differentially private: the scale Δ₁/ε.

        Parameters
        ----------
        epsilon, sensitivity : float or array of float
            The budget ε > 0; the L1 sensitivity Δ₁ > 0 of the query, whole if the noise is.
        """
        change, budget = _budgets(sensitivity, epsilon=epsilon)
        return cls(scale=change / budget)

    @property
    def _rate(self) -> FloatArray:
        return 1.0 / np.asarray(self.scale)

    @property
    def _abscissa(self) -> FloatArray:
        return self._rate


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussian(_LawOfSigma, ContinuousLaw):
    """Normal noise N(0, σ²).

    Parameters
    ----------
    sigma : float or array of float
        The standard deviation σ > 0 of the noise, in units of the query. An array gives every
        cell its own.

    Raises
    ------
    InvalidParameterError
        If ``sigma`` is not within [1e-100, 1e100].

    Notes
    -----
    With an L2 sensitivity of Δ₂ the noise is ρ-zCDP for σ² = Δ₂²/(2ρ), μ-GDP for μ = Δ₂/σ, and
    (ε, δ)-DP where Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ) ≤ δ. It is never ε-DP with δ = 0.

    References
    ----------
    Balle, B. and Wang, Y.-X. (2018). Improving the Gaussian mechanism for differential privacy:
    analytical calibration and optimal denoising. Proceedings of Machine Learning Research 80,
    394-403. arXiv:1805.06530, Theorem 8.

    Bun, M. and Steinke, T. (2016). Concentrated differential privacy: simplifications, extensions,
    and lower bounds. doi:10.1007/978-3-662-53641-4_24, Proposition 1.6.

    Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy. Journal of the Royal
    Statistical Society B 84(1), 3-37. doi:10.1111/rssb.12454, Theorem 1.

    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Theorem A.1.

    Examples
    --------
    >>> Gaussian.from_rho(0.125, sensitivity=3.0).sigma
    6.0
    >>> Gaussian.from_mu(0.5).sigma
    2.0
    >>> round(Gaussian.from_epsilon_delta(0.5, 1e-6).sigma, 10)
    8.0576184807
    >>> round(Gaussian.from_epsilon_delta(0.5, 1e-6, calibration="classical").sigma, 10)
    10.5976050537
    """

    @classmethod
    def from_mu(cls, mu: ArrayLike, *, sensitivity: ArrayLike = 1.0) -> Self:
        """Noise that makes a query μ-GDP (Gaussian differentially private): σ = Δ₂/μ.

        Parameters
        ----------
        mu, sensitivity : float or array of float
            The budget μ > 0; the L2 sensitivity Δ₂ > 0 of the query.
        """
        change, budget = _budgets(sensitivity, mu=mu)
        return cls(sigma=change / budget)

    @classmethod
    def from_epsilon_delta(
        cls,
        epsilon: ArrayLike,
        delta: ArrayLike,
        *,
        sensitivity: ArrayLike = 1.0,
        calibration: Literal["analytic", "classical"] = "analytic",
    ) -> Self:
        """Noise that makes a query (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon, delta, sensitivity : float or array of float
            The budget ε > 0 and δ in (0, 1); the L2 sensitivity Δ₂ > 0 of the query.
        calibration : {"analytic", "classical"}, default "analytic"
            The smallest σ that is private (Balle and Wang 2018), or the larger textbook value
            σ = Δ₂·√(2·ln(1.25/δ))/ε, whose proof needs ε < 1: larger ones are refused.
        """
        solve = CALIBRATIONS[check_option(calibration, "calibration", CALIBRATIONS)]
        change, budget, leak = _budgets(sensitivity, epsilon=epsilon, delta=delta)
        return cls(sigma=change * solve(budget, leak))

    def _variance(self) -> FloatArray:
        return np.asarray(np.square(np.asarray(self.sigma)))

    def _logpdf(self, x: FloatArray) -> FloatArray:
        sigma = np.asarray(self.sigma)
        return np.asarray(-0.5 * np.square(x / sigma) - np.log(np.sqrt(2.0 * np.pi) * sigma))

    def _sf(self, x: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(-x / self.sigma))

    def _logsf(self, x: FloatArray) -> FloatArray:
        return np.asarray(special.log_ndtr(-x / self.sigma))

    def _isf(self, q: FloatArray) -> FloatArray:
        return np.asarray(-special.ndtri(q) * self.sigma)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * np.square(np.asarray(self.sigma) * t)))

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        return np.asarray(0.5 * np.square(np.asarray(self.sigma) * s), dtype=np.complex128)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        noise = rng.standard_normal(shape)
        noise *= self.sigma
        return noise


# Sums of exp(-k²/(2σ²)) over whole numbers: the discrete Gaussian's normaliser, tails, moments.


CROSSOVER = 1.0 / np.sqrt(2.0 * np.pi)
"""The σ at which exp(-1/(2σ²)) = exp(-2π²σ²)."""

DIRECT_SIGMA = 4.0
"""Up to here a tail has at most 36 terms above exp(-40) of the first and is summed directly."""

_BLOCK = 1 << 9

# Σ_{j>=m} f(j) = ∫_{m-1/2}^∞ f - Σ_i B_{2i}(1/2)/(2i)! f^(2i-1)(m-1/2), DLMF 2.10.1 and 24.4.27
_EVEN = np.arange(2, 26, 2)
_MIDPOINT = (2.0 ** (1.0 - _EVEN) - 1.0) * special.bernoulli(24)[_EVEN] / special.factorial(_EVEN)


def log_normaliser(sigma: FloatArray) -> FloatArray:
    """Log Σ_k exp(-k²/(2σ²)) over all whole numbers."""
    small, large = _sides(sigma)
    direct = np.log1p(2.0 * sum(_small_term(small, k) for k in range(1, 5)))
    dual = np.log(large) + 0.5 * np.log(2.0 * np.pi) + np.log1p(2.0 * _dual_sum(large))
    return np.where(sigma < CROSSOVER, direct, dual)


def variance(sigma: FloatArray) -> FloatArray:
    """Σ k² exp(-k²/(2σ²)) / Σ exp(-k²/(2σ²)): σ² to all digits from σ = 1.5 on."""
    out = np.array(np.square(sigma))
    if (narrow := np.asarray(sigma < 1.5)).any():
        out[narrow] = _narrow_variance(np.asarray(sigma)[narrow])
    return out


def _narrow_variance(sigma: FloatArray) -> FloatArray:
    small, large = _sides(sigma)
    terms = {k: _small_term(small, k) for k in range(1, 5)}
    moment = 2.0 * sum(k**2 * term for k, term in terms.items())
    direct = moment / (1.0 + 2.0 * sum(terms.values()))
    weighted = sum(j**2 * _large_term(large, j) for j in range(1, 5))
    shrinkage = 8.0 * np.square(np.pi * large) * weighted / (1.0 + 2.0 * _dual_sum(large))
    return np.where(sigma < CROSSOVER, direct, np.square(large) * (1.0 - shrinkage))


def characteristic(t: FloatArray, sigma: FloatArray) -> FloatArray:
    """Σ cos(kt) exp(-k²/(2σ²)) / Σ exp(-k²/(2σ²)): sums without cancellation on either side."""
    angle = _principal(t)
    small, large = _sides(sigma)
    images = sum(
        np.exp(-0.5 * np.square(large * (angle + 2.0 * np.pi * j))) for j in _images(large)
    )
    dual = np.asarray(images / (1.0 + 2.0 * _dual_sum(large)))
    if (sigma >= CROSSOVER).all():
        return dual
    waves = sum(_small_term(small, k) * np.cos(k * angle) for k in range(1, 5))
    direct = (1.0 + 2.0 * waves) / (1.0 + 2.0 * sum(_small_term(small, k) for k in range(1, 5)))
    return np.where(sigma < CROSSOVER, direct, dual)


def log_characteristic(t: FloatArray, sigma: FloatArray) -> FloatArray:
    """Ln of the same, also where it is below the smallest float."""
    angle = np.clip(_principal(t), -np.pi, np.pi)
    _, large = _sides(sigma)
    # images relative to the nearest
    images = sum(
        np.exp(-2.0 * np.pi * j * np.square(large) * (angle + np.pi * j)) for j in _images(large)
    )
    found = np.log(images) - np.log1p(2.0 * _dual_sum(large)) - 0.5 * np.square(large * angle)
    if (sigma < CROSSOVER).any():
        direct = characteristic(t, np.minimum(sigma, CROSSOVER))
        found = np.where(sigma < CROSSOVER, np.log(direct), found)
    return np.asarray(found)


def cumulant(s: ComplexArray, sigma: FloatArray) -> ComplexArray:
    """Log Σ exp(ks - k²/(2σ²)) - log Σ exp(-k²/(2σ²)), on some branch of the logarithm."""
    s = s.real + 1j * _principal(s.imag)
    small, large = _sides(sigma)
    images = sum(
        np.exp(2.0 * np.pi * np.square(large) * j * (1j * s - np.pi * j)) for j in _images(large)
    )
    dual = 0.5 * np.square(large * s) + np.log(images) - np.log1p(2.0 * _dual_sum(large))
    if (sigma >= CROSSOVER).all():
        return np.asarray(dual)
    # the largest term is the one next to the mode σ² Re s of the tilted law
    mode = np.rint(np.square(small) * s.real)
    tilt = s - mode / np.square(small)
    direct = (
        mode * (s - 0.5 * mode / np.square(small))
        + np.log(sum(np.exp(k * tilt - 0.5 * np.square(k / small)) for k in range(-4, 5)))
        - np.log1p(2.0 * sum(_small_term(small, k) for k in range(1, 5)))
    )
    return np.where(sigma < CROSSOVER, direct, dual)


def relative_tail(first: FloatArray, sigma: FloatArray) -> FloatArray:
    """Σ_{j>=m} exp((m²-j²)/(2σ²)), a tail relative to its first term at m = ``first`` >= 1."""
    first, sigma = np.broadcast_arrays(first, sigma)
    out = np.empty(first.shape)
    direct = (sigma <= DIRECT_SIGMA) | (first >= np.square(sigma))
    for chosen, method in ((direct, _summed_tail), (~direct, _integrated_tail)):
        if chosen.any():
            out[chosen] = method(first[chosen], sigma[chosen])
    return out


def _summed_tail(first: FloatArray, sigma: FloatArray) -> FloatArray:
    """Add the terms exp(-i·m/σ² - i²/(2σ²)) up, as many as are above exp(-40) for some m and σ."""
    total = np.ones_like(first)
    for start in range(0, first.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        decay = 1.0 / np.square(sigma[block])
        rate = first[block] * decay
        # the i at which i·rate + i²·decay/2 = 40; terms that end at a rate of 700 end at once
        bounded = np.minimum(rate, 700.0)
        enough = np.max(80.0 / (bounded + np.sqrt(np.square(bounded) + 80.0 * decay)))
        i = np.arange(1.0, np.ceil(enough) + 1.0)
        exponent = np.outer(rate, -i)
        exponent -= np.outer(decay, 0.5 * i**2)
        total[block] += np.exp(exponent, out=exponent).sum(axis=1)
    return total


def _integrated_tail(first: FloatArray, sigma: FloatArray) -> FloatArray:
    """Midpoint Euler-Maclaurin sum; the last of its terms is below 1e-17 where m < σ² and σ > 4."""
    z = (first - 0.5) / sigma
    # f^(n) = (-1/σ)^n He_n(z) f, by the recurrence of h_n = He_n(z)/σ^n
    previous, hermite = np.ones_like(z), z / sigma
    total = sigma * np.sqrt(0.5 * np.pi) * special.erfcx(z / np.sqrt(2.0))
    slope, spread = np.max(z / sigma), 1.0 / np.min(sigma)
    for order, coefficient in zip(_EVEN - 1, _MIDPOINT, strict=True):
        # abs(He_n(z)) <= (z + √n)^n, as He_n(z) = E[(z + iX)^n] for a standard normal X
        if abs(coefficient) * (slope + np.sqrt(order) * spread) ** order < 1e-17:
            break
        total += coefficient * hermite
        for n in (order, order + 1):
            previous, hermite = hermite, (z * hermite - n * previous / sigma) / sigma
    return np.asarray(np.exp(0.5 * (first - 0.25) / np.square(sigma)) * total)


def _principal(angle: FloatArray) -> FloatArray:
    """Return the angle modulo 2π in [-π, π], unchanged where it is there already."""
    return np.asarray(angle - 2.0 * np.pi * np.rint(angle / (2.0 * np.pi)))


def _sides(sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return σ moved to either side of the crossover, so that both forms stay finite."""
    return np.minimum(sigma, CROSSOVER), np.maximum(sigma, CROSSOVER)


def _images(sigma: FloatArray) -> range:
    """Which images matter: from σ = 1 on, those beyond the next are below 1e-17 of the largest."""
    return range(-1, 2) if (sigma >= 1.0).all() else range(-4, 5)


def _small_term(sigma: FloatArray, k: int) -> FloatArray:
    return np.exp(-0.5 * np.square(k / sigma))


def _large_term(sigma: FloatArray, j: int) -> FloatArray:
    return np.exp(-2.0 * np.square(np.pi * j * sigma))


def _dual_sum(sigma: FloatArray) -> FloatArray:
    return np.asarray(sum(_large_term(sigma, j) for j in range(1, 5)))


LARGEST_TABULATED = 512.0
"""Up to this σ a guide table decides 9 in 10 draws or more by a single look-up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteGaussian(_LawOfSigma, IntegerLaw):
    """Discrete Gaussian noise: P(k) proportional to ``exp(-k**2 / (2*sigma**2))``, k whole.

    Parameters
    ----------
    sigma : float or array of float
        The parameter σ > 0, in units of the query. The standard deviation of the noise is
        slightly below it, by less than one part in 10⁷ once σ ≥ 1. An array gives every cell its
        own.

    Raises
    ------
    InvalidParameterError
        If ``sigma`` is not within [1e-100, 1e15].

    Notes
    -----
    An L2 sensitivity of Δ₂ and a budget of ρ-zCDP give σ² = Δ₂²/(2ρ), as for the Gaussian. It is
    meant for integer-valued queries only: on any other query, neighbouring databases give releases
    with disjoint supports. A sum of discrete Gaussians is not a discrete Gaussian; use
    ``WeightedSum``.

    The normaliser Σ exp(-k²/(2σ²)) is summed as it stands for small σ and by Poisson summation,
    σ√(2π)·Σ exp(-2π²σ²j²), for large σ. Tails are sums of positive terms, or Euler-Maclaurin
    sums around a scaled complementary error function, accurate to about 1e-13 relative.

    References
    ----------
    Canonne, C. L., Kamath, G. and Steinke, T. (2020). The discrete Gaussian for differential
    privacy. Advances in Neural Information Processing Systems 33. arXiv:2004.00010, Definition 1
    and Theorem 4.

    Examples
    --------
    >>> noise = DiscreteGaussian.from_rho(0.02)
    >>> noise.sigma
    5.0
    >>> noise.isf(0.025), noise.cdf(-11).round(12)
    (np.float64(10.0), np.float64(0.017710733047))
    """

    def _variance(self) -> FloatArray:
        return variance(np.asarray(self.sigma))

    def _logpmf(self, k: FloatArray) -> FloatArray:
        sigma = np.asarray(self.sigma)
        return np.asarray(-0.5 * np.square(k / sigma) - log_normaliser(sigma))

    def _tail(self, k: FloatArray) -> FloatArray:
        # 1 - P(e > -k-1) for negative k, where the second tail is at most one half
        upper = np.exp(self._log_upper_tail(np.where(k >= 0, k, -k - 1.0)))
        return np.where(k >= 0, upper, 1.0 - upper)

    def _logtail(self, k: FloatArray) -> FloatArray:
        logupper = self._log_upper_tail(np.where(k >= 0, k, -k - 1.0))
        return np.where(k >= 0, logupper, np.log1p(-np.exp(logupper)))

    def _log_upper_tail(self, k: FloatArray) -> FloatArray:
        """Log P(e > k) for k >= 0: the first term of a sum, times the sum relative to it."""
        sigma = np.asarray(self.sigma)
        first = k + 1.0
        logsum = np.log(relative_tail(first, sigma)) - log_normaliser(sigma)
        return np.asarray(-0.5 * np.square(first / sigma) + logsum)

    def _isf_start(self, q: FloatArray) -> FloatArray:
        # P(e > k) is close to the normal tail at k + 1/2
        start = np.ceil(-special.ndtri(q) * np.asarray(self.sigma) - 0.5)
        return np.asarray(np.maximum(start, 0.0))

    def _cf(self, t: FloatArray) -> FloatArray:
        return characteristic(t, np.asarray(self.sigma))

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        return cumulant(s, np.asarray(self.sigma))

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        sigma = np.asarray(self.sigma)
        if sigma.ndim == 0 and sigma > LARGEST_TABULATED:
            return rounded_normal_draws(sigma, shape, rng)
        if sigma.ndim == 0 and prod(shape) >= WORTHWHILE:
            return guide_table(self).draw(shape, rng)
        if (groups := few_values(sigma, shape)) is None:
            return discrete_gaussian_draws(sigma, shape, rng)
        out = np.empty(shape, dtype=np.int64)
        for value, cells in groups:
            part = (*shape[:-1], cells.size)
            out[..., cells] = DiscreteGaussian(sigma=value)._rvs(part, rng)
        return out


GEOMETRIC_LARGEST_TABULATED = 100.0
"""Up to this scale a guide table decides 19 in 20 draws or more by a single look-up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometric(_LawOfScale, IntegerLaw):
    """Two-sided geometric noise: P(k) = (1-a)/(1+a)·a^abs(k) with a = exp(-1/scale), k whole.

    Parameters
    ----------
    scale : float or array of float
        The scale s > 0 of the noise, in units of the query; for large s the standard deviation is
        close to √2·s. An array gives every cell its own scale.

    Raises
    ------
    InvalidParameterError
        If ``scale`` is not within [1e-100, 1e15].

    Notes
    -----
    An L1 sensitivity of Δ₁ and a budget ε give s = Δ₁/ε, which is ε-differentially private for
    integer-valued (counting) queries *only*: on any other query, neighbouring databases give
    releases with disjoint supports, which tells them apart for certain. The variance is
    2a/(1-a)². SciPy's ``dlaplace`` is the same law with the parameter 1/s.

    References
    ----------
    Ghosh, A., Roughgarden, T. and Sundararajan, M. (2012). Universally utility-maximizing privacy
    mechanisms. SIAM Journal on Computing 41(6), 1673-1693. doi:10.1137/09076828X.

    Examples
    --------
    >>> noise = Geometric.from_epsilon(0.5)
    >>> noise.scale, noise.variance.round(12)
    (2.0, np.float64(7.835396178066))
    >>> noise.isf(0.05), noise.pmf([0, 0.5])
    (np.float64(5.0), array([0.24491866, 0.        ]))
    """

    def _variance(self) -> FloatArray:
        return 2.0 * np.exp(-self._rate) / np.square(np.expm1(-self._rate))

    def _logpmf(self, k: FloatArray) -> FloatArray:
        return np.log(np.tanh(0.5 * self._rate)) - np.abs(k) / self.scale

    def _tail(self, k: FloatArray) -> FloatArray:
        # P(e > k) = a^(k+1)/(1+a) for k >= 0, and 1 - P(e > -k-1) below
        upper = np.exp(-np.where(k >= 0, k + 1.0, -k) / self.scale) / (1.0 + np.exp(-self._rate))
        return np.where(k >= 0, upper, 1.0 - upper)

    def _logtail(self, k: FloatArray) -> FloatArray:
        logupper = -np.where(k >= 0, k + 1.0, -k) / self.scale - np.log1p(np.exp(-self._rate))
        return np.where(k >= 0, logupper, np.log1p(-np.exp(logupper)))

    def _isf_start(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            steps = -self.scale * (np.log(q) + np.log1p(np.exp(-self._rate)))
        return np.maximum(np.ceil(steps) - 1.0, 0.0)

    def _cf(self, t: FloatArray) -> FloatArray:
        # (1-a)²/(1-2a·cos t+a²) = 1/(1 + 2v·sin²(t/2)) with the variance v
        return 1.0 / (1.0 + 2.0 * self._variance() * np.square(np.sin(0.5 * t)))

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        # the same at t = -is, as a product of two factors: accurate close to the abscissa
        ratio = np.sinh(0.5 * s) / np.sinh(0.5 * self._rate)
        return np.asarray(-special.log1p(-ratio) - special.log1p(ratio))

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        scale = np.asarray(self.scale)
        if scale.ndim == 0 and scale <= GEOMETRIC_LARGEST_TABULATED and prod(shape) >= WORTHWHILE:
            return guide_table(self).draw(shape, rng)
        return geometric_draws(scale, shape, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class Laplace(_LawOfScale, ContinuousLaw):
    """Laplace noise with density ``exp(-abs(x)/scale) / (2*scale)``.

    Parameters
    ----------
    scale : float or array of float
        The scale b > 0 of the noise, in units of the query; its standard deviation is √2·b.
        An array gives every cell its own scale.

    Raises
    ------
    InvalidParameterError
        If ``scale`` is not within [1e-100, 1e100].

    Notes
    -----
    An L1 sensitivity of Δ₁ and a budget ε give b = Δ₁/ε, which is ε-differentially private for
    queries of any real value. The variance is 2b².

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy. Foundations
    and Trends in Theoretical Computer Science 9(3-4), 211-407. doi:10.1561/0400000042,
    Definition 3.3 and Theorem 3.6.

    Examples
    --------
    >>> noise = Laplace.from_epsilon(0.5)
    >>> noise.scale, noise.variance
    (2.0, np.float64(8.0))
    >>> noise.sf(2 * np.log(10)).round(12)
    np.float64(0.05)
    """

    def _variance(self) -> FloatArray:
        return np.asarray(2.0 * np.square(np.asarray(self.scale)))

    def _logpdf(self, x: FloatArray) -> FloatArray:
        scale = np.asarray(self.scale)
        return np.asarray(-np.abs(x) / scale - np.log(2.0 * scale))

    def _sf(self, x: FloatArray) -> FloatArray:
        upper = 0.5 * np.exp(np.abs(x) / -self.scale)
        return np.asarray(np.where(x >= 0, upper, 1.0 - upper))

    def _logsf(self, x: FloatArray) -> FloatArray:
        logupper = -np.abs(x) / np.asarray(self.scale) - np.log(2.0)
        return np.asarray(np.where(x >= 0, logupper, np.log1p(-np.exp(logupper))))

    def _isf(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            upper = -np.log(2.0 * np.minimum(q, 1.0 - q)) * self.scale
        return np.where(q <= 0.5, upper, -upper)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.square(np.asarray(self.scale) * t)))

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        # two factors of 1 - (bs)²: accurate close to the abscissa
        z = np.asarray(self.scale) * s
        return np.asarray(-special.log1p(-z) - special.log1p(z))

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return laplace_draws(np.asarray(self.scale), shape, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exact(IntegerLaw):
    """Noise that is always zero: the law of a published invariant.

    A release marks with it the values that carry no noise. In a combined estimate they are
    constraints that hold exactly. It protects nothing, so it has no privacy guarantee.

    Examples
    --------
    >>> Exact().variance
    np.float64(0.0)
    """

    def _variance(self) -> FloatArray:
        return np.zeros(())

    def _logpmf(self, k: FloatArray) -> FloatArray:
        return np.where(k == 0, 0.0, -np.inf)

    def _tail(self, k: FloatArray) -> FloatArray:
        return np.where(k < 0, 1.0, 0.0)

    def _logtail(self, k: FloatArray) -> FloatArray:
        return np.where(k < 0, 0.0, -np.inf)

    def _isf_start(self, q: FloatArray) -> FloatArray:
        return np.zeros_like(q)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.ones_like(t)

    @property
    def _abscissa(self) -> FloatArray:
        return np.full((), np.inf)

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        return np.zeros_like(s)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return np.zeros(shape, dtype=np.int64)
