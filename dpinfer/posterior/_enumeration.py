"""Independent draws from the list of all tables, where they are few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, IncompatibleReleaseError
from dpinfer.intervals._windows import log_density
from dpinfer.posterior._model import NO_END, TableModel, Whole, law_of
from dpinfer.posterior._moves import all_tables
from dpinfer.posterior._priors import CellPrior
from dpinfer.posterior._trees import MOST_LEFT_OUT, ExactDraws, Passes, forest_of

MOST_STATES = 10**6
_MOST_CELLS = 64
_CUT = 1e-20
_ROWS = 1 << 16


def enumerated_draws(
    model: TableModel, draws: int, seed: np.random.SeedSequence, prior: CellPrior | None
) -> ExactDraws | None:
    """Draw from all tables; None where they are more than 10⁶.

    Cells without an end are cut where what is known of them alone, times the most that the sums
    could add to it, leaves out less than 1e-12 of the posterior.
    """
    if model.free.size > _MOST_CELLS:
        return None
    cut = _cut(model, prior)
    if cut is None:
        return None
    held, log_outside = cut
    found = all_tables(held, held.free, held.exact[:, held.free], MOST_STATES)
    if found is None:
        return None
    states = np.tile(held.lower, (len(found), 1))
    states[:, held.free] = found
    log_p = np.concatenate(
        [
            _log_posterior(held, states[begin : begin + _ROWS], prior)
            for begin in range(0, len(states), _ROWS)
        ]
        or [np.empty(0)]
    )
    if not np.isfinite(log_p).any():
        raise IncompatibleReleaseError(
            "values must be possible under mechanism, prior, total and zeros: no table is"
        )
    total = float(special.logsumexp(log_p))
    left_out = float(np.exp(min(log_outside - total, 0.0)))
    if left_out > MOST_LEFT_OUT:
        return None
    cumulative = np.cumsum(np.exp(log_p - total))
    point = np.random.default_rng(seed).random(draws) * cumulative[-1]
    place = np.searchsorted(cumulative, point, side="right")
    return ExactDraws(states[np.minimum(place, len(states) - 1)], left_out)


def _log_posterior(model: TableModel, states: Whole, prior: CellPrior | None) -> FloatArray:
    found = model.log_likelihood(states)
    if prior is None:
        return found
    open_ = np.flatnonzero(~model.zeros)
    return np.asarray(found + prior.log_cells(states[:, open_], open_).sum(axis=1))


def _cut(model: TableModel, prior: CellPrior | None) -> tuple[TableModel, float] | None:
    """Return the model of cells with ends, and a bound on the logarithm of what is beyond them."""
    from scipy import sparse

    open_ = model.upper == NO_END
    if not open_.any():
        return model, -np.inf
    single = np.diff(model.rows.indptr) == 1
    if model.bins is not None:
        return None
    rows = np.flatnonzero(single)
    alone = replace(
        model,
        rows=model.rows[rows],
        y=model.y[rows],
        low=model.low[rows],
        high=model.high[rows],
        law=law_of(model.law, rows, len(model.y)),
        exact=sparse.csr_array((0, model.cells), dtype=np.int64),
        exact_values=np.empty(0, dtype=np.int64),
    )
    forest = forest_of(alone)
    assert forest is not None
    try:
        every = np.arange(model.cells)
        windows = Passes(forest, prior).leaf_windows(every, np.zeros(model.cells), _CUT)
    except ConvergenceError:
        return None
    first, last = windows.first, windows.first + windows.width - 1
    # cells with ends keep them: what a window leaves out there is listed all the same
    lower = np.where(open_, first, model.lower)
    upper = np.where(open_, last, model.upper)
    outside = windows.left_out[open_].sum() * np.prod(1.0 + windows.left_out)
    with np.errstate(divide="ignore"):
        log_outside = float(np.log(outside) + windows.log_total.sum())
    rest = ~single & (model.low == model.high)
    for law, cells in model.groups:
        most = np.broadcast_to(log_density(law, np.zeros(len(cells))), len(cells))
        log_outside += float(most[rest[cells]].sum())
    return replace(model, lower=lower, upper=upper), log_outside
