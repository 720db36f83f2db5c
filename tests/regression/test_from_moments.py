"""Least squares from noisy moments: the exact law, projections by brute force, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import ols_from_moments

RNG = np.random.default_rng(8)
X = np.column_stack([np.ones(1000), RNG.uniform(size=1000)])
Y = X @ [1.0, 2.0] + 0.5 * RNG.normal(size=1000)
XTX, XTY = X.T @ X, X.T @ Y
BETA = np.linalg.solve(XTX, XTY)


def published(rng, draw):
    """Return the moments with noise in all but the number of rows."""
    above = np.triu(draw((2, 2)))
    above[0, 0] = 0
    return XTX + above + np.triu(above, 1).T, XTY + draw(2)


@pytest.mark.parametrize("sigma", [5.0, 100.0])
def test_the_pivot_has_its_law(sigma):
    """P-values of the truth are uniform: Kolmogorov's test fails by accident once in 1e7."""
    rng = np.random.default_rng(int(sigma))
    values = []
    for _ in range(200):
        moments = published(rng, lambda size: sigma * rng.normal(size=size))
        fit = ols_from_moments(*moments, mechanism=dpi.Gaussian(sigma=sigma), nobs=1000)
        values.append(fit.test(BETA).pvalue)
    assert stats.kstest(values, "uniform").pvalue > 1e-7


def least_over_the_other(b, k, sigma):
    """Return the smallest pivot over the other coefficient, a ratio of two quartics in it."""
    r0, r1 = (np.poly1d([-XTX[i, 1 - k], XTY[i] - XTX[i, k] * b]) for i in range(2))
    o = np.poly1d([1.0, 0.0])
    slope, const = (o, np.poly1d([b])) if k == 0 else (np.poly1d([b]), o)
    v00, v11, v01 = 1 + slope**2, 1 + const**2 + slope**2, const * slope
    above, below = r0**2 * v11 - 2 * r0 * r1 * v01 + r1**2 * v00, v00 * v11 - v01**2
    at = (above.deriv() * below - above * below.deriv()).roots
    at = np.append(at[abs(at.imag) < 1e-6 * (1 + abs(at))].real, [-1e9, 1e9])
    return (above(at) / below(at)).min() / sigma**2


@pytest.mark.parametrize("sigma", [10.0, 22.0, 40.0])
def test_projections_are_those_of_a_grid(sigma):
    fit = ols_from_moments(XTX, XTY, mechanism=dpi.Gaussian(sigma=sigma), nobs=1000)
    sets = fit.conf_int()
    turn = np.linspace(-np.pi / 2, np.pi / 2, 52)[1:-1]
    for k in range(2):
        b = BETA[k] + np.tan(turn)
        kept = np.array([least_over_the_other(x, k, sigma) for x in b]) <= stats.chi2.isf(0.05, 2)
        found = np.ravel(sets[k : k + 1].contains(b))
        assert not (kept & ~found).any()
        assert np.count_nonzero(found & ~kept) <= 1


def test_one_column_is_a_ratio():
    fit = ols_from_moments([[40.0]], [60.0], mechanism=dpi.Gaussian(sigma=5.0))
    sets, ratio = fit.conf_int(), dpi.ratio_confint(60.0, 40.0, mechanism=dpi.Gaussian(sigma=5.0))
    assert fit.params == 1.5
    np.testing.assert_allclose(
        [sets.lower[0], sets.upper[0]], [ratio.lower, ratio.upper], rtol=1e-7
    )


def test_three_columns_are_projected_from_inside():
    """Points of the set have coordinates between the ends, and some come near them."""
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
    moments = x.T @ x, x.T @ (x @ [1, -1, 2])
    fit = ols_from_moments(*moments, mechanism=dpi.Gaussian(sigma=9.0), nobs=500)
    lower, upper = map(np.asarray, fit.conf_int())
    found = []
    for _ in range(100):
        way = rng.normal(size=3) * (upper - lower)
        reach = 1.0
        for _ in range(25):
            inside = fit.test(fit.params + reach * way).pvalue > 0.05
            reach *= 1.1 if inside else 0.8
        if fit.test(fit.params + reach * way).pvalue > 0.05:
            found.append(fit.params + reach * way)
    found = np.array(found)
    assert (found >= lower).all()
    assert (found <= upper).all()
    assert (np.ptp(found, axis=0) > 0.75 * (upper - lower)).all()


def test_other_laws_are_simulated():
    law = dpi.Laplace(scale=20.0)
    fits = [ols_from_moments(XTX, XTY, mechanism=law, nobs=1000, rng=1) for _ in range(2)]
    sets = [np.asarray(fit.conf_int().lower) for fit in fits]
    np.testing.assert_array_equal(*sets)
    assert fits[0].guarantee == "simulated"
    test = fits[0].test(BETA + 0.1)
    rng = np.random.default_rng(4)
    noise, beta = law.rvs((40_000, 4), rng=rng), BETA + 0.1
    e = np.column_stack(
        [
            noise[:, 2] - noise[:, 0] * beta[1],
            noise[:, 3] - noise[:, 0] * beta[0] - noise[:, 1] * beta[1],
        ]
    )
    r = XTY - XTX @ beta
    spread = law.variance * np.array(
        [[1 + beta[1] ** 2, beta[0] * beta[1]], [beta[0] * beta[1], 1 + beta @ beta]]
    )
    value = r @ np.linalg.solve(spread, r)
    assert test.statistic == pytest.approx(value)
    share = np.mean(np.einsum("ni,ni->n", e, np.linalg.solve(spread, e.T).T) >= value)
    assert test.pvalue == pytest.approx(share, abs=6 * np.sqrt(0.25 / 9999))


def test_labels_shared_noises_and_units():
    names = ["const", "x"]
    table = pd.DataFrame(XTX, names, names)
    law = dpi.Gaussian(sigma=10.0)
    plain = ols_from_moments(XTX, XTY, mechanism=law, nobs=1000).conf_int()
    named = ols_from_moments(table, pd.Series(XTY, names), mechanism=law, nobs=1000)
    assert list(named.conf_int().lower.index) == names
    np.testing.assert_allclose(named.conf_int().lower, plain.lower)
    both = dpi.noisy(np.append(XTX[np.triu_indices(2)], XTY), mechanism=law)
    shared = ols_from_moments(both.take([0, 1, 2]), both.take([3, 4]), nobs=1000).conf_int()
    np.testing.assert_allclose(shared.upper, plain.upper)
    unit = np.array([1.0, 50.0])
    laws = [dpi.Exact(), dpi.Gaussian(sigma=500.0), dpi.Gaussian(sigma=25_000.0)]
    scaled = ols_from_moments(
        XTX * unit * unit[:, None],
        XTY * unit,
        mechanism=(laws, [law, laws[1]]),
    ).conf_int()
    np.testing.assert_allclose(scaled.lower * unit, plain.lower, rtol=1e-6)


def test_normal_intervals_agree_where_the_noise_is_small():
    fit = ols_from_moments(XTX, XTY, mechanism=dpi.Gaussian(sigma=1e-3), nobs=1000)
    sets, wald = fit.conf_int(), fit.wald()
    wider = np.sqrt(stats.chi2.isf(0.05, 2) / stats.chi2.isf(0.05, 1))
    np.testing.assert_allclose(sets.width, wider * wald.width, rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"xtx": [[9.0, 1.0], [2.0, 4.0]]}, InvalidParameterError, "symmetric"),
        ({"xtx": [[4.0, 2.0], [2.0, 1.0]]}, NotEstimableError, "semi-definite after the noise"),
        ({"xtx": [4.0, 2.0]}, InvalidParameterError, "shape"),
        ({"mechanism": dpi.Exact()}, InvalidParameterError, "noise in each entry"),
        ({"mechanism": (dpi.Exact(),) * 3}, InvalidParameterError, "tuple of 3"),
        ({"nobs": 0}, InvalidParameterError, "nobs must be"),
        (
            {"xty": dpi.noisy([3.5, 2.5], mechanism=dpi.Gaussian(sigma=1.0), clamp=0)},
            InvalidParameterError,
            "clamped",
        ),
    ],
)
def test_refusals(change, error, message):
    call = {"xtx": [[9.5, 1.0], [1.0, 4.0]], "xty": [1.5, 2.0]}
    with pytest.raises(error, match=message):
        ols_from_moments(**(call | {"mechanism": dpi.Gaussian(sigma=1.0)} | change))


def test_the_constant_is_the_first_column():
    law = dpi.Gaussian(sigma=5.0)
    with pytest.raises(InvalidParameterError, match="has to be the constant"):
        ols_from_moments(
            [[331.7, 498.1], [498.1, 1000.0]], [560.9, 1003.2], mechanism=law, nobs=1000
        )
