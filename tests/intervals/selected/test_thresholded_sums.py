"""Sums of counts of which some did not reach the threshold of publication.

Simulations have fixed seeds; each bound is the nominal error probability with a binomial tail below
1e-8, so that all of them fail by accident with probability below 1e-6.
"""

from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from dpinfer import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Release,
    Tulap,
    linear_confint,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import thresholded_ratio_confint, thresholded_sum_confint
from dpinfer.mechanisms import Rounded

ALPHA = 0.05
VIEWS = {"mechanism": DiscreteGaussian(sigma=18.23), "threshold": 90}
HISTORY = {"mechanism": Geometric(scale=30.0), "threshold": 450}
SMOOTH = {"mechanism": Laplace(scale=30.0), "threshold": 450}
LOW = {"mechanism": Gaussian(sigma=30.0), "threshold": 40}
REGIMES = {"views": VIEWS, "history": HISTORY, "smooth": SMOOTH, "low": LOW}


def most_misses(reps, probability):
    """Return what so many repetitions exceed with probability 1e-8 at most."""
    return stats.binom.isf(1e-8, reps, probability)


def simulate(truth, regime, target, reps, seed, **options):
    """Return how often the lower and upper ends miss the target, for groups drawn together."""
    rng = np.random.default_rng(seed)
    truth = np.asarray(truth, dtype=float)
    y = truth + regime["mechanism"].rvs((reps, truth.size), rng=rng)
    out = y >= regime["threshold"]
    lower, upper = thresholded_sum_confint(
        np.where(out, y, np.nan).ravel(),
        target=target,
        cells=y.size,
        by=np.repeat(np.arange(reps), truth.size),
        **regime,
        **options,
    )
    goal = truth.sum() if target == "cells" else (truth * out).sum(axis=1)
    return int(np.sum(lower > goal + 1e-9)), int(np.sum(upper < goal - 1e-9))


def truths(cells, regime):
    """Yield counts on a grid about the threshold, equal and in two halves."""
    t, std = regime["threshold"], float(regime["mechanism"].std)
    levels = np.round(np.maximum(t + std * np.array([-99, -3, -1, 0, 1, 2, 4, 12]), 0))
    yield from (np.full(cells, level) for level in levels)
    if cells > 1:
        for low, high in pairwise(levels):
            yield np.where(np.arange(cells) % 2, low, high)
        yield np.where(np.arange(cells) % 2, levels[0], levels[-1])


@pytest.mark.parametrize("name", REGIMES)
@pytest.mark.parametrize(
    ("cells", "each"),
    [
        (1, 1),
        (5, 2),
        (30, 4),
        pytest.param(400, 9, marks=pytest.mark.slow),
        pytest.param(60, 1, marks=pytest.mark.study),
        pytest.param(400, 1, marks=pytest.mark.study),
    ],
)
@pytest.mark.parametrize("target", ["cells", "published"])
def test_coverage_on_a_grid_about_the_threshold(name, cells, each, target):
    regime, reps = REGIMES[name], 400 if cells < 400 else 100
    # each second, fourth or ninth of the grid, from another start for the next regime and target
    start = (list(REGIMES).index(name) + 3 * (target == "published")) % each
    for seed, truth in list(enumerate(truths(cells, regime)))[start::each]:
        below, above = simulate(truth, regime, target, reps, seed)
        assert max(below, above) <= most_misses(reps, ALPHA / 2), truth[:2]


def tail_of_errors(truth, regime, limit):
    """P(Σ D > limit) for one or two cells, by the law of the noise alone."""
    law, t = regime["mechanism"], regime["threshold"]
    k = np.arange(-60.0 * np.ceil(law.std), 60.0 * np.ceil(law.std) + 1)
    p, total = law.pmf(k), np.zeros(1)
    mass = np.ones(1)
    for f in truth:
        error = np.where(f + k >= t, k, -f)
        total = np.add.outer(total, error).ravel()
        mass = np.multiply.outer(mass, p).ravel()
    return float(mass[total > limit].sum())


@pytest.mark.parametrize("name", ["views", "history"])
def test_lower_ends_by_enumeration(name):
    """The margin of one and of two cells is never missed by more, whatever the counts are."""
    regime = REGIMES[name]
    scale, t = (1, 90) if name == "views" else (5, 450)
    for cells in (1, 2):
        published = np.full(cells, 10.0 * t)
        found = thresholded_sum_confint(published, target="cells", cells=cells, **regime)
        margin = published.sum() - float(found.lower)
        plain = linear_confint(published, np.ones(cells), mechanism=regime["mechanism"])
        assert margin == published.sum() - float(plain.lower)  # no margin below that serves
        grid = np.arange(0, 2 * t, 45 * scale)
        for f in grid:
            for g in grid if cells == 2 and name == "views" else grid[:1]:
                assert tail_of_errors([f, g][:cells], regime, margin) <= ALPHA / 2 + 1e-12


def test_margins_are_close_to_the_least_and_hold_where_thresholds_are_low():
    for regime in (VIEWS, HISTORY, SMOOTH):
        for cells in (5, 20, 60):
            values = np.full(cells, 1e5)
            found = thresholded_sum_confint(values, target="cells", cells=cells, **regime)
            least = (
                linear_confint(
                    values + 0.25 * (regime is SMOOTH),
                    np.ones(cells),
                    mechanism=regime["mechanism"],
                ).width
                / 2
            )
            assert least <= values.sum() - found.lower <= 1.021 * least
            assert found.upper - values.sum() == pytest.approx(least)
    # one standard deviation: with every count 0 the mean of the error is 20 * 0.242
    low = {"mechanism": Gaussian(sigma=1.0), "threshold": 1.0}
    found = thresholded_sum_confint(np.full(20, 99.5), target="cells", cells=20, **low)
    assert 20 * 99.5 - found.lower > 11.0
    rng = np.random.default_rng(1)
    error = rng.normal(size=(40_000, 20))
    error = np.where(error >= 1.0, error, 0.0).sum(axis=1)
    assert np.mean(error > 1.96 * np.sqrt(20)) > 0.06  # what the plain quantile would miss
    assert np.mean(error > 20 * 99.5 - found.lower) < 0.025


def test_a_threshold_out_of_reach_changes_nothing():
    values = np.array([120.0, 340.0, 95.0])
    for law in (DiscreteGaussian(sigma=5.0), Geometric(scale=3.0)):
        found = thresholded_sum_confint(
            values, target="cells", cells=3, mechanism=law, threshold=[-np.inf, -np.inf, -1e6]
        )
        plain = linear_confint(values, np.ones(3), mechanism=law)
        assert (found.upper, found.estimate) == (plain.upper, plain.estimate)
    always = thresholded_sum_confint(
        values,
        target="cells",
        cells=3,
        weights=[1, -2, 0],
        mechanism=law,
        threshold=[-np.inf, -np.inf, 90],
    )
    plain = linear_confint(values, [1, -2, 0], mechanism=law)
    assert tuple(map(float, always)) == tuple(map(float, plain))


def test_ends_of_a_list_by_hand():
    law = VIEWS["mechanism"]
    found = thresholded_sum_confint([200, np.nan, 120, np.nan], target="cells", **VIEWS)
    q = float(linear_confint(np.zeros(4), np.ones(4), mechanism=law).upper)
    assert float(found.upper) == 320 + 2 * 89 + q
    assert float(found.estimate) == 320 + 89
    assert found.assurance == "bound"
    assert "2 unpublished cells" in found.summary()
    known = thresholded_sum_confint(
        [200, np.nan, 120, np.nan], target="cells", upper=[np.inf, 10, np.inf, 20], **VIEWS
    )
    two = float(linear_confint(np.zeros(2), np.ones(2), mechanism=law).upper)
    assert float(known.upper) == 320 + 30 + two
    total = thresholded_sum_confint([200, np.nan], target="cells", upper=[210, 10], **VIEWS)
    assert float(total.upper) == 220
    mean = thresholded_sum_confint([200, np.nan], target="cells", weights="mean", **VIEWS)
    whole = thresholded_sum_confint([200, np.nan], target="cells", **VIEWS)
    np.testing.assert_allclose(np.asarray(mean), np.asarray(whole) / 2, rtol=0.01)


def test_contrasts_cover_at_counts_about_the_threshold():
    """A trend has many weights, of either sign; its ends hold at 1 - α/2 each."""
    reps, days = 2000, 12
    trend = np.arange(days) - 5.5
    for seed, truth in enumerate([np.full(days, 90), 20 * np.arange(days), np.full(days, 400)]):
        y = truth + VIEWS["mechanism"].rvs((reps, days), rng=np.random.default_rng(seed))
        lower, upper = thresholded_sum_confint(
            np.where(y >= 90, y, np.nan).ravel(),
            target="cells",
            cells=y.size,
            weights=np.tile(trend, reps),
            by=np.repeat(np.arange(reps), days),
            **VIEWS,
        )
        goal = float(trend @ truth)
        for missed in (lower > goal, upper < goal):
            assert missed.sum() <= most_misses(reps, ALPHA / 2)
        if truth[0] == 400:  # all published: within 25 % of the plain interval
            plain = linear_confint(y[0], trend, mechanism=VIEWS["mechanism"]).width
            assert np.all(upper - lower < 1.25 * plain)


def test_two_regimes_in_one_series_have_their_laws_and_thresholds():
    laws = [HISTORY["mechanism"]] * 3 + [VIEWS["mechanism"]] * 3
    t = [450] * 3 + [90] * 3
    values = [900, 700, np.nan, 300, np.nan, 250]
    found = thresholded_sum_confint(values, target="cells", mechanism=laws, threshold=t)
    q = float(linear_confint(np.zeros(6), np.ones(6), mechanism=laws).upper)
    assert float(found.upper) == 2150 + 449 + 89 + q
    assert 2150 - 1.05 * q < float(found.lower) <= 2150 - q
    apart = thresholded_sum_confint(
        values, target="published", mechanism=laws, threshold=t, by=["a"] * 3 + ["b"] * 3
    )
    alone = thresholded_sum_confint(values[3:], target="published", **VIEWS)
    assert tuple(map(float, apart["b"])) == tuple(map(float, alone))


def test_what_was_published_is_covered_given_that_it_was():
    """One cell, by sums over the support: both ends miss at most α/2 of what is published."""
    t, law = 20, Geometric(scale=3.0)
    y = np.arange(t, 400)
    lower, upper = thresholded_sum_confint(y, target="published", mechanism=law, threshold=t, by=y)
    for f in [0, 5, 15, 19, 20, 21, 25, 30, 50, 100, 200]:
        p = law.pmf(y - f)
        p = p / law.sf(t - f - 1)
        assert p[np.asarray(lower) > f].sum() <= ALPHA / 2
        assert p[np.asarray(upper) < f].sum() <= ALPHA / 2 + 1e-12
    assert np.all(np.diff(lower) >= 0)
    assert lower.iloc[-1] > 300  # far above the threshold it is not 0


@pytest.mark.parametrize("width", [None, 1, 2, 7])
@pytest.mark.parametrize("f", [0, 15, 20, 21, 24, 27, 60])
def test_soft_excess_under_geometric_noise_is_unbiased_by_sums_over_the_support(f, width):
    t, law = 20, Geometric(scale=3.0)
    y = np.arange(t, 700)
    p = law.pmf(y - f)
    law_of = {"mechanism": law, "threshold": t, "method": "asymptotic"}
    found = thresholded_sum_confint(y, target="soft", by=y, width=width, **law_of)
    estimate = np.asarray(found.estimate)
    variance = np.square(np.asarray(found.width) / (2 * stats.norm.isf(0.025)))
    w, z = width or 3, f - t
    ramp = 0 if z < 0 else z * (z + 1) / (2 * w) if z < w else z - (w - 1) / 2
    mean = p @ estimate
    assert mean == pytest.approx(ramp, abs=1e-10)
    # the estimate of the variance is unbiased too, where it is not cut at 0
    true = p @ np.square(estimate) - mean**2
    assert p @ variance >= true - 1e-9
    if width == 1:
        hard = thresholded_sum_confint(y, target="excess", by=y, **law_of)
        np.testing.assert_array_equal(hard.estimate, estimate)
        assert p @ variance == pytest.approx(true)
        known = {20: 4.70, 27: 4.27}
        if f in known:
            assert np.sqrt(true) == pytest.approx(known[f], abs=0.005)


@pytest.mark.parametrize("f", [100.0, 300.0, 312.0, 350.0, 500.0])
def test_soft_excess_under_laplace_noise_is_unbiased_by_integration(f):
    t, law = 300.0, Laplace(scale=10.0)
    w, z = 10.0, f - t

    def estimate(y):
        found = thresholded_sum_confint(
            y + 0.0,
            target="soft",
            mechanism=law,
            threshold=t,
            by=np.arange(len(y)),
            method="asymptotic",
        )
        deviation = np.asarray(found.width) / (2 * stats.norm.isf(0.025))
        return np.asarray(found.estimate), np.square(deviation)

    mean = square = variance = 0.0
    nodes, weights = np.polynomial.legendre.leggauss(60)
    for low, high in pairwise(sorted({t, t + w, max(f, t), *np.linspace(t, f + 400, 40)})):
        if high - low < 1e-9:
            continue
        y = (low + high) / 2 + (high - low) / 2 * nodes
        mass = weights * law.pdf(y - f) * (high - low) / 2
        value, spread = estimate(y)
        mean += mass @ value
        square += mass @ value**2
        variance += mass @ spread
    ramp = 0 if z < 0 else z * z / (2 * w) if z < w else z - w / 2
    assert mean == pytest.approx(ramp, abs=1e-8)
    assert variance >= square - mean**2 - 1e-8


@pytest.mark.parametrize("law", [DiscreteGaussian(sigma=18.23), DiscreteGaussian(sigma=0.7)])
def test_soft_excess_under_gaussian_noise_has_at_most_the_variance_that_is_taken(law):
    """Its mean is E(Y - t)₊, and its variance at most v·P(Y >= t), by sums over the support."""
    k = np.arange(-900.0, 901.0)
    for f in np.arange(-3.0 * np.ceil(law.sigma), 6.0 * np.ceil(law.sigma)):
        p = law.pmf(k - f)
        over = np.maximum(k, 0)
        assert p @ over**2 - (p @ over) ** 2 <= law.variance * p[k >= 0].sum() + 1e-12
    smooth = integrate.quad(lambda e: max(e - 1.0, 0.0) * stats.norm.pdf(e), 1.0, 9.0)[0]
    assert smooth == pytest.approx(-stats.norm.sf(1) + stats.norm.pdf(1))


def test_soft_excess_covers_in_simulation():
    reps, truth = 4000, np.linspace(180, 720, 60).round()
    y = truth + HISTORY["mechanism"].rvs((reps, 60), rng=np.random.default_rng(5))
    out = y >= 450
    found = thresholded_sum_confint(
        y[out], target="soft", by=np.nonzero(out)[0], width=30, method="asymptotic", **HISTORY
    )
    z = truth - 450
    goal = np.where(z < 0, 0, np.where(z < 30, z * (z + 1) / 60, z - 14.5)).sum()
    assert goal == pytest.approx(3698.7, abs=0.1)
    assert np.mean(found.estimate) == pytest.approx(goal, abs=6 * 228 / np.sqrt(reps))
    assert np.std(found.estimate) == pytest.approx(228, rel=0.08)
    assert abs(np.mean(found.contains(goal)) - 0.95) < 0.01 + 6 * np.sqrt(0.0475 / reps)


SOFT = {
    "soft": lambda x, w: np.where(x < w, x * (x + 1) / (2 * w), x - (w - 1) / 2),
    "excess": lambda x, w: x,
    "soft-count": lambda x, w: np.clip(x / w, 0, 1) ** 2 * (3 - 2 * np.clip(x / w, 0, 1)),
}


def check_by_enumeration(law, target, cells, goal):
    """Ends for sums of few cells miss with half of alpha or less, for counts about a threshold."""
    t = 15
    k = np.arange(t - 1, t + np.ceil(25 * law.std) + 12)
    place = np.array(list(product(range(len(k)), repeat=cells)))
    for alpha in (0.05, 0.6):
        found = thresholded_sum_confint(
            np.where(k >= t, k, np.nan)[place].ravel(),
            target=target,
            mechanism=law,
            threshold=t,
            by=np.repeat(np.arange(len(place)), cells),
            alpha=alpha,
        )
        on_a_grid = isinstance(law, DiscreteGaussian)
        assert found.assurance == ("checked" if on_a_grid else "bound")
        estimate = np.asarray(found.estimate)
        lower, upper = map(np.asarray, found)
        assert (lower <= np.maximum(estimate, 0) + 1e-9).all()
        assert (upper >= estimate - 1e-9).all()
        levels = [0, t - 3, t - 1, t, t + 1, t + 2, t + 4, t + int(4 * law.std)]
        for truth in combinations_with_replacement(levels, cells):
            mass = [law.pmf(k - f) for f in truth]
            for part, f in zip(mass, truth, strict=True):
                part[0] = law.cdf(t - 1 - f)
            p = np.prod([part[place[:, i]] for i, part in enumerate(mass)], axis=0)
            total = sum(goal(f - t) for f in truth)
            assert p[lower > total + 1e-9].sum() <= alpha / 2 + 1e-12
            assert p[upper < total - 1e-9].sum() <= alpha / 2 + 1e-12


@pytest.mark.thinned("cells", "target", "scale", every=2)
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("target", ["soft", "excess", "soft-count"])
@pytest.mark.parametrize("scale", [2.0, 0.4])
def test_excesses_of_few_cells_are_covered_under_geometric_noise(target, scale, cells):
    width = {"excess": 1, "soft": 1, "soft-count": 4}[target] * scale
    width = 1 if target == "excess" else max(round(width), 1)
    curve = SOFT[target]
    check_by_enumeration(
        Geometric(scale=scale), target, cells, lambda d: float(curve(max(d, 0.0), width))
    )


@pytest.mark.thinned("cells", "sigma", every=2)
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("sigma", [3.0, 0.7, 0.25])
def test_soft_excesses_of_few_cells_are_covered_under_discrete_gaussian_noise(sigma, cells):
    law, e = DiscreteGaussian(sigma=sigma), np.arange(-80.0, 81.0)
    check_by_enumeration(law, "soft", cells, lambda d: law.pmf(e) @ np.maximum(e + d, 0))


@pytest.mark.thinned("name", "level", every=2)
@pytest.mark.parametrize("name", REGIMES)
@pytest.mark.parametrize("level", [-3, 1, 4])
def test_excesses_of_many_cells_and_contrasts_are_covered(name, level):
    """By chance, fails in one of 1e8 cases or less."""
    regime = REGIMES[name]
    law, t = regime["mechanism"], regime["threshold"]
    reps, cells = 500, 40
    f = np.full(cells, np.rint(max(t + level * law.std, 0)))
    y = f + law.rvs((reps, cells), rng=np.random.default_rng(19))
    d = f[0] - t
    if name == "views":
        e = np.arange(-400.0, 401.0)
        each = law.pmf(e) @ np.maximum(e + d, 0)
    elif name == "low":
        each = 30 * (d / 30 * stats.norm.cdf(d / 30) + stats.norm.pdf(d / 30))
    else:
        u = 1.0 if name == "history" else 0.0
        each = max(d, 0) * (max(d, 0) + u) / 60 if d < 30 else d - (30 - u) / 2
    weights = np.where(np.arange(cells) < 30, 1.0, -0.5)
    for c in (np.ones(cells), weights):
        lower, upper = thresholded_sum_confint(
            np.where(y >= t, y, np.nan).ravel(),
            target="soft",
            cells=y.size,
            by=np.repeat(np.arange(reps), cells),
            weights=np.tile(c, reps),
            **regime,
        )
        goal = each * c.sum()
        assert np.sum(lower > goal + 1e-9) <= most_misses(reps, 0.025)
        assert np.sum(upper < goal - 1e-9) <= most_misses(reps, 0.025)
        assert np.all(upper - lower < 2.6 * 1.96 * 2 * law.std * np.sqrt(cells))


def test_asymptotic_excesses_are_asked_for_and_say_so():
    with pytest.raises(InvalidParameterError, match="method must be 'bound' with target='cells'"):
        thresholded_sum_confint([200, np.nan], target="cells", method="asymptotic", **VIEWS)
    found = thresholded_sum_confint([200, np.nan], target="soft", method="asymptotic", **VIEWS)
    assert found.method == "asymptotic"
    assert "fewer than 10 published cells" in found.notes[1]
    none = thresholded_sum_confint([np.nan, np.nan], target="soft", **VIEWS)
    assert none.lower == 0
    assert none.upper > 0
    with pytest.raises(InvalidParameterError, match="values must hold the whole list"):
        thresholded_sum_confint([200, 300], target="soft", weights=[1, 2], **VIEWS)


def test_ratios():
    days = pd.MultiIndex.from_product([["DE", "FR"], [1, 2]], names=["country", "week"])
    views = pd.Series([900, 450, np.nan, 300], index=days)
    week = days.get_level_values("week")
    parts = {"numerator": (week == 1).astype(float), "denominator": (week == 2).astype(float)}
    found = thresholded_ratio_confint(views, **parts, target="cells", by="country", **VIEWS)
    sums = [
        thresholded_sum_confint(
            views, target="cells", weights=w, by="country", alpha=0.025, **VIEWS
        )
        for w in parts.values()
    ]
    np.testing.assert_array_equal(found.lower, sums[0].lower / sums[1].upper)
    np.testing.assert_array_equal(found.upper, sums[0].upper / sums[1].lower)
    assert found.lower["FR"] == 0  # one side only
    other = thresholded_ratio_confint(
        views, parts["denominator"], parts["numerator"], target="cells", by="country", **VIEWS
    )
    assert other.upper["FR"] == np.inf
    assert "no upper end" in other.summary()
    with pytest.raises(InvalidParameterError, match="numerator must have weights of at least 0"):
        thresholded_ratio_confint(views, [-1, 0, 0, 1], [1, 1, 1, 1], target="cells", **VIEWS)


def test_releases_frames_and_groups():
    law = VIEWS["mechanism"]
    days = pd.MultiIndex.from_product([["DE", "FR"], [1, 2]], names=["country", "week"])
    views = pd.Series([900, 450, np.nan, 300], index=days)
    release = Release(views.dropna(), mechanism=law, threshold=90)
    by_list = thresholded_sum_confint(release, target="cells", cells=days, by="country")
    by_hand = thresholded_sum_confint(views, target="cells", by="country", **VIEWS)
    pd.testing.assert_series_equal(by_list.lower, by_hand.lower)
    pd.testing.assert_series_equal(by_list.upper, by_hand.upper)
    table = thresholded_sum_confint(
        pd.DataFrame([[900, 450], [np.nan, 300]], ["DE", "FR"]), target="cells", **VIEWS
    )
    assert tuple(table) == tuple(thresholded_sum_confint(views, target="cells", **VIEWS))
    published = thresholded_sum_confint(release, target="published", by=["country"])
    assert list(published.labels) == ["DE", "FR"]
    with pytest.raises(InvalidParameterError, match="which cells were not published"):
        thresholded_sum_confint(release, target="cells")
    with pytest.raises(InvalidParameterError, match="thresholded_sum_confint"):
        release.sum("country")
    none = thresholded_sum_confint([np.nan, np.nan], target="cells", **VIEWS)
    assert float(none.lower) == 0
    smooth = thresholded_sum_confint([np.nan, np.nan], target="cells", **SMOOTH)
    assert smooth.upper > 900
    nothing = thresholded_sum_confint([np.nan, np.nan], target="published", **VIEWS)
    assert tuple(map(float, nothing)) == (0, 0)


WRONG = {
    "target must be": {"target": "all"},
    "threshold must be given": {"threshold": None},
    "which cells were not published": {"values": [100, 120]},
    "cells must be the number": {"cells": 7},
    "weights must have 3": {"weights": [1, 2]},
    "weights must be": {"weights": "total"},
    "weights='mean' needs the whole list": {
        "target": "soft",
        "weights": "mean",
        "values": [200, 150],
    },
    "weights='slope' needs the whole list": {
        "target": "published",
        "weights": "slope",
        "values": [200, 150],
    },
    "target='soft-count' is for Laplace and Geometric": {"target": "soft-count"},
    "alternative must be": {"alternative": "upper"},
    "alpha must be less than 0.5": {"alternative": "larger", "alpha": 0.5},
    "target='excess' is for Geometric": {"target": "excess"},
    "width must be left out": {"width": 3},
    "upper must be left out": {"target": "soft", "upper": 90},
    "upper must": {"upper": -1},
    "by must be levels": {"by": "country"},
    "by must name a group": {"by": ["a", None, "b"]},
    "mechanism must be Laplace, Geometric": {"mechanism": Tulap(scale=2.0)},
    "alpha": {"alpha": 0},
}


@pytest.mark.parametrize("message", WRONG)
def test_refusals(message):
    good = {"values": [200, np.nan, 150], "target": "cells"} | VIEWS
    with pytest.raises(InvalidParameterError, match=message.replace("'", ".")):
        thresholded_sum_confint(**(good | WRONG[message]))
    with pytest.raises(TypeError, match="target"):
        thresholded_sum_confint(good["values"], **VIEWS)


def test_one_sided_and_simultaneous_ends_are_those_of_another_alpha():
    by = ["a", "a", "b", "b"]
    good = {"values": [200, np.nan, 150, 400], "by": by} | VIEWS
    for target in ("cells", "published", "soft"):
        both = thresholded_sum_confint(**good, target=target, alpha=0.05)
        larger = thresholded_sum_confint(**good, target=target, alpha=0.025, alternative="larger")
        smaller = thresholded_sum_confint(**good, target=target, alpha=0.025, alternative="smaller")
        assert list(larger.lower) == list(both.lower)
        assert list(smaller.upper) == list(both.upper)
        assert np.isinf([larger.upper, smaller.lower]).all()
        together = thresholded_sum_confint(**good, target=target, simultaneous=True)
        apart = thresholded_sum_confint(**good, target=target, alpha=1 - np.sqrt(0.95))
        np.testing.assert_allclose(together.lower, apart.lower, atol=1e-9)
        np.testing.assert_allclose(together.upper, apart.upper, atol=1e-9)
        assert together.simultaneous
    less = thresholded_sum_confint(**good, target="cells", alternative="less")
    smaller = thresholded_sum_confint(**good, target="cells", alternative="smaller")
    assert list(less.lower) == list(smaller.lower)
    parts = {"numerator": [1, 0, 1, 0], "denominator": [0, 1, 0, 1], "target": "cells"}
    both = thresholded_ratio_confint(**good, **parts)
    smaller = thresholded_ratio_confint(**good, **parts, alternative="smaller", alpha=0.025)
    assert list(smaller.upper) == list(both.upper)
    assert (smaller.lower == -np.inf).all()


@pytest.mark.thinned("level", "weights", every=2)
@pytest.mark.parametrize("level", [-1, 0, 1, 4])
@pytest.mark.parametrize("weights", ["contrast", "mean", "slope"])
def test_contrasts_means_and_slopes_of_what_was_published_cover(weights, level):
    reps, cells = (200, 8) if weights != "slope" else (60, 8)
    truth = np.full(cells, 90 + 18 * level) + 5 * np.arange(cells)
    rng = np.random.default_rng(level + 9)
    y = truth + VIEWS["mechanism"].rvs((reps, cells), rng=rng)
    out = y >= 90
    contrast = np.where(np.arange(cells) < 3, 2.0, -1.0)
    c = np.tile(contrast, reps) if weights == "contrast" else weights
    lower, upper = thresholded_sum_confint(
        np.where(out, y, np.nan).ravel(),
        target="published",
        weights=c,
        cells=y.size,
        by=np.repeat(np.arange(reps), cells),
        **VIEWS,
    )
    goal = np.zeros(reps)
    for row, there in enumerate(out):
        day = np.flatnonzero(there)
        if weights == "contrast":
            goal[row] = contrast[day] @ truth[day]
        elif weights == "mean" and day.size:
            goal[row] = truth[day].mean()
        elif weights == "slope" and day.size > 1:
            goal[row] = np.polyfit(day, truth[day], 1)[0]
    for missed in (lower > goal + 1e-9, upper < goal - 1e-9):
        assert missed.sum() <= most_misses(reps, ALPHA / 2)


def test_weighted_ends_of_one_published_cell_by_sums_over_the_support():
    """A contrast of two cells, over the joint law of what is published of both."""
    t, law = 20, Geometric(scale=3.0)
    y = np.arange(t, 160)
    a, b = (part.ravel() for part in np.meshgrid(y, y, indexing="ij"))
    values = np.column_stack([a, b]).ravel()
    lower, upper = thresholded_sum_confint(
        values,
        target="published",
        mechanism=law,
        threshold=t,
        weights=np.tile([1.0, -0.37], a.size),
        by=np.repeat(np.arange(a.size), 2),
    )
    for f, g in [(0, 0), (20, 20), (25, 19), (40, 60), (60, 40), (100, 0), (0, 100)]:
        p, q = law.pmf(y - f) / law.sf(t - f - 1), law.pmf(y - g) / law.sf(t - g - 1)
        mass = np.outer(p, q).ravel()
        goal = f - 0.37 * g
        assert mass[np.asarray(lower) > goal].sum() <= ALPHA / 2
        assert mass[np.asarray(upper) < goal].sum() <= ALPHA / 2


def test_slopes_of_a_list_are_those_of_least_squares():
    values = [500, 480, np.nan, 430, 420, 400]
    day = np.arange(6) - 2.5
    slope = thresholded_sum_confint(values, target="cells", weights="slope", **VIEWS)
    by_hand = thresholded_sum_confint(values, target="cells", weights=day / (day @ day), **VIEWS)
    np.testing.assert_allclose(list(slope), list(by_hand))
    assert slope.lower < 0


@pytest.mark.thinned("target", "f", every=2)
@pytest.mark.parametrize("target", ["soft-total", "soft-count"])
@pytest.mark.parametrize("f", [0, 15, 20, 24, 32, 60])
def test_soft_totals_and_counts_are_unbiased(target, f):
    """Under geometric noise by sums over the support, under Laplace noise by integration."""
    t, w = 20, 12
    u = min(max((f - t) / w, 0), 1)
    goal = (f if target == "soft-total" else 1) * u**2 * (3 - 2 * u)
    y = np.arange(t, 700)
    law = Geometric(scale=3.0)
    found = thresholded_sum_confint(
        y, target=target, mechanism=law, threshold=t, by=y, method="asymptotic"
    )
    p = Geometric(scale=3.0).pmf(y - f)
    mean = p @ found.estimate.to_numpy()
    assert mean == pytest.approx(goal, abs=1e-9)
    variance = np.square(found.width.to_numpy() / (2 * stats.norm.isf(0.025)))
    assert p @ variance >= p @ np.square(found.estimate.to_numpy()) - mean**2 - 1e-9
    law = Laplace(scale=3.0)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.array(sorted({t, t + w, max(f, t), *range(t + 2, t + 200, 3)}), dtype=float)
    half = np.diff(ends)[:, None] / 2
    y = (ends[:-1, None] + half + half * nodes).ravel()
    found = thresholded_sum_confint(
        y, target=target, mechanism=law, threshold=t, by=np.arange(y.size), width=w
    )
    mean = ((half * weights).ravel() * law.pdf(y - f)) @ found.estimate.to_numpy()
    assert mean == pytest.approx(goal, abs=1e-6)


def test_a_release_of_two_regimes_is_summed_by_group():
    """Each row of the release has its own law and threshold, and each group has both."""
    labels = pd.MultiIndex.from_product([["DE", "FR"], range(4)], names=["country", "day"])
    values = pd.Series([900.0, 700, 300, 250, 610, 480, 120, 95], labels)
    laws = [HISTORY["mechanism"]] * 2 + [VIEWS["mechanism"]] * 2
    t = np.tile([450.0, 450, 90, 90], 2)
    release = Release(values, mechanism=laws * 2, threshold=t)
    for options in ({}, {"weights": "mean"}, {"weights": [1, -1, 1, -1] * 2}):
        found = thresholded_sum_confint(release, target="published", by="country", **options)
        one = dict(options)
        if "weights" in options and options["weights"] != "mean":
            one["weights"] = [1, -1, 1, -1]
        for country in ("DE", "FR"):
            alone = thresholded_sum_confint(
                values[country].to_numpy(),
                target="published",
                mechanism=laws,
                threshold=t[:4],
                **one,
            )
            assert tuple(map(float, found[country])) == pytest.approx(tuple(map(float, alone)))
    soft = thresholded_sum_confint(release, target="soft", by="country", method="asymptotic")
    with pytest.raises(InvalidParameterError, match="whole list with target='soft'"):
        thresholded_sum_confint(release, target="soft", by="country")
    parts = [
        thresholded_sum_confint(values["DE"].to_numpy()[rows], target="soft", **regime).estimate
        for rows, regime in ((slice(0, 2), HISTORY), (slice(2, 4), VIEWS))
    ]
    assert soft.estimate["DE"] == pytest.approx(sum(map(float, parts)))
    with pytest.raises(InvalidParameterError, match="laws or thresholds differ by value"):
        thresholded_sum_confint(release, target="cells", cells=labels)


def test_two_regimes_cover_in_simulation():
    reps = 400
    laws = [HISTORY["mechanism"]] * 3 + [VIEWS["mechanism"]] * 3
    t = np.repeat([450.0, 90.0], 3)
    rng = np.random.default_rng(11)
    for truth in (t, t + 60, t - 30):
        draw = [law.rvs(reps, rng=rng) for law in laws]
        y = truth + np.column_stack(draw)
        out = y >= t
        for target in ("cells", "published"):
            lower, upper = thresholded_sum_confint(
                np.where(out, y, np.nan).ravel(),
                target=target,
                mechanism=laws * reps,
                threshold=np.tile(t, reps),
                by=np.repeat(np.arange(reps), 6),
            )
            goal = truth.sum() if target == "cells" else (truth * out).sum(axis=1)
            for missed in (lower > goal + 1e-9, upper < goal - 1e-9):
                assert missed.sum() <= most_misses(reps, ALPHA / 2)


def test_values_that_were_processed_are_taken_or_refused_with_a_reason():
    law = Gaussian(sigma=9.3)
    values = np.array([200.0, 150.5, 300.25])
    plain = thresholded_sum_confint(values, target="published", mechanism=law, threshold=90)
    for clamp, message in (((0, None), None), ((0.5, None), None), ((None, 400), "clamped above")):
        release = Release(values, mechanism=law, threshold=90, clamp=clamp)
        if message is None:  # clamping below the threshold changes nothing, off the grid or on it
            found = thresholded_sum_confint(release, target="published")
            assert tuple(map(float, found)) == tuple(map(float, plain))
        else:
            with pytest.raises(InvalidParameterError, match=message):
                thresholded_sum_confint(release, target="published")
    for other in (Tulap(scale=2.0), Rounded(law)):
        with pytest.raises(InvalidParameterError, match="single values with it have count_confint"):
            thresholded_sum_confint([200.0, np.nan], target="cells", mechanism=other, threshold=90)
