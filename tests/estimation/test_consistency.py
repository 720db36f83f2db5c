import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation import combine
from dpinfer.mechanisms import Exact, Gaussian, Geometric, Laplace

A = np.vstack([np.eye(3), np.ones((1, 3)), [[1.0, 1, 0]]])
VALUES = np.array([1.0, 2.0, 3.0, 9.0, 2.0])


def test_gaussian_noise_gives_chi_squared():
    sigma = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    test = combine(VALUES, workload=A, mechanism=Gaussian(sigma=sigma)).consistency_test()
    scaled = A / sigma[:, None]
    residual = np.linalg.lstsq(scaled, VALUES / sigma, rcond=None)[1]
    assert test.method == "exact"
    assert test.statistic == pytest.approx(residual.item(), rel=1e-12)
    assert test.pvalue == pytest.approx(stats.chi2.sf(residual.item(), 2), rel=1e-12)
    assert "noise" in test.summary()


def test_simulated_pvalue_of_gaussian_noise_is_near_the_exact_one():
    fit = combine(VALUES, workload=A, mechanism=Gaussian(sigma=1.5))
    exact = fit.consistency_test().pvalue
    simulated = fit.consistency_test("monte-carlo", reps=100_000, rng=4)
    # 6 Monte Carlo standard errors: fails by accident with probability 2e-9
    assert abs(simulated.pvalue - exact) < 6 * np.sqrt(exact * (1 - exact) / 1e5)
    assert simulated.mc_error == pytest.approx(np.sqrt(exact * (1 - exact) / 1e5), rel=0.05)


def test_pvalues_of_consistent_releases_are_uniform():
    # the rank of the truth among its simulated peers: (1 + b)/(R + 1) is uniform on its grid
    rng = np.random.default_rng(11)
    law = Laplace(scale=[1.0, 2.0, 1.0, 3.0, 1.0])
    truth = A @ [4.0, 5.0, 6.0]
    pvalues = [
        combine(truth + law.rvs(rng=rng), workload=A, mechanism=law)
        .consistency_test(reps=199, rng=rng)
        .pvalue
        for _ in range(200)
    ]
    # Kolmogorov-Smirnov at 1e-8
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-8
    assert np.mean(np.array(pvalues) <= 0.05) < 0.05 + 6 * np.sqrt(0.05 * 0.95 / 200)


def test_disagreement_is_found():
    fit = combine([1.0, 2.0, 3.0, 90.0, 2.0], workload=A, mechanism=Laplace(scale=1.0))
    test = fit.consistency_test(reps=999, rng=0)
    assert test.pvalue == 1 / 1000
    again = fit.consistency_test(reps=999, rng=0)
    assert (test.statistic, test.pvalue) == (*again,)


def test_exact_rows_count_as_constraints():
    law = [*[Gaussian(sigma=1.0)] * 3, Exact(), Gaussian(sigma=1.0)]
    test = combine(VALUES, workload=A, mechanism=law).consistency_test()
    # substitute the third cell: 9 - a - b
    reduced = np.array([[1.0, 0], [0, 1], [-1, -1], [1, 1]])
    residual = np.linalg.lstsq(reduced, np.array([1.0, 2, 3 - 9, 2]), rcond=None)[1].item()
    assert test.statistic == pytest.approx(residual, rel=1e-12)
    assert test.pvalue == pytest.approx(stats.chi2.sf(residual, 2), rel=1e-12)


def test_nothing_to_compare():
    for workload in (None, [[1.0, 0], [1, 1]]):
        fit = combine([1.0, 2.0], workload=workload, mechanism=Gaussian(sigma=1.0))
        with pytest.raises(NotEstimableError, match="no overlapping values"):
            fit.consistency_test()


def test_asymptotic_is_chi_squared_for_any_noise():
    fit = combine(VALUES, workload=A, mechanism=Laplace(scale=1.0))
    test = fit.consistency_test("asymptotic")
    assert test.pvalue == pytest.approx(stats.chi2.sf(test.statistic, 2), rel=1e-12)
    assert test.method == "asymptotic"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "exact"}, "unless all noise is Gaussian"),
        ({"method": "bootstrap"}, "method must be one of"),
        ({"reps": 0}, "reps must be >= 1"),
        ({"rng": -1}, "rng must be"),
    ],
)
def test_bad_arguments(arguments, message):
    fit = combine(VALUES, workload=A, mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match=message):
        fit.consistency_test(**arguments)


@pytest.mark.parametrize("size", [1e6 + 1, 123456789.0, 1e12 + 7])
def test_large_confidential_values_do_not_change_the_pvalue(size):
    # whole-numbered noise makes ties, which rounding of large values must not break
    noise = Geometric(scale=0.5)
    for error in (np.zeros(5), np.eye(5)[0], np.array([1.0, -1, 0, 0, 0])):
        small = combine(error, workload=A, mechanism=noise)
        large = combine(error + A @ (size * np.arange(1.0, 4.0)), workload=A, mechanism=noise)
        found, expected = (fit.consistency_test(reps=500, rng=1) for fit in (large, small))
        assert found.pvalue == expected.pvalue
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
