"""The pass down a tree of vectors: covariances from all measurements, and variances on demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.estimation.vectors.exact import free_of, known, of_leaves, sharpen
from dpinfer.estimation.vectors.layout import CHUNK, SparseRows, families_of
from dpinfer.estimation.vectors.leaves import StructuredLeaves
from dpinfer.estimation.vectors.up import Below
from dpinfer.estimation.vectors.update import RANK, Beliefs, sums_of_others
from dpinfer.queries._tree import Places

_CANCELLED = 1e-3
"""Share of the variance from below under which it is not the difference that is returned."""


@dataclass(frozen=True, eq=False)
class Final:
    """Final covariances of d dense nodes.

    Parameters
    ----------
    finite : array of float, shape (d, g, g)
        Their finite part.
    unknown : SparseRows, shape (d, g, g)
        Their infinite part.
    exact : SparseRows, shape (d, g, g)
        Projectors on what is exact in those of which more is so than from below.
    """

    finite: FloatArray
    unknown: SparseRows
    exact: SparseRows


def final_beliefs(below: Below, above: Beliefs | None) -> Final:
    """Go down, from what is known of the roots in the end if that is more."""
    layout, size, dense = below.layout, below.queries.size, len(below.finite)
    final = Final(
        np.zeros(below.finite.shape), SparseRows(dense, size, size), SparseRows(dense, size, size)
    )
    roots = np.flatnonzero(layout.parent < 0)
    own = below.beliefs(roots)
    if above is None:
        above = own
    final.finite[roots] = above.finite
    _keep_unknown(final, roots, above.unknown)
    more = np.abs(above.exact - own.exact).max(axis=(1, 2)) > RANK
    final.exact.add(roots[more], above.exact[more])
    for nodes in layout.down(max(1, CHUNK // size**2)):
        children = layout.dense_children(nodes)
        if children.stop > children.start:
            rows = np.arange(children.start, children.stop)
            _down(below, final, rows)
            sharpen(below, final.exact, rows)
    return final


def _down(below: Below, final: Final, rows: Places) -> None:
    """Find the final covariances of dense nodes, whole families of them."""
    parents = below.layout.parent[rows]
    starts, _ = families_of(parents)
    counts = np.diff(starts, append=rows.size)
    own = below.finite[rows]
    others = sums_of_others(own, counts)
    others += below.structured[np.searchsorted(below.mixed, parents)]
    gain = own @ below.inverse[parents]
    above = below.layout.dense_of[below.layout.inner[parents]]
    odd = below.flat.has(parents)
    if odd.any():
        unknown, siblings = below.unknown.get(rows[odd]), below.unknown_sum.get(parents[odd])
        gain[odd] += unknown @ below.flat.get(parents[odd])
        _keep_unknown(
            final,
            rows[odd],
            _joseph(gain[odd], unknown, siblings - unknown + final.unknown.get(above[odd])),
        )
    final.finite[rows] = _joseph(gain, own, others + final.finite[above])


def _joseph(gain: FloatArray, own: FloatArray, other: FloatArray) -> FloatArray:
    """Return (I - G) U (I - G)' + G V G'."""
    left = np.eye(own.shape[-1]) - gain
    found = left @ own @ left.transpose(0, 2, 1) + gain @ other @ gain.transpose(0, 2, 1)
    return np.asarray(0.5 * (found + found.transpose(0, 2, 1)))


def _keep_unknown(final: Final, rows: Places, unknown: FloatArray) -> None:
    """Keep infinite parts that are not 0."""
    some = np.abs(unknown).max(axis=(1, 2), initial=0.0) > RANK
    final.unknown.add(rows[some], unknown[some])


def variances(below: Below, final: Final, functionals: FloatArray, places: Places) -> FloatArray:
    """Return final variances, shape (m, k), of functionals, shape (k, g), of places."""
    found = np.zeros((places.size, len(functionals)))
    rows = below.layout.dense_of[places]
    dense = np.flatnonzero(rows >= 0)
    size = below.queries.size
    step = max(1, CHUNK // size**2)
    for start in range(0, dense.size, step):
        some = dense[start : start + step]
        free = free_of(functionals, known(below, final.exact, rows[some]))
        found[some] = _quadratic(final.finite[rows[some]], free)
        infinite = _quadratic(final.unknown.get(rows[some]), functionals)
        found[some] = np.where(infinite > RANK * (functionals**2).sum(axis=1), np.inf, found[some])
    for leaves in below.leaves:
        index = np.searchsorted(leaves.places, places)
        index[index == len(leaves)] = 0
        some = np.flatnonzero(leaves.places[index] == places)
        for start in range(0, some.size, step):
            chosen = some[start : start + step]
            found[chosen] = _leaf_variances(below, final, leaves, index[chosen], functionals)
    return found


def _quadratic(matrices: FloatArray, functionals: FloatArray) -> FloatArray:
    """Return f'Wf, shape (n, k), of functionals, shape (k, g) or (n, k, g)."""
    return np.asarray(((functionals @ matrices) * functionals).sum(axis=2))


def _leaf_variances(
    below: Below, final: Final, leaves: StructuredLeaves, index: Places, functionals: FloatArray
) -> FloatArray:
    """Return final variances of structured leaves."""
    parents, which = np.unique(leaves.parents[index], return_inverse=True)
    inverse = below.inverse[parents]
    above = final.finite[below.layout.dense_of[below.layout.inner[parents]]]
    inner = inverse - inverse @ above @ inverse
    found, alone = leaves.variance(functionals, index, inner[which])
    cancelled = np.flatnonzero((found < _CANCELLED * alone).any(axis=1))
    if cancelled.size:
        some = index[cancelled]
        active = leaves.active(some)
        exact = of_leaves(below, final.exact, active, leaves.parents[some])
        care = _with_care(below, final, leaves.places[some])
        found[cancelled] = _quadratic(care, free_of(functionals, exact))
    return np.asarray(np.maximum(found, 0.0))


def _with_care(below: Below, final: Final, places: Places) -> FloatArray:
    """Return final covariances of leaves, without differences that cancel, shape (n, g, g)."""
    parent = below.layout.tree.parent
    own = _covariances(below, places)
    others = np.zeros(own.shape)
    starts, _ = families_of(parent[places])
    for start, stop in zip(starts, np.append(starts[1:], places.size), strict=True):
        others[start:stop] = _others(below, places[start:stop])
    rows = below.layout.inner_of[parent[places]]
    above = final.finite[below.layout.dense_of[parent[places]]]
    return _joseph(own @ below.inverse[rows], own, others + above)


def _others(below: Below, places: Places) -> FloatArray:
    """Return the sums of U over all other children, for some children of one node."""
    parent, step = below.layout.tree.parent, max(1, CHUNK // below.queries.size**2)
    first, last = np.searchsorted(parent, [parent[places[0]], parent[places[0]] + 1])
    cuts = np.arange(first, last, step)
    totals, found = [], np.zeros((places.size, *below.finite.shape[1:]))
    for cut in cuts:
        own = _covariances(below, np.arange(cut, min(cut + step, last)))
        totals.append(own.sum(axis=0))
        inside = (places >= cut) & (places < cut + step)
        if inside.any():
            found[inside] = sums_of_others(own, np.array([len(own)]))[places[inside] - cut]
    outside = sums_of_others(np.array(totals), np.array([cuts.size]))
    return found + outside[np.searchsorted(cuts, places, side="right") - 1]


def _covariances(below: Below, places: Places) -> FloatArray:
    """Return U of any nodes, shape (n, g, g), at ascending places."""
    size = below.queries.size
    found = np.zeros((places.size, size, size))
    rows = below.layout.dense_of[places]
    found[rows >= 0] = below.finite[rows[rows >= 0]]
    for leaves in below.leaves:
        index = np.searchsorted(leaves.places, places)
        index[index == len(leaves)] = 0
        some = np.flatnonzero(leaves.places[index] == places)
        block = leaves.covariance(index[some])
        found[some[:, None, None], leaves.levels[:, None], leaves.levels] = block
    return found
