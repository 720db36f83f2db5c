"""Sidecars as JSON: the lines of what is wrong in them, and what is no JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.releases import read_release, validate_release

GOOD = {
    "schema": {"fields": [{"name": "v", "privacy": {"mechanism": "laplace", "scale": 2.0}}]},
}
HEAD = json.dumps(GOOD)[:-1] + ', "x": '
TEXT = """{
  "name": "a \\"b\\" [{,:",
  "schema": {
    "fields": [
      {"name": "w"},
      {"name":
         "v", "privacy": {
           "mechanism": 7,
           "scale": {"column": 3}}},
      {"name": "u", "privacy": [
        {}
      ]}
    ]
  },
  "more": {}
}
"""


def table(folder, sidecar):
    """Return the path of a table of two values, with this beside it."""
    path = folder / "t.csv"
    path.write_text("v\n1\n2\n")
    place = folder / "t.csv-metadata.json"
    if isinstance(sidecar, bytes):
        place.write_bytes(sidecar)
    else:
        place.write_text(sidecar, encoding="utf-8")
    return path


def refused(path):
    with pytest.raises((IncompatibleReleaseError, InvalidParameterError)) as caught:
        read_release(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_lines_of_parts(tmp_path):
    problems = [str(problem) for problem in validate_release(table(tmp_path, TEXT))]
    for line, field in ((8, "1/privacy/mechanism"), (9, "1/privacy/scale"), (10, "2/privacy")):
        assert any(f"line {line}, schema/fields/{field}" in said for said in problems), problems


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_the_line_of_a_part_after_and_before_any_others(
    tmp_path_factory, value, ascii_only, indent
):
    wrong = {"name": "v", "privacy": {"mechanism": "laplace", "scale": -12345}}
    document = {"x": value, "schema": {"fields": [wrong]}, "y": value}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    path = table(tmp_path_factory.getbasetemp(), text)
    (problem,) = validate_release(path)
    assert problem.field == "schema/fields/0/privacy/scale"
    line = text[: text.index("-12345")].count("\n") + 1
    assert f"line {line}, schema/fields/0/privacy/scale" in str(problem)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1: not JSON"),
        (b'{\n"a": 1,\n}', "line 3: not JSON"),
        (b"", "line 1: not JSON"),
        (b"\xff", "must be UTF-8"),
        (b'{"a": 1, "a": 2}', "'a' is there twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b"[" * 10**5, "nested more than 64 deep"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not JSON"),
        (b'{"a": "\\ud800"}', "one half of a character"),
        (b'{"a": 1e999}', "beyond the range of float64"),
        (b'{"a": 1' + b"0" * 400 + b"}", "beyond the range of float64"),
    ],
    ids=range(12),
)
def test_what_is_not_json_is_refused(tmp_path, content, message):
    assert message in refused(table(tmp_path, content))


def test_a_directory_is_refused(tmp_path):
    path = table(tmp_path, "")
    (tmp_path / "t.csv-metadata.json").unlink()
    (tmp_path / "t.csv-metadata.json").mkdir()
    message = refused(path)
    assert "there is no file" in message
    assert "dpinfer init" in message


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = table(tmp_path, b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert read_release(path).values.tolist() == [1, 2]


def test_parts_after_very_many_are_found_by_what_they_are_in(tmp_path, monkeypatch):
    monkeypatch.setattr("dpinfer.releases.sidecar.MOST_PARTS", 2**10)
    many = ",\n".join(["0"] * (2**10 + 10))
    path = table(tmp_path, f'{{"schema": {{"fields": 3}},\n"x": [{many}],\n"workload": 3}}')
    said = {problem.field: str(problem) for problem in validate_release(path)}
    assert "line 1," in said["schema/fields"]
    assert "line 1," in said["workload"]


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}"), ('[{"[\\"":', "}]")])
def test_how_deep_parts_may_be(tmp_path, left, right):
    each = left.count("[") + left.count("{") - left.count('"[')
    # the document is one deep itself
    for deep, taken in ((62, True), (66, False), (975, False), (200_000, False)):
        inner = left * (deep // each) + "0" + right * (deep // each)
        path = table(tmp_path, f"{HEAD}{inner}}}")
        if taken:
            assert len(read_release(path)) == 2
        else:
            assert "nested more than 64 deep" in refused(path)


def test_brackets_in_texts_are_not_counted(tmp_path):
    for text in ("[" * 1000, '"' * 1000, "\\" * 999, "\\[" * 500):
        assert len(read_release(table(tmp_path, json.dumps(GOOD | {"x": text})))) == 2
    for broken in ('"' + '\\"' * 10**6, '"' + "\\" * (10**6 + 1), '"[' * 10**6):
        message = refused(table(tmp_path, HEAD + broken))
        assert "not JSON" in message or "64 deep" in message
