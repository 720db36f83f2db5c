import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from dpinfer.results.tables import Table, format_numbers, label_text


def test_every_fact_label_and_number_is_printed():
    text = Table(
        "Title",
        [("Method", "exact"), ("Values", 2), ("Error covered", "noise " * 8)],
        {"estimate": [3.5, -12.25], "note": ["", "empty"]},
        index=["a", ("b", 2)],
        notes=["a remark"],
    ).text()
    for part in ("Title", "Method:", "exact", "Values:", "noise noise", "estimate", "-12.25"):
        assert part in text
    assert "b, 2" in text
    assert text.endswith("  a remark")


def test_lines_have_one_width_and_columns_line_up():
    lines = Table("T", columns={"x": [1.0, 100.0], "longer name": [1, 2]}).text().splitlines()
    rules = {len(line) for line in lines if set(line) <= {"=", "-"}}
    assert rules == {72}
    header, first, second = lines[2], lines[4], lines[5]
    assert header.index("x") == first.index("1.00") + 3
    assert len(header) == len(first) == len(second)


def test_wide_bodies_widen_the_rules():
    lines = Table("T", columns={f"column {i}": [1.0] for i in range(20)}).text().splitlines()
    assert len(lines[1]) == len(lines[2]) > 72


def test_long_bodies_show_both_ends():
    lines = Table("T", columns={"k": np.arange(1000)}, index=range(1000)).text().splitlines()
    assert len([line for line in lines if line.split() and line.split()[-1].isdigit()]) == 60
    assert lines[4].split() == ["0", "0"]
    assert lines[4 + 30] == "... 940 rows left out ..."
    assert lines[-2].split() == ["999", "999"]


def test_only_shown_labels_are_looked_up():
    class Labels:
        def __getitem__(self, position):
            assert position < 30 or position >= 9970
            return f"row {position}"

    assert "row 9999" in Table("T", columns={"k": np.arange(10_000)}, index=Labels()).text()


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([1.0, 2.5], ["1.000", "2.500"]),
        ([0.0, 0.0], ["0.000", "0.000"]),
        ([123456.789], ["123456.79"]),
        ([0.01, 0.5], ["0.0100", "0.5000"]),
        ([1e15, 1.0], ["1.0000e+15", "1.0000e+00"]),
        ([1e-9], ["1.0000e-09"]),
        ([np.inf, 1.0], ["inf", "1.000"]),
        ([-1e-15, 12.5], ["0.00", "12.50"]),
        ([], []),
    ],
)
def test_numbers_of_a_column_share_their_decimals(numbers, expected):
    assert format_numbers(np.array(numbers)) == expected


def test_whole_numbers_have_no_decimals():
    assert format_numbers(np.array([1, 20])) == ["1", "20"]


def test_no_timestamp_so_that_two_renderings_agree():
    assert Table("T", [("a", 1)]).text() == Table("T", [("a", 1)]).text()


def test_columns_of_one_unit_share_their_decimals():
    columns = {"low": [1.5], "high": [120.25], "std_err": [2.0]}
    apart = Table("T", columns=columns).text().splitlines()[4].split()
    alike = Table("T", columns=columns, alike=["low", "high", "absent"]).text().splitlines()[4]
    assert apart == ["1.500", "120.25", "2.000"]
    assert alike.split() == ["1.50", "120.25", "2.000"]


def test_names_of_the_labels_head_their_column():
    index = pd.MultiIndex.from_tuples([("F", 1), ("M", 2)], names=["sex", "age"])
    assert Table("T", columns={"x": [1, 2]}, index=index).text().splitlines()[2].split() == [
        "sex,",
        "age",
        "x",
    ]


def test_notes_stay_within_the_width():
    lines = Table("T", columns={"x": [1]}, notes=["word " * 40]).text().splitlines()
    assert max(map(len, lines)) == 72


def test_orders_to_a_terminal_are_escaped():
    text = Table("T\x1b[2J", columns={"k": [1]}, index=["a\u2028b"], notes=["bell \a"]).text()
    assert text.replace("\n", "").isprintable()
    for shown in (r"T\x1b[2J", r"a\u2028b", r"bell \x07"):
        assert shown in text


def test_no_label_is_an_order_at_the_end_of_a_row_of_latex():
    rows = Table("Counts", (), {"estimate": [1.5, 2.5, 3.5]}, index=["a", "*", "[2cm]"]).latex()
    assert "\\\\\n{*} & 2.500" in rows
    assert "\\\\\n{[}2cm] & 3.500" in rows


def test_further_tables_have_brackets_too():
    ends = {"ci_lower": [1.5], "ci_upper": [2.5]}
    both = Table("One", (), ends, level=0.9, after=Table("Other", (), ends, level=0.9))
    for text in (both.markdown(brackets=True), both.latex(brackets=True)):
        assert text.count("[1.500, 2.500") == 2


def test_labels_of_several_parts_are_joined_and_days_have_no_time():
    assert label_text(("a", 1)) == "a, 1"
    assert label_text(2.5) == "2.5"
    assert label_text(pd.Timestamp("2020-01-06")) == "2020-01-06"
    assert label_text(("a", pd.Timestamp("2020-01-06 07:30"))) == "a, 2020-01-06 07:30:00"
    week = pd.date_range("2020-01-06", periods=2, name="week")
    shown = Table("", (), {"x": [1, 2]}, index=week)
    assert "00:00" not in shown.text() + shown.latex() + shown.markdown() + shown.html()


SPECIAL = ["100 %", "a_b", "R&D", "#1", "Zürich, é", "≥ 5", "≤ 3 µg", "{x}", "$5", "x^2~y", "\\"]
SPECIAL += ["[0, 5)", "*", "“quoted”", "5 €", "«n»", "№ 4", "α and β", "x → y", "½ ‰ …", "l’été"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_of_all_letters_compiles(tmp_path):
    size = len(SPECIAL)
    table = Table(
        "Counts & shares of 100 % — “all”",
        [("Noise_law", "ε = 1 ≥ 0")],
        {"estimate": np.arange(size) * 1e5 - 1.5, "ci_lower": np.full(size, -np.inf)}
        | {"ci_upper": np.full(size, 3.5)},
        index=pd.Index(SPECIAL, name="name_of #"),
        notes=["≥ 5 % of R&D", *SPECIAL],
        level=0.95,
    )
    for brackets in (False, True):
        text = table.latex(caption="50 % & more_of #é", label="tab:a_b", brackets=brackets)
        head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
        (tmp_path / "page.tex").write_text(rf"{head}{text}\end{{document}}", encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-600:]
