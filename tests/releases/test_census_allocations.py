"""The published tables, entry by entry."""

from fractions import Fraction

import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.releases.census import PERSONS, PL94_PERSONS_ALLOCATION, UNITS, attributes

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")

# Kifer et al. (2022), arXiv:2209.03310, Table 5: a row for each query, a column for each level
PRINTED = {
    "total": "0 3773/4097 3126/4097 1567/4102 1705/4099 5/4097",
    "cenrace": "52/4097 6/4097 10/4097 4/2051 3/4099 9/4097",
    "hispanic": "26/4097 6/4097 10/4097 5/4102 3/4099 5/4097",
    "votingage": "26/4097 6/4097 10/4097 5/4102 3/4099 5/4097",
    "hhinstlevels": "26/4097 6/4097 10/4097 5/4102 3/4099 5/4097",
    "hhgq": "26/4097 6/4097 10/4097 5/4102 3/4099 5/4097",
    "hispanic * cenrace": "130/4097 12/4097 28/4097 1933/4102 1055/4099 21/4097",
    "votingage * cenrace": "130/4097 12/4097 28/4097 10/2051 9/4099 21/4097",
    "votingage * hispanic": "26/4097 6/4097 10/4097 5/4102 3/4099 5/4097",
    "votingage * hispanic * cenrace": "26/241 2/241 101/4097 67/4102 24/4099 71/4097",
    "detailed": "189/241 230/4097 754/4097 241/2051 1288/4099 3945/4097",
}


@pytest.mark.parametrize("query", PRINTED)
def test_shares_of_queries_are_as_printed(query):
    for level, share in zip(LEVELS, PRINTED[query].split(), strict=True):
        assert PERSONS.queries[level].get(query, 0) == Fraction(share)


def test_shares_of_levels_are_as_printed():
    persons = "104/4099 1440/4099 447/4099 687/4099 1256/4099 165/4099"
    units = "1/205 1/205 7/82 364/1025 1759/4100 99/820"
    assert list(PERSONS.levels.values()) == [Fraction(x) for x in persons.split()]
    assert list(UNITS.levels.values()) == [Fraction(x) for x in units.split()]
    assert tuple(PERSONS.levels) == tuple(UNITS.levels) == LEVELS


def test_every_share_is_spent():
    for allocation in (PERSONS, UNITS):
        assert sum(allocation.levels.values()) == 1
        assert all(sum(shares.values()) == 1 for shares in allocation.queries.values())
    assert (PERSONS.rho, UNITS.rho) == (Fraction("2.56"), Fraction("0.07"))


def test_examples_in_the_text():
    # the budget of two queries that the text works out
    assert UNITS.query_rho("County", "occupancy") == Fraction("0.07") * Fraction(7, 82)
    state = Fraction("2.56") * Fraction(1440, 4099) * Fraction(12, 4097)
    assert PERSONS.query_rho("State", "votingage * cenrace") == state


def test_measurement_files_are_read_with_the_same_shares():
    assert PL94_PERSONS_ALLOCATION.levels == PERSONS.levels
    assert PL94_PERSONS_ALLOCATION.queries == PERSONS.queries
    assert float(PL94_PERSONS_ALLOCATION.rho) == pytest.approx(2.56, abs=0.005)


def test_attributes():
    assert attributes("total") == frozenset()
    assert attributes("detailed") == {"hhgq", "votingage", "hispanic", "cenrace"}
    assert attributes("occupancy") == {"occupancy"}
    assert attributes("hhinstlevels") == {"hhgq"}
    for query in ("totals", "votingage*cenrace", "hispanic * cenrac", ""):
        with pytest.raises(InvalidParameterError, match="query must be one of total, cenrace"):
            attributes(query)
    for query in (3, None, ["age"]):
        with pytest.raises(InvalidParameterError, match="query must be the name of a query"):
            attributes(query)
