"""Noisy values: each constructor, each derived law against draws or brute force, each message."""

import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dpinfer as dpi
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, RoundedValuesWarning
from dpinfer.mechanisms import Exact, Gaussian, Geometric, IndependentNoise, Laplace, Rounded
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues

LAPLACE = Laplace(scale=2.0)
NAMES = ["a", "b", "c"]
SERIES = pd.Series([10.5, 3.25, 7.75], index=NAMES)
W = np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 1.0, -1.0, 2.0], [0.0, 0.0, 0.0, 1.0]])
MIXED = [Laplace(scale=1.0), Geometric(scale=2.0), Gaussian(sigma=1.5), Exact()]


class LazyRows:
    """Rows of a matrix that are made when they are asked for."""

    def __init__(self, matrix, variance):
        self.matrix, self.noise_variance = sparse.csr_array(matrix), variance

    def take(self, positions):
        return self.matrix[positions]

    def apply(self, noises):
        return self.matrix @ noises

    def variance(self):
        return self.matrix.power(2) @ self.noise_variance


def lazily(x):
    rows = LazyRows(x.weights, np.broadcast_to(x.noises.law.variance, x.noises.size))
    return NoisyValues(np.array(x.values), x.noises, weights=rows)


def dense(x):
    rows = np.arange(len(x))
    if x.weights is None:
        return np.eye(x.noises.size)[rows if x.at is None else x.at]
    held = x.weights if hasattr(x.weights, "indices") else x.weights.take(rows)
    return held.toarray()


# constructors


@pytest.mark.parametrize(
    ("given", "shape", "labels"),
    [
        (4.5, (), None),
        (np.float64(4.5), (), None),
        ([4.5, 1.5], (2,), None),
        (np.array([[4.5, 1.5], [2.5, 0.25]]), (2, 2), None),
        (SERIES, (3,), NAMES),
        (
            pd.DataFrame([[4.5, 1.5]], index=["x"], columns=["u", "v"]),
            (2,),
            [("x", "u"), ("x", "v")],
        ),
    ],
)
def test_values_keep_their_shape_and_labels(given, shape, labels):
    x = noisy(given, mechanism=LAPLACE)
    assert x.shape == shape
    assert (x.labels is None) if labels is None else (x.labels.tolist() == labels)
    np.testing.assert_array_equal(x.values, np.ravel(np.asarray(given)))
    assert not x.values.flags.writeable
    found = x.answer(2.0 * x.values)
    assert np.shape(found) == shape
    assert isinstance(found, pd.Series) is (labels is not None)
    assert noisy(x) is x


def test_frames_of_other_libraries_have_their_labels():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"name": NAMES, "count": SERIES.to_numpy()})
    x = noisy(frame, mechanism=LAPLACE)
    assert x.labels.tolist() == NAMES
    with pytest.raises(InvalidParameterError, match=r"collect\(\)"):
        noisy(frame.lazy(), mechanism=LAPLACE, name="count")


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(scale=[1.0, 2.0, 3.0]),
        [Laplace(scale=1.0), Laplace(scale=2.0), Laplace(scale=3.0)],
        {"laplace": [1.0, 2.0, 3.0]},
        {"laplace": pd.Series({"c": 3.0, "a": 1.0, "b": 2.0})},
        {"mechanism": "laplace", "scale": pd.Series({"c": 3.0, "a": 1.0, "b": 2.0})},
        pd.Series({"b": Laplace(scale=2.0), "a": Laplace(scale=1.0), "c": Laplace(scale=3.0)}),
    ],
)
def test_laws_are_aligned_by_label_or_go_by_position(mechanism):
    x = noisy(SERIES, mechanism=mechanism)
    np.testing.assert_allclose(x.variance, [2.0, 8.0, 18.0])
    [(law, cells)] = x.laws()
    assert law == Laplace(scale=[1.0, 2.0, 3.0])
    assert cells.tolist() == [0, 1, 2]


def test_a_law_in_the_shape_of_a_table_goes_with_its_cells():
    x = noisy(np.array([[0.5, 1.5], [2.5, 3.5]]), mechanism=Laplace(scale=[[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_allclose(x.std, np.sqrt(2.0) * np.arange(1, 5))


def test_given_labels_take_the_place_of_their_own():
    assert noisy(SERIES, mechanism=LAPLACE, labels=["x", "y", "z"]).labels.tolist() == [*"xyz"]


def test_numbers_and_arrays_do_not_load_pandas():
    code = (
        "import sys, numpy as np; from dpinfer.mechanisms import Laplace\n"
        "from dpinfer.releases import noisy\n"
        "x = noisy(3.5, mechanism=Laplace(scale=1.0)); x.setting(5, 'nobs', whole=True)\n"
        "x.need(independent=True, unruled=True, who='f'); x.key(np.array(1.0))\n"
        "x.answer(x.values)\n"
        "y = noisy(np.array([3.5, 1.5]), mechanism=Laplace(scale=[1.0, 2.0]))\n"
        "y.setting(np.array([5.0, 4.0]), 'nobs'); y.laws(); y.variance\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# the law of the errors


def published():
    return noisy([5.5, 4.5, 3.5], mechanism=MIXED, weights=W)


@pytest.mark.parametrize("make", [published, lambda: lazily(published())], ids=["held", "lazy"])
def test_covariances_and_draws_are_those_of_the_weights(make):
    x = make()
    variance = np.array([law.variance for law in MIXED])
    wanted = (W * variance) @ W.T
    np.testing.assert_allclose(x.cov(), wanted, rtol=1e-12)
    np.testing.assert_allclose(x.cov(np.array([2, 0])), wanted[np.ix_([2, 0], [2, 0])], atol=1e-12)
    np.testing.assert_allclose(x.variance, np.diag(wanted))
    # an estimated covariance has a standard error below .25 of 36: six of them, once in 1e8
    errors = x.draw(40_000, rng=1)
    np.testing.assert_allclose(np.cov(errors.T), wanted, atol=1.5)
    for law, cells in x.laws():
        for row in cells:
            t = 1.3 * np.sqrt(wanted[row, row])
            # 40,000 draws: .013 is more than five standard errors, by accident once in 1e6
            assert abs(float(law.sf(t)) - (errors[:, row] > t).mean()) < 0.013
    assert not x.are_independent()


def test_draws_of_independent_values_have_their_laws():
    x = noisy(SERIES, mechanism=[LAPLACE, Gaussian(sigma=3.0), Exact()])
    errors = x.draw(40_000, rng=3)
    assert not errors[:, 2].any()
    np.testing.assert_allclose(errors[:, :2].var(axis=0), [8.0, 9.0], rtol=0.1)  # 5 s.e. or more
    assert x.are_independent()
    np.testing.assert_array_equal(x.cov(), np.diag(x.variance))


def test_functions_keep_the_noises_they_are_of():
    x = noisy([8.5, 2.5, 4.5], mechanism=Laplace(scale=[1.0, 2.0, 3.0]))
    sums = x.linear([[1, 1, 0], [0, 0, 2]])
    np.testing.assert_allclose(sums.values, [11.0, 9.0])
    assert sums.noises is x.noises
    assert sums.are_independent()
    law, wanted = sums.law_of([1.0, -1.0]), dpi.WeightedSum([1, 1, -2], x.marginal)
    t = np.linspace(-5, 5, 7)
    np.testing.assert_allclose(law.cdf(t), wanted.cdf(t), atol=1e-12)
    np.testing.assert_allclose(x.law_of([1, 1, -2]).cdf(t), wanted.cdf(t), atol=1e-12)
    whole = sums.linear(sparse.csr_array([[1.0, 0.5]]))
    np.testing.assert_allclose(dense(whole), [[1.0, 1.0, 1.0]])
    assert sums.linear([1.0, 1.0]).shape == ()


def test_noises_that_cancel_are_dropped():
    x = noisy([8.5, 2.5], mechanism=LAPLACE)
    thirds = x.linear([[1 / 3, 1.0], [2 / 3, 1.0]])
    rest = thirds.linear([[2.0, -1.0]])
    assert rest.weights.nnz == 1
    assert thirds.law_of([2.0, -1.0]).variance == pytest.approx(8.0)


def test_rows_of_one_noise_have_its_own_law():
    x = noisy([3.5, 2.5], mechanism=[LAPLACE, Gaussian(sigma=1.0)])
    y = x.linear([[-1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    laws = {int(at): law for law, cells in y.laws() for at in cells}
    assert isinstance(laws[0], Laplace)
    assert isinstance(laws[1], Gaussian)
    np.testing.assert_allclose(y.marginal.variance, [8.0, 1.0, 9.0])
    exact = noisy([3.0], mechanism=Exact()).linear([2.0])
    assert float(exact.marginal.variance) == 0.0


def test_noises_without_variance_make_nothing_dependent():
    x = noisy([5.5, 4.5, 10.0], mechanism=[LAPLACE, LAPLACE, Exact()])
    parts = x.linear([[1, 0, 1], [0, 1, -1]])
    assert parts.are_independent()
    assert not x.linear([[1, 0, 1], [1, 1, -1]]).are_independent()


# selections and joins


def test_selections_keep_their_noises():
    x = noisy(SERIES, mechanism=Laplace(scale=[1.0, 2.0, 3.0]))
    part = x.take(["c", "a"])
    assert part.labels.tolist() == ["c", "a"]
    np.testing.assert_allclose(part.variance, [18.0, 2.0])
    assert part.noises is x.noises
    np.testing.assert_allclose(part.take([1]).beside(x).cov()[0], [2.0, 2.0, 0.0, 0.0])
    joint = x.take(slice(0, 1)).beside(x.take([False, True, True]))
    assert joint.weights is None
    assert joint.are_independent()
    np.testing.assert_allclose(joint.variance, [2.0, 8.0, 18.0])
    np.testing.assert_allclose(published().take([2, 0]).cov()[0], published().cov()[2, [2, 0]])
    with pytest.raises(InvalidParameterError, match="each value once"):
        x.take([0, 0])
    with pytest.raises(InvalidParameterError, match="at least one"):
        x.take([])


def test_values_over_other_noises_are_independent():
    x, y = published(), noisy([1.5, 2.5], mechanism=LAPLACE)
    both = x.beside(y)
    np.testing.assert_allclose(both.cov()[:3, :3], x.cov())
    np.testing.assert_allclose(both.cov()[3:, :3], 0.0)
    again = both.beside(y.linear([1, -1]))  # part of the noises of both
    np.testing.assert_allclose(again.cov()[5, 3:], [8.0, -8.0, 16.0])
    assert again.noises.size == both.noises.size


def test_what_is_pickled_and_copied_is_the_same_noise():
    x = noisy(SERIES, mechanism=Laplace(scale=[1.0, 2.0, 3.0]))
    for copy in (pickle.loads(pickle.dumps(x)), deepcopy(x)):
        assert copy == x
        assert hash(copy) == hash(x)
        assert not copy.values.flags.writeable
        np.testing.assert_allclose(x.take([0]).beside(copy).cov()[0], [2.0, 2.0, 0.0, 0.0])
    y = published()
    copy = pickle.loads(pickle.dumps(y))
    np.testing.assert_allclose(copy.draw(5, rng=1), y.draw(5, rng=1))
    assert copy == y
    assert noisy(SERIES, mechanism=LAPLACE) != x
    assert x != noisy(SERIES.iloc[::-1], mechanism=Laplace(scale=[3.0, 2.0, 1.0]))
    with pytest.raises(AttributeError, match="assign to field"):
        x.values = None


def test_values_read_twice_are_not_taken_for_others():
    y = np.arange(9.0) + 0.25
    one, other = (noisy(y, mechanism=LAPLACE) for _ in range(2))
    with pytest.raises(InvalidParameterError, match="read once"):
        one.beside(other)
    apart = noisy(y[:7], mechanism=LAPLACE).beside(noisy(y[:7], mechanism=LAPLACE))
    assert apart.are_independent()
    few = np.array([0.5, 1.5] * 5)  # counts of small cells may well be equal
    assert noisy(few, mechanism=LAPLACE).beside(noisy(few, mechanism=LAPLACE)).are_independent()
    assert one.beside(noisy(y, mechanism=Laplace(scale=3.0))).are_independent()


def test_laws_that_know_their_noises_bring_them():
    noise = [Laplace(scale=6.0), Laplace(scale=6.0), Laplace(scale=1.0)]
    queries = [[1, 0], [0, 1], [1, 1]]
    fit = dpi.combine([58.0, 43.0, 99.5], workload=queries, mechanism=noise)
    laws, p = [fit.noise(row) for row in range(3)], np.asarray(fit.params)
    x = noisy(p, mechanism=laws)
    np.testing.assert_allclose(x.cov(), fit.cov_params(), rtol=1e-9)
    total = noisy(p[2], mechanism=laws[2])
    np.testing.assert_allclose(x.beside(total).cov()[:3, 3], fit.cov_params()[:, 2])
    mixed = noisy([p[0], 3.5], mechanism=[laws[0], Gaussian(sigma=1.0)])
    np.testing.assert_allclose(mixed.cov(), np.diag([laws[0].variance, 1.0]), atol=1e-12)
    assert mixed.are_independent()
    differences = noisy(p[:2], mechanism=laws[:2], weights=[[1.0, -1.0], [0.0, 1.0]])
    assert differences.variance[0] == pytest.approx(144.0)
    with pytest.raises(InvalidParameterError, match="that of one estimate"):
        noisy(p[:2], mechanism=laws[0])
    again = dpi.combine([58.0, 43.0, 99.5], workload=queries, mechanism=noise)
    with pytest.raises(InvalidParameterError, match="two releases or fits of equal values"):
        x.beside(noisy(p[0], mechanism=again.noise(0)))


def test_labels_bring_two_values_into_one_order():
    x = noisy(SERIES, mechanism=LAPLACE, name="count1")
    y = noisy(SERIES.iloc[::-1] + 1, mechanism=Laplace(scale=[1.0, 2.0, 3.0]), name="count2")
    np.testing.assert_allclose(x.aligned(y).values, x.values + 1)
    np.testing.assert_allclose(x.aligned(y).variance, [18.0, 8.0, 2.0])
    assert x.aligned(x) is x
    number = noisy(3.5, mechanism=LAPLACE)
    assert x.aligned(number) is number
    with pytest.raises(InvalidParameterError, match="count2 must have the labels of count1"):
        x.aligned(y.take([0, 1]))
    release = dpi.Release(SERIES, mechanism=LAPLACE)
    with pytest.raises(InvalidParameterError, match=r"^count2 must have the labels of count1, "):
        dpi.counts_2indep(release[[0, 1]], release[[1, 2]])
    with pytest.raises(InvalidParameterError, match="count1 has 3, values has 2"):
        x.aligned(noisy([1.5, 2.5], mechanism=LAPLACE))


# publishing rules


def test_rules_stay_with_their_values():
    x = noisy(
        SERIES,
        mechanism=LAPLACE,
        threshold=pd.Series({"a": 5.0, "b": -np.inf, "c": -np.inf}),
        clamp=(None, [np.inf, np.inf, 8.0]),
    )
    assert x.rule.of(3).tolist() == [True, False, True]
    assert x.take(["b"]).rule is None
    assert x.take(["c", "b"]).rule.highest.tolist() == [8.0, np.inf]
    stacked = x.take(["a"]).beside(noisy([1.5], mechanism=LAPLACE))
    assert stacked.rule.of(2).tolist() == [True, False]
    assert noisy(SERIES, mechanism=LAPLACE, threshold=-np.inf).rule is None
    assert x.linear([0, 1, 0]).rule is None
    for call in (lambda: x.linear([1, 1, 0]), lambda: x.law_of([1, 0, 0])):
        with pytest.raises(InvalidParameterError, match=r"selected by a threshold, .* row 0 \('a"):
            call()
    assert pickle.loads(pickle.dumps(x)) == x


def test_rounding_to_whole_numbers_is_a_law():
    x = noisy([4.0, 2.0], mechanism=LAPLACE, rounding=True)
    assert x.rule is None
    assert x.marginal == Rounded(LAPLACE)
    mixed = noisy([4.0, 2.0], mechanism=[LAPLACE, Geometric(scale=1.0)], rounding=1)
    assert [type(law) for law, _ in mixed.laws()] == [Rounded, Geometric]
    coarse = noisy([10.0, 25.0], mechanism=LAPLACE, rounding=5)
    assert coarse.rule.after == 5.0
    assert coarse.marginal == LAPLACE
    with pytest.raises(InvalidParameterError, match="multiples of 5 where"):
        noisy([10.0, 26.0], mechanism=LAPLACE, rounding=5)
    with pytest.raises(InvalidParameterError, match="rounded to multiples of 5"):
        coarse.need(unruled=True, who="counts_paired")


def test_bins_before_the_noise_are_known():
    x = noisy([10.5, 25.5], mechanism=LAPLACE, bin_size=[8, 1])
    assert x.rule.of(2).tolist() == [True, False]
    with pytest.raises(InvalidParameterError, match="rounded up before the noise"):
        x.need(unruled=True, who="f")
    with pytest.raises(InvalidParameterError, match="bin_size must be >= 1"):
        noisy([10.5, 25.5], mechanism=LAPLACE, bin_size=0)


def test_a_value_at_a_clamping_bound_may_be_a_fraction():
    law = Geometric(scale=1.0)
    assert len(noisy([0.5, 3.0], mechanism=law, clamp=0.5)) == 2
    with pytest.raises(InvalidParameterError, match="whole numbers"):
        noisy([0.5, 3.5], mechanism=law, clamp=0.5)


# what functions ask for


def test_settings_go_with_the_values():
    x = noisy(SERIES, mechanism=LAPLACE, name="count")
    np.testing.assert_array_equal(x.setting(5, "nobs", whole=True, ge=1), 5.0)
    series = pd.Series([1, 2, 3], index=NAMES)
    np.testing.assert_array_equal(x.setting(series, "nobs"), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(x.setting([1, 2, 3], "nobs", whole=True), [1.0, 2.0, 3.0])
    one = noisy(3.5, mechanism=LAPLACE)
    settings = one.setting([1, 2, 3], "nobs"), one.setting(0.5, "value")
    np.testing.assert_array_equal(one.answer(settings[0] * 2, *settings), [2.0, 4.0, 6.0])
    assert one.answer(np.array([3.0]), settings[1]).shape == ()
    assert one.answer(np.array([3.0]), one.setting([1], "nobs")).shape == (1,)
    table = noisy(np.array([[0.5, 1.5], [2.5, 3.5]]), mechanism=LAPLACE)
    np.testing.assert_array_equal(table.setting([[1, 2], [3, 4]], "nobs"), [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (0, {"ge": 1}, "nobs must be >= 1, got 0"),
        (2.0**54, {"le": 2.0**53}, "nobs must be <= "),
        (1.0, {"lt": 1}, "nobs must be < 1"),
        (0.0, {"gt": 0}, "nobs must be > 0"),
        (2.5, {"whole": True}, "nobs must hold whole numbers, got 2.5"),
        (np.nan, {}, "nobs must not contain NaN"),
        (np.inf, {}, "nobs must be finite"),
        ("5", {}, "nobs must hold real numbers"),
        (True, {}, "nobs must hold real numbers"),
        ([1, 2], {}, "nobs must be a number, or have one entry for each of the 3 values of count"),
        (np.ones((2, 2)), {}, r"nobs must be a number or one-dimensional, got shape \(2, 2\)"),
        (
            pd.Series([1, 2, 3], index=["b", "a", "c"]),
            {},
            "nobs must have the labels of count in the same order: reindex it first",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(value, bounds, message):
    x = noisy(SERIES, mechanism=LAPLACE, name="count")
    with pytest.raises(InvalidParameterError, match=message):
        x.setting(value, "nobs", **bounds)


def test_groups_have_one_law_and_one_setting():
    laws = [LAPLACE, Geometric(scale=2.0), Laplace(scale=2.0), Laplace(scale=3.0)]
    x = noisy([1.5, 2.0, 3.5, 4.5], mechanism=laws)
    first, member = x.key()
    assert member[0] == member[2]
    assert len(set(member.tolist())) == len(first) == 3
    first, member = x.key(np.array([5.0, 5.0, 6.0, 5.0]), np.array(0.5))
    assert len(first) == 4
    np.testing.assert_array_equal(member[first], np.arange(4))
    same = noisy([1.5, 2.5, 3.5], mechanism=LAPLACE)
    assert [part.tolist() for part in same.key()] == [[0], [0, 0, 0]]
    one = noisy(1.5, mechanism=LAPLACE)
    assert one.key(np.array([4.0, 7.0, 4.0]))[1].tolist() == [0, 1, 0]
    assert published().linear([[1, 0, 0], [-1, 0, 0]]).key()[1].tolist() == [0, 0]


def test_functions_say_what_they_do_not_take():
    x = published()
    assert x.need(unruled=True, who="f") is x
    with pytest.raises(InvalidParameterError, match=r"mcnemar needs independent errors.*linear_"):
        x.need(independent=True, who="mcnemar")
    with pytest.raises(InvalidParameterError, match="known density or mass"):
        x.need(marginal=True, who="count_posterior")
    x.take([2]).need(marginal=True, independent=True, who="count_posterior")
    selected = noisy([5.5], mechanism=LAPLACE, threshold=4, name="count")
    wanted = "proportions_ztest does not take values that were selected by a threshold.*count_conf"
    with pytest.raises(InvalidParameterError, match=wanted):
        selected.need(unruled=True, who="proportions_ztest")
    with pytest.raises(InvalidParameterError, match="were clamped"):
        noisy([5.5], mechanism=LAPLACE, clamp=0).need(unruled=True, who="f")
    fraction = noisy([5.5], mechanism=Exact())
    with pytest.raises(InvalidParameterError, match="whole numbers"):
        fraction.need(whole=True, who="f")


class Published:
    """What hands itself down as noisy values."""

    def __noisy__(self):
        return noisy([3.5], mechanism=LAPLACE)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (3.5, {}, r"mechanism must be given, as count is plain numbers.*Laplace\(scale=2.0\)"),
        (Published(), {"mechanism": LAPLACE}, "mechanism must be left out where count carries its"),
        (Published(), {"threshold": 3.0}, "threshold must be left out where count carries how"),
        (np.nan, {"mechanism": LAPLACE}, "count must not contain NaN"),
        ([1.5, np.nan], {"mechanism": LAPLACE}, "count must not contain NaN at position 1"),
        (
            pd.Series({"x": 1.5, "y": np.nan}),
            {"mechanism": LAPLACE},
            r"count must not contain NaN at position 1 \('y'\)",
        ),
        (pd.Series({"x": np.inf}), {"mechanism": LAPLACE}, r"be finite, got inf at position 0 \("),
        (1e101, {"mechanism": LAPLACE}, r"count must be <= 1e\+100"),
        ([], {"mechanism": LAPLACE}, "at least one value"),
        (np.ma.array([1.5], mask=[True]), {"mechanism": LAPLACE}, "must not have masked values"),
        (1j, {"mechanism": LAPLACE}, "must be real, got complex"),
        (True, {"mechanism": LAPLACE}, "must hold real numbers"),
        ("4", {"mechanism": LAPLACE}, "must hold real numbers"),
        ([1.5, [2.5]], {"mechanism": LAPLACE}, "rectangular array"),
        (3.5, {"mechanism": "laplace"}, "mechanism must be a noise law"),
        ([3.5, 2.5], {"mechanism": [LAPLACE] * 3}, "one for each of the 2 values"),
        (3.5, {"mechanism": Geometric(scale=1.0)}, "count must hold whole numbers where the noise"),
        (
            pd.Series({"x": 1.0, "y": 2.5}),
            {"mechanism": Geometric(scale=1.0)},
            r"got 2.5 in row 1 \('y'\): check that mechanism is the one that was used",
        ),
        (
            pd.Series([1.5, 2.5], index=["x", "x"]),
            {"mechanism": LAPLACE},
            "count must have distinct labels, got 'x' twice",
        ),
        (SERIES, {"mechanism": LAPLACE, "labels": ["x"]}, "labels must have 3 entries"),
        (SERIES, {"mechanism": {"laplace": pd.Series({"a": 1.0})}}, "the labels of count"),
        ([1.5], {"mechanism": {"laplace": pd.Series([1.0])}}, "as count has no labels"),
        (SERIES, {"mechanism": {"laplace": [1.0, 2.0]}}, "scale must be a number, or have one"),
        (SERIES, {"mechanism": {"scale": 1.0, "sigma": 2.0}}, "name one law and its parameters"),
        (SERIES, {"mechanism": {"cauchy": 1.0}}, "mechanism must be one of laplace"),
        (3.5, {"mechanism": LAPLACE, "clamp": (1, 2, 3)}, r"a pair \(lower, upper\)"),
        (3.5, {"mechanism": LAPLACE, "clamp": (4, 2)}, "lower < upper"),
        (
            SERIES,
            {"mechanism": LAPLACE, "threshold": SERIES.iloc[::-1] - 9},
            "threshold must have the labels of count in the same order",
        ),
        (SERIES, {"mechanism": LAPLACE, "weights": np.eye(2)}, "weights must have 3 rows"),
        (SERIES, {"mechanism": LAPLACE, "weights": np.eye(3) * 1e-120}, "weights must be 0 or"),
        (SERIES, {"mechanism": LAPLACE, "weights": np.eye(3), "clamp": 0}, "weights must be left"),
    ],
)
def test_what_makes_no_noisy_values_is_refused(given, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        noisy(given, name="count", **options)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"threshold": 4.0}, r"the value 3.25 in row 1 \('b'\) must not be below the threshold"),
        ({"clamp": 4.0}, "below its clamping bound 4"),
        ({"clamp": (None, 9.0)}, r"10.5 in row 0 .* above its clamping bound 9"),
    ],
)
def test_values_fit_their_rule(rule, message):
    with pytest.raises(IncompatibleReleaseError, match=message):
        noisy(SERIES, mechanism=LAPLACE, **rule)


def test_whole_numbers_under_noise_with_a_density_were_rounded():
    for given in (3, [3.0, 4.0], pd.Series([3.0, 4.0])):
        with pytest.warns(RoundedValuesWarning, match="Give mechanism=Rounded"):
            noisy(given, mechanism=LAPLACE, name="count")
    noisy([3.5, 4.0], mechanism=LAPLACE)
    noisy([0.0, 3.5], mechanism=LAPLACE, clamp=0)


def test_the_law_of_selected_values_is_not_that_of_values_as_drawn():
    release = dpi.Release([5.5, 6.5], mechanism=LAPLACE, threshold=4.0)
    with pytest.raises(InvalidParameterError, match="threshold, a clamp or bins"):
        noisy(release.values, mechanism=release.mechanism)
    for number in (5.5, [5.5]):
        with pytest.raises(InvalidParameterError, match="threshold, a clamp or bins"):
            noisy(number, mechanism=release.mechanism)
    x = noisy(release.values, mechanism=release.mechanism, threshold=release.threshold)
    assert x.rule.threshold == 4.0


def test_mixed_laws_are_one_for_each_value():
    x = noisy([1.5, 2.0], mechanism=IndependentNoise([LAPLACE, Geometric(scale=1.0)]))
    assert [type(law) for law, _ in x.laws()] == [Laplace, Geometric]
    assert "2 values" in repr(x)
    assert "weighted sums of 4 noises" in repr(published())
