"""Combined estimates of the tables of all units of a hierarchy, in time linear in their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpinfer._validation import check_items, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.hierarchies.combine import check_variance
from dpinfer.estimation.tables._fit import MarginalsFit
from dpinfer.estimation.tables._reading import ReadMarginal, read_values, refuse_unreadable
from dpinfer.estimation.tables._schema import TableSchema
from dpinfer.estimation.tables._zeros import StructuralZeros, check_zeros, place_zeros
from dpinfer.estimation.tables.estimate import MarginalsEstimate
from dpinfer.mechanisms._shared import refuse_dependent
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.queries import Domain, Hierarchy
from dpinfer.queries.domain import check_domain

_CELLS_LIMIT = 2**35
"""Cells up to which the tables of all units are formed (256 GiB of float64)."""

__all__ = ["NoisyMarginal", "StructuralZeros", "combine_marginals"]


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Published values of one marginal, of some or all units of a hierarchy.

    Parameters
    ----------
    attributes : str or sequence of str
        Names of the attributes kept, or of groupings of them; ``()`` for the total.
    values : array of numbers, shape (m, levels of each attribute), DataFrame or Series
        The values of m units, the axes in the order of ``attributes``. A DataFrame has a row for
        each unit and a column for each cell, under its level, or the tuple of its levels. A Series
        has the labels (unit, level, ...), or units alone for the total. A frame of polars or
        pyarrow has units, and in long form levels, in columns before those of values, the latter
        named after the attributes. Arrays are not copied.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise of each cell: one for all units, or one for each of the m units.
        ``Exact()`` for what was published without noise.
    units : list or array, optional
        The units that the rows of an array belong to, each once: labels, or positions where units
        have no labels. By default all units in order. Units that are not there were not measured.

    Raises
    ------
    InvalidParameterError
        By :func:`combine_marginals`, which knows domain and hierarchy: if attributes are not in the
        domain, values do not have the shape that follows, are not real and finite or beyond
        ±1e100, variances are not 0 or within what it can compute with, or units are unknown or
        named twice.

    Notes
    -----
    A value is a cell of the marginal plus noise of its own: y = Σ x + e, the sum over the levels of
    the attributes that are not kept, with e independent over cells, units and marginals.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> NoisyMarginal("sex", [[4, 6], [3, 5]], dpi.Laplace(scale=1.0))
    NoisyMarginal('sex', 2 units, Laplace(scale=1.0))
    """

    attributes: str | tuple[str, ...]
    values: Any
    mechanism: Mechanism
    units: Any = None

    def __repr__(self) -> str:
        rows = len(self.values) if hasattr(self.values, "__len__") else 0
        return f"NoisyMarginal({show(self.attributes)}, {rows} units, {show(self.mechanism)})"


def combine_marginals(
    marginals: Any,
    hierarchy: Any,
    *,
    domain: Domain,
    groupings: Any = None,
    zeros: Any = None,
    unestimable: str = "raise",
) -> MarginalsEstimate:
    """Estimate the table of every unit of a hierarchy from noisy marginals of all units.

    Parameters
    ----------
    marginals : iterable of NoisyMarginal
        What was published: any marginals, each of any units. Values of a marginal that was
        published twice are two of them.
    hierarchy : Hierarchy, Series, mapping, or array of int, shape (n,)
        The hierarchy, or the parent of each unit, as :class:`~dpinfer.queries.Hierarchy` takes it.
        The tables of the children of a unit add up to its own, cell by cell.
    domain : Domain
        The attributes of the tables with their levels.
    groupings : mapping of str to (str, mapping), optional
        Coarser levels of attributes: the name under which marginals have them, the attribute, and
        the group of each of its levels.
    zeros : iterable of StructuralZeros, optional
        Cells that are known to be zero.
    unestimable : {"raise", "nan"}
        What to do where a marginal is asked for that the values do not determine in a unit: refuse,
        naming unit and marginal, or give NaN with an infinite standard error.

    Returns
    -------
    MarginalsEstimate
        Estimates of any marginal, cell or contrast of any unit with its variance.

    Raises
    ------
    IncompatibleReleaseError
        If values published without noise contradict one another.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The estimates are the best linear unbiased ones, those of generalised least squares on all
    values of all units, with exact variances. Along each attribute of n levels the tables are
    turned to the orthonormal basis of the mean, Σx/√n, and n - 1 deviations. There a marginal that
    keeps the attributes A says of a coefficient with deviations in the attributes B ⊆ A that
    y = x Π√nₐ + noise, the product over the attributes a outside of A, and nothing of others: all
    coefficients of a unit are measured independently, with the precision Σ Πnₐ/σ² over the
    marginals with A ⊇ B. Each of them is estimated as :func:`combine_hierarchy` does numbers; those
    with the same B share their weights. Attributes with groupings or structural zeros are not
    turned: their joint levels make a coefficient a vector on the tree, with a small matrix for each
    unit in place of a variance, which all coefficients with the same B share. Time and memory are
    linear in units times cells, and no matrix over cells is formed. No variance is estimated from
    the values, and nothing is rounded or clipped.

    References
    ----------
    Hay, M., Rastogi, V., Miklau, G. and Suciu, D. (2010). Boosting the accuracy of differentially
    private histograms through consistency. arXiv:0904.0942, Theorem 3, for numbers.

    Xiao, Y., He, G., Zhang, D. and Kifer, D. (2023). An optimal and scalable matrix mechanism for
    noisy marginals under convex loss functions. arXiv:2305.08175, Section 4, for the bases in
    which marginals are independent.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> domain = dpi.Domain({"sex": ["F", "M"], "adult": [False, True]})
    >>> noise = dpi.Gaussian(sigma=2.0)
    >>> total = NoisyMarginal((), [106.2, 60.9, 39.1], noise)
    >>> by_sex = NoisyMarginal("sex", [[50.2, 51.9], [28.1, 30.4], [20.8, 20.1]], noise)
    >>> fit = combine_marginals([total, by_sex], [-1, 0, 0], domain=domain)
    >>> fit.marginal("sex").round(3)
    array([[50.744, 52.411],
           [29.722, 32.056],
           [21.022, 20.356]])
    >>> fit.marginal_bse("sex")[:, 0].round(3)
    array([1.333, 1.333, 1.333])
    """
    tree = hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy(hierarchy)
    universe = check_domain(domain)
    universe.check_size()
    if len(tree.tree) * universe.size > _CELLS_LIMIT:
        raise InvalidParameterError(
            f"hierarchy and domain must have at most {_CELLS_LIMIT} cells in all, got "
            f"{len(tree)} units of {universe.size}: estimate parts of the hierarchy at a time"
        )
    known = check_zeros(zeros)
    schema = TableSchema.of(universe, groupings, [name for one in known for name in one.levels])
    single = isinstance(marginals, NoisyMarginal)
    given = [marginals] if single else check_items(marginals, "marginals", "NoisyMarginals")
    if not given:
        raise InvalidParameterError("marginals must hold at least one NoisyMarginal, got none")
    read = tuple(read_marginal(one, schema, tree) for one in given)
    refuse_dependent([one.law for one in read], "mechanism")
    fit = MarginalsFit.of(read, tree, schema, place_zeros(known, schema, tree))
    refuse = check_option(unestimable, "unestimable", ("raise", "nan")) == "raise"
    return MarginalsEstimate(_fit=fit, _refuse=refuse)


def read_marginal(one: object, schema: TableSchema, hierarchy: Hierarchy) -> ReadMarginal:
    """Check a NoisyMarginal, and bring it in the order of domain and hierarchy."""
    if not isinstance(one, NoisyMarginal):
        raise InvalidParameterError(f"marginals must hold NoisyMarginals, got {show(one)}")
    names = schema.check_names(one.attributes)
    values, unit = read_values(one.values, names, one.units, schema, hierarchy)
    refuse_unreadable(values, names, unit, hierarchy)
    law = as_noise(one.mechanism, len(values))
    warn_of_rounding(values.T, law, "values")
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), (len(values),))
    check_variance(variance)
    inward = schema.inward(values, names)
    return ReadMarginal(names, schema.kept(names), inward, unit, law, variance)
