"""Small releases that ship with the package, each with its provenance."""

from dpinfer.datasets.embedded import (
    EmbeddedRelease,
    anes96_path,
    load_anes96,
    load_example_4_1,
)

__all__ = ["EmbeddedRelease", "anes96_path", "load_anes96", "load_example_4_1"]
