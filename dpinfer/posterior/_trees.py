"""Independent draws: of tables whose rows are nested or disjoint, and of those listed one by one.

Of cells, totals, and trees of them: from the leaves up, the weights of the children of a node are
convolved and multiplied by what was measured of their sum; from the roots down, totals are drawn
and split. Weights of the children of a node are tilted by e^(κx), which changes no law given their
sum, so that they lie where the posterior does; what windows leave out is bounded, in units of the
posterior, all the way up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer._numerics.lattice import batches, smallest_whole
from dpinfer.errors import ConvergenceError, IncompatibleReleaseError
from dpinfer.intervals._windows import log_density
from dpinfer.posterior._model import NO_END, TableModel, Whole, law_of
from dpinfer.posterior._moves import all_tables
from dpinfer.posterior._priors import CellPrior
from dpinfer.posterior._sums import (
    Made,
    Places,
    Round,
    Windows,
    add_up,
    draw_apart,
    table_moments,
)
from dpinfer.queries.hierarchy import Families, Tree
from dpinfer.results.simulation import block_sizes, child_seed, run_tasks

MOST_LEFT_OUT = 1e-12
"""Posterior mass that windows may leave out, by a bound that is proved of each answer."""

_CUTS = (1e-24, 1e-40, 1e-80)
"""Shares of a window that are dropped at its ends; the later ones where the first do not do."""

_ROUGH = 1e-6
_MOST_WORK = 1e13
_ENTRIES = 1 << 17
_WIDEST = 1 << 22
_FAR = float(1 << 30)
_TURNS = 100
_NEAR = 0.3
_BLOCK = 1 << 25
"""Counts of all nodes that are drawn at a time: 256 MB."""

_FEWEST = 8
_SHARED = 1 << 18
_PARTS = 4
"""Blocks, at least, of so many counts of all nodes: workers share them."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Nodes whose totals rows are about: first the k inner ones, then the n cells."""

    model: TableModel
    inner: int
    tree: Tree
    node: Places  # (m,): the node of each noisy row that has cells
    row: Places  # (m,): which row that is
    factor: FloatArray  # (m,): the coefficient of its cells
    exact: FloatArray  # (inner,): totals that are known, NaN for others

    @cached_property
    def numbers(self) -> Places:
        """The number of the node at each place."""
        return np.arange(len(self.tree)) if self.tree.order is None else self.tree.order

    @cached_property
    def held(self) -> tuple[Places, Places]:
        """The rows sorted by node, and where those of each node begin."""
        order = np.argsort(self.node, kind="stable")
        counts = np.bincount(self.node, minlength=len(self.tree))
        return order, np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def guess(self) -> tuple[FloatArray, FloatArray]:
        """About where measured totals are, and how precisely; NaN and inf where none is."""
        model = self.model
        variance = np.maximum(model.variance[self.row] / np.square(self.factor), 1e-6)
        size = len(self.tree)
        weight = np.bincount(self.node, 1.0 / variance, minlength=size)
        value = model.y[self.row] / self.factor / variance
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(self.node, value, minlength=size) / weight
            return mean, np.sqrt(1.0 / weight)

    def likelihood(self, nodes: Places, x: FloatArray) -> FloatArray:
        """Return the log likelihood of totals (w, k) of k nodes."""
        order, starts = self.held
        out = np.zeros(x.shape)
        count = starts[nodes + 1] - starts[nodes]
        for number in range(int(count.max(initial=0))):
            at = np.flatnonzero(count > number)
            rows = order[starts[nodes[at]] + number]
            out[:, at] += self.model.row_logpdf(self.row[rows], self.factor[rows] * x[:, at])
        return out


def forest_of(model: TableModel) -> Forest | None:
    """Return the nodes that rows are about, None where rows cross or weigh cells differently."""
    if model.bins is not None:
        return None
    owner = np.full(model.cells, -1)
    parent: list[int] = []
    size: list[int] = []
    node_of = []
    factors = []
    matrices = (model.rows, model.exact)
    for matrix in matrices:
        counts = np.diff(matrix.indptr)
        starts = matrix.indptr[:-1][counts > 0]
        same = np.zeros(len(counts))
        if matrix.nnz:
            low, high = (
                np.minimum.reduceat(matrix.data, starts),
                np.maximum.reduceat(matrix.data, starts),
            )
            if (low != high).any() or (low == 0).any():
                return None
            same[counts > 0] = low
        factors.append(same)
        node_of.append(np.full(len(counts), -1))
    every = [
        (matrix.indptr[r + 1] - matrix.indptr[r], which, r)
        for which, matrix in enumerate(matrices)
        for r in np.flatnonzero(np.diff(matrix.indptr) > 1)
    ]
    for count, which, r in sorted(every, key=lambda one: -one[0]):
        cells = matrices[which].indices[matrices[which].indptr[r] :][:count]
        above = int(owner[cells[0]])
        if (owner[cells] != above).any():
            return None
        if above < 0 or size[above] != count:
            owner[cells] = len(parent)
            parent.append(above)
            size.append(int(count))
        node_of[which][r] = owner[cells[0]]
    for which, matrix in enumerate(matrices):
        single = np.flatnonzero(np.diff(matrix.indptr) == 1)
        node_of[which][single] = len(parent) + matrix.indices[matrix.indptr[single]]
    exact = np.full(len(parent), np.nan)
    for k, node in enumerate(node_of[1]):
        if 0 <= node < len(parent):
            value = model.exact_values[k] / factors[1][k]
            if value != np.rint(value) or not (np.isnan(exact[node]) or exact[node] == value):
                raise IncompatibleReleaseError("values without noise contradict one another")
            exact[node] = value
    there = np.flatnonzero(node_of[0] >= 0)
    tree = Tree.of(np.concatenate([np.array(parent, dtype=np.intp), owner]).astype(np.intp))
    return Forest(model, len(parent), tree, node_of[0][there], there, factors[0][there], exact)


@dataclass(frozen=True, eq=False)
class ExactDraws:
    """Independent tables (draws, cells), and a bound on the posterior mass that was left out."""

    draws: Whole
    left_out: float


def exact_draws(
    forest: Forest,
    draws: int,
    seed: np.random.SeedSequence,
    prior: CellPrior | None,
    n_jobs: int | None,
) -> ExactDraws:
    """Draw tables whose rows are nested or disjoint.

    A prior that is not log-concave, but for a part that falls, needs cells with finite ends.

    Raises IncompatibleReleaseError where no table is possible, and ConvergenceError where the
    windows could not be shown to hold all but 1e-12 of the posterior.
    """
    up = Passes(forest, prior)
    tilt = up.tilts()
    for cut in _CUTS:
        found = up.roots(tilt, cut)
        if found is None or float(found.left_out.sum()) > MOST_LEFT_OUT:
            continue
        size = len(forest.tree)
        parts = _PARTS if draws * size > _SHARED else 1
        block = max(min(_BLOCK // size, -(-draws // parts)), _FEWEST)
        sizes = list(block_sizes(draws, block))
        down = Down(up, found, tilt, cut)
        tasks = [Block(down, size, child_seed(seed, number)) for number, size in enumerate(sizes)]
        tables = np.empty((draws, forest.model.cells), dtype=np.int64)
        begin = 0
        for part in run_tasks(draw_block, tasks, n_jobs, lambda task: draws / task.size):
            tables[begin : begin + len(part)] = part
            begin += len(part)
        return ExactDraws(tables, float(found.left_out.sum()))
    raise ConvergenceError(
        "sampler='exact' could not be shown to hold all but 1e-12 of the posterior in its windows: "
        "use sampler='chain'"
    )


class Down(NamedTuple):
    """What draws are made from: the passes up, and the weights of the roots."""

    passes: Passes
    roots: Windows
    tilt: FloatArray
    cut: float


class Block(NamedTuple):
    """Draws of one worker."""

    down: Down
    size: int
    seed: np.random.SeedSequence


def draw_block(block: Block) -> Whole:
    """Go down the tree once for all draws of a block."""
    down = block.down
    return down.passes.draw(down.roots, down.tilt, down.cut, block.size, block.seed)


class Passes:
    """The passes up and down a forest."""

    def __init__(self, forest: Forest, prior: CellPrior | None) -> None:
        self.forest, self._prior = forest, prior
        self._concave = prior is None or prior.concave
        self._tree, self._of = forest.tree, forest.numbers
        self._lower = forest.model.lower.astype(np.float64)
        self._upper = np.where(forest.model.upper == NO_END, np.inf, forest.model.upper)
        self._is_leaf = self._of >= forest.inner
        self._made: dict[int, Windows] = {}

    # Leaves.

    def _weight(self, cells: Places, x: FloatArray) -> FloatArray:
        """Return log weights of counts (w, k) of k cells, -inf outside of their ends."""
        inside = (x >= self._lower[cells]) & (x <= self._upper[cells])
        held = np.where(inside, x, self._lower[cells])
        found = self.forest.likelihood(self.forest.inner + cells, held)
        if self._prior is not None:
            believed = self._prior.log_cells(held.astype(np.int64), cells)
            found = found + np.where(self.forest.model.zeros[cells], 0.0, believed)
        return np.where(inside, found, -np.inf)

    def _spans(
        self, cells: Places, tilt: FloatArray, cut: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ends of windows of cells, and a bound e^(...) on the weight beyond them.

        By log-concavity, beyond an end weights fall geometrically at least as fast as there; a part
        of the prior that is not log-concave, and falls, is at most what it is at the nearer end
        above, and at the end of the cell below.
        """
        lower, upper = self._lower[cells], self._upper[cells]
        beyond = np.full(cells.size, -np.inf)
        if not self._concave:
            if (upper - lower).max(initial=0.0) >= _WIDEST:
                raise ConvergenceError(
                    "prior must be log-concave for sampler='exact', or the cells must have ends "
                    "that are not far apart: use sampler='chain'"
                )
            return lower, upper, beyond
        guess, spread = (part[self.forest.inner + cells] for part in self.forest.guess)
        known = np.isfinite(guess)
        spread = np.where(known, spread, 4.0)
        guess = np.where(known, guess + tilt * np.square(spread), lower)
        drop = -np.log(cut) + 3.0
        radius = np.minimum(spread * np.sqrt(2.0 * drop) + 2.0, 1e9)
        low = np.clip(np.floor(guess - radius), lower, upper)
        high = np.clip(np.ceil(guess + radius), lower, upper)
        best = np.full(cells.size, -np.inf)
        open_ = np.flatnonzero(lower < upper)
        for _ in range(_TURNS):
            if not open_.size:
                return low, high, beyond
            a, b = low[open_], high[open_]
            inner = np.floor(a + (b - a) * np.linspace(0.1, 0.9, 9)[:, None])
            points = np.concatenate([[a, np.minimum(a + 1, b)], inner, [np.maximum(b - 1, a), b]])
            f = self._weight(cells[open_], points) + tilt[open_] * points
            best[open_] = np.maximum(best[open_], f.max(axis=0))
            rest = np.zeros((2, open_.size))
            if self._prior is not None:
                of_points = self._prior.residual(points, cells[open_])
                f = f - of_points
                rest[0] = self._prior.residual(lower[None, open_], cells[open_])[0]
                rest[1] = of_points[-1]
            with np.errstate(invalid="ignore"):
                steps = np.stack([f[1] - f[0], f[-2] - f[-1]])
            found = np.isfinite(best[open_])
            tails = []
            for step, edge, end, more in (
                (steps[0], f[0], a <= lower[open_], rest[0]),
                (steps[1], f[-1], b >= upper[open_], rest[1]),
            ):
                step = np.where(np.isneginf(edge), np.inf, step)
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    tail = edge - step - np.log(-np.expm1(-np.maximum(step, 0.0)))
                tail = np.where(step > 0, tail + more, np.inf)
                tail = np.where(np.isneginf(edge) & found, -np.inf, tail)
                tails.append(np.where(end, -np.inf, tail))
            beyond[open_] = np.logaddexp(*tails)
            wrong = [
                (tail > best[open_] - drop) | (~found & ~end)
                for tail, end in zip(tails, (a <= lower[open_], b >= upper[open_]), strict=True)
            ]
            width = b - a + 1.0
            moves = []
            for side, tail, step in zip(wrong, tails, steps, strict=True):
                with np.errstate(divide="ignore", invalid="ignore"):
                    need = (tail - best[open_] + drop) / step
                need = np.where(np.isfinite(need) & (step > 0), np.ceil(need) + 1.0, width)
                moves.append(np.where(side, np.minimum(need, 1024.0 * width), 0.0))
            low[open_] = np.maximum(a - moves[0], lower[open_])
            high[open_] = np.minimum(b + moves[1], upper[open_])
            stuck = ~found & (a <= lower[open_]) & (b >= upper[open_])
            if stuck.any():
                raise IncompatibleReleaseError("no count of a cell is possible for the values")
            if (high - low).max(initial=0.0) > _WIDEST:
                raise ConvergenceError("windows of cells are too wide for exact draws")
            open_ = open_[wrong[0] | wrong[1]]
        raise ConvergenceError("no windows of cells were found")

    def _tables(
        self, cells: Places, tilt: FloatArray, cut: float
    ) -> Iterator[tuple[Places, FloatArray, FloatArray, FloatArray, FloatArray]]:
        low, high, beyond = self._spans(cells, tilt, cut)
        for some in batches(high - low + 1.0, _ENTRIES):
            x = low[some] + np.arange(float((high - low)[some].max()) + 1.0)[:, None]
            f = self._weight(cells[some], x) + tilt[some] * x
            f = np.where(x <= high[some], f, -np.inf)
            peak = f.max(axis=0)
            if not np.isfinite(peak).all():
                raise IncompatibleReleaseError("no count of a cell is possible for the values")
            yield some, low[some], np.exp(f - peak).T, peak, np.exp(beyond[some] - peak)

    def leaf_windows(self, cells: Places, tilt: FloatArray, cut: float) -> Windows:
        """Return the weights of some cells, tilted, by all that is known of them alone."""
        made = Made(cells.size)
        for some, low, table, peak, outside in self._tables(cells, tilt, cut):
            made.put(some, low.astype(np.int64), table, peak, outside, cut)
        return made.windows()

    def _leaf_moments(self, cells: Places, tilt: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = np.empty(cells.size), np.empty(cells.size)
        for some, low, table, *_ in self._tables(cells, tilt, _ROUGH):
            place, variance[some] = table_moments(table / table.sum(axis=1, keepdims=True))
            mean[some] = low + place
        return mean, variance

    # Tilts: about the slope of the log posterior of each node's total, by Newton steps.

    def _slopes(self, nodes: Places, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return slope and curvature of the log likelihood of totals, never too flat to step by."""
        near = np.rint(at)
        with np.errstate(invalid="ignore"):
            f = self.forest.likelihood(nodes, near + np.array([-1.0, 0.0, 1.0])[:, None])
            slope, curve = 0.5 * (f[2] - f[0]), -(f[2] - 2.0 * f[1] + f[0])
        guess, spread = (part[nodes] for part in self.forest.guess)
        known = np.isfinite(guess)
        off = np.where(known, at - guess, 0.0)
        spread = np.where(known, spread, 1.0)
        lost = ~(np.isfinite(slope) & np.isfinite(curve))
        slope = np.where(lost, -off / np.square(spread), slope)
        curve = np.where(lost, 1.0 / np.square(spread), np.maximum(curve, 0.0))
        return slope, np.maximum(curve, np.abs(slope) / np.maximum(np.abs(off), spread))

    def tilts(self) -> FloatArray:
        """Return a tilt for the children of the node at each place."""
        tree, forest = self._tree, self.forest
        n, inner = len(tree), ~self._is_leaf
        kappa = np.zeros(n)
        if not inner.any():
            return kappa
        nodes = self._of
        parent = tree.parent
        exact = np.full(n, np.nan)
        exact[inner] = forest.exact[nodes[inner]]
        measured = np.diff(forest.held[1])[nodes] > 0
        leaf_at = np.flatnonzero(self._is_leaf & (parent >= 0))
        cells = nodes[leaf_at] - forest.inner
        rate, far = self._rates(exact, measured)
        top = np.where(rate < 0, np.inf, -rate)  # tilts of children end below this
        kappa = np.where(np.isfinite(top), np.minimum(top - 0.1, 0.0), 0.0)
        guess = forest.guess[0][nodes]
        total = np.where(np.isnan(exact), guess, exact)
        mean, variance = np.zeros(n), np.zeros(n)
        sums, spreads = np.zeros(n), np.zeros(n)
        for turn in range(_TURNS):
            self._feasible(kappa, exact, measured, far, top)
            mean[leaf_at], variance[leaf_at] = self._leaf_moments(cells, kappa[parent[leaf_at]])
            for run in reversed(tree.families):
                at = np.arange(n)[run.parents]
                children = run.children
                sums[at] = np.add.reduceat(mean[children], run.starts)
                spreads[at] = np.add.reduceat(variance[children], run.starts)
                above = np.where(parent[at] >= 0, kappa[parent[at]], 0.0)
                if turn == 0:
                    total[at] = np.where(np.isnan(total[at]), sums[at], total[at])
                slope, curve = self._slopes(nodes[at], total[at])
                slope, curve = (
                    np.where(measured[at], slope, 0.0),
                    np.where(measured[at], curve, 0.0),
                )
                v = np.maximum(spreads[at], 1e-12)
                sharp = 1.0 / v + curve
                pull = sums[at] / v + above - kappa[at] + slope + curve * total[at]
                known = ~np.isnan(exact[at])
                mean[at] = np.where(known, exact[at], pull / sharp)
                variance[at] = np.where(known, 0.0, 1.0 / sharp)
            roots = parent < 0
            total[roots] = mean[roots]
            for run in tree.families:
                at = np.arange(n)[run.parents]
                share = (total[at] - sums[at]) / np.maximum(spreads[at], 1e-12)
                total[run.children] = mean[run.children] + variance[run.children] * np.repeat(
                    share, run.counts
                )
            off = np.where(inner, total - sums, 0.0)
            spread = np.sqrt(np.maximum(spreads, 1e-12))
            if (np.abs(off) <= _NEAR * np.maximum(spread, 0.5)).all():
                return kappa
            step = off / np.square(spread)
            widest = np.zeros(n)
            np.maximum.at(widest, parent[leaf_at], np.sqrt(variance[leaf_at]))
            with np.errstate(divide="ignore"):
                most = np.where(widest > 0, 1.5 / widest, np.inf)
            most = np.where(inner, most, 0.0)
            new = kappa + np.clip(step, -most, most)
            kappa = np.where(new < top, new, 0.5 * (kappa + top))
        self._feasible(kappa, exact, measured, far, top)
        return kappa

    def _rates(
        self, exact: FloatArray, measured: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """Return how log weights of children, and likelihoods, rise far out, for each place."""
        tree, forest = self._tree, self.forest
        n = len(tree)
        ends = np.array([[_FAR], [_FAR + 1.0]])

        def slope(f: FloatArray) -> FloatArray:
            with np.errstate(invalid="ignore"):
                found = np.where(np.isfinite(f).all(axis=0), f[1] - f[0], -np.inf)
            # logarithms that far out are rounded to 2e-7 of the slope: no tilt may use up all of it
            return np.where(np.isfinite(found), found + 1e-6 * np.abs(found), found)

        far = np.zeros(n)
        hit = np.flatnonzero(measured)
        f = forest.likelihood(self._of[hit], np.broadcast_to(ends, (2, hit.size)))
        far[hit] = slope(f)
        far[~np.isnan(exact)] = -np.inf
        own = np.full(n, -np.inf)
        leaves = np.flatnonzero(self._is_leaf)
        cells = self._of[leaves] - forest.inner
        free = np.isinf(self._upper[cells])
        f = self._weight(cells[free], np.broadcast_to(ends, (2, int(free.sum()))))
        own[leaves[free]] = slope(f)
        below = np.full(n, -np.inf)
        for run in reversed(tree.families):
            at = np.arange(n)[run.parents]
            below[at] = np.maximum.reduceat(own[run.children], run.starts)
            own[at] = below[at] + far[at]
        return below, far

    def _feasible(
        self,
        kappa: FloatArray,
        exact: FloatArray,
        measured: NDArray[np.bool_],
        far: FloatArray,
        top: FloatArray,
    ) -> None:
        """Move tilts to where likelihoods, tilted, are bounded."""
        for run in self._tree.families:
            at = np.arange(len(self._tree))[run.parents]
            above = np.where(self._tree.parent[at] >= 0, kappa[self._tree.parent[at]], 0.0)
            held = measured[at] | ~np.isnan(exact[at])
            kappa[at] = np.where(held, np.maximum(kappa[at], above + far[at]), above)

    # Up and down.

    def _members(self, run: Families, tilt: FloatArray, cut: float) -> Windows:
        """Return the windows of the children of a run of families."""
        at = np.arange(run.children.start, run.children.stop)
        leaf = self._is_leaf[at]
        made = Made(at.size)
        if leaf.any():
            own = np.flatnonzero(leaf)
            cells = self._of[at[own]] - self.forest.inner
            windows = self.leaf_windows(cells, tilt[self._tree.parent[at[own]]], cut)
            if leaf.all():
                return windows
            for some in batches(windows.width.astype(np.float64), _ENTRIES):
                made.put_as(own[some], windows.take(some))
        for place in np.flatnonzero(~leaf):
            made.put_as(np.array([place]), self._made[int(at[place])])
        return made.windows()

    def _added(self, run: Families, tilt: FloatArray, cut: float) -> tuple[Windows, list[Round]]:
        found = add_up(self._members(run, tilt, cut), run.counts, cut, _MOST_WORK)
        if found is None:
            raise ConvergenceError("sums of counts are too wide for exact draws: use a chain")
        return found

    def roots(self, tilt: FloatArray, cut: float) -> Windows | None:
        """Go up, and return the windows of the roots; None where nothing is left in one."""
        self._made = {}
        for run in reversed(self._tree.families):
            at = np.arange(len(self._tree))[run.parents]
            windows, _ = self._added(run, tilt, cut)
            above = np.where(self._tree.parent[at] >= 0, tilt[self._tree.parent[at]], 0.0)
            for number, place in enumerate(at):
                one = windows.take(np.array([number]))
                found = self._measured(one, int(place), above[number] - tilt[place], cut)
                if found is None:
                    return None
                self._made[int(place)] = found
        roots = np.flatnonzero(self._tree.parent < 0)
        made = Made(roots.size)
        leaf = self._is_leaf[roots]
        if leaf.any():
            own = np.flatnonzero(leaf)
            cells = self._of[roots[own]] - self.forest.inner
            windows = self.leaf_windows(cells, np.zeros(own.size), cut)
            for some in batches(windows.width.astype(np.float64), _ENTRIES):
                made.put_as(own[some], windows.take(some))
        for place in np.flatnonzero(~leaf):
            made.put_as(np.array([place]), self._made[int(roots[place])])
        return made.windows()

    def _measured(self, one: Windows, place: int, move: float, cut: float) -> Windows | None:
        """Multiply sums by what is known of them, and tilt them by a change of κ."""
        node = self._of[[place]]
        first, width = float(one.first[0]), int(one.width[0])
        x = first + np.arange(float(width))
        known = self.forest.exact[node[0]]
        f = self.forest.likelihood(node, x[:, None])[:, 0] + move * x
        if not np.isnan(known):
            f = np.where(x == known, f, -np.inf)
            top = self.forest.likelihood(node, np.array([[known]]))[0, 0] + move * known
        else:
            top = self._peak(node, x, f, move)
        if not np.isfinite(top):
            return None
        weights = one.flat[one.start[0] :][:width] * np.exp(f - top)
        if not weights.sum() > 0:
            return None
        made = Made(1)
        scale = one.log_total + top
        made.put(np.zeros(1, dtype=np.intp), one.first, weights[None], scale, one.left_out, cut)
        return made.windows()

    def _peak(self, node: Places, x: FloatArray, f: FloatArray, move: float) -> float:
        """Return the largest log likelihood, tilted, of any total >= 0: it is concave."""
        best = int(np.argmax(f))
        lowest = max(0.0, x[0])
        if 0 < best < len(f) - 1 or (best == 0 and lowest == 0.0 and len(f) > 1):
            return float(f[best])
        starts = self.forest.held[1]
        if move == 0.0 and starts[node[0]] == starts[node[0] + 1]:
            return float(f[best])

        def falls(at: FloatArray) -> NDArray[np.bool_]:
            at = np.maximum(at, 0.0)
            with np.errstate(invalid="ignore"):
                g = self.forest.likelihood(node, np.stack([at, at + 1.0]))
                step = g[1] - g[0] + move
            rises = (step > 0) | (np.isnan(step) & (at < x[0]))
            return np.asarray(~rises | (at > 2.0**50))

        peak = smallest_whole(np.array([x[best]]), lambda at: falls(at) & (at >= 0.0))
        peak = np.maximum(peak, 0.0)
        if peak[0] > 2.0**50:
            return np.inf
        g = self.forest.likelihood(node, peak[None])[0, 0] + move * peak[0]
        return float(max(g, f[best]))

    def draw(
        self, roots: Windows, tilt: FloatArray, cut: float, draws: int, seed: np.random.SeedSequence
    ) -> Whole:
        """Go down: draw the roots, and split totals."""
        tree, forest = self._tree, self.forest
        out = np.empty((draws, forest.model.cells), dtype=np.int64)
        totals: dict[int, Whole] = {}
        places = np.flatnonzero(tree.parent < 0)
        rng = np.random.default_rng(child_seed(seed, len(tree.families)))
        leaf = self._is_leaf[places]
        if leaf.any():
            own = np.flatnonzero(leaf)
            out[:, self._of[places[own]] - forest.inner] = roots.take(own).draw(draws, rng).T
        for one in np.flatnonzero(~leaf):
            totals[int(places[one])] = roots.take(np.array([one])).draw(draws, rng)[0]
        for number, run in enumerate(tree.families):
            rng = np.random.default_rng(child_seed(seed, number))
            at = np.arange(len(tree))[run.parents]
            _, rounds = self._added(run, tilt, cut)
            total = np.stack([totals.pop(int(place)) for place in at])
            members = draw_apart(rounds, total, rng)
            children = np.arange(run.children.start, run.children.stop)
            leaf = self._is_leaf[children]
            out[:, self._of[children[leaf]] - forest.inner] = members[leaf].T
            for place in np.flatnonzero(~leaf):
                totals[int(children[place])] = members[place]
        return out


# Draws from the list of all tables, where they are few.

MOST_STATES = 10**6
_MOST_CELLS = 64
_CUT = 1e-20
_ROWS = 1 << 16


def enumerated_draws(
    model: TableModel, draws: int, seed: np.random.SeedSequence, prior: CellPrior | None
) -> ExactDraws | None:
    """Draw from all tables; None where they are more than 10⁶.

    Cells without an end are cut where what is known of them alone, times the most that the sums
    could add to it, leaves out less than 1e-12 of the posterior.
    """
    if model.free.size > _MOST_CELLS:
        return None
    cut = _cut(model, prior)
    if cut is None:
        return None
    held, log_outside = cut
    found = all_tables(held, held.free, held.exact[:, held.free], MOST_STATES)
    if found is None:
        return None
    states = np.tile(held.lower, (len(found), 1))
    states[:, held.free] = found
    log_p = np.concatenate(
        [
            _log_posterior(held, states[begin : begin + _ROWS], prior)
            for begin in range(0, len(states), _ROWS)
        ]
        or [np.empty(0)]
    )
    if not np.isfinite(log_p).any():
        raise IncompatibleReleaseError(
            "values must be possible under mechanism, prior, total and zeros: no table is"
        )
    total = float(special.logsumexp(log_p))
    left_out = float(np.exp(min(log_outside - total, 0.0)))
    if left_out > MOST_LEFT_OUT:
        return None
    cumulative = np.cumsum(np.exp(log_p - total))
    point = np.random.default_rng(seed).random(draws) * cumulative[-1]
    place = np.searchsorted(cumulative, point, side="right")
    return ExactDraws(states[np.minimum(place, len(states) - 1)], left_out)


def _log_posterior(model: TableModel, states: Whole, prior: CellPrior | None) -> FloatArray:
    found = model.log_likelihood(states)
    if prior is None:
        return found
    open_ = np.flatnonzero(~model.zeros)
    return np.asarray(found + prior.log_cells(states[:, open_], open_).sum(axis=1))


def _cut(model: TableModel, prior: CellPrior | None) -> tuple[TableModel, float] | None:
    """Return the model of cells with ends, and a bound on the logarithm of what is beyond them."""
    from scipy import sparse

    open_ = model.upper == NO_END
    if not open_.any():
        return model, -np.inf
    single = np.diff(model.rows.indptr) == 1
    if model.bins is not None:
        return None
    rows = np.flatnonzero(single)
    alone = replace(
        model,
        rows=model.rows[rows],
        y=model.y[rows],
        low=model.low[rows],
        high=model.high[rows],
        law=law_of(model.law, rows, len(model.y)),
        exact=sparse.csr_array((0, model.cells), dtype=np.int64),
        exact_values=np.empty(0, dtype=np.int64),
    )
    forest = forest_of(alone)
    assert forest is not None
    try:
        every = np.arange(model.cells)
        windows = Passes(forest, prior).leaf_windows(every, np.zeros(model.cells), _CUT)
    except ConvergenceError:
        return None
    first, last = windows.first, windows.first + windows.width - 1
    # cells with ends keep them: what a window leaves out there is listed all the same
    lower = np.where(open_, first, model.lower)
    upper = np.where(open_, last, model.upper)
    outside = windows.left_out[open_].sum() * np.prod(1.0 + windows.left_out)
    with np.errstate(divide="ignore"):
        log_outside = float(np.log(outside) + windows.log_total.sum())
    rest = ~single & (model.low == model.high)
    for law, cells in model.groups:
        most = np.broadcast_to(log_density(law, np.zeros(len(cells))), len(cells))
        log_outside += float(most[rest[cells]].sum())
    return replace(model, lower=lower, upper=upper), log_outside
