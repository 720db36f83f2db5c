"""Rényi divergences of mechanisms, used on all of the data or on a Poisson sample of it.

Of two laws P and Q with the loss c = ln(dP/dQ), a Poisson sample of rate q turns P into the mixture
qP + (1-q)Q, of which the loss from Q is l = ln(1 + x) with x = q(e^c - 1). Its divergences of order
λ = 1 + θ are ln(1 + θH)/θ with

    H = E_Q[(1+x)^a - 1 - ax]/θ,    a = λ from Q, a = -θ of Q from it.

No term is negative, and E_Q[x] = 0: H is accurate relative to itself where it is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import FloatArray, Neighbours, check_array, check_integer, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import Channel, FiniteChannel
from dpinfer.mechanisms.laws import CROSSOVER, DiscreteGaussian, log_characteristic
from dpinfer.privacy._loss_laws import (
    DiscreteGaussianLoss,
    GaussianLoss,
    GeometricLoss,
    LaplaceLoss,
    LossLaw,
    ResponseLoss,
)
from dpinfer.privacy.guarantees import FartherPart, RenyiCurve, RenyiPart
from dpinfer.privacy.loss import MOST_COMPOSITIONS, PrivacyLoss, privacy_loss
from dpinfer.privacy.of_mechanisms import guarantee_of

Nodes = tuple[FloatArray, FloatArray]
"""Losses c and the logarithms of their masses under Q."""

_MOST_STEPS = 2000
_CLOSEST = 1e-6
_TAIL = 12.0
_MOST_SAMPLED = 250.0
_SMALLEST_RATE = 1e-100
_EXPONENT = 42.0
"""What a rule of nodes leaves out is e^-42 of the whole."""

_HEIGHTS = np.geomspace(0.01, 0.98, 8)
_TERMS = 15
_SERIES = 0.1
_LARGE = 30.0
_NODE, _WEIGHT = np.polynomial.legendre.leggauss(20)


def renyi_curve(
    mechanism: Any,
    sensitivity: ArrayLike = 1.0,
    *,
    rate: float = 1.0,
    compositions: int = 1,
) -> RenyiCurve:
    """Tight Rényi curve of a mechanism, used once or often, on all data or on fresh samples.

    Parameters
    ----------
    mechanism : Laplace, Geometric, Gaussian, DiscreteGaussian noise, or randomized answers
        What is used; answers by RandomizedResponse, UnaryEncoding, or a Channel of finite ε.
    sensitivity : float or array of float, default 1
        How far the answer of the query can move between neighbours, as for
        :func:`~dpinfer.privacy.privacy_loss`. Channels know their own: leave it at 1.
    rate : float, default 1
        The rate q, within [1e-100, 1], of a Poisson sample that is drawn afresh for each use. Below
        1 the neighbours add or remove a record, the noise has one scale, and randomized response is
        refused: it shows who gives an answer.
    compositions : int, default 1
        How often, 1 to 10⁹ times, the mechanism is used, on answers that may depend on earlier
        releases.

    Returns
    -------
    RenyiCurve
        A guarantee. Of randomized response it is for replacing a record, of noise for adding or
        removing one: ``dataclasses.replace(curve, neighbours="replace")`` says that the sensitivity
        was for the other.

    Notes
    -----
    Laplace, t = Δ/b: ln(λ/(2λ-1)·e^{t(λ-1)} + (λ-1)/(2λ-1)·e^{-tλ})/(λ-1). Gaussian: λΔ²/(2σ²), and
    the discrete Gaussian the same where λΔ is whole and less between. Geometric noise and
    randomized response: sums over the values of the loss. They are the same in both directions.

    On a Poisson sample the mixture qP + (1-q)Q stands against Q, and the larger direction counts,
    at each order, whole or not: sums over the values of the loss, the trapezoid rule for Gaussian
    and Gauss-Legendre rules for Laplace noise, which leave out less than 1e-15 of themselves.

    References
    ----------
    Mironov (2017), doi:10.1109/CSF.2017.11, Table II. Mironov, Talwar and Zhang (2019), Rényi
    differential privacy of the sampled Gaussian mechanism, arXiv:1908.10530. Canonne, Kamath and
    Steinke (2022), doi:10.29012/jpc.784, Proposition 5.

    Examples
    --------
    >>> from dpinfer import Gaussian, Laplace
    >>> round(renyi_curve(Laplace(scale=1.0)).divergence(2), 6)
    0.619124
    >>> steps = renyi_curve(Gaussian(sigma=1.0), rate=0.01, compositions=1000)
    >>> round(steps.divergence(4), 6), round(steps.epsilon_at(1e-6), 6)
    (0.363154, 2.436011)
    """
    change = check_array(sensitivity, "sensitivity", ge=0, le=1e100)
    share = check_scalar(rate, "rate", gt=0, ge=_SMALLEST_RATE, le=1)
    count = check_integer(compositions, "compositions", ge=1, le=MOST_COMPOSITIONS)
    relation: Neighbours = "add-remove"
    if isinstance(mechanism, FiniteChannel):
        relation = guarantee_of(mechanism, sensitivity).neighbours
        if share < 1:
            raise InvalidParameterError(
                f"rate must be 1 for {show(mechanism)}, got {share:g}: who was drawn is seen by "
                "giving an answer, so that the sample is no secret"
            )
    if isinstance(mechanism, Channel):
        return RenyiCurve(((ChannelPart(mechanism), count),), neighbours=relation)
    part = MechanismPart(mechanism, _plain(change), share)
    losses = part.losses  # checks the mechanism
    if share < 1:
        _check_sampled(mechanism, losses)
    return RenyiCurve(((part, count),) if losses else (), neighbours=relation)


def _check_sampled(mechanism: Any, losses: tuple[tuple[LossLaw, int], ...]) -> None:
    if sum(count for _, count in losses) > 1:
        raise InvalidParameterError(
            f"rate must be 1 for a vector with {type(mechanism).__name__} noise: its cells see one "
            "sample together; use the sensitivity of one cell"
        )
    if losses and losses[0][0].mean > _MOST_SAMPLED:
        raise InvalidParameterError(
            f"sensitivity must be at most about 20 times the scale of {show(mechanism)} on a sample"
        )


def _plain(change: FloatArray) -> Any:
    """Return it as a number or tuples, which compare by value."""
    return tuple(_plain(part) for part in change) if change.ndim else float(change)


@dataclass(frozen=True)
class ChannelPart(RenyiPart):
    """One report of a respondent through a channel."""

    channel: Channel

    @property
    def largest(self) -> float:
        """The largest loss, of the channel."""
        return self.channel.epsilon

    def divergence(self, order: FloatArray) -> FloatArray:
        """Return the largest of neighbouring truths."""
        return np.asarray(self.channel.divergence(order))

    def group(self, size: int) -> tuple[RenyiPart, int]:
        """Return it for groups, every member of which gives a report."""
        return self, size


@dataclass(frozen=True)
class MechanismPart(RenyiPart):
    """One use of a mechanism."""

    mechanism: Any
    sensitivity: Any
    rate: float

    @property
    def losses(self) -> tuple[tuple[LossLaw, int], ...]:
        """The laws of the losses of its cells, and how often each occurs."""
        loss = privacy_loss(self.mechanism, np.asarray(self.sensitivity))
        if not isinstance(loss, PrivacyLoss):
            raise InvalidParameterError(
                f"mechanism must be noise or randomized answers, got {show(self.mechanism)}, of "
                "which privacy_loss has the divergences"
            )
        return loss._parts

    @property
    def largest(self) -> float:
        """The largest loss, of the mechanism."""
        whole = sum(count * law.largest for law, count in self.losses)
        if self.rate == 1.0 or np.isinf(whole):
            return whole
        # ln(1 + q(e^c - 1)) in either direction, of which the first is larger
        return float(_mixed(np.array([whole]), self.rate)[1][0])

    def divergence(self, order: FloatArray) -> FloatArray:
        """Return the bounds, of the mechanism."""
        found = np.zeros(order.shape)
        for law, count in self.losses:
            if self.rate < 1:
                found += count * _by_nodes(law, order, self.rate)
            elif isinstance(law, GaussianLoss):
                found += 0.5 * count * law.squared * order
            elif isinstance(law, DiscreteGaussianLoss):
                found += count * _discrete_gaussian(law, order)
            elif isinstance(law, GeometricLoss) and law.steps > _MOST_STEPS:
                found += count * _by_transform(law, order)
            else:
                found += count * _by_nodes(law, order, 1.0)
        return found

    def group(self, size: int) -> tuple[RenyiPart, int]:
        """Return it for groups, of the mechanism."""
        if isinstance(self.mechanism, FiniteChannel):
            return self, size  # every member gives an answer
        if self.rate < 1:
            return FartherPart(self, (size - 1).bit_length()), 1
        return MechanismPart(self.mechanism, _plain(size * np.asarray(self.sensitivity)), 1.0), 1


def _by_transform(law: LossLaw, order: FloatArray) -> FloatArray:
    """K(θ)/θ of the cumulant function; close to order 1 its limit, which is smaller by rounding."""
    above = np.maximum(order - 1.0, _CLOSEST)
    found = np.array([law.cgf(np.array([complex(t)])).real[0] / t for t in above])
    return np.where(order > 1.0, np.maximum(found, law.mean), law.mean)


def _discrete_gaussian(law: DiscreteGaussianLoss, order: FloatArray) -> FloatArray:
    """Add ln(ϑ(s)/ϑ(0))/θ <= 0 to that of the Gaussian: ϑ(s) = Σ exp(-(k+s)²/(2σ²)), s = θΔ."""
    above, ratio = order - 1.0, law.steps / law.sigma
    # ϑ(s)/ϑ(0) is the transform at 2πs of such a noise of σ' = 1/(2πσ)
    dual = np.asarray(CROSSOVER**2 / law.sigma)
    safe = np.where(above > _CLOSEST, above, 1.0)
    dip = log_characteristic(2.0 * np.pi * np.remainder(safe * law.steps, 1.0), dual) / safe
    return 0.5 * ratio * ratio * order + np.where(above > _CLOSEST, np.minimum(dip, 0.0), 0.0)


def _by_nodes(law: LossLaw, order: FloatArray, rate: float) -> FloatArray:
    rule = _NODES[type(law)]
    sides = (1.0, -1.0) if rate < 1 else (1.0,)
    found = np.empty((len(sides), order.size))
    for row, side in enumerate(sides):
        for at, one in enumerate(order.tolist()):
            power = one if side > 0 else 1.0 - one
            found[row, at] = _divergence(*rule(law, power, rate), rate, one - 1.0, power)
    return np.asarray(found.max(axis=0))


def _mixed(c: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    """Return x = q(e^c - 1) and l = ln(1 + x)."""
    if rate == 1.0:
        return np.expm1(np.minimum(c, 700.0)), c
    x = rate * np.expm1(np.minimum(c, 700.0))
    high = np.logaddexp(np.log1p(-rate), np.log(rate) + c)
    return x, np.where(c < 1.0, np.log1p(x), high)


def _divergence(
    c: FloatArray, log_mass: FloatArray, rate: float, theta: float, power: float
) -> float:
    """ln(1 + θH)/θ, or of the sum itself where it is large."""
    x, loss = _mixed(c, rate)
    exponent = power * loss + log_mass
    top = float(exponent.max())
    if top > _LARGE:
        return (top + float(np.log(np.exp(exponent - top).sum()))) / theta
    terms = np.empty(c.shape)
    small = np.abs(x) * max(abs(power), 1.0) < _SERIES
    near, sum_ = x[small], np.ones(int(small.sum()))
    for n in range(_TERMS, 2, -1):
        sum_ = 1.0 + (power - n + 1.0) / n * near * sum_
    terms[small] = np.exp(log_mass[small]) * 0.5 * (1.0 + theta) * near * near * sum_
    far, at, mass = ~small, loss[~small], log_mass[~small]
    # (e^(θl) - 1)/θ times e^l, or (e^(-θl) - 1)/θ, with the mass and without overflow
    lead = at if power > 0 else np.zeros(at.shape)
    turn = theta * at if power > 0 else -theta * at
    if theta > 0:
        low = np.expm1(np.minimum(turn, _LARGE)) / theta * np.exp(mass + lead)
        high = np.exp(np.minimum(mass + lead + turn, _LARGE)) / theta
        grown = np.where(turn < _LARGE, low, high)
    else:
        grown = (at if power > 0 else -at) * np.exp(mass + lead)
    rest = x[far] * np.exp(mass)
    terms[far] = grown - rest if power > 0 else grown + rest
    total = float(terms.sum())
    return float(np.log1p(theta * total)) / theta if theta > 0 else total


def _response_nodes(law: LossLaw, power: float, rate: float) -> Nodes:
    assert isinstance(law, ResponseLoss)
    c = np.array([-law.epsilon, 0.0, law.epsilon][:: 1 if law.rest > 0 else 2])
    mass = np.array([law.kept, law.rest, law.flipped][:: 1 if law.rest > 0 else 2])
    return c, np.log(mass)


def _geometric_nodes(law: LossLaw, power: float, rate: float) -> Nodes:
    assert isinstance(law, GeometricLoss)
    r, last = law.rate, law.steps
    y = np.arange(last + 1.0)
    log_mass = -r * y - np.log1p(np.exp(-r))
    log_mass[1:-1] += np.log(-np.expm1(-r))
    return r * (2.0 * y - last), log_mass


def _laplace_nodes(law: LossLaw, power: float, rate: float) -> Nodes:
    """Gauss-Legendre rules over y = (t + c)/2, of pieces where a·l moves by 8, if it counts."""
    assert isinstance(law, LaplaceLoss)
    t, size = law.shift, max(abs(power), 2.0)
    low, high = _mixed(np.array([-t, t]), rate)[1]
    span = min(high - low, (_EXPONENT + 20.0 + t) / size)
    steps = int(np.ceil(size * span / 8.0)) + 1
    loss = (
        np.linspace(high - span, high, steps) if power > 0 else np.linspace(low, low + span, steps)
    )
    with np.errstate(over="ignore"):
        c = loss if rate == 1.0 else np.log1p(np.maximum(np.expm1(loss) / rate, np.expm1(-t)))
    edges = np.append(0.5 * (t + np.clip(c, -t, t)), np.linspace(0.0, t, int(np.ceil(2.0 * t)) + 1))
    edges = np.unique(edges)
    half = 0.5 * np.diff(edges)
    y = ((edges[:-1] + half)[:, None] + half[:, None] * _NODE).ravel()
    log_mass = np.log(0.5 * half[:, None] * _WEIGHT).ravel() - y
    ends = np.array([-np.log(2.0), -np.log(2.0) - t])
    return np.append(2.0 * y - t, [-t, t]), np.append(log_mass, ends)


def _gaussian_nodes(law: LossLaw, power: float, rate: float) -> Nodes:
    """Trapezoid rule over u = (c + μ²/2)/μ, around the modes near 2μ and aμ."""
    mu = law.mu if isinstance(law, GaussianLoss) else 0.0
    step = _trapezoid_step(mu, power, rate)
    u = step * _around_modes(mu, power, rate, step)
    return mu * u - 0.5 * mu * mu, -0.5 * u * u + np.log(step / np.sqrt(2.0 * np.pi))


def _discrete_gaussian_nodes(law: LossLaw, power: float, rate: float) -> Nodes:
    """List whole numbers, which are that rule with a step of 1/σ; or fewer, if that is enough."""
    assert isinstance(law, DiscreteGaussianLoss)
    mu, step = law.steps / law.sigma, 1.0 / law.sigma
    if step <= _trapezoid_step(mu, power, rate):
        return _gaussian_nodes(GaussianLoss(mu * mu), power, rate)
    k = _around_modes(mu, power, rate, step)
    noise = DiscreteGaussian(sigma=law.sigma)
    return mu * step * k - 0.5 * mu * mu, np.asarray(noise.logpmf(k))


def _trapezoid_step(mu: float, power: float, rate: float) -> float:
    """Step of which the error is e^-42, bounded along a line Im u = d, d < π/μ.

    There the density is e^(d²/2) times as large. A positive power of m is no larger, so that the
    largest d is best; a negative one is, by what is measured at coarse points.
    """
    d = _HEIGHTS[-1 if power > 0 else 0 :] * min(np.pi / mu, 9.0)
    growth = 0.5 * d * d
    if power < 0:
        low, high = _window(mu, power, rate)
        u = np.linspace(low, high, int(4.0 * (high - low)) + 2)[:, None]
        x = rate * np.expm1(mu * u - 0.5 * mu * mu + 1j * mu * np.append(0.0, d))
        log_size = -0.5 * u * u + power * np.log(np.abs(1.0 + x))
        growth = growth + np.maximum(log_size[:, 1:].max(axis=0) - log_size[:, 0].max(), 0.0)
    return min(0.25, float(np.max(2.0 * np.pi * d / (_EXPONENT + growth))))


def _window(mu: float, power: float, rate: float) -> tuple[float, float]:
    """Return the ends of what matters with a negative power: the modes 2μ, and u = aμw of m^a."""
    low, high = -min(-power * mu, float(np.sqrt(2.0 * power * np.log1p(-rate)))), 0.0
    while high - low > 0.1:
        u = 0.5 * (low + high)
        share = special.expit(mu * u - 0.5 * mu * mu + np.log(rate) - np.log1p(-rate))
        low, high = (u, high) if u < power * mu * share else (low, u)
    # where that alone is large, nothing else is left
    alone = power * np.log1p(rate * np.expm1(mu * low - 0.5 * mu * mu)) - 0.5 * low * low > 80.0
    return low - _TAIL, _TAIL + (high if alone else 2.0 * mu)


def _around_modes(mu: float, power: float, rate: float, step: float) -> FloatArray:
    """Whole multiples of the step that matter: the power of e^c rises from 2 to a, where a > 2.

    Between, where it changes by more than 1/μ² with c, no mode can be.
    """
    if power < 0:
        windows = [_window(mu, power, rate)]
    else:
        far, near = max(power, 2.0) * mu, 2.0 * mu
        wide = min(far, 4.0 / mu)
        windows = [(-_TAIL, near + wide + _TAIL), (far - wide - _TAIL, far + _TAIL)]
        if windows[0][1] >= windows[1][0]:
            windows = [(windows[0][0], windows[1][1])]
    return np.concatenate(
        [np.arange(np.floor(first / step), np.ceil(last / step) + 1.0) for first, last in windows]
    )


_NODES: dict[type, Callable[[LossLaw, float, float], Nodes]] = {
    ResponseLoss: _response_nodes,
    GeometricLoss: _geometric_nodes,
    LaplaceLoss: _laplace_nodes,
    GaussianLoss: _gaussian_nodes,
    DiscreteGaussianLoss: _discrete_gaussian_nodes,
}
