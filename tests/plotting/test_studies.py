"""Coverages with their Monte Carlo errors, and widths by level, as they are computed elsewhere."""

import importlib

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.plotting import plot_audit, plot_certificates, plot_coverage, plot_level_widths

pictures = importlib.import_module("pictures")


def bars(container):
    """Return centres and ends of error bars."""
    line, _, (segments,) = container.lines
    return line.get_ydata(), [list(part.reshape(-1, 2)[:, 1]) for part in segments.get_segments()]


def test_coverages_have_exact_intervals():
    axes = plot_coverage(pictures.COVERAGE, nominal=0.95, reps=400)
    shares, ends = bars(axes.containers[1])
    np.testing.assert_allclose(shares, [0.62, 0.8, 0.94])
    for share, (low, high) in zip(shares, ends, strict=True):
        interval = stats.binomtest(round(400 * share), 400).proportion_ci(0.95, method="exact")
        assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert axes.get_xlabel() == "privacy budget ε"
    assert axes.get_legend().get_texts()[0].get_text() == "nominal, 0.95"


def test_settings_are_sorted_and_certain_shares_have_one_sided_bars():
    axes = plot_coverage({"a": [1.0, 0.5]}, nominal=0.9, reps=10, x=[2.0, 1.0])
    shares, ends = bars(axes.containers[0])
    np.testing.assert_array_equal(shares, [0.5, 1.0])
    assert ends[1][1] == 1.0
    assert plot_coverage({"a": [1.0]}, nominal=0.9, x=[1]).containers[0].lines[2] == ()


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ([0.9], {}, "coverage must be"),
        ({"a": [0.9]}, {}, "x ="),
        ({}, {"x": [1.0]}, "coverage must be"),
        ({"a": [1.1]}, {"x": [1.0]}, "coverage of a"),
        ({"a": [0.9, 0.8]}, {"x": [1.0]}, "entries"),
        ({"a": [0.9]}, {"x": ["low"]}, "x must"),
        ({"a": [0.9]}, {"x": [1.0], "nominal": 1.5}, "nominal"),
        ({"a": [0.9]}, {"x": [1.0], "reps": 0}, "reps"),
    ],
)
def test_coverages_that_cannot_be_drawn_are_refused(arguments, options, words):
    with pytest.raises(InvalidParameterError, match=words):
        plot_coverage(arguments, **{"nominal": 0.95, **options})


def test_widths_by_level_are_those_of_normal_intervals():
    fit = pictures.hierarchy()
    axes = plot_level_widths(fit, alpha=0.1)
    depth = np.asarray(fit.hierarchy.depth)
    width = np.asarray(fit.conf_int(0.1).width)
    own = 2 * stats.norm.isf(0.05) * np.asarray(fit.mechanism.std)
    for container, widths in zip(axes.containers, (own, width), strict=True):
        middle, ends = bars(container)
        for level in range(3):
            expected = np.percentile(widths[depth == level], [50, 5, 95])
            np.testing.assert_allclose([middle[level], *ends[level]], expected, rtol=1e-9)


def test_levels_have_names_in_the_order_of_their_depth():
    names = ["country", "region", "region"] + ["town"] * 6
    axes = plot_level_widths(pictures.hierarchy(), names)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["country", "region", "town"]


def test_missing_and_exact_units():
    errors = {"before": [0.0, np.nan, 2.0, np.inf], "after": pd.Series([0.0, 1.0, 1.0, 3.0])}
    axes = plot_level_widths(errors, ["top", "low", "low", "low"])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["top\n(exact)", "low"]
    before, _ = bars(axes.containers[0])
    assert before[1] == pytest.approx(4 * stats.norm.isf(0.025))


@pytest.mark.parametrize(
    ("errors", "levels", "words"),
    [
        (3, None, "std_errors must be"),
        ({"a": [1.0]}, None, "levels = None"),
        ({"a": [1.0]}, ["x", "y"], "entries"),
        ({"a": [-1.0]}, ["x"], ">= 0"),
        ({"a": ["b"]}, ["x"], "numbers"),
        ({"a": [1.0]}, "x", "levels must be"),
        (pictures.hierarchy(), ["x"], "entries"),
    ],
)
def test_widths_that_cannot_be_drawn_are_refused(errors, levels, words):
    with pytest.raises(InvalidParameterError, match=words):
        plot_level_widths(errors, levels)


def test_certificates_are_errors_in_multiples_of_alpha():
    axes = plot_certificates(pictures.CERTIFICATES)
    _, rates, beside = axes.get_lines()
    np.testing.assert_allclose(rates.get_xdata(), [0.98, 0.4, 1.0])
    np.testing.assert_allclose(beside.get_xdata(), [2.2, 1.4, np.nan])
    low, high = (1 - np.array(bound) for bound in pictures.CERTIFICATES[0].bounds()[::-1])
    drawn = [part[:, 0] for part in axes.collections[0].get_segments()]
    np.testing.assert_allclose(drawn[:2], np.stack([low, high], axis=1) / 0.05)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["exact interval, a", "exact interval, b", "exact test"]
    assert plot_certificates(pictures.CERTIFICATES, most=1).get_xlabel().endswith("1 of 3 rates")


@pytest.mark.parametrize("one", [3, None, pd.DataFrame({"rate": [1.0]})])
def test_what_is_no_certificate_is_refused(one):
    with pytest.raises(InvalidParameterError, match="certificates must be"):
        plot_certificates(one)


def test_audits():
    noise = [1.0, 4.0]
    found = [
        dpi.curation.audit_reconstruction(
            np.vstack([np.eye(3)] * 2), mechanism=dpi.Gaussian(sigma=s), reps=2, rng=1
        )
        for s in noise
    ]
    axes = plot_audit(found, x=noise, x_label="standard deviation")
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(lines["theory"].get_ydata(), [one.expected for one in found])
    assert set(lines) == {"attack", "theory", "guessing", "most"}
    with pytest.raises(InvalidParameterError, match="audit must be a DifferenceAudit"):
        plot_audit([found[0], 3.0], x=noise)
    with pytest.raises(InvalidParameterError, match="x must be given for 2 audits"):
        plot_audit(found)
