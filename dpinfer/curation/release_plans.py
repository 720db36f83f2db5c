"""The division of a budget over measurements that serves the targets best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    Locked,
    Neighbours,
    as_table,
    check_array,
    check_items,
    check_length,
    check_rng,
    check_scalar,
    freeze,
    show,
)
from dpinfer.curation._measures import Family, find_family
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.estimation.design import (
    DENSE_LIMIT,
    DENSE_SIZE,
    Design,
    Solver,
    as_dense,
    find_design,
    find_solver,
)
from dpinfer.estimation.targets import Targets, find_targets
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.queries.domain import Domain, check_domain
from dpinfer.queries.sensitivity import l1_sensitivity, l2_sensitivity
from dpinfer.queries.workload import Workload
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


# Measured marginals of a domain, and the variances that follow for target marginals.


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
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise NotEstimableError(
            f"target {show(at if labels is None else labels[at])} must be determined by what is "
            "measured: measure a marginal that holds all of its attributes"
        )


# Measured queries given by matrices, and the variances that follow for their targets.


_WEIGHTS = 4_000_000
"""Weights that are looked at together."""

_STIFF = 1e-10
"""Reciprocal condition number below which the normal equations are not used."""


@dataclass(frozen=True)
class MatrixMeasurements:
    """Groups of queries given by matrices."""

    names: list[str]
    labels: pd.Index | None
    cells: FloatArray
    _groups: list[Workload]
    _group: NDArray[np.intp]
    _matrix: Any
    _targets: Targets

    @classmethod
    def of(cls, groups: list[Workload], names: list[str], target: Any) -> MatrixMeasurements:
        """Stack the groups, and read the targets."""
        stacked = Workload.vstack(groups)
        if target is None:
            published = np.arange(len(stacked))
            targets = Targets(stacked.matrix, stacked.labels, published)
        else:
            targets = find_targets(target, stacked)
        group = np.repeat(np.arange(len(groups)), [len(one) for one in groups])
        cells = np.ones(len(targets))
        return cls(names, targets.labels, cells, groups, group, stacked.matrix, targets)

    def sensitivities(self, order: int, neighbours: Neighbours) -> FloatArray:
        """Return the sensitivity of each group."""
        norm = (l1_sensitivity, l2_sensitivity)[order - 1]
        return np.array([norm(one, neighbours) for one in self._groups])

    def variances(self, precision: FloatArray) -> FloatArray:
        """Return the variances of the targets."""
        solver, wanted, variance, _ = self._solved(precision)
        step = max(1, _WEIGHTS // len(variance))
        starts = range(0, wanted.shape[0], step)
        blocks = (solver.weights(wanted[start : start + step]) for start in starts)
        return np.concatenate([np.square(block) @ variance for block in blocks])

    def objective(self, weights: FloatArray) -> Objective:
        """Return Σ weight·variance as a function of the precision of each group.

        It is tr(M⁻¹ TᵀWT) with M = Σ p AᵀA, whose inverse is fast. Where M is too large, known
        without noise or close to singular, the variance Σ w²v of a best estimate with weights w
        serves, which moves with v as if they were fixed.
        """
        by_normal = self._normal_equations(weights)

        def value(precision: FloatArray) -> tuple[float, FloatArray]:
            found = None if np.isinf(precision).any() else by_normal(precision)
            if found is not None:
                return found
            own, variance, rows = self._weights(precision)
            each = weights @ np.square(own)
            loss = each * np.square(variance)
            slope = -np.bincount(self._group[rows], loss, minlength=len(precision))
            return float(each @ variance), slope.astype(np.float64)

        return value

    def _normal_equations(
        self, weights: FloatArray
    ) -> Callable[[FloatArray], tuple[float, FloatArray] | None]:
        from scipy.linalg import lapack

        everything = np.arange(self._matrix.shape[0])
        design = self._design(everything)
        groups = int(self._group[-1]) + 1
        if design.rank > DENSE_LIMIT or groups * design.rank**2 > DENSE_SIZE:
            return lambda precision: None
        parts = [as_dense(design.matrix[self._group == group]) for group in range(groups)]
        targets = as_dense(design.coordinates(self._targets.matrix))
        with np.errstate(over="ignore", invalid="ignore"):
            grams = np.stack([part.T @ part for part in parts])
            wanted = check_array((targets.T * weights) @ targets, "the squares of the targets")
        if not np.isfinite(grams).all():
            return lambda precision: None

        def value(precision: FloatArray) -> tuple[float, FloatArray] | None:
            matrix = np.tensordot(precision, grams, 1)
            size = np.sqrt(matrix.diagonal())
            if not (size > 0).all():
                return None
            scaled = matrix / size / size[:, None]
            factor, failed = lapack.dpotrf(scaled, lower=1)
            if failed or lapack.dpocon(factor, 1.0 * np.abs(scaled).sum(axis=0).max())[0] < _STIFF:
                return None
            inverse = lapack.dpotri(factor, lower=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            inverse = inverse / size / size[:, None]
            change = inverse @ wanted @ inverse
            return float(np.sum(inverse * wanted)), -np.tensordot(grams, change, 2)

        return value

    def _weights(self, precision: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        solver, wanted, variance, rows = self._solved(precision)
        return solver.weights(wanted), variance, rows

    def _solved(self, precision: FloatArray) -> tuple[Solver, Any, FloatArray, NDArray[np.intp]]:
        row_precision = precision[self._group]
        rows = np.flatnonzero(row_precision > 0)
        design = self._design(rows)
        variance = 1.0 / row_precision[rows]
        solver = find_solver(design.matrix, variance)
        return solver, design.coordinates(self._targets.matrix), variance, rows

    def _design(self, rows: NDArray[np.intp]) -> Design:
        if not len(rows):
            raise NotEstimableError("shares must measure something, got none above 0")
        design = find_design(self._matrix[rows])
        self._targets.refuse(~design.estimable(self._targets.matrix))
        return design


_MOST_ATTRIBUTES = 16
"""Attributes of one target marginal, whose subsets are listed."""


Measurements = MarginalMeasurements | MatrixMeasurements
"""Measured queries in groups, and targets whose best estimates they determine.

``names`` of the groups and ``labels`` of the targets, each of which stands for so many ``cells``;
precisions are those of the groups, 0 where one is not measured.
"""


def read_measurements(measured: Any, domain: Domain | None, target: Any) -> Measurements:
    """Return the groups of queries and the targets that a plan is asked for."""
    import pandas as pd

    names, items = _named(measured)
    kept = None
    if domain is not None:
        check_domain(domain)
        kept = _target_marginals(target, domain)
        if all(_is_marginal(item) for item in items) and (target is None or kept is not None):
            tables = [_marginal(item, domain) for item in items]
            targets = tables if kept is None else kept
            if (most := max(map(len, targets))) > _MOST_ATTRIBUTES:
                raise InvalidParameterError(
                    f"target must hold marginals of at most {_MOST_ATTRIBUTES} attributes, got "
                    f"{most}"
                )
            shown = [name or _title(table) for name, table in zip(names, tables, strict=True)]
            labels = pd.Index([_title(table) for table in targets], name="marginal")
            return MarginalMeasurements.of(domain, tables, shown, targets, labels)
    groups = [_workload(item, domain) for item in items]
    if kept is not None:
        assert domain is not None
        target = Workload.from_marginals(domain, kept)
    shown = [name or f"measurement {at}" for at, name in enumerate(names)]
    return MatrixMeasurements.of(groups, shown, target)


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
    if isinstance(item, str):
        return True
    return isinstance(item, (tuple, list)) and all(isinstance(name, str) for name in item)


def _marginal(item: Any, domain: Domain) -> Names:
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


_ROUNDING = 1e-9
"""What shares may add up to beyond 1."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleasePlan(Locked, Listed, Plotted):
    """Variances under a division of a budget; made by ``plan_release`` and ``optimal_shares``.

    Attributes
    ----------
    shares : Series
        The share of the budget that goes into each measurement, by its name.
    mechanism : tuple of NoiseLaw
        The noise of each measurement; None where nothing is spent, ``Exact()`` where no record can
        change the answers.
    sensitivity : array of float
        How far one record can move each measurement, in the norm that its noise needs.
    budget : Guarantee
        The guarantee of everything together, if all shares are spent.
    variance : array of float, shape (k,), or Series
        Variances of the best linear unbiased estimates of the targets. For a target marginal, that
        of each of its cells.
    total : float
        Σ weight · variance over all targets, all cells of a marginal included.
    gap : float or None
        How far ``total`` can be above the smallest possible, at most. None where nothing was
        optimised, and where the sum need not be convex in the shares.
    notes : tuple of str
        What else the reader has to know.
    """

    shares: pd.Series
    mechanism: tuple[NoiseLaw | None, ...]
    sensitivity: FloatArray
    budget: Guarantee
    variance: Any
    total: float
    labels: pd.Index | None
    gap: float | None = None
    notes: tuple[str, ...] = ()

    _drawing: ClassVar[str] = "plot_spending"

    @property
    def std(self) -> Any:
        """Standard errors of the targets."""
        return attach_labels(np.sqrt(np.asarray(self.variance)), self.labels)

    def measurement_frame(self) -> pd.DataFrame:
        """Return a DataFrame of ``share``, ``sensitivity`` and ``noise_std``, by measurement.

        The standard deviation is infinite where nothing is spent.
        """
        import pandas as pd

        std = [np.inf if law is None else float(law.std) for law in self.mechanism]
        columns = {"share": self.shares.to_numpy(), "sensitivity": self.sensitivity}
        return pd.DataFrame({**columns, "noise_std": std}, index=self.shares.index)

    def summary_frame(self) -> pd.DataFrame:
        """Return a DataFrame of ``variance`` and ``std_err``, with a row for each target."""
        import pandas as pd

        columns = {"variance": np.asarray(self.variance), "std_err": np.asarray(self.std)}
        return pd.DataFrame(columns, index=self.labels)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.variance), self.labels

    def _table(self) -> Table:
        measured, targets = self.measurement_frame(), self.summary_frame()
        plan = Table(
            "Planned measurements",
            [("Budget", self.budget), ("Measurements", len(measured))],
            {name: measured[name].to_numpy() for name in measured.columns},
            index=measured.index,
        )
        return Table(
            "Best estimates from a planned release",
            [
                ("Targets", len(targets)),
                ("Weighted sum of variances", f"{self.total:.6g}"),
            ],
            {name: targets[name].to_numpy() for name in targets.columns},
            index=self.labels,
            notes=self.notes,
            after=plan,
        )

    def __repr__(self) -> str:
        return f"ReleasePlan({len(self.shares)} measurements, {self.budget}, {self.total:.6g})"


def plan_release(
    measured: Any,
    *,
    budget: Guarantee,
    target: Any = None,
    domain: Domain | None = None,
    shares: Any = None,
    weights: Any = None,
    mechanism: type[NoiseLaw] | None = None,
) -> ReleasePlan:
    """Plan a release: the variance of every target under a division of the budget.

    Parameters
    ----------
    measured : sequence or mapping of measurements
        What is to be measured, each with its own noise: marginals of the domain (``"sex"``,
        ``("sex", "age")``, ``()`` for the total), workloads or matrices. The keys of a mapping name
        them. Disjoint parts of one partition belong into one measurement, which pays for them once.
    budget : PureDP, ZCDP or GDP
        The guarantee of all measurements together, with its neighbour relation.
    target : optional
        What is to be estimated: marginals, or whatever :func:`dpinfer.combine` takes. By default
        what is measured.
    domain : Domain, optional
        The domain of marginals.
    shares : array of float, shape (G,), Series or mapping, optional
        The share of each of the G measurements, >= 0 and at most 1 in all: of ε, of ρ, or of
        μ². A measurement without a share is not made. By default equal.
    weights : array of float, optional
        The importance of each target, or target marginal, in ``total``; 1 by default.
    mechanism : type, optional
        The class of the noise: :class:`~dpinfer.Laplace` (default) or :class:`~dpinfer.Geometric`
        under a PureDP budget, :class:`~dpinfer.Gaussian` (default) or
        :class:`~dpinfer.DiscreteGaussian` under ZCDP, :class:`~dpinfer.Gaussian` under GDP.

    Returns
    -------
    ReleasePlan
        Variances and standard errors of the targets, and the noise to be used.

    Raises
    ------
    NotEstimableError
        If what is measured does not determine a target.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The targets T x are estimated by generalised least squares from all measurements, with the
    covariance T (AᵀV⁻¹A)⁺Tᵀ of :func:`dpinfer.combine`, which depends on the noise alone: the plan
    needs no data (the matrix mechanism of Li et al. 2015, with given queries). The measurements
    compose sequentially. For marginals of a domain no matrix is formed: they are independent in the
    basis of means and deviations, see :func:`dpinfer.combine_marginals`.

    References
    ----------
    Li, C., Miklau, G., Hay, M., McGregor, A. and Rastogi, V. (2015). The matrix mechanism:
    optimizing linear counting queries under differential privacy. The VLDB Journal 24, 757-781.
    doi:10.1007/s00778-015-0398-x.

    Xiao, Y., He, G., Zhang, D. and Kifer, D. (2023). An optimal and scalable matrix mechanism for
    noisy marginals under convex loss functions. arXiv:2305.08175.

    Examples
    --------
    >>> from dpinfer.privacy import ZCDP
    >>> plan = plan_release({"cells": [[1, 0], [0, 1]], "sum": [[1, 1]]}, budget=ZCDP(0.5),
    ...                     target={"first": [1, 0], "sum": [1, 1]}, shares=[0.5, 0.5])
    >>> plan.variance.round(4).to_dict()
    {'first': 1.3333, 'sum': 1.3333}
    """
    whole, family = find_family(budget, mechanism)
    queries = read_measurements(measured, domain, target)
    change = queries.sensitivities(family.order, whole.neighbours)
    importance = check_weights(weights, queries)
    return make_plan(queries, change, whole, family, _check_shares(shares, queries), importance)


def make_plan(
    queries: Measurements,
    change: FloatArray,
    budget: Guarantee,
    family: Family,
    shares: FloatArray,
    weights: FloatArray,
    gap: float | None = None,
    notes: tuple[str, ...] = (),
) -> ReleasePlan:
    """Return the plan for given shares, with the variances of the noise as it will be drawn."""
    import pandas as pd

    laws: list[NoiseLaw | None] = [
        Exact()
        if one == 0
        else family.law_of(family.unit(budget, float(one)), share)
        if share
        else None
        for one, share in zip(change, shares, strict=True)
    ]
    with np.errstate(divide="ignore"):
        precision = 1.0 / np.array([np.inf if law is None else float(law.variance) for law in laws])
    with np.errstate(over="ignore", invalid="ignore"):
        variance = check_array(queries.variances(precision), "the variances of the targets")
        total = check_scalar((weights * queries.cells) @ variance, "the sum of the variances")
    return ReleasePlan(
        shares=pd.Series(shares, index=pd.Index(queries.names, tupleize_cols=False)),
        mechanism=tuple(laws),
        sensitivity=freeze(change),
        budget=budget,
        variance=attach_labels(freeze(variance), queries.labels),
        total=total,
        labels=queries.labels,
        gap=gap,
        notes=notes,
    )


def check_weights(weights: Any, queries: Measurements) -> FloatArray:
    """Return the importance of each target."""
    if weights is None:
        return np.ones(len(queries.cells))
    checked = check_array(weights, "weights", ndim=1, ge=0, le=1e50)
    check_length(checked, "weights", len(queries.cells), "the targets")
    if not checked.any():
        raise InvalidParameterError("weights must have at least one entry above 0, got none")
    return checked


def _check_shares(shares: Any, queries: Measurements) -> FloatArray:
    groups = len(queries.names)
    if shares is None:
        return np.full(groups, 1.0 / groups)
    shares = as_table(shares, "shares")
    if isinstance(shares, Mapping) or hasattr(shares, "iloc"):
        given = {str(name): share for name, share in shares.items()}
        if set(given) != set(queries.names) or len(given) != groups:
            raise InvalidParameterError(
                f"shares must have one entry for each of {show(queries.names)}, got "
                f"{show(list(given))}"
            )
        shares = [given[name] for name in queries.names]
    checked = check_array(shares, "shares", ndim=1, ge=0, le=1 + _ROUNDING)
    check_length(checked, "shares", groups, "the measurements")
    if checked.sum() > 1.0 + _ROUNDING:
        raise InvalidParameterError(f"shares must add up to at most 1, got {checked.sum():.12g}")
    return checked


_FLOOR = 1e-10
"""Smallest share that a search gives to a measurement, or the square of it where precisions go with
the square of a share; at the end those that are not needed get none."""

_TOLERANCE, _FAILURE = 1e-6, 1e-3
"""Gaps, relative to the objective, at which a convex search ends, and counts as failed."""

_ROUNDS = 8
_FIXED_POINT_STEPS = 30
_RANDOM_STARTS = 8
_MOST_STARTS = 40
_BEST_STARTS = 6


def optimal_shares(
    measured: Any,
    *,
    budget: Guarantee,
    target: Any = None,
    domain: Domain | None = None,
    weights: Any = None,
    mechanism: type[NoiseLaw] | None = None,
    rng: RNG = 0,
) -> ReleasePlan:
    """Divide a budget over measurements so that a weighted sum of target variances is smallest.

    Parameters
    ----------
    measured, budget, target, domain, mechanism
        As for :func:`plan_release`.
    weights : array of float, optional
        The importance w >= 0 of each target in Σ w · variance. All cells of a target marginal have
        its weight. By default 1.
    rng : None, int or numpy.random.Generator, default 0
        Source of some of the places where a search that is not convex starts.

    Returns
    -------
    ReleasePlan
        The plan with the best shares. ``gap`` bounds how much better any other shares could be,
        where the sum is convex.

    Raises
    ------
    NotEstimableError
        If what is measured does not determine a target.
    ConvergenceError
        If the search ends with a gap above 1e-3 of the sum; it aims at 1e-6.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    Under ZCDP and GDP budgets precisions are proportional to shares, the sum of variances
    tr(W T M(s)⁻¹ Tᵀ) is convex, and SciPy's SLSQP with the exact gradient finds its minimum;
    max(-∇) - Σ s(-∇) bounds the distance to it. Where every target has a measurement of its own,
    the shares are proportional to √(wΔ²).

    Under PureDP budgets precisions grow with the square of the share. With measurements that do not
    overlap the sum is convex, and shares are proportional to ∛(wΔ²). In general it is not: of two
    measurements of one thing, it is best to leave one out. The search then starts in many places,
    and the best that it finds need not be the best there is; ``notes`` say so.

    For the discrete Gaussian the shares are those of the Gaussian, whose variance differs by less
    than 1e-7 of itself from σ = 1 on; the plan has its exact variances.

    References
    ----------
    Kraft, D. (1988). A software package for sequential quadratic programming. DFVLR-FB 88-28.

    Examples
    --------
    Three counts of different importance with Laplace noise:

    >>> import numpy as np
    >>> from dpinfer.privacy import PureDP
    >>> plan = optimal_shares([np.eye(3)[[0]], np.eye(3)[[1]], np.eye(3)[[2]]],
    ...                       budget=PureDP(1.0), weights=[1, 8, 27])
    >>> (6 * plan.shares.to_numpy()).round(5)
    array([1., 2., 3.])
    """
    whole, family = find_family(budget, mechanism)
    queries = read_measurements(measured, domain, target)
    change = queries.sensitivities(family.order, whole.neighbours)
    importance = check_weights(weights, queries)
    weight = importance * queries.cells
    free = np.flatnonzero(change > 0)
    unit = np.array([family.unit(whole, float(one)) for one in change[free]])

    objective = queries.objective(weight)

    def value(shares: FloatArray) -> tuple[float, FloatArray]:
        rate = shares * unit
        precision = np.full(len(change), np.inf)
        precision[free] = family.precision(rate)
        with np.errstate(over="ignore", invalid="ignore"):
            total, slope = objective(precision)
            return total, slope[free] * family.slope(rate) * unit

    shares = np.zeros(len(change))
    shares[free], gap = _Problem(value, len(free), family.linear).solve(check_rng(rng))
    notes = [] if family.linear else [_LOCAL]
    if mechanism is DiscreteGaussian:
        notes.append("shares are those that are best for Gaussian noise of the same sigma")
    return make_plan(queries, change, whole, family, shares, importance, gap, tuple(notes))


_LOCAL = (
    "the best of several searches: under pure differential privacy the sum of variances need not "
    "be convex in the shares"
)


@dataclass(frozen=True)
class _Problem:
    """A sum of variances and its gradient at positive shares of ``size`` measurements."""

    value: Objective
    size: int
    convex: bool

    @property
    def floor(self) -> float:
        return _FLOOR if self.convex else np.sqrt(_FLOOR)

    def solve(self, rng: np.random.Generator) -> tuple[FloatArray, float | None]:
        """Return the best shares, and for a convex sum how far it can be from the smallest."""
        equal = np.full(self.size, 1.0 / max(self.size, 1))
        total, slope = self.value(equal)
        if not (np.isfinite(total) and np.isfinite(slope).all()):
            raise ConvergenceError(
                "the variances overflow: the queries, targets and weights differ by too many "
                "orders of magnitude; express them in other units"
            )
        if self.size <= 1 or total == 0:  # there is no choice, or nothing to be improved
            return equal, 0.0 if self.convex else None
        if self.convex:
            return self._certified(equal)
        starts = sorted((self._fixed_point(start) for start in self._starts(rng)), key=self._total)
        found = [self._drop(self._descend(start)) for start in starts[:_BEST_STARTS]]
        return min((self._polished(shares) for shares in found), key=self._total), None

    def _certified(self, shares: FloatArray) -> tuple[FloatArray, float]:
        """Return the shares and the gap of the convex problem.

        F(t) >= F(s) + ∇F(s)·(t - s) for all shares t, and so at least F(s) - ∇F(s)·s + min ∇F(s).
        """
        least = -np.inf
        for _ in range(_ROUNDS):
            shares = self._descend(self._fixed_point(shares))
            total, slope = self.value(shares)
            least = max(least, total - float(shares @ slope - slope.min()))
            if total - least <= _TOLERANCE * total:
                break
        shares = self._drop(shares)
        total = self._total(shares)
        if total - least > _FAILURE * total:
            raise ConvergenceError(
                f"the search for shares ended {(total - least) / total:.1e} of the sum above its "
                "bound: measure fewer queries, or give targets and weights of similar size"
            )
        return shares, max(0.0, total - least)

    def _total(self, shares: FloatArray) -> float:
        return self.value(shares)[0]

    def _fixed_point(self, shares: FloatArray) -> FloatArray:
        """Multiply shares by powers of the gradient until that stops to help.

        Shares proportional to s·(-∇)^(1/2), or (-∇)^(1/3) under Laplace noise, are where they
        stay; for measurements that do not overlap the first step leads there.
        """
        power = 1.0 / 2.0 if self.convex else 1.0 / 3.0
        total, slope = self.value(shares)
        for _ in range(_FIXED_POINT_STEPS):
            largest = -slope.min()
            if not largest > 0:
                return shares
            moved = self._floored(shares * (-slope / largest).clip(0.0) ** power)
            other, slope = self.value(moved)
            if not other < total:
                return shares
            small = total - other <= 1e-12 * total
            shares, total = moved, other
            if small:
                return shares
        return shares

    def _descend(self, shares: FloatArray) -> FloatArray:
        """Improve shares by sequential quadratic programming; never make them worse."""
        from scipy.optimize import minimize

        scale = self._total(shares)

        def scaled(at: FloatArray) -> tuple[float, FloatArray]:
            total, slope = self.value(np.maximum(at, 0.1 * self.floor))
            return total / scale, slope / scale

        with np.errstate(all="ignore"), warnings.catch_warnings():
            # SciPy before 1.16 warns where a step of its own ends a rounding outside the bounds
            warnings.simplefilter("ignore", RuntimeWarning)
            found = minimize(
                scaled,
                shares,
                jac=True,
                method="SLSQP",
                bounds=[(self.floor, 1.0)] * self.size,
                constraints={
                    "type": "eq",
                    "fun": lambda at: at.sum() - 1.0,
                    "jac": lambda at: np.ones(self.size),
                },
                options={"maxiter": 200, "ftol": 1e-14},
            )
        if not np.isfinite(found.x).all():
            return shares
        moved = self._floored(found.x)
        return moved if self._total(moved) < scale else shares

    def _drop(self, shares: FloatArray) -> FloatArray:
        """Give nothing to measurements at the floor, where what remains is no worse."""
        kept = shares > 10.0 * self.floor
        if kept.all() or not kept.any():
            return shares
        fewer = np.where(kept, shares, 0.0) / shares[kept].sum()
        try:
            no_worse = self._total(fewer) <= self._total(shares) * (1.0 + 1e-12)
        except NotEstimableError:
            return shares
        return fewer if no_worse else shares

    def _polished(self, shares: FloatArray) -> FloatArray:
        kept = np.flatnonzero(shares)
        if len(kept) < 2 or len(kept) == self.size:
            return shares

        def value(part: FloatArray) -> tuple[float, FloatArray]:
            full = np.zeros(self.size)
            full[kept] = part
            total, slope = self.value(full)
            return total, slope[kept]

        part = _Problem(value, len(kept), self.convex)
        best = np.zeros(self.size)
        best[kept] = part._descend(shares[kept])
        return best

    def _starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield equal shares, most for one measurement, and random shares."""
        yield np.full(self.size, 1.0 / self.size)
        for most in range(min(self.size, _MOST_STARTS)):
            yield self._floored(np.where(np.arange(self.size) == most, 1.0, 0.1 / self.size))
        for _ in range(_RANDOM_STARTS):
            yield self._floored(rng.dirichlet(np.ones(self.size)))

    def _floored(self, shares: FloatArray) -> FloatArray:
        raised = np.maximum(shares / shares.sum(), self.floor)
        return np.asarray(raised / raised.sum())
