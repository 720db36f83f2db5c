"""Pictures of orders, of tests that are rejected and of ways to spend a budget."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import plotting
from dpinfer.errors import InvalidParameterError

COUNTS = pd.Series({"DE": 120.0, "FR": 96.5, "PL": 41.0, "IT": 98.0})
RANKING = dpi.intervals.ranking(COUNTS, mechanism=dpi.Laplace(scale=3.0))
TESTS = dpi.adjust_pvalues(pd.Series({"a": 0.2, "b": 0.001, "c": 0.03, "d": 1e-40}))


def points(axes, label):
    """Return the points of a series."""
    [line] = [line for line in axes.get_lines() if line.get_label() == label]
    return np.asarray(line.get_xydata())


def names(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_ranks_are_drawn_in_the_order_of_the_values():
    axes = RANKING.plot()
    assert names(axes) == ["DE   120", "IT   98", "FR   96.5", "PL   41"]
    ranks = RANKING.ranks()
    [lines] = axes.collections
    drawn = [segment[:, 0].tolist() for segment in lines.get_segments()]
    order = ["DE", "IT", "FR", "PL"]
    assert drawn == ranks.loc[order, ["lower", "upper"]].to_numpy().tolist()
    assert points(axes, "may be the largest").tolist() == [[1, 0], [1, 0]]
    assert RANKING.plot(most=2).get_xlabel().endswith("the first 2 of 4 values")


def test_adjusted_tests_are_drawn_with_their_level():
    axes = TESTS.plot()
    assert names(axes) == ["d", "b", "c", "a"]
    adjusted = TESTS.summary_frame().loc[["d", "b", "c", "a"], "pvalue_adjusted"].to_numpy()
    np.testing.assert_array_equal(points(axes, "adjusted, holm")[:, 0], np.maximum(adjusted, 1e-10))
    assert points(axes, "level 0.05")[0, 0] == 0.05


def test_ways_to_spend_a_budget():
    budget = dpi.PureDP(1.0)
    split = dpi.curation.best_split(budget)
    axes = split.plot()
    np.testing.assert_array_equal(
        points(axes, "width"),
        np.c_[split.shares, np.where(split.widths < 1e9, split.widths, np.nan)],
    )
    found = dpi.curation.compare_spending(budget, [0.0, 10.0])
    axes = found.plot()
    assert names(axes) == ["0", "10"]
    np.testing.assert_array_equal(points(axes, "both")[:, 0], found.both)
    labelled = dpi.curation.compare_spending(budget, pd.Series({"x": 0.0, "y": 10.0}))
    assert names(labelled.plot()) == ["x   0", "y   10"]


def test_error_estimates_are_drawn_with_what_was_published():
    found = dpi.curation.spend_on_error(
        [3.0, 9.0], [0.0, 7.0], mechanism=dpi.Laplace(scale=2.0), rng=1
    )
    axes = found.plot(alpha=0.1)
    own = found.value_conf_int(0.1)
    drawn = [line.get_xdata() for line in axes.get_lines()]
    for ends in np.c_[own.lower, own.upper]:
        assert any(np.array_equal(ends, x) for x in drawn)
    assert "90 % intervals" in axes.get_xlabel()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plotting.plot_ranking(TESTS), "ranking must be Ranking, got AdjustedTests"),
        (lambda: plotting.plot_adjusted([0.1]), "tests must be AdjustedTests"),
        (lambda: plotting.plot_spending(3), "spending must be BudgetSplit or SpendingComparison"),
        (lambda: plotting.plot_ranking(RANKING, most=0), "most must be >= 1"),
    ],
)
def test_refusals(draw, message):
    with pytest.raises(InvalidParameterError, match=message):
        draw()
