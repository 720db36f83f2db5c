"""Files of the working folder: names, replacement as a whole, labels and numbers."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import NoisyMarginal, TreePart, stream_marginals, write_marginals_parquet
from dpinfer.estimation import _stream_files as _files
from dpinfer.estimation._marginals_input import TableSchema
from dpinfer.estimation._stream_files import (
    Folder,
    file_name,
    make_folder,
    plain_labels,
    read_estimates,
    read_known,
    read_part,
    replacing,
    write_estimates,
    write_known,
    write_part,
)
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.estimation.marginals import read_marginal
from dpinfer.mechanisms import IndependentNoise, Rounded
from dpinfer.queries import Hierarchy

DOMAIN = dpi.Domain({"sex": ["F", "M"]})
NOISE = dpi.Gaussian(sigma=1.0)


def test_parts_have_files_of_different_names_in_the_folder():
    parts = ["a", "A.b", "A%2Eb", "a/b", "a b", "..", ".", "ä", "a\\b", "up/../x", "\n"]
    names = [file_name(part) for part in parts]
    assert len(set(names)) == len(parts)
    for name in names:
        assert not set(name) & set("/\\.\n\0")
    assert file_name("44-001") == "44-001"


@pytest.mark.parametrize("part", ["", "x" * 201, "ä" * 40, "\ud800"])
def test_parts_without_a_possible_name_are_refused(part):
    with pytest.raises(InvalidParameterError, match="name of a part must be at most 200 bytes"):
        file_name(part)


def test_a_folder_that_cannot_be_made(tmp_path):
    path = tmp_path / "file"
    path.write_text("in the way")
    make_folder(tmp_path)
    for folder in (path, path / "below"):
        with pytest.raises(InvalidParameterError, match="folder must be one that can be written"):
            make_folder(folder)


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as new:
        new.write_text("first")
        assert not path.exists()

    def half():
        with replacing(path) as new:
            new.write_text("half")
            raise OSError("no space")

    with pytest.raises(InvalidParameterError, match=r"can be written, got .*file': no space; make"):
        half()
    assert path.read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_what_died_half_way_is_removed(tmp_path):
    folder = Folder(str(tmp_path / "work"))
    drafts = [Path(folder.root, name) for name in (f".plan.json.{'0a' * 16}", "lock")]
    drafts[0].parent.mkdir()
    for draft in drafts:
        draft.write_text("")
    with folder.claimed("plan"):  # although there are files and no plan
        assert not drafts[0].exists()
        drafts[0] = folder.message("01").with_name(f".01.npy.{'0a' * 16}")
        kept = [folder.message("01"), drafts[0].with_name(".hidden")]
        for file in (*kept, drafts[0]):
            file.write_text("")
    for _ in range(2):  # once more, as an interrupted plan does
        assert not drafts[0].exists()
        assert all(file.exists() for file in kept)
        with folder.claimed("plan"):
            drafts[0].write_text("half")


@pytest.mark.parametrize("content", ["", "[]", "{}", "\0", "3"])
def test_a_damaged_plan_is_named(tmp_path, content):
    folder = Folder(str(tmp_path))
    with folder.claimed("plan"):
        pass
    for damaged in (content.encode(), b"\xff"):
        (tmp_path / "plan.json").write_bytes(damaged)
        with (
            pytest.raises(InvalidParameterError, match=r"plan.json' is damaged"),
            folder.claimed("plan"),
        ):
            pass


def test_labels_and_tables_come_back(tmp_path):
    path = tmp_path / "known.npy"
    for labels in (["b", "a", ""], [3, -1, 2**62]):
        known = {"mean": np.arange(6.0).reshape(3, 2), "variance": np.array([np.inf, 0.0, 1.0])}
        write_known(path, plain_labels(pd.Index(labels)), known)
        found, tables = read_known(path)
        assert found.tolist() == labels
        assert tables.keys() == known.keys()
        for name, table in known.items():
            np.testing.assert_array_equal(tables[name], table)


def test_what_other_files_of_that_name_hold_is_refused(tmp_path):
    path = tmp_path / "known.npy"
    labels = plain_labels(pd.Index(["a", "b"]))
    write_known(path, labels, {"mean": np.zeros(2)})
    content = path.read_bytes()
    changed = content[:-1] + b"\1"

    def saved(*arrays, save=np.save):
        file = BytesIO()
        for array in arrays:
            save(file, array)
        return file.getvalue()

    compressed = saved(labels, save=np.savez_compressed)
    unlabelled, pickled = saved("[null, {}]"), saved('[null, {"labels": 0}]', np.array([None]))
    many = (b"(2,), }" + 15 * b" ", b"(2" + 15 * b"0" + b",), }")  # more than there is memory
    endless = saved('[null, {"labels": 0}]', labels).replace(*many)
    assert many[1] in endless
    for other in (b"", b"other", content[:-30], changed, compressed, unlabelled, pickled, endless):
        path.write_bytes(other)
        with pytest.raises(InvalidParameterError, match=r"known.npy is damaged"):
            read_known(path)


@pytest.mark.parametrize(
    "labels", [["a", 1], [1.5, 2.5], [("a", "b")], [True], ["a\0"], [2**63], ["\ud800"], [None]]
)
def test_labels_that_files_cannot_hold(tmp_path, labels):
    index = pd.Index(labels, tupleize_cols=False, dtype=object)
    with pytest.raises(InvalidParameterError, match="labels that are all str or all int"):
        plain_labels(index)
    tree = Hierarchy(pd.Series([None] * len(labels), index=index, dtype=object))
    marginal = NoisyMarginal((), np.ones(len(labels)), NOISE)
    with pytest.raises(InvalidParameterError, match="labels that are all str or all int"):
        write_marginals_parquet(tmp_path, "top", tree, [marginal])
    parts = {"top": TreePart(lambda: (tree, [marginal], None))}
    with pytest.raises(InvalidParameterError, match="labels that are all str or all int"):
        stream_marginals(parts, tmp_path / "work", domain=DOMAIN, marginals_wanted=[()])


def test_estimates_are_written_some_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_ROWS_NUMBERS", 10)
    path = tmp_path / "estimates.parquet"
    tables = np.arange(28.0).reshape(7, 4), np.arange(7.0).reshape(7, 1)
    labels = plain_labels(pd.Index([f"0{at}" for at in range(7)]))

    def chunk(number, rows):
        assert number == 0
        return tables[0][rows], tables[1][rows]

    write_estimates(path, labels, [(4, 1)], chunk, NoiseBound((), ()))
    assert parquet.ParquetFile(path).num_row_groups == 4  # of 5 numbers a row, 10 at a time
    units, found = read_estimates([path, path], ["variance-0", "estimate-0"])
    assert units == [*labels.tolist()] * 2
    np.testing.assert_array_equal(found[0], np.concatenate([tables[1]] * 2))
    np.testing.assert_array_equal(found[1], np.concatenate([tables[0]] * 2))


def test_a_label_of_a_part_may_be_any_text(tmp_path):
    tree = Hierarchy(pd.Series({"0": None, "ä/1": "0", "": "0"}))
    marginal = NoisyMarginal("sex", [[9.0, 8.0], [4.0, 5.0], [5.0, 3.0]], NOISE)
    write_marginals_parquet(tmp_path / "in", "a/..", tree, marginal)
    said = json.loads(next((tmp_path / "in").glob("*/part.json")).read_text())
    assert said == {"name": "a/..", "parent": None, "marginals": 1}
    parts = dpi.estimation.read_marginals_parquet(tmp_path / "in")
    found = stream_marginals(parts, tmp_path / "out", domain=DOMAIN)
    wanted = dpi.combine_marginals(marginal, tree, domain=DOMAIN)
    pd.testing.assert_frame_equal(found.marginal("sex"), wanted.marginal("sex"))
    assert found.files["a/.."].parent == tmp_path / "out" / "estimates"


def two_parts():
    """A unit of two children, one of which is the root of a part with two more."""
    top, below = Hierarchy.from_codes(["0", "01", "02"]), Hierarchy.from_codes(["01", "011", "012"])
    above = NoisyMarginal("sex", [[9.0, 8.0], [5.0, 3.0]], NOISE, ["0", "02"])
    inside = NoisyMarginal("sex", [[4.0, 5.0], [3.0, 2.0], [2.0, 2.0]], NOISE)
    return {
        "0": TreePart(lambda: (top, [above], None)),
        "01": TreePart(lambda: (below, [inside], None), "0"),
    }


@pytest.mark.parametrize("damage", [None, "cut", "bit", "gone", "law"])
def test_a_part_is_read_once_unless_it_could_not_be_kept(tmp_path, damage):
    parts, calls = two_parts(), []
    noise = Rounded(dpi.Laplace(scale=2.0)) if damage == "law" else NOISE

    def load(name):
        calls.append(name)
        file = Folder(str(tmp_path)).kept("01")
        harm = {"cut": cut_short, "bit": flip_a_bit, "gone": Path.unlink}
        if name == "0" and damage in harm:
            harm[damage](file)
        tree, (marginal,), _ = parts[name].load()
        return tree, [replace(marginal, mechanism=noise)], None

    counted = {name: replace(one, load=partial(load, name)) for name, one in parts.items()}
    found = stream_marginals(counted, tmp_path, domain=DOMAIN)
    assert calls == ["01", "0"] + (["01"] if damage else [])
    assert not list((tmp_path / "kept").iterdir())
    tree = Hierarchy.from_codes(["0", "01", "02", "011", "012"], not_exhausted=["02"])
    every = [parts[name].load()[1][0] for name in parts]
    every[1] = replace(every[1], units=["01", "011", "012"])
    every = [replace(one, mechanism=noise) for one in every]
    wanted = dpi.combine_marginals(every, tree, domain=DOMAIN).marginal("sex")
    own = found.marginal("sex").loc[wanted.index]
    pd.testing.assert_frame_equal(own, wanted, rtol=1e-13)


@pytest.mark.parametrize("largest", [127, 128, -128, 2**15 - 1, -(2**15), 2**31 - 1, 2**31])
def test_what_is_kept_of_a_part_comes_back(tmp_path, largest):
    tree = Hierarchy.from_codes(["0", "01", "02"], not_exhausted=["0"])
    schema = TableSchema.of(DOMAIN, None, ["sex"])
    law = IndependentNoise([dpi.Laplace(scale=[1.0, 3.0]), dpi.Exact()])
    given = [
        NoisyMarginal("sex", np.array([[largest, 1], [0, 3], [5, 7]]), law),
        NoisyMarginal("sex", [[0.1, 0.7]], dpi.Gaussian(sigma=0.3), ["02"]),
    ]
    read = tuple(read_marginal(one, schema, tree) for one in given)
    zeros = np.array([[True, False], [False, False], [False, True], [False, False]])
    sums = {"sums-0": np.array([[0.1, np.pi]])}
    write_part(tmp_path / "part.npy", tree, read, zeros, sums)
    hierarchy, found, nowhere, added = read_part(tmp_path / "part.npy")
    assert added.keys() == sums.keys()
    np.testing.assert_array_equal(added["sums-0"], sums["sums-0"])
    assert hierarchy.labels.equals(tree.labels)
    np.testing.assert_array_equal(hierarchy.parent, tree.parent)
    assert list(hierarchy.not_exhausted) == ["0"]
    np.testing.assert_array_equal(nowhere, zeros)
    for one, before in zip(found, read, strict=True):
        assert one.names == before.names
        np.testing.assert_array_equal(one.values, before.values)
        np.testing.assert_array_equal(np.abs(one.values), np.abs(before.values))
        np.testing.assert_array_equal(one.variance, before.variance)
        np.testing.assert_array_equal(one.law.variance, before.law.variance)
    assert found[0].unit is None
    assert found[1].unit.tolist() == [2]
    assert read_part(tmp_path / "other.npy") is None
    write_known(tmp_path / "other.npy", plain_labels(tree.labels), {"parent": np.zeros(2)})
    assert read_part(tmp_path / "other.npy") is None


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-30])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.thinned("damage", "file", every=2)
@pytest.mark.parametrize("damage", [cut_short, flip_a_bit, Path.unlink])
@pytest.mark.parametrize(
    ("file", "made"),
    [
        ("estimates/0.parquet", ["down 0"]),
        ("estimates/01.parquet", ["down 01"]),
        ("estimates/01.parquet.sha256", ["down 01"]),
        ("down/01.npy", ["down 0"]),
        ("up/01.npy", ["up 01"]),
    ],
)
def test_what_is_not_as_it_was_written_is_named_and_made_again(tmp_path, file, made, damage):
    found = stream_marginals(two_parts(), tmp_path, domain=DOMAIN)
    wanted = found.marginal("sex")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    damage(tmp_path / file)
    if "estimates" in file:
        with pytest.raises(
            InvalidParameterError, match=r"estimates/01?.parquet is damaged: .* it ag"
        ):
            found.marginal("sex")
    elif damage is cut_short:
        with pytest.raises(InvalidParameterError, match=rf"{file} is damaged"):
            found.part("0" if "up" in file else "01")
    again = stream_marginals(two_parts(), tmp_path, domain=DOMAIN)
    assert list(again.seconds) == made
    pd.testing.assert_frame_equal(again.marginal("sex"), wanted)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    assert not stream_marginals(two_parts(), tmp_path, domain=DOMAIN).seconds


def test_two_runs_in_one_folder_keep_out_of_each_others_way(tmp_path):
    parts = two_parts()
    refused = []

    def load():
        with pytest.raises(InvalidParameterError, match="one run at a time") as caught:
            stream_marginals(two_parts(), tmp_path, domain=DOMAIN)
        refused.append(caught)
        return parts["01"].load()

    stream_marginals({**parts, "01": TreePart(load, "0")}, tmp_path, domain=DOMAIN)
    assert len(refused) == 1  # the part is read once


def test_what_part_json_says_belongs_to_the_plan(tmp_path):
    tree = Hierarchy.from_codes(["0", "01"])
    total = NoisyMarginal((), [3.0, 4.0], NOISE)
    write_marginals_parquet(tmp_path / "in", "top", tree, [total, total])
    options = {"domain": DOMAIN, "marginals_wanted": [()]}
    stream_marginals(
        dpi.estimation.read_marginals_parquet(tmp_path / "in"), tmp_path / "out", **options
    )
    file = next((tmp_path / "in").glob("*/part.json"))
    file.write_text(file.read_text().replace('"marginals": 2', '"marginals": 1'))
    parts = dpi.estimation.read_marginals_parquet(tmp_path / "in")
    with pytest.raises(InvalidParameterError, match="another one"):
        stream_marginals(parts, tmp_path / "out", **options)


FULL = """
import pandas as pd, resource, signal, sys
import dpinfer as dpi
from dpinfer.queries import Hierarchy

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
tree = Hierarchy(pd.Series([None, *[0] * 2000], dtype=object))
noise = dpi.Gaussian(sigma=1.0)
marginal = dpi.estimation.NoisyMarginal((), [1.0] * 2001, noise)
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
options = {"domain": dpi.Domain({"sex": ["F", "M"]}), "marginals_wanted": [()]}
def stream():
    part = dpi.estimation.TreePart(lambda: (tree, [marginal], None))
    dpi.estimation.stream_marginals({"0": part}, "out", **options)
def write():
    dpi.estimation.write_marginals_parquet("in", "0", tree, marginal)
for call in (stream, write):
    try:
        call()
    except dpi.errors.InvalidParameterError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files there")
def test_a_disk_without_room_is_named(tmp_path):
    """Files may have 8,000 bytes, of which the system says that they are too large."""
    run = [sys.executable, "-c", FULL]
    found = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = found.stdout.splitlines()
    assert len(said) == 2
    for line, file in zip(said, ("estimates/0.parquet", "in/0/units.parquet"), strict=True):
        assert "folder must be one that can be written" in line
        assert file in line
        assert "too large" in line
    assert not list(tmp_path.glob("**/.*"))


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_files.os, "open", refuse)
    with pytest.raises(InvalidParameterError, match=r"can be written, .*lock': Permission denied"):
        stream_marginals(two_parts(), tmp_path, domain=DOMAIN)
    with pytest.raises(InvalidParameterError, match=r"can be written, .*units.parquet': Permiss"):
        write_marginals_parquet(tmp_path, "x", *two_parts()["0"].load()[:2])
