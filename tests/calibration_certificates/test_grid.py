"""The library's own certificates, and the command that writes them."""

import csv
import json

import pytest

from dpinfer.__main__ import main
from dpinfer.calibration import certify_library, check_certificates_path, write_certificates
from dpinfer.calibration.library import Setting, cases
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Laplace, Tulap


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The small grid, by the command."""
    folder = tmp_path_factory.mktemp("certificates")
    paths = [folder / "certificates.json", folder / "certificates.csv"]
    status = main(["certify", *(part for path in paths for part in ("--output", str(path)))])
    assert set(folder.iterdir()) == set(paths)
    return status, *paths


def test_the_library_holds_and_the_controls_fail(written):
    status, path, _ = written
    found = json.loads(path.read_text(encoding="utf-8"))
    assert status == 0
    assert found["verdict"] == "holds"
    assert {one["verdict"] for one in found["procedures"]} == {"holds"}
    assert {one["verdict"] for one in found["controls"]} == {"fails"}
    assert len(found["procedures"]) > 60
    assert all(one["settings"]["mechanism"] for one in found["procedures"])


def test_csv_has_the_same_rates(written):
    _, document, table = written
    found = json.loads(document.read_text(encoding="utf-8"))
    rates = [
        rate
        for role in ("procedures", "approximations", "controls")
        for one in found[role]
        for rate in one["rate"]
    ]
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["rate"]) for row in rows] == pytest.approx(rates, rel=1e-14)
    assert rows[0]["role"] == "procedure"
    assert rows[-1]["role"] == "control"


def test_bad_input(tmp_path, capsys):
    with pytest.raises(InvalidParameterError, match="grid must be one of"):
        certify_library("large")
    with pytest.raises(InvalidParameterError, match="progress must be"):
        certify_library(progress=1)
    for name, message in {
        "a.txt": "output must end in one of .json, .csv",
        "no/a.csv": "output must be in an existing folder",
    }.items():
        assert main(["certify", "--output", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidParameterError, match="must be a file"):
        check_certificates_path(tmp_path / "folder.csv")
    with pytest.raises(InvalidParameterError, match="path must be"):
        check_certificates_path(3)
    with pytest.raises(InvalidParameterError, match="found must be certificates"):
        write_certificates(3, tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_ratios_are_not_certified_under_tulap_noise():
    laws = (Laplace(scale=2.0), Tulap.from_epsilon(0.5))
    ratios, without = (len(list(cases(Setting(law, 50, 0.05)))) for law in laws)
    assert ratios - without == 6  # three of ratios, three of risks


@pytest.mark.study
def test_the_full_grid_holds():
    """With probability at most 1e-3 a right procedure is found to fail."""
    found = certify_library("full")
    assert found.verdict != "fails", found.procedures.summary_frame().query("verdict == 'fails'")
