"""Lines with bands over ordered labels, and maps."""

import sys

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, MissingExtraError
from dpinfer.plotting import plot_forest, plot_lorenz, plot_map, plot_series

NOISE = dpi.Laplace(scale=3.0)


def intervals(values, index, **options):
    """Return intervals of labelled values."""
    return dpi.count_confint(pd.Series(values, index=index), mechanism=NOISE, **options)


def bands(axes):
    """Return the lower and upper end of the band over each place, for each line."""
    found = []
    for area in axes.collections:
        if not hasattr(area, "get_paths") or not len(area.get_paths()):
            continue
        points = np.concatenate([path.vertices for path in area.get_paths()])
        ends = pd.DataFrame(points, columns=["x", "y"]).groupby("x")["y"]
        found.append(pd.DataFrame({"low": ends.min(), "high": ends.max()}))
    return found


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2024-01-01", periods=4, name="at"),
        pd.period_range("2024-01", periods=4, freq="M", name="at"),
        pd.Index([2001, 2003, 2004, 2010], name="at"),
        pd.CategoricalIndex(list("abcd"), categories=list("abcd"), ordered=True, name="at"),
    ],
    ids=["dates", "periods", "years", "categories"],
)
def test_lines_and_bands_are_at_the_estimates_and_ends(index):
    found = intervals([5.5, 1.25, 9.0, -2.0], index)[[2, 0, 3, 1]] if index.dtype != "int64" else (
        intervals([9.0, 5.5, -2.0, 1.25], index[[2, 0, 3, 1]])
    )  # fmt: skip
    axes = plot_series(found)
    line = axes.lines[0]
    assert line.get_ydata().tolist() == [5.5, 1.25, 9.0, -2.0]
    assert (np.diff(np.asarray(axes.convert_xunits(line.get_xdata()), dtype=float)) > 0).all()
    [band] = bands(axes)
    frame = found.summary_frame().sort_index()
    np.testing.assert_allclose(band["low"].to_numpy()[:4], frame["ci_lower"], rtol=1e-12)
    np.testing.assert_allclose(band["high"].to_numpy()[:4], frame["ci_upper"], rtol=1e-12)
    assert axes.get_xlabel().startswith("at\n95 % intervals, exact")


def test_other_levels_are_lines():
    index = pd.MultiIndex.from_product([["DE", "FR"], [1, 2, 3]], names=["country", "week"])
    found = intervals(np.arange(6.0), index)
    axes = plot_series(found)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["DE", "FR"]
    assert axes.lines[2].get_ydata().tolist() == [3, 4, 5]
    axes = plot_series({"one": found, "two": found}, most=3)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "one, DE",
        "one, FR",
        "two, DE",
    ]
    assert axes.get_xlabel().endswith("the first 3 of 4 lines")
    swapped = plot_series(found[:, 1], over="week")
    assert len(swapped.lines) == 4


@pytest.mark.parametrize(
    "labels", [["2024-03-01", "2024-01-31", "2024-02-29"], ["2024-03", "2024-01", "2024-02"]]
)
def test_dates_in_words_are_dates(labels):
    index = pd.MultiIndex.from_product([["DE", "FR"], labels], names=["country", "day"])
    axes = plot_series(intervals(np.arange(6.0), index))
    at, heights = axes.lines[0].get_data()
    expected = pd.to_datetime(sorted(labels), format="ISO8601").to_numpy()
    assert (np.asarray(at, dtype=expected.dtype) == expected).all()
    assert heights.tolist() == [1, 2, 0]
    assert axes.get_xlabel().startswith("day\n")
    with pytest.raises(InvalidParameterError, match=r"^results must have labels that are numbers"):
        plot_series(intervals([1.0, 2.0], ["2024-02-28", "2024-02-30"]))


def test_what_has_no_order_is_refused():
    index = pd.MultiIndex.from_product([["DE", "FR"], [1, 2]], names=["country", "week"])
    found = intervals(np.arange(4.0), index)
    with pytest.raises(InvalidParameterError, match=r"^over must be a level of numbers"):
        plot_series(found, over="country")
    with pytest.raises(InvalidParameterError, match=r"^over must be one of"):
        plot_series(found, over="year")
    with pytest.raises(InvalidParameterError, match=r"^results must have labels that are numbers"):
        plot_series(intervals([1.0, 2.0], ["a", "b"]))
    with pytest.raises(InvalidParameterError, match=r"^results must have each label once"):
        plot_series(pd.concat([intervals([1.0], [3]).summary_frame()] * 2))
    with pytest.raises(InvalidParameterError, match=r"^results must hold at least one"):
        plot_series({})
    with pytest.raises(InvalidParameterError, match=r"^most must be"):
        plot_series(found, most=13)


def test_bands_are_interrupted_and_leave_the_axes():
    found = intervals([5.0, -40.0, 6.0, 7.0], [1, 2, 3, 4]).restrict(lower=0)
    axes = plot_series(found)
    assert found.empty.tolist() == [False, True, False, False]
    [band] = [band for band in bands(axes) if len(band) > 1]
    assert 2 not in band.index
    ratio = dpi.ratio_confint(
        pd.Series([3.0, 4.0, 5.0], [1, 2, 3]), [0.5, 40, 30], mechanism=NOISE, method="asymptotic"
    )
    low, high = plot_series(ratio).get_ylim()
    assert np.isfinite([low, high]).all()
    assert high - low < 100


def test_arms_of_a_forest_may_be_unequal():
    found = dpi.proportion_confint(
        pd.Series([3.0, 40.0], ["a", "b"]), [40, 60], mechanism=NOISE, alpha=0.1
    )
    frame = found.summary_frame()
    arms = frame["estimate"] - frame["ci_lower"], frame["ci_upper"] - frame["estimate"]
    assert (np.abs(arms[0] - arms[1]) > 0.01).all()
    for centred in (False, True):
        axes = plot_forest(found, centred=centred)
        moved = frame["estimate"] if centred else 0.0
        lines = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
        points, spans = lines[0], [span for span in lines[1:] if span[0] != span[1]]
        np.testing.assert_allclose(points, frame["estimate"] - moved)
        ends = frame[["ci_lower", "ci_upper"]].sub(moved, axis=0)
        np.testing.assert_allclose(spans, ends)


def test_maps_without_geopandas_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "geopandas", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[map\]"):
        plot_map(None, intervals([1.0], ["a"]))


@pytest.fixture
def places():
    geopandas = pytest.importorskip("geopandas", reason="geopandas is not installed")
    from shapely.geometry import box

    ids = [f"0{i}" for i in range(4)]
    squares = [box(i, 0, i + 1, 1) for i in range(4)]
    return geopandas.GeoDataFrame({"GEOID": ids}, geometry=squares)


def test_maps_have_each_estimate_at_its_place(places):
    found = intervals([90.0, 2.0, 40.0, 500.0], ["02", "00", "01", "total"])
    axes = plot_map(places, found, on="GEOID")
    pale, coloured, hatched = axes.collections
    assert len(pale.get_paths()) == 1
    assert coloured.get_array().tolist() == [2, 40, 90]
    lefts = [path.vertices[:, 0].min() for path in coloured.get_paths()]
    assert lefts == [0, 1, 2]
    assert hatched.get_hatch() == "////"
    assert [path.vertices[:, 0].min() for path in hatched.get_paths()] == [0]
    assert axes.get_title() == (
        "1 of 4 places without an estimate; hatched: half-width above 0.5 of the estimate"
    )
    same = plot_map(places.set_index("GEOID"), found, unclear=np.inf)
    assert len(same.collections) == 2
    half = 0.5 * np.asarray(found.width)
    for shown, values in (("width", 2 * half), ("relative", half / [90, 2, 40, 500])):
        drawn = plot_map(places, found, on="GEOID", shown=shown).collections[1]
        np.testing.assert_allclose(drawn.get_array(), values[[1, 2, 0]])


def test_maps_refuse_what_does_not_fit(places):
    found = intervals([90.0], ["02"])
    with pytest.raises(InvalidParameterError, match=r"^geometries must be a GeoDataFrame"):
        plot_map(pd.DataFrame({"GEOID": ["02"]}), found, on="GEOID")
    with pytest.raises(InvalidParameterError, match=r"^on must be one of"):
        plot_map(places, found, on="geoid")
    with pytest.raises(InvalidParameterError, match=r"^results must have the labels of the places"):
        plot_map(places, found)
    with pytest.raises(InvalidParameterError, match=r"^geometries must hold each place once"):
        plot_map(places.assign(GEOID="02"), found, on="GEOID")
    with pytest.raises(InvalidParameterError, match=r"^results must have each label once"):
        plot_map(places, pd.concat([found.summary_frame()] * 2), on="GEOID")
    with pytest.raises(InvalidParameterError, match=r"^unclear must be"):
        plot_map(places, found, on="GEOID", unclear=0)
    with pytest.raises(InvalidParameterError, match=r"^shown must be one of"):
        plot_map(places, found, on="GEOID", shown="noise")


@pytest.mark.parametrize(
    ("labels", "pieces"),
    [
        (pd.date_range("2024-01-01", periods=9, freq="W-MON").delete([3, 5]), 3),
        (pd.period_range("2023-11", periods=7, freq="M").delete(2), 2),
        (pd.Index([2000, 2001, 2002, 2004, 2005]), 2),
        (pd.date_range("2024-01-01", periods=7, freq="MS"), 1),  # months are of 28 to 31 days
        (pd.Index([1990, 2000, 2010, 2020, 2021]), 1),  # which are no even row
        (pd.Index([3]), 1),
    ],
)
def test_lines_and_bands_end_where_labels_are_missing(labels, pieces):
    values = pd.Series(np.arange(len(labels)), labels)
    axes = plot_series(dpi.count_confint(values, mechanism=dpi.Geometric(scale=3.0)))
    estimate = axes.get_lines()[0].get_ydata()
    assert np.isnan(estimate).sum() == pieces - 1
    assert np.isfinite(estimate).sum() == len(labels)
    assert len(axes.collections[0].get_paths()) == pieces


def test_a_lorenz_curve_has_its_band_and_the_diagonal():
    counts = [90, 40, 22, 18, 5]
    band = dpi.functions.lorenz_bands(counts, total=175, mechanism=dpi.Geometric(scale=2.0), rng=1)
    axes = plot_lorenz(band)
    [area] = bands(axes)
    np.testing.assert_allclose(area["low"].iloc[1:], band.lower)
    np.testing.assert_allclose(area["high"].iloc[1:], band.upper)
    np.testing.assert_allclose(axes.lines[0].get_ydata()[1:], band.plug_in)
    assert axes.get_xlabel().startswith("share of cells")
    for wrong in (counts, dpi.functions.lorenz_bands([counts] * 2, mechanism=NOISE, rng=1)):
        with pytest.raises(InvalidParameterError, match="one area"):
            plot_lorenz(wrong)
