"""The report on performance: its command works, and the page shows what it wrote."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
VIGNETTES = HERE.parents[1] / "vignettes"
STORED = VIGNETTES / "about" / "performance.json"
PAGE = VIGNETTES / "about" / "performance.md"
sys.path += [str(HERE), str(VIGNETTES / "extensions")]


@pytest.fixture(scope="module")
def report():
    return json.loads(STORED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages():
    pytest.importorskip("matplotlib")
    return importlib.import_module("performance")


def test_command_writes_a_report(tmp_path):
    path = tmp_path / "report.json"
    command = [HERE / "report.py", "--quick", "--only", "proportions_ztest: one exact"]
    subprocess.run([sys.executable, *command, "--output", path], check=True, capture_output=True)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["command"].startswith("python tests/benchmarks/report.py --quick --only")
    assert found["versions"]["dpinfer"]
    assert found["growth"] == []
    first, second = found["comparisons"]
    assert first["function"] == second["function"] == "proportions_ztest"
    for row in (first, second):
        assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"], rel=0.01)
        assert min(row["rounds"]) >= 2
        assert row["exponent"] is None  # of a single test
        assert all(peak > 0 for peak in row["peak_bytes"])


def test_growth_is_timed_at_each_size():
    ways = {"dpinfer": (sorted, (10, 1000)), "tuple": (tuple, (10,))}
    tiny = importlib.import_module("growth").Growth(
        "f", "to sort", "items", lambda n: [range(n)], ways
    )
    lines = importlib.import_module("report").grown(tiny, 2, 0.1)["lines"]
    few, many = lines["dpinfer"]["seconds"]
    assert 0 < few < many
    assert len(lines["tuple"]["seconds"]) == 1


def test_memory_and_growth_are_those_of_the_call():
    report, comparing = (importlib.import_module(name) for name in ("report", "comparing"))
    held = report.peak_of(lambda: bytearray(10_000_000))
    assert 10_000_000 <= held < 10_100_000
    command = [sys.executable, "-c", "pass"]
    assert report.peak_of(lambda: subprocess.run(command, check=True)) is None

    def squares(size, _peer_size):
        return comparing.Calls(lambda: [0] * size**2, list, None)

    row = comparing.Comparison("P", "f", "what", "peer", "same", "unit", 1024, 1024, squares)
    (seconds,), _ = report.least_seconds([squares(1024, 1024).ours], 5, 1.0)
    assert (
        report.exponent_of(row, seconds) > 1.0
    )  # which 2 is, with the machine's own ups and downs


def test_answers_that_differ_are_not_reported():
    comparing = importlib.import_module("comparing")
    calls = comparing.Calls(lambda: 1, lambda: 2, lambda ours, theirs: ours == theirs)
    row = comparing.Comparison("P", "f", "what", "peer", "same", "unit", 1, 1, lambda *_: calls)
    with pytest.raises(ArithmeticError, match="f and peer do not agree"):
        importlib.import_module("report").compared(row, 2, 0.1)


def test_stored_report_has_all_comparisons(report):
    keys = ("part", "function", "what", "peer", "gives", "unit", "size", "peer_size")
    expected = importlib.import_module("comparisons").COMPARISONS
    rows = [[row[key] for key in keys] for row in report["comparisons"]]
    assert rows == [[getattr(row, key) for key in keys] for row in expected], "run report.py anew"
    for part, one in zip(report["growth"], importlib.import_module("growth").GROWTH, strict=True):
        sizes = {name: line["sizes"] for name, line in part["lines"].items()}
        assert sizes == {name: list(sizes) for name, (_, sizes) in one.ways.items()}
        ours = sizes["dpinfer"]
        assert ours[-1] >= 1000 * ours[0]


def test_stored_report_is_of_any_machine(report):
    # a command as a reader types it: no folder or name of where it ran
    command = "python tests/benchmarks/report.py --output vignettes/about/performance.json"
    assert report["command"] == command
    assert set(report) == {"command", "clock", "versions", "comparisons", "growth"}
    for row in report["comparisons"]:
        per_unit = row["peer_seconds"] / row["peer_size"] / (row["seconds"] / row["size"])
        assert row["ratio"] == pytest.approx(per_unit, rel=0.002)


def test_page_shows_the_stored_ratios(report, pages):
    rows = [line.split(" | ") for line in pages.table(report).splitlines()[2:]]
    ratios = [row[2] for row in rows if len(row) == 7]
    expected = [row["ratio"] for row in report["comparisons"]]
    assert [float(ratio.replace(",", "")) for ratio in ratios] == pytest.approx(expected, rel=0.05)
    slower = [row for row in report["comparisons"] if row["ratio"] < 1]
    overview = pages.overview(report)
    assert overview.count("\n- ") == len(slower)
    assert f"{len(expected) - len(slower)} of {len(expected)} comparisons" in overview


def test_figure_draws_every_line(report, pages):
    panels = pages.growth_figure(report).axes
    for axes, part in zip(panels, report["growth"], strict=True):
        labels = axes.get_legend_handles_labels()[1]
        assert labels == [*part["lines"], "proportional to size"]
        assert axes.lines[0].get_ydata()[0] == 1.0
    assert "<svg" in pages.growth_picture(report)
    assert pages.growth_in_words(report).count("\n") == len(panels) - 1


def test_page_states_no_figure_of_its_own():
    text = PAGE.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"\d\s*(×|times|-fold|fold|%|s\b|seconds)", prose)
    assert 'Path("performance.json")' in text
    for drawn in ("overview(report)", "table(report)", "growth_picture(report)"):
        assert drawn in text
    listed = set(re.findall(r"`(test_\w+\.py)`", text))
    assert listed == {path.name for path in HERE.glob("test_*.py")} - {"test_report.py"}
