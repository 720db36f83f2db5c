"""The scenarios of the published case study of the 2020 redistricting data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dpinfer.privacy.redistricting.scenario import Scenario, build_scenario

BLOCK_GROUP, TRACT = ("Block",), ("Block_Group", "Block")
"""The levels below a place, which can tell where within it somebody lives."""

_SECRETS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "A": ("block within its block group", BLOCK_GROUP, ()),
    "B": ("block within its tract", TRACT, ()),
    "C": ("race", (), ("cenrace",)),
    "D": ("ethnicity", (), ("hispanic",)),
    "E": ("race, and block within its tract", TRACT, ("cenrace",)),
    "F": ("voting age, and block within its block group", BLOCK_GROUP, ("votingage",)),
    "G": (
        "voting age, race, and block within its block group",
        BLOCK_GROUP,
        ("votingage", "cenrace"),
    ),
    "H": (
        "voting age, ethnicity, and block within its block group",
        BLOCK_GROUP,
        ("votingage", "hispanic"),
    ),
}

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        letter: build_scenario(within=within, about=about, secret=secret)
        for letter, (secret, within, about) in _SECRETS.items()
    }
)
"""Scenarios A to H of Kifer et al. (2022), arXiv:2209.03310, Section 8.2."""

WHOLE_RELEASE = build_scenario(lambda level, query: True, secret="anything about a person")
"""Everything that the release protects: ρ = 2.63."""
