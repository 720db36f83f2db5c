"""The 2020 Census: its noisy measurement files, its least-squares estimates, and generated ones.

No published file was at hand. The layout of the measurement files is that of public code that reads
them, and all of it is tested on generated files; of the least-squares estimates three published
lines were read; the shares of the budget are compared with the public configuration of the run.
"""

from dpinfer.privacy.composition import BudgetAllocation
from dpinfer.releases.census.allocation import PL94_PERSONS_ALLOCATION
from dpinfer.releases.census.generation import write_census_measurements
from dpinfer.releases.census.layout import block_geoid, census_subtrees, spine_codes
from dpinfer.releases.census.least_squares import read_census_least_squares
from dpinfer.releases.census.measurements import (
    CensusConstraint,
    CensusMeasurements,
    KnownZeros,
    QueryMeasurements,
)
from dpinfer.releases.census.reading import census_codes, read_census_measurements
from dpinfer.releases.census.rows import CensusRow, read_census_rows

__all__ = [
    "PL94_PERSONS_ALLOCATION",
    "BudgetAllocation",
    "CensusConstraint",
    "CensusMeasurements",
    "CensusRow",
    "KnownZeros",
    "QueryMeasurements",
    "block_geoid",
    "census_codes",
    "census_subtrees",
    "read_census_least_squares",
    "read_census_measurements",
    "read_census_rows",
    "spine_codes",
    "write_census_measurements",
]
