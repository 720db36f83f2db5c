"""Checks of the guarantees that are put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, Neighbours, check_items, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.guarantees import AmplifiedDP, ApproxDP, Guarantee, PureDP


def check_guarantee(value: Any, name: str) -> Guarantee:
    """Return ``value`` if it is a guarantee."""
    if isinstance(value, Guarantee):
        return value
    raise InvalidParameterError(
        f"{name} must be a guarantee such as PureDP(1.0), got {show(value)}: that of a mechanism "
        "is guarantee_of(mechanism, sensitivity)"
    )


def check_guarantees(value: Any) -> list[Guarantee]:
    """Return at least one guarantee, all of one neighbour relation, as a list."""
    found = check_items(value, "guarantees", "guarantees")
    if not found:
        raise InvalidParameterError("guarantees must hold at least one guarantee, got none")
    found = [check_guarantee(item, f"guarantees[{at}]") for at, item in enumerate(found)]
    check_one_relation(found)
    return found


def check_one_relation(guarantees: Iterable[Guarantee]) -> None:
    """Refuse guarantees for different neighbour relations."""
    relations = {guarantee.neighbours for guarantee in guarantees}
    if len(relations) > 1:
        raise IncompatibleReleaseError(
            "guarantees must have one neighbour relation, got both 'add-remove' and 'replace': "
            "turn the former into the latter with to_replace()"
        )


def check_pairs(value: Any) -> tuple[FloatArray, FloatArray, Neighbours]:
    """Return ε and δ of guarantees that are each a pair and not amplified, and their relation."""
    found = check_guarantees(value)
    epsilons, deltas = [], []
    for guarantee in found:
        if isinstance(guarantee, AmplifiedDP):
            raise IncompatibleReleaseError(
                f"guarantees must not be amplified here, got {show(guarantee)}: compose what was "
                "computed on one sample first and amplify once; for steps on fresh samples use "
                "SubsampledLoss"
            )
        if not isinstance(guarantee, (PureDP, ApproxDP)):
            raise InvalidParameterError(
                f"guarantees must be PureDP or ApproxDP here, got {show(guarantee)}: use compose"
            )
        epsilons.append(guarantee.epsilon)
        deltas.append(guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0)
    return np.array(epsilons), np.array(deltas), found[0].neighbours
