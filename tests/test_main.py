"""The command line prints answers, writes whole files, and says in one line what is wrong."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dpinfer
from dpinfer import Laplace, Release, combine, datasets, write_release
from dpinfer.__main__ import main
from dpinfer.calibration import Certificate, Certificates, LibraryCertificates

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


def test_names_are_no_orders_to_the_terminal(capsys, tmp_path):
    odd = tmp_path / "a\x1b[2J\n.csv"
    write_release(Release([30.5], mechanism=Laplace(scale=2.0)), odd)
    assert main(["validate", str(odd)]) == 0
    assert capsys.readouterr().out == "a\\x1b[2J .csv: valid\n"
    odd.write_text(odd.read_text(encoding="utf-8").replace("30.5", "many"), encoding="utf-8")
    assert main(["validate", str(odd)]) == 2
    assert capsys.readouterr().err.replace("\n", "").isprintable()


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
        (["analyze", ""], "path must end in .csv"),
        (["analyze", "."], "path must end in .csv"),
        (["analyze", f"{'x' * 300}.csv"], "existing file"),
        (["analyze", EMBEDDED, "--metadata", ""], "metadata must be"),
        (["analyze", EMBEDDED, "--metadata", "/dev/zero"], "/dev/zero"),
        (["analyze", "--output", "a.csv", "--output", "./a.csv"], "another file each time"),
        (["validate", ""], "path must end in .csv"),
        (["validate", EMBEDDED, "--metadata", "."], "metadata must be"),
        (["validate", "two\nlines.csv"], "two lines.csv"),
        (["certify", "--seed", "-1"], "rng must be"),
        (["certify", "--jobs", "0"], "n_jobs must be >= 1"),
        (["certify", "--jobs", "9" * 400], "n_jobs must be <= 1024"),
        (["certify", "--output", "certificates.xlsx"], "output must end in one of .json, .csv"),
        (["certify", "--output", "no/such/folder/a.csv"], "existing folder"),
        (["certify", "--output", f"no/{'x' * 300}/a.csv"], "existing folder"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(capsys, arguments, words):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.startswith("dpinfer: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["analyse"],
        ["analyze", "--alpha", "x"],
        ["analyze", "--seed", "1.5"],
        ["analyze", "--seed", "1" * 5000],
        ["analyze", "--method", "best"],
        ["analyze", "a.csv", "b.csv"],
        ["analyze", "--output"],
        ["validate"],
        ["validate", "a.csv", "--alpha", "0.1"],
        ["certify", "--grid", "huge"],
        ["certify", "--jobs", "many"],
        ["certify", "a.csv"],
    ],
)
def test_wrong_usage_is_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error:" in captured.err
    assert len(captured.err) < 8000


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


@pytest.mark.parametrize("name", ["counts.csv", "./counts.csv", "counts.csv-metadata.json"])
def test_a_report_does_not_overwrite_the_release(release_file, capsys, monkeypatch, name):
    monkeypatch.chdir(release_file.parent)
    before = {path: path.read_bytes() for path in release_file.parent.iterdir()}
    assert main(["analyze", "counts.csv", "--output", name]) == 2
    assert "must not be a file of the release" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in release_file.parent.iterdir()} == before


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


REPORTS = ["report.html", "report.csv", "report.json", "report.parquet"]


@pytest.mark.parametrize("failing", range(len(REPORTS)))
def test_no_report_is_left_when_one_cannot_be_made(tmp_path, capsys, monkeypatch, failing):
    from dpinfer.reporting import report as writing

    def half(analysis, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(writing.WRITERS, f".{REPORTS[failing].split('.')[1]}", half)
    for name in REPORTS[:2]:
        (tmp_path / name).write_text("the report of yesterday", encoding="utf-8")
    before = _files(tmp_path)
    outputs = [part for name in REPORTS for part in ("--output", str(tmp_path / name))]
    assert main(["analyze", EMBEDDED, *outputs]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert _files(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == len(before)


def test_no_report_is_left_when_it_is_interrupted(tmp_path, monkeypatch):
    from dpinfer.reporting import report as writing

    def interrupted(analysis, path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setitem(writing.WRITERS, ".json", interrupted)
    outputs = ["--output", str(tmp_path / "a.csv"), "--output", str(tmp_path / "a.json")]
    with pytest.raises(KeyboardInterrupt):
        main(["analyze", EMBEDDED, *outputs])
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path, capsys, monkeypatch):
    def refuse(source, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    assert main(["analyze", EMBEDDED, "--output", str(tmp_path / "report.csv")]) == 2
    assert "output must be writable" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def _certificates(monkeypatch, error_rate):
    """Put ready certificates in the place of those that take long to make."""
    one = Certificate(
        procedure="a test",
        kind="size",
        alpha=0.05,
        labels=("",),
        error_rate=np.array([error_rate]),
        reps=np.array([0]),
        exact=True,
    )
    made = LibraryCertificates(*[Certificates([one])] * 3)
    monkeypatch.setattr("dpinfer.calibration.certify_library", lambda *_, **__: made)
    return made


def test_certificates_that_cannot_be_written_leave_nothing_behind(tmp_path, capsys, monkeypatch):
    _certificates(monkeypatch, 0.05)
    held = tmp_path / "held.json"
    held.write_text("yesterday", encoding="utf-8")
    long = tmp_path / f"{'x' * 300}.csv"
    assert main(["certify", "--output", str(long)]) == 2
    assert "output must be writable" in capsys.readouterr().err
    assert main(["certify", "--output", str(tmp_path / "a\x00.csv")]) == 2
    assert "output must be writable" in capsys.readouterr().err

    def half(self, text, **_):
        self.write_bytes(text.encode()[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", half)
    assert main(["certify", "--output", str(held)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert _files(tmp_path) == {"held.json": b"yesterday"}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("error_rate", "verdict", "status"), [(0.05, "holds", 0), (0.2, "fails", 2)]
)
def test_certificates_are_printed_and_written_whatever_they_say(
    tmp_path, capsys, monkeypatch, error_rate, verdict, status
):
    made = _certificates(monkeypatch, error_rate)
    table, document = tmp_path / "a.csv", tmp_path / "a.json"
    assert main(["certify", "--output", str(table), "--output", str(document)]) == status
    assert capsys.readouterr().out == f"{made}\n"
    assert json.loads(document.read_text(encoding="utf-8"))["verdict"] == verdict
    assert pd.read_csv(table)["rate"].tolist() == [error_rate] * 3


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"dpinfer {dpinfer.__version__}\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_an_output_that_fails_is_one_line_without_a_traceback(release_file, capsys, monkeypatch):
    report = release_file.parent / "report.csv"
    arguments = ["analyze", str(release_file), "--output", str(report)]
    with open("/dev/full", "w", encoding="utf-8") as full:
        # by a process of its own, as Python writes what is left once more when it ends
        ended = subprocess.run(
            [sys.executable, "-m", "dpinfer", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert ended.returncode == 2
        assert ended.stderr.startswith("dpinfer: the output must be writable: ")
        assert ended.stderr.count("\n") == 1
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", full)
            assert main(arguments) == 2
    assert "No space left on device" in capsys.readouterr().err


def test_who_stops_reading_ends_it_quietly(release_file, capsys, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as pipe, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", pipe)
        assert main(["validate", str(release_file)]) == 0
    assert capsys.readouterr().err == ""


def test_without_an_output_the_reports_are_written(release_file, monkeypatch):
    report = release_file.parent / "report.csv"
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["analyze", str(release_file), "--output", str(report)]) == 0
    assert len(pd.read_csv(report)) == 3


def test_letters_that_the_terminal_does_not_have_are_escaped(tmp_path, monkeypatch):
    table = tmp_path / "counts.csv"
    write_release(Release([3.0], labels=["Ω"], mechanism=Laplace(scale=2.0)), table)
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(["analyze", str(table)]) == 0
        assert b"\\u03a9" in terminal.buffer.getvalue()
