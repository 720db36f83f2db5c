"""Frames of polars and pyarrow draw the pictures that those of pandas do."""

import importlib

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.plotting import plot_certificates, plot_coverage, plot_forest, plot_level_widths
from dpinfer.results import ConfidenceSets

pictures = importlib.import_module("pictures")


def drawn(axes):
    """Return all lines with their colours, and all texts."""
    lines = [np.array(line.get_xydata(), dtype=float) for line in axes.lines]
    bars = [np.concatenate(group.get_segments()) for group in axes.collections]
    texts = [label.get_text() for label in (*axes.get_yticklabels(), *axes.get_xticklabels())]
    legend = axes.get_legend()
    texts += [] if legend is None else [text.get_text() for text in legend.get_texts()]
    return lines, bars, [*texts, axes.get_xlabel(), axes.get_ylabel()]


def assert_same(axes, wanted):
    for found, other in zip(drawn(axes)[:2], drawn(wanted)[:2], strict=True):
        for one, two in zip(found, other, strict=True):
            np.testing.assert_allclose(one, two)
    assert drawn(axes)[2] == drawn(wanted)[2]


def test_forests(foreign):
    frame = pictures.fit().summary_frame()
    named = frame.rename_axis("cell")
    named.attrs = {}
    assert_same(plot_forest(foreign(named.reset_index())), plot_forest(named))
    both = {"one": named, "two": named + 1.0}
    given = {name: foreign(part.reset_index()) for name, part in both.items()}
    assert_same(plot_forest(given), plot_forest(both))


def test_forests_of_sets_know_their_kind(foreign):
    sets = ConfidenceSets(
        estimate=[1.0, 2.0],
        lower=[0.0, 1.0],
        upper=[2.0, 3.0],
        kind=["interval", "complement"],
        alpha=0.05,
        method="exact",
        uncertainty="noise",
        labels=pd.Index(["a", "b"], name="pair"),
    )
    frame = sets.summary_frame()
    frame.attrs = {}
    assert_same(plot_forest(foreign(frame.reset_index())), plot_forest(frame))


def test_coverage(foreign):
    frame = pd.DataFrame(
        {"exact": [0.951, 0.949, 0.95], "ignored": [0.7, 0.8, 0.9]},
        index=pd.Index([0.5, 1.0, 2.0], name="budget"),
    )
    wanted = plot_coverage(frame, nominal=0.95, reps=1000)
    columns = frame.reset_index()
    assert wanted.get_xlabel() == "budget"
    assert_same(plot_coverage(columns, nominal=0.95, reps=1000, x="budget"), wanted)
    assert_same(plot_coverage(foreign(columns), nominal=0.95, reps=1000, x="budget"), wanted)
    x = foreign(columns)["budget"]
    shares = {name: foreign(columns)[name] for name in frame}
    assert_same(plot_coverage(shares, nominal=0.95, reps=1000, x=x, x_label="budget"), wanted)


def test_certificates(foreign):
    frame = pictures.CERTIFICATES.summary_frame()
    assert_same(plot_certificates(foreign(frame)), plot_certificates(frame))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow.csv"])
def test_certificates_from_a_file(library, tmp_path):
    # an empty text in a CSV file is a missing one when it is read
    frame = pictures.CERTIFICATES.summary_frame()
    frame.to_csv(tmp_path / "found.csv", index=False)
    read = pytest.importorskip(library).read_csv(tmp_path / "found.csv")
    assert_same(plot_certificates(read), plot_certificates(frame))


def test_levels(foreign):
    fit = dpi.combine_hierarchy([20.0, 6.0, 8.0], [-1, 0, 0], mechanism=dpi.Gaussian(sigma=2.0))
    frame = pd.DataFrame({"before": [2.0, 2.0, 3.0], "level": ["country", "region", "region"]})
    given = foreign(frame)
    wanted = plot_level_widths({"before": frame["before"]}, frame["level"])
    assert_same(plot_level_widths({"before": given["before"]}, given["level"]), wanted)
    wanted = plot_level_widths(fit, frame["level"])
    assert_same(plot_level_widths(fit, given["level"]), wanted)


def test_what_is_no_table_of_intervals(foreign):
    frame = pictures.fit().summary_frame().reset_index()
    with pytest.raises(InvalidParameterError, match="results must be an estimate, intervals or"):
        plot_forest(foreign(frame)["estimate"])
    with pytest.raises(InvalidParameterError, match="alpha must be None for a table"):
        plot_forest(foreign(frame), alpha=0.1)
    with pytest.raises(InvalidParameterError, match="must hold at least one estimate"):
        plot_forest(foreign(frame.iloc[:0]))
    with pytest.raises(InvalidParameterError, match="certificates must be a Certificate"):
        plot_certificates(foreign(frame))
    with pytest.raises(InvalidParameterError, match="std_errors of a must hold numbers"):
        plot_level_widths({"a": foreign(frame.assign(text="b"))["text"]}, ["b"] * len(frame))


def test_certificates_without_anything_beside(foreign):
    frame = pictures.CERTIFICATES.summary_frame()
    short = frame.drop(columns=["beside", "beside_rate", "beside_width"])
    axes = plot_certificates(foreign(short))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["nominal", "certified"]
