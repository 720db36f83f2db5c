"""The law of a sum of scores of multinomial counts published with noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma
from typing import Literal

import numpy as np

from dpinfer._check import (
    FloatArray,
)
from dpinfer._numerics.counts import binom_pmf
from dpinfer._numerics.lattice import common_spacing, masses, slices
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms._noisy_count import MOST_WORK, work_at_a_point
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import fast_sum, spacing_of, untabulated
from dpinfer.releases.values import NoisyValues
from dpinfer.results.null import (
    around,
)

LONGEST = 1 << 22
"""Largest number of values of the sum."""

_LOG_NEGLIGIBLE = 46.0
"""The probability left out on either side is below exp(-46) = 1e-20."""

_FAR = 1e-4
"""Smaller tails are computed anew, where they are to be accurate relative to their size."""

_TILTS, _ROUNDS = 128, 3
"""Tilts among which the best one is looked for, and how often, more and more finely."""

_ROUNDING = 64 * np.finfo(float).eps

_POINTS_IN_BLOCK = 1 << 20

_ENUMERATED = 1 << 17
"""Number of ways to fill the cells up to which they are gone through one by one."""

_WORK_FOR_EACH = 1 << 17
"""Work that each of many points may take, some 10 ms."""


@dataclass(frozen=True, eq=False)
class NoisyScores:
    """Law of T = Σ sᵢ(yᵢ - n pᵢ), y = X + e, with X ~ multinomial(n, p) and noise e."""

    nobs: int
    shares: FloatArray  # p, shape (k,)
    scores: FloatArray  # s, not all equal
    noise: NoiseLaw  # of shape () or (k,); of what errors are made of where these are given
    errors: NoisyValues | None = None  # where they depend on one another

    @classmethod
    def of(
        cls,
        nobs: int,
        shares: FloatArray,
        scores: FloatArray,
        noise: NoiseLaw,
        errors: NoisyValues | None = None,
    ) -> NoisyScores:
        """Law for scores that are shifted first, so that the variance of the noise is least.

        A shift changes nothing in the counts, whose total is known. The best one for errors of
        covariance C has C1 for weights.
        """
        if errors is not None:
            weights = errors.cov() @ np.ones(scores.size)
            negligible = weights.sum() <= _ROUNDING * errors.variance.sum()
            weights = shares if negligible else weights
        else:
            variance = np.broadcast_to(noise.variance, scores.shape)
            weights = variance if variance.any() else shares
        # the lowest score first: equally spaced scores stay so in float64, however far from zero
        above = scores - scores.min()
        return cls(nobs, shares, above - above @ weights / weights.sum(), noise, errors)

    def deviation(self, counts: FloatArray) -> FloatArray:
        """T for published counts of shape (..., k)."""
        return np.asarray((counts - self.nobs * self.shares) @ self.scores)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of Σ sᵢXᵢ."""
        centred = self.scores - self.shares @ self.scores
        return float(np.sqrt(self.nobs * (self.shares @ np.square(centred))))

    @cached_property
    def noise_std(self) -> float:
        """Standard deviation of Σ sᵢeᵢ."""
        if self.errors is not None:
            return float(np.sqrt(np.maximum(self.scores @ self.errors.cov() @ self.scores, 0.0)))
        return float(np.sqrt(np.sum(np.square(self.scores) * self.noise.variance)))

    @property
    def default_method(self) -> Literal["exact", "monte-carlo"]:
        """Whether the exact law is available, and not too much work."""
        affordable = self._grid is not None and self.work <= MOST_WORK
        return "exact" if affordable else "monte-carlo"

    def slack(self, t: FloatArray) -> FloatArray:
        """Return the rounding error of a computed deviation."""
        size = np.abs(self.scores) @ (self.nobs * self.shares)
        return np.asarray(_ROUNDING * (np.abs(t) + size))

    def upper(self, t: FloatArray) -> FloatArray:
        """P(T >= t)."""
        return self._tail(t, 1.0)

    def lower(self, t: FloatArray) -> FloatArray:
        """P(T <= t)."""
        return self._tail(-t, -1.0)

    def far_upper(self, t: FloatArray) -> FloatArray:
        """P(T >= t), accurate relative to its size however small, or down to ``error``."""
        return self._refined(self.upper(t), t, 1.0)

    def far_lower(self, t: FloatArray) -> FloatArray:
        """P(T <= t), likewise."""
        return self._refined(self.lower(t), -t, -1.0)

    def around(self, z: FloatArray) -> FloatArray:
        """Return the values of T/spread around given ones, where they are on a lattice."""
        unit, centre = 0.0, 0.0
        if self._grid is not None and self._is_whole and self.noise_std > 0:
            # a common divisor of the weights of all noises divides those of the counts, too
            unit = self._unit * spacing_of(self._noise_sum)
            centre = self._grid[0] * self.nobs * float(self.shares @ self._grid[1])
        return around(z, unit=np.asarray(unit), centre=centre, spread=np.asarray(self.spread))

    @cached_property
    def error(self) -> float:
        """Absolute error of these tails; 0 where it is relative."""
        return float(untabulated(self._noise_sum)._floor)

    def _refined(self, tail: FloatArray, t: FloatArray, sign: float) -> FloatArray:
        out = tail.reshape(-1).copy()
        for place in np.flatnonzero(out < _FAR):
            out[place] = self._far(float(t.flat[place]), sign)
        return out.reshape(tail.shape)

    def _far(self, t: float, sign: float) -> float:
        """P(sign·T >= t) from the law of U under shares p·exp(θs), to which t is not far.

        P(U = u) = P'(U = u)·exp(K(θ) - θu) with K(θ) = log E[exp(θU)]; P' has its centre where the
        terms P(U = u)·P(noise >= t - u) are largest, so that rounding errors of the transform stay
        small beside their sum.
        """
        scores = sign * self.scores
        centred = scores - self.shares @ scores
        noise, slack = untabulated(self._noise_sum), float(self.slack(np.asarray(t)))

        def log_noise(u: FloatArray) -> FloatArray:
            return noise._logcdf((u - t + slack) / self._unit)

        theta = np.zeros(1)
        if self._compositions > _ENUMERATED:
            theta = np.append(0.0, np.geomspace(1e-6, 1e3, _TILTS)) / np.ptp(scores)
        for _ in range(_ROUNDS if theta.size > 1 else 0):
            exponents = np.multiply.outer(theta, centred)
            weights = self.shares * np.exp(exponents - exponents.max(axis=1, keepdims=True))
            mean = self.nobs * (weights @ centred) / weights.sum(axis=1)
            log_mgf = self.nobs * (np.log(weights.sum(axis=1)) + exponents.max(axis=1))
            best = int(np.argmax(log_mgf - theta * mean + log_noise(mean)))
            ends = theta[max(best - 1, 0)], theta[min(best + 1, theta.size - 1)]
            theta = np.append(theta[best], np.linspace(*ends, _TILTS))
        exponent = theta[0] * centred
        weights = self.shares * np.exp(exponent - exponent.max())
        log_mgf = self.nobs * (np.log(weights.sum()) + exponent.max())
        tilted = replace(self, shares=weights / weights.sum(), scores=scores)
        values, chances = tilted._sum
        values = values + self.nobs * (tilted.shares @ centred)
        with np.errstate(divide="ignore"):
            terms = np.log(chances) + log_mgf - theta[0] * values + log_noise(values)
        return float(np.exp(min(np.logaddexp.reduce(terms), 0.0)))

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw T in units of ``spread``."""
        if self.errors is None:
            counts = self.noise._rvs((size, self.scores.size), rng).astype(np.float64)
        else:
            counts = self.errors.draw(size, rng=rng)
        counts += rng.multinomial(self.nobs, self.shares, size)
        return self.deviation(counts) / self.spread

    def _tail(self, t: FloatArray, sign: float) -> FloatArray:
        """P(sign·T >= t) = Σ_u P(U = u)·P(noise >= t - sign·u); the noise is symmetric."""
        self._check_work(t.size)
        values, chances = self._sum
        slack = self.slack(t).reshape(-1, 1)
        points = np.reshape(t, (-1, 1))
        tail = np.empty(points.size)
        for rows in slices(points.size, _POINTS_IN_BLOCK // values.size):
            distance = sign * values - points[rows] + slack[rows]
            tail[rows] = self._noise_sum._cdf(distance / self._unit) @ chances
        return np.clip(tail, 0.0, 1.0).reshape(t.shape)

    def _check_work(self, points: int) -> None:
        """Refuse sums over more values than can be gone through."""
        if self._grid is None:
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' where the scores have no common "
                f"spacing, or their sum has more than {LONGEST} values, got 'exact'"
            )
        if points * self.work > max(2.0 * MOST_WORK, _WORK_FOR_EACH * points):
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' where the sum of the scores and that "
                "of their noise have so many values, got 'exact', which would take some "
                f"{1e-7 * points * self.work:.2g} s"
            )

    @cached_property
    def work(self) -> float:
        """About how much work a tail is."""
        assert self._grid is not None
        length = 2.0 * self._grid[2] + 2.0
        return min(length, self._compositions) * work_at_a_point(self._noise_sum)

    @cached_property
    def _noise_sum(self) -> NoiseLaw:
        """Law of Σ sᵢeᵢ in the unit of the noise."""
        if self.errors is not None:
            return self.errors.law_of(self.scores)
        cells = range(self.scores.size)
        weights = np.rint(self.scores / self._unit) if self._is_whole else self.scores
        return fast_sum(
            weights, [self.noise.take(i) if self.noise.shape else self.noise for i in cells]
        )

    @property
    def _is_whole(self) -> bool:
        """Whether Σ sᵢeᵢ is on a known lattice: the shift of the scores is their mean."""
        single = self.noise.shape == () and self.errors is None
        return bool(self._grid and single and self.noise.is_integer)

    @property
    def _unit(self) -> float:
        """Number of which the shifted scores are whole multiples, where there is one."""
        return self._grid[0] / self.scores.size if self._grid and self._is_whole else 1.0

    @property
    def _compositions(self) -> float:
        """In how many ways the observations fall into the cells."""
        cells, n = self.scores.size, self.nobs
        return float(np.exp(min(lgamma(n + cells) - lgamma(n + 1) - lgamma(cells), 700.0)))

    @cached_property
    def _grid(self) -> tuple[float, FloatArray, float] | None:
        """Spacing h of the scores, the whole numbers (s - min s)/h, and the reach of their sum.

        None where the scores have no common spacing, or the sum too many values.
        """
        above = self.scores - self.scores.min()
        found = common_spacing(above[above > 0], smallest=float(above.max()) / LONGEST)
        if found is None:
            return None
        steps = np.zeros(above.size)
        steps[above > 0] = found[1]
        variance = self.nobs * (self.shares @ np.square(steps - self.shares @ steps))
        # Bernstein: P(deviation > R) <= exp(-R²/2/(variance + b R/3)) for scores within b
        third = steps.max() * _LOG_NEGLIGIBLE / 3.0
        reach = third + np.sqrt(third**2 + 2.0 * _LOG_NEGLIGIBLE * variance)
        reach = np.ceil(min(reach, self.nobs * steps.max())) + 1.0
        return None if 2.0 * reach + 2.0 > LONGEST else (found[0], steps, float(reach))

    @cached_property
    def _sum(self) -> tuple[FloatArray, FloatArray]:
        """Values of Σ sᵢXᵢ less its mean, and their probabilities."""
        assert self._grid is not None
        return self._enumerated() if self._compositions <= _ENUMERATED else self._transformed()

    def _enumerated(self) -> tuple[FloatArray, FloatArray]:
        """All that the counts can be, one cell after the other, each binomial given the last."""
        assert self._grid is not None
        spacing, steps, _ = self._grid
        total, left, chances = np.zeros(1), np.full(1, float(self.nobs)), np.ones(1)
        order = np.argsort(self.shares, kind="stable")  # of what is left, none has nearly all
        shares, steps = self.shares[order], steps[order]
        share_left = np.cumsum(shares[::-1])[::-1]
        for share, rest, step in zip(shares[:-1], share_left, steps, strict=False):
            sizes = left.astype(np.intp) + 1
            count = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            total, left, chances = (np.repeat(x, sizes) for x in (total, left, chances))
            chances = chances * binom_pmf(count.astype(np.float64), left, np.asarray(share / rest))
            total, left = total + step * count, left - count
        found, place = np.unique(total + steps[-1] * left, return_inverse=True)
        mean = float(shares @ steps)
        return spacing * (found - self.nobs * mean), np.bincount(place, chances).astype(np.float64)

    def _transformed(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities of equally spaced values by the discrete Fourier transform."""
        from scipy import fft

        assert self._grid is not None
        spacing, steps, reach = self._grid
        mean = float(self.shares @ steps)
        first = np.floor(self.nobs * mean - reach)
        length = fft.next_fast_len(int(2.0 * reach) + 2)
        angle = 2.0 * np.pi * fft.rfftfreq(length)
        # E[exp(iθ(s - mean))] - 1, whose first-order terms cancel
        less_one = np.zeros(angle.size, dtype=np.complex128)
        for share, step in zip(self.shares, steps, strict=True):
            x = angle * (step - mean)
            less_one += share * (1j * np.sin(x) - 2.0 * np.square(np.sin(0.5 * x)))
        gone = less_one == -1.0
        less_one[gone] = 0.0
        shift = 1j * angle * (first - self.nobs * mean)
        power = np.where(gone, 0.0, np.exp(self.nobs * np.log1p(less_one) - shift))
        chances = np.maximum(masses(np.conj(power), length), 0.0)
        values = spacing * (first - self.nobs * mean + np.arange(length))
        return values, chances
