"""Parallel composition: releases that each look at their own part of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, hypot

import numpy as np

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.composition._checks import check_guarantees
from dpinfer.privacy.guarantees import GDP, RDP, ZCDP, AmplifiedDP, ApproxDP, Guarantee, PureDP


def compose_parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Guarantee of releases from disjoint parts of the data.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        The guarantee of the release from each part, all of one kind and one neighbour relation.
        Which part a record belongs to must be a property of the record itself.

    Returns
    -------
    Guarantee
        Of the same kind. For adding or removing a record the largest; for replacing one what the
        two largest give together, as the record can leave one part and enter another.

    Raises
    ------
    InvalidParameterError
        If there is no guarantee, or kinds are mixed.
    IncompatibleReleaseError
        If neighbour relations are mixed, or a guarantee is amplified.

    Notes
    -----
    Under ``"replace"`` each guarantee is that of the release as a function of all the data: a
    record that enters or leaves its part is a replacement too. Of pairs (ε, δ) the largest ε and
    the largest δ are taken, whichever release they come from.

    References
    ----------
    McSherry, F. (2009). Privacy integrated queries. ACM SIGMOD Conference, 19-30.
    doi:10.1145/1559845.1559850, Theorem 4.

    Guerra-Balboa, P., Miranda-Pascual, À., Parra-Arnau, J. and Strufe, T. (2024). Composition in
    differential privacy for general granularity notions. 37th IEEE Computer Security Foundations
    Symposium. arXiv:2308.14649 (other neighbour relations).

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> compose_parallel([PureDP(0.5), PureDP(1.0), PureDP(0.75)])
    PureDP(epsilon=1.0, neighbours='add-remove')
    >>> compose_parallel([PureDP(e, neighbours="replace") for e in (0.5, 1.0, 0.75)])
    PureDP(epsilon=1.75, neighbours='replace')
    """
    parts = check_guarantees(guarantees)
    kind = type(parts[0])
    if any(type(part) is not kind for part in parts):
        listed = ", ".join(sorted({type(part).__name__ for part in parts}))
        raise InvalidParameterError(
            f"guarantees must be of one kind to be composed in parallel, got {listed}: convert them"
        )
    if kind is AmplifiedDP:
        raise IncompatibleReleaseError(
            "guarantees must not be amplified here: compose what was computed on the parts of one "
            "sample first, and amplify once"
        )
    affected = 1 if parts[0].neighbours == "add-remove" else 2
    return _parallel(parts, affected)


def _parallel(parts: Sequence[Guarantee], affected: int) -> Guarantee:
    """Put together the ``affected`` largest of each parameter."""
    first, relation = parts[0], parts[0].neighbours
    if isinstance(first, RDP):
        return _parallel_renyi([part for part in parts if isinstance(part, RDP)], affected)

    def largest(name: str) -> list[float]:
        return sorted(float(getattr(part, name)) for part in parts)[-affected:]

    if isinstance(first, PureDP):
        return PureDP(fsum(largest("epsilon")), neighbours=relation)
    if isinstance(first, ZCDP):
        return ZCDP(fsum(largest("rho")), neighbours=relation)
    if isinstance(first, GDP):
        return GDP(hypot(*largest("mu")), neighbours=relation)
    if isinstance(first, ApproxDP):
        epsilon, delta = fsum(largest("epsilon")), fsum(largest("delta"))
        return ApproxDP(epsilon, delta, neighbours=relation)
    raise InvalidParameterError(
        f"guarantees of kind {type(first).__name__} cannot be composed in parallel: convert them "
        "with to_approx_dp(delta) or to_zcdp()"
    )


def _parallel_renyi(parts: Sequence[RDP], affected: int) -> RDP:
    """Put together the bounds at every order of any curve that all curves reach."""
    orders = np.unique(np.concatenate([part.curve[0] for part in parts]))
    orders = orders[orders <= min(part.curve[0][-1] for part in parts)]
    bounds = np.array([part.to_rdp(orders).bound for part in parts])
    total = np.sort(bounds, axis=0)[-affected:].sum(axis=0)
    if all(np.ndim(part.order) == 0 for part in parts) and orders.size == 1:
        return RDP(float(orders[0]), float(total[0]), neighbours=parts[0].neighbours)
    return RDP(orders, total, neighbours=parts[0].neighbours)
