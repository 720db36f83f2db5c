"""Results go into the functions of statsmodels as they are."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.contingency_tables import Table, Table2x2
from statsmodels.stats.multitest import multipletests

import dpinfer as dpi

BEFORE = pd.Series([60, 40, 30, 95], index=pd.Index(["a", "b", "c", "d"], name="town"))
AFTER = pd.Series([40, 38, 31, 110], index=BEFORE.index)
SEX = pd.Index(["F", "M"], name="sex")
VOTE = pd.Index(["no", "yes"], name="vote")
TABLE = pd.DataFrame([[402.3, 598.1], [549.8, 303.2]], index=SEX, columns=VOTE)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("holm", "holm"), ("bonferroni", "bonferroni"), ("fdr_bh", "fdr_bh")]
)
def test_the_p_values_of_a_noisy_table_feed_multipletests(ours, theirs):
    result = dpi.counts_2indep(BEFORE, AFTER, mechanism=dpi.Geometric(scale=3.0))
    reject, adjusted, _, _ = multipletests(result.pvalue, alpha=0.1, method=theirs)
    own = dpi.adjust_pvalues(result, alpha=0.1, method=ours)
    np.testing.assert_allclose(own.pvalue_adjusted, adjusted, rtol=1e-12)
    np.testing.assert_array_equal(own.reject, reject)
    assert own.pvalue_adjusted.index.equals(BEFORE.index)


def test_the_rows_of_a_release_feed_multipletests():
    release = dpi.Release(BEFORE - AFTER, mechanism=dpi.Geometric(scale=3.0))
    tests = dpi.adjust_pvalues(dpi.linear_ztest(release), method="holm")
    reject, adjusted, _, _ = multipletests(tests.summary_frame()["pvalue"], method="holm")
    np.testing.assert_array_equal(tests.reject, reject)
    np.testing.assert_allclose(tests.pvalue_adjusted, adjusted, rtol=1e-12)


def test_an_estimated_table_is_a_table_of_statsmodels():
    cells = TABLE.stack()  # noqa: PD013
    release = dpi.Release.from_tables(
        [cells, cells.groupby("sex").sum() * 1.01, cells.sum() + 1.5],
        mechanism=[dpi.Laplace(scale=2.0), dpi.Laplace(scale=1.0), dpi.Exact()],
    )
    params = dpi.combine(release).params
    estimate = pd.DataFrame(params.to_numpy()[:4].reshape(2, 2), SEX, VOTE)
    # a square table of statsmodels gives a DataFrame the same labels on both sides: pass values
    table = Table2x2(estimate.to_numpy())
    assert table.table.sum() == pytest.approx(cells.sum() + 1.5)  # the exact total is kept
    np.testing.assert_allclose(
        Table(estimate).fittedvalues.to_numpy().sum(), estimate.to_numpy().sum()
    )
    odds = estimate.iloc[0, 0] * estimate.iloc[1, 1] / np.prod(np.diag(estimate.iloc[::-1]))
    assert table.oddsratio == pytest.approx(odds)


@pytest.mark.parametrize("sigma", [1e-6, 30.0])
def test_statsmodels_does_not_know_of_the_noise(sigma):
    noise = dpi.Gaussian(sigma=sigma)
    result = dpi.chi2_contingency(TABLE.round(), mechanism=noise, rng=1)
    theirs = Table(result.estimated_freq, shift_zeros=False).test_nominal_association()
    if sigma < 1:
        # without noise both are Pearson's statistic, and the fitted tables agree
        assert result.statistic == pytest.approx(theirs.statistic, rel=1e-6)
        fitted = Table(TABLE.round()).fittedvalues
        np.testing.assert_allclose(result.expected_freq, fitted, rtol=1e-6)
    else:
        assert result.pvalue > 1e3 * theirs.pvalue


def test_an_interval_of_statsmodels_is_too_short_for_a_noisy_table():
    noise = dpi.Gaussian(sigma=30.0)
    ours = dpi.odds_ratio_confint(TABLE, mechanism=noise)
    table = Table2x2(TABLE.to_numpy())
    assert ours.estimate == pytest.approx(table.oddsratio)
    # theirs holds the sampling error only and covers no noise, so that it stays as it is when the
    # noise grows; ours grows with it
    low, high = table.oddsratio_confint()
    assert ours.upper - ours.lower > high - low
    exact = dpi.odds_ratio_confint(TABLE, mechanism=dpi.Gaussian(sigma=1e-6))
    assert exact.upper - exact.lower < high - low
