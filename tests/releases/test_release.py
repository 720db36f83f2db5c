import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.queries import Domain, Workload
from dpinfer.releases import Release

NOISE = Laplace(scale=2.0)


def test_values_and_defaults():
    release = Release([3, 5.5], mechanism=NOISE)
    assert release.values.tolist() == [3, 5.5]
    assert release.workload.is_identity
    assert release.labels is None
    assert release.domain is None
    assert release.variance.tolist() == [8, 8]
    assert len(release) == 2
    for field in ("neighbours", "sensitivity", "guarantee", "threshold", "clamp", "name"):
        assert getattr(release, field) is None
    assert repr(release) == "Release(2 values, 2 cells, Laplace(scale=2.0))"


def test_matrix_form():
    release = Release(
        [1, 2, 3],
        workload=[[1, 0], [0, 1], [1, 1]],
        mechanism=[Geometric(scale=1.0), Geometric(scale=2.0), Exact()],
        labels=["a", "b", "total"],
        neighbours="replace",
        sensitivity={"l1": 2, "l2": 2**0.5},
        guarantee={"epsilon": 1, "delta": 1e-6},
        name="small",
    )
    assert release.labels.to_list() == ["a", "b", "total"]
    assert release.workload.shape == (3, 2)
    assert release.variance[2] == 0
    assert release.sensitivity == {"l1": 2, "l2": 2**0.5}
    assert release.guarantee == {"epsilon": 1, "delta": 1e-6}
    assert release.name == "small"
    assert "'small'" in repr(release)


def test_labels_come_from_series_and_frames():
    series = pd.Series([1.0, 2], index=pd.Index(["a", "b"], name="group"))
    for values in (series, series.to_frame()):
        labels = Release(values, mechanism=NOISE).labels
        pd.testing.assert_index_equal(labels, series.index)
    assert Release(pd.Series([1.0, 2]), mechanism=NOISE).labels is None
    frame = pd.DataFrame([[1.0, 2], [3, 4]], index=["r", "s"], columns=["x", "y"])
    release = Release(frame.rename_axis(index="row", columns="column"), mechanism=NOISE)
    assert release.values.tolist() == [1, 2, 3, 4]
    assert release.labels.to_list() == [("r", "x"), ("r", "y"), ("s", "x"), ("s", "y")]
    assert list(release.labels.names) == ["row", "column"]
    workload = Workload([[1, 0], [0, 1]], labels=["u", "v"])
    assert Release([1, 2], workload=workload, mechanism=NOISE).labels.to_list() == ["u", "v"]
    assert Release(series, workload=workload, mechanism=NOISE).labels.to_list() == ["a", "b"]


def test_a_release_is_immutable():
    values = np.array([1.0, 2])
    release = Release(values, mechanism=NOISE, guarantee={"epsilon": 1}, threshold=[0, 1])
    values[0] = 9
    assert release.values[0] == 1
    for array in (release.values, release.threshold):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    with pytest.raises(AttributeError):
        release.values = values
    with pytest.raises(TypeError):
        release.guarantee["epsilon"] = 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"values": []}, InvalidParameterError, "values must hold at least one value"),
        ({"values": [1, np.nan]}, InvalidParameterError, "NaN at position 1"),
        ({"values": [1, np.inf]}, InvalidParameterError, "finite"),
        ({"values": [1, 2j]}, InvalidParameterError, "complex"),
        ({"values": [[1, 2]]}, InvalidParameterError, "one-dimensional"),
        ({"values": ["1", "2"]}, InvalidParameterError, "real numbers"),
        ({"values": pd.Series(["a", "b"])}, InvalidParameterError, "real numbers"),
        ({"values": 3}, InvalidParameterError, "one-dimensional"),
        ({"mechanism": None}, InvalidParameterError, "mechanism must be a noise law"),
        ({"mechanism": "laplace"}, InvalidParameterError, "mechanism must be a noise law"),
        ({"mechanism": [NOISE]}, InvalidParameterError, "each of the 2 values"),
        ({"mechanism": Laplace(scale=[1, 2, 3])}, InvalidParameterError, "each of the 2 values"),
        ({"workload": [[1, 0]]}, IncompatibleReleaseError, "1 entries"),
        ({"labels": ["a"]}, InvalidParameterError, "labels must have 2 entries"),
        ({"labels": ["a", "a"]}, InvalidParameterError, "labels must be distinct, got 'a'"),
        ({"values": pd.Series([1, 2], index=["a", "a"])}, InvalidParameterError, "distinct"),
        ({"neighbours": "bounded"}, InvalidParameterError, "'add-remove', 'replace'"),
        ({"sensitivity": 0}, InvalidParameterError, "sensitivity must be > 0"),
        ({"sensitivity": {"l3": 1}}, InvalidParameterError, "'l1', 'l2'"),
        ({"sensitivity": {"l1": -1}}, InvalidParameterError, "l1 must be >= 0"),
        ({"guarantee": {}}, InvalidParameterError, "mapping of epsilon"),
        ({"guarantee": {"eps": 1}}, InvalidParameterError, "'epsilon', 'delta', 'rho', 'mu'"),
        ({"guarantee": 1}, InvalidParameterError, "mapping of epsilon"),
        ({"threshold": [1]}, InvalidParameterError, "each of the values"),
        ({"threshold": np.nan}, InvalidParameterError, "NaN"),
        ({"threshold": 2}, IncompatibleReleaseError, "the value 1 at position 0 must not be below"),
        ({"threshold": [0, 3]}, IncompatibleReleaseError, "position 1 must not be below .* 3"),
        ({"clamp": 2}, IncompatibleReleaseError, "below its clamping bound 2"),
        ({"clamp": (0, 1.5)}, IncompatibleReleaseError, "position 1 must not be above"),
        ({"clamp": (1, 0)}, InvalidParameterError, "lower < upper"),
        ({"clamp": (1, 2, 3)}, InvalidParameterError, "pair"),
        ({"name": 3}, InvalidParameterError, "name must be a string"),
    ],
)
def test_bad_parts_are_refused(arguments, error, message):
    arguments = {"values": [1, 2], "mechanism": NOISE} | arguments
    with pytest.raises(error, match=message):
        Release(arguments.pop("values"), **arguments)


def test_fractions_under_integer_noise_are_refused():
    whole = Geometric(scale=1.0)
    with pytest.raises(IncompatibleReleaseError, match=r"must hold whole numbers .* row 1 \('b'\)"):
        Release([1, 2.5], mechanism=whole, labels=["a", "b"])
    with pytest.raises(IncompatibleReleaseError, match="disjoint supports"):
        Release([1, 2], workload=[[0.5, 0.5], [1, 1]], mechanism=whole)
    Release([1, 2.5], mechanism=[whole, NOISE])
    Release([1, 2.5], mechanism=[whole, Exact()])
    # a clamped value is the bound, whatever the noise was
    Release([1, 2.5], mechanism=whole, clamp=(None, 2.5))


def test_publishing_rule_is_normalised():
    release = Release([1, 2], mechanism=NOISE, threshold=[-np.inf, 2], clamp=0)
    assert release.threshold.tolist() == [-np.inf, 2]
    assert release.clamp == (0.0, np.inf)
    release = Release([1, 2], mechanism=NOISE, threshold=1, clamp=([0, 1], 5))
    assert release.threshold == 1.0
    assert release.clamp[0].tolist() == [0, 1]


def test_select():
    release = Release(
        [1, 2, 3],
        workload=[[1, 0], [0, 1], [1, 1]],
        mechanism=Laplace(scale=[1, 2, 3]),
        labels=["a", "b", "total"],
        threshold=[0, 1, 2],
        clamp=(0, [4, 5, 6]),
        name="small",
    )
    for where in (["total", "a"], [2, 0], np.array([2, 0]), [-1, 0]):
        part = release.select(where)
        assert part.values.tolist() == [3, 1]
        assert part.labels.to_list() == ["total", "a"]
        assert part.mechanism == Laplace(scale=[3, 1])
        assert part.threshold.tolist() == [2, 0]
        assert part.clamp[1].tolist() == [6, 4]
        assert part.workload.matrix.tolist() == [[1, 1], [1, 0]]
        assert part.name == "small"
    assert release.select(release.values > 1.5).labels.to_list() == ["b", "total"]
    assert release.select(slice(1)).values.tolist() == [1]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([], "at least one value"),
        (slice(0), "at least one value"),
        ([False, False], "at least one value"),
        ([True], "where must have 2 entries"),
        (["c"], "labels of the release, got 'c'"),
        ([2], "where must be <= 1"),
        ("a", "mask"),
        (0, "mask"),
    ],
)
def test_bad_selections(where, message):
    release = Release([1, 2], mechanism=NOISE, labels=["a", "b"])
    with pytest.raises(InvalidParameterError, match=message):
        release.select(where)


def test_to_frame():
    release = Release(
        [1, 2, 3],
        mechanism=[NOISE, Gaussian(sigma=3.0), Exact()],
        labels=["a", "b", "c"],
        threshold=1,
        clamp=(0, None),
    )
    frame = release.to_frame()
    want = pd.DataFrame(
        {
            "value": [1.0, 2, 3],
            "mechanism": ["laplace", "gaussian", "exact"],
            "scale": [2, np.nan, np.nan],
            "sigma": [np.nan, 3, np.nan],
            "threshold": [1.0] * 3,
            "lower": [0.0] * 3,
            "upper": [np.inf] * 3,
        },
        index=["a", "b", "c"],
    )
    pd.testing.assert_frame_equal(frame, want, check_dtype=False)
    assert Release([1, 2], mechanism=NOISE).to_frame().index.to_list() == [0, 1]


def test_drawn_releases_have_the_law():
    domain = Domain({"sex": ["F", "M"]})
    workload = Workload.from_marginals(domain, [("sex",), ()])
    noise = [Geometric(scale=3.0), Laplace(scale=1.0), Exact()]
    truth = np.array([10.0, 20.0, 30.0])
    one = Release.draw([10, 20], workload=workload, mechanism=noise, rng=1)
    again = Release.draw([10, 20], workload=workload, mechanism=noise, rng=1)
    assert one.values.tolist() == again.values.tolist()
    assert one.labels.to_list() == ["F", "M", "*"]
    rng = np.random.default_rng(2)
    draws = np.array(
        [
            Release.draw([10, 20], workload=workload, mechanism=noise, rng=rng).values
            for _ in range(500)
        ]
    )
    assert (draws[:, 2] == 30).all()
    # 6 standard errors of a mean of 500 draws: fails by accident with probability < 1e-8
    assert (np.abs(draws.mean(axis=0) - truth) <= 6 * np.sqrt(one.variance / 500)).all()


def test_drawn_cells_keep_their_labels():
    cells = pd.Series({"a": 3.0, "b": 4.0}).rename_axis("group")
    drawn = Release.draw(cells, mechanism=NOISE, rng=0)
    assert drawn.labels.equals(cells.index)
    assert Release.draw(cells, mechanism=NOISE, rng=0, labels=["x", "y"]).labels[0] == "x"


def test_drawn_values_are_clamped():
    release = Release.draw(np.zeros(50), mechanism=NOISE, clamp=(0, 1), rng=3)
    assert release.values.min() == 0
    assert release.values.max() <= 1
    with pytest.raises(IncompatibleReleaseError, match="threshold"):
        Release.draw(np.zeros(50), mechanism=NOISE, threshold=10, rng=3)


def test_a_million_values():
    values = np.arange(10**6)
    release = Release(values, mechanism=Geometric(scale=2.0), threshold=0)
    assert len(release) == 10**6
    assert release.workload.is_identity


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2), st.complex_numbers()
)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(anything, anything, anything, anything, anything)
def test_any_scalar_arguments_give_a_release_or_one_of_our_errors(value, sens, bound, clamp, name):
    try:
        release = Release(
            [value], mechanism=NOISE, sensitivity=sens, threshold=bound, clamp=clamp, name=name
        )
    except DPInferError:
        return
    assert np.isfinite(release.values).all()


def test_repeated_queries_need_labels_of_their_own():
    domain = Domain({"sex": ["F", "M"]})
    twice = Workload.from_marginals(domain, [("sex",), ("sex",)])
    with pytest.raises(InvalidParameterError, match="labels must be distinct, got 'F' twice"):
        Release([1, 2, 3, 4], workload=twice, mechanism=NOISE)
    release = Release([1, 2, 3, 4], workload=twice, mechanism=NOISE, labels=["a", "b", "c", "d"])
    assert release.domain == domain


def test_selections_of_every_kind():
    labels = pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", 3)])
    release = Release([1.0, 2.0, 3.0], mechanism=Laplace(scale=1.0), labels=labels)
    assert release.select(slice(None, None, 2)).values.tolist() == [1, 3]
    assert release.select([("c", 3), ("a", 1)]).values.tolist() == [3, 1]
    mask = pd.Series([False, True, True], index=labels)
    assert release.select(mask).values.tolist() == [2, 3]
    assert release.select(mask.reset_index(drop=True)).values.tolist() == [2, 3]
    for where, message in (
        (mask[::-1], "labelled like the values and in their order"),
        (np.array([[True], [False], [True]]), r"one-dimensional, got a mask of shape \(3, 1\)"),
        ([("a", 1), 3.5, ["x"]], "must hold labels of the release"),
        ([("a", 9)], "must hold labels of the release, got"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            release.select(where)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_bounds_of_each_value_have_its_label(frame):
    values = pd.Series([500.0, 700.0], index=pd.Index(["a", "b"], name="place"))
    bounds = pd.Series([450.0, 90.0], index=values.index)
    shuffled = bounds[::-1]
    if frame == "polars":
        pl = pytest.importorskip("polars", reason="polars is not installed")
        bounds, shuffled = (pl.from_pandas(one.reset_index()) for one in (bounds, shuffled))
    laplace = Laplace(scale=30.0)
    assert Release(values, mechanism=laplace, threshold=bounds).threshold.tolist() == [450, 90]
    lower, _ = Release(values, mechanism=laplace, clamp=(bounds, None)).clamp
    assert lower.tolist() == [450, 90]
    for field in ({"threshold": shuffled}, {"clamp": (shuffled, None)}, {"clamp": shuffled}):
        with pytest.raises(InvalidParameterError, match="must have the labels of values in"):
            Release(values, mechanism=laplace, **field)


RULED = Release(
    [95.0, 120.0, 101.0], mechanism=DiscreteGaussian(sigma=18.23), threshold=[90, 90, -np.inf]
)
AS_DRAWN = {
    "linear_confint": lambda y, law: dpi.linear_confint(y, np.ones(3), mechanism=law),
    "linear_ztest": lambda y, law: dpi.linear_ztest(y, np.ones(3), mechanism=law),
    "linear_ratio_confint": lambda y, law: dpi.linear_ratio_confint(
        y, [1, 0, 0], [1, 1, 1], mechanism=law
    ),
    "count_confint": lambda y, law: dpi.count_confint(y, mechanism=law),
    "one count": lambda y, law: dpi.count_confint(y[0], mechanism=law.take(0)),
    "share_confint": lambda y, law: dpi.share_confint(y[0], y[1], mechanism=(law, law)),
    "counts_2indep": lambda y, law: dpi.counts_2indep(y, y, mechanism=law),
    "counts_trend": lambda y, law: dpi.counts_trend(y, 900, mechanism=law),
    "proportions_ztest": lambda y, law: dpi.proportions_ztest(y, 200, 0.5, mechanism=law),
    "proportion_confint": lambda y, law: dpi.proportion_confint(y, 200, mechanism=law),
    "poisson_confint": lambda y, law: dpi.poisson_confint(y, 1.0, mechanism=law),
    "chisquare": lambda y, law: dpi.chisquare(y, nobs=300, mechanism=law),
    "count_posterior": lambda y, law: dpi.count_posterior(y[0], mechanism=law),
    "survey_total": lambda y, law: dpi.survey_total(
        y, sample_size=400, population_size=9000, mechanism=law
    ),
    "noisy_ols": lambda y, law: dpi.noisy_ols(
        np.arange(6.0), pd.DataFrame({"x": [*y, 400.0, 800.0, 1500.0]}), noise={"x": law}
    ),
    "thresholded_glm": lambda y, law: dpi.thresholded_glm(
        np.append(y, [400.0, 150.0, 90.0]), np.ones(6), universe="unknown", mechanism=law
    ),
    "combine": lambda y, law: dpi.combine(y, mechanism=law),
    "combine_hierarchy": lambda y, law: dpi.combine_hierarchy(y, [-1, 0, 0], mechanism=law),
    "combine_marginals": lambda y, law: dpi.combine_marginals(
        dpi.estimation.NoisyMarginal((), y, law), [-1, 0, 0], domain=dpi.Domain({"a": [0, 1]})
    ),
    "sum of laws": lambda y, law: dpi.WeightedSum(np.ones(3), law),
    "list of laws": lambda y, law: dpi.linear_confint(y[:2], [1, 1], mechanism=[law, law]),
    "release without the rule": lambda y, law: Release(y, mechanism=law),
}


@pytest.mark.parametrize("call", AS_DRAWN.values(), ids=AS_DRAWN)
def test_the_law_of_selected_values_is_refused_for_values_as_drawn(call):
    with pytest.raises(DPInferError, match="count_confint has an interval for each value"):
        call(RULED.values, RULED.mechanism)
    call(RULED.values, DiscreteGaussian(sigma=18.23))


def test_the_law_of_selected_values_follows_the_rule():
    law = RULED.mechanism
    assert law == DiscreteGaussian(sigma=18.23)
    assert law.variance == DiscreteGaussian(sigma=18.23).variance
    for copied in (pickle.loads(pickle.dumps(RULED)), copy.deepcopy(RULED), RULED.select([1])):
        with pytest.raises(InvalidParameterError, match="count_confint"):
            dpi.count_confint(copied.values, mechanism=copied.mechanism)
    free = RULED.select(~RULED.has_rule)
    assert dpi.count_confint(free.values, mechanism=free.mechanism).contains(101.0).all()
    scales = Laplace(scale=[1.0, 2.0])
    mixed = Release([5.0, 7.0, 9.0], mechanism=[scales, Exact()], threshold=4.0)
    for taken in (mixed.mechanism.take(0), mixed.mechanism.take([1, 2])):
        with pytest.raises(InvalidParameterError, match="count_confint"):
            dpi.count_confint(np.ones(taken.shape), mechanism=taken)
    # with its rule, or for simulation, it is the law that it is
    Release(RULED.values, mechanism=law, threshold=RULED.threshold)
    assert len(dpi.count_confint(RULED.values, mechanism=law, threshold=90).lower) == 3
    dpi.unpublished_bound(mechanism=law, threshold=90)
    drawn = Release.draw([100, 200], mechanism=law, rng=1)
    assert dpi.count_confint(drawn.values, mechanism=drawn.mechanism).estimate.shape == (2,)
