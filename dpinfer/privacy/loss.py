"""The privacy loss of a mechanism, of its repeated use, and of several mechanisms together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_broadcast,
    check_integer,
    check_items,
    check_rng,
    check_shape,
    show,
)
from dpinfer._numerics.lattice import GIVEN
from dpinfer._numerics.roots import find_root
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms.channels import Channel, RandomizedResponse, UnaryEncoding
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.privacy._loss_inversion import Inversion
from dpinfer.privacy._loss_laws import (
    DiscreteGaussianLoss,
    GaussianLoss,
    GeometricLoss,
    LaplaceLoss,
    LossLaw,
    ResponseLoss,
)
from dpinfer.privacy.of_mechanisms import demand_default, demand_whole
from dpinfer.privacy.pairs import PairLoss, is_given, pair_loss

# From tails to the inverse curve ε(δ) and to the trade-off curve.


MOST_STEPS = 200
CLOSE = 2e-15
PROVEN = 1e-13
ROUNDING = 2e-16


def smallest_epsilon(inversion: Inversion, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least ε >= 0 with δ(ε) <= ``delta``, and how far each may be off.

    Newton's method on ln δ(ε), whose slope is -e^ε·Q(L > ε)/δ(ε), kept within a bracket.
    """
    total = inversion.total
    lower, upper = np.zeros(delta.shape), np.full(delta.shape, total.largest)
    at, off = np.zeros(delta.shape), np.zeros(delta.shape)
    guess = np.minimum(np.maximum(inversion.guess(np.log(delta)), 0.0), 0.999 * upper)
    some = guess > total.mean
    if not some.all():
        some |= inversion.tails(np.zeros(1)).values[0, 0] > delta
    left = np.flatnonzero(some)
    at[left] = guess[left]
    spread = total.mean + float(np.sqrt(total.variance))
    for _ in range(MOST_STEPS):
        if not left.size:
            return at, off
        tails, here, wanted = inversion.tails(at[left]), at[left], delta[left]
        value, _, scaled = tails.values
        above = value > wanted
        lower[left[above]], upper[left[~above]] = here[above], here[~above]
        low, high = lower[left], upper[left]
        known = (value > 0) & (scaled > 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.where(known, (np.log(value) - np.log(wanted)) * value / scaled, 0.0)
            error = (tails.errors[0] + 1e-15 * wanted) / scaled
        off[left] = np.where(np.isfinite(error), error, 1e-15 * here)
        moved = here + np.minimum(step, here + spread)
        outside = (step == 0) | (moved <= low) | (moved >= high)
        middle = np.where(np.isfinite(high), 0.5 * (low + np.minimum(high, 1e300)), 2 * low + 1)
        met = np.isfinite(high) & (high - low <= CLOSE * high)
        done = met | (known & (np.abs(step) <= CLOSE * here))
        at[left] = np.where(met, high, np.where(done, here, np.where(outside, middle, moved)))
        left = left[~done]
    raise ConvergenceError(f"epsilon at delta = {delta[left[0]]} open after {MOST_STEPS} steps")


# The trade-off curve, by the Neyman-Pearson lemma: with the threshold e^ε of the likelihood ratio
# the power is at most e^ε·α + δ(ε), and the level of a power β at least e^-ε·(β - δ(ε)). These are
# attained where Q(L > ε) passes α, and where P(L > ε) passes β. The curve is symmetric,
# (α, β) -> (1 - β, 1 - α), so that only ε >= 0 is looked at.


Excess = Callable[[FloatArray, FloatArray, NDArray[np.intp]], FloatArray]
"""What falls through 0 at the threshold, of ε, of ln P(L > ε) and ln Q(L > ε), and of the rows."""

Height = Callable[[FloatArray, FloatArray, NDArray[np.intp]], FloatArray]
"""Logarithm of what is least there, and grows with δ, of ε, of δ(ε), and of the rows."""


def at_threshold(
    inversion: Inversion, excess: Excess, height: Height, least: float, last: FloatArray
) -> FloatArray:
    """Heights at the thresholds between ``least`` and each ``last``, smooth there or with kinks.

    The test that rejects above one end of a bracket says δ(t) >= P - e^t·Q at every t, and both
    ends say most where they say the same: where that height is near the least one known, it is
    found. In turns the next point is there, which ends at once on a kink, and where the excess,
    interpolated, is 0, which is quick on a smooth piece.
    """
    total, rows = inversion.total, np.arange(last.size)
    spread = total.mean + float(np.sqrt(total.variance))

    def point(x: FloatArray, at: NDArray[np.intp]) -> FloatArray:
        delta, p, q = inversion.tails(x).values
        # far on the left q is lost in the rounding of p
        over = excess(x, np.stack([_log(p), _log(np.maximum(q, ROUNDING * p)) - x]), at)
        return np.array([x, p, q, over, height(x, delta, at)])

    low = point(np.full(last.shape, max(least, -spread)), rows)
    high = point(np.minimum(spread, last), rows)
    while (more := np.flatnonzero((low[3] < 0) & (low[0] > least))).size:
        low[:, more] = point(2.0 * low[0, more], more)
    while (more := np.flatnonzero((high[3] > 0) & (high[0] < last))).size:
        low[:, more] = high[:, more]
        high[:, more] = point(np.minimum(2.0 * high[0, more], last[more]), more)
    best, before, open_ = np.minimum(low[4], high[4]), np.full(last.shape, np.inf), rows
    for turn in range(MOST_STEPS):
        x, p, q, over, _ = low[:, open_]
        end, p_end, q_end, under, _ = high[:, open_]
        width = end - x
        with np.errstate(all="ignore"):
            meet = x + np.log((p - p_end) / (q - q_end * np.exp(-width)))
            meet = np.clip(np.where(np.isfinite(meet), meet, x + 0.5 * width), x, end)
            bound = height(meet, p_end - q_end * np.exp(meet - end), open_)
            share = np.where(over > under, over / (over - under), 0.5)
        left = (best[open_] - bound > PROVEN) & (width > CLOSE * np.abs(end))
        if not left.any():
            return np.asarray(best)
        at = meet
        if turn % 2:
            at = x + width * np.clip(share, 0.0, 1.0)
        else:
            at = np.where(width > 0.5 * before[open_], x + 0.5 * width, meet)
            before[open_] = width
        open_ = open_[left]
        found = point(at[left], open_)
        best[open_] = np.minimum(best[open_], found[4])
        up = found[3] > 0
        low[:, open_[up]], high[:, open_[~up]] = found[:, up], found[:, ~up]
    raise ConvergenceError(f"the power is still open after {MOST_STEPS} steps")


def largest_power(inversion: Inversion, alpha: FloatArray) -> FloatArray:
    """Power of the best test of each level α within (0, 1)."""
    delta, above, scaled = inversion.tails(np.zeros(1)).values[:, 0]
    found = np.asarray(alpha + delta)
    if (few := np.flatnonzero(alpha <= scaled)).size:
        found[few] = np.exp(_rising(inversion, np.log(alpha[few])))
    if (many := np.flatnonzero((alpha > scaled) & (1.0 - alpha <= above))).size:
        found[many] = -np.expm1(_falling(inversion, 1.0 - alpha[many]))
    return np.asarray(np.minimum(found, 1.0))


def log_level(inversion: Inversion, power: FloatArray) -> FloatArray:
    """Ln of the least level of a test of each power β within (0, 1)."""
    delta, above, scaled = inversion.tails(np.zeros(1)).values[:, 0]
    found = _log(power - delta)
    if (few := np.flatnonzero(power <= above)).size:
        found[few] = _falling(inversion, power[few])
    if (many := np.flatnonzero((power > above) & (1.0 - power <= scaled))).size:
        found[many] = np.log(-np.expm1(_rising(inversion, np.log1p(-power[many]))))
    return found


def crossing(inversion: Inversion, epsilon: FloatArray) -> FloatArray:
    """Least δ(t)/(1 - e^(t-ε)), where the line of slope e^ε meets a tangent of the curve."""
    # an ε within rounding of the largest loss counts as that loss
    last = epsilon * (1.0 - GIVEN)
    found = np.zeros(epsilon.shape)
    some = np.flatnonzero(inversion.tails(last).values[0] > 0)
    log_power = at_threshold(
        inversion,
        lambda x, log, i: epsilon[some[i]] - log[0] + log[1],
        lambda x, delta, i: _log(delta) - np.log(-np.expm1(x - epsilon[some[i]])),
        -np.inf,
        last[some],
    )
    found[some] = np.exp(np.minimum(log_power, 0.0))
    return found


def _rising(inversion: Inversion, log_alpha: FloatArray) -> FloatArray:
    """Ln of the least e^ε·α + δ(ε) over ε >= 0."""
    return at_threshold(
        inversion,
        lambda x, log, i: log[1] - log_alpha[i],
        lambda x, delta, i: np.logaddexp(x + log_alpha[i], _log(delta)),
        0.0,
        np.full(log_alpha.shape, inversion.total.largest),
    )


def _falling(inversion: Inversion, power: FloatArray) -> FloatArray:
    """Ln of the largest e^-ε·(β - δ(ε)) over ε >= 0."""
    return -at_threshold(
        inversion,
        lambda x, log, i: log[0] - np.log(power[i]),
        lambda x, delta, i: np.where(delta < power[i], x - _log(power[i] - delta), np.inf),
        0.0,
        np.full(power.shape, inversion.total.largest),
    )


def _log(value: FloatArray) -> FloatArray:
    """Logarithm of a tail; one of 0 is below every level, and finite for interpolation."""
    return np.asarray(np.log(np.maximum(value, 1e-320)))


# The laws of the losses of the cells that a change reaches; none for a change of nothing.


LARGEST_LOSS = 1e6
SMALLEST_LOSS = 1e-12
MOST_CELLS = 1000


def _laplace(law: Laplace, change: FloatArray) -> list[LossLaw]:
    pairs = _cells(law, law.scale, change, "L1")
    return [LaplaceLoss(_checked(step / scale, change, law)) for step, scale in pairs]


def _geometric(law: Geometric, change: FloatArray) -> list[LossLaw]:
    found: list[LossLaw] = []
    for step, scale in _cells(law, law.scale, demand_whole(change, law), "L1"):
        rate = 1.0 / scale
        _checked(rate * step, np.asarray(step), law)
        once = ResponseLoss(rate, float(special.expit(rate)))
        found.append(once if step == 1 else GeometricLoss(rate, int(step)))
    return found


def _gaussian(law: Gaussian, change: FloatArray) -> list[LossLaw]:
    if change.ndim == 0:  # the cell with the least noise may take up all of the L2 sensitivity
        mu = float(change) / float(np.min(law.sigma))
    else:
        check_broadcast(sensitivity=change.shape, mechanism=law.shape)
        mu = float(np.linalg.norm((change / law.sigma).ravel()))
    return [GaussianLoss(_checked(mu, change, law) ** 2)] if mu else []


def _discrete(law: DiscreteGaussian, change: FloatArray) -> list[LossLaw]:
    pairs = _cells(law, law.sigma, demand_whole(change, law), "L2")
    for step, sigma in pairs:
        _checked(step / sigma, change, law)
        _checked(max(0.5 * (step / sigma) ** 2, SMALLEST_LOSS), change, law)
    return [DiscreteGaussianLoss(sigma, int(step)) for step, sigma in pairs]


def _response(channel: RandomizedResponse | UnaryEncoding, change: FloatArray) -> list[LossLaw]:
    demand_default(change, type(channel).__name__)
    epsilon = channel.epsilon
    if epsilon < SMALLEST_LOSS:
        return []
    # probabilities of the losses -ε and 0, for 1 of ε; scaled so that they add up to 1
    flipped = float(np.exp(-epsilon))
    rest = flipped * float(channel.categories - 2)
    if isinstance(channel, UnaryEncoding):
        p, q = channel.p, channel.q
        rest = (p * q + (1.0 - p) * (1.0 - q)) / (p * (1.0 - q))
    kept = 1.0 / (1.0 + flipped + rest)
    return [ResponseLoss(epsilon, kept, kept * rest)]


def _cells(law: Any, scales: Any, change: FloatArray, norm: str) -> list[tuple[float, float]]:
    if change.ndim == 0 and np.ndim(scales):
        raise InvalidParameterError(
            f"sensitivity must have one entry for each cell of {show(law)}, the largest change of "
            f"the cell, got the {norm} sensitivity {float(change)}: which cells it moves decides "
            "the law of the loss, and no worst choice is known"
        )
    shape = check_broadcast(sensitivity=change.shape, mechanism=np.shape(scales))
    steps = np.broadcast_to(change, shape).ravel()
    noise = np.broadcast_to(np.asarray(scales, dtype=np.float64), shape).ravel()
    moved = steps > 0
    return [(float(s), float(b)) for s, b in zip(steps[moved], noise[moved], strict=True)]


def _checked(loss: float, change: FloatArray, law: Any) -> float:
    if not SMALLEST_LOSS <= loss <= LARGEST_LOSS:
        size = "large" if loss > 1.0 else "small"
        raise InvalidParameterError(
            f"sensitivity {show(change)} is too {size} for {show(law)}: the privacy loss must be "
            f"within [{SMALLEST_LOSS:g}, {LARGEST_LOSS:g}], got {loss:g}"
        )
    return loss


_RULES: dict[type, Callable[..., list[LossLaw]]] = {
    Laplace: _laplace,
    Geometric: _geometric,
    Gaussian: _gaussian,
    DiscreteGaussian: _discrete,
    RandomizedResponse: _response,
    UnaryEncoding: _response,
}


LEAST_REST = 1e-10
"""What is left of 1 has so many digits."""

MOST_COMPOSITIONS = 10**9
MOST_LOSS = 1e10


@overload
def privacy_loss(
    mechanism: NoiseLaw | RandomizedResponse | UnaryEncoding,
    sensitivity: ArrayLike = 1.0,
    compositions: int = 1,
) -> PrivacyLoss: ...


@overload
def privacy_loss(
    mechanism: Channel | tuple[Any, Any] | Callable[[float], float],
    sensitivity: ArrayLike = 1.0,
    compositions: int = 1,
    *,
    pair: tuple[Hashable, Hashable] | None = None,
) -> PairLoss: ...


def privacy_loss(
    mechanism: Any,
    sensitivity: ArrayLike = 1.0,
    compositions: int = 1,
    *,
    pair: tuple[Hashable, Hashable] | None = None,
) -> PrivacyLoss | PairLoss:
    """Law of the privacy loss of a mechanism, used once or several times.

    Parameters
    ----------
    mechanism : law of noise, channel, pair of laws or trade-off function
        What is used: Laplace, Geometric, Gaussian or DiscreteGaussian noise; RandomizedResponse,
        UnaryEncoding or a Channel; a pair (P, Q) of laws of the output for two neighbours, as
        probabilities of the same outputs, as densities (functions of arrays of numbers on the line)
        or as frozen distributions of SciPy; or a function f, of
        which each neighbour is told from another with a power of 1 - f(α) at most, decreasing,
        convex and at most 1 - α.
    sensitivity : float or array of float, default 1
        How far the answer of the query can move between neighbours; a whole number for geometric
        and discrete Gaussian noise. Of a vector published with Gaussian noise, its L2 sensitivity.
        An array is the largest change of each cell, and all cells may change together: a vector of
        several scales needs one. All but noise know their own: leave it at 1.
    compositions : int, default 1
        How often, 1 to 10⁹ times, the mechanism is used, on answers that may depend on earlier
        releases; a channel by its matrix, laws or a function up to 10⁶ times.
    pair : pair of truths, optional
        Of a channel by its matrix the truths whose laws are P and Q, in this order; of two laws
        (0, 1) or (1, 0). By default all neighbours, of which the worst counts.

    Returns
    -------
    PrivacyLoss or PairLoss
        The law of the loss. ``+`` composes it with others, ``* k`` with itself. Of a channel by its
        matrix, two laws or a function it is a :class:`PairLoss`, which may be infinite.

    Examples
    --------
    >>> from dpinfer import DiscreteGaussian, Laplace
    >>> loss = privacy_loss(DiscreteGaussian(sigma=100.0), compositions=10_000)
    >>> round(loss.epsilon_at(1e-6), 6)
    4.886554
    >>> round((loss + privacy_loss(Laplace(scale=2.0))).epsilon_at(1e-6), 6)
    5.258831
    >>> round(privacy_loss(([0.5, 0.5, 0.0], [0.3, 0.6, 0.1])).delta_at(1.0), 6)
    0.1
    """
    change = check_array(sensitivity, "sensitivity", ge=0, le=1e100)
    count = check_integer(compositions, "compositions", ge=1, le=MOST_COMPOSITIONS)
    if is_given(mechanism):
        demand_default(change, "what tells of neighbours itself")
        return pair_loss(mechanism, count, pair)
    if pair is not None:
        raise InvalidParameterError(
            f"pair must be left out but for a Channel or a pair of laws, got {show(pair)} with "
            f"{show(mechanism)}"
        )
    for kind, rule in _RULES.items():
        if isinstance(mechanism, kind):
            return PrivacyLoss((law, count) for law in rule(mechanism, change))
    raise InvalidParameterError(
        "mechanism must be Laplace, Geometric, Gaussian or DiscreteGaussian noise, a channel, a "
        "pair of laws or a trade-off function, "
        f"got {show(mechanism)}" + (": it adds no noise" if isinstance(mechanism, Exact) else "")
    )


class PrivacyLoss:
    """The law of L = ln(P(X)/Q(X)), X from P: how much an output tells two neighbours apart.

    Made by :func:`privacy_loss`, added with ``+`` or ``sum`` and repeated with ``* k``: losses of
    independent releases add up, and the law of the sum determines every (ε, δ) and every trade-off
    between errors that the releases offer together.

    Notes
    -----
    δ(ε) = E[(1 - e^(ε-L))₊]. All these mechanisms are symmetric: P against Q and Q against P have
    the same law, so that neither direction is worse.

    How the law of the sum is inverted depends on its parts. Gaussian losses add up to one, in
    closed form. Losses on a lattice (geometric, discrete Gaussian, randomized response, and several
    of them whose steps have a common one) are summed over the circle of their transform, tilted to
    about the ε asked for, so that δ keeps its relative accuracy down to 1e-300. Atoms of Laplace
    losses are listed and only what is smooth beside them is integrated: an integral over the whole
    transform does not converge. Lattices without a common step leave a remainder that is bounded,
    not computed. All of these errors, and those of rounding, are in the bounds of
    :meth:`delta_bounds` and :meth:`epsilon_bounds`.

    A transform at one tilt serves all ε within about a standard deviation of the tilted law, and is
    kept: a whole curve takes little longer than a few of its points.

    References
    ----------
    Sommer, Meiser and Mohammadi (2019), Privacy loss classes: the central limit theorem in
    differential privacy, doi:10.2478/popets-2019-0029. Koskela, Jälkö and Honkela (2020),
    arXiv:1906.03049. Dong, Roth and Su (2022), doi:10.1111/rssb.12454, Proposition 2.12.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> loss = 10 * privacy_loss(Laplace(scale=10.0))
    >>> round(loss.delta_at(0.5), 9), round(loss.epsilon_at(1e-6), 9)
    (0.008938295, 0.998978089)
    >>> round(loss.power(0.05), 9)
    0.090473356
    """

    def __init__(self, parts: Iterable[tuple[LossLaw, int]]) -> None:
        counts: Counter[LossLaw] = Counter()
        squared, mean = 0.0, 0.0
        for part in check_items(parts, "parts", "pairs of a loss and how often it is composed"):
            if not (isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], LossLaw)):
                raise InvalidParameterError(
                    "parts must hold pairs of a loss and how often it is composed, which "
                    f"privacy_loss makes from a mechanism, got {show(part)}"
                )
            law, count = part
            mean += law.mean * count
            if isinstance(law, GaussianLoss):
                squared += count * law.squared
            else:
                counts[law] += count
        if squared:
            counts[GaussianLoss(squared)] = 1
        self._counts = dict(counts)
        check_integer(max(counts.values(), default=0), "compositions", le=MOST_COMPOSITIONS)
        if mean > MOST_LOSS:
            raise InvalidParameterError(
                f"compositions must keep the mean privacy loss below {MOST_LOSS:g}, got "
                f"{mean:g}: nothing is private there"
            )

    def __repr__(self) -> str:
        listed = " + ".join(f"{count} * {law}" for law, count in self._parts)
        return f"PrivacyLoss({listed or 0})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyLoss) and self._counts == other._counts

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        return PrivacyLoss((*self._counts.items(), *other._counts.items()))

    def __radd__(self, other: object) -> PrivacyLoss:
        # the start of sum()
        return self if type(other) is int and other == 0 else NotImplemented

    def __mul__(self, count: int) -> PrivacyLoss:
        times = check_integer(count, "compositions", ge=1, le=MOST_COMPOSITIONS)
        return PrivacyLoss((law, times * k) for law, k in self._parts)

    __rmul__ = __mul__

    def delta_at(self, epsilon: ArrayLike) -> Any:
        """Smallest δ at ε >= 0, in the shape of ``epsilon``; :meth:`delta_bounds` brackets it."""
        at = check_array(epsilon, "epsilon", ge=0)
        return _shaped(self._delta(at.ravel())[0], at)

    def delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Lower and upper bound on :meth:`delta_at`, each in the shape of ``epsilon``.

        They hold with the errors of truncation, of discretisation and of rounding.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        delta, error = self._delta(at.ravel())
        lower, upper = np.maximum(delta - error, 0.0), np.minimum(delta + error, 1.0)
        return _shaped(lower, at), _shaped(upper, at)

    def epsilon_at(self, delta: ArrayLike) -> Any:
        """Smallest ε at δ in [0, 1), in the shape of ``delta``; :meth:`epsilon_bounds` brackets it.

        δ = 0 is refused where the loss is unbounded.
        """
        at = self._check_delta(delta)
        return _shaped(self._epsilon(at.ravel())[0], at)

    def epsilon_bounds(self, delta: ArrayLike) -> tuple[Any, Any]:
        """Lower and upper bound on :meth:`epsilon_at`, each in the shape of ``delta``.

        They are the ε at which the bounds of :meth:`delta_bounds` are below or above δ.
        """
        at = self._check_delta(delta)
        lower, upper = (self._epsilon_bound(at.ravel(), side) for side in (-1, 1))
        return _shaped(lower, at), _shaped(upper, at)

    def power(self, alpha: ArrayLike) -> Any:
        """Largest power of a test of one neighbour against the other, at a level within [0, 1].

        It is that of the likelihood-ratio test, which decides at random at its threshold.
        """
        level = check_array(alpha, "alpha", ge=0, le=1)
        if not self._counts:
            return level if level.ndim else float(level)
        found, inside = level.ravel().copy(), (level.ravel() > 0) & (level.ravel() < 1)
        if inside.any():
            found[inside] = largest_power(self._inversion, found[inside])
        return _shaped(found, level)

    def pmf(self, x: ArrayLike) -> Any:
        """P(L = x), in the shape of ``x``, for losses that have atoms only.

        Those are losses of geometric and discrete Gaussian noise and of randomized response. An x
        within rounding of an atom counts as that atom: :meth:`ppf` and :meth:`isf` give atoms.
        """
        return self._local(x, "pmf")

    def pdf(self, x: ArrayLike) -> Any:
        """Density of the loss, in the shape of ``x``, for losses with Gaussian noise among them.

        Laplace losses have atoms, P(L = t) = 1/2 for one, and a density between. They are refused,
        unless the Gaussian noise makes up 1e-4 of the variance or more.
        """
        return self._local(x, "pdf")

    def cdf(self, x: ArrayLike) -> Any:
        """P(L <= x), in the shape of ``x``, with small relative errors where x < 0.

        Lattices without a common step have their smallest jumps smoothed, and at a relative
        distance d from a jump of Laplace losses errors are about 1e-16/d.
        """
        return np.exp(self._log_tail(x, above=False))[()]

    def sf(self, x: ArrayLike) -> Any:
        """P(L > x), in the shape of ``x``, with small relative errors where x >= 0: see `cdf`."""
        return np.exp(self._log_tail(x, above=True))[()]

    def logcdf(self, x: ArrayLike) -> Any:
        """Logarithm of :meth:`cdf`, finite far beyond the point where ``cdf`` underflows.

        Between 0 and the mean it is refused where ``cdf``, 1 - ``sf`` there, is below 1e-10.
        """
        return self._log_tail(x, above=False, deep=True)

    def logsf(self, x: ArrayLike) -> Any:
        """Logarithm of :meth:`sf`, finite far beyond the point where ``sf`` underflows."""
        return self._log_tail(x, above=True, deep=True)

    def ppf(self, q: ArrayLike) -> Any:
        """Quantile: the smallest x with ``cdf(x) >= q``; -inf at 0, the largest loss at 1.

        It is right to 1e-13 of itself, and an atom on a lattice. A q below 1e-10 is refused where
        it would be between 0 and the mean.
        """
        at = check_array(q, "q", ge=0, le=1)
        return _shaped(self._quantile(at.ravel(), above=False), at)

    def isf(self, q: ArrayLike) -> Any:
        """Upper quantile: the smallest x with ``sf(x) <= q``; accurate for tiny q: see `ppf`."""
        at = check_array(q, "q", ge=0, le=1)
        return _shaped(self._quantile(at.ravel(), above=True), at)

    @property
    def mean(self) -> float:
        """E[L], the Kullback-Leibler divergence."""
        return float(sum(count * law.mean for law, count in self._parts))

    @property
    def variance(self) -> float:
        """Var[L]."""
        return float(sum(count * law.variance for law, count in self._parts))

    def rvs(self, size: int | tuple[int, ...] = (), *, rng: RNG = None) -> Any:
        """Draw losses of the releases together, for simulation, as an array of shape ``size``.

        Discrete Gaussian noise, and geometric noise moved by more than 1, is drawn use by use: its
        time grows with ``compositions``. ``rng`` is None, a seed or a
        :class:`numpy.random.Generator`.
        """
        shape = check_shape(size)
        generator = check_rng(rng)
        total = np.zeros(int(np.prod(shape, dtype=np.int64)))
        for law, count in self._parts:
            total += law.rvs(count, total.size, generator)
        return total.reshape(shape)[()]

    def _log_level(self, power: FloatArray) -> FloatArray:
        """Ln of the least level of a test of each power within (0, 1)."""
        return log_level(self._inversion, power) if self._counts else np.log(power)

    def _crossing(self, epsilon: FloatArray) -> FloatArray:
        """Largest power that is e^ε times its level or more, 0 if there is none, at ε > 0."""
        found = np.zeros(epsilon.shape)
        return crossing(self._inversion, epsilon) if self._counts else found

    @cached_property
    def _parts(self) -> tuple[tuple[LossLaw, int], ...]:
        return tuple(sorted(self._counts.items(), key=repr))

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

    def _delta(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """δ(ε) and bounds on its errors, at a vector of ε."""
        if not self._counts:
            return np.zeros(epsilon.shape), np.zeros(epsilon.shape)
        tails = self._inversion.tails(epsilon)
        return np.clip(tails.values[0], 0.0, 1.0), tails.errors[0]

    def _epsilon(self, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """ε(δ), and roughly how far it may be off, at a vector of δ."""
        found, off = np.zeros(delta.shape), np.zeros(delta.shape)
        some = (delta > 0) & bool(self._counts)
        found[delta == 0] = self._largest
        if some.any():
            found[some], off[some] = smallest_epsilon(self._inversion, delta[some])
        return found, off

    def _epsilon_bound(self, delta: FloatArray, side: int) -> FloatArray:
        """Move each ε(δ) until the bound of δ there is on the other side."""
        found, off = self._epsilon(delta)
        slack = np.maximum(2.0 * off, 4e-16 * found)
        # where nothing is to be found, or is 0 already, nothing moves
        still = (delta == 0) | ((found == 0) & (side < 0))
        left, start = np.flatnonzero(~still & bool(self._counts)), found.copy()
        while left.size:
            at = np.clip(start[left] + side * slack[left], 0.0, self._largest)
            value, error = self._delta(at)
            lower = value + error <= delta[left] if side > 0 else value - error >= delta[left]
            found[left] = at
            slack[left] *= 2.0
            left = left[~lower & (at > 0) & (at < self._largest)]
        return found

    def _log_tail(self, x: ArrayLike, *, above: bool, deep: bool = False) -> Any:
        at = check_array(x, "x")
        flat = at.ravel()
        with np.errstate(divide="ignore"):
            if not self._counts:
                return _shaped(np.log((flat < 0) == above), at)
            found = np.empty(flat.shape)
            for below in (False, True):
                side = np.flatnonzero((flat < 0) == below)
                if side.size:
                    small = self._log_far(np.abs(flat[side]), below=below, deep=deep)
                    found[side] = small if below != above else np.log1p(-np.exp(small))
            if deep and not above:
                lost = (flat >= 0) & (flat < self.mean) & (found < np.log(LEAST_REST))
                _demand_digits(~lost)
        return _shaped(found, at)

    def _log_far(self, x: FloatArray, *, below: bool, deep: bool = True) -> FloatArray:
        """Ln P(L > x), or ``below`` ln P(L <= -x), at x >= 0."""
        tails = self._inversion.leveled(x, inclusive=below, deep=deep)
        with np.errstate(divide="ignore"):
            # P(L <= -x) = Q(L >= x), as the law is symmetric
            log_tail = np.log(np.maximum(tails.values[2 if below else 1], 0.0)) + tails.level
        return np.asarray(np.minimum(log_tail - x if below else log_tail, 0.0))

    def _quantile(self, q: FloatArray, *, above: bool) -> FloatArray:
        """Least x with P(L > x) <= q, or with P(L <= x) >= q."""
        if not self._counts:
            return np.where(q == (1.0 if above else 0.0), -np.inf, 0.0)
        upper, lower = (q, 1.0 - q) if above else (1.0 - q, q)
        tails = self._inversion.tails(np.zeros(1)).values[:, 0]
        _demand_digits((lower == 0) | (lower <= tails[2]) | (lower >= LEAST_REST))
        found = np.zeros(q.shape)
        for sign, tail, mass in ((1.0, upper, tails[1]), (-1.0, lower, tails[2])):
            side = (tail < mass) if sign > 0 else (tail <= mass) & (upper >= tails[1])
            found[side & (tail == 0)] = self._largest if sign > 0 else -np.inf
            side &= tail > 0
            if side.any():
                found[side] = sign * self._far_quantile(np.log(tail[side]), below=sign < 0)
        return found

    def _far_quantile(self, log_tail: FloatArray, *, below: bool) -> FloatArray:
        """Where :meth:`_log_far` passes values: from where it is less, or ``below`` to where."""

        def excess(x: FloatArray, index: Any) -> FloatArray:
            return np.asarray(self._log_far(np.maximum(x, 0.0), below=below) - log_tail[index])

        start = self._inversion.guess(log_tail)
        spread = float(np.sqrt(self.variance))
        ends = np.maximum(start - spread, 0.0), np.minimum(start + spread, self._largest)
        lattice = self._inversion.alone
        least = 0.6 * lattice.width if lattice else 0.0
        low, high = find_root(excess, *ends, atol=least, expand=True)
        found = low if below else high
        if lattice:
            place = (found - lattice.offset) / lattice.width
            place = np.ceil(place - 1e-9) if below else np.floor(place + 1e-9)
            found = lattice.offset + place * lattice.width
        return np.clip(found, 0.0, self._largest)

    def _local(self, x: ArrayLike, name: str) -> Any:
        at = check_array(x, "x")
        if not self._counts:
            has, found = (True, False), np.where(at.ravel() == 0, 1.0, 0.0)
        else:
            has = self._inversion.has
        if not has[name == "pdf"]:
            other = {(True, False): "use pmf", (False, True): "use pdf"}.get(has)
            raise InvalidParameterError(
                f"{name} is not offered by {show(self)}: "
                + (other or "it has atoms beside a density, or atoms too many to tell apart: use ")
                + ("" if other else "cdf and sf, whose jumps are the atoms")
            )
        if self._counts:
            found = self._inversion.local(at.ravel())
        return _shaped(found, at)


def _demand_digits(known: Any) -> None:
    if not np.all(known):
        raise ConvergenceError(
            f"P(L <= x) is below {LEAST_REST:g} at an x between 0 and the mean of the loss, where "
            "it is 1 less P(L > x), and rounding leaves nothing of it: ask for x < 0 or for q of "
            f"at least {LEAST_REST:g}"
        )


def _shaped(values: Any, like: FloatArray) -> Any:
    found = np.asarray(values, dtype=np.float64).reshape(like.shape)
    return found if like.ndim else float(found)
