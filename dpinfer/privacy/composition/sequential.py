"""Sequential composition: several releases from the same data."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, hypot

import numpy as np

from dpinfer._validation import check_scalar
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.composition._checks import check_guarantees
from dpinfer.privacy.composition.repeated import RepeatedDP
from dpinfer.privacy.guarantees import (
    GDP,
    RDP,
    ZCDP,
    Amplification,
    AmplifiedDP,
    ApproxDP,
    Guarantee,
    PureDP,
)


def compose(guarantees: Iterable[Guarantee], *, delta: float | None = None) -> Guarantee:
    """Guarantee of several releases from the same data, each chosen with a view to those before.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        The guarantee of each release, all for one neighbour relation.
    delta : float, optional
        The total δ at which the answer is to be an :class:`ApproxDP`. It must be given where
        (ε, δ) guarantees with δ > 0 meet GDP, zCDP or RDP, and covers all of them.

    Returns
    -------
    Guarantee
        Of the weakest kind among the releases, in the order PureDP, GDP, ZCDP, RDP.
        :class:`ApproxDP` with ``delta``, or where all releases are pairs (ε, δ) or pure;
        :class:`AmplifiedDP` where a release is.

    Raises
    ------
    IncompatibleReleaseError
        If neighbour relations are mixed, or amplified guarantees may be for the same sample.
    InvalidParameterError
        If there is no guarantee, or ``delta`` is missing or too small.

    Notes
    -----
    Σε, Σδ; Σρ; √Σμ²; Σγ at each order. What holds with more than one kind is first converted to
    the weakest of them, which loses something: a numerical total of the mechanisms is smaller.
    Amplified guarantees are only composed for different samples, drawn independently of each
    other: several releases from one sample are composed first, and amplified once.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Theorem 3.16.

    Bun, M. and Steinke, T. (2016). Concentrated differential privacy: simplifications, extensions,
    and lower bounds. doi:10.1007/978-3-662-53641-4_24, Lemma 1.7.

    Dong, J., Roth, A. and Su, W. J. (2022). Gaussian differential privacy. doi:10.1111/rssb.12454,
    Corollary 2.

    Mironov, I. (2017). Rényi differential privacy. doi:10.1109/CSF.2017.11, Proposition 1.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP
    >>> compose([PureDP(0.5), PureDP(1.0)])
    PureDP(epsilon=1.5, neighbours='add-remove')
    >>> compose([ZCDP(0.5), GDP(1.0)])
    ZCDP(rho=1.0, neighbours='add-remove')
    >>> total = compose([ZCDP(0.5), ApproxDP(1.0, 1e-7)], delta=1e-6)
    >>> round(total.epsilon, 4), total.delta
    (6.243, 1e-06)
    """
    parts = check_guarantees(guarantees)
    pairs = [part for part in parts if isinstance(part, ApproxDP) and not _is_pure(part)]
    others = [_plain(part) for part in parts if not isinstance(part, ApproxDP) or _is_pure(part)]
    if delta is not None:
        delta = check_scalar(delta, "delta", ge=0, lt=1)
    if not pairs:
        total = _compose_kinds(others) if len(parts) > 1 else parts[0]
        return total if delta is None else total.to_approx_dp(delta)
    return _with_pairs(pairs, _compose_kinds(others) if others else None, delta)


def _with_pairs(pairs: list[ApproxDP], rest: Guarantee | None, delta: float | None) -> ApproxDP:
    """Add up pairs (ε, δ), and the others at what is left of ``delta``."""
    spent = fsum(pair.delta for pair in pairs)
    epsilon = fsum(pair.epsilon for pair in pairs)
    if isinstance(rest, PureDP):
        epsilon, rest = epsilon + rest.epsilon, None
    if rest is not None:
        if delta is None or delta <= spent:
            raise InvalidParameterError(
                f"delta must be > {spent:g}, what the (ε, δ) guarantees use, to express {rest} "
                f"beside them, got {delta}"
            )
        epsilon, spent = epsilon + rest.epsilon_at(delta - spent), delta
    if spent >= 1:
        raise InvalidParameterError(
            f"guarantees must have deltas that add up to less than 1, got {spent:g}"
        )
    relation = pairs[0].neighbours
    sources = _sources(pairs)
    total = (
        AmplifiedDP(epsilon, spent, sources, neighbours=relation)
        if sources
        else ApproxDP(epsilon, spent, neighbours=relation)
    )
    return total if delta is None else total.to_approx_dp(delta)


def _sources(pairs: list[ApproxDP]) -> tuple[Amplification, ...]:
    """Return the samples of amplified guarantees, which must be known to be different."""
    amplified = [pair for pair in pairs if isinstance(pair, AmplifiedDP)]
    sources = tuple(source for pair in amplified for source in pair.sources)
    names = [source.sample for source in sources]
    if len(amplified) > 1 and (None in names or len(set(names)) < len(names)):
        raise IncompatibleReleaseError(
            "amplified guarantees must be for samples drawn independently, each with its own "
            f"name, got samples {', '.join(map(repr, names))}: what was computed on one sample is "
            "composed first and amplified once, amplify([first, second], rate=...); give different "
            'samples names, amplify(..., sample="wave 2")'
        )
    return sources


def _is_pure(part: Guarantee) -> bool:
    return type(part) is ApproxDP and part.delta == 0


def _plain(part: Guarantee) -> Guarantee:
    """Return a guarantee as one of the four kinds that have a sum."""
    if _is_pure(part):
        return part.to_pure_dp()
    return part.to_gdp() if isinstance(part, RepeatedDP) else part


def _compose_kinds(parts: list[Guarantee]) -> Guarantee:
    """Compose guarantees of the kinds PureDP, GDP, ZCDP and RDP: as the weakest of them."""
    kind = max((type(part) for part in parts), key=_KINDS.index)
    relation = parts[0].neighbours
    if kind is RDP:
        return _compose_renyi(parts)
    if kind is ZCDP:
        return ZCDP(fsum(part.to_zcdp().rho for part in parts), neighbours=relation)
    if kind is GDP:
        return GDP(hypot(*(part.to_gdp().mu for part in parts)), neighbours=relation)
    return PureDP(fsum(part.to_pure_dp().epsilon for part in parts), neighbours=relation)


def _compose_renyi(parts: list[Guarantee]) -> RDP:
    """Add up bounds at all orders of any curve, up to the smallest of the largest orders."""
    curves = [part for part in parts if isinstance(part, RDP)]
    last = min(curve.curve[0][-1] for curve in curves)
    orders = np.unique(np.concatenate([curve.curve[0] for curve in curves]))
    orders = orders[orders <= last]
    bound = np.array([part.to_rdp(orders).bound for part in parts]).sum(axis=0)
    if all(np.ndim(curve.order) == 0 for curve in curves) and orders.size == 1:
        return RDP(float(orders[0]), float(bound[0]), neighbours=parts[0].neighbours)
    return RDP(orders, bound, neighbours=parts[0].neighbours)


_KINDS = (PureDP, GDP, ZCDP, RDP)
