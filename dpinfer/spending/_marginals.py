"""Measured marginals of a domain, and the variances that follow for target marginals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, Neighbours, show
from dpinfer.errors import NotEstimableError
from dpinfer.queries import Domain

if TYPE_CHECKING:
    import pandas as pd

Names = tuple[str, ...]

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""A sum of variances and its derivatives, for the precisions of the groups."""


@dataclass(frozen=True)
class MarginalMeasurements:
    """Marginals of a domain, all cells of each with the same noise.

    In the orthonormal basis of the mean and the deviations along each attribute (see
    ``combine_marginals``), a subset B of attributes has the information
    Σ p·Π n(a outside of the marginal) over the marginals that hold B, and the variance of a cell of
    a target is a sum over the subsets of its attributes.
    """

    names: list[str]
    labels: pd.Index | None
    cells: FloatArray
    _sizes: FloatArray
    _gain: FloatArray
    _parts: FloatArray

    @classmethod
    def of(
        cls,
        domain: Domain,
        measured: list[Names],
        names: list[str],
        targets: list[Names],
        labels: pd.Index,
    ) -> MarginalMeasurements:
        """Prepare the sums over subsets of attributes."""
        levels = dict(zip(domain.attributes, domain.shape, strict=True))
        subsets = sorted({part for target in targets for part in _subsets(target)})

        def size(attributes: Iterable[str]) -> float:
            return float(prod(levels[name] for name in attributes))

        def outside(kept: Names) -> float:
            return size(name for name in levels if name not in kept)

        gain = [[outside(kept) * set(part).issubset(kept) for part in subsets] for kept in measured]
        # squared length of the part of a target's cell in each subspace
        parts = [
            [
                set(part).issubset(kept)
                * outside(kept)
                / size(kept)
                * prod(levels[name] - 1.0 for name in part)
                for part in subsets
            ]
            for kept in targets
        ]
        return cls(
            names,
            labels,
            np.array([size(kept) for kept in targets]),
            np.array([size(kept) for kept in measured]),
            np.array(gain),
            np.array(parts),
        )

    def sensitivities(self, order: int, neighbours: Neighbours) -> FloatArray:
        """Return the sensitivity of each marginal; the total is known under ``"replace"``."""
        if neighbours == "add-remove":
            return np.ones(len(self.names))
        return np.where(self._sizes > 1, 2.0 ** (1 / order), 0.0)

    def variances(self, precision: FloatArray) -> FloatArray:
        """Return the variance of a cell of each target."""
        information = self._information(precision)
        unknown = (self._parts > 0) & (information == 0)
        _refuse(unknown.any(axis=1), self.labels)
        return np.asarray(self._parts @ (1.0 / np.where(information > 0, information, np.inf)))

    def objective(self, weights: FloatArray) -> Objective:
        """Return Σ weight·variance as a function of the precision of each group."""
        parts = weights @ self._parts

        def value(precision: FloatArray) -> tuple[float, FloatArray]:
            information = self._information(precision)
            _refuse(((self._parts > 0) & (information == 0)).any(axis=1), self.labels)
            inverse = 1.0 / np.where(information > 0, information, np.inf)
            return float(parts @ inverse), -(self._gain @ (parts * np.square(inverse)))

        return value

    def _information(self, precision: FloatArray) -> FloatArray:
        exact = np.isinf(precision)
        information = np.where(exact, 0.0, precision) @ self._gain
        return np.where((self._gain[exact] > 0).any(axis=0), np.inf, information)


def _subsets(names: Names) -> Iterable[Names]:
    for size in range(len(names) + 1):
        yield from combinations(names, size)


def _refuse(bad: NDArray[np.bool_], labels: pd.Index | None) -> None:
    """Refuse targets that are not estimable, by name."""
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise NotEstimableError(
            f"target {show(at if labels is None else labels[at])} must be determined by what is "
            "measured: measure a marginal that holds all of its attributes"
        )
