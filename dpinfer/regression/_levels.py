"""Levels that move as a random walk, seen through noise of known laws, and breaks in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft, signal, special

from dpinfer._check import FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import NotEstimableError
from dpinfer.releases.values import NoisyValues

_LOG_2PI = np.log(2.0 * np.pi)


class NormalMixture(NamedTuple):
    """Mixtures of k normal laws, for each of m days."""

    weights: FloatArray
    means: FloatArray
    stds: FloatArray

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations."""
        return mixture_moments(*self)

    def ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return quantiles that leave α/2 on either side."""
        stds = np.maximum(self.stds, 1e-300)
        low, high = (
            mixture_quantiles(q, self.weights, self.means, stds)
            for q in (0.5 * alpha, 1.0 - 0.5 * alpha)
        )
        return low, high

    def below(self, value: float) -> FloatArray:
        """Return P(X < value) of each."""
        from scipy import special

        stds = np.maximum(self.stds, 1e-300)
        return np.asarray(self.weights @ special.ndtr((value - self.means) / stds))


class GridLaw(NamedTuple):
    """Masses at points of a grid, (m, g), for each of m days."""

    points: FloatArray
    mass: FloatArray
    whole: bool
    """Whether the level is a whole number: ends are rounded outwards."""
    scale: Callable[[FloatArray], FloatArray] | None = None
    """What the level is of a point, such as exp."""

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations."""
        x = self._at(self.points)
        mean = self.mass @ x
        return mean, np.sqrt(np.maximum(self.mass @ np.square(x) - mean**2, 0.0))

    def ends(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return quantiles that leave at most α/2 on either side."""
        step = self.points[1] - self.points[0]
        edges = np.append(self.points - 0.5 * step, self.points[-1] + 0.5 * step)
        lower, upper = np.empty(len(self.mass)), np.empty(len(self.mass))
        for row, mass in enumerate(self.mass):
            below = np.append(0.0, np.cumsum(mass))
            above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
            lower[row] = np.interp(0.5 * alpha, below, edges)
            upper[row] = -np.interp(0.5 * alpha, above[::-1], -edges[::-1])
        if self.whole:
            lower, upper = np.floor(lower + 0.5), np.ceil(upper - 0.5)
        return self._at(lower), self._at(upper)

    def below(self, value: float) -> FloatArray:
        """Return P(X < value) of each, half of the mass at the value itself."""
        return np.asarray(self.mass @ (0.5 * (1.0 + np.sign(value - self._at(self.points)))))

    def _at(self, x: FloatArray) -> FloatArray:
        return x if self.scale is None else self.scale(x)


@dataclass(frozen=True)
class GridFilter:
    """Days of what was published, as likelihoods (T, G) of the points of a grid with one step.

    Between days the level moves by normal steps of variance q, on the grid, but for ``shift``, a
    day at which it starts anew.
    """

    log_emission: FloatArray
    step: float
    shift: int | None = None

    @cached_property
    def _emission(self) -> tuple[FloatArray, float]:
        most = self.log_emission.max(axis=1, keepdims=True)
        return np.exp(self.log_emission - most), float(most.sum())

    @cached_property
    def _length(self) -> int:
        return int(fft.next_fast_len(2 * self.log_emission.shape[1], real=True))

    def _kernels(self, q: FloatArray) -> FloatArray:
        """Return transforms of steps with variances q, (k, frequencies)."""
        size = self.log_emission.shape[1]
        j = np.minimum(np.arange(self._length), self._length - np.arange(self._length))
        away = (j * self.step) ** 2
        with np.errstate(divide="ignore", over="ignore"):
            rate = np.where(q > 0, 0.5 / np.maximum(q, 1e-300), np.inf)[:, np.newaxis]
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.where((j < size) & ((j == 0) | np.isfinite(rate)), away * rate, np.inf)
        steps[:, 0] = 0.0
        steps = np.exp(-steps)
        return np.asarray(fft.rfft(steps / steps.sum(axis=1, keepdims=True), axis=1))

    def _moved(self, mass: FloatArray, kernels: FloatArray) -> FloatArray:
        """Return laws, (k, g), after one step each."""
        spread = fft.irfft(fft.rfft(mass, self._length, axis=1) * kernels, self._length, axis=1)
        return np.asarray(np.maximum(spread[:, : mass.shape[1]], 0.0))

    def log_likelihood(self, q: FloatArray) -> FloatArray:
        """Return log-likelihoods at variances q; flat starts count as in diffuse Kalman filters."""
        kernels = self._kernels(q)
        total, _ = self._forward(kernels, None)
        return total

    def _forward(
        self, kernels: FloatArray, kept: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        emission, most = self._emission
        anew = 1 if self.shift is None else 2
        total = np.full(len(kernels), most + anew * (np.log(self.step) - 0.5 * _LOG_2PI))
        mass = np.ones((len(kernels), emission.shape[1]))
        for day, seen in enumerate(emission):
            if day == self.shift:
                mass = np.ones_like(mass)
            elif day:
                mass = self._moved(mass, kernels)
            mass = mass * seen
            size = mass.sum(axis=1)
            with np.errstate(divide="ignore"):
                total += np.log(size)
            mass /= np.where(size > 0, size, 1.0)[:, np.newaxis]
            if kept is not None:
                kept[day] = mass[0]
        return total, kept

    def smoothed(self, q: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return laws of the level at each day, (T, G), and that of the shift, mixed over q."""
        emission, _ = self._emission
        days, size = emission.shape
        mixed, shift = np.zeros((days, size)), None
        for one, weight in zip(q, weights, strict=True):
            kernels = self._kernels(np.array([one]))
            before = np.empty((days, size))
            self._forward(kernels, before)
            after = np.ones((1, size))
            for day in range(days - 1, -1, -1):
                law = before[day] * after[0]
                mixed[day] += weight * law / law.sum()
                after = after * emission[day]
                if day == self.shift:
                    law = self._moved(before[day - 1 : day], kernels)[0]
                    found = signal.fftconvolve(after[0] / after.sum(), law[::-1])
                    found = np.maximum(found, 0.0)
                    shift = (0.0 if shift is None else shift) + weight * found / found.sum()
                    after = np.ones((1, size))
                else:
                    after = self._moved(after / after.max(), kernels)
        return mixed, shift


# Integrals over one variance that is estimated, and quantiles of mixtures of normal laws.

_NEGLIGIBLE = 40.0
"""Nodes are left out where the density is exp(-40) of the largest."""

_ROUNDS = 60
_FULL = 0.6
"""Share of the nodes that are to matter."""


def nodes_of(
    log_density: Callable[[FloatArray], FloatArray], low: float, high: float, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return nodes at equal steps where a density is not negligible, and weights that add up to 1.

    The trapezoid rule is good to rounding where the density is smooth and vanishes at both ends,
    or is even about the lower one.
    """
    for _ in range(_ROUNDS):
        x = np.linspace(low, high, count)
        value = log_density(x)
        if not (most := value.max()) > -np.inf:
            raise NotEstimableError(
                "no value of the variance gives what was published a likelihood: check the laws of "
                "the noise, and values far from all others"
            )
        value = value - most
        kept = np.flatnonzero(value > -_NEGLIGIBLE)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, count - 1)
        if last - first >= _FULL * (count - 1) or not x[last] > x[first]:
            break
        low, high = x[first], x[last]
    weights = np.exp(value)
    weights[[0, -1]] *= 0.5
    return x, weights / weights.sum()


def mixture_cdf(
    x: FloatArray, weights: FloatArray, means: FloatArray, stds: FloatArray
) -> FloatArray:
    """Return P(X <= x) of m mixtures of k normal laws; means and stds have shape (k, m)."""
    return np.asarray(weights @ special.ndtr((x - means) / stds))


def mixture_quantiles(
    q: float, weights: FloatArray, means: FloatArray, stds: FloatArray
) -> FloatArray:
    """Return the q-quantiles of m mixtures."""
    each = means + special.ndtri(q) * stds

    def excess(x: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        return np.asarray(q - mixture_cdf(x, weights, means[:, rows], stds[:, rows]))

    room = stds.min(axis=0)
    low, high = find_root(excess, each.min(axis=0) - room, each.max(axis=0) + room, rtol=1e-12)
    return 0.5 * (low + high)


def mixture_moments(
    weights: FloatArray, means: FloatArray, stds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of m mixtures."""
    mean = weights @ means
    return mean, np.sqrt(weights @ (stds**2 + (means - mean) ** 2))


# Breaks at a day that is not known beforehand, by the largest of likelihood ratios.

_MARGIN = 3
"""Published days before a break, and from it on."""

_MOST_NODES = 24


class Ratios(NamedTuple):
    """Twice the log-likelihood that a shift adds, at each day, with the shift and its error."""

    ratio: FloatArray
    shift: FloatArray
    std: FloatArray
    weights: FloatArray
    """Of the standard deviations of the steps, (nodes, days)."""


def state_space(variance: FloatArray, y: FloatArray, trend: bool, shift: int | None) -> Any:
    """Return the model of a level, and a slope, that walk from diffuse starts; NaN is missing."""
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    size, walks = len(y), 2 if trend else 1
    states = walks + (shift is not None)
    filters = KalmanSmoother(k_endog=1, k_states=states, k_posdef=walks)
    filters.bind(y)
    design = np.zeros((1, states, size))
    design[0, 0] = 1.0
    if shift is not None:
        design[0, -1, shift:] = 1.0
    filters["design"] = design
    filters["transition"] = np.eye(states)
    if trend:
        filters["transition", 0, 1] = 1.0
    filters["selection"] = np.eye(states)[:, :walks]
    filters["obs_cov"] = variance.reshape(1, 1, size)
    filters.initialize_diffuse()
    return filters


@dataclass(frozen=True, eq=False)
class Breaks:
    """A series under the model without a break, and the days at which there may be one."""

    x: NoisyValues
    there: NDArray[np.bool_]
    nodes: FloatArray  # (k, r), standard deviations of steps
    weights: FloatArray

    @classmethod
    def of(
        cls, x: NoisyValues, there: NDArray[np.bool_], nodes: FloatArray, weights: FloatArray
    ) -> Breaks:
        """Take fewer nodes: every other one of a line, the heaviest ones of a plane."""
        kept = np.arange(0, len(nodes), 2)
        if nodes.shape[1] > 1:
            kept = np.sort(np.argsort(-weights, kind="stable")[:_MOST_NODES])
        return cls(x, there, nodes[kept], weights[kept] / weights[kept].sum())

    @cached_property
    def days(self) -> NDArray[np.intp]:
        """Days with enough published ones on both sides."""
        before: NDArray[np.intp] = np.cumsum(self.there) - self.there
        enough = (before >= _MARGIN) & (self.there.sum() - before >= _MARGIN)
        days = np.flatnonzero(enough)
        if not days.size:
            raise NotEstimableError(f"a break needs {_MARGIN} published days on either side")
        return days

    @cached_property
    def _unit(self) -> float:
        return float(np.sqrt(np.mean(self.x.variance)))

    @cached_property
    def observed(self) -> Ratios:
        """What the published series gives."""
        return self.ratios(np.where(self.there, self.x.values, np.nan))

    def ratios(self, y: FloatArray) -> Ratios:
        """Return likelihood ratios, each at its own standard deviations of steps.

        At given ones, the smoother has the score r and the information N of a shift at each day:
        the shift is r/N, and adds r²/(2N) to the logarithm of the likelihood.
        """
        unit, days = self._unit, self.days
        centre = np.nanmean(y)
        trend = self.nodes.shape[1] > 1
        filters = state_space(self.x.variance / unit**2, (y - centre) / unit, trend, None)
        base = np.empty(len(self.nodes))
        score, information = np.empty((2, len(self.nodes), len(days)))
        for at, root in enumerate(self.nodes / unit):
            filters["state_cov"] = np.diag(np.square(root))
            found = filters.smooth()
            base[at] = found.llf
            score[at] = found.scaled_smoothed_estimator[0, days - 1]
            information[at] = found.scaled_smoothed_estimator_cov[0, 0, days - 1]
        information = np.maximum(information, 1e-12)
        whole = base[:, np.newaxis] + np.square(score) / (2.0 * information)
        best = whole.argmax(axis=0), np.arange(len(days))
        likely = np.exp(whole - whole.max(axis=0)) / np.sqrt(information)
        return Ratios(
            2.0 * (whole[best] - base.max()),
            unit * score[best] / information[best],
            unit / np.sqrt(information[best]),
            likely / likely.sum(axis=0),
        )

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw the largest ratio of series without a break."""
        series = self._series(size, rng, self.weights)
        return np.array([self.ratios(y).ratio.max() for y in series])

    def draw_at(self, at: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw how far below the largest the ratio of the true day is, of those with a break."""
        series = self._series(size, rng, self.observed.weights[:, at])
        series[:, self.days[at] :] += self.observed.shift[at]
        found = [self.ratios(y).ratio for y in series]
        return np.array([ratio.max() - ratio[at] for ratio in found])

    def _series(self, size: int, rng: np.random.Generator, weights: FloatArray) -> FloatArray:
        """Draw series from 0 on, which ratios do not depend on, with the steps of some node."""
        days = len(self.there)
        roots = self.nodes[rng.choice(len(self.nodes), size, p=weights)]
        steps = rng.normal(size=(size, roots.shape[1], days)) * roots[..., np.newaxis]
        steps[..., 0] = 0.0
        moves = steps[:, 0]
        if roots.shape[1] > 1:
            moves[:, 1:] += np.cumsum(steps[:, 1], axis=1)[:, :-1]
        series = np.cumsum(moves, axis=1) + self.x.draw(size, rng=rng)
        series[:, ~self.there] = np.nan
        return np.asarray(series)
