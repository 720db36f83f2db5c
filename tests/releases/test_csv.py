"""CSV files are read and written with PyArrow as without it."""

import copy
import gzip
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer import read_release
from dpinfer.__main__ import main
from dpinfer.errors import DPInferError, IncompatibleReleaseError

LAPLACE = dpi.Laplace(scale=2.0)
NOISY = {"name": "v", "privacy": {"mechanism": "laplace", "scale": 2.0}}


def place(folder, table, keys=("k",), kind="string", name="t.csv"):
    fields = [{"name": key, "type": kind} for key in keys] + [NOISY]
    sidecar = {"schema": {"fields": fields, "primaryKey": list(keys)}}
    path = folder / name
    path.write_bytes(table.encode() if isinstance(table, str) else table)
    (folder / f"{name}-metadata.json").write_text(json.dumps(sidecar))
    return path


@pytest.fixture(params=["with PyArrow", "without"])
def _route(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("_route")
@pytest.mark.parametrize(
    ("table", "labels"),
    [
        ("k,v\n01,1\n1,2\n", ["01", "1"]),  # texts are no numbers
        ("k,v\ntrue,1\nfalse,2\n", ["true", "false"]),
        ('k,v\n"a,b",1\n"say ""x""",2\n', ["a,b", 'say "x"']),
        ('k,v\n"two\nlines",1\n"a\r\nb",2\n', ["two\nlines", "a\r\nb"]),
        ('k,v\na"b"c,1\n5" pipe,2\n', ['a"b"c', '5" pipe']),
        ('k,v\na"b,1\nc"d,2\n', ['a"b', 'c"d']),
        ("k,v\na,1\n\n\nb,2\n\n", ["a", "b"]),
        ("k,v\r\na,1\r\nb,2", ["a", "b"]),
        ("k,v\ra,1\rb,2\r", ["a", "b"]),
        ("\ufeffk,v\na,1\nb,2\n", ["a", "b"]),
        ("other,v,k,more\nx,1,a,\nx,2,b,\n", ["a", "b"]),
        ("k,v\nNA,1\nnull,2\n", ["NA", "null"]),
    ],
)
def test_labels_are_read_as_they_stand(tmp_path, table, labels):
    release = dpi.read_release(place(tmp_path, table))
    assert release.labels.to_list() == labels
    assert release.values.tolist() == [1, 2]


@pytest.mark.usefixtures("_route")
@pytest.mark.parametrize("cell", ["nan", "NaN", "+", "1_0", "0x1p3", "1,5"])
def test_what_is_no_number(tmp_path, cell):
    with pytest.raises(DPInferError, match="line 2"):
        dpi.read_release(place(tmp_path, f"k,v\na,{cell}\n"))


@pytest.mark.usefixtures("_route")
@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("v,k\n1,a\n2\n", 3),  # would sum over k
        ("k,v\na,1\nb,2,3\n", 3),
        ("k,v\na,1\nb,2,\n", 3),
        ("k,v\na,1,,9\nb,2\n", 2),
        ("k,v\n\na,1\nb\nc,3", 4),
        ('k,v\n"x\ny",1\n"b,2"\n', 4),
        ("k,v\na,1\nb", 3),
    ],
)
def test_rows_of_other_lengths_are_found(tmp_path, table, line):
    path = place(tmp_path, table)
    with pytest.raises(DPInferError, match=rf"t\.csv, line {line}: must have 2 cells, got"):
        dpi.read_release(path)
    [problem] = dpi.releases.validate_release(path)
    assert problem.line == line


def test_a_short_row_far_below(tmp_path):
    """Beyond the first 16 MB, of which the lines are listed."""
    rows = "".join(f"{row:0199},{row}\n" for row in range(90_000))
    path = place(tmp_path, f"k,v\n{rows}short\n")
    with pytest.raises(DPInferError, match="line 90002: must have 2 cells, got 1"):
        dpi.read_release(path)


@pytest.mark.parametrize(
    ("kind", "cells", "labels"),
    [
        ("integer", ["1", "01", "", "-3"], [1, 1, "*", -3]),
        ("number", ["0.5", "1e3", "", "-0"], [0.5, 1000.0, "*", 0.0]),
        ("boolean", ["true", "False", "", "1"], [True, False, "*", True]),
    ],
)
def test_labels_of_other_types(tmp_path, kind, cells, labels):
    rows = "".join(f"{row},{cell},{row}\n" for row, cell in enumerate(cells))
    path = place(tmp_path, f"j,k,v\n{rows}", ("j", "k"))
    sidecar = path.with_name("t.csv-metadata.json")
    content = json.loads(sidecar.read_text())
    content["schema"]["fields"][1]["type"] = kind
    sidecar.write_text(json.dumps(content))
    assert dpi.read_release(path).labels.get_level_values("k").to_list() == labels


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(CELL, min_size=1, max_size=6, unique=True), st.data())
def test_what_is_written_is_read_here_and_by_pyarrow(tmp_path_factory, labels, data):
    numbers = st.floats(-1e15, 1e15, allow_nan=False)
    values = data.draw(st.lists(numbers, min_size=len(labels), max_size=len(labels)))
    path = tmp_path_factory.getbasetemp() / "any.csv"
    index = pd.Index(labels, name="k")
    dpi.write_release(dpi.Release(values, mechanism=LAPLACE, labels=index), path)
    back = dpi.read_release(path)
    assert back.values.tolist() == values
    assert back.labels.to_list() == [label if label != "*" else "*" for label in labels]
    csv = pytest.importorskip("pyarrow.csv", reason="the extra [parquet] is not installed")
    import pyarrow as pa

    options = csv.ConvertOptions(
        column_types={"k": pa.string(), "value": pa.float64()},
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    table = csv.read_csv(path, parse_options=parse, convert_options=options)
    assert table["value"].to_pylist() == values
    assert [label or "*" for label in table["k"].to_pylist()] == labels


def test_numbers_to_the_last_digit(tmp_path):
    rng = np.random.default_rng(4)
    values = np.append(rng.normal(size=50_000) * 10.0 ** rng.integers(-14, 14, 50_000), 5e-324)
    path = tmp_path / "t.csv.gz"
    dpi.write_release(dpi.Release(values, mechanism=LAPLACE), path)
    np.testing.assert_array_equal(dpi.read_release(path).values, values)
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert [float(line) for line in lines[1:]] == values.tolist()


WITHOUT = """
import sys
sys.modules["pyarrow"] = None  # as where it is not installed
import dpinfer as dpi
from dpinfer.__main__ import main

path, table = sys.argv[1:]
assert main(["analyze", path, "--output", f"{path}.html"]) == 0
release = dpi.read_release(path)
dpi.write_release(release, f"{path}.gz.csv.gz")
assert dpi.read_release(f"{path}.gz.csv.gz").values.tolist() == release.values.tolist()
calls = [
    lambda: dpi.write_release(release, table),
    lambda: dpi.read_release(table),
    lambda: dpi.releases.validate_release(table),
    lambda: main(["analyze", path, "--output", table]),
    lambda: dpi.estimation.write_marginals_parquet("parts", "a", None, []),
    lambda: dpi.releases.census.write_census_measurements("files", None),
]
for call in calls:
    try:
        status = call()
    except dpi.errors.MissingExtraError as error:
        assert "pip install 'dpinfer[parquet]'" in str(error), error
    else:
        assert status == 2, status
"""


def test_without_pyarrow(tmp_path):
    path, table = tmp_path / "t.csv", tmp_path / "t.parquet"
    place(tmp_path, "k,v\na,1.5\nb,2\n")
    place(tmp_path, b"PAR1", name="t.parquet")
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path), str(table)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


ROWS = 'name,dp_count\n"a",1.5\n"b",2.25\n'


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("\ufeff" + ROWS, ["a", "b"]),
        (ROWS.replace("\n", "\r\n"), ["a", "b"]),
        ("\ufeff" + ROWS.replace("\n", "\r\n").replace('"a"', '"a\r\nx"'), ["a\r\nx", "b"]),
        (ROWS.replace('"a"', '"a\nx"'), ["a\nx", "b"]),
        (ROWS.replace('"a"', '"a,""x"""'), ['a,"x"', "b"]),
        (ROWS.replace("1.5", " 1.5 "), ["a", "b"]),
        (ROWS.replace("\n", "\n\n"), ["a", "b"]),
    ],
)
def test_files_of_other_programs_are_read(tmp_path, text, labels):
    table = tmp_path / "counts.csv"
    table.write_bytes(text.encode())
    command = ["init", str(table), "--mechanism", "laplace", "--scale", "2"]
    assert main(command) == 0
    release = read_release(table)
    assert release.values.tolist() == [1.5, 2.25]
    assert release.labels.tolist() == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROWS.replace(",", ";"), "line 1: must have commas between cells.* got semicolons"),
        ("name;dp_count\na;1,5\n", "line 1: must have commas between cells.* got semicolons"),
        (ROWS.replace(",", "\t"), "line 1: must have commas between cells.* got tabs"),
        ("name,dp_count\na,1,5\n", "line 2: must have 2 cells, got 3"),
        ('name,dp_count\na,"1,5"\n', "dp_count: must be a finite number without commas.*'1,5'"),
        ('name,dp_count\na,"1,234.5"\n', "finite number without commas.*'1,234.5'"),
        ("name,dp_count\na,inf\n", "must be a finite number, got 'inf'"),
        ("name,dp_count\na,15%\n", "must be a finite number, got '15%'"),
        ("# mine\nname,dp_count\na,1.5\n", "line 2: must have 1 cells, got 2"),
        ('name,dp_count\n"a,1.5\n', "line 2: must have 2 cells, got 1"),
        ("name,dp_count\n", "at least one row"),
    ],
)
def test_files_that_cannot_be_read_are_refused_with_their_line(tmp_path, capsys, text, message):
    table = tmp_path / "counts.csv"
    table.write_bytes(text.encode())
    privacy = {"mechanism": "laplace", "scale": 2.0}
    fields = [{"name": "name"}, {"name": "dp_count", "type": "number", "privacy": privacy}]
    described = {"path": "counts.csv", "schema": {"fields": fields, "primaryKey": ["name"]}}
    (tmp_path / "counts.csv-metadata.json").write_text(json.dumps(described))
    with pytest.raises(IncompatibleReleaseError, match=message):
        read_release(table)
    assert main(["init", str(table), "--mechanism", "laplace", "--scale", "2", "--force"]) == 2


SIDECAR = {
    "name": "counts",
    "title": "Counts",
    "path": "counts.csv",
    "format_version": "1.0",
    "guarantee": {"epsilon": 1.0},
    "schema": {
        "fields": [
            {"name": "name", "type": "string"},
            {
                "name": "dp_count",
                "type": "number",
                "privacy": {
                    "mechanism": "laplace",
                    "scale": 2.0,
                    "rounded": False,
                    "threshold": 1.0,
                    "bin_size": 1,
                    "sensitivity": 1.0,
                    "neighbours": "add-remove",
                    "unit": "person",
                },
            },
        ],
        "primaryKey": ["name"],
    },
}


def places(held, path=()):
    """Yield the places of all entries of a JSON document."""
    for key, value in held.items() if isinstance(held, dict) else enumerate(held):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


WRONG = [None, True, 3, -1.5, "text", "", [], ["x"], [[1]], {}, {"column": 3}, {"a": {"b": None}}]


@pytest.mark.parametrize(
    "place", list(places(SIDECAR)), ids=lambda place: "-".join(map(str, place))
)
def test_sidecars_with_other_types_are_read_or_refused_in_words(tmp_path, place):
    table = tmp_path / "counts.csv"
    table.write_text(ROWS)
    for wrong in [*WRONG, 10**400, "\ud800"]:
        document = copy.deepcopy(SIDECAR)
        held = document
        for key in place[:-1]:
            held = held[key]
        held[place[-1]] = wrong
        (tmp_path / "counts.csv-metadata.json").write_text(json.dumps(document))
        said = ""
        try:
            found = read_release(table).values.tolist()
        except DPInferError as error:
            said = str(error)
        assert found == [1.5, 2.25] if not said else "counts.csv" in said and len(said) < 600
