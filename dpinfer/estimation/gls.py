"""The best linear unbiased estimator from everything that was published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation._closed_margins import MarginalSolver
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.design import (
    OVERFLOW,
    Design,
    IdentitySolver,
    Solver,
    Unmixing,
    as_dense,
    find_design,
    find_solver,
)
from dpinfer.estimation.targets import all_targets, find_targets
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, groups
from dpinfer.mechanisms.laws import Exact
from dpinfer.queries.workload import Workload
from dpinfer.releases.noises import Noises
from dpinfer.releases.release import Release
from dpinfer.releases.values import NoisyValues

_MOST_CELLS = 2**24  # above this many cells their estimates take gigabytes
_CONTRADICTION = 1e-8
"""Exact values that differ by more than this, relative to their size, contradict one another."""


def combine(
    release: Any,
    *,
    workload: Any = None,
    mechanism: Mechanism | None = None,
    target: Any = None,
) -> CombinedEstimate:
    """Estimate linear functions of the cells from every published value that bears on them.

    Parameters
    ----------
    release : Release, NoisyValues, or array of float, shape (m,), Series or DataFrame
        What was published: a release, or noisy values, described by the next two arguments. The
        values may share noises: see ``weights`` and ``covariance`` of :class:`Release`.
    workload : Workload or matrix, shape (m, n), optional
        The queries that the values answer; by default each value answers its own query.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each. Left out where ``release``
        carries its own.
    target : optional
        What to estimate, as linear functions of the n cells: a matrix (k × n), a vector (one
        target), a DataFrame or Series with the cells as columns or index, a Workload, the label
        of a published value or a cell or a list of labels, or a mapping of names to vectors.
        Frames of polars, pyarrow and the like have labels in the columns that hold no numbers.
        By default every published query and then every estimable cell that is not one of them.

    Returns
    -------
    CombinedEstimate
        Estimates with standard errors, intervals and a test of consistency.

    Raises
    ------
    NotEstimableError
        If the published values do not determine a target; the message names it.
    IncompatibleReleaseError
        If values contradict one another whatever their noise is, as those published without noise
        may, or values have a threshold, clamping bounds or bins: see
        :func:`dpinfer.count_confint` for these, one by one.
    InvalidParameterError
        If an argument is outside what is allowed, or the equations would take minutes or more to
        solve, as predicted from the pattern of the workload; the message says how many. Where every
        cell is a published value, the standard errors are refused so, but not the estimates.
    ConvergenceError
        If the equations cannot be solved to full accuracy.

    Notes
    -----
    With y = A x + e and independent noises of known variances v, V = diag(v), the estimate of T x
    is T (AᵀV⁻¹A)⁺AᵀV⁻¹ y, with covariance T (AᵀV⁻¹A)⁺Tᵀ: the best among all linear unbiased
    estimators (Aitken 1936). The weights depend on the variances only: weights chosen from the
    values that they weight would make the reported variances too small. Values without noise are
    constraints, which the estimates meet exactly. Estimates are neither rounded nor clipped; see
    :meth:`CombinedEstimate.clip`.

    Of values that share noises, y = A x + W z, the estimator is the best under V = W diag(v) Wᵀ,
    and the law of its error that of a weighted sum of z, exactly, for any law of z. Where W is
    square and well conditioned, W⁻¹y has independent noises. Otherwise the values are taken as
    constraints on the unknowns (x, z), beside values 0 of -z with a noise of its own each, which
    the same solvers combine, also where V is singular.

    Marginal tables of a domain that are published whole, each with one variance, are combined in
    closed form. Up to 60 unknowns (after cells that no query tells apart have been merged), and
    where the workload is dense, the equations are solved by orthogonal factorisation; otherwise
    the normal equations by sparse factors or conjugate gradients, if they are well enough
    conditioned, and by orthogonal or augmented factors if not. Estimates are refined to rounding.
    Standard errors are those of selected entries of the inverse, to about ten digits for up to
    2,000 unknowns and seven beyond, as estimated from a solution that is known. Where factors would
    take too long and conjugate gradients too many steps, estimates are by lsmr, to a tolerance that
    the summary states.

    References
    ----------
    Aitken, A. C. (1936). On Least Squares and Linear Combination of Observations.
    doi:10.1017/S0370164600014346.

    Examples
    --------
    Six cells and two sums of them, published with the same noise; the first sum is estimated
    better from all eight values than from the published one:

    >>> import numpy as np
    >>> from dpinfer.mechanisms import Geometric
    >>> A = np.vstack([np.eye(6), [[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]]])
    >>> y = [3, 0, -1, 4, 2, 4, 2, 7]
    >>> noise = Geometric.from_epsilon(1, sensitivity=3)
    >>> fit = combine(y, workload=A, mechanism=noise, target=A[6])
    >>> fit.params, (fit.bse**2 / noise.variance).round(12)
    (array([3.54545455]), array([0.63636364]))
    """
    published = _as_release(release, workload, mechanism)
    published._refuse_ruled("combined")
    base, unmixing = _of_own_noises(published)
    design, solver, coefficients = _solved(base, published, unmixing)
    if target is None:
        targets = all_targets(published.workload, design)
    else:
        targets = find_targets(target, published.workload)
        if design is not None:
            targets.refuse(~design.estimable(targets.matrix))
    coordinates = targets.matrix
    if design is not None:
        coordinates = design.coordinates(targets.matrix)
    return CombinedEstimate(
        release=published,
        targets=targets,
        _base=base,
        _unmixing=unmixing,
        _design=design,
        _solver=solver,
        _coefficients=coefficients,
        _coordinates=coordinates,
    )


def _as_release(release: Any, workload: Any, mechanism: Mechanism | None) -> Release:
    if not hasattr(release, "__noisy__") or isinstance(release, type):
        if mechanism is None:
            raise InvalidParameterError(
                "mechanism must be given with values: the law of the noise, such as "
                "Laplace(scale=2.0)"
            )
        return Release(release, workload=workload, mechanism=mechanism)
    if mechanism is not None or (workload is not None and isinstance(release, Release)):
        raise InvalidParameterError(
            "workload and mechanism must be left out where a Release is given: it has its own; "
            "mechanism also for other values that carry their law"
        )
    return release if isinstance(release, Release) else Release._of(release.__noisy__(), workload)


def _of_own_noises(release: Release) -> tuple[Release, Unmixing | None]:
    """Return values that each have noise of their own and say what those of a release say.

    Of y = A x + W z these are W⁻¹y, which is returned too, or else y = A x - W u without noise with
    the further unknowns u = -z, of which 0 = u + z. Where each value is a cell of its own there is
    nothing to combine.
    """
    if release.weights is None or release.workload.is_identity:
        return release, None
    from scipy.sparse import block_array, csr_array, eye_array

    noises, (rows, count) = release.__noisy__().noises, release.weights.shape
    unmixing = Unmixing.of(release.weights, np.sqrt(release.__noisy__()._noise_variance()))
    if unmixing is not None:
        own = unmixing.values(release.values)
        return Release._of(NoisyValues(own, noises), None), unmixing
    blocks = [[csr_array(release.workload.matrix), -release.weights], [None, eye_array(count)]]
    laws = [(law, rows + cells) for law, cells in groups(noises.law, count)]
    law = IndependentNoise.from_groups([(Exact(), np.arange(rows)), *laws], rows + count)
    values = np.concatenate([release.values, np.zeros(count)])
    x = NoisyValues(values, Noises(law, rows + count))
    return Release._of(x, Workload(block_array(blocks, format="csr"))), None


def _solved(
    release: Release, published: Release, unmixing: Unmixing | None
) -> tuple[Design | None, Solver, FloatArray]:
    """Return the design and its least-squares solution; no design stands for the identity."""
    with np.errstate(all="ignore"):  # what overflows is refused here
        variance = release.variance
        if not np.isfinite(variance).all():
            raise ConvergenceError(OVERFLOW)
        if published.workload.is_identity:
            return None, IdentitySolver(variance), release.values
        queries = release.workload if unmixing is None else published.workload
        if (cells := queries.shape[1]) > _MOST_CELLS:
            raise InvalidParameterError(
                f"workload must be on at most {_MOST_CELLS} cells to be combined, got {cells}: "
                "merge cells that no query tells apart, or leave out those that none is about"
            )
        closed = MarginalSolver.of(queries, variance) if unmixing is None else None
        try:
            design = closed.design if closed else find_design(queries.matrix, variance)
            if unmixing is not None:
                own = unmixing.values(as_dense(design.matrix))
                design = replace(design, matrix=own, solver=None)
            solver = closed or design.solver or find_solver(design.matrix, variance)
            coefficients = solver.coefficients(release.values)
        except np.linalg.LinAlgError as error:
            raise ConvergenceError(OVERFLOW) from error
        fitted = design.matrix @ coefficients
    if not np.isfinite(fitted).all():
        raise ConvergenceError(OVERFLOW)
    if not variance.all():
        _check_exact(published, variance[: len(published)], fitted)
    if len(published) < len(release):
        design = design.for_cells(len(release) - len(published))
    return design, solver, coefficients


def _check_exact(release: Release, variance: FloatArray, fitted: FloatArray) -> None:
    """Refuse values without noise that no cells, nor noises, can explain together."""
    exact = np.flatnonzero(variance == 0)
    size = np.abs(release.values[exact]).max(initial=1.0)
    with np.errstate(over="ignore"):  # an infinite gap is a contradiction too
        gap = np.abs(fitted[exact] - release.values[exact])
    off = exact[gap > _CONTRADICTION * size]
    if len(off):
        row = int(off[0])
        named = release._names(off)
        alike = "published without noise" if release.weights is None else "that share their noise"
        raise IncompatibleReleaseError(
            f"values {alike} must not contradict one another: {named} "
            f"({release.values[row]:g}) must be {fitted[row]:g} by the other"
            + (" exact values" if release.weights is None else " values, whatever the noise is")
        )
