"""How a privacy-loss budget is divided among levels and queries, in exact fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpinfer._validation import (
    Locked,
    check_flag,
    check_integer,
    check_items,
    check_length,
    check_option,
    show,
)
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class BudgetAllocation(Locked):
    """Shares of a budget ρ of zero-concentrated differential privacy.

    Parameters
    ----------
    rho : Fraction
        The budget of all levels together, > 0.
    levels : mapping of str to Fraction
        The share of each level; they add up to at most 1.
    queries : mapping of str to mapping of str to Fraction
        The share of each query within each level; those of a level add up to at most 1. A query
        that is not there is not measured.

    Raises
    ------
    InvalidParameterError
        If a share is not an exact number above 0, or shares add up to more than 1.

    Notes
    -----
    Under replacement of one record the squared L2 sensitivity of a marginal is 2, so a query of
    budget ρ gets discrete Gaussian noise with σ² = 1/ρ.

    Examples
    --------
    >>> from fractions import Fraction
    >>> half = Fraction(1, 2)
    >>> budget = BudgetAllocation(
    ...     Fraction(2), {"State": half, "County": half}, {"State": {"total": 1}, "County": {}})
    >>> budget.query_rho("State", "total")
    Fraction(1, 1)
    """

    rho: Fraction
    levels: Mapping[str, Fraction]
    queries: Mapping[str, Mapping[str, Fraction]]

    def __post_init__(self) -> None:
        levels = _shares(self.levels, "levels")
        if not isinstance(self.queries, Mapping) or set(self.queries) != set(levels):
            raise InvalidParameterError(
                f"queries must have shares for the levels {', '.join(levels)}, got "
                f"{show(self.queries)}"
            )
        found = {level: _shares(self.queries[level], f"queries of {level}") for level in levels}
        object.__setattr__(self, "rho", _fraction(self.rho, "rho"))
        object.__setattr__(self, "levels", MappingProxyType(levels))
        object.__setattr__(self, "queries", MappingProxyType(found))

    @classmethod
    def from_numerators(
        cls,
        rho: Fraction,
        queries: Sequence[str],
        table: Mapping[str, tuple[Fraction, Sequence[int]]],
    ) -> BudgetAllocation:
        """Allocation from a table of whole numbers, as budgets are published.

        Parameters
        ----------
        rho : Fraction
            The budget of all levels together, > 0.
        queries : sequence of str
            The names of the queries, one for each column of the table.
        table : mapping of str to (Fraction, sequence of int)
            For each level its share of the budget, and a row of whole numbers in proportion to
            which its queries share it; 0 for a query that is not measured.

        Returns
        -------
        BudgetAllocation
            The allocation; the shares within each level add up to 1.

        Raises
        ------
        InvalidParameterError
            If a row does not have a whole number >= 0 for each query, and one above 0.

        Examples
        --------
        >>> budget = BudgetAllocation.from_numerators(
        ...     Fraction(2), ["total", "age"], {"State": (Fraction(1, 2), [3, 1])})
        >>> budget.query_rho("State", "age")
        Fraction(1, 4)
        """
        names = check_items(queries, "queries", "names")
        if not isinstance(table, Mapping):
            raise InvalidParameterError(f"table must be a mapping of levels, got {show(table)}")
        levels, within = {}, {}
        for level, entry in table.items():
            share, row = _entry(entry, level)
            check_length(row, f"the row of {level}", len(names), "queries")
            parts = [check_integer(part, f"the row of {level}", ge=0) for part in row]
            whole = max(sum(parts), 1)
            levels[level] = share
            within[level] = {
                name: Fraction(part, whole) for name, part in zip(names, parts, strict=True) if part
            }
        return cls(rho, levels, within)

    def query_rho(self, level: str, query: str) -> Fraction:
        """Return the budget of a query in a level, 0 where it is not measured.

        Parameters
        ----------
        level, query : str
            Names of a level, and of a query that some level measures.

        Returns
        -------
        Fraction
            The product of the budget and both shares.

        Raises
        ------
        InvalidParameterError
            If there is no such level, or no level measures such a query.
        """
        return self.rho * self.share(level, query)

    def share(self, level: str, query: str) -> Fraction:
        """Return the share of a query in a level in the whole budget.

        Parameters
        ----------
        level, query : str
            Names of a level, and of a query that some level measures.

        Returns
        -------
        Fraction
            The product of both shares, 0 where the query is not measured in that level.

        Raises
        ------
        InvalidParameterError
            If there is no such level, or no level measures such a query.
        """
        measured = self.queries[check_option(level, "level", self.levels)]
        known = dict.fromkeys(name for shares in self.queries.values() for name in shares)
        return self.levels[level] * measured.get(check_option(query, "query", known), Fraction(0))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Run through the (level, query) that are measured."""
        return ((level, query) for level in self.levels for query in self.queries[level])

    def scenario_rho(self, affected: Callable[[str, str], bool]) -> Fraction:
        """Budget of the queries that a change of a secret would touch: the ρ of a scenario.

        Parameters
        ----------
        affected : callable
            ``affected(level, query)`` says whether the answer to a query can change.

        Returns
        -------
        Fraction
            The exact sum of the budgets of the affected queries.

        Raises
        ------
        InvalidParameterError
            If ``affected`` is not a function, or does not answer True or False.

        References
        ----------
        Kifer, D., Abowd, J. M., Ashmead, R., Cumings-Menon, R., Leclerc, P., Machanavajjhala, A.,
        Sexton, W. and Zhuravlev, P. (2022). Bayesian and frequentist semantics for common
        variations of differential privacy. arXiv:2209.03310, Section 5.

        Examples
        --------
        >>> budget = BudgetAllocation.from_numerators(
        ...     Fraction(2), ["total", "age"], {"State": (Fraction(1, 2), [3, 1])})
        >>> budget.scenario_rho(lambda level, query: query != "total")
        Fraction(1, 4)
        """
        if not callable(affected):
            raise InvalidParameterError(
                f"affected must be a function of a level and a query, got {show(affected)}"
            )
        touched = ((level, query) for level, query in self if _answer(affected(level, query)))
        return sum((self.query_rho(*pair) for pair in touched), Fraction(0))

    def table(self) -> pd.DataFrame:
        """Exact budgets ρ of every query (column) in every level (row).

        Returns
        -------
        pandas.DataFrame
            Fractions; 0 where a query is not measured.
        """
        import pandas as pd

        names = list(dict.fromkeys(query for _, query in self))
        rows = [[self.query_rho(level, name) for name in names] for level in self.levels]
        return pd.DataFrame(rows, index=pd.Index(self.levels, name="level"), columns=names)


def _shares(shares: Any, name: str) -> dict[str, Fraction]:
    if not isinstance(shares, Mapping):
        raise InvalidParameterError(
            f"{name} must be a mapping of names to shares, got {show(shares)}"
        )
    found = {key: _fraction(share, f"{name}, {show(key)},") for key, share in shares.items()}
    if sum(found.values()) > 1:
        raise InvalidParameterError(
            f"{name} must have shares that add up to at most 1, got {sum(found.values())}"
        )
    return found


def _fraction(value: object, name: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)) or value <= 0:
        raise InvalidParameterError(
            f"{name} must be a Fraction or int above 0, as budgets are compared exactly, got "
            f"{show(value)}"
        )
    return Fraction(value)


def _entry(entry: Any, level: str) -> tuple[Fraction, list[Any]]:
    if not isinstance(entry, tuple) or len(entry) != 2:
        raise InvalidParameterError(
            f"table must have a share and a row of whole numbers for {level}, got {show(entry)}"
        )
    return entry[0], check_items(entry[1], f"the row of {level}", "whole numbers")


def _answer(answer: object) -> bool:
    return check_flag(answer, "the answer of affected(level, query)")
