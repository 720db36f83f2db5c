import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.datasets import synthetic_population
from dpinfer.errors import InvalidParameterError


@pytest.fixture(scope="module")
def population():
    return synthetic_population()


def test_the_default_is_small(population):
    assert 400 <= len(population) <= 800
    assert repr(population) == "SyntheticPopulation(584 blocks in 13 tracts)"


def test_units_are_ragged_and_sorted(population):
    codes = population.codes
    assert (codes[1:] > codes[:-1]).all()
    assert set(np.char.str_len(codes)) == {32}
    for length, above in ((16, 14), (14, 8)):
        units = np.unique(codes.astype(f"U{length}"))
        _, children = np.unique(units.astype(f"U{above}"), return_counts=True)
        assert children.min() >= 1
        assert np.unique(children).size > 1
    # the last 16 characters hold the same state, county, tract and block group
    for code in codes.tolist():
        ordinary = code[16:]
        assert ordinary[:5] == code[1:3] + code[5:8]
        assert ordinary[5:11] == code[8:14]
        assert ordinary[11] == ordinary[12] == code[15]


def test_tables(population):
    tables = population.tables()
    assert tables.shape == (len(population), *population.domain.shape)
    assert tables.min() == 0
    assert not tables[:, 3, 0].any()  # no minors in nursing facilities
    empty = (tables.sum(axis=(1, 2, 3, 4)) == 0).mean()
    assert 0.15 < empty < 0.35
    quarters = tables.sum(axis=(2, 3, 4))[:, 1:] > 0
    assert quarters.any(axis=0).all()
    assert quarters.mean() < 0.05


def test_parts_are_those_of_the_whole(population):
    tables = population.tables()
    for start, stop in ((0, 1), (37, 41), (0, len(tables)), (len(tables), len(tables)), (99, 380)):
        assert (population.tables(start, stop) == tables[start:stop]).all()
    assert (population.tables(500) == tables[500:]).all()
    assert (pickle.loads(pickle.dumps(population)).tables(5, 9) == tables[5:9]).all()


def test_seeds():
    first, again, other = (synthetic_population(tracts=1, seed=seed) for seed in (1, 1, 2))
    assert (first.codes == again.codes).all()
    assert (first.tables() == again.tables()).all()
    assert len(first) != len(other) or (first.tables() != other.tables()).any()


def test_large_populations_are_made_in_parts():
    large = synthetic_population(states=3, counties=4, tracts=20, block_groups=3, blocks=20)
    assert 8_000 < len(large) < 30_000
    last = large.tables(len(large) - 3)
    assert last.shape[0] == 3
    assert len(np.unique(large.codes.astype("U3"))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": 0}, "states must be >= 1"),
        ({"states": 57}, "states must be <= 56"),
        ({"counties": 2.5}, "counties must be a whole number"),
        ({"tracts": "3"}, "tracts must"),
        ({"block_groups": 10}, "block_groups must be <= 9"),
        ({"blocks": None}, "blocks must"),
        ({"seed": -1}, "seed must be >= 0"),
        ({"states": 50, "counties": 100, "tracts": 99999}, "must not lead to more than"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        synthetic_population(**arguments)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(start=st.integers(-2, 700), stop=st.one_of(st.none(), st.integers(-2, 700)))
def test_bounds_of_parts(population, start, stop):
    size = len(population)
    last = size if stop is None else stop
    if 0 <= start <= last <= size:
        assert len(population.tables(start, stop)) == last - start
    else:
        with pytest.raises(InvalidParameterError):
            population.tables(start, stop)
