"""Noisy measurements of the 2020 Census as values: queries, exact constraints, and the spine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, Locked
from dpinfer.mechanisms import DiscreteGaussian, Exact, IndependentNoise, NoiseLaw
from dpinfer.queries import Domain, Hierarchy

if TYPE_CHECKING:
    import pandas as pd

Units = NDArray[np.intp]

_SMALL = 0.05
"""Variances below which the noise is hardly ever other than -1, 0 and 1."""

_STEPS, _RELATIVE = 100, 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class QueryMeasurements(Locked):
    """The published values of one query, of the units that have it.

    Parameters
    ----------
    name : str
        The query, as the files name it without its ending.
    attributes : tuple of str
        The attributes that it keeps, or groupings of them; ``()`` for the total.
    units : array of int, shape (m,)
        Positions of the units in the hierarchy, each once.
    values : array of int, shape (m, levels of each attribute)
        The published values, read-only.
    variance : array of float, shape (m,)
        The variance of the noise of each value of a unit; 0 where it is exact.
    """

    name: str
    attributes: tuple[str, ...]
    units: Units
    values: NDArray[np.integer[Any]]
    variance: FloatArray

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of the noise of each unit: discrete Gaussian, or none where it is exact."""
        different, group = np.unique(self.variance, return_inverse=True)
        exact = different == 0.0
        if exact.all():
            return Exact()
        sigma = np.zeros(different.shape)
        sigma[~exact] = _sigma_of_variance(different[~exact])
        noisy = ~exact[group]
        law = DiscreteGaussian(sigma=sigma[group][noisy])
        if noisy.all():
            return law
        groups = [(law, np.flatnonzero(noisy)), (Exact(), np.flatnonzero(~noisy))]
        return IndependentNoise.from_groups(groups, len(group))

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return f"QueryMeasurements({self.name!r}, {len(self)} units, shape {self.values.shape})"


@dataclass(frozen=True, eq=False, repr=False)
class CensusConstraint(Locked):
    """What the files state about the units without noise, one of their constraints.

    Parameters
    ----------
    name : str
        The constraint, as the files name it.
    sign : {"=", "<=", ">="}
        How the confidential values compare to the stated ones.
    shape : tuple of int
        The ``query_shape``: a number for each attribute, 1 where it is summed over or fixed.
    units : array of int, shape (m,)
        Positions of the units in the hierarchy.
    values : array of int, shape (m, cells)
        The stated values, in row-major order of ``shape``.
    """

    name: str
    sign: str
    shape: tuple[int, ...]
    units: Units
    values: NDArray[np.integer[Any]]

    def __repr__(self) -> str:
        return f"CensusConstraint({self.name!r}, {self.sign!r}, {len(self.units)} units)"


@dataclass(frozen=True, eq=False)
class KnownZeros(Locked):
    """Cells that are zero without noise, in some or all units.

    Parameters
    ----------
    levels : mapping of str to level or list of levels
        The cells: those that have one of these levels in each of these attributes.
    units : array of int, shape (m,), or None
        Positions of the units in the hierarchy; None for all.
    """

    levels: Mapping[str, Any]
    units: Units | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CensusMeasurements(Locked):
    """Noisy measurement files of the 2020 Census, or a part of them, as they were read.

    Attributes
    ----------
    hierarchy : Hierarchy
        The units by their codes, level by level, in order of their codes. The children of a unit
        add up to it.
    level : array of int, shape (n,)
        The level of each unit, its position in ``levels``.
    levels : tuple of str
        The levels, from the highest; ``"Whole_State"`` where a state had to be put above its two
        subtrees.
    domain : Domain
        The attributes with their levels.
    groupings : mapping of str to (str, mapping)
        Coarser levels of attributes that queries keep: the attribute, and the group of each level.
    queries : mapping of str to QueryMeasurements
        The noisy values of each query.
    exact : tuple of QueryMeasurements
        What is known without noise: totals.
    zeros : tuple of KnownZeros
        Cells that are known to be zero.
    constraints : tuple of CensusConstraint
        All constraints of the files as they are stated. Of the inequalities among them, only
        bounds of zero on what cannot be negative are used, and stand in ``zeros``.
    """

    hierarchy: Hierarchy
    level: NDArray[np.intp]
    levels: tuple[str, ...]
    domain: Domain
    groupings: Mapping[str, tuple[str, Mapping[Any, Any]]]
    queries: Mapping[str, QueryMeasurements]
    exact: tuple[QueryMeasurements, ...]
    zeros: tuple[KnownZeros, ...]
    constraints: tuple[CensusConstraint, ...]

    @property
    def labels(self) -> pd.Index:
        """Codes of the units."""
        labels = self.hierarchy.labels
        assert labels is not None
        return labels

    def at_level(self, name: str) -> Units:
        """Return the positions of the units of a level.

        Parameters
        ----------
        name : str
            The level.

        Returns
        -------
        array of int
            Positions in the hierarchy, none for a level that was not read.
        """
        if name not in self.levels:
            return np.empty(0, dtype=np.intp)
        return np.flatnonzero(self.level == self.levels.index(name))

    def __len__(self) -> int:
        return len(self.hierarchy)

    def __repr__(self) -> str:
        counts = np.bincount(self.level, minlength=len(self.levels))
        units = ", ".join(
            f"{name}: {count}" for name, count in zip(self.levels, counts, strict=True)
        )
        return f"CensusMeasurements({units}; {len(self.queries)} queries)"


def _sigma_of_variance(variance: FloatArray) -> FloatArray:
    """Return σ of the discrete Gaussians of some variances."""
    small = variance < _SMALL
    # near 0 the variance is 2 exp(-1/(2σ²)), the mass at ±1; above 1 it is σ² itself
    square = np.where(small, 0.5 / np.log(2.0 / variance), variance)
    for _ in range(_STEPS):
        found = np.asarray(DiscreteGaussian(sigma=np.sqrt(square)).variance)
        if (np.abs(found - variance) <= _RELATIVE * variance).all():
            break
        inverse = 1.0 / square + 2.0 * np.log(found / variance)
        square = np.where(small, 1.0 / inverse, square + variance - found)
    return np.sqrt(square)
