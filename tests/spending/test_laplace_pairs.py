"""Sums of two Laplace noises in closed form."""

import mpmath
import numpy as np
import pytest

from dpinfer.mechanisms import Laplace, WeightedSum
from dpinfer.spending import spend_on_error
from dpinfer.spending._laplace_pairs import laplace_pair_isf


@pytest.mark.parametrize("q", [0.5, 0.3, 0.025, 1e-6, 1e-100])
def test_quantiles_in_many_digits(q):
    ratios = np.array([0.0, 1e-12, 0.01, 0.5, 0.999, 1 - 1e-9, 1.0])
    found = laplace_pair_isf(q, np.full(7, 3.0), 3.0 * ratios)
    swapped = laplace_pair_isf(q, 3.0 * ratios, np.full(7, 3.0))
    np.testing.assert_array_equal(found, swapped)
    with mpmath.workdps(60):
        for ratio, t in zip(ratios, found, strict=True):
            a, b, t = mpmath.mpf(3), 3 * mpmath.mpf(ratio), mpmath.mpf(t)
            if a == b:
                tail = (1 + t / (2 * a)) * mpmath.exp(-t / a) / 2
            else:
                small = b**2 * mpmath.exp(-t / b) if b > 0 else 0
                tail = (a**2 * mpmath.exp(-t / a) - small) / (2 * (a**2 - b**2))
            assert float(tail / mpmath.mpf(q)) == pytest.approx(1.0, abs=1e-10)


def test_widths_are_those_of_the_general_law():
    scales = np.array([1.0, 1.5, 8.0])
    error = spend_on_error(np.zeros(3), np.zeros(3), mechanism=Laplace(scale=scales), rng=1)
    both = error.corrected(np.zeros(3), mechanism=Laplace(scale=2.0))
    widths = both.conf_int(0.1).width
    for scale, weight, width in zip(scales, both.weights, widths, strict=True):
        laws = [Laplace(scale=scale), Laplace(scale=2.0)]
        law = WeightedSum([1 - weight, weight], laws)
        assert width == pytest.approx(2 * law.isf(0.05), rel=1e-9)
