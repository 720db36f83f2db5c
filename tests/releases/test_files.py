import json
import os

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)
from dpinfer.queries import Domain, Workload
from dpinfer.releases import Release, files, read_release, validate_release, write_release

FORMATS = ["counts.csv", "counts.csv.gz", "counts.parquet"]
CELLS = pd.MultiIndex.from_product([["F", "M"], [17, 18]], names=["sex", None])
PLAIN = Release([1.0], mechanism=Laplace(scale=1.0))
DOMAIN = Domain({"sex": ["M", "F"], "age": [17, 18, 19], "vote": [True, False]})


def several_tables():
    """Overlapping tables of three attributes, each with its own kind of noise."""
    counts = pd.Series(np.arange(12) * 10.0, index=DOMAIN.cells())
    rng = np.random.default_rng(4)
    laws = [Geometric(scale=2.0), DiscreteGaussian(sigma=3.3), Laplace(scale=[0.1, 1 / 3]), Exact()]
    tables = [counts, counts.groupby(["sex", "age"]).sum(), counts.groupby("vote").sum()]
    noisy = [
        (table + law.rvs(len(table), rng=rng)).sample(frac=1, random_state=1)
        for table, law in zip(tables, laws, strict=False)
    ]
    return Release.from_tables(
        [*noisy, counts.sum()],
        mechanism=laws,
        domain=DOMAIN,
        neighbours="replace",
        sensitivity={"l1": 6.0, "l2": 6**0.5},
        guarantee={"epsilon": 1.5, "rho": 0.2},
        unit="household",
        threshold=np.where(np.arange(21) % 2, -np.inf, -50.0),
        clamp=(-60, np.where(np.arange(21) % 3, np.inf, 1e6)),
        name="tables",
    )


def releases():
    rng = np.random.default_rng(9)
    real = rng.normal(size=4) * 10.0 ** rng.integers(-8, 8, 4)
    labels = ["a", 'quoted "b", c', "NA", "line\nbreak"]
    index = pd.MultiIndex.from_arrays([[3, 1, 2, 1], ["x", "y", "x", "z"]], names=["k", "l"])
    mixed = [Gaussian(sigma=0.1), Exact(), Tulap(scale=2.0, truncation=0.01), Laplace(scale=1e-3)]
    return {
        "tables": several_tables(),
        "plain": Release(real, mechanism=Laplace(scale=1 / 3)),
        "labelled": Release(real, mechanism=mixed, labels=pd.Index(labels, name="group")),
        "unnamed labels": Release(real, mechanism=mixed, labels=labels),
        "two levels": Release(real, mechanism=Gaussian(sigma=np.abs(real)), labels=index),
        "numbers": Release(real, mechanism=mixed, labels=pd.Index([0.1, 1e-9, 3.0, -2.5])),
        "truth values": Release([1, 2], mechanism=Exact(), labels=pd.Index([True, False])),
        "matrix": Release(
            [1, 2, 3],
            workload=Workload([[1, 0.5], [0, 1 / 3], [0, 0]], columns=["u", "v"]),
            mechanism=Laplace(scale=2.0),
        ),
        "cells of two attributes": Release(
            [1, 2],
            workload=Workload([[1, 1, 0, 0], [0, 0, 1, 1]], columns=CELLS, labels=["f", "m"]),
            mechanism=Laplace(scale=2.0),
        ),
        "named cells": Release(
            [1, 2],
            workload=Workload([[1, 1], [0, 1]], columns=pd.Index([3, 5], name="town")),
            mechanism=Laplace(scale=2.0),
        ),
        "predicates": Release(
            [1, 2],
            workload=Workload.from_predicates(DOMAIN, {"girls": {"sex": "F"}, "all": {}}),
            mechanism=Geometric(scale=2.0),
        ),
        "names in use": Release(
            real,
            mechanism=Laplace(scale=np.abs(real)),
            labels=pd.MultiIndex.from_arrays([labels, range(4)], names=["scale", "threshold"]),
            threshold=real - 1,
        ),
        "a summed label without a domain": Release(
            [1.0, 2], mechanism=Laplace(scale=1.0), labels=["a", "*"]
        ),
    }


def assert_same(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.variance, other.variance)
    first, second = one.to_frame(), other.to_frame()
    pd.testing.assert_frame_equal(first, second, check_names=False, check_index_type=False)
    if one.labels is None:
        assert other.labels is None
    else:
        assert one.labels.to_list() == other.labels.to_list()
    if one.domain is not None:  # else one may be inferred from the labels
        assert one.domain == other.domain
    assert one.workload.shape == other.workload.shape
    if one.workload.columns is not None and not one.workload.is_identity:
        assert one.workload.columns.to_list() == other.workload.columns.to_list()
        assert list(one.workload.columns.names) == list(other.workload.columns.names)
    assert np.all(abs(one.workload.matrix - other.workload.matrix).sum() == 0)
    for field in ("neighbours", "sensitivity", "guarantee", "unit", "name"):
        assert getattr(one, field) == getattr(other, field)


@pytest.mark.thinned("file", "name", every=2)
@pytest.mark.parametrize("file", FORMATS)
@pytest.mark.parametrize("name", releases())
def test_a_release_is_read_as_it_was_written(tmp_path, file, name):
    release = releases()[name]
    path = tmp_path / file
    write_release(release, path)
    assert validate_release(path) == []
    back = read_release(path)
    assert_same(release, back)


@pytest.mark.parametrize("file", FORMATS)
def test_a_release_always_gives_the_same_bytes(tmp_path, file):
    written = []
    for _ in range(2):
        write_release(several_tables(), tmp_path / file)
        written.append({entry.name: entry.read_bytes() for entry in tmp_path.iterdir()})
    assert written[0] == written[1]


def test_the_names_of_attributes_are_kept(tmp_path):
    write_release(several_tables(), tmp_path / "a.csv")
    assert list(read_release(tmp_path / "a.csv").labels.names) == ["sex", "age", "vote"]
    write_release(releases()["two levels"], tmp_path / "b.csv")
    assert list(read_release(tmp_path / "b.csv").labels.names) == ["k", "l"]


def test_the_csv_is_plain(tmp_path):
    by_sex = pd.Series({"F": 30, "M": 29}).rename_axis("sex")
    release = Release.from_tables([by_sex, 60], mechanism=Geometric(scale=2.0))
    write_release(release, tmp_path / "a.csv", field="count", title="By sex")
    assert (tmp_path / "a.csv").read_text() == '"sex","count"\n"F",30\n"M",29\n,60\n'
    sidecar = json.loads((tmp_path / "a.csv-metadata.json").read_text())
    assert sidecar == {
        "format_version": 1,
        "title": "By sex",
        "path": "a.csv",
        "schema": {
            "fields": [
                {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}},
                {
                    "name": "count",
                    "type": "integer",
                    "privacy": {"mechanism": "geometric", "scale": 2.0},
                },
            ],
            "primaryKey": ["sex"],
        },
    }


def test_a_table_with_several_noisy_fields(tmp_path):
    (tmp_path / "a.csv").write_text("k,u,v\nx,1,2.5\ny,3,4.5\n")
    sidecar = {
        "schema": {
            "fields": [
                {"name": "k"},
                {"name": "u", "privacy": {"mechanism": "geometric", "scale": 2}},
                {"name": "v", "privacy": {"mechanism": "gaussian", "sigma": 3}},
            ],
            "primaryKey": "k",
        }
    }
    (tmp_path / "other.json").write_text(json.dumps(sidecar))
    release = read_release(tmp_path / "a.csv", tmp_path / "other.json", field="v")
    assert release.values.tolist() == [2.5, 4.5]
    assert release.mechanism == Gaussian(sigma=3.0)
    assert read_release(tmp_path / "a.csv", tmp_path / "other.json", field="u").values[0] == 1
    assert validate_release(tmp_path / "a.csv", tmp_path / "other.json") == []
    with pytest.raises(InvalidParameterError, match="noisy fields u, v, got None"):
        read_release(tmp_path / "a.csv", tmp_path / "other.json")
    with pytest.raises(InvalidParameterError, match="one of 'u', 'v', got 'k'"):
        read_release(tmp_path / "a.csv", tmp_path / "other.json", field="k")


def test_the_country_code_of_namibia_is_not_a_missing_value(tmp_path):
    release = Release([1, 2], mechanism=Laplace(scale=1.0), labels=pd.Index(["NA", "nan"]))
    write_release(release, tmp_path / "a.csv")
    assert read_release(tmp_path / "a.csv").labels.to_list() == ["NA", "nan"]


@pytest.mark.parametrize("file", FORMATS)
def test_nothing_is_left_half_written(tmp_path, file, monkeypatch):
    path = tmp_path / file
    first = Release([1, 2], mechanism=Laplace(scale=1.0))
    write_release(first, path)

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    for part in ("write_table", "os.replace"):
        with monkeypatch.context() as patch:
            if part == "os.replace":
                patch.setattr(os, "replace", fail)
            else:
                patch.setattr(files, part, fail)
            with pytest.raises(InvalidParameterError, match="No space left"):
                write_release(Release([9, 9, 9], mechanism=Laplace(scale=1.0)), path)
        assert read_release(path).values.tolist() == [1, 2]
        assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", 1], "all non-empty strings"),
        (["a", ""], "all non-empty strings"),
        ([True, 2], "all non-empty strings"),
        (pd.to_datetime(["2022-01-01", "2022-01-02"]), "all non-empty strings"),
        (pd.Index([("a", 1), ("b", 2)]).set_names(["k", "k"]), "different names"),
        (pd.Index(["a", "b"], name="value"), "field must differ"),
    ],
)
def test_labels_that_a_file_cannot_hold(tmp_path, labels, message):
    release = Release([1, 2], mechanism=Laplace(scale=1.0), labels=labels)
    with pytest.raises(IncompatibleReleaseError, match=message):
        write_release(release, tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


def test_bad_places_to_write(tmp_path):
    release = Release([1, 2], mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="must end in"):
        write_release(release, tmp_path / "a.txt")
    with pytest.raises(InvalidParameterError, match="existing folder"):
        write_release(release, tmp_path / "none" / "a.csv")
    with pytest.raises(InvalidParameterError, match="field must be"):
        write_release(release, tmp_path / "a.csv", field="")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(10**6, marks=pytest.mark.slow),
        pytest.param(10**7, marks=pytest.mark.study),
    ],
)
def test_millions_of_rows(tmp_path, rows):
    cells = np.arange(rows)
    frame = pd.DataFrame({"a": cells % 5000, "b": cells // 5000, "v": cells, "s": 1.0 + cells % 2})
    release = Release.from_frame(
        frame,
        value="v",
        attributes=["a", "b"],
        mechanism={"mechanism": "laplace", "scale": {"column": "s"}},
    )
    write_release(release, tmp_path / "a.csv")
    back = read_release(tmp_path / "a.csv")
    np.testing.assert_array_equal(back.values, release.values)
    np.testing.assert_array_equal(back.variance, release.variance)
    assert back.labels.equals(release.labels)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"labels": ["a", ["b", "c"]]}, "same number of parts"),
        ({"labels": [["a", 1], ["b", 2]], "names": ["k"]}, "a name, or null, for each part"),
        ({"labels": ["a", "b"], "names": ["k", "l"]}, "a name, or null, for each part"),
        ({"names": ["k"]}, "a name, or null, for each part"),
        ({"labels": [["a"], ["b"]]}, "must be a text, a number or true or false or"),
        ({"labels": ["a", "a"]}, "distinct"),
        ({"labels": ["a", "b", "c"]}, "3"),
    ],
)
def test_labels_of_cells_that_do_not_fit(tmp_path, cells, message):
    path = tmp_path / "a.csv"
    queries = Workload([[1, 1], [0, 1]], columns=["a", "b"])
    write_release(Release([1, 2], workload=queries, mechanism=Laplace(scale=2.0)), path)
    sidecar = tmp_path / "a.csv-metadata.json"
    content = json.loads(sidecar.read_text())
    del content["workload"]["labels"]
    content["workload"] |= cells
    sidecar.write_text(json.dumps(content))
    assert validate_release(path)
    with pytest.raises(IncompatibleReleaseError, match=message):
        read_release(path)


FORMULAS = ["=1+1", "+1", "-1 or so", "@SUM(A1)", "\t=1", '=HYPERLINK("x","y")', "'=1", "\r=1"]
"""What a spreadsheet would compute; to the library they are labels like others."""


@pytest.mark.parametrize("file", FORMATS)
def test_labels_like_formulas_stay_what_they_are(tmp_path, file):
    path = tmp_path / file
    index = pd.Index(FORMULAS, name="=name")
    release = Release(np.arange(8.0), mechanism=Laplace(scale=1.0), labels=index)
    write_release(release, path)
    assert read_release(path).labels.to_list() == FORMULAS
    if not file.endswith(".parquet"):
        assert pd.read_csv(path)["=name"].to_list() == FORMULAS


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: write_release(3, folder / "t.csv"), "release must be a Release, got 3"),
        (lambda folder: write_release(PLAIN, folder / "t.csv", title=3), "title must be a string"),
        (lambda folder: write_release(PLAIN, folder / f"{'x' * 300}.csv"), "must be writable"),
        (lambda folder: write_release(PLAIN, "\ud800.csv"), "a name that files can have"),
        (lambda folder: read_release(folder / "folder.csv"), "must be a file, got the directory"),
        (lambda folder: read_release(f"{'x' * 300}.csv"), "must be an existing file"),
        (lambda folder: read_release("a\0.csv"), "a name that files can have"),
        (lambda folder: read_release(folder / "t.csv", "x" * 300), "metadata must be the JSON"),
        (lambda folder: read_release(folder / "t.csv", "none"), "metadata must be the JSON"),
    ],
)
def test_arguments_that_name_no_release_and_no_file(tmp_path, call, message):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "t.csv").write_text("v\n1\n")
    with pytest.raises(InvalidParameterError, match=message):
        call(tmp_path)


def test_laws_that_files_do_not_hold(tmp_path):
    law = WeightedSum([1.0, 2.0], Laplace(scale=1.0))
    release = Release([1.0], mechanism=law)
    with pytest.raises(IncompatibleReleaseError, match="mechanism must be one of laplace"):
        write_release(release, tmp_path / "t.csv")


def test_labels_of_one_column_beside_listed_queries(tmp_path):
    """An empty cell is the mark of a sum, which a file cannot hold as a text."""
    index = pd.Index(["a", "*"], name="k")
    release = Release([1.0, 2.0], workload=[[1, 0], [1, 1]], labels=index, mechanism=Exact())
    path = tmp_path / "t.csv"
    write_release(release, path)
    assert path.read_text().splitlines()[2] == ",2"
    assert read_release(path).labels.to_list() == ["a", "*"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InvalidParameterError, match="must be a regular file"):
        read_release(tmp_path / "t.csv")
