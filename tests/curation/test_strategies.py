"""Strategies compared: what is best by the numbers, and that it keeps what the plan says."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer import Workload, combine
from dpinfer.curation import compare_strategies, plan_release
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms import DiscreteGaussian, Geometric
from dpinfer.privacy import GDP, ZCDP, PureDP
from dpinfer.queries import l1_sensitivity, l2_sensitivity

NAMES = {
    "cells",
    "targets",
    "tree",
    "tree without root",
    "tree, best levels",
    "prefixes",
    "square root",
    "wavelet",
}


@pytest.mark.parametrize(
    ("target", "budget", "objective", "best", "want"),
    [
        (Workload.prefixes(8), GDP(1.0), "mean", "tree, best levels", 2.5094),
        (Workload.prefixes(8), GDP(1.0), "largest", "square root", 2.9528),
        (Workload.ranges(8), GDP(1.0), "mean", "tree, best levels", 2.4501),
        (Workload.prefixes(8), PureDP(1.0), "mean", "cells", 9.0),
        (Workload.ranges(8), PureDP(1.0), "largest", "cells", 16.0),
        (Workload.ranges(8), ZCDP(0.5), "largest", "square root", 3.9656),
        (Workload.prefixes(64), PureDP(1.0), "mean", "tree, best levels", None),
    ],
)
def test_the_best_of_the_known_strategies(target, budget, objective, best, want):
    found = compare_strategies(target, budget=budget, objective=objective)
    assert found.best == best
    frame = found.summary_frame()
    assert set(frame.index) == NAMES
    column = {"mean": "mean_variance", "largest": "largest_variance"}[objective]
    assert frame.index[0] == best
    assert frame[column].is_monotonic_increasing
    assert frame["ratio"].iloc[0] == 1.0
    if want is not None:
        assert frame[column].iloc[0] == pytest.approx(want, rel=3e-5)
    for name in ("cells", "tree", "tree without root"):
        strategy = {"cells": Workload.identity, "tree": Workload.tree}.get(name)
        strategy = Workload.tree(target.shape[1], root=False) if strategy is None else strategy(
            target.shape[1]
        )  # fmt: skip
        plan = plan_release([strategy], budget=budget, target=target)
        variance = np.asarray(plan.variance)
        np.testing.assert_allclose(frame.loc[name, "mean_variance"], variance.mean(), rtol=1e-12)
        np.testing.assert_allclose(frame.loc[name, "largest_variance"], variance.max(), rtol=1e-12)


def test_a_tree_of_no_power_of_two_has_its_cells_in_one_level():
    found = compare_strategies(Workload.prefixes(37), budget=PureDP(1.0))
    assert set(found.plans) == NAMES - {"wavelet"}
    # with nothing for the other levels it is the cells
    tree, cells = (found.plans[name].total for name in ("tree, best levels", "cells"))
    assert tree <= cells * (1 + 1e-9)
    assert len(found.measured["tree, best levels"][-1]) == 37


@pytest.mark.parametrize(
    ("budget", "mechanism", "norm"),
    [
        (PureDP(0.5), None, l1_sensitivity),
        (PureDP(0.5, neighbours="replace"), None, l1_sensitivity),
        (ZCDP(0.2, neighbours="replace"), DiscreteGaussian, l2_sensitivity),
        (GDP(1.5), None, l2_sensitivity),
        (PureDP(0.5), Geometric, l1_sensitivity),
    ],
)
def test_the_best_is_drawn_and_combined_as_planned(budget, mechanism, norm):
    target = Workload.prefixes(16)
    strategies = {"tree": Workload.tree(16), "cells": Workload.identity(16)}
    strategies["two"] = [Workload.tree(16, root=False).take(slice(0, 2)), Workload.identity(16)]
    found = compare_strategies(target, budget=budget, mechanism=mechanism, strategies=strategies)
    counts = np.arange(16)
    release = dpi.Release.draw(counts, workload=found.workload, mechanism=found.mechanism, rng=1)
    fit = combine(release, target=target)
    want = found.plans[found.best].variance
    np.testing.assert_allclose(np.square(fit.bse), want, rtol=1e-9)
    # rows in units of their noise have the sensitivity that the budget allows
    std = np.broadcast_to(found.mechanism.std, len(found.workload))
    if mechanism is None:
        scale = std / (np.sqrt(2) if norm is l1_sensitivity else 1.0)
        scaled = found.workload.matrix.toarray() / scale[:, None]
        allowed = getattr(budget, "epsilon", None) or getattr(budget, "mu", None)
        assert norm(scaled, budget.neighbours) <= allowed * (1 + 1e-9)


@pytest.mark.parametrize(("size", "least"), [(2, 1.309017), (4, 1.718536), (8, 2.233272)])
def test_none_is_better_than_the_best_of_all(size, least):
    # of all factorisations of the prefix sums, by a search elsewhere; the first is (1 + √5)²/8
    found = compare_strategies(Workload.prefixes(size), budget=GDP(1.0))
    mean = found.summary_frame()["mean_variance"].iloc[0]
    assert least * (1 - 1e-6) <= mean <= 1.15 * least
    # Mathias (1993): what the largest variance need not exceed, and that of the square root does
    largest = found.summary_frame().loc["square root", "largest_variance"]
    angles = (2 * np.arange(1, size + 1) - 1) * np.pi / (2 * size)
    bound = (0.5 + (1 / np.sin(angles)).sum() / (2 * size)) ** 2
    assert bound <= largest <= 1.1 * bound


def test_what_it_says_of_itself():
    found = compare_strategies(Workload.prefixes(4), budget=GDP(1.0))
    assert "others may be better" in found.summary()
    assert str(found) == found.summary()
    assert repr(found).startswith("StrategyComparison(8 strategies")
    single = compare_strategies([[1.0]], budget=GDP(1.0))
    assert single.best == "cells"
    assert len(single.workload) == 1


def test_a_few_strategies_of_the_caller():
    target = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    pairs = Workload(target)
    found = compare_strategies(
        target, budget=PureDP(1.0), strategies={"cells": np.eye(4), "pairs": pairs}
    )
    assert found.best == "pairs"
    assert found.workload is pairs
    with pytest.raises(NotEstimableError, match="target"):
        compare_strategies(np.eye(4), budget=PureDP(1.0), strategies={"pairs": pairs})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "worst"}, "objective must be"),
        ({"strategies": {}}, "at least one"),
        ({"strategies": [np.eye(4)]}, "mapping of names"),
        ({"strategies": {"none": []}}, "none"),
        ({"target": Workload.identity(300)}, "must be given for more than 256 cells"),
        ({"budget": PureDP(0.0)}, "budget must be > 0"),
    ],
)
def test_what_is_refused(arguments, message):
    given = {"target": Workload.identity(4), "budget": PureDP(1.0)} | arguments
    with pytest.raises(InvalidParameterError, match=message):
        compare_strategies(**given)
