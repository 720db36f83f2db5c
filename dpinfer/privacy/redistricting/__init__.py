"""The 2020 Census redistricting data as a case study: budgets, and what they mean for secrets."""

from dpinfer.privacy.redistricting.allocations import PERSONS, UNITS, attributes
from dpinfer.privacy.redistricting.scenario import AffectedQuery, Scenario, build_scenario
from dpinfer.privacy.redistricting.scenarios import SCENARIOS, WHOLE_RELEASE

__all__ = [
    "PERSONS",
    "SCENARIOS",
    "UNITS",
    "WHOLE_RELEASE",
    "AffectedQuery",
    "Scenario",
    "attributes",
    "build_scenario",
]
