"""The bound for adaptive queries: its formula, and an analyst who tries to overfit."""

from contextlib import suppress

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from dpinfer.curation import generalization_bound, usefulness
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import Laplace
from dpinfer.privacy import GDP, ZCDP, ApproxDP, PureDP, RepeatedDP


def test_the_formula_is_the_best_of_its_family():
    guarantee = ApproxDP(0.1, 1e-8, neighbours="replace")
    found = generalization_bound(guarantee, alpha=0.02, beta=1e-5, failure=0.05)

    def total(log_c):
        # β/c + δ/d = β' gives d for every c
        c = np.exp(log_c)
        left = 0.05 - 1e-5 / c
        return c + 2 * 1e-8 / left if left > 0 else np.inf

    best = optimize.minimize_scalar(total, bounds=(np.log(2.0001e-4), 0), method="bounded").fun
    assert found.delta == pytest.approx(1e-8, rel=0.1)
    own = np.square(np.sqrt(1e-5) + np.sqrt(2e-8)) / 0.05
    assert own == pytest.approx(best, rel=1e-6)
    # a point on the curve of the guarantee may be better than (0.1, 1e-8) itself
    assert found.alpha <= 0.02 + np.expm1(0.1) + own + 1e-12
    parts = found.sample_alpha + found.privacy + found.confidence
    assert found.alpha == pytest.approx(parts, rel=1e-14)


def test_pure_guarantees_in_closed_form():
    guarantee = PureDP(1e-8, neighbours="replace")
    found = generalization_bound(guarantee, alpha=0.0, beta=0.0)
    assert found.alpha == pytest.approx(float(mpmath.expm1(mpmath.mpf("1e-8"))), rel=1e-12)
    assert not found.is_vacuous
    large = generalization_bound(PureDP(1e4, neighbours="replace"), alpha=0.0, beta=0.0)
    assert large.is_vacuous


@pytest.mark.parametrize(
    "guarantee",
    [
        PureDP(0.05, neighbours="replace"),
        ApproxDP(0.05, 1e-6, neighbours="replace"),
        ZCDP(0.0005, neighbours="replace"),
        GDP(0.03, neighbours="replace"),
    ],
)
def test_points_lie_on_the_curve(guarantee):
    found = generalization_bound(guarantee, alpha=0.01, beta=1e-6)
    assert guarantee.delta_at(found.epsilon) <= found.delta * (1 + 1e-6)
    assert found.privacy == pytest.approx(np.expm1(found.epsilon))
    worse = generalization_bound(guarantee, alpha=0.01, beta=1e-4)
    assert worse.alpha > found.alpha
    surer = generalization_bound(guarantee, alpha=0.01, beta=1e-6, failure=0.001)
    assert surer.alpha > found.alpha


def overfitting_gap(noise, rng, records, features):
    """Largest error for the population of an analyst who votes with features seen to be frequent.

    All features are fair coins, independent of each other. The last query asks for the majority
    among those that came out above one half; for the population its answer is one half.
    """
    sample = rng.integers(0, 2, (records, features), dtype=np.int8)
    answers = sample.mean(axis=0) + noise(features)
    sign = np.where(answers > 0.5, 1, -1)
    vote = (sample @ sign > 0.5 * sign.sum()).mean() + noise(1)[0]
    return max(abs(answers - 0.5).max(), abs(vote - 0.5))


def test_an_analyst_who_overfits_stays_within_the_bound():
    records, features, epsilon = 20_001, 21, 0.1
    law = Laplace.from_epsilon(epsilon / (features + 1), sensitivity=1 / records)
    accuracy = usefulness(law, queries=features + 1, beta=1e-3)
    bound = generalization_bound(
        PureDP(epsilon, neighbours="replace"), alpha=accuracy.alpha, beta=accuracy.beta
    )
    assert bound.alpha < 0.25
    rng = np.random.default_rng(1)
    private = [
        overfitting_gap(lambda size: law.rvs((size,), rng=rng), rng, records, features)
        for _ in range(40)
    ]
    # the bound fails in one of 20 runs at most: 12 of 40 have a probability below 1e-6
    assert np.mean(np.array(private) > bound.alpha) < 0.3
    # without noise, and with more features, the vote is off by what no fixed query would be
    plain = overfitting_gap(lambda size: np.zeros(size), rng, 2001, 101)
    assert plain > 5 * 0.5 / np.sqrt(2001)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"guarantee": 1.0}, "guarantee must be a guarantee"),
        ({"guarantee": PureDP(1.0)}, "neighbours='replace'"),
        ({"alpha": -0.1}, "alpha must be >= 0"),
        ({"alpha": 1.1}, "alpha must be <= 1"),
        ({"beta": 1.0}, "beta must be < 1"),
        ({"failure": 0.0}, "failure must be > 0"),
        (
            # one of a thousand mechanisms tells everything with probability 0.63
            {"guarantee": RepeatedDP(0.1, 1e-3, 1000, neighbours="replace")},
            "guarantee must imply .* with δ <= 0.1, got RepeatedDP",
        ),
    ],
)
def test_refusals(arguments, message):
    default = {"guarantee": PureDP(1.0, neighbours="replace"), "alpha": 0.1, "beta": 0.01}
    with pytest.raises(InvalidParameterError, match=message):
        generalization_bound(**{**default, **arguments})


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    epsilon=st.floats(0, 1e40),
    delta=st.floats(0, 0.999),
    alpha=st.floats(),
    beta=st.floats(),
    failure=st.floats(),
)
def test_only_own_errors_escape(epsilon, delta, alpha, beta, failure):
    for guarantee in (
        PureDP(epsilon, neighbours="replace"),
        ApproxDP(epsilon, delta, neighbours="replace"),
    ):
        with suppress(DPInferError):
            found = generalization_bound(guarantee, alpha=alpha, beta=beta, failure=failure)
            assert found.alpha >= alpha
