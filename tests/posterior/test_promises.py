"""What the guide says of posteriors of sums: coverage over repeated releases of fixed tables."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.intervals import bounded_confint

LAW, CELLS, REPS = dpi.DiscreteGaussian(sigma=5.0), 50, 400
TABLES = {
    "zeros": (lambda rng: np.zeros((REPS, CELLS)), 0.0, 212, 70),
    "sparse": (lambda rng: np.tile(np.r_[np.zeros(40), np.full(10, 30)], (REPS, 1)), 0.0, 169, 138),
    "Poisson": (lambda rng: rng.poisson(2.0, (REPS, CELLS)), 0.0, 159, 134),
    "dense": (lambda rng: np.full((REPS, CELLS), 30), 0.95, 1, 138),
}


@pytest.mark.slow
@pytest.mark.parametrize(("make", "flat", "error", "width"), TABLES.values(), ids=TABLES)
def test_sums_under_a_flat_prior_beside_intervals_that_hold(make, flat, error, width):
    rng = np.random.default_rng(1)
    counts = make(rng)
    noisy = counts + LAW.rvs(counts.shape, rng=rng)
    total = counts.sum(axis=1)
    cell = dpi.count_posterior(noisy.ravel(), mechanism=LAW)
    # cells are independent given what was published
    middle = np.asarray(cell.mean).reshape(counts.shape).sum(axis=1)
    spread = np.sqrt(np.square(np.asarray(cell.std)).reshape(counts.shape).sum(axis=1))
    assert np.mean(np.abs(middle - total) <= 1.96 * spread) == pytest.approx(flat, abs=0.055)
    # the mean error has a standard deviation of 35/20
    assert np.mean(middle - total) == pytest.approx(error, abs=10)
    ends = []
    for part in np.split(noisy, REPS // 40):
        rows = np.kron(np.eye(40), np.ones(CELLS))
        ends.append(np.asarray(bounded_confint(part.ravel(), rows, mechanism=LAW)))
    lower, upper = np.concatenate(ends).T
    # five standard deviations of a share of 0.95
    assert np.mean((lower <= total) & (total <= upper)) >= 0.95 - 5 * np.sqrt(0.0475 / REPS)
    assert np.mean(upper - lower) == pytest.approx(width, abs=10)
    half = dpi.WeightedSum(np.ones(CELLS), LAW).isf(0.025)
    assert 2 * half == 138
    inside = np.abs(noisy.sum(axis=1) - total) <= half
    assert np.mean(inside) >= 0.95 - 5 * np.sqrt(0.0475 / REPS)
