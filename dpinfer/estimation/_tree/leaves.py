"""Leaves whose every active level is measured: the inverse of their information is structured.

The information αI + Σ τ a a', where the rows a are sums of indicators e of a few parts of the
levels, has the inverse U = I/α - E C E', E the matrix of those indicators. The small matrix C comes
from one update a row: C + u u' τ/(1 + τ a'Ua), Ua = E u. Only sums of squares enter it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray
from dpinfer.queries.hierarchy import Places, Tree

# Which nodes of a tree of vectors have matrices of their own, and where these are.


CHUNK = 1 << 16  # Numbers computed at a time, so that they stay in the cache


@dataclass(frozen=True, eq=False)
class VectorLayout:
    """Inner nodes are those with children; dense nodes these, the roots and some leaves."""

    tree: Tree  # the tree of n places
    inner: Places  # their places, ascending
    dense: Places
    inner_of: Places  # (n,): the number of each place among them; -1 for others
    dense_of: Places
    # (d,): the number of the parent of each dense node among the inner nodes; -1 for roots.
    # Ascending
    parent: Places
    generations: tuple[slice, ...]  # Runs of inner nodes of one depth, from the roots down

    @classmethod
    def of(cls, tree: Tree, dense: NDArray[np.bool_]) -> VectorLayout:
        """Lay out a tree of which these leaves, shape (n,), are dense."""
        has_children = np.zeros(len(tree), dtype=np.bool_)
        has_children[tree.parent[tree.parent >= 0]] = True
        inner = np.flatnonzero(has_children)
        chosen = np.flatnonzero(has_children | dense | (tree.parent < 0))
        inner_of = _numbers(inner, len(tree))
        above = tree.parent[chosen]
        parent = np.where(above < 0, -1, inner_of[above])
        generations = []
        for families in tree.families:
            first = int(inner_of[tree.parent[families.children.start]])
            generations.append(slice(first, first + families.starts.size))
        return cls(
            tree,
            inner,
            chosen,
            inner_of,
            _numbers(chosen, len(tree)),
            parent,
            tuple(generations),
        )

    def down(self, size: int) -> Iterator[Places]:
        """Yield numbers of neighbouring inner nodes of one depth, at most so many, roots first."""
        for generation in self.generations:
            for start in range(generation.start, generation.stop, size):
                yield np.arange(start, min(start + size, generation.stop))

    def up(self, size: int) -> Iterator[Places]:
        """Yield the same from the bottom."""
        for generation in reversed(self.generations):
            for start in range(generation.start, generation.stop, size):
                yield np.arange(start, min(start + size, generation.stop))

    def dense_children(self, nodes: Places) -> slice:
        """Return the numbers of the dense children of neighbouring inner nodes."""
        first, last = np.searchsorted(self.parent, [nodes[0], nodes[-1] + 1])
        return slice(int(first), int(last))


class SparseRows:
    """Arrays of one shape for few of many rows; 0 for all others."""

    def __init__(self, rows: int, *shape: int) -> None:
        self._slot = np.full(rows, -1, dtype=np.intp)
        self._data = np.zeros((4, *shape))
        self._used = 0

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return self._used == 0

    def has(self, rows: Places) -> NDArray[np.bool_]:
        """Tell which rows there are."""
        return self._slot[rows] >= 0

    def get(self, rows: Places) -> FloatArray:
        """Return the arrays of some rows."""
        slots = self._slot[rows]
        found = self._data[slots]
        found[slots < 0] = 0.0
        return found

    def add(self, rows: Places, values: FloatArray) -> None:
        """Add to different rows."""
        fresh = rows[self._slot[rows] < 0]
        used = self._used + fresh.size
        if used > len(self._data):
            data = np.zeros((max(used, 2 * self._used), *self._data.shape[1:]))
            data[: self._used] = self._data[: self._used]
            self._data = data
        before, self._used = self._used, used
        self._slot[fresh] = np.arange(before, used)
        if fresh.size == rows.size:
            self._data[before:used] = values
        else:
            self._data[self._slot[rows]] += values


def families_of(parents: Places) -> tuple[Places, Places]:
    """Return where each parent begins in sorted parents of nodes, and each parent once."""
    first = np.ones(parents.size, dtype=np.bool_)
    np.not_equal(parents[1:], parents[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return starts, parents[starts]


def _numbers(places: Places, size: int) -> Places:
    """Return the number of each place among some; -1 for others."""
    found = np.full(size, -1)
    found[places] = np.arange(places.size)
    return found


# Fixed 0/1 matrices through which vectors are measured, and what rows of them have in common.


@dataclass(frozen=True, eq=False)
class VectorQueries:
    """Matrices Q_1 ... Q_q over g levels.

    Levels that belong to the same rows of all matrices but identities form a part.
    """

    matrices: tuple[FloatArray, ...]  # (r_i, g): entries 0 or 1
    identity: np.ndarray[tuple[int], np.dtype[np.bool_]]  # (q,): which of them are the identity
    rows: FloatArray  # (r, g): all of them below each other
    query: Places  # (r,): the matrix of each row
    part: Places  # (g,): the part of each level

    @classmethod
    def of(cls, matrices: Sequence[FloatArray]) -> VectorQueries:
        """Take in matrices of shapes (r_i, g)."""
        found = tuple(np.ascontiguousarray(matrix, dtype=float) for matrix in matrices)
        size = found[0].shape[1]
        identity = np.array([np.array_equal(matrix, np.eye(size)) for matrix in found])
        query = np.repeat(np.arange(len(found)), [matrix.shape[0] for matrix in found])
        rows = np.concatenate(found)
        coarse = rows[~identity[query]]
        part = np.zeros(size, dtype=np.intp)
        if coarse.size:
            part = np.unique(coarse, axis=1, return_inverse=True)[1].reshape(-1)
        return cls(found, identity, rows, query, part)

    @property
    def size(self) -> int:
        """Number of levels g."""
        return int(self.part.size)

    def information(self, precision: FloatArray) -> FloatArray:
        """Return sums of precision times Q'Q, shape (n, g, g), of precisions, shape (n, q)."""
        squares = np.stack([matrix.T @ matrix for matrix in self.matrices])
        found = precision @ squares.reshape(len(self.matrices), -1)
        return found.reshape(-1, self.size, self.size)

    def stacked(self, values: Sequence[FloatArray], nodes: Places) -> FloatArray:
        """Return the values of all rows of some nodes, shape (m, r, k)."""
        return np.concatenate([value[nodes] for value in values], axis=1)

    def score(
        self, values: Sequence[FloatArray], nodes: Places, precision: FloatArray, at: FloatArray
    ) -> FloatArray:
        """Return sums of precision times Q'(y - Q x), shape (n, g, k), at x, shape (n, g, k)."""
        found = np.zeros(at.shape)
        for matrix, identity, value, own in zip(
            self.matrices, self.identity, values, precision.T, strict=True
        ):
            if not own.any():
                continue
            change = value[nodes] - (at if identity else matrix @ at)
            change *= own[:, None, None]
            found += change if identity else matrix.T @ change
        return found


_ALIKE = 32  # leaves with the same active levels from which on they are treated apart


@dataclass(frozen=True, eq=False)
class StructuredLeaves:
    """Leaves of which the same levels are active, or all of them with a mask."""

    queries: VectorQueries  # what is measured
    places: Places  # (n,): their places, ascending
    parents: Places  # (n,): numbers of their parents among the inner nodes
    levels: Places  # (a,): the levels that can be active; all others are 0 in all of these leaves
    mask: NDArray[np.bool_] | None  # (n, a): which are; None for all of them
    kind: Places | None  # (n,): equal for leaves of the same precisions; None where masks differ
    scale: FloatArray  # (n,): 1/α
    part: Places  # (a,): the part of each of the levels
    core: FloatArray  # (n, m, m): C
    rows: Places  # (r,): the rows that are measured of these parts
    patterns: FloatArray  # (r, m): which parts each of them sums

    @classmethod
    def of(
        cls,
        queries: VectorQueries,
        places: Places,
        parents: Places,
        precision: FloatArray,
        levels: Places,
        mask: NDArray[np.bool_] | None,
    ) -> StructuredLeaves:
        """Make the matrices of leaves with these precisions, shape (n, q)."""
        present, first, part = np.unique(
            queries.part[levels], return_index=True, return_inverse=True
        )
        rows = np.flatnonzero(
            ~queries.identity[queries.query] & queries.rows[:, levels].any(axis=1)
        )
        patterns = queries.rows[np.ix_(rows, levels[first])]
        if not rows.size:
            part = np.zeros(levels.size, dtype=np.intp)
        alpha = precision[:, queries.identity].sum(axis=1)
        size = present.size if rows.size else 0
        core = np.zeros((places.size, size, size))
        one = kind = None
        if mask is None:
            kind = np.zeros(places.size, dtype=np.intp)
            for column in precision.T[(precision != precision[0]).any(axis=0)]:
                number = np.unique(column, return_inverse=True)[1]
                kind = np.unique(kind * (number.max() + 1) + number, return_inverse=True)[1]
            one = np.unique(kind, return_index=True)[1]
        found = cls(
            queries, places, parents, levels, mask, kind, 1.0 / alpha, part, core, rows, patterns
        )
        if size and one is not None:
            own = precision[one][:, queries.query[rows]]
            core[:] = _core(found.scale[one], own, patterns, found._counts(one))[kind]
        elif size:
            for chunk in found.chunks(size):
                own = precision[chunk][:, queries.query[rows]]
                core[chunk] = _core(found.scale[chunk], own, patterns, found._counts(chunk))
        return found

    def alike(self, index: Places) -> tuple[Places, Places | slice]:
        """Return some leaves without those that are as another of one parent, and where all are."""
        if self.kind is None:
            return index, slice(None)
        key = self.parents[index] * (self.kind.max(initial=0) + 1) + self.kind[index]
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return index[first], which

    def __len__(self) -> int:
        return int(self.places.size)

    def has(self, place: int) -> bool:
        """Whether the node at a place is one of them."""
        at = int(np.searchsorted(self.places, place))
        return at < self.places.size and bool(self.places[at] == place)

    def active(self, chosen: Places) -> FloatArray:
        """Return which of all levels are active in some of the leaves, shape (n, g)."""
        found = np.zeros((chosen.size, self.queries.size))
        found[:, self.levels] = 1.0 if self.mask is None else self.mask[chosen]
        return found

    def chunks(self, columns: int) -> Iterator[slice]:
        """Cut the leaves in runs, for so many numbers per level."""
        step = max(1, CHUNK // max(1, columns * self.levels.size))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))

    def covariance(self, chosen: slice | Places) -> FloatArray:
        """Return U of some of the leaves, on the levels, shape (n, a, a)."""
        scale = self.scale[chosen]
        found = np.zeros((scale.size, self.levels.size, self.levels.size))
        if self.rows.size:
            found -= self.core[chosen][:, self.part[:, None], self.part]
        np.einsum("nii->ni", found)[:] += scale[:, None]
        if self.mask is not None:
            mask = self.mask[chosen]
            found *= mask[:, :, None] & mask[:, None, :]
        return found

    def add_covariance(self, total: FloatArray, cover: FloatArray) -> None:
        """Add U to that of the parents, shape (p, g, g), and the active levels, shape (p, g)."""
        size = self.levels.size
        if not size:
            return
        for chunk in self.chunks(size) if self.mask is not None else [slice(0, len(self))]:
            starts, parents = families_of(self.parents[chunk])
            if self.mask is None:
                found = np.zeros((parents.size, size, size))
                if self.rows.size:
                    core = np.add.reduceat(self.core, starts, axis=0)
                    found -= core[:, self.part[:, None], self.part]
                scale = np.add.reduceat(self.scale, starts)
                np.einsum("nii->ni", found)[:] += scale[:, None]
                active = np.diff(starts, append=len(self))[:, None]
            else:
                found = np.add.reduceat(self.covariance(chunk), starts, axis=0)
                active = np.add.reduceat(self.mask[chunk].astype(float), starts, axis=0)
            total[parents[:, None, None], self.levels[:, None], self.levels] += found
            cover[parents[:, None], self.levels] += active

    def estimate(
        self, chosen: slice | Places, values: Sequence[FloatArray], precision: FloatArray
    ) -> FloatArray:
        """Estimate the levels, shape (m, a, k), of some of the leaves from their values alone.

        The values, shape (m, r_i, k), which may become the estimates, have the precisions, (m, q).
        Those of single levels may lack what is not among the levels.
        """
        mean = self._mean(values, precision * self.scale[chosen, None])
        if self.mask is not None:
            mean *= self.mask[chosen][:, :, None]
        if self.rows.size:
            self._add_rows(mean, values, precision, chosen)
        return mean

    def add(self, chosen: slice | Places, estimates: FloatArray, sums: FloatArray) -> None:
        """Add estimates of neighbouring leaves to the sums of their parents, shape (p, g, k)."""
        starts, parents = families_of(self.parents[chosen])
        total = np.add.reduceat(estimates, starts, axis=0)
        if self.levels.size == self.queries.size:
            sums[parents] += total
        else:
            sums[parents[:, None], self.levels] += total

    def _mean(self, values: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
        """Return the means of the identity queries, of these weights, shape (m, q)."""
        first, *others = np.flatnonzero(self.queries.identity).tolist()
        mean = self._of_levels(values[first])
        if others:
            mean *= weights[:, first, None, None]
        for other in others:
            mean += self._of_levels(values[other]) * weights[:, other, None, None]
        return mean

    def _of_levels(self, values: FloatArray) -> FloatArray:
        return values if values.shape[1] == self.levels.size else values[:, self.levels]

    def _add_rows(
        self,
        mean: FloatArray,
        values: Sequence[FloatArray],
        precision: FloatArray,
        chosen: slice | Places,
    ) -> None:
        """Correct means, in place, by the values of the rows.

        A row with the precision τ adds (ρ/α - C N ρ) τ times its value to each level of a part, ρ
        being the parts it sums and N the numbers of their levels; the sums of the parts of the mean
        are subtracted αC times.
        """
        asked, size = self.queries.query[self.rows], self.core.shape[-1]
        within = self.rows - np.searchsorted(self.queries.query, asked)
        scale, core = self.scale[chosen, None, None], self.core[chosen]
        summed = self._counts(chosen)[:, :, None] * self.patterns.T
        mix = np.empty((len(mean), size, size + self.rows.size))
        mix[:, :, :size] = core / -scale
        mix[:, :, size:] = self.patterns.T * scale
        if len(summed) == 1:  # as one product, which is faster
            mix[:, :, size:] -= (core.reshape(-1, size) @ summed[0]).reshape(len(mean), size, -1)
        else:
            mix[:, :, size:] -= core @ summed
        mix[:, :, size:] *= precision[:, None, asked]
        stack = np.empty((len(mean), mix.shape[-1], mean.shape[-1]))
        stack[:, :size] = self._parts(mean)
        for place, (query, row) in enumerate(zip(asked, within, strict=True), size):
            stack[:, place] = values[int(query)][:, row]
        self._spread_parts(mean, mix @ stack, chosen)

    def moved(self, chosen: slice | Places, moves: FloatArray) -> FloatArray:
        """Return what to add to estimates: U t, where t are the moves of parents, (p, g, k)."""
        above = self.parents[chosen]
        starts, parents = families_of(above)
        counts = np.diff(starts, append=above.size)
        own = self._of_levels(moves[parents])
        change = np.repeat(own, counts, axis=0)
        if self.mask is not None:
            change *= self.mask[chosen][:, :, None]
        if self.rows.size:
            part = self._parts(change if self.mask is not None else own)
            if self.mask is None:
                part = np.repeat(part, counts, axis=0)
            change *= self.scale[chosen, None, None]
            self._spread_parts(change, -(self.core[chosen] @ part), chosen)
        else:
            change *= self.scale[chosen, None, None]
        return change

    def variance(self, functionals: FloatArray, chosen: Places, inner: FloatArray) -> FloatArray:
        """Return f'Uf - (Uf)'M(Uf), and f'Uf, shape (2, n, k), of functionals, shape (k, g).

        ``inner`` are the matrices M of the parents of the chosen leaves, on the levels, (n, a, a).
        """
        wanted = functionals[:, self.levels].T
        own = self._times(chosen, wanted)
        below = np.einsum("nak,ak->nk", own, wanted)
        return np.stack([below - np.einsum("nak,nak->nk", own, inner @ own), below])

    def _times(self, chosen: Places, vectors: FloatArray) -> FloatArray:
        """Return U of some leaves times vectors on the levels, shape (a, k)."""
        if self.mask is not None:
            return np.asarray(self.covariance(chosen) @ vectors)
        found: FloatArray = self.scale[chosen, None, None] * vectors
        if self.rows.size:
            size = self.core.shape[-1]
            summed = np.eye(size)[:, self.part] @ vectors
            shared = (self.core[chosen].reshape(-1, size) @ summed).reshape(chosen.size, size, -1)
            found -= shared.take(self.part, axis=1)
        return found

    def _counts(self, chosen: slice | Places) -> FloatArray:
        """Count the active levels of each part, shape (n, m), or (1, m) if all leaves are alike."""
        indicator = np.eye(self.patterns.shape[1])[self.part]
        if self.mask is None:
            return np.asarray(indicator.sum(axis=0, keepdims=True))
        return np.asarray(self.mask[chosen] @ indicator)

    def _parts(self, values: FloatArray) -> FloatArray:
        """Sum over the levels of each part, shape (n, m, k)."""
        indicator = np.eye(self.core.shape[-1])[:, self.part]
        if values.shape[-1] == 1:
            return np.asarray(values[:, :, 0] @ indicator.T)[:, :, None]
        return np.asarray(indicator @ values)

    def _spread_parts(self, values: FloatArray, part: FloatArray, chosen: slice | Places) -> None:
        """Add to each level what its part gets."""
        change = part.take(self.part, axis=1)
        if self.mask is not None:
            change *= self.mask[chosen][:, :, None]
        values += change


def grouped(
    queries: VectorQueries,
    places: Places,
    parents: Places,
    precision: FloatArray,
    active: NDArray[np.bool_] | None,
) -> tuple[StructuredLeaves, ...]:
    """Sort leaves by their active levels, shape (n, g); None if all are."""
    every = np.arange(queries.size)
    if not places.size:
        return ()
    if active is None or active.all():
        return (StructuredLeaves.of(queries, places, parents, precision, every, None),)
    bits = np.packbits(active, axis=1)
    wide = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
    wide[:, : bits.shape[1]] = bits
    keys = wide.view(np.uint64)
    key = keys[:, 0] if keys.shape[1] == 1 else np.unique(keys, axis=0, return_inverse=True)[1]
    _, first, which, counts = np.unique(
        key.reshape(-1), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(counts)
    found = []
    rare = [np.empty(0, dtype=np.intp)]
    for pattern, end, count in zip(first, ends, counts, strict=True):
        nodes, levels = order[end - count : end], np.flatnonzero(active[pattern])
        if count < _ALIKE:
            rare.append(nodes)
        else:
            found.append(
                StructuredLeaves.of(
                    queries, places[nodes], parents[nodes], precision[nodes], levels, None
                )
            )
    nodes = np.sort(np.concatenate(rare))
    if nodes.size:
        levels = np.flatnonzero(active[nodes].any(axis=0))
        mask = active[nodes][:, levels]
        found.append(
            StructuredLeaves.of(
                queries, places[nodes], parents[nodes], precision[nodes], levels, mask
            )
        )
    return tuple(found)


def _core(
    scale: FloatArray, precision: FloatArray, patterns: FloatArray, counts: FloatArray
) -> FloatArray:
    """Return C, shape (n, m, m), from 1/α, and precisions of the rows, shape (n, r).

    ``counts`` are the active levels of each part, shape (n, m) or (1, m).
    """
    size = patterns.shape[1]
    found = np.zeros((size, size, scale.size))
    wide = np.broadcast_to(counts.T, (size, scale.size))
    for row, own in zip(patterns, precision.T, strict=True):
        summed = row[:, None] * wide
        change = row[:, None] * scale - np.einsum("ijn,jn->in", found, summed)
        gain = own / (1.0 + own * (summed * change).sum(axis=0))
        found += change[:, None] * (change * gain)
    return np.ascontiguousarray(found.transpose(2, 0, 1))
