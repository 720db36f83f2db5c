"""Combined estimates of the units of a hierarchy as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_flag,
    check_length,
    check_option,
    check_reps,
    check_rng,
    is_foreign,
    of_axes,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, NotEstimableError
from dpinfer.estimation._tree.scalar import (
    Gains,
    Measured,
    covariances,
    disagreements,
    overlap,
    parent_tests,
)
from dpinfer.estimation._tree.scalar_fit import HierarchyFit, in_tree
from dpinfer.estimation.combined import Estimates, LinearEstimate, Shown, covariance_frame
from dpinfer.estimation.consistency import Overlap, OverlappingEstimate
from dpinfer.estimation.functions import ByLabel, FunctionRows, Named, held_or_made, nested
from dpinfer.estimation.pivots import (
    METHODS,
    NORMAL_NOTE,
    ManyMethod,
    Method,
    clean_weights,
    pivot_intervals,
)
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import NoiseLaw, Origin
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.releases.coerce import noisy
from dpinfer.releases.noises import Noises
from dpinfer.releases.values import HELD, NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels, split_labels

if TYPE_CHECKING:
    import pandas as pd


_COVARIANCE_LIMIT = 5_000


@dataclass(frozen=True, eq=False)
class _UnitRows:
    """The weights of units of a fit on its values, made when they are asked for."""

    fit: HierarchyFit
    units: NDArray[np.intp]

    def dense(self, positions: NDArray[np.intp]) -> FloatArray:
        """Return some rows, an array."""
        return np.concatenate(list(self.fit.weight_blocks(self.units[positions])))

    def take(self, positions: NDArray[np.intp]) -> Any:
        """Return some rows, a sparse array."""
        from scipy import sparse

        blocks = self.fit.weight_blocks(self.units[positions])
        return sparse.vstack(
            [sparse.csr_array(clean_weights(block)) for block in blocks], format="csr"
        )

    def apply(self, noises: FloatArray) -> FloatArray:
        """Return the errors that noises make."""
        return self.fit.refit(noises.T)[..., self.units].T

    def variance(self) -> FloatArray:
        """Return the variance of each error."""
        return self.fit.variance[self.units]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HierarchyEstimate(OverlappingEstimate, Estimates, ByLabel):
    """Best linear unbiased estimates of all units; made by :func:`dpinfer.combine_hierarchy`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = [dpi.Exact(), dpi.Laplace(scale=1.0), dpi.Laplace(scale=1.0)]
    >>> fit = dpi.combine_hierarchy([10.0, 4.2, 4.9], [-1, 0, 0], mechanism=noise)
    >>> fit.params, fit.bse
    (array([10.  ,  4.65,  5.35]), array([0., 1., 1.]))
    >>> difference = fit.contrast([0.0, 1.0, -1.0])
    >>> round(float(difference.params), 6), float(difference.bse)
    (-0.7, 2.0)
    """

    _fit: HierarchyFit

    @property
    def hierarchy(self) -> Hierarchy:
        """The n units."""
        return self._fit.hierarchy

    @property
    def values(self) -> FloatArray:
        """The m published values."""
        return self._fit.values

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of their noise."""
        return self._fit.mechanism

    @cached_property
    def params(self) -> Any:
        """Estimates of the n units: a Series where units have labels; NaN where not estimable."""
        found = self._fit.estimates
        if not self._fit.all_estimable:
            found = np.where(self.estimable, found, np.nan)
        found.flags.writeable = False
        return attach_labels(found, self.hierarchy.labels)

    @cached_property
    def bse(self) -> Any:
        """Standard errors due to the noise, one a unit; infinite where not estimable."""
        found = np.sqrt(self.variance)
        found.flags.writeable = False
        return attach_labels(found, self.hierarchy.labels)

    @property
    def variance(self) -> FloatArray:
        """Variances of the estimates due to the noise; shape (n,)."""
        return self._fit.variance

    @property
    def estimable(self) -> NDArray[np.bool_]:
        """Whether the values determine each unit; shape (n,)."""
        return np.isfinite(self.variance)

    def refuse_unknown(self, positions: NDArray[np.intp] | None = None) -> None:
        """Raise NotEstimableError that names units that are not estimable, by default of all."""
        if self._fit.all_estimable:
            return
        lost = np.flatnonzero(~self.estimable)
        if lost.size and positions is not None:
            lost = np.intersect1d(positions, lost)
        if lost.size:
            raise NotEstimableError(
                f"the values do not determine {self.hierarchy.names(lost)}: a unit needs a value, "
                "or values for all its children, or its parent and all other children of that"
            )

    def cov_params(self, units: Any = None) -> Any:
        """Covariance matrix (k × k) of at most 5,000 units, by default all, due to the noise.

        A DataFrame where units have labels, which ``units`` are then given by.
        """
        at, labels = self._chosen(units), self.hierarchy.labels
        if at.size > _COVARIANCE_LIMIT:
            raise InvalidParameterError(
                f"units must be at most {_COVARIANCE_LIMIT} for a covariance matrix, got {at.size}"
            )
        places = self.hierarchy.tree.place_of(at)
        row, column = np.tril_indices(at.size)
        matrix = np.empty((at.size, at.size))
        matrix[row, column] = covariances(self._fit.gains, places[row], places[column])
        matrix[column, row] = matrix[row, column]
        return covariance_frame(matrix, None if labels is None else labels[at])

    def _named(self) -> tuple[pd.Index | None, int]:
        return self.hierarchy.labels, len(self)

    def _twice(self, groups: Any) -> tuple[int, int] | None:
        rows, units = np.repeat(np.arange(groups.shape[0]), np.diff(groups.indptr)), groups.indices
        found = nested(rows, units, self.hierarchy.parent)
        return None if found is None else (int(units[found[0]]), int(units[found[1]]))

    def _linear(self, named: Named) -> LinearEstimate:
        fit, c = self._fit, named.coefficients
        self.refuse_unknown(np.unique(c.indices))
        known = np.where(self.estimable, fit.estimates, 0.0)
        noises = fit.published.noises
        rows = FunctionRows(lambda at: fit.weights(c[at].toarray()), c.shape[0], noises)
        found = NoisyValues(c @ known, noises, weights=held_or_made(rows))
        size = float((abs(c) @ np.abs(known)).max() + np.abs(self.values).max())
        return LinearEstimate.of(self, named, found, size)

    def weights(self, units: Any = None) -> FloatArray:
        """Weights (k × m) by which estimates of units, by default all, combine the values."""
        at = self._chosen(units)
        self._fit.check_size(at.size, "units must be fewer")
        return np.concatenate(list(self._fit.weight_blocks(at)))

    def noise(self, unit: Any) -> WeightedSum:
        """Return the law of estimate minus confidential value of one unit, by label or position."""
        return self._fit.noise(self.weights([unit])[0])

    def conf_int(
        self,
        alpha: float = 0.05,
        method: Method | ManyMethod = "exact",
        *,
        units: Any = None,
        simultaneous: bool = False,
        reps: int = 10_000,
        rng: RNG = None,
    ) -> Intervals:
        """Confidence intervals for the confidential values of units.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        method : {"exact", "envelope", "bound", "tail-bound", "asymptotic"}
            ``"exact"``: quantiles of the laws of the errors, each once for all units that have it;
            where that would take more than about 20 seconds, for the units whose laws are left
            those of ``"envelope"``, and bounds where that was not checked. The result then has
            that method and says for how many.
            ``"envelope"``: half-widths that held for all laws they were compared with, as for
            :meth:`MarginalsEstimate.conf_int`, by a bound on the kurtosis of the errors of all
            units: checked, and not proved.
            ``"bound"``: proved half-widths, by how large a part one noise can have in the variance
            of an error of any unit.
            ``"tail-bound"``: for all units together, as for :meth:`CombinedEstimate.conf_int`.
            ``"asymptotic"``: normal quantiles; the notes say what one of them covers.
        units : list or array, optional
            Labels, or positions where units have no labels; by default all.
        simultaneous, reps, rng
            As for :meth:`CombinedEstimate.conf_int`; not with ``"bound"`` or ``"envelope"``. The
            time is in proportion to the number of units times that of values.

        Returns
        -------
        Intervals
            One interval a unit; unpacks as ``lower, upper``.

        Notes
        -----
        More than 20 different laws are found at once from their characteristic functions, in one
        pass up and one down the tree: tables of ln φ(t)/t², inverted by Gil-Pelaez' formula. The
        notes say what tail probabilities err by at most (most often 1e-8 to 1e-7): by
        interpolation, which is an estimate, by what is folded in from far tails, by Chernoff's
        inequality, and by what is left out where φ has decayed, which is proved if all noise is
        continuous, and otherwise an estimate. It is added, so that intervals cover no less than
        stated. Where φ of whole-numbered noise does not decay, errors are moved by half the width
        of a density that damps it, or by the step that their weights have in common: the notes say
        by which part, of 1 % at most, half-widths are too large then. Laws for which that is more,
        or the error above alpha/2000, are computed one by one, or given bounds where that
        takes too long. Where all noise is Gaussian, all this is the normal law.
        """
        at, labels = self._chosen(units), self.hierarchy.labels
        chosen = check_option(method, "method", (*METHODS, "envelope", "bound"))
        labels = None if labels is None else labels[at]
        together = check_flag(simultaneous, "simultaneous")
        if together and chosen in ("envelope", "bound"):
            raise InvalidParameterError(
                "method must be 'exact', 'tail-bound' or 'asymptotic' for simultaneous intervals, "
                f"got {chosen!r}; or divide alpha by the number of units"
            )
        if not together and chosen != "tail-bound":
            errors, number = self._fit.errors(at, chosen == "exact")
            return errors.intervals(self._fit.estimates[at], number, alpha, chosen, labels)
        if chosen != "asymptotic":
            self._fit.check_size(
                at.size, "units must be fewer, or method 'asymptotic', for intervals:"
            )
        found = pivot_intervals(
            self._noisy(at, labels),
            np.abs(self._fit.estimates[at]) + np.abs(self.values).max(),
            alpha=alpha,
            method=chosen,
            simultaneous=simultaneous,
            reps=reps,
            rng=rng,
        )
        if chosen != "asymptotic" or self._fit.is_gaussian:
            return found
        return replace(found, notes=(*found.notes, NORMAL_NOTE))

    def __noisy__(self) -> NoisyValues:
        x = self._noisy(self._chosen(None), self.hierarchy.labels)
        if len(self) * self.values.size > HELD:
            return x
        rows = x._rows(np.arange(len(self)))
        return NoisyValues(x.values, x.noises, labels=x.labels, weights=rows)

    def _noisy(self, at: NDArray[np.intp], labels: pd.Index | None) -> NoisyValues:
        """Return units as noisy values whose weights are made when they are asked for."""
        return NoisyValues(
            self._fit.estimates[at],
            self._fit.published.noises,
            labels=labels,
            weights=_UnitRows(self._fit, at),
        )

    def published_half_widths(self, alpha: float = 0.05) -> FloatArray:
        """Half-widths of exact intervals of level 1 - alpha from the own value of each unit alone.

        An array of shape (n,); NaN where not one value of the unit was published.
        """
        places = self.hierarchy.tree.place_of(np.arange(len(self)))
        return self._fit.laws.own.isf(places, 0.5 * check_alpha(alpha))

    def simulate_errors(self, reps: int, *, rng: RNG = None) -> FloatArray:
        """Draw ``reps`` joint errors, estimates minus confidential values, of all units.

        An array of shape (reps, n); NaN for units that are not estimable.
        """
        errors = self._fit.draw_errors(check_reps(reps), check_rng(rng))
        errors[:, ~self.estimable] = np.nan
        return errors

    def disagreements(self, most: int = 10) -> pd.DataFrame:
        """Return the ``most`` values that differ most from the estimates.

        Returns
        -------
        DataFrame
            A row a value, under the label of its unit: ``published``, ``estimate``, ``residual``,
            its ``std_err``, ``z``, the largest first, and the two-sided ``pvalue`` by the law of
            the residual; values that no other bears on are left out. ``attrs["values"]`` is the
            number of values compared, by which to judge a p-value that was sought out;
            ``attrs["method"]`` is "exact", or "bound" where some of the p-values are upper bounds,
            as exact ones would take more than about 20 seconds.
        """
        return disagreements(self._fit, most)

    def parent_tests(self) -> pd.DataFrame:
        """Test each unit with values and children against what is known of the children.

        Returns
        -------
        DataFrame
            A row a unit: the ``difference`` of its own values and the sum of its children's
            estimates from below, its ``std_err``, ``z`` and the two-sided ``pvalue`` by the law of
            the difference. The differences are uncorrelated, and independent if the noise is
            Gaussian. Units that were not measured, or have a child of which nothing is known, are
            left out. ``attrs["method"]`` is as for :meth:`disagreements`.

        Notes
        -----
        With m the own values, merged by inverse variance, of variance v, and s the sum of the
        children's estimates from what was measured in and below them, of variance S, the score is
        z = (m - s)/√(v + S). More than 20 p-values are found at once, as :meth:`conf_int` finds
        half-widths, and are never too small by what these are found with; those below 1e-4 are
        found again from the law of each.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> noise = dpi.Gaussian(sigma=2.0)
        >>> fit = dpi.combine_hierarchy([20.1, 6.3, 7.9], [-1, 0, 0], mechanism=noise)
        >>> fit.parent_tests().round(3)
              difference  std_err      z  pvalue
        unit
        0            5.9    3.464  1.703   0.089
        """
        return parent_tests(self._fit)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.hierarchy), self.hierarchy.labels

    def __repr__(self) -> str:
        return f"HierarchyEstimate({len(self)} units from {self.values.size} values)"

    def _overlap(self) -> Overlap:
        return overlap(self._fit)

    def _shown(self) -> Shown:
        def published() -> tuple[Any, FloatArray, FloatArray]:
            variance = self._fit.measured_variance
            return np.isfinite(variance), self._fit.measured.merged(self.values), variance

        facts = [
            ("Units", len(self)),
            ("Published values", self.values.size),
            ("Error covered", ERROR_COVERED["noise"]),
        ]
        return Shown("Combined estimates of a hierarchy", facts, self.hierarchy.labels, published)

    def _chosen(self, units: Any) -> NDArray[np.intp]:
        """Positions of units, all of them estimable; by default all."""
        hierarchy = self.hierarchy
        at = np.arange(len(hierarchy)) if units is None else hierarchy.positions(units)
        self.refuse_unknown(at)
        return at


# Combined estimates of all units of a hierarchy, in time linear in their number.


_CONTRADICTION = 1e-9
"""Difference, relative to the size of the values, up to which exact values agree."""

_LARGEST, _SMALLEST = 1e100, 1e-100
"""Beyond these, sums and quotients of variances leave the range of float64."""


def combine_hierarchy(
    values: Any,
    parent: Any = None,
    *,
    mechanism: Mechanism | None = None,
    units: Any = None,
    not_exhausted: Any = (),
    unestimable: str = "raise",
) -> HierarchyEstimate:
    """Estimate every unit of a hierarchy from all noisy values of all units.

    Parameters
    ----------
    values : Release, NoisyValues, Series, or array of float, shape (m,)
        Published values. Labels are those of the units that they measure: units may be missing,
        or, in a Series, be there several times. Without labels there is a value for each unit, or
        for each of ``units``. A frame of polars or pyarrow has labels in the columns that hold no
        numbers.
    parent : Hierarchy, Series, mapping, or array of int, shape (n,)
        The hierarchy, or the parent of each unit, as :class:`~dpinfer.queries.Hierarchy` takes it.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each; ``Exact()`` for values published
        without noise. Left out where ``values`` carry their own.
    units : list or array, optional
        The unit that each value measures: labels, or positions where units have no labels.
    not_exhausted : label, iterable of labels, or True; default ()
        Units to which their children do not add up, because some are not here. For a ``parent``
        that is not a Hierarchy, which has its own.
    unestimable : {"raise", "nan"}
        What to do about units of which the values say nothing: refuse, naming them, or estimate
        the others and give these NaN with an infinite standard error.

    Returns
    -------
    HierarchyEstimate
        An estimate with its variance for every unit.

    Raises
    ------
    NotEstimableError
        If the values do not determine a unit, unless ``unestimable`` is "nan".
    IncompatibleReleaseError
        If values published without noise contradict one another.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The estimates are the best linear unbiased ones, those of generalised least squares on all
    values, with exact variances. Up: the estimates of the children of a unit, from what is
    measured below, add up to s with variance S. With the unit's own value m of variance v, they
    merge to s + k(m - s) with k = S/(S + v). Down: each child takes the share r = u/S of its
    parent's correction, u being its own variance; from w of the parent it then has the variance
    u(1 - r) + r² w. Both passes are linear in the number of units. No variance is estimated from
    the values, and nothing is rounded or clipped.

    References
    ----------
    Hay, M., Rastogi, V., Miklau, G. and Suciu, D. (2010). Boosting the accuracy of differentially
    private histograms through consistency. arXiv:0904.0942, Theorem 3, for equal variances and
    complete trees.

    Chou, K. C., Willsky, A. S. and Benveniste, A. (1994). Multiscale recursive estimation, data
    fusion, and regularization. doi:10.1109/9.280746, for the two passes.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import pandas as pd
    >>> parent = pd.Series({"state": None, "north": "state", "south": "state"})
    >>> published = pd.Series({"state": 106.3, "north": 60.9, "south": 39.3})
    >>> fit = dpi.combine_hierarchy(published, parent, mechanism=dpi.Laplace(scale=2.0))
    >>> fit.params
    state    104.266667
    north     62.933333
    south     41.333333
    dtype: float64
    >>> (fit.bse**2).round(6)
    state    5.333333
    north    5.333333
    south    5.333333
    dtype: float64
    """
    hierarchy = _as_hierarchy(parent, not_exhausted)
    published, unit = _placed_values(values, mechanism, units, hierarchy)
    noise, array = published.marginal, published.values
    # a law gives out a new array each time, or none that could be written into
    variance = np.asarray(noise.variance, dtype=np.float64)
    if not (variance.flags.writeable and variance.shape):
        variance = np.full(array.size, variance)
    check_variance(variance)
    measured, merged = Measured.of(unit, variance, len(hierarchy))
    measured.refuse_contradiction(array, variance, hierarchy)
    gains = Gains.of(hierarchy.tree, in_tree(hierarchy, merged, np.inf), overwrite=True)
    fit = HierarchyFit(hierarchy=hierarchy, published=published, measured=measured, gains=gains)
    _refuse_contradiction(fit)
    found = HierarchyEstimate(_fit=fit)
    if check_option(unestimable, "unestimable", ("raise", "nan")) == "raise":
        found.refuse_unknown()
    return found


def _as_hierarchy(parent: Any, not_exhausted: Any) -> Hierarchy:
    if not isinstance(parent, Hierarchy):
        if parent is None:
            raise InvalidParameterError(
                "parent must be given: the parent of each unit, or a Hierarchy"
            )
        return Hierarchy(parent, not_exhausted=not_exhausted)
    if not (isinstance(not_exhausted, tuple) and not not_exhausted):
        raise InvalidParameterError(
            "not_exhausted must be left out where parent is a Hierarchy, which has its own, got "
            f"{show(not_exhausted)}"
        )
    return parent


def _placed_values(
    values: Any, mechanism: Mechanism | None, units: Any, hierarchy: Hierarchy
) -> tuple[NoisyValues, NDArray[np.intp] | None]:
    """Return noisy values, and the position of the unit of each; None where they are in order."""
    carried = hasattr(values, "__noisy__")
    values = of_axes(values)
    if hasattr(values, "iloc") or is_foreign(values):  # a unit may have several values
        array, labels = split_labels(values, "values")
        own = labels if labels is not None and labels.is_unique else None
        x = noisy(array, labels=own, mechanism=mechanism, name="values")
    else:
        x = noisy(values, mechanism=mechanism, name="values")
        labels = x.labels
    if len(x.shape) != 1:
        raise InvalidParameterError(f"values must be one-dimensional, got shape {x.shape}")
    noises = x.noises
    if carried or x.weights is not None:
        noises = own_values(x, "combine_hierarchy").noises
    if not carried:
        noises = Noises(noises.law, len(x), [(Origin(x.values), None, len(x))])
    published = NoisyValues(x.values, noises)
    if units is None and labels is not None and hierarchy.labels is not None:
        if labels.equals(hierarchy.labels):
            return published, None
        units = labels
    if units is None:
        check_length(x.values, "values", len(hierarchy), "units in the hierarchy")
        return published, None
    at = hierarchy.positions(units, "values" if units is labels else "units")
    check_length(at, "units", len(x), "values")
    return published, at


def own_values(x: NoisyValues, who: str) -> NoisyValues:
    """Return values with independent errors over one noise each, in their order."""
    x.need(independent=True, unruled=True, who=who)
    noises = x.own_noises() if x.weights is None else Noises(x.marginal, len(x))
    return NoisyValues(x.values, noises, shape=x.shape, labels=x.labels, name=x.name)


def check_variance(variance: FloatArray) -> None:
    """Refuse variances of noise for which sums and quotients leave the range of float64."""
    if variance.min() >= _SMALLEST and variance.max() <= _LARGEST:
        return
    outside = (variance > 0.0) & ((variance < _SMALLEST) | (variance > _LARGEST))
    if outside.any():
        raise InvalidParameterError(
            f"mechanism must have variances of 0 or from {_SMALLEST:g} to {_LARGEST:g}, got "
            f"{variance[outside][0]:g}"
        )


def _refuse_contradiction(fit: HierarchyFit) -> None:
    """Refuse a unit and its children that are all known exactly and do not add up."""
    tree = fit.hierarchy.tree
    if all((merger.own + merger.total).min() > 0.0 for merger in fit.gains.mergers):
        return
    size = np.maximum(np.abs(fit.values).max(), 1.0)
    wrong = [
        places[(variance == 0.0) & (np.abs(difference) > _CONTRADICTION * size)]
        for places, difference, variance in fit.innovations(fit.values)
    ]
    found = np.concatenate(wrong)
    if found.size:
        raise IncompatibleReleaseError(
            "values published without noise must add up, but children do not add up to "
            f"{fit.hierarchy.names(found if tree.order is None else tree.order[found])}; name a "
            "unit whose children are not all here in not_exhausted"
        )
