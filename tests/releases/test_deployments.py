"""Sidecars of real deployments are read, and hold the noise that the publishers document."""

from pathlib import Path

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.__main__ import main
from dpinfer.releases import validate_release

FOLDER = Path(__file__).parents[2] / "vignettes" / "examples" / "sidecars"

HISTORICAL = dpi.Geometric.from_epsilon(1, sensitivity=30)
CURRENT = dpi.DiscreteGaussian.from_rho(0.015, sensitivity=10**0.5)
STATE = dpi.DiscreteGaussian.from_rho(  # one record more and one less: two cells of a table
    (542 / 339) ** 2 * 1440 / 4099 * 6 / 4097, sensitivity=2**0.5
)

DOCUMENTED = {
    "census_2020_redistricting": [*[STATE] * 4, dpi.Exact()],
    "census_2020_dhc": [dpi.DiscreteGaussian(sigma=32.258**0.5)] * 4,
    "wikimedia_pageviews": [*[HISTORICAL] * 2, *[CURRENT] * 2],
    "wikimedia_editors": [
        *[dpi.Laplace.from_epsilon(1.1)] * 3,
        dpi.Laplace.from_epsilon(0.2),
        dpi.Laplace.from_epsilon(0.1),
    ],
    "google_mobility": [
        *[dpi.Laplace.from_epsilon(0.11)] * 2,
        *[dpi.Laplace.from_epsilon(0.22)] * 2,
    ],
    "microsoft_broadband": [dpi.Laplace.from_epsilon(0.1)] * 4,
}


def test_every_example_is_asked_for():
    assert {path.stem for path in FOLDER.glob("*.csv")} == set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_noise_is_the_documented_one(name, capsys):
    path = FOLDER / f"{name}.csv"
    assert validate_release(path) == []
    release = dpi.read_release(path)
    expected = [float(law.variance) for law in DOCUMENTED[name]]
    assert release.variance == pytest.approx(expected, rel=1e-5)
    assert release.unit
    assert main(["explain", str(path)]) == 0
    assert "What noise was added" in capsys.readouterr().out
    assert main(["analyze", str(path)]) == 0


@pytest.mark.parametrize(
    ("name", "threshold"),
    [("wikimedia_pageviews", [450, 450, 90, 90]), ("wikimedia_editors", [8, 8, 8, 45, 95])],
)
def test_thresholds(name, threshold):
    assert dpi.read_release(FOLDER / f"{name}.csv").threshold.tolist() == threshold


def test_what_laws_protect_by_themselves_is_explained(capsys):
    assert main(["explain", str(FOLDER / "wikimedia_pageviews.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 values with geometric noise, by themselves: ε = 1, for adding or removing" in said
    assert "2 values with discrete gaussian noise, by themselves: ρ = 0.015, for" in said


def test_an_invariant_total_is_met_exactly():
    fit = dpi.combine(dpi.read_release(FOLDER / "census_2020_redistricting.csv"))
    assert np.asarray(fit.params)[-1] == pytest.approx(1_100_000, rel=1e-14)
    assert np.asarray(fit.bse)[:4] == pytest.approx([STATE.std / 2**0.5] * 4, rel=1e-5)
