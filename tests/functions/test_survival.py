"""Survival curves: Kaplan and Meier's without noise, derivatives, and coverage by simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import survival_confint

D = np.array([30, 28, 40, 35, 22, 18, 15, 12, 8, 6])
C = np.array([10, 12, 9, 15, 20, 25, 18, 20, 30, 67])
EXACT = dpi.Exact()


def at_risk(d, c):
    return np.cumsum((d + c)[..., ::-1], axis=-1)[..., ::-1]


def curve(d, c):
    return np.cumprod(1 - d / at_risk(d, c), axis=-1)


S = curve(D, C)


def test_without_noise_it_is_that_of_kaplan_and_meier():
    """The curve that lifelines 0.30.3 gives, and its log-log intervals by Greenwood's formula."""
    published = [0.9318181818181825, 0.8665909090909096, 0.7703030303030305, 0.6836129786612102]
    published += [0.6259904287357443, 0.5745391606204775, 0.525572754885778, 0.4814687474827756]
    published += [0.4467682972137469, 0.4100476152509731]
    for method in ("bound", "asymptotic"):
        found = survival_confint(D, C, mechanism=EXACT, method=method)
        np.testing.assert_allclose(found.estimate, S, rtol=1e-12)
        np.testing.assert_allclose(found.lower, S, rtol=1e-12)
        np.testing.assert_allclose(found.upper, found.plug_in, rtol=1e-12)
        np.testing.assert_allclose(found.estimate, published, atol=1e-10)
    n = at_risk(D, C)
    se = np.sqrt(np.cumsum(D / (n * (n - D)))) / np.abs(np.log(S)) * stats.norm.isf(0.025)
    found = survival_confint(
        D, C, mechanism=EXACT, method="asymptotic", uncertainty="noise+sampling"
    )
    np.testing.assert_allclose(found.lower, S ** np.exp(se), rtol=1e-10)
    np.testing.assert_allclose(found.upper, S ** np.exp(-se), rtol=1e-10)
    ends = found.lower.iloc[[0, -1]], found.upper.iloc[[0, -1]]
    np.testing.assert_allclose(ends[0], [0.9039264947862802, 0.353137391004447], atol=1e-10)
    np.testing.assert_allclose(ends[1], [0.9518278163431428, 0.46602598589161737], atol=1e-10)


@pytest.mark.parametrize("law", [dpi.Geometric, dpi.Laplace])
@pytest.mark.parametrize("together", [False, True])
def test_bounds_of_many_curves_are_those_of_each_noise_by_itself(law, together):
    """Where all noises have one law the weights are a triangle; with laws by count, any."""
    rng = np.random.default_rng(4)
    deaths, left = rng.poisson(20, (90, 5)) + 0.0, rng.poisson(15, (90, 5)) + 0.0
    left[:, -1] += 150
    left[0, -1] = 0
    options = {"simultaneous": together, "method": "bound"}
    found, other = (
        survival_confint(deaths, left, mechanism=(law(scale=2.0), its), **options)
        for its in (law(scale=1.0), law(scale=np.ones((90, 5))))
    )
    np.testing.assert_allclose(found.lower, other.lower, rtol=1e-7)
    np.testing.assert_allclose(found.upper, other.upper, rtol=1e-7)


@pytest.mark.parametrize("joint", [False, True])
def test_the_variance_is_that_of_the_linear_part(joint):
    """The same by derivatives of log S in all counts, for independent and for shared noises."""
    values = np.r_[D, C] * 100.0
    law = dpi.Gaussian(sigma=4.0)
    weights = np.random.default_rng(2).normal(size=(20, 7)) if joint else np.eye(20)
    x = dpi.noisy(values, weights=weights, mechanism=law)
    found = survival_confint(
        x.take(range(10)), x.take(range(10, 20)), method="asymptotic", scale="log"
    )

    def logs(counts):
        return np.log(curve(counts[:10], counts[10:]))

    slope = np.array([logs(values + s) - logs(values - s) for s in np.eye(20)]).T / 2
    se = np.sqrt(np.diag(slope @ x.cov() @ slope.T))
    half = 0.5 * (np.log(found.upper) - np.log(found.lower))
    np.testing.assert_allclose(half, stats.norm.isf(0.025) * se, rtol=1e-5)


def test_asymptotic_intervals_cover():
    """5,000 curves, cells with noise of sd 4: S₆ in 0.95, within 4.5 standard errors."""
    rng = np.random.default_rng(1)
    law = dpi.Gaussian(sigma=4.0)
    y, z = (f + rng.normal(0, 4, (5000, 10)) for f in (D, C))
    for scale in ("log", "log-log"):
        found = survival_confint(y, z, mechanism=law, method="asymptotic", scale=scale)
        sixth = found.labels.get_level_values("time") == 6.0
        assert found.contains(S[5]).to_numpy()[sixth].mean() == pytest.approx(0.951, abs=0.014)
    estimate = np.asarray(found.estimate)[sixth]
    assert abs(estimate.mean() - S[5]) < 4.5 * estimate.std() / np.sqrt(5000)


LAWS = [dpi.Gaussian(sigma=2.0), dpi.Geometric(scale=1.0), dpi.Laplace(scale=1.0)]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_bands_cover_all_times_together(law):
    """Of 300 at level 0.8, 203 by chance in 1 of 10⁷ if they covered in just 0.8."""
    y, z = (f + law.rvs((300, 10), rng=k) for k, f in enumerate((D, C)))
    found = survival_confint(y, z, mechanism=law, alpha=0.2, simultaneous=True)
    held = found.contains(np.tile(S, 300)).to_numpy().reshape(300, 10)
    assert held.all(axis=1).sum() >= 203
    each = survival_confint(y, z, mechanism=law, alpha=0.2)
    assert each.contains(np.tile(S, 300)).to_numpy().reshape(300, 10).sum(axis=0).min() >= 203
    assert each.width.to_numpy()[::10].max() < found.width.to_numpy()[::10].max()


def test_bounds_of_one_curve_hold_for_the_worst_errors():
    """Errors at the ends of what they can be, of all signs: the rest beyond the linear part."""
    rng = np.random.default_rng(6)
    law = dpi.Gaussian(sigma=1.0)
    signs = rng.choice([-1.0, 1.0], (200, 20))
    # errors of one size that are among the 99 % smallest in each linear function
    y, z = D + 0.5 * signs[:, :10], C + 0.5 * signs[:, 10:]
    found = survival_confint(y, z, mechanism=law, simultaneous=True, alpha=0.05)
    assert found.contains(np.tile(S, 200)).all()


def test_bounds_are_sharp_with_many_at_risk():
    law = dpi.Gaussian(sigma=4.0)
    wide = survival_confint(10_000 * D, 10_000 * C, mechanism=law)
    short = survival_confint(10_000 * D, 10_000 * C, mechanism=law, method="asymptotic")
    ratio = wide.width / short.width
    assert ratio.min() > 1.0
    assert ratio.max() < 1.04


def test_with_sampling():
    """Bands of Clopper and Pearson; and 300 samples of level 0.8 covered as above."""
    one = survival_confint([30], [70], mechanism=EXACT, uncertainty="noise+sampling")
    ends = 1 - stats.beta.ppf([0.975, 0.025], [31, 30], [70, 71])
    np.testing.assert_allclose([one.lower.iloc[0], one.upper.iloc[0]], ends, rtol=1e-10)
    assert one.simultaneous
    rng, law = np.random.default_rng(3), dpi.Geometric(scale=1.0)
    hazard = D[:4] / at_risk(D, C)[:4]
    left, deaths, censored = np.full(300, 447), [], []
    for h in hazard:
        deaths.append(rng.binomial(left, h))
        censored.append(rng.binomial(left - deaths[-1], 0.03))
        left = left - deaths[-1] - censored[-1]
    censored[-1] = censored[-1] + left
    y, z = (np.stack(f, axis=1) + law.rvs((300, 4), rng=rng) for f in (deaths, censored))
    truth = np.tile(np.cumprod(1 - hazard), 300)
    for how, at_least in (({"method": "bound"}, 203), ({"method": "asymptotic"}, 203)):
        found = survival_confint(
            y, z, mechanism=law, alpha=0.2, uncertainty="noise+sampling", **how
        )
        held = found.contains(truth).to_numpy().reshape(300, 4)
        assert (held.all(axis=1) if how["method"] == "bound" else held[:, 2]).sum() >= at_least


def test_curves_end_where_too_few_are_left():
    d, c = np.array([40, 30, 20, 2]), np.array([10, 10, 100, 3])
    law = dpi.Gaussian(sigma=2.0)
    found = survival_confint(d, c + 0.5, times=[1, 2, 5, 10], mechanism=law)
    assert found.labels.tolist() == [1.0, 2.0, 5.0]
    assert found.notes == ("the curve ends at time 5: too few are at risk after it",)
    areas = pd.Series(np.r_[d, d + 50], pd.MultiIndex.from_product([["A", "B"], range(4)]))
    areas.index.names = ["area", "year"]
    later = pd.Series(np.r_[c, c + 50] + 0.5, areas.index)
    both = survival_confint(areas, later, by="area", mechanism=law, method="asymptotic")
    assert both.labels.tolist()[:3] == [("A", 1.0), ("A", 2.0), ("A", 3.0)]
    assert len(both) == 7
    assert "'A' at 3" in both.notes[0]
    with pytest.raises(NotEstimableError, match="first interval"):
        survival_confint([1, 2], [3.5, 1], mechanism=law)
    with pytest.raises(InvalidParameterError, match="times must increase"):
        survival_confint(d, c, times=[1, 2, 2, 3], mechanism=EXACT)


def test_persons_at_risk_are_combined_first():
    """Published persons at risk make the curve no wider."""
    law, size = dpi.Gaussian(sigma=2.0), 4
    d, c = D[:4] * 10, C[:4] * 10
    queries = np.vstack([np.eye(8), np.hstack([np.triu(np.ones((4, 4)))] * 2)])
    published = queries @ np.r_[d, c] + law.rvs(12, rng=5)
    fit = dpi.noisy(dpi.combine(published, workload=queries, mechanism=law))
    deaths, censored = fit.take(range(size)), fit.take(range(size, 2 * size))
    found = survival_confint(deaths, censored)
    plain = survival_confint(published[:4], published[4:8], mechanism=law)
    assert (found.width < plain.width).all()
    assert found.contains(curve(d, c)).all()


def test_restricted_means():
    law = dpi.Gaussian(sigma=1.0)
    found = survival_confint(D, C, mechanism=law, simultaneous=True, times=np.arange(1, 11) * 0.5)
    mean = found.restricted_mean(2.0)
    whole = np.r_[1.0, np.asarray(found.lower)[:4]]
    assert mean.lower == pytest.approx(0.25 * (whole[1:] + whole[:-1]).sum())
    assert mean.contains(0.25 * (2 * np.r_[1.0, S[:4]].sum() - 1 - S[3]))
    with pytest.raises(InvalidParameterError, match="simultaneous=True"):
        survival_confint(D, C, mechanism=law).restricted_mean()
    with pytest.raises(InvalidParameterError, match="until must be a time"):
        found.restricted_mean(7.3)


def test_it_is_drawn_as_steps():
    pytest.importorskip("matplotlib").use("Agg")
    law = dpi.Gaussian(sigma=1.0)
    found = survival_confint(np.tile(D, (3, 1)), np.tile(C, (3, 1)), mechanism=law)
    axes = found.plot(most=2)
    assert len(axes.lines) == 2
    np.testing.assert_allclose(axes.lines[0].get_ydata()[1:], found.estimate.iloc[:10])
    assert axes.lines[0].get_drawstyle() == "steps-post"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["0", "1"]
