"""The least noise that meets a guarantee, or keeps the power of every test below a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import optimize, special

from dpinfer._check import check_integer, check_scalar, show
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms.channels import RandomizedResponse
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpinfer.privacy.loss import MOST_COMPOSITIONS, privacy_loss
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.privacy.sampling import SubsampledLoss, sample_epsilon

Noise = Laplace | Geometric | Gaussian | DiscreteGaussian | RandomizedResponse
Family = TypeVar("Family", bound=Noise)

_FAMILIES = (Laplace, Geometric, Gaussian, DiscreteGaussian, RandomizedResponse)
_SMALLEST_RATE = 1e-100
_CLOSE = 1e-13
_CLOSE_SAMPLED = 1e-7
_MOST_HALVINGS = 400
_LARGEST_RATIO = 19.99
_LOG_LARGEST = 34.0
"""Integer noise has scales up to 1e15."""
_MOST_PIECES = 20_000


def calibrate(
    family: type[Family],
    target: Guarantee | None = None,
    *,
    power: float | None = None,
    alpha: float = 0.05,
    sensitivity: float = 1.0,
    uses: int = 1,
    rate: float = 1.0,
    categories: int = 2,
) -> Family:
    """Least noise of a law with which all its uses together meet a guarantee.

    Parameters
    ----------
    family : {Laplace, Geometric, Gaussian, DiscreteGaussian, RandomizedResponse}
        The law, as its class.
    target : PureDP, ApproxDP, ZCDP or GDP, optional
        The guarantee of all uses together. Gaussian noise meets no PureDP; discrete Gaussian noise
        has no formula for GDP, and several uses of others than the Gaussian have none. That of
        randomized response is for replacing a record.
    power : float, optional
        In place of a target: the largest power, within (alpha, 1), of any test of the level
        ``alpha`` of one neighbour against the other. Not for discrete Gaussian noise.
    alpha : float, default 0.05
        The level of these tests, within (0, 1).
    sensitivity : float, default 1
        How far the answer can move between the neighbours of the target: L1 for Laplace and
        geometric, L2 for Gaussian noise, whole for integer noise; 1 for randomized response.
    uses : int, default 1
        How many times, 1 to 10⁹, the mechanism is used, each time with this noise.
    rate : float, default 1
        The rate, within [1e-100, 1], of a Poisson sample drawn afresh for each use: for Laplace,
        geometric and Gaussian noise, and for PureDP, ApproxDP or ``power``.
    categories : int, default 2
        The number of answers of randomized response.

    Returns
    -------
    Laplace, Geometric, Gaussian, DiscreteGaussian or RandomizedResponse
        The mechanism: of the least scale, or the largest probability of a true answer. It is on the
        safe side of rounding: its own guarantee, computed, is within the target.

    Raises
    ------
    InvalidParameterError
        If the family cannot meet a target of that kind, or both or neither of ``target`` and
        ``power`` are given.

    Notes
    -----
    More Laplace, geometric or Gaussian noise is the same noise and some more: what it tells falls
    with the scale, and the least scale is a root, found on the certain side of the bounds of
    :class:`PrivacyLoss` or :class:`SubsampledLoss`. For the discrete Gaussian δ at an ε can *rise*
    with σ, between the σ at which a value of the loss passes ε. The σ returned is the least of
    which all larger ones meet the target too: from the σ of ρ-zCDP, which is enough, downwards in
    pieces, in each of which P(S ≥ m) - e^ε·P(S ≥ m + kΔ), S the sum of the k noises, is bounded by
    values at both ends: P(S ≥ m) and P(S ≥ m + kΔ | S ≥ m) rise with σ. That is a theorem for one
    use (an exponential family in S²); for several it holds where E[ΣX² | S] rises with S, as it
    does for σ ≥ 1.5 but for rounding, and was found to do below.

    The σ of a Gaussian is not enough for the discrete Gaussian of an (ε, δ).

    References
    ----------
    Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy,
    arXiv:1805.06530, Theorem 8. Canonne, Kamath and Steinke (2022), doi:10.29012/jpc.784,
    Theorem 7. Dong, Roth and Su (2022), doi:10.1111/rssb.12454 (trade-off curves).

    Examples
    --------
    >>> from dpinfer import ApproxDP, DiscreteGaussian, Gaussian, Laplace, ZCDP
    >>> round(calibrate(Laplace, ApproxDP(1.0, 1e-6), uses=100).scale, 6)
    41.487483
    >>> round(calibrate(Gaussian, ApproxDP(1.0, 1e-6), rate=0.1).sigma, 6)
    1.432586
    >>> round(calibrate(DiscreteGaussian, ApproxDP(1.0, 1e-6)).sigma, 6)
    4.230779
    >>> round(calibrate(Laplace, power=0.1, alpha=0.05).scale, 6)
    1.442695
    """
    if not isinstance(family, type) or family not in _FAMILIES:
        listed = ", ".join(one.__name__ for one in _FAMILIES)
        raise InvalidParameterError(f"family must be one of {listed}, got {show(family)}")
    change = check_scalar(sensitivity, "sensitivity", gt=0, ge=1e-100, le=1e100)
    count = check_integer(uses, "uses", ge=1, le=MOST_COMPOSITIONS)
    share = check_scalar(rate, "rate", gt=0, ge=_SMALLEST_RATE, le=1)
    level = check_scalar(alpha, "alpha", gt=0, lt=1)
    kinds = check_integer(categories, "categories", ge=2, le=10**9)
    if (target is None) == (power is None):
        raise InvalidParameterError(
            f"target or power must be given, one of them, got {show(target)} and {show(power)}"
        )
    if family is not RandomizedResponse and kinds != 2:
        raise InvalidParameterError(
            f"categories must be left at 2 for {family.__name__}, got {kinds}: it is the number of "
            "answers of randomized response"
        )
    ask = _Ask(family, change, count, share, kinds)
    ask.check()
    if power is not None:
        most = check_scalar(power, "power", gt=level, lt=1)
        found: Family = ask.solve(
            lambda made: _power(ask, made, level, most) - most, ask.first(PureDP(1.0))
        )
        return found
    rule = _RULES.get(type(target))
    if rule is None or not isinstance(target, Guarantee):
        raise InvalidParameterError(
            f"target must be PureDP, ApproxDP, ZCDP or GDP, got {show(target)}"
        )
    ask.check_relation(target)
    made: Family = rule(ask, target)
    return made


class _Ask:
    """What is to be calibrated; noise is asked for by its scale, or 1/ε of randomized response."""

    def __init__(
        self, family: type[Any], change: float, uses: int, rate: float, categories: int
    ) -> None:
        self.family, self.change, self.uses = family, change, uses
        self.rate, self.categories = rate, categories

    def check(self) -> None:
        if self.family is RandomizedResponse and self.change != 1.0:
            raise InvalidParameterError(
                f"sensitivity must be left at 1 for RandomizedResponse, got {self.change:g}"
            )
        if self.rate < 1 and self.family in (RandomizedResponse, DiscreteGaussian):
            why = "it shows who gives an answer"
            if self.family is DiscreteGaussian:
                why = "no bound for all larger σ is known there; take Gaussian noise, or Geometric"
            self.refuse(f"rate must be 1 for {self.family.__name__}, got {self.rate:g}: {why}")
        guarantee_of(self.make(1.0), 1.0 if self.family is RandomizedResponse else self.change)

    def check_relation(self, target: Guarantee) -> None:
        if self.family is RandomizedResponse and target.neighbours != "replace":
            self.refuse(
                'target must have neighbours="replace" for RandomizedResponse, got "add-remove": '
                "every respondent gives an answer, so that the number of respondents is seen"
            )
        if self.rate < 1 and target.neighbours != "add-remove":
            self.refuse(
                'target must have neighbours="add-remove" with a Poisson sample, got "replace"'
            )

    def refuse(self, reason: str) -> None:
        raise InvalidParameterError(reason)

    def make(self, scale: float) -> Any:
        if self.family is RandomizedResponse:
            return RandomizedResponse.from_epsilon(1.0 / scale, categories=self.categories)
        if self.family in (Laplace, Geometric):
            return self.family(scale=scale)
        return self.family(sigma=scale)

    def loss(self, made: Any) -> Any:
        if self.rate < 1:
            return SubsampledLoss(made, self.rate, self.uses, self.change)
        return privacy_loss(made, self.change, self.uses)

    def first(self, target: PureDP) -> float:
        """Return the scale at which each use has its share of an ε."""
        return self.change / float(sample_epsilon(target.epsilon / self.uses, self.rate))

    def solve(self, excess: Callable[[Any], float], start: float) -> Any:
        """Least scale with an excess of 0 or less, which falls with the scale."""

        def at(log_scale: float) -> float:
            return excess(self.make(float(np.exp(log_scale))))

        high, step = float(np.log(start)), 0.25
        if self.rate < 1:
            high = max(high, float(np.log(self.change / _LARGEST_RATIO)) + 0.25)
        while at(high) > 0:
            high, step = high + step, 2.0 * step
            if step > _MOST_HALVINGS:
                raise ConvergenceError("no scale up to 1e100 meets the target")
        # with a sample the scale may be no smaller
        least = float(np.log(self.change / _LARGEST_RATIO)) if self.rate < 1 else -np.inf
        low, step = max(high - 0.25, least), 0.25
        while at(low) <= 0:
            if low == least or step > _MOST_HALVINGS:
                self.refuse(
                    f"target must be stricter: noise of the scale {np.exp(low):.4g} is more than "
                    "enough for it"
                )
            high, low, step = low, max(low - 2.0 * step, least), 2.0 * step
        close = _CLOSE_SAMPLED if self.rate < 1 and self.uses > 1 else _CLOSE
        root = float(optimize.brentq(at, low, high, xtol=close, rtol=4.0 * np.finfo(float).eps))
        slack = close
        while at(root) > 0:
            root, slack = root + slack, 2.0 * slack
        return self.make(float(np.exp(root)))


def _above(value: float, most: float) -> float:
    """Log ratio of what is and what may be, above 0 where it is more by one rounding."""
    ratio = float(np.log(max(value, 1e-320)) - np.log(most))
    return max(ratio, _CLOSE) if value > most else min(ratio, 0.0)


def _pure(ask: _Ask, target: PureDP) -> Any:
    if ask.family in (Gaussian, DiscreteGaussian):
        ask.refuse(
            f"target must allow a delta > 0 for {ask.family.__name__} noise, got {target}: its "
            "loss is unbounded; give ApproxDP(epsilon, delta)"
        )
    if target.epsilon == 0:
        ask.refuse("target must have epsilon > 0: at 0 no noise is enough")
    return ask.make(ask.first(target))


def _approximate(ask: _Ask, target: ApproxDP) -> Any:
    if target._samples:
        ask.refuse(f"target must not be amplified, got {target}: give ApproxDP and a rate")
    if target.delta == 0:
        return _pure(ask, PureDP(target.epsilon))
    if ask.family is DiscreteGaussian:
        return _discrete(ask, target)
    if ask.family is Gaussian and ask.rate == 1 and target.epsilon > 0:
        # k uses with √k·σ are, together, one with σ
        change = ask.change * float(np.sqrt(ask.uses))
        made = Gaussian.from_epsilon_delta(target.epsilon, target.delta, sensitivity=change)
        start = float(made.sigma)
    else:
        start = ask.first(PureDP(max(target.epsilon, target.delta)))

    def excess(made: Any) -> float:
        return _above(float(ask.loss(made).delta_bounds(target.epsilon)[1]), target.delta)

    return ask.solve(excess, start)


def _concentrated(ask: _Ask, target: ZCDP) -> Any:
    if ask.rate < 1:
        ask.refuse(
            f"rate must be 1 with {target}, got {ask.rate:g}: at large orders a sample is as "
            "telling as all of the data; give ApproxDP(epsilon, delta)"
        )
    if target.rho == 0:
        ask.refuse("target must have rho > 0: at 0 no noise is enough")
    each = target.rho / ask.uses
    if ask.family in (Gaussian, DiscreteGaussian):
        return ask.family.from_rho(each, sensitivity=ask.change)

    def excess(made: Any) -> float:
        return _above(ask.uses * guarantee_of(made, ask.change, kind="zcdp").rho, target.rho)

    return ask.solve(excess, ask.change / float(np.sqrt(2.0 * each)))


def _gaussian(ask: _Ask, target: GDP) -> Any:
    if target.mu == 0:
        ask.refuse("target must have mu > 0: at 0 no noise is enough")
    if ask.rate < 1 or ask.family is DiscreteGaussian:
        ask.refuse(
            f"target must be ApproxDP for {ask.family.__name__} noise with a sample, or of whole "
            f"numbers, got {target}: no formula for its smallest μ is known"
        )
    if ask.family is Gaussian:
        return Gaussian.from_mu(target.mu, sensitivity=ask.change * np.sqrt(ask.uses))
    if ask.uses > 1:
        ask.refuse(
            f"uses must be 1 for {ask.family.__name__} with {target}, got {ask.uses}: no formula "
            "for the smallest μ of several is known; give ApproxDP(epsilon, delta)"
        )
    return ask.solve(lambda made: _mu(made, ask.change) - target.mu, ask.change / target.mu)


def _mu(made: Any, change: float) -> float:
    """Smallest μ: largest Φ⁻¹(power) - Φ⁻¹(level) over the corners of the trade-off curve.

    It is that of the corner in the middle: with the level a tail F(y), log-linear in y, and the
    power 1 - F(t - y), it is the sum of -Φ⁻¹(F) at y and t - y, which is concave.
    """
    if isinstance(made, RandomizedResponse):
        other = (1.0 - made.p) / (made.categories - 1)
        return float(special.ndtri(made.p) - special.ndtri(other))
    if isinstance(made, Laplace):
        return float(-2.0 * special.ndtri_exp(-0.5 * change / made.scale - np.log(2.0)))
    steps = round(change)
    sides = np.array([(steps + 1) // 2, steps + 1 - (steps + 1) // 2])
    log_tails = -sides / made.scale - np.log1p(np.exp(-1.0 / made.scale))
    return float(-special.ndtri_exp(log_tails).sum())


def _power(ask: _Ask, made: Any, level: float, most: float) -> float:
    if ask.family is DiscreteGaussian:
        ask.refuse(
            "family must not be DiscreteGaussian with power: that need not fall with σ, and no "
            "bound for all larger σ is known; give ApproxDP(epsilon, delta)"
        )
    loss = ask.loss(made)
    if ask.rate == 1:
        return float(loss.power(level))
    return max(_sampled_power(loss, level, most, one) for one in ("remove", "add"))


def _sampled_power(loss: SubsampledLoss, level: float, most: float, side: Any) -> float:
    """Least e^t·α + δ(t) over t of any sign; below 0 δ is that of the other direction."""
    other: Any = "add" if side == "remove" else "remove"

    def bound(t: float) -> float:
        if t >= 0:
            return float(np.exp(t)) * level + float(loss.delta_at(t, direction=side))
        back = float(loss.delta_at(-t, direction=other))
        return float(np.exp(t)) * level + 1.0 - float(np.exp(t)) * (1.0 - back)

    # further out it is above 1, or for a power of at most ``most``
    ends = float(np.log1p(-most)), -float(np.log(level))
    found = optimize.minimize_scalar(
        bound, bounds=ends, method="bounded", options={"xatol": _CLOSE_SAMPLED}
    )
    return min(float(found.fun), bound(0.0))


def _discrete(ask: _Ask, target: ApproxDP) -> DiscreteGaussian:
    """Go down from a σ that is enough, in pieces with a bound of δ, to where it is reached."""
    shift, uses = round(ask.change), ask.uses
    allowed = target.delta

    def enough(log_rho: float) -> float:
        delta = float(ZCDP(float(np.exp(log_rho))).delta_at(target.epsilon))
        return float(np.log(max(delta, 1e-320)) - np.log(allowed))

    low, high = -60.0, 0.0
    while enough(high) < 0:
        high += 2.0
    log_rho = float(optimize.brentq(enough, low, high, xtol=1e-9)) - 1e-8
    above = ask.change * float(np.sqrt(0.5 * uses / np.exp(log_rho)))
    tails: dict[float, _Tails] = {}

    def at(sigma: float) -> _Tails:
        return tails.setdefault(sigma, _Tails(sigma, shift, uses))

    share = 0.01
    for _ in range(_MOST_PIECES):
        below = above * (1.0 - share)
        if _largest_delta(at(below), at(above), target.epsilon) <= allowed:
            tails.pop(above)
            above, share = below, min(1.5 * share, 0.05)
        elif share < 4.0 * _CLOSE:
            return _beyond_rounding(ask, target, above)
        else:
            tails.pop(below)
            share *= 0.5
    raise ConvergenceError("the least σ is still open")


def _beyond_rounding(ask: _Ask, target: ApproxDP, sigma: float) -> DiscreteGaussian:
    slack = _CLOSE
    made = DiscreteGaussian(sigma=sigma)
    while ask.loss(made).delta_bounds(target.epsilon)[1] > target.delta:
        made = DiscreteGaussian(sigma=sigma * (1.0 + slack))
        slack *= 2.0
    return made


class _Tails:
    """Upper tails of a sum of discrete Gaussian noises."""

    def __init__(self, sigma: float, shift: int, uses: int) -> None:
        self.sigma, self.shift, self.uses = sigma, shift, uses
        self.loss = privacy_loss(DiscreteGaussian(sigma=sigma), shift, uses) if uses > 1 else None

    def threshold(self, epsilon: float) -> int:
        """Return the least m with a loss above ε."""
        return int(np.floor(epsilon * self.sigma**2 / self.shift - 0.5 * self.uses * self.shift))

    def __call__(self, first: Any) -> Any:
        """P(S >= m)."""
        if self.loss is None:
            return DiscreteGaussian(sigma=self.sigma).sf(first - 1.0)
        step = self.shift / self.sigma**2
        # between two values of the loss kΔ²/(2σ²) + mΔ/σ²
        return self.loss.sf((first - 0.5) * step + 0.5 * self.uses * self.shift * step)


def _largest_delta(below: _Tails, above: _Tails, epsilon: float) -> float:
    """Bound δ at all σ between two: tails P(S >= m) rise with σ for m > 0, and fall for others.

    For m >= 0 so do their ratios P(S >= m + kΔ | S >= m).
    """
    shift = below.uses * below.shift
    low, high = below.threshold(epsilon) - 3, above.threshold(epsilon) + 5
    while True:
        first = np.arange(low, high + 1.0)
        near, far = below(first), below(first + shift)
        power = np.maximum(near, above(first))
        level = np.minimum(far, above(first + shift))
        apart = power - np.exp(epsilon) * level
        together = power * np.maximum(1.0 - np.exp(epsilon) * far / np.maximum(near, 1e-300), 0.0)
        found = np.where(first >= 0, np.minimum(apart, together), apart)
        best = int(np.argmax(found))
        if 0 < best < first.size - 1:
            return float(found[best])
        low, high = low - 2 * (high - low), high + (high - low)


_RULES: dict[type | None, Callable[[_Ask, Any], Any]] = {
    PureDP: _pure,
    ApproxDP: _approximate,
    ZCDP: _concentrated,
    GDP: _gaussian,
}


def half_width(mechanism: NoiseLaw, alpha: float = 0.05) -> Any:
    """Half-width of the noise at a level: the least t with P(abs(e) > t) ≤ alpha.

    Parameters
    ----------
    mechanism : NoiseLaw
        A law that is symmetric about 0, as all are; with an array of scales an array is returned.
    alpha : float, default 0.05
        One minus the level, within (0, 1).

    Returns
    -------
    float or array of float
        t, in units of the query: b·ln(1/alpha) of Laplace and σ·Φ⁻¹(1 - alpha/2) of Gaussian noise,
        the least such whole number of integer noise.

    See Also
    --------
    for_half_width : the other way round.

    Notes
    -----
    OpenDP calls it the accuracy. For integer noise it states the t with P(abs(e) ≥ t) = alpha of a
    formula for all real t, of which this is the least whole number not below it, less 1.

    Examples
    --------
    >>> from dpinfer import Geometric, Laplace
    >>> round(half_width(Laplace(scale=2.0)), 6), half_width(Geometric(scale=2.0))
    (5.991465, 6.0)
    """
    level = check_scalar(alpha, "alpha", gt=0, lt=1)
    if not isinstance(mechanism, NoiseLaw):
        raise InvalidParameterError(f"mechanism must be a law of noise, got {show(mechanism)}")
    found = _half_width(mechanism, level)
    return found if found.ndim else float(found)


def _half_width(mechanism: NoiseLaw, level: float) -> Any:
    return np.maximum(mechanism.isf(0.5 * level), 0.0)


def for_half_width(family: type[Family], half_width: float, alpha: float = 0.05) -> Family:
    """Return the most noise of a law that has no more than a half-width at a level.

    Parameters
    ----------
    family : {Laplace, Geometric, Gaussian, DiscreteGaussian}
        The law, as its class.
    half_width : float
        The half-width t > 0, in units of the query; at least 0 for integer noise, of which the
        whole part counts.
    alpha : float, default 0.05
        One minus the level, within (0, 1).

    Returns
    -------
    Laplace, Geometric, Gaussian or DiscreteGaussian
        The law of the largest scale with P(abs(e) > t) ≤ alpha, on the safe side of rounding.

    See Also
    --------
    half_width : the other way round.

    Examples
    --------
    >>> from dpinfer import Geometric, Laplace
    >>> round(for_half_width(Laplace, 3.0).scale, 6)
    1.001425
    >>> round(for_half_width(Geometric, 3.0).scale, 6)
    1.202083
    """
    if not isinstance(family, type) or family not in _FAMILIES[:-1]:
        listed = ", ".join(one.__name__ for one in _FAMILIES[:-1])
        raise InvalidParameterError(f"family must be one of {listed}, got {show(family)}")
    whole = issubclass(family, (Geometric, DiscreteGaussian))
    width = check_scalar(half_width, "half_width", ge=0 if whole else 1e-90, le=1e12)
    level = check_scalar(alpha, "alpha", gt=0, lt=1)
    made = _Ask(family, 1.0, 1, 1.0, 2).make
    last = float(np.floor(width)) if whole else width

    def missed(log_scale: float) -> float:
        # P(abs(e) > t) rises with the scale
        tail = made(float(np.exp(log_scale))).logsf(last)
        return float(tail + np.log(2.0) - np.log(level))

    low = high = float(np.log(max(width, 1.0) if whole else width))
    while missed(low) > 0:
        low -= 1.0
    while missed(high) < 0 and high < _LOG_LARGEST:
        high += 1.0
    if high >= _LOG_LARGEST:
        raise InvalidParameterError(
            f"alpha must be smaller, got {level}: noise of any scale has so small a half-width"
        )
    root = float(optimize.brentq(missed, low, high, xtol=_CLOSE, rtol=4.0 * np.finfo(float).eps))
    slack, found = 1e-16, made(float(np.exp(root)))
    while _half_width(found, level) > width:
        root, slack = root - slack, 2.0 * slack
        found = made(float(np.exp(root)))
    law: Family = found
    return law
