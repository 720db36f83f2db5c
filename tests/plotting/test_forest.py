"""Forest plots draw the intervals of the results themselves."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, MissingExtraError
from dpinfer.plotting import plot_forest

pictures = importlib.import_module("pictures")
fit, hierarchy = pictures.fit, pictures.hierarchy


def intervals(axes):
    """Return the drawn ends by the colour of the line, in the order of the rows."""
    found = {}
    for line in axes.lines:
        x = np.asarray(line.get_xdata(), dtype=float)
        if len(x) == 2 and len(set(line.get_ydata())) == 1:
            found.setdefault(line.get_color(), []).append(x)
    return [np.array(ends) for ends in found.values()]


@pytest.mark.parametrize("method", ["exact", "asymptotic", "tail-bound"])
def test_intervals_before_and_after(method):
    combined = fit()
    before, after = intervals(plot_forest(combined, alpha=0.1, method=method))
    np.testing.assert_allclose(after, np.asarray(combined.conf_int(0.1, method)))
    release = combined.release
    own = dpi.count_confint(release.values, mechanism=release.mechanism, alpha=0.1, method=method)
    np.testing.assert_allclose(before, np.asarray(own))


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_intervals_of_a_hierarchy_are_beside_those_of_its_values(method):
    combined = hierarchy()
    before, after = intervals(plot_forest(combined, method=method, centred=False))
    np.testing.assert_allclose(after, np.asarray(combined.conf_int(method=method)))
    own = dpi.count_confint(combined.values, mechanism=combined.mechanism, method=method)
    np.testing.assert_allclose(before, np.asarray(own))


def test_cells_that_were_not_published_have_one_interval():
    combined = dpi.combine([4.0, 10.0], workload=[[1, 0], [1, 1]], mechanism=dpi.Laplace(scale=1.0))
    before, after = intervals(plot_forest(combined))
    assert (len(before), len(after)) == (2, 3)


def test_centred_intervals_are_differences_and_carry_their_estimates():
    combined = fit()
    axes = plot_forest(combined, centred=True)
    _, after = intervals(axes)
    params = np.asarray(combined.params)
    np.testing.assert_allclose(after, np.asarray(combined.conf_int()) - params[:, np.newaxis])
    assert axes.get_yticklabels()[0].get_text() == f"F   {params[0]:.2f}"
    assert "difference" in axes.get_xlabel()


def test_short_intervals_are_centred():
    far = dpi.count_confint([0.0, 1e6], mechanism=dpi.Laplace(scale=1.0))
    assert "difference" in plot_forest(far).get_xlabel()
    assert "difference" not in plot_forest(far, centred=False).get_xlabel()


def test_several_results_side_by_side():
    counts = pd.Series([4.0, 9.0], ["a", "b"])
    noise = dpi.Laplace(scale=1.0)
    results = {
        name: dpi.count_confint(counts, mechanism=noise, method=name)
        for name in ("tail-bound", "exact")
    }
    axes = plot_forest(results)
    for drawn, result in zip(intervals(axes), results.values(), strict=True):
        np.testing.assert_allclose(drawn, np.asarray(result))
    assert "\n95 % intervals\nerror covered: noise" in axes.get_xlabel()  # of two methods
    results["exact"] = dpi.count_confint([1.0, 2.0, 3.0], mechanism=noise)
    with pytest.raises(IncompatibleReleaseError, match="same values"):
        plot_forest(results)


def test_sets_that_are_not_intervals():
    noise = [dpi.Laplace(scale=1.0), dpi.Laplace(scale=1.0)]
    sets = dpi.ratio_confint([30.0, 2.0], [60.0, 0.5], mechanism=noise)
    assert list(sets.kind) != ["interval", "interval"]
    axes = plot_forest(sets, centred=False)
    low, high = axes.get_xlim()
    (drawn,) = intervals(axes)
    beyond = drawn[1:]
    assert (beyond.min(), beyond.max()) < (low, high)
    assert beyond.max() > high


def test_empty_intervals_have_no_line():
    none = dpi.count_confint([-50.0, 5.0], mechanism=dpi.Laplace(scale=1.0), lower=0.0)
    assert none.empty.tolist() == [True, False]
    (drawn,) = intervals(plot_forest(none, centred=False))
    assert len(drawn) == 1


def test_long_tables_say_how_much_is_shown():
    many = dpi.count_confint(np.arange(100.0), mechanism=dpi.Laplace(scale=1.0))
    axes = plot_forest(many, most=7)
    assert len(axes.get_yticks()) == 7
    assert axes.get_xlabel().endswith("the first 7 of 100 rows")


def test_labels_are_shown_letter_by_letter():
    labels = ["$\\frac{1}{0}$", "_x", "a\x00", "<b>"]
    hostile = dpi.count_confint(pd.Series([1.0, 2, 3, 4], labels), mechanism=dpi.Laplace(scale=1.0))
    axes = plot_forest({"_$": hostile})
    axes.figure.canvas.draw()
    assert axes.get_yticklabels()[0].get_text() == r"\$\frac{1}{0}\$"


@pytest.mark.parametrize(
    ("results", "options", "words"),
    [
        (3, {}, "results must be"),
        ({}, {}, "at least one"),
        ({"a": "b"}, {}, "results must be"),
        (pd.DataFrame({"estimate": []}), {}, "results must be"),
        (pd.DataFrame({"estimate": ["a"], "ci_lower": [1], "ci_upper": [2]}), {}, "hold numbers"),
        (fit(), {"most": 0}, "most must be"),
        (fit(), {"ax": 3}, "ax must be"),
        (fit(), {"alpha": 2}, "alpha"),
        (fit(), {"centred": "yes"}, "centred must be"),
        (dpi.count_confint(3.0, mechanism=dpi.Laplace(scale=1.0)), {"alpha": 0.1}, "level already"),
    ],
)
def test_what_cannot_be_drawn_is_refused(results, options, words):
    with pytest.raises(InvalidParameterError, match=words):
        plot_forest(results, **options)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[plot\]"):
        plot_forest(fit())


def test_a_table_without_level_is_drawn_as_it_is():
    frame = fit().summary_frame()
    frame.attrs = {}
    axes = plot_forest(frame)
    assert "intervals" not in axes.get_xlabel()
    assert len(intervals(axes)) == 1  # the published values have no intervals of their own


def test_whatever_carries_its_law_is_drawn_with_its_intervals():
    counts = pd.Series([14.2, 3.9, 31.0], index=list("abc"))
    law = dpi.Laplace(scale=2.0)
    release = dpi.Release(counts, mechanism=law, threshold=3.0)
    own = dpi.count_confint(counts, mechanism=law, threshold=3.0, alpha=0.1, lower=None)
    plain = dpi.noisy(counts, mechanism=law)
    posterior = dpi.count_posterior(plain, prior=dpi.priors.PoissonPrior(9.0))
    survey = dpi.survey_total(plain, sample_size=50, population_size=900)
    line = {"const": np.ones(4), "x1": np.arange(4.0)}
    fit = dpi.noisy_ols([1.0, 2.2, 2.9, 4.4], line, noise={"y": 0.1})
    for result, ends in (
        (release, own),
        (plain, dpi.count_confint(plain, alpha=0.1)),
        (posterior, posterior.interval(0.1)),
        (survey, survey.conf_int(0.1)),
        (fit, fit.conf_int(0.1)),
        (dpi.count_confint(plain), dpi.count_confint(plain)),
    ):
        level = {} if result.__class__.__name__ == "Intervals" else {"alpha": 0.1}
        axes = plot_forest(result, centred=False, **level)
        (drawn,) = intervals(axes)
        finite = np.isfinite(np.asarray(ends)).all(axis=1)
        np.testing.assert_allclose(drawn[finite], np.asarray(ends)[finite])
        labels = [text.get_text() for text in axes.get_yticklabels()]
        assert labels == list(map(str, ends.labels))
