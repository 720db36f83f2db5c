import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    as_noise,
    groups,
)
from dpinfer.mechanisms.independent import integer_cells

PARTS = [
    Laplace(scale=2.0),
    Geometric(scale=[1.0, 3.0]),
    Exact(),
    Gaussian(sigma=4.0),
    Laplace(scale=5.0),
]
CELLS = [
    Laplace(scale=2.0),
    Geometric(scale=1.0),
    Geometric(scale=3.0),
    Exact(),
    Gaussian(sigma=4.0),
    Laplace(scale=5.0),
]
METHODS = ["cdf", "sf", "logcdf", "logsf", "cf"]


@pytest.fixture
def noise():
    return IndependentNoise(PARTS)


def test_every_method_is_the_cells_own(noise):
    x = np.random.default_rng(1).normal(0, 5, (7, 6))
    for method in METHODS:
        expected = np.column_stack([getattr(law, method)(x[:, j]) for j, law in enumerate(CELLS)])
        assert np.array_equal(getattr(noise, method)(x), expected)
    q = np.random.default_rng(2).random((7, 6))
    for method in ("ppf", "isf"):
        expected = np.column_stack([getattr(law, method)(q[:, j]) for j, law in enumerate(CELLS)])
        assert np.array_equal(getattr(noise, method)(q), expected)
    assert np.array_equal(noise.variance, [law.variance for law in CELLS])


def test_one_point_serves_all_cells(noise):
    assert np.array_equal(noise.sf(1.5), [law.sf(1.5) for law in CELLS])


def test_laws_of_one_kind_form_one_group(noise):
    assert len(list(groups(noise, 6))) == 4
    many = IndependentNoise([Laplace(scale=float(j + 1)) for j in range(500)])
    assert len(list(groups(many, 500))) == 1
    assert np.array_equal(many.variance, 2.0 * np.arange(1, 501) ** 2)


def test_the_same_law_everywhere_stays_scalar():
    ((law, cells),) = groups(IndependentNoise([Laplace(scale=2.0)] * 4), 4)
    assert law.shape == ()
    assert np.array_equal(cells, np.arange(4))


def test_nested_tables_are_flattened(noise):
    nested = IndependentNoise([noise, Gaussian(sigma=4.0)])
    assert nested.shape == (7,)
    assert np.array_equal(nested.variance, [*noise.variance, 16.0])


@pytest.mark.parametrize("cell", [0, 2, 3, -1])
def test_take_one_cell(noise, cell):
    law = noise.take(cell)
    assert law.shape == ()
    assert type(law) is type(CELLS[cell])
    assert law.variance == CELLS[cell].variance


@pytest.mark.parametrize(
    "index",
    [
        np.array([5, 0, 0, 4]),
        slice(1, 4),
        np.array([True, False, False, True, True, False]),
        [2],
        np.array([1, 2, 1]),
    ],
)
def test_take_cells(noise, index):
    taken = noise.take(index)
    expected = [CELLS[j] for j in np.arange(6)[index]]
    x = np.full((3, len(expected)), 1.2)
    assert np.array_equal(
        taken.sf(x), np.column_stack([np.full(3, law.sf(1.2)) for law in expected])
    )


def test_take_shuffles_a_large_table():
    m = 200_000
    noise = IndependentNoise([Laplace(scale=np.arange(1.0, m + 1)), Gaussian(sigma=np.ones(m))])
    index = np.random.default_rng(3).permutation(2 * m)
    assert np.array_equal(noise.take(index).variance, noise.variance[index])


def test_draws_have_each_cells_spread(noise):
    draws = noise.rvs((100_000, 6), rng=5)
    # the variance of a sample variance of n draws is (κ-1)σ⁴/n with kurtosis κ <= 12 for these
    # laws; seven of its standard deviations: chance of a false alarm below 1e-10
    error = 7 * np.sqrt(11 / 1e5) * noise.variance
    assert np.all(np.abs(draws.var(axis=0) - noise.variance) <= error)
    assert draws.dtype == np.float64
    assert IndependentNoise([Exact(), Geometric(scale=1.0)]).rvs(rng=1).dtype == np.int64


def test_integer_cells(noise):
    assert integer_cells(noise, 6).tolist() == [False, True, True, True, False, False]
    assert not noise.is_integer


@pytest.mark.parametrize("laws", [[], [1.0], [Laplace(scale=[[1.0]])], ["Laplace"]])
def test_bad_laws_are_refused(laws):
    with pytest.raises(InvalidParameterError, match="laws must hold"):
        IndependentNoise(laws)


@pytest.mark.parametrize("mechanism", [None, 3.0, "Laplace", {"scale": 1}, [1.0, 2.0]])
def test_as_noise_refuses_what_is_no_law(mechanism):
    with pytest.raises(InvalidParameterError):
        as_noise(mechanism, 2)


def test_as_noise_refuses_a_wrong_length(noise):
    with pytest.raises(InvalidParameterError, match="one for each of the 5 values"):
        as_noise(noise, 5)
    assert as_noise(noise, 6) is noise


def test_an_index_of_two_dimensions_is_refused(noise):
    with pytest.raises(InvalidParameterError, match=r"one-dimensional, got .* shape \(2, 2\)"):
        noise.take(np.array([[0, 1], [2, 3]]))
