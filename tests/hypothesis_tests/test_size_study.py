"""Rejection rates against enumeration, against the public tests, and on several workers."""

import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer import (
    DiscreteGaussian,
    DPInferError,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    WeightedSum,
    chi2_contingency,
    chisquare,
    poisson_ztest,
    proportions_ztest,
)
from dpinfer.calibration import size_study
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import (
    Binomial,
    Independence,
    Multinomial,
    Poisson,
    ProductMultinomial,
)

LEVELS = np.array([0.01, 0.05, 0.1])
REACH = 60
ERRORS = np.arange(-REACH, REACH + 1.0)


def published_law(pmf, noise):
    """Possible published counts and their probabilities, from the counts' own."""
    chances = np.convolve(pmf, stats.dlaplace(1 / noise.scale).pmf(ERRORS))
    return np.arange(-REACH, pmf.size + REACH), chances


@pytest.mark.parametrize("true_share", [None, 0.45])
def test_rates_of_one_proportion_by_enumeration(true_share):
    noise, n, p = Geometric(scale=1.5), 40, 0.3
    truth = None if true_share is None else Binomial(nobs=n, value=true_share)
    study = size_study(Binomial(nobs=n, value=p), noise, truth=truth)
    pmf = stats.binom(n, true_share or p).pmf(np.arange(n + 1))
    published, chances = published_law(pmf, noise)
    pvalues = proportions_ztest(published, n, p, mechanism=noise).pvalue
    z = np.abs(published - n * p) / np.sqrt(n * p * (1 - p))
    for column, level in enumerate(LEVELS):
        expected = (
            chances[pvalues <= level].sum(),
            chances[z >= stats.norm.isf(level / 2)].sum(),
        )
        np.testing.assert_allclose(study.rate[:, column], expected, atol=1e-12)
    assert study.under_null == (true_share is None)
    assert not study.reps.any()


def test_rates_of_one_rate_by_enumeration():
    noise, rate = Geometric(scale=1.0), 12.5
    study = size_study(Poisson(rate=rate), noise, truth=Poisson(rate=20.0))
    published, chances = published_law(stats.poisson(20.0).pmf(np.arange(120)), noise)
    pvalues = poisson_ztest(published, 1.0, rate, mechanism=noise).pvalue
    z = np.abs(published - rate) / np.sqrt(rate)
    for column, level in enumerate(LEVELS):
        expected = (
            chances[pvalues <= level].sum(),
            chances[z >= stats.norm.isf(level / 2)].sum(),
        )
        np.testing.assert_allclose(study.rate[:, column], expected, atol=1e-12)


@pytest.mark.parametrize("true_shares", [None, [0.6, 0.4]])
def test_rates_of_pearson_by_enumeration(true_shares):
    noise, n, p = Geometric(scale=1.2), 12, np.array([0.3, 0.7])
    truth = None if true_shares is None else Multinomial(nobs=n, value=true_shares)
    study = size_study(Multinomial(nobs=n, value=p), noise, truth=truth, reps=1000, rng=1)
    first = np.arange(n + 1)
    counts = stats.binom(n, (true_shares or p)[0]).pmf(first)
    errors = stats.dlaplace(1 / noise.scale).pmf(ERRORS)
    chances = counts[:, None, None] * errors[:, None] * errors
    deviations = (
        first[:, None, None] + ERRORS[:, None] - n * p[0],
        n - first[:, None, None] + ERRORS - n * p[1],
    )
    statistic = deviations[0] ** 2 / (n * p[0]) + deviations[1] ** 2 / (n * p[1])
    order = np.argsort(-statistic, axis=None)
    ordered, mass = statistic.ravel()[order], np.cumsum(chances.ravel()[order])
    null = stats.binom(n, p[0]).pmf(first)[:, None, None] * errors[:, None] * errors
    tail = np.cumsum(null.ravel()[order])
    # the p-value of a value is the mass up to the last of those that are equal but for rounding
    last = np.searchsorted(-ordered, -ordered + 1e-9 * (1 + ordered), side="right") - 1
    for column, level in enumerate(LEVELS):
        rejected = tail[last] <= level
        expected = mass[np.flatnonzero(rejected)[-1]]
        assert study.rate[0, column] == pytest.approx(expected, abs=1e-9)
        ignorant = mass[np.searchsorted(-ordered, -stats.chi2.isf(level, 1), side="right") - 1]
        assert study.rate[2, column] == pytest.approx(ignorant, abs=1e-9)
    assert study.tests[0] == "chisquare, pearson, exact"
    np.testing.assert_array_equal(study.reps, [0, 1000, 0])


def pvalues_of(test, **options):
    """Test releases one by one, and do not mention that limits are approximations."""

    def one_by_one(releases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array([test(release, **options).pvalue for release in releases])

    return one_by_one


def same_releases(model, noise, own, **options):
    """Rates of the default tests, and of one's own on the same releases."""
    options = {"reps": 300, "rng": 5, **options}
    studies = (size_study(model, noise, tests, **options) for tests in (None, {"own": own}))
    return [study.rate for study in studies]


def test_projected_is_the_public_test():
    model, noise = Multinomial(nobs=60, value=[0.2, 0.3, 0.5]), Gaussian(sigma=4.0)
    own = pvalues_of(
        chisquare, f_exp=model.expected, mechanism=noise, statistic="projected", method="asymptotic"
    )
    rates, own_rates = same_releases(model, noise, own)
    np.testing.assert_array_equal(rates[1], own_rates[0])


def shaped(table_test, shape):
    return lambda cells, **options: table_test(cells.reshape(shape), **options)


def test_independence_is_the_public_test():
    model = Independence(nobs=70, rows=[0.4, 0.6], columns=[0.2, 0.3, 0.5])
    noise, limit = DiscreteGaussian(sigma=3.0), {"method": "asymptotic"}
    own = pvalues_of(shaped(chi2_contingency, (2, 3)), mechanism=noise, nobs=70, **limit)
    rates, own_rates = same_releases(model, noise, own, alpha=[0.05, 0.3])
    np.testing.assert_array_equal(rates[0], own_rates[0])
    assert rates[0, 1] > 0.1


def test_homogeneity_is_the_public_test():
    model = ProductMultinomial(nobs=[40, 50, 60], value=[[0.3, 0.7]] * 3)
    noise, limit = Laplace(scale=2.0), {"method": "asymptotic"}
    own = pvalues_of(
        shaped(chi2_contingency, (3, 2)), mechanism=noise, row_totals=[40, 50, 60], **limit
    )
    rates, own_rates = same_releases(model, noise, own, alpha=[0.05, 0.3])
    np.testing.assert_array_equal(rates[0], own_rates[0])
    other = ProductMultinomial(nobs=[40, 50, 60], value=[[0.3, 0.7], [0.5, 0.5], [0.2, 0.8]])
    power = size_study(model, noise, truth=other, reps=300, rng=5)
    assert (power.rate[0] > own_rates[0, 0]).all()


def test_pearson_without_noise_is_that_of_scipy():
    model = Independence(nobs=200, rows=[0.4, 0.6], columns=[0.2, 0.3, 0.5])
    own = pvalues_of(lambda cells: stats.chi2_contingency(cells.reshape(2, 3), correction=False))
    rates, own_rates = same_releases(model, Exact(), own)
    np.testing.assert_array_equal(rates[1], own_rates[0])


def test_truth_of_two_rows_against_equal_cells_by_enumeration():
    """Counts with two totals have no exact law here: the rates are simulated."""
    model, reps = Multinomial(nobs=12, value=[0.25] * 4), 40_000
    truth = ProductMultinomial(nobs=[4, 8], value=[0.5, 0.5])
    study = size_study(model, Exact(), truth=truth, reps=reps, rng=11)
    tables = [np.array([a, 4 - a, b, 8 - b]) for a in range(5) for b in range(9)]
    chances = np.array(
        [stats.binom.pmf(x[0], 4, 0.5) * stats.binom.pmf(x[2], 8, 0.5) for x in tables]
    )
    pvalues = np.array([float(chisquare(x, [3] * 4, mechanism=Exact()).pvalue) for x in tables])
    assert study.tests[0] == "chisquare, pearson, exact"
    for column, level in enumerate(LEVELS):
        expected = chances[pvalues <= level].sum()
        # 6 standard errors: 2e-9 for each level
        error = 6 * np.sqrt(expected * (1 - expected) / reps)
        assert abs(study.rate[0, column] - expected) <= error
    assert study.reps[0] == reps


@pytest.mark.parametrize("law", [[Laplace(scale=2.0)], Laplace(scale=[2.0])], ids=["list", "array"])
def test_one_law_for_the_one_count(law):
    model = Binomial(nobs=30, value=0.3)
    np.testing.assert_array_equal(
        size_study(model, law).rate, size_study(model, Laplace(scale=2.0)).rate
    )


WIDE = WeightedSum([1.0, 1.0], [Laplace(scale=8.0), Laplace(scale=15.0)])
SLOW_TAIL = Multinomial(nobs=1000, value=[0.05, 0.15, 0.8])


def test_critical_values_are_simulated_where_there_is_no_exact_law():
    """Noise that is a weighted sum has no exact law here."""
    study = size_study(SLOW_TAIL, WIDE, reps=20_000, rng=2)
    assert study.tests[0] == "chisquare, pearson, monte-carlo"
    # 6 standard errors, 5 % larger for the critical values: 2e-9 for each level
    error = 1.05 * np.sqrt(LEVELS * (1 - LEVELS) / 20_000)
    assert (np.abs(study.rate[0] - LEVELS) < 6 * error).all()
    power = size_study(
        SLOW_TAIL, WIDE, reps=500, rng=2, truth=Multinomial(nobs=1000, value=[0.1, 0.2, 0.7])
    )
    assert power.reps[0] == 500  # no rate is exact at a simulated critical value


def test_levels_that_no_replicate_reaches():
    study = size_study(SLOW_TAIL, WIDE, alpha=[1e-4, 0.5, 1 - 1e-15], reps=10, rng=3)
    assert study.rate[0, 0] == 0.0
    assert study.rate[0, 2] > 0.5


def largest(counts):
    return np.minimum(1.0, 3 * stats.norm.sf(np.abs(counts - 20.0).max(axis=-1) / 5.0))


def test_own_tests_are_counted():
    model, noise = Multinomial(nobs=60, value=[1 / 3] * 3), Laplace(scale=2.0)
    seen = []

    def remember(counts):
        seen.append(counts.copy())
        return largest(counts)

    study = size_study(model, noise, {"a": remember, "b": largest}, reps=40_000, rng=4)
    pvalues = largest(np.concatenate(seen))
    assert pvalues.size == 40_000
    for row, column in product(range(2), range(3)):
        assert study.rate[row, column] == np.mean(pvalues <= LEVELS[column])
    with pytest.raises(InvalidParameterError, match=r"tests\['a'\] must map counts of shape"):
        size_study(model, noise, {"a": lambda counts: 0.5})
    with pytest.raises(InvalidParameterError, match=r"tests\['a'\] must not contain NaN"):
        size_study(model, noise, {"a": lambda counts: np.full(len(counts), np.nan)})


@pytest.mark.parametrize(
    "model",
    [
        SLOW_TAIL,
        pytest.param(Poisson(rate=[4.0, 9.0]), marks=pytest.mark.study),
        Independence(nobs=90, rows=[0.5] * 2, columns=[0.5] * 2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_workers_do_not_matter(model):
    noise = WeightedSum([1.0, 1.0], [Laplace(scale=3.0), Gaussian(sigma=2.0)])
    options = {"reps": 70_000, "alpha": [0.05, 0.2]}
    one, two = (size_study(model, noise, rng=6, n_jobs=n, **options) for n in (1, 2))
    np.testing.assert_array_equal(one.rate, two.rate)
    other = size_study(model, noise, rng=7, **options)
    assert (one.rate != other.rate).any()


def test_processes_do_not_matter():
    joblib = pytest.importorskip("joblib")
    model, noise = Poisson(rate=[4.0, 9.0]), Laplace(scale=3.0)
    here = size_study(model, noise, reps=70_000, rng=6)
    with joblib.parallel_config("loky"):
        there = size_study(model, noise, reps=70_000, rng=6, n_jobs=2)
    np.testing.assert_array_equal(here.rate, there.rate)


def test_rates_of_independent_counts():
    """Pearson's statistic of normal counts is a sum of squares, weighted with 1 + V/E."""
    model, noise = Poisson(rate=[400.0, 900.0]), Gaussian(sigma=20.0)
    study = size_study(model, noise, reps=40_000, rng=8)
    # the limit is off by less than 0.002 with so many events; 6 standard errors, 2e-9 each
    error = 6 * np.sqrt(LEVELS * (1 - LEVELS) / 40_000) + 0.002
    assert (np.abs(study.rate[0] - LEVELS) < error).all()
    assert (study.rate[1] > LEVELS + error).all()


def test_it_travels():
    study = pickle.loads(pickle.dumps(size_study(Binomial(nobs=9, value=0.5), Laplace(scale=1.0))))
    assert study.rate.shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"model": 5}, "model must be"),
        ({"truth": "x"}, "truth must be"),
        ({"truth": Poisson(rate=[1.0, 2.0])}, "truth must have the shape of model"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": [[0.1]]}, "alpha must be a number or one-dimensional"),
        ({"tests": {}}, "tests must be a mapping"),
        ({"tests": {1: len}}, "tests must map names"),
        ({"tests": {"a": 1}}, "tests must map names"),
        ({"reps": 0}, "reps"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"mechanism": 3}, "mechanism"),
        ({"model": ProductMultinomial(nobs=[5], value=[0.5, 0.5])}, "model must have two rows"),
    ],
)
def test_bad_arguments(arguments, named):
    options = {"model": Poisson(rate=5.0), "mechanism": Laplace(scale=1.0), **arguments}
    with pytest.raises(InvalidParameterError, match=named):
        size_study(**options)


NUMBERS = st.one_of(st.floats(), st.integers(-3, 10), st.none(), st.complex_numbers())
ANYTHING = st.one_of(NUMBERS, st.text(max_size=2), st.lists(NUMBERS, max_size=3))


@settings(derandomize=True, deadline=None, max_examples=75)
@given(
    rate=st.floats(1e-3, 1e3),
    cells=st.integers(0, 3),
    alpha=ANYTHING,
    reps=st.one_of(st.integers(-1, 20), NUMBERS.filter(lambda x: not isinstance(x, int))),
    rng=st.one_of(st.integers(-2, 5), st.none(), st.text(max_size=1)),
    truth=st.one_of(st.none(), st.floats(1e-3, 1e3), ANYTHING),
)
def test_nothing_but_errors_of_its_own(rate, cells, alpha, reps, rng, truth):
    model = Poisson(rate=np.full(cells, rate) if cells else rate)
    try:
        if isinstance(truth, float) and np.isfinite(truth) and 0 < truth < 1e9:
            truth = Poisson(rate=truth)
        study = size_study(
            model, Geometric(scale=1.0), alpha=alpha, reps=reps, rng=rng, truth=truth
        )
    except DPInferError:
        return
    assert ((study.rate >= 0) & (study.rate <= 1)).all()
    assert not np.isnan(study.excess).any()
    study.summary()
