"""Bad input meets one clear error: what the checks refuse, and how they say it."""

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer import Domain, Gaussian, Laplace, Release, Tulap, Workload, combine, proportions_ztest
from dpinfer._check import (
    check_array,
    check_broadcast,
    check_flag,
    check_index,
    check_integer,
    check_integer_array,
    check_items,
    check_length,
    check_option,
    check_reps,
    check_rng,
    check_shape,
    one_line,
    require,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError as Refused
from dpinfer.errors import MissingExtraError
from dpinfer.mechanisms import IndependentNoise


class Ratio:
    """Looks like a fraction, and is no number."""

    def __repr__(self):
        return "Ratio()"

    def as_integer_ratio(self):
        return 1, 2


BAD = [
    10**400,
    [10**400, 1],
    np.timedelta64(3, "D"),
    np.ma.array([1.0, 2.0], mask=[False, True]),
    np.longdouble("1e4000"),
    [Decimal("NaN"), 1],
    [Decimal("sNaN"), 1],
    Ratio(),
    [1j],
    ["1"],
    [[1], [1, 2]],
    {"a": 1},
    pd.Series([1, None], dtype="Int64"),
    np.zeros(1, dtype="V4"),
]


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_what_is_no_real_array_is_refused_on_one_line(value):
    with pytest.raises(Refused, match=r"^scale must ") as caught:
        check_array(value, "scale")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "value",
    [Fraction(1, 4), Decimal("0.25"), np.longdouble(0.25), pd.Series([0.25], dtype="Float64")],
)
def test_every_kind_of_real_number_is_taken(value):
    assert check_array(value, "scale").ravel() == [0.25]


class Unreadable:
    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")


def test_arrays_that_fail_and_mixed_objects_are_refused_by_what_is_wrong():
    with pytest.raises(Refused, match=r"scale must be a number or .* no array"):
        check_array(Unreadable(), "scale")
    with pytest.raises(Refused, match="scale must hold real numbers, got None"):
        check_array([1.0, None], "scale")


@pytest.mark.parametrize("kind", [float, int, bool, object, "U3", "datetime64[s]"])
def test_nothing_at_all_is_an_array_where_that_is_allowed(kind):
    empty = np.empty((0, 3), dtype=kind)
    found = check_array(empty, "scale", nonempty=False)
    assert (found.shape, found.dtype) == ((0, 3), np.float64)
    with pytest.raises(Refused, match="scale must hold at least one value, got none"):
        check_array(empty, "scale")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"gt": 2}, "x must be > 2, got 2.0 at position 1"),
        ({"ge": 2.5}, "x must be >= 2.5, got 2.0 at position 1"),
        ({"lt": 3}, "x must be < 3, got 3.0 at position 0"),
        ({"le": 2.5}, "x must be <= 2.5, got 3.0 at position 0"),
        ({"ndim": 0}, r"x must be a number, got shape \(2,\)"),
        ({"ndim": 2}, r"x must be two-dimensional, got shape \(2,\)"),
    ],
)
def test_bounds_name_the_first_value_beyond_them(bounds, message):
    with pytest.raises(Refused, match=f"^{message}"):
        check_array([3.0, 2.0], "x", **bounds)


def test_whole_numbers():
    assert [check_integer(value, "n") for value in (3, 3.0, np.int8(3), Fraction(3))] == [3] * 4
    np.testing.assert_array_equal(check_integer_array([1.0, 2], "n", ge=1, le=2), [1.0, 2.0])
    for value, message in ((2.5, "n must be a whole number, got 2.5"), (True, "n must hold real")):
        with pytest.raises(Refused, match=message):
            check_integer(value, "n")
    for bounds, message in (({"ge": 4}, "n must be >= 4, got 3"), ({"le": 2}, "n must be <= 2")):
        with pytest.raises(Refused, match=message):
            check_integer(3, "n", **bounds)
    with pytest.raises(Refused, match=r"n must hold whole numbers, got 2\.5 at position \(0, 1\)"):
        check_integer_array([[1.0, 2.5]], "n")


def test_choices():
    assert (check_flag(np.True_, "sure"), check_flag(False, "sure")) == (True, False)
    assert check_option("b", "letter", ["a", "b"]) == "b"
    assert check_items((x for x in "ab"), "letters", "text") == ["a", "b"]
    assert check_length([1, 2], "pair", 2, "two") is None
    for wrong in (1, "yes", None, np.array([True, False])):
        with pytest.raises(Refused, match=r"^sure must be True or False, got "):
            check_flag(wrong, "sure")
        with pytest.raises(Refused, match=r"^letter must be one of 'a', 'b', got "):
            check_option(wrong, "letter", ["a", "b"])
    for wrong in ("ab", b"ab", 3):
        with pytest.raises(Refused, match=r"^letters must be a sequence of text, got "):
            check_items(wrong, "letters", "text")
    with pytest.raises(Refused, match="pair must have 2 entries, one for each of two, got 3"):
        check_length([1, 2, 3], "pair", 2, "two")


def test_check_option_understands_other_words():
    sides = ["two-sided", "larger", "smaller"]
    assert [check_option(word, "side", sides) for word in ("greater", "less")] == sides[1:]
    with pytest.raises(Refused, match="the limit is 'asymptotic'"):
        check_option("normal", "method", ["exact", "asymptotic"])


def test_shapes_that_broadcast():
    assert check_broadcast(x=(3, 1), y=(2,)) == (3, 2)
    with pytest.raises(Refused, match=r"the shapes of x and y must .* got x \(3,\), y \(2,\)"):
        check_broadcast(x=(3,), y=(2,))


def test_what_is_not_installed_is_named_with_its_extra():
    assert require("numpy", "nothing") is np
    with pytest.raises(MissingExtraError, match=r"no_such_module is not .* 'dpinfer\[some\]'"):
        require("no_such_module", "some")


def test_long_lists_are_shortened():
    assert show_some([1, "a"]) == "1, 'a'"
    assert show_some(range(20), 3) == "0, 1, 2, … (20 in all)"
    assert show(10**5000) == "a value of type int"


def test_spans_of_time_are_no_integers():
    for check in (check_rng, lambda value: check_integer(value, "reps"), check_shape):
        with pytest.raises(Refused):
            check(np.timedelta64(3, "D"))


def test_numbers_without_end_are_refused_before_they_are_drawn():
    with pytest.raises(Refused, match="reps must be <= 1000000000"):
        check_reps(10**5000)
    with pytest.raises(Refused, match="size must have at most"):
        Laplace(scale=1.0).rvs((10**10, 10**10))


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers()))
@settings(derandomize=True, deadline=None)
def test_shown_values_are_on_one_short_line_of_utf8(value):
    for text in (show(value), one_line(str(value), 50)):
        assert text.isprintable()
        assert len(text) <= 1000
        text.encode()


@pytest.mark.parametrize("index", [5, [0, 7], [0.5], "a", None, 2**70, [[0], [1, 1]]])
def test_an_index_that_selects_nothing_sensible_is_refused(index):
    law = IndependentNoise([Laplace(scale=1.0), Gaussian(sigma=1.0)])
    with pytest.raises(Refused, match=r"^index must be"):
        law.take(index)
    if index is not None:
        with pytest.raises(Refused, match=r"^index must be"):
            check_index(index, (2,))


@pytest.mark.parametrize("epsilon", [5e-324, 1e308])
def test_budgets_at_the_ends_of_the_floats_are_refused_without_a_warning(epsilon):
    for make in (Laplace.from_epsilon, Tulap.from_epsilon, Gaussian.from_rho, Gaussian.from_mu):
        with pytest.raises(Refused, match=r"must be [<>]= 1e"):
            make(epsilon)


@pytest.mark.parametrize("labels", [np.array(3.0), np.ones((2, 2)), {1, 2}, [[1], "a"]])
def test_labels_that_pandas_cannot_hold_are_refused(labels):
    with pytest.raises(Refused, match=r"^labels must"):
        Workload([[1, 0], [0, 1]], labels=labels)


@pytest.mark.parametrize("level", ["\ud800", (1, 2), [1], np.longdouble(1)])
def test_levels_that_pandas_cannot_hold_are_refused(level):
    with pytest.raises(Refused, match="levels of sex must be scalars"):
        Domain({"sex": [level, "F"]})


@pytest.mark.parametrize("codes", [None, [[0.5]], [[2]], [[-2]], [0], np.zeros((0, 1), int)])
def test_codes_of_no_cell_are_refused(codes):
    with pytest.raises(Refused, match=r"^codes"):
        Workload.from_codes(Domain({"sex": ["F", "M"]}), codes)


def test_codes_cannot_be_changed_from_outside():
    codes = np.array([[0], [1], [-1]], dtype=np.int32)
    workload = Workload.from_codes(Domain({"sex": ["F", "M"]}), codes)
    codes[:] = 0
    assert workload.codes.ravel().tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="read-only"):
        workload.codes[0] = 1


@pytest.mark.parametrize("domain", [None, {}, "sex", {"sex": ["F"]}])
def test_what_is_no_domain_is_refused(domain):
    with pytest.raises(Refused, match=r"^domain must be a Domain"):
        Workload.from_marginals(domain, [()])
    with pytest.raises(Refused, match=r"^domain must be a Domain"):
        Workload.from_predicates(domain, {"all": {}})


def test_a_labelled_mask_in_another_order_is_refused():
    release = Release(pd.Series([1.0, 2.0], index=["a", "b"]), mechanism=Laplace(scale=1.0))
    mask = pd.Series([True, False], index=["a", "b"])
    assert release.select(mask).labels.tolist() == ["a"]
    with pytest.raises(Refused, match="where must be labelled like the values"):
        release.select(mask[::-1])


def _results():
    noise = Laplace(scale=[1.0, 2.0, 3.0])
    known = {"workload": [[1, 0], [0, 1], [1, 1]], "mechanism": noise, "sensitivity": {"l1": 2.0}}
    yield Release(
        [3.0, 5, 9],
        **known,
        clamp=([-500.0, -600, -700], 5000.0),
        threshold=[-500.0, -500, -500],
    )
    fit = combine(Release([3.0, 5, 9], **known))
    yield from (fit.release, fit, fit.clip(lower=0), fit.conf_int(), noise)
    gaussian = combine(
        [1.0, 2, 4], workload=[[1, 0], [0, 1], [1, 1]], mechanism=Gaussian(sigma=1.0)
    )
    yield from (fit.consistency_test(rng=0), gaussian.consistency_test())
    for method in ("exact", "asymptotic", "monte-carlo"):
        yield proportions_ztest(30, 100, 0.3, mechanism=noise.take(0), method=method, rng=0)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_say_the_same_and_stay_read_only(copied):
    for value in _results():
        twin = copied(value)
        assert repr(twin) == repr(value)
        if hasattr(value, "summary"):
            assert twin.summary() == value.summary()
        for name in ("values", "threshold", "scale"):
            if getattr(value, name, None) is not None:
                assert not getattr(twin, name).flags.writeable
        if isinstance(value, Release):
            with pytest.raises(TypeError):
                twin.sensitivity["l1"] = 9.0
