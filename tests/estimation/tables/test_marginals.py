"""Estimates of tables on trees beside generalised least squares on dense matrices."""

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from dpinfer.errors import NotEstimableError
from dpinfer.estimation import NoisyMarginal, StructuralZeros, combine, combine_marginals
from dpinfer.mechanisms import Exact, Gaussian, IndependentNoise
from dpinfer.queries import Domain, Hierarchy

SCALES = [0.5, 1.0, 2.0]


def unit_rows(parent, opened):
    """Units as sums of leaves and of the rests of units that are not exhausted."""
    leaves = [unit for unit in range(parent.size) if not (parent == unit).any()]
    matrix = np.zeros((parent.size, len(leaves) + len(opened)))
    for column, leaf in enumerate(leaves + opened):
        unit = leaf
        while unit >= 0:
            matrix[unit, column] = 1.0
            unit = parent[unit]
    return matrix


def cell_rows(matrices):
    """The cells of a marginal as sums of cells, from what it keeps of each attribute."""
    return functools.reduce(np.kron, matrices, np.ones((1, 1)))


@dataclass
class Problem:
    """A random tree and schema, with marginals of some units, and the same as dense rows."""

    hierarchy: Hierarchy
    domain: Domain
    units: np.ndarray
    marginals: list
    rows: np.ndarray
    values: np.ndarray
    variance: np.ndarray
    groupings: dict
    zeros: list

    def combine(self, **options):
        return combine_marginals(
            self.marginals,
            self.hierarchy,
            domain=self.domain,
            groupings=self.groupings,
            zeros=self.zeros,
            **options,
        )

    def cells(self, names):
        """The cells of the marginal that keeps these names, in their order, as sums of cells."""
        by_attribute = {self.groupings[n][0] if n in self.groupings else n: n for n in names}
        matrices, shape = [], []
        for attribute, levels in self.domain.levels.items():
            name = by_attribute.get(attribute)
            if name is None:
                matrices.append(np.ones((1, len(levels))))
                continue
            groups = self.groupings[name][1] if name in self.groupings else {x: x for x in levels}
            order = list(dict.fromkeys(groups[level] for level in levels))
            matrices.append(np.array([[float(groups[x] == g) for x in levels] for g in order]))
        rows = cell_rows(matrices)
        kept = [attribute for attribute in self.domain.attributes if attribute in by_attribute]
        shape = [
            len(one)
            for one, attribute in zip(matrices, self.domain.attributes, strict=True)
            if attribute in by_attribute
        ]
        order = [
            kept.index(next(a for a, n in by_attribute.items() if n == name)) for name in names
        ]
        cells = rows.reshape((*shape, self.domain.size))
        return cells.transpose((*order, len(shape))).reshape((-1, self.domain.size))

    def subsets(self):
        """All marginals, their names forwards or backwards."""
        names = [*self.domain.attributes, *self.groupings]
        for size in range(len(self.domain.attributes) + 1):
            for number, some in enumerate(itertools.combinations(names, size)):
                kept = some[:: 1 if number % 2 else -1]
                of = [self.groupings[n][0] if n in self.groupings else n for n in kept]
                if len(set(of)) == len(of):
                    yield kept


def random_problem(seed, block=False):
    """Make a problem with units that miss marginals, exact values, and, in a block, zeros."""
    rng = np.random.default_rng([seed, block])
    size = int(rng.integers(1, 8))
    parent = np.array([-1] + [int(rng.integers(0, unit)) for unit in range(1, size)])
    if rng.random() < 0.2:
        parent[rng.integers(0, size)] = -1
    if rng.random() < 0.5:
        number = rng.permutation(size)
        mixed = np.empty(size, dtype=int)
        mixed[number] = np.where(parent < 0, -1, number[parent])
        parent = mixed
    inner = [unit for unit in range(size) if (parent == unit).any()]
    opened = [unit for unit in inner if rng.random() < 0.2]
    least = 1 if block else 0
    shape = [int(n) for n in rng.choice([1, 2, 2, 3, 4], int(rng.integers(least, 4)))]
    domain = Domain({name: range(n) for name, n in zip("abc", shape, strict=False)})
    units = unit_rows(parent, opened)
    truth = rng.integers(0, 30, (units.shape[1], *shape))
    found = Problem(
        Hierarchy(parent, not_exhausted=opened), domain, units, [], None, None, None, {}, []
    )
    rows, values, variances = [], [], []
    if block:
        for name in ("g", "h")[: int(rng.integers(0, 3))]:
            attribute = domain.attributes[int(rng.integers(len(shape)))]
            levels = domain.levels[attribute]
            found.groupings[name] = (attribute, {x: int(rng.integers(2)) for x in levels})
        for _ in range(int(rng.integers(0, 3))):
            where = {
                name: [int(rng.integers(len(levels)))]
                for name, levels in domain.levels.items()
                if rng.random() < 0.5
            }
            if where:
                at = None if rng.random() < 0.3 else rng.permutation(size)[:2]
                found.zeros.append(StructuralZeros(where, at))
                chosen = [where.get(name, range(n)) for name, n in zip("abc", shape, strict=False)]
                cells = np.zeros(shape)
                cells[np.ix_(*chosen)] = 1.0
                for unit in range(size) if at is None else at:
                    truth[units[unit] > 0.0] *= (1 - cells).astype(int)
                    for cell in np.flatnonzero(cells):
                        rows.append(np.kron(units[[unit]], np.eye(domain.size)[[cell]]))
                        values.append([0.0])
                        variances.append([0.0])
    truth = truth.reshape((units.shape[1], domain.size))
    choices = list(found.subsets())
    for _ in range(int(rng.integers(1, 6))):
        kept = choices[int(rng.integers(len(choices)))]
        kept = tuple(kept[at] for at in rng.permutation(len(kept)))
        cells = found.cells(kept)
        everywhere = rng.random() < 0.4
        at = np.arange(size) if everywhere else rng.permutation(size)[: rng.integers(1, size + 1)]
        laws = [
            Exact() if rng.random() < 0.12 else Gaussian(sigma=float(rng.choice(SCALES)))
            for _ in at
        ]
        sigma = np.sqrt([float(law.variance) for law in laws])
        noise = sigma[:, np.newaxis] * rng.normal(size=(at.size, len(cells)))
        drawn = units[at] @ truth @ cells.T + noise
        levels = [
            len(set(found.groupings[n][1].values()))
            if n in found.groupings
            else len(domain.levels[n])
            for n in kept
        ]
        found.marginals.append(
            NoisyMarginal(kept, drawn.reshape((at.size, *levels)), laws, None if everywhere else at)
        )
        rows.append(np.kron(units[at], cells))
        values.append(drawn.ravel())
        variances.append(np.repeat(np.square(sigma), len(cells)))
    found.rows, found.values = np.concatenate(rows), np.concatenate(values)
    found.variance = np.concatenate(variances)
    return found


class Dense:
    """Estimates of linear functions of all cells by pseudo-inverses."""

    def __init__(self, rows, values, variance):
        exact = variance == 0.0
        self.free, self.start = np.eye(rows.shape[1]), np.zeros(rows.shape[1])
        if exact.any():
            self.start = np.linalg.lstsq(rows[exact], values[exact], rcond=None)[0]
            _, size, right = np.linalg.svd(rows[exact])
            self.free = right[int((size > 1e-9).sum()) :].T
        scale = 1.0 / np.sqrt(variance[~exact])
        scaled = (rows[~exact] @ self.free) * scale[:, np.newaxis]
        scaled[np.abs(scaled) < 1e-12] = 0.0
        inverse = np.linalg.pinv(scaled, rcond=1e-10)
        self.unseen = self.free @ (np.eye(self.free.shape[1]) - inverse @ scaled)
        rest = (values - rows @ self.start)[~exact] * scale
        self.estimate = self.start + self.free @ (inverse @ rest)
        self.root = self.free @ inverse
        self.squares = float(np.square(rest - scaled @ (inverse @ rest)).sum())
        rank = np.linalg.matrix_rank(scaled, tol=1e-9) if scaled.size else 0
        self.degrees = int((~exact).sum()) - int(rank)

    def of(self, target):
        """Estimates, covariance, and which functions are estimable."""
        part = target @ self.root
        estimable = np.linalg.norm(target @ self.unseen, axis=1) < 1e-8
        return target @ self.estimate, part @ part.T, estimable


def agree(found, expected, **tolerance):
    np.testing.assert_allclose(found, expected, **tolerance)


@pytest.mark.thinned("block", "seed", every=2)
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_dense_least_squares_agrees(seed, block):
    one = random_problem(seed, block)
    fit = one.combine(unestimable="nan")
    peer = Dense(one.rows, one.values, one.variance)
    for kept in one.subsets():
        estimate, covariance, estimable = peer.of(np.kron(one.units, one.cells(kept)))
        found, spread = fit.marginal(kept).ravel(), fit.marginal_variance(kept).ravel()
        np.testing.assert_array_equal(np.isfinite(spread), estimable)
        np.testing.assert_array_equal(np.isnan(found), ~estimable)
        agree(found[estimable], estimate[estimable], rtol=1e-9, atol=1e-9)
        variance = np.diag(covariance)[estimable]
        agree(spread[estimable], variance, rtol=1e-10, atol=1e-13)
        assert (spread[estimable][variance < 1e-13] == 0.0).all()
    assert fit._fit.degrees == peer.degrees
    if peer.degrees:
        test = fit.consistency_test("asymptotic")
        assert float(test.statistic) == pytest.approx(peer.squares, rel=1e-9, abs=1e-9)


@pytest.mark.thinned("block", "seed", every=2)
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_contrasts_agree(seed, block):
    one = random_problem(seed, block)
    fit = one.combine(unestimable="nan")
    peer = Dense(one.rows, one.values, one.variance)
    rng = np.random.default_rng(seed)
    for kept in one.subsets():
        cells = one.cells(kept)
        unit = int(rng.integers(len(one.hierarchy)))
        target = rng.integers(-2, 3, (3, len(cells))).astype(float)
        target[2] -= target[2].mean()
        estimate, covariance, estimable = peer.of(np.kron(one.units[[unit]], target @ cells))
        found = fit.unit_contrast(unit, target, kept)
        np.testing.assert_array_equal(np.isfinite(found.std_err), estimable)
        agree(found.estimate[estimable], estimate[estimable], rtol=1e-9, atol=1e-9)
        variance = np.square(found.std_err)[estimable]
        agree(variance, np.diag(covariance)[estimable], rtol=1e-10, atol=1e-13)


@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(15))
def test_combine_agrees(seed):
    one = random_problem(seed, block=seed % 2 == 1)
    fit = one.combine(unestimable="nan")
    laws = IndependentNoise(
        [Exact() if each == 0.0 else Gaussian(sigma=float(np.sqrt(each))) for each in one.variance]
    )
    names = one.domain.attributes
    spread = fit.marginal_variance(names).ravel()
    known = np.isfinite(spread)
    if known.any():
        target = np.kron(one.units, np.eye(one.domain.size))[known]
        peer = combine(one.values, workload=one.rows, mechanism=laws, target=target)
        agree(fit.marginal(names).ravel()[known], peer.params, rtol=1e-9, atol=1e-9)
        agree(np.sqrt(spread[known]), peer.bse, rtol=1e-9, atol=1e-7)
    if not known.all():
        with pytest.raises(NotEstimableError, match="the values do not determine"):
            one.combine().marginal(names)
