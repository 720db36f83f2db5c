"""Private multiplicative weights: privacy by exact transcripts, accuracy and updates by runs."""

import itertools
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.curation import OnlineMultiplicativeWeights, multiplicative_weights, usefulness
from dpinfer.curation.query_answers import (
    Hypothesis,
    Setting,
    offline_schedule,
    online_schedule,
    read_setting,
    schedule_noise,
)
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Gaussian, Laplace
from dpinfer.privacy import GDP, ZCDP, ApproxDP, BudgetLedger, PureDP, compose
from dpinfer.queries import Domain, Workload

PURE = PureDP(1.0, neighbours="replace")
BUDGETS = [PURE, ZCDP(0.5, neighbours="replace"), ApproxDP(1.0, 1e-6, neighbours="replace")]


def table(records=200_000, cells=64, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(records, rng.dirichlet(np.full(cells, 0.2))).astype(float)
    return counts, rng.integers(0, 2, (80, cells)).astype(float)


@pytest.mark.thinned("budget", "form", every=2)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("form", ["offline", "online"])
def test_accuracy_and_updates_in_many_runs(budget, form):
    counts, queries = table()
    rng = np.random.default_rng(1)
    misses, reps = 0, 60
    for _ in range(reps):
        found = multiplicative_weights(
            counts, queries, guarantee=budget, form=form, beta=0.2, rng=rng
        )
        error = np.abs(found.answers - queries @ counts).max()
        misses += error > found.accuracy
        assert found.updates <= found.max_updates
        assert found.histogram.sum() == pytest.approx(counts.sum())
    # a share of 0.2 at most, and six standard errors
    assert misses / reps <= 0.2 + 6 * np.sqrt(0.16 / reps)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [PURE, ZCDP(20.0, neighbours="replace")])
@pytest.mark.parametrize("form", ["offline", "online"])
def test_accuracy_with_few_and_many_cells(budget, form):
    for records, cells in ((20_000, 8), (2_000_000, 256)):
        counts, queries = table(records, cells)
        rng = np.random.default_rng(2)
        misses = 0
        for _ in range(40):
            found = multiplicative_weights(
                counts, queries, guarantee=budget, form=form, beta=0.5, rng=rng
            )
            misses += np.abs(found.answers - queries @ counts).max() > found.accuracy
        # a share of 0.5 at most, exceeded with a chance of 1e-7
        assert misses <= stats.binom.isf(1e-7, 40, 0.5)


@pytest.mark.parametrize("form", ["offline", "online"])
def test_much_budget_finds_the_data(form):
    counts, queries = table(records=10**9, cells=8)
    found = multiplicative_weights(
        counts, queries, guarantee=ZCDP(50.0, neighbours="replace"), form=form, rng=1
    )
    assert 0 < found.updates <= found.max_updates
    assert found.accuracy < 0.02 * counts.sum()
    assert np.abs(found.answers - queries @ counts).max() <= found.accuracy


def test_usefulness_by_simulation_is_better_than_the_bound():
    counts, queries = table()
    budget = ZCDP(0.5, neighbours="replace")

    def errors(rng):
        return multiplicative_weights(counts, queries, guarantee=budget, rng=rng).answers - (
            queries @ counts
        )

    found = usefulness(errors, beta=0.1, reps=30, rng=1)
    bound = multiplicative_weights(counts, queries, guarantee=budget, beta=0.1, rng=1).accuracy
    assert found.queries == 80
    assert found.alpha < bound


def test_an_update_lowers_the_divergence_as_promised():
    # KL(data || hypothesis) falls by 2m² at least, for every m up to the error
    rng = np.random.default_rng(5)
    for _ in range(300):
        data = rng.dirichlet(np.full(6, 0.3))
        hypothesis = Hypothesis(6)
        for _ in range(3):
            query = rng.uniform(size=6) if rng.uniform() < 0.5 else rng.integers(0, 2, 6) * 1.0
            error = float(query @ (data - hypothesis.weights))
            size = abs(error) * rng.uniform()
            before = (data * np.log(data / hypothesis.weights)).sum()
            hypothesis.update(query, np.copysign(size, error))
            after = (data * np.log(data / hypothesis.weights)).sum()
            assert before - after >= 2 * size**2 - 1e-12


def test_noise_free_rounds_end_within_the_bound():
    counts, queries = table(records=10**12, cells=16)
    for updates in (5, 20, 80):
        found = multiplicative_weights(
            counts,
            queries,
            guarantee=PureDP(1e9, neighbours="replace"),
            max_updates=updates,
            rng=1,
        )
        # without noise the bound is that of the divergence alone
        bound = counts.sum() * np.sqrt(np.log(16) / (2 * updates))
        assert found.accuracy == pytest.approx(bound, rel=1e-3)
        assert np.abs(found.answers - queries @ counts).max() <= found.accuracy


@pytest.mark.parametrize("distance", [0.0, 3.0, 40.0])
def test_transcripts_of_the_sparse_vector_technique_are_private(distance):
    # the probability that queries with errors d₁ … stay below and the last one does not, exactly
    setting = read_setting(PURE, 1000.0, 4, 6, 0.05)
    plan = online_schedule(setting, 3)
    first, second = 1.0 / plan.threshold_scale, 2.0 * 3 / plan.query_scale
    third = 3.0 / plan.answer_scale
    assert first + second + third == pytest.approx(1.0, rel=1e-12)

    errors = plan.threshold + distance * np.array([-1.0, 1.0, 0.5, -2.0])
    # Gauss-Legendre panels between all kinks of the integrand
    kinks = [0.0, *(errors - plan.threshold + shift for shift in (-1, 0, 1))]
    span = 45 * plan.threshold_scale
    edges = np.unique(np.hstack([*kinks, np.linspace(-span, span, 91)]))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    rho = (edges[:-1, None] + half * (nodes + 1)).ravel()
    weight = (half * weights).ravel() * np.exp(-np.abs(rho) / plan.threshold_scale)

    def log_probability(errors, outcomes):
        point = (plan.threshold + rho - errors[:, None]) / plan.query_scale
        tail = 0.5 * np.exp(-np.abs(point))
        stays = np.where(point >= 0, 1 - tail, tail)
        above = np.where(point >= 0, tail, 1 - tail)
        return np.log(weight @ np.where(outcomes[:, None], above, stays).prod(axis=0))

    for outcomes in np.array(list(itertools.product([False, True], repeat=4))):
        for signs in itertools.product([-1.0, 1.0], repeat=4):
            ratio = log_probability(errors, outcomes) - log_probability(
                errors + np.array(signs), outcomes
            )
            assert abs(ratio) <= first + second * sum(outcomes) / 3 + 1e-7


def test_budgets_of_the_rounds_add_up():
    for updates in (1, 7, 200):
        setting = read_setting(PURE, 1e5, 32, 50, 0.05)
        plan = offline_schedule(setting, updates)
        each = 1.0 / plan.query_scale + 1.0 / plan.answer_scale
        assert compose([PureDP(each)] * updates).epsilon == pytest.approx(1.0, rel=1e-12)
        setting = read_setting(ZCDP(0.3, neighbours="replace"), 1e5, 32, 50, 0.05)
        plan = offline_schedule(setting, updates)
        each = plan.query_scale**-2 / 8 + plan.answer_scale**-2 / 2
        assert updates * each == pytest.approx(0.3, rel=1e-12)
        plan = online_schedule(setting, updates)
        compared = 1.0 / plan.threshold_scale + 2.0 / plan.query_scale
        each = PureDP(compared).to_zcdp(method="simple").rho + plan.answer_scale**-2 / 2
        assert updates * each == pytest.approx(0.3, rel=1e-12)
        assert plan.renewed


def test_approximate_budgets_are_turned_into_concentrated_ones():
    for epsilon, delta in ((1.0, 1e-6), (0.01, 1e-9), (20.0, 1e-3), (0.5, 0.3)):
        setting = read_setting(ApproxDP(epsilon, delta, neighbours="replace"), 1e5, 32, 50, 0.05)
        found = ZCDP(setting.rho).epsilon_at(delta)
        assert found <= epsilon
        assert found == pytest.approx(epsilon, rel=1e-5)
    pure = read_setting(ApproxDP(1.0, 0.0, neighbours="replace"), 1e5, 32, 50, 0.05)
    assert pure.epsilon == 1.0
    # ε is about ρ + 2·√(ρ·ln(1/δ)): at the ends of what is looked at
    huge = read_setting(ApproxDP(1e16, 1e-6, neighbours="replace"), 1e5, 32, 50, 0.05)
    assert huge.rho == 1e15
    with pytest.raises(InvalidParameterError, match="guarantee must leave a budget between"):
        read_setting(ApproxDP(1e-7, 1e-9, neighbours="replace"), 1e5, 32, 50, 0.05)


def test_it_pays_only_for_many_queries_and_many_cells():
    """The figures of the Notes, for n = 10⁵ and queries that count half of the cells."""
    records, beta = 1e5, 0.05
    for epsilon, rho, queries, cells in ((1.0, 0.0, 4e3, 2e7), (0.0, 0.5, 2.5e6, 2.5e6)):

        def promised(k, n, epsilon=epsilon, rho=rho):
            return schedule_noise(
                offline_schedule, Setting(epsilon, rho, records, n, k, beta), None
            )

        def on_each(k, epsilon=epsilon, rho=rho):
            law = Laplace(scale=k / epsilon) if epsilon else Gaussian(sigma=np.sqrt(k / (2 * rho)))
            return usefulness(law, queries=int(k), beta=beta).alpha

        def histogram(k, n, epsilon=epsilon, rho=rho):
            variance = 8.0 / epsilon**2 if epsilon else 1.0 / rho
            law = Gaussian(sigma=np.sqrt(0.5 * n * variance))
            return usefulness(law, queries=int(k), beta=beta).alpha

        assert on_each(queries / 1.3) < promised(queries / 1.3, cells).accuracy
        assert on_each(queries * 1.3) > promised(queries * 1.3, cells).accuracy
        assert histogram(queries, cells / 1.5) < promised(queries, cells / 1.5).accuracy
        assert histogram(queries, cells * 1.5) > promised(queries, cells * 1.5).accuracy


def test_no_more_updates_than_there_may_be():
    # with two records noise corrects the hypothesis, once at most, with a probability above 0.2
    found = [
        multiplicative_weights(
            [1, 1], [[1, 0]], guarantee=PURE, beta=0.9, max_updates=1, rng=np.random.default_rng(at)
        )
        for at in range(100)
    ]
    # not once in 100 runs: below 1e-9
    assert {one.updates for one in found} == {0, 1}
    for one in found:
        assert bool(one.histogram[0] == one.histogram[1]) is (one.updates == 0)


@pytest.mark.parametrize("make", [offline_schedule, online_schedule])
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_number_of_updates_is_the_best(make, budget):
    setting = read_setting(budget, 1e5, 256, 100, 0.05)
    chosen = schedule_noise(make, setting, None)
    others = [make(setting, int(number)).accuracy for number in np.geomspace(1, 3e4, 60)]
    assert chosen.accuracy <= min(others) * (1 + 1e-3)
    # more records, more budget or fewer queries: never worse, relative to the records
    share = chosen.accuracy / 1e5
    more = schedule_noise(make, read_setting(budget, 1e6, 256, 100, 0.05), None)
    fewer = schedule_noise(make, read_setting(budget, 1e5, 256, 10, 0.05), None)
    assert more.accuracy / 1e6 < share
    assert fewer.accuracy / 1e5 <= share


def test_online_queries_may_depend_on_answers():
    counts, queries = table()
    curator = OnlineMultiplicativeWeights(
        counts, guarantee=ZCDP(2.0, neighbours="replace"), queries=30, rng=3
    )
    query, errors = queries[0], []
    for _ in range(30):
        answer = curator.answer(query)
        errors.append(abs(answer - query @ counts))
        # ask for the cells that the hypothesis thinks are full, in the order of the answer
        order = np.argsort(curator.histogram, kind="stable")
        query = np.zeros(64)
        query[order[int(answer) % 32 :]] = 1.0
    assert max(errors) <= curator.accuracy
    assert curator.asked == 30
    with pytest.raises(IncompatibleReleaseError, match="all have been asked"):
        curator.answer(query)
    assert "30 of 30" in repr(curator)
    assert str(int(counts.max())) not in repr(curator)


def test_after_the_last_update_only_the_hypothesis_answers():
    # two records: noise alone makes an update, of which one is allowed, and would make more
    query, stopped = np.array([1.0, 0.0]), 0
    for seed in range(40):
        curator = OnlineMultiplicativeWeights(
            [1, 1], guarantee=PURE, queries=60, beta=0.9, max_updates=1, rng=seed
        )
        while curator.asked < 60 and not curator.updates:
            _, measured = curator.answer_noting(query)
            assert measured is (curator.updates == 1)
        stopped += curator.asked < 30
        before = curator.histogram
        while curator.asked < 60:
            answer, measured = curator.answer_noting(query)
            assert not measured
            assert answer == pytest.approx(query @ before)
    assert stopped  # so that thirty more queries had the chance of an update


def test_labels_ledgers_and_summaries():
    domain = Domain({"sex": ["F", "M"], "age": ["0-17", "18-64", "65+"]})
    counts = pd.Series([100.0, 200, 300, 400, 500, 600], index=domain.cells())
    workload = Workload.from_marginals(domain, [("sex",), ("age",)])
    ledger = BudgetLedger(PureDP(1.5, neighbours="replace"))
    small = PureDP(0.1, neighbours="replace")
    other = BudgetLedger(small)
    OnlineMultiplicativeWeights(counts, guarantee=small, queries=5, ledger=other)
    assert other.spent == small
    with pytest.raises(IncompatibleReleaseError, match="overspend"):
        OnlineMultiplicativeWeights(counts, guarantee=small, queries=5, ledger=other, name="x")
    found = multiplicative_weights(counts, workload, guarantee=small, ledger=ledger, rng=1)
    assert found.answers.index.equals(workload.labels)
    assert found.histogram.index.equals(counts.index)
    assert ledger.spent == small
    intervals = found.conf_int()
    assert intervals.simultaneous
    np.testing.assert_allclose(intervals.width, 2 * found.accuracy)
    assert "Updates" in str(found)
    # so few records that the bound says nothing
    assert found.accuracy > counts.sum()
    assert "says nothing" in found.summary()
    assert list(found.summary_frame()["measured"]) == [False] * 5
    with pytest.raises(IncompatibleReleaseError, match="overspend"):
        multiplicative_weights(
            counts,
            workload,
            guarantee=PureDP(1.45, neighbours="replace"),
            ledger=ledger,
            name="more",
        )
    assert repr(found).startswith("MultiplicativeWeightsRelease(5 answers")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"guarantee": PureDP(1.0)}, "neighbours='replace'"),
        ({"guarantee": GDP(1.0, neighbours="replace")}, "guarantee must be PureDP, ZCDP or"),
        ({"guarantee": PureDP(0.0, neighbours="replace")}, "guarantee must leave a budget"),
        ({"guarantee": 1.0}, "guarantee must be"),
        ({"histogram": [1.5, 2.0]}, "histogram must hold whole numbers"),
        ({"histogram": [-1.0, 2.0]}, "histogram must hold whole numbers"),
        ({"histogram": [0.0, 0.0]}, "histogram must hold between 1"),
        ({"histogram": [3.0]}, "histogram must be one-dimensional"),
        ({"workload": [[1.0, 0.0, 1.0]]}, "workload must have 2 columns"),
        ({"workload": [[1.0, 2.0]]}, "workload must have coefficients between 0 and 1"),
        ({"workload": [[1.0, -1.0]]}, "workload must have coefficients between 0 and 1"),
        ({"beta": 0.0}, "beta must be > 0"),
        ({"form": "both"}, "form must be one of"),
        ({"max_updates": 0}, "max_updates must be >= 1"),
        ({"ledger": 3}, "ledger must be a BudgetLedger"),
    ],
)
@pytest.mark.parametrize("form", ["offline", "online"])
def test_refusals(arguments, message, form):
    default = {"histogram": [3.0, 5.0], "workload": [[1.0, 0.0]], "guarantee": PURE, "form": form}
    with pytest.raises(InvalidParameterError, match=message):
        multiplicative_weights(**{**default, **arguments})


def test_online_refusals():
    with pytest.raises(InvalidParameterError, match="queries must be >= 1"):
        OnlineMultiplicativeWeights([1.0, 2.0], guarantee=PURE, queries=0)
    curator = OnlineMultiplicativeWeights([1.0, 2.0], guarantee=PURE, queries=2)
    for query, message in (([1.0], "2 entries"), ([1.0, 2.0], "<= 1"), ([np.nan, 1.0], "NaN")):
        with pytest.raises(InvalidParameterError, match=message):
            curator.answer(query)
    assert curator.asked == 0


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    counts=st.lists(st.floats() | st.integers(0, 10**15), max_size=4),
    budget=st.one_of(
        st.floats(0, 1e30).map(lambda x: PureDP(x, neighbours="replace")),
        st.floats(0, 1e30).map(lambda x: ZCDP(x, neighbours="replace")),
        st.tuples(st.floats(0, 1e30), st.floats(0, 0.999)).map(
            lambda x: ApproxDP(*x, neighbours="replace")
        ),
    ),
    form=st.sampled_from(["offline", "online"]),
    beta=st.floats(),
)
def test_only_own_errors_escape(counts, budget, form, beta):
    with suppress(DPInferError):
        queries = np.eye(max(len(counts), 1))
        found = multiplicative_weights(
            counts, queries, guarantee=budget, form=form, beta=beta, max_updates=3, rng=1
        )
        assert np.isfinite(found.answers).all()
        assert np.isfinite(found.accuracy)
