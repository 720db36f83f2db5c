"""Posteriors over finite sets of data sets: Bayes' rule by hand, bounds, calibration, bad input."""

import itertools

import numpy as np
import pytest

from dpinfer import DiscreteGaussian, Gaussian, Geometric, Laplace, RandomizedResponse, WeightedSum
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Channel, ExponentialMechanism
from dpinfer.privacy import (
    GDP,
    ZCDP,
    pbdp_delta,
    posterior_tail,
    secret_posterior,
    simulate_posterior,
)


def data_sets(n, p):
    """All binary data sets of n records that are 1 with probability p, and their priors."""
    sets = np.array(list(itertools.product([0, 1], repeat=n)))
    return sets, np.prod(np.where(sets == 1, p, 1 - p), axis=1)


def test_bayes_rule_by_hand_for_each_kind_of_mechanism():
    prior = np.array([0.2, 0.5, 0.3])
    answers = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    outputs = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    for law in (
        Laplace(scale=[1.0, 2.0]),
        Gaussian(sigma=1.5),
        Geometric(scale=2.0),
        DiscreteGaussian(sigma=[1.0, 3.0]),
    ):
        density = law.pmf if law.is_integer else law.pdf
        joint = np.stack([np.prod(density(o - answers), axis=1) * prior for o in outputs])
        found = secret_posterior(prior, answers, law, outputs)
        np.testing.assert_allclose(found.posterior, joint / joint.sum(1, keepdims=True))
        np.testing.assert_allclose(found.baseline, np.tile(prior, (3, 1)))
    channel = RandomizedResponse(p=0.6, categories=3)
    found = secret_posterior(prior, answers, channel, outputs)
    joint = np.stack(
        [
            prior
            * channel.matrix[answers[:, 0].astype(int), int(o[0])]
            * channel.matrix[answers[:, 1].astype(int), int(o[1])]
            for o in outputs
        ]
    )
    np.testing.assert_allclose(found.posterior, joint / joint.sum(1, keepdims=True))
    by_matrix = secret_posterior(prior, answers, Channel(channel.matrix), outputs)
    np.testing.assert_allclose(by_matrix.posterior, found.posterior)
    # a report that one answer never leads to
    wide = Channel([[0.5, 0.5, 0.0, 0.0], [0.2, 0.3, 0.5, 0.0], [0.0, 0.0, 0.1, 0.9]])
    seen = secret_posterior(prior, [0, 1, 2], wide, [1, 3])
    joint = np.stack([prior * wide.matrix[:, 1], prior * wide.matrix[:, 3]])
    np.testing.assert_allclose(seen.posterior, joint / joint.sum(1, keepdims=True))
    drawn = simulate_posterior([1, 1], [0, 2], wide, rng=1)
    assert set(drawn.outputs) == {0, 1, 2, 3}
    choice = ExponentialMechanism(epsilon=1.0)
    scores = np.array([[1.0, 2.0, -np.inf], [0.0, 0.0, -np.inf], [5.0, 1.0, -np.inf]])
    found = secret_posterior(prior, scores, choice, [0, 1])
    joint = (choice.probabilities(scores) * prior[:, None])[:, :2].T
    np.testing.assert_allclose(found.posterior, joint / joint.sum(1, keepdims=True))


def test_secrets_are_summed_over_the_data_sets_that_hold_them():
    sets, prior = data_sets(4, 0.3)
    law = Geometric(scale=1.0)
    found = secret_posterior(prior, sets.sum(1), law, [0, 4], secret=sets[:, 0].tolist())
    assert found.secrets == (0, 1)
    np.testing.assert_allclose(found.prior, [0.7, 0.3])
    likely = law.pmf(np.array([[0], [4]]) - sets.sum(1)) * prior
    expected = likely[:, sets[:, 0] == 1].sum(1) / likely.sum(1)
    np.testing.assert_allclose(found.posterior[:, 1], expected)
    np.testing.assert_allclose(found.ratio[:, 1], expected / 0.3)


def test_worlds_without_the_record():
    sets, prior = data_sets(4, 0.3)
    law = Geometric(scale=1.0)
    secret = sets[:, 0].tolist()
    outputs = np.arange(-3, 8)
    deleted = secret_posterior(
        prior, sets.sum(1), law, outputs, secret=secret, without=sets[:, 1:].sum(1)
    )
    # independent records: without the first, the release says nothing of it
    np.testing.assert_allclose(deleted.baseline[:, 1], 0.3)
    rest = [tuple(row) for row in sets[:, 1:]]
    drawn = secret_posterior(prior, sets.sum(1), law, outputs, secret=secret, rest=rest)
    np.testing.assert_allclose(drawn.baseline[:, 1], 0.3)
    # all records alike: it says as much without the first
    alike = np.where((sets == sets[:, :1]).all(1), 0.5, 0.0)
    same = secret_posterior(alike, sets.sum(1), law, outputs, secret=secret, rest=rest)
    np.testing.assert_allclose(same.baseline, same.posterior)


def test_no_output_passes_the_pure_bounds_for_any_prior():
    rng = np.random.default_rng(5)
    sets, _ = data_sets(3, 0.5)
    law = Laplace(scale=2.0)
    outputs = rng.uniform(-20, 20, 500)
    rest, secret = [tuple(row) for row in sets[:, 1:]], sets[:, 0].tolist()
    for _ in range(20):
        prior = rng.dirichlet(np.full(8, 0.3))
        drawn = secret_posterior(prior, sets.sum(1), law, outputs, secret=secret, rest=rest)
        assert np.abs(np.log(drawn.ratio)).max() <= 0.5 + 1e-9
        deleted = secret_posterior(
            prior, sets.sum(1), law, outputs, secret=secret, without=sets[:, 1:].sum(1)
        )
        assert np.abs(np.log(deleted.ratio)).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_tails_of_simulated_gaussian_posteriors_respect_the_bounds(sigma):
    rho = 0.5 / sigma**2
    guarantee, exact = ZCDP(rho, neighbours="replace"), GDP(1 / sigma, neighbours="replace")
    epsilon = np.array([0.25, 0.5, 1.0, 2.0])
    for share in (0.5, 0.05):
        found = simulate_posterior(
            [1 - share, share], [0.0, 1.0], Gaussian(sigma=sigma), reps=100_000, rng=1
        )
        true, error = found.tail(epsilon)
        # six standard errors, and six of a count that may be small: 2e-9 each
        slack = 6 * error + 6 * np.sqrt(1e-4 / 100_000)
        assert (true <= pbdp_delta(exact, epsilon) + slack).all()
        assert (true <= posterior_tail(guarantee, epsilon, method="tail-bound") + slack).all()
        one, error = found.tail(epsilon, secret=1)
        known = {"rest": "known", "about": "any"}
        assert (one <= posterior_tail(exact, epsilon, **known) + slack).all()
        assert (
            one <= posterior_tail(guarantee, epsilon, method="tail-bound", **known) + slack
        ).all()


def test_tails_hold_for_arbitrary_priors_over_all_records():
    rng = np.random.default_rng(12)
    sets, _ = data_sets(3, 0.5)
    epsilon, draws = np.array([0.1, 0.4, 0.8]), 20_000
    bound = posterior_tail(GDP(1.0, neighbours="replace"), epsilon)
    rest, secret = [tuple(row) for row in sets[:, 1:]], sets[:, 0].tolist()
    for _ in range(15):
        prior = rng.dirichlet(np.full(8, 0.3))
        found = simulate_posterior(
            prior, sets.sum(1), Gaussian(sigma=1.0), secret=secret, rest=rest, reps=draws, rng=rng
        )
        for value in (0, 1):
            true = found.truth == value
            if true.sum() < 500:
                continue
            log_ratio = np.log(found.true_ratio[true])
            share = np.mean(log_ratio[:, None] >= epsilon, axis=0)
            # six standard errors: 1e-9 for each of about 90
            assert (share <= bound + 6 * np.sqrt(0.25 / true.sum())).all()


def test_a_threshold_of_the_release_attains_the_tail_for_a_rare_secret():
    sigma, epsilon, share = 1.0, 0.8, 1e-4
    delta = pbdp_delta(GDP(1 / sigma), epsilon)
    level = delta * np.exp(-epsilon)
    # the bit "above the threshold" as two options: log odds of its probability
    table = np.log([[1 - level, level], [1 - delta, delta]])
    bit = ExponentialMechanism(epsilon=2.0)
    found = simulate_posterior([1 - share, share], table, bit, truth=1, reps=200_000, rng=4)
    # the posterior ratio falls short of e^ε by the share
    tail, error = found.tail(epsilon - 1e-3)
    assert abs(tail - delta) < 6 * error  # 2e-9
    assert found.tail(epsilon + 1e-6)[0] == 0.0


def test_an_attacker_with_the_right_prior_is_calibrated():
    sets, prior = data_sets(5, 0.3)
    found = simulate_posterior(
        prior, sets.sum(1), Geometric(scale=1.5), secret=sets[:, 0].tolist(), reps=200_000, rng=11
    )
    hits = found.truth == 1
    for low, high in ((0.0, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 1.0)):
        part = (found.posterior[:, 1] >= low) & (found.posterior[:, 1] < high)
        mean = found.posterior[part, 1].mean()
        # six standard errors: 2e-9
        assert abs(hits[part].mean() - mean) < 6 * np.sqrt(mean * (1 - mean) / part.sum())
    assert found.true_posterior.shape == (200_000,)
    assert np.isclose(found.posterior.sum(1), 1.0).all()


def test_a_fixed_truth_seeds_and_vector_answers():
    law = Laplace(scale=[1.0, 2.0])
    args = ([0.5, 0.3, 0.2], [[0, 0], [1, 0], [0, 3]], law)
    first, again = (simulate_posterior(*args, truth=2, reps=500, rng=9) for _ in range(2))
    np.testing.assert_array_equal(first.outputs, again.outputs)
    assert first.outputs.shape == (500, 2)
    assert (first.truth == 2).all()
    frame = first.frame([0.5])
    assert list(frame.columns) == [("prior", ""), ("posterior", 0.5), ("ratio", 0.5)]
    assert frame.index.name == "secret"
    with pytest.raises(ValueError, match="read-only"):
        first.posterior[0, 0] = 1.0
    choice = simulate_posterior(
        [1, 1], [[0.0, 9.0], [9.0, 0.0]], ExponentialMechanism(epsilon=2), rng=1
    )
    assert choice.outputs.shape == (10_000,)
    reports = simulate_posterior([1, 1], [[0, 0], [1, 1]], RandomizedResponse(p=0.9), rng=1)
    assert reports.outputs.shape == (10_000, 2)


def test_blocks_do_not_show():
    # four million log likelihoods are held at a time: here 18 for each output
    rng = np.random.default_rng(0)
    answers, outputs = rng.normal(size=(6, 3)), rng.normal(size=(300_000, 3))
    whole = secret_posterior(np.ones(6), answers, Laplace(scale=1.0), outputs)
    parts = [
        secret_posterior(np.ones(6), answers, Laplace(scale=1.0), part).posterior
        for part in np.split(outputs, 3)
    ]
    np.testing.assert_array_equal(whole.posterior, np.concatenate(parts))


def test_outputs_far_away_do_not_underflow():
    found = secret_posterior([0.5, 0.5], [0, 1], Laplace(scale=1e-3), [1e3, -1e3])
    np.testing.assert_allclose(found.posterior, [[0.0, 1.0], [1.0, 0.0]], atol=1e-300)


PRIOR, ANSWERS, LAW = [0.5, 0.5], [0, 1], Laplace(scale=1.0)
SUM = WeightedSum([1.0, 2.0], LAW)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: secret_posterior([0.0, 0.0], ANSWERS, LAW, [1]), "prior must have a positive"),
        (lambda: secret_posterior([-1, 2], ANSWERS, LAW, [1]), "prior must be >= 0"),
        (lambda: secret_posterior([[1, 2]], ANSWERS, LAW, [1]), "prior must be one-dimensional"),
        (lambda: secret_posterior(PRIOR, [0, 1, 2], LAW, [1]), "answers must have 2 entries"),
        (lambda: secret_posterior(PRIOR, 3, LAW, [1]), "answers must have one row"),
        (
            lambda: secret_posterior(PRIOR, ANSWERS, LAW, [[1, 2]]),
            r"outputs must have shape \(n,\)",
        ),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, []), "outputs must hold at least one"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [np.nan]), "outputs must not contain NaN"),
        (lambda: secret_posterior(PRIOR, ANSWERS, SUM, [1]), "must have a density"),
        (lambda: secret_posterior(PRIOR, ANSWERS, 1.0, [1]), "mechanism must be a law"),
        (
            lambda: secret_posterior(PRIOR, ANSWERS, Laplace(scale=[1.0, 2.0]), [1]),
            "mechanism must be one law",
        ),
        (lambda: secret_posterior(PRIOR, [0, 0.5], Geometric(scale=1.0), [1]), "whole numbers"),
        (lambda: secret_posterior(PRIOR, ANSWERS, Geometric(scale=1.0), [0.5]), "possible"),
        (
            lambda: secret_posterior(PRIOR, [0, 2], RandomizedResponse(p=0.7), [1]),
            "answers must be coded 0 to 1",
        ),
        (
            lambda: secret_posterior(PRIOR, ANSWERS, RandomizedResponse(p=0.7), [2]),
            "outputs must be coded 0 to 1",
        ),
        (
            lambda: secret_posterior(PRIOR, ANSWERS, ExponentialMechanism(epsilon=1.0), [0]),
            "answers must be scores",
        ),
        (
            lambda: secret_posterior(PRIOR, [[0, 1]] * 2, ExponentialMechanism(epsilon=1.0), [2]),
            "outputs must be options 0 to 1",
        ),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1], secret=["a"]), "secret must have 2"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1], secret=[[1], [2]]), "hashable"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1], secret="ab"), "secret must be a seq"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1], rest=["a"]), "rest must have 2"),
        (
            lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1], rest=["a", "a"], without=[0, 0]),
            "must not both be given",
        ),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1], without=[0]), "without must have the"),
        (lambda: simulate_posterior(PRIOR, ANSWERS, LAW, truth=2), "truth must be <= 1"),
        (lambda: simulate_posterior(PRIOR, ANSWERS, LAW, reps=0), "reps must be >= 1"),
        (lambda: simulate_posterior(PRIOR, ANSWERS, LAW, rng="x"), "rng must be None"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1]).tail(0.1), "secret must be given"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1]).tail(0.1, 7), "secret must be one of"),
        (lambda: secret_posterior(PRIOR, ANSWERS, LAW, [1]).frame([2.0]), "quantiles must be <= 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()
