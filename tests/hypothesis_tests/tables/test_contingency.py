"""Tests of contingency tables against scipy, dense algebra, enumeration and plain simulation."""

from functools import cache
from itertools import product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, optimize, stats

from dpinfer.errors import ApproximationWarning, DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import chi2_contingency
from dpinfer.mechanisms import (
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    RandomizedResponse,
)

COUNTS = np.array([[30.0, 50.0, 21.0], [60.0, 41.0, 33.0]])
PUBLISHED = np.array([[33.1, 52.7, 20.4], [57.2, 38.0, 35.9]])
NOISE = Gaussian(sigma=5.0)
UNEQUAL = Gaussian(sigma=np.array([[2.0, 9.0, 5.0], [0.5, 4.0, 7.0]]))
KNOWN = [
    {},
    {"nobs": 235},
    {"nobs": 239.5, "nobs_mechanism": Gaussian(sigma=6.0)},
    {"row_totals": [101, 134]},
]


@pytest.mark.parametrize("known", [{}, {"nobs": 235}, {"row_totals": [101, 134]}], ids=str)
@pytest.mark.parametrize("statistic", ["pearson", "projected"])
class TestWithoutNoise:
    def test_it_is_scipys_test(self, statistic, known):
        theirs = stats.chi2_contingency(COUNTS, correction=False)
        ours = chi2_contingency(
            COUNTS, mechanism=Exact(), statistic=statistic, method="asymptotic", **known
        )
        np.testing.assert_allclose(tuple(ours), theirs[:2], rtol=1e-12)
        np.testing.assert_allclose(ours.expected_freq, theirs.expected_freq, rtol=1e-12)
        assert ours.dof == theirs.dof

    def test_little_noise_changes_little(self, statistic, known):
        theirs = stats.chi2_contingency(COUNTS, correction=False)
        ours = chi2_contingency(
            COUNTS,
            mechanism=Gaussian(sigma=1e-5),
            statistic=statistic,
            method="asymptotic",
            **known,
        )
        np.testing.assert_allclose(tuple(ours), theirs[:2], rtol=1e-7)


def dense_minimum(cells, variance, known):
    """The smallest form and the expected counts by a general optimiser, weights iterated."""
    rows = len(cells)
    v, (z, shared) = variance.ravel(), dense_form(cells, variance, known)
    a, b = cells.sum(axis=1), cells.sum(axis=0) / cells.sum()
    for _ in range(60):
        weights = np.diag(np.outer(a, b).ravel() + v) - shared
        root = np.linalg.cholesky(np.linalg.inv(weights)).T
        fit = optimize.least_squares(
            lambda x, root=root: root @ (z - np.outer(x[:rows], x[rows:]).ravel()),
            np.concatenate([a, b]),
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
        )
        a, b = fit.x[:rows] * fit.x[rows:].sum(), fit.x[rows:] / fit.x[rows:].sum()
    return 2.0 * fit.cost, np.outer(a, b)


def dense_form(cells, variance, known):
    """The table without the noise that totals tell, and what that takes off its covariance."""
    columns = cells.shape[1]
    y, v = cells.ravel(), variance.ravel()
    if "row_totals" in known:
        blocks = [np.outer(v_row, v_row) / v_row.sum() for v_row in variance]
        shared = np.zeros((y.size, y.size))
        for i, block in enumerate(blocks):
            at = slice(i * columns, (i + 1) * columns)
            shared[at, at] = block
        excess = cells.sum(axis=1) - known["row_totals"]
        return (cells - variance * (excess / variance.sum(axis=1))[:, None]).ravel(), shared
    if "nobs" in known:
        law = known.get("nobs_mechanism", Exact())
        g = 1.0 / (v.sum() + law.variance)
        return y - g * v * (y.sum() - known["nobs"]), g * np.outer(v, v)
    return y, np.zeros((y.size, y.size))


def dense_projection(z, covariance, a, b, slope=1.0):
    """The form of z - slope·abᵀ after regressing it on the derivatives of abᵀ, all matrices dense.

    The covariance is singular where the total is known. Then derivatives keep the total, too.
    """
    derivatives = np.hstack(
        [np.kron(np.eye(a.size), b[:, None]), np.kron(a[:, None], np.eye(b.size))]
    )
    values, vectors = np.linalg.eigh(covariance)
    empty = vectors[:, values < 1e-9 * values.max()]
    _, size, right = np.linalg.svd(empty.T @ derivatives)
    derivatives = derivatives @ right[np.count_nonzero(size > 1e-9) :].T
    root = (vectors[:, empty.shape[1] :] / np.sqrt(values[empty.shape[1] :])).T
    deviations = root @ (z - slope * np.outer(a, b).ravel())
    design = root @ derivatives
    left = deviations - design @ np.linalg.pinv(design, rcond=1e-10) @ deviations
    return left @ left


@pytest.mark.thinned("known", "noise", every=2)
@pytest.mark.parametrize("known", KNOWN, ids=str)
@pytest.mark.parametrize("noise", [NOISE, UNEQUAL], ids=["equal", "unequal"])
def test_expected_counts_minimise_the_quadratic_form(noise, known):
    variance = np.broadcast_to(noise.variance, PUBLISHED.shape)
    statistic, expected = dense_minimum(PUBLISHED, variance, known)
    ours = chi2_contingency(PUBLISHED, mechanism=noise, method="asymptotic", **known)
    np.testing.assert_allclose(ours.expected_freq, expected, rtol=1e-8)
    # the minimum itself where the margins are those, and near it elsewhere
    there = noise is UNEQUAL
    assert ours.statistic == pytest.approx(statistic, rel=1e-8 if there else 5e-3)
    assert ours.pvalue == pytest.approx(stats.chi2.sf(ours.statistic, 2), rel=1e-12)


@pytest.mark.parametrize("known", KNOWN, ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (4, 3), (6, 6)], ids=str)
@pytest.mark.parametrize("sigma", [1.0, 30.0])
def test_projected_is_what_a_regression_on_the_derivatives_leaves(sigma, shape, known):
    """With the whole covariance, the sampling part -n·p·pᵀ included, which the code leaves out."""
    rng = np.random.default_rng(7)
    noise, nobs = Gaussian(sigma=sigma), 400 * shape[0]
    table = rng.multinomial(nobs, np.full(shape, 1 / np.prod(shape)).ravel()).reshape(shape)
    table = table + rng.normal(0.0, sigma, shape)
    if "nobs" in known:
        known = {**known, "nobs": nobs}
    if "row_totals" in known:
        known = {"row_totals": np.round(table).sum(axis=1)}
    variance = np.full(shape, noise.variance)
    z, shared = dense_form(table, variance, known)
    a, b = z.reshape(shape).sum(axis=1), z.reshape(shape).sum(axis=0) / z.sum()
    expected = np.outer(a, b).ravel()
    covariance = np.diag(expected + variance.ravel()) - shared
    whole = covariance - np.outer(expected, expected) / expected.sum()
    if "row_totals" in known:  # then the totals of all rows are kept, and a is not estimated
        within = np.kron(np.diag(1 / a), np.ones((shape[1], shape[1])))
        covariance = whole = covariance - np.outer(expected, expected) * within
    ours = chi2_contingency(table, mechanism=noise, method="asymptotic", **known)
    for matrix in (covariance, whole):
        assert ours.statistic == pytest.approx(dense_projection(z, matrix, a, b), rel=1e-8)


@pytest.mark.parametrize("columns", [2, 5, 30])
@pytest.mark.parametrize("rows", [2, 5, 9])
def test_projected_with_row_totals_is_the_least_of_the_dense_form(rows, columns):
    """With noise that differs, and none in one row; the weights are those at the best shares."""
    rng = np.random.default_rng(rows)
    totals, shape = rng.integers(2000, 9000, rows), (rows, columns)
    sigma = rng.uniform(1.0, 60.0, shape)
    counts = np.array([rng.multinomial(m, rng.dirichlet(np.full(columns, 200.0))) for m in totals])
    table = counts + sigma * rng.normal(size=shape)
    table[0] = counts[0]
    laws = [Gaussian(sigma=x) for x in sigma.ravel()]
    variance = np.square(sigma)
    laws[:columns], variance[0] = [Exact()] * columns, 0.0
    found = chi2_contingency(
        table,
        mechanism=IndependentNoise(laws),
        row_totals=totals,
        statistic="projected",
        method="asymptotic",
    )
    z, weights, design = [], [], np.kron(totals[:, None], np.eye(columns))
    for row, v, m, expected in zip(table, variance, totals, found.expected_freq, strict=True):
        spread = v / max(v.sum(), 1e-300)
        z.append(row - spread * (row.sum() - m))
        weights.append(np.linalg.inv(np.diag(expected + v) - np.outer(v, spread)))
    root = linalg.block_diag(*(np.linalg.cholesky(part).T for part in weights))
    shares, least = np.linalg.lstsq(root @ design, root @ np.concatenate(z))[:2]
    np.testing.assert_allclose(found.expected_freq, np.outer(totals, shares), rtol=1e-8)
    assert found.statistic == pytest.approx(least.item(), rel=1e-8)


@pytest.mark.thinned("known", "statistic", "noise", every=2)
@pytest.mark.parametrize("known", KNOWN, ids=str)
@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("noise", [NOISE, UNEQUAL], ids=["equal", "unequal"])
def test_simulation_meets_the_limit_in_large_tables(noise, statistic, known):
    factor = 50.0
    scaled = {name: value for name, value in known.items() if name == "nobs_mechanism"}
    for name in {"nobs", "row_totals"} & set(known):
        scaled[name] = np.asarray(known[name]) * 50
    noise = Gaussian(sigma=np.asarray(noise.sigma) * 6.0)
    expected = np.outer([101, 134], [90, 91, 54]) / 235 * factor
    published = expected + np.array([[30.0, -5.0, -40.0], [-9.0, 20.0, 35.0]])
    options = {"mechanism": noise, "statistic": statistic, **scaled}
    limit = chi2_contingency(published, method="asymptotic", **options)
    simulated = chi2_contingency(published, reps=40_000, rng=5, **options)
    assert limit.statistic == simulated.statistic
    assert 0.02 < limit.pvalue < 0.98
    # 6 standard errors (2e-9), and the distance from the limit at n = 11,750
    assert abs(limit.pvalue - simulated.pvalue) < 6 * simulated.mc_error + 4e-3


def enumerated(observed, nobs, shares, scale, statistic):
    """P(statistic >= observed) listing all 2 x 2 tables and geometric noises up to 2."""
    pmf = Geometric(scale=scale).pmf(np.arange(-2, 3))
    noises = np.array(list(product(range(-2, 3), repeat=4)))
    chance = {}
    for counts in product(range(nobs + 1), repeat=4):
        if sum(counts) == nobs:
            weight = factorial(nobs) * np.prod(
                [p**k / factorial(k) for k, p in zip(counts, shares.ravel(), strict=True)]
            )
            for table, own in zip(counts + noises, pmf[noises + 2].prod(axis=1), strict=True):
                a, b, c, d = table.tolist()
                # the statistic is the same for all orders of rows, columns and axes
                key = min((a, b, c, d), (c, d, a, b), (b, a, d, c), (d, c, b, a))
                key = min(key, (a, c, b, d), (b, d, a, c), (c, a, d, b), (d, b, c, a))
                chance[key] = chance.get(key, 0.0) + weight * own
    return sum(own for key, own in chance.items() if statistic(key) >= observed * (1 - 1e-9))


@pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")
@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_monte_carlo_agrees_with_enumeration(statistic):
    nobs, scale, reps = 3, 0.25, 50_000
    options = {"mechanism": Geometric(scale=scale), "nobs": nobs, "statistic": statistic}
    options["small_expected"] = "compute"

    @cache
    def value(cells):
        table = np.reshape(cells, (2, 2))
        return chi2_contingency(table, **options, method="asymptotic").statistic

    result = chi2_contingency([[2, 0], [-1, 2]], **options, reps=reps, rng=3)
    shares = result.expected_freq / result.expected_freq.sum()
    exact = enumerated(result.statistic, nobs, shares, scale, value)
    assert 0.01 < exact < 0.99
    # 6 standard errors (2e-9), one replicate, and noises beyond 2: below 5e-5
    assert abs(result.pvalue - exact) < 6 * np.sqrt(exact * (1 - exact) / reps) + 7e-5


def test_expected_counts_add_up_to_nobs_where_a_margin_is_zero():
    table = np.array([[96.0, 21.7], [39.0, 36.6], [-29.4, -92.7]])
    options = {"mechanism": Gaussian(sigma=76.3), "nobs": 109, "method": "asymptotic"}
    with pytest.warns(ApproximationWarning, match="below 5"):
        forth = chi2_contingency(table, small_expected="compute", **options)
    with pytest.warns(ApproximationWarning, match="below 5"):
        back = chi2_contingency(table.T, small_expected="compute", **options)
    assert forth.expected_freq[2].max() < 1e-6
    assert forth.expected_freq.sum() == pytest.approx(109, rel=1e-7)
    np.testing.assert_allclose(forth.expected_freq, back.expected_freq.T, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")
def test_margins_that_noise_couples_are_the_least_squares_that_are_not_negative():
    """Beside Lawson and Hanson's algorithm, in tables most of which leave margins out."""
    rng = np.random.default_rng(2)
    empty = 0
    for _ in range(25):
        sigma, nobs = rng.uniform(5.0, 40.0, (6, 3)), 150
        table = rng.multinomial(nobs, np.full(18, 1 / 18)).reshape(6, 3)
        table = table + sigma * rng.normal(size=(6, 3))
        table[:2] -= 25.0
        expected = chi2_contingency(
            table, mechanism=Gaussian(sigma=sigma), nobs=nobs, method="asymptotic",
            small_expected="compute",
        ).expected_freq  # fmt: skip
        z, shared = dense_form(table, np.square(sigma), {"nobs": nobs})
        weights = np.linalg.inv(np.diag(expected.ravel() + np.square(sigma).ravel()) - shared)
        root = np.linalg.cholesky(weights).T
        for axis in (0, 1):  # rows given columns, and columns given rows
            given = expected.sum(axis=axis) / expected.sum()
            design = (
                np.kron(np.eye(6), given[:, None])
                if axis == 0
                else np.kron(given[:, None], np.eye(3))
            )
            best = optimize.nnls(root @ design, root @ z)[0]
            np.testing.assert_allclose(expected.sum(axis=1 - axis), best, rtol=1e-5, atol=1e-5)
            empty += (best == 0.0).any()
    assert empty > 15


@pytest.mark.parametrize("law", [Laplace(scale=1e12), Gaussian(sigma=1e12)], ids=repr)
@pytest.mark.parametrize(
    ("table", "known"),
    [
        ([[60, 45], [52, 70]], {}),
        ([[60, 45], [52, 70]], {"nobs": 227}),
        ([[60, 45], [52, 70]], {"row_totals": [105, 122]}),
        ([[60, 45, 9], [52, 70, 8], [8, 9, 5], [7, 1, 8]], {"row_totals": [114, 130, 22, 16]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
@pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")
def test_noise_that_drowns_the_counts_is_no_evidence(law, table, known, statistic, method):
    options = {"statistic": statistic, "method": method, "small_expected": "compute", **known}
    result = chi2_contingency(table, mechanism=law, reps=500, rng=1, **options)
    assert np.isfinite(result.expected_freq).all()
    assert result.pvalue > 0.99


class TestInvariance:
    @pytest.mark.parametrize("statistic", ["pearson", "projected"])
    @pytest.mark.parametrize("known", KNOWN[:3], ids=str)
    def test_transposition(self, known, statistic):
        options = {"statistic": statistic, "method": "asymptotic", **known}
        forth = chi2_contingency(PUBLISHED, mechanism=UNEQUAL, **options)
        back = chi2_contingency(PUBLISHED.T, mechanism=Gaussian(sigma=UNEQUAL.sigma.T), **options)
        np.testing.assert_allclose(tuple(forth), tuple(back), rtol=1e-8)

    @pytest.mark.thinned("statistic", "known", "spread", every=2)
    @pytest.mark.parametrize("statistic", ["pearson", "projected"])
    @pytest.mark.parametrize("known", KNOWN[:3], ids=["unknown", "public", "noisy"])
    @pytest.mark.parametrize("spread", [0.0, 1.5], ids=["equal", "unequal"])
    def test_transposition_of_many_tables(self, spread, known, statistic):
        rng = np.random.default_rng(8)
        for _ in range(20):
            shape = tuple(rng.integers(2, 6, 2))
            chance = np.outer(*(rng.dirichlet(np.full(size, 3.0)) for size in shape))
            expected = 40.0 / chance.min() * chance
            nobs = round(expected.sum())
            sigma = 20.0 * 10 ** rng.uniform(-spread, 0.0, shape)
            published = rng.poisson(expected) + sigma * rng.normal(size=shape)
            options = {"statistic": statistic, "method": "asymptotic", **known}
            if "nobs" in known:
                options["nobs"] = nobs
            forth, back = (
                chi2_contingency(cells, mechanism=Gaussian(sigma=noise), **options)
                for cells, noise in ((published, sigma), (published.T, sigma.T))
            )
            assert abs(forth.pvalue - back.pvalue) < 1e-7
            np.testing.assert_allclose(forth.expected_freq, back.expected_freq.T, rtol=1e-6)

    @pytest.mark.parametrize("known", KNOWN, ids=str)
    def test_order_of_rows_and_columns(self, known):
        rows, columns = [1, 0], [2, 0, 1]
        other = Gaussian(sigma=UNEQUAL.sigma[np.ix_(rows, columns)])
        moved = {**known}
        if "row_totals" in known:
            moved["row_totals"] = [known["row_totals"][row] for row in rows]
        forth = chi2_contingency(PUBLISHED, mechanism=UNEQUAL, method="asymptotic", **known)
        back = chi2_contingency(
            PUBLISHED[np.ix_(rows, columns)], mechanism=other, method="asymptotic", **moved
        )
        np.testing.assert_allclose(tuple(forth), tuple(back), rtol=1e-9)

    def test_one_law_for_each_cell_row_by_row(self):
        flat = Gaussian(sigma=UNEQUAL.sigma.ravel())
        listed = [Gaussian(sigma=sigma) for sigma in UNEQUAL.sigma.ravel()]
        answers = {
            tuple(chi2_contingency(PUBLISHED, mechanism=law, reps=500, rng=1))
            for law in (UNEQUAL, flat, listed)
        }
        assert len(answers) == 1


@pytest.mark.parametrize("law", [Gaussian(sigma=[6.0]), [Gaussian(sigma=6.0)]], ids=repr)
def test_law_of_nobs_in_a_list_of_one(law):
    options = {"mechanism": NOISE, "nobs": 239.5, "reps": 500, "rng": 1}
    bare = chi2_contingency(PUBLISHED, nobs_mechanism=Gaussian(sigma=6.0), **options)
    assert tuple(chi2_contingency(PUBLISHED, nobs_mechanism=law, **options)) == tuple(bare)


class TestLabels:
    frame = pd.DataFrame(PUBLISHED, index=["f", "m"], columns=["x", "y", "z"])

    def test_expected_counts_carry_them(self):
        result = chi2_contingency(self.frame, mechanism=NOISE, method="asymptotic")
        bare = chi2_contingency(PUBLISHED, mechanism=NOISE, method="asymptotic")
        assert result.expected_freq.index.equals(self.frame.index)
        assert result.expected_freq.columns.equals(self.frame.columns)
        np.testing.assert_array_equal(result.expected_freq, bare.expected_freq)
        pd.testing.assert_frame_equal(result.estimated_freq, self.frame)

    def test_row_totals_have_to_agree(self):
        totals = pd.Series([101, 134], index=["f", "m"])
        chi2_contingency(self.frame, mechanism=NOISE, row_totals=totals, method="asymptotic")
        with pytest.raises(InvalidParameterError, match="labels of the rows of table"):
            chi2_contingency(self.frame, mechanism=NOISE, row_totals=totals[::-1])


class TestSmallExpectedCounts:
    table = np.array([[40.0, -3.0], [35.0, 2.0]])

    def test_the_test_does_not_decide(self):
        with pytest.warns(ApproximationWarning, match="below 5 in 2 cells: the test does not"):
            result = chi2_contingency(self.table, mechanism=Laplace(scale=2.0), rng=1)
        assert not result.decided
        assert result.pvalue == 1.0
        assert result.mc_error == 0.0
        assert np.isfinite(result.statistic)
        assert "does not decide" in result.summary()
        assert result.null_distribution.critical_value(0.05, "larger") == np.inf

    @pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
    @pytest.mark.parametrize("statistic", ["pearson", "projected"])
    def test_it_computes_where_it_is_told_to(self, statistic, method):
        with pytest.warns(ApproximationWarning, match="below 5 in 2 cells: the p-value is approx"):
            result = chi2_contingency(
                self.table,
                mechanism=NOISE,
                small_expected="compute",
                statistic=statistic,
                method=method,
                rng=1,
            )
        assert result.decided
        assert 0 < result.pvalue < 1

    def test_negative_cells_are_ordinary(self):
        table = [[400.0, -3.5], [350.0, 60.0]]
        result = chi2_contingency(table, mechanism=Gaussian(sigma=10.0), rng=1)
        assert result.decided
        assert result.pvalue < 0.01


class TestRandomizedResponse:
    reports = np.array([[40, 61, 35], [75, 52, 41]])

    def test_attributes_randomized_apart(self):
        rows, columns = RandomizedResponse(p=0.8), RandomizedResponse(p=0.7, categories=3)
        theirs = stats.chi2_contingency(self.reports, correction=False)
        for pair in ((rows, columns), (rows, None), (Exact(), columns)):
            ours = chi2_contingency(self.reports, mechanism=pair, method="asymptotic")
            np.testing.assert_allclose(tuple(ours), theirs[:2], rtol=1e-12)
            truth = np.asarray(ours.estimated_freq)
            for axis, channel in enumerate(pair):
                if isinstance(channel, RandomizedResponse):
                    truth = np.tensordot(channel.matrix.T, truth, (1, axis))
                    truth = np.moveaxis(truth, 0, axis)
            np.testing.assert_allclose(truth, self.reports, rtol=1e-10)

    @pytest.mark.parametrize("p", [0.5, 0.9])
    def test_attributes_randomized_together(self, p):
        channel, total = RandomizedResponse(p=p, categories=6), self.reports.sum()

        def form(x):
            rows, columns = np.array([x[0], 1 - x[0]]), np.array([x[1], x[2], 1 - x[1] - x[2]])
            expected = total * channel.matrix.T @ np.outer(rows, columns).ravel()
            return expected, (self.reports.ravel() - expected)

        x = np.array([0.45, 0.35, 0.35])
        for _ in range(50):  # Pearson's statistic with the weights at the last estimate
            expected = form(x)[0]
            x = optimize.least_squares(
                lambda x, e=expected: form(x)[1] / np.sqrt(e), x, xtol=1e-15, ftol=1e-15
            ).x
        expected, deviations = form(x)
        for statistic in ("pearson", "projected"):
            ours = chi2_contingency(
                self.reports, mechanism=channel, statistic=statistic, method="asymptotic"
            )
            estimate = np.asarray(ours.estimated_freq)
            other = (1.0 - p) / 5
            slope = p - other
            a, b = estimate.sum(axis=1), estimate.sum(axis=0) / estimate.sum()
            mean = slope * np.outer(a, b).ravel() + other * total
            whole = np.diag(mean) - np.outer(mean, mean) / total
            if statistic == "projected":
                z = self.reports.ravel() - other * total
                left = dense_projection(z, whole, a, b, slope)
                assert ours.statistic == pytest.approx(left, rel=1e-8)
            else:
                least = np.sum(deviations**2 / expected)
                assert ours.statistic == pytest.approx(least, rel=5e-3)
            np.testing.assert_allclose(ours.expected_freq.ravel(), expected, rtol=5e-3)
            simulated = chi2_contingency(
                self.reports, mechanism=channel, statistic=statistic, reps=20_000, rng=2
            )
            # 6 standard errors (2e-9), and the distance from the limit at n = 304
            assert abs(simulated.pvalue - ours.pvalue) < 6 * simulated.mc_error + 5e-3
        back = channel.matrix.T @ ours.estimated_freq.ravel()
        np.testing.assert_allclose(back, self.reports.ravel(), rtol=1e-10)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"mechanism": RandomizedResponse(p=0.6)}, "a category for each of the 6 cells"),
            ({"mechanism": (RandomizedResponse(p=0.5), None)}, "its reports say nothing"),
            ({"mechanism": (None, RandomizedResponse(p=0.6))}, "for each of the 3 columns"),
            ({"mechanism": (NOISE, RandomizedResponse(p=0.6))}, "a pair of channels"),
            ({"table": PUBLISHED}, "table must hold whole numbers"),
            ({"table": [[3, -1, 4], [5, 6, 7]]}, "table must be >= 0"),
            ({"table": np.zeros((2, 3))}, "table must hold between 1 and 90.* reports, got 0$"),
            ({"table": np.full((2, 3), 2.0**52)}, "table must hold between 1 and .*, got 2.7"),
            ({"nobs": 300}, "table must add up to nobs"),
            ({"nobs_mechanism": NOISE}, "nobs_mechanism must not be given"),
            ({"row_totals": [136, 168]}, "row_totals must not be given"),
        ],
    )
    def test_bad_arguments(self, changes, message):
        good = {"table": self.reports, "mechanism": (RandomizedResponse(p=0.8), None)}
        with pytest.raises(InvalidParameterError, match=message):
            chi2_contingency(**{**good, **changes})


def test_a_dependence_is_found():
    table = np.array([[300.0, 100.0], [100.0, 300.0]])
    result = chi2_contingency(table, mechanism=Geometric(scale=5.0), rng=1)
    assert result.pvalue == 1 / 10_001
    assert result.decided


def test_the_limit_under_other_noise_is_flagged():
    with pytest.warns(ApproximationWarning, match="noise that is not Gaussian") as flagged:
        chi2_contingency(PUBLISHED, mechanism=Laplace(scale=2.0), method="asymptotic")
    assert [warning.filename for warning in flagged] == [__file__]


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_a_published_total_without_noise_is_a_public_one(statistic):
    options = {"mechanism": NOISE, "statistic": statistic, "nobs": 235, "reps": 200, "rng": 3}
    public = chi2_contingency(PUBLISHED, **options)
    for law in (Exact(), [Exact()]):
        published = chi2_contingency(PUBLISHED, nobs_mechanism=law, **options)
        assert tuple(published) == tuple(public)
        np.testing.assert_array_equal(published.expected_freq, public.expected_freq)


def test_seeds_workers_and_precision():
    options = {"mechanism": Laplace(scale=2.0), "reps": 30_000}
    one, two, three = (
        chi2_contingency(PUBLISHED, rng=seed, n_jobs=jobs, **options).pvalue
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    )
    assert one == two != three
    early = chi2_contingency(PUBLISHED, rng=1, precision=0.2, **options)
    assert early.mc_error == pytest.approx(0.2 * early.pvalue, rel=0.1)


def test_summary_names_what_was_done():
    text = chi2_contingency(PUBLISHED, mechanism=NOISE, nobs=235, rng=1).summary()
    for part in ("Independence", "2 x 3 table, projected statistic", "monte-carlo", "235"):
        assert part in text
    assert "Homogeneity" in repr(
        chi2_contingency(PUBLISHED, mechanism=NOISE, row_totals=[101, 134], rng=1)
    )


GOOD = {"table": PUBLISHED, "mechanism": NOISE}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": [[1.0, 2.0]]}, "table must have at least 2 rows and 2 columns"),
        ({"table": [1.0, 2.0]}, "table must be two-dimensional"),
        ({"table": []}, "table must hold at least one value"),
        ({"table": [[1.0, np.nan], [2.0, 3.0]]}, "table must not contain NaN"),
        ({"table": PUBLISHED * 1e40}, "table must be <="),
        ({"table": PUBLISHED * 1j}, "table must be real"),
        ({"mechanism": Gaussian(sigma=[1.0, 2.0])}, "mechanism must have one law"),
        ({"mechanism": Gaussian(sigma=1e40)}, "the variance of mechanism must be <="),
        ({"mechanism": Geometric(scale=2.0)}, "table must hold whole numbers"),
        ({"mechanism": "laplace"}, "mechanism must be a noise law"),
        ({"mechanism": Exact(), "table": COUNTS, "nobs": 300}, "table must add up to nobs"),
        ({"nobs": 0}, "nobs must be >= 1"),
        ({"nobs": 10.5}, "nobs must be a whole number"),
        ({"nobs": 10.5, "nobs_mechanism": Exact()}, "nobs must hold whole numbers"),
        ({"nobs": 0, "nobs_mechanism": Exact()}, "nobs must be >= 1"),
        ({"nobs": 10.5, "nobs_mechanism": Geometric(scale=1.0)}, "nobs must hold whole numbers"),
        ({"nobs_mechanism": NOISE}, "nobs must be given with nobs_mechanism"),
        ({"nobs": 10, "nobs_mechanism": "x"}, "nobs_mechanism must be a noise law"),
        ({"row_totals": [100]}, "row_totals must have one entry for each of the 2 rows"),
        ({"row_totals": [100, 0]}, "row_totals must be >= 1"),
        ({"row_totals": [100, 134], "nobs": 234}, "row_totals must not be given with nobs"),
        ({"mechanism": Exact(), "table": COUNTS, "row_totals": [1, 2]}, "must add up to row_tot"),
        ({"statistic": "neyman"}, "statistic must be one of"),
        ({"method": "exact"}, "method must be one of"),
        ({"small_expected": "ignore"}, "small_expected must be one of"),
        ({"reps": 0}, "reps must be >= 1"),
        ({"rng": "x"}, "rng must be"),
        (
            {"table": np.ones((70, 70)), "statistic": "pearson", "method": "asymptotic"},
            "table must have at most 4096 cells",
        ),
    ],
)
def test_bad_arguments_say_what_is_wrong(changes, message):
    options = {"small_expected": "compute", **GOOD, **changes}
    with pytest.raises(InvalidParameterError, match=message):
        chi2_contingency(**options)


anything = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.lists(st.one_of(st.floats(), st.integers(-5, 200), st.none()), max_size=3),
)
numbers = st.floats(-1e31, 1e31)
pairs = st.lists(numbers, min_size=2, max_size=2)


@pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")
@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    table=st.one_of(anything, st.lists(pairs, min_size=2, max_size=3)),
    known=st.dictionaries(st.sampled_from(["nobs", "row_totals"]), anything, max_size=1),
    scale=st.one_of(st.floats(1e-99, 1e99), st.floats(0.1, 1e3)),
    statistic=st.sampled_from(["pearson", "projected"]),
    method=st.sampled_from(["monte-carlo", "asymptotic"]),
)
def test_only_our_own_errors_escape(table, known, scale, statistic, method):
    options = {"statistic": statistic, "method": method, "small_expected": "compute"}
    try:
        result = chi2_contingency(
            table, mechanism=Laplace(scale=scale), reps=10, rng=1, **options, **known
        )
    except DPInferError:
        return
    assert 0 <= result.pvalue <= 1
    assert np.isfinite(result.statistic)
