"""The Monte Carlo engine: seeds, blocks, memory."""

import tracemalloc

import numpy as np
import pytest

from dpinfer._validation import ALTERNATIVES
from dpinfer.errors import InvalidParameterError
from dpinfer.results.monte_carlo_null import count_extreme
from dpinfer.results.simulation import Simulation, block_sizes, child_seed, simulate_null


def draw_normal(size, rng):
    return rng.standard_normal(size)


def simulated(reps=5000, seed=1, statistic=1.5, draws=(draw_normal,), **options):
    simulation = Simulation.checked(reps, seed, False)
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


@pytest.mark.parametrize("reps", [0, -5, 1.5, np.nan, "many", None])
def test_bad_reps(reps):
    with pytest.raises(InvalidParameterError, match="reps"):
        Simulation.checked(reps, None, False)


def test_bad_rng_and_progress():
    with pytest.raises(InvalidParameterError, match="rng"):
        Simulation.checked(1, "seed", False)
    with pytest.raises(InvalidParameterError, match="progress"):
        Simulation.checked(1, None, "yes")
