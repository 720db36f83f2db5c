"""Small releases that ship with the package, each with its provenance."""

from dpinfer.datasets.embedded import (
    EmbeddedRelease,
    anes96_path,
    load_anes96,
    load_example_4_1,
)
from dpinfer.datasets.synthetic_geography import SyntheticPopulation, synthetic_population

__all__ = [
    "EmbeddedRelease",
    "SyntheticPopulation",
    "anes96_path",
    "load_anes96",
    "load_example_4_1",
    "synthetic_population",
]
