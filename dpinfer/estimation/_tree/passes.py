"""The pass up a tree of vectors: what is known of each node from what is measured below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.estimation._tree.leaves import (
    CHUNK,
    SparseRows,
    StructuredLeaves,
    VectorLayout,
    VectorQueries,
    families_of,
    grouped,
)
from dpinfer.estimation._tree.update import (
    RANK,
    Beliefs,
    Update,
    absorb,
    diagonal,
    range_projector,
    sums_of_others,
    total_belief,
    total_inverse,
)
from dpinfer.queries.hierarchy import Places, Tree


@dataclass(frozen=True, eq=False)
class Message:
    """What is known of some nodes from the trees below them."""

    places: Places  # (m,): the nodes
    beliefs: Beliefs  # Of m vectors


@dataclass(frozen=True, eq=False)
class Below:
    """Matrices of the pass up; p inner nodes, d dense nodes."""

    layout: VectorLayout  # which nodes are inner, and which are dense
    queries: VectorQueries  # what is measured
    precision: FloatArray  # (n, q): of each node and matrix
    zeros: NDArray[np.bool_] | None  # (n, g): levels that are 0
    leaves: tuple[StructuredLeaves, ...]  # the leaves that are not dense
    message: Message | None  # what is known of leaves from trees below
    finite: FloatArray  # (d, g, g): U of dense nodes
    # (d, g, g): D and X of those of which something is unknown, or more than single levels exact
    unknown: SparseRows
    exact: SparseRows
    active: NDArray[np.bool_]  # (d, g): levels of all other dense nodes that are not exactly 0
    inverse: FloatArray  # (p, g, g): S⁺, or T0
    # (p, g, g): T1, and S1, of inner nodes of whose children something is unknown
    flat: SparseRows
    unknown_sum: SparseRows  # (p, g, g): sums of D
    # (d, g, g + r): estimates from the sum of the children's and from the values; for dense
    # leaves, for inner nodes with exact values, and where anything is unknown
    mix: SparseRows
    # (c,): dense nodes, ascending, of which exact values are determined by others
    checked: Places
    # (c, g + r): combinations of the same that are 0 unless exact values contradict each other
    checks: FloatArray
    mixed: Places  # (m,): the inner nodes with dense children, ascending
    structured: FloatArray  # (m, g, g): the part of S that comes from structured leaves in these
    # (p, g): in how many structured leaves below each inner node a level is active
    cover: FloatArray

    @classmethod
    def of(
        cls,
        layout: VectorLayout,
        queries: VectorQueries,
        precision: FloatArray,
        zeros: NDArray[np.bool_] | None,
        leaves: tuple[StructuredLeaves, ...],
        message: Message | None,
    ) -> Below:
        """Go up."""
        size, inner, dense = queries.size, layout.inner.size, layout.dense.size
        sums = _Sums(
            np.zeros((inner, size, size)),
            np.zeros((inner, size)),
            SparseRows(inner, size, size),
            SparseRows(inner, size, size),
            [],
        )
        for some in leaves:
            some.add_covariance(sums.finite, sums.cover)
        mixed = np.unique(layout.parent[layout.parent >= 0])
        found = cls(
            layout,
            queries,
            precision,
            zeros,
            leaves,
            message,
            np.zeros((dense, size, size)),
            SparseRows(dense, size, size),
            SparseRows(dense, size, size),
            np.zeros((dense, size), dtype=np.bool_),
            np.zeros((inner, size, size)),
            SparseRows(inner, size, size),
            sums.unknown,
            SparseRows(dense, size, size + len(queries.rows)),
            np.empty(0, dtype=np.intp),
            np.empty((0, size + len(queries.rows))),
            mixed,
            sums.finite[mixed],
            sums.cover.copy(),
        )
        found._leaves_up(sums)
        for nodes in layout.up(max(1, CHUNK // size**2)):
            found._inner_up(nodes, sums)
        if not sums.checks:
            return found
        checked = np.concatenate([rows for rows, _ in sums.checks])
        order = np.argsort(checked, kind="stable")
        checks = np.concatenate([check for _, check in sums.checks])
        return replace(found, checked=checked[order], checks=checks[order])

    def beliefs(self, rows: Places) -> Beliefs:
        """Return what is known of some dense nodes."""
        return Beliefs(self.finite[rows], self.unknown.get(rows), self.known(rows))

    def known(self, rows: Places) -> FloatArray:
        """Return projectors on what is exact of some dense nodes, shape (n, g, g)."""
        return self.exact.get(rows) + diagonal((~self.active[rows]).astype(float))

    def sent(self) -> Places:
        """Return the numbers of the dense nodes that have a message."""
        if self.message is None:
            return np.empty(0, dtype=np.intp)
        return self.layout.dense_of[self.message.places]

    def bare_leaves(self) -> Places:
        """Return the numbers of the dense leaves without message."""
        leaf = self.layout.inner_of[self.layout.dense] < 0
        leaf[self.sent()] = False
        return np.flatnonzero(leaf)

    def _leaves_up(self, sums: _Sums) -> None:
        """Take in the dense leaves."""
        if self.message is not None:
            order = np.argsort(self.message.places)
            self._keep(self.sent()[order], self.message.beliefs[order], sums)
        rows, size = self.bare_leaves(), self.queries.size
        step = max(1, CHUNK // (size * (size + len(self.queries.rows))))
        for start in range(0, rows.size, step):
            some = rows[start : start + step]
            zeros = self._zeros(some)
            before = Beliefs.unmeasured(~zeros)
            self._update(some, before, None, sums)

    def _inner_up(self, nodes: Places, sums: _Sums) -> None:
        """Take in inner nodes of which all children are done."""
        rows = self.layout.dense_of[self.layout.inner[nodes]]
        precision, zeros = self.precision[self.layout.inner[nodes]], self._zeros(rows)
        cover = sums.cover[nodes] > 0.0
        irregular = sums.loose.has(nodes) | np.isinf(precision).any(axis=1)
        irregular |= (zeros & cover).any(axis=1)
        regular = ~irregular
        if regular.any():
            some = nodes[regular]
            total, active = sums.finite[some], cover[regular]
            empty = diagonal((~active).astype(float))
            inverse = np.linalg.inv(total + empty) - empty
            self.inverse[some] = 0.5 * (inverse + inverse.transpose(0, 2, 1))
            own = total @ self.queries.information(precision[regular])
            merged = np.linalg.solve(np.eye(self.queries.size) + own, total)
            merged = 0.5 * (merged + merged.transpose(0, 2, 1))
            self._keep_plain(rows[regular], merged, active, sums)
        if irregular.any():
            some = nodes[irregular]
            unknown = sums.unknown.get(some)
            loose = sums.loose.get(some) + diagonal(sums.cover[some])
            total_known = total_belief(sums.finite[some], unknown, loose)
            inverse, flat = total_inverse(sums.finite[some], unknown, total_known)
            self.inverse[some] = inverse
            has_flat = sums.unknown.has(some)
            self.flat.add(some[has_flat], flat[has_flat])
            self._update(rows[irregular], total_known, zeros[irregular], sums)

    def _update(
        self,
        rows: Places,
        before: Beliefs,
        zeros: NDArray[np.bool_] | None,
        sums: _Sums,
    ) -> None:
        """Take in the own measurements of dense nodes, with all care."""
        precision = self.precision[self.layout.dense[rows]][:, self.queries.query]
        with np.errstate(divide="ignore"):
            found: Update = absorb(before, self.queries.rows, 1.0 / precision, zeros)
        self.mix.add(rows, found.mix)
        if found.checked.size:
            sums.checks.append((rows[found.checked], found.checks))
        self._keep(rows, found.beliefs, sums)

    def _keep(self, rows: Places, beliefs: Beliefs, sums: _Sums) -> None:
        """Keep what is known of dense nodes, and add it to the sums of their parents."""
        plain = beliefs.plain()
        active = np.einsum("nii->ni", beliefs.exact) < 0.5
        self._keep_plain(rows[plain], beliefs.finite[plain], active[plain], sums)
        odd = ~plain
        if odd.any():
            some, rows = beliefs[odd], rows[odd]
            self.finite[rows], self.active[rows] = some.finite, True
            self.unknown.add(rows, some.unknown)
            self.exact.add(rows, some.exact)
            sums.add(self.layout.parent[rows], some)

    def _keep_plain(
        self, rows: Places, finite: FloatArray, active: NDArray[np.bool_], sums: _Sums
    ) -> None:
        """Do the same for nodes of which only single levels are exact."""
        self.finite[rows], self.active[rows] = finite, active
        sums.add_plain(self.layout.parent[rows], finite, active)

    def _zeros(self, rows: Places) -> NDArray[np.bool_]:
        """Return the levels of dense nodes that are 0, shape (m, g)."""
        if self.zeros is None:
            return np.zeros((rows.size, self.queries.size), dtype=np.bool_)
        return np.asarray(self.zeros[self.layout.dense[rows]])


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the children of each inner node: U, active levels, D and I - X; and checks so far.

    D and I - X are of children of which something is unknown or more than single levels exact, the
    active levels of the others.
    """

    finite: FloatArray
    cover: FloatArray
    unknown: SparseRows
    loose: SparseRows
    checks: list[tuple[Places, FloatArray]]

    def add_plain(self, parents: Places, finite: FloatArray, active: NDArray[np.bool_]) -> None:
        """Add children, sorted by parent; roots have none."""
        first = int(np.searchsorted(parents, 0))
        if first < parents.size:
            starts, above = families_of(parents[first:])
            self.finite[above] += np.add.reduceat(finite[first:], starts, axis=0)
            self.cover[above] += np.add.reduceat(active[first:].astype(float), starts, axis=0)

    def add(self, parents: Places, beliefs: Beliefs) -> None:
        """Add children that are not plain."""
        first = int(np.searchsorted(parents, 0))
        if first < parents.size:
            starts, above = families_of(parents[first:])
            loose = np.eye(beliefs.exact.shape[-1]) - beliefs.exact[first:]
            self.finite[above] += np.add.reduceat(beliefs.finite[first:], starts, axis=0)
            self.unknown.add(above, np.add.reduceat(beliefs.unknown[first:], starts, axis=0))
            self.loose.add(above, np.add.reduceat(loose, starts, axis=0))


# Values on the way up and down a tree of vectors.


_CONTRADICTION = 1e-9  # relative difference up to which values without noise agree


@dataclass(frozen=True, eq=False)
class Collected:
    """Estimates after the pass up."""

    estimates: FloatArray  # (d, g, k): of each dense node, from the values in it and below it
    sums: FloatArray  # (p, g, k): over the children of each inner node
    # (c,): places where exact values contradict others in the same node or below it, ascending
    contradictions: Places


def _merged(
    below: Below, nodes: Places, values: Sequence[FloatArray], sums: FloatArray
) -> tuple[FloatArray, Places]:
    """Merge the sums of the children with the own values of inner nodes; find contradictions."""
    places, size = below.layout.inner[nodes], below.queries.size
    rows = below.layout.dense_of[places]
    found = sums[nodes]
    irregular = below.mix.has(rows)
    regular = slice(None) if not irregular.any() else np.flatnonzero(~irregular)
    total, own = found[regular], rows[regular]
    wrong = [places[regular][_not_zero(below, places[regular], total)]]
    score = below.queries.score(values, own, below.precision[places[regular]], total)
    found[regular] = total + below.finite[own] @ score
    some = np.flatnonzero(irregular)
    if some.size:
        mix, before = below.mix.get(rows[some]), found[some]
        own_values = below.queries.stacked(values, rows[some])
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


# What is known exactly from all measurements.


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


# The pass down a tree of vectors: covariances from all measurements, and variances on demand.


_CANCELLED = 1e-3
"""Share of the variance from below under which it is not the difference that is returned."""


@dataclass(frozen=True, eq=False)
class Final:
    """Final covariances of d dense nodes."""

    finite: FloatArray  # (d, g, g): their finite part
    unknown: SparseRows  # (d, g, g): their infinite part
    # (d, g, g): projectors on what is exact in those of which more is so than from below
    exact: SparseRows


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


def _quadratic(matrices: FloatArray, functionals: FloatArray) -> FloatArray:
    """Return f'Wf, shape (n, k), of functionals, shape (k, g) or (n, k, g)."""
    return np.asarray(((functionals @ matrices) * functionals).sum(axis=2))


def _leaf_variances(
    below: Below, final: Final, leaves: StructuredLeaves, index: Places, functionals: FloatArray
) -> FloatArray:
    """Return final variances of structured leaves."""
    parents, which = np.unique(leaves.parents[index], return_inverse=True)
    inverse, levels = below.inverse[parents], leaves.levels
    above = final.finite[below.layout.dense_of[below.layout.inner[parents]]]
    inner = inverse[:, levels] @ above @ inverse[:, :, levels]
    inner = inverse[:, levels[:, None], levels] - inner
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


# Best linear unbiased estimates of vectors in all nodes of a tree: one pass up, one pass down.


@dataclass(frozen=True, eq=False)
class VectorGains:
    """How estimates depend on what was measured; the same for all values.

    `up` makes them, and `down` adds what is known in the end. Of a part of a tree, ``message`` at
    the roots goes in between to the tree above it, where they are leaves.
    """

    below: Below  # what is known from measurements in each node and below it
    final: Final | None = None  # what is known from all measurements; None before `down`

    @classmethod
    def up(
        cls,
        tree: Tree,
        queries: Sequence[FloatArray],
        precision: FloatArray,
        zeros: NDArray[np.bool_] | None = None,
        message: Message | None = None,
    ) -> VectorGains:
        """Go up only."""
        asked = VectorQueries.of(queries)
        identity = precision[:, asked.identity].sum(axis=1)
        dense = ~((identity > 0.0) & np.isfinite(precision).all(axis=1))
        if message is not None:
            dense[message.places] = True
        layout = VectorLayout.of(tree, dense)
        places = np.flatnonzero(layout.dense_of < 0)
        leaves = grouped(
            asked,
            places,
            layout.inner_of[tree.parent[places]],
            precision[places],
            None if zeros is None else ~zeros[places],
        )
        return cls(Below.of(layout, asked, precision, zeros, leaves, message))

    def down(self, above: Beliefs | None = None) -> VectorGains:
        """Go down, from what is known of the roots in the end.

        Without that, no more is known of them than from this tree.
        """
        below = self.below
        layout, size, dense = below.layout, below.queries.size, len(below.finite)
        final = Final(
            np.zeros(below.finite.shape),
            SparseRows(dense, size, size),
            SparseRows(dense, size, size),
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
        return VectorGains(below, final)

    def message(self) -> Message:
        """Return what is known of the roots, for the tree above."""
        layout = self.below.layout
        roots = np.flatnonzero(layout.parent < 0)
        return Message(layout.dense[roots], self.below.beliefs(roots))

    def answer(self, places: Places) -> Beliefs:
        """Return what is known of dense nodes in the end, for the trees below them."""
        rows = self.below.layout.dense_of[places]
        final = self._completed()
        exact = known(self.below, final.exact, rows)
        return Beliefs(final.finite[rows], final.unknown.get(rows), exact)

    def collect(
        self, values: Sequence[FloatArray], sums: FloatArray, message: FloatArray | None = None
    ) -> Collected:
        """Estimate dense nodes from their values and below, given the sums over other leaves."""
        below = self.below
        layout, size = below.layout, below.queries.size
        columns = sums.shape[2]
        found = np.zeros((layout.dense.size, size, columns))
        if below.message is not None and message is not None:
            order = np.argsort(below.message.places)
            rows = below.sent()[order]
            found[rows] = message[order]
            _add_to_parents(sums, layout.parent[rows], message[order])
        wrong = [np.empty(0, dtype=np.intp)]
        rows, step = below.bare_leaves(), max(1, CHUNK // (size * columns))
        for start in range(0, rows.size, step):
            some = rows[start : start + step]
            own = below.queries.stacked(values, some)
            wrong.append(_contradictions(below, some, None, own))
            estimate = below.mix.get(some)[:, :, size:] @ own
            found[some] = estimate
            _add_to_parents(sums, layout.parent[some], estimate)
        for nodes in layout.up(step):
            rows = layout.dense_of[layout.inner[nodes]]
            estimate, contradicting = _merged(below, nodes, values, sums)
            wrong.append(contradicting)
            found[rows] = estimate
            _add_to_parents(sums, layout.parent[rows], estimate)
        return Collected(found, sums, np.unique(np.concatenate(wrong)))

    def spread(self, collected: Collected, above: FloatArray | None = None) -> None:
        """Make the collected estimates, in place, final ones, and the sums moves of the children.

        ``above`` are final estimates of the roots, shape (roots, g, k), from the tree above. What
        is not estimable is arbitrary.
        """
        below = self.below
        layout, size = below.layout, below.queries.size
        found, moves = collected.estimates, collected.sums
        if above is not None:
            found[layout.parent < 0] = above
        for nodes in layout.down(max(1, CHUNK // (size * found.shape[2]))):
            change = found[layout.dense_of[layout.inner[nodes]]] - moves[nodes]
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
                found[children] += added

    @property
    def known(self) -> bool:
        """Whether everything is estimable."""
        return self._completed().unknown.empty

    def variance(self, functionals: FloatArray, places: Places | None = None) -> FloatArray:
        """Return final variances, shape (m, k), of functionals, shape (k, g), of some places.

        Infinite for those that are not estimable.
        """
        below, final = self.below, self._completed()
        functionals = np.asarray(functionals, float)
        places = np.arange(len(below.layout.tree)) if places is None else np.asarray(places)
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
            found[some] = np.where(
                infinite > RANK * (functionals**2).sum(axis=1), np.inf, found[some]
            )
        for leaves in below.leaves:
            index = np.searchsorted(leaves.places, places)
            index[index == len(leaves)] = 0
            some = np.flatnonzero(leaves.places[index] == places)
            index, which = leaves.alike(index[some])
            own = np.empty((index.size, len(functionals)))
            for start in range(0, index.size, step):
                chosen = slice(start, start + step)
                own[chosen] = _leaf_variances(below, final, leaves, index[chosen], functionals)
            found[some] = own[which]
        return found

    def _completed(self) -> Final:
        """Return what `down` has found."""
        if self.final is None:
            raise ValueError("the pass down has not been made")
        return self.final
