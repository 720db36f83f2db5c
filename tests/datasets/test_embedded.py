"""The embedded releases are what their documentation says."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from dpinfer import Exact, Workload, datasets, read_release


@pytest.fixture(scope="module")
def script():
    """What the script that made the files defines."""
    return runpy.run_path(str(Path(datasets.__file__).parent / "_make_anes96.py"))


def test_anes96_truth_is_the_survey(script):
    data = datasets.load_anes96()
    records = script["respondents"]()
    assert len(records) == 944
    cells = data.release.domain.histogram(records)
    assert data.release.workload.answer(cells).tolist() == data.truth.tolist()


def test_anes96_noise_has_the_stated_laws():
    release, truth = (data := datasets.load_anes96()).release, data.truth.to_numpy()
    # two-sided tails of 1e-10 for each of 28 values: chance of a false alarm 3e-9
    assert (np.abs(release.values - truth) <= release.mechanism.isf(0.5e-10)).all()
    assert release.mechanism.take(27) == Exact()
    expected = [8 - 1 / 6] * 18 + [5] * 6 + [32] * 3 + [0]
    assert np.allclose(release.variance, expected, rtol=2e-3)


def test_anes96_shipped_files_are_what_the_script_would_write(script, tmp_path):
    script["write"](tmp_path)
    shipped = datasets.anes96_path().parent
    names = sorted(path.name for path in shipped.glob("anes96*"))
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in ("anes96_truth.csv", "anes96.csv-metadata.json"):
        assert (tmp_path / name).read_bytes() == (shipped / name).read_bytes()
    drawn = read_release(tmp_path / "anes96.csv")
    data = datasets.load_anes96()
    # of the values only the laws are compared: another NumPy may draw others from the same seed
    assert drawn.labels.equals(data.release.labels)
    assert np.array_equal(drawn.variance, data.release.variance)
    assert drawn.guarantee == data.release.guarantee == {"rho": 0.825}
    assert drawn.neighbours == data.release.neighbours == "replace"


def test_example_4_1():
    data = datasets.load_example_4_1()
    identity = np.eye(6)
    sums = np.array([[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]])
    matrix = data.release.workload.matrix
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    assert np.array_equal(dense, np.vstack([identity, sums]))
    assert isinstance(data.release.workload, Workload)
    assert data.truth.tolist() == [1, 0, 2, 2, 3, 0, 3, 5]
