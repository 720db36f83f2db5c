"""The smallest whole number at which a condition holds, against its definition."""

import numpy as np
import pytest

from dpinfer._numerics.lattice import smallest_whole


@pytest.mark.parametrize("start", [-1000.0, -1.0, 0.0, 3.0, 77.0, 5000.0])
def test_finds_the_first(start):
    first = np.array([-700.0, -2.0, 0.0, 1.0, 64.0, 4097.0])
    guess = np.full(first.size, start)
    np.testing.assert_array_equal(smallest_whole(guess, lambda k: k >= first), first)


def test_infinite_guesses_stay():
    found = smallest_whole(np.array([np.inf, 5.0, -np.inf]), lambda k: k >= 2.0)
    np.testing.assert_array_equal(found, [np.inf, 2.0, -np.inf])
