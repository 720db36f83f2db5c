"""Smooth sensitivity of order statistics by enumeration, and its noise by integration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy import (
    GDP,
    ApproxDP,
    PureDP,
    SmoothNoise,
    SmoothSensitivity,
    smooth_count_sensitivity,
    smooth_median_sensitivity,
)

GRID = (0.0, 1.0, 1.5, 4.0, 7.0)


def enumerated(values, statistic, betas):
    """Local sensitivity, and the smooth bound for each β, over all data sets on the grid."""
    n = len(values)
    sets = np.array(list(itertools.product(range(len(GRID)), repeat=n)))
    answers = statistic(np.sort(np.array(GRID)[sets], axis=1)).reshape((len(GRID),) * n)
    local = np.zeros(answers.shape)
    for axis in range(n):
        largest, smallest = answers.max(axis, keepdims=True), answers.min(axis, keepdims=True)
        local = np.maximum(local, np.maximum(largest - answers, answers - smallest))
    here = np.array([GRID.index(v) for v in values])
    distance = (sets != here).sum(1)
    smooth = [np.max(np.exp(-b * distance) * local.ravel()) for b in betas]
    return local[tuple(here)], smooth


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_medians_and_other_ranks_by_enumeration(n):
    rng, betas = np.random.default_rng(n), (0.0, 0.1, 0.5, 2.0)
    for _ in range(6):
        values = rng.choice(GRID, n)
        rank = int(rng.integers(1, n + 1))
        for chosen, statistic in (
            (None, lambda x: np.median(x, axis=1)),
            (rank, lambda x, r=rank: x[:, r - 1]),
        ):
            local, smooth = enumerated(values, statistic, betas)
            for beta, expected in zip(betas, smooth, strict=True):
                found = smooth_median_sensitivity(values, 0, 7, beta=beta, rank=chosen)
                assert found.local == pytest.approx(local)
                assert found.value == pytest.approx(expected)


def all_pairs(x, rank, beta):
    """The formula, over all pairs of positions."""
    padded = np.concatenate([[0.0], np.sort(x), [1.0]])
    i, j = np.meshgrid(np.arange(rank + 1), np.arange(rank, padded.size), indexing="ij")
    gap = np.maximum(j - i - 1, 0)
    return np.max((padded[j] - padded[i]) * np.exp(-beta * gap) * (j > i))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    values=st.lists(
        st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=60
    ),
    beta=st.one_of(st.floats(0, 1), st.just(500.0)),
    data=st.data(),
)
def test_divide_and_conquer_equals_all_pairs(values, beta, data):
    rank = data.draw(st.integers(1, len(values)))
    found = smooth_median_sensitivity(values, 0, 1, beta=beta, rank=rank)
    bound = max(all_pairs(np.array(values), rank, beta), 1e-100)
    assert found.value == pytest.approx(bound, rel=1e-9, abs=0.0)


def test_large_data_and_flat_data():
    rng = np.random.default_rng(2)
    x = rng.random(200_001) ** 3
    found = smooth_median_sensitivity(x, 0, 1, beta=0.05)
    near = np.sort(x)[100_000 - 1500 : 100_000 + 1501]
    padded = np.concatenate([[0.0], near, [1.0]])
    i, j = np.meshgrid(np.arange(1502), np.arange(1501, 3003), indexing="ij")
    expected = np.max((padded[j] - padded[i]) * np.exp(-0.05 * np.maximum(j - i - 1, 0)))
    assert found.value == pytest.approx(expected, rel=1e-12)
    flat = smooth_median_sensitivity(np.full(1001, 0.5), 0, 1, beta=0.01)
    # all 501 records on one side have to go first
    assert flat.local == 0.0
    assert flat.value == pytest.approx(0.5 * np.exp(-0.01 * 500))
    edge = smooth_median_sensitivity(np.ones(9), 0, 1, beta=100.0)
    assert edge.value == pytest.approx(np.exp(-400.0))


def test_neighbours_change_the_bound_by_e_to_the_beta():
    rng = np.random.default_rng(8)
    for _ in range(50):
        x = rng.random(21)
        y = x.copy()
        y[rng.integers(21)] = rng.random()
        first, other = (smooth_median_sensitivity(v, 0, 1, beta=0.2).value for v in (x, y))
        assert abs(np.log(first / other)) <= 0.2 + 1e-12
        assert abs(np.median(x) - np.median(y)) <= min(first, other) + 1e-15


def test_counts():
    assert smooth_count_sensitivity(beta=0.3) == SmoothSensitivity(1.0, 1.0, 0.3)


def divergence(kind, epsilon, factor, log_ratio, shift):
    """δ at ε of noise of scales factor and factor·e^{log ratio}, moved by a shift."""
    law = {"cauchy": stats.cauchy, "laplace": stats.laplace}[kind]
    p, q = law(scale=factor), law(loc=shift, scale=factor * np.exp(log_ratio))
    cuts = np.concatenate([-np.geomspace(1e-3, 1e3, 200)[::-1], np.geomspace(1e-3, 1e3, 200)])
    x = np.unique(np.concatenate([cuts * factor, cuts * factor + shift, [0.0, shift]]))
    # between points where the sign of the difference may change, split finely
    t = np.linspace(x[:-1], x[1:], 33)
    pieces = integrate.simpson(np.maximum(p.pdf(t) - np.exp(epsilon) * q.pdf(t), 0), x=t, axis=0)
    total = np.maximum(pieces, 0.0).sum()
    ends = [
        p.cdf(x[0]) - np.exp(epsilon) * q.cdf(x[0]),
        p.sf(x[-1]) - np.exp(epsilon) * q.sf(x[-1]),
    ]
    return total + sum(max(e, 0.0) for e in ends)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_cauchy_noise_is_private(epsilon, share):
    noise = SmoothNoise.for_guarantee(PureDP(epsilon, neighbours="replace"), share=share)
    assert noise.kind == "cauchy"
    law = stats.cauchy(scale=noise.factor)
    x = (
        np.concatenate([-np.geomspace(1e-4, 1e8, 4000), np.geomspace(1e-4, 1e8, 4000)])
        * noise.factor
    )
    for sign, size in itertools.product((-1, 1), (0.0, 0.3, 1.0)):
        # the scale changes by e^β or e^-β, and the shift is within the sensitivity at both ends
        scale = np.exp(sign * noise.beta)
        other = stats.cauchy(loc=size * min(scale, 1.0), scale=noise.factor * scale)
        assert np.abs(law.logpdf(x) - other.logpdf(x)).max() <= epsilon + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-2), (3.0, 1e-3)])
def test_laplace_noise_is_private(epsilon, delta):
    noise = SmoothNoise.for_guarantee(ApproxDP(epsilon, delta, neighbours="replace"))
    assert noise.kind == "laplace"
    for sign, size in itertools.product((-1, 1), (0.0, 1.0, -1.0)):
        shift = size * min(np.exp(sign * noise.beta), 1.0)
        assert (
            divergence("laplace", epsilon, noise.factor, sign * noise.beta, shift) <= delta * 1.001
        )
    # the β is the largest for the half of ε that is left to the scale
    alone = divergence("laplace", 0.5 * epsilon, noise.factor, -noise.beta, 0.0)
    assert alone == pytest.approx(delta, rel=1e-2) or noise.beta == 0.5 * epsilon


def test_with_a_large_delta_the_scale_may_move_by_all_that_is_left():
    # at β = η the laws have (1 - e^-η)·exp(-2η/(e^η - 1)), about η·e^-2
    for epsilon, delta, whole in ((0.2, 0.02, True), (0.2, 0.01, False)):
        noise = SmoothNoise.for_guarantee(ApproxDP(epsilon, delta, neighbours="replace"))
        assert (noise.beta == epsilon / 2) is whole
        alone = divergence("laplace", epsilon / 2, noise.factor, -noise.beta, 0.0)
        assert alone < delta if whole else alone == pytest.approx(delta, rel=1e-2)


def test_it_beats_the_published_factors():
    cauchy = SmoothNoise.for_guarantee(PureDP(1.0, neighbours="replace"))
    assert (cauchy.beta, cauchy.factor) == (0.5, 2.0)  # against 1/6 and 6
    laplace = SmoothNoise.for_guarantee(ApproxDP(1.0, 1e-6, neighbours="replace"))
    assert laplace.beta > 1 / (2 * np.log(2e6))
    assert laplace.factor == 2.0
    tiny = SmoothNoise.for_guarantee(ApproxDP(1e-6, 1e-300, neighbours="replace"))
    assert 0 < tiny.beta < 1e-8


def test_draws_and_quantiles():
    sensitivity = smooth_median_sensitivity([1.0, 2.0, 4.0], 0, 10, beta=0.01)
    laplace = ApproxDP(1.0, 1e-6, neighbours="replace")
    for guarantee, law in (
        (PureDP(1.0, neighbours="replace"), stats.cauchy),
        (laplace, stats.laplace),
    ):
        noise = SmoothNoise.for_guarantee(guarantee)
        scale = noise.scale(sensitivity)
        assert scale == pytest.approx(sensitivity.value * noise.factor)
        q = np.array([1e-12, 0.025, 0.5, 0.9])
        np.testing.assert_allclose(
            noise.isf(q, sensitivity), law(scale=scale).isf(q), rtol=1e-9, atol=1e-12
        )
        draws = noise.rvs(sensitivity, 20_000, rng=3)
        # the Kolmogorov-Smirnov distance exceeds this with probability 2e-9
        assert stats.kstest(draws, law(scale=scale).cdf).statistic < 3.2 / np.sqrt(20_000)
        assert np.ndim(noise.rvs(sensitivity, rng=1)) == 0
        assert noise.rvs(sensitivity, (2, 3), rng=1).shape == (2, 3)


REPLACE = {"neighbours": "replace"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smooth_median_sensitivity([], 0, 1, beta=0.1), "values must hold at least one"),
        (lambda: smooth_median_sensitivity([2.0], 0, 1, beta=0.1), "values must be <= 1"),
        (lambda: smooth_median_sensitivity([np.nan], 0, 1, beta=0.1), "must not contain NaN"),
        (lambda: smooth_median_sensitivity([[0.5]], 0, 1, beta=0.1), "one-dimensional"),
        (lambda: smooth_median_sensitivity([0.5], 1, 0, beta=0.1), "upper must be > lower"),
        (lambda: smooth_median_sensitivity([0.5], 0, np.inf, beta=0.1), "upper must be finite"),
        (lambda: smooth_median_sensitivity([0.5], 0, 1, beta=-0.1), "beta must be >= 0"),
        (lambda: smooth_median_sensitivity([0.5], 0, 1, beta=0.1, rank=2), "rank must be <= 1"),
        (lambda: smooth_count_sensitivity(beta=np.inf), "beta must be finite"),
        (lambda: SmoothSensitivity(1.0, 2.0, 0.1), "value must be at least local"),
        (lambda: SmoothNoise("gauss", 0.1, 1.0), "kind must be one of"),
        (lambda: SmoothNoise("cauchy", 0.0, 1.0), "beta must be > 0"),
        (lambda: SmoothNoise.for_guarantee(GDP(1.0)), "guarantee must be a PureDP"),
        (lambda: SmoothNoise.for_guarantee(PureDP(0.0, **REPLACE)), "epsilon must be > 0"),
        (lambda: SmoothNoise.for_guarantee(PureDP(1.0, **REPLACE), share=1.0), "share must be < 1"),
        (lambda: SmoothNoise("cauchy", 0.1, 1.0).scale(1.0), "must be a SmoothSensitivity"),
        (
            lambda: SmoothNoise("cauchy", 0.1, 1.0).scale(smooth_count_sensitivity(beta=0.2)),
            "sensitivity must be smooth with beta <= 0.1",
        ),
        (
            lambda: SmoothNoise("cauchy", 0.1, 1.0).isf(0.0, smooth_count_sensitivity(beta=0.1)),
            "q must be > 0",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_the_number_of_records_is_public():
    with pytest.raises(IncompatibleReleaseError, match='guarantee must have neighbours="replace"'):
        SmoothNoise.for_guarantee(PureDP(1.0))


def test_the_bound_never_vanishes():
    """With e^-(β·distance) below the smallest float, a bound of 0 would be no noise at all."""
    values = np.zeros(2000)
    for ones in (0, 6, 7, 900):
        values[:ones] = 1.0
        found = smooth_median_sensitivity(values, 0.0, 1.0, beta=0.75)
        assert found.value >= 1e-100
    with pytest.raises(InvalidParameterError, match="smaller units"):
        smooth_median_sensitivity([0.0], 0.0, 1e-200, beta=1.0)
