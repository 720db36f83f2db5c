"""Combined estimates of the units of a hierarchy as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_table
from dpinfer._validation import (
    RNG,
    FloatArray,
    check_alpha,
    check_flag,
    check_option,
    check_reps,
    check_rng,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation.consistency import OverlappingEstimate
from dpinfer.estimation.hierarchies._adjoint import covariances
from dpinfer.estimation.hierarchies._fit import HierarchyFit
from dpinfer.estimation.hierarchies.checks import (
    HierarchyDisagreement,
    disagreements,
    parent_tests,
)
from dpinfer.estimation.hierarchies.functions import HierarchyFunctions
from dpinfer.estimation.pivots import METHODS, NORMAL_NOTE, ManyMethod, Method
from dpinfer.estimation.summaries import (
    UNBIASED,
    add_published,
    covariance_frame,
    estimates_frame,
    summary_table,
)
from dpinfer.estimation.weights import checked_weights
from dpinfer.mechanisms import NoiseLaw
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries import Hierarchy
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels

if TYPE_CHECKING:
    import pandas as pd

_COVARIANCE_LIMIT = 5_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HierarchyEstimate(OverlappingEstimate):
    """Best linear unbiased estimates of all units; made by :func:`dpinfer.combine_hierarchy`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = [dpi.Exact(), dpi.Laplace(scale=1.0), dpi.Laplace(scale=1.0)]
    >>> fit = dpi.combine_hierarchy([10.0, 4.2, 4.9], [-1, 0, 0], mechanism=noise)
    >>> fit.params, fit.bse
    (array([10.  ,  4.65,  5.35]), array([0., 1., 1.]))
    >>> difference = fit.functions([0.0, 1.0, -1.0])
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
        """Raise an error that names units that are not estimable, if there are any.

        Parameters
        ----------
        positions : array of int, shape (k,), optional
            Positions of the units to look at; by default all.

        Raises
        ------
        NotEstimableError
            If the values do not determine one of them.
        """
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
        """Covariance matrix of the estimates of some units, due to the noise.

        Parameters
        ----------
        units : list or array, optional
            Labels, or positions where units have no labels; by default all.

        Returns
        -------
        array of float, shape (k, k), or DataFrame
            A DataFrame where units have labels.

        Raises
        ------
        InvalidParameterError
            If there are more than 5,000 units.
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

    def functions(self, target: Any) -> HierarchyFunctions:
        """Estimate linear functions of units.

        Parameters
        ----------
        target : array of float, shape (n,) or (k, n), Series, DataFrame or mapping
            Coefficients of the units: a row, or a DataFrame's row, for each function. Labelled
            coefficients need not name all units.

        Returns
        -------
        HierarchyFunctions
            Estimates with standard errors, intervals, covariances and the laws of their errors.

        Raises
        ------
        NotEstimableError
            If a unit with a coefficient other than 0 is not estimable.
        """
        target = as_table(target, "target")
        matrix = checked_weights(target, self.hierarchy.labels, len(self.hierarchy), "target")
        rows = np.atleast_2d(matrix)
        self.refuse_unknown(np.flatnonzero((rows != 0.0).any(axis=0)))
        self._fit.check_size(len(rows), "target must have fewer rows")
        labels = target.index if matrix.ndim == 2 and hasattr(target, "iloc") else None
        found = rows @ np.where(self.estimable, self._fit.estimates, 0.0)
        return HierarchyFunctions(
            params=attach_labels(found if matrix.ndim == 2 else found[0], labels),
            weights=self._fit.weights(rows),
            values=self.values,
            mechanism=self.mechanism,
            labels=labels,
            _origin=self._fit.origin,
        )

    def weights(self, units: Any = None) -> FloatArray:
        """Weights by which the estimates of some units combine the published values.

        Parameters
        ----------
        units : list or array, optional
            Labels, or positions where units have no labels; by default all.

        Returns
        -------
        array of float, shape (k, m)
            A row for each of the k units, a column for each of the m values.
        """
        at = self._chosen(units)
        self._fit.check_size(at.size, "units must be fewer")
        return np.concatenate(list(self._fit.weight_blocks(at)))

    def noise(self, unit: Any) -> WeightedSum:
        """Return the law of the error of the estimate of one unit.

        Parameters
        ----------
        unit : label or int
            The label of the unit, or its position where units have no labels.

        Returns
        -------
        WeightedSum
            The law of estimate minus confidential value.
        """
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
        method : {"exact", "bound", "tail-bound", "normal"}
            ``"exact"``: quantiles of the laws of the errors, each once for all units that have it;
            where that would take more than about 20 seconds, bounds for the units whose laws are
            left. The result then has the method ``"bound"`` and says for how many.
            ``"bound"``: half-widths that hold for all units, by how large a part one noise can have
            in the variance of an error.
            ``"tail-bound"``: for all units together, as for :meth:`CombinedEstimate.conf_int`.
            ``"normal"``: normal quantiles; the notes say what one of them covers.
        units : list or array, optional
            Labels, or positions where units have no labels; by default all.
        simultaneous, reps, rng
            As for :meth:`CombinedEstimate.conf_int`; not with ``"bound"``. The time is in
            proportion to the number of units times that of values.

        Returns
        -------
        Intervals
            One interval a unit; unpacks as ``lower, upper``.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.

        Notes
        -----
        More than 20 different laws are found at once from their characteristic functions, in one
        pass up and one down the tree: tables of ln φ(t)/t², inverted by Gil-Pelaez' formula. Tail
        probabilities then err by less than 2e-7 (at most 1e-8 was seen), which is added, so that
        intervals cover no less than stated. Where sums of whole-numbered noise do not get smooth,
        half a step is added, too. Laws that do not decay far enough, as with coarse whole-numbered
        noise, are computed one by one. Where all noise is Gaussian, all this is the normal law.
        """
        at, labels = self._chosen(units), self.hierarchy.labels
        chosen = check_option(method, "method", (*METHODS, "bound"))
        labels = None if labels is None else labels[at]
        together = check_flag(simultaneous, "simultaneous")
        if together and chosen == "bound":
            raise InvalidParameterError(
                "method must be 'exact', 'tail-bound' or 'normal' for simultaneous intervals, got "
                "'bound'; or divide alpha by the number of units"
            )
        if not together and chosen != "tail-bound":
            errors, number = self._fit.errors(at)
            return errors.intervals(self._fit.estimates[at], number, alpha, chosen, labels)
        if chosen != "normal":
            self._fit.check_size(at.size, "units must be fewer, or method 'normal', for intervals:")
        found = self._fit.pivots(at).intervals(
            self._fit.estimates[at],
            alpha=alpha,
            method=chosen,
            simultaneous=simultaneous,
            reps=reps,
            rng=rng,
            labels=labels,
        )
        if chosen != "normal" or self._fit.is_gaussian:
            return found
        return replace(found, notes=(*found.notes, NORMAL_NOTE))

    def published_half_widths(self, alpha: float = 0.05) -> FloatArray:
        """Half-widths of exact intervals from what was published of each unit alone, shape (n,).

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        array of float, shape (n,)
            Quantiles of the noise; NaN where not one value of the unit was published.
        """
        places = self.hierarchy.tree.place_of(np.arange(len(self)))
        return self._fit.laws.own.isf(places, 0.5 * check_alpha(alpha))

    def simulate_errors(self, reps: int, *, rng: RNG = None) -> FloatArray:
        """Draw joint errors of the estimates of all units from the law of the noise.

        Parameters
        ----------
        reps : int
            Number of draws.
        rng : None, int or numpy.random.Generator, optional
            Source of randomness.

        Returns
        -------
        array of float, shape (reps, n)
            Errors: estimate minus confidential value; NaN for units that are not estimable.
        """
        errors = self._fit.draw_errors(check_reps(reps), check_rng(rng))
        errors[:, ~self.estimable] = np.nan
        return errors

    def disagreements(self, most: int = 10) -> pd.DataFrame:
        """Return the values that differ most from the estimates, in their standard errors.

        Parameters
        ----------
        most : int, default 10
            How many.

        Returns
        -------
        DataFrame
            A row a value, under the label of its unit: ``published``, ``estimate``, ``residual``,
            the ``std_err`` of the residual, ``z``, the largest first, and the two-sided ``pvalue``
            by the law of the residual; values that no other bears on are left out.
            ``attrs["values"]`` is the number of values compared, by which to judge a p-value that
            was sought out; ``attrs["method"]`` is "exact", or "bound" where some of the p-values
            are upper bounds, as exact ones would take more than about 20 seconds.
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
        half-widths, and are too large by less than 2e-7, or by the chance of half a step of
        whole-numbered noise in sums that are neither whole nor smooth; those below 1e-4 again from
        the law of each.

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

    def summary_frame(
        self, alpha: float = 0.05, method: Method | ManyMethod = "exact"
    ) -> pd.DataFrame:
        """Return estimates, standard errors and intervals as a DataFrame, a row for each unit.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``ci_lower``, ``ci_upper``, ``published`` and
            ``published_std_err``: what was published of the unit itself, merged by inverse
            variance where it was published several times, NaN where it was not. ``attrs`` holds
            ``alpha``, ``method``, ``uncertainty`` and ``simultaneous``.
        """
        return self._frame(self.conf_int(alpha, method))

    def _frame(self, intervals: Intervals) -> pd.DataFrame:
        frame = estimates_frame(intervals, self.bse)
        variance = self._fit.measured_variance
        merged = self._fit.measured.merged(self.values)
        add_published(frame, np.isfinite(variance), merged, variance)
        return frame

    def summary(self, alpha: float = 0.05, method: Method | ManyMethod = "exact") -> str:
        """Return :meth:`summary_frame` as a plain-text table.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        str
            The table, which says which error the intervals cover.
        """
        intervals = self.conf_int(alpha, method)
        frame = self._frame(intervals)
        facts = [
            ("Method", "best linear unbiased"),
            ("Intervals", f"{1 - alpha:.6g}, {frame.attrs['method']}"),
            ("Units", len(self)),
            ("Published values", self.values.size),
            ("Error covered", ERROR_COVERED["noise"]),
        ]
        index = self.hierarchy.labels
        return summary_table(
            "Combined estimates of a hierarchy",
            facts,
            frame,
            index=index,
            notes=(UNBIASED, *intervals.notes),
        )

    def __len__(self) -> int:
        return len(self.hierarchy)

    def __repr__(self) -> str:
        return f"HierarchyEstimate({len(self)} units from {self.values.size} values)"

    def __str__(self) -> str:
        return self.summary()

    def _overlap(self) -> HierarchyDisagreement:
        return HierarchyDisagreement(self._fit)

    def _chosen(self, units: Any) -> NDArray[np.intp]:
        """Positions of units, all of them estimable; by default all."""
        hierarchy = self.hierarchy
        at = np.arange(len(hierarchy)) if units is None else hierarchy.positions(units)
        self.refuse_unknown(at)
        return at
