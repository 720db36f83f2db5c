"""The style: colours that stand out from white and from each other in grey."""

from itertools import combinations

import pytest

from dpinfer._style import COLOURS, DASHES, MARKERS, REFERENCE, marker, plain, series


def luminance(colour):
    """Relative luminance, as the Web Content Accessibility Guidelines 2.1 define it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def lightness(colour):
    return 116 * luminance(colour) ** (1 / 3) - 16


@pytest.mark.parametrize("colour", [*COLOURS, REFERENCE])
def test_colours_stand_out_from_white(colour):
    assert 1.05 / (luminance(colour) + 0.05) > 3


def test_colours_differ_in_grey():
    for one, other in combinations(COLOURS, 2):
        assert abs(lightness(one) - lightness(other)) > 9
    assert abs(lightness(COLOURS[0]) - lightness(COLOURS[1])) > 40


def test_twenty_five_lines_have_looks_of_their_own():
    looks = {(series(at)["color"], str(series(at)["linestyle"])) for at in range(25)}
    assert len(looks) == 25 == len(COLOURS) * len(DASHES)
    assert {marker(at)["marker"] for at in range(5)} == set(MARKERS)


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
    assert plain(text) == shown
