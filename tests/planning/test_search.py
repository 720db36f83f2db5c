"""Where monotone functions, and functions with steps, reach a target."""

import numpy as np
import pytest

from dpinfer._planning.search import Search
from dpinfer.errors import InvalidParameterError


def falling(x):
    return 10.0 / x


def test_a_value_that_is_just_reached_is_no_shortfall():
    lacks = Search("power", 0.8, True, "nobs", np.asarray).lack(np.array([0.7, 0.8, 0.9]))
    np.testing.assert_allclose(lacks, [0.1, 0.0, -0.1], atol=1e-11)
    assert lacks[1] < 0


@pytest.mark.parametrize("logarithmic", [True, False])
def test_both_directions_have_one_answer(logarithmic):
    down = Search("width", 0.4, False, "budget", falling)
    up = Search("power", 2.5, True, "effect", lambda x: x / 10.0)
    for search in (down, up):
        found = search.first(0.1, 1000.0, logarithmic=logarithmic)
        assert found == pytest.approx(25.0, rel=1e-7)
        assert search.lack(np.array([found]))[0] <= 0.0


def test_the_start_of_a_step_is_found():
    search = Search("width", 4.0, False, "budget", lambda x: np.ceil(10.0 / x))
    found = search.first(0.1, 100.0, logarithmic=True)
    assert found == pytest.approx(2.5, rel=1e-8)
    assert np.ceil(10.0 / found) == 4.0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (200.0, "width must be smaller than 100, which budget = 0.1 has already, got 200.0"),
        (0.001, "width must be one that can be reached: it is 0.01 at budget = 1000, got 0.001"),
    ],
)
def test_targets_out_of_reach_are_refused(target, message):
    with pytest.raises(InvalidParameterError, match=message):
        Search("width", target, False, "budget", falling).first(0.1, 1e3, logarithmic=True)


def test_a_power_out_of_reach_is_refused():
    search = Search("power", 0.01, True, "effect", lambda x: x / 10.0)
    with pytest.raises(InvalidParameterError, match=r"power must be larger than 0\.01"):
        search.first(0.1, 1e3, logarithmic=True)


@pytest.mark.parametrize("guess", [1e-3, 1.0, 15.0, 16.0, 17.0, 24.0, 25.0, 26.0, 1e6])
@pytest.mark.parametrize(("integer", "expected"), [(True, 26.0), (False, 25.6)])
def test_sizes_near_any_guess(guess, integer, expected):
    sizes = []

    def width(x):
        sizes.extend(x)
        return 2.0 / np.sqrt(x)

    search = Search("width", 2.0 / np.sqrt(25.6), False, "nobs", width)
    assert search.near(guess, 1.0 if integer else 1e-9, 1e12, whole=integer) == pytest.approx(
        expected, rel=1e-9
    )
    assert len(sizes) < 60
    if integer:
        assert all(size == np.floor(size) >= 1.0 for size in sizes)


def test_a_size_that_is_more_than_enough_is_the_least():
    search = Search("width", 50.0, False, "nobs", falling)
    assert search.near(7.0, 1.0, 1e12, whole=True) == 1.0
    with pytest.raises(InvalidParameterError, match="smaller than 5, which nobs = 2 has already"):
        search.near(7.0, 2.0, 1e12)


def test_a_size_that_is_too_large_is_refused():
    search = Search("width", 1e-13, False, "nobs", lambda x: 1.0 / np.sqrt(x))
    with pytest.raises(InvalidParameterError, match="it is 1e-06 at nobs = 1e"):
        search.near(5.0, 1.0, 1e12, whole=True)


@pytest.mark.parametrize("target", range(2, 12))
def test_sizes_of_a_sawtooth_are_those_after_which_all_reach(target):
    def saw(x):
        return 0.3 * x + 2.0 * (x % 3 == 0)

    sizes = np.arange(1.0, 200.0)
    expected = sizes[np.flatnonzero(saw(sizes) < target)[-1] + 1]
    search = Search("power", float(target), True, "nobs", saw)
    assert search.size(whole=True, dips=True) == expected


@pytest.mark.parametrize("target", [0.01, 0.3, 0.7, 5.0])
def test_sizes_that_are_no_whole_numbers_may_be_small(target):
    search = Search("power", target, True, "exposure", lambda x: x)
    found = search.size(whole=False, dips=False)
    assert found == pytest.approx(target, rel=1e-9)


def test_a_power_that_every_size_has_is_refused():
    search = Search("power", 0.05, True, "exposure", lambda x: 0.06 + x)
    with pytest.raises(InvalidParameterError, match=r"larger than 0\.06, which exposure = "):
        search.size(whole=False, dips=False)


def test_a_size_that_no_number_reaches_is_refused():
    search = Search("power", 0.9, True, "nobs", lambda x: 0.5 - 1.0 / (1.0 + x))
    with pytest.raises(InvalidParameterError, match=r"be reached: it is 0\.5 at nobs = 1e\+12"):
        search.size(whole=True, dips=True)


def test_a_dip_at_the_end_of_the_neighbours_is_passed():
    """The quantity falls short again right where the neighbours of the first size end."""

    def dips(x):
        return np.where((x < 100.0) | ((x > 170.0) & (x < 260.0)), 0.0, 1.0)

    search = Search("power", 0.9, True, "nobs", dips)
    # from a power of two on, 8·√n neighbours on either side are tried
    assert search.size(whole=True, dips=True) == 260.0


def test_sizes_beyond_the_dips_that_are_no_whole_numbers():
    def dips(x):
        return np.where((x > 10.02) & (x < 10.05), 0.0, x)

    search = Search("power", 10.0, True, "exposure", dips)
    found = search.size(whole=False, dips=True)
    assert found == pytest.approx(10.05, rel=1e-6)


def test_one_observation_may_be_enough():
    search = Search("power", 0.5, True, "nobs", lambda x: x)
    assert search.size(whole=True, dips=True) == 1.0
