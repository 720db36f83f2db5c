"""Power of the test of independence against formulas and the test itself."""

import numpy as np
import pytest
from planned import PlannedPower, quiet
from scipy import special, stats

from dpinfer import Exact, Gaussian, Geometric, Laplace, chi2_contingency
from dpinfer.errors import ApproximationWarning, InvalidParameterError

SMALL = np.array([[0.3, 0.2], [0.2, 0.3]])
LARGE = np.array([[0.20, 0.10, 0.10], [0.10, 0.25, 0.25]])


@pytest.mark.parametrize("table", [SMALL, LARGE, LARGE.T])
@pytest.mark.parametrize("known", [None, Exact()])
def test_without_noise_the_limit_is_noncentral_chi_squared(table, known):
    plan = PlannedPower(
        chi2_contingency, truth=table, mechanism=Exact(), nobs_mechanism=known, method="asymptotic"
    )
    null = np.outer(table.sum(axis=1), table.sum(axis=0))
    w2 = (np.square(table - null) / null).sum()
    assert plan.curve(nobs=200).attrs["effect_size"] == pytest.approx(np.sqrt(w2))
    dof = (table.shape[0] - 1) * (table.shape[1] - 1)
    for effect, alpha in ((0.3, 0.05), (1.0, 0.001)):
        peer = stats.ncx2.sf(special.chdtri(dof, alpha), dof, 200 * w2 * effect**2)
        assert plan.power(200, effect, alpha) == pytest.approx(peer, rel=1e-8)
    assert plan.power(200, 0.0, 0.01) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize("sigma", [1.0, 10.0, 30.0])
def test_limit_of_a_table_that_is_fitted_by_symmetry(sigma):
    """In a symmetric 2 x 2 table the statistic is that of the contrast (1, -1, -1, 1)."""
    nobs = 1000
    peer = (nobs * 0.2) ** 2 / (nobs + 4.0 * sigma**2)
    plan = PlannedPower(
        chi2_contingency, truth=SMALL, mechanism=Gaussian(sigma=sigma), method="asymptotic"
    )
    assert plan.power(nobs) == pytest.approx(
        stats.ncx2.sf(special.chdtri(1, 0.05), 1, peer), rel=1e-9
    )


def _slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("statistic", "table", "nobs", "noise", "known"),
    [
        ("projected", SMALL, 200, Gaussian(sigma=10.0), None),
        ("projected", LARGE, 100, Laplace(scale=5.0), None),  # not decided in about a fifth
        _slow("projected", LARGE, 200, Geometric(scale=10.0), Geometric(scale=10.0)),
        ("projected", LARGE, 90, Exact(), Exact()),
        ("pearson", SMALL, 200, Laplace(scale=12.0), None),  # not decided in some releases
        ("pearson", LARGE, 300, Gaussian(sigma=20.0), Exact()),
        _slow("pearson", LARGE, 300, Geometric(scale=10.0), Geometric(scale=10.0)),
    ],
    ids=repr,
)
def test_power_is_how_often_the_test_rejects(statistic, table, nobs, noise, known):
    size, reps = {"projected": (70, 2000), "pearson": (50, 400)}[statistic]
    rng, alpha, hits = np.random.default_rng(8), 0.2, 0
    tables = rng.multinomial(nobs, table.ravel(), size).reshape(size, *table.shape)
    for cells in tables + noise.rvs(tables.shape, rng=rng):
        options = {"mechanism": noise, "statistic": statistic, "reps": 99, "rng": rng}
        if known is not None:
            options |= {"nobs": nobs + float(known.rvs(rng=rng)), "nobs_mechanism": known}
        hits += quiet(chi2_contingency, cells, **options).pvalue <= alpha
    fixed = {"truth": table, "mechanism": noise, "nobs_mechanism": known, "statistic": statistic}
    plan = PlannedPower(chi2_contingency, rng=1, reps=reps, **fixed)
    plan.assert_rejects(hits, size, nobs=nobs, effect=1.0, alpha=alpha)


def test_no_more_replicates_are_drawn_once_all_releases_are_decided(monkeypatch):
    """Of releases that are far from the null hypothesis no replicate exceeds the statistic."""
    drawn, rvs = [], Geometric.rvs

    def counted(law, shape, **options):
        drawn.append(np.prod(shape) / LARGE.size)
        return rvs(law, shape, **options)

    monkeypatch.setattr(Geometric, "rvs", counted)
    plan = PlannedPower(
        chi2_contingency,
        truth=LARGE,
        mechanism=Geometric(scale=0.1),
        statistic="pearson",
        reps=20,
        rng=3,
    )
    assert plan.power(10**5) == 1.0
    # (1 - 0.05)^m < 0.001 from m = 135 on; looked at after 16, 32, 64, 128 and 256
    assert sum(drawn) == 20 * (1 + 256)


@pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
def test_without_noise_both_statistics_are_pearsons(method):
    """Exactly in the limit; simulated, 6 standard errors of 1000 replicates of both."""
    projected, pearson = (
        PlannedPower(
            chi2_contingency,
            truth=LARGE,
            mechanism=Exact(),
            statistic=statistic,
            method=method,
            rng=1,
            reps=1000,
        )
        for statistic in ("projected", "pearson")
    )
    gap = 1e-9 if method == "asymptotic" else 6.0 * np.hypot(0.0158, 0.0158)
    powers = [plan.power(150, [0.4, 0.7], 0.1) for plan in (projected, pearson)]
    np.testing.assert_allclose(*powers, rtol=0.0, atol=gap)


@pytest.mark.parametrize("sigma", [1.0, 10.0, 30.0])
def test_limit_of_pearsons_statistic_by_symmetry(sigma):
    """In a symmetric 2 x 2 table both statistics are a function of the contrast (1, -1, -1, 1)."""
    projected, pearson = (
        PlannedPower(
            chi2_contingency,
            truth=SMALL,
            mechanism=Gaussian(sigma=sigma),
            statistic=statistic,
            method="asymptotic",
        )
        for statistic in ("projected", "pearson")
    )
    assert pearson.power(1000) == pytest.approx(projected.power(1000), rel=1e-8)


def test_simulation_of_pearsons_statistic_is_near_the_limit_at_many_observations():
    """Six standard errors, and 0.01 for what the limit leaves out."""
    noise = Gaussian(sigma=40.0)
    simulated = PlannedPower(
        chi2_contingency, truth=LARGE, mechanism=noise, statistic="pearson", rng=1, reps=500
    )
    limit = PlannedPower(
        chi2_contingency, truth=LARGE, mechanism=noise, statistic="pearson", method="asymptotic"
    )
    frame = simulated.curve(nobs=10_000, effect=0.2)
    wanted = limit.power(10_000, 0.2)
    assert (np.abs(frame["power"] - wanted) <= 6.0 * frame["mc_error"] + 0.01).all()


def test_power_at_the_null_hypothesis_is_the_level():
    """Six standard errors, which include that of the critical value."""
    plan = PlannedPower(
        chi2_contingency, truth=LARGE, mechanism=Gaussian(sigma=5.0), rng=4, reps=4000
    )
    frame = plan.curve(nobs=2000, effect=0.0, alpha=[0.01, 0.05, 0.1])
    assert (np.abs(frame["power"] - frame["alpha"]) <= 6.0 * frame["mc_error"]).all()


def test_simulation_is_near_the_limit_at_many_observations():
    """Six standard errors, and 0.01 for what the limit leaves out."""
    simulated = PlannedPower(chi2_contingency, truth=LARGE, mechanism=Gaussian(sigma=40.0), rng=1)
    limit = PlannedPower(
        chi2_contingency, truth=LARGE, mechanism=Gaussian(sigma=40.0), method="asymptotic"
    )
    frame = simulated.curve(nobs=5000, effect=[0.2, 0.3])
    wanted = limit.power(5000, [0.2, 0.3])
    assert (np.abs(frame["power"] - wanted) <= 6.0 * frame["mc_error"] + 0.01).all()


def test_what_is_not_decided_is_no_rejection():
    table = np.array([[0.48, 0.02], [0.02, 0.48]])
    plan = PlannedPower(chi2_contingency, truth=table, mechanism=Exact(), rng=1)
    # the smallest expected count is about n/4
    assert plan.power(10) == 0.0
    assert plan.power(60) > 0.99


@pytest.mark.parametrize("method", ["monte-carlo", "asymptotic"])
def test_noise_of_each_cell(method):
    """One law for each cell, as a vector, a table or a list, and the transposed table."""
    scales = np.arange(1.0, 7.0).reshape(2, 3)
    given = [
        Gaussian(sigma=scales),
        Gaussian(sigma=scales.ravel()),
        [Gaussian(sigma=scale) for scale in scales.ravel()],
    ]
    plans = [
        PlannedPower(chi2_contingency, truth=LARGE, mechanism=noise, method=method, rng=1)
        for noise in given
    ]
    powers = {plan.power(300, 0.4) for plan in plans}
    assert len(powers) == 1
    found = plans[-1].solve(nobs=300, alpha=0.05, power=0.5)
    assert found == plans[0].solve(nobs=300, alpha=0.05, power=0.5)
    budgeted = PlannedPower(
        chi2_contingency,
        truth=LARGE,
        mechanism=lambda budget: Gaussian(sigma=scales / budget),
        method=method,
        rng=1,
    )
    assert budgeted.power(300, 0.4, budget=1.0) in powers
    turned = PlannedPower(
        chi2_contingency, truth=LARGE.T, mechanism=Gaussian(sigma=scales.T), method=method, rng=1
    )
    near = 1e-3 if method == "asymptotic" else 0.05
    assert turned.power(300, 0.4) == pytest.approx(powers.pop(), abs=near)


def test_a_known_total_helps():
    noise = Gaussian(sigma=[[30.0, 1.0, 30.0], [1.0, 30.0, 1.0]])
    unknown, noisy, public = (
        PlannedPower(
            chi2_contingency, truth=LARGE, mechanism=noise, nobs_mechanism=law, method="asymptotic"
        ).power(400)
        for law in (None, Gaussian(sigma=10.0), Exact())
    )
    assert unknown < noisy < public


def test_doubts_about_the_limit():
    skewed = np.array([[0.75, 0.10], [0.07, 0.08]])
    plan = PlannedPower(
        chi2_contingency, truth=skewed, mechanism=Gaussian(sigma=10.0), method="asymptotic", rng=1
    )
    with pytest.warns(ApproximationWarning, match="does not decide about 3") as caught:
        plan.power([500, 5000])
    assert caught[0].filename == PlannedPower.power.__code__.co_filename
    with pytest.warns(ApproximationWarning, match="not Gaussian"):
        PlannedPower(
            chi2_contingency, truth=SMALL, mechanism=Laplace(scale=2.0), method="asymptotic"
        ).power(1000)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.25, 0.25], [0.25, 0.25]], "product of its margins"),
        ([[0.5, 0.5]], "at least 2 rows"),
        ([[0.5, 0.0], [0.5, 0.0]], "sums of rows and columns"),
        ([[0.5, 0.5], [0.5, 0.5]], "add up to 1"),
        ([0.5, 0.5], "two-dimensional"),
        ([[1.1, -0.1], [0.0, 0.0]], ">= 0"),
    ],
)
def test_tables_that_are_no_alternative(table, message):
    with pytest.raises(InvalidParameterError, match=message):
        PlannedPower(chi2_contingency, truth=table, mechanism=Exact()).power()


def test_noise_beyond_all_bounds():
    with pytest.raises(InvalidParameterError, match="variance"):
        PlannedPower(chi2_contingency, truth=SMALL, mechanism=Laplace(scale=1e80)).power(100)
