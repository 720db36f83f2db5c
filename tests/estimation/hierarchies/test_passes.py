"""The two passes over a tree against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from dpinfer.estimation import combine_hierarchy
from dpinfer.mechanisms import Gaussian

PARENT = np.array([-1, 0, 0, 1, 1, 1, 2])
"""A family of two, one of three, and an only child."""

CHILDREN = {0: [1, 2], 1: [3, 4, 5], 2: [6]}


def exactly(variance, values):
    """Final variances and estimates by the formulas of the two passes, in fractions."""
    below, found = [Fraction(v) for v in variance], [Fraction(v) for v in values]
    sums = {}
    for node in (2, 1, 0):
        total = sum(below[child] for child in CHILDREN[node])
        sums[node] = total, sum(found[child] for child in CHILDREN[node])
        gain = total / (total + below[node])
        found[node] = sums[node][1] + gain * (found[node] - sums[node][1])
        below[node] *= gain
    final = list(below)
    for node in (0, 1, 2):
        total, expected = sums[node]
        for child in CHILDREN[node]:
            share = below[child] / total
            final[child] = below[child] * (1 - share) + share**2 * final[node]
            found[child] += share * (found[node] - expected)
    return np.array(final, dtype=float), np.array(found, dtype=float)


@pytest.mark.thinned("ratio", "place", every=2)
@pytest.mark.parametrize("ratio", [1.0, 10.0, 98.0, 99.0, 100.0, 1e4, 1e9, 1e30])
@pytest.mark.parametrize("place", range(7))
def test_passes_are_exact_however_much_one_variance_dominates(place, ratio):
    rng = np.random.default_rng(place)
    variance, values = rng.uniform(1.0, 2.0, 7), rng.normal(0.0, 100.0, 7)
    variance[place] *= ratio
    final, found = exactly(variance, values)
    law = Gaussian(sigma=np.sqrt(variance))
    fit = combine_hierarchy(values, PARENT, mechanism=law)
    np.testing.assert_allclose(np.square(fit.bse), final, rtol=2e-13)
    # standard deviations are rounded, and the variances with them
    final, found = exactly(law.variance, values)
    np.testing.assert_allclose(np.square(fit.bse), final, rtol=1e-13)
    np.testing.assert_allclose(fit.params, found, rtol=1e-13, atol=1e-11)


def test_what_the_caller_holds_is_neither_changed_nor_kept():
    sigma, values = np.linspace(1.0, 2.0, 7), np.arange(7.0)
    law = Gaussian(sigma=sigma)
    fit = combine_hierarchy(values, PARENT, mechanism=law)
    before = fit.params.copy()
    np.testing.assert_array_equal(law.variance, sigma**2)
    np.testing.assert_array_equal(values, np.arange(7.0))
    sigma[:], values[:] = 5.0, 5.0
    np.testing.assert_array_equal(law.variance, np.linspace(1.0, 2.0, 7) ** 2)
    again = combine_hierarchy(np.arange(7.0), PARENT, mechanism=law)
    np.testing.assert_array_equal(again.params, before)
    np.testing.assert_array_equal(again.values, fit.values)
