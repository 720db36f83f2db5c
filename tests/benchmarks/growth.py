"""How time grows: three parts over three decades of size, and other ways as far as they go."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # for pytest, which imports this file by its path

import test_hierarchy
import test_marginals
import test_proportion_intervals

from dpinfer.mechanisms import Laplace

OURS = "dpinfer"


@dataclass(frozen=True)
class Growth:
    """Ways to do one thing, each with the sizes at which it is timed; the first way is ours."""

    function: str
    what: str
    unit: str
    problem: Callable[[int], tuple[Any, ...]]
    ways: dict[str, tuple[Callable[..., Any], tuple[int, ...]]]


def tree(leaves):
    parent = test_hierarchy.ragged(leaves)
    return (parent, *test_hierarchy.published(parent))


def rows(size):
    # Laplace noise: no two rows are alike, so none is saved
    noise = Laplace(scale=2.0)
    return (*test_proportion_intervals.published(size, one_nobs=False, noise=noise), noise)


def tables(leaves):
    return test_marginals.census_like(test_marginals.SCHEMAS[63], leaves)


DECADES = (1_000, 10_000, 100_000, 1_000_000)

GROWTH = [
    Growth(
        "combine_hierarchy",
        "estimates and variances of all units of a tree",
        "leaves",
        tree,
        {
            OURS: (test_hierarchy.by_dpinfer, DECADES),
            "SciPy lsmr, no variances": (test_hierarchy.by_lsmr, DECADES[:3]),
            "SciPy sparse LU, no variances": (test_hierarchy.by_lu, (1_000, 3_000, 10_000)),
        },
    ),
    Growth(
        "proportion_confint",
        "exact intervals, differing numbers of trials",
        "rows",
        rows,
        {
            OURS: (test_proportion_intervals.by_dpinfer, DECADES),
            "bootstrap, 1,000 replicates": (
                test_proportion_intervals.by_bootstrap,
                (100, 1_000, 10_000),
            ),
            "SciPy brentq by row": (test_proportion_intervals.by_brentq, (10, 100)),
        },
    ),
    Growth(
        "combine_marginals",
        "estimates and variances of tables of 63 cells on a tree",
        "units",
        tables,
        {
            OURS: (test_marginals.by_dpinfer, (100, 1_000, 10_000, 100_000)),
            "dense algebra, NumPy": (test_marginals.by_dense_algebra, (100, 1_000)),
        },
    ),
]
