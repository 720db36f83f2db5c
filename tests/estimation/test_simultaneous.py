import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import critical_pivot


def normal_errors(reps, rng):
    return rng.standard_normal((reps, 5)) * [1.0, 2.0, 3.0, 4.0, 0.0]


STD = np.array([1.0, 2.0, 3.0, 4.0, 0.0])


def test_quantile_of_the_largest_of_four_normals():
    pivot = critical_pivot(normal_errors, STD, 0.1, 200_000, rng=1)
    exact = (2 * stats.norm.cdf(pivot.value) - 1) ** 4
    # 6 standard deviations of the coverage
    assert abs(exact - 0.9) < 6 * pivot.mc_error
    assert pivot.mc_error == pytest.approx(np.sqrt(0.09 / 200_000))


def test_few_replicates_still_cover_on_average():
    # coverage given a simulation is a beta variable with mean rank/(R + 1) >= 1 - alpha
    rng = np.random.default_rng(2)
    values = [critical_pivot(normal_errors, STD, 0.1, 9, rng).value for _ in range(4000)]
    coverage = (2 * stats.norm.cdf(values) - 1) ** 4
    # mean 0.9; standard deviation of one below 0.1, of the mean 0.0016: 6 sigma
    assert abs(coverage.mean() - 0.9) < 0.01


def test_blocks_do_not_change_the_law(monkeypatch):
    monkeypatch.setattr("dpinfer.estimation.pivots._BLOCK_SIZE", 50)
    small = critical_pivot(normal_errors, STD, 0.1, 20_000, rng=3)
    assert abs((2 * stats.norm.cdf(small.value) - 1) ** 4 - 0.9) < 6 * small.mc_error


def test_no_noise_at_all():
    assert critical_pivot(lambda reps, _: np.zeros((reps, 1)), np.zeros(1), 0.1, 99, 0).value == 0


@pytest.mark.parametrize(("alpha", "fewest"), [(0.05, 19), (0.01, 99), (0.3, 3)])
def test_too_few_replicates_are_refused(alpha, fewest):
    critical_pivot(normal_errors, STD, alpha, fewest, rng=0)
    with pytest.raises(InvalidParameterError, match=f"reps must be >= {fewest}"):
        critical_pivot(normal_errors, STD, alpha, fewest - 1, rng=0)
