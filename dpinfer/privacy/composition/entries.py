"""One line of a ledger of budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import Neighbours, check_array, freeze, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.composition._checks import check_guarantee
from dpinfer.privacy.guarantees import Guarantee, guarantee_of


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
    >>> from dpinfer.privacy.guarantees import PureDP
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
