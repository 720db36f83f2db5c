"""Proved quantiles of sums of noises whose weights are known within bounds only.

For symmetric noises with unimodal densities P(abs(Σ wᵢeᵢ) > t) grows with each abs(wᵢ), as the sum
of all others is unimodal too (Anderson's inequality); and so does Chernoff's bound for any
symmetric noises, as their cumulant functions are even and convex. Whole-numbered noise is within a
known distance of noise with a density.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse, special

from dpinfer._check import FloatArray, check_alpha, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.fieller import tail_of
from dpinfer.estimation.ratio_sets import continuous_bound, with_density
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import Exact, Gaussian
from dpinfer.mechanisms.weighted_sum import weighted_sums
from dpinfer.releases.noises import Noises
from dpinfer.releases.values import NoisyValues

MOST_SUMS = 400
"""Sums whose laws are found; of more, those of Gaussian noise alone and Chernoff's bounds."""

_TILTS = np.geomspace(0.25, 1.2, 8)
"""Where Chernoff's bound is tried, in units of what is best under Gaussian noise."""

_CHORDS = 10_000


def check_level(alpha: float) -> float:
    """Return a level that laws of weighted sums are followed to."""
    return 2.0 * tail_of(check_alpha(alpha), "two-sided")


def signed(rows: Any) -> tuple[Any, Any]:
    """Return the positive and the negative parts of sparse weights."""
    return rows.maximum(0.0).tocsr(), (-rows).maximum(0.0).tocsr()


def weights_within(low: Any, high: Any, rows: Any) -> Any:
    """Return the largest sizes of the entries of C @ rows for C between two sparse arrays."""
    up, down = signed(rows)
    most, least = high @ up - low @ down, low @ up - high @ down
    return abs(most).maximum(abs(least)).tocsr()


def noise_within(x: NoisyValues, tail: float) -> FloatArray:
    """Return what the error of each value exceeds with at most this probability, upwards."""
    if x.weights is None:
        return np.array(np.broadcast_to(np.asarray(x.marginal.isf(tail)), len(x)))
    return worst_quantiles(abs(x._rows(np.arange(len(x)))), x.noises, tail)


def worst_quantiles(
    sizes: Any,
    noises: Noises,
    tail: float,
    *,
    few: bool | None = None,
    poisson: tuple[Any, FloatArray] | None = None,
) -> FloatArray:
    """Return t with P(Σ wⱼeⱼ > t) <= tail for all weights of at most these sizes, one a row.

    ``few`` says whether the laws of sums are found; by default, where they are few. ``poisson`` has
    sparse weights of either sign and means: of independent Poisson counts less their means, with
    weights of these signs and at most these sizes, and at most these means, that are added.
    """
    laws = list(groups(noises.law, noises.size))
    for law, _ in laws:
        if not isinstance(law, (ParametricLaw, Exact)):
            raise InvalidParameterError(
                f"the noise must have a known moment generating function, got {show(law)}"
            )
    variance = np.broadcast_to(np.asarray(noises.law.variance, dtype=np.float64), noises.size)
    std = np.sqrt(sizes.power(2) @ variance)
    used = np.bincount(sizes.indices, minlength=noises.size) > 0
    kinds = [law for law, cells in laws if used[cells].any()]
    if poisson is not None:
        return _chernoff(sizes, laws, std, tail, poisson)
    if all(isinstance(law, (Gaussian, Exact)) for law in kinds):
        return np.asarray(-special.ndtri(tail) * std)
    found = _chernoff(sizes, laws, std, tail)
    few = sizes.shape[0] <= MOST_SUMS if few is None else few
    if not few or any(with_density(law) is None for law in kinds):
        return found
    smooth: list[tuple[NoiseLaw, Any]] = []
    slack = np.zeros(noises.size)
    for law, cells in laws:
        stand_in = with_density(law)
        smooth.append((law if stand_in is None else stand_in, cells))
        if stand_in is not None and not isinstance(law, Exact):
            slack[cells] = continuous_bound(law, cells.size)[1]
    sums = weighted_sums(sizes, IndependentNoise.from_groups(smooth, noises.size))
    exact = np.array([float(one.isf(tail)) if one.variance > 0 else 0.0 for one in sums])
    return np.asarray(np.minimum(found, exact + sizes @ slack))


def _chernoff(
    sizes: Any,
    laws: list[Any],
    std: FloatArray,
    tail: float,
    poisson: tuple[Any, FloatArray] | None = None,
) -> FloatArray:
    """Return the least of Chernoff's bounds at some tilts: (K(t) - ln tail)/t at each."""
    if poisson is not None:
        weights, means = sparse.coo_array(poisson[0]), poisson[1]
        std = np.sqrt(np.square(std) + poisson[0].power(2) @ means)
    entries = sparse.coo_array(sizes)
    kept = entries.data > 0.0
    row, column, weight = entries.row[kept], entries.col[kept], entries.data[kept]
    owner = np.zeros(sizes.shape[1], dtype=np.intp)
    place = np.zeros(sizes.shape[1], dtype=np.intp)
    limit = np.full(len(std), np.inf)
    for at, (_, cells) in enumerate(laws):
        owner[cells], place[cells] = at, np.arange(cells.size)
    parts = []
    for at, (law, _) in enumerate(laws):
        own = np.flatnonzero(owner[column] == at)
        if not own.size or isinstance(law, Exact):
            continue
        part = law.take(place[column[own]]) if law.shape else law
        np.minimum.at(limit, row[own], part._abscissa / weight[own])
        parts.append((part, own))

    def total(t: FloatArray) -> FloatArray:
        found = np.zeros(len(std))
        for part, own in parts:
            s = weight[own] * t[row[own]]
            logs = (
                _cumulant(part, s) if part.shape or s.size <= _CHORDS else chords(part, s.max())(s)
            )
            found += np.bincount(row[own], logs, minlength=len(std))
        if poisson is not None:
            s = weights.data * t[weights.row]
            with np.errstate(over="ignore"):
                logs = means[weights.col] * (np.expm1(s) - s)
            found += np.bincount(weights.row, logs, minlength=len(std))
        return found

    return least_bound(std, limit, tail, total)


def least_bound(
    std: FloatArray, limit: FloatArray, tail: float, cumulant: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return the least of Chernoff's bounds of sums, whose cumulants are found at a tilt of each.

    ``limit`` is that of the tilts at which the cumulants are finite.
    """
    best = np.where(std > 0.0, np.inf, 0.0)
    for t in tilts(std, limit, tail):
        best = np.where(std > 0.0, np.minimum(best, (cumulant(t) - np.log(tail)) / t), 0.0)
    return best


def tilts(std: FloatArray, limit: FloatArray, tail: float) -> list[FloatArray]:
    """Return where bounds are tried, in increasing order."""
    unit = np.where(std > 0.0, std, 1.0)
    return [np.minimum(tilt / unit, 0.98 * limit) for tilt in np.sqrt(-2.0 * np.log(tail)) * _TILTS]


def _cumulant(law: ParametricLaw, s: FloatArray) -> FloatArray:
    return np.asarray(law._cgf(s.astype(np.complex128)).real)


def chords(law: ParametricLaw, most: float) -> Callable[[FloatArray], FloatArray]:
    """Return chords of log E exp(s·e) for s from 0 to ``most``, which are above as it is convex."""
    nodes = np.linspace(0.0, most, _CHORDS)
    values = _cumulant(law, nodes)
    slope = np.diff(values) / max(nodes[1], 1e-300)
    start = values[:-1] - slope * nodes[:-1]
    by_step = (_CHORDS - 1) / max(most, 1e-300)

    def cumulant(s: FloatArray) -> FloatArray:
        at = np.minimum((s * by_step).astype(np.intp), _CHORDS - 2)
        return np.asarray(start[at] + slope[at] * s)

    return cumulant
