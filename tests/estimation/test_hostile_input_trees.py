"""Bad and odd input to hierarchies and tables of hierarchies: one clear error, or sound numbers."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from dpinfer import Domain, DPInferError, Exact, Gaussian, Geometric, Laplace, combine_hierarchy
from dpinfer.estimation import NoisyMarginal, StructuralZeros, combine_marginals
from dpinfer.queries import Hierarchy

NOISE = Gaussian(sigma=2.0)
LABELLED = Hierarchy({"s": None, "a": "s", "b": "s"})
PLAIN = Hierarchy([-1, 0, 0])
DOMAIN = Domain({"sex": ["F", "M"], "age": [0, 1, 2]})
TABLES = np.arange(18.0).reshape(3, 2, 3)
BY_SEX = TABLES.sum(axis=2)
GROUPING = {0: "minor", 1: "adult", 2: "adult"}

NOT_UNITS = {
    "NaN": np.nan,
    "complex": 1 + 2j,
    "text": "zz",
    "object": object(),
    "class": float,
    "number": 7,
    "too large": 10**400,
    "unsigned": np.array([2**64 - 1], dtype=np.uint64),
    "ragged": [[1, 2], [3]],
    "lists": [["s"], ["a"]],
    "dictionaries": [{}, {}],
    "deep": np.ones((2, 2, 2)),
    "scalar array": np.array(5.0),
    "half precision": np.array([1, 2], dtype=np.float16),
    "long double": np.array([1.5], dtype=np.longdouble),
    "structured": np.zeros(3, dtype=[("a", float)]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "spans": np.array([1], dtype="timedelta64[D]"),
    "masked": np.ma.masked_array([1, 2], mask=[0, 1]),
    "missing": pd.Series([1, None], dtype="Int64"),
    "frame of numbers": pd.DataFrame({"x": [1, 2]}),
    "levels": pd.MultiIndex.from_tuples([(1, 2), (3, 4)]),
    "objects": np.array([1, None], dtype=object),
    "bools": [True, False],
    "unknown": ["zz"],
    "below": [-1],
    "beyond": [3],
    "law": NOISE,
    "NA": pd.NA,
    "NaT": pd.NaT,
}
"""None is a list of units of either hierarchy."""

NO_LIST = {"mapping": {"s": 1.0}, "set": {"s", "a"}, "nothing": None, "text": "s", "one": 0}

NO_NUMBERS = {
    "NaN": [1.0, np.nan, 2.0],
    "infinite": [1.0, -np.inf, 2.0],
    "complex": np.array([1, 2j, 3]),
    "text": ["1", "2", "3"],
    "bools": [True, False, True],
    "objects": np.array([1, None, 2], dtype=object),
    "ragged": [[1, 2], [3]],
    "deep": np.ones((3, 2, 2, 2)),
    "empty": [],
    "too large": [10**400] * 3,
    "out of reach": [1e101] * 3,
    "masked": np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
    "missing": pd.Series([1, None, 3], index=list("sab"), dtype="Int64"),
    "dates": np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
    "structured": np.zeros(3, dtype=[("a", float)]),
    "number": 3.0,
    "nothing": None,
    "object": object(),
    "law": NOISE,
    "set": {1.0, 2.0, 3.0},
    "strings": pd.Series(list("xyz"), index=list("sab")),
}

GOOD_NUMBERS = {
    "read-only": np.broadcast_to(1.0, (3,)),
    "not contiguous": np.arange(9.0)[::3],
    "reversed": np.arange(3.0)[::-1],
    "unsigned": np.array([1, 2, 2**64 - 1], dtype=np.uint64),
    "bytes": np.array([255, 1, 2], dtype=np.uint8),
    "half precision": np.array([1, 2, 3], dtype=np.float16),
    "long double": np.array([1, 2, 3], dtype=np.longdouble),
    "nullable": pd.Series([1, 2, 3], index=list("sab"), dtype="Int64"),
    "nullable float": pd.Series([1.5, 2, 3], index=list("bas"), dtype="Float64"),
    "categorical labels": pd.Series([1, 2, 3], index=pd.CategoricalIndex(list("sab"))),
    "big-endian": np.array([1, 2, 3], dtype=">f8"),
}

NO_LAWS = {
    "nothing": None,
    "text": "laplace",
    "number": 2.0,
    "class": Laplace,
    "none": [],
    "two": [NOISE, NOISE],
    "one missing": [NOISE, None, NOISE],
    "two scales": Laplace(scale=[1.0, 2.0]),
    "tiny": Laplace(scale=1e-60),
    "huge": Gaussian(sigma=1e60),
}

NO_OPTION = [None, 1, "", "Raise", ["raise"], np.array(["normal", "exact"]), np.ones(0), pd.NA]
NO_ALPHA = [0, 1, -0.1, 1.5, np.nan, np.inf, "0.05", True, None, [], [0.1, 0.2], 1j, pd.NA]


def scalar(labelled=True, **changes):
    """Combined estimates of numbers."""
    good = {"values": [10.0, 6.0, 5.0], "parent": LABELLED if labelled else PLAIN}
    return combine_hierarchy(**{"mechanism": NOISE} | good | changes)


def tables(labelled=True, **changes):
    """Combined estimates of tables."""
    hierarchy = LABELLED if labelled else PLAIN
    cells = NoisyMarginal(("sex", "age"), TABLES, NOISE)
    totals = NoisyMarginal((), [15.0, 52.0, 83.0], NOISE)
    good = {"marginals": [cells, totals], "hierarchy": hierarchy, "domain": DOMAIN}
    return combine_marginals(**good | {"groupings": {"adult": ("age", GROUPING)}} | changes)


def marginal(attributes="sex", values=BY_SEX, mechanism=NOISE, units=None, **more):
    """Combined estimates with one marginal more."""
    cells = NoisyMarginal(("sex", "age"), TABLES, NOISE)
    return tables(marginals=[cells, NoisyMarginal(attributes, values, mechanism, units)], **more)


def zeros(levels, units=None, **more):
    """Combined estimates with structural zeros."""
    return tables(zeros=[StructuralZeros(levels, units)], **more)


def totals(values, **more):
    """Combined estimates with totals."""
    return marginal((), values, **more)


FITS = {labelled: (scalar(labelled), tables(labelled)) for labelled in (True, False)}


def refusal(call, *arguments, **named):
    """Return the message with which a call is refused, None if it is not."""
    try:
        call(*arguments, **named)
    except DPInferError as error:
        message = str(error)
    else:
        return None
    assert "\n" not in message
    assert 10 < len(message) < 700
    return message


def assert_sound(fit):
    """Assert that no result of a fit is NaN."""
    if hasattr(fit, "params"):
        found = [fit.params, fit.bse, *fit.conf_int()]
    else:
        found = [fit.marginal("sex"), fit.marginal_bse("age"), *fit.conf_int(("age", "sex"))]
    for values in found:
        assert np.isfinite(np.asarray(values, dtype=float)).all()
    assert 0.0 <= fit.consistency_test(method="asymptotic").pvalue <= 1.0
    assert len(fit.summary()) > 10


def taken(cases, call):
    """Return which cases a call does not refuse."""
    return [name for name, value in cases.items() if refusal(call, value) is None]


@pytest.mark.parametrize("labelled", [True, False])
def test_what_are_no_units_is_refused(labelled):
    numbers, found = FITS[labelled]
    for call in (
        found.hierarchy.positions,
        lambda units: scalar(labelled, units=units),
        lambda units: marginal(units=units, hierarchy=found.hierarchy),
        lambda units: zeros({"age": 0}, units, hierarchy=found.hierarchy),
        lambda units: found.marginal("sex", units),
        lambda units: found.marginal_variance("sex", units),
        lambda units: found.marginal_bse("sex", units),
        lambda units: found.conf_int("sex", units),
        lambda units: found.summary_frame("sex", units),
        lambda units: found.summary("sex", units),
        lambda units: numbers.conf_int(units=units),
        lambda units: Hierarchy(
            pd.Series([None, "s"], index=["s", "a"]) if labelled else [-1, 0], not_exhausted=units
        ),
        numbers.cov_params,
        numbers.weights,
    ):
        assert taken(NOT_UNITS, call) == []
    for call in (found.table, numbers.noise, lambda unit: found.unit_contrast(unit, np.ones(6))):
        assert taken(NOT_UNITS | {"list": ["s"], "none": [], "nothing": None}, call) == []
    assert taken(NO_LIST, found.hierarchy.positions) == []


def test_units_of_any_kind_of_list_are_taken():
    for units in (["b", "s"], ("b", "s"), np.array(["b", "s"]), pd.Index(["b", "s"])):
        np.testing.assert_array_equal(LABELLED.positions(units), [2, 0])
    np.testing.assert_array_equal(LABELLED.positions(iter(["b", "s"])), [2, 0])
    np.testing.assert_array_equal(LABELLED.positions(pd.Categorical(["b", "s"])), [2, 0])
    np.testing.assert_array_equal(PLAIN.positions(unit for unit in (2, 0)), [2, 0])
    assert isinstance(iter([2]), Iterator)
    assert len(FITS[False][1].summary_frame("sex", iter([2]))) == 2
    assert FITS[True][0].weights([]).shape == (0, 3)
    for _, fit in FITS.values():
        for names, shape in (((), (0,)), ("sex", (0, 2))):
            assert fit.marginal(names, []).shape == fit.marginal_bse(names, []).shape == shape
            assert len(fit.summary_frame(names, [])) == fit.conf_int(names, []).lower.size == 0


def test_labels_that_are_tuples_are_units_whole():
    parent = {("A",): None, ("A", "x"): ("A",), ("A", "y"): ("A",)}
    ragged = Hierarchy(parent)
    np.testing.assert_array_equal(ragged.parent, [-1, 0, 0])
    np.testing.assert_array_equal(ragged.positions([("A", "y"), ("A",)]), [2, 0])
    assert Hierarchy(parent, not_exhausted=("A",)).not_exhausted.tolist() == [("A",)]
    index = pd.MultiIndex.from_tuples([("A", 1), ("A", 2), ("B", 1)])
    pairs = Hierarchy(pd.Series([None, ("A", 1), ("A", 1)], index=index))
    np.testing.assert_array_equal(pairs.positions(index[::-1]), [2, 1, 0])
    np.testing.assert_array_equal(pairs.positions([("A", 2)]), [1])
    assert taken(NOT_UNITS, pairs.positions) == []
    lonely = Hierarchy(pd.Series([None, None, None], index=index, dtype=object))
    np.testing.assert_array_equal(lonely.parent, [-1, -1, -1])
    flat = Hierarchy.from_columns(pd.DataFrame({"state": ["A", "B"], "town": [1, 2]}))
    towns = pd.MultiIndex.from_tuples([("B", 2), ("A", 1)])
    np.testing.assert_array_equal(flat.positions(towns), [3, 2])


def test_bad_parents_are_refused():
    cases = {
        "frame": pd.DataFrame({"a": [1, 2]}),
        "dictionaries": {"a": {"b": 1}},
        "lists": {"a": [1]},
        "none": {},
        "doubled": pd.Series([None, "s"], index=["s", "s"]),
        "unknown": {"s": None, "a": "zz"},
        "circle": {"s": "a", "a": "s"},
        "itself": [0],
        "nothing": None,
        "text": "sab",
        "NaN": [-1, np.nan],
        "large": [-1, 1e300],
        "larger": [-1, 10**400],
        "half": [-1, 0.5],
        "below": [-2, 0],
        "bools": [True, False],
        "masked": np.ma.masked_array([-1, 0], mask=[0, 1]),
        "matrix": np.zeros((2, 2)),
        "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
        "object": object(),
    }
    assert taken(cases, Hierarchy) == []
    assert taken(cases, lambda parent: scalar(parent=parent)) == []
    assert taken(cases, lambda parent: tables(hierarchy=parent)) == []
    assert "from_columns" in refusal(Hierarchy, cases["frame"])


def test_bad_codes_and_columns_are_refused():
    table = pd.DataFrame({"a": ["44"]})
    codes = {"array": np.array("44"), "frame": table, "mapping": {"44": 1}, "text": "44"}
    codes |= {"numbers": [44], "none": [], "nothing": None, "missing": ["44", pd.NA]}
    assert taken(codes | {"doubled": ["44", "44"]}, Hierarchy.from_codes) == []
    lengths = {"array": np.array(2), "falling": [5, 2], "text": "25", "NaN": [np.nan], "one": 2}
    lengths |= {"none": [], "below": [-1, 2], "bool": [True, 2], "lists": [[2], [5]]}
    assert taken(lengths, lambda given: Hierarchy.from_codes(["44", "44001"], given)) == []
    columns = {"list": [["A", "x"]], "empty": table[:0], "nothing": None, "series": table["a"]}
    columns |= {"gap": pd.DataFrame({"a": [None], "b": ["x"]}), "mapping": {"a": [1]}}
    assert taken(columns, Hierarchy.from_columns) == []


def test_what_are_no_numbers_is_refused():
    assert taken(NO_NUMBERS, lambda values: scalar(values=values)) == []
    assert taken(NO_NUMBERS, lambda values: marginal(values=values)) == []
    assert taken(NO_NUMBERS, totals) == []
    coefficients = {name: one for name, one in NO_NUMBERS.items() if name != "out of reach"}
    for numbers, found in FITS.values():
        unit = "s" if found.hierarchy.labels is not None else 0
        contrast = lambda given, fit=found, at=unit: fit.unit_contrast(at, given, "age")  # noqa: E731
        assert taken(coefficients, numbers.contrast) == []
        assert taken(coefficients, contrast) == []
        assert "coefficients must" in refusal(found.unit_contrast, unit, [1.0, 2.0])
        assert "weights must" in refusal(numbers.contrast, [1.0])


@pytest.mark.parametrize("kind", GOOD_NUMBERS)
def test_odd_numbers_are_answered(kind):
    assert_sound(scalar(values=GOOD_NUMBERS[kind]))
    assert_sound(totals(GOOD_NUMBERS[kind]))


def test_bad_tables_are_refused():
    good = pd.DataFrame(BY_SEX, index=list("sab"), columns=["F", "M"])
    cells = pd.MultiIndex.from_product([list("sab"), ["F", "M"]])
    long = pd.Series(BY_SEX.ravel(), index=cells)
    cases = {
        "doubled columns": good.set_axis(["F", "F"], axis=1),
        "other columns": good.set_axis(["F", "X"], axis=1),
        "column more": good.assign(X=1.0),
        "doubled units": good.set_axis(list("saa")),
        "other units": good.set_axis(list("sax")),
        "text": good.astype(str),
        "NaN": good.where(good > 3.0),
        "no units": good[:0],
        "short": long[:-1],
        "doubled cell": pd.concat([long[:-1], long[:1]]),
        "without units": long.droplevel(0),
        "transposed": BY_SEX.T,
        "table": TABLES,
    }
    assert taken(cases, lambda values: marginal(values=values)) == []
    assert_sound(marginal(values=good.iloc[[2, 0, 1], ::-1]))
    assert_sound(marginal(values=np.asfortranarray(BY_SEX)))


def test_bad_mechanisms_are_refused():
    assert taken(NO_LAWS, lambda law: scalar(mechanism=law)) == []
    assert taken(NO_LAWS, lambda law: marginal(mechanism=law)) == []
    for law in ([Exact(), NOISE, Geometric(scale=3.0)], Laplace(scale=[1e-40, 1.0, 1e40])):
        assert_sound(scalar(mechanism=law))


def test_bad_schemas_are_refused():
    odd = {"frame": pd.DataFrame({"a": [1]}), "NA": pd.NA, "array": np.ones((2, 2)), "number": 1}
    odd |= {"text": "abc", "object": object(), "ragged": [[1, 2], [3]], "class": float}
    odd |= {"deep": [{}, {}], "none": ("age", {}), "NaN": np.nan}
    for call in (
        lambda given: tables(marginals=given),
        lambda given: tables(marginals=[given]),
        lambda given: tables(domain=given),
        lambda given: tables(groupings=given),
        lambda given: tables(groupings={"adult": given}),
        lambda given: tables(groupings={"adult": (given, GROUPING)}),
        lambda given: tables(groupings={"adult": ("age", given)}),
        lambda given: tables(zeros=given),
        lambda given: zeros(given),
        lambda given: zeros({"sex": given}),
        lambda given: marginal(given),
        lambda given: marginal([given]),
        lambda given: FITS[True][1].marginal(given),
        lambda given: FITS[True][1].conf_int([given]),
    ):
        assert taken(odd, call) == []
    for group in ([1], {}, np.ones(2), pd.Series([1])):
        assert refusal(tables, groupings={"adult": ("age", GROUPING | {0: group})})
    for name in (1, pd.NA, ("a", "b"), "sex", None):
        assert refusal(tables, groupings={name: ("age", GROUPING)})
    assert_sound(zeros({"age": pd.Series([0, 1])}))


def test_bad_settings_are_refused():
    for numbers, found in FITS.values():
        unit = "s" if found.hierarchy.labels is not None else 0
        contrast, function = (
            found.unit_contrast(unit, np.ones(6)),
            numbers.contrast([1.0, 1.0, 1.0]),
        )
        for alpha in NO_ALPHA:
            for call in (found.conf_int, found.summary, numbers.conf_int, numbers.summary):
                assert refusal(call, alpha=alpha)
            assert refusal(contrast.conf_int, alpha=alpha)
            assert refusal(function.conf_int, alpha=alpha)
        for option in NO_OPTION:
            for call in (found.conf_int, numbers.conf_int, numbers.summary, contrast.conf_int):
                assert refusal(call, method=option)
            assert refusal(scalar, unestimable=option)
            assert refusal(tables, unestimable=option)
        for most in (0, -1, 1.5, np.nan, "3", None, [], True):
            assert refusal(found.disagreements, most)
            assert refusal(numbers.disagreements, most)
        for rng in ("seed", -1, 1.5, True, [1]):
            assert refusal(found.consistency_test, "monte-carlo", rng=rng)
            assert refusal(numbers.simulate_errors, 3, rng=rng)


def test_the_test_of_tables_is_exact_for_gaussian_noise_of_each_unit():
    laws = [Gaussian(sigma=1.0), Gaussian(sigma=2.0), Exact()]
    assert marginal(mechanism=laws).consistency_test().method == "exact"
