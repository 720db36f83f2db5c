"""Ledgers of budgets: what they record, add up and refuse."""

import numpy as np
import pytest

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, RandomizedResponse
from dpinfer.privacy import (
    GDP,
    RDP,
    ZCDP,
    AmplifiedDP,
    ApproxDP,
    BudgetLedger,
    LedgerEntry,
    PureDP,
    RepeatedDP,
    amplify,
    compose_advanced,
    compose_parallel,
    privacy_loss,
)


def test_release_and_error_make_two():
    ledger = BudgetLedger(PureDP(2.0))
    assert ledger.budget == PureDP(2.0)
    ledger.record("table", mechanism=Laplace(scale=1.0))
    ledger.record("error of the table", mechanism=Laplace(scale=1.0))
    assert ledger.spent == PureDP(2.0)
    assert ledger.remaining == PureDP(0.0)
    assert len(ledger) == 2
    with pytest.raises(IncompatibleReleaseError, match="'one more' would overspend the budget"):
        ledger.record("one more", PureDP(1e-6))
    assert [entry.name for entry in ledger.entries] == ["table", "error of the table"]


def test_many_equal_parts_fill_the_budget():
    for count in (3, 7, 10, 2000):
        ledger = BudgetLedger(PureDP(0.7))
        for at in range(count):
            ledger.record(f"part {at}", PureDP(0.7 / count))
        assert not ledger.affords(PureDP(1e-9))
        assert ledger.remaining.epsilon < 1e-15


@pytest.mark.parametrize(
    ("budget", "single", "left"),
    [
        (ZCDP(1.0), ZCDP(0.25), ZCDP(0.5)),
        (GDP(1.0), GDP(0.6), GDP(np.sqrt(0.28))),
        (ApproxDP(1.0, 1e-5), ApproxDP(0.25, 1e-6), ApproxDP(0.5, 8e-6)),
        (PureDP(1.0, neighbours="replace"), PureDP(0.25, neighbours="replace"), None),
    ],
)
def test_budgets_of_every_kind(budget, single, left):
    ledger = BudgetLedger(budget)
    assert ledger.spent.epsilon_at(0.5) == 0
    for at in range(2):
        assert ledger.affords(single)
        ledger.record(str(at), single)
    if left is not None:
        assert ledger.remaining.delta_at(0.1) == pytest.approx(left.delta_at(0.1), rel=1e-12)
    assert ledger.affords(ledger.remaining)
    ledger.record("rest", ledger.remaining)
    assert not ledger.affords(single)


def test_gaussian_noise_against_a_concentrated_budget():
    ledger = BudgetLedger(ZCDP(0.5))
    assert ledger.record("a", mechanism=Gaussian(sigma=2.0)) == GDP(0.5)
    with pytest.raises(IncompatibleReleaseError, match="would overspend"):
        ledger.record("b", mechanism=DiscreteGaussian(sigma=2.0), sensitivity=2)
    assert ledger.spent.rho == pytest.approx(0.125)
    ledger.record("c", PureDP(0.5))
    assert ledger.spent.rho == pytest.approx(0.125 + 0.5 * np.tanh(0.25))


def test_an_approximate_budget_under_other_accountings():
    parts = 50
    fits = {}
    for accounting in ("sum", "zcdp", "advanced", "optimal", "gdp"):
        ledger = BudgetLedger(ApproxDP(2.0, 1e-6), accounting=accounting)
        count = 0
        while count < parts and ledger.affords(PureDP(0.05)):
            ledger.record(str(count), PureDP(0.05))
            count += 1
        fits[accounting] = count
        assert ledger.spent.epsilon <= 2.0 * (1 + 1e-12)
    assert fits["sum"] == 40
    assert fits["optimal"] == 50 >= fits["zcdp"]
    mixed = BudgetLedger(ApproxDP(2.0, 1e-6))
    mixed.record("gaussian", GDP(0.2))
    assert mixed.spent == GDP(0.2).to_approx_dp(1e-6)


def test_remainders_that_do_not_exist():
    ledger = BudgetLedger(ApproxDP(2.0, 1e-6), accounting="optimal")
    with pytest.raises(InvalidParameterError, match="remaining is not defined"):
        _ = ledger.remaining
    assert "depends on the release" in ledger.summary()


def test_totals_side_by_side():
    ledger = BudgetLedger(PureDP(10.0))
    for at in range(30):
        ledger.record(str(at), PureDP(0.1))
    frame = ledger.totals(1e-6)
    assert frame.loc["sum", "epsilon"] == pytest.approx(
        PureDP(3.0).to_approx_dp(1e-6).epsilon, rel=1e-12
    )
    assert frame.loc["optimal", "epsilon"] == RepeatedDP(0.1, 0.0, 30).epsilon_at(1e-6)
    assert frame.loc["zcdp", "epsilon"] == ZCDP(3.0 * np.tanh(0.05)).epsilon_at(1e-6)
    best = compose_advanced([PureDP(0.1)] * 30, 1e-6, method="kairouz").epsilon
    assert frame.loc["advanced", "epsilon"] == best
    # exact here too: the worst case of each release is randomized response
    assert frame.loc["numerical", "epsilon"] == pytest.approx(
        frame.loc["optimal", "epsilon"], rel=1e-9
    )
    known = frame["epsilon"].dropna()
    assert (known >= frame.loc["optimal", "epsilon"] * (1 - 1e-12)).all()
    ledger.record("other", PureDP(0.2))
    mixed = ledger.totals(1e-6)["epsilon"].dropna()
    assert set(mixed.index) == {"sum", "zcdp", "gdp", "advanced", "numerical"}
    assert (mixed >= mixed["numerical"] * (1 - 1e-9)).all()
    assert "differ" in ledger.totals(1e-6).loc["optimal", "note"]
    assert ledger.total() == PureDP(3.2)
    with pytest.raises(InvalidParameterError, match="delta must be given"):
        ledger.total("advanced")


def test_numerical_accounting():
    ledger = BudgetLedger(ApproxDP(5.0, 1e-6), accounting="numerical")
    for at in range(100):
        ledger.record(str(at), mechanism=Gaussian(sigma=10.0))
    # a hundred Gaussians with μ = 1/10 are one with μ = 1, whose curve is known
    assert ledger.spent.epsilon == pytest.approx(GDP(1.0).epsilon_at(1e-6), rel=1e-6)
    assert ledger.spent.epsilon >= GDP(1.0).epsilon_at(1e-6) * (1 - 1e-12)
    mixed = BudgetLedger(PureDP(5.0))
    mixed.record("count", mechanism=Geometric(scale=4.0))
    mixed.record("sum", mechanism=Laplace(scale=2.0), sensitivity=0.5)
    mixed.record("survey", PureDP(0.3))
    total = mixed.total("numerical", delta=1e-3)
    parts = [
        privacy_loss(Geometric(scale=4.0)),
        privacy_loss(Laplace(scale=2.0), 0.5),
        privacy_loss(RandomizedResponse.from_epsilon(0.3)),
    ]
    assert total.epsilon == pytest.approx(
        (parts[0] + parts[1] + parts[2]).epsilon_at(1e-3), rel=1e-3
    )
    assert total.epsilon <= 0.8
    mixed.record("nothing", ApproxDP(0.0, 0.0))
    assert mixed.total("numerical", delta=1e-3) == total
    # of a vector its worst mechanism is taken, which has the same ε
    mixed.record("vector", mechanism=Laplace(scale=[2.0, 4.0]), sensitivity=[0.2, 0.4])
    assert mixed.total("numerical", delta=1e-3).epsilon > total.epsilon
    wide = BudgetLedger(ApproxDP(5.0, 1e-3))
    wide.record("pair", ApproxDP(0.1, 1e-6))
    assert np.isnan(wide.totals(1e-3).loc["numerical", "epsilon"])
    mixed = wide
    with pytest.raises(InvalidParameterError, match="recorded with its mechanism"):
        mixed.total("numerical", delta=1e-3)


def test_amplified_releases_in_a_ledger():
    ledger = BudgetLedger(PureDP(0.2))
    ledger.record("sample", amplify(PureDP(1.0), rate=0.05))
    ledger.record("population", PureDP(0.1))
    assert isinstance(ledger.spent, AmplifiedDP)
    with pytest.raises(IncompatibleReleaseError, match="drawn independently"):
        ledger.record("same sample", amplify(PureDP(0.1), rate=0.05))
    assert len(ledger) == 2
    strict = BudgetLedger(PureDP(1.0))
    with pytest.raises(IncompatibleReleaseError, match="would overspend"):
        strict.record("pair", amplify(ApproxDP(0.1, 1e-9), rate=0.5))


def test_disjoint_parts_are_one_release():
    ledger = BudgetLedger(PureDP(1.0))
    ledger.record("by state", compose_parallel([PureDP(0.5)] * 50))
    assert ledger.spent == PureDP(0.5)


def test_summary():
    ledger = BudgetLedger(ApproxDP(1.0, 1e-6))
    empty = ledger.summary()
    assert "Releases:" in empty
    ledger.record("total", mechanism=Geometric(scale=4.0))
    ledger.record("survey", ApproxDP(0.5, 1e-7))
    frame = ledger.summary_frame()
    assert frame.index.tolist() == ["total", "survey"]
    assert frame["mechanism"].tolist() == ["Geometric", ""]
    assert frame["share"].to_numpy() == pytest.approx([0.25, 0.5])
    text = ledger.summary()
    assert "ε = 0.25, δ = 9e-07" in text
    assert "ε = 0.5, δ = 1e-07" in text
    assert repr(ledger) == (
        "<BudgetLedger of ApproxDP(epsilon=1.0, delta=1e-06, neighbours='add-remove'), 2 releases>"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", PureDP(0.1)), "name must be"),
        ((3, PureDP(0.1)), "name must be"),
        (("a", PureDP(0.1)), "name must be new"),
        (("b",), "guarantee or mechanism"),
        (("b", 0.1), "guarantee must be a guarantee"),
        (("b", ZCDP(0.01)), "implies no ε-DP"),
    ],
)
def test_bad_releases(arguments, message):
    ledger = BudgetLedger(PureDP(1.0))
    ledger.record("a", PureDP(0.1))
    with pytest.raises(InvalidParameterError, match=message):
        ledger.record(*arguments)
    assert len(ledger) == 1


def test_bad_ledgers():
    with pytest.raises(InvalidParameterError, match="budget must be"):
        BudgetLedger(1.0)
    with pytest.raises(InvalidParameterError, match="budget must be"):
        BudgetLedger(RDP(2, 0.1))
    with pytest.raises(InvalidParameterError, match="accounting must be 'sum'"):
        BudgetLedger(PureDP(1.0), accounting="optimal")
    with pytest.raises(InvalidParameterError, match="accounting must be one of"):
        BudgetLedger(ApproxDP(1.0, 1e-6), accounting="moments")
    ledger = BudgetLedger(PureDP(1.0))
    with pytest.raises(IncompatibleReleaseError, match="one neighbour relation"):
        ledger.record("a", PureDP(0.1, neighbours="replace"))
    with pytest.raises(IncompatibleReleaseError, match="one neighbour relation"):
        ledger.affords(PureDP(0.1, neighbours="replace"))
    with pytest.raises(InvalidParameterError, match="not both"):
        ledger.record("a", PureDP(0.1), mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="name must be"):
        LedgerEntry("", PureDP(0.1))
