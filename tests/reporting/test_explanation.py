"""What a release is in plain words, and what of it the command line analyzes."""

import io
import json
import re
import sys
from math import exp

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import datasets
from dpinfer.__main__ import STATUS, main
from dpinfer.privacy import PureDP, max_power, pbdp_epsilon
from dpinfer.reporting.explanation import explanation

DAYS = pd.MultiIndex.from_product([["DE", "FR"], [1, 2, 3]], names=["country", "day"])
VIEWS = pd.Series([12.0, 9, 30, 28, 41, 7], index=DAYS)


def words(release):
    return " ".join(explanation(release).split())


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release = dpi.Release(VIEWS, mechanism=dpi.Geometric(scale=2.0), name="views")
    dpi.write_release(release, tmp_path / "views.csv")
    return "views.csv"


def printed(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_the_embedded_release_in_words(capsys):
    said = " ".join(printed(capsys, "explain").split())
    assert "anes96: 28 values, by education, party and vote. 10 of them are sums" in said
    assert "Geometric noise of scale 2 on 18 values: the standard deviation is 2.799" in said
    assert "Discrete Gaussian noise of sigma 2.236 on 6 values" in said
    assert "1 value was published without any noise" in said
    assert "Guarantee: ρ = 0.825 for replacing one respondent by another." in said
    guarantee = dpi.ZCDP(0.825, neighbours="replace")
    assert f"finds at most {100 * max_power(guarantee, 0.05):.3g}%" in said
    assert f"more than {exp(pbdp_epsilon(guarantee, 0.01)):.4g} with" in said


@pytest.mark.parametrize(
    "law", [dpi.Laplace(scale=3.0), dpi.Geometric(scale=3.0), dpi.DiscreteGaussian(sigma=3.0)]
)
def test_so_many_errors_are_within_what_is_said(law):
    said = words(dpi.Release([0.0, 100.0], mechanism=law, clamp=(None, 1e6)))
    reach = float(re.search(r"errors are within ±([\d.]+\d|\d)", said).group(1))
    errors = law.rvs(100_000, rng=1)
    # the share has a standard deviation below 0.0007: off by 6 of them with a chance below 1e-8
    assert np.mean(np.abs(errors) <= reach * 1.001) > 0.95 - 6 * 0.0007
    assert np.mean(np.abs(errors) < reach * 0.999) < 0.95 + 6 * 0.0007


def test_odds_under_a_pure_guarantee_are_those_of_the_worst_output():
    law = dpi.Geometric(scale=2.0)
    said = words(dpi.Release([3, 4], mechanism=law, sensitivity=1.0, unit="person"))
    assert "Guarantee: ε = 0.5 from the noise and the stated sensitivity, for adding" in said
    outputs = np.arange(-60, 60)
    odds = law.pmf(outputs) / law.pmf(outputs - 1)
    assert f"a factor of at most {odds.max():.4g}: from 50% to at most" in said
    assert f"to at most {100 * odds.max() / (1 + odds.max()):.3g}%" in said
    assert "The neighbours are not stated, and taken to be add-remove." in said
    # the best test rejects for small outputs: by brute force over all thresholds, randomised
    size, power = law.cdf(outputs - 1.0), law.cdf(outputs * 1.0)
    assert np.interp(0.05, size, power) == pytest.approx(max_power(PureDP(0.5), 0.05), rel=1e-9)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"guarantee": {"epsilon": 1.0, "delta": 1e-6}}, "ε = 1, δ = 1e-06 for adding or removing"),
        ({"guarantee": {"mu": 1.0}, "neighbours": "replace"}, "μ = 1 for replacing one record"),
        ({}, "Neither a guarantee nor a sensitivity"),
        ({"sensitivity": {"l2": 1.0}}, "Neither a guarantee nor a sensitivity"),
        ({"threshold": 5}, "Values below a threshold of 5 were not published"),
        ({"clamp": (0, None)}, "Values beyond a bound were moved to it, up to 0."),
        ({"clamp": (0, 90)}, "up to 0 and down to 90."),
        ({"bin_size": 4}, "rounded up to multiples of 4 before"),
    ],
)
def test_what_is_stated_is_said(details, expected):
    assert expected in words(dpi.Release([8.0, 12], mechanism=dpi.Geometric(scale=2.0), **details))


def test_rounded_and_shared_noise_in_words():
    law = dpi.mechanisms.Rounded(dpi.Laplace(scale=[2.0, 3.0]))
    assert "scale 2 to 3 on 2 values, then rounded to whole" in words(
        dpi.Release([1, 2], mechanism=law)
    )
    shared = dpi.Release([1.5, 2], weights=[[1, 0], [1, 1]], mechanism=dpi.Laplace(scale=1.0))
    assert "Values share 2 noises of the law Laplace(scale=1.0)" in words(shared)


def test_the_main_job_says_what_it_is_and_what_comes_next(capsys):
    said = printed(capsys, "analyze")
    assert said.startswith("No file was named")
    assert "ρ = 0.825 for replacing one respondent by another" in said
    assert f"{datasets.load_anes96().truth.iloc[-1]} respondents" in said
    for head in ("estimate", "std_err", "ci_lower", "ci_upper", "published", "Rank", "Cells"):
        assert head in said.partition("How to read this")[2]
    for command in ("dpinfer explain", "dpinfer init TABLE", "dpinfer analyze TABLE"):
        assert command in said
    assert "How to read" not in printed(capsys, "analyze", str(datasets.anes96_path()))


def test_values_are_chosen_and_summed_by_their_labels(table, capsys):
    rows = pd.read_csv(io.StringIO(printed(capsys, "analyze", table, "--format", "csv")))
    assert len(rows) == 6
    command = ["analyze", table, "--format", "csv", "--by", "country", "--where", "day >= 2"]
    rows = pd.read_csv(io.StringIO(printed(capsys, *command))).set_index("country")
    assert rows["estimate"].to_dict() == pytest.approx({"DE": 39, "FR": 48})
    law = dpi.Geometric(scale=2.0)
    assert rows["std_err"].to_numpy() == pytest.approx(np.sqrt([2 * law.variance] * 2))
    command = ["analyze", table, "--format", "json", "--by", "country, day", "--alpha", "0.1"]
    assert len(json.loads(printed(capsys, *command))["estimates"]) == 6
    command = ["analyze", table, "--format", "csv", "--target", "FR,3", "--target", "DE, 1"]
    rows = pd.read_csv(io.StringIO(printed(capsys, *command)))
    assert rows[["country", "day"]].to_numpy().tolist() == [["FR", 3], ["DE", 1]]
    assert rows["estimate"].tolist() == pytest.approx([7, 12])


def test_targets_may_be_sums_of_cells_that_were_not_published(capsys):
    command = ["analyze", "--format", "json", "--target", "Some college, *, Dole"]
    [row] = json.loads(printed(capsys, *command))["estimates"]
    release = datasets.load_anes96().release
    college = dpi.Workload.from_predicates(
        release.domain, {"dole": {"education": "Some college", "vote": "Dole"}}
    )
    fit = dpi.combine(release, target=college)
    assert row["estimate"] == pytest.approx(float(np.asarray(fit.params)[0]))
    assert row["std_err"] == pytest.approx(float(np.asarray(fit.bse)[0]))


def test_targets_with_a_threshold_are_rows(tmp_path, capsys):
    path = tmp_path / "views.csv"
    dpi.write_release(dpi.Release(VIEWS, mechanism=dpi.Geometric(scale=2.0), threshold=5), path)
    said = printed(capsys, "analyze", str(path), "--format", "csv", "--target", "FR,3")
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("text", "                       Combined"),
        ("csv", '"country","day","estimate"'),
        ("json", "{\n"),
        ("html", "<!doctype html>"),
        ("markdown", "**Combined estimates**"),
        ("latex", "\\begin{table}"),
    ],
)
@pytest.mark.parametrize("details", [{}, {"threshold": 5}], ids=["combined", "by itself"])
def test_formats(tmp_path, capsys, form, begins, details):
    path = tmp_path / "views.csv"
    dpi.write_release(dpi.Release(VIEWS, mechanism=dpi.Geometric(scale=2.0), **details), path)
    said = printed(capsys, "analyze", str(path), "--format", form)
    if form == "json":
        assert len(json.loads(said)["estimates"]) == 6
    elif not details:
        assert said.lstrip().startswith(begins.lstrip())
    for value in ("12", "41"):
        assert value in said


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--where", "views > 3"], "views"),
        (["--where", "day > 9"], "where must be true of at least one label"),
        (["--by", "town"], "town"),
        (["--target", "FR"], "target must have 2 parts with commas between"),
        (["--target", "FR,9"], "there is no '9' among '1', '2', '3'"),
        (["--target", ""], "target must have 2 parts"),
    ],
)
def test_what_cannot_be_chosen_is_said(table, capsys, options, expected):
    assert main(["analyze", table, *options]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


def test_a_bar_is_shown_for_large_tables_on_a_terminal_only(table, capsys, monkeypatch):
    monkeypatch.setattr("dpinfer.__main__.LARGE", 10)
    assert main(["analyze", table]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["analyze", table]) == 0
    captured = capsys.readouterr()
    assert "intervals" in captured.err
    assert "0:00" not in captured.out
    monkeypatch.setattr("dpinfer.__main__.LARGE", 2**20)
    assert main(["analyze", table]) == 0
    assert capsys.readouterr().err == ""


def test_completion_of_commands(capsys):
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    with pytest.raises(SystemExit) as stopped:
        main(["--print-completion", "bash"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    for option in ("analyze", "explain", "--where", "--sensitivity"):
        assert option in said


def test_completion_names_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as stopped:
        main(["--print-completion", "zsh"])
    assert stopped.value.code == 2
    assert "dpinfer[completion]" in capsys.readouterr().err


def test_the_help_says_what_the_exit_status_means(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert STATUS in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unit", "article"),
    [("onion-service", "an"), ("individual", "an"), ("hour", "an"), ("uninsured person", "an")]
    + [(unit, "a") for unit in ("user-day", "person", "household", "unit", "one-off visit")],
)
def test_units_have_their_article(unit, article):
    law = dpi.Geometric(scale=2.0)
    release = dpi.Release([3, 4], mechanism=law, unit=unit, sensitivity=1.0)
    assert f"whether {article} {unit} is in the data" in words(release)


def test_refusals_name_the_option(table, capsys):
    assert main(["analyze", table, "--where", "planet == 'Mars'"]) == 2
    assert capsys.readouterr().err.startswith("dpinfer: where must be about levels of the labels")


def test_whole_numbers_are_printed_as_such(tmp_path, capsys):
    index = pd.MultiIndex.from_product([range(1, 8), ["DE", "FR", "CH"]], names=["week", "country"])
    values = np.random.default_rng(2).integers(1, 20, 21)
    release = dpi.Release(pd.Series(values, index), mechanism=dpi.Geometric(scale=1.0))
    dpi.write_release(release, tmp_path / "views.csv")
    for by in ("country", "week"):
        command = ["analyze", str(tmp_path / "views.csv"), "--by", by, "--format"]
        rows = pd.read_csv(io.StringIO(printed(capsys, *command, "csv")))
        for name in ("estimate", "ci_lower", "ci_upper"):
            assert (rows[name] == rows[name].round()).all()
        for row in json.loads(printed(capsys, *command, "json"))["estimates"]:
            assert len(repr(row["std_err"])) <= 13
