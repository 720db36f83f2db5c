"""Budgets: how they are divided, and a ledger that does not let one be overspent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import (
    Locked,
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
from dpinfer.mechanisms.channels import Channel, RandomizedResponse
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
from dpinfer.results.presentation import Listed, Plotted, Presented
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class BudgetAllocation(Locked, Presented, Plotted):
    """Shares of a budget ρ of zero-concentrated differential privacy.

    Parameters
    ----------
    rho : Fraction
        The budget of all levels together, > 0.
    levels : mapping of str to Fraction
        The share > 0 of each level; they add up to at most 1.
    queries : mapping of str to mapping of str to Fraction
        The share > 0 of each query within each level; those of a level add up to at most 1. A query
        that is not there is not measured.

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

    _drawing: ClassVar[str] = "plot_allocation"

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
            For each level its share of the budget, and a row of whole numbers, one of them above 0,
            in proportion to which its queries share all of it; 0 for a query that is not measured.

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
            if not isinstance(entry, tuple) or len(entry) != 2:
                raise InvalidParameterError(
                    "table must have a share and a row of whole numbers for "
                    f"{level}, got {show(entry)}"
                )
            share, row = entry[0], check_items(entry[1], f"the row of {level}", "whole numbers")
            check_length(row, f"the row of {level}", len(names), "queries")
            parts = [check_integer(part, f"the row of {level}", ge=0) for part in row]
            whole = max(sum(parts), 1)
            levels[level] = share
            within[level] = {
                name: Fraction(part, whole) for name, part in zip(names, parts, strict=True) if part
            }
        return cls(rho, levels, within)

    def query_rho(self, level: str, query: str) -> Fraction:
        """Return the budget of a query in a level: ρ times its :meth:`share`."""
        return self.rho * self.share(level, query)

    def share(self, level: str, query: str) -> Fraction:
        """Return the share of a query in a level in the whole budget, 0 where it is not measured.

        Names of no level, and of queries that no level measures, are refused.
        """
        measured = self.queries[check_option(level, "level", self.levels)]
        known = dict.fromkeys(name for shares in self.queries.values() for name in shares)
        return self.levels[level] * measured.get(check_option(query, "query", known), Fraction(0))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Run through the (level, query) that are measured."""
        return ((level, query) for level in self.levels for query in self.queries[level])

    def scenario_rho(self, affected: Callable[[str, str], bool]) -> Fraction:
        """Exact budget of the queries that a change of a secret would touch: the ρ of a scenario.

        Parameters
        ----------
        affected : callable
            ``affected(level, query)`` says, by True or False, whether the answer can change.

        References
        ----------
        Kifer et al. (2022), Bayesian and frequentist semantics for common variations of
        differential privacy, arXiv:2209.03310, Section 5.

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
        said = "the answer of affected(level, query)"
        touched = (pair for pair in self if check_flag(affected(*pair), said))
        return sum((self.query_rho(*pair) for pair in touched), Fraction(0))

    def table(self) -> pd.DataFrame:
        """Exact budgets ρ of every query (column) in every level (row); 0 where not measured."""
        import pandas as pd

        names = list(dict.fromkeys(query for _, query in self))
        rows = [[self.query_rho(level, name) for name in names] for level in self.levels]
        return pd.DataFrame(rows, index=pd.Index(self.levels, name="level"), columns=names)

    def summary_frame(self) -> pd.DataFrame:
        """Return :meth:`table`."""
        return self.table()

    def _table(self) -> Table:
        frame = self.table()
        facts = [("Budget", f"ρ = {self.rho}"), ("Measured", sum(1 for _ in self))]
        columns = {str(name): frame[name].to_numpy() for name in frame.columns}
        return Table("Shares of a budget", facts, columns, index=frame.index)


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


# Ways to add up what the releases of a ledger cost: expressed at δ where one is given.


def _sum(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Σε and Σδ, or the sum of the weakest kind."""
    return compose([entry.guarantee for entry in entries], delta=delta)


def _zcdp(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Σρ, from the mechanisms where they are known."""
    known = [
        entry.guarantee.to_zcdp()
        if entry.mechanism is None
        else guarantee_of(
            entry.mechanism, entry.sensitivity, entry.guarantee.neighbours, kind="zcdp"
        )
        for entry in entries
    ]
    return _at(compose(known), delta)


def _gdp(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """√Σμ²."""
    return _at(compose([entry.guarantee.to_gdp() for entry in entries]), delta)


def _advanced(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Smallest closed-form bound of advanced composition at δ."""
    return compose_advanced(_pairs(entries), _demand(delta, "advanced"), method="kairouz")


def _optimal(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Exact composition of equal pairs (ε, δ)."""
    epsilons, deltas, relation = check_pairs(_pairs(entries))
    if np.ptp(epsilons) > 0 or np.ptp(deltas) > 0:
        raise InvalidParameterError(
            "accounting must not be 'optimal' for guarantees that differ, which has no formula: "
            "use 'advanced' or 'numerical'"
        )
    return _at(RepeatedDP(epsilons[0], deltas[0], len(epsilons), neighbours=relation), delta)


def _numerical(entries: Sequence[LedgerEntry], delta: float | None) -> Guarantee:
    """Certified upper ε at δ from the laws of the privacy losses."""
    at = _demand(delta, "numerical")
    # imported here because most ledgers never need it
    from dpinfer.privacy.loss import PrivacyLoss, privacy_loss

    counts: dict[str, tuple[Any, float, int]] = {}
    for entry in entries:
        if entry.guarantee.delta_at(0.0) > 0:
            used = _mechanism(entry)
            counts[repr(used)] = (*used, counts.get(repr(used), (None, 0.0, 0))[2] + 1)
    loss = sum((privacy_loss(*part) for part in counts.values()), PrivacyLoss(()))
    epsilon = float(loss.epsilon_bounds(at)[1])
    return ApproxDP(epsilon, at, neighbours=entries[0].guarantee.neighbours)


def _mechanism(entry: LedgerEntry) -> tuple[Any, float]:
    """Return the mechanism of a release, or the worst one that has its guarantee."""
    one_scale = getattr(entry.mechanism, "shape", ()) == ()
    if isinstance(entry.mechanism, Channel):  # whose pairs of truths differ
        one_scale = False
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


def _pairs(entries: Sequence[LedgerEntry]) -> list[Any]:
    return [
        entry.guarantee.to_pure_dp() if isinstance(entry.guarantee, RepeatedDP) else entry.guarantee
        for entry in entries
    ]


def _at(total: Guarantee, delta: float | None) -> Guarantee:
    return total if delta is None else total.to_approx_dp(delta)


def _demand(delta: float | None, name: str) -> float:
    if delta is None:
        raise InvalidParameterError(f"delta must be given for accounting={name!r}")
    return delta


AccountingName = Literal["sum", "zcdp", "gdp", "advanced", "optimal", "numerical"]

_ACCOUNTINGS: dict[str, Callable[[Sequence[LedgerEntry], float | None], Guarantee]] = {
    "sum": _sum,
    "zcdp": _zcdp,
    "gdp": _gdp,
    "advanced": _advanced,
    "optimal": _optimal,
    "numerical": _numerical,
}

_DEFAULTS: dict[type, AccountingName] = {
    PureDP: "sum",
    ApproxDP: "sum",
    ZCDP: "zcdp",
    GDP: "gdp",
}
"""How releases are added up against a budget of each kind."""

ROUNDING = 1e-12
"""Share of a budget by which a total may exceed it: rounding of the sums."""


class BudgetLedger(Listed, Plotted):
    """Releases made under one budget, and what they cost together.

    Parameters
    ----------
    budget : PureDP, ApproxDP, ZCDP or GDP
        All that may be spent, for one neighbour relation.
    accounting : {"sum", "zcdp", "gdp", "advanced", "optimal", "numerical"}, optional
        How releases are added up against the budget. By default in the kind of the budget:
        Σε, Σρ or √Σμ², and Σε and Σδ for an :class:`ApproxDP` budget. For such a budget any of
        the others may be chosen, at its δ.

    Notes
    -----
    The ledger protects the budget only if everything computed on the data is recorded, before it is
    published. ``"sum"``, ``"zcdp"`` and ``"gdp"`` hold when each release and its cost are chosen
    with a view to those before. ``"advanced"``, ``"optimal"`` and ``"numerical"`` hold when the
    costs were fixed beforehand. A total may exceed the budget by 1e-12 of it, for rounding.

    References
    ----------
    Rogers, Roth, Ullman and Vadhan (2016), Privacy odometers and filters, arXiv:1605.08294. Feldman
    and Zrnic (2021), Individual privacy accounting via a Rényi filter, arXiv:2008.11193. Smith and
    Thakurta (2022), Fully adaptive composition for Gaussian differential privacy, arXiv:2210.17520.

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

    _drawing: ClassVar[str] = "plot_ledger"

    def __init__(self, budget: Guarantee, *, accounting: AccountingName | None = None) -> None:
        check_guarantee(budget, "budget")
        if type(budget) not in _DEFAULTS:
            raise InvalidParameterError(
                f"budget must be a PureDP, ApproxDP, ZCDP or GDP, got {show(budget)}"
            )
        chosen = _DEFAULTS[type(budget)] if accounting is None else accounting
        self._accounting = check_option(chosen, "accounting", _ACCOUNTINGS)
        if type(budget) is not ApproxDP and self._accounting != _DEFAULTS[type(budget)]:
            raise InvalidParameterError(
                f"accounting must be {_DEFAULTS[type(budget)]!r} for {budget}, got "
                f"{self._accounting!r}: for the others state the budget as ApproxDP(epsilon, delta)"
            )
        self._budget = budget
        self._entries: dict[str, LedgerEntry] = {}
        self._running = self._spent([])

    def __repr__(self) -> str:
        return f"<BudgetLedger of {self._budget}, {len(self)} releases>"

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
        """Record a release and return its guarantee, or refuse to overspend the budget.

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

        Raises
        ------
        IncompatibleReleaseError
            If the release would overspend the budget, or is for the other neighbour relation.
            Nothing is recorded then.
        """
        if (guarantee is None) == (mechanism is None):
            raise InvalidParameterError(
                "guarantee or mechanism must be given, and not both, got "
                f"{show(guarantee)} and {show(mechanism)}"
            )
        if guarantee is None:
            change = check_array(sensitivity, "sensitivity", ge=0)
            found = guarantee_of(mechanism, change, self._budget.neighbours)
            entry = LedgerEntry(
                name, found, mechanism, freeze(change) if change.ndim else float(change)
            )
        else:
            entry = LedgerEntry(name, guarantee)
        if entry.name in self._entries:
            raise InvalidParameterError(f"name must be new, got {name!r}, which is on record")
        check_one_relation([self._budget, entry.guarantee])
        total = self._after(entry)
        if not self._covers(total):
            raise IncompatibleReleaseError(
                f"release {name!r} would overspend the budget {self._budget}: it costs "
                f"{entry.guarantee}, with which the total would be {total}. It is not recorded; "
                "add noise, or ask for less"
            )
        self._entries[name], self._running = entry, total
        return entry.guarantee

    def affords(self, guarantee: Guarantee) -> bool:
        """Whether :meth:`record` would take a release with this guarantee."""
        check_one_relation([self._budget, check_guarantee(guarantee, "guarantee")])
        return self._covers(self._after(LedgerEntry("another release", guarantee)))

    @property
    def spent(self) -> Guarantee:
        """What the releases cost together, by the accounting of the ledger."""
        return self._spent(self.entries)

    @property
    def remaining(self) -> Guarantee:
        """What is left of the budget for one more release, in its own kind.

        Refused where the accounting has no remainder: what a release adds depends on the others.
        """
        if not self._adds_up:
            raise InvalidParameterError(
                f"remaining is not defined for accounting {self._accounting!r}, as what a release "
                "adds depends on the others: ask ledger.affords(guarantee)"
            )
        budget, spent = self._budget, self.spent
        if isinstance(budget, GDP) and isinstance(spent, GDP):
            # √(μ² - spent²)
            gap = max(budget.mu - spent.mu, 0.0) * (budget.mu + spent.mu)
            return replace(budget, mu=float(np.sqrt(gap)))
        left = {
            name: max(value - getattr(spent, name, 0.0), 0.0)
            for name, value in _numbers(budget).items()
        }
        return replace(budget, **left)

    def total(
        self, accounting: AccountingName | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """Add up what the releases cost together, by any accounting.

        Parameters
        ----------
        accounting : {"sum", "zcdp", "gdp", "advanced", "optimal", "numerical"}, optional
            The plain sum in the weakest kind; Σρ; √Σμ²; the best closed form of advanced
            composition; the exact composition of equal pairs; or the certified upper ε from the
            privacy losses of the mechanisms. By default that of the ledger. Refused where a release
            has no cost under it.
        delta : float, optional
            The total δ, within [0, 1), at which the answer is expressed as (ε, δ). ``"advanced"``
            and ``"numerical"`` need it.
        """
        name = check_option(accounting or self._accounting, "accounting", _ACCOUNTINGS)
        at = None if delta is None else check_scalar(delta, "delta", ge=0, lt=1)
        return self._total(name, at)

    def totals(self, delta: float) -> pd.DataFrame:
        """Every accounting side by side, as (ε, δ) at a total δ within (0, 1).

        The frame has one row for each: ``epsilon``, which is NaN where the accounting does not
        apply, and ``note``, which says why.
        """
        import pandas as pd

        at = check_scalar(delta, "delta", gt=0, lt=1)
        rows = [self._row(name, at) for name in _ACCOUNTINGS]
        index = pd.Index(_ACCOUNTINGS, name="accounting")
        return pd.DataFrame(rows, columns=["epsilon", "note"], index=index)

    def summary_frame(self) -> pd.DataFrame:
        """One row for each release: mechanism, guarantee, cost as text, and share of the budget.

        The ``share`` is that of the release alone, in the main parameter of the budget: ε, ρ or μ².
        """
        import pandas as pd

        name, whole = next(iter(_numbers(self._budget).items()))
        ratios = [
            float(getattr(self._spent([entry]), name)) / whole if whole else 0.0
            for entry in self.entries
        ]
        shares = np.square(ratios) if name == "mu" else np.array(ratios, dtype=np.float64)
        return pd.DataFrame(
            {
                "mechanism": [entry.mechanism_name for entry in self.entries],
                "guarantee": [entry.guarantee for entry in self.entries],
                "cost": [entry.guarantee.in_words() for entry in self.entries],
                "share": shares,
            },
            index=pd.Index([entry.name for entry in self.entries], name="release", dtype=object),
        )

    def _rows(self) -> tuple[int, pd.Index | None]:
        import pandas as pd

        return len(self._entries), pd.Index(list(self._entries), dtype=object)

    def _table(self) -> Table:
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
        return Table("Privacy budget", header, columns if index else None, index=index)

    def _row(self, accounting: str, delta: float) -> tuple[float, str]:
        """Return ε by one accounting, or why it does not apply."""
        try:
            total = self._total(accounting, delta)
            pair = total if isinstance(total, ApproxDP) else total.to_approx_dp(delta)
        except (DPInferError, ImportError) as error:
            return np.nan, str(error)
        return pair.epsilon, ""

    def _total(self, accounting: str, delta: float | None) -> Guarantee:
        return _ACCOUNTINGS[accounting](self.entries, delta) if self._entries else self._spent(())

    def _covers(self, total: Guarantee) -> bool:
        """Whether a total stays within the budget in every parameter that either has."""
        have, may = _numbers(total), _numbers(self._budget)
        return all(value <= may.get(name, 0.0) * (1.0 + ROUNDING) for name, value in have.items())

    def _after(self, entry: LedgerEntry) -> Guarantee:
        pair = isinstance(entry.guarantee, (PureDP, ApproxDP))
        if self._adds_up and (pair or not isinstance(self._budget, ApproxDP)):
            # from the running total, so that many releases take a time linear in their number
            total = self._spent([LedgerEntry("so far", self._running), entry])
            if self._covers(total):
                return total
        return self._spent([*self.entries, entry])

    @property
    def _adds_up(self) -> bool:
        return self._accounting == _DEFAULTS[type(self._budget)]

    def _spent(self, entries: Sequence[LedgerEntry]) -> Guarantee:
        """Return what the entries cost against the budget, at its δ where it has one to give."""
        budget = self._budget
        if not entries:
            zero: dict[str, Any] = dict.fromkeys(_numbers(budget), 0.0)
            return replace(budget, **zero)
        delta = budget.delta if isinstance(budget, ApproxDP) else None
        if self._accounting == "sum" and all(
            isinstance(entry.guarantee, (PureDP, ApproxDP)) for entry in entries
        ):
            delta = None
        total = _ACCOUNTINGS[self._accounting](entries, delta)
        if isinstance(budget, PureDP) and type(total) is not PureDP:
            return total if isinstance(total, ApproxDP) else total.to_pure_dp()
        return total


def _numbers(guarantee: Guarantee) -> dict[str, Any]:
    """Return the parameters that are numbers."""
    return {name: getattr(guarantee, name) for name in LETTERS if hasattr(guarantee, name)}
