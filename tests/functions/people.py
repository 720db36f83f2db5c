"""Persons of four groups by area: a public table that serves as truth."""

import os
from pathlib import Path

import pandas as pd
import pytest

NEEDS_DATA = pytest.mark.skipif("DPINFER_DATA" not in os.environ, reason="DPINFER_DATA is not set")


def people(level):
    """Return white and black persons, Hispanics and the rest, by geoid."""
    folder = Path(os.environ["DPINFER_DATA"], "ri_prototype")
    path = folder / "ri_truth_votingage_hispanic_cenrace_long.csv"
    frame = pd.read_csv(path, dtype={"geoid": str}).query("level == @level")
    group = frame["cenrace"].where(frame["cenrace"].isin(["white", "black"]), "rest")
    group = group.where(frame["hispanic"] == 0, "hispanic")
    return frame.assign(group=group).pivot_table(
        index="geoid", columns="group", values="count", aggfunc="sum", fill_value=0
    )
