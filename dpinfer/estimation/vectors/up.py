"""The pass up a tree of vectors: what is known of each node from what is measured below it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.vectors.layout import CHUNK, SparseRows, VectorLayout, families_of
from dpinfer.estimation.vectors.leaves import StructuredLeaves
from dpinfer.estimation.vectors.queries import VectorQueries
from dpinfer.estimation.vectors.update import (
    Beliefs,
    Update,
    absorb,
    diagonal,
    total_belief,
    total_inverse,
)
from dpinfer.queries._tree import Places


@dataclass(frozen=True, eq=False)
class Message:
    """What is known of some nodes from the trees below them.

    Parameters
    ----------
    places : array of int, shape (m,)
        The nodes.
    beliefs : Beliefs
        Of m vectors.
    """

    places: Places
    beliefs: Beliefs


@dataclass(frozen=True, eq=False)
class Below:
    """Matrices of the pass up; p inner nodes, d dense nodes.

    Parameters
    ----------
    layout : VectorLayout
        Which nodes are inner, and which are dense.
    queries : VectorQueries
        What is measured.
    precision : array of float, shape (n, q)
        Of each node and matrix.
    zeros : array of bool, shape (n, g), or None
        Levels that are 0.
    leaves : tuple of StructuredLeaves
        The leaves that are not dense.
    message : Message or None
        What is known of leaves from trees below.
    finite : array of float, shape (d, g, g)
        U of dense nodes.
    unknown, exact : SparseRows, shape (d, g, g)
        D and X of those of which something is unknown, or more than single levels exact.
    active : array of bool, shape (d, g)
        Levels of all other dense nodes that are not exactly 0.
    inverse : array of float, shape (p, g, g)
        S⁺, or T0.
    flat : SparseRows, shape (p, g, g)
        T1, and S1, of inner nodes of whose children something is unknown.
    unknown_sum : SparseRows, shape (p, g, g)
        Sums of D.
    mix : SparseRows, shape (d, g, g + r)
        Estimates from the sum of the children's and from the values; for dense leaves, for inner
        nodes with exact values, and where anything is unknown.
    checked : array of int, shape (c,)
        Dense nodes, ascending, of which exact values are determined by others.
    checks : array of float, shape (c, g + r)
        Combinations of the same that are 0 unless exact values contradict each other.
    mixed : array of int, shape (m,)
        The inner nodes with dense children, ascending.
    structured : array of float, shape (m, g, g)
        The part of S that comes from structured leaves in these.
    cover : array of float, shape (p, g)
        In how many structured leaves below each inner node a level is active.
    """

    layout: VectorLayout
    queries: VectorQueries
    precision: FloatArray
    zeros: NDArray[np.bool_] | None
    leaves: tuple[StructuredLeaves, ...]
    message: Message | None
    finite: FloatArray
    unknown: SparseRows
    exact: SparseRows
    active: NDArray[np.bool_]
    inverse: FloatArray
    flat: SparseRows
    unknown_sum: SparseRows
    mix: SparseRows
    checked: Places
    checks: FloatArray
    mixed: Places
    structured: FloatArray
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
