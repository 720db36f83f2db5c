"""The style: colours that stand out from white and from each other in grey, and plain axes."""

import sys
from itertools import combinations

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, MissingExtraError
from dpinfer.plotting import plot_forest

mpl = pytest.importorskip("matplotlib")
mpl.use("agg")


def study(tests):
    """Rejection rates of so many tests, one line each."""
    return dpi.calibration.SizeStudy(
        tests=tuple(f"test {number}" for number in range(tests)),
        alpha=np.array([0.05, 0.1]),
        rate=np.full((tests, 2), 0.05),
        reps=np.zeros(tests, dtype=int),
    )


@pytest.fixture(scope="module")
def lines():
    """The lines of twenty-five tests, and that to compare them with."""
    from matplotlib import pyplot

    axes = study(25).plot()
    yield [bars.lines[0] for bars in axes.containers], axes.get_lines()[-1]
    pyplot.close("all")


def luminance(line):
    """Relative luminance, as the Web Content Accessibility Guidelines 2.1 define it."""
    parts = mpl.colors.to_rgb(line.get_color())
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_stand_out_from_white(lines):
    tests, reference = lines
    for line in (*tests, reference):
        assert 1.05 / (luminance(line) + 0.05) > 3


def test_colours_differ_in_grey(lines):
    lightness = [116 * luminance(line) ** (1 / 3) - 16 for line in lines[0][:5]]
    for one, other in combinations(lightness, 2):
        assert abs(one - other) > 9
    assert abs(lightness[0] - lightness[1]) > 40


def test_twenty_five_lines_have_looks_of_their_own(lines):
    tests, _ = lines
    dashes = [str(line._unscaled_dash_pattern) for line in tests]
    colours = [line.get_color() for line in tests]
    markers = [line.get_marker() for line in tests]
    assert len(set(zip(colours, dashes, strict=True))) == 25
    assert len(set(zip(colours, markers, strict=True))) == 25
    for looks in (colours, dashes, markers):
        assert len(set(looks)) == len(set(looks[:5])) == 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$x$", r"\$x\$"),
        ("_hidden", " _hidden"),
        ("a\nb\x00", "a b\\x00"),
        ("x" * 99, "x" * 60 + "…"),
    ],
)
def test_texts_are_shown_letter_by_letter(text, shown):
    values = dpi.Release([3.0, 4.0], mechanism=dpi.Laplace(scale=1.0), labels=[text, "other"])
    axes = plot_forest(dpi.combine(values))
    assert shown in [label.get_text() for label in axes.get_yticklabels()]
    mpl.pyplot.close(axes.figure)


def test_axes_are_new_or_those_given():
    from matplotlib import pyplot

    new = study(1).plot()
    assert new.figure.get_size_inches().tolist() == [6.4, 4.2]
    _, given = pyplot.subplots()
    assert study(1).plot(given) is given
    for axes in (new, given):
        shown = {side for side, spine in axes.spines.items() if spine.get_visible()}
        assert shown == {"left", "bottom"}
        assert mpl.colors.same_color(axes.spines["left"].get_edgecolor(), "#222222")
        assert mpl.colors.same_color(axes.get_xgridlines()[0].get_color(), "#e6e6e6")
        assert axes.get_axisbelow() is True
    with pytest.raises(InvalidParameterError, match=r"ax must be matplotlib\.axes\.Axes or None"):
        study(1).plot(pyplot.figure())
    pyplot.close("all")


def test_a_legend_needs_two_things():
    fit = dpi.combine(dpi.Release([3.0, 4.0], mechanism=dpi.Laplace(scale=1.0)))
    one = plot_forest(dpi.count_confint([3.0, 4.0], mechanism=dpi.Laplace(scale=1.0)))
    two = plot_forest(fit)
    assert one.get_legend() is None
    assert len(two.get_legend().get_texts()) == 2
    mpl.pyplot.close("all")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[plot\]"):
        study(1).plot()
