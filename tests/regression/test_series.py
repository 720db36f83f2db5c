"""Levels of noisy series: statsmodels' numbers, sums over all paths, refusals, coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.datasets import nile
from statsmodels.tsa.statespace.structural import UnobservedComponents

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import local_level, local_level_ratio

VOLUME = nile.load_pandas().data["volume"].to_numpy(dtype=float) + 1e-6  # no warning of rounding
OBSERVED = 15098.5
GAUSSIAN = dpi.Gaussian(sigma=np.sqrt(OBSERVED))
DAYS = pd.date_range("2024-03-01", periods=16, name="day")
VIEWS = pd.Series([112, 95, 121, 103, 99, 97, 99, 118, 91, 130, 146, 139, 151, 144, 120, 160], DAYS)
LAW = dpi.DiscreteGaussian(sigma=9.0)


def test_nile_is_that_of_statsmodels():
    theirs = UnobservedComponents(VOLUME, "local level", use_exact_diffuse=True)
    grid = local_level(VOLUME, mechanism=GAUSSIAN)
    kalman = local_level(VOLUME, mechanism=GAUSSIAN, method="kalman")
    assert grid.llf == pytest.approx(-633.4646, abs=1e-4)
    for fit in (grid, kalman):
        assert fit.llf == pytest.approx(theirs.loglike([OBSERVED, fit.variance]), abs=1e-6)
        assert fit.llf >= theirs.loglike([OBSERVED, 1472.1])
        assert fit.variance == pytest.approx(1472.1, rel=0.003)
    np.testing.assert_allclose(grid.estimate, kalman.estimate, rtol=1e-10)
    np.testing.assert_allclose(grid.std, kalman.std, rtol=1e-10)
    at = [theirs.smooth([OBSERVED, q]).smoothed_state[0] for q in kalman.steps.nodes[:, 0] ** 2]
    np.testing.assert_allclose(kalman.estimate, kalman.steps.weights @ np.array(at), rtol=1e-8)
    step = grid.law.points[1] - grid.law.points[0]
    np.testing.assert_allclose(grid.conf_int(), kalman.conf_int(), atol=0.05 * step)


def test_shift_of_the_nile():
    fits = [local_level(VOLUME, mechanism=GAUSSIAN, method=m, shift=28) for m in ("kalman", "grid")]
    for fit in fits:
        assert fit.variance == pytest.approx(0, abs=1e-6)
    kalman, grid = (fit.shift_test() for fit in fits)
    means, stds = (part[0, 0] for part in fits[0].shift_law[1:])  # without steps
    assert means == pytest.approx(-247.78, abs=0.005)
    assert stds == pytest.approx(np.sqrt(OBSERVED * (1 / 28 + 1 / 72)), rel=1e-6)
    assert grid.estimate == pytest.approx(kalman.estimate, rel=1e-9)
    assert grid.pvalue == pytest.approx(kalman.pvalue, rel=0.01)
    assert kalman.pvalue < 1e-3
    low, high = fits[1].shift_confint(kalman.pvalue)
    assert max(low, high) == pytest.approx(0, abs=5)


def test_trend_is_that_of_statsmodels():
    fit = local_level(VOLUME, mechanism=GAUSSIAN, method="kalman", trend=True)
    theirs = UnobservedComponents(VOLUME, "local linear trend", use_exact_diffuse=True)
    assert fit.llf == pytest.approx(
        theirs.loglike([OBSERVED, fit.variance, fit.slope_variance]), abs=1e-5
    )
    assert fit.llf >= theirs.fit(disp=False, maxiter=200).llf - 0.1


def dense(emission, q):
    """Return the likelihood and the smoothed laws by matrices, on whole numbers."""
    size = emission.shape[1]
    away = np.subtract.outer(np.arange(size), np.arange(size))
    steps = np.exp(-(away**2) / (2 * q)) if q else np.eye(size)
    step = steps / np.exp(-(np.arange(-5 * size, 5 * size) ** 2) / (2 * q or 1e-9)).sum()
    before = [emission[0]]
    for seen in emission[1:]:
        before.append(seen * (step @ before[-1]))
    after = [np.ones(size)]
    for seen in emission[:0:-1]:
        after.append(step.T @ (seen * after[-1]))
    laws = np.array(before) * np.array(after[::-1])
    return laws.sum(axis=1)[0], laws / laws.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("law", [dpi.Geometric(scale=6.0), LAW])
def test_days_under_a_threshold_are_summed_over(law):
    views = VIEWS.astype(float).where(VIEWS >= 97)
    fit = local_level(views, mechanism=law, threshold=97)
    assert (fit.published == (VIEWS >= 97)).all()
    f = fit.law.points
    seen = [law.pmf(y - f) if y == y else law.cdf(96 - f) for y in views]
    laws, likelihoods = 0.0, []
    for root, weight in zip(fit.steps.nodes[:, 0], fit.steps.weights, strict=True):
        likelihood, own = dense(np.array(seen), root**2)
        laws, likelihoods = laws + weight * own, [*likelihoods, likelihood]
    np.testing.assert_allclose(fit.estimate, laws @ f, rtol=1e-8)
    half = np.ones(len(likelihoods))
    half[[0, -1]] = 0.5
    shares = half * likelihoods
    np.testing.assert_allclose(fit.steps.weights, shares / shares.sum(), rtol=1e-6, atol=1e-12)
    lower, upper = map(np.asarray, fit.conf_int())
    for day in (0, 4):
        assert laws[day][f < lower[day]].sum() <= 0.025
        assert laws[day][f <= lower[day]].sum() > 0.025
        assert laws[day][f > upper[day]].sum() <= 0.025
        assert laws[day][f >= upper[day]].sum() > 0.025
    left_out = local_level(views, mechanism=law, missing="not released")
    assert left_out.estimate.iloc[5] > fit.estimate.iloc[5]


def test_missing_is_a_day_without_information():
    y = VOLUME[:30].copy()
    wide = [dpi.Gaussian(sigma=1e5 if k == 7 else 120.0) for k in range(30)]
    y[7] = np.nan
    call = {"method": "kalman", "missing": "not released"}
    lost = local_level(y, mechanism=dpi.Gaussian(sigma=120.0), **call)
    known = local_level(VOLUME[:30], mechanism=wide, method="kalman", same_definition=True)
    np.testing.assert_allclose(lost.estimate, known.estimate, rtol=1e-3)
    assert not lost.published[7]
    assert "1 days were not released" in lost.notes[-1]


def test_the_likelihood_of_a_rate():
    """Days of one rate: with no steps, the law of the rate is the product of likelihoods."""
    sick, people = np.full(15, 30), np.full(15, 200)
    for law in (dpi.Geometric(scale=5.0), dpi.Gaussian(sigma=8.0)):
        if law.is_integer:
            fit = local_level_ratio(sick, people, mechanism=law)
        else:
            fit = local_level_ratio(sick + 0.5, people + 0.5, mechanism=law)
        rates = np.exp(fit.law.points)
        e = np.arange(-150.0, 151.0)
        y, n = (30, 200) if law.is_integer else (30.5, 200.5)
        gap = y - np.multiply.outer(rates, n - e)
        weight = law.pmf(e) if law.is_integer else law.pdf(e)
        one = (law.pmf(np.rint(gap)) if law.is_integer else law.pdf(gap)) @ weight
        seen = np.log(np.maximum(one, 1e-300))
        apart = dpi.ratio_confint(float(y), float(n), mechanism=law)
        assert fit.conf_int().lower.min() > apart.lower
        assert fit.conf_int().upper.max() < apart.upper
        size = len(rates)
        away = np.subtract.outer(np.arange(size), np.arange(size)) * np.diff(fit.law.points)[0]
        laws = 0.0
        for root, share in zip(fit.steps.nodes[:, 0], fit.steps.weights, strict=True):
            if share < 1e-6:
                continue
            if root == 0:
                mass = np.exp(15 * (seen - seen.max()))
                laws = laws + share * mass / mass.sum()
                continue
            step = np.exp(-0.5 * (away / root) ** 2)
            forward = back = np.exp(seen - seen.max())
            for _ in range(7):
                forward, back = (np.exp(seen - seen.max()) * (step @ x) for x in (forward, back))
            mass = forward * back / np.exp(seen - seen.max())
            laws = laws + share * mass / mass.sum()
        assert fit.estimate[7] == pytest.approx(laws @ rates / laws.sum(), rel=1e-4)


def test_results_have_the_days():
    pytest.importorskip("matplotlib")
    fit = local_level(VIEWS, mechanism=LAW)
    assert fit.estimate.index.equals(DAYS)
    frame = fit.summary_frame(0.1)
    assert list(frame) == ["estimate", "std", "ci_lower", "ci_upper", "published"]
    axes = fit.plot()
    assert "day" in axes.get_xlabel()
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"values": VIEWS[:12]}, NotEstimableError, "at least 15 days"),
        ({"values": VIEWS.where(VIEWS > 100)}, InvalidParameterError, "threshold must be given"),
        ({"values": VIEWS.where(VIEWS > 140), "threshold": 141}, NotEstimableError, "8 days must"),
        ({"values": VIEWS[::-1]}, InvalidParameterError, "order of their days"),
        ({"mechanism": dpi.Exact()}, InvalidParameterError, "noise at each day"),
        (
            {"mechanism": [LAW] * 8 + [dpi.DiscreteGaussian(sigma=4.0)] * 8},
            ValueError,
            "2024-03-09",
        ),
        ({"trend": True}, InvalidParameterError, "'kalman' with a trend"),
        ({"shift": DAYS[0]}, InvalidParameterError, "after the first"),
        ({"shift": "x"}, InvalidParameterError, "one of the labels"),
        ({"threshold": 90, "missing": "not released"}, InvalidParameterError, "must be 'raise'"),
        (
            {"values": VIEWS.where(VIEWS > 96), "threshold": 97, "method": "kalman"},
            InvalidParameterError,
            "must be 'grid'",
        ),
        (
            {"values": dpi.noisy(VIEWS, mechanism=LAW, clamp=0), "mechanism": None},
            InvalidParameterError,
            "clamped",
        ),
    ],
)
def test_refusals(change, error, message):
    with pytest.raises(error, match=message):
        local_level(**({"values": VIEWS, "mechanism": LAW} | change))


def test_a_day_that_is_left_out_is_refused():
    days = DAYS.append(pd.DatetimeIndex([pd.Timestamp("2024-03-17"), pd.Timestamp("2024-03-20")]))
    series = pd.Series(np.append(VIEWS, [120, 130]), days)
    with pytest.raises(InvalidParameterError, match="row for each day"):
        local_level(series, mechanism=LAW)


def test_a_change_of_law_is_allowed_where_it_is_said_what_it_means():
    laws = [LAW] * 8 + [dpi.DiscreteGaussian(sigma=4.0)] * 8
    same = local_level(VIEWS, mechanism=laws, same_definition=True)
    moved = local_level(VIEWS, mechanism=laws, shift=DAYS[8])
    assert moved.shift == DAYS[8]
    assert same.shift is None
    with pytest.raises(InvalidParameterError, match="shift must be given"):
        same.shift_test()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"denominator": 200}, InvalidParameterError, "denominator"),
        ({"denominator": np.full(16, 9)}, NotEstimableError, "three standard|3 standard"),
        ({"numerator": np.full(12, 9), "denominator": np.full(12, 200)}, NotEstimableError, "15"),
    ],
)
def test_refusals_of_rates(change, error, message):
    call = {"numerator": np.full(16, 30), "denominator": np.full(16, 200)}
    with pytest.raises(error, match=message):
        local_level_ratio(**(call | {"mechanism": dpi.Geometric(scale=5.0)} | change))


@pytest.mark.slow
def test_coverage_under_two_laws():
    """12 series of 60 days; days of a series are dependent: 6 standard errors are about .08."""
    rng, hits, pvalues = np.random.default_rng(3), [], []
    laws = [dpi.Laplace(scale=20.0)] * 30 + [dpi.Laplace(scale=5.0)] * 30
    for _ in range(12):
        f = 500 + np.cumsum(4.0 * rng.normal(size=60))
        y = f + np.array([law.rvs(rng=rng) for law in laws])
        fit = local_level(y, mechanism=laws, shift=30)
        hits.append(fit.conf_int().contains(f))
        pvalues.append(fit.shift_test().pvalue)
    assert 0.87 < np.mean(hits) < 0.998
    assert np.sum(np.less(pvalues, 0.05)) <= stats.binom.isf(1e-7, 12, 0.05)


@pytest.mark.parametrize("change", ["gap", "reversed", "words", "table", "levels"])
def test_days_are_seen_whatever_their_labels(change):
    days = pd.date_range("2024-03-01", periods=16)
    gap = days[:8].append(days[8:] + pd.Timedelta(days=30))
    values, message = {
        "gap": (pd.Series(VIEWS.to_numpy() + 0.5, index=gap.to_period("D")), "a row for each day"),
        "reversed": (
            pd.Series(VIEWS.to_numpy() + 0.5, index=days.to_period("D")[::-1]),
            "in the order",
        ),
        "words": (
            pd.Series(VIEWS.to_numpy() + 0.5, index=days.strftime("%Y-%m-%d")),
            "to_datetime",
        ),
        "table": (pd.DataFrame(np.reshape(VIEWS.to_numpy() + 0.5, (-1, 2))), "one column"),
        "levels": (pd.Series(VIEWS.to_numpy() + 0.5, index=[days, days]), "one label a day"),
    }[change]
    with pytest.raises(InvalidParameterError, match=message):
        local_level(values, mechanism=dpi.Laplace(scale=2.0))


def test_days_of_a_time_zone_are_days():
    days = pd.date_range("2024-03-01", periods=16)
    law = dpi.Laplace(scale=2.0)
    local, plain = (
        local_level(pd.Series(VIEWS.to_numpy() + 0.5, index=one), mechanism=law)
        for one in (days.tz_localize("UTC"), days)
    )
    np.testing.assert_array_equal(local.estimate, plain.estimate)


def generalised(y, variances, day, trend):
    """The z statistic of a shift by generalised least squares, of a diffuse start."""
    there, t = ~np.isnan(y), np.arange(len(y))
    cov = variances[0] * np.minimum.outer(t, t) + np.diag(np.full(len(y), OBSERVED))
    columns = [np.ones(len(y)), t >= day]
    if trend:
        slope = np.maximum(t[:, None] - 1.0 - t, 0.0)
        cov, columns = cov + variances[1] * slope @ slope.T, [*columns, t]
    exog, inverse = np.column_stack(columns)[there], np.linalg.inv(cov[np.ix_(there, there)])
    covariance = np.linalg.inv(exog.T @ inverse @ exog)
    shift = (covariance @ exog.T @ inverse @ y[there])[1]
    return shift, np.sqrt(covariance[1, 1])


@pytest.mark.parametrize("trend", [False, True])
def test_shifts_at_all_days_are_those_of_least_squares(trend):
    y = VOLUME[:60].copy()
    y[[4, 20, 21]] = np.nan
    call = {"method": "kalman", "missing": "not released", "trend": trend}
    fit = local_level(y, mechanism=GAUSSIAN, **call)
    frame = fit.break_days(reps=2, rng=1)
    assert list(frame.index[[0, -1]]) == [3, 57]
    nodes = fit.breaks.nodes**2
    for day in (3, 20, 21, 28, 57):
        found = [generalised(y, node, day, trend) for node in nodes]
        shift, std = found[np.argmin([abs(s - frame["shift"][day]) for s, _ in found])]
        assert frame["shift"][day] == pytest.approx(shift, rel=1e-7)
        assert frame["std_err"][day] == pytest.approx(std, rel=1e-7)
    ratio = frame["statistic"].to_numpy()
    assert ratio[17] == pytest.approx(ratio[18], rel=1e-9)  # a day without a value, and the next
    assert (ratio <= np.square(frame["shift"] / frame["std_err"]) + 1e-9).all()
    assert frame["in_set"].all()  # two replicates say nothing at this level


def test_the_break_of_the_nile_is_found():
    years = pd.period_range("1871", "1970", freq="Y")
    fit = local_level(pd.Series(VOLUME, years), mechanism=GAUSSIAN, method="kalman")
    test = fit.break_test(reps=39, rng=1)
    assert test.pvalue == pytest.approx(1 / 40)
    assert "largest at 1899" in test.notes[0]
    frame = fit.break_days(reps=39, rng=1)
    assert frame["statistic"].idxmax() == pd.Period("1899", "Y")
    assert frame.loc["1899", "shift"] == pytest.approx(-247.78, abs=0.005)
    assert frame.loc["1899", "std_err"] == pytest.approx(27.37, abs=0.005)
    chosen = frame.index[frame["in_set"]]
    assert pd.Period("1899", "Y") in chosen
    assert len(chosen) < 15
    again = local_level(VOLUME + 5e4, mechanism=GAUSSIAN, method="kalman").break_days(
        reps=39, rng=1
    )
    np.testing.assert_allclose(again["statistic"], frame["statistic"], rtol=1e-5)


def test_breaks_are_looked_for_in_published_days():
    views = VIEWS.astype(float).where(VIEWS >= 97)
    rates = local_level_ratio(np.full(16, 30), np.full(16, 200), mechanism=dpi.Geometric(scale=5.0))
    for fit in (
        local_level(views, mechanism=LAW, threshold=97),
        local_level(VIEWS, mechanism=LAW, shift=DAYS[9]),
        rates,
    ):
        with pytest.raises(InvalidParameterError, match="without shift= and without days"):
            fit.break_test()
    with pytest.raises(NotEstimableError, match="50 published days"):
        local_level(VIEWS, mechanism=LAW).break_test()


@pytest.mark.slow
def test_size_of_the_test_of_a_break():
    """18 series under two laws: more rejections at 5 % have a chance below 1e-7."""
    rng, rejected = np.random.default_rng(9), 0
    laws = [dpi.Laplace(scale=20.0)] * 30 + [dpi.Laplace(scale=5.0)] * 30
    for _ in range(18):
        y = np.cumsum(4.0 * rng.normal(size=60)) + [law.rvs(rng=rng) for law in laws]
        fit = local_level(y, mechanism=laws, same_definition=True, method="kalman")
        rejected += fit.break_test(reps=19, rng=rng).pvalue <= 0.05
    assert rejected <= stats.binom.isf(1e-7, 18, 0.05)
