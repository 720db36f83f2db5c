"""Trees of tables gone through in parts, as one."""

import numpy as np
import pytest

from dpinfer.estimation._tree.axes import Axes
from dpinfer.estimation._tree.tables import (
    MeasuredTables,
    PlacedMarginal,
    Received,
    TablePasses,
    marginal_of,
)
from dpinfer.queries.hierarchy import Tree

AXES = Axes.of({"sex": 2, "race": 3})
KEPT = [0, 1, 2, 3, 3]


def parents(rng, roots, size):
    """A tree in breadth-first order: parents that never decrease."""
    below = np.sort([int(rng.integers(0, max(1, at // 2))) for at in range(roots, size)])
    return np.concatenate([np.full(roots, -1), np.minimum(below, np.arange(roots, size) - 1)])


def measure(rng, size, there):
    """Random marginals, missing in places, the detailed one nowhere where it is there at all."""
    found = []
    for number, kept in enumerate(KEPT):
        precision = rng.uniform(0.2, 2.0, size) * (rng.random(size) < 0.7) * there
        exact = (rng.random(size) < 0.1) & there if number == 0 else np.zeros(size, dtype=bool)
        if number == 4:
            precision = rng.uniform(0.2, 2.0, size) * (rng.random(size) < 0.9) * there
        values = rng.normal(size=(size, 1, *AXES.shape(kept)))
        precision[exact] = 0.0
        found.append(PlacedMarginal(kept, values, None, precision, exact))
    return found


def part(marginals, rows):
    return MeasuredTables(
        AXES,
        tuple(
            PlacedMarginal(one.kept, one.values[rows], None, one.precision[rows], one.exact[rows])
            for one in marginals
        ),
    )


def coefficients(tables):
    return marginal_of(AXES, AXES.full, tables)  # its own inverse


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(30))
def test_parts_are_as_good_as_the_whole(seed):
    rng = np.random.default_rng(seed)
    parent = parents(rng, 1, int(rng.integers(8, 40)))
    size = parent.size
    leaf = ~np.isin(np.arange(size), parent)
    marginals = measure(rng, size, np.ones(size, dtype=bool))
    for one in marginals:  # exact totals at leaves only, so that they cannot contradict
        one.exact[:] &= leaf
    whole = TablePasses.of(Tree.of(parent), part(marginals, np.arange(size)))
    tables = coefficients(whole.down(whole.up(part(marginals, np.arange(size)))))
    variance = np.array([gains.variance for gains in whole.gains])

    cut = np.flatnonzero(parent == 0)
    upper = np.concatenate([[0], cut])
    sent, kept_parts = [], []
    for root in cut:
        rows = [root]
        for at in range(root + 1, size):
            if parent[at] in rows:
                rows.append(at)
        rows = np.array(rows)
        own = np.searchsorted(rows, parent[rows])
        own[0] = -1
        tree, measured = Tree.of(own), part(marginals, rows)
        passes = TablePasses.of(tree, measured)
        upward = passes.up(measured)
        sent.append(passes.message(upward))
        kept_parts.append((rows, tree, measured, upward))
    known = {name: np.concatenate([one[name] for one in sent]) for name in ("tables", "variance")}
    received = Received(1 + np.arange(cut.size), known)
    top = part(marginals, upper)
    for one in top.marginals:
        one.precision[1:], one.exact[1:] = 0.0, False
    passes = TablePasses.of(Tree.of(np.where(np.arange(upper.size) == 0, -1, 0)), top, received)
    above = coefficients(passes.down(passes.up(top)))
    spread = np.array([gains.variance for gains in passes.gains])
    np.testing.assert_allclose(spread, variance[:, upper], rtol=1e-12)
    for number, (rows, tree, measured, upward) in enumerate(kept_parts):
        found = TablePasses.of(tree, measured, roots=spread.T[[1 + number]])
        below = coefficients(found.down(upward, above[[1 + number]]))
        own = np.array([gains.variance for gains in found.gains])
        np.testing.assert_allclose(own, variance[:, rows], rtol=1e-12)
        for at, corner in enumerate(AXES.corners):
            there = np.isfinite(own[at])
            np.testing.assert_allclose(
                below[there][corner], tables[rows][there][corner], rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("chunk", [1, 7, 40, 1000])
def test_the_size_of_chunks_does_not_matter(chunk, monkeypatch):
    rng = np.random.default_rng(40)
    parent = parents(rng, 3, 60)
    measured = part(measure(rng, 60, np.ones(60, dtype=bool)), np.arange(60))
    for one in measured.marginals:
        one.exact[:] = False
    passes = TablePasses.of(Tree.of(parent), measured)
    expected = passes.down(passes.up(measured))
    monkeypatch.setattr("dpinfer.estimation._tree.tables._CHUNK", chunk)
    again = TablePasses.of(Tree.of(parent), measured)
    np.testing.assert_allclose(again.down(again.up(measured)), expected, rtol=1e-9, atol=1e-12)


def test_coefficients_of_a_class_are_where_the_corner_says():
    table = np.arange(12.0).reshape((2, 1, 2, 3))
    total = table.sum(axis=(2, 3))
    turned = coefficients(table)
    found = turned[AXES.corners[0]].reshape((2, 1))
    np.testing.assert_allclose(found * np.sqrt(6.0), total)
    sizes = [turned[corner][0].size for corner in AXES.corners]
    assert sizes == list(AXES.degrees())
    assert sum(sizes) == 6
