"""Maxima over a nuisance parameter against brute force."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.hypothesis_tests.proportions._nuisance import certified_maximum


@pytest.mark.parametrize("event", [range(7, 21), range(12, 15), [0, 5, 10, 15, 20], [3]])
@pytest.mark.parametrize(("low", "high"), [(0.1, 1.4), (0.6, 0.9), (0.3, 0.3)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_certified_maximum_bounds_the_chance_of_any_event(event, low, high, tolerance):
    """Events of Binomial(20, p), whatever their shape; the angle carries the information 4·20."""

    def chance(x):
        return stats.binom.pmf(np.array(event)[:, None], 20, np.sin(x) ** 2).sum(axis=0)

    found = certified_maximum(chance, low, high, 80.0, tolerance)
    largest = chance(np.linspace(low, high, 100_001)).max()
    assert largest - 1e-12 <= found <= largest + tolerance + 1e-9
