"""Mechanisms that select: their laws against other routes, their privacy, and what is lost."""

from itertools import product

import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import ExponentialMechanism, NoisyMax, SparseVector
from dpinfer.privacy import PureDP, guarantee_of

NOISES = ("laplace", "gumbel", "exponential")
SCORES = [24.0, 8.0, 28.0, 5.0]


@pytest.mark.parametrize(
    ("noise", "epsilon", "expected"),
    [
        ("gumbel", 0.1, [0.32707, 0.14696, 0.39948, 0.12649]),
        ("exponential", 0.1, [0.32391, 0.12227, 0.45017, 0.10365]),
        ("laplace", 0.1, [0.33436, 0.13513, 0.41621, 0.11429]),
    ],
)
def test_published_scores(noise, epsilon, expected):
    found = NoisyMax(epsilon=epsilon, noise=noise).probabilities(SCORES)
    np.testing.assert_allclose(found, expected, atol=6e-6)
    assert found.sum() == pytest.approx(1.0, abs=1e-14)


def test_gumbel_noise_is_the_exponential_mechanism():
    for monotonic in (False, True):
        ours = NoisyMax(epsilon=0.7, noise="gumbel", sensitivity=2.0, monotonic=monotonic)
        other = ExponentialMechanism(epsilon=0.7, sensitivity=2.0, monotonic=monotonic)
        np.testing.assert_allclose(
            ours.probabilities(SCORES), other.probabilities(SCORES), rtol=1e-13
        )
    none = ExponentialMechanism(epsilon=0.0)
    np.testing.assert_array_equal(none.probabilities(SCORES), np.full(4, 0.25))


def test_two_options_in_closed_form():
    """1 - ½e^(-d/b)(1 + d/(2b)) under Laplace noise; 1 - ½e^(-d/b) under exponential noise."""
    gaps = np.array([0.0, 0.3, 2.0, 17.0, 300.0])
    for d in gaps:
        lost = 0.5 * np.exp(-d)
        laplace = NoisyMax(epsilon=2.0, noise="laplace").probabilities([d, 0.0])
        assert laplace[1] == pytest.approx(lost * (1.0 + 0.5 * d), rel=1e-12)
        flip = NoisyMax(epsilon=2.0).probabilities([d, 0.0])
        assert flip[1] == pytest.approx(lost, rel=1e-12)


def test_permute_and_flip_by_its_polynomial():
    """Expand Π(1 - p_j t) and integrate each power."""
    q = np.array([0.0, -0.2, -1.0, -1.0, -3.5, -9.0])
    p = np.exp(q)
    expected = []
    for i in range(q.size):
        poly = np.poly1d([1.0])
        for j in range(q.size):
            if j != i:
                poly *= np.poly1d([-p[j], 1.0])
        expected.append(p[i] * poly.integ()(1.0))
    found = NoisyMax(epsilon=2.0).probabilities(q)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_many_options():
    rng = np.random.default_rng(1)
    q = rng.normal(0.0, 20.0, 1_000).round()
    for noise in NOISES:
        found = NoisyMax(epsilon=0.5, noise=noise).probabilities(q)
        assert found.sum() == pytest.approx(1.0, abs=1e-13)
        order = np.argsort(q)
        assert (np.diff(found[order]) >= -1e-15).all()
    with pytest.raises(InvalidParameterError, match="at most 10,000 options"):
        NoisyMax(epsilon=0.5, noise="laplace").probabilities(np.zeros(10_001))


@pytest.mark.thinned("noise", "monotonic", every=2)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("monotonic", [False, True])
def test_losses_are_within_the_budget(noise, monotonic):
    mechanism = NoisyMax(epsilon=1.0, noise=noise, monotonic=monotonic)
    rng = np.random.default_rng(2)
    largest = 0.0
    cases = [np.array([0.0, d]) for d in [-20.0, *np.arange(-9.0, 10.0), 20.0]]
    cases += [rng.integers(0, 6, 4).astype(float) for _ in range(4)]
    for q in cases:
        here = mechanism.probabilities(q)
        moves = np.array(list(product([0, 1] if monotonic else [-1, 0, 1], repeat=q.size)))
        for move in moves:
            there = mechanism.probabilities(q + move)
            largest = max(largest, np.abs(np.log(here / there)).max())
    assert largest <= 1.0 + 1e-12
    assert largest > 0.9


@pytest.mark.parametrize(
    ("noise", "expected"), [("gumbel", 10.2833), ("exponential", 8.9388), ("laplace", 10.7801)]
)
def test_shortfall_is_sharp(noise, expected):
    mechanism = NoisyMax(epsilon=1.0, noise=noise)
    g = mechanism.shortfall(10)
    assert g == pytest.approx(expected, abs=6e-5)
    worst = mechanism.probabilities([g, *np.zeros(9)])
    assert worst[0] == pytest.approx(0.95, abs=1e-10)
    assert mechanism.shortfall(2, alpha=0.6) == 0.0


def test_guarantees():
    assert guarantee_of(NoisyMax(epsilon=1.5)) == PureDP(1.5)
    assert guarantee_of(NoisyMax(epsilon=1.5, monotonic=True), neighbours="replace").epsilon == 3.0
    vector = SparseVector(threshold_scale=2.0, query_scale=4.0, count=3)
    assert guarantee_of(vector).epsilon == 0.5 + 1.5


def test_sparse_vector_stops_where_it_should():
    vector = SparseVector(threshold_scale=2.0, query_scale=4.0)
    found = vector.stopping_law([0.0, 2.0, 5.0], 3.0)
    np.testing.assert_allclose(found, [0.2777227, 0.2685413, 0.2587266, 0.1950095], atol=6e-8)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_patterns_make_up_the_law(count):
    vector = SparseVector(threshold_scale=2.0, query_scale=3.0, count=count)
    queries, threshold = [0.0, 2.0, 5.0, 4.0], 3.0
    law, total = np.zeros(5), 0.0
    for size in range(1, 5):
        for pattern in product([False, True], repeat=size):
            p = vector.probability(np.array(pattern), queries, threshold)
            total += p
            law[size - 1 if sum(pattern) == count else 4] += p
    assert total == pytest.approx(1.0, abs=1e-13)
    np.testing.assert_allclose(law, vector.stopping_law(queries, threshold), atol=1e-14)


@pytest.mark.parametrize(("count", "monotonic"), [(1, False), (2, False), (1, True), (2, True)])
def test_sparse_vector_is_within_its_budget(count, monotonic):
    vector = SparseVector.from_epsilon(1.0, count=count, monotonic=monotonic)
    assert vector.epsilon == pytest.approx(1.0, rel=1e-14)
    largest = 0.0
    for high in (0.0, 5.0, 30.0):
        q = np.array([-high, -high, high])
        for move in product([0, 1] if monotonic else [-1, 1], repeat=3):
            for pattern in product([False, True], repeat=3):
                here, there = (
                    vector.probability(np.array(pattern), x, 0.0) for x in (q, q + np.array(move))
                )
                if here > 1e-12:
                    largest = max(largest, abs(np.log(here / there)))
    assert 0.4 < largest <= 1.0 + 1e-9


@pytest.mark.parametrize(("queries", "expected"), [(1, 13.0956), (10, 22.1754), (100, 31.3725)])
def test_sparse_vector_accuracy(queries, expected):
    vector = SparseVector(threshold_scale=2.0, query_scale=4.0)
    assert vector.accuracy(queries) == pytest.approx(expected, abs=6e-5)


def test_draws_follow_the_laws():
    """Frequencies within 6 standard errors: 2e-9 each, 14 of them."""
    for noise in NOISES:
        mechanism = NoisyMax(epsilon=0.1, noise=noise)
        p = mechanism.probabilities(SCORES)
        draws = mechanism.rvs(SCORES, 100_000, rng=3)
        freq = np.bincount(draws, minlength=4) / 100_000
        assert (np.abs(freq - p) <= 6.0 * np.sqrt(p * (1.0 - p) / 100_000)).all()
    vector, rng = SparseVector(threshold_scale=2.0, query_scale=4.0), np.random.default_rng(4)
    stops = [vector.rvs([0.0, 5.0], 3.0, rng=rng) for _ in range(5_000)]
    p = vector.stopping_law([0.0, 5.0], 3.0)
    freq = np.array([np.mean([x.size == 1 for x in stops]), np.mean([not x.any() for x in stops])])
    wanted = p[[0, 2]]
    assert (np.abs(freq - wanted) <= 6.0 * np.sqrt(wanted * (1.0 - wanted) / 5_000)).all()


def test_refusals():
    with pytest.raises(InvalidParameterError, match="epsilon must be > 0"):
        NoisyMax(epsilon=0.0)
    with pytest.raises(InvalidParameterError, match="noise must be one of"):
        NoisyMax(epsilon=1.0, noise="gaussian")
    with pytest.raises(InvalidParameterError, match="above must hold a bool"):
        SparseVector(threshold_scale=1, query_scale=1).probability([1, 0], [1.0, 2.0], 0.0)
    with pytest.raises(InvalidParameterError, match="count must be >= 1"):
        SparseVector(threshold_scale=1, query_scale=1, count=0)


@pytest.mark.parametrize("noise", NOISES)
def test_scores_as_far_apart_as_floats_can_be(noise):
    found = NoisyMax(epsilon=1.0, noise=noise).probabilities([1e308, -1e308])
    np.testing.assert_allclose(found, [1.0, 0.0], rtol=1e-14)


def test_shortfall_at_tiny_levels():
    """Of two options with one-sided noise α = p/2, with p = e^(-g/b)."""
    for alpha in (0.4, 1e-3, 1e-15, 1e-300):
        found = NoisyMax(epsilon=2.0).shortfall(2, alpha=alpha)
        assert found == pytest.approx(-np.log(2.0 * alpha), rel=1e-12)


def test_sparse_vector_with_hardly_noisy_queries():
    """Then the noise of the threshold decides: all by its cdf, in closed form."""
    mechanism = SparseVector(threshold_scale=1e6, query_scale=1e-3)
    law = mechanism.stopping_law([-1e6, 0.0, 1e6], 0.0)
    tail = 0.5 * np.exp(-1.0)
    np.testing.assert_allclose(law, [tail, 0.5 - tail, 0.5 - tail, tail], rtol=1e-8)
    assert mechanism.accuracy(3) == pytest.approx(1e6 * np.log(20.0), rel=1e-8)
    # the first is below and the second above: density of Z at 0 times E(d + V₂ - V₁)₊
    found = mechanism.probability([False, True], [0.0, 1e-3], 0.0)
    assert found == pytest.approx(5e-7 * 1e-3 * (1.0 + 0.75 * np.exp(-1.0) + 0.25 / np.e), rel=1e-6)


def test_sparse_vector_with_many_queries_and_answers():
    queries = np.random.default_rng(3).normal(-20.0, 5.0, 300)
    law = SparseVector(threshold_scale=1.0, query_scale=2.0).stopping_law(queries, 0.0)
    assert law.sum() == pytest.approx(1.0, abs=1e-13)
    endless = SparseVector(threshold_scale=1.0, query_scale=2.0, count=10**9)
    np.testing.assert_allclose(endless.stopping_law([1.0, 2.0], 0.0), [0.0, 0.0, 1.0], atol=1e-15)
