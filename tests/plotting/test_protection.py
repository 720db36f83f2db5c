"""Curves and budgets are drawn as their objects have them."""

import importlib
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.plotting import plot_allocation, plot_delta, plot_ledger, plot_pbdp, plot_trade_off
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BudgetAllocation,
    BudgetLedger,
    PureDP,
    TradeOff,
    privacy_loss,
)
from dpinfer.releases.census import build_scenario

pictures = importlib.import_module("pictures")

KINDS = [
    PureDP(1.0),
    ApproxDP(0.5, 0.01),
    ZCDP(0.1),
    GDP(0.5),
    RDP([2.0, 8.0], [0.1, 0.5]),
    dpi.Laplace(scale=2.0),
    dpi.Gaussian(sigma=2.0),
    privacy_loss(dpi.Geometric(scale=3.0), compositions=5),
]


def line(axes, position=-1):
    return (np.asarray(axis, dtype=float) for axis in axes.get_lines()[position].get_data())


@pytest.mark.parametrize("one", KINDS, ids=repr)
def test_every_kind_of_protection_has_its_curves(one):
    curve = TradeOff(one)
    level, error = line(plot_trade_off(one))
    np.testing.assert_allclose(error[::9], curve.type_two_error(level[::9]), atol=1e-12)
    at, delta = line(plot_pbdp(one, [0.1, 0.6]))
    found = np.maximum(curve.pbdp_delta(at), 1e-300)
    np.testing.assert_allclose(delta, found, rtol=1e-9)
    at, delta = line(plot_delta(one))
    assert at[0] == 0.0
    assert (np.diff(delta) <= 1e-15).all()
    if isinstance(one, PureDP):
        assert delta[-1] <= 1e-8


def test_the_axis_ends_where_little_is_left():
    at, delta = line(plot_pbdp(GDP(0.5)))
    assert (at[0], delta[0]) == (0.0, 1.0)
    assert delta[-1] == pytest.approx(1e-10, rel=1e-3)


def test_the_curve_of_a_gaussian_is_the_textbook_one():
    level, error = line(plot_trade_off(GDP(1.0)))
    inside = (level > 0) & (level < 1)
    np.testing.assert_allclose(error[inside], stats.norm.cdf(stats.norm.isf(level[inside]) - 1.0))


def test_a_pure_guarantee_has_the_corner_at_its_epsilon():
    at, delta = line(plot_delta(PureDP(0.7), [0.0, 0.35, 0.7, 1.0]))
    np.testing.assert_array_equal(at, [0.0, 0.35, 0.7, 1.0])
    assert delta[1] == pytest.approx(PureDP(0.7).delta_at(0.35))
    assert delta[3] == 1e-300  # nothing: it leaves the axes


def test_names_are_given_or_found():
    axes = plot_delta([GDP(0.5), GDP(0.5, neighbours="replace"), ZCDP(0.1)])
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    # the same numbers say different things of different neighbours
    assert labels == [
        "GDP(mu=0.5, add-remove)",
        "GDP(mu=0.5, replace)",
        "ZCDP(rho=0.1, add-remove)",
    ]
    assert len(plot_delta([GDP(0.5), GDP(0.5)]).get_lines()) == 1
    named = plot_pbdp({"$a$": GDP(0.5), "_b": ZCDP(0.1)})
    labels = [text.get_text() for text in named.get_legend().get_texts()]
    assert labels == [r"\$a\$", " _b"]


def test_groups_and_sensitivities_are_passed_on():
    _, two = line(plot_trade_off(dpi.Gaussian(sigma=2.0), group=2))
    _, wide = line(plot_trade_off(dpi.Gaussian(sigma=2.0), sensitivity=2.0))
    np.testing.assert_allclose(two, wide, atol=1e-12)
    _, one = line(plot_delta(dpi.Laplace(scale=2.0), [0.1]))
    _, other = line(plot_delta(dpi.Laplace(scale=4.0), [0.1], sensitivity=2.0))
    assert one == pytest.approx(other)


@pytest.mark.parametrize("draw", [plot_trade_off, plot_delta, plot_pbdp])
@pytest.mark.parametrize("one", [3, "PureDP", [], {}, [None]])
def test_what_has_no_curve_is_refused(draw, one):
    with pytest.raises(InvalidParameterError):
        draw(one)


@pytest.mark.parametrize("draw", [plot_delta, plot_pbdp])
@pytest.mark.parametrize("epsilon", [[-1.0], [], [np.nan], "a", [[1.0]]])
def test_bad_epsilons_are_refused(draw, epsilon):
    with pytest.raises(InvalidParameterError, match="epsilon"):
        draw(PureDP(1.0), epsilon)


def bars(axes):
    return [(bar.get_x(), bar.get_width()) for bar in axes.patches]


def test_a_ledger_takes_one_share_after_the_other():
    axes = plot_ledger(pictures.ledger())
    np.testing.assert_allclose(bars(axes), [(0, 10), (10, 25), (35, 40), (75, 25)], atol=1e-9)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[0].startswith("total")
    assert names[2].startswith(r"by \$sex\$")
    assert names[-1] == "left"
    assert axes.get_xlabel() == "share of the ρ of the budget, ρ = 0.5 (percent)"


def test_gaussian_shares_are_of_the_square():
    book = BudgetLedger(GDP(2.0))
    book.record("a", GDP(1.0))
    book.record("b", GDP(1.0))
    np.testing.assert_allclose(bars(plot_ledger(book)), [(0, 25), (25, 25), (50, 50)])


def test_an_accounting_without_remainder_begins_every_bar_at_zero():
    book = BudgetLedger(ApproxDP(1.0, 1e-6), accounting="numerical")
    for at in range(10):
        book.record(f"r{at}", mechanism=dpi.Laplace(scale=20.0))
    axes = plot_ledger(book)
    drawn = np.array(bars(axes))
    assert (drawn[:, 0] == 0).all()
    assert drawn[-1, 1] == pytest.approx(100 * book.spent.epsilon)
    assert axes.get_yticklabels()[-1].get_text() == "all together"


def test_many_releases_share_a_bar():
    book = BudgetLedger(PureDP(1.0))
    for at in range(50):
        book.record(f"r{at}", PureDP(0.01))
    drawn = bars(plot_ledger(book, most=3))
    np.testing.assert_allclose(drawn, [(0, 1), (1, 1), (2, 1), (3, 47), (50, 50)], atol=1e-9)


@pytest.mark.parametrize("budget", [PureDP(0.0), PureDP(1.0), ZCDP(1.0)])
def test_an_empty_ledger_is_drawn(budget):
    assert len(plot_ledger(BudgetLedger(budget)).patches) == 1


def test_an_allocation_shows_every_share():
    axes = plot_allocation(pictures.allocation())
    shown = {text.get_position(): float(text.get_text()) for text in axes.texts}
    assert shown == {(0, 0): 40, (1, 0): 10, (0, 1): 8.33, (1, 1): 16.7, (2, 1): 25}


@pytest.mark.parametrize(
    ("draw", "one"),
    [
        (plot_ledger, 3),
        (plot_allocation, 3),
        (plot_allocation, BudgetAllocation(Fraction(1), {"a": 1}, {"a": {}})),
    ],
)
def test_what_is_no_budget_is_refused(draw, one):
    with pytest.raises(InvalidParameterError):
        draw(one)


def test_scenarios_are_drawn_by_the_noise_that_was_used():
    block = build_scenario(within=["Block"], secret="block in its group")
    axes = plot_delta(block, [0.0, 0.5])
    (line,) = axes.get_lines()
    assert line.get_label() == "block in its group"
    np.testing.assert_allclose(line.get_ydata(), block.privacy_loss.delta_at([0.0, 0.5]))
    named = plot_trade_off({"A": block})
    assert named.get_lines()[-1].get_label() == "A"
