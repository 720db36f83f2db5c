"""Allocations of a budget: exact sums over scenarios."""

import copy
import pickle
from fractions import Fraction

import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.privacy import BudgetAllocation

SMALL = BudgetAllocation.from_numerators(
    Fraction(3, 2),
    ["total", "age", "race"],
    {"State": (Fraction(1, 3), [2, 1, 0]), "County": (Fraction(2, 3), [1, 1, 5])},
)


def test_scenarios_are_exact():
    assert SMALL.scenario_rho(lambda level, query: True) == Fraction(3, 2)
    assert SMALL.scenario_rho(lambda level, query: False) == 0
    expected = Fraction(3, 2) * (Fraction(1, 3) * Fraction(1, 3) + Fraction(2, 3) * Fraction(1, 7))
    assert SMALL.scenario_rho(lambda level, query: query == "age") == expected
    assert SMALL.scenario_rho(lambda level, query: level == "County") == 1


def test_the_pairs_that_are_measured():
    assert list(SMALL) == [
        ("State", "total"),
        ("State", "age"),
        ("County", "total"),
        ("County", "age"),
        ("County", "race"),
    ]
    assert sum(SMALL.query_rho(*pair) for pair in SMALL) == SMALL.rho


def test_table():
    frame = SMALL.table()
    assert frame.loc["State", "race"] == 0
    assert frame.loc["County", "race"] == Fraction(5, 7)
    assert frame.to_numpy().sum() == Fraction(3, 2)


def test_copies_are_the_same():
    for other in (pickle.loads(pickle.dumps(SMALL)), copy.deepcopy(SMALL)):
        assert other.table().equals(SMALL.table())
        with pytest.raises(TypeError):
            other.levels["State"] = Fraction(1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "table must be a mapping"),
        ({"State": 3}, "a share and a row"),
        ({"State": (Fraction(1), [1])}, "must have 2 entries"),
        ({"State": (Fraction(1), [1, -1])}, "must be >= 0"),
        ({"State": (Fraction(1), [1, 0.5])}, "must be a whole number"),
        ({"State": (0.5, [1, 1])}, "must be a Fraction"),
        ({"State": (Fraction(3, 2), [1, 1])}, "add up to at most 1"),
        ({"State": (Fraction(1), 7)}, "must be a sequence"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(InvalidParameterError, match=message):
        BudgetAllocation.from_numerators(Fraction(1), ["a", "b"], table)


def test_bad_scenarios():
    with pytest.raises(InvalidParameterError, match="affected must be a function"):
        SMALL.scenario_rho("age")
    with pytest.raises(InvalidParameterError, match="must be True or False"):
        SMALL.scenario_rho(lambda level, query: 1)


def test_every_level_has_shares_of_queries():
    levels = {"State": Fraction(1, 2), "County": Fraction(1, 2)}
    for queries in ({"State": {"age": Fraction(1)}}, 3):
        with pytest.raises(InvalidParameterError, match="for the levels State, County, got"):
            BudgetAllocation(Fraction(1), levels, queries)


def test_names_that_do_not_exist_are_refused():
    assert SMALL.query_rho("State", "race") == SMALL.share("State", "race") == 0
    for ask in (SMALL.query_rho, SMALL.share):
        with pytest.raises(InvalidParameterError, match="level must be one of 'State'"):
            ask("CBG", "age")
        with pytest.raises(InvalidParameterError, match="query must be one of"):
            ask("State", "ages")
