"""Bounds on an outcome in a group, and Goodman's regression: coverage, limits, refusals."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import ecological_bounds, goodman

RNG = np.random.default_rng(4)
FIRST, SECOND = RNG.integers(5, 200, (2, 60))
VOTES = RNG.binomial(FIRST, 0.6) + RNG.binomial(SECOND, 0.4)
LEAST, MOST = np.maximum(0, VOTES - SECOND).sum(), np.minimum(FIRST, VOTES).sum()


@pytest.mark.parametrize("method", ["bound", "soft", "box"])
@pytest.mark.parametrize("law", [dpi.Geometric(scale=7.0), dpi.Laplace(scale=7.0)], ids=repr)
@pytest.mark.parametrize("known", [False, True])
def test_both_bounds_are_covered(method, law, known):
    """Of 200 at level 0.9, 155 or more: fewer by chance in 1 of 10⁶."""
    a, b = (x + law.rvs((200, 60), rng=seed) for seed, x in enumerate((FIRST, SECOND)))
    whole = np.tile(FIRST + SECOND, (200, 1)) if known else None
    found = ecological_bounds(
        a, None if known else b, np.tile(VOTES, (200, 1)), sizes=whole,
        mechanism=law, method=method, alpha=0.1, rng=1,
    )  # fmt: skip
    if method == "box":
        held = (found.lower <= np.maximum(0, VOTES - SECOND)) & (
            np.minimum(FIRST, VOTES) <= found.upper
        )
        held = held.all(axis=1)
    else:
        held = (found.lower <= LEAST) & (found.upper >= MOST)
        plain = (found.plug_in_least <= LEAST) & (found.plug_in_most >= MOST)
        assert plain.mean() < 0.5
        assert (found.upper < VOTES.sum()).all()
    assert held.sum() >= 155


@pytest.mark.parametrize("method", ["bound", "box"])
@pytest.mark.parametrize("known", [False, True])
def test_bounds_of_noisy_outcomes_are_covered(method, known):
    """Of 200 at level 0.8, 120 or more: fewer by chance in 1 of 10¹⁰. Plugging in covers in few."""
    laws = dpi.Geometric(scale=7.0), dpi.Laplace(scale=7.0), dpi.Geometric(scale=9.0)
    rng = np.random.default_rng(5)
    a, b, votes = (
        x + law.rvs((200, 60), rng=rng) for x, law in zip((FIRST, SECOND, VOTES), laws, strict=True)
    )
    whole = np.tile(FIRST + SECOND, (200, 1)) if known else None
    found = ecological_bounds(
        a, None if known else b, votes, sizes=whole, method=method, alpha=0.2, rng=1,
        mechanism=(laws[0], None, laws[2]) if known else laws,
    )  # fmt: skip
    held = (found.lower <= LEAST) & (found.upper >= MOST)
    if method == "box":
        least, most = np.maximum(0, VOTES - SECOND), np.minimum(FIRST, VOTES)
        held = ((found.lower <= least) & (most <= found.upper)).all(axis=1)
    assert held.sum() >= 120
    if method == "bound":
        plain = (found.plug_in_least <= LEAST) & (found.plug_in_most >= MOST)
        assert plain.mean() < 0.4
        same = ecological_bounds(
            dpi.noisy(a, mechanism=laws[0]), None if known else dpi.noisy(b, mechanism=laws[1]),
            dpi.noisy(votes, mechanism=laws[2]), sizes=whole, alpha=0.2, rng=1,
        )  # fmt: skip
        np.testing.assert_array_equal(same.upper, found.upper)


def test_parts_of_errors_by_brute_force():
    """Points of sums of max(e⁻, ε⁻) and of (ε - u)⁺ of other draws, within 6 %: 1 in 10⁷."""
    laws = dpi.Laplace(scale=3.0), dpi.Laplace(scale=2.0), dpi.Laplace(scale=4.0)
    a, b, t = FIRST + 0.5, SECOND + 0.5, VOTES + 0.5
    found = ecological_bounds(a, b, t, mechanism=laws, reps=9999, rng=1)
    e, u, own = (law.rvs((20000, 60), rng=k) for k, law in enumerate(laws))
    up = np.quantile(np.maximum(np.maximum(-e, -own), 0).sum(axis=1), 0.975)
    down = np.quantile(np.maximum(own - u, 0).sum(axis=1), 0.975)
    assert found.upper - np.minimum(a, t).sum() == pytest.approx(up, rel=0.06)
    assert np.maximum(t - b, 0).sum() - found.lower == pytest.approx(down, rel=0.06)
    exact = ecological_bounds(a, b, dpi.noisy(t, mechanism=dpi.Exact()), mechanism=laws[:2], rng=1)
    plain = ecological_bounds(a, b, t, mechanism=laws[:2], rng=1)
    assert list(exact) == list(plain)
    with pytest.raises(InvalidParameterError, match="where outcome is noisy"):
        ecological_bounds(a, b, t, mechanism=laws, method="soft")
    shared = dpi.noisy(a, mechanism=laws[0])
    with pytest.raises(InvalidParameterError, match="independent noises"):
        ecological_bounds(shared, b, shared, mechanism=(None, laws[1], None))


def test_goodman_of_noisy_outcomes():
    """Of 25 at level 0.95 both rates in 16 or more: fewer by chance in 1 of 10⁶."""
    law, covered = dpi.Laplace(scale=15.0), 0
    for seed in range(25):
        a, b, votes, _ = composed(200, seed)
        noisy = votes + law.rvs(200, rng=seed)
        laws = dpi.Laplace(scale=28.0), dpi.Laplace(scale=28.0), law
        found = goodman(a, b, noisy, mechanism=laws, assume="constant rates")
        covered += bool(found["group"].contains(0.6)) and bool(found["rest"].contains(0.3))
    assert covered >= 16


CONTRADICTIONS = {
    "votes of persons": ({"outcome": FIRST + SECOND + (np.arange(60) == 7)}, "contradict"),
    "votes of sizes": (
        {"rest": None, "sizes": FIRST + SECOND, "outcome": FIRST + SECOND + 1},
        "outcome must be at most",
    ),
    "group of sizes": ({"rest": None, "sizes": FIRST - 1, "outcome": 0 * FIRST}, "group must be"),
    "negative": ({"rest": SECOND - 300, "outcome": 0 * FIRST}, "rest must be >= 0"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_exact_columns_that_contradict_each_other_are_refused(name):
    change, match = CONTRADICTIONS[name]
    call = {"group": FIRST, "rest": SECOND, "outcome": VOTES, "mechanism": dpi.Exact()} | change
    with pytest.raises(InvalidParameterError, match=match):
        ecological_bounds(**call)
    noise = dpi.Geometric(scale=1.0)
    if name == "votes of persons":
        # with noise nothing contradicts
        ecological_bounds(**call | {"mechanism": noise})
        with pytest.raises(InvalidParameterError, match="at position 7"):
            goodman(**call, assume="constant rates")


def test_soft_ends_are_unbiased_for_a_function_beyond_the_bound():
    """By exact sums over the noise, for one precinct repeated: E of the estimate is r >= min."""
    law, t = dpi.Geometric(scale=2.0), 9
    e = np.arange(-45, 46)
    mass = law.pmf(e)
    for x in (2, 9, 12):
        rows = np.repeat((x + e)[:, np.newaxis], 30, axis=1)
        found = ecological_bounds(
            rows, np.full_like(rows, 50), np.full_like(rows, t), method="soft",
            mechanism=(law, dpi.Geometric(scale=0.1)),
        )  # fmt: skip
        mean = mass @ found.most / 30
        w = np.sqrt(2.0 * law.variance)
        u = x - t
        inside = t - (w - u) ** 2 / (4 * w)
        r = x if u <= -w else t if u >= w else inside
        r += 4 * w / 9 * max(1 - (u / (2 * w)) ** 2, 0) ** 2
        assert mean == pytest.approx(r, abs=1e-7)
        assert r >= min(x, t) - 1e-12


def test_without_noise_they_are_the_bounds():
    for method in ("bound", "soft", "box"):
        found = ecological_bounds(FIRST, SECOND, VOTES, mechanism=dpi.Exact(), method=method)
        low, high = (np.sum(one) for one in found)
        assert low == pytest.approx(LEAST, abs=1e-6)
        assert high == pytest.approx(MOST, abs=1e-6)
    index = pd.MultiIndex.from_product([["n", "s"], range(30)], names=["area", "precinct"])
    a, b = (pd.Series(x, index) for x in (FIRST, SECOND))
    parts = ecological_bounds(a, b, VOTES, by="area", mechanism=dpi.Exact())
    assert parts.lower.sum() == LEAST
    assert list(parts.summary_frame().columns[-4:]) == [
        "least", "most", "plug_in_least", "plug_in_most",
    ]  # fmt: skip


def composed(m, seed, slope=0.0):
    rng = np.random.default_rng(seed)
    share, size = rng.uniform(0.1, 0.9, m), rng.integers(100, 400, m)
    first = rng.binomial(size, share)
    votes = rng.binomial(first, 0.6 - slope * (share - 0.5)) + rng.binomial(size - first, 0.3)
    noises = dpi.Laplace(scale=28.0).rvs((2, m), rng=rng)
    return first + noises[0], size - first + noises[1], votes, size


def test_goodman_is_right_where_rates_are_constant_and_not_where_not():
    """Of 30 at level 0.95, 21 or more: fewer by chance in 1 of 10⁵ if 93 % cover."""
    law = dpi.Laplace(scale=28.0)
    covered, naive, biased = 0, [], 0
    for seed in range(30):
        a, b, votes, _ = composed(300, seed)
        found = goodman(a, b, votes, mechanism=law, assume="constant rates")
        covered += bool(found["group"].contains(0.6)) and bool(found["rest"].contains(0.3))
        naive.append(found["group"].plug_in - 0.6)
        if seed < 10:
            a, b, votes, _ = composed(300, seed, slope=0.4)
            found = goodman(a, b, votes, mechanism=law, assume="constant rates")
            biased += bool(found["group"].contains(0.6))
    assert covered >= 21
    assert np.mean(naive) < -0.01
    assert biased <= 2
    assert found.guarantee.startswith("model")
    assert found.uncertainty == "noise+sampling"


def test_goodman_without_noise_is_least_squares():
    z = np.column_stack([FIRST, SECOND])
    found = goodman(FIRST, SECOND, VOTES, mechanism=dpi.Exact(), assume="constant rates")
    own = np.linalg.lstsq(z, VOTES, rcond=None)[0]
    np.testing.assert_allclose(found.estimate, own, rtol=1e-12)
    sized = goodman(
        FIRST, None, VOTES, sizes=FIRST + SECOND, mechanism=dpi.Exact(), assume="constant rates"
    )
    np.testing.assert_allclose(sized.estimate, own, rtol=1e-12)


def test_goodman_refuses_what_the_bounds_refute():
    first, second = np.full((2, 40), 100) + np.arange(40) * np.array([[1], [-1]])
    votes = 2 * first - 80
    with pytest.raises(NotEstimableError, match="rates are not constant"):
        goodman(first, second, votes, mechanism=dpi.Exact(), assume="constant rates")
    with pytest.raises(NotEstimableError, match="differ by more than the noise"):
        goodman(
            first // 20, second // 20, np.full(40, 4), mechanism=dpi.Geometric(scale=20.0),
            assume="constant rates",
        )  # fmt: skip


REFUSED = {
    "no assumption": {"assume": "yes"},
    "few": {"group": FIRST[:5], "rest": SECOND[:5], "outcome": VOTES[:5]},
    "both": {"sizes": FIRST + SECOND},
    "lengths": {"rest": SECOND[:5]},
    "outcome": {"outcome": VOTES[:5]},
    "negative": {"outcome": -VOTES},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"group": FIRST, "rest": SECOND, "outcome": VOTES, "assume": "constant rates"}
    call |= {"mechanism": dpi.Geometric(scale=2.0)} | REFUSED[name]
    with pytest.raises(InvalidParameterError):
        goodman(**call)
    call.pop("assume")
    if name not in ("no assumption", "few"):
        with pytest.raises(InvalidParameterError):
            ecological_bounds(**call)
    if name == "few":
        with pytest.raises(InvalidParameterError, match="fewer than 30"):
            ecological_bounds(**call, method="soft")


def test_outcomes_laid_out_otherwise_are_refused():
    a = np.array([[30.0, 55, 12], [40, 20, 35]])
    with pytest.raises(InvalidParameterError, match="as they are laid out"):
        ecological_bounds(a, a + 9, (a + 1).T, mechanism=dpi.Geometric(scale=1.0), rng=1)
