"""Chains on tables against all tables, listed one by one.

250 chains of 4 draws after 16, of many sweeps each, are as good as 1,000 independent draws here: a
mean is off by more than SLACK posterior standard deviations with a chance below 1e-8.
"""

import sys
from itertools import product

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Release, Tulap
from dpinfer.errors import (
    IncompatibleReleaseError,
    InvalidParameterError,
    MissingExtraError,
    NotEstimableError,
)
from dpinfer.mechanisms import Rounded
from dpinfer.posterior import diagnostics, table_posterior

SLACK = 0.2
ROUND = DiscreteGaussian(sigma=1.5)
HOW = {"draws": 4, "warmup": 16, "chains": 250, "rng": 7, "sampler": "chain"}


def tables(most, cells, keep=lambda x: np.ones(len(x), dtype=bool)):
    """List the tables with cells from 0 to most that are to be kept."""
    grid = np.stack([one.ravel() for one in np.indices((most + 1,) * cells)], axis=1)
    return grid[keep(grid)]


def moments(x, log_weight):
    """Return exact means and standard deviations."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ x
    return mean, np.sqrt(weight @ np.square(x - mean))


def log_rows(values, matrix, laws, x):
    """Return the log likelihood of plain values."""
    answers = x @ np.asarray(matrix).T
    parts = [
        law.logpmf(y - s) if law.is_integer else law.logpdf(y - s)
        for y, law, s in zip(values, laws, answers.T, strict=True)
    ]
    return np.sum(parts, axis=0)


def check(found, x, log_weight):
    mean, std = moments(x, log_weight)
    drawn = found.draws.reshape(-1, x.shape[1])
    held = std > 1e-9
    assert (drawn[:, ~held] == mean[~held].round()).all()
    assert np.abs(drawn.mean(axis=0) - mean)[held].max(initial=0) < SLACK * std[held].max()
    assert np.abs(drawn.std(axis=0)[held] / std[held] - 1.0).max(initial=0) < SLACK


LAWS = {
    "geometric": Geometric(scale=1.2),
    "discrete Gaussian": ROUND,
    "Laplace": Laplace(scale=1.1),
    "Gaussian": Gaussian(sigma=1.4),
    "Tulap": Tulap(scale=1.0),
    "rounded": Rounded(Laplace(scale=1.0)),
}


@pytest.mark.parametrize(
    "name", [*list(LAWS)[:1], *(pytest.param(n, marks=pytest.mark.slow) for n in list(LAWS)[1:])]
)
def test_cells_and_their_sum_under_each_law(name):
    law = LAWS[name]
    values = np.array([2.0, -1.0, 3.0, 6.0]) + (0.0 if law.is_integer else 0.25)
    matrix = np.vstack([np.eye(3), np.ones(3)])
    found = table_posterior(values, workload=matrix, mechanism=law, **HOW)
    x = tables(30, 3)
    check(found, x, log_rows(values, matrix, [law] * 4, x))
    assert found.connectivity == "proved"


def test_mixed_laws_with_an_exact_total():
    laws = [Geometric(scale=1.0), ROUND, Laplace(scale=2.0), Exact()]
    values = [3.0, -1.0, 2.3, 7.0]
    matrix = np.vstack([np.eye(3), np.ones(3)])
    found = table_posterior(values, workload=matrix, mechanism=laws, **HOW)
    x = tables(7, 3, lambda x: x.sum(axis=1) == 7)
    check(found, x, log_rows(values[:3], matrix[:3], laws[:3], x))


def test_four_cells_with_an_exact_total_have_the_known_means():
    found = table_posterior([3, -1, 2, 5], mechanism=ROUND, total=7, **HOW)
    known = [1.8380, 0.2803, 1.1622, 3.7194]
    assert np.abs(found.draws.mean(axis=(0, 1)) - known).max() < 0.15
    x = tables(7, 4, lambda x: x.sum(axis=1) == 7)
    check(found, x, log_rows([3, -1, 2, 5], np.eye(4), [ROUND] * 4, x))
    assert (
        moments(x, log_rows([3, -1, 2, 5], np.eye(4), [ROUND] * 4, x))[0].round(4).tolist() == known
    )


def test_margins_of_a_two_way_table_hold():
    rows = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    columns = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]
    matrix = np.vstack([np.eye(6), rows, columns])
    values = [3, 0, 2, 0, 4, 1, 6, 5, 4, 3, 4]
    laws = [ROUND] * 6 + [Exact()] * 5
    found = table_posterior(values, workload=matrix, mechanism=laws, **HOW)
    x = tables(6, 6, lambda x: (x @ matrix[6:].T == values[6:]).all(axis=1))
    check(found, x, log_rows(values[:6], np.eye(6), [ROUND] * 6, x))
    assert found.connectivity == "proved"


def test_noisy_total_of_7_in_a_two_by_three_table_with_eleven_values():
    rows = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    columns = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]
    matrix = np.vstack([np.eye(6), rows, columns])
    values = [4, -1, 1, 2, 0, 1, 5, 3, 4, 0, 2]
    found = table_posterior(values, workload=matrix, mechanism=ROUND, total=7, **HOW)
    x = tables(7, 6, lambda x: x.sum(axis=1) == 7)
    assert len(x) == 792
    check(found, x, log_rows(values, matrix, [ROUND] * 11, x))


def test_six_cycle_of_a_table_with_a_zero_diagonal():
    margins = np.vstack([np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))])
    matrix = np.vstack([np.eye(9), margins])
    values = [0, 2, -1, 0, 1, 1, 1, 0, 0] + [1] * 6
    laws = [ROUND] * 9 + [Exact()] * 6
    zeros = np.eye(3, dtype=bool).ravel()
    found = table_posterior(values, workload=matrix, mechanism=laws, zeros=zeros, **HOW)
    x = tables(1, 9, lambda x: (x @ margins.T == 1).all(axis=1) & (x[:, zeros] == 0).all(axis=1))
    assert len(x) == 2
    check(found, x, log_rows(values[:9], np.eye(9), [ROUND] * 9, x))
    assert found.connectivity in ("proved", "enumerated")
    seen = np.unique(found.draws.reshape(-1, 9), axis=0)
    assert len(seen) == 2


def test_all_two_way_margins_of_a_cube_are_enumerated():
    cells = np.array(list(product(range(2), repeat=3)))
    margins = [
        (cells[:, axes] == level).all(axis=1)
        for axes in ([0, 1], [0, 2], [1, 2])
        for level in product(range(2), repeat=2)
    ]
    matrix = np.vstack([np.eye(8), margins]).astype(float)
    truth = np.array([2, 1, 3, 0, 1, 2, 2, 2])
    values = np.concatenate([truth + np.array([1, -1, 0, 2, -2, 0, 1, -1]), matrix[8:] @ truth])
    laws = [ROUND] * 8 + [Exact()] * 12
    found = table_posterior(values, workload=matrix, mechanism=laws, **HOW)
    sign = (-1) ** cells.sum(axis=1)
    x = truth + np.arange(-9, 10)[:, None] * sign
    x = x[(x >= 0).all(axis=1)]
    check(found, x, log_rows(values[:8], np.eye(8), [ROUND] * 8, x))
    assert found.connectivity == "enumerated"


def test_unpublished_cells_are_below_their_threshold():
    law = DiscreteGaussian(sigma=2.0)
    cells = pd.Series([6.0, 7.0, np.nan], index=list("abc"))
    found = table_posterior(cells, mechanism=law, threshold=5, prior=None, **HOW)
    x = tables(40, 3)
    log = log_rows([6, 7], np.eye(3)[:2], [law] * 2, x) + law.logcdf(4 - x[:, 2])
    check(found, x, log)
    assert found.mean.index.tolist() == list("abc")


@pytest.mark.slow
def test_clamped_and_rounded_values_are_known_within_bounds():
    law = DiscreteGaussian(sigma=3.0)
    clamped = dpi.noisy([0, 8], mechanism=law, clamp=(0, None))
    x = tables(50, 2)
    log = law.logcdf(0 - x[:, 0]) + law.logpmf(8 - x[:, 1])
    check(table_posterior(clamped, **HOW), x, log)
    rounded = dpi.noisy([0, 10], mechanism=law, rounding=5)
    parts = [
        np.log(law.cdf(y + 2 - s) - law.cdf(y - 3 - s)) for y, s in zip((0, 10), x.T, strict=True)
    ]
    check(table_posterior(rounded, **HOW), x, np.sum(parts, axis=0))


def test_draws_do_not_depend_on_the_number_of_workers():
    joblib = pytest.importorskip("joblib")
    how = {"mechanism": ROUND, "total": 30, "draws": 20, "warmup": 10, "chains": 5, "rng": 3}
    values = np.arange(10)
    how |= {"sampler": "chain"}
    one = table_posterior(values, **how).draws
    with joblib.parallel_config(backend="threading"):
        assert np.array_equal(one, table_posterior(values, **how, n_jobs=2).draws)
    assert not np.array_equal(one, table_posterior(values, **how | {"rng": 4}).draws)
    assert len({chain.tobytes() for chain in one}) == 5


def crossing_sums(law):
    """Return values of 6 cells, their row and column sums, their queries and laws."""
    matrix = np.vstack([np.eye(6), np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))])
    values = [3, 0, 2, 0, 40, 1, 5, 41, 3, 40, 3]
    return {"values": values, "workload": matrix, "mechanism": law}


@pytest.mark.slow  # as loops are compiled
@pytest.mark.parametrize(
    "given",
    [
        crossing_sums(ROUND) | {"total": 46},
        crossing_sums([Geometric(scale=2.0)] * 6 + [Exact()] * 5)
        | {"values": [3, 0, 2, 0, 40, 1, 5, 41, 3, 40, 3]},
        crossing_sums(Tulap(scale=2.0)) | {"prior": dpi.priors.NegativeBinomialPrior(9.0, 2.0)},
        crossing_sums([ROUND] * 6 + [Laplace(scale=3.0)] * 5)
        | {"prior": dpi.priors.PoissonPrior([1.0, 1.0, 2.0, 2.0, 30.0, 1.0])},
        crossing_sums(ROUND) | {"prior": dpi.priors.HierarchicalPrior((1.0, 30.0), (0.1, 4.0))},
        crossing_sums(ROUND) | {"prior": dpi.priors.TablePrior(np.ones(60))},
        {"values": dpi.noisy(np.arange(0, 3000, 50), mechanism=ROUND, rounding=5, clamp=(0, None))},
    ],
)
def test_compiled_loops_give_the_same_draws(given):
    pytest.importorskip("numba")
    how = {"draws": 40, "warmup": 20, "chains": 3, "rng": 5, "sampler": "chain"}
    arrays, loops = (table_posterior(**given, **how, engine=name) for name in ("numpy", "numba"))
    assert np.array_equal(arrays.draws, loops.draws)
    assert len(np.unique(arrays.draws.reshape(120, -1), axis=0)) > 5
    for name, found in arrays.hyper.items():
        assert np.array_equal(found, loops.hyper[name])


def test_what_compiles_has_to_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[numba\]"):
        table_posterior([3, 1], mechanism=ROUND, engine="numba")


@pytest.mark.slow
def test_a_dask_cluster_draws_the_same_tables(cluster):
    joblib = pytest.importorskip("joblib")
    chain = {"draws": 20, "warmup": 10, "chains": 5, "sampler": "chain"}
    exact = {"draws": 1000, "sampler": "exact"}  # in four blocks
    for size, how in ((10, chain), (300, exact)):
        how = how | {"mechanism": ROUND, "total": 3 * size, "rng": 3}
        alone = table_posterior(np.arange(size) % 7, **how)
        with joblib.parallel_config(backend="dask"):
            found = table_posterior(np.arange(size) % 7, **how, n_jobs=-1)
        assert np.array_equal(alone.draws, found.draws)


def test_exact_rows_hold_in_every_draw():
    rng = np.random.default_rng(5)
    truth = rng.poisson(8, size=30)
    margins = np.vstack([np.kron(np.eye(5), np.ones(6)), np.kron(np.ones(5), np.eye(6))])
    matrix = np.vstack([np.eye(30), margins])
    laws = [ROUND] * 30 + [Exact()] * 11
    values = np.concatenate([truth + ROUND.rvs(30, rng=rng), margins @ truth])
    found = table_posterior(values, workload=matrix, mechanism=laws, draws=50, warmup=20, rng=1)
    assert found.sampler == "chain"
    assert (found.draws @ margins.T.astype(int) == margins @ truth).all()
    assert (found.draws >= 0).all()


@pytest.mark.parametrize(
    ("error", "given", "words"),
    [
        (NotEstimableError, {"values": [5.0], "workload": [[1, 0]]}, "large counts of cell 1"),
        (NotEstimableError, {"values": [5.0], "workload": [[1, -1]]}, "large counts"),
        (IncompatibleReleaseError, {"values": [1, 2], "total": 3, "zeros": [0, 1]}, "room for"),
        (InvalidParameterError, {"values": [1, 2], "workload": [[0.5, 1], [1, 1]]}, "whole"),
        (InvalidParameterError, {"values": [1, 2], "total": 3, "moves": [[1, 0]]}, "exact row"),
        (InvalidParameterError, {"values": [1, 2], "moves": [[1, 0, 0]]}, "2 columns"),
        (InvalidParameterError, {"values": [1, 2], "weights": [[1, 0], [1, 1]]}, "share noises"),
    ],
)
def test_what_cannot_be_done_is_refused(error, given, words):
    given = dict(given)
    if "weights" in given:
        given["values"] = Release(
            given["values"], weights=given.pop("weights"), mechanism=Gaussian(sigma=2.5)
        )
        law = {}
    else:
        law = {"mechanism": Laplace(scale=1.5) if "workload" in given else ROUND}
        given["values"] = np.asarray(given["values"]) + (0.5 if "workload" in given else 0)
    with pytest.raises(error, match=words):
        table_posterior(**given, **law)


@pytest.fixture(scope="module")
def joint():
    values = pd.Series([3, -1, 2, 5], index=list("abcd"))
    return table_posterior(values, mechanism=ROUND, total=7, draws=4000, rng=7)


def test_intervals_hold_the_draws_they_say(joint):
    found = joint.interval(0.1)
    exact = moments(*exact_total())[0]
    assert np.abs(found.estimate - exact).max() < 0.15
    assert (found.probability >= 0.9).all()
    tails = joint.interval(0.1, "equal-tailed")
    flat = joint.draws.reshape(-1, 4)
    assert ((flat < np.asarray(tails.lower)).mean(axis=0) <= 0.05).all()
    assert ((flat > np.asarray(tails.upper)).mean(axis=0) <= 0.05).all()
    assert (found.upper - found.lower <= tails.upper - tails.lower).all()
    assert joint.summary_frame(0.1).index.tolist() == list("abcd")
    assert "drawn from the prior" in " ".join(joint.summary().split())


def exact_total():
    x = tables(7, 4, lambda x: x.sum(axis=1) == 7)
    return x, log_rows([3, -1, 2, 5], np.eye(4), [ROUND] * 4, x)


def test_functions_and_covariances_are_those_of_the_draws(joint):
    assert (joint.function(lambda x: x.sum(axis=1)).draws == 7).all()
    cov = joint.cov()
    assert np.allclose(cov.sum(axis=0), 0, atol=1e-9)
    assert np.allclose(np.sqrt(cov.diagonal()), joint.std)
    assert np.allclose(joint.quantile([0.5])[0], joint.quantile(0.5))


def test_chains_that_have_not_mixed_are_refused():
    found = table_posterior([300, -1], mechanism=ROUND, draws=20, warmup=0, sampler="chain", rng=1)
    with pytest.raises(dpi.errors.ConvergenceError, match="ask for more draws"):
        found.interval()
    with pytest.warns(dpi.errors.ApproximationWarning, match="have not mixed"):
        found.interval(unmixed="warn")


def test_diagnostics_are_those_of_arviz():
    """ArviZ 0.23.4 on the same draws."""
    e = np.random.default_rng(0).normal(size=(4, 1000))
    x = e.copy()
    for t in range(1, 1000):
        x[:, t] = 0.8 * x[:, t - 1] + 0.6 * e[:, t]
    x = np.rint(3 * x)
    for shift, digits, known in ((0, 3, (441.306, 848.131)), (2, 1, (39.4, 391.7))):
        x[3] += shift
        assert round(diagnostics.rhat(x), 6) == (1.086532 if shift else 1.011243)
        found = [round(find(x), digits) for find in (diagnostics.ess_bulk, diagnostics.ess_tail)]
        assert found == list(known)
    assert np.isnan(diagnostics.rhat(np.ones((4, 10))))


@pytest.mark.slow
def test_trees_and_bins_agree_with_all_tables():
    units = dpi.Hierarchy(pd.Series({"t": None, "a": "t", "b": "t"}))
    values = pd.Series({"t": 6.0, "a": 2.0, "b": 5.0})
    found = table_posterior(values, workload=units, mechanism=ROUND, **HOW)
    x = tables(40, 2)
    check(found, x, log_rows(values, [[1, 1], [1, 0], [0, 1]], [ROUND] * 3, x))
    binned = dpi.noisy([4, 10], mechanism=ROUND, bin_size=5)
    check(
        table_posterior(binned, **HOW), x, log_rows([4, 10], np.eye(2), [ROUND] * 2, -5 * (-x // 5))
    )
