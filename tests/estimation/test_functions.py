"""Functions of fits by their labels: sums, contrasts, ratios, shares; by algebra and simulation."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation import NoisyMarginal

PARENT = pd.Series(
    {"s": None, "c1": "s", "c2": "s"} | {f"b{k}": "c1" if k < 3 else "c2" for k in range(6)}
)
DISTRICT = pd.Series({f"b{k}": "even" if k % 2 == 0 else "odd" for k in range(6)}, name="district")
BLOCKS = np.array(
    [
        [u == "s" or u == f"b{k}" or (u in ("c1", "c2") and PARENT[f"b{k}"] == u) for k in range(6)]
        for u in PARENT.index
    ],
    dtype=float,
)
TRUTH = np.array([40.0, 52.0, 61.0, 30.0, 77.0, 45.0])


def published(law, seed=1):
    noise = np.asarray(law.rvs(9, rng=np.random.default_rng(seed)), dtype=float)
    return pd.Series(BLOCKS @ TRUTH + noise, index=PARENT.index)


def tree(law, seed=1):
    return dpi.combine_hierarchy(published(law, seed), PARENT, mechanism=law)


def workload(law, seed=1):
    target = pd.DataFrame(BLOCKS, index=PARENT.index)
    return dpi.combine(published(law, seed), workload=BLOCKS, mechanism=law, target=target)


LAWS = [dpi.Laplace(scale=2.0), dpi.Gaussian(sigma=3.0), dpi.Geometric(scale=2.0)]


@pytest.mark.thinned("make", "law", every=2)
@pytest.mark.parametrize("make", [tree, workload])
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_sums_are_those_of_dense_algebra_and_of_unpublished_targets(make, law):
    fit = make(law)
    found = fit.sum(DISTRICT)
    rows = np.array([[DISTRICT.get(u) == g for u in PARENT.index] for g in ("even", "odd")], float)
    covariance = np.asarray(fit.cov_params())
    assert found.params.index.equals(pd.Index(["even", "odd"], name="district"))
    np.testing.assert_allclose(found.params, rows @ np.asarray(fit.params), rtol=1e-12)
    np.testing.assert_allclose(found.cov_params(), rows @ covariance @ rows.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(rows @ covariance @ rows.T)), rtol=1e-9)
    target = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
    other = dpi.combine(published(law), workload=BLOCKS, mechanism=law, target=target)
    np.testing.assert_allclose(found.conf_int(), other.conf_int(), rtol=1e-9)
    together = found.conf_int(simultaneous=True, rng=1)
    np.testing.assert_allclose(together, other.conf_int(simultaneous=True, rng=1), rtol=1e-9)
    # the same functions, asked for in other ways
    named = fit.sum({"even": ["b0", "b2", "b4"], "odd": ["b1", "b3", "b5"]})
    weights = fit.contrast(pd.DataFrame(rows[:, 3:], ["even", "odd"], list(DISTRICT.index)))
    mapped = fit.contrast(
        {"even": {"b0": 1, "b2": 1, "b4": 1}, "odd": pd.Series({"b1": 1, "b3": 1, "b5": 1})}
    )
    for one in (named, weights, mapped, fit.contrast(rows)):
        np.testing.assert_allclose(np.asarray(one.params), np.asarray(found.params), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(one.bse), np.asarray(found.bse), rtol=1e-12)
    single = fit.sum(["b0", "b2", "b4"])
    assert float(single.params) == pytest.approx(found.params["even"])
    assert single.noise().variance == pytest.approx(found.bse["even"] ** 2)
    assert found.conf_int(0.1, "envelope").width["odd"] > found.conf_int(0.1).width["odd"] * 0.999
    assert "Linear functions" in found.summary()
    assert list(found.summary_frame()) == ["estimate", "std_err", "ci_lower", "ci_upper"]


@pytest.mark.parametrize("make", [tree, workload])
def test_ratios_are_those_of_the_joint_law(make):
    law = dpi.Laplace(scale=2.0)
    fit = make(law)
    found = fit.share("b0", of=fit.sum(["b0", "b2", "b4"])).conf_int()
    direct = dpi.linear_ratio_confint(fit, {"b0": 1.0}, {"b0": 1.0, "b2": 1.0, "b4": 1.0})
    np.testing.assert_allclose(list(found), list(direct), rtol=1e-7)
    # ends by inversion: at them the difference has the tail probability 0.025
    for end in (float(found.lower), float(found.upper)):
        at = fit.contrast({"b0": 1 - end, "b2": -end, "b4": -end})
        assert at.noise().sf(abs(float(at.params))) == pytest.approx(0.025, rel=1e-6)
    near = fit.share("b0", of=fit.sum(["b0", "b2", "b4"])).conf_int(method="envelope")
    assert float(near.lower) <= float(found.lower) + 1e-9
    assert float(near.upper) >= float(found.upper) - 1e-9
    assert float(near.upper - near.lower) < 1.03 * float(found.upper - found.lower)
    assert "checked and not proved" in near.notes[0]


def test_gaussian_ratios_are_the_roots_of_fieller():
    fit = tree(dpi.Gaussian(sigma=3.0))
    share = fit.share(by=DISTRICT)
    found = share.conf_int(0.1)
    covariance, params = fit.cov_params(), fit.params
    q = 1.6448536269514722
    for unit, group in DISTRICT.items():
        members = list(DISTRICT.index[group == DISTRICT])
        a, b = params[unit], params[members].sum()
        v = covariance.loc[unit, unit]
        w, c = (
            covariance.loc[members, members].to_numpy().sum(),
            covariance.loc[unit, members].sum(),
        )
        roots = np.sort(np.roots([b**2 - q**2 * w, -2 * (a * b - q**2 * c), a**2 - q**2 * v]))
        assert (found.lower[unit], found.upper[unit]) == pytest.approx(tuple(roots), rel=1e-9)
        assert share.params[unit] == pytest.approx(a / b)
    np.testing.assert_allclose(list(share.conf_int(0.1, "asymptotic")), list(found), rtol=1e-12)
    # a denominator that may be 0
    wild = fit.ratio("s", {"b0": 1.0, "b1": -40 / 52}).conf_int()
    assert wild.kind in ("complement", "line")


def test_ratios_are_matched_by_label():
    fit = tree(LAWS[0])
    both = fit.ratio(fit.sum(DISTRICT), fit.sum(DISTRICT[::-1]))
    assert both.params.tolist() == [1.0, 1.0]
    assert fit.ratio(["b0", "b1"], "s").params.index.tolist() == ["b0", "b1"]
    assert fit.ratio("s", ["b0", "b1"]).params.index.tolist() == ["b0", "b1"]
    each = fit.ratio(["b0", "b1"], ["c1", "s"]).params
    assert each["b1"] == pytest.approx(fit.params["b1"] / fit.params["s"])
    some = fit.share(["b4", "b1"], by=DISTRICT)
    whole = fit.share(by=DISTRICT)
    assert some.params["b4"] == pytest.approx(whole.params["b4"])
    joint = whole.conf_int(simultaneous=True, method="envelope")
    alone = whole.conf_int(0.05 / 6, method="envelope")
    np.testing.assert_allclose(list(joint), list(alone), rtol=1e-12)
    assert joint.simultaneous


def test_cells_of_one_value_have_the_fast_exact_sets():
    values = pd.Series([60.25, 40.5, 30.75], index=list("abc"))
    fit = dpi.combine(values, mechanism=dpi.Laplace(scale=[1.0, 2.0, 3.0]))
    found = fit.ratio(["a", "b"], "c").conf_int()
    law = dpi.Laplace(scale=np.array([1.0, 2.0]))
    wanted = dpi.ratio_confint([60.25, 40.5], 30.75, mechanism=(law, dpi.Laplace(scale=3.0)))
    np.testing.assert_allclose(found.lower, wanted.lower, rtol=1e-9)
    np.testing.assert_allclose(found.upper, wanted.upper, rtol=1e-9)
    known = dpi.combine([10.25, 20.0], mechanism=[dpi.Laplace(scale=1.0), dpi.Exact()]).ratio(0, 1)
    for method in ("exact", "envelope"):
        lower, upper = known.conf_int(method=method)
        half = float(dpi.Laplace(scale=1.0).isf(0.025)) / 20
        assert float(upper - lower) == pytest.approx(2 * half, rel=2e-4)


def tables(law, seed=3):
    rng = np.random.default_rng(seed)
    domain = dpi.Domain({"sex": ["F", "M"], "age": ["young", "old", "older"]})
    parent = pd.Series({"top": None, "x": "top", "y": "top", "z": "top"})
    by_sex = pd.DataFrame(rng.normal(60, 9, (4, 2)), parent.index, ["F", "M"])
    full = rng.normal(20, 5, (4, 2, 3))
    return dpi.combine_marginals(
        [
            NoisyMarginal("sex", by_sex, law),
            NoisyMarginal(("sex", "age"), full, law, units=list(parent.index)),
            NoisyMarginal((), np.array([300.0]), law, units=["top"]),
        ],
        parent,
        domain=domain,
    )


def test_functions_of_tables_of_several_units():
    fit = tables(dpi.Laplace(scale=2.0))
    x = fit.__noisy__()
    covariance, labels = x.cov(), x.labels
    group = pd.Series({"x": "A", "y": "A", "z": "B"})
    to_group = {label: (group[label[0]], label[1]) for label in labels if label[0] != "top"}
    by_sex = fit.sum(to_group)
    totals = fit.sum({g: [label for label in labels if group.get(label[0]) == g] for g in "AB"})
    for found in (by_sex, totals):
        rows = found._named_of[1].coefficients.toarray()
        np.testing.assert_allclose(found.cov_params(), rows @ covariance @ rows.T, atol=1e-9)
        np.testing.assert_allclose(np.asarray(found.params), rows @ x.values, rtol=1e-12)
    # those of one unit are those of its own contrast
    one = fit.contrast({("x", "F", "old"): 1.0, ("x", "M", "old"): -1.0})
    old = fit.unit_contrast("x", {("F", "old"): 1.0, ("M", "old"): -1.0})
    assert float(one.params) == pytest.approx(float(old.estimate))
    np.testing.assert_allclose(list(one.conf_int()), list(old.conf_int()), rtol=1e-9)
    assert fit.sum("unit").params["x"] == pytest.approx(fit.marginal(())["x"])
    share = fit.share(fit.sum(["unit", "sex"]), of=fit.sum("unit"))
    assert share.params["x", "F"] == pytest.approx(
        fit.marginal("sex").loc["x", "F"] / fit.marginal(())["x"]
    )
    sets = share.conf_int(method="envelope")
    assert (sets.lower < share.params).all()
    assert (share.params < sets.upper).all()


def test_lazily_made_weights_give_the_same(monkeypatch):
    fit = tree(dpi.Laplace(scale=2.0))
    held = fit.share(by=DISTRICT).conf_int(method="envelope"), fit.sum(DISTRICT).conf_int()
    monkeypatch.setattr("dpinfer.estimation.functions._HELD", 0)
    made = fit.share(by=DISTRICT).conf_int(method="envelope"), fit.sum(DISTRICT).conf_int()
    for one, other in zip(held, made, strict=True):
        np.testing.assert_allclose(list(one), list(other), rtol=1e-9)


ROUGH = [
    dpi.Geometric(scale=2.0),
    dpi.DiscreteGaussian(sigma=2.0),
    [dpi.Geometric(scale=1.0)] + [dpi.Laplace(scale=2.0)] * 2 + [dpi.Geometric(scale=3.0)] * 6,
]


@pytest.mark.parametrize("law", ROUGH, ids=repr)
def test_exact_sets_of_whole_numbered_noise_end_where_the_law_does(law):
    """By the law of N - rD at the ends."""
    alpha = 0.05
    values = pd.Series(BLOCKS @ TRUTH + np.array([5, -3, 4, 2, -2, 0, 1, -4, 3]), PARENT.index)
    values += np.where(PARENT.index.isin(["c1", "c2"]), 0.25, 0.0) if isinstance(law, list) else 0.0
    fit = dpi.combine_hierarchy(values, PARENT, mechanism=law)
    top, bottom = {"b0": 1.0, "b4": 1.0}, {"c1": 1.0, "c2": 0.7}
    found = fit.ratio(top, bottom).conf_int(alpha)
    assert found.method == "exact"
    assert found.kind == "interval"

    def tail(r):
        difference = {"b0": 1.0, "b4": 1.0, "c1": -r, "c2": -0.7 * r}
        at = fit.contrast(difference)
        return float(at.noise().cdf(-abs(float(at.params))))

    ends = float(found.lower), float(found.upper)
    for end in ends:
        assert 0.495 * alpha < tail(end) <= 0.5 * alpha * (1 + 1e-4)
    outside = fit.ratio(top, bottom).conf_int(alpha, method="envelope")
    assert outside.lower <= found.lower <= found.upper <= outside.upper


def test_coverage_of_shares():
    """Share of a block in its district, 2,000 releases; by accident outside with chance 1e-7."""
    law = dpi.Laplace(scale=2.0)
    rng = np.random.default_rng(8)
    inside = 0
    fit = tree(law)
    weights = fit.share("b0", of=fit.sum(["b0", "b2", "b4"]))._noisy.weights.toarray()
    truth = np.array([40.0, 178.0])
    errors = law.rvs((2000, 9), rng=rng) @ weights.T
    estimate = truth + errors
    theta = truth[0] / truth[1]
    residual = np.abs(estimate[:, 0] - theta * estimate[:, 1])
    at = fit.contrast({"b0": 1 - theta, "b2": -theta, "b4": -theta})
    inside = int((residual <= float(at.noise().isf(0.025))).sum())
    assert abs(inside - 1900) < 5.4 * np.sqrt(95.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: fit.sum(None), "by must be given"),
        (lambda fit: fit.sum(["b9"]), "by must hold labels such as 's'"),
        (lambda fit: fit.contrast({"b9": 1.0}), "weights must hold labels"),
        (lambda fit: fit.contrast([1.0, 2.0]), "9 entries in each row"),
        (lambda fit: fit.contrast({"b0": "one"}), "weights"),
        (lambda fit: fit.ratio("b9", "b0"), "numerator must hold labels"),
        (lambda fit: fit.ratio("b0", ["b1", "b9"]), "denominator must hold labels"),
        (lambda fit: fit.ratio(["b0", "b1", "b2"], ["b1", "b2"]), "as many as"),
        (
            lambda fit: fit.ratio(fit.sum(DISTRICT), fit.sum({"z": ["b0"], "y": ["b1"]})),
            "levels of",
        ),
        (lambda fit: fit.ratio("b0", tree(LAWS[0]).sum(["b0"])), "of another one"),
        (lambda fit: fit.share("b0"), "of or by must be given"),
        (lambda fit: fit.share(of="s"), "part must be given"),
        (lambda fit: fit.share("s", by=DISTRICT), "has none"),
        (lambda fit: fit.share(by={"x": ["b0", "b1"], "y": ["b1"]}), "one group at most"),
        (lambda fit: fit.ratio("b0", "s").conf_int(method="normal"), "method must be"),
        (lambda fit: fit.ratio("b0", "s").conf_int(0.0), "alpha"),
        (lambda fit: fit.sum(["b0"]).conf_int(simultaneous=True, method="bound"), "method must be"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(tree(LAWS[0]))


def test_what_is_not_determined_is_refused():
    parent = pd.Series({"s": None, "a": "s", "b": "s"})
    fit = dpi.combine_hierarchy(
        pd.Series({"s": 10.0}), parent, mechanism=dpi.Laplace(scale=1.0), unestimable="nan"
    )
    with pytest.raises(NotEstimableError):
        fit.sum({"x": ["a"], "y": ["s"]})
    assert float(fit.contrast({"s": 2.0}).params) == 20.0


def test_many_districts_and_many_shares():
    rng = np.random.default_rng(2)
    blocks = 3000
    labels = pd.Index([f"b{k}" for k in range(blocks)])
    county = pd.Series([f"c{k}" for k in rng.integers(0, 30, blocks)], index=labels)
    parent = pd.concat([pd.Series({"s": None}), pd.Series("s", index=sorted(set(county))), county])
    law = dpi.Laplace(scale=2.0)
    truth = pd.concat([pd.Series({"s": 300.0 * blocks}), 300.0 * county.value_counts()])
    truth = pd.concat([truth, pd.Series(300.0, index=labels)]).reindex(parent.index)
    values = truth + law.rvs(len(parent), rng=rng)
    fit = dpi.combine_hierarchy(values, parent, mechanism=law)
    district = pd.Series(rng.integers(0, 40, blocks), index=labels)
    sums = fit.sum(district)
    few = sums.conf_int(method="envelope")
    exact = fit.sum({0: list(labels[district == 0])}).conf_int()
    assert few.width[0] == pytest.approx(exact.width[0], rel=1e-3)
    shares = fit.share(list(labels[:300]), by=district).conf_int()
    assert shares.method == "envelope"
    assert (shares.kind == "interval").all()


def test_totals_and_their_parts_are_not_added_up():
    sex = pd.Index(["F", "M"], name="sex")
    cells = pd.DataFrame({"old": [47.0, 38.0], "young": [39.0, 31.0]}, sex)
    cells.columns.name = "age"
    law = dpi.Geometric(scale=2)
    release = dpi.Release.from_tables([cells, cells.sum(axis=1), 155.0], mechanism=law)
    fit = dpi.combine(release)
    message = r"count the same, got \('F', 'old'\) and \('F', '\*'\)"
    for call in (fit.sum, lambda by: fit.share(by=by)):
        with pytest.raises(InvalidParameterError, match=message):
            call("sex")
    parts = [("F", "old"), ("F", "young")]
    assert float(fit.sum(parts).params) == pytest.approx(fit["F", "*"].params)
    # differences may use a total and its parts
    assert float(fit.contrast({("F", "*"): 1, parts[0]: -1}).params) == pytest.approx(
        fit[parts[1]].params
    )

    by_unit = tree(law)
    for by in (["b0", "c1"], ["s", "b5"], {"x": ["b3", "c1"], "y": ["b1", "c2", "s"]}):
        with pytest.raises(InvalidParameterError, match="count the same"):
            by_unit.sum(by)
    with pytest.raises(InvalidParameterError, match="got 'b0' and 's'"):
        by_unit.share(by=dict.fromkeys(["b0", "s"], 1))
    # in groups of their own they may be, as may units beside one another
    both = by_unit.sum({"block": ["b0", "b4"], "above": ["c1", "c2"], "mixed": ["c1", "b3"]})
    known = by_unit.params
    assert both.params.tolist() == pytest.approx(
        [known["b0"] + known["b4"], known["s"], known["c1"] + known["b3"]]
    )

    parent = pd.Series({"top": None, "a": "top", "b": "top"})
    nation = dpi.combine_marginals(
        [NoisyMarginal("sex", np.outer([4.0, 1.0, 2.0], [1, 2]), law)],
        parent,
        domain=dpi.Domain({"sex": ["F", "M"]}),
    )
    with pytest.raises(InvalidParameterError, match=r"got \('a', 'F'\) and \('top', 'F'\)"):
        nation.sum([("top", "F"), ("a", "F")])
    nation.sum([("top", "F"), ("a", "M")])


def test_parts_of_sums_are_functions_again():
    labels = pd.MultiIndex.from_product([["DE", "FR", "PL"], [1, 2]], names=["country", "week"])
    counts = pd.Series([61.3, 40.2, 30.9, 25.5, 80.4, 71.7], index=labels)
    fit = dpi.combine(counts, mechanism=dpi.Laplace(scale=1.0))
    sums = fit.sum("country")
    assert sums[["FR", "PL"]]["PL"].params == sums["PL"].params
    assert sums[1:][:1].params.index.to_list() == ["FR"]
    wanted = fit.ratio(fit.sum([("FR", 1), ("FR", 2)]), fit.sum([("PL", 1), ("PL", 2)])).conf_int()
    found = fit.ratio(sums["FR"], sums["PL"]).conf_int()
    np.testing.assert_allclose([found.lower, found.upper], [wanted.lower, wanted.upper], rtol=1e-9)
    both = fit.ratio(sums[["DE", "FR"]], sums["PL"])
    assert both.params.index.to_list() == ["DE", "FR"]
    parts = fit.share(fit["FR"], of=sums["FR"])
    np.testing.assert_allclose(parts.params.sum(), 1.0)
    first = fit.share(("FR", 1), of=fit.sum([("FR", 1), ("FR", 2)])).conf_int()
    assert parts.conf_int().lower.iloc[0] == pytest.approx(float(first.lower), rel=1e-9)
    with pytest.raises(InvalidParameterError, match="one row, which has no rows, got 'FR'"):
        sums["FR"]["FR"]


@pytest.mark.parametrize("method", ["exact", "envelope", "asymptotic"])
def test_the_ratio_of_a_sum_to_itself_is_one(method):
    fit = dpi.combine([3.2, -1.5, 0.1], mechanism=dpi.Laplace(scale=9.0))
    sums = fit.sum({"a": [0, 1], "b": [1, 2]})
    sets = fit.ratio(sums, fit.sum([0, 1])).conf_int(method=method)
    assert (sets.kind["a"], sets.lower["a"], sets.upper["a"]) == ("interval", 1.0, 1.0)
    assert sets.kind["b"] == "line"
    # the published sum b is below 0, and its one-sided set open on the other side
    above = fit.ratio(sums, sums).conf_int(method=method, alternative="larger")
    assert above.lower.tolist() == [1.0, -np.inf]
    assert above.upper.tolist() == [np.inf, 1.0]
