"""Complete marginals in closed form, beside the general solvers and multiple precision."""

from itertools import combinations
from math import prod

import mpmath
import numpy as np
import pytest
from scipy import sparse

from dpinfer import Exact, Gaussian, combine
from dpinfer.errors import IncompatibleReleaseError, NotEstimableError
from dpinfer.queries import Domain, Workload


def problem(seed, low=-2.0, high=2.0, exact=0.2):
    """Some marginals of a random domain, in random order, each with one variance."""
    rng = np.random.default_rng(seed)
    names = [f"a{axis}" for axis in range(rng.integers(1, 5))]
    domain = Domain({name: range(rng.integers(1, 5)) for name in names})
    every = [kept for size in range(len(names) + 1) for kept in combinations(names, size)]
    kept = [every[at] for at in rng.permutation(len(every))[: rng.integers(2, 6)]]
    rows = [prod(len(domain.levels[name]) for name in one) for one in kept]
    drawn = 10.0 ** rng.uniform(low, high, len(kept))
    variance = np.repeat(np.where(rng.random(len(kept)) < exact, 0.0, drawn), rows)
    order = rng.permutation(len(variance))
    codes = Workload.from_marginals(domain, kept).codes[order]
    return Workload.from_codes(domain, codes), variance[order], rng


def laws(variance):
    return [Exact() if v == 0 else Gaussian(sigma=float(np.sqrt(v))) for v in variance]


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(40))
def test_closed_form_is_that_of_the_general_solver(seed):
    workload, variance, rng = problem(seed)
    matrix = workload.matrix
    values = matrix @ rng.integers(0, 9, matrix.shape[1])
    values = values + rng.normal(size=len(values)) * np.sqrt(variance)
    targets = np.vstack([matrix.toarray(), rng.normal(size=(3, len(values))) @ matrix])
    closed = combine(values, workload=workload, mechanism=laws(variance), target=targets)
    general = combine(values, workload=matrix, mechanism=laws(variance), target=targets)
    size = np.abs(values).max() + 1.0
    np.testing.assert_allclose(closed.params, general.params, atol=1e-12 * size)
    np.testing.assert_allclose(closed.bse, general.bse, atol=1e-13 * np.sqrt(variance.max()))
    assert (closed.rank, closed.overlap) == (general.rank, general.overlap)
    noisy = variance > 0
    np.testing.assert_allclose(
        closed.weights[:, noisy], general.weights[:, noisy], atol=1e-11 * len(values)
    )
    np.testing.assert_allclose(closed.weights @ matrix, targets, atol=1e-11 * len(values))
    every = combine(values, workload=workload, mechanism=laws(variance))
    found = combine(values, workload=matrix, mechanism=laws(variance))
    np.testing.assert_allclose(every.bse, found.bse, atol=1e-13 * np.sqrt(variance.max()))


@pytest.mark.parametrize("seed", range(4))
def test_variances_from_1e_minus_12_to_1e12(seed):
    workload, variance, _ = problem(seed, -12.0, 12.0, exact=0.0)
    matrix = workload.matrix.toarray()
    with mpmath.workdps(80):
        weighted = mpmath.matrix((matrix / variance[:, None]).T.tolist())
        gram = weighted * mpmath.matrix(matrix.tolist())
        # what is not measured is measured with next to no precision, which changes no target
        for at in range(len(matrix[0])):
            gram[at, at] += mpmath.mpf(10) ** -50
        inverse = mpmath.inverse(gram)
        rows = mpmath.matrix(matrix.tolist())
        spread = rows * inverse * rows.T
        expected = [float(mpmath.sqrt(spread[at, at])) for at in range(len(matrix))]
    errors = combine(np.zeros(len(matrix)), workload=workload, mechanism=laws(variance)).bse
    errors = np.asarray(errors)
    np.testing.assert_allclose(errors[: len(matrix)], expected, rtol=1e-13)


def square(levels, kept):
    domain = Domain({"a": range(levels), "b": range(levels)})
    return Workload.from_marginals(domain, kept)


def test_marginals_alone_do_not_tell_cells():
    workload = square(3, [("a",), ("b",)])
    values = np.array([5.0, 6.0, 7.0, 4.0, 8.0, 6.0])
    fit = combine(values, workload=workload, mechanism=Gaussian(sigma=1.0))
    assert len(fit) == 6
    assert fit.rank == 5
    with pytest.raises(NotEstimableError, match="target 0"):
        combine(values, workload=workload, mechanism=Gaussian(sigma=1.0), target=np.eye(9))


def test_exact_marginals_are_met_and_must_agree():
    workload = square(3, [("a", "b"), ("a",), ()])
    noise = [*[Gaussian(sigma=2.0)] * 9, *[Exact()] * 4]
    values = np.array([*np.arange(9.0), 5.0, 10.0, 22.0, 37.0])
    fit = combine(values, workload=workload, mechanism=noise)
    errors = np.asarray(fit.bse)
    np.testing.assert_allclose(np.asarray(fit.params)[9:], values[9:], rtol=1e-14)
    np.testing.assert_array_equal(errors[9:], 0.0)
    np.testing.assert_allclose(errors[:9], 2.0 * np.sqrt(2 / 3), rtol=1e-14)
    values[-1] = 40.0
    with pytest.raises(IncompatibleReleaseError, match="must not contradict"):
        combine(values, workload=workload, mechanism=noise)


@pytest.mark.parametrize("part", ["a missing cell", "a variance of its own", "an exact cell"])
def test_incomplete_marginals_are_left_to_the_general_solver(part):
    workload = square(4, [("a", "b"), ("a",), ("b",), ()])
    variance = np.repeat([4.0, 3.0, 2.0, 1.0], [16, 4, 4, 1])
    kept = np.arange(25) != (17 if part == "a missing cell" else -1)
    variance[18] = {"a variance of its own": 9.0, "an exact cell": 0.0}.get(part, variance[18])
    values = np.random.default_rng(1).normal(size=25)
    one, other = (
        combine(values[kept], workload=queries, mechanism=laws(variance[kept]))
        for queries in (workload.take(kept), workload.matrix[kept])
    )
    np.testing.assert_allclose(one.params, other.params, atol=1e-13)
    np.testing.assert_allclose(one.bse, other.bse, atol=1e-14)


def test_consistency_is_tested_alike():
    workload = square(4, [("a", "b"), ("a",), ("b",), ()])
    values = workload.answer(np.arange(16.0)) + np.random.default_rng(1).normal(size=25)
    one, other = (
        combine(values, workload=queries, mechanism=Gaussian(sigma=1.0)).consistency_test()
        for queries in (workload, workload.matrix)
    )
    assert one.statistic == pytest.approx(other.statistic, rel=1e-12)
    assert one.pvalue == pytest.approx(other.pvalue, rel=1e-10)


def test_boxes_of_several_levels_and_other_targets():
    workload = square(5, [("a", "b"), ("a",), ()])
    variance = np.repeat([4.0, 3.0, 2.0], [25, 5, 1])
    table = np.zeros((6, 5, 5))
    table[0, 1:4, 2:] = 0.5  # a box
    table[1, 1:4, 2:] = -1.5
    table[2, [0, 2]] = 1.0  # two rows apart
    table[3, 0, 0], table[3, 1, 1] = 1.0, 1.0  # fills half of its box
    table[4, 0, :2] = 1.0, 2.0
    targets = sparse.csr_array(table.reshape(6, 25))
    values = np.random.default_rng(1).normal(size=31)
    one, other = (
        combine(values, workload=queries, mechanism=laws(variance), target=targets)
        for queries in (workload, workload.matrix)
    )
    np.testing.assert_allclose(one.bse, other.bse, rtol=1e-13)
    assert one.bse[5] == 0.0


def test_many_margins_of_a_large_table():
    domain = Domain({"a": range(60), "b": range(50), "c": range(7)})
    names = domain.attributes
    kept = [one for size in range(4) for one in combinations(names, size)]
    workload = Workload.from_marginals(domain, kept)
    table = np.random.default_rng(1).poisson(5.0, domain.size)
    values = workload.answer(table)
    fit = combine(values, workload=workload, mechanism=Gaussian(sigma=1.0))
    np.testing.assert_allclose(fit.params, values, rtol=1e-11, atol=1e-9)
    # the variance of the total: every marginal has it, with the variance of its cells
    shares = [prod(domain.shape[names.index(name)] for name in one) for one in kept]
    assert np.asarray(fit.bse)[0] ** 2 == pytest.approx(
        1.0 / np.sum(1.0 / np.array(shares)), rel=1e-12
    )
