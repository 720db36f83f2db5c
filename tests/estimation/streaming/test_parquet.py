"""Parts in Parquet files: what is written comes back, and what is damaged is named."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpinfer as dpi
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.estimation import NoisyMarginal, read_marginals_parquet, write_marginals_parquet
from dpinfer.queries import Hierarchy

NOISE = dpi.Gaussian(sigma=1.0)
TREE = Hierarchy(pd.Series({"0": None, "01": "0", "02": "0"}), not_exhausted=["0"])
TABLE = np.arange(6.0).reshape(3, 2)


def marginal(attributes="sex", values=TABLE, mechanism=NOISE, units=None):
    return NoisyMarginal(attributes, values, mechanism, units)


def test_what_was_written_comes_back(tmp_path):
    laws = [dpi.Laplace(scale=2.0), dpi.Exact()]
    given = [
        marginal(),
        marginal(("sex", "age"), np.arange(12).reshape(2, 2, 3), laws, ["02", "0"]),
        marginal((), [1.5], dpi.Geometric(scale=3.0), ["01"]),
    ]
    write_marginals_parquet(tmp_path, "top", TREE, iter(given))
    (part,) = read_marginals_parquet(tmp_path).values()
    hierarchy, found, zeros = part.load()
    assert (part.parent, zeros) == (None, None)
    assert hierarchy.labels.tolist() == TREE.labels.tolist()
    np.testing.assert_array_equal(hierarchy.parent, TREE.parent)
    assert hierarchy.not_exhausted.tolist() == ["0"]
    for one, wanted in zip(found, given, strict=True):
        names = wanted.attributes
        assert tuple(one.attributes) == ((names,) if isinstance(names, str) else names)
        np.testing.assert_array_equal(one.values, wanted.values)
        assert one.values.dtype == np.asarray(wanted.values).dtype
        assert (one.units if one.units is None else list(one.units)) == wanted.units
    fits = [
        dpi.combine_marginals(
            marginals,
            TREE,
            domain=dpi.Domain({"sex": ["F", "M"], "age": [1, 2, 3]}),
            unestimable="nan",
        )
        for marginals in (given, found)
    ]
    for names in ((), "sex", "age"):
        np.testing.assert_array_equal(*(fit.marginal(names) for fit in fits))
        np.testing.assert_array_equal(*(fit.marginal_bse(names) for fit in fits))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hierarchy": Hierarchy([-1, 0, 0])}, "hierarchy must be a Hierarchy with labels"),
        ({"hierarchy": [-1]}, "hierarchy must be a Hierarchy with labels"),
        ({"name": ""}, "name must be a str"),
        ({"name": 3}, "name must be a str"),
        ({"parent": ""}, "parent must be a str or None"),
        ({"parent": 3}, "parent must be a str or None"),
        ({"folder": 3}, "folder"),
        ({"marginals": 3}, "marginals must be a sequence of NoisyMarginals"),
        ({"marginals": [3]}, "marginals must hold NoisyMarginals, got 3"),
        ({"marginals": marginal(values=[])}, "values must be arrays of numbers"),
        ({"marginals": marginal(values=3.0)}, "values must be arrays of numbers"),
        ({"marginals": marginal(values=[["a", "b"]] * 3)}, "values must be arrays of numbers"),
        ({"marginals": marginal(values=TABLE[:2])}, "a row for each of 3 units, got 2"),
        ({"marginals": marginal(units=["01"])}, "a row for each of 1 units, got 3"),
        ({"marginals": marginal(units=["03", "0", "01"])}, "units must name units"),
        ({"marginals": marginal(mechanism=3)}, "mechanism"),
        # labels of a table would be lost
        (
            {"marginals": marginal(values=pd.DataFrame(TABLE, TREE.labels[::-1]))},
            "values must be arrays of numbers",
        ),
        (
            {"marginals": marginal(values=pa.table({"M": [1.0] * 3, "F": [2.0] * 3}))},
            "values must be arrays of numbers",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, arguments, message):
    given = {"folder": tmp_path, "name": "top", "hierarchy": TREE, "marginals": [marginal()]}
    with pytest.raises(InvalidParameterError, match=message):
        write_marginals_parquet(**(given | arguments))
    assert not list(tmp_path.glob("**/part.json"))  # nothing that could be read


@pytest.fixture
def written(tmp_path):
    write_marginals_parquet(tmp_path, "top", TREE, marginal())
    return tmp_path / "top"


def load(folder):
    (part,) = read_marginals_parquet(folder.parent).values()
    return part.load()


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[]",
        "3",
        '{"name": "top", "parent": null}',
        '{"name": "top", "parent": null, "marginals": 3}',
        '{"name": "top", "parent": null, "marginals": -1}',
        '{"name": ["top"], "parent": null, "marginals": 1}',
    ],
)
def test_a_damaged_description_is_named(written, said):
    (written / "part.json").write_text(said)
    with pytest.raises(InvalidParameterError, match=r"part.json is damaged: "):
        load(written)


@pytest.mark.parametrize("name", ["units.parquet", "marginal-0.parquet"])
def test_a_damaged_file_is_named(written, name):
    path = written / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidParameterError, match=f"{name} is damaged: "):
        load(written)
    path.unlink()
    with pytest.raises(InvalidParameterError, match="damaged: "):
        load(written)
    parquet.write_table(pa.table({"other": [1]}), path)
    with pytest.raises(InvalidParameterError, match=f"{name} is damaged: "):
        load(written)


@pytest.mark.parametrize(
    ("name", "column", "content"),
    [
        ("units.parquet", "parent", [-1, 0, 7]),
        ("units.parquet", "parent", [-1, 2, 1]),
        ("units.parquet", "unit", ["0", "01", "01"]),
        ("marginal-0.parquet", "unit", [0, 1, 9]),
        ("marginal-0.parquet", "mechanism", ["Gaussian", "Gaussian", "Nothing"]),
        ("marginal-0.parquet", "values", [1.0, 2.0, 3.0]),
    ],
)
def test_other_content_is_named(written, name, column, content):
    path = written / name
    table = parquet.read_table(path)
    at = table.column_names.index(column)
    parquet.write_table(table.set_column(at, column, pa.array(content)), path)
    with pytest.raises(InvalidParameterError, match=f"{name} is damaged: "):
        load(written)


def test_other_attributes_are_named(written):
    path = written / "marginal-0.parquet"
    table = parquet.read_table(path)
    for said in ({"attributes": ["sex"], "shape": [5]}, {"attributes": ["sex"]}, 3):
        parquet.write_table(table.replace_schema_metadata({"dpinfer": json.dumps(said)}), path)
        with pytest.raises(InvalidParameterError, match=r"marginal-0.parquet is damaged: "):
            load(written)


def test_files_larger_than_allowed_are_refused(written):
    (part,) = read_marginals_parquet(written.parent, max_bytes=10).values()
    with pytest.raises(DPInferError, match="max_bytes"):
        part.load()
    (part,) = read_marginals_parquet(written.parent, max_bytes=10**6).values()
    assert len(part.load()[1]) == 1
