"""Vectors on trees, against dense generalised least squares and against scalar trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from dpinfer.estimation._tree import leaves as leaves_module
from dpinfer.estimation._tree import passes as passes_module
from dpinfer.estimation._tree.passes import Collected, VectorGains
from dpinfer.estimation._tree.scalar import Gains
from dpinfer.queries.hierarchy import Tree

Array = NDArray[np.float64]


def collected(gains: VectorGains, values: list[Array], roots: Array | None = None) -> Collected:
    """The pass up, from values of all nodes; ``roots`` are estimates from trees below."""
    below = gains.below
    sums = np.zeros((below.layout.inner.size, below.queries.size, values[0].shape[2]))
    for leaves in below.leaves:
        for chosen in leaves.chunks(values[0].shape[2]):
            places = leaves.places[chosen]
            own = [value[places] for value in values]
            leaves.add(chosen, leaves.estimate(chosen, own, below.precision[places]), sums)
    return gains.collect([value[below.layout.dense] for value in values], sums, roots)


def spread(
    gains: VectorGains, found: Collected, values: list[Array], above: Array | None = None
) -> Array:
    """The pass down: final estimates of all nodes."""
    below = gains.below
    out = np.zeros((len(below.layout.tree), *found.estimates.shape[1:]))
    gains.spread(found, above)
    out[below.layout.dense] = found.estimates
    for leaves in below.leaves:
        for chosen in leaves.chunks(values[0].shape[2]):
            places = leaves.places[chosen]
            own = leaves.estimate(chosen, [one[places] for one in values], below.precision[places])
            own += leaves.moved(chosen, found.sums)
            out[places[:, None], leaves.levels] = own
    return out


def estimated(gains: VectorGains, values: list[Array]) -> Array:
    return spread(gains, collected(gains, values), values)


@dataclass
class Case:
    """A small tree, what is measured of it, and functionals of which to ask."""

    tree: Tree
    queries: list[Array]
    precision: Array
    zeros: NDArray[np.bool_] | None
    values: list[Array]
    functionals: Array

    def gains(self) -> VectorGains:
        return VectorGains.up(self.tree, self.queries, self.precision, self.zeros).down()


def paths(tree: Tree, size: int) -> Array:
    """Rows that take the vectors of all leaves to that of each node, shape (n, g, leaves * g)."""
    leaves = np.setdiff1d(np.arange(len(tree)), tree.parent)
    member = np.zeros((len(tree), leaves.size))
    for column, leaf in enumerate(leaves):
        node = int(leaf)
        while node >= 0:
            member[node, column] = 1.0
            node = int(tree.parent[node])
    found = np.einsum("nl,gh->nglh", member, np.eye(size))
    return found.reshape(len(tree), size, -1)


def random_queries(rng: np.random.Generator, size: int) -> list[Array]:
    """The identity, ones, groupings that need not be nested, and other 0/1 rows."""
    found: list[Array] = [np.eye(size)] if rng.random() < 0.9 else []
    for _ in range(rng.integers(0 if found else 1, 4)):
        kind = rng.random()
        if kind < 0.3:
            found.append(np.ones((1, size)))
        elif kind < 0.85:
            group = rng.integers(0, rng.integers(1, size + 1), size)
            found.append((group == np.unique(group)[:, None]).astype(float))
        else:
            rows = (rng.random((rng.integers(1, 4), size)) < 0.5).astype(float)
            found.append(rows if rows.any() else np.eye(size))
    if rng.random() < 0.1:
        found.append(np.eye(size))
    return found


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    size, number, columns = (int(rng.integers(1, top)) for top in (7, 22, 4))
    parent = [-1] + [int(rng.integers(max(0, i - rng.integers(1, 6)), i)) for i in range(1, number)]
    roots = rng.random(number) < rng.choice([0.0, 0.0, 0.1])
    tree = Tree.of(np.where(roots, -1, parent))
    queries = random_queries(rng, size)
    precision = np.exp(rng.normal(0.0, rng.choice([0.5, 2.0]), (number, len(queries))))
    chance = rng.random(precision.shape)
    precision[chance < rng.choice([0.0, 0.0, 0.2, 0.5, 0.9])] = 0.0
    precision[chance > 1.0 - rng.choice([0.0, 0.0, 0.05, 0.3])] = np.inf
    if rng.random() < 0.2:
        precision[0] = np.inf
    zeros = None
    if rng.random() < 0.5:
        zeros = rng.random((number, size)) < rng.choice([0.1, 0.4, 0.8])
    path = paths(tree, size)
    truth = rng.normal(0.0, 10.0, (path.shape[2], columns))
    if zeros is not None:
        truth -= np.linalg.pinv(path[zeros]) @ (path[zeros] @ truth)
    values = []
    for matrix, own in zip(queries, precision.T, strict=True):
        noise = rng.normal(size=(number, len(matrix), columns))
        scale = np.where(np.isfinite(own) & (own > 0.0), 1.0, 0.0)
        scale /= np.sqrt(np.where(scale > 0.0, own, 1.0))
        values.append(matrix @ (path @ truth) + noise * scale[:, None, None])
        values[-1][own == 0.0] = 100.0
    functionals = np.concatenate(
        [np.eye(size), np.ones((1, size)), *queries, rng.integers(-2, 3, (2, size))]
    )
    return Case(tree, queries, precision, zeros, values, functionals)


def without_noise(case: Case, path: Array) -> tuple[Array, Array]:
    """Rows that are exact, and their values."""
    fixed = [np.zeros((0, path.shape[2]))]
    known = [np.zeros((0, case.values[0].shape[2]))]
    for matrix, precision, value in zip(case.queries, case.precision.T, case.values, strict=True):
        for node in np.flatnonzero(np.isinf(precision)):
            fixed.append(matrix @ path[node])
            known.append(value[node])
    if case.zeros is not None:
        fixed.append(path[case.zeros])
        known.append(np.zeros((int(case.zeros.sum()), known[0].shape[1])))
    return np.concatenate(fixed), np.concatenate(known)


def dense(case: Case) -> tuple[Array, Array]:
    """Estimates and variances, infinite if not estimable: rows without noise by a null space."""
    path = paths(case.tree, case.queries[0].shape[1])
    columns = case.values[0].shape[2]
    every, target = path.shape[2], np.einsum("kg,ngx->nkx", case.functionals, path)
    rows, variances, values = [np.zeros((0, every))], [np.zeros(0)], [np.zeros((0, columns))]
    for matrix, precision, value in zip(case.queries, case.precision.T, case.values, strict=True):
        for node in np.flatnonzero((precision > 0.0) & np.isfinite(precision)):
            rows.append(matrix @ path[node])
            variances.append(np.full(len(matrix), 1.0 / precision[node]))
            values.append(value[node])
    exact, known = without_noise(case, path)
    start = np.linalg.pinv(exact) @ known
    _, sizes, right = np.linalg.svd(exact)
    free = right[int((sizes > 1e-9).sum()) :].T
    measured = np.concatenate(rows)
    scale = np.sqrt(np.concatenate(variances))[:, None]
    _, sizes, right = np.linalg.svd(measured @ free)
    seen = right[: int((sizes > 1e-9).sum())].T
    left, triangle = np.linalg.qr(measured @ free @ seen / scale)
    apart = (np.concatenate(values) - measured @ start) / scale
    half = seen @ np.linalg.inv(triangle)
    found = target @ (start + free @ half @ (left.T @ apart))
    within = target @ free
    unseen = np.abs(within - within @ seen @ seen.T).max(axis=2, initial=0.0) > 1e-8
    return found, np.where(unseen, np.inf, ((within @ half) ** 2).sum(axis=2))


@pytest.mark.parametrize("block", range(8))
def test_agrees_with_dense_least_squares(block: int) -> None:
    for seed in range(50 * block, 50 * block + 13):
        case = random_case(seed)
        gains = case.gains()
        upward = collected(gains, case.values)
        assert not upward.contradictions.size
        found = case.functionals @ spread(gains, upward, case.values)
        variance = gains.variance(case.functionals)
        estimates, variances = dense(case)
        assert (np.isinf(variance) == np.isinf(variances)).all(), seed
        known = np.isfinite(variances)
        size = max(1.0, float(np.abs(estimates[known]).max(initial=0.0)))
        assert np.abs(found - estimates)[known].max(initial=0.0) <= 1e-9 * size, seed
        zero = variances < 1e-12
        assert (variance[zero] == 0.0).all(), seed
        assert np.allclose(variance[known & ~zero], variances[known & ~zero], rtol=1e-10, atol=0.0)


def split(case: Case, depth: int) -> tuple[Array, Array]:
    """Estimates and variances from trees below nodes of one depth, and the tree above these."""
    tree, size = case.tree, case.queries[0].shape[1]
    depths = np.zeros(len(tree), dtype=int)
    for node in range(len(tree)):
        if tree.parent[node] >= 0:
            depths[node] = depths[tree.parent[node]] + 1
    cut = np.flatnonzero(depths == depth)
    low, high = np.flatnonzero(depths >= depth), np.flatnonzero(depths <= depth)
    parent = np.where(depths[low] == depth, -1, np.searchsorted(low, tree.parent[low]))

    def part(nodes: NDArray[np.intp]) -> tuple[list[Array], Array, NDArray[np.bool_] | None]:
        zeros = None if case.zeros is None else case.zeros[nodes]
        return [value[nodes] for value in case.values], case.precision[nodes], zeros

    lower, precision, zeros = part(low)
    below = VectorGains.up(Tree.of(parent), case.queries, precision, zeros)
    upward = collected(below, lower)
    message = below.message()
    values, precision, zeros = part(high)
    message = type(message)(np.searchsorted(high, cut), message.beliefs)
    above = VectorGains.up(
        Tree.of(tree.parent[high]), case.queries, precision, zeros, message
    ).down()
    roots = upward.estimates[below.below.layout.parent < 0]
    upper = spread(above, collected(above, values, roots), values)
    below = below.down(above.answer(message.places))
    found = np.zeros((len(tree), size, values[0].shape[2]))
    found[high] = upper
    found[low] = spread(below, upward, lower, upper[message.places])
    variance = np.zeros((len(tree), len(case.functionals)))
    variance[high] = above.variance(case.functionals)
    variance[low] = below.variance(case.functionals)
    return case.functionals @ found, variance


@pytest.mark.parametrize(
    "seeds",
    [
        range(12),
        pytest.param(range(12, 25), marks=pytest.mark.study),
        pytest.param(range(25, 60), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_trees_in_parts_give_the_same(seeds: range) -> None:
    for seed in seeds:
        case = random_case(seed)
        gains = case.gains()
        whole, variances = (
            case.functionals @ estimated(gains, case.values),
            gains.variance(case.functionals),
        )
        for depth in (0, 1, 2):
            found, variance = split(case, depth)
            known = np.isfinite(variances)
            assert (np.isinf(variance) == ~known).all(), seed
            assert np.allclose(found[known], whole[known], rtol=1e-12, atol=1e-11), seed
            assert np.allclose(variance[known], variances[known], rtol=1e-11, atol=1e-13), seed
            assert ((variance == 0.0) == (variances == 0.0)).all(), seed


def test_one_level_is_a_scalar_tree() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        number = int(rng.integers(1, 60))
        tree = Tree.of(np.array([-1] + [int(rng.integers(0, i)) for i in range(1, number)]))
        variance = rng.choice([0.0, 0.5, 1.0, 3.0, np.inf], number, p=[0.1, 0.3, 0.2, 0.2, 0.2])
        values = rng.normal(size=(number, 1, 2))
        # exact values of a node and of all its children would contradict each other
        variance[np.setdiff1d(tree.parent, -1)] += 1.0
        with np.errstate(divide="ignore"):
            precision = 1.0 / variance[:, None]
        values[np.isinf(variance)] = 0.0
        scalar = Gains.of(tree, variance)
        gains = VectorGains.up(tree, [np.eye(1)], precision).down()
        found = estimated(gains, [values])[:, 0].T
        known = np.isfinite(scalar.variance)
        expected = scalar.estimates(np.moveaxis(values[:, 0], 0, -1))
        assert np.allclose(found[:, known], expected[:, known], rtol=0.0, atol=1e-12)
        final = gains.variance(np.eye(1))[:, 0]
        assert np.allclose(final, scalar.variance, rtol=1e-12, atol=1e-14)


def test_contradictions_are_found_where_they_are() -> None:
    tree = Tree.of(np.array([-1, 0, 0, 1, 1]))
    precision = np.array([[0.0, 1.0], [np.inf, np.inf], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    queries = [np.eye(3), np.ones((1, 3))]
    values = [np.ones((5, 3, 1)), np.full((5, 1, 1), 3.0)]
    gains = VectorGains.up(tree, queries, precision).down()
    assert collected(gains, values).contradictions.size == 0
    values[1][1] = 4.0
    assert collected(gains, values).contradictions.tolist() == [1]


def test_contradictions_are_found_if_and_only_if_there_are_some() -> None:
    found = 0
    for seed in range(45):
        rng = np.random.default_rng(seed + 10**6)
        case = random_case(seed)
        exact = np.argwhere(np.isinf(case.precision))
        if not exact.size:
            continue
        node, query = exact[rng.integers(len(exact))]
        case.values[query][node, rng.integers(len(case.queries[query])), 0] += 1.0
        rows, known = without_noise(case, paths(case.tree, case.queries[0].shape[1]))
        apart = np.abs(rows @ (np.linalg.pinv(rows) @ known) - known).max()
        contradicted = collected(case.gains(), case.values).contradictions.size > 0
        assert contradicted == (apart > 1e-7), seed
        found += contradicted
    assert 5 < found < 30


def test_exact_children_contradict_an_exact_parent() -> None:
    tree = Tree.of(np.array([-1, 0, 0]))
    precision = np.array([[np.inf], [np.inf], [np.inf]])
    values = np.array([[5.0, 2.0], [2.0, 1.0], [3.0, 1.0]])[:, :, None]
    gains = VectorGains.up(tree, [np.eye(2)], precision).down()
    assert collected(gains, [values]).contradictions.size == 0
    values[0, 1] = 3.0
    assert collected(gains, [values]).contradictions.tolist() == [0]


def test_values_contradict_structural_zeros() -> None:
    tree = Tree.of(np.array([-1, 0]))
    zeros = np.array([[False, True], [False, False]])
    precision = np.array([[1.0], [np.inf]])
    gains = VectorGains.up(tree, [np.eye(2)], precision, zeros).down()
    values = np.array([[1.0, 7.0], [2.0, 0.0]])[:, :, None]
    assert collected(gains, [values]).contradictions.size == 0
    values[1, 1] = 1.0
    assert collected(gains, [values]).contradictions.tolist() == [0]


def tabular_case(rng: np.random.Generator, leaves: int, size: int) -> Case:
    """Nested groupings, all measured, and of most leaves only the first level active."""
    parent = np.concatenate([[-1], np.zeros(3, int), np.sort(rng.integers(1, 4, leaves))])
    tree = Tree.of(parent)
    group = np.arange(size) * 3 // size
    queries = [np.eye(size), (group == np.arange(3)[:, None]).astype(float), np.ones((1, size))]
    precision = np.exp(rng.normal(0.0, 0.7, (len(tree), 3)))
    zeros = rng.random((len(tree), size)) < 0.3
    zeros[rng.random(len(tree)) < 0.5, 1:] = True
    zeros[:4] = False
    values = [rng.normal(size=(len(tree), len(matrix), 2)) for matrix in queries]
    return Case(tree, queries, precision, zeros, values, queries[1])


@pytest.mark.parametrize(("leaves", "size", "alike"), [(90, 6, 12), (14, 40, 3)])
def test_leaves_with_the_same_zeros_and_others(
    leaves: int, size: int, alike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves_module, "_ALIKE", alike)
    case = tabular_case(np.random.default_rng(size), leaves, size)
    gains = case.gains()
    assert {some.mask is None for some in gains.below.leaves} == {True, False}
    estimates, variances = dense(case)
    found = estimated(gains, case.values)
    assert np.allclose(case.functionals @ found, estimates, rtol=0.0, atol=1e-9)
    known = np.isfinite(variances) & (variances > 1e-12)
    assert np.allclose(
        gains.variance(case.functionals)[known], variances[known], rtol=1e-10, atol=0.0
    )
    assert not found[case.zeros].any()


@pytest.mark.parametrize(
    "seeds",
    [
        range(12),
        pytest.param(range(12, 25), marks=pytest.mark.study),
        pytest.param(range(25, 60), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    cases = [random_case(seed) for seed in seeds]
    cases.append(tabular_case(np.random.default_rng(3), 300, 8))
    before = [(estimated(case.gains(), case.values), case.gains()) for case in cases]
    variances = [gains.variance(np.eye(gains.below.queries.size)) for _, gains in before]
    for module in (leaves_module, passes_module):
        monkeypatch.setattr(module, "CHUNK", 40)
    monkeypatch.setattr(leaves_module, "_ALIKE", 2)
    for case, (expected, _), variance in zip(cases, before, variances, strict=True):
        gains = case.gains()
        known = np.isfinite(variance)
        found = estimated(gains, case.values)
        assert np.allclose(found[known], expected[known], rtol=0.0, atol=1e-10)
        again = gains.variance(np.eye(gains.below.queries.size))
        assert np.allclose(again, variance, rtol=1e-10, atol=1e-12)


def test_a_single_child_has_the_variance_of_its_parent() -> None:
    """Also where that is far below what it has alone, so that differences would cancel."""
    tree = Tree.of(np.array([-1, 0, 1, 1]))
    precision = np.array([[1e12, 1e12], [1e-4, 1e-4], [1.0, 1e-3], [1e9, 1e9]])
    gains = VectorGains.up(tree, [np.eye(4), np.ones((1, 4))], precision).down()
    functionals = np.concatenate([np.eye(4), np.ones((1, 4))])
    found = gains.variance(functionals)
    top = np.linalg.inv(1e12 * np.eye(4) + 1e12)
    others = np.linalg.inv(1e9 * np.eye(4) + 1e9)
    both = np.einsum("kg,gh,kh->k", functionals, top + others, functionals)
    assert np.allclose(found[1], np.einsum("kg,gh,kh->k", functionals, top, functionals), rtol=1e-9)
    assert np.allclose(found[2], both, rtol=1e-7)


def test_variances_need_the_pass_down():
    queries, precision = [np.eye(2)], np.ones((3, 1))
    gains = VectorGains.up(Tree.of(np.array([-1, 0, 0])), queries, precision)
    with pytest.raises(ValueError, match="pass down has not been made"):
        gains.variance(np.eye(2))
