"""Releases by their labels: what is chosen, and sums with their exact laws."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms import Rounded

NOISE = dpi.Geometric(scale=2.0)
DAYS = pd.MultiIndex.from_product([["DE", "FR", "PL"], [1, 2], range(7)])
DAYS.names = ["country", "week", "day"]


def views(**details):
    values = pd.Series(np.arange(42.0) * 3, index=DAYS)
    return dpi.Release(values, mechanism=NOISE, **details)


RELEASE = views(neighbours="add-remove", guarantee={"epsilon": 0.5}, sensitivity=1.0, name="views")


@pytest.mark.parametrize(
    ("where", "levels", "wanted"),
    [
        (None, {"country": "FR"}, lambda c, w, d: c == "FR"),
        (None, {"country": ["FR", "DE"], "week": 2}, lambda c, w, d: c in ("FR", "DE") and w == 2),
        ({"country": "PL", "day": range(2, 4)}, {}, lambda c, w, d: c == "PL" and d in (2, 3)),
        ({"country": "PL"}, {"day": np.array([0, 6])}, lambda c, w, d: c == "PL" and d in (0, 6)),
        (slice(0, 20), {"week": pd.Series([2])}, lambda c, w, d: c == "DE" and w == 2),
    ],
)
def test_choose_by_levels(where, levels, wanted):
    found = RELEASE.select(where, **levels)
    expected = [row for row, label in enumerate(DAYS) if wanted(*label)]
    assert found.values.tolist() == RELEASE.values[expected].tolist()
    # as by Series.xs, without the levels of which one label was chosen
    given = {**(where if isinstance(where, dict) else {}), **levels}
    single = [name for name, label in given.items() if isinstance(label, (str, int))]
    assert found.labels.equals(DAYS[expected].droplevel(single))
    assert found.workload.shape == (len(expected), 42)
    assert (found.guarantee, found.neighbours, found.name) == (
        {"epsilon": 0.5},
        "add-remove",
        "views",
    )
    # the same noises, not new ones
    twice = RELEASE.__noisy__().beside(found.__noisy__())
    assert twice.cov()[expected[0], 42] == pytest.approx(NOISE.variance)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("week == 2", lambda c, w, d: w == 2),
        ("1 < week <= 2 and country in ['DE', 'PL']", lambda c, w, d: w == 2 and c != "FR"),
        ("not (country == 'DE' or day > 1)", lambda c, w, d: c != "DE" and d <= 1),
        ("day not in (0, 6) and week != 1", lambda c, w, d: d not in (0, 6) and w != 1),
        ("day > -1 and country >= 'FR'", lambda c, w, d: c >= "FR"),
        (
            lambda labels: (labels["day"] % 3 == 0) & (labels.week < 2),
            lambda c, w, d: d % 3 == 0 and w < 2,
        ),
    ],
)
def test_choose_by_a_condition_on_labels(condition, wanted):
    expected = [label for label in DAYS if wanted(*label)]
    assert RELEASE.where(condition).labels.to_list() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RELEASE.select(), "where must be given"),
        (lambda: RELEASE.select(planet="Mars"), "levels of the labels, 'country'.*got 'planet'"),
        (lambda: RELEASE.select(country="Mars"), "country must be one of 'DE'.*got 'Mars'"),
        (lambda: RELEASE.select(country=["DE", "Mars"]), "got 'Mars'"),
        (lambda: RELEASE.select(country=[]), "at least one value"),
        (lambda: RELEASE.select(country={}), "country must be one of"),
        (lambda: RELEASE.select(slice(0, 3), country="FR"), "at least one value"),
        (lambda: RELEASE.where("value > 10"), "got 'value'.*fix a list beforehand"),
        (lambda: RELEASE.where(lambda labels: labels["value"] > 3), "fix a list beforehand"),
        (lambda: RELEASE.where("week > 7"), r"at least one label, got 'week > 7'.*week: 1, 2;"),
        (lambda: RELEASE.where("country == 3"), r"labels that are country: 'DE', 'FR', 'PL'"),
        (lambda: RELEASE.where("(week and 1) == 1"), "join comparisons"),
        (lambda: RELEASE.where("(not week) == -2"), "join comparisons"),
        (lambda: RELEASE.where("not True and week == 1"), "join comparisons"),
        (lambda: RELEASE.where("country in 'DE'"), "between a level and a list"),
        (lambda: RELEASE.where("'DE' in country"), "between a level and a list"),
        (lambda: RELEASE.where("week is 1"), "made of comparisons"),
        (lambda: RELEASE.select(week=9), "week must be one of 1, 2, got 9"),
        (lambda: RELEASE.where("week >"), "condition must be one that"),
        (lambda: RELEASE.where("week > 'a'"), "condition must be one that"),
        (lambda: RELEASE.where("__import__('os').getcwd()"), "made of comparisons"),
        (lambda: RELEASE.where("country.upper == 1"), "made of comparisons"),
        (lambda: RELEASE.where("week"), "true or false"),
        (lambda: RELEASE.where("1 == 1"), "true or false"),
        (lambda: RELEASE.where(RELEASE.values > 3), "select takes masks"),
        (lambda: RELEASE.sum("planet"), "by must name levels"),
        (lambda: RELEASE.sum(over="planet"), "over must name levels"),
        (lambda: RELEASE.sum("week", over="day"), "not both"),
        (lambda: RELEASE.sum([("DE", 1, 0), ("DE", 1, 9)]), "by must hold labels such as"),
        (lambda: RELEASE.sum([("DE", 1, 0), ("DE", 1, 0)]), "each label once"),
        (lambda: RELEASE.sum([]), "at least one label"),
        (lambda: RELEASE.sum({}), "at least one label"),
        (lambda: RELEASE.sum(3), "by must be a level"),
        (lambda: RELEASE.sum(pd.DataFrame({"a": [1]})), "by must be a Series"),
        (lambda: RELEASE.sum({("DE", 1, 0): "x", "y": [("DE", 1, 0)]}), "got both"),
        (lambda: RELEASE.sum({("DE", 1, 0): None}), "at least one label into a group"),
        (lambda: RELEASE.sum({("DE", 1, 0): {}}), "labels themselves"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


@pytest.mark.parametrize(
    ("labels", "condition", "wanted"),
    [
        (pd.Index(["a", "b", "c"], dtype="string"), "not k == 'a'", [1, 2]),
        (pd.Index([1, None, 3], dtype="Int64"), "k == 1 or k == 3", [0, 2]),
        (pd.Index([1, None, 3], dtype="Int64"), "not 1 < k <= 3", [0, 1]),
        (pd.CategoricalIndex(["a", "b", "c"]), "k not in ['a']", [1, 2]),
        (pd.date_range("2020-01-01", periods=3), "k in ['2020-01-02']", [1]),
        (pd.date_range("2020-01-01", periods=3), "k > '2020-01-01'", [1, 2]),
        (pd.PeriodIndex(["2020Q1", "2020Q2", "2020Q3"], freq="Q"), "k in ['2020Q1']", [0]),
    ],
)
def test_conditions_on_levels_of_all_types(labels, condition, wanted):
    values = pd.Series([0.5, 1.5, 2.5], index=labels.rename("k"))
    release = dpi.Release(values, mechanism=dpi.Laplace(scale=1.0))
    assert release.where(condition).values.tolist() == [0.5 + at for at in wanted]


def test_levels_whose_names_are_no_words_stand_in_backticks():
    index = pd.MultiIndex.from_product(
        [["a `b`", "bus"], [1, 2]], names=["mode of transport", "class"]
    )
    release = dpi.Release(pd.Series([0.5, 1.5, 2.5, 3.5], index), mechanism=dpi.Laplace(scale=1.0))
    for condition, wanted in {
        "`mode of transport` == 'bus'": [2.5, 3.5],
        "`mode of transport` in ['a `b`'] and 2 == `class`": [1.5],
        '`class`<2 or"a `b`"==`mode of transport`': [0.5, 1.5, 2.5],
    }.items():
        assert release.where(condition).values.tolist() == wanted
    for condition, message in {
        "mode of transport == 'bus'": "invalid syntax; write `mode of transport` in backticks",
        "class == 1": "write `mode of transport` in backticks",
        "`Class` == 1": "levels of the labels, 'mode of transport', 'class', got 'Class' in",
        "`class == 1": "condition must be one that",
    }.items():
        with pytest.raises(InvalidParameterError, match=message):
            release.where(condition)


def test_dates_are_chosen_in_words_and_levels_have_names_of_their_own():
    days = pd.date_range("2020-01-01", periods=3, name="day")
    release = dpi.Release(pd.Series([0.5, 1.5, 2.5], days), mechanism=dpi.Laplace(scale=1.0))
    assert release.select(day="2020-01-02").values.tolist() == [1.5]
    assert release.select(day=["2020-01-02", days[2]]).values.tolist() == [1.5, 2.5]
    twice = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "x"])
    release = dpi.Release(pd.Series([0.5, 1.5], twice), mechanism=dpi.Laplace(scale=1.0))
    for call in (lambda: release.select(x="a"), lambda: release.sum("x")):
        with pytest.raises(InvalidParameterError, match="names of their own, got 'x', 'x'"):
            call()


def test_sums_have_the_exact_law():
    weeks = RELEASE.sum(["country", "week"])
    frame = RELEASE.to_frame()["value"].groupby(level=["country", "week"]).sum()
    assert weeks.labels.to_list() == frame.index.to_list()
    assert weeks.values.tolist() == frame.tolist()
    # seven geometric noises, convolved
    k = np.arange(-400, 401)
    one = NOISE.pmf(k)
    pmf = one
    for _ in range(6):
        pmf = np.convolve(pmf, one)[400:-400]
    law = weeks.noise(("FR", 2))
    assert repr(law).startswith("WeightedSum(7 × Geometric")
    np.testing.assert_allclose(law.pmf(k[360:441]), pmf[360:441], rtol=1e-8)
    tail = pmf[::-1].cumsum()[::-1]
    x = np.arange(61)
    np.testing.assert_allclose(law.sf(x - 1.0), tail[400 + x], rtol=1e-9)
    lower, upper = dpi.count_confint(weeks)
    assert ((upper - lower) == 2 * law.isf(0.025)).all()
    assert tail[400 + int(law.isf(0.025)) + 1] <= 0.025 < tail[400 + int(law.isf(0.025))]
    assert (weeks.guarantee, weeks.sensitivity) == ({"epsilon": 0.5}, None)


def test_every_way_to_name_groups():
    def same(found, wanted):
        assert found.values.tolist() == wanted.values.tolist()
        assert np.array_equal(found.weights.toarray(), wanted.weights.toarray())

    by_country = RELEASE.sum("country")
    same(by_country, RELEASE.sum(over=["week", "day"]))
    same(by_country, RELEASE.sum(["country"]))
    same(by_country, RELEASE.sum({label: label[0] for label in DAYS}))
    backwards = pd.Series([label[0] for label in DAYS], index=DAYS, name="country")[::-1]
    same(by_country, RELEASE.sum(backwards).select(by_country.labels))
    lists = {c: [label for label in DAYS if label[0] == c] for c in ("DE", "FR", "PL")}
    same(by_country, RELEASE.sum(lists))
    assert by_country.labels.equals(pd.Index(["DE", "FR", "PL"], name="country"))
    some = RELEASE.sum({label: label[0] if label[0] != "FR" else None for label in DAYS[:30]})
    assert some.labels.to_list() == ["DE", "PL"]
    assert some.values.tolist() == [RELEASE.values[:14].sum(), RELEASE.values[28:30].sum()]
    one = RELEASE.sum([("DE", 1, 0), ("PL", 2, 6)])
    assert one.labels is None
    assert one.values.tolist() == [123.0]
    assert RELEASE.sum().values.tolist() == [RELEASE.values.sum()]
    assert RELEASE.sum(over=["country", "week", "day"]).values.tolist() == [RELEASE.values.sum()]
    plain = dpi.Release([1.5, 2.5, 4.25], mechanism=dpi.Laplace(scale=1.0))
    assert plain.sum([0, 2]).values.tolist() == [5.75]
    assert plain.sum({"a": [0, 1], "b": [1, 2]}).values.tolist() == [4.0, 6.75]


def test_sums_know_how_they_depend():
    """Overlapping sums, and sums beside the values: by dense algebra, and by the law of each."""
    noise = dpi.Laplace(scale=np.arange(1.0, 7.0))
    labels = list("abcdef")
    release = dpi.Release(np.linspace(10.25, 90.75, 6), mechanism=noise, labels=labels)
    sums = release.sum({"x": ["a", "b", "c"], "y": ["c", "d"], "z": ["e"]})
    matrix = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0.0]])
    joint = sums.__noisy__().beside(release.__noisy__())
    weights = np.vstack([matrix, np.eye(6)])
    np.testing.assert_allclose(joint.cov(), weights @ np.diag(noise.variance) @ weights.T)
    np.testing.assert_allclose(sums.variance, matrix @ noise.variance)
    share = dpi.share_confint(release.sum(["a"]), total=release.sum(["a", "b", "c"]))
    direct = dpi.linear_ratio_confint(release, {"a": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0})
    np.testing.assert_allclose(share.lower, [direct.lower], rtol=1e-9)
    np.testing.assert_allclose(share.upper, [direct.upper], rtol=1e-9)
    again = pickle.loads(pickle.dumps(sums))
    assert np.array_equal(again.weights.toarray(), matrix)
    twice = sums.select(["x", "z"]).sum()
    assert twice.values == pytest.approx(release.values[[0, 1, 2, 4]].sum())
    assert twice.noise(0).variance == pytest.approx(noise.variance[[0, 1, 2, 4]].sum())
    with pytest.raises(InvalidParameterError, match="got 'x' and 'y', which count the same"):
        sums.sum()


def test_sums_of_a_release_can_be_combined():
    """What is estimated from sums is what the same queries give, by least squares on the values."""
    rng = np.random.default_rng(5)
    release = dpi.Release(
        rng.normal(100, 10, 6).round(3), mechanism=dpi.Laplace(scale=2.0), labels=list("abcdef")
    )
    sums = release.sum({"all": list("abcdef"), "left": list("abc"), "right": list("def")})
    fit = dpi.combine(sums, target=[[1, 1, 1, 0, 0, 0]])
    assert float(fit.params[0]) == pytest.approx(release.values[:3].sum())
    assert float(fit.bse[0]) == pytest.approx(np.sqrt(3 * 8.0))


def test_a_table_and_its_totals_are_not_added_up():
    cells = pd.Series(
        [10.25, 20.25, 30.25, 40.25],
        index=pd.MultiIndex.from_product([["F", "M"], ["old", "young"]], names=["sex", "age"]),
    )
    by_sex = cells.groupby("sex").sum() + 0.5
    release = dpi.Release.from_tables([cells, by_sex], mechanism=dpi.Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match=r"count each cell once, got \('F', 'old'"):
        release.sum("sex")
    with pytest.raises(InvalidParameterError, match="choose one table"):
        release.sum()
    found = release.where("age != '*'").sum("sex")
    assert found.values.tolist() == [30.5, 70.5]
    assert found.workload.domain == release.domain
    assert found.workload.matrix.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert release.select(age="*").sum().values.tolist() == [102.0]
    with pytest.raises(InvalidParameterError, match="leave out what sums over a level"):
        dpi.Release.from_tables(
            [pd.Series([1.5, 2.5], index=pd.Index([18, 19], name="age")), 5.0],
            mechanism=dpi.Laplace(scale=1.0),
        ).where("age > 18")
    # queries that are no counts may overlap
    haar = dpi.Release([3.5, 1.5], workload=[[1, 1], [1, -1]], mechanism=dpi.Laplace(scale=1.0))
    assert haar.sum().workload.matrix.tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"threshold": -5}, "selected by a threshold"),
        ({"clamp": (0, None)}, "were clamped"),
        ({"bin_size": 3}, "rounded up before the noise"),
    ],
)
def test_no_sums_of_values_with_a_rule(rule, message):
    release = views(**rule)
    with pytest.raises(InvalidParameterError, match=message):
        release.sum("week")
    assert release.select(country="DE").has_rule.all()


def test_rounded_noise_adds_up():
    """The law of rounded noise is one of its own, and so is that of its sums."""
    law = Rounded(dpi.Laplace(scale=1.5))
    release = dpi.Release([3, 5, 9], mechanism=law)
    total = release.sum().noise(0)
    k = np.arange(-60, 61)
    pmf = np.convolve(np.convolve(law.pmf(k), law.pmf(k))[60:-60], law.pmf(k))[60:-60]
    np.testing.assert_allclose(total.pmf(k[40:81]), pmf[40:81], rtol=1e-8)


def test_sums_by_simulation():
    """Coverage of 4,000 intervals of sums; by accident outside with chance 1e-7."""
    rng = np.random.default_rng(11)
    truth = np.arange(42) * 3
    noise = NOISE.rvs((1000, 42), rng=rng)
    weeks = RELEASE.sum("country")
    half = float(weeks.noise("DE").isf(0.025))
    matrix = weeks.weights.toarray()
    errors = np.abs((truth + noise) @ matrix.T - truth @ matrix.T)
    level = 1 - 2 * float(weeks.noise("DE").sf(half))
    count = int((errors <= half).sum())
    assert abs(count - 3000 * level) < 5.4 * np.sqrt(3000 * level * (1 - level))


def test_many_blocks_to_districts():
    blocks = 100_000
    rng = np.random.default_rng(3)
    labels = pd.Index([f"b{number}" for number in range(blocks)])
    district = pd.Series(rng.integers(0, 435, blocks), index=labels, name="district")
    release = dpi.Release(
        pd.Series(rng.poisson(40, blocks) + NOISE.rvs(blocks, rng=rng), index=labels),
        mechanism=NOISE,
    )
    found = release.sum(district)
    wanted = pd.Series(release.values, index=labels).groupby(district).sum()
    assert len(found) == 435
    assert (pd.Series(found.values, index=found.labels).sort_index() == wanted).all()
    few = dpi.count_confint(found.select(found.labels[:5]))
    assert (few.width > 0).all()


def test_one_label_of_each_level_keeps_them():
    one = RELEASE.select(country="FR", week=1, day=3)
    assert one.labels.to_list() == [("FR", 1, 3)]
    other = RELEASE.select(country="DE", week=1, day=3)
    # one value each, by position
    sets = dpi.ratio_confint(one, other)
    assert (sets.labels, sets.estimate) == (None, one.values[0] / other.values[0])
    assert dpi.counts_2indep(one, other).statistic.shape == ()
    unit = pd.MultiIndex.from_product([["all", "a", "b"], ["old", "young"]], names=["area", "age"])
    table = dpi.Release(pd.Series(np.arange(6.0), index=unit), mechanism=NOISE)
    tree = {"all": None, "a": "all", "b": "all"}
    found = dpi.combine_hierarchy(table.select(age="old"), tree)
    assert found.params.index.to_list() == ["all", "a", "b"]
    with pytest.raises(InvalidParameterError, match=r"keep that .* by release\.sum\('area'\)"):
        dpi.combine_hierarchy(table, tree)


def test_sums_that_share_values_are_not_independent():
    parts = [RELEASE, RELEASE.sum("country"), RELEASE.sum("week"), RELEASE.select(day=1)]
    for one, other in itertools.combinations(parts, 2):
        assert not one.__noisy__().apart_from(other.__noisy__())
    with pytest.raises(InvalidParameterError, match="independent"):
        dpi.combine_hierarchy(
            RELEASE.sum([DAYS[0], DAYS[1]]).__noisy__().beside(RELEASE.sum([DAYS[0]]).__noisy__()),
            [-1, -1],
        )


def test_unpublished_days_are_refused_or_left_out():
    """A week of which a day is missing: the sum is of those that are there."""
    part = RELEASE.select(country="DE").where("not (week == 2 and day > 4)").sum("week")
    assert part.workload.matrix.sum(axis=1).tolist() == [7, 5]
    with pytest.raises(NotEstimableError):
        dpi.combine(part, target=np.eye(42)[:1])


def test_sums_by_a_series_and_levels():
    blocks = pd.MultiIndex.from_product([list("abcd"), ["F", "M"]], names=["block", "sex"])
    values = pd.Series(np.arange(8.0) * 3 + 0.5, index=blocks)
    release = dpi.Release(values, mechanism=dpi.Laplace(scale=1.0))
    district = pd.Series({"a": "N", "b": "N", "c": "S"}, name="district").rename_axis("block")
    of_each = district.reindex(blocks.get_level_values("block")).to_numpy(dtype=object)
    expected = values.groupby([of_each, blocks.get_level_values("sex")]).sum()
    fit = dpi.combine(release)
    for by in ([district, "sex"], [of_each, "sex"]):
        sums = release.sum(by)
        np.testing.assert_allclose(sums.values, expected)
        np.testing.assert_allclose(
            dpi.noisy(sums).std, np.sqrt([2, 2, 1, 1]) * dpi.Laplace(scale=1.0).std
        )
        np.testing.assert_allclose(fit.sum(by).params, expected)
    assert sums.labels.names == ["group_0", "sex"]
    assert release.sum([district, "sex"]).labels.names == ["district", "sex"]
    shares = fit.ratio(fit.sum([district, "sex"]), fit.sum([district])).params
    np.testing.assert_allclose(shares, expected / expected.groupby(level=0).transform("sum"))


def test_refused_series_beside_levels():
    blocks = pd.MultiIndex.from_product([list("ab"), ["F", "M"]], names=["block", "sex"])
    release = dpi.Release(
        pd.Series(np.arange(4.0) + 0.5, index=blocks), mechanism=dpi.Laplace(scale=1.0)
    )
    district = pd.Series({"a": "N", "b": "S"}, name="district")
    for by, words in (
        ([district, "sex"], "rename_axis"),
        ([district.rename_axis("block"), "age"], "name levels"),
        ([district.rename_axis("block").rename("sex"), "sex"], "different names"),
        ([np.array(["N", "S"]), "sex"], "each of the 4 values"),
        ([pd.Series({"z": 1}).rename_axis("block"), "sex"], "such as 'a'"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            release.sum(by)
