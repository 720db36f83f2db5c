"""Small files that would become large: refused, in little memory, with what to do about it."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import zipfile
from contextlib import suppress
from hashlib import sha256

import numpy as np
import pandas as pd
import parquet_bombs as bombs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

import dpinfer as dpi
from dpinfer.__main__ import main
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation._stream_files import read_estimates, read_known, write_known
from dpinfer.releases import read_release, sidecar_format, validate_release, write_release
from dpinfer.releases.census import (
    census_codes,
    read_census_least_squares,
    read_census_measurements,
    read_census_rows,
)
from dpinfer.releases.limits import Limit
from dpinfer.releases.parquet import BrokenParquetError, check_pages, read_footer

SIDECAR = {
    "schema": {
        "fields": [
            {"name": "k", "type": "string"},
            {"name": "v", "privacy": {"mechanism": "laplace", "scale": 2.0}},
        ],
        "primaryKey": ["k"],
    }
}
NUMBERS = {
    "schema": {"fields": [{"name": "v", "privacy": SIDECAR["schema"]["fields"][1]["privacy"]}]}
}
LEAST_SQUARES = b"geocode|query|estimate|std_dev|query_description\n"


def default_sidecar(path):
    return path.with_name(f"{path.name}-metadata.json")


def beside(path, sidecar):
    default_sidecar(path).write_text(json.dumps(sidecar))
    return path


def csv_bomb(path):
    """Write a table whose second part, 10 MB of one row, is there fifty times."""
    rows = gzip.compress((b"a" * 97 + b",1\n") * 100_000, mtime=0)
    path.write_bytes(gzip.compress(b"k,v\nb,2\n", mtime=0) + rows * 50)
    return beside(path, SIDECAR)


def refused(path, **options):
    """Return the message of the refusal, which both readers give."""
    with pytest.raises(IncompatibleReleaseError) as caught:
        read_release(path, **options)
    problems = validate_release(path, **options)
    assert [str(problem) for problem in problems] == [
        str(caught.value).replace(str(path), path.name)
    ]
    return str(caught.value)


def test_a_small_file_that_becomes_half_a_gigabyte(tmp_path):
    path = csv_bomb(tmp_path / "t.csv.gz")
    size = path.stat().st_size
    assert size < 2e6
    message = _first(path)
    assert message.startswith(f"{path}: this file of {size} bytes takes ")
    assert f"at most {2**28}: if you trust" in message
    assert "max_bytes" in message


def test_the_caller_raises_or_lowers_the_limit(tmp_path, capsys):
    path = tmp_path / "t.csv.gz"
    write_release(dpi.Release(np.arange(5000.0), mechanism=dpi.Laplace(scale=1.0)), path)
    assert len(read_release(path)) == len(read_release(path, max_bytes=40_000)) == 5000
    assert "may take at most 30000" in refused(path, max_bytes=30_000)  # the text has 38,894
    assert validate_release(path, max_bytes=40_000) == []
    for command in ("validate", "analyze"):
        assert main([command, str(path), "--max-bytes", "30000"]) == 2
        assert "at most 30000" in capsys.readouterr().err
    assert main(["validate", str(path), "--max-bytes", "40000"]) == 0
    for wrong in (0, -1, 1.5, "1", np.nan):
        with pytest.raises(InvalidParameterError, match="max_bytes must"):
            read_release(path, max_bytes=wrong)


def test_the_limit_grows_with_the_file(tmp_path):
    """A hundred times its size, where that is more than what any file may take."""
    path = beside(tmp_path / "file.parquet", NUMBERS)
    other = (bombs.data_page(400_000, b"\0" * 3_200_000, encoding=0),)
    bombs.parquet(path, {"v": bombs.constant(10**9), "w": other}, rows=10**9)
    assert f"may take at most {100 * path.stat().st_size}:" in refused(path)


def test_a_plain_table_of_empty_cells(tmp_path):
    """Each byte of text becomes a number of eight bytes."""
    fields = [{"name": f"c{k}"} for k in range(20)]
    fields[0]["privacy"] = {"mechanism": "laplace", "scale": {"column": "c1"}}
    fields[0]["privacy"] |= {"threshold": {"column": "c2"}, "clamp": {"lower": {"column": "c3"}}}
    path = beside(tmp_path / "t.csv", {"schema": {"fields": fields}})
    path.write_text(",".join(f["name"] for f in fields) + "\n" + ("," * 19 + "\n") * 100_000)
    assert "2100000 bytes" not in refused(path, max_bytes=2_200_000)


def test_a_run_of_a_thousand_million_rows(tmp_path):
    path = beside(tmp_path / "t.parquet", NUMBERS)
    bombs.parquet(path, {"v": bombs.constant(10**9)}, rows=10**9)
    assert path.stat().st_size < 200
    assert "takes 8000000000 bytes or more" in refused(path)
    bombs.parquet(path, {"v": bombs.constant(10)}, rows=10)
    assert read_release(path).values.tolist() == [7.0] * 10


@pytest.mark.parametrize(
    ("pages", "options"),
    [
        # the footer says that there are three rows, and all sizes that it states are small
        (bombs.constant(10**9), {"rows": 3, "changes": {5: bombs.I64(10**9)}}),
        # the footer has rows that no page has, for which readers reserve memory
        (bombs.constant(3), {"rows": 10**9}),
        # a page that says that it becomes a gigabyte
        ((bombs.data_page(3, b"\0" * 24, size=2**30, encoding=0),), {"rows": 3, "codec": 6}),
        # more pages than the footer has values for
        (
            (*bombs.constant(2), *bombs.constant(10**9)[1:]),
            {"rows": 3, "changes": {5: bombs.I64(4)}},
        ),
        # a dictionary of more numbers than there is room for
        (
            (
                bombs.thrift({1: 2, 2: 8, 3: 8, 7: {1: 2**30, 2: 0}}) + b"\0" * 8,
                bombs.constant(3)[1],
            ),
            {"rows": 3},
        ),
    ],
    ids=["values", "rows", "page", "pages", "dictionary"],
)
def test_footers_and_headers_that_say_different_things(tmp_path, pages, options):
    path = beside(tmp_path / "t.parquet", NUMBERS)
    bombs.parquet(path, {"v": pages}, **options)
    assert f"may take at most {2**28}" in refused(path)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"\xff" * 40,
        bombs.thrift({1: 0, 2: 8, 3: 8}),
        bombs.thrift({1: 9, 2: 8, 3: 8, 5: {1: 1, 2: 0}}),
        bombs.thrift({1: 0, 2: -1, 3: 8, 5: {1: 1, 2: 0}}),
        bombs.thrift({1: 0, 2: bombs.I64(2**32 + 8), 3: 8, 5: {1: 1, 2: 0}}),
        bombs.thrift({1: 0, 2: 8, 3: 8, 5: {1: [1, 2], 2: 0}}),
        bombs.thrift({1: b"x" * 5000, 2: 8, 3: 8, 5: {1: 1, 2: 0}}),
        b"\x19\xf1" + b"\xff" * 9 + b"\x01",  # a list of 2**64 truth values
        b"\x1b\x00",  # a map
        b"\x1c" * 40,  # structures in structures
        b"\x19" * 40,  # lists in lists
        b"\x15" + b"\xff" * 12,  # a number of more than 64 bits
    ],
)
def test_headers_that_cannot_be_read(tmp_path, page):
    path = tmp_path / "t.parquet"
    bombs.parquet(path, {"v": (page,)}, rows=3)
    metadata = read_footer(path)
    with pytest.raises(BrokenParquetError):
        check_pages(path, metadata, Limit.of(path, None))
    with pytest.raises(IncompatibleReleaseError, match="must be a Parquet file"):
        read_release(beside(path, NUMBERS))


def test_headers_may_hold_what_is_not_needed(tmp_path):
    """Fields of every kind, and more of them than are read at first."""
    path = tmp_path / "t.parquet"
    content = np.array([7.0, 8.0, 9.0]).tobytes()
    more = {20: [1, 2], 21: b"x" * 5000, 22: {1: [{1: 1}] * 14, 2: bombs.I64(-3)}, 23: [b"a"]}
    said = bombs.thrift({1: 0, 2: 24, 3: 24, 5: {1: 3, 2: 0, 3: 3, 4: 3}} | more)[:-1]
    kinds = b"\x11\x12\x13\x05\x17" + b"\0" * 8 + b"\x19\x21\x01\x02" + b"\x19\xf3\x10" + b"\0" * 16
    bombs.parquet(path, {"v": (said + kinds + b"\0" + content,)}, rows=3)
    assert pq.read_table(path).column("v").to_pylist() == [7.0, 8.0, 9.0]  # as others read it
    assert read_release(beside(path, NUMBERS)).values.tolist() == [7.0, 8.0, 9.0]


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.binary(max_size=40))
def test_any_bytes_as_a_header(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    bombs.parquet(path, {"v": (content,)}, rows=3)
    try:
        check_pages(path, read_footer(path), Limit.of(path, None))
    except (BrokenParquetError, IncompatibleReleaseError):
        return


COLUMNS = {
    "int8": pa.array([1, None, 3] * 500, pa.int8()),
    "bool": pa.array([True, False, None] * 500),
    "int64": pa.array(range(1500)),
    "float": pa.array(np.linspace(0, 1, 1500), pa.float32()),
    "time": pa.array(range(1500), pa.timestamp("us")),
    "decimal": pa.array([1, 2, 3] * 500).cast(pa.decimal128(20, 1)),
    "fixed": pa.array([b"abc", b"def", None] * 500, pa.binary(3)),
    "text": pa.array([f"text {k}" for k in range(1500)]),
    "list": pa.array([[1, 2], [], None] * 500, pa.list_(pa.int32())),
    "nested": pa.array([{"a": 1, "b": ["x", "y"]}] * 1500),
}


@pytest.mark.thinned("version", "compression", "name", every=2)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("name", COLUMNS)
def test_the_bound_holds_what_is_decoded(tmp_path, name, compression, version):
    """The least limit that a file passes is that of what Arrow makes of its column and a little.

    With it are four bytes a value for levels, and one for each truth value, which Arrow keeps in a
    bit.
    """
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({name: COLUMNS[name]}),
        path,
        compression=compression,
        data_page_version=version,
        row_group_size=600,
        data_page_size=1000,
    )
    texts = [name] if name == "text" else []
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        decoded = file.read().nbytes
        low, high = 1, 10**6
        while low < high:
            middle = (low + high) // 2
            try:
                check_pages(path, read_footer(path), Limit.of(path, middle))
                high = middle
            except IncompatibleReleaseError:
                low = middle + 1
    assert 0.9 * decoded <= low <= 5 * decoded + 8 * 1500


def test_texts_that_are_there_often(tmp_path):
    """A name of a megabyte in each of a hundred thousand rows: 100 GB as text."""
    path = beside(tmp_path / "t.parquet", SIDECAR)
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 10**6])
    pq.write_table(pa.table({"k": names, "v": np.zeros(100_000)}), path)
    assert path.stat().st_size < 2e6
    assert "takes 10000" in refused(path)
    few = names[:30]
    pq.write_table(pa.table({"k": few, "v": np.zeros(30)}), path)
    assert "must not repeat the labels" in _first(path)
    pq.write_table(pa.table({"k": np.arange(30).astype(str), "v": few}), path)
    assert "must be a finite number, got 'xxx" in _first(path)


def _first(path):
    with pytest.raises(IncompatibleReleaseError) as caught:
        read_release(path)
    assert len(str(caught.value)) < 2000
    return str(caught.value)


def by_differences(path, texts, values):
    """Write a table of which each text is given by how it differs from the one before."""
    pq.write_table(
        pa.table({"k": texts, "v": values}),
        path,
        use_dictionary=False,
        compression="zstd",
        column_encoding={"k": "DELTA_BYTE_ARRAY", "v": "PLAIN"},
    )
    return beside(path, SIDECAR)


def test_texts_by_their_differences(tmp_path):
    """Each is the one before with a letter more: 3,000 texts of 1,500 letters in 7 kB."""
    path = by_differences(tmp_path / "t.parquet", ["x" * k for k in range(1, 3001)], np.zeros(3000))
    assert path.stat().st_size < 10_000
    assert "bytes or more" in refused(path, max_bytes=2**20)
    assert len(read_release(path)) == 3000
    by_differences(path, ["x" * k for k in range(1, 3001)], ["1"] * 2999 + ["y"])
    assert "line 3000, column v: must be a finite number, got 'y'" in _first(path)
    assert "bytes or more" in refused(path, max_bytes=2**20)


def test_many_texts_by_their_differences(tmp_path, monkeypatch):
    monkeypatch.setattr("dpinfer.releases.parquet.MOST_ROWS", 2**12)
    texts = [f"a text of a few letters {k}" for k in range(10_000)]
    path = by_differences(tmp_path / "t.parquet", texts, np.arange(10_000.0))
    release = read_release(path)
    assert release.labels.to_list() == texts
    assert release.values.tolist() == list(range(10_000))


ENCODINGS = {
    "dictionary": {},
    "pages of another kind": {"data_page_version": "2.0", "compression": "gzip"},
    "plain": {"use_dictionary": False, "compression": "brotli"},
    "lengths": {"use_dictionary": False, "column_encoding": {"k": "DELTA_LENGTH_BYTE_ARRAY"}},
    "split": {"use_dictionary": ["k"], "column_encoding": {"v": "BYTE_STREAM_SPLIT"}},
    "indexed": {"write_page_index": True, "write_page_checksum": True, "data_page_size": 500},
}


@pytest.mark.thinned("kind", "encoding", every=2)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_files_of_every_encoding_are_read(tmp_path, encoding, kind):
    path = beside(tmp_path / "t.parquet", SIDECAR)
    names = [f"é{k}" for k in range(900)]
    table = pa.table({"k": pa.array(names, kind), "v": np.linspace(-3, 3, 900)})
    pq.write_table(table, path, row_group_size=400, **ENCODINGS[encoding])
    release = read_release(path)
    assert release.labels.to_list() == names
    assert release.values.tolist() == np.linspace(-3, 3, 900).tolist()


@pytest.mark.parametrize("name", ["a", "a.b"])
def test_names_of_columns_with_dots(tmp_path, name):
    path = tmp_path / "t.parquet"
    fields = [{"name": name, "privacy": {"mechanism": "laplace", "scale": 1.0}}]
    beside(path, {"schema": {"fields": fields}})
    bombs.parquet(path, {name: bombs.constant(10**9)}, rows=10**9)
    assert "8000000000" in refused(path)


def test_columns_that_are_not_read_are_not_counted(tmp_path):
    path = beside(tmp_path / "t.parquet", NUMBERS)
    bombs.parquet(path, {"v": bombs.constant(10), "w": bombs.constant(10)}, rows=10)
    assert len(read_release(path, max_bytes=300)) == 10
    with pytest.raises(IncompatibleReleaseError, match="max_bytes"):
        read_release(path, max_bytes=100)


MEMORY = """
import resource, sys
from dpinfer.errors import DPInferError
from dpinfer.estimation._stream_files import read_estimates, read_known, write_known
from dpinfer.releases import read_release, validate_release

most = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (2**32, most))  # whatever happens, the machine lives on

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

read_release(sys.argv[1])
before = peak()
for path in sys.argv[2:]:
    for call in (read_release, validate_release):
        try:
            call(path)
        except DPInferError:
            pass
    print(path, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss differs")
def test_bombs_take_little_memory(tmp_path):
    """Megabytes at the peak of a process that reads them with the default limit."""
    valid = tmp_path / "valid.csv"
    write_release(dpi.Release([1.0], mechanism=dpi.Laplace(scale=1.0)), valid)
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 10**6])
    paths = [beside(tmp_path / f"{k}.parquet", NUMBERS) for k in range(3)]
    bombs.parquet(paths[0], {"v": bombs.constant(10**9)}, rows=10**9)
    bombs.parquet(paths[1], {"v": bombs.constant(3)}, rows=10**9)
    pq.write_table(pa.table({"v": names}), paths[2])
    paths.append(beside(tmp_path / "text.parquet", SIDECAR))
    pq.write_table(pa.table({"k": names, "v": np.zeros(100_000)}), paths[-1])
    code = [sys.executable, "-c", MEMORY, str(valid), *map(str, paths)]
    run = subprocess.run(code, capture_output=True, text=True, check=True)
    peaks = [float(line.split()[-1]) for line in run.stdout.splitlines()]
    assert len(peaks) == len(paths)
    assert max(peaks) < 150, run.stdout


def least_squares(path, content):
    """Write a file compressed as its ending says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table", content)
        return path
    makers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".txt": bytes}
    makers[".zst"] = lambda data: pa.compress(data, "zstd", asbytes=True)
    path.write_bytes(makers[path.suffix](content))
    return path


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip", "zst", "txt"])
def test_least_squares_of_any_compression(tmp_path, ending):
    lines = b"".join(b"%015d|P0010001|5.5|2|x\n" % k for k in range(20_000))
    path = least_squares(tmp_path / f"t.{ending}", LEAST_SQUARES + lines)
    assert len(read_census_least_squares(path)) == 20_000
    with pytest.raises(IncompatibleReleaseError, match=f"t.{ending}: this file of .* max_bytes"):
        read_census_least_squares(path, max_bytes=len(lines) // 2)
    content = path.read_bytes()
    if ending != "txt":
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(IncompatibleReleaseError, match="must be a table of columns"):
            read_census_least_squares(path)


def test_least_squares_of_short_cells(tmp_path):
    """Each cell is an object of many bytes, which count as well."""
    lines = LEAST_SQUARES + b"1|2|3|4|5\n" * 50_000
    path = least_squares(tmp_path / "t.txt", lines)
    with pytest.raises(IncompatibleReleaseError, match="max_bytes"):
        read_census_least_squares(path, max_bytes=len(lines) + 1)


def test_least_squares_with_a_first_line_without_end(tmp_path):
    path = least_squares(tmp_path / "t.gz", b"a|" * 5000)
    with pytest.raises(IncompatibleReleaseError, match="the first line has more than 4096 bytes"):
        read_census_least_squares(path)


def test_archives_of_more_than_one_file(tmp_path):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", LEAST_SQUARES)
        archive.writestr("b", LEAST_SQUARES)
    with pytest.raises(IncompatibleReleaseError, match="must hold one file, got 2"):
        read_census_least_squares(path)


def census_file(tmp_path, table, kind="DPQuery"):
    """Write a folder of one file."""
    root = tmp_path / "files"
    folder = root / "State.parquet" / kind / "State=001"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-0.parquet")
    return root


ROW = {
    "geocode": pa.array(["001"]),
    "query_name": pa.array(["total_dpq"]),
    "query_shape": pa.array([[1, 1, 1, 1]]),
    "value": pa.array([[5]]),
    "variance": pa.array([2.0]),
}


def readers(root):
    """Return calls that read all of a folder of census files, with options."""
    return (
        lambda **options: census_codes(root, "State", **options),
        lambda **options: list(read_census_rows(root, product="pl94", **options)),
        lambda **options: read_census_measurements(root, **options),
    )


def test_census_files_are_bounded(tmp_path):
    """A row of three million zeros in 10 kB, and a thousand million rows in 200 bytes."""
    zeros = ROW | {"value": pa.array([np.zeros(3_000_000, int)])}
    root = census_file(tmp_path, pa.table(zeros))
    file = next(root.rglob("part-0.parquet"))
    assert file.stat().st_size < 30_000
    for call in readers(root)[1:]:
        with pytest.raises(IncompatibleReleaseError, match=r"State=001.*: this file .* max_bytes"):
            call(max_bytes=2**20)
        with pytest.raises(IncompatibleReleaseError, match="must have 1 values"):
            call()
    names = ("geocode", "query_name", "query_shape", "value", "variance")
    bombs.parquet(file, {name: bombs.constant(10**9) for name in names}, rows=10**9)
    for call in readers(root):
        with pytest.raises(IncompatibleReleaseError, match=r"State=001.* max_bytes"):
            call()
        with pytest.raises(InvalidParameterError, match="max_bytes must be"):
            call(max_bytes=0)


def test_codes_that_are_missing(tmp_path):
    root = census_file(tmp_path, pa.table(ROW | {"geocode": pa.array([None], pa.string())}))
    with pytest.raises(IncompatibleReleaseError, match="codes begin with '001', got None"):
        census_codes(root, "State")
    for call in readers(root)[1:]:
        with pytest.raises(IncompatibleReleaseError, match="no missing values in geocode"):
            call()


def test_long_names_in_census_files(tmp_path):
    for name in ("geocode", "query_name"):
        table = pa.table(ROW | {name: pa.array(["001" + "x" * 2000])})
        root = census_file(tmp_path / name, table)
        for call in readers(root)[name == "query_name" :]:
            with pytest.raises(IncompatibleReleaseError, match="at most 1000 bytes, got 2003"):
                call()


KINDS = {
    "int": pa.array([7]),
    "float": pa.array([0.5]),
    "text": pa.array(["001"]),
    "null": pa.array([None]),
    "no text": pa.array([None], pa.string()),
    "bytes": pa.array([b"\xff"]),
    "list": pa.array([[1, 1, 1, 1]]),
    "texts": pa.array([["a"]]),
    "floats": pa.array([[0.5]]),
    "no list": pa.array([None], pa.list_(pa.int32())),
    "empty": pa.array([[]], pa.list_(pa.int32())),
    "nothing in it": pa.array([[None]], pa.list_(pa.int32())),
    "lists": pa.array([[[1]]]),
    "struct": pa.array([{"a": 1}]),
    "time": pa.array([0], pa.timestamp("us")),
    "fixed": pa.array([[1, 1, 1, 1]], pa.list_(pa.int64(), 4)),
    "newline": pa.array(["a\nb\nc"]),
    "bool": pa.array([True]),
}


@pytest.mark.parametrize("name", [*ROW, "sign"])
def test_columns_of_any_type_in_census_files(tmp_path, name):
    kind = "Constraint" if name == "sign" else "DPQuery"
    for number, column in enumerate(KINDS.values()):
        row = {**ROW, "sign": pa.array(["="])} | {name: column}
        root = census_file(tmp_path / str(number), pa.table(row), kind)
        for call in readers(root):
            with suppress(DPInferError):
                call()
            with suppress(DPInferError):
                list(read_census_rows(root, product="pl94", prefix="001"))


def test_parts_of_trees_are_bounded(tmp_path):
    units = dpi.Hierarchy.from_codes(["4", "44"])
    values = dpi.estimation.NoisyMarginal("sex", [[51, 49], [30, 31]], dpi.Gaussian(sigma=2.0))
    dpi.estimation.write_marginals_parquet(tmp_path, "top", units, [values])
    (part,) = dpi.estimation.read_marginals_parquet(tmp_path, max_bytes=10_000).values()
    assert len(part.load()[0]) == 2
    bombs.parquet(tmp_path / "top" / "marginal-0.parquet", {"unit": bombs.constant(10**9)}, rows=1)
    bombs.parquet(tmp_path / "top" / "units.parquet", {"unit": bombs.constant(10**9)}, rows=10**9)
    (part,) = dpi.estimation.read_marginals_parquet(tmp_path).values()
    with pytest.raises(IncompatibleReleaseError, match=r"units.parquet: this file .* max_bytes"):
        part.load()
    with pytest.raises(InvalidParameterError, match="max_bytes must be"):
        dpi.estimation.read_marginals_parquet(tmp_path, max_bytes=0)


def test_cells_after_the_first_part_are_not_looked_at_one_by_one(tmp_path, monkeypatch):
    """The problem is still found, as Arrow says it."""
    for name, ending in (("tables", "csv"), ("parquet", "parquet")):
        monkeypatch.setattr(f"dpinfer.releases.{name}.MOST_TEXT", 20_000)
        path = beside(tmp_path / f"t.{ending}", SIDECAR)
        labels = [f"label {k}" for k in range(100_000)]
        values = ["1"] * 99_999 + ["x"]
        if ending == "csv":
            rows = zip(labels, values, strict=True)
            path.write_text("k,v\n" + "".join(f"{label},{value}\n" for label, value in rows))
        else:
            pq.write_table(pa.table({"k": labels, "v": values}), path)
        assert "line" not in _first(path)
        assert "'x'" in _first(path)
        values[0] = "y"
        if ending == "parquet":
            pq.write_table(pa.table({"k": labels, "v": values}), path)
            assert "line 1, column v: must be a finite number, got 'y'" in _first(path)


def test_rows_of_another_length_are_counted(tmp_path):
    path = beside(tmp_path / "t.csv", SIDECAR)
    path.write_text("k,v\na,1\n" + "b\n" * 300 + "c,2\n")
    problems = validate_release(path)
    assert len(problems) == 101
    assert str(problems[0]) == "t.csv, line 3: must have 2 cells, got 1"
    assert str(problems[-1]) == "t.csv: must have 2 cells, in 200 more rows"


def test_letters_that_lie_in_two_pieces(tmp_path, monkeypatch):
    """The line of a byte that is no UTF-8 is right wherever the pieces begin."""
    path = beside(tmp_path / "t.csv", SIDECAR)
    for size in range(1, 12):
        monkeypatch.setattr("dpinfer.releases.tables.CHUNK", size)
        path.write_bytes("k,v\né,1\n€,2\n𝄞,3\n".encode() + b"\xe9,4\n")
        assert _first(path).startswith("t.csv, line 5: must be UTF-8 text")
        path.write_bytes("k,v\né,1\n€,2\n𝄞,x\n".encode())
        assert "line 4, column v" in _first(path)
    path.write_bytes(b"k,v\na,1\n" + "€".encode()[:2])
    assert _first(path).startswith("t.csv, line 3: must be UTF-8 text")


def test_a_header_longer_than_arrow_reads(tmp_path):
    path = beside(tmp_path / "t.csv", SIDECAR)
    path.write_text("k,v," + ",".join(f"column{k}" for k in range(150_000)) + "\n")
    with pytest.raises(IncompatibleReleaseError, match=r"t\.csv"):
        read_release(path)


def with_footer(path, fields):
    """Write a file that has nothing but an end, which says these fields."""
    footer = fields if isinstance(fields, bytes) else bombs.thrift(fields)
    path.write_bytes(bombs.MAGIC + footer + len(footer).to_bytes(4, "little") + bombs.MAGIC)
    return path


SCHEMA = [{4: b"schema", 5: 1}, {1: bombs.DOUBLE, 3: 0, 4: b"v"}]
CHUNK = {3: {5: bombs.I64(3), 7: bombs.I64(9), 9: bombs.I64(4)}}


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        {},
        {2: []},
        {2: [1, 2]},
        {2: [{4: b"schema", 5: 2}, *SCHEMA[1:]], 4: [{1: [CHUNK], 3: 3}]},
        {2: SCHEMA, 4: [{1: [CHUNK] * 2, 3: bombs.I64(3)}]},
        {2: SCHEMA, 4: [{1: [CHUNK], 3: bombs.I64(-3)}]},
        {2: [{4: b"schema", 5: 0}, *SCHEMA[1:]]},
        b"\x29\xfc\xff\xff\xff\x7f",
    ],
)
def test_ends_of_files_that_cannot_be_read(tmp_path, fields):
    path = with_footer(tmp_path / "t.parquet", fields)
    with pytest.raises(BrokenParquetError, match="cannot be read"):
        read_footer(path)
    with pytest.raises(IncompatibleReleaseError, match="must be a Parquet file"):
        read_release(beside(path, NUMBERS))


def test_files_that_do_not_end_like_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    for content in (b"", b"PAR1", b"PAR1\xff\0\0\0PAR1", b"PAR1\0\0\0\0PARE", b"x" * 40):
        path.write_bytes(content)
        with pytest.raises(BrokenParquetError, match="no Parquet file ends like this"):
            read_footer(path)
    with path.open("wb") as file:  # of 17 MB of nothing, which takes no room on the disk
        file.truncate(17 * 2**20)
        file.seek(0, 2)
        file.write((2**24 + 1).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(BrokenParquetError, match="more than 16777216"):
        read_footer(path)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.binary(max_size=60))
def test_any_bytes_as_the_end_of_a_file(tmp_path_factory, content):
    path = with_footer(tmp_path_factory.getbasetemp() / "end.parquet", content)
    with suppress(BrokenParquetError):
        read_footer(path)


def test_files_of_a_plan_take_no_more_memory_than_they_hold(tmp_path):
    """A terabyte of zeros that a header promises, and a megabyte in an archive of a kilobyte."""
    path = tmp_path / "known.npy"
    write_known(path, np.array([1, 2]), {"a": np.zeros(3)})
    labels, found = read_known(path)
    assert labels.tolist() == [1, 2]
    assert found["a"].tolist() == [0.0, 0.0, 0.0]
    content = path.read_bytes()
    vast = content.replace(b"'shape': (3,), }" + b" " * 11, b"'shape': (300000000000,), }")
    assert len(vast) == len(content)
    assert vast != content
    path.write_bytes(vast)
    with pytest.raises(InvalidParameterError, match=r"known.npy is damaged: an array in it is lar"):
        read_known(path)
    np.savez_compressed(path.with_suffix(".npz"), labels=np.array([1, 2]), a=np.zeros(2**17))
    archive = path.with_suffix(".npz").read_bytes()
    for broken in (b"", content[:50], content[:-8], archive):
        path.write_bytes(broken)
        with pytest.raises(InvalidParameterError, match=r"known.npy is damaged"):
            read_known(path)


def test_estimates_of_a_plan_are_bounded(tmp_path):
    path = tmp_path / "top.parquet"
    bombs.parquet(path, {"unit": bombs.constant(10**9)}, rows=10**9)
    path.with_name("top.parquet.sha256").write_text(sha256(path.read_bytes()).hexdigest())
    with pytest.raises(IncompatibleReleaseError, match="max_bytes"):
        read_estimates([path], [])


def test_a_sidecar_of_many_small_parts_is_not_parsed(tmp_path):
    path = beside(tmp_path / "t.csv", NUMBERS)
    path.write_text("v\n1\n2\n")
    dump = json.dumps(NUMBERS)
    place = default_sidecar(path)
    place.write_text(f'{dump[:-1]}, "x": [{"[]," * 8_000_000}[]]}}')
    message = _sidecar_refused(path)
    assert "may take at most 268435456" in message
    place.write_text(f'{dump[:-1]}, "x": [{"[]," * 30_000}[]]}}')
    assert len(read_release(path)) == 2
    assert "may take at most 1048576" in _sidecar_refused(path, max_bytes=300)


def test_a_sidecar_that_states_more_cells_than_fit(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("v\n1\n2\n")
    queries = {"cells": 2**28, "row": [0, 1], "cell": [0, 1], "coefficient": [1, 1]}
    beside(path, NUMBERS | {"workload": queries})
    assert f"takes {2**32} bytes" in _sidecar_refused(path)
    assert read_release(path, max_bytes=2**32).workload.shape == (2, 2**28)
    beside(path, NUMBERS | {"workload": queries | {"cells": 2.0, "row": [0.0, 1.0]}})
    assert read_release(path).workload.shape == (2, 2)  # 2.0 is a whole number in JSON


def test_a_sidecar_of_very_many_coefficients(tmp_path, monkeypatch):
    rules, checks = type(sidecar_format.schema_validator()), []
    descend = rules.descend

    def counted(self, item, *args, **kwargs):
        checks.append(item)
        return descend(self, item, *args, **kwargs)

    monkeypatch.setattr(rules, "descend", counted)
    path = tmp_path / "t.csv"
    path.write_text("v\n1\n2\n")

    def queries(size):
        cells = list(range(size))
        labels = [[f"a{cell}", cell] for cell in cells]
        found = {"cells": size, "row": [1] * size, "cell": cells, "coefficient": [1] * size}
        return found | {"labels": labels}

    beside(path, NUMBERS | {"workload": queries(20_000)})
    assert read_release(path).workload.matrix.nnz == 20_000
    assert 0 < len(checks) < 200  # of places in the schema, not of each number
    wrong = queries(10_000)
    wrong["cell"] = [-1] * 10_000
    wrong["labels"][7] = ["a7"]
    wrong["coefficient"][-1] = None
    beside(path, NUMBERS | {"workload": wrong})
    fields = [problem.field for problem in validate_release(path)]
    assert fields == [
        *(f"workload/cell/{at}" for at in range(5)),
        "workload/coefficient/9999",
        "workload/labels/7",
    ]


def test_cells_that_look_like_no_number_are_not_tried(tmp_path, monkeypatch):
    tried, to_numeric = [], pd.to_numeric

    def counted(cells, **kwargs):
        tried.extend(cells)
        return to_numeric(cells, **kwargs)

    monkeypatch.setattr(pd, "to_numeric", counted)
    path = beside(tmp_path / "t.csv", NUMBERS)
    path.write_text("v\n" + "x\n" * 20_000 + "1e3\n")
    problems = validate_release(path)
    assert tried == ["1e3"]
    assert str(problems[0]) == "t.csv, line 2, column v: must be a finite number, got 'x'"
    assert str(problems[-1]).endswith("in 19995 more rows")


def test_a_column_that_is_in_a_parquet_file_twice(tmp_path):
    path = beside(tmp_path / "t.parquet", NUMBERS)
    two = pa.array([1.0, 2.0])
    pq.write_table(pa.table([two, two, two], names=["w", "v", "w"]), path)
    assert read_release(path).values.tolist() == [1.0, 2.0]  # of the other nothing is read
    pq.write_table(pa.table([two, two, two], names=["w", "v", "v"]), path)
    assert refused(path) == "t.parquet, column v: the column is there twice"


def _sidecar_refused(path, **options):
    """Return the message of the refusal of a sidecar, which both readers give."""
    with pytest.raises(IncompatibleReleaseError) as caught:
        read_release(path, **options)
    (problem,) = validate_release(path, **options)
    place = default_sidecar(path)
    assert str(problem) == str(caught.value).replace(str(place), place.name)
    return str(caught.value)
