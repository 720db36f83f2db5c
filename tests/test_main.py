"""The command line prints answers, writes whole files, and says in one line what is wrong."""

import json
import os

import pandas as pd
import pytest

from dpinfer import Laplace, Release, combine, datasets, write_release
from dpinfer.__main__ import main

EMBEDDED = str(datasets.anes96_path())


@pytest.fixture
def release_file(tmp_path):
    table = pd.Series([30.5, 28.9], pd.Index(["F", "M"], name="<sex>"))
    release = Release.from_tables([table, 61.2], mechanism=Laplace(scale=2.0), name="a & b")
    path = tmp_path / "counts.csv"
    write_release(release, path)
    return path


def test_analyze_without_arguments_runs_the_embedded_release(capsys):
    assert main(["analyze"]) == 0
    printed = capsys.readouterr().out
    assert "Combined estimates" in printed
    assert "Consistency of a release" in printed
    assert "inference on the confidential values" in printed


def test_analyze_prints_the_estimates_of_combine(capsys, release_file):
    assert main(["analyze", str(release_file), "--alpha", "0.1"]) == 0
    printed = capsys.readouterr().out
    assert "0.9, exact" in printed
    release = Release(
        [30.5, 28.9, 61.2], workload=[[1, 0], [0, 1], [1, 1]], mechanism=Laplace(scale=2.0)
    )
    for estimate in combine(release).params[:3]:
        assert f"{estimate:.2f}" in printed


def test_the_same_command_prints_the_same_text(capsys):
    main(["analyze", EMBEDDED, "--seed", "3"])
    first = capsys.readouterr().out
    main(["analyze", EMBEDDED, "--seed", "3"])
    assert capsys.readouterr().out == first


def test_reports_hold_the_estimates(tmp_path, capsys):
    for ending in ("csv", "json", "html"):
        assert main(["analyze", EMBEDDED, "--output", str(tmp_path / f"report.{ending}")]) == 0
    fit = combine(datasets.load_anes96().release)
    frame = pd.read_csv(tmp_path / "report.csv")
    assert frame["estimate"].to_numpy() == pytest.approx(fit.params.to_numpy(), abs=1e-9)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    estimates = [row["estimate"] for row in document["estimates"]]
    assert estimates == pytest.approx(list(fit.params), abs=1e-9)
    assert 0 < document["consistency"]["pvalue"] <= 1
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<td>2.256</td>") == len(frame) - 10  # all but sums over an attribute
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.csv",
        "report.html",
        "report.json",
    ]


def test_labels_are_escaped_in_html(tmp_path, release_file, capsys):
    report = tmp_path / "report.html"
    assert main(["analyze", str(release_file), "--output", str(report)]) == 0
    page = report.read_text(encoding="utf-8")
    assert "a &amp; b" in page
    assert "&lt;sex&gt;" in page
    assert "<sex>" not in page


def test_validate(capsys, release_file):
    assert main(["validate", str(release_file)]) == 0
    assert capsys.readouterr().out == "counts.csv: valid\n"


def test_validate_lists_every_problem_with_its_line(capsys, release_file):
    release_file.write_text(release_file.read_text(encoding="utf-8").replace("30.5", "many"))
    assert main(["validate", str(release_file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "counts.csv, line 2, column value" in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze", "no_such_file.csv"], "no_such_file.csv"),
        (["validate", "no_such_file.csv"], "no_such_file.csv"),
        (["analyze", EMBEDDED, "--metadata", "none.json"], "none.json"),
        (["analyze", EMBEDDED, "--metadata", EMBEDDED], "anes96.csv"),
        (["analyze", "--alpha", "1.5"], "alpha must be < 1, got 1.5"),
        (["analyze", "--alpha", "nan"], "alpha"),
        (["analyze", "--seed", "-1"], "rng must be"),
        (["analyze", "--output", "report.docx"], "output must end in one of .html, .csv, .json"),
        (["analyze", "--output", "no/such/folder/report.csv"], "existing folder"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(capsys, arguments, words):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.startswith("dpinfer: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["analyse"], ["analyze", "--alpha", "x"], ["validate"]])
def test_wrong_usage_is_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_small_shares_keep_their_digits_in_html(tmp_path, capsys):
    table, report = tmp_path / "shares.csv", tmp_path / "report.html"
    write_release(Release([0.0123, 0.4], mechanism=Laplace(scale=0.001)), table)
    assert main(["analyze", str(table), "--output", str(report)]) == 0
    assert "<td>0.0123</td>" in report.read_text(encoding="utf-8")


def test_neither_pipes_nor_endless_names_are_opened(tmp_path, capsys):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path / f"{'x' * 300}.csv"):
        assert main(["validate", str(path)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_report_does_not_overwrite_the_release(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("n\n3\n", encoding="utf-8")
    assert main(["analyze", str(table), "--output", str(table)]) == 2
    assert "must not be a file of the release" in capsys.readouterr().err
    assert table.read_text(encoding="utf-8") == "n\n3\n"
