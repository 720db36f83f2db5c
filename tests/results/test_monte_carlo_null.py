"""Counted replicates against counting them again."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from dpinfer.errors import InvalidParameterError
from dpinfer.results import MonteCarloNull
from dpinfer.results.null import count_extreme

ALTERNATIVES = ("two-sided", "larger", "smaller")
EXTREME = {
    "larger": lambda sample, s: sample >= s,
    "smaller": lambda sample, s: sample <= s,
    "two-sided": lambda sample, s: np.abs(sample) >= abs(s),
}


def counted(sample, statistic):
    """A null distribution whose replicates are all kept."""
    sample, statistic = np.asarray(sample, float), np.asarray(statistic, float)
    counts = {name: count_extreme(sample, statistic, name) for name in ALTERNATIVES}
    return MonteCarloNull(sample=sample, reps=sample.size, statistic=statistic, extreme=counts)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("points", [3, 100])
def test_counts_include_ties(alternative, ordered, points):
    rng = np.random.default_rng(1)
    sample = rng.integers(-5, 6, 1000).astype(float)
    statistic = np.resize(np.arange(-6.0, 7.0), points)
    expected = [EXTREME[alternative](sample, s).sum() for s in statistic]
    replicates = np.sort(sample) if ordered else sample
    got = count_extreme(replicates, statistic, alternative, ordered=ordered)
    np.testing.assert_array_equal(got, expected)


def test_rounding_does_not_break_ties():
    sample = np.array([0.1 + 0.2, -0.3, 0.3])
    assert count_extreme(sample, np.asarray(0.3), "two-sided") == 3
    assert count_extreme(sample, np.asarray(0.1 + 0.2), "larger") == 2


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_pvalue_is_never_zero_and_valid(alternative):
    sample = np.random.default_rng(2).normal(size=999)
    null = counted(sample, 2.0)
    expected = (1 + EXTREME[alternative](sample, 2.0).sum()) / 1000
    assert null.pvalue(2.0, alternative) == expected
    assert null.mc_error(2.0, alternative) == np.sqrt(expected * (1 - expected) / 999)
    assert counted(sample, 50.0).pvalue(50.0) == 1 / 1000


def test_observed_statistics_use_all_replicates_and_others_the_sample():
    counts = {"two-sided": 5, "larger": 4, "smaller": 9_996}
    null = MonteCarloNull(sample=np.arange(99.0), reps=9_999, statistic=95.0, extreme=counts)
    assert null.pvalue(95.0, "larger") == 5 / 10_000
    assert null.pvalue(96.0, "larger") == 4 / 100
    assert null.mc_error(95.0, "larger") < null.mc_error(96.0, "larger")


def test_observed_and_other_statistics_together():
    null = counted(np.arange(99.0), [10.0, 95.0])
    np.testing.assert_array_equal(null.pvalue([11.0, 95.0], "larger"), [0.89, 0.05])
    np.testing.assert_array_equal(null.pvalue([95.0], "larger"), [0.05])


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("alpha", [0.005, 0.01, 0.05, 0.3, 0.999])
def test_critical_value_rejects_exactly_where_the_pvalue_does(alternative, alpha):
    sample = np.random.default_rng(3).integers(-40, 41, 199).astype(float)
    null = counted(sample, 0.0)
    c = null.critical_value(alpha, alternative)
    points = np.arange(-60.0, 61.0)
    reached = {
        "larger": points >= c,
        "smaller": points <= c,
        "two-sided": np.abs(points) >= c,
    }[alternative]
    np.testing.assert_array_equal(reached, null.pvalue(points, alternative) <= alpha)


def test_too_few_replicates_for_the_level():
    null = counted(np.arange(9.0), 3.0)
    assert null.critical_value(0.05, "larger") == np.inf
    assert null.critical_value(0.05, "smaller") == -np.inf


def test_one_law_for_each_statistic():
    rng = np.random.default_rng(4)
    sample, statistic = rng.normal(size=(2, 500)) * [[1.0], [3.0]], np.array([2.0, 2.0])
    counts = {
        name: np.array([count_extreme(row, statistic[:1], name)[0] for row in sample])
        for name in ALTERNATIVES
    }
    null = MonteCarloNull(sample=sample, reps=500, statistic=statistic, extreme=counts)
    assert null.pvalue(statistic)[0] < null.pvalue(statistic)[1]
    other = null.pvalue([1.5, 1.5], "larger")
    np.testing.assert_array_equal(other, (1 + (sample >= 1.5).sum(axis=1)) / 501)
    assert null.critical_value(0.05).shape == (2,)
    assert "one for each statistic" in null.summary()


def test_summary_says_how_many_were_kept():
    text = counted(np.arange(99.0), 3.0).summary()
    assert "Monte Carlo" in text
    assert "Replicates kept" in text


@pytest.mark.parametrize("reps", [1, 20])
def test_plot_with_few_replicates(reps):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = counted(np.arange(float(reps)), 0.0).plot()
    assert np.isfinite(axes.get_lines()[0].get_xdata()).all()
    pyplot.close(axes.figure)


def test_the_sample_cannot_be_larger_than_the_simulation():
    with pytest.raises(InvalidParameterError, match="reps must be >= 3"):
        MonteCarloNull(
            sample=np.arange(3.0), reps=2, statistic=0.0, extreme=dict.fromkeys(ALTERNATIVES, 0)
        )


def stopped_or_not(needed, reps):
    """All outcomes of a count that stops at the exceedance ``needed``: R, exceedances, stopped."""
    early = [(r, needed, True) for r in range(needed, reps + 1)]
    return early + [(reps, b, False) for b in range(needed)]


def outcome(replicates, exceedances, stopped):
    return MonteCarloNull(
        sample=[0.0], reps=replicates, statistic=1.0, extreme={"larger": exceedances},
        stopped=stopped,
    )  # fmt: skip


@pytest.mark.parametrize("reps", [1, 2, 7, 40])
@pytest.mark.parametrize("needed", [1, 2, 3, 10])
def test_sequential_pvalues_are_valid_at_every_level(needed, reps):
    """Its p-value being uniform, P(R = r) = h/(r(r + 1)) and P(b of reps) = 1/(reps + 1)."""
    if needed > reps:
        return
    law = [
        (outcome(r, b, stopped).pvalue(1.0, "larger"),
         needed / (r * (r + 1)) if stopped else 1 / (reps + 1))
        for r, b, stopped in stopped_or_not(needed, reps)
    ]  # fmt: skip
    assert sum(chance for _, chance in law) == pytest.approx(1.0, rel=1e-12)
    for level in [pvalue for pvalue, _ in law]:
        rejected = sum(chance for pvalue, chance in law if pvalue <= level)
        assert rejected <= level * (1 + 1e-12)


@pytest.mark.thinned("true", "needed", "alpha", every=2)
@pytest.mark.parametrize("true", [0.01, 0.1, 0.4, 0.9])
@pytest.mark.parametrize(("needed", "reps"), [(3, 40), (10, 60), (41, 40)])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_interval_misses_seldom_enough_on_either_side(true, needed, reps, alpha):
    """Every outcome in turn; with more exceedances needed than replicates it never stops."""
    above = below = total = 0.0
    outcomes = stopped_or_not(min(needed, reps + 1), reps)
    for r, b, stopped in outcomes:
        chance = (
            stats.nbinom.pmf(r - needed, needed, true)
            if stopped
            else stats.binom.pmf(b, reps, true)
        )
        low, high = outcome(r, b, stopped).mc_confint(1.0, "larger", alpha=alpha)
        above += chance * (low > true)
        below += chance * (high < true)
        total += chance
    assert total == pytest.approx(1.0, rel=1e-12)
    assert above <= 0.5 * alpha
    assert below <= 0.5 * alpha


def test_the_interval_is_that_of_statsmodels():
    null = outcome(500, 7, False)
    expected = proportion_confint(7, 500, alpha=0.1, method="beta")
    np.testing.assert_allclose(null.mc_confint(1.0, "larger", alpha=0.1), expected, rtol=1e-12)
    assert outcome(500, 0, False).mc_confint(1.0, "larger")[0] == 0.0
    assert outcome(500, 500, False).mc_confint(1.0, "larger")[1] == 1.0
    assert outcome(5, 5, True).mc_confint(1.0, "larger")[1] == 1.0


def test_an_alternative_that_was_not_counted_comes_from_the_sample():
    null = MonteCarloNull(
        sample=np.arange(99.0), reps=12, statistic=95.0, extreme={"larger": 10}, stopped=True
    )
    assert null.pvalue(95.0, "larger") == 10 / 12
    assert null.pvalue(95.0, "smaller") == (1 + 96) / 100
    assert null.mc_error(95.0, "larger") == pytest.approx(np.sqrt(10 / 12 * 2 / 12 / 12))
    assert "1 of 1" in null.summary()


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1, np.nan, "x"])
def test_bad_level_of_the_interval(alpha):
    with pytest.raises(InvalidParameterError, match="alpha"):
        outcome(5, 1, False).mc_confint(1.0, alpha=alpha)


@pytest.mark.parametrize(("alternative", "most"), [("larger", -np.inf), ("smaller", np.inf)])
def test_a_level_that_every_value_reaches(alternative, most):
    counts = {"two-sided": 9, "larger": 5, "smaller": 5}
    null = MonteCarloNull(sample=np.arange(9.0), reps=9, statistic=4.0, extreme=counts)
    assert null.critical_value(1 - 1e-15, alternative) == most
    assert np.isfinite(null.critical_value(0.95, alternative))
    for far in (-1e9, 1e9):
        assert null.pvalue(far, alternative) <= 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"extreme": 3}, "extreme must be a mapping of alternatives to counts, got 3"),
        ({"extreme": {"bigger": 3}}, "extreme must be one of 'two-sided', 'larger', 'smaller'"),
        ({"extreme": {"larger": 4}}, r"extreme\['larger'\] must be at most reps = .*3.*, got .*4"),
        ({"extreme": {"larger": 0.5}}, r"extreme\['larger'\] must hold whole numbers"),
        ({"extreme": {"larger": -1}}, r"extreme\['larger'\] must be >= 0"),
        ({"extreme": {"larger": [1, 2]}, "statistic": [1.0, 2.0, 3.0]}, "must have shape"),
    ],
)
def test_counts_that_cannot_be(wrong, message):
    given = {"sample": [1.0, 2.0, 3.0], "reps": 3, "statistic": 2.0, "extreme": {"larger": 2}}
    assert MonteCarloNull(**given).pvalue(2.0, "larger") == 0.75
    with pytest.raises(InvalidParameterError, match=message):
        MonteCarloNull(**{**given, **wrong})
