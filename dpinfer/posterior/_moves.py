"""Steps between tables that agree with the exact rows, and whether they lead everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.posterior._model import NO_END, TableModel, Whole, _tightened

Connectivity = Literal["proved", "enumerated", "unverified"]
Places = NDArray[np.intp]

KINDS = ("single", "alike", "pair", "in row", "swap", "fine swap", "block", "given")

_ROUNDS = 24
"""Batches into which the moves of one kind in a sweep are divided; the rest waits for another."""

_BLOCKS = 8
_MOST_STATES = 20_000
_MOST_NODES = 200_000
_MOST_CIRCUITS = 3_000
_MOST_LISTED = 2 * 10**7
_MOST_AT_ONCE = 1 << 22
_MOST_GIVEN = 20_000
_SEED = 20_260_101


class Steps(NamedTuple):
    """Moves: the cells of each and by how much they change, padded with the cell n by 0."""

    cells: Places  # (N, q)
    change: Whole  # (N, q)


class Pool(NamedTuple):
    """Sweeps of moves, one after the other, each of batches of one kind.

    No two moves of a batch have a cell or a noisy row in common.
    """

    kind: Places  # (N,)
    std: FloatArray  # (N,): about how far a cell is free to move along each
    cells: Any  # csr (N, n): by how much the cells change
    rows: Any  # csr (N, m): by how much the answers change
    batches: Places  # (B + 1,): batch k has the moves from batches[k] to batches[k + 1]
    sweeps: Places  # (S + 1,): sweep k has the batches from sweeps[k] to sweeps[k + 1]


@dataclass(frozen=True, eq=False)
class MoveSource:
    """Draws sweeps of moves, none of which depends on where the chains are."""

    model: TableModel
    given: Steps
    precision_of_rows: FloatArray  # (m,)
    precision_of_cells: FloatArray  # (n,)

    def pool(
        self, size: int, rng: np.random.Generator, assign_batches: Callable[..., None]
    ) -> Pool:
        """Draw the moves of some sweeps, and put those of each kind into batches."""
        from scipy import sparse

        m, n = self.model.rows.shape
        sweep_of, kind_of, steps = [], [], []
        for sweep in range(size):
            for kind, found in self._drawn(rng):
                order = rng.permutation(len(found.cells))
                steps.append(Steps(found.cells[order], found.change[order]))
                sweep_of.append(sweep)
                kind_of.append(kind)
        part = np.repeat(np.arange(len(steps)), [len(one.cells) for one in steps])
        cells = sparse.vstack([_changes(one, n) for one in steps] or [np.empty((0, n))]).tocsr()
        effect = (cells @ self._answers).tocsr()
        effect.eliminate_zeros()
        assert (effect.indices < m).all(), "a move would change an exact row"
        rows = effect[:, :m]
        precision = np.square(rows.astype(np.float64)) @ self.precision_of_rows
        precision = precision + np.square(cells.astype(np.float64)) @ self.precision_of_cells

        held = sparse.hstack([rows, cells]).tocsr()
        batch = np.full(part.size, -1)
        latest = np.full(m + n, -1)
        assign_batches(_ROUNDS * part, held.indptr, held.indices, latest, batch, _ROUNDS)
        kept = np.flatnonzero(batch >= 0)
        which, number = np.unique(batch[kept], return_inverse=True)
        sweep = np.array(sweep_of, dtype=np.intp)[which // _ROUNDS]
        shuffled = np.lexsort((rng.random(which.size), sweep))
        place = np.empty(which.size, dtype=np.intp)
        place[shuffled] = np.arange(which.size)
        order = kept[np.argsort(place[number], kind="stable")]
        return Pool(
            np.array(kind_of, dtype=np.intp)[part[order]],
            1.0 / np.sqrt(np.maximum(precision[order], 1e-18)),
            cells[order],
            rows[order],
            _ends(place[number], which.size),
            _ends(sweep, size),
        )

    @cached_property
    def _answers(self) -> Any:
        """By how much one more in each cell changes noisy and exact answers, csr (n, m + k)."""
        from scipy import sparse

        return sparse.vstack([self.model.rows, self.model.exact]).T.tocsr()

    def _drawn(self, rng: np.random.Generator) -> Iterator[tuple[int, Steps]]:
        free = self._free
        alone = free[self._of_none]
        if alone.size:
            yield 0, Steps(alone[rng.permutation(alone.size)][:, None], _ones(alone.size, 1))
        if self._have_alike:
            yield 1, self._matched(self._alike, rng)
        if not self._have_alike or self._differ:
            yield 2, self._matched(self._classes, rng)
        if self._differ:
            row = _random_entry(self._summed.indptr, self._summed.indices, free.size, rng)
            yield 3, self._matched(self._classes * (len(self.model.y) + 1) + row + 1, rng)
        if self._swaps:
            yield 4, self._swapped(self._exact, self._exact_hash, free.size, rng)
        if self._fine_swaps:
            yield 5, self._swapped(self._all_rows, self._hash, free.size, rng)
        if self._summed.nnz:
            yield 6, self._blocks(rng)
        if len(self.given.cells):
            few = rng.permutation(len(self.given.cells))[: max(64, free.size)]
            yield 7, Steps(self.given.cells[few], self.given.change[few])

    @cached_property
    def _free(self) -> Places:
        return self.model.free

    @cached_property
    def _exact(self) -> Any:
        """The exact rows of two free cells or more, (k, f)."""
        rows = self.model.exact[:, self._free]
        return rows[np.diff(rows.indptr) > 0]

    @cached_property
    def _sums(self) -> Any:
        """The noisy rows of two free cells or more, (s, f)."""
        rows = self.model.rows[:, self._free]
        return rows[np.diff(rows.indptr) > 1]

    @cached_property
    def _all_rows(self) -> Any:
        from scipy import sparse

        return sparse.vstack([self._exact, self._sums]).tocsr()

    @cached_property
    def _summed(self) -> Any:
        """The noisy rows that each free cell is in with others, (f, s)."""
        return self._sums.T.tocsr()

    @cached_property
    def _exact_hash(self) -> Whole:
        return _hashed(self._exact)

    @cached_property
    def _hash(self) -> Whole:
        return _hashed(self._all_rows)

    @cached_property
    def _classes(self) -> Places:
        """Numbers that are equal for cells of which one can give to the other."""
        return _numbered(self._exact_hash)

    @cached_property
    def _alike(self) -> Places:
        """Numbers that are equal for cells in the same noisy sums, too."""
        return _numbered(self._hash)

    @cached_property
    def _of_none(self) -> NDArray[np.bool_]:
        return np.asarray(np.diff(self._exact.tocsc().indptr) == 0)

    @cached_property
    def _have_alike(self) -> bool:
        return bool(self._sums.shape[0]) and len(np.unique(self._alike)) < self._free.size

    @cached_property
    def _differ(self) -> bool:
        return not np.array_equal(self._alike, self._classes)

    @cached_property
    def _swaps(self) -> bool:
        return self._found_swaps(self._exact, self._exact_hash)

    @cached_property
    def _fine_swaps(self) -> bool:
        return self._sums.shape[0] > 0 and self._found_swaps(self._all_rows, self._hash)

    def _found_swaps(self, rows: Any, hashed: Whole) -> bool:
        rng = np.random.default_rng(_SEED)
        return rows.shape[0] > 1 and len(self._swapped(rows, hashed, 4000, rng).cells) > 0

    def _matched(self, labels: Places, rng: np.random.Generator) -> Steps:
        """Return a matching of cells with equal labels, each pair one that gives to the other."""
        order = rng.permutation(labels.size)
        order = order[np.argsort(labels[order], kind="stable")]
        held = labels[order]
        same = np.append(held[1:] == held[:-1], False)
        begins = np.flatnonzero(np.append(True, held[1:] != held[:-1]))
        within = np.arange(held.size) - np.repeat(begins, np.diff(np.append(begins, held.size)))
        left = np.flatnonzero((within % 2 == 0) & same)
        cells = self._free[np.stack([order[left], order[left + 1]], axis=1)]
        return Steps(cells, _ones(len(cells), 2) * np.array([1, -1]))

    def _swapped(self, rows: Any, hashed: Whole, tries: int, rng: np.random.Generator) -> Steps:
        """Return moves i + l - j - k that change no answer, of cells of which i shares a row."""
        columns = rows.T.tocsr()
        i = rng.integers(hashed.size, size=tries)
        i = i[np.diff(columns.indptr)[i] > 0]
        j, k = (
            _of_row(rows, _random_entry(columns.indptr, columns.indices, i, rng), rng)
            for _ in range(2)
        )
        order = np.argsort(hashed, kind="stable")
        with np.errstate(over="ignore"):
            wanted = hashed[j] + hashed[k] - hashed[i]
        low = np.searchsorted(hashed[order], wanted)
        high = np.searchsorted(hashed[order], wanted, side="right")
        place = low + (rng.random(i.size) * (high - low)).astype(np.intp)
        other = order[np.minimum(place, hashed.size - 1)]
        real = (high > low) & (hashed[i] != hashed[j]) & (hashed[i] != hashed[k])
        real &= (other != i) & (j != k)
        cells = np.stack([i, other, j, k], axis=1)[real]
        return Steps(self._free[cells], _ones(len(cells), 4) * np.array([1, 1, -1, -1]))

    def _blocks(self, rng: np.random.Generator) -> Steps:
        """Return moves of as many cells of one sum as of another, or of some of one alone."""
        sums = self._sums
        found: list[tuple[Places, Places]] = []
        for first, second in rng.integers(sums.shape[0], size=(_BLOCKS, 2)):
            one, two = (_members(sums, row) for row in (first, second))
            size = self._free.size
            one, two = (
                _without(one, two, size) if first != second else one,
                _without(two, one, size),
            )
            if not one.size:
                continue
            label = self._classes[rng.choice(one)]
            one, two = (part[self._classes[part] == label] for part in (one, two))
            alone = self._of_none[one[0]] and (not two.size or rng.random() < 0.5)
            most = one.size if alone else min(one.size, two.size)
            if most < 2:
                continue
            take = int(min(2 ** rng.integers(1, np.log2(most) + 1), most, 64))
            picked = rng.permutation(one)[:take]
            found.append((picked, picked[:0] if alone else rng.permutation(two)[:take]))
        width = max((a.size + b.size for a, b in found), default=1)
        cells = np.full((len(found), width), self.model.cells)
        change = np.zeros((len(found), width), dtype=np.int64)
        for line, (a, b) in enumerate(found):
            cells[line, : a.size + b.size] = self._free[np.concatenate([a, b])]
            change[line, : a.size] = 1
            change[line, a.size : a.size + b.size] = -1
        return Steps(cells, change)


def _ones(rows: int, columns: int) -> Whole:
    return np.ones((rows, columns), dtype=np.int64)


def _hashed(rows: Any) -> Whole:
    """Return Σ wᵢ·rowᵢ modulo 2⁶⁴ for each column: linear, and equal for equal columns."""
    weights = np.random.default_rng(_SEED).integers(-(2**62), 2**62, size=rows.shape[0])
    with np.errstate(over="ignore"):
        return np.asarray(rows.T @ weights, dtype=np.int64).reshape(rows.shape[1])


def _numbered(values: NDArray[Any]) -> Places:
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.intp).reshape(-1)


def _random_entry(indptr: Places, indices: Places, which: Any, rng: np.random.Generator) -> Places:
    """Return a random index of each of some lines of a sparse matrix, -1 of an empty one."""
    lines = np.arange(which) if np.ndim(which) == 0 else which
    size = np.diff(indptr)[lines]
    place = indptr[lines] + (rng.random(lines.size) * size).astype(np.intp)
    padded = np.append(indices, -1)
    return np.where(size > 0, padded[np.minimum(place, len(indices))], -1).astype(np.intp)


def _of_row(rows: Any, lines: Places, rng: np.random.Generator) -> Places:
    return _random_entry(rows.indptr, rows.indices, lines, rng)


def _without(one: Places, other: Places, size: int) -> Places:
    out = np.ones(size, dtype=bool)
    out[other] = False
    return one[out[one]]


def _members(rows: Any, line: int) -> Places:
    return np.asarray(rows.indices[rows.indptr[line] : rows.indptr[line + 1]], dtype=np.intp)


def _changes(steps: Steps, cells: int) -> Any:
    """Return moves as csr (N, n)."""
    from scipy import sparse

    real = steps.cells < cells
    ends = np.append(0, np.cumsum(real.sum(axis=1)))
    return sparse.csr_array(
        (steps.change[real], steps.cells[real], ends), shape=(len(steps.cells), cells)
    )


def _ends(number: Places, size: int) -> Places:
    """Return where those of each number end, 0 first."""
    return np.append(0, np.cumsum(np.bincount(number, minlength=size)))


# Moves that users give, and whether all moves together lead from every table to every other.


def given_moves(moves: Any, model: TableModel) -> Steps:
    """Return moves given as an array (k, n) or (n,), which must keep every exact row."""
    if moves is None:
        return Steps(np.empty((0, 1), dtype=np.intp), np.empty((0, 1), dtype=np.int64))
    array = np.atleast_2d(check_array(moves, "moves", ge=-(2.0**31), le=2.0**31))
    if array.ndim != 2 or array.shape[1] != model.cells:
        raise InvalidParameterError(
            f"moves must have a row for each move and {model.cells} columns, one for each cell, "
            f"got shape {np.shape(moves)}"
        )
    if (array != np.rint(array)).any() or not array.any(axis=1).all():
        raise InvalidParameterError("moves must hold whole numbers, some of which are not 0")
    if len(array) > _MOST_GIVEN:
        raise InvalidParameterError(f"moves must be at most {_MOST_GIVEN}, got {len(array)}")
    whole = array.astype(np.int64)
    off = np.asarray(model.exact @ whole.T)
    if off.any():
        row, move = (int(one[0]) for one in off.nonzero())
        raise InvalidParameterError(
            f"moves must change no exact row, got move {move}, which changes the exact row {row} "
            f"by {off[row, move]}"
        )
    known = np.ones(model.cells, dtype=bool)
    known[model.free] = False
    if whole[:, known].any():
        move = int(np.flatnonzero(whole[:, known].any(axis=1))[0])
        raise InvalidParameterError(
            f"moves must change no cell that is known, got move {show(move)}: structural zeros and "
            "cells that follow from exact rows stay as they are"
        )
    return sparse_steps(whole)


def sparse_steps(moves: Whole) -> Steps:
    """Return dense moves (k, n) as padded lists of cells."""
    count = np.count_nonzero(moves, axis=1)
    cells = np.full((len(moves), int(count.max(initial=1))), moves.shape[1])
    change = np.zeros(cells.shape, dtype=np.int64)
    inside = np.arange(cells.shape[1]) < count[:, None]
    line, column = moves.nonzero()
    cells[inside], change[inside] = column, moves[line, column]
    return Steps(cells, change)


def joined_steps(one: Steps, other: Whole, cells: int) -> Steps:
    """Return moves and further ones, (k, n)."""
    if not len(other):
        return one
    more = sparse_steps(other)
    width = max(one.cells.shape[1], more.cells.shape[1])

    def wide(part: NDArray[Any], fill: int) -> NDArray[Any]:
        room = width - part.shape[1]
        return np.pad(part, ((0, 0), (0, room)), constant_values=fill)

    return Steps(
        np.concatenate([wide(one.cells, cells), wide(more.cells, cells)]),
        np.concatenate([wide(one.change, 0), wide(more.change, 0)]),
    )


def find_connection(model: TableModel, given: Steps) -> tuple[Connectivity, Steps]:
    """Return whether moves connect all tables of the exact rows, and moves that help them to.

    Cells that no exact row holds together are looked at by themselves. One exact row needs pairs;
    decomposable margins need pairs and swaps; two margins with holes or ends need the circuits of
    the graph of their cells; others are enumerated where they are few.
    """
    free = model.free
    rows = model.exact[:, free]
    rows = rows[np.diff(rows.indptr) > 0]
    if (np.isfinite(model.support) & (np.diff(model.rows[:, free].indptr) > 1)).any():
        return "unverified", given
    if not rows.shape[0]:
        return "proved", given
    from scipy.sparse.csgraph import connected_components

    number, label = connected_components((abs(rows).T @ abs(rows)).astype(np.float64))
    ended = _has_ends(model)
    worst: Connectivity = "proved"
    for part in range(number):
        cells = np.flatnonzero(label == part)
        own = rows[:, cells]
        own = own[np.diff(own.indptr) > 0]
        if own.shape[0] == 0 or cells.size == 1:
            continue
        found, more = _connected(model, free[cells], own, given, bool(ended[free[cells]].any()))
        given = joined_steps(given, more, model.cells)
        if found == "unverified":
            return found, given
        worst = found if found == "enumerated" else worst
    return worst, given


def _has_ends(model: TableModel) -> NDArray[np.bool_]:
    """Whether cells have upper ends that do not follow from the exact rows and known cells."""
    known = model.lower == model.upper
    upper = np.where(known, model.upper, NO_END)
    implied = _tightened(model.exact, model.exact_values, model.lower, upper, model.labels)
    return np.asarray(implied["upper"] > model.upper)


def _connected(
    model: TableModel, cells: Places, rows: Any, given: Steps, ended: bool
) -> tuple[Connectivity, Whole]:
    none = np.empty((0, model.cells), dtype=np.int64)
    dense = np.unique(rows.toarray(), axis=0) if rows.shape[0] * cells.size < 10**7 else None
    if rows.shape[0] == 1 and (rows.data == rows.data[0]).all():
        return "proved", none
    margins = None if dense is None else _margins(dense)
    if margins is not None:
        if len(margins) == 1:
            return "proved", none
        if not ended and is_decomposable(margins):
            return "proved", none
        if len(margins) == 2 and (circuits := _circuits(*margins)) is not None:
            moves = np.zeros((len(circuits), model.cells), dtype=np.int64)
            for line, (plus, minus) in zip(moves, circuits, strict=True):
                line[cells[plus]], line[cells[minus]] = 1, -1
            return "proved", moves
    states = all_tables(model, cells, rows, _MOST_STATES)
    if states is None:
        return "unverified", none
    return _enumerated(model, cells, states, given)


def _margins(rows: Whole) -> list[Places] | None:
    """Return exact rows as labels of the cells, margin by margin; None where they are none."""
    if not np.isin(rows, (0, 1)).all():
        return None
    held: list[tuple[NDArray[np.bool_], list[int]]] = []
    for number, row in enumerate(rows.astype(bool)):
        for used, members in held:
            if not (used & row).any():
                used |= row
                members.append(number)
                break
        else:
            held.append((row.copy(), [number]))
    if not all(used.all() for used, _ in held):
        return None
    labels = [np.asarray(rows[members].argmax(axis=0), dtype=np.intp) for _, members in held]
    kept: list[Places] = []
    for number, one in enumerate(labels):
        others = [other for k, other in enumerate(labels) if k != number]
        # of two that are equal the first stays
        finer = (
            _determines(other, one) and not (_determines(one, other) and k >= number)
            for k, other in enumerate(others)
        )
        if not any(finer):
            kept.append(one)
    return kept


def _determines(one: Places, other: Places) -> bool:
    return len(np.unique(one)) == len(np.unique(np.stack([one, other]), axis=1).T)


def is_decomposable(margins: list[Places]) -> bool:
    """Whether margins, as labels of the cells, can be taken off one by one.

    A margin comes off where the cells are all pairs of its labels and those of the others within
    each of the labels that both determine, and these are labels of one of the others.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    if len(margins) == 1:
        return True
    for number, own in enumerate(margins):
        others = margins[:number] + margins[number + 1 :]
        joint = np.unique(np.stack(others), axis=1, return_inverse=True)[1].reshape(-1)
        one, two = _numbered(own), joint + own.max() + 1
        size = int(two.max()) + 1
        graph = sparse.csr_array((np.ones(own.size), (one, two)), shape=(size, size))
        label = connected_components(graph, directed=False)[1]
        pairs = np.unique(np.stack([one, two]), axis=1)
        inside = label[pairs[0]]
        parts = np.unique(inside)
        complete = all(
            len(np.unique(pairs[0][inside == part])) * len(np.unique(pairs[1][inside == part]))
            == np.count_nonzero(inside == part)
            for part in parts
        )
        shared = label[one]
        kept = complete and any(_determines(other, shared) for other in others)
        if kept and is_decomposable(others):
            return True
    return False


def _circuits(one: Places, two: Places) -> list[tuple[list[int], list[int]]] | None:
    """Return the simple cycles of a graph whose edges are cells, None where there are too many."""
    a, b = _numbered(one), _numbered(two)
    b = b + a.max() + 1
    edges: list[list[tuple[int, int]]] = [[] for _ in range(int(b.max()) + 1)]
    seen: set[tuple[int, int]] = set()
    for cell, (left, right) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if (left, right) not in seen:  # cells of equal labels are pairs
            seen.add((left, right))
            edges[left].append((right, cell))
            edges[right].append((left, cell))
    if len(seen) < a.size:
        return None
    found: list[tuple[list[int], list[int]]] = []
    steps = 0
    for root in range(len(edges)):
        stack: list[tuple[int, list[int], frozenset[int]]] = [(root, [], frozenset([root]))]
        while stack:
            node, path, used = stack.pop()
            for neighbour, cell in edges[node]:
                steps += 1
                if steps > _MOST_NODES or len(found) > _MOST_CIRCUITS:
                    return None
                if neighbour == root and len(path) > 2 and path[0] < cell:
                    whole = [*path, cell]
                    found.append((whole[::2], whole[1::2]))
                elif neighbour > root and neighbour not in used:
                    stack.append((neighbour, [*path, cell], used | {neighbour}))
    return found


def all_tables(model: TableModel, cells: Places, rows: Any, most: int) -> Whole | None:
    """Return all tables (s, c) of some cells that agree with exact rows, None for too many."""
    known = model.lower == model.upper
    fixed = np.where(known, model.lower, 0)
    lines = np.flatnonzero(np.diff(model.exact[:, cells].indptr) > 0)
    a = model.exact[lines][:, cells].toarray()
    rest = (model.exact_values - model.exact @ fixed)[lines]
    low, high = model.lower[cells], model.upper[cells]
    if (high == NO_END).any():
        return None
    low_after = np.cumsum((np.minimum(a * low, a * high))[:, ::-1], axis=1)[:, ::-1]
    high_after = np.cumsum((np.maximum(a * low, a * high))[:, ::-1], axis=1)[:, ::-1]
    states = np.zeros((1, 0), dtype=np.int64)
    left = rest[None, :]
    nodes = 0
    for cell in range(cells.size):
        width = int(high[cell] - low[cell]) + 1
        nodes += len(states) * width
        if nodes > min(100 * most, _MOST_LISTED) or len(states) * width > _MOST_AT_ONCE:
            return None
        value = np.tile(np.arange(low[cell], high[cell] + 1), len(states))
        states = np.column_stack([np.repeat(states, width, axis=0), value])
        left = np.repeat(left, width, axis=0) - value[:, None] * a[:, cell]
        if cell + 1 < cells.size:
            fits = (left >= low_after[:, cell + 1]) & (left <= high_after[:, cell + 1])
        else:
            fits = left == 0
        keep = fits.all(axis=1)
        states, left = states[keep], left[keep]
        if len(states) > most:
            return None
    return states


def _enumerated(
    model: TableModel, cells: Places, states: Whole, given: Steps
) -> tuple[Connectivity, Whole]:
    """Join the tables by moves, and by differences of tables where these do not suffice."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    size = len(states)
    source = MoveSource(model, given, np.zeros(len(model.y)), np.zeros(model.cells))
    rng = np.random.default_rng(_SEED)
    weights = rng.integers(-(2**62), 2**62, size=model.cells + 1)
    weights[-1] = 0
    with np.errstate(over="ignore"):
        hashed = states @ weights[cells]
    order = np.argsort(hashed)
    ranked = hashed[order]
    inside = np.zeros(model.cells + 1, dtype=bool)
    inside[cells], inside[-1] = True, True
    links: list[NDArray[Any]] = []
    tried: set[int] = set()
    for _ in range(30):
        for kind, steps in source._drawn(rng):
            if kind == 6:
                continue
            own = inside[steps.cells].all(axis=1)
            with np.errstate(over="ignore"):
                change = (weights[steps.cells[own]] * steps.change[own]).sum(axis=1)
            for move in change.tolist():
                if abs(move) in tried or len(tried) * size > 50 * _MOST_NODES:
                    continue
                tried.add(abs(move))
                with np.errstate(over="ignore"):
                    wanted = hashed + move
                place = np.minimum(np.searchsorted(ranked, wanted), size - 1)
                hit = np.flatnonzero(ranked[place] == wanted)
                links.append(np.stack([hit, order[place[hit]]]))
    pairs = np.concatenate(links, axis=1) if links else np.empty((2, 0), dtype=np.intp)
    graph = sparse.csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(size, size))
    number, label = connected_components(graph, directed=False)
    if number > _MOST_CIRCUITS:
        return "unverified", np.empty((0, model.cells), dtype=np.int64)
    moves = np.zeros((number - 1, model.cells), dtype=np.int64)
    joined = label == label[0]
    for line in moves:
        outside = np.flatnonzero(~joined)
        here = states[np.flatnonzero(joined)[:2000]]
        away = np.abs(here[:, None, :] - states[outside[:200]]).sum(axis=2)
        near, far = np.unravel_index(int(away.argmin()), away.shape)
        line[cells] = states[outside[far]] - here[near]
        joined |= label == label[outside[far]]
    return "enumerated", moves
