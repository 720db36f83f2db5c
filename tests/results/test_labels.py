import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.results.labels import split_labels, stack_labels


def test_arrays_have_no_labels():
    values, labels = split_labels([[1, 2], [3, 4]], "count")
    np.testing.assert_array_equal(values, [[1.0, 2.0], [3.0, 4.0]])
    assert labels is None


def test_series_give_their_index():
    series = pd.Series([1.0], index=pd.Index(["a"], name="cell"))
    values, labels = split_labels(series, "count")
    np.testing.assert_array_equal(values, [1.0])
    pd.testing.assert_index_equal(labels, series.index)


def test_frames_are_stacked_as_pandas_stacks_them():
    frame = pd.DataFrame(
        np.arange(8.0).reshape(2, 4),
        index=pd.Index(["F", "M"], name="sex"),
        columns=pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["kind", "wave"]),
    )
    values, labels = split_labels(frame, "count")
    stacked = frame.stack(["kind", "wave"], future_stack=True)  # noqa: PD013
    np.testing.assert_array_equal(values, stacked.to_numpy())
    assert labels.to_list() == stacked.index.to_list() == stack_labels(frame).to_list()
    assert labels.names == ["sex", "kind", "wave"]


def test_bad_values_are_refused_by_name():
    with pytest.raises(InvalidParameterError, match="count must not contain NaN"):
        split_labels(pd.Series([np.nan]), "count")
    with pytest.raises(InvalidParameterError, match="count must hold at least one value"):
        split_labels(pd.DataFrame(), "count")


@pytest.mark.parametrize(
    "labels", [[3, 2, 1], [1.5, np.nan, 2.0], pd.date_range("2020", periods=3)]
)
def test_labels_as_an_index_gives_them_choose_rows(labels):
    values = pd.Series([0.5, 1.5, 2.5], index=pd.Index(labels))
    found = dpi.count_confint(values, mechanism=dpi.Laplace(scale=1.0))
    for at in (0, 2):
        assert found[values.index.to_numpy()[at]].estimate == values.iloc[at]
