"""From checked arguments to rows whose posteriors can be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import unlabelled
from dpinfer.intervals.posterior._climb import LOG_LEFT_OUT, MOST_COLUMNS, Rows
from dpinfer.intervals.posterior._ladder import Flat, Ladder, Panjer
from dpinfer.intervals.posterior._likelihood import bound, log_density, reach
from dpinfer.intervals.posterior._parts import Part
from dpinfer.intervals.posterior._table import Table, TableRows
from dpinfer.intervals.posterior.priors import (
    CountPrior,
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)
from dpinfer.mechanisms import Gaussian, NoiseLaw
from dpinfer.mechanisms.independent import groups

if TYPE_CHECKING:
    import pandas as pd

MOST_WORK = float(1 << 34)
"""Columns of all windows together: some two minutes."""

_SETTLED = 1e-15
_SMALLEST_MEAN = 1e-100
_CONSTANT = Gaussian(sigma=1e50)


def ladder_of(prior: CountPrior, labels: pd.Index | None) -> Ladder | None:
    """Return a prior in the form from which windows are climbed, where it has one."""
    if isinstance(prior, FlatPrior):
        return Flat()
    if isinstance(prior, PoissonPrior):
        return Panjer(unlabelled(prior.rate, "rate", labels, "count"), np.zeros(()))
    if isinstance(prior, NegativeBinomialPrior):
        return Panjer(
            unlabelled(prior.mean, "mean", labels, "count"),
            unlabelled(prior.dispersion, "dispersion", labels, "count"),
        )
    return None


def ladder_parts(
    count: FloatArray, law: NoiseLaw, ladder: Ladder, lower: float, upper: float
) -> list[Part]:
    """Return the rows of each kind of noise, with a prior that is a ladder."""
    parts = []
    for own, cells in groups(law, count.size):
        prior = ladder if ladder.shared else ladder.take(cells)
        shared = own.shape == () and ladder.shared and own.is_integer
        values, inverse = _distinct(count[cells]) if shared else (count[cells], None)
        low, high = np.full(values.size, lower), np.full(values.size, upper)
        if isinstance(prior, Panjer):
            low = np.maximum(low, 0.0)
            high = np.where(prior.mean == 0, np.minimum(high, 0.0), high)
            prior = Panjer(np.maximum(prior.mean, _SMALLEST_MEAN), prior.dispersion)
        ends = bound(own)
        low, high = (
            np.maximum(low, np.ceil(values - ends)),
            np.minimum(high, np.floor(values + ends)),
        )
        _check_possible(low <= high, values)
        parts.append(Part(Rows(values, own, prior, low, high), cells, inverse))
    _check_work(parts)
    return parts


def table_parts(count: FloatArray, law: NoiseLaw, table: Table) -> list[Part]:
    """Return the rows of each kind of noise, with a prior that is a table."""
    parts = []
    for own, cells in groups(law, count.size):
        shared = own.shape == () and own.is_integer
        values, inverse = _distinct(count[cells]) if shared else (count[cells], None)
        ends = bound(own)
        nearest = np.searchsorted(table.possible, values - ends)
        reached = table.possible[np.minimum(nearest, table.possible.size - 1)] <= values + ends
        _check_possible(reached & (nearest < table.possible.size), values)
        parts.append(Part(TableRows(values, own, table), cells, inverse))
    _check_work(parts)
    return parts


def log_prior_mass(part: Part, lower: float, upper: float) -> FloatArray:
    """Return the logarithm of the prior probability of the support, one for each cell.

    It is a posterior's normaliser again, under noise so wide that its density is constant.
    """
    rows = part.rows
    assert isinstance(rows, Rows)
    size = 1 if rows.prior.shared else rows.count.size
    low, high = np.full(size, max(lower, 0.0)), np.full(size, upper)
    alone = Part(Rows(np.zeros(size), _CONSTANT, rows.prior, low, high), np.arange(size))
    mass = alone.apply(lambda window, _: window.log_total()[None])[0]
    return np.broadcast_to(mass - log_density(_CONSTANT, np.zeros(())), part.cells.shape)


def table_of(prior: TablePrior, lower: float, upper: float) -> Table:
    """Return the logarithms of the prior on the support, where it sums to 1."""
    pmf = np.asarray(prior.pmf)
    k = prior.first + np.arange(pmf.size)
    inside = (k >= lower) & (k <= upper)
    if not pmf[inside].any():
        raise InvalidParameterError(
            f"prior must give lower..upper a probability, got none for {lower:g} to {upper:g}"
        )
    with np.errstate(divide="ignore"):
        logpmf = np.log(pmf[inside]) - np.log(pmf[inside].sum())
    return Table(float(k[inside][0]), logpmf)


def tabulate(
    prior: FunctionPrior, count: FloatArray, law: NoiseLaw, lower: float, upper: float
) -> Table:
    """Return the values of a function prior as far as any posterior has mass.

    The table is doubled until the posteriors of the smallest and of the largest counts have
    nothing left in the outer quarter on either side.
    """
    if upper - lower < MOST_COLUMNS:
        return _checked_table(prior, lower, upper)
    centre = np.clip(np.rint(count), lower, upper)
    widest = max(
        float(np.max(reach(own, np.asarray(LOG_LEFT_OUT)))) for own, _ in groups(law, count.size)
    )
    room = 16.0 + np.ceil(widest)
    while True:
        low, high = max(lower, centre.min() - room), min(upper, centre.max() + room)
        if high - low > MOST_COLUMNS:
            raise InvalidParameterError(
                "prior must make the posterior proper, within "
                f"{MOST_COLUMNS} counts: it falls too slowly, or not at all where the noise does. "
                "Give lower and upper, or a prior that falls"
            )
        table = _checked_table(prior, low, high)
        if _settled(table, count, law, 0.25 * room, (low > lower, high < upper)):
            return table
        room *= 2.0


def _checked_table(prior: FunctionPrior, low: float, high: float) -> Table:
    values = prior.values(low + np.arange(high - low + 1.0))
    if not np.isfinite(values).any():
        raise InvalidParameterError(
            f"prior must give some count a probability, got none from {low:g} to {high:g}"
        )
    peak = values.max()
    return Table(low, values - peak - np.log(np.exp(values - peak).sum()))


def _settled(
    table: Table, count: FloatArray, law: NoiseLaw, margin: float, cut: tuple[bool, bool]
) -> bool:
    """Whether the posteriors of the extreme counts have no mass near ends that were cut."""
    for own, cells in groups(law, count.size):
        values = count[cells]
        for row in {int(values.argmin()), int(values.argmax())}:
            alone = own.take([int(np.argmax(own.std))]) if own.shape else own
            window = TableRows(values[[row]], alone, table).window()
            k = window.first + np.arange(len(window.mass))
            outer = (cut[0] & (k < table.first + margin)) | (
                cut[1] & (k > table.first + table.logpmf.size - margin)
            )
            if window.mass[outer].sum() > _SETTLED:
                return False
    return True


def _distinct(values: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the different whole numbers, and the place of each value among them."""
    low, high = values.min(), values.max()
    if high - low > max(4 * values.size, 1 << 16):
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse
    offset = (values - low).astype(np.intp)
    present = np.zeros(int(high - low) + 1, dtype=bool)
    present[offset] = True
    place = np.cumsum(present) - 1
    return np.flatnonzero(present) + low, place[offset]


def _check_possible(possible: NDArray[np.bool_], count: FloatArray) -> None:
    if not possible.all():
        raise InvalidParameterError(
            f"count must be possible under mechanism, prior, lower and upper, got "
            f"{count[~possible][0]:g}: no whole number of the support could have given it"
        )


def _check_work(parts: list[Part]) -> None:
    work = sum(float(part.rows.width.sum()) for part in parts)
    if work > MOST_WORK:
        raise InvalidParameterError(
            "count must have posteriors over at most 2^34 counts in all, for memory and time, got "
            f"about {work:.2g}: pass fewer rows, or a narrower prior"
        )
