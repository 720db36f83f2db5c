import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from dpinfer import Laplace, Release, noisy
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import noisy_ols
from dpinfer.regression._formula import array_design
from dpinfer.regression._moments import Moments, Solution, noise_of_scores

RELEASE = Release(np.arange(9.0) * 7.0 + 0.3, mechanism=Laplace(scale=1.0))
SUMS = noisy(RELEASE).linear(np.tril(np.ones((9, 9))))
SELECTED = Release(np.arange(9.0) * 7.0 + 0.3, mechanism=Laplace(scale=1.0), threshold=0)


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    x = rng.normal(10.0, 2.0, 80)
    return pd.DataFrame(
        {"y": 1.0 + 2.0 * x + rng.normal(size=80), "x": x + rng.normal(0.0, 0.8, 80)}
    )


@pytest.fixture
def fit(frame):
    return noisy_ols("y ~ x", frame, noise={"x": Laplace(scale=0.5)})


def test_summary_frame_and_summary(fit):
    table = fit.summary_frame(0.1)
    assert list(table.columns) == [
        "estimate",
        "std_err",
        "t",
        "pvalue",
        "ci_lower",
        "ci_upper",
        "naive",
        "naive_std_err",
        "reliability",
    ]
    assert table["estimate"].to_list() == fit.params.to_list()
    assert table[["ci_lower", "ci_upper"]].to_numpy() == pytest.approx(
        np.asarray(fit.conf_int(0.1))
    )
    assert table["naive"].to_list() == fit.naive.params.to_list()
    assert table.attrs["uncertainty"] == "noise+sampling"
    text = fit.summary(0.1)
    assert str(fit) == fit.summary()
    for word in ("Response", "0.9", "HC3", "noise and sampling", "reliability", "naive"):
        assert word in text
    assert "80 rows" in repr(fit)
    z = noisy_ols(
        [1.0, 2, 4, 5], [[1, 0.1], [1, 1], [1, 2], [1, 3.5]], noise={"x1": 0.1}, use_t=False
    )
    assert "z" in z.summary_frame().columns


def test_pvalues_go_into_multipletests(fit):
    assert multipletests(fit.pvalues)[1] == pytest.approx(multipletests(fit.pvalues.to_numpy())[1])


def test_predict(fit, frame):
    assert fit.predict() is fit.fittedvalues
    assert fit.predict(frame).to_numpy() == pytest.approx(fit.fittedvalues.to_numpy())
    assert fit.predict(pd.DataFrame({"x": [3.0]})).iloc[0] == pytest.approx(
        fit.params["Intercept"] + 3.0 * fit.params["x"]
    )
    exog = np.column_stack([np.ones(80), frame["x"]])
    plain = noisy_ols(frame["y"].to_numpy(), exog, noise={"x1": 0.5})
    assert plain.predict(exog) == pytest.approx(plain.fittedvalues)
    assert plain.predict([1.0, 2.0]) == pytest.approx(plain.params @ [1.0, 2.0])
    labelled = noisy_ols(frame["y"], frame[["x"]], noise={"x": 0.5})
    assert labelled.predict(frame[["x"]]).to_numpy() == pytest.approx(labelled.fittedvalues)
    for bad in (np.ones((3, 4)), "x", [[np.nan, 1.0]], np.ones((2, 2, 2)), 5.0):
        with pytest.raises(InvalidParameterError, match="exog must"):
            plain.predict(bad)
    with pytest.raises(InvalidParameterError, match="must have the columns"):
        labelled.predict(frame[["y"]])


def test_hypotheses(fit):
    two = fit.t_test("x = 2")
    assert float(np.squeeze(two.tvalue)) == pytest.approx((fit.params["x"] - 2.0) / fit.bse["x"])
    contrast = fit.wald_test("x = 0, Intercept = 0")
    value = fit.params.to_numpy()
    expected = value @ np.linalg.solve(fit.cov_params().to_numpy(), value) / 2.0
    assert float(contrast.statistic) == pytest.approx(expected)
    for bad in ("nothing = 0", np.ones((1, 5)), object(), "x ="):
        for test in (fit.t_test, fit.wald_test):
            with pytest.raises(InvalidParameterError, match="r_matrix must"):
                test(bad)


def test_scale_is_free_of_noise():
    # 6 sigma of an estimated variance with 20,000 rows, the noise included
    rng = np.random.default_rng(2)
    x = rng.normal(size=20_000)
    law = Laplace(scale=0.4)
    y = 2.0 * x + rng.normal(0.0, 0.5, x.size) + law.rvs(x.size, rng=rng)
    exog = np.column_stack([np.ones(x.size), x + law.rvs(x.size, rng=rng)])
    fit = noisy_ols(y, exog, noise={"y": law, "x1": law})
    assert fit.scale == pytest.approx(0.25, abs=6.0 * np.sqrt(5.0 / x.size) * (0.25 + 5 * 0.32))
    assert fit.naive.scale > 1.0
    assert fit.reliability[1] == pytest.approx(1.0 / 1.32, abs=6.0 * 2.0 / np.sqrt(x.size))
    assert noisy_ols(2.0 * x, exog, noise={"x1": 0.7}).scale >= 0


def test_a_perfect_line():
    x = np.arange(6.0)
    fit = noisy_ols(2.0 * x, x[:, None], noise={"x1": 0.0})
    assert fit.params == pytest.approx([2.0])
    assert np.isfinite(fit.pvalues).all()
    flat = noisy_ols(0.0 * x, x[:, None], noise={"x1": 0.0})
    assert (flat.params[0], flat.tvalues[0], flat.pvalues[0]) == (0.0, 0.0, 1.0)
    assert noisy_ols(2.0 * x, x[:, None], noise={"x1": 0.1}, method="fuller").params[0] > 0


def test_copies_and_pickles(fit, frame):
    exog = frame.assign(Intercept=1.0)[["Intercept", "x"]]
    plain = noisy_ols(frame["y"].to_numpy(), exog.to_numpy(), noise={"x1": Laplace(scale=0.5)})
    for one in (fit, plain):
        for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert again.summary() == one.summary()
    again = pickle.loads(pickle.dumps(fit))
    assert again.predict(exog).to_numpy() == pytest.approx(fit.predict(frame).to_numpy())


def test_leaving_out_a_row_that_holds_everything():
    exog = np.column_stack([np.ones(20), np.r_[np.random.default_rng(3).normal(0, 1, 19), 40.0]])
    y = exog[:, 1]
    noisy_ols(y, exog, noise={"x1": 1.5})
    with pytest.raises(NotEstimableError, match="single row"):
        noisy_ols(y, exog, noise={"x1": 1.5}, cov_type="HC3")


def test_noise_of_the_scores_by_enumeration():
    """One row, all values of three-point noises: the estimate's mean is the scores' covariance."""
    beta = np.array([0.7, -1.3])
    truth = np.array([2.0, 1.5, -0.4])  # response and covariates
    points, chances = np.array([-2.0, 0.0, 2.0]), np.array([0.2, 0.6, 0.2])
    variance = float(chances @ points**2)
    excess = float(chances @ points**4) / variance**2 - 3.0
    total, scores, weights = np.zeros((2, 2)), [], []
    for index in np.ndindex(3, 3, 3):
        chance = chances[list(index)].prod()
        row = truth + points[list(index)]
        design = replace(
            array_design(
                np.r_[row[0], 1.0, 2.0],
                np.vstack([row[1:], np.eye(2)]),
                dict.fromkeys(["y", "x1", "x2"], np.r_[variance**0.5, 0.0, 0.0]),
                None,
            ),
            endog=np.r_[row[0], 0.0, 0.0],
            exog=np.vstack([row[1:], np.zeros((2, 2))]),
        )
        moments = Moments(
            design, 1.0, 1.0, np.eye(2), np.zeros(2), np.ones(3), np.eye(3), np.ones(3)
        )
        solution = Solution(moments, 1.0)
        solution.__dict__["coefficients"] = beta
        object.__setattr__(design.errors, "excess", lambda: np.full((1, 3), excess))
        total += chance * noise_of_scores(solution)
        scores.append(next(solution.scores())[1][0])
        weights.append(chance)
    scores, weights = np.array(scores), np.array(weights)
    mean = weights @ scores
    assert mean == pytest.approx(truth[1:] * (truth[0] - truth[1:] @ beta))
    covariance = (scores - mean).T @ ((scores - mean) * weights[:, None])
    assert total == pytest.approx(covariance)


def test_columns_bring_their_laws_and_what_they_share():
    rng = np.random.default_rng(8)
    law = Laplace(scale=2.0)
    size = 300
    men, women = rng.gamma(4.0, 10.0, (2, size))
    cases = 3.0 + 0.5 * men + 0.2 * women + rng.normal(0.0, 2.0, size)
    index = [f"area {i}" for i in range(size)]
    men, women = (pd.Series(x + law.rvs(size, rng=rng), index=index) for x in (men, women))
    plain = pd.DataFrame({"cases": cases, "men": men, "women": women}, index=index)
    asked = noisy_ols("cases ~ men + women", plain, noise={"men": law, "women": law})
    releases = {"men": Release(men, mechanism=law), "women": Release(women, mechanism=law)}
    found = noisy_ols("cases ~ men + women", {"cases": cases} | releases)
    pd.testing.assert_frame_equal(found.summary_frame(), asked.summary_frame())
    # all people and the women among them share the noise of the women
    m, w = noisy(releases["men"]), noisy(releases["women"])
    both = m.beside(w)
    people = both.linear(np.hstack([np.eye(size), np.eye(size)]))
    shared = noisy_ols(
        "cases ~ people + women", {"cases": cases, "people": people, "women": w.relabelled(None)}
    )
    table = pd.DataFrame({"cases": cases, "people": people.values, "women": w.values})
    stds = {"people": people.std, "women": w.std, ("people", "women"): w.variance}
    stated = noisy_ols("cases ~ people + women", table, noise=stds)
    pd.testing.assert_frame_equal(shared.summary_frame(), stated.summary_frame())
    # the same line in other words, by equivariance of the corrected moments
    np.testing.assert_allclose(
        shared.params.to_numpy(),
        [
            found.params["Intercept"],
            found.params["men"],
            found.params["women"] - found.params["men"],
        ],
        rtol=1e-8,
    )
    response = noisy_ols(releases["men"], plain[["women"]].assign(const=1.0), noise={"women": law})
    stated = noisy_ols(men, plain[["women"]].assign(const=1.0), noise={"women": law, "y": law})
    np.testing.assert_array_equal(response.params, stated.params)


@pytest.mark.parametrize(
    ("exog", "noise", "words"),
    [
        ({"x1": np.arange(9.0)}, None, "noise must be given"),
        ({"x1": RELEASE}, {"x1": 2.0}, "noise must leave out 'x1', which carries its own law"),
        ({"x1": RELEASE.select([0, 1, 2])}, None, "exog must have 9 entries"),
        ({"x1": SELECTED}, None, "noisy_ols does not take values that were selected"),
        (RELEASE, None, "exog must be a table, or a mapping"),
    ],
)
def test_columns_that_are_refused(exog, noise, words):
    with pytest.raises(InvalidParameterError, match=words):
        noisy_ols(np.arange(9.0), exog, noise=noise)


def test_intervals_of_coefficients_are_intervals():
    fit = noisy_ols(np.arange(9.0) % 4, {"const": np.ones(9), "x1": RELEASE})
    intervals = fit.conf_int(0.1)
    lower, upper = intervals
    assert list(lower.index) == ["const", "x1"]
    assert (lower < fit.params).all()
    assert (fit.params < upper).all()
    assert (intervals.alpha, intervals.uncertainty) == (0.1, "noise+sampling")
