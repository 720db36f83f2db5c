"""Drawings go to no screen, and none is left open."""

import sys
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
sys.path.append(str(Path(__file__).parent))  # the pictures, which a script draws as well


@pytest.fixture(autouse=True)
def close_all():
    from matplotlib import pyplot

    yield
    pyplot.close("all")
