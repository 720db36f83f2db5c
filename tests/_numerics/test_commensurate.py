import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer._numerics.lattice import common_spacing


@pytest.mark.parametrize(
    ("weights", "spacing"),
    [
        ([1.0, 2.0, 5.0], 1.0),
        ([4.0, 6.0], 2.0),
        ([1 / 3, 0.5], 1 / 6),
        ([0.1, 0.2, 0.3, 0.7], 0.1),
        ([7 / 11, 4 / 11, 1.0], 1 / 11),
        ([2.5], 2.5),
        ([1e-9, 3e-9], 1e-9),
    ],
)
def test_known_spacings(weights, spacing):
    found, multiples = common_spacing(np.array(weights), smallest=1e-6 * spacing)
    assert found == pytest.approx(spacing, rel=1e-12)
    assert np.allclose(found * multiples, weights, rtol=1e-12)


def test_irrational_ratios_have_none():
    assert common_spacing(np.array([1.0, np.sqrt(2)]), smallest=1e-4) is None


def test_too_fine_a_spacing_is_refused():
    assert common_spacing(np.array([1.0, 1.001]), smallest=0.01) is None
    assert common_spacing(np.array([1e-3, 1.0]), smallest=0.01) is None
    assert common_spacing(np.array([1.0, 1.5]), smallest=0.6) is None
    assert common_spacing(np.array([1.0, 1.5]), smallest=0.5)[0] == 0.5


def test_a_spacing_that_is_found_in_many_turns():
    weights = np.array([1.0, 1 + 1 / 2, 1 + 1 / 3, 1 + 1 / 5, 1 + 1 / 7, 1 + 1 / 11, 1 + 1 / 13])
    found, multiples = common_spacing(weights, smallest=1e-5)
    assert found == pytest.approx(1 / 30030, rel=1e-12)
    assert np.gcd.reduce(multiples.astype(int)) == 1


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.floats(1e-6, 1e6))
def test_multiples_of_anything_are_found(numbers, unit):
    weights = np.array(numbers) * unit
    found, multiples = common_spacing(weights, smallest=unit * 1e-3)
    assert np.array_equal(multiples, np.array(numbers) // np.gcd.reduce(numbers))
    assert np.allclose(found * multiples, weights, rtol=1e-12)
