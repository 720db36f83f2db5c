"""The privacy loss of laws that are given: by a channel, by two laws, by a trade-off function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    FloatArray,
    check_array,
    check_integer,
    check_items,
    check_scalar,
    one_line,
    show,
    show_some,
)
from dpinfer._numerics.two_laws import Between, TwoLaws, composed, concave, concave_hull
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import Channel
from dpinfer.results.labels import split_labels

Pair = tuple[Hashable, Hashable]
Laws = Mapping[Pair, Between]

MOST_PAIRS = 20_000
MOST_COMPOSED = 400
MOST_USES = 10**6
_ROUNDING = 2e-15


class PairLoss:
    """Privacy loss of laws that are given, or the worst of several pairs of them.

    Made by :func:`privacy_loss` from a channel, from two laws or from a trade-off function; added
    with ``+`` or ``sum`` and repeated with ``* k``, for reports on the same truth: of each pair of
    truths the losses add up.

    Notes
    -----
    With the laws P and Q of the reports of an ordered pair the loss is L = ln(P(X)/Q(X)), X from P,
    infinite where Q never gives X. Its δ(ε) = Σ (P - e^ε·Q)₊, and what is said of several pairs is
    the largest.

    Of finitely many reports, and of sums with up to 8,192 values, all is exact up to rounding.
    Otherwise laws are held between two: one in which reports are merged, which says less, and one
    in which they are split, with the same masses, into reports of a smaller and a larger loss,
    which says more. What is returned is that of the second, and the bounds are those of both. They
    are proved for sums. For continuous laws they suppose that within each of 4,000 or more cells
    the loss is between its values at five points or more, and for a trade-off function that it is
    convex between the 12,000 points at which that is checked; what it says of levels below 1e-6 is
    lost in the rounding of 1 - f(α).

    References
    ----------
    Kifer et al. (2022), arXiv:2209.03310, Examples 4.7 and 5.6. Doroshenko, Ghazi, Kamath, Kumar
    and Manurangsi (2022), Connect the dots, arXiv:2207.04380.

    Examples
    --------
    >>> from dpinfer.mechanisms import Channel
    >>> from dpinfer.privacy import privacy_loss
    >>> loss = privacy_loss(Channel.name_and_shame(0.1), compositions=2)
    >>> round(loss.delta_at(3.0), 6), loss.epsilon_at(0.2), loss.epsilon_at(0.1)
    (0.19, 0.0, inf)
    """

    def __init__(self, parts: Iterable[tuple[Laws, int]]) -> None:
        listed = check_items(parts, "parts", "pairs of laws and how often they are composed")
        if not listed or not all(
            isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Mapping)
            for part in listed
        ):
            raise InvalidParameterError(
                "parts must hold laws and how often they are composed, which privacy_loss makes "
                f"from a channel, got {show(parts)}"
            )
        counts: dict[int, tuple[Laws, int]] = {}
        for laws, count in listed:
            if laws.keys() != listed[0][0].keys():
                raise InvalidParameterError(
                    "losses must be of the same pairs of truths to be added, got those of "
                    f"{show_some(laws)} and of {show_some(listed[0][0])}"
                )
            counts[id(laws)] = (laws, counts.get(id(laws), (laws, 0))[1] + count)
        self._parts = tuple(counts.values())
        uses = check_integer(sum(k for _, k in self._parts), "compositions", le=MOST_USES)
        if uses > 1 and len(self.pairs) > MOST_COMPOSED:
            raise InvalidParameterError(
                f"compositions must be 1 with more than {MOST_COMPOSED} pairs of truths, got "
                f"{uses} with {len(self.pairs)}: name the neighbours by pairs= of the channel, or "
                "a pair"
            )

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The ordered pairs: under the first the loss is, against the second."""
        return tuple(self._parts[0][0])

    def __repr__(self) -> str:
        uses = sum(k for _, k in self._parts)
        return f"PairLoss({len(self.pairs)} ordered pairs, {uses} reports)"

    def __add__(self, other: PairLoss) -> PairLoss:
        if not isinstance(other, PairLoss):
            return NotImplemented
        return PairLoss((*self._parts, *other._parts))

    def __radd__(self, other: object) -> PairLoss:
        # the start of sum()
        return self if type(other) is int and other == 0 else NotImplemented

    def __mul__(self, count: int) -> PairLoss:
        times = check_integer(count, "compositions", ge=1, le=MOST_USES)
        return PairLoss((laws, times * k) for laws, k in self._parts)

    __rmul__ = __mul__

    @cached_property
    def laws(self) -> dict[Pair, Between]:
        """The laws of all reports together."""
        found: dict[Pair, Between] = {}
        for pair in self.pairs:
            other = found.get((pair[1], pair[0]))
            if other is not None:  # the same two laws in the other order
                found[pair] = other.swapped()
            else:
                found[pair] = composed((laws[pair], count) for laws, count in self._parts)
        return found

    @property
    def _pad(self) -> float:
        """Relative rounding error of masses."""
        return _ROUNDING * (64.0 + sum(k for _, k in self._parts))

    def delta_at(self, epsilon: ArrayLike) -> Any:
        """Smallest δ that holds at ε >= 0 for every pair: the upper of :meth:`delta_bounds`."""
        return self._largest(epsilon, [one.upper for one in self.laws.values()])

    def delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Lower and upper bound of δ at ε >= 0, each in the shape of ``epsilon``."""
        lower = self._largest(epsilon, [one.lower for one in self.laws.values()])
        upper = self._largest(epsilon, [one.upper for one in self.laws.values()])
        return lower * (1.0 - self._pad), _shaped(np.minimum(upper * (1.0 + self._pad), 1.0))

    def worst_pair(self, epsilon: float) -> Pair:
        """Return the ordered pair that has the largest δ at an ε >= 0."""
        at = np.array([check_scalar(epsilon, "epsilon", ge=0)])
        return max(self.laws, key=lambda pair: float(self.laws[pair].upper.delta(at)[0]))

    def epsilon_at(self, delta: ArrayLike) -> Any:
        """Smallest ε >= 0 that holds at δ in [0, 1) for every pair, infinite where none does."""
        return self._least(delta, [one.upper for one in self.laws.values()], 0.0)

    def epsilon_bounds(self, delta: ArrayLike) -> tuple[Any, Any]:
        """Lower and upper bound of ε at δ in [0, 1), each in the shape of ``delta``."""
        lower = self._least(delta, [one.lower for one in self.laws.values()], self._pad)
        return lower, self._least(delta, [one.upper for one in self.laws.values()], -self._pad)

    def power(self, alpha: ArrayLike) -> Any:
        """Largest power of a test of one law against the other, at a level within [0, 1].

        It is the largest of all pairs at each level: different ones may have it at different
        levels.
        """
        level = check_array(alpha, "alpha", ge=0, le=1)
        found = np.max([one.upper.power(level.ravel()) for one in self.laws.values()], axis=0)
        return _shaped(found.reshape(level.shape))

    def divergence(self, order: ArrayLike) -> Any:
        """Rényi divergence of an order in [1, ∞], the largest of all pairs."""
        orders = check_array(order, "order", ge=1, finite=False)
        found = [
            max(one.upper.divergence(float(x)) for one in self.laws.values()) for x in orders.flat
        ]
        return _shaped(np.maximum(found, 0.0).reshape(orders.shape))

    def _largest(self, epsilon: ArrayLike, laws: list[TwoLaws]) -> Any:
        at = check_array(epsilon, "epsilon", ge=0)
        found = np.max([one.delta(at.ravel()) for one in laws], axis=0)
        return _shaped(found.reshape(at.shape))

    def _least(self, delta: ArrayLike, laws: list[TwoLaws], pad: float) -> Any:
        at = check_array(delta, "delta", ge=0, lt=1)
        # what rounding may have made of an atom of infinite loss is none of it
        found = [
            max(one.epsilon(min(float(d) * (1.0 + pad) + 1e-15 * (d > 0), 1.0)) for one in laws)
            for d in at.flat
        ]
        return _shaped(np.asarray(found).reshape(at.shape))


def _shaped(values: Any) -> Any:
    return values if np.ndim(values) else float(values)


# From what is given to laws.


def is_given(protection: Any) -> bool:
    """Whether it is a channel by its matrix, a pair of laws, or a trade-off function."""
    return isinstance(protection, (Channel, tuple)) or (
        callable(protection) and not isinstance(protection, type)
    )


def pair_loss(given: Any, compositions: int, pair: Any) -> PairLoss:
    """Return the loss of what is given; see `privacy_loss`."""
    if isinstance(given, Channel):
        laws = _of_channel(given, pair)
    else:
        laws = _of_two(given) if isinstance(given, tuple) else {(0, 1): trade_off_laws(given)}
        if pair is not None:
            named = _named(pair, range(2))
            if named not in laws:
                raise InvalidParameterError(
                    f"pair must be one of {show_some(laws)}, which are all there are, got "
                    f"{show(pair)}"
                )
            laws = {named: laws[named]}
    return PairLoss([(laws, compositions)])


def _named(pair: Any, truths: Iterable[Hashable]) -> Pair:
    """Return a pair of truths, which are known."""
    one, known = check_items(pair, "pair", "two truths"), set(truths)
    try:
        if len(one) == 2 and known.issuperset(one):
            return one[0], one[1]
    except TypeError:  # what has no hash is no name
        pass
    raise InvalidParameterError(
        f"pair must be two truths among {show_some(truths)}, got {show(pair)}"
    )


def _exactly(laws: TwoLaws) -> Between:
    return Between(laws, laws)


def _of_channel(channel: Channel, pair: Any) -> dict[Pair, Between]:
    if pair is not None:
        first, second = _named(pair, channel.truths)
        places = [(channel.truths.index(first), channel.truths.index(second))]
    else:
        places = channel._places()
    if len(places) > MOST_PAIRS:
        raise InvalidParameterError(
            f"mechanism must have at most {MOST_PAIRS} ordered pairs of neighbouring truths, got "
            f"{len(places)}: name the neighbours by pairs= of the channel, or a pair"
        )
    if not places:
        raise InvalidParameterError(
            f"mechanism must have two truths that are neighbours, got {channel}"
        )
    matrix, names = channel.matrix, channel.truths
    return {(names[i], names[j]): _exactly(TwoLaws.of(matrix[i], matrix[j])) for i, j in places}


def _of_two(given: tuple[Any, ...]) -> dict[Pair, Between]:
    """Laws of a pair (P, Q), in both orders."""
    if len(given) != 2:
        raise InvalidParameterError(f"mechanism must be a pair of two laws, got {len(given)} items")
    faces = [_face(law) for law in given]
    if faces == ["masses", "masses"]:
        laws = _exactly(TwoLaws.of(*_masses(*given)))
    elif faces == ["whole", "whole"]:
        laws = _whole(*given)
    elif faces == ["density", "density"]:
        laws = _continuous(*given)
    elif faces == ["function", "function"]:
        laws = _functions(*given)
    else:
        raise InvalidParameterError(
            "mechanism must be a pair of laws of one kind: two arrays of probabilities, two "
            "densities as functions, or two frozen distributions that both have densities or both "
            f"have masses, got {show(given)}"
        )
    return {(0, 1): laws, (1, 0): laws.swapped()}


def _face(law: Any) -> str:
    if hasattr(law, "cdf") and hasattr(law, "ppf"):
        if getattr(law, "dist", None) is not None:  # of SciPy, whose frozen laws have both names
            return "density" if hasattr(law.dist, "pdf") else "whole"
        return "density" if hasattr(law, "logpdf") else "whole"
    return "function" if callable(law) else "masses"


def _masses(p: Any, q: Any) -> tuple[FloatArray, FloatArray]:
    first, names = split_labels(p, "the first law", ge=0)
    second, others = split_labels(q, "the second law", ge=0)
    if names is not None and others is not None and list(names) != list(others):
        at = {name: i for i, name in enumerate(others)}
        if at.keys() != set(names) or len(at) < len(names):
            raise InvalidParameterError(
                f"the laws must be labelled alike, got {show_some(names)} and {show_some(others)}"
            )
        second = second[[at[name] for name in names]]
    if first.ndim != 1 or first.shape != second.shape:
        raise InvalidParameterError(
            "the laws must be probabilities of the same reports, in arrays of one dimension, got "
            f"shapes {first.shape} and {second.shape}"
        )
    for name, law in (("first", first), ("second", second)):
        if abs(law.sum() - 1.0) > 1e-12:
            raise InvalidParameterError(f"the {name} law must add up to 1, got {law.sum():.15g}")
    return first, second


CELLS = 1 << 12
FAR = 1e-18
MOST_VALUES = 1 << 20


def _check_laws(*laws: Any) -> None:
    for law in laws:
        try:
            found = np.asarray(law.cdf(0.0), dtype=np.float64)
        except Exception as error:  # of another library, in any way
            raise InvalidParameterError(f"the law {show(law)} has no cdf: {error}") from error
        if found.ndim or not np.isfinite(found):
            raise InvalidParameterError(
                f"the law {show(law)} must have single numbers as its parameters"
            )


def _lowest(law: Any) -> float:
    """Return a whole number below which a law has next to nothing."""
    at, step = float(law.ppf(1e-12)), 1.0
    while step < MOST_VALUES and float(law.cdf(at - 1.0)) > FAR:
        at, step = at - step, 2.0 * step
    return at


def _highest(law: Any) -> float:
    at, step = float(law.ppf(1.0 - 1e-12)), 1.0
    while step < MOST_VALUES and float(law.sf(at)) > FAR:
        at, step = at + step, 2.0 * step
    return at


def _whole(p: Any, q: Any) -> Between:
    _check_laws(p, q)
    low, high = min(_lowest(law) for law in (p, q)), max(_highest(law) for law in (p, q))
    if not high - low <= MOST_VALUES:
        raise InvalidParameterError(
            f"the laws must have at most {MOST_VALUES} values that matter, got {high - low:g}"
        )
    k = np.arange(low, high + 1.0)
    first, second = (np.asarray(law.pmf(k), dtype=np.float64) for law in (p, q))
    tails = np.array([[float(law.cdf(low - 1.0)), float(law.sf(high))] for law in (p, q)])
    lower = TwoLaws.of(np.append(first, tails[0]), np.append(second, tails[1]))
    if not tails.any():
        return _exactly(lower)
    inner = TwoLaws.of(first, second)
    p_only, q_only = inner.p_only + tails[0].sum(), inner.q_only + tails[1].sum()
    return Between(lower, TwoLaws(inner.p, inner.q, float(p_only), float(q_only)))


def _continuous(p: Any, q: Any) -> Between:
    _check_laws(p, q)
    # cells of equal shares of each law, and finer ones in both tails
    small = np.geomspace(FAR, 1.0 / CELLS, CELLS // 8)
    inner = np.linspace(0.0, 1.0, CELLS + 1)[1:-1]
    edges = [
        np.asarray(points, dtype=np.float64)
        for law in (p, q)
        for points in (law.ppf(inner), law.ppf(small), law.isf(small))
    ]
    x = np.unique(np.concatenate(edges))
    if not np.isfinite(x).all():
        raise InvalidParameterError(
            f"the laws must have finite quantiles at {FAR:g} from both ends, got {show((p, q))}"
        )
    first, second = (_between(law, x) for law in (p, q))
    inside = np.linspace(0.0, 1.0, 5)
    points = x[:-1, None] + np.diff(x)[:, None] * inside
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.asarray(law.logpdf(points), dtype=np.float64) for law in (p, q)]
        loss = np.where(np.isneginf(logs[0]) & np.isneginf(logs[1]), np.nan, logs[0] - logs[1])
    low = np.fmin.reduce(loss, axis=1)
    high = np.fmax.reduce(loss, axis=1)
    tails = np.array([[float(law.cdf(x[0])), float(law.sf(x[-1]))] for law in (p, q)])
    lower = TwoLaws.of(np.append(first, tails[0]), np.append(second, tails[1]))
    return Between(lower, _split(first, second, low, high, tails))


NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
MOST_OFF = 1e-9


def _functions(p: Any, q: Any) -> Between:
    """Laws with densities on the line, seen as those of u where x = tan(π(u - 1/2))."""
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    half = 0.5 / CELLS
    u = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * NODES
    x = np.tan(np.pi * (u - 0.5))
    weight = half * WEIGHTS * np.pi * (1.0 + np.square(x))
    values = [_density_at(law, x) for law in (p, q)]
    masses = [(value * weight).sum(axis=1) for value in values]
    for name, mass in zip(("first", "second"), masses, strict=True):
        if not abs(mass.sum() - 1.0) <= MOST_OFF:
            raise InvalidParameterError(
                f"the {name} density must have the integral 1 over the line, got {mass.sum():.12g} "
                "numerically: move and scale the values to about 0 and 1, or pass frozen laws"
            )
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(values[0]) - np.log(values[1])  # where neither has any density: not a number
    low, high = np.fmin.reduce(loss, axis=1), np.fmax.reduce(loss, axis=1)
    first, second = (mass / mass.sum() for mass in masses)
    lower = TwoLaws.of(first, second)
    return Between(lower, _split(first, second, low, high, np.zeros((2, 2))))


def _density_at(law: Any, x: FloatArray) -> FloatArray:
    try:
        found = np.asarray(law(x), dtype=np.float64)
        if found.shape != x.shape:
            found = np.array([float(law(one)) for one in x.flat]).reshape(x.shape)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"a density must return numbers >= 0 for an array of numbers: {one_line(error)}"
        ) from error
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise InvalidParameterError("a density must return finite numbers >= 0 everywhere")
    return found


def _between(law: Any, x: FloatArray) -> FloatArray:
    below = np.asarray(law.cdf(x), dtype=np.float64)
    above = np.asarray(law.sf(x), dtype=np.float64)
    middle = below[:-1] > 0.5
    return np.maximum(np.where(middle, above[:-1] - above[1:], np.diff(below)), 0.0)


def _split(
    p: FloatArray, q: FloatArray, low: FloatArray, high: FloatArray, tails: FloatArray
) -> TwoLaws:
    """Split the masses of cells to the ends of their losses, and tell the tails apart."""
    known = (p > 0) & (q > 0) & np.isfinite(low) & np.isfinite(high)
    p_only = float(p[~known].sum() + tails[0].sum())
    q_only = float(q[~known].sum() + tails[1].sum())
    p, q = p[known], q[known]
    mean = np.log(p) - np.log(q)
    # the mean of a cell is between its ends, or rounding decides
    low, high = np.minimum(low[known], mean), np.maximum(high[known], mean)
    width = np.maximum(high - low, 1e-300)
    share = np.clip(np.expm1(low - mean) / np.expm1(-width), 0.0, 1.0)
    found = TwoLaws.of(
        np.concatenate([p * share, p * (1.0 - share)]),
        np.concatenate([q * share * np.exp(mean - high), q * (1.0 - share) * np.exp(mean - low)]),
    )
    return TwoLaws(found.p, found.q, found.p_only + p_only, found.q_only + q_only)


def trade_off_laws(f: Callable[[Any], Any]) -> Between:
    """Laws whose tests have the powers 1 - f(α), with f checked where it is looked at."""
    # below a level of 1e-6 the difference from 1 has lost its digits
    small = np.geomspace(1e-6, 0.5, CELLS)
    inner = np.linspace(0.0, 1.0, CELLS + 1)[1:-1]
    level = np.unique(np.concatenate([[0.0, 1.0], small, inner, 1.0 - small]))
    for points in (np.array([0.0, 0.5, 1.0]), level):
        try:
            value = np.asarray([f(float(x)) for x in points], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"the trade-off function must return a number for a level: {one_line(error)}"
            ) from error
        _check_trade_off(points, value)
    power = np.maximum.accumulate(np.clip(1.0 - value, level, 1.0))
    power[-1] = 1.0
    # without the dents of rounding
    level, power = concave_hull(level, power)
    lower = concave(level, power)
    return Between(lower, concave(*_outside(level, power)))


def _check_trade_off(level: FloatArray, value: FloatArray) -> None:
    if value.ndim != 1 or not np.isfinite(value).all():
        raise InvalidParameterError(
            "the trade-off function must return one finite number for each level"
        )
    for bad, said in (
        ((value < -1e-12) | (value > 1.0 - level + 1e-12), "be within [0, 1 - alpha]"),
        (np.diff(value, prepend=value[0]) > 1e-12, "not increase"),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise InvalidParameterError(
                f"the trade-off function must {said}, got {value[at]:.6g} at alpha = "
                f"{level[at]:.6g}"
            )
    first, second = level[:-2], level[2:]
    share = (level[1:-1] - first) / (second - first)
    chord = value[:-2] + share * (value[2:] - value[:-2])
    if (bad := value[1:-1] > chord + 1e-11).any():
        at = int(np.argmax(bad)) + 1
        raise InvalidParameterError(
            f"the trade-off function must be convex, got {value[at]:.9g} at alpha = "
            f"{level[at]:.6g}, above the chord between its neighbours"
        )


def _outside(level: FloatArray, power: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Broken line above a concave one that has the given points: their chords, prolonged."""
    slope = np.diff(power) / np.diff(level)
    first = power[1] - slope[1] * level[1] if slope.size > 1 else power[0]
    # a line through 0, but for rounding, begins there
    start = float(first) if first - power[0] > 1e-6 * power[1] else float(power[0])
    points = [(0.0, start)]
    for i, (a, b) in enumerate(pairwise(range(level.size))):
        if 0 < i < slope.size - 1 and slope[i - 1] - slope[i + 1] > 1e-9 * slope[i - 1]:
            # where the chords before and after meet
            rise = power[b] - power[a] - slope[i + 1] * (level[b] - level[a])
            x = level[a] + rise / (slope[i - 1] - slope[i + 1])
            points.append((float(x), float(power[a] + slope[i - 1] * (x - level[a]))))
        points.append((float(level[b]), float(power[b])))
    if slope.size > 1 and slope[-2] > 0:
        top = float(level[-2] + (1.0 - power[-2]) / slope[-2])
        points.insert(-1, (min(top, 1.0), 1.0))
    found = np.minimum(np.array(sorted(points)), 1.0)
    return concave_hull(found[:, 0], found[:, 1])
