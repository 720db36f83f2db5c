"""Secrecy of the sample: a stronger guarantee for the population than for the sample."""

from __future__ import annotations

from collections.abc import Iterable

from dpinfer._validation import check_scalar, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.composition import compose
from dpinfer.privacy.composition._checks import check_guarantees
from dpinfer.privacy.guarantees import (
    Amplification,
    AmplifiedDP,
    ApproxDP,
    Guarantee,
    PureDP,
)
from dpinfer.privacy.guarantees.amplified import Scheme
from dpinfer.privacy.sampling.rates import SMALLEST_RATE, amplified_epsilon, sample_epsilon
from dpinfer.privacy.sampling.schemes import check_relation, check_scheme


def amplify(
    guarantee: Guarantee | Iterable[Guarantee],
    *,
    rate: float,
    scheme: Scheme = "poisson",
    delta: float | None = None,
    sample: str | None = None,
) -> AmplifiedDP:
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
        The δ of the answer, within (0, β). It must be given for GDP, zCDP and RDP, and for pairs
        (ε, δ) selects a smaller ε.
    sample : str, optional
        A name of the sample, by which guarantees for several independent samples are told apart
        when they are composed.

    Returns
    -------
    AmplifiedDP
        (ε₂, δ₂) with ε₂ = ln(1 + β(e^{ε₁} - 1)) and δ₂ = βδ₁. It cannot be amplified again.

    Raises
    ------
    IncompatibleReleaseError
        If the neighbour relation is not that of the scheme, a guarantee is amplified already, or
        neighbour relations are mixed.
    InvalidParameterError
        If ``rate`` is out of range, the scheme has no formula, or ``delta`` is missing.

    Notes
    -----
    It holds only if nobody learns who is in the sample. Amplifying each release and then adding
    up would be wrong: all releases see the same sample, and one that tells who was drawn takes the
    secrecy from the others. The formulas are attained by randomized response.

    References
    ----------
    Li, N., Qardaji, W. and Su, D. (2012). On sampling, anonymization, and differential privacy.
    7th ACM Symposium on Information, Computer and Communications Security, 32-33.
    doi:10.1145/2414456.2414474, Theorem 1 (Poisson).

    Balle, B., Barthe, G. and Gaboardi, M. (2018). Privacy amplification by subsampling: tight
    analyses via couplings and divergences. Advances in Neural Information Processing Systems 31,
    6280-6290. arXiv:1807.01647, Theorems 8 and 9.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> amplified = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplified.epsilon, 4), amplified.delta
    (0.0824, 0.0)

    Two releases from one sample are composed first:

    >>> round(amplify([PureDP(0.5), PureDP(0.5)], rate=0.05).epsilon, 4)
    0.0824
    """
    design = check_scheme(scheme)
    share = check_scalar(rate, "rate", gt=0, ge=SMALLEST_RATE, le=1)
    chance = None if delta is None else check_scalar(delta, "delta", ge=0, lt=1)
    spent = _together(guarantee, chance, share)
    check_relation(spent, design)
    pair = _as_pair(spent, chance, share)
    return AmplifiedDP(
        amplified_epsilon(pair.epsilon, share),
        share * pair.delta,
        (Amplification(spent, share, design, sample),),
        neighbours=pair.neighbours,
    )


def amplify_inverse(
    target: PureDP | ApproxDP, *, rate: float, scheme: Scheme = "poisson"
) -> ApproxDP:
    """Guarantee that all releases from a secret sample must keep, together, for a target.

    Parameters
    ----------
    target : PureDP or ApproxDP
        The guarantee that the population is to have.
    rate : float
        The sampling rate β, within [1e-100, 1].
    scheme : {"poisson", "without-replacement"}, default "poisson"
        How the sample is drawn, as for :func:`amplify`.

    Returns
    -------
    ApproxDP
        (ε₁, δ₁) with ε₁ = ln(1 + (e^{ε₂} - 1)/β) and δ₁ = δ₂/β: a budget for the sample.

    Raises
    ------
    IncompatibleReleaseError
        If the neighbour relation is not that of the scheme, or the target is amplified.
    InvalidParameterError
        If ``rate`` is out of range, the scheme has no formula, the target is no pair (ε, δ), or
        its δ is not below the rate.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> target = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplify_inverse(PureDP(target.epsilon), rate=0.05).epsilon, 12)
    1.0
    """
    design = check_scheme(scheme)
    share = check_scalar(rate, "rate", gt=0, ge=SMALLEST_RATE, le=1)
    if isinstance(target, AmplifiedDP) or not isinstance(target, (PureDP, ApproxDP)):
        raise InvalidParameterError(
            f"target must be a PureDP or ApproxDP for the population, got {show(target)}"
        )
    check_relation(target, design)
    pair = target.to_approx_dp() if isinstance(target, PureDP) else target
    _check_delta(pair.delta, share)
    return ApproxDP(
        sample_epsilon(pair.epsilon, share), pair.delta / share, neighbours=pair.neighbours
    )


def _together(
    guarantee: Guarantee | Iterable[Guarantee], delta: float | None, rate: float
) -> Guarantee:
    """Compose what was computed on one sample; at the δ of the sample where kinds are mixed."""
    parts = check_guarantees([guarantee] if isinstance(guarantee, Guarantee) else guarantee)
    if amplified := [part for part in parts if isinstance(part, AmplifiedDP)]:
        raise IncompatibleReleaseError(
            f"guarantee must not be amplified already, got {show(amplified[0])}: amplify what was "
            "computed on the sample once; of a sample of a sample, multiply the rates"
        )
    if delta is not None:
        _check_delta(delta, rate)
    mixed = any(isinstance(part, ApproxDP) and part.delta > 0 for part in parts)
    return compose(parts, delta=delta / rate if mixed and delta is not None else None)


def _as_pair(spent: Guarantee, delta: float | None, rate: float) -> ApproxDP:
    """Return the guarantee for the sample as a pair, at the δ that gives ``delta`` in the end."""
    if delta is not None:
        return spent.to_approx_dp(delta / rate)
    if isinstance(spent, PureDP):
        return spent.to_approx_dp()
    if isinstance(spent, ApproxDP):
        return spent
    raise InvalidParameterError(
        f"delta must be given to amplify {spent}, which is no pair (ε, δ): the formula is one of "
        "pairs, and gives a pair"
    )


def _check_delta(delta: float, rate: float) -> None:
    if delta >= rate:
        raise InvalidParameterError(
            f"delta must be below the sampling rate {rate:g}, got {delta}: it would allow the "
            "whole sample to be published"
        )
