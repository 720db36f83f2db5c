"""The Monte Carlo engine: seeds, blocks, memory."""

import sys
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError, MissingExtraError
from dpinfer.results.null import count_extreme
from dpinfer.results.simulation import (
    Law,
    Simulation,
    Tally,
    _tasks,
    block_sizes,
    child_seed,
    draw_place,
    exceedances_for,
    simulate_null,
)

ALTERNATIVES = ("two-sided", "larger", "smaller")


def draw_normal(size, rng):
    return rng.standard_normal(size)


def draw_sorted(size, rng):
    return np.sort(rng.standard_normal(size))


def simulated(
    reps=5000, seed=1, statistic=1.5, draws=(draw_normal,), n_jobs=1, precision=None, **options
):
    simulation = Simulation.checked(reps, seed, False, n_jobs, precision)
    return simulate_null(draws, np.asarray(statistic), simulation, **options)


def test_children_are_those_that_spawn_gives():
    seed = np.random.SeedSequence(5)
    spawned = np.random.SeedSequence(5).spawn(3)
    for index, child in enumerate(spawned):
        ours = child_seed(seed, index)
        np.testing.assert_array_equal(ours.generate_state(4), child.generate_state(4))
        grandchild = child.spawn(2)[1]
        np.testing.assert_array_equal(
            child_seed(ours, 1).generate_state(4), grandchild.generate_state(4)
        )


@pytest.mark.parametrize("reps", [1, 99, 100, 101, 1000])
def test_blocks_add_up(reps):
    sizes = list(block_sizes(reps, 100))
    assert sum(sizes) == reps
    assert max(sizes) <= 100


def test_the_order_of_the_blocks_does_not_matter():
    statistic = np.array([-1.0, 0.2, 1.5])
    null = simulated(reps=1050, statistic=statistic, block=100)
    root = child_seed(Simulation.checked(1, 1, False).draw_seed(), 0)
    counts = dict.fromkeys(ALTERNATIVES, 0.0)
    for number, size in reversed(list(enumerate(block_sizes(1050, 100)))):
        replicates = draw_normal(size, np.random.default_rng(child_seed(root, number)))
        for name in ALTERNATIVES:
            counts[name] = counts[name] + count_extreme(replicates, statistic, name)
    for name in ALTERNATIVES:
        np.testing.assert_array_equal(null.extreme[name], counts[name])


def test_a_seed_gives_the_same_answer():
    one, two, other = simulated(seed=7), simulated(seed=7), simulated(seed=8)
    np.testing.assert_array_equal(one.sample, two.sample)
    assert one.pvalue(1.5) == two.pvalue(1.5)
    assert one.pvalue(1.5) != other.pvalue(1.5)


def test_a_generator_gives_new_answers_in_turn_and_the_same_again():
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    first, second = simulated(seed=rng).pvalue(1.5), simulated(seed=rng).pvalue(1.5)
    assert first != second
    assert (simulated(seed=again).pvalue(1.5), simulated(seed=again).pvalue(1.5)) == (first, second)


def test_more_replicates_continue_the_same_blocks():
    """The first blocks of a longer run are those of a shorter one."""
    short, long = simulated(reps=200, block=100), simulated(reps=300, block=100)
    assert np.isin(short.sample, long.sample).all()
    assert (long.extreme["larger"] >= short.extreme["larger"]).all()


def test_one_law_for_each_statistic():
    draws = [draw_normal, lambda size, rng: 5 * rng.standard_normal(size)]
    null = simulated(reps=500, statistic=[2.0, 2.0], draws=draws)
    assert null.sample.shape == (2, 500)
    pvalue = null.pvalue([2.0, 2.0])
    assert pvalue.shape == (2,)
    assert pvalue[0] < pvalue[1]
    for row, (sample, found) in enumerate(zip(null.sample, pvalue, strict=True)):
        assert found == (1 + (np.abs(sample) >= 2.0).sum()) / 501, row


def test_the_sample_kept_is_random_when_there_are_many_laws():
    """Replicates may come sorted: the first ones are not a sample."""
    draws = [lambda size, rng: np.sort(rng.standard_normal(size))] * 70
    null = simulated(reps=1 << 16, statistic=np.zeros(70), draws=draws)
    assert null.sample.shape[1] < 1 << 16
    # 6 standard errors of a mean: 2e-9 for each law
    assert (np.abs(null.sample.mean(axis=1)) < 6 / np.sqrt(null.sample.shape[1])).all()


def peak(reps):
    tracemalloc.start()
    simulated(reps=reps)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


def test_memory_does_not_grow_with_the_number_of_replicates():
    simulated(reps=1)
    assert peak(3_000_000) < 1.5 * peak(300_000)


def test_progress_bar(capsys):
    simulation = Simulation.checked(1000, 1, True)
    simulate_null([draw_normal], np.asarray(1.0), simulation, block=100)
    assert "1.00k/1.00k" in capsys.readouterr().err


def test_progress_bar_with_workers_and_an_early_end(capsys):
    pytest.importorskip("joblib")
    simulation = Simulation.checked(1000, 1, True, 2, 0.2)
    null = simulate_null([draw_normal], np.asarray(0.0), simulation, block=100)
    assert "100/1.00k" in capsys.readouterr().err
    assert null.reps < 100


@pytest.mark.parametrize("draw", [draw_normal, draw_sorted])
def test_the_place_of_the_last_exceedance_is_that_of_a_random_order(draw):
    """Mean of R is h/p whatever the order of the replicates in a block, here p = 0.1."""
    point, needed = stats.norm.isf(0.1), 25
    found = [
        simulated(10**6, seed, point, [draw], precision=0.2, alternative="larger", block=1000).reps
        for seed in range(200)
    ]
    error = np.sqrt(needed * 0.9) / 0.1 / np.sqrt(200)
    assert abs(np.mean(found) - needed / 0.1) < 6 * error  # 6 standard errors: 2e-9
    assert min(found) >= needed


@pytest.mark.parametrize(("which", "marked", "size"), [(1, 1, 7), (2, 5, 9), (4, 4, 10), (3, 8, 8)])
def test_places_have_their_negative_hypergeometric_law(which, marked, size):
    rng = np.random.default_rng(3)
    draws = 20_000
    places = draw_place(np.full(draws, which), np.full(draws, marked), size, rng)
    orders = [order[which - 1] + 1 for order in combinations(range(size), marked)]
    chance = np.bincount(orders, minlength=size + 1) / len(orders)
    share = np.bincount(places, minlength=size + 1) / draws
    error = np.sqrt(chance * (1 - chance) / draws)
    assert (np.abs(share - chance) <= 6 * error).all()  # 2e-9 for each place


def test_each_statistic_stops_by_itself():
    statistic = np.array([0.0, 1.0, 2.0, 9.0])
    null = simulated(20_000, 4, statistic, precision=0.1, alternative="larger", block=500)
    np.testing.assert_array_equal(null.stopped, [True, True, True, False])
    assert (np.diff(null.reps) > 0).all()
    np.testing.assert_array_equal(null.extreme["larger"], [100, 100, 100, 0])
    np.testing.assert_array_equal(
        null.pvalue(statistic, "larger"), [*(100 / null.reps[:3]), 1 / 20_001]
    )
    exact = stats.norm.sf(statistic[:3])
    # relative standard error 0.1, 6 of them: 1e-8 for each with the heavier tail of h/R
    assert (np.abs(null.pvalue(statistic, "larger")[:3] / exact - 1) < 0.8).all()


def test_laws_that_stop_at_different_blocks():
    draws = [draw_normal, draw_sorted, draw_normal]
    null = simulated(
        5000, 5, np.array([0.0, 2.0, 9.0]), draws, precision=0.2, alternative="larger", block=50
    )
    assert null.sample.shape[0] == 3
    assert null.reps[0] < null.reps[1] < null.reps[2] == 5000
    assert null.pvalue([0.0, 2.0, 9.0]).shape == (3,)


def test_without_precision_all_replicates_count():
    null = simulated(1000, 1, 0.0)
    assert null.reps == 1000
    assert not null.stopped
    assert set(null.extreme) == set(ALTERNATIVES)


def test_a_rare_event_is_looked_for_to_the_end():
    null = simulated(1000, 1, 9.0, precision=1e-300)
    assert null.pvalue(9.0) == 1 / 1001


@pytest.mark.thinned("precision", "many", every=2)
@pytest.mark.parametrize("precision", [None, 0.1])
@pytest.mark.parametrize("many", [False, True])
def test_workers_do_not_change_the_answer(precision, many):
    pytest.importorskip("joblib")
    points = np.array([0.5, 2.0, 4.0] * 5) if many else np.array([0.5, 2.0])
    draws = [draw_normal, draw_sorted, draw_normal] * 5 if many else [draw_normal]
    one, *others = (
        simulated(9000, 6, points, draws, n_jobs=n_jobs, precision=precision, block=70)
        for n_jobs in (1, 2, 4, None)
    )
    for other in others:
        np.testing.assert_array_equal(one.sample, other.sample)
        np.testing.assert_array_equal(one.reps, other.reps)
        np.testing.assert_array_equal(one.pvalue(points), other.pvalue(points))


def test_workers_stop_soon_after_the_end():
    """A simulation that ends in the first block is not continued to the last."""
    pytest.importorskip("joblib")
    drawn = []

    def draw(size, rng):
        drawn.append(size)
        return rng.standard_normal(size)

    simulated(10**7, 1, 0.0, [draw], n_jobs=2, precision=0.5, block=1000)
    assert len(drawn) < 5000  # of 10,000 blocks; about 20 unless the machine is very busy


def test_several_workers_need_joblib(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    simulated(100)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[distributed\]"):
        simulated(100, n_jobs=2)


def test_a_backend_that_cannot_stream_is_an_error():
    joblib = pytest.importorskip("joblib")
    with (
        joblib.parallel_config(backend="multiprocessing", n_jobs=2),
        pytest.raises(InvalidParameterError, match="n_jobs"),
    ):
        simulated(100, n_jobs=None)


@pytest.mark.parametrize("reps", [0, -5, 1.5, np.nan, "many", None])
def test_bad_reps(reps):
    with pytest.raises(InvalidParameterError, match="reps"):
        Simulation.checked(reps, None, False)


def test_bad_rng_and_progress():
    with pytest.raises(InvalidParameterError, match="rng"):
        Simulation.checked(1, "seed", False)
    with pytest.raises(InvalidParameterError, match="progress"):
        Simulation.checked(1, None, "yes")


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", np.nan, 10**6, True])
def test_bad_n_jobs(n_jobs):
    with pytest.raises(InvalidParameterError, match="n_jobs"):
        Simulation.checked(1, None, False, n_jobs)


@pytest.mark.parametrize("precision", [0, -0.1, 1.5, np.nan, np.inf, "high", [0.1]])
def test_bad_precision(precision):
    with pytest.raises(InvalidParameterError, match="precision"):
        Simulation.checked(1, None, False, 1, precision)


@pytest.mark.parametrize(("precision", "needed"), [(1.0, 1), (0.1, 100), (0.01, 10_000), (0.3, 12)])
def test_exceedances_needed(precision, needed):
    assert exceedances_for(precision) == needed


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("over_after", [0, 1, 20, 57, 58, 59, 60, 61, 1000])
def test_every_block_is_handed_out_until_the_count_is_over(n_jobs, over_after):
    """Whether or not that is known only after blocks have been put aside for the next task."""
    if n_jobs > 1:
        pytest.importorskip("joblib")
    law = Law(0, draw_normal, np.asarray(1.5), ("larger",), np.random.SeedSequence(1))

    class Ending(Tally):
        asked = 0

        @property
        def is_over(self):
            self.asked += 1
            return self.asked > over_after

    simulation = Simulation.checked(1000, 1, False, n_jobs)
    tasks = list(_tasks([Ending(law, np.inf)], simulation, 10))
    numbers = [part.number for task in tasks for part in task]
    assert numbers == list(range(min(over_after, 100)))
    assert all(tasks)
    if n_jobs == 1:
        assert all(len(task) == 1 for task in tasks)
    elif over_after > 57:
        assert max(map(len, tasks)) > 1
