"""Noise, estimates and intervals beside what a user would do without them."""

import sys
from pathlib import Path

import numpy as np
from scipy import special

sys.path.append(str(Path(__file__).parent))  # for pytest, which imports this file by its path

import test_combine
import test_hierarchy
import test_marginals
import test_posterior
import test_proportion_intervals
import test_regression
import test_sampling
import test_table_posterior
import test_weighted_sum
from comparing import SAME, Calls, adding_to, close

import dpinfer as dpi
from dpinfer.mechanisms import Gaussian, Geometric, Laplace, WeightedSum
from dpinfer.posterior import diagnostics

ROWS = []
comparison = adding_to(ROWS)

# Draws of noise and laws of sums


def draws(size, _peer_size, name):
    law, recipe = test_sampling.GROUPS[name]
    ours, theirs = np.random.default_rng(1), np.random.default_rng(2)

    def agree(ours, theirs):
        # ten standard errors of the spread of Laplace draws, whose kurtosis is 6
        return abs(np.std(ours) / np.std(theirs) - 1.0) < 10.0 * 1.6 / np.sqrt(size)

    return Calls(lambda: law.rvs(size, rng=ours), lambda: recipe(theirs), agree)


for name, function, what, recipe in (
    ("laplace", "Laplace", "Laplace draws", "NumPy's `laplace`"),
    ("geometric-10", "Geometric", "geometric draws, scale 10", "NumPy's `geometric` less another"),
    (
        "discrete-gaussian-10",
        "DiscreteGaussian",
        "discrete Gaussian draws, σ = 10",
        "SciPy's `rv_discrete`",
    ),
):
    row = ("Noise", function, what, recipe, SAME, "draws", test_sampling.SIZE)
    comparison(*row, name=name)(draws)


@comparison(
    "Noise",
    "WeightedSum",
    "95 % half-width of a sum of eight geometric noises with weights",
    "a million NumPy draws of it",
    "with simulation error",
    "laws",
    1,
)
def half_width(_size, _peer_size):
    weights, scale = test_weighted_sum.GEOMETRIC, 10.0
    rng = np.random.default_rng(1)

    def ours():
        return WeightedSum(weights, Geometric(scale=scale)).isf(0.025)

    def theirs():
        p = -np.expm1(-1.0 / scale)
        shape = (1_000_000, weights.size)
        return np.quantile((rng.geometric(p, shape) - rng.geometric(p, shape)) @ weights, 0.975)

    return Calls(ours, theirs, lambda a, b: close(a, b, rtol=0.02))


# Estimation


def dense_combine(size, _peer_size, way):
    problem = test_combine.cells_margins_and_total(round(size**0.5))

    def agree(ours, theirs):
        errors = theirs[1] is None or close(ours[1], theirs[1])
        return errors and close(ours[0], theirs[0])

    return Calls(
        lambda: test_combine.by_dpinfer(*problem), lambda: test_combine.WAYS[way](*problem), agree
    )


for way, peer in (("statsmodels WLS", "statsmodels `WLS`"), ("numpy lstsq", "`numpy.linalg`")):
    what = "a table with its margins and total: estimates and standard errors"
    comparison("Estimation", "combine", what, peer, SAME, "cells", 400, way=way)(dense_combine)


@comparison(
    "Estimation",
    "combine",
    "a tree with Gaussian noise of known covariance: estimates and standard errors of its cells",
    "statsmodels `GLS`",
    SAME,
    "cells",
    128,
)
def known_covariance(size, _peer_size):
    from statsmodels.api import GLS

    values, matrix, covariance = test_combine.nodes_of_a_tree(size)

    def ours():
        release = dpi.Release(values, workload=matrix, covariance=covariance)
        fit = dpi.combine(release, target=np.eye(size))
        return fit.params, fit.bse

    def theirs():
        fit = GLS(values, matrix, sigma=covariance).fit()
        return fit.params, np.sqrt(np.diag(fit.normalized_cov_params))

    return Calls(ours, theirs, lambda a, b: close(a[0], b[0]) and close(a[1], b[1]))


@comparison(
    "Estimation",
    "combine",
    "a table with its margins and total: estimates",
    "SciPy `lsmr`",
    "estimates, no standard errors",
    "cells",
    10_000,
)
def sparse_combine(size, _peer_size):
    problem = values, matrix, scale = test_combine.cells_margins_and_total(round(size**0.5))
    return Calls(
        lambda: dpi.combine(values, workload=matrix, mechanism=Laplace(scale=scale)).params,
        lambda: matrix @ test_combine.by_lsmr(*problem)[0],
        close,
    )


def sparse_problem(size, _peer_size, problem, way, errors=False):
    values, matrix, scale = problem(size)

    def ours():
        fit = dpi.combine(values, workload=matrix, mechanism=Laplace(scale=scale))
        return (fit.params, fit.bse) if errors else (fit.params,)

    def theirs():
        return matrix @ way(values, matrix, scale)[0]

    return Calls(ours, theirs, lambda a, b: close(a[0], b))


def sums_of_four(cells):
    return test_combine.cells_and_sums(cells, cells // 4)


for what, problem, peer, way, errors, sizes in (
    (
        "cells and sums of five neighbours: estimates",
        test_combine.cells_and_neighbours,
        "SciPy `splu`",
        test_combine.by_lu,
        False,
        (10, 200, 1_000, 10_000, 100_000),
    ),
    (
        "cells and sums of five neighbours: estimates and standard errors",
        test_combine.cells_and_neighbours,
        "SciPy `splu`",
        test_combine.by_lu,
        True,
        (10_000,),
    ),
    (
        "cells and random sums of four: estimates",
        sums_of_four,
        "SciPy `splu`",
        test_combine.by_lu,
        False,
        (200,),
    ),
    (
        "cells and random sums of four: estimates",
        sums_of_four,
        "SciPy `lsmr`",
        test_combine.by_lsmr,
        False,
        (20_000,),
    ),
):
    for size in sizes:
        comparison(
            "Estimation",
            "combine",
            what,
            peer,
            "estimates, no standard errors",
            "cells",
            size,
            problem=problem,
            way=way,
            errors=errors,
        )(sparse_problem)


@comparison(
    "Estimation",
    "combine",
    "all margins of a table of 90,000 cells: estimates and standard errors of all values",
    "SciPy `lsmr`",
    "estimates, no standard errors",
    "cells",
    90_000,
)
def margins(size, _peer_size):
    values, workload, scale = test_combine.all_margins((100, size // 1000, 10))

    def ours():
        fit = dpi.combine(values, workload=workload, mechanism=Laplace(scale=scale))
        return np.asarray(fit.params), fit.bse

    def theirs():
        return workload.matrix @ test_combine.by_lsmr(values, workload.matrix, scale)[0]

    return Calls(ours, theirs, lambda a, b: close(a[0], b))


def tree(size, _peer_size, way):
    parent = test_hierarchy.ragged(size)
    problem = (parent, *test_hierarchy.published(parent))
    return Calls(
        lambda: test_hierarchy.by_dpinfer(*problem),
        lambda: way(*problem),
        lambda ours, theirs: close(ours[0], theirs[0], atol=1e-5),
    )


for way, peer in (
    (test_hierarchy.by_lsmr, "SciPy `lsmr`"),
    (test_hierarchy.by_lu, "SciPy sparse LU"),
):
    what = "a ragged tree of counts: estimates and variances of all units"
    gives = "estimates, no variances"
    comparison("Estimation", "combine_hierarchy", what, peer, gives, "leaves", 3_000, way=way)(tree)


@comparison(
    "Regression",
    "noisy_ols",
    "20 columns, one of them noisy: coefficients and HC1 standard errors",
    "statsmodels `OLS`",
    "naive: attenuated by the noise",
    "rows",
    100_000,
)
def regression(size, _peer_size):
    data = test_regression.data(size)

    def agree(ours, theirs):
        # the reliability is 1 - 1e-8: all that is between them
        return close(ours[0], theirs[0], rtol=1e-5) and close(ours[1], theirs[1], rtol=1e-5)

    return Calls(
        lambda: test_regression.by_dpinfer(*data, std=1e-4),
        lambda: test_regression.by_statsmodels(*data),
        agree,
    )


@comparison(
    "Estimation",
    "combine_marginals",
    "tables of 252 cells on a tree: estimates and variances of all cells",
    "dense algebra in each unit, NumPy",
    SAME,
    "units",
    100,
)
def tables_on_a_tree(size, _peer_size):
    problem = test_marginals.census_like(test_marginals.SCHEMAS[252], size)
    return Calls(
        lambda: test_marginals.by_dpinfer(*problem),
        lambda: test_marginals.by_dense_algebra(*problem),
        close,
    )


# Intervals


def proportion_intervals(size, peer_size, noise, way, atol):
    count, nobs = test_proportion_intervals.published(size, one_nobs=False, noise=noise)

    def agree(ours, theirs):
        ours = ours[:peer_size]
        there = np.isfinite(ours[:, 0])
        return atol is None or close(ours[there], theirs[there], atol=atol)

    return Calls(
        lambda: test_proportion_intervals.by_dpinfer(count, nobs, noise),
        lambda: way(count[:peer_size], nobs[:peer_size], noise),
        agree,
    )


def by_statsmodels(count, nobs, _noise):
    from statsmodels.stats.proportion import proportion_confint

    return np.stack(proportion_confint(np.clip(count, 0, nobs), nobs, method="beta"), axis=1)


UNALIKE, ALIKE = "Laplace noise, no two rows alike", "geometric noise, rows that repeat"
NORMAL = "Gaussian noise, no two rows alike"
BOOTSTRAP = (
    test_proportion_intervals.by_bootstrap,
    "parametric bootstrap, 1,000 replicates",
    "approximate, with simulation error",
    400,
    None,
)
STATSMODELS = (by_statsmodels, "statsmodels `proportion_confint`", "noise ignored", 10**6, None)
BRENTQ = (test_proportion_intervals.by_brentq, "SciPy `brentq` row by row", SAME, 40, 1e-9)
for rows, noise, (way, peer, gives, peer_size, atol) in (
    (UNALIKE, Laplace(scale=2.0), BRENTQ),
    (UNALIKE, Laplace(scale=2.0), BOOTSTRAP),
    (UNALIKE, Laplace(scale=2.0), STATSMODELS),
    (NORMAL, Gaussian(sigma=2.0), BRENTQ),
    (NORMAL, Gaussian(sigma=2.0), BOOTSTRAP),
    (ALIKE, test_proportion_intervals.NOISE, BOOTSTRAP),
    (ALIKE, test_proportion_intervals.NOISE, STATSMODELS),
):
    row = ("Intervals", "proportion_confint", f"exact intervals of proportions: {rows}", peer)
    options = {"noise": noise, "way": way, "atol": atol}
    comparison(*row, gives, "rows", 10**6, peer_size, **options)(proportion_intervals)


def by_metropolis(values, rates, noise, sweeps=1_000):
    """Posterior means by random walks in all rows at once, a fifth of them to warm up."""
    rng = np.random.default_rng(1)

    def log_weight(k):
        with np.errstate(invalid="ignore"):
            prior = special.xlogy(k, rates) - special.gammaln(k + 1.0)
        return np.where(k >= 0, prior + noise.logpdf(values - k), -np.inf)

    at = np.rint(rates)
    weight, total = log_weight(at), np.zeros(values.size)
    for sweep in range(sweeps):
        step = at + rng.integers(-5, 6, values.size)
        proposed = log_weight(step)
        moves = np.log(rng.random(values.size)) < proposed - weight
        at, weight = np.where(moves, step, at), np.where(moves, proposed, weight)
        if sweep >= sweeps // 5:
            total += at
    return total / (sweeps - sweeps // 5)


@comparison(
    "Intervals",
    "count_posterior",
    "posterior means and intervals, a prior for each count",
    "a loop over rows with SciPy",
    SAME,
    "rows",
    2_000,
)
def posterior_by_loop(size, _peer_size):
    noise = test_posterior.NOISES[0]
    rates, values = test_posterior.table(noise, size)
    return Calls(
        lambda: test_posterior.by_dpinfer(values, rates, noise),
        lambda: test_posterior.by_loop(values, rates, noise),
        close,
    )


@comparison(
    "Intervals",
    "count_posterior",
    "posterior means, a prior for each count",
    "Metropolis walks of 1,000 steps, all rows at once in NumPy",
    "with simulation error",
    "rows",
    2_000,
)
def posterior_by_walks(size, _peer_size):
    noise = test_posterior.NOISES[0]
    rates, values = test_posterior.table(noise, size)

    def ours():
        prior = dpi.priors.PoissonPrior(rates)
        return dpi.count_posterior(values, mechanism=noise, prior=prior).mean

    def agree(ours, theirs):
        # posterior standard deviations are at most those of the noise, 2.8
        return np.sqrt(np.mean(np.square(ours - theirs))) < 0.6

    return Calls(ours, lambda: by_metropolis(values, rates, noise), agree)


@comparison(
    "Intervals",
    "table_posterior",
    "draws of a 2×2 table with its total",
    "data augmentation, record by record, as the R package dapper does, in Python",
    "with draws that depend on each other",
    "effective draws",
    10_000,
    1_000,
)
def table_by_data_augmentation(size, peer_size):
    def agree(ours, theirs):
        effective = min(diagnostics.ess_bulk(one[None]) for one in theirs.T)
        error = np.asarray(ours.std) / np.sqrt(effective)
        near = np.abs(theirs.mean(axis=0) - np.asarray(ours.mean)) < 6.0 * error
        return near.all() and abs(effective / peer_size - 1.0) < 0.25

    return Calls(
        lambda: test_table_posterior.admissions(size),
        lambda: test_table_posterior.by_data_augmentation(2 * peer_size, seed=1),
        agree,
    )
