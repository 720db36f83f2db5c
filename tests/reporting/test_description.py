"""A published table gets its sidecar from options, from answers and from its own columns."""

import io
import json
import os
import sys

import pytest

from dpinfer import DiscreteGaussian, Geometric, Laplace, read_release
from dpinfer.__main__ import main
from dpinfer.mechanisms import Rounded

COUNTS = "state,fips,year,noisy_count\nAL,01001,2020,12\nAL,01002,2020,15\nAK,02001,2020,-1\n"
COLUMNS = (
    "country,views,law,noise_scale,release_threshold\n"
    "PL,506,discrete_laplace,30,450\nFR,968,geometric,30,\n"
)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS)
    return path


def answer(monkeypatch, *texts):
    """Sit at a terminal and give these answers; return what was asked."""
    asked, left = [], list(texts)

    def one(question):
        asked.append(question)
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("builtins.input", one)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    return asked


def test_options_and_columns_make_a_release(table, capsys):
    options = ["--mechanism", "geometric", "--epsilon", "0.5", "--sensitivity", "3"]
    assert main(["init", "counts.csv", *options, "--unit", "person", "--name", "births"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("counts.csv-metadata.json: written, valid with counts.csv\n")
    assert said.endswith("Next: dpinfer explain counts.csv\n")
    release = read_release(table)
    assert release.mechanism == Geometric(scale=6.0)
    assert list(release.labels.names) == ["state", "fips", "year"]
    assert release.labels[0] == ("AL", "01001", 2020)  # a code, and a number
    assert (release.unit, release.sensitivity, release.name) == ("person", 3.0, "births")


def test_columns_may_say_everything(table, capsys):
    table.write_text(COLUMNS)
    assert main(["init", "counts.csv"]) == 0
    release = read_release(table)
    assert release.values.tolist() == [506, 968]
    assert release.variance.tolist() == [Geometric(scale=30.0).variance] * 2
    assert release.threshold.tolist() == [450, -float("inf")]
    assert release.labels.to_list() == ["PL", "FR"]


def test_a_size_of_another_law_is_pointed_to(table, capsys):
    table.write_text(COLUMNS.replace("geometric", "discrete_gaussian"))
    assert main(["init", "counts.csv"]) == 2
    said = capsys.readouterr().err
    assert "or --sigma, as --sigma noise_scale if that column holds it" in said
    assert main(["init", "counts.csv", "--sigma", "noise_scale"]) == 0
    law = read_release(table).mechanism
    assert law.variance.tolist() == [Geometric(scale=30.0).variance, 900.0]


def test_rounding_before_the_noise_is_described(table, capsys):
    options = ["--mechanism", "geometric", "--scale", "2", "--bin-size", "5"]
    assert main(["init", "counts.csv", *options]) == 0
    assert read_release(table).bin_size == 5
    assert main(["init", "counts.csv", *options[:-1], "0.5", "--force"]) == 2
    assert "bin_size must be >= 1, got 0.5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--mechanism, one of laplace"),
        (["--mechanism", "laplace"], "--epsilon with --sensitivity or --scale; --rounding yes"),
        (
            ["--mechanism", "gaussian"],
            "--rho with --sensitivity or --mu with --sens",
        ),
        (["--mechanism", "geometric", "--epsilon", "1"], "--sensitivity, with --epsilon: how far"),
        (["--mechanism", "cauchy"], "mechanism must be one of"),
        (["--mechanism", "state"], "mechanism must be named in every cell of 'state'"),
        (["--value", "state"], "value must be a column of numbers of counts.csv"),
        (["--value", "count"], "got 'count'"),
        (["--labels", "state,sex"], "labels must be a column of counts.csv"),
        (["--scale", "0"], "scale must be > 0, got 0"),
        (["--scale", "state"], "scale, if it is no number, must be a column of numbers"),
        (["--epsilon", "nan"], "epsilon"),
        (["--epsilon", "x"], "epsilon must be a number, got 'x'"),
        (["--rounding", "maybe"], "rounding must be yes, no or a step"),
        (["--neighbours", "bounded"], "neighbours must be add-remove or replace"),
    ],
)
def test_what_is_missing_or_wrong_is_said_and_nothing_written(table, capsys, options, words):
    assert main(["init", "counts.csv", *options]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert os.listdir() == ["counts.csv"]


def test_what_does_not_fit_the_table_is_not_written(table, capsys):
    options = ["--mechanism", "geometric", "--scale", "2", "--threshold", "5", "--labels", "state"]
    assert main(["init", "counts.csv", *options]) == 2
    said = capsys.readouterr().err
    assert "line 4, column noisy_count: must not be below its threshold, got '-1'" in said
    assert "line 3, column state: must not repeat the labels" in said
    assert os.listdir() == ["counts.csv"]


def test_a_sidecar_is_not_overwritten_unless_forced(table, capsys):
    options = ["init", "counts.csv", "--mechanism", "geometric", "--scale"]
    assert main([*options, "2"]) == 0
    assert main([*options, "3"]) == 2
    assert "--force" in capsys.readouterr().err
    assert read_release(table).mechanism == Geometric(scale=2.0)
    assert main([*options, "3", "--force"]) == 0
    assert read_release(table).mechanism == Geometric(scale=3.0)
    assert main([*options, "4", "--metadata", "other.json"]) == 0
    assert read_release(table, "other.json").mechanism == Geometric(scale=4.0)


def test_questions_at_a_terminal(table, capsys, monkeypatch):
    answers = ["", "state,fips", "lap", "laplace", "", "2.5", "yes", "", "", "household", ""]
    asked = answer(monkeypatch, *answers)
    assert main(["init", "counts.csv"]) == 0
    assert asked[0] == "Which column holds the noisy values [noisy_count]: "
    assert asked[1].endswith(" [state,fips,year]: ")
    assert len(asked) == len(answers)
    said = capsys.readouterr().out
    assert "mechanism must be one of" in said  # and was asked again
    release = read_release(table)
    assert release.mechanism == Rounded(Laplace(scale=2.5))
    assert (release.unit, release.neighbours, release.threshold) == ("household", None, None)
    # the options that are printed do the same
    [command] = [line for line in said.splitlines() if line.startswith("Without questions: ")]
    before = (table.parent / "counts.csv-metadata.json").read_text()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert main([*command.removeprefix("Without questions: dpinfer ").split(), "--force"]) == 0
    assert (table.parent / "counts.csv-metadata.json").read_text() == before


def test_an_empty_answer_to_what_is_needed_is_told_why(table, capsys, monkeypatch):
    table.write_text("who,what\na,1\nb,2\n")
    answers = ["", "gaussian", "", "", "", "", "1", "", "2", "", "no", "", "5", "", ""]
    asked = answer(monkeypatch, *answers)
    assert main(["init", "counts.csv", "--value", "what", "--labels", "who"]) == 0
    assert len(asked) == len(answers)
    said = capsys.readouterr().out
    for why in (
        "the law of the noise is needed, as every interval comes from it",
        "one of rho, mu, sigma is needed: how large the noise is",
        "it is needed, as the size of the noise",
        "yes, no or a step is needed, as rounding is an error of its own",
    ):
        assert said.count(why) == 1
    assert read_release(table).bin_size == 5.0


def test_a_key_that_stops_writes_nothing(table, capsys, monkeypatch):
    answer(monkeypatch)

    def stop(question):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", stop)
    assert main(["init", "counts.csv"]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert os.listdir() == ["counts.csv"]


def test_a_budget_is_asked_for_with_its_sensitivity(table, capsys, monkeypatch):
    answer(monkeypatch, "discrete_gaussian", "0.5", "", "2", "", "", "", "add-remove")
    assert main(["init", "counts.csv", "--value", "noisy_count", "--labels", "fips"]) == 0
    assert read_release(table).mechanism == DiscreteGaussian(sigma=2.0)
    sidecar = json.loads((table.parent / "counts.csv-metadata.json").read_text())
    assert sidecar["schema"]["primaryKey"] == ["fips"]


def test_whoever_leaves_leaves_nothing(table, capsys, monkeypatch):
    answer(monkeypatch, "noisy_count", "state")
    assert main(["init", "counts.csv"]) == 2
    assert "not all questions were answered" in capsys.readouterr().err
    assert os.listdir() == ["counts.csv"]


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "Empty CSV file"), ("a,b\n", "at least one row"), ("a,b\nx,y\n", "--value COLUMN")],
)
def test_tables_without_values(table, capsys, content, words):
    table.write_text(content)
    assert main(["init", "counts.csv"]) == 2
    assert words in capsys.readouterr().err


def test_steps_ways_and_clamps_are_described(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("site,day,n\nA,1,10\nA,2,25\nB,1,0\nB,2,40\n", "utf-8")
    options = "--mechanism laplace --scale 4 --rounding 5,down --clamp 0,40 --bin-size 4,nearest"
    assert main(["init", "t.csv", "--labels", "site,day", *options.split()]) == 0
    release = read_release("t.csv")
    assert (release.rounding, release.clamp) == ((5.0, "down"), (0.0, 40.0))
    assert (release.bin_size, release.bin_rounding) == (4.0, "nearest")
    said = capsys.readouterr().out
    assert "4,nearest" in said
    assert "0,40" in said
    assert main(["explain", "t.csv"]) == 0
    said = capsys.readouterr().out
    assert "rounded down to multiples of 5." in said
    assert "rounded to the nearest multiples of 4 before the noise" in said
    for wrong, words in (
        (["--rounding", "5,sideways"], "with nearest, down, up, toward zero after a comma"),
        (["--clamp", "1,2,3"], "clamp must be a lower bound, or lower,upper"),
    ):
        assert main(["init", "t.csv", "--force", "--mechanism", "laplace", *wrong]) != 0
        assert words in capsys.readouterr().err
