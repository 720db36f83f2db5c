"""The budget of the 2020 Census redistricting data, by level and query, in exact fractions."""

from __future__ import annotations

from fractions import Fraction

from dpinfer._validation import check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.composition import BudgetAllocation

PERSON_QUERIES = (
    "total",
    "cenrace",
    "hispanic",
    "votingage",
    "hhinstlevels",
    "hhgq",
    "hispanic * cenrace",
    "votingage * cenrace",
    "votingage * hispanic",
    "votingage * hispanic * cenrace",
    "detailed",
)
"""The queries on persons; ``"detailed"`` is hhgq * votingage * hispanic * cenrace."""

UNIT_QUERY = "occupancy"
"""The query on housing units: how many are occupied, and how many are vacant."""

PERSONS = BudgetAllocation.from_numerators(
    Fraction(64, 25),
    PERSON_QUERIES,
    {
        "US": (Fraction(104, 4099), (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
        "State": (Fraction(1440, 4099), (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
        "County": (Fraction(447, 4099), (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
        "Tract": (Fraction(687, 4099), (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
        "Block_Group": (Fraction(1256, 4099), (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
        "Block": (Fraction(165, 4099), (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
    },
)
"""Person characteristics: ρ = 2.56.

Block groups are those made for the disclosure avoidance system, not those of the tables.

Abowd, J. M. et al. (2022). The 2020 Census disclosure avoidance system TopDown algorithm. Harvard
Data Science Review, special issue 2. doi:10.1162/99608f92.529e3cb9.
"""

UNITS = BudgetAllocation.from_numerators(
    Fraction(7, 100),
    [UNIT_QUERY],
    {
        "US": (Fraction(1, 205), (1,)),
        "State": (Fraction(1, 205), (1,)),
        "County": (Fraction(7, 82), (1,)),
        "Tract": (Fraction(364, 1025), (1,)),
        "Block_Group": (Fraction(1759, 4100), (1,)),
        "Block": (Fraction(99, 820), (1,)),
    },
)
"""Housing unit characteristics: ρ = 0.07."""


ATTRIBUTES = ("hhgq", "votingage", "hispanic", "cenrace", UNIT_QUERY)
"""What the queries count by: four attributes of a person, and one of a housing unit."""

_GROUPINGS = {"detailed": " * ".join(ATTRIBUTES[:-1]), "hhinstlevels": "hhgq"}
"""Names in queries that are no attributes. The eight kinds of quarters, hhgq, fall into three."""


class AttributeSet(frozenset[str]):
    """Attributes, of which only those that exist can be asked for with ``in``."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(check_option(name, "attribute", ATTRIBUTES))


def attributes(query: str) -> frozenset[str]:
    """Attributes of a person or a housing unit that a query counts by.

    Parameters
    ----------
    query : str
        The name of a query: ``"total"``, ``"detailed"``, or attributes joined by ``" * "``.
        ``"hhinstlevels"`` groups the values of hhgq, and counts by that attribute.

    Returns
    -------
    frozenset of str
        The attributes; of ``"total"`` none. To ask with ``in`` for a name that is no attribute is
        an error, and not False.

    Raises
    ------
    InvalidParameterError
        If ``query`` is no name of a query.

    Examples
    --------
    >>> sorted(attributes("votingage * cenrace"))
    ['cenrace', 'votingage']
    >>> sorted(attributes("detailed"))
    ['cenrace', 'hhgq', 'hispanic', 'votingage']
    >>> sorted(attributes("hhinstlevels"))
    ['hhgq']
    """
    if not isinstance(query, str):
        raise InvalidParameterError(f"query must be the name of a query, got {show(query)}")
    if query == "total":
        return AttributeSet()
    named = [_GROUPINGS.get(part, part) for part in query.split(" * ")]
    found = " * ".join(named).split(" * ")
    if unknown := [part for part in found if part not in ATTRIBUTES]:
        raise InvalidParameterError(
            f"query must be one of {', '.join((*PERSON_QUERIES, UNIT_QUERY))}, or a product of "
            f"their attributes, got {show(query)} with {show(unknown[0])}"
        )
    return AttributeSet(found)
