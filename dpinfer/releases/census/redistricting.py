"""What a release protects of one secret: the queries that a change of it would touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import check_array, check_items, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.laws import DiscreteGaussian
from dpinfer.privacy.guarantees import GDP, ZCDP
from dpinfer.privacy.ledger import BudgetAllocation
from dpinfer.privacy.loss import PrivacyLoss, privacy_loss
from dpinfer.privacy.posteriors import posterior_tail
from dpinfer.privacy.trade_off import TradeOff
from dpinfer.releases.census import geography as layout

if TYPE_CHECKING:
    import pandas as pd


# The budget of the 2020 Census redistricting data, by level and query, in exact fractions.


PERSON_QUERIES = tuple(layout.PL94_QUERIES)
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
        level: (Fraction(numerator, 4100), (1,))
        for level, numerator in zip(layout.LEVELS, (20, 20, 350, 1456, 1759, 495), strict=True)
    },
)
"""Housing unit characteristics: ρ = 0.07."""


ATTRIBUTES = (*layout.PL94_DOMAIN.attributes, UNIT_QUERY)
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


Noise = Literal["gaussian", "discrete-gaussian", "zcdp"]
NOISES: tuple[Noise, ...] = ("gaussian", "discrete-gaussian", "zcdp")

_CHANGED_CELLS = 2
"""Cells of a table whose counts change, by one each, when a record is replaced."""


@dataclass(frozen=True)
class AffectedQuery:
    """A query that a change of the secret can touch.

    Parameters
    ----------
    level, query : str
        Names of the level and of the query.
    rho : Fraction
        The exact budget of the query in that level, > 0.

    Examples
    --------
    >>> AffectedQuery("Block", "total", Fraction(1, 100)).rho
    Fraction(1, 100)
    """

    level: str
    query: str
    rho: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.rho, Fraction) or self.rho <= 0:
            raise InvalidParameterError(f"rho must be a Fraction above 0, got {show(self.rho)}")


@dataclass(frozen=True)
class Scenario:
    """A secret, the queries that it touches, and what follows for whoever tries to learn it.

    Build one with :func:`build_scenario`. Records are replaced: ``neighbours="replace"``.

    Parameters
    ----------
    queries : tuple of AffectedQuery
        The queries that are affected, at least one.
    secret : str, default ""
        What is kept secret, in words.

    Notes
    -----
    A query of budget ρ_q has noise of variance about 1/ρ_q in each of its cells, two of which
    change by one when the secret does. The privacy losses of all queries add up, so that the
    scenario is ρ-zCDP with ρ = Σ ρ_q, and with Gaussian noise √(2ρ)-GDP.

    ``noise`` is, in every method, ``"gaussian"``: as if the noise were continuous, which is close;
    ``"discrete-gaussian"``: the noise that was used, exactly, from its privacy losses;
    ``"zcdp"``: what holds for any ρ-zCDP mechanism.

    References
    ----------
    Kifer, D., Abowd, J. M., Ashmead, R., Cumings-Menon, R., Leclerc, P., Machanavajjhala, A.,
    Sexton, W. and Zhuravlev, P. (2022). Bayesian and frequentist semantics for common variations
    of differential privacy: applications to the 2020 Census. arXiv:2209.03310, Section 8.

    Examples
    --------
    >>> block = build_scenario(within=["Block"], secret="block in its group")
    >>> round(float(block.rho), 13)
    0.1115007437864
    >>> block.max_power([0.01, 0.05, 0.1]).round(2)
    array([0.03, 0.12, 0.21])
    """

    queries: tuple[AffectedQuery, ...]
    secret: str = ""

    def __post_init__(self) -> None:
        found = tuple(check_items(self.queries, "queries", "AffectedQuery"))
        if not all(isinstance(item, AffectedQuery) for item in found):
            raise InvalidParameterError(f"queries must hold AffectedQuery, got {show(found)}")
        object.__setattr__(self, "queries", found)
        if not found:
            raise InvalidParameterError(
                "queries must hold at least one query: no measured query is affected"
            )

    @property
    def rho(self) -> Fraction:
        """Exact budget of all affected queries."""
        return sum((item.rho for item in self.queries), Fraction(0))

    @property
    def guarantee(self) -> ZCDP:
        """What the release guarantees for the secret."""
        return ZCDP(float(self.rho), neighbours="replace")

    @cached_property
    def privacy_loss(self) -> PrivacyLoss:
        """Privacy loss of the discrete Gaussian noise of all affected queries."""
        counts = Counter(item.rho for item in self.queries)
        losses = (
            privacy_loss(
                DiscreteGaussian(sigma=float(1 / rho) ** 0.5),
                compositions=_CHANGED_CELLS * count,
            )
            for rho, count in counts.items()
        )
        return sum(losses, PrivacyLoss(()))

    def trade_off(self, noise: Noise = "gaussian") -> TradeOff:
        """Return the largest power at every level."""
        return TradeOff(self._protection(noise))

    def max_power(self, alpha: ArrayLike, *, noise: Noise = "gaussian") -> Any:
        """Return the largest power of a test of the level ``alpha`` between two values."""
        return self.trade_off(noise).power(alpha)

    def posterior_tail(
        self,
        epsilon: ArrayLike,
        *,
        noise: Noise = "gaussian",
        **options: Any,
    ) -> Any:
        """Return the probability that an attacker's belief in the secret rises by e^ε or more.

        ``epsilon`` is the log ratio ε >= 0; ``options`` are ``rest``, ``about`` and ``method`` of
        :func:`~dpinfer.privacy.posterior_tail`.
        """
        return posterior_tail(self._protection(noise), epsilon, **options)

    def power_frame(
        self, alpha: ArrayLike = (0.01, 0.05, 0.1), *, noise: Sequence[Noise] = NOISES
    ) -> pd.DataFrame:
        """Return a table of powers: a row for each level, a column for each noise."""
        import pandas as pd

        level = np.atleast_1d(check_array(alpha, "alpha", ge=0, le=1)).ravel()
        kinds = check_items(noise, "noise", "names")
        powers = {kind: self.max_power(level, noise=kind) for kind in kinds}
        return pd.DataFrame(powers, index=pd.Index(level, name="level"))

    def belief_frame(self, epsilon: ArrayLike) -> pd.DataFrame:
        """Return a table of probabilities that a belief rises by e^ε or more, a row for each ε.

        Column ``known_rest``: in any given value, of an attacker who knows all other records, by
        the tail bound of zCDP. ``gaussian``: in the true value, under Gaussian noise, exactly.
        ``arbitrary_prior``: in the true value, by the tail bound.
        """
        import pandas as pd

        loss = np.atleast_1d(check_array(epsilon, "epsilon", ge=0)).ravel()
        tail: dict[str, Any] = {"noise": "zcdp", "method": "tail-bound"}
        columns = {
            "known_rest": self.posterior_tail(loss, rest="known", about="any", **tail),
            "gaussian": self.posterior_tail(loss),
            "arbitrary_prior": self.posterior_tail(loss, **tail),
        }
        return pd.DataFrame(columns, index=pd.Index(loss, name="epsilon"))

    def frame(self) -> pd.DataFrame:
        """Return a table of the affected queries: ``level``, ``query`` and the exact ``rho``."""
        import pandas as pd

        return pd.DataFrame([vars(item) for item in self.queries])

    def _protection(self, noise: Noise) -> Any:
        kind = check_option(noise, "noise", NOISES)
        if kind == "discrete-gaussian":
            return self.privacy_loss
        if kind == "zcdp":
            return self.guarantee
        return GDP(float(np.sqrt(2.0 * float(self.rho))), neighbours="replace")


def build_scenario(
    affected: Callable[[str, str], bool] | None = None,
    *,
    within: Iterable[str] = (),
    about: Iterable[str] = (),
    secret: str = "",
    allocations: Sequence[BudgetAllocation] = (PERSONS, UNITS),
) -> Scenario:
    """Scenario of all queries that a change of a secret can touch.

    Parameters
    ----------
    affected : callable, optional
        ``affected(level, query)`` says whether the answer to a query can change with the secret. It
        can compare what it gets with names that do not exist; ``within`` and ``about`` cannot.
    within : iterable of str, optional
        In place of it, levels all of whose queries can change: those below the place that is known.
    about : iterable of str, optional
        Likewise attributes of :func:`attributes`: all queries that count by one of them can change.
    secret : str, default ""
        What is kept secret, in words.
    allocations : sequence of BudgetAllocation
        The budgets; by default those of the 2020 redistricting data, for persons and for housing
        units, whose one query is named ``"occupancy"``.

    Returns
    -------
    Scenario
        The affected queries, and what follows from their budgets.

    Raises
    ------
    InvalidParameterError
        If ``affected`` is not a function, does not answer True or False, is given together with
        ``within`` or ``about``, no such level or attribute exists, no query is affected, or
        ``secret`` is not text.

    Examples
    --------
    >>> race = build_scenario(about=["cenrace"])
    >>> len(race.queries), round(float(race.rho), 6)
    (30, 1.01029)
    """
    if not isinstance(secret, str):
        raise InvalidParameterError(f"secret must be text, got {show(secret)}")
    budgets = check_items(allocations, "allocations", "BudgetAllocation")
    for budget in budgets:
        if not isinstance(budget, BudgetAllocation):
            raise InvalidParameterError(
                f"allocations must hold BudgetAllocation, got {show(budget)}"
            )
    named = _named(within, about, budgets)
    if (affected is None) == (named is None):
        raise InvalidParameterError(
            "affected must be given, or else levels within which or attributes about which there "
            "is a secret, and not both"
        )
    affected = named if affected is None else affected
    if not callable(affected):
        raise InvalidParameterError(
            f"affected must be a function of a level and a query, got {show(affected)}"
        )
    found = []
    for budget in budgets:
        for level, query in budget:
            answer = affected(level, query)
            if not isinstance(answer, (bool, np.bool_)):
                raise InvalidParameterError(
                    f"affected must answer True or False, got {show(answer)} for {level}, {query}"
                )
            if answer:
                found.append(AffectedQuery(level, query, budget.query_rho(level, query)))
    if not found:
        raise InvalidParameterError("affected must be true for at least one measured query")
    return Scenario(tuple(found), secret)


def _named(
    within: Iterable[str], about: Iterable[str], budgets: Sequence[BudgetAllocation]
) -> Callable[[str, str], bool] | None:
    known = dict.fromkeys(level for budget in budgets for level in budget.levels)
    levels = {check_option(one, "within", known) for one in check_items(within, "within", "levels")}
    kinds = check_items(about, "about", "attributes")
    wanted = {check_option(one, "about", ATTRIBUTES) for one in kinds}
    if not levels and not wanted:
        return None
    return lambda level, query: (
        level in levels or (bool(wanted) and not wanted.isdisjoint(attributes(query)))
    )


# The scenarios of the published case study of the 2020 redistricting data.


BLOCK_GROUP, TRACT = ("Block",), ("Block_Group", "Block")
"""The levels below a place, which can tell where within it somebody lives."""

_SECRETS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "A": ("block within its block group", BLOCK_GROUP, ()),
    "B": ("block within its tract", TRACT, ()),
    "C": ("race", (), ("cenrace",)),
    "D": ("ethnicity", (), ("hispanic",)),
    "E": ("race, and block within its tract", TRACT, ("cenrace",)),
    "F": ("voting age, and block within its block group", BLOCK_GROUP, ("votingage",)),
    "G": (
        "voting age, race, and block within its block group",
        BLOCK_GROUP,
        ("votingage", "cenrace"),
    ),
    "H": (
        "voting age, ethnicity, and block within its block group",
        BLOCK_GROUP,
        ("votingage", "hispanic"),
    ),
}

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        letter: build_scenario(within=within, about=about, secret=secret)
        for letter, (secret, within, about) in _SECRETS.items()
    }
)
"""Scenarios A to H of Kifer et al. (2022), arXiv:2209.03310, Section 8.2."""

WHOLE_RELEASE = build_scenario(lambda level, query: True, secret="anything about a person")
"""Everything that the release protects: ρ = 2.63."""
