"""Channels given as matrices, ready-made ones, and unary encoding."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import special

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Channel, RandomizedResponse, UnaryEncoding

MATRIX = [[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]
CHANNEL = Channel(MATRIX, truths=list("abc"))


def random_channel(rng, truths, reports, zeros=0.0):
    """Return a matrix, some of whose entries may be zero."""
    matrix = rng.dirichlet(np.ones(reports), size=truths) * (rng.random((truths, reports)) >= zeros)
    matrix[:, 0] += 0.01
    return matrix / matrix.sum(axis=1, keepdims=True)


def test_what_a_channel_with_an_impossible_report_protects():
    assert CHANNEL.epsilon == np.inf
    np.testing.assert_allclose(
        CHANNEL.delta_at([0.0, 0.5, 1.0]), [0.6, 0.5351278729, 0.4281718172], atol=5e-11
    )
    last = Channel(MATRIX, truths=list("abc"), pairs=[("b", "c")])
    laws = np.array(MATRIX[1:])
    worst = max(np.log((p**2 / q).sum()) for p, q in (laws, laws[::-1]))
    assert last.divergence(2.0) == pytest.approx(worst, rel=1e-13)
    assert last.epsilon == pytest.approx(np.log(4.0), rel=1e-14)
    assert CHANNEL.divergence(2.0) == np.inf


def test_brute_force_over_all_pairs():
    rng = np.random.default_rng(1)
    for turn in range(60):
        matrix = random_channel(rng, rng.integers(2, 6), rng.integers(2, 7), 0.2 * (turn % 2))
        channel, epsilon, order = Channel(matrix), rng.exponential(1.0, 5), 1 + rng.exponential(2.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = matrix[:, None] / matrix
            largest = np.log(np.nanmax(ratio))
            power = matrix[:, None] ** order * np.where(matrix > 0, matrix, 0.0) ** (1 - order)
        moment = np.where(matrix[:, None] > 0, power, 0.0).sum(axis=2)
        delta = [
            np.maximum(matrix[:, None] - np.exp(e) * matrix, 0.0).sum(axis=2).max() for e in epsilon
        ]
        assert channel.epsilon == pytest.approx(largest, rel=1e-13)
        np.testing.assert_allclose(channel.delta_at(epsilon), delta, rtol=1e-11, atol=1e-16)
        expected = np.log(moment.max()) / (order - 1)
        assert channel.divergence(order) == pytest.approx(expected, rel=1e-9)
        assert channel.divergence(np.inf) == pytest.approx(largest, rel=1e-13)


def test_randomized_response_is_a_case():
    response = RandomizedResponse.from_epsilon(1.0, categories=3)
    matrix = Channel(response.matrix)
    at = np.array([0.0, 0.5, 0.9, 1.5])
    for channel in (response, matrix):
        assert channel.epsilon == pytest.approx(1.0, rel=1e-14)
        assert channel.delta_at(0.5) == pytest.approx(0.2266843306, abs=5e-11)
    np.testing.assert_allclose(response.delta_at(at), matrix.delta_at(at), rtol=1e-12, atol=1e-16)
    two = RandomizedResponse.from_epsilon(np.log(3.0))
    np.testing.assert_allclose(
        two.divergence([1.0, 2.0, 10.0]), [0.5493061443, 0.8472978604, 1.0666476140], atol=5e-11
    )
    four = RandomizedResponse(p=0.5, categories=4)
    assert four.divergence(2.0) == pytest.approx(np.log(17 / 9), rel=1e-13)
    assert Channel(four.matrix).divergence(2.0) == pytest.approx(np.log(17 / 9), rel=1e-13)
    # twice as many reports of half the slope have no more to say
    assert response.slope == pytest.approx(response.p - response.q, rel=1e-14)


def unary_matrix(p, q, categories):
    """Return the matrix of all 2ᵏ reports."""
    bits = np.array(list(product([0, 1], repeat=categories)))
    ones = np.where(np.eye(categories, dtype=bool), p, q)[:, None]
    return np.where(bits == 1, ones, 1 - ones).prod(axis=2)


@pytest.mark.parametrize(("p", "q", "epsilon"), [(0.75, 0.25, 2 * np.log(3)), (0.5, None, 1.0)])
def test_unary_encoding_by_enumeration(p, q, epsilon):
    q = float(special.expit(-1.0)) if q is None else q
    unary = UnaryEncoding(p=p, q=q, categories=3)
    listed = Channel(unary_matrix(p, q, 3))
    at = np.array([0.0, 0.5, 1.0, 1.7, 2.5])
    assert unary.epsilon == pytest.approx(epsilon, rel=1e-13)
    assert listed.epsilon == pytest.approx(epsilon, rel=1e-13)
    np.testing.assert_allclose(unary.delta_at(at), listed.delta_at(at), rtol=1e-12, atol=1e-15)
    for order in (1.0, 1.5, 2.0, 20.0):
        assert unary.divergence(order) == pytest.approx(listed.divergence(order), rel=1e-11)
    if p == 0.5:
        assert unary.delta_at(0.5) == pytest.approx(0.1438245683, abs=5e-11)


def test_ready_made_unary_encodings():
    symmetric = UnaryEncoding.symmetric(2 * np.log(3.0), categories=8)
    assert (symmetric.p, symmetric.q) == pytest.approx((0.75, 0.25))
    optimised = UnaryEncoding.optimised(1.0, categories=10**9)
    assert (optimised.p, optimised.epsilon) == (0.5, pytest.approx(1.0, rel=1e-14))
    # RAPPOR's rounds, one after the other, as matrices of a bit
    both = UnaryEncoding.rappor(0.5, 0.25, 0.6, categories=16)
    first = np.array([[0.75, 0.25], [0.25, 0.75]])
    second = np.array([[0.75, 0.25], [0.4, 0.6]])
    np.testing.assert_allclose((first @ second)[:, 1], [both.q, both.p], rtol=1e-15)
    lasting = UnaryEncoding(p=0.75, q=0.25, categories=16)
    assert both.epsilon < lasting.epsilon == pytest.approx(2 * np.log(3.0))


def test_shown_records_and_samples():
    shamed = Channel.name_and_shame(0.01)
    np.testing.assert_allclose(shamed.delta_at([0.0, 1.0, 50.0]), 0.01, rtol=1e-13)
    assert shamed.epsilon == np.inf
    np.testing.assert_allclose(
        Channel.released_sample(2, 5).delta_at([0.0, 1.0, 10.0]), 0.4, rtol=1e-13
    )
    # the same by all samples of two of five records, one of which is a or b
    samples = list(product(range(5), repeat=2))
    drawn = [frozenset(s) for s in samples if s[0] < s[1]]
    matrix = [[1 / 10] * 10 + [0.0] * 4, [0.0] * 14]
    for i, sample in enumerate(drawn):
        matrix[1][i] = 0.0 if 0 in sample else 1 / 10
    matrix[1][10:] = [1 / 10] * 4
    listed = Channel(matrix)
    np.testing.assert_allclose(listed.delta_at([0.0, 1.0, 10.0]), 0.4, rtol=1e-13)
    with pytest.raises(InvalidParameterError, match="size must be <= 5"):
        Channel.released_sample(6, 5)


def test_a_mixture_shows_which_channel_was_used():
    mixed = Channel.mixture(
        [RandomizedResponse.from_epsilon(1.0), Channel.name_and_shame(0.1)], [0.5, 0.5]
    )
    assert mixed.delta_at(1.0) == pytest.approx(0.05, rel=1e-12)
    assert mixed.reports[:3] == ((0, 0), (0, 1), (1, 0))
    parts = [Channel(MATRIX), Channel(np.roll(MATRIX, 1, axis=1))]
    both = Channel.mixture(parts, [0.3, 0.7])
    # δ of a pair is linear in such a mixture
    for pair in ("01", "12"):
        one, other = (int(i) for i in pair)
        deltas = [
            np.maximum(p.matrix[one] - np.e * p.matrix[other], 0.0).sum() for p in (*parts, both)
        ]
        assert deltas[2] == pytest.approx(0.3 * deltas[0] + 0.7 * deltas[1], rel=1e-13)


def test_draws_follow_the_channel():
    answers = np.repeat(np.arange(3), 100_000)
    table = np.zeros((3, 4))
    np.add.at(table, (answers, CHANNEL.randomize(answers, rng=1)), 1e-5)
    # within six standard errors: fails by accident with probability 2e-8
    np.testing.assert_allclose(table, MATRIX, atol=6 * 0.5 / np.sqrt(100_000))
    assert (table[0, 3], CHANNEL.randomize(1, rng=2) in range(4)) == (0.0, True)
    counts = CHANNEL.randomize_counts([10**5, 0, 3 * 10**5], rng=3)
    assert counts.sum() == 4 * 10**5
    np.testing.assert_allclose(counts, np.array([1e5, 0, 3e5]) @ MATRIX, atol=6 * np.sqrt(1e5))
    unary = UnaryEncoding(p=0.6, q=0.2, categories=3)
    bits = unary.randomize(answers, rng=4)
    shares = bits.reshape(3, 100_000, 3).mean(axis=1)
    expected = np.where(np.eye(3, dtype=bool), 0.6, 0.2)
    np.testing.assert_allclose(shares, expected, atol=6 * 0.5 / np.sqrt(100_000))
    ones = unary.randomize_counts([10**5, 0, 3 * 10**5], rng=5)
    np.testing.assert_allclose(
        ones, [1e5 * 0.6 + 3e5 * 0.2, 8e4, 3e5 * 0.6 + 1e5 * 0.2], atol=6 * np.sqrt(1e5)
    )


def test_names_travel_and_channels_are_values():
    frame = pd.DataFrame(MATRIX, index=["x", "y", "z"], columns=list("stuv"))
    channel = Channel(frame)
    assert (channel.truths, channel.reports) == (("x", "y", "z"), ("s", "t", "u", "v"))
    assert channel == pickle.loads(pickle.dumps(channel))
    assert hash(channel) == hash(Channel(frame))
    assert channel != CHANNEL
    assert repr(channel) == "Channel(3 truths, 4 reports)"
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(channel)).matrix[0, 0] = 1.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Channel([[0.5, 0.4]]), "rows that add up to 1, got 0.9 in row 0"),
        (lambda: Channel([0.5, 0.5]), "two-dimensional"),
        (lambda: Channel([[1.5, -0.5]]), "matrix must be >= 0"),
        (lambda: Channel(MATRIX, truths=list("ab")), "truths must have 3 entries"),
        (lambda: Channel(MATRIX, truths=list("aab")), "different names"),
        (lambda: Channel(MATRIX, truths=[[], {}, 1]), "hashed"),
        (lambda: Channel(MATRIX, pairs=[(0, 9)]), "pairs must hold pairs of truths among"),
        (lambda: Channel(MATRIX, pairs=[(0, 1, 2)]), "pairs must hold pairs of truths among"),
        (lambda: Channel.mixture([], []), "channels must hold channels"),
        (lambda: Channel.mixture([CHANNEL], [0.5]), "add up to 1"),
        (lambda: Channel.mixture([CHANNEL, RandomizedResponse(p=0.7)], [0.5, 0.5]), "same truths"),
        (lambda: UnaryEncoding(p=0.2, q=0.5, categories=3), "q must be at most p"),
        (lambda: UnaryEncoding.rappor(0.5, 0.6, 0.3, categories=3), "q must be above p"),
        (
            lambda: UnaryEncoding(p=0.5, q=0.1, categories=10**9).randomize(0),
            "use randomize_counts",
        ),
        (lambda: CHANNEL.randomize(3), "answers must be coded 0 to 2"),
        (lambda: CHANNEL.randomize_counts([1, 2]), "each of the 3 categories"),
        (lambda: CHANNEL.divergence(0.5), "order must be >= 1"),
    ],
)
def test_bad_calls_are_refused(call, said):
    with pytest.raises(InvalidParameterError, match=said):
        call()
