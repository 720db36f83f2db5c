import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Laplace, Tulap
from dpinfer.releases import from_scale_column

FRAME = pd.DataFrame({"k": ["a", "b", "c"], "count": [1, 2, 3], "scale": [2.0, 1e-3, 1e4]})


def test_the_parameter():
    release = from_scale_column(FRAME, "laplace", value="count", attributes="k")
    assert release.mechanism == Laplace(scale=[2.0, 1e-3, 1e4])
    assert release.labels.to_list() == ["a", "b", "c"]
    release = from_scale_column(FRAME, "discrete_gaussian", value="count")
    assert release.mechanism == DiscreteGaussian(sigma=[2.0, 1e-3, 1e4])
    assert from_scale_column(FRAME, "tulap", value="count").mechanism == Tulap(
        scale=[2.0, 1e-3, 1e4]
    )


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "geometric"])
def test_standard_deviation_and_variance(kind):
    frame = FRAME.assign(scale=[2.0, 0.3, 1e4])
    std = from_scale_column(frame, kind, value="count", given="std")
    np.testing.assert_allclose(std.mechanism.std, frame["scale"], rtol=1e-12)
    variance = from_scale_column(frame, kind, value="count", given="variance")
    np.testing.assert_allclose(variance.variance, frame["scale"], rtol=1e-12)


def test_no_noise_is_exact():
    frame = FRAME.assign(scale=[2.0, 0.0, 3.0])
    release = from_scale_column(frame, "laplace", value="count")
    assert release.to_frame()["mechanism"].tolist() == ["laplace", "exact", "laplace"]
    assert release.variance.tolist() == [8, 0, 18]
    release = from_scale_column(frame.assign(scale=0.0), "laplace", value="count")
    assert release.variance.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": "cauchy"}, "mechanism must be one of"),
        ({"mechanism": "exact"}, "name of a noise law"),
        ({"mechanism": 3}, "name of a noise law"),
        ({"value": "counts"}, "column 'counts'"),
        ({"scale": "sd"}, "column 'sd'"),
        ({"scale": "k"}, "k must hold real numbers"),
        ({"given": "sd"}, "given must be one of"),
        ({"mechanism": "tulap", "given": "std"}, "must be 'parameter' for tulap"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"mechanism": "laplace", "value": "count"} | changes
    with pytest.raises(InvalidParameterError, match=message):
        from_scale_column(FRAME, arguments.pop("mechanism"), **arguments)


def test_bad_sizes():
    for size in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidParameterError, match="position 1"):
            from_scale_column(FRAME.assign(scale=[1, size, 1]), "laplace", value="count")
    with pytest.raises(IncompatibleReleaseError, match="whole number"):
        from_scale_column(FRAME.assign(count=[1.5, 2, 3]), "geometric", value="count")
