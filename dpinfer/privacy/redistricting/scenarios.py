"""The scenarios of the published case study of the 2020 redistricting data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dpinfer.privacy.redistricting.allocations import attributes
from dpinfer.privacy.redistricting.scenario import Scenario, build_scenario

WITHIN_BLOCK_GROUP = frozenset({"Block"})
WITHIN_TRACT = frozenset({"Block_Group", "Block"})


def _secret(
    secret: str, within: frozenset[str] = frozenset(), about: frozenset[str] = frozenset()
) -> Scenario:
    """All queries of the levels that a place within them touches, and all about the attributes."""

    def affected(level: str, query: str) -> bool:
        return level in within or not about.isdisjoint(attributes(query))

    return build_scenario(affected, secret=secret)


RACE, ETHNICITY, VOTING_AGE = (frozenset({name}) for name in ("cenrace", "hispanic", "votingage"))

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "A": _secret("block within its block group", WITHIN_BLOCK_GROUP),
        "B": _secret("block within its tract", WITHIN_TRACT),
        "C": _secret("race", about=RACE),
        "D": _secret("ethnicity", about=ETHNICITY),
        "E": _secret("race, and block within its tract", WITHIN_TRACT, RACE),
        "F": _secret(
            "voting age, and block within its block group", WITHIN_BLOCK_GROUP, VOTING_AGE
        ),
        "G": _secret(
            "voting age, race, and block within its block group",
            WITHIN_BLOCK_GROUP,
            VOTING_AGE | RACE,
        ),
        "H": _secret(
            "voting age, ethnicity, and block within its block group",
            WITHIN_BLOCK_GROUP,
            VOTING_AGE | ETHNICITY,
        ),
    }
)
"""Scenarios A to H of Kifer et al. (2022), arXiv:2209.03310, Section 8.2."""

WHOLE_RELEASE = build_scenario(lambda level, query: True, secret="anything about a person")
"""Everything that the release protects: ρ = 2.63."""
