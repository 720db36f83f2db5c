"""What a planned release would measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpinfer._validation import FloatArray, Neighbours, check_items, show
from dpinfer.errors import InvalidParameterError
from dpinfer.queries import Domain, Workload
from dpinfer.queries.domain import check_domain
from dpinfer.spending._marginals import MarginalMeasurements, Names, Objective
from dpinfer.spending._matrices import MatrixMeasurements

if TYPE_CHECKING:
    import pandas as pd

_MOST_ATTRIBUTES = 16
"""Attributes of one target marginal, whose subsets are listed."""


class Measurements(Protocol):
    """Measured queries in groups, and targets whose best estimates they determine."""

    @property
    def names(self) -> list[str]:
        """Names of the groups."""

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the targets."""

    @property
    def cells(self) -> FloatArray:
        """How many queries a target stands for, all of which have its variance."""

    def sensitivities(self, order: int, neighbours: Neighbours) -> FloatArray:
        """Return the sensitivity of each group."""

    def variances(self, precision: FloatArray) -> FloatArray:
        """Return the variances of the targets; groups of precision 0 are not measured."""

    def objective(self, weights: FloatArray) -> Objective:
        """Return Σ weight·variance as a function of the precision of each group."""


def read_measurements(measured: Any, domain: Domain | None, target: Any) -> Measurements:
    """Return the groups of queries and the targets that a plan is asked for."""
    names, items = _named(measured)
    if domain is not None:
        check_domain(domain)
    if domain is not None and all(_is_marginal(item) for item in items):
        tables = [_marginal(item, domain) for item in items]
        kept = tables if target is None else _target_marginals(target, domain)
        if kept is not None:
            return _marginals(domain, tables, names, kept)
    groups = [_workload(item, domain) for item in items]
    if (kept := None if domain is None else _target_marginals(target, domain)) is not None:
        assert domain is not None
        target = Workload.from_marginals(domain, kept)
    shown = [name or f"measurement {at}" for at, name in enumerate(names)]
    return MatrixMeasurements.of(groups, shown, target)


def _marginals(
    domain: Domain, tables: list[Names], names: list[str | None], targets: list[Names]
) -> Measurements:
    import pandas as pd

    if (most := max(map(len, targets))) > _MOST_ATTRIBUTES:
        raise InvalidParameterError(
            f"target must hold marginals of at most {_MOST_ATTRIBUTES} attributes, got {most}"
        )
    shown = [name or _title(table) for name, table in zip(names, tables, strict=True)]
    labels = pd.Index([_title(table) for table in targets], name="marginal")
    return MarginalMeasurements.of(domain, tables, shown, targets, labels)


def _named(measured: Any) -> tuple[list[str | None], list[Any]]:
    """Return the items with their names, None where they have none."""
    if isinstance(measured, Mapping):
        names: list[str | None] = [str(name) for name in measured]
        items = list(measured.values())
    else:
        single = isinstance(measured, (str, Workload, np.ndarray)) or hasattr(measured, "tocsr")
        items = [measured] if single else check_items(measured, "measured", "measurements")
        names = [None] * len(items)
    if not items:
        raise InvalidParameterError("measured must hold at least one measurement, got none")
    return names, items


def _is_marginal(item: Any) -> bool:
    """Whether an item names attributes, rather than being a matrix."""
    if isinstance(item, str):
        return True
    return isinstance(item, (tuple, list)) and all(isinstance(name, str) for name in item)


def _marginal(item: Any, domain: Domain) -> Names:
    """Return the attributes of a marginal in the order of the domain."""
    names = (item,) if isinstance(item, str) else tuple(item)
    domain.check_attributes(names)
    if len(set(names)) < len(names):
        raise InvalidParameterError(f"a marginal must name an attribute once, got {show(names)}")
    return tuple(name for name in domain.attributes if name in names)


def _target_marginals(target: Any, domain: Domain) -> list[Names] | None:
    """Return target marginals, or None where the targets are given in another way."""
    if isinstance(target, str):
        return [_marginal(target, domain)]
    if not isinstance(target, (list, tuple)) or not len(target):
        return None
    if isinstance(target, tuple) and _is_marginal(target):
        return [_marginal(target, domain)]
    if all(_is_marginal(item) for item in target):
        return [_marginal(item, domain) for item in target]
    return None


def _workload(item: Any, domain: Domain | None) -> Workload:
    if isinstance(item, Workload):
        return item
    if _is_marginal(item):
        if domain is None:
            raise InvalidParameterError(
                f"domain must be given for marginals such as {show(item)}: their attributes"
            )
        return Workload.from_marginals(domain, [item])
    return Workload(item, domain=domain)


def _title(names: Names) -> str:
    return " × ".join(names) if names else "total"
