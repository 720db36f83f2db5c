"""Ways to add up what the releases of a ledger cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, RandomizedResponse
from dpinfer.privacy.composition._checks import check_pairs
from dpinfer.privacy.composition.advanced import compose_advanced
from dpinfer.privacy.composition.entries import LedgerEntry
from dpinfer.privacy.composition.repeated import RepeatedDP
from dpinfer.privacy.composition.sequential import compose
from dpinfer.privacy.guarantees import GDP, ApproxDP, Guarantee, PureDP, zcdp_of

if TYPE_CHECKING:
    from dpinfer.privacy.losses import PrivacyLoss

Accounting = Callable[[Sequence[LedgerEntry], float | None], Guarantee]


def _guarantees(entries: Sequence[LedgerEntry]) -> list[Guarantee]:
    return [entry.guarantee for entry in entries]


def add_up(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Σε and Σδ, or the sum of the weakest kind."""
    return compose(_guarantees(entries), delta=delta)


def as_zcdp(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Σρ, from the mechanisms where they are known, expressed at δ where one is given."""
    total = compose([_zcdp(entry) for entry in entries])
    return total if delta is None else total.to_approx_dp(delta)


def _zcdp(entry: LedgerEntry) -> Guarantee:
    if entry.mechanism is None:
        return entry.guarantee.to_zcdp()
    return zcdp_of(entry.mechanism, entry.sensitivity, entry.guarantee.neighbours)


def as_gdp(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """√Σμ², expressed at δ where one is given."""
    total = compose([guarantee.to_gdp() for guarantee in _guarantees(entries)])
    return total if delta is None else total.to_approx_dp(delta)


def advanced(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Smallest closed-form bound of advanced composition at δ."""
    return compose_advanced(_pairs(entries), _demand(delta, "advanced"), method="kairouz")


def optimal(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Exact composition of equal pairs (ε, δ)."""
    epsilons, deltas, relation = check_pairs(_pairs(entries))
    if np.ptp(epsilons) > 0 or np.ptp(deltas) > 0:
        raise InvalidParameterError(
            "accounting must not be 'optimal' for guarantees that differ, which has no formula: "
            "use 'advanced' or 'numerical'"
        )
    total = RepeatedDP(epsilons[0], deltas[0], len(epsilons), neighbours=relation)
    return total if delta is None else total.to_approx_dp(delta)


def numerical(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Certified upper ε at δ from the laws of the privacy losses."""
    chance = _demand(delta, "numerical")
    relation = entries[0].guarantee.neighbours
    costly = [entry for entry in entries if entry.guarantee.delta_at(0.0) > 0]
    if not costly:
        return ApproxDP(0.0, chance, neighbours=relation)
    epsilon = float(loss_of(costly).epsilon_bounds(chance)[1])
    return ApproxDP(epsilon, chance, neighbours=relation)


def loss_of(entries: Sequence[LedgerEntry]) -> PrivacyLoss:
    """Law of the privacy loss of all releases together."""
    # imported here because most ledgers never need it
    from dpinfer.privacy.losses import privacy_loss

    counts = Counter(_loss_key(entry) for entry in entries)
    mechanisms = {_loss_key(entry): _mechanism(entry) for entry in entries}
    parts = [privacy_loss(*mechanisms[key], compositions=count) for key, count in counts.items()]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _mechanism(entry: LedgerEntry) -> tuple[Any, float]:
    """Return the mechanism of a release, or the worst one that has its guarantee."""
    one_scale = getattr(entry.mechanism, "shape", ()) == ()
    if entry.mechanism is not None and one_scale and np.ndim(entry.sensitivity) == 0:
        return entry.mechanism, float(entry.sensitivity)
    guarantee = entry.guarantee
    if isinstance(guarantee, PureDP) and guarantee.epsilon > 0:
        return RandomizedResponse.from_epsilon(guarantee.epsilon), 1.0
    if isinstance(guarantee, GDP) and guarantee.mu > 0:
        return Gaussian(sigma=1.0 / guarantee.mu), 1.0
    raise InvalidParameterError(
        f"release {entry.name!r} must be recorded with its mechanism for numerical accounting: "
        f"{guarantee} has no worst mechanism whose privacy loss is known"
    )


def _loss_key(entry: LedgerEntry) -> str:
    return repr(_mechanism(entry))


def _pairs(entries: Sequence[LedgerEntry]) -> list[Any]:
    return [
        guarantee.to_pure_dp() if isinstance(guarantee, RepeatedDP) else guarantee
        for guarantee in _guarantees(entries)
    ]


def _demand(delta: float | None, name: str) -> float:
    if delta is None:
        raise InvalidParameterError(f"delta must be given for accounting={name!r}")
    return delta


ACCOUNTINGS: dict[str, Accounting] = {
    "sum": add_up,
    "zcdp": as_zcdp,
    "gdp": as_gdp,
    "advanced": advanced,
    "optimal": optimal,
    "numerical": numerical,
}
"""How the cost of several releases is added up, by name."""
