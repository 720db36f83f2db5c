"""A ledger of releases that does not let a budget be overspent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import check_option, check_scalar, show
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.composition._balances import (
    covers,
    nothing,
    remainder,
    share,
)
from dpinfer.privacy.composition._checks import check_guarantee, check_one_relation
from dpinfer.privacy.composition.accountings import ACCOUNTINGS
from dpinfer.privacy.composition.entries import LedgerEntry, make_entry
from dpinfer.privacy.guarantees import GDP, ZCDP, AmplifiedDP, ApproxDP, Guarantee, PureDP
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

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
    >>> from dpinfer.privacy.guarantees import PureDP
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
        chance = None if delta is None else check_scalar(delta, "delta", ge=0, lt=1)
        return self._total(name, chance)

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

        chance = check_scalar(delta, "delta", gt=0, lt=1)
        rows = [self._row(name, chance) for name in ACCOUNTINGS]
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
        """Return the total with one more release."""
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
            return total if isinstance(total, AmplifiedDP) else total.to_pure_dp()
        return total


_DEFAULTS: dict[type, AccountingName] = {
    PureDP: "sum",
    ApproxDP: "sum",
    ZCDP: "zcdp",
    GDP: "gdp",
}
"""How releases are added up against a budget of each kind."""
