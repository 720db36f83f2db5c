"""What holds for every test, the same draws in every run; and what tests of several parts take."""

import gc
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from other_frames import arrow, polars

ROUNDED = "dpinfer.errors.RoundedValuesWarning"


def pytest_configure(config):
    """Give the workers one thread each for linear algebra, and let tests take whole numbers.

    Small whole numbers are values of any law here: what warns of them has its own tests.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the threads of two workers wait for each other
    config.addinivalue_line("filterwarnings", f"ignore::{ROUNDED}")


def place(item, name):
    """Where an item's value of a parameter stands on the axis of that."""
    for axis in item.iter_markers("parametrize"):
        names = axis.args[0]
        names = names.replace(",", " ").split() if isinstance(names, str) else list(names)
        if name in names:
            own = [item.callspec.params[x] for x in names]
            for at, values in enumerate(axis.args[1]):
                if hasattr(values, "marks"):  # of pytest.param
                    values = values.values
                elif len(names) == 1:
                    values = [values]
                if all(x is y for x, y in zip(own, values, strict=True)):
                    return at
    raise LookupError(f"{item.nodeid} has no axis {name!r}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep what users read strict: the README and all doctests; and thin crossed settings.

    Of those that a test crosses and names in `thinned`, each pair meets once or more if there are
    three axes of as many settings as it takes one of; the others are for the study.
    """
    here = Path(__file__).parent
    for item in items:
        thinned = item.get_closest_marker("thinned")
        if thinned and sum(place(item, x) for x in thinned.args) % thinned.kwargs["every"]:
            item.add_marker(pytest.mark.study)
        if here not in item.path.parents or item.path.name == "test_readme.py":
            item.add_marker(pytest.mark.filterwarnings(f"error::{ROUNDED}"))


def pytest_collection_finish():
    """Leave all tests and modules, which stay to the end, out of what the collector looks through.

    They are so many that each time takes 0.7 s, and pytest, statsmodels and others ask for it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _unseeded_draws_repeat(monkeypatch):
    """Number the generators made from ``rng=None`` in a test, so that a rerun repeats them."""
    numbers = itertools.count()
    seeded = np.random.default_rng

    def numbered(seed=None):
        return seeded([0x5EED, next(numbers)] if seed is None else seed)

    monkeypatch.setattr(np.random, "default_rng", numbered)


@pytest.fixture
def cluster():
    """Two worker processes of a local Dask cluster."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture(params=[polars, arrow], ids=lambda make: make.__name__)
def foreign(request):
    """What makes a frame of another library of one of pandas."""
    return request.param


@pytest.fixture(scope="module")
def chromium():
    """A browser without a screen."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as driver:
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("Chromium is not installed")
        with driver.chromium.launch(executable_path=path, args=["--no-sandbox"]) as browser:
            yield browser
