"""The result of a test as a value."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.results import AsymptoticNull, ExactNull, HypothesisResult


def result(**changes):
    given = {
        "name": "Test of one proportion",
        "statistic": 2.0,
        "pvalue": 0.0455,
        "alternative": "two-sided",
        "method": "normal",
        "null_distribution": AsymptoticNull.normal(),
        "uncertainty": "noise+sampling",
        "nobs": 100,
    }
    return HypothesisResult(**{**given, **changes})


def test_unpacks():
    statistic, pvalue = result()
    assert (statistic, pvalue) == (2.0, 0.0455)


def test_is_immutable():
    held = result(statistic=[1.0, 2.0], pvalue=[0.3, 0.04])
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.pvalue = 0.0
    with pytest.raises(ValueError, match="read-only"):
        held.pvalue[0] = 0.0


def test_labels_travel():
    held = result(statistic=[1.0, 2.0], pvalue=[0.3, 0.04], labels=pd.Index(["a", "b"]))
    assert held.pvalue["b"] == 0.04
    assert list(held.summary_frame().index) == ["a", "b"]
    assert "b" in held.summary()


def test_summary_frame_and_summary_agree():
    held = result(statistic=[1.0, 2.0], pvalue=[0.3, 0.04], mc_error=[0.001, 0.002], notes=("ok",))
    frame = held.summary_frame()
    assert list(frame.columns) == ["statistic", "pvalue", "mc_error"]
    assert frame.attrs["uncertainty"] == "noise+sampling"
    text = held.summary()
    for part in ("noise and sampling", "two-sided", "normal", "100", "0.04", "ok"):
        assert part in text
    assert str(held) == text


def test_mc_error_is_not_shown_where_nothing_was_simulated():
    assert list(result().summary_frame().columns) == ["statistic", "pvalue"]


def test_numbers_of_observations_that_differ():
    held = result(statistic=[1.0, 2.0], pvalue=[0.3, 0.04], nobs=np.array([100, 50]))
    assert "by row" in held.summary()


def test_repr_is_one_line_and_str_is_the_summary():
    one = result()
    assert repr(one) == "HypothesisResult('Test of one proportion', statistic=2, pvalue=0.0455)"
    assert str(one) == one.summary()
    assert repr(result(statistic=[1.0, 2.0], pvalue=[0.3, 0.05])).endswith(", 2 tests)")


def test_observations_are_shown_where_there_are_any():
    assert "Observations:" not in result(nobs=None).summary()
    for size, shown in ((104.286663962062, "about 104.287"), (3e9, "3000000000")):
        assert re.search(f"Observations: +{shown}\\b", result(nobs=size).summary())
    by_row = result(statistic=[1.0, 2.0], pvalue=[0.3, 0.04], nobs=[100, 50])
    assert re.search("Observations: +by row", by_row.summary())


def test_shapes_have_to_fit():
    with pytest.raises(InvalidParameterError, match=r"pvalue must have shape \(2,\), one entry a"):
        result(statistic=[1.0, 2.0], pvalue=[0.1, 0.2, 0.3])
    with pytest.raises(InvalidParameterError, match=r"statistic must have shape \(2,\)"):
        result(statistic=[1.0, 2.0, 3.0], pvalue=0.1, labels=pd.Index(["a", "b"]))


def test_no_pvalue_is_below_its_error():
    null = ExactNull(lambda s: np.exp(-s), lambda s: -np.expm1(-s), error=1e-12)
    given = {"alternative": "larger", "method": "exact", "null_distribution": null}
    one = result(statistic=50.0, pvalue=np.exp(-50.0), **given)
    assert (one.pvalue, one.pvalue_error) == (1e-12, 1e-12)
    assert repr(one).endswith("pvalue < 1e-12)")
    assert one.summary().splitlines()[-2].split()[-2:] == ["<", "1e-12"]
    assert null.pvalue(50.0, "larger") == null.pvalue(700.0, "larger") == 1e-12
    assert null.pvalue(3.0, "larger") == np.exp(-3.0)
    assert null.critical_value(1e-13, "larger") == np.inf
    several = result(statistic=[50.0, 3.0], pvalue=[0.0, 0.04], **given)
    assert several.pvalue.tolist() == [1e-12, 0.04]
    assert "< 1e-12" in several.summary()
    assert "0.04" in several.summary()


def test_errors_of_pvalues_may_depend_on_the_statistic():
    null = ExactNull(np.zeros_like, np.ones_like, error=lambda s: 1e-9 / (1.0 + np.square(s)))
    held = result(statistic=[0.0, 3.0], pvalue=[0.0, 0.5], null_distribution=null)
    np.testing.assert_allclose(held.pvalue_error, [1e-9, 1e-10])
    np.testing.assert_allclose(held.pvalue, [1e-9, 0.5])
