"""Rejection rates of the tests of contingency tables where the null hypothesis is true."""

from itertools import product

import numpy as np
import pytest

from dpinfer.hypothesis_tests import chi2_contingency
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace

LEVELS = np.array([0.01, 0.05, 0.1])
REPS = 199
SMALL_EXPECTED = 5.0

pytestmark = pytest.mark.filterwarnings("ignore::dpinfer.errors.ApproximationWarning")

MARGINS = {
    "2 x 2 balanced": ([0.5, 0.5], [0.5, 0.5]),
    "2 x 2 skewed": ([0.9, 0.1], [0.8, 0.2]),
    "3 x 4 balanced": ([1 / 3] * 3, [0.25] * 4),
    "3 x 4 skewed": ([0.7, 0.2, 0.1], [0.5, 0.3, 0.15, 0.05]),
}
LAWS = {
    "laplace": lambda epsilon: Laplace(scale=1 / epsilon),
    "geometric": lambda epsilon: Geometric(scale=1 / epsilon),
    "gaussian": lambda epsilon: Gaussian(sigma=np.sqrt(2 * np.log(1.25e6)) / epsilon),
    "discrete gaussian": lambda epsilon: DiscreteGaussian(
        sigma=np.sqrt(2 * np.log(1.25e6)) / epsilon
    ),
}


def rejection_rates(kind, statistic, rows, columns, nobs, noise, runs, seed, reps=REPS):
    """Rejection rates of the test as it is, and with the rule on small expected counts ignored."""
    rng, shape = np.random.default_rng(seed), (len(rows), len(columns))
    totals, known = np.round(nobs * np.array(rows)).astype(int), {}
    if kind == "homogeneity":
        known = {"row_totals": totals}
    elif kind == "public n":
        known = {"nobs": nobs}
    pvalues, decided = np.empty(runs), np.empty(runs, dtype=bool)
    for run in range(runs):
        if kind == "homogeneity":
            counts = np.array([rng.multinomial(total, columns) for total in totals])
        else:
            counts = rng.multinomial(nobs, np.outer(rows, columns).ravel()).reshape(shape)
        result = chi2_contingency(
            counts + noise.rvs(shape, rng=rng),
            mechanism=noise,
            statistic=statistic,
            small_expected="compute",
            reps=reps,
            rng=rng,
            **known,
        )
        pvalues[run] = result.pvalue
        decided[run] = result.expected_freq.min() >= SMALL_EXPECTED
    rejected = pvalues <= LEVELS[:, np.newaxis]
    return np.mean(rejected & decided, axis=1), np.mean(rejected, axis=1)


def assert_at_most_nominal(rates, runs):
    """Within 6 standard errors of the level: 1e-9 for each comparison."""
    assert (rates <= LEVELS + 6 * np.sqrt(LEVELS * (1 - LEVELS) / runs)).all(), rates


KINDS = ["public n", "unknown n", "homogeneity"]
STATISTICS = ["pearson", "projected"]


def check_level(statistic, *setting, runs, seed):
    with_rule, without = rejection_rates(setting[0], statistic, *setting[1:], runs, seed)
    assert_at_most_nominal(with_rule, runs)
    if statistic == "projected":
        assert_at_most_nominal(without, runs)


@pytest.mark.thinned("statistic", "kind", every=2)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("kind", KINDS)
def test_level_of_small_tables(kind, statistic):
    setting = (kind, *MARGINS["2 x 2 skewed"], 500, LAWS["laplace"](0.5))
    check_level(statistic, *setting, runs=200, seed=1)


def test_projected_is_not_needlessly_cautious():
    setting = ("public n", "projected", *MARGINS["3 x 4 balanced"], 2000, Laplace(scale=5.0))
    runs = 500
    with_rule, _ = rejection_rates(*setting, runs, seed=2, reps=99)
    # 6 standard errors: 1e-9 each
    assert (with_rule >= LEVELS - 6 * np.sqrt(LEVELS * (1 - LEVELS) / runs)).all()


OTHERS = [law for law in LAWS if law != "laplace"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "law", "statistic"),
    [  # each two once; all of them are in the study below
        (kind, law, STATISTICS[(row + column) % 2])
        for row, kind in enumerate(KINDS)
        for column, law in enumerate(OTHERS)
    ],
)
def test_level_of_small_tables_under_other_laws(kind, law, statistic):
    setting = (kind, *MARGINS["2 x 2 skewed"], 500, LAWS[law](0.5))
    check_level(statistic, *setting, runs=200, seed=1)


SIZES = list(product((50, 500, 5000), (0.05, 0.2, 1.0)))
EVERYWHERE = list(product(MARGINS, LAWS, KINDS))


@pytest.mark.study
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(("number", "setting"), list(enumerate(EVERYWHERE)), ids=str)
def test_level_everywhere(number, setting, statistic):
    """400 tables in each of three sizes out of nine, each size in a third of the settings."""
    margins, law, kind = setting
    for place in range(number % 3, 9, 3):
        nobs, epsilon = SIZES[(place + number // 3) % 9]
        where = (kind, *MARGINS[margins], nobs, LAWS[law](epsilon))
        check_level(statistic, *where, runs=400, seed=10 + number)
