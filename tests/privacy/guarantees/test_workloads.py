"""Guarantees of answers whose noise is shared, from queries and weights alone."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from dpinfer import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Workload
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Rounded, WeightedSum
from dpinfer.privacy import GDP, ZCDP, PureDP, guarantee_of_workload
from dpinfer.queries import l1_sensitivity, l2_sensitivity

ONE = Laplace(scale=1.0)
STRATEGIES = [
    Workload.identity(8),
    Workload.tree(8),
    Workload.tree(8, root=False),
    Workload.haar(8),
    Workload.prefixes(8),
    Workload.square_root(8),
]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_own_noise_has_the_sensitivity_of_the_workload(strategy, neighbours):
    pure = guarantee_of_workload(strategy, Laplace(scale=2.0), neighbours=neighbours)
    assert pure == PureDP(l1_sensitivity(strategy, neighbours) / 2.0, neighbours=neighbours)
    found = guarantee_of_workload(strategy, Gaussian(sigma=2.0), neighbours=neighbours)
    assert found.mu == pytest.approx(l2_sensitivity(strategy, neighbours) / 2.0, rel=1e-12)
    eye = guarantee_of_workload(
        strategy, Laplace(scale=2.0), weights=np.eye(len(strategy)), neighbours=neighbours
    )
    assert eye.epsilon == pytest.approx(pure.epsilon, rel=1e-12)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_scales_of_rows(neighbours):
    rng = np.random.default_rng(1)
    for _ in range(50):
        m, n = rng.integers(1, 6, 2)
        a, b = rng.normal(size=(m, n)), rng.uniform(0.5, 3.0, m)
        moves = (
            [a[:, i] - a[:, j] for i in range(n) for j in range(i + 1)]
            if neighbours == "replace"
            else list(a.T)
        )
        want = max(np.abs(one / b).sum() for one in moves)
        found = guarantee_of_workload(a, Laplace(scale=b), neighbours=neighbours).epsilon
        assert found == pytest.approx(want, rel=1e-12)
        want = max(np.sqrt(np.square(one / b).sum()) for one in moves)
        found = guarantee_of_workload(a, Gaussian(sigma=b), neighbours=neighbours).mu
        assert found == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("root", [True, False])
def test_best_estimates_from_a_tree_cost_what_the_tree_costs(root):
    # 3 for each cell with the root: by linear programmes, and from W Wᵀ its square root
    tree = Workload.tree(4, root=root)
    weights = np.linalg.pinv(tree.matrix.toarray())
    levels = 3 if root else 2
    pure = guarantee_of_workload(np.eye(4), ONE, weights=weights)
    assert pure.epsilon == pytest.approx(levels, rel=1e-9)
    found = guarantee_of_workload(np.eye(4), Gaussian(sigma=1.0), weights=weights)
    assert found.mu == pytest.approx(np.sqrt(levels), rel=1e-9)
    for k in range(4):
        cell = np.eye(4)[:, [k]]
        assert guarantee_of_workload(cell, ONE, weights=weights).epsilon == pytest.approx(levels)
    # all prefixes and ranges say no more than the cells
    for target in (Workload.prefixes(4), Workload.ranges(4)):
        every = target.matrix.toarray() @ weights
        again = guarantee_of_workload(target, ONE, weights=every)
        assert again.epsilon == pytest.approx(levels, rel=1e-9)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_gaussian_noise_against_the_covariance(neighbours):
    rng = np.random.default_rng(2)
    for _ in range(30):
        m, n, q = rng.integers(1, 7), rng.integers(1, 6), rng.integers(1, 9)
        w = rng.normal(size=(m, q))
        a = w @ rng.normal(size=(q, n))  # within the range of the noise
        sigma = rng.uniform(0.5, 2.0, q)
        v = np.linalg.pinv(w * sigma**2 @ w.T, rcond=1e-12)
        moves = list(a.T)
        if neighbours == "replace":
            moves = [a[:, i] - a[:, j] for i, j in itertools.product(range(n), repeat=2)]
        want = np.sqrt(max(one @ v @ one for one in moves))
        found = guarantee_of_workload(a, Gaussian(sigma=sigma), weights=w, neighbours=neighbours)
        assert isinstance(found, GDP)
        assert found.mu == pytest.approx(want, rel=1e-7, abs=1e-9)


def test_linear_programmes_against_their_duals():
    # the largest uᵀa with all abs(uᵀwᵢ)bᵢ <= 1: over vertices, by enumeration
    rng = np.random.default_rng(3)
    for _ in range(20):
        w, b = rng.normal(size=(2, 5)), rng.uniform(0.5, 2.0, 5)
        a = rng.normal(size=(2, 3))
        scaled = w * b
        best = 0.0
        for i, j in itertools.combinations(range(5), 2):
            for signs in itertools.product([-1, 1], repeat=2):
                u = np.linalg.solve(scaled[:, [i, j]].T, signs)
                if np.abs(u @ scaled).max() <= 1 + 1e-9:
                    best = max(best, np.abs(u @ a).max())
        found = guarantee_of_workload(a, Laplace(scale=b), weights=sp.csr_array(w))
        assert found.epsilon == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("scales", [(1.0, 1.0), (1.0, 3.0)])
def test_the_guarantee_holds_for_the_densities(scales):
    law = WeightedSum([1.0, 1.0], Laplace(scale=list(scales)))
    found = guarantee_of_workload([[1.0]], Laplace(scale=list(scales)), weights=[[1.0, 1.0]])
    assert found.epsilon == pytest.approx(1.0 / max(scales))
    x = np.linspace(-30, 30, 601)
    tails = [np.asarray(law.sf(x + shift)) for shift in (0.0, 1.0)]
    assert np.log(tails[0] / tails[1]).max() <= found.epsilon + 1e-9


def test_whole_noise():
    law = Geometric(scale=2.0)
    totals = Workload.prefixes(4)
    found = guarantee_of_workload(totals, law, weights=totals.matrix)
    assert found.epsilon == pytest.approx(0.5)
    discrete = guarantee_of_workload(totals, DiscreteGaussian(sigma=2.0), weights=totals.matrix)
    assert isinstance(discrete, ZCDP)
    assert discrete.rho == pytest.approx(0.125)
    rounded = guarantee_of_workload(totals, Rounded(Laplace(scale=2.0)))
    assert rounded.epsilon == pytest.approx(2.0)
    # one answer with two noises: what moves it by one is whole, the cheaper of the two
    two = guarantee_of_workload([[1.0]], Geometric(scale=[1.0, 4.0]), weights=[[1.0, 1.0]])
    assert two.epsilon == pytest.approx(0.25)
    # a move by 1/2 of either noise would be cheaper, but is none
    three = guarantee_of_workload([[1.0]], Geometric(scale=1.0), weights=[[2.0, 3.0]])
    assert three.epsilon == pytest.approx(2.0)  # 3 - 2
    assert guarantee_of_workload([[1.0]], ONE, weights=[[2.0, 3.0]]).epsilon == pytest.approx(1 / 3)
    pair = guarantee_of_workload(
        np.eye(2), Geometric(scale=1.0), weights=[[1, 0, 1], [0, 1, 1]], neighbours="replace"
    )
    assert pair.epsilon == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("workload", "law", "options", "message"),
    [
        ([[1.0, 0], [0, 1]], ONE, {"weights": [[1.0], [1.0]]}, "no guarantee with these weights"),
        ([[1.0, 1], [0, 1]], ONE, {"weights": [[1.0], [0.0]]}, "cell 1 moves the answers"),
        ([[1.0]], ONE, {"weights": [[0.0]]}, "must not be 0"),
        ([[1.0]], ONE, {"weights": np.eye(2)}, "1 rows"),
        ([[0.5]], Geometric(scale=1.0), {}, "whole numbers"),
        ([[1.0]], Geometric(scale=1.0), {"weights": [[2.0]]}, "whole numbers"),
        ([[1.0]], Geometric(scale=1.0), {"weights": [[2.0, 4.0]]}, "none was found"),
        # without noise, and small beside what else is asked
        ([[1.0, 0], [0, 1e-12]], ONE, {"weights": [[1.0], [0.0]]}, "cell 1 moves the answers"),
        ([[1.0]], DiscreteGaussian(sigma=1.0), {"weights": [[1.0, 1.0]]}, "independent columns"),
        ([[1.0]], Exact(), {}, "mechanism must be"),
        ([[1.0]], Laplace(scale=[1.0, 2.0]), {}, "each of the 1"),
        ([[1.0]], ONE, {"neighbours": "near"}, "neighbours"),
    ],
)
def test_what_has_no_guarantee(workload, law, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        guarantee_of_workload(workload, law, **options)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_whole_noise_of_many_cells_needs_no_dense_matrix(neighbours):
    size = 100_000  # dense, 75 GiB
    found = guarantee_of_workload(
        Workload.identity(size), Geometric(scale=2.0), neighbours=neighbours
    )
    assert found.epsilon == pytest.approx(0.5 if neighbours == "add-remove" else 1.0)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_whole_differences_of_fractions(kind):
    law = Geometric(scale=1.0)
    for matrix, epsilon in (([[0.5, 1.5], [2, 0]], 3.0), ([[0.25, -0.75], [0.5, 0.5]], 1.0)):
        found = guarantee_of_workload(kind(np.array(matrix)), law, neighbours="replace")
        assert found.epsilon == pytest.approx(epsilon)
    with pytest.raises(InvalidParameterError, match="whole numbers"):
        guarantee_of_workload(kind(np.array([[0.5, 0], [1, 1]])), law, neighbours="replace")


def test_a_search_for_whole_moves_ends():
    # columns of W that are whole, whose whole sums do not give the first column of A
    w = [[2, 4, 6, 0, 2, 8], [0, 2, 4, 2, 6, 10], [3, 1, 2, 5, 1, 7]]
    with pytest.raises(InvalidParameterError, match="none was found"):
        guarantee_of_workload([[1.0], [0.0], [0.0]], Geometric(scale=1.0), weights=w)
