"""How a privacy-loss budget is divided among levels and queries, in exact fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from dpinfer._validation import Locked, show
from dpinfer.errors import InvalidParameterError
from dpinfer.releases.census import layout


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

    def query_rho(self, level: str, query: str) -> Fraction:
        """Return the budget of a query in a level, 0 where it is not measured.

        Parameters
        ----------
        level, query : str
            Names of the level and of the query.

        Returns
        -------
        Fraction
            The product of the budget and both shares.
        """
        return self.rho * self.share(level, query)

    def share(self, level: str, query: str) -> Fraction:
        """Return the share of a query in a level in the whole budget.

        Parameters
        ----------
        level, query : str
            Names of the level and of the query.

        Returns
        -------
        Fraction
            The product of both shares, 0 where the query is not measured.
        """
        within = self.queries.get(level, {}).get(query, Fraction(0))
        return self.levels.get(level, Fraction(0)) * within


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


def _allocate(
    rho: Fraction, whole: int, table: Mapping[str, tuple[int, int, tuple[int, ...]]]
) -> BudgetAllocation:
    """Build an allocation from numerators: of each level, and of each query in it."""
    shares = {
        level: {
            query: Fraction(part, within)
            for query, part in zip(layout.PL94_QUERIES, parts, strict=True)
            if part
        }
        for level, (_, within, parts) in table.items()
    }
    levels = {level: Fraction(part, whole) for level, (part, _, _) in table.items()}
    return BudgetAllocation(rho, levels, shares)


PL94_PERSONS_ALLOCATION = _allocate(
    Fraction(542, 339) ** 2,
    4099,
    {
        "US": (104, 4097, (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
        "State": (1440, 4097, (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
        "County": (447, 4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
        "Tract": (687, 4102, (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
        "Block_Group": (1256, 4099, (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
        "Block": (165, 4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
    },
)
"""Shares of the production run for the redistricting data of persons in the United States.

From the public configuration of that run, U.S. Census Bureau (2021), DAS 2020 Redistricting
Production Code, a work in the public domain. They are those before budget is moved on the spine,
and were not compared with the variances in a published file, which are the ones that count there.
"""
