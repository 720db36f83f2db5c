"""Intervals from replicates: what the source prints, identities, laws, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.intervals import from_long, replicate_confint

DATA = os.environ.get("DPINFER_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="DPINFER_DATA is not set")
METHODS = ["t", "normal", "bias-adjusted", "conditional", "percentile", "reflected"]
COUNTS = {"alpha": 0.1, "method": "conditional", "integer": True, "lower": 0}
alike = pytest.mark.filterwarnings("ignore:.*no width:dpinfer.errors.ApproximationWarning")

PRINTED = [
    ("H0040001", 1379, 0.68, 3.8807215823864536, 3.862641583165593, False, 1371, 1387),
    ("H0040002", 106, 0.28, 2.3544284515213714, 2.32379000772445, False, 101, 111),
    ("H0040003", 17, -2.80, 3.5707142142714248, 4.481071300481616, True, 10, 29),
    ("H0040004", 383, 1.88, 4.245782220824182, 4.565084884205331, False, 373, 393),
    ("PCT0080001", 665025, -1.48, 19.776079827225068, 19.432961688841978, False, 664985, 665065),
    ("PCT0080002", 663773, -11.08, 22.660391288174345, 24.813705890092276, False, 663722, 663824),
    ("PCT0080003", 744, 51.76, 23.880396423286893, 56.80281683156215, True, 577, 807),
    ("PCT0080021", 13, -1.28, 5.631163290120435, 5.663920903402518, False, 1, 25),
    ("PCT0080029", 0, 0, 0, 0, False, 0, 0),
    ("H0010001", 1313, 0, 0, 0, False, 1313, 1313),
    ("H0010002", 1220, -0.8, 5.454356057317859, 5.403702434442518, False, 1209, 1231),
    ("H0010003", 93, 0.8, 5.454356057317857, 5.403702434442518, False, 82, 104),
    ("P0010003", 3536, 0, 11.221259584675268, 10.994544101507802, False, 3513, 3559),
    ("P0010004", 187, 2.36, 5.992217174524524, 6.32771680782255, False, 174, 200),
    ("P0010005", 8, -0.56, 3.1235663378047, 3.111269837220809, False, 1, 15),
]
"""All that the notebook beside the data prints of each query."""

UNROUNDED = {
    "H0040003": (10.7704, 28.8296),
    "PCT0080002": (663722.9992, 663823.0008),
    "PCT0080003": (577.7796, 806.7004),
    "PCT0080021": (1.5869, 24.4131),
}


def census():
    """Return the published counts and their replicates, by the code of the query."""
    frame = pd.read_csv(Path(DATA, "amc_replicates", "jupyter_data.csv"))
    frame["QUERY"] = frame["QUERY"].str.partition(":")[0]
    return from_long(frame[["QUERY", "ITERATION", "COUNT"]])


def runs_of(bias, rmse, size=25):
    """Return errors that have this mean and root mean square exactly."""
    z = np.random.default_rng(1).normal(size=size)
    z = (z - z.mean()) / z.std()
    return bias + z * np.sqrt(rmse**2 - bias**2)


def some_runs(seed=0, shape=(25, 7)):
    """Return a published table and replicates."""
    rng = np.random.default_rng(seed)
    published = rng.poisson(30.0, shape[1:]).astype(float)
    return published, np.rint(published + rng.normal(1.0, 4.0, shape)).clip(0.0)


@needs_data
@alike
@pytest.mark.parametrize(
    ("query", "q0", "bias", "bse", "rmse", "adjusted", "lower", "upper"), PRINTED
)
def test_printed_intervals_are_reproduced(query, q0, bias, bse, rmse, adjusted, lower, upper):
    found = replicate_confint(*census(), **COUNTS)[query]
    assert (found.published, found.bias) == (q0, pytest.approx(bias, abs=1e-9))
    # the source sums squares of 665,025 in float64: by V = (M - B²)·25/24 it is 7e-13 off there
    assert found.bse == pytest.approx(bse, rel=1e-12)
    assert found.bse == pytest.approx(np.sqrt((rmse**2 - bias**2) * 25 / 24), rel=1e-13)
    assert found.rmse == pytest.approx(rmse, rel=1e-13)
    assert bool(found.adjusted) is adjusted
    assert found.estimate == pytest.approx(q0 - bias * adjusted, abs=1e-9)
    assert (found.lower, found.upper) == (lower, upper)


@needs_data
def test_every_query_of_the_data_is_printed():
    assert {query for query, *_ in PRINTED} == set(census()[0].index)


@needs_data
@alike
def test_ends_before_rounding():
    found = replicate_confint(*census(), alpha=0.1, method="conditional")
    for query, ends in UNROUNDED.items():
        assert tuple(found[query]) == pytest.approx(ends, abs=5e-5)
    ratio = np.abs(found.bias / found.bse)["PCT0080002"]
    assert round(ratio, 3) == 0.489


@needs_data
def test_no_width_is_certainty_of_invariants_only():
    with pytest.warns(ApproximationWarning, match=r"2 of the intervals .* up to 0\.113"):
        found = replicate_confint(*census())
    assert found.degenerate[found.degenerate].index.tolist() == ["PCT0080029", "H0010001"]
    with pytest.warns(ApproximationWarning, match="1 of the intervals"):
        found = replicate_confint(*census(), invariant="H0010001")
    assert found.degenerate[found.degenerate].index.tolist() == ["PCT0080029"]
    assert any("0.113" in note for note in found.notes)
    with pytest.raises(InvalidParameterError, match=r"no replicate changes, got 'H0040001'"):
        replicate_confint(*census(), invariant=["H0010001", "H0040001"])


@needs_data
def test_errors_of_parts_of_an_invariant_are_opposite():
    table, runs = census()
    parts = replicate_confint(table[["H0010002", "H0010003"]], runs.loc[["H0010002", "H0010003"]])
    assert np.square(parts.rmse).to_numpy() == pytest.approx([29.2, 29.2])
    whole = replicate_confint(
        table, runs, function=lambda x: x["H0010002"] + x["H0010003"], invariant=True
    )
    assert (whole.rmse, whole.lower, whole.upper) == (0.0, 1313.0, 1313.0)


@pytest.mark.parametrize(
    ("q0", "bias", "rmse", "lower", "upper"),
    [(16895, 0.0, 13.72, 16867, 16923), (121, -2.56, 5.78, 109, 133), (4, 0.0, 3.45, 0, 11)],
)
def test_intervals_printed_in_the_document(q0, bias, rmse, lower, upper):
    """Its table 4 prints published counts, root mean squared errors and a bias."""
    runs = q0 + runs_of(bias, rmse)
    found = replicate_confint(q0, runs, alpha=0.1, integer=True, lower=0)
    assert (found.lower, found.upper) == (lower, upper)
    ratio = abs(bias) / np.sqrt((rmse**2 - bias**2) * 25 / 24)
    assert ratio < 0.5
    assert found.bse == pytest.approx(np.sqrt((rmse**2 - bias**2) * 25 / 24))


@pytest.mark.parametrize("shape", [(25,), (2, 3), (11, 4, 5)])
def test_mean_squared_error_is_bias_squared_and_variance(shape):
    published, runs = some_runs(3, shape)
    found = replicate_confint(published, runs) if len(runs) > 9 else quietly(published, runs)
    size = shape[0]
    assert np.allclose(found.rmse**2, found.bias**2 + found.bse**2 * (size - 1) / size, rtol=1e-13)
    assert np.allclose(found.bse, np.std(runs, axis=0, ddof=1), rtol=1e-13)


def quietly(published, runs, **options):
    """Return intervals, which warn that there are few replicates."""
    with pytest.warns(ApproximationWarning, match=r"there are only \d replicates"):
        return replicate_confint(published, runs, **options)


def test_every_method_by_its_formula():
    published, runs = some_runs(4)
    bias, rmse = runs.mean(0) - published, np.sqrt(np.mean((runs - published) ** 2, axis=0))
    std = runs.std(axis=0, ddof=1)
    below, above = np.percentile(runs, [10, 90], axis=0)
    t, z = stats.t(5).ppf(0.9), stats.norm.ppf(0.9)
    rule = (published > 28) & (abs(bias) / std >= 0.2) & ((bias < 0) | (published >= 31))
    assert 0 < rule.sum() < rule.size
    moved = published - np.where(rule, bias, 0.0)
    by_hand = {
        "t": (published - t * rmse, published + t * rmse),
        "normal": (published - z * rmse, published + z * rmse),
        "bias-adjusted": (published - bias - t * rmse, published - bias + t * rmse),
        "conditional": (moved - t * rmse, moved + t * rmse),
        "percentile": (below, above),
        "reflected": (2 * published - above, 2 * published - below),
    }
    rules = {"min_count": 28, "min_ratio": 0.2, "min_count_positive": 31}
    for method, ends in by_hand.items():
        found = replicate_confint(published, runs, method=method, alpha=0.2, **rules)
        assert np.allclose(tuple(found), ends, rtol=1e-12)
        assert found.adjusted.tolist() == {
            "conditional": rule.tolist(),
            "bias-adjusted": [True] * 7,
        }.get(method, [False] * 7)
    for df, quantile in ((np.inf, z), ("exact", stats.t(25).ppf(0.9)), (1, stats.t(1).ppf(0.9))):
        found = replicate_confint(published, runs, df=df, alpha=0.2)
        assert np.allclose(found.upper, published + quantile * rmse, rtol=1e-12)


@pytest.mark.parametrize(
    ("q0", "bias", "adjusted"),
    [(25, 1, True), (24, 1, False), (24, -1, True), (6, -1, True), (5, -1, False)],
)
def test_rule_at_its_edges(q0, bias, adjusted):
    """Of these 17 replicates the standard deviation is 2: the ratio is 1/2 exactly."""
    runs = q0 + bias + np.array([2.0] * 8 + [-2.0] * 8 + [0.0])
    for ratio, expected in ((0.5, adjusted), (0.5000001, False)):
        found = replicate_confint(q0, runs, method="conditional", min_ratio=ratio)
        assert (found.bse, bool(found.adjusted)) == (2.0, expected)


def test_rule_without_variance():
    found = replicate_confint(40, [41] * 12, method="conditional")
    assert (bool(found.adjusted), bool(found.degenerate), found.bse) == (False, False, 0.0)
    with pytest.warns(ApproximationWarning, match="no width"):
        assert replicate_confint(40, [41] * 12, method="percentile").degenerate


@pytest.mark.parametrize(
    ("critical", "covered"),
    [(special.ndtri(0.95), 0.8875), (stats.t(5).ppf(0.95), 0.9452), (stats.t(25).ppf(0.95), 0.9)],
)
def test_coverage_if_replicates_had_the_law_of_the_error(critical, covered):
    """S·M/σ² is χ² with S degrees of freedom: the covered share is that of t with S."""
    assert stats.t(25).cdf(critical) * 2 - 1 == pytest.approx(covered, abs=5e-5)


def test_coverage_of_ideal_replicates_by_simulation():
    """Fails by accident with probability below 1e-7: 5.5 standard errors, and of a χ² test."""
    reps = 40_000
    rng = np.random.default_rng(5)
    truth = 1000.0
    published = rng.normal(truth, 3.0, reps)
    runs = published + rng.normal(0.0, 3.0, (25, reps))
    for options, covered in (
        ({"method": "normal"}, 0.8875),
        ({}, 0.9452),
        ({"df": "exact"}, 0.9),
        ({"df": np.inf}, 0.8875),
    ):
        found = replicate_confint(published, runs, alpha=0.1, **options)
        error = 5.5 * np.sqrt(covered * (1 - covered) / reps)
        assert found.contains(truth).mean() == pytest.approx(covered, abs=error)
    assert stats.kstest(25 * found.rmse**2 / 9.0, stats.chi2(25).cdf).pvalue > 1e-8
    percentiles = replicate_confint(published, runs, alpha=0.1, method="percentile")
    assert percentiles.contains(truth).mean() == pytest.approx(0.83, abs=0.015)


@pytest.mark.parametrize("method", METHODS)
def test_order_of_replicates_does_not_matter(method):
    published, runs = some_runs(6)
    one = replicate_confint(published, runs, method=method)
    other = replicate_confint(published, np.random.default_rng(1).permutation(runs), method=method)
    assert np.allclose(tuple(one), tuple(other), rtol=1e-13)


@pytest.mark.parametrize("method", ["t", "normal", "bias-adjusted", "percentile", "reflected"])
def test_a_constant_moves_intervals(method):
    published, runs = some_runs(7)
    one = replicate_confint(published, runs, method=method)
    other = replicate_confint(published + 64.0, runs + 64.0, method=method)
    assert np.allclose(np.asarray(one) + 64.0, np.asarray(other), rtol=1e-13)


def test_rounding_is_outwards_after_the_bound():
    runs = 2.0 + runs_of(0.0, 3.0)
    low, high = replicate_confint(2.0, runs, alpha=0.1)
    assert low < 0 < high % 1
    assert tuple(replicate_confint(2.0, runs, alpha=0.1, integer=True)) == (
        np.floor(low),
        np.ceil(high),
    )
    assert replicate_confint(2.0, runs, alpha=0.1, integer=True, lower=0.5).lower == 0.0
    inwards = replicate_confint(2.0, runs, alpha=0.1).restrict(integer=True, lower=0)
    assert tuple(inwards) == (0.0, np.floor(high))
    nothing = replicate_confint(2.0, runs, alpha=0.1, lower=1e6)
    assert nothing.empty
    assert tuple(nothing) == (np.inf, -np.inf)


def test_labels_are_aligned():
    labels = pd.Index(["a", "b", "c", "d"], name="place")
    published, runs = some_runs(8, (12, 4))
    table = pd.Series(published, labels)
    frame = pd.DataFrame(runs.T, labels)
    one = replicate_confint(table, frame.iloc[[2, 0, 3, 1]])
    other = replicate_confint(published, runs)
    assert np.array_equal(np.asarray(one), np.asarray(other))
    assert one.rmse.index.equals(labels)
    assert one["b"].bias == other.bias[1]
    with pytest.raises(InvalidParameterError, match="labels of published, but 'b' is not among"):
        replicate_confint(table, frame.drop(index="b"))
    with pytest.raises(InvalidParameterError, match="labels of replicates, but 'c' is not among"):
        replicate_confint(table.drop("c"), frame)
    with pytest.raises(InvalidParameterError, match="got 'a' twice"):
        replicate_confint(table, frame.iloc[[0, 0, 1, 2, 3]])
    frame.loc["c", 3] = np.nan
    with pytest.raises(InvalidParameterError, match="must not contain NaN, got one of 'c'"):
        replicate_confint(table, frame)
    with pytest.raises(InvalidParameterError, match="must have the levels of the labels"):
        replicate_confint(table, pd.concat({"x": frame.drop(columns=3)}))
    with pytest.raises(InvalidParameterError, match="published must have the labels of replicates"):
        replicate_confint(published, frame)


def test_functions_get_tables_in_the_form_of_the_published_one():
    published, runs = some_runs(9, (12, 2, 3))
    table = pd.DataFrame(published, index=["x", "y"], columns=list("abc"))

    def share(one):
        return one["a"] / one.sum(axis=1)

    def by_hand(one):
        return one[..., 0] / one.sum(axis=-1)

    found = replicate_confint(table, runs, function=share)
    other = replicate_confint(published, runs, function=by_hand)
    assert np.array_equal(np.asarray(found), np.asarray(other))
    assert found.lower.index.tolist() == ["x", "y"]
    stacked = table.stack()  # noqa: PD013
    frame = pd.DataFrame(runs.reshape(12, 6).T, index=stacked.index)
    assert np.array_equal(replicate_confint(table, frame, function=share).upper, found.upper)
    assert np.array_equal(
        replicate_confint(table, frame).upper, replicate_confint(stacked, frame).upper
    )
    scalar = replicate_confint(table, runs, function=lambda one: one.loc["x", "a"])
    assert np.ndim(scalar.lower) == 0
    assert scalar.bias == pytest.approx(runs[:, 0, 0].mean() - published[0, 0])
    with pytest.raises(InvalidParameterError, match="must have the shape and labels of function"):
        replicate_confint(
            published, runs, function=lambda one: one if one[0, 0] == published[0, 0] else one[0]
        )
    with pytest.raises(InvalidParameterError, match=r"function\(published\) must not contain NaN"):
        replicate_confint(published, runs, function=lambda _: np.nan)


def test_what_is_refused():
    published, runs = some_runs(10)
    with pytest.raises(InvalidParameterError, match="use 'bias-adjusted' or 't'"):
        replicate_confint(
            published, runs, function=lambda one: one[0] / one.sum(), method="conditional"
        )
    with pytest.raises(InvalidParameterError, match="replicates must be at least two, got 1"):
        replicate_confint(published, runs[:1])
    with pytest.raises(InvalidParameterError, match="one axis more than published"):
        replicate_confint(published, runs.T)
    with pytest.raises(InvalidParameterError, match="must not contain NaN"):
        replicate_confint(published, np.where(runs == runs[3, 2], np.nan, runs))
    for df in (0, 2.5, "free", -np.inf):
        with pytest.raises(InvalidParameterError, match="df must be"):
            replicate_confint(published, runs, df=df)


def test_published_run_among_the_replicates_is_told():
    published, runs = some_runs(11, (25, 20))
    both = np.concatenate([published[None], runs])
    with pytest.raises(InvalidParameterError, match="must not hold the published run"):
        replicate_confint(pd.Series(published), pd.DataFrame(both.T))
    with pytest.warns(ApproximationWarning, match="replicate 0 is like published in all values"):
        replicate_confint(published, both)
    replicate_confint(pd.Series(published), pd.DataFrame(runs.T))


def test_result_says_that_it_is_approximate():
    found = replicate_confint(*some_runs(12))
    assert (found.uncertainty, found.guarantee) == ("noise", "approximate")
    assert "approximate" in repr(found)
    assert "approximate" in found.summary()
    assert found.summary_frame().attrs["guarantee"] == "approximate"
    assert repr(found[:1]).endswith("level 0.95, t, approximate)")
    assert any("'t' covered 0.85 of counts of 5 to 10" in note for note in found.notes)


def test_long_tables():
    published, runs = some_runs(13, (3, 2))
    rows = [
        (label, run, value)
        for run, table in enumerate([published, *runs])
        for label, value in zip(("b", "a"), table, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["GEO", "RUN", "N"]).sample(frac=1.0, random_state=1)
    q0, replicates = from_long(frame, "RUN")
    assert q0["b"] == published[0]
    assert replicates.columns.tolist() == [1, 2, 3]
    assert np.array_equal(replicates.loc[["b", "a"]].to_numpy(), runs.T)
    single, one = from_long(frame.query("GEO == 'a'")[["RUN", "N"]], "RUN", 2)
    assert (single.item(), one.columns.tolist()) == (runs[1, 1], [0, 1, 3])
    for broken, match in (
        (frame[(frame.GEO == "b") | (frame.RUN != 2)], r"'a' is not there where RUN is 2"),
        (pd.concat([frame, frame.iloc[:1]]), "got two of"),
        (frame.assign(N=[np.nan] + [1.0] * 7), "column N of frame must not contain NaN"),
        (frame.assign(GEO=None), "label in each row"),
        (frame[frame.RUN > 0], "published must be one of the runs 1, 2, 3, got 0"),
        (frame.assign(M=1), "value must be the column of values, one of 'N', 'M'"),
        (frame.drop(columns="RUN"), "replicate must be one of the columns"),
    ):
        with pytest.raises(InvalidParameterError, match=match):
            from_long(broken, "RUN")
