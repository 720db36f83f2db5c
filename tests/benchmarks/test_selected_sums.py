"""Sums of cells of which some were not published, beside pandas' sums of the same groups."""

import numpy as np
import pandas as pd
import pytest

from dpinfer.intervals import thresholded_sum_confint
from dpinfer.mechanisms import DiscreteGaussian

CELLS, GROUPS = 30, 100_000
LAW = {"mechanism": DiscreteGaussian(sigma=18.23), "threshold": 90}


def published(groups):
    """Counts with a long tail, missing below the threshold, and the group of each."""
    rng = np.random.default_rng(1)
    counts = np.round(30.0 * rng.pareto(1.0, groups * CELLS))
    noisy = counts + LAW["mechanism"].rvs(counts.size, rng=rng)
    return np.where(noisy >= 90, noisy, np.nan), np.repeat(np.arange(groups), CELLS)


@pytest.mark.benchmark(group="sums of thirty cells above a threshold")
@pytest.mark.parametrize("target", ["cells", "published", "soft"])
def test_sums(benchmark, sized, target):
    values, by = published(sized(GROUPS))
    found = benchmark(thresholded_sum_confint, values, target=target, by=by, **LAW)
    assert found.lower.shape == (by[-1] + 1,)


@pytest.mark.benchmark(group="sums of thirty cells above a threshold")
def test_sums_by_pandas(benchmark, sized):
    values, by = published(sized(GROUPS))
    benchmark(lambda: pd.Series(values).groupby(by).sum())
