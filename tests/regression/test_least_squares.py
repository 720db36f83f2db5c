import tracemalloc

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from dpinfer import DiscreteGaussian, Gaussian, Laplace
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import noisy_ols


def table(n, rng, *, slope=2.0):
    x = rng.normal(3.0, 1.0, n)
    z = 0.5 * x + rng.normal(size=n)
    y = 1.0 + slope * x - z + rng.normal(size=n) * (1.0 + 0.5 * (z > 1))
    return y, np.column_stack([np.ones(n), x, z])


@pytest.mark.thinned("method", "use_t", "weighted", "cov_type", every=2)
@pytest.mark.parametrize("method", ["moments", "fuller"])
@pytest.mark.parametrize("use_t", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC3", "cluster"])
def test_without_noise_it_is_statsmodels(cov_type, weighted, use_t, method):
    rng = np.random.default_rng(1)
    y, exog = table(40, rng)
    weights = rng.uniform(0.5, 3.0, 40) if weighted else None
    groups = np.repeat(["a", "b", "c", "d", "e"], 8) if cov_type == "cluster" else None
    fit = noisy_ols(
        y,
        exog,
        noise={"x1": 0.0, "y": 0.0},
        weights=weights,
        cov_type=cov_type,
        groups=groups,
        use_t=use_t,
        method=method,
    )
    details = {"groups": np.repeat(np.arange(5), 8)} if cov_type == "cluster" else None
    model = sm.WLS(y, exog, weights=1.0 if weights is None else weights)
    peer = model.fit(cov_type=cov_type, cov_kwds=details, use_t=use_t)
    for name in ("params", "bse", "tvalues", "pvalues", "resid", "fittedvalues", "scale"):
        assert getattr(fit, name) == pytest.approx(getattr(peer, name), rel=1e-9), name
    assert fit.cov_params() == pytest.approx(peer.cov_params(), rel=1e-9)
    assert np.asarray(fit.conf_int(0.1)) == pytest.approx(peer.conf_int(0.1), rel=1e-9)
    assert (fit.nobs, fit.df_resid) == (peer.nobs, peer.df_resid)
    for test in ("t_test", "wald_test"):
        hypotheses = np.eye(3)[1:]
        details = {"scalar": True} if test == "wald_test" else {}
        ours, theirs = getattr(fit, test)(hypotheses), getattr(peer, test)(hypotheses, **details)
        assert ours.pvalue == pytest.approx(theirs.pvalue, rel=1e-7)
    assert np.all(fit.reliability == 1)
    assert fit.naive.params == pytest.approx(peer.params)


@pytest.mark.parametrize("std", [1e-3, 1e-6])
def test_little_noise_is_nearly_statsmodels(std):
    y, exog = table(60, np.random.default_rng(2))
    fit = noisy_ols(y, exog, noise={"y": std, "x1": std, "x2": std})
    assert fit.params == pytest.approx(fit.naive.params, rel=100 * std**2)
    assert fit.bse == pytest.approx(fit.naive.bse, rel=100 * std**2)


def written_out(y, exog, weights, errors, factor, cov_type):
    """The formulas, a row at a time; errors are those of (y, x), all x but the constant noisy."""
    rest = 1.0 - weights / weights.sum()
    left = sum(
        w * (np.outer(x, x) - factor * one * e[1:, 1:])
        for w, one, x, e in zip(weights, rest, exog, errors, strict=True)
    )
    right = sum(
        w * (x * r - factor * one * e[1:, 0])
        for w, one, x, r, e in zip(weights, rest, exog, y, errors, strict=True)
    )
    beta = np.linalg.solve(left, right)
    contrast = np.r_[1.0, -beta]
    scores = [
        w * (x * (r - x @ beta) - factor * one * e[1:] @ contrast)
        for w, one, x, r, e in zip(weights, rest, exog, y, errors, strict=True)
    ]
    inverse = np.linalg.inv(left)
    n, p = exog.shape
    if cov_type == "HC3":  # by leaving out each row in turn
        changes = []
        for w, x, r, e in zip(weights, exog, y, errors, strict=True):
            without = left - w * (np.outer(x, x) - factor * e[1:, 1:])
            rest = right - w * (x * r - factor * e[1:, 0])
            changes.append(np.linalg.solve(without, rest) - beta)
        return beta, sum(np.outer(c, c) for c in changes)
    meat = sum(np.outer(s, s) for s in scores)
    return beta, inverse @ meat @ inverse * (n / (n - p) if cov_type == "HC1" else 1.0)


@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC3"])
def test_against_the_formulas_written_out(cov_type):
    rng = np.random.default_rng(3)
    y, exog = table(50, rng)
    weights = rng.uniform(0.5, 2.0, 50)
    sy, s1, s2 = 0.5, rng.uniform(0.2, 0.6, 50), Laplace(scale=0.2)
    cov = 0.3 * sy * s1
    errors = np.zeros((50, 4, 4))
    errors[:, 0, 0], errors[:, 2, 2], errors[:, 3, 3] = sy**2, s1**2, s2.variance
    errors[:, 0, 2] = errors[:, 2, 0] = cov
    noise = {"y": sy, "x1": s1, "x2": s2, ("x1", "y"): cov}
    beta, covariance = written_out(y, exog, weights, errors, 1.0, cov_type)
    fit = noisy_ols(y, exog, noise=noise, weights=weights, cov_type=cov_type)
    assert fit.params == pytest.approx(beta)
    assert fit.cov_params() == pytest.approx(covariance)

    held = weights * (1.0 - weights / weights.sum())
    total = np.einsum("i,ijk->jk", held, errors)[2:, 2:]
    moments = (exog * weights[:, None]).T @ exog
    inner = moments[1:, 1:] - np.outer(moments[1:, 0], moments[0, 1:]) / moments[0, 0]
    root = np.linalg.eigvals(np.linalg.solve(total, inner)).real.min()
    factor = min(1.0, root - 1.0 / 49) - 3.0 / 49
    beta, covariance = written_out(y, exog, weights, errors, factor, cov_type)
    fit = noisy_ols(y, exog, noise=noise, weights=weights, cov_type=cov_type, method="fuller")
    assert fit.params == pytest.approx(beta)
    assert fit.cov_params() == pytest.approx(covariance)


def test_attenuation_takes_the_corrected_coefficients_to_the_naive_ones():
    rng = np.random.default_rng(4)
    y, exog = table(200, rng)
    fit = noisy_ols(y, exog, noise={"x1": 0.5, "x2": 0.3}, weights=rng.uniform(1, 2, 200))
    assert fit.attenuation @ fit.params == pytest.approx(fit.naive.params)
    # one noisy covariate: its coefficient is multiplied with its reliability
    fit = noisy_ols(y, exog[:, :2], noise={"x1": 0.5})
    assert fit.reliability[1] * fit.params[1] == pytest.approx(fit.naive.params[1])
    spread = exog[:, 1].var(ddof=1)
    assert fit.reliability == pytest.approx([1.0, (spread - 0.25) / spread])
    # errors shared with the response are added to that
    fit = noisy_ols(y, exog[:, :2], noise={"x1": 0.5, "y": 0.4, ("x1", "y"): 0.15})
    extra = 0.15 / spread
    assert fit.reliability[1] * fit.params[1] + extra == pytest.approx(fit.naive.params[1])


def test_only_the_response_is_noisy():
    y, exog = table(80, np.random.default_rng(5))
    fit = noisy_ols(y, exog, noise={"y": 1.0})
    assert fit.params == pytest.approx(fit.naive.params)
    assert fit.bse == pytest.approx(fit.naive.bse)
    assert fit.scale == pytest.approx(fit.naive.scale - 1.0)


@pytest.mark.parametrize("method", ["moments", "fuller"])
def test_units_shifts_and_order_do_not_matter(method):
    rng = np.random.default_rng(6)
    y, exog = table(50, rng)
    fit = noisy_ols(y, exog, noise={"x1": 0.4, "y": 0.2}, method=method)
    order = rng.permutation(50)
    again = noisy_ols(y[order], exog[order], noise={"x1": 0.4, "y": 0.2}, method=method)
    assert again.params == pytest.approx(fit.params)
    assert again.bse == pytest.approx(fit.bse)
    moved = exog * [1.0, 1e-3, 1e4] + [0.0, 10.0, 0.0]
    again = noisy_ols(1e5 * y, moved, noise={"x1": 4e-4, "y": 2e4}, method=method)
    assert again.params[1:] == pytest.approx(fit.params[1:] * 1e5 / [1e-3, 1e4], rel=1e-5)
    assert again.bse[1:] == pytest.approx(fit.bse[1:] * 1e5 / [1e-3, 1e4], rel=1e-5)


def test_memory_is_that_of_a_copy_of_the_data():
    rng = np.random.default_rng(14)
    y, exog = rng.normal(size=30_000), rng.normal(size=(30_000, 12))
    noise = {"x1": rng.uniform(0.1, 0.3, 30_000), "x2": Laplace(scale=0.1), "y": 0.2}
    for options in ({}, {"cov_type": "HC3"}, {"uncertainty": "noise"}):
        noisy_ols(y[:100], exog[:100], noise={"x1": 0.1}, **options)  # what is imported at first
        tracemalloc.start()
        noisy_ols(y, exog, noise=noise, **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3.0 * exog.nbytes  # a copy, errors by row, and a block of 4,096 rows


def test_columns_are_named_as_by_statsmodels():
    y, exog = table(12, np.random.default_rng(15))
    for columns in (exog, exog[:, ::-1], exog[:, 1:], np.column_stack([exog[:, 1:], 0 * y + 0.1])):
        fit = noisy_ols(y, columns, noise={"y": 0.1})
        assert list(fit.summary_frame().index) == sm.OLS(y, columns).exog_names


def test_drowned_covariates_are_named():
    rng = np.random.default_rng(7)
    y, exog = table(50, rng)
    with pytest.raises(NotEstimableError, match="drowns the covariates, 'x2' above all"):
        noisy_ols(y, exog, noise={"x1": 0.1, "x2": 3.0})
    fit = noisy_ols(y, exog, noise={"x1": 0.1, "x2": 3.0}, method="fuller")
    assert np.isfinite(fit.params).all()
    assert "holds the estimates back" in fit.summary()
    weak = noisy_ols(y, exog, noise={"x2": 0.72})
    assert "may cover too rarely" in weak.summary()
    assert not noisy_ols(y, exog, noise={"x2": 0.1}).notes


def test_labels_are_kept():
    y, exog = table(30, np.random.default_rng(8))
    rows = [f"r{i}" for i in range(30)]
    response = pd.Series(y, index=rows, name="visits")
    frame = pd.DataFrame(exog, index=rows, columns=["one", "people", 7])
    std = pd.Series(0.3, index=rows)
    fit = noisy_ols(response, frame, noise={"people": std, 7: 0.1, "visits": Gaussian(sigma=0.2)})
    plain = noisy_ols(y, exog, noise={"x1": 0.3, "x2": 0.1, "y": 0.2})
    assert list(fit.params.index) == ["one", "people", 7]
    assert list(fit.resid.index) == rows
    assert fit.params.to_numpy() == pytest.approx(plain.params)
    assert np.asarray(fit.conf_int()) == pytest.approx(np.asarray(plain.conf_int()))
    assert fit.cov_params().to_numpy() == pytest.approx(plain.cov_params())
    assert fit.attenuation.to_numpy() == pytest.approx(plain.attenuation)
    for wrong in (std.iloc[::-1], std.iloc[1:]):
        with pytest.raises(InvalidParameterError, match="reindex"):
            noisy_ols(response, frame, noise={"people": wrong})
    with pytest.raises(InvalidParameterError, match="labels of endog"):
        noisy_ols(response, frame.iloc[::-1], noise={"people": 0.1})
    one = noisy_ols(response, frame["people"], noise={"people": 0.3})
    assert list(one.params.index) == ["people"]
    mixed = noisy_ols(response, exog, noise={"x1": 0.3, "visits": 0.2})
    assert list(mixed.params.index) == ["const", "x1", "x2"]
    assert list(mixed.fittedvalues.index) == rows


def test_columns_with_several_levels():
    y, exog = table(50, np.random.default_rng(3))
    columns = pd.MultiIndex.from_tuples([("const", 0), ("people", 2020), ("people", 2021)])
    frame = pd.DataFrame(exog, columns=columns[: exog.shape[1]])
    fit = noisy_ols(pd.Series(y), frame, noise={("people", 2020): 0.3})
    plain = noisy_ols(y, exog, noise={"x1": 0.3})
    np.testing.assert_array_equal(fit.params, plain.params)
    assert fit.params[("people", 2020)] == plain.params[1]
    assert "people, 2020" in fit.summary()


def test_discrete_and_mixed_laws():
    rng = np.random.default_rng(9)
    y, exog = table(40, rng)
    exog[:, 1] = np.rint(10.0 * exog[:, 1])
    laws = [Laplace(scale=0.1)] * 20 + [DiscreteGaussian(sigma=2.0)] * 20
    fit = noisy_ols(y, exog, noise={"x1": laws})
    std = np.array([law.std for law in laws])
    with pytest.raises(InvalidParameterError, match="'x1' must hold whole numbers"):
        noisy_ols(y, exog / 3.0, noise={"x1": laws})
    assert fit.params == pytest.approx(noisy_ols(y, exog, noise={"x1": std}).params)


def simulated(reps, n, rng, **options):
    """Estimates and standard errors of tables with noise in response and covariate."""
    laws = {"y": Laplace(scale=0.4), "x1": Laplace(scale=0.4)}
    found = []
    for _ in range(reps):
        y, exog = table(n, rng)
        y += laws["y"].rvs(n, rng=rng)
        exog[:, 1] += laws["x1"].rvs(n, rng=rng)
        fit = noisy_ols(y, exog, noise=laws, **options)
        found.append([fit.params, fit.bse, fit.naive.params, fit.conf_int().width / 2])
    return np.array(found)


def test_the_bias_goes_and_intervals_cover():
    # six standard errors of 100 replicates: a false alarm has probability 1e-8 or so
    found = simulated(100, 300, np.random.default_rng(10))
    truth = np.array([1.0, 2.0, -1.0])
    params, bse, naive, reach = np.moveaxis(found, 1, 0)
    error = params.mean(axis=0) - truth
    limit = 6.0 * params.std(axis=0) / np.sqrt(100)
    assert (np.abs(error) < limit).all()
    assert (np.abs(naive.mean(axis=0) - truth) > limit).all()
    assert bse.mean(axis=0) == pytest.approx(params.std(axis=0), rel=6.0 / np.sqrt(2 * 100))
    covered = (np.abs(params - truth) <= reach).mean(axis=0)
    assert (covered > 0.95 - 6.0 * np.sqrt(0.95 * 0.05 / 100)).all()


def test_groups_that_share_noise():
    # rows of a group share the noise of the covariate: only "cluster" sees it; 6-sigma bounds
    rng = np.random.default_rng(11)
    found = []
    for _ in range(100):
        x = np.repeat(rng.normal(size=80), 5) + 0.2 * rng.normal(size=400)
        y = 1.0 + 2.0 * x + 0.3 * rng.normal(size=400)
        groups = np.repeat(np.arange(80), 5)
        exog = np.column_stack([np.ones(400), x + np.repeat(rng.normal(0.0, 0.5, 80), 5)])
        fits = [
            noisy_ols(y, exog, noise={"x1": 0.5}, cov_type="cluster", groups=groups),
            noisy_ols(y, exog, noise={"x1": 0.5}),
        ]
        found.append([[fit.params[1], fit.bse[1]] for fit in fits])
    found = np.array(found)
    spread = found[:, 0, 0].std()
    error = 6.0 / np.sqrt(2 * 100)
    assert found[:, 0, 1].mean() == pytest.approx(spread, rel=error)
    assert found[:, 1, 1].mean() < spread * (1.0 - error)


@pytest.mark.parametrize("laplace", [True, False])
def test_confidential_coefficients(laplace):
    """Only the noise is drawn anew: what is estimated is the fit to the confidential table."""
    rng = np.random.default_rng(12)
    y, exog = table(200, rng)
    truth = sm.OLS(y, exog).fit().params
    law = Laplace(scale=0.4) if laplace else Gaussian(sigma=0.6)
    found = []
    for _ in range(75):
        noisy = exog + np.column_stack([np.zeros(200), law.rvs(200, rng=rng), np.zeros(200)])
        response = y + law.rvs(200, rng=rng)
        noise = {"y": law, "x1": law}
        fit = noisy_ols(response, noisy, noise=noise, uncertainty="noise")
        found.append([fit.params, fit.bse, fit.conf_int().width / 2])
    params, bse, reach = np.moveaxis(np.array(found), 1, 0)
    # 6-sigma bounds; the kurtosis of the estimates is near that of a normal law. The estimator of
    # moments has a bias of the order 1/n, here up to 0.1 standard errors
    limit = 6.0 / np.sqrt(75) + 0.1
    assert (np.abs(params.mean(axis=0) - truth) < limit * params.std(axis=0)).all()
    assert bse.mean(axis=0) == pytest.approx(params.std(axis=0), rel=6.0 / np.sqrt(2 * 75))
    covered = (np.abs(params - truth) <= reach).mean(axis=0)
    assert (covered > 0.95 - 6.0 * np.sqrt(0.95 * 0.05 / 75)).all()
    assert "confidential values" in fit.summary()


def test_standard_deviations_are_taken_as_gaussian():
    y, exog = table(100, np.random.default_rng(13))
    by_law = noisy_ols(y, exog, noise={"x1": Gaussian(sigma=0.3)}, uncertainty="noise")
    by_std = noisy_ols(y, exog, noise={"x1": 0.3}, uncertainty="noise")
    assert by_std.bse == pytest.approx(by_law.bse)
    assert "fourth moment of Gaussian" in by_std.summary()
    assert "fourth moment" not in by_law.summary()
