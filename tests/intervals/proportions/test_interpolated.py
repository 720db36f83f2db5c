"""Polynomials between whole numbers: as accurate as asked for, and cheap where they may be."""

import numpy as np
import pytest

from dpinfer.intervals.proportions._interpolated import interpolated

TOLERANCE = 1e-10


class Counted:
    """A function that counts the points at which it is evaluated."""

    def __init__(self, function):
        self.function, self.points = function, 0

    def __call__(self, x):
        self.points += x.size
        return self.function(x)


def between(function, x, low, high):
    """Return values by interpolation, and the number of evaluations that they took."""
    ends = Counted(function)
    found = interpolated(ends, lambda value: np.full(value.shape, TOLERANCE), x, low, high)
    return found, ends.points


def points(size, low, high):
    return np.random.default_rng(1).uniform(low, high, size)


def test_kinks_at_whole_numbers_cost_nothing():
    x = points(20_000, 0.3, 8.6)

    def kinked(x):
        return np.sin(x) + np.abs(np.sin(np.pi * x)) * np.floor(x)

    found, evaluations = between(kinked, x, 0.3, 8.6)
    np.testing.assert_allclose(found, kinked(x), rtol=0, atol=10 * TOLERANCE)
    assert evaluations < 9 * 20


def test_pieces_are_cut_until_they_are_accurate():
    x = points(20_000, 0.0, 2.0)

    def peak(x):
        return 1.0 / (1.0 + np.square((x - 1.37) / 0.02))

    found, evaluations = between(peak, x, 0.0, 2.0)
    np.testing.assert_allclose(found, peak(x), rtol=0, atol=10 * TOLERANCE)
    assert evaluations < 2_000


def test_where_no_polynomial_will_do_each_point_is_evaluated():
    # the root of the distance to a place within a piece: no part around it is smooth
    x = points(20_000, 0.0, 1.0)

    def root(x):
        return np.sqrt(np.abs(x - 0.7))

    found, evaluations = between(root, x, 0.0, 1.0)
    np.testing.assert_allclose(found, root(x), rtol=0, atol=10 * TOLERANCE)
    assert evaluations < 3_000


@pytest.mark.parametrize("high", [30.0, 4_000.0])
def test_few_points_a_piece_are_evaluated_each_by_itself(high):
    x = points(1_200, 0.0, high)
    found, evaluations = between(np.sin, x, 0.0, high)
    np.testing.assert_array_equal(found, np.sin(x))
    assert evaluations == x.size
