"""Which way leads to the sets: by the kinds of noise, each pair by itself."""

import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import ratio_confint
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace, Tulap


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_pairs_without_any_noise_are_points(method):
    sets = ratio_confint([3.0, 3.0, 0.0], [4.0, 0.0, 0.0], mechanism=Exact(), method=method)
    assert list(sets.kind) == ["interval", "empty", "line"]
    assert sets.lower[0] == sets.upper[0] == 0.75


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_kinds_that_never_meet(method):
    # of the six pairs of kinds, three are in no row
    first = [Laplace(scale=2.0), Geometric(scale=1.0), Gaussian(sigma=2.0)]
    second = [Laplace(scale=1.0), Geometric(scale=2.0), Laplace(scale=3.0)]
    y1, y2 = [30.0, 40.0, 50.0], [70.0, 80.0, 90.0]
    together = ratio_confint(y1, y2, mechanism=(first, second), method=method)
    for row, laws in enumerate(zip(first, second, strict=True)):
        alone = ratio_confint(y1[row], y2[row], mechanism=laws, method=method)
        assert tuple(alone) == (together.lower[row], together.upper[row])


def test_many_pairs_of_laws_that_are_slow_are_refused():
    with pytest.raises(InvalidParameterError) as refusal:
        ratio_confint(np.ones(2001), 9.0, mechanism=(Tulap(scale=1.0), Laplace(scale=1.0)))
    for words in (
        "mechanism must be Laplace, Gaussian, geometric or discrete Gaussian noise",
        "for more than 2000 pairs",
        "got 2001 pairs with Tulap and Laplace noise",
    ):
        assert words in str(refusal.value)
