"""The bars of a null distribution are its probabilities, and the filled ones add up to p."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.plotting import plot_null
from dpinfer.results import AsymptoticNull, ExactNull

DIE = ExactNull(
    lambda s: (7 - np.clip(np.ceil(s), 1, 7)) / 6, lambda s: np.clip(np.floor(s), 0, 6) / 6
)
COINS = ExactNull(  # -1, 0 or 1 with probabilities 1/4, 1/2, 1/4
    lambda s: np.select([s <= -1, s <= 0, s <= 1], [1.0, 0.75, 0.25], 0.0),
    lambda s: np.select([s < -1, s < 0, s < 1], [0.0, 0.25, 0.75], 1.0),
)


FILLED = "#c77f2b"


def areas(axes):
    """Return the areas of the bars: of all, and of the filled ones."""
    from matplotlib.colors import to_hex

    bars = [bar for bar in axes.patches if bar.get_height() is not None]
    area = np.array([bar.get_width() * bar.get_height() for bar in bars])
    filled = np.array([to_hex(bar.get_facecolor()) == FILLED for bar in bars])
    return area.sum(), area[filled].sum()


TWO = dpi.proportions_ztest([34, 20], [100, 90], 0.3, mechanism=dpi.Laplace(scale=1.0))


@pytest.mark.thinned("alternative", "null", every=3)
@pytest.mark.parametrize("alternative", ["larger", "smaller", "two-sided"])
@pytest.mark.parametrize(
    ("null", "statistic"),
    [
        (DIE, 5.0),
        (DIE, 1.0),
        (COINS, 1.0),
        (COINS, -1.0),
        (COINS, 0.0),
        (AsymptoticNull.normal(2.0), 0.05),
        (AsymptoticNull.normal(2.0), -4.0),
        (AsymptoticNull.chi2(3), 2.0),
    ],
)
def test_areas_are_probabilities(null, statistic, alternative):
    bins = 7 if null is COINS else 60
    whole, extreme = areas(plot_null(null, statistic, alternative=alternative, bins=bins))
    # what is beyond the axes, 0.001 on each side at most, has no bar
    assert whole == pytest.approx(1.0, abs=0.0021)
    assert extreme == pytest.approx(float(null.pvalue(statistic, alternative)), abs=0.0021)


def test_a_simulated_test():
    fit = dpi.combine(dpi.datasets.load_anes96().release)
    test = fit.consistency_test(rng=0)
    axes = plot_null(test, alpha=0.05)
    whole, extreme = areas(axes)
    assert whole == pytest.approx(1.0, abs=0.01)
    assert extreme == pytest.approx(float(test.pvalue), abs=0.01)
    observed, critical = axes.get_lines()
    assert list(observed.get_xdata()) == [test.statistic] * 2
    assert critical.get_xdata()[0] == test.null_distribution.critical_value(0.05, "larger")


def test_without_an_observed_statistic_nothing_is_filled():
    axes = plot_null(AsymptoticNull.normal(), alpha=0.1)
    assert areas(axes)[1] == 0.0
    assert len(axes.get_lines()) == 2


def test_a_statistic_far_out_is_still_there():
    axes = plot_null(AsymptoticNull.normal(), 40.0)
    low, high = axes.get_xlim()
    assert low < 40.0 < high


@pytest.mark.parametrize(
    ("test", "options", "words"),
    [
        (3, {}, "test must be"),
        (AsymptoticNull.normal([1.0, 2.0]), {}, "several"),
        (TWO, {}, "one statistic"),
        (DIE, {"statistic": np.nan}, "statistic"),
        (DIE, {"statistic": np.inf}, "statistic"),
        (DIE, {"bins": 2}, "bins"),
        (DIE, {"alpha": 1.0}, "alpha"),
        (DIE, {"alternative": "both"}, "alternative"),
        (ExactNull(np.ones_like, np.ones_like), {}, "infinity"),
    ],
)
def test_what_cannot_be_drawn_is_refused(test, options, words):
    with pytest.raises(InvalidParameterError, match=words):
        plot_null(test, **options)
