"""Models of association: Goodman's figures, statsmodels and sums by hand, refusals, size."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.tools.numdiff import approx_hess_cs

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import association

COUNTS = np.array(
    [[64, 94, 58, 46], [57, 94, 54, 40], [57, 105, 65, 60], [72, 141, 77, 94], [36, 97, 54, 78],
     [21, 71, 54, 71]]
)  # fmt: skip
TABLE = pd.DataFrame(COUNTS, list("ABCDEF"), ["well", "mild", "moderate", "impaired"])
TABLE = TABLE.rename_axis("status", axis=0).rename_axis("health", axis=1)
LAW = dpi.Geometric(scale=3.0)
NOISY = TABLE + LAW.rvs(TABLE.shape, rng=1)
CELLS = pd.Series(NOISY.to_numpy().ravel(), pd.MultiIndex.from_product(TABLE.axes))


@pytest.mark.parametrize(
    ("model", "deviance", "degrees"),
    [("independence", 47.42, 15), ("uniform", 9.90, 14), ("row", 6.83, 10), ("column", 6.28, 12),
     ("rc", 3.57, 8)],
)  # fmt: skip
def test_mental_health_and_status(model, deviance, degrees):
    """Goodman (1979), tables 1 and 6; Agresti (2013), section 10.5."""
    fit = association(TABLE, model, mechanism=dpi.Exact())
    test = fit.test(statistic="lr", method="asymptotic")
    assert test.statistic == pytest.approx(deviance, abs=0.006)
    assert test.pvalue == pytest.approx(stats.chi2.sf(test.statistic, degrees), rel=1e-9)
    mean = np.asarray(fit.fittedvalues).reshape(6, 4)
    pearson = np.square(COUNTS - mean) / mean
    score = fit.test(method="asymptotic")
    assert score.statistic == pytest.approx(pearson.sum(), rel=1e-9)


def glm(*columns):
    """The coefficients, standard errors and deviance of a Poisson model with main effects."""
    main = [np.kron(np.eye(6), np.ones((4, 1))), np.kron(np.ones((6, 1)), np.eye(4))[:, 1:]]
    exog = np.column_stack([*main, *columns])
    fit = sm.GLM(COUNTS.ravel(), exog, family=sm.families.Poisson()).fit(tol=1e-14)
    return fit.params[9:], fit.bse[9:], fit.deviance


@pytest.mark.parametrize("model", ["uniform", "row", "column"])
def test_given_scores_without_noise_are_statsmodels(model):
    x, y = np.array([0.0, 1.0, 1.5, 2.0, 4.0, 4.5]), np.array([3.0, 2.0, 0.0, -1.0])
    if model == "uniform":
        y = np.arange(4)
    scores = {"row_scores": dict(zip(TABLE.index, x, strict=True))}
    scores |= {} if model == "uniform" else {"column_scores": y}
    fit = association(TABLE, model, mechanism=dpi.Exact(), **scores)
    columns = {
        "uniform": np.kron(x, y),
        "row": np.kron(np.eye(6)[:, :5] - np.eye(6)[:, 5:].sum(axis=1)[:, None], y[:, None]),
        "column": np.kron(x[:, None], np.eye(4)[:, :3] - np.eye(4)[:, 3:].sum(axis=1)[:, None]),
    }[model]
    params, bse, deviance = glm(columns)
    size = len(params)
    np.testing.assert_allclose(fit.params.iloc[:size], params, atol=1e-8)
    np.testing.assert_allclose(fit.bse.iloc[:size], bse, rtol=1e-7)
    if model != "uniform":
        assert fit.params.sum() == pytest.approx(0, abs=1e-12)
    assert fit.test(statistic="lr", method="asymptotic").statistic == pytest.approx(deviance)


def test_multiplicative_scores_without_noise_are_alternating_glms():
    fit = association(TABLE, "rc", mechanism=dpi.Exact())
    v = np.arange(4.0)
    for _ in range(30):
        u = np.append(0.0, glm(np.kron(np.eye(6)[:, 1:], v[:, None]))[0])
        v = np.append(0.0, glm(np.kron(u[:, None], np.eye(4)[:, 1:]))[0])
    deviance = glm(np.kron(u, v))[2]
    u, v = u - u.mean(), v - v.mean()
    phi = np.linalg.norm(u) * np.linalg.norm(v)
    sign = np.sign(u[-1])
    theirs = np.concatenate([[phi], sign * u / np.linalg.norm(u), sign * v / np.linalg.norm(v)])
    np.testing.assert_allclose(fit.params, theirs, atol=1e-6)
    assert fit.test(statistic="lr", method="asymptotic").statistic == pytest.approx(deviance)
    mean = np.asarray(fit.fittedvalues).reshape(6, 4)
    rows, columns = mean.sum(axis=1) / mean.sum(), mean.sum(axis=0) / mean.sum()
    u, v = fit.params.to_numpy()[1:7], fit.params.to_numpy()[7:]
    u, v = u - rows @ u, v - columns @ v  # as Agresti has them
    np.testing.assert_allclose(
        u / np.sqrt(rows @ u**2), [-1.11, -1.12, -0.37, 0.03, 1.01, 1.82], atol=0.005
    )
    np.testing.assert_allclose(v / np.sqrt(columns @ v**2), [-1.68, -0.14, 0.14, 1.41], atol=0.005)


def loss(theta, y, law):
    """Minus the log-likelihood for main effects, φ, u and v, by a sum over counts."""
    u, v = theta[11:17], theta[17:]
    eta = theta[:6, None] + theta[None, 6:10] + theta[10] * np.multiply.outer(u, v)
    if isinstance(law, dpi.Exact):
        return -(y * eta - np.exp(eta)).sum()
    f = np.arange(500.0)
    noise = law.pmf(y[..., None] - f)
    fact = np.append(0.0, np.cumsum(np.log(np.arange(1.0, 500.0))))
    mass = np.exp(f * eta[..., None] - np.exp(eta)[..., None] - fact)
    return -np.log((mass * noise).sum(axis=-1)).sum()


@pytest.mark.parametrize("law", [dpi.Exact(), LAW])
def test_standard_errors_of_scores_are_those_under_their_constraints(law):
    """The bordered information: curvature by complex steps, constraints by hand."""
    table = TABLE if isinstance(law, dpi.Exact) else NOISY
    fit = association(table, "rc", mechanism=law)
    phi, u, v = np.split(fit.params.to_numpy(), [1, 7])
    rest = np.log(np.asarray(fit.fittedvalues).reshape(6, 4)) - phi * np.multiply.outer(u, v)
    theta = np.concatenate([rest.mean(axis=1), rest.mean(axis=0) - rest.mean(), phi, u, v])
    y = table.to_numpy(dtype=float)
    value = loss(theta, y, law)
    if not isinstance(law, dpi.Exact):
        assert fit.llf == pytest.approx(-value, rel=1e-10)
    turn = np.random.default_rng(1).normal(size=(40, 21)) * 1e-3
    assert min(loss(theta + one, y, law) for one in turn) > value
    information = approx_hess_cs(theta, loss, args=(y, law))
    borders = np.zeros((5, 21))
    borders[0, 6:10] = 1.0
    borders[1, 11:17] = borders[2, 17:] = 1.0
    # along their own direction scores do not move, which is a constraint on (φ, u, v) jointly
    borders[3, 11:17], borders[4, 17:] = u, v
    whole = np.block([[information, borders.T], [borders, np.zeros((5, 5))]])
    np.testing.assert_allclose(
        fit.cov_params(), np.linalg.inv(whole)[10:21, 10:21], rtol=2e-3, atol=2e-6
    )


def test_labels_and_order_do_not_matter():
    fit = association(NOISY, "rc", mechanism=LAW)
    mixed = CELLS.sample(frac=1.0, random_state=3)
    rows = {level: k for k, level in enumerate(TABLE.index)}
    other = association(mixed, "rc", row_scores=rows, mechanism=LAW)
    assert other.params["association"] == pytest.approx(fit.params["association"], rel=1e-8)
    pd.testing.assert_series_equal(
        other.params.sort_index(), fit.params.sort_index(), rtol=1e-6, check_names=False
    )
    turned = association(NOISY.T, "rc", row_scores=range(4), mechanism=LAW)
    assert turned.llf == pytest.approx(fit.llf, rel=1e-10)
    pd.testing.assert_series_equal(turned.params.reindex(fit.params.index), fit.params, rtol=1e-6)
    plain = association(NOISY.to_numpy(), "rc", mechanism=LAW)
    np.testing.assert_allclose(plain.params, fit.params, rtol=1e-9)
    assert plain.params.index[1] == "row[0]"
    released = association(dpi.Release(NOISY, mechanism=LAW), "uniform")
    assert "status" not in released.params.index[0]
    assert len(fit.summary_frame()) == 11


def test_likelihood_ratios_are_between_fits():
    fits = {m: association(NOISY, m, mechanism=LAW) for m in ("independence", "uniform", "rc")}
    ratio = fits["uniform"].test("rc", statistic="lr", method="asymptotic")
    assert ratio.statistic == pytest.approx(2 * (fits["rc"].llf - fits["uniform"].llf), rel=1e-8)
    one, two = (fits["independence"].test("rc", statistic="lr", reps=9, rng=2) for _ in range(2))
    assert one.pvalue == two.pvalue == 0.1
    assert one.statistic == pytest.approx(2 * (fits["rc"].llf - fits["independence"].llf))
    whole = fits["rc"].test(statistic="lr", reps=9, rng=2)
    limit = fits["rc"].test(statistic="lr", method="asymptotic")
    assert abs(whole.pvalue - limit.pvalue) < 0.8  # 10 replicates: a chance below 1e-7
    assert whole.mc_error > 0


def test_the_score_test_of_scores_is_along_rows_and_columns():
    """At uniform association the multiplicative model moves by row and column effects."""
    fit = association(TABLE, "uniform", mechanism=dpi.Exact())
    mean, x, y = np.asarray(fit.fittedvalues), np.arange(6.0), np.arange(4.0)
    main = np.column_stack([np.kron(np.eye(6), np.ones((4, 1))), np.tile(np.eye(4), (6, 1))])
    more = [np.kron(np.eye(6), y[:, None]), np.kron(x[:, None], np.eye(4))]
    columns = np.sqrt(mean)[:, None] * np.column_stack([main, *more])
    z = (COUNTS.ravel() - mean) / np.sqrt(mean)
    along = columns @ np.linalg.lstsq(columns, z, rcond=1e-9)[0]
    found = fit.test("rc", method="asymptotic")
    assert found.statistic == pytest.approx(along @ along, rel=1e-9)
    assert found.pvalue == pytest.approx(stats.chi2.sf(along @ along, 6), rel=1e-8)


def test_the_saturated_model_has_a_mean_for_each_cell():
    law = dpi.Laplace(scale=4.0)
    small = pd.DataFrame([[3.0, 1.0, -1.5], [6.0, 9.0, 4.0], [2.0, 8.0, 12.0]])
    fit = association(small, "independence", mechanism=law)
    found = fit.test(statistic="lr", method="asymptotic").statistic
    means, f = np.linspace(1e-6, 40.0, 4001), np.arange(120.0)
    mass = stats.poisson.pmf(f, means[:, None])
    best = sum(np.log((mass @ law.pdf(y - f)).max()) for y in small.to_numpy().ravel())
    assert found == pytest.approx(2 * (best - fit.llf), abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "rc", "table": COUNTS[:2]}, "three of each"),
        ({"table": COUNTS.ravel()}, "two levels, the two attributes"),
        ({"table": CELLS.iloc[1:]}, "each of 6 x 4 cells once"),
        ({"table": COUNTS[:1]}, "two levels of each"),
        ({"row_scores": [1, 2, 3]}, "one for each of 6 levels"),
        ({"row_scores": {"A": 1}, "table": TABLE}, "row_scores must have one for 'B'"),
        ({"column_scores": [2, 2, 2, 2]}, "differ between levels"),
        ({"model": "additive"}, "model must be"),
    ],
)
def test_refusals(change, message):
    call = {"table": COUNTS, "model": "uniform", "mechanism": LAW} | change
    with pytest.raises(InvalidParameterError, match=message):
        association(**call)


def test_refusals_of_tests():
    null = association(COUNTS, "independence", mechanism=LAW)
    for how in ({"statistic": "score"}, {"statistic": "lr", "method": "asymptotic"}):
        with pytest.raises(InvalidParameterError, match="not identified under independence"):
            null.test("rc", **how)
    with pytest.raises(InvalidParameterError, match="one that holds 'rc'"):
        association(COUNTS, "rc", mechanism=LAW).test("row")
    with pytest.raises(InvalidParameterError, match="as many in a table of 4"):
        association(COUNTS[:2, :2], "uniform", mechanism=LAW).test()
    empty = COUNTS * np.array([[1], [1], [1], [1], [1], [-1]])
    with pytest.raises(NotEstimableError, match="estimated as 0"):
        association(empty, "uniform", mechanism=LAW)


@pytest.mark.parametrize("law", [dpi.Exact(), LAW])
def test_ends_of_scores_are_where_their_ratio_to_the_association_is_z(law):
    fit = association(TABLE if isinstance(law, dpi.Exact) else NOISY, "rc", mechanism=law)
    params, covariance = (np.asarray(x) for x in (fit.params, fit.cov_params()))
    phi, variance = params[0], np.diagonal(covariance)
    below, above = map(np.asarray, fit.conf_int(0.1))
    z = stats.norm.isf(0.05)
    np.testing.assert_allclose([phi - below[0], above[0] - phi], z * fit.bse.iloc[0], rtol=1e-9)
    strength, most = phi**2 / variance[0] - 7.0, np.sqrt(1.0 - 1.0 / np.repeat([6, 4], [7, 4]))
    for k in range(1, 11):
        lost = 2.0 if k <= 6 else 4.0
        jacobian = np.array([params[k], phi])  # of φu
        for t, pvalue in [(below[k], 0.1), (above[k], 0.1), (0.0, fit.pvalues.iloc[k])]:
            both = covariance[np.ix_([0, k], [0, k])]
            both = both * [[phi**2 / strength / variance[0], 1.0], [1.0, 1.0]]
            along = jacobian - [t, 0.0]
            ratio = (phi * (params[k] - t)) ** 2 / (along @ both @ along)
            ratio = ratio / (1.0 + lost / strength)
            found = 2.0 * stats.norm.sf(np.sqrt(ratio))
            if abs(t) < most[k] * (1.0 - 1e-12):
                assert found == pytest.approx(pvalue, rel=1e-6)
            else:
                assert found > pvalue


def test_a_weak_association_leaves_all_scores():
    fit = association(np.round(COUNTS / 8), "rc", mechanism=LAW)
    ends = np.asarray(fit.conf_int())[1:]
    most = np.sqrt(1.0 - 1.0 / np.repeat([6, 4], [6, 4]))
    np.testing.assert_allclose(ends, most[:, None] * [-1.0, 1.0], rtol=1e-12)
    assert (fit.pvalues[1:] > 0.05).all()


@pytest.mark.slow
def test_intervals_of_scores_cover():
    """Each score in more than 52 of 70 tables: of 95 %, 52 have a chance of 7e-9."""
    rng = np.random.default_rng(21)
    whole = association(COUNTS, "rc", mechanism=dpi.Exact())
    mean = np.asarray(whole.fittedvalues).reshape(6, 4)
    covered, wald = np.zeros(10), np.zeros(10)
    for _ in range(70):
        counts = rng.poisson(mean) + dpi.Geometric(scale=3.0).rvs((6, 4), rng=rng)
        fit = association(counts, "rc", mechanism=dpi.Geometric(scale=3.0))
        below, above = (np.asarray(x)[1:] for x in fit.conf_int())
        truth = np.asarray(whole.params)[1:]
        covered += (below <= truth) & (truth <= above)
        wald += np.abs(np.asarray(fit.params)[1:] - truth) <= 1.96 * np.asarray(fit.bse)[1:]
    assert (covered > 52).all()
    assert wald.sum() < covered.sum()


def test_a_weak_association_is_said():
    rows, columns = COUNTS.sum(axis=1), COUNTS.sum(axis=0)
    none = np.round(np.multiply.outer(rows, columns) / COUNTS.sum())
    fit = association(none, "rc", mechanism=LAW)
    assert "hardly identified" in fit.notes[-1]


@pytest.mark.slow
def test_size_of_the_test_of_uniform_association():
    """70 tables: rejections at 5 % are within the 1e-7 quantiles of their binomial law."""
    rng = np.random.default_rng(8)
    mean = np.asarray(association(COUNTS, "uniform", mechanism=dpi.Exact()).fittedvalues)
    rejected = np.zeros(2)
    for _ in range(70):
        counts = rng.poisson(mean.reshape(6, 4)) + LAW.rvs((6, 4), rng=rng)
        fit = association(counts, "uniform", mechanism=LAW)
        rejected[0] += fit.test(method="asymptotic").pvalue < 0.05
        rejected[1] += fit.test("rc", method="asymptotic").pvalue < 0.05
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], 70, 0.05)
    assert (low <= rejected).all()
    assert (rejected < high).all()
