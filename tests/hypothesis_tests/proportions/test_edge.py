"""The way into tests and intervals of one count: what it takes, and how short it is."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, Geometric, Laplace, WeightedSum

HOME = str(Path(dpi.__file__).parent)
LAPLACE, GEOMETRIC = Laplace(scale=2.0), Geometric(scale=2.0)
CALLS = {
    "laplace": lambda: dpi.proportions_ztest(34.21, 100, 0.255, mechanism=LAPLACE),
    "geometric": lambda: dpi.proportions_ztest(34, 100, 0.255, mechanism=GEOMETRIC),
}


def trip(call):
    """Files of the library's functions that are called, and those that the law is handed to."""
    visited, with_law = [], []

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOME):
            visited.append(name)
            given = frame.f_locals.values()  # at the start of a call its arguments
            if any(one is LAPLACE or one is GEOMETRIC for one in given):
                with_law.append(name)

    call()  # what is loaded and kept at first is no part of the way
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return visited, with_law


@pytest.mark.parametrize("law", CALLS)
def test_a_z_test_is_short(law):
    visited, with_law = trip(CALLS[law])
    assert len(visited) <= 60
    assert len(set(visited)) <= 12
    assert len(set(with_law)) <= 12


def test_the_first_z_test_loads_few_modules():
    script = """
import sys
import dpinfer as dpi
dpi.proportions_ztest(34.21, 100, 0.255, mechanism=dpi.Laplace(scale=2.0))
print(sum(name.split(".")[0] == "dpinfer" for name in sys.modules), "pandas" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, with_pandas = out.stdout.split()
    assert int(loaded) <= 80
    assert with_pandas == "False"


def release_of(values, law, **terms):
    cells = np.eye(len(values))
    return dpi.Release(values, workload=cells, mechanism=law, **terms)


class TestValuesThatCarryTheirLaw:
    COUNTS = (34.0, 20.0, 51.0)

    @pytest.mark.parametrize(
        ("function", "numbers"),
        [
            (dpi.proportions_ztest, {"nobs": [100, 90, 120], "value": 0.3}),
            (dpi.poisson_ztest, {"exposure": 10.0, "value": [3.0, 2.5, 4.0]}),
            (dpi.proportion_confint, {"nobs": 130}),
            (dpi.poisson_confint, {"exposure": [10.0, 9.0, 8.0]}),
        ],
        ids=lambda held: getattr(held, "__name__", ""),
    )
    def test_a_release_is_its_values_with_their_law(self, function, numbers):
        release = release_of(list(self.COUNTS), GEOMETRIC)
        carried = function(release, **numbers)
        plain = function(list(self.COUNTS), **numbers, mechanism=GEOMETRIC)
        for one, other in zip(carried, plain, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        with pytest.raises(InvalidParameterError, match="mechanism must be left out"):
            function(release, **numbers, mechanism=GEOMETRIC)

    @pytest.mark.parametrize("terms", [{"threshold": 10.0}, {"clamp": (0.0, 60.0)}])
    def test_selected_and_clamped_values_are_refused(self, terms):
        x = dpi.noisy(list(self.COUNTS), mechanism=GEOMETRIC, **terms)
        for call in (
            lambda: dpi.proportions_ztest(x, 100, 0.3),
            lambda: dpi.poisson_ztest(x, 10.0, 3.0),
            lambda: dpi.proportion_confint(x, 100),
            lambda: dpi.poisson_confint(x),
            lambda: dpi.proportions_ztest(30, x, 0.3, mechanism=GEOMETRIC),
        ):
            with pytest.raises(InvalidParameterError, match="use count_confint"):
                call()

    @pytest.mark.parametrize("method", ["plug-in", "asymptotic", "exact"])
    def test_independent_numbers_of_trials(self, method):
        nobs = dpi.noisy([103.0, 88.0, 120.0], mechanism=LAPLACE)
        got = dpi.proportions_ztest(
            list(self.COUNTS), nobs, 0.3, mechanism=GEOMETRIC, method=method
        )
        known = {"mechanism": GEOMETRIC, "nobs_mechanism": LAPLACE, "method": method}
        counts = list(self.COUNTS)
        plain = dpi.proportions_ztest(counts, np.array(nobs.values), 0.3, **known)
        np.testing.assert_array_equal(got.pvalue, plain.pvalue)

    @pytest.mark.parametrize("method", ["plug-in", "asymptotic", "exact"])
    def test_that_counts_are_summands_of_totals_is_known(self, method):
        """The total of a release is made of the count itself: its noise is in both."""
        x = dpi.noisy([34.0, 69.0, 3.0], mechanism=GEOMETRIC)
        part, total = x.take([0]), x.linear([[1.0, 1.0, 1.0]])
        got = dpi.proportions_ztest(part, total, 0.3, method=method)
        others = WeightedSum([1.0, 1.0], GEOMETRIC)
        known = {"mechanism": GEOMETRIC, "nobs_mechanism": others, "nobs_is_total": True}
        plain = dpi.proportions_ztest(34, 106, 0.3, **known, method=method)
        assert got.pvalue == pytest.approx([plain.pvalue], rel=1e-9)
        if method != "plug-in":
            chosen = {"method": method, "alpha": 0.1}
            lower, upper = dpi.proportion_confint(part, total, **chosen)
            expected = dpi.proportion_confint(34, 106, **known, **chosen)
            assert (lower, upper) == (pytest.approx(expected.lower), pytest.approx(expected.upper))
        with pytest.raises(InvalidParameterError, match="nobs_is_total must be left out"):
            dpi.proportions_ztest(part, total, 0.3, nobs_is_total=True)

    def test_other_dependence_is_refused(self):
        x = dpi.noisy([34.0, 69.0], mechanism=GEOMETRIC)
        difference = x.linear([[2.0, 1.0]])
        with pytest.raises(InvalidParameterError, match="share noise in another way"):
            dpi.proportions_ztest(x.take([0]), difference, 0.3)

    def test_a_fit_is_tested_with_the_law_of_its_errors(self):
        """Two counts and their total, combined: each estimate has the variance of the fit."""
        table = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        fit = dpi.combine(dpi.Release([31.0, 62.0, 99.0], workload=table, mechanism=LAPLACE))
        value = np.array([0.2, 0.3, 0.5])
        got = dpi.proportions_ztest(fit, 200, value, method="asymptotic")
        variance = 200 * value * (1.0 - value)
        z = (np.asarray(fit.params) - 200 * value) / np.sqrt(variance)
        np.testing.assert_allclose(got.statistic, z)
        critical = got.null_distribution.critical_value(0.05)
        np.testing.assert_allclose(
            critical / 1.959963984540054, np.sqrt(1.0 + np.asarray(fit.bse) ** 2 / variance)
        )
        lower, upper = dpi.proportion_confint(fit, 200)
        assert (np.asarray(lower) < np.asarray(fit.params) / 200).all()
        assert (np.asarray(fit.params) / 200 < np.asarray(upper)).all()

    def test_simultaneous_intervals_of_dependent_errors_have_bonferronis_level(self):
        table = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        fit = dpi.combine(dpi.Release([31.0, 62.0, 99.0], workload=table, mechanism=LAPLACE))
        together = dpi.proportion_confint(fit, 200, simultaneous=True)
        each = dpi.proportion_confint(fit, 200, alpha=0.05 / 3)
        np.testing.assert_array_equal(together.lower, each.lower)


@pytest.mark.parametrize(("theirs", "ours"), [("greater", "larger"), ("less", "smaller")])
def test_words_of_scipy_for_sides_are_understood(theirs, ours):
    for call in (
        lambda side: dpi.proportions_ztest(34, 100, 0.3, mechanism=GEOMETRIC, alternative=side),
        lambda side: dpi.poisson_ztest(34, 10, 3.0, mechanism=GEOMETRIC, alternative=side),
    ):
        assert call(theirs).pvalue == call(ours).pvalue
        assert call(theirs).alternative == ours
    interval = dpi.poisson_confint(34, 10, mechanism=GEOMETRIC, alternative=theirs)
    expected = dpi.poisson_confint(34, 10, mechanism=GEOMETRIC, alternative=ours)
    assert tuple(interval) == tuple(expected)


def test_labels_come_back():
    counts = pd.Series([34.0, 20.0], index=["a", "b"])
    for frame in (
        dpi.proportions_ztest(counts, 100, 0.3, mechanism=LAPLACE).summary_frame(),
        dpi.proportion_confint(counts, 100, mechanism=LAPLACE).summary_frame(),
        dpi.poisson_confint(counts, mechanism=LAPLACE).summary_frame(),
    ):
        assert list(frame.index) == ["a", "b"]


@pytest.mark.parametrize("nobs", [5, 12, 511])
@pytest.mark.parametrize("value", [0.3, 0.83])
def test_unbiased_pvalues_without_noise_by_enumeration(nobs, value):
    """P(g(X) <= g(x)) with g summed term by term; ties are those within 1e-9."""
    from scipy import stats

    x = np.arange(nobs + 1.0)
    pmf, mean = stats.binom.pmf(x, nobs, value), nobs * value
    terms = (x - mean) * pmf
    above, below = terms[::-1].cumsum()[::-1], -terms.cumsum()
    g = np.where(x > mean, above, below)
    expected = [pmf[g <= own * (1.0 + 1e-9)].sum() for own in g]
    counts = x[(x > mean - 6 * np.sqrt(mean)) & (x < mean + 6 * np.sqrt(mean))]
    got = dpi.proportions_ztest(counts, nobs, value, mechanism=Exact(), method="unbiased").pvalue
    np.testing.assert_allclose(got, np.array(expected)[counts.astype(int)], rtol=1e-9)
