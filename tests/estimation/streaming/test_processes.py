"""Parts worked on in other processes: the same files, also after one of them was killed."""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dpinfer.datasets import synthetic_population
from dpinfer.estimation import TreePart, census_parts, stream_marginals
from dpinfer.releases.census import write_census_measurements
from dpinfer.releases.census.geography import PL94_DOMAIN, PL94_GROUPINGS

joblib = pytest.importorskip("joblib", reason="joblib is not installed")

OPTIONS = {
    "domain": PL94_DOMAIN,
    "groupings": PL94_GROUPINGS,
    "zero_attributes": ("hhgq", "votingage"),
    "marginals_wanted": [(), ("hhgq", "votingage")],
}


@dataclass(frozen=True)
class Recorded:
    """A function that loads a part, leaves a file to say so, and may be told to die."""

    part: TreePart
    name: str
    calls: str

    def __call__(self):
        Path(self.calls, f"{self.name}.{os.getpid()}.{time.monotonic_ns()}").touch()
        order = Path(self.calls).with_name(f"{self.name}.order")
        if order.exists():
            assert order.read_text() != str(os.getpid()), "only another process may be killed"
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.part.load()


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    root = tmp_path_factory.mktemp("census") / "files"
    population = synthetic_population(counties=4, tracts=3, block_groups=2, blocks=3, seed=2)
    write_census_measurements(root, population, rng=1)
    found = census_parts(root, states="01", memory=460e6 + 12.5 * 45e3)
    assert len(found) >= 6
    return found


@pytest.fixture(scope="module")
def alone(parts, tmp_path_factory):
    """The files that one process writes."""
    return contents(stream_marginals(parts, tmp_path_factory.mktemp("alone"), **OPTIONS))


@pytest.fixture
def recorded(parts, tmp_path):
    calls = tmp_path / "calls"
    calls.mkdir()
    return {name: replace(one, load=Recorded(one, name, str(calls))) for name, one in parts.items()}


def contents(found):
    return {name: path.read_bytes() for name, path in found.files.items()}


def called(tmp_path):
    """The part and the process of each call."""
    files = sorted((tmp_path / "calls").iterdir(), key=lambda path: path.name.split(".")[-1])
    return [tuple(path.name.split(".")[:2]) for path in files]


def in_processes(parts, folder):
    with joblib.parallel_config(backend="loky"):
        return stream_marginals(parts, folder, n_jobs=2, **OPTIONS)


def test_processes_of_which_one_was_killed_write_the_same_files(recorded, alone, tmp_path):
    last = list(recorded)[-1]
    (tmp_path / f"{last}.order").write_text(str(os.getpid()))
    with pytest.raises(RuntimeError, match="terminated"):
        in_processes(recorded, tmp_path / "work")
    done = {path.stem for path in (tmp_path / "work" / "up").glob("[!.]*.npy")}
    assert done
    assert last not in done
    calls = called(tmp_path)
    assert {process for _, process in calls} - {str(os.getpid())}
    found = in_processes(recorded, tmp_path / "work")
    assert contents(found) == alone
    again = called(tmp_path)[len(calls) :]
    assert len(again) == len(recorded) - len(done)  # what was done is taken up
    assert not list((tmp_path / "work").glob("*/.*"))
