"""A ledger of releases that does not let a budget be overspent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    Locked,
    Neighbours,
    check_array,
    check_flag,
    check_integer,
    check_items,
    check_length,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.channels import RandomizedResponse
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.privacy.composition import (
    RepeatedDP,
    check_guarantee,
    check_pairs,
    compose,
    compose_advanced,
)
from dpinfer.privacy.guarantees import (
    GDP,
    LETTERS,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    check_one_relation,
)
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.privacy.loss import PrivacyLoss


# How a privacy-loss budget is divided among levels and queries, in exact fractions.


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


# One line of a ledger of budgets.


@dataclass(frozen=True)
class LedgerEntry:
    """A named release and what it costs.

    Parameters
    ----------
    name : str
        The name of the release.
    guarantee : Guarantee
        Its guarantee.
    mechanism : NoiseLaw, RandomizedResponse or ExponentialMechanism, optional
        The mechanism, where it is known: numerical accounting starts from it.
    sensitivity : float or array of float, default 1
        The sensitivity of the query.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> LedgerEntry("total", PureDP(0.5)).guarantee
    PureDP(epsilon=0.5, neighbours='add-remove')
    """

    name: str
    guarantee: Guarantee
    mechanism: Any = None
    sensitivity: Any = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidParameterError(f"name must be that of a release, got {show(self.name)}")
        check_guarantee(self.guarantee, "guarantee")

    @property
    def mechanism_name(self) -> str:
        """The kind of the mechanism, or nothing where only the guarantee is known."""
        return "" if self.mechanism is None else type(self.mechanism).__name__


def make_entry(
    name: str,
    guarantee: Guarantee | None,
    mechanism: Any,
    sensitivity: ArrayLike,
    neighbours: Neighbours,
) -> LedgerEntry:
    """Return the entry of a release given by its guarantee, or by mechanism and sensitivity."""
    if (guarantee is None) == (mechanism is None):
        raise InvalidParameterError(
            "guarantee or mechanism must be given, and not both, got "
            f"{show(guarantee)} and {show(mechanism)}"
        )
    if guarantee is not None:
        return LedgerEntry(name, guarantee)
    change = check_array(sensitivity, "sensitivity", ge=0)
    found = guarantee_of(mechanism, change, neighbours)
    return LedgerEntry(name, found, mechanism, freeze(change) if np.ndim(change) else float(change))


# Ways to add up what the releases of a ledger cost.


Accounting = Callable[[Sequence[LedgerEntry], float | None], Guarantee]


def _guarantees(entries: Sequence[LedgerEntry]) -> list[Guarantee]:
    return [entry.guarantee for entry in entries]


def add_up(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Σε and Σδ, or the sum of the weakest kind."""
    return compose(_guarantees(entries), delta=delta)


def as_zcdp(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Σρ, from the mechanisms where they are known, expressed at δ where one is given."""
    total = compose([_zcdp(entry) for entry in entries])
    return total if delta is None else total.to_approx_dp(delta)


def _zcdp(entry: LedgerEntry) -> Guarantee:
    if entry.mechanism is None:
        return entry.guarantee.to_zcdp()
    return guarantee_of(entry.mechanism, entry.sensitivity, entry.guarantee.neighbours, kind="zcdp")


def as_gdp(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """√Σμ², expressed at δ where one is given."""
    total = compose([guarantee.to_gdp() for guarantee in _guarantees(entries)])
    return total if delta is None else total.to_approx_dp(delta)


def advanced(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Smallest closed-form bound of advanced composition at δ."""
    return compose_advanced(_pairs(entries), _demand(delta, "advanced"), method="kairouz")


def optimal(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Exact composition of equal pairs (ε, δ)."""
    epsilons, deltas, relation = check_pairs(_pairs(entries))
    if np.ptp(epsilons) > 0 or np.ptp(deltas) > 0:
        raise InvalidParameterError(
            "accounting must not be 'optimal' for guarantees that differ, which has no formula: "
            "use 'advanced' or 'numerical'"
        )
    total = RepeatedDP(epsilons[0], deltas[0], len(epsilons), neighbours=relation)
    return total if delta is None else total.to_approx_dp(delta)


def numerical(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Certified upper ε at δ from the laws of the privacy losses."""
    at = _demand(delta, "numerical")
    relation = entries[0].guarantee.neighbours
    costly = [entry for entry in entries if entry.guarantee.delta_at(0.0) > 0]
    if not costly:
        return ApproxDP(0.0, at, neighbours=relation)
    epsilon = float(loss_of(costly).epsilon_bounds(at)[1])
    return ApproxDP(epsilon, at, neighbours=relation)


def loss_of(entries: Sequence[LedgerEntry]) -> PrivacyLoss:
    """Law of the privacy loss of all releases together."""
    # imported here because most ledgers never need it
    from dpinfer.privacy.loss import PrivacyLoss, privacy_loss

    counts = Counter(_loss_key(entry) for entry in entries)
    mechanisms = {_loss_key(entry): _mechanism(entry) for entry in entries}
    parts = (privacy_loss(*mechanisms[key], compositions=count) for key, count in counts.items())
    return sum(parts, PrivacyLoss(()))


def _mechanism(entry: LedgerEntry) -> tuple[Any, float]:
    """Return the mechanism of a release, or the worst one that has its guarantee."""
    one_scale = getattr(entry.mechanism, "shape", ()) == ()
    if entry.mechanism is not None and one_scale and np.ndim(entry.sensitivity) == 0:
        return entry.mechanism, float(entry.sensitivity)
    guarantee = entry.guarantee
    if isinstance(guarantee, PureDP) and guarantee.epsilon > 0:
        return RandomizedResponse.from_epsilon(guarantee.epsilon), 1.0
    if isinstance(guarantee, GDP) and guarantee.mu > 0:
        return Gaussian(sigma=1.0 / guarantee.mu), 1.0
    raise InvalidParameterError(
        f"release {entry.name!r} must be recorded with its mechanism for numerical accounting: "
        f"{guarantee} has no worst mechanism whose privacy loss is known"
    )


def _loss_key(entry: LedgerEntry) -> str:
    return repr(_mechanism(entry))


def _pairs(entries: Sequence[LedgerEntry]) -> list[Any]:
    return [
        guarantee.to_pure_dp() if isinstance(guarantee, RepeatedDP) else guarantee
        for guarantee in _guarantees(entries)
    ]


def _demand(delta: float | None, name: str) -> float:
    if delta is None:
        raise InvalidParameterError(f"delta must be given for accounting={name!r}")
    return delta


ACCOUNTINGS: dict[str, Accounting] = {
    "sum": add_up,
    "zcdp": as_zcdp,
    "gdp": as_gdp,
    "advanced": advanced,
    "optimal": optimal,
    "numerical": numerical,
}
"""How the cost of several releases is added up, by name."""


# Budgets against totals, in the parameters of the budget.


ROUNDING = 1e-12
"""Share of a budget by which a total may exceed it: rounding of the sums."""

_PARAMETERS: dict[type, tuple[str, ...]] = {
    PureDP: ("epsilon",),
    ApproxDP: ("epsilon", "delta"),
    ZCDP: ("rho",),
    GDP: ("mu",),
}


def covers(budget: Guarantee, total: Guarantee) -> bool:
    """Whether a total stays within the budget in every parameter that either has."""
    return all(
        getattr(total, name, 0.0) <= getattr(budget, name, 0.0) * (1.0 + ROUNDING)
        for name in LETTERS
    )


def nothing(budget: Guarantee) -> Guarantee:
    """Return the guarantee of no release at all, in the kind of the budget."""
    return _changed(budget, dict.fromkeys(_PARAMETERS[type(budget)], 0.0))


def remainder(budget: Guarantee, spent: Guarantee) -> Guarantee:
    """Return what is left of a budget, in its own kind."""
    if isinstance(budget, GDP) and isinstance(spent, GDP):
        # √(μ² - spent²)
        gap = max(budget.mu - spent.mu, 0.0) * (budget.mu + spent.mu)
        return _changed(budget, {"mu": float(np.sqrt(gap))})
    left = {
        name: max(getattr(budget, name) - getattr(spent, name, 0.0), 0.0)
        for name in _PARAMETERS[type(budget)]
    }
    return _changed(budget, left)


def share(budget: Guarantee, spent: Guarantee) -> float:
    """Share of a release in the budget, in the quantity that adds up: ε, ρ or μ²."""
    name = _PARAMETERS[type(budget)][0]
    whole = getattr(budget, name)
    ratio = float(getattr(spent, name)) / whole if whole else 0.0
    return ratio * ratio if name == "mu" else ratio


def _changed(budget: Guarantee, parameters: dict[str, Any]) -> Guarantee:
    return replace(budget, **parameters)


AccountingName = Literal["sum", "zcdp", "gdp", "advanced", "optimal", "numerical"]


class BudgetLedger:
    """Releases made under one budget, and what they cost together.

    Parameters
    ----------
    budget : PureDP, ApproxDP, ZCDP or GDP
        All that may be spent, for one neighbour relation.
    accounting : {"sum", "zcdp", "gdp", "advanced", "optimal", "numerical"}, optional
        How releases are added up against the budget. By default in the kind of the budget:
        Σε, Σρ or √Σμ², and Σε and Σδ for an :class:`ApproxDP` budget. For such a budget any of
        the others may be chosen, at its δ.

    Raises
    ------
    InvalidParameterError
        If ``budget`` is no such guarantee, or the accounting does not go with its kind.

    Notes
    -----
    The ledger protects the budget only if everything computed on the data is recorded, before it is
    published. ``"sum"``, ``"zcdp"`` and ``"gdp"`` hold when each release and its cost are chosen
    with a view to those before. ``"advanced"``, ``"optimal"`` and ``"numerical"`` hold when the
    costs were fixed beforehand. A total may exceed the budget by 1e-12 of it, for rounding.

    References
    ----------
    Rogers, R., Roth, A., Ullman, J. and Vadhan, S. (2016). Privacy odometers and filters:
    pay-as-you-go composition. Advances in Neural Information Processing Systems 29, 1921-1929.
    arXiv:1605.08294.

    Feldman, V. and Zrnic, T. (2021). Individual privacy accounting via a Rényi filter. Advances in
    Neural Information Processing Systems 34, 28080-28091. arXiv:2008.11193.

    Smith, A. and Thakurta, A. (2022). Fully adaptive composition for Gaussian differential privacy.
    arXiv:2210.17520.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> from dpinfer.privacy import PureDP
    >>> ledger = BudgetLedger(PureDP(1.0))
    >>> ledger.record("total", mechanism=Geometric(scale=2.0))
    PureDP(epsilon=0.5, neighbours='add-remove')
    >>> ledger.record("by age", PureDP(0.25)).epsilon
    0.25
    >>> ledger.remaining
    PureDP(epsilon=0.25, neighbours='add-remove')
    >>> print(ledger.summary())
                                 Privacy budget
    ========================================================================
    Budget:                   ε = 1    Spent:                       ε = 0.75
    Left:                  ε = 0.25    Neighbours:                add-remove
    Accounting:                 sum    Releases:                           2
    ========================================================================
                                                  mechanism    cost    share
    ------------------------------------------------------------------------
    total                                         Geometric  ε = 0.5  0.5000
    by age                                                  ε = 0.25  0.2500
    ========================================================================
    """

    def __init__(self, budget: Guarantee, *, accounting: AccountingName | None = None) -> None:
        check_guarantee(budget, "budget")
        if type(budget) not in _DEFAULTS:
            raise InvalidParameterError(
                f"budget must be a PureDP, ApproxDP, ZCDP or GDP, got {show(budget)}"
            )
        chosen = _DEFAULTS[type(budget)] if accounting is None else accounting
        self._accounting = check_option(chosen, "accounting", ACCOUNTINGS)
        if type(budget) is not ApproxDP and self._accounting != _DEFAULTS[type(budget)]:
            raise InvalidParameterError(
                f"accounting must be {_DEFAULTS[type(budget)]!r} for {budget}, got "
                f"{self._accounting!r}: for the others state the budget as ApproxDP(epsilon, delta)"
            )
        self._budget = budget
        self._entries: dict[str, LedgerEntry] = {}
        self._running = nothing(budget)

    def __repr__(self) -> str:
        return f"<BudgetLedger of {self._budget}, {len(self)} releases>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def budget(self) -> Guarantee:
        """All that may be spent."""
        return self._budget

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The releases in the order in which they were recorded."""
        return tuple(self._entries.values())

    def record(
        self,
        name: str,
        guarantee: Guarantee | None = None,
        *,
        mechanism: Any = None,
        sensitivity: ArrayLike = 1.0,
    ) -> Guarantee:
        """Record a release, or refuse it where it would overspend the budget.

        Parameters
        ----------
        name : str
            A name that no other release has.
        guarantee : Guarantee, optional
            What the release costs; releases from disjoint parts are one, by
            :func:`compose_parallel`.
        mechanism : NoiseLaw, RandomizedResponse or ExponentialMechanism, optional
            The mechanism instead, from which numerical accounting can start.
        sensitivity : float or array of float, default 1
            The sensitivity of the query, as for :func:`guarantee_of`.

        Returns
        -------
        Guarantee
            The guarantee that was recorded.

        Raises
        ------
        IncompatibleReleaseError
            If the release would overspend the budget, or is for the other neighbour relation.
            Nothing is recorded then.
        InvalidParameterError
            If the name is taken, or not exactly one of guarantee and mechanism is given.
        """
        entry = make_entry(name, guarantee, mechanism, sensitivity, self._budget.neighbours)
        if entry.name in self._entries:
            raise InvalidParameterError(f"name must be new, got {name!r}, which is on record")
        check_one_relation([self._budget, entry.guarantee])
        total = self._after(entry)
        if not covers(self._budget, total):
            raise IncompatibleReleaseError(
                f"release {name!r} would overspend the budget {self._budget}: it costs "
                f"{entry.guarantee}, with which the total would be {total}. It is not recorded; "
                "add noise, or ask for less"
            )
        self._entries[name], self._running = entry, total
        return entry.guarantee

    def affords(self, guarantee: Guarantee) -> bool:
        """Whether a release would fit into the budget.

        Parameters
        ----------
        guarantee : Guarantee
            What it would cost.

        Returns
        -------
        bool
            Whether :meth:`record` would take it.

        Raises
        ------
        IncompatibleReleaseError
            If the guarantee is for the other neighbour relation.
        InvalidParameterError
            If it has no cost under the accounting of the ledger.
        """
        check_one_relation([self._budget, check_guarantee(guarantee, "guarantee")])
        entry = LedgerEntry("another release", guarantee)
        return covers(self._budget, self._after(entry))

    @property
    def spent(self) -> Guarantee:
        """What the releases cost together, by the accounting of the ledger."""
        return self._spent(list(self._entries.values()))

    @property
    def remaining(self) -> Guarantee:
        """What is left of the budget for one more release, in its own kind.

        Raises
        ------
        InvalidParameterError
            If the accounting has no remainder: what a release adds depends on the others.
        """
        if not self._adds_up:
            raise InvalidParameterError(
                f"remaining is not defined for accounting {self._accounting!r}, as what a release "
                "adds depends on the others: ask ledger.affords(guarantee)"
            )
        return remainder(self._budget, self.spent)

    def total(
        self, accounting: AccountingName | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """Add up what the releases cost together, by any accounting.

        Parameters
        ----------
        accounting : {"sum", "zcdp", "gdp", "advanced", "optimal", "numerical"}, optional
            The plain sum in the weakest kind; Σρ; √Σμ²; the best closed form of advanced
            composition; the exact composition of equal pairs; or the certified upper ε from the
            privacy losses of the mechanisms. By default that of the ledger.
        delta : float, optional
            The total δ, at which the answer is expressed as (ε, δ). ``"advanced"`` and
            ``"numerical"`` need it.

        Returns
        -------
        Guarantee
            The total.

        Raises
        ------
        InvalidParameterError
            If a release has no cost under this accounting, or ``delta`` is missing.
        """
        name = check_option(accounting or self._accounting, "accounting", ACCOUNTINGS)
        at = None if delta is None else check_scalar(delta, "delta", ge=0, lt=1)
        return self._total(name, at)

    def totals(self, delta: float) -> pd.DataFrame:
        """Every accounting side by side, as (ε, δ).

        Parameters
        ----------
        delta : float
            The total δ, within (0, 1).

        Returns
        -------
        pandas.DataFrame
            One row for each accounting: ``epsilon``, which is NaN where the accounting does not
            apply, and ``note``, which says why.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside (0, 1).
        """
        import pandas as pd

        at = check_scalar(delta, "delta", gt=0, lt=1)
        rows = [self._row(name, at) for name in ACCOUNTINGS]
        index = pd.Index(ACCOUNTINGS, name="accounting")
        return pd.DataFrame(rows, columns=["epsilon", "note"], index=index)

    def summary_frame(self) -> pd.DataFrame:
        """One row for each release.

        Returns
        -------
        pandas.DataFrame
            ``mechanism`` and ``guarantee``, ``cost`` as text, and ``share``, that of the release
            alone in the budget, in its main parameter: ε, ρ or μ².
        """
        import pandas as pd

        shares = [share(self._budget, self._spent([entry])) for entry in self.entries]
        return pd.DataFrame(
            {
                "mechanism": [entry.mechanism_name for entry in self.entries],
                "guarantee": [entry.guarantee for entry in self.entries],
                "cost": [entry.guarantee.in_words() for entry in self.entries],
                "share": np.array(shares, dtype=np.float64),
            },
            index=pd.Index([entry.name for entry in self.entries], name="release", dtype=object),
        )

    def summary(self) -> str:
        """Return the budget, what is spent and left, and the releases as a plain-text table."""
        frame = self.summary_frame()
        try:
            left = self.remaining.in_words()
        except InvalidParameterError:
            left = "depends on the release"
        header = [
            ("Budget", self._budget.in_words()),
            ("Spent", self.spent.in_words()),
            ("Left", left),
            ("Neighbours", self._budget.neighbours),
            ("Accounting", self._accounting),
            ("Releases", len(self)),
        ]
        columns = {name: frame[name].to_list() for name in ("mechanism", "cost", "share")}
        index = frame.index.to_list()
        return render_table("Privacy budget", header, columns if index else None, index=index)

    def _row(self, accounting: str, delta: float) -> tuple[float, str]:
        """Return ε by one accounting, or why it does not apply."""
        try:
            total = self._total(accounting, delta)
            pair = total if isinstance(total, ApproxDP) else total.to_approx_dp(delta)
        except (DPInferError, ImportError) as error:
            return np.nan, str(error)
        return pair.epsilon, ""

    def _total(self, accounting: str, delta: float | None) -> Guarantee:
        if not self._entries:
            return nothing(self._budget)
        return ACCOUNTINGS[accounting](list(self._entries.values()), delta)

    def _after(self, entry: LedgerEntry) -> Guarantee:
        pair = isinstance(entry.guarantee, (PureDP, ApproxDP))
        if self._adds_up and (pair or not isinstance(self._budget, ApproxDP)):
            # from the running total, so that many releases take a time linear in their number
            total = self._spent([LedgerEntry("so far", self._running), entry])
            if covers(self._budget, total):
                return total
        return self._spent([*self._entries.values(), entry])

    @property
    def _adds_up(self) -> bool:
        return self._accounting == _DEFAULTS[type(self._budget)]

    def _spent(self, entries: list[LedgerEntry]) -> Guarantee:
        """Return what the entries cost against the budget, at its δ where it has one to give."""
        if not entries:
            return nothing(self._budget)
        budget = self._budget
        delta = budget.delta if isinstance(budget, ApproxDP) else None
        if self._accounting == "sum" and all(
            isinstance(entry.guarantee, (PureDP, ApproxDP)) for entry in entries
        ):
            delta = None
        total = ACCOUNTINGS[self._accounting](entries, delta)
        if isinstance(budget, PureDP) and type(total) is not PureDP:
            return total if isinstance(total, ApproxDP) else total.to_pure_dp()
        return total


_DEFAULTS: dict[type, AccountingName] = {
    PureDP: "sum",
    ApproxDP: "sum",
    ZCDP: "zcdp",
    GDP: "gdp",
}
"""How releases are added up against a budget of each kind."""
