"""What published values say of functions that are 0 up to the threshold, whatever is not listed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.lattice import alike
from dpinfer.intervals._thresholded import log_moment, log_reaching
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric

# Functions of the counts, and estimates of them without bias.


class Scores(NamedTuple):
    """Contributions of published values to an estimate, and to that of its variance."""

    value: FloatArray
    variance: FloatArray


class _Curve(NamedTuple):
    """A function that is 0 up to the threshold, and its derivatives."""

    r: FloatArray
    slope: FloatArray
    bend: FloatArray


def _ramp(z: FloatArray, _: FloatArray, width: FloatArray, unit: float) -> _Curve:
    """0 up to 0, z - (width - unit)/2 from ``width`` on; z(z + unit)/(2·width) between."""
    inside = np.clip(z, 0.0, width)
    bent = inside * (inside + unit) / (2.0 * width)
    r = np.where(z < width, bent, z - 0.5 * (width - unit))
    return _Curve(r, inside / width, np.where((z > 0) & (z < width), 1.0 / width, 0.0))


def _step(z: FloatArray, _: FloatArray, width: FloatArray, unit: float) -> _Curve:
    """3u² - 2u³ with u = z/width between 0 and 1."""
    u = np.clip(z / width, 0.0, 1.0)
    bend = np.where((z > 0) & (z < width), (6.0 - 12.0 * u) / width**2, 0.0)
    return _Curve(u**2 * (3.0 - 2.0 * u), 6.0 * u * (1.0 - u) / width, bend)


def _whole_from(z: FloatArray, first: FloatArray, width: FloatArray, unit: float) -> _Curve:
    """Return the value itself times :func:`_step`."""
    x, (r, slope, bend) = z + first, _step(z, first, width, unit)
    return _Curve(x * r, r + x * slope, 2.0 * slope + x * bend)


_CURVES = {"excess": _ramp, "soft": _ramp, "soft-total": _whole_from, "soft-count": _step}

WIDTHS = {"excess": 1.0, "soft": 1.0, "soft-total": 4.0, "soft-count": 4.0}
"""Widths in scales of the noise."""


class Soft(NamedTuple):
    """Cells with a kind of noise, shape (n,) or one for all, and a function of their counts."""

    law: ParametricLaw
    first: FloatArray
    """The smallest value that is published."""
    width: FloatArray
    target: str

    def take(self, rows: NDArray[np.intp]) -> Soft:
        law = self.law.take(rows) if self.law.shape else self.law
        return Soft(law, self.first[rows], self.width[rows], self.target)

    def scores(self, y: FloatArray) -> Scores:
        """Apply r - (v/2)·(second difference or derivative of r); under Gaussian noise, y - t."""
        v = np.asarray(self.law.variance)
        if isinstance(self.law, (Gaussian, DiscreteGaussian)):  # a slope of 1 where published
            return Scores(y - self.first, np.broadcast_to(v, y.shape))
        curve, z, half = _CURVES[self.target], y - self.first, 0.5 * v
        if isinstance(self.law, Geometric):
            below, at, above = (curve(z + k, self.first, self.width, 1.0).r for k in (-1, 0, 1))
            value = at - half * (below - 2.0 * at + above)
            squares = at**2 - half * (below**2 - 2.0 * at**2 + above**2)
        else:
            r, slope, bend = curve(z, self.first, self.width, 0.0)
            value = r - half * bend
            squares = r**2 - 2.0 * half * (slope**2 + r * bend)
        return Scores(value, value**2 - squares)

    def most(self) -> FloatArray:
        """Return the largest tilt, at which :meth:`log_factors` are of at least 1/4 exp(±κr).

        They are that much if (v/2)·(κ·|r''| + κ²·r'²·exp(κ·r')) <= 3/4.
        """
        if isinstance(self.law, (Gaussian, DiscreteGaussian)):
            most = _LARGEST / _sigma(self.law)
            return np.minimum(most, _STEEPEST) if self.law.is_integer else most
        v, w = np.asarray(self.law.variance), self.width
        half, grown = self._halves(v)
        grown = np.maximum(grown, 1e-100)  # noise that is 0
        if self.target in ("excess", "soft"):
            return self._flat(np.sqrt(0.375 / grown), 1.0)
        reach = np.abs(self.first) + w if self.target == "soft-total" else 1.0
        own = 1.0 if self.target == "soft-total" else 0.0
        bend = half * (own * 3.0 / w + reach * 6.0 / w**2)
        slope = np.maximum(own + reach * 1.5 / w, 1e-100)
        most = 1.5 / (bend + np.sqrt(bend**2 + 3.0 * grown * slope**2))
        return self._flat(np.asarray(most), slope)

    def log_factors(self, y: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return logarithms of factors with a mean of at most exp(κ·r), unpublished cells having 1.

        With u = exp(κ·r) - 1, which is 0 up to the threshold, they are 1 + u - (v/2)u'', of mean
        exp(κ·r). For κ > 0 a wider bend, which is below r, keeps them positive.
        """
        if isinstance(self.law, (Gaussian, DiscreteGaussian)):
            return tilt * (y - self.first) - np.abs(tilt) * self._losses(tilt)
        curve, z = _CURVES[self.target], y - self.first
        half, grown = self._halves(np.asarray(self.law.variance))
        width = self.width
        if self.target in ("excess", "soft"):
            least = half * np.maximum(tilt, 0.0) / (0.75 - grown * tilt**2)
            width = np.maximum(width, np.ceil(least) if self.law.is_integer else least)
        if isinstance(self.law, Geometric):
            below, at, above = (curve(z + k, self.first, width, 1.0).r for k in (-1, 0, 1))
            bent = np.expm1(tilt * (above - at)) + np.expm1(tilt * (below - at))
            return np.asarray(tilt * at + np.log1p(-half * bent))
        r, slope, bend = curve(z, self.first, width, 0.0)
        return np.asarray(tilt * r + np.log1p(-half * (tilt * bend + np.square(tilt * slope))))

    def _halves(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return v/2, and for whole numbers v/2 times a bound of exp(κ·r')."""
        if not isinstance(self.law, Geometric):
            return 0.5 * v, 0.5 * v
        return 0.5 * v, 0.5 * v * np.exp(np.sqrt(1.5 / np.maximum(v, 1.5 / _FLAT**2)))

    def _flat(self, most: FloatArray, slope: Any) -> FloatArray:
        """Keep κ·r' below what :meth:`_halves` takes as its bound."""
        return np.asarray(np.minimum(most, _FLAT / slope) if self.law.is_integer else most)

    def _losses(self, tilt: FloatArray) -> FloatArray:
        """Losses at tilts rounded up: what holds at a tilt holds at smaller ones, by Jensen."""
        sigma = np.broadcast_to(_sigma(self.law), tilt.shape)
        steps = np.ceil(np.log(np.abs(tilt) * sigma / _LARGEST) / np.log(_FINE) - 1e-9)
        rounded = np.sign(tilt) * _LARGEST * _FINE**steps / sigma
        if not tilt.size:
            return np.asarray(rounded)
        first, kind = alike([sigma, steps, np.sign(tilt)])
        whole = self.law.is_integer
        found = [_loss(whole, float(sigma[at]), float(rounded[at])) for at in first]
        return np.asarray(found)[kind]


def _sigma(law: Any) -> FloatArray:
    return np.asarray(law.sigma, dtype=np.float64)


_LARGEST = 1.25
_FINE = 1.05
_FLAT = 3.0
_STEEPEST = 20.0
"""Bounds where noise is far below 1."""
_SPAN = 10.0
_GRID = 4000
_SUMMED = 1e4
"""Parameter from which discrete Gaussian noise counts as Gaussian: within 1e-8."""


@lru_cache(maxsize=4096)
def _loss(whole: bool, sigma: float, tilt: float) -> float:
    """Return a loss b with P(y < t) + E[exp(κ(y - t) - |κ|b); y >= t] <= exp(κ·E(y - t)₊) always.

    The largest that any distance of a count from the threshold needs, on a grid of them, and
    0.1 % more; far above it is log E exp(κe)/|κ|, at most |κ|σ²/2.
    """
    summed = whole and sigma <= _SUMMED
    law: Any = DiscreteGaussian(sigma=sigma) if summed else Gaussian(sigma=sigma)
    d = np.linspace(-_SPAN * sigma, _SPAN * sigma, _GRID + 1)
    if summed:
        end = np.ceil(_SPAN * sigma) + 2.0
        points = np.arange(-end, end + 1.0)
        beyond = np.append(law.sf(points[::-1] - 1.0).cumsum()[::-1], 0.0)  # sums of P(e >= k)
        d = np.unique(np.rint(np.append(d, [-end, end])))
        mean = beyond[(1.0 - d + end).astype(np.intp)]
    else:
        z = d / sigma
        mean = sigma * (z * special.ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))
    reaching = log_reaching(law, -d)
    seen = reaching > -600.0
    room = (np.expm1(tilt * mean) + np.exp(reaching))[seen]
    if (room <= 0).any():
        return np.inf
    needed = ((log_moment(law, tilt)(-d) + tilt * d)[seen] - np.log(room)) / abs(tilt)
    return float(1.001 * max(needed.max(), 0.5 * abs(tilt) * sigma**2))


# Lower ends from products of factors.

TILTS = 10
"""Each is half of the one before: those for one cell, and for some hundred thousand."""


def lowest(sums: FloatArray, tilts: FloatArray, q: float) -> FloatArray:
    """Return R with mean over tilts of exp(sum - tilt·R) = 1/q, for columns of sums, from below.

    The mean of exp(sum - tilt·truth) is at most 1. Newton's steps from the left stay there, as the
    logarithm is convex.
    """
    room = np.log(len(tilts) / q)
    found = np.max((sums - room) / tilts, axis=0)
    for _ in range(20):
        terms = sums - tilts * found
        share = special.softmax(terms, axis=0)
        found = found + (special.logsumexp(terms, axis=0) - room) / np.sum(share * tilts, axis=0)
    return np.asarray(found)
