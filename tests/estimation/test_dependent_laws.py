"""Laws of a fit know which noises they are about: dependence is used or refused, never ignored."""

import pickle

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import IndependentNoise

QUERIES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
NOISE = [dpi.Laplace(scale=6.0), dpi.Laplace(scale=6.0), dpi.Laplace(scale=1.0)]
RELEASE = dpi.Release([58.0, 43.0, 99.5], workload=QUERIES, mechanism=NOISE)
FIT = dpi.combine(RELEASE)
P = np.asarray(FIT.params)
E = [FIT.noise(row) for row in range(3)]
WEIGHTS = np.asarray(FIT.weights)


def same(found, wanted, rtol=1e-9):
    np.testing.assert_allclose(np.asarray(list(found)), np.asarray(list(wanted)), rtol=rtol)


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_ratios_of_estimates_are_those_of_linear_functions_of_the_release(method):
    def by_release(first, second):
        return dpi.linear_ratio_confint(
            RELEASE.values, first, second, mechanism=NOISE, method=method
        )

    how = {"mechanism": (E[0], E[1]), "method": method}
    share = by_release(WEIGHTS[0], WEIGHTS[0] + WEIGHTS[1])
    same(dpi.share_confint(P[0], P[1], **how), share)
    same(dpi.share_confint(P[0], total=P[2], mechanism=(E[0], E[2]), method=method), share)
    ratio = by_release(WEIGHTS[0], WEIGHTS[1])
    same(dpi.ratio_confint(P[0], P[1], **how), ratio)
    same(dpi.relative_change_confint(P[0], P[1], **how), [end - 1 for end in ratio], 1e-8)
    joint = dpi.linear_ratio_confint(P[:2], [1, 0], [1, 1], mechanism=E[:2], method=method)
    same(joint, share)


def test_rows_of_pairs_each_have_their_law():
    found = dpi.share_confint(P[:2], total=P[2], mechanism=(E[:2], E[2]))
    for row in range(2):
        one = dpi.share_confint(P[row], total=P[2], mechanism=(E[row], E[2]))
        same([found.lower[row], found.upper[row]], one)
    together = dpi.share_confint(P[:2], total=P[2], mechanism=(E[:2], E[2]), simultaneous=True)
    union = dpi.share_confint(P[:2], total=P[2], mechanism=(E[:2], E[2]), alpha=0.025)
    same(together, union)  # Šidák's level is for independent errors


def test_the_joint_law_covers_and_that_of_independent_errors_does_not():
    # at the true share the set is where (1-s)e₁ - s·e₂ is within its quantile: 200,000 draws of
    # the noise; 0.0025 is 5.7 standard errors of a coverage of .95: by accident once in 1e8
    drawn = np.column_stack([law.rvs(200_000, rng=seed) for seed, law in enumerate(NOISE)])
    errors = drawn @ WEIGHTS.T
    miss = np.abs(0.4 * errors[:, 0] - 0.6 * errors[:, 1])
    joint = dpi.WeightedSum([0.4, -0.6], E[:2])
    assert abs((miss <= joint.isf(0.025)).mean() - 0.95) < 0.0025
    apart = [dpi.WeightedSum(row, NOISE) for row in WEIGHTS[:2]]  # what a law alone says
    assert (miss <= dpi.WeightedSum([0.4, -0.6], apart).isf(0.025)).mean() < 0.88
    for side, inside in ((-1e-6, True), (1e-6, False)):
        beyond = (joint.isf(0.025) + side) / 0.4
        found = dpi.share_confint(60 + beyond, 40.0, mechanism=(E[0], E[1]))
        assert bool(found.contains(0.6)) is inside


def test_linear_functions_and_differences_use_the_dependence():
    contrasts = [[1.0, -1.0, 0.0], [1.0, 1.0, -1.0], [1.0, 1.0, 1.0]]
    found = dpi.linear_confint(P[:3], contrasts, mechanism=E)
    own = dpi.linear_confint(RELEASE.values, np.array(contrasts) @ WEIGHTS[:3], mechanism=NOISE)
    np.testing.assert_allclose(np.asarray(found), np.asarray(own), rtol=1e-9, atol=1e-9)
    assert found.width[1] < 1e-9  # they add up
    joint = dpi.linear_confint(P[:2], np.eye(2), mechanism=E[:2], simultaneous=True, rng=1)
    assert joint.mc_error > 0  # simulated, as they are not independent
    tests = [
        dpi.linear_ztest(P[:2], [1, -1], mechanism=E[:2]),
        dpi.linear_ztest(FIT, [1, -1, 0]),
        dpi.linear_ztest(RELEASE.values, WEIGHTS[0] - WEIGHTS[1], mechanism=NOISE),
    ]
    assert [float(test.pvalue) for test in tests] == pytest.approx([float(tests[2].pvalue)] * 3)
    rows = dpi.linear_ztest(FIT, [[1, -1, 0], [-1, 0, 1]])
    assert rows.pvalue[0] == pytest.approx(tests[0].pvalue)
    same(dpi.count_confint(P[:2], mechanism=E[:2]), FIT.conf_int().__array__()[:2].T)
    together = dpi.count_confint(P[:2], mechanism=E[:2], simultaneous=True, rng=1)
    assert together.mc_error > 0
    same(dpi.count_confint(FIT, simultaneous=True, rng=1), FIT.conf_int(simultaneous=True, rng=1))


def test_sums_of_laws_are_sums_of_noises():
    total = dpi.WeightedSum([1.0, 1.0], E[:2])
    assert total.std == pytest.approx(E[2].std)
    x = np.linspace(-4, 4, 9)
    np.testing.assert_allclose(total.cdf(x), E[2].cdf(x), atol=1e-12)
    assert dpi.WeightedSum([1.0, -1.0], [total, E[2]]).std == pytest.approx(0.0, abs=1e-7)
    apart = dpi.WeightedSum([1.0, -1.0, 1.0], [E[0], E[1], dpi.Gaussian(sigma=3.0)])
    again = dpi.WeightedSum([1.0, 1.0], [apart, E[1]])
    assert again.variance == pytest.approx(E[0].variance + 9.0)
    [same_row, other] = dpi.mechanisms.weighted_sums([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], E)
    assert (same_row.std, other.std) == pytest.approx((E[2].std, 2 * E[2].std))


def test_two_fits_of_one_release_and_its_selections_are_joined():
    part = dpi.combine(RELEASE.select([0, 1]))
    covariance = WEIGHTS[0, 0] * 72.0  # of the first estimate with the first published value
    difference = dpi.WeightedSum([1.0, -1.0], [E[0], part.noise(0)])
    assert difference.variance == pytest.approx(E[0].variance + 72.0 - 2 * covariance)
    copied = pickle.loads(pickle.dumps(E[1]))
    found = dpi.linear_ztest(P[:2], [1, -1], mechanism=[E[0], copied])
    assert found.pvalue == pytest.approx(dpi.linear_ztest(FIT, [1, -1, 0]).pvalue)
    # different values of one release are independent
    [one, other] = (dpi.combine(RELEASE.select([row])).noise(0) for row in (0, 1))
    assert IndependentNoise([one, other]).shape == (2,)
    again = dpi.combine([58.0, 43.0, 99.5], mechanism=NOISE)
    with pytest.raises(InvalidParameterError, match="two fits of equal values"):
        dpi.WeightedSum([1, -1], [E[0], again.noise(0)])


def test_published_values_beside_estimates():
    found = dpi.share_confint(58.0, total=P[2], mechanism=(RELEASE.noise(0), E[2]))
    by_release = dpi.linear_ratio_confint(RELEASE.values, [1, 0, 0], WEIGHTS[2], mechanism=NOISE)
    same(found, by_release)
    part = RELEASE.select([1, 2])
    assert dpi.WeightedSum([1, -1], [RELEASE.noise(1), E[1]]).variance == pytest.approx(
        dpi.WeightedSum([1, -1], [part.noise(0), E[1]]).variance
    )
    assert part.noise(1).variance == pytest.approx(2.0)
    ruled = dpi.Release(pd.Series({"a": 3.5, "b": 4.5}), mechanism=NOISE[0], threshold=3)
    with pytest.raises(InvalidParameterError, match="count_confint"):
        dpi.count_confint(3.5, mechanism=ruled.noise("a"))
    with pytest.raises(InvalidParameterError, match="labels of the release"):
        ruled.noise("c")


def test_values_of_a_selection_are_there_once():
    with pytest.raises(InvalidParameterError, match="each value once"):
        RELEASE.select([0, 0])


def test_hierarchies_know_their_noises():
    parent = pd.Series({"state": None, "north": "state", "south": "state"})
    values = pd.Series({"state": 106.0, "north": 61.0, "south": 39.0})
    law = dpi.Laplace(scale=2.0)
    fit = dpi.combine_hierarchy(values, parent, mechanism=law)
    shares = dpi.share_confint(
        fit.params["north"],
        fit.params["south"],
        mechanism=(fit.noise("north"), fit.noise("south")),
    )
    rows = fit.weights(["north", "south"])
    same(shares, dpi.linear_ratio_confint(values.values, rows[0], rows.sum(axis=0), mechanism=law))
    functions = fit.contrast([[0.0, 1.0, -1.0], [1.0, 0.0, 0.0]])
    total = dpi.WeightedSum([1.0, 1.0], [functions.noise(0), fit.noise("south")])
    assert total.variance == pytest.approx(fit.noise("north").variance)


INDEPENDENT_ONLY = {
    "one law for both": lambda: dpi.share_confint(P[0], P[1], mechanism=E[0]),
    "one estimate twice": lambda: dpi.ratio_confint(P[0], P[1], mechanism=(E[0], FIT.noise(0))),
    "one law for all": lambda: dpi.linear_confint(P[:2], [1, -1], mechanism=E[0]),
    "one of several totals": lambda: dpi.share_confint(
        P[:2], total=[P[2], P[2] + 1], mechanism=(E[:2], E[2])
    ),
    "joint law": lambda: IndependentNoise(E[:2]),
    "nested": lambda: dpi.linear_ztest(
        P[:2], [1, 1], mechanism=[IndependentNoise([E[0], dpi.Exact()]).take(0), E[0]]
    ),
    "release": lambda: dpi.combine(P[:2], mechanism=E[:2]),
    "hierarchy": lambda: dpi.combine_hierarchy(P, [2, 2, -1], mechanism=E),
    "proportions": lambda: dpi.proportions_2indep(P[0], 200, P[1], 200, mechanism=(E[0], E[1])),
    "nobs": lambda: dpi.proportion_confint(P[0], P[2], mechanism=E[0], nobs_mechanism=E[2]),
    "nobs of two": lambda: dpi.proportions_2indep(
        P[0], P[2], 3.0, 9.0, mechanism=(E[0], E[1]), nobs_mechanism=(E[2], E[2])
    ),
    "counts": lambda: dpi.counts_2indep(P[0], P[1], mechanism=(E[0], E[1])),
    "rates": lambda: dpi.poisson_2indep(P[0], 9.0, P[1], 9.0, mechanism=(E[0], E[1])),
    "tables": lambda: dpi.counts_paired(P[:2], [1.0, 2.0], mechanism=(E[:2], dpi.Exact())),
    "a value in all": lambda: dpi.counts_paired([4.0, 5.0], 3.0, mechanism=NOISE[0]),
    "tables of a release": lambda: dpi.Release.from_tables(
        [pd.Series({"F": P[0]}).rename_axis("sex"), pd.Series({"x": P[1]}).rename_axis("age")],
        mechanism=[E[0], E[1]],
    ),
    "marginals": lambda: dpi.combine_marginals(
        [dpi.estimation.NoisyMarginal((), P[[row]], E[row]) for row in (0, 1)],
        [-1],
        domain=dpi.Domain({"sex": ["F", "M"]}),
    ),
    "cells and their number": lambda: dpi.chi2_contingency(
        [[P[0], 9.0], [9.0, 9.0]],
        mechanism=[E[0], dpi.Exact(), dpi.Exact(), dpi.Exact()],
        nobs=P[2],
        nobs_mechanism=E[2],
    ),
    "risks": lambda: dpi.risk_ratio_confint(
        [[P[0], P[1]], [9.0, 9.0]], mechanism=[E[0], E[1], dpi.Exact(), dpi.Exact()]
    ),
    "columns": lambda: dpi.noisy_ols(
        [1.0, 2.0, 4.0, 3.0],
        pd.DataFrame({"a": [1.0, 3.0, 2.0, 4.0], "b": [P[0], 9.0, 8.0, 7.0]}),
        noise={"b": [E[0], *[dpi.Exact()] * 3], "a": [E[1], *[dpi.Exact()] * 3]},
    ),
    "rows": lambda: dpi.noisy_ols(
        [1.0, 2.0, 4.0],
        pd.DataFrame({"a": [P[0], P[1], 2.0]}),
        noise={"a": [E[0], E[1], dpi.Exact()]},
    ),
}


@pytest.mark.parametrize("call", INDEPENDENT_ONLY.values(), ids=INDEPENDENT_ONLY)
def test_dependence_is_never_ignored(call):
    with pytest.raises(
        InvalidParameterError,
        match=r"independent errors|that of one estimate|dependent$|noise of its own",
    ):
        call()
