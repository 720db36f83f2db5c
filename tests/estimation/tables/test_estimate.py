"""What estimates of tables return: labels, intervals, tests, errors."""

import copy

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation import (
    NoisyMarginal,
    StructuralZeros,
    combine,
    combine_hierarchy,
    combine_marginals,
)
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.queries import Domain, Hierarchy

DOMAIN = Domain({"sex": ["F", "M"], "race": ["a", "b", "c"], "adult": [False, True]})
CODES = ["01001", "01002", "01003", "02001", "02002"]
NOISE = Gaussian(sigma=2.0)


def county():
    """A labelled hierarchy and its true tables, shape (8, 2, 3, 2)."""
    hierarchy = Hierarchy.from_codes(CODES, [0, 2, 5])
    rng = np.random.default_rng(1)
    truth = np.zeros((len(hierarchy), *DOMAIN.shape))
    for at in np.flatnonzero(hierarchy.labels.str.len() == 5):
        truth[at] = rng.poisson(20.0, DOMAIN.shape)
        above = hierarchy.parent[at]
        while above >= 0:
            truth[above] += truth[at]
            above = hierarchy.parent[above]
    return hierarchy, truth


def total(truth, names):
    axes = tuple(1 + at for at, name in enumerate(DOMAIN.attributes) if name not in names)
    return truth.sum(axis=axes)


def published(truth, rng, law=NOISE, queries=((), ("sex",), ("race", "adult"), DOMAIN.attributes)):
    """Noisy marginals, with their names in the order of the domain."""
    found = []
    for names in queries:
        true = total(truth, names)
        found.append(NoisyMarginal(names, true + law.rvs(true.shape, rng=rng), law))
    return found


def test_labels_travel():
    hierarchy, truth = county()
    marginals = published(truth, np.random.default_rng(2))
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN)
    plain = combine_marginals(marginals, hierarchy.parent, domain=DOMAIN)
    found = fit.marginal(["adult", "sex"], ["02", "01003"])
    assert list(found.index) == ["02", "01003"]
    assert found.columns.names == ["adult", "sex"]
    assert list(found.columns) == [(False, "F"), (False, "M"), (True, "F"), (True, "M")]
    at = hierarchy.positions(["02", "01003"])
    bare = plain.marginal(("adult", "sex"), at)
    assert bare.shape == (2, 2, 2)
    np.testing.assert_array_equal(found.to_numpy().reshape(bare.shape), bare)
    bse = fit.marginal_bse(["adult", "sex"], ["02", "01003"])
    assert bse.columns.equals(found.columns)
    np.testing.assert_array_equal(
        bse.to_numpy(), np.sqrt(fit.marginal_variance(["adult", "sex"], ["02", "01003"]))
    )
    people = fit.marginal()
    assert isinstance(people, pd.Series)
    assert people.index.equals(hierarchy.labels)
    table = fit.table("01")
    assert table.index.equals(DOMAIN.cells())
    assert plain.table(int(at[0])).shape == DOMAIN.shape
    intervals = fit.conf_int("race", ["01"], 0.1)
    assert list(intervals.labels) == [("01", "a"), ("01", "b"), ("01", "c")]
    assert intervals.labels.names == ["unit", "race"]
    frame = fit.summary_frame("race", ["01"], 0.1)
    assert list(frame.columns) == ["estimate", "std_err", "ci_lower", "ci_upper"]
    assert frame.attrs["alpha"] == 0.1
    assert frame.index.equals(intervals.labels)
    assert plain.summary_frame((), [0]).index.tolist() == [0]
    assert "inference on the confidential values" in fit.summary("sex")
    assert repr(fit) == "MarginalsEstimate(8 units, 12 cells each, from 168 values)"
    assert len(fit) == 8


def test_labelled_values_may_have_any_order():
    hierarchy, truth = county()
    marginals = published(truth, np.random.default_rng(3))
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN)
    labelled = []
    for seed, one in enumerate(marginals):
        names = one.attributes
        if not names:
            frame = pd.Series(one.values, index=hierarchy.labels)
        else:
            columns = Domain({name: DOMAIN.levels[name] for name in names}).cells()
            frame = pd.DataFrame(one.values.reshape((8, -1)), hierarchy.labels, columns)
            frame = frame.sample(frac=1.0, axis=1, random_state=seed)
            if seed % 2 == 0:
                levels = [hierarchy.labels, *(DOMAIN.levels[name] for name in names)]
                frame = pd.Series(one.values.ravel(), pd.MultiIndex.from_product(levels))
        mixed = frame.sample(frac=1.0, random_state=seed)
        labelled.append(NoisyMarginal(names, mixed, one.mechanism))
    again = combine_marginals(labelled, hierarchy, domain=DOMAIN)
    for names in ((), "race", ("adult", "race"), DOMAIN.attributes):
        np.testing.assert_allclose(again.marginal(names), fit.marginal(names), rtol=1e-12)
        np.testing.assert_allclose(again.marginal_bse(names), fit.marginal_bse(names), rtol=1e-12)


def test_marginals_add_up_within_and_between_units():
    hierarchy, truth = county()
    fit = combine_marginals(published(truth, np.random.default_rng(4)), hierarchy, domain=DOMAIN)
    cells = fit.marginal(DOMAIN.attributes).to_numpy().reshape((8, *DOMAIN.shape))
    np.testing.assert_allclose(cells.sum(axis=(1, 3)), fit.marginal("race"), rtol=1e-12)
    for at in range(8):
        below = hierarchy.parent == at
        if below.any():
            np.testing.assert_allclose(cells[below].sum(axis=0), cells[at], atol=1e-9)


def test_totals_alone_are_a_hierarchy_of_numbers():
    hierarchy, truth = county()
    values = pd.Series(total(truth, ()) + NOISE.rvs(8, rng=5), index=hierarchy.labels)
    numbers = combine_hierarchy(values, hierarchy, mechanism=NOISE)
    tables = combine_marginals(NoisyMarginal((), values, NOISE), hierarchy, domain=Domain({}))
    np.testing.assert_allclose(tables.marginal(), numbers.params, rtol=1e-12)
    np.testing.assert_allclose(tables.marginal_bse(), numbers.bse, rtol=1e-12)
    left, right = tables.consistency_test(), numbers.consistency_test()
    assert float(left.statistic) == pytest.approx(float(right.statistic), rel=1e-9)
    assert float(left.pvalue) == pytest.approx(float(right.pvalue), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.uint32, np.float32])
def test_input_is_read_in_any_type_and_left_alone(dtype):
    hierarchy, truth = county()
    law = DiscreteGaussian(sigma=2.0)
    rng = np.random.default_rng(6)
    marginals = [
        NoisyMarginal(one.attributes, (one.values + 100).astype(dtype), law)
        for one in published(truth, rng, law)
    ]
    before = copy.deepcopy([one.values for one in marginals])
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN)
    fit.consistency_test(reps=20, rng=1)
    fit.disagreements()
    fit.summary_frame("sex")
    for one, old in zip(marginals, before, strict=True):
        assert one.values.dtype == dtype
        np.testing.assert_array_equal(one.values, old)
    wide = [NoisyMarginal(o.attributes, o.values.astype(float), law) for o in marginals]
    other = combine_marginals(wide, hierarchy, domain=DOMAIN)
    np.testing.assert_allclose(fit.marginal("race"), other.marginal("race"), rtol=1e-12)


def test_exact_totals_are_met():
    hierarchy, truth = county()
    marginals = published(truth, np.random.default_rng(7))
    marginals[0] = NoisyMarginal((), total(truth, ()), Exact())
    marginals.append(NoisyMarginal("race", total(truth, ("race",))[[0]], Exact(), units=CODES[:1]))
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN)
    np.testing.assert_allclose(fit.marginal(), total(truth, ()), rtol=1e-13)
    assert (fit.marginal_bse() == 0.0).all()
    at = hierarchy.positions(CODES[:1])
    np.testing.assert_allclose(
        fit.marginal("race", CODES[:1]), total(truth, ("race",))[at], rtol=1e-12
    )
    assert (fit.marginal_bse("race", CODES[:1]) == 0.0).all(axis=None)


@pytest.mark.parametrize("leaves", [False, True])
def test_what_exact_values_determine_together_has_no_variance(leaves):
    """The last of the children of a unit whose other children are known, and an only child."""
    hierarchy = Hierarchy([-1, 0, 0, 1, 1, 2])
    noisy = NoisyMarginal(DOMAIN.attributes, np.zeros((6, 2, 3, 2)), NOISE)
    units = [0, 1, 3] if leaves else [0, 1]
    exact = NoisyMarginal((), np.zeros(len(units)), Exact(), units)
    grouping = {"first": ("race", {"a": 1, "b": 0, "c": 0})}
    fit = combine_marginals([noisy, exact], hierarchy, domain=DOMAIN, groupings=grouping)
    plain = combine_marginals([noisy, exact], hierarchy, domain=DOMAIN)
    known = [True, True, True, leaves, leaves, True]
    for one in (fit, plain):
        np.testing.assert_array_equal(one.marginal_bse() == 0.0, known)
        np.testing.assert_array_equal(one.unit_contrast(5, np.ones(12)).std_err, 0.0)
    assert (fit.marginal_bse("first") > 0.1).all()


def test_tables_are_the_same_in_any_order_of_units():
    rng = np.random.default_rng(13)
    parent = np.array([-1, 0, 0, 1, 1, 1, 2, 2])
    noisy = [np.round(rng.normal(0.0, 9.0, (8, *shape)), 3) for shape in ((2, 3, 2), (2, 2))]
    order = rng.permutation(8)
    place = np.argsort(order)
    above = parent[order]
    mixed = np.where(above < 0, -1, place[above])
    for grouping in (None, {"first": ("race", {"a": 1, "b": 0, "c": 0})}):
        fits = [
            combine_marginals(
                [
                    NoisyMarginal(DOMAIN.attributes, noisy[0][rows], NOISE),
                    NoisyMarginal(["adult", "sex"], noisy[1][rows], NOISE),
                ],
                given,
                domain=DOMAIN,
                groupings=grouping,
            )
            for given, rows in ((parent, slice(None)), (mixed, order))
        ]
        for names in (DOMAIN.attributes, ("race", "adult", "sex"), ("race",), ()):
            first, second = (one.marginal(names) for one in fits)
            np.testing.assert_allclose(second, first[order], rtol=1e-12, atol=1e-11)
        first, second = fits
        assert not first.marginal(DOMAIN.attributes).flags.writeable
        np.testing.assert_allclose(second.table(3), first.table(order[3]), rtol=1e-12, atol=1e-11)
        statistics = [float(one.consistency_test().statistic) for one in fits]
        assert statistics[0] == pytest.approx(statistics[1], rel=1e-12)


@pytest.mark.parametrize("law", [Gaussian(sigma=2.0), Geometric(scale=1.5), Laplace(scale=2.0)])
def test_coverage(law):
    # 400 draws of 8 units with 3 cells: the coverage of a level of units has at least 400
    # independent draws, so a standard deviation below 0.0155; 6 of them. Ends of intervals under
    # whole-numbered noise are on atoms, which are below 0.006 for these sums.
    hierarchy, truth = county()
    rng = np.random.default_rng(8)
    depth = np.asarray(hierarchy.depth)
    parent = hierarchy.parent
    one = combine_marginals(published(truth, rng, law), parent, domain=DOMAIN)
    intervals = one.conf_int("race", alpha=0.1)  # laws of errors do not depend on the values
    assert (intervals.method, intervals.notes) == ("exact", ())
    half = (intervals.upper - intervals.lower) / 2
    # all draws at once, as so many trees side by side
    forest = np.concatenate([np.where(parent < 0, -1, parent + 8 * draw) for draw in range(400)])
    every = published(np.concatenate([truth] * 400), rng, law)
    found = combine_marginals(every, forest, domain=DOMAIN).marginal("race").reshape((400, 8, 3))
    hits = (np.abs(found - total(truth, ("race",))) <= half).mean(axis=2)
    for level in range(3):
        assert abs(hits[:, depth == level].mean() - 0.9) < 6 * 0.015 + 0.006


def test_consistency_of_gaussian_noise_is_chi_squared():
    hierarchy, truth = county()
    rng = np.random.default_rng(9)
    pvalues = [
        float(
            combine_marginals(published(truth, rng), hierarchy, domain=DOMAIN)
            .consistency_test()
            .pvalue
        )
        for _ in range(100)
    ]
    # uniform: the largest deviation of 100 draws exceeds 0.33 with probability below 1e-9
    ordered = np.sort(pvalues)
    assert np.abs(ordered - np.arange(1, 101) / 100).max() < 0.33


@pytest.mark.parametrize("block", [False, True])
def test_monte_carlo_consistency(block):
    hierarchy, truth = county()
    zeros = [StructuralZeros({"sex": "M", "race": "c"}, units=["02"])] if block else None
    if block:
        truth[hierarchy.positions(["02", "02001", "02002"]), 1, 2] = 0.0
    law = DiscreteGaussian(sigma=3.0)
    marginals = published(truth, np.random.default_rng(10), law)
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN, zeros=zeros)
    test = fit.consistency_test(reps=2000, rng=1)
    assert test.method == "monte-carlo"
    other = fit.consistency_test("asymptotic")
    assert float(test.statistic) == pytest.approx(float(other.statistic))
    # discrete Gaussian noise of σ = 3 is all but Gaussian: 6 standard errors of 2,000 draws
    assert abs(float(test.pvalue) - float(other.pvalue)) < 6 * 0.5 / np.sqrt(2000)
    with pytest.raises(InvalidParameterError, match="unless all noise is Gaussian"):
        fit.consistency_test("exact")


def test_a_wrong_value_stands_out():
    hierarchy, truth = county()
    marginals = published(truth, np.random.default_rng(11))
    marginals[2].values[3, 1, 0] += 100.0
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN)
    assert float(fit.consistency_test().pvalue) < 1e-6
    worst = fit.disagreements(3)
    assert worst.index[0] == (hierarchy.labels[3], "*", "b", False)
    assert worst.index.names == ["unit", "sex", "race", "adult"]
    first = worst.iloc[0]
    assert first["published"] == marginals[2].values[3, 1, 0]
    found = fit.marginal(("race", "adult"), [hierarchy.labels[3]]).to_numpy()[0, 2]
    assert first["estimate"] == pytest.approx(found)
    spread = fit.marginal_variance(("race", "adult"), [hierarchy.labels[3]]).to_numpy()[0, 2]
    assert first["std_err"] == pytest.approx(np.sqrt(4.0 - spread))
    assert (worst["z"].abs().diff().dropna() <= 0).all()
    assert worst.attrs["values"] == 168
    grouped = combine_marginals(
        marginals,
        hierarchy,
        domain=DOMAIN,
        groupings={"any": ("race", {"a": "ab", "b": "ab", "c": "c"})},
    )
    again = grouped.disagreements(3)
    assert again.index[0] == (hierarchy.labels[3], "*", "b", False, "*")
    np.testing.assert_allclose(again["z"], worst["z"], rtol=1e-9)


def test_all_values_are_compared_in_their_order():
    hierarchy, truth = county()
    marginals = published(truth, np.random.default_rng(12))
    fit = combine_marginals(marginals, hierarchy, domain=DOMAIN)
    frame = fit.disagreements(10_000)
    assert len(frame) == 168
    scores = []
    for one in marginals:
        own = fit.marginal(one.attributes).to_numpy().reshape(one.values.shape)
        spread = fit.marginal_variance(one.attributes).to_numpy().reshape(one.values.shape)
        scores.extend(((one.values - own) / np.sqrt(4.0 - spread)).ravel())
    np.testing.assert_allclose(np.sort(frame["z"]), np.sort(scores), rtol=1e-9, atol=1e-12)


def test_contrasts_have_labels_and_intervals():
    hierarchy, truth = county()
    fit = combine_marginals(published(truth, np.random.default_rng(13)), hierarchy, domain=DOMAIN)
    target = pd.DataFrame({"a": [1.0, 0.5], "b": [-1.0, 0.5]}, index=["difference", "mean"])
    found = fit.unit_contrast("01", target, "race")
    race = fit.marginal("race", ["01"]).iloc[0]
    assert found.estimate["difference"] == pytest.approx(race["a"] - race["b"])
    assert found.estimate["mean"] == pytest.approx((race["a"] + race["b"]) / 2)
    single = fit.unit_contrast("01", {"a": 1.0, "b": -1.0}, "race")
    assert single.estimate == pytest.approx(found.estimate["difference"])
    lower, upper = single.conf_int(0.05)
    assert (upper - lower) / 2 == pytest.approx(1.959963984540054 * single.std_err)
    assert list(found.conf_int(0.1).labels) == ["difference", "mean"]
    one = fit.unit_contrast("02001", np.eye(12)[5].reshape(DOMAIN.shape))
    assert one.estimate == pytest.approx(fit.table("02001").iloc[5])
    assert one.std_err == pytest.approx(
        fit.marginal_bse(DOMAIN.attributes, ["02001"]).iloc[0, 5], rel=1e-12
    )


def test_what_is_not_determined_is_said():
    by_race = NoisyMarginal("race", np.ones((1, 3)), NOISE, units=["01"])
    parent = {"": None, "01": "", "02": ""}
    fit = combine_marginals(by_race, parent, domain=DOMAIN)
    assert fit.marginal((), ["01"])["01"] == pytest.approx(3.0)
    with pytest.raises(NotEstimableError, match=r"the total of '', '02'"):
        fit.marginal()
    with pytest.raises(NotEstimableError, match=r"the marginal \('sex',\) of '01'"):
        fit.conf_int("sex", ["01"])
    with pytest.raises(NotEstimableError, match="function 1 of the cells of '01'"):
        fit.unit_contrast("01", [[1.0, 1.0], [1.0, -1.0]], "sex")
    loose = combine_marginals(by_race, parent, domain=DOMAIN, unestimable="nan")
    assert np.isnan(loose.marginal("race").loc["02"]).all()
    assert np.isinf(loose.marginal_bse("race").loc[""]).all()
    assert np.isnan(loose.unit_contrast("02", [1.0, 1.0, 1.0], "race").estimate)
    with pytest.raises(NotEstimableError, match="do not determine"):
        loose.conf_int("race")
    with pytest.raises(NotEstimableError, match="no overlapping values"):
        loose.consistency_test()
    assert loose.disagreements().empty


def test_groupings_and_zeros_agree_with_combine():
    rng = np.random.default_rng(14)
    domain = Domain({"quarters": ["house", "jail", "school"], "age": ["minor", "adult"]})
    groups = {"living": ("quarters", {"house": "own", "jail": "group", "school": "group"})}
    zeros = [StructuralZeros({"quarters": "jail", "age": ["minor"]})]
    values = [rng.normal(20.0, 5.0, (3, 2, 2)), rng.normal(20.0, 5.0, (3, 3, 2))]
    marginals = [
        NoisyMarginal(("age", "living"), values[0], NOISE),
        NoisyMarginal(("quarters", "age"), values[1], NOISE),
    ]
    fit = combine_marginals(marginals, [-1, 0, 0], domain=domain, groupings=groups, zeros=zeros)
    coarse = np.kron([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], np.eye(2))[[0, 2, 1, 3]]
    units = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    free = np.delete(np.eye(6), 2, axis=1)
    rows = np.concatenate([np.kron(units, coarse @ free), np.kron(units, free)])
    peer = combine(
        np.concatenate([values[0].ravel(), values[1].ravel()]),
        workload=rows,
        mechanism=NOISE,
        target=np.kron(units, np.eye(5)),
    )
    found = fit.marginal(domain.attributes).reshape((3, 6))
    np.testing.assert_allclose(found @ free, peer.params.reshape((3, 5)), rtol=1e-9)
    np.testing.assert_array_equal(found[:, 2], 0.0)
    spread = fit.marginal_bse(domain.attributes).reshape((3, 6))
    np.testing.assert_allclose(spread @ free, peer.bse.reshape((3, 5)), rtol=1e-9)
    assert (spread[:, 2] == 0.0).all()
    assert fit.marginal("living").shape == (3, 2)
    np.testing.assert_allclose(
        fit.marginal("living")[:, 1], fit.marginal("quarters")[:, 1:].sum(axis=1)
    )
