"""The sampling schemes whose secrecy has a formula, and why the others have none here."""

from __future__ import annotations

from dpinfer._validation import Neighbours, check_option
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.privacy.guarantees.amplified import SCHEMES, Scheme

RELATIONS: dict[Scheme, Neighbours] = {
    "poisson": "add-remove",
    "without-replacement": "replace",
}
"""The neighbour relation for which each scheme has its formula."""

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


def check_scheme(scheme: object) -> Scheme:
    """Return a scheme that has a formula, or say why it has none."""
    if isinstance(scheme, str) and (reason := _NO_FORMULA.get(scheme)):
        raise InvalidParameterError(
            f"scheme must be 'poisson' or 'without-replacement', got {scheme!r}: {reason}. The "
            "guarantee covers samples that differ in one record, and no more"
        )
    return check_option(scheme, "scheme", SCHEMES)


def check_relation(guarantee: Guarantee, scheme: Scheme) -> None:
    """Refuse a guarantee for the neighbour relation of the other scheme."""
    if guarantee.neighbours == RELATIONS[scheme]:
        return
    reason = {
        "poisson": "a Poisson sample differs from that of a neighbouring population by one record "
        "more, and its size is random",
        "without-replacement": "a sample of fixed size differs from that of a neighbouring "
        "population by one record that is changed",
    }[scheme]
    raise IncompatibleReleaseError(
        f"guarantee must have neighbours={RELATIONS[scheme]!r} with scheme={scheme!r}, got "
        f"{guarantee.neighbours!r}: {reason}"
    )
