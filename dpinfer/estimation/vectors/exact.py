"""What is known exactly from all measurements.

The errors of the estimates from below of the children of a node are free in the ranges of
projectors M_c, and their sum has to be where the final error of the node is free, M_p. So the final
error of a child is free in the range of M_c that is also in that of M_p + Σ M_s, over its siblings.
All of that is decided on projectors, so that what is exact has no variance, not one by rounding.
"""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.estimation.vectors.layout import SparseRows
from dpinfer.estimation.vectors.up import Below
from dpinfer.estimation.vectors.update import RANK, diagonal, range_projector
from dpinfer.queries._tree import Places


def known(below: Below, sharper: SparseRows, rows: Places) -> FloatArray:
    """Return projectors on what is exact of dense nodes, shape (n, g, g).

    ``sharper`` has those of nodes of which more is exact than from below.
    """
    found = below.known(rows)
    more = sharper.has(rows)
    found[more] = sharper.get(rows[more])
    return found


def sharpen(below: Below, sharper: SparseRows, rows: Places) -> None:
    """Find of which children more is exact than from below, once their parents are done."""
    parents = below.layout.parent[rows]
    above = below.layout.dense_of[below.layout.inner[parents]]
    some = sharper.has(above) | below.mix.has(above)
    if some.any():
        own = below.known(rows[some])
        found, more = _from_above(below, sharper, own, parents[some])
        sharper.add(rows[some][more], found[more])


def of_leaves(below: Below, sharper: SparseRows, active: FloatArray, parents: Places) -> FloatArray:
    """Return the same of structured leaves with these active levels, shape (n, g)."""
    own = diagonal(1.0 - active)
    above = below.layout.dense_of[below.layout.inner[parents]]
    some = sharper.has(above) | below.mix.has(above)
    if some.any():
        own[some] = _from_above(below, sharper, own[some], parents[some])[0]
    return own


def free_of(functionals: FloatArray, exact: FloatArray) -> FloatArray:
    """Return what of functionals, shape (k, g), is not exact, shape (n, k, g)."""
    found = functionals - functionals @ exact
    size = np.square(functionals).sum(axis=1)
    found[np.square(found).sum(axis=2) <= RANK * size] = 0.0
    return np.asarray(found)


def _from_above(
    below: Below, sharper: SparseRows, own: FloatArray, parents: Places
) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return what is exact of some children, and where that is more than their own, from below."""
    nodes, which = np.unique(parents, return_inverse=True)
    above = known(below, sharper, below.layout.dense_of[below.layout.inner[nodes]])
    total = _free_children(below, nodes)
    more = ((above * total).sum(axis=(1, 2)) > RANK)[which]
    found, one = own.copy(), np.eye(own.shape[-1])
    some = which[more]
    reach = range_projector(total[some] - one + own[more] + one - above[some])
    found[more] = range_projector(own[more] + one - reach)
    return found, more


def _free_children(below: Below, nodes: Places) -> FloatArray:
    """Return the sums of the projectors M over the children of inner nodes, shape (n, g, g)."""
    total = diagonal(below.cover[nodes])
    first, last = np.searchsorted(below.layout.parent, [nodes, nodes + 1])
    counts = last - first
    stops = np.cumsum(counts)
    if counts.any():
        children = np.arange(stops[-1]) + np.repeat(last - stops, counts)
        free = np.eye(total.shape[-1]) - below.known(children)
        some = counts > 0
        total[some] += np.add.reduceat(free, (stops - counts)[some], axis=0)
    return total
