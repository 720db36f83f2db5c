"""Releases whose values share noises, in files."""

import json

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer import Domain, Gaussian, Geometric, Laplace, Release, Workload
from dpinfer.__main__ import main
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.mechanisms import IndependentNoise, Rounded
from dpinfer.releases import read_release, validate_release, write_release

AGES = Domain({"age": ["0-17", "18-64", "65+"]})
TOTALS = Workload.prefixes(AGES)
RELEASES = {
    "running totals": Release(
        [3, 5, 9], workload=TOTALS, weights=TOTALS.matrix, mechanism=Geometric(scale=2.0)
    ),
    "whole noise with fractions": Release(
        [3.5, 5.25], weights=[[0.5, 1.0], [0.25, 0]], mechanism=Geometric(scale=2.0)
    ),
    "noises of several scales": Release(
        [3.5, 5.25], weights=np.eye(2)[::-1], mechanism=Laplace(scale=[1.0, 3.0])
    ),
    "covariance": Release(
        [3.5, 5.25, 1.5], labels=list("abc"), covariance=[[2, 1, 0], [1, 2, 0], [0, 0, 4]]
    ),
    "rounded": Release([3, 5], weights=np.ones((2, 1)), mechanism=Rounded(Laplace(scale=2.0))),
}


@pytest.mark.thinned("file", "name", every=2)
@pytest.mark.parametrize("file", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("name", RELEASES)
def test_what_is_written_is_read(tmp_path, file, name):
    release = RELEASES[name]
    write_release(release, tmp_path / file)
    assert validate_release(tmp_path / file) == []
    back = read_release(tmp_path / file)
    np.testing.assert_array_equal(back.values, release.values)
    np.testing.assert_allclose(dpi.noisy(back).cov(), dpi.noisy(release).cov(), rtol=1e-15)
    assert back.weights.shape == release.weights.shape
    assert abs(back.workload.matrix - release.workload.matrix).sum() == 0
    ends = [dpi.combine(one).conf_int().lower for one in (back, release)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-12)
    if not release.mechanism.shape:
        assert back.mechanism == release.mechanism


def test_a_release_that_files_do_not_hold(tmp_path):
    mixed = IndependentNoise([Laplace(scale=1.0), Gaussian(sigma=1.0)])
    for law in (mixed, Geometric(scale=[1.0, 2.0])):
        release = Release([1.5, 2.5], weights=[[1, 1], [0, 1]], mechanism=law)
        with pytest.raises(IncompatibleReleaseError, match="noises of one law"):
            write_release(release, tmp_path / "t.csv")


def place(folder, **privacy):
    (folder / "t.csv").write_text("k,v\na,1.5\nb,2.5\n")
    fields = [{"name": "k", "type": "string"}, {"name": "v", "type": "number", "privacy": privacy}]
    sidecar = {"schema": {"fields": fields, "primaryKey": "k"}}
    (folder / "t.csv-metadata.json").write_text(json.dumps(sidecar))
    return folder / "t.csv"


WEIGHTS = {"noises": 1, "row": [0, 1], "noise": [0, 0], "weight": [1, 2]}


def test_files_of_others(tmp_path):
    release = read_release(place(tmp_path, mechanism="gaussian", covariance=[[2, 1], [1, 3]]))
    np.testing.assert_allclose(dpi.noisy(release).cov(), [[2, 1], [1, 3]])
    release = read_release(place(tmp_path, mechanism="geometric", scale=2, weights=WEIGHTS))
    assert release.weights.toarray().tolist() == [[1.0], [2.0]]
    assert release.labels.to_list() == ["a", "b"]


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"mechanism": "laplace", "scale": 1, "covariance": [[1, 0], [0, 1]]}, "gaussian noise"),
        ({"mechanism": "gaussian", "sigma": 1, "covariance": [[1, 0], [0, 1]]}, "without a sigma"),
        ({"mechanism": "gaussian", "covariance": [[1, 2], [2, 1]]}, "negative eigenvalues"),
        ({"mechanism": "gaussian", "covariance": [[1, 0, 0]] * 3}, "shape"),
        ({"mechanism": "gaussian", "covariance": [[1, 0], [0]]}, "covariance"),
        ({"mechanism": "gaussian"}, "sigma"),
        ({"mechanism": "laplace", "weights": WEIGHTS}, "scale"),
        ({"mechanism": "laplace", "scale": {"column": "v"}, "weights": WEIGHTS}, "no column"),
        ({"mechanism": "laplace", "scale": 1, "weights": WEIGHTS | {"noise": [0]}}, "same length"),
        ({"mechanism": "laplace", "scale": 1, "weights": WEIGHTS | {"noise": [0, 1]}}, "1 noises"),
        ({"mechanism": "laplace", "scale": 1, "weights": WEIGHTS | {"row": [0, 2]}}, "2 rows"),
        (
            {"mechanism": "laplace", "scale": 1, "weights": WEIGHTS | {"noises": 2**27}},
            "max_bytes",
        ),
        ({"mechanism": "laplace", "scale": 1, "weights": WEIGHTS, "threshold": 0}, "weights must"),
        (
            {"mechanism": "gaussian", "weights": WEIGHTS, "covariance": [[1]], "sigma": 1},
            "left out",
        ),
        ({"mechanism": "laplace", "scale": 1, "weights": {"noises": 1}}, 'must have "row"'),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, privacy, message):
    path = place(tmp_path, **privacy)
    with pytest.raises(IncompatibleReleaseError, match=message):
        read_release(path)
    assert validate_release(path)


def test_the_command_line_analyzes_them(tmp_path, capsys):
    path = tmp_path / "totals.csv"
    write_release(RELEASES["running totals"], path)
    assert main(["validate", str(path)]) == 0
    report = tmp_path / "r.html"
    assert main(["analyze", str(path), "--output", str(report)]) == 0
    shown = capsys.readouterr().out
    assert "Noises that they share" in shown or "Noises that they share" in report.read_text()
