"""The page of certificates shows what the full grid found, and the figures are the library's."""

import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpinfer.calibration.library import GRIDS, cases

VIGNETTES = Path(__file__).parents[2] / "vignettes"
sys.path.append(str(VIGNETTES / "extensions"))
pages = importlib.import_module("certificates")


@pytest.fixture(scope="module")
def stored():
    return json.loads(pages.STORED.read_text(encoding="utf-8"))


def certificate(procedure, alpha, rates, verdict, **more):
    given = {
        "procedure": procedure,
        "kind": "size",
        "alpha": alpha,
        "rate": rates,
        "mc_error": [0.0 for _ in rates],
        "verdict": verdict,
        "verdicts": [verdict for _ in rates],
        "labels": [str(place) for place in range(len(rates))],
        "seed": 1,
        "settings": {"mechanism": "Laplace(scale=2.0)"},
        "beside": None,
        "beside_rate": None,
    }
    return given | more


def test_the_worst_rate_in_multiples_of_alpha():
    grid = {
        "procedures": [
            certificate("a test", 0.05, [0.05, None], "holds"),
            certificate("a test", 0.1, [0.04, 0.12], "undecided"),
            certificate(
                "an interval",
                0.1,
                [0.93, 0.91],
                "holds",
                kind="coverage",
                beside="normal",
                beside_rate=[0.8, None],
            ),
        ],
        "approximations": [],
        "controls": [certificate("wrong", 0.05, [0.4], "fails")],
        "verdict": "undecided",
        "dpinfer": "1.2.3",
    }
    report = pages.condensed(grid)
    test, interval, control = report["rows"]
    assert test["worst"]["times_alpha"] == 1.2
    assert test["verdicts"] == {"holds": 1, "undecided": 1}
    assert (test["certificates"], test["rates"]) == (2, 3)
    assert interval["worst"]["times_alpha"] == pytest.approx(0.9)
    assert interval["beside_times_alpha"] == pytest.approx(2.0)
    assert "| a test | 1.20\u202f? |" in pages.table(report, "procedure")
    assert "| wrong | 8.00 |" in pages.table(report, "control")
    assert "an interval | 2.00" in pages.table(report, "procedure", beside=True)
    assert "a test" not in pages.table(report, "procedure", beside=True)
    text = pages.overview(report)
    assert text.startswith(
        "3 certificates with 5 rates: 2 hold, 0 fail, 1 are undecided. Made with"
    )
    assert control["role"] == "control"


def test_the_figures_are_those_of_the_full_grid(stored):
    settings = list(GRIDS["full"].settings())
    assert stored["command"] == pages.COMMAND
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", stored["dpinfer"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", stored["date"])
    rows = stored["rows"]
    assert {row["law"] for row in rows} == {type(one.noise).__name__ for one in settings}
    counts = Counter()
    for row in rows:
        if row["role"] == "procedure":
            counts.update(row["verdicts"])
        assert sum(row["verdicts"].values()) == row["certificates"] <= row["rates"]
    assert counts["fails"] == 0
    assert counts["undecided"] <= 0.03 * counts.total()
    # counts, thresholds and clamps, proportions, rates: one of each in each setting
    single = [row for row in rows if row["procedure"] == "count_confint"]
    assert sum(row["certificates"] for row in single) == len(settings)


def test_a_figure_can_be_had_again(stored):
    """The worst setting of one procedure, from its seed: the library still says the same."""
    (row,) = [
        row
        for row in stored["rows"]
        if (row["procedure"], row["law"]) == ("count_confint, clamp", "Gaussian")
    ]
    worst, grid = row["worst"], GRIDS["full"]
    work = [case for setting in grid.settings() for case in cases(setting)]
    generator = np.random.default_rng(0)
    seeds = [int(generator.integers(1 << 53)) for _ in work]
    case = work[seeds.index(worst["seed"])]
    ((_, again),) = case(margin=grid.margin, error=1e-3 / (2 * len(work)), rng=worst["seed"])
    assert again.alpha == worst["alpha"]
    assert dict(again.settings) == worst["settings"]
    assert again.error_rate.max() / again.alpha == pytest.approx(worst["times_alpha"], abs=5.1e-5)


def test_the_page_shows_them(stored):
    text = (VIGNETTES / "about" / "certificates.md").read_text(encoding="utf-8")
    assert stored["command"] in text
    assert 'Path("certificates.json")' in text
    for role in pages.ROLES:
        assert f'table(report, "{role}")' in text
        assert pages.table(stored, role).count("\n") > 3
