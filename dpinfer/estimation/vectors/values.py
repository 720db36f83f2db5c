"""Values on the way up and down a tree of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.vectors.layout import CHUNK, families_of
from dpinfer.estimation.vectors.up import Below
from dpinfer.queries._tree import Places

_CONTRADICTION = 1e-9
"""Relative difference up to which values without noise agree."""


@dataclass(frozen=True, eq=False)
class Collected:
    """Estimates after the pass up.

    Parameters
    ----------
    estimates : array of float, shape (n, g, k)
        Of each place, from the values in it and below it.
    sums : array of float, shape (p, g, k)
        Over the children of each inner node.
    contradictions : array of int, shape (c,)
        Places where exact values contradict others in the same node or below it, ascending.
    """

    estimates: FloatArray
    sums: FloatArray
    contradictions: Places


def collect(
    below: Below,
    values: Sequence[FloatArray],
    message: FloatArray | None = None,
    out: FloatArray | None = None,
) -> Collected:
    """Go up; ``out`` may be one of the values."""
    layout, size = below.layout, below.queries.size
    columns = values[0].shape[2]
    found = np.zeros((len(layout.tree), size, columns)) if out is None else out
    sums = np.zeros((layout.inner.size, size, columns))
    for leaves in below.leaves:
        leaves.collect(values, below.precision, found, sums, clean=out is None)
    if below.message is not None and message is not None:
        order = np.argsort(below.message.places)
        rows = below.sent()[order]
        found[layout.dense[rows]] = message[order]
        _add_to_parents(sums, layout.parent[rows], message[order])
    wrong = [np.empty(0, dtype=np.intp)]
    rows, step = below.bare_leaves(), max(1, CHUNK // (size * columns))
    for start in range(0, rows.size, step):
        some = rows[start : start + step]
        own = below.queries.stacked(values, layout.dense[some])
        wrong.append(_contradictions(below, some, None, own))
        estimate = below.mix.get(some)[:, :, size:] @ own
        found[layout.dense[some]] = estimate
        _add_to_parents(sums, layout.parent[some], estimate)
    for nodes in layout.up(step):
        places = layout.inner[nodes]
        estimate, contradicting = _merged(below, nodes, values, sums)
        wrong.append(contradicting)
        found[places] = estimate
        _add_to_parents(sums, layout.parent[layout.dense_of[places]], estimate)
    return Collected(found, sums, np.unique(np.concatenate(wrong)))


def spread(below: Below, collected: Collected, above: FloatArray | None) -> FloatArray:
    """Go down, in place."""
    layout, size = below.layout, below.queries.size
    found, moves = collected.estimates, collected.sums
    if above is not None:
        found[layout.dense[layout.parent < 0]] = above
    for nodes in layout.down(max(1, CHUNK // (size * found.shape[2]))):
        change = found[layout.inner[nodes]] - moves[nodes]
        moves[nodes] = below.inverse[nodes] @ change
        children = layout.dense_children(nodes)
        if children.stop > children.start:
            parents = layout.parent[children]
            added = below.finite[children] @ moves[parents]
            odd = np.flatnonzero(below.flat.has(parents))
            if odd.size:
                flat = below.flat.get(parents[odd]) @ change[parents[odd] - nodes[0]]
                rows = children.start + odd
                added[odd] += below.unknown.get(rows) @ flat
            found[layout.dense[children]] += added
    for leaves in below.leaves:
        leaves.spread(found, moves)
    return found


def _merged(
    below: Below, nodes: Places, values: Sequence[FloatArray], sums: FloatArray
) -> tuple[FloatArray, Places]:
    """Merge the sums of the children with the own values of inner nodes; find contradictions."""
    places, size = below.layout.inner[nodes], below.queries.size
    rows = below.layout.dense_of[places]
    found = sums[nodes]
    irregular = below.mix.has(rows)
    regular = slice(None) if not irregular.any() else np.flatnonzero(~irregular)
    total, own = found[regular], places[regular]
    wrong = [own[_not_zero(below, own, total)]]
    score = below.queries.score(values, own, below.precision[own], total)
    found[regular] = total + below.finite[rows[regular]] @ score
    some = np.flatnonzero(irregular)
    if some.size:
        mix, before = below.mix.get(rows[some]), found[some]
        own_values = below.queries.stacked(values, places[some])
        wrong.append(_contradictions(below, rows[some], before, own_values))
        found[some] = mix[:, :, :size] @ before + mix[:, :, size:] @ own_values
    return found, np.concatenate(wrong)


def _add_to_parents(sums: FloatArray, parents: Places, values: FloatArray) -> None:
    """Add values of nodes, sorted by parent; roots, first, have none."""
    first = int(np.searchsorted(parents, 0))
    if first < parents.size:
        starts, above = families_of(parents[first:])
        sums[above] += np.add.reduceat(values[first:], starts, axis=0)


def _contradictions(
    below: Below, rows: Places, before: FloatArray | None, values: FloatArray
) -> Places:
    """Return places where combinations of exact values that must be 0 are not.

    Of dense nodes, in ascending order, with the sums of the children, and all values.
    """
    first, last = np.searchsorted(below.checked, [rows[0], rows[-1] + 1])
    which = np.searchsorted(rows, below.checked[first:last])
    own = rows[which] == below.checked[first:last]
    which, checks = which[own], below.checks[first:last][own]
    if before is None:
        checks, known = checks[:, below.queries.size :], values[which]
    else:
        known = np.concatenate([before[which], values[which]], axis=1)
    apart = np.abs(np.einsum("cr,crk->ck", checks, known))
    scale = np.maximum(np.einsum("cr,crk->ck", np.abs(checks), np.abs(known)), 1.0)
    contradict = (apart > _CONTRADICTION * scale).any(axis=1)
    return np.asarray(below.layout.dense[rows[which[contradict]]])


def _not_zero(below: Below, places: Places, sums: FloatArray) -> NDArray[np.bool_]:
    """Tell at which inner nodes levels that must be 0 are not, by what the children say."""
    found = np.zeros(places.size, dtype=np.bool_)
    if below.zeros is not None:
        zeros = below.zeros[places]
        nodes, levels = np.nonzero(zeros)
        apart = np.abs(sums[nodes, levels]).max(axis=1, initial=0.0)
        scale = np.abs(sums).max(axis=(1, 2), initial=1.0)
        found[nodes[apart > _CONTRADICTION * scale[nodes]]] = True
    return found
