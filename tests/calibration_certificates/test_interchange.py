"""Values and answers of polars and pyarrow are certified as those of NumPy and pandas are."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpinfer as dpi
from dpinfer.calibration import certify, certify_interval, certify_test

LAPLACE = dpi.Laplace(scale=4.0)
RUN = {"reps": 200, "rng": 1}


def polars(values):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    return pl.Series("value", list(values))


def arrow(values):
    return pa.array(list(values))


@pytest.fixture(params=[polars, arrow, pd.Series], ids=["polars", "pyarrow", "pandas"])
def column(request):
    return request.param


def test_arguments(column):
    def certified(of):
        counts, low, high = of([3.0, 9.0]), of([0.0, 1.0]), of([20.0, 30.0])
        return certify_interval(
            lambda y: (y - 9.0, y + 9.0), counts, LAPLACE, target=counts, clamp=(low, high), **RUN
        )

    found, wanted = certified(column), certified(np.asarray)
    assert found.to_json() == wanted.to_json()


def test_answers(column):
    def certified(of):
        interval = certify_interval(lambda y: (of(y - 9.0), of(y + 9.0)), 5.0, LAPLACE, **RUN)
        test = certify_test(lambda y: of(np.clip(np.abs(y) / 9, 0, 1)), 5.0, LAPLACE, **RUN)
        return interval.to_json(), test.to_json()

    assert certified(column) == certified(np.asarray)


def test_releases(column):
    def certified(of):
        release = dpi.Release(
            of([4.0, 5, 10]), workload=[[1, 0], [0, 1], [1, 1]], mechanism=LAPLACE
        )
        return certify(release, truth=of([4.0, 5.0]), **RUN)

    found, wanted = certified(column), certified(np.asarray)
    pd.testing.assert_frame_equal(found.summary_frame(), wanted.summary_frame())


def test_labels_of_a_frame_are_those_of_the_certificate():
    labels, values = ["a", "b"], [4.0, 5.0]
    named = dpi.Release(pd.Series(values, pd.Index(labels, name="cell")), mechanism=LAPLACE)
    frame = dpi.Release(pa.table({"cell": labels, "count": values}), mechanism=LAPLACE)
    wanted, found = (certify(release, **RUN) for release in (named, frame))
    assert found[0].labels == wanted[0].labels == ("a", "b")
    assert found[0].rate.tolist() == wanted[0].rate.tolist()
