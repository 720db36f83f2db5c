import copy
import gzip
import json
import pickle
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases import read_release, validate_release

SCHEMA = Path(dpinfer.__file__).parent / "releases" / "sidecar.schema.json"
GOOD = "k,v,s\na,1,2\nb,2,3\n"
SIDECAR = {
    "schema": {
        "fields": [
            {"name": "k", "type": "string"},
            {
                "name": "v",
                "type": "number",
                "privacy": {"mechanism": "laplace", "scale": {"column": "s"}},
            },
            {"name": "s", "type": "number"},
        ],
        "primaryKey": "k",
    }
}


def place(folder, table, sidecar=SIDECAR, name="t.csv"):
    path = folder / name
    path.write_bytes(table.encode() if isinstance(table, str) else table)
    text = sidecar if isinstance(sidecar, str) else json.dumps(sidecar, indent=1)
    (folder / f"{name}-metadata.json").write_text(text)
    return path


def changed(change):
    sidecar = copy.deepcopy(SIDECAR)
    change(sidecar)
    return sidecar


def privacy(**entries):
    """A sidecar whose ``privacy`` object has other entries, None to leave one out."""
    sidecar = copy.deepcopy(SIDECAR)
    part = sidecar["schema"]["fields"][1]["privacy"]
    part |= entries
    for key in [key for key, value in part.items() if value is None]:
        del part[key]
    return sidecar


def workload(*, row, cell, coefficient, **entries):
    """A sidecar that lists the coefficients of its queries on two cells."""
    sidecar = privacy(**entries)
    sidecar["workload"] = {"cells": 2, "row": row, "cell": cell, "coefficient": coefficient}
    return sidecar


def check_refused(path, *messages):
    """The first problem is raised on reading; validation lists all, or raises the same."""
    with pytest.raises(DPInferError) as caught:
        read_release(path)
    assert "\n" not in str(caught.value)
    try:
        found = [str(problem) for problem in validate_release(path)]
    except DPInferError as error:
        found = [str(error)]
    assert len(found) == len(messages), found
    for message, problem in zip(messages, found, strict=True):
        assert message in problem
    assert str(caught.value).startswith(found[0])


def check_read_or_refused(path):
    """Reading gives a release without problems, or an error of one line."""
    try:
        read_release(path)
        message = ""
    except DPInferError as error:
        message = str(error)
    assert "\n" not in message
    if not message:
        assert validate_release(path) == []


def test_a_good_file(tmp_path):
    path = place(tmp_path, GOOD)
    assert validate_release(path) == []
    assert len(read_release(str(path))) == 2


@pytest.mark.parametrize(
    ("table", "messages"),
    [
        ("", ["must be a CSV file in UTF-8: Empty CSV file"]),
        ("k,v,s\n", ["must have at least one row"]),
        (b"k,v,s\na,1,2\n\xff,1,2\n", ["t.csv, line 3: must be UTF-8 text"]),
        (bytes(range(256)) * 4, ["must be UTF-8 text"]),
        (b"\x00\x00", ["t.csv must be a CSV file in UTF-8"]),
        (
            "k,v,s\na,x,2\nb,,3\nc,nan,1\nd,inf,1\n",
            [
                "t.csv, line 2, column v: must be a finite number, got 'x'",
                "t.csv, line 3, column v: must be a finite number, got an empty cell",
                "t.csv, line 4, column v: must be a finite number, got 'nan'",
                "t.csv, line 5, column v: must be a finite number, got 'inf'",
            ],
        ),
        ("k,v\na,1\n", ["t.csv, line 1, s: the column is missing, there are: 'k', 'v'"]),
        ("k;v;s\na;1;2\n", ["t.csv, line 1: must have commas between cells, and points"]),
        (
            "k;v;t\na;1;2\n",
            ["line 1: must have commas", "line 1, s: the column is missing, there are: 'k', 'v'"],
        ),
        (
            "k\tv\ts\na\tx\t2\nb\t1,5\t0\nc\t1\n",
            [
                "t.csv, line 1: must have commas between cells, and points in decimals, got tabs",
                "t.csv, line 4: must have 3 cells, got 2",
                "t.csv, line 2, column v: must be a finite number without commas",
                "t.csv, line 3, column v: must be a finite number without commas",
                "t.csv, line 3, column s: must be a scale > 0",
            ],
        ),
        (
            "k,v,s\na,1\nb,x,2\n",
            ["t.csv, line 2: must have 3 cells, got 2", "t.csv, line 3, column v"],
        ),
        ("k,v,s,s\na,1,1,2\n", ["t.csv, line 1, column s: the column is there twice"]),
        (
            "k,v,s\na,1,1\nb,1,1\na,1,2\n",
            ["t.csv, line 4, column k: must not repeat the labels of an earlier row, got 'a'"],
        ),
        (
            "k,v,s\na,1,0\nb,1,-2\nc,1,\nd,1,x\n",
            [f"line {line}, column s: must be a scale > 0" for line in (2, 3, 4, 5)],
        ),
        (
            "k,v,s\n" + "".join(f"{row},?,1\n" for row in range(8)),
            [f"line {line}, column v" for line in range(2, 7)] + ["column v: must be a finite "
             "number, in 3 more rows"],
        ),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path, table, messages):
    check_refused(place(tmp_path, table), *messages)


@pytest.mark.parametrize(
    ("sidecar", "messages"),
    [
        ("{", ["line 1: not JSON"]),
        ("[]", ["line 1, the document: must be an object of format_version, name"]),
        ("null", ["the document: must be an object of format_version, name"]),
        ({}, ['line 1, the document: must have "schema": the columns of the table; such as "sch']),
        (
            privacy(mechanism="cauchy", scale=-1),
            [
                't.csv-metadata.json, line 12, schema/fields/1/privacy/mechanism: must be one of',
                "line 13, schema/fields/1/privacy/scale: must be a number > 0 or",
            ],
        ),
        (privacy(mechanism=3), ["line 12, schema/fields/1/privacy/mechanism: must be one of"]),
        (privacy(scal=1), ["line 16, schema/fields/1/privacy/scal: must be one of mech"]),
        (privacy(scale=None), ["line 11, schema/fields/1/privacy: laplace noise must have a sc"]),
        (
            privacy(scale={"column": "z"}),
            ["line 13, schema/fields/1/privacy/scale: the column 'z' is not among the fields"],
        ),
        (
            privacy(clamp={"lower": {"column": "z"}}),
            ["schema/fields/1/privacy/clamp/lower: the column 'z'"],
        ),
        (privacy(scale={"colum": "s"}), ["privacy/scale: must be a number > 0 or {"]),
        (privacy(neighbours="bounded"), ["privacy/neighbours: must be one of"]),
        (privacy(sensitivity=0), ["privacy/sensitivity: must be a number > 0 or an obj"]),
        (privacy(sensitivity={"l3": 1}), ["privacy/sensitivity: must be a number > 0 or an obj"]),
        (privacy(guarantee={"epsilon": -1}), ["guarantee/epsilon: must be a number >= 0"]),
        (privacy(guarantee={"delta": 2}), ["guarantee/delta: must be a number >= 0 and <= 1"]),
        (privacy(threshold="x"), ["privacy/threshold: must be a number or {"]),
        (privacy(clamp={}), ["privacy/clamp"]),
        (changed(lambda s: s.update(path="../../etc/passwd")), ["path: describes the file"]),
        (changed(lambda s: s["schema"]["fields"][1].pop("privacy")), ["must have a `privacy`"]),
        (changed(lambda s: s["schema"].update(primaryKey=["q"])), ["'q' is not among the fields"]),
        (changed(lambda s: s["schema"].update(fields=[])), ["schema/fields"]),
        (
            changed(lambda s: s["schema"]["fields"].append({"name": "k"})),
            ["schema/fields/3/name: the field 'k' is there twice"],
        ),
        (
            changed(lambda s: s["schema"]["fields"][0].update(type="date")),
            ["schema/fields/0/type: must be one of"],
        ),
        (
            changed(lambda s: s["schema"]["fields"][0].update(constraints={"enum": ["*"]})),
            ["schema/fields/0/constraints/enum: levels of k must be"],
        ),
        (
            workload(row=[0], cell=[], coefficient=[]),
            ["workload: row, cell and coefficient must have the same length"],
        ),
        (
            workload(row=[-1], cell=[0], coefficient=[1]),
            ["workload/row/0: must be a whole number >= 0, got -1"],
        ),
    ],
)  # fmt: skip
def test_bad_sidecars(tmp_path, sidecar, messages):
    check_refused(place(tmp_path, GOOD, sidecar), *messages)


@pytest.mark.parametrize(
    ("table", "sidecar", "messages"),
    [
        (GOOD, privacy(threshold=1.5), ["line 2, column v: must not be below its threshold"]),
        (GOOD, privacy(clamp={"lower": 1.5}), ["line 2, column v: must not be below its clamping"]),
        (GOOD, privacy(clamp={"upper": 1.5}), ["line 3, column v: must not be above its clamping"]),
        (
            "k,v,s\na,1.5,2\nb,2,2\n",
            privacy(mechanism="geometric"),
            ["line 2, column v: must be a whole number under integer noise, got '1.5'"],
        ),
        (
            GOOD,
            privacy(mechanism={"column": "k"}, scale=1),
            ["line 2, column k: must be the name of a noise law, got 'a'", "line 3"],
        ),
        (
            "k,v,s\na,1,laplace\nb,1,gaussian\n",
            privacy(mechanism={"column": "s"}, scale=1),
            ["line 3, column v: must have a law without a sigma"],
        ),
        (
            "k,v,s\na,1,2\nb,1,?\n",
            privacy(scale=1, threshold={"column": "s"}),
            ["line 2, column v: must not be below", "line 3, column s: must be a number or empty"],
        ),
        (
            GOOD,
            changed(lambda s: s["schema"]["fields"][0].update(constraints={"enum": ["a"]})),
            ["line 3, column k: must be one of the 1 levels that the sidecar lists, got 'b'"],
        ),
        (
            "k,v,s\n1,1,2\nb,2,3\n",
            changed(lambda s: s["schema"]["fields"][0].update(type="integer")),
            ["line 3, column k: must be of type integer, got 'b'"],
        ),
        (
            "k,v,s\ntrue,1,2\n0.5,2,3\n",
            changed(lambda s: s["schema"]["fields"][0].update(type="boolean")),
            ["line 3, column k: must be of type boolean, got '0.5'"],
        ),
        (
            GOOD,
            workload(row=[5], cell=[0], coefficient=[1]),
            ["t.csv: the workload of the sidecar must be on 2 rows, got number 5"],
        ),
        (
            GOOD,
            workload(row=[0], cell=[0], coefficient=[0.5], mechanism="geometric"),
            ["disjoint supports"],
        ),
    ],
)  # fmt: skip
def test_sidecars_that_do_not_fit_the_table(tmp_path, table, sidecar, messages):
    check_refused(place(tmp_path, table, sidecar), *messages)


def test_all_complaints_come_at_once_with_what_would_be_right(tmp_path):
    sidecar = privacy(mechanism="gausian", scale=-1, neighbors="replace")
    sidecar["schema"]["primaryKey"] = ["k", "j"]
    sidecar["schema"]["fields"][0]["type"] = "text"
    path = place(tmp_path, GOOD, sidecar)
    with pytest.raises(IncompatibleReleaseError) as caught:
        read_release(path)
    problems = list(caught.value.problems)
    assert problems == validate_release(path)
    at = "schema/fields/1/privacy/"
    text = (tmp_path / "t.csv-metadata.json").read_text().splitlines()
    assert [(text[found.line - 1].split(":")[0].strip(), found.field) for found in problems] == [
        ('"type"', "schema/fields/0/type"),
        ('"mechanism"', f"{at}mechanism"),
        ('"scale"', f"{at}scale"),
        ('"neighbors"', f"{at}neighbors"),
        ('"primaryKey"', "schema/primaryKey"),
    ]
    assert [found.example for found in problems] == [
        '"type": "string"',
        '"mechanism": "laplace"',
        '"scale": 2.0',
        '"neighbours": "add-remove"',
        '{"name": "j", "type": "string"} among the fields',
    ]
    assert "(and 4 more, in problems)" in str(caught.value)
    assert "got -1; such as" in str(problems[2])
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_every_example_of_the_schema_is_right(tmp_path):
    entries = json.loads(SCHEMA.read_text())["$defs"]["privacy"]["properties"]
    for name, entry in entries.items():
        kind = {"sigma": "gaussian", "truncation": "tulap", "covariance": "gaussian"}
        given = {"mechanism": kind.get(name, "laplace"), name: entry["examples"][0]}
        if given["mechanism"] != "gaussian":
            given = {"scale": 2.0} | given
        sidecar = privacy(**{"scale": None} | given)
        table = "k,v,s\na,96,2\nb,96,3\n"
        assert validate_release(place(tmp_path, table, sidecar)) == [], name


def test_versions_of_the_format(tmp_path):
    for version in (1, None):
        stated = {} if version is None else {"format_version": version}
        assert len(read_release(place(tmp_path, GOOD, stated | SIDECAR))) == 2
    later = {"format_version": 2, "columns": []}
    check_refused(place(tmp_path, GOOD, later), "format_version: must be at most 1, the version")
    for version in (0, -1, "1", 1.5, True):
        path = place(tmp_path, GOOD, {"format_version": version} | SIDECAR)
        check_refused(path, "format_version: must be 1, got")


def test_parameters_of_another_law_are_refused(tmp_path):
    path = place(tmp_path, GOOD, privacy(sigma=2, rounding=1))
    check_refused(path, "privacy/sigma: must be left out: laplace noise has scale")
    path = place(tmp_path, GOOD, privacy(mechanism="exact"))
    check_refused(path, "privacy/scale: must be left out: exact noise has nothing")


def test_other_broken_formats(tmp_path):
    check_refused(place(tmp_path, b"PAR1junk", name="t.parquet"), "must be a Parquet file")
    check_refused(place(tmp_path, b"junk", name="t.csv.gz"), "must be a CSV file in UTF-8")
    cut = gzip.compress(GOOD.encode() * 500)[:60]
    check_refused(place(tmp_path, cut, name="t.csv.gz"), "must be a CSV file in UTF-8")
    pd.DataFrame({"k": ["a", "b"], "v": ["1", "x"], "s": [[1], [2]]}).to_parquet(
        tmp_path / "u.parquet"
    )
    path = place(tmp_path, (tmp_path / "u.parquet").read_bytes(), name="t.parquet")
    check_refused(path, "line 2, column v", "line 1, column s", "line 2, column s")
    assert len(read_release(place(tmp_path, gzip.compress(GOOD.encode()), name="t.csv.gz"))) == 2


@pytest.mark.parametrize("act", [read_release, validate_release])
def test_bad_paths(tmp_path, act):
    place(tmp_path, GOOD)
    (tmp_path / "folder.csv").mkdir()
    for path, message in (
        (tmp_path / "none.csv", "existing file"),
        (tmp_path / "folder.csv", "directory"),
        (tmp_path / "t.txt", "must end in"),
        (3, "string or a Path"),
        ("a\0.csv", "name that files can have"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            act(path)
    (tmp_path / "t.csv-metadata.json").unlink()
    for metadata in (None, tmp_path / "none.json", tmp_path):
        with pytest.raises(InvalidParameterError, match="metadata must be the JSON sidecar"):
            act(tmp_path / "t.csv", metadata)


def test_another_file_named_by_the_sidecar_is_never_opened(tmp_path):
    (tmp_path / "secret.csv").write_text("k,v,s\nsecret,1,1\n")
    path = place(tmp_path, GOOD, changed(lambda s: s.update(path="secret.csv")))
    with pytest.raises(IncompatibleReleaseError, match=r"'secret.csv', not 't.csv'"):
        read_release(path)


@settings(derandomize=True, deadline=None, max_examples=75)
@given(st.one_of(st.binary(max_size=60), st.text("kvs,\n\"'0123456789.-a", max_size=60)))
def test_any_bytes_give_a_release_or_one_of_our_errors(tmp_path_factory, table):
    content = table if isinstance(table, bytes) else "k,v,s\n" + table
    path = place(tmp_path_factory.mktemp("fuzz"), content)
    check_read_or_refused(path)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text("kvs")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["column", "name", "l1", "lower", "x"]), inner, max_size=2),
    ),
    max_leaves=4,
)


FIELD_KEYS = ("enum", "type")
TOP_KEYS = ("path", "workload", "name")
PRIVACY_KEYS = ("mechanism", "scale", "sigma", "truncation", "threshold", "clamp", "sensitivity")


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    st.sampled_from(
        [*FIELD_KEYS, *TOP_KEYS, *PRIVACY_KEYS, "guarantee", "neighbours", "primaryKey"]
    ),
    json_values,
)
def test_any_sidecar_gives_a_release_or_one_of_our_errors(tmp_path_factory, key, value):
    sidecar = copy.deepcopy(SIDECAR)
    fields = sidecar["schema"]["fields"]
    if key == "enum":
        fields[0]["constraints"] = {key: value}
    elif key == "type":
        fields[0][key] = value
    elif key == "primaryKey":
        sidecar["schema"][key] = value
    elif key in TOP_KEYS:
        sidecar[key] = value
    else:
        fields[1]["privacy"][key] = value
    try:
        text = json.dumps(sidecar, allow_nan=False)
    except ValueError:
        return
    path = place(tmp_path_factory.mktemp("fuzz"), GOOD, text)
    check_read_or_refused(path)
