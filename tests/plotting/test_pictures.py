"""Pictures look as they did, and have what a reader needs: named axes, and no other settings."""

import importlib

import matplotlib as mpl
import pytest
from matplotlib import pyplot

PICTURES = importlib.import_module("pictures").PICTURES
rendering = importlib.import_module("rendering")

TOLERANCE = 0.02
"""Share of the ink: rounding in the stored files is up to 0.01, a line or bar is 0.02 to 0.9."""


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_look_as_they_did(name):
    grey = rendering.render(PICTURES[name])
    assert rendering.difference(grey, rendering.stored(name)) < TOLERANCE


@pytest.mark.parametrize("name", ["forest", "trade_off", "ledger", "power"])
def test_the_comparison_sees_what_is_missing(name):
    def without(axes):
        axes = PICTURES[name](axes)
        (axes.patches or axes.lines)[-1].remove()
        return axes

    changed = rendering.render(without)
    assert rendering.difference(changed, rendering.stored(name)) > TOLERANCE


def test_every_baseline_has_its_picture():
    assert {path.stem for path in rendering.BASELINES.glob("*.png")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_axes_are_named_and_settings_left_alone(name):
    before = dict(mpl.rcParams)
    pyplot.close("all")
    figure, given = pyplot.subplots()
    axes = PICTURES[name](given)
    assert axes is given
    assert pyplot.get_fignums() == [figure.number]
    assert dict(mpl.rcParams) == before
    if name != "allocation":  # whose rows and columns carry names
        assert axes.get_xlabel()
        assert axes.get_ylabel() or all(text.get_text() for text in axes.get_yticklabels())
    assert not axes.spines["top"].get_visible()
    looks = {look_of(handle) for handle in axes.get_legend_handles_labels()[0]}
    assert len(looks) == len(axes.get_legend_handles_labels()[1])


def look_of(handle):
    """Return what tells a line or a bar from others without its colour, or the grey of a bar."""
    line = handle.lines[0] if hasattr(handle, "lines") else handle
    if hasattr(line, "get_marker"):
        dashes = str(line._unscaled_dash_pattern)  # get_linestyle() says no more than "--"
        return dashes, line.get_marker(), line.get_linewidth()
    return tuple(line.patches[0].get_facecolor())


def test_new_figures_leave_room_for_their_letters():
    assert PICTURES["forest"](None).figure.get_layout_engine() is not None
