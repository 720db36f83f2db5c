"""The private interval for a normal mean: failure bounds, privacy of the histograms, half-widths.

Simulated frequencies may be off by 6 standard deviations: each check fails by accident with
probability below 2e-9. Coverage itself is studied in tests/calibration/test_normal_mean.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import normal_mean as _plans
from dpinfer.intervals import normal_mean as _range_finding
from dpinfer.intervals import normal_mean_confint
from dpinfer.intervals.normal_mean import HistogramMode, mean_failure, scale_failure
from dpinfer.mechanisms.samplers import Simulation

BOUNDS = {"mean_bounds": (-100.0, 100.0)}


def sample(n=3000, mean=3.0, std=1.0, seed=1):
    return np.random.default_rng(seed).normal(mean, std, n)


def test_modal_probability_of_the_mean():
    # the bin of width one that holds the mean, wherever it lies in it
    u = np.linspace(0, 1, 1001)
    least = (special.ndtr(1 - u) - special.ndtr(-u)).min()
    assert least == pytest.approx(_range_finding._MODAL_MEAN, abs=1e-12)


def test_modal_probability_of_the_scale():
    # the most probable of the bins (a, 2a], for all offsets of the powers of two
    a = np.exp2(np.linspace(-1, 0, 2001))[:, np.newaxis] * np.exp2(np.arange(-6, 5))
    p = special.erf(2 * a / np.sqrt(2)) - special.erf(a / np.sqrt(2))
    assert _range_finding._MODAL_SCALE <= p.max(axis=1).min() <= _range_finding._MODAL_SCALE + 1e-3
    # and it is among the bins that are kept: its lower end is between σ/2 and 2σ
    best = np.take_along_axis(a, p.argmax(axis=1)[:, np.newaxis], axis=1) * np.sqrt(2)
    assert (best > 0.5).all()
    assert (best <= 2).all()


@pytest.mark.thinned("modal", "epsilon", every=2)
@pytest.mark.parametrize(("modal", "far"), [(0.34, 0.16), (0.34, 1e-9), (0.289, 0.14), (0.34, 0)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_chernoff_bounds_the_exact_probability(modal, far, epsilon):
    # P(N_far - N_modal + difference of two Laplace noises >= 0), by enumeration
    n, b = 60, 2 / epsilon
    good = np.arange(n + 1)
    total = 0.0
    for k in good:
        rest = far / (1 - modal)
        j = np.arange(n - k + 1)
        joint = stats.binom(n, modal).pmf(k) * stats.binom(n - k, rest).pmf(j)
        gap = k - j
        reach = 0.5 * np.exp(-np.abs(gap) / b) * (1 + np.abs(gap) / (2 * b))
        total += (joint * np.where(gap >= 0, reach, 1 - reach)).sum()
    bound = HistogramMode(epsilon=epsilon, delta=0.0, bins=10.0)._beaten(modal, far, n)
    assert total <= bound <= 1
    assert bound < 60 * total  # of use, too


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_the_range_fails_no_more_often_than_said(delta):
    n, reps = 60, 750
    histogram = HistogramMode(epsilon=1.0, delta=delta, bins=20.0 if delta == 0 else np.inf)
    bound = mean_failure(histogram, n)
    assert 0.001 < bound < 0.9
    rng = np.random.default_rng(2)
    failures = 0
    for _ in range(reps):
        # the worst place of a mean is the end of a bin
        places = np.clip(np.floor(rng.normal(10.0, 1.0, n)), 0, 19)
        found = histogram.find(places, Simulation(rng))
        failures += found is not None and abs(found + 0.5 - 10.0) > 1.5
    assert failures / reps <= bound + 6 * np.sqrt(bound * (1 - bound) / reps)


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_the_scale_fails_no_more_often_than_said(delta):
    n, reps = 150, 750
    histogram = HistogramMode(epsilon=0.6, delta=delta, bins=16.0 if delta == 0 else np.inf)
    bound = scale_failure(histogram, n)
    assert 0.001 < bound < 0.99
    rng = np.random.default_rng(3)
    failures = 0
    for _ in range(reps):
        # σ = 4: its differences have the failing bins (2^j, 2^(j+1)], j <= -1
        places = np.ceil(np.log2(np.abs(rng.normal(0, 4.0 * np.sqrt(2), n)))) - 1
        if delta == 0:
            places = places[(places >= -8) & (places < 8)] + 8
        found = histogram.find(places, Simulation(rng))
        failures += found is not None and 4 * 2.0 ** (found - 8 * (delta == 0)) < 4.0
    assert failures / reps <= bound + 6 * np.sqrt(bound * (1 - bound) / reps)


def test_the_largest_of_many_noises_is_drawn_as_if_one_by_one():
    histogram = HistogramMode(epsilon=0.5, delta=0.0, bins=30.0)
    places = np.repeat([3.0, 7.0, 8.0], [9, 12, 4])
    counts = np.zeros(30)
    counts[[3, 7, 8]] = 9, 12, 4
    reps = 2_000
    rng = np.random.default_rng(4)
    fast = np.bincount(
        [int(histogram.find(places, Simulation(rng))) for _ in range(reps)], minlength=30
    )
    noisy = counts + rng.laplace(0, 4.0, (reps, 30))
    slow = np.bincount(noisy.argmax(axis=1), minlength=30)
    p = (fast + slow + 1) / (2 * reps)
    assert (np.abs(fast - slow) <= 6 * np.sqrt(2 * reps * p * (1 - p)) + 1).all()


def test_the_largest_of_bins_that_all_hold_something():
    # P(a bin has the largest noisy count) = ∫ f(x - its count)·Π F(x - another count) dx
    histogram, noise = HistogramMode(epsilon=0.5, delta=0.0, bins=3.0), stats.laplace(scale=4.0)
    counts, reps, rng = np.array([4, 6, 5]), 3_000, np.random.default_rng(5)
    places = np.repeat([0.0, 1.0, 2.0], counts)
    found = np.bincount(
        [int(histogram.find(places, Simulation(rng))) for _ in range(reps)], minlength=3
    )
    x = np.linspace(-120, 130, 100_001)
    for own in range(3):
        others = np.delete(counts, own)[:, np.newaxis]
        density = noise.pdf(x - counts[own]) * noise.cdf(x - others).prod(axis=0)
        p = integrate.trapezoid(density, x)
        assert abs(found[own] - reps * p) <= 6 * np.sqrt(reps * p * (1 - p))


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_stability_based_histograms_are_private(epsilon):
    # one value moves from bin a to bin b; what is shown of each bin is independent of the other,
    # so that the hockey-stick divergences of both bins add up at most
    delta = 1e-3
    histogram = HistogramMode(epsilon=epsilon, delta=delta, bins=np.inf)
    noise, threshold = histogram.noise, histogram.threshold

    def divergence(n, m, budget):
        """Sup over events of P(event; count n) - exp(budget)·P(event; count m)."""

        def hidden(k):
            return 1.0 if k == 0 else float(noise.cdf(threshold - k))

        def density(k, y):
            return np.zeros_like(y) if k == 0 else noise.pdf(y - k)

        y = np.linspace(threshold, threshold + 60 / epsilon, 200_001)
        excess = np.maximum(density(n, y) - np.exp(budget) * density(m, y), 0)
        shown = integrate.trapezoid(excess, y)
        return max(hidden(n) - np.exp(budget) * hidden(m), 0) + shown

    for n in range(5):
        total = divergence(n + 1, n, epsilon / 2) + np.exp(epsilon / 2) * divergence(
            n, n + 1, epsilon / 2
        )
        assert total <= delta


def test_sensitivity_of_the_sample_variance():
    # (range)²/n, attained where all other values are at the other end
    n = 7
    rng = np.random.default_rng(6)
    x = rng.random((20_000, n))
    y = x.copy()
    y[:, 0] = rng.random(20_000).round()
    assert np.abs(x.var(axis=1, ddof=1) - y.var(axis=1, ddof=1)).max() <= 1 / n
    ends = np.zeros(n)
    ends[0] = 1
    assert ends.var(ddof=1) == pytest.approx(1 / n)


def test_half_width_of_the_known_case():
    # by its own definition: the error is normal plus Laplace
    n, epsilon, alpha = 3000, 2.0, 0.1
    interval = normal_mean_confint(
        sample(n), epsilon=epsilon, std=1.0, alpha=alpha, split=(1, 1), rng=1, **BOUNDS
    )
    half = interval.half_width_sampling + interval.half_width_noise
    assert interval.upper - interval.estimate == pytest.approx(half)
    low, high = interval.clipping
    beta2 = 0.1 * alpha
    farthest = stats.norm.isf((1 - (1 - beta2) ** (1 / n)) / 2)
    assert high - low == pytest.approx(2 * (1.5 + farthest))
    b = (high - low) / (n * epsilon / 2)
    histogram = HistogramMode(epsilon=epsilon / 2, delta=0.0, bins=200.0)
    left = alpha - beta2 - mean_failure(histogram, n)

    def miss(t):
        tail = integrate.quad(
            lambda x: stats.laplace.sf(t - x / np.sqrt(n), scale=b) * stats.norm.pdf(x),
            -9,
            9,
            points=[np.clip(t * np.sqrt(n), -8.9, 8.9)],
        )[0]
        return tail - left / 2

    assert half == pytest.approx(optimize.brentq(miss, 0, 1), rel=1e-6)
    bound = normal_mean_confint(
        sample(n),
        epsilon=epsilon,
        std=1.0,
        alpha=alpha,
        split=(1, 1),
        method="tail-bound",
        rng=1,
        **BOUNDS,
    )
    expected = stats.norm.isf(left / 4) / np.sqrt(n), stats.laplace.isf(left / 4, scale=b)
    assert bound.half_width_sampling == pytest.approx(expected[0])
    assert bound.half_width_noise == pytest.approx(expected[1])
    assert bound.width > interval.width


def test_much_budget_gives_the_textbook():
    x = sample(3000)
    known = normal_mean_confint(x, epsilon=1e9, std=1.0, rng=1, **BOUNDS)
    # but for the tenth of alpha that clipping takes
    half = stats.norm.isf(0.9 * 0.025) / np.sqrt(3000)
    np.testing.assert_allclose(known, [x.mean() - half, x.mean() + half], rtol=1e-6)
    unknown = normal_mean_confint(x, epsilon=1e9, std_bounds=(0.01, 100), rng=1, **BOUNDS)
    half = stats.t(2999).isf(0.95 * 0.8 * 0.025) * x.std(ddof=1) / np.sqrt(3000)
    np.testing.assert_allclose(unknown, [x.mean() - half, x.mean() + half], rtol=1e-6)


def test_equivariance():
    x = sample(5000)
    one = normal_mean_confint(x, epsilon=2, std=1.0, rng=3, **BOUNDS)
    two = normal_mean_confint(1024 * x, epsilon=2, std=1024.0, mean_bounds=(-102400, 102400), rng=3)
    np.testing.assert_allclose(np.asarray(two), 1024 * np.asarray(one), rtol=1e-12)


def test_budget_that_is_reported():
    x = sample(6000)
    known = normal_mean_confint(x, epsilon=2, delta=1e-5, std=1.0, rng=1, **BOUNDS)
    assert (known.epsilon, known.delta) == (2.0, 0.0)  # few bins: no delta is needed
    free = normal_mean_confint(x, epsilon=2, delta=1e-5, std=1.0, rng=1)
    assert (free.epsilon, free.delta) == (2.0, 1e-5)
    both = normal_mean_confint(x, epsilon=2, delta=1e-5, rng=1)
    assert (both.epsilon, both.delta) == (2.0, 1e-5)
    few = normal_mean_confint(x[:10], epsilon=1, std=1.0, **BOUNDS)
    assert (few.epsilon, few.delta) == (0.0, 0.0)
    assert tuple(few) == (-100, 100)
    assert "nothing was spent" in few.notes[0]
    assert few.estimate == 0


def test_the_histograms_take_what_they_need():
    x = sample(2000)
    chosen = normal_mean_confint(x, epsilon=1, std=1.0, rng=1, **BOUNDS)
    shares = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
    histograms = [HistogramMode(epsilon=share, delta=0.0, bins=200.0) for share in shares]
    rare = [mean_failure(histogram, 2000) <= 0.05 * 0.05 for histogram in histograms]
    assert rare[0] < rare[-1]
    share = shares[rare.index(True)]
    same = normal_mean_confint(x, epsilon=1, std=1.0, split=(share, 1 - share), rng=1, **BOUNDS)
    assert tuple(chosen) == tuple(same)
    equal = normal_mean_confint(x, epsilon=1, std=1.0, split=(1, 1), rng=1, **BOUNDS)
    assert chosen.width < equal.width
    # 250 observations need more: equal shares
    few = normal_mean_confint(x[:250], epsilon=1, std=1.0, rng=1, **BOUNDS)
    same = normal_mean_confint(x[:250], epsilon=1, std=1.0, split=(1, 1), rng=1, **BOUNDS)
    assert tuple(few) == tuple(same)


def test_no_bin_shown():
    # spread over more bins than the threshold lets through: 3000 values, one to a bin
    interval = normal_mean_confint(
        np.arange(3000.0) * 50, epsilon=1, delta=1e-6, std=1.0, mean_bounds=(0, np.inf), rng=1
    )
    assert tuple(interval) == (0, np.inf)
    assert "no bin" in interval.notes[0]
    assert interval.epsilon == 1


def test_no_scale_shown():
    # values that are all the same have no differences: no bin of the scale holds anything
    interval = normal_mean_confint(
        np.full(3000, 7.0), epsilon=4, delta=1e-6, mean_bounds=(-10, 90), rng=1
    )
    assert tuple(interval) == (-10, 90)
    assert interval.estimate == 40
    assert "no bin" in interval.notes[0]
    assert (interval.epsilon, interval.delta) == (4, 1e-6)


@pytest.mark.parametrize("apart", [0.0, 1000.0])
def test_no_range_shown_for_a_scale_that_is(apart):
    # the two values of each pair differ by 0.75; it matters only how far apart the pairs are
    middles = apart * np.arange(1500)[:, np.newaxis]
    interval = normal_mean_confint(
        np.ravel(middles + np.array([-0.375, 0.375])), epsilon=4, delta=1e-6, rng=1
    )
    assert np.isinf(interval.width) == (apart > 0)
    assert ("no bin" in interval.notes[0]) == (apart > 0)
    assert (interval.epsilon, interval.delta) == (4, 1e-6)


def test_result_is_an_interval():
    interval = normal_mean_confint(sample(), epsilon=1, std=1.0, rng=1, **BOUNDS)
    lower, upper = interval
    assert interval.contains(0.5 * (lower + upper))
    assert interval.uncertainty == "noise+sampling"
    assert "a release would spend epsilon 1" in interval.summary()
    cut = interval.restrict(lower=lower + 1e-3)
    assert cut.lower == lower + 1e-3
    assert cut.epsilon == 1


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"epsilon": 0.0, "std": 1.0}, "epsilon must be > 0"),
        ({"epsilon": 1.0, "std": 0.0}, "std must be >="),
        ({"epsilon": 1.0, "std": 1.0, "mean_bounds": None}, "mean_bounds must be given"),
        ({"epsilon": 1.0}, "std_bounds must be given"),
        ({"epsilon": 1.0, "std": 1.0, "std_bounds": (1, 2)}, "std_bounds must not"),
        ({"epsilon": 1.0, "std": 1.0, "mean_bounds": (2, 1)}, "smaller one first"),
        ({"epsilon": 1.0, "std": 1.0, "delta": 1.0}, "delta must be < 1"),
        ({"epsilon": 1.0, "std": 1.0, "split": (1, 1, 1)}, "split must have 2"),
        ({"epsilon": 1.0, "delta": 1e-6, "method": "exact"}, "method must be 'tail-bound'"),
        ({"epsilon": 1.0, "std": 1.0, "method": "normal"}, "method must be one of"),
        ({"epsilon": 1.0, "std": 1e-30, "mean_bounds": (0, 1)}, "narrower bounds"),
    ],
)
def test_refusals(kwargs, match):
    with pytest.raises(InvalidParameterError, match=match):
        normal_mean_confint(sample(50), **{**BOUNDS, **kwargs})


def test_too_few_values():
    with pytest.raises(InvalidParameterError, match="at least 4 values"):
        normal_mean_confint([1, 2, 3], epsilon=1, delta=0.1)


def test_steps_take_all_of_alpha():
    plan = _plans.UnknownStd(
        nobs=4000,
        mean_bounds=(-100.0, 100.0),
        range=HistogramMode(epsilon=0.5, delta=0.0, bins=1e4),
        epsilon_mean=0.5,
        scale=HistogramMode(epsilon=0.5, delta=0.0, bins=20.0),
        std_bounds=(0.02, 100.0),
        epsilon_variance=0.5,
    )
    assert sum(plan._shares(0.05)) + plan.failure + 0.2 * 0.05 == pytest.approx(0.05)


numbers = st.floats(-1e41, 1e41, allow_nan=False) | st.sampled_from([0.0, 1e-310, 5.0])
some = st.none() | numbers | st.sampled_from(["x", np.nan, np.inf, -np.inf, 1j, []])
pairs = st.none() | st.tuples(some, some) | st.sampled_from([(0, np.inf), (-5, 5), 3])


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    data=st.lists(numbers, max_size=12) | some,
    copies=st.integers(1, 300),
    epsilon=st.sampled_from([1e-12, 0.1, 10.0, 1e9]) | some,
    delta=st.sampled_from([0.0, 1e-300, 1e-6, 0.5]) | some,
    std=some,
    mean_bounds=pairs,
    std_bounds=pairs,
    alpha=st.sampled_from([1e-300, 1e-9, 0.05, 0.999]) | some,
)
def test_fuzz(data, copies, epsilon, delta, std, mean_bounds, std_bounds, alpha):
    values = data * copies if isinstance(data, list) else data
    try:
        interval = normal_mean_confint(
            values,
            epsilon=epsilon,
            delta=delta,
            std=std,
            mean_bounds=mean_bounds,
            std_bounds=std_bounds,
            alpha=alpha,
            rng=1,
        )
    except DPInferError:
        return
    assert not np.isnan(np.asarray(interval)).any()
