"""Rejection rates as results: errors, excess, intervals, tables and plots."""

import pickle

import numpy as np
import pytest
from scipy import stats

from dpinfer import Laplace
from dpinfer.calibration import SizeStudy, size_study
from dpinfer.hypothesis_tests import Poisson
from dpinfer.results.simulation import Simulation, largest_replicates

STUDY = SizeStudy(
    tests=("simulated", "exact"),
    alpha=np.array([0.05, 0.1]),
    rate=np.array([[0.0, 0.12], [0.05, 0.11]]),
    reps=np.array([500, 0]),
)


def test_errors_and_excess():
    np.testing.assert_allclose(
        STUDY.mc_error, [[0.0, np.sqrt(0.12 * 0.88 / 500)], [0.0, 0.0]], rtol=1e-14
    )
    simulated, exact = STUDY.excess
    np.testing.assert_allclose(
        simulated, [-0.05 / np.sqrt(0.05 * 0.95 / 500), 0.02 / np.sqrt(0.09 / 500)], rtol=1e-14
    )
    assert exact[0] == 0.0
    assert exact[1] == np.inf


def test_intervals_are_those_of_clopper_and_pearson():
    low, high = STUDY.bounds()
    for place, count in enumerate((0, 60)):
        expected = stats.binomtest(count, 500).proportion_ci(0.95, "exact")
        assert (low[0, place], high[0, place]) == pytest.approx(tuple(expected), rel=1e-10)
    np.testing.assert_array_equal(low[1], STUDY.rate[1])
    np.testing.assert_array_equal(high[1], STUDY.rate[1])


def test_frame_and_summary():
    frame = STUDY.summary_frame()
    assert list(frame["test"]) == ["simulated", "simulated", "exact", "exact"]
    np.testing.assert_array_equal(frame["rate"], STUDY.rate.ravel())
    np.testing.assert_array_equal(frame["reps"], [500, 500, 0, 0])
    text = STUDY.summary()
    assert str(STUDY) == text
    assert "Size of tests" in text
    assert "exact rates: exact" in text
    assert repr(STUDY) == "SizeStudy(2 tests at 2 levels, 500 releases)"


def test_power_has_no_excess():
    power = SizeStudy(
        tests=("z",),
        alpha=np.array([0.05]),
        rate=np.array([[0.7]]),
        reps=np.array([0]),
        under_null=False,
    )
    assert "excess" not in power.summary_frame()
    assert "Power of tests" in power.summary()
    assert repr(power) == "SizeStudy(1 test at 1 level, exact)"


def test_plot_shows_rates_in_the_order_of_the_levels():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    shuffled = SizeStudy(
        tests=("z",),
        alpha=np.array([0.1, 0.01]),
        rate=np.array([[0.2, 0.03]]),
        reps=np.array([100]),
    )
    figure, axes = pyplot.subplots()
    assert shuffled.plot(axes) is axes
    line, _ = axes.get_lines()[0], axes.get_legend()
    np.testing.assert_array_equal(line.get_xdata(), [0.01, 0.1])
    np.testing.assert_array_equal(line.get_ydata(), [0.03, 0.2])
    assert axes.get_ylabel() == "rejection rate"
    pyplot.close(figure)


def test_it_is_read_only_and_travels():
    copy = pickle.loads(pickle.dumps(STUDY))
    np.testing.assert_array_equal(copy.rate, STUDY.rate)
    assert not STUDY.rate.flags.writeable


def uniform(size, rng):
    return rng.random(size)


def test_rejections_are_counted_block_by_block():
    """Against counts of the p-values of all blocks, of which the levels hit one each."""
    seen = []

    def distance(releases):
        seen.append(releases.copy())
        return np.exp(-np.abs(releases - 5.0))

    def rounded(releases):
        return np.round(distance(releases), 1)

    tests = {"distance": distance, "rounded": rounded}
    model, noise = Poisson(rate=5.0), Laplace(scale=2.0)
    levels, reps = np.array([0.1, 0.5]), 70_000
    study = size_study(model, noise, tests, alpha=levels, reps=reps, rng=3)
    first, second = np.concatenate(seen[::2]), np.concatenate(seen[1::2])
    assert len(seen) > 2
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first)) == reps
    pvalues = np.exp(-np.abs(first - 5.0)), np.round(np.exp(-np.abs(first - 5.0)), 1)
    expected = [[(p <= level).sum() for level in levels] for p in pvalues]
    np.testing.assert_array_equal(np.rint(study.rate * reps), expected)


@pytest.mark.parametrize("keep", [1, 7, 120, 1000])
def test_largest_replicates(keep):
    found = largest_replicates(uniform, keep, Simulation.checked(1050, 4), 100)
    seeds = Simulation.checked(1050, 4).draw_seed().spawn(11)
    sizes = [100] * 10 + [50]
    draws = [uniform(n, np.random.default_rng(s)) for n, s in zip(sizes, seeds, strict=True)]
    np.testing.assert_array_equal(found, np.sort(np.concatenate(draws))[::-1][:keep])


def test_a_test_cannot_change_the_releases():
    def spoil(releases):
        releases[:] = 0.0
        return releases

    with pytest.raises(ValueError, match="read-only"):
        size_study(Poisson(rate=5.0), Laplace(scale=2.0), {"spoil": spoil}, reps=10, rng=1)


def test_exact_rates_are_named_in_the_notes():
    rates = {"alpha": np.array([0.05]), "rate": np.array([[0.05], [0.04]])}
    mixed = SizeStudy(tests=("z", "t"), reps=np.array([0, 100]), **rates)
    assert "exact rates: z" in mixed.summary()
    assert (
        "exact rates" not in SizeStudy(tests=("z", "t"), reps=np.array([9, 9]), **rates).summary()
    )
