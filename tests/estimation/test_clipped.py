import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import combine
from dpinfer.mechanisms import Laplace


@pytest.fixture
def fit():
    return combine([-3.0, 5.0], mechanism=Laplace(scale=1.0))


def test_estimates_and_intervals_move_into_the_bounds(fit):
    clipped = fit.clip(lower=0)
    np.testing.assert_array_equal(clipped.params, [0.0, 5.0])
    np.testing.assert_array_equal(
        np.asarray(clipped.conf_int(alpha=0.1)),
        np.asarray(fit.conf_int(alpha=0.1).restrict(lower=0)),
    )
    np.testing.assert_array_equal(clipped.conf_int(alpha=0.1).empty, [True, False])


def test_it_says_that_it_is_biased(fit):
    clipped = fit.clip(lower=0, upper=4)
    assert not clipped.is_unbiased
    assert "no longer unbiased" in clipped.summary()
    assert clipped.summary_frame()["unbiased_estimate"].tolist() == [-3.0, 5.0]
    assert not hasattr(clipped, "bse")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({}, "lower or upper must be given"),
        ({"lower": 2, "upper": 1}, "lower must be <= upper"),
        ({"lower": np.nan}, "lower must not contain NaN"),
    ],
)
def test_bad_bounds(fit, bounds, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit.clip(**bounds)


def test_str_is_the_summary(fit):
    clipped = fit.clip(lower=0)
    assert str(clipped) == clipped.summary()
