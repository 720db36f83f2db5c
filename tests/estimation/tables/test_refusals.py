"""What estimates of tables refuse, and how they say so."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation import NoisyMarginal, StructuralZeros, combine_marginals
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace
from dpinfer.queries import Domain

DOMAIN = Domain({"sex": ["F", "M"], "race": ["a", "b", "c"], "adult": [False, True]})
NOISE = Gaussian(sigma=2.0)
TWO = [-1, 0]
ONES = NoisyMarginal("sex", np.ones((2, 2)), NOISE)


def marginal(attributes="sex", values=((1.0, 2.0), (3.0, 4.0)), mechanism=NOISE, units=None):
    return NoisyMarginal(attributes, values, mechanism, units)


@pytest.mark.parametrize(
    ("marginals", "options", "message"),
    [
        ([], {}, "at least one NoisyMarginal"),
        (3, {}, "marginals must be a sequence of NoisyMarginals"),
        ([3], {}, "marginals must hold NoisyMarginals"),
        (ONES, {"domain": 3}, "domain must be a Domain"),
        (ONES, {"domain": Domain({f"x{i}": [0, 1] for i in range(17)})}, "at most 16 attributes"),
        (
            ONES,
            {"domain": Domain({"x": range(2**14), "y": range(2**14)}), "hierarchy": [-1] * 200},
            "cells in all",
        ),
        (
            ONES,
            {"domain": Domain({"x": range(2000)}), "zeros": [StructuralZeros({"x": 1})]},
            "at most 1024 joint levels",
        ),
        (ONES, {"hierarchy": None}, "parent must"),
        (ONES, {"unestimable": "drop"}, "unestimable must be"),
        (marginal("age"), {}, "attributes must be among"),
        (marginal(["sex", "sex"]), {}, "named once"),
        (marginal(3), {}, "attributes must be a sequence"),
        (marginal(values=[1.0, 2.0]), {}, r"must have the shape \(units, 2\)"),
        (marginal(values=np.ones((2, 3))), {}, r"must have the shape \(units, 2\)"),
        (marginal(values=np.ones((3, 2))), {}, "values must have 2 entries"),
        (marginal(values=np.ones((0, 2))), {}, "must hold|must have the shape"),
        (marginal(values=[[1.0, np.nan], [1.0, 2.0]]), {}, "must not contain NaN"),
        (marginal(values=np.array([[1.0, 2.0], [1.0, np.nan]])), {}, "got nan in unit 1"),
        (marginal(values=np.array([[1.0, np.inf], [1.0, 2.0]])), {}, "got inf in unit 0"),
        (
            marginal(values=np.array([[1.0, 2.0], [1.0, -1e300]])),
            {},
            r"within ±1e\+100, got -1e\+300 in unit 1",
        ),
        (marginal(values=np.ones((2, 2), dtype=complex)), {}, "must be real"),
        (marginal(values=np.ones((2, 2), dtype=bool)), {}, "must hold real numbers"),
        (marginal(values=np.ma.array(np.ones((2, 2)), mask=np.eye(2))), {}, "masked values"),
        (marginal(mechanism=3), {}, "mechanism must be a noise law"),
        (marginal(mechanism=[NOISE]), {}, "one for each of the 2 values"),
        (marginal(mechanism=Laplace(scale=1e60)), {}, "variances of 0"),
        (marginal(units=[0]), {}, "units must have 2 entries"),
        (marginal(units=[0, 0]), {}, "units must be named once"),
        (marginal(units=[0, 5]), {}, "units must hold positions"),
        (ONES, {"groupings": 3}, "groupings must be a mapping"),
        (ONES, {"groupings": {"g": "race"}}, "must map 'g' to a pair"),
        (ONES, {"groupings": {"g": ("race", {"a": 1})}}, "a group to each level of race"),
        (ONES, {"groupings": {"sex": ("race", {})}}, "names of their own"),
        (ONES, {"groupings": {"g": ("age", {})}}, "attributes must be among"),
        (ONES, {"zeros": 3}, "zeros must be a sequence"),
        (ONES, {"zeros": [3]}, "zeros must hold StructuralZeros"),
        (ONES, {"zeros": StructuralZeros({})}, "zeros must hold StructuralZeros"),
        (ONES, {"zeros": StructuralZeros({"age": 1})}, "attributes must be among"),
        (ONES, {"zeros": StructuralZeros({"sex": "X"})}, "zeros must name levels of sex"),
        (ONES, {"zeros": StructuralZeros({"sex": "M"}, [4])}, "units of zeros must hold"),
        (ONES, {"zeros": StructuralZeros({"adult": 1})}, "zeros must name levels of adult"),
        (
            ONES,
            {
                "domain": Domain({"sex": ["F", "M"], "n": [0, 1]}),
                "zeros": StructuralZeros({"n": True}),
            },
            "zeros must name levels of n",
        ),
    ],
)
def test_bad_arguments_are_refused(marginals, options, message):
    arguments = {"hierarchy": TWO, "domain": DOMAIN, **options}
    with pytest.raises(InvalidParameterError, match=message):
        combine_marginals(marginals, **arguments)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.DataFrame(np.ones((2, 2)), columns=["F", "X"]), "a column for each of"),
        (pd.DataFrame(np.ones((2, 3)), columns=["F", "M", "M"]), "a column for each of"),
        (pd.DataFrame(np.ones((1, 2)), index=["q"], columns=["F", "M"]), "units must name units"),
        (pd.Series([1.0, 2.0], index=["x", "y"]), "labelled by unit and then by the level"),
        (
            pd.Series([1.0, 2.0], pd.MultiIndex.from_tuples([("x", "F"), ("y", "F")])),
            "each of its 2 cells once",
        ),
        (
            pd.Series([1.0, 2.0], pd.MultiIndex.from_tuples([("x", "F"), ("x", "Q")])),
            "sex must be one of",
        ),
    ],
)
def test_bad_labels_are_refused(values, message):
    with pytest.raises(InvalidParameterError, match=message):
        combine_marginals(NoisyMarginal("sex", values, NOISE), {"x": None, "y": "x"}, domain=DOMAIN)


@pytest.mark.parametrize("block", [False, True])
def test_exact_values_that_contradict_are_named(block):
    options = {"zeros": [StructuralZeros({"adult": True}, [])]} if block else {}
    exact = Exact()
    inside = [
        NoisyMarginal((), [5.0, 3.0, 2.0], exact),
        NoisyMarginal("sex", [[1.0, 2.0]], exact, units=[1]),
        NoisyMarginal("race", [[1.0, 0.0, 0.0]], exact, units=[2]),
        NoisyMarginal(DOMAIN.attributes, np.ones((3, 2, 3, 2)), NOISE),
    ]
    with pytest.raises(IncompatibleReleaseError, match=r" 2$"):
        combine_marginals(inside, [-1, 0, 0], domain=DOMAIN, **options)
    between = [
        NoisyMarginal((), [7.0, 3.0, 2.0], exact),
        NoisyMarginal("sex", np.ones((3, 2)), NOISE),
    ]
    with pytest.raises(IncompatibleReleaseError, match=r" 0$"):
        combine_marginals(between, [-1, 0, 0], domain=DOMAIN, **options)


def test_questions_are_checked():
    fit = combine_marginals(ONES, TWO, domain=DOMAIN)
    for ask, message in (
        (lambda: fit.marginal("age"), "attributes must be among"),
        (lambda: fit.marginal("sex", [7]), "units must hold positions"),
        (lambda: fit.table(7), "unit must hold positions"),
        (lambda: fit.conf_int("sex", alpha=2.0), "alpha must be"),
        (lambda: fit.conf_int("sex", method="score"), "method must be"),
        (lambda: fit.unit_contrast(0, [1.0], "sex"), "coefficients must have 2 entries"),
        (lambda: fit.unit_contrast(0, {"X": 1.0}, "sex"), "coefficients must be labelled"),
        (lambda: fit.disagreements(0), "most must be"),
        (lambda: fit.consistency_test("chi2"), "method must be|no overlapping"),
    ):
        with pytest.raises(DPInferError, match=message):
            ask()


ODD = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(-5, 5), st.text(max_size=2),
    st.complex_numbers(),
)  # fmt: skip
ROWS = st.lists(st.lists(st.one_of(st.floats(), st.integers(-5, 5)), max_size=3), max_size=3)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.one_of(ODD, st.lists(st.sampled_from(["sex", "race", "g", "x"]), max_size=3)),
    st.one_of(ODD, ROWS, ROWS.filter(bool).map(lambda rows: np.array(rows, dtype=object))),
    st.one_of(ODD, st.lists(st.integers(-2, 4), max_size=4)),
    st.one_of(st.none(), ODD, st.lists(ODD, max_size=4)),
    st.one_of(st.none(), ODD, st.dictionaries(st.sampled_from(["sex", "g", "x"]), ODD)),
)
def test_odd_arguments_end_in_a_clear_error_or_numbers(attributes, values, parent, units, zeros):
    zero = StructuralZeros(zeros) if isinstance(zeros, dict) else zeros
    try:
        one = NoisyMarginal(attributes, values, Geometric(scale=1.0), units)
        fit = combine_marginals(
            one,
            parent,
            domain=DOMAIN,
            groupings={"g": ("race", {"a": 1, "b": 1, "c": 2})},
            zeros=zero,
            unestimable="nan",
        )
        found, spread = fit.marginal(attributes), fit.marginal_bse(attributes)
    except DPInferError:
        return
    assert (np.isnan(found) == np.isinf(spread)).all()
