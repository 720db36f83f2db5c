"""Null distributions of any statistic: exact, by enumeration, simulated and asymptotic."""

import pickle
import tracemalloc
from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer import DiscreteGaussian, DPInferError, Exact, Gaussian, Geometric, Laplace
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import (
    Binomial,
    Multinomial,
    Poisson,
    ProductMultinomial,
    chisquare,
    null_distribution,
    proportions_ztest,
)
from dpinfer.results import ExactNull

ALTERNATIVES = ("two-sided", "larger", "smaller")

TABLE = Multinomial(nobs=6, value=[0.2, 0.3, 0.5])
NARROW = Geometric(scale=0.25)


def spread_out(counts):
    return np.ptp(counts, axis=-1)


def first_cell(counts):
    return counts[..., 0]


def brute_force(model, laws, statistic, point):
    """P(S >= s) by adding up every table and every noise, one by one."""
    tables = [x for x in product(range(model.nobs + 1), repeat=3) if sum(x) == model.nobs]
    reach = 9
    noises = list(product(range(-reach, reach + 1), repeat=2))
    first, second = (law.pmf(np.array(noises, dtype=float)[:, i]) for i, law in enumerate(laws[:2]))
    total = 0.0
    for x in tables:
        ways = factorial(model.nobs) / prod(factorial(c) for c in x)
        chance = ways * np.prod(model.value ** np.array(x))
        cells = np.array([(x[0] + a, x[1] + b, x[2]) for a, b in noises])
        total += chance * (first * second)[statistic(cells) >= point - 1e-9].sum()
    return total


@pytest.mark.parametrize("statistic", [spread_out, first_cell, "pearson"])
@pytest.mark.parametrize("laws", [[NARROW, NARROW, Exact()], [DiscreteGaussian(sigma=0.6)] * 2])
def test_enumeration_against_adding_up_one_by_one(statistic, laws):
    laws = [*laws[:2], Exact()]
    null = null_distribution(TABLE, laws, statistic)
    assert isinstance(null, ExactNull)
    form = statistic
    if statistic == "pearson":
        form = lambda y: (np.square(y - TABLE.expected) / TABLE.expected).sum(axis=-1)  # noqa: E731
    for point in (form(np.array([3.0, 2.0, 2.0])), form(np.array([4.0, 1.0, 0.0]))):
        expected = brute_force(TABLE, laws, form, point)
        assert null.pvalue(point, "larger") == pytest.approx(expected, rel=1e-12, abs=1e-13)


MODELS = [
    Binomial(nobs=20, value=0.3),
    Poisson(rate=4.0),
    Poisson(rate=[1.0, 3.0]),
    TABLE,
    ProductMultinomial(nobs=[3, 4], value=[0.4, 0.6]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("noise", [NARROW, DiscreteGaussian(sigma=0.5)], ids=repr)
def test_enumeration_and_simulation_agree(model, noise):
    exact = null_distribution(model, noise)
    assert isinstance(exact, ExactNull)
    points = np.array([0.5, 3.0, 8.0])
    simulated = null_distribution(
        model, noise, observed=points, method="monte-carlo", reps=100_000, rng=1
    )
    for alternative in ("larger", "smaller"):
        expected = exact.pvalue(points, alternative)
        found = simulated.pvalue(points, alternative)
        error = np.sqrt(expected * (1 - expected) / 100_000) + 1e-5
        assert (np.abs(found - expected) < 6 * error).all()  # 2e-9 for each point


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("noise", [Geometric(scale=1.0), NARROW], ids=repr)
@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: type(model).__name__)
def test_z_is_that_of_the_enumeration(model, noise, alternative):
    spread = np.sqrt(20 * 0.3 * 0.7) if isinstance(model, Binomial) else 2.0
    centre = float(model.expected)
    enumerated = null_distribution(model, noise, lambda y: (y - centre) / spread)
    direct = null_distribution(model, noise, "z")
    points = (np.arange(-3.0, 20.0) - centre) / spread
    np.testing.assert_allclose(
        direct.pvalue(points, alternative),
        enumerated.pvalue(points, alternative),
        rtol=1e-11,
        atol=2e-14,
    )


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), [Laplace(scale=2.0)]], ids=["law", "list"])
def test_z_simulated(model, noise):
    points = np.array([-1.3, 0.4, 2.5])
    options = {"observed": points, "method": "monte-carlo", "reps": 50_000, "rng": 12}
    simulated = null_distribution(model, noise, "z", **options)
    exact = null_distribution(model, Laplace(scale=2.0), "z")
    for alternative in ALTERNATIVES:
        low, high = simulated.mc_confint(points, alternative, alpha=1e-9)  # fails so often
        expected = exact.pvalue(points, alternative)
        assert ((low < expected) & (expected < high)).all()


@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Geometric(scale=2.0)], ids=repr)
def test_z_is_that_of_the_test_of_one_proportion(noise):
    null = null_distribution(Binomial(nobs=100, value=0.255), noise, "z")
    statistic, pvalue = proportions_ztest(34, 100, 0.255, mechanism=noise)
    assert null.pvalue(statistic) == pytest.approx(pvalue, rel=1e-12)


def test_a_poisson_count_with_continuous_noise():
    noise = Laplace(scale=1.5)
    null = null_distribution(Poisson(rate=10.0), noise, "z")
    k = np.arange(200.0)
    for count in (3.3, 10.0, 17.2):
        expected = (stats.poisson.pmf(k, 10.0) * noise.sf(count - k)).sum()
        z = (count - 10.0) / np.sqrt(10.0)
        assert null.pvalue(z, "larger") == pytest.approx(expected, rel=1e-12)
        assert null.pvalue(z, "smaller") == pytest.approx(1 - expected, rel=1e-12)


def test_without_noise_it_is_the_exact_multinomial_test():
    null = null_distribution(TABLE, Exact())
    chances = []
    for x in product(range(7), repeat=3):
        if sum(x) == 6:
            value = (np.square(x - TABLE.expected) / TABLE.expected).sum()
            chances.append((value, stats.multinomial.pmf(x, 6, TABLE.value)))
    for point, _ in chances:
        expected = sum(chance for value, chance in chances if value >= point - 1e-9)
        assert null.pvalue(point, "larger") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        Multinomial(nobs=20_000, value=[0.2, 0.3, 0.5]),
        ProductMultinomial(nobs=[20_000, 10_000], value=[0.4, 0.6]),
        Poisson(rate=[9_000.0, 5_000.0]),
        Binomial(nobs=20_000, value=0.3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_limit_of_pearson_is_close_where_counts_are_large(model):
    noise = Gaussian(sigma=60.0)
    points = null_distribution(model, noise, method="asymptotic").critical_value(0.1, "larger")
    found = null_distribution(
        model, noise, observed=points, method="monte-carlo", reps=50_000, rng=2
    )
    # 6 standard errors, and the limit's own error for these counts
    assert abs(found.pvalue(points, "larger") - 0.1) < 6 * 0.0014 + 0.002


def test_the_limits_of_the_other_statistics():
    noise = Gaussian(sigma=3.0)
    z = null_distribution(Poisson(rate=9.0), noise, "z", method="asymptotic")
    assert z.pvalue(1.96 * np.sqrt(2.0)) == pytest.approx(0.05, abs=1e-4)
    law = null_distribution(TABLE, noise, "projected", method="asymptotic")
    assert law.pvalue(5.991, "larger") == pytest.approx(0.05, abs=1e-4)
    with pytest.raises(InvalidParameterError, match="asymptotic"):
        null_distribution(TABLE, noise, first_cell, method="asymptotic")


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
def test_statistics_are_those_of_chisquare(statistic):
    noise = Laplace(scale=1.0)
    result = chisquare(
        [3.2, 0.4, 4.1], TABLE.expected, mechanism=noise, statistic=statistic,
        method="monte-carlo", rng=3, reps=20_000,
    )  # fmt: skip
    null = null_distribution(TABLE, noise, statistic, observed=result.statistic, rng=4, reps=20_000)
    error = np.sqrt(2) * max(result.mc_error, 1e-3)
    assert abs(null.pvalue(result.statistic, "larger") - result.pvalue) < 6 * error  # 2e-9


def test_pearson_of_many_cells_is_exact_too():
    model, noise = Multinomial(nobs=1000, value=np.full(50, 0.02)), Laplace(scale=2.0)
    null = null_distribution(model, noise, method="exact")
    assert isinstance(null, ExactNull)
    points = np.array([60.0, 90.0])
    found = null_distribution(
        model, noise, observed=points, method="monte-carlo", reps=40_000, rng=5
    )
    low, high = found.mc_confint(points, "larger", alpha=1e-9)  # so often it fails by accident
    exact = null.pvalue(points, "larger")
    assert ((low < exact) & (exact < high)).all()


@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Geometric(scale=2.0)], ids=repr)
def test_pearson_is_exact_by_default_where_that_is_quick(noise):
    model = Multinomial(nobs=5_000, value=[0.3, 0.7])
    null = null_distribution(model, noise)
    assert isinstance(null, ExactNull)
    critical = null.critical_value(0.05, "larger")
    assert null.pvalue(critical, "larger") == pytest.approx(0.05, abs=1e-3)
    points = np.array([0.1, critical])
    found = null_distribution(
        model, noise, observed=points, method="monte-carlo", reps=100_000, rng=6
    )
    low, high = found.mc_confint(points, "larger", alpha=1e-9)  # so often it fails by accident
    exact = null.pvalue(points, "larger")
    assert ((low < exact) & (exact < high)).all()
    assert exact == pytest.approx(null_distribution(model, noise, method="exact").pvalue(points))


def test_pearson_is_simulated_where_values_would_have_to_be_listed():
    model = Multinomial(nobs=1_000, value=[0.21, 0.33, 0.46])
    noise = Geometric(scale=2.0)
    simulated = null_distribution(model, noise, observed=6.0, rng=1)
    assert "Monte Carlo" in simulated.summary()
    low, high = simulated.mc_confint(6.0, "larger", alpha=1e-9)  # so often it fails by accident
    exact = null_distribution(model, noise, method="exact")
    assert isinstance(exact, ExactNull)
    assert low < exact.pvalue(6.0, "larger") < high


def test_precision_ends_the_simulation_early():
    options = {"observed": 2.0, "method": "monte-carlo", "reps": 10**6, "rng": 1}
    null = null_distribution(TABLE, NARROW, precision=0.1, **options)
    assert null.stopped
    assert null.pvalue(2.0, "larger") == 100 / null.reps
    expected = null_distribution(TABLE, NARROW).pvalue(2.0, "larger")
    low, high = null.mc_confint(2.0, "larger", alpha=1e-9)  # so often it fails by accident
    assert low < expected < high
    with pytest.raises(InvalidParameterError, match="observed"):
        null_distribution(TABLE, NARROW, method="monte-carlo", precision=0.1)


def test_default_is_exact_where_that_is_possible():
    assert isinstance(null_distribution(TABLE, NARROW), ExactNull)
    many = Multinomial(nobs=1000, value=np.full(10, 0.1))
    null = null_distribution(many, Laplace(scale=1.0), first_cell, rng=1, reps=100)
    assert "Monte Carlo" in null.summary()
    with pytest.raises(InvalidParameterError, match="method"):
        null_distribution(many, Laplace(scale=1.0), first_cell, method="exact")


def test_wide_noise_of_many_cells_is_not_listed():
    model = Multinomial(nobs=100, value=np.full(400, 1 / 400))
    tracemalloc.start()
    try:
        null = null_distribution(
            model, Geometric(scale=1e4), first_cell, observed=0.0, reps=99, rng=1
        )
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()
    assert "Monte Carlo" in null.summary()


def test_results_can_be_pickled_plotted_and_summarised():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    for options in ({}, {"method": "monte-carlo", "rng": 1}, {"method": "asymptotic"}):
        null = null_distribution(TABLE, NARROW, **options)
        copy = pickle.loads(pickle.dumps(null))
        assert copy.pvalue(2.0, "larger") == null.pvalue(2.0, "larger")
        assert "Critical value" in null.summary()
        axes = null.plot(statistic=2.0)
        pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": 3}, "model"),
        ({"mechanism": "laplace"}, "mechanism"),
        ({"mechanism": [NARROW]}, "mechanism"),
        ({"statistic": "g"}, "statistic"),
        ({"statistic": "z"}, "statistic"),
        ({"statistic": np.sum}, "statistic"),
        ({"statistic": lambda y: np.full(y.shape[:-1], np.nan)}, "statistic"),
        ({"model": Poisson(rate=[1.0, 2.0]), "statistic": "projected"}, "statistic"),
        ({"observed": np.nan}, "observed"),
        ({"observed": [[1.0]]}, "observed"),
        ({"alternative": "both"}, "alternative"),
        ({"method": "normal"}, "method"),
        ({"reps": 0}, "reps"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"precision": 2.0}, "precision"),
    ],
)
def test_bad_arguments(options, named):
    arguments = {"model": TABLE, "mechanism": NARROW, **options}
    with pytest.raises(InvalidParameterError, match=named):
        null_distribution(**arguments)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    nobs=st.integers(1, 30),
    share=st.floats(0.01, 0.99),
    scale=st.floats(0.1, 2.0),
    point=st.floats(-1e6, 1e6),
)
def test_pvalues_are_probabilities(nobs, share, scale, point):
    model = Multinomial(nobs=nobs, value=[share, 1.0 - share])
    null = null_distribution(model, Geometric(scale=scale))
    for alternative in ALTERNATIVES:
        assert 0.0 <= null.pvalue(point, alternative) <= 1.0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(value=st.one_of(st.none(), st.text(max_size=3), st.floats(), st.complex_numbers()))
def test_nothing_else_is_raised(value):
    for name in ("observed", "reps", "rng", "n_jobs", "precision", "progress", "method"):
        try:
            options = {"method": "monte-carlo", "observed": 1.0, "reps": 10, name: value}
            null_distribution(TABLE, NARROW, **options)
        except DPInferError:
            continue


def test_critical_values_of_listed_laws_are_values_of_the_statistic():
    model = Multinomial(nobs=12, value=[0.25, 0.25, 0.5])
    null = null_distribution(model, Geometric(scale=1.0), lambda y: np.ptp(y, axis=-1))
    for alpha in (0.5, 0.2, 0.1, 0.05, 0.01):
        for alternative in ("larger", "smaller", "two-sided"):
            critical = float(null.critical_value(alpha, alternative))
            if np.isinf(critical):  # no value is rejected, not even the smallest
                assert alternative == "smaller"
                assert null.pvalue(0.0, alternative) > alpha
                continue
            assert critical == round(critical)
            assert null.pvalue(critical, alternative) <= alpha
            inward = 1.0 if alternative == "smaller" else -1.0
            assert null.pvalue(critical + inward, alternative) > alpha


@pytest.mark.parametrize(("cells", "draws"), [(1, 65_536), (2, 32_768), (3, 21_845), (70_000, 1)])
def test_draws_come_in_blocks_of_65536_cells(cells, draws):
    """The length of blocks is part of what a seed stands for."""
    shapes = []

    def statistic(counts):
        shapes.append(counts.shape)
        return counts[..., 0]

    model = Poisson(rate=np.full(cells, 0.1))
    null_distribution(model, Exact(), statistic, method="monte-carlo", reps=draws + 1, rng=1)
    assert shapes[-2:] == [(draws, cells), (1, cells)]
