"""Sums of two Laplace noises in closed form."""

import mpmath
import numpy as np
import pytest

from dpinfer.curation import spend_on_error
from dpinfer.mechanisms import Laplace, WeightedSum


@pytest.mark.parametrize("q", [0.4999, 0.3, 0.025, 1e-6, 1e-100])
def test_quantiles_in_many_digits(q):
    # a weight is 1 where the second noise is the smallest: then one noise is left
    scales = 3.0 * np.array([1e-12, 0.01, 0.5, 0.999, 1 - 1e-9, 1.0])
    zeros, law = np.zeros(6), Laplace(scale=np.full(6, 3.0))
    both = spend_on_error(zeros, zeros, mechanism=law, rng=1).corrected(
        zeros, mechanism=Laplace(scale=scales)
    )
    swapped = spend_on_error(zeros, zeros, mechanism=Laplace(scale=scales), rng=1).corrected(
        zeros, mechanism=law
    )
    found = both.conf_int(2 * q).width / 2
    np.testing.assert_allclose(found, swapped.conf_int(2 * q).width / 2, rtol=2e-12)
    assert both.weights[0] == 1.0
    with mpmath.workdps(60):
        for weight, scale, t in zip(both.weights, scales, found, strict=True):
            parts = (1 - mpmath.mpf(weight)) * 3, mpmath.mpf(weight) * mpmath.mpf(scale)
            (a, b), t = sorted(parts, reverse=True), mpmath.mpf(t)
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
