import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import IncompatibleReleaseError
from dpinfer.releases._files.json_document import JsonDocument, load_json, locate_parts
from dpinfer.releases._files.limits import Limit

TEXT = """{
  "name": "a \\"b\\" [{,:",
  "fields": [
    1,
    {"x":
       null, "y": []},
    "z"
  ],
  "empty": {},
  "last": true
}
"""


def test_lines_of_parts(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(TEXT)
    document = load_json(path, Limit(path, 2**28))
    assert document.content == json.loads(TEXT)
    for pointer, line in {
        (): 1,
        ("name",): 2,
        ("fields",): 3,
        ("fields", 0): 4,
        ("fields", 1): 5,
        ("fields", 1, "x"): 5,
        ("fields", 1, "y"): 6,
        ("fields", 2): 7,
        ("empty",): 9,
        ("last",): 10,
        ("last", "not there"): 10,
        ("nothing",): 1,
    }.items():
        assert document.line(pointer) == line


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


def parts(value, pointer=()):
    yield pointer
    members = value if isinstance(value, dict) else {}
    members = dict(enumerate(value)) if isinstance(value, list) else members
    for key, inner in members.items():
        yield from parts(inner, (*pointer, key))


@settings(derandomize=True, deadline=None)
@given(json_values, st.booleans())
def test_every_part_is_found_and_no_other(value, ascii_only):
    text = json.dumps(value, indent=1, ensure_ascii=ascii_only)
    assert set(locate_parts(text)) == set(parts(value))
    compact = json.dumps(value, ensure_ascii=ascii_only)
    assert set(locate_parts(compact).values()) == {1}


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
    ],
)
def test_what_is_not_json_is_refused(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(IncompatibleReleaseError, match=message) as caught:
        load_json(path, Limit(path, 2**28))
    assert "\n" not in str(caught.value)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(IncompatibleReleaseError, match="cannot be read"):
        load_json(tmp_path, Limit(tmp_path, 2**28))


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert load_json(path, Limit(path, 2**28)).content == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": "\\ud800"}', "one half of a character"),
        ('{"a": 1e999}', "beyond the range of float64"),
        ('{"a": 1' + "0" * 400 + "}", "beyond the range of float64"),
    ],
)
def test_what_no_table_can_hold_is_refused(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(IncompatibleReleaseError, match=message):
        load_json(path, Limit(path, 2**28))


def test_parts_after_very_many_are_found_by_what_they_are_in(monkeypatch):
    monkeypatch.setattr("dpinfer.releases._files.json_document.MOST_PARTS", 5)
    text = '{"a": [\n' + ",\n".join(map(str, range(20))) + "\n]}"
    document = JsonDocument(json.loads(text), text)
    assert document.line(("a", 2)) == 4
    assert document.line(("a", 19)) == 1


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}"), ('[{"[\\"":', "}]")])
def test_how_deep_parts_may_be(tmp_path, left, right):
    path = tmp_path / "a.json"
    each = left.count("[") + left.count("{") - left.count('"[')
    for deep, taken in ((64, True), (66, False), (975, False), (200_000, False)):
        path.write_text(left * (deep // each) + "0" + right * (deep // each))
        if taken:
            load_json(path, Limit(path, 2**28))
        else:
            with pytest.raises(IncompatibleReleaseError, match="nested more than 64 deep"):
                load_json(path, Limit(path, 2**28))


def test_brackets_in_texts_are_not_counted(tmp_path):
    path = tmp_path / "a.json"
    for text in ("[" * 1000, '"' * 1000, "\\" * 999, "\\[" * 500):
        path.write_text(json.dumps({"a": text}))
        assert load_json(path, Limit(path, 2**20)).content == {"a": text}
    for broken in ('"' + '\\"' * 10**6, '"' + "\\" * (10**6 + 1), '"[' * 10**6):
        path.write_text(broken)
        with pytest.raises(IncompatibleReleaseError, match=r"not JSON|64 deep"):
            load_json(path, Limit(path, 2**28))
