"""Coverage of the intervals across noise levels, sizes and methods."""

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer import Laplace
from dpinfer.errors import NotEstimableError
from dpinfer.regression import noisy_ols

REPS = 600
TRUTH = np.array([10.0, 0.5, 3.0])


def confidential(n, rng):
    """Counts that vary by a gamma law, a covariate that goes along, errors that grow."""
    people = rng.gamma(4.0, 50.0, n)
    other = 0.01 * people + rng.normal(size=n)
    visits = TRUTH[0] + TRUTH[1] * people + TRUTH[2] * other
    visits += rng.normal(size=n) * (5.0 + 0.05 * people)
    return visits, np.column_stack([np.ones(n), people, other])


def coverage(n, reliability, rng, fixed=False, **options):
    """Shares of 95 % intervals that cover, ours and (n = 1000) naive ones, and of refusals."""
    people_variance = 4.0 * 50.0**2
    law = Laplace(scale=np.sqrt(people_variance * (1.0 / reliability - 1.0) / 2.0))
    y, exog = confidential(n, rng)
    covered, naive, refused = [], [], 0
    for _ in range(REPS):
        if not fixed:
            y, exog = confidential(n, rng)
        truth = sm.OLS(y, exog).fit().params if fixed else TRUTH
        noisy = exog.copy()
        noisy[:, 1] += law.rvs(n, rng=rng)
        response = y + law.rvs(n, rng=rng)
        try:
            fit = noisy_ols(response, noisy, noise={"x1": law, "y": law}, **options)
        except NotEstimableError:
            refused += 1
            continue
        fits = [(covered, fit), *([(naive, fit.naive)] if n == 1000 else [])]
        for found, fitted in fits:
            ends = np.asarray(fitted.conf_int())
            found.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    naively = np.mean(naive, axis=0) if naive else None
    return np.mean(covered, axis=0), naively, refused / REPS


@pytest.mark.slow
@pytest.mark.parametrize("reliability", [0.95, 0.8, 0.6])
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "moments", "cov_type": "HC1"},
        {"method": "fuller", "cov_type": "HC1"},
        {"method": "fuller", "cov_type": "HC3"},
        {"method": "moments", "uncertainty": "noise", "fixed": True},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_coverage(n, reliability, options):
    rng = np.random.default_rng([n, int(100 * reliability)])
    covered, naive, refused = coverage(n, reliability, rng, **options)
    # six standard errors below what was measured with other seeds: 92.5 % in small tables with
    # HC1, 94 % elsewhere; a false alarm has probability 1e-9
    low = 0.925 if n == 50 and options.get("cov_type") != "HC3" else 0.94
    assert (covered > low - 6.0 * np.sqrt(low * (1.0 - low) / REPS)).all()
    assert (covered < 0.98 + 6.0 * np.sqrt(0.98 * 0.02 / REPS)).all()
    assert refused < (0.1 if n == 50 else 0.01)
    if n == 1000:
        assert naive[1] < 0.1
