"""Power of the test of homogeneity against formulas, enumeration and the test itself."""

import numpy as np
import pytest
from planned import PlannedPower, quiet
from scipy import special, stats
from statsmodels.stats.power import GofChisquarePower

from dpinfer import Exact, Gaussian, Laplace, chi2_contingency
from dpinfer.errors import ApproximationWarning, InvalidParameterError

PAIR = np.array([[0.6, 0.4], [0.4, 0.6]])
GROUPS = np.array([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.4, 0.3, 0.3]])
SHARES = np.array([0.2, 0.5, 0.3])


@pytest.mark.parametrize("statistic", ["projected", "pearson"])
def test_without_noise_the_limit_is_that_of_statsmodels(statistic):
    plan = PlannedPower(
        chi2_contingency,
        truth=GROUPS,
        mechanism=Exact(),
        row_totals=SHARES,
        statistic=statistic,
        method="asymptotic",
    )
    pooled = SHARES @ GROUPS
    w = np.sqrt((SHARES[:, None] * np.square(GROUPS - pooled) / pooled).sum())
    assert plan.curve(nobs=400).attrs["effect_size"] == pytest.approx(w)
    for effect, alpha in ((0.5, 0.05), (1.0, 0.001)):
        # 4 degrees of freedom are those of 5 cells
        peer = GofChisquarePower().power(effect * w, 400, alpha, n_bins=5)
        assert plan.power(400, effect, alpha) == pytest.approx(peer, rel=1e-8)
    assert plan.power(400, 0.0, 0.01) == pytest.approx(0.01, rel=1e-8)


@pytest.mark.parametrize("sigma", [2.0, 15.0])
@pytest.mark.parametrize("statistic", ["projected", "pearson"])
def test_limit_of_two_groups_by_symmetry(sigma, statistic):
    """With known row totals (Y11 - Y12 - Y21 + Y22)/2 is what is left, of variance n/4 + sigma²."""
    nobs = 1000
    mean, variance = 0.2 * nobs / 2.0, nobs / 4.0 + sigma**2
    plan = PlannedPower(
        chi2_contingency,
        truth=PAIR,
        mechanism=Gaussian(sigma=sigma),
        statistic=statistic,
        method="asymptotic",
        row_totals=True,
    )
    peer = stats.ncx2.sf(special.chdtri(1, 0.05), 1, mean**2 / variance)
    assert plan.power(nobs) == pytest.approx(peer, rel=1e-8)


def test_simulated_power_without_noise_is_that_of_an_enumeration():
    """Pairs of binomial counts that are rejected at the simulated level: 6 standard errors."""
    n, alpha = 40, 0.1
    k = np.arange(n + 1)
    first, second = np.meshgrid(k, k, indexing="ij")
    with np.errstate(invalid="ignore"):
        z2 = 2.0 * n * np.square(first - second) / ((first + second) * (2 * n - first - second))
    expected = np.minimum(first + second, 2 * n - first - second) / 2.0
    law, null = (
        np.outer(stats.binom.pmf(k, n, p), stats.binom.pmf(k, n, q))
        for p, q in ((0.6, 0.4), (0.5, 0.5))
    )
    values = np.unique(np.nan_to_num(z2).round(9))
    tail = np.array([null[z2 >= value - 1e-9].sum() for value in values])
    critical = values[tail <= alpha].min()
    exact = law[(z2 >= critical - 1e-9) & (expected >= 5.0)].sum()
    plan = PlannedPower(chi2_contingency, truth=PAIR, mechanism=Exact(), rng=1, row_totals=True)
    frame = plan.curve(nobs=2 * n, effect=1.0, alpha=alpha)
    assert abs(frame["power"].item() - exact) <= 6.0 * frame["mc_error"].item()


@pytest.mark.parametrize(
    ("statistic", "sizes", "noise"),
    [
        ("projected", (60, 150, 90), Laplace(scale=5.0)),
        ("projected", (20, 50, 30), Gaussian(sigma=4.0)),  # often not decided
        ("pearson", (60, 150, 90), Gaussian(sigma=15.0)),
    ],
)
def test_power_is_how_often_the_test_rejects(statistic, sizes, noise):
    size, alpha, hits = 100, 0.2, 0
    rng = np.random.default_rng(8)
    fixed = {"mechanism": noise, "statistic": statistic}
    for _ in range(size):
        counts = rng.multinomial(sizes, GROUPS)
        noisy = counts + noise.rvs(counts.shape, rng=rng)
        options = {"row_totals": sizes, "reps": 99, "rng": rng, **fixed}
        hits += quiet(chi2_contingency, noisy, **options).pvalue <= alpha
    plan = PlannedPower(
        chi2_contingency, truth=GROUPS, row_totals=SHARES, rng=1, reps=1000, **fixed
    )
    plan.assert_rejects(hits, size, nobs=sum(sizes), effect=1.0, alpha=alpha)


@pytest.mark.parametrize("statistic", ["projected", "pearson"])
def test_power_at_the_null_hypothesis_is_the_level(statistic):
    """Six standard errors, which include that of the critical value."""
    plan = PlannedPower(
        chi2_contingency,
        truth=GROUPS,
        mechanism=Gaussian(sigma=5.0),
        statistic=statistic,
        rng=4,
        reps=1000,
        row_totals=True,
    )
    frame = plan.curve(nobs=1500, effect=0.0, alpha=[0.02, 0.1])
    assert (np.abs(frame["power"] - frame["alpha"]) <= 6.0 * frame["mc_error"]).all()


@pytest.mark.parametrize("nobs", [3, 7, 103, 10**6 + 7])
def test_sizes_of_groups_are_whole_and_add_up(nobs):
    """The power in the limit is that of the table with the members that each group has."""
    sizes = np.maximum(np.diff(np.rint(np.cumsum(SHARES) * nobs), prepend=0.0), 1.0)
    assert nobs < 7 or sizes.sum() == nobs
    near = GROUPS.mean(axis=0) + (GROUPS - GROUPS.mean(axis=0)) / np.sqrt(nobs)
    plan = PlannedPower(
        chi2_contingency,
        truth=near,
        mechanism=Exact(),
        row_totals=SHARES,
        method="asymptotic",
    )
    power = quiet(plan.power, nobs)
    there = stats.chi2_contingency(sizes[:, None] * near, correction=False).statistic
    peer = stats.ncx2.sf(special.chdtri(4, 0.05), 4, there)
    assert power == pytest.approx(peer, rel=1e-6)


def test_noise_of_each_cell_and_doubts():
    sigma = np.arange(1.0, 10.0).reshape(3, 3)
    given = [Gaussian(sigma=sigma), [Gaussian(sigma=x) for x in sigma.ravel()]]
    powers = {
        PlannedPower(
            chi2_contingency, truth=GROUPS, mechanism=law, method="asymptotic", row_totals=True
        ).power(300)
        for law in given
    }
    assert len(powers) == 1
    with pytest.warns(ApproximationWarning, match="not Gaussian") as caught:
        PlannedPower(
            chi2_contingency,
            truth=GROUPS,
            mechanism=Laplace(scale=2.0),
            method="asymptotic",
            row_totals=True,
        ).power(1000)
    assert caught[0].filename == PlannedPower.power.__code__.co_filename


@pytest.mark.parametrize(
    ("table", "shares", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], None, "homogeneous"),
        ([[0.3, 0.2], [0.2, 0.3]], None, "rows of truth"),
        ([[1.0, 0.0], [1.0, 0.0]], None, "columns"),
        ([[0.5, 0.5]], None, "at least 2 rows"),
        ([0.5, 0.5], None, "two-dimensional"),
        (PAIR, [0.2, 0.3, 0.5], "row_totals"),
        (PAIR, [1.0, 0.0], "row_totals"),
    ],
)
def test_bad_tables_are_refused(table, shares, message):
    with pytest.raises(InvalidParameterError, match=message):
        PlannedPower(
            chi2_contingency,
            truth=table,
            mechanism=Exact(),
            row_totals=True if shares is None else shares,
        ).power()
