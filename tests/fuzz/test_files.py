"""Untrusted files: one clear error or an answer, nothing else read, nothing written by halves."""

import builtins
import copy
import io
import json
import os
import shutil
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import dpinfer
from dpinfer import DPInferError
from dpinfer.__main__ import main

TABLE = "k,v,s\na,1,1.0\nb,2,2.0\n"
SIDECAR = {
    "name": "release",
    "path": "t.csv",
    "schema": {
        "fields": [
            {"name": "k", "type": "string", "constraints": {"enum": ["a", "b"]}},
            {
                "name": "v",
                "type": "integer",
                "privacy": {
                    "mechanism": "laplace",
                    "scale": {"column": "s"},
                    "sensitivity": {"l1": 1},
                    "neighbours": "replace",
                    "guarantee": {"epsilon": 1.0},
                    "threshold": 0,
                    "clamp": {"lower": 0, "upper": 9},
                },
            },
            {"name": "s", "type": "number"},
        ],
        "primaryKey": ["k"],
    },
    "workload": {"cells": 2, "row": [0, 1], "cell": [0, 1], "coefficient": [1, 1]},
}

HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [
            0,
            -1,
            2**31,
            2**63,
            10**300,
            1e308,
            5e-324,
            "",
            "v",
            "none",
            "gaussian",
            "../../secret",
            "/etc/passwd",
            "file:///etc/passwd",
            "http://localhost/x",
            "\ud800",
            "a\x00b",
            [],
            {},
            {"$ref": "file:///etc/passwd"},
            {"column": "v"},
            {"column": "../x"},
            [[]],
            ["k", "k"],
            "__import__('os').abort()",
            [10**18],
            [0] * 3,
            "k" * 10000,
        ]
    ),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)


def places(part, at=()):
    """Return the places of all parts of a document."""
    if not isinstance(part, (dict, list)):
        return [at]
    keys = part if isinstance(part, dict) else range(len(part))
    return [at] * bool(at) + [one for key in keys for one in places(part[key], (*at, key))]


def replaced(content, at, value):
    """Return a document with another value at a place."""
    changed = copy.deepcopy(content)
    part = changed
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    return changed


def default_sidecar(path):
    """Return where the sidecar of a table is looked for."""
    return path.with_name(path.name + "-metadata.json")


def place(folder, table=TABLE, content=SIDECAR):
    """Write a table and a sidecar."""
    path = folder / "t.csv"
    path.write_bytes(table if isinstance(table, bytes) else table.encode())
    text = content if isinstance(content, (bytes, str)) else json.dumps(content)
    default_sidecar(path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def outcome(path):
    """Return the release or the message of the refusal; both readings must agree."""
    try:
        release = dpinfer.read_release(path)
    except DPInferError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 2000
        with suppress(DPInferError):
            assert dpinfer.releases.validate_release(path)
        return message
    assert not dpinfer.releases.validate_release(path)
    assert np.isfinite(release.values).all()
    return release


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("release")


def test_the_release_is_valid(folder):
    assert isinstance(outcome(place(folder)), dpinfer.Release)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(at=st.sampled_from(places(SIDECAR)), value=HOSTILE)
def test_hostile_sidecars(folder, at, value):
    outcome(place(folder, content=replaced(SIDECAR, at, value)))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.binary(max_size=60))
@example(b"\xef\xbb\xbf{}")
@example(b"\xff\xfe")
@example(b'{"a":' + b"9" * 5000 + b"}")
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
def test_bytes_as_sidecar(folder, content):
    assert isinstance(outcome(place(folder, content=content)), str)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.text('a1.,"\r\n-eN\0é', max_size=12), max_size=4).map(
            lambda lines: "\n".join(["k,v,s", *lines]).encode()
        ),
    )
)
def test_bytes_as_table(folder, content):
    outcome(place(folder, content=SIDECAR, table=content))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(cut=st.integers(0, 3000), at=st.integers(0, 3000), byte=st.integers(0, 255))
def test_damaged_parquet(folder, cut, at, byte):
    path = folder / "t.parquet"
    frame = pa.table({"k": ["a", "b"], "v": [1, 2], "s": [1.0, 2.0]})
    parquet.write_table(frame, path)
    content = bytearray(path.read_bytes())
    content[at % len(content)] = byte
    path.write_bytes(content[: len(content) - cut % 8 * 50])
    default_sidecar(path).write_text(json.dumps(SIDECAR | {"path": "t.parquet"}))
    outcome(path)


@pytest.mark.parametrize(
    "path",
    [
        "../t.csv",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://localhost/t.csv",
        "other.csv",
        "./t.csv",
    ],
)
def test_a_sidecar_names_no_other_file(tmp_path, path):
    (tmp_path / "other.csv").write_text(TABLE)
    assert "describes the file" in outcome(place(tmp_path, content=SIDECAR | {"path": path}))


def test_only_the_table_and_its_sidecar_are_opened(tmp_path, monkeypatch):
    references = {"$ref": "file:///etc/passwd", "$schema": "http://localhost/x", "$id": "../x"}
    wanted = place(tmp_path, content=SIDECAR | references)
    outcome(wanted)  # all that is imported late has been imported
    opened = []
    for module, name in ((builtins, "open"), (io, "open"), (os, "open")):
        true = getattr(module, name)

        def watched(file, *args, true=true, **kwargs):
            opened.append(os.fspath(file) if not isinstance(file, int) else file)
            return true(file, *args, **kwargs)

        monkeypatch.setattr(module, name, watched)
    assert isinstance(outcome(wanted), dpinfer.Release)
    assert {str(name) for name in opened} <= {str(wanted), str(default_sidecar(wanted))}


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("workload", "cells"), 2**28),
        (("workload", "cells"), 10**300),
        (("workload", "row"), [2**62, 1]),
        (("workload", "cell"), [2**62, 1]),
        (("schema", "fields", 0, "constraints", "enum"), list(range(2000))),
        (("schema", "primaryKey"), ["k"] * 2000),
    ],
)
def test_declared_sizes_allocate_nothing(tmp_path, at, value):
    path = place(tmp_path, content=replaced(SIDECAR, at, value))
    outcome(path)
    tracemalloc.start()
    outcome(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6


def test_levels_that_multiply_to_a_huge_domain(tmp_path):
    keys = [f"k{number}" for number in range(60)]
    levels = {"type": "string", "constraints": {"enum": ["a", "b"]}}
    fields = [{"name": key} | levels for key in keys] + SIDECAR["schema"]["fields"][1:]
    content = SIDECAR | {"schema": {"fields": fields, "primaryKey": keys}}
    content.pop("workload")
    table = ",".join([*keys, "v", "s"]) + "\n" + ",".join(["a"] * 60 + ["1", "1.0"]) + "\n"
    tracemalloc.start()
    outcome(place(tmp_path, table, content))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6


def test_places_in_deep_documents_take_little_memory(tmp_path):
    deep = "[" * 900 + ",".join(["1"] * 20_000) + "]" * 900
    path = place(tmp_path, content=deep)
    tracemalloc.start()
    assert isinstance(outcome(path), str)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6


def test_many_problems_are_listed_in_linear_time(tmp_path):
    """Two thousand wrong levels of two kinds, which do not sort."""
    levels = [[number] if number % 2 else {"a": number} for number in range(2000)]
    content = replaced(SIDECAR, ("schema", "fields", 0, "constraints", "enum"), levels)
    assert isinstance(outcome(place(tmp_path, content=content)), str)


def test_a_link_is_replaced_and_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("kept")
    path = tmp_path / "t.csv"
    path.symlink_to(secret)
    default_sidecar(path).symlink_to(secret)
    dpinfer.write_release(dpinfer.Release([1.0], mechanism=dpinfer.Laplace(scale=1.0)), path)
    assert secret.read_text() == "kept"
    assert isinstance(outcome(path), dpinfer.Release)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("fails", ["table", "sidecar"])
def test_nothing_is_left_half_written(tmp_path, monkeypatch, name, fails):
    path = tmp_path / name
    dpinfer.write_release(dpinfer.Release([1.0], mechanism=dpinfer.Laplace(scale=1.0)), path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    if fails == "table":
        monkeypatch.setattr("dpinfer.releases.files.write_table", full)
    else:
        monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DPInferError, match="No space left"):
        dpinfer.write_release(dpinfer.Release([2.0], mechanism=dpinfer.Laplace(scale=1.0)), path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


WORDS = st.sampled_from(
    [
        "analyze",
        "validate",
        "t.csv",
        "none.csv",
        "--alpha",
        "--method",
        "--seed",
        "--output",
        "--metadata",
        "nan",
        "-1",
        "0.1",
        "inf",
        "9" * 5000,
        "exact",
        "asymptotic",
        "r.html",
        "r.csv",
        "",
        "\x00",
        "\udcff",
        "a\nb.csv",
        "--version",
        "--help",
        ".",
        "x" * 5000,
        "t.csv-metadata.json",
    ]
)


@settings(derandomize=True, deadline=None, max_examples=10)
@given(st.lists(WORDS, max_size=6))
def test_hostile_command_lines(folder, words):
    before = Path.cwd()
    path = place(folder)
    kept = path.read_bytes(), default_sidecar(path).read_bytes()
    os.chdir(folder)
    try:
        status = main(words)
    except SystemExit as stop:  # of argparse
        status = stop.code
    finally:
        os.chdir(before)
    assert status in (0, 2)
    assert (path.read_bytes(), default_sidecar(path).read_bytes()) == kept
    assert not [one.name for one in folder.iterdir() if one.name.startswith(".")]


def test_what_the_terminal_takes_as_an_order_is_escaped(tmp_path, capsys):
    content = SIDECAR | {"name": "\x1b]0;owned\x07"}
    content = replaced(content, ("schema", "fields", 0, "constraints", "enum"), ["a\x1b[2J", "b"])
    table = TABLE.replace("\na,", "\na\x1b[2J,")
    assert main(["analyze", str(place(tmp_path, table, content))]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("file", ["part.json", "units.parquet", "marginal-0.parquet"])
@settings(derandomize=True, deadline=None, max_examples=10)
@given(at=st.integers(0, 3000), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_parts_of_trees(folder, file, at, byte, cut):
    parts = folder / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    units = dpinfer.Hierarchy.from_codes(["4", "44"])
    values = dpinfer.estimation.NoisyMarginal(
        "sex", [[51, 49], [30, 31]], dpinfer.Gaussian(sigma=2.0)
    )
    dpinfer.estimation.write_marginals_parquet(parts, "top", units, [values])
    path = parts / "top" / file
    content = bytearray(path.read_bytes())
    content[at % len(content)] = byte
    path.write_bytes(content[: len(content) // 2] if cut else content)
    with suppress(DPInferError):
        for part in dpinfer.estimation.read_marginals_parquet(parts).values():
            part.load()
