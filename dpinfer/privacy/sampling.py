"""Guarantees for a population of which a secret sample was used, once or at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    FloatArray,
    Neighbours,
    check_array,
    check_broadcast,
    check_integer,
    check_items,
    check_option,
    check_scalar,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.privacy._subsampled import Curve, Single
from dpinfer.privacy._subsampled_steps import (
    AtomicStep,
    Direction,
    GaussianStep,
    LaplaceStep,
    Step,
)
from dpinfer.privacy.composition import check_guarantees, compose
from dpinfer.privacy.guarantees import ApproxDP, Guarantee, PureDP
from dpinfer.privacy.loss import PrivacyLoss, privacy_loss
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.results.presentation import Facts

MAX_COUNT = 10**7
_SMALLEST_DELTA = 1e-20
_SMALLEST_RATE = 1e-100
_RATIOS = (1e-6, 20.0)
"""Sensitivity over scale, of one step, that is accepted."""

_MOST_VALUES = 1 << 17
"""A discrete Gaussian noise may have so many values."""

_TAIL = 14.0
"""Its values within so many σ are listed: beyond is a mass of 1e-44."""

Sides = Literal["both", "remove", "add"]
_SIDES: dict[Sides, tuple[Direction, ...]] = {
    "both": ("remove", "add"),
    "remove": ("remove",),
    "add": ("add",),
}


@dataclass(frozen=True)
class SubsampledLoss:
    """Privacy loss of many releases, each computed on a fresh Poisson sample of the population.

    ``+`` and ``sum`` compose losses, ``* k`` repeats one, as for
    :class:`~dpinfer.privacy.PrivacyLoss`.

    Parameters
    ----------
    mechanism : Laplace, Geometric, Gaussian or DiscreteGaussian
        The noise of each step, with one scale.
    rate : float
        The sampling rate β of each step, within (0, 1], at least 1e-100.
    count : int, default 1
        The number of steps, at most 10⁷.
    sensitivity : float, default 1
        The sensitivity of the query on a sample when one record is added or removed; 1e-6 to 20
        times the scale of the noise, and a whole number for integer noise.
    others : tuple of SubsampledLoss
        Other steps that are composed with these; ``+`` puts them there.

    Notes
    -----
    The neighbours add or remove a record: two pairs, of which one may lose more. ``direction``
    says which is meant, "remove" (the record is in the first population), "add", or "both", the
    larger of the two, which is what differential privacy asks. Every step draws a sample of its
    own: for several releases from one sample use :func:`amplify`.

    One step has a closed form, and steps with rate 1 are a :class:`~dpinfer.privacy.PrivacyLoss`.
    Geometric noise has few values of the loss: those of all steps together are listed, as are those
    of a few discrete Gaussian ones, with bounds of rounding only, 1e-11 apart or less for some
    hundred steps.
    Many steps, of Gaussian noise 8 or more, are summed by an integral of their transform. The
    bounds hold what is left out of it and a model of rounding: for Gaussian and Laplace noise they
    are mostly 1e-11 of ε apart or less (1e-9 at 10⁶ steps). A transform of atoms, of whole-numbered
    noise, returns again and again, and its bounds are mostly 1e-6 apart or less.

    Fewer steps are spread on a lattice such that every E[e^-L] is kept, which can only raise δ:
    ε is too large by about θkh²/12, with -θ the slope of ln δ(ε) and h the step of the lattice,
    some 1e-5 of the range of the losses; the lower bound is below it by a few √k times as much.

    References
    ----------
    Koskela, Jälkö and Honkela (2020), Computing tight differential privacy guarantees using FFT,
    arXiv:1906.03049. Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), Connect the dots:
    tighter discrete approximations of privacy loss distributions, arXiv:2207.04380. Zhu, Dong and
    Wang (2022), Optimal accounting of differential privacy via characteristic function,
    arXiv:2106.08567.

    Examples
    --------
    >>> from dpinfer import Gaussian, Laplace
    >>> loss = SubsampledLoss(Gaussian(sigma=1.0), rate=0.01, count=10_000)
    >>> round(loss.epsilon_at(1e-6), 8), round(loss.epsilon_at(1e-6, direction="add"), 8)
    (6.9073845, 6.20748438)
    >>> (loss + SubsampledLoss(Laplace(scale=1.0), rate=0.01)).epsilon_at(1e-6) > 6.907
    True
    """

    mechanism: Laplace | Geometric | Gaussian | DiscreteGaussian
    rate: float
    count: int = 1
    sensitivity: float = 1.0
    others: tuple[SubsampledLoss, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, tuple(_STEPS)) or self.mechanism.shape:
            raise InvalidParameterError(
                f"mechanism must be {', '.join(kind.__name__ for kind in _STEPS)} noise with "
                f"one scale, got {show(self.mechanism)}"
            )
        checked = {
            "rate": check_scalar(self.rate, "rate", gt=0, ge=_SMALLEST_RATE, le=1),
            "count": check_integer(self.count, "count", ge=1, le=MAX_COUNT),
            "sensitivity": check_scalar(self.sensitivity, "sensitivity", gt=0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        # refuses, among others, integer noise on a query that is not whole
        guarantee_of(self.mechanism, self.sensitivity)
        self._check_size()
        for other in check_items(self.others, "others", "losses"):
            if not isinstance(other, SubsampledLoss) or other.others:
                raise InvalidParameterError(f"others must hold single losses, got {show(other)}")
        object.__setattr__(self, "others", tuple(self.others))

    def __add__(self, other: SubsampledLoss) -> SubsampledLoss:
        if not isinstance(other, SubsampledLoss):
            return NotImplemented
        return replace(self, others=(*self.others, *other._single))

    def __radd__(self, other: object) -> SubsampledLoss:
        # the start of sum()
        return self if type(other) is int and other == 0 else NotImplemented

    def __mul__(self, count: int) -> SubsampledLoss:
        times = check_integer(count, "count", ge=1, le=MAX_COUNT)
        more = [replace(one, count=times * one.count) for one in self._single]
        return replace(more[0], others=tuple(more[1:]))

    __rmul__ = __mul__

    def delta_at(self, epsilon: ArrayLike, *, direction: Sides = "both") -> Any:
        """Smallest certain δ at ε >= 0: the upper of :meth:`delta_bounds`."""
        return self.delta_bounds(epsilon, direction=direction)[1]

    def epsilon_at(self, delta: ArrayLike, *, direction: Sides = "both") -> Any:
        """Smallest certain ε at δ in [1e-20, 1): the upper of :meth:`epsilon_bounds`."""
        return self.epsilon_bounds(delta, direction=direction)[1]

    def delta_bounds(self, epsilon: ArrayLike, *, direction: Sides = "both") -> tuple[Any, Any]:
        """Lower and upper bound of δ at ε >= 0, each in the shape of ``epsilon``.

        ``direction``: "remove", "add", or "both", the larger.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        return self._bounds(at, direction, "delta_bounds", "_delta")

    def epsilon_bounds(self, delta: ArrayLike, *, direction: Sides = "both") -> tuple[Any, Any]:
        """Lower and upper bound of ε at δ in [1e-20, 1), each in the shape of ``delta``.

        ``direction``: "remove", "add", or "both", the larger.
        """
        at = check_array(delta, "delta", ge=_SMALLEST_DELTA, lt=1)
        return self._bounds(at, direction, "epsilon_bounds", "_epsilon")

    def to_approx_dp(self, delta: float, *, sample: str | None = None) -> AmplifiedDP:
        """(ε, δ)-differential privacy of the population, with the upper bound of ε.

        Parameters
        ----------
        delta : float
            The δ, within [1e-20, 1).
        sample : str, optional
            A name of the samples of all steps, as in :func:`amplify`. Guarantees compose only
            where each has a name of its own, which says that no sample served two of them.

        Returns
        -------
        AmplifiedDP
            The guarantee, which cannot be amplified again.
        """
        at = check_scalar(delta, "delta", ge=_SMALLEST_DELTA, lt=1)
        sources = tuple(
            Amplification(guarantee_of(one.mechanism, one.sensitivity), one.rate, "poisson", sample)
            for one in self._single
        )
        return AmplifiedDP(self.epsilon_at(at), at, sources)

    @property
    def _single(self) -> tuple[SubsampledLoss, ...]:
        return (replace(self, others=()), *self.others)

    @cached_property
    def _unsampled(self) -> PrivacyLoss:
        """The loss without sampling."""
        losses = (privacy_loss(a.mechanism, a.sensitivity, a.count) for a in self._single)
        return sum(losses, start=PrivacyLoss(()))

    @cached_property
    def _curves(self) -> dict[Direction, Curve | Single]:
        counts: dict[tuple[Any, float, float], int] = {}
        for one in self._single:
            key = (one.mechanism, one.rate, one.sensitivity)
            counts[key] = counts.get(key, 0) + one.count
        parts = tuple(
            (_STEPS[type(law)](law, rate, change), count)
            for (law, rate, change), count in counts.items()
        )
        if len(parts) == 1 and parts[0][1] == 1:
            law = parts[0][0]
            return {side: Single(law, side, self._unsampled) for side in _SIDES["both"]}
        return {side: Curve(parts, side) for side in _SIDES["both"]}

    def _bounds(
        self, at: FloatArray, direction: Sides, unsampled: str, one: str
    ) -> tuple[Any, Any]:
        sides = _SIDES[check_option(direction, "direction", _SIDES)]
        if all(part.rate == 1.0 for part in self._single):
            lower, upper = getattr(self._unsampled, unsampled)(at)
            return lower, upper
        values, back = np.unique(at, return_inverse=True)
        found = [[getattr(self, one)(float(x), side) for x in values] for side in sides]
        lower, upper = np.asarray(found).max(axis=0).T[:, back.ravel()]
        return _plain(lower.reshape(at.shape)), _plain(upper.reshape(at.shape))

    def _delta(self, epsilon: float, side: Direction) -> tuple[float, float]:
        return self._curves[side].delta(epsilon)

    def _epsilon(self, delta: float, side: Direction) -> tuple[float, float]:
        return self._curves[side].epsilon(delta)

    def _check_size(self) -> None:
        law = self.mechanism
        scale = float(law.sigma if isinstance(law, (Gaussian, DiscreteGaussian)) else law.scale)
        low, high = _RATIOS
        ratio = self.sensitivity / scale
        if not low <= ratio <= high:
            size = "large" if ratio > high else "small"
            raise InvalidParameterError(
                f"sensitivity {self.sensitivity:g} is too {size} for {show(law)}: it must be "
                f"{low:g} to {high:g} times the scale of the noise"
            )
        listed = self.sensitivity + 2.0 * _TAIL * scale
        if isinstance(law, DiscreteGaussian) and listed > _MOST_VALUES:
            raise InvalidParameterError(
                f"mechanism must have a sigma of at most {_MOST_VALUES / (2 * _TAIL):.0f} with a "
                f"sample, got {show(law)}: its values are listed. Gaussian noise of that sigma is "
                "next to the same"
            )


def _gaussian(law: Gaussian, rate: float, change: float) -> Step:
    return GaussianStep(rate, change / float(law.sigma))


def _laplace(law: Laplace, rate: float, change: float) -> Step:
    return LaplaceStep(rate, change / float(law.scale))


def _geometric(law: Geometric, rate: float, change: float) -> Step:
    scale, last = float(law.scale), round(change)
    # all values up to the answer without the record have one loss, and all from that with it on
    values = np.arange(last + 1.0)
    fall = float(np.exp(-1.0 / scale))
    mass = np.exp(-values / scale) / (1.0 + fall)
    mass[1:-1] *= -np.expm1(-1.0 / scale)
    return AtomicStep(rate, (2.0 * values - last) / scale, mass, mass[::-1], bounded=True)


def _discrete_gaussian(law: DiscreteGaussian, rate: float, change: float) -> Step:
    sigma, last = float(law.sigma), round(change)
    reach = int(np.ceil(_TAIL * sigma)) + 1
    values = np.arange(-reach, last + reach + 1.0)
    mass = np.exp(law.logpmf(values))
    loss = (2.0 * values - last) * (0.5 * last / sigma**2)
    return AtomicStep(rate, loss, mass, mass[::-1], bounded=False)


_STEPS: dict[type, Callable[[Any, float, float], Step]] = {
    Laplace: _laplace,
    Geometric: _geometric,
    Gaussian: _gaussian,
    DiscreteGaussian: _discrete_gaussian,
}


Scheme = Literal["poisson", "without-replacement"]


@dataclass(frozen=True)
class Amplification:
    """What an amplified guarantee came from.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee for the sample: of everything that was computed on it.
    rate : float
        The sampling rate, within (0, 1].
    scheme : {"poisson", "without-replacement"}
        How the sample was drawn.
    sample : str, optional
        A name for the sample.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> Amplification(PureDP(1.0), 0.05, "poisson").sample is None
    True
    """

    guarantee: Guarantee
    rate: float
    scheme: Scheme
    sample: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidParameterError(f"guarantee must be one, got {show(self.guarantee)}")
        if self.sample is not None and not isinstance(self.sample, str):
            raise InvalidParameterError(f"sample must be a name or None, got {show(self.sample)}")
        object.__setattr__(self, "rate", check_scalar(self.rate, "rate", gt=0, le=1))
        object.__setattr__(self, "scheme", check_option(self.scheme, "scheme", _RELATIONS))


@dataclass(frozen=True, repr=False)
class AmplifiedDP(ApproxDP):
    """(ε, δ)-differential privacy for a population, by the secrecy of the samples that were used.

    It is what :func:`amplify` returns. It cannot be amplified again, and
    is composed only with what was computed on other samples or on the population.

    Parameters
    ----------
    epsilon, delta : float
        The ε >= 0 and the δ within [0, 1), for the population.
    sources : tuple of Amplification
        What was computed on which sample, of one or more.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring populations differ by one record more, or by one that is changed.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP, amplify
    >>> amplified = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplified.epsilon, 6), amplified.sources[0].rate
    (0.082422, 0.05)
    >>> AmplifiedDP(0.25, 0.0, amplified.sources)
    AmplifiedDP(epsilon=0.25, delta=0.0, neighbours='add-remove', sources=<1 sample, rate 0.05>)
    """

    sources: tuple[Amplification, ...] = field(repr=False)

    def __repr__(self) -> str:
        rates = [source.rate for source in self.sources]
        samples = f"1 sample, rate {rates[0]:g}"
        if len(rates) > 1:
            samples = f"{len(rates)} samples, rates from {min(rates):g} to {max(rates):g}"
        return f"{super().__repr__()[:-1]}, sources=<{samples}>)"

    def _check(self) -> None:
        ok = isinstance(self.sources, (tuple, list)) and len(self.sources) > 0
        if not ok or not all(isinstance(source, Amplification) for source in self.sources):
            raise InvalidParameterError(
                f"sources must hold at least one Amplification, got {show(self.sources)}"
            )
        object.__setattr__(self, "sources", tuple(self.sources))

    @property
    def _samples(self) -> tuple[Amplification, ...]:
        return self.sources

    def _pair(self, epsilon: float, delta: float) -> AmplifiedDP:
        return replace(self, epsilon=epsilon, delta=delta)

    def _as_pure(self, kind: str) -> NoReturn:
        self._refuse(
            kind,
            "it holds for a population by the secrecy of a sample, and that must stay on record; "
            "convert the guarantee for the sample before it is amplified",
        )


@dataclass(frozen=True, repr=False)
class AmplifiedCurve(Guarantee):
    """All the (ε, δ) for a population that follow from one secret sample of it.

    It is what :func:`amplify` returns without ``delta`` for a guarantee that is a curve. It cannot
    be amplified again; at a δ it is an :class:`AmplifiedDP`, which composes with what was computed
    on other samples.

    Parameters
    ----------
    source : Amplification
        What was computed on which sample.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring populations differ by one record more, or by one that is changed.

    Notes
    -----
    δ₂(ε₂) = β·δ₁(ln(1 + (e^{ε₂} - 1)/β)) at every ε₂, with δ₁ the curve for the sample.

    Examples
    --------
    >>> from dpinfer import GDP
    >>> from dpinfer.privacy import amplify
    >>> curve = amplify(GDP(1.0), rate=0.05)
    >>> round(curve.delta_at(0.5), 9), round(curve.epsilon_at(1e-6), 6)
    (0.00021864, 1.464659)
    >>> round(curve.to_approx_dp(1e-6).epsilon, 6)
    1.464659
    """

    source: Amplification

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        share = self.source.rate
        return share * np.asarray(self.source.guarantee.delta_at(sample_epsilon(epsilon, share)))

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        share, found = self.source.rate, np.zeros(delta.shape)
        # with the whole sample told, δ is β
        if (some := delta < share).any():
            at = self.source.guarantee.epsilon_at(delta[some] / share)
            found[some] = amplified_epsilon(at, share)
        return found

    def _group(self, size: int) -> Self:
        raise InvalidParameterError(
            f"size must be 1 for {self}, got {size}: several members may be in the sample; use "
            "to_approx_dp(delta).group(size)"
        )

    def _pair(self, epsilon: float, delta: float) -> AmplifiedDP:
        return AmplifiedDP(epsilon, delta, (self.source,), neighbours=self.neighbours)


def amplified_epsilon(epsilon: ArrayLike, rate: ArrayLike) -> Any:
    """ε for the population of what is ε-private on a secret sample: ln(1 + β(e^ε - 1)).

    Parameters
    ----------
    epsilon : float or array of float
        The ε >= 0 of all that is computed on the sample, together.
    rate : float or array of float
        The sampling rate β, within [1e-100, 1].

    Returns
    -------
    float or array of float
        The ε of the population, accurate relative to itself.

    See Also
    --------
    sample_epsilon : the inverse.
    amplify : the same for guarantees, with the checks that belong to it.

    Examples
    --------
    >>> round(amplified_epsilon(1.0, 0.05), 12)
    0.082422112879
    """
    loss, share = _arguments(epsilon, rate)
    near = np.log1p(share * np.expm1(np.minimum(loss, 700.0)))
    far = loss + np.log(share + (1.0 - share) * np.exp(-loss))
    return _plain(np.where(loss <= 700.0, near, far))


def sample_epsilon(epsilon: ArrayLike, rate: ArrayLike) -> Any:
    """ε that may be spent on a secret sample for ε of the population: ln(1 + (e^ε - 1)/β).

    Parameters
    ----------
    epsilon : float or array of float
        The ε >= 0 of the population.
    rate : float or array of float
        The sampling rate β, within [1e-100, 1].

    Returns
    -------
    float or array of float
        The ε of all that is computed on the sample, together; accurate relative to itself.

    Examples
    --------
    >>> round(sample_epsilon(amplified_epsilon(1.0, 0.05), 0.05), 12)
    1.0
    """
    loss, share = _arguments(epsilon, rate)
    near = np.log1p(np.expm1(np.minimum(loss, 1.0)) / share)
    far = loss - np.log(share) + np.log1p(-(1.0 - share) * np.exp(-np.maximum(loss, 1.0)))
    return _plain(np.where(loss <= 1.0, near, far))


def _arguments(epsilon: ArrayLike, rate: ArrayLike) -> tuple[FloatArray, FloatArray]:
    loss = check_array(epsilon, "epsilon", ge=0)
    share = check_array(rate, "rate", gt=0, ge=_SMALLEST_RATE, le=1)
    check_broadcast(epsilon=loss.shape, rate=share.shape)
    return loss, share


_RELATIONS: dict[Scheme, tuple[Neighbours, str]] = {
    "poisson": (
        "add-remove",
        "a Poisson sample differs from that of a neighbouring population by one record more, and "
        "its size is random",
    ),
    "without-replacement": (
        "replace",
        "a sample of fixed size differs from that of a neighbouring population by one record that "
        "is changed",
    ),
}
"""The neighbour relation for which each scheme has its formula, and why it is that one."""

_NO_FORMULA = {
    "stratified": "the sizes of the strata, and the rates chosen from them, depend on the data; "
    "with rates fixed beforehand each stratum is its own sample",
    "cluster": "a person is drawn together with the others of the cluster, so that one person "
    "can change who else is in the sample",
    "pps": "the inclusion probabilities depend on a size of all units, so that one unit changes "
    "those of the others",
    "systematic": "the position of a person in the list decides who else is drawn",
    "with-replacement": "a person can be drawn several times, so that groups have to be protected",
}


def _check_design(scheme: object, rate: float) -> tuple[Scheme, float]:
    """Return a scheme that has a formula, or say why it has none, and its rate."""
    if isinstance(scheme, str) and (reason := _NO_FORMULA.get(scheme)):
        raise InvalidParameterError(
            f"scheme must be 'poisson' or 'without-replacement', got {scheme!r}: {reason}. The "
            "guarantee covers samples that differ in one record, and no more"
        )
    design = check_option(scheme, "scheme", _RELATIONS)
    return design, check_scalar(rate, "rate", gt=0, ge=_SMALLEST_RATE, le=1)


def _check_relation(guarantee: Guarantee, scheme: Scheme) -> None:
    """Refuse a guarantee for the neighbour relation of the other scheme."""
    relation, reason = _RELATIONS[scheme]
    if guarantee.neighbours != relation:
        raise IncompatibleReleaseError(
            f"guarantee must have neighbours={relation!r} with scheme={scheme!r}, got "
            f"{guarantee.neighbours!r}: {reason}"
        )


def _plain(values: FloatArray) -> Any:
    return values if values.ndim else float(values)


def amplify(
    guarantee: Guarantee | Iterable[Guarantee],
    *,
    rate: float,
    scheme: Scheme = "poisson",
    delta: float | None = None,
    sample: str | None = None,
) -> AmplifiedDP | AmplifiedCurve:
    """Guarantee for a population of what was computed on one secret sample of it.

    Parameters
    ----------
    guarantee : Guarantee or iterable of Guarantee
        The guarantee for the sample. All that is computed on one sample counts: give several
        guarantees together, and they are composed before they are amplified.
    rate : float
        The sampling rate β, within [1e-100, 1]: the probability of each record to be drawn, or n/N.
    scheme : {"poisson", "without-replacement"}, default "poisson"
        Each record drawn independently with probability β, which goes with add-remove neighbours;
        or n of N records drawn at random, which goes with replace neighbours.
    delta : float, optional
        The δ of the answer, within (0, β). Without it GDP, zCDP, RDP and other curves stay curves,
        the whole δ(ε); of pairs (ε, δ) it selects a smaller ε.
    sample : str, optional
        A name of the sample, by which guarantees for several independent samples are told apart
        when they are composed.

    Returns
    -------
    AmplifiedDP or AmplifiedCurve
        (ε₂, δ₂) with ε₂ = ln(1 + β(e^{ε₁} - 1)) and δ₂ = βδ₁, or all of them. It cannot be
        amplified again.

    Raises
    ------
    IncompatibleReleaseError
        If the neighbour relation is not that of the scheme, a guarantee is amplified already, or
        neighbour relations are mixed.
    InvalidParameterError
        If the scheme has no formula, or ``delta`` is missing where kinds are mixed.

    Notes
    -----
    It holds only if nobody learns who is in the sample. Amplifying each release and then adding
    up would be wrong: all releases see the same sample, and one that tells who was drawn takes the
    secrecy from the others. The formulas are attained by randomized response.

    References
    ----------
    Li, Qardaji and Su (2012), On sampling, anonymization, and differential privacy,
    doi:10.1145/2414456.2414474, Theorem 1 (Poisson). Balle, Barthe and Gaboardi (2018), Privacy
    amplification by subsampling, arXiv:1807.01647, Theorems 8 and 9.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> amplified = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplified.epsilon, 4), amplified.delta
    (0.0824, 0.0)

    Two releases from one sample are composed first:

    >>> round(amplify([PureDP(0.5), PureDP(0.5)], rate=0.05).epsilon, 4)
    0.0824
    """
    design, share = _check_design(scheme, rate)
    at = None if delta is None else check_scalar(delta, "delta", ge=0, lt=1)
    parts = check_guarantees([guarantee] if isinstance(guarantee, Guarantee) else guarantee)
    if amplified := [part for part in parts if isinstance(part, (AmplifiedDP, AmplifiedCurve))]:
        raise IncompatibleReleaseError(
            f"guarantee must not be amplified already, got {show(amplified[0])}: amplify what was "
            "computed on the sample once; of a sample of a sample, multiply the rates"
        )
    if at is not None:
        _check_delta(at, share)
    # at the δ of the sample where kinds are mixed
    mixed = any(isinstance(part, ApproxDP) and part.delta > 0 for part in parts)
    spent = compose(parts, delta=at / share if mixed and at is not None else None)
    _check_relation(spent, design)
    source = Amplification(spent, share, design, sample)
    if at is None and not isinstance(spent, (PureDP, ApproxDP)):
        return AmplifiedCurve(source, neighbours=spent.neighbours)
    pair = spent
    if at is not None or not isinstance(pair, ApproxDP):
        pair = spent.to_approx_dp(0.0 if at is None else at / share)
    return AmplifiedDP(
        amplified_epsilon(pair.epsilon, share),
        share * pair.delta,
        (source,),
        neighbours=pair.neighbours,
    )


def amplify_inverse(
    target: PureDP | ApproxDP, *, rate: float, scheme: Scheme = "poisson"
) -> ApproxDP:
    """Guarantee that all releases from a secret sample must keep, together, for a target.

    Parameters
    ----------
    target : PureDP or ApproxDP
        The guarantee, not amplified, that the population is to have; with a δ below the rate.
    rate : float
        The sampling rate β, within [1e-100, 1].
    scheme : {"poisson", "without-replacement"}, default "poisson"
        How the sample is drawn, as for :func:`amplify`; it demands its neighbour relation.

    Returns
    -------
    ApproxDP
        (ε₁, δ₁) with ε₁ = ln(1 + (e^{ε₂} - 1)/β) and δ₁ = δ₂/β: a budget for the sample.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> target = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplify_inverse(PureDP(target.epsilon), rate=0.05).epsilon, 12)
    1.0
    """
    design, share = _check_design(scheme, rate)
    if isinstance(target, AmplifiedDP) or not isinstance(target, (PureDP, ApproxDP)):
        raise InvalidParameterError(
            f"target must be a PureDP or ApproxDP for the population, got {show(target)}"
        )
    _check_relation(target, design)
    pair = target.to_approx_dp() if isinstance(target, PureDP) else target
    _check_delta(pair.delta, share)
    return ApproxDP(
        sample_epsilon(pair.epsilon, share), pair.delta / share, neighbours=pair.neighbours
    )


def _check_delta(delta: float, rate: float) -> None:
    if delta >= rate:
        raise InvalidParameterError(
            f"delta must be below the sampling rate {rate:g}, got {delta}: it would allow the "
            "whole sample to be published"
        )


NoiseKind = Literal["laplace", "geometric", "gaussian"]
Noise = Laplace | Geometric | Gaussian


@dataclass(frozen=True)
class SampleAdjustment(Facts):
    """Noise for releases from a secret sample, beside what the same target costs without secrecy.

    It is what :func:`adjust_for_sampling` returns.

    Parameters
    ----------
    target : ApproxDP
        The guarantee for the population.
    sample_budget : ApproxDP
        The guarantee that all releases from the sample keep together.
    rate : float
        The sampling rate β.
    mechanism : Laplace, Geometric or Gaussian
        The noise of each release that the secrecy of the sample allows.
    unsampled : Laplace, Geometric or Gaussian
        The noise of each release that the target needs without it.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> adjustment = adjust_for_sampling(PureDP(0.1), rate=0.05)
    >>> round(adjustment.scale_ratio, 6)
    0.0883
    """

    _title: ClassVar[str] = "Noise for releases from a secret sample"

    target: ApproxDP
    sample_budget: ApproxDP
    rate: float
    mechanism: Noise
    unsampled: Noise

    @property
    def variance_ratio(self) -> float:
        """Variance of the noise relative to that without secrecy: at most 1; 1 if both are 0."""
        return _ratio(self.mechanism.variance, self.unsampled.variance)

    @property
    def scale_ratio(self) -> float:
        """Standard deviation of the noise relative to that without secrecy, as for the variance."""
        return _ratio(self.mechanism.std, self.unsampled.std)

    @property
    def weighted_variance(self) -> float:
        """Variance that the noise gives to a count of the sample that is weighted by 1/β."""
        return float(self.mechanism.variance) / self.rate**2


def adjust_for_sampling(
    target: PureDP | ApproxDP,
    *,
    rate: float,
    scheme: Scheme = "poisson",
    noise: NoiseKind = "laplace",
    sensitivity: float = 1.0,
    releases: int = 1,
) -> SampleAdjustment:
    """Noise that a target for the population allows on a secret sample.

    Parameters
    ----------
    target : PureDP or ApproxDP
        The guarantee that the population is to have, with ε > 0.
    rate : float
        The sampling rate β, within [1e-100, 1].
    scheme : {"poisson", "without-replacement"}, default "poisson"
        How the sample is drawn, as for :func:`amplify`; it demands its neighbour relation.
    noise : {"laplace", "geometric", "gaussian"}, default "laplace"
        The law of the noise. Gaussian noise needs a target with δ > 0.
    sensitivity : float, default 1
        The sensitivity > 0 of each release on the sample under the neighbour relation of the
        target: L1, or L2 for Gaussian noise; a whole number for geometric noise.
    releases : int, default 1
        The number, from 1 to 10⁹, of releases from the one sample, which share its budget equally.

    Returns
    -------
    SampleAdjustment
        The noise of each release, with and without the secrecy of the sample.

    Notes
    -----
    All releases together get ε₁ = ln(1 + (e^{ε₂} - 1)/β), that is (ε₁, δ₁) with δ₁ = δ₂/β. Laplace
    and geometric noise have the scale kΔ/ε₁ for k releases, Gaussian noise √k times the exact σ of
    (ε₁, δ₁). The variance falls to about β² of that without secrecy where ε₂ is small against β.
    A count of the sample that estimates one of the population is weighted by 1/β, which multiplies
    the variance of the noise by 1/β²: secrecy about makes up for the weight, and pays off for what
    is inferred about rates and shares.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), arXiv:1807.01647, Theorems 8 and 9.

    Examples
    --------
    >>> from dpinfer import count_confint
    >>> from dpinfer.privacy import PureDP
    >>> adjustment = adjust_for_sampling(PureDP(0.0824), rate=0.05)
    >>> [round(law.scale, 3) for law in (adjustment.mechanism, adjustment.unsampled)]
    [1.0, 12.136]

    A noisy count of 40.3 in the sample, with the 90 % interval for the count it stands for:

    >>> for law in (adjustment.mechanism, adjustment.unsampled):
    ...     lower, upper = count_confint(40.3, mechanism=law, alpha=0.1)
    ...     print(round(float(lower), 2), round(float(upper), 2))
    38.0 42.6
    12.36 68.24
    """
    check_option(noise, "noise", ("laplace", "geometric", "gaussian"))
    change = check_scalar(sensitivity, "sensitivity", gt=0)
    shared = check_integer(releases, "releases", ge=1, le=10**9)
    budget = amplify_inverse(target, rate=rate, scheme=scheme)
    goal = target.to_approx_dp() if isinstance(target, PureDP) else target
    if goal.epsilon == 0:
        raise InvalidParameterError("target must have epsilon > 0: at 0 no noise is enough")
    return SampleAdjustment(
        goal,
        budget,
        check_scalar(rate, "rate"),
        _calibrated(noise, budget, change, shared),
        _calibrated(noise, goal, change, shared),
    )


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole > 0 else 1.0


def _calibrated(kind: NoiseKind, budget: ApproxDP, sensitivity: float, releases: int) -> Noise:
    if kind == "laplace":
        return Laplace.from_epsilon(budget.epsilon / releases, sensitivity=sensitivity)
    if kind == "geometric":
        if not sensitivity.is_integer():
            raise InvalidParameterError(
                f"sensitivity must be a whole number for geometric noise, got {sensitivity}"
            )
        return Geometric.from_epsilon(budget.epsilon / releases, sensitivity=sensitivity)
    if budget.delta == 0:
        raise InvalidParameterError(
            "target must have delta > 0 for Gaussian noise, which is never ε-DP: give an ApproxDP, "
            'or use noise="laplace"'
        )
    # k releases with √k·σ are, together, one with σ
    return Gaussian.from_epsilon_delta(
        budget.epsilon, budget.delta, sensitivity=sensitivity * np.sqrt(releases)
    )
