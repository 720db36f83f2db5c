"""Null distributions with known tails, against scipy.stats and enumeration."""

import sys

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError, MissingExtraError
from dpinfer.results import AsymptoticNull, ExactNull

ALTERNATIVES = ("two-sided", "larger", "smaller")


@pytest.fixture
def die():
    """The number of pips of a die minus 3.5."""
    return ExactNull(
        lambda s: (6 - np.clip(np.ceil(s + 2.5), 0, 6)) / 6,
        lambda s: np.clip(np.floor(s + 3.5), 0, 6) / 6,
    )


def test_pvalues_of_a_discrete_law_count_the_atom(die):
    points = np.arange(-2.5, 3.0)
    for s in points:
        assert die.pvalue(s, "larger") == np.mean(points >= s)
        assert die.pvalue(s, "smaller") == np.mean(points <= s)
        assert die.pvalue(s) == np.mean(np.abs(points) >= abs(s))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("alpha", [0.01, 0.17, 0.34, 0.5, 0.84])
def test_critical_value_rejects_exactly_where_the_pvalue_does(die, alternative, alpha):
    c = die.critical_value(alpha, alternative)
    points = np.arange(-2.5, 3.0)
    reached = {
        "larger": points >= c,
        "smaller": points <= c,
        "two-sided": np.abs(points) >= c,
    }
    np.testing.assert_array_equal(reached[alternative], die.pvalue(points, alternative) <= alpha)


@pytest.mark.parametrize("std", [1e-6, 1.0, 37.5])
def test_normal(std):
    null, points = AsymptoticNull.normal(std), std * np.array([-9.0, -1.0, 0.0, 0.3, 2.0, 30.0])
    law = stats.norm(scale=std)
    np.testing.assert_allclose(null.pvalue(points, "larger"), law.sf(points), rtol=1e-13)
    np.testing.assert_allclose(null.pvalue(points, "smaller"), law.cdf(points), rtol=1e-13)
    np.testing.assert_allclose(null.pvalue(points), 2 * law.sf(np.abs(points)), rtol=1e-13)
    np.testing.assert_allclose(null.critical_value(0.05), law.isf(0.025), rtol=1e-10)
    np.testing.assert_allclose(null.critical_value(0.9, "larger"), law.isf(0.9), rtol=1e-10)
    np.testing.assert_allclose(null.critical_value(0.01, "smaller"), law.ppf(0.01), rtol=1e-10)


@pytest.mark.parametrize("df", [1, 3, 100])
def test_chi2(df):
    null, points = AsymptoticNull.chi2(df), np.array([-1.0, 0.0, 0.5, 7.0, 500.0])
    law = stats.chi2(df)
    np.testing.assert_allclose(null.pvalue(points, "larger"), law.sf(points), rtol=1e-12)
    np.testing.assert_allclose(null.pvalue(points, "smaller"), law.cdf(points), rtol=1e-12)
    np.testing.assert_allclose(null.critical_value(0.05, "larger"), law.isf(0.05), rtol=1e-10)
    np.testing.assert_allclose(null.critical_value(0.05, "smaller"), law.ppf(0.05), rtol=1e-10)


def test_one_law_for_each_statistic():
    null = AsymptoticNull.normal([1.0, 2.0])
    np.testing.assert_allclose(null.pvalue([1.0, 2.0], "larger"), stats.norm.sf(1.0))
    critical = null.critical_value(0.05)
    np.testing.assert_allclose(critical, stats.norm.isf(0.025) * np.array([1.0, 2.0]))
    assert "one for each statistic" in null.summary()
    with pytest.raises(InvalidParameterError, match="several"):
        null.plot()


def test_without_a_value_that_is_extreme_enough():
    certain = ExactNull(lambda s: np.ones_like(s), lambda s: np.ones_like(s))
    assert certain.critical_value(0.05, "larger") == np.inf
    assert certain.critical_value(0.05, "smaller") == -np.inf


def test_summary_holds_the_critical_values():
    text = AsymptoticNull.chi2(3).summary()
    assert "chi-squared, 3 degrees of freedom" in text
    assert "7.81" in text
    assert str(AsymptoticNull.chi2(3)) == text


def test_nothing_is_simulated():
    error = AsymptoticNull.normal().mc_error([1.0, 2.0], "larger")
    np.testing.assert_array_equal(error, [0.0, 0.0])


def test_plot_marks_the_statistic(die):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = die.plot(statistic=1.0)
    curve, mark = axes.get_lines()
    heights = curve.get_ydata()
    assert (np.diff(heights) >= 0).all()
    assert heights[0] <= 1 / 6
    assert heights[-1] == 1.0
    assert list(mark.get_xdata()) == [1.0, 1.0]
    assert die.plot(ax=axes) is axes
    pyplot.close(axes.figure)


def test_plot_without_matplotlib_names_the_extra(die, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[plot\]"):
        die.plot()


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2, np.nan, "a", None])
def test_bad_alpha(die, alpha):
    with pytest.raises(InvalidParameterError, match="alpha"):
        die.critical_value(alpha)


@pytest.mark.parametrize("statistic", [np.nan, "a", 1j, [], None])
def test_bad_statistic(die, statistic):
    with pytest.raises(InvalidParameterError, match="statistic"):
        die.pvalue(statistic)


def test_infinite_statistics_have_the_pvalue_of_the_limit(die):
    for null in (die, AsymptoticNull.normal(1e-10), AsymptoticNull.normal(1e10)):
        assert null.pvalue([np.inf, -np.inf], "larger").tolist() == [0.0, 1.0]
        assert null.pvalue([np.inf, -np.inf], "smaller").tolist() == [1.0, 0.0]
        assert null.pvalue([np.inf, -np.inf]).tolist() == [0.0, 0.0]


def test_bad_alternative(die):
    with pytest.raises(InvalidParameterError, match="alternative must be one of 'two-sided'"):
        die.pvalue(1.0, "bigger")
    assert die.pvalue(1.0, "greater") == die.pvalue(1.0, "larger")  # SciPy's word for it
    with pytest.raises(InvalidParameterError, match="alternative"):
        die.mc_error(1.0, "bigger")


@pytest.mark.parametrize("std", [0.0, -1.0, np.inf, [1.0, 0.0]])
def test_bad_std(std):
    with pytest.raises(InvalidParameterError, match="std must be"):
        AsymptoticNull.normal(std)


@pytest.mark.parametrize("df", [0, 1.5, -3])
def test_bad_df(df):
    with pytest.raises(InvalidParameterError, match="df must be"):
        AsymptoticNull.chi2(df)


def test_nothing_simulated_has_a_degenerate_interval():
    null = AsymptoticNull.normal()
    assert null.mc_confint(1.96) == (null.pvalue(1.96), null.pvalue(1.96))
    low, high = null.mc_confint([1.0, 2.0], "larger", alpha=0.01)
    np.testing.assert_array_equal(low, null.pvalue([1.0, 2.0], "larger"))
    np.testing.assert_array_equal(low, high)


def test_what_kind_of_law_it_is(die):
    assert "exact" in die.summary()
    assert "chi-squared, 3 degrees of freedom" in str(AsymptoticNull.chi2(3))
    assert "standard deviation 2" in str(AsymptoticNull.normal(2.0))


def test_a_law_is_drawn_as_far_as_it_goes(monkeypatch):
    """Half of the mass at infinity: only the critical values of a level of 0.9 are finite."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    half = ExactNull(
        lambda s: np.where(s > 0, 0.5, 1.0), lambda s: np.where(s < 0, 0.0, 0.5 + 0.0 * s)
    )
    axes = half.plot()
    low, high = axes.get_lines()[0].get_xdata()[[0, -1]]
    assert np.isfinite([low, high]).all()
    pyplot.close(axes.figure)
    lost = ExactNull(lambda s: 0.95 + 0.0 * s, lambda s: 0.05 + 0.0 * s)
    assert lost.critical_value(0.9, "larger") == np.inf
    with pytest.raises(InvalidParameterError, match="nearly all of this law is at infinity"):
        lost.plot()


def test_no_critical_value_is_minus_zero():
    for law in (AsymptoticNull.chi2(3), AsymptoticNull.normal()):
        for alpha in (1e-300, 0.05, 0.5):
            value = law.critical_value(alpha, "smaller")
            assert value != 0 or not np.signbit(value)
