"""Files of the working folder: names, replacement as a whole, labels and numbers."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.streaming import _files
from dpinfer.estimation.streaming._files import (
    Folder,
    file_name,
    make_folder,
    plain_labels,
    read_estimates,
    read_known,
    replacing,
    write_estimates,
    write_known,
)
from dpinfer.estimation.streaming.stream import (
    TreePart,
    stream_marginals,
    write_marginals_parquet,
)
from dpinfer.estimation.tables.marginals import NoisyMarginal
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

    with pytest.raises(OSError, match="no space"):
        half()
    assert path.read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_what_died_half_way_is_removed(tmp_path):
    folder = Folder(str(tmp_path / "work"))
    folder.claim("plan")
    left = folder.message("01").with_name(".01.npz.half")
    left.write_text("half")
    folder.message("01").write_text("whole")
    folder.tidy()
    assert not left.exists()
    assert folder.message("01").exists()
    folder.claim("plan")  # once more, as an interrupted plan does


@pytest.mark.parametrize("content", ["", "[]", "{}", "\0", "3"])
def test_a_damaged_plan_is_named(tmp_path, content):
    folder = Folder(str(tmp_path))
    folder.claim("plan")
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(InvalidParameterError, match=r"plan.json' is damaged"):
        folder.claim("plan")
    (tmp_path / "plan.json").write_bytes(b"\xff")
    with pytest.raises(InvalidParameterError, match=r"plan.json' is damaged"):
        folder.claim("plan")


def test_labels_and_tables_come_back(tmp_path):
    path = tmp_path / "known.npz"
    for labels in (["b", "a", ""], [3, -1, 2**62]):
        known = {"mean": np.arange(6.0).reshape(3, 2), "variance": np.array([np.inf, 0.0, 1.0])}
        write_known(path, plain_labels(pd.Index(labels)), known)
        found, tables = read_known(path)
        assert found.tolist() == labels
        assert tables.keys() == known.keys()
        for name, table in known.items():
            np.testing.assert_array_equal(tables[name], table)


def test_what_other_files_of_that_name_hold_is_refused(tmp_path):
    path = tmp_path / "known.npz"
    labels = plain_labels(pd.Index(["a", "b"]))
    write_known(path, labels, {"mean": np.zeros(2)})
    content = path.read_bytes()
    np.savez_compressed(path, labels=labels)
    compressed = path.read_bytes()
    np.savez(path, mean=np.zeros(2))
    unlabelled = path.read_bytes()
    np.savez(path, labels=np.array(["a", None], dtype=object))
    pickled = path.read_bytes()
    for other in (b"", b"other", content[:-30], compressed, unlabelled, pickled):
        path.write_bytes(other)
        with pytest.raises(InvalidParameterError, match=r"known.npz is damaged"):
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

    write_estimates(path, labels, [(4, 1)], chunk)
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
    parts = dpi.read_marginals_parquet(tmp_path / "in")
    found = stream_marginals(parts, tmp_path / "out", domain=DOMAIN)
    wanted = dpi.combine_marginals(marginal, tree, domain=DOMAIN)
    pd.testing.assert_frame_equal(found.marginal("sex"), wanted.marginal("sex"))
    assert found.files["a/.."].parent == tmp_path / "out" / "estimates"
