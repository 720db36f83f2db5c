"""Which way leads to the accepted ratios of each published pair: by the laws of its noise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.ratios._arcs import Arcs
from dpinfer.intervals.ratios._fieller import Ends, Standardised, one_exact
from dpinfer.intervals.ratios._general import ends_of_one, weighted_tail
from dpinfer.intervals.ratios._lattice import Bracket, ends_of_few, lattice_polygon
from dpinfer.intervals.ratios._support import Kind, smooth_support
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    NoiseLaw,
    Rounded,
    groups,
)

WIDE = 30.0
"""Whole-numbered noise of a larger standard deviation is bounded by noise with a density."""

WIDE_SLACK = 0.51
"""It is at most this far away, for such standard deviations."""

FEW_PAIRS = 4
FEW_CALLS = 16
"""At most so many pairs with one law, in so many calls, take the polygon near their ends only."""

SMALL_TAIL = 1e-8
"""Smaller tails take the whole polygon, as bounds on the noise do not hold so far out."""

MOST_ROWS = 2000
"""For laws without a way for many pairs at once, which take up to seconds for a pair."""

_KINDS: dict[type[NoiseLaw], Kind] = {
    Laplace: "laplace",
    Geometric: "laplace",
    Gaussian: "gaussian",
    DiscreteGaussian: "gaussian",
}
"""The noise with a density that stands for a kind of noise."""


def normal_arcs(published: FloatArray, scales: FloatArray, tail: float) -> Arcs:
    """Return what Fieller's formula accepts: all noise is taken as Gaussian.

    Parameters
    ----------
    published, scales : array of float, shape (n, 2)
        The pairs, and the standard deviations of their noise.
    tail : float
        The upper tail probability.
    """
    arcs = Arcs.empty(published)
    noisy = (scales > 0).all(axis=1)
    support = smooth_support("gaussian", "gaussian", tail)
    rows = np.flatnonzero(noisy)
    if rows.size:
        pairs = Standardised(published[rows], scales[rows], np.zeros((rows.size, 2)), support)
        arcs.fill(rows, *pairs.ends())
    rows = np.flatnonzero(~noisy)
    reach = float(support(np.zeros(1))[0]) * scales[rows]
    arcs.fill(rows, *one_exact(published[rows], reach))
    return arcs


def exact_arcs(published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float) -> Arcs:
    """Return what the laws of the noise accept.

    Parameters
    ----------
    published : array of float, shape (n, 2)
        The pairs.
    first, second : NoiseLaw
        Laws of the noise of either value, of shape ``()`` or ``(n,)``.
    tail : float
        The upper tail probability.
    """
    arcs = Arcs.empty(published)
    size = len(published)
    for one, cells in groups(first, size):
        for other, others in groups(second, size):
            rows, at, at_other = np.intersect1d(cells, others, return_indices=True)
            if rows.size:
                _fill(arcs, rows, one.take(at), other.take(at_other), tail)
    return arcs


def _fill(
    arcs: Arcs, rows: NDArray[np.intp], first: NoiseLaw, second: NoiseLaw, tail: float
) -> None:
    """Enter the answers for rows with noise of one kind each."""
    laws = (first, second)
    published = arcs.published[rows]
    scales = np.column_stack([np.broadcast_to(law.std, rows.size) for law in laws])
    exact = (scales == 0).any(axis=1)
    # the two noises have to be both on the whole numbers, and narrow, to be taken as such
    narrow = (scales <= WIDE).all(axis=1) & first.is_integer & second.is_integer
    one, other = (_KINDS.get(type(_unrounded(law))) for law in laws)
    at = np.flatnonzero(exact)
    if at.size:
        reach = np.column_stack([np.broadcast_to(law.isf(tail), rows.size) for law in laws])
        arcs.fill(rows[at], *one_exact(published[at], reach[at]))
    at = np.flatnonzero(~exact & narrow)
    if at.size:
        arcs.fill(rows[at], *_on_lattice(published[at], first.take(at), second.take(at), tail))
    at = np.flatnonzero(~exact & ~narrow)
    if at.size and one is not None and other is not None:
        support = smooth_support(one, other, tail)
        parts = [continuous_bound(law.take(at), at.size) for law in laws]
        scale, slack = (np.column_stack(columns) for columns in zip(*parts, strict=True))
        arcs.fill(rows[at], *Standardised(published[at], scale, slack, support).ends())
    elif at.size:
        arcs.fill(rows[at], *_one_by_one(published[at], first.take(at), second.take(at), tail))


def _unrounded(law: NoiseLaw) -> NoiseLaw:
    return law.law if isinstance(law, Rounded) else law


def with_density(law: NoiseLaw) -> NoiseLaw | None:
    """Return the log-concave noise with a density that stands for a law, None for other kinds."""
    if isinstance(law, Geometric):
        return Laplace(scale=law.scale)
    if isinstance(law, DiscreteGaussian):
        return Gaussian(sigma=law.sigma)
    law = _unrounded(law)
    return law if isinstance(law, (Laplace, Gaussian, Exact)) else None


def continuous_bound(law: NoiseLaw, size: int) -> tuple[FloatArray, FloatArray]:
    """Return the standard deviation of noise Z with a density, and the most that e is away from it.

    Where abs(Z) and abs(e) are coupled by their quantiles, abs(e) >= k goes with abs(Z) >= zₖ, and
    the distance is at most the largest k - zₖ or zₖ₊₁ - k.
    """
    if isinstance(law, Geometric):
        # P(abs(Z) >= zₖ) = exp(-zₖ/s) and P(abs(e) >= k) = 2aᵏ/(1 + a) give k - zₖ = c for all k
        scale = np.broadcast_to(np.asarray(law.scale, dtype=np.float64), size)
        c = scale * np.log(2.0 / (1.0 + np.exp(-1.0 / scale)))
        return np.sqrt(2.0) * scale, np.maximum(c, 1.0 - c)
    if isinstance(law, DiscreteGaussian):
        sigma = np.broadcast_to(np.asarray(law.sigma, dtype=np.float64), size)
        each, which = np.unique(sigma, return_inverse=True)
        return sigma, np.array([_gaussian_gap(float(value)) for value in each])[which]
    slack = np.full(size, 0.5 * isinstance(law, Rounded))
    return np.array(np.broadcast_to(_unrounded(law).std, size)), slack


def _gaussian_gap(sigma: float) -> float:
    """Return the most that discrete Gaussian noise is away from Gaussian noise, up to 9σ."""
    if sigma > WIDE:
        return WIDE_SLACK
    k = np.arange(1.0, np.ceil(9.0 * sigma) + 2.0)
    z = Gaussian(sigma=sigma).isf(DiscreteGaussian(sigma=sigma).sf(k - 1.0))
    return float(max(np.max(k - z), np.max(z[1:] - k[:-1]), z[0]))


def _on_lattice(published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float) -> Ends:
    """Return the ends for pairs with whole-numbered noise, a polygon for each pair of laws."""
    inside = np.zeros(len(published), dtype=bool)
    left, right = np.zeros(published.shape), np.zeros(published.shape)
    scales = np.column_stack([np.broadcast_to(law.std, len(published)) for law in (first, second)])
    # laws of one kind are told apart by their standard deviations
    _, examples, which = np.unique(scales, axis=0, return_index=True, return_inverse=True)
    for number, example in enumerate(examples):
        rows = np.flatnonzero(which.ravel() == number)
        laws = first.take(int(example)), second.take(int(example))
        bracket = _bracket(*laws, tail) if rows.size <= FEW_PAIRS else None
        if bracket is None or next(_calls(*laws, tail)) >= FEW_CALLS:
            ends = lattice_polygon(*laws, tail).ends(published[rows])
        else:
            ends = ends_of_few(published[rows], *laws, tail, bracket)
        inside[rows], left[rows], right[rows] = ends
    return inside, left, right


@lru_cache(maxsize=256)
def _calls(first: NoiseLaw, second: NoiseLaw, tail: float) -> Iterator[int]:
    return count()


def _bracket(first: NoiseLaw, second: NoiseLaw, tail: float) -> Bracket | None:
    """Return bounds by noises with densities; they hold up to 1e-18 in probability."""
    kinds = [_KINDS.get(type(_unrounded(law))) for law in (first, second)]
    if tail < SMALL_TAIL or kinds[0] is None or kinds[1] is None:
        return None
    parts = [continuous_bound(law, 1) for law in (first, second)]
    scale, slack = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Bracket(smooth_support(kinds[0], kinds[1], tail), scale, slack)


def _one_by_one(published: FloatArray, first: NoiseLaw, second: NoiseLaw, tail: float) -> Ends:
    """Return the ends for pairs with noise of other kinds."""
    if len(published) > MOST_ROWS:
        raise InvalidParameterError(
            f"mechanism must be Laplace, Gaussian, geometric or discrete Gaussian noise for more "
            f"than {MOST_ROWS} pairs, got {len(published)} pairs with {type(first).__name__} and "
            f"{type(second).__name__} noise"
        )
    weights = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    found = []
    for row, (x, y) in enumerate(published):
        laws = [law.take(row) for law in (first, second)]
        log_tail = weighted_tail(*weights, IndependentNoise(laws))
        scale = float(laws[0].std), float(laws[1].std)
        found.append(ends_of_one((float(x), float(y)), scale, log_tail, tail))
    inside, left, right = zip(*found, strict=True)
    return np.array(inside), np.array(left), np.array(right)
