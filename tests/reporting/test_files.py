"""Reports in files: all digits, one file or several, each whole or not there."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpinfer as dpi
from dpinfer import datasets
from dpinfer.__main__ import main
from dpinfer.errors import InvalidParameterError
from dpinfer.reporting import Analysis, write_reports
from dpinfer.reporting import report as writing
from dpinfer.reporting.report import WRITERS

NUMBERS = ["estimate", "std_err", "ci_lower", "ci_upper", "published", "published_std_err"]


def analysis_of(release):
    return Analysis.of(release, alpha=0.05, method="exact", seed=0)


@pytest.fixture(scope="module")
def analysis():
    return analysis_of(datasets.load_anes96().release)


def all_paths(folder):
    return [folder / f"report{ending}" for ending in WRITERS]


def test_all_formats_hold_all_digits(analysis, tmp_path):
    write_reports(analysis, all_paths(tmp_path))
    exact = analysis.frame.to_numpy()
    csv = pd.read_csv(tmp_path / "report.csv")
    parquet = pq.read_table(tmp_path / "report.parquet")
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    for frame in (csv, parquet.to_pandas(), pd.DataFrame(document["estimates"])):
        np.testing.assert_allclose(frame[NUMBERS].to_numpy(), exact, rtol=1e-15)
        assert list(frame.columns) == ["education", "party", "vote", *NUMBERS]
        labels = list(map(tuple, frame[["education", "party", "vote"]].to_numpy()))
        assert labels == list(analysis.frame.index)
    facts = json.loads(parquet.schema.metadata[b"dpinfer"])
    assert facts["error_covered"] == "noise (inference on the confidential values)"
    assert (facts["dpinfer"], facts["seed"]) == (dpi.__version__, 0)
    assert {key: document[key] for key in facts} == facts


def test_several_files_from_one_command(tmp_path, capsys):
    options = [part for path in all_paths(tmp_path) for part in ("--output", str(path))]
    assert main(["analyze", *options]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"report{e}" for e in WRITERS}
    assert main(["analyze", *options[:2], *options[:2]]) == 2
    assert "another file" in capsys.readouterr().err


def test_long_tables_are_whole_outside_html(tmp_path):
    release = dpi.Release(np.arange(3000.0), mechanism=dpi.Laplace(scale=1.0))
    write_reports(analysis_of(release), all_paths(tmp_path))
    assert len(pd.read_csv(tmp_path / "report.csv")) == 3000
    assert pq.read_table(tmp_path / "report.parquet").num_rows == 3000
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert document["estimates"][2999]["target"] == "value 2999"


def test_labels_of_any_kind_are_written(tmp_path):
    parts = [("a", 1), (2.5, "\ud800"), (None, "<b>"), ("é\n", 4)]
    labels = pd.MultiIndex.from_tuples(parts, names=["estimate", "estimate_label"])
    release = dpi.Release(
        [1.0, 2.0, 3.0, 4.0], labels=labels, mechanism=dpi.Laplace(scale=1.0), name="\udfff"
    )
    write_reports(analysis_of(release), all_paths(tmp_path))
    names = ["estimate_label", "estimate_label_label", *NUMBERS]
    assert list(pd.read_csv(tmp_path / "report.csv").columns) == names
    assert pq.read_table(tmp_path / "report.parquet").column_names == names
    rows = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["estimates"]
    assert [row["estimate"] for row in rows] == [1.0, 2.0, 3.0, 4.0]
    assert r"\udfff" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_labels_like_formulas_are_written_as_they_are(tmp_path):
    labels = ["=1+1", "+1", "-1 or so", "@SUM(A1)"]
    release = dpi.Release(
        [1.0, 2.0, 3.0, 4.0], labels=pd.Index(labels, name="k"), mechanism=dpi.Laplace(scale=1.0)
    )
    write_reports(analysis_of(release), all_paths(tmp_path))
    assert pd.read_csv(tmp_path / "report.csv")["k"].to_list() == labels
    assert pq.read_table(tmp_path / "report.parquet").column("k").to_pylist() == labels
    rows = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["estimates"]
    assert [row["k"] for row in rows] == labels


@pytest.mark.parametrize("ending", WRITERS)
def test_a_failure_leaves_what_was_there(analysis, tmp_path, monkeypatch, ending):
    def fails(_, path):
        path.write_text("half", encoding="utf-8")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(writing.WRITERS, ending, fails)
    paths = all_paths(tmp_path)
    for path in paths:
        path.write_text("before", encoding="utf-8")
    with pytest.raises(InvalidParameterError, match="No space left"):
        write_reports(analysis, paths)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}
    assert all(path.read_text(encoding="utf-8") == "before" for path in paths)


def test_a_killed_run_leaves_what_was_there(tmp_path):
    report = tmp_path / "report.html"
    report.write_text("before", encoding="utf-8")
    code = (
        "import os, sys\n"
        "from dpinfer.reporting import report as writing\n"
        "from dpinfer.reporting.report import page_of\n"
        "from dpinfer.__main__ import main\n"
        "def dies(analysis, path):\n"
        "    path.write_text(page_of(analysis)[:500], encoding='utf-8')\n"
        "    os._exit(8 if 'matplotlib' in sys.modules else 9)  # which a report does not need\n"
        "writing.WRITERS['.html'] = dies\n"
        "main(['analyze', '--output', sys.argv[1]])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(report)], capture_output=True, check=False
    )
    assert run.returncode == 9
    assert report.read_text(encoding="utf-8") == "before"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("report.docx", "must end in one of .html, .csv, .json, .parquet"),
        ("no/report.csv", "existing folder"),
        ("folder.csv", "must be a file"),
        (f"{'x' * 300}.csv", "must be writable"),
        ("a\0.csv", "a name that files can have"),
        ("\ud800.csv", "a name that files can have"),
    ],
)
def test_places_that_cannot_be_written_are_refused(analysis, tmp_path, name, words):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidParameterError, match=words):
        write_reports(analysis, [tmp_path / name])
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.parametrize(
    "rule", [{"threshold": [10, 10, -np.inf]}, {"clamp": (10, [np.inf, 40, 80])}]
)
def test_values_with_a_publishing_rule_are_reported_one_by_one(tmp_path, capsys, rule):
    labels = pd.Index(["small", "middle", "large"], name="size")
    counts = pd.Series([10.0, 30.0, 70.0], labels)
    release = dpi.Release(counts, mechanism=dpi.Laplace(scale=2.0), **rule)
    table = tmp_path / "counts.csv"
    dpi.write_release(release, table)
    options = [part for path in all_paths(tmp_path) for part in ("--output", str(path))]
    assert main(["analyze", str(table), "--alpha", "0.1", *options]) == 0
    printed = capsys.readouterr().out
    own = dpi.count_confint(release, alpha=0.1)
    csv = pd.read_csv(tmp_path / "report.csv")
    parquet = pq.read_table(tmp_path / "report.parquet").to_pandas()
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for frame in (csv, parquet):
        np.testing.assert_array_equal(frame[["ci_lower", "ci_upper"]].to_numpy(), own)
        np.testing.assert_array_equal(frame["published"], counts)
        assert frame["size"].to_list() == list(labels)
    assert document["method"] == "conditional"
    assert document["consistency"] is None
    free = int((~release.has_rule).sum())
    for text in (printed, page, *document["warnings"]):
        assert "nothing is combined" in text
        assert ("release.select(~release.has_rule)" in text) == bool(free)
    for text in (printed, page, (tmp_path / "report.json").read_text(encoding="utf-8")):
        assert "unbiased" not in text.lower()
        assert "exact" not in text.lower()
        assert "large" in text
    assert main(["analyze", str(table), "--method", "asymptotic"]) == 2
    assert "conditional on the publishing rule" in capsys.readouterr().err
