"""Fieller's sets with the exact law of the noise, for pairs with noise that has a density.

The ratio r is accepted when abs(y₁ - r·y₂) is at most the quantile of e₁ - r·e₂. Divided by the
standard deviations, that compares <u, y> with Q(u) for a direction u, where Q(u) is the quantile of
the weighted sum of standardised noises: for log-concave noise a norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import Alternative, FloatArray
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ConfidenceSets

if TYPE_CHECKING:
    import pandas as pd

# How far a weighted sum of two noises with densities reaches, as a function of its direction.


Kind = Literal["laplace", "gaussian"]

PANELS = 24
DEGREE = 20
ROOT_HALF = float(np.sqrt(0.5))


class SmoothSupport:
    """Q for standardised Laplace or Gaussian noise, by Chebyshev interpolation in φ."""

    def __init__(self, first: Kind, second: Kind, tail: float) -> None:
        self.constant: float | None = None
        if first == second == "gaussian":
            self.constant = float(-special.ndtri(tail))
            return
        # by symmetry the first quarter is enough, and one order of the kinds
        self._swapped = first == "gaussian"
        logtail = _TAILS["gaussian" if self._swapped else second]
        nodes = np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)
        width = 0.5 * np.pi / PANELS
        psi = (width * (np.arange(PANELS)[:, None] + 0.5 * (nodes + 1.0))).ravel()
        values = _quantiles(logtail, np.cos(psi), np.sin(psi), tail).reshape(PANELS, DEGREE)
        vander = np.polynomial.chebyshev.chebvander(nodes, DEGREE - 1)
        self._width = width
        self._values = np.asarray(np.linalg.solve(vander, values.T), dtype=np.float64)
        slopes = np.polynomial.chebyshev.chebder(self._values) * (2.0 / width)
        self._slopes: FloatArray = np.asarray(slopes, dtype=np.float64)

    def __call__(self, phi: FloatArray) -> FloatArray:
        """Q at any angles."""
        if self.constant is not None:
            return np.full(phi.shape, self.constant)
        psi, _ = self._folded(phi)
        return self._interpolate(self._values, psi)

    def slope(self, phi: FloatArray) -> FloatArray:
        """Return the derivative of Q by φ."""
        if self.constant is not None:
            return np.zeros(phi.shape)
        psi, sign = self._folded(phi)
        return self._interpolate(self._slopes, psi) * sign

    def _folded(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Angle in the first quarter at which Q is the same, and the sign of its change."""
        turned = np.mod(phi + 0.5 * np.pi, np.pi) - 0.5 * np.pi
        psi, sign = np.abs(turned), np.where(turned < 0, -1.0, 1.0)
        return (0.5 * np.pi - psi, -sign) if self._swapped else (psi, sign)

    def _interpolate(self, coefficients: FloatArray, psi: FloatArray) -> FloatArray:
        """Clenshaw's recurrence, in the panel of each angle."""
        panel = np.clip((psi / self._width).astype(np.intp), 0, PANELS - 1)
        z = 2.0 * (psi / self._width - panel) - 1.0
        before, last = np.zeros(psi.shape), np.zeros(psi.shape)
        for row in coefficients[:0:-1]:
            before, last = last, row[panel] + 2.0 * z * last - before
        return np.asarray(coefficients[0][panel] + z * last - before)


@lru_cache(maxsize=64)
def smooth_support(first: Kind, second: Kind, tail: float) -> SmoothSupport:
    """Return Q of two standardised noises at an upper tail probability."""
    return SmoothSupport(first, second, tail)


CHORDS = 48
"""Chords in a quarter of a polygon around Q: at most 1 - cos(π/192), or 1.4e-4, too wide."""


class ChordSupport:
    """A bound on Q for two sums of log-concave noises, by chords between directions.

    Q is convex, so that it lies below its chords.
    """

    constant: float | None = None

    def __init__(self, quantiles: FloatArray) -> None:
        psi = 0.5 * np.pi * np.arange(CHORDS + 1) / CHORDS
        u = np.column_stack([np.cos(psi), np.sin(psi)])
        pairs = np.stack([u[:-1], u[1:]], axis=1)
        sides = np.column_stack([quantiles[:-1], quantiles[1:]])
        self._corners = np.linalg.solve(pairs, sides[..., np.newaxis])[..., 0]

    def __call__(self, phi: FloatArray) -> FloatArray:
        """Bound on Q at any angles."""
        cos, sin, corner = self._folded(phi)
        return np.asarray(np.abs(cos) * corner[..., 0] + np.abs(sin) * corner[..., 1])

    def slope(self, phi: FloatArray) -> FloatArray:
        """Return the derivative of the bound by φ."""
        cos, sin, corner = self._folded(phi)
        first, second = np.sign(cos) * corner[..., 0], np.sign(sin) * corner[..., 1]
        return np.asarray(cos * second - sin * first)

    def _folded(self, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Cosine and sine, and the corner of the body that decides in the direction."""
        cos, sin = np.cos(phi), np.sin(phi)
        psi = np.arctan2(np.abs(sin), np.abs(cos))
        chord = np.clip((psi * (2.0 * CHORDS / np.pi)).astype(np.intp), 0, CHORDS - 1)
        return cos, sin, self._corners[chord]


@lru_cache(maxsize=64)
def chord_support(
    weights: tuple[tuple[float, ...], tuple[float, ...]], laws: tuple[NoiseLaw, ...], tail: float
) -> ChordSupport:
    """Return the bound on Q for two weighted sums of independent noises."""
    first, second = (np.array(part) for part in weights)
    noise = as_noise(list(laws), len(laws))
    psi = 0.5 * np.pi * np.arange(CHORDS + 1) / CHORDS
    # rounding of π/2 leaves no weight
    turned = [np.cos(x) * (k < CHORDS) * first + np.sin(x) * second for k, x in enumerate(psi)]
    return ChordSupport(np.array([float(WeightedSum(w, noise).isf(tail)) for w in turned]))


def _quantiles(
    logtail: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
    cos: FloatArray,
    sin: FloatArray,
    tail: float,
) -> FloatArray:
    """Upper quantiles of cos·Z₁ + sin·Z₂."""
    # P(A + B > a + b) <= P(A > a) + P(B > b), and both laws have quantiles below this
    bound = (cos + sin) * (1.0 - np.log(tail)) * 2.0

    def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        return np.asarray(logtail(x, cos[index], sin[index]) - np.log(tail))

    _, high = find_root(excess, np.zeros(cos.shape), bound, rtol=1e-15)
    return high


def _two_laplace(x: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Log P(cos·Z₁ + sin·Z₂ > x), x >= 0, for Laplace noises of variance 1.

    With scales b > c it is e^(-x/b)/2·[1 + c²·(1 - e^(-xd/(bc)))/(d(b + c))], d = b - c.
    """
    b = np.maximum(cos, sin) * ROOT_HALF
    c = np.minimum(cos, sin) * ROOT_HALF
    d = np.maximum(b - c, 1e-12 * b)
    more = -np.expm1(-x * d / (b * c)) * c * c / (d * (b + c))
    return np.asarray(-x / b - np.log(2.0) + np.log1p(more))


def _laplace_and_gaussian(x: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Log P(cos·Z₁ + sin·Z₂ > x), x >= 0, for Laplace noise Z₁ and Gaussian noise Z₂.

    With z = x/sin and t = sin/b it is P(Z₂ > z) + (g(t - z) - g(t + z))/2, where g(w) is
    exp(-z²/2 + w²/2)·P(Z₂ > w).
    """
    b = cos * ROOT_HALF
    z, t = x / sin, sin / b
    near = np.minimum(z - t, 5.0)
    # scaled tails where they are small, plain ones where the Laplace noise dominates
    scaled = 0.5 * np.exp(-0.5 * z * z) * special.erfcx(-near * ROOT_HALF)
    plain = np.exp(np.minimum(0.5 * t * t - x / b, 0.0)) * special.ndtr(z - t)
    first = np.where(z - t < 5.0, scaled, plain)
    second = 0.5 * np.exp(-0.5 * z * z) * special.erfcx((t + z) * ROOT_HALF)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(special.ndtr(-z) + 0.5 * (first - second)))


_TAILS: dict[Kind, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "laplace": _two_laplace,
    "gaussian": _laplace_and_gaussian,
}
"""By the kind of the second noise; the first is Laplace noise."""


GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
SEARCH_STEPS = 60

Ends = tuple[NDArray[np.bool_], FloatArray, FloatArray]
"""Whether every direction is accepted, and otherwise the two ends."""


class Standardised:
    """Published pairs in units of their noise, and how far that noise reaches."""

    def __init__(
        self,
        published: FloatArray,
        scale: FloatArray,
        slack: FloatArray,
        support: SmoothSupport | ChordSupport,
    ) -> None:
        self._published = published
        self._scale = scale
        self._slack = slack / scale
        self._support = support
        point = published / scale
        self._size = np.hypot(point[:, 0], point[:, 1])
        self._angle = np.arctan2(point[:, 0], point[:, 1])

    def ends(self) -> Ends:
        """Return the tangents from each point to the convex body that Q supports.

        Q is a norm, so that the directions with <u, y> > Q(u) are a convex cone: one arc.
        """
        outside, top = self._most_extreme()
        rows = np.flatnonzero(outside)
        left, right = np.zeros(self._published.shape), np.zeros(self._published.shape)
        if rows.size:
            left[rows] = self._tangent(rows, top[rows], -1.0)
            right[rows] = self._tangent(rows, np.pi - top[rows], 1.0)
        return ~outside, left, right

    def _reach(self, phi: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """Q at angles of some rows, slack included."""
        slack = self._slack[rows]
        box = slack[:, 0] * np.abs(np.cos(phi)) + slack[:, 1] * np.abs(np.sin(phi))
        return np.asarray(self._support(phi) + box)

    def _ratio(self, turn: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """<u, y>/Q(u) in the direction turned away from that of accepted ratios."""
        reach = self._reach(self._angle[rows] - turn, rows)
        return np.asarray(self._size[rows] * np.sin(turn) / reach)

    def _most_extreme(self) -> tuple[NDArray[np.bool_], FloatArray]:
        """Return whether <u, y> exceeds Q(u) for some u, and a turn in (0, π) where it does.

        The ratio of both is quasiconcave: golden section finds where it is largest.
        """
        every = np.arange(len(self._size))
        top = np.full(len(every), 0.5 * np.pi)
        outside = self._ratio(top, every) > 1.0
        rows = np.flatnonzero(~outside & (self._size > 0))
        low, high = np.zeros(len(rows)), np.full(len(rows), np.pi)
        for _ in range(SEARCH_STEPS):
            if not rows.size:
                break
            first, second = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            at_first, at_second = self._ratio(first, rows), self._ratio(second, rows)
            better = at_first > at_second
            best = np.where(better, first, second)
            found = np.maximum(at_first, at_second) > 1.0
            outside[rows[found]], top[rows[found]] = True, best[found]
            low, high = np.where(better, low, first)[~found], np.where(better, second, high)[~found]
            rows = rows[~found]
        return outside, top

    def _tangent(self, rows: NDArray[np.intp], most: FloatArray, sign: float) -> FloatArray:
        """Return the tangent on one side: from where the body is touched to the point.

        An error of the angle moves the place of touch along the tangent, so that its square only
        is left in the ratio.
        """
        angle, size = self._angle[rows], self._size[rows]

        def left_over(turn: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            reach = self._reach(angle[index] + sign * turn, rows[index])
            return np.asarray(reach - size[index] * np.sin(turn))

        if self._support.constant is not None and not self._slack.any():
            # Gaussian noise: the body is a disc
            turn = np.arcsin(np.minimum(self._support.constant / size, 1.0))
        else:
            low, high = find_root(left_over, np.zeros(len(rows)), most)
            turn = 0.5 * (low + high)
        phi = angle + sign * turn
        cos, sin = np.cos(phi), np.sin(phi)
        slack = self._slack[rows]
        slope = (
            self._support.slope(phi)
            - slack[:, 0] * sin * np.sign(cos)
            + slack[:, 1] * cos * np.sign(sin)
        )
        reach = self._reach(phi, rows)
        # Q·u + Q'·u' with u = (cos, -sin), mirrored on the side where <u, y> is negative
        touch = np.column_stack([reach * cos - slope * sin, -reach * sin - slope * cos])
        return np.asarray(self._published[rows] + sign * self._scale[rows] * touch)


def one_exact(published: FloatArray, reach: FloatArray) -> Ends:
    """Return the ends where one value, or both, is published as it is."""
    noisy = (reach[:, 1] > 0).astype(np.intp)
    every = np.arange(len(published))
    exact = published[every, 1 - noisy]
    inside = (exact == 0) & (np.abs(published[every, noisy]) <= reach[every, noisy])
    return inside, published - reach, published + reach


# Directions that published pairs leave possible, and the sets of numbers that they stand for.


@dataclass(frozen=True)
class Arcs:
    """Directions (f₁, f₂) that n published pairs leave possible, up to their sign."""

    published: FloatArray
    everything: NDArray[np.bool_]
    left: FloatArray
    right: FloatArray

    @classmethod
    def empty(cls, published: FloatArray) -> Arcs:
        """Return arcs to be filled."""
        size = len(published)
        ends = (np.zeros((size, 2)), np.zeros((size, 2)))
        return cls(published, np.zeros(size, dtype=bool), *ends)

    def fill(
        self,
        rows: NDArray[np.intp],
        everything: NDArray[np.bool_],
        left: FloatArray,
        right: FloatArray,
    ) -> None:
        """Enter the answers for some rows."""
        self.everything[rows] = everything
        self.left[rows], self.right[rows] = left, right


Map = tuple[tuple[float, float], tuple[float, float]]
"""((a, b), (c, d)): the number (a·f₁ + b·f₂)/(c·f₁ + d·f₂)."""

RATIO: Map = ((1.0, 0.0), (0.0, 1.0))
SHARE: Map = ((1.0, 0.0), (1.0, 1.0))
CHANGE: Map = ((1.0, -1.0), (0.0, 1.0))


def number_sets(
    arcs: Arcs, form: Map, side: Alternative
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.str_]]:
    """Return estimates, lower and upper ends and kinds of the sets of numbers behind directions.

    A number is infinite in one direction, the pole. An arc without it is an interval, an arc
    around it is the complement of one, and an arc that ends there is a ray.
    """
    estimate, _ = _number(arcs.published, form)
    first, beside_first = _number(arcs.left, form)
    second, beside_second = _number(arcs.right, form)
    lower, upper = np.minimum(first, second), np.maximum(first, second)
    around = beside_first * beside_second < 0
    # ends are attained under whole-numbered noise: rounding must not move them inward
    outward = np.maximum(_rounding(arcs.left, form), _rounding(arcs.right, form))
    outward = np.where(around, -outward, outward)
    lower, upper = lower - outward, upper + outward
    kind = np.where(around, "complement", "interval").astype("<U10")
    ray = (beside_first == 0) ^ (beside_second == 0)
    finite = np.where(beside_first == 0, second, first)
    # a ray goes from its end past the estimate
    up = estimate > finite
    lower = np.where(ray, np.where(up, finite, -np.inf), lower)
    upper = np.where(ray, np.where(up, np.inf, finite), upper)
    none = (beside_first == 0) & (beside_second == 0) & ~arcs.everything
    kind = np.where(none, "empty", kind)
    lower, upper = np.where(none, np.inf, lower), np.where(none, -np.inf, upper)
    kind = np.where(arcs.everything, "line", kind)
    lower = np.where(arcs.everything, -np.inf, lower)
    upper = np.where(arcs.everything, np.inf, upper)
    if side == "two-sided":
        return estimate, lower, upper, kind
    # t - θ·b is rejected for its sign: in the gap of a complement that of its middle, else that
    # beyond the lower end of the set
    top, bottom = (arcs.published @ np.transpose(form)).T
    gap = kind == "complement"
    with np.errstate(invalid="ignore", over="ignore"):
        sign = np.where(gap, top - 0.5 * (lower + upper) * bottom, bottom)
    wanted = sign > 0 if side == "larger" else sign < 0
    one = kind == "interval"
    lower = np.where((one | gap) & ~wanted, -np.inf, lower)
    upper = np.where((one & wanted) | (gap & ~wanted), np.inf, upper)
    line = (one | gap) & np.isinf(lower) & np.isinf(upper)
    return estimate, lower, upper, np.where(line, "line", kind)


def _number(direction: FloatArray, form: Map) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of directions, and the signs of their denominators.

    Infinite with the sign of the numerator where the denominator is 0, and 0 where both are.
    """
    (a, b), (c, d) = form
    x, y = direction.T
    top = np.asarray(a * x + b * y if b else x)
    bottom = np.asarray(c * x + d * y if c else y)
    with np.errstate(over="ignore"):
        number = top / np.where(bottom == 0, 1.0, bottom)
    infinite = np.where(top == 0, 0.0, np.copysign(np.inf, top))
    return np.where(bottom == 0, infinite, number), np.sign(bottom)


def _rounding(direction: FloatArray, form: Map) -> FloatArray:
    """Bound the rounding error of the number of a direction; a ratio is that of its truth, too."""
    if form == RATIO:
        return np.zeros(len(direction))
    terms = np.abs(direction) @ np.abs(np.transpose(form))
    number, _ = _number(direction, form)
    bottom = np.abs(direction @ np.asarray(form[1]))
    known = (bottom > 0) & np.isfinite(number) & (number != 0)
    size = terms[:, 0] + np.where(known, np.abs(number), 0.0) * terms[:, 1]
    return np.where(known, 4.0 * np.finfo(float).eps * size / np.where(known, bottom, 1.0), 0.0)


Method = Literal["exact", "asymptotic"]
METHODS: tuple[Method, ...] = ("exact", "asymptotic")

SMALLEST_ALPHA = 1e-50
"""The laws of weighted sums are not followed farther out."""


def tail_of(alpha: float, side: Alternative) -> float:
    """Return the probability of each tail of a single set, unless it is out of reach."""
    if alpha < SMALLEST_ALPHA:
        raise InvalidParameterError(
            f"alpha must be >= {SMALLEST_ALPHA:g} for each set, got {alpha:g}"
        )
    if side == "two-sided":
        return alpha / 2.0
    if alpha >= 0.5:
        raise InvalidParameterError(f"alpha must be < 0.5 for a one-sided set, got {alpha:g}")
    return alpha


def as_sets(
    arcs: Arcs,
    form: Map,
    shape: tuple[int, ...],
    alpha: float,
    method: str,
    side: Alternative,
    simultaneous: bool,
    labels: pd.Index | None,
) -> ConfidenceSets:
    """Return the result, in the shape of the published values."""
    estimate, lower, upper, kind = (part.reshape(shape) for part in number_sets(arcs, form, side))
    return ConfidenceSets(
        estimate=estimate,
        lower=lower,
        upper=upper,
        kind=kind,
        alpha=alpha,
        method=method,
        uncertainty="noise",
        simultaneous=simultaneous,
        labels=labels,
    )


# The set for one ratio of two linear functions of noise, by the law of each weighted sum.


_CERTAIN = 0.01
"""A bound this far below a logarithm is below it whatever its own rounding."""

DIRECTIONS = 24
"""Number of directions that are looked at before the ends are found between two of them."""

INSIDE = 5
"""Number of directions between guesses of both ends that are looked at instead."""

NEAR = 0.02
"""Part of a guess within which an end is first looked for."""

DEGREES = (1 << 13, 1 << 16)
"""Degrees of the series that bound tails: to look at directions, and to find ends."""

Tail = Callable[[float, float, float], float]
"""``tail(c, s, x)``: log P(c·E₁ - s·E₂ >= x)."""


def weighted_tail(
    first: FloatArray, second: FloatArray, noise: NoiseLaw, least: float = 0.0, degree: int = 0
) -> Tail:
    """Return the tail for E₁ and E₂ two weighted sums of the same noises.

    Where Chernoff's bound shows that it is below ``least``, the bound stands for it: far tails of
    whole-numbered noise take long, and are only needed for what they are below. With a ``degree``,
    so do bounds by a series of that degree for laws that take long.
    """
    enough = float(np.log(least)) - _CERTAIN if least > 0 else -np.inf

    def tail(c: float, s: float, x: float) -> float:
        weights = c * first - s * second
        # what is left by rounding where two weights cancel is no weight
        largest = float(np.abs(weights).max())
        weights = np.where(np.abs(weights) > 1e-13 * largest, weights, 0.0)
        total = WeightedSum(weights, noise)
        if x > 0 and float(total.std) > 0:
            if least > 0 and (bound := total._log_chernoff(x)) < enough:
                return bound
            if degree:
                return total._log_at_most(x, degree)
        # by symmetry P(S >= x) = P(S <= -x)
        return float(total.logcdf(-x))

    return tail


def ends_one_by_one(
    points: FloatArray, scales: FloatArray, tails: Iterable[Tail], level: float
) -> Ends:
    """Return the ends for pairs, shape (n, 2), each by the log tails of its errors.

    ``scales`` are the standard deviations of the errors, positive. A direction is accepted where
    P(S >= abs(s)) > ``level``, in (0, 1/2); of rejected ones those around the most extreme one are
    left out, and all others are accepted.
    """
    rows = zip(points.tolist(), np.broadcast_to(scales, points.shape).tolist(), tails, strict=True)
    found = []
    for point, scale, tail in rows:
        excess = _excess(point, scale, tail, level)
        found.append(_as_ends(point, scale, _rejected(excess, excess)))
    inside, left, right = (np.array(part) for part in zip(*found, strict=True))
    return inside, left, right


Excess = Callable[[float], float]
"""Positive where the direction that is turned so far from that of the estimate is accepted."""

Turns = tuple[float, float] | None
"""The first and the last turn that are rejected; None where nothing is."""


def _excess(point: list[float], scale: list[float], tail: Tail, level: float) -> Excess:
    x, y = point[0] / scale[0], point[1] / scale[1]
    size, angle = float(np.hypot(x, y)), float(np.arctan2(x, y))

    def excess(turn: float) -> float:
        c, s = np.cos(angle - turn), np.sin(angle - turn)
        return tail(c / scale[0], s / scale[1], size * float(np.sin(turn))) - float(np.log(level))

    return excess


def _as_ends(
    point: list[float], scale: list[float], turns: Turns
) -> tuple[bool, FloatArray, FloatArray]:
    if turns is None:
        return True, np.zeros(2), np.zeros(2)
    angle = float(np.arctan2(point[0] / scale[0], point[1] / scale[1]))
    left, right = angle - turns[0], angle + np.pi - turns[1]
    return (
        False,
        np.array([np.sin(left) * scale[0], np.cos(left) * scale[1]]),
        np.array([np.sin(right) * scale[0], np.cos(right) * scale[1]]),
    )


def _rejected(excess: Excess, finer: Excess) -> Turns:
    """Look at all directions, and find the ends by the finer of two bounds."""
    turns = np.pi * np.arange(DIRECTIONS + 1) / DIRECTIONS
    values = np.array([np.inf, *(excess(float(turn)) for turn in turns[1:-1]), np.inf])
    top = int(np.argmin(values))
    if values[top] > 0:
        turns, values, top = _refined(excess, turns, values, top)
    if values[top] > 0:
        return None
    before = int(np.flatnonzero(values[:top] > 0)[-1])
    after = top + int(np.flatnonzero(values[top:] > 0)[0])
    first = _end(finer, float(turns[before]), float(turns[before + 1]))
    last = _end(finer, float(turns[after]), float(turns[after - 1]))
    return first, last


def _rejected_near(excess: Excess, finer: Excess, guess: Turns) -> Turns:
    """Find the same where the ends are near to a guess."""
    if guess is None:
        return _rejected(excess, finer)
    between = np.linspace(*guess, INSIDE + 2)[1:-1].tolist()
    if max(excess(turn) for turn in between) > 0:
        return _rejected(excess, finer)
    first = _near_end(finer, guess[0], between[0])
    last = _near_end(lambda turn: finer(np.pi - turn), np.pi - guess[1], np.pi - between[-1])
    if first is None or last is None:
        return _rejected(excess, finer)
    return first, np.pi - last


def _near_end(excess: Excess, guess: float, rejected: float) -> float | None:
    """Return the end beyond the guess or soon before it; None where it is farther before."""
    low, high = (1.0 - NEAR) * guess, min((1.0 + NEAR) * guess, rejected)
    if excess(low) <= 0:
        low, high = 0.5 * guess, low
        if excess(low) <= 0:
            return None
    elif excess(high) > 0:
        low, high = high, rejected
    return _end(excess, low, high, 1e-12)


def _refined(
    excess: Excess, turns: FloatArray, values: FloatArray, top: int
) -> tuple[FloatArray, FloatArray, int]:
    """Add the direction that is rejected most, found between the neighbours of the best so far."""
    from scipy import optimize

    found = optimize.minimize_scalar(
        excess, bounds=(turns[top - 1], turns[top + 1]), method="bounded", options={"xatol": 1e-9}
    )
    turn = float(found.x)
    at = int(np.searchsorted(turns, turn))
    turns, values = np.insert(turns, at, turn), np.insert(values, at, float(found.fun))
    return turns, values, int(np.argmin(values))


def _end(excess: Excess, accepted: float, rejected: float, atol: float = 1e-14) -> float:
    """Return where acceptance ends between two turns, from the side that is rejected."""
    step = rejected - accepted

    def function(share: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        values = np.array([excess(accepted + float(part) * step) for part in share])
        # the ends are known, whatever rounding makes of them
        values = np.where(share <= 0, 1.0, np.where(share >= 1, -1.0, values))
        return np.asarray(np.clip(values, -1e3, 1e3))

    _, high = find_root(function, np.zeros(1), np.ones(1), atol=atol)
    return accepted + float(high[0]) * step


def joint_arcs(
    joint: NoisyValues,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    tail: float,
    method: str,
) -> Arcs:
    """Return what is accepted for pairs of values, by position, whose errors may share noises."""
    arcs = Arcs.empty(np.column_stack([joint.values[first], joint.values[second]]))
    for row, pair in enumerate(zip(first, second, strict=True)):
        rows = joint._rows(np.array(pair))
        used = np.unique(rows.indices) if rows.nnz else np.zeros(1, dtype=np.intp)
        law = joint.noises.law
        law = law.take(used) if law.shape else law
        one, other = rows[:, used].toarray()
        arcs.fill(np.array([row]), *_ends(arcs.published[row], one, other, law, tail, method))
    return arcs


def _ends(
    point: FloatArray,
    first: FloatArray,
    second: FloatArray,
    law: NoiseLaw,
    tail: float,
    method: str,
) -> Ends:
    """Return the ends for one ratio of two weighted sums of the same noises."""
    variances = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), first.shape)
    deviations = np.sqrt([np.square(part) @ variances for part in (first, second)])
    if not deviations.all():
        if method == "asymptotic":
            reach = -special.ndtri(tail) * deviations
        else:
            reach = np.array([float(WeightedSum(w, law).isf(tail)) for w in (first, second)])
        return one_exact(point[np.newaxis], reach[np.newaxis])
    normal = _normal_tail(first, second, variances)
    if method == "asymptotic":
        return ends_one_by_one(point[np.newaxis], deviations, [normal], tail)
    y, scale = point.tolist(), deviations.tolist()
    tails = (normal, *(weighted_tail(first, second, law, tail, degree) for degree in DEGREES))
    guess, rough, fine = (_excess(y, scale, one, tail) for one in tails)
    found = _as_ends(y, scale, _rejected_near(rough, fine, _rejected(guess, guess)))
    inside, left, right = (np.array([part]) for part in found)
    return inside, left, right


def _normal_tail(first: FloatArray, second: FloatArray, variances: FloatArray) -> Tail:
    """Return the tail of weighted sums, taken as normal."""

    def tail(c: float, s: float, x: float) -> float:
        deviation = np.sqrt(np.square(c * first - s * second) @ variances)
        if deviation == 0:
            return 0.0 if x <= 0 else -np.inf
        return float(special.log_ndtr(-x / deviation))

    return tail
