"""Axes in the one style, and legends where there is something to tell apart."""

import sys

import pytest

from dpinfer._style import GRID, INK, add_legend, series, styled_axes
from dpinfer.errors import InvalidParameterError, MissingExtraError


@pytest.fixture
def pyplot():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_axes_are_new_or_those_given(pyplot):
    from matplotlib.colors import same_color

    new = styled_axes(size=(3.0, 2.0))
    assert new.figure.get_size_inches().tolist() == [3.0, 2.0]
    _, given = pyplot.subplots()
    assert styled_axes(given) is given
    for axes in (new, given):
        shown = {side for side, spine in axes.spines.items() if spine.get_visible()}
        assert shown == {"left", "bottom"}
        assert same_color(axes.spines["left"].get_edgecolor(), INK)
        assert same_color(axes.get_xgridlines()[0].get_color(), GRID)
        assert axes.get_axisbelow() is True
    with pytest.raises(InvalidParameterError, match=r"ax must be matplotlib\.axes\.Axes or None"):
        styled_axes(pyplot.figure())


def test_a_legend_needs_two_things(pyplot):
    axes = styled_axes()
    for place, (name, legend) in enumerate((("one", None), ("two", ["one", "two"]))):
        axes.plot([0, 1], [place, 1], label=name, **series(place))
        add_legend(axes, loc="lower right")
        found = axes.get_legend()
        assert (found and [text.get_text() for text in found.get_texts()]) == legend


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[plot\]"):
        styled_axes()
